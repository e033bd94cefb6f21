"""Workspaces and extra mounts."""
import os
import pathlib
import subprocess

import pytest

from conftest import DEADLINE, IS_ROOT, needs_base, needs_root


@pytest.fixture
def work(tmp):
    """A host directory of the caller's."""
    (tmp / "work").mkdir()
    return tmp / "work"


def test_host_directory(cove, work):
    (work / "in").write_text("from the host")
    got = cove("run", "--workspace", work, "--", "sh", "-c", "pwd; cat in; echo out > out; mkdir d; echo x > d/f")
    assert got.text == "/workspace\nfrom the host"
    assert (work / "out").read_text() == "out\n"
    for name in ("out", "d", "d/f"):
        assert (work / name).stat().st_uid == os.geteuid(), name


def test_files_of_the_caller_are_the_users_inside(cove, work):
    (work / "mine").write_text("x")
    assert cove("run", "--workspace", work, "--", "stat", "-c", "%u", "mine").text == "1000\n"


def test_relative_directory(cove, work):
    (work / "in").write_text("here")
    assert cove("run", "--workspace", "./work", "--", "cat", "in", cwd=work.parent).text == "here"


def test_missing_directory(cove, tmp):
    cove.fails("not_found", "run", "--workspace", tmp / "not-there", "--", "true")


def test_named_workspace_outlives_boxes(cove):
    cove("run", "--workspace", "notes", "--", "sh", "-c", "echo 1 > a; mkdir -p d; echo 2 > d/b").ok()
    assert cove("run", "--workspace", "notes", "--", "sh", "-c", "cat a d/b; echo 3 >> a; stat -c %u a d/b").text == \
        "1\n2\n1000\n1000\n"
    assert "notes" in cove("workspace", "ls").ok().text
    listed = cove("workspace", "ls", "--json").ok().json
    assert any(w["name"] == "notes" for w in listed)
    cove("workspace", "rm", "notes").ok()
    assert cove("run", "--workspace", "notes", "--", "ls").out == b""
    cove("workspace", "rm", "notes").ok()


def test_workspace_in_use(cove):
    box = cove("create", "--workspace", "busy").ok().text.strip()
    cove.fails("conflict", "workspace", "rm", "busy")
    cove("rm", "-f", box).ok()
    cove("workspace", "rm", "busy").ok()


def test_remove_of_a_missing_workspace(cove):
    got = cove("workspace", "rm", "never-was")
    assert got.rc == 0 or "never-was" in got.errors


@pytest.mark.parametrize("name", ["A", "a_b", ".hidden", "-a", "x" * 64, ""])
def test_bad_workspace_names(cove, name):
    before = cove.names()
    cove.fails("invalid", "create", "--workspace", name)
    assert cove.names() == before


def test_mount(cove, tmp):
    (tmp / "data").mkdir()
    (tmp / "data/f").write_text("text")
    got = cove("run", "--mount", f"{tmp}/data:/srv/data", "--", "sh", "-c", "cat /srv/data/f; echo new > /srv/data/g")
    assert got.text == "text" and (tmp / "data/g").read_text() == "new\n"


def test_read_only_mount(cove, tmp):
    (tmp / "f").write_text("text")
    got = cove("run", "--mount", f"{tmp}:/ro:ro", "--", "sh", "-c",
               "cat /ro/f; echo x > /ro/f; echo x > /ro/g; rm /ro/f")
    assert got.out == b"text" and got.err.count(b"Read-only") == 3
    assert (tmp / "f").read_text() == "text"


def test_read_only_is_enforced_from_outside(cove, tmp, inner_root):
    (tmp / "f").write_text("text")
    got = cove("run", "-u", "root", "--mount", f"{tmp}:/ro:ro", "--", "sh", "-c",
               "mount -o remount,rw /ro; mount -o remount,bind,rw /ro; umount /ro; echo x > /ro/f; ls /ro")
    assert got.rc == 0 and (tmp / "f").read_text() == "text" and "f" in got.text.split()


def test_single_file(cove, tmp):
    (tmp / "conf").write_text("conf")
    assert cove("run", "--mount", f"{tmp}/conf:/etc/my.conf:ro", "--", "cat", "/etc/my.conf").text == "conf"


