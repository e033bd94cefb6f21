"""H: the API as a way in, and G over it: keys, names, bodies, slow clients, streams that break off."""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

from image_kit import tar, tiny_root
from parcel_kit import lines, member, parcel, with_sum
from rig import DEADLINE, Broke, NotApplicable, case, end, memory_of, need, wait_until
from server import Server, WebSocket

API = pathlib.Path(__file__).resolve().parent.parent / "data/openapi.yaml"
OPERATION = re.compile(r"^    (get|put|post|patch|delete):$")
SERVER_MAX = 512 << 20  # resident, whatever clients do; half of it is what a sanitizer keeps
# A name of the host's, a way up, a link's trick, and what splits lines of a protocol.
NAMES = ["..", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc", "a%2fb", "a%00b", "%00", "%0d%0aX:%20y", "%ff%fe", "-rf", "%20", "A",
         "*", "a" * 4096, "%C3%A9", "~", "%25s%25n", "'%20OR%20'1'='1"]
STRINGS = ["'; DROP TABLE boxes;--", '" OR ""="', "\\'; --", "%s%n%x", "\u202e\u2066", "x" * 5000,
           "\x1b]0;t\x07\x1b[2J",
           "$(id)`id`;id", "{{7*7}}", "../../x"]


def operations():
    """(method, path) of every operation, from the file that describes them."""
    if not API.exists():
        raise NotApplicable("no openapi.yaml beside the cases")
    found, path = [], None
    for line in API.read_text().splitlines():
        if line.startswith("components:"):
            break
        if line.startswith("  /"):
            path = line.strip().rstrip(":")
        elif match := OPERATION.match(line):
            found.append((match[1].upper(), path))
    need(len(found) > 40, f"only {len(found)} operations were read")
    return found


def fill(path, value, **values):
    return re.sub(r"\{(\w+)\*?\}", lambda m: values.get(m[1], value), path)


class Api:
    """One server of the run, its two keys, and a box of the first one's."""

    def __init__(self, rig):
        self.rig = rig
        self.server = Server(rig.cove)
        rig.closers.append(self.end)
        rig.cove("image", "import", "tiny", "-", input=tar(*tiny_root())).ok()
        self.names = ["first", "second"]
        self.keys = [rig.cove("key", "create", "--scope", "read,run,images,network,secrets,audit", n).ok().text.strip()
                     for n in self.names]
        self.box = self.make("mine", labels={"of": "first"})
        self.path = f"/v1/boxes/{self.box}"

    def make(self, name, key=0, **more):
        made = self.ask("POST", "/v1/boxes", {"name": name, "image": "tiny", **more}, key)
        need(made.status == 201, f"no box: {made.body[:300]}")
        return made.json["name"]

    def ask(self, method, path, body=None, key=None, **kw):
        """Whatever is answered is searched for the decoy, and never is the server's own fault."""
        reply = self.server.ask(method, path, body, token=None if key is None else self.keys[key], **kw)
        return self.look(reply, f"{method} {path[:80]}", key, sent=f"{path} {body}")

    def bare(self, method, path, headers=None, body=None):
        """Over TCP, with these fields alone."""
        return self.look(self.server.ask(method, path, body, headers=headers,
                                         connection=self.server.connection(tcp=True)), f"{method} {path[:80]}", 0)

    def look(self, reply, where, key, sent=""):
        self.rig.search(reply.body + str(reply.headers).encode(), where)
        need(reply.status not in (500, 502), f"{where}: {reply.status} {reply.body[:300]}")
        if key is not None and reply.status >= 400:
            for private in (self.rig.cove.home, str(self.rig.base), "keeper.sock", "/src/"):
                need(private in sent or private.encode() not in reply.body,
                     f"{where}: {private} is in {reply.body[:300]}")
        return reply

    def lives(self):
        code = self.server.process.poll()
        need(code is None, f"the server ended with {code}: {self.last_words()}")
        need(self.server.ask("GET", "/healthz").status == 200, "the server does not answer")
        used = memory_of(self.server.process.pid)
        need(used < SERVER_MAX, f"the server has {used >> 20} MiB")
        return used

    def last_words(self):
        """Of a server that ended: what it said that is no line of its log."""
        return "".join(line for line in open(self.server.log, errors="replace") if line[:1] != "{")[-2000:]

    def raw(self, data):
        """What is answered to these bytes over TCP, as far as it comes before the connection ends."""
        with socket.create_connection(("127.0.0.1", self.server.port), DEADLINE) as s, contextlib.suppress(OSError):
            got = b""
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while len(got) < 1 << 20 and (more := s.recv(65536)):
                got += more
        return got

    def end(self):
        try:
            self.server.end()
        except AssertionError as reason:
            raise Broke(f"the server's end: {reason}") from None


