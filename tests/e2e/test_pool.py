"""The pool: boxes and workspaces in subvolumes of one btrfs, in a file or COVE_HOME's own; its limits, its end."""
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import Cove, DEADLINE, alive, needs_root, not_root, remove_boxes, remove_tree, short_dir, wait_until
from test_disk import (FILL, FULL, MIB, test_a_plain_workspace_cannot_keep_a_limit,  # noqa: F401  with this home
                       test_a_sparse_file_is_no_way_around, test_a_workspace_has_a_limit_of_its_own,
                       test_full_stopped_and_started, test_killed_keeper_loses_nothing_synced,
                       test_mounts_of_parts_of_a_workspace, test_the_disk_is_out_of_reach_inside,
                       test_the_limit_holds, test_workspaces_are_listed)

pytestmark = pytest.mark.once("root")


def set_up(cove, size="1G"):
    got = cove("doctor", "--setup-storage", "--size", size, timeout=120)
    if got.rc and ("btrfs" in got.errors or "quotas" in got.errors):
        pytest.skip(got.errors.strip())
    got.ok()


def volumes(cove):
    return sorted(os.listdir(f"{cove.home}/pool/boxes"))


def take_down(cove):
    remove_boxes(cove)
    for entry in cove("workspace", "ls", "--json").json:
        cove("workspace", "rm", entry["name"])
    got = cove("doctor", "--remove-storage")
    if got.rc:
        subprocess.run(["umount", "-l", f"{cove.home}/pool"], check=False)
    return got


@pytest.fixture
def home(new_home):
    cove = new_home()
    os.makedirs(cove.home, exist_ok=True)
    set_up(cove)
    yield cove
    take_down(cove).ok()
    assert not os.path.exists(f"{cove.home}/pool.img") and not os.path.exists(f"{cove.home}/pool")


@needs_root
def test_it_is_the_default_and_says_so(home):
    name = home("create", "--disk", "50M").ok().text.strip()
    info = home.inspect(name)
    assert info["storage"] == "pool"
    assert info["limits"]["disk_bytes"]["enforced"] is True and info["limits"]["disk_bytes"]["value"] == 50 * MIB
    assert [x for x in info["not_enforced"] if x.startswith("inodes:")]
    assert info["limits"]["files"]["enforced"] is True
    assert home("run", "--", "echo", "ok").ok().text == "ok\n"
    for kind in ("loop", "plain"):
        other = home("create", "--storage", kind, "--disk", "50M" if kind == "loop" else "none").ok().text.strip()
        assert home.inspect(other)["storage"] == kind
    report = home("doctor", "--no-test", "--json").json
    assert [c for c in report["checks"] if c["name"] == "pool" and c["status"] == "ok"]


@needs_root
def test_the_cause_is_the_disk(home):
    """EDQUOT is a full disk: in the result, and in what is said about a file that does not fit."""
    name = home("create", "--disk", "20M").ok().text.strip()
    got = home("exec", "--json", name, "--", "sh", "-c", FILL % ("$HOME/f", 2000)).json
    assert got["cause"] == "disk" and got["exit_code"] == 1
    assert "limit is 20 MiB" in home("exec", name, "--", "sh", "-c", "echo more > ~/more").errors
    usage = home.inspect(name)["usage"]
    assert usage["disk_limit_bytes"] == 20 * MIB and 19 * MIB <= usage["disk_bytes"] <= 20 * MIB
    source = pathlib.Path(home.home, "source")
    source.write_bytes(b"x" * 4 * MIB)
    got = home("cp", str(source), f"{name}:/home/user/copy")
    source.unlink()
    assert got.rc == 125 and "the box's own disk limit of 20 MiB is reached" in got.errors, got
    # Room again is seen at once, though the kernel counts what was deleted until its next commit.
    assert home("exec", "--json", name, "--", "sh", "-c", "rm ~/f; exit 3").json["cause"] == "exit"
    assert home("exec", name, "--", "sh", "-c", "echo ok > ~/g; cat ~/g").ok().text == "ok\n"


CLONES = """import fcntl
with open('a', 'wb') as a:
    a.write(b'x' * (20 << 20))
for i in range(9):
    with open('a') as a, open(str(i), 'wb') as b:
        fcntl.ioctl(b.fileno(), 0x40049409, a.fileno())"""


