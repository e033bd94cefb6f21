"""Commands: their output with byte offsets, which survive a lost connection, and their end."""
from __future__ import annotations

import base64
import codecs
import collections
import inspect
import json
import time
from typing import Any, AsyncIterator, Callable, Deque, Dict, Mapping, Optional, Tuple, Union

from ._client import PAUSES, PIECE, AsyncClient, Channel, Incoming, segment, token
from ._http import ServerEvent
from .errors import Conflict, ConnectionLost, CoveError, ProtocolError, error_from
from .types import Command, ExecResult, Json, Output, Seconds, time_field

KEPT_MAX = 1 << 20  # of each stream of output, in a result
TRIES = 3  # connections in a row that bring nothing
OnText = Callable[[str], Any]
STREAMS = ("stdout", "stderr")


def command_fields(command: Command, *, timeout: Optional[Seconds] = None, env: Optional[Mapping[str, str]] = None,
                   cwd: Optional[str] = None, user: Optional[str] = None,
                   stdin: Union[None, str, bytes] = None) -> Json:
    """The body of a request for a command."""
    fields: Json = {"line": command} if isinstance(command, str) else {"argv": [str(word) for word in command]}
    if timeout is not None:
        fields["timeout"] = time_field("timeout", timeout)
    if env:
        fields["env"] = dict(env)
    if cwd is not None:
        fields["cwd"] = cwd
    if user is not None:
        fields["user"] = user
    if stdin is not None:
        data = stdin.encode("utf-8") if isinstance(stdin, str) else bytes(stdin)
        fields["stdin_base64"] = base64.b64encode(data).decode("ascii")
    return fields


class Kept:
    """The first bytes of a command's output."""

    def __init__(self) -> None:
        self.data = {name: bytearray() for name in STREAMS}
        self.truncated = False

    def add(self, output: Output) -> None:
        kept = self.data[output.stream]
        room = KEPT_MAX - len(kept)
        kept += output.data[:room]
        self.truncated = self.truncated or len(output.data) > room

    def result(self, o: Json) -> ExecResult:
        return ExecResult.from_json(o, bytes(self.data["stdout"]), bytes(self.data["stderr"]), self.truncated)


class Place:
    """Where a reader of a command's output is: what comes again after a lost connection is left out."""

    def __init__(self, stdout_from: int = 0, stderr_from: int = 0) -> None:
        self.offsets: Dict[str, int] = {"stdout": stdout_from, "stderr": stderr_from}

    def take(self, stream: str, data: bytes, offset: int) -> Optional[Output]:
        seen = self.offsets[stream] - offset
        if seen > 0:
            data, offset = data[seen:], offset + seen
        if not data:
            return None
        self.offsets[stream] = offset + len(data)
        return Output(stream, data, offset)


def output_of(place: Place, name: str, o: Json) -> Optional[Output]:
    """Of an event with that name."""
    data = base64.b64decode(o["base64"]) if "base64" in o else o["text"].encode("utf-8", "surrogatepass")
    return place.take(name, data, o["offset"])


def parse_event(data: str) -> Json:
    """The object in an event."""
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ProtocolError("protocol", "an event of the server is no JSON object")
    return value


class Follower:
    """The output of one command, over as many connections as it takes, each byte once; then its end."""

    def __init__(self, client: AsyncClient, box: str, fields: Optional[Json] = None, exec_id: int = 0,
                 stdout_from: int = 0, stderr_from: int = 0) -> None:
        """fields: of a command that is yet to be begun."""
        self._client, self._path, self._fields = client, f"/v1/boxes/{segment(box)}", fields
        self.exec_id = exec_id
        self.place = Place(stdout_from, stderr_from)
        self.end: Optional[Json] = None

    async def _open(self) -> Incoming:
        if self.exec_id:
            query = {f"{name}_from": self.place.offsets[name] for name in STREAMS}
            return await self._client.open("GET", f"{self._path}/execs/{self.exec_id}/output",
                                           query={**query, "follow": True}, repeat=True)
        return await self._client.open("POST", f"{self._path}/exec", json=self._fields, repeat=True,
                                       fields={"Accept": "text/event-stream"})

    async def output(self) -> AsyncIterator[Output]:
        tries = 0
        while self.end is None:
            try:
                incoming = await self._open()
                try:
                    async for event in incoming.events():
                        tries = 0
                        output = self._take(event)
                        if output:
                            yield output
                finally:
                    incoming.close()
                if self.end is None:
                    raise ConnectionLost("connection_lost", "the command's output ended before the command")
            except ConnectionLost:
                tries += 1
                if tries >= TRIES:
                    raise
                await self._client._net.sleep(PAUSES[0])

    def _take(self, event: ServerEvent) -> Optional[Output]:
        o = parse_event(event.data)
        if event.name in STREAMS:
            return output_of(self.place, event.name, o)
        if event.name in ("started", "queued"):
            self.exec_id = o["exec_id"]
        elif event.name == "error":
            raise error_from(event.data.encode("utf-8"), None)
        elif event.name == "exit":
            self.end = o
        return None


