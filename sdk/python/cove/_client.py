"""Requests: connections that are kept, what may be repeated, answers. Shared by all sandboxes of a server."""
from __future__ import annotations

import io
import json as jsonlib
import os
import secrets
import ssl
import sys
import threading
import time
from typing import IO, Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from . import _images, _private, _tree
from ._http import EventParser, Head, Response, ServerEvent, request_head
from ._net import AsyncNet, Endpoint, Net, Stream, SyncNet, drive
from ._ws import Socket, check_answer, frame, handshake
from .errors import ConnectionFailed, ConnectionLost, CoveError, ProtocolError, TooLarge, error_from
from .types import Command, CommonOptions, Json, RunResult, Seconds, Snapshot

VERSION = "0.1.0"
PIECE = 256 << 10  # of a body that is sent
ANSWER_MAX = 80 << 20
IDLE_MAX = 16
PAUSES = (0.05, 0.5)  # seconds before a request is repeated, and again: a server that is killed takes a moment to go
SERVER_END_SECONDS = 20.0


class Source:
    """A body from a file object, from where it stands."""

    def __init__(self, file: IO[Any]) -> None:
        self._file = file
        self.length: Optional[int] = None  # not known: of a pipe, or of a file of text, whose bytes are made here
        try:
            self._start: Optional[int] = file.tell() if file.seekable() else None
            if self._start is not None and not isinstance(file, io.TextIOBase):
                self.length = file.seek(0, os.SEEK_END) - self._start
                file.seek(self._start)
        except (AttributeError, OSError):
            self._start = None

    @property
    def repeatable(self) -> bool:
        return self._start is not None

    def rewind(self) -> None:
        if self._start is not None:
            self._file.seek(self._start)

    def piece(self, size: int) -> bytes:
        data = self._file.read(size)
        if data is None:
            raise BlockingIOError("a file that does not block cannot be sent")
        return data.encode("utf-8") if isinstance(data, str) else data


Body = Union[None, bytes, Source]


class Incoming:
    """An answer whose body is read piece by piece. Whoever does not read it to its end closes it."""

    def __init__(self, net: Net, stream: Stream, response: Response, whole_request: bool,
                 timeout: Optional[float]) -> None:
        assert response.head
        self.head: Head = response.head
        self.stream, self.response = stream, response
        self._net, self._keep, self._timeout = net, whole_request, timeout
        self._open = True
        if response.ended:
            self._release()

    def _release(self) -> None:
        if not self._open:
            return
        self._open = False
        idle = self._net.idle()
        if self._keep and self.response.reusable and len(idle) < IDLE_MAX and not self.stream.readable():
            idle.append(self.stream)
        elif self.head.status != 101:
            self.stream.close()

    async def piece(self) -> bytes:
        """b"" at the end."""
        try:
            while (data := self.response.take()) is None:
                self.response.feed(await self.stream.read(self._timeout))
        except BaseException:
            self.close()
            raise
        if self.response.ended:
            self._release()
        return data

    async def read(self, most: int = ANSWER_MAX) -> bytes:
        """All of it."""
        parts, size = [], 0
        while data := await self.piece():
            parts.append(data)
            size += len(data)
            if size > most:
                self.close()
                raise TooLarge("too_large", f"the answer is longer than {most} bytes")
        return b"".join(parts)

    async def events(self) -> AsyncIterator[ServerEvent]:
        parser = EventParser()
        try:
            while data := await self.piece():
                for event in parser.feed(data):
                    yield event
        finally:
            self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self.stream.close()


