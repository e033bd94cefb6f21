"""The contract of walls: a box behind a wall that only starts init has the same insides as a native one, and what a
wall cannot do is refused or listed; a start that fails half way says why and leaves nothing. The wall 'plain' is only
in builds with sanitizers."""
import glob
import os
import pathlib

import pytest

from conftest import IS_ROOT, needs_base, needs_root, wait_until

# What is in a box, without what differs from box to box.
LINES = {
    "devices": "cd /dev && stat -c '%n %F %a %t:%T' null zero full random urandom tty shm pts cove fd stdin ptmx",
    "dev lists": "ls /dev",
    "writes to devices": "echo x >/dev/null && head -c 4 /dev/zero | od -An -tx1 && echo x >/dev/full",
    "terminals": "ls /dev/pts; stat -c %a /dev/pts/ptmx",
    "shared memory": "echo x >/dev/shm/f && cat /dev/shm/f && df -B1 --output=size /dev/shm",
    "masks": "for f in /proc/*; do case $f in /proc/[0-9]*) ;; *) stat -f -c '%n %T' $f;; esac; done "
             "| grep -v -e cpuinfo -e loadavg -e meminfo -e proc/stat -e uptime",
    "no byte behind a mask": "cat /proc/kmsg /proc/interrupts /proc/keys /proc/timer_list | wc -c; "
                             "ls -A /proc/bus | wc -l",
    "read-only": "(echo 0 >/proc/sys/kernel/hostname) 2>&1 | sed 's/.*: //'; (echo 9 >/proc/1/oom_score_adj) 2>&1 "
                 "| sed 's/.*: //'",
    "hosts": "sed s/$(hostname)/NAME/ /etc/hosts; cat /etc/resolv.conf; cmp /etc/hostname <(hostname | tr -d '\\n')",
    "trust": "grep -c BEGIN /etc/ssl/certs/ca-certificates.crt; cmp /dev/cove-trust/bundle.pem "
             "/etc/ssl/certs/ca-certificates.crt; tail -n +1 /dev/cove-trust/box.pem | head -1; "
             "(echo >>/dev/cove-trust/box.pem) 2>&1 | sed 's/.*: //'",
    "capabilities": "grep -e Cap -e NoNewPrivs /proc/self/status",
    "limits": "ulimit -Hn; ulimit -l; ulimit -q",
    "interfaces": "cat /proc/net/dev | cut -d: -f1; cat /proc/net/fib_trie | head -40",
    "sockets": "cat /proc/net/tcp /proc/net/udp | awk '{print $2}' | sort",
    "way out": "exec 3<>/dev/tcp/10.9.9.9/80 && echo connected",
    "name": "getent hosts localhost; hostname | wc -l",
    "processes": "ls /proc | grep -c '^1$'; cat /proc/1/comm",
    "umask and directory": "umask; pwd; id",
}


@pytest.fixture(scope="module")
def pair(session_cove):
    """A native and a plain box."""
    made = session_cove("create", "--wall", "plain")
    if "there is no wall" in made.errors:
        pytest.skip("this build has no wall for tests")
    boxes = [session_cove("create").ok().text.strip(), made.ok().text.strip()]
    yield boxes
    session_cove("rm", "-f", *boxes).ok()


@needs_root
@needs_base
@pytest.mark.parametrize("user", ["user", "root"])
@pytest.mark.parametrize("what", LINES)
def test_the_same_insides(session_cove, pair, what, user):
    native, plain = (session_cove("exec", "-u", user, box, "--", "bash", "-c", LINES[what]) for box in pair)
    assert native.out and plain.text == native.text
    assert plain.rc == native.rc


@needs_root
@needs_base
def test_work_over_pipes(session_cove, pair, tmp):
    """Shells, commands, files, signals and standard input over a wire that is no socket."""
    plain = pair[1]
    assert session_cove.sh(plain, "cd /tmp; x=5")["exit_code"] == 0
    assert session_cove.sh(plain, "pwd; echo $x")["stdout"] == "/tmp\n5\n"
    assert session_cove("exec", "-i", plain, "--", "wc", "-c", input=b"y" * 300000).ok().text.strip() == "300000"
    (tmp / "f").write_bytes(bytes(range(256)) * 4000)
    session_cove("cp", tmp / "f", f"{plain}:/tmp/g").ok()
    session_cove("cp", f"{plain}:/tmp/g", tmp / "h").ok()
    assert (tmp / "h").read_bytes() == (tmp / "f").read_bytes()
    assert session_cove("exec", "--timeout", "200ms", plain, "--", "sleep", "100").rc == 124
    session_cove("stop", plain).ok()
    session_cove("start", plain).ok()
    assert session_cove("exec", plain, "--", "wc", "-c", "/tmp/g").ok().text.split()[0] == "1024000"


