"""Over HTTP: archives, pulls and builds of images, changes of boxes, one-shot runs with files; hostile ones, too."""
import base64
import io
import os
import pathlib
import socket
import tarfile

import pytest

from conftest import wait_until
import registry
from registry import tar_of
from server import Server

pytestmark = pytest.mark.once("root")
TAR = {"Content-Type": "application/x-tar"}


@pytest.fixture(scope="module")
def server(session_cove):
    made = Server(session_cove)
    yield made
    made.end()


@pytest.fixture
def key(server, cove):
    """Makes keys; they are revoked after the test."""
    made = []

    def make(*flags):
        made.append("i" + os.urandom(4).hex())
        return cove("key", "create", made[-1], *flags).ok().text.strip()

    yield make
    for name in made:
        cove("key", "rm", name)


def form(*parts):
    """A multipart/form-data body of (name, filename, bytes), and its header."""
    boundary = "b" + os.urandom(8).hex()
    body = b"".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode() +
                    (f'; filename="{file}"'.encode() if file else b"") + b"\r\n\r\n" + data + b"\r\n"
                    for name, file, data in parts)
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def left_of(cove):
    """What a call that was ended could have left."""
    return sorted(str(p) for p in pathlib.Path(cove.home).glob("layers/.new-*"))


def test_an_archive_goes_in_and_out_and_is_the_keys_own(server, key):
    mine, other = key(), key()
    files = tar_of({"etc/motd": b"hello\n", "bin/x": (0o755, b"#!")})
    made = server.ask("POST", "/v1/images/import?name=ghcr.io/acme/small:2", files, token=mine).ok(201).json["images"]
    assert [i["name"] for i in made] == ["ghcr.io/acme/small:2"] and made[0]["layers"] == 1
    one = "/v1/images/ghcr.io%2Facme%2Fsmall:2"
    assert server.ask("GET", one, token=mine).ok().json["name"] == "ghcr.io/acme/small:2"
    archive = server.ask("GET", f"{one}/export?format=docker", token=mine).ok()
    with tarfile.open(fileobj=io.BytesIO(archive.body)) as t:
        assert "manifest.json" in t.getnames()
    rootfs = server.ask("GET", f"{one}/export?format=tar", token=mine).ok().body
    with tarfile.open(fileobj=io.BytesIO(rootfs)) as t:
        assert t.extractfile("etc/motd").read() == b"hello\n"
    for path in (one, f"{one}/export", f"{one}/history"):
        server.ask("GET", path, token=other).error(404, "not_found")
    server.ask("DELETE", one, token=other).error(404, "not_found")
    server.ask("POST", f"{one}/tags", {"tag": "x"}, token=other).error(404, "not_found")
    server.ask("GET", f"{one}/export?format=oci-dir", token=mine).error(400, "invalid")
    again = server.ask("POST", "/v1/images/import?name=again", archive.body, token=mine,
                       headers={"Accept": "text/event-stream"}).ok()
    assert b"event: result" in again.body and b'"name":"again"' in again.body
    for name in ("again", "ghcr.io%2Facme%2Fsmall:2"):
        server.ask("DELETE", f"/v1/images/{name}", token=mine).ok(204)


def test_uploads_that_are_bad_or_half_sent_leave_nothing(server, cove, key):
    mine = key()
    before = server.ask("GET", "/v1/images").ok().json["images"]
    for body in (b"", b"\0" * 100, os.urandom(5000), tar_of({"a": b"x" * 9000})[:5000]):
        server.ask("POST", "/v1/images/import?name=bad", body, token=mine).error(400, "invalid")
    server.ask("POST", "/v1/images/import", tar_of({"a": b"x"}), token=mine).error(400, "invalid")
    for name in ("..", "a%20b", "host", "%2Fetc", "x" * 300):
        assert server.ask("POST", f"/v1/images/import?name={name}", tar_of({"a": b"x"}), token=mine).status == 400, name
    server.ask("POST", "/v1/images/import?name=big&max_size=10", tar_of({"a": b"x" * 9000}), token=mine).error(429)
    for path in ("/v1/images/import?name=half", "/v1/builds?name=half", "/v1/snapshots/import?name=half"):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.path)
            s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n"
                      "Content-Length: 100000\r\n\r\n".encode() + tar_of({"f": b"y" * 30000})[:20000])
    wait_until(lambda: not left_of(cove) and not server_work(server))
    assert server.ask("GET", "/v1/images").ok().json["images"] == before