class Channel:
    """A WebSocket. One may send while another receives."""

    def __init__(self, net: Net, incoming: Incoming) -> None:
        self._stream, self._socket, self._lock = incoming.stream, Socket(), net.lock()
        self._first = bytes(incoming.response.rest)
        self.closed = False

    async def _answer(self) -> None:
        if self._socket.out:
            out = bytes(self._socket.out)
            self._socket.out.clear()
            try:
                async with self._lock:
                    await self._stream.write(out)
            except OSError:  # the next read says so
                pass

    async def receive(self, timeout: Optional[float] = None) -> Optional[List[Union[str, bytes]]]:
        """The next messages, perhaps none yet; None at the end."""
        if self.closed:
            return None
        data = self._first or await self._stream.read(timeout)
        self._first = b""
        try:
            messages = self._socket.feed(data)
            await self._answer()
        except ProtocolError:
            await self._answer()
            self.close()
            raise
        if not data or self._socket.closed:
            self.close()
        return messages if messages or not self.closed else None

    async def send(self, message: Union[str, bytes]) -> None:
        data = frame(1, message.encode("utf-8")) if isinstance(message, str) else frame(2, message)
        try:
            async with self._lock:
                await self._stream.write(data)
        except OSError as error:
            raise ConnectionLost("connection_lost", f"the connection to the command is gone: {error}") from error

    def close(self) -> None:
        self.closed = True
        self._stream.close()


def parse_host(text: str, context: Optional[ssl.SSLContext] = None) -> Tuple[Endpoint, str]:
    """(endpoint, what all paths begin with) of "http://H:P", "https://H", "unix:/path"."""
    if text.startswith("unix:"):
        path = text[5:]
        path = path[2:] if path.startswith("///") else path
        if not path.startswith("/"):
            raise ValueError(f"'{text}': the path of a Unix socket is absolute, as unix:/run/cove.sock")
        return Endpoint(path=path), ""
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None or url.query:
        raise ValueError(f"'{text}' is no server: http://HOST:PORT, https://HOST or unix:/PATH")
    tls = (context or ssl.create_default_context()) if url.scheme == "https" else None
    return Endpoint(None, url.hostname, url.port or (443 if tls else 80), tls), url.path.rstrip("/")