@needs_root
def test_clones_of_files_are_not_multiplied(home, tmp):
    one = home("create", "--disk", "50M").ok().text.strip()
    two = home("create", "--disk", "50M", "--workspace", "cloned").ok().text.strip()
    home("exec", "-u", "root", "-w", "/srv", one, "--", "python3", "-c", CLONES).ok()
    home("exec", "-w", "/workspace", two, "--", "python3", "-c", CLONES).ok()
    home("stop", one).ok()
    home("stop", two).ok()
    got = home("system", "backup", tmp / "b", "--json")
    assert got.rc == 125 and f"{one}: left out" in got.errors and "cloned: left out" in got.errors
    assert (tmp / "b").stat().st_size < 1 << 20 and got.json["boxes"] == 1
    got = home("snapshot", "create", two)
    assert got.rc == 125 and "--disk" in got.errors


@needs_root
def test_boxes_are_apart_and_leave_nothing(home):
    a = home("create", "--disk", "20M").ok().text.strip()
    b = home("create", "--disk", "20M").ok().text.strip()
    home("exec", a, "--", "sh", "-c", FILL % ("$HOME/f", 2000))
    assert home("exec", b, "--", "sh", "-c", "head -c 15000000 /dev/zero > ~/f && echo fine").ok().text == "fine\n"
    assert len(volumes(home)) == 2
    # Nothing of the pool, or of a neighbour, is to be seen from inside.
    got = home("exec", "-u", "root", a, "--", "sh", "-c",
               "grep -c btrfs /proc/mounts; ls -d /pool /boxes /proc/1/root/pool 2>/dev/null; cat /proc/mounts")
    assert "/pool" not in got.text and home.home not in got.text, got
    home("rm", "-f", a, b).ok()
    assert volumes(home) == [] and os.listdir(f"{home.home}/boxes") == []
    for _ in range(5):
        home("run", "--disk", "50M", "--", "sh", "-c", "head -c 20000000 /dev/zero > ~/f").ok()
    wait_until(lambda: volumes(home) == [] and os.listdir(f"{home.home}/boxes") == [], "the removals")


@needs_root
def test_space_comes_back(home):
    """A box is removed at once, and the kernel frees its space behind."""
    def used():
        pool = os.open(f"{home.home}/pool", os.O_RDONLY)
        fcntl.ioctl(pool, 0x9408)  # BTRFS_IOC_SYNC, which also frees what was removed
        os.close(pool)
        stat = os.statvfs(f"{home.home}/pool")
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize

    before = used()
    name = home("create", "--disk", "400M").ok().text.strip()
    home("exec", name, "--", "sh", "-c", "head -c 200000000 /dev/zero > ~/f; sync ~/f").ok()
    assert used() > before + 150e6
    home("rm", "-f", name).ok()
    wait_until(lambda: used() < before + 20e6, "the space of a removed box")


@needs_root
def test_killed_keepers_leave_nothing(home):
    runs = [home.start("run", "--disk", "20M", "--", "sh", "-c", "echo up; exec sleep 1000") for _ in range(4)]
    for run in runs:
        assert run.stdout.readline() == b"up\n"
    assert len(volumes(home)) == 4
    for name in home.names():
        os.kill(home.inspect(name)["keeper_pid"], signal.SIGKILL)
    for run in runs:
        run.communicate(timeout=DEADLINE)
    wait_until(lambda: home.names() == [] and volumes(home) == [], "the sweep")


@needs_root
def test_two_boxes_share_a_workspace_of_the_pool(home):
    a = home("create", "--disk", "40M", "--workspace", "w").ok().text.strip()
    b = home("create", "--disk", "40M", "--workspace", "w").ok().text.strip()
    assert os.getxattr(f"{home.home}/workspaces/w", "trusted.cove.pool") and len(volumes(home)) == 3
    home("exec", a, "--", "sh", "-c", "echo from a > /workspace/f; mkdir /workspace/d").ok()
    assert home("exec", b, "--", "sh", "-c", "cat /workspace/f; echo from b > /workspace/d/g").ok().text == "from a\n"
    got = home("exec", "--json", a, "--", "sh", "-c", FILL % ("/workspace/big", 2000)).json
    assert FULL.search(got["stderr"]) and got["cause"] == "disk"
    home("rm", "-f", a).ok()
    assert home("exec", b, "--", "sh", "-c", "rm /workspace/big; cat /workspace/f").ok().text == "from a\n"
    home.fails("conflict", "workspace", "rm", "w")
    home("rm", "-f", b).ok()
    c = home("create", "--workspace", "w").ok().text.strip()
    assert home("exec", c, "--", "cat", "/workspace/f", "/workspace/d/g").ok().text == "from a\nfrom b\n"
    home("rm", "-f", c).ok()
    home("workspace", "rm", "w").ok()
    assert os.listdir(f"{home.home}/workspaces") == [] and volumes(home) == []