def api_of(rig):
    if rig.own_kernel:
        raise NotApplicable("the API does not depend on the wall")
    if not hasattr(rig, "api"):
        rig.api = Api(rig)
    rig.api.lives()
    return rig.api


# ---- H1: keys ----

@case("H1_no_key_no_answer", "H1", "without a key every route answers alike, and that is no")
def no_key(rig):
    api, seen = api_of(rig), set()
    for method, path in operations() + [("GET", "/v1/nowhere"), ("POST", "/"), ("GET", "/metrics"), ("GET", "/debug")]:
        if path == "/healthz":
            continue
        reply = api.bare(method, fill(path, api.box))
        need(reply.status == 401, f"{method} {path}: {reply.status}")
        seen.add(re.sub(rb'"request_id":"[^"]*"', b"", reply.body))
    need(len(seen) == 1, f"routes can be told apart: {seen}")


@case("H1_wrong_keys", "H1", "a key that is nearly right is wrong, however it is spelled and wherever it is put")
def wrong_keys(rig):
    api = api_of(rig)
    good = api.keys[0]
    flipped = good[:-1] + ("0" if good[-1] != "0" else "1")
    other_id = "cove_" + api.keys[1][5:13] + good[13:]
    for bad in ("", " ", "cove_", good[:-1], good + "0", flipped, other_id, good.upper(), good[5:], "cove_" + "0" * 72,
                good + "\t" + good, "../" + good, "cove_" + "\u0130" * 8, "A" * 60000):
        for field in ("Authorization", "X-API-Key"):
            value = f"Bearer {bad}" if field == "Authorization" else bad
            try:
                reply = api.bare("GET", "/v1/boxes", {field: value.encode("utf-8")})
            except (http.client.HTTPException, ValueError):
                continue
            need(reply.status in (400, 401, 431), f"{field} {bad[:20]!r}: {reply.status}")
    for query in ("key", "token", "api_key", "access_token"):
        need(api.bare("GET", f"/v1/boxes?{query}={good}").status == 401, "a key in the query counts")
    for value in (f"Basic {base64.b64encode(good.encode()).decode()}", f"bearer  {good}x", f"Token {good}"):
        need(api.bare("GET", "/v1/boxes", {"Authorization": value}).status == 401, f"{value[:12]} counts")
    two = f"GET /v1/boxes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {good}\r\n" \
          f"Authorization: Bearer {api.keys[1]}\r\nConnection: close\r\n\r\n"
    need(b" 200 " not in api.raw(two.encode())[:20], "two keys at once are taken")


@case("H1_another_keys_names", "H1", "no spelling of another key's name reaches what is its own, on any route")
def other_names(rig):
    api = api_of(rig)
    owner, mine = api.keys[0][5:13], api.keys[1][5:13]
    before = api.ask("GET", api.path, key=0).json
    guesses = [api.box, f"{owner}_{api.box}", f"{owner}%5f{api.box}",
               f"{mine}_../{owner}_{api.box}".replace("/", "%2f"),
               f"..%2f{owner}_{api.box}", f"%2e%2e%2f{owner}_{api.box}", f"{owner}.{api.box}", f"{owner}%2f{api.box}",
               before.get("id", "x")]
    tried = 0
    for method, path in operations():
        if "{box}" not in path:
            continue
        for guess in guesses:
            reply = api.ask(method, fill(path, "1", box=guess) + "?path=/etc/passwd&force=0&to=x&pattern=x", {}, key=1)
            need(reply.status >= 400, f"{method} {path} of {guess}: {reply.status} {reply.body[:200]}")
            tried += 1
    for field in ("from", "box", "snapshot", "source"):
        for guess in guesses:
            need(api.ask("POST", "/v1/forks", {field: guess}, key=1).status >= 400, f"forked by {field} {guess}")
    after = api.ask("GET", api.path, key=0).json
    need(after["state"] == "running" and after["started_ms"] == before["started_ms"], "the box was touched")
    return f"{tried} requests"


@case("H1_another_keys_images", "H1",
      "no spelling of another key's image or the host's, and no forged snapshot of it, makes a box or shows it")
