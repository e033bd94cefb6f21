"""Warm pools: boxes that a server makes ahead of time cannot be told from others, and leave nothing."""
import concurrent.futures
import glob
import hashlib
import http.client
import io
import json
import os
import re
import signal
import subprocess
import tarfile

import pytest

from conftest import needs_root, wait_until
from server import Server

pytestmark = [pytest.mark.once("root"), needs_root]


@pytest.fixture
def home(new_home):
    return new_home()


@pytest.fixture
def server(home):
    made = Server(home)
    yield made
    made.end()
    while HELD:
        os.close(HELD.pop())


def pools(server, token=None):
    return server.ask("GET", "/v1/pools", token=token).ok(200).json["pools"]


def ready(server, count, token=None):
    wait_until(lambda: [p["ready"] for p in pools(server, token)] == [count] if count is not None
               else not pools(server, token), "the pool")


def fill(server, count, token=None, image="host", **more):
    server.ask("PUT", "/v1/pools", {"image": image, "size": count, **more}, token=token).ok(204)
    ready(server, count, token)


def again(server):
    """Starts a killed one: a process that it was just starting may have its lock for a moment more."""
    server.kill()

    def start():
        try:
            return server.start()
        except AssertionError as e:
            assert "runs already" in str(e)
            server.kill()
    wait_until(start, "the server")


def made_ahead(home):
    """The directories of boxes that are nobody's."""
    return sorted(glob.glob(f"{home.home}/boxes/.new-*"))


def groups(home):
    tag = hashlib.sha256(home.home.encode()).hexdigest()[:8]
    found = subprocess.run(["find", "/sys/fs/cgroup", "-maxdepth", "4", "-type", "d", "-name", f"{tag}-*"],
                           capture_output=True, text=True).stdout
    return found.split()


def inode(path):
    return os.stat(path).st_ino


def create(server, token=None, image="host", **options):
    return server.ask("POST", "/v1/boxes", {"image": image, **options}, token=token)


def was_taken(home, before, name):
    """Whether the box is one of those directories, by another name now."""
    return inode(f"{home.home}/boxes/{name}") in before


HELD = []  # directories that were looked at: while one is open its number is no other's


def inodes(home):
    found = set()
    for d in made_ahead(home):
        try:
            HELD.append(os.open(d, os.O_PATH))
            found.add(os.fstat(HELD[-1]).st_ino)
        except FileNotFoundError:
            pass
    return found


# ---- it cannot be told ----

# All that a program sees without asking its keeper. What differs from box to box by chance (numbers of processes and
# inodes, times) is left out, and compared apart where it must be fresh.
LOOK = r"""
hostname; cat /etc/hostname /etc/hosts /etc/resolv.conf; id; pwd; env | sort; ulimit -a; nproc; umask
cat /proc/meminfo | grep MemTotal; grep -c ^processor /proc/cpuinfo; cat /proc/loadavg | cut -d' ' -f1-3
grep -E '^(Cap|NoNew|Seccomp|Groups|Uid|Gid)' /proc/self/status
sed 's/^[0-9]* [0-9]* [0-9]*:[0-9]* //; s/master:[0-9]* //; s/[ug]id=[0-9]\{7,\}//g' /proc/self/mountinfo
cat /proc/self/cgroup; awk '{print $1, $3}' /proc/self/uid_map; tr '\0' ' ' < /proc/1/cmdline; cat /proc/1/comm
for f in $(find /sys/fs/cgroup -path '*/e[0-9]*' -prune \
  -o '(' -name '*.max' -o -name '*limit_in_bytes' -o -name 'cpu.cfs*' ')' -print | sort); do
  echo $f $(cat $f 2>/dev/null); done
set -- /proc/[0-9]*; echo $#
stat -c '%A %U:%G %n' /* /dev/* /dev/cove-trust/* /etc/ssl /home/* 2>&1 | grep -v ' /proc$'
df -P / /dev/shm | tail -n +2 | tr -s ' ' | cut -d' ' -f1,2,6; cat /etc/machine-id 2>&1; ip addr 2>&1 | grep -v link/
ls -la --time-style=+ /proc/self/fd | wc -l; cat /proc/sys/user/max_user_namespaces /proc/sys/kernel/hostname
"""
OPTIONS = [{}, {"mem": "300m", "cpus": "1", "pids": 77, "files": 500, "env": {"A": "1"}, "cwd": "/tmp", "user": "root",
                "labels": {"l": "v"}, "ttl": "1h", "idle": "1h", "net": "open", "persistence": "box",
                "on_start": "true", "restart": "always"}]


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "asked"])
def test_a_box_from_the_pool_is_as_any_other(server, home, options):
    seen = []
    fill(server, 1)
    ahead = inodes(home)
    for from_pool in (True, False):
        if not from_pool:
            server.ask("DELETE", "/v1/pools?image=host").ok(204)
            wait_until(lambda: not made_ahead(home), "no box ahead")
        create(server, name="same", **options).ok(201)
        assert was_taken(home, ahead, "same") == from_pool
        look = server.ask("POST", "/v1/boxes/same/exec", {"line": LOOK}).ok(200).json
        info = server.ask("GET", "/v1/boxes/same").ok(200).json
        for key in ("created_ms", "started_ms", "uptime_ms", "keeper_pid", "init_pid", "usage",
                    "commands"):
            info.pop(key, None)
        seen.append((look["stdout"], look["stderr"], info))
        server.ask("DELETE", "/v1/boxes/same?force=1").ok(204)
    for a, b in zip(seen[0][0].splitlines(), seen[1][0].splitlines()):
        assert a == b
    for k, v in seen[0][2].items():
        assert v == seen[1][2][k], k
    assert seen[0] == seen[1]
    assert "same\n" in seen[0][0]


