"""Files in a host directory that boxes share: whose they are in every box and on the host."""
import os
import shutil
import subprocess

import pytest

from conftest import IS_ROOT, WALL, needs_base, needs_flag, needs_root, not_root, remove_tree

BOX_IDS = range(0x7fff0000, 0x80000000)  # src/storage/share.h
# Box A, as root and as another user inside.
WRITE = """set -e
mkdir -p d/e; echo 1 > d/e/f; echo 2 > g; ln -s g l; mkdir -m 700 closed; echo 3 > closed/f; chmod 600 g
echo 4 > other; chown 33:33 other; mkfifo pipe; ln g hard; chown 1000:1000 d"""
# Box B, as root.
CHANGE = """set -e
test "$(stat -c %u:%g g other d closed/f | tr '\\n' ' ')" = '0:0 33:33 1000:1000 0:0 '
echo more >> d/e/f; mv d/e/f d/e/h; echo more >> g; chmod 644 g; mv g g2; rm l hard; echo more >> closed/f
chown 33 g2; echo more >> other; rm pipe"""


@pytest.fixture
def work(tmp):
    (tmp / "work").mkdir()
    yield tmp / "work"
    remove_tree(tmp / "work")


def as_root(cove, work, script):
    return cove("run", "-u", "root", "--workspace", work, "--", "sh", "-c", script)


@needs_flag("SHARED_FIFOS")
def test_what_root_inside_wrote_is_the_next_boxs_too(cove, work, inner_root):
    as_root(cove, work, WRITE).ok()
    as_root(cove, work, CHANGE).ok()
    # The box's user: what it owns it may change, what is in its directories it may remove.
    got = cove("run", "--workspace", work, "--", "sh", "-c",
               "stat -c %u . d g2; rm -f g2 other; mv d/e d/e2 && rm -rf d/e2/x; echo mine > d/m; cat closed/f")
    assert got.text == "1000\n1000\n33\n" and "closed/f" in got.errors, got
    assert not (work / "g2").exists() and (work / "d/m").stat().st_uid == os.geteuid()
    as_root(cove, work, "rm -rf d closed && ls -A").ok()
    assert os.listdir(work) == []


@needs_root
def test_the_ids_on_the_host_are_the_reserved_ones(cove, work):
    os.chown(work, 12345, 54321)
    as_root(cove, work, WRITE).ok()
    assert (work / "g").stat().st_uid == BOX_IDS[0] and (work / "other").stat().st_gid == BOX_IDS[33]
    assert ((work / "d").stat().st_uid, (work / "d").stat().st_gid) == (12345, 54321)
    # A directory that itself belongs to such an id is its box's user's, and the way back still works.
    cove("run", "--workspace", work / "closed", "--", "sh", "-c", "echo more >> f; echo new > n").ok()
    as_root(cove, work / "closed", "echo root > r; rm n").ok()
    as_root(cove, work, "echo more >> closed/r; rm closed/r closed/f").ok()
    shutil.rmtree(work / "d")
    (work / "g").unlink()


@needs_root
def test_files_of_others_stay_theirs(cove, work):
    """Neither the box's user nor its root has rights over what the directory's owner has none over."""
    os.chown(work, 12345, 12345)
    for name, mode in (("secret", 0o600), ("readable", 0o644)):
        (work / name).write_text(name)
        (work / name).chmod(mode)
    (work / "shadow").write_text("shadow")
    (work / "shadow").chmod(0o640)
    os.chown(work / "shadow", 0, 42)
    script = ("stat -c %u:%g secret shadow; cat readable; echo; cat secret shadow; "
              "for f in *; do echo x > $f; chmod 777 $f; "
              "chown 1000 $f; rm -f $f; done; "
              "for g in 42 1000 0; do setpriv --regid $g --clear-groups cat shadow; done; ls")
    for user in ("root", "user") if os.environ.get("COVE_TEST_TAR") else ("root",):
        got = cove("run", "-u", user, "--workspace", work, "--", "sh", "-c", script)
        assert got.text.split() == ["65534:65534"] * 2 + ["readable"] * 2 + ["secret", "shadow"], got
    assert sorted(os.listdir(work)) == ["readable", "secret", "shadow"]
    for name in os.listdir(work):
        assert (work / name).read_text() == name and (work / name).stat().st_uid == 0


