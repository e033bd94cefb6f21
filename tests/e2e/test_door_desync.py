"""What an upstream and the door could understand in two ways: bodies that are not read, upgrades that are refused,
hellos that are asked for a second time, names outside and inside TLS; and credentials that a box brings along."""
import json

import pytest

import smuggling
from conftest import LIB, wait_until
from door_kit import DIRECT
from door_servers import Careless, Retrying, header

pytestmark = pytest.mark.once("root")

CLIENT = r"""import socket, ssl, struct, sys
def open_tls(host, port):
    return ssl.create_default_context().wrap_socket(socket.create_connection((host, port), 30), server_hostname=host)
def answer(s):
    data = b''
    while b'\r\n\r\n' not in data:
        part = s.recv(65536)
        if not part:
            break
        data += part
    head, _, body = data.partition(b'\r\n\r\n')
    size = [int(l.split(b':')[1]) for l in head.split(b'\r\n') if l.lower().startswith(b'content-length')]
    while size and len(body) < size[0]:
        body += s.recv(65536)
    return head.split(b' ')[1].decode() if head else '0'
"""


@pytest.fixture
def careless(rig):
    server = Careless(rig.ca.context("api.test"))
    yield server
    server.stop()


def python(door, box, code, *args):
    door.need(box, "python3")
    door.put(box, "/tmp/client.py", CLIENT + code)
    return door.do(box, DIRECT + "python3 -B /tmp/client.py " + " ".join(map(str, args)))


SMUGGLE = r"""
port = int(sys.argv[1])
evil = b'GET /admin HTTP/1.1\r\nHost: api.test\r\nX: '
h = b'Host: api.test:%d\r\n' % port
s = open_tls('api.test', port)
got = []
for data in (b'POST /ok/1 HTTP/1.1\r\n' + h + b'Content-Length: %d\r\n\r\n' % len(evil) + evil,
             b'GET /ok/2 HTTP/1.1\r\n' + h + b'\r\n', b'GET /ok/3 HTTP/1.1\r\n' + h + b'\r\n'):
    s.sendall(data)
    got.append(answer(s))
print(*got)
"""


def api(**more):
    return {"name": "api", "allow": "api.test", "paths": ["/ok/**"],
            "inject": {"headers": {"Authorization": "Bearer {{ secret.TOKEN }}"}}, **more}


def test_a_body_that_is_not_read_is_no_request(door, careless):
    """The box keeps its connection; the next upstream one resumes the TLS session of the first."""
    door.secret("TOKEN")
    box = door.box([api()])
    assert python(door, box, SMUGGLE, careless.port).ok().text.split() == ["200"] * 3
    lines = [(n, head.splitlines()[0]) for n, head in careless.heads]
    assert lines == [(0, "POST /ok/1 HTTP/1.1"), (1, "GET /ok/2 HTTP/1.1"), (1, "GET /ok/3 HTTP/1.1")]
    assert careless.resumed == [False, True]
    wait_until(lambda: len(door.rows(box, kind="request")) == 3, "three rows")
    # Who says so gets the connection back, and with it what its server makes of it.
    careless.clear()
    box = door.box([api(reuse=True)])
    python(door, box, SMUGGLE, careless.port).ok()
    assert {n for n, _ in careless.heads} == {0} and "GET /admin" in careless.heads[1][1]


def test_what_follows_a_refused_upgrade(door, careless):
    """It waits for the answer, and is then a request, judged by itself and sent on another connection."""
    box = door.box([{"name": "ws", "allow": "api.test", "methods": ["WEBSOCKET", "GET"]}])
    code = r"""
port = int(sys.argv[1])
h = b'Host: api.test:%d\r\n' % port
s = open_tls('api.test', port)
s.sendall(b'GET /ws HTTP/1.1\r\n' + h + b'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
          b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n' + b'GET /next HTTP/1.1\r\n' + h + b'\r\n')
print(answer(s), answer(s))
s.sendall(b'DELETE /x HTTP/1.1\r\n' + h + b'\r\n')
print(answer(s))
"""
    assert python(door, box, code, careless.port).ok().text.split() == ["426", "200", "403"]
    assert [(n, head.split()[1]) for n, head in careless.heads] == [(0, "/ws"), (1, "/next")]


