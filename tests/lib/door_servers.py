"""Upstreams for the tests of the door, as threads of the test: what they were asked is there to look at.

    Dns   UDP and TCP on one loopback port; answers from a table, logs every question
    Web   HTTP/1.1 by hand, plain and TLS on two ports: so that it can send what good servers send and
          what bad ones do. Every request is kept as it came
    Tcp   connections handed to a function: echo, half-close, silence

All listen on 127.0.0.1. stop() ends the listening and cuts what is open.
"""
import base64
import collections
import gzip
import hashlib
import http.client
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
import urllib.parse
import zlib

LOOPBACK = "127.0.0.1"
WAIT = 90  # seconds that a server waits for a test or a client before it gives up


class Service:
    """A listening socket, and a thread for each connection."""

    def __init__(self, tls=None, port=0, address=LOOPBACK):
        self.tls = tls
        self.socket = socket.create_server((address, port), backlog=512)
        self.address, self.port = self.socket.getsockname()[:2]
        self.open, self.lock, self.accepted = set(), threading.Lock(), 0
        self.stopped = False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.socket.accept()
            except OSError:
                return
            with self.lock:
                self.accepted += 1
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        with self.lock:
            self.open.add(conn)
        raw = conn
        try:
            conn.settimeout(WAIT)
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                conn = self.tls.wrap_socket(conn, server_side=True)
                with self.lock:
                    self.open.add(conn)
            self.serve(conn)
            if self.tls:
                conn.unwrap()  # so that the end is one, and not a cut
        except (OSError, ssl.SSLError, EOFError, ValueError):
            pass  # the client went, which is its right; a test looks at what the client got
        finally:
            with self.lock:
                self.open -= {raw, conn}
            conn.close()
            raw.close()

    def serve(self, conn):
        raise NotImplementedError

    def cut(self):
        """Ends all open connections."""
        with self.lock:
            for conn in self.open:
                try:
                    conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def stop(self):
        self.stopped = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
        self.thread.join(WAIT)
        self.cut()


class Tcp(Service):
    """Each connection goes to the function."""

    def __init__(self, function, **kw):
        self.function = function
        super().__init__(**kw)

    def serve(self, conn):
        self.function(conn)


def echo(conn):
    while data := conn.recv(65536):
        conn.sendall(data)


def digest_at_end(conn):
    """Reads to the end of the client's side, and only then answers: needs a half-closed connection."""
    digest, size = hashlib.sha256(), 0
    while data := conn.recv(65536):
        digest.update(data)
        size += len(data)
    conn.sendall(f"{size} {digest.hexdigest()}\n".encode())


def talk_then_listen(conn):
    """Ends its own side first, and then counts what still comes; Tcp.late has the counts."""
    conn.sendall(b"first\n")
    conn.shutdown(socket.SHUT_WR)
    size = 0
    while data := conn.recv(65536):
        size += len(data)
    talk_then_listen.late.append(size)


talk_then_listen.late = []


# ---- names ----

A, AAAA = 1, 28
NOERROR, NXDOMAIN = 0, 3


