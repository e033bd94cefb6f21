"""A server of this process alone: started at the first need, ended with the process, however that ends.

The server reads a pipe whose only other end is here; it ends when the pipe does. After a fork() the child closes its
copy of that end and, should it need a server, starts its own on the same state directory.
"""
from __future__ import annotations

import atexit
import collections
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Callable, Deque, Dict, List, Optional, Set, Tuple

from ._net import Endpoint
from .errors import ConnectionFailed

START_SECONDS, END_SECONDS = 30.0, 20.0
PREFIX, PLACE_MAX = "cove-py-", 70
LEFT_SECONDS = 60.0  # a directory that is empty for so long is of no server that is just starting


def find_program(given: Optional[str]) -> str:
    """The cove program: as given, $COVE_BIN, or in PATH."""
    wanted = given or os.environ.get("COVE_BIN") or "cove"
    found = shutil.which(wanted)
    if not found:
        raise ConnectionFailed("connection", f"no server is named (COVE_HOST, or host=) and there is no program "
                                             f"'{wanted}' to start one (COVE_BIN, or cove=)")
    return os.path.abspath(found)


class PrivateServer:
    """Of one program and state directory. ``ephemeral`` are the boxes that go when the process does."""

    def __init__(self, program: str, home: Optional[str]) -> None:
        self._program, self._home = program, home
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._directory: Optional[str] = None
        self._reader: Optional[threading.Thread] = None
        self._said: Deque[bytes] = collections.deque(maxlen=20)
        self.ephemeral: Set[str] = set()

    @property
    def pid(self) -> Optional[int]:
        return self._process.pid if self._process else None

    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def endpoint(self) -> Endpoint:
        """Where it listens; starts it where it does not run (any more)."""
        with _lock:
            if not self.is_up():
                self._start()
            return Endpoint(path=f"{self._directory}/s")

    def _start(self) -> None:
        self._drop()
        self._directory = directory = _make_directory()
        env = dict(os.environ)
        if self._home:
            env["COVE_HOME"] = self._home
        try:
            # In a session of its own, so that a Ctrl-C at the terminal is this process's to handle.
            self._process = process = subprocess.Popen(
                [self._program, "serve", "--socket", f"{directory}/s", "--private"], env=env, start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            self._drop()
            raise ConnectionFailed("connection", f"{self._program}: {error.strerror}") from error
        self._said.clear()
        self._reader = reader = threading.Thread(target=self._keep_log, args=(process,), name="cove-log", daemon=True)
        reader.start()
        try:
            ready = _await_line(process)
        except BaseException:
            process.kill()
            self._drop()
            raise
        if not ready:
            process.kill()
            process.wait()
            reader.join(END_SECONDS)
            said = b"".join(self._said).decode("utf-8", "replace").strip()
            self._drop()
            raise ConnectionFailed("connection", f"`cove serve` did not start: {said or 'it said nothing'}")

    def _keep_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr
        with process.stderr as log:
            while line := log.readline(4096):
                self._said.append(line)

    def _drop(self) -> None:
        """What is left of one that has ended."""
        if self._process:
            self._process.poll()
            for stream in (self._process.stdin, self._process.stdout):
                if stream:
                    stream.close()
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._process = self._directory = None

    def stop(self) -> None:
        """Ends it, and waits until it has ended."""
        with _lock:
            process = self._process
            if process and process.stdin:
                process.stdin.close()
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                if self._reader:
                    self._reader.join(1.0)
            self._drop()

    def forget(self) -> None:
        """In a child after fork(): it is the parent's, and so are its boxes."""
        process, self._process, self._directory = self._process, None, None
        self.ephemeral = set()
        if process:
            process.returncode = 0  # not this process's child
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
            if process.stderr:
                # Not closed: the lock of its reader, which is no thread of this process, may be held for ever.
                null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                os.dup2(null, process.stderr.fileno(), inheritable=False)
                os.close(null)
                _abandoned.append(process.stderr)


def _make_directory() -> str:
    """For the socket. Those that killed processes left are removed: their servers took the sockets out."""
    place = tempfile.gettempdir()
    if len(place) > PLACE_MAX:  # the address of a socket is short
        place = "/tmp"
    for name in os.listdir(place):
        path = os.path.join(place, name)
        try:
            if name.startswith(PREFIX) and os.lstat(path).st_mtime < time.time() - LEFT_SECONDS:
                os.rmdir(path)
        except OSError:  # it is in use, another user's, or another process was faster
            pass
    return tempfile.mkdtemp(prefix=PREFIX, dir=place)


def _await_line(process: subprocess.Popen[bytes]) -> bool:
    """Whether it said where it listens; false where it ended or said nothing for too long."""
    assert process.stdout
    end, said = time.monotonic() + START_SECONDS, b""
    while b"listening on " not in said or not said.endswith(b"\n"):
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            return False
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            return False
        said += piece
    return True


_servers: Dict[Tuple[str, Optional[str]], PrivateServer] = {}
_lock = threading.RLock()  # held over a fork: no child has a pipe that it does not know of
_abandoned: List[object] = []
# Set by the client: removes boxes through a server that is about to end.
remove_boxes: Optional[Callable[[PrivateServer], None]] = None


def server_for(program: Optional[str], home: Optional[str]) -> PrivateServer:
    """The one of this process."""
    key = (find_program(program), home)
    with _lock:
        if not _servers:
            atexit.register(_end_all)
        return _servers.setdefault(key, PrivateServer(*key))


def _end_all() -> None:
    for server in list(_servers.values()):
        if server.is_up() or server.ephemeral:
            try:
                if server.ephemeral and remove_boxes:
                    remove_boxes(server)
            finally:
                server.stop()


def _after_fork() -> None:
    for server in _servers.values():
        server.forget()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)
