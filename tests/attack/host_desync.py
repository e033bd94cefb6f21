"""D7, D15, E13, F4: what an upstream reads otherwise than the door wrote it: bodies that are not read, upgrades that
are refused, hellos that are asked for twice; and credentials and answers that reach further than they should."""
import threading

from door_ground import ground
from door_servers import Careless, Retrying
from rig import case, need

AGAIN = """
def answer(s):
    data = b''
    while b'\\r\\n\\r\\n' not in data:
        part = s.recv(65536)
        if not part:
            return 0
        data += part
    head, _, body = data.partition(b'\\r\\n\\r\\n')
    size = re.search(rb'(?i)content-length: *(\\d+)', head)
    while size and len(body) < int(size[1]):
        body += s.recv(65536)
    return status(head)
h = 'Host: %s:%d\\r\\n' % (host, port)
def send(s, text):
    s.sendall(text.replace('{h}', h).encode('latin-1'))
    return answer(s)
"""
EVIL = "GET /admin HTTP/1.1\r\nHost: api.test\r\nX: "


class At:
    """A server for one case."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.stop()


def careless(g):
    return At(Careless(g.net.ca.context("api.test")))


def heads(server):
    with server.lock:
        return list(server.heads)


def smuggle(g, server, first, **rule):
    """One request that hides another, then an honest one on the same connection of the box: what the server ran."""
    rules = [{"name": "api", "allow": "api.test", "methods": ["GET", "POST", "WEBSOCKET"], "paths": ["/ok/**"],
              "inject": {"headers": {"Authorization": "Bearer {{ secret.API }}"}}, **rule}]
    with g.own_box(rules) as box:
        got = g.run(AGAIN + "s = secure(host, port)\nsay([send(s, first), send(s, next_one)])", box, host="api.test",
                    port=server.port, first=first, next_one="GET /ok/next HTTP/1.1\r\n{h}\r\n")
        rows = [r for r in g.rows(box) if r["kind"] == "request"]
    return got, [head.splitlines()[0] for _, head in heads(server)], rows


def unread(name, first):
    @case(f"E13_{name}", "E13", "what stands in a body is no request, whatever the upstream makes of bodies")
    def run(rig):
        g = ground(rig)
        with careless(g) as server:
            got, ran, rows = smuggle(g, server, first)
            need(got == [200, 200], f"answers {got}")
            need(not any("/admin" in line for line in ran), f"the upstream ran {ran}")
            need(len(ran) == 2 == len(rows), f"{ran}, {len(rows)} rows")
            need({n for n, _ in heads(server)} == {0, 1}, f"on one connection: {heads(server)}")


def body(text, *fields):
    return "POST /ok/first HTTP/1.1\r\n{h}" + "".join(f + "\r\n" for f in fields) + "\r\n" + text


for _name, _first in {
    "body_is_a_request": body(EVIL, f"Content-Length: {len(EVIL)}"),
    "chunk_is_a_request": body(f"{len(EVIL):x}\r\n" + EVIL + "\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "expected_body_is_a_request": body(EVIL, f"Content-Length: {len(EVIL)}", "Expect: 100-continue"),
}.items():
    unread(_name, _first)


@case("E13_refused_upgrade", "E13", "what a box says after an upgrade that is refused is judged, and goes another way")
def refused_upgrade(rig):
    g = ground(rig)
    first = ("GET /ok/ws HTTP/1.1\r\n{h}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nGET /admin HTTP/1.1\r\n{h}\r\n")
    with careless(g) as server:
        got, ran, _ = smuggle(g, server, first)
        need(got[0] == 426, f"answers {got}")
        need(not any("/admin" in line for line in ran), f"the upstream ran {ran}")


@case("D7_second_hello", "D7", "the hello after a HelloRetryRequest cannot name another host than was judged")
def second_hello(rig):
    g = ground(rig)
    code = """
s = dial('pass.test', port)
s.sendall(hello('pass.test'))
read_all(s, 12, most=1)
second = b'\\x14\\3\\3\\0\\1\\1' + split_records(hello(name), size)
try:
    for i in range(0, len(second), cut):
        s.sendall(second[i:i + cut])
    s.shutdown(socket.SHUT_WR)
    read_all(s, 12)
