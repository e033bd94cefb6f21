"""The gVisor wall: what a box behind it does, what it holds, and what is left when a part of it is killed. The rest of
the tests run through it with COVE_TEST_WALL=gvisor."""
import glob
import os
import pathlib

import pytest

import programs
from conftest import DEADLINE, IS_ROOT, LACKS, alive, children, kill, wait_until
from programs import descendants

HERE = programs.runsc()
pytestmark = [pytest.mark.skipif(not HERE, reason="no current runsc here: wall gvisor"),
              pytest.mark.skipif(os.environ.get("COVE_TEST_SPLIT") == "single", reason="needs subordinate ids")]


@pytest.fixture
def walled(cove):
    """A running box behind gVisor."""
    return cove("create", "--wall", "gvisor").ok().text.strip()


@pytest.fixture(scope="module")
def kept(session_cove):
    name = session_cove("create", "--wall", "gvisor").ok().text.strip()
    yield name
    session_cove("rm", "-f", name).ok()


def processes_of(cove, box):
    """runsc, and what it started."""
    return descendants(cove.inspect(box)["init_pid"])


def test_a_kernel_of_its_own(session_cove, kept):
    info = session_cove.inspect(kept)
    assert info["wall"] == "gvisor" and info["isolation"]["shared_kernel"] is False
    assert any(line.startswith("gvisor:") for line in info["walls"])
    assert "gvisor" in session_cove("exec", kept, "--", "uname", "-r").ok().text
    assert any("commands" in line for line in info["not_enforced"])


def test_what_it_lacks_is_said(session_cove, kept):
    """Nothing is skipped for a reason that a box does not name itself."""
    said = session_cove.inspect(kept)["not_enforced"]
    for flag, words in LACKS["gvisor"].items():
        assert any(words in line for line in said), f"{flag}: {said}"


def test_shell_exec_files_and_a_terminal(session_cove, kept, tmp):
    assert session_cove.sh(kept, "cd /tmp; x=5")["cwd"] == "/tmp"
    assert session_cove.sh(kept, "pwd; echo $x")["stdout"] == "/tmp\n5\n"
    assert session_cove("exec", "-i", kept, "--", "wc", "-c", input=b"y" * 300000).ok().text.strip() == "300000"
    assert session_cove("exec", "--timeout", "200ms", kept, "--", "sleep", "100").rc == 124
    assert session_cove("exec", kept, "--", "sh", "-c", "exit 7").rc == 7
    (tmp / "f").write_bytes(bytes(range(256)) * 4000)
    session_cove("cp", tmp / "f", f"{kept}:/tmp/g").ok()
    assert session_cove("exec", kept, "--", "stat", "-c", "%U", "/tmp/g").ok().text == "user\n"
    session_cove("cp", f"{kept}:/tmp/g", tmp / "h").ok()
    assert (tmp / "h").read_bytes() == (tmp / "f").read_bytes()
    assert session_cove("exec", "-t", kept, "--", "sh", "-c", "test -t 1 && echo is one").text == "is one\r\n"


def test_nothing_of_the_host_is_inside(session_cove, kept, tmp):
    (tmp / "canary").write_text("never")
    assert session_cove("exec", "-u", "root", kept, "--", "cat", tmp / "canary").rc != 0
    seen = session_cove("exec", kept, "--", "sh", "-c", "ls /proc/self/fd; ls /; cat /proc/mounts").ok().text
    assert "given" not in seen and "bundle" not in seen and session_cove.home not in seen
    assert session_cove("exec", kept, "--", "sh", "-c", "ls /tmp/.cove-start").rc != 0
    assert session_cove("exec", "-u", "root", kept, "--", "mount", "-t", "cgroup", "-o", "pids", "x", "/mnt").rc != 0


def test_tmp_is_kept(cove, walled):
    cove.sh(walled, "echo kept > /tmp/f; echo too > ~/g")
    cove("stop", walled).ok()
    cove("start", walled).ok()
    assert cove.sh(walled, "cat /tmp/f ~/g")["stdout"] == "kept\ntoo\n"


def test_what_is_given(cove, tmp):
    """Seen from both sides as it changes, and read-only where it is."""
    for name in ("rw", "ro", "work"):
        (tmp / name).mkdir()
        (tmp / name).chmod(0o777)
        (tmp / name / "f").write_text(name)
    box = cove("create", "--wall", "gvisor", "--mount", f"{tmp}/rw:/rw", "--mount", f"{tmp}/ro:/ro:ro", "--workspace",
               tmp / "work").ok().text.strip()
    assert cove.sh(box, "cat /rw/f /ro/f f; pwd")["stdout"] == "rwrowork/workspace\n"
    assert cove.sh(box, "echo x > /ro/f")["exit_code"] != 0
    assert cove.sh(box, "echo new > /rw/made; rm /rw/f")["exit_code"] == 0
    assert (tmp / "rw/made").read_text() == "new\n" and not (tmp / "rw/f").exists()
    (tmp / "rw/made").write_text("changed outside")
    (tmp / "rw/later").write_text("later")
    assert cove.sh(box, "cat /rw/made /rw/later")["stdout"] == "changed outsidelater"
    assert cove("exec", "-u", "root", box, "--", "sh", "-c", "mount -o remount,rw /ro; echo x > /ro/f").rc != 0
    assert (tmp / "ro/f").read_text() == "ro"


