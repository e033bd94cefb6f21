"""Images: what boxes start from. Names, settings, and that every box of one starts the same."""
import json

from conftest import needs_base

# Everything a fresh box has, file by file; /proc and /sys are other file systems. What differs is the box's name.
LISTING = r"""
cd /; find . -mindepth 1 -xdev \( -path ./proc -o -path ./sys -o -path ./dev \) -prune -o \
    ! -path ./etc/hosts ! -path ./etc/hostname -printf '%p %y %m %U %G %s %l %T@\n' | sort
find etc home root usr/bin var -xdev -type f ! -path etc/hosts ! -path etc/hostname -print0 2>/dev/null |
    sort -z | xargs -0 sha256sum 2>/dev/null
env | grep -v -e HOSTNAME -e COVE_ | sort; id; pwd; umask; ulimit -a
"""


@needs_base
def test_two_boxes_of_an_image_start_the_same(cove):
    # The authority of a box is its own: without a network there is none.
    first, second = (cove("run", "--net", "closed", "-u", "root", "--", "sh", "-c", LISTING).ok().text for _ in "ab")
    assert len(first) > 100_000 and first == second


@needs_base
def test_a_second_name(cove):
    cove("image", "tag", "base", "registry.example:5000/acme/agent:1.2").ok()
    assert cove("run", "--image", "registry.example:5000/acme/agent:1.2", "--", "true").rc == 0
    one, two = (json.loads(cove("image", "inspect", name, "--json").ok().text)
                for name in ("base", "registry.example:5000/acme/agent:1.2"))
    assert one["layers"] == two["layers"] and two["name"] == "registry.example:5000/acme/agent:1.2"
    steps = json.loads(cove("image", "history", "--json", "base").ok().text)
    assert [s["layer"] for s in steps] == [layer["id"] for layer in reversed(one["layers"])]
    cove("image", "rm", "registry.example:5000/acme/agent:1.2").ok()
    assert cove("run", "--", "true").rc == 0


@needs_base
def test_latest_may_be_left_out(cove):
    cove("image", "tag", "base", "thing:latest").ok()
    assert "thing" in cove("image", "ls", "-q").ok().text.split()
    assert cove("run", "--image", "thing:latest", "--", "true").rc == 0
    cove("image", "rm", "thing").ok()


def test_names_that_are_none(cove):
    for name in ("", "A", "../x", "a//b", "/a", "a b", "a/.b", "x" * 256):
        cove.fails("invalid", "image", "tag", "host", name)
        cove.fails("invalid", "run", "--image", name or " ", "--", "true")
    cove.fails("not_found", "image", "inspect", "nothing:here")
    cove.fails("not_found", "image", "tag", "nothing", "x")
    cove.fails("invalid", "image", "tag", "host", "x")


def test_entrypoint_is_a_flag_of_run(cove):
    assert cove("run", "--image", "host", "--entrypoint", "/bin/echo", "--", "a", "b").ok().text == "a b\n"
    assert cove("run", "--image", "host", "--entrypoint", "", "--", "echo", "c").ok().text == "c\n"
    assert cove("run", "--image", "host", "--entrypoint", "").rc == 2


@needs_base
def test_a_box_keeps_what_it_stands_on(cove):
    cove("image", "tag", "base", "moving").ok()
    box = cove("create", "--image", "moving").ok().text.strip()
    cove("stop", box).ok()
    cove.fails("conflict", "image", "rm", "moving")
    cove("start", box).ok()
    assert cove("exec", box, "--", "true").rc == 0
    cove("rm", "-f", box).ok()
    cove("image", "rm", "moving").ok()
