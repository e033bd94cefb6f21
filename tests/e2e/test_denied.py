"""What a command learns of a denial, and what whoever runs it does: real clients, a real door, servers on loopback."""
import json

import pytest

from conftest import wait_until
from door_kit import DIRECT

pytestmark = pytest.mark.once("user")

RULE = {"name": "web", "allow": "web.test"}

# What each says, by itself, of a name that does not exist; REFUSED made them try again.
CLIENTS = {
    "curl": ("curl -sS http://no.test/", 6, "resolve host"),
    "git": ("git ls-remote http://no.test/a.git", 128, "resolve host"),
    "python3": ("python3 -c 'import socket; socket.getaddrinfo(\"no.test\", 80)'", 1, "Name or service not known"),
    "node": ("node -e 'require(\"dns\").lookup(\"no.test\", e => { console.error(e.code); process.exit(7) })'",
             7, "ENOTFOUND"),
}


@pytest.fixture(scope="module")
def box(session_door):
    name = session_door.box([RULE])
    session_door.boxes.remove(name)
    yield name
    session_door("rm", "-f", name).ok()


@pytest.mark.parametrize("program", CLIENTS)
def test_a_denied_name_does_not_exist(door, box, program):
    line, status, says = CLIENTS[program]
    door.need(box, program)
    got = door.do(box, DIRECT + line)
    assert got.rc == status and says in got.errors, got.errors


def test_a_denied_name_is_there_once_it_is_allowed(door, box):
    """In the same process, with the same resolver: nobody remembers that it was not there."""
    door.need(box, "python3")
    script = """
import socket, sys
def look():
    try:
        return {a[4][0][:7] for a in socket.getaddrinfo('other.test', 80)}
    except socket.gaierror as e:
        return e.errno == socket.EAI_NONAME
print(look(), flush=True)
sys.stdin.readline()
print(look(), flush=True)
"""
    door.put(box, "/tmp/look.py", script)
    process = door.start("exec", "-i", box, "--", "python3", "/tmp/look.py")
    assert process.stdout.readline() == b"True\n"
    door("allow", box, "other.test").ok()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.stdout.readline().startswith(b"{'198.18"), "it was just allowed"
    assert process.wait() == 0


# ---- what its result says ----

def denied(door, box, line):
    """What a result lists, by its host."""
    got = json.loads(door("exec", "--json", box, "--", "sh", "-c", line).out)
    return {d.pop("host"): d for d in got["denied"]}


def test_a_result_says_what_was_denied(door, rig, box):
    got = denied(door, box, DIRECT + "curl -sS http://no.test/; " + DIRECT + "curl -sS http://10.1.2.3:81/; "
                 f"curl -sS {rig.url('/echo', tls=False)}")
    assert set(got) == {"no.test", "10.1.2.3"}, "what was allowed is not listed"
    name, address = got["no.test"], got["10.1.2.3"]
    assert name["remedy"].startswith(f"cove allow {box} no.test") and "shared" not in name
    assert address["port"] == 81 and "private: true" in address["remedy"] and "cove allow" not in address["remedy"]
    assert denied(door, box, "true") == {}, "none is carried over"
    assert "remedy" not in denied(door, box, "curl -sS http://169.254.169.254/")["169.254.169.254"]


def test_rows_and_events_have_the_number(door, box):
    """Also when the box is stopped: it is in its journal."""
    mine = door.box([RULE])
    for line in ("true", DIRECT + "curl -sS http://10.1.2.3:81/; " + DIRECT + "curl -sS http://10.1.2.3:81/"):
        door.do(mine, line)
    for _ in range(2):
        rows = json.loads(door("ps", mine, "--json").ok().out)[-2:]
        assert [r["denied_count"] for r in rows] == [0, 2]
        events = [json.loads(e) for e in door("logs", mine, "--json").ok().out.splitlines() if b'"result"' in e]
        assert [e.get("denied_count") for e in events[-2:]] == [None, 2]
        door("stop", mine).ok()


def test_the_remedy_works(door, rig, box):
    url = f"http://no.test:{rig.web.port}/"
    remedy = denied(door, box, f"curl -sS {url}")["no.test"]["remedy"]
    door(*remedy.split(",")[0].split()[1:]).ok()
    assert denied(door, box, f"curl -sS {url}").get("no.test", {}).get("reason") != "no rule allows it"


def test_a_request_that_is_denied_names_its_method(door, rig):
    box = door.box([{"name": "read", "allow": "web.test", "methods": ["GET"]}])
    got = denied(door, box, f"curl -sS -X DELETE {rig.url('/echo', tls=False)}")["web.test"]
    assert got["method"] == "DELETE" and got["port"] == rig.web.port
    assert door.row(box, method="DELETE")["why"] == "request"


