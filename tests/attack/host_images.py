"""A15, A20: archives of images and layers that boxes share. The archives are those of tests/data/archives."""
import gzip
import hashlib
import os
import pathlib
import sys

from image_kit import Layout, d, f, tar, tiny_root
from rig import DEADLINE, Cove, case, need, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "data/archives"))
import hostile  # noqa: E402


def own(rig, name):
    """A state directory that no other case uses at the same time."""
    return Cove(rig, rig.cove.prefix, str(rig.base / name))


def held(cove):
    """All names that an import could leave."""
    return {part: sorted(os.listdir(path)) for part in ("images", "layers", "blobs")
            if os.path.isdir(path := os.path.join(cove.home, part)) and os.listdir(path)}


def archives(rig, what, part):
    """Imports each of one part: what is refused leaves nothing, what is not is an image that can be removed."""
    taken = refused = 0
    cove = own(rig, what)
    for name, verdict, data in hostile.all_cases():
        if not part(name):
            continue
        before = held(cove)
        got = cove("image", "import", "--name", "hostile", "--max-size", "64M", "-", input=data)
        need(got.rc in (0, 2, 125) and (got.rc == 0) == (verdict == hostile.HARMLESS), f"{name}: {got!r}")
        if got.rc == 0:
            cove("image", "rm", "hostile").ok()
            cove("image", "gc").ok()
        need(held(cove) == before, f"{name} left something: {held(cove)}")
        taken, refused = taken + (got.rc == 0), refused + (got.rc != 0)
    need(taken + refused > 0, "there were no archives")
    return f"{refused} refused, {taken} harmless"


@case("A15_hostile_roots", "A15", "every hostile root filesystem is refused or harmless, and leaves nothing", slow=True)
def hostile_roots(rig):
    return archives(rig, "roots", lambda name: name.startswith("root-"))


@case("A15_hostile_layers", "A15", "every hostile layer is refused or harmless, and leaves nothing", slow=True)
def hostile_layers(rig):
    return archives(rig, "layers", lambda name: name.startswith("layer-") and "whiteout" not in name)


@case("A15_hostile_whiteouts", "A15", "every trick with a whiteout is refused or harmless, and leaves nothing")
def hostile_whiteouts(rig):
    return archives(rig, "whiteouts", lambda name: name.startswith("layer-whiteout-"))


@case("A15_archives_that_lie", "A15", "an archive whose digests, sizes, names or links lie is refused, and leaves "
      "nothing")
def archives_that_lie(rig):
    return archives(rig, "lies", lambda name: not name.startswith(("root-", "layer-")))


def status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                if ":\t" in line)


def below(pid):
    """All processes below one."""
    found, todo = [], [pid]
    while todo:
        at = todo.pop()
        try:
            children = pathlib.Path(f"/proc/{at}/task/{at}/children").read_text().split()
        except OSError:
            continue
        found += children
        todo += children
    return found


def confined(client):
    """Processes of the import that have a filter of system calls."""
    found = []
    for pid in below(client.pid):
        try:
            if status(pid)["Seccomp"].strip() == "2":
                found.append(pid)
        except (OSError, KeyError):
            continue
    return found


@case("A15_decompressor_can_do_nothing", "A15", "what decompresses an archive has no capability, no new privileges, a "
      "filter of system calls, and no descriptor but the two ends of its stream")
def decompressor(rig):
    client = rig.cove.start("image", "import", "half", "-")
    data = gzip.compress(tar(d("usr/"), f("usr/a", os.urandom(4 << 20))), 1)
    try:
        client.stdin.write(data[:len(data) // 2])
        client.stdin.flush()
        own = set(status(os.getpid())["Seccomp"].strip()) == {"2"}
        need(not own, "this test itself runs under a filter: it cannot tell")
        wait_until(lambda: confined(client), "the decompressor")
        pid = confined(client)[0]
        said = status(pid)
        need(int(said["CapEff"], 16) == int(said["CapPrm"], 16) == 0, f"it has capabilities: {said['CapEff']}")
        need(said["NoNewPrivs"].strip() == "1", "it can gain privileges")
        try:
            fds = sorted(os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd"))
        except PermissionError:
            need(not rig.is_root, "root cannot look at it")
            return "not even its own user can look into it"
        need(len(fds) == 2 and all(t.startswith("pipe:") for t in fds), f"it holds {fds}")
        return f"pid {pid}: {', '.join(fds)}"
    finally:
        client.kill()
        client.communicate(timeout=DEADLINE)


LOWER = tar(*tiny_root(), d("data/", mode=0o777), f("data/file", b"as it was\n", mode=0o666))
UPPER = tar(d("more/", mode=0o777), f("more/file", b"as it was\n", mode=0o666))
WRITE = "for x in /data/file /more/file /bin/sh /etc/passwd; do echo mine >$x; done; echo new >/data/new; " \
        "read x </data/file; echo $x"
READ = "read x </data/file; read y </more/file; echo $x $y; test -e /data/new && echo new; true"


@case("A20_layers_are_shared_and_never_written", "A20", "two boxes on the same two layers: what one writes, as its "
      "root, the other does not see, and the layers' content stays the same to the byte")
def shared_layers(rig):
    cove = own(rig, "shared")
    layout = Layout([LOWER, UPPER], name="shared")
    cove("image", "import", "-", input=layout.tar()).ok()

    def content():
        return hashlib.sha256(cove("image", "export", "shared", "-", "--format", "tar").ok().out).hexdigest()

    def run(line, *flags):
        return cove("run", "--image", "shared", *flags, "--", "/bin/sh", "-c", line).text
    try:
        before = content()
        first = cove("create", "--image", "shared").ok().text.strip()
        wrote = cove("exec", "-u", "0", first, "--", "/bin/sh", "-c", WRITE)
        if wrote.rc != 0:
            wrote = cove("exec", first, "--", "/bin/sh", "-c", WRITE)
        need("mine" in wrote.text, repr(wrote))
        seen = run(READ)
        need(seen == "as it was as it was\n", f"another box sees {seen!r}")
        need(content() == before, "the layers changed")
        cove("rm", "-f", first).ok()
        need(content() == before, "the layers changed")
        return "the other box and the layers are as they were"
    finally:
        for name in cove("ls", "-q").text.split():
            if cove("inspect", name).json.get("image") == "shared":
                cove("rm", "-f", name)
        cove("image", "rm", "shared")
        cove("image", "gc")
