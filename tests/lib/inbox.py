"""What the cases at the door do inside a box: a client that can send what no honest client sends.

It is shown at /attack in every box, and run by Python's own interpreter there:

    python3 -B -c 'from inbox import *; ...'

Everything is bounded in time. A connection that the door refuses ends before a byte came: b"".
"""
import json
import os
import re
import socket
import ssl
import struct
import sys
import time

PROXY = ("127.0.0.1", 3128)
STUB = ("127.0.0.53", 53)
REDIRECT = 61128
WAIT = 60


def say(value):
    """The answer to the host's side."""
    def plain(v):
        return v.decode("latin-1") if isinstance(v, (bytes, bytearray)) else str(v)
    print(json.dumps(value, default=plain))


def read_all(sock, seconds=WAIT, most=1 << 22, until=None):
    """What comes until the end, that many bytes, or a silence; and whether the end came."""
    data, ended = b"", False
    sock.settimeout(seconds)
    while len(data) < most and not (until and until in data):
        try:
            part = sock.recv(65536)
        except (TimeoutError, socket.timeout):
            break
        except (OSError, ssl.SSLError):
            ended = True
            break
        if not part:
            ended = True
            break
        data += part
    return data, ended


def dial(host, port, seconds=WAIT):
    return socket.create_connection((host, port), seconds)


def talk(host, port, data, seconds=WAIT, **kw):
    """Connects directly, sends, and reads; b"" where there was nobody to talk to."""
    try:
        sock = dial(host, port, seconds)
    except OSError:
        return b""
    with sock:
        try:
            sock.sendall(data)
        except OSError:
            pass
        return read_all(sock, seconds, **kw)[0]


def proxy(data, seconds=WAIT, **kw):
    return talk(*PROXY, data, seconds, **kw)


def tunnel(host, port, seconds=WAIT):
    """A socket after a CONNECT that was granted, or the answer."""
    sock = socket.create_connection(PROXY, seconds)
    where = f"[{host}]" if ":" in host else host
    sock.sendall(f"CONNECT {where}:{port} HTTP/1.1\r\nHost: {where}:{port}\r\n\r\n".encode("latin-1"))
    answer, _ = read_all(sock, seconds, until=b"\r\n\r\n")
    if not answer.startswith(b"HTTP/1.1 200"):
        sock.close()
        return answer
    return sock


def context(verify=True, alpn=None, cafile=None):
    made = ssl.create_default_context(cafile=cafile) if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if alpn:
        made.set_alpn_protocols(alpn)
    return made


def secure(host, port, sni="", verify=True, alpn=None, sock=None, seconds=WAIT):
    """TLS to the host; sni None: no name is sent."""
    sock = sock or dial(host, port, seconds)
    sock.settimeout(seconds)
    return context(verify and sni is not None, alpn).wrap_socket(sock, server_hostname=host if sni == "" else sni)


def https(host, port, data, seconds=WAIT, most=1 << 22, **kw):
    """Sends bytes within TLS; what came back, or b"" if the handshake did not go through."""
    try:
        sock = secure(host, port, seconds=seconds, **kw)
    except (OSError, ssl.SSLError):
        return b""
    with sock:
        try:
            sock.sendall(data)
        except OSError:
            pass
        return read_all(sock, seconds, most)[0]


def get(path, host, *more, method="GET", body=b""):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *more, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def status(answer):
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(found[1]) if found else 0


# ---- names ----

def encode_name(labels):
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def question(name, kind=1, number=0x1234, flags=0x0100, count=1, klass=1, extra=b"", more=0):
    """name: text, or bytes as they stand in a message."""
    raw = name if isinstance(name, bytes) else encode_name([p.encode("latin-1") for p in name.split(".") if p])
    return struct.pack("!HHHHHH", number, flags, count, 0, 0, more) + raw + struct.pack("!HH", kind, klass) + extra


def ask(message, tcp=False, seconds=WAIT, to=STUB):
    """The answer's bytes, b"" without one."""
    if tcp:
        answer = talk(*to, struct.pack("!H", len(message)) + message, seconds, most=2)
        return answer[2:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(seconds)
        try:
            sock.sendto(message, to)
            return sock.recvfrom(4096)[0]
        except OSError:
            return b""


def rcode(answer):
    return answer[3] & 15 if len(answer) >= 12 else -1


def addresses(answer):
    """IPv4 addresses of a well-formed answer."""
    if len(answer) < 12 or rcode(answer) != 0:
        return []
    count, at = struct.unpack("!H", answer[6:8])[0], 12
    while answer[at]:
        at += 1 + answer[at]
    at, found = at + 5, []
    for _ in range(count):
        at += 2
        kind, _, _, size = struct.unpack("!HHIH", answer[at:at + 10])
        at += 10
        if kind == 1:
            found.append(socket.inet_ntoa(answer[at:at + 4]))
        at += size
    return found


def lookup(name):
    answer = ask(question(name))
    return rcode(answer), addresses(answer)


# ---- a client's first TLS message, to be spoiled ----

def hello(name, alpn=None):
    """The bytes of a real one."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = context(False, alpn).wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        made.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def with_extension(record, kind, data):
    """A hello with one more extension at its end."""
    extra = struct.pack("!HH", kind, len(data)) + data
    body = bytearray(record[5:])
    at = 4 + 2 + 32
    at += 1 + body[at]
    at += 2 + struct.unpack("!H", body[at:at + 2])[0]
    at += 1 + body[at]
    size = struct.unpack("!H", body[at:at + 2])[0]
    body[at:at + 2] = struct.pack("!H", size + len(extra))
    body += extra
    body[1:4] = struct.pack("!I", len(body) - 4)[1:]
    return record[:3] + struct.pack("!H", len(body)) + bytes(body)


def split_records(record, size):
    """The same message in records of that many bytes."""
    body = record[5:]
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(record[:3] + struct.pack("!H", len(p)) + p for p in parts)
