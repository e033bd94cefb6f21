"""What one caller of cove serve may hold: connections, and memory of what it sends and does not read."""
import concurrent.futures
import contextlib
import json
import os
import socket
import struct

import pytest

from conftest import DEADLINE, wait_until
from server import Server, WebSocket

pytestmark = pytest.mark.once("root")

DOMAIN = "boxes.example.org"
ACCOUNT = 64 << 20  # of memory, of one key


@pytest.fixture
def serve(session_cove):
    made = []

    def make(*flags):
        made.append(Server(session_cove, *flags))
        return made[-1]

    yield make
    for s in made:
        s.end()


@pytest.fixture
def key(session_cove):
    made = []

    def make(*flags):
        made.append("k" + os.urandom(4).hex())
        return session_cove("key", "create", made[-1], *flags).ok().text.strip()

    yield make
    for name in made:
        session_cove("key", "rm", name).ok()


@pytest.fixture
def boxes(session_cove):
    """Makes boxes of keys: (their path, their name on this machine)."""
    made = []

    def make(server, token, **more):
        name = server.ask("POST", "/v1/boxes", more, token=token).ok(201).json["name"]
        made.append(f"{token[5:13]}_{name}")
        return f"/v1/boxes/{name}", made[-1]

    yield make
    for name in made:
        session_cove("rm", "-f", name).ok()


def begin(held, server, method, path, token=None, host="127.0.0.1", more="", body=b"", wait=True):
    """A request over TCP whose connection stays; its status, once that is there."""
    s = held.enter_context(socket.socket())
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    s.settimeout(DEADLINE)
    s.connect(("127.0.0.1", server.port))
    auth = f"Authorization: Bearer {token}\r\n" if token else ""
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{auth}{more}\r\n".encode() + body)
    return (int(s.recv(4096).split()[1]) if wait else 0), s


# ---- without a key ----

@pytest.mark.parametrize("length", [100, 1 << 20])
def test_no_body_of_a_stranger_is_awaited(serve, key, length):
    server, token = serve("--connections", "8"), key()
    with contextlib.ExitStack() as held:
        for _ in range(12):
            _, s = begin(held, server, "GET", "/healthz", more=f"Content-Length: {length}\r\n", body=b" ", wait=False)
        server.ask("GET", "/v1/boxes", token=token).ok()
        assert s.recv(4096).startswith(b"HTTP/1.1 200") and s.recv(1) == b""


def test_a_stranger_may_ask_much_without_waiting(serve):
    server = serve()
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        got = b""
        while got.count(b'"ok"') < 1000 and (more := s.recv(65536)):
            got += more
    assert got.count(b"HTTP/1.1 200") == got.count(b'"ok"') == 1000


# ---- connections ----

def follow(held, server, token):
    return begin(held, server, "GET", "/v1/events?follow=1", token)[0]


def test_one_key_leaves_connections_to_the_others(serve, key):
    """Of 24 one is the Unix socket's; a key has 6 of the others, and all keys have 18."""
    server = serve("--connections", "24")
    greedy, other, admin = [key() for _ in range(3)], key(), key("--scope", "admin")
    with contextlib.ExitStack() as held:
        assert [follow(held, server, greedy[0]) for _ in range(20)] == [200] * 6 + [429] * 14
        server.ask("GET", "/v1/boxes", token=other).ok()
        assert [follow(held, server, t) for t in greedy[1:] for _ in range(7)] == ([200] * 6 + [429]) * 2
        # All have what all may have: who has none yet gets one still, and the operator more.
        assert [follow(held, server, other) for _ in range(2)] == [200, 429]
        assert [follow(held, server, admin) for _ in range(2)] == [200, 200]
        server.ask("GET", "/v1/boxes").ok()
        server.ask("GET", "/v1/boxes", token=greedy[0]).error(429, "limit")
    wait_until(lambda: server.ask("GET", "/v1/boxes", token=greedy[0]).status == 200, "connections again")


def test_a_half_head_of_a_key_makes_room(serve, key):
    server, greedy, other = serve("--connections", "8"), key(), key()
    with contextlib.ExitStack() as held:
        for _ in range(12):
            status, s = begin(held, server, "GET", "/v1/boxes", greedy)
            assert status == 200
            s.sendall(b"GET /v1/boxes HTTP/1.1\r\nHo")
        server.ask("GET", "/v1/boxes", token=other).ok()


HOLD = """import socket
s, held = socket.create_server(("127.0.0.1", 8000), backlog=100), []
while True:
    held.append(s.accept()[0])
"""


def test_visitors_of_a_public_port_have_a_share_of_their_own(serve, key, boxes):
    server, token, other = serve("--connections", "24", "--domain", DOMAIN), key(), key()
    web, name = boxes(server, token, labels={"cove.public": "8000"})
    server.ask("POST", f"{web}/exec", {"argv": ["python3", "-c", HOLD], "background": True}, token=token).ok()
    wait_until(lambda: server.ask("GET", f"{web}/ports", token=token).ok().json["ports"], "the program")
    host = f"8000-{name.replace('_', '--')}.{DOMAIN}"
    with contextlib.ExitStack() as held:
        for _ in range(6):
            begin(held, server, "GET", "/", host=host, wait=False)
        refused, _ = begin(held, server, "GET", "/", host=host)
        assert refused == 429
        for t in (token, other, None):
            server.ask("GET", "/v1/boxes", token=t).ok()


