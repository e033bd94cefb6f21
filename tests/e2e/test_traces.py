"""Traces: spans to a real collector, the caller's trace taken in and passed on, and a collector that is not there."""
import http.server
import json
import os
import threading

import pytest

from conftest import wait_until
from server import Server
from test_observe import figure, metrics

pytestmark = pytest.mark.once("root")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    def __init__(self):
        self.spans, self.heads, self.status = [], [], 200
        me = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                me.heads.append((self.path, dict(self.headers)))
                if me.status == 200:
                    me.spans += [s for r in body["resourceSpans"] for x in r["scopeSpans"] for s in x["spans"]]
                self.send_response(me.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def named(self, name):
        return [s for s in self.spans if s["name"] == name]

    def end(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def traced(new_home, tmp_path):
    collector, headers = Collector(), tmp_path / "headers"
    headers.write_text("# of the collector\nX-Key: s3cret-of-it\n")
    server = Server(new_home(), "--otlp", collector.url, "--otlp-headers", str(headers))
    yield server, collector
    server.end()
    collector.end()


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def test_spans_and_the_callers_trace(traced):
    server, collector = traced
    server.ask("POST", "/v1/boxes", {"name": "t", "image": "host"}).ok(201)
    parent = f"00-{TRACE}-{PARENT}-01"
    run = server.ask("POST", "/v1/boxes/t/exec", {"line": "echo $TRACEPARENT"}, headers={"traceparent": parent}).ok()
    version, trace, span, flags = run.json["stdout"].strip().split("-")
    assert (version, trace, flags) == ("00", TRACE, "01") and span != PARENT
    for bad in ("00-" + "0" * 32 + f"-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01", "x",
                f"00-{TRACE}-{PARENT}-01-x", f"00-{TRACE}-{PARENT}"):
        got = server.ask("POST", "/v1/boxes/t/exec", {"line": "echo $TRACEPARENT"}, headers={"traceparent": bad})
        assert got.ok().json["stdout"] == "\n", bad
    own = {"line": "echo $TRACEPARENT", "env": {"TRACEPARENT": "mine"}}
    assert server.ask("POST", "/v1/boxes/t/exec", own, headers={"traceparent": parent}).ok().json["stdout"] == "mine\n"
    server.ask("GET", "/v1/boxes/t/files?path=/etc/hostname").ok()
    wait_until(lambda: len(collector.named("runCommand")) == 8 and collector.named("readFile"), "the spans")
    first = collector.named("runCommand")[0]
    assert (first["traceId"], first["parentSpanId"], first["spanId"]) == (TRACE, PARENT, span)
    assert int(first["startTimeUnixNano"]) <= int(first["endTimeUnixNano"])
    assert attributes(first)["cove.box"] == "t" and attributes(first)["http.response.status_code"] == "200"
    made, = collector.named("createBox")
    assert len(made["traceId"]) == 32 and made["traceId"] != TRACE and "parentSpanId" not in made
    path, heads = collector.heads[0]
    assert path == "/v1/traces" and heads["X-Key"] == "s3cret-of-it" and heads["Content-Type"] == "application/json"
    assert "s3cret" not in open(server.log).read()
    wait_until(lambda: figure(metrics(server), "cove_spans_sent_total") == len(collector.spans), "them to be counted")
    # What the collector does not take is counted, and costs no request anything.
    collector.status = 500
    server.ask("POST", "/v1/boxes/t/exec", {"line": "true"}).ok()
    wait_until(lambda: figure(metrics(server), "cove_spans_dropped_total") == 1, "a span to be dropped")


def test_a_collector_that_is_not_there(new_home):
    cove = new_home(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    server = Server(cove)
    try:
        server.ask("GET", "/v1/boxes/none/files?path=/x").error(404)
        wait_until(lambda: figure(metrics(server), "cove_spans_dropped_total") >= 1, "a span to be dropped")
    finally:
        server.end()
    assert cove("serve", "--otlp", "not-a-url", "--socket", f"/tmp/cove-{os.getpid()}").rc == 2
