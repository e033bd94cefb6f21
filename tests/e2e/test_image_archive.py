"""Images from and to archives: import recognises what it gets, export gives it back, and nothing hostile stays."""
import bz2
import gzip
import json
import lzma
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import DEADLINE, IS_ROOT, LIB, PREFIX, remove_tree, short_dir, wait_until
from conftest import Cove, forget_home
from image_kit import Layout, config_of, d, digest_of, docker_save, f, files_of, link, sha, tar, tiny_root

sys.path.insert(0, str(LIB.parent / "data/archives"))
import hostile  # noqa: E402

pytestmark = pytest.mark.once("root")

ROOT = tar(*tiny_root())
SH = ["/bin/sh", "-c"]


@pytest.fixture
def store(own_store):
    """Empty again after a test that failed."""
    yield own_store
    left = [n for n in own_store("image", "ls", "-q").text.split() if n != "host"]
    if left:
        own_store("image", "rm", *left)
        own_store("image", "gc")


@pytest.fixture(scope="module")
def own_store():
    """A state directory of its own: what it holds is compared."""
    folder = short_dir()
    cove = Cove(folder + "/h")
    yield cove
    forget_home(cove)
    remove_tree(folder)


def held(cove):
    """All names in it that an import could leave."""
    return {part: sorted(os.listdir(path)) for part in ("images", "layers", "blobs")
            if os.path.isdir(path := os.path.join(cove.home, part))}


def forget(cove, *names):
    for name in names:
        cove("image", "rm", name).ok()
    cove("image", "gc").ok()
    assert not any(held(cove).get(part) for part in ("layers", "blobs")), held(cove)


def told(cove, *args, **kw):
    return [json.loads(line) for line in cove("image", "import", "--json", *args, **kw).ok().text.splitlines()]


def sh(cove, image, line, *flags):
    return cove("run", "--image", image, *flags, "--entrypoint", "", "--", *SH, line)


# ---- root filesystems ----

@pytest.mark.parametrize("how", ["plain", "gzip", "xz", "bzip2", "zstd"])
def test_a_root_filesystem(store, how, tmp):
    data = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}.get(how, bytes)(ROOT)
    if how == "zstd":
        if not shutil.which("zstd"):
            pytest.skip("no zstd program to make one with")
        data = subprocess.run(["zstd", "-qc"], input=ROOT, capture_output=True, check=True).stdout
    got, = told(store, "tiny", "-", input=data)
    assert got["name"] == "tiny" and got["digest"] is None and got["layers"] == 1
    if IS_ROOT:
        assert got["id"] == sha(ROOT)
    assert sh(store, "tiny", "echo $((6 * 7))").ok().text == "42\n"
    ends = {"plain": "", "gzip": ".gz", "xz": ".xz", "bzip2": ".bz2", "zstd": ".zst"}
    path = tmp / f"My Tools.tar{ends[how]}"
    path.write_bytes(data)
    assert told(store, path)[0]["name"] == "my-tools"
    forget(store, "tiny", "my-tools")


def test_a_directory(store, tmp):
    root = tmp / "Root"
    root.mkdir()
    subprocess.run(["tar", "-x", "--no-same-owner", "-C", root], input=ROOT, check=True)
    (root / "etc/mine").write_text("x\n")
    os.symlink("/etc/shadow", root / "etc/link")
    got, = told(store, root)
    assert got["name"] == "root"
    # What an ordinary user made is root's in an image.
    line = "read x </etc/mine; echo $x; test -O /etc/mine && echo own; test -w /etc/mine && echo may; true"
    assert sh(store, "root", line, "-u", "1000").ok().text == "x\n"
    assert told(store, root)[0]["id"] == got["id"]
    forget(store, "root")