class AsyncClient:
    """A server as asyncio programs talk to it. Sandboxes that are given none share one of the process.

    host: "http://HOST:PORT", "https://HOST", "unix:/PATH"; left out: $COVE_HOST, and without that a private server is
    started, which ends with this process. api_key: left out: $COVE_API_KEY. cove, home: the program and the state
    directory of a private server. timeout: seconds without a byte of an answer until Timeout is raised; commands
    are silent for as long as they run, so by default there is none. reconnect_timeout: how long a server that answered
    before may be away, as while it is restarted.
    """

    def __init__(self, host: Optional[str] = None, api_key: Optional[str] = None, *, cove: Optional[str] = None,
                 home: Optional[str] = None, timeout: Optional[float] = None, connect_timeout: float = 10.0,
                 reconnect_timeout: float = 15.0, ssl_context: Optional[ssl.SSLContext] = None,
                 _net: Optional[Net] = None) -> None:
        host = host or os.environ.get("COVE_HOST") or None
        self._key = api_key or os.environ.get("COVE_API_KEY") or None
        self._net = _net or AsyncNet()
        self._timeout, self._connect_timeout = timeout, connect_timeout
        self._reconnect_timeout = reconnect_timeout
        self._reached = False
        self.server: Optional[_private.PrivateServer] = None
        self._endpoint: Optional[Endpoint] = None
        self._prefix = ""
        if host:
            self._endpoint, self._prefix = parse_host(host, ssl_context)
        else:
            self.server = _private.server_for(cove, home)

    # ---- connections ----

    async def _connect_once(self) -> Tuple[Stream, Endpoint]:
        to = self._endpoint
        if self.server:
            to = await self._net.offload(self.server.endpoint)
        assert to
        return await self._net.connect(to, self._connect_timeout), to

    async def _connect(self) -> Tuple[Stream, Endpoint]:
        """A server that answered before may be restarting: it is waited for. Nothing was sent yet."""
        end, pause = time.monotonic() + self._reconnect_timeout, 0.02
        while True:
            try:
                return await self._connect_once()
            except OSError as error:
                if not self._reached or time.monotonic() > end or isinstance(error, ssl.SSLError):
                    where = self._endpoint or "the private server"
                    raise ConnectionFailed("connection", f"{where} cannot be reached: {error}") from error
            await self._net.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _take(self) -> Tuple[Stream, Optional[Endpoint]]:
        idle = self._net.idle()
        while idle:
            try:
                stream = idle.pop()
            except IndexError:  # another thread was faster
                break
            if not stream.readable():
                return stream, self._endpoint
            stream.close()
        return await self._connect()

    def _drop_idle(self) -> None:
        idle = self._net.idle()
        while idle:
            try:
                idle.pop().close()
            except IndexError:
                break

    # ---- exchanges ----

    async def _send_body(self, stream: Stream, head: bytes, body: Source) -> bool:
        """False where the server answered before all of it was sent."""
        await stream.write(head)
        left = body.length
        while left is None or left > 0:
            if stream.readable():
                return False
            data = await self._net.offload(body.piece, PIECE if left is None else min(left, PIECE))
            if left is not None and not 0 < len(data) <= left:
                raise ValueError("the file that is sent does not give as many bytes as it said")
            if left is None:
                await stream.write(b"%x\r\n%s\r\n" % (len(data), data))
                if not data:
                    return True
            else:
                await stream.write(data)
                left -= len(data)
        return True

    async def _exchange(self, stream: Stream, method: str, head: bytes, body: Body) -> Incoming:
        whole, broken, response = True, None, Response(method)
        try:
            if isinstance(body, Source):
                whole = await self._send_body(stream, head, body)
            else:
                await stream.write(head + (body or b""))
        except (BrokenPipeError, ConnectionError) as error:
            whole, broken = False, error  # the answer may be there all the same
        while response.head is None:
            try:
                response.feed(await stream.read(self._timeout))
            except ConnectionLost as lost:
                raise lost from broken
        self._reached = True
        return Incoming(self._net, stream, response, whole, self._timeout)

    def _head(self, method: str, path: str, query: Optional[Mapping[str, object]], fields: Mapping[str, str],
              body: Body, endpoint: Optional[Endpoint]) -> bytes:
        all_fields = {"Host": endpoint.authority if endpoint else "localhost", "User-Agent": f"cove-python/{VERSION}"}
        if self._key:
            all_fields["Authorization"] = f"Bearer {self._key}"
        all_fields.update(fields)
        length = body.length if isinstance(body, Source) else len(body) if body is not None else None
        if length is not None:
            all_fields["Content-Length"] = str(length)
        elif body is not None:
            all_fields["Transfer-Encoding"] = "chunked"
        elif method in ("POST", "PUT"):
            all_fields["Content-Length"] = "0"
        given = {k: ("true" if v else "false") if isinstance(v, bool) else v
                 for k, v in (query or {}).items() if v is not None}
        target = self._prefix + path + ("?" + urlencode(given, quote_via=quote, errors="surrogateescape")
                                        if given else "")
        return request_head(method, target, all_fields)

    async def open(self, method: str, path: str, *, query: Optional[Mapping[str, object]] = None, json: object = None,
                   body: Body = None, fields: Optional[Mapping[str, str]] = None, repeat: bool = False,
                   is_port: bool = False) -> Incoming:
        """Sends a request; its answer up to the body. repeat: it may be sent again after a lost connection, as doing
        it twice is doing it once. is_port: a program in a box answers, and may say what it likes."""
        sent = dict(fields or {})
        if json is not None:
            body = jsonlib.dumps(json).encode("utf-8", "surrogatepass")
            sent["Content-Type"] = "application/json"
        elif body is not None:
            sent.setdefault("Content-Type", "application/octet-stream")
        pauses = list(PAUSES) if repeat and may_repeat(body) else []
        while True:
            stream, endpoint = await self._take()
            try:
                if isinstance(body, Source):
                    body.rewind()
                head = self._head(method, path, query, sent, body, endpoint)
                incoming = await self._exchange(stream, method, head, body)
            except ConnectionLost:
                stream.close()
                self._drop_idle()
                if not pauses:
                    raise
                await self._net.sleep(pauses.pop(0))
                continue
            except BaseException:
                stream.close()
                raise
            if incoming.head.status >= 400 and not (is_port and "cove-port" in incoming.head.fields):
                said = await incoming.read(1 << 20)
                raise error_from(said, incoming.head.status, incoming.head.fields.get("x-request-id"))
            return incoming

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        """The whole answer. A GET may always be repeated; so may what is lost while its answer is read."""
        pauses = list(PAUSES) if how.pop("repeat", method == "GET") and may_repeat(how.get("body")) else []
        while True:
            try:
                return await (await self.open(method, path, **how)).read()
            except ConnectionLost:
                if not pauses:
                    raise
                await self._net.sleep(pauses.pop(0))

    async def json(self, method: str, path: str, **how: Any) -> Json:
        """Any operation of the server, also one that this package has no method for: the object that the answer is, {}
        where it has no content. query, json: as docs/api/openapi.yaml has them."""
        data = await self.request(method, path, **how)
        try:
            value = jsonlib.loads(data) if data else {}
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ProtocolError("protocol", "the answer is no JSON object")
        return value

    async def socket(self, path: str) -> Channel:
        """A WebSocket. One of the connections that are kept is no good for that: it must be the first request."""
        fields = handshake()
        stream, endpoint = await self._connect()
        try:
            head = self._head("GET", path, None, fields, None, endpoint)
            incoming = await self._exchange(stream, "GET", head, None)
            if incoming.head.status != 101:
                said = await incoming.read(1 << 20)
                raise error_from(said, incoming.head.status, incoming.head.fields.get("x-request-id"))
            check_answer(fields, incoming.head)
        except BaseException:
            stream.close()
            raise
        return Channel(self._net, incoming)

    # ---- the server's own ----

    async def version(self) -> Json:
        """The server's version, its least wall, how long it has run."""
        return await self.json("GET", "/v1/version")

    async def workspaces(self) -> List[Json]:
        """Your workspaces."""
        return await _images.pages(self, "/v1/workspaces", "workspaces")

    async def remove_workspace(self, name: str) -> None:
        """Removes a workspace and what is in it."""
        await self.request("DELETE", f"/v1/workspaces/{segment(name)}")

    async def snapshots(self, box: Optional[str] = None) -> List[Snapshot]:
        """Your snapshots, oldest first; those of one box, where one is named."""
        rows = await _images.pages(self, "/v1/snapshots", "snapshots", {"box": box})
        return [Snapshot.from_json(row) for row in rows]

    async def remove_snapshot(self, snapshot: Union[str, Snapshot]) -> None:
        """Removes a snapshot."""
        name = snapshot.name if isinstance(snapshot, Snapshot) else snapshot
        await self.request("DELETE", f"/v1/snapshots/{segment(name)}")

    # ---- images ----

    async def images(self) -> List[Json]:
        """The images that you can use: your own, and the operator's, which all share."""
        return await _images.pages(self, "/v1/images", "images")

    async def image(self, name: str) -> Json:
        """Everything known about an image."""
        return await self.json("GET", f"/v1/images/{segment(name)}")

    async def tag_image(self, name: str, tag: str) -> None:
        """A second name for an image, whatever that meant before."""
        await self.request("POST", f"/v1/images/{segment(name)}/tags", json={"tag": tag}, repeat=True)

    async def remove_image(self, name: str) -> None:
        """Removes one of your images; boxes that were made of it stay."""
        await self.request("DELETE", f"/v1/images/{segment(name)}")

    async def pull_image(self, ref: str, *, name: Optional[str] = None, platform: Optional[str] = None,
                         on_event: Optional[_images.OnEvent] = None) -> Json:
        """An image of a registry: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]."""
        asked = {k: v for k, v in {"ref": ref, "name": name, "platform": platform}.items() if v is not None}
        return await _images.result_of(self, "/v1/images/pull", on_event, json=asked,
                                       fields={"Accept": "text/event-stream"})

    async def import_image(self, name: str, archive: Union[_images.PathLike, IO[bytes]], *,
                           user: Optional[str] = None) -> Json:
        """An image of an archive: a root filesystem as a tar, which may be compressed, an OCI layout as a tar, or what
        docker save writes. A path, or a file from where it stands."""
        if not hasattr(archive, "read"):
            with open(archive, "rb") as file:
                return await self.import_image(name, file, user=user)
        answer = await self.json("POST", "/v1/images/import", query={"name": name, "user": user}, body=Source(archive))
        image: Json = answer["images"][0]
        return image

    async def export_image(self, name: str, to: Union[_images.PathLike, IO[bytes]], *, format: str = "oci") -> int:
        """An image as an archive ("oci", "docker", or "tar": its root filesystem), into a local file, which is whole or
        as it was, or into a file object. How many bytes."""
        if not hasattr(to, "write"):
            with _tree.whole_file(os.fspath(to)) as file:
                return await self.export_image(name, file, format=format)
        incoming = await self.open("GET", f"/v1/images/{segment(name)}/export", query={"format": format})
        size = 0
        try:
            while data := await incoming.piece():
                await self._net.offload(to.write, data)
                size += len(data)
        finally:
            incoming.close()
        return size

    async def build_image(self, name: str, context: Union[None, _images.PathLike, IO[bytes]] = None, *,
                          text: Optional[str] = None, dockerfile: Optional[str] = None,
                          args: Optional[Mapping[str, str]] = None, target: Optional[str] = None,
                          secrets: Optional[Mapping[str, Union[str, bytes]]] = None, no_cache: bool = False,
                          net: Optional[str] = None, timeout: Optional[Seconds] = None,
                          on_event: Optional[_images.OnEvent] = None) -> Json:
        """An image from a Dockerfile. context: a directory, a tar, or a file of one; text: the Dockerfile, where it is
        none of the context's. secrets: for RUN --mount=type=secret, by id. on_event gets each step and its output."""
        options = {"text": text, "dockerfile": dockerfile, "args": dict(args) if args else None, "target": target,
                   "no_cache": no_cache or None, "net": net, "timeout": timeout}
        return await _images.build(self, Source, name, context, options, secrets or {}, on_event)

    # ---- runs ----

    async def run(self, command: Command, *, image: Optional[str] = None,
                  files: Optional[Mapping[str, Union[str, bytes]]] = None, outputs: Sequence[str] = (),
                  timeout: Optional[Seconds] = None, cwd: Optional[str] = None, user: Optional[str] = None,
                  stdin: Union[None, str, bytes] = None, box: Optional[CommonOptions] = None) -> RunResult:
        """A command in a fresh box that is gone afterwards. files: what it finds, by path; outputs: paths of what is
        brought back, after a failure too. box: further options of it. cwd, user: the command's."""
        return await _images.run(self, command, files, outputs, {"image": image, **(box or {})}, timeout=timeout,
                                 cwd=cwd, user=user, stdin=stdin)

    async def close(self) -> None:
        """Closes the connections that are kept. A private server goes on until the process ends."""
        self._drop_idle()
        if self._net.is_async:
            await self._net.sleep(0)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def may_repeat(body: Body) -> bool:
    return not isinstance(body, Source) or body.repeatable