class Dns:
    """Answers A and AAAA from a table: name -> list of addresses, or a list of such lists, one for each
    question in turn (the last stays). Names below .test that have no entry are 127.0.0.1."""

    def __init__(self):
        self.table, self.questions, self.lock = {}, [], threading.Lock()
        while True:
            self.tcp = socket.create_server((LOOPBACK, 0))
            self.port = self.tcp.getsockname()[1]
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self.udp.bind((LOOPBACK, self.port))
                break
            except OSError:
                self.tcp.close()
                self.udp.close()
        self.threads = [threading.Thread(target=t, daemon=True) for t in (self._serve_udp, self._serve_tcp)]
        for thread in self.threads:
            thread.start()

    def asked(self, name):
        """How often anything at or below this name was asked for."""
        name = name.lower()
        with self.lock:
            return sum(1 for q, _ in self.questions if q == name or q.endswith("." + name))

    def _addresses(self, name):
        with self.lock:
            entry = self.table.get(name)
            if entry and isinstance(entry[0], list):
                return entry.pop(0) if len(entry) > 1 else entry[0]
        if entry is not None:
            return entry
        return [LOOPBACK] if name.endswith(".test") else None

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        question = query[12:at + 5]
        kind = struct.unpack("!H", query[at + 1:at + 3])[0]
        name = ".".join(labels).lower()
        with self.lock:
            self.questions.append((name, kind))
        found = self._addresses(name) if kind in (A, AAAA) else []
        family = socket.AF_INET if kind == A else socket.AF_INET6
        mine = [a for a in found or [] if (":" in a) == (kind == AAAA)]
        records = b"".join(struct.pack("!HHHIH", 0xc00c, kind, 1, 5, 4 if kind == A else 16) +
                           socket.inet_pton(family, a) for a in mine)
        flags = 0x8180 | (NXDOMAIN if found is None else NOERROR)
        return query[:2] + struct.pack("!HHHHH", flags, 1, len(mine), 0, 0) + question + records

    def _serve_udp(self):
        while True:
            try:
                query, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            if not query:
                return
            try:
                answer = self.answer(query)
                if len(answer) > 512:  # the rest comes by TCP
                    answer = answer[:2] + b"\x83\x80" + b"\0\1\0\0\0\0\0\0" + query[12:]
                self.udp.sendto(answer, peer)
            except (IndexError, struct.error, OSError):
                pass  # not a question: no answer

    def _serve_tcp(self):
        while True:
            try:
                conn, _ = self.tcp.accept()
            except OSError:
                return
            with conn:
                conn.settimeout(WAIT)
                try:
                    size = struct.unpack("!H", conn.recv(2))[0]
                    answer = self.answer(conn.recv(size))
                    conn.sendall(struct.pack("!H", len(answer)) + answer)
                except (IndexError, struct.error, OSError):
                    pass

    def stop(self):
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", (LOOPBACK, self.port))
        self.tcp.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(WAIT)
        self.tcp.close()
        self.udp.close()


# ---- HTTP ----

Request = collections.namedtuple("Request", "method target headers body trailers raw tls peer")


def header(request, name):
    """The values of a field, in order."""
    return [v for k, v in request.headers if k.lower() == name.lower()]


