"""Boxes, for asyncio programs; the blocking Sandbox (_sync.py) is the same calls run to their end."""
from __future__ import annotations

import hashlib
import os
import re
import shlex
from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote

from . import _images
from ._client import AsyncClient, segment, shared_client, token
from ._files import AsyncFiles
from ._process import AsyncProcess, OnText, command_fields, execute, parse_event
from .errors import CommandFailed, Conflict, ConnectionLost, Exists, NotFound
from .types import (BoxInfo, BoxOptions, Change, Command, ExecInfo, ExecResult, Json, Port, PortLink, PortResponse,
                    Rollback, Seconds, SessionOptions, Snapshot, box_fields, time_field)

if TYPE_CHECKING:
    from typing_extensions import Unpack

OPEN_TRIES = 8
SESSION_ID_MAX = 1024
SHELL = "default"
PATH_SAFE = "/%?&=:;,@!$'()*+~|"
NOT_PASSED = {"authorization", "x-api-key", "cookie", "host", "connection", "content-length", "transfer-encoding"}


def session_name(session: str, prefix: Optional[str] = None) -> str:
    """The name of a session's box: always the same for an id."""
    data = session.encode("utf-8", "surrogateescape")
    if not 0 < len(data) <= SESSION_ID_MAX or 0 in data:
        raise ValueError(f"the id of a session has 1 to {SESSION_ID_MAX} bytes, none of them NUL")
    return f"{prefix or 'session'}-{hashlib.sha256(data).hexdigest()[:16]}"


