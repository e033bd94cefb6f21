"""H10: ports of boxes over the API: what a box is told, whose port is opened, and what a box may answer."""
import contextlib
import re
import socket

from rig import DEADLINE, NotApplicable, case, memory_of, need, wait_until
from server import Server

DOMAIN = "boxes.example.org"
PORT = 7007
# Answers each connection with the bytes that /tmp/say has, or with all that came, as text.
PROGRAM = r"""
import os, socket, threading
def serve(c):
    c.settimeout(5)
    got = b""
    try:
        while b"\r\n\r\n" not in got or (b"hunked" in got and b"0\r\n" not in got.split(b"\r\n\r\n", 1)[1]):
            more = c.recv(65536)
            if not more:
                break
            got += more
        say = open("/tmp/say", "rb").read() if os.path.exists("/tmp/say") else b""
        if say:
            forever = say.endswith(b"@@")
            c.sendall(say.rstrip(b"@"))
            while forever:
                c.sendall(say[-1002:-2])
        else:
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(got) + got)
    except OSError:
        pass
    c.close()
s = socket.create_server(("127.0.0.1", 7007), backlog=64)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


class Ports:
    """A server that gives ports names, two keys, and a box of the first one's in which the program listens."""

    def __init__(self, rig):
        self.server = Server(rig.cove, "--domain", DOMAIN)
        rig.closers.append(self.server.end)
        self.keys = [rig.cove("key", "create", n).ok().text.strip() for n in ("ports-a", "ports-b")]
        self.boxes = []
        for key, labels in zip(self.keys, ({}, {"cove.public": "all"})):
            made = self.server.ask("POST", "/v1/boxes", {"name": "web", "labels": labels}, token=key).ok()
            self.boxes.append(made.json["name"])
            path = "/v1/boxes/web"
            self.server.ask("POST", f"{path}/exec", {"argv": ["python3", "-c", PROGRAM], "background": True},
                            token=key).ok()
            wait_until(lambda p=path, k=key: self.server.ask("GET", f"{p}/ports", token=k).ok().json["ports"], "it")
        self.links = [self.server.ask("POST", "/v1/boxes/web/port-links", {"port": PORT}, token=k).ok().json
                      for k in self.keys]
        self.hosts = [link["host"] for link in self.links]

    def raw(self, data):
        """What is answered to these bytes over TCP until the connection ends."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.server.port), DEADLINE) as s:
            with contextlib.suppress(OSError):
                s.sendall(data)
                while len(got) < 8 << 20 and (more := s.recv(65536)):
                    got += more
        return got

    def ask(self, host, path="/", *fields, method="GET", body=b""):
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *fields]
        return self.raw("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    def says(self, data):
        self.server.ask("PUT", "/v1/boxes/web/files?path=/tmp/say", data, token=self.keys[0]).ok()

    def lives(self):
        need(self.server.process.poll() is None, "the server ended")
        need(self.server.ask("GET", "/healthz").status == 200, "the server does not answer")
        return memory_of(self.server.process.pid)


def ports_of(rig):
    if rig.own_kernel:
        raise NotApplicable("the API does not depend on the wall")
    if not rig.options.tar:
        raise NotApplicable("no base image for a key's box")
    if not hasattr(rig, "ports_api"):
        rig.ports_api = Ports(rig)
    rig.ports_api.lives()
    return rig.ports_api


@case("H10_what_a_box_is_not_told", "H10",
      "no spelling of a key, a link or its cookie comes into the box that it opens")
def not_told(rig):
    p = ports_of(rig)
    key, link, host = p.keys[0], p.links[0]["token"], p.hosts[0]
    secret = [key[13:].encode(), link.rsplit(".", 1)[1].encode()]
    path, seen = f"/v1/boxes/web/ports/{PORT}/x", 0
    good = f"Authorization: Bearer {key}"
    tries = [(p.server.port, path, f) for f in (
        [good], [f"X-API-Key: {key}"], [f"authorization: bearer   {key}"], [good, f"X_API_Key: {key}"],
        [good, f"Cookie: cove-port={link}; a={key}"], [good, f"Proxy-Authorization: Bearer {key}"],
        [good, "Connection: close, Host, Cookie"], [f"X-API-KEY: {key.replace('cove_', 'e2b_')}"],
        [good, f"Authorization_: Bearer {key}"])]
    tries += [(host, f"/x?{q}", f) for q, f in (
        (f"cove_token={link}", []), (f"a=b&cove%5Ftoken={link}", []), (f"%63ove_token={link}&x", []),
        (f"cove_token={link}", [f"Referer: http://{host}/?cove_token={link}"]),
        ("", [f"Cookie: cove-port={link}"]), ("", [f"Cookie: a=b;cove-port={link};c=d", f"Cookie: cove-port={link}"]),
        ("", [good]), ("", [f"X-API-Key: {key}", "Authorization: Basic x"]),
        (f"cove_token={link}", [good]), ("", [f"Cookie: cove-port={link}; __Host-cove-port={link}"]))]
    for where, target, fields in tries:
        got = p.ask(f"127.0.0.1:{where}" if isinstance(where, int) else where, target, *fields)
        need(b"HTTP/1.1 500" not in got, f"{fields}: {got[:100]}")
        need(not any(s in got for s in secret), f"{target[:40]} {[f[:20] for f in fields]}: it is in {got[:600]}")
        seen += b" 200 OK" in got[:20]
    chunks = b"3\r\nabc\r\n0\r\nX-API-Key: " + key.encode() + b"\r\n\r\n"
    got = p.ask("localhost", path, good, "Transfer-Encoding: chunked", method="POST", body=chunks)
    need(not any(s in got for s in secret), f"in trailers: {got[:300]}")
    need(seen >= 15, f"only {seen} reached the box")
    return f"{seen} requests reached the box"


@case("H10_another_keys_port", "H10",
      "a key, a link and a cookie open their own box's port, however the name is spelled")
def another_port(rig):
    p = ports_of(rig)
    mine, other = p.keys[1], p.keys[0]
    theirs, own = other[5:13], mine[5:13]
    until, issuer, mac = p.links[1]["token"].split(".")
    _, _, other_mac = p.links[0]["token"].split(".")
    tokens = [p.links[1]["token"], f"{until}.{theirs}.{mac}", f"{until}.operator.{mac}", f"{until}..{mac}",
              f"{until}.{issuer}.{other_mac[:-1]}0", f"99999999999.{theirs}.{mac}", f"{until}.{theirs}.{mac.upper()}",
              f"0{until}.{issuer}.{mac}"]
    names = [p.hosts[0], f"{PORT}-{theirs}--web.{DOMAIN}", f"{PORT}-{theirs}--web.{DOMAIN.upper()}.",
             f"{PORT}-{theirs}_web.{DOMAIN}", f"{PORT}-{own}--{theirs}--web.{DOMAIN}",
             f"{PORT}-{theirs}---web.{DOMAIN}",
             f"0{PORT}-{theirs}--web.{DOMAIN}", f"{PORT}-{theirs.upper()}--web.{DOMAIN}", f"{PORT}-web.{DOMAIN}"]
    count = 0
    for name in names:
        fields = [[], [f"Authorization: Bearer {mine}"], [f"Cookie: cove-port={p.links[1]['token']}"],
                  ["X-Forwarded-Host: " + p.hosts[1]], ["Forwarded: host=" + p.hosts[1]]]
        tried = [("/", f) for f in fields] + [(f"/?cove_token={t}", []) for t in tokens]
        for path, f in tried:
            got = p.ask(name, path, *f)
            need(re.match(rb"HTTP/1\.1 (400|401|403|404|421) ", got), f"{name} {path[:30]} {f}: {got[:200]}")
            count += 1
    for box in (f"{theirs}_web", f"{theirs}--web", f"..%2f{theirs}_web", f"{theirs}%5fweb"):
        got = p.ask("localhost", f"/v1/boxes/{box}/ports/{PORT}/", f"Authorization: Bearer {mine}")
        need(re.match(rb"HTTP/1\.1 (400|404) ", got), f"{box}: {got[:100]}")
    # Its own is public, and leads to its own box alone; the API is not behind a port's name.
    need(b" 200 OK" in p.ask(p.hosts[1])[:20], "a public port is closed")
    got = p.ask(p.hosts[1], "/v1/boxes", f"Authorization: Bearer {mine}")
    need(b'"boxes"' not in got, "the API answers to a port's name")
    for page in (f"http://{p.hosts[1]}", "null", "http://evil.example"):
        got = p.ask(p.hosts[0], "/", f"Cookie: cove-port={p.links[0]['token']}", f"Origin: {page}", method="POST")
        need(b" 403 " in got[:14], f"a page of {page} used the cookie: {got[:100]}")
    return f"{count} requests"


OK = b"HTTP/1.1 200 OK\r\n"
NEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nX-Forged: 1\r\n\r\nforged!"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SAYS = [OK + b"Content-Length: 2\r\n\r\nab" + NEXT, CHUNKS + b"2\r\nab\r\n0\r\n\r\n" + NEXT,
        b"HTTP/1.1 204 No\r\n\r\n" + NEXT, b"HTTP/1.1 304 No\r\nContent-Length: 99\r\n\r\n" + NEXT,
        b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" + NEXT,
        b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + NEXT,
        OK + b"Content-Length: 2\r\nX: y\r\n\tz\r\n\r\nab" + NEXT,
        OK + b"Content-Length: 2\r\nX: a\nSet-Cookie: b=c\r\n\r\nab",
        OK + b"Set-Cookie: a=b; Domain=.example.org\r\nSet_Cookie: a=b\r\nClear-Site-Data: \"*\"\r\n"
        b"Content-Length: 0\r\n\r\n",
        OK + b"X-Request-Id: mine\r\nCove-Port: 1\r\nConnection: Content-Type, Cove-Port, X-Request-Id\r\n\r\n",
        b"HTTP/1.1 200 \x1b[31m\r\nContent-Length: 0\r\n\r\n", b"\0" * 1000,
        b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n"]
# These go on for ever, in pieces of their last 1,000 bytes.
FOREVER = [OK + b"X: y\r\n" * 200, OK + b"X: " + b"y" * 2000, b"HTTP/1.1 100 Go\r\n\r\n" * 100, b"x" * 2000,
           CHUNKS + b"2;" + b"e" * 2000, CHUNKS + b"f" * 2000, CHUNKS + b"0\r\n" + b"A: b\r\n" * 400]


@case("H10_what_a_box_answers", "H10",
      "a box's answer is one answer to one request, and leaves nothing in the API's name")
def answers(rig):
    p = ports_of(rig)
    head = f"GET /v1/boxes/web/ports/{PORT}/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {p.keys[0]}\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for data in SAYS:
        p.says(data)
        got = p.raw(f"{head}\r\n".encode() + last)
        need(b"X-Forged" not in got, f"{data[:60]}: {got[:300]}")
        need(not re.search(rb"\r\n(Set[-_]Cookie|Clear-Site-Data|Proxy-Auth\w+)", got), f"{data[:60]}: {got[:300]}")
        need(got.count(b"X-Request-Id: ") <= 2 and b"X-Request-Id: mine" not in got, f"{data[:60]}: {got[:300]}")
        need(b'{"status":"ok"}' in got, f"{data[:60]}: what follows is lost: {got[:300]}")
    for data in FOREVER:
        p.says(data + b"@@")
        got = p.raw(f"{head}Connection: close\r\n\r\n".encode())
        need(got.startswith(b"HTTP/1.1 502 ") or b"\r\n0\r\n\r\n" not in got[-10:], f"{data[:40]}: {got[:200]}")
    p.says(b"")
    return f"{len(SAYS) + len(FOREVER)} answers, {p.lives() >> 20} MiB"
