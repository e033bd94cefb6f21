"""Ports of a box over the server: by path and by name, streams, sockets, links, and what neither side may say."""
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import socket
import ssl
import subprocess

import pytest
import smuggling

from conftest import DEADLINE, wait_until
from server import Reply, Server, WebSocket

pytestmark = pytest.mark.once("root")

PROGRAM = (pathlib.Path(__file__).resolve().parent.parent / "lib/port_server.py").read_bytes()
DOMAIN = "boxes.example.org"
PORT = 8000


@pytest.fixture(scope="module")
def module_server(session_cove):
    made = Server(session_cove, "--domain", DOMAIN)
    yield made
    made.end()


@pytest.fixture
def server(module_server, cove):
    return module_server


def listen(server, box, token=None):
    """The program listens in the box."""
    path = f"/v1/boxes/{box}"
    server.ask("PUT", f"{path}/files?path=/tmp/p.py", PROGRAM, token=token).ok()
    argv = ["python3", "/tmp/p.py", str(PORT)]
    server.ask("POST", f"{path}/exec", {"argv": argv, "background": True}, token=token).ok()
    listens(server, path, token)


def listens(server, path, token=None):
    wait_until(lambda: [p for p in server.ask("GET", f"{path}/ports", token=token).ok().json["ports"]
                        if p["port"] == PORT], "the program")


@pytest.fixture
def web(server, box):
    """The path of a port where the program listens."""
    listen(server, box)
    return f"/v1/boxes/{box}/ports/{PORT}"


@pytest.fixture
def keyed(server, cove):
    """(token, box, path) of a key's own box with the program; and another key's token."""
    names = ["t" + os.urandom(4).hex() for _ in range(2)]
    token, other = (cove("key", "create", n).ok().text.strip() for n in names)
    box = "w" + os.urandom(3).hex()
    server.ask("POST", "/v1/boxes", {"name": box}, token=token).ok()
    listen(server, box, token)
    yield token, box, other
    server.ask("DELETE", f"/v1/boxes/{box}?force=1", token=token)
    for name in names:
        cove("key", "rm", name)


def link(server, box, token=None, **more):
    return server.ask("POST", f"/v1/boxes/{box}/port-links", {"port": PORT, **more}, token=token)


def by_name(server, host, path="/", method="GET", body=None, token=None, **fields):
    """Over TCP, as somebody who found the name in the DNS."""
    return server.ask(method, path, body, token=token, headers={"Host": host, **{k.replace("_", "-"): v for k, v in
                                                                               fields.items()}},
                      connection=server.connection(tcp=True))


def fields_of(reply):
    return {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in reply.ok().json["lines"][1:]}


# ---- by path ----

