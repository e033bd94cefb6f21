"""Snapshots of boxes, running and stopped, and going back to them."""
import os
import signal
import subprocess

import pytest

from conftest import IS_ROOT, lacks, needs_base, needs_root, wait_until

STORAGES = [[], ["--storage", "plain"]] if IS_ROOT else [[]]


def freezes(cove, box):
    """Whether a box can be frozen here, asked of `pause`."""
    if cove("pause", box).rc != 0:
        return False
    cove("resume", box).ok()
    return True


@pytest.fixture
def kept(cove):
    """Removes the snapshots, images and workspaces that a test makes."""
    def names(*verb):
        return set(cove(*verb).ok().text.split())

    images = names("image", "ls", "-q")
    spaces = names("workspace", "ls", "-q")
    yield
    for name in names("snapshot", "ls", "-q"):
        cove("snapshot", "rm", name).ok()
    for name in cove.names():
        cove("rm", "-f", name).ok()
    for name in names("workspace", "ls", "-q") - spaces:
        cove("workspace", "rm", name).ok()
    for name in names("image", "ls", "-q") - images:
        cove("image", "rm", name).ok()


def take(cove, box, *name, args=()):
    """A snapshot, with --no-freeze where the box cannot be frozen."""
    done = cove("snapshot", "create", box, *name, "--json", *args)
    if done.rc != 0 and done.json["error"]["kind"] == "unsupported":
        done = cove("snapshot", "create", box, *name, "--json", "--no-freeze", *args)
    return done.ok().json


def layers(cove):
    return {n for n in os.listdir(cove.home + "/layers") if not n.startswith(".")}


@pytest.mark.parametrize("storage", STORAGES, ids=lambda s: s[-1] if s else "default")
def test_running_and_back(cove, kept, storage):
    cove("create", "--name", "dev", *storage).ok()
    cove.sh("dev", "cd; echo one > a; mkdir d; echo x > d/x; ln -s a l; ln a h; (sleep 1000 &)")
    made = take(cove, "dev", "s1")
    assert made["name"] == "s1" and made["box"] == "dev" and (made["storage"] == "pool" or made["files"] > 4)
    assert made["unfrozen"] or made["frozen_us"] > 0
    assert cove.sh("dev", "pgrep -c sleep")["stdout"] == "1\n"  # it went on
    cove.sh("dev", "cd; echo two > a; rm -r d l; touch new")
    done = cove("rollback", "dev", "s1", "--json").ok().json
    assert done["started"] and done["sent"] == 0
    got = cove.sh("dev", "cd; cat a d/x; readlink l; find a -links 2; echo new*; pgrep -c sleep")
    assert got["stdout"].startswith("one\nx\na\na\nnew*\n") and "0\n" in got["stdout"]
    # again, and a second snapshot above the first
    cove.sh("dev", "echo three > ~/a; rm ~/h")
    take(cove, "dev", "s2")
    cove("rollback", "dev", "s1").ok()
    assert cove.sh("dev", "cat ~/a ~/h")["stdout"] == "one\none\n"
    cove("rollback", "dev", "s2").ok()
    assert cove.sh("dev", "cat ~/a; test -e ~/h || echo gone")["stdout"] == "three\ngone\n"


def test_no_name_is_given_twice(cove, kept, box):
    """Of two within one second the second is numbered, also when a rule has removed those before it."""
    cove("stop", box).ok()
    cove("snapshot", "rule", box, "--keep", "1").ok()
    names = [take(cove, box)["name"] for _ in range(5)]
    assert len(set(names)) == 5 and cove("snapshot", "ls", "-q", box).ok().text.split() == names[-1:]


def test_stopped(cove, kept, box):
    cove.sh(box, "echo one > ~/a")
    cove("stop", box).ok()
    made = cove("snapshot", "create", box, "s1", "--json").ok().json
    assert made["frozen_us"] == 0 and not made["unfrozen"]
    assert cove.inspect(box)["state"] == "stopped"
    cove("start", box).ok()
    cove.sh(box, "echo two > ~/a")
    cove("stop", box).ok()
    assert cove("rollback", box, "s1", "--json").ok().json["started"] is False
    assert cove.inspect(box)["state"] == "stopped"
    cove("start", box).ok()
    assert cove.sh(box, "cat ~/a")["stdout"] == "one\n"


