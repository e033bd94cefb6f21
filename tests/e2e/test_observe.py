"""What an operator watches: /metrics and the host's events, also over the end of the server."""
import json
import os
import re

import pytest

from conftest import wait_until
from server import Server

pytestmark = pytest.mark.once("root")


@pytest.fixture(scope="module")
def module_server(session_cove):
    made = Server(session_cove, "--metrics-label", "team")
    yield made
    made.end()


@pytest.fixture
def server(module_server, cove):
    return module_server


@pytest.fixture
def key(cove):
    """Makes keys: (id, token)."""
    made = []

    def make(*flags):
        name = "o" + os.urandom(4).hex()
        made.append(name)
        row = json.loads(cove("key", "create", name, "--json", *flags).ok().text)
        return row["id"], row["token"]

    yield make
    for name in made:
        cove("key", "rm", name)


# ---- reading what Prometheus reads ----

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (-?[0-9.]+|\+Inf|NaN)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')


def parse(text):
    """The text format 0.0.4, strictly: {(name, labels): value}, and each metric's type."""
    assert text.endswith("\n")
    values, types, helped, current = {}, {}, set(), None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in helped, f"{current} comes twice"
            helped.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and name not in types and kind in ("counter", "gauge", "histogram"), line
            types[name] = kind
        else:
            name, labels, value = SAMPLE.match(line).groups()
            base = re.sub("_(bucket|sum|count)$", "", name) if types.get(current) == "histogram" else name
            assert base == current, f"{line} is not below its TYPE"
            assert (types[base] == "counter") == base.endswith("_total"), line
            rest, found = labels or "", []
            while rest:
                at = LABEL.match(rest)
                assert at, line
                found.append((at[1], re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], at[2])))
                rest = rest[at.end():]
            key = (name, tuple(sorted(found)))
            assert key not in values, f"{line} comes twice"
            values[key] = float(value)
    check_histograms(values, types)
    return values


def check_histograms(values, types):
    series = {}
    for (name, labels), value in values.items():
        if name.endswith("_bucket"):
            rest = tuple(x for x in labels if x[0] != "le")
            series.setdefault((name[:-7], rest), []).append((float(dict(labels)["le"].replace("+", "")), value))
    assert {n for n, _ in series} == {n for n, kind in types.items() if kind == "histogram"}
    for (name, labels), buckets in series.items():
        counts = [v for _, v in sorted(buckets)]
        assert counts == sorted(counts) and sorted(buckets)[-1][0] == float("inf")
        assert counts[-1] == values[name + "_count", labels] and (name + "_sum", labels) in values


def metrics(server, token=None):
    reply = server.ask("GET", "/metrics", token=token).ok(200)
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(reply.body.decode())


def figure(values, name, **labels):
    return values.get((name, tuple(sorted(labels.items()))), 0)


def events(server, query="", token=None, **kw):
    """The events that are kept, each with its id."""
    body = server.ask("GET", f"/v1/events?{query}", token=token, **kw).ok(200).body.decode()
    found = []
    for block in filter(None, body.split("\n\n")):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        data = json.loads(fields["data"])
        assert data["type"] == fields["event"] and (data["type"] == "gap" or data["seq"] == int(fields["id"]))
        found.append(data)
    return found


def types_of(rows, box):
    return [r["type"] for r in rows if r.get("box") == box]


def settled(server, box, last, token=None):
    """The events of a box, once the last one expected is there."""
    rows = []

    def there():
        rows[:] = events(server, f"box={box}", token)
        return last in types_of(rows, box)
    wait_until(there, f"{last} of {box}")
    return rows


def make(server, name, token=None, **body):
    server.ask("POST", "/v1/boxes", {"name": name, **body}, token=token).ok(201)


def remove(server, name, token=None):
    server.ask("DELETE", f"/v1/boxes/{name}?force=1", token=token).ok(204)


# ---- metrics ----