def other_images(rig):
    api = api_of(rig)
    whose = f"{api.keys[0][5:13]}/private"
    api.ask("POST", "/v1/images/tiny/tags", {"tag": "private"}, key=0).ok(204)
    spellings = [f"{hub}{name}{tag}" for name in (whose, "host", "library/host") for tag in ("", ":latest")
                 for hub in ("", "docker.io/", "docker.io/docker.io/", "/", "./", "DOCKER.IO/", "index.docker.io/")]
    for image in spellings:
        one = f"/v1/images/{image.replace('/', '%2F')}"
        for method, path, body in (("GET", one, None), ("GET", f"{one}/history", None), ("GET", f"{one}/export", None),
                                   ("POST", f"{one}/tags", {"tag": "x"}), ("POST", "/v1/boxes", {"image": image}),
                                   ("PUT", "/v1/pools", {"image": image, "size": 1}),
                                   ("POST", "/v1/diff", {"from": f"image:{image}", "to": "image:tiny"})):
            reply = api.ask(method, path, body, key=1)
            need(reply.status >= 400, f"{method} {path} {body}: {reply.status}")
        for ids in ((), ("ab" * 32,)):
            spec = lines(name="x", image=image, base_user="root", wall="native", net="balanced", created_ms=1)
            text = lines(id="cd" * 32, box="x", storage="plain", spec=spec, box_created_ms=1, created_ms=1, bytes=1,
                         files=1, left_out=0, frozen_us=0, total_us=0, layer=list(ids))
            file = parcel(member(lines(what="snapshot", name="x"), with_sum(text)))
            need(api.ask("POST", "/v1/snapshots/import?name=z", file, key=1).status >= 400, f"a snapshot of {image}")
    api.ask("DELETE", "/v1/images/private", key=0).ok(204)
    return f"{len(spellings)} spellings"


@case("H1_a_removed_key", "H1", "a key that was removed opens nothing, also on a connection that it had opened")
def removed_key(rig):
    api = api_of(rig)
    token = rig.cove("key", "create", "third").ok().text.strip()
    kept = api.server.connection(tcp=True)
    need(api.server.ask("GET", "/v1/boxes", token=token, connection=kept).status == 200, "the key does not work")
    rig.cove("key", "rm", "third").ok()
    need(api.server.ask("GET", "/v1/boxes", token=token, connection=kept).status == 401, "it still works")
    kept.close()


# ---- H2: the host's paths ----

@case("H2_host_paths", "H2", "a path of the host in any field of a request of a key shows nothing of the host")
def host_paths(rig):
    api = api_of(rig)
    target = str(rig.canary.dir)
    values = [target, f"{target}/secret", "/etc/shadow", "../../../../etc", f"file://{target}", "/proc/self/environ",
              f"@{target}/secret", rig.cove.home]
    fields = ["image", "workspace", "net", "policy", "name", "hostname", "user", "workdir", "storage", "wall",
              "session",
              "env_file", "root"]
    made = 0
    for value in values:
        bodies = [{field: value} for field in fields]
        bodies += [{"mounts": [f"{value}:/x"]}, {"mounts": [f"{value}:/x:ro"]}, {"env": [f"X={value}"]},
                   {"secrets": [value]}, {"command": {"argv": ["/bin/sh"], "input_file": value}},
                   {"labels": {value: value}}, {"allow": [value]}]
        for body in bodies:
            reply = api.ask("POST", "/v1/boxes", {"image": "tiny", **body}, key=0)
            need(reply.status < 500 or reply.status == 501, f"{body}: {reply.status}")
            if reply.status != 201:
                continue
            made += 1
            look = "for f in /x /x/* /workspace/*; do [ -f $f ] && " \
                   "while read -r l; do echo \"$l\"; done < $f; done; true"
            path = f"/v1/boxes/{reply.json['name']}"
            seen = api.ask("POST", f"{path}/exec", {"argv": ["/bin/sh", "-c", look]}, key=0)
            need(rig.canary.mark.encode() not in seen.body, f"{body} shows the canary")
            api.ask("DELETE", f"{path}?force=1", key=0)
    for field in ("policy", "net"):
        for value in values:
            reply = api.ask("PUT", f"{api.path}/policy", {field: value}, key=0)
            need(reply.status >= 400, f"policy {field}={value}: {reply.status}")
    return f"{made} were boxes, with nothing of the host"


