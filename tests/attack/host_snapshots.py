"""A25: snapshots, forks and rollbacks. What of a box must not live on in them, trees that are made to hurt whoever
copies them, and operations that meet each other or end in the middle."""
import base64
import json
import os
import pathlib
import re
import secrets
import signal
import time

from door_ground import HEAD, PYTHON, ground
from rig import DEADLINE, Broke, Cove, NotApplicable, case, end, holds, need, wait_until

NO_FREEZE = "--no-freeze"  # only has a meaning where a box cannot be frozen


def own(rig, name):
    """A state directory of its own, for boxes of the host's programs: layers there are what boxes wrote."""
    return Cove(rig, rig.cove.prefix, str(rig.base / name))


def layers(cove):
    """Their names, those of half-made ones among them. What the host's image stands on is no matter of a case."""
    return set(os.listdir(os.path.join(cove.home, "layers")))


def clear(cove, boxes=(), snapshots=()):
    """Removes them, whichever are there."""
    for name in boxes:
        cove("rm", "-f", name)
    for name in snapshots:
        cove("snapshot", "rm", name)


def left(cove, before):
    """What is there beside the layers of before, once whoever was killed is swept up after."""
    cove("system", "prune", "-q")
    return sorted(layers(cove) - before)


def files_below(top):
    for directory, _, names in os.walk(top):
        yield from (os.path.join(directory, name) for name in names)


def found_in(words, *places):
    """Regular files in or below these places that hold one of the words."""
    paths = [p for place in places for p in (files_below(place) if os.path.isdir(place) else [place])]
    return [p for p in paths if holds(p, words)]


# ---- what must not live on ----

ASK = "say(status(https('api.test', tls, get('/', 'api.test:%d' % tls), 6)))"


class Used:
    """A box that used a credential, in a home of its own."""

    def __init__(self, rig, name):
        self.g, self.cove = ground(rig), own(rig, name)
        self.cove.env.update(self.g.net.env)
        self.cove("secret", "set", "API", input=self.g.net.secret("API").encode()).ok()
        policy = self.g.policy([{"name": "api", "allow": "api.test", "inject": {
            "headers": {"Authorization": "Bearer {{ secret.API }}"}}}])
        self.box = self.cove("create", *rig.flags(), "--net", policy).ok().text.strip()
        self.request(self.box)

    def request(self, box):
        """Sends the credential from a box, which does not see it."""
        self.g.raw.clear()
        got = self.cove.run_json(box, PYTHON, "-B", "-c", HEAD + ASK, json.dumps({"tls": self.g.raw.tls_port}))
        need(got["stdout"].strip() == "200", f"the request did not pass: {got['stdout']} {got['stderr'][-300:]}")
        need(self.g.net.secret("API").encode() in self.g.raw.all(), "the credential was not sent: nothing was tried")

    def keys(self):
        """The authorities' key files, by box."""
        return {p.name.split(".")[0]: p.read_bytes() for p in pathlib.Path(self.cove.home, "door/used").iterdir()}


def pieces(pem):
    """Of a certificate and its key: the key's lines, as they are and decoded."""
    key = re.search(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)-----END", pem, re.S)
    lines = key.group(1).split() if key else []
    raw = base64.b64decode(b"".join(lines))
    # An elliptic key in PKCS #8 begins as every other: what is its own, the private number, is at 36.
    return [*(line for line in lines[1:] if len(line) >= 32), *([raw[36:68]] if len(raw) >= 68 else [])]


@case("A25_no_secret_in_a_snapshot", "A25", "a credential that a box used, and its authority's key, are in no layer of "
      "its snapshot, no file of a fork, no exported snapshot and no backup")
