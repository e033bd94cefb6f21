"""Local files and directories, the latter as tars. What comes out of a box is untrusted: nothing of it is followed on
the way to its place."""
from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tarfile
from typing import IO, Any, Iterator, List, Optional, Set, Tuple

from .errors import ProtocolError

COPY_BYTES = 256 << 10
HEADER_MAX = 1 << 20
HEADER_TYPES = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
                tarfile.GNUTYPE_LONGLINK)


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """A local file to be written, which is whole at the end of `with`, or as it was. What is no file, as a pipe or
    /dev/null, is written as it comes."""
    local = os.path.realpath(path)
    if os.path.exists(local) and not os.path.isfile(local):
        with open(local, "wb") as there:
            yield there
        return
    beside = os.path.join(os.path.dirname(local), f".cove-{secrets.token_hex(16)}")
    file = open(beside, "xb")
    try:
        with file:
            yield file
        os.replace(beside, local)
    except BaseException:
        os.unlink(beside)
        raise


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
    """A link to somewhere else could lead whoever walks through the directory later out of it. Its ``..`` are at its
    beginning alone, and no more than it is deep: so it stays, whatever else is a link."""
    words = [word for word in target.split("/") if word not in ("", ".")]
    ups = 0
    while ups < len(words) and words[ups] == "..":
        ups += 1
    return not target.startswith("/") and "\0" not in target and ups < len(parts) and ".." not in words[ups:]


def stamp(fd: int, mtime: float) -> None:
    """Its time; one that cannot be is left out."""
    try:
        os.utime(fd, (mtime, mtime))
    except (ValueError, OverflowError):
        pass


class Entry(tarfile.TarInfo):
    """One whose further headers, which tarfile keeps in memory, have a maximum."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in HEADER_TYPES and self.size > HEADER_MAX:
            raise tarfile.ReadError("a header is too long")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]


class Unpacker:
    """A tar of one directory into another."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.left_out: List[str] = []
        self._modes: List[Tuple[List[str], int, float]] = []
        self._files: Set[Tuple[int, int]] = set()  # that came

    @staticmethod
    def _unlink(at: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=at)
        except FileNotFoundError:
            pass

    def _file(self, tar: tarfile.TarFile, info: tarfile.TarInfo, at: int, name: str) -> None:
        source = tar.extractfile(info)
        assert source
        self._unlink(at, name)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
        with os.fdopen(fd, "wb") as to:
            while data := source.read(COPY_BYTES):
                to.write(data)
            to.flush()
            os.fchmod(fd, info.mode & 0o755)
            stamp(fd, info.mtime)
            is_of = os.fstat(fd)
            self._files.add((is_of.st_dev, is_of.st_ino))

    def _symlink(self, info: tarfile.TarInfo, at: int, parts: List[str]) -> bool:
        """False: it is left out."""
        if not link_stays(parts, info.linkname):
            return False
        self._unlink(at, parts[-1])
        os.symlink(info.linkname, parts[-1], dir_fd=at)
        return True

    def _hard_link(self, info: tarfile.TarInfo, at: int, parts: List[str]) -> bool:
        """Another name of a file that came. Of a link it would be one that leads elsewhere from there, and what was
        there before is no box's to name."""
        target = parts_of(info.linkname)
        if not target:
            return False
        there = open_parent(self._root, target)
        try:
            is_of = os.stat(target[-1], dir_fd=there, follow_symlinks=False)
            if (is_of.st_dev, is_of.st_ino) not in self._files:
                return False
            self._unlink(at, parts[-1])
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
            elif info.isreg() and not info.issparse():  # no server sends holes: it could be of any size
                self._file(tar, info, at, parts[-1])
            elif info.issym():
                return self._symlink(info, at, parts)
            else:
                return info.islnk() and self._hard_link(info, at, parts)
        finally:
            os.close(at)
        return True

    def unpack(self, source: IO[Any]) -> List[str]:
        """The names of what was left out: links that lead out of the directory, devices and the like, and what does
        not fit to what is there (a link where a directory is needed)."""
        try:
            return self._unpack(source)
        except (tarfile.TarError, ValueError, RecursionError) as error:
            raise ProtocolError("protocol", f"the archive cannot be read: {error}") from error
        finally:
            os.close(self._root)

    def _unpack(self, source: IO[Any]) -> List[str]:
        with tarfile.open(fileobj=source, mode="r|", tarinfo=Entry) as tar:
            for info in tar:
                try:
                    good = self._entry(tar, info)
                except (FileExistsError, NotADirectoryError, IsADirectoryError, FileNotFoundError):
                    good = False
                except OSError as error:
                    if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):  # a link is in the way
                        raise
                    good = False
                if not good:
                    self.left_out.append(info.name)
        for parts, mode, mtime in reversed(self._modes):
            self._finish(parts, mode, mtime)
        return self.left_out

    def _finish(self, parts: List[str], mode: int, mtime: float) -> None:
        fd = open_parent(self._root, [*parts, ""])
        try:
            os.fchmod(fd, mode)
            stamp(fd, mtime)
        finally:
            os.close(fd)
