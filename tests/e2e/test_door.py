"""The one way out: real clients in a box, real servers on loopback, and the door between them."""
import hashlib
import json
import os
import socket
import struct
import subprocess
import threading

import pytest

from conftest import DEADLINE, needs_root, wait_until
from door_kit import CURL, DIRECT, WAYS, needs
from door_rig import LARGE, free_port, program
from door_servers import LOOPBACK, Web, header, pattern, talk_then_listen

pytestmark = pytest.mark.once("user")

# Passed through: the box sees the upstream's own certificate. Looked into: one of the box's authority.
PASS = {"name": "pass", "allow": ["web.test", "*.web.test", "nginx.test", "echo.test", "ws.test"]}
LOOK = {"name": "look", "allow": "other.test", "tls": "intercept"}
UP_SIZE = 16 << 20


@pytest.fixture(scope="module")
def out(session_door):
    """A box of the base image where there is one, with both rules."""
    name = session_door.box([PASS, LOOK])
    session_door.boxes.remove(name)
    yield name
    session_door.search(name)
    session_door("rm", "-f", name).ok()


@pytest.fixture(scope="module")
def out_host(session_door):
    """The same with the host's programs, for clients that the base image has not."""
    name = session_door.box([PASS, LOOK], image="host")
    session_door.boxes.remove(name)
    yield name
    session_door.search(name)
    session_door("rm", "-f", name).ok()


# ---- ways out ----

@pytest.mark.parametrize("way", WAYS)
def test_tls_passes_untouched(door, rig, out, way):
    got = door.curl(out, "-v", "--cacert", "/tmp/rig.pem", rig.url("/echo?pass"), way=way).ok()
    assert got.json["tls"] and "Cove test authority" in got.errors
    assert ("CONNECT" in got.errors) == (way == "proxy")


@pytest.mark.parametrize("way", WAYS)
def test_tls_is_intercepted_where_a_rule_needs_it(door, rig, out, way):
    got = door.curl(out, "-v", rig.url("/echo?look", "other.test"), way=way).ok()
    assert got.json["tls"] and "Cove box authority" in got.errors
    assert "server accepted http/1.1" in got.errors, "HTTP/2 is not offered there"


def test_a_group_decides(door, rig):
    """The rig knows no name of a group, so what a group lets go ends there: past its rule, and no further."""
    box = door.box([{"name": "mine", "allow": "web.test"}], use=["closed", "apt"])
    for host, method in (("deb.nodesource.com", "GET"), ("deb.nodesource.com", "POST"), ("deb.debian.org", "GET")):
        door.curl(box, "-X", method, f"http://{host}/", way="proxy")
    row = door.row(box, host="deb.nodesource.com", method="GET")
    assert row["rule"] == "apt" and row["verdict"] == "failed"
    row = door.row(box, host="deb.nodesource.com", method="POST")
    assert row["verdict"] == "deny" and "rule" not in row
    assert door.row(box, host="deb.debian.org")["verdict"] == "deny"
    door.curl(box, rig.url("/echo", tls=False), way="proxy").ok()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", ["web.test", "other.test"])
def test_plain_http(door, rig, out, way, host):
    assert door.echoed(out, rig.url("/echo", host, tls=False), way=way)["tls"] is False


def test_http2_passes_where_nobody_looks(door, rig, out):
    nginx = needs(rig.nginx)
    got = door.curl(out, "--cacert", "/tmp/rig.pem", "-w", "%{http_version}", f"https://nginx.test:{nginx.tls_port}/")
    assert got.ok().text == "nginx says hello\n2"


def test_wildcard_rule(door, rig, out):
    assert door.code(out, rig.url("/", "a.web.test"), "--cacert", "/tmp/rig.pem") == 200
    assert door.code(out, rig.url("/", "a.other.test")) == 0


@needs_root
def test_standard_ports(door, rig):
    """Names without a port, as people write them."""
    from door_servers import Tcp
    web = rig.new_web("std.test")
    address = "127.0.53.1"
    try:
        secure = Tcp(web._serve, tls=rig.ca.context("std.test"), port=443, address=address)
    except OSError as error:
        pytest.skip(f"port 443 of {address}: {error}")
    rig.services.append(secure)
    rig.dns.table["std.test"] = [address]
    box = door.box([{"allow": "std.test", "tls": "intercept", "ports": [443]}])
    got = door.echoed(box, "https://std.test/echo")
    assert dict(got["headers"])["Host"] == "std.test"


def test_default_policy_is_balanced(door):
    box = door("create").ok().text.strip()
    door.boxes.append(box)
    assert door.inspect(box)["network"]["policy"] == "balanced"
    assert door.do(box, DIRECT + CURL + "https://example.org/").rc == 6  # the name is refused
    door.row(box, host="example.org", verdict="deny")


