"""Webhooks: signed, tried again across the server's end, and what a hostile receiver can do."""
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import wait_until
from server import Server

pytestmark = pytest.mark.once("root")


class Receiver:
    """A real HTTP(S) server on loopback. `answer` may change while it runs: a status, or a function of the handler."""

    def __init__(self, tls=None):
        self.got, self.answer, self.lock = [], 200, threading.Lock()
        me = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with me.lock:
                    me.got.append((dict(self.headers), body))
                if callable(me.answer):
                    me.answer(self)
                    return
                self.send_response(me.answer)
                if 300 <= me.answer < 400:
                    self.send_header("Location", f"http://127.0.0.1:{me.port}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def ids(self):
        with self.lock:
            return [int(h["Cove-Event-Id"]) for h, _ in self.got]

    def events(self):
        with self.lock:
            return [json.loads(b) for _, b in self.got]

    def end(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.end()


@pytest.fixture(scope="module")
def module_server(session_cove):
    made = Server(session_cove, "--webhook-retry", "20ms", "--webhook-failures", "3")
    yield made
    made.end()


@pytest.fixture
def server(module_server, cove):
    yield module_server
    for hook in module_server.ask("GET", "/v1/webhooks").ok().json["webhooks"]:
        module_server.ask("DELETE", f"/v1/webhooks/{hook['id']}").ok(204)


def add(server, url, token=None, **body):
    made = server.ask("POST", "/v1/webhooks", {"url": url, **body}, token=token).ok(201).json
    return made["id"], made["secret"]


def of(server, hook, token=None):
    return server.ask("GET", f"/v1/webhooks/{hook}", token=token).ok(200).json


def make(server, name=None, token=None):
    name = name or "w" + os.urandom(4).hex()
    server.ask("POST", "/v1/boxes", {"name": name, "labels": {"team": "red"}}, token=token).ok(201)
    return name


def line(server, box):
    server.ask("POST", f"/v1/boxes/{box}/exec", {"line": "true"}).ok()


def check_signature(secret, headers, body):
    """As a receiver would: the time is near, and the HMAC is of the time, a dot and the body."""
    fields = dict(part.split("=", 1) for part in headers["Cove-Signature"].split(","))
    assert abs(time.time() - int(fields["t"])) < 300
    expected = hmac.new(secret.encode(), fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(expected, fields["v1"])


def test_events_are_sent_signed_and_in_order(server, receiver):
    before = make(server)
    hook, secret = add(server, receiver.url, types=["exec.started", "exec.ended", "box.removed"])
    assert secret.startswith("whsec_") and "secret" not in of(server, hook)
    box = make(server)
    line(server, box)
    server.ask("DELETE", f"/v1/boxes/{box}?force=1").ok(204)
    wait_until(lambda: len(receiver.got) >= 3, "three deliveries")
    assert [e["type"] for e in receiver.events()] == ["exec.started", "exec.ended", "box.removed"]
    assert receiver.ids() == sorted(receiver.ids()) and all(e["box"] == box for e in receiver.events())
    for headers, body in receiver.got:
        check_signature(secret, headers, body)
        assert headers["Cove-Event-Type"] == json.loads(body)["type"] and headers["Cove-Webhook-Id"] == hook
    wait_until(lambda: of(server, hook)["delivered"] == 3, "its state")
    assert [d["status"] for d in of(server, hook)["deliveries"]] == [200] * 3
    only, _ = add(server, receiver.url, box=before)
    line(server, before)
    wait_until(lambda: of(server, only)["delivered"] == 2, "those of one box")


def test_what_fails_is_tried_again_and_disabled_in_the_end(server, receiver):
    receiver.answer = 503
    box = make(server)
    hook, _ = add(server, receiver.url, types=["exec.ended"])
    line(server, box)
    wait_until(lambda: of(server, hook).get("disabled_ms"), "it to be disabled")
    now = of(server, hook)
    assert now["failures"] == 3 and "503" in now["reason"] and len(set(receiver.ids())) == 1
    assert [d["delivered"] for d in now["deliveries"]] == [False] * 3
    receiver.answer = 200
    line(server, box)
    server.ask("POST", f"/v1/webhooks/{hook}/enable", {}).ok(204)
    wait_until(lambda: of(server, hook)["delivered"] == 2, "the event that failed and the next")
    assert receiver.ids() == sorted(receiver.ids())


def flood(handler):
    """An answer that does not end, as fast as it is read."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * 65536)
    except OSError:
        pass


def reset(handler):
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    handler.connection.close()


def long_head(handler):
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100000)
    except OSError:
        pass


def test_hostile_receivers(server, receiver):
    """A huge answer is not read, a redirect not followed; resets and endless heads are failures; others go on."""
    box, held = make(server), threading.Event()
    bad = [Receiver() for _ in range(4)]
    try:
        for r, answer in zip(bad, (302, reset, long_head, lambda h: held.wait(60))):
            r.answer = answer
        hooks = [add(server, r.url, types=["exec.ended"])[0] for r in bad]
        receiver.answer = flood
        good, _ = add(server, receiver.url, types=["exec.ended"])
        line(server, box)
        wait_until(lambda: of(server, good)["delivered"] == 1, "the good one")
        for hook in hooks[:3]:
            wait_until(lambda: of(server, hook).get("disabled_ms"), "a bad one")
        assert "302" in of(server, hooks[0])["reason"] and len(bad[0].got) == 3
        # One that is slow holds up no request, and nobody else's deliveries.
        line(server, box)
        wait_until(lambda: of(server, good)["delivered"] == 2, "the next")
    finally:
        held.set()
        for r in bad:
            r.end()


def test_a_key_reaches_public_addresses_only_and_its_own_hooks(server, receiver, cove):
    names = ["h" + os.urandom(4).hex() for _ in range(2)]
    mine, other = (cove("key", "create", n).ok().text.strip() for n in names)
    try:
        for url in (receiver.url, "http://example.org/", "https://u:p@example.org/", "ftp://example.org/",
                    "https://example.org:22/", "https://exa mple.org/", "https:///x", ""):
            reply = server.ask("POST", "/v1/webhooks", {"url": url}, token=mine)
            assert reply.status in (400, 403), (url, reply.body)
        server.ask("POST", "/v1/webhooks", {"url": "https://a.test/", "types": ["no.such"]}, token=mine).error(400)
        hooks = {}
        for host in ("127.0.0.1", "localhost", "169.254.169.254", "[::1]", "10.1.2.3", "[::ffff:127.0.0.1]"):
            hooks[host], _ = add(server, f"https://{host}:{receiver.port}/", token=mine)
        for hook in hooks.values():
            for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/enable")):
                server.ask(method, f"/v1/webhooks/{hook}{tail}", {} if tail else None, token=other).error(404)
        assert server.ask("GET", "/v1/webhooks", token=other).ok().json == {"webhooks": []}
        make(server, "own", mine)
        for host, hook in hooks.items():
            wait_until(lambda: of(server, hook, mine).get("reason"), f"{host} to be refused")
            assert "public" in of(server, hook, mine)["reason"], host
        assert receiver.got == []
        server.ask("DELETE", "/v1/boxes/own?force=1", token=mine).ok(204)
        # The operator's may.
        hook, _ = add(server, receiver.url, types=["box.created"])
        make(server)
        wait_until(lambda: of(server, hook)["delivered"] >= 1, "the operator's")
    finally:
        for n in names:
            cove("key", "rm", n)


def test_a_removed_key_is_told_nothing_more(server, cove):
    name, kept = ("h" + os.urandom(4).hex() for _ in range(2))
    mine, other = (cove("key", "create", n).ok().text.strip() for n in (name, kept))
    try:
        hooks = [add(server, "https://127.0.0.1:4433/", token=t, types=["box.created"])[0] for t in (mine, other)]
        cove("key", "rm", name).ok()
        make(server)
        wait_until(lambda: of(server, hooks[0]).get("disabled_ms"), "it to be disabled")
        assert of(server, hooks[0])["reason"] == "its key was removed"
        assert of(server, hooks[0])["deliveries"] == [] and not of(server, hooks[1]).get("disabled_ms")
        # Nor does it go on when somebody enables it.
        server.ask("POST", f"/v1/webhooks/{hooks[0]}/enable", {}).ok(204)
        make(server)
        wait_until(lambda: of(server, hooks[0]).get("disabled_ms"), "it to be disabled again")
    finally:
        for n in (name, kept):
            cove("key", "rm", n)


def test_a_key_that_cannot_be_read_holds_up_its_webhooks(server, cove):
    """The server says so once, and goes on when the key can be read again."""
    name = "h" + os.urandom(4).hex()
    mine = cove("key", "create", name).ok().text.strip()
    row, = [k for k in cove("key", "ls", "--json").ok().json if k["name"] == name]
    path = pathlib.Path(cove.home, "keys", row["id"])
    whole = path.read_bytes()
    try:
        hook, _ = add(server, "https://127.0.0.1:4433/", token=mine, types=["box.created"])
        path.write_bytes(whole[:-3])
        make(server)
        wait_until(lambda: f"webhook {hook} waits" in open(server.log).read(), "the server to say so")
        make(server)
        path.write_bytes(whole)
        make(server, "own", mine)
        wait_until(lambda: of(server, hook).get("reason"), "it to go on")
        assert open(server.log).read().count(f"webhook {hook} waits") == 1
        server.ask("DELETE", "/v1/boxes/own?force=1", token=mine).ok(204)
    finally:
        path.write_bytes(whole)
        cove("key", "rm", name)


def test_certificates_are_verified(server, tmp_path):
    cert, private = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", private,
                    "-out", cert], check=True, capture_output=True)
    receiver = Receiver(tls=(cert, private))
    try:
        hook, _ = add(server, receiver.url, types=["exec.ended"])
        line(server, make(server))
        wait_until(lambda: of(server, hook).get("disabled_ms"), "it to be refused")
        assert receiver.got == [] and "certificate" in of(server, hook)["reason"]
    finally:
        receiver.end()


def test_the_command_line(server, receiver, cove):
    made = cove("webhook", "add", receiver.url, "--events", "exec.ended", "--json").ok().json
    box = make(server)
    line(server, box)
    wait_until(lambda: of(server, made["id"])["delivered"] == 1, "the delivery")
    row, = [r for r in cove("webhook", "ls", "--json").ok().json if r["id"] == made["id"]]
    assert row["delivered"] == 1 and made["secret"] not in str(row)
    assert json.loads(cove("webhook", "log", made["id"]).ok().text.splitlines()[0])["status"] == 200
    cove("webhook", "rm", made["id"]).ok()
    assert cove("webhook", "rm", made["id"]).rc != 0
    server.ask("GET", f"/v1/webhooks/{made['id']}").error(404, "not_found")


def test_deliveries_go_on_after_the_server_was_killed(new_home, receiver):
    lone = Server(new_home(), "--webhook-retry", "10ms", "--webhook-failures", "1000")
    try:
        lone.ask("POST", "/v1/boxes", {"name": "b", "image": "host"}).ok(201)
        hook, secret = add(lone, receiver.url, types=["exec.ended"])
        for i in range(5):
            receiver.answer = 500 if i % 2 else 200
            for _ in range(4):
                line(lone, "b")
            wait_until(lambda: receiver.got, "something to be on its way")
            lone.kill()
            lone.start()
        receiver.answer = 200
        wait_until(lambda: of(lone, hook)["delivered"] and len({e["data"]["exec_id"] for e in receiver.events()}) == 20,
                   "all of them")
        for headers, body in receiver.got:
            check_signature(secret, headers, body)
        # Again and again, perhaps, but always in order: none is passed over.
        first = list(dict.fromkeys(receiver.ids()))
        assert first == sorted(first)
        assert {e["data"]["exec_id"] for e in receiver.events()} == set(range(1, 21))
    finally:
        lone.end()
