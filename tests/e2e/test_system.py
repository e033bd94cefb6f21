"""What Cove keeps on disk: how much (df), what can go (gc, prune), whether it is whole (verify)."""
import fcntl
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import threading

import pytest
from conftest import wait_until

FILES = {"bin/sh": b"#!/bin/sh\n", "usr/data": b"x" * 300_000}


def rootfs(tmp, name, **more):
    """A tar of a root filesystem with few files."""
    path = tmp / f"{name}.tar"
    with tarfile.open(path, "w") as tar:
        for at, data in {**FILES, **{k: v.encode() for k, v in more.items()}}.items():
            info = tarfile.TarInfo(at)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def home_of(cove):
    return pathlib.Path(cove.home)


def usage(cove):
    return {row["what"]: row for row in json.loads(cove("system", "df", "--json").ok().text)}


def layers(cove):
    return sorted(p.name for p in (home_of(cove) / "layers").iterdir() if len(p.name) == 64)


def make_layer(cove, digit):
    """A layer that nothing refers to."""
    path = home_of(cove) / "layers" / (digit * 64) / "rootfs"
    path.mkdir(parents=True)
    (path / "file").write_bytes(b"y" * 50_000)
    return digit * 64


def blob(cove, data):
    name = hashlib.sha256(data).hexdigest()
    (home_of(cove) / "blobs").mkdir(exist_ok=True, mode=0o700)
    (home_of(cove) / "blobs" / name).write_bytes(data)
    return name


@pytest.fixture
def home(new_home, tmp):
    """A state directory with two images, one of which has two names."""
    cove = new_home()
    cove("image", "import", "one", rootfs(tmp, "one", etc_a="1")).ok()
    cove("image", "import", "two", rootfs(tmp, "two", etc_a="2")).ok()
    cove("image", "tag", "one", "again").ok()
    return cove


def test_df(home):
    rows = usage(home)
    assert rows["images"]["count"] == 3 and rows["layers"]["count"] == 2
    assert rows["layers"]["bytes"] > 600_000 and rows["layers"]["reclaimable_bytes"] == 0
    # Both names of the first image stand on one layer.
    assert 300_000 < rows["layers"]["shared_bytes"] < rows["layers"]["bytes"]
    make_layer(home, "c")
    rows = usage(home)
    assert rows["layers"]["count"] == 3 and rows["layers"]["reclaimable_bytes"] >= 50_000
    assert "layers" in home("system", "df").ok().text
    home("image", "rm", "two").ok()
    assert usage(home)["images"]["count"] == 2 and usage(home)["layers"]["count"] == 2


def test_df_of_nothing(new_home):
    cove = new_home()
    assert usage(cove)["images"]["count"] == 0
    assert not os.path.exists(cove.home)


def test_gc_removes_what_nothing_refers_to(home):
    kept = layers(home)
    lost = make_layer(home, "c")
    got = home("image", "gc", "--dry-run").ok()
    assert lost in got.text and lost in layers(home)
    result = json.loads(home("image", "gc", "--json").ok().text)
    assert result["layers"] == 1 and result["bytes"] >= 50_000 and not result["dry_run"]
    assert layers(home) == kept
    assert not [p for p in (home_of(home) / "layers").iterdir() if p.name.startswith(".")]
    assert json.loads(home("image", "gc", "--json").ok().text)["layers"] == 0


def test_gc_keeps_what_a_box_stands_on(home):
    """A box has its layers in its own record: its image may have another by now."""
    box = home("create", "--image", "two").ok().text.strip()
    before = layers(home)
    home("stop", box)
    home("image", "tag", "one", "two").ok()
    home("image", "gc").ok()
    assert layers(home) == before
    home("rm", box).ok()
    home("image", "gc").ok()
    assert len(layers(home)) == 1


def test_gc_keeps_what_a_snapshot_stands_on(home):
    box = home("create", "--image", "two", "--name", "b").ok().text.strip()
    home("stop", box)
    home("snapshot", "create", box, "s").ok()
    home("rm", box).ok()
    home("image", "rm", "two").ok()
    before = layers(home)
    assert len(before) >= 2 and json.loads(home("image", "gc", "--json").ok().text)["layers"] == 0
    assert layers(home) == before and usage(home)["snapshots"]["count"] == 1 and problems(home) == []
    home("snapshot", "rm", "s").ok()
    home("image", "gc").ok()
    assert len(layers(home)) == 1


