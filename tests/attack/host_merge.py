"""A15: trees of a box that are read for `cove diff` and brought back by `cove merge`."""
import os

from rig import case, need

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
