"""docs/api/openapi.yaml is true: every operation of it is driven from it, well and badly, and by a key that may not."""
import io
import os
import pathlib
import re
import tarfile

import pytest

from server import Server

yaml = pytest.importorskip("yaml", reason="no python3-yaml")
pytestmark = pytest.mark.once("root")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SPEC = yaml.safe_load((ROOT / "docs/api/openapi.yaml").read_text())
METHODS = ("get", "put", "post", "patch", "delete")
OPERATIONS = {o["operationId"]: (method.upper(), path, {**o, "parameters": item.get("parameters", []) +
                                                       o.get("parameters", [])})
              for path, item in SPEC["paths"].items() for method, o in item.items() if method in METHODS}


def deref(node):
    """What a $ref stands for."""
    while "$ref" in node:
        where, node = node["$ref"][2:].split("/"), SPEC
        for part in where:
            node = node[part]
    return node


def fits(value, schema, where="answer"):
    """Whether a value is what the schema says: as much of JSON Schema as the file uses."""
    schema = deref(schema)
    if value is None and schema.get("nullable"):
        return
    if "anyOf" in schema:
        for one in schema["anyOf"]:
            try:
                return fits(value, one, where)
            except AssertionError:
                continue
        raise AssertionError(f"{where}: {value!r} is none of them")
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}
    if "type" in schema:
        assert isinstance(value, kinds[schema["type"]]), f"{where}: {value!r} is no {schema['type']}"
    assert value in schema.get("enum", [value]), f"{where}: {value!r}"
    for name in schema.get("required", []):
        assert name in value, f"{where}: no {name}"
    for name, inner in schema.get("properties", {}).items():
        if name in (value if isinstance(value, dict) else ()):
            fits(value[name], inner, f"{where}.{name}")
    for i, one in enumerate(value if "items" in schema and isinstance(value, list) else ()):
        fits(one, schema["items"], f"{where}[{i}]")


