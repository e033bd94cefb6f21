"""cove merge: what a box changed on its copy of a host directory comes back, reviewed, whole or not at all."""
import os
import shutil
import signal
import stat
import subprocess

import pytest

from conftest import IS_ROOT, needs_root, remove_tree, wait_until


needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


@pytest.fixture
def work(tmp):
    """A small repository, old enough that its times are before those of a box's copy."""
    top = tmp / "work"
    (top / "src").mkdir(parents=True)
    (top / ".git/hooks").mkdir(parents=True)
    (top / "a.txt").write_text("one\ntwo\n")
    (top / "src/b.c").write_text("int b;\n")
    (top / "src/c.c").write_text("int c;\n")
    (top / "link").symlink_to("a.txt")
    (top / ".git/config").write_text("[core]\n")
    yield top
    remove_tree(top)


def make(cove, work, script, stop=True):
    name = cove("create", "--workspace", work, "--copy").ok().text.strip()
    cove("exec", name, "--", "sh", "-c", script).ok()
    if stop:
        cove("stop", name).ok()
    return name


def tree(top):
    """Every path with its type and content."""
    seen = {}
    for base, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(base, name)
            st = os.lstat(path)
            what = "dir" if stat.S_ISDIR(st.st_mode) else "link " + os.readlink(path) if stat.S_ISLNK(st.st_mode) \
                else open(path, "rb").read().decode("latin1") if stat.S_ISREG(st.st_mode) else "other"
            seen[os.path.relpath(path, top)] = what
    return seen


CHANGE = """set -e
echo three >> a.txt; rm -r src; mkdir -p new/deep; echo x > new/deep/f; chmod 755 new/deep/f; ln -sf new/deep/f link
mkdir dir; touch dir/empty"""
CHANGES = ["M /workspace/a.txt", "A /workspace/dir", "A /workspace/dir/empty", "M /workspace/link", "A /workspace/new",
           "A /workspace/new/deep", "A /workspace/new/deep/f", "D /workspace/src", "D /workspace/src/b.c",
           "D /workspace/src/c.c"]
CHANGED = {"a.txt": "one\ntwo\nthree\n", "dir": "dir", "dir/empty": "", "link": "link new/deep/f", "new": "dir",
           "new/deep": "dir", "new/deep/f": "x\n", ".git": "dir", ".git/config": "[core]\n", ".git/hooks": "dir"}


def test_all_of_it(cove, work):
    name, before = make(cove, work, CHANGE), tree(work)
    assert cove("merge", "--dry-run", name).ok().text.splitlines() == CHANGES
    assert tree(work) == before
    assert cove("merge", name).ok().text.splitlines() == CHANGES
    assert tree(work) == CHANGED
    file = work / "new/deep/f"
    assert file.stat().st_uid == os.geteuid() and stat.S_IMODE(file.stat().st_mode) == 0o755
    assert cove("diff", "--workspace", name).ok().text == ""
    assert cove("merge", name).ok().text == ""


def test_names_of_one_file_stay_names_of_one_file(cove, work):
    name = make(cove, work, "head -c 3M /dev/urandom >big; truncate -s 4M big; mkdir .vscode; ln big .vscode/a; for i "
                            "in $(seq 40); do ln big big-$i; done; chmod 640 big; echo y >src/b.c; ln src/b.c other")
    got = cove("merge", name).ok()
    assert ".vscode/a" in got.errors and "big-40" in got.text
    big = (work / "big").stat()
    assert big.st_nlink == 41 and big.st_size == 4 << 20 and big.st_mode & 0o777 == 0o640
    assert (work / "big-7").stat().st_ino == big.st_ino and (work / "other").samefile(work / "src/b.c")
    assert (work / "other").read_text() == "y\n" and not (work / ".vscode").joinpath("a").exists()
    assert cove("diff", "--workspace", name).rc in (0, 1) and cove("merge", name).ok().text == ""


def stages(work):
    return [x for x in os.listdir(work) if x.startswith(".cove-merge-")]


