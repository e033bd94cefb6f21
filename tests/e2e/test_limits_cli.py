"""Limits as a user meets them: flags, wrong values, inspect, stats, pause and resume.

What holds when code inside pushes against a limit is in test_limits.py; here it is what is said, and that what
this host cannot do is an error with its remedy, or listed with --best-effort.
"""
import json
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest

from conftest import DEADLINE, needs_flag, needs_root, wait_until

MIB = 1 << 20
LIMITS = ["mem_bytes", "cpu_milli", "pids", "disk_bytes", "files", "io_bytes", "ttl_ms", "idle_ms", "net_bytes",
          "net_conns"]
# The word that begins a line of not_enforced, for each limit that may not be had.
WORDS = {"--mem": "memory", "--cpus": "cpu", "--pids": "pids", "--disk": "disk", "--io": "io"}


@pytest.fixture(scope="module")
def plain(session_cove):
    """A box with the defaults, for looking at."""
    name = session_cove("create").ok().text.strip()
    yield name
    session_cove("rm", "-f", name)


@pytest.fixture(scope="module")
def enforced(session_cove, plain):
    """Which limits this host keeps for this user."""
    limits = session_cove.inspect(plain)["limits"]
    return {name for name, limit in limits.items() if limit["enforced"]}


@pytest.fixture(scope="module")
def can_pause(session_cove, plain):
    got = session_cove("pause", plain)
    if got.rc == 0:
        session_cove("resume", plain).ok()
        return True
    assert "cgroup" in got.errors and got.rc == 125, repr(got)
    return False


def needs(condition, what):
    if not condition:
        pytest.skip(f"{what} is not enforced for this user on this host")


# ---- flags and what is wrong with them ----

@pytest.mark.parametrize("flag, values", [
    ("--mem", ["lots", "", "-1", "1M", "1000000T", "99999999999999T"]), ("--cpus", ["half", "0.001", "1.23456"]),
    ("--pids", ["3", "1k", "-5"]), ("--disk", ["1M", "10 G"]), ("--files", ["10", "99999999999999999999"]),
    ("--io", ["1", "1M/s"]), ("--ttl", ["soon", "1ms"]), ("--idle", ["x"]), ("--net-bytes", ["much"]),
    ("--net-conns", ["x"]), ("--expire", ["remove"]), ("--storage", ["btrfs"]),
])
def test_wrong_values(cove, flag, values):
    before = cove.names()
    for value in values:
        for verb in (["run", flag, value, "--", "true"], ["create", flag, value], ["open", "x", flag, value]):
            message = cove.fails("invalid", *verb)
            assert flag.lstrip("-") in message and "\n" not in message
    assert cove.names() == before


def test_expire_says_what_it_takes(cove):
    cove.fails("invalid", "run", "--ttl", "60", "--expire", "later", "--", "true")


def test_help_has_a_part_for_limits(cove):
    for verb in ("run", "create", "open", "shell"):
        text = cove("help", verb).ok().text
        assert "\nLimits (" in text
        head, limits = text.split("\nLimits (")
        for flag in ("--mem", "--cpus", "--pids", "--disk", "--files", "--io", "--ttl", "--idle", "--expire",
                     "--net-bytes", "--net-conns", "--storage", "--best-effort", "--strict"):
            assert flag + " " in limits, flag
        assert all(len(line) <= 80 for line in text.splitlines())
    assert "137" in cove("help", "run").text


def test_limits_are_for_a_fresh_box(cove, plain):
    cove("shell", "--mem", "64M", plain).refused(rc=2)


# ---- inspect ----

