"""cove open and close: a caller's own id is always the same box."""
import hashlib

import pytest

from conftest import DEADLINE, wait_until

pytestmark = pytest.mark.once("root")


def name_of(session, prefix):
    return f"{prefix}-{hashlib.sha256(session.encode()).hexdigest()[:16]}"


@pytest.fixture
def session(cove, request):
    """An id of this test's own; closed, and its workspace removed, after it."""
    ident = f"t-{request.node.name}"
    yield ident
    cove("close", ident, "--delete")
    for name in cove("workspace", "ls", "-q").text.split():
        cove("workspace", "rm", name)


def opened(cove, session, *flags):
    return cove("open", session, *flags).ok().text.strip()


def test_name_is_prefix_and_hash(cove, session):
    assert opened(cove, session, "--prefix", "support-prod-acme") == name_of(session, "support-prod-acme")
    cove("close", session, "--prefix", "support-prod-acme", "--delete").ok()


@pytest.mark.parametrize("ident", ["a b c", "\u00fc\u4e16", "../../etc", "x" * 1000, "$(id)", "a/b", "-"])
def test_any_id(cove, ident):
    assert opened(cove, ident, "--prefix", "p") == name_of(ident, "p")
    cove("close", "--prefix", "p", "--delete", ident).ok()


def test_twice_is_the_same_box(cove, session):
    first = opened(cove, session)
    cove.sh(first, "cd /tmp; v=1")
    assert opened(cove, session) == first
    assert cove.sh(first, "echo $v; pwd")["stdout"] == "1\n/tmp\n"


def test_another_box_than_asked_for_is_refused(cove, session, tmp_path):
    box = opened(cove, session, "--env", "A=1")
    for flags in (["--image", "other"], ["--workspace", str(tmp_path)], ["--persistence", "box"],
                  ["--mount", f"{tmp_path}:/data"], ["--env", "A=2"], ["--workdir", "/tmp"]):
        r = cove("open", session, *flags)
        assert r.rc == 125 and flags[0] in r.errors and "--delete" in r.errors, repr(r)
    assert opened(cove, session) == box
    assert opened(cove, session, "--env", "A=1", "--persistence", "workspace") == box
    cove("close", session, "--delete").ok()
    assert opened(cove, session, "--env", "A=2") == box


def test_other_prefix_is_another_box(cove, session):
    one, two = opened(cove, session, "--prefix", "one"), opened(cove, session, "--prefix", "two")
    assert one != two
    for prefix in ("one", "two"):
        cove("close", session, "--prefix", prefix, "--delete").ok()


@pytest.mark.parametrize("prefix", ["", "A", "a_b", "-a", "a-", "a.b", "a/b", "x" * 47, "\u00fc", "a b", ".."])
def test_bad_prefix_is_refused_before_anything_is_made(cove, prefix):
    before = cove.names()
    cove.fails("invalid", "open", "s", "--prefix", prefix)
    assert cove.names() == before


def test_longest_prefix(cove):
    prefix = "x" * 46
    name = opened(cove, "s", "--prefix", prefix)
    assert name == name_of("s", prefix) and len(name) == 63
    cove("close", "s", "--prefix", prefix, "--delete").ok()


def test_starts_in_its_workspace(cove, session):
    box = opened(cove, session)
    assert cove.sh(box, "pwd")["stdout"] == "/workspace\n"
    assert box in cove("workspace", "ls").ok().text


def test_close_keeps_the_workspace_and_removes_the_box(cove, session):
    box = opened(cove, session)
    cove.sh(box, "echo kept > kept; echo gone > ~/gone")
    cove("close", session).ok()
    assert box not in cove.names()
    assert opened(cove, session) == box
    assert cove.sh(box, "cat kept; cat ~/gone")["stdout"] == "kept\n"


def test_persistence_box(cove, session):
    box = opened(cove, session, "--persistence", "box")
    cove.sh(box, "echo kept > kept; echo too > ~/too; sleep 1000 &")
    cove("close", session).ok()
    assert box in cove.names() and cove.inspect(box)["state"] == "stopped"
    assert opened(cove, session) == box
    got = cove.sh(box, "cat kept ~/too; pgrep -c sleep")
    assert got["stdout"] == "kept\ntoo\n0\n"
    cove("close", session, "--delete").ok()
    assert box not in cove.names()


def test_persistence_is_also_spelled_sandbox(cove, session):
    box = opened(cove, session, "--persistence", "sandbox")
    cove("close", session).ok()
    assert cove.inspect(box)["state"] == "stopped"


def test_unknown_persistence(cove, session):
    cove.fails("invalid", "open", session, "--persistence", "forever")


def test_delete_keeps_the_workspace(cove, session):
    box = opened(cove, session, "--persistence", "box")
    cove.sh(box, "echo kept > kept")
    cove("close", session, "--delete").ok()
    assert box not in cove.names()
    opened(cove, session)
    assert cove.sh(box, "cat kept")["stdout"] == "kept\n"
    cove("close", session, "--delete").ok()
    cove("workspace", "rm", box).ok()
    opened(cove, session)
    assert cove.sh(box, "ls")["stdout"] == ""


def test_delete_of_a_stopped_box(cove, session):
    box = opened(cove, session, "--persistence", "box")
    cove("close", session).ok()
    cove("close", session, "--delete").ok()
    assert box not in cove.names()


def test_delete_of_nothing_is_success(cove):
    cove("close", "never-opened", "--delete").ok()
    cove("close", "never-opened", "--delete").ok()


def test_close_of_nothing_says_so(cove):
    cove.fails("not_found", "close", "never-opened")


def test_closed_twice(cove, session):
    opened(cove, session, "--persistence", "box")
    cove("close", session).ok()
    cove("close", session).ok()


def test_race_ends_with_one_box(cove, session):
    racing = [cove.start("open", session) for _ in range(8)]
    names = set()
    for process in racing:
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, err
        names.add(out.decode().strip())
    assert len(names) == 1
    box = names.pop()
    assert cove.names().count(box) == 1
    assert cove.sh(box, "echo one")["stdout"] == "one\n"


def test_open_and_close_race(cove, session):
    for _ in range(5):
        racing = [cove.start("open" if i % 2 else "close", session, *(() if i % 2 else ("--delete",)))
                  for i in range(6)]
        for process in racing:
            process.communicate(timeout=DEADLINE)
        box = opened(cove, session)
        assert cove.sh(box, "echo ok")["stdout"] == "ok\n"
    wait_until(lambda: cove.names().count(box) == 1)


def test_session_is_in_inspect(cove, session):
    assert cove.inspect(opened(cove, session))["session"] == session
