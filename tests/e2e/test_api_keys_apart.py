"""Over HTTP: what one key cannot reach of another's or of this host's, however it is spelled or forged."""
import pytest

from image_kit import tar, tiny_root
from parcel_kit import lines, member, parcel, with_sum
from test_api_images import key, server  # noqa: F401  fixtures

pytestmark = pytest.mark.once("root")


def forged(image, box="x", at=1, layers=()):
    """A snapshot as a file that says what its writer likes."""
    spec = lines(name="x", image=image, base_user="root", wall="native", net="balanced", created_ms=1)
    text = lines(id="cd" * 32, box=box, storage="plain", spec=spec, box_created_ms=at, created_ms=at, bytes=1, files=1,
                 left_out=0, frozen_us=0, total_us=0, layer=list(layers))
    return parcel(member(lines(what="snapshot", name="x"), with_sum(text)))


@pytest.fixture
def private(server, key):  # noqa: F811
    """A key, and an image of its own as it is called on this machine."""
    alice = key()
    server.ask("POST", "/v1/images/base/tags", {"tag": "private"}, token=alice).ok(204)
    yield alice, f"{alice[5:13]}/private"
    server.ask("DELETE", "/v1/images/private", token=alice).ok(204)


def requests(image):
    """All that takes the name of an image to begin with."""
    one = f"/v1/images/{image.replace('/', '%2F')}"
    yield from (("GET", one, None), ("GET", f"{one}/history", None), ("GET", f"{one}/export", None))
    yield "POST", f"{one}/tags", {"tag": "mine"}
    yield "PUT", "/v1/pools", {"image": image, "size": 1}
    yield "POST", "/v1/diff", {"from": f"image:{image}", "to": "image:base"}
    yield "POST", "/v1/diff", {"from": "base", "to": image}
    yield "POST", "/v1/boxes", {"image": image}
    yield "POST", "/v1/run", {"image": image, "command": {"argv": ["true"]}}
    yield "PUT", "/v1/sessions/s", {"image": image}
    yield "POST", "/v1/builds", {"name": "mine", "text": f"FROM {image}\nRUN true\n"}
    yield "POST", "/v1/builds", {"name": "mine", "text": f"FROM base\nCOPY --from={image} /etc /x\n"}


def test_no_spelling_reaches_another_keys_image(server, key, private):  # noqa: F811
    alice, name = private
    bob = key()
    for image in (name, f"docker.io/{name}", f"docker.io/{name}:latest", f"docker.io/docker.io/{name}"):
        for method, path, body in requests(image):
            assert server.ask(method, path, body, token=bob).status in (400, 404), (method, path, body)
    own = server.ask("GET", "/v1/images/docker.io%2Flibrary%2Fprivate:latest", token=alice).ok().json
    assert own["name"] == "private"
    assert server.ask("GET", "/v1/boxes", token=bob).ok().json["boxes"] == []
    assert server.ask("GET", "/v1/pools", token=bob).ok().json["pools"] == []


def test_no_spelling_reaches_this_hosts_files(server, key):  # noqa: F811
    mine = key()
    for image in ("host", "host:latest", "docker.io/host", "library/host", "docker.io/library/host:latest"):
        for method, path, body in requests(image):
            status = server.ask(method, path, body, token=mine).status
            assert status in (400, 403) or path == "/v1/builds" and status >= 400, (method, path, body)
        server.ask("POST", "/v1/images/base/tags", {"tag": image}, token=mine).error(400, "invalid")
    server.ask("POST", "/v1/boxes", {"image": "docker.io/docker.io/host"}, token=mine).error(400, "invalid")


def test_who_uses_a_keys_image_is_not_said_to_it(server, private):  # noqa: F811
    alice, name = private
    server.ask("POST", "/v1/boxes", {"name": "theirs", "image": name}).ok(201)
    assert "theirs" not in str(server.ask("DELETE", "/v1/images/private", token=alice).error(409, "conflict"))
    server.ask("DELETE", "/v1/boxes/theirs?force=1").ok(204)


def test_a_forged_snapshot_brings_no_image(server, key, private):  # noqa: F811
    bob = key()
    for image in (private[1], "base", "host", "library/host", "(imported)"):
        reply = server.ask("POST", "/v1/snapshots/import?name=z", forged(image), token=bob)
        reply.error(400)
    layers = ["ab" * 32]
    server.ask("POST", "/v1/snapshots/import?name=z", forged("host", layers=layers), token=bob).error(400)
    # A real one stands on its layers, and has the name of no image.
    server.ask("POST", "/v1/images/import?name=tiny", tar(*tiny_root()), token=bob).ok()
    server.ask("POST", "/v1/boxes", {"name": "b", "image": "tiny"}, token=bob).ok(201)
    server.ask("POST", "/v1/boxes/b/snapshots", {"name": "s"}, token=bob).ok(201)
    file = server.ask("GET", "/v1/snapshots/s/export", token=bob).ok().body
    server.ask("POST", "/v1/snapshots/import?name=z", file, token=bob).ok(201)
    server.ask("POST", "/v1/forks", {"snapshot": "z", "name": "f"}, token=bob).ok(201)
    assert server.ask("GET", "/v1/boxes/f", token=bob).ok().json["image"] == "(imported)"
    ran = server.ask("POST", "/v1/boxes/f/exec", {"argv": ["/bin/sh", "-c", ":"]}, token=bob).ok().json
    assert ran["exit_code"] == 0
    server.ask("POST", "/v1/boxes", {"image": "(imported)"}, token=bob).error(400, "invalid")
    for path in ("boxes/b?force=1", "boxes/f?force=1", "snapshots/s", "snapshots/z", "images/tiny"):
        server.ask("DELETE", f"/v1/{path}", token=bob).ok(204)


def test_imported_snapshots_push_out_nobodys(server, cove, key):  # noqa: F811
    alice, bob = key(), key()
    server.ask("POST", "/v1/boxes", {"name": "b"}, token=alice).ok(201)
    server.ask("POST", "/v1/boxes/b/snapshots", {"name": "own", "keep": 2}, token=alice).ok(201)
    full = f"{alice[5:13]}_b"
    made = cove.inspect(full)["created_ms"]
    layers = cove("snapshot", "inspect", f"{alice[5:13]}_own", "--json").ok().json["layers"]
    for name in ("x", "y"):
        server.ask("POST", f"/v1/snapshots/import?name={name}", forged("base", full, made, layers), token=bob).ok(201)
    said = server.ask("GET", "/v1/snapshots/x", token=bob).ok().json
    assert said["box"] == "x" and said["id"] != "cd" * 32 and said["created_ms"] > 1
    assert server.ask("POST", "/v1/snapshots/prune", {}, token=alice).ok().json["removed"] == 0
    assert [s["name"] for s in server.ask("GET", "/v1/snapshots", token=alice).ok().json["snapshots"]] == ["own"]
    for path, token in (("boxes/b?force=1", alice), ("snapshots/own", alice), ("snapshots/x", bob),
                        ("snapshots/y", bob)):
        server.ask("DELETE", f"/v1/{path}", token=token).ok(204)
