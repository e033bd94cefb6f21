"""The state directory on the file systems people have: everything that makes and keeps layers, on each."""
import os
import shutil
import subprocess
import tempfile

import pytest

from conftest import IS_ROOT, Cove, forget_home

pytestmark = [pytest.mark.once("root"), pytest.mark.skipif(not IS_ROOT, reason="mounting a disk needs root")]

MAKERS = {"ext4": ["mkfs.ext4", "-q", "-F"], "btrfs": ["mkfs.btrfs", "-q"], "xfs": ["mkfs.xfs", "-q"]}


@pytest.fixture(params=MAKERS)
def home(request):
    """A state directory on a new disk in a file, with the host's image only."""
    maker = MAKERS[request.param]
    if not shutil.which(maker[0]):
        pytest.skip(f"{maker[0]} is not installed")
    top = tempfile.mkdtemp(prefix="cv", dir="/tmp")
    disk, place = top + "/disk", top + "/m"
    os.mkdir(place)
    with open(disk, "wb") as f:
        f.truncate(1 << 30)
    subprocess.run([*maker, disk], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", disk, place], capture_output=True, text=True)
    if mounted.returncode != 0:
        shutil.rmtree(top)
        pytest.skip(f"this kernel does not mount {request.param}: {mounted.stderr.strip()}")
    cove = Cove(place + "/h", image="host")
    yield cove
    forget_home(cove)
    subprocess.run(["umount", place], check=True)
    shutil.rmtree(top)


def test_snapshot_rollback_fork_diff_merge(home):
    home("create", "--name", "dev", "--net", "closed", "--workspace", "code").ok()
    home.sh("dev", "cd; echo one > a; mkdir d; echo x > d/x; echo w > /workspace/w")
    home("snapshot", "create", "dev", "s1").ok()
    home.sh("dev", "cd; echo two > a; rm -r d; touch new; rm /workspace/w")
    changed = home("diff", "snapshot:s1", "dev").ok().text
    assert "M /home/user/a" in changed and "A /home/user/new" in changed and "D /home/user/d" in changed
    home("rollback", "dev", "s1").ok()
    assert home.sh("dev", "cd; cat a d/x /workspace/w; ls new")["stdout"] == "one\nx\nw\n"
    assert home("fork", "dev", "--count", "2", "--prefix", "try").ok().text.split() == ["try-1", "try-2"]
    home.sh("try-1", "cd; echo better > a; rm d/x; echo more > more")
    assert home.sh("try-2", "cd; cat a d/x")["stdout"] == "one\nx\n"
    home("merge", "try-1", "dev").ok()
    assert home.sh("dev", "cd; cat a more; ls d")["stdout"] == "better\nmore\n"
    for box in ("dev", "try-1", "try-2"):
        home("rm", "-f", box).ok()
    home("snapshot", "rm", "s1").ok()
    home("system", "verify").ok()
    home("workspace", "rm", *home("workspace", "ls", "-q").ok().text.split()).ok()
    home("image", "gc").ok()
    home("system", "verify").ok()
    assert not [n for n in os.listdir(home.home + "/layers") if len(n) == 64]


def test_images_in_and_out(home, tmp):
    tree = tmp / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "usr").mkdir()
    (tree / "bin/file").write_bytes(os.urandom(100_000))
    os.link(tree / "bin/file", tree / "usr/hard")
    os.symlink("/etc/passwd", tree / "usr/link")
    subprocess.run(["tar", "-czf", tmp / "t.tgz", "-C", tree, "."], check=True)
    home("image", "import", "small", str(tmp / "t.tgz")).ok()
    for out in ("one.tar", "two.tar"):
        home("image", "export", "small", str(tmp / out)).ok()
    assert (tmp / "one.tar").read_bytes() == (tmp / "two.tar").read_bytes()
    home("image", "import", "again", str(tmp / "one.tar")).ok()
    home("image", "export", "again", str(tmp / "three.tar")).ok()
    home("image", "import", "third", str(tmp / "three.tar")).ok()
    ids = [home("image", "inspect", name, "--json").ok().json["layers"][0]["id"] for name in ("again", "third")]
    assert ids[0] == ids[1]
    home("system", "verify", "--deep").ok()
    home("image", "rm", "small", "again", "third").ok()
    home("image", "gc").ok()
