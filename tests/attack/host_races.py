"""A11, A12, A26: a directory and a link to a host directory change places as fast as a box can do it,
while the host's side works on paths through them.

The link leads to the canary directory by its host path. The box has a decoy at the very same path, so a
call that meets the link inside the box succeeds there; one that walked the path on the host would touch
the canary. Every race counts how often it met the one and the other: both must be more than 0.
"""
import os
import struct

from libcove import Box, Refused
from rig import Broke, case, end, need

ROUNDS = 40  # at most, until a race has met both states


class Race:
    """One box with a swapper in DIR, and the counts."""

    def __init__(self, rig, name, setup=""):
        self.rig, self.dir, self.canary = rig, f"/tmp/race-{name}", str(rig.canary.dir)
        self.name = rig.box("race")
        self.swaps, self.real, self.other = 0, 0, 0
        line = (f"rm -rf {self.dir}; mkdir -p {self.dir}/x {self.canary}/sub; cd {self.dir}; "
                f"ln -s {self.canary} y; printf real > x/which; printf link-is-longer > {self.canary}/which; "
                f"touch x/only-real {self.canary}/only-link; {setup}")
        result = rig.cove("exec", self.name, "--", "bash", "-c", line)
        need(result.rc == 0, repr(result))
        self.box = Box(rig, self.name)

    def run(self, operation, total):
        """Calls operation(box, path of x, number) while swaps go on; it returns True for the directory."""
        number = 0
        for _ in range(ROUNDS):
            swapper = self.rig.cove.start("exec", self.name, "--", "/attack/attack", "--swap", self.dir,
                                          max(total - self.swaps, 2000))
            while swapper.poll() is None:
                number += 1
                try:
                    met_real = operation(self.box, self.dir + "/x", number)
                except Refused:
                    met_real = False
                if met_real is not None:
                    self.real, self.other = self.real + met_real, self.other + (not met_real)
            out, err = swapper.communicate()
            need(out.split()[1:2] == [b"swaps"], f"the swapper ended: {out!r} {err!r}")
            self.swaps += int(out.split()[0])
            if touched := self.rig.canary.touched():
                raise Broke(f"{touched} (after {self.swaps} swaps)")
            if self.swaps >= total and self.real and self.other:
                break
        self.box.close()
        need(self.real and self.other, f"the window was not met: {self.real} directory, {self.other} link")
        return f"{self.swaps} swaps, {self.real} calls met the directory, {self.other} the link"


def count(rig):
    if rig.options.without:  # a control: long enough to be met for sure
        return 30_000
    return 2000 if rig.quick else 110_000


@case("A11_upload_race", "A11", "uploads through a parent that is swapped for a link never touch the host")
def upload(rig):
    race = Race(rig, "put")
    told = race.run(lambda box, x, n: box.put(f"{x}/up-{n % 64}", b"from the host") or None
                    if n % 2 else box.get(f"{x}/which") == b"real", count(rig))
    need(os.listdir(rig.canary.dir).count("up-1") == 0, "an upload is in the canary directory")
    return told


@case("A12_download_race", "A12", "downloads through a swapped parent never read the host's file")
def download(rig):
    def operation(box, x, n):
        got = box.get(f"{x}/which" if n % 2 else f"{x}/secret")
        need(rig.secret.encode() not in got, "the host's secret was downloaded")
        return got == b"real"
    return Race(rig, "get").run(operation, count(rig))


@case("A12_stat_race", "A12", "stat through a swapped parent never describes the host's file")
def stat_race(rig):
    size = rig.canary.file.stat().st_size

    def operation(box, x, n):
        if n % 4 == 0:
            need(box.stat(f"{x}/secret").size != size, "stat described the host's file")
        seen = box.stat(f"{x}/which").size
        need(seen in (4, 14), "stat saw another file")
        return seen == 4
    return Race(rig, "stat").run(operation, count(rig))


@case("A12_list_race", "A12", "a listing of a swapped directory never shows the host's")
def list_race(rig):
    def operation(box, x, n):
        names = box.list(f"{x}/.")
        need(b"secret" not in names, "the canary directory was listed")
        return b"only-real" in names
    return Race(rig, "list").run(operation, count(rig))


