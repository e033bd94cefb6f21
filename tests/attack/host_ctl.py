"""G21: what a box may ask for itself. Off there is nothing; on, whatever is said at its socket harms no one."""
from rig import NotApplicable, case, memory_of, need

KEEPER_MAX = 64 << 20

# Said at init's socket, each on a connection of its own; the answers, which must all be refusals.
FORGED = r"""
import socket, sys
NAMES = [b"../x", b"a/b", b"/etc", b".", b"..", b"-rf", b"--force", b"a b", b"a\tb", b"a\rb", b"A", b"", b"a" * 33,
         b"\xc3\xa9", b"\x1b[31m", b"$(id)", b"`id`", b";id", b"a\x00b", b"\x00"]
LINES = [b"\n", b"info x\n", b"INFO\n", b" info\n", b"info \n", b"info\r\n", b"json json info\n", b"delete a\n",
         b"rollback a\n", b"snapshot\n", b"info\ninfo\n", b"\x00\n", b"\xff" * 50 + b"\n", b"a" * 128, b"a" * 1000000]
LINES += [b"snapshot " + name + b"\n" for name in NAMES] + [b"snapshot a\nsnapshot b\n"]
for line in LINES:
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0cove-ctl")
    got = b""
    try:
        s.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        pass
    try:
        while part := s.recv(4096):
            got += part
    except ConnectionResetError:
        pass
    if got and not got.startswith(b"error invalid "):
        sys.exit(f"{line[:60]!r} was answered {got[:200]!r}")
print(len(LINES))
"""

MANY = r"""
import socket
held, refused = [], 0
for i in range(10000):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect("\0cove-ctl")
        if i % 3 == 0:
            s.send(b"info\n")
        elif i % 3 == 1:
            s.send(b"x" * 127)
        held.append(s)
    except OSError:
        refused += 1
        s.close()
    if len(held) > 200:
        held.pop(0).close()
print(refused)
"""


def python(rig, box, text):
    return rig.cove("exec", box, "--", "python3", "-c", text).ok().text.strip()


@case("G21_off_is_off", "G21", "without --ctl there is no program, no socket, no mount and no variable")
def off(rig):
    seen = rig.cove("exec", rig.box(), "--", "sh", "-c",
                    "cat /proc/net/unix /proc/self/mountinfo; env | grep -v ^BOX; echo /dev/*").ok().text
    need("cove-ctl" not in seen, "something of cove-ctl is in the box")
    said = rig.cove("exec", rig.box(), "--", "python3", "-c",
                    "import socket; socket.socket(socket.AF_UNIX).connect('\\0cove-ctl')")
    need(said.rc != 0 and b"refused" in said.err.lower(), f"something listens: {said!r}")
    return "nothing is there"


@case("G21_forged_requests", "G21", "what is no request is refused, and the box and its keeper go on")
def forged(rig):
    box = rig.make("--ctl", "info,budget")
    count = python(rig, box, FORGED)
    need(rig.answers(box), rig.complaint(box))
    rig.cove("exec", box, "--", "cove-ctl", "info").ok()
    rig.cove("rm", "-f", box).ok()
    return f"{count} lines refused"


@case("G21_ten_thousand_connections", "G21", "connections are bounded, the keeper stays small, and the box answers")
def many(rig):
    box = rig.make("--ctl", "info,budget")
    refused = python(rig, box, MANY)
    need(rig.answers(box), rig.complaint(box))
    used = memory_of(rig.keeper(box))
    need(used < KEEPER_MAX, f"the keeper has {used >> 20} MiB")
    rig.cove("exec", box, "--", "cove-ctl", "budget").ok()
    rig.cove("rm", "-f", box).ok()
    return f"{refused} of 10,000 found no room"