def test_names_and_wrong_words(store, tmp):
    path = tmp / "x.tar"
    path.write_bytes(ROOT)
    store("image", "import", "a", path, "--name", "b").refused(2)
    store.fails("not_found", "image", "import", "a", tmp / "nothing")
    store.fails("invalid", "image", "import", "host", path, rc=125)
    store.fails("invalid", "image", "import", "-", input=ROOT, rc=125)  # what is it to be called?
    store.fails("invalid", "image", "import", "A B", path, rc=125)
    assert held(store).get("layers", []) == []


# ---- layouts and docker save ----

LOWER = tar(*tiny_root(), d("data/"), f("data/old", b"old"), f("data/gone", b"gone"), d("all/"), f("all/old", b"old"))
UPPER = tar(f("data/.wh.gone", b""), f("data/new", b"new"), d("all/"), f("all/.wh..wh..opq", b""), f("all/new", b"new"))
RUN = {"User": "1000:1000", "Env": ["A=b c"], "WorkingDir": "/data", "Entrypoint": SH, "Cmd": ["echo $A; pwd"]}


def check_image(cove, name):
    assert cove("run", "--image", name).ok().text == "b c\n/data\n"
    assert cove("run", "--image", name, "--", "echo *").ok().text == "new old\n"
    assert cove("run", "--image", name, "--", "cd /all; echo *").ok().text == "new\n"


@pytest.mark.parametrize("form", ["tar", "gzip", "dir", "plain-layers"])
def test_a_layout(store, form, tmp):
    layout = Layout([LOWER, UPPER], RUN, packed=form != "plain-layers")
    if form == "dir":
        got, = told(store, layout.write(tmp / "layout"))
    else:
        data = layout.tar()
        got, = told(store, "-", input=gzip.compress(data) if form == "gzip" else data)
    assert got["name"] == "app:1" and got["digest"] == "sha256:" + layout.digest and got["layers"] == 2
    assert got["config"] == "sha256:" + sha(layout.config)
    check_image(store, "app:1")
    forget(store, "app:1")


def test_docker_save(store):
    got = told(store, "-", input=docker_save([LOWER, UPPER], RUN, tags=["app:1", "registry.test:5000/app"]))
    assert [g["name"] for g in got] == ["app:1", "registry.test:5000/app"] and got[0]["digest"] == got[1]["digest"]
    check_image(store, "registry.test:5000/app")
    # One layer under several names, as Docker wrote it, and always the same manifest.
    forget(store, "app:1", "registry.test:5000/app")
    again = told(store, "--name", "mine", "-", input=docker_save([LOWER, UPPER], RUN))
    assert again[0]["digest"] == got[0]["digest"]
    assert store("image", "inspect", "mine").ok().json["config"]["user"] == "1000:1000"
    forget(store, "mine")


@pytest.mark.parametrize("form", ["layout", "docker"])
def test_layers_without_an_end(store, form, tmp):
    """Some writers leave out the two zero blocks; a layer's digest says that it is whole all the same."""
    layers = [layer[:-1024] for layer in (LOWER, UPPER)]
    told(store, "-", input=Layout(layers, RUN).tar() if form == "layout" else docker_save(layers, RUN))
    check_image(store, "app:1")
    forget(store, "app:1")
    # No digest guards a plain tar: its writer may have been killed between two files.
    store.fails("invalid", "image", "import", "plain", "-", input=LOWER[:-1024], rc=125)


@pytest.mark.parametrize("form", ["layout", "docker"])
def test_an_archive_takes_no_images_place_by_itself(store, form):
    def archive(layers):
        return Layout(layers, RUN).tar() if form == "layout" else docker_save(layers, RUN, tags=["new:1", "app:1"])
    first, = told(store, "--name", "app:1", "-", input=archive([LOWER, UPPER]))
    before = held(store)
    done = store.fails("exists", "image", "import", "-", input=archive([LOWER]), rc=125)
    assert "'app:1'" in str(done) and "--name" in str(done)
    assert held(store) == before
    # The same image is no other one, and the caller's word is enough.
    names = [g["name"] for g in told(store, "-", input=archive([LOWER, UPPER]))]
    assert names == (["app:1"] if form == "layout" else ["new:1", "app:1"])
    again, = told(store, "--name", "app:1", "-", input=archive([LOWER]))
    assert again["digest"] != first["digest"]
    forget(store, *names)