@case("A12_mkdir_race", "A12", "directories made through a swapped parent are never made on the host")
def mkdir_race(rig):
    def operation(box, x, n):
        if n % 2:
            box.mkdir(f"{x}/made-{n}")
            return None
        return box.stat(f"{x}/which").size == 4
    return Race(rig, "mkdir").run(operation, count(rig))


@case("A12_move_race", "A12", "renames through a swapped parent never move the host's files")
def move_race(rig):
    def operation(box, x, n):
        try:
            box.move(f"{x}/secret", f"{x}/moved")
        except Refused:
            pass
        a, b = ("a", "b") if n % 2 else ("b", "a")
        box.move(f"{x}/{a}", f"{x}/{b}")
        return True
    return Race(rig, "move", "touch x/a").run(operation, count(rig))


@case("A12_chmod_race", "A12", "chmod through a swapped parent never changes the host's files")
def chmod_race(rig):
    def operation(box, x, n):
        if n % 2:
            box.chmod(f"{x}/secret", 0o777)
        box.chmod(f"{x}/only-real", 0o600 + n % 8)
        return True
    return Race(rig, "chmod").run(operation, count(rig))


@case("A12_remove_race", "A12", "a recursive removal through a swapped parent never removes the host's files")
def remove_race(rig):
    def operation(box, x, n):
        for name in ("secret", "sub"):
            try:
                box.remove(f"{x}/{name}")
            except Refused:
                pass
        box.mkdir(f"{x}/gone-{n}")
        box.remove(f"{x}/gone-{n}")
        return box.stat(f"{x}/which").size == 4
    return Race(rig, "remove").run(operation, count(rig))


def counter(path):
    try:
        return struct.unpack("l", path.read_bytes()[:8])[0]
    except (OSError, struct.error):
        return 0


@case("A26_delete_race", "A26", "deleting a box whose tree is being swapped never leaves the tree")
def delete_race(rig):
    total, done, moving, rounds = count(rig), 0, 0, 0
    while done < total or not moving:
        rounds += 1
        need(rounds < 400, f"only {done} swaps in 400 deletions")
        shared = rig.shared / f"delete-{rounds}"
        shared.mkdir(mode=0o777)
        shared.chmod(0o777)
        storage = ("--storage", "plain") if rounds % 2 else ()
        box = rig.make("--mount", f"{shared}:/count", *storage, extra={"SWAP_COUNT": "/count/n"})
        rig.cove("exec", box, "--", "bash", "-c",
                 f"mkdir -p /tmp/r/x/sub; for i in {{1..50}}; do ln -s {rig.canary.dir} /tmp/r/x/l$i; "
                 f"ln -s {rig.canary.file} /tmp/r/x/sub/f$i; done; ln -s {rig.canary.dir} /tmp/r/y").ok()
        rig.cove("exec", "-d", box, "--", "/attack/attack", "--swap", "/tmp/r", "1000000").ok()
        while counter(shared / "n") < (200 if rig.quick else 4000):
            need(rig.cove("ps", "--json", box).json[-1]["state"] == "running", "the swapper ended")
        before = counter(shared / "n")
        rig.cove("rm", "-f", box).ok()
        swaps = counter(shared / "n")
        done, moving = done + swaps, moving + (swaps > before)
        if touched := rig.canary.touched():
            raise Broke(f"{touched} (deletion {rounds})")
    return f"{done} swaps, {rounds} deletions, {moving} of them began while the tree still moved"


@case("A11_mount_preparation_race", "A11",
      "a mount from within a workspace that another box swaps never shows the host's directory")