def pattern(size, seed=0):
    """Bytes that tell where they belong."""
    block = b"".join(struct.pack("!Q", seed + i) for i in range(8192))
    return (block * (size // len(block) + 1))[:size]


class Web:
    """The same pages on a plain port (.port) and with TLS (.tls_port). A page is a method page_NAME(self, c)
    and answers /NAME and everything below. gates[NAME] holds what waits for a word from the test."""

    def __init__(self, context=None):
        self.requests, self.lock = [], threading.Lock()
        self.gates = collections.defaultdict(threading.Event)
        self.repositories = None  # a directory, for /git/
        self.files = {}           # target -> (content type, bytes)
        self.plain = Tcp(self._serve)
        self.secure = Tcp(self._serve, tls=context) if context else None
        self.port = self.plain.port
        self.tls_port = self.secure.port if self.secure else None

    def seen(self, word):
        """Requests whose target has the word, as they came."""
        with self.lock:
            return [r for r in self.requests if word in r.target]

    def last(self, word):
        return self.seen(word)[-1]

    def cut(self):
        for service in filter(None, (self.plain, self.secure)):
            service.cut()

    def stop(self):
        for gate in list(self.gates.values()):
            gate.set()
        for service in filter(None, (self.plain, self.secure)):
            service.stop()

    def _serve(self, conn):
        connection = Connection(self, conn)
        while connection.one():
            pass


class Connection:
    """One connection to Web: reads a request, gives it to its page, which answers."""

    def __init__(self, web, conn):
        self.web, self.conn, self.file = web, conn, conn.makefile("rb")
        self.closing = False

    def line(self):
        line = self.file.readline(65537)
        if not line.endswith(b"\n"):
            raise EOFError
        return line

    def fields(self):
        raw, found = b"", []
        while True:
            line = self.line()
            raw += line
            line = line.rstrip(b"\r\n")
            if not line:
                return raw, found
            name, _, value = line.partition(b":")
            found.append((name.decode("latin-1"), value.strip().decode("latin-1")))

    def one(self):
        first = self.file.readline(65537)
        if not first.strip():
            return False
        method, self.target, _ = first.decode("latin-1").split(" ", 2)
        raw, self.headers = self.fields()
        self.raw, self.method = first + raw, method
        self.names = {k.lower(): v for k, v in self.headers}
        self.url = urllib.parse.urlsplit(self.target)
        self.query = dict(urllib.parse.parse_qsl(self.url.query))
        self.body_read, self.body, self.trailers = False, b"", []
        self.kept = None
        self.keep()
        name = self.url.path.strip("/").split("/")[0].replace("-", "_") or "index"
        page = getattr(self, f"page_{name}", None)
        if self.target in self.web.files or page is None:
            page = self.page_files
        page()
        if not self.body_read and not self.closing:
            self.read_body()
        return not self.closing and self.names.get("connection", "").lower() != "close"

    def keep(self):
        peer = self.conn.getpeercert() if isinstance(self.conn, ssl.SSLSocket) else None
        request = Request(self.method, self.target, self.headers, self.body, self.trailers, self.raw,
                          isinstance(self.conn, ssl.SSLSocket), peer)
        with self.web.lock:
            if self.kept is None:
                self.kept = len(self.web.requests)
                self.web.requests.append(request)
            else:
                self.web.requests[self.kept] = request

    def body_parts(self):
        """The body as it comes; 100 Continue first where the client waits for it."""
        self.body_read = True
        if self.names.get("expect", "").lower() == "100-continue":
            self.conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in self.names.get("transfer-encoding", "").lower():
            while size := int(self.line().split(b";")[0], 16):
                while size:
                    data = self.file.read1(min(size, 65536))
                    if not data:
                        raise EOFError
                    size -= len(data)
                    yield data
                self.line()
            self.trailers = self.fields()[1]
            return
        size = int(self.names.get("content-length", 0))
        while size:
            data = self.file.read1(min(size, 65536))
            if not data:
                raise EOFError
            size -= len(data)
            yield data

    def read_body(self):
        self.body = b"".join(self.body_parts())
        self.keep()
        return self.body

    # answers

    def head(self, status, *headers, reason="Reason"):
        lines = [f"HTTP/1.1 {status} {reason}", *[f"{k}: {v}" for k, v in headers], "", ""]
        self.conn.sendall("\r\n".join(lines).encode("latin-1"))

    def reply(self, body=b"", status=200, kind="text/plain", headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.head(status, ("Content-Type", kind), ("Content-Length", len(body)), *headers)
        if self.method != "HEAD":
            self.conn.sendall(body)

    def chunk(self, data):
        self.conn.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def gate(self):
        self.web.gates[self.query.get("gate", "")].wait(WAIT)

    # pages

    def page_index(self):
        self.reply("hello\n")

    def page_files(self):
        self.read_body()
        found = self.web.files.get(self.target)
        if found is None:
            self.reply("not here\n", 404)
        else:
            self.reply(found[1], kind=found[0])

    def page_echo(self):
        """The request, as JSON."""
        body = self.read_body()
        peer = self.conn.getpeercert() if isinstance(self.conn, ssl.SSLSocket) else None
        self.reply(json.dumps({
            "method": self.method, "target": self.target, "headers": self.headers, "size": len(body),
            "sha256": hashlib.sha256(body).hexdigest(), "trailers": self.trailers,
            "tls": isinstance(self.conn, ssl.SSLSocket),
            "peer": dict(x[0] for x in peer["subject"])["commonName"] if peer else None}), kind="application/json")

    def page_body(self):
        self.reply(self.read_body(), kind=self.names.get("content-type", "application/octet-stream"))

    def page_upload(self):
        digest, size = hashlib.sha256(), 0
        for part in self.body_parts():
            digest.update(part)
            size += len(part)
        self.reply(f"{size} {digest.hexdigest()}\n")

    def page_bytes(self):
        """?n=: that many; ?chunked=1: without saying how many."""
        size, block = int(self.query["n"]), pattern(1 << 20)
        chunked = "chunked" in self.query
        self.head(200, ("Content-Type", "application/octet-stream"),
                  ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", size))
        sent = 0
        while sent < size:
            part = block[:size - sent]
            (self.chunk if chunked else self.conn.sendall)(part)
            sent += len(part)
        if chunked:
            self.conn.sendall(b"0\r\n\r\n")

    def page_until_close(self):
        self.closing = True
        self.head(200, ("Content-Type", "text/plain"), ("Connection", "close"))
        self.conn.sendall(b"as much as there is\n" * 1000)

    def page_trailers(self):
        self.read_body()
        self.head(200, ("Content-Type", "text/plain"), ("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum"))
        self.chunk(b"body\n")
        self.conn.sendall(b"0\r\nX-Sum: 1234\r\n\r\n")

    def page_hints(self):
        self.conn.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
        self.reply("after the hints\n")

    def page_early(self):
        """Answers before the body came, and takes no more of it."""
        self.closing = True
        self.reply("too much\n", 413, headers=(("Connection", "close"),))
        self.conn.shutdown(socket.SHUT_WR) if not isinstance(self.conn, ssl.SSLSocket) else None

    def page_expectation(self):
        """Refuses at the Expect, with the body never sent."""
        self.body_read = True
        self.reply("no\n", 417)

    def page_sse(self):
        """Two events, the second when the test says so."""
        self.head(200, ("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"),
                  ("Transfer-Encoding", "chunked"))
        self.chunk(b"data: one\n\n")
        self.gate()
        self.chunk(b"data: two\n\n")
        self.conn.sendall(b"0\r\n\r\n")

    def page_hang(self):
        """Half an answer, and the rest when the test says so."""
        self.head(200, ("Content-Type", "application/octet-stream"), ("Content-Length", 10))
        self.conn.sendall(b"12345")
        self.gate()
        self.conn.sendall(b"67890")

    def page_abort(self):
        """Half an answer, and then nothing."""
        self.closing = True
        self.head(200, ("Content-Type", "application/octet-stream"), ("Content-Length", 100000))
        self.conn.sendall(b"x" * 50000)

    def page_part(self):
        """All of it, or the one range that was asked for."""
        data, span = pattern(100000), self.names.get("range")
        if not span:
            return self.reply(data, headers=(("Accept-Ranges", "bytes"),))
        first, last = (int(n) if n else len(data) - 1 for n in span.removeprefix("bytes=").split("-"))
        self.reply(data[first:last + 1], 206, headers=(("Content-Range", f"bytes {first}-{last}/{len(data)}"),))

    def page_packed(self):
        """Compressed whatever was asked for, with what the request had in it."""
        text = b"compressed " * 1000 + repr(self.headers).encode() + b"the end"
        form = self.query.get("as", "gzip")
        data = {"gzip": gzip.compress, "deflate": zlib.compress}.get(form, bytes)(text)
        self.reply(data, headers=(("Content-Encoding", form), ("ETag", '"packed"')))

    def page_gzip(self):
        data = b"compressed " * 1000
        if "gzip" in self.names.get("accept-encoding", ""):
            self.reply(gzip.compress(data), headers=(("Content-Encoding", "gzip"),))
        else:
            self.reply(data)

    def page_redirect(self):
        self.read_body()
        self.reply("elsewhere\n", int(self.query.get("status", 302)), headers=(("Location", self.query["to"]),))

    def page_reflect(self):
        """All that came, in every place of the answer: what a credential must not come back in. ?how= cuts
        the body in pieces."""
        self.read_body()
        values = [v for _, v in self.headers] + [self.target]
        for v in list(values):
            if v.startswith("Basic "):
                values.append(base64.b64decode(v[6:]).decode("latin-1"))
        shifted = [base64.b64encode(b"x" * i + v.encode("latin-1")).decode() for v in values for i in range(3)]
        quoted = [urllib.parse.quote(v, safe="") for v in values]
        body = "\n".join(values + shifted + quoted + [json.dumps(values)]).encode("latin-1") + b"\n"
        echoes = [(f"X-Seen-{i}", v) for i, v in enumerate(values + shifted + quoted)]
        kind = self.query.get("type", "text/plain")
        how = self.query.get("how", "whole")
        if how == "whole":
            return self.reply(body, kind=kind, headers=echoes)
        self.head(200, ("Content-Type", kind), ("Transfer-Encoding", "chunked"), *echoes)
        step = {"bytes": 1, "threes": 3, "big": 4096}[how]
        for i in range(0, len(body), step):
            self.chunk(body[i:i + step])
        self.conn.sendall(b"0\r\n" + f"X-Trailing: {values[-1]}\r\n".encode("latin-1") + b"\r\n")

    def page_status(self):
        self.read_body()
        self.reply(b"", int(self.url.path.split("/")[2]))

    def page_upgrade(self):
        """Any protocol after 101; here: an echo."""
        self.closing = True
        self.head(101, ("Upgrade", "echo"), ("Connection", "Upgrade"))
        while data := self.file.read1(65536):
            self.conn.sendall(data)

    def page_git(self):
        """git http-backend, as a web server runs it."""
        body = self.read_body()
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.web.repositories), "GIT_HTTP_EXPORT_ALL": "1",
               "PATH_INFO": self.url.path[len("/git"):], "QUERY_STRING": self.url.query, "REMOTE_USER": "somebody",
               "REQUEST_METHOD": self.method, "CONTENT_TYPE": self.names.get("content-type", ""),
               "CONTENT_LENGTH": str(len(body)), "HTTP_CONTENT_ENCODING": self.names.get("content-encoding", ""),
               "GIT_PROTOCOL": self.names.get("git-protocol", ""), "GIT_CONFIG_NOSYSTEM": "1",
               "HOME": str(self.web.repositories)}
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, timeout=WAIT)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((v for k, v in fields if k == "Status"), "200 OK")
        self.head(status.split()[0], *[f for f in fields if f[0] != "Status"], ("Content-Length", len(answer)))
        self.conn.sendall(answer)


class Careless:
    """A server that does not read bodies: what follows a head is the next one to it. Every head that it read is
    kept, with the number of its connection. It closes where it is told to, and refuses to switch protocols."""
    OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
    NO = b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n"

    def __init__(self, context=None):
        self.lock, self.heads, self.resumed = threading.Lock(), [], []
        self.service = Tcp(self._serve, tls=context)
        self.port = self.service.port

    def _serve(self, conn):
        data = b""
        with self.lock:
            number = len(self.resumed)
            self.resumed.append(bool(getattr(conn, "session_reused", False)))
        while True:
            while b"\r\n\r\n" not in data:
                part = conn.recv(65536)
                if not part:
                    return
                data += part
            head, _, data = data.partition(b"\r\n\r\n")
            with self.lock:
                self.heads.append((number, head.decode("latin-1")))
            conn.sendall(self.NO if b"\r\nUpgrade:" in head else self.OK)
            if b"connection: close" in head.lower():
                return

    def clear(self):
        with self.lock:
            self.heads.clear()
            self.resumed.clear()

    def stop(self):
        self.service.stop()


RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


class Retrying:
    """A server that answers every first TLS hello with a HelloRetryRequest, and keeps what comes after it."""

    def __init__(self):
        self.lock, self.after = threading.Lock(), []
        body = b"\3\3" + RETRY + b"\0\x13\1\0" + struct.pack("!HHHHHHHH", 12, 43, 2, 0x0304, 51, 2, 24, 0)[:14]
        message = b"\2" + struct.pack("!I", len(body))[1:] + body
        self.retry = b"\x16\3\3" + struct.pack("!H", len(message)) + message
        self.service = Tcp(self._serve)
        self.port = self.service.port

    def _serve(self, conn):
        size = struct.unpack("!H", self._exactly(conn, 5)[3:])[0]
        self._exactly(conn, size)
        conn.sendall(self.retry)
        with self.lock:
            mine = bytearray()
            self.after.append(mine)
        while part := conn.recv(65536):
            with self.lock:
                mine += part

    @staticmethod
    def _exactly(conn, size):
        data = b""
        while len(data) < size:
            part = conn.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def stop(self):
        self.service.stop()


def request(address, method="GET", target="/", body=None, headers=None, context=None, timeout=WAIT):
    """A request from the host, for the tests of the rig itself and of forwarded ports."""
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    conn = kind(*address, timeout=timeout, **({"context": context} if context else {}))
    try:
        conn.request(method, target, body, headers or {})
        answer = conn.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        conn.close()


def readable(sock, seconds=WAIT):
    return bool(select.select([sock], [], [], seconds)[0])