@case("H2_paths_outside_answer_alike", "H2", "what is there outside a key's directories does not show")
def paths_outside(rig):
    api, base = api_of(rig), rig.base / "alike"
    (base / "root").mkdir(parents=True)
    (base / "other").mkdir()
    for name, to in (("out", "../other"), ("asks", "../other/missing"), ("back", "../other/../root")):
        (base / "root" / name).symlink_to(to)
    rooted = rig.cove("key", "create", "alike", "--mount", base / "root").ok().text.strip()
    outside = ["/root/.bashrc", "/root/.missing", "/proc/self/cwd", "/proc/self/exe", "/etc/localtime", "/etc/missing",
               f"{base}/other", f"{base}/missing", f"{base}/root/../missing", "./x", "../missing/"]
    by_links = [f"{base}/root/{name}" for name in ("out", "asks", "back", "out/missing")]
    for token, paths in ((api.keys[0], [*outside, f"{base}/root", f"{base}/root/x"]), (rooted, outside + by_links)):
        seen = set()
        for path in paths:
            bodies = [{"workspace": path}] + ([{"mounts": [f"{path}:/x"]}] if path[0] == "/" else [])
            for body in bodies:
                reply = api.look(api.server.ask("POST", "/v1/boxes", {"image": "tiny", **body}, token=token), path, 0,
                                 sent=path)
                error = reply.json["error"]
                error.pop("request_id", None)
                seen.add((reply.status, json.dumps(error).replace(path, "PATH")))
        need(len(seen) == 1, f"paths can be told apart: {seen}")
        need(seen.pop()[0] == 403, "it is not refused")


@case("H2_files_stay_inside", "H2", "a file path of a request is one of the box's, whatever it looks like")
def files_inside(rig):
    api = api_of(rig)
    link = {"argv": ["/bin/sh", "-c", "cd /tmp; echo x > f"]}
    api.ask("POST", f"{api.path}/exec", link, key=0).ok()
    for path in (str(rig.canary.file), f"/../../../..{rig.canary.file}", f"/tmp/../../..{rig.canary.file}",
                 f"/proc/1/root{rig.canary.file}", f"/proc/self/root{rig.canary.file}",
                 f"/proc/1/cwd/..{rig.canary.file}"):
        for method, route in (("GET", "files"), ("GET", "files/stat"), ("GET", "files/list"), ("GET", "files/lines"),
                              ("PUT", "files"), ("DELETE", "files")):
            data = b"overwritten" if method == "PUT" else None
            reply = api.ask(method, f"{api.path}/{route}?path={path}", data, key=0)
            need(rig.canary.mark.encode() not in reply.body, f"{method} {route} {path} has the canary")


# ---- H3: shapes ----

@case("H3_names_in_paths", "H3",
      "whatever stands for a name in a path is refused as a client's mistake, on every route")
def names_in_paths(rig):
    api, count = api_of(rig), 0
    for method, path in operations():
        if "{" not in path:
            continue
        for name in NAMES:
            reply = api.ask(method, fill(path, name, box=name), {}, key=0)
            need(200 <= reply.status < 500, f"{method} {path} with {name[:30]}: {reply.status}")
            need(reply.status >= 400 or method == "DELETE", f"{method} {path} with {name[:30]}: {reply.status}")
            need(b"\r\nX: y" not in str(reply.headers).encode(), f"a field was split by {name}")
            count += 1
    api.lives()
    return f"{count} requests"


BODIES = [b"", b"{", b"[" * 100000, b'{"a":' * 100000, b"null", b"[]", b'"x"', b"\xff\xfe{}",
          b'{"name":"a","name":"b"}',
          b'{"ttl":1e999}', b'{"ttl":-0}', b'{"ttl":9223372036854775808}', b'{"ttl":-1e-400}', b'{"mem":NaN}',
          b'{"name":"a\\u0000b"}', b'{"name":"\\ud800"}', b'{"name":"\xc0\xaf"}', b"{}{}", b"{}\0", b"\xef\xbb\xbf{}",
          b'{"labels":{"a":{"b":{}}}}', b'{"' + b"k" * 100000 + b'":1}', b'{"env":[' + b'"A=B",' * 100000 + b'"A=B"]}',
          b'{"pids":true,"cpus":[1]}', b" " * 1000000 + b"{}x", b'{"x":[' + b"[]," * 100000 + b"[]]}",
          b"{" + b",".join(b'"%d":{}' % i for i in range(50000)) + b"}"]


@case("H3_bodies", "H3",
      "a body that is no proper JSON, too deep, too large or of other types is refused on every route")
def bodies(rig):
    api, count = api_of(rig), 0
    for method, path in operations():
        if method not in ("POST", "PATCH") or path == "/v1/boxes":
            continue
        for body in BODIES[1:] if count < 200 else BODIES[1:4]:
            reply = api.ask(method, fill(path, "none"), body, key=0)
            need(400 <= reply.status < 500, f"{method} {path} {body[:30]}: {reply.status}")
            count += 1
    for body in BODIES[1:]:
        reply = api.ask("POST", "/v1/boxes", body, key=0)
        need(400 <= reply.status < 500, f"createBox {body[:30]}: {reply.status} {reply.body[:200]}")
    return f"{count} bodies, {api.lives() >> 20} MiB"