def interrupt(cove, work, name, sig):
    """A merge that was asked to end while it brought files."""
    merge = cove.start("merge", name)
    wait_until(lambda: stages(work) or merge.poll() is not None)
    merge.send_signal(sig)
    return merge.wait(timeout=60)


def test_an_interrupted_merge_leaves_nothing(cove, work):
    name, before = make(cove, work, "head -c 600M /dev/zero | tr '\\0' x >big"), tree(work)
    assert interrupt(cove, work, name, signal.SIGTERM) == 128 + signal.SIGTERM
    assert stages(work) == [] and tree(work) == before
    assert interrupt(cove, work, name, signal.SIGKILL) == -signal.SIGKILL
    assert len(stages(work)) == 1
    cove("rm", "-f", name).ok()
    assert stages(work) == [] and tree(work) == before


def test_some_paths(cove, work):
    name = make(cove, work, CHANGE)
    told = cove("merge", "--json", name, "/workspace/new/deep/f", "/workspace/src/b.c").ok().json
    assert (told["taken"], told["done"], told["conflicts"]) == (2, True, 0)
    assert (work / "new/deep/f").read_text() == "x\n" and not (work / "src/b.c").exists()
    assert (work / "src/c.c").exists() and (work / "a.txt").read_text() == "one\ntwo\n"
    cove.fails("invalid", "merge", name, "/etc/passwd")


def test_again_and_again(cove, work):
    """What was merged is no conflict of the next merge."""
    name = make(cove, work, "echo three >> a.txt; echo n > new")
    cove("merge", name).ok()
    cove("start", name).ok()
    cove("exec", name, "--", "sh", "-c", "echo four >> a.txt; rm new; echo m > more").ok()
    cove("stop", name).ok()
    assert cove("merge", name).ok().text == "M /workspace/a.txt\nA /workspace/more\nD /workspace/new\n"
    assert (work / "a.txt").read_text() == "one\ntwo\nthree\nfour\n" and not (work / "new").exists()


@pytest.mark.parametrize("stop", [True, False])
def test_what_only_the_host_changed_since_a_merge_is_the_hosts(cove, work, stop):
    """Merge, edit, let the box go on, merge: what the box left alone is in no conflict, and no edit is undone."""
    if not stop and not IS_ROOT:
        pytest.skip("without a cgroup of its own there is no freezing")

    def go_on(script):
        if stop:
            cove("start", name).ok()
        cove("exec", name, "--", "sh", "-c", script).ok()
        if stop:
            cove("stop", name).ok()

    name = make(cove, work, "echo box >> a.txt; echo n > new; ln -s new l; chmod 755 src/c.c; rm link src/b.c; "
                            "mkdir d; echo x > d/x", stop=stop)
    cove("merge", name).ok()
    (work / "a.txt").write_text("host\n")
    (work / "src/b.c").write_text("host\n")
    (work / "link").mkdir()
    (work / "link/deep").write_text("host\n")
    os.chmod(work / "src/c.c", 0o600)
    for path in ("new", "l", "d/x"):
        (work / path).unlink()
    (work / "d").rmdir()
    mine = tree(work)
    for flags in ([], ["--theirs"]):
        go_on("echo more >> more")
        done = cove("merge", *flags, name).ok()
        assert done.text == f"{'M' if flags else 'A'} /workspace/more\n", done
        assert {k: v for k, v in tree(work).items() if k != "more"} == mine
        assert "left out: /workspace/a.txt (only the host changed it" in done.errors
    assert stat.S_IMODE((work / "src/c.c").stat().st_mode) == 0o600
    # What both changed since is a conflict still, and what is new in a directory comes with it.
    go_on("echo again >> a.txt; echo y > d/y; echo box > link")
    told = cove("merge", "--json", "--dry-run", name).json["changes"]
    assert {c["path"] for c in told if c["state"] == "conflict"} == \
        {"/workspace/a.txt", "/workspace/link", "/workspace/link/deep"}
    cove("merge", name, "/workspace/d").ok()
    assert os.listdir(work / "d") == ["y"]
    cove("merge", "--theirs", name, "/workspace/a.txt").ok()
    assert (work / "a.txt").read_text() == "one\ntwo\nbox\nagain\n"


