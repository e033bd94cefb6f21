"""host.cove.internal: this host's own loopback, for a rule that names it with its ports, and for nothing else."""
import json
import socket

import pytest

from door_kit import DIRECT, WAYS

NAME = "host.cove.internal"


def rule(rig, **more):
    return {"name": "here", "allow": NAME, "ports": [rig.web.port], "private": False, **more}


def url(rig, path="/echo", port=None, name=NAME):
    return f"http://{name}:{port or rig.web.port}{path}"


def resolves(door, box, name=NAME):
    return door.do(box, f"getent hosts {name}").rc == 0


@pytest.mark.once("both")
@pytest.mark.parametrize("way", WAYS)
def test_a_rule_with_ports_reaches_it(door, rig, way):
    box = door.box([rule(rig)])
    assert door.code(box, url(rig), way=way) == 200
    door.row(box, host=NAME, port=rig.web.port, verdict="allow")
    assert door.code(box, url(rig, name=NAME.upper() + "."), way=way) == 200, "another spelling is the same name"
    # Another port, and whatever else leads to the same address.
    for wrong in (url(rig, port=rig.other.port), url(rig, name="web.test"), url(rig, name="x." + NAME)):
        assert door.code(box, wrong, way=way) in (0, 403), wrong
    for address in ("127.0.0.1", "[::1]", "127.0.0.2", "[::ffff:127.0.0.1]"):
        assert door.code(box, url(rig, name=address), way=way) in (0, 403), address
    assert door.rows(box, host=NAME, verdict="allow", port=rig.other.port) == []


def test_requests_are_judged_as_elsewhere(door, rig):
    box = door.box([rule(rig, methods=["GET"], paths=["/echo"])])
    assert door.code(box, url(rig)) == 200
    assert door.code(box, url(rig), "-X", "POST") == 403
    assert door.code(box, url(rig, "/other")) == 403
    assert door.code(box, url(rig), "-H", f"Host: web.test:{rig.web.port}") not in (0, 200)


@pytest.mark.parametrize("hosts", ["*", "*.internal", "*.cove.internal", ["cove.internal", "x.host.cove.internal"]])
def test_no_wildcard_is_that_host(door, rig, hosts):
    box = door.box([{"name": "wide", "allow": hosts, "ports": "any", "private": True}])
    assert not resolves(door, box), "it does not exist"
    for way in WAYS:
        assert door.code(box, url(rig), way=way) in (0, 403)
    got = json.loads(door("exec", "--json", box, "--", "sh", "-c", f"curl -sS {url(rig)}").out)["denied"]
    assert f"cove allow {box} {NAME}:{rig.web.port}" in [d["remedy"].split(",")[0] for d in got if d["host"] == NAME]


def test_open_is_not_that_host(cove, rig):
    box = cove("create", "--net", "open").ok().text.strip()
    try:
        assert cove("exec", box, "--", "getent", "hosts", NAME).rc != 0
        assert cove("exec", box, "--", "curl", "-sSf", url(rig)).rc != 0
    finally:
        cove("rm", "-f", box).ok()


def test_a_rule_without_ports_is_refused(door, rig, tmp_path):
    path = tmp_path / "policy.yaml"
    for ports in ("", "    ports: any\n"):
        for action in ("allow", "ask"):
            path.write_text(f"version: 1\nrules:\n  - {action}: [a.test, {NAME}]\n{ports}")
            assert "ports: [8080]" in door("policy", "check", path).refused(rc=2).errors
    path.write_text(f"version: 1\nrules:\n  - deny: {NAME}\n")
    door("policy", "check", path).ok()


def test_grants_name_their_port(door, rig):
    box = door.box([{"name": "other", "allow": "other.test"}])
    assert "ports" in door("allow", box, NAME).refused(rc=2).errors
    door("allow", box, "*").ok()
    assert door.code(box, url(rig)) in (0, 403)
    door("allow", box, f"{NAME}:{rig.web.port}").ok()
    assert door.code(box, url(rig)) == 200
    door("deny", box, "*.internal").ok()
    assert door.code(box, url(rig)) in (0, 403), "a deny means it, too"


def test_a_deny_of_the_address_holds(door, rig):
    box = door.box([rule(rig), {"name": "no", "deny": ["127.0.0.0/8", "::1"]}])
    assert door.code(box, url(rig)) in (0, 403)


def test_an_open_connection_ends_with_its_rule(door, rig):
    """Of any protocol, to any server on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        box = door.box([rule(rig, ports=[port])])
        door.need(box, "python3")
        door.put(box, "/tmp/hold.py", f"""
import socket
s = socket.create_connection(("{NAME}", {port}))
s.sendall(b"hello\\n")
while s.recv(1):
    pass
""")
        process = door.start("exec", box, "--", "sh", "-c", DIRECT + "python3 /tmp/hold.py; echo over")
        conn, _ = server.accept()
        with conn:
            assert conn.recv(6) == b"hello\n"
            door("policy", "apply", box, "open").ok()
            assert process.stdout.readline() == b"over\n"
        process.communicate()


def test_it_is_suggested_with_its_port(door, rig, tmp_path):
    box = door.box([{"name": "other", "allow": "other.test"}])
    assert door.code(box, url(rig), way="proxy") in (0, 403)
    door.row(box, host=NAME, verdict="deny", port=rig.web.port)
    path = tmp_path / "suggested.yaml"
    path.write_text(door("policy", "suggest", box).ok().text)
    door("policy", "apply", box, path).ok()
    assert door.code(box, url(rig)) == 200
