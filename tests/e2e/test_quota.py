"""What counts against a key's quotas: its boxes, and what is left of them."""
import os

import pytest

from image_kit import tar, tiny_root
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


def write(server, token, box, mib):
    body = {"line": f"head -c {mib}m /dev/urandom > ~/f && sync ~/f"}
    assert server.ask("POST", f"/v1/boxes/{box}/exec", body, token=token).ok().json["exit_code"] == 0


def snapshots(server, token):
    return [s["name"] for s in server.ask("GET", "/v1/snapshots", token=token).ok().json["snapshots"]]


@pytest.fixture
def keeper(server, key):
    """A key whose snapshots and images are removed after the test, too."""
    made = []

    def make(quota):
        made.append(key(quota))
        return made[-1]

    yield make
    for token in made:
        for name in snapshots(server, token):
            server.ask("DELETE", f"/v1/snapshots/{name}", token=token).ok(204)
        for name in ("one", "two"):
            server.ask("DELETE", f"/v1/images/{name}", token=token)


def test_snapshots_and_images_count_as_disk(server, cove, keeper):
    """By the layers that they stand on, each once, without those of the operator's images."""
    t = keeper("disk=200m")
    create(server, t, "b", disk="100m").ok(201)
    write(server, t, "b", 60)
    first = server.ask("POST", "/v1/boxes/b/snapshots", {}, token=t).ok(201).json["name"]
    layers = set(os.listdir(f"{cove.home}/layers"))
    write(server, t, "b", 60)
    server.ask("POST", "/v1/boxes/b/snapshots", {}, token=t).error(429, "limit")
    server.ask("POST", "/v1/boxes/b/image", {"image": "one"}, token=t).error(429, "limit")
    assert len(snapshots(server, t)) == 1 and set(os.listdir(f"{cove.home}/layers")) == layers
    create(server, t, "c", disk="48m").error(429, "limit")
    create(server, t, "c", disk="32m").ok(201)
    remove(server, t, "c")
    server.ask("DELETE", f"/v1/snapshots/{first}", token=t).ok(204)
    server.ask("POST", "/v1/boxes/b/image", {"image": "one"}, token=t).ok(201)
    write(server, t, "b", 60)
    server.ask("POST", "/v1/boxes/b/image", {"image": "two"}, token=t).error(429, "limit")
    shown = server.ask("GET", "/v1/images", token=t).ok().json["images"]
    assert [i["name"] for i in shown if i["name"] in ("one", "two")] == ["one"]


def test_what_a_removed_box_left_below_another_counts(server, keeper):
    t = keeper("disk=300m")
    create(server, t, "b", disk="100m").ok(201)
    write(server, t, "b", 60)
    server.ask("POST", "/v1/forks", {"box": "b", "name": "f"}, token=t).ok(201)
    remove(server, t, "b")
    create(server, t, "c", disk="160m").error(429, "limit")  # 100 of the fork, and 60 that it stands on
    create(server, t, "c", disk="120m").ok(201)


def test_an_imported_snapshot_counts(server, keeper):
    other, t = keeper("boxes=1"), keeper("disk=100m")
    server.ask("POST", "/v1/images/import?name=one", tar(*tiny_root()), token=other).ok(201)
    create(server, other, "b", image="one", user="root", disk="200m").ok(201)

    def exported(name):
        server.ask("PUT", "/v1/boxes/b/files?path=/tmp/f", os.urandom(40 << 20), token=other).ok()
        server.ask("POST", "/v1/boxes/b/snapshots", {"name": name}, token=other).ok(201)
        return server.ask("GET", f"/v1/snapshots/{name}/export", token=other).ok().body

    server.ask("POST", "/v1/snapshots/import?name=s", exported("first"), token=t).ok(201)
    create(server, t, "b", disk="80m").error(429, "limit")
    create(server, t, "b", disk="40m").ok(201)
    server.ask("POST", "/v1/snapshots/import?name=s2", exported("second"), token=t).error(429, "limit")
    assert snapshots(server, t) == ["s"]


