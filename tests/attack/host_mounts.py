"""A23, B16 and C4: what the host mounts after a box was made, devices, boxes of a caller with a single id.

The host of this machine may not share its mounts, as most do. So each case makes a mount namespace of its
own that does, as root in a plain one and, also where root runs the suite, as an ordinary user in a user
namespace with one id, and ends it with the box. Nothing is mounted outside.
"""
import os
import re
import shutil
import subprocess

from rig import DEADLINE, Broke, NotApplicable, case, need, wait_until

AS_ROOT = ["unshare", "--mount", "--propagation", "private"]
AS_USER = ["unshare", "--user", "--map-user", "12345", "--map-group", "12345", "--keep-caps", "--mount",
           "--propagation", "private"]
PLAIN = "setpriv --inh-caps=-all --ambient-caps=-all"  # who mounts has rights there that who runs boxes has not

BEGIN = f"""set -eu
cove() {{ {PLAIN} "$COVE" "$@"; }}
make() {{ name=$(cove create --wall "$WALL" --image host "$@"); trap 'cove rm -f "$name" >/dev/null' EXIT; }}
inside() {{ echo ---; cove exec "$name" -- sh -c "$1; echo ---; cat /proc/self/mountinfo"; }}
"""


def grounds(rig):
    """Where a case is run: the words before it, and the state directory."""
    for tool in ("unshare", "setpriv"):
        if not shutil.which(tool):
            raise NotApplicable(f"{tool} is not installed")
    single = rig.base / "h1"
    single.mkdir(exist_ok=True)
    found = [(AS_ROOT, rig.cove.home)] if rig.is_root else []
    if not rig.own_kernel and subprocess.run([*AS_USER, "true"], capture_output=True).returncode == 0:
        found.append((AS_USER, str(single)))
    if not found:
        raise NotApplicable("this caller can make no mount namespace")
    return found


def play(rig, ground, script, place):
    """Runs the script there; what was said inside, and the box's mounts."""
    words, home = ground
    done = subprocess.run([*words, "sh", "-c", BEGIN + script], capture_output=True, text=True, timeout=2 * DEADLINE,
                          errors="replace", env={**rig.cove.env, "COVE": rig.cove.program, "COVE_HOME": home,
                                                 "WALL": rig.wall, "PLACE": str(place),
                                                 "ATTACK": str(rig.program.parent)})
    rig.search((done.stdout + done.stderr).encode(), "a box of its own mount namespace")
    if done.returncode != 0:
        raise Broke(f"{done.returncode}: {done.stdout[-200:]!r} {done.stderr[-300:]!r}")
    parts = done.stdout.split("---\n")
    need(len(parts) >= 3, done.stdout[-300:])
    return parts[-2], parts[-1]


def everywhere(rig, script, judge):
    where = grounds(rig)
    for ground in where:
        place = rig.base / "late-place"
        place.mkdir()
        try:
            said, mounts = play(rig, ground, script, place)
        finally:
            os.rmdir(place)
        judge(said, mounts)
        need(not re.search(r" (shared|master|propagate_from):", mounts), "a mount of the box propagates")
    return f"{len(where)} kinds of caller"


def given(flag):
    return f"""
mount -t tmpfs -o mode=755 early "$PLACE"
mount --make-shared "$PLACE"
mkdir "$PLACE/late" "$PLACE/before"
mount -t tmpfs before "$PLACE/before"
make --mount "$PLACE:/given{flag}"
mount -t tmpfs -o mode=777 late "$PLACE/late"
echo late > "$PLACE/late/file"
inside 'ls -A /given/late; for d in late before; do echo x > /given/$d/new && echo wrote; done; true'
grep -q late "$PLACE/late/file"
"""


def mounted(mounts, place):
    """The attributes of what is mounted at a place of the box; None without."""
    found = [line.split()[5].split(",") for line in mounts.splitlines() if line.split()[4] == place]
    return found[-1] if found else None


def judge_given(rig, read_only):
    own = rig.own_kernel  # whose devices are its own, whatever a mount says

    def judge(said, mounts):
        need("file" not in said, "what the host mounted later is seen")
        need(mounted(mounts, "/given/late") is None, "the later mount is the box's as well")
        need(not read_only or "wrote" not in said, "a read-only directory was written to")
        for place in ("/given",) if own else ("/given", "/given/before"):
            wanted = {"nosuid"} | (set() if own else {"nodev"}) | ({"ro"} if read_only else set())
            need(wanted <= set(mounted(mounts, place) or ()), f"{place} is {mounted(mounts, place)}")
    return judge


@case("A23_later_mount_below_read_only", "A23",
      "what the host mounts below a directory given read-only is not seen inside, and what was there is read-only")
def below_read_only(rig):
    return everywhere(rig, given(":ro"), judge_given(rig, True))


@case("A23_later_mount_below_writable", "A23",
      "what the host mounts below a given directory is not seen inside, and what was there is nosuid and nodev")
def below_writable(rig):
    return everywhere(rig, given(""), judge_given(rig, False))


@case("A23_later_mount_below_usr", "A23", "what the host mounts below the /usr that a box shares is not seen inside")
def below_usr(rig):
    below = next((d for d in ("/usr/share/doc", "/usr/src", "/usr/games") if os.path.isdir(d)), None)
    if not below:
        raise NotApplicable("no directory below /usr to mount on")

    def judge(said, mounts):
        need("late-file" not in said, "what the host mounted later is seen")
        need("changed" not in said, "/usr can be written")
        need(rig.own_kernel or "ro" in (mounted(mounts, "/usr") or ()), "/usr is not read-only")
    return everywhere(rig, f"""
mount --rbind /usr /usr
mount --make-shared /usr
make
mount -t tmpfs late {below}
echo late > {below}/late-file
inside 'ls -A {below}; touch /usr/attack-new && echo changed; true'
test -e {below}/late-file
""", judge)