def test_closed_has_no_way(door):
    for word in ("closed", "none"):
        got = door("run", "--net", word, "--", "sh", "-c", CURL + "http://web.test/; env; tail -n +3 /proc/net/dev")
        assert "_proxy=" not in got.text.lower() and got.text.splitlines()[-1].split(":")[0].strip() == "lo"


# ---- names ----

def test_denied_name_is_never_asked_for(door, rig, out):
    for line in (DIRECT + CURL + "https://leak-a.evil.test/", CURL + "https://leak-b.evil.test/",
                 CURL + "-f http://leak-c.evil.test/", "getent hosts leak-d.evil.test",
                 "getent ahosts leak-e.evil.test"):
        assert door.do(out, line).rc != 0
    assert rig.dns.asked("evil.test") == 0
    for c in "abcde":
        door.row(out, verdict="deny", host=f"leak-{c}.evil.test")


def test_name_in_the_box_is_synthetic(door, rig, out):
    first = door.do(out, "getent ahostsv4 web.test").ok().text.split()[0]
    second = door.do(out, "getent ahostsv4 other.test").ok().text.split()[0]
    assert first.startswith("198.1") and second.startswith("198.1") and first != second
    assert door.do(out, "getent ahostsv4 web.test").text.split()[0] == first
    assert door.do(out, "getent hosts localhost").ok()


def test_name_that_nobody_knows(door, rig):
    rig.dns.table["nowhere.test"] = []
    box = door.box([{"allow": "nowhere.test"}])
    assert door.code(box, "http://nowhere.test/") in (0, 502)
    assert rig.dns.asked("nowhere.test") >= 1


# ---- clients ----

PYTHON = """
import urllib.request, sys, json
print(json.load(urllib.request.urlopen(sys.argv[1], timeout=90))["method"])
"""
NODE = """
fetch(process.argv[1]).then(r => r.json()).then(j => console.log(j.method), e => { console.error(e); process.exit(1) })
"""


@pytest.mark.parametrize("way", WAYS)
def test_python(door, rig, out, way):
    door.need(out, "python3")
    door.put(out, "/tmp/get.py", PYTHON)
    assert door.do(out, WAYS[way] + f"python3 /tmp/get.py {rig.url('/echo', 'other.test')}").ok().text == "GET\n"


@pytest.mark.parametrize("way", WAYS)
def test_python_requests(door, rig, out_host, way):
    if door.do(out_host, "/usr/bin/python3 -c 'import requests'").rc:
        pytest.skip("python3-requests is missing on the host")
    door.put(out_host, "/tmp/get.py", "import requests, sys\n"
             "print(requests.post(sys.argv[1], data=b'x' * 70000).json()['size'])")
    line = WAYS[way] + f"/usr/bin/python3 /tmp/get.py {rig.url('/echo', 'other.test')}"
    assert door.do(out_host, line).ok().text == "70000\n"


def test_node_fetch(door, rig, out):
    door.need(out, "node")
    door.put(out, "/tmp/get.mjs", NODE.replace("argv[1]", "argv[2]"))
    assert door.do(out, f"node /tmp/get.mjs {rig.url('/echo', 'other.test')}").ok().text == "GET\n"


@pytest.mark.parametrize("way", WAYS)
def test_wget(door, rig, out_host, way):
    door.need(out_host, "wget")
    line = WAYS[way] + f"wget -q -T 30 -t 1 -O - {rig.url('/echo', 'other.test')}"
    assert json.loads(door.do(out_host, line).ok().out)["method"] == "GET"


def test_java(door, rig, out_host):
    door.need(out_host, "java")
    door.put(out_host, "/tmp/Get.java", """
        public class Get { public static void main(String[] a) throws Exception {
            System.out.print(new String(new java.net.URL(a[0]).openStream().readAllBytes())); } }""")
    got = door.do(out_host, f"java /tmp/Get.java {rig.url('/', 'other.test')}", timeout=120)
    if "ClassNotFound" in got.errors or "not find or load" in got.errors or "jdk.compiler" in got.errors:
        pytest.skip("this Java has no compiler")
    assert got.ok().text == "hello\n"


def test_go(door, rig, out_host):
    if not os.environ.get("COVE_TEST_SLOW"):
        pytest.skip("Go compiles for most of a minute: COVE_TEST_SLOW=1 asks for it")
    go = "PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin"
    if door.do(out_host, f"{go}; command -v go").rc:
        pytest.skip("go is not on the host")
    door.put(out_host, "/tmp/get.go", """package main
        import ("fmt"; "io"; "net/http"; "os")
        func main() { r, e := http.Get(os.Args[1]); if e != nil { fmt.Println(e); os.Exit(1) }
            b, _ := io.ReadAll(r.Body); fmt.Print(string(b)) }""")
    line = f"{go}; export GOCACHE=/tmp/go GOTOOLCHAIN=local; go run /tmp/get.go {rig.url('/', 'other.test')}"
    assert door.do(out_host, line, timeout=300).ok().text == "hello\n"


