"""Forks: boxes that begin where another is, and share nothing with it that they may not."""
import os
import signal

import pytest

from conftest import needs_base, wait_until
from test_snapshots import kept, take  # noqa: F401  a fixture

NO_FREEZE = ["--no-freeze"]
CHAIN_MAX = 16  # layers of snapshots above an image


def test_of_a_box_and_of_a_snapshot(cove, kept, box):
    cove.sh(box, "echo one > ~/a")
    name = cove("fork", box, *NO_FREEZE).ok().text.strip()
    assert name.startswith(box[:50]) and cove.inspect(name)["state"] == "running"
    assert cove.sh(name, "cat ~/a; hostname; echo theirs > ~/a")["stdout"] == f"one\n{name}\n"
    assert cove.sh(box, "cat ~/a; echo two > ~/a")["stdout"] == "one\n"
    take(cove, box, "s1")
    cove("fork", "s1", "--name", "two").ok()
    assert cove.sh("two", "cat ~/a")["stdout"] == "two\n"
    cove("fork", "snapshot:s1", "--name", "three").ok()
    cove("fork", f"box:{name}", "--name", "four", *NO_FREEZE).ok()
    assert cove.sh("four", "cat ~/a")["stdout"] == "theirs\n"
    assert cove("snapshot", "ls", "-q").ok().text == "s1\n"


def test_errors(cove, kept, box):
    cove.fails("not_found", "fork", "nobody")
    cove.fails("exists", "fork", box, "--name", box, *NO_FREEZE)
    cove.fails("invalid", "fork", box, "--name", "A", *NO_FREEZE)
    cove.fails("invalid", "fork", box, "--name", "a", "--count", "2", *NO_FREEZE)
    before = set(cove.names())
    cove("create", "--name", "p-2").ok()
    cove.fails("exists", "fork", box, "--count", "3", "--prefix", "p", *NO_FREEZE)
    assert set(cove.names()) == before | {"p-2"}
    assert not os.listdir(cove.home + "/snapshots")


def test_many(cove, kept, box):
    cove.sh(box, "echo one > ~/a")
    names = cove("fork", box, "--count", "3", "--prefix", "try", *NO_FREEZE).ok().text.split()
    assert names == ["try-1", "try-2", "try-3"]
    for name in names:
        assert cove.sh(name, f"cat ~/a; echo {name} > ~/a")["stdout"] == "one\n"
    assert cove.sh("try-1", "cat ~/a")["stdout"] == "try-1\n"
    # They stay when what they came from is gone.
    cove("rm", "-f", box).ok()
    assert cove.sh("try-3", "cat ~/a")["stdout"] == "try-3\n"
    cove("stop", "try-2").ok()
    cove("start", "try-2").ok()
    assert cove.sh("try-2", "cat ~/a")["stdout"] == "try-2\n"


def test_what_is_taken_over(cove, kept, tmp):
    (tmp / "f").write_text("host")
    cove("create", "--name", "dev", "--mem", "256M", "--best-effort", "-e", "MINE=1", "--label", "team=a", "--net",
         "closed", "--mount", f"{tmp}:/m:ro", "--ttl", "1h").ok()
    take(cove, "dev", "s1")
    cove("fork", "s1", "--name", "f").ok()
    mine, theirs = cove.inspect("dev"), cove.inspect("f")
    for key in ("image", "wall", "mounts", "env", "labels", "limits", "persistence", "user", "cwd"):
        assert mine[key] == theirs[key], key
    assert cove.sh("f", "echo $MINE; cat /m/f")["stdout"] == "1\nhost"


def test_interrupted_none_is_left(cove, kept, box):
    cove("stop", box).ok()
    child = cove.start("fork", box, "--count", "30", "--prefix", "many", start_new_session=True)
    wait_until(lambda: "many-2" in cove.names())
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(60) == 130
    assert [n for n in cove.names() if n.startswith("many")] == []
    assert os.listdir(cove.home + "/snapshots") == []


def test_never_the_session(cove, kept):
    cove("open", "task-1", "--prefix", "s", "--persistence", "box").ok()
    name = next(n for n in cove.names() if n.startswith("s-"))
    cove.sh(name, "echo one > ~/a; echo two > /workspace/b")
    cove("fork", name, "--name", "f", *NO_FREEZE).ok()
    info = cove.inspect("f")
    assert info["session"] is None and info["workspace"] == "f"
    assert cove.sh("f", "cat ~/a /workspace/b")["stdout"] == "one\ntwo\n"