def no_secret(rig):
    used, mark = Used(rig, "a25"), "MARK" + secrets.token_hex(16)
    cove, box = used.cove, used.box
    out = [str(rig.base / name) for name in ("a25.snapshot", "a25.backup")]
    try:
        cove("exec", box, "--", "sh", "-c", f"echo {mark} >/tmp/mark").ok()
        cove("snapshot", "create", box, "kept", NO_FREEZE).ok()
        cove("fork", "kept", "--name", "fork").ok()
        used.request("fork")  # it has what its policy names from the host, not from the snapshot
        cove("snapshot", "export", "kept", out[0]).ok()
        cove("system", "backup", out[1]).ok()
        made = [os.path.join(cove.home, "layers"), os.path.join(cove.home, "snapshots"), *out]
        for place in (made[0], *out):
            need(found_in([mark.encode()], place), f"the search does not find what is in {place}: it proves nothing")
        keys = [piece for key in used.keys().values() for piece in pieces(key)]
        need(len(used.keys()) == 2 and keys, f"no keys of authorities to search for: {list(used.keys())}")
        places = [*made, os.path.join(cove.home, "boxes"), os.path.join(cove.home, "workspaces")]
        for what, words in (("the credential", rig.needles), ("an authority's key", keys)):
            where = found_in(words, *places)
            need(not where, f"{what} is in {where[:4]}")
        return f"{sum(1 for p in places for _ in files_below(p)) + 2} files searched"
    finally:
        clear(cove, [box, "fork"], ["kept"])
        for path in out:
            pathlib.Path(path).unlink(missing_ok=True)


@case("A25_fork_has_an_authority_of_its_own", "A25", "a fork's authority has another key and another certificate, also "
      "when its box is gone, and after a rollback the old one is not used again")
def own_authority(rig):
    used = Used(rig, "a25-authority")
    cove, box = used.cove, used.box

    def certificate(name):
        return cove("exec", name, "--", "cat", "/dev/cove-trust/box.pem").ok().text
    try:
        cove("snapshot", "create", box, "kept", NO_FREEZE).ok()
        cove("fork", "kept", "--count", "2", "--prefix", "f").ok()
        names = [box, "f-1", "f-2"]
        for name in names:
            used.request(name)
        need(len({certificate(n) for n in names}) == 3, "two boxes have one certificate")
        need(len(set(used.keys().values())) == 3, f"two boxes have one key: {list(used.keys())}")
        cove("rm", "-f", box).ok()
        used.request("f-1")
        return "three boxes, three authorities"
    finally:
        clear(cove, [box, "f-1", "f-2"], ["kept"])


IDENTITY = """mkdir -p /etc/ssh /var/lib/systemd
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
head -c 512 /dev/urandom > /var/lib/systemd/random-seed
for k in rsa ecdsa ed25519 made_up; do echo private-$k > /etc/ssh/ssh_host_${k}_key; done"""
LOOK = """cat /etc/machine-id; cat /var/lib/systemd/random-seed 2>/dev/null | od -An -tx1 | tr -d ' \\n'; echo
cat /etc/ssh/ssh_host_*_key 2>/dev/null | grep -c private-; head -c 16 /dev/urandom | od -An -tx1
tr '\\0' ' ' </proc/[0-9]*/cmdline 2>/dev/null | grep -c a25-sleeper; hostname"""


@case("A25_fork_is_another_machine", "A25", "forks of one snapshot have neither its machine id, random seed, ssh host "
      "keys, host name nor processes, nor each other's")
def another_machine(rig):
    if not rig.root_inside():
        raise NotApplicable("there is no root inside for this caller")
    box, names = rig.make(), []
    if rig.cove("exec", "-u", "root", box, "--", "sh", "-ec", IDENTITY).rc != 0:
        rig.cove("rm", "-f", box)
        raise NotApplicable("the host's own files cannot be changed inside: needs an image (--tar)")
    try:
        rig.cove("exec", "-d", box, "--", "sh", "-c", "sleep 7000; : a25-sleeper").ok()
        names = rig.cove("fork", box, "--count", "3", "--prefix", "a25", NO_FREEZE).ok().text.split()
        seen = [rig.cove("exec", "-u", "root", n, "--", "sh", "-c", LOOK).text.split("\n") for n in names]
        ids, seeds, keys, random, sleepers, hosts = (list(x) for x in list(zip(*seen))[:6])
        need(len(set(ids)) == 3 and all(len(i) == 32 for i in ids) and "0123456789abcdef" * 2 not in ids,
             f"machine ids: {ids}")
        need(set(seeds) == {""}, "the random seed went along")
        need(set(keys) == {"0"}, "an ssh host key went along")
        need(len(set(random)) == 3, f"the same random bytes: {random}")
        need(set(sleepers) == {"0"}, "a process went along")
        need(sorted(hosts) == sorted(names), f"host names: {hosts}")
        return "three forks, three machines"
    finally:
        clear(rig.cove, [box, *names])