def test_git_clone_and_push(door, rig):
    needs(rig.git)
    base = rig.url("/git/project.git", "web.test")
    fetch = [{"allow": "web.test", "methods": ["GET"], "paths": ["/git/**"], "query": ["!service=git-receive-pack"]},
             {"allow": "web.test", "methods": ["POST"], "paths": ["/git/*/git-upload-pack"]}]
    box = door.box(fetch)
    door.need(box, "git")
    door.do(box, f"git clone -q {base} /tmp/p && cat /tmp/p/hello.txt").ok()
    change = ("cd /tmp/p && git config user.name T && git config user.email t@t.test && date >>hello.txt && "
              "git commit -qam more && git push -q origin HEAD:refs/heads/")
    got = door.do(box, change + "refused")
    assert got.rc != 0 and "403" in got.errors, got
    door.row(box, verdict="deny", host="web.test")
    both = door.box([{"allow": "web.test", "paths": ["/git/**"]}])
    door.do(both, f"git clone -q {base} /tmp/p").ok()
    door.do(both, change + "taken").ok()
    heads = subprocess.run(["git", "-C", rig.git() / "project.git", "branch"], capture_output=True, text=True).stdout
    assert "taken" in heads and "refused" not in heads


def test_pip(door, rig):
    index = needs(rig.index)
    box = door.box([{"allow": "index.test", "methods": ["GET", "HEAD"]}])
    door.need(box, "pip3")
    url = f"https://index.test:{index.tls_port}/simple/"
    door.do(box, f"pip3 install -q --no-input --disable-pip-version-check --break-system-packages "
                 f"--target /tmp/site --index-url {url} covetest", timeout=120).ok()
    got = door.do(box, "PYTHONPATH=/tmp/site python3 -c 'import covetest; print(covetest.WORD)'").ok()
    assert got.text == "a wheel through the door\n"


def test_npm(door, rig):
    index = needs(rig.index)
    box = door.box([{"allow": "index.test", "methods": ["GET", "HEAD"]}])
    door.need(box, "npm")
    door.do(box, f"mkdir /tmp/n && cd /tmp/n && npm install --silent --no-audit --no-fund --no-update-notifier "
                 f"--registry https://index.test:{index.tls_port}/ covetest", timeout=120).ok()
    assert door.do(box, "cd /tmp/n && node -p 'require(\"covetest\")'").ok().text == "a package through the door\n"


def test_redis(door, rig):
    port = needs(rig.redis)
    box = door.box([{"allow": "redis.test", "ports": [port]}], image="host")
    door.need(box, "redis-cli")
    cli = f"redis-cli -h redis.test -p {port}"
    got = door.do(box, f"{cli} set word through && {cli} get word")
    assert got.ok().text.split() == ["OK", "through"]
    assert door.row(box, kind="connect", host="redis.test")["port"] == port


def test_ssh(door, rig):
    server = needs(rig.sshd)
    box = door.box([{"allow": "ssh.test", "ports": [server.port]}], image="host")
    door.need(box, "ssh")
    door.put(box, "/tmp/key", server.private)
    door.put(box, "/tmp/known", server.known)
    got = door.do(box, "chmod 600 /tmp/key && ssh -F none -i /tmp/key -o UserKnownHostsFile=/tmp/known "
                       f"-o BatchMode=yes -p {server.port} {server.user}@ssh.test 'echo in; cat' </tmp/known")
    assert got.ok().text == "in\n" + server.known


# ---- streams ----

@pytest.mark.parametrize("host", ["web.test", "other.test"])
def test_large_download(door, rig, out, host):
    expected = hashlib.sha256(pattern(1 << 20) * (LARGE >> 20)).hexdigest()
    url = rig.url(f"/bytes?n={LARGE}", host)
    got = door.do(out, DIRECT + CURL + f"--cacert /tmp/rig.pem '{url}' | sha256sum" if host == "web.test" else
                  DIRECT + CURL + f"'{url}' | sha256sum", timeout=120)
    assert got.ok().text.split()[0] == expected


@pytest.mark.parametrize("way", WAYS)
def test_large_file_of_nginx(door, rig, out, way):
    nginx = needs(rig.nginx)
    line = WAYS[way] + CURL + f"--cacert /tmp/rig.pem https://nginx.test:{nginx.tls_port}/large | sha256sum"
    assert door.do(out, line, timeout=120).ok().text.split()[0] == hashlib.sha256(pattern(LARGE)).hexdigest()


