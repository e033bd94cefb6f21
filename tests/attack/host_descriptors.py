"""A3 from the host's side: what the processes of a box hold, and what a path through /proc finds while a command
is being started. Every kind of command runs at once; then every descriptor, directory and program of every process
in the box is looked at: none may be on a mount of the host, and `..` from none may end outside the box."""
import ctypes
import json
import os
import pty
import re
import socket
import stat
import subprocess

from rig import NotApplicable, case, need, wait_until

UP = "/.." * 24
OPEN = ("socket:", "pipe:", "anon_inode:")  # leads to no directory
PORT = 7391
# What a command does while it is looked at: it sleeps until its box goes.
SLEEP = ("sleep", "3600")


def mount_of(fd, pid="self"):
    for line in open(f"/proc/{pid}/fdinfo/{fd}"):
        if line.startswith("mnt_id:"):
            return int(line.split()[1])
    return -1


def mounts_here():
    return {int(line.split()[0]) for line in open("/proc/self/mountinfo")}


def identity(path):
    """Where a path ends: mount, device, inode, and whether it is a directory."""
    fd = os.open(path, os.O_PATH)
    try:
        st = os.fstat(fd)
        return mount_of(fd), st.st_dev, st.st_ino, stat.S_ISDIR(st.st_mode)
    finally:
        os.close(fd)


def below(pid):
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        for task in os.listdir(f"/proc/{parent}/task"):
            found += map(int, open(f"/proc/{parent}/task/{task}/children").read().split())
    return found


def links_of(pid):
    names = [f"fd/{n}" for n in os.listdir(f"/proc/{pid}/fd")] + ["cwd", "root", "exe"]
    if os.geteuid() == 0:  # the kernel shows these to nobody else
        names += [f"map_files/{n}" for n in os.listdir(f"/proc/{pid}/map_files")]
    return names


def is_bare(path):
    """A root that a wall's program made for itself: in memory of its own, with nothing but places in it."""
    device = os.stat(path).st_dev
    ours = {line.split()[2] for line in open("/proc/self/mountinfo")}
    return f"{os.major(device)}:{os.minor(device)}" not in ours and set(os.listdir(path)) <= {"etc", "proc", "root"}


