#!/usr/bin/python3
"""Runs the attack cases as whoever calls it and writes one JSON record per case; see tools/attack."""
import argparse
import ctypes
import fnmatch
import importlib
import json
import os
import pathlib
import signal
import sys
import time
import traceback
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import rig as ground  # noqa: E402
import walls  # noqa: E402
from rig import CASES, Broke, NotApplicable, Rig, Weaker  # noqa: E402

AS_USER, AS_ROOT, SMALL, OOM, PIDS, TTY, SLOW, NEEDS_MEM, NEEDS_PIDS, NEEDS_DISK, NEEDS_CPU = (
    1 << i for i in range(11))
STATUS = {0: "held", 1: "broke", 2: "na"}


class Stopped(BaseException):
    """A signal: everything is removed and no result is written."""


def on_signal(number, _frame):
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(one, signal.SIG_DFL)
    raise Stopped(number)


def stop_with_parent():
    """SIGTERM when whoever started this is gone, however that came about."""
    parent = os.getppid()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(one, on_signal)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        raise Stopped(signal.SIGTERM)


class InBox:
    """A case of the program `attack`."""

    def __init__(self, row):
        self.name, self.line, flags, self.held = row.split("\t")
        self.flags = int(flags)
        self.slow = bool(self.flags & SLOW)
        self.kind = "small" if self.flags & SMALL else "plain"

    def run(self, rig):
        for flag, what in ((NEEDS_MEM, "memory"), (NEEDS_PIDS, "pids"), (NEEDS_DISK, "disk"),
                           (NEEDS_CPU, "cpu")):
            if self.flags & flag and (reason := rig.lacks(what)):
                raise NotApplicable(reason)
        said = []
        users = ([()] if self.flags & AS_USER else []) + \
            ([("-u", "root")] if self.flags & AS_ROOT and rig.root_inside() else [])
        if not users:
            raise NotApplicable("there is no root inside for this caller")
        for user in users:
            said.append(self.once(rig, user))
        excused = [text for status, text in said if status == "excused"]
        if excused:  # whatever others of the box could not do
            raise NotApplicable(excused[0])
        reasons = [text for status, text in said if status == "na"]
        if len(reasons) == len(said):
            raise NotApplicable(reasons[0])
        return "; ".join(text for status, text in said if status == "held")

    def once(self, rig, user):
        box = rig.box(self.kind)
        flags = [*user, "--timeout", "90s", *(["-t"] if self.flags & TTY else [])]
        result = rig.cove.run_json(box, "/attack/attack", self.name, flags=flags)
        out = result["stdout"].strip().splitlines()
        word, _, text = (out[-1] if out else "").partition(" ")
        who = "as root inside: " if user else ""
        if result.get("timed_out"):
            raise Broke(f"{who}no answer in time")
        if word not in ("HELD", "BROKE", "NA"):
            if self.flags & NEEDS_MEM and result.get("oom_killed"):
                return "held", "ended whole by the kernel, reported as out of memory"
            raise Broke(f"{who}exit {result.get('exit_code')} signal {result.get('signal')} "
                        f"cause {result.get('cause')}: {result['stdout'][-200:]!r} {result['stderr'][-200:]!r}")
        if word == "BROKE":
            if reason := rig.excuse(self.name, text):
                return "excused", reason
            raise Broke(who + text)
        if word == "HELD" and self.flags & OOM and "ended by the kernel" in text and not result.get("oom_killed"):
            raise Broke(f"{who}{text}, but the result does not say oom_killed")
        if word == "HELD" and self.flags & PIDS:
            return self.check_pids(rig, box) or ("held", text)
        return ("held" if word == "HELD" else "na"), text

    def check_pids(self, rig, box):
        if "stats" not in rig.cove("help").text:
            return None
        hits = rig.cove("stats", "--json", box)
        if hits.rc == 0 and not hits.json[0].get("pids_hits"):
            if rig.own_kernel:
                return "held", "refused forks are not counted behind this wall"
            raise Broke(f"stats does not count the refused forks: {hits.text[:300]}")
        return None