def test_a_snapshot_from_inside_counts_for_the_key(server, keeper):
    t = keeper("snapshots=1")
    create(server, t, "b", ctl="snapshot=20").ok(201)

    def take(name):
        for step in ("stop", "start"):  # a saver that has not made one in the last ten seconds
            server.ask("POST", f"/v1/boxes/b/{step}", {}, token=t).ok()
        body = {"argv": ["cove-ctl", "snapshot", name]}
        return server.ask("POST", "/v1/boxes/b/exec", body, token=t).ok().json

    assert take("s1")["exit_code"] == 0
    again = take("s2")
    assert again["exit_code"] == 125 and "leaves no room" in again["stderr"]
    assert len(snapshots(server, t)) == 1
    server.ask("POST", "/v1/boxes/b/snapshots", {}, token=t).error(429, "limit")
    server.ask("DELETE", f"/v1/snapshots/{snapshots(server, t)[0]}", token=t).ok(204)
    assert take("s3")["exit_code"] == 0


def test_files_of_a_run_are_no_more_than_the_disk(server, key):
    t = key("disk=100m")
    asked = {"disk": "64m", "command": {"argv": ["truncate", "-s", "80m", "/tmp/f"]}, "out": ["/tmp/f", "/tmp/./f"]}
    first, second = server.ask("POST", "/v1/run", asked, token=t).ok().json["outputs"]
    assert first["bytes"] == 80 << 20 and second["bytes"] < 40 << 20 and second["error"]
    body = b"\r\n".join([b"--x", b'Content-Disposition: form-data; name="in"; filename="/tmp/f"', b"",
                         bytes(101 << 20), b"--x--", b""])
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    server.ask("POST", "/v1/run", body, token=t, headers=form).error(413, "too_large")


def test_nothing_is_spooled_below_the_reserve(new_home):
    other = new_home()
    t = other("key", "create", "k", "--quota", "boxes=1").ok().text.strip()
    full = Server(other, "--disk-reserve", "4000t")
    try:
        asked = {"command": {"argv": ["true"]}, "in": [{"to": "/tmp/f", "text": "x"}]}
        full.ask("POST", "/v1/run", asked, token=t).error(507, "full")
        full.ask("POST", "/v1/workspaces/import?name=w", b"x", token=t).error(507, "full")
    finally:
        full.end()


def test_what_only_the_operator_may(server, cove, key, tmp):
    """Trust in a directory of the host; to read what is noted in the default policy."""
    (tmp / "dir").mkdir()
    name = "q" + os.urandom(4).hex()
    t = cove("key", "create", name, "--mount", tmp / "dir").ok().text.strip()
    policy = tmp / "policy.yaml"
    policy.write_text("# for the lab in room 4\nversion: 1\nrules:\n  - allow: example.com  # Ada asked\n")
    try:
        shared = {"name": "b", "workspace": str(tmp / "dir"), "copy": True}
        server.ask("POST", "/v1/boxes", {**shared, "trust_dir": True}, token=t).error(403, "denied")
        server.ask("PUT", "/v1/sessions/s", {"trust_dir": True}, token=t).error(403, "denied")
        server.ask("POST", "/v1/boxes", {**shared, "trust_dir": False}, token=t).ok(201)
        server.ask("POST", "/v1/merge", {"from": "b", "trust_dir": True}, token=t).error(403, "denied")
        server.ask("POST", "/v1/merge", {"from": "b"}, token=t).ok()
        remove(server, t, "b")
        server.ask("PUT", "/v1/policies/default", {"net": str(policy)}).ok(204)
        create(server, t, "b").ok(201)
        texts = [server.ask("GET", "/v1/policies/default", token=t).ok().json["text"],
                 server.ask("GET", "/v1/boxes/b/policy", token=t).ok().json["policy"]]
        for text in texts:
            assert "allow: example.com" in text and "lab" not in text and "Ada" not in text
        assert "Ada" in server.ask("GET", "/v1/policies/default").ok().json["text"]
        own = "version: 1\nrules: []  # mine\n"
        server.ask("PUT", "/v1/boxes/b/policy", {"policy": own}, token=t).ok()
        assert own in server.ask("GET", "/v1/boxes/b/policy", token=t).ok().json["policy"]
    finally:
        server.ask("PUT", "/v1/policies/default", {"net": "balanced"}).ok(204)
        server.ask("DELETE", "/v1/boxes/b?force=1", token=t)
        cove("key", "rm", name)