def server_work(server):
    """Helpers and builds that the server runs now."""
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return [c for c in children if b"cove-store" in pathlib.Path(f"/proc/{c}/cmdline").read_bytes()]


def test_a_keys_images_are_counted(server, key):
    mine = key("--quota", "images=2")
    for name in ("one", "two", "two"):
        server.ask("POST", f"/v1/images/import?name={name}", tar_of({"a": name.encode()}), token=mine).ok(201)
    server.ask("POST", "/v1/images/import?name=three", tar_of({"a": b"3"}), token=mine).error(429, "limit")
    server.ask("POST", "/v1/images/one/tags", {"tag": "three"}, token=mine).error(429, "limit")
    server.ask("POST", "/v1/builds", {"name": "three", "text": "FROM one\n"}, token=mine).error(429, "limit")
    server.ask("DELETE", "/v1/images/two", token=mine).ok(204)
    names = ["two", "three", "four"]  # one is there, one more may be
    for count in (3, 2):
        asked = {"name": "one", "names": names[:count], "text": "FROM one\n"}
        server.ask("POST", "/v1/builds", asked, token=mine).error(429, "limit")
    server.ask("POST", "/v1/builds", {**asked, "names": ["two", "two"]}, token=mine).ok(201)
    made = [i["name"] for i in server.ask("GET", "/v1/images", token=mine).ok().json["images"]]
    assert set(made) & {"one", "two", "three", "four"} == {"one", "two"}
    for name in ("one", "two"):
        server.ask("DELETE", f"/v1/images/{name}", token=mine).ok(204)


def test_a_keys_pull_reaches_no_private_registry(server, key):
    mine = key()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        port = listener.getsockname()[1]
        for ref in (f"127.0.0.1:{port}/x", f"localhost:{port}/x", f"[::1]:{port}/x", "169.254.169.254/x"):
            assert server.ask("POST", "/v1/images/pull", {"ref": ref}, token=mine).status in (400, 403), ref
        server.ask("POST", "/v1/images/pull", {"ref": f"127.0.0.1:{port}/x", "insecure": True}, token=mine).error(403)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_pull_says_how_far_it_is(server):
    image = registry.Image([{"a": b"1"}, {"b": b"2"}])
    with registry.Scripted({("team/x", "latest"): image}) as source:
        asked = {"ref": f"{source.url.split('//')[1]}/team/x", "name": "pulled:1"}
        said = list(server.events("POST", "/v1/images/pull", asked))
        assert {name for name, _ in said[:-1]} == {"progress"} and said[-1][0] == "result"
        assert said[-1][1]["name"] == "pulled:1" and said[-1][1]["digest"] == image.digest
        assert server.ask("POST", "/v1/images/pull", asked).ok(201).json["layers_there"] == 2
        asked["ref"] += ":none"
        server.ask("POST", "/v1/images/pull", asked).error(404, "not_found")
    server.ask("DELETE", "/v1/images/pulled:1").ok(204)


def test_a_build_of_a_context(server, cove, key):
    mine, other = key(), key()
    context = tar_of({"Dockerfile": b"FROM base\nUSER root\nARG V\nCOPY dir /in\nRUN --mount=type=secret,id=tok "
                      b"cat /in/f; echo V=$V; sha256sum < /run/secrets/tok\n", "dir/f": b"from the context\n"})
    body, header = form(("options", None, b'{"name": "app:1", "names": ["app:2"], "args": {"V": "7"}}'),
                        ("secret.tok", None, b"decoy-4711"), ("context", "c.tar", context))
    text = server.ask("POST", "/v1/builds", body, token=mine, headers={**header, "Accept": "text/event-stream"})
    text = text.ok().body
    assert b"from the context" in text and b"V=7" in text and b"decoy" not in text and b"event: result" in text
    assert "decoy" not in open(server.log).read()
    assert {"app:1", "app:2"} <= {i["name"] for i in server.ask("GET", "/v1/images", token=mine).ok().json["images"]}
    # The layer holds what its secret fetched: another key's same build has none of it.
    said = server.ask("POST", "/v1/builds", body, token=other, headers=header).ok(201).json
    assert said["steps"] == 5 and said["cached"] == 0
    assert server.ask("POST", "/v1/builds", body, token=mine, headers=header).ok(201).json["cached"] >= 2
    server.ask("POST", "/v1/builds", {"name": "theirs", "text": "FROM app:9\n"}, token=other).error(404, "not_found")
    failed = server.ask("POST", "/v1/builds?name=bad", tar_of({"Dockerfile": b"FROM base\nRUN echo oh no; exit 3\n"}),
                        token=mine, headers=TAR)
    assert failed.status == 409 and "oh no" in failed.json["error"]["details"]["output"]["text"]
    ran = server.ask("POST", "/v1/run", {"image": "app:1", "command": {"argv": ["cat", "/in/f"]}}, token=mine).ok().json
    assert ran["result"]["stdout"] == "from the context\n"
    for token, names in ((mine, ("app:1", "app:2")), (other, ("app:1", "app:2"))):
        for name in names:
            server.ask("DELETE", f"/v1/images/{name}", token=token).ok(204)
    assert not left_of(cove)