@pytest.mark.parametrize("form", ["length", "chunked"])
@pytest.mark.parametrize("host", ["web.test", "other.test"])
def test_large_upload(door, rig, out, host, form):
    door.do(out, f"test -f /tmp/up || head -c {UP_SIZE} /dev/urandom >/tmp/up").ok()
    expected = door.do(out, "sha256sum </tmp/up").ok().text.split()[0]
    extra = "-H 'Transfer-Encoding: chunked' " if form == "chunked" else ""
    trust = "--cacert /tmp/rig.pem " if host == "web.test" else ""
    got = door.do(out, DIRECT + CURL + trust + extra + f"-T /tmp/up {rig.url('/upload', host)}", timeout=120)
    assert got.ok().text == f"{UP_SIZE} {expected}\n"


def test_chunked_download_and_until_close(door, rig, out):
    for tls in (True, False):
        url = rig.url("/bytes?n=3000001&chunked=1", "other.test", tls=tls)
        got = door.do(out, DIRECT + CURL + f"'{url}' | sha256sum")
        whole = (pattern(1 << 20) * 3)[:3000001]
        assert got.ok().text.split()[0] == hashlib.sha256(whole).hexdigest()
        got = door.curl(out, rig.url("/until-close", "other.test", tls=tls))
        assert got.ok().out == b"as much as there is\n" * 1000


def test_half_close(door, rig):
    box = door.box([{"allow": "echo.test"}])
    door.need(box, "python3")
    door.put(box, "/tmp/half.py", """
import socket, sys
s = socket.create_connection(("echo.test", int(sys.argv[1])), 30)
s.sendall(b"x" * 1000000)
s.shutdown(socket.SHUT_WR)
print(b"".join(iter(lambda: s.recv(4096), b"")).decode(), end="")
""")
    got = door.do(box, f"python3 /tmp/half.py {rig.digest.port}").ok()
    assert got.text == f"1000000 {hashlib.sha256(b'x' * 1000000).hexdigest()}\n"
    talk_then_listen.late.clear()
    got = door.do(box, f"""python3 -c 'import socket
s = socket.create_connection(("echo.test", {rig.early.port}), 30)
while s.recv(100): pass
s.sendall(b"y" * 500000)'""").ok()
    wait_until(lambda: talk_then_listen.late == [500000], "what was sent after the other side's end")


@pytest.mark.parametrize("host,tls", [("web.test", True), ("other.test", True), ("other.test", False)])
def test_server_sent_events(door, rig, out, host, tls):
    """The first event is there before the second was made."""
    web = rig.web if host == "web.test" else rig.other
    gate = f"sse-{host}-{tls}"
    trust = "/tmp/rig.pem" if host == "web.test" else "$SSL_CERT_FILE"
    client = door.start("exec", out, "--", "sh", "-c", DIRECT + f"curl -sSN --max-time 90 --cacert {trust} "
                        f"'{rig.url('/sse?gate=' + gate, host, tls=tls)}'")
    try:
        assert client.stdout.readline() + client.stdout.readline() == b"data: one\n\n"
        web.gates[gate].set()
        rest, errors = client.communicate(timeout=DEADLINE)
        assert rest == b"data: two\n\n", errors
    finally:
        web.gates[gate].set()
        client.kill()
        client.wait()


WEBSOCKET = """
import asyncio, ssl, sys, websockets
async def main():
    async with websockets.connect(sys.argv[1], max_size=1 << 25,
            ssl=ssl.create_default_context(cafile=sys.argv[2]) if sys.argv[1].startswith("wss") else None) as ws:
        for message in ("hello", b"x" * 3000000, ""):
            await ws.send(message)
            assert await ws.recv() == message
        await ws.ping()
    print("closed", ws.close_code)
asyncio.run(main())
"""


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("tls", [False, True])
def test_websocket(door, rig, look, tls):
    plain, secure = needs(rig.websocket)
    rule = {"allow": "ws.test", **({"tls": "intercept", "paths": ["/chat"]} if look else {})}
    box = door.box([rule], image="host")
    door.put(box, "/tmp/ws.py", WEBSOCKET)
    url = f"wss://ws.test:{secure}/chat" if tls else f"ws://ws.test:{plain}/chat"
    got = door.do(box, DIRECT + f"/usr/bin/python3 /tmp/ws.py {url} {'$SSL_CERT_FILE' if look else '/tmp/rig.pem'}")
    assert got.ok().text == "closed 1000\n"
    if look:
        door.row(box, kind="request", path="/chat", status=101)  # not the one of its beginning


