"""What a box may ask for itself (--ctl, cove-ctl inside): off without a trace; on, true and bounded."""
import json

import pytest

from conftest import WALL, wait_until

# Whether something answers at init's socket, in whatever language the image has.
PROBE = r"""
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\0cove-ctl")
except OSError as e:
    sys.exit(f"closed {e.errno}")
s.sendall(sys.argv[1].encode().decode("unicode_escape").encode("latin1"))
s.shutdown(socket.SHUT_WR)
got = b""
while True:
    try:
        part = s.recv(65536)
    except ConnectionResetError:
        break
    if not part:
        break
    got += part
sys.stdout.write(got.decode())
"""


@pytest.fixture
def asking(cove):
    """A box that may ask for everything that changes nothing."""
    return cove("create", "--ctl", "info,budget", "--ttl", "1h", "--mem", "300M",
                "--best-effort").ok().text.strip()


def lines(text):
    return dict(line.split(" ", 1) for line in text.splitlines())


def ask(cove, box, *words):
    return cove("exec", box, "--", "cove-ctl", *words)


def stats(cove, box):
    return json.loads(cove("stats", "--json", box).ok().text)[0]


def raw(cove, box, text):
    return cove("exec", box, "--", "python3", "-c", PROBE, text)


def test_off_there_is_no_trace(cove, box):
    done = cove("exec", box, "--", "sh", "-c",
                "echo /dev/.* /dev/* /usr/local/bin/*; env; cat /proc/net/unix /proc/mounts; command -v cove-ctl || :")
    assert "cove-ctl" not in done.ok().text
    assert cove.inspect(box)["ctl"] is None
    assert raw(cove, box, "info\\n").rc != 0


def test_info_is_what_the_box_is(cove, asking):
    told = json.loads(ask(cove, asking, "info", "--json").ok().text)
    known = cove.inspect(asking)
    assert told["name"] == asking and told["image"] == known["image"] and told["wall"] == WALL
    assert told["storage"] == known["storage"] and told["ctl"] == known["ctl"] == "info,budget"
    assert told["workspace"] is None and told["network"] == "balanced"
    assert told["mem_bytes"] == 300 << 20 and told["ttl_ms"] == 3600000 and told["idle_ms"] is None
    assert told["pids"] == known["limits"]["pids"]["value"]
    broken = {key for key, limit in known["limits"].items() if limit["enforced"] is False}
    assert set(filter(None, (told["not_enforced"] or "").split(","))) <= broken
    text = lines(ask(cove, asking, "info").ok().text)
    assert text["name"] == asking and text["idle_ms"] == "none" and text["mem_bytes"] == str(300 << 20)


def test_budget_is_what_is_left(cove, asking):
    first = json.loads(ask(cove, asking, "budget", "--json").ok().text)
    again = json.loads(ask(cove, asking, "budget", "--json").ok().text)
    assert 0 < again["ttl_left_ms"] <= first["ttl_left_ms"] <= 3600000
    assert first["idle_left_ms"] is None and first["net_left_bytes"] is None
    now = stats(cove, asking)
    assert first["disk_limit_bytes"] == now["disk_own_limit_bytes"]
    assert first["mem_limit_bytes"] == now["mem_limit_bytes"]
    if first["mem_limit_bytes"]:
        assert first["mem_left_bytes"] == max(first["mem_limit_bytes"] - first["mem_bytes"], 0)
    if first["disk_left_bytes"] is not None:
        cove("exec", asking, "--", "sh", "-c", "head -c 5000000 /dev/urandom >~/f && sync ~/f").ok()
        after = json.loads(ask(cove, asking, "budget", "--json").ok().text)
        assert after["disk_left_bytes"] <= first["disk_left_bytes"] - 4000000
    assert "cove-ctl" not in cove("exec", asking, "--", "sh", "-c", "echo /.* /* /usr/local/bin/*").ok().text


def test_a_workspace_of_its_own_is_told_apart(cove, tmp):
    (tmp / "w").mkdir()
    named = cove("create", "--ctl", "info,budget", "--workspace", "ctl-words").ok().text.strip()
    given = cove("create", "--ctl", "info,budget", "--workspace", tmp / "w").ok().text.strip()
    try:
        assert lines(ask(cove, named, "info").ok().text)["workspace"] == "ctl-words"
        told = ask(cove, given, "info").ok().text + ask(cove, given, "budget").ok().text
        assert lines(told)["workspace"] == "a host directory"
        assert str(tmp) not in told and cove.home not in told
    finally:
        cove("rm", "-f", named, given).ok()
        cove("workspace", "rm", "ctl-words").ok()