def layers(cove):
    return set(os.listdir(os.path.join(cove.home, "layers")))


def test_a_counted_build_leaves_its_image_alone(server, cove, key):
    """No layer that is in no list and counts for nobody."""
    mine, before = key("--quota", "disk=64m"), layers(cove)
    context = tar_of({"Dockerfile": b"FROM scratch AS one\nCOPY f /a\nFROM scratch\nCOPY --from=one /a /b\n",
                      "bad": b"FROM scratch\nCOPY f /a\nCOPY f /b\nCOPY f /c\n", "f": bytes(5 << 20)})
    url = "/v1/builds?name=app&disk=12m"
    server.ask("POST", url + "&dockerfile=bad", context, token=mine, headers=TAR).error(429, "limit")
    assert layers(cove) == before
    server.ask("POST", url, context, token=mine, headers=TAR).ok(201)
    assert len(layers(cove) - before) == 1
    server.ask("DELETE", "/v1/images/app", token=mine).ok(204)
    server.ask("DELETE", "/v1/images/base", token=mine).error(403, "denied")
    server.ask("DELETE", "/v1/images/none", token=mine).error(404)
    assert layers(cove) == before


def test_what_a_quota_counts_is_kept_or_refused(server, key):
    """Whatever a box says of best effort, and where it says nothing."""
    counted, other = key("--quota", "disk=12g"), key("--quota", "boxes=2")
    for asked in ({"disk": "32m", "best_effort": True}, {"disk": "32m"}, {"best_effort": True}, {}):
        body = {"storage": "plain", **asked}
        server.ask("POST", "/v1/boxes", body, token=counted).error(501, "unsupported")
        server.ask("POST", "/v1/run", {**body, "command": {"argv": ["true"]}}, token=counted).error(501, "unsupported")
    server.ask("POST", "/v1/boxes", {"name": "loose", "storage": "plain"}, token=other).ok(201)
    server.ask("DELETE", "/v1/boxes/loose?force=1", token=other).ok(204)


def test_a_workspaces_disk_is_its_keys_to_pay(server, cove, key):
    """Whatever the file says of it."""
    mine, other = key("--quota", "disk=64m"), key()
    server.ask("POST", "/v1/boxes", {"name": "w", "workspace": "large", "disk": "100m"}, token=other).ok(201)
    server.ask("DELETE", "/v1/boxes/w?force=1", token=other).ok(204)
    file = server.ask("GET", "/v1/workspaces/large/export", token=other).ok().body
    server.ask("POST", "/v1/workspaces/import?name=copy", file, token=mine).ok(201)
    disks = {p.name.split("_")[1]: p.stat().st_size for p in pathlib.Path(cove.home, "workspaces").glob("*_*.img")}
    assert not disks or disks["copy.img"] < 100 << 20 < disks["large.img"]  # what ext4 needs is beside
    asked = {"workspace": "copy", "disk": "16m", "best_effort": True, "command": {"argv": ["true"]}}
    server.ask("POST", "/v1/run", asked, token=mine).error(429, "limit")  # the copy has all of the quota
    server.ask("DELETE", "/v1/workspaces/large", token=other).ok(204)
    server.ask("DELETE", "/v1/workspaces/copy", token=mine).ok(204)


