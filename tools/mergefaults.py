"""Merges, killed or starved at every write: for tools/faults, part `merge`.

back: what a box changed on its copy of a host directory comes back to it. fork: what a fork changed, also in its named
workspace, comes to its box.
Whatever happened, saying it again (for a fork: starting the box, then saying it again) makes it whole, nothing is left
beside it, and the store verifies.
"""
import os
import pathlib
import shutil

import storefaults

CHANGE = "echo 2 >> a; rm -r d; mkdir n; echo n > n/f; ln -s n/f l"
BEFORE = {"a": "1\n", "d": "dir", "d/x": "1\n"}
AFTER = {"a": "1\n2\n", "n": "dir", "n/f": "n\n", "l": "link n/f"}


def tree(top):
    """Every path with its kind and content."""
    seen = {}
    for path in sorted(pathlib.Path(top).rglob("*")):
        what = "link " + os.readlink(path) if path.is_symlink() else "dir" if path.is_dir() else path.read_text()
        seen[str(path.relative_to(top))] = what
    return seen


def fill(top):
    shutil.rmtree(top, ignore_errors=True)
    (top / "d").mkdir(parents=True)
    (top / "a").write_text("1\n")
    (top / "d/x").write_text("1\n")


class Back:
    title, args = "merge back", ["merge", "box"]

    def __init__(self, rig, broken):
        self.rig, self.broken, self.dir = rig, broken, rig.base / "dir"

    def prepare(self):
        self.rig.cove("rm", "-f", "box", check=True)
        fill(self.dir)
        self.rig.cove("create", "--image", "host", "--name", "box", "--workspace", str(self.dir), "--copy", check=True)
        self.rig.cove("exec", "box", "--", "sh", "-c", CHANGE, check=True)
        self.rig.cove("stop", "box", check=True)

    def remove(self):
        self.rig.cove("rm", "-f", "box", check=True)

    def again(self):
        self.rig.cove("merge", "box", check=True)
        if tree(self.dir) != AFTER:
            raise self.broken(f"not whole: {tree(self.dir)}")


class Fork:
    title, args = "merge a fork", ["merge", "fork", "box"]
    SHOW = "for top in /tmp/p /workspace; do cd $top && for f in $(find . | sort); do echo $f; " \
           "test -f $f -a ! -L $f && cat $f; done; done; true"
    FILL = "for top in /tmp/p /workspace; do mkdir -p $top/d; cd $top; echo 1 > a; echo 1 > d/x; done"

    def __init__(self, rig, broken):
        self.rig, self.broken = rig, broken

    def prepare(self):
        self.remove()
        self.rig.cove("create", "--image", "host", "--name", "box", "--workspace", "work", check=True)
        self.rig.cove("exec", "box", "--", "sh", "-c", self.FILL, check=True)
        self.rig.cove("stop", "box", check=True)
        self.rig.cove("fork", "box", "--name", "fork", check=True)
        self.rig.cove("exec", "fork", "--", "sh", "-c", f"cd /tmp/p; {CHANGE}; cd /workspace; {CHANGE}", check=True)
        self.rig.cove("stop", "fork", check=True)

    def remove(self):
        self.rig.cove("rm", "-f", "fork", "box", check=True)
        works = self.rig.cove("workspace", "ls", "-q", check=True).stdout.decode().split()
        if works:
            self.rig.cove("workspace", "rm", *works, check=True)

    def look(self):
        self.rig.cove("start", "box", check=True)
        got = self.rig.cove("exec", "box", "--", "sh", "-c", self.SHOW, check=True).stdout.decode()
        self.rig.cove("stop", "box", check=True)
        return got

    def again(self):
        before, after = 2 * ".\n./a\n1\n./d\n./d/x\n1\n", 2 * ".\n./a\n1\n2\n./l\n./n\n./n/f\nn\n"
        got = self.look()
        if got not in (before, after):
            raise self.broken(f"neither whole nor absent: {got!r}")
        self.rig.cove("merge", "fork", "box", check=True)
        if self.look() != after:
            raise self.broken("saying it again does not finish it")


def run(rig, report, quick, tools):
    """tools: Broken, every, moments and the counting of a Target, of tools/faults."""
    for case in (Back(rig, tools.Broken), Fork(rig, tools.Broken)):
        target = storefaults.Traced(rig, tools.count)

        def act(wrap, _env):
            case.prepare()
            done = rig.cove(*case.args, wrap=wrap)
            noticed = done.returncode != 0 or "(INJECTED)" in target.log.read_text(errors="replace")
            case.again()
            return noticed

        case.prepare()
        wrap, _ = target.arrange()
        rig.cove(*case.args, wrap=wrap, check=True)
        counts = target.count()
        case.again()
        for inject in ("signal=SIGKILL", "error=ENOSPC", "error=EIO"):
            todo = tools.moments(counts, names=[c for c in storefaults.CALLS if c != "flock"])
            tried, problems = tools.every(rig, target, todo, act, inject, quick)
            report.case(f"{case.title}, {inject.split('=')[1]}", f"at {tried} writes", problems)
        case.remove()
        shutil.rmtree(rig.base / "dir", ignore_errors=True)