def test_other_upgrade(door, rig, out):
    """An upgrade that is not a WebSocket: either end to end, or a refusal; never half."""
    door.need(out, "python3")
    got = door.do(out, f"""{DIRECT}python3 -c 'import socket
s = socket.create_connection(("other.test", {rig.other.port}), 30)
s.sendall(b"GET /upgrade HTTP/1.1\\r\\nHost: other.test:{rig.other.port}\\r\\n"
          b"Upgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n")
print(s.recv(4096).split()[1].decode())'""").ok()
    assert got.text.strip() in ("101", "400", "501", "404", "403", "502"), got


def test_interim_answers(door, rig, out):
    got = door.curl(out, "-i", rig.url("/hints", "other.test"))
    assert "103" in got.ok().text and got.text.endswith("after the hints\n")
    door.do(out, "head -c 2000000 /dev/zero >/tmp/zeros").ok()
    got = door.curl(out, "-v", "-H", "Expect: 100-continue", "-T", "/tmp/zeros", rig.url("/upload", "other.test"))
    assert "100 Continue" in got.ok().errors and got.text.startswith("2000000 ")
    refused = ["-H", "Expect: 100-continue", "-T", "/tmp/zeros"]
    assert door.code(out, rig.url("/expectation", "other.test"), *refused) == 417


def test_trailers(door, rig, out):
    got = door.curl(out, "-i", "--raw", rig.url("/trailers", "other.test"))
    assert "body" in got.ok().text and "X-Sum: 1234" in got.text
    door.need(out, "python3")
    door.put(out, "/tmp/trailer.py", """
import socket, ssl, sys
host, port = "other.test", int(sys.argv[1])
s = ssl.create_default_context().wrap_socket(socket.create_connection((host, port), 30), server_hostname=host)
s.sendall(b"POST /echo?trailing HTTP/1.1\\r\\nHost: %s:%d\\r\\nTransfer-Encoding: chunked\\r\\nTrailer: X-Sum\\r\\n"
          b"Connection: close\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\nX-Sum: 99\\r\\n\\r\\n" % (host.encode(), port))
print(b"".join(iter(lambda: s.recv(4096), b"")).split()[1].decode())
""")
    assert door.do(out, DIRECT + f"python3 /tmp/trailer.py {rig.other.tls_port}").ok().text == "200\n"
    assert rig.other.last("trailing").trailers == [("X-Sum", "99")]


@pytest.mark.parametrize("tls", [True, False])
def test_early_answer(door, rig, out, tls):
    """The server has answered and closed while the client still sends."""
    door.do(out, "head -c 30000000 /dev/zero >/tmp/big").ok()
    url = rig.url("/early", "other.test", tls=tls)
    got = door.curl(out, "-w", "%{http_code}", "-H", "Expect:", "-T", "/tmp/big", url)
    assert "413" in got.text, got


def test_half_an_answer_is_never_a_whole_one(door, rig, out):
    for host, extra in (("web.test", ["--cacert", "/tmp/rig.pem"]), ("other.test", [])):
        assert door.curl(out, "-o", "/dev/null", *extra, rig.url("/abort", host)).rc in (18, 55, 56, 92)


def test_compressed_answer(door, rig, out):
    got = door.curl(out, "--compressed", rig.url("/gzip", "other.test"))
    assert got.ok().out == b"compressed " * 1000
    assert any("gzip" in v for v in header(rig.other.last("/gzip"), "Accept-Encoding"))


def test_kept_connections(door, rig, out):
    url = rig.url("/echo?kept", "other.test")
    before = rig.other.secure.accepted
    got = door.curl(out, "-v", *[w for _ in range(10) for w in ("-o", "/dev/null", url)])
    assert got.ok().errors.count("Re-using existing connection") == 9
    assert rig.other.secure.accepted - before <= 2
    assert len(rig.other.seen("kept")) == 10


def test_many_at_once(door, rig, out):
    line = ("for i in $(seq 40); do " + DIRECT + CURL + f"-o /dev/null -w '%{{http_code}} ' "
            f"'{rig.url('/bytes?n=100000', 'other.test')}' & done; wait")
    assert door.do(out, line, timeout=120).ok().text.split() == ["200"] * 40


# ---- where nothing goes ----

