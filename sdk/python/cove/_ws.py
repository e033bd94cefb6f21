"""The client's side of a WebSocket (RFC 6455), without any I/O: bytes in, messages out. No extensions."""
from __future__ import annotations

import base64
import hashlib
import os
from typing import Dict, List, Optional, Tuple, Union

from ._http import Head
from .errors import ProtocolError

MESSAGE_MAX = 16 << 20
MORE, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def handshake() -> Dict[str, str]:
    """Fields of the request; its key is in them."""
    return {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode("ascii")}


def check_answer(sent: Dict[str, str], head: Head) -> None:
    """Raises unless the server agreed to exactly what was asked."""
    accept = base64.b64encode(hashlib.sha1(sent["Sec-WebSocket-Key"].encode("ascii") + GUID).digest()).decode("ascii")
    tokens = [token.strip().lower() for token in head.fields.get("connection", "").split(",")]
    if (head.status != 101 or head.fields.get("upgrade", "").lower() != "websocket" or "upgrade" not in tokens or
            head.fields.get("sec-websocket-accept") != accept or "sec-websocket-extensions" in head.fields or
            "sec-websocket-protocol" in head.fields):
        raise ProtocolError("protocol", "the server does not answer as a WebSocket")


def mask(data: bytes, key: bytes) -> bytes:
    """The same again is the data again."""
    n = len(data)
    whole = int.from_bytes(data, "little") ^ int.from_bytes((key * (n // 4 + 1))[:n], "little")
    return whole.to_bytes(n, "little")


def frame(op: int, data: bytes) -> bytes:
    """One message, or a control frame."""
    n, key = len(data), os.urandom(4)
    if n < 126:
        head = bytes((0x80 | op, 0x80 | n))
    elif n < 1 << 16:
        head = bytes((0x80 | op, 0x80 | 126)) + n.to_bytes(2, "big")
    else:
        head = bytes((0x80 | op, 0x80 | 127)) + n.to_bytes(8, "big")
    return head + key + mask(data, key)


def close_frame(code: int = 1000) -> bytes:
    return frame(CLOSE, code.to_bytes(2, "big"))


class Socket:
    """Takes what the server sends. ``out`` is what has to be sent in answer: pongs, the close."""

    def __init__(self) -> None:
        self.closed = False
        self.out = bytearray()
        self._in = bytearray()
        self._op: Optional[int] = None  # of the message that has begun
        self._parts = bytearray()

    def _wrong(self, why: str) -> ProtocolError:
        self.closed = True
        self.out += close_frame(1002)
        return ProtocolError("protocol", f"the server's WebSocket is wrong: {why}")

    def _frame(self) -> Optional[Tuple[bool, int, bytes]]:
        b = self._in
        if len(b) < 2:
            return None
        last, op, n, at = bool(b[0] & 0x80), b[0] & 0x0F, b[1] & 0x7F, 2
        if b[0] & 0x70 or op not in (MORE, TEXT, BINARY, CLOSE, PING, PONG):
            raise self._wrong("an unknown frame")
        if b[1] & 0x80:
            raise self._wrong("a masked frame")
        if op >= CLOSE and (n > 125 or not last):
            raise self._wrong("a long or cut control frame")
        if n >= 126:
            at = 4 if n == 126 else 10
            if len(b) < at:
                return None
            n, least = int.from_bytes(b[2:at], "big"), 126 if n == 126 else 1 << 16
            if n < least:
                raise self._wrong("a length that is not in its shortest form")
        if n + len(self._parts) > MESSAGE_MAX:
            raise self._wrong("a message that is too long")
        if len(b) < at + n:
            return None
        data = bytes(b[at:at + n])
        del b[:at + n]
        return last, op, data

    def feed(self, data: bytes) -> List[Union[str, bytes]]:
        """The messages that are whole now: texts and bytes. After a close nothing is taken."""
        self._in += data
        messages: List[Union[str, bytes]] = []
        while not self.closed:
            got = self._frame()
            if got is None:
                break
            last, op, payload = got
            if op >= CLOSE:
                self._control(op, payload)
                continue
            if (op == MORE) != (self._op is not None):
                raise self._wrong("a message within a message" if self._op is not None else "an end without a start")
            self._op = self._op if op == MORE else op
            self._parts += payload
            if last:
                messages.append(self._message())
        return messages

    def _message(self) -> Union[str, bytes]:
        data, op = bytes(self._parts), self._op
        self._parts.clear()
        self._op = None
        if op == BINARY:
            return data
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong("a text that is no UTF-8") from None

    def _control(self, op: int, payload: bytes) -> None:
        if op == PING:
            self.out += frame(PONG, payload)
        elif op == CLOSE:
            if len(payload) == 1:
                raise self._wrong("a close of one byte")
            self.closed = True
            self.out += frame(CLOSE, payload[:2])
