"""B19: what a keeper could do if a box had taken it over. Calls are made by the real keeper of a running
box, in whatever confinement it has (see inject.c); each of them must fail."""
import errno
import glob
import os
import pathlib
import subprocess

from rig import DEADLINE, NotApplicable, case, need

AT_FDCWD, O_CREAT, O_WRONLY, O_RDWR, O_DIRECTORY, O_PATH = -100, 0o100, 1, 2, 0o200000, 0o10000000
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
READ_TO_EXECUTE, PTRACE_SEIZE = 5, 0x4206
# What a wall answers. Another failure means that the call got past it.
REFUSED = (-errno.EACCES, -errno.EPERM, -errno.ENOSYS, -errno.EXDEV)


def inject(rig, pid, lines):
    """What the calls return when the process pid makes them."""
    text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
    done = subprocess.run([rig.program, "--inject", str(pid)], input=text, capture_output=True, text=True,
                          timeout=DEADLINE)
    if done.returncode == 65:
        raise NotApplicable(done.stderr.strip())
    need(done.returncode == 0, f"inject: {done.stderr.strip()}")
    values = [int(v) for v in done.stdout.split()]
    need(len(values) == len(lines), f"{len(values)} of {len(lines)} answers")
    return values


def name_of(value):
    return errno.errorcode.get(-value, str(value))


def try_all(rig, lines, own):
    """All must be refused; own is a file that the keeper of the box may read, as proof that calls are made at all."""
    box = rig.box()
    pid = rig.keeper(box)
    first = [("getpid",), ("openat", AT_FDCWD, f"={own}", 0)]
    values = inject(rig, pid, first)
    need(values[0] == pid, f"the keeper says it is {values[0]}, not {pid}")
    need(values[1] >= 0, f"the keeper cannot read its own '{own}': {name_of(values[1])}")
    values = inject(rig, pid, [("close", values[1]), *lines])[1:]
    done = [" ".join(map(str, line)) + ("" if value >= 0 else f" ({name_of(value)})")
            for line, value in zip(lines, values) if value not in REFUSED]
    opened = [("close", value) for line, value in zip(lines, values) if value >= 0 and line[0] == "openat"]
    if opened:
        inject(rig, pid, opened)
    need(rig.answers(box), "the box does not answer any more")
    need(not done, f"it can: {'; '.join(done[:6])}" + (f" and {len(done) - 6} more" if len(done) > 6 else ""))
    return f"{len(lines)} calls refused"


def ground(rig):
    """The box's own directory, another box's, and a file in the first."""
    if not rig.is_root:
        raise NotApplicable("a keeper is not dumpable: its own user cannot trace it either")
    box, other = rig.box(), rig.box("small")
    boxes = pathlib.Path(rig.cove.home) / "boxes"
    own = boxes / box / "attack-own"
    own.write_text("for the keeper to read")
    return boxes / box, boxes / other, own


def opens(paths, flags):
    return [("openat", AT_FDCWD, f"={path}", flags) for path in paths if os.path.exists(path)]


@case("B19_keeper_writes_nothing_else", "B19", "a keeper that was taken over cannot write, make or remove a file of "
      "the host, a sysctl, a device or a group that is not its box's")
def writes(rig):
    mine, other, own = ground(rig)
    canary, made = rig.canary.file, f"cove-attack-{os.getpid()}"
    devices = ["/dev/" + n for n in os.listdir("/sys/block") if os.path.exists("/dev/" + n)][:4]
    roots = glob.glob("/sys/fs/cgroup/*/release_agent") + glob.glob("/sys/fs/cgroup/**/cgroup.procs")
    lines = opens(["/etc/passwd", "/etc/shadow", canary, "/proc/1/mem", "/dev/mem", "/dev/kmsg", *devices], O_RDWR)
    lines += opens(["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
                    "/proc/self/mem", "/proc/self/oom_score_adj", *roots,
                    *glob.glob(f"/sys/fs/cgroup/**/cove/*-{other.name}/cgroup.procs", recursive=True)], O_WRONLY)
    lines += [("openat", AT_FDCWD, f"={directory}/{made}", O_CREAT | O_WRONLY, 0o644)
              for directory in ("/etc", "/root", "/tmp", rig.canary.dir, rig.cove.home, mine.parent, other)]
    lines += [("mkdirat", AT_FDCWD, f"={rig.canary.dir}/{made}", 0o755),
              ("unlinkat", AT_FDCWD, f"={rig.canary.dir}/canary-file", 0),
              ("renameat", AT_FDCWD, f"={rig.canary.dir}/sub", AT_FDCWD, f"={mine}/sub"),
              ("renameat", AT_FDCWD, f"={own}", AT_FDCWD, f"={rig.canary.dir}/{made}"),
              ("symlinkat", "=/etc", AT_FDCWD, f"={mine}/{made}"),
              ("linkat", AT_FDCWD, f"={own}", AT_FDCWD, f"={rig.canary.dir}/{made}", 0),
              ("linkat", AT_FDCWD, "=/etc/shadow", AT_FDCWD, f"={mine}/{made}", 0),
              ("mknodat", AT_FDCWD, f"={mine}/{made}", 0o60600, 1 << 8), ("truncate", f"={canary}", 0),
              *[("unlinkat", AT_FDCWD, f"={path}", 0) for path in glob.glob(f"/run/**/{other.name}/keeper.sock",
                                                                          recursive=True)]]
    try:
        return try_all(rig, lines, own)
    finally:
        for directory in ("/etc", "/root", "/tmp", rig.cove.home, mine, mine.parent, other):
            subprocess.run(["rm", "-rf", f"{directory}/{made}"], check=rig.is_root)


