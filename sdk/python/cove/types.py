"""What the calls take and give. Every object made from an answer has all of it in ``raw``."""
from __future__ import annotations

import base64
import json as jsonlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

Json = Dict[str, Any]
Size = Union[int, str]  # bytes, or a text as "512m", "2g"; -1: none
Seconds = Union[int, float, str]  # seconds, or a text as "90s", "10m"
Command = Union[str, Sequence[str]]  # a shell line, or a program and its arguments


class CommonOptions(TypedDict, total=False):
    """What a new box may have; what is left out is the server's default."""

    workspace: str  # /workspace of the box: a name, or a host directory with a slash in it
    env: Mapping[str, str]
    labels: Mapping[str, str]
    cwd: str  # where commands start
    user: str
    timeout: Seconds  # of each command that has none of its own
    mem: Size
    cpus: Union[float, str]
    pids: int
    disk: Size
    files: int  # open at once, of one process
    io: Size  # per second
    ttl: Seconds  # the box ends so long after its start
    idle: Seconds  # ... and so long after its last command or request
    expire: str  # what happens then: "stop", "remove" or "pause"
    restart: str  # when it died: "no", "on-reboot" or "always"
    on_start: str  # a line that runs in the background each time it has started
    net: str  # "closed", "balanced", "open"
    allow: Sequence[str]  # "HOST[:PORT]" beside it
    deny: Sequence[str]
    net_bytes: Size
    net_conns: int
    storage: str
    wall: str
    best_effort: bool  # limits that this host cannot keep are left out, and named in info()
    strict: bool
    trust_dir: bool
    ptrace: bool
    copy: bool  # with a host directory as workspace: the box works on a copy-on-write view of it
    ctl: str  # what its programs may ask: "info,budget,snapshot"


class BoxOptions(CommonOptions, total=False):
    """... beside its image."""

    name: str  # lower-case letters, digits and inner dashes; left out: a fresh one
    mounts: Sequence[str]  # "SRC:DST[:ro][,env=NAME]"
    persistence: str  # "workspace" or "box"


class SessionOptions(CommonOptions, total=False):
    """... of a session, beside its mounts and persistence."""

    image: str  # left out: "base"


KNOWN = {*BoxOptions.__annotations__, *SessionOptions.__annotations__}
TIMES = {"timeout": "timeout_ms", "ttl": "ttl", "idle": "idle"}


def time_field(name: str, value: Seconds) -> Union[int, str]:
    """A time as the API has it: a text, or milliseconds of at least one; infinity is -1, none."""
    if isinstance(value, str):
        return value
    if not value > 0:
        raise ValueError(f"{name} must be more than 0 seconds; float('inf') means none")
    return -1 if value == float("inf") else max(1, round(value * 1000))


def box_fields(options: Mapping[str, Any]) -> Json:
    """The body of a request for a new box."""
    fields: Json = {}
    for name, value in options.items():
        if name not in KNOWN:
            raise TypeError(f"there is no option '{name}' of a box")
        if value is None:
            continue
        if name in TIMES:
            fields[TIMES[name]] = time_field(name, value)
        elif isinstance(value, Mapping):
            fields[name] = dict(value)
        else:
            fields[name] = list(value) if isinstance(value, (tuple, set)) else value
    return fields


@dataclass(frozen=True)
class Denial:
    """What the box's network policy kept from a command."""

    host: str
    reason: str
    port: Optional[int] = None
    method: Optional[str] = None
    why: Optional[str] = None  # the reason as one word
    remedy: Optional[str] = None

    @classmethod
    def from_json(cls, o: Json) -> Denial:
        return cls(o.get("host", ""), o.get("reason", ""), o.get("port"), o.get("method"), o.get("why"),
                   o.get("remedy"))


@dataclass(frozen=True)
class ExecResult:
    """How a command ended, and what it printed (the first MiB of each stream)."""

    exit_code: int  # its own; 128+N after signal N, 124 after its time was over, -1 if it is not known
    stdout: str  # bytes that are no UTF-8 became U+FFFD; stdout_data has them exactly
    stderr: str
    cwd: Optional[str] = None  # where the shell is now
    duration_ms: int = 0
    signal: Optional[int] = None  # that ended it
    timed_out: bool = False
    oom_killed: bool = False
    truncated: bool = False  # more was printed than is here
    cause: str = "exit"  # "exit", "signal", "timeout", "oom", "pids", "disk", "stopped", ...
    exec_id: int = 0
    shell: Optional[str] = None  # what became of the shell: "kept", "exited", "restarted"
    denied: Sequence[Denial] = ()
    limit: Optional[str] = None  # the one that was met
    limit_value: Optional[int] = None
    remedy: Optional[str] = None  # what raises it
    stdout_data: bytes = field(default=b"", repr=False)
    stderr_data: bytes = field(default=b"", repr=False)
    raw: Json = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """It ended with status 0."""
        return self.exit_code == 0

    @classmethod
    def from_json(cls, o: Json, stdout: Optional[bytes] = None, stderr: Optional[bytes] = None,
                  truncated: bool = False) -> ExecResult:
        """stdout and stderr: what was streamed before, where the answer has none of it."""
        data = [_stream_of(o, name) if given is None else given
                for name, given in (("stdout", stdout), ("stderr", stderr))]
        code = o.get("exit_code")
        return cls(exit_code=-1 if code is None else code,
                   stdout=data[0].decode("utf-8", "replace"), stderr=data[1].decode("utf-8", "replace"),
                   cwd=o.get("cwd"), duration_ms=o.get("duration_ms") or 0, signal=o.get("signal"),
                   timed_out=bool(o.get("timed_out")), oom_killed=bool(o.get("oom_killed")),
                   truncated=truncated or bool(o.get("truncated")), cause=o.get("cause") or "",
                   exec_id=o.get("exec_id") or 0, shell=o.get("shell"),
                   denied=tuple(Denial.from_json(d) for d in o.get("denied") or ()),
                   limit=o.get("limit"), limit_value=o.get("limit_value"), remedy=o.get("remedy"),
                   stdout_data=data[0], stderr_data=data[1], raw=o)


