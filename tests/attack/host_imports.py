"""A25: files that somebody else gives for `cove snapshot import` and `cove workspace import` (src/store/parcel.h)."""
import hashlib
import os
import pathlib
import struct

from host_snapshots import found_in, layers, left, own
from parcel_kit import lines, member, parcel, sized, with_sum
from rig import case, need

META = struct.pack("<IIIqI", 0o755, 0, 0, 1, 0)
FILE = struct.pack("<IIIqI", 0o644, 0, 0, 1, 0)
ID = "ab" * 32
HUGE = 0x7fffffffffffffff


def plain(name, data=b"x", size=None, linked=0):
    return b"F" + sized(name) + FILE + b"\0\0" + struct.pack("<BQ", linked, len(data) if size is None else size) + \
        b"d" + sized(data, 4) + b"e"


def folder(name, inside=b"", attrs=b"\0\0"):
    return b"D" + sized(name) + META + attrs + inside + b"U"


def link(name, target):
    return b"L" + sized(name) + FILE + sized(target)


def attr(name, value):
    return b"\1\0" + sized(name) + sized(value, 4)


def tree(*entries, end=b"Z"):
    return b"R" + META + b"\0\0" + b"".join(entries) + end


def layer(*entries, name=ID, **more):
    content = more.pop("content", None)
    head = lines(what="layer", id=name, kind="snapshot", created_ms=1, bytes=1, files=1)
    return member(head, tree(*entries) if content is None else content, **more)


def record(name="evil", layer_ids=(ID,), **more):
    """Of a box that says of itself that it may do everything."""
    spec = lines(name="evil", image="host", base_user="user", wall="native", net="open", created_ms=1, **more)
    text = lines(id="cd" * 32, box="evil", storage="plain", spec=spec, box_created_ms=1, created_ms=1, bytes=1, files=1,
                 left_out=0, frozen_us=0, total_us=0, layer=list(layer_ids))
    return member(lines(what="snapshot", name=name), with_sum(text))


def refused(canary):
    """What is refused, by name."""
    out = str(canary).encode()
    trees = {
        "..": folder(b".."), "../x": plain(b"../x"), "absolute": plain(out + b"/planted"), "a slash": plain(b"a/b"),
        ".": plain(b"."), "a NUL": plain(b"a\0b"), "no name": plain(b""), "a long name": plain(b"n" * 300),
        "up and out": folder(b"d") + b"U" + plain(b"x"), "twice": plain(b"x") + plain(b"x"),
        "through a link": link(b"l", out) + folder(b"l", plain(b"planted")),
        "a name of nothing": b"H" + sized(b"h") + struct.pack("<Q", 7),
        "a huge number": b"H" + sized(b"h") + struct.pack("<Q", HUGE),
        "a huge file": plain(b"x", size=HUGE), "more than its size": plain(b"x", b"xyz", size=1),
        "a hole beyond": b"F" + sized(b"x") + FILE + b"\0\0" + struct.pack("<BQ", 0, 1) + b"h" +
        struct.pack("<Q", HUGE) + b"e",
        "a redirect": folder(b"d", attrs=attr(b"user.overlay.redirect", out)),
        "a trusted mark": folder(b"d", attrs=attr(b"trusted.overlay.opaque", b"y")),
        "a capability": folder(b"d", attrs=attr(b"security.capability", b"x" * 20)),
        "a device": b"B" + sized(b"b") + FILE,
        "a mode": b"D" + sized(b"d") + struct.pack("<IIIqI", 1 << 20, 0, 0, 1, 0),
        "too deep": b"".join(b"D" + sized(b"d") + META + b"\0\0" for _ in range(5000)),
    }
    files = {name: parcel(record(), layer(entry)) for name, entry in trees.items()}
    whole = parcel(record(), layer(plain(b"x")))
    files |= {
        "a tree that goes on": parcel(record(), layer(content=tree(plain(b"x")) + plain(b"y"))),
        "a tree without an end": parcel(record(), layer(content=tree(plain(b"x"), end=b""))),
        "a record that is none": parcel(layer(plain(b"x")), record(mem_bytes=-1)),
        "entries after the end": whole + whole[20:], "cut": whole[:-40], "no members": parcel(),
        "layers alone": parcel(layer(plain(b"x"))),
        "a hash that lies": parcel(record(), layer(plain(b"x"), digest=b"\0" * 32)),
        "a count that lies": parcel(record(), layer(plain(b"x")), count=HUGE),
        "a huge head": b"cove pack 1 snapshot\nM" + b"\xff" * 4 + b"x" * 1000,
        "a huge piece": parcel(record())[:-41] + b"M" + sized(b"what layer\n", 4) + b"C" + b"\xff" * 4 + b"x" * 1000,
        "another kind": parcel(record(), kind="\x1b]0;x\x07"),
        "a layer's name": parcel(record(layer_ids=["../../x"]), layer(name="../../x")),
        "a host's file": parcel(record(name="../../canary"), layer()),
        "two snapshots": parcel(record(), record(name="second"), layer()),
        "a box": parcel(record(), layer(), member(lines(what="box", name="evil"))),
        "a secret": parcel(record(), layer(), member(lines(what="secret", name="evil"), b"x")),
        "a policy": parcel(record(), layer(), member(lines(what="policy", name="evil"), b"rules: []")),
        "layers that are not in it": parcel(record(layer_ids=["ef" * 32])),
        "too many layers": parcel(record(layer_ids=[ID] * 5000), layer()),
        "a record of nothing": parcel(member(lines(what="snapshot", name="evil"), with_sum("\0\n"))),
        "an unknown thing": parcel(record(), member(lines(what="\x1b[2Jthing", name="evil"))),
    }
    return files