# ---- memory ----

def test_a_socket_is_of_a_box_and_begins_with_a_command(serve, key, boxes):
    server, token = serve(), key()
    web, _ = boxes(server, token)
    upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {'A' * 22}==\r\n" \
              "Sec-WebSocket-Version: 13\r\n"
    with contextlib.ExitStack() as held:
        for path in ("exec", "execs/1/attach"):
            assert begin(held, server, "GET", f"/v1/boxes/none/{path}", token, more=upgrade)[0] == 404
    ws = WebSocket(server, f"{web}/exec", token)
    ws.send(b"stdin")
    said = json.loads(ws.receive()[1])
    assert said["type"] == "error" and said["data"]["error"]["code"] == "invalid" and ws.receive()[0] == 8
    ws.close()


def send_frame(ws, head, data):
    ws.s.sendall(head + struct.pack(">Q", len(data)) + bytes(4) + data)


def test_a_long_command_over_a_socket_is_read_beside_the_loop(serve, key, boxes):
    server, token = serve(), key()
    web, _ = boxes(server, token)
    for line, wanted in (("cat", "exit"), (5, "error")):
        ws = WebSocket(server, f"{web}/exec", token)
        said = {"argv": ["sh", "-c", line], "env": ["X=" + "x" * 90000]}
        send_frame(ws, b"\x81\xff", json.dumps(said).encode())
        if wanted == "exit":
            ws.send(b"hello")
            ws.send('{"type": "eof"}')
        got = [ws.receive()]
        while got[-1][0] != 8:
            got.append(ws.receive())
        got.pop()
        assert json.loads(got[-1][1])["type"] == wanted, got[-1]
        assert (2, b"\1hello") in got or wanted == "error"
        ws.close()
    # One that goes while it is read is no harm.
    for _ in range(5):
        ws = WebSocket(server, f"{web}/exec", token)
        send_frame(ws, b"\x81\xff", json.dumps({"argv": ["true"], "env": ["X=" + "x" * 900000]}).encode())
        ws.close()
    server.ask("GET", "/v1/boxes", token=token).ok()


def test_messages_that_do_not_end_are_bounded(serve, key, boxes):
    server, token, other = serve(), key(), key()
    web, _ = boxes(server, token)
    with contextlib.ExitStack() as held:
        sockets = []
        for _ in range(80):
            ws = WebSocket(server, f"{web}/exec", token)
            held.callback(ws.close)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                ws.s.sendall(b"\x82\xff" + struct.pack(">Q", 1 << 20) + bytes(4) + bytes((1 << 20) - 1))
            sockets.append(ws)
        server.ask("GET", "/v1/boxes", token=other).ok()
        server.ask("GET", "/v1/boxes").ok()
        assert sockets[-1].receive()[0] == 8


PRINT = "head -c 1m /dev/zero | tr '\\0' x; head -c 1m /dev/zero | tr '\\0' y >&2; : > /tmp/done.$N; " \
        "while [ ! -e /tmp/go ]; do sleep 0.2; done"


def printed(server, web, token):
    said = server.ask("POST", f"{web}/exec", {"line": "ls /tmp/done.* || true"}, token=token)
    return said.ok().json["stdout"].split()


def test_output_that_is_collected_is_bounded(serve, key, boxes):
    server, token, count = serve(), key(), 40
    web, _ = boxes(server, token)
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(server.ask, "POST", f"{web}/exec", {"argv": ["sh", "-c", PRINT], "env": [f"N={n}"]},
                             token=token) for n in range(count)]
        wait_until(lambda: len(printed(server, web, token)) == count, "all of it")
        server.ask("PUT", f"{web}/files?path=/tmp/go", b"x", token=token).ok()
        results = [a.result(DEADLINE).ok().json for a in asked]
    kept = [len(r["stdout"]) + len(r["stderr"]) for r in results]
    assert all(r["stdout_bytes"] == r["stderr_bytes"] == 1 << 20 for r in results)
    assert all(r["truncated"] == (n < 2 << 20) for r, n in zip(results, kept, strict=True))
    assert sum(kept) <= ACCOUNT < count * (2 << 20)


def test_answers_that_a_key_does_not_read_are_bounded(serve, key):
    server, token, other = serve(), key(), key()
    body = json.dumps({"command": {"line": "head -c 18m /dev/zero > /tmp/f"}, "out": ["/tmp/f"]}).encode()
    with contextlib.ExitStack() as held:
        for _ in range(3):
            more = f"Content-Length: {len(body)}\r\n"
            assert begin(held, server, "POST", "/v1/run", token, more=more, body=body)[0] == 200
        said = server.ask("GET", "/v1/boxes", token=token).error(429, "limit")
        assert "64 MiB" in said["message"]
        server.ask("GET", "/v1/boxes", token=other).ok()
        server.ask("GET", "/v1/boxes").ok()
    wait_until(lambda: server.ask("GET", "/v1/boxes", token=token).status == 200, "memory again")
