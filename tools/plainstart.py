"""Tests start the same way, however they are started.

`make test` may be started by nohup, cron, a CI runner or a script: signals ignored or blocked, 0, 1 or 2 closed,
another language, a tight umask, no HOME, COVE_* of the caller's own boxes. All of that is inherited by every program
below and changes what it does, rightly; so a test run begins in a process that has none of it.

That process is in a session of its own: a hangup or Ctrl-C of the terminal does not come there by itself. The one that
was started waits for it and passes on what it would have ended by: what it was told to ignore it still ignores.
"""
import ctypes
import os
import pwd
import signal
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
UNWANTED = ("LC_", "COVE_", "XDG_", "PYTEST_")
UNWANTED_NAMES = {"LANGUAGE", "BASH_ENV", "ENV", "CDPATH", "POSIXLY_CORRECT", "COLUMNS", "LINES", "NOTIFY_SOCKET"}
PR_SET_PDEATHSIG = 1


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
        plain_signals()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
        plain_environment()
        os.umask(0o022)
        sys.exit(main() if os.getppid() == parent else 1)
    for number in set(PASSED_ON) - ignored:
        signal.signal(number, lambda number, _: os.killpg(child, number))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) % 256 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
