"""cove serve: the server itself, commands and files over it, keys beside each other, and its end at any moment."""
import base64
import concurrent.futures
import hashlib
import http.client
import json
import os
import socket
import struct
import subprocess

import pytest

from conftest import DEADLINE, wait_until
from door_rig import in_process
from server import Server, WebSocket

pytestmark = pytest.mark.once("root")


@pytest.fixture(scope="module")
def module_server(session_cove):
    made = Server(session_cove)
    yield made
    made.end()


@pytest.fixture
def server(module_server, cove):
    return module_server


@pytest.fixture
def web(server, box):
    """The path of a running box."""
    return f"/v1/boxes/{box}"


@pytest.fixture
def token(cove):
    """Makes keys; they are revoked after the test, and what they made is removed."""
    made = []

    def make(*flags):
        name = "t" + os.urandom(4).hex()
        made.append(name)
        return cove("key", "create", name, *flags).ok().text.strip()

    yield make
    for name in made:
        cove("key", "rm", name)


# ---- the server ----

def test_it_says_where_it_listens_and_what_it_is(server):
    assert server.ask("GET", "/healthz").ok(200).json == {"status": "ok"}
    assert server.ask("GET", "/v1/version").ok().json["version"]
    assert os.stat(server.path).st_mode & 0o777 == 0o600