def test_denials_of_several_commands_are_shared_or_ones_own(door, box):
    door.need(box, "python3")
    other = door.start("exec", "--json", "-i", box, "--", "cat")
    other.stdin.write(b"x")
    other.stdin.flush()
    wait_until(lambda: '"state":"running"' in door("ps", box, "--json").out.decode(), "the other one to run")
    try:
        got = denied(door, box, DIRECT + "python3 -c 'import socket; socket.getaddrinfo(\"both.test\", 80)'")
        assert got["both.test"]["shared"] is True
    finally:
        out, _ = other.communicate()
    assert [d["host"] for d in json.loads(out)["denied"]] == ["both.test"]


def test_verbose_says_it_on_stderr(door, box):
    got = door("exec", "-v", box, "--", "curl", "-sS", "http://10.1.2.3:81/")
    (line,) = [text for text in got.errors.splitlines() if text.startswith("[cove] denied: ")]
    assert line.startswith("[cove] denied: 10.1.2.3:81 (") and "private: true" in line
    assert "denied:" not in door("exec", box, "--", "curl", "-sS", "http://10.1.2.3:81/").errors


# ---- cove policy suggest ----

def suggestion(door, box, tmp_path):
    """What is suggested, as a file that the checker takes; and what is said of it."""
    got = json.loads(door("policy", "suggest", box, "--json").ok().out)
    text = door("policy", "suggest", box).ok().text
    assert got["text"] == text
    path = tmp_path / "suggested.yaml"
    path.write_text(text)
    door("policy", "check", path).ok()
    return path, got


def test_what_was_denied_passes_with_what_is_suggested(door, rig, tmp_path):
    """Its name is allowed first; then it shows that it leads to no public address."""
    box = door.box([{"name": "other", "allow": "other.test"}])
    url = rig.url("/echo", tls=False)
    assert door.code(box, url, way="proxy") in (0, 403)
    door.row(box, host="web.test", verdict="deny")
    for why in ("unmatched", "private"):
        door.row(box, host="web.test", why=why)
        path, got = suggestion(door, box, tmp_path)
        assert got["rules"] == 1 and f"ports\": [{rig.web.port}]" in path.read_text()
        door("policy", "apply", box, path).ok()
        code = door.code(box, url, way="proxy")
    assert code == 200
    assert door.code(box, f"http://web.test:{rig.web.port + 1}/", way="proxy") in (0, 403)
    assert "other.test" in door("policy", "show", box).ok().text, "what it had it keeps"


def test_a_request_that_was_denied_passes_then(door, rig, tmp_path):
    box = door.box([{"name": "read", "allow": "web.test", "ports": [rig.web.port], "methods": ["GET"],
                     "private": True}])
    url = rig.url("/echo", tls=False)
    assert door.code(box, url, "-X", "PUT") == 403
    door.row(box, method="PUT", why="request")
    path, got = suggestion(door, box, tmp_path)
    assert got["rules"] == 1
    door("policy", "apply", box, path).ok()
    assert door.code(box, url, "-X", "PUT") == 200
    assert door.code(box, rig.url("/other", tls=False), "-X", "PUT") == 403
    assert door.code(box, url) == 200


def test_what_is_built_in_is_suggested_by_its_name(cove, tmp_path):
    box = cove("create", "--net", "balanced,conda").ok().text.strip()
    try:
        assert "Nothing was denied" in cove("policy", "suggest", box).ok().text
        cove("exec", box, "--", "sh", "-c", "curl -sS http://no.test:81/; curl -sS http://169.254.169.254/; true").ok()
        wait_until(lambda: b"metadata" in cove("audit", box, "--denied", "--json").ok().out, "the rows")
        path, got = suggestion(cove, box, tmp_path)
        text = path.read_text()
        assert "use: [balanced, conda]" in text and "ports: [81]" in text
        assert got["rules"] == 1 and got["remarks"] == 1 and got["denied"] == 2
        assert not [line for line in text.splitlines() if "169.254" in line and not line.startswith("#")]
        cove("policy", "apply", box, path).ok()
        again = json.loads(cove("policy", "suggest", box, "--json").ok().out)
        assert again["rules"] == 0, "it is allowed by now"
    finally:
        cove("rm", "-f", box).ok()
    gone = json.loads(cove("policy", "suggest", box, "--json").ok().out)
    assert gone["rules"] == 1 and "no.test" in gone["text"] and "gone" in gone["text"]
    cove.fails("not_found", "policy", "suggest", "never-was")