@case("A23_later_mount_over_device", "A23", "what the host mounts over a device is not what a box has there")
def over_device(rig):
    def judge(said, mounts):
        need(said.strip() == "character special file 1:7", f"/dev/full is: {said.strip()}")
    return everywhere(rig, """
mount --rbind /dev /dev
mount --make-shared /dev
mount -t tmpfs late "$PLACE"
echo late > "$PLACE/file"
make
mount --bind "$PLACE/file" /dev/full
inside 'stat -c "%F %t:%T" /dev/full'
grep -q late /dev/full
""", judge)


DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def locked_apart(rig):
    """Numbers of another kernel say nothing: whether locks meet does."""
    boxes = [rig.make(), rig.make()]
    try:
        take = ("sh", "-c", "exec 9</dev/null; flock -n 9")
        if rig.cove("exec", boxes[0], "--", *take).rc != 0:
            return "its devices take no locks"
        rig.cove("exec", "-d", boxes[0], "--", "sh", "-c", "exec 9</dev/null; flock 9 && touch /tmp/has; sleep 99").ok()
        wait_until(lambda: rig.cove("exec", boxes[0], "--", "test", "-e", "/tmp/has").rc == 0, "the lock")
        need(rig.cove("exec", boxes[0], "--", *take).rc == 1, "it is no lock")
        rig.cove("exec", boxes[1], "--", *take).ok()
        need(subprocess.run(take).returncode == 0, "the host's device is locked")
    finally:
        rig.cove("rm", "-f", *boxes).ok()
    return "a lock in one box is seen in no other, and not on the host"


@case("B16_devices_of_its_own", "B16",
      "a lock or a watch on a device reaches no other box and not the host: no two have the same node")
def devices(rig):
    if not rig.is_root:
        raise NotApplicable("who is not root can make no device nodes: these boxes have the host's")
    if rig.own_kernel:
        return locked_apart(rig)
    paths = [f"/dev/{name}" for name in DEVICES]
    seen = {f"{st.st_dev}:{st.st_ino}" for st in map(os.stat, paths)}
    need(len(seen) == len(DEVICES), "the host's devices are not six")
    boxes = [rig.make(), rig.make()]  # at the same time: numbers are used again
    try:
        for name in boxes:
            told = rig.cove("exec", name, "--", "stat", "-c", "%d:%i %a", *paths).ok().text.split()
            need(len(told) == 12 and set(told[1::2]) == {"666"}, " ".join(told))
            need(not seen & set(told[::2]), "a device of a box is that of another or of the host")
            seen |= set(told[::2])
    finally:
        rig.cove("rm", "-f", *boxes).ok()
    return f"{len(seen)} nodes"


@case("C4_terminals_of_a_single_id", "C4", "terminals end at the instance's own maximum for a caller with one id too")
def terminals(rig):
    ground = grounds(rig)[-1]
    if ground[0] is not AS_USER:
        raise NotApplicable("wall 'gvisor' needs more ids than one" if rig.own_kernel else
                            "this caller can make no user namespace")
    said, _ = play(rig, ground, 'make --mount "$ATTACK:/attack:ro"; inside "/attack/attack C4_terminals"', rig.base)
    need(said.startswith("HELD"), said)
    return said.strip()


@case("A13_target_below_shared_follows_no_link", "A13", "a mount whose target lies below a shared directory is not put "
      "where a link in that directory leads, and makes no directory there")
def target(rig):
    shared, other, extra = (rig.tmp / name for name in ("target-shared", "target-other", "target-extra"))
    for path in (shared, other, extra):
        path.mkdir(exist_ok=True)
    for name, to in (("link", "/other"), ("etc", "/etc"), ("up", "../other")):
        (shared / name).unlink(missing_ok=True)
        (shared / name).symlink_to(to)
    for below in ("link/made", "link", "etc", "up/made"):
        result = rig.cove("run", "--workspace", shared, "--mount", f"{other}:/other", "--mount",
                          f"{extra}:/workspace/{below}", "--", "true")
        need(not any(other.iterdir()), f"'{below}' made {os.listdir(other)} where the link leads")
        need(result.rc != 0 and b"link" in result.err, f"'{below}' was mounted: {result!r}")
    return "4 links"


@case("A13_target_below_a_link_into_shared", "A13", "a box that leaves a link into a shared directory where its mount "
      "was, and a link there, does not say where that mount is put on its next start")
def target_by_a_link(rig):
    shared, other, extra = (rig.tmp / name for name in ("aside-shared", "aside-other", "aside-extra"))
    for path in (shared, other, extra):
        path.mkdir(exist_ok=True)
    (shared / "link").unlink(missing_ok=True)
    box = rig.make("--workspace", shared, "--mount", f"{other}:/other", "--mount", f"{extra}:/home/user/foo/link/made")
    try:
        root = ["-u", "root"] if rig.root_inside() else []
        rig.cove("exec", *root, box, "--", "sh", "-c", "cd /home/user && mv foo old && ln -s /workspace foo").ok()
        rig.cove("exec", box, "--", "ln", "-s", "/other", "/workspace/link").ok()
        rig.cove("stop", box).ok()
        result = rig.cove("start", box)
        need(not any(other.iterdir()), f"made {os.listdir(other)} where the link leads")
        need(result.rc != 0 and b"link" in result.err, f"was mounted: {result!r}")
    finally:
        rig.cove("rm", "-f", box)