def test_the_cause_is_told(cove, kept, box):
    take(cove, box, "s1")
    exec_id = cove("exec", "-d", box, "--", "sleep", "1000").ok().text.strip()
    cove("rollback", box, "s1").ok()
    assert cove("wait", box, exec_id, "--json").json["cause"] == "rollback"


def test_names_tags_and_lists(cove, kept, box):
    first = take(cove, box)
    assert first["name"].startswith(box[:40])
    take(cove, box, "two")
    cove.fails("exists", "snapshot", "create", box, "two")
    cove.fails("invalid", "snapshot", "create", box, "A/b")
    cove.fails("not_found", "snapshot", "create", "nobody")
    cove("snapshot", "tag", "two", "good").ok()
    assert cove("snapshot", "inspect", "good", "--json").ok().json["name"] == "two"
    cove.fails("exists", "snapshot", "tag", first["name"], "two")
    cove("snapshot", "tag", first["name"], "good").ok()
    listed = cove("snapshot", "ls", "--json").ok().json
    assert [s["name"] for s in listed] == [first["name"], "two"]
    assert listed[0]["tags"] == "good" and listed[1]["tags"] in (None, "")
    assert cove("snapshot", "ls", "nobody", "-q").ok().text == ""
    cove("snapshot", "rm", "two").ok()
    cove.fails("not_found", "snapshot", "rm", "two")


def test_what_is_not_in_it(cove, kept, tmp):
    (tmp / "f").write_text("host")
    cove("create", "--name", "dev", "--workspace", str(tmp), "--mount", f"{tmp}:/m:ro").ok()
    made = take(cove, "dev", "s1")
    assert any(str(tmp) in line for line in made["not_included"])
    (tmp / "f").write_text("changed")
    cove("rollback", "dev", "s1").ok()
    assert cove.sh("dev", "cat /workspace/f")["stdout"] == "changed"


def test_rules(cove, kept, box):
    for i in range(4):
        take(cove, box, f"s{i}")
    cove("snapshot", "tag", "s0", "first").ok()
    take(cove, box, "s4", args=["--keep", "2"])
    assert cove("snapshot", "ls", "-q").ok().text.split() == ["s0", "s3", "s4"]
    take(cove, box, "s5")
    assert cove("snapshot", "ls", "-q").ok().text.split() == ["s0", "s4", "s5"]
    take(cove, box, "s6", args=["--max-age", "1ms"])
    assert cove("snapshot", "prune", "--json").ok().json["removed"] == 0
    assert cove("snapshot", "ls", "-q").ok().text.split() == ["s0", "s6"]  # the last one stays


def test_a_rule_is_for_this_box_and_no_earlier_one_of_its_name(cove, kept):
    for snapshots in (["s0", "s1"], ["s2", "s3"]):
        cove("create", "--name", "dev").ok()
        for name in snapshots:
            take(cove, "dev", name)
        if snapshots[0] == "s0":
            cove("rm", "-f", "dev").ok()
    take(cove, "dev", "s4", args=["--keep", "1"])
    assert cove("snapshot", "ls", "-q").ok().text.split() == ["s0", "s1", "s4"]


