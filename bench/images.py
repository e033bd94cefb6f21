"""An image of about 1 GB, imported and pulled, beside skopeo and umoci. Part of bench/run.

It is made on the spot: four layers, two of files of 8 MB and two of small ones, half of it random, gzipped. The
registry is Debian's, on loopback. MB/s are of the layers' content, unpacked.
"""
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))
import registry  # noqa: E402
from programs import NotApplicable  # noqa: E402

SECONDS = 600  # no round begins later
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
BIG, SMALL = 8_000_000, 10_000


def call(*argv):
    subprocess.run([str(a) for a in argv], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)


def sha_of(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def half_random(size):
    return b"".join(os.urandom(8192) + b"all work and no play " * 390 for _ in range(size // 16382 + 1))[:size]


def make_tree(top, number, size, each):
    for i in range(max(1, size // each)):
        at = top / f"data{number}" / str(i // 500)
        if i % 500 == 0:
            at.mkdir(parents=True)
        (at / str(i)).write_bytes(half_random(each))


class Layout:
    """The image as an OCI layout in a directory; bytes is the sum of its layers' tars."""

    def __init__(self, work, megabytes):
        self.top, self.bytes = work / "layout", 0
        self.blobs = self.top / "blobs/sha256"
        self.blobs.mkdir(parents=True)
        layers, diffs = [], []
        for number, each in enumerate((BIG, SMALL, BIG, SMALL)):
            tree, tar = work / "layer", work / "layer.tar"
            tree.mkdir()
            make_tree(tree, number, megabytes * 1_000_000 // 4, each)
            call("tar", "-C", tree, "-cf", tar, ".")
            shutil.rmtree(tree)
            diffs.append("sha256:" + sha_of(tar))
            self.bytes += tar.stat().st_size
            call("gzip", "-1", tar)
            layers.append(self.adopt(work / "layer.tar.gz", LAYER))
        config = self.put({"architecture": "amd64", "os": "linux", "config": {},
                           "rootfs": {"type": "layers", "diff_ids": diffs}}, CONFIG)
        manifest = self.put({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}, MANIFEST)
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "bench"}
        (self.top / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
        (self.top / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.packed = sum(layer["size"] for layer in layers)

    def adopt(self, path, media):
        name = sha_of(path)
        size = path.stat().st_size
        path.rename(self.blobs / name)
        return {"mediaType": media, "digest": "sha256:" + name, "size": size}

    def put(self, value, media):
        path = self.top / "new"
        path.write_text(json.dumps(value))
        return self.adopt(path, media)


class Ways:
    """What is timed; each removes what it made, when the clock does not run."""

    def __init__(self, place, layout, url, work):
        self.place, self.layout, self.url, self.work = place, layout, url, work
        self.remote = url.removeprefix("http://") + "/bench:latest" if url else None
        self.rootless = [] if os.geteuid() == 0 else ["--rootless"]

    def cove_import(self):
        self.place.cove("image", "import", "--name", "big", str(self.layout.top))

    def cove_pull(self):
        self.place.cove("image", "pull", "-q", "--name", "big", self.remote)

    def umoci(self):
        call("umoci", "unpack", *self.rootless, "--image", f"{self.layout.top}:bench", self.work / "bundle")

    def skopeo_umoci(self):
        call("skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", f"docker://{self.remote}",
             f"oci:{self.work}/copied:bench")
        call("umoci", "unpack", *self.rootless, "--image", f"{self.work}/copied:bench", self.work / "bundle")

    def clear(self):
        self.place.cove("image", "rm", "big", check=False)
        self.place.cove("image", "gc", check=False)
        for name in ("bundle", "copied"):
            shutil.rmtree(self.work / name, ignore_errors=True)


def rounds(ways, chosen):
    times, end = {title: [] for title in chosen}, time.monotonic() + SECONDS
    for _ in range(3):
        for title, way in chosen.items():
            if times[title] and time.monotonic() > end:
                continue
            os.sync()
            at = time.perf_counter()
            try:
                way()
                times[title].append(time.perf_counter() - at)
            finally:
                ways.clear()
    return times


def serve(report, place, layout, url, work, table):
    ways = Ways(place, layout, url, work)
    chosen = {"`cove image import`, an OCI layout": ways.cove_import}
    if shutil.which("umoci"):
        chosen["`umoci unpack` of the same"] = ways.umoci
    if url:
        chosen["`cove image pull`"] = ways.cove_pull
        if shutil.which("umoci"):
            chosen["`skopeo copy`, then `umoci unpack`"] = ways.skopeo_umoci
    times = rounds(ways, chosen)
    speed = {title: layout.bytes / 1e6 / statistics.median(values) for title, values in times.items()}
    rows = [[title, f"{statistics.median(values):.2f}", f"{speed[title]:.0f}"] for title, values in times.items()]
    report.section(f"An image of {layout.bytes / 1e6:.0f} MB, {layout.packed / 1e6:.0f} MB packed", [
        "Four layers, gzip; the registry is docker-registry on loopback. Medians of three.",
        *([] if url else ["Nothing is pulled: docker-registry or skopeo is missing."]),
        *([] if shutil.which("umoci") else ["umoci is not installed."])])
    report.lines += table(rows, "", "seconds", "MB/s")
    for title, mine, peer in (("import against umoci", 0, 1), ("pull against skopeo and umoci", 2, 3)):
        names = list(chosen)
        if peer < len(names) and shutil.which("umoci"):
            report.goal(f"{title}, MB/s", f"{speed[names[mine]] / speed[names[peer]]:.1f}x")


def measure(report, place, scale, table, work):
    top = work / "images"
    top.mkdir()
    try:
        layout = Layout(top, scale(1000))
        try:
            if not shutil.which("skopeo"):
                raise NotApplicable("skopeo is not installed")
            (top / "registry").mkdir()
            with registry.docker_registry(top / "registry") as url:
                call("skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", f"oci:{layout.top}:bench",
                     f"docker://{url.removeprefix('http://')}/bench:latest")
                serve(report, place, layout, url, top, table)
        except NotApplicable:
            serve(report, place, layout, None, top, table)
    finally:
        shutil.rmtree(top, ignore_errors=True)