def test_what_the_host_runs_cannot_be_moved_away(cove, tmp):
    """Parts of a shared directory that are read-only stay in their place."""
    (tmp / "work/.git/hooks").mkdir(parents=True)
    (tmp / "work/.git/hooks/pre-commit").write_text("x")
    for path in (tmp / "work", tmp / "work/.git", tmp / "work/.git/hooks"):
        path.chmod(0o777)
    box = cove("create", "--wall", "gvisor", "--workspace", tmp / "work").ok().text.strip()
    for line in ("mv .git .git2", "rm -rf .git", "mv .git/hooks .git/hooks2", "echo evil > .git/hooks/pre-commit"):
        assert cove.sh(box, line)["exit_code"] != 0, line
    assert (tmp / "work/.git/hooks/pre-commit").read_text() == "x"


def test_the_way_out(session_cove, kept):
    """Everything but the loopback leads to init, and the door denies it."""
    got = session_cove("exec", kept, "--", "bash", "-c", "exec 3<>/dev/tcp/10.9.9.9/80 && echo connected").ok()
    assert got.text == "connected\n"
    assert session_cove("exec", kept, "--", "getent", "hosts", "no-such-name.example").rc != 0
    closed = session_cove("run", "--wall", "gvisor", "--net", "closed", "--", "bash", "-c",
                          "exec 3<>/dev/tcp/10.9.9.9/80")
    assert closed.rc != 0


def test_tracing_is_asked_for_twice(cove):
    """gVisor's kernel does not look again at a call that a tracer has changed."""
    assert "--best-effort" in cove.fails("unsupported", "create", "--wall", "gvisor", "--ptrace")
    cove("run", "--wall", "gvisor", "--ptrace", "--best-effort", "--", "true").ok()


def test_many_open_files(cove, walled):
    """Two descriptors of the host's for each of them; the box has more than one process can have."""
    code = "import resource,time\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n" \
           "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\nkept = []\ntry:\n" \
           "  for i in range(30000): kept.append(open('/etc/passwd'))\nexcept OSError: pass\nprint(len(kept))"
    assert int(cove("exec", "--timeout", "100s", walled, "--", "python3", "-c", code).ok().text) > 1000
    assert cove("exec", walled, "--", "ls", "/").rc == 0


def test_limits_and_pause(cove):
    box = cove("create", "--wall", "gvisor", "--mem", "512M", "--pids", "40", "--best-effort").ok().text.strip()
    code = "import os,time\nn = 0\ntry:\n  while n < 400:\n    os.fork() or time.sleep(1000)\n    n += 1\n" \
           "except OSError: print(n < 200)"  # gVisor counts them a little late
    assert cove("exec", "--timeout", "60s", box, "--", "python3", "-c", code).text == "True\n"
    info = cove.inspect(box)["limits"]
    assert info["pids"]["enforced"]
    paused = cove("pause", box)
    assert paused.rc == 0 or "cgroup" in paused.errors
    if paused.rc == 0:
        cove("resume", box).ok()
    cove("stop", box).ok()
    cove("start", box).ok()
    if info["mem_bytes"]["enforced"]:
        got = cove.run_json(box, "sh", "-c", "head -c 2G /dev/zero | tail")
        assert got["cause"] == "oom" and got["oom_killed"] is True
        wait_until(lambda: cove.inspect(box)["cause"] == "oom", "the box to have ended")
        cove("start", box).ok()
        assert cove.sh(box, "echo again")["stdout"] == "again\n"


@pytest.mark.parametrize("victim", ["runsc", "runsc-sandbox", "runsc-gofer"])
def test_a_part_that_is_killed_ends_the_box(cove, walled, victim):
    """The cause is recorded, nothing is left, and the box starts again."""
    cove.sh(walled, "echo kept > /tmp/f")
    all_of_it = processes_of(cove, walled)
    names = {pid: pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode() for pid in all_of_it}
    kill(next(pid for pid, name in names.items() if os.path.basename(name) == victim))
    wait_until(lambda: cove.inspect(walled)["state"] == "stopped", f"the end of the box: {names}")
    wait_until(lambda: not any(alive(pid) for pid in all_of_it), "the end of its processes")
    assert "died" in cove.inspect(walled)["cause"]
    assert not glob.glob(f"/sys/fs/cgroup/**/*-{walled}", recursive=True)
    cove("start", walled).ok()
    assert cove.sh(walled, "cat /tmp/f")["stdout"] == "kept\n"


def test_a_keeper_that_is_killed(cove, walled):
    all_of_it = processes_of(cove, walled)
    kill(cove.inspect(walled)["keeper_pid"])
    wait_until(lambda: not any(alive(pid) for pid in all_of_it), "the end of its processes")
    assert cove.inspect(walled)["state"] == "stopped"
    cove("rm", "-f", walled).ok()
    assert not glob.glob(f"/sys/fs/cgroup/**/*-{walled}", recursive=True)