def small_tar():
    """A root filesystem of one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo("hello")
        info.size = 3
        t.addfile(info, io.BytesIO(b"hi\n"))
    return out.getvalue()


class World:
    """A box with all that an operation may ask for, of the operator or of a key."""

    def __init__(self, server, cove, token=None):
        self.server, self.token = server, token
        tail = os.urandom(3).hex()
        self.box, self.snapshot, self.workspace = f"api-{tail}", f"snap-{tail}", f"ws-{tail}"
        self.ask("POST", "/v1/boxes", {"name": self.box, "workspace": self.workspace}).ok()
        self.ask("POST", f"/v1/boxes/{self.box}/exec", {"line": "echo one two > /tmp/f; mkdir -p /tmp/d"}).ok()
        self.ask("POST", f"/v1/boxes/{self.box}/exec", {"line": "true", "shell": "default"}).ok()
        self.ask("POST", f"/v1/boxes/{self.box}/snapshots", {"name": self.snapshot}).ok()
        self.image, self.key, self.session = f"image-{tail}", f"key-{tail}", f"session {tail}"
        self.ask("POST", f"/v1/images/import?name={self.image}", small_tar()).ok(201)
        self.values = {"image": self.image, "key": self.key, "session": f"session%20{tail}", "policy": "closed",
                       "box": self.box, "exec": "1", "snapshot": self.snapshot, "workspace": self.workspace,
                       "shell": "default", "secret": "api_test", "ask": "1", "port": "1", "path": "x",
                       "webhook": "0" * 16}

    def ask(self, method, path, body=None, **kw):
        return self.server.ask(method, path, body, token=self.token, **kw)

    def path_of(self, template, query=""):
        return re.sub(r"\{(\w+)\}", lambda m: self.values[m[1]], template) + (f"?{query}" if query else "")

    def end(self):
        self.ask("DELETE", f"/v1/boxes/{self.box}?force=1")
        self.ask("DELETE", f"/v1/boxes/{self.box}-fork?force=1")
        for s in self.ask("GET", f"/v1/snapshots?box={self.box}").ok().json["snapshots"]:
            self.ask("DELETE", f"/v1/snapshots/{s['name']}").ok()
        for w in (self.workspace, f"{self.box}-fork"):
            self.ask("DELETE", f"/v1/workspaces/{w}")
        self.ask("DELETE", "/v1/secrets/api_test")
        self.ask("DELETE", self.path_of("/v1/sessions/{session}", "delete=1"))
        for i in self.ask("GET", "/v1/images").ok().json["images"]:
            if i["name"].startswith(self.image) or i["name"] == f"{self.box}-saved":
                self.ask("DELETE", f"/v1/images/{i['name']}").ok()


UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "A" * 22 + "=="}

# Of each operation: the query, the body, and what it answers; None: it is a stream, looked at for its status alone.
GOOD = {
    "getMetrics": ("", None, 200), "followEvents": ("", None, 200),
    # What they do to one that is there is in test_webhooks.py.
    "createWebhook": ("", {"url": "https://hooks.test/x", "types": ["box.stopped"], "label": "no=such"}, 201),
    "listWebhooks": ("", None, 200), "getWebhook": ("", None, 404), "enableWebhook": ("", {}, 404),
    "removeWebhook": ("", None, 404),
    "getHealth": ("", None, 200), "getVersion": ("", None, 200), "listBoxes": ("limit=5", None, 200),
    "getBox": ("", None, 200), "setBoxTimes": ("", {"ttl": "1h"}, 200), "startBox": ("", {}, 200),
    "getBoxStats": ("", None, 200), "runCommand": ("", {"argv": ["true"]}, 200), "listCommands": ("", None, 200),
    "waitCommand": ("timeout=5s", None, 200), "readOutput": ("", None, 200), "listShells": ("", None, 200),
    "listEvents": ("", None, 200), "readFile": ("path=/tmp/f", None, 200), "writeFile": ("path=/tmp/g", b"x", 200),
    "statFile": ("path=/tmp/f", None, 200), "listFiles": ("path=/tmp", None, 200),
    "makeDirectory": ("path=/tmp/x/y", {}, 204), "setFileMode": ("path=/tmp/f", {"mode": "600"}, 204),
    "readLines": ("path=/tmp/f&count=5", None, 200), "globFiles": ("path=/tmp&pattern=f", None, 200),
    "editFile": ("path=/tmp/f", {"edits": [{"old": "one", "new": "1"}]}, 200),
    "grepFiles": ("path=/tmp/f&pattern=two", None, 200), "moveFile": ("path=/tmp/f", {"to": "/tmp/h"}, 204),
    "removeFile": ("path=/tmp/h", None, 204), "createSnapshot": ("", {}, 201), "listSnapshots": ("", None, 200),
    "getSnapshot": ("", None, 200), "fork": ("", {}, 201), "listImages": ("", None, 200),
    "listWorkspaces": ("", None, 200), "getPolicy": ("", None, 200), "setPolicy": ("", {"net": "closed"}, 200),
    "grant": ("", {"allow": "example.org", "for": "1m"}, 200), "listAsks": ("", None, 200),
    "setSecret": ("", {"value": "s3cr3t"}, 204), "listSecrets": ("", None, 200), "removeSecret": ("", None, 204),
    "callPort": ("", None, 502), "listPorts": ("", None, 200), "linkPort": ("", {"port": 80}, 501),
    "listAudit": ("limit=10", None, 200), "signalCommand": ("", {"signal": "TERM"}, None),
    "removeShell": ("force=1", None, 204),
    "getImage": ("", None, 200), "getImageHistory": ("", None, 200), "exportImage": ("format=tar", None, 200),
    "tagImage": ("", {"tag": "IMAGE-tag"}, 204), "importImage": ("name=IMAGE-import", small_tar(), 201),
    "saveImage": ("", {"image": "BOX-saved"}, 201), "collectImages": ("", {"dry_run": True}, 200),
    "diff": ("", {"from": "BOX", "text": True}, 200), "openSession": ("", {}, 200),
    "closeSession": ("delete=1", None, 204), "tagSnapshot": ("", {"tag": "SNAPSHOT-tag"}, 204),
    "setSnapshotRule": ("", {"keep": 100, "max_age": "90d"}, 200), "getSnapshotRule": ("", None, 200),
    "setImageSnapshotRule": ("", {"keep": 100}, 200), "getImageSnapshotRule": ("", None, 200),
    "pruneSnapshots": ("", {}, 200), "listPolicyGroups": ("", None, 200), "getNamedPolicy": ("", None, 200),
    "setDefaultPolicy": ("", {"net": "balanced"}, 204), "checkPolicy": ("", {"policy": "version: 1\nrules: []\n"}, 200),
    "suggestPolicy": ("", None, 200), "verifyAudit": ("", {"box": "BOX"}, 200),
    "removeAudit": ("before_ms=1", None, 200), "getAuditKeep": ("", None, 200),
    "setAuditKeep": ("", {"keep": 0}, 200), "getDiskUsage": ("", None, 200),
    "pruneSystem": ("", {"dry_run": True}, 200), "verifySystem": ("", {}, 200), "reapSystem": ("", None, 200),
    "listWalls": ("", None, 200), "setLeastWall": ("", {"wall": "any"}, 204), "listKeys": ("limit=5", None, 200),
    "createKey": ("", {"name": "KEY", "scopes": ["read"], "quotas": {"boxes": "2"}}, 201), "getKey": ("", None, 200),
    "removeKey": ("", None, 204), "stopBox": ("", {"grace": 0}, 200), "rollBack": ("", {}, 200),
    "setPool": ("", {"image": "host", "size": 1}, 204), "listPools": ("", None, 200),
    "removePool": ("image=host", None, 204), "removeSnapshot": ("", None, 204), "removeBox": ("force=1", None, 204),
    "removeWorkspace": ("", None, None),
    # What a snapshot of the base image's box holds is much; test_api_images.py exports a workspace, which is the same.
    "exportSnapshot": ("", None, 404), "importSnapshot": ("name=no", b"", 400), "exportWorkspace": ("", None, None),
    "importWorkspace": ("name=no", b"no file of Cove's", 400),
    "buildImage": ("", {"name": "IMAGE-built", "text": "FROM IMAGE\nENV A=1\n"}, 201),
    "run": ("", {"command": {"line": "cat < /tmp/i"}, "in": [{"to": "/tmp/i", "text": "x"}], "out": ["/tmp/i"]}, 200),
    "removeImage": ("", None, 204),
    # These are tried elsewhere as a whole: test_serve.py and test_api_images.py have them.
    "pullImage": ("", {"ref": "127.0.0.1:1/x"}, None), "merge": ("", {"from": "BOX"}, 404),
    "createBox": ("", {"name": "api-made"}, 201), "pauseBox": ("", {}, None), "resumeBox": ("", {}, None),
    "openCommand": ("", None, 400), "watchFiles": ("path=/nowhere", None, 404), "answerAsk": ("", {"allow": True}, 404),
    "joinCommand": ("", None, 400),
}


def told(world, value):
    """Of a query or a body: names stand for the world's."""
    if isinstance(value, dict):
        return {k: told(world, v) for k, v in value.items()}
    names = {"BOX": world.box, "SNAPSHOT": world.snapshot, "IMAGE": world.image, "KEY": world.key}
    return re.sub("BOX|SNAPSHOT|IMAGE|KEY", lambda m: names[m[0]], value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def server(session_cove):
    made = Server(session_cove)
    yield made
    made.end()


@pytest.fixture
def world(server, cove):
    made = World(server, cove)
    yield made
    made.end()


def test_the_file_and_the_routes_are_the_same():
    rows = re.findall(r'\{"(GET|PUT|POST|PATCH|DELETE|\*)",\s*"([^"]+)",\s*"(\w+)"',
                      "\n".join(p.read_text() for p in (ROOT / "src/api").glob("*.c")))
    # Any method is one operation of the file; the name of a port (port_host.c) is no path.
    rows = [("GET" if m == "*" else m, p.replace("*}", "}"), i) for m, p, i in rows if p]
    assert {(m, p, i) for m, p, i in rows} == {(m, p, i) for i, (m, p, _) in OPERATIONS.items()}
    assert set(GOOD) == set(OPERATIONS)


def test_the_file_is_well_formed():
    """A comma that is not quoted makes two keys of one sentence, and YAML has nothing against it."""
    def look(node, where, is_names=False):
        if isinstance(node, list):
            for i, one in enumerate(node):
                look(one, f"{where}[{i}]")
        for key, value in node.items() if isinstance(node, dict) else ():
            assert isinstance(key, str) and not re.search(r"[\s,]|[.]$", key), f"{where}: {key!r} is no key"
            assert value is not None, f"{where}.{key} has no value"
            assert is_names or key not in ("description", "summary") or isinstance(value, str), f"{where}.{key}"
            look(value, f"{where}.{key}", key == "properties" and not is_names)
    look(SPEC, "")
    # Every answer has the description that OpenAPI asks for.
    for name, (_, _, spec) in OPERATIONS.items():
        for status, answer in spec["responses"].items():
            assert isinstance(deref(answer).get("description"), str), (name, status)


def test_every_verb_has_its_operations_or_a_reason(cove):
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in
            (ROOT / "docs/api/verbs.md").read_text().splitlines() if line.startswith("| ") and "---" not in line][1:]
    verbs = {v.strip() for names, _ in rows for v in names.split(",")}
    listed = [v for v in re.findall(r"^  ([a-z]+)", cove("help").ok().text, re.M) if v != "cove"]
    assert len(listed) > 40
    for verb in listed:
        own = re.search(rf"^cove {verb} ([a-z|-]+) \.\.\.", cove("help", verb).ok().text)
        for name in [f"{verb} {second}" for second in own[1].split("|")] if own else [verb]:
            assert name in verbs or (not own and any(v.startswith(name + " ") for v in verbs)), name
    said = set(re.findall(r"\w+", " ".join(operations for _, operations in rows)))
    missing = {name for name in OPERATIONS if name not in said}
    assert not {m for m in missing if not re.search(r"[pP]ort|[pP]ool|[mM]etric|[wW]ebhook|Event", m)}, missing