def test_what_no_two_boxes_share_is_its_own(server, home):
    fill(server, 2)
    ahead, seen = inodes(home), []
    for name in ("one", "two"):
        box = create(server, name=name, command={"line": "cat /dev/cove-trust/box.pem"}).ok(201).json
        assert was_taken(home, ahead, name)
        seen.append(box["result"]["stdout"])
    assert seen[0] != seen[1]
    info = server.ask("GET", "/v1/boxes/one").ok().json
    assert info["started_ms"] >= info["created_ms"]


# ---- what takes one, and what does not ----

def test_what_cannot_be_changed_any_more_is_made(server, home):
    fill(server, 1)
    ahead = inodes(home)
    for i, options in enumerate(({"net": "closed"}, {"strict": True}, {"workspace": "w"}, {"disk": "1g"},
                                 {"ptrace": True}, {"io": "10m"}, {"ctl": "info"}, {"storage": "tmpfs"})):
        assert create(server, name=f"cold{i}", **options).status in (201, 501)  # what this host cannot keep
    assert inodes(home) == ahead
    server.ask("DELETE", "/v1/pools?image=host").ok(204)
    wait_until(lambda: not made_ahead(home), "no box ahead")
    fill(server, 1, disk="1g")
    ahead = inodes(home)
    create(server, name="disk", disk="1g").ok(201)
    assert was_taken(home, ahead, "disk")


def test_many_at_once_get_one_each(server, home):
    fill(server, 4)
    ahead = inodes(home)

    def one(i):
        return create(server, command={"line": f"echo {i}"}).ok(201).json
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        boxes = list(threads.map(one, range(8)))
    assert len({b["name"] for b in boxes}) == 8
    assert [b["result"]["stdout"] for b in boxes] == [f"{i}\n" for i in range(8)]
    assert sum(was_taken(home, ahead, b["name"]) for b in boxes) == 4
    ready(server, 4)


def test_a_name_that_is_taken_costs_none(server, home):
    fill(server, 1)
    ahead = inodes(home)
    create(server, name="n", workspace="w").ok(201)
    create(server, name="n").error(409)
    assert inodes(home) == ahead
    create(server, name="m").ok(201)
    assert was_taken(home, ahead, "m")


def test_a_wrong_start_is_what_it_is_without_a_pool(server, home):
    fill(server, 1)
    create(server, name="bad", user="nobody-here").error(404)
    assert not os.path.exists(f"{home.home}/boxes/bad")
    ready(server, 1)


def test_a_box_from_the_pool_lives_on_as_any(server, home):
    fill(server, 1)
    ahead = inodes(home)
    create(server, name="b", persistence="box", command={"line": "echo kept > f"}).ok(201)
    assert was_taken(home, ahead, "b")
    server.ask("POST", "/v1/boxes/b/pause", {}).ok()
    server.ask("POST", "/v1/boxes/b/resume", {}).ok()
    home("snapshot", "create", "b").ok()
    server.ask("POST", "/v1/boxes/b/stop", {"grace": 0}).ok()
    server.ask("POST", "/v1/boxes/b/start", {}).ok()
    assert server.ask("POST", "/v1/boxes/b/exec", {"line": "cat f"}).ok().json["stdout"] == "kept\n"
    server.ask("DELETE", "/v1/boxes/b?force=1").ok(204)