def _stream_of(o: Json, name: str) -> bytes:
    if o.get(name + "_base64") is not None:
        return base64.b64decode(o[name + "_base64"])
    return (o.get(name) or "").encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Output:
    """A piece of what a command printed: ``stream`` is "stdout" or "stderr", ``offset`` the place of its first byte."""

    stream: str
    data: bytes
    offset: int


@dataclass(frozen=True)
class ExecInfo:
    """A command of a box, running or not."""

    exec_id: int
    command: str
    state: str  # "queued", "running", "done"
    exit_code: Optional[int]
    background: bool
    shell: Optional[str]
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> ExecInfo:
        return cls(o["exec_id"], o.get("command") or "", o.get("state") or "", o.get("exit_code"),
                   bool(o.get("background")), o.get("shell"), o)


@dataclass(frozen=True)
class Port:
    """Something that listens in a box."""

    port: int
    address: str
    program: str
    pid: int
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> Port:
        return cls(o["port"], o["address"], o["program"], o["pid"], o)


@dataclass(frozen=True)
class PortLink:
    """A way to one port of a box that needs no key. ``link`` is all of it, for a browser; others may bring ``token`` as
    the query's ``cove_token`` to any path of ``url``. ``expires`` is seconds of the clock."""

    host: str
    url: str
    link: str = field(repr=False)
    token: str = field(repr=False)
    expires: float
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> PortLink:
        return cls(o["host"], o["url"], o["link"], o["token"], o["expires_ms"] / 1000, o)


@dataclass(frozen=True)
class PortResponse:
    """What a program in a box answered, whatever its status. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return jsonlib.loads(self.body)


@dataclass(frozen=True)
class FileInfo:
    """What is at a path. ``type`` is "file", "directory", "link" or "other"."""

    name: str
    type: str
    size: int
    mode: int
    uid: int
    gid: int
    mtime: float
    target: Optional[str] = None  # of a link
    raw: Json = field(default_factory=dict, repr=False)

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    @property
    def is_file(self) -> bool:
        return self.type == "file"

    @classmethod
    def from_json(cls, o: Json) -> FileInfo:
        return cls(o["name"], o["type"], o.get("size") or 0, o.get("mode") or 0, o.get("uid") or 0,
                   o.get("gid") or 0, (o.get("mtime_ns") or 0) / 1e9, o.get("target"), o)


@dataclass(frozen=True)
class BoxInfo:
    """A box as it is listed. ``state`` is "created", "running", "paused" or "stopped"."""

    name: str
    state: str
    image: str
    workspace: Optional[str]
    persistence: Optional[str]
    created_ms: int
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> BoxInfo:
        return cls(o["name"], o.get("state") or "", o.get("image") or "", o.get("workspace"),
                   o.get("persistence"), o.get("created_ms") or 0, o)


@dataclass(frozen=True)
class Snapshot:
    """The files of a box as they were at one moment; ``unfrozen``: as they were while it ran, see snapshot()."""

    name: str
    box: str
    created_ms: int
    unfrozen: bool = False
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> Snapshot:
        return cls(o["name"], o.get("box") or "", o.get("created_ms") or 0, bool(o.get("unfrozen")), o)


@dataclass(frozen=True)
class Rollback:
    """A rollback that was done. What the box sent since the snapshot is not undone: ``sent`` requests to ``hosts``."""

    started: bool
    sent: int
    hosts: List[str]
    sent_unknown: bool
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> Rollback:
        return cls(bool(o.get("started")), o.get("sent") or 0, (o.get("hosts") or "").replace(",", " ").split(),
                   bool(o.get("sent_unknown")), o)


@dataclass(frozen=True)
class BuildEvent:
    """How far a build, a pull or an import is: ``kind`` is "step", "cached", "stdout", "stderr", "done" and "note" of
    a build, "progress" of the others."""

    kind: str
    text: str  # the instruction, or what it printed
    step: int = 0
    steps: int = 0
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, kind: str, o: Json) -> BuildEvent:
        text = o.get("text") or base64.b64decode(o.get("base64") or "").decode("utf-8", "replace")
        return cls(kind, text, o.get("step") or 0, o.get("steps") or 0, o)


@dataclass(frozen=True)
class RunResult:
    """A one-time run: its result, and what it left. A directory is a tar."""

    result: ExecResult
    files: Dict[str, bytes]
    errors: Dict[str, str]  # of outputs that are not there, or not whole: why
    raw: Json = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Change:
    """One difference between two trees of files. ``kind`` is "added", "changed" or "removed"."""

    kind: str
    path: str
    text: Optional[str] = None  # what changed in the file, line by line, where it was asked for
    raw: Json = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, o: Json) -> Change:
        return cls(o["kind"], o["path"], o.get("text"), o)