def test_its_own_workspace(cove, kept):
    cove("create", "--name", "dev", "--workspace", "sp").ok()
    cove.sh("dev", "cd /workspace; echo one > a; mkdir -p d/e; echo x > d/e/x")
    cove("fork", "dev", "--name", "f", *NO_FREEZE).ok()
    got = cove.sh("f", "cd /workspace; cat a d/e/x; echo theirs > a; rm -r d; touch n; mv a b; echo *")
    assert got["stdout"] == "one\nx\nb n\n"
    assert cove.sh("dev", "cd /workspace; cat a d/e/x; echo *")["stdout"] == "one\nx\na d\n"
    cove("stop", "f").ok()
    cove("start", "f").ok()
    assert cove.sh("f", "cd /workspace; cat b; echo *")["stdout"] == "theirs\nb n\n"
    # A fork of the fork.
    cove("fork", "f", "--name", "g", *NO_FREEZE).ok()
    assert cove.sh("g", "cd /workspace; cat b; echo *")["stdout"] == "theirs\nb n\n"
    cove.fails("conflict", "workspace", "rm", "f")
    cove("rm", "-f", "g", "f", "dev").ok()
    cove("workspace", "rm", "g", "f", "sp").ok()


def test_rolling_a_fork_back_leaves_the_workspace_of_its_origin(cove, kept):
    cove("create", "--name", "dev", "--workspace", "code").ok()
    cove.sh("dev", "echo one > /workspace/a")
    cove("stop", "dev").ok()
    cove("snapshot", "create", "dev", "s1").ok()
    cove("start", "dev").ok()
    cove.sh("dev", "echo precious > /workspace/later")
    cove("fork", "s1", "--name", "try").ok()
    cove.sh("try", "echo x > /workspace/x")
    cove("rollback", "try", "s1").ok()
    assert cove.sh("try", "ls /workspace")["stdout"] == "a\n"
    cove("stop", "dev").ok()
    cove("start", "dev").ok()
    assert cove.sh("dev", "ls /workspace")["stdout"] == "a\nlater\n"


def test_one_that_never_ran_takes_its_workspace_along(cove, kept):
    """As after a fork that was killed between making the box and starting it."""
    cove("create", "--name", "dev", "--workspace", "sp").ok()
    cove.sh("dev", "echo one > /workspace/a")
    take(cove, "dev", "s1")
    for _ in range(2):
        cove("fork", "s1", "--name", "f").ok()
        cove("stop", "f").ok()
        with open(f"{cove.home}/boxes/f/record", "r+b") as record:  # what it says of its last run
            record.seek(-1024, os.SEEK_END)
            record.write(b"\n" * 1024)
        assert cove.inspect("f")["state"] == "created"
        cove("rm", "f").ok()
        assert "f" not in cove("workspace", "ls", "-q").ok().text.split()
        assert not os.path.exists(f"{cove.home}/workspaces/f.stack")
    # One that ran leaves it, as any box does.
    cove("fork", "s1", "--name", "f").ok()
    cove("rm", "-f", "f").ok()
    assert "f" in cove("workspace", "ls", "-q").ok().text.split()


def test_one_box_at_a_time_runs_above_the_layers_of_a_workspace(cove, kept):
    """Two overlays above the same layers lose what is removed and changed in either."""
    cove("create", "--name", "one", "--workspace", "shared").ok()
    cove.sh("one", "seq 3 > f")
    cove("stop", "one").ok()
    cove("snapshot", "create", "one", "s").ok()
    cove("rollback", "one", "s").ok()
    cove("start", "one").ok()
    cove.fails("conflict", "run", "--workspace", "shared", "--", "true")
    assert cove.sh("one", "rm f && ls")["stdout"] == ""
    cove("stop", "one").ok()
    for _ in range(3):
        assert cove("run", "--workspace", "shared", "--", "ls").ok().text == ""
    cove("start", "one").ok()
    assert cove.sh("one", "echo mine > g; cat g")["stdout"] == "mine\n"


def test_an_existing_workspace_is_not_touched(cove, kept):
    cove("create", "--name", "keep", "--workspace", "f").ok()
    cove.sh("keep", "echo mine > /workspace/a")
    cove("create", "--name", "dev", "--workspace", "sp").ok()
    cove.sh("dev", "echo theirs > /workspace/a")
    cove.fails("exists", "fork", "dev", "--name", "f", *NO_FREEZE)
    assert "f" not in cove.names()
    assert cove.sh("keep", "cat /workspace/a")["stdout"] == "mine\n"