def test_every_user_may_ask_and_what_is_not_allowed_is_refused(cove, inner_root):
    box = cove("create", "--ctl", "info").ok().text.strip()
    for user in ("root", "4711"):
        assert lines(cove("exec", "-u", user, box, "--", "cove-ctl", "info").ok().text)["name"] == box
    refused = ask(cove, box, "budget")
    assert refused.rc == 125 and "may not ask for 'budget'" in refused.errors and refused.text == ""
    assert ask(cove, box, "snapshot", "x").rc == 125
    for words in ((), ("frob",), ("info", "x"), ("snapshot",), ("snapshot", "../x"), ("snapshot", "a", "b")):
        assert ask(cove, box, *words).rc == 2, words


def test_it_is_behind_every_path_and_nothing_replaces_it(cove, asking, inner_root):
    for argv in (["-e", "PATH=/bin:/usr/bin"], []):
        assert cove("exec", *argv, asking, "--", "sh", "-c", "echo $PATH").ok().text.strip().endswith(":/dev/cove-ctl")
    assert "/dev/cove-ctl" in cove("sh", asking, "echo $PATH").ok().text
    for line in ("echo x >/dev/cove-ctl/cove-ctl", "rm -f /dev/cove-ctl/cove-ctl", "echo x >/dev/cove-ctl/y",
                 "mv /dev/cove-ctl /dev/other", "rmdir /dev/cove-ctl", "chmod 777 /dev/cove-ctl/cove-ctl"):
        assert cove("exec", "-u", "root", asking, "--", "sh", "-c", line).rc != 0, line
    ask(cove, asking, "info").ok()


def test_it_comes_back_with_the_box(cove, asking):
    cove("stop", asking).ok()
    cove("start", asking).ok()
    assert lines(ask(cove, asking, "info").ok().text)["name"] == asking


@pytest.mark.parametrize("what", ["all", "info,", "info,info", "info=1", "snapshot=0", "snapshot=1001", "Info"])
def test_what_is_no_setting(cove, what):
    before = cove.names()
    cove.fails("invalid", "create", "--ctl", what)
    assert cove.names() == before


def test_a_session_has_it_or_not(cove):
    cove("open", "ctl-session", "--ctl", "info").ok()
    cove("open", "ctl-session", "--ctl", "info").ok()
    cove("open", "ctl-session").ok()
    cove.fails("conflict", "open", "ctl-session", "--ctl", "budget")
    cove("close", "ctl-session", "--delete").ok()


FORGED = {"empty": "\\n", "no newline": "info", "argument": "info x\\n", "nul": "info\\x00\\n",
          "slash": "snapshot a/b\\n", "nul in a name": "snapshot a\\x00b\\n", "newline in a name": "snapshot a\\nb\\n",
          "two": "info\\ninfo\\n", "no text": "\\xff\\xfe\\n", "huge": "a" * 100000}


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED.keys())
def test_forged_requests(cove, asking, text):
    said = raw(cove, asking, text)
    assert said.text == "" or said.text.startswith("error invalid "), said.text
    ask(cove, asking, "info").ok()


FLOOD = r"""
import socket, threading
def one():
    try:
        s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect("\0cove-ctl")
        s.sendall(b"info\n"); s.recv(10)
    except OSError:
        pass
def idle():
    held = []
    for _ in range(500):
        s = socket.socket(socket.AF_UNIX); s.setblocking(False)
        try:
            s.connect("\0cove-ctl"); s.send(b"x")
        except OSError:
            pass
        held.append(s)
    for s in held:
        s.close()
many = [threading.Thread(target=f) for f in [idle] * 4 + [one] * 60]
[t.start() for t in many]
[t.join() for t in many]
"""


def test_a_flood_hurts_nobody(cove, asking):
    cove("exec", "-d", asking, "--", "python3", "-c", FLOOD).ok()
    for _ in range(5):
        assert cove("exec", asking, "--", "echo", "here").ok().text == "here\n"
    assert wait_until(lambda: not stats(cove, asking)["execs_running"])
    ask(cove, asking, "budget").ok()
    assert cove.inspect(asking)["state"] == "running"


def test_asking_while_it_is_frozen_or_stopped(cove, asking):
    if cove("pause", asking).rc != 0:
        pytest.skip("a box of this user cannot be paused here")
    cove("resume", asking).ok()
    loop = "while cove-ctl info >/dev/null; do :; done"
    cove("exec", "-d", asking, "--", "sh", "-c", loop).ok()
    for _ in range(3):
        cove("pause", asking).ok()
        cove("resume", asking).ok()
    assert cove("exec", asking, "--", "echo", "here").ok().text == "here\n"
    cove("stop", asking).ok()
    assert cove.inspect(asking)["cause"] == "stopped"


# ---- snapshots ----

@pytest.fixture
def saving(cove):
    """A box that may have two snapshots. Those of all boxes that a test makes are removed after it."""
    made = cove("create", "--ctl", "snapshot=2", "--disk", "64M")
    if made.rc != 0:  # an ordinary user has no such limit
        made = cove("create", "--ctl", "snapshot=2")
    name = made.ok().text.strip()
    if cove("pause", name).rc != 0:
        pytest.skip("a box of this user cannot be frozen here")
    cove("resume", name).ok()
    yield name
    for made in snapshots(cove):
        cove("snapshot", "rm", made["name"]).ok()


