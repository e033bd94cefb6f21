"""A box that works on a copy of a host directory (--workspace DIR --copy): the directory is never written to."""
import hashlib
import os
import stat

import pytest

from conftest import IS_ROOT, lacks, needs_base, needs_flag, needs_root, remove_tree


@pytest.fixture
def work(tmp):
    """A small repository."""
    top = tmp / "work"
    (top / "src").mkdir(parents=True)
    (top / ".git/hooks").mkdir(parents=True)
    (top / "a.txt").write_text("one\ntwo\nthree\n")
    (top / "src/b.c").write_text("int b;\n")
    (top / "src/run").write_text("#!/bin/sh\n")
    (top / "src/run").chmod(0o755)
    (top / ".git/hooks/pre-commit").write_text("#!/bin/sh\nexit 0\n")
    (top / "link").symlink_to("a.txt")
    yield top
    remove_tree(top)


def fingerprint(top):
    """Every name with its kind, mode, owner, time and content."""
    seen = []
    for base, dirs, files in os.walk(top):
        for name in sorted(dirs + files):
            path = os.path.join(base, name)
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else ""
            if stat.S_ISREG(st.st_mode):
                what = hashlib.sha256(open(path, "rb").read()).hexdigest()
            seen.append((path, st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, what))
    return sorted(seen)


CHANGE = """set -e
test -O .
echo four >> a.txt; echo 'int c;' > src/c.c; rm src/b.c; mkdir -p new/deep; echo x > new/deep/f
chmod 700 src/run; ln -sf src/run link; echo evil > .git/hooks/pre-commit; mv src moved
cat a.txt; cd moved; printf "%s\\n" *"""


def test_changes_stay_in_the_box(cove, work):
    before = fingerprint(work)
    done = cove("run", "--workspace", work, "--copy", "--", "sh", "-c", CHANGE).ok()
    assert done.text == "one\ntwo\nthree\nfour\nc.c\nrun\n"
    assert fingerprint(work) == before


def test_they_outlive_a_stop(cove, work):
    name = cove("create", "--workspace", work, "--copy").ok().text.strip()
    cove("exec", name, "--", "sh", "-c", CHANGE).ok()
    before = fingerprint(work)
    cove("stop", name).ok()
    cove("start", name).ok()
    assert cove("exec", name, "--", "sh", "-c", "pwd; tail -n 1 a.txt; printf %s\\\\n *").ok().text == \
        "/workspace\nfour\na.txt\nlink\nmoved\nnew\n"
    assert fingerprint(work) == before
    told = cove("inspect", "--json", name).ok().json
    assert told["workspace_dir"] == str(work) and told["workspace_copy"] is True


def test_two_boxes_do_not_see_each_other(cove, work):
    names = [cove("create", "--workspace", work, "--copy").ok().text.strip() for _ in range(2)]
    cove("exec", names[0], "--", "sh", "-c", "echo mine > a.txt").ok()
    assert cove("exec", names[1], "--", "cat", "a.txt").ok().text == "one\ntwo\nthree\n"


def test_root_inside_reaches_no_host_file(cove, work, inner_root):
    before = fingerprint(work)
    cove("run", "-u", "root", "--workspace", work, "--copy", "--", "sh", "-c",
         "chmod -R 0777 . ; chown -R 0:0 .; cp /bin/sh src/sh; chmod 4755 src/sh; rm -rf .git").ok()
    assert fingerprint(work) == before


@needs_root
@needs_base
def test_it_is_counted(cove, work):
    """What the copy takes is the box's own disk."""
    done = cove("run", "--disk", "32M", "--workspace", work, "--copy", "--", "sh", "-c",
                "head -c 64M /dev/zero > big; du -m big | cut -f1")
    is_full = "No space left" in done.errors or "Disk quota exceeded" in done.errors  # the latter in a pool
    assert int(done.text or 32) < 33 and is_full, done
    assert not (work / "big").exists()


def test_what_goes_with_it(cove, work):
    assert cove("run", "--workspace", "named", "--copy", "--", "true").rc == 2
    assert cove("run", "--copy", "--", "true").rc == 2
    done = cove("run", "--workspace", work, "--copy", "--mount", "sub:/mnt", "--", "true")
    assert done.rc == 2 and not (work / "sub").exists()


def test_a_session_keeps_to_it(cove, work):
    cove("open", "s1", "--workspace", work, "--copy").ok()
    assert cove("open", "s1", "--workspace", work).rc != 0
    cove("open", "s1", "--workspace", work, "--copy").ok()


def test_no_fork_is_merged_into_it(cove, work):
    """Its disk would become a layer, in which the copy is not."""
    name = cove("create", "--workspace", work, "--copy").ok().text.strip()
    cove("exec", name, "--", "sh", "-c", "echo work > work").ok()
    cove("stop", name).ok()
    fork = cove("fork", name).ok().text.strip()
    cove("exec", fork, "--", "sh", "-c", "echo f > ~/f").ok()
    cove("stop", fork).ok()
    cove("start", name).ok()
    cove("exec", name, "--", "touch", "/dev/shm/up").ok()  # memory, which a stop empties
    for flags in (["--dry-run"], [], ["--theirs"]):
        cove.fails("unsupported", "merge", *flags, fork, name)
    assert cove("exec", name, "--", "cat", "/dev/shm/up", "work").ok().text == "work\n"


def test_snapshot_and_fork_say_what_is_not_in_them(cove, work):
    """Their /workspace begins with the directory as it is; what was not merged is only in the box."""
    name = cove("create", "--workspace", work, "--copy").ok().text.strip()
    cove("exec", name, "--", "sh", "-c", "echo mine >unmerged").ok()
    cove("stop", name).ok()
    said = cove("snapshot", "create", name, "of-copy").ok()
    assert "did not merge" in said.errors
    assert any("wrote to its copy" in line for line in cove("snapshot", "inspect", "of-copy").ok().json["not_included"])
    listed, = [s for s in cove("snapshot", "ls", "--json").ok().json if s["name"] == "of-copy"]
    assert listed["copy_left_out"] is True and listed["host_dirs"] == 0
    for source in (name, "of-copy"):
        said = cove("fork", source, "--name", "copied").ok()
        assert "not merged" in said.errors
        assert cove("exec", "copied", "--", "ls", "unmerged").rc != 0
        cove("rm", "-f", "copied").ok()
        made, = cove("fork", source, "--name", "copied", "--json").ok().json
        assert made["copy_left_out"] is True
        cove("rm", "-f", "copied").ok()
    cove("snapshot", "rm", "of-copy").ok()
    cove("rm", name).ok()


def test_a_fork_without_a_copy_says_nothing_of_it(cove):
    name = cove("create").ok().text.strip()
    made, = cove("fork", name, "--name", "plain", "--json").ok().json
    assert made["copy_left_out"] is False
    assert "merge" not in cove("snapshot", "create", name, "plain").ok().errors
    cove("snapshot", "rm", "plain").ok()
    cove("rm", "-f", name, "plain").ok()