def test_a_linked_layer_and_several_images(store):
    config = config_of([LOWER, LOWER], RUN)
    text = [{"Config": sha(config) + ".json", "RepoTags": ["one:1"], "Layers": ["a/layer.tar", "b/layer.tar"]},
            {"Config": sha(config) + ".json", "RepoTags": ["two:1"], "Layers": ["b/layer.tar", "b/layer.tar"]}]
    data = tar(f("a/layer.tar", LOWER), link("b/layer.tar", "../a/layer.tar"), f(sha(config) + ".json", config),
               f("manifest.json", json.dumps(text).encode()))
    data = tar(f(sha(config) + ".json", config), data[:-1024])
    store.fails("invalid", "image", "import", "-", input=data, rc=125)  # a name twice
    data = tar(f(sha(config) + ".json", config), f("a/layer.tar", LOWER), link("b/layer.tar", "../a/layer.tar"),
               f("manifest.json", json.dumps(text).encode()))
    assert [g["name"] for g in told(store, "-", input=data)] == ["one:1", "two:1"]
    assert len(held(store)["layers"]) == 1
    assert store("run", "--image", "two:1", "--", "echo *").ok().text == "gone old\n"
    forget(store, "one:1", "two:1")


def test_one_of_several_platforms(store, tmp):
    here, other = Layout([LOWER], RUN, name=None), Layout([UPPER], RUN, name=None)
    files = {**other.pack(), **here.pack()}
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    index = json.loads(files["index.json"])
    index["manifests"] = [
        {**json.loads(o.pack()["index.json"])["manifests"][0], "platform": {"os": "linux", "architecture": a}}
        for o, a in ((other, "s390x"), (here, arch))]
    files["index.json"] = json.dumps(index).encode()
    data = tar(*(f(name, blob) for name, blob in files.items()))
    assert told(store, "--name", "x", "-", input=data)[0]["digest"] == "sha256:" + here.digest
    assert told(store, "--name", "x", "--platform", "linux/s390x", "-", input=data)[0]["digest"] == \
        "sha256:" + other.digest
    store.fails("not_found", "image", "import", "--name", "x", "--platform", "linux/riscv64", "-", input=data)
    forget(store, "x")


# ---- export ----

def test_what_came_goes_out_byte_for_byte(store, tmp):
    layout = Layout([LOWER, UPPER], RUN)
    told(store, "-", input=layout.tar())
    for form, flags in (("oci", []), ("docker", ["--format", "docker"])):
        out = tmp / (form + ".tar")
        got = store("image", "export", "app:1", out, "--json", *flags).ok().json
        assert got["digest"] == "sha256:" + layout.digest and got["original"] and got["format"] == form
        files = files_of(out.read_bytes())
        came = layout.pack()
        assert {n: files[n] for n in came if n.startswith("blobs/")} == \
            {n: came[n] for n in came if n.startswith("blobs/")}
        assert digest_of(out.read_bytes()) == got["digest"]
        assert store("image", "export", "app:1", "-", *flags).ok().out == out.read_bytes()
    docker = json.loads(files["manifest.json"])[0]
    assert docker["RepoTags"] == ["app:1"] and files[docker["Config"]] == layout.config
    store("image", "export", "app:1", f"{tmp}/dir/").ok()
    assert (tmp / "dir/blobs/sha256" / layout.digest).exists()
    forget(store, "app:1")
    # All of them are images again, of the same digest.
    for source in (tmp / "oci.tar", tmp / "docker.tar", tmp / "dir"):
        assert told(store, source)[0]["digest"] == "sha256:" + layout.digest
        check_image(store, "app:1")
        forget(store, "app:1")