@needs_root
@needs_base
def test_what_a_wall_lacks(session_cove, pair, tmp):
    info = session_cove.inspect(pair[1])
    assert info["wall"] == "plain" and info["isolation"]["shared_kernel"] is True
    lacks = " ".join(info["not_enforced"])
    for word in ("memory", "cpu", "pids", "/proc", "cgroup"):
        assert word in lacks, info["not_enforced"]
    session_cove.fails("unsupported", "pause", pair[1])
    for flags in (["--mem", "64M"], ["--pids", "10"], ["--workspace", tmp], ["--mount", f"{tmp}:/x"],
                  ["--image", "host"]):
        session_cove.fails("unsupported", "create", "--wall", "plain", *flags)
    made = session_cove("create", "--wall", "plain", "--mem", "64M", "--best-effort").ok().text.strip()
    session_cove("rm", "-f", made).ok()


@needs_root
@needs_base
def test_every_storage_and_nothing_is_left(session_cove, pair):
    before = session_cove.names()
    session_cove("run", "--wall", "plain", "--storage", "tmpfs", "--", "true").ok()
    session_cove("run", "--wall", "plain", "--storage", "plain", "--disk", "none", "--", "true").ok()
    assert session_cove.names() == before


@pytest.mark.parametrize("name", ["nosuch", "NATIVE", "x" * 300, "native "])
def test_no_such_wall(cove, name):
    cove.fails("unsupported", "run", "--wall", name, "--", "true")


def test_no_wall_without_a_name(cove):
    cove.fails("invalid", "run", "--wall", "", "--", "true")


def test_the_wall_of_a_session(cove):
    box = cove("open", "walled", "--wall", "native").ok().text.strip()
    cove("open", "walled", "--wall", "native").ok()
    assert cove.inspect(box)["wall"] == "native"
    assert cove.inspect(box)["isolation"]["shared_kernel"] is True
    cove("close", "walled", "--delete").ok()


def left_of(cove, box):
    """What the host has of a box that does not run: processes that hold something of it, groups, mounts, disks."""
    place, found = f"{cove.home}/boxes/{box}", []
    for fd in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(fd).startswith(place):
                found.append(fd)
        except OSError:  # ended meanwhile, or somebody else's
            continue
    found += glob.glob(f"/sys/fs/cgroup/**/*-{box}", recursive=True)
    for path in ["/proc/self/mountinfo", *glob.glob("/sys/block/loop*/loop/backing_file")]:
        try:
            found += [line for line in pathlib.Path(path).read_text().splitlines() if place in line]
        except OSError:
            continue
    return found


def without_source(cove, box, source):
    """begin opens what the box is shown of the host; of an ordinary user's box the new process does."""
    source.rename(source.with_name("away"))
    return "not_found", lambda: source.with_name("away").rename(source)


def without_disk(cove, box, source):
    """finish attaches the layer; the new process is there already, and waits for it."""
    with open(f"{cove.home}/boxes/{box}/disk.img", "r+b") as disk:
        disk.seek(1024)
        block = disk.read(1024)
        disk.seek(1024)
        disk.write(bytes(1024))

    def mend():
        with open(f"{cove.home}/boxes/{box}/disk.img", "r+b") as again:
            again.seek(1024)
            again.write(block)
    return "internal", mend


def without_work(cove, box, source):
    """The new process cannot mount its overlay, which await hears from it."""
    work = pathlib.Path(f"{cove.home}/boxes/{box}/work")
    work.rename(work.with_name("away"))
    work.write_text("")

    def mend():
        work.unlink()
        work.with_name("away").rename(work)
    return "invalid", mend


PLAIN = ["--storage", "plain", "--disk", "none"]
PIECES = {"begin": (without_source, ["--mount", "{}:/given"]), "finish": (without_disk, []),
          "await": (without_work, PLAIN)}


@needs_base
@pytest.mark.parametrize("moment", PIECES)
@pytest.mark.parametrize("wall", ["native", "plain"])
def test_a_start_that_fails_half_way(cove, tmp, wall, moment):
    """The cause is reported, nothing is left, and once the piece is there again so is the box."""
    spoil, flags = PIECES[moment]
    source = tmp / "source"
    source.mkdir()
    if moment == "finish" and not IS_ROOT:
        pytest.skip("disks are root's")
    if wall == "plain" and moment == "begin":
        pytest.skip("it shows nothing of the host")
    made = cove("create", "--wall", wall, *(flag.format(source) for flag in flags))
    if "there is no wall" in made.errors:
        pytest.skip("this build has no wall for tests")
    box = made.ok().text.strip()
    cove.sh(box, "echo kept > /tmp/f")
    cove("stop", box).ok()
    kind, mend = spoil(cove, box, source)
    why = cove.fails(kind, "start", box)
    assert moment != "begin" or str(source) in why
    wait_until(lambda: not left_of(cove, box), f"nothing to be left: {left_of(cove, box)}")
    assert cove.inspect(box)["state"] == "stopped"
    mend()
    cove("start", box).ok()
    assert cove.sh(box, "cat /tmp/f")["stdout"] == "kept\n"


def test_a_one_shot_box_that_fails_half_way(cove, tmp):
    before = cove.names()
    cove.fails("not_found", "run", "--mount", f"{tmp}/none:/given", "--", "true")
    assert cove.names() == before
