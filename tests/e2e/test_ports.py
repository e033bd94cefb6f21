"""Ports: several at once, in the background with the box's life, and what listens inside."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import urllib.request

import pytest

from conftest import DEADLINE, needs_flag, wait_until

pytestmark = pytest.mark.once("both")

SERVER = """
import socket, sys, threading
def serve(s, text):
    while True:
        c, _ = s.accept()
        c.recv(65536)
        c.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + text)
        c.close()
for word in sys.argv[1:]:
    address, port = word.rsplit(",", 1)
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, int(port))); s.listen()
    threading.Thread(target=serve, args=(s, port.encode())).start()
"""


def serve(cove, box, *words):
    cove("exec", "-d", box, "--", "python3", "-c", SERVER, *words).ok()
    ports = {int(word.rsplit(",", 1)[1]) for word in words}
    return wait_until(lambda: [x for x in [cove("ports", "--json", box).ok().json]
                               if ports <= {s["port"] for s in x}], "the server")[0]


def fetch(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=DEADLINE) as answer:
        return answer.read().decode()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def refused(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


def live(cove, box):
    return {x["local_port"]: x["port"] for x in cove("port", "--json", box).ok().json if x["live"]}


@contextlib.contextmanager
def taken(port):
    """Somebody else listens there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield


@pytest.fixture
def gone(cove):
    """Boxes by name that are removed afterwards."""
    made = []
    yield made
    for box in made:
        cove("rm", "-f", box)


# ---- what listens ----

@needs_flag("IPV6_LISTENERS")
def test_what_listens_inside(cove, box):
    assert cove("ports", "--json", box).ok().json == []
    assert "nothing listens" in cove("ports", box).ok().errors
    found = serve(cove, box, "127.0.0.1,8001", "::1,8002", "0.0.0.0,8003")
    assert [(s["port"], s["address"]) for s in found] == [(8001, "127.0.0.1"), (8002, "::1"), (8003, "0.0.0.0")]
    assert all(s["program"].startswith("python3") and s["pid"] > 1 and s["forwarded_from"] is None for s in found)
    shown = cove("ports", box).ok().text
    assert shown.startswith("PORT") and "8003" in shown and "python3" in shown
    assert cove("ports", "-q", box).ok().text == "8001\n8002\n8003\n"


def test_root_inside_is_named_too(cove, box, inner_root):
    cove("exec", "-d", "-u", "root", box, "--", "python3", "-c", SERVER, "127.0.0.1,81").ok()
    (found,) = wait_until(lambda: cove("ports", "--json", box).ok().json, "the server")
    assert found["port"] == 81 and found["program"].startswith("python3")


def test_a_name_made_to_break_the_table(cove, box):
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'a\\n\\x1b[2J\\xff', 0, 0, 0)\n" + SERVER
    cove("exec", "-d", box, "--", "python3", "-c", code, "127.0.0.1,8001").ok()
    text = wait_until(lambda: [x for x in [cove("ports", box).ok().out] if x.count(b"\n") > 1], "the server")[0]
    assert text.count(b"\n") == 2 and b"\x1b" not in text
    json.loads(cove("ports", "--json", box).ok().out)


def test_ports_of_what_is_not_there(cove, box):
    cove.fails("not_found", "ports", "no-such-box")
    cove.fails("not_found", "port", "no-such-box")
    cove("stop", box).ok()
    cove.fails("conflict", "ports", box)
    cove("ports").refused(rc=2)


# ---- several ----

def test_several_at_once(cove, box):
    serve(cove, box, "127.0.0.1,8001", "127.0.0.1,8002")
    p = cove.start("port", box, "8001:0", "8002:0", "--json")
    ready = [json.loads(p.stdout.readline()) for _ in range(2)]
    assert [x["port"] for x in ready] == [8001, 8002]
    assert [fetch(x["local_port"]) for x in ready] == ["8001", "8002"]
    assert cove("port", "--json", box).ok().json == []  # none of them is in the background
    p.send_signal(signal.SIGINT)
    assert p.wait(DEADLINE) == 130
    assert all(refused(x["local_port"]) for x in ready)


def test_several_end_with_the_box(cove, box):
    p = cove.start("port", box, "8001:0", "8002:0")
    ports = [int(p.stdout.readline().split(b":")[2].strip(b"/\n")) for _ in range(2)]
    cove("stop", box).ok()
    _, err = p.communicate(timeout=DEADLINE)
    assert p.returncode == 125 and err.decode().count(f"box '{box}' ended") == 1
    assert all(refused(port) for port in ports)


@pytest.mark.parametrize("flags", [[], ["-d"]])
def test_all_or_none(cove, box, flags):
    with socket.socket() as other_one:
        other_one.bind(("127.0.0.1", 0))
        other_one.listen()
        number, other = other_one.getsockname()[1], free_port()
        got = cove("port", "--json", *flags, box, f"8001:{other}", f"8002:{number}")
        assert got.rc == 125 and got.json["error"]["kind"] == "conflict"  # and no address before it
        assert refused(other)
        assert cove("port", *flags, box, f"8001:{other}", f"8002:{number}").text == ""
    assert cove("port", "--json", box).ok().json == []


# ---- in the background ----