class Walk:
    """Looks at the processes of one box; `found` is what leads out."""

    def __init__(self, init, is_apart=False):
        self.host, self.top = mounts_here(), identity("/")
        self.root = identity(f"/proc/{init}/root")
        self.is_apart = is_apart
        self.found, self.looked, self.directories = [], 0, 0
        need(self.root[1:3] != self.top[1:3], "the box has the host's root")

    def look(self, pid, name):
        path = f"/proc/{pid}/{name}"
        try:
            text = os.readlink(path)
            if text.startswith(OPEN):
                return
            here = identity(path)
            above = identity(path + UP) if here[3] else None
        except (FileNotFoundError, ProcessLookupError):
            return  # it ended, or was closed, meanwhile
        self.looked += 1
        if here[0] in self.host:
            self.found.append(f"{name} of {pid} is '{text}', on a mount of the host")
        if above is None:
            return
        self.directories += 1
        if above[0] in self.host or above[1:3] == self.top[1:3]:
            self.found.append(f"`..` from {name} ('{text}') of {pid} ends on the host")
        elif above[:3] != self.root[:3] and above[0] != here[0] and not (self.is_apart and is_bare(path + UP)):
            self.found.append(f"`..` from {name} ('{text}') of {pid} ends neither in the box's root nor on its mount")

    def all(self, pids):
        for pid in pids:
            try:
                names = links_of(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            for name in names:
                self.look(pid, name)
        return self


def look_at(init, pids, is_apart=False):
    """What a Walk found. An ordinary caller may look only from within the box's user namespace, which is its own: a
    child goes there. is_apart: some made a root for themselves."""
    if os.geteuid() == 0:
        return vars(Walk(init, is_apart).all(pids))
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answer = {"found": ["the walk itself failed"]}
        try:
            inside = os.open(f"/proc/{init}/ns/user", os.O_RDONLY)
            if ctypes.CDLL(None, use_errno=True).setns(inside, 0) == 0:
                answer = vars(Walk(init, is_apart).all(pids))
        finally:
            os.write(theirs, json.dumps({k: answer.get(k, 0) for k in ("found", "looked", "directories")}).encode())
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        told = json.loads(pipe.read())
    os.waitpid(child, 0)
    return told


def on_terminal(rig, box):
    """A command with a terminal, driven through one of ours. Returns our side, to be closed."""
    ours, theirs = pty.openpty()
    rig.cove.start("exec", "-t", box, "--", *SLEEP, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    return ours


def keep_busy(rig, box):
    """Every kind of command and operation, all at once."""
    rig.cove("exec", "-d", box, "--", *SLEEP).ok()
    rig.cove.start("sh", box, "sleep 3600")
    rig.cove.start("sh", "--shell", "other", box, "cd /tmp; exec 7</tmp; sleep 3600")
    rig.cove.start("exec", "-i", box, "--", "cat")
    rig.cove.start("exec", box, "--", *SLEEP, stdin=subprocess.DEVNULL)
    rig.cove.start("cp", "-", f"{box}:/tmp/never-ends")
    server = ("import socket,time;s=socket.create_server(('127.0.0.1',%d));k=[];\n"
              "while 1:k.append(s.accept())" % PORT)
    rig.cove("exec", "-d", box, "--", "python3", "-c", server).ok()
    forward = rig.cove.start("port", box, f"{PORT}:0")
    port = int(re.search(r":(\d+)", forward.stdout.readline().decode()).group(1))
    return on_terminal(rig, box), socket.create_connection(("127.0.0.1", port))


def commands(rig, box):
    """Programs that run in the box now, by name."""
    pids = below(rig.cove.inspect(box)["init_pid"])
    return pids, [open(f"/proc/{p}/comm").read().strip() for p in pids if os.path.exists(f"/proc/{p}/comm")]


def is_inside(pid):
    """Has the process a number in another pid namespace than ours, too?"""
    return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in open(f"/proc/{pid}/status"))


def walk(rig, box):
    terminal, connection = keep_busy(rig, box)
    try:
        if rig.own_kernel:
            wait_until(lambda: len(rig.running(box, "sleep")) >= 5 and rig.running(box, "cat"), "every command to run")
        else:
            wait_until(lambda: commands(rig, box)[1].count("sleep") >= 5 and "cat" in commands(rig, box)[1],
                       "every command to run")
        keeper = rig.keeper(box)
        init = rig.cove.inspect(box)["init_pid"]
        pids = below(init)
        need(init in below(keeper), "init is not the keeper's child")
        others = [p for p in below(keeper) if p not in pids and is_inside(p)]
        need(not others, f"{others} are in the box and not below its init")
        return look_at(init, pids, rig.own_kernel)
    finally:
        connection.close()
        os.close(terminal)


@case("A3_nothing_held_leads_out", "A3", "no descriptor, directory, program or mapping of init and of any kind of "
      "command is on a mount of the host, and `..` from none ends there")
def held(rig):
    told = []
    for flags in ((), ("--strict",)):
        box = rig.make(*flags)
        try:
            seen = walk(rig, box)
            need(not seen["found"], "; ".join(seen["found"][:5]))
            need(seen["looked"] > 20 and seen["directories"] > (2 if rig.own_kernel else 8),
                 f"only {seen['looked']} were looked at, {seen['directories']} directories")
            told.append(f"{seen['looked']} looked at, {seen['directories']} directories")
        finally:
            rig.cove("rm", "-f", box).ok()
    groups = "with" if not any("no cgroup" in n for n in rig.cove.inspect(rig.box())["not_enforced"]) else "without"
    return f"{'; '.join(told)}; {groups} groups of its own"


def refused(result, what):
    need(result.rc != 0, f"{what} worked: {result.out[:200]!r}")
    need(result.rc != 2 or b"cove help" not in result.err, f"{what} was not even tried: {result.err[:200]!r}")


@case("A3_no_directory_through_proc", "A3", "a working directory, home, shell or image directory that leads through "
      "a link of /proc to what init holds is refused, however it is spelled")
def directories(rig):
    box = rig.make()
    try:
        links = [f"/proc/self/fd/{n}" for n in range(64)]
        links += ["/proc/self/cwd", "/proc/self/root", "/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3",
                  "/proc/thread-self/fd/3", "/dev/fd/3", "/proc/self/task/../fd/3", "/proc/self/fd/3/.."]
        for link in links:
            refused(rig.cove("exec", "-w", link, box, "--", "pwd"), f"-w {link}")
        for n in (*range(3, 12), 60):
            rig.cove("exec", box, "--", "ln", "-sfn", f"/proc/self/fd/{n}", "/tmp/proj").ok()
            refused(rig.cove("exec", "-w", "/tmp/proj", box, "--", "pwd"), f"a link to descriptor {n}")
            refused(rig.cove("exec", "-t", "-w", "/tmp/proj", box, "--", "pwd"), f"a link to descriptor {n}, terminal")
            refused(rig.cove("cp", f"{box}:/tmp/proj/cgroup.procs", "-"), f"a file below descriptor {n}")
        if rig.root_inside():
            home(rig, box)
        return f"{len(links)} spellings"
    finally:
        rig.cove("rm", "-f", box).ok()


def home(rig, box):
    """What in-box root may write and init reads."""
    me = rig.cove("exec", box, "--", "id", "-un").ok().text.strip()
    for n in (3, 4):
        rig.cove("exec", "-u", "root", "-w", "/", box, "--", "sed", "-i", "-E",
                 f"s,^({me}(:[^:]*){{4}}):[^:]*,\\1:/proc/self/fd/{n},", "/etc/passwd").ok()
        refused(rig.cove("exec", box, "--", "pwd"), f"a home that is descriptor {n}")
        refused(rig.cove("sh", "--shell", f"s{n}", box, "pwd"), f"a shell's home that is descriptor {n}")


@case("A3_no_program_through_proc", "A3", "a program, a directory of PATH and an interpreter that are named through "
      "/proc/self/fd and what init held are not found")
def programs(rig):
    box = rig.make()
    try:
        for n in (*range(3, 24), 60):
            outside = f"/proc/self/fd/{n}{UP}/bin"
            script = f"printf '#!{outside}/echo\\n' >/tmp/s; chmod +x /tmp/s"
            refused(rig.cove("exec", box, "--", f"{outside}/echo", "out"), f"argv[0] through descriptor {n}")
            refused(rig.cove("exec", "-e", f"PATH={outside}", box, "--", "echo"), f"PATH through descriptor {n}")
            rig.cove("exec", box, "--", "sh", "-c", script).ok()
            refused(rig.cove("exec", box, "--", "/tmp/s"), f"an interpreter through descriptor {n}")
        refused(rig.cove("exec", box, "--", f"/proc/1/fd/3{UP}/bin/echo"), "argv[0] through init's descriptors")
        return "3 to 23"
    finally:
        rig.cove("rm", "-f", box).ok()


@case("A3_nothing_of_init_can_be_set", "A3", "in-box root can change nothing of init through /proc: not its "
      "out-of-memory score, by any of its names")
def score(rig):
    if not rig.root_inside():
        raise NotApplicable("only one uid can be mapped for this caller: no root inside")
    box = rig.box()
    pid = rig.cove.inspect(box)["init_pid"]
    before = open(f"/proc/{pid}/oom_score_adj").read()
    for name in ("oom_score_adj", "oom_adj", "task/1/oom_score_adj", "task/1/oom_adj", "coredump_filter",
                 "timerslack_ns", "comm"):
        for value in ("1000", "15", "1"):
            done = rig.cove("exec", "-u", "root", box, "--", "sh", "-c", f"echo {value} >/proc/1/{name}")
            if not rig.own_kernel:  # which has a score of its own for it, and does nothing by it
                refused(done, f"writing {value} to {name}")
    need(open(f"/proc/{pid}/oom_score_adj").read() == before, "the score changed")
    return f"it stayed {before.strip()}"


@case("C10_nested_groups_go_with_the_box", "C10", "groups that something made within a box's, deep and wide, are gone "
      "after `cove rm`")
def nested(rig):
    box = rig.make()
    tops = groups_of(box)
    made = sum(nest(path) for path in tops if os.access(path, os.W_OK))
    rig.cove("rm", "-f", box).ok()
    left = groups_of(box)
    for path in left:
        for directory, _, _ in os.walk(path, topdown=False):
            os.rmdir(directory)
    if not tops:
        raise NotApplicable("this caller's boxes have no groups")
    need(not left, f"left: {left[:3]}")
    return f"{made} groups in {len(tops)} trees"


def groups_of(box):
    """The directories of a box's groups, in every tree."""
    found = []
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(directory, n) for n in names if n.endswith("-" + box)]
        names[:] = [n for n in names if n != "cove-callers"] if os.path.basename(directory) != "cove" else []
    return found


def nest(path):
    """Makes groups in a box's until the kernel refuses, 300 deep at most; returns how many."""
    fd, count = os.open(path, os.O_RDONLY | os.O_DIRECTORY), 0
    try:
        for _ in range(300):
            for name in ("wide", "n"):
                os.mkdir(name, dir_fd=fd)
                count += 1
            below = os.open("n", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = below
    except OSError:
        pass  # v2 says how deep
    finally:
        os.close(fd)
    return count
