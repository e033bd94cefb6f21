"""The gVisor wall with Debian's runsc of 2022: a box that says what it cannot do, and does the rest."""
import os
import subprocess

import pytest

from conftest import alive, kill, wait_until
from programs import descendants

OLD = "/usr/bin/runsc"


def is_old():
    if not os.path.exists(OLD):
        return False
    said = subprocess.run([OLD, "flags"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "-allow-suid" not in said.stdout


pytestmark = [pytest.mark.skipif(not is_old(), reason="no old runsc here"),
              pytest.mark.skipif(os.environ.get("COVE_TEST_SPLIT") == "single", reason="needs subordinate ids")]


def start(cove, *flags):
    return cove("create", "--wall", "gvisor", *flags, env={"PATH": "/usr/bin:/bin"}).ok().text.strip()


@pytest.fixture
def old(cove):
    return start(cove)


def test_it_says_that_it_is_old(cove, old):
    info = cove.inspect(old)
    assert any("platform ptrace" in line for line in info["walls"])
    assert any("runsc is old" in line for line in info["not_enforced"])
    assert info["isolation"]["shared_kernel"] is False


def test_shell_exec_and_files(cove, old, tmp):
    cove.sh(old, "x=5; echo kept > ~/f")
    assert cove.sh(old, "echo $x; cat ~/f")["stdout"] == "5\nkept\n"
    assert cove("exec", "-i", old, "--", "wc", "-c", input=b"y" * 300000).ok().text.strip() == "300000"
    assert cove("exec", old, "--", "sh", "-c", "exit 7").rc == 7
    (tmp / "f").write_bytes(bytes(range(256)) * 4000)
    cove("cp", tmp / "f", f"{old}:/tmp/g").ok()
    cove("cp", f"{old}:/tmp/g", tmp / "h").ok()
    assert (tmp / "h").read_bytes() == (tmp / "f").read_bytes()


def test_a_limit_that_was_asked_for(cove):
    """It has no groups that bound a box's processes: refused, and with --best-effort noted."""
    flags = ("create", "--wall", "gvisor", "--pids", "40")
    assert "--best-effort" in cove.fails("unsupported", *flags, env={"PATH": "/usr/bin:/bin"})
    box = start(cove, "--pids", "40", "--best-effort")
    assert any(line.startswith("pids:") for line in cove.inspect(box)["not_enforced"])
    assert cove("run", "--wall", "gvisor", "--mem", "0", "--", "true", env={"PATH": "/usr/bin:/bin"}).rc == 0


def test_one_that_was_added_stays(new_home, tmp):
    """Whatever else is said to be one."""
    cove = new_home(PATH="/usr/bin:/bin")
    cove("wall", "add", "gvisor", OLD).ok()
    kept = f"{cove.home}/walls/gvisor/runsc"
    bytes_of_it = os.stat(kept).st_size
    (tmp / "bad").write_text("#!/bin/sh\necho runsc version 1\n")
    (tmp / "bad").chmod(0o755)
    for path in (tmp / "nothing", tmp, tmp / "bad", "/bin/true"):
        assert cove("wall", "add", "gvisor", path).rc in (2, 125)
        assert os.stat(kept).st_size == bytes_of_it
        assert sorted(os.listdir(os.path.dirname(kept))) in (["runsc", "tried"], ["known", "runsc", "tried"])
    cove("run", "--wall", "gvisor", "--", "true").ok()
    cove("wall", "add", "gvisor").ok()
    cove("wall", "rm", "gvisor").ok()
    assert not os.path.exists(os.path.dirname(kept))


def test_what_is_given(cove, tmp):
    for name in ("rw", "ro"):
        (tmp / name).mkdir()
        (tmp / name).chmod(0o777)
        (tmp / name / "f").write_text(name)
    box = start(cove, "--mount", f"{tmp}/rw:/rw", "--mount", f"{tmp}/ro:/ro:ro")
    assert cove.sh(box, "cat /rw/f /ro/f; echo new > /rw/made")["stdout"] == "rwro"
    assert (tmp / "rw/made").read_text() == "new\n"
    assert cove.sh(box, "echo x > /ro/f")["exit_code"] != 0
    assert (tmp / "ro/f").read_text() == "ro"


def test_the_way_out(cove, old):
    """Everything but the loopback leads to the door, and nothing past it."""
    got = cove("exec", old, "--", "bash", "-c", "exec 3<>/dev/tcp/10.9.9.9/80 && echo connected").ok()
    assert got.text == "connected\n"
    assert cove("exec", old, "--", "getent", "hosts", "no-such-name.example").rc != 0


def test_it_ends_whole_and_starts_again(cove, old):
    cove.sh(old, "echo kept > ~/f")
    all_of_it = descendants(cove.inspect(old)["init_pid"])
    kill(all_of_it[0])
    wait_until(lambda: cove.inspect(old)["state"] == "stopped", "the end of the box")
    wait_until(lambda: not any(alive(pid) for pid in all_of_it), "the end of its processes")
    cove("start", old, env={"PATH": "/usr/bin:/bin"}).ok()
    assert cove.sh(old, "cat ~/f")["stdout"] == "kept\n"


def test_a_snapshot_a_fork_a_diff_and_a_merge(cove, old):
    def do(*args):
        return cove(*args, env={"PATH": "/usr/bin:/bin"}).ok().text

    cove.sh(old, "cd; echo one > a; mkdir d; echo x > d/x")
    do("stop", old)
    do("snapshot", "create", old, f"{old}-s")
    do("start", old)
    cove.sh(old, "cd; echo two > a; rm -r d")
    do("rollback", old, f"{old}-s")
    assert cove.sh(old, "cd; cat a d/x")["stdout"] == "one\nx\n"
    do("stop", old)
    fork = do("fork", old).strip()
    cove.sh(fork, "cd; echo three >> a; rm d/x; echo new > n")
    do("stop", fork)
    changed = ["M /home/user/a", "D /home/user/d/x", "A /home/user/n"]
    assert do("diff", f"snapshot:{old}-s", fork).splitlines() == changed
    assert do("merge", fork, old).splitlines() == changed
    do("start", old)
    assert cove.sh(old, "cd; cat a n; ls d")["stdout"] == "one\nthree\nnew\n"
    do("snapshot", "rm", f"{old}-s")
