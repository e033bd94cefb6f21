"""cove merge FORK BOX: try several ways in forks, keep one."""
import json

import pytest

from conftest import lacks, needs_base
from test_snapshots import kept  # noqa: F401  a fixture


def sh(cove, box, script, user=None):
    return cove("exec", *(["-u", user] if user else []), box, "--", "sh", "-c", script).ok().text


def stat_of(cove, box, path):
    """Mode, uid, gid, size, blocks; stat(1) of an old runsc does not work."""
    return json.loads(sh(cove, box, f"python3 -c 'import os; s = os.lstat(\"{path}\"); "
                         "print([s.st_mode, s.st_uid, s.st_gid, s.st_size, s.st_blocks])'", user="root"))


@pytest.fixture
def box(cove):
    name = cove("create").ok().text.strip()
    sh(cove, name, "mkdir -p /tmp/p/d; cd /tmp/p; echo 1 > a; echo 1 > b; echo 1 > d/x; echo 1 > d/y")
    return name


def fork(cove, box, script, stop=True):
    if stop:  # where it cannot be frozen it cannot be forked while it runs
        cove("stop", box).ok()
    name = cove("fork", box).ok().text.strip()
    sh(cove, name, script)
    cove("stop", name).ok()
    return name


SHOW = "cd /tmp/p && find . -type f | sort | xargs grep -H ."


@needs_base
def test_what_a_fork_changed_comes_to_its_box(cove, box, inner_root):
    one = fork(cove, box, "cd /tmp/p; echo 2 >> a; rm b; rm -r d; mkdir n; echo new > n/f; ln -s n/f l; chmod 700 n")
    cove("start", box).ok()
    sh(cove, box, "echo mine > /tmp/p/mine")
    cove("stop", box).ok()
    changes = cove("merge", "--dry-run", one, box).ok().text
    assert changes.splitlines() == ["M /tmp/p/a", "D /tmp/p/b", "D /tmp/p/d", "D /tmp/p/d/x", "D /tmp/p/d/y",
                                    "A /tmp/p/l", "A /tmp/p/n", "A /tmp/p/n/f"]
    assert cove("merge", one, box).ok().text == changes
    assert cove("merge", one, box).ok().text == ""
    cove("start", box).ok()
    assert sh(cove, box, SHOW) == "./a:1\n./a:2\n./mine:mine\n./n/f:new\n"
    assert sh(cove, box, "cd /tmp/p; readlink l; test ! -e d && echo gone") == "n/f\ngone\n"
    assert stat_of(cove, box, "/tmp/p/n")[0] & 0o777 == 0o700
    sh(cove, box, "echo 3 >> /tmp/p/a; rm /tmp/p/n/f")  # it is a box as ever
    cove("stop", box).ok()
    assert cove("diff", box).ok().text == "M /tmp/p/a\nD /tmp/p/n/f\n"


def test_a_running_box_is_started_again(cove, box):
    one = fork(cove, box, "echo 2 >> /tmp/p/a")
    cove("start", box).ok()
    done = cove("merge", "--json", one, box)
    if done.rc != 0 and "frozen" in done.errors:
        pytest.skip("boxes cannot be frozen here")
    assert done.ok().json["restarted"] is True and done.json["done"] is True
    assert sh(cove, box, "cat /tmp/p/a") == "1\n2\n"
    ends = [e for e in map(str, cove("logs", "--json", box).text.splitlines()) if '"merge"' in e]
    assert ends, "the cause of its end is said"


def test_conflicts_are_named_and_nothing_is_done(cove, box):
    one = fork(cove, box, "cd /tmp/p; echo 2 >> a; rm -r d; echo fork > n")
    cove("start", box).ok()
    sh(cove, box, "cd /tmp/p; echo 3 >> a; echo more > d/z")
    cove("stop", box).ok()
    done = cove("merge", one, box)
    assert done.rc == 1 and "conflict: /tmp/p/a (both changed it)" in done.errors
    assert "conflict: /tmp/p/d (the other side has changes in it)" in done.errors
    assert cove("diff", box, "/tmp/p/n").ok().text == ""
    cove("merge", "--ours", one, box).ok()
    cove("start", box).ok()
    assert sh(cove, box, SHOW) == "./a:1\n./a:3\n./b:1\n./d/z:more\n./n:fork\n"
    cove("stop", box).ok()
    cove("merge", "--theirs", one, box).ok()
    cove("start", box).ok()
    assert sh(cove, box, SHOW) == "./a:1\n./a:2\n./b:1\n./n:fork\n"