def test_env_names_the_target(cove, tmp):
    (tmp / "d").mkdir()
    box = cove("create", "--mount", f"{tmp}/d:/srv/d:ro,env=DATA_DIR").ok().text.strip()
    assert cove("exec", box, "--", "sh", "-c", "echo $DATA_DIR").text == "/srv/d\n"
    assert cove.sh(box, "echo $DATA_DIR")["stdout"] == "/srv/d\n"


def test_relative_source_is_in_the_workspace_and_made(cove, work):
    got = cove("run", "--workspace", work, "--mount", "cache:/home/user/.cache,env=CACHE", "--",
               "sh", "-c", "echo x > $CACHE/f; cat /workspace/cache/f").ok()
    assert got.text == "x\n"
    assert (work / "cache/f").read_text() == "x\n"
    assert (work / "cache").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("source", ["../outside", "a/../../outside", ".."])
def test_relative_source_may_not_climb(cove, work, source):
    (work.parent / "outside").mkdir()
    cove.fails("invalid", "run", "--workspace", work, "--mount", f"{source}:/m", "--", "true")
    assert os.listdir(work.parent / "outside") == []


@pytest.mark.parametrize("source", ["link", "link/sub", "sub/link"])
def test_relative_source_may_not_leave_by_a_link(cove, work, source):
    outside = work.parent / "outside"
    outside.mkdir()
    (work / "sub").mkdir()
    for link in (work / "link", work / "sub/link"):
        link.symlink_to(outside)
    cove.fails("invalid", "run", "--workspace", work, "--mount", f"{source}:/m", "--", "true")
    assert os.listdir(outside) == []


def test_relative_source_without_a_workspace(cove):
    cove.fails("invalid", "run", "--mount", "x:/m", "--", "true")


@pytest.mark.parametrize("text", ["", ":", "/tmp", "/tmp:", ":/m", "/tmp:relative", "/tmp:/m:rw:x", "/tmp:/m,env=1X",
                                  "/tmp:/m,env=", "/tmp:/m,what=1", "/tmp:/../m/..", "/tmp:/"])
def test_bad_mounts(cove, text):
    before = cove.names()
    cove.fails("invalid", "run", "--mount", text, "--", "true")
    assert cove.names() == before


@pytest.mark.parametrize("target", ["/proc", "/dev", "/sys", "/proc/sys", "/dev/shm/x"])
def test_mount_over_what_the_wall_needs(cove, tmp, target):
    got = cove("run", "--mount", f"{tmp}:{target}", "--", "true")
    assert got.rc == 0 or target in got.errors


def test_missing_absolute_source(cove, tmp):
    cove.fails("not_found", "run", "--mount", f"{tmp}/missing:/m", "--", "true")


def test_too_many_mounts(cove, tmp):
    flags = [x for i in range(40) for x in ("--mount", f"{tmp}:/m{i}")]
    cove.fails("limit", "run", *flags, "--", "true")


def test_target_that_is_a_link_in_the_image(cove, tmp, work):
    # /bin is a link in a merged-/usr image: the mount must land in the box, wherever that is.
    (tmp / "f").write_text("x")
    got = cove("run", "--mount", f"{tmp}:/bin/over", "--", "true")
    assert not os.path.exists("/bin/over")
    assert got.rc == 0 or "/bin/over" in got.errors


@pytest.mark.parametrize("target", ["link/sub", "link", "deep/link/sub/more", "dangling"])
def test_target_below_a_shared_directory_follows_no_link(cove, work, tmp, target):
    (tmp / "elsewhere").mkdir()
    (tmp / "extra").mkdir()
    (work / "deep").mkdir()
    (work / "link").symlink_to("/other")
    (work / "deep/link").symlink_to("/etc")
    (work / "dangling").symlink_to("/home/new")
    cove.fails("invalid", "run", "--workspace", work, "--mount", f"{tmp}/elsewhere:/other", "--mount",
               f"{tmp}/extra:/workspace/{target}", "--", "true")
    assert not list((tmp / "elsewhere").iterdir())
    got = cove("run", "--workspace", work, "--mount", f"{tmp}/extra:/workspace/deep/new/place", "--",
               "sh", "-c", "touch deep/new/place/f").ok()
    assert (tmp / "extra/f").exists(), repr(got)


