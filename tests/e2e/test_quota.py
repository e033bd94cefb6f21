"""What counts against a key's quotas: its boxes, and what is left of them."""
import os

import pytest

from server import Server

pytestmark = pytest.mark.once("root")


@pytest.fixture(scope="module")
def module_server(session_cove):
    made = Server(session_cove)
    yield made
    made.end()


@pytest.fixture
def server(module_server, cove):
    return module_server


@pytest.fixture
def key(server, cove):
    """Makes keys; they are removed after the test, with their boxes and workspaces."""
    made = []

    def make(quota):
        name = "q" + os.urandom(4).hex()
        made.append((name, cove("key", "create", name, "--quota", quota).ok().text.strip()))
        return made[-1][1]

    yield make
    for name, token in made:
        for kind, tail in (("boxes", "?force=1"), ("workspaces", "")):
            for row in server.ask("GET", f"/v1/{kind}", token=token).ok().json[kind]:
                server.ask("DELETE", f"/v1/{kind}/{row['name']}{tail}", token=token)
        cove("key", "rm", name)


def create(server, token, name, **body):
    return server.ask("POST", "/v1/boxes", {"name": name, "disk": "64m", **body}, token=token)


def remove(server, token, name):
    server.ask("DELETE", f"/v1/boxes/{name}?force=1", token=token).ok(204)


def test_a_workspace_counts_when_its_box_is_gone(server, key):
    t = key("disk=256m")
    for n in range(2):  # 64m each stay, beside 128m of the box
        create(server, t, "b", workspace=f"w{n}").ok(201)
        remove(server, t, "b")
    create(server, t, "b", workspace="w1").ok(201)  # it is there already, and not asked for again
    create(server, t, "c").ok(201)
    create(server, t, "d").error(429, "limit")
    remove(server, t, "c")
    remove(server, t, "b")
    create(server, t, "b", workspace="w2").ok(201)
    remove(server, t, "b")
    create(server, t, "b", workspace="w3").error(429, "limit")
    server.ask("DELETE", "/v1/workspaces/w0", token=t).ok(204)
    create(server, t, "b", workspace="w3").ok(201)


def test_layers_below_a_workspace_count(server, key):
    t = key("disk=400m")
    fill = {"line": "head -c 40m /dev/urandom > /workspace/x"}
    create(server, t, "b", workspace="w", command=fill).ok(201)
    fork, = server.ask("POST", "/v1/forks", {"box": "b"}, token=t).ok().json["boxes"]
    for box in ("b", fork):
        remove(server, t, box)
    create(server, t, "c", disk="240m").error(429, "limit")
    create(server, t, "c", disk="220m").ok(201)


def test_a_session_is_opened_again(server, key):
    t = key("disk=128m")
    for _ in range(3):
        server.ask("PUT", "/v1/sessions/s", {"disk": "64m"}, token=t).ok()
        server.ask("DELETE", "/v1/sessions/s", token=t).ok(204)
    create(server, t, "b", disk="96m").error(429, "limit")


def test_an_imported_workspace_counts(server, key):
    other, t = key("boxes=1"), key("disk=160m")
    create(server, other, "b", workspace="w", command={"line": "head -c 1m /dev/zero > /workspace/x"}).ok(201)
    remove(server, other, "b")
    file = server.ask("GET", "/v1/workspaces/w/export", token=other).ok().body
    for n in range(2):
        server.ask("POST", f"/v1/workspaces/import?name=w{n}", file, token=t).ok(201)
    server.ask("POST", "/v1/workspaces/import?name=w2", file, token=t).error(429, "limit")
    create(server, t, "b").error(429, "limit")
    server.ask("DELETE", "/v1/workspaces/w0", token=t).ok(204)
    create(server, t, "b").ok(201)
    server.ask("POST", "/v1/workspaces/import?name=w2", file, token=t).error(429, "limit")
    assert len(server.ask("GET", "/v1/workspaces", token=t).ok().json["workspaces"]) == 1