@case("H3_a_body_without_end", "H3", "a body that is said to be, or is, far too large is not read to its end or kept")
def endless(rig):
    api = api_of(rig)
    head = f"POST /v1/boxes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.keys[0]}\r\n"
    for more in ("Content-Length: 1073741824\r\n\r\n", "Content-Length: 99999999999999999999\r\n\r\n",
                 "Content-Length: -1\r\n\r\n", "Content-Length: 1, 2\r\n\r\n",
                 "Transfer-Encoding: chunked, gzip\r\n\r\n"):
        got = api.raw((head + more).encode() + b" " * (2 << 20))
        need(not got or got[9:12] == b"501" or got[9:10] == b"4", f"{more.strip()}: {got[:40]}")
    chunks = b"FFFFFFFFFFFFFFFF\r\n" + b"x" * 65536
    got = api.raw((head + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunks)
    need(not got or got[9:10] == b"4", f"a chunk of 2^64: {got[:40]}")
    return f"{api.lives() >> 20} MiB"


@case("H3_sockets_that_lie", "H3", "a WebSocket with broken frames is closed, and its command is not confused")
def sockets(rig):
    api = api_of(rig)
    box = f"/v1/boxes/{api.keys[0][5:13]}_{api.box}"
    for data in (b"\x81\x05hello", b"\xc1\x80\0\0\0\0", b"\x81\xff" + b"\xff" * 8 + b"\0" * 4, b"\x83\x80\0\0\0\0",
                 b"\x80\x80\0\0\0\0", b"\x89\xfe\x01\x00" + b"\0" * 260, b"\x81\x84\0\0\0\0\xff\xfe\xfd\xfc",
                 b"\x01\x80\0\0\0\0" * 1000, b"\x88\x81\0\0\0\0x"):
        with contextlib.suppress(AssertionError, OSError):
            ws = WebSocket(api.server, f"{box}/exec")
            ws.s.sendall(data)
            ws.s.shutdown(socket.SHUT_WR)
            while ws.s.recv(65536):
                pass
            ws.close()
    api.lives()


# ---- H4, H9: who asks ----

@case("H4_pages_and_names_of_others", "H4",
      "a page of another site, or a name that was bound to this address, is not heard")
def rebinding(rig):
    api = api_of(rig)
    key = {"Authorization": f"Bearer {api.keys[0]}"}
    port = api.server.port
    for host in ("evil.test", f"evil.test:{port}", f"127.0.0.1.evil.test:{port}", f"localhost.evil.test:{port}",
                 "0", "[::]", "0.0.0.0",
                 f"127.1:{port}", f"localhost:{port}@evil.test", "127.0.0.1:1:2", ""):
        reply = api.bare("GET", "/v1/boxes", {**key, "Host": host})
        need(reply.status in (400, 403, 421), f"Host {host!r}: {reply.status}")
    for origin in ("https://evil.test", "null", "http://127.0.0.1.evil.test", f"http://localhost:{port + 1}", "file://",
                   f"http://127.0.0.1:{port}.evil.test", f"https://127.0.0.1:{port}", "chrome-extension://x"):
        for method in ("GET", "POST", "OPTIONS"):
            reply = api.bare(method, "/v1/boxes", {**key, "Origin": origin}, {} if method == "POST" else None)
            need(reply.status in (400, 403, 405), f"{method} from {origin}: {reply.status}")
            need("Access-Control-Allow-Origin" not in reply.headers, f"{origin} may read answers")
    ours = api.bare("GET", "/v1/boxes", {**key, "Origin": f"http://127.0.0.1:{port}"})
    need(ours.status == 200, f"the server's own page is not heard: {ours.status}")


@case("H9_the_socket_is_its_owners", "H9",
      "another user cannot use the socket, even where its mode lets anybody connect")
def other_user(rig):
    if not rig.is_root:
        raise NotApplicable("needs root, to be another user")
    api = api_of(rig)
    ask = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({api.server.path!r})\n" \
          "s.sendall(b'GET /v1/boxes HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\nprint(s.recv(4096))"
    argv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c", ask]
    os.chmod(api.server.dir, 0o755)
    shut = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE)
    need(shut.returncode and "PermissionError" in shut.stderr, f"another user connects: {shut.stdout}")
    os.chmod(api.server.path, 0o666)
    try:
        got = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE)
    finally:
        os.chmod(api.server.path, 0o600)
        os.chmod(api.server.dir, 0o700)
    need("HTTP/1.1 401" in got.stdout, f"another user is answered: {got.stdout[:200]} {got.stderr[-300:]}")