def test_gc_removes_nothing_where_a_record_cannot_be_read(home):
    lost = make_layer(home, "c")
    record = home_of(home) / "images/one"
    good = record.read_bytes()
    record.write_bytes(good[:-5])
    got = home("image", "gc")
    assert got.rc == 125 and lost in layers(home) and len(layers(home)) == 3
    record.write_bytes(good)
    home("image", "gc").ok()
    assert lost not in layers(home)


def test_gc_removes_nothing_where_a_boxs_record_is_damaged(home):
    """What it stood on is not known, and the message tells its owner to save what is needed first."""
    box = home("create", "--image", "two").ok().text.strip()
    home("stop", box).ok()
    home("image", "tag", "one", "two").ok()
    before = layers(home)
    record = home_of(home) / "boxes" / box / "record"
    record.write_bytes(record.read_bytes()[:-5])
    assert home("image", "gc").rc == 125 and layers(home) == before
    home("image", "rm", "again").ok()
    assert layers(home) == before
    home("rm", "-f", box).ok()
    home("image", "gc").ok()
    assert len(layers(home)) == 1


def test_verify_looks_at_what_a_box_is_to_become(home):
    box = home("create", "--image", "two").ok().text.strip()
    home("stop", box).ok()
    begun = home_of(home) / "boxes" / box / "rollback"
    begun.write_text("sum crc32c:00000000\ntoken x\n")
    assert [kind for kind, _, *_ in problems(home)] == ["box"]
    begun.unlink()
    home("rm", box).ok()


def test_gc_of_blobs(home):
    layer, config = blob(home, b"a compressed layer"), blob(home, b'{"a": 1}')
    manifest = blob(home, json.dumps({"config": {"digest": f"sha256:{config}"},
                                      "layers": [{"digest": f"sha256:{layer}"}]}).encode())
    lost = blob(home, b"nothing names this")
    record = home_of(home) / "images/one"
    lines = [line for line in record.read_text().splitlines() if not line.startswith("sum ")]
    # Without its sum a record is an older Cove's, and read as it is.
    record.write_text("\n".join(lines + [f"digest {manifest}", f"config {config}"]) + "\n")
    assert home("system", "verify").rc == 0
    part = home_of(home) / "blobs" / (".part-" + "d" * 64)
    part.write_bytes(b"some")
    new = home_of(home) / "blobs/.new-0123456789abcdef"
    new.write_bytes(b"half")
    assert usage(home)["blobs"]["reclaimable_bytes"] == len(b"nothing names this") + len(b"some") + len(b"half")
    # The blobs of images that --all removes are counted, and each command removes what it promised.
    everything = json.loads(home("system", "prune", "--all", "--dry-run", "--json").ok().text)
    assert everything["blobs"] == 4
    promised = json.loads(home("system", "prune", "--dry-run", "--json").ok().text)
    assert promised["blobs"] == 1 and promised["bytes"] == usage(home)["blobs"]["reclaimable_bytes"]
    assert new.exists() and part.exists()
    assert json.loads(home("image", "gc", "--json").ok().text)["blobs"] == 1
    left = {p.name for p in (home_of(home) / "blobs").iterdir()}
    assert {layer, config, manifest} <= left and lost not in left and part.name in left
    home("system", "prune").ok()
    assert not part.exists()
    home("image", "rm", "one").ok()
    assert json.loads(home("image", "gc", "--json").ok().text)["blobs"] == 3


def test_prune(home, tmp):
    box = home("create", "--image", "two").ok().text.strip()
    home("stop", box)
    make_layer(home, "c")
    assert json.loads(home("system", "prune", "--json").ok().text)["layers"] == 1
    assert home.names() == [box] and len(home("image", "ls", "-q").ok().text.split()) == 4
    got = json.loads(home("system", "prune", "--all", "--boxes", "--dry-run", "--json").ok().text)
    assert got["boxes"] == 1 and got["images"] == 2 and home.names() == [box]
    # --all leaves the image that a box uses.
    assert json.loads(home("system", "prune", "--all", "--json").ok().text)["images"] == 2
    assert home("image", "ls", "-q").ok().text.split() == ["two", "host"]
    log = {"COVE_LOG": str(tmp / "events")}
    got = json.loads(home("system", "prune", "--all", "--boxes", "--json", env=log).ok().text)
    assert got["boxes"] == 1 and got["images"] == 1 and home.names() == []
    assert layers(home) == []
    # As of `cove rm`.
    said = [json.loads(line) for line in (tmp / "events").read_text().splitlines()]
    assert [(e["event"], e["box"], e["cause"]) for e in said] == [("close", box, "removed")]


