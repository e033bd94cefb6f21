"""Terminals: a pty in the box driven through a pty of ours."""
import fcntl
import hashlib
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pytest

from conftest import DEADLINE, wait_until

pytestmark = pytest.mark.once("root")


class Terminal:
    """A cove program on a terminal of its own."""

    def __init__(self, cove, *args, rows=30, cols=100):
        self.seen = b""
        argv = cove.argv(args)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execve(argv[0], argv, {**cove.env, "TERM": "xterm"})
            finally:
                os._exit(99)
        self.resize(rows, cols)

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, data):
        os.write(self.fd, data)

    def expect(self, pattern, seconds=DEADLINE):
        """Reads until pattern is seen after the last match."""
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.seen[-3000:]!r}"
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:
                chunk = b""
            assert chunk, f"ended without {pattern!r} in {self.seen[-3000:]!r}"
            self.seen += chunk
        self.seen = self.seen[match.end():]
        return match

    def wait(self):
        """Reads to the end and returns the exit status."""
        while True:
            assert select.select([self.fd], [], [], DEADLINE)[0], f"no end after {self.seen[-3000:]!r}"
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        status = os.waitpid(self.pid, 0)[1]
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(cove):
    made = []

    def make(*args, **kw):
        made.append(Terminal(cove, *args, **kw))
        return made[-1]

    yield make
    for t in made:
        t.close()


def shell(terminal, box):
    t = terminal("shell", box)
    t.expect(rb"[$#] ")
    t.send(b"PS1='rea''dy> '\n")
    t.expect(rb"ready> ")
    return t