def test_no_device_and_nothing_but_tcp(door, out):
    assert door.do(out, "tail -n +3 /proc/net/dev").ok().text.split()[0] == "lo:"
    door.need(out, "python3")
    got = door.do(out, """python3 -c '
import socket
def attempt(name, f):
    try:
        print(name, f())
    except OSError as e:
        print(name, "refused")
def udp(address):
    s = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.3)
    s.connect(address); s.send(b"x" * 20); s.send(b"y"); return s.recv(10)
attempt("udp", lambda: udp(("9.9.9.9", 53)))
attempt("quic", lambda: udp(("198.18.0.1", 443)))
attempt("udp6", lambda: udp(("2620:fe::fe", 53)))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
def ping():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.settimeout(0.3)
    s.sendto(b"\\x08" + bytes(7), ("9.9.9.9", 0)); return s.recv(10)
attempt("ping", ping)
attempt("sctp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).connect(("9.9.9.9", 80)))
'""").ok()
    assert all(line.endswith("refused") for line in got.text.splitlines()) and got.text.count("\n") == 7, got.text


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "[fd00:ec2::254]",
                                     "[::1]", "100.100.100.200", "1.1.1.1"])
def test_addresses_need_a_rule(door, rig, out, address):
    """By address, through the door: no rule names it. 127.0.0.1 without the proxy is the box's own."""
    assert door.code(out, f"http://{address}:{rig.web.port}/", "--noproxy", "no.test", way="proxy") == 403


def test_private_address_of_an_allowed_name(door, rig):
    """The name may be reached, but not where it points."""
    rig.dns.table["rebind.test"] = ["10.1.2.3"]
    rig.dns.table["loop.test"] = [LOOPBACK]
    rig.dns.table["six.test"] = ["::ffff:127.0.0.1"]
    box = door.box([{"allow": "*.test", "private": False}])
    for name in ("rebind.test", "loop.test", "six.test"):
        assert door.code(box, f"http://{name}:{rig.web.port}/") in (0, 403, 502)
        # The end of the box's own connection to the door may be a row after it.
        wait_until(lambda: [r for r in door.rows(box, host=name, kind="connect", verdict="deny")
                            if "address" in r["reason"]], "the denial")
    assert not rig.web.seen("loop.test")


def test_rebinding_between_two_questions(door, rig):
    """The address that was checked is the one that is dialled, each time."""
    rig.dns.table["turn.test"] = [["192.168.77.1"], [LOOPBACK], ["169.254.169.254"]]
    box = door.box([{"allow": "turn.test", "private": False}])
    before = rig.web.plain.accepted
    for _ in range(4):
        assert door.code(box, f"http://turn.test:{rig.web.port}/turned") in (0, 403, 502)
    assert rig.web.plain.accepted == before


def test_another_name_behind_the_allowed_one(door, rig, out):
    """SNI or Host of somebody else."""
    got = door.curl(out, "--connect-to", f"evil.test:443:web.test:{rig.web.tls_port}", "--cacert", "/tmp/rig.pem",
                    "https://evil.test/echo?fronted")
    assert got.rc != 0
    got = door.code(out, rig.url("/echo?fronted", "other.test"), "-H", "Host: web.test")
    assert got in (400, 403, 421)
    assert not rig.web.seen("fronted") and not rig.other.seen("fronted")


@pytest.mark.parametrize("fault", ["expired", "wrong name", "unknown authority"])
def test_upstream_that_cannot_prove_itself(door, rig, fault):
    from door_rig import Authority
    if fault == "unknown authority":
        where = rig.dir / "foreign"
        where.mkdir(exist_ok=True)
        context = Authority(where, "Nobody").context("bad.test")
    else:
        name = "wrong.test" if fault == "wrong name" else "bad.test"
        context = rig.ca.context(name, days=-1 if fault == "expired" else 2)
    web = Web(context)
    rig.services.append(web)
    box = door.box([{"allow": "bad.test", "tls": "intercept"}])
    got = door.curl(box, "-k", "-i", f"https://bad.test:{web.tls_port}/echo")
    assert got.text.splitlines()[0].split()[1] in ("403", "502") and not web.requests, got
    assert "certificate" in door.row(box, host="bad.test", kind="request", verdict="failed")["reason"]


def test_where_the_box_has_no_variables(door, rig):
    """Redirected without any of them, with the name resolved in the box."""
    box = door.box([LOOK])
    got = door("exec", box, "--", "env", "-i", "PATH=/usr/bin:/bin", "curl", "-sS", "--max-time", "90",
               rig.url("/echo", "other.test")).ok()
    assert got.json["tls"]
    assert door.inspect(box)["network"]["mode"] == "redirect"


def test_proxy_refuses_what_is_denied(door, rig, out):
    got = door.curl(out, "-v", "https://evil.test/", way="proxy")
    assert got.rc == 56 and "403" in got.errors
    got = door.curl(out, "http://evil.test/", "-w", "%{http_code}", way="proxy")
    assert "403" in got.text and "evil.test" in got.text
    assert rig.dns.asked("evil.test") == 0


# ---- the other direction ----