def test_conflicts_are_named_and_nothing_is_done(cove, work):
    name = make(cove, work, "echo box >> a.txt; rm src/b.c; echo new > n; echo box > added; echo x >> src/c.c")
    (work / "a.txt").write_text("mine\n")
    (work / "src/b.c").write_text("mine\n")
    (work / "added").write_text("mine\n")
    before = tree(work)
    done = cove("merge", name)
    assert done.rc == 1 and done.text == "" and tree(work) == before
    for path in ("a.txt", "src/b.c", "added"):
        assert f"conflict: /workspace/{path} " in done.errors
    told = cove("merge", "--json", "--dry-run", name)
    assert told.rc == 1 and told.json["conflicts"] == 3 and told.json["taken"] == 2
    # Paths choose; then each way.
    cove("merge", name, "/workspace/n").ok()
    assert (work / "n").read_text() == "new\n" and (work / "a.txt").read_text() == "mine\n"
    cove("merge", "--ours", name).ok()
    assert (work / "a.txt").read_text() == "mine\n" and (work / "src/c.c").read_text() == "int c;\nx\n"
    cove("merge", "--theirs", name).ok()
    assert (work / "a.txt").read_text() == "one\ntwo\nbox\n" and (work / "added").read_text() == "box\n"
    assert not (work / "src/b.c").exists()


@pytest.fixture
def aged(work):
    """Directories beside those of the work, whose files are older than any box."""
    for name in ("thesis", "notes"):
        (work / name).mkdir()
        (work / name / "b.c").write_text(f"{name}\n")
    return work


def swap(work, old, new):
    shutil.rmtree(work / old)
    (work / new).rename(work / old)


@pytest.mark.parametrize("script", ["rm -r src", "rm -r src; echo x > src", "rm -r src; mkdir src; echo x > src/new",
                                    "echo x > t; mv t src/b.c", "rm src/b.c"])
def test_a_directory_that_was_moved_there_on_the_host(cove, aged, script):
    """Its files are as old as ever, and the box never saw them."""
    name = make(cove, aged, script)
    swap(aged, "src", "thesis")
    before = tree(aged)
    for paths in ([], ["/workspace/src/b.c"]):
        assert cove("merge", name, *paths).rc == 1 and tree(aged) == before
    assert "conflict: /workspace/src" in cove("merge", "--dry-run", name).errors
    cove("merge", "--ours", name).ok()
    assert (aged / "src/b.c").read_text() == "thesis\n"
    swap(aged, "src", "notes")  # once more, after a merge of that directory
    cove("merge", "--ours", name).ok()
    assert (aged / "src/b.c").read_text() == "notes\n"
    cove("merge", "--theirs", name).ok()
    assert "notes" not in tree(aged).get("src/b.c", "")


def test_what_merges_did_in_a_directory_is_no_change_of_the_hosts(cove, work):
    name = make(cove, work, "rm src/b.c; echo n > src/n; chmod 700 src")
    cove("merge", name).ok()
    (work / "src/mine").write_text("mine\n")
    cove("start", name).ok()
    cove("exec", name, "--", "sh", "-c", "echo x > t; mv t src/c.c").ok()
    cove("stop", name).ok()
    assert cove("merge", name).ok().text == "M /workspace/src/c.c\n"
    (work / "src/mine").unlink()
    name = make(cove, work, "rm src/n")
    cove("merge", name).ok()
    cove("start", name).ok()
    cove("exec", name, "--", "rm", "-r", "src").ok()
    cove("stop", name).ok()
    cove("merge", name).ok()
    assert not (work / "src").exists()


