"""What a snapshot and a fork cost, on each kind of storage, beside a copy of the same tree. Part of bench/run."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import engine
import storage

SECONDS = 300  # for each table and kind of storage: what would begin later is left out, and said
ENOUGH = 10    # rounds that are shown although time was short

# Makes a tree: how many files, and of how many bytes each, in directories of a thousand.
TREE = """
import os, sys
top, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
block = os.urandom(1 << 20)
for i in range(count):
    at = "%s/%d" % (top, i // 1000)
    if i % 1000 == 0:
        os.makedirs(at)
    with open("%s/%d" % (at, i), "wb") as f:
        left = size
        while left > 0:
            left -= f.write(block[:left])
"""


class Late(Exception):
    pass


class Clock:
    """Ends a measurement that takes too long between two of its steps."""

    def __init__(self):
        self.end = time.monotonic() + SECONDS

    def timed(self, work):
        """Milliseconds, and what it returned."""
        if time.monotonic() > self.end:
            raise Late
        at = time.perf_counter()
        got = work()
        return (time.perf_counter() - at) * 1000, got


def grow(place, box, count, size):
    place.cove("exec", "-u", "root", box, "--", "python3", "-c", TREE, "/var/tree", str(count), str(size))


def disk_bytes(place):
    """What the state directory takes on its disk: a pool and a box's volume by their files."""
    os.sync()
    return storage_bytes(place.home)


def storage_bytes(top):
    got = subprocess.run(["du", "-sxB1", str(top)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         stdin=subprocess.DEVNULL)
    return int(got.stdout.split()[0])


def changed(place, flags, count, size, clock):
    """Of three snapshots of a running box that wrote so much: milliseconds frozen, milliseconds in all."""
    frozen, total = [], []
    place.cove("create", "--image", place.image, "--name", "grown", *flags)
    try:
        grow(place, "grown", count, size)
        for _ in range(3):
            took, got = clock.timed(lambda: place.cove("snapshot", "create", "grown", "one", "--json"))
            said = json.loads(got.stdout)
            frozen.append(said["frozen_us"] / 1000)
            total.append(took)
            place.cove("snapshot", "rm", "one")
    finally:
        place.cove("snapshot", "rm", "one", check=False)
        place.cove("rm", "-f", "grown", check=False)
    return frozen, total


def first_command(place, clock, *verb):
    """Milliseconds of making a box and of its first command, together."""
    def work():
        name = place.cove(*verb).stdout.strip()
        place.cove("exec", name, "--", "true")
        return name
    took, name = clock.timed(work)
    place.cove("rm", "-f", name)
    return took


def beginnings(place, flags, rounds, clock):
    """Ways to a box that has answered, in turn: created, forked of a snapshot, forked of a running box."""
    place.cove("create", "--image", place.image, "--name", "source", *flags)
    ways = {"create": ("create", "--image", place.image, *flags), "fork of a snapshot": ("fork", "snapshot:kept"),
            "fork of a running box": ("fork", "box:source")}
    times = {way: [] for way in ways}
    try:
        grow(place, "source", 10, 1 << 20)
        place.cove("snapshot", "create", "source", "kept")
        for _ in range(rounds):
            for way, verb in ways.items():
                times[way].append(first_command(place, clock, *verb))
    except Late:
        if min(map(len, times.values())) < ENOUGH:
            raise
    finally:
        place.cove("snapshot", "rm", "kept", check=False)
        place.cove("rm", "-f", "source", check=False)
    return times


def many(place, flags, forks, count, size, clock):
    """Milliseconds of so many forks of one big box, extra bytes of disk for all of them."""
    place.cove("create", "--image", place.image, "--name", "big", *flags)
    try:
        grow(place, "big", count, size)
        place.cove("snapshot", "create", "big", "kept")
        before = disk_bytes(place)
        took, got = clock.timed(lambda: place.cove("fork", "snapshot:kept", "--count", str(forks), "--prefix", "many"))
        extra = disk_bytes(place) - before
        last = got.stdout.split()[-1]
        seen = place.cove("exec", last, "--", "sh", "-c", "find /var/tree -type f | wc -l").stdout.strip()
        if seen != str(count):
            raise AssertionError(f"a fork has {seen} of {count} files")
    finally:
        place.cove("rm", "-f", *(n for n in place.cove("ls", "-q").stdout.split() if n.startswith("many-")), "big",
                   check=False)
        place.cove("snapshot", "rm", "kept", check=False)
    return took, extra


def plain_copy(work, count, size):
    """The same tree, copied once by cp: milliseconds, bytes."""
    source, copy = work / "tree", work / "tree-copy"
    try:
        source.mkdir()
        subprocess.run([sys.executable, "-c", TREE, str(source), str(count), str(size)], check=True)
        os.sync()
        at = time.perf_counter()
        subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(copy)], check=True)
        took = (time.perf_counter() - at) * 1000
        os.sync()
        got = subprocess.run(["du", "-sB1", str(copy)], stdout=subprocess.PIPE, text=True, check=True)
        return took, int(got.stdout.split()[0])
    finally:
        for path in (source, copy):
            shutil.rmtree(path, ignore_errors=True)