# ---- killed on the way ----

MOMENTS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 26)  # of a start, as changes of its processes that are seen from outside


def program_of(pid):
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return os.path.basename(os.fsdecode(words[0]))


def threads_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def network_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


class Start:
    """`cove start` of a box, looked at from outside while it goes on."""

    def __init__(self, cove, box):
        self.client = cove.start("start", box)
        self.seen, self.networks = set(), set()

    def find(self, victim):
        """Its process; None before there is one. What becomes runsc is the keeper's first child."""
        keeper = next(iter(children(self.client.pid)), None)
        if victim == "keeper" or not keeper:
            return keeper
        first = next(iter(children(keeper)), None)
        if victim == "runsc" or not first:
            return first
        return next((pid for pid in children(first) if program_of(pid) == victim), None)

    def look(self):
        """All of its processes, by program and threads."""
        pids = descendants(self.client.pid)[1:]
        self.seen.update(pids)
        self.networks.update(map(network_of, pids))
        return [(pid, program_of(pid), threads_of(pid)) for pid in pids]

    def kill_at(self, victim, moment):
        """At the n-th change since there was one; False: the start was over before."""
        last, changes = None, 0
        while self.client.poll() is None:
            pid, now = self.find(victim), self.look()
            if pid and now != last:
                last, changes = now, changes + 1
            if changes == moment:
                kill(pid)
                return True
        return False


def left_of(cove, box, start):
    """What there still is of a start that was killed."""
    gone = {"", network_of(os.getpid())}
    networks = {network_of(pid) for pid in os.listdir("/proc") if pid.isdigit()} & (start.networks - gone)
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    left = [f"process {pid} {program_of(pid)}" for pid in start.seen if alive(pid)]
    left += [f"network {name}" for name in networks]
    left += [line for line in mounts.splitlines() if cove.home in line or any(n in line for n in start.networks - gone)]
    left += glob.glob(f"/sys/fs/cgroup/**/*-{box}", recursive=True)
    return left + [p for depth in ("*", "*/*", "*/*/*") for p in glob.glob(f"{cove.home}/{depth}/.gvisor*")]


@pytest.mark.parametrize("victim", ["keeper", "runsc", "runsc-gofer", "runsc-sandbox"])
def test_killed_at_any_moment_of_a_start(cove, walled, victim):
    """Nothing of it is left, nor of runsc's own files in the image or the box; and the box starts again."""
    cove.sh(walled, "echo kept > /tmp/f")
    cove("stop", walled).ok()
    for moment in MOMENTS:
        start = Start(cove, walled)
        was_killed = start.kill_at(victim, moment)
        start.client.communicate(timeout=DEADLINE)
        assert was_killed or moment > 1
        if not was_killed:
            cove("stop", walled).ok()
            break
        wait_until(lambda: cove.inspect(walled)["state"] == "stopped", f"the end of the box, {victim} at {moment}")
        pathlib.Path(cove.home, "run/.swept").unlink(missing_ok=True)
        cove("ls").ok()
        wait_until(lambda: not left_of(cove, walled, start),
                   lambda: f"the end of {left_of(cove, walled, start)}, moment {moment}")
        cove("start", walled).ok()
        assert cove("exec", "-u", "root", walled, "--", "ls", "-A", "/tmp").ok().text.split() == ["f"], moment
        assert ".gvisor" not in cove("exec", walled, "--", "ls", "-A", "/").ok().text
        cove("stop", walled).ok()


@pytest.mark.skipif(any(os.path.exists(f"{d}/runsc") for d in ("/usr/bin", "/usr/local/bin")),
                    reason="a runsc is where it is always looked for")
def test_without_its_program(cove):
    message = cove.fails("unsupported", "run", "--wall", "gvisor", "--", "true", env={"PATH": "/nowhere"}) \
        if not os.path.exists("/usr/bin/runsc") and not os.path.exists("/usr/local/bin/runsc") else "runsc"
    assert "runsc" in message


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_a_program_that_others_may_write(cove, tmp):
    (tmp / "runsc").write_text("#!/bin/sh\necho from somebody else >&2\n")
    (tmp / "runsc").chmod(0o777)
    cove.fails("denied", "run", "--wall", "gvisor", "--", "true", env={"PATH": str(tmp)})
    (tmp / "runsc").chmod(0o755)
    message = cove.fails("unsupported", "run", "--wall", "gvisor", "--", "true", env={"PATH": str(tmp)})
    assert "program" in message
    # One of root's that somebody else has put there, or could replace.
    (tmp / "runsc").unlink()
    (tmp / "runsc").symlink_to("/usr/bin/python3")
    for change in (lambda: tmp.chmod(0o777), lambda: (tmp.chmod(0o755), os.chown(tmp, 65534, 65534))):
        change()
        cove.fails("denied", "run", "--wall", "gvisor", "--", "true", env={"PATH": str(tmp)})
    os.chown(tmp, 0, 0)