def test_run_has_a_terminal(terminal):
    t = terminal("run", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all; tty")
    t.expect(rb"all\r\n/dev/pts/\d+\r\n")
    assert t.wait() == 0


def test_without_a_terminal_there_is_none(cove, shared):
    assert cove("exec", shared, "--", "tty").text == "not a tty\n"


def test_no_tty_flag(terminal, shared):
    t = terminal("exec", "--no-tty", shared, "--", "sh", "-c", "test -t 1 || echo none")
    t.expect(rb"none\r?\n")


def test_exit_status_through_a_terminal(terminal, shared):
    assert terminal("exec", "-t", shared, "--", "sh", "-c", "exit 23").wait() == 23


def test_size_and_resize(terminal, shared):
    t = terminal("exec", "-t", shared, "--", "bash", "-c",
                 "trap 'stty size' WINCH; stty size; echo up; while :; do sleep 0.05; done", rows=33, cols=77)
    t.expect(rb"33 77")
    t.expect(rb"up")
    t.resize(44, 88)
    t.expect(rb"44 88")


def test_interactive_shell(terminal, shared):
    t = shell(terminal, shared)
    t.send(b"echo $((40 + 2))\n")
    t.expect(rb"[\r\n]42\r\n")
    t.send(b"exit 5\n")
    assert t.wait() == 5


def test_ctrl_c(terminal, shared):
    t = shell(terminal, shared)
    t.send(b"sh -c 'echo st''art; exec sleep 1000'\n")
    t.expect(rb"start\r\n")
    t.send(b"\x03")
    t.expect(rb"ready> ")
    t.send(b"echo status $?\n")
    t.expect(rb"status 130\r\n")


def test_ctrl_z_and_fg(terminal, shared):
    t = shell(terminal, shared)
    t.send(b"sh -c 'echo st''art; read x; echo got $x'\n")
    t.expect(rb"start\r\n")
    t.send(b"\x1a")
    t.expect(rb"Stopped")
    t.expect(rb"ready> ")
    t.send(b"fg\n")
    t.expect(rb"fg\r\n")
    t.send(b"word\n")
    t.expect(rb"got word\r\n")


def test_ctrl_d(terminal, shared):
    t = shell(terminal, shared)
    t.send(b"sh -c 'echo st''art; exec cat'\n")
    t.expect(rb"start\r\n")
    t.send(b"line\n")
    t.expect(rb"line\r\nline\r\n")
    t.send(b"\x04")
    t.expect(rb"ready> ")
    t.send(b"\x04")
    assert t.wait() == 0


def test_ctrl_backslash(terminal, shared):
    t = shell(terminal, shared)
    t.send(b"sh -c 'echo st''art; exec sleep 1000'\n")
    t.expect(rb"start\r\n")
    t.send(b"\x1c")
    t.expect(rb"ready> ")


def test_top(terminal, shared):
    t = terminal("exec", "-t", shared, "--", "top")
    t.expect(rb"PID")
    t.send(b"q")
    assert t.wait() == 0


def test_less(terminal, shared):
    t = terminal("exec", "-t", shared, "--", "sh", "-c", "seq 5000 | less")
    t.expect(rb"10\r\n")
    t.send(b"G")
    t.expect(rb"5000")
    t.send(b"g/2345\n")
    t.expect(rb"2345")
    t.send(b"q")
    assert t.wait() == 0


def test_python_prompt(terminal, shared):
    t = terminal("exec", "-t", shared, "--", "python3", "-q")
    t.expect(rb">>> ")
    t.send(b"print(6 * 7)\n")
    t.expect(rb"42\r\n")
    t.expect(rb">>> ")  # before that the terminal is not python's, and Ctrl-D would be the kernel's
    t.send(b"\x04")
    assert t.wait() == 0


def test_large_paste(terminal, shared):
    t = shell(terminal, shared)
    t.send(b"stty raw -echo; echo g''o; head -c 200000 | md5sum; stty sane\n")
    t.expect(rb"go\r?\n")
    data = b"0123456789" * 20000
    sent = 0
    os.set_blocking(t.fd, False)
    end = time.monotonic() + DEADLINE
    while sent < len(data):
        assert time.monotonic() < end
        _, writable, _ = select.select([], [t.fd], [], 1)
        if writable:
            try:
                sent += os.write(t.fd, data[sent:sent + 4096])
            except BlockingIOError:
                pass
    os.set_blocking(t.fd, True)
    t.expect(hashlib.md5(data).hexdigest().encode())


def test_terminal_modes_are_restored(terminal, shared):
    master, slave = pty.openpty()
    fresh = termios.tcgetattr(slave)
    os.close(master)
    os.close(slave)
    t = terminal("exec", "-t", shared, "--", "sh", "-c", "stty raw -echo; echo done")
    assert t.wait() == 0
    assert termios.tcgetattr(t.fd) == fresh


def test_hangup_ends_the_interactive_shell(terminal, cove, box):
    t = shell(terminal, box)
    t.send(b"sh -c 'echo u''p; exec sleep 7654'\n")
    t.expect(rb"up\r\n")
    os.close(t.fd)
    t.fd = os.open("/dev/null", os.O_RDONLY)
    wait_until(lambda: cove("exec", box, "--", "pgrep", "-f", "^sleep 7654").rc == 1, "the hang-up to arrive")


def test_output_of_one_mib_through_a_terminal(terminal, shared):
    t = terminal("exec", "-t", shared, "--", "sh", "-c", "seq 150000; echo e''nd")
    t.expect(rb"149999\r\n150000\r\nend")
    assert t.wait() == 0


def test_what_takes_longer_than_a_second_says_so(cove, box):
    """On a terminal, and it is gone again; in a pipe nothing is said."""
    cove("exec", "-d", box, "--", "bash", "-c", "trap '' TERM; touch /tmp/up; while :; do sleep 1; done").ok()
    wait_until(lambda: cove("exec", box, "--", "test", "-e", "/tmp/up").rc == 0, "the trap")
    terminal = Terminal(cove, "stop", "--grace", "2s", box)
    terminal.expect(rf"stop {box} \.\.\.".encode())
    terminal.expect(rb"\r\x1b\[K")
    assert terminal.wait() == 0
    cove("start", box).ok()
    assert cove("stop", box).ok().errors == ""


def test_what_takes_long_says_so(terminal, tmp_path):
    """The file comes from a pipe that nobody has written to yet, so the import waits until it is seen to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for verb in ("snapshot", "workspace"):
        t = terminal(verb, "import", str(pipe))
        t.expect(rb"importing .*/pip")
        pipe.write_text("nothing that Cove wrote")
        assert t.wait() == 125