def test_every_operation_answers_as_the_file_says(world):
    for name, (query, body, status) in GOOD.items():
        method, template, spec = OPERATIONS[name]
        query, body = told(world, query), told(world, body)
        if name == "fork":
            body = {"box": world.box, "name": f"{world.box}-fork"}
        elif name == "rollBack":
            body = {"snapshot": world.snapshot}
        elif name == "createBox":
            body = {"name": f"{world.box}-made"}
        reply = world.ask(method, world.path_of(template, query), body)
        assert status in (None, reply.status), (name, reply.status, reply.body[:500])
        said = spec["responses"].get(str(reply.status)) or spec["responses"]["default"]
        content = deref(said).get("content", {})
        kind = (reply.headers["Content-Type"] or "").split(";")[0]
        assert not content or kind in content, (name, kind)
        if kind == "application/json":
            fits(reply.json, content[kind]["schema"], name)
    world.ask("DELETE", f"/v1/boxes/{world.box}-made?force=1")


def test_what_the_file_does_not_know_is_refused(world):
    for name, (method, template, spec) in OPERATIONS.items():
        content = spec.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            continue
        for body in (b"{", b'{"no_such_key": 1}', b"[1]", b'"x"'):
            kind = {"Content-Type": "application/json"}
            world.ask(method, world.path_of(template, "path=/tmp/f"), body, headers=kind).error(400, "invalid")