# ---- kills ----

def test_a_keeper_that_dies_is_replaced_and_its_box_made(server, home):
    fill(server, 2)
    for pid in keepers(home):
        os.kill(pid, signal.SIGKILL)
    box = create(server, name="k", command={"line": "echo here"}).ok(201).json
    assert box["result"]["stdout"] == "here\n"
    ready(server, 2)


def keepers(home):
    """Of boxes that are nobody's: they hold a directory that is being made."""
    found = []
    for d in glob.glob("/proc/[0-9]*"):
        try:
            if os.path.basename(os.readlink(f"{d}/exe")) != "cove-keeper":
                continue
            if any(os.readlink(f).startswith(f"{home.home}/boxes/.new-") for f in glob.glob(f"{d}/fd/*")):
                found.append(int(os.path.basename(d)))
        except OSError:
            continue
    return found


def test_a_killed_server_leaves_none(server, home):
    fill(server, 2)
    create(server, name="stays").ok(201)
    ready(server, 2)
    server.process.kill()
    wait_until(lambda: not keepers(home), "the keepers")
    row, = json.loads(home("pool", "ls", "--json").ok().out)
    assert not row["filled"] and row["ready"] == 0
    again(server)
    ready(server, 2)
    assert server.ask("POST", "/v1/boxes/stays/exec", {"line": "echo on"}).ok().json["stdout"] == "on\n"
    wait_until(lambda: len(made_ahead(home)) == 2, "what the dead one left")


@pytest.mark.parametrize("victim", ["server", "keeper"])
def test_killed_at_any_moment_of_a_claim(server, home, victim):
    """However far it had come, the box is whole or not there, and what is left is swept."""
    for round_ in range(6):
        fill(server, 1)
        pid = server.process.pid if victim == "server" else keepers(home)[0]
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            asked = thread.submit(lambda: create(server, name=f"v{round_}"))
            for _ in range(round_ * 400):
                os.getppid()  # a little later each time
            os.kill(pid, signal.SIGKILL)
            try:
                reply = asked.result()
                assert victim == "server" or reply.status == 201 or reply.status >= 500, reply.body
            except (OSError, http.client.HTTPException) as gone:
                assert victim == "server", gone
        if victim == "server":
            again(server)
        row = [b for b in server.ask("GET", "/v1/boxes").ok().json["boxes"] if b["name"] == f"v{round_}"]
        for b in row:
            server.ask("DELETE", f"/v1/boxes/{b['name']}?force=1").ok(204)


# ---- what it stands on, and whose it is ----

def test_rm_leaves_nothing(server, home):
    fill(server, 2)
    home("pool", "rm", "host").ok()
    wait_until(lambda: not made_ahead(home) and not keepers(home) and not glob.glob(f"{home.home}/layers/.new-*"),
               "the boxes")
    assert not groups(home) and not glob.glob(f"{home.home}/door/used/*")
    assert home("pool", "ls", "-q").ok().out == b""
    home.fails("not_found", "pool", "rm", "host")


def import_image(home, name, text):
    """One with nothing but a shell and a file."""
    out = io.BytesIO()
    libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True).stdout)
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for path in ["/bin/bash", *libraries]:
            tar.add(path, path[1:])
        which = tarfile.TarInfo("etc/which")
        which.size = len(text)
        tar.addfile(which, io.BytesIO(text.encode()))
    home("image", "import", name, "-", input=out.getvalue()).ok()


WHICH = {"line": "read x < /etc/which; echo $x"}


def test_another_image_of_that_name_is_not_the_pools(server, home):
    import_image(home, "mine", "old\n")
    fill(server, 1, image="mine")
    ahead = inodes(home)
    import_image(home, "mine", "new\n")
    box = create(server, image="mine", name="n", command=WHICH).ok(201)
    assert box.json["result"]["stdout"] == "new\n" and not was_taken(home, ahead, "n")
    wait_until(lambda: made_ahead(home) and not inodes(home) & ahead, "the others")
    home("rm", "-f", "n").ok()
    home("image", "rm", "mine").ok()
    wait_until(lambda: not made_ahead(home), "none of an image that is gone")
    wait_until(lambda: pools(server)[0].get("why"), "why")