def test_what_is_in_a_directory_that_is_left_out_is_left_out(cove, work):
    (work / "HEAD").write_text("head\n")
    (work / "z").write_text("z\n")
    name = make(cove, work, "rm HEAD; mkdir HEAD tools tools/HEAD; echo x | tee HEAD/x tools/HEAD/x; echo box > z")
    assert cove("merge", name).ok().text == "A /workspace/tools\nM /workspace/z\n"
    assert (work / "HEAD").read_text() == "head\n" and (work / "z").read_text() == "box\n"
    assert os.listdir(work / "tools") == [] and stages(work) == []
    cove("merge", "--trust-dir", name).ok()
    assert (work / "HEAD/x").read_text() == "x\n"


def test_what_is_beside_a_path_that_is_too_long_comes(cove, work):
    name = make(cove, work, "n=$(head -c 200 /dev/zero | tr '\\0' x); mkdir t; cd t; for i in $(seq 20); do mkdir $n; "
                            "cd $n; done; mkdir $(head -c 255 /dev/zero | tr '\\0' a); echo b > beside")
    assert "too long" in cove("merge", name).ok().errors
    assert subprocess.run(["find", "t", "-name", "beside"], cwd=work, capture_output=True).stdout.count(b"beside") == 1


def test_a_path_whose_directory_is_something_else_on_the_host(cove, work):
    (work / "n").write_text("mine\n")
    name = make(cove, work, "rm n; mkdir n; echo x > n/x; echo z > z")
    for flags in ([], ["--theirs"]):
        done = cove("merge", *flags, name, "/workspace/n/x", "/workspace/z")
        assert done.rc == 1 and "conflict: /workspace/n/x " in done.errors and not (work / "z").exists()
    assert cove("merge", "--ours", name, "/workspace/n/x", "/workspace/z").ok().text == "A /workspace/z\n"
    assert (work / "n").read_text() == "mine\n"
    cove("merge", name).ok()
    assert (work / "n/x").read_text() == "x\n" and stages(work) == []


@pytest.mark.parametrize("way, stays", [([], "y"), (["s"], "s/y")])
def test_a_file_that_the_host_made_a_directory(cove, work, way, stays):
    """What is deep in it does not change the directory itself, which is as old as ever."""
    (work / "aged").mkdir()
    for part in way:
        (work / "aged" / part).mkdir()
    (work / "f").write_text("f\n")
    name = make(cove, work, "echo box > f; echo z > z")
    (work / "f").unlink()
    (work / "aged").rename(work / "f")
    (work / "f" / stays).write_text("mine\n")
    for flags in ([], ["--ours"]):
        done = cove("merge", *flags, name)
        assert done.rc == (0 if flags else 1) and (work / "z").exists() == bool(flags), done
        assert (work / "f" / stays).read_text() == "mine\n" and stages(work) == []
    cove("merge", "--theirs", name).ok()
    assert (work / "f").read_text() == "box\n" and stages(work) == []


def test_a_directory_that_something_stays_in_becomes_no_file(cove, work):
    (work / "d/.vscode").mkdir(parents=True)
    (work / "d/.vscode/tasks.json").write_text("mine\n")
    name = make(cove, work, "rm -r d; echo x > d; echo z > z")
    before = tree(work)
    cove.fails("conflict", "merge", name)
    assert tree(work) == before and stages(work) == []
    cove("merge", name, "/workspace/z").ok()
    cove("merge", "--trust-dir", name).ok()
    assert (work / "d").read_text() == "x\n"


def test_the_same_change_on_both_sides_is_none(cove, work):
    name = make(cove, work, "echo three >> a.txt; rm src/b.c")
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / "src/b.c").unlink()
    assert cove("merge", name).ok().text == ""


def test_a_file_that_the_box_replaced_and_the_host_changed_before(cove, work):
    """Written anew, a file does not say when the box read the old one: what changed since the start is a conflict."""
    name = make(cove, work, "true", stop=False)
    (work / "a.txt").write_text("mine\n")
    cove("exec", name, "--", "sh", "-c", "echo box > t; mv t a.txt").ok()
    cove("stop", name).ok()
    assert cove("merge", name).rc == 1


