"""The blocking side: each call is the one of the asyncio side, run to its end on connections that block. All of it may
be used from several threads."""
from __future__ import annotations

import ssl
from typing import IO, TYPE_CHECKING, Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._box import SHELL, AsyncSandbox
from ._client import AsyncClient, shared_client
from ._files import AsyncFiles, PathLike
from ._images import OnEvent
from ._net import SyncNet, drive, iterate
from ._process import AsyncProcess, OnText
from .types import (BoxInfo, Change, Command, CommonOptions, ExecInfo, ExecResult, FileInfo, Json, Output, Port,
                    PortLink, PortResponse, Rollback, RunResult, Seconds, Snapshot)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .types import BoxOptions, SessionOptions


class Client:
    """A server. Sandboxes that are given none share one of the process.

    host: "http://HOST:PORT", "https://HOST", "unix:/PATH"; left out: $COVE_HOST, and without that a private server is
    started, which ends with this process. api_key: left out: $COVE_API_KEY. cove, home: the program and the state
    directory of a private server. timeout: seconds without a byte of an answer until Timeout is raised; commands
    are silent for as long as they run, so by default there is none. reconnect_timeout: how long a server that answered
    before may be away, as while it is restarted.
    """

    def __init__(self, host: Optional[str] = None, api_key: Optional[str] = None, *, cove: Optional[str] = None,
                 home: Optional[str] = None, timeout: Optional[float] = None, connect_timeout: float = 10.0,
                 reconnect_timeout: float = 15.0, ssl_context: Optional[ssl.SSLContext] = None,
                 _core: Optional[AsyncClient] = None) -> None:
        self._core = _core or AsyncClient(host, api_key, cove=cove, home=home, timeout=timeout,
                                          connect_timeout=connect_timeout, reconnect_timeout=reconnect_timeout,
                                          ssl_context=ssl_context, _net=SyncNet())

    def version(self) -> Json:
        """The server's version, its least wall, how long it has run."""
        return drive(self._core.version())

    def workspaces(self) -> List[Json]:
        """Your workspaces."""
        return drive(self._core.workspaces())

    def remove_workspace(self, name: str) -> None:
        """Removes a workspace and what is in it."""
        drive(self._core.remove_workspace(name))

    def snapshots(self, box: Optional[str] = None) -> List[Snapshot]:
        """Your snapshots, oldest first; those of one box, where one is named."""
        return drive(self._core.snapshots(box))

    def remove_snapshot(self, snapshot: Union[str, Snapshot]) -> None:
        """Removes a snapshot."""
        drive(self._core.remove_snapshot(snapshot))

    def images(self) -> List[Json]:
        """The images that you can use: your own, and the operator's, which all share."""
        return drive(self._core.images())

    def image(self, name: str) -> Json:
        """Everything known about an image."""
        return drive(self._core.image(name))

    def tag_image(self, name: str, tag: str) -> None:
        """A second name for an image, whatever that meant before."""
        drive(self._core.tag_image(name, tag))

    def remove_image(self, name: str) -> None:
        """Removes one of your images; boxes that were made of it stay."""
        drive(self._core.remove_image(name))

    def pull_image(self, ref: str, *, name: Optional[str] = None, platform: Optional[str] = None,
                   on_event: Optional[OnEvent] = None) -> Json:
        """An image of a registry: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]."""
        return drive(self._core.pull_image(ref, name=name, platform=platform, on_event=on_event))

    def import_image(self, name: str, archive: Union[PathLike, IO[bytes]], *, user: Optional[str] = None) -> Json:
        """An image of an archive: a root filesystem as a tar, which may be compressed, an OCI layout as a tar, or what
        docker save writes. A path, or a file from where it stands."""
        return drive(self._core.import_image(name, archive, user=user))

    def export_image(self, name: str, to: Union[PathLike, IO[bytes]], *, format: str = "oci") -> int:
        """An image as an archive ("oci", "docker", or "tar": its root filesystem), into a local file, which is whole or
        as it was, or into a file object. How many bytes."""
        return drive(self._core.export_image(name, to, format=format))

    def build_image(self, name: str, context: Union[None, PathLike, IO[bytes]] = None, *, text: Optional[str] = None,
                    dockerfile: Optional[str] = None, args: Optional[Mapping[str, str]] = None,
                    target: Optional[str] = None, secrets: Optional[Mapping[str, Union[str, bytes]]] = None,
                    no_cache: bool = False, net: Optional[str] = None, timeout: Optional[Seconds] = None,
                    on_event: Optional[OnEvent] = None) -> Json:
        """An image from a Dockerfile. context: a directory, a tar, or a file of one; text: the Dockerfile, where it is
        none of the context's. secrets: for RUN --mount=type=secret, by id. on_event gets each step and its output."""
        return drive(self._core.build_image(name, context, text=text, dockerfile=dockerfile, args=args, target=target,
                                            secrets=secrets, no_cache=no_cache, net=net, timeout=timeout,
                                            on_event=on_event))

    def run(self, command: Command, *, image: Optional[str] = None,
            files: Optional[Mapping[str, Union[str, bytes]]] = None, outputs: Sequence[str] = (),
            timeout: Optional[Seconds] = None, cwd: Optional[str] = None, user: Optional[str] = None,
            stdin: Union[None, str, bytes] = None, box: Optional[CommonOptions] = None) -> RunResult:
        """A command in a fresh box that is gone afterwards. files: what it finds, by path; outputs: paths of what is
        brought back, after a failure too. box: further options of it. cwd, user: the command's."""
        return drive(self._core.run(command, image=image, files=files, outputs=outputs, timeout=timeout, cwd=cwd,
                                    user=user, stdin=stdin, box=box))

    def json(self, method: str, path: str, *, query: Optional[Mapping[str, object]] = None,
             json: object = None) -> Json:
        """Any operation of the server, also one that this package has no method for: the object that the answer is, {}
        where it has no content. query, json: as docs/api/openapi.yaml has them."""
        return drive(self._core.json(method, path, query=query, json=json))

    def close(self) -> None:
        """Closes the connections that are kept. A private server goes on until the process ends."""
        drive(self._core.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _client_of(client: Optional[Client], host: Optional[str], api_key: Optional[str]) -> AsyncClient:
    return client._core if client else shared_client(host, api_key, blocking=True)


class Files:
    """The files of one box. A path is absolute, or from where commands start; ``~`` is the user's home. A box that is
    stopped is up for as long as the call."""

    def __init__(self, core: AsyncFiles) -> None:
        self._core = core

    def read(self, path: str, *, user: Optional[str] = None) -> bytes:
        """The bytes of a file."""
        return drive(self._core.read(path, user=user))

    def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict",
                  user: Optional[str] = None) -> str:
        """A file as text."""
        return drive(self._core.read_text(path, encoding=encoding, errors=errors, user=user))

    def write(self, path: str, data: Union[str, bytes], *, mode: Optional[int] = None,
              user: Optional[str] = None) -> None:
        """Writes a file, whole or not at all; a text is UTF-8. Directories above it are made."""
        drive(self._core.write(path, data, mode=mode, user=user))

    def upload(self, source: Union[PathLike, IO[Any]], path: str, *, mode: Optional[int] = None,
               user: Optional[str] = None) -> None:
        """A local file, or a file object from where it stands, becomes the file at ``path``."""
        drive(self._core.upload(source, path, mode=mode, user=user))

    def stream(self, path: str, *, user: Optional[str] = None) -> Iterator[bytes]:
        """The bytes of a file piece by piece; of a directory, a tar."""
        return iterate(self._core.stream(path, user=user))

    def download(self, path: str, to: Union[PathLike, IO[bytes]], *, user: Optional[str] = None) -> int:
        """A file of the box into a local file, which is whole or as it was, or into a file object. How many bytes."""
        return drive(self._core.download(path, to, user=user))

    def put_dir(self, local: PathLike, path: str, *, user: Optional[str] = None) -> None:
        """What is in a local directory comes into the directory ``path``, which is made where it is missing. Its files
        are the user's there."""
        drive(self._core.put_dir(local, path, user=user))

    def get_dir(self, path: str, local: PathLike, *, user: Optional[str] = None) -> List[str]:
        """What is in a directory of the box comes into a local one, which is made where it is missing. Names what was
        left out: links that lead out of it, and what is neither file, directory nor link."""
        return drive(self._core.get_dir(path, local, user=user))

    def list(self, path: str = ".") -> List[FileInfo]:
        """What is in a directory, by name."""
        return drive(self._core.list(path))

    def mkdir(self, path: str, *, mode: Optional[int] = None) -> None:
        """Makes a directory, and those above it. One that is there is fine."""
        drive(self._core.mkdir(path, mode=mode))

    def stat(self, path: str) -> FileInfo:
        """What is there; a link is a link."""
        return drive(self._core.stat(path))

    def exists(self, path: str) -> bool:
        """Whether something is there; a link counts, wherever it leads."""
        return drive(self._core.exists(path))

    def move(self, path: str, to: str) -> None:
        """Gives a file or directory another name."""
        drive(self._core.move(path, to))

    def chmod(self, path: str, mode: int) -> None:
        """Sets permissions, as 0o755."""
        drive(self._core.chmod(path, mode))

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or an empty directory; with ``recursive`` a directory and what is in it. What is not there is
        fine."""
        drive(self._core.remove(path, recursive=recursive))


class Process:
    """A command that runs beside you; see Sandbox.spawn. It goes on when this object does not. One thread may write
    to it while another reads."""

    def __init__(self, core: AsyncProcess) -> None:
        self._core = core

    @property
    def exec_id(self) -> int:
        """Its number in the box; Sandbox.process() finds it again by that."""
        return self._core.exec_id

    @property
    def result(self) -> Optional[ExecResult]:
        """Once it was seen to end."""
        return self._core.result

    def events(self, stdout_from: int = 0, stderr_from: int = 0) -> Iterator[Output]:
        """What it printed and prints, from byte offsets on, until it ends; then ``result`` is there. A lost connection
        is made again, and every byte comes once. With stdin or a terminal: from where the last reader stopped."""
        return iterate(self._core.events(stdout_from, stderr_from))

    def __iter__(self) -> Iterator[Output]:
        return self.events()

    def read(self, stdout_from: int = 0, stderr_from: int = 0) -> Tuple[bytes, bytes]:
        """What it printed until now, (stdout, stderr), from byte offsets on; does not wait."""
        return drive(self._core.read(stdout_from, stderr_from))

    def wait(self, timeout: Optional[float] = None) -> ExecResult:
        """Its result, when it has ended; Timeout where that takes longer than ``timeout`` seconds (it goes on then).
        With stdin or a terminal this reads the output, so that the command can go on printing."""
        return drive(self._core.wait(timeout))

    def write(self, data: Union[str, bytes]) -> None:
        """Into its stdin, or the terminal. Waits while the command does not read; another thread must read its output
        meanwhile, if it prints much."""
        drive(self._core.write(data))

    def close_stdin(self) -> None:
        """The end of its stdin."""
        drive(self._core.close_stdin())

    def resize(self, rows: int, cols: int) -> None:
        """Of its terminal."""
        drive(self._core.resize(rows, cols))

    def signal(self, signal: Union[str, int] = "TERM") -> None:
        """Sends it a signal, by name or number."""
        drive(self._core.signal(signal))

    def kill(self) -> None:
        """Ends it and all that it started. One that has ended already is fine."""
        drive(self._core.kill())

    def close(self) -> None:
        """Lets go of its connection. The command goes on."""
        drive(self._core.close())

    def __repr__(self) -> str:
        return repr(self._core).replace("AsyncProcess", "Process")


class Sandbox:
    """A box of one's own: ``with Sandbox() as sb: print(sb.run("echo hi").stdout)``.

    Made at once, removed at the end of `with` or by close(). ``Sandbox.create`` makes one that stays; ``connect`` finds
    one that is there; ``open`` is a session. The options are those of cove.BoxOptions. ``command`` runs first,
    in the same request; its result is in ``result``.
    """

    def __init__(self, image: Optional[str] = None, *, command: Optional[Command] = None,
                 client: Optional[Client] = None, host: Optional[str] = None, api_key: Optional[str] = None,
                 **options: Unpack[BoxOptions]) -> None:
        self._core = AsyncSandbox(image, command=command, client=_client_of(client, host, api_key), **options)
        drive(self._core._make())

    @classmethod
    def _of(cls, core: AsyncSandbox) -> Sandbox:
        sandbox = cls.__new__(cls)
        sandbox._core = core
        return sandbox

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def create(cls, image: Optional[str] = None, *, command: Optional[Command] = None,
               client: Optional[Client] = None, host: Optional[str] = None, api_key: Optional[str] = None,
               **options: Unpack[BoxOptions]) -> Sandbox:
        """A new box that stays until it is removed."""
        return cls._of(drive(AsyncSandbox.create(image, command=command, client=_client_of(client, host, api_key),
                                                 **options)))

    @classmethod
    def connect(cls, name: str, *, client: Optional[Client] = None, host: Optional[str] = None,
                api_key: Optional[str] = None) -> Sandbox:
        """A box that is there, by name. It stays when this object is closed."""
        return cls._of(drive(AsyncSandbox.connect(name, client=_client_of(client, host, api_key))))

    @classmethod
    def open(cls, session: str, *, prefix: Optional[str] = None, persistence: Optional[str] = None,
             mounts: Optional[Sequence[str]] = None, client: Optional[Client] = None, host: Optional[str] = None,
             api_key: Optional[str] = None, **options: Unpack[SessionOptions]) -> Sandbox:
        """A session: your own id is always the same box, made, started or joined as it needs to be. What the options
        say counts where the box is made. close() removes the box and leaves its workspace (persistence "workspace",
        the default), or stops it (persistence "box")."""
        return cls._of(drive(AsyncSandbox.open(session, prefix=prefix, persistence=persistence, mounts=mounts,
                                               client=_client_of(client, host, api_key), **options)))

    @classmethod
    def list(cls, *, label: Optional[str] = None, state: Optional[str] = None, client: Optional[Client] = None,
             host: Optional[str] = None, api_key: Optional[str] = None) -> List[BoxInfo]:
        """All your boxes in the order of their names; those with a label ("NAME" or "NAME=VALUE"), in a state."""
        return drive(AsyncSandbox.list(label=label, state=state, client=_client_of(client, host, api_key)))

    # ---- what it is ----

    @property
    def name(self) -> str:
        """The box's name."""
        return self._core.name

    @property
    def result(self) -> Optional[ExecResult]:
        """Of the first command, where one was given with the box."""
        return self._core.result

    @property
    def client(self) -> Client:
        """What its requests go through."""
        return Client(_core=self._core.client)

    @property
    def files(self) -> Files:
        """Its files."""
        return Files(self._core.files)

    def info(self) -> Json:
        """Everything known about the box."""
        return drive(self._core.info())

    def stats(self) -> Json:
        """What it uses now."""
        return drive(self._core.stats())

    def history(self, *, follow: bool = False, after: int = 0) -> Iterator[Json]:
        """What happened to the box, oldest first, as objects with "seq", "event" and more; with ``follow`` also what
        happens from now on, until the box ends. ``after``: the seq that was seen last."""
        return iterate(self._core.history(follow=follow, after=after))

    # ---- ports ----

    def ports(self) -> List[Port]:
        """What listens in the box."""
        return drive(self._core.ports())

    def fetch(self, port: int, path: str = "/", *, method: Optional[str] = None, body: Union[None, str, bytes] = None,
              json: object = None, headers: Optional[Mapping[str, str]] = None) -> PortResponse:
        """Asks a program that listens in the box. ``path`` may have a query. Any status is an answer; raises where
        there is none, as where nothing listens. method: GET, or POST where there is a body."""
        return drive(self._core.fetch(port, path, method=method, body=body, json=json, headers=headers))

    def link(self, port: int, *, expires: Optional[Seconds] = None) -> PortLink:
        """A way to a port for who has no key, by its own name, for an hour unless ``expires`` says how many seconds.
        The server must give ports names (``cove serve --domain``)."""
        return drive(self._core.link(port, expires=expires))

    def url(self, port: int, *, expires: Optional[Seconds] = None) -> str:
        """The address of a port for a browser, or for anybody who has it, until it expires; see link()."""
        return drive(self._core.url(port, expires=expires))

    def get_host(self, port: int) -> str:
        """The name of a port, "8000-box.example.org"; who asks there brings a key, unless the port is public."""
        return drive(self._core.get_host(port))

    # ---- commands ----

    def run(self, command: str, *, timeout: Optional[Seconds] = None, env: Optional[Mapping[str, str]] = None,
            cwd: Optional[str] = None, user: Optional[str] = None, stdin: Union[None, str, bytes] = None,
            check: bool = False, on_stdout: Optional[OnText] = None, on_stderr: Optional[OnText] = None,
            shell: Optional[str] = None) -> ExecResult:
        """Runs a line in the box's shell, which stays: what one line cds to and exports, the next one finds.

        timeout: seconds; what is over it is ended, and the result says timed_out. env, cwd: for this line alone, which
        then runs in a subshell. user: each has a shell of their own; so has each name given as ``shell``. check:
        another status than 0 raises CommandFailed. on_stdout, on_stderr: called with each piece of text as it comes.
        """
        return drive(self._core.run(command, timeout=timeout, env=env, cwd=cwd, user=user, stdin=stdin, check=check,
                                    on_stdout=on_stdout, on_stderr=on_stderr, shell=shell))

    def exec(self, command: Command, *, timeout: Optional[Seconds] = None, env: Optional[Mapping[str, str]] = None,
             cwd: Optional[str] = None, user: Optional[str] = None, stdin: Union[None, str, bytes] = None,
             check: bool = False, on_stdout: Optional[OnText] = None,
             on_stderr: Optional[OnText] = None) -> ExecResult:
        """Runs a program with its arguments (a list), or a line in a fresh shell (a str), on its own: nothing stays of
        it but its files."""
        return drive(self._core.exec(command, timeout=timeout, env=env, cwd=cwd, user=user, stdin=stdin, check=check,
                                     on_stdout=on_stdout, on_stderr=on_stderr))

    def spawn(self, command: Command, *, timeout: Optional[Seconds] = None, env: Optional[Mapping[str, str]] = None,
              cwd: Optional[str] = None, user: Optional[str] = None, stdin: bool = False, pty: bool = False,
              rows: int = 24, cols: int = 80) -> Process:
        """Begins a command and returns at once. stdin: write() and close_stdin() reach it. pty: it has a terminal,
        and one stream of output."""
        return Process(drive(self._core.spawn(command, timeout=timeout, env=env, cwd=cwd, user=user, stdin=stdin,
                                              pty=pty, rows=rows, cols=cols)))

    def process(self, exec_id: int) -> Process:
        """A command that was begun before, here or elsewhere."""
        return Process(self._core.process(exec_id))

    def processes(self) -> List[ExecInfo]:
        """The commands of the box, running or not."""
        return drive(self._core.processes())

    def shells(self) -> List[Json]:
        """Its persistent shells."""
        return drive(self._core.shells())

    def remove_shell(self, name: str = SHELL, *, force: bool = False) -> None:
        """Ends a shell, and what it keeps; with ``force`` one that is busy. The next line starts a new one."""
        drive(self._core.remove_shell(name, force=force))

    # ---- its life ----

    def start(self) -> None:
        """Starts it, where it is stopped."""
        drive(self._core.start())

    def stop(self, *, grace: Optional[Seconds] = None) -> None:
        """Ends all its processes; its files stay. They have ``grace`` seconds to end by themselves."""
        drive(self._core.stop(grace=grace))

    def pause(self) -> None:
        """Freezes all its processes in memory."""
        drive(self._core.pause())

    def resume(self) -> None:
        """Lets them run again."""
        drive(self._core.resume())

    def remove(self) -> None:
        """Removes it, running or not. One that is gone already is fine."""
        drive(self._core.remove())

    def delete(self) -> None:
        """Removes it whatever its persistence. Its workspace stays (client.remove_workspace)."""
        drive(self._core.delete())

    def close(self) -> None:
        """The end of `with`: a box made by the constructor is removed; a session's as its persistence says; one that
        was created or connected to stays. Again is fine; so is a child of fork(), which leaves the box alone."""
        drive(self._core.close())

    # ---- snapshots and forks ----

    def snapshot(self, name: Optional[str] = None, *, keep: Optional[int] = None,
                 max_age: Optional[Seconds] = None, no_freeze: bool = False) -> Snapshot:
        """Keeps its files as they are now; it goes on. keep, max_age: a rule for the snapshots of this box. no_freeze:
        where the server cannot freeze a box (Unsupported) it is copied as it runs, and ``unfrozen`` says so."""
        return drive(self._core.snapshot(name, keep=keep, max_age=max_age, no_freeze=no_freeze))

    def snapshots(self) -> List[Snapshot]:
        """Its snapshots, oldest first."""
        return drive(self._core.snapshots())

    def rollback(self, snapshot: Union[str, Snapshot], *, keep_workspace: bool = False,
                 foreign: bool = False) -> Rollback:
        """Its files become those of a snapshot. What it sent meanwhile is not undone; the answer names it. foreign:
        take the snapshot of a box that this one does not come from."""
        return drive(self._core.rollback(snapshot, keep_workspace=keep_workspace, foreign=foreign))

    def fork(self, count: int = 1, *, name: Optional[str] = None, prefix: Optional[str] = None,
             snapshot: Union[None, str, Snapshot] = None, no_freeze: bool = False) -> List[Sandbox]:
        """New boxes that begin where this one is, or one of its snapshots. They end as this one does: removed with
        their own close(), or staying. no_freeze: as snapshot()'s."""
        return [self._of(core) for core in drive(self._core.fork(count, name=name, prefix=prefix, snapshot=snapshot,
                                                                 no_freeze=no_freeze))]

    def diff(self, to: Optional[str] = None, *, paths: Sequence[str] = (), text: bool = False,
             workspace: bool = False) -> List[Change]:
        """What is different from what it started from; or in ``to``, another box, a snapshot or an image. paths: only
        these and what is below; text: what changed in files; workspace: only what is at /workspace."""
        return drive(self._core.diff(to, paths=paths, text=text, workspace=workspace))

    def merge(self, fork: Union[str, Sandbox], *, paths: Sequence[str] = (), prefer: Optional[str] = None,
              dry_run: bool = False, keep_workspace: bool = False) -> Json:
        """Brings what a fork of this box changed into it, whole or not at all. What both changed is a Conflict, whose
        ``details`` name it, unless ``prefer`` says "theirs" (the fork's) or "ours"."""
        return drive(self._core.merge(fork if isinstance(fork, str) else fork.name, paths=paths, prefer=prefer,
                                      dry_run=dry_run, keep_workspace=keep_workspace))

    def save_image(self, name: str) -> None:
        """Makes an image of what the box has become."""
        drive(self._core.save_image(name))

    def __repr__(self) -> str:
        return repr(self._core).replace("AsyncSandbox", "Sandbox")
