"""All that is kept in one file, and back."""
import fcntl
import hashlib
import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import wait_until
from test_system import home, home_of, layers, problems, rootfs  # noqa: F401  fixtures

pytestmark = pytest.mark.once("root")

LISTING = "cd / && find root home tmp srv opt -xdev -printf '%p %y %m %U %G %s %l\\n' 2>/dev/null | sort; cat /srv/note"


def backup(cove, path, *args):
    return json.loads(cove("system", "backup", path, "--json", *args).ok().text)


def restore(cove, path, *args):
    return json.loads(cove("system", "restore", path, "--json", *args).ok().text)


@pytest.fixture
def box(home):  # noqa: F811
    """A stopped box with writes of its own, and a workspace."""
    name = home("create", "--image", "host", "--name", "kept", "--workspace", "notes").ok().text.strip()
    home("exec", "-u", "root", name, "--", "sh", "-c",
         "mkdir -p /srv/d && echo hello >/srv/note && ln /srv/note /srv/d/same && ln -s ../note /srv/d/link && "
         "truncate -s 5M /srv/sparse && chmod 640 /srv/note").ok()
    home("exec", name, "--", "sh", "-c", "echo kept >/workspace/file").ok()
    before = home("exec", "-u", "root", name, "--", "sh", "-c", LISTING).ok().text
    home("stop", name).ok()
    return name, before


def test_a_box_and_its_workspace_come_back(home, box, new_home, tmp):  # noqa: F811
    name, before = box
    said = backup(home, tmp / "b")
    assert said["boxes"] == 1 and said["images"] == 3 and said["workspaces"] == 1 and said["layers"] == 2
    assert (tmp / "b").stat().st_mode & 0o777 == 0o600 and list(tmp.glob(".cove-*")) == []
    other = new_home()
    said = restore(other, tmp / "b")
    assert said["boxes"] == 1 and said["images"] == 3 and said["layers"] == 2
    assert problems(other, "--deep") == []
    assert sorted(other("image", "ls", "-q").ok().text.split()) == sorted(home("image", "ls", "-q").ok().text.split())
    other("start", name).ok()
    assert other("exec", "-u", "root", name, "--", "sh", "-c", LISTING).ok().text == before
    assert other("exec", name, "--", "sh", "-c", "ls /workspace; cat /workspace/file").ok().text == "file\nkept\n"
    assert other("exec", "-u", "root", name, "--", "sh", "-c",
                 "[ /srv/note -ef /srv/d/same ] && [ $(du -k /srv/sparse | cut -f1) -lt 100 ]").rc == 0
    other("exec", name, "--", "sh", "-c", "echo more >>/workspace/file").ok()


@pytest.mark.parametrize("verb", [["system", "restore"], ["snapshot", "import"]])
def test_who_is_asked_to_end_says_what_becomes_of_it(home, tmp, verb):  # noqa: F811
    pipe = tmp / "pipe"
    os.mkfifo(pipe)

    def is_read():
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK) + 1
        except OSError:
            return 0

    work = home.start(*verb, pipe)
    fd = wait_until(is_read) - 1
    work.send_signal(signal.SIGTERM)
    said = work.communicate(timeout=60)[1].decode()
    os.close(fd)
    assert work.returncode == -signal.SIGTERM and said.startswith("cove: interrupted"), said


def test_a_running_box_is_frozen_and_goes_on(home, new_home, tmp):  # noqa: F811
    name = home("create", "--image", "host").ok().text.strip()
    home("exec", "-d", name, "--", "sh", "-c", "while :; do echo x >>/tmp/log; done").ok()
    got = home("system", "backup", tmp / "b", "--json")
    said = json.loads(got.text)
    assert home("exec", name, "--", "true").rc == 0
    if said["boxes_left_out"]:
        assert got.rc == 125
        pytest.skip("this host cannot freeze a box")
    assert got.rc == 0
    other = new_home()
    restore(other, tmp / "b")
    assert "restored" in other("inspect", name).ok().text and "keeper lost" not in other("ls").ok().text
    other("start", name).ok()
    assert other("exec", name, "--", "sh", "-c", "[ $(sort -u /tmp/log) = x ]").rc == 0