def test_contexts_that_lead_out_are_refused(server, key):
    mine = key()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        link = tarfile.TarInfo("d")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        t.addfile(link)
        t.addfile(tarfile.TarInfo("d/x"), io.BytesIO(b""))
    for context in (out.getvalue(), tar_of({"../x": b""}), b"no tar", b""):
        server.ask("POST", "/v1/builds?name=no", context, token=mine, headers=TAR).error(400, "invalid")
    outside = tar_of({"Dockerfile": b"FROM base\nCOPY ../../etc/passwd /\n"})
    server.ask("POST", "/v1/builds?name=no", outside, token=mine, headers=TAR).error(400, "invalid")
    for query in ("dockerfile=/etc/passwd", "dockerfile=../../../etc/passwd"):
        assert server.ask("POST", f"/v1/builds?name=no&{query}", outside, token=mine, headers=TAR).status in (400, 404)
    for net in ("/etc/passwd", "./x", "policy.yaml", ".."):
        server.ask("POST", f"/v1/builds?name=no&net={net}", outside, token=mine, headers=TAR).error(403, "denied")
    body, header = form(("options", None, b'{"name": "x", "text": "FROM base"}'),
                        ("secret.a,src=/etc/shadow", None, b"x"))
    server.ask("POST", "/v1/builds", body, token=mine, headers=header).error(400, "invalid")


def test_a_client_that_goes_ends_its_build(server, cove):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(server.path)
        body = b'{"name": "long", "text": "FROM base\\nRUN echo begun; sleep 600\\n"}'
        s.sendall(b"POST /v1/builds HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                  b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        got = b""
        while b"begun\\n" not in got:
            got += s.recv(65536)
        assert any("build-" in b["name"] for b in server.ask("GET", "/v1/boxes").ok().json["boxes"])
    wait_until(lambda: not any("build-" in b["name"] for b in server.ask("GET", "/v1/boxes").ok().json["boxes"]))
    server.ask("GET", "/v1/images/long").error(404)


def test_a_client_that_goes_is_on_record_as_it_went(server, key, cove):
    """What a thread goes on with is logged when it is over, and reads nothing of the connection that went."""
    mine = key()
    body = b'{"name": "gone", "image": "no-such-image"}'
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.path)
            s.sendall(b"POST /v1/boxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                      b"Idempotency-Key: g\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (mine.encode(), len(body), body))

    def rows():
        return [r for r in cove("audit", "--json", "cove-api").ok().json if r.get("credential") == mine[5:13]]

    wait_until(lambda: len(rows()) >= 20, "rows of all that went")
    assert {r["verdict"] for r in rows()} == {"failed"} and all(r["status"] >= 400 for r in rows())


def test_a_run_with_files_both_ways(server, key):
    mine = key()
    asked = {"command": {"line": "tr a-z A-Z < in/a > out; mkdir d; echo x > d/x; exit 5", "cwd": "/tmp"},
             "in": [{"to": "/tmp/in/a", "base64": base64.b64encode(b"bytes\n").decode()}], "out": ["out", "d", "none"]}
    said = server.ask("POST", "/v1/run", asked, token=mine).ok().json
    out, d, none = said["outputs"]
    assert said["result"]["exit_code"] == 5 and base64.b64decode(out["base64"]) == b"BYTES\n"
    assert d["type"] == "directory" and tarfile.open(fileobj=io.BytesIO(base64.b64decode(d["base64"]))).getnames()
    assert none["error"]["code"] == "not_found" and "base64" not in none
    body, header = form(("run", None, b'{"command": {"line": "cat /tmp/big > /tmp/o"}, "out": ["/tmp/o"]}'),
                        ("in", "/tmp/big", b"z" * 3000000))
    reply = server.ask("POST", "/v1/run", body, token=mine, headers={**header, "Accept": "multipart/form-data"}).ok()
    assert reply.headers["Content-Type"].startswith("multipart/form-data") and b"z" * 3000000 in reply.body
    killed = server.ask("POST", "/v1/run", {"mem": "64m", "command": {"line": "head -c 200m /dev/zero | tail"}},
                        token=mine)
    assert killed.ok().json["result"]["limit"] == "mem" and "mem" in killed.json["result"]["remedy"]
    true = {"command": {"argv": ["true"]}}
    for bad in ({}, {"command": {}}, {**true, "in": 1}, {**true, "name": "x"}, {**true, "in": [{"to": "x"}]},
                {"command": {"argv": ["true"], "background": True}}, {**true, "in": [{"to": "/x", "base64": "%"}]},
                {**true, "in": [{"to": "/tmp/x", "text": ""}] * 2}):
        server.ask("POST", "/v1/run", bad, token=mine).error(400, "invalid")
    assert server.ask("GET", "/v1/boxes", token=mine).ok().json["boxes"] == []