def test_there_is_one_of_a_state_directory(server):
    again = subprocess.run([server.cove.program, "serve", "--socket", server.path + "2"], env=server.cove.env,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert again.returncode == 1 and again.stderr.startswith("cove serve: ")


@pytest.mark.parametrize("flags, words", [
    (["--lisen", "x"], "--lisen"), (["--listen"], "value"), (["--listen", "example.org:1"], "example.org"),
    (["--listen", "0.0.0.0:0"], "--tls-cert"), (["--listen", "0.0.0.0:0", "--plain-http"], "--min-wall"),
    (["--listen", "0.0.0.0:0", "--plain-http", "--min-wall", "native"], "--accept-shared-kernel"),
    (["--tls-cert", "/x"], "tls-key"), (["--tls-cert", "/nowhere", "--tls-key", "/x"], "/nowhere"),
    (["--webhook-retry", "2h"], "3600s"), (["--config", "/nowhere"], "/nowhere"), (["--threads", "0"], "threads"),
    (["--socket", "none"], "--listen"), (["--socket", "/" + "x" * 200], "bytes")])
def test_a_wrong_configuration_is_said(new_home, flags, words):
    home = new_home()
    got = subprocess.run([home.program, "serve", "--socket", "/nowhere/s", *flags], env=home.env,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert got.returncode == 2 and words in got.stderr


def test_as_many_addresses_as_may_be_given_beside_the_socket(new_home):
    """None of them is said to be out of memory."""
    lone = Server(new_home(), *(f for i in range(2, 17) for f in ("--listen", f"127.0.0.{i}:0")))
    try:
        said = [lone.process.stdout.readline() for _ in range(15)]
        assert all(line.startswith("listening on http://127.0.0.") for line in said[:-1]), said
        assert lone.ask("GET", "/healthz").ok()
    finally:
        lone.end()


def test_a_private_one_has_a_socket_of_its_own(server):
    got = subprocess.run([server.cove.program, "serve", "--private", "--listen", "127.0.0.1:0"], env=server.cove.env,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert got.returncode == 2 and "--socket" in got.stderr


def test_a_socket_that_another_has_put_there_since_stays(new_home, tmp):
    def start(home):
        made = subprocess.Popen([home.program, "serve", "--socket", f"{tmp}/s", "--private"], env=home.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert made.stdout.readline().startswith(b"listening on ")
        return made

    first, second = start(new_home()), start(new_home())
    mine = os.stat(f"{tmp}/s").st_ino
    for process in (first, second):
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
        process.stdout.close()
        if process is first:
            assert os.stat(f"{tmp}/s").st_ino == mine
    assert not os.path.exists(f"{tmp}/s")


def test_the_configuration_is_a_file_too(new_home, tmp):
    (tmp / "c.yaml").write_text(f'# a comment\nsocket: "{tmp}/s"  # and one more\n\nthreads: 2\nhost-name: a.example\n')
    got = subprocess.Popen([new_home().program, "serve", "--config", str(tmp / "c.yaml"), "--private"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert got.stdout.readline() == f"listening on unix:{tmp}/s\n"
    got.stdin.close()  # whom it served has ended
    assert got.wait(DEADLINE) == 0 and not (tmp / "s").exists()
    got.stdout.close()
    # One that may be missing; one that is there and wrong is no better for that.
    got = subprocess.run([new_home().program, "serve", "--config", "-/nowhere", "--socket", "none"],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert got.returncode == 2 and "--listen" in got.stderr
    (tmp / "c.yaml").write_text("threads: 2\nthread: 3\n")
    bad = subprocess.run([new_home().program, "serve", "--config", f"-{tmp}/c.yaml"], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=DEADLINE)
    assert bad.returncode == 2 and "line 2" in bad.stderr


def test_a_request_is_a_line_of_the_log(server):
    reply = server.ask("GET", "/v1/boxes?label=secretvalue").ok()

    def line():
        rows = [json.loads(x) for x in open(server.log)]
        return [r for r in rows if r.get("request_id") == reply.headers["X-Request-Id"]]
    wait_until(line, "the line")
    assert line()[0]["operation"] == "listBoxes" and line()[0]["status"] == 200
    assert "secretvalue" not in open(server.log).read()


# ---- HTTP ----

@pytest.mark.parametrize("data, status", [
    (b"GET / HTTP/1.1\nHost: x\n\n", b"400"), (b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
    (b"GET /healthz HTTP/1.1\r\n\r\n", b"400"), (b"G" * 70000, b"501"),
    (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
    (b"POST /v1/boxes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
    (b"POST /v1/boxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    (b"POST /v1/boxes HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n" + b" " * 1100000,
     b"413"),
    (b"GET /v1/boxes/%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"400"),
    (b"GET /v1/boxes/%2e%2e HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"400"),
    (b"GET /v1/nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"404"),
    (b"PATCH /v1/boxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"405")])
def test_what_is_no_request_is_refused(server, data, status):
    try:
        got = server.raw(data)
    except (BrokenPipeError, ConnectionResetError):
        got = b""  # it did not wait for the end of what it had refused
    assert not got or got.startswith(b"HTTP/1.1 " + status), got[:200]
    server.ask("GET", "/healthz").ok()


@pytest.mark.parametrize("data, status, code", [
    (b"TRACE /v1/boxes HTTP/1.1\r\nHost: x\r\n\r\n", 501, "unsupported"),
    (b"GET /healthz HTTP/1.1\r\n\r\n", 400, "invalid"),
    (b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, "too_large"),
    (b"POST /v1/boxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "invalid")])
def test_what_is_no_request_has_the_one_shape(server, data, status, code):
    head, body = server.raw(data).split(b"\r\n\r\n")
    error = json.loads(body)["error"]
    assert head.startswith(b"HTTP/1.1 %d " % status) and error["code"] == code and error["message"]
    assert b"Content-Type: application/json\r\n" in head
    assert f"X-Request-Id: {error['request_id']}\r\n".encode() in head


@pytest.mark.parametrize("query, named", [("label=%00", "'label'"), ("a=%zz&type=x", "'a'"),
                                          ("type=box.stopped&type=box.stopped", "'type'")])
def test_a_query_that_is_wrong_names_what_is(server, query, named):
    assert named in server.ask("GET", f"/v1/events?{query}").error(400, "invalid")["message"]


def test_requests_may_follow_each_other_without_waiting(server):
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    got = server.raw(one * 50 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert got.count(b"HTTP/1.1 200") == 51


def test_a_client_that_waits_for_100_gets_it(server, web):
    head = f"PUT {web}/files?path=/tmp/f HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(DEADLINE)
        s.connect(server.path)
        s.sendall(head.encode())
        assert s.recv(100).startswith(b"HTTP/1.1 100")
        s.sendall(b"abc")
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
    assert server.ask("GET", f"{web}/files?path=/tmp/f").ok().body == b"abc"


def test_many_idle_connections_cost_little(server):
    held = []
    try:
        for _ in range(500):
            s = socket.socket(socket.AF_UNIX)
            s.connect(server.path)
            held.append(s)
        server.ask("GET", "/healthz").ok()
    finally:
        for s in held:
            s.close()


def test_another_site_is_not_heard(server, token):
    t = token()
    assert server.ask("GET", "/v1/boxes", token=t, headers={"Host": "evil.example"}).status == 421
    assert server.ask("GET", "/v1/boxes", token=t, headers={"Origin": "https://evil.example"}).status == 403
    server.ask("GET", "/v1/boxes", token=t, headers={"Origin": f"http://127.0.0.1:{server.port}"}).ok()


# ---- boxes and commands ----

def test_a_box_and_its_first_command_in_one_request(server):
    body = {"env": {"A": "b c"}, "labels": {"team": "x"}, "mem": "512m", "best_effort": True,
            "command": {"line": "echo $A; echo no >&2; exit 4"}}
    made = server.ask("POST", "/v1/boxes", body).ok(201).json
    result = made["result"]
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("b c\n", "no\n", 4)
    assert made["labels"] == {"team": "x"} and made["wall"]
    name = made["name"]
    assert [b["name"] for b in server.ask("GET", "/v1/boxes?label=team=x").ok().json["boxes"]] == [name]
    assert server.ask("GET", "/v1/boxes?label=team=y").ok().json["boxes"] == []
    assert server.ask("GET", f"/v1/boxes/{name}").ok().json["name"] == name
    server.ask("DELETE", f"/v1/boxes/{name}").error(409)
    server.ask("DELETE", f"/v1/boxes/{name}?force=1").ok(204)
    server.ask("DELETE", f"/v1/boxes/{name}?force=1").ok(204)
    server.ask("GET", f"/v1/boxes/{name}").error(404, "not_found")


def test_a_repeated_request_makes_one_box(server, cove):
    key = {"Idempotency-Key": os.urandom(8).hex()}
    body = {"command": {"line": "echo once >> /tmp/n; cat /tmp/n"}}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: server.ask("POST", "/v1/boxes", body, headers=key), range(4)))
    assert sorted(r.status for r in replies) == [200, 200, 200, 201]
    assert len({r.json["name"] for r in replies}) == 1
    server.ask("POST", "/v1/boxes", {"mem": "1g"}, headers=key).error(409)
    again = server.ask("POST", "/v1/boxes", body, headers=key).ok(200).json
    named = {"name": again["name"], **body}
    server.ask("POST", "/v1/boxes", named, headers={"Idempotency-Key": os.urandom(8).hex()}).error(409)
    assert "cove.request" not in json.dumps(again)
    cove("rm", "-f", again["name"]).ok()


def test_an_idempotency_key_is_one_request(server, cove):
    """Another request under it is none, whatever name it gives the box, and also when it comes at the same moment."""
    tail = os.urandom(4).hex()
    names, key = [f"q{i}-{tail}" for i in range(4)], {"Idempotency-Key": tail}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: server.ask("POST", "/v1/boxes", {"name": n}, headers=key), names))
    assert sorted(r.status for r in replies) == [201, 409, 409, 409]
    made, = [r.json["name"] for r in replies if r.status == 201]
    other = next(n for n in names if n != made)
    server.ask("POST", "/v1/boxes", {"name": other}, headers=key).error(409, "conflict")
    server.ask("POST", "/v1/boxes", {}, headers=key).error(409, "conflict")
    server.ask("POST", "/v1/boxes", {"name": made}, headers=key).ok(200)
    # A fork is another request's, and a server that comes anew knows what was asked before.
    server.ask("POST", "/v1/forks", {"box": made, "name": f"fork-{tail}"}).ok(201)
    server.stop()
    server.start()
    server.ask("POST", "/v1/boxes", {"name": other}, headers=key).error(409, "conflict")
    server.ask("POST", "/v1/boxes", {"name": made}, headers=key).ok(200)
    # The key is free with its box.
    server.ask("DELETE", f"/v1/boxes/{made}?force=1").ok(204)
    server.ask("POST", "/v1/boxes", {"name": other}, headers=key).ok(201)
    for name in (other, f"fork-{tail}"):
        cove("rm", "-f", name).ok()


def test_pages_have_every_box_once(server, cove):
    names = [cove("create", "--name", f"page-{i}-{os.urandom(2).hex()}").ok().text.strip() for i in range(5)]
    seen, after = [], ""
    for _ in range(20):
        page = server.ask("GET", f"/v1/boxes?limit=2&after={after}").ok().json
        assert len(page["boxes"]) <= 2
        seen += [b["name"] for b in page["boxes"]]
        after = page["next"]
        if not after:
            break
    assert len(seen) == len(set(seen)) and set(names) <= set(seen)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"mem": true}', b'{"mem": "lots"}', b'{"env": {"A": 1}}',
                                  b'{"a": 1, "a": 2}',
                                  b'{"name": "x\\u0000y"}', b'{"command": {"line": 1}}', b'{"memory": "1g"}',
                                  b'{"command": {"argv": []}}', b'{"pids": -5}', b"[" * 100, b'{"name": "../x"}'])
def test_a_body_that_is_wrong_makes_nothing(server, cove, body):
    before = set(cove.names())
    server.ask("POST", "/v1/boxes", body).error(400, "invalid")
    assert set(cove.names()) == before


def test_a_shell_keeps_its_state(server, web):
    server.ask("POST", f"{web}/exec", {"line": "cd /tmp; export X=1", "shell": "default"}).ok()
    got = server.ask("POST", f"{web}/exec", {"line": "echo $X; pwd", "shell": "default"}).ok().json
    assert got["stdout"] == "1\n/tmp\n" and got["cwd"] == "/tmp" and got["shell"] == "kept"
    assert [s["name"] for s in server.ask("GET", f"{web}/shells").ok().json["shells"]] == ["default"]
    server.ask("DELETE", f"{web}/shells/default?force=1").ok(204)


def test_stdin_bytes_and_streams_that_are_no_text(server, web):
    data = bytes(range(256)) * 300
    body = {"argv": ["cat"], "stdin_base64": base64.b64encode(data).decode()}
    got = server.ask("POST", f"{web}/exec", body).ok().json
    assert base64.b64decode(got["stdout_base64"]) == data
    server.ask("POST", f"{web}/exec", {"argv": ["cat"], "stdin_base64": "!"}).error(400)


def test_a_command_that_cannot_be_is_said(server, web):
    server.ask("POST", f"{web}/exec", {}).error(400, "invalid")
    server.ask("POST", f"{web}/exec", {"line": "true", "argv": ["true"]}).error(400, "invalid")
    server.ask("POST", f"{web}/exec", {"argv": ["/nowhere"]}).error(404)
    server.ask("POST", "/v1/boxes/nowhere/exec", {"line": "true"}).error(404, "not_found")
    server.ask("POST", f"{web}/exec", {"line": "true", "pty": True}).error(400)
    got = server.ask("POST", f"{web}/exec", {"line": "sleep 60", "timeout": "200ms"}).ok().json
    assert got["timed_out"] and got["exit_code"] == 124


def test_a_stopped_box_says_so_and_starts_again(server, web):
    server.ask("POST", f"{web}/stop", {"grace": 0}).ok()
    server.ask("POST", f"{web}/exec", {"line": "true"}).error(409, "conflict")
    assert server.ask("POST", f"{web}/start").ok().json["state"] == "running"
    server.ask("POST", f"{web}/exec", {"line": "true"}).ok()
    assert server.ask("POST", f"{web}/pause").ok().json["state"] == "paused"
    server.ask("POST", f"{web}/exec", {"line": "true"}).error(409)
    server.ask("POST", f"{web}/resume").ok()
    assert "pids" in server.ask("GET", f"{web}/stats").ok().json


def test_events_carry_every_byte_at_its_offset(server, web):
    line = "for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero | tr '\\0' $i; done; printf '\\377' >&2; exit 7"
    out, err, last, end = b"", b"", None, None
    for name, data in server.events("POST", f"{web}/exec", {"line": line}):
        if name in ("stdout", "stderr"):
            piece = data["text"].encode() if "text" in data else base64.b64decode(data["base64"])
            assert data["offset"] == len(out if name == "stdout" else err)
            out, err = (out + piece, err) if name == "stdout" else (out, err + piece)
        last, end = name, data
    assert last == "exit" and end["exit_code"] == 7 and end["stdout_bytes"] == 800000
    assert out == b"".join(str(i).encode() * 100000 for i in range(1, 9)) and err == b"\xff"


def test_a_background_command_is_found_again(server, web):
    line = "echo hi; sleep 0.1; echo there; exit 3"
    begun = server.ask("POST", f"{web}/exec", {"line": line, "background": True}).ok(202)
    path = f"{web}/execs/{begun.json['exec_id']}"
    got = server.ask("GET", path).ok().json
    assert (got["stdout"], got["exit_code"]) == ("hi\nthere\n", 3)
    assert begun.json["exec_id"] in [x["exec_id"] for x in server.ask("GET", f"{web}/execs").ok().json["execs"]]
    seen = list(server.events("GET", f"{path}/output?stdout_from=3"))
    assert "".join(d["text"] for n, d in seen if n == "stdout") == "there\n"
    server.ask("GET", f"{web}/execs/999").error(404)
    server.ask("GET", f"{web}/execs/x").error(400)


def test_a_signal_ends_a_command(server, web):
    begun = server.ask("POST", f"{web}/exec", {"argv": ["sleep", "600"], "background": True}).ok(202).json["exec_id"]
    server.ask("GET", f"{web}/execs/{begun}?timeout=50ms").error(504, "timeout")
    server.ask("POST", f"{web}/execs/{begun}/signal", {"signal": "KILL"}).ok(204)
    assert server.ask("GET", f"{web}/execs/{begun}").ok().json["signal"] == 9
    server.ask("POST", f"{web}/execs/{begun}/signal", {"signal": "NONE"}).error(400)


def test_a_client_that_goes_leaves_its_command(server, web):
    for name, data in server.events("POST", f"{web}/exec", {"line": "sleep 0.3; echo late"}):
        assert name == "started"
        break
    got = server.ask("GET", f"{web}/execs/{data['exec_id']}").ok().json
    assert got["stdout"] == "late\n"


def test_the_history_of_a_box(server, web):
    server.ask("POST", f"{web}/exec", {"line": "true"}).ok()
    rows = [d for _, d in server.events("GET", f"{web}/events")]
    assert rows and rows[0]["seq"]
    assert [d["seq"] for _, d in server.events("GET", f"{web}/events?after={rows[0]['seq']}")] == \
        [r["seq"] for r in rows[1:]]


# ---- WebSockets ----

def socket_exec(server, web, command, say):
    """Runs a command over a WebSocket; `say` gets the connection once it has started."""
    out, end = {1: b"", 2: b""}, None
    s = WebSocket(server, f"{web}/exec")
    s.send(json.dumps(command))
    while True:
        kind, data = s.receive()
        if kind == 8:
            break
        if kind == 2:
            out[data[0]] += data[1:]
            continue
        end = json.loads(data)
        if end["type"] == "started":
            say(s)
    s.close()
    return out, end


def test_a_command_over_a_socket_gets_stdin(server, web):
    def say(ws):
        ws.send(b"hello ")
        ws.send(b"there\n")
        ws.send('{"type": "eof"}')
    out, end = socket_exec(server, web, {"line": "cat; echo bad >&2; exit 5"}, say)
    assert out == {1: b"hello there\n", 2: b"bad\n"}
    assert end["type"] == "exit" and end["data"]["exit_code"] == 5


def test_stdin_over_a_socket_goes_on_without_output(server, web):
    data = os.urandom(60000)

    def say(ws):
        for _ in range(50):
            ws.send(data)
        ws.send('{"type": "eof"}')
    out, end = socket_exec(server, web, {"argv": ["sha256sum"]}, say)
    assert out[1].split()[0].decode() == hashlib.sha256(data * 50).hexdigest() and end["data"]["exit_code"] == 0


def test_a_terminal_over_a_socket(server, web):
    def say(ws):
        ws.send('{"type": "resize", "rows": 40, "cols": 101}')
        ws.send(b"stty size; exit\n")
    out, end = socket_exec(server, web, {"argv": ["sh"], "pty": True, "rows": 24, "cols": 80}, say)
    assert b"40 101" in out[1] and end["data"]["exit_code"] == 0


def test_a_signal_over_a_socket(server, web):
    out, end = socket_exec(server, web, {"argv": ["sleep", "600"]},
                           lambda ws: ws.send('{"type": "signal", "signal": "INT"}'))
    assert end["data"]["signal"] == 2


@pytest.mark.parametrize("first", ["{", "[]", '{"nothing": 1}', '{"line": 5}', "{}"])
def test_a_socket_that_says_nonsense_is_closed(server, web, first):
    s = WebSocket(server, f"{web}/exec")
    s.send(first)
    kind, data = s.receive()
    assert kind == 1 and json.loads(data)["type"] == "error"
    # The client's fault, and said to be: no JSON, or JSON that asks for nothing there is.
    assert s.receive() == (8, struct.pack(">H", 1007 if first == "{" else 1008))
    s.close()


def test_what_goes_wrong_with_a_socket_has_its_code(server, web):
    for said, code in (('{"type": "frob"}', 1008), ('{"frob": 1}', 1008), ("{", 1007),
                       ('{"type": "eof"' + " " * 20000 + "}", 1009)):
        s = WebSocket(server, f"{web}/exec")
        s.send('{"argv": ["cat"]}')
        assert json.loads(s.receive()[1])["type"] == "started"
        s.send(said)
        assert json.loads(s.receive()[1])["type"] == "error"
        assert s.receive() == (8, struct.pack(">H", code)), said
        s.close()


def test_stdin_in_one_message_may_be_long(server, web):
    out, end = socket_exec(server, web, {"argv": ["wc", "-c"]},
                           lambda ws: (ws.send(b"x" * 60000), ws.send('{"type": "eof"}')))
    assert out[1] == b"60000\n" and end["data"]["exit_code"] == 0


def test_a_command_that_reads_no_stdin_is_joined(server, web):
    """It is followed, unless whoever joins came to feed it."""
    line = "echo one; while [ ! -e /tmp/go-on ]; do sleep 0.05; done; echo two"
    number = server.ask("POST", f"{web}/exec", {"line": line, "background": True}).ok(202).json["exec_id"]
    s = WebSocket(server, f"{web}/execs/{number}/attach?input=1")
    error = json.loads(s.receive()[1])["data"]["error"]
    assert (error["code"], error["errno"]) == ("conflict", "EPIPE")
    assert s.receive() == (8, struct.pack(">H", 1008))
    s.close()
    s = WebSocket(server, f"{web}/execs/{number}/attach?stdout_from=1")
    s.send(b"goes nowhere")
    out = b""
    while out != b"ne\n":
        kind, data = s.receive()
        assert (kind, data[0]) == (2, 1), data
        out += data[1:]
    server.ask("PUT", f"{web}/files?path=/tmp/go-on", b"").ok()
    assert s.receive() == (2, b"\1two\n")
    assert json.loads(s.receive()[1])["data"]["exit_code"] == 0
    assert s.receive() == (8, struct.pack(">H", 1000))
    s.close()
    # And so is one that has ended.
    s = WebSocket(server, f"{web}/execs/{number}/attach?stdout_from=4")
    assert s.receive() == (2, b"\1two\n") and json.loads(s.receive()[1])["type"] == "exit"
    s.close()


def test_a_sockets_later_messages_are_short(server, web):
    out, end = socket_exec(server, web, {"argv": ["cat"]}, lambda ws: ws.send('{"type": "eof"' + " " * 20000 + "}"))
    assert end["type"] == "error" and end["data"]["error"]["code"] == "too_large"


# ---- files ----

def test_files_of_any_size_go_and_come(server, web):
    data = os.urandom(3 << 20)
    for headers, body in (({}, data), ({"Transfer-Encoding": "chunked"}, data)):
        server.ask("PUT", f"{web}/files?path=/tmp/f&mode=600", body, headers=headers).ok(200)
        got = server.ask("GET", f"{web}/files?path=/tmp/f").ok()
        assert got.headers["Content-Length"] == str(len(data))
        assert hashlib.sha256(got.body).digest() == hashlib.sha256(data).digest()
    assert server.ask("GET", f"{web}/files/stat?path=/tmp/f").ok().json["mode"] == 0o600
    server.ask("PUT", f"{web}/files?path=/tmp/empty", b"").ok()
    assert server.ask("GET", f"{web}/files?path=/tmp/empty").ok().body == b""


def test_a_part_of_a_file_comes_alone(server, web):
    server.ask("PUT", f"{web}/files?path=/tmp/part", b"0123456789").ok()
    server.ask("POST", f"{web}/exec", {"line": "ln -s part /tmp/link"}).ok()
    whole = server.ask("GET", f"{web}/files?path=/tmp/part").ok(200)
    for said, status, body, field in (
            ("bytes=5-7", 206, b"567", "bytes 5-7/10"), ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
            ("bytes=-3", 206, b"789", "bytes 7-9/10"), ("bytes=0-1,4-5", 200, whole.body, None),
            ("lines=1-2", 200, whole.body, None)):
        got = server.ask("GET", f"{web}/files?path=/tmp/link", headers={"Range": said}).ok(status)
        assert (got.body, got.headers["Content-Range"]) == (body, field), said
        assert got.headers["Content-Length"] == str(len(body)) and got.headers["Accept-Ranges"] == "bytes"
    got = server.ask("GET", f"{web}/files?path=/tmp/part", headers={"Range": "bytes=10-"})
    got.error(416, "invalid")
    assert got.headers["Content-Range"] == "bytes */10"
    # What was resumed is the same file still, or comes whole.
    for tag, status in ((whole.headers["ETag"], 206), ('"other"', 200)):
        server.ask("GET", f"{web}/files?path=/tmp/part", headers={"Range": "bytes=1-", "If-Range": tag}).ok(status)
    head = server.ask("HEAD", f"{web}/files?path=/tmp/part").ok(200)
    assert (head.headers["Content-Length"], head.body) == ("10", b"")
    assert server.ask("HEAD", f"{web}/files?path=/tmp/nowhere").status == 404
    assert server.ask("HEAD", f"{web}/files?path=/tmp").ok().headers["Content-Type"] == "application/x-tar"
    assert b"Name" in server.ask("GET", f"{web}/files?path=/proc/self/status", headers={"Range": "bytes=0-1"}).ok().body


def test_one_entry_that_cannot_be_read_is_named_and_the_rest_comes(server, web):
    server.ask("POST", f"{web}/exec", {"line": "mkdir -p /tmp/half/a; echo 1 > /tmp/half/a/f; echo 2 > /tmp/half/g; "
                                               "mkdir -m 0 '/tmp/half/b&=%'; chown -R user /tmp/half; "
                                               "chmod 0 '/tmp/half/b&=%'", "user": "root"}).ok()
    got = server.raw(f"GET {web}/files?path=/tmp/half&user=user HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                     .encode())
    assert b"half/a/f" in got and b"half/g" in got and got.endswith(b"\r\n\r\n")
    assert b"\r\nCove-Left-Out: 1\r\n" in got and b"\r\nCove-Left-Out-Name: path=b%26%3D%25&why=" in got
    old = server.raw(f"GET {web}/files?path=/tmp/half&user=user HTTP/1.0\r\nHost: x\r\n\r\n".encode())
    assert b"\0" * 1024 not in old[-1024:]  # no end that looks whole


def test_a_broken_upload_leaves_nothing(server, web):
    head = f"PUT {web}/files?path=/tmp/half HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(server.path)
        s.sendall(head.encode() + b"x" * 500000)
    wait_until(lambda: "half" not in server.ask("POST", f"{web}/exec", {"line": "ls -a /tmp"}).ok().json["stdout"],
               "the half to be gone")
    server.ask("GET", f"{web}/files?path=/tmp/half").error(404)


def test_files_are_looked_at_and_changed(server, web):
    server.ask("POST", f"{web}/files/mkdir?path=/tmp/d", {"mode": "700"}).ok(204)
    server.ask("PUT", f"{web}/files?path=/tmp/d/a", b"1").ok()
    server.ask("POST", f"{web}/files/move?path=/tmp/d/a", {"to": "/tmp/d/b"}).ok(204)
    server.ask("POST", f"{web}/files/chmod?path=/tmp/d/b", {"mode": "640"}).ok(204)
    for mode in ("644junk", "8", "10000", "", "-1"):
        server.ask("POST", f"{web}/files/chmod?path=/tmp/d/b", {"mode": mode}).error(400, "invalid")
        server.ask("PUT", f"{web}/files?path=/tmp/d/c&mode={mode}", b"1").error(400, "invalid")
    entries = server.ask("GET", f"{web}/files/list?path=/tmp/d").ok().json["entries"]
    assert [(e["name"], e["type"], e["mode"]) for e in entries] == [("b", "file", 0o640)]
    tar = server.ask("GET", f"{web}/files?path=/tmp/d").ok()
    assert tar.headers["Content-Type"] == "application/x-tar" and b"ustar" in tar.body
    server.ask("POST", f"{web}/files/mkdir?path=/tmp/e").ok(204)
    server.ask("PUT", f"{web}/files?path=/tmp/e", tar.body).ok()
    server.ask("DELETE", f"{web}/files?path=/tmp/d").error(409)
    server.ask("DELETE", f"{web}/files?path=/tmp/d&recursive=1").ok(204)
    server.ask("GET", f"{web}/files/stat?path=/tmp/d").error(404)
    server.ask("GET", f"{web}/files/stat").error(400)
    server.ask("POST", f"{web}/files/move?path=/tmp/e").error(400)
    server.ask("GET", f"{web}/files?path=/etc/shadow&user=user").error(403)


# ---- going back ----

def test_snapshots_rollback_and_forks(server, web, box, cove):
    server.ask("PUT", f"{web}/files?path=/tmp/../home/f", b"1")
    server.ask("POST", f"{web}/exec", {"line": "echo one > ~/state"}).ok()
    name = "s" + os.urandom(4).hex()
    made = server.ask("POST", f"{web}/snapshots", {"name": name}).ok(201).json
    assert made["name"] == name
    server.ask("POST", f"{web}/exec", {"line": "echo two > ~/state"}).ok()
    forks = server.ask("POST", "/v1/forks", {"snapshot": name, "count": 2, "prefix": name}).ok(201).json["boxes"]
    for fork in forks:
        assert server.ask("POST", f"/v1/boxes/{fork}/exec", {"line": "cat ~/state"}).ok().json["stdout"] == "one\n"
    back = server.ask("POST", f"{web}/rollback", {"snapshot": name}).ok().json
    assert back["started"]
    assert server.ask("POST", f"{web}/exec", {"line": "cat ~/state"}).ok().json["stdout"] == "one\n"
    assert name in [s["name"] for s in server.ask("GET", f"/v1/snapshots?box={box}").ok().json["snapshots"]]
    server.ask("GET", f"/v1/snapshots/{name}").ok()
    for fork in forks:
        server.ask("DELETE", f"/v1/boxes/{fork}?force=1").ok()
    server.ask("DELETE", f"/v1/snapshots/{name}").ok(204)
    server.ask("POST", f"{web}/rollback", {"snapshot": name}).error(404)
    server.ask("POST", "/v1/forks", {}).error(400)
    server.ask("POST", "/v1/forks", {"box": box, "count": 0}).error(400)


# ---- keys ----

def test_without_a_key_nothing_is_answered(server):
    for path in ("/v1/boxes", "/v1/nowhere", "/v1/version"):
        server.ask("GET", path, connection=server.connection(tcp=True)).error(401, "unauthorized")
    for bad in ("", "x", "cove_", "cove_" + "0" * 72, "e2b_" + "f" * 72, "../../x", "cove_" + "0" * 5000):
        server.ask("GET", "/v1/boxes", token=bad or "-").error(401, "unauthorized")
    server.ask("GET", "/healthz", connection=server.connection(tcp=True)).ok()


def test_a_key_has_its_own_names(server, cove, token):
    a, b = token(), token()
    for t in (a, b):
        body = {"name": "web", "workspace": "w", "command": {"line": "hostname"}}
        made = server.ask("POST", "/v1/boxes", body, token=t)
        assert made.ok(201).json["name"] == "web" and made.json["workspace"] == "w"
        assert made.json["result"]["stdout"] == "web\n"
    server.ask("DELETE", "/v1/boxes/web?force=1", token=a).ok()
    assert [x["name"] for x in server.ask("GET", "/v1/boxes", token=b).ok().json["boxes"]] == ["web"]
    assert server.ask("GET", "/v1/boxes", token=a).ok().json["boxes"] == []
    assert server.ask("GET", "/v1/workspaces", token=a).ok().json["workspaces"][0]["name"] == "w"
    server.ask("DELETE", "/v1/boxes/web?force=1", token=b).ok()
    for t in (a, b):
        server.ask("DELETE", "/v1/workspaces/w", token=t).ok()


def test_a_key_of_another_spelling_is_the_same(server, token):
    t = token()
    server.ask("GET", "/v1/boxes", headers={"X-API-Key": t.replace("cove_", "e2b_")},
               connection=server.connection(tcp=True)).ok()


def test_a_key_that_may_only_look(server, token, box):
    t = token("--scope", "read")
    server.ask("GET", "/v1/boxes", token=t).ok()
    server.ask("POST", "/v1/boxes", {}, token=t).error(403, "denied")
    server.ask("GET", f"/v1/boxes/{box}", token=t).error(404)


def test_a_revoked_key_is_none(server, cove):
    name = "r" + os.urandom(4).hex()
    t = cove("key", "create", name).ok().text.strip()
    server.ask("GET", "/v1/boxes", token=t).ok()
    cove("key", "rm", name).ok()
    server.ask("GET", "/v1/boxes", token=t).error(401)


def test_a_quota_holds_also_for_many_at_once(server, cove, token):
    t = token("--quota", "boxes=2")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda _: server.ask("POST", "/v1/boxes", {}, token=t), range(6)))
    assert sorted(r.status for r in got) == [201, 201, 429, 429, 429, 429]
    assert all(r.headers["Retry-After"] for r in got if r.status == 429)
    name = [r for r in got if r.status == 201][0].json["name"]
    server.ask("POST", "/v1/forks", {"box": name, "count": 1}, token=t).error(429, "limit")


def test_too_many_rules_are_refused_before_the_first_is_checked(server):
    body = {"allow": ["https://no.host"] + ["a.test"] * 600, "deny": ["b.test"] * 600}
    server.ask("POST", "/v1/boxes", body).error(429, "limit")


def test_one_key_leaves_threads_to_the_others(server, token):
    t, other = token(), token()
    name = server.ask("POST", "/v1/boxes", {}, token=t).ok(201).json["name"]
    held = [server.events("GET", f"/v1/boxes/{name}/files/watch?path=/tmp", token=t) for _ in range(9)]
    for stream in held:
        assert next(stream)[0] == "ready"
    server.ask("GET", f"/v1/boxes/{name}", token=t).error(429, "limit")
    server.ask("GET", "/v1/boxes", token=other).ok()
    held.pop().close()
    wait_until(lambda: server.ask("GET", f"/v1/boxes/{name}", token=t).status == 200, "the one that ended")
    for stream in held:
        stream.close()
    wait_until(lambda: server.ask("DELETE", f"/v1/boxes/{name}?force=1", token=t).status == 204, "its removal")


@pytest.mark.parametrize("body", [{"mounts": ["/etc:/x"]}, {"workspace": "/etc"}, {"image": "host"},
                                  {"net": "/etc/passwd"}, {"allow": ["10.0.0.1"]}, {"allow": ["127.0.0.1:22"]},
                                  {"allow": ["Host.Cove.Internal:22"]}, {"allow": ["[::1]:22"]},
                                  {"allow": ["fd00::/8"]}])
def test_a_key_is_shown_nothing_of_the_host(server, token, body):
    server.ask("POST", "/v1/boxes", body, token=token()).error(403, "denied")


def test_a_key_opens_the_public_network_alone(server, token):
    t = token()
    name = server.ask("POST", "/v1/boxes", {}, token=t).ok(201).json["name"]
    for policy in ('rules: [{allow: "10.0.0.0/8", private: true}]', 'rules: [{allow: "x", "\\x70rivate": true}]',
                   'rules: [{allow: "HOST.cove.internal:22"}]'):
        server.ask("PUT", f"/v1/boxes/{name}/policy", {"policy": policy}, token=t).error(403, "denied")
    for allow in ("192.168.0.1", "host.cove.internal:80", "::1"):
        server.ask("POST", f"/v1/boxes/{name}/grants", {"allow": allow}, token=t).error(403, "denied")
    server.ask("POST", f"/v1/boxes/{name}/grants", {"allow": "example.org:443"}, token=t).ok(200)
    server.ask("DELETE", f"/v1/boxes/{name}?force=1", token=t).ok()


def test_what_is_secret_is_not_left_in_memory(server, cove):
    """Neither of a request nor of an answer, when both are over."""
    value, key = "v" + os.urandom(16).hex(), "t" + os.urandom(4).hex()
    c = server.connection()
    server.ask("PUT", f"/v1/secrets/{key.upper()}", {"value": value}, connection=c).ok(204)
    token = server.ask("POST", "/v1/keys", {"name": key, "scopes": ["read"]}, connection=c).ok(201).json["token"]
    found, read = in_process(server.process.pid, [value.encode(), token[13:].encode()])
    cove("secret", "rm", key.upper()).ok()
    cove("key", "rm", key).ok()
    c.close()
    assert read > 1 << 20 and found == []


# ---- its end ----

@pytest.fixture
def lone(new_home):
    """A server that may be killed, of a state directory of its own."""
    made = Server(new_home())
    yield made
    made.end()


def test_nothing_is_lost_when_it_is_killed(lone):
    """In the middle of the output of 100 commands: who comes back at the byte where it was has each of them once."""
    count, line = 100, "i=0; while ! test -e /tmp/go; do i=$((i+1)); echo line $i; sleep 0.3; done; echo end"
    box = lone.ask("POST", "/v1/boxes", {"image": "host"}).ok().json["name"]
    begun, seen = {}, {}

    def follow(n):
        """Reads until the server is gone; what came is in seen."""
        try:
            for name, data in lone.events("POST", f"/v1/boxes/{box}/exec", {"line": line}):
                if name == "started":
                    begun[n], seen[n] = data["exec_id"], ""
                elif name == "stdout":
                    seen[n] += data["text"]
        except (OSError, http.client.HTTPException, ValueError):
            pass

    def come_back(n):
        path = f"/v1/boxes/{box}/execs/{begun[n]}/output?follow=1&stdout_from={len(seen[n])}"
        return seen[n] + "".join(d["text"] for name, d in lone.events("GET", path) if name == "stdout")

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        running = [pool.submit(follow, n) for n in range(count)]
        wait_until(lambda: len(seen) == count and all("line 2\n" in s for s in seen.values()), "output of all")
        lone.kill()
        for r in running:
            r.result(DEADLINE)
        lone.start()
        assert len(set(begun.values())) == count
        coming = [pool.submit(come_back, n) for n in range(count)]
        lone.ask("POST", f"/v1/boxes/{box}/exec", {"line": "touch /tmp/go"}).ok()
        for n, c in enumerate(coming):
            got = c.result(DEADLINE)
            last = got.count("line ")
            assert last > seen[n].count("line ") - 1
            assert got == "".join(f"line {i}\n" for i in range(1, last + 1)) + "end\n", (n, got)


def test_an_orderly_end_answers_what_is_under_way(lone):
    box = lone.ask("POST", "/v1/boxes", {"image": "host"}).ok().json["name"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(lone.ask, "POST", f"/v1/boxes/{box}/exec", {"line": "sleep 0.5; echo done"})
        wait_until(lambda: lone.ask("GET", f"/v1/boxes/{box}/execs").ok().json["execs"], "the command")
        lone.stop()
        assert running.result(DEADLINE).ok().json["stdout"] == "done\n"
    lone.start()
    assert lone.ask("GET", f"/v1/boxes/{box}").ok().json["state"] == "running"
