"""Tests start the same way, however they are started.

`make test` may be started by nohup, cron, a CI runner or a script: signals ignored or blocked, 0, 1 or 2 closed,
another language, a tight umask, no HOME, COVE_* of the caller's own boxes. All of that is inherited by every program
below and changes what it does, rightly; so a test run begins in a process that has none of it.

That process is in a session of its own: a hangup or Ctrl-C of the terminal does not come there by itself. The one that
was started waits for it and passes on what it would have ended by: what it was told to ignore it still ignores.
There a signal is an exception, Interrupted, in the main thread, so that users, groups, directories and boxes of the run
are removed. The next signal ends it at once.
"""
import ctypes
import os
import pwd
import signal
import sys
import threading
import time

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
UNWANTED = ("LC_", "COVE_", "XDG_", "PYTEST_")
UNWANTED_NAMES = {"LANGUAGE", "BASH_ENV", "ENV", "CDPATH", "POSIXLY_CORRECT", "COLUMNS", "LINES", "NOTIFY_SOCKET"}
PR_SET_PDEATHSIG = 1
SAME_SECONDS = 1  # make, a shell and a terminal may all pass one signal on: within this time it is the same one


class Interrupted(BaseException):
    """A signal asked this run to end."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


class Interruption:
    """Whether the run was asked to end, and when."""
    number, at, cleaning = 0, 0.0, False


class Worker(threading.Thread):
    """A thread that can be joined again when a signal broke the first join off: Python 3.11 then takes a plain one
    for ended while it runs."""

    def __init__(self, **kw):
        super().__init__(**kw)
        self.ended = threading.Event()

    def run(self):
        try:
            super().run()
        finally:
            self.ended.set()

    def join(self, timeout=None):
        self.ended.wait(timeout)
        super().join(timeout)


def is_interrupted():
    """For threads: the exception comes in the main one only."""
    return Interruption.number != 0


def begin_cleanup():
    """From here on a first signal does not break off: what it would have begun has begun."""
    Interruption.cleaning = True


def on_signal(number, _frame):
    if not Interruption.number:
        Interruption.number, Interruption.at = number, time.monotonic()
        if not Interruption.cleaning:
            raise Interrupted(number)
    elif time.monotonic() - Interruption.at > SAME_SECONDS:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def run_interruptible(main):
    """main()'s status, or the one of a program that the signal ended."""
    try:
        status = main()
    except Interrupted:
        pass
    if Interruption.number:
        status = 128 + Interruption.number
        os.write(2, f"interrupted by {signal.Signals(Interruption.number).name}\n".encode())
    return status


def fill_low_fds():
    """/dev/null wherever 0, 1 or 2 is closed."""
    while (fd := os.open("/dev/null", os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)


def plain_signals():
    """Every signal as a login shell's child has it; also in a process that tests run in directly."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) in (signal.SIG_IGN, None) and number != signal.SIGPIPE:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def plain_environment():
    for name in list(os.environ):
        if name.startswith(UNWANTED) or name in UNWANTED_NAMES:
            del os.environ[name]
    os.environ.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    os.environ.setdefault("HOME", pwd.getpwuid(os.geteuid()).pw_dir)
    os.environ.update(LANG="C.UTF-8", TERM="dumb")


def run(main):
    """Ends this process with main()'s status, from a process of its own."""
    fill_low_fds()
    parent = os.getpid()
    ignored = {s for s in PASSED_ON if signal.getsignal(s) is signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is somebody to pass them on to
    child = os.fork()
    if child == 0:
        os.setsid()
        for number in PASSED_ON:
            signal.signal(number, on_signal)
        plain_signals()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        plain_environment()
        os.umask(0o022)
        sys.exit(run_interruptible(main) if os.getppid() == parent else 1)
    for number in set(PASSED_ON) - ignored:
        signal.signal(number, lambda number, _: os.killpg(child, number))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) % 256 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