def test_figures_are_counted_and_have_the_right_form(server, cove):
    before, name = metrics(server), "m" + os.urandom(4).hex()
    make(server, name, labels={"team": 'a"b\\c\nd', "other": "x"})
    server.ask("POST", f"/v1/boxes/{name}/exec", {"argv": ["sleep", "60"], "timeout": "50ms"}).ok()
    settled(server, name, "limit.hit")
    now = metrics(server)

    def more(metric, **labels):
        return figure(now, metric, **labels) - figure(before, metric, **labels)
    assert more("cove_boxes", state="running") == 1
    assert more("cove_limits_hit_total", limit="timeout") == 1
    assert more("cove_events_total", type="exec.ended") == 1 and more("cove_exec_duration_seconds_count") == 1
    assert more("cove_request_duration_seconds_count", operation="createBox") == 1
    assert more("cove_http_requests_total", operation="createBox", method="POST", route="/v1/boxes", status="201") == 1
    assert figure(now, "cove_label_alive_seconds_total", key="", label="team", value='a"b\\c\nd') > 0
    assert not [k for k in now if ("label", "other") in k[1]]
    assert figure(now, "cove_threads_max") == 32 and figure(now, "cove_http_connections") >= 1
    spin = "while :; do n=$((n+1)); [ $n -lt 200000 ] || break; done"
    server.ask("POST", f"/v1/boxes/{name}/exec", {"line": spin}).ok()
    server.ask("POST", f"/v1/boxes/{name}/stop", {"grace": 0}).ok()
    settled(server, name, "box.stopped")
    used = figure(metrics(server), "cove_cpu_seconds_total", key="")
    remove(server, name)
    # What ended stays counted.
    assert figure(metrics(server), "cove_cpu_seconds_total", key="") >= used > 0


def test_a_key_sees_its_own_figures(server, cove, key):
    (one, token), (two, other), (_, watcher) = key(), key(), key("--scope", "metrics")
    make(server, "mine", token)
    server.ask("POST", "/v1/boxes/mine/exec", {"line": "true"}, token=token).ok()
    settled(server, "mine", "exec.ended", token)
    try:
        mine, theirs, all_ = metrics(server, token), metrics(server, other), metrics(server, watcher)
        assert figure(mine, "cove_boxes", state="running") == 1 and figure(theirs, "cove_boxes", state="running") == 0
        assert figure(mine, "cove_events_total", type="exec.ended") == 1
        assert not figure(theirs, "cove_events_total", type="exec.ended")
        assert figure(mine, "cove_alive_seconds_total", key=one) > 0
        assert one not in str(theirs) and two not in str(mine)
        assert not [k for k in theirs if k[0] == "cove_http_connections"]
        assert figure(all_, "cove_alive_seconds_total", key=one) > 0
        assert figure(all_, "cove_boxes", state="running") >= 1
        assert [k for k in all_ if k[0] == "cove_http_connections"]
        server.ask("GET", "/v1/boxes", token=watcher).error(403, "denied")
    finally:
        remove(server, "mine", token)


def test_made_up_keys_take_no_room(server, key):
    for i in range(20):
        server.ask("GET", "/v1/boxes", token=f"cove_{i:08x}{'0' * 64}").error(401)
    one, token = key()
    server.ask("GET", "/v1/boxes", token=token).ok()
    labels = {"operation": "listBoxes", "method": "GET", "route": "/v1/boxes", "status": "200"}
    assert figure(metrics(server, token), "cove_http_requests_total", **labels) == 1
    assert figure(metrics(server, token), "cove_http_requests_total", operation="none", method="", route="",
                  status="401") == 0


# ---- events ----

def test_a_life_in_order_each_event_once(server, cove):
    name = "e" + os.urandom(4).hex()
    make(server, name, labels={"team": "red"})
    server.ask("POST", f"/v1/boxes/{name}/exec", {"line": "true"}).ok()
    server.ask("POST", f"/v1/boxes/{name}/pause", {}).ok()
    server.ask("POST", f"/v1/boxes/{name}/resume", {}).ok()
    server.ask("POST", f"/v1/boxes/{name}/stop", {"grace": 0}).ok()
    remove(server, name)
    rows = settled(server, name, "box.removed")
    assert types_of(rows, name) == ["box.created", "box.started", "exec.started", "exec.ended", "box.paused",
                                    "box.woken", "box.stopped", "box.removed"]
    assert [r["seq"] for r in rows] == sorted({r["seq"] for r in rows})
    assert all(r["labels"] == {"team": "red"} for r in rows)
    assert rows[6]["data"]["cause"] == "stopped" and rows[2]["data"]["command"] == "true"
    # From a place on, by type, by label; both spellings of the place.
    after = rows[3]["seq"]
    assert types_of(events(server, f"after={after}&box={name}"), name)[0] == "box.paused"
    assert types_of(events(server, f"box={name}", headers={"Last-Event-ID": str(after)}), name)[0] == "box.paused"
    assert types_of(events(server, f"box={name}&type=exec.ended,box.removed"), name) == ["exec.ended", "box.removed"]
    assert types_of(events(server, "label=team%3Dred"), name) == types_of(rows, name)
    assert not types_of(events(server, "label=team%3Dblue"), name) and not events(server, "after=latest")
    for query in ("after=x", "type=nonsense", "follow=perhaps"):
        server.ask("GET", f"/v1/events?{query}").error(400, "invalid")