def test_a_merge_says_its_conflicts(server, key):
    mine, other = key(), key()

    def run(box, line):
        return server.ask("POST", f"/v1/boxes/{box}/exec", {"line": line}, token=mine).ok().json["stdout"]

    server.ask("POST", "/v1/boxes", {"name": "m"}, token=mine).ok(201)
    run("m", "echo 1 > /tmp/f")
    server.ask("POST", "/v1/forks", {"box": "m", "name": "m2"}, token=mine).ok(201)
    run("m2", "echo fork > /tmp/f; echo new > /tmp/n")
    changes = server.ask("POST", "/v1/diff", {"from": "m", "to": "m2", "text": True}, token=mine).ok().json
    assert {c["path"] for c in changes["changes"]} == {"/tmp/f", "/tmp/n"} and "+fork" in str(changes)
    run("m", "echo box > /tmp/f")
    server.ask("POST", "/v1/merge", {"from": "m2", "to": "m"}, token=other).error(404)
    server.ask("POST", "/v1/diff", {"from": "m"}, token=other).error(404)
    refused = server.ask("POST", "/v1/merge", {"from": "m2", "to": "m"}, token=mine).error(409, "conflict")
    assert [c["path"] for c in refused["details"]["changes"] if c["state"] == "conflict"] == ["/tmp/f"]
    done = server.ask("POST", "/v1/merge", {"from": "m2", "to": "m", "prefer": "theirs"}, token=mine).ok().json
    assert done["done"] and run("m", "cat /tmp/f /tmp/n") == "fork\nnew\n"
    server.ask("POST", "/v1/merge", {"from": "m2"}, token=mine).error(400, "invalid")
    for box in ("m", "m2"):
        server.ask("DELETE", f"/v1/boxes/{box}?force=1", token=mine).ok(204)


def test_sessions_are_a_keys_own(server, key):
    mine, other = key(), key()
    one = "/v1/sessions/ticket%204711?prefix=t"
    names = [server.ask("PUT", one, {}, token=t).ok().json for t in (mine, other, mine)]
    assert names[0] == names[2] and names[0]["name"] == names[1]["name"]
    server.ask("PUT", one, {"persistence": "box"}, token=mine).error(409, "conflict")
    server.ask("DELETE", f"{one}&delete=1", token=other).ok(204)
    assert [b["name"] for b in server.ask("GET", "/v1/boxes", token=mine).ok().json["boxes"]] == [names[0]["name"]]
    server.ask("DELETE", one, token=mine).ok(204)
    server.ask("DELETE", one, token=mine).error(404)
    for token in (mine, other):
        server.ask("DELETE", f"/v1/workspaces/{names[0]['name']}", token=token).ok(204)


def test_a_workspace_as_a_file(server, key):
    mine, other = key(), key()
    server.ask("POST", "/v1/boxes", {"name": "w", "workspace": "notes",
                                     "command": {"line": "echo kept > /workspace/f"}}, token=mine).ok(201)
    server.ask("POST", "/v1/boxes/w/snapshots", {"name": "s"}, token=mine).ok(201)
    file = server.ask("GET", "/v1/workspaces/notes/export", token=mine).ok().body
    server.ask("GET", "/v1/workspaces/notes/export", token=other).error(404)
    server.ask("POST", "/v1/workspaces/import?name=copy", file, token=other).ok(201)
    for bad in (file[:-20], file[20:], b""):
        assert server.ask("POST", "/v1/workspaces/import?name=bad", bad, token=other).status in (400, 500)
    assert [w["name"] for w in server.ask("GET", "/v1/workspaces", token=other).ok().json["workspaces"]] == ["copy"]
    asked = {"workspace": "copy", "command": {"argv": ["cat", "/workspace/f"]}}
    got = server.ask("POST", "/v1/run", asked, token=other)
    assert got.ok().json["result"]["stdout"] == "kept\n"
    page = server.ask("GET", "/v1/workspaces?limit=1", token=mine).ok().json
    assert len(page["workspaces"]) == 1 and page["next"] is None
    server.ask("DELETE", "/v1/boxes/w?force=1", token=mine).ok(204)
    server.ask("DELETE", "/v1/snapshots/s", token=mine).ok(204)
    server.ask("DELETE", "/v1/workspaces/notes", token=mine).ok(204)
    server.ask("DELETE", "/v1/workspaces/copy", token=other).ok(204)