def segment(text: Union[str, int]) -> str:
    """A name as one part of a path; never one that leads elsewhere."""
    text = str(text)
    if text in ("", ".", ".."):
        raise ValueError(f"'{text}' is no name")
    return quote(text, safe="", errors="surrogateescape")


def token() -> str:
    """A name of one request, never used before."""
    return secrets.token_hex(16)


# ---- the clients that sandboxes share ----

_shared: Dict[Tuple[object, ...], AsyncClient] = {}
_shared_lock = threading.Lock()


def shared_client(host: Optional[str], api_key: Optional[str], blocking: bool) -> AsyncClient:
    """The one of this process for what arguments and environment say now."""
    env = os.environ.get
    key = (host or env("COVE_HOST"), api_key or env("COVE_API_KEY"), env("COVE_BIN"), env("COVE_HOME"), blocking)
    with _shared_lock:
        if key not in _shared:
            home = None if key[0] else env("COVE_HOME")
            _shared[key] = AsyncClient(host, api_key, home=home, _net=SyncNet() if blocking else AsyncNet())
        return _shared[key]


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


def _remove_boxes(server: _private.PrivateServer) -> None:
    """As the process ends: those that would not have outlived their `with` either."""
    client = AsyncClient("unix:/", _net=SyncNet(), timeout=SERVER_END_SECONDS)
    client._endpoint, client.server = None, server
    while server.ephemeral:
        name = server.ephemeral.pop()
        try:
            drive(client.request("DELETE", f"/v1/boxes/{segment(name)}", query={"force": True}))
        except CoveError as error:
            print(f"cove: the box '{name}' could not be removed: {error}", file=sys.stderr)
    drive(client.close())


os.register_at_fork(after_in_child=_after_fork)
_private.remove_boxes = _remove_boxes
