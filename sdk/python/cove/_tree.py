"""Directories as tars. What comes out of a box is untrusted: nothing of it is followed on the way to its place."""
from __future__ import annotations

import errno
import os
import posixpath
import tarfile
from typing import IO, Any, List, Optional, Tuple

COPY_BYTES = 256 << 10


def pack(directory: str, into: IO[bytes]) -> None:
    """What is in a directory, without its own name and without its owners; what is neither file, directory nor link
    is left out."""
    def plain(info: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info if info.isreg() or info.isdir() or info.issym() or info.islnk() else None

    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(os.listdir(directory)):
            tar.add(os.path.join(directory, name), arcname=name, filter=plain)


def parts_of(name: str) -> Optional[List[str]]:
    """The names on the way to an entry, without the directory that all are in; None for what leads elsewhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        return None
    return parts[1:]


def open_parent(root: int, parts: List[str]) -> int:
    """The directory that an entry belongs into, made where it is missing; no link is followed."""
    at = os.dup(root)
    try:
        for part in parts[:-1]:
            try:
                os.mkdir(part, 0o755, dir_fd=at)
            except FileExistsError:
                pass
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
    except BaseException:
        os.close(at)
        raise
    return at


def link_stays(parts: List[str], target: str) -> bool:
    """A link to somewhere else could lead whoever walks through the directory later out of it."""
    if target.startswith("/"):
        return False
    at = posixpath.normpath(posixpath.join(*parts[:-1], target) if len(parts) > 1 else target)
    return at != ".." and not at.startswith("../")


class Unpacker:
    """A tar of one directory into another."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.left_out: List[str] = []
        self._modes: List[Tuple[List[str], int, float]] = []

    def _file(self, tar: tarfile.TarFile, info: tarfile.TarInfo, at: int, name: str) -> None:
        source = tar.extractfile(info)
        assert source
        try:
            os.unlink(name, dir_fd=at)
        except FileNotFoundError:
            pass
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
        with os.fdopen(fd, "wb") as to:
            while data := source.read(COPY_BYTES):
                to.write(data)
            to.flush()
            os.fchmod(fd, info.mode & 0o755)
            os.utime(fd, (info.mtime, info.mtime))

    def _link(self, info: tarfile.TarInfo, at: int, parts: List[str]) -> bool:
        """False: it is left out."""
        target = parts_of(info.linkname) if info.islnk() else None
        if (info.issym() and not link_stays(parts, info.linkname)) or (info.islnk() and not target):
            return False
        try:
            os.unlink(parts[-1], dir_fd=at)
        except FileNotFoundError:
            pass
        if info.issym():
            os.symlink(info.linkname, parts[-1], dir_fd=at)
            return True
        assert target
        there = open_parent(self._root, target)
        try:
            os.link(target[-1], parts[-1], src_dir_fd=there, dst_dir_fd=at, follow_symlinks=False)
        finally:
            os.close(there)
        return True

    def _entry(self, tar: tarfile.TarFile, info: tarfile.TarInfo) -> bool:
        parts = parts_of(info.name)
        if parts is None:
            return False
        if not parts:  # the directory itself
            return info.isdir()
        at = open_parent(self._root, parts)
        try:
            if info.isdir():
                os.close(open_parent(self._root, [*parts, ""]))
                self._modes.append((parts, info.mode & 0o755 | 0o700, info.mtime))
            elif info.isreg():
                self._file(tar, info, at, parts[-1])
            elif info.issym() or info.islnk():
                return self._link(info, at, parts)
            else:
                return False
        finally:
            os.close(at)
        return True

    def unpack(self, source: IO[Any]) -> List[str]:
        """The names of what was left out: links that lead out of the directory, devices and the like, and what does
        not fit to what is there (a link where a directory is needed)."""
        try:
            with tarfile.open(fileobj=source, mode="r|") as tar:
                for info in tar:
                    try:
                        good = self._entry(tar, info)
                    except (FileExistsError, NotADirectoryError, IsADirectoryError, FileNotFoundError):
                        good = False
                    except OSError as error:
                        if error.errno != errno.ELOOP:  # a link is in the way
                            raise
                        good = False
                    if not good:
                        self.left_out.append(info.name)
            for parts, mode, mtime in reversed(self._modes):
                self._finish(parts, mode, mtime)
        finally:
            os.close(self._root)
        return self.left_out

    def _finish(self, parts: List[str], mode: int, mtime: float) -> None:
        fd = open_parent(self._root, [*parts, ""])
        try:
            os.fchmod(fd, mode)
            os.utime(fd, (mtime, mtime))
        finally:
            os.close(fd)