# ---- trees that hurt whoever copies them ----

# Names that lead out, wait, are many, are deep, are odd, or change while they are read.
TREE = r"""
import os, socket, sys
file, directory, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.makedirs("/tmp/h"); os.chdir("/tmp/h")
for i in range(50):
    os.mkfifo("fifo%d" % i)
for i in range(10):
    s = socket.socket(socket.AF_UNIX); s.bind("socket%d" % i)
for kind, major, minor in ((0o20000, 1, 1), (0o20000, 5, 1), (0o60000, 8, 0), (0o60000, 7, 0), (0o20000, 0, 0)):
    try:
        os.mknod("node%d-%d" % (major, minor), kind | 0o666, os.makedev(major, minor))
    except OSError:
        pass
for name, target in (("f", file), ("d", directory), ("root", "/"), ("up", "../../../../../.."), ("loop", "loop"),
                     ("mem", "/proc/self/mem"), ("fd", "/proc/self/fd/3"), ("kmsg", "/dev/kmsg")):
    os.symlink(target, name)
os.mkdir("links"); open("links/first", "w").write("one")
for i in range(count):
    os.link("links/first", "links/%d" % i)
for name in (b"new\nline", b"\xff\xfe", b"-rf", b"a" * 255, b"\x1b]0;x\x07", b".wh.f", b".wh..wh..opq", b" ",
             b"...", b"*"):
    open(b"/tmp/h/" + name, "w").close()
with open("holes", "w") as f:
    f.truncate(1 << 42)
os.mkdir("closed"); open("closed/x", "w").close(); os.chmod("closed", 0)
for i in range(400):
    os.mkdir("d"[:1] + "eep"); os.chdir("deep")
"""
# Grows, shrinks, swaps a directory with a link and a file with a FIFO, as fast as it can; says so once.
RESTLESS = r"""
import os, sys
os.chdir("/tmp/h"); os.makedirs("a/x"); os.symlink(sys.argv[1], "b"); open("p", "w").close(); os.mkfifo("q")
import ctypes
swap = lambda x, y: ctypes.CDLL(None).renameat2(-100, x, -100, y, 2)
fd = os.open("restless", os.O_CREAT | os.O_RDWR)
i = 0
while True:
    os.ftruncate(fd, (i % 7) << 20); os.pwrite(fd, b"x" * 65536, (i % 11) << 18)
    swap(b"a", b"b"); swap(b"p", b"q")
    i += 1
    if i == 10:
        print("moves", flush=True)
"""


def restless(rig, cove, box):
    """The box's tree begins to change, and does so until the process is ended."""
    mover = cove.start("exec", box, "--", PYTHON, "-B", "-c", RESTLESS, str(rig.canary.dir))
    if mover.stdout.readline() != b"moves\n":
        said = mover.communicate()[1]
        raise Broke(f"the tree does not change: {said[-400:]!r}")
    return mover


@case("A25_snapshot_of_a_hostile_tree", "A25", "FIFOs, sockets, nodes, links that lead out, thousands of hard links, a "
      "deep path, odd names and files that change while they are read: a snapshot, a fork, a diff and a rollback end, "
      "follow nothing, and leave nothing when they are removed")
