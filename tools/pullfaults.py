"""A pull, killed or starved at every write: for tools/faults, part `pull`.

The registry is one of tests/lib on loopback. Whatever happened: every blob that has a name is what its name says, the
image is there whole or not at all, `cove system verify --deep` finds no damage, and pulling once more finishes it with
nothing left beside.
"""
import hashlib
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))

CALLS = ["write", "pwrite64", "mkdirat", "openat", "renameat", "renameat2", "unlinkat", "fsync", "fdatasync", "syncfs",
         "ftruncate", "flock"]
ERRORS = ["write", "pwrite64", "mkdirat", "renameat", "renameat2", "fsync", "fdatasync", "syncfs", "ftruncate"]


class Traced:
    """The command line and all that it starts, as a target of tools/faults."""
    who = "pull"

    def __init__(self, rig, count):
        self.log, self.count_log = rig.base / "trace", count

    def arrange(self, *options):
        return ["strace", "-qq", "-f", "-o", str(self.log), *options], {}

    def count(self):
        return self.count_log(self)


class Pull:
    def __init__(self, rig, server, image, broken):
        self.rig, self.server, self.image, self.broken = rig, server, image, broken
        self.args = ["image", "pull", "-q", f"{server.host}/a", "--name", "pulled"]

    def prepare(self):
        self.rig.cove("image", "rm", "pulled")
        for name in ("blobs", "layers"):
            shutil.rmtree(self.rig.home / name, ignore_errors=True)

    def names(self):
        return [i["name"] for i in json.loads(self.rig.cove("image", "ls", "--json", check=True).stdout)]

    def verify(self):
        done = self.rig.cove("system", "verify", "--deep")
        if done.returncode != 0:
            raise self.broken(f"verify: {(done.stdout + done.stderr).decode(errors='replace').strip()}")

    def check(self, rc):
        if rc == 0 and "pulled" not in self.names():
            raise self.broken("it was acknowledged and there is no image")
        if rc > 0 and rc not in (125, 137, 141):
            raise self.broken(f"exit status {rc}")
        for path in (self.rig.home / "blobs").glob("[0-9a-f]*"):
            if hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
                raise self.broken(f"blobs/{path.name} is something else")
        self.verify()
        self.rig.cove(*self.args, check=True)
        self.verify()
        blobs = {p.name for p in (self.rig.home / "blobs").iterdir()}
        if blobs != {d[7:] for d in [*self.image.blobs, self.image.digest]}:
            raise self.broken(f"blobs/ has {sorted(blobs)}")
        left = [p.name for p in (self.rig.home / "layers").iterdir() if p.name.startswith((".new", ".gone"))]
        if left or "pulled" not in self.names():
            raise self.broken(f"left below layers/: {left}")


def run(rig, report, quick, tools):
    """tools: Broken, every, moments and the counting of a Target, of tools/faults."""
    import registry
    image = registry.Image([{"bin/a": b"a" * 70_000, "etc/b": b"b"}, {"etc/c": b"c"}])
    with registry.Scripted({("a", "latest"): image}) as server:
        pull, target = Pull(rig, server, image, tools.Broken), Traced(rig, tools.count)

        def act(wrap, _env):
            pull.prepare()
            done = rig.cove(*pull.args, wrap=wrap)
            noticed = done.returncode != 0 or "(INJECTED)" in target.log.read_text(errors="replace")
            pull.check(done.returncode)
            return noticed

        pull.prepare()
        rig.cove(*pull.args, wrap=target.arrange()[0], check=True)
        counts = target.count()
        pull.check(0)
        for inject, names in (("signal=SIGKILL", CALLS), ("error=ENOSPC", ERRORS), ("error=EIO", ERRORS)):
            todo = tools.moments(counts, names=names)
            tried, problems = tools.every(rig, target, todo, act, inject, quick)
            report.case(f"pull, {inject.split('=')[1]}", f"at {tried} calls", problems)
        pull.prepare()