def test_odd_files_come_back(home, box, new_home, tmp):  # noqa: F811
    odd = home("create", "--image", "host", "--workspace", "odd").ok().text.strip()
    home("exec", odd, "--", "sh", "-c", "cd /workspace && mkdir marked && truncate -s 2T large && "
         "cd marked && ln ../large other").ok()
    home("exec", odd, "-w", "/workspace/marked", "--", "python3", "-c",
         "import os\ntry: os.setxattr('.', 'user.overlay.opaque', b'zz')\nexcept OSError: pass").ok()
    home("stop", odd).ok()
    assert backup(home, tmp / "b")["boxes_left_out"] == 0
    other = new_home()
    assert restore(other, tmp / "b")["boxes"] == 2
    other("start", odd).ok()
    assert other("exec", odd, "--", "stat", "-c", "%s %h", "/workspace/marked/other").ok().text == f"{2 << 40} 2\n"


def test_a_box_that_cannot_be_packed_costs_itself(home, box, new_home, tmp):  # noqa: F811
    name, before = box
    if os.pathconf(home.home, "PC_LINK_MAX") <= 65001:
        pytest.skip("no file here can have so many names")
    many = home("create", "--image", "host").ok().text.strip()
    got = home("exec", many, "-w", "/tmp", "--", "python3", "-c",
               "import os\nopen('f', 'w')\nfor i in range(65001): os.link('f', str(i))")
    if got.rc:
        pytest.skip("no file here can have so many names")
    home("stop", many).ok()
    got = home("system", "backup", tmp / "b", "--json")
    assert got.rc == 125 and f"{many}: left out" in got.errors
    assert json.loads(got.text)["boxes_left_out"] == 1 and json.loads(got.text)["boxes"] == 1
    other = new_home()
    assert restore(other, tmp / "b")["boxes"] == 1
    other("start", name).ok()
    assert other("exec", "-u", "root", name, "--", "sh", "-c", LISTING).ok().text == before


def test_what_is_here_is_not_overwritten(home, box, tmp):  # noqa: F811
    name, before = box
    backup(home, tmp / "b")
    home.fails("exists", "system", "backup", tmp / "b")
    backup(home, tmp / "b", "--force")
    home("start", name).ok()
    home("exec", "-u", "root", name, "--", "sh", "-c", "echo changed >/srv/note").ok()
    home.fails("exists", "system", "restore", tmp / "b")
    assert home("exec", name, "-u", "root", "--", "cat", "/srv/note").ok().text == "changed\n"
    restore(home, tmp / "b", "--force")
    home("start", name).ok()
    assert home("exec", "-u", "root", name, "--", "sh", "-c", LISTING).ok().text == before


def test_a_box_that_runs_is_replaced_with_its_workspace(home, box, tmp):  # noqa: F811
    name, before = box
    backup(home, tmp / "b")
    home("create", "--image", "host", "--name", "other", "--workspace", "notes").ok()
    assert "box 'other' uses workspace 'notes'" in home.fails("conflict", "system", "restore", "--force", tmp / "b")
    home("rm", "-f", "other").ok()
    home("start", name).ok()
    home("exec", "-u", "root", name, "--", "sh", "-c", "rm /srv/note; echo changed >/workspace/file").ok()
    restore(home, tmp / "b", "--force")
    assert [p.name for d in ("boxes", "workspaces") for p in (home_of(home) / d).glob(".*")] == []
    home("start", name).ok()
    assert home("exec", "-u", "root", name, "--", "sh", "-c", LISTING).ok().text == before
    assert home("exec", name, "--", "cat", "/workspace/file").ok().text == "kept\n"
    assert problems(home, "--deep") == []


