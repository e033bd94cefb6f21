"""Snapshots, rollback, forks and saving, killed or starved at every write: for tools/faults, part `snapshots`.

Of snapshots: taking one (also where the layers below have become many and are made one), removing, tagging, what the
rules remove, and one that comes as a file.
Whatever happened: the box runs commands, a snapshot that is listed is whole, a rollback happened or did not (the next
start finishes one that had begun), `cove system verify` finds no damage, and saying it again finishes it.
"""
import json
import os
import pathlib
import sys

from storefaults import CALLS, Traced, injections

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))

BOX, SNAPSHOT, FORK, IMAGE = "snap", "kept", "forked", "saved"
DEEP, SMALL, OLDER, TAG = "deep", "small", "older", "good"
CHAIN_MAX = 16  # layers of snapshots above an image
FILL = "cd; mkdir -p d; for i in 1 2 3 4 5; do echo $i > d/$i; done; ln -f d/1 d/one; ln -sf d l; echo {} > a; " \
       "cd /workspace; echo {} > w; mkdir -p e; echo x > e/x"


class Alone(Traced):
    """Only the command line: the keeper that it starts lives on."""

    def arrange(self, *options):
        return ["strace", "-qq", "-o", str(self.log), *options], {}


class Snapshots:
    def __init__(self, rig, broken):
        self.rig, self.broken = rig, broken
        rig.cove("create", "--image", "host", "--name", BOX, "--workspace", BOX + "-w", check=True)
        self.fill("one")

    def sh(self, box, line):
        done = self.rig.cove("exec", box, "--", "sh", "-c", line)
        if done.returncode != 0:
            raise self.broken(f"exec in {box}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode()

    def fill(self, word):
        self.sh(BOX, FILL.format(word, word))

    def state(self, box):
        return self.sh(box, "cat ~/a ~/d/* /workspace/w /workspace/e/x; readlink ~/l; stat -c %h ~/d/1")

    def whole(self, word):
        return f"{word}\n1\n2\n3\n4\n5\n1\n{word}\nx\nd\n2\n"

    def check(self, box, *words):
        found = self.state(box)
        if found not in [self.whole(word) for word in words]:
            raise self.broken(f"box {box} holds {found!r}")

    def verify(self):
        done = self.rig.cove("system", "verify")
        if done.returncode != 0:
            raise self.broken(f"verify: {(done.stdout + done.stderr).decode(errors='replace').strip()}")

    def forget(self):
        self.rig.cove("rm", "-f", FORK, check=True)
        self.rig.cove("workspace", "rm", FORK)
        for name in (SNAPSHOT, OLDER):
            self.rig.cove("snapshot", "rm", name)
        self.rig.cove("image", "rm", IMAGE)

    def is_there(self, name):
        return self.rig.cove("snapshot", "inspect", name).returncode == 0

    def layers(self):
        return {p.name for p in (self.rig.home / "layers").iterdir()}

    def check_fork(self, word):
        """What is listed is whole."""
        if self.is_there(SNAPSHOT):
            self.rig.cove("rm", "-f", FORK, check=True)
            self.rig.cove("workspace", "rm", FORK)
            self.rig.cove("fork", SNAPSHOT, "--name", FORK, check=True)
            self.check(FORK, word)

    # ---- operations ----

    def running(self):
        self.forget()
        self.rig.cove("start", BOX, check=True)

    def stopped(self):
        self.forget()
        self.rig.cove("stop", BOX, check=True)

    def create_again(self):
        self.rig.cove("start", BOX, check=True)
        self.check(BOX, "one")
        self.check_fork("one")
        self.forget()
        self.rig.cove("snapshot", "create", BOX, SNAPSHOT, check=True)
        self.check_fork("one")

    def rollback_prepare(self):
        self.running()
        self.fill("one")
        self.rig.cove("snapshot", "create", BOX, SNAPSHOT, check=True)
        self.fill("two")
        self.rig.cove("stop", BOX, check=True)

    def rollback_again(self):
        self.rig.cove("start", BOX, check=True)
        self.check(BOX, "one", "two")
        self.rig.cove("rollback", BOX, SNAPSHOT, check=True)
        self.check(BOX, "one")

    def fork_prepare(self):
        self.running()
        self.rig.cove("snapshot", "create", BOX, SNAPSHOT, check=True)

    def fork_again(self):
        """A fork that never ran is in nobody's way: what was made for it goes with its record, or was never there."""
        self.check(BOX, "one")
        found = self.rig.cove("inspect", FORK)
        if found.returncode != 0 or json.loads(found.stdout)["state"] == "created":
            self.rig.cove("rm", "-f", FORK, check=True)
            left = [name for name in os.listdir(self.rig.home / "workspaces") if name.startswith(FORK)]
            if FORK in left:
                raise self.broken(f"a fork that never ran left {left}")
            self.rig.cove("fork", SNAPSHOT, "--name", FORK, check=True)
            self.check(FORK, "one")
        self.check_fork("one")

    # ---- of one that is there ----

    def kept(self):
        """Nothing but the box, then one snapshot of it."""
        self.running()
        self.rig.cove("image", "gc", check=True)
        self.before = self.layers()
        self.rig.cove("snapshot", "create", BOX, SNAPSHOT, check=True)

    def rm_again(self):
        self.check(BOX, "one")
        self.check_fork("one")
        self.forget()
        if self.is_there(SNAPSHOT):
            raise self.broken("it cannot be removed any more")
        self.rig.cove("image", "gc", check=True)
        if self.layers() != self.before:
            raise self.broken(f"left, or missing: {self.layers() ^ self.before}")

    def tag_again(self):
        self.check_fork("one")
        for _ in range(2):
            self.rig.cove("snapshot", "tag", SNAPSHOT, TAG, check=True)
            said = self.rig.cove("snapshot", "inspect", TAG, "--json", check=True).stdout
            if json.loads(said)["name"] != SNAPSHOT:
                raise self.broken(f"the tag is of another one: {said!r}")

    def prune_prepare(self):
        self.running()
        self.rig.cove("snapshot", "rule", BOX, "--none", check=True)
        for name in (OLDER, SNAPSHOT):
            self.rig.cove("snapshot", "create", BOX, name, check=True)
        self.rig.cove("snapshot", "rule", BOX, "--keep", "1", check=True)

    def prune_again(self):
        if not self.is_there(SNAPSHOT):
            raise self.broken("the newest is gone")
        self.check_fork("one")
        self.rig.cove("snapshot", "prune", check=True)
        if self.is_there(OLDER) or not self.is_there(SNAPSHOT):
            raise self.broken("not the newest alone stays")
        self.rig.cove("snapshot", "rule", BOX, "--none", check=True)

    # ---- one that comes as a file ----

    def import_prepare(self):
        file = self.rig.base / "snapshot"
        if not file.exists():
            self.kept()
            self.rig.cove("snapshot", "export", SNAPSHOT, str(file), check=True)
        self.forget()

    def import_again(self):
        self.check_fork("one")
        self.forget()
        self.rig.cove("snapshot", "import", str(self.rig.base / "snapshot"), check=True)
        self.check_fork("one")

    # ---- many layers become one ----

    def grow_deep(self):
        """A box that stands on so many layers of snapshots that the next makes them one."""
        last = BOX
        self.rig.cove("start", BOX, check=True)
        for i in range(CHAIN_MAX):
            self.sh(last, f"echo {i} > ~/n{i}; rm -f ~/n{i - 1}")
            name = DEEP if i == CHAIN_MAX - 1 else f"deep-{i}"
            self.rig.cove("fork", last, "--name", name, check=True)
            last = name
        self.rig.cove("rm", "-f", *(f"deep-{i}" for i in range(CHAIN_MAX - 1)), check=True)
        self.rig.cove("workspace", "rm", *(f"deep-{i}" for i in range(CHAIN_MAX - 1)), check=True)
        self.rig.cove("stop", DEEP, check=True)

    def deep_prepare(self):
        self.forget()
        if DEEP not in self.rig.cove("ls", "-q", check=True).stdout.decode().split():
            self.grow_deep()

    def deep_again(self):
        self.check_fork("one")
        self.forget()
        self.rig.cove("snapshot", "create", DEEP, SNAPSHOT, check=True)
        said = self.rig.cove("snapshot", "inspect", SNAPSHOT, "--json", check=True).stdout
        if len(json.loads(said)["layers"]) >= CHAIN_MAX:
            raise self.broken("its layers were not made one")
        self.check_fork("one")
        if self.sh(FORK, "cd; echo n*") != f"n{CHAIN_MAX - 1}\n":
            raise self.broken("made one, they are something else")

    # ---- saving ----

    def save_prepare(self):
        import image_kit as kit
        self.forget()
        if SMALL in self.rig.cove("ls", "-q", check=True).stdout.decode().split():
            return
        path = self.rig.base / "small.tar"
        path.write_bytes(kit.tar(*kit.tiny_root()))
        self.rig.cove("image", "import", SMALL, str(path), check=True)
        self.rig.cove("create", "--image", SMALL, "--name", SMALL, "--net", "none", check=True)
        self.small(["exec", "-u", "root", SMALL], "echo one > /made")

    def small(self, words, line):
        return self.rig.cove(*words, "--", "/bin/sh", "-c", line, check=True).stdout

    def check_saved(self):
        if self.small(["run", "--image", IMAGE, "--net", "none"], "read a < /made; echo $a") != b"one\n":
            raise self.broken("what was saved is not whole")

    def save_again(self):
        if self.small(["exec", SMALL], "read a < /made; echo $a") != b"one\n":
            raise self.broken("the box is not what it was")
        if self.rig.cove("image", "inspect", IMAGE).returncode == 0:
            self.check_saved()
        self.rig.cove("image", "rm", IMAGE)
        self.rig.cove("image", "save", SMALL, IMAGE, check=True)
        self.check_saved()

    def done(self):
        self.forget()
        self.rig.cove("rm", "-f", BOX, DEEP, SMALL, check=True)
        self.rig.cove("workspace", "rm", BOX + "-w")
        self.rig.cove("workspace", "rm", DEEP)
        self.rig.cove("image", "rm", SMALL)

    def operations(self):
        return [
            ("snapshot rm", self.kept, ["snapshot", "rm", SNAPSHOT], self.rm_again, Traced),
            ("snapshot tag", self.kept, ["snapshot", "tag", SNAPSHOT, TAG], self.tag_again, Traced),
            ("snapshot prune", self.prune_prepare, ["snapshot", "prune"], self.prune_again, Traced),
            ("snapshot import", self.import_prepare, ["snapshot", "import", str(self.rig.base / "snapshot")],
             self.import_again, Traced),
            ("snapshot above many layers", self.deep_prepare, ["snapshot", "create", DEEP, SNAPSHOT], self.deep_again,
             Traced),
            ("image save", self.save_prepare, ["image", "save", SMALL, IMAGE], self.save_again, Traced),
            ("snapshot, running", self.running, ["snapshot", "create", BOX, SNAPSHOT], self.create_again,
             Traced),
            ("snapshot, stopped", self.stopped, ["snapshot", "create", BOX, SNAPSHOT], self.create_again, Traced),
            ("rollback", self.rollback_prepare, ["rollback", BOX, SNAPSHOT], self.rollback_again, Traced),
            ("fork", self.fork_prepare, ["fork", SNAPSHOT, "--name", FORK], self.fork_again, Alone),
        ]


def run(rig, report, quick, tools):
    """tools: Broken, every, moments and the counting of a Target, of tools/faults."""
    store = Snapshots(rig, tools.Broken)
    for row, (title, prepare, args, again, traced) in enumerate(store.operations()):
        target = traced(rig, tools.count)

        def act(wrap, _env):
            prepare()
            done = rig.cove(*args, wrap=wrap)
            noticed = done.returncode != 0 or "(INJECTED)" in target.log.read_text(errors="replace")
            again()
            store.verify()
            return noticed

        prepare()
        wrap, _ = target.arrange()
        rig.cove(*args, wrap=wrap, check=True)
        counts = target.count()
        again()
        for inject in injections(row, quick):
            names = CALLS if "signal" in inject else [c for c in CALLS if c != "flock"]
            todo = tools.moments(counts, names=names)
            tried, problems = tools.every(rig, target, todo, act, inject, quick)
            report.case(f"{title}, {inject.split('=')[1]}", f"at {tried} writes", problems)
    store.done()