async def call(on_text: Optional[OnText], text: str) -> None:
    """A callback may be a coroutine function."""
    if on_text and text:
        said = on_text(text)
        if inspect.isawaitable(said):
            await said


async def execute(client: AsyncClient, box: str, fields: Json, on_stdout: Optional[OnText] = None,
                  on_stderr: Optional[OnText] = None) -> ExecResult:
    """Runs a command to its end. The token makes a repeat after a lost connection the same command."""
    fields = {**fields, "token": token()}
    if not on_stdout and not on_stderr:
        return ExecResult.from_json(await client.json("POST", f"/v1/boxes/{segment(box)}/exec", json=fields,
                                                      repeat=True))
    follower, kept = Follower(client, box, fields), Kept()
    on = {"stdout": on_stdout, "stderr": on_stderr}
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in STREAMS}
    source = follower.output()
    try:
        async for output in source:
            kept.add(output)
            await call(on[output.stream], decoders[output.stream].decode(output.data))
    finally:
        await source.aclose()  # type: ignore[attr-defined]
    for name in STREAMS:
        await call(on[name], decoders[name].decode(b"", True))
    assert follower.end is not None
    return kept.result(follower.end)


class AsyncProcess:
    """A command that runs beside you; see AsyncSandbox.spawn. It goes on when this object does not."""

    def __init__(self, client: AsyncClient, box: str, exec_id: int) -> None:
        self._client, self._box = client, box
        self.exec_id = exec_id
        self.result: Optional[ExecResult] = None  # once it was seen to end
        self._channel: Optional[Channel] = None
        self._place, self._kept = Place(), Kept()
        self._waiting: Deque[Union[str, bytes]] = collections.deque()

    # ---- beginning ----

    @classmethod
    async def _begin(cls, client: AsyncClient, box: str, fields: Json) -> AsyncProcess:
        answer = await client.json("POST", f"/v1/boxes/{segment(box)}/exec", repeat=True,
                                   json={**fields, "background": True, "token": token()})
        return cls(client, box, answer["exec_id"])

    @classmethod
    async def _begin_channel(cls, client: AsyncClient, box: str, fields: Json) -> AsyncProcess:
        process = cls(client, box, 0)
        process._channel = channel = await client.socket(f"/v1/boxes/{segment(box)}/exec")
        try:
            await channel.send(json.dumps({**fields, "stream_input": True, "token": token()}))
            while not process.exec_id:
                messages = await channel.receive()
                if messages is None:
                    raise ConnectionLost("connection_lost", "the connection ended before the command began")
                process._waiting.extend(messages)
                while process._waiting and not process.exec_id:
                    process._take(process._waiting.popleft())
        except BaseException:
            channel.close()
            raise
        return process

    def _take(self, message: Union[str, bytes]) -> Optional[Output]:
        """One message of a channel."""
        if isinstance(message, bytes):
            if message[:1] not in (b"\1", b"\2"):
                raise ProtocolError("protocol", "output of no stream")
            name = STREAMS[message[0] - 1]
            output = self._place.take(name, message[1:], self._place.offsets[name])
            if output:
                self._kept.add(output)
            return output
        said = parse_event(message)
        kind, data = said.get("type"), said.get("data") or {}
        if kind in ("started", "queued"):
            self.exec_id = data["exec_id"]
        elif kind == "error":
            raise error_from(json.dumps(data).encode("utf-8"), None)
        elif kind == "exit":
            self.result = self._kept.result(data)
        return None

    @property
    def _path(self) -> str:
        return f"/v1/boxes/{segment(self._box)}/execs/{self.exec_id}"

    # ---- output ----

    async def _channel_output(self, timeout: Optional[float] = None) -> AsyncIterator[Output]:
        assert self._channel
        end = None if timeout is None else time.monotonic() + timeout
        while not self.result:
            while self._waiting:
                output = self._take(self._waiting.popleft())
                if output:
                    yield output
            if self.result:
                break
            messages = await self._channel.receive(None if end is None else max(0.0, end - time.monotonic()))
            if messages is None:
                return
            self._waiting.extend(messages)
        self._channel.close()

    async def events(self, stdout_from: int = 0, stderr_from: int = 0) -> AsyncIterator[Output]:
        """What it printed and prints, from byte offsets on, until it ends; then ``result`` is there. A lost connection
        is made again, and every byte comes once. With stdin or a terminal: from where the last reader stopped."""
        if self._channel:
            async for output in self._channel_output():
                yield output
            if self.result:
                return
            self._channel = None
            stdout_from, stderr_from = (self._place.offsets[name] for name in STREAMS)
        follower = Follower(self._client, self._box, None, self.exec_id, stdout_from, stderr_from)
        source = follower.output()
        try:
            async for output in source:
                self._place.offsets.update(follower.place.offsets)
                yield output
        finally:
            await source.aclose()  # type: ignore[attr-defined]
        if follower.end is not None and not self.result:
            self.result = ExecResult.from_json(follower.end)

    def __aiter__(self) -> AsyncIterator[Output]:
        return self.events()

    async def read(self, stdout_from: int = 0, stderr_from: int = 0) -> Tuple[bytes, bytes]:
        """What it printed until now, (stdout, stderr), from byte offsets on; does not wait."""
        place, data = Place(stdout_from, stderr_from), {name: bytearray() for name in STREAMS}
        incoming = await self._client.open("GET", f"{self._path}/output", repeat=True,
                                           query={"stdout_from": stdout_from, "stderr_from": stderr_from})
        async for event in incoming.events():
            if event.name in STREAMS:
                output = output_of(place, event.name, parse_event(event.data))
                if output:
                    data[event.name] += output.data
            elif event.name == "error":
                raise error_from(event.data.encode("utf-8"), None)
        return bytes(data["stdout"]), bytes(data["stderr"])

    async def wait(self, timeout: Optional[float] = None) -> ExecResult:
        """Its result, when it has ended; Timeout where that takes longer than ``timeout`` seconds (it goes on then).
        With stdin or a terminal this reads the output, so that the command can go on printing."""
        if self._channel and not self.result:
            async for _ in self._channel_output(timeout):
                pass
            if not self.result:
                self._channel = None
        if self.result and (self._channel or self.result.stdout_data or self.result.stderr_data):
            return self.result
        ms = None if timeout is None else f"{max(1, round(timeout * 1000))}ms"
        self.result = ExecResult.from_json(await self._client.json("GET", self._path, query={"timeout": ms}))
        return self.result

    # ---- input ----

    def _need_channel(self) -> Channel:
        if not self._channel:
            raise Conflict("conflict", "this command has no stdin: spawn(..., stdin=True) or pty=True gives it one")
        return self._channel

    async def write(self, data: Union[str, bytes]) -> None:
        """Into its stdin, or the terminal. Waits while the command does not read; somebody must read its output
        meanwhile, if it prints much."""
        data = data.encode("utf-8") if isinstance(data, str) else bytes(data)
        channel = self._need_channel()
        for at in range(0, len(data), PIECE):
            await channel.send(data[at:at + PIECE])

    async def close_stdin(self) -> None:
        """The end of its stdin."""
        await self._need_channel().send(json.dumps({"type": "eof"}))

    async def resize(self, rows: int, cols: int) -> None:
        """Of its terminal."""
        await self._need_channel().send(json.dumps({"type": "resize", "rows": rows, "cols": cols}))

    # ---- ending ----

    async def signal(self, signal: Union[str, int] = "TERM") -> None:
        """Sends it a signal, by name or number."""
        await self._client.request("POST", f"{self._path}/signal", json={"signal": str(signal)})

    async def kill(self) -> None:
        """Ends it and all that it started. One that has ended already is fine."""
        try:
            await self.signal("KILL")
        except CoveError as error:
            if error.code not in ("conflict", "not_found"):
                raise

    async def close(self) -> None:
        """Lets go of its connection. The command goes on."""
        if self._channel:
            self._channel.close()
            self._channel = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.exec_id} of {self._box}>"
