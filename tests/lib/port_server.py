"""A program that listens in a box, and does with a request what its path says; run there with python3."""
import base64
import hashlib
import json
import socket
import sys
import threading

go = threading.Event()  # /go sets it, and what waits goes on
lock = threading.Lock()
open_now = set()


def read_head(f):
    lines = []
    while (line := f.readline()) not in (b"\r\n", b""):
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    return lines


def read_body(f, fields):
    """Its length, and the hash of it."""
    seen, size = hashlib.sha256(), 0

    def take(n):
        nonlocal size
        while n > 0:
            data = f.read(min(n, 65536))
            if not data:
                raise EOFError
            seen.update(data)
            size += len(data)
            n -= len(data)
    if fields.get("transfer-encoding") == "chunked":
        while n := int(f.readline(), 16):
            take(n)
            f.readline()
        f.readline()
    else:
        take(int(fields.get("content-length", 0)))
    return size, seen.hexdigest()


def answer(s, data, status="200 OK", *fields):
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *fields]
    s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + data)


def socket_echo(s, f, fields):
    """Frames of a WebSocket, back as they came but for the mask."""
    key = fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    s.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while len(head := f.read(2)) == 2:
        size = head[1] & 127
        more = f.read(2 if size == 126 else 0)
        mask = f.read(4)
        data = f.read(int.from_bytes(more, "big") if more else size)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        s.sendall(head[:1] + bytes([head[1] & 127]) + more + data)
        if head[0] & 15 == 8:
            return


def serve(s):
    f = s.makefile("rb")
    lines = read_head(f)
    if not lines:
        return
    method, target, _ = lines[0].split(" ", 2)
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:])}
    path = target.split("?")[0]
    if path == "/raw":
        s.sendall(bytes.fromhex(target.split("?")[1]))
    elif path == "/ws":
        socket_echo(s, f, fields)
    elif path == "/events":
        go.clear()
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                  b"9\r\ndata: 1\n\n\r\n")
        go.wait()
        s.sendall(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
    elif path == "/wait":  # reads nothing of the body until then
        go.clear()
        s.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
        go.wait()
        answer(s, json.dumps(read_body(f, fields)).encode())
    elif path == "/early":  # reads nothing of the body, and closes
        answer(s, b"no", "413 Too Large")
    elif path == "/go":
        go.set()
        answer(s, b"gone")
    elif path == "/pour":  # as much as is asked for, or as is taken
        left = int(target.split("?")[1])
        s.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
        while left > 0:
            s.sendall(bytes(min(left, 65536)))
            left -= 65536
    elif path == "/open":
        with lock:
            answer(s, str(len(open_now) - 1).encode())
    else:
        body = read_body(f, fields)
        said = {"method": method, "target": target, "lines": lines, "body": body}
        answer(s, b"" if method == "HEAD" else json.dumps(said).encode(), "200 OK",
               "Set-Cookie: a=b; Domain=example.org", "Set-Cookie: cove-port=mine", "Service-Worker-Allowed: /",
               "Clear-Site-Data: \"*\"", "X-Mine: 1",
               "Connection: X-Mine, close", "X-Other: 2")


def one(s):
    with lock:
        open_now.add(s)
    try:
        serve(s)
    except (OSError, EOFError, ValueError):
        pass
    finally:
        with lock:
            open_now.discard(s)
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        s.close()


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256)
while True:
    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()