def hostile_tree(rig):
    cove = rig.cove
    box, before, movers = rig.make(), layers(cove), []
    user = ("-u", "root") if rig.root_inside() else ()
    made = cove("exec", *user, box, "--", PYTHON, "-B", "-c", TREE, rig.canary.file, rig.canary.dir,
                2000 if rig.quick else 20000)
    if made.rc == 127 or b"No such file" in made.err and b"python3" in made.err:
        cove("rm", "-f", box)
        raise NotApplicable("this image has no python3")
    made.ok()
    cove("exec", *user, box, "--", "chmod", "777", "/tmp/h").ok()
    try:
        movers.append(restless(rig, cove, box))
        taken = 0
        for name in ("h1", "h2"):  # the second above the first
            said = cove("snapshot", "create", box, name, NO_FREEZE, "--json")
            need(said.rc in (0, 125), repr(said))
            taken += said.rc == 0
        mark = rig.canary.mark.encode()
        new = [os.path.join(cove.home, "layers", name) for name in layers(cove) - before]
        need(taken, f"no snapshot was taken: {said!r}")
        need(not found_in([mark], *new), "something outside the box is in the snapshot")
        need(not [p for p in new for q in files_below(p) if is_node(q)], "a device came along")
        said = cove("diff", box)
        need(said.rc in (0, 1, 125) and b"\x1b" not in said.out, repr(said))
        cove("fork", "h1" if taken == 2 else name, "--name", "h-fork").ok()
        seen = cove("exec", *user, "h-fork", "--", "sh", "-c",
                    "cd /tmp/h && find . -name deep | wc -l")
        need(seen.rc == 0 and "400\n" in seen.text, f"the fork's tree is not whole: {seen!r}")
        back = cove("rollback", box, "h1" if taken == 2 else name)
        need(back.rc == 0, repr(back))
        need(rig.answers(box), rig.complaint(box))
    finally:
        for mover in movers:
            end(mover)
        clear(cove, [box, "h-fork"], ["h1", "h2"])
    need(not left(cove, before), f"left: {left(cove, before)[:4]}")
    return f"{taken} snapshots of two"


def is_node(path):
    """A block device, or a character device that is no whiteout."""
    st = os.lstat(path)
    kind = st.st_mode & 0o170000
    return kind == 0o060000 or kind == 0o020000 and st.st_rdev != 0


# Set raw where no overlay stands between (a workspace), and through the overlay elsewhere.
FORGE = r"""
import os, sys
host, other = sys.argv[1:3]
tried = made = 0
for top in ("/tmp/forged", "/workspace/forged"):
    os.makedirs(top, exist_ok=True)
    for i, target in enumerate(("/", "/etc", "../../../../../../etc", host, other, "/" + "../" * 20 + host[1:])):
        for kind in ("user", "trusted"):
            d, f = "%s/d%d%s" % (top, i, kind), "%s/f%d%s" % (top, i, kind)
            os.makedirs(d, exist_ok=True)
            open(f, "w").close()
            for path in (d, f):
                for key, value in (("redirect", target.encode()), ("metacopy", b""), ("opaque", b"y"), ("opaque", b"x"),
                                   ("origin", b"\x00\xfb\x1d\x00" + b"\x01" * 25), ("impure", b"y"),
                                   ("upper", b"\x00" * 29),
                                   ("whiteout", b"y"), ("overlay.redirect", target.encode())):
                    tried += 1
                    try:
                        os.setxattr(path, "%s.overlay.%s" % (kind, key), value)
                        made += 1
                    except OSError:
                        pass
    for name in ("passwd", "hostname", "x"):
        try:
            os.mknod("%s/%s" % (top, name), 0o20666, 0)
            made += 1
        except OSError:
            pass
        open("%s/.wh.%s" % (top, name), "w").close()
    open(top + "/.wh..wh..opq", "w").close()
print(tried, made)
"""
READ_ALL = "cd {top} 2>/dev/null && find . | head -999; grep -rsa -e {mark} -e {other} .; cat */passwd */*/passwd; true"


@case("A25_forged_overlay_marks", "A25", "user.overlay.* and trusted.overlay.* attributes, whiteouts and .wh. names "
      "that root inside made, also in a workspace without an overlay, show a fork, a rolled back box and a diff "
      "nothing of the host or of another box")
