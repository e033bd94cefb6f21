"""A keeper that is held to its own files still does all of its work, to the last file of its box."""
import glob
import os
import pathlib

import pytest
from conftest import IS_ROOT, wait_until

DEEP = "mkdir -p $HOME/t/a/b/c && touch $HOME/t/a/b/c/f && ln -s / $HOME/t/link && mkfifo $HOME/t/pipe && " \
    "chmod 000 $HOME/t/a/b/c && chmod 500 $HOME/t/a/b $HOME/t/a"


def storages():
    return ["plain", "loop", "tmpfs"] if IS_ROOT else ["plain", "tmpfs"]


def left(cove):
    return [n for n in os.listdir(cove.home + "/boxes") if n.startswith(".gone")]


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {k: v.strip() for k, v in (line.split(":", 1) for line in text.splitlines() if ":" in line)}


@pytest.mark.parametrize("storage", storages())
def test_a_whole_life(cove, storage):
    box = cove("create", "--storage", storage).ok().text.strip()
    assert not [n for n in cove.inspect(box)["not_enforced"] if "keeper" in n]
    keeper = status(cove.inspect(box)["keeper_pid"])
    assert keeper["NoNewPrivs"] == "1" and keeper["Seccomp"] == "2"
    cove("exec", box, "--", "sh", "-c", DEEP).ok()
    if cove("exec", "-u", "root", box, "--", "true").rc == 0:
        cove("exec", "-u", "root", box, "--", "sh", "-c", "umask 0; mkdir -p /root/x/y && touch /root/x/y/z && "
             "chmod 500 /root/x /root/x/y").ok()
    assert cove.sh(box, "cd /tmp; echo $?")["stdout"] == "0\n"
    cove("cp", "-", f"{box}:/tmp/in", input=b"y" * 100000).ok()
    assert cove("cp", f"{box}:/tmp/in", "-").ok().out == b"y" * 100000
    cove("stats", "--json", box).ok()
    if cove("pause", box).rc == 0:
        cove("resume", box).ok()
    if storage != "tmpfs":
        cove("stop", box).ok()
        cove("start", box).ok()
        assert cove("exec", box, "--", "sh", "-c", "ls $HOME/t").ok().text.split() == ["a", "link", "pipe"]
    cove("rm", "-f", box).ok()
    assert box not in os.listdir(cove.home + "/boxes") and not left(cove)
    assert os.path.isdir("/etc") and os.path.isdir("/usr/bin")


def test_a_one_shot_box_leaves_nothing(cove):
    before = set(os.listdir(cove.home + "/boxes"))
    for size in (1, 40 << 20):
        cove("run", "--", "sh", "-c", f"{DEEP} && head -c {size} /dev/zero > $HOME/data").ok()
    wait_until(lambda: set(os.listdir(cove.home + "/boxes")) == before, "the boxes to go")


def test_it_can_still_read_what_the_kernel_has_forgotten(cove):
    """A rule is about a file as the kernel knows it; /proc makes a new one when memory is short."""
    box = cove("create", "--mem", "0", "--best-effort").ok().text.strip()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("2")
    except OSError as reason:
        pytest.skip(f"only root can make the kernel forget: {reason}")
    cove("exec", box, "--", "true").ok()
    text = wait_until(lambda: cove("exec", box, "--", "cat", "/proc/meminfo").ok().text, "meminfo")
    total = next(line for line in text.splitlines() if line.startswith("MemTotal:")).split()[1]
    assert int(total) > 0, text
    cove("rm", "-f", box).ok()
    assert not left(cove)
    assert not glob.glob(f"/sys/fs/cgroup/*/cove/*-{box}") + glob.glob(f"/sys/fs/cgroup/cove/*-{box}")