def test_prune_takes_the_layers_of_a_fork(home):
    box = home("create").ok().text.strip()
    home("exec", "-u", "root", box, "--", "touch", "/var/tmp/x").ok()
    home("fork", box, "--name", "fork").ok()
    home("rm", "-f", box).ok()
    home("stop", "fork").ok()
    before = layers(home)
    assert json.loads(home("system", "prune", "--boxes", "--json").ok().text)["boxes"] == 1
    assert home.names() == [] and len(layers(home)) < len(before)


def test_verify_of_names_that_no_tar_holds(home):
    """A box may call its files so; its snapshot is whole."""
    box = home("create").ok().text.strip()
    home("exec", "-u", "root", box, "--", "touch", "/var/tmp/.wh.x").ok()
    home("snapshot", "create", box, "odd").ok()
    assert problems(home, "--deep") == []
    assert json.loads(home("system", "verify", "--deep", "--json").ok().text)["not_compared"] == 1
    assert json.loads(home("system", "verify", "--json").ok().text)["not_compared"] == 0
    assert "1 layer of snapshots not compared" in home("system", "verify", "--deep").ok().errors


def test_prune_leaves_running_boxes(home):
    box = home("create").ok().text.strip()
    assert json.loads(home("system", "prune", "--boxes", "--json").ok().text)["boxes"] == 0
    assert home("exec", box, "--", "true").rc == 0


def problems(cove, *args):
    got = cove("system", "verify", "--json", *args)
    found = json.loads(got.text)
    assert got.rc == (1 if found["damaged"] else 0) and found["damaged"] == len(found["problems"])
    return [(p["kind"], p["name"]) for p in found["problems"]]


def test_verify_says_what_is_damaged(home):
    assert problems(home) == [] and problems(home, "--deep") == []
    record = home_of(home) / "images/one"
    good = record.read_bytes()
    record.write_bytes(good.replace(b"layer ", b"lbyer "))
    assert ("image", "one") in problems(home)
    record.write_bytes(good)
    assert problems(home) == []
    bad = blob(home, b"whole")
    (home_of(home) / "blobs" / bad).write_bytes(b"wrong")
    assert problems(home) == [("blob", bad)]
    # It is moved aside, and said until it is back or no longer needed.
    assert problems(home) == [("blob", bad)] and not (home_of(home) / "blobs" / bad).exists()
    home("image", "gc").ok()
    assert problems(home) == [] and not list((home_of(home) / "blobs").iterdir())
    box = home("create", "--image", "two").ok().text.strip()
    home("stop", box)
    spec = home_of(home) / "boxes" / box / "record"
    text = spec.read_bytes()
    spec.write_bytes(text.replace(b"image two", b"image twx", 1))
    assert ("box", box) in problems(home)
    spec.write_bytes(text)


def spoil(path):
    """A file of a layer, which may be another id's."""
    subprocess.run(["unshare", "--user", "--map-root-user", "--map-auto", "sh", "-c", f"echo z >>{path}"]
                   if os.geteuid() else ["sh", "-c", f"echo z >>{path}"], check=True)


def layer_file(cove, layer, name="usr/data"):
    return home_of(cove) / "layers" / layer / "rootfs" / name


def test_verify_deep_sees_a_changed_file(home):
    layer = [name for name in layers(home)][0]
    assert problems(home, "--deep") == []
    spoil(layer_file(home, layer))
    assert problems(home) == []
    assert problems(home, "--deep") == [("layer", layer)]


def image_layer(cove, name):
    """The last layer of an image."""
    return json.loads(cove("image", "inspect", name).ok().text)["layers"][-1]["id"]


def test_verify_deep_knows_what_cove_made(new_home, tmp):
    """Its own layers have their hash from the beginning: not even a first look takes damage for what they are."""
    cove = new_home()
    tree = tmp / "tree"
    (tree / "usr").mkdir(parents=True)
    (tree / "usr/data").write_text("of a directory\n")
    (tree / "usr/link").symlink_to("data")
    (tree / "Dockerfile").write_text("FROM dir\nCOPY usr/data /usr/built\n")
    cove("image", "import", "dir", tree).ok()
    cove("image", "build", "-t", "built", tree).ok()
    made = {image_layer(cove, "dir"): "usr/data", image_layer(cove, "built"): "usr/built"}
    assert len(made) == 2 and problems(cove, "--deep") == []
    for layer in made:
        (home_of(cove) / "layers" / layer / "tree").read_text()
    for layer, name in made.items():
        spoil(layer_file(cove, layer, name))
    for _ in range(2):
        assert sorted(problems(cove, "--deep")) == sorted(("layer", layer) for layer in made)


