"""What a box's storage costs: the same things on each kind, in one run. Part of bench/run."""
import json
import os
import statistics
import subprocess
import threading
import time

KINDS = {"pool": ["--storage", "pool"], "loop": ["--storage", "loop"],
         "plain": ["--storage", "plain", "--disk", "none"]}

# In the quiet box: a file is made, 64 KiB are written to it, and then synced, for as long as the time given.
WRITER = """
import os, sys, time, json
end, plain, synced = time.monotonic() + float(sys.argv[1]), [], []
while time.monotonic() < end:
    for sync, times in ((False, plain), (True, synced)):
        at = time.perf_counter()
        fd = os.open("f", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"x" * 65536)
        if sync:
            os.fsync(fd)
        os.close(fd)
        times.append((time.perf_counter() - at) * 1000)
    time.sleep(0.002)
print(json.dumps([plain, synced]))
"""
# In the other: many small files, each synced.
STORM = """
import os
i = 0
while True:
    fd = os.open("s%d" % (i % 64), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"x" * 16384)
    os.fsync(fd)
    os.close(fd)
    i += 1
"""


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def quiet(place, seconds):
    """Latencies of the quiet box's writes, and of a command in it."""
    execs = []
    writer = subprocess.Popen(place.argv("exec", "quiet", "--", "python3", "-c", WRITER, str(seconds)), env=place.env,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    while writer.poll() is None and len(execs) < 10000:
        at = time.perf_counter()
        subprocess.run(place.argv("exec", "quiet", "--", "true"), env=place.env, stdin=subprocess.DEVNULL, check=True)
        execs.append((time.perf_counter() - at) * 1000)
    plain, synced = json.loads(writer.communicate()[0])
    return plain, synced, execs


def neighbours(place, flags, seconds):
    """Rows alone and beside a box that syncs all the time."""
    rows = []
    for name in ("quiet", "storm"):
        place.cove("create", "--image", place.image, "--name", name, *flags)
    try:
        rows.append(("alone", quiet(place, seconds)))
        storm = subprocess.Popen(place.argv("exec", "storm", "--", "python3", "-c", STORM), env=place.env,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(0.5)
        rows.append(("beside", quiet(place, seconds)))
        place.cove("rm", "-f", "storm")
        storm.wait()
    finally:
        place.cove("rm", "-f", "quiet", "storm", check=False)
    return rows


def cold(report, place, scale, alternate, bwrap, table, verdict):
    commands = {}
    for kind, flags in KINDS.items():
        commands[kind] = place.argv("run", *flags, "--image", place.image, "\\--", "true")
        commands[f"{kind}, --net closed"] = place.argv("run", *flags, "--net", "closed", "--image", place.image, "\\--",
                                                       "true")
    if bwrap:
        commands["bwrap"] = bwrap
    times = dict(zip(commands, alternate(scale(200), list(commands.values()), place.env, "shuffle")))
    peer = statistics.median(times["bwrap"]) if bwrap else None
    report.section("Kinds of storage: `cove run -- true`, milliseconds", [])
    report.lines += table([[name, f"{statistics.median(got):.2f}", f"{percentile(got, .99):.2f}",
                            f"{statistics.median(got) / peer:.2f}x" if peer else ""] for name, got in times.items()],
                          "", "median", "p99", "against bwrap")
    if peer:
        report.goal("cold box in the pool against bubblewrap",
                    verdict(statistics.median(times["pool"]) / peer, 1.4, "x"))
        report.goal("cold box in the pool without a network against bubblewrap",
                    verdict(statistics.median(times["pool, --net closed"]) / peer, 1.2, "x"))


def at_once(report, place, scale, build, table, verdict):
    rows, count = [], scale(100)
    for kind in KINDS:
        got = subprocess.run([str(build / "bench/boxes"), str(count), f"once-{kind}", place.image, kind], env=place.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        took = int(got.stdout) / 1000 if got.returncode == 0 else None
        at = time.perf_counter()
        place.cove("rm", "-f", *place.cove("ls", "-q").stdout.split())
        removed = (time.perf_counter() - at) * 1000
        rows.append([kind, f"{took:.0f}" if took else got.stderr.strip()[-80:], f"{removed:.0f}"])
        if kind == "pool" and took:
            report.goal(f"{count} boxes of the pool at once", verdict(took, 400, " ms", 0))
    report.section(f"Kinds of storage: {count} boxes at once, each answering a command, milliseconds", [])
    report.lines += table(rows, "", "to the last answer", "removing them all")


def storm(report, place, scale, table):
    rows = []
    for kind, flags in KINDS.items():
        for when, groups in neighbours(place, flags, max(1, scale(100) / 20)):
            cells = [f"{percentile(got, .5):.2f} / {percentile(got, .99):.2f}" for got in groups]
            rows.append([f"{kind}, {when}", *cells])
    report.section("Kinds of storage: a box beside one that syncs all the time, milliseconds (p50 / p99)", [])
    report.lines += table(rows, "", "write 64 KiB", "write and sync", "`cove exec BOX -- true`")


def operations(report, place, scale, build, table):
    got = subprocess.run([str(build / "bench/pool"), place.home, str(scale(200))], stdout=subprocess.PIPE, check=True,
                         text=True)
    rows = [[name, f"{int(p50) / 1000:.3f}", f"{int(p99) / 1000:.3f}"]
            for name, p50, p99 in (line.split("\t") for line in got.stdout.splitlines())]
    report.section("The pool itself, milliseconds", [])
    report.lines += table(rows, "", "p50", "p99")


def measure(report, place, scale, build, alternate, bwrap, table, verdict):
    if os.geteuid() != 0:
        return
    made = place.cove("doctor", "--setup-storage", "--size", "8G", check=False)
    if made.returncode:
        report.section("Kinds of storage", [f"No pool here: {made.stderr.strip()}", ""])
        return
    try:
        cold(report, place, scale, alternate, bwrap, table, verdict)
        at_once(report, place, scale, build, table, verdict)
        storm(report, place, scale, table)
        operations(report, place, scale, build, table)
    finally:
        place.cove("rm", "-f", *place.cove("ls", "-q", check=False).stdout.split(), check=False)
        wait_removed(place)
        place.cove("doctor", "--remove-storage", check=False)


def wait_removed(place):
    """Removals of one-shot boxes go on behind."""
    pool = f"{place.home}/pool/boxes"
    done = threading.Event()
    for _ in range(100):
        if not os.path.isdir(pool) or not os.listdir(pool):
            return
        done.wait(0.1)