@needs_root
@needs_flag("SHARED_GROUPS")
def test_a_file_with_another_group_is_writable(cove, work):
    (work / "f").write_text("x")
    (work / "d").mkdir(mode=0o2775)
    (work / "d").chmod(0o2775)
    for name in ("f", "d"):
        os.chown(work / name, -1, 33)
    cove("run", "--workspace", work, "--", "sh", "-ec",
         "echo y > f; touch -d 2001-01-01 f; chmod 664 f; echo z > d/new; mv f d/f; cp d/f f; mkdir d/sub").ok()
    assert (work / "d/f").read_text() == "y\n" and (work / "d/f").stat().st_gid == 33
    assert (work / "d/new").stat().st_gid == 33 and (work / "d/sub").stat().st_gid == 33
    assert {p.stat().st_uid for p in work.rglob("*")} == {0}
    cove("run", "--workspace", work, "--", "rm", "-r", "d", "f").ok()


@not_root
@needs_flag("SHARED_GROUPS")
def test_a_file_with_another_group_of_the_callers(cove, work):
    """Without id-mapped mounts a group that is not mapped is left as it is; the owner still writes."""
    (work / "f").write_text("x")
    others = [g for g in os.getgroups() if g != os.getgid()]
    if others:
        os.chown(work / "f", -1, others[0])
    cove("run", "--workspace", work, "--", "sh", "-ec", "echo y > f; mv f g; rm g").ok()


@needs_base
def test_git_in_a_shared_directory(cove, work):
    line = ("git init -q . 2>/dev/null; git config user.email a@b; git config user.name n; echo x > f; git add f; "
            "git commit -qm m")
    if shutil.which("git"):
        subprocess.run(["sh", "-ec", line], cwd=work, check=True, env={**os.environ, "HOME": str(work.parent)})
    else:
        cove("run", "--workspace", work, "--", "sh", "-ec", line).ok()
    got = cove("run", "--workspace", work, "--", "sh", "-ec", "git status --short; git log --format=%s; echo y > g; "
               "git add g; git commit -qm second; git log --format=%s").ok()
    assert got.text == "m\nsecond\nm\n" and got.err == b""


# ---- what makes the host run something ----

GUARDED = {".git/hooks/pre-commit": "#!/bin/sh\n", ".git/config": "[core]\n", ".vscode/tasks.json": "{}",
           ".envrc": "true\n", ".claude/settings.json": "{}", ".mcp.json": "{}"}
PINNED = [".git/hooks", ".git/config", ".vscode", ".envrc", ".claude", ".mcp.json"]
ATTACKS = ["echo evil > .git/hooks/pre-commit", "echo evil > .git/hooks/post-checkout", "echo evil >> .git/config",
           "mv .git .git2", "mv .git/hooks .git/old", "rm -rf .git", "rm -f .envrc", "echo evil > new && mv new .envrc",
           "rm -rf .vscode", "mv .claude c", "ln .envrc e2 && echo evil > e2", "chmod 777 .mcp.json", "touch .mcp.json",
           "umount .git/hooks && echo evil > .git/hooks/pre-commit", "umount -l .git", "mount -o remount,rw .vscode",
           "mount --bind /tmp .git/hooks", "mount -t tmpfs x .claude"]


def make_guarded(work):
    for name, text in GUARDED.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)


@pytest.mark.parametrize("user", ["user", "root"])
def test_what_the_host_runs_is_read_only_inside(cove, work, user):
    make_guarded(work)
    (work / ".idea").symlink_to("/etc")
    names = sorted(p.relative_to(work) for p in work.rglob("*"))
    box = cove("create", "--workspace", work).ok().text.strip()
    assert cove.inspect(box)["pinned"] == [f"/workspace/{name}" for name in PINNED]
    for line in ATTACKS:
        result = cove("exec", "-u", user, "-w", "/workspace", box, "--", "sh", "-c", line)
        if "no user" in result.err.decode() or "only one user" in result.err.decode():
            pytest.skip("there is no root inside")
        # gVisor answers success for these two and does nothing.
        assert result.rc != 0 or (WALL == "gvisor" and line.startswith(("chmod", "touch"))), line
    for name, text in GUARDED.items():
        assert (work / name).read_text() == text and not (work / name).stat().st_mode & 0o002
    # The rest of the directory, and of .git, is as writable as ever.
    cove("exec", "-w", "/workspace", box, "--", "sh", "-ec", "rm -f new e2; echo x > f; echo x > .git/HEAD; "
         "mkdir .git/objects; cat .git/hooks/pre-commit .envrc; rm f .git/HEAD; rmdir .git/objects").ok()
    assert sorted(p.relative_to(work) for p in work.rglob("*")) == names


