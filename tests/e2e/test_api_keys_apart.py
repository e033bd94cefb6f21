"""Over HTTP: what one key cannot reach of another's or of this host's, however it is spelled or forged."""
import pytest

from test_api_images import key, server  # noqa: F401  fixtures

pytestmark = pytest.mark.once("root")


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
