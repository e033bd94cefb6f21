"""Connections, blocking or with asyncio, under one shape: what is written once as coroutines runs on either.

A coroutine that works on a SyncNet never waits for an event loop: its calls block, so drive() runs it to its end in
one step. With an AsyncNet the same coroutine is awaited.
"""
from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any, AsyncIterator, Callable, Coroutine, Iterator, List, Optional, TypeVar, cast

from .errors import Timeout

T = TypeVar("T")
READ_BYTES = 256 << 10


@dataclass(frozen=True)
class Endpoint:
    """Where a server is: a Unix socket's path, or host and port."""

    path: Optional[str] = None
    host: str = "localhost"
    port: int = 0
    tls: Optional[ssl.SSLContext] = None

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return "localhost" if self.path else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"http{'s' if self.tls else ''}://{self.authority}"


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that only blocks."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("an asynchronous call in a blocking one")


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """The same for an asynchronous generator."""
    async def following() -> T:
        return await source.__anext__()

    async def end() -> None:
        await source.aclose()  # type: ignore[attr-defined]

    try:
        while True:
            try:
                item = drive(following())
            except StopAsyncIteration:
                return
            yield item
    finally:
        drive(end())


class Stream:
    """A connection. The end of it, for whatever reason, reads as b"" and writes as an OSError."""

    async def read(self, timeout: Optional[float] = None) -> bytes:
        raise NotImplementedError

    async def write(self, data: bytes) -> None:
        raise NotImplementedError

    def readable(self) -> bool:
        """Something has come, or the end."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Lock:
    """Of one kind of net."""

    async def __aenter__(self) -> None:
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        raise NotImplementedError


class Net:
    """How connections are made, and those that are idle."""

    is_async = False

    async def connect(self, to: Endpoint, timeout: Optional[float]) -> Stream:
        raise NotImplementedError

    async def offload(self, call: Callable[..., T], *args: Any) -> T:
        """A call that may block: of a file, of a process."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def lock(self) -> Lock:
        raise NotImplementedError

    def idle(self) -> List[Stream]:
        """Appending and popping are safe from any thread."""
        raise NotImplementedError


def keep_alive(sock: socket.socket) -> None:
    """A host that went away is noticed, after some minutes."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# ---- blocking ----

class SyncStream(Stream):
    """One thread may read while another writes. TLS cannot do both at once, so there the two take turns."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._tls = threading.Lock() if isinstance(sock, ssl.SSLSocket) else None

    def _poll(self, timeout: Optional[float]) -> bool:
        if self._tls and self._sock.pending():  # type: ignore[attr-defined]
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(None if timeout is None else max(0, timeout) * 1000))

    async def read(self, timeout: Optional[float] = None) -> bytes:
        try:
            if (timeout is not None or self._tls) and not self._poll(timeout):
                raise Timeout("timeout", "the server did not answer in time")
            if not self._tls:
                return self._sock.recv(READ_BYTES)
            with self._tls:
                return self._sock.recv(READ_BYTES)
        except (OSError, ValueError):  # closed by another thread
            return b""

    async def write(self, data: bytes) -> None:
        if not self._tls:
            self._sock.sendall(data)
            return
        with self._tls:
            self._sock.sendall(data)

    def readable(self) -> bool:
        try:
            return self._poll(0)
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        except OSError:
            pass
        self._sock.close()

    def abandon(self) -> None:
        """What is another process's too goes on there."""
        self._sock.close()

    def __del__(self) -> None:
        self._sock.close()


class SyncLock(Lock):
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class SyncNet(Net):
    def __init__(self) -> None:
        self._idle: List[SyncStream] = []
        self._pid = os.getpid()

    async def connect(self, to: Endpoint, timeout: Optional[float]) -> Stream:
        if to.path:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(timeout)
                sock.connect(to.path)
            except BaseException:
                sock.close()
                raise
        else:
            sock = socket.create_connection((to.host, to.port), timeout)
        try:
            keep_alive(sock)
            if to.tls:
                sock = to.tls.wrap_socket(sock, server_hostname=to.host)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        return SyncStream(sock)

    async def offload(self, call: Callable[..., T], *args: Any) -> T:
        return call(*args)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lock(self) -> Lock:
        return SyncLock()

    def idle(self) -> List[Stream]:
        if self._pid != os.getpid():  # after a fork the connections are the parent's
            for stream in self._idle:
                stream.abandon()
            self._idle, self._pid = [], os.getpid()
        return cast(List[Stream], self._idle)


# ---- asyncio ----

class AsyncStream(Stream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._coming: Optional[asyncio.Task[bytes]] = None  # begun to see whether something comes

    async def _receive(self) -> bytes:
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:
            return b""

    async def read(self, timeout: Optional[float] = None) -> bytes:
        coming = self._coming or asyncio.ensure_future(self._receive())
        self._coming = coming  # stays, should this be cancelled
        done, _ = await asyncio.wait((coming,), timeout=timeout)
        if not done:
            raise Timeout("timeout", "the server did not answer in time")
        self._coming = None
        return b"" if coming.cancelled() else coming.result()  # closed by another task

    async def write(self, data: bytes) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)
        await self._writer.drain()

    def readable(self) -> bool:
        if self._reader.at_eof() or self._writer.transport.is_closing():
            return True
        if not self._coming:
            self._coming = asyncio.ensure_future(self._receive())
        return self._coming.done()

    def close(self) -> None:
        try:
            if self._coming:
                self._coming.cancel()
            self._writer.transport.abort()
        except RuntimeError:  # its loop is closed, and with it the connection
            pass


class AsyncLock(Lock):
    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class AsyncNet(Net):
    """May be used from several event loops: each has connections of its own."""

    is_async = True

    def __init__(self) -> None:
        self._idle: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, List[Stream]] = weakref.WeakKeyDictionary()

    async def connect(self, to: Endpoint, timeout: Optional[float]) -> Stream:
        if to.path:
            opening = asyncio.open_unix_connection(to.path, limit=READ_BYTES)
        else:
            opening = asyncio.open_connection(to.host, to.port, ssl=to.tls, limit=READ_BYTES,
                                              server_hostname=to.host if to.tls else None)
        try:
            reader, writer = await asyncio.wait_for(opening, timeout)
        except asyncio.TimeoutError:
            raise TimeoutError("it did not answer in time") from None
        sock = writer.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        return AsyncStream(reader, writer)

    async def offload(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: call(*args))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def lock(self) -> Lock:
        return AsyncLock()

    def idle(self) -> List[Stream]:
        return self._idle.setdefault(asyncio.get_running_loop(), [])