def test_what_came_without_digests_is_packed_always_alike(store, new_home, tmp):
    store("image", "import", "tiny", "-", input=ROOT).ok()
    first = store("image", "export", "tiny", tmp / "a.tar", "--json").ok().json
    second = store("image", "export", "tiny", tmp / "b.tar", "--json").ok().json
    assert first["digest"] == second["digest"] == digest_of((tmp / "a.tar").read_bytes()) and not first["original"]
    assert (tmp / "a.tar").read_bytes() == (tmp / "b.tar").read_bytes()
    other = new_home()
    other("image", "import", "tiny", "-", input=ROOT).ok()
    assert other("image", "export", "tiny", tmp / "c.tar", "--json").ok().json["digest"] == first["digest"]
    got, = told(other, "--name", "back", tmp / "a.tar")
    assert got["digest"] == first["digest"] and sh(other, "back", "echo $((6 * 7))").text == "42\n"
    forget(store, "tiny")


def test_the_root_filesystem_of_an_image(store, tmp):
    told(store, "-", input=Layout([LOWER, UPPER], RUN).tar())
    store("image", "export", "app:1", tmp / "root.tar", "--format", "tar").ok()
    files = files_of((tmp / "root.tar").read_bytes())
    assert {n: data for n, data in files.items() if n.startswith(("data/", "all/"))} == \
        {"data/old": b"old", "data/new": b"new", "all/new": b"new"}
    assert not [n for n in files if ".wh." in n]
    got, = told(store, "flat", tmp / "root.tar")
    assert sh(store, "flat", "cd /data; echo *; cd /all; echo *").text == "new old\nnew\n" and got["layers"] == 1
    forget(store, "app:1", "flat")


def test_export_into_a_directory_that_is_there(store, tmp):
    """It is the user's: written into if it is empty, kept as it is if the export fails."""
    store("image", "import", "tiny", "-", input=ROOT).ok()
    own = tmp / "own"
    own.mkdir(mode=0o750)
    before = own.stat()
    store.fails("not_found", "image", "export", "nosuch", own)
    store.fails("unsupported", "image", "export", "host", own)
    assert own.stat().st_ino == before.st_ino and not os.listdir(own)
    (tmp / "link").symlink_to("own")
    store("image", "export", "tiny", tmp / "link").ok()
    assert own.stat().st_ino == before.st_ino and own.stat().st_mode == before.st_mode
    assert (own / "oci-layout").exists() and (tmp / "link").is_symlink()
    kept = sorted(os.listdir(own))
    assert "not empty" in store("image", "export", "tiny", own).refused(125).errors
    assert sorted(os.listdir(own)) == kept
    store("image", "import", "again", own).ok()
    forget(store, "tiny", "again")


@pytest.mark.skipif(not IS_ROOT, reason="needs to mount")
def test_export_into_a_mount_point(store, tmp):
    store("image", "import", "tiny", "-", input=ROOT).ok()
    (tmp / "m").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tmp / "m"], check=True)
    try:
        store.fails("not_found", "image", "export", "nosuch", tmp / "m")
        store("image", "export", "tiny", tmp / "m").ok()
        assert "index.json" in os.listdir(tmp / "m")
    finally:
        subprocess.run(["umount", tmp / "m"], check=True)
    forget(store, "tiny")


def test_tag_over_the_last_name_of_an_image(store):
    """It says what the name meant, and nothing is gone before `image gc`."""
    store("image", "import", "tiny", "-", input=ROOT).ok()
    store("image", "import", "other", "-", input=tar(*tiny_root(), f("only", b"x"))).ok()
    ids = {i["name"]: i["id"] for i in store("image", "ls", "--json").ok().json if i["name"] != "host"}
    layers = held(store)["layers"]
    done = store("image", "tag", "tiny", "other:latest").ok()
    assert ids["other"][:12] in done.errors and "cove image gc" in done.errors, done
    assert held(store)["layers"] == layers
    assert not store("image", "tag", "tiny", "other").ok().errors
    store("image", "gc").ok()
    assert len(held(store)["layers"]) == 1
    forget(store, "tiny", "other")


