"""HTTP/1.1 of a client and server-sent events, without any I/O: bytes in, events out.

One exchange is a Response object: feed() it what the connection brings until ``head`` is there, then take() the body.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from .errors import ConnectionLost, ProtocolError

HEAD_MAX = 64 << 10
LINE_MAX = 1 << 10  # of a chunk's size, or a trailer
TRAILERS_MAX = 100
EVENT_MAX = 16 << 20
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEAD_END = re.compile(rb"\r?\n\r?\n")
STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\x00-\x08\x0a-\x1f]*)?")


def request_head(method: str, target: str, fields: Mapping[str, str]) -> bytes:
    """The head of a request. Nothing that a caller gives can begin another line."""
    lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields.items()]
    for line in lines:
        if any(c in line for c in "\r\n\0"):
            raise ValueError("a line break in a request's head")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


@dataclass
class Head:
    """Of a response. Names of fields are in lower case."""

    status: int
    fields: Dict[str, str]
    is_1_0: bool = False


def parse_head(block: bytes) -> Head:
    """The block is without the empty line at its end."""
    lines = block.replace(b"\r\n", b"\n").split(b"\n")
    match = STATUS.fullmatch(lines[0])
    if not match:
        raise ProtocolError("protocol", "the answer is not HTTP/1.1")
    fields: Dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not TOKEN.fullmatch(name):
            raise ProtocolError("protocol", "a line of the answer's head cannot be read")
        key = name.decode("ascii").lower()
        text = value.strip(b" \t").decode("latin-1")
        fields[key] = f"{fields[key]}, {text}" if key in fields else text
    return Head(int(match.group(2)), fields, match.group(1) == b"0")


class Response:
    """One answer: first its head, then its body in pieces. What follows it stays in ``rest``."""

    def __init__(self, method: str = "GET") -> None:
        self.head: Optional[Head] = None
        self.ended = False  # the body is whole
        self._is_head = method == "HEAD"  # then there is none, whatever the head says of its length
        self.trailers: List[Tuple[str, str]] = []  # then
        self.rest = bytearray()
        self._length: Optional[int] = None  # that is left of a body, or of a chunk
        self._chunked = False
        self._place = "size"  # in a chunked body: "size", "data", "crlf", "trailer"
        self._eof = False
        self._ready = b""  # of a body, before rest
        self._searched = 0  # of a head, without finding its end

    # ---- in ----

    def feed(self, data: bytes) -> None:
        """b"" is the end of the connection."""
        if not data:
            self._eof = True
        elif self.head and not self.rest and not self._ready and not self._chunked and len(data) <= (self._length or 0):
            self._ready = data  # much of a large body comes so, and is not copied
        else:
            self.rest += data
        if self.head is None:
            self._read_head()

    def _read_head(self) -> None:
        while self.head is None:
            end = HEAD_END.search(self.rest, max(0, self._searched - 3))
            if not end or end.start() > HEAD_MAX:
                if len(self.rest) > HEAD_MAX:
                    raise ProtocolError("protocol", "the answer's head is too long")
                if self._eof:
                    raise ConnectionLost("connection_lost", "the connection ended before the answer")
                self._searched = len(self.rest)
                return
            self._searched = 0
            head = parse_head(bytes(self.rest[:end.start()]))
            del self.rest[:end.end()]
            if head.status == 101 or head.status >= 200:
                self.head = head
                self._begin_body(head)

    def _begin_body(self, head: Head) -> None:
        coding = head.fields.get("transfer-encoding", "").lower()
        length = head.fields.get("content-length")
        if self._is_head or head.status in (101, 204, 304):
            self.ended = True
        elif coding:
            if coding != "chunked":
                raise ProtocolError("protocol", f"a transfer coding '{coding[:40]}' is not known")
            self._chunked = True
        elif length is not None:
            sizes = {size.strip() for size in length.split(",")}
            if len(sizes) != 1 or not re.fullmatch(r"[0-9]{1,18}", size := sizes.pop()):
                raise ProtocolError("protocol", "the answer's length cannot be read")
            self._length = int(size)
            self.ended = self._length == 0

    # ---- out ----

    @property
    def reusable(self) -> bool:
        """Another request may follow on this connection."""
        if not self.ended or self.rest or self._eof or self.head is None or self.head.status == 101:
            return False
        said = self.head.fields.get("connection", "").lower()
        framed = self._is_head or self._chunked or self._length is not None or self.head.status in (204, 304)
        return framed and not self.head.is_1_0 and "close" not in said

    def take(self) -> Optional[bytes]:
        """The next piece of the body, b"" at its end, None where more must be fed first."""
        if self.ended:
            return b""
        if self._chunked:
            return self._take_chunk()
        if self._length is None:  # as long as the connection
            data = bytes(self.rest)
            self.rest.clear()
            self.ended = not data and self._eof
            return data if data or self.ended else None
        return self._take_counted()

    def _take_counted(self) -> Optional[bytes]:
        assert self._length is not None
        data, self._ready = self._ready, b""
        if not data:
            with memoryview(self.rest) as rest:
                data = bytes(rest[:self._length])
            del self.rest[:len(data)]
        self._length -= len(data)
        self.ended = self._length == 0 and not self._chunked
        if not data and self._eof:
            raise ConnectionLost("connection_lost", "the connection ended in the middle of the answer")
        return data or None

    def _line(self) -> Optional[bytes]:
        end = self.rest.find(b"\n")
        if end < 0 or end > LINE_MAX:
            if len(self.rest) > LINE_MAX:
                raise ProtocolError("protocol", "a chunk of the answer cannot be read")
            if self._eof:
                raise ConnectionLost("connection_lost", "the connection ended in the middle of the answer")
            return None
        line = bytes(self.rest[:end]).rstrip(b"\r")
        del self.rest[:end + 1]
        return line

    def _take_chunk(self) -> Optional[bytes]:
        while True:
            if self._place == "data":
                data = self._take_counted()
                if self._length == 0:
                    self._place = "crlf"
                return data
            line = self._line()
            if line is None:
                return None
            if self._place == "size":
                size = line.split(b";")[0].strip(b" \t")
                if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}", size):
                    raise ProtocolError("protocol", "a chunk of the answer cannot be read")
                self._length = int(size, 16)
                self._place = "data" if self._length else "trailer"
            elif self._place == "crlf":
                if line:
                    raise ProtocolError("protocol", "a chunk of the answer is longer than it said")
                self._place = "size"
            elif not line:
                self.ended = True
                return b""
            elif len(self.trailers) < TRAILERS_MAX:
                name, _, value = line.partition(b":")
                self.trailers.append((name.decode("latin-1").lower(), value.strip(b" \t").decode("latin-1")))


@dataclass(frozen=True)
class ServerEvent:
    """One of a stream of them."""

    name: str
    data: str
    id: str


class EventParser:
    """text/event-stream. However the bytes are cut, the events are the same."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_cr = False
        self._name, self._id = "", ""
        self._data: List[str] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
        if data:
            self._after_cr = data[-1:] == b"\r"
        lines = re.split(rb"\r\n|\r|\n", data)
        for i, part in enumerate(lines):
            self._line += part
            if len(self._line) + self._size > EVENT_MAX:
                raise ProtocolError("protocol", "an event of the answer is too long")
            if i < len(lines) - 1:
                line = self._line.decode("utf-8", "replace")
                self._line.clear()
                event = self._take_line(line)
                if event:
                    yield event

    def _take_line(self, line: str) -> Optional[ServerEvent]:
        if not line:
            event = ServerEvent(self._name or "message", "\n".join(self._data), self._id) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        name, _, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
            self._size += len(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return None