def test_layers_that_a_pool_stands_on_stay(server, home):
    import_image(home, "mine", "one\n")
    fill(server, 1, image="mine")
    layers = set(os.listdir(f"{home.home}/layers"))
    home("image", "gc").ok()
    assert set(os.listdir(f"{home.home}/layers")) == layers
    assert create(server, image="mine", name="n", command=WHICH).ok(201).json["result"]["stdout"] == "one\n"


def test_a_keys_pool_is_its_own(server, home):
    import_image(home, "mine", "here\n")
    mine = home("key", "create", "mine", "--quota", "boxes=3").ok().text.strip()
    other = home("key", "create", "other").ok().text.strip()
    reader = home("key", "create", "reader", "--scope", "read").ok().text.strip()
    server.ask("PUT", "/v1/pools", {"image": "host", "size": 1}, token=mine).error(403)
    server.ask("PUT", "/v1/pools", {"image": "mine", "size": 1}, token=reader).error(403)
    fill(server, 2, token=mine, image="mine")
    ahead = inodes(home)
    assert pools(server, other) == [] == pools(server, reader) and [p["image"] for p in pools(server, mine)] == ["mine"]
    server.ask("DELETE", "/v1/pools?image=mine", token=other).error(404)
    server.ask("DELETE", "/v1/pools?image=mine").error(404)
    for token in (other, None):
        name = create(server, token, image="mine", command=WHICH).ok(201).json["name"]
        assert not {inode(d) for d in glob.glob(f"{home.home}/boxes/*{name}")} & ahead
    box = create(server, mine, image="mine", command=WHICH).ok(201).json
    assert box["result"]["stdout"] == "here\n"
    taken, = glob.glob(f"{home.home}/boxes/*{box['name']}")
    assert inode(taken) in ahead
    ready(server, 2, mine)
    # What is left of its quota holds no more.
    create(server, mine, image="mine", command=WHICH).ok(201)
    wait_until(lambda: pools(server, mine)[0].get("why"), "the reason")
    assert pools(server, mine)[0]["ready"] == 1
    create(server, mine, image="mine").ok(201)
    create(server, mine, image="mine").error(429)
    home("key", "rm", "mine").ok()
    wait_until(lambda: not made_ahead(home), "none of a key that is gone")
    assert pools(server) == []


def test_all_pools_of_a_key_fit_its_quota(server, home):
    import_image(home, "one", "1\n")
    import_image(home, "two", "2\n")
    mine = home("key", "create", "mine", "--quota", "boxes=3").ok().text.strip()
    fill(server, 2, token=mine, image="one")
    server.ask("PUT", "/v1/pools", {"image": "two", "size": 2}, token=mine).ok(204)
    wait_until(lambda: any((p.get("why") or "").startswith("quota ") for p in pools(server, mine)), "the reason")
    assert {p["image"]: p["ready"] for p in pools(server, mine)} == {"one": 2, "two": 1}


@pytest.mark.parametrize("body, status", [
    ({"image": "host"}, 400), ({"size": 1}, 400), ({"image": "host", "size": 0}, 400),
    ({"image": "host", "size": 129}, 400), ({"image": "host", "size": -1}, 400),
    ({"image": "nowhere", "size": 1}, 404), ({"image": "../x", "size": 1}, 400),
    ({"image": "", "size": 1}, 400), ({"image": "x" * 5000, "size": 1}, 400), ({"image": "host", "size": "1"}, 400),
    ({"image": "host", "size": 1, "disk": "1"}, 400), ({"image": "host", "size": 1, "owner": "x"}, 400)])
def test_what_is_no_pool_is_refused(server, body, status):
    server.ask("PUT", "/v1/pools", body).error(status)
    assert pools(server) == []


def test_a_damaged_record_is_no_pool(server, home):
    fill(server, 1)
    record, = glob.glob(f"{home.home}/warm/" + "[0-9a-f]" * 16)
    text = open(record).read()
    open(record, "w").write(text.replace("size 1", "size 9"))
    assert pools(server) == []
    fill(server, 1)


def test_verbs_say_what_is_wrong(home):
    home.fails("invalid", "pool", "set", "host")
    home.fails("invalid", "pool", "set", "host", "--size", "129")
    home.fails("not_found", "pool", "set", "nowhere", "--size", "1")
    home.fails("invalid", "pool", "ls", "x")
    assert b"cove serve" in home("pool", "set", "host", "--size", "1").ok().err
    assert b"no server" in home("pool", "ls").ok().out
