"""Archives of images, made byte by byte: root filesystems, layers, OCI layouts, what docker save writes."""
import gzip
import hashlib
import io
import json
import pathlib
import re
import subprocess
import tarfile

LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def header(name, kind=b"0", size=0, mode=0o644, uid=0, gid=0, mtime=1000, target=b"", magic=b"ustar\x0000"):
    """One header of a tar; name and target are bytes, and anything."""
    block = bytearray(512)

    def put(at, data):
        block[at:at + len(data)] = data
    put(0, name[:100])
    put(100, b"%07o\0" % mode)
    put(108, b"%07o\0" % uid)
    put(116, b"%07o\0" % gid)
    put(124, size if isinstance(size, bytes) else b"%011o\0" % size)
    put(136, b"%011o\0" % mtime)
    put(156, kind)
    put(157, target[:100])
    put(257, magic)
    put(148, b" " * 8)
    put(148, b"%06o\0" % sum(block))
    return bytes(block)


def padded(data):
    return data + b"\0" * (-len(data) % 512)


def pax(kind=b"x", **records):
    body = b""
    for key, value in records.items():
        key, value = key.replace("__", ".").encode(), value if isinstance(value, bytes) else value.encode()
        rest = len(key) + len(value) + 3
        n = rest + 1
        while len(str(n)) + rest != n:
            n = rest + len(str(n))
        body += b"%d %s=%s\n" % (n, key, value)
    return header(b"pax", kind, len(body)) + padded(body)


def f(name, data=b"x", **kw):
    name = name.encode() if isinstance(name, str) else name
    before = b"" if len(name) <= 100 else pax(path=name)
    return before + header(name, b"0", len(data), **kw) + padded(data)


def d(name, **kw):
    name = name.encode() if isinstance(name, str) else name
    before = b"" if len(name) < 100 else pax(path=name)
    return before + header(name, b"5", mode=kw.pop("mode", 0o755), **kw)


def link(name, target, kind=b"2"):
    return header(name.encode(), kind, mode=0o777, target=target.encode())


def tar(*entries):
    return b"".join(entries) + b"\0" * 1024


def tiny_root():
    """Entries of a root filesystem that holds dash and what it links, and nothing else."""
    linked = subprocess.run(["ldd", "/bin/dash"], capture_output=True, text=True, check=True).stdout
    names = {"bin/sh": "/bin/dash"}
    names.update({path.lstrip("/"): path for path in re.findall(r"(/\S+) \(0x", linked)})
    folders = {"etc", "tmp", "bin"} | {str(p) for n in names for p in pathlib.PurePath(n).parents if str(p) != "."}
    entries = [d("./")] + [d(name + "/") for name in sorted(folders)]
    entries += [f(name, pathlib.Path(path).read_bytes(), mode=0o755) for name, path in sorted(names.items())]
    return entries + [f("etc/passwd", b"root:x:0:0::/:/bin/sh\nagent:x:1000:1000::/tmp:/bin/sh\n")]


def config_of(layers, run=None, **more):
    text = {"architecture": "amd64", "os": "linux", "config": run or {},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(data) for data in layers]}, **more}
    return json.dumps(text).encode()


def desc(kind, data, **more):
    return {"mediaType": kind, "digest": "sha256:" + sha(data), "size": len(data), **more}


class Layout:
    """An OCI layout: files by name, to be changed before it is packed."""

    def __init__(self, layers, run=None, name="app:1", packed=True, config=None):
        blobs = [gzip.compress(data, mtime=0) if packed else data for data in layers]
        self.config = config if config is not None else config_of(layers, run)
        self.manifest = {"schemaVersion": 2, "config": desc(CONFIG, self.config),
                         "layers": [desc(LAYER + ("+gzip" if packed else ""), blob) for blob in blobs]}
        self.name, self.blobs = name, blobs + [self.config]
        self.files = {}

    def pack(self):
        text = json.dumps(self.manifest).encode()
        self.digest = sha(text)
        entry = desc(MANIFEST, text)
        if self.name:
            entry["annotations"] = {"org.opencontainers.image.ref.name": self.name}
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
                 "index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()}
        for blob in self.blobs + [text]:
            files["blobs/sha256/" + sha(blob)] = blob
        files.update(self.files)
        return {name: data for name, data in files.items() if data is not None}

    def tar(self):
        return tar(*(f(name, data) for name, data in self.pack().items()))

    def write(self, folder):
        for name, data in self.pack().items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder


def docker_save(layers, run=None, tags=("app:1",), config=None, extra=()):
    """The old form: NAME.json, a directory for each layer, manifest.json last."""
    config = config if config is not None else config_of(layers, run)
    entries, names = [], []
    for n, data in enumerate(layers):
        folder = sha(b"%d" % n + data)
        entries += [d(folder + "/"), f(folder + "/VERSION", b"1.0"), f(folder + "/json", b"{}"),
                    f(folder + "/layer.tar", data)]
        names.append(folder + "/layer.tar")
    manifest = [{"Config": sha(config) + ".json", "RepoTags": list(tags), "Layers": names}]
    return tar(*entries, f(sha(config) + ".json", config), *extra,
               f("manifest.json", json.dumps(manifest).encode()))


def files_of(data):
    """Name -> bytes of a tar's files."""
    with tarfile.open(fileobj=io.BytesIO(data)) as t:
        return {m.name: t.extractfile(m).read() for m in t if m.isfile()}


def digest_of(data):
    """The manifest's digest in a tar of a layout, all of whose blobs have the digests they are called by."""
    files = files_of(data)
    for name, blob in files.items():
        if name.startswith("blobs/sha256/"):
            assert sha(blob) == name.rsplit("/", 1)[1], name
    return json.loads(files["index.json"])["manifests"][0]["digest"]