def test_a_copy_of_another_file_that_took_its_place(cove, work):
    """The copy was made after the host's edit, but not of that file: the box never had the edit."""
    name = make(cove, work, "true", stop=False)
    (work / "a.txt").write_text("mine\n")
    (work / "src/b.c").write_text("mine\n")
    cove("exec", name, "--", "sh", "-c", "echo box >> src/c.c; mv src/c.c a.txt; echo box >> src/b.c").ok()
    cove("stop", name).ok()
    done = cove("merge", name)
    assert done.rc == 1 and "conflict: /workspace/a.txt " in done.errors
    assert (work / "a.txt").read_text() == "mine\n"
    cove("merge", name, "/workspace/src/b.c")  # a copy of the edit itself, where that can be shown
    assert (work / "src/b.c").read_text() in ("mine\n", "mine\nbox\n")


def test_what_makes_the_host_run_something_stays_behind(cove, work):
    name = make(cove, work, """set -e
echo evil > .git/hooks/pre-commit; echo evil >> .git/config; mkdir -p .vscode sub/.git/hooks .git/modules/m
echo evil > .vscode/tasks.json; echo evil > sub/.git/hooks/x; echo evil > .git/modules/m/config; echo evil > .envrc
echo evil > sub/.bashrc; ln -s /etc out; ln -s ../../x out2; ln -s src/../../y out3; ln -s src in; echo fine > fine
mkdir w; echo 'gitdir: /tmp/x' > w/.git; echo ref > .git/HEAD""")
    before = tree(work)
    told = cove("merge", name).ok()
    got = {k: v for k, v in tree(work).items() if k not in before}
    assert got == {"in": "link src", "fine": "fine\n", "w": "dir", "sub": "dir", "sub/.git": "dir",
                   ".git/HEAD": "ref\n", ".git/modules": "dir", ".git/modules/m": "dir"}
    assert tree(work)[".git/config"] == "[core]\n" and "left out: /workspace/.git/config " in told.errors
    cove("merge", "--trust-dir", name).ok()
    assert (work / ".git/hooks/pre-commit").read_text() == "evil\n" and os.readlink(work / "out") == "/etc"


def test_hostile_trees(cove, work, tmp):
    """Nothing outside the directory, nothing through a link, nothing that waits, no set-user-ID."""
    (tmp / "outside").mkdir()
    name = make(cove, work, r"""set -e
mkfifo fifo; cp /bin/true suid; chmod 6755 suid; truncate -s 1T holes; printf x > "$(printf 'a\nb\033[2J')"
rm -r src; ln -s ../outside src; mkdir -p d/e; echo x > d/e/f""")
    # The host puts a link where the box has a directory.
    (work / "d").symlink_to(tmp / "outside")
    done = cove("merge", "--trust-dir", name)
    assert done.rc == 1 and "conflict: /workspace/d/e" in done.errors and os.listdir(tmp / "outside") == []
    (work / "d").unlink()
    cove("merge", "--trust-dir", name).ok()
    assert os.listdir(tmp / "outside") == [] and (work / "d/e/f").read_text() == "x\n"
    assert stat.S_IMODE((work / "suid").stat().st_mode) == 0o755 and not (work / "fifo").exists()
    assert (work / "holes").stat().st_size == 1 << 40 and (work / "holes").stat().st_blocks < 100
    assert (work / "a\nb\x1b[2J").read_text() == "x"
    assert "\x1b" not in done.text + done.errors


REPOSITORY = r"""
mkdir -p $1/objects $1/refs; echo 'ref: refs/heads/master' > $1/HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch /tmp/%s; false"\n' \
    planted > $1/config"""


