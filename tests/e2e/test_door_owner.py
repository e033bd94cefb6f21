"""The secrets of a key's box: its own, at the door and in a request, and never the operator's."""
import os

import pytest

from conftest import wait_until
from door_servers import header
from embed import Owned

pytestmark = pytest.mark.once("both")

RULE = {"name": "the api", "allow": "web.test",
        "inject": {"headers": {"Authorization": "Bearer {{ secret.TOKEN }}"}}}


@pytest.fixture
def key(door):
    name = "k" + os.urandom(4).hex()
    yield door("key", "create", name).ok().text.strip()[5:13]
    door("key", "rm", name).ok()


@pytest.fixture
def owned(door, tmp):
    return Owned(door, tmp)


def make(door, owned, name, key):
    (box,) = owned("create", name=f"{key}_{name}", owner=key, net=door.policy([RULE]))
    door.boxes.append(box)
    door.put(box, "/tmp/rig.pem", door.rig.ca.pem.read_text())
    return box


def sent(rig, mark):
    return header(rig.web.last(mark), "Authorization")


def test_a_request_has_the_keys_secret(door, rig, owned, key):
    mine, theirs = door.secret("TOKEN"), rig.secret("THEIRS")
    door("secret", "set", f"{key}.TOKEN", input=theirs.encode()).ok()
    box, other = make(door, owned, "web", key), door.box([RULE])
    door.curl(box, rig.url("/echo?key")).ok()
    door.curl(other, rig.url("/echo?operator")).ok()
    assert sent(rig, "?key") == [f"Bearer {theirs}"] and sent(rig, "?operator") == [f"Bearer {mine}"]
    assert door.row(box, kind="request", host="web.test")["credential"] == "TOKEN"
    # A fork has it too, and after a start anew.
    (fork,) = owned("fork", source=box)
    door.boxes.append(fork)
    door.curl(fork, rig.url("/echo?fork")).ok()
    door("stop", box).ok()
    door("start", box).ok()
    door.curl(box, rig.url("/echo?again")).ok()
    assert sent(rig, "?fork") == sent(rig, "?again") == [f"Bearer {theirs}"]
    door("secret", "rm", f"{key}.TOKEN").ok()


def test_without_its_own_it_has_none(door, rig, owned, key):
    """The operator's of the same name is there all the time, and another key's."""
    door.secret("TOKEN")
    other = rig.secret("OTHER")
    door("secret", "set", f"{key}.TOKEN", input=rig.secret("THEIRS").encode()).ok()
    door("secret", "set", "00000000.TOKEN", input=other.encode()).ok()
    box = make(door, owned, "web", key)
    door("secret", "rm", f"{key}.TOKEN").ok()
    assert door.code(box, rig.url("/echo?none")) not in (0, 200)
    assert not rig.web.seen("?none")
    assert wait_until(lambda: [r for r in door.rows(box, host="web.test") if r["verdict"] != "allow"], "a row")
    door("secret", "rm", "00000000.TOKEN").ok()


def test_one_that_the_operator_gives_by_a_command(door, rig, owned, key, tmp):
    """What runs on the host is the operator's to set, also for a key."""
    value = rig.secret("GIVEN")
    (tmp / "given").write_text(value + "\n")
    door("secret", "set", f"{key}.TOKEN", "--command", f"cat {tmp}/given").ok()
    box = make(door, owned, "web", key)
    door.curl(box, rig.url("/echo?given")).ok()
    assert sent(rig, "?given") == [f"Bearer {value}"]
    door("secret", "rm", f"{key}.TOKEN").ok()


@pytest.mark.parametrize("other", ["1a2b3c4e", "operator"])
def test_what_a_fork_asks_for_is_what_its_source_had(door, rig, owned, key, other):
    """The policy of a key's box is the key's word: nobody's fork of it has that one's secrets."""
    mine, theirs = door.secret("TOKEN"), rig.secret("THEIRS")
    door("secret", "set", f"{key}.TOKEN", input=theirs.encode()).ok()
    box = make(door, owned, "web", key)
    if other == "operator":
        door.fails("invalid", "fork", box, "--name", "mine")
        fork = door("fork", box).ok().text.strip()
        door.boxes.append(fork)
        door.curl(fork, rig.url("/echo?taken")).ok()
        assert sent(rig, "?taken") == [f"Bearer {theirs}"] != [f"Bearer {mine}"]
    else:
        owned.fails("denied", "fork", source=box, owner=other, name=f"{other}_x")
    door("secret", "rm", f"{key}.TOKEN").ok()