def test_verify_deep_knows_a_saved_image(cove, shared):
    cove("exec", shared, "--", "sh", "-c", "echo mine >/var/tmp/mine").ok()
    cove("image", "save", shared, "spoiled").ok()
    layer = image_layer(cove, "spoiled")
    try:
        spoil(layer_file(cove, layer, "var/tmp/mine"))
        for _ in range(2):
            assert ("layer", layer) in problems(cove, "--deep")
    finally:
        cove("image", "rm", "spoiled").ok()


def test_verify_deep_keeps_what_it_found_right(home, new_home, tmp):
    """Of a layer that came as a tar of the canonical form, which has the hash that it came with."""
    other = new_home()
    tree = tmp / "tree"
    (tree / "usr").mkdir(parents=True)
    (tree / "usr/data").write_text("of a directory\n")
    home("image", "import", "dir", tree).ok()
    home("image", "export", "dir", tmp / "oci").ok()
    other("image", "import", tmp / "oci", "--name", "dir").ok()
    layer = image_layer(other, "dir")
    assert not (home_of(other) / "layers" / layer / "tree").exists()
    assert problems(other, "--deep") == []
    assert layer in (home_of(other) / "layers" / layer / "tree").read_text()
    spoil(layer_file(other, layer))
    for _ in range(2):
        assert problems(other, "--deep") == [("layer", layer)]


def test_verify_sees_a_layer_that_is_gone(home):
    layer = layers(home)[0]
    (home_of(home) / "layers" / layer).rename(home_of(home) / "layers/elsewhere")
    found = problems(home)
    assert found and all(kind == "image" for kind, _ in found)
    (home_of(home) / "layers/elsewhere").rename(home_of(home) / "layers" / layer)
    assert problems(home) == []


def test_without_the_catalogue(home):
    """It is derived: deleted or overwritten, nothing is lost."""
    before = usage(home)
    for spoil in (lambda p: p.unlink(), lambda p: p.write_bytes(b"no database" * 1000), lambda p: p.write_bytes(b"")):
        spoil(home_of(home) / "cove.db")
        after = usage(home)
        assert {k: v for k, v in after.items() if k != "catalogue"} == \
            {k: v for k, v in before.items() if k != "catalogue"}
        assert problems(home) == []


def test_gc_beside_imports(home, tmp):
    """What is being made is never taken for unused."""
    files = [rootfs(tmp, f"more{i}", etc_a=str(i)) for i in range(6)]
    stop = threading.Event()
    failed = []

    def collect():
        while not stop.is_set():
            got = home("image", "gc")
            if got.rc:
                failed.append(got)

    worker = threading.Thread(target=collect)
    worker.start()
    for i, file in enumerate(files):
        home("image", "import", f"more{i}", file).ok()
    stop.set()
    worker.join()
    assert not failed and problems(home, "--deep") == []
    for i in range(len(files)):
        home("image", "inspect", f"more{i}").ok()


def helpers(cove):
    """Processes of cove-store for this state directory."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (path / "comm").read_text().strip() == "cove-store" and \
                    f"COVE_HOME={cove.home}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_helper_ends_with_its_caller(home, number):
    """It waits for the layers' lock, which we hold."""
    fd = os.open(home_of(home) / "layers", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    program = home.start("image", "gc")
    wait_until(lambda: helpers(home))
    program.send_signal(number)
    program.communicate()
    wait_until(lambda: not helpers(home))
    os.close(fd)
    home("image", "gc").ok()


def test_many_at_once(home, tmp):
    """Questions to one catalogue, from processes that all make it at the same time."""
    for path in home_of(home).glob("cove.db*"):
        path.unlink()
    programs = [home.start("system", "df", "--json") for _ in range(12)]
    answers = [json.loads(p.communicate()[0]) for p in programs]
    assert all(p.returncode == 0 for p in programs)
    counts = {tuple((r["what"], r["count"]) for r in rows if r["what"] != "catalogue") for rows in answers}
    assert len(counts) == 1 and problems(home) == []


@pytest.mark.parametrize("args", [["system"], ["system", "frob"], ["system", "df", "x"], ["system", "prune", "x"],
                                  ["image", "gc", "x"], ["system", "df", "--deep"]])
def test_wrong_arguments(new_home, args):
    assert new_home()(*args).refused(rc=2).out == b""
