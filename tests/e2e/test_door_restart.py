"""What was decided live holds for the door that comes after, and is in the record; whose Host a request names."""
import pytest
from conftest import alive, kill, wait_until

pytestmark = pytest.mark.once("root")

CLOSED = {"name": "closed", "allow": "nobody.test"}
WEB = {"name": "web", "allow": "web.test"}


def kill_door(door, box):
    pids = wait_until(lambda: door.doors(box), "a door")
    for pid in pids:
        kill(pid)
    wait_until(lambda: not any(alive(p) for p in pids), "the door's end")


def test_applied_policy_survives_the_door(door, rig):
    box = door.box([CLOSED])
    url = rig.url("/echo", tls=False)
    assert door.code(box, url) == 0
    door("policy", "apply", box, door.policy([WEB])).ok()
    assert door.code(box, url) == 200
    kill_door(door, box)
    assert door.code(box, url) == 200
    door("policy", "apply", box, door.policy([CLOSED])).ok()
    kill_door(door, box)
    assert door.code(box, url) == 0
    door("audit", "verify", box).ok()


def test_applied_before_there_was_a_door(door, rig):
    box = door.box([CLOSED])
    assert not door.doors(box)
    door("policy", "apply", box, door.policy([WEB])).ok()
    row = wait_until(lambda: [r for r in door.rows(box, kind="policy") if r.get("by")], "the row of a change")[-1]
    assert row["verdict"] == "allow" and row["reason"].startswith("sha256:")
    kill_door(door, box)
    assert door.code(box, rig.url("/echo", tls=False)) == 200


def test_grants_survive_the_door_and_are_recorded(door, rig):
    box = door.box([WEB])
    url, grant = rig.url("/echo", tls=False), f"kept.test:{rig.web.port}"
    door("allow", "--for", "1h", box, grant).ok()
    row = door.row(box, kind="grant", verdict="allow")
    assert row["host"] == grant and row["reason"] == "for 3600 s" and row["by"]
    for _ in range(2):
        # A grant does not open a private address: that it may be asked for is as far as it goes on loopback.
        asked = rig.dns.asked("kept.test")
        door.curl(box, f"http://{grant}/", way="proxy")
        assert rig.dns.asked("kept.test") > asked
        kill_door(door, box)
    assert door.code(box, url) == 200
    door("deny", box, "web.test").ok()
    assert door.row(box, kind="grant", verdict="deny")["host"] == "web.test"
    kill_door(door, box)
    assert door.code(box, url) == 0


def test_a_host_of_somebody_else_without_tls(door, rig):
    """A rule that looks at nothing else still means its own host, on any port."""
    box = door.box([WEB])
    for way in ("direct", "proxy"):
        got = door.code(box, rig.url(f"/echo?fronted-{way}", tls=False), "-H", "Host: other.test", way=way)
        assert got in (400, 403, 421)
        assert not rig.web.seen(f"fronted-{way}")
        assert door.code(box, rig.url(f"/echo?own-{way}", tls=False), way=way) == 200
        assert rig.web.seen(f"own-{way}")


def test_passed_on_demand(door, rig):
    box = door.box([{**WEB, "tls": "pass"}])
    assert door.code(box, rig.url("/echo", tls=False), "-H", "Host: other.test") == 200