def test_another_key_reaches_nothing(server, cove):
    names = ["a" + os.urandom(4).hex(), "b" + os.urandom(4).hex()]
    scopes = ["--scope", "read,run,images,network,secrets,audit"]
    mine, other = (cove("key", "create", n, *scopes).ok().text.strip() for n in names)
    world = World(server, cove, mine)
    try:
        before = world.ask("GET", f"/v1/boxes/{world.box}").ok().json
        for name, (query, body, _) in GOOD.items():
            method, template, _ = OPERATIONS[name]
            own = re.search(r"\{(secret|session|policy|key)\}", template)
            if own or ("{" not in template and name not in ("diff", "merge", "verifyAudit")):
                continue
            query, body = told(world, query), told(world, {"snapshot": world.snapshot} if name == "rollBack" else body)
            reply = server.ask(method, world.path_of(template, query.replace("force=1", "force=0")), body, token=other)
            assert reply.status in (400, 404), (name, reply.status, reply.body[:300])
        for source in ({"box": world.box}, {"snapshot": world.snapshot}):
            server.ask("POST", "/v1/forks", source, token=other).error(404)
        for path in ("/v1/system/df", "/v1/keys", "/v1/audit/keep"):
            server.ask("GET", path, token=other).error(403, "denied")
        assert world.image not in str(server.ask("GET", "/v1/images", token=other).ok().json)
        for path in ("/v1/boxes", "/v1/snapshots", "/v1/workspaces", "/v1/asks", "/v1/audit", "/v1/secrets"):
            assert world.box not in str(server.ask("GET", path, token=other).ok().json)
        full = [b["name"] for b in server.ask("GET", "/v1/boxes").ok().json["boxes"] if b["name"].endswith(world.box)]
        server.ask("GET", f"/v1/boxes/{full[0]}", token=other).error(400)
        assert world.ask("GET", f"/v1/boxes/{world.box}").ok().json["started_ms"] == before["started_ms"]
    finally:
        world.end()
        for n in names:
            cove("key", "rm", n)


def said(reply):
    """What an answer says, without what is its own each time."""
    return reply.status, re.sub(rb'"(request_id|uptime_ms)": *("[^"]*"|[0-9]+)', b"", reply.body)


