"""The ground that attack cases stand on: canaries on the host, boxes, and the checks after every case.

A case of the host's side is a function with @case; it returns (held, with an optional sentence), or
raises Broke or NotApplicable. Cases inside a box come from the program `attack` (see attack.h).
"""
import base64
import ctypes
import functools
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

import programs
import walls
from programs import (DEADLINE, Broke, NotApplicable, Result, alive, need, state_of,  # noqa: F401  for the cases
                      wait_until)

SMALL_PIDS, SMALL_DISK = 64, 32
SMALL_MEM, SMALL_MEM_OWN = 64, 192  # where a box brings a kernel of its own that has to fit in, too
LIMITS = {"memory": "memory", "pids": "pids", "disk": "disk", "cpu": "cpus"}  # in a box: for doctor


class Weaker(NotApplicable):
    """It was tried and went as far as this host lets anybody: told in a line of its own."""


class Case:
    def __init__(self, name, line, held, run, slow=False, quick_only=False):
        self.name, self.line, self.held, self.run, self.slow = name, line, held, run, slow


CASES = []


def case(name, line, held, slow=False):
    def add(function):
        CASES.append(Case(name, line, held, function, slow))
        return function
    return add


class Cove(programs.Cove):
    """The cove program with a state directory. What boxes print is remembered by its hash only where it
    holds the decoy: every output is searched as it comes."""

    def __init__(self, rig, prefix, home, without=None):
        super().__init__(prefix, home, "host", {"DECOY_TOKEN": rig.secret})
        if without:
            self.env["COVE_WITHOUT"] = without
        self.rig, self.started = rig, []

    def __call__(self, *args, input=b"", timeout=DEADLINE):
        argv = self.argv(args)
        process = subprocess.Popen(argv, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Broke(f"cove {args[0]} did not answer in {timeout} s: {args[:6]}") from None
        except BaseException:
            process.kill()
            process.wait()
            raise
        self.rig.search(out + err, f"cove {args[0]}")
        return Result(argv, process.returncode, out, err)

    def start(self, *args, **kw):
        process = super().start(*args, start_new_session=True, **kw)
        self.started = [p for p in self.started if p.poll() is None] + [process]
        return process


def memory_of(pid):
    """Resident bytes of a host process, 0 if it is gone."""
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Canaries:
    """What must stay as it is: files, listeners, a process, IPC objects."""

    def __init__(self, base, rig):
        self.dir = base / "canary"
        self.dir.mkdir()
        self.shown = rig.program  # a host file that every box is shown
        self.mark = "CANARY-" + secrets.token_hex(8)
        self.file = self.dir / "secret"
        self.content = f"{self.mark} {rig.secret} ".encode() + secrets.token_bytes(512)
        self.plant()
        self.tcp = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.tcp.setblocking(False)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.abstract_name = "cove-canary-" + secrets.token_hex(6)
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind("\0" + self.abstract_name)
        self.unix.listen()
        self.unix.setblocking(False)
        self.program = base / "covecanary"
        shutil.copy("/usr/bin/sleep", self.program)
        self.process = subprocess.Popen([self.program, "7200"], env={"DECOY_TOKEN": rig.secret})
        self.ipc(base, rig)
        self.before = self.state()

    def plant(self):
        """The files; also after a hit, so that the next case has something to find."""
        shutil.rmtree(self.dir)
        self.dir.mkdir()
        self.file.write_bytes(self.content)
        (self.dir / "canary-file").write_bytes(self.content)
        (self.dir / "sub").mkdir()
        (self.dir / "sub/file").write_bytes(self.content)
        (self.dir / "sub/canary-file").write_bytes(self.content)

    def ipc(self, base, rig):
        libc = ctypes.CDLL(None, use_errno=True)
        self.libc, self.key = libc, secrets.randbelow(1 << 30) + 1000
        self.mq = "cove-canary-" + secrets.token_hex(4)
        (base / "objects").write_text(json.dumps({"key": self.key, "name": self.mq}))
        self.shm = libc.shmget(self.key, 4096, 0o1600)
        libc.shmat.restype = ctypes.c_void_p
        at = libc.shmat(self.shm, None, 0)
        text = f"{self.mark} {rig.secret}".encode()
        ctypes.memmove(at, text, len(text))
        libc.shmdt(ctypes.c_void_p(at))
        self.queue, self.sem = libc.msgget(self.key, 0o1600), libc.semget(self.key, 1, 0o1600)
        self.mq_fd = libc.mq_open(b"/" + self.mq.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        self.shm_file = pathlib.Path("/dev/shm") / self.mq
        self.shm_file.write_text(f"{self.mark} {rig.secret}")

    def state(self):
        """Names, modes, times and content of everything in the canary directory, and the program shown."""
        digest = hashlib.sha256(self.shown.read_bytes())
        for path in [self.dir, *sorted(self.dir.rglob("*"))]:
            st = path.lstat()
            digest.update(f"{path} {st.st_mode} {st.st_uid} {st.st_mtime_ns} {st.st_nlink} ".encode())
            if stat.S_ISREG(st.st_mode):
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def touched(self):
        """A sentence if anything was, None otherwise."""
        if self.state() != self.before:
            names = [str(p.relative_to(self.dir)) for p in self.dir.rglob("*")]
            self.plant()
            self.before = self.state()
            return f"the canary directory changed; it holds {sorted(names)[:8]}"
        for name, listener in (("TCP", self.tcp), ("abstract", self.unix)):
            try:
                peer, _ = listener.accept()
                peer.close()
                return f"somebody reached the host's {name} listener"
            except BlockingIOError:
                pass
        try:
            self.udp.recvfrom(64)
            return "somebody reached the host's UDP socket"
        except BlockingIOError:
            pass
        if self.process.poll() is not None:
            return "the host's canary process was ended"
        if state_of(self.process.pid) not in "SR":
            self.process.send_signal(signal.SIGCONT)
            return "the host's canary process was stopped"
        return None

    def environment(self, rig):
        return {
            "CANARY_PATH": self.file, "CANARY_MARK": self.mark, "CANARY_PID": self.process.pid,
            "CANARY_COMM": self.program.name, "CANARY_PORT": self.tcp.getsockname()[1],
            "CANARY_UDP": self.udp.getsockname()[1],
            "CANARY_ABSTRACT": self.abstract_name, "CANARY_SHM": self.shm, "CANARY_SHM_KEY": self.key,
            "CANARY_MSG_KEY": self.key, "CANARY_SEM_KEY": self.key, "CANARY_MQ": self.mq,
            "CANARY_SHM_FILE": self.shm_file.name, "CANARY_STAGE": "/cove-attack.", "CANARY_HOME": rig.cove.home,
        }

    def remove(self):
        self.process.kill()
        self.process.wait()
        self.libc.shmctl(self.shm, 0, None)
        self.libc.msgctl(self.queue, 0, None)
        self.libc.semctl(self.sem, 0, 0)
        self.libc.mq_unlink(b"/" + self.mq.encode())
        self.shm_file.unlink(missing_ok=True)
        self.tcp.close()
        self.udp.close()
        self.unix.close()


class Rig:
    """One run as one identity: a state directory, canaries and a few boxes that cases share."""

    def __init__(self, options):
        self.options, self.quick = options, options.quick
        self.is_root = os.geteuid() == 0
        self.secret = "DECOY" + secrets.token_hex(24)
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="cv", dir=options.stage))
        self.base.chmod(0o755)
        self.leaks, self.boxes, self.used = [], {}, set()
        self.makers = {"small": self.make_small}  # kinds of boxes that cases share, beside the plain one
        self.closers = []                         # called at the end, before anything is removed
        self.cove = Cove(self, pathlib.Path(options.prefix), str(self.base / "h"), options.without)
        self.wall = self.cove.wall or "native"
        self.small_mem = SMALL_MEM_OWN if self.own_kernel else SMALL_MEM
        self.outer = {}  # of a box with a kernel of its own: the host's processes that it was
        self.program = pathlib.Path(options.program)
        self.canary = Canaries(self.base, self)
        self.shared = self.base / "shared"
        self.shared.mkdir()
        self.tmp = self.base / "t"
        self.tmp.mkdir()
        if options.tar:
            self.cove.import_image(options.tar)
            self.cove.image = "base"
        self.help = self.cove("help", "create").text
        self.not_enforced = []

    @property
    def own_kernel(self):
        """Whether the box's system calls are answered by another kernel than the host's."""
        return self.wall != "native"

    def excuse(self, name, text):
        return walls.excuse(self.wall, name, text)

    def running(self, box, word):
        """Command lines with that word of a box's processes, told by the kernel that runs them. Of a box that does not
        run: what is left on the host."""
        if not self.own_kernel:
            lines = [command(pid) for pid in processes_with(word)]
            return [line for line in lines if word in line and self.cove.program not in line]
        state = self.cove.inspect(box) if box in self.cove.names() else {"state": "removed"}
        if state["state"] != "running":
            return [command(pid) for pid in self.outer.get(box, ()) if alive(pid)]
        self.outer[box] = programs.descendants(state["init_pid"])
        look = ("sh", "-c", 'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; echo; done 2>/dev/null')
        said = self.cove("exec", "-u", "root", box, "--", *look)
        if said.rc:  # a box with one id, or --strict
            said = self.cove("exec", box, "--", *look).ok()
        return [line for line in said.text.splitlines() if word in line]

    @functools.cached_property
    def promised(self):
        """What doctor says that this host enforces for this caller."""
        return set(self.cove("doctor", "--no-test", "--json").json["enforced"])

    @functools.cached_property
    def needles(self):
        """The decoy as it is, and as it looks within base64 at each alignment."""
        text, found = self.secret.encode(), [self.secret.encode()]
        for lead in range(3):
            code = base64.b64encode(b"\0" * lead + text)
            found.append(code[4 if lead else 0:len(code) // 4 * 4 - 4])
        return found

    def search(self, data, where):
        if any(needle in data for needle in self.needles):
            self.leaks.append(where)

    # ---- boxes ----

    def flags(self, extra=()):
        env = {**self.canary.environment(self), **dict(extra)}
        return ["--mount", f"{self.program.parent}:/attack:ro",
                *[word for k, v in env.items() for word in ("-e", f"{k}={v}")]]

    def make(self, *flags, extra=()):
        return self.cove("create", *self.flags(extra), *flags).ok().text.strip()

    def box(self, kind="plain"):
        """A shared box of that kind; a fresh one if it is not usable any more."""
        self.used.add(kind)
        name = self.boxes.get(kind)
        if not name:
            name = self.boxes[kind] = self.makers.get(kind, self.make)()
        return name

    def small_flags(self):
        return ["--mem", f"{self.small_mem}M", "--pids", SMALL_PIDS, "--disk", f"{SMALL_DISK}M", "--cpus", "1"]

    def make_small(self, *more):
        extra = {"BOX_MEM_MIB": self.small_mem, "BOX_CPUS": 1}
        if "--mem" not in self.help:
            self.not_enforced = [f"{what}: this build has no limits" for what in LIMITS]
            return self.make(*more, extra=extra)
        for manner in ((), ("--best-effort", "--storage", "tmpfs"), ("--best-effort",)):
            made = self.cove("create", *self.flags(extra), *self.small_flags(), *manner, *more)
            if made.rc == 0:
                break
            need(not set(LIMITS.values()) <= self.promised, f"doctor promises every limit, but {made!r}")
        name = made.ok().text.strip()
        self.not_enforced = self.cove.inspect(name).get("not_enforced", [])
        return name

    def lacks(self, what):
        """The reason why small boxes do not have that limit here, or None."""
        self.box("small")
        why = next((line for line in self.not_enforced if line.startswith(what + ":")), None)
        need(not why or LIMITS[what] not in self.promised, f"doctor promises that {what} is limited, but {why}")
        return f"{what} cannot be limited for this caller here" if why else None

    def forget(self, kind):
        name = self.boxes.pop(kind, None)
        if name:
            self.cove("rm", "-f", name)

    def answers(self, name):
        return self.complaint(name) is None

    def complaint(self, name):
        """None if it answers; what it said otherwise."""
        result = self.cove("exec", name, "--", "/attack/attack", "--bytes", "3")
        fine = result.rc == 0 and result.out == b"\0\1\2"
        return None if fine else f"{result.rc}, {result.out!r}, {result.err.decode(errors='replace').strip()}"

    def healthy(self, kind):
        """Usable, or ended with a cause; a sentence otherwise."""
        name = self.boxes.get(kind)
        if not name:
            return None
        said = self.complaint(name)
        if not said:
            return None
        state = self.cove.inspect(name)
        self.forget(kind)
        if state.get("state") != "running" and state.get("cause"):
            return None
        return f"the box does not answer ({said}): state {state.get('state')}, cause {state.get('cause')}"

    def root_inside(self):
        if not hasattr(self, "has_root"):
            self.has_root = self.cove("exec", "-u", "root", self.box(), "--", "/attack/attack", "--bytes",
                                      "1").rc == 0
        return self.has_root

    def keeper(self, name):
        return self.cove.inspect(name)["keeper_pid"]

    def search_all(self):
        """Where the decoy was found and must not be."""
        found = list(self.leaks)
        for top in (self.cove.home, str(self.shared), str(self.tmp)):
            for directory, names, files in os.walk(top):
                names[:] = [n for n in names if n not in ("layers", "images")
                            and os.path.join(directory, n) != os.path.join(self.cove.home, "secrets")]
                found += [path for name in files if holds(path := os.path.join(directory, name), self.needles)]
        return sorted(set(found))

    def close(self):
        for closer in self.closers:
            closer()
        for process in self.cove.started:
            if process.poll() is None:
                end(process)
        names = self.cove("ls", "-q").text.split()
        if names:
            self.cove("rm", "-f", *names, timeout=300)
        for name in self.cove("workspace", "ls", "-q").text.split():
            self.cove("workspace", "rm", name)
        self.canary.remove()
        remove_tree(self.base)


def holds(path, words):
    """Is one of the words in the data of a regular file? Holes are not read: a box's disk is mostly one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        at, tail = 0, b""
        while stat.S_ISREG(os.fstat(fd).st_mode):
            data = os.lseek(fd, at, os.SEEK_DATA)
            hole, tail = os.lseek(fd, data, os.SEEK_HOLE), b"" if data != at else tail
            for at in range(data, hole, 1 << 22):
                tail += os.pread(fd, min(1 << 22, hole - at), at)
                if any(word in tail for word in words):
                    return True
                tail = tail[-max(map(len, words)):]
            at = hole
    except OSError:  # no data any more
        pass
    finally:
        os.close(fd)
    return False


def remove_tree(path):
    subprocess.run(["chmod", "-R", "u+rwX", str(path)], stderr=subprocess.DEVNULL)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.exists(path):
        subprocess.run(["unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf", str(path)])


def command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def processes_with(word):
    """Host process numbers whose command line has the word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in text and int(pid) != os.getpid() and alive(pid):
            found.append(int(pid))
    return found


def end(process, sig=signal.SIGKILL):
    try:
        os.killpg(process.pid, sig)
    except ProcessLookupError:
        pass
    try:
        process.communicate(timeout=DEADLINE)
    except (subprocess.TimeoutExpired, ValueError):
        process.kill()
