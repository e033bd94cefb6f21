"""A `cove serve` of a test, and clients of it: plain HTTP over its Unix socket or TCP."""
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

from programs import DEADLINE


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def ok(self, status=None):
        assert self.status < 300 and status in (None, self.status), (self.status, self.body[-2000:])
        return self

    def error(self, status, code=None):
        """An error has one shape; its kind and not its words are looked at."""
        assert self.status == status, (self.status, self.body[-2000:])
        error = self.json["error"]
        assert set(error) >= {"code", "message", "request_id"} and error["request_id"] == self.headers["X-Request-Id"]
        assert code in (None, error["code"]), error
        return error


class Server:
    """One server of a state directory. `tcp` is its port there; its log is a file."""

    def __init__(self, cove, *flags, tcp=True):
        self.cove, self.flags, self.tcp = cove, flags, tcp
        self.dir = tempfile.mkdtemp(prefix="cvs", dir="/tmp")
        self.path, self.log = f"{self.dir}/s", f"{self.dir}/log"
        self.port = 0
        self.process = None
        try:
            self.start()
        except BaseException:
            self.kill()
            shutil.rmtree(self.dir)
            raise

    def start(self):
        listen = ["--listen", f"127.0.0.1:{self.port}"] if self.tcp else []
        with open(self.log, "ab") as log:
            argv = [self.cove.program, "serve", "--socket", self.path, *listen, *self.flags]
            self.process = subprocess.Popen(argv, env=self.cove.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=log, text=True)
        for _ in range(1 + bool(listen)):
            line = self.process.stdout.readline()
            assert line.startswith("listening on "), line + open(self.log).read()
            if "127.0.0.1" in line:
                self.port = int(line.rsplit(":", 1)[1])
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(DEADLINE) == 0, open(self.log).read()[-6000:]
        self.process.stdout.close()

    def end(self):
        try:
            self.stop()
            text = open(self.log).read()
        finally:
            if self.process.poll() is None:
                self.kill()
            shutil.rmtree(self.dir)
        assert "runtime error" not in text and "Sanitizer" not in text, text[-5000:]

    def connection(self, tcp=False):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        return UnixConnection(self.path)

    def ask(self, method, path, body=None, token=None, headers=None, connection=None):
        """One request; a body that is no bytes is sent as JSON. A token goes over TCP."""
        c = connection or self.connection(tcp=bool(token))
        data = body if body is None or isinstance(body, bytes) or hasattr(body, "read") else json.dumps(body).encode()
        fields = {**({"Content-Type": "application/json"} if data is not None and data is not body else {}),
                  **(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        c.request(method, path, data, fields, encode_chunked=fields.get("Transfer-Encoding") == "chunked")
        reply = Reply(c.getresponse())
        if not connection:
            c.close()
        return reply

    def events(self, method, path, body=None, token=None, headers=None):
        """Events as they come: (name, data). Ends with the stream."""
        c = self.connection(tcp=bool(token))
        fields = {"Accept": "text/event-stream", **(headers or {}),
                  **({"Authorization": f"Bearer {token}"} if token else {})}
        c.request(method, path, None if body is None else json.dumps(body), fields)
        response = c.getresponse()
        try:
            if response.status != 200:
                Reply(response).ok()
            name, data = None, []
            for raw in response:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data.append(line[6:])
                elif not line and name:
                    yield name, json.loads("\n".join(data))
                    name, data = None, []
        finally:
            c.close()

    def raw(self, data, until=b""):
        """Bytes as they are; what comes back until the server closes, or `until`."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(DEADLINE)
            s.connect(self.path)
            s.sendall(data)
            got = b""
            while not until or until not in got:
                more = s.recv(65536)
                if not more:
                    break
                got += more
            return got


class WebSocket:
    """A client's end, for tests: whole messages, no fragments."""

    def __init__(self, server, path, token=None):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(DEADLINE)
        self.s.connect(server.path)
        key = f"Authorization: Bearer {token}\r\n" if token else ""
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}"
                       f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.s.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline() not in (b"\r\n", b""):
            pass
        assert self.status == 101, self.status

    def send(self, data):
        """Text, or bytes as they are."""
        kind, data = (1, data.encode()) if isinstance(data, str) else (2, data)
        mask = os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(data))
        self.s.sendall(bytes([0x80 | kind]) + size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        """(opcode, content) of the next message; pings are passed over."""
        while True:
            head = self.file.read(2)
            if len(head) < 2:
                return 8, b""
            size = head[1]
            if size > 125:
                size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
            data = self.file.read(size)
            if head[0] & 15 not in (9, 10):
                return head[0] & 15, data

    def close(self):
        self.file.close()
        self.s.close()