def test_one_that_is_held_keeps_all_as_they_are(home, box, tmp):  # noqa: F811
    """Boxes are replaced together or not at all, and others are made while a restore waits for one."""
    name, _ = box
    last = home("create", "--image", "host", "--name", "z-last").ok().text.strip()
    home("stop", last).ok()
    backup(home, tmp / "b")
    home("start", name).ok()
    home("exec", "-u", "root", name, "--", "sh", "-c", "echo later >/srv/note").ok()
    home("stop", name).ok()
    held = os.open(home_of(home) / "boxes" / last, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        waits = home.start("system", "restore", tmp / "b", "--force")
        wait_until(lambda: list((home_of(home) / "boxes").glob(f".new-*/{last}")))
        while waits.poll() is None:
            home("run", "--image", "host", "--", "true").ok()
    finally:
        os.close(held)
    assert waits.returncode != 0
    home("start", name).ok()
    assert home("exec", "-u", "root", name, "--", "cat", "/srv/note").ok().text == "later\n"
    home("stop", name).ok()
    restore(home, tmp / "b", "--force")
    home("start", name).ok()
    assert home("exec", "-u", "root", name, "--", "cat", "/srv/note").ok().text == "hello\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_without_room_what_was_to_be_replaced_stays(new_home, tmp):
    large = new_home()
    large("create", "--image", "host", "--name", "kept", "--workspace", "notes").ok()
    large("exec", "kept", "--", "sh", "-c", "head -c 90M /dev/urandom >/workspace/large; echo new >/tmp/f").ok()
    large("stop", "kept").ok()
    backup(large, tmp / "b")
    large("workspace", "export", "notes", tmp / "w").ok()
    small = new_home()
    os.makedirs(small.home, mode=0o700)
    subprocess.run(["truncate", "-s", "64M", tmp / "img"], check=True)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", tmp / "img"], check=True)
    subprocess.run(["mount", "-o", "loop", tmp / "img", small.home], check=True)
    try:
        small("create", "--image", "host", "--disk", "20M", "--name", "kept", "--workspace", "notes").ok()
        small("exec", "kept", "--", "sh", "-c", "echo old >/workspace/file; echo old >/tmp/f; sync").ok()
        small("stop", "kept").ok()
        assert small("system", "restore", "--force", tmp / "b").rc == 125
        small("start", "kept").ok()
        assert small("exec", "kept", "--", "cat", "/workspace/file", "/tmp/f").ok().text == "old\nold\n"
        small("rm", "-f", "kept").ok()
        assert small("workspace", "import", "--force", tmp / "w").rc == 125
        assert workspace_file(small, "notes") == "old\n"
    finally:
        small("rm", "-f", *small("ls", "-q").text.split())
        subprocess.run(["umount", small.home], check=True)


def test_stdout_is_no_file(home, box, tmp):  # noqa: F811
    name, _ = box
    home("snapshot", "create", name, "good").ok()
    for args in (["snapshot", "export", "good"], ["workspace", "export", "notes"], ["system", "backup"]):
        home.fails("invalid", *args, "-", rc=125, cwd=tmp)
    assert not (tmp / "-").exists() and not os.path.exists("-")


def test_a_damaged_file_makes_nothing(home, box, new_home, tmp):  # noqa: F811
    backup(home, tmp / "b")
    whole = (tmp / "b").read_bytes()
    for data in (whole[:-1], whole[:len(whole) // 2], whole[:100] + b"!" + whole[101:], whole + b"x",
                 whole[:len(whole) // 2] + b"!!!!" + whole[len(whole) // 2 + 4:]):
        (tmp / "c").write_bytes(data)
        other = new_home()
        assert other("system", "restore", tmp / "c").rc == 125
        assert not os.path.exists(other.home)
    (tmp / "c").write_bytes(b"something else")
    assert str(tmp / "c") in new_home().fails("invalid", "system", "restore", tmp / "c", rc=125)
    new_home().fails("not_found", "system", "restore", tmp / "nothing")


def test_secrets_only_when_asked(home, new_home, tmp):  # noqa: F811
    home("secret", "set", "TOKEN", input=b"s3cr3t-value").ok()
    backup(home, tmp / "without")
    assert b"s3cr3t-value" not in (tmp / "without").read_bytes() and b"TOKEN" not in (tmp / "without").read_bytes()
    backup(home, tmp / "with", "--secrets")
    assert b"s3cr3t-value" in (tmp / "with").read_bytes()
    one, two = new_home(), new_home()
    restore(one, tmp / "with")
    assert "TOKEN" not in one("secret", "ls").ok().text
    restore(two, tmp / "with", "--secrets")
    assert "TOKEN" in two("secret", "ls").ok().text


def test_a_killed_backup_leaves_nothing(home, box, tmp):  # noqa: F811
    program = home.start("system", "backup", tmp / "b")
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert not (tmp / "b").exists() or restore_works(home, tmp / "b")


def restore_works(cove, path):
    return cove("system", "restore", path, "--force").rc == 0


def test_nothing_to_keep(new_home, tmp):
    said = backup(new_home(), tmp / "b")
    assert said["boxes"] == 0 and said["images"] == 0
    other = new_home()
    restore(other, tmp / "b")


def test_one_workspace(home, box, new_home, tmp):  # noqa: F811
    home("workspace", "export", "notes", tmp / "w").ok()
    home.fails("exists", "workspace", "export", "notes", tmp / "w")
    home.fails("not_found", "workspace", "export", "nothing", tmp / "x")
    assert not (tmp / "x").exists()
    other = new_home()
    other("workspace", "import", tmp / "w").ok()
    other.fails("exists", "workspace", "import", tmp / "w")
    other("workspace", "import", tmp / "w", "second").ok()
    assert other("workspace", "ls", "-q").ok().text.split() == ["notes", "second"]
    got = other("run", "--image", "host", "--workspace", "second", "--", "cat", "/workspace/file").ok()
    assert got.text == "kept\n"
    home.fails("conflict", "workspace", "import", "--force", tmp / "w")  # a box uses it
    other("workspace", "import", "--force", tmp / "w").ok()
    # Each kind of file is taken for what it is.
    other.fails("invalid", "system", "restore", tmp / "w", rc=125)
    backup(home, tmp / "b")
    other.fails("invalid", "workspace", "import", tmp / "b", rc=125)
    (tmp / "w").write_bytes((tmp / "w").read_bytes()[:-1])
    other.fails("damaged", "workspace", "import", tmp / "w", "third")
    assert "third" not in other("workspace", "ls", "-q").ok().text


def workspace_file(cove, workspace, file="file"):
    return cove("run", "--image", "host", "--workspace", workspace, "--", "cat", f"/workspace/{file}").ok().text


def test_an_import_touches_its_target_alone(home, box, new_home, tmp):  # noqa: F811
    name, _ = box
    home("workspace", "export", "notes", tmp / "w").ok()
    other = new_home()
    for workspace in ("notes", "target"):
        other("run", "--image", "host", "--workspace", workspace, "--", "sh", "-c",
              f"echo {workspace} >/workspace/mine").ok()
    other("workspace", "import", "--force", tmp / "w", "target").ok()
    assert workspace_file(other, "notes", "mine") == "notes\n" and workspace_file(other, "target") == "kept\n"
    # Whoever uses the target is asked, not who uses the name in the file.
    user = other("create", "--image", "host", "--workspace", "target").ok().text.strip()
    said = other.fails("conflict", "workspace", "import", "--force", tmp / "w", "target")
    assert f"box '{user}' uses workspace 'target'" in said
    other("exec", user, "--", "sh", "-c", "echo more >>/workspace/file").ok()
    other("rm", "-f", user).ok()
    assert workspace_file(other, "target") == "kept\nmore\n"
    home("workspace", "import", "--force", tmp / "w", "free").ok()  # a box uses notes, which is not asked for
    # Nothing that exists is offered as a way out that is none.
    assert "NAME" in home.fails("exists", "workspace", "import", tmp / "w")


@pytest.mark.parametrize("bad", ["../../evil", "", "bad name", "/tmp/evil", ".", "Upper"])
def test_an_imports_name_is_checked_first(home, box, new_home, tmp, bad):  # noqa: F811
    name, _ = box
    home("snapshot", "create", name, "good").ok()
    home("workspace", "export", "notes", tmp / "w").ok()
    home("snapshot", "export", "good", tmp / "s").ok()
    before = sorted(p for p in tmp.rglob("*") if "run" not in p.parts)
    other = new_home()
    for verb, file in (("workspace", tmp / "w"), ("snapshot", tmp / "s"), ("workspace", tmp / "nothing")):
        for flags in ([], ["--force"] if verb == "workspace" else []):
            assert "is not a name" in other.fails("invalid", verb, "import", *flags, file, bad, rc=2)
    assert not os.path.exists(other.home) and not os.path.lexists("/tmp/evil")
    assert sorted(p for p in tmp.rglob("*") if "run" not in p.parts) == before


def test_one_snapshot(home, box, new_home, tmp):  # noqa: F811
    name, before = box
    home("snapshot", "create", name, "good").ok()
    assert problems(home, "--deep") == []
    home("snapshot", "export", "good", tmp / "s").ok()
    home.fails("exists", "snapshot", "export", "good", tmp / "s")
    home.fails("not_found", "snapshot", "export", "nothing", tmp / "x")
    other = new_home()
    other("snapshot", "import", tmp / "s").ok()
    other("snapshot", "import", tmp / "s", "second").ok()
    said = other.fails("exists", "snapshot", "import", tmp / "s")
    assert "another NAME" in said and "--force" not in said
    assert problems(other, "--deep") == []
    fork = other("fork", "second", "--name", "fork").ok()
    assert other("exec", "-u", "root", "fork", "--", "sh", "-c", LISTING).ok().text == before, fork
    assert other("exec", "fork", "--", "cat", "/workspace/file").ok().text == "kept\n"
    # What stands on its layers keeps them, whatever else goes.
    other("snapshot", "rm", "good", "second").ok()
    other("image", "gc").ok()
    assert other("exec", "-u", "root", "fork", "--", "cat", "/srv/note").ok().text == "hello\n"
    assert problems(other) == []


def test_an_imported_snapshot_shows_nothing_of_this_host(home, new_home, tmp):  # noqa: F811
    (tmp / "dir").mkdir()
    (tmp / "dir/file").write_text("of the host")
    name = home("create", "--image", "host", "--mount", f"{tmp}/dir:/mnt", "--net", "open", "--name", "wide").ok()
    name = name.text.strip()
    home("stop", name).ok()
    home("snapshot", "create", name, "wide").ok()
    home("snapshot", "export", "wide", tmp / "s").ok()
    other = new_home()
    other("snapshot", "import", tmp / "s").ok()
    other("fork", "wide", "--name", "mine").ok()
    seen = json.loads(other("inspect", "mine").ok().text)
    assert other("exec", "mine", "--", "ls", "/mnt").ok().text == "" and "open" not in str(seen.get("net"))


def test_a_layer_that_lies_gets_another_name(home, box, new_home, tmp):  # noqa: F811
    """A file may say that its content is some image's layer."""
    name, _ = box
    home("create", "--image", "one", "--name", "plain").ok()
    home("stop", "plain")
    home("snapshot", "create", "plain", "lie").ok()
    layer = json.loads(home("image", "inspect", "one", "--json").ok().text)["layers"][0]["id"]
    home("snapshot", "export", "lie", tmp / "s").ok()
    other = new_home()
    other("snapshot", "import", tmp / "s").ok()
    # It came as another program's tar, so its hash cannot be checked: nobody is to find it by that name.
    assert layer not in layers(other) and problems(other, "--deep") == []


def without_layers(data):
    """A parcel (src/store/parcel.h) as it would be had it none."""
    at = data.index(b"\n") + 1
    kept, all_of, count = data[:at], hashlib.sha256(), 0
    while data[at:at + 1] != b"Z":
        begin, head = at, data[at + 5:at + 5 + int.from_bytes(data[at + 1:at + 5], "little")]
        while data[at:at + 1] != b"E":
            at += 5 + int.from_bytes(data[at + 1:at + 5], "little")
        at += 33
        if b"what layer\n" not in head:
            kept, count = kept + data[begin:at], count + 1
            all_of.update(data[at - 32:at])
    return kept + b"Z" + count.to_bytes(8, "little") + all_of.digest()


def test_a_snapshot_comes_with_its_layers_or_not(home, box, new_home, tmp):  # noqa: F811
    name, _ = box
    home("snapshot", "create", name, "good").ok()
    home("snapshot", "export", "good", tmp / "s").ok()
    (tmp / "cut").write_bytes(without_layers((tmp / "s").read_bytes()))
    other = new_home()
    other.fails("damaged", "snapshot", "import", tmp / "cut")
    assert other("snapshot", "ls", "-q").ok().text == ""
    # Where they are here already it is as good.
    other("snapshot", "import", tmp / "s", "whole").ok()
    home("snapshot", "import", tmp / "cut", "again").ok()


def test_snapshots_and_forks_are_in_a_backup(home, box, new_home, tmp):  # noqa: F811
    name, before = box
    home("snapshot", "create", name, "good").ok()
    home("fork", "good", "--name", "fork").ok()
    home("stop", "fork").ok()
    home("snapshot", "rule", "fork", "--keep", "3").ok()
    home("snapshot", "rule", "image:host", "--keep", "9").ok()
    said = backup(home, tmp / "b")
    assert said["snapshots"] == 1 and said["boxes"] == 2
    other = new_home()
    restore(other, tmp / "b")
    assert problems(other, "--deep") == []
    other("start", "fork").ok()
    assert other("exec", "-u", "root", "fork", "--", "sh", "-c", LISTING).ok().text == before
    assert other("exec", "fork", "--", "cat", "/workspace/file").ok().text == "kept\n"
    other("fork", "good", "--name", "third").ok()
    assert [other("snapshot", "rule", of, "--json").ok().json["keep"] for of in ("fork", "image:host")] == [3, 9]


@pytest.mark.parametrize("args", [["workspace", "export", "a"], ["workspace", "import"], ["system", "backup"],
                                  ["system", "restore"], ["system", "backup", "a", "b"]])
def test_wrong_arguments(new_home, args):
    assert new_home()(*args).refused(rc=2).out == b""