def forged(rig):
    cove, other_mark = rig.cove, "OTHER" + secrets.token_hex(12)
    other, user = rig.make(), ("-u", "root") if rig.root_inside() else ()
    before = layers(cove)
    cove("exec", other, "--", "sh", "-c", f"mkdir -p /tmp/forged; echo {other_mark} >/tmp/forged/secret").ok()
    box = rig.make("--workspace", "a25-forged")
    try:
        made = cove("exec", *user, box, "--", PYTHON, "-B", "-c", FORGE, rig.canary.dir,
                    os.path.join(cove.home, "boxes", other))
        if made.rc == 127:
            raise NotApplicable("this image has no python3")
        counts = made.ok().text.split()

        def look(name, when):
            said = b""
            for top in ("/tmp/forged", "/workspace/forged"):
                said += cove("exec", *user, name, "--", "sh", "-c", READ_ALL.format(
                    top=top, mark=rig.canary.mark, other=other_mark)).out
            need(rig.canary.mark.encode() not in said and other_mark.encode() not in said, f"{when}: it saw another's")
            need(b"root:" not in said and b"canary" not in said, f"{when}: it was led elsewhere: {said[-300:]!r}")
        cove("snapshot", "create", box, "forged", NO_FREEZE).ok()
        cove("fork", "forged", "--name", "forged-fork").ok()
        look("forged-fork", "a fork")
        cove("fork", "forged-fork", "--name", "forged-again", NO_FREEZE).ok()
        look("forged-again", "a fork of the fork")
        cove("rollback", box, "forged").ok()
        look(box, "a rollback")
        for words in ((box,), ("--text", "forged-fork"), ("snapshot:forged", "forged-again"), (box, other)):
            said = cove("diff", *words)
            need(said.rc in (0, 1), repr(said))
            text = said.out.replace(other_mark.encode(), b"") if other in words else said.out
            need(rig.canary.mark.encode() not in text and other_mark.encode() not in text,
                 f"diff {words} shows another's")
        return f"{counts[1]} of {counts[0]} marks could be made"
    finally:
        clear(cove, [box, other, "forged-fork", "forged-again"], ["forged"])
        for name in ("a25-forged", "forged-fork", "forged-again"):
            cove("workspace", "rm", name)
        need(not left(cove, before), f"left: {left(cove, before)[:4]}")


# ---- operations that end in the middle, or meet ----