def test_trust_dir_and_other_mounts(cove, work, tmp):
    make_guarded(work)
    cove("run", "--trust-dir", "--workspace", work, "--", "sh", "-ec", "echo y > .envrc; mv .git g; mv g .git").ok()
    assert (work / ".envrc").read_text() == "y\n"
    assert cove("run", "--mount", f"{work}:/m", "--", "sh", "-c", "echo z > /m/.envrc").rc != 0
    assert cove("run", "--mount", f"{work}:/m", "--", "sh", "-c", "mv /m/.git /m/g").rc != 0
    assert (work / ".envrc").read_text() == "y\n"
    plain = tmp / "plain"
    plain.mkdir()
    (plain / ".git").write_text("gitdir: /elsewhere\n")
    (plain / ".vscode").symlink_to(tmp)
    box = cove("create", "--workspace", plain).ok().text.strip()
    assert cove.inspect(box)["pinned"] == ["/workspace/.git"]
    assert cove("exec", box, "--", "sh", "-c", "echo x > /workspace/.git").rc != 0


# ---- giving them back ----

def chown(cove, *dirs):
    return cove("workspace", "chown", "--json", *dirs).ok().json


def test_files_are_given_back(cove, work, tmp, inner_root):
    (tmp / "outside").write_text("x")
    as_root(cove, work, WRITE + f"; ln -s {tmp}/outside out; ln -s / top").ok()
    mine = (os.geteuid(), os.getegid())
    if not IS_ROOT:  # root may remove anything, anyone else says this first
        with pytest.raises(PermissionError):
            (work / "d/e/f").unlink()
        box = cove("create", "--workspace", work).ok().text.strip()
        for source in (work, work / "closed"):
            assert "cove workspace chown" in cove.fails("denied", "cp", source, f"{box}:/tmp/copy")
        assert "cove workspace chown" in cove.fails("denied", "create", "--workspace", work / "closed")
    first = chown(cove, work)
    assert first["changed"] >= 8 and first["directory"] == str(work)
    for path in [work, *work.rglob("*")]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == mine, path
    assert chown(cove, f"{work}/")["changed"] == 0
    note = cove("workspace", "chown", work, work / "d").ok()
    assert note.out == b"" and note.errors.count("0 files") == 2
    assert (work / "closed/f").read_text() == "3\n" and (work / "closed").stat().st_mode & 0o777 == 0o700
    shutil.rmtree(work)
    work.mkdir()


def test_a_directory_that_belongs_to_a_box_itself(cove, work, inner_root):
    as_root(cove, work, "mkdir -m 700 p; echo x > p/f").ok()
    assert chown(cove, work / "p")["changed"] == 2
    assert (work / "p/f").read_text() == "x\n" and (work / "p").stat().st_uid == os.geteuid()


@needs_root
def test_root_gives_them_to_the_directorys_owner(cove, work):
    """Also what boxes of earlier versions left, with ids of a range that is gone."""
    os.chown(work, 12345, 54321)
    for name, uid in (("old", 0x70120000), ("new", BOX_IDS[0]), ("roots", 0), ("mine", 12345)):
        (work / name).write_text(name)
        os.chown(work / name, uid, uid)
    as_root(cove, work, "echo x > old").refused(rc=2)
    assert chown(cove, work)["changed"] == 2
    assert [(work / n).stat().st_uid for n in ("old", "new", "roots", "mine")] == [12345, 12345, 0, 12345]
    as_root(cove, work, "echo x > old; rm new").ok()


@not_root
@needs_flag("SHARED_GROUPS")
def test_a_file_in_a_directory_of_another_group_is_given_back(cove, work, inner_root):
    """Its group is not the box's, so that its root may not; its owner may."""
    others = [g for g in os.getgroups() if g != os.getgid()]
    if not others:
        pytest.skip("this user is in one group only")
    os.chown(work, -1, others[0])
    work.chmod(0o2777)
    as_root(cove, work, "umask 077; echo x > f").ok()
    assert (work / "f").stat().st_gid == others[0]
    assert chown(cove, work)["changed"] == 1
    assert (work / "f").stat().st_uid == os.geteuid() and (work / "f").read_text() == "x\n"


def test_what_chown_refuses(cove, work):
    (work / "f").write_text("x")
    (work / "link").symlink_to(work)
    for path, kind in ((work / "f", "invalid"), (work / "link", "invalid"), (work / "missing", "not_found"),
                       ("", "invalid"), (cove.home, "denied"), (f"{cove.home}/workspaces", "denied"), ("/", "denied")):
        cove.fails(kind, "workspace", "chown", path)
    cove.fails("invalid", "workspace", "chown")
    # One that fails does not keep the others.
    got = cove("workspace", "chown", "--json", work / "missing", work)
    assert got.rc != 0 and b'"changed":0' in got.out.replace(b" ", b"")