SUBVOLUME = """
import fcntl, os, struct, sys
where = os.open(sys.argv[1], os.O_RDONLY)
for number in (0x5000940e, 0x50009418, 0x50009401, 0x50009417, 0x5000940f):  # create, snapshot, destroy
    try:
        fcntl.ioctl(where, number, bytearray(struct.pack("q4088s", where, b"mine")))
        print("made", hex(number))
    except OSError as e:
        print(e.errno)
"""


@needs_root
def test_no_subvolume_is_made_inside(home):
    """One would have a quota of its own, that is none: in a workspace a box sees btrfs itself."""
    name = home("create", "--disk", "20M", "--workspace", "w").ok().text.strip()
    for where in ("/workspace", "/home/user"):
        got = home("exec", name, "--", "python3", "-c", SUBVOLUME, where).ok()
        assert got.text == "1\n" * 5, got
    # Cloning a file within it is fine, and costs nothing twice.
    line = "head -c 9000000 /dev/zero > f; for i in 1 2 3 4 5 6; do cp --reflink=always f g$i || exit 1; done; " \
           "ls | wc -l"
    assert home("exec", "-w", "/workspace", name, "--", "sh", "-c", line).ok().text == "7\n"


@needs_root
def test_mounted_again_by_the_first_use(home):
    name = home("create").ok().text.strip()
    home("exec", name, "--", "sh", "-c", "echo kept > ~/f").ok()
    home("stop", name).ok()
    subprocess.run(["umount", f"{home.home}/pool"], check=True)
    assert home("exec", name, "--", "true").rc != 0
    home("start", name).ok()
    assert home("exec", name, "--", "cat", "/home/user/f").ok().text == "kept\n"
    assert os.stat(f"{home.home}/pool").st_mode & 0o777 == 0o700


@needs_root
def test_a_full_pool(new_home):
    """Boxes that are there go on, no new one is made, and after a removal there is room."""
    cove = new_home()
    set_up(cove, "300M")
    try:
        name = cove("create").ok().text.strip()
        got = cove("exec", "--json", name, "--", "sh", "-c", FILL % ("$HOME/f", 8000), timeout=120).json
        assert FULL.search(got["stderr"]) and got["cause"] == "disk", got
        cove.fails("full", "create")
        cove.fails("full", "run", "--", "true")
        assert cove("run", "--storage", "loop", "--", "echo", "ok").ok().text == "ok\n"
        assert [c for c in cove("doctor", "--no-test", "--json").json["checks"]
                if c["name"] == "pool" and c["status"] == "limited"]
        cove("exec", name, "--", "sh", "-c", "rm ~/f").ok()
        wait_until(lambda: cove("run", "--", "true").rc == 0, "room for one more")
        assert cove("doctor", "--remove-storage").rc == 125 and cove("exec", name, "--", "true").rc == 0
    finally:
        take_down(cove).ok()


@needs_root
def test_the_hosts_disk_is_full_below_the_pool():
    """Its file cannot grow: boxes meet errors, what was synced stays, and it goes on when there is room again."""
    base = short_dir()
    os.mkdir(f"{base}/m")
    subprocess.run(["truncate", "-s", "1G", f"{base}/img"], check=True)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", f"{base}/img"], check=True)
    subprocess.run(["mount", "-o", "loop", f"{base}/img", f"{base}/m"], check=True)
    cove = Cove(f"{base}/m/h", image="host")
    try:
        os.mkdir(cove.home)
        set_up(cove, "700M")
        name = cove("create", "--disk", "400M").ok().text.strip()
        cove("exec", name, "--", "sh", "-c", "echo kept > ~/kept; sync ~/kept").ok()
        stat = os.statvfs(base + "/m")
        with open(f"{base}/m/fill", "wb") as fill:
            os.posix_fallocate(fill.fileno(), 0, stat.f_bavail * stat.f_frsize - 16 * MIB)
        cove.fails("full", "create")
        cove("exec", name, "--", "sh", "-c", "head -c 300000000 /dev/zero > ~/f; sync ~/f", timeout=120)
        os.unlink(f"{base}/m/fill")
        cove("stop", name)
        # Whose box starts meanwhile may hold the mount for a moment, and then it says to try again.
        wait_until(lambda: cove("start", name).rc == 0, "the pool to be mounted anew")
        assert cove("exec", name, "--", "sh", "-c", "echo more > ~/g; sync ~/g; cat ~/kept").ok().text == "kept\n"
    finally:
        take_down(cove)
        subprocess.run(["umount", f"{base}/m"], check=True)
        remove_tree(base)