def mount_race(rig):
    work = rig.shared / "mounts"
    (work / "m/x").mkdir(parents=True)
    os.symlink(rig.canary.dir, work / "m/y")
    for path in (work, work / "m", work / "m/x"):
        path.chmod(0o777)
    box = rig.make("--workspace", f"{work}/")
    real = other = swaps = 0
    total = count(rig)
    for _ in range(ROUNDS):
        swapper = rig.cove.start("exec", box, "--", "/attack/attack", "--swap", "/workspace/m",
                                 max(total - swaps, 60000 if rig.quick else 100000))
        while swapper.poll() is None:
            got = rig.cove("run", "--workspace", f"{work}/", "--mount", "m/x:/prepared", *rig.flags(), "--",
                           "/attack/attack", "--peek", "/prepared/secret")
            if b"BROKE" in got.out:
                end(swapper)
                raise Broke("the box saw the host's directory")
            real, other = real + (got.rc == 0), other + (got.rc != 0)
        swaps += int(swapper.communicate()[0].split()[0])
        if swaps >= total and real and other:
            break
    rig.cove("rm", "-f", box).ok()
    need(real and other, f"the window was not met: {real} boxes started, {other} were refused")
    return f"{swaps} swaps, {real} boxes got the directory, {other} were refused"


@case("A26_delete_planted_links", "A26", "links planted everywhere in a tree are removed, never followed")
def planted(rig):
    users = ((), ("-u", "root")) if rig.root_inside() else ((),)
    # The keeper of a running box removes it, from behind its own walls; whoever calls removes a stopped one.
    for user, storage, first in [(u, s, f) for u in users for s in ((), ("--storage", "plain")) for f in ("", "stop")]:
        box = rig.make(*storage)
        rig.cove("exec", *user, box, "--", "bash", "-c",
                 f"mkdir -p /tmp/p/q && cd /tmp/p && ln -s {rig.canary.dir} d; ln -s {rig.canary.file} f; "
                 f"ln -s / root; ln -s .. up; ln -s ../../../../../../../.. far; ln -s loop loop; "
                 f"ln -s {rig.canary.dir}/sub q/sub; chmod 000 q").ok()
        if first:
            rig.cove("stop", "--grace", "0", box).ok()
        rig.cove("rm", "-f", box).ok()
        need(box not in rig.cove("ls", "-q").text, "the box is still listed")


@case("A26_delete_hostile_names_and_depth", "A26",
      "deep trees, directories without permissions and odd names are deleted whole")
def hostile_names(rig):
    box = rig.make()
    rig.cove("exec", box, "--", "bash", "-c",
             "/attack/attack --deep /tmp/deep 1000; cd /tmp; mkdir $'new\\nline' $'\\xff\\xfe' -- -rf; "
             "mkdir -p no/perm/inside; chmod 000 no/perm no; "
             "touch \"$(printf '%255s' x)\"").ok()
    rig.cove("rm", "-f", box).ok()
    left = [n for n in os.listdir(rig.cove.home + "/boxes") if n.startswith(box)]
    need(not left, f"left behind: {left}")


@case("A26_delete_workspace_links", "A26", "removing a named workspace follows no link in it")
def workspace_links(rig):
    box = rig.make("--workspace", "attack-ws")
    rig.cove("exec", box, "--", "bash", "-c",
             f"cd /workspace && ln -s {rig.canary.dir} d && mkdir s && ln -s {rig.canary.file} s/f").ok()
    rig.cove("rm", "-f", box).ok()
    rig.cove("workspace", "rm", "attack-ws").ok()


@case("A26_overlay_xattrs_after_restart", "A26",
      "user.overlay.* attributes written into the tree redirect nothing when the box starts again")
def overlay_restart(rig):
    box = rig.make()
    rig.cove("exec", box, "--", "bash", "-c",
             "mkdir -p ~/o /tmp/o; for d in ~/o /tmp/o; do setfattr -n user.overlay.redirect -v ../../../../etc $d; "
             "setfattr -n user.overlay.opaque -v y $d; setfattr -n user.overlay.metacopy -v y $d; done; true")
    rig.cove("stop", "--grace", "0", box).ok()
    rig.cove("start", box).ok()
    got = rig.cove("exec", box, "--", "bash", "-c", "ls ~/o /tmp/o")
    rig.cove("rm", "-f", box).ok()
    need(b"passwd" not in got.out, f"redirected: {got.text}")