def test_make_with_packages_needs_a_name(store):
    for args in (["--add", "vim"], ["--from", "tiny", "--add", "vim"]):
        assert "NAME" in store("image", "make", *args).refused(2).errors


def test_export_that_fails_leaves_nothing(store, tmp):
    store("image", "import", "tiny", "-", input=ROOT).ok()
    store.fails("not_found", "image", "export", "nothing", tmp / "x.tar")
    store.fails("unsupported", "image", "export", "host", tmp / "x.tar")
    store("image", "export", "tiny", tmp / "x.tar", "--format", "frob").refused(2)
    (tmp / "full").mkdir()
    (tmp / "full/file").write_text("mine")
    store("image", "export", "tiny", tmp / "full").refused(125)
    store("image", "export", "tiny", tmp / "no/where.tar").refused(125)
    assert sorted(os.listdir(tmp)) == ["full"] and os.listdir(tmp / "full") == ["file"]
    (tmp / "x.tar").write_text("before")
    store("image", "export", "tiny", tmp / "x.tar").ok()
    assert digest_of((tmp / "x.tar").read_bytes())
    forget(store, "tiny")


# ---- other people's tools ----

def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: Debian's packages of that name make the images of this test")


def raw_digest(source):
    done = subprocess.run(["skopeo", "inspect", "--raw", source], capture_output=True, check=True)
    return "sha256:" + sha(done.stdout)


def test_umoci(store, tmp):
    need("umoci", "skopeo")

    def umoci(*args):
        subprocess.run(["umoci", *args], check=True, cwd=tmp, capture_output=True)
    root = [] if IS_ROOT else ["--rootless"]
    umoci("init", "--layout", "l")
    umoci("new", "--image", "l:v1")
    umoci("unpack", *root, "--image", "l:v1", "one")
    subprocess.run(["tar", "-x", "-C", tmp / "one/rootfs"], input=LOWER, check=True)
    umoci("repack", "--image", "l:v1", "one")
    umoci("config", "--image", "l:v1", "--config.entrypoint", "/bin/sh", "--config.entrypoint", "-c",
          "--config.cmd", "echo $A; pwd", "--config.env", "A=b c", "--config.workingdir", "/data")
    umoci("unpack", *root, "--image", "l:v1", "two")
    (tmp / "two/rootfs/data/gone").unlink()
    (tmp / "two/rootfs/data/new").write_text("new")
    shutil.rmtree(tmp / "two/rootfs/all")
    (tmp / "two/rootfs/all").mkdir()
    (tmp / "two/rootfs/all/new").write_text("new")
    umoci("repack", "--image", "l:v1", "two")
    got, = told(store, "--name", "app:1", tmp / "l")
    assert got["digest"] == raw_digest(f"oci:{tmp}/l:v1")
    check_image(store, "app:1")
    store("image", "export", "app:1", tmp / "out.tar").ok()
    assert raw_digest(f"oci-archive:{tmp}/out.tar") == got["digest"]
    forget(store, "app:1")


def test_skopeo_reads_what_is_packed_here(store, tmp):
    need("skopeo")
    store("image", "import", "tiny", "-", input=ROOT).ok()
    got = store("image", "export", "tiny", tmp / "a.tar", "--json", "--format", "docker").ok().json
    assert raw_digest(f"oci-archive:{tmp}/a.tar") == got["digest"]
    for kind, name in (("oci-archive", "b.tar"), ("docker-archive", "c.tar")):
        subprocess.run(["skopeo", "--insecure-policy", "copy", f"{kind}:{tmp}/a.tar",
                        f"docker-archive:{tmp}/{name}:app:2"], check=True, capture_output=True)
        assert [g["name"] for g in told(store, tmp / name)] == ["app:2"]
        assert sh(store, "app:2", "echo $((6 * 7))").ok().text == "42\n"
        store("image", "rm", "app:2").ok()
    forget(store, "tiny")


