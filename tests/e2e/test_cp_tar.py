"""`cove cp - BOX:DIR`: a tar stream into a directory of a box, and tars that try to leave it."""
import io
import subprocess
import tarfile

import pytest

from conftest import DEADLINE

pytestmark = pytest.mark.once("both")


def tar_of(*entries):
    """(name, type, text or target, mode) -> bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, text, mode in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime, info.uid, info.gid = kind, mode, 1600000000, 4242, 4242
            if kind == tarfile.REGTYPE:
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))
            else:
                info.linkname = text
                tar.addfile(info)
    return out.getvalue()


F, D, L, H, P = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE


def say(cove, box, line):
    return cove("exec", box, "--", "sh", "-c", line).ok().text


def test_what_comes_out_goes_in(cove, box, tmp):
    say(cove, box, "mkdir -p /tmp/a/b/empty /tmp/back; cd /tmp/a; echo one >b/one; ln b/one two; ln -s b/one link; "
        "chmod 640 b/one; head -c 3000000 /dev/zero >big; touch -d @1600000000 b/one; printf x >'sp ace'")
    whole = cove("cp", f"{box}:/tmp/a", "-").ok().out
    cove("cp", "-", f"{box}:/tmp/back", input=whole).ok()
    look = "cd %s && find . | sort && cat b/one two link && stat -c '%%a %%Y %%h' b/one && wc -c <big && readlink link"
    assert say(cove, box, look % "/tmp/back/a") == say(cove, box, look % "/tmp/a")
    # A pipe from box to box, and into a box that is stopped.
    other = cove("create").ok().text.strip()
    cove("stop", other).ok()
    out = cove.start("cp", f"{box}:/tmp/a", "-")
    got = subprocess.run(cove.argv(["cp", "-", f"{other}:/tmp"]), stdin=out.stdout, env=cove.env, capture_output=True,
                         timeout=DEADLINE)
    out.stdout.close()
    assert out.wait(DEADLINE) == 0 and got.returncode == 0, got.stderr
    cove("start", other).ok()
    assert say(cove, other, "cat /tmp/a/two") == "one\n"
    cove("rm", "-f", other).ok()


def test_it_belongs_to_the_user_and_has_no_set_user_id(cove, box):
    cove("cp", "-", f"{box}:/tmp", input=tar_of(("d/e/f", F, b"hi", 0o6755), ("d/fifo", P, "", 0o644))).ok()
    me = say(cove, box, "id -u").strip()
    assert say(cove, box, "stat -c '%u %a' /tmp/d/e/f; stat -c %u /tmp/d") == f"{me} 755\n{me}\n"
    got = cove("cp", "--json", "-", f"{box}:/tmp", input=tar_of(("d/fifo", P, "", 0o644))).ok()
    assert got.json["left_out"] == 1 and say(cove, box, "ls /tmp/d") == "e\n"


@pytest.mark.parametrize("entries", [
    [("../out", F, b"x", 0o644)], [("/../out", F, b"x", 0o644)], [("a/../../out", F, b"x", 0o644)],
    [("a", L, "/tmp", 0o777), ("a/out", F, b"x", 0o644)], [("a", L, "..", 0o777), ("a/b/out", F, b"x", 0o644)],
    [("out", H, "../../etc/hostname", 0o644)], [("out", H, "/etc/hostname", 0o644)],
    [("a", F, b"x", 0o644), ("a/out", F, b"x", 0o644)]])
def test_what_leads_out_is_refused(cove, box, entries):
    say(cove, box, "mkdir -p /tmp/in/to")
    got = cove("cp", "--json", "-", f"{box}:/tmp/in/to", input=tar_of(*entries))
    assert got.rc == 125 and got.json["error"]["kind"] in ("invalid", "denied", "not_found"), repr(got)
    assert say(cove, box, "find /tmp -name out") == ""


def test_absolute_names_are_below_the_directory(cove, box):
    say(cove, box, "mkdir -p /tmp/below")
    cove("cp", "-", f"{box}:/tmp/below", input=tar_of(("/tmp/landed", F, b"x", 0o644))).ok()
    assert say(cove, box, "find /tmp -name landed") == "/tmp/below/tmp/landed\n"


@pytest.mark.parametrize("data", [b"", b"no tar at all", b"\x1f\x8b" + b"x" * 600, b"x" * 512,
                                  tar_of(("f", F, b"x" * 2000, 0o644))[:1200]])
def test_what_is_no_tar(cove, box, data):
    say(cove, box, "mkdir -p /tmp/in")
    got = cove("cp", "--json", "-", f"{box}:/tmp/in", input=data)
    assert got.rc == 125 and got.json["error"]["code"] == "EBADMSG", repr(got)
    assert say(cove, box, "ls -A /tmp/in") == ""


def test_a_file_is_still_a_file(cove, box):
    cove("cp", "-", f"{box}:/tmp/x", input=tar_of(("f", F, b"x", 0o644))).ok()
    assert say(cove, box, "test -f /tmp/x && echo yes") == "yes\n"