def snapshots(cove, box=None):
    return [s for s in cove("snapshot", "ls", "--json").ok().json if box in (None, s["box"])]


def again(cove, box):
    """A saver that has not made one in the last ten seconds."""
    cove("stop", box).ok()
    cove("start", box).ok()


def test_a_snapshot_from_inside(cove, saving):
    cove("exec", saving, "--", "sh", "-c", "echo good >~/state").ok()
    told = json.loads(ask(cove, saving, "snapshot", "before", "--json").ok().text)
    assert told["name"] == f"{saving}-before" and told["snapshots_left"] == 1 and 0 < told["frozen_us"]
    made, = snapshots(cove, saving)
    assert made["name"] == told["name"] and made["inside"] is True and made["box"] == saving
    cove("exec", saving, "--", "sh", "-c", "echo bad >~/state").ok()
    cove("rollback", saving, told["name"]).ok()
    assert cove("exec", saving, "--", "sh", "-c", "cat ~/state").ok().text == "good\n"
    rows = [json.loads(row) for row in cove("logs", "--json", saving).ok().text.splitlines()]
    event, = [row for row in rows if row["event"] == "snapshot"]
    assert told["name"] in event["cause"] and event["by"].endswith(" inside")


def test_snapshots_are_bounded(cove, saving):
    ask(cove, saving, "snapshot", "one").ok()
    soon = ask(cove, saving, "snapshot", "two")
    assert soon.rc == 125 and "can be made in" in soon.errors
    again(cove, saving)
    taken = ask(cove, saving, "snapshot", "one")
    assert taken.rc == 125 and "already" in taken.errors
    again(cove, saving)
    assert lines(ask(cove, saving, "snapshot", "two").ok().text)["snapshots_left"] == "0"
    again(cove, saving)
    full = ask(cove, saving, "snapshot", "three")
    assert full.rc == 125 and "may have no more" in full.errors
    assert [s["name"] for s in snapshots(cove, saving)] == [f"{saving}-one", f"{saving}-two"]
    # One that its owner gave a tag is the owner's.
    cove("snapshot", "tag", f"{saving}-one", "kept-by-me").ok()
    again(cove, saving)
    ask(cove, saving, "snapshot", "three").ok()
    assert len(snapshots(cove, saving)) == 3


def test_none_has_a_name_that_begins_as_another_boxs_do(cove, saving):
    cove("create", "--name", f"{saving}-2").ok()
    as_its = ask(cove, saving, "snapshot", "2-before")
    assert as_its.rc == 125 and "already" in as_its.errors
    assert snapshots(cove) == []


def test_they_push_out_none_of_the_owners(cove, saving):
    for name in ("mine-1", "mine-2"):
        cove("snapshot", "create", saving, name, "--keep", "2").ok()
    ask(cove, saving, "snapshot", "one").ok()
    assert {s["name"] for s in snapshots(cove, saving)} == {"mine-1", "mine-2", f"{saving}-one"}
    cove("snapshot", "create", saving, "mine-3").ok()
    assert {s["name"] for s in snapshots(cove, saving)} == {"mine-2", "mine-3", f"{saving}-one"}


def test_together_they_take_no_more_than_its_disk(cove, saving):
    if not stats(cove, saving)["disk_own_limit_bytes"]:
        pytest.skip("this user has no limit on disk")
    for name in ("one", "two"):
        cove("exec", saving, "--", "sh", "-c", "head -c 40000000 /dev/urandom >~/big").ok()
        ask(cove, saving, "snapshot", name).ok()
        again(cove, saving)
    assert [s["name"] for s in snapshots(cove, saving)] == [f"{saving}-two"]


def test_a_box_that_ends_meanwhile(cove, saving):
    cove("exec", "-d", saving, "--", "sh", "-c", "head -c 30000000 /dev/urandom >~/big; cove-ctl snapshot x").ok()
    wait_until(lambda: cove("exec", saving, "--", "sh", "-c", "test -s ~/big").rc == 0)
    cove("rm", "-f", saving).ok()
    for made in snapshots(cove):  # whole or not there
        cove("snapshot", "inspect", made["name"]).ok()


def test_a_snapshot_with_a_closed_network(cove, saving):
    box = cove("create", "--ctl", "snapshot", "--net", "closed").ok().text.strip()
    assert lines(ask(cove, box, "snapshot", "alone").ok().text)["name"] == f"{box}-alone"


def test_a_run_has_it_too(cove):
    text = cove("run", "--ctl", "budget", "--net-bytes", "1M", "--", "cove-ctl", "budget").ok().text
    assert lines(text)["net_left_bytes"] == str(1 << 20)


def test_closed_network_is_no_hindrance(cove):
    assert "network closed" in cove("run", "--ctl", "info", "--net", "closed", "--", "cove-ctl", "info").ok().text