@needs_base
def test_a_link_into_a_shared_directory_changes_nothing(cove, work, tmp):
    """A link of the image's leads there; below it no link is followed, either."""
    for name in ("shared", "elsewhere", "extra"):
        (tmp / name).mkdir()
    (tmp / "shared/link").symlink_to("/other")
    flags = ["--mount", f"{tmp}/shared:/run", "--mount", f"{tmp}/elsewhere:/other", "--mount"]
    cove.fails("invalid", "run", *flags, f"{tmp}/extra:/var/run/link/made", "--", "true")
    assert not list((tmp / "elsewhere").iterdir())
    cove("run", *flags, f"{tmp}/extra:/var/run/a/b", "--", "touch", "/run/a/b/f").ok()
    assert (tmp / "extra/f").exists()


def test_a_box_cannot_turn_its_next_mount_aside(cove, work, tmp):
    """It moves the place of a mount away and leaves a link into its workspace, with another link there."""
    for name in ("elsewhere", "extra"):
        (tmp / name).mkdir()
    box = cove("create", "--workspace", work, "--mount", f"{tmp}/elsewhere:/other", "--mount",
               f"{tmp}/extra:/home/user/foo/link/made").ok().text.strip()
    own = cove("exec", box, "--", "test", "-O", "/home/user/foo").rc == 0
    cove("exec", *([] if own else ["-u", "root"]), box, "--", "sh", "-c",
         "cd /home/user && mv foo old && ln -s /workspace foo").ok()
    cove("exec", box, "--", "ln", "-s", "/other", "/workspace/link").ok()
    cove("stop", box).ok()
    cove.fails("invalid", "start", box)
    assert not list((tmp / "elsewhere").iterdir())
    (work / "link").unlink()
    cove("start", box).ok()
    assert cove("exec", box, "--", "touch", "/workspace/link/made/f").ok() and (tmp / "extra/f").exists()


def test_host_directory_is_not_removed_with_the_box(cove, work):
    (work / "f").write_text("x")
    box = cove("create", "--workspace", work, "--mount", f"{work}:/again").ok().text.strip()
    cove("rm", "-f", box).ok()
    assert (work / "f").read_text() == "x"


def test_mounts_after_stop_and_start(cove, work):
    box = cove("create", "--workspace", work, "--mount", "c:/c").ok().text.strip()
    cove.sh(box, "echo 1 > /c/f")
    cove("stop", box).ok()
    cove("start", box).ok()
    assert cove.sh(box, "cat /c/f /workspace/c/f; pwd")["stdout"] == "1\n1\n/workspace\n"


@needs_root
def test_root_files_in_a_host_directory_of_another_user(cove, work):
    os.chown(work, 12345, 12345)
    assert IS_ROOT
    cove("run", "--workspace", work, "--", "sh", "-c", "echo x > f").ok()
    assert (work / "f").stat().st_uid == 12345


# ---- Cove's own state is in no box ----

def refused(cove, *flags):
    before = cove.names()
    cove.fails("denied", "run", *flags, "--", "true")
    assert set(cove.names()) == set(before)


@pytest.mark.parametrize("below", ["", "/boxes", "/run", "/layers"])
def test_nothing_inside_the_state_directory(cove, below):
    refused(cove, "--mount", f"{cove.home}{below}:/m:ro")
    refused(cove, "--workspace", f"{cove.home}{below}")


def test_nothing_that_holds_the_state_directory(cove, tmp):
    """A read-only mount is enough to read other boxes' disks and to connect to their keepers."""
    above = os.path.dirname(cove.home)
    for source in {above, *map(str, pathlib.Path(os.path.realpath(cove.home)).parents)}:
        refused(cove, "--mount", f"{source}:/m:ro")
        refused(cove, "--workspace", source)
    (tmp / "link").symlink_to(above)
    (tmp / "dots").mkdir()
    refused(cove, "--mount", f"{tmp}/link:/m")
    refused(cove, "--mount", f"{tmp}/dots/../../..:/m")
    refused(cove, "--workspace", f"{tmp}/link/")
    beside = tmp / "beside"
    beside.mkdir()
    cove("run", "--mount", f"{beside}:/m", "--", "true").ok()


