"""A15: trees of a box that are read for `cove diff` and brought back by `cove merge`."""
import os

from door_ground import PYTHON
from rig import NotApplicable, case, need

TRAPS = r"""mkfifo fifo; ln -s {file} f; ln -s {dir} d; ln -s /etc etc; mkdir -p .git/hooks .vscode deep x
echo evil > .git/hooks/pre-commit; echo evil > .vscode/tasks.json; cp /bin/true suid; chmod 6755 suid
rm -rf x; ln -s {dir} x; truncate -s 4T holes; printf x > "$(printf 'a\n\033]0;x\007')"
rm -rf sub; ln -s ../ sub; true"""


def box_with_traps(rig, name):
    """A box on a copy of a directory, full of what should lead elsewhere, wait or run."""
    top = rig.base / name
    (top / "sub").mkdir(parents=True)
    (top / "x").mkdir()
    (top / "sub/file").write_text("mine\n")
    box = rig.make("--workspace", str(top), "--copy")
    rig.cove("exec", box, "--", "sh", "-c", TRAPS.format(file=rig.canary.file, dir=rig.canary.dir)).ok()
    rig.cove("stop", "--grace", "0", box).ok()
    return box, top


@case("A15_diff_of_a_hostile_tree", "A15", "a box's tree is listed: nothing followed, waited for or shown raw")
def diff_hostile(rig):
    box, _ = box_with_traps(rig, "diff-traps")
    got = rig.cove("diff", "--text", box).ok()
    rig.cove("rm", "-f", box).ok()
    need(b"\x1b" not in got.out and b"\x07" not in got.out, "a control character came through")
    named = got.text.replace(str(rig.canary.file), "").replace(str(rig.canary.dir), "")
    need("canary" not in named, "something outside was read")


@case("A15_merge_of_a_hostile_tree", "A15", "a merge writes nothing outside, through no link, and no hook")
def merge_hostile(rig):
    box, top = box_with_traps(rig, "merge-traps")
    rig.cove("merge", box)
    rig.cove("merge", "--theirs", box).ok()
    rig.cove("rm", "-f", box).ok()
    need(not (top / ".git/hooks/pre-commit").exists() and not (top / ".vscode/tasks.json").exists(), "a hook came back")
    need(not (top / "suid").exists() or os.lstat(top / "suid").st_mode & 0o6000 == 0, "a set-user-ID file came back")
    need(not any(os.path.islink(top / n) for n in ("f", "d", "etc", "x", "sub")), "a link that leads out came back")
    need(not (top / "fifo").exists(), "a FIFO came back")


# Root inside the fork, below /tmp/m and in its workspace: what the box has there as directories and files becomes
# something else, and what it has not is there in great numbers.
HOSTILE_FORK = r"""
import os, socket, sys
file, directory, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
def tree(top):
    os.chdir(top)
    os.system("rm -rf dir sub file")
    os.symlink(directory, "dir"); os.symlink("../../../../../../.." + directory, "sub"); os.symlink(file, "file")
    for i in range(20):
        os.mkfifo("fifo%d" % i)
    s = socket.socket(socket.AF_UNIX); s.bind("socket")
    for kind, major, minor in ((0o20000, 1, 1), (0o60000, 8, 0), (0o20000, 0, 0)):
        try:
            os.mknod("node%d-%d" % (major, minor), kind | 0o666, os.makedev(major, minor))
        except OSError:
            pass
    os.mkdir("marks")
    for key in ("user.overlay.redirect", "user.overlay.opaque", "user.overlay.metacopy", "trusted.overlay.redirect",
                "user.overlay.whiteout", "user.overlay.origin"):
        try:
            os.setxattr("marks", key, directory.encode())
        except OSError:
            pass
    for name in (".wh.dir", ".wh..wh..opq", ".wh.file"):
        open(name, "w").close()
    os.mkdir("links"); open("links/first", "w").write("one")
    for i in range(count):
        os.link("links/first", "links/%d" % i)
    open("suid", "w").write("#!/bin/sh\n"); os.chmod("suid", 0o6755)
    for name in (b"new\nline", b"\x1b]0;x\x07", b"\xff\xfe", b"-rf", b"a" * 255):
        open(name, "w").close()
    with open("\x1b[2Jboth", "w") as f:
        f.write("fork")
    os.mkdir("deep"); os.chdir("deep")
    for i in range(400):
        os.mkdir("deep"); os.chdir("deep")
tree("/tmp/m"); tree("/workspace")
"""
FILL = r"""for top in /tmp/m /workspace; do mkdir -p $top && cd $top && mkdir -p dir sub && echo box >dir/secret &&
echo box >sub/file && echo box >file && echo one >"$(printf '\033[2Jboth')" && chmod 777 . || exit 1; done"""

CHANGE = r"""cd /tmp/m; echo box >>"$(printf '\033[2Jboth')"; echo more >dir/more"""


@case("A15_merge_of_a_hostile_fork", "A15", "what root in a fork made (links for directories, overlay marks, "
      "whiteouts, nodes, FIFOs, sockets, hard links, depth, odd names), in its files and its workspace: a merge ends, "
      "changes nothing outside, prints nothing raw, and the box starts")
def fork_hostile(rig):
    cove, user = rig.cove, ("-u", "root") if rig.root_inside() else ()
    box = rig.make("--workspace", "a15-box")
    try:
        cove("exec", box, "--", "sh", "-c", FILL).ok()
        cove("stop", "--grace", "0", box).ok()
        cove("fork", box, "--name", "a15-fork").ok()
        made = cove("exec", *user, "a15-fork", "--", PYTHON, "-B", "-c", HOSTILE_FORK, rig.canary.file,
                    rig.canary.dir, 500 if rig.quick else 5000)
        if made.rc == 127 or b"No such file" in made.err and b"python3" in made.err:
            raise NotApplicable("this image has no python3")
        made.ok()
        cove("stop", "--grace", "0", "a15-fork").ok()
        cove("start", box).ok()
        cove("exec", box, "--", "sh", "-c", CHANGE).ok()
        cove("stop", "--grace", "0", box).ok()
        said = [cove("merge", *how, "a15-fork", box) for how in ((), ("--json",), ("--dry-run",), ("--theirs",))]
        for got in said:
            need(got.rc in (0, 1, 125), repr(got)[-400:])
            need(not set(got.out + got.err) & {0x1b, 7}, f"a control character came through: {got.rc}")
        need(said[0].rc == 1 and b"conflict: " in said[0].err, f"no conflict was named: {said[0].err[-300:]!r}")
        cove("start", box).ok()
        need(rig.answers(box), rig.complaint(box))
        seen = cove("exec", *user, box, "--", "sh", "-c", "cd /tmp/m; cat dir/secret sub/secret file")
        need(rig.canary.mark.encode() not in seen.out, "the box sees the host's file")
        return f"merged: {said[3].rc == 0}"
    finally:
        cove("rm", "-f", "a15-fork", box)
        cove("workspace", "rm", "a15-box")
        cove("workspace", "rm", "a15-fork")
