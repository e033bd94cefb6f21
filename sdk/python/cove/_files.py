"""Files of a box. A path is absolute, or from where commands start; ``~`` is the user's home. Of any size: what is
streamed takes a fixed amount of memory."""
from __future__ import annotations

import os
import tempfile
from typing import IO, Any, AsyncIterator, Dict, List, Optional, Union
from urllib.parse import parse_qs

from . import _tree
from ._client import AsyncClient, Body, Source, segment
from ._net import Net
from .errors import Denied, Invalid, NotFound
from .types import FileInfo

PathLike = Union[str, "os.PathLike[str]"]


def octal(mode: Optional[int]) -> Optional[str]:
    return None if mode is None else f"{mode:o}"


class AsyncFiles:
    """The files of one box. A box that is stopped is up for as long as the call."""

    def __init__(self, client: AsyncClient, box: str) -> None:
        self._client, self._base = client, f"/v1/boxes/{segment(box)}/files"
        self._net: Net = client._net

    # ---- content ----

    async def read(self, path: str, *, user: Optional[str] = None) -> bytes:
        """The bytes of a file."""
        return await self._client.request("GET", self._base, query={"path": path, "user": user})

    async def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict",
                        user: Optional[str] = None) -> str:
        """A file as text."""
        return (await self.read(path, user=user)).decode(encoding, errors)

    async def write(self, path: str, data: Union[str, bytes], *, mode: Optional[int] = None,
                    user: Optional[str] = None) -> None:
        """Writes a file, whole or not at all; a text is UTF-8. Directories above it are made."""
        await self._put(path, data.encode("utf-8") if isinstance(data, str) else bytes(data), mode, user)

    async def _put(self, path: str, body: Body, mode: Optional[int], user: Optional[str]) -> None:
        await self._client.request("PUT", self._base, body=body, repeat=True,
                                   query={"path": path, "mode": octal(mode), "user": user})

    async def upload(self, source: Union[PathLike, IO[Any]], path: str, *, mode: Optional[int] = None,
                     user: Optional[str] = None) -> None:
        """A local file, or a file object from where it stands, becomes the file at ``path``."""
        if isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                await self._put(path, Source(file), mode, user)
        else:
            await self._put(path, Source(source), mode, user)

    async def stream(self, path: str, *, user: Optional[str] = None) -> AsyncIterator[bytes]:
        """The bytes of a file piece by piece; of a directory, a tar. Where some of that cannot be read the error comes
        after the rest."""
        left_out: List[str] = []
        pieces = self._pieces(path, user, left_out)
        try:
            async for data in pieces:
                yield data
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
        if left_out:
            raise Denied("denied", f"below '{path}' cannot be read: {', '.join(left_out)}")

    async def _pieces(self, path: str, user: Optional[str], left_out: List[str]) -> AsyncIterator[bytes]:
        incoming = await self._client.open("GET", self._base, query={"path": path, "user": user}, repeat=True)
        try:
            while data := await incoming.piece():
                yield data
            for name, value in incoming.response.trailers:
                if name == "cove-left-out-name":
                    left_out += parse_qs(value).get("path", [])
                elif name == "cove-left-out" and value.isdecimal() and int(value) > len(left_out):
                    left_out.append("...")  # what the server did not name
        finally:
            incoming.close()

    async def download(self, path: str, to: Union[PathLike, IO[bytes]], *, user: Optional[str] = None) -> int:
        """A file of the box into a local file, which is whole or as it was, or into a file object. How many bytes."""
        if not isinstance(to, (str, os.PathLike)):
            return await self._into(path, to, user)
        with _tree.whole_file(os.fspath(to)) as file:
            return await self._into(path, file, user)

    async def _into(self, path: str, file: IO[bytes], user: Optional[str]) -> int:
        return await self._keep(self.stream(path, user=user), file)

    async def _keep(self, source: AsyncIterator[bytes], file: IO[bytes]) -> int:
        size = 0
        try:
            async for data in source:
                await self._net.offload(file.write, data)
                size += len(data)
        finally:
            await source.aclose()  # type: ignore[attr-defined]
        return size

    # ---- directories ----

    async def put_dir(self, local: PathLike, path: str, *, user: Optional[str] = None) -> None:
        """What is in a local directory comes into the directory ``path``, which is made where it is missing. Its files
        are the user's there."""
        with tempfile.TemporaryFile(prefix="cove-") as tar:
            await self._net.offload(_tree.pack, os.fspath(local), tar)
            tar.seek(0)
            await self.mkdir(path)
            await self._put(path, Source(tar), None, user)

    async def get_dir(self, path: str, local: PathLike, *, user: Optional[str] = None) -> List[str]:
        """What is in a directory of the box comes into a local one, which is made where it is missing. Names what was
        left out: what may not be read, links that lead out of it, and what is neither file, directory nor link."""
        if not (await self.stat(path)).is_dir:
            raise Invalid("invalid", f"'{path}' is no directory")
        with tempfile.TemporaryFile(prefix="cove-") as tar:
            left_out: List[str] = []
            await self._keep(self._pieces(path, user, left_out), tar)
            tar.seek(0)
            return left_out + await self._net.offload(_tree.Unpacker(os.fspath(local)).unpack, tar)

    async def list(self, path: str = ".") -> List[FileInfo]:
        """What is in a directory, by name."""
        entries = (await self._client.json("GET", f"{self._base}/list", query={"path": path}))["entries"]
        return sorted((FileInfo.from_json(entry) for entry in entries), key=lambda info: info.name)

    async def mkdir(self, path: str, *, mode: Optional[int] = None) -> None:
        """Makes a directory, and those above it. One that is there is fine."""
        await self._change("mkdir", path, {"mode": octal(mode)} if mode is not None else {}, repeat=True)

    # ---- what is there ----

    async def stat(self, path: str) -> FileInfo:
        """What is there; a link is a link."""
        return FileInfo.from_json(await self._client.json("GET", f"{self._base}/stat", query={"path": path}))

    async def exists(self, path: str) -> bool:
        """Whether something is there; a link counts, wherever it leads."""
        try:
            await self.stat(path)
        except NotFound:
            return False
        return True

    # ---- changes ----

    async def _change(self, what: str, path: str, fields: Dict[str, Optional[str]], repeat: bool) -> None:
        await self._client.request("POST", f"{self._base}/{what}", query={"path": path}, json=fields, repeat=repeat)

    async def move(self, path: str, to: str) -> None:
        """Gives a file or directory another name."""
        await self._change("move", path, {"to": to}, repeat=False)

    async def chmod(self, path: str, mode: int) -> None:
        """Sets permissions, as 0o755."""
        await self._change("chmod", path, {"mode": octal(mode)}, repeat=True)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or an empty directory; with ``recursive`` a directory and what is in it. What is not there is
        fine."""
        await self._client.request("DELETE", self._base, repeat=True,
                                   query={"path": path, "recursive": recursive or None})