def state(cove):
    """All names in a home but those of running work and logs."""
    return {str(p.relative_to(cove.home)) for top in ("boxes", "images", "snapshots", "workspaces", "secrets", "door")
            for p in pathlib.Path(cove.home, top).rglob("*")}


@case("A25_import_of_a_hostile_file", "A25", "files for `snapshot import` with names that lead out, links, marks, "
      "devices, lengths, counts and hashes that lie, or more than they say: refused with a sentence, nothing is left")
def hostile_file(rig):
    cove, path = own(rig, "imports"), rig.base / "hostile"
    path.write_bytes(parcel(record(name="good"), layer(folder(b"d", plain(b"x")))))
    cove("snapshot", "import", path).ok()  # what is made here is such a file
    before, names, files = layers(cove), state(cove), refused(rig.canary.dir)
    for what, data in files.items():
        path.write_bytes(data)
        said = cove("snapshot", "import", path)
        need(said.rc == 125 and said.err.startswith(b"cove: ") and said.err.count(b"\n") == 1, f"{what}: {said!r}")
        need(not set(said.err) & {0x1b, 7}, f"{what}: raw on the terminal: {said.err!r}")
        need(state(cove) == names, f"{what}: left {sorted(state(cove) - names)[:4]}")
        need(layers(cove) <= before, f"{what}: left {sorted(layers(cove) - before)[:4]} until somebody sweeps")
        need(not left(cove, before), f"{what}: left {left(cove, before)[:4]}")
    cove("system", "verify", "--deep").ok()
    cove("fork", "good", "--name", "alive").ok()
    seen = cove("exec", "alive", "--", "cat", "/d/x")
    cove("rm", "-f", "alive").ok()
    need(seen.out == b"x", repr(seen))
    return f"{len(files)} files"


@case("A25_import_of_links_that_lead_out", "A25", "a snapshot from a file whose tree has links to the host and "
      "set-user-ID files, or whose layer says that it is another's, shows nothing of the host and takes no name")
def links_out(rig):
    cove, path, out = own(rig, "links"), rig.base / "links-out", str(rig.canary.dir).encode()
    entries = [link(b"up", b"../" * 20 + out[1:]), link(b"abs", out), link(b"mine", b"/etc"),
               b"F" + sized(b"suid") + struct.pack("<IIIqI", 0o6755, 0, 0, 1, 0) + bytes(11) + b"e"]
    path.write_bytes(parcel(record(), layer(*entries)))
    cove("snapshot", "import", path).ok()
    need(ID not in layers(cove), "a layer got the name that it claimed")
    mark = rig.canary.mark.encode()
    tops = [os.path.join(cove.home, "layers", name) for name in layers(cove)]
    need(not found_in([mark], *tops), "something of the host is in a layer")
    cove("fork", "evil", "--name", "fork").ok()
    seen = cove("exec", "fork", "--", "sh", "-c", "cat /up/secret /abs/secret; readlink /abs")
    info = cove.inspect("fork")
    need(mark not in seen.out and out in seen.out, repr(seen))
    need(info["network"]["policy"] == "balanced" and not info.get("mounts"), f"it brought its own: {info['network']}")
    cove("diff", "snapshot:evil", "fork")
    cove("rm", "-f", "fork").ok()
    cove("snapshot", "rm", "evil").ok()


@case("A25_import_of_very_many_entries", "A25", "a file of very many entries, members or pieces is imported, or "
      "refused with a sentence, and a box still starts", slow=True)
def many_entries(rig):
    cove, path = own(rig, "entries"), rig.base / "many"
    count = 20_000 if rig.quick else 300_000
    bulk = b"".join(b"W" + sized(b"%d" % i) + FILE for i in range(count))
    cases = {"entries": parcel(record(), layer(content=tree(bulk))),
             "pieces": parcel(record(), layer(plain(b"x"), piece=1)),
             "links": parcel(record(), layer(plain(b"x", linked=1), *(b"H" + sized(b"h%d" % i) + bytes(8)
                                                                      for i in range(count // 10)))),
             "members": parcel(record(), *(layer(name=hashlib.sha256(b"%d" % i).hexdigest())
                                           for i in range(count // 1000)))}
    results = []
    for what, data in cases.items():
        path.write_bytes(data)
        said = cove("snapshot", "import", path, timeout=600)
        need(said.rc == 0 or said.rc == 125 and said.err, f"{what}: {said!r}")
        results.append(f"{what} {'came' if said.rc == 0 else 'refused'}")
        cove("snapshot", "rm", "evil")
        cove("system", "prune", "-q")
        need(not {n for n in layers(cove) if not n.startswith("host")}, f"{what}: left {sorted(layers(cove))[:4]}")
    cove("run", "--image", "host", "--", "true").ok()
    return ", ".join(results)