@pytest.fixture(params=["btrfs", "xfs"])
def other_home(request):
    """A state directory on another file system than the test's."""
    kind, base = request.param, short_dir()
    if not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"mkfs.{kind} is not installed")
    os.mkdir(f"{base}/m")
    subprocess.run(["truncate", "-s", "2G", f"{base}/img"], check=True)
    subprocess.run([f"mkfs.{kind}", "-q", f"{base}/img"], check=True, stdout=subprocess.DEVNULL)
    if subprocess.run(["mount", "-o", "loop", f"{base}/img", f"{base}/m"], stderr=subprocess.DEVNULL).returncode:
        remove_tree(base)
        pytest.skip(f"this kernel mounts no {kind}")
    cove = Cove(f"{base}/m/h", image="host")
    try:
        yield kind, cove
    finally:
        take_down(cove)
        subprocess.run(["umount", f"{base}/m"], check=True)
        remove_tree(base)


@needs_root
def test_on_other_file_systems(other_home):
    """On btrfs the pool is a directory, without a file of its own; on XFS it is a file."""
    kind, cove = other_home
    set_up(cove)
    assert os.path.exists(f"{cove.home}/pool.img") == (kind != "btrfs")
    name = cove("create", "--disk", "20M").ok().text.strip()
    assert cove.inspect(name)["storage"] == "pool"
    got = cove("exec", "--json", name, "--", "sh", "-c", FILL % ("$HOME/f", 2000)).json
    assert got["cause"] == "disk"
    cove("stop", name).ok()
    cove("start", name).ok()
    assert cove("exec", name, "--", "sh", "-c", "rm ~/f; echo ok > ~/g; cat ~/g").ok().text == "ok\n"
    cove("run", "--disk", "50M", "--", "sh", "-c", "mkdir -p ~/d/e; head -c 9000000 /dev/zero > ~/d/e/f").ok()
    cove("rm", "-f", name).ok()
    wait_until(lambda: volumes(cove) == [], "the removals")
    cove("doctor", "--remove-storage").ok()
    assert cove("run", "--", "echo", "ok").ok().text == "ok\n"


@needs_root
def test_a_missing_pool_does_not_keep_a_box(home):
    """Delete always works: what its volume was is swept when the pool is back."""
    name = home("create").ok().text.strip()
    keeper = home.inspect(name)["keeper_pid"]
    home("stop", name).ok()
    wait_until(lambda: not alive(keeper), "the keeper's end")
    subprocess.run(["umount", f"{home.home}/pool"], check=True)
    os.rename(f"{home.home}/pool.img", f"{home.home}/elsewhere")
    home.fails("unsupported", "start", name)
    home("rm", "-f", name).ok()
    os.rename(f"{home.home}/elsewhere", f"{home.home}/pool.img")
    home("run", "--", "true").ok()
    left = volumes(home)
    assert len(left) == 1
    # Young ones are left alone: nothing but age tells them from one that is being made.
    subprocess.run(["rm", "-rf", f"{home.home}/pool/boxes/{left[0]}"], check=True)


@not_root
@pytest.mark.once("user")
def test_without_root(new_home):
    cove = new_home()
    cove.fails("unsupported", "run", "--storage", "pool", "--", "true")
    got = cove("doctor", "--setup-storage", "--size", "1G")
    assert got.rc == 125 and "root" in got.errors
    assert not os.path.exists(f"{cove.home}/pool.img")


def test_wrong_words(new_home):
    cove = new_home()
    assert cove("doctor", "--setup-storage", "--remove-storage").rc == 2
    assert cove("doctor", "--size", "1G").rc == 2
