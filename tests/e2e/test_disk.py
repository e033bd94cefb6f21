"""Where a box's writes live: the disk limit as a user meets it, disks in files, workspaces with one, memory."""
import glob
import json
import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest

from conftest import Cove, DEADLINE, alive, needs_flag, needs_root, not_root, remove_tree, short_dir, wait_until

MIB = 1 << 20
FULL = re.compile("No space left on device|Disk quota exceeded")  # of a disk, of the pool
FILL = "dd if=/dev/zero bs=64k of=%s count=%d"


def devices(cove):
    """Loop devices whose file is below the state directory."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            text = pathlib.Path(path).read_text()
        except OSError:  # detached meanwhile
            continue
        if text.startswith(cove.home + "/") and not text.strip().endswith("/pool.img"):
            found.append(text.strip())
    return found


def no_devices(cove):
    wait_until(lambda: not devices(cove), "the loop devices to go")


@pytest.fixture
def home(new_home):
    return new_home()


@needs_root
@pytest.mark.parametrize("verb", ["run", "create"])
def test_the_limit_holds(home, verb):
    """A box writes about as much as it may, never more, and is told why."""
    line = FILL % ("$HOME/f", 2000) + "; stat -c 'size %s' ~/f; echo on; rm ~/f; echo more > ~/g; cat ~/g"
    if verb == "run":
        got = home("run", "--disk", "50M", "--", "sh", "-c", line)
    else:
        name = home("create", "--disk", "50M").ok().text.strip()
        got = home("exec", name, "--", "sh", "-c", line)
    assert FULL.search(got.errors), got
    size = int(re.search(r"size (\d+)", got.text).group(1))
    assert 0.95 * 50e6 <= size <= 50 * MIB
    assert got.text.endswith("on\nmore\n")


@needs_root
def test_df_and_inspect_tell_the_limit(home):
    name = home("create", "--disk", "64M").ok().text.strip()
    total = int(home("exec", name, "--", "df", "-B1", "--output=avail", "/").ok().text.split()[1])
    assert 0.95 * 64e6 <= total <= 64 * MIB
    info = home.inspect(name)
    assert info["storage"] == "loop"
    assert info["limits"]["disk_bytes"]["enforced"] is True


@needs_root
def test_a_kept_box_has_a_disk_by_default(home):
    name = home("create").ok().text.strip()
    assert home.inspect(name)["storage"] == "loop"
    assert devices(home) == [f"{home.home}/boxes/{name}/disk.img"]
    home("rm", "-f", name).ok()
    no_devices(home)
    assert os.listdir(f"{home.home}/boxes") == []


@needs_root
def test_full_stopped_and_started(home):
    """A full disk does not keep a box from starting, and what was written is there."""
    name = home("create", "--disk", "20M").ok().text.strip()
    home("exec", name, "--", "sh", "-c", "echo first > ~/first; sync ~/first; " + FILL % ("$HOME/f", 2000))
    home("stop", name).ok()
    no_devices(home)
    home("start", name).ok()
    got = home("exec", name, "--", "sh", "-c", "cat ~/first; rm ~/f; echo again > ~/g; cat ~/g").ok()
    assert got.text == "first\nagain\n"


@needs_root
def test_inodes_run_out_inside_only(home):
    name = home("create", "--disk", "10M").ok().text.strip()
    line = "mkdir ~/d; cd ~/d; i=0; while [ $i -lt 20000 ]; do : > $i || break; i=$((i+1)); done; echo made $i"
    got = home("exec", name, "--", "sh", "-c", line, timeout=120)
    made = int(re.search(r"made (\d+)", got.text).group(1)) if "made" in got.text else 0
    assert made < 20000
    assert home("exec", name, "--", "sh", "-c", "rm -rf ~/d && echo ok > ~/f && cat ~/f").ok().text == "ok\n"


@needs_root
@needs_flag("HOLES")
def test_a_sparse_file_is_no_way_around(home):
    name = home("create", "--disk", "20M").ok().text.strip()
    got = home("exec", name, "--", "sh", "-c",
               "exec 3> ~/open; truncate -s 1T ~/s && stat -c %s ~/s; "
               "dd if=/dev/zero of=$HOME/s bs=64k count=2000 conv=notrunc; du -B1 ~/s | cut -f1; "
               "rm ~/open ~/s; dd if=/dev/zero bs=64k count=2000 >&3; echo $?")
    lines = got.text.split("\n")
    assert lines[0] == str(1 << 40) and 15 * MIB < int(lines[1]) <= 20 * MIB and lines[2] == "1"
    assert home("exec", name, "--", "sh", "-c", "echo ok > ~/f; cat ~/f").ok().text == "ok\n"


@needs_root
def test_killed_keeper_loses_nothing_synced(home):
    """kill -9 while it writes: no device is left, and what was synced is there."""
    name = home("create", "--disk", "64M").ok().text.strip()
    for i in range(5):
        home("exec", name, "--", "sh", "-c", f"echo {i} >> ~/log; sync ~/log").ok()
        busy = home.start("exec", name, "--", "sh", "-c", "while :; do cat /dev/zero | head -c 9000000 > ~/f; done")
        keeper = home.inspect(name)["keeper_pid"]
        wait_until(lambda: home("exec", name, "--", "sh", "-c", "test -s ~/f").rc == 0, "the writer")
        os.kill(keeper, signal.SIGKILL)
        busy.communicate(timeout=DEADLINE)
        wait_until(lambda: not alive(keeper), "the keeper's end")
        home("start", name).ok()
        assert home("exec", name, "--", "sh", "-c", "cat ~/log").ok().text == "".join(f"{k}\n" for k in range(i + 1))
    home("rm", "-f", name).ok()
    no_devices(home)


@needs_root
def test_killed_one_shot_leaves_nothing(home):
    runs = [home.start("run", "--disk", "20M", "--", "sh", "-c", "echo up; exec sleep 1000") for _ in range(4)]
    for run in runs:
        assert run.stdout.readline() == b"up\n"
    assert len(devices(home)) == 4
    keepers = [home.inspect(name)["keeper_pid"] for name in home.names()]
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    for run in runs:
        run.communicate(timeout=DEADLINE)
    no_devices(home)
    wait_until(lambda: home.names() == [] and os.listdir(f"{home.home}/boxes") == [], "the sweep")


@needs_root
def test_a_hundred_rounds_leave_no_device(home):
    def rounds():
        for _ in range(25):
            home("run", "--disk", "20M", "--", "sh", "-c", "echo x > ~/f").ok()

    threads = [threading.Thread(target=rounds) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    no_devices(home)
    assert os.listdir(f"{home.home}/boxes") == []
    assert len(os.listdir(f"{home.home}/templates")) <= 3


@needs_root
def test_a_damaged_disk_is_named(home):
    name = home("create", "--disk", "20M").ok().text.strip()
    home("stop", name).ok()
    no_devices(home)
    with open(f"{home.home}/boxes/{name}/disk.img", "r+b") as disk:
        disk.seek(1024)
        disk.write(b"\0" * 1024)
    home.fails("internal", "start", name)
    no_devices(home)
    home("rm", "-f", name).ok()
    assert home.names() == []


@needs_root
def test_two_boxes_share_a_workspace(home):
    """One filesystem: both see every write at once, and it ends with the last of them."""
    a = home("create", "--disk", "40M", "--workspace", "w").ok().text.strip()
    b = home("create", "--disk", "40M", "--workspace", "w").ok().text.strip()
    disk = f"{home.home}/workspaces/w.img"
    assert devices(home).count(disk) == 1
    home("exec", a, "--", "sh", "-c", "echo from a > /workspace/f; mkdir /workspace/d").ok()
    assert home("exec", b, "--", "sh", "-c", "cat /workspace/f; echo from b > /workspace/d/g").ok().text == "from a\n"
    assert home("exec", a, "--", "cat", "/workspace/d/g").ok().text == "from b\n"
    assert "No space left" in home("exec", a, "--", "sh", "-c", FILL % ("/workspace/big", 2000)).refused(rc=1).errors
    home("rm", "-f", a).ok()
    assert home("exec", b, "--", "sh", "-c", "rm /workspace/big; cat /workspace/f").ok().text == "from a\n"
    home.fails("conflict", "workspace", "rm", "w")
    home("rm", "-f", b).ok()
    no_devices(home)
    c = home("create", "--workspace", "w").ok().text.strip()
    assert home("exec", c, "--", "cat", "/workspace/f", "/workspace/d/g").ok().text == "from a\nfrom b\n"
    assert home("exec", c, "--", "ls", "/workspace").ok().text == "d\nf\n"
    home("rm", "-f", c).ok()
    home("workspace", "rm", "w").ok()
    no_devices(home)
    assert os.listdir(f"{home.home}/workspaces") == []


@needs_root
def test_mounts_of_parts_of_a_workspace(home):
    name = home("create", "--workspace", "w", "--mount", "cache/pip:/cache", "--mount", "ro:/ro:ro").ok().text.strip()
    got = home("exec", name, "--", "sh", "-c",
               "echo x > /cache/f; cat /workspace/cache/pip/f; echo x > /ro/f || echo refused; stat -c %U /cache")
    assert got.text == "x\nrefused\nuser\n", got
    home("exec", name, "--", "sh", "-c", "rm -r /workspace/ro; ln -s /etc /workspace/ro").ok()
    home("stop", name).ok()
    home.fails("invalid", "start", name)


@needs_root
def test_workspaces_are_listed(home):
    name = home("create", "--workspace", "w").ok().text.strip()
    home("exec", name, "--", "sh", "-c", "head -c 3000000 /dev/zero > /workspace/f; sync /workspace/f").ok()
    for _ in range(2):  # while it runs, and after
        listed = {w["name"]: w for w in home("workspace", "ls", "--json").ok().json}
        assert listed["w"]["files"] == 2 and 3000000 <= listed["w"]["bytes"] < 60e6
        home("rm", "-f", name).ok()


@needs_root
def test_a_plain_workspace_cannot_keep_a_limit(home):
    home("run", "--disk", "none", "--workspace", "old", "--", "true").ok()
    assert os.listdir(f"{home.home}/workspaces") == ["old"]
    home.fails("unsupported", "run", "--disk", "50M", "--workspace", "old", "--", "true")
    home("run", "--disk", "50M", "--best-effort", "--workspace", "old", "--", "true").ok()
    home("run", "--workspace", "old", "--", "touch", "/workspace/f").ok()
    assert os.path.exists(f"{home.home}/workspaces/old/f")


@needs_root
def test_a_workspace_has_a_limit_of_its_own(home):
    """A box with a smaller limit does not get more than that without being told."""
    first = home("create", "--disk", "40M", "--workspace", "w").ok().text.strip()
    info = home.inspect(first)
    assert info["limits"]["disk_bytes"]["each"] == ["box", "workspace w"]
    assert info["usage"]["disk_own_limit_bytes"] == 40 * MIB and info["usage"]["disk_limit_bytes"] == 80 * MIB
    home.fails("unsupported", "create", "--disk", "20M", "--workspace", "w")
    smaller = home("create", "--disk", "20M", "--best-effort", "--workspace", "w").ok().text.strip()
    info = home.inspect(smaller)
    assert [x for x in info["not_enforced"] if x.startswith("disk: workspace 'w' has a disk of 40 MiB")]
    assert info["limits"]["disk_bytes"]["enforced"] is False
    assert info["limits"]["disk_bytes"]["value"] == 20 * MIB
    larger = home("create", "--disk", "60M", "--workspace", "w").ok().text.strip()
    assert home.inspect(larger)["limits"]["disk_bytes"]["enforced"] is True
    got = home("exec", first, "--", "sh", "-c", FILL % ("/var/tmp/f", 2000))
    assert "the box's limit is 40 MiB; " in got.errors and "workspace has a limit of its own" in got.errors, got


SMALL_HOST = """
set -e
mount -t tmpfs -o size=600M,mode=0700 none {home}
export COVE_HOME={home}
box=$({cove} create --image host)
{cove} inspect $box
{cove} rm -f $box
"""


@needs_root
def test_a_smaller_default_is_shown(home):
    """Where the host has less room than the default, inspect says what the keeper made."""
    place = short_dir()
    got = subprocess.run(["unshare", "--mount", "sh", "-c", SMALL_HOST.format(home=place, cove=home.program)],
                         env=home.env, capture_output=True, timeout=DEADLINE)
    os.rmdir(place)
    assert got.returncode == 0, got
    info = json.loads(got.stdout)
    disk = info["limits"]["disk_bytes"]
    assert disk["wanted"] == 10 << 30 and disk["value"] < 600 * MIB, disk
    assert disk["value"] == info["usage"]["disk_limit_bytes"]


@needs_root
def test_the_hosts_disk_is_full():
    """Errors inside and out, no hang, and it goes on when there is room again."""
    base = short_dir()
    image = f"{base}/small.img"
    os.mkdir(f"{base}/m")
    subprocess.run(["truncate", "-s", "64M", image], check=True)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, f"{base}/m"], check=True)
    cove = Cove(f"{base}/m/h", image="host")
    try:
        name = cove("create", "--disk", "200M").ok().text.strip()
        cove("exec", name, "--", "sh", "-c", FILL % ("$HOME/f", 3000) + "; sync ~/f", timeout=120)
        cove("stop", name, timeout=120)
        cove("run", "--disk", "20M", "--", "sh", "-c", FILL % ("$HOME/f", 1000) + "; true", timeout=120)
        cove("rm", "-f", name, timeout=120).ok()
        no_devices(cove)
        assert cove("run", "--disk", "20M", "--", "echo", "ok", timeout=120).ok().text == "ok\n"
    finally:
        cove("rm", "-f", *cove("ls", "-q").text.split(), timeout=120)
        no_devices(cove)
        subprocess.run(["umount", f"{base}/m"], check=True)
        remove_tree(base)


@needs_root
def test_the_disk_is_out_of_reach_inside(home):
    """No device node, no file of the host: only the filesystem."""
    name = home("create").ok().text.strip()
    got = home("exec", "-u", "root", name, "--", "sh", "-c",
               "ls /dev/loop* /dev/loop-control 2>/dev/null; mknod /tmp/l b 7 0 && dd if=/tmp/l of=/dev/null count=1; "
               "find / -xdev -name disk.img 2>/dev/null; echo end")
    assert got.text == "end\n", got


def test_memory_as_storage(home):
    got = home("run", "--storage", "tmpfs", "--disk", "16M", "--", "sh", "-c",
               "echo x > ~/f; cat ~/f; " + FILL % ("$HOME/g", 1000) + "; stat -c %s ~/g")
    if got.rc and "6.6" in got.errors:
        pytest.skip("this kernel's tmpfs has no user attributes")
    assert got.text.startswith("x\n") and "No space left" in got.errors, got
    assert 8 * MIB < int(got.text.split()[1]) <= 16 * MIB


@not_root
def test_without_root_a_limit_is_refused_with_the_remedy(home):
    home.fails("unsupported", "run", "--disk", "50M", "--", "true")
    home.fails("unsupported", "run", "--storage", "loop", "--", "true")
    home("run", "--disk", "50M", "--best-effort", "--", "true").ok()
    home("run", "--workspace", "w", "--", "true").ok()
    assert os.listdir(f"{home.home}/workspaces") == ["w"]
    for name in ("w", "fresh"):
        got = home("create", "--storage", "tmpfs", "--disk", "16M", "--workspace", name)
        if got.rc and "6.6" in got.errors:
            pytest.skip("this kernel's tmpfs has no user attributes")
        assert got.rc == 125 and "leave out --disk, or the named workspace" in got.errors, got
        assert "tmpfs" not in got.errors
    assert os.listdir(f"{home.home}/workspaces") == ["w"]


def test_no_such_storage(home):
    home.fails("invalid", "run", "--storage", "btrfs", "--", "true")
    home.fails("invalid", "run", "--disk", "1", "--", "true")
