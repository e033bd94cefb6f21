"""Hostile archives: each a name, its bytes and what may come of it. Made when a test runs; e2e and attacks use them.

"refused": an error, and nothing is left. "harmless": it may be taken, and then nothing in it means what it tries.
"""
import json

from image_kit import LAYER, Layout, config_of, d, desc, docker_save, f, header, link, pax, sha, tar

DEEP = "d/" * 1000
DEEPER = "d/" * 1500
REFUSED, HARMLESS = "refused", "harmless"


def trees():
    """Entries for a root filesystem and for a layer alike."""
    yield "absolute", HARMLESS, [f("/etc/planted"), f("//etc/twice"), f("/./etc/dotted")]
    yield "dotdot", REFUSED, [f("../planted")]
    yield "dotdot-inside", REFUSED, [d("a/"), f("a/../../planted")]
    yield "dot-inside", REFUSED, [f("a/./b")]
    yield "double-slash", REFUSED, [f("a//b")]
    yield "through-link", REFUSED, [link("out", "/tmp"), f("out/planted")]
    yield "through-relative-link", REFUSED, [link("out", "../../.."), f("out/planted")]
    yield "through-late-link", REFUSED, [d("a/"), f("a/b"), link("c", "a"), f("c/planted")]
    yield "directory-over-link", HARMLESS, [link("out", "/tmp"), d("out/"), f("out/planted")]
    yield "hard-link-out", REFUSED, [link("x", "../../../etc/passwd", b"1")]
    yield "hard-link-absolute", REFUSED, [link("x", "/etc/passwd", b"1")]
    yield "hard-link-through-link", REFUSED, [link("out", "/etc"), link("x", "out/passwd", b"1")]
    yield "hard-link-to-nothing", REFUSED, [link("x", "nothing", b"1")]
    yield "hard-link-to-link", HARMLESS, [link("l", "/etc/passwd"), link("x", "l", b"1")]
    yield "link-out", HARMLESS, [link("x", "/etc/shadow"), link("y", "../../../../etc/shadow")]
    yield "devices", HARMLESS, [header(b"sda", b"4", mode=0o666), header(b"mem", b"3", mode=0o666), f("f")]
    yield "setuid", HARMLESS, [f("su", b"#!", mode=0o6777)]
    yield "attributes", HARMLESS, [
        pax(SCHILY__xattr__user__overlay__opaque="y") + d("a/"),
        pax(SCHILY__xattr__trusted__overlay__redirect="/etc") + d("b/"),
        pax(SCHILY__xattr__security__capability=b"\1\0\0\2\xff\xff\xff\xff" + b"\0" * 12) + f("c"),
        pax(LIBARCHIVE__xattr__user__overlay__whiteout="y") + f("e", b"")]
    yield "names", HARMLESS, [f("new\nline"), f(b"\xff\xfe\x80"), f("\x1b[2J"), f("n" * 255), f(" ")]
    yield "name-of-256", REFUSED, [f("n" * 256)]
    yield "path-of-4096", REFUSED, [f("/".join(["n" * 63] * 64) + "x")]
    yield "nul-in-name", REFUSED, [pax(path=b"a\0b") + f("x")]
    yield "deep", HARMLESS, [f(DEEP + "f")]
    yield "deeper", REFUSED, [f(DEEPER + "f")]
    yield "file-and-directory", REFUSED, [d("a/"), f("a/b"), f("a")]
    yield "file-as-directory", REFUSED, [f("a"), f("a/b")]
    yield "after-the-end", REFUSED, [f("a"), b"\0" * 1024, f("b")]
    yield "cut", REFUSED, [header(b"a", b"0", 100000)]
    yield "size-of-8-exbibytes", REFUSED, [header(b"a", b"0", b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff")]
    yield "negative-size", REFUSED, [header(b"a", b"0", b"\xff" * 12)]
    yield "more-than-asked", REFUSED, [header(b"a", b"0", 1 << 35)]
    yield "checksum", REFUSED, [f("a")[:148] + b"0000000\0" + f("a")[156:]]
    yield "sparse", REFUSED, [header(b"a", b"S", magic=b"ustar  \0")]
    yield "global-rename", REFUSED, [pax(b"g", path="etc/passwd") + f("a")]
    yield "two-names", REFUSED, [pax(path="a") + pax(path="b") + f("c")]
    yield "owner-beyond", REFUSED, [f("a", uid=70000)]
    yield "unknown-type", REFUSED, [header(b"a", b"V")]


def whiteouts():
    """Entries for a layer; in a root filesystem all of them are refused."""
    yield "of-nothing", REFUSED, [f(".wh.", b"")]
    yield "of-dot", REFUSED, [f("etc/.wh..", b"")]
    yield "of-dotdot", REFUSED, [f("etc/.wh...", b"")]
    yield "of-a-path", REFUSED, [f(".wh.a/b", b"")]
    yield "of-whiteout", REFUSED, [f(".wh..wh.a", b"")]
    yield "of-the-root", REFUSED, [f(".wh..wh..opq", b"")]
    yield "aufs", REFUSED, [d(".wh..wh.plnk/"), f(".wh..wh.plnk/1.2", b"")]
    yield "with-content", REFUSED, [f(".wh.a", b"content")]
    yield "directory", REFUSED, [d("etc/.wh.a/")]
    yield "opaque-directory", REFUSED, [d("etc/.wh..wh..opq/")]
    yield "link", REFUSED, [link(".wh.a", "/etc")]
    yield "hard-link", REFUSED, [f("a"), link(".wh.b", "a", b"1")]
    yield "through-link", REFUSED, [link("out", ".."), f("out/.wh.rootfs", b"")]
    yield "opaque-through-link", REFUSED, [link("out", "/tmp"), f("out/.wh..wh..opq", b"")]
    yield "hard-link-to-one", REFUSED, [f(".wh.a", b""), link("b", "a", b"1")]
    yield "of-its-own", HARMLESS, [f("a"), f(".wh.a", b""), d("b/"), f("b/c"), f(".wh.b", b""),
                                   f(".wh.e", b""), f("e/g")]


def changed(change, layers=None):
    layout = Layout(layers or [tar(d("etc/"), f("etc/a"))])
    change(layout)
    return layout.tar()


def lying_blob(layout):
    layout.files["blobs/sha256/" + sha(layout.blobs[0])] = layout.blobs[0][:-1] + b"X"


def lying_size(layout):
    layout.manifest["layers"][0]["size"] += 1


def missing_blob(layout):
    layout.files["blobs/sha256/" + sha(layout.blobs[0])] = None


def path_for_digest(layout):
    layout.manifest["layers"][0]["digest"] = "sha256:../../../../etc/passwd"


def other_digest(layout):
    layout.manifest["layers"][0]["digest"] = "sha512:" + "0" * 128


def too_many_layers(layout):
    layout.manifest["layers"] *= 200


def fewer_diffs(layout):
    layout.manifest["layers"] *= 2


def both_kinds(layout):
    layout.manifest["manifests"] = []


def deep_json(layout):
    layout.files["index.json"] = b"[" * 100000


def twice_key(layout):
    layout.files["index.json"] = b'{"schemaVersion":2,"manifests":[],"manifests":[]}'


def no_image(layout):
    layout.files["index.json"] = b'{"schemaVersion":2,"manifests":[]}'


def damaged_gzip(layout):
    blob = bytearray(layout.blobs[0])
    blob[-5] ^= 1  # its checksum
    layout.blobs[0] = bytes(blob)
    layout.manifest["layers"][0] = desc(LAYER + "+gzip", bytes(blob))


def bundles():
    layer = tar(d("etc/"), f("etc/a"))
    for change in (lying_blob, lying_size, missing_blob, path_for_digest, other_digest, too_many_layers, fewer_diffs,
                   both_kinds, deep_json, twice_key, no_image, damaged_gzip):
        yield change.__name__.replace("_", "-"), REFUSED, changed(change)
    yield "lying-config", REFUSED, Layout([layer], config=config_of([layer + b"x"])).tar()
    yield "windows", REFUSED, Layout([layer], config=config_of([layer], os="windows")).tar()
    yield "config-that-is-none", REFUSED, Layout([layer], config=b"[]").tar()
    yield "relative-workdir", REFUSED, Layout([layer], {"WorkingDir": "../.."}).tar()
    yield "layer-that-is-no-tar", REFUSED, Layout([b"no tar" * 1000]).tar()
    yield "name-that-leads-out", HARMLESS, Layout([layer], name="../../../etc/passwd").tar()
    plain = docker_save([layer])
    yield "docker-layer-out", REFUSED, docker(layer, "../../../../etc/passwd")
    yield "docker-layer-absolute", REFUSED, docker(layer, "/etc/passwd")
    yield "docker-link-out", REFUSED, docker(layer, "l/layer.tar", link("l/layer.tar", "../../../../etc/passwd"))
    yield "docker-link-loop", REFUSED, docker(layer, "a", link("a", "b"), link("b", "a"))
    yield "docker-config-lies", REFUSED, tar(
        f("0" * 64 + ".json", config_of([layer])), f("manifest.json", json.dumps(
            [{"Config": "0" * 64 + ".json", "RepoTags": None, "Layers": []}]).encode()))
    yield "docker-name-twice", REFUSED, tar(f("manifest.json", b"[]"), f("manifest.json", b"[]"))
    yield "docker-device", REFUSED, tar(f("manifest.json", b"[]"), header(b"x", b"3"))
    yield "docker-cut", REFUSED, plain[:len(plain) - 3000]
    many = [f(f"repositories{n}", b"") for n in range(2100)]
    yield "docker-many-files", REFUSED, tar(f("manifest.json", b"[]"), *many)


def docker(layer, name, *extra):
    config = config_of([layer])
    return tar(f(sha(config) + ".json", config), *extra, f("manifest.json", json.dumps(
        [{"Config": sha(config) + ".json", "RepoTags": ["app:1"], "Layers": [name]}]).encode()))


def all_cases():
    """(name, what may come of it, bytes to import)"""
    for name, verdict, entries in trees():
        yield "root-" + name, verdict, tar(d("usr/"), *entries)
        yield "layer-" + name, verdict, Layout([tar(d("usr/"), *entries)]).tar()
    for name, verdict, entries in whiteouts():
        yield "root-whiteout-" + name, REFUSED, tar(d("etc/"), *entries)
        yield "layer-whiteout-" + name, verdict, Layout([tar(d("etc/"), *entries)]).tar()
    for name, verdict, data in bundles():
        yield name, verdict, data

