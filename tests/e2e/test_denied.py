"""What a command learns of a denial, and what whoever runs it does: real clients, a real door, servers on loopback."""
import pytest

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