def test_a_state_directory_that_is_a_link(new_home, tmp):
    """What it leads to is what counts."""
    real = tmp / "real"
    real.mkdir(mode=0o700)
    (tmp / "name").symlink_to(real)
    cove = new_home(COVE_HOME=str(tmp / "name"))
    cove.home = str(tmp / "name")
    (real / "boxes").mkdir(mode=0o700)
    refused(cove, "--mount", f"{real}/boxes:/m")
    refused(cove, "--mount", f"{tmp}:/m")
    cove("run", "--mount", "/usr:/m:ro", "--", "true").ok()


def test_a_part_of_a_workspace_that_is_mounted_from_the_state(cove, work):
    """Below the workspace the path says nothing: what is there may be mounted from elsewhere."""
    (work / "sub").mkdir()
    probe = ["unshare", "--map-root-user", "--mount"] if not IS_ROOT else ["unshare", "--mount"]
    line = f'mount --bind "$1" "{work}/sub" || exit 77; shift; exec "$@"'
    argv = cove.argv(["run", "--workspace", str(work), "--mount", "sub:/m", "--", "true"])
    got = subprocess.run([*probe, "sh", "-c", line, "sh", cove.home, *argv], env=cove.env, capture_output=True,
                         timeout=DEADLINE)
    if got.returncode == 77 or not IS_ROOT:
        pytest.skip("cannot mount here")
    assert got.returncode == 125 and b"Cove's own state" in got.stderr, got


@needs_root
def test_nothing_of_the_machines_own_run_directory(cove):
    """uid ranges of all boxes of the machine are there, whatever COVE_HOME is."""
    if not os.path.isdir("/run/cove"):
        pytest.skip("there is none yet")
    for source in ("/run", "/run/cove", os.path.realpath("/var/run")):
        refused(cove, "--mount", f"{source}:/m:ro")


def test_the_runtime_directory_of_a_user(new_home, tmp):
    """Without COVE_HOME an ordinary user's sockets are in XDG_RUNTIME_DIR."""
    if IS_ROOT:
        pytest.skip("root has another place for them")
    (tmp / "run").mkdir(mode=0o700)
    (tmp / "data").mkdir(mode=0o700)
    cove = new_home(XDG_RUNTIME_DIR=str(tmp / "run"), XDG_DATA_HOME=str(tmp / "data"))
    del cove.env["COVE_HOME"]
    cove.home = str(tmp / "data/cove")
    refused(cove, "--mount", f"{tmp}/run:/m:ro")
    refused(cove, "--mount", f"{tmp}/run/cove:/m:ro")


def canary(tmp):
    """A directory of the host's that no box was given."""
    (tmp / "canary").mkdir(mode=0o700)
    (tmp / "canary/s").write_text("secret")
    return tmp / "canary"


@pytest.mark.parametrize("source", ["a/b", "a", "file"])
def test_a_box_cannot_lead_its_own_source_elsewhere(cove, work, tmp, source):
    """It may write where the source of another mount of its own is, and replaces it with a link."""
    outside = canary(tmp)
    (work / "a/b").mkdir(parents=True)
    (work / "file").write_text("x")
    box = cove("create", "--workspace", work, "--mount", f"{work}/{source}:/data").ok().text.strip()
    cove("exec", box, "--", "sh", "-c", f"cd /workspace && mv {source} gone && ln -s "
         f"{outside}{'/s' if source == 'file' else ''} {source}").ok()
    cove("stop", box).ok()
    cove.fails("denied", "start", box)
    assert os.listdir(outside) == ["s"]
    (work / source).unlink()
    (work / "gone").rename(work / source)
    cove("start", box).ok()
    cove("exec", box, "--", "test", "-e", "/data").ok()


def test_a_box_cannot_lead_another_boxs_workspace_elsewhere(cove, work, tmp):
    outside = canary(tmp)
    (work / "sub").mkdir()
    one = cove("create", "--workspace", work).ok().text.strip()
    other = cove("create", "--workspace", work / "sub").ok().text.strip()
    cove("stop", other).ok()
    cove("exec", one, "--", "sh", "-c", f"rmdir sub && ln -s {outside} sub").ok()
    cove.fails("denied", "start", other)


def test_a_source_that_is_a_link_is_what_it_led_to_at_create(cove, work, tmp):
    for name in ("first", "second"):
        (tmp / name).mkdir()
        (tmp / name / "f").write_text(name)
    (tmp / "link").symlink_to("first")
    box = cove("create", "--mount", f"{tmp}/link:/data").ok().text.strip()
    (tmp / "link").unlink()
    (tmp / "link").symlink_to("second")
    cove("stop", box).ok()
    cove("start", box).ok()
    assert cove("exec", box, "--", "cat", "/data/f").ok().text == "first"


