"""The state directory on the file systems people have: everything that makes and keeps layers, on each."""
import os
import shutil
import subprocess
import tempfile

import image_kit as kit
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


@pytest.fixture
def other(home):
    """A second state directory on the same disk."""
    cove = Cove(os.path.dirname(home.home) + "/o", image="host")
    yield cove
    if os.path.isdir(cove.home):
        forget_home(cove)


def test_snapshot_rollback_fork_diff_merge(home):
    home("create", "--name", "dev", "--net", "closed", "--workspace", "code").ok()
    home.sh("dev", "cd; echo one > a; mkdir d; echo x > d/x; echo w > /workspace/w")
    home("snapshot", "create", "dev", "s1").ok()
    home.sh("dev", "cd; echo two > a; rm -r d; touch new; rm /workspace/w")
    changed = home("diff", "snapshot:s1", "dev").ok().text.splitlines()
    assert changed == ["M /home/user/a", "D /home/user/d", "D /home/user/d/x", "A /home/user/new", "D /workspace/w"]
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


def said(home, image, line):
    """What a shell prints in a box of this image."""
    return home("run", "--image", image, "--net", "none", "--", "/bin/sh", "-c", line).ok().text


def test_save_and_build(home, tmp):
    (tmp / "tiny.tar").write_bytes(kit.tar(*kit.tiny_root()))
    home("image", "import", "tiny", str(tmp / "tiny.tar")).ok()
    home("create", "--image", "tiny", "--name", "dev", "--net", "none").ok()
    home("exec", "-u", "root", "dev", "--", "/bin/sh", "-c", "echo one > /etc/made; echo x: > /etc/ld.so.conf").ok()
    home("image", "save", "dev", "saved").ok()
    home("rm", "-f", "dev").ok()
    assert said(home, "saved", "read a < /etc/made; read b < /etc/ld.so.conf; echo $a $b") == "one x:\n"
    (tmp / "ctx/d").mkdir(parents=True)
    (tmp / "ctx/d/file").write_text("copied\n")
    (tmp / "ctx/Dockerfile").write_text("FROM saved\nUSER root\nCOPY d /d\nRUN echo built > /etc/made\n")
    made = home("image", "build", "--net", "none", "-t", "one", "--json", str(tmp / "ctx")).ok().json
    assert said(home, "one", "read a < /d/file; read b < /etc/made; echo $a $b") == "copied built\n"
    again = home("image", "build", "--net", "none", "--no-cache", "-t", "two", "--json", str(tmp / "ctx")).ok().json
    assert (again["steps"], again["cached"]) == (made["steps"], 0)
    (tmp / "ctx/Dockerfile").write_text("FROM scratch\nCOPY d /\n")
    home("image", "build", "-t", "three", str(tmp / "ctx")).ok()
    home("system", "verify", "--deep").ok()
    home("image", "rm", "tiny", "saved", "one", "two", "three").ok()
    home("image", "gc").ok()
    assert not [n for n in os.listdir(home.home + "/layers") if len(n) == 64]


def test_a_copy_of_a_directory_comes_back(home):
    work = os.path.dirname(home.home) + "/work"
    os.makedirs(work + "/d")
    for name in ("a", "d/x"):
        with open(f"{work}/{name}", "w") as f:
            f.write("one\n")
    home("create", "--name", "dev", "--net", "none", "--workspace", work, "--copy").ok()
    home.sh("dev", "cd /workspace; echo two >> a; rm -r d; mkdir n; echo new > n/f; ln -s n/f l")
    assert sorted(os.listdir(work)) == ["a", "d"]
    home("stop", "dev").ok()
    changes = ["M /workspace/a", "D /workspace/d", "D /workspace/d/x", "A /workspace/l", "A /workspace/n",
               "A /workspace/n/f"]
    assert home("diff", "dev").ok().text.splitlines() == changes
    assert home("merge", "dev").ok().text.splitlines() == changes
    assert open(work + "/a").read() == "one\ntwo\n" and open(work + "/l").read() == "new\n"
    assert sorted(os.listdir(work)) == ["a", "l", "n"] and home("merge", "dev").ok().text == ""


def test_out_as_one_file_and_in_again(home, other, tmp):
    home("create", "--name", "dev", "--net", "none", "--workspace", "code").ok()
    home.sh("dev", "cd; echo one > a; ln a h; ln -s a l; truncate -s 5M hole; echo w > /workspace/w")
    home("stop", "dev").ok()
    home("snapshot", "create", "dev", "s1").ok()
    for words in (("snapshot", "export", "s1"), ("workspace", "export", "code"), ("system", "backup")):
        home(*words, str(tmp / words[0])).ok()
    look = "cd; cat a; readlink l; [ a -ef h ] && echo same; stat -c %s hole; [ $(du -k hole | cut -f1) -lt 100 ] && " \
           "echo hole; cat /workspace/w"
    whole = "one\na\nsame\n5242880\nhole\nw\n"
    other("snapshot", "import", str(tmp / "snapshot"), "s2").ok()
    other("workspace", "import", str(tmp / "workspace"), "other").ok()
    other("system", "restore", str(tmp / "system")).ok()
    other("start", "dev").ok()
    other("fork", "s2", "--name", "fork").ok()
    assert other.sh("dev", look)["stdout"] == other.sh("fork", look)["stdout"] == whole
    assert other("run", "--workspace", "other", "--", "cat", "/workspace/w").ok().text == "w\n"
    other("rollback", "dev", "s1").ok()
    assert other.sh("dev", look)["stdout"] == whole
    other("system", "verify", "--deep").ok()