def test_any_method_goes_to_the_program(server, web):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        reply = server.ask(method, f"{web}/a%2Fb/../c;d?x=%zz&y", b"abc").ok(200)
        assert reply.headers["Cove-Port"] == str(PORT)
        assert reply.json["method"] == method and reply.json["target"] == "/a%2Fb/../c;d?x=%zz&y"
        assert reply.json["body"] == [3, hashlib.sha256(b"abc").hexdigest()]
    assert server.ask("GET", f"{web}/").ok().json["target"] == "/"
    head = server.ask("HEAD", f"{web}/").ok()
    assert head.body == b"" and head.headers["Content-Length"] == "0"
    for method in ("TRACE", "CONNECT"):
        assert server.raw(f"{method} {web}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())[9:10] in b"45"


def test_what_the_program_sees_of_who_asks(server, keyed):
    token, box, _ = keyed
    said = {"X-API-Key": token, "Cookie": "a=b", "X-Forwarded-For": "6.6.6.6", "X_Forwarded_For": "6.6.6.6",
            "Forwarded": "for=6.6.6.6", "X-Real-IP": "6.6.6.6", "Via": "1.1 x", "X-Mine": "1", "X-Kept": "2",
            "Connection": "X-Mine, keep-alive", "TE": "trailers", "Proxy-Authorization": "x", "Expect": "100-continue"}
    reply = server.ask("POST", f"/v1/boxes/{box}/ports/{PORT}/x", b"1", headers=said,
                       connection=server.connection(tcp=True))
    seen = fields_of(reply)
    assert token not in reply.body.decode() and token[13:] not in reply.body.decode()
    assert seen["host"] == f"localhost:{PORT}" and seen["connection"] == "close" and seen["x-kept"] == "2"
    assert seen["x-forwarded-for"] == "127.0.0.1" and seen["forwarded"].startswith("for=127.0.0.1;")
    assert seen["x-forwarded-prefix"] == f"/v1/boxes/{box}/ports/{PORT}" and seen["x-forwarded-proto"] == "http"
    assert not {"cookie", "authorization", "x-api-key", "x-real-ip", "via", "x-mine", "te", "proxy-authorization",
                "expect", "x_forwarded_for", "keep-alive"} & set(seen)
    # What would hold for all that the API's own name stands for does not come back.
    assert not {"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "X-Mine"} & set(reply.headers)
    assert reply.headers["X-Other"] == "2" and reply.headers["Content-Security-Policy"] == "sandbox"
    for fields in ({"Sec-Fetch-Mode": "navigate"}, {"Service-Worker": "script"}):
        server.ask("GET", f"/v1/boxes/{box}/ports/{PORT}/", headers={**fields, "Authorization": f"Bearer {token}"},
                   connection=server.connection(tcp=True)).error(403, "denied")


def test_what_is_not_there_is_said(server, web, box, cove):
    assert "listens" in server.ask("GET", f"/v1/boxes/{box}/ports/8001/").error(502, "protocol")["message"]
    for bad in ("0", "65536", "x", "-1", "08x", "%00"):
        server.ask("GET", f"/v1/boxes/{box}/ports/{bad}/").error(400, "invalid")
    server.ask("GET", "/v1/boxes/nowhere/ports/80/").error(404)
    server.ask("GET", "/v1/boxes/nowhere/ports").error(404)
    server.ask("POST", f"/v1/boxes/{box}/stop", {"grace": 0}).ok()
    assert "start" in server.ask("GET", f"{web}/").error(409, "conflict")["message"]


def test_bodies_of_any_size_both_ways(server, web):
    data = os.urandom(1 << 20) * 24
    want = [len(data), hashlib.sha256(data).hexdigest()]
    assert server.ask("PUT", f"{web}/x", data).ok().json["body"] == want
    pieces = (data[at:at + 100003] for at in range(0, len(data), 100003))
    c = server.connection()
    c.request("POST", f"{web}/x", pieces, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert Reply(c.getresponse()).ok().json["body"] == want
    c.request("GET", f"{web}/pour?{24 << 20}")
    assert len(Reply(c.getresponse()).ok().body) == 24 << 20
    c.close()


def test_an_answer_before_the_end_of_the_body(server, web):
    for _ in range(10):
        reply = server.ask("PUT", f"{web}/early", bytes(4 << 20))
        assert (reply.status, reply.body) == (413, b"no")


def test_an_answer_comes_as_it_is_made(server, web):
    events = server.connection()
    events.request("GET", f"{web}/events")
    answer = events.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.read1() == b"data: 1\n\n"
    server.ask("GET", f"{web}/go").ok()
    assert answer.read() == b"data: 2\n\n"
    events.close()


def test_a_client_that_waits_for_100(server, web):
    head = f"PUT {web}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(DEADLINE)
        s.connect(server.path)
        s.sendall(head.encode())
        assert s.recv(100).startswith(b"HTTP/1.1 100")
        s.sendall(b"abc")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    refused = server.raw(head.replace(f"/{PORT}/", "/8001/").encode())
    assert refused.startswith(b"HTTP/1.1 502")


def test_a_socket_is_passed_through(server, web):
    ws = WebSocket(server, f"{web}/ws")
    for text in ("hello", "x" * 60000):
        ws.send(text)
        assert ws.receive() == (1, text.encode())
    ws.close()
    for path in ("/x", "/raw?" + b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: wrong\r\n\r\n".hex()):
        with pytest.raises(AssertionError):
            WebSocket(server, web + path)


def test_many_at_once(server, web):
    sockets = []
    try:
        for _ in range(150):
            sockets.append(WebSocket(server, f"{web}/ws"))
        for i, ws in enumerate(sockets):
            ws.send(f"from {i}")
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            jobs = [pool.submit(server.ask, "GET", f"{web}/pour?300000") for _ in range(40)]
            assert all(len(j.result().ok().body) == 300000 for j in jobs)
        assert [ws.receive() for ws in sockets] == [(1, f"from {i}".encode()) for i in range(150)]
    finally:
        for ws in sockets:
            ws.close()
    wait_until(lambda: server.ask("GET", f"{web}/open").ok().body == b"0", "their ends in the box")


def test_a_slow_side_holds_up_itself_alone(server, web):
    """Neither an answer nor a body that nobody takes is kept; whoever goes takes its connection along."""
    def used():
        status = open(f"/proc/{server.process.pid}/status").read()
        return int(status.split("VmRSS:")[1].split()[0])
    before, held = used(), []
    for path in [f"GET {web}/pour?{1 << 30}"] * 10 + [f"PUT {web}/wait"] * 10:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(0.2)
        s.connect(server.path)
        size = 1 << 30 if path.startswith("PUT") else 0
        s.sendall(f"{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        with contextlib.suppress(TimeoutError):
            while size:
                s.send(bytes(65536))
        held.append(s)
    assert server.ask("GET", f"{web}/x").ok()
    assert used() - before < 300 << 10  # of 10 GiB; a sanitizer keeps what is freed for a while
    for s in held:
        s.close()
    server.ask("GET", f"{web}/go").ok()
    wait_until(lambda: server.ask("GET", f"{web}/open").ok().body == b"0", "their ends in the box")


# ---- what is not HTTP ----

def test_a_request_is_one_request(server, web):
    """None of tests/data/http-smuggling is two requests to the program, nor one with another's framing."""
    for name, text in smuggling.cases("request").items():
        data = text.replace("{h}", "localhost").replace("/probe", f"{web}/probe").encode("latin-1")
        try:
            got = server.raw(data.rstrip(b"\r\n") + b"\r\nConnection: close\r\n\r\n" if data.count(b"\r\n\r\n") == 1 and
                             data.endswith(b"\r\n\r\n") else data + b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
                             b"Connection: close\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            continue
        assert b'"/smuggled"' not in got, (name, got[:500])
        if b"Cove-Port" in got:
            head, _, body = got.partition(b"\r\n\r\n")
            seen = [line.lower() for line in json.loads(body[:body.index(b"]}") + 2])["lines"]]
            assert sum(line.startswith(("content-length:", "transfer-encoding:")) for line in seen) <= 1, (name, seen)
            assert sum(line.startswith("host:") for line in seen) == 1, (name, seen)


OK = b"HTTP/1.1 200 OK\r\n"
BAD = [b"", b"x", b"HTTP/1.1 200 OK\n\n", b"HTTP/2 200 OK\r\n\r\n", OK + b"A\r\n\r\n", OK + b"A : b\r\n\r\n",
       OK + b"A: b\0\r\n\r\n", OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
       OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OK + b"Content-Length: -1\r\n\r\n",
       OK + b"X: " + b"y" * 70000 + b"\r\n\r\n", OK + b"A: b\r\n" * 200 + b"\r\n", b"HTTP/1.1 99 X\r\n\r\n",
       b"HTTP/1.1 600 X\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 20, b"HTTP/1.1 101 Switching\r\n\r\n",
       b"\x16\x03\x01" + bytes(200)]
CUT = [OK + b"Content-Length: 10\r\n\r\nabc", OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
       OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc"]


def test_an_answer_that_is_none(server, web):
    answers = BAD + [t.encode("latin-1") for t in smuggling.cases("answer").values()]
    for data in answers[:len(BAD)]:
        if len(data) < 20000:
            reply = server.ask("GET", f"{web}/raw?{data.hex()}")
            assert reply.status == 502 and "Cove-Port" not in reply.headers, (data[:60], reply.status)
    for data in CUT:
        with pytest.raises(http.client.HTTPException):
            server.ask("GET", f"{web}/raw?{data.hex()}")
    for data in answers:
        if len(data) > 20000:
            continue
        got = server.raw(f"GET {web}/raw?{data.hex()} HTTP/1.1\r\nHost: x\r\n\r\n"
                         f"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert got.count(b"HTTP/1.1 ") <= 2 and b"\r\nSet-Cookie" not in got, (data[:80], got[:300])
    plain = server.ask("GET", f"{web}/raw?{(OK + b'X: y' + bytes([13, 10, 13, 10]) + b'until the end').hex()}")
    assert plain.ok().body == b"until the end" and plain.headers["X"] == "y"


# ---- by name ----

def test_a_name_leads_to_the_port_alone(server, web, box):
    host = f"{PORT}-{box}.{DOMAIN}"
    assert link(server, box).ok(201).json["host"] == f"{host}:{server.port}"
    for path in ("/", "/v1/boxes", "/healthz"):
        by_name(server, host, path).error(401, "unauthorized")
    for wrong in (f"8001x-{box}", f"0-{box}", f"99999-{box}", f"0{PORT}-{box}", box, f"{PORT}-", f"{PORT}-{box}-",
                  f"{PORT}-nowhere", f"{PORT}-deadbeef--{box}", f"{PORT}_{box}"):
        assert by_name(server, f"{wrong}.{DOMAIN}", "/v1/boxes").status == 401, wrong
    assert by_name(server, f"x.{host}", "/").status == 421
    assert by_name(server, DOMAIN, "/").status == 421
    t = link(server, box).json["token"]
    reply = by_name(server, host.upper(), f"/a//b?x=1&cove_token={t}&y=%zz", X_Mine="1", Authorization="Basic app",
                    Cookie="a=b", Referer=f"http://{host}/?cove_token={t}")
    assert reply.status == 401  # a query that is not well escaped holds no link
    reply = by_name(server, host, f"/a//b?x=1&cove_token={t}&y=2", Authorization="Basic app", Cookie="a=b; cove-port=x",
                    Referer=f"http://{host}/?cove_token={t}")
    assert reply.ok().json["target"] == "/a//b?x=1&y=2" and t not in reply.body.decode()
    seen = fields_of(reply)
    assert seen["host"] == host and seen["authorization"] == "Basic app" and seen["cookie"] == "a=b"
    # Cookies are for that name alone, and none is ours.
    assert reply.headers.get_all("Set-Cookie") == ["a=b"] and "Content-Security-Policy" not in reply.headers


def test_a_link_becomes_a_cookie(server, keyed):
    token, box, other = keyed
    made = link(server, box, token, **{"for": "5m"}).ok(201).json
    host = made["host"]
    path = made["link"].split(host, 1)[1]
    assert made["link"].startswith(f"http://{PORT}-{token[5:13]}--{box}.{DOMAIN}:{server.port}/?cove_token=")
    reply = by_name(server, host, path.replace("/?", "//evil.example/x?a=b&"), Accept="text/html,*/*")
    assert reply.status == 303 and reply.headers["Location"] == "/.//evil.example/x?a=b"
    cookie = reply.headers["Set-Cookie"]
    assert 0 < int(cookie.rsplit("Max-Age=", 1)[1]) <= 300
    assert "HttpOnly; SameSite=Lax" in cookie and "Domain" not in cookie
    cookie = f"x=y; {cookie.split(';')[0]}"
    assert fields_of(by_name(server, host, "/", Cookie=cookie))["cookie"] == "x=y"
    own = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    by_name(server, host, "/", "POST", b"1", Cookie=cookie, **own).ok()
    # A page of another box, or of anybody: nothing but going there.
    sibling = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    for fields in ({"Origin": f"http://8001-{box}.{DOMAIN}"}, {"Origin": "null"}, {"Origin": "https://evil.example"},
                   sibling):
        by_name(server, host, "/", Cookie=cookie, **fields).error(403, "denied")
    visit = {**sibling, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    by_name(server, host, "/", Cookie=cookie, **visit).ok()
    by_name(server, host, "/", "POST", b"1", Cookie=cookie, **visit).error(403, "denied")
    # It opens nothing else, and a changed one nothing.
    t = made["token"]
    assert by_name(server, host.replace(str(PORT), "8001", 1), f"/?cove_token={t}").status == 401
    until, issuer, mac = t.split(".")
    for bad in (f"{int(until) + 1}.{issuer}.{mac}", f"{until}.operator.{mac}", f"{until}.{issuer}.{'0' * 64}", t[:-1],
                f"{until}.{other[5:13]}.{mac}", "..", "x", t + "0", f"1.{issuer}.{mac}", f"{until}.{issuer}."):
        assert by_name(server, host, f"/?cove_token={bad}").status == 401, bad
    assert server.ask("GET", f"/v1/boxes?cove_token={t}", connection=server.connection(tcp=True)).status == 401


def test_keys_by_name(server, keyed, cove):
    token, box, other = keyed
    host = link(server, box, token).ok().json["host"]
    t = link(server, box, token).json["token"]
    for fields in ({"Authorization": f"Bearer {token}"}, {"X-API-Key": token, "Authorization": "Bearer app"}):
        reply = by_name(server, host, "/", **fields)
        assert token[13:] not in reply.ok().body.decode()
        assert fields_of(reply).get("authorization") == ("Bearer app" if "X-API-Key" in fields else None)
    by_name(server, host, "/", Authorization=f"Bearer {other}").error(404)
    by_name(server, host, "/", Authorization=f"Bearer {token[:-1]}").error(401)
    by_name(server, host, "/", Authorization=f"Bearer {token}", **{"X-API-Key": other}).error(401)
    link(server, box, other).error(404)
    for body in ({"for": "1ms"}, {"for": "1000h"}, {"port": 0}, {"port": 70000}):
        link(server, box, token, **body).error(400)
    by_name(server, host, f"/?cove_token={t}").ok()
    name = [k["name"] for k in cove("key", "ls", "--json").ok().json if k["id"] == token[5:13]][0]
    cove("key", "rm", name).ok()
    assert by_name(server, host, f"/?cove_token={t}").status == 401
    server.ask("DELETE", f"/v1/boxes/{token[5:13]}_{box}?force=1")


def test_over_tls_no_other_name_sets_the_cookie(new_home, tmp):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", f"{tmp}/k", "-out", f"{tmp}/c", "-days", "2", "-subj", "/CN=x", "-addext",
                    f"subjectAltName=DNS:*.{DOMAIN}"], check=True, capture_output=True)
    home = new_home()
    server = Server(home, "--domain", DOMAIN, "--tls-cert", f"{tmp}/c", "--tls-key", f"{tmp}/k")
    try:
        home("create", "--name", "b").ok()
        made = link(server, "b").ok().json
        assert made["link"].startswith(f"https://{PORT}-b.{DOMAIN}:{server.port}/?")
        context = ssl.create_default_context(cafile=f"{tmp}/c")
        with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as plain:
            with context.wrap_socket(plain, server_hostname=f"{PORT}-b.{DOMAIN}") as s:
                s.sendall(f"GET /?cove_token={made['token']} HTTP/1.1\r\nHost: {made['host']}\r\n"
                          "Sec-Fetch-Mode: navigate\r\nConnection: close\r\n\r\n".encode())
                got = s.makefile("rb").read()
        assert b"\r\nSet-Cookie: __Host-cove-port=" in got and b"; Secure\r\n" in got and b" 303 " in got
    finally:
        server.end()


def test_a_port_may_be_public_and_its_box_asleep(server, cove):
    box = "p" + os.urandom(3).hex()
    # A box sleeps while only what it runs by itself runs.
    server.ask("POST", "/v1/boxes", {"name": box, "labels": {"cove.public": f"80,{PORT}"}, "idle": "1h",
                                     "expire": "pause", "on_start": f"python3 -m http.server {PORT}"}).ok()
    try:
        listens(server, f"/v1/boxes/{box}")
        host = f"{PORT}-{box}.{DOMAIN}"
        t = link(server, box).json["token"]
        by_name(server, host, Origin="https://elsewhere.example").ok()
        assert by_name(server, f"8001-{box}.{DOMAIN}", "/").status == 401
        server.ask("PATCH", f"/v1/boxes/{box}", {"idle": "100ms"}).ok()
        wait_until(lambda: server.ask("GET", f"/v1/boxes/{box}").ok().json["paused"], "its sleep")
        by_name(server, host).ok()
        # The next box of that name is another one.
        server.ask("DELETE", f"/v1/boxes/{box}?force=1").ok()
        server.ask("POST", "/v1/boxes", {"name": box}).ok()
        assert by_name(server, host, f"/?cove_token={t}").status == 401
    finally:
        server.ask("DELETE", f"/v1/boxes/{box}?force=1")