@pytest.fixture
def forwarded(door):
    started = []

    def start(box, port, *flags):
        process = door.start("port", *flags, box, port, stdin=subprocess.DEVNULL)
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.wait(DEADLINE)


def test_port(door, rig, forwarded):
    box = door.box([LOOK])
    door.need(box, "python3")
    door.do(box, "mkdir /tmp/www && echo from the box >/tmp/www/a").ok()
    door("exec", "-d", box, "--", "python3", "-m", "http.server", "-d", "/tmp/www", "8000").ok()
    local = free_port()
    forwarded(box, f"8000:{local}")
    got = wait_until(lambda: get(local, "/a"), "the forwarded port")
    assert got == b"from the box\n"
    ss = needs(lambda: program("ss", "iproute2"))
    listening = subprocess.run([ss, "-Hltn", f"sport = :{local}"], capture_output=True, text=True).stdout
    assert [line.split()[3] for line in listening.splitlines()] == [f"{LOOPBACK}:{local}"]


def get(port, target):
    from door_servers import request
    try:
        return request((LOOPBACK, port), target=target)[2]
    except (OSError, socket.timeout, ConnectionError):
        return None


def test_port_without_network(door, forwarded):
    """It needs no policy: nothing leaves by it."""
    box = door("create", "--net", "closed").ok().text.strip()
    door.boxes.append(box)
    door.need(box, "python3")
    door.do(box, "echo closed >/tmp/a").ok()
    door("exec", "-d", box, "--", "python3", "-m", "http.server", "-d", "/tmp", "8000").ok()
    local = free_port()
    forwarded(box, f"8000:{local}")
    assert wait_until(lambda: get(local, "/a"), "the forwarded port") == b"closed\n"


def test_port_websocket(door, rig, forwarded):
    needs(rig.websocket)
    import asyncio
    import websockets
    box = door.box([LOOK], image="host")
    door.put(box, "/tmp/serve.py", """
import asyncio, websockets
async def talk(ws, *_):
    async for m in ws: await ws.send(m)
async def main():
    async with websockets.serve(talk, "127.0.0.1", 9000, max_size=1 << 25): await asyncio.Future()
asyncio.run(main())
""")
    door("exec", "-d", box, "--", "/usr/bin/python3", "/tmp/serve.py").ok()
    local = free_port()
    forwarded(box, f"9000:{local}")

    async def talk():
        async with websockets.connect(f"ws://{LOOPBACK}:{local}/", max_size=1 << 25) as ws:
            for message in ("hello", b"z" * 2000000):
                await ws.send(message)
                assert await ws.recv() == message
        return True

    def attempt():
        try:
            return asyncio.run(talk())
        except (OSError, websockets.exceptions.WebSocketException, EOFError, asyncio.TimeoutError):
            return False

    wait_until(attempt, "a WebSocket through the forwarded port")


def test_port_that_nobody_listens_on(door, rig, forwarded):
    box = door.box([LOOK])
    local = free_port()
    process = forwarded(box, f"7:{local}")

    def refused():
        try:
            with socket.create_connection((LOOPBACK, local), 5) as s:
                return s.recv(1) == b""
        except ConnectionResetError:
            return True
        except OSError:
            return False

    wait_until(refused, "a connection that is closed at once")
    assert process.poll() is None


# A hello as browsers send it: with an encrypted name (ECH) that hides nothing. Prints what the answer begins with.
GREASE_HELLO = """
import socket, ssl, sys
out = ssl.MemoryBIO()
tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=sys.argv[1])
try:
    tls.do_handshake()
except ssl.SSLWantReadError:
    pass
hello = bytearray(out.read())
at = 5 + 4 + 2 + 32
at += 1 + hello[at]
at += 2 + int.from_bytes(hello[at:at + 2], "big")
at += 1 + hello[at]
hello += b"\\xfe\\x0d" + (40).to_bytes(2, "big") + bytes(40)
for place, size in ((3, 2), (6, 3), (at, 2)):
    more = int.from_bytes(hello[place:place + size], "big") + 44
    hello[place:place + size] = more.to_bytes(size, "big")
conn = socket.create_connection((sys.argv[1], int(sys.argv[2])))
conn.sendall(hello)
try:
    print(conn.recv(1).hex() or "closed")
except ConnectionResetError:
    print("closed")
"""


def test_encrypted_hellos_of_browsers(door, rig):
    """Ignored where the door intercepts, refused where it passes through, unless the rule says `ech: true`."""
    for rule, first in (({"tls": "intercept"}, "16"), ({}, "closed"), ({"ech": True}, "16")):
        box = door.box([{"allow": "web.test", **rule}])
        door.put(box, "/tmp/hello.py", GREASE_HELLO)
        got = door.do(box, DIRECT + f"python3 /tmp/hello.py web.test {rig.web.tls_port}").ok()
        assert got.text.strip() == first, rule
        if first == "closed":
            reason = door.row(box, kind="connect", verdict="deny")["reason"]
            assert "`tls: intercept`" in reason and "`ech: true`" in reason


