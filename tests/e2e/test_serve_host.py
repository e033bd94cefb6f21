"""cove serve on its machine: room for boxes, the first key, a configuration that is read again, systemd's sockets, keys
that are revoked while they are in use, and many idle connections."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys

import pytest

from conftest import DEADLINE, wait_until
from server import Server, WebSocket

pytestmark = pytest.mark.once("root")

SMALL = {"image": "host", "mem": "64m", "disk": "64m", "storage": "plain", "best_effort": True}


def lines_of(server):
    return [json.loads(line) for line in open(server.log)]


@pytest.fixture
def serve(new_home):
    """Makes servers of state directories of their own, which may be killed."""
    made = []

    def make(*flags, home=None, **kw):
        made.append(Server(home or new_home(), *flags, **kw))
        return made[-1]

    yield make
    for s in made:
        s.end()


def new_key(server, *flags):
    return server.cove("key", "create", "k" + os.urandom(4).hex(), *flags).ok().text.strip()


# ---- room on the host ----

def test_a_share_holds_for_many_at_once(serve):
    server = serve("--memory-share", "320m", "--admission-wait", "0", "--threads", "16")
    # The image's skeleton is made with the first: by a child that allocates, which no sanitizer stands beside threads.
    got = [server.ask("POST", "/v1/boxes", SMALL)]
    with concurrent.futures.ThreadPoolExecutor(11) as pool:
        got += pool.map(lambda _: server.ask("POST", "/v1/boxes", SMALL), range(11))
    assert sorted(r.status for r in got) == [201] * 5 + [429] * 7
    said = [r for r in got if r.status == 429][0]
    assert said.headers["Retry-After"] and said.error(429, "limit")["message"].count("MiB") >= 3
    names = [r.json["name"] for r in got if r.status == 201]
    # A paused box still has its memory, a stopped one has none; starting and forking ask again.
    server.ask("POST", f"/v1/boxes/{names[0]}/pause", {}).ok()
    server.ask("POST", "/v1/boxes", SMALL).error(429, "limit")
    server.ask("POST", f"/v1/boxes/{names[0]}/resume", {}).ok()
    server.ask("POST", f"/v1/boxes/{names[1]}/stop", {"grace": 0}).ok()
    server.ask("POST", "/v1/forks", {"box": names[0], "name": "fork"}).ok(201)
    server.ask("POST", f"/v1/boxes/{names[1]}/start", {}).error(429, "limit")
    server.ask("POST", "/v1/forks", {"box": names[0]}).error(429, "limit")
    # What is held goes on with it, and more than all of it never fits.
    snap = server.ask("POST", f"/v1/boxes/{names[0]}/snapshots", {"name": "s"}).ok(201).json["name"]
    server.ask("POST", f"/v1/boxes/{names[0]}/rollback", {"snapshot": snap}).ok()
    server.ask("POST", "/v1/boxes", {**SMALL, "mem": "1g", "admission_wait": "60s"}).error(429, "limit")
    server.ask("POST", "/v1/boxes", {**SMALL, "admission_wait": "301s"}).error(400, "invalid")


def test_a_request_waits_for_room(serve):
    server = serve("--memory-share", "128m", "--admission-wait", "60s", "--threads", "8")
    names = [server.ask("POST", "/v1/boxes", SMALL).ok(201).json["name"] for _ in range(2)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.ask, "POST", "/v1/boxes", {**SMALL, "name": f"w{n}"}) for n in range(3)]
        # Two may wait for the eight threads; the third is answered at once.
        wait_until(lambda: [a for a in asked if a.done()], "the one too many")
        assert [a.result().status for a in asked if a.done()] == [429]
        for name in names:
            server.ask("DELETE", f"/v1/boxes/{name}?force=1").ok()
        assert sorted(a.result(DEADLINE).status for a in asked) == [201, 201, 429]


def test_who_waits_may_give_up(serve):
    server = serve("--memory-share", "64m", "--admission-wait", "300s", "--threads", "8")
    name = server.ask("POST", "/v1/boxes", SMALL).ok(201).json["name"]
    c = server.connection()
    c.request("POST", "/v1/boxes", json.dumps({**SMALL, "name": "given-up"}))
    server.ask("POST", "/v1/boxes", {**SMALL, "admission_wait": 0}).error(429)
    c.close()
    wait_until(lambda: [x for x in lines_of(server) if x.get("gone")], "its end")
    server.ask("DELETE", f"/v1/boxes/{name}?force=1").ok()
    wait_until(lambda: server.ask("POST", "/v1/boxes", {**SMALL, "name": "next"}).status == 201, "room")
    assert [b["name"] for b in server.ask("GET", "/v1/boxes").json["boxes"]] == ["next"]


def test_disk_counts_also_of_stopped_boxes(serve):
    server = serve("--disk-share", "128m", "--admission-wait", "0")
    names = [server.ask("POST", "/v1/boxes", SMALL).ok(201).json["name"] for _ in range(2)]
    server.ask("POST", f"/v1/boxes/{names[0]}/stop", {"grace": 0}).ok()
    server.ask("POST", "/v1/boxes", SMALL).error(429, "limit")
    server.ask("POST", f"/v1/boxes/{names[0]}/start", {}).ok()
    server.ask("DELETE", f"/v1/boxes/{names[0]}?force=1").ok()
    server.ask("POST", "/v1/boxes", SMALL).ok(201)


@pytest.mark.parametrize("what", ["memory", "disk"])
def test_a_host_that_runs_short_is_left_alone(serve, what):
    server = serve(f"--{what}-reserve", "1000t", "--admission-wait", "0")
    said = server.ask("POST", "/v1/boxes", SMALL).error(429, "limit")
    assert f"--{what}-reserve" in said["message"]
    assert server.ask("GET", "/v1/boxes").json["boxes"] == []


def test_a_key_is_told_of_no_other(serve, session_cove):
    server = serve("--memory-share", "128m", "--admission-wait", "0", home=session_cove)
    box = server.ask("POST", "/v1/boxes", {**SMALL, "name": "operators"}).ok(201).json["name"]
    body = {k: v for k, v in SMALL.items() if k != "image"}
    name = "k" + os.urandom(4).hex()
    token = server.cove("key", "create", name).ok().text.strip()
    mine = server.ask("POST", "/v1/boxes", body, token=token).ok(201).json["name"]
    said = server.ask("POST", "/v1/boxes", body, token=token).error(429, "limit")["message"]
    assert "operator" not in said and box not in said and "you " in said and "others " in said
    server.ask("DELETE", f"/v1/boxes/{mine}?force=1", token=token).ok()
    server.ask("DELETE", f"/v1/boxes/{box}?force=1").ok()
    server.cove("key", "rm", name).ok()


def test_a_box_of_a_weaker_wall_does_not_begin(serve, new_home):
    home = new_home()
    home("create", "--image", "host", "--name", "old").ok()
    home("stop", "old").ok()
    server = serve("--min-wall", "gvisor", home=home)
    said = server.ask("GET", "/v1/version").ok().json
    assert said["min_wall"] == said["wall"] == "gvisor"
    server.ask("POST", "/v1/boxes/old/start", {}).error(403, "denied")
    server.ask("POST", "/v1/forks", {"box": "old"}).error(403, "denied")
    server.ask("POST", "/v1/boxes", {"image": "host", "wall": "native"}).error(403, "denied")
    assert [b["name"] for b in server.ask("GET", "/v1/boxes").json["boxes"]] == ["old"]


# ---- a box's clock and its ends, over HTTP ----

def state_of(server, box):
    return {b["name"]: b["state"] for b in server.ask("GET", "/v1/boxes").ok().json["boxes"]}[box]


def test_any_request_wakes_a_box_that_was_idle(serve):
    server = serve()
    box = server.ask("POST", "/v1/boxes", {**SMALL, "idle": "100ms", "expire": "pause"}).ok(201).json["name"]
    web = f"/v1/boxes/{box}"
    for method, path, body in (("POST", "exec", {"line": "true"}), ("POST", "exec", {"line": "true", "shell": "x"}),
                               ("PUT", "files?path=/tmp/f", b"x"), ("GET", "files?path=/tmp/f", None),
                               ("GET", "files/grep?path=/tmp&pattern=x", None)):
        wait_until(lambda: state_of(server, box) == "paused", "it to be idle")
        server.ask(method, f"{web}/{path}", body).ok()
    # Looking at it is no use of it.
    wait_until(lambda: state_of(server, box) == "paused", "it to be idle")
    for path in ("stats", "execs", "events", "policy"):
        server.ask("GET", f"{web}/{path}").ok()
    assert state_of(server, box) == "paused"
    ws = WebSocket(server, f"{web}/exec")
    ws.send(json.dumps({"argv": ["true"]}))
    assert json.loads(ws.receive()[1])["type"] == "started"
    ws.close()


def test_a_box_comes_back_with_its_daemon(serve):
    server = serve()
    body = {**SMALL, "restart": "always", "on_start": "echo up >> ~/log; exec sleep 6000"}
    box = server.ask("POST", "/v1/boxes", body).ok(201).json["name"]
    web = f"/v1/boxes/{box}"

    def ups():
        got = server.ask("POST", f"{web}/exec", {"line": "cat ~/log; pgrep -x sleep"})
        return got.json["stdout"].split()[:-1].count("up") if got.status == 200 and "up" in got.json["stdout"] else 0
    wait_until(lambda: ups() == 1, "its daemon")
    os.kill(server.ask("GET", web).json["keeper_pid"], signal.SIGKILL)
    wait_until(lambda: ups() == 2, "it to be back")
    # Who stops it is obeyed.
    server.ask("POST", f"{web}/stop", {"grace": 0}).ok()
    server.ask("POST", "/v1/boxes", SMALL).ok(201)
    assert state_of(server, box) == "stopped"


def test_a_limit_that_is_hit_is_named_with_its_remedy(serve):
    server = serve()
    body = {"image": "host", "disk": "16m", "mem": "64m", "best_effort": True}
    web = f"/v1/boxes/{server.ask('POST', '/v1/boxes', body).ok(201).json['name']}"
    limits = server.ask("GET", web).ok().json["limits"]
    if not limits["disk_bytes"]["enforced"] or not limits["mem_bytes"]["enforced"]:
        pytest.skip("limits of disk and memory do not hold here")
    full = server.ask("PUT", f"{web}/files?path=/tmp/a", b"x" * (32 << 20)).error(507, "full")
    assert "16 MiB" in full["message"] and "--disk" in full["message"]
    got = server.ask("POST", f"{web}/exec", {"line": "head -c 32m /dev/zero > /tmp/b"}).ok().json
    assert (got["cause"], got["limit"], got["limit_value"]) == ("disk", "disk", 16 << 20) and "--disk" in got["remedy"]
    got = server.ask("POST", f"{web}/exec", {"argv": ["python3", "-c", "x = bytearray(200 << 20)"]}).ok().json
    assert (got["cause"], got["limit"], got["oom_killed"]) == ("oom", "mem", True) and "--mem" in got["remedy"]


# ---- the first key ----

def start(home, tmp, *flags, env=None, **kw):
    """cove serve with its stdout in a file, until it serves."""
    out = tmp / ("out" + os.urandom(4).hex())
    with open(out, "w") as to:
        argv = [home.program, "serve", "--socket", str(tmp / "s"), *flags]
        p = subprocess.Popen(argv, env={**home.env, **(env or {})}, stdin=subprocess.DEVNULL,
                             stdout=kw.pop("stdout", to), stderr=open(tmp / "log", "a"), **kw)
    return p, out


def healthy(tmp):
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect(str(tmp / "s"))
        except OSError:
            return False
        s.settimeout(DEADLINE)
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return s.recv(4096).startswith(b"HTTP/1.1 200")


def stop(p):
    p.send_signal(signal.SIGTERM)
    assert p.wait(DEADLINE) == 0


def test_the_first_start_makes_a_key_and_says_it_once(new_home, tmp):
    home = new_home()
    p, out = start(home, tmp, "--listen", "127.0.0.1:0")
    wait_until(lambda: "/v1/boxes" in out.read_text(), "what it says")
    text = out.read_text()
    token = text.split("COVE_API_KEY=")[1].split()[0]
    url = text.split("COVE_HOST=")[1].split()[0]
    assert token.startswith("cove_") and url.startswith("http://127.0.0.1:")
    # Each of the lines works as it stands.
    curl = [line.strip() for line in text.splitlines() if line.strip().startswith("curl")]
    for line in curl:
        got = subprocess.run(["sh", "-c", line.replace("curl", "curl -sS", 1)], capture_output=True, text=True,
                             env={**home.env, "COVE_HOST": url, "COVE_API_KEY": token}, timeout=DEADLINE)
        assert '"boxes":[]' in got.stdout.replace(" ", ""), (line, got.stdout, got.stderr)
    assert len(curl) == 2
    stop(p)
    assert token not in (tmp / "log").read_text()
    assert subprocess.run(["grep", "-rqF", token[13:], home.home]).returncode == 1
    p, out = start(home, tmp, "--listen", "127.0.0.1:0")
    wait_until(lambda: "/v1/boxes" in out.read_text(), "what it says")
    assert "cove_" not in out.read_text() and len(home("key", "ls", "--json").ok().json) == 1
    stop(p)


def test_what_it_prints_for_every_address_works(new_home, tmp):
    home = new_home()
    p, out = start(home, tmp, "--listen", "0.0.0.0:0", "--plain-http", "--accept-shared-kernel")
    wait_until(lambda: "/v1/boxes" in out.read_text(), "what it says")
    env = dict(word.split("=", 1) for word in out.read_text().split() if word.startswith("COVE_"))
    home("ls", "-q", env=env).ok()
    # A name that is not this server's: it says so itself.
    port = env["COVE_HOST"].rsplit(":", 1)[1]
    assert "--host-name" in home.fails("denied", "ls", env={**env, "COVE_HOST": f"http://0.0.0.0:{port}"})
    stop(p)


def test_the_end_cuts_what_is_resumed_and_waits_for_commands(serve):
    server = serve()
    box = server.ask("POST", "/v1/boxes", SMALL).ok(201).json["name"]
    line = "mkfifo /tmp/go; echo a; read x < /tmp/go; echo $x"
    command = server.events("POST", f"/v1/boxes/{box}/exec", {"line": line})
    exec_id = next(command)[1]["exec_id"]
    followed = [server.events("GET", path) for path in (
        "/v1/events?follow=1", f"/v1/boxes/{box}/execs/{exec_id}/output?follow=1", f"/v1/boxes/{box}/events?follow=1")]
    for stream in followed:
        next(stream)
    server.process.send_signal(signal.SIGTERM)
    for stream in followed:
        with contextlib.suppress(http.client.IncompleteRead, ConnectionResetError):
            for _ in stream:
                pass
    server.cove("exec", box, "--", "sh", "-c", "echo done > /tmp/go").ok()
    assert "done\n" in "".join(d["text"] for n, d in command if n == "stdout")


def test_no_key_is_made_where_nobody_sees_it(new_home, tmp):
    """Over the Unix socket alone, for the journal, or into a stdout that fails."""
    home = new_home()
    for flags, journal in (((), False), (("--listen", "127.0.0.1:0"), True)):
        with open(tmp / "journal", "w") as to:
            st = os.fstat(to.fileno())
            p, _ = start(home, tmp, *flags, stdout=to,
                         env={"JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}"} if journal else None)
            wait_until(lambda: healthy(tmp), "the server")
            stop(p)
        assert home("key", "ls", "-q").ok().out == b""
    with open("/dev/full", "w") as full:
        p, _ = start(home, tmp, "--listen", "127.0.0.1:0", stdout=full)
        wait_until(lambda: healthy(tmp), "the server")
        stop(p)
    assert home("key", "ls", "-q").ok().out == b""


# ---- a configuration that is read again ----

def reload(server, status):
    """SIGHUP, until it has said what became of it."""
    def said():
        return [x for x in lines_of(server) if x.get("message", "").startswith("SIGHUP")]
    before = len(said())
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(said()) > before, "the reload")
    assert said()[-1]["level"] == status, said()[-1]
    return said()[-1]["message"]


def certificate(path, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1",
                    "-keyout", path / "key.pem", "-out", path / "cert.pem"], check=True, capture_output=True)


def served_name(port):
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as s:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(s, server_hostname="a.test") as t:
            return b"a.test" if b"a.test" in t.getpeercert(True) else t.getpeercert(True)


def test_a_reload_takes_what_is_new_and_keeps_the_rest(serve, new_home, tmp):
    config = tmp / "c"
    certificate(tmp, "a.test")
    base = f"tls-cert: {tmp}/cert.pem\ntls-key: {tmp}/key.pem\n"
    config.write_text(base + "memory-share: 64m\nadmission-wait: 1ms\n")
    server = serve("--config", str(config), home=new_home())
    box = server.ask("POST", "/v1/boxes", SMALL).ok(201).json["name"]
    server.ask("POST", "/v1/boxes", SMALL).error(429)
    assert served_name(server.port) == b"a.test"
    stream = server.events("POST", f"/v1/boxes/{box}/exec", {"line": "echo a; read x < /tmp/go; echo b"})
    server.ask("POST", f"/v1/boxes/{box}/exec", {"line": "mkfifo /tmp/go"}).ok()
    assert next(stream)[0] == "started"
    # A share, another certificate, and one address more.
    certificate(tmp, "b.test")
    config.write_text(base + f"memory-share: 128m\nsocket: {server.path}\nlisten: 127.0.0.1:0\nlisten: [::1]:0\n"
                      f"listen: 127.0.0.2:0\nhost-name: other.test\n")
    reload(server, "info")
    assert served_name(server.port) != b"a.test"
    server.ask("POST", "/v1/boxes", SMALL).ok(201)
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
    mine = [line for line in listening.splitlines() if f"pid={server.process.pid}," in line]
    assert len(mine) == 3 and any("127.0.0.2" in line for line in mine), mine
    # What was open goes on.
    server.ask("POST", f"/v1/boxes/{box}/exec", {"line": "echo > /tmp/go"}).ok()
    assert "b\n" in "".join(d["text"] for n, d in stream if n == "stdout")
    # And one less.
    config.write_text(base + "listen: 127.0.0.1:0\n")
    reload(server, "info")
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
    assert len([x for x in listening.splitlines() if f"pid={server.process.pid}," in x]) == 1
    served_name(server.port)


@pytest.mark.parametrize("line", ["no-such: 1", "memory-share: lots", "listen: 0.0.0.0:1", "tls-cert: /nowhere",
                                  "threads: 9", "home: /elsewhere", "listen: 127.0.0.1:{taken}",
                                  "admission-wait: 301s", "min-wall: gvisr", "metrics-label: team",
                                  "otlp: http://127.0.0.1:1", "otlp-headers: /nowhere", "webhook-retry: 5s",
                                  "webhook-failures: 3"])
def test_a_bad_configuration_is_refused_and_the_old_one_stays(serve, tmp, line):
    config = tmp / "c"
    config.write_text("memory-share: 64m\nadmission-wait: 0\n")
    server = serve("--config", str(config))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        line = line.format(taken=taken.getsockname()[1])
        config.write_text(f"memory-share: 900m\nlisten: 127.0.0.3:0\n{line}\n")
        reload(server, "error")
    server.ask("POST", "/v1/boxes", {**SMALL, "mem": "128m"}).error(429)
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout
    assert len([x for x in listening.splitlines() if f"pid={server.process.pid}," in x]) == 1
    assert server.ask("GET", "/healthz", connection=server.connection(tcp=True)).status == 200


# ---- systemd ----

class Notified:
    """Where systemd would hear what the server says."""

    def __init__(self, path):
        self.path = str(path)
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.s.settimeout(DEADLINE)
        self.s.bind(self.path)

    def next(self):
        return self.s.recv(4096).decode()


def activate(home, tmp, sockets, *flags):
    """As systemd does it: descriptors from 3 on, LISTEN_PID, and a socket for messages."""
    notified = Notified(tmp / "notify")

    def give():
        high = [os.dup(os.dup2(s.fileno(), 100 + i)) for i, s in enumerate(sockets)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
        os.environ["LISTEN_PID"] = str(os.getpid())
    code = "import os,sys; os.environ['LISTEN_PID']=str(os.getpid()); os.execvp(sys.argv[1], sys.argv[1:])"
    p = subprocess.Popen([sys.executable, "-c", code, home.program, "serve", *flags], stdin=subprocess.DEVNULL,
                         stdout=open(tmp / "out", "w"), stderr=open(tmp / "log", "a"), preexec_fn=give, close_fds=False,
                         env={**home.env, "LISTEN_FDS": str(len(sockets)), "NOTIFY_SOCKET": notified.path})
    return p, notified


def test_sockets_of_systemd_are_taken_and_kept(new_home, tmp):
    home = new_home()
    with socket.socket(socket.AF_UNIX) as local, socket.socket() as tcp:
        local.bind(str(tmp / "s"))
        local.listen()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        # A request that came before the server was there is answered.
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(str(tmp / "s"))
            early.sendall(b"GET /v1/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            p, notified = activate(home, tmp, [local, tcp])
            early.settimeout(DEADLINE)
            assert early.recv(4096).startswith(b"HTTP/1.1 200")
        assert notified.next() == "READY=1"
        said = (tmp / "out").read_text()
        assert f"listening on http://127.0.0.1:{tcp.getsockname()[1]}\n" in said and f"on unix:{tmp}/s\n" in said
        p.send_signal(signal.SIGHUP)
        assert notified.next().startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert notified.next() == "READY=1\nSTATUS=serving"
        assert healthy(tmp)
        stop(p)
        assert notified.next() == "STOPPING=1"
        # It was systemd's: it is still there, and the next server takes it.
        assert (tmp / "s").exists()
        os.unlink(tmp / "notify")
        p, notified = activate(home, tmp, [local])
        assert notified.next() == "READY=1" and healthy(tmp)
        stop(p)


def test_a_socket_of_systemd_is_judged_as_any_other(new_home, tmp):
    home = new_home()
    for kind, words in ((socket.SOCK_STREAM, "--tls-cert"), (socket.SOCK_DGRAM, "does not listen")):
        with socket.socket(socket.AF_INET, kind) as s, contextlib.suppress(FileNotFoundError):
            s.bind(("0.0.0.0", 0))
            if kind == socket.SOCK_STREAM:
                s.listen()
            p, _ = activate(home, tmp, [s])
            assert p.wait(DEADLINE) == 2 and words in (tmp / "log").read_text()
            os.unlink(tmp / "notify")


# ---- keys that are revoked while they are in use ----

def test_what_a_revoked_key_has_open_is_cut(serve, session_cove):
    server = serve(home=session_cove)
    name, other = "k" + os.urandom(4).hex(), "o" + os.urandom(4).hex()
    token, kept = (server.cove("key", "create", n).ok().text.strip() for n in (name, other))
    boxes = [server.ask("POST", "/v1/boxes", {}, token=t).ok(201).json["name"] for t in (token, kept)]
    streams = [server.events("POST", f"/v1/boxes/{b}/exec", {"line": "echo a; sleep 600"}, token=t)
               for b, t in zip(boxes, (token, kept))]
    for s in streams:
        assert next(s)[0] == "started" and next(s)[0] == "stdout"
    ws = WebSocket(server, f"/v1/boxes/{boxes[0]}/exec", token)
    ws.send(json.dumps({"argv": ["sleep", "600"]}))
    assert json.loads(ws.receive()[1])["type"] == "started"
    waiting = concurrent.futures.ThreadPoolExecutor(1).submit(
        lambda: server.ask("POST", f"/v1/boxes/{boxes[0]}/exec", {"line": "sleep 600"}, token=token))
    execs = f"/v1/boxes/{boxes[0]}/execs"
    wait_until(lambda: len(server.ask("GET", execs, token=token).json["execs"]) == 3, "the third")
    server.cove("key", "rm", name).ok()
    with pytest.raises(OSError):
        raise OSError([x for x in streams[0]])
    assert ws.receive() == (8, b"")
    ws.close()
    assert waiting.exception(DEADLINE)
    # Another's goes on, and so does what the first had begun: it is the operator's to end.
    server.ask("POST", f"/v1/boxes/{boxes[1]}/exec", {"line": "pkill sleep"}, token=kept).ok()
    assert [n for n, _ in streams[1]][-1] == "exit"
    full = [b["name"] for b in server.ask("GET", "/v1/boxes").json["boxes"] if b["name"].endswith(boxes[0])]
    assert len(server.ask("GET", f"/v1/boxes/{full[0]}/execs").json["execs"]) == 3
    server.ask("DELETE", f"/v1/boxes/{full[0]}?force=1").ok()
    server.ask("DELETE", f"/v1/boxes/{boxes[1]}?force=1", token=kept).ok()
    server.cove("key", "rm", other).ok()


# ---- many and slow ----

IDLE = 10000


def test_ten_thousand_idle_connections(serve):
    """They cost little memory, and others are served beside them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * IDLE:
        pytest.skip(f"RLIMIT_NOFILE is {hard}: 10,000 connections take {2 * IDLE}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = serve()

    def memory():
        rows = open(f"/proc/{server.process.pid}/smaps_rollup").read().split("\n")
        return int([r for r in rows if r.startswith("Rss:")][0].split()[1])
    held, before = [], memory()
    try:
        for _ in range(IDLE):
            s = socket.socket(socket.AF_UNIX)
            held.append(s)
            s.connect(server.path)
        kept = held[:100]
        for s in kept:  # of some of them a request was answered: kept for the next one
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            s.settimeout(DEADLINE)
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
        server.ask("GET", "/v1/boxes").ok()
        wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) > IDLE, "all of them to be taken")
        # Sanitizers take several times as much as the program itself.
        assert (memory() - before) / IDLE < 16
    finally:
        for s in held:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) < 100, "them to be gone")