def test_what_the_box_has_in_place_of_a_directory_of_the_forks(cove, box):
    one = fork(cove, box, "cd /tmp/p; mkdir -p n/d l; echo fork | tee n/x n/d/y l/x o; rm d/x")
    cove("start", box).ok()
    sh(cove, box, "cd /tmp/p; echo mine > n; ln -s d l")
    cove("stop", box).ok()
    for paths in ([], ["/tmp/p/n/x"], ["/tmp/p/n/d"], ["/tmp/p/l/x", "/tmp/p/o"]):
        done = cove("merge", one, box, *paths)
        assert done.rc == 1 and f"conflict: {paths[0] if paths else '/tmp/p/n'} " in done.errors
    assert cove("merge", "--ours", one, box, "/tmp/p/n/d/y", "/tmp/p/l/x").ok().text == ""
    assert cove("merge", "--ours", one, box).ok().text == "D /tmp/p/d/x\nA /tmp/p/o\n"
    cove("start", box).ok()
    assert sh(cove, box, SHOW) == "./a:1\n./b:1\n./d/y:1\n./n:mine\n./o:fork\n"
    assert sh(cove, box, "readlink /tmp/p/l") == "d\n"
    cove("stop", box).ok()
    assert "M /tmp/p/n\n" in cove("merge", "--theirs", one, box).ok().text
    cove("start", box).ok()
    assert sh(cove, box, SHOW) == "./a:1\n./b:1\n./d/y:1\n./l/x:fork\n./n/d/y:fork\n./n/x:fork\n./o:fork\n"


def test_one_of_three_and_parts_of_another(cove, box):
    one, two, three = (fork(cove, box, f"cd /tmp/p; echo {n} >> a; echo {n} > way{n}", stop=n == 1) for n in (1, 2, 3))
    assert cove("diff", one, two, "/tmp/p").ok().text == "M /tmp/p/a\nD /tmp/p/way1\nA /tmp/p/way2\n"
    cove("merge", two, box).ok()
    cove("merge", three, box, "/tmp/p/way3").ok()
    cove("rm", one, two, three).ok()
    cove("start", box).ok()
    assert sh(cove, box, SHOW) == "./a:1\n./a:2\n./b:1\n./d/x:1\n./d/y:1\n./way2:2\n./way3:3\n"


@needs_base
def test_owners_attributes_and_large_files(cove, box, inner_root):
    cove("stop", box).ok()
    one = cove("fork", box).ok().text.strip()
    sh(cove, one, "chown 33:33 /tmp/p/a; cp /bin/true /opt/t; chmod 4755 /opt/t; truncate -s 1G /opt/big;"
       "echo x >> /opt/big; mkfifo /opt/fifo; chmod 711 /srv; rm /etc/issue", user="root")
    cove("stop", one).ok()
    cove("merge", one, box).ok()
    cove("start", box).ok()
    assert stat_of(cove, box, "/tmp/p/a")[1:3] == [33, 33] and stat_of(cove, box, "/opt/t")[0] & 0o7777 == 0o4755
    assert stat_of(cove, box, "/opt/big")[3] == (1 << 30) + 2 and stat_of(cove, box, "/srv")[0] & 0o777 == 0o711
    assert lacks("HOLES") or stat_of(cove, box, "/opt/big")[4] < 1000
    assert sh(cove, box, "test ! -e /etc/issue && echo gone") == "gone\n"
    assert lacks("SHARED_FIFOS") or sh(cove, box, "test -p /opt/fifo && echo there") == "there\n"


def test_what_cannot_be_merged(cove, box):
    cove.fails("invalid", "merge", box, box)
    cove.fails("not_found", "merge", box, "nonesuch")
    cove.fails("invalid", "merge", "host", box)


# ---- named workspaces ----

@pytest.fixture
def shop(cove, kept):
    """A stopped box with files in a workspace of its own."""
    name = cove("create", "--workspace", "shop").ok().text.strip()
    sh(cove, name, "cd /workspace; mkdir d; echo 1 > a; echo 1 > b; echo 1 > d/x")
    cove("stop", name).ok()
    return name


def files(cove, box):
    cove("start", box).ok()
    shown = sh(cove, box, "cd /workspace && find . -type f | sort | xargs grep -H .")
    cove("stop", box).ok()
    return shown


def test_a_named_workspace_is_compared_and_merged(cove, shop):
    one = fork(cove, shop, "cd /workspace; echo 2 >> a; rm -r d; echo n > n; echo mine > ~/own", stop=False)
    there = cove("diff", "--workspace", one).ok().text
    assert there == "M /workspace/a\nD /workspace/d\nD /workspace/d/x\nA /workspace/n\n"
    assert cove("diff", one).ok().text == "A /home/user/own\n" + there
    assert cove("merge", one, shop).ok().text == "A /home/user/own\n" + there
    assert files(cove, shop) == "./a:1\n./a:2\n./b:1\n./n:n\n"
    cove("start", shop).ok()
    assert sh(cove, shop, "cat ~/own; touch /workspace/still-mine && echo yes") == "mine\nyes\n"