@pytest.mark.skipif(not IS_ROOT, reason="buildah's own storage needs more than an ordinary user has in a test")
def test_buildah(store, tmp):
    need("buildah", "skopeo")
    base = ["buildah", "--root", str(tmp / "root"), "--runroot", str(tmp / "run"), "--storage-driver", "vfs"]

    def buildah(*args):
        done = subprocess.run([*base, *map(str, args)], capture_output=True, text=True, cwd=tmp, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    (tmp / "files").mkdir()
    subprocess.run(["tar", "-x", "-C", tmp / "files"], input=LOWER, check=True)
    box = buildah("from", "scratch")
    buildah("copy", box, "files", "/")
    buildah("config", "--entrypoint", '["/bin/sh", "-c"]', "--cmd", "'echo $A; pwd'", "--env", "A=b c",
            "--workingdir", "/data", box)
    buildah("commit", box, "app:1")
    for kind, target in (("oci-archive", tmp / "a.tar"), ("docker-archive", f"{tmp}/b.tar:app:1"),
                         ("oci", tmp / "dir")):
        buildah("push", "app:1", f"{kind}:{target}")
    for source in (tmp / "a.tar", tmp / "b.tar", tmp / "dir"):
        got, = told(store, "--name", "app:1", source)
        assert store("run", "--image", "app:1").ok().text == "b c\n/data\n"
        store("image", "export", "app:1", tmp / "out.tar").ok()
        assert raw_digest(f"oci-archive:{tmp}/out.tar") == got["digest"]
        if source != tmp / "b.tar":
            assert got["digest"] == raw_digest(f"oci{'-archive' if source.is_file() else ''}:{source}")
        forget(store, "app:1")
        (tmp / "out.tar").unlink()


# ---- what is hostile ----

CASES = {name: (verdict, data) for name, verdict, data in hostile.all_cases()}
# As an ordinary user a sample: what reads them is the same.
NAMES = list(CASES) if IS_ROOT else list(CASES)[::4]


@pytest.fixture
def canaries(store):
    paths = [pathlib.Path(p) for p in ("/tmp/planted", "/etc/planted", "/planted", store.home + "/planted",
                                       store.home + "/layers/planted")]
    yield paths
    assert not [p for p in paths if p.exists()]


@pytest.mark.parametrize("name", NAMES)
def test_hostile(store, canaries, name):
    verdict, data = CASES[name]
    before = held(store)
    got = store("image", "import", "--json", "--name", "hostile", "--max-size", "64M", "-", input=data)
    assert got.rc == 0 and verdict == hostile.HARMLESS or got.rc in (2, 125) and verdict == hostile.REFUSED, repr(got)
    if got.rc:
        error = got.json["error"]
        assert error["kind"] in ("invalid", "limit", "unsupported", "protocol", "not_found") and error["message"], error
    else:
        check_harmless(store)
        forget(store, "hostile")
    assert {k: v for k, v in held(store).items() if v} == {k: v for k, v in before.items() if v}
    assert not [p for p in canaries if p.exists()]


def check_harmless(cove):
    """Nothing in its tree is a device but whiteouts, belongs to overlay or may more than a file."""
    todo = [os.path.join(cove.home, "layers", layer, "rootfs") for layer in os.listdir(cove.home + "/layers")]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                assert entry.stat(follow_symlinks=False).st_rdev == 0, entry.path
                marks = os.listxattr(entry.path, follow_symlinks=False) if not entry.is_symlink() else []
                assert not [a for a in marks if a != "security.selinux" and a != "user.overlay.opaque"], entry.path
                assert "user.overlay.opaque" not in marks or entry.name in "be", entry.path
                if entry.is_dir(follow_symlinks=False) and len(entry.path) < 3000:
                    todo.append(entry.path)


def test_bombs(store):
    zeros = gzip.compress(b"\0" * (64 << 20), 1)
    before = held(store)
    big = tar(f("a", b"\0" * (2 << 20)))
    for data in (gzip.compress(big), big, Layout([big]).tar(), lzma.compress(big)):
        store.fails("limit", "image", "import", "--max-size", "1M", "bomb", "-", input=data, rc=125)
    # Not a tar at all, however large it becomes.
    store.fails("invalid", "image", "import", "bomb", "-", input=gzip.compress(b"x" * 5000) + zeros, rc=125)
    assert held(store) == before


def test_a_million_directories_in_one_place(store):
    """One entry again and again: what is remembered of each is bounded, and it ends."""
    data = tar(d("usr/") * 100000, f("usr/a"))
    store("image", "import", "many", "-", input=gzip.compress(data, 1)).ok()
    forget(store, "many")


# ---- blobs that are there already ----

def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_layout_that_lies_beside_a_good_blob(store, tmp):
    """Its blob has a digest that the store has, and other content."""
    layout = Layout([LOWER, UPPER], RUN)
    store("image", "import", layout.write(tmp / "good")).ok()
    lying = pathlib.Path(layout.write(tmp / "lying")) / "blobs/sha256" / sha(layout.blobs[0])
    lying.write_bytes(flipped(lying.read_bytes()))
    store.fails("invalid", "image", "import", tmp / "lying", "--name", "liar", rc=125)
    assert store("system", "verify").rc == 0 and "liar" not in store("image", "ls").text
    forget(store, "app:1")


@pytest.mark.parametrize("form", ["dir", "tar"])
def test_a_damaged_blob_is_healed_by_an_import(store, tmp, form):
    layout = Layout([LOWER, UPPER], RUN)
    source = layout.write(tmp / "layout")
    if form == "tar":
        source = tmp / "layout.tar"
        source.write_bytes(layout.tar())
    store("image", "import", source).ok()
    blob = pathlib.Path(store.home, "blobs", sha(layout.blobs[0]))
    blob.write_bytes(flipped(blob.read_bytes()))
    store("image", "import", source, "--name", "app:1").ok()
    assert blob.read_bytes() == layout.blobs[0] and store("system", "verify").rc == 0
    forget(store, "app:1")


# ---- interrupted ----

def fed(cove, data, *args, **kw):
    """An import that has read data and waits for more."""
    client = cove.start("image", "import", *args, **kw)
    client.stdin.write(data)
    client.stdin.flush()
    return client


def half(kind):
    if kind == "root":
        return ROOT[:len(ROOT) - 2048]
    data = Layout([LOWER, UPPER], RUN).tar()
    return data[:len(data) - 2048]


def begun(cove, kind):
    """Something of it is on disk."""
    return lambda: any(n.startswith(".new-") for n in held(cove).get("layers" if kind == "root" else "blobs", [])) or \
        (kind != "root" and held(cove).get("blobs"))


@pytest.mark.parametrize("kind, whole_group", [("root", False), ("layout", False), ("root", True), ("layout", True)])
def test_interrupted(store, kind, whole_group):
    """Also as a terminal does it, whose signal is for cove-store, too."""
    before = held(store)
    client = fed(store, half(kind), "--name", "half", "-", start_new_session=whole_group)
    wait_until(begun(store, kind), "the import to begin")
    if whole_group:
        os.killpg(client.pid, signal.SIGINT)
    else:
        client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=DEADLINE)
    assert client.returncode == 130, err
    assert {k: v for k, v in held(store).items() if v} == {k: v for k, v in before.items() if v}


@pytest.mark.parametrize("kind", ["root", "layout"])
def test_killed(store, kind):
    client = fed(store, half(kind), "--name", "half", "-")
    wait_until(begun(store, kind), "the import to begin")
    client.kill()
    client.wait()
    client.stdin.close()
    assert "half" not in store("image", "ls").ok().text
    # What it left no one refers to, and the next work removes it.
    store("image", "import", "tiny", "-", input=ROOT).ok()
    told(store, "-", input=Layout([LOWER], RUN).tar())
    forget(store, "tiny", "app:1")


def test_no_one_else_is_needed():
    """The decompressors are ours: import needs no program of the host's."""
    assert (PREFIX / "libexec/cove/cove-store").exists()