except OSError:
    pass
say(len(second))"""
    with At(Retrying()) as server:
        for name, size, cut, passes in (("pass.test", 4096, 4096, True), ("evil.test", 4096, 4096, False),
                                        ("evil.test", 50, 4096, False), ("evil.test", 4096, 7, False)):
            with server.lock:
                server.after.clear()
            sent = g.run(code, port=server.port, name=name, size=size, cut=cut)
            with server.lock:
                came = max((len(a) for a in server.after), default=-1)
            need((came == sent) == passes, f"{name}: {came} of {sent} bytes reached the server")


@case("D7_early_second_hello", "D7", "a second hello that does not wait for the server's word is judged as well")
def early_hello(rig):
    g = ground(rig)
    with At(Retrying()) as server:
        code = "d = hello('pass.test') + hello('evil.test'); talk('pass.test', port, d, 6); say(len(d))"
        sent = g.run(code, port=server.port)
        with server.lock:
            need(all(b"evil.test" not in a for a in server.after), f"of {sent} bytes the second hello came through")


@case("F4_own_credentials_are_removed", "F4", "where a credential is injected, those of the box go nowhere")
def own_credentials(rig):
    g = ground(rig)
    g.raw.clear()
    mine = ["Cookie: a=b0xown", "X-Api-Key: b0xown", "api-key: b0xown", "X_Goog_Api_Key: b0xown",
            "X-Amz-Security-Token: b0xown", "Proxy-Authorization: Basic b0xown", "Private-Token: b0xown"]
    got = g.run("say(status(https('api.test', port, get(path, 'api.test:%d' % port, *mine))))", port=g.raw.tls_port,
                mine=mine, path="/x?access_token=b0xown&keep=1")
    sent = g.raw.all()
    need(got == 200 and b"keep=1" in sent and b"Authorization: Bearer " in sent, f"{got} {sent[:300]!r}")
    need(b"b0xown" not in sent, "a credential of the box was sent on")


def answer_when_asked(rig, box, *flags):
    """Waits for an ask and allows it."""
    def run():
        for _ in range(300):
            asks = rig.cove("asks", box, "--json").ok().json
            if asks:
                number = str(asks[0]["id"])
                said.append(rig.cove("answer", box, number, "allow", *flags).ok().text)
                return
            done.wait(0.1)
    said, done = [], threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    return thread, said


@case("D15_answer_is_for_one_path", "D15", "an answer that holds for a time lets no other path and no other method out")
def answer_scope(rig):
    g = ground(rig)
    rules = [{"name": "ask", "ask": "raw.test", "tls": "intercept", "ask_timeout": "2s"}]
    with g.own_box(rules) as box:
        g.raw.clear()
        thread, said = answer_when_asked(rig, box, "--for", "1h")
        code = "say(status(https('raw.test', port, get(path, 'raw.test:%d' % port, method=method), 40)))"
        first = g.run(code, box, port=g.raw.tls_port, path="/shown", method="GET")
        thread.join()
        need(first == 200 and said and "/shown" in said[0], f"{first} {said}")
        need(g.run(code, box, port=g.raw.tls_port, path="/shown?x=1", method="GET") == 200, "the answer does not hold")
        for path, method in (("/other", "GET"), ("/shown", "DELETE")):
            got = g.run(code, box, port=g.raw.tls_port, path=path, method=method)
            need(got == 403, f"{method} {path}: {got}")
        sent = g.raw.all()
        need(b"/other" not in sent and b"DELETE" not in sent, f"{sent[:300]!r}")


@case("D15_answer_ends", "D15", "what an answer let in for a time is cut when that is over")
def answer_ends(rig):
    g = ground(rig)
    with g.own_box([{"name": "ask", "ask": "pass.test"}]) as box:
        g.raw.clear()
        thread, _ = answer_when_asked(rig, box, "--for", "2s")
        # Nobody says a word on it: only its end is waited for.
        got = g.run("s = secure('pass.test', port, verify=False)\nsay(read_all(s, 30)[1])", box, port=g.raw.tls_port)
        thread.join()
        need(got is True, "it was still open after 30 s")