def test_in_the_background_it_lives_with_the_box(cove, box):
    serve(cove, box, "127.0.0.1,8001", "127.0.0.1,8002")
    a, b = free_port(), free_port()
    # From a shell that is gone afterwards, with its terminal's signal.
    subprocess.run(["setsid", "sh", "-c", '"$@"; kill -HUP 0', "sh",
                    *map(os.fsdecode, cove.argv(["port", "-d", box, f"8001:{a}", f"8002:{b}"]))],
                   env=cove.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)
    assert live(cove, box) == {a: 8001, b: 8002}
    assert (fetch(a), fetch(b)) == ("8001", "8002")
    inside = {s["port"]: s["forwarded_from"] for s in cove("ports", "--json", box).ok().json}
    assert inside == {8001: f"127.0.0.1:{a}", 8002: f"127.0.0.1:{b}"}
    assert "forwarded" in cove("port", box).ok().text
    # It is one only once.
    cove.fails("conflict", "port", "-d", box, f"8001:{a}")
    assert live(cove, box) == {a: 8001, b: 8002}
    # The end of the box is its end, and the start of it its start.
    cove("stop", box).ok()
    wait_until(lambda: live(cove, box) == {}, "their end")
    assert refused(a) and refused(b)
    assert f"leads to port 8001 of box '{box}' again" in cove("start", box).ok().errors
    assert live(cove, box) == {a: 8001, b: 8002}
    serve(cove, box, "127.0.0.1,8001", "127.0.0.1,8002")
    assert (fetch(a), fetch(b)) == ("8001", "8002")
    assert cove("start", box).ok().err == b""  # it runs, and they do
    # One goes, then all.
    assert cove("port", "--rm", "--json", box, str(a)).ok().json == {"name": str(a), "result": "ended"}
    wait_until(lambda: refused(a), "its end")
    assert live(cove, box) == {b: 8002} and fetch(b) == "8002"
    cove.fails("not_found", "port", "--rm", box, str(a))
    cove("port", "--rm", box).ok()
    wait_until(lambda: refused(b), "its end")
    assert cove("port", "--json", box).ok().json == []
    cove("stop", box).ok()
    assert b"again" not in cove("start", box).ok().err


def test_stop_and_start_at_once_loses_none(cove, box):
    a = free_port()
    cove("port", "-d", box, f"8001:{a}").ok()
    for _ in range(3):
        cove("stop", "--grace", "0", box).ok()
        cove("start", box).ok()
        assert live(cove, box) == {a: 8001}
    cove("port", "--rm", box).ok()


def test_one_that_cannot_come_back_says_so(cove, box):
    a = free_port()
    cove("port", "-d", box, f"8001:{a}").ok()
    cove("stop", box).ok()
    wait_until(lambda: refused(a), "its end")
    with taken(a):
        assert f"cove port -d {box} 8001:{a}" in cove("start", box).ok().errors
    assert [(x["local_port"], x["live"]) for x in cove("port", "--json", box).ok().json] == [(a, False)]
    cove("port", "-d", box, f"8001:{a}").ok()  # as it was told
    assert live(cove, box) == {a: 8001}


def test_a_killed_one_is_known(cove, box):
    a = free_port()
    cove("port", "-d", box, f"8001:{a}").ok()
    (found,) = cove("port", "--json", box).ok().json
    os.kill(found["pid"], signal.SIGKILL)
    wait_until(lambda: live(cove, box) == {}, "its end")
    cove("port", "-d", box, f"8002:{a}").ok()  # another in its place
    assert [(x["port"], x["live"]) for x in cove("port", "--json", box).ok().json] == [(8002, True)]


def test_one_that_fails_leaves_the_record_of_the_other(cove, box):
    a = free_port()
    cove("port", "-d", box, f"8001:{a}").ok()
    for _ in range(2):
        cove.fails("conflict", "port", "-d", box, f"8002:{a}")
        assert live(cove, box) == {a: 8001}
    cove("port", "--rm", box, str(a)).ok()
    wait_until(lambda: refused(a), "its end")
    assert cove("port", "--json", box).ok().json == []


def test_one_that_fails_leaves_the_record_of_what_ended(cove, box):
    a = free_port()
    cove("port", "-d", box, f"8001:{a}").ok()
    cove("stop", box).ok()
    wait_until(lambda: refused(a), "its end")
    with taken(a):
        cove("start", box).ok()
        cove.fails("conflict", "port", "-d", box, f"8002:{a}")
        assert [(x["port"], x["live"]) for x in cove("port", "--json", box).ok().json] == [(8001, False)]


def test_rm_of_the_box_ends_it(cove, gone):
    box = cove("create").ok().text.strip()
    gone.append(box)
    a = free_port()
    cove("port", "-d", box, f"8001:{a}").ok()
    cove("rm", "-f", box).ok()
    wait_until(lambda: refused(a), "its end")
    cove.fails("not_found", "port", box)


def test_a_wrong_line(cove, box):
    for words in ([box, "0"], [box, "65536"], [box, "x"], [box, "1:x"], [box, "8001", "-1"], ["--rm", box, "0"],
                  ["--rm", "-d", box], [box, *(["80"] * 65)]):
        cove("port", *words).refused(rc=2)