# ---- H5: slow and many ----

@case("H5_slow_heads_and_bodies", "H5",
      "clients that send a byte and wait cost little, and others are served meanwhile")
def slow(rig):
    api, held = api_of(rig), []
    before = memory_of(api.server.process.pid)
    starts = [b"G", b"GET /v1/boxes HTTP/1.1\r\nHo", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 1000,
              f"POST /v1/boxes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.keys[0]}\r\n"
              "Content-Length: 1000000\r\n\r\n{".encode(),
              f"GET {api.path}/events?follow=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {api.keys[1]}\r\n"
              "\r\n".encode()]
    try:
        for i in range(600):
            s = socket.create_connection(("127.0.0.1", api.server.port), DEADLINE)
            s.sendall(starts[i % len(starts)])
            held.append(s)
        for _ in range(20):
            need(api.ask("GET", "/v1/boxes", key=0).status == 200, "others are not served")
        grown = memory_of(api.server.process.pid) - before
        need(grown < 64 << 20, f"600 slow clients cost {grown >> 20} MiB")
    finally:
        for s in held:
            s.close()
    api.lives()
    return f"{grown >> 10} KiB for 600"


@case("H5_answers_that_are_not_read", "H5", "a client that does not read its answer holds no memory of the server's")
def unread(rig):
    api, held = api_of(rig), []
    api.ask("POST", f"{api.path}/exec", {"argv": ["/bin/sh", "-c",
             "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done"]},
            key=0).ok()
    before = memory_of(api.server.process.pid)
    head = f"GET {api.path}/execs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    request = f"{head}Authorization: Bearer {api.keys[0]}\r\n\r\n".encode()
    try:
        for _ in range(50):
            s = socket.create_connection(("127.0.0.1", api.server.port), DEADLINE)
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(2000):
                    s.send(request)
            held.append(s)
        need(api.ask("GET", "/v1/boxes", key=1).status == 200, "others are not served")
        grown = memory_of(api.server.process.pid) - before
        need(grown < 64 << 20, f"unread answers cost {grown >> 20} MiB")
    finally:
        for s in held:
            s.close()
    wait_until(lambda: api.ask("GET", "/v1/boxes", key=0).status == 200, "the key's own turn")


# ---- H6, H7, H8: words ----

@case("H6_words_are_only_words", "H6",
      "what looks like SQL, a format, a template or an escape is kept as it was written, or refused")
def words(rig):
    api = api_of(rig)
    kept = 0
    for text in STRINGS:
        reply = api.ask("POST", "/v1/boxes", {"image": "tiny", "labels": {"word": text}, "env": {"WORD": text}}, key=0)
        need(reply.status in (201, 400), f"{text!r}: {reply.status} {reply.body[:200]}")
        if reply.status == 201:
            path = f"/v1/boxes/{reply.json['name']}"
            kept += 1
            need(api.ask("GET", path, key=0).json["labels"]["word"] == text, f"{text!r} was changed")
            said = api.ask("POST", f"{path}/exec", {"argv": ["/bin/sh", "-c", 'printf %s "$WORD"']}, key=0).json
            need(said["stdout"] == text, f"{text!r} became {said['stdout']!r}")
            shown = rig.cove("inspect", f"{api.keys[0][5:13]}_{reply.json['name']}").ok()
            need(b"\x1b" not in shown.out + shown.err, "a terminal would be told what to do")
            api.ask("DELETE", f"{path}?force=1", key=0)
        for query in (f"label=word={text}", f"state={text}", f"after={text}", f"limit={text}"):
            quoted = "".join(c if c.isalnum() or c in "=" else "".join(f"%{b:02x}" for b in c.encode()) for c in query)
            reply = api.ask("GET", f"/v1/boxes?{quoted}", key=0)
            need(reply.status in (200, 400), f"{query!r}: {reply.status}")
    need(api.ask("GET", api.path, key=0).status == 200, "the first box is gone")
    return f"{kept} kept as they were"


@case("H7_who_did_what", "H7",
      "what a key did is in the audit log under its name, and no line of the server's log can be forged")