@case("G21_program_and_socket_stay", "G21", "the box's root can neither change cove-ctl nor take its socket's name")
def stays(rig):
    box = rig.make("--ctl", "info")
    user = ["-u", "root"] if rig.root_inside() else []
    for line in ("echo x >/dev/cove-ctl/cove-ctl", "rm /dev/cove-ctl/cove-ctl", "touch /dev/cove-ctl/x",
                 "mv /dev/cove-ctl /dev/c", "rmdir /dev/cove-ctl", "umount /dev/cove-ctl",
                 "mount -o remount,rw /dev/cove-ctl", "chmod u+s /dev/cove-ctl/cove-ctl",
                 "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('\\0cove-ctl')\""):
        need(rig.cove("exec", *user, box, "--", "sh", "-c", line).rc != 0, f"done: {line}")
    rig.cove("exec", box, "--", "cove-ctl", "info").ok()
    rig.cove("rm", "-f", box).ok()
    return "nothing was done"


@case("G21_tells_nothing_of_the_host", "G21", "neither answer has a path, a reason or a name of the host's")
def tells(rig):
    box = rig.make("--ctl", "info,budget")
    told = "".join(rig.cove("exec", box, "--", "cove-ctl", verb).ok().text for verb in ("info", "budget"))
    values = [line.split(" ", 1)[1] for line in told.splitlines()]
    need(not any("/" in value for value in values), f"a path: {told}")
    need(rig.cove.home not in told, "the state directory")
    rig.cove("rm", "-f", box).ok()
    return f"{len(values)} values"


SNAPSHOTS = r"""
import socket, sys, threading
def one(name):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("\0cove-ctl")
        s.sendall(b"snapshot " + name + b"\n")
        while s.recv(4096):
            pass
    except OSError:
        pass
many = [threading.Thread(target=one, args=(b"n%d" % i,)) for i in range(200)]
[t.start() for t in many]
[t.join() for t in many]
"""


def may_freeze(rig, box):
    if rig.cove("pause", box).rc != 0:
        raise NotApplicable("a box of this caller cannot be frozen here")
    rig.cove("resume", box).ok()


def names_of(rig, box=None):
    return [s["name"] for s in rig.cove("snapshot", "ls", "--json").ok().json if box in (None, s["box"])]


@case("G21_snapshots_are_bounded", "G21", "two hundred requests at once make one snapshot, and none of a neighbour's")
def bounded(rig):
    box, other = rig.make("--ctl", "snapshot=3"), rig.make("--ctl", "snapshot=3")
    may_freeze(rig, box)
    rig.cove("exec", other, "--", "cove-ctl", "snapshot", "good").ok()
    python(rig, box, SNAPSHOTS)
    made = names_of(rig, box)
    need(len(made) <= 2, f"{len(made)} were made")
    need(names_of(rig, other) == [f"{other}-good"], f"the neighbour's are {names_of(rig, other)}")
    need(rig.answers(box) and rig.answers(other), "a box does not answer")
    for name in [*made, f"{other}-good"]:
        rig.cove("snapshot", "rm", name).ok()
    rig.cove("rm", "-f", box, other).ok()
    return f"{len(made)} of 200"


@case("G21_snapshots_replace_nothing", "G21", "a name that is taken, also by another box or from outside, is refused")
def replaces(rig):
    box = rig.make("--ctl", "snapshot=3")
    may_freeze(rig, box)
    rig.cove("snapshot", "create", rig.box(), f"{box}-taken").ok()
    before = rig.cove("snapshot", "inspect", f"{box}-taken").ok().text
    said = rig.cove("exec", box, "--", "cove-ctl", "snapshot", "taken")
    need(said.rc == 125 and "already" in said.errors, f"{said!r}")
    need(rig.cove("snapshot", "inspect", f"{box}-taken").ok().text == before, "it is another one now")
    need(rig.cove.home not in said.errors, "the sentence has a path of the host")
    rig.cove("snapshot", "rm", f"{box}-taken").ok()
    rig.cove("rm", "-f", box).ok()
    return "refused"
