"""Images, builds and one-time runs: what a server does that is no box's. AsyncClient has these as methods."""
from __future__ import annotations

import base64
import json as jsonlib
import os
import secrets
import tempfile
from typing import (IO, TYPE_CHECKING, Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Tuple,
                    Union)

from . import _tree
from .errors import ConnectionLost, error_from
from .types import BuildEvent, Command, ExecResult, Json, RunResult, Seconds, box_fields, time_field

if TYPE_CHECKING:
    from ._client import AsyncClient

PathLike = Union[str, "os.PathLike[str]"]
Bytes = Union[bytes, IO[bytes]]  # or a file of them
OnEvent = Callable[[BuildEvent], object]


async def pages(client: AsyncClient, path: str, key: str, query: Optional[Mapping[str, object]] = None) -> List[Json]:
    """All of a list that comes in pages."""
    found: List[Json] = []
    after: Optional[str] = None
    while True:
        page = await client.json("GET", path, query={**(query or {}), "after": after})
        found += page[key]
        after = page.get("next")
        if not after:
            return found


async def result_of(client: AsyncClient, path: str, on_event: Optional[OnEvent], **how: Any) -> Json:
    """What takes long and says how far it is: its events, and the result."""
    incoming = await client.open("POST", path, **how)
    events: AsyncIterator[Any] = incoming.events()
    try:
        async for event in events:
            if event.name == "error":
                raise error_from(event.data.encode("utf-8"), None)
            data: Json = jsonlib.loads(event.data)
            if event.name == "result":
                return data
            if on_event:
                on_event(BuildEvent.from_json(event.name, data))
    finally:
        incoming.close()
    raise ConnectionLost("connection_lost", "the connection ended before the result")


class Form:
    """multipart/form-data in a file, so that what is sent is in no memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self._boundary = "cove-" + secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={self._boundary}"

    def begin(self, name: str, filename: Optional[str] = None) -> None:
        for text in (name, filename or ""):
            if any(c in text for c in '\r\n\0'):
                raise ValueError(f"{text!r} is no name")
        tail = ('; filename="' + filename.replace("\\", "\\\\").replace('"', '\\"') + '"') if filename else ""
        self.file.write(f'--{self._boundary}\r\nContent-Disposition: form-data; name="{name}"{tail}\r\n\r\n'
                        .encode("utf-8", "surrogateescape"))

    def end(self) -> None:
        self.file.write(b"\r\n")

    def add(self, name: str, data: bytes, filename: Optional[str] = None) -> None:
        self.begin(name, filename)
        self.file.write(data)
        self.end()

    def copy(self, source: IO[bytes]) -> None:
        while data := source.read(256 << 10):
            self.file.write(data)

    def close(self) -> None:
        self.file.write(f"--{self._boundary}--\r\n".encode("ascii"))
        self.file.seek(0)


def _pack_context(form: Form, context: Union[PathLike, IO[bytes]]) -> None:
    form.begin("context", "context.tar")
    if hasattr(context, "read"):
        form.copy(context)
    elif os.path.isdir(context):
        _tree.pack(os.fspath(context), form.file)
    else:
        with open(context, "rb") as file:
            form.copy(file)
    form.end()


async def build(client: AsyncClient, source_of: Callable[[IO[bytes]], Any], name: str,
                context: Union[None, PathLike, IO[bytes]], options: Mapping[str, Any],
                secret_values: Mapping[str, Union[str, bytes]], on_event: Optional[OnEvent]) -> Json:
    asked = {"name": name, **{k: v for k, v in options.items() if v is not None}}
    if "timeout" in asked:
        asked["timeout"] = time_field("timeout", asked["timeout"])
    with tempfile.TemporaryFile(prefix="cove-") as file:
        form = Form(file)
        form.add("options", jsonlib.dumps(asked).encode("utf-8"))
        for key, value in secret_values.items():
            form.add(f"secret.{key}", value.encode("utf-8") if isinstance(value, str) else value)
        if context is not None:
            await client._net.offload(_pack_context, form, context)
        form.close()
        return await result_of(client, "/v1/builds", on_event, body=source_of(file), fields={
            "Content-Type": form.content_type, "Accept": "text/event-stream"})


def _outputs(rows: Sequence[Json]) -> Tuple[Dict[str, bytes], Dict[str, str]]:
    files = {row["from"]: base64.b64decode(row["base64"]) for row in rows if "base64" in row}
    return files, {row["from"]: row["error"]["message"] for row in rows if "error" in row}


async def run(client: AsyncClient, command: Command, files: Optional[Mapping[str, Union[str, bytes]]],
              outputs: Sequence[str], options: Mapping[str, Any], *, timeout: Optional[Seconds],
              cwd: Optional[str], user: Optional[str], stdin: Union[None, str, bytes]) -> RunResult:
    from ._process import command_fields  # which needs the client first

    asked = box_fields(options)
    asked["command"] = command_fields(command, timeout=timeout, cwd=cwd, user=user, stdin=stdin)
    asked["in"] = [{"to": path, "base64": base64.b64encode(data.encode("utf-8") if isinstance(data, str) else data)
                    .decode("ascii")} for path, data in (files or {}).items()]
    asked["out"] = list(outputs)
    answer = await client.json("POST", "/v1/run", json=asked)
    got, errors = _outputs(answer["outputs"])
    return RunResult(ExecResult.from_json(answer["result"]), got, errors, answer)