@needs_git
def test_no_repository_is_planted(cove, work, tmp):
    """Any directory with HEAD, objects and refs is one for git, whose settings are commands."""
    def git(*args, cwd=work):
        return subprocess.run(["git", *args], cwd=cwd, env={**os.environ, "HOME": str(tmp)}, capture_output=True)

    shutil.rmtree(work / ".git")
    assert git("init", "-q", ".").returncode == 0 and git("init", "-q", "--bare", "kept.git").returncode == 0
    settings = (work / "kept.git/config").read_text()
    name = make(cove, work, f"plant() {{ {REPOSITORY}\n}}; plant .; plant tools; rm .git/HEAD; "
                "echo evil >> kept.git/config; ln -s .git/config gc; ln -s ../.git/. tools/hk; "
                "echo fine > kept.git/description")
    told = cove("merge", "--json", name).ok().json["changes"]
    left = {c["path"] for c in told if c["state"] == "left_out"}
    assert left == {f"/workspace/{p}" for p in ("HEAD", "tools/HEAD", ".git/HEAD", "kept.git/config", "gc",
                                                "tools/hk")}
    assert (work / "kept.git/config").read_text() == settings and not (work / "tools/HEAD").exists()
    assert (work / "kept.git/description").read_text() == "fine\n"
    for place in (work, work / "tools"):
        done = git("-c", "safe.directory=*", "rev-parse", "--show-toplevel", cwd=place)
        assert done.stdout.decode().strip() == str(work)


def test_what_cannot_be_merged(cove, work):
    cove.fails("not_found", "merge", "nonesuch")
    name = cove("create", "--workspace", work).ok().text.strip()
    cove.fails("invalid", "merge", name)
    assert cove("merge", "--ours", "--theirs", name).rc == 2


def test_while_it_runs(cove, work):
    name = make(cove, work, "echo three >> a.txt", stop=False)
    done = cove("merge", name)
    if done.rc != 0:  # without a cgroup of its own there is no freezing
        assert not IS_ROOT and "stop it first" in done.errors
        return
    assert (work / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert cove("exec", name, "--", "cat", "a.txt").ok().text == "one\ntwo\nthree\n"


@pytest.mark.parametrize("paths", [[], ["/workspace/sub/d/a", "/workspace/sub/d/b"]])
def test_new_directories_while_it_runs(cove, work, paths):
    """The kernel knows of no directory below one that came while it was mounted: what goes from it would be lost."""
    name = make(cove, work, "mkdir -p sub/d; echo 1 > sub/d/a; echo 2 > sub/d/b; touch /dev/shm/up", stop=False)
    done = cove("merge", "--json", name, *paths)
    if done.rc != 0:
        assert not IS_ROOT and "stop it first" in done.errors
        return
    assert done.json["restarted"] is True and done.json["done"] is True
    assert done.json["taken"] == len(done.json["changes"]) == len(paths or "1234")
    assert (work / "sub/d/b").read_text() == "2\n" and stages(work) == []
    cove("exec", name, "--", "sh", "-c", "touch /dev/shm/again; test ! -e /dev/shm/up && cd sub/d && rm a && mv b c") \
        .ok()
    assert cove("merge", name).ok().text == "D /workspace/sub/d/a\nD /workspace/sub/d/b\nA /workspace/sub/d/c\n"
    assert os.listdir(work / "sub/d") == ["c"]
    cove("exec", name, "--", "ls", "/dev/shm/again").ok()  # nothing of that needed a stop
    assert any('"cove merge"' in line for line in cove("logs", "--json", name).ok().text.splitlines())


def test_a_conflict_stops_no_box(cove, work):
    name = make(cove, work, "mkdir d; echo box >> a.txt; touch /dev/shm/up", stop=False)
    (work / "a.txt").write_text("mine\n")
    (work / "src/c.c").write_text("mine\n")
    cove("exec", name, "--", "sh", "-c", "echo t > t; mv t src/c.c").ok()
    assert cove("merge", name).rc != 0 and cove("merge", "--dry-run", name).rc != 0
    cove("exec", name, "--", "ls", "/dev/shm/up").ok()
    assert not (work / "d").exists() and stages(work) == []


@needs_root
def test_files_are_the_directorys_owners(cove, work):
    for base, dirs, files in os.walk(work):
        for name in [".", *dirs, *files]:
            os.chown(os.path.join(base, name), 12345, 54321, follow_symlinks=False)
    name = make(cove, work, CHANGE)
    cove("merge", name).ok()
    for path in ("a.txt", "new", "new/deep/f", "link", "dir"):
        st = (work / path).lstat()
        assert (st.st_uid, st.st_gid) == (12345, 54321), path