def is_frozen(pid):
    """Whether the kernel says that this process's group is frozen."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, kinds, group = line.split(":", 2)
        for top, name, word in (("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN"),
                                ("/sys/fs/cgroup", "cgroup.events", "frozen 1"),
                                ("/sys/fs/cgroup/unified", "cgroup.events", "frozen 1")):
            path = pathlib.Path(f"{top}{group}/{name}")
            if (kinds == "freezer") == (name == "freezer.state") and path.exists() and word in path.read_text():
                return True
    return False


@case("A25_client_killed_in_the_freeze", "A25", "kill -9 of whoever takes a snapshot, while the box is frozen for it: "
      "the box goes on at once, and nothing half made is left")
def killed_in_the_freeze(rig):
    box, before = rig.make(), layers(rig.cove)
    if rig.cove("pause", box).rc != 0:
        rig.cove("rm", "-f", box)
        raise NotApplicable("a box of this caller cannot be frozen here")
    rig.cove("resume", box).ok()
    rig.cove("exec", box, "--", "sh", "-c", "mkdir /tmp/many; cd /tmp/many; i=0; "
             "while [ $i -lt 1500 ]; do echo $i >$i; i=$((i + 1)); done").ok()
    ticking = rig.cove.start("exec", box, "--", "sh", "-c", "while :; do echo x >/tmp/many/tick; done")
    hit = rounds = 0
    try:
        until = time.monotonic() + (8 if rig.quick else 30)
        while hit < (2 if rig.quick else 10) and time.monotonic() < until:
            hit += stop_in_the_freeze(rig, box, rounds)
            rounds += 1
            need(rig.answers(box), rig.complaint(box))
        need(rig.cove.inspect(box)["state"] == "running", "the box does not run")
        rig.cove("snapshot", "create", box, "whole").ok()  # and another one can be taken
    finally:
        end(ticking)
        clear(rig.cove, [box], ["half", "whole"])
    need(not left(rig.cove, before), f"left: {left(rig.cove, before)[:4]}")
    if not hit:
        raise NotApplicable(f"in {rounds} tries the freeze was never met")
    return f"killed {hit} times in the freeze, {rounds} times in all"


def stop_in_the_freeze(rig, box, rounds):
    """Stops the client at a moment that the round decides, or once the box is frozen, and kills it there. Whether the
    box was frozen: what is stopped cannot thaw it, so that this is certain."""
    pids = [p for p in rig.cove.inspect(box).items() if p[0] == "init_pid"]
    inside = children_of(pids[0][1])
    client = rig.cove.start("snapshot", "create", box, "half")
    frozen = False
    until = time.monotonic() + DEADLINE
    while client.poll() is None and not frozen and time.monotonic() < until:
        if any(is_frozen_or_gone(pid) for pid in inside):
            client.send_signal(signal.SIGSTOP)
            wait_until(lambda: client.poll() is not None or state_is(client.pid, "T"), "the client to stop")
            frozen = client.poll() is None and any(is_frozen_or_gone(pid) for pid in inside)
            if not frozen:
                client.send_signal(signal.SIGCONT)
    client.kill()
    client.communicate()
    wait_until(lambda: not any(is_frozen_or_gone(pid) for pid in inside), "the box to go on")
    rig.cove("snapshot", "rm", "half")
    return frozen


def state_is(pid, letter):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == letter
    except OSError:
        return False


def children_of(pid):
    try:
        return [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return [pid]


def is_frozen_or_gone(pid):
    try:
        return is_frozen(pid)
    except OSError:
        return False


@case("A25_rollback_rm_and_fork_race", "A25", "a rollback, forks, snapshots and removals of the same box and snapshot "
      "at once: each ends with a result or a sentence, what survives is whole, and no layer is left or missing")
def race(rig):
    rig.box()  # what its image stands on is there
    cove, before, outcomes, prefix = rig.cove, layers(rig.cove), [], "race"
    for turn in range(2 if rig.quick else 12):
        box = rig.make("--name", f"{prefix}{turn}")
        cove("exec", box, "--", "sh", "-c", "mkdir /tmp/w; cd /tmp/w; i=0; "
             "while [ $i -lt 300 ]; do echo $i >$i; i=$((i + 1)); done").ok()
        cove("snapshot", "create", box, f"{box}-s", NO_FREEZE).ok()
        cove("exec", box, "--", "sh", "-c", "rm /tmp/w/7; echo more >/tmp/w/more").ok()
        verbs = [("rollback", box, f"{box}-s"), ("fork", f"{box}-s", "--name", f"{box}-f1"),
                 ("fork", box, "--name", f"{box}-f2", NO_FREEZE), ("snapshot", "create", box, f"{box}-t", NO_FREEZE),
                 ("snapshot", "rm", f"{box}-s"), ("image", "gc"), ("rollback", box, f"{box}-s"), ("rm", "-f", box)]
        many = [cove.start(*words) for words in (verbs if turn % 2 else verbs[:-1])]
        for process, words in zip(many, verbs):
            out, err = process.communicate(timeout=DEADLINE)
            rig.search(out + err, words[0])
            outcomes.append(process.returncode)
            need(process.returncode in (0, 125) and (process.returncode == 0 or err), f"{words}: "
                 f"{process.returncode} {err[-300:]!r}")
        for name in [n for n in (f"{box}-f1", f"{box}-f2", box) if n in cove.names()]:
            if cove.inspect(name)["state"] != "running":
                cove("start", name).ok()
            whole = cove("exec", name, "--", "sh", "-c", "cd /tmp/w && cat [0-9]* | wc -l").ok().text.strip()
            need(whole in ("300", "299"), f"{name} has {whole} of its files")
        clear(cove, [f"{box}-f1", f"{box}-f2", box], [f"{box}-s", f"{box}-t"])
    need(not left(cove, before), f"left: {left(cove, before)[:4]}")
    need(before <= layers(cove), f"missing: {sorted(before - layers(cove))[:4]}")
    return f"{len(outcomes)} operations, {outcomes.count(0)} went well, the others said why not"