IDENTITY = """
mkdir -p /etc/ssh /var/lib/systemd /var/lib/dbus
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
ln -sf /etc/machine-id /var/lib/dbus/machine-id
echo seed > /var/lib/systemd/random-seed
echo private > /etc/ssh/ssh_host_fake_key
"""


@needs_base
def test_it_is_another_machine(cove, kept, box, inner_root):
    cove("exec", "-u", "root", box, "--", "sh", "-c", IDENTITY).ok()
    mine = cove("exec", box, "--", "cat", "/etc/machine-id").ok().text
    names = cove("fork", box, "--count", "2", "--prefix", "id", *NO_FREEZE).ok().text.split()
    ids = {cove("exec", n, "--", "cat", "/etc/machine-id").ok().text for n in names}
    assert len(ids | {mine}) == 3 and all(len(i) == 33 for i in ids)
    for n in names:
        assert cove("exec", n, "--", "test", "-e", "/var/lib/systemd/random-seed").rc == 1
        assert cove("exec", n, "--", "test", "-e", "/etc/ssh/ssh_host_fake_key").rc == 1
        if cove("exec", n, "--", "test", "-x", "/usr/bin/ssh-keygen").rc == 0:
            wait_until(lambda: cove("exec", n, "--", "test", "-s", "/etc/ssh/ssh_host_ed25519_key.pub").rc == 0,
                       "new host keys")
    # Once: it keeps what it got.
    kept_id = cove("exec", names[0], "--", "cat", "/etc/machine-id").ok().text
    cove("stop", names[0]).ok()
    cove("start", names[0]).ok()
    assert cove("exec", names[0], "--", "cat", "/etc/machine-id").ok().text == kept_id
    assert cove("exec", box, "--", "cat", "/etc/machine-id").ok().text == mine


@needs_base
def test_links_lead_nowhere(cove, kept, box, inner_root):
    """What is made anew is never written or removed through a link of the other box's."""
    cove("exec", "-u", "root", box, "--", "sh", "-c",
         "mkdir -p /srv/t; echo keep > /srv/t/ssh_host_x; echo keep > /srv/id; rm -rf /etc/ssh; "
         "ln -s /srv/t /etc/ssh; rm -f /etc/machine-id; ln -s /srv/id /etc/machine-id").ok()
    cove("fork", box, "--name", "f", *NO_FREEZE).ok()
    assert cove.sh("f", "cat /srv/t/ssh_host_x /srv/id; readlink /etc/machine-id /etc/ssh")["stdout"] == \
        "keep\nkeep\n/srv/id\n/srv/t\n"


def test_limits_are_its_own(cove, kept):
    made = cove("create", "--name", "dev", "--disk", "64M", "--json")
    if made.rc != 0:
        pytest.skip("no --disk here")
    cove.sh("dev", "head -c 40000000 /dev/zero > ~/a")
    cove("fork", "dev", "--name", "f", *NO_FREEZE).ok()
    assert cove.sh("f", "head -c 40000000 /dev/zero > ~/b")["exit_code"] == 0
    assert cove.sh("f", "head -c 40000000 /dev/zero > ~/c")["exit_code"] != 0
    assert cove.sh("dev", "echo ok > ~/ok; cat ~/ok")["stdout"] == "ok\n"


def layers_of(cove, box):
    with open(f"{cove.home}/boxes/{box}/record", encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.startswith("layer ")]


def test_a_chain_of_forks(cove, kept, box):
    """Each above the last, beyond where they become one: what is seen does not change, and the many are gone."""
    last, below, seen = box, layers_of(cove, box), set()
    for i in range(20):
        cove.sh(last, f"echo {i} > ~/n{i}; rm -f ~/n{i - 3}; mkdir -p ~/d{i % 4}; rm -rf ~/d{(i + 1) % 4}")
        cove("fork", last, "--name", f"c{i}", *NO_FREEZE).ok()
        cove("rm", "-f", last).ok()
        last = f"c{i}"
        assert layers_of(cove, last)[:len(below)] == below
        assert len(layers_of(cove, last)) <= len(below) + CHAIN_MAX
        seen.update(layers_of(cove, last))
    assert cove.sh(last, "cd; echo n* d*; cat n19")["stdout"] == "n17 n18 n19 d1 d2 d3\n19\n"
    assert len(cove("snapshot", "ls", "-q").ok().text) == 0
    assert len(seen) > CHAIN_MAX and len(layers_of(cove, last)) < 2 + CHAIN_MAX / 2 + len(below)
    cove("image", "gc").ok()
    gone = seen - set(layers_of(cove, last)) - set(below)
    assert not gone & set(os.listdir(cove.home + "/layers"))