@case("B19_keeper_reads_nothing_else", "B19", "a keeper that was taken over cannot read another box, other state, a "
      "process or a file of the host")
def reads(rig):
    _, other, own = ground(rig)
    home = pathlib.Path(rig.cove.home)
    files = [p for p in sorted(other.iterdir()) if p.is_file()]
    return try_all(rig, opens([rig.canary.file, rig.canary.shm_file, "/etc/shadow", "/etc/passwd", "/proc/1/environ",
                               f"/proc/{rig.canary.process.pid}/maps", f"/proc/{rig.canary.process.pid}/status",
                               "/proc/kallsyms", "/proc/self/root/etc/shadow", *files], 0) +
                   opens(["/", "/etc", "/root", "/home", other, home, home.parent, home / "images", home / "workspaces",
                          rig.canary.dir, "/proc", "/sys"], O_DIRECTORY), own)


@case("B19_keeper_changes_no_owner_or_mode", "B19", "a keeper that was taken over makes no set-user-ID file, and "
      "changes no mode or owner of a file of the host")
def modes(rig):
    mine, _, own = ground(rig)
    canary, made = rig.canary.file, mine / f"cove-attack-{os.getpid()}"
    lines = [(call, *([AT_FDCWD] if call == "fchmodat" else []), f"={path}", mode) for call in ("chmod", "fchmodat")
             for path in (canary, own) for mode in (0o4755, 0o2755, 0o6755, 0o777, 0o700)]
    # Its descriptor 0 is the host's /dev/null: only the mode that it has anyway, for where a control lets it through.
    lines += [("fchmod", 0, 0o666)]
    lines += [("chown", f"={canary}", 0, 0), ("fchownat", AT_FDCWD, f"={canary}", 1, 1, 0),
              ("setxattr", f"={canary}", "=user.x", "=x", 1, 0)]
    lines += [("openat", AT_FDCWD, f"={made}", O_CREAT | O_WRONLY, mode) for mode in (0o4755, 0o2755, 0o6700)]
    try:
        return try_all(rig, lines, own)
    finally:
        made.unlink(missing_ok=True)


@case("B19_keeper_starts_nothing", "B19", "a keeper that was taken over runs no program or code of its own, mounts "
      "nothing, makes no namespace, opens no socket and traces nobody")
def starts(rig):
    _, _, own = ground(rig)
    there, process = rig.canary.dir, rig.canary.process.pid
    return try_all(rig, [
        ("mmap", 0, 4096, READ_TO_EXECUTE, 0x22, -1, 0), ("memfd_create", "=x", 0),
        ("mount", "=none", f"={there}/sub", "=tmpfs", 0, 0), ("mount", "=/etc", f"={there}/sub", 0, 0x1000, 0),
        ("umount2", f"={there}", 0), ("open_tree", AT_FDCWD, "=/etc", 1), ("chroot", "=/"),
        ("socket", 2, 1, 0), ("socket", 2, 3, 255), ("socket", 16, 3, 0), ("socket", 1, 1, 0), ("socket", 17, 3, 3),
        ("connect", 0, "=", 2), ("bind", 0, "=", 2), ("ptrace", PTRACE_SEIZE, process, 0, 0),
        ("prlimit64", process, 7, 0, 0), ("bpf", 0, 0, 0), ("keyctl", 0, -1, 1), ("io_uring_setup", 8, 0),
        ("init_module", 0, 0, "="), ("setns", 0, CLONE_NEWNS), ("setresuid", 1000, 1000, 1000),
        ("unshare", CLONE_NEWNS), ("unshare", CLONE_NEWUSER), ("execve", "=/bin/true", 0, 0)], own)
