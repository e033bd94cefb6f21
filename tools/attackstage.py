"""Where a run of tools/attack or tools/test-runner keeps everything, and what ends it: also a run that was killed.

All of a run is below /tmp/cove-attack.PID.* or /tmp/cove-test.PID.*: programs, state directories, canaries; its users
and their groups are called cove-tPID and a letter. A run that is alive holds the directory's lock. clear() ends and
removes what is in one such directory; sweep() does so for every one whose run is gone.
"""
import ctypes
import fcntl
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile

from testuser import Delegated, TestUser

TOP = pathlib.Path("/tmp")
NAME = re.compile(r"cove-(?:attack|test)\.(\d+)\.\w+")
SECONDS = 120  # until what was asked to end is ended


def make(kind="attack"):
    """A new directory, locked, and the descriptor of its lock."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=f"cove-{kind}.{os.getpid()}.", dir=TOP))
    lock = open(path / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    path.chmod(0o755)
    return path, lock


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def is_locked(path):
    try:
        with open(path / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def programs_below(path):
    """Process numbers whose program lies below path, or whose command line names it."""
    found, name = [], os.fsencode(str(path) + "/")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = os.fsencode(os.readlink(f"/proc/{pid}/exe"))
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if (program.startswith(name) or name + b"tree/run.py" in words) and int(pid) != os.getpid():
            found.append(int(pid))
    return found


def remove_boxes(path, base):
    """By the run's own program, so that groups and loop devices go too."""
    try:
        prefix = pathlib.Path((path / "prefix").read_text())
        if not (base / "h").is_dir() or base.lstat().st_uid != os.geteuid():
            return
        env = {"PATH": os.defpath, "HOME": str(base), "COVE_HOME": str(base / "h"),
               "COVE_LIBEXEC": str(prefix / "libexec/cove")}
        cove = [str(prefix / "bin/cove")]
        names = subprocess.run([*cove, "ls", "-q"], env=env, capture_output=True, text=True, timeout=SECONDS).stdout
        if names.split():
            subprocess.run([*cove, "rm", "-f", *names.split()], env=env, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        pass  # what is left is ended as processes


def remove_objects(base):
    """The IPC objects of its canaries (see Canaries in tests/attack/rig.py)."""
    try:
        objects = json.loads((base / "objects").read_text())
        key, name = int(objects["key"]), objects["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    libc = ctypes.CDLL(None)
    for find, control, args in (("shmget", "shmctl", (0, None)), ("msgget", "msgctl", (0, None)),
                                ("semget", "semctl", (0, 0))):
        number = getattr(libc, find)(key, 0) if find == "msgget" else getattr(libc, find)(key, 0, 0)
        if number >= 0:
            getattr(libc, control)(number, *args)
    if re.fullmatch(r"cove-canary-[0-9a-f]+", str(name)):
        libc.mq_unlink(b"/" + name.encode())
        (pathlib.Path("/dev/shm") / name).unlink(missing_ok=True)


def clear(path):
    """Ends everything that a run has below path, then removes it."""
    for pid in programs_below(path):
        if b"run.py" in read(f"/proc/{pid}/cmdline"):
            kill(pid)
    for base in (path / "r").glob("cv*"):
        remove_boxes(path, base)
        remove_objects(base)
    for pid in programs_below(path):
        kill(pid)
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # files of subordinate ids
        subprocess.run(["unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf", str(path)],
                       stderr=subprocess.DEVNULL)


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def sweep():
    """What runs left that were killed. Returns the names."""
    swept = []
    for user in pwd.getpwall() if os.geteuid() == 0 else []:
        match = re.fullmatch(r"cove-t(\d+)[a-z]", user.pw_name)
        if match and re.match(rf"{TOP}/cove-(attack|test)\.{match[1]}\.", user.pw_dir) and is_gone(match[1]):
            stale = TestUser.__new__(TestUser)
            stale.name, stale.made_files = user.pw_name, []
            group = Delegated.find(stale)
            stale.remove()
            group.remove()
            swept.append(user.pw_name)
    for path in TOP.glob("cove-*"):
        match = NAME.fullmatch(path.name)
        try:
            status = path.lstat()
        except FileNotFoundError:  # another run's, which has just ended
            continue
        if not match or not is_gone(match[1]) or status.st_uid != os.geteuid() or \
                not stat.S_ISDIR(status.st_mode) or is_locked(path):
            continue
        clear(path)
        swept.append(path.name)
    return swept
