"""What a hostile registry does, and the kind of error that a pull then ends with: one list for the end-to-end tests and
for the attacks. A row makes a hook of registry.Scripted anew for each use."""
import registry as reg

# Where a pull is led away from loopback it must refuse. Should it not, its request ends at a port that no one has.
NOWHERE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}


class Endless:
    """A body that never ends, and counts what was taken of it."""

    def __init__(self, suffix, status=200, headers=()):
        self.suffix, self.status, self.headers, self.sent = suffix, status, dict(headers), 0

    def __call__(self, _server, handler):
        if self.suffix not in handler.path:
            return False
        handler.send_response(self.status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        block = b"x" * 65536
        try:
            while self.sent < 1 << 30:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
                self.sent += len(block)
        finally:
            handler.close_connection = True
        return True


def answer_with(suffix, status, body=b"", headers=()):
    def hook(_server, handler):
        if suffix not in handler.path:
            return False
        handler.answer(status, body, headers)
        return True
    return hook


def lying_layer(server, handler):
    data = server.blobs.get(handler.path, b"")
    if len(data) < 2 << 20:
        return False
    handler.answer(200, data[:-1] + bytes([data[-1] ^ 1]))
    return True


def endless_headers(_server, handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for i in range(100000):
        handler.wfile.write(b"X-%d: %s\r\n" % (i, b"x" * 1000))
    handler.close_connection = True
    return True


def redirect_loop(_server, handler):
    handler.answer(302, b"", {"Location": handler.path + "x"})
    return True


def wrong_part(server, handler):
    if "/blobs/" not in handler.path:
        return False
    data = server.blobs[handler.path]
    handler.answer(206, data, {"Content-Range": f"bytes 7-{len(data) + 6}/{len(data) + 7}"})
    return True


CASES = {
    "a layer that is another": lambda: (lying_layer, "protocol"),
    "a manifest without end": lambda: (Endless("/manifests/", headers={"Content-Type": reg.MANIFEST}), "protocol"),
    "a layer without end": lambda: (Endless("/blobs/"), "protocol"),
    "an error without end": lambda: (Endless("/manifests/", status=400), "protocol"),
    "headers without end": lambda: (endless_headers, "protocol"),
    "redirects without end": lambda: (redirect_loop, "protocol"),
    "a page instead": lambda: (answer_with("/manifests/", 200, b"<html>", {"Content-Type": "text/html"}), "protocol"),
    "JSON that is no manifest": lambda: (answer_with("/manifests/", 200, b"{}", {"Content-Type": reg.MANIFEST}),
                                         "protocol"),
    "another media type": lambda: (answer_with("/manifests/", 200, b'{"schemaVersion":2,"layers":[],"config":{}}',
                                       {"Content-Type": "application/x-other"}), "unsupported"),
    "a digest that is another's": lambda: (answer_with("/manifests/", 200, b'{"schemaVersion":2,"manifests":[]}',
                                               {"Docker-Content-Digest": "sha256:" + "0" * 64}), "protocol"),
    "always a login": lambda: (answer_with("", 401, b"", {"WWW-Authenticate": 'Basic realm="x"'}), "denied"),
    "a login of no kind": lambda: (answer_with("", 401, b"", {"WWW-Authenticate": "Magic x=y"}), "unsupported"),
    "another part": lambda: (wrong_part, "protocol"),
    "tokens elsewhere without TLS": lambda: (answer_with("/manifests/", 401, b"", {
        "WWW-Authenticate": 'Bearer realm="http://192.0.2.1/token",service="s"'}), "denied"),
    "tokens of a file": lambda: (answer_with("/manifests/", 401, b"", {
        "WWW-Authenticate": 'Bearer realm="file:///etc/shadow",service="s"'}), "protocol"),
    "a long wait": lambda: (answer_with("/manifests/", 429, b"", {"Retry-After": "86400"}), "limit"),
    "to a file": lambda: (answer_with("/blobs/", 302, b"", {"Location": "file:///etc/passwd"}), "protocol"),
    "to gopher": lambda: (answer_with("/blobs/", 302, b"", {"Location": "gopher://127.0.0.1:70/x"}), "denied"),
    "to someone without TLS": lambda: (answer_with("/blobs/", 302, b"", {"Location": "http://192.0.2.1/x"}),
                                       "denied"),
    "with a password": lambda: (answer_with("/blobs/", 302, b"", {"Location": "http://a:b@127.0.0.1/x"}), "protocol"),
}