def test_defaults(cove, plain):
    found = cove.inspect(plain)
    limits = found["limits"]
    assert sorted(limits) == sorted(LIMITS)
    assert not any(limit["asked"] for limit in limits.values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0.9 * min(memory, 2 << 30) <= limits["mem_bytes"]["value"] <= 2 << 30
    assert limits["cpu_milli"]["value"] == min(2, len(os.sched_getaffinity(0))) * 1000
    assert limits["pids"]["value"] == 1024 and limits["disk_bytes"]["value"] == 10 << 30
    assert limits["files"]["value"] == 65536
    assert limits["io_bytes"] == {"value": None, "asked": False, "enforced": None}
    assert found["paused"] is False and found["storage"] in ("plain", "loop", "tmpfs")
    assert isinstance(found["walls"], list)


def test_what_does_not_hold_is_listed_and_the_rest_is_not(cove, plain):
    found = cove.inspect(plain)
    words = {"mem_bytes": "memory", "cpu_milli": "cpu", "pids": "pids", "disk_bytes": "disk"}
    for name, word in words.items():
        listed = [line for line in found["not_enforced"] if line.startswith(word + ":")]
        assert bool(listed) == (not found["limits"][name]["enforced"]), (name, found["not_enforced"])
        assert all(len(line) > len(word) + 10 for line in listed)  # a reason, not only a word


def test_as_asked(cove):
    box = cove("create", "--best-effort", "--mem", "64M", "--cpus", "0.5", "--pids", "50", "--disk", "64M", "--files",
               "256", "--ttl", "1h", "--idle", "30m", "--net-conns", "5").ok().text.strip()
    found = cove.inspect(box)
    limits = found["limits"]
    assert limits["mem_bytes"]["value"] == 64 * MIB and limits["cpu_milli"]["value"] == 500
    assert limits["pids"]["value"] == 50 and limits["disk_bytes"]["value"] == 64 * MIB
    assert limits["files"]["value"] == 256 and limits["ttl_ms"]["value"] == 3600000
    assert limits["idle_ms"]["value"] == 1800000
    assert [n for n in LIMITS if not limits[n]["asked"]] == ["io_bytes", "net_bytes"]
    assert found["best_effort"] is True and found["strict"] is False and found["expire"] == "stop"
    assert limits["files"]["enforced"] is True
    assert limits["net_conns"]["enforced"] is True
    assert cove("exec", box, "--", "sh", "-c", "ulimit -n").text.strip() == "256"


def test_none_lifts_every_limit(cove):
    flags = [word for flag in ("--mem", "--cpus", "--pids", "--disk", "--files", "--io", "--ttl", "--idle")
             for word in (flag, "none" if flag != "--pids" else "0")]
    box = cove("create", *flags).ok().text.strip()
    limits = cove.inspect(box)["limits"]
    for name in LIMITS[:8]:
        assert limits[name] == {"value": None, "asked": True, "enforced": None}, name
    assert cove("exec", box, "--", "echo", "hi").text == "hi\n"


def test_a_stopped_box_tells_its_limits(cove):
    box = cove("create", "--files", "256").ok().text.strip()
    cove("stop", box).ok()
    found = cove.inspect(box)
    assert found["limits"]["files"] == {"value": 256, "asked": True, "enforced": None}
    assert found["walls"] is None and found["not_enforced"] is None and "usage" not in found
    cove("start", box).ok()
    assert cove.inspect(box)["limits"]["files"]["enforced"] is True


@pytest.mark.parametrize("flag, value, name", [("--mem", "64M", "mem_bytes"), ("--cpus", "0.5", "cpu_milli"),
                                               ("--pids", "50", "pids"), ("--disk", "64M", "disk_bytes")])
def test_kept_or_refused(cove, enforced, flag, value, name):
    """Never silently weaker: it holds, or the error names the limit and what to do; with --best-effort it is listed."""
    got = cove("create", flag, value)
    if got.rc == 0:
        limit = cove.inspect(got.text.strip())["limits"][name]
        assert limit["asked"] and limit["enforced"], limit
    else:
        assert name not in enforced
        cove.fails("unsupported", "create", flag, value)
        cove.fails("unsupported", "run", flag, value, "--", "true")
    box = cove("create", "--best-effort", flag, value).ok().text.strip()
    found = cove.inspect(box)
    if not found["limits"][name]["enforced"]:
        assert any(line.startswith(WORDS[flag] + ":") for line in found["not_enforced"]), found["not_enforced"]
    assert cove("exec", box, "--", "echo", "hi").text == "hi\n"


def test_strict(cove):
    box = cove("create", "--strict").ok().text.strip()
    found = cove.inspect(box)
    assert found["strict"] is True and found["isolation"]["root_inside"] is False
    assert "NoNewPrivs:\t1" in cove("exec", box, "--", "cat", "/proc/self/status").ok().text
    assert cove("exec", "-u", "root", box, "--", "id", "-u").rc != 0


def test_storage_as_asked(cove):
    box = cove("create", "--storage", "tmpfs", "--disk", "64M").ok().text.strip()
    assert cove.inspect(box)["storage"] == "tmpfs"
    assert cove("exec", box, "--", "sh", "-c", "echo hi >~/f; cat ~/f").text == "hi\n"


def test_storage_that_cannot_be_had(cove):
    got = cove("create", "--storage", "loop", "--disk", "64M")
    if got.rc == 0:
        assert cove.inspect(got.text.strip())["storage"] == "loop"
    else:
        cove.fails("unsupported", "create", "--storage", "loop", "--disk", "64M")


# ---- sessions ----

def test_a_session_with_other_limits_is_a_conflict(cove):
    box = cove("open", "limits-1", "--best-effort", "--files", "256").ok().text.strip()
    assert cove("open", "limits-1").ok().text.strip() == box
    assert cove("open", "limits-1", "--files", "256", "--best-effort").ok().text.strip() == box
    cove.fails("conflict", "open", "limits-1", "--files", "512", "--best-effort")
    cove.fails("conflict", "open", "limits-1", "--pids", "1024", "--best-effort")
    cove.fails("conflict", "open", "limits-1", "--files", "256")
    cove.fails("conflict", "open", "limits-1", "--strict")
    cove("close", "limits-1", "--delete").ok()
    cove("workspace", "rm", box).ok()


# ---- what commands used, and met ----

def test_usage_of_commands(cove, plain):
    result = cove("exec", "--json", plain, "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").json
    for key in ("cpu_ms", "mem_peak_bytes", "io_read_bytes", "io_write_bytes"):
        assert key in result
    last = cove.execs(plain)[-1]
    shown = cove.inspect(plain)["commands"][-1]
    assert last == shown and last["exec_id"] == result["exec_id"]
    for key in ("cpu_ms", "mem_peak_bytes", "io_read_bytes", "io_write_bytes", "oom_killed", "cause"):
        assert last[key] == result[key], key
    if result["cpu_ms"] is not None:
        assert result["cpu_ms"] >= 1


def test_usage_outlives_the_box(cove):
    box = cove("create").ok().text.strip()
    cove("exec", box, "--", "true").ok()
    before = cove.execs(box)
    cove("stop", box).ok()
    assert cove.execs(box) == before and cove.inspect(box)["commands"] == before


def test_inspect_shows_the_last_commands(cove, box):
    for _ in range(20):
        cove("exec", box, "--", "true").ok()
    ids = [c["exec_id"] for c in cove.inspect(box)["commands"]]
    assert ids == list(range(5, 21))


EAT = "x = bytearray(); [x.extend(b'x' * (1 << 20)) for _ in range(300)]"


@needs_flag("EXEC_GROUPS")
def test_out_of_memory_is_said(cove, enforced):
    needs("mem_bytes" in enforced, "memory")
    got = cove("run", "--mem", "64M", "--", "python3", "-c", EAT)
    if b"python3" in got.err and got.rc == 127:
        pytest.skip("no python3 in this image")
    assert got.rc == 137, repr(got)
    assert got.errors.strip() == \
        "cove: out of memory: the box's limit is 64 MiB; make the box with more: --mem 128MiB"
    box = cove("create", "--mem", "64M").ok().text.strip()
    for verb in ("exec", "sh"):
        words = ["python3", "-c", EAT] if verb == "exec" else [f'python3 -c "{EAT}"']
        result = json.loads(cove(verb, "--json", box, *words).out)
        assert result["oom_killed"] is True and result["cause"] == "oom", result
        assert cove("exec", box, "--", "echo", "alive").text == "alive\n"
    assert cove.inspect(box)["usage"]["oom_kills"] >= 2
    assert "oom" in cove("ps", box).text


@needs_flag("EXEC_GROUPS")
def test_too_many_processes_is_said(cove, enforced):
    needs("pids" in enforced, "pids")
    got = cove("run", "--pids", "20", "--", "sh", "-c", "for i in $(seq 60); do sleep 60 & done; wait")
    assert got.rc != 0 and "too many processes: the box's limit is 20; make the box with more: --pids 40" in \
        got.errors, repr(got)


def test_full_disk_is_said(cove, enforced):
    needs("disk_bytes" in enforced, "disk")
    got = cove("run", "--disk", "32M", "--", "dd", "if=/dev/zero", "of=fill", "bs=4k", "count=20000")
    assert got.rc != 0 and "disk full: the box's limit is " in got.errors and "--disk " in got.errors, repr(got)


# What is met, what meets it, and what the result has of it.
MET = {
    "mem": ("mem_bytes", ["--mem", "64M"], "head -c 400M /dev/zero | tail", 64 << 20, "--mem 128MiB"),
    "pids": ("pids", ["--pids", "20"], "for i in $(seq 60); do sleep 60 & done; wait", 20, "--pids 40"),
    "disk": ("disk_bytes", ["--disk", "32M"], "dd if=/dev/zero of=fill bs=4k count=20000", 32 << 20, "--disk 64MiB"),
    "ttl": (None, ["--ttl", "1s"], "sleep 1000", 1000, "--ttl 2s"),
    "timeout": (None, ["--timeout", "250ms", "--grace", "0"], "sleep 1000", 250, "--timeout 500ms"),
}


@needs_flag("EXEC_GROUPS", "PIDS_EXACT")
@pytest.mark.parametrize("limit", MET)
def test_the_limit_is_in_the_result(cove, enforced, limit):
    key, flags, line, value, remedy = MET[limit]
    needs(key is None or key in enforced, limit)
    found = json.loads(cove("run", "--json", *flags, "--", "sh", "-c", line).out)
    assert (found["limit"], found["limit_value"]) == (limit, value), found
    assert remedy in found["remedy"], found
    if limit == "ttl":
        return
    # The same of a box that stays, now and when it is asked for later, running and stopped.
    box = cove("create", *[f for f in flags if limit != "timeout"]).ok().text.strip()
    mine = flags if limit == "timeout" else []
    found = json.loads(cove("exec", "--json", *mine, box, "--", "sh", "-c", line).out)
    for again in (False, True):
        later = json.loads(cove("wait", "--json", box, found["exec_id"]).out)
        for name in ("limit", "limit_value", "remedy"):
            assert found[name] == later[name], (again, name, later)
        cove("stop", box).ok()
    assert (found["limit"], found["limit_value"]) == (limit, value), found
    cove("rm", box).ok()


def test_without_a_limit_there_is_none(cove, plain):
    for line in ("true", "exit 3", "kill -9 $$"):
        found = json.loads(cove("exec", "--json", plain, "--", "sh", "-c", line).out)
        assert found["limit"] is None and found["limit_value"] is None and found["remedy"] is None, found


# ---- stats ----

def test_stats_as_a_table(cove, plain):
    lines = cove("stats", plain).ok().text.splitlines()
    assert lines[0].split()[:2] == ["NAME", "CPU%"] and "MEM/LIMIT" in lines[0] and len(lines) == 2
    assert "HELPERS CPU%/MEM" in lines[0]
    assert lines[1].startswith(plain)


def test_one_kind_of_unit(cove, plain):
    """KiB and MiB, never kB beside them."""
    row = cove("stats", plain).ok().text.splitlines()[1]
    assert not re.search(r"\d (kB|MB|GB)\b", row), row


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_each_box_is_asked_once(new_home, tmp):
    """A verb looks at every box, once: not again in every tree of cgroups."""
    cove = new_home()
    boxes = [cove("create").ok().text.strip() for _ in range(6)]
    trace = tmp / "trace"
    subprocess.run(["strace", "-o", trace, "-e", "trace=openat,fcntl", *cove.argv(["inspect", boxes[0]])],
                   env=cove.env_of_traced(), check=True, capture_output=True, timeout=DEADLINE)
    text = trace.read_text()
    assert sum("OFD_GETLK" in line for line in text.splitlines()) <= len(boxes) + 2
    for name in boxes[1:]:
        assert text.count(f'"{name}"') == 1, name


def test_the_same_words_once(cove, plain):
    """What init finds missing and what the keeper knows is one line."""
    notes = [x.split(":")[0] for x in cove.inspect(plain)["not_enforced"] if ":" in x]
    assert notes.count("no cgroup") <= 1


def test_stats_of_all(cove, plain):
    stopped = cove("create").ok().text.strip()
    cove("stop", stopped).ok()
    names = [line.split()[0] for line in cove("stats").ok().text.splitlines()[1:]]
    assert plain in names and stopped not in names


def test_stats_as_json(cove, plain):
    (found,) = cove("stats", "--json", plain).ok().json
    limits = cove.inspect(plain)["limits"]
    assert found["name"] == plain and found["paused"] is False and found["uptime_ms"] > 0
    assert isinstance(found["execs_running"], int)
    for key in ("cpu_milli", "disk_bytes", "disk_files", "io_read_bytes", "io_write_bytes"):
        assert found[key] is None or isinstance(found[key], int), key
    # Every box has some of these: where nobody counts them there is no number, and no 0 in the table.
    for key in ("cpu_us", "mem_bytes", "pids", "keeper_mem_bytes"):
        assert found[key] is None or found[key] > 0, key
    assert (found["cpu_milli"] is None) == (found["cpu_us"] is None)
    if found["mem_bytes"] is None:
        assert " 0 B" not in cove("stats", plain).ok().text.split("\n")[1].replace("0 B / 0 B", "")
    if limits["disk_bytes"]["enforced"]:
        assert isinstance(found["disk_bytes"], int)
    if limits["mem_bytes"]["enforced"]:
        assert found["mem_limit_bytes"] == limits["mem_bytes"]["value"] and found["mem_bytes"] > 0
    if limits["pids"]["enforced"]:
        assert found["pids_limit"] == 1024 and found["pids"] >= 1
    helpers = [x for x in cove.inspect(plain)["not_enforced"] if x.startswith("helpers:")]
    assert found["keeper_cpu_us"] > 0 and len(helpers) <= 1
    if helpers:  # nothing is bounded, and that is said once
        assert not (limits["mem_bytes"]["enforced"] and limits["cpus"]["enforced"])
    else:
        assert 0 < found["keeper_mem_bytes"] < found["keeper_mem_limit_bytes"]
        assert found["keeper_cpu_limit_milli"] >= 500 and found["door_cpu_limit_milli"] >= 100
        assert found["door_mem_limit_bytes"] == 512 << 20


def test_stats_of_what_is_not_there(cove, plain):
    cove.fails("not_found", "stats", "nope")
    got = cove("stats", "nope", plain)
    assert got.rc == 125 and "nope" in got.errors
    stopped = cove("create").ok().text.strip()
    cove("stop", stopped).ok()
    cove.fails("conflict", "stats", stopped)


def test_stats_without_boxes(new_home):
    got = new_home()("stats")
    assert got.rc == 0 and got.out.startswith(b"NAME ")
    assert new_home()("stats", "--json").ok().json == []


def test_watching_prints_a_line_each_time_until_interrupted(cove, plain):
    for flags, first in (([], b"NAME"), (["--json"], b"{")):
        program = cove.start("stats", "--watch", *flags, plain)
        lines = [program.stdout.readline() for _ in range(3)]
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=DEADLINE)
        assert lines[0].startswith(first) and all(plain.encode() in line for line in lines[1:])
        assert b"NAME" not in b"".join(lines[1:]) + out  # the title comes once
        assert program.returncode == 130 and err == b"", err