def who(rig):
    api = api_of(rig)
    token = "x\r\n{\"forged\":true}"
    for path in ("/v1/boxes/%0a%7b%22forged%22:true%7d", "/v1/%1b%5b2J", f"/v1/boxes?x={'%0d%0a'}forged"):
        api.ask("GET", path, key=0)
    with contextlib.suppress(ValueError):
        api.bare("GET", "/v1/boxes", {"User-Agent": token})
    lines = open(api.server.log, "rb").read().splitlines()
    for line in lines:
        need(b"\x1b" not in line, f"an escape in {line[:200]}")
        if line.startswith(b"{"):
            need("forged" not in json.loads(line), f"forged: {line[:200]}")
        for key in api.keys:
            need(key[13:].encode() not in line, "a key is in the log")
    ids = {key[5:13] for key in api.keys}
    need(any(i.encode() in line for i in ids for line in lines), "the log does not say who")


@case("H8_errors_say_nothing", "H8", "errors name no path of the host, no other key and no secret")
def errors(rig):
    api = api_of(rig)
    api.ask("PUT", "/v1/secrets/decoy", {"value": rig.secret}, key=0).ok()
    asked = [("GET", "/v1/boxes/none"), ("GET", "/v1/snapshots/none"), ("DELETE", "/v1/workspaces/none"),
             ("GET", f"{api.path}/files?path=/none"), ("GET", f"{api.path}/files?path=/"), ("GET", "/v1/secrets"),
             ("PUT", f"{api.path}/files?path=/none/none/none"), ("GET", f"{api.path}/execs/999/output"),
             ("POST", f"{api.path}/exec"), ("POST", f"{api.path}/rollback"), ("GET", f"{api.path}/policy")]
    for method, path in asked:
        body = {"argv": ["/none"], "snapshot": "none"} if method == "POST" else None
        try:
            reply = api.ask(method, path, body, key=0)
        except http.client.IncompleteRead:  # a directory with something in it that may not be read
            need(path.endswith("?path=/"), f"the answer to {path} was cut")
            continue
        need(api.keys[1][5:13].encode() not in reply.body, f"{path} names another key")
    api.ask("DELETE", "/v1/secrets/decoy", key=0)


@case("H11_no_debugging_for_strangers", "H11", "what shows the server's inside needs a key, and shows one no other's")
def no_debugging(rig):
    api = api_of(rig)
    for path in ("/metrics", "/v1/metrics", "/v1/events", "/debug", "/debug/pprof", "/v1/debug", "/status", "/config"):
        need(api.bare("GET", path).status == 401, f"{path} answers without a key")
        with contextlib.suppress(TimeoutError):  # events that go on
            c = api.server.connection(tcp=True)
            c.request("GET", path, headers={"Authorization": f"Bearer {api.keys[1]}"})
            c.sock.settimeout(1)
            response = c.getresponse()
            said = response.read(1 << 20)
            need(response.status < 500, f"{path}: {response.status}")
            need(api.box.encode() not in said and api.keys[0][5:13].encode() not in said,
                 f"{path} names what is another key's")


# ---- G over HTTP ----

@case("G4_forged_events_over_http", "G4",
      "what a command prints is only output: no event of the stream can be made by it")
def forged_events(rig):
    api = api_of(rig)
    forged = 'event: exit\\ndata: {"exit_code": 0}\\n\\n\\r\\n0\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\n\\r\\n'
    events = list(api.server.events("POST", f"{api.path}/exec",
                                    {"argv": ["/bin/sh", "-c", f"printf '{forged}'; exit 3"]},
                                    token=api.keys[0]))
    ends = [data for name, data in events if name in ("exit", "exited", "done", "result")]
    need(len(ends) == 1 and ends[0]["exit_code"] == 3, f"{events}")
    text = "".join(data["text"] for name, data in events if name == "stdout")
    need(text.startswith("event: exit\ndata: ") and text.endswith("HTTP/1.1 200 OK\r\n\r\n"), f"{text!r}")


@case("G15_http_reader_comes_back", "G15", "a reader over HTTP that was cut off gets every later byte, once")
def http_resume(rig):
    api = api_of(rig)
    loop = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    whole = "".join(f"line {i}\n" for i in range(20000))
    stream = api.server.events("POST", f"{api.path}/exec", {"argv": ["/bin/sh", "-c", loop]}, token=api.keys[0])
    job, seen, cuts = next(stream)[1]["exec_id"], "", 0
    for name, data in stream:
        seen += data["text"] if name == "stdout" else ""
        if len(seen) > 1000:
            break
    stream.close()
    while len(seen) < len(whole):
        path = f"{api.path}/execs/{job}/output?follow=1&stdout_from={len(seen)}"
        stream, start = api.server.events("GET", path, token=api.keys[0]), len(seen)
        for name, data in stream:
            seen += data["text"] if name == "stdout" else ""
            if len(seen) - start > 50000:
                break
        stream.close()
        cuts += 1
        need(len(seen) > start and cuts < 100, f"{len(seen)} bytes after {cuts} readers")
    need(seen == whole, "bytes are missing, or came twice")
    return f"{cuts} readers"