def test_messages_that_could_be_read_in_two_ways(door, rig):
    """None of tests/data/http-smuggling reaches a server; whatever the door says, it is no success."""
    box = door.box([{"name": "web", "allow": "web.test", "tls": "intercept"}])
    door.put(box, "/tmp/inbox.py", (LIB / "inbox.py").read_text())
    door.put(box, "/tmp/cases.json", json.dumps(smuggling.cases("request")))
    code = r"""
sys.path.insert(0, '/tmp')
from inbox import https, json, status
port = int(sys.argv[1])
for name, text in json.load(open('/tmp/cases.json')).items():
    data = text.replace('{h}', 'web.test:%d' % port).encode('latin-1')
    print(name, status(https('web.test', port, data)))
"""
    got = dict(line.split() for line in python(door, box, code, rig.web.tls_port).ok().text.splitlines())
    assert set(got) == set(smuggling.cases("request"))
    assert not {name: code for name, code in got.items() if code != "0" and not 400 <= int(code) < 600}
    assert not rig.web.seen("/probe") and not rig.web.seen("/smuggled")
    assert door.code(box, rig.url("/echo")) == 200


# ---- the second hello ----

def test_a_hello_that_is_asked_for_twice(door, rig):
    """A server that wants another group than clients guess: the handshake takes two hellos, and goes through."""
    context = rig.ca.context("group.test")
    context.set_ecdh_curve("secp384r1")
    server = rig.new_tcp(lambda conn: conn.sendall(Careless.OK), tls=context)
    box = door.box([{"name": "group", "allow": "group.test"}])
    url = f"https://group.test:{server.port}/"
    assert door.curl(box, "--http0.9", "--cacert", "/tmp/rig.pem", "--tlsv1.3", url).ok().text.strip() == "ok"


@pytest.mark.parametrize("name, passes", [("pass.test", True), ("other.test", False)])
def test_the_second_hello_names_the_same_host(door, rig, name, passes):
    server = Retrying()
    box = door.box([{"name": "pass", "allow": "pass.test"}])
    code = r"""
def hello(name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
s = socket.create_connection(('pass.test', int(sys.argv[1])), 30)
s.sendall(hello('pass.test'))
assert s.recv(65536)
second = b'\x14\3\3\0\1\1' + hello(sys.argv[2])
try:
    s.sendall(second)
    s.shutdown(socket.SHUT_WR)
    s.recv(65536)
except OSError:
    pass
print(len(second))
"""
    try:
        size = int(python(door, box, code, server.port, name).ok().text)
        if passes:
            wait_until(lambda: server.after and len(server.after[0]) == size, "the second hello")
        else:
            assert "another host" in door.row(box, kind="connect", verdict="deny")["reason"]
            assert len(server.after[0]) < size
    finally:
        server.stop()


# ---- fronting ----

def test_interception_by_default(door, rig):
    """In TLS that passes through the Host inside is the client's to choose; one line ends that."""
    rule = {"name": "web", "allow": "web.test"}
    args = ["--cacert", "/tmp/both.pem", "-H", "Host: front.web.test", "-o", "/dev/null", "-w", "%{http_code}"]
    seen = {}
    for top in ({}, {"tls": "intercept"}):
        box = door.box([rule], **top)
        door.do(box, "cat $SSL_CERT_FILE /tmp/rig.pem >/tmp/both.pem").ok()
        seen[bool(top)] = door.curl(box, *args, rig.url("/echo")).text
        if top:  # a grant is no way around it
            door("allow", box, "other.test:%d" % rig.other.tls_port).ok()
            url = rig.url("/echo", "other.test")
            assert door.curl(box, *args, url).text == "421"
    assert seen == {False: "200", True: "421"}


# ---- what a box brings along ----

def test_a_rule_that_injects_removes_other_credentials(door, rig):
    value = door.secret("TOKEN")
    rule = {"name": "api", "allow": "web.test", "inject": {"headers": {"X-Api-Key": "{{ secret.TOKEN }}"}}}
    mine = ["Authorization: Bearer mine", "Cookie: a=mine", "api-key: mine", "X-API-KEY: mine", "x_goog_api_key: mine",
            "X-Amz-Security-Token: mine", "X-Plain: stays"]
    flags = [word for line in mine for word in ("-H", line)]
    box = door.box([rule])
    door.curl(box, *flags, rig.url("/echo?creds=1&access_token=mine&b=2")).ok()
    last = rig.web.last("creds=1")
    assert "mine" not in json.dumps(last.headers) + last.target and last.target.endswith("?creds=1&b=2")
    assert header(last, "X-Api-Key") == [value] and header(last, "X-Plain") == ["stays"]
    box = door.box([{**rule, "pass": ["Cookie", "access_token"]}])
    door.curl(box, *flags, rig.url("/echo?creds=2&access_token=mine")).ok()
    last = rig.web.last("creds=2")
    assert header(last, "Cookie") == ["a=mine"] and last.target.endswith("access_token=mine")
    assert not header(last, "Authorization")