@needs_root
@pytest.mark.parametrize("mount", ["sub", "/sub"])
def test_a_part_that_is_somebody_elses_stays_so(cove, work, mount):
    """By a relative source, by an absolute one below the workspace, and where it is pinned."""
    for name in ("p/sub", ".ssh", "a"):
        (work / name).mkdir(parents=True)
        (work / name / "f").write_text("secret")
    os.chmod(work / ".ssh", 0o700)
    os.chmod(work / "p/sub", 0o700)
    for path in (work, work / "a", work / "a/f", work / "p"):
        os.chown(path, 4242, 4242)
    source = "a/sub" if mount == "sub" else f"{work}/a/sub"
    (work / "a/sub").mkdir()
    os.chown(work / "a/sub", 4242, 4242)
    box = cove("create", "--workspace", work, "--mount", f"{source}:/data").ok().text.strip()
    assert cove("exec", box, "--", "cat", "/workspace/a/f").ok().text == "secret"
    # The directory of root's comes to the source's place with the one above it.
    cove("exec", box, "--", "sh", "-c", "cd /workspace && mv a old && mv p a").ok()
    assert cove("exec", box, "--", "cat", "/workspace/.ssh/f").rc != 0
    cove("stop", box).ok()
    if mount == "/sub":
        cove.fails("denied", "start", box)
        return
    cove("start", box)
    for path in ("/data/f", "/workspace/a/sub/f"):
        assert cove("exec", box, "--", "cat", path).rc != 0, path
    assert cove("exec", box, "--", "touch", "/data/made").rc != 0
    assert os.listdir(work / "a/sub") == ["f"]


@needs_root
def test_a_workspace_below_a_mount_keeps_its_owner(cove, work):
    for name in ("a/sub", "p/sub"):
        (work / name).mkdir(parents=True)
    (work / "p/sub/f").write_text("secret")
    for path in (work, work / "a", work / "a/sub", work / "p"):
        os.chown(path, 4242, 4242)
    box = cove("create", "--workspace", work / "a/sub", "--mount", f"{work}:/given").ok().text.strip()
    cove("exec", box, "--", "sh", "-c", "cd /given && mv a old && mv p a").ok()
    cove("stop", box).ok()
    cove.fails("denied", "start", box)


def test_what_is_read_only_is_so_wherever_its_directory_is_led(cove, work):
    """A link of the box's own leads the place of the outer mount aside; the inner ones go with it."""
    for name in (".git/hooks", "keep", "proj/.git/hooks", "proj/keep"):
        (work / name).mkdir(parents=True)
    (work / "keep/f").write_text("x")
    (work / ".git/hooks/pre-commit").write_text("x")
    box = cove("create", "--mount", f"{work}:/home/user/x/proj", "--mount",
               f"{work}/keep:/home/user/x/proj/keep:ro").ok().text.strip()
    own = cove("exec", box, "--", "test", "-O", "/home/user/x").rc == 0
    cove("exec", *([] if own else ["-u", "root"]), box, "--", "sh", "-c",
         "cd /home/user && mv x y && mkdir x && ln -s . x/proj").ok()
    cove("stop", box).ok()
    if cove("start", box).rc == 0:
        for path in ("keep/f", ".git/hooks/pre-commit"):
            for top in ("/home/user/x", "/home/user/x/proj"):
                cove("exec", box, "--", "sh", "-c", f"echo evil > {top}/{path}")
    assert (work / "keep/f").read_text() == "x" and (work / ".git/hooks/pre-commit").read_text() == "x"


@pytest.mark.parametrize("place", ["/proc", "/dev/cove", "/sys"])
def test_a_mount_is_not_led_over_what_the_box_is_run_by(cove, work, inner_root, place):
    box = cove("create", "--mount", f"{work}:/srv/x/data").ok().text.strip()
    cove("exec", "-u", "root", box, "--", "sh", "-c",
         f"mv /srv/x /srv/y; mkdir -p /srv/x; ln -s {place} /srv/x/data").ok()
    cove("stop", box).ok()
    cove.fails("invalid", "start", box)
    assert not list(work.iterdir())
