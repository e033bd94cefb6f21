"""Snapshots, rollback, forks and saving, killed or starved at every write: for tools/faults, part `snapshots`.

Whatever happened: the box runs commands, a snapshot that is listed is whole, a rollback happened or did not (the next
start finishes one that had begun), `cove system verify` finds no damage, and saying it again finishes it.
"""
import json
import os

from storefaults import CALLS, Traced

BOX, SNAPSHOT, FORK, IMAGE = "snap", "kept", "forked", "saved"
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
        self.rig.cove("snapshot", "rm", SNAPSHOT)
        self.rig.cove("image", "rm", IMAGE)

    def check_fork(self, word):
        """What is listed is whole."""
        if self.rig.cove("snapshot", "inspect", SNAPSHOT).returncode == 0:
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

    def operations(self):
        return [
            ("snapshot, running", self.running, ["snapshot", "create", BOX, SNAPSHOT], self.create_again,
             Traced),
            ("snapshot, stopped", self.stopped, ["snapshot", "create", BOX, SNAPSHOT], self.create_again, Traced),
            ("rollback", self.rollback_prepare, ["rollback", BOX, SNAPSHOT], self.rollback_again, Traced),
            ("fork", self.fork_prepare, ["fork", SNAPSHOT, "--name", FORK], self.fork_again, Alone),
        ]


def run(rig, report, quick, tools):
    """tools: Broken, every, moments and the counting of a Target, of tools/faults."""
    store = Snapshots(rig, tools.Broken)
    for title, prepare, args, again, traced in store.operations():
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
        for inject in ("signal=SIGKILL", "error=ENOSPC", "error=EIO"):
            names = CALLS if "signal" in inject else [c for c in CALLS if c != "flock"]
            todo = tools.moments(counts, names=names)
            tried, problems = tools.every(rig, target, todo, act, inject, quick)
            report.case(f"{title}, {inject.split('=')[1]}", f"at {tried} writes", problems)
    store.forget()
    rig.cove("rm", "-f", BOX, check=True)
    rig.cove("workspace", "rm", BOX + "-w", check=True)