def test_there_is_a_last_connection(serve):
    server = serve("--connections", "4")
    held = [server.connection() for _ in range(4)]
    for c in held:
        c.request("GET", "/healthz")
        assert c.getresponse().read()
    late = server.connection()
    late.request("GET", "/healthz")
    held.pop().close()
    assert late.getresponse().status == 200
    for c in [*held, late]:
        c.close()


def stranger(server):
    """A connection over TCP that was answered and brought no key."""
    s = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert s.recv(4096).startswith(b"HTTP/1.1 200")
    return s


def test_who_never_brought_a_key_makes_room(serve):
    server = serve("--connections", "8")
    token = new_key(server)
    with contextlib.ExitStack() as held:
        kept = server.connection(tcp=True)
        held.callback(kept.close)
        server.ask("GET", "/v1/boxes", token=token, connection=kept).ok()
        strangers = [held.enter_context(stranger(server)) for _ in range(12)]
        server.ask("GET", "/v1/boxes", token=token).ok()
        server.ask("GET", "/v1/boxes").ok()
        assert strangers[0].recv(1) == b""
        strangers[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert strangers[-1].recv(4096).startswith(b"HTTP/1.1 200")
        server.ask("GET", "/v1/boxes", token=token, connection=kept).ok()


def test_connections_in_use_leave_the_unix_socket_free(serve):
    server = serve("--connections", "8")
    token = new_key(server, "--scope", "admin")  # a key's own share is less
    with contextlib.ExitStack() as held:
        streams = [held.enter_context(socket.create_connection(("127.0.0.1", server.port), DEADLINE)) for _ in range(7)]
        for s in streams:
            s.sendall(f"GET /v1/events?follow=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
                      .encode())
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
        late = server.connection(tcp=True)
        held.callback(late.close)
        late.request("GET", "/healthz")
        server.ask("GET", "/v1/boxes").ok()
        streams.pop().close()
        assert late.getresponse().status == 200


# ---- what calls hold ----

def begin_run(server, token, length=100):
    """A run whose body does not come: the status that it has before that, and the connection."""
    s = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
    s.sendall(f"POST /v1/run HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
              f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n".encode())
    head = s.recv(4096).decode()
    assert "Retry-After" in head or " 429 " not in head
    return int(head.split()[1]), s


def test_calls_that_last_leave_threads_to_others(serve):
    """Of 8 threads one is the operator's; of the others those that may last have 5, and a key 3."""
    server = serve("--threads", "8")
    first, second = new_key(server), new_key(server)
    with contextlib.ExitStack() as held:
        def begin(token):
            status, s = begin_run(server, token)
            held.callback(s.close)
            return status
        assert [begin(first) for _ in range(4)] == [100, 100, 100, 429]
        assert [begin(second) for _ in range(3)] == [100, 100, 429]
        server.ask("GET", "/v1/boxes", token=second).ok()
        files = "/v1/boxes/none/files"
        server.ask("GET", f"{files}/lines?path=/f", token=second).error(404)
        server.ask("POST", f"{files}/edit?path=/f", {"edits": [{"old": "a", "new": "b"}]}, token=second).error(404)
        server.ask("GET", f"{files}/grep?path=/f&pattern=a", token=second).error(429)
        server.ask("GET", "/v1/boxes").ok()
    wait_until(lambda: server.ask("POST", "/v1/run", {}, token=second).status == 400, "room again")


def test_memory_of_bodies_is_bounded(serve):
    server = serve()
    token = new_key(server)
    many = b'{"x":[' + b"[]," * 40000 + b"[]]}"
    for path in ("/v1/boxes/none/exec", "/v1/run", "/v1/boxes"):
        server.ask("POST", path, many, token=token).error(413, "too_large")
    server.ask("POST", "/v1/boxes/none/exec", {"line": ":", "stdin": "x" * 200000}, token=token).error(404)
    with contextlib.ExitStack() as held:
        for want in (100, 429):
            status, s = begin_run(server, token, 40 << 20)
            held.callback(s.close)
            assert status == want