def test_anothers_name_and_no_name_at_all_have_one_answer(server, cove):
    """Of every operation, its streams and its sockets: nobody learns that something is there."""
    names = ["a" + os.urandom(4).hex(), "b" + os.urandom(4).hex()]
    scopes = ["--scope", "read,run,images,network,secrets,audit"]
    mine, other = (cove("key", "create", n, *scopes).ok().text.strip() for n in names)
    world = World(server, cove, mine)
    there = {**world.values, "workspace": world.workspace}
    # As long, and of no key.
    nowhere = {**there, **{k: there[k][:-2] + "zz" for k in ("box", "snapshot", "workspace")}}
    try:
        for name, (query, body, _) in GOOD.items():
            method, template, _ = OPERATIONS[name]
            if not set(re.findall(r"\{(\w+)\}", template)) & {"box", "snapshot", "workspace"}:
                continue
            for headers in ({}, {"Accept": "text/event-stream"}):
                answers = []
                for values in (there, nowhere):
                    path = re.sub(r"\{(\w+)\}", lambda m: values[m[1]], template) + (f"?{query}" if query else "")
                    text = {"snapshot": values["snapshot"]} if name == "rollBack" else body
                    reply = server.ask(method, path, text, token=other, headers=headers)
                    status, words = said(reply)
                    for k in ("box", "snapshot", "workspace"):
                        words = words.replace(values[k].encode(), k.encode())
                    answers.append((status, words))
                assert answers[0] == answers[1], (name, answers)
                # What is gone already is gone: removing it twice is fine, and was nothing.
                assert answers[0][0] in (400, 404) or name in ("removeBox", "removeWorkspace"), (name, answers)
        words = []
        for values in (there, nowhere):
            reply = server.ask("GET", f"/v1/boxes/{values['box']}/exec", token=other, headers=UPGRADE)
            error = reply.error(404)
            words.append((error["code"], error["message"].replace(values["box"], "box")))
        assert words[0] == words[1] and words[0][0] == "not_found", words
        assert other[5:13] not in words[0][1]  # nor is the id that its names have on this machine
        # Cursors and filters show the asker's own alone; the same request under the same key is another's again.
        for path in (f"/v1/boxes?after={world.box[:-1]}", "/v1/boxes?state=running", f"/v1/snapshots?box={world.box}"):
            assert world.box not in server.ask("GET", path, token=other).ok().body.decode()
        boxes = [server.ask("POST", "/v1/boxes", {"ttl": "1h"}, token=t, headers={"Idempotency-Key": "same"}).ok(201)
                 for t in (mine, other)]
        assert len({b.json["name"] for b in boxes}) == 1
        for t, b in zip((mine, other), boxes):
            server.ask("DELETE", f"/v1/boxes/{b.json['name']}?force=1", token=t).ok()
            server.ask("PUT", "/v1/secrets/same", {"value": "v" + t[-4:]}, token=t).ok()
        server.ask("DELETE", "/v1/secrets/same", token=other).ok()
        assert "same" in [s["name"] for s in server.ask("GET", "/v1/secrets", token=mine).ok().json["secrets"]]
        server.ask("DELETE", "/v1/secrets/same", token=mine).ok()
        world.ask("GET", f"/v1/boxes/{world.box}").ok()
    finally:
        world.end()
        for n in names:
            cove("key", "rm", n)


def test_without_a_good_key_every_operation_says_the_same(server, box):
    seen = set()
    for fields in ({}, {"Authorization": "Bearer cove_" + "0" * 72}):
        for op, (method, template, _) in OPERATIONS.items():
            path = re.sub(r"\{(\w+)\}", lambda m: box if m[1] == "box" else "1", template)
            if op != "getHealth":
                reply = server.ask(method, path, headers=fields, connection=server.connection(tcp=True))
                assert reply.status == 401, (op, reply.status, reply.body)
                seen.add((bool(fields), said(reply)[1]))
    assert len(seen) == 2, seen


def test_a_key_without_a_scope_is_refused(server, cove, box):
    name = "n" + os.urandom(4).hex()
    token = cove("key", "create", name, "--scope", "audit").ok().text.strip()
    values = {"box": box, "exec": "1", "snapshot": "s", "workspace": "w", "shell": "x", "secret": "s", "ask": "1",
              "image": "i", "session": "s", "policy": "closed", "key": "k",
              "port": "1", "path": "x", "webhook": "w"}
    for op, (method, template, _) in OPERATIONS.items():
        if op in ("getHealth", "listAudit", "verifyAudit"):
            continue
        path = re.sub(r"\{(\w+)\}", lambda m: values[m[1]], template)
        server.ask(method, path, b"" if method in ("PUT", "POST", "PATCH") else None, token=token).error(403, "denied")
    cove("key", "rm", name).ok()