def injected(cove, inject, *args, follow=True):
    call = inject.split(":")[0]
    return subprocess.run(["strace", *(["-f"] if follow else []), "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                           "-e", f"inject={inject}", *cove.argv(args)], env=cove.env_of_traced(),
                          capture_output=True, timeout=120)


@needs_root  # strace takes newuidmap's rights away
@pytest.mark.parametrize("verb", [["snapshot", "create", "dev", "after"], ["image", "save", "dev", "after"],
                                  ["diff", "before", "dev"], ["fork", "dev", "--name", "after"]],
                         ids=lambda v: v[0] + v[1][:4])
def test_a_killed_rollback_is_finished_by_who_comes_next(cove, kept, verb):
    if verb[0] == "image" and cove.image == "host":
        pytest.skip("the host's image is never saved")
    cove("create", "--name", "dev").ok()
    cove.sh("dev", "cd; echo old > f; mkdir d; for i in 1 2 3 4 5 6 7 8; do echo $i > d/$i; done")
    take(cove, "dev", "before")
    cove.sh("dev", "cd; echo new > f; rm d/1")
    cove("stop", "dev").ok()
    begun = f"{cove.home}/boxes/dev/rollback"
    for when in range(1, 30):
        injected(cove, f"unlinkat:signal=SIGKILL:when={when}", "rollback", "dev", "before")
        if os.path.exists(begun):
            break
    assert os.path.exists(begun)
    assert cove(*verb).ok().text.strip() in ("after", "")  # nothing differs
    assert not os.path.exists(begun)
    if verb[0] == "snapshot":
        cove("fork", "after", "--name", "after").ok()
    for box in ("dev", "after") if verb[0] in ("snapshot", "fork") else ("dev",):
        cove("start", box)
        assert cove.sh(box, "cd; cat f d/1")["stdout"] == "old\n1\n"


@needs_root
def test_a_rollback_that_fails_leaves_the_box_running(cove, kept):
    cove("create", "--name", "dev").ok()
    take(cove, "dev", "before")
    for when in range(1, 9):
        done = injected(cove, f"renameat:error=ENOSPC:when={when}", "rollback", "dev", "before", follow=False)
        assert cove("inspect", "dev").ok().json["state"] == "running", (when, done)
        if done.returncode == 0:
            break
    assert when > 1 and done.returncode == 0


def test_a_rule_of_an_image_is_for_boxes_without_one(cove, kept, box):
    image = cove("inspect", box).ok().json["image"]
    assert cove("snapshot", "rule", box, "--json").ok().json["keep"] == 0
    cove("snapshot", "rule", f"image:{image}", "--keep", "2").ok()
    assert cove("snapshot", "rule", box, "--json").ok().json == {
        "of": box, "keep": 2, "max_age_ms": 0, "of_image": True}
    for i in range(3):
        take(cove, box, f"s{i}")
    assert cove("snapshot", "ls", "-q").ok().text.split() == ["s1", "s2"]
    cove("snapshot", "rule", box, "--max-age", "9d").ok()  # its own, and nothing of the image's
    assert cove("snapshot", "rule", box, "--keep", "7", "--json").ok().json["max_age_ms"] == 9 * 86400 * 1000
    take(cove, box, "s3")
    assert len(cove("snapshot", "ls", "-q").ok().text.split()) == 3
    cove("snapshot", "rule", box, "--none").ok()
    assert cove("snapshot", "prune", "--json").ok().json["removed"] == 1
    cove("snapshot", "rule", f"image:{image}", "--none").ok()
    assert cove("snapshot", "rule", box, "--json").ok().json["keep"] == 0
    cove.fails("not_found", "snapshot", "rule", "image:nonesuch", "--keep", "1")
    assert cove("snapshot", "rule", box, "--none", "--keep", "1").rc == 2


def test_an_images_rule_goes_with_it(cove, kept, box):
    cove("image", "save", box, "kept-image").ok()
    cove("snapshot", "rule", "image:kept-image", "--keep", "1").ok()
    cove("image", "rm", "kept-image").ok()
    cove("image", "save", box, "kept-image").ok()
    assert cove("snapshot", "rule", "image:kept-image", "--json").ok().json["keep"] == 0
    cove("image", "rm", "kept-image").ok()


def test_holes_beyond_a_boxs_disk_are_no_image(cove, kept):
    """They are hashed like all else, at nobody's cost."""
    if cove.image == "host":
        pytest.skip("the host's image is never saved")
    before = layers(cove)
    cove("create", "--name", "dev").ok()
    cove.sh("dev", "cd; truncate -s 200G big")
    cove.fails("limit", "image", "save", "dev", "holes")
    cove.sh("dev", "cd; truncate -s 1M big")
    assert layers(cove) == before
    cove("image", "save", "dev", "holes").ok()
    cove("image", "rm", "holes").ok()
    cove("rm", "-f", "dev").ok()


def test_nothing_is_left_of_what_is_removed(cove, kept):
    before = layers(cove)
    cove("create", "--name", "dev", "--workspace", "sp").ok()
    cove.sh("dev", "echo a > ~/a; echo b > /workspace/b")
    take(cove, "dev", "s1")
    cove.sh("dev", "echo c > ~/c")
    take(cove, "dev", "s2")
    assert len(layers(cove)) == len(before) + 4
    cove("rollback", "dev", "s1").ok()
    cove("snapshot", "rm", "s2").ok()
    assert cove.sh("dev", "cat ~/a /workspace/b")["stdout"] == "a\nb\n"
    cove("snapshot", "rm", "s1").ok()
    assert cove.sh("dev", "cat ~/a /workspace/b")["stdout"] == "a\nb\n"
    cove("rm", "-f", "dev").ok()
    cove("workspace", "rm", "sp").ok()
    assert layers(cove) == before
    assert not [n for n in os.listdir(cove.home + "/layers") if n.startswith(".new")]


def test_a_workspace_goes_back_too(cove, kept):
    cove("create", "--name", "dev", "--workspace", "sp").ok()
    cove.sh("dev", "cd /workspace; echo one > a; mkdir d; echo x > d/x")
    take(cove, "dev", "s1")
    cove.sh("dev", "cd /workspace; echo two > a; rm -r d; touch new")
    cove("rollback", "dev", "s1", "--keep-workspace").ok()
    assert cove.sh("dev", "cat /workspace/a")["stdout"] == "two\n"
    cove("create", "--name", "other", "--workspace", "sp").ok()
    cove.fails("conflict", "rollback", "dev", "s1")
    assert cove.sh("dev", "cat /workspace/a")["stdout"] == "two\n"
    cove("rm", "-f", "other").ok()
    cove("rollback", "dev", "s1").ok()
    assert cove.sh("dev", "cd /workspace; cat a d/x; echo *")["stdout"] == "one\nx\na d\n"
    # A box that comes later sees the same.
    cove("rm", "-f", "dev").ok()
    cove("create", "--name", "later", "--workspace", "sp").ok()
    assert cove.sh("later", "cat /workspace/a; echo three > /workspace/a")["stdout"] == "one\n"
    take(cove, "later", "s2")
    cove.sh("later", "rm /workspace/a")
    cove("rollback", "later", "s2").ok()
    assert cove.sh("later", "cat /workspace/a")["stdout"] == "three\n"


def test_another_boxes_snapshot(cove, kept, box):
    other = cove("create").ok().text.strip()
    cove.sh(other, "echo theirs > ~/a")
    take(cove, other, "s1")
    cove.fails("conflict", "rollback", box, "s1")
    cove("rollback", box, "s1", "--foreign").ok()
    assert cove.sh(box, "cat ~/a")["stdout"] == "theirs\n"
    # A name that is used again is another box.
    cove("rm", "-f", other).ok()
    cove("create", "--name", other).ok()
    cove.fails("conflict", "rollback", other, "s1")


def test_memory_is_refused_with_the_remedy(cove, kept):
    if cove("create", "--name", "mem", "--storage", "tmpfs", "--json").rc != 0:
        pytest.skip("no --storage tmpfs here")
    assert "--storage" in cove.fails("unsupported", "snapshot", "create", "mem")


def test_a_paused_box_stays_paused(cove, kept, box):
    if not freezes(cove, box):
        pytest.skip("no freezer here")
    cove.sh(box, "echo one > ~/a")
    cove("pause", box).ok()
    take(cove, box, "s1")
    assert cove.inspect(box)["paused"]
    cove("resume", box).ok()
    assert cove.sh(box, "cat ~/a")["stdout"] == "one\n"


def test_without_a_freezer(cove, kept, box):
    if freezes(cove, box):
        pytest.skip("there is a freezer")
    cove.sh(box, "echo one > ~/a")
    assert "--no-freeze" in cove.fails("unsupported", "snapshot", "create", box, "s1")
    assert cove("snapshot", "create", box, "s1", "--no-freeze", "--json").ok().json["unfrozen"]
    cove.sh(box, "echo two > ~/a")
    cove("rollback", box, "s1").ok()
    assert cove.sh(box, "cat ~/a")["stdout"] == "one\n"


WRITER = """
i=0
while :; do
    i=$((i + 1))
    echo $i > ~/w/first.new && mv ~/w/first.new ~/w/first
    echo $i > ~/w/second.new && mv ~/w/second.new ~/w/second
done
"""


@pytest.mark.skipif(lacks("EXEC_GROUPS"), reason="behind an engine what is not synced is a moment late")
def test_it_is_one_moment(cove, kept, box):
    """A writer writes one file and then the other: in no snapshot is the second ahead of the first."""
    if not freezes(cove, box):
        pytest.skip("no freezer here")
    cove.sh(box, "mkdir -p ~/w; echo 0 > ~/w/first; echo 0 > ~/w/second")
    cove("exec", "-d", box, "--", "sh", "-c", WRITER).ok()
    for i in range(6):
        name = f"s{i}"
        cove("snapshot", "create", box, name).ok()
        cove("fork", name, "--name", f"f{i}").ok()
        first, second = map(int, cove.sh(f"f{i}", "cat ~/w/first ~/w/second")["stdout"].split())
        assert second in (first, first - 1)
        cove("rm", "-f", f"f{i}").ok()


def test_two_at_once(cove, kept, box):
    cove.sh(box, "mkdir ~/d; for i in $(seq 300); do echo $i > ~/d/$i; done")
    many = [subprocess.Popen([cove.program, "snapshot", "create", box, f"s{i}", "--no-freeze"], env=cove.env,
                             stdout=subprocess.DEVNULL) for i in range(4)]
    assert [p.wait() for p in many] == [0] * 4
    for i in range(4):
        cove("rollback", box, f"s{i}").ok()
        assert cove.sh(box, "find ~/d -type f | wc -l; cat ~/d/300")["stdout"] == "300\n300\n"


def test_killed_while_it_is_frozen(cove, kept, box):
    """Whoever takes it may die at any moment: the box goes on, and what was half made goes."""
    if not freezes(cove, box):
        pytest.skip("no freezer here")
    cove.sh(box, "mkdir ~/d; for i in $(seq 2000); do echo $i > ~/d/$i; done")
    for delay in (0.005, 0.02, 0.05, 0.1, 0.15, 0.2):
        p = subprocess.Popen([cove.program, "snapshot", "create", box, "half"], env=cove.env,
                             stdout=subprocess.DEVNULL)
        try:
            p.wait(delay)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.wait()
        assert cove.sh(box, "echo ok")["stdout"] == "ok\n"
        assert cove.inspect(box)["state"] == "running"
        if cove("snapshot", "rm", "half").rc == 0:
            continue
    take(cove, box, "whole")
    cove("rollback", box, "whole").ok()
    assert cove.sh(box, "find ~/d -type f | wc -l")["stdout"] == "2000\n"
    cove("snapshot", "rm", "whole").ok()
    wait_until(lambda: not [n for n in os.listdir(cove.home + "/layers") if n.startswith(".new")] or
               cove("snapshot", "create", box, "again").rc == 0 and cove("snapshot", "rm", "again").rc == 0 and
               not [n for n in os.listdir(cove.home + "/layers") if n.startswith(".new")], "half-made layers to go")


def test_races_with_stop_and_rm(cove, kept):
    """None of them hangs or leaves something half done."""
    for i in range(4):
        name = f"r{i}"
        cove("create", "--name", name).ok()
        cove.sh(name, "mkdir ~/d; for i in $(seq 500); do echo $i > ~/d/$i; done")
        racing = [["snapshot", "create", name, f"s{i}", "--no-freeze"], ["stop", name]]
        if i % 2:
            racing += [["start", name], ["rm", "-f", name]]
        many = [subprocess.Popen([cove.program, *argv], env=cove.env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL) for argv in racing]
        for p in many:
            p.wait(120)
        if cove("snapshot", "inspect", f"s{i}").rc == 0:
            cove("fork", f"s{i}", "--name", f"f{i}").ok()
            assert cove.sh(f"f{i}", "find ~/d -type f | wc -l")["stdout"] == "500\n"
            cove("rm", "-f", f"f{i}").ok()
        cove("rm", "-f", name).ok()


@needs_base
def test_saved_as_an_image(cove, kept, box, inner_root):
    cove("exec", "-u", "root", box, "--", "sh", "-c", "echo mine > /srv/a; rm /etc/debian_version").ok()
    cove("image", "save", box, "mine:v1").ok()
    info = cove("image", "inspect", "mine:v1", "--json").ok().json
    assert len(info["layers"]) == 2 and info["config"]["user"] == "user"
    steps = cove("image", "history", "mine:v1", "--json").ok().json  # newest first, each with its own layer
    assert "save" in steps[0]["by"] and steps[0]["layer"] == info["layers"][-1]["id"]
    assert steps[-1]["by"] == "FROM base" and steps[-1]["layer"] == info["layers"][0]["id"]
    out = cove("run", "--image", "mine:v1", "--", "sh", "-c", "cat /srv/a; ls /etc/debian_version; id -un")
    assert out.text == "mine\nuser\n"
    # The same content is the same layer.
    cove("image", "save", box, "mine:v2").ok()
    assert cove("image", "inspect", "mine:v2", "--json").ok().json["layers"] == info["layers"]
    cove("image", "rm", "mine:v1", "mine:v2").ok()
    assert info["layers"][-1]["id"] not in layers(cove)


def test_the_hosts_image(new_home):
    cove = new_home()
    cove("create", "--name", "dev").ok()
    cove.sh("dev", "echo one > ~/a")
    take(cove, "dev", "s1")
    cove.sh("dev", "echo two > ~/a")
    cove("fork", "s1", "--name", "f").ok()
    assert cove.sh("f", "cat ~/a; echo /usr/bin/en[v]")["stdout"] == "one\n/usr/bin/env\n"
    cove("rollback", "dev", "s1").ok()
    assert cove.sh("dev", "cat ~/a")["stdout"] == "one\n"
    cove.fails("unsupported", "image", "save", "dev", "mine")


@needs_root
def test_in_the_pool(new_home):
    """What a snapshot and a fork take there does not grow with what was written, and nothing is left."""
    cove = new_home()
    cove("create", "--name", "first").ok()
    if cove("doctor", "--setup-storage", "--size", "2G", timeout=120).rc != 0:
        pytest.skip("no pool here: Linux 6.7 and mkfs.btrfs are needed")
    try:
        cove("create", "--name", "dev", "--workspace", "sp").ok()
        assert cove.inspect("dev")["storage"] == "pool"
        cove.sh("dev", "cd; echo one > a; mkdir d; for i in $(seq 500); do echo $i > d/$i; done; echo w > /workspace/w")
        made = take(cove, "dev", "s1")
        assert made["storage"] == "pool" and len(made["layers"]) == 1
        cove.sh("dev", "cd; echo two > a; rm -r d; rm /workspace/w")
        cove("fork", "s1", "--name", "f").ok()
        assert cove.sh("f", "cat ~/a /workspace/w; find ~/d -type f | wc -l")["stdout"] == "one\nw\n500\n"
        take(cove, "f", "s2")
        cove.sh("f", "rm ~/a /workspace/w")
        cove("rollback", "f", "s2").ok()
        assert cove.sh("f", "cat ~/a /workspace/w")["stdout"] == "one\nw\n"
        cove("rollback", "dev", "s1").ok()
        assert cove.sh("dev", "cat ~/a /workspace/w; find ~/d -type f | wc -l")["stdout"] == "one\nw\n500\n"
        assert len(os.listdir(cove.home + "/pool/layers")) >= 2
    finally:
        cove("rm", "-f", *cove.names()).ok()
        for verb in ("snapshot", "workspace"):
            cove(verb, "rm", *cove(verb, "ls", "-q").text.split())
        assert os.listdir(cove.home + "/pool/layers") == []
        cove("doctor", "--remove-storage").ok()