def test_watching_on_a_terminal_redraws(cove, plain):
    master, slave = pty.openpty()
    program = cove.start("stats", "--watch", plain, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while seen.count(b"NAME") < 3:
        seen += os.read(master, 4096)
    program.send_signal(signal.SIGINT)
    assert program.wait(timeout=DEADLINE) == 130
    os.close(master)
    assert seen.startswith(b"\x1b[H\x1b[J") and seen.count(b"\x1b[H") >= 3


def test_a_keeper_that_stands_still_does_not_stop_a_list(cove):
    box = cove("create").ok().text.strip()
    keeper = cove.inspect(box)["keeper_pid"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        assert state_of(cove, box) == "running"
    finally:
        os.kill(keeper, signal.SIGCONT)


def test_watching_ends_with_its_reader(cove, plain):
    program = cove.start("stats", "--watch", plain)
    program.stdout.readline()
    program.stdout.close()
    assert program.wait(timeout=DEADLINE) == 128 + signal.SIGPIPE
    program.stdin.close(), program.stderr.close()


def test_watching_a_box_that_ends(cove):
    box = cove("create").ok().text.strip()
    program = cove.start("stats", "--watch", box)
    program.stdout.readline()
    cove("rm", "-f", box).ok()
    out, err = program.communicate(timeout=DEADLINE)
    assert program.returncode == 125 and box.encode() in err


# ---- pause and resume ----

def test_pause_needs_a_reason_where_it_cannot(cove, plain, can_pause):
    if can_pause:
        pytest.skip("this host can pause")
    cove.fails("unsupported", "pause", plain)
    assert cove("exec", plain, "--", "echo", "hi").text == "hi\n"


def test_why_a_snapshot_needs_a_stop_is_not_cut(cove, plain, can_pause):
    """The remedy stands at its end."""
    if can_pause:
        pytest.skip("this host can pause")
    reason = cove.fails("unsupported", "pause", plain).strip()
    assert reason[-50:] in cove.fails("unsupported", "snapshot", "create", plain, "never")


def state_of(cove, box):
    return next(b for b in cove("ls", "--json").ok().json if b["name"] == box)["state"]


def test_pause_and_resume(cove, can_pause, tmp):
    needs(can_pause, "pausing")
    box = cove("create").ok().text.strip()
    cove("exec", "-d", box, "--", "sh", "-c", "while :; do echo x >>/tmp/ticks; sleep 0.01; done").ok()
    wait_until(lambda: cove("exec", box, "--", "test", "-s", "/tmp/ticks").rc == 0)
    assert cove("pause", "--json", box).ok().json == {"name": box, "result": "paused"}
    cove("pause", box).ok()
    assert state_of(cove, box) == "paused" and "paused" in cove("ls").text
    assert cove.inspect(box)["paused"] is True
    assert cove("stats", "--json", box).ok().json[0]["paused"] is True
    (tmp / "f").write_text("x")
    for args in (["exec", box, "--", "true"], ["sh", box, "true"], ["cp", str(tmp / "f"), f"{box}:/tmp/f"],
                 ["cp", f"{box}:/tmp/ticks", str(tmp / "t")]):
        cove.fails("conflict", *args)
    assert len(cove.execs(box)) >= 1 and cove("logs", box).rc == 0
    cove("resume", "-v", box).ok()
    cove("resume", box).ok()
    assert state_of(cove, box) == "running"
    assert cove("exec", box, "--", "echo", "hi").text == "hi\n"
    events = cove("logs", "--json", box).ok().text
    assert '"pause"' in events and '"resume"' in events


@pytest.mark.parametrize("end", [["stop"], ["rm", "-f"]])
def test_a_paused_box_can_be_ended(cove, can_pause, end):
    needs(can_pause, "pausing")
    box = cove("create").ok().text.strip()
    cove("exec", "-d", box, "--", "sleep", "1000").ok()
    cove("pause", box).ok()
    cove(*end, box).ok()
    if end == ["stop"]:
        assert state_of(cove, box) == "stopped"
        cove("start", box).ok()
        assert state_of(cove, box) == "running" and cove("exec", box, "--", "true").rc == 0
    else:
        assert box not in cove.names()


def test_pause_of_what_is_not_there(cove):
    for verb in ("pause", "resume"):
        cove.fails("not_found", verb, "nope")
        cove.fails("invalid", verb)
    stopped = cove("create").ok().text.strip()
    cove("stop", stopped).ok()
    cove.fails("conflict", "pause", stopped)


def test_a_lost_keeper_ends_a_paused_box(cove, can_pause):
    needs(can_pause, "pausing")
    box = cove("create").ok().text.strip()
    cove("pause", box).ok()
    os.kill(cove.inspect(box)["keeper_pid"], signal.SIGKILL)
    wait_until(lambda: state_of(cove, box) == "stopped")
    assert next(b for b in cove("ls", "--json").json if b["name"] == box)["cause"] == "keeper lost"
    cove("start", box).ok()
    assert cove("exec", box, "--", "echo", "hi").text == "hi\n"


# ---- the ends of a box's time ----

def test_ttl_stops(cove):
    box = cove("create", "--ttl", "300ms").ok().text.strip()
    wait_until(lambda: state_of(cove, box) == "stopped")
    assert next(b for b in cove("ls", "--json").json if b["name"] == box)["cause"] == "ttl"


def test_idle_removes_if_asked(cove):
    box = cove("create", "--idle", "300ms", "--expire", "remove").ok().text.strip()
    wait_until(lambda: box not in cove.names())


def test_looking_does_not_keep_a_box_alive(cove):
    box = cove("create", "--idle", "500ms").ok().text.strip()
    wait_until(lambda: cove("stats", "--json").rc == 0 and state_of(cove, box) == "stopped")
    assert next(b for b in cove("ls", "--json").json if b["name"] == box)["cause"] == "idle"


def test_ttl_of_a_one_time_box(cove):
    got = cove("run", "--ttl", "300ms", "--", "sleep", "1000", timeout=60)
    assert got.rc == 125 or got.rc >= 128, repr(got)
    assert "--ttl" in got.errors or "ttl" in got.errors, repr(got)


@needs_root
def test_controls_are_not_in_this_build(cove):
    if cove("version", "--json").json["controls"]:
        pytest.skip("a build for the attack suite")
    assert "control" not in cove("version").text
    assert subprocess.run(["grep", "-q", "COVE_WITHOUT", cove.program]).returncode == 1