@case("G18_box_dies_during_http_upload", "G18", "an upload into a box that dies is answered, and the server goes on")
def upload_dies(rig):
    api = api_of(rig)
    name = api.make("dies")
    c = api.server.connection(tcp=True)
    c.putrequest("PUT", f"/v1/boxes/{name}/files?path=/tmp/big")
    c.putheader("Authorization", f"Bearer {api.keys[0]}")
    c.putheader("Content-Length", str(64 << 20))
    c.endheaders()
    c.send(b"x" * 300_000)
    pid = rig.cove.inspect(f"{api.keys[0][5:13]}_{name}")["keeper_pid"]
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        for _ in range(64):
            c.send(b"x" * (1 << 20))
    with contextlib.suppress(OSError, http.client.HTTPException):
        need(c.getresponse().status >= 400, "an upload into a dead box is done")
    c.close()
    api.lives()
    api.ask("DELETE", f"/v1/boxes/{name}?force=1", key=0).ok()


@case("G14_all_at_once_over_http", "G14",
      "stop, start, remove, exec and upload of one box at once: each is answered, the rest goes on",
      slow=True)
def at_once(rig):
    import concurrent.futures
    import random
    api, dice = api_of(rig), random.Random(15)
    deeds = [("POST", "/exec", {"argv": ["/bin/sh", "-c", "echo x"]}), ("POST", "/stop", {"grace": 0}),
             ("POST", "/start", {}),
             ("PUT", "/files?path=/tmp/f", b"x" * 10000), ("GET", "/files?path=/tmp/f", None), ("GET", "", None),
             ("POST", "/pause", {}), ("POST", "/resume", {}), ("DELETE", "?force=1", None), ("GET", "/execs", None)]

    def deed(_):
        method, path, body = dice.choice(deeds)
        if dice.random() < 0.3:
            api.ask("POST", "/v1/boxes", {"name": "racing", "image": "tiny"}, key=0)
        return api.ask(method, f"/v1/boxes/racing{path}", body, key=0).status

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        counts = list(pool.map(deed, range(400 if rig.quick else 4000)))
    need(set(counts) <= {200, 201, 204, 400, 404, 409, 410, 412, 422, 423, 429, 503}, f"{sorted(set(counts))}")
    api.ask("DELETE", "/v1/boxes/racing?force=1", key=0)
    need(api.ask("GET", api.path, key=0).json["state"] == "running", "its neighbour was touched")
    api.lives()


@case("G20_paused_in_the_middle_of_a_stream", "G20",
      "a box that is paused while a command prints over HTTP loses nothing")
def paused(rig):
    if "pause" not in rig.cove("help").text:
        raise NotApplicable("no pause")
    api = api_of(rig)
    loop = "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done"
    stream = api.server.events("POST", f"{api.path}/exec", {"argv": ["/bin/sh", "-c", loop]}, token=api.keys[0])
    next(stream)
    stopped = api.ask("POST", f"{api.path}/pause", {}, key=0)
    if stopped.status >= 400:
        stream.close()
        raise NotApplicable(f"this host cannot pause: {stopped.json['error']['message'][:100]}")
    api.ask("POST", f"{api.path}/resume", {}, key=0).ok()
    text = "".join(data["text"] for name, data in stream if name == "stdout")
    need(text == "".join(f"line {i}\n" for i in range(5000)), f"{len(text)} bytes")


@case("G18_server_killed_during_upload", "G18",
      "kill -9 of the server in the middle of an upload leaves no part of a file behind")
def server_killed(rig):
    api = api_of(rig)
    c = api.server.connection()
    c.putrequest("PUT", f"/v1/boxes/{api.keys[0][5:13]}_{api.box}/files?path=/tmp/half")
    c.putheader("Content-Length", str(64 << 20))
    c.endheaders()
    c.send(b"x" * 300_000)
    api.server.kill()
    c.close()
    api.server.start()
    look = {"argv": ["/bin/sh", "-c", "for f in /tmp/* /tmp/.*; do echo $f; done"]}
    seen = wait_until(
                     lambda: "half" not in (s := api.ask("POST", f"{api.path}/exec", look, key=0).json["stdout"]) and s,
                      "the part to go")
    need("/tmp" in seen and end, "the box does not answer")
