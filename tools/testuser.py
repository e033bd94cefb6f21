"""An ordinary user for as long as a test or a measurement takes; needs root."""
import contextlib
import errno
import fcntl
import os
import pathlib
import pwd
import signal
import subprocess
import time


class UserFailed(Exception):
    pass


def quiet(argv):
    """In a session of its own: a signal to the test run must not end it between two files of users."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          start_new_session=True)
    if done.returncode != 0:
        raise UserFailed(f"{' '.join(map(str, argv))}\n{done.stdout}")


@contextlib.contextmanager
def alone():
    """Two runs at once must not find the same ids free, nor the files of users locked."""
    lock = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def uninterrupted():
    """A signal comes after this: subprocess would kill what it waits for, and half a user is left."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def free_subids():
    """The first of 65,536 ids that no entry of /etc/subuid or /etc/subgid covers."""
    first = 100000
    for path in ("/etc/subuid", "/etc/subgid"):
        for line in pathlib.Path(path).read_text().splitlines():
            fields = line.split(":")
            if len(fields) == 3 and fields[1].isdigit() and fields[2].isdigit():
                first = max(first, int(fields[1]) + int(fields[2]))
    return first


class TestUser:
    """An ordinary user for as long as the test takes."""

    def __init__(self, stage, letter, subids):
        self.name = f"cove-t{os.getpid()}{letter}"
        self.made_files = [p for p in ("/etc/subuid", "/etc/subgid") if not os.path.exists(p)]
        for path in self.made_files:
            pathlib.Path(path).touch(mode=0o644)
        self.home, self.group = stage / f"home-{letter}", Delegated(None)
        try:
            with uninterrupted():
                self.make(subids)
        except BaseException:
            if any(user.pw_name == self.name for user in pwd.getpwall()):
                self.remove()
            raise

    def make(self, subids):
        with alone():
            quiet(["useradd", "--system", "--no-log-init", "--user-group", "--groups", "users", "--create-home",
                   "--home-dir", self.home, "--shell", "/bin/bash", self.name])
            if subids:
                first = free_subids()
                span = f"{first}-{first + 65535}"
                quiet(["usermod", "--add-subuids", span, "--add-subgids", span, self.name])

    def processes(self):
        uid = pwd.getpwnam(self.name).pw_uid
        return [int(p) for p in os.listdir("/proc") if p.isdigit() and owner_of(p) == uid]

    def remove(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 20
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        with alone():
            quiet(["userdel", self.name])
        for path in self.made_files:
            if os.path.exists(path) and not os.path.getsize(path):
                os.unlink(path)


class Delegated:
    """A v2 group that belongs to a user, as systemd's Delegate=yes makes one; path is None where there is no v2, and
    for nobody."""

    def __init__(self, user):
        self.path = self.place(user) if user else None
        if not self.path:
            return
        try:
            self.path.mkdir()
        except OSError:
            self.path = None
            return
        owner = pwd.getpwnam(user.name)
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(self.path / name, owner.pw_uid, owner.pw_gid)

    @staticmethod
    def place(user):
        mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        tops = [fields[4] for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"]
        return pathlib.Path(tops[0]) / user.name if tops else None

    @classmethod
    def find(cls, user):
        """The one that a killed run left, or nobody's."""
        group = cls(None)
        group.path = cls.place(user)
        return group

    def take(self, pid):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(pid))

    def enter(self):
        """Words before a command line that runs in it."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.path / "cgroup.procs")] if self.path else []

    def remove(self):
        """What was killed in it may still be ending."""
        for directory, _, _ in os.walk(self.path, topdown=False) if self.path else ():
            end = time.monotonic() + 20
            while not is_removed(directory) and time.monotonic() < end:
                time.sleep(0.05)


def is_removed(group):
    try:
        os.rmdir(group)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def owner_of(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1