# As psql ends with TLS: the last word, close_notify, and the socket is closed.
LIKE_PSQL = """
import socket, ssl, sys
conn = socket.create_connection((sys.argv[1], int(sys.argv[2])))
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
tls = context.wrap_socket(conn, server_hostname=sys.argv[1])
tls.sendall(b"Q")
assert tls.recv(1) == b"Z"
tls.sendall(b"X")
tls.setblocking(False)
try:
    tls.unwrap()
except ssl.SSLWantReadError:
    pass
tls.close()
"""


def test_an_ordinary_end_of_psql(door, rig):
    """A server that reads the Terminate and closes with the goodbye unread, which is a reset."""
    gone = threading.Event()

    def serve(conn):
        assert conn.recv(1) == b"Q"
        conn.sendall(b"Z")
        assert conn.recv(1) == b"X" and gone.wait(DEADLINE)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    server = rig.new_tcp(serve, tls=rig.ca.context("db.test"))
    box = door.box([{"allow": "db.test", "ports": [server.port], "tls": "pass"}])
    door.put(box, "/tmp/like_psql.py", LIKE_PSQL)
    door.do(box, DIRECT + f"python3 /tmp/like_psql.py db.test {server.port}").ok()
    gone.set()
    rows = wait_until(lambda: [r for r in door.rows(box, kind="connect") if "reason" in r], "the connection's end")
    row = rows[0]
    assert (row["verdict"], row["reason"]) == ("allow", "it ended with a reset")


def test_a_goodbye_that_nobody_waits_for(door, rig):
    """A server that says goodbye to a program that is gone: inside it is answered with a reset, which ends nothing
    that was still under way."""
    gone, seen = threading.Event(), threading.Event()

    def serve(conn):
        assert conn.recv(1) == b"Q"
        conn.sendall(b"Z")
        assert conn.recv(1) == b"X" and gone.wait(DEADLINE)
        conn.sendall(b"bye")
        seen.wait(DEADLINE)  # so the end comes from the box

    server = rig.new_tcp(serve, tls=rig.ca.context("db.test"))
    box = door.box([{"allow": "db.test", "ports": [server.port], "tls": "pass"}])
    door.put(box, "/tmp/like_psql.py", LIKE_PSQL)
    door.do(box, DIRECT + f"python3 /tmp/like_psql.py db.test {server.port}").ok()
    gone.set()
    rows = wait_until(lambda: [r for r in door.rows(box, kind="connect") if "reason" in r], "the connection's end")
    seen.set()
    assert (rows[0]["verdict"], rows[0]["reason"]) == ("allow", "it ended with a reset")


# A client that offers HTTP/2 and nothing else, as gRPC's do. Prints how TLS ended.
H2_ONLY = """
import socket, ssl, sys
context = ssl.create_default_context()
context.set_alpn_protocols(["h2"])
try:
    context.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2]))), server_hostname=sys.argv[1])
    print("agreed")
except ssl.SSLError:
    print("refused")
"""


def test_http2_only_is_named(door, rig):
    """gRPC: a server or a client of HTTP/2 alone gets a sentence with the cause and the remedy, and passes with it."""
    def serve(conn):
        conn.sendall(b"\0\0\0\4\0\0\0\0\0")
        while conn.recv(4096):
            pass

    context = rig.ca.context("grpc.test")
    context.set_alpn_protocols(["h2"])
    server = rig.new_tcp(serve, tls=context)
    rule = {"name": "grpc", "allow": "grpc.test", "ports": [server.port]}
    box = door.box([{**rule, "tls": "intercept"}])
    got = door.curl(box, f"https://grpc.test:{server.port}/")
    assert "HTTP/2" in got.text and "tls: pass" in got.text
    assert "tls: pass" in door.row(box, kind="request", verdict="failed")["reason"]
    door.put(box, "/tmp/h2.py", H2_ONLY)
    line = DIRECT + f"python3 /tmp/h2.py grpc.test {server.port}"
    assert door.do(box, line).ok().text.strip() == "refused"
    assert "tls: pass" in door.row(box, kind="connect", verdict="failed")["reason"]
    box = door.box([{**rule, "tls": "pass"}])
    door.put(box, "/tmp/h2.py", H2_ONLY)
    door.put(box, "/tmp/rig.pem", rig.ca.pem.read_text())
    assert door.do(box, "export SSL_CERT_FILE=/tmp/rig.pem; " + line).ok().text.strip() == "agreed"
