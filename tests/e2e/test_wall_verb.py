"""cove wall: what can stand between a box and the host, adding it, and the weakest that may be."""
import json
import os

import pytest


def walls(cove):
    return {w["name"]: w for w in json.loads(cove("wall", "ls", "--json").ok().out)}


def test_the_list(new_home):
    cove = new_home()
    native = walls(cove)["native"]
    assert native["ready"] and native["is_default"] and native["shared_kernel"] and not native["is_min"]
    assert native["start_us"] is None and native["remedy"] is None
    assert "native" in cove("wall", "ls", "-q").ok().text.split()
    assert "native (default)" in cove("wall", "ls").ok().text
    assert not os.path.exists(cove.home)  # looking makes nothing


def test_a_wall_is_added_by_trying_it(new_home):
    cove = new_home()
    cove("wall", "add", "native").ok()
    assert walls(cove)["native"]["start_us"] > 0
    assert cove.names() == []
    cove("wall", "rm", "native").ok()
    assert walls(cove)["native"]["start_us"] is None
    cove.fails("not_found", "wall", "rm", "native")
    cove.fails("not_found", "wall", "add", "nix")
    cove.fails("not_found", "wall", "add", "")
    cove.fails("invalid", "wall", "add", "native", "/bin/true")


def test_what_was_noted_may_be_damaged(new_home):
    cove = new_home()
    cove("wall", "add", "native").ok()
    note = f"{cove.home}/walls/native/tried"
    for text in (b"", b"1", b"x y\n", b"-1 v\n", b"9" * 40 + b" v\n", b"1 " + b"v" * 300, b"\0" * 64):
        with open(note, "wb") as f:
            f.write(text)
        assert walls(cove)["native"]["ready"]
        cove("run", "--wall", "auto", "--", "true").ok()
    cove("wall", "add", "native").ok()
    assert walls(cove)["native"]["start_us"] > 0


def test_the_weakest_that_may_be(new_home):
    cove = new_home()
    assert json.loads(cove("wall", "min", "--json").ok().out) == {"min": None}
    cove("wall", "min", "native").ok()
    assert cove("wall", "min").ok().text == "native\n" and walls(cove)["native"]["is_min"]
    box = cove("create").ok().text.strip()
    cove.fails("not_found", "wall", "min", "nix")
    # One that this Cove does not know, and what is no name at all: never weaker for that.
    for word in ("stronger\n", "", "\n", "native native\n"):
        with open(f"{cove.home}/walls/min", "w", encoding="ascii") as f:
            f.write(word)
        kind = "denied" if word.strip() else "damaged"
        cove.fails(kind, "run", "--wall", "auto", "--", "true")
        cove.fails(kind, "create")
        if word.strip():
            assert cove("wall", "min").ok().text == word
        else:
            assert "wall min" in cove.fails("damaged", "wall", "min")
    with open(f"{cove.home}/walls/min", "w", encoding="ascii") as f:
        f.write("stronger\n")
    assert cove("exec", box, "--", "true").rc == 0  # it runs, and goes on
    cove("stop", box).ok()
    cove.fails("denied", "start", box)
    cove("wall", "min", "any").ok()
    cove("start", box).ok()
    cove("wall", "min", "any").ok()


def test_auto(new_home):
    cove = new_home()
    box = cove("create", "--wall", "auto").ok().text.strip()
    assert cove.inspect(box)["wall"] in walls(cove)
    cove("run", "--wall", "auto:1ms", "--", "true").ok()
    for wall in ("auto:", "auto:x", "auto:-1", "auto:1 s"):
        cove.fails("invalid", "run", "--wall", wall, "--", "true")
    cove.fails("unsupported", "run", "--wall", "automatic", "--", "true")


def test_auto_of_a_session_is_content_with_what_there_is(new_home):
    cove = new_home()
    cove("open", "s", "--wall", "native").ok()
    cove("open", "s", "--wall", "auto").ok()
    cove("close", "s", "--delete").ok()


def program(tmp, text, mode=0o755):
    path = tmp / "runsc"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("text", ["", "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho one\n", "#!/bin/sh\nyes\n",
                                  "#!/bin/sh\necho 'runsc version ' && exit 0\n", "\x7fELF",
                                  "#!/bin/sh\necho runsc version 1\nexit 3\n",
                                  "#!/bin/sh\necho runsc version 1\n"])
def test_a_program_that_is_not_it(new_home, tmp, text):
    """It is not kept, whatever it is; the last one has a version, but no box can be started with it."""
    cove = new_home(PATH="/usr/bin:/bin")
    if "gvisor" not in walls(cove):
        pytest.skip("this build has no wall with a program")
    assert cove("wall", "add", "gvisor", program(tmp, text)).rc in (2, 125)
    assert not os.path.exists(f"{cove.home}/walls/gvisor")
    assert cove.names() == []


def test_a_program_that_is_not_there(new_home, tmp):
    cove = new_home()
    if "gvisor" not in walls(cove):
        pytest.skip("this build has no wall with a program")
    for path in (tmp / "nothing", tmp, "/dev/zero", "/dev/null"):
        assert cove("wall", "add", "gvisor", path).rc in (2, 125)
    os.mkfifo(tmp / "pipe")
    assert cove("wall", "add", "gvisor", tmp / "pipe").rc in (2, 125)
    assert not os.path.exists(f"{cove.home}/walls/gvisor")