def containers(docker, data, place, forks, count, size):
    """The same with an engine: of one commit and so many containers of it, milliseconds, extra bytes."""
    tar = subprocess.Popen(["tar", "-C", str(place.rootfs), "-c", "."], stdout=subprocess.PIPE)
    docker("import", "-", "bench", stdin=tar.stdout)
    docker("run", "-d", "--name", "big", "--network", "none", "bench", "sleep", "7200")
    docker("exec", "big", "python3", "-c", TREE, "/var/tree", str(count), str(size))
    os.sync()
    before = storage_bytes(data)
    at = time.perf_counter()
    docker("commit", "big", "kept")
    for _ in range(forks):
        docker("run", "-d", "--network", "none", "kept", "sleep", "7200")
    took = (time.perf_counter() - at) * 1000
    os.sync()
    return took, storage_bytes(data) - before


def engine_row(place, work, forks, count, size):
    title = f"`docker commit` and {forks} `docker run`"
    try:
        with engine.started(work / "engine") as (docker, data):
            took, extra = containers(docker, data, place, forks, count, size)
    except engine.Absent as absent:
        return [title, str(absent), "", "", ""]
    return [title, f"{took:.0f}", f"{took / forks:.1f}", mib(extra), mib(extra / forks)]


def mib(value):
    return f"{value / (1 << 20):.1f}"


def measure_changes(report, place, kinds, scale, verdict, rows):
    big = scale(1024)
    sizes = {"10 MiB": (10, 1 << 20), f"{big} MiB": (big, 1 << 20),
             f"{scale(100000):,} small files": (scale(100000), 200)}
    for kind, flags in kinds.items():
        clock = Clock()
        for title, (count, size) in sizes.items():
            try:
                frozen, total = changed(place, flags, count, size, clock)
            except Late:
                rows.append([f"{kind}, {title}", "no time left", "", ""])
                continue
            rows.append([f"{kind}, {title}", f"{statistics.median(frozen):.1f}", f"{max(frozen):.1f}",
                         f"{statistics.median(total):.0f}"])
            if kind == "pool":
                report.goal(f"frozen for a snapshot in the pool, {title}",
                            verdict(statistics.median(frozen), 20, " ms", 1))


def report_changes(report, place, kinds, scale, table, verdict):
    """It takes longest: what was measured is shown although the rest fails."""
    rows = []
    try:
        measure_changes(report, place, kinds, scale, verdict, rows)
    finally:
        report.section("Snapshots of a running box that changed so much, milliseconds", ["Medians of three."])
        report.lines += table(rows, "", "frozen", "frozen at most", "in all")


def report_forks(report, place, kinds, scale, table, verdict):
    rows = []
    for kind, flags in kinds.items():
        try:
            times = beginnings(place, flags, scale(60), Clock())
        except Late:
            rows.append([kind, "no time left", "", ""])
            continue
        base = statistics.median(times["create"])
        rows += [[f"{kind}, {way}", f"{statistics.median(v):.1f}", f"{storage.percentile(v, .99):.1f}",
                  f"{statistics.median(v) / base:.2f}x"] for way, v in times.items()]
        for way in ("fork of a snapshot", "fork of a running box"):
            report.goal(f"{way} and its first command against create, {kind}",
                        verdict(statistics.median(times[way]) / base, 1.3, "x"))
    report.section("From nothing to a first command, milliseconds", [
        "`cove fork` or `cove create`, then `cove exec -- true`, in turn. What is forked wrote 10 MiB. A fork of a "
        "running box takes a snapshot first."])
    report.lines += table(rows, "", "median", "p99", "against create")


def report_many(report, place, kinds, scale, table, work):
    rows, forks, count, size = [], scale(100), scale(100000), 10737
    for kind, flags in kinds.items():
        try:
            took, extra = many(place, flags, forks, count, size, Clock())
        except Late:
            rows.append([kind, "no time left", "", "", ""])
            continue
        rows.append([f"{kind}: {forks} forks", f"{took:.0f}", f"{took / forks:.1f}", mib(extra), mib(extra / forks)])
    took, taken = plain_copy(work, count, size)
    rows.append(["`cp -a --reflink=auto`, once", f"{took:.0f}", f"{took:.1f}", mib(taken), mib(taken)])
    rows.append(engine_row(place, work, forks, count, size))
    report.section(f"{forks} forks of a box that holds {count * size >> 20} MiB in {count:,} files",
                   ["Milliseconds, and MiB more on the disk, of all and of each; the snapshot they are of is there. "
                    "An engine's are of its commit and its containers, on its own data root in the same place."])
    report.lines += table(rows, "", "ms in all", "ms each", "MiB in all", "MiB each")


def measure(report, place, scale, table, verdict, work):
    kinds = dict(storage.KINDS)
    made = place.cove("doctor", "--setup-storage", "--size", "12G", check=False) if os.geteuid() == 0 else None
    if not made or made.returncode:
        report.lines += [f"No pool here: {made.stderr.strip() if made else 'only root has one'}", ""]
        del kinds["pool"]
    try:
        for kind, flags in list(kinds.items()):
            if place.cove("run", *flags, "--image", place.image, "--", "true", check=False).returncode:
                report.lines += [f"No storage of the kind {kind} here.", ""]
                del kinds[kind]
        report_forks(report, place, kinds, scale, table, verdict)
        report_many(report, place, kinds, scale, table, work)
        report_changes(report, place, kinds, scale, table, verdict)
    finally:
        place.cove("rm", "-f", *place.cove("ls", "-q", check=False).stdout.split(), check=False)
        storage.wait_removed(place)
        if made and made.returncode == 0:
            place.cove("doctor", "--remove-storage", check=False)