def test_events_are_ones_own(server, cove, key):
    (one, token), (_, other) = key(), key()
    make(server, "own", token)
    rows = settled(server, "own", "box.started", token)
    remove(server, "own", token)
    assert one not in json.dumps(rows) and rows[0]["box"] == "own"
    assert events(server, "", other) == []
    server.ask("GET", f"/v1/events?box={one}_own", token=other).error(400, "invalid")
    settled(server, f"{one}_own", "box.removed")


def test_a_place_that_is_not_kept_is_told(server, cove):
    newest = events(server)[-1]["seq"] if events(server) else 0
    gap = events(server, f"after={newest + 1000}")[0]
    assert gap["type"] == "gap" and gap["to"] == newest + 1000


@pytest.fixture
def lone(new_home):
    """A server that may be killed, of a state directory of its own."""
    made = Server(new_home())
    yield made
    made.end()


def test_events_and_figures_outlive_the_server(lone):
    make(lone, "kept", image="host")
    seen = [e["seq"] for e in settled(lone, "kept", "box.started")]
    for i in range(3):
        lone.ask("POST", "/v1/boxes/kept/exec", {"line": f"exit {i}"}).ok()
        lone.kill()
        # What happens without a server is told by the next one.
        lone.cove("exec", "kept", "true").ok()
        lone.start()
    def ended():
        return [e for e in events(lone, "box=kept") if e["type"] == "exec.ended"]
    wait_until(lambda: len(ended()) == 6, "all ends")
    rows = events(lone)
    assert [r["seq"] for r in rows] == sorted({r["seq"] for r in rows}) and set(seen) <= {r["seq"] for r in rows}
    assert [e["data"]["exec_id"] for e in ended()] == [1, 2, 3, 4, 5, 6]
    assert [e["data"]["exit_code"] for e in ended()] == [0, 0, 1, 0, 2, 0]
    assert figure(metrics(lone), "cove_events_total", type="exec.ended") == 6
    assert figure(metrics(lone), "cove_events_total", type="box.created") == 1
    lone.stop()
    lone.cove("rm", "-f", "kept").ok()
    lone.start()
    settled(lone, "kept", "box.removed")
    assert figure(metrics(lone), "cove_exec_duration_seconds_count") == 6


# ---- who did what ----

def test_requests_are_in_the_audit_log(server, cove, key):
    one, token = key()
    make(server, "deed", token)
    server.ask("POST", "/v1/boxes/deed/exec", {"line": "true"}, token=token).ok()
    server.ask("PUT", "/v1/boxes/deed/policy", {"net": "closed"}, token=token).ok()
    server.ask("PUT", "/v1/secrets/deed", {"value": "v4lue-of-it"}, token=token).ok()
    server.ask("GET", "/v1/audit", token=token).error(403, "denied")
    server.ask("GET", "/v1/boxes", token=token).ok()
    remove(server, "deed", token)
    text = cove("audit", "cove-api", "--json").ok().text
    rows = [r for r in json.loads(text) if r.get("credential") == one]
    assert [(r["rule"], r["verdict"], r["status"]) for r in rows] == [
        ("createBox", "allow", 201), ("runCommand", "allow", 200), ("setPolicy", "allow", 200),
        ("setSecret", "allow", 204), ("listAudit", "deny", 403), ("removeBox", "allow", 204)]
    assert all(r["by"].startswith("key ") for r in rows) and "v4lue" not in text
    assert [r["host"] for r in rows if "host" in r] == [f"{one}_deed"] * 4
    made = [r for r in json.loads(cove("audit", "cove-keys", "--json").ok().text) if r.get("credential") == one]
    assert [r["rule"] for r in made] == ["create"]
    cove("audit", "verify", "cove-api").ok()
    server.ask("DELETE", "/v1/secrets/deed", token=token).ok(204)