def record(rig, case):
    """Runs one case and everything that must be true after it."""
    start, status, text = time.monotonic(), "held", ""
    leaks, weaker = len(rig.leaks), False
    rig.used = set()
    try:
        text = case.run(rig) or ""
    except NotApplicable as reason:
        status, text, weaker = "na", str(reason), isinstance(reason, Weaker)
    except Broke as reason:
        status, text = "broke", str(reason)
        if excuse := rig.excuse(case.name, text):
            status, text = "na", excuse
    except Exception:  # a case that cannot be judged did not hold
        status, text = "broke", traceback.format_exc(limit=-3)
    if status == "broke":
        rig.forget(getattr(case, "kind", "plain"))
    after = rig.canary.touched()
    for kind in sorted(rig.used & set(rig.boxes)):
        try:
            after = after or rig.healthy(kind)
        except Broke as reason:
            after = after or str(reason)
            rig.boxes.pop(kind, None)
    if len(rig.leaks) > leaks:
        after = after or f"the decoy secret came out through {rig.leaks[-1]}"
    if after:
        status, text = "broke", f"{text}; afterwards: {after}" if text else after
    return {"name": case.name, "line": case.line, "held": case.held, "status": status, "text": text,
            "weaker": weaker and status == "na", "seconds": round(time.monotonic() - start, 3)}


def all_cases(program):
    import subprocess
    rows = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    for path in sorted(pathlib.Path(ground.__file__).parent.glob("host_*.py")):
        importlib.import_module(path.stem)
    cases = [InBox(row) for row in rows] + CASES
    names = [c.name for c in cases]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise SystemExit(f"two cases have one name: {sorted(twice)}")
    return sorted(cases, key=lambda c: (c.name[0], int("".join(filter(str.isdigit, c.line)) or 0), c.name))


# Cases that take more than a second each; together most of the time of a quick run.
LONG = ("A11_mount_preparation_race", "A14_download_huge*", "A15_merge_of_a_hostile_fork",
        "A25_import_of_a_hostile_file", "A26_delete_planted_links", "A26_delete_race",
        "B1_sweep_zero*", "B22_socket_in*", "C1_neighbour*", "C2_tcp_bomb", "C3_directory*", "C4_*_of_a_neighbour",
        "C5_*", "C7_datagram*", "C7_sockets*", "C7_stub*", "C7_unread*", "D1_reload*", "D18_*", "E1_answer_twice",
        "E1_connection*", "F1_cove*", "F11_no_core*", "G14_many*")


def left_out(name):
    """The sample is always the same: no long case, of the door's many one in six, and as a user a third of the rest."""
    one_in = 6 if name[0] in "DEF" else 1 if os.geteuid() == 0 else 3
    return zlib.crc32(name.encode()) % one_in != 0 or any(fnmatch.fnmatch(name, p) for p in LONG)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix")
    parser.add_argument("--program", required=True)
    parser.add_argument("--tar", default="")
    parser.add_argument("--json", dest="json_file")
    parser.add_argument("--only", default="")
    parser.add_argument("--classes", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--without", default="")
    parser.add_argument("--stage", default="/tmp", help="where its directory is made")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    cases = all_cases(options.program)
    if options.list:
        print(json.dumps([{"name": c.name, "line": c.line, "held": c.held} for c in cases]))
        return 0
    patterns = [p for p in options.only.split(",") if p]
    cases = [c for c in cases if (not patterns or any(fnmatch.fnmatch(c.name, p) for p in patterns))
             and (not options.classes or c.name[0] in options.classes.split(","))
             and not (options.quick and c.slow) and not (options.sample and left_out(c.name))]
    rig, records, found = None, [], []
    stop_with_parent()
    try:
        rig = Rig(options)
        for case in cases:
            records.append(record(rig, case))
            last = records[-1]
            if options.verbose or last["status"] == "broke":
                print(f"{last['status']:5} {last['name']}: {last['text'][:400]}", flush=True)
        for name in walls.stale(rig.wall, records):
            print(f"{name} held: it needs no row in walls.py", flush=True)
        found = rig.search_all()
    except Stopped as reason:
        print(f"stopped by signal {reason.args[0]}", flush=True)
        return 128 + reason.args[0]
    finally:
        if rig:
            rig.close()
    records.append({"name": "the_decoy_secret_is_nowhere", "line": "all", "status": "broke" if found else "held",
                    "held": "no output, log or box tree holds the decoy", "text": ", ".join(found), "seconds": 0})
    if options.json_file:
        pathlib.Path(options.json_file).write_text(json.dumps(records))
    return 1 if any(r["status"] == "broke" for r in records) else 0


if __name__ == "__main__":
    sys.exit(main())