def test_a_workspace_that_was_empty_is_merged_too(cove, kept):
    cove("create", "--name", "one", "--workspace", "empty").ok()
    cove("stop", "one").ok()
    two = fork(cove, "one", "echo z > /workspace/z", stop=False)
    assert cove("diff", two).ok().text == "A /workspace/z\n"
    cove("snapshot", "create", two, "kept").ok()
    assert cove("diff", "kept", two).ok().text == ""
    three = cove("fork", "kept").ok().text.strip()
    assert sh(cove, three, "cat /workspace/z") == "z\n"
    cove("stop", three).ok()
    assert cove("merge", two, "one").ok().text == "A /workspace/z\n"
    assert files(cove, "one") == "./z:z\n"


def test_of_a_workspace_only_what_is_asked_for(cove, shop):
    one = fork(cove, shop, "cd /workspace; echo 2 >> a; echo n > n; echo mine > ~/own", stop=False)
    assert cove("merge", "--keep-workspace", one, shop).ok().text == "A /home/user/own\n"
    assert cove("merge", one, shop, "/workspace/n").ok().text == "A /workspace/n\n"
    assert files(cove, shop) == "./a:1\n./b:1\n./d/x:1\n./n:n\n"


def test_conflicts_in_a_workspace(cove, shop):
    one = fork(cove, shop, "cd /workspace; echo fork >> a; echo f > b", stop=False)
    cove("start", shop).ok()
    sh(cove, shop, "cd /workspace; echo box >> a")
    cove("stop", shop).ok()
    done = cove("merge", "--json", one, shop)
    assert done.rc == 1 and [c["path"] for c in done.json["changes"] if c["state"] == "conflict"] == ["/workspace/a"]
    assert files(cove, shop) == "./a:1\n./a:box\n./b:1\n./d/x:1\n"
    cove("merge", "--ours", one, shop).ok()
    assert files(cove, shop) == "./a:1\n./a:box\n./b:f\n./d/x:1\n"


def test_a_workspace_that_another_box_has_is_not_merged_into(cove, shop):
    one = fork(cove, shop, "echo 2 >> /workspace/a; echo mine > ~/own", stop=False)
    cove("create", "--workspace", "shop", "--name", "other").ok()
    cove("stop", "other").ok()
    cove.fails("conflict", "merge", one, shop)
    assert cove("merge", "--keep-workspace", one, shop).ok().text == "A /home/user/own\n"
    cove("rm", "other").ok()
    assert cove("merge", one, shop).ok().text == "M /workspace/a\n"


def test_a_workspace_without_a_beginning_is_said_to_be_left_out(cove, shop):
    other = cove("create", "--workspace", "else").ok().text.strip()
    sh(cove, other, "echo 1 > /workspace/q; echo mine > ~/own")
    cove("stop", other).ok()
    assert "workspace" in cove("diff", other).ok().errors
    cove.fails("invalid", "diff", "--workspace", other)
    done = cove("merge", "--json", other, shop).ok().json
    assert [(c["path"], c["state"]) for c in done["changes"]] == [
        ("/workspace", "left_out"), ("/home/user/own", "taken")]


def test_a_workspace_is_compared_with_snapshots_of_it(cove, shop):
    cove("snapshot", "create", shop, "before").ok()
    cove("start", shop).ok()
    sh(cove, shop, "cd /workspace; echo 2 >> a; rm b")
    cove("stop", shop).ok()
    assert cove("diff", "before", shop).ok().text == "M /workspace/a\nD /workspace/b\n"
    assert cove("diff", shop, "before", "/workspace/b").ok().text == "A /workspace/b\n"


def layers_bytes(cove):
    return next(row["bytes"] for row in cove("system", "df", "--json").ok().json if row["what"] == "layers")


@needs_base
def test_names_of_one_file_stay_names_of_one_file(cove, box):
    """Written one by one they would take many times what the fork's disk holds."""
    one = fork(cove, box, "cd /tmp/p; head -c 4194304 /dev/urandom > big; mkdir q; "
               "for i in $(seq 30); do ln big q/$i; done")
    before = layers_bytes(cove)
    cove("merge", one, box).ok()
    assert layers_bytes(cove) - before < 8 << 20
    cove("start", box).ok()
    assert sh(cove, box, "cd /tmp/p; cat q/* | wc -c; cmp big q/30 && echo same") == f"{30 << 22}\nsame\n"