def shell_line(command: str, env: Optional[Mapping[str, str]], cwd: Optional[str]) -> str:
    """A line for a shell that keeps its state: a directory or variables for this line alone are a subshell's."""
    if not env and cwd is None:
        return command
    for name in env or ():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"'{name}' is no name of a variable")
    words = [f"cd -- {shlex.quote(cwd)}"] if cwd is not None else []
    words += [f"export {name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    return f"( {' && '.join(words)} && eval {shlex.quote(command)} )"


def shell_of(user: Optional[str]) -> str:
    """The shell that lines of a user are for: each has one."""
    return SHELL if user is None else "user." + re.sub(r"[^A-Za-z0-9_.-]", "_", user)[:50]


class AsyncSandbox:
    """A box of one's own, for asyncio programs: ``async with AsyncSandbox() as sb: await sb.run("echo hi")``.

    Made at ``async with`` or ``await``, removed at the end of ``async with`` or by close(). ``AsyncSandbox.create``
    makes one that stays; ``connect`` finds one that is there; ``open`` is a session. The options are those of
    cove.BoxOptions. ``command`` runs first, in the same request; its result is in ``result``.
    """

    def __init__(self, image: Optional[str] = None, *, command: Optional[Command] = None,
                 client: Optional[AsyncClient] = None, host: Optional[str] = None, api_key: Optional[str] = None,
                 **options: Unpack[BoxOptions]) -> None:
        self._given: Dict[str, Any] = {"image": image, **options}
        box_fields(self._given)  # what cannot be meant is said here
        self._command = command
        self._own_client = client is None
        self._client_asked = client, host, api_key
        self._name: Optional[str] = None
        self._client: Optional[AsyncClient] = None
        self._ending = "remove"
        self._pid = os.getpid()
        self._files: Optional[AsyncFiles] = None
        self.result: Optional[ExecResult] = None

    @classmethod
    def _of(cls, name: str, client: AsyncClient, ending: str, own_client: bool) -> AsyncSandbox:
        sandbox = cls(client=client)
        sandbox._client, sandbox._name, sandbox._ending, sandbox._own_client = client, name, ending, own_client
        return sandbox

    # ---- making ----

    async def _make(self) -> AsyncSandbox:
        if self._name is not None:
            return self
        given, host, api_key = self._client_asked
        client = given or shared_client(host, api_key, blocking=False)
        self._name, self.result = await _create(client, self._given, self._command)
        self._client, self._pid = client, os.getpid()
        self._note()
        return self

    def _note(self) -> None:
        """One that is to go goes at the end of the process at the latest, where the server is this process's."""
        if self._client and self._client.server and self._name and self._ending == "remove":
            self._client.server.ephemeral.add(self._name)

    def _forget(self) -> None:
        if self._client and self._client.server and self._name:
            self._client.server.ephemeral.discard(self._name)

    def __await__(self) -> Generator[Any, None, AsyncSandbox]:
        return self._make().__await__()

    async def __aenter__(self) -> AsyncSandbox:
        return await self._make()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @classmethod
    async def create(cls, image: Optional[str] = None, *, command: Optional[Command] = None,
                     client: Optional[AsyncClient] = None, host: Optional[str] = None, api_key: Optional[str] = None,
                     **options: Unpack[BoxOptions]) -> AsyncSandbox:
        """A new box that stays until it is removed."""
        chosen = client or shared_client(host, api_key, blocking=False)
        name, result = await _create(chosen, {"image": image, **options}, command)
        sandbox = cls._of(name, chosen, "leave", client is None)
        sandbox.result = result
        return sandbox

    @classmethod
    async def connect(cls, name: str, *, client: Optional[AsyncClient] = None, host: Optional[str] = None,
                      api_key: Optional[str] = None) -> AsyncSandbox:
        """A box that is there, by name. It stays when this object is closed."""
        chosen = client or shared_client(host, api_key, blocking=False)
        await chosen.json("GET", f"/v1/boxes/{segment(name)}")
        return cls._of(name, chosen, "leave", client is None)

    @classmethod
    async def open(cls, session: str, *, prefix: Optional[str] = None, persistence: Optional[str] = None,
                   mounts: Optional[Sequence[str]] = None, client: Optional[AsyncClient] = None,
                   host: Optional[str] = None, api_key: Optional[str] = None,
                   **options: Unpack[SessionOptions]) -> AsyncSandbox:
        """A session: your own id is always the same box, made, started or joined as it needs to be. What the options
        say counts where the box is made. close() removes the box and leaves its workspace (persistence "workspace",
        the default), or stops it (persistence "box")."""
        chosen = client or shared_client(host, api_key, blocking=False)
        if "name" in options:
            raise TypeError("a session's box has its own name")
        name = session_name(session, prefix)
        fields: Dict[str, Any] = {"workspace": name, "persistence": persistence, "mounts": mounts, **options,
                                  "name": name}
        await _create_or_join(chosen, name, box_fields(fields))
        return cls._of(name, chosen, "session", client is None)

    @classmethod
    async def list(cls, *, label: Optional[str] = None, state: Optional[str] = None,
                   client: Optional[AsyncClient] = None, host: Optional[str] = None,
                   api_key: Optional[str] = None) -> List[BoxInfo]:
        """All your boxes in the order of their names; those with a label ("NAME" or "NAME=VALUE"), in a state."""
        chosen = client or shared_client(host, api_key, blocking=False)
        rows = await _images.pages(chosen, "/v1/boxes", "boxes", {"label": label, "state": state})
        return [BoxInfo.from_json(row) for row in rows]

    # ---- what it is ----

    @property
    def name(self) -> str:
        """The box's name."""
        if self._name is None:
            raise Conflict("conflict", "this sandbox is not made yet: `async with`, or `await` it")
        return self._name

    @property
    def client(self) -> AsyncClient:
        """What its requests go through."""
        if self._client is None:
            raise Conflict("conflict", "this sandbox is not made yet: `async with`, or `await` it")
        return self._client

    @property
    def files(self) -> AsyncFiles:
        """Its files."""
        if self._files is None:
            self._files = AsyncFiles(self.client, self.name)
        return self._files

    @property
    def _path(self) -> str:
        return f"/v1/boxes/{segment(self.name)}"

    async def info(self) -> Json:
        """Everything known about the box."""
        return await self.client.json("GET", self._path)

    async def stats(self) -> Json:
        """What it uses now."""
        return await self.client.json("GET", f"{self._path}/stats")

    async def history(self, *, follow: bool = False, after: int = 0) -> AsyncIterator[Json]:
        """What happened to the box, oldest first, as objects with "seq", "event" and more; with ``follow`` also what
        happens from now on, until the box ends. ``after``: the seq that was seen last."""
        tries = 0
        while True:
            try:
                incoming = await self.client.open("GET", f"{self._path}/events", repeat=True,
                                                  query={"after": after or None, "follow": follow or None})
                try:
                    async for event in incoming.events():
                        o, tries = parse_event(event.data), 0
                        after = o.get("seq") or after
                        yield o
                finally:
                    incoming.close()
                return
            except ConnectionLost:
                tries += 1
                if tries > 2:
                    raise

    # ---- ports ----

    async def ports(self) -> List[Port]:
        """What listens in the box."""
        return [Port.from_json(row) for row in (await self.client.json("GET", f"{self._path}/ports"))["ports"]]

    async def fetch(self, port: int, path: str = "/", *, method: Optional[str] = None,
                    body: Union[None, str, bytes] = None, json: object = None,
                    headers: Optional[Mapping[str, str]] = None) -> PortResponse:
        """Asks a program that listens in the box. ``path`` may have a query. Any status is an answer; raises where
        there is none, as where nothing listens. method: GET, or POST where there is a body."""
        if not path.startswith("/"):
            raise ValueError("the path of a request begins with '/'")
        if kept := [name for name in headers or () if name.lower() in NOT_PASSED]:
            raise ValueError(f"{kept[0]} does not reach a program in a box this way")
        data = body.encode("utf-8") if isinstance(body, str) else body
        way = method or ("GET" if data is None and json is None else "POST")
        incoming = await self.client.open(way, f"{self._path}/ports/{int(port)}{quote(path, safe=PATH_SAFE)}",
                                          body=data, json=json, fields=headers, is_port=True)
        return PortResponse(incoming.head.status, dict(incoming.head.fields), await incoming.read())

    async def link(self, port: int, *, expires: Optional[Seconds] = None) -> PortLink:
        """A way to a port for who has no key, by its own name, for an hour unless ``expires`` says how many seconds.
        The server must give ports names (``cove serve --domain``)."""
        fields = {"port": int(port), **({} if expires is None else {"for": time_field("expires", expires)})}
        return PortLink.from_json(await self.client.json("POST", f"{self._path}/port-links", json=fields))

    async def url(self, port: int, *, expires: Optional[Seconds] = None) -> str:
        """The address of a port for a browser, or for anybody who has it, until it expires; see link()."""
        return (await self.link(port, expires=expires)).link

    async def get_host(self, port: int) -> str:
        """The name of a port, "8000-box.example.org"; who asks there brings a key, unless the port is public."""
        return (await self.link(port)).host

    # ---- commands ----

    async def run(self, command: str, *, timeout: Optional[Seconds] = None, env: Optional[Mapping[str, str]] = None,
                  cwd: Optional[str] = None, user: Optional[str] = None, stdin: Union[None, str, bytes] = None,
                  check: bool = False, on_stdout: Optional[OnText] = None,
                  on_stderr: Optional[OnText] = None, shell: Optional[str] = None) -> ExecResult:
        """Runs a line in the box's shell, which stays: what one line cds to and exports, the next one finds.

        timeout: seconds; what is over it is ended, and the result says timed_out. env, cwd: for this line alone, which
        then runs in a subshell. user: each has a shell of their own; so has each name given as ``shell``. check:
        another status than 0 raises CommandFailed. on_stdout, on_stderr: called with each piece of text as it comes.
        """
        fields = command_fields(shell_line(command, env, cwd), timeout=timeout, user=user, stdin=stdin)
        fields["shell"] = shell or shell_of(user)
        return self._checked(await execute(self.client, self.name, fields, on_stdout, on_stderr), check)

    async def exec(self, command: Command, *, timeout: Optional[Seconds] = None,
                   env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None, user: Optional[str] = None,
                   stdin: Union[None, str, bytes] = None, check: bool = False, on_stdout: Optional[OnText] = None,
                   on_stderr: Optional[OnText] = None) -> ExecResult:
        """Runs a program with its arguments (a list), or a line in a fresh shell (a str), on its own: nothing stays of
        it but its files."""
        fields = command_fields(command, timeout=timeout, env=env, cwd=cwd, user=user, stdin=stdin)
        return self._checked(await execute(self.client, self.name, fields, on_stdout, on_stderr), check)

    @staticmethod
    def _checked(result: ExecResult, check: bool) -> ExecResult:
        if check and not result.ok:
            raise CommandFailed(result)
        return result

    async def spawn(self, command: Command, *, timeout: Optional[Seconds] = None,
                    env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None, user: Optional[str] = None,
                    stdin: bool = False, pty: bool = False, rows: int = 24, cols: int = 80) -> AsyncProcess:
        """Begins a command and returns at once. stdin: write() and close_stdin() reach it. pty: it has a terminal,
        and one stream of output."""
        fields = command_fields(command, timeout=timeout, env=env, cwd=cwd, user=user)
        if not stdin and not pty:
            return await AsyncProcess._begin(self.client, self.name, fields)
        if pty:
            fields.update(pty=True, rows=rows, cols=cols)
        return await AsyncProcess._begin_channel(self.client, self.name, fields)

    def process(self, exec_id: int) -> AsyncProcess:
        """A command that was begun before, here or elsewhere."""
        return AsyncProcess(self.client, self.name, exec_id)

    async def processes(self) -> List[ExecInfo]:
        """The commands of the box, running or not."""
        return [ExecInfo.from_json(row) for row in await _images.pages(self.client, f"{self._path}/execs", "execs")]

    async def shells(self) -> List[Json]:
        """Its persistent shells."""
        rows: List[Json] = (await self.client.json("GET", f"{self._path}/shells"))["shells"]
        return rows

    async def remove_shell(self, name: str = SHELL, *, force: bool = False) -> None:
        """Ends a shell, and what it keeps; with ``force`` one that is busy. The next line starts a new one."""
        await self.client.request("DELETE", f"{self._path}/shells/{segment(name)}", query={"force": force or None})

    # ---- its life ----

    async def start(self) -> None:
        """Starts it, where it is stopped."""
        await self.client.request("POST", f"{self._path}/start", repeat=True)

    async def stop(self, *, grace: Optional[Seconds] = None) -> None:
        """Ends all its processes; its files stay. They have ``grace`` seconds to end by themselves."""
        fields: Json = {} if grace is None else {"grace": time_field("grace", grace) if grace else 0}
        await self.client.request("POST", f"{self._path}/stop", json=fields, repeat=True)

    async def pause(self) -> None:
        """Freezes all its processes in memory."""
        await self.client.request("POST", f"{self._path}/pause", repeat=True)

    async def resume(self) -> None:
        """Lets them run again."""
        await self.client.request("POST", f"{self._path}/resume", repeat=True)

    async def remove(self) -> None:
        """Removes it, running or not. One that is gone already is fine."""
        await self.client.request("DELETE", self._path, query={"force": True}, repeat=True)
        self._forget()
        self._ending = "closed"

    async def delete(self) -> None:
        """Removes it whatever its persistence. Its workspace stays (client.remove_workspace)."""
        await self.remove()

    async def close(self) -> None:
        """The end of `with`: a box made by the constructor is removed; a session's as its persistence says; one that
        was created or connected to stays. Again is fine; so is a child of fork(), which leaves the box alone."""
        ending, self._ending = self._ending, "closed"
        if self._name is None or ending == "closed":
            return
        if self._pid == os.getpid():
            try:
                if ending == "remove":
                    await self.remove()
                elif ending == "session":
                    await self._close_session()
            except BaseException:
                self._ending = ending
                raise
        if self._own_client and self.client._net.is_async:
            await self.client.close()

    async def _close_session(self) -> None:
        try:
            keeps = (await self.info()).get("persistence") in ("box", "sandbox")
        except NotFound:
            return
        if keeps:
            await self.stop(grace=0)
        else:
            await self.remove()

    # ---- snapshots and forks ----

    async def snapshot(self, name: Optional[str] = None, *, keep: Optional[int] = None,
                       max_age: Optional[Seconds] = None, no_freeze: bool = False) -> Snapshot:
        """Keeps its files as they are now; it goes on. keep, max_age: a rule for the snapshots of this box. no_freeze:
        where the server cannot freeze a box (Unsupported) it is copied as it runs, and ``unfrozen`` says so."""
        fields: Json = {} if name is None else {"name": name}
        if keep is not None:
            fields["keep"] = keep
        if max_age is not None:
            fields["max_age"] = time_field("max_age", max_age)
        if no_freeze:
            fields["no_freeze"] = True
        return Snapshot.from_json(await self.client.json("POST", f"{self._path}/snapshots", json=fields))

    async def snapshots(self) -> List[Snapshot]:
        """Its snapshots, oldest first."""
        return await self.client.snapshots(self.name)

    async def rollback(self, snapshot: Union[str, Snapshot], *, keep_workspace: bool = False,
                       foreign: bool = False) -> Rollback:
        """Its files become those of a snapshot. What it sent meanwhile is not undone; the answer names it. foreign:
        take the snapshot of a box that this one does not come from."""
        name = snapshot.name if isinstance(snapshot, Snapshot) else snapshot
        asked: Json = {"snapshot": name, "keep_workspace": keep_workspace}
        return Rollback.from_json(await self.client.json("POST", f"{self._path}/rollback",
                                                         json={**asked, "foreign": True} if foreign else asked))

    async def fork(self, count: int = 1, *, name: Optional[str] = None, prefix: Optional[str] = None,
                   snapshot: Union[None, str, Snapshot] = None, no_freeze: bool = False) -> List[AsyncSandbox]:
        """New boxes that begin where this one is, or one of its snapshots. They end as this one does: removed with
        their own close(), or staying. no_freeze: as snapshot()'s."""
        asked: Dict[str, Any] = {"count": count, "name": name, "prefix": prefix}
        if snapshot is None:
            asked["box"] = self.name
            asked["no_freeze"] = no_freeze or None
        else:
            asked["snapshot"] = snapshot.name if isinstance(snapshot, Snapshot) else snapshot
        answer = await self.client.json("POST", "/v1/forks", json={k: v for k, v in asked.items() if v is not None})
        ending = "remove" if self._ending == "remove" else "leave"
        made = [self._of(one, self.client, ending, self._own_client) for one in answer["boxes"]]
        for one in made:
            one._note()
        return made

    # ---- what changed ----

    async def diff(self, to: Optional[str] = None, *, paths: Sequence[str] = (), text: bool = False,
                   workspace: bool = False) -> List[Change]:
        """What is different from what it started from; or in ``to``, another box, a snapshot or an image. paths: only
        these and what is below; text: what changed in files; workspace: only what is at /workspace."""
        asked: Json = {"from": f"box:{self.name}", "text": text, "workspace": workspace, "paths": list(paths)}
        answer = await self.client.json("POST", "/v1/diff", json={**asked, "to": to} if to else asked)
        return [Change.from_json(row) for row in answer["changes"]]

    async def merge(self, fork: Union[str, AsyncSandbox], *, paths: Sequence[str] = (), prefer: Optional[str] = None,
                    dry_run: bool = False, keep_workspace: bool = False) -> Json:
        """Brings what a fork of this box changed into it, whole or not at all. What both changed is a Conflict, whose
        ``details`` name it, unless ``prefer`` says "theirs" (the fork's) or "ours"."""
        asked: Json = {"from": fork if isinstance(fork, str) else fork.name, "to": self.name, "paths": list(paths),
                       "dry_run": dry_run, "keep_workspace": keep_workspace}
        return await self.client.json("POST", "/v1/merge", json={**asked, "prefer": prefer} if prefer else asked)

    async def save_image(self, name: str) -> None:
        """Makes an image of what the box has become."""
        await self.client.json("POST", f"{self._path}/image", json={"image": name})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name or 'not made yet'}>"


async def _create(client: AsyncClient, options: Mapping[str, Any],
                  command: Optional[Command]) -> Tuple[str, Optional[ExecResult]]:
    """The Idempotency-Key makes a repeat after a lost connection the same box. Where the caller names it, it is not
    repeated: the server takes another request for a box of that name as the same, should it ask for the same."""
    fields = box_fields(options)
    named = "name" in fields
    if command is not None:
        fields["command"] = command_fields(command)
    box = await client.json("POST", "/v1/boxes", json=fields, repeat=not named,
                            fields={} if named else {"Idempotency-Key": token()})
    result = box.get("result")
    return box["name"], ExecResult.from_json(result) if result else None


async def _create_or_join(client: AsyncClient, name: str, fields: Json) -> None:
    """Two that open a session at the same moment get one box."""
    for _ in range(OPEN_TRIES):
        try:
            await client.request("POST", "/v1/boxes", json=fields, repeat=True)
            return
        except Exists:
            pass
        try:
            await client.request("POST", f"/v1/boxes/{segment(name)}/start", repeat=True)
            return
        except NotFound:  # it was removed under our hands
            pass
    raise Conflict("conflict", f"the box '{name}' comes and goes: something else closes this session all the time")
