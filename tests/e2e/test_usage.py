"""Every command and every shell line in groups of its own: what it used, how it ended, nobody left.

What limits do to a box as a whole is in test_limits.py; here it is which command is told what.
"""
import os
import re

import pytest

from conftest import needs_flag, needs_root, wait_until

MIB = 1 << 20
BUSY = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"


def grow(mib):
    """tail keeps all of what has no newline."""
    return f"head -c {mib}M /dev/zero | tail -n 1 >/dev/null"


def make(cove, *flags):
    """A box with limits; a host that cannot keep them is a reason to skip."""
    done = cove("create", *flags)
    if done.rc != 0 and ("cannot be kept here" in done.errors or "needs root" in done.errors):
        pytest.skip(done.errors.strip())
    return done.ok().text.strip()


@pytest.fixture
def small(cove):
    return make(cove, "--mem", "96M", "--pids", "64")


def run(cove, box, script, *flags):
    done = cove("exec", "--json", *flags, box, "--", "sh", "-c", script)
    assert done.out.startswith(b"{"), repr(done)
    return done.json


def groups(box):
    """The groups of commands and lines that the host has for it, as {hierarchy: names}."""
    found = {}
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        if re.search(rf"/cove/[0-9a-f]+-{box}/work$", top):
            found[top] = {d for d in dirs if re.fullmatch(r"e\d+", d)}
    return found


def names(box):
    return set().union(*groups(box).values())


def needs_groups(cove, box):
    """The groups are seen from the host only where boxes have their own."""
    if not groups(box):
        pytest.skip("no cgroup for boxes here: " + "; ".join(cove.inspect(box)["not_enforced"]))


# ---- what was used ----

@needs_flag("EXEC_GROUPS")
def test_a_command_tells_what_it_used(cove, small):
    idle, busy, large = (run(cove, small, s) for s in ("true", BUSY, grow(48)))
    assert busy["cpu_ms"] > idle["cpu_ms"]
    assert 0 < idle["mem_peak_bytes"] < 32 * MIB
    assert 48 * MIB <= large["mem_peak_bytes"] <= 96 * MIB
    listed = {e["exec_id"]: e for e in cove.execs(small)}
    for one in (idle, busy, large):
        for key in ("cpu_ms", "mem_peak_bytes", "io_read_bytes", "io_write_bytes", "oom_killed"):
            assert listed[one["exec_id"]][key] == one[key]


@needs_flag("EXEC_GROUPS")
def test_each_line_tells_its_own(cove, small):
    cove.sh(small, ":")
    busy = cove.sh(small, f"{BUSY}; {grow(48)}")
    idle = cove.sh(small, ":")
    assert busy["cpu_ms"] > idle["cpu_ms"]
    assert busy["mem_peak_bytes"] >= 48 * MIB
    # Before Linux 6.12 the peak of a v2 group cannot be reset.
    release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    if release >= (6, 12) or os.path.isdir("/sys/fs/cgroup/memory"):
        assert idle["mem_peak_bytes"] < 48 * MIB
    assert (busy["shell"], idle["shell"]) == ("kept", "kept")


@needs_flag("EXEC_GROUPS")
def test_a_child_that_moved_away_counts(cove, small):
    """setsid and a double fork do not lead out of the group; the job is waited for."""
    script = f"(setsid sh -c '{BUSY}; {grow(48)}; echo done >&3' 3>&1 >/dev/null &) | cat"
    used = run(cove, small, script)
    assert used["stdout"] == "done\n"
    assert used["mem_peak_bytes"] >= 48 * MIB


@needs_root
def test_what_ended_commands_wrote_stays_counted(cove):
    """A v1 group takes its count with it; a loop device and its file's disk are the same bytes."""
    box = cove("create", "--disk", "200M").ok().text.strip()
    start = cove("stats", "--json", box).ok().json[0]["io_write_bytes"]
    if start is None:
        pytest.skip("I/O is not counted here")
    write = "dd if=/dev/zero of=/var/tmp/x bs=1M count=16 oflag=direct 2>/dev/null"
    one = run(cove, box, write)
    if one["exit_code"] != 0 or not one["io_write_bytes"]:
        pytest.skip("no direct I/O is counted on this disk")

    def written():
        return cove("stats", "--json", box).ok().json[0]["io_write_bytes"] - start

    for _ in range(20):  # before and after its group is gone
        assert 16 * MIB <= written() < 20 * MIB
    cove.sh(box, write)
    cove.sh(box, write)
    assert 48 * MIB <= written() < 56 * MIB
    cove.sh(box, "exit 0")
    assert 48 * MIB <= written() < 56 * MIB
    run(cove, box, write)
    assert 64 * MIB <= written() < 72 * MIB


@needs_root
def test_io_that_is_not_counted_is_null(cove):
    if not os.path.isdir("/sys/fs/cgroup/blkio"):
        pytest.skip("cgroup v2 counts it everywhere")
    done = cove("run", "--json", "--", "true").ok().json
    assert done["io_read_bytes"] is None and done["io_write_bytes"] is None
    box = cove("create", "--io", "100M", "--best-effort").ok().text.strip()
    assert run(cove, box, "true")["io_write_bytes"] is None
    assert cove.execs(box)[0]["io_write_bytes"] is None


@needs_flag("EXEC_GROUPS")
def test_the_command_of_a_one_shot_box(cove):
    """It tells the same, and where v2 has its tree no group is made for its memory alone."""
    done = cove("run", "--json", "--mem", "96M", "--best-effort", "--", "sh", "-c", grow(48)).ok().json
    if not os.path.isdir("/sys/fs/cgroup/unified") or os.geteuid() != 0:
        return  # without a limit the next one would take all memory of the host
    hit = cove("run", "--json", "--mem", "96M", "--", "sh", "-c", "tail -n 1 /dev/zero").json
    assert 48 * MIB <= done["mem_peak_bytes"] <= 96 * MIB
    assert (hit["oom_killed"], hit["cause"]) == (True, "oom")
    running = cove.start("run", "--", "sleep", "1000")
    try:
        box = wait_until(lambda: next(iter(cove.names()), None), "the box")
        wait_until(lambda: "e1" in names(box), "the command")
        assert [top for top, found in groups(box).items() if found and "/memory/" in top] == []
    finally:
        running.terminate()
        running.wait()


# ---- limits, told to whom they happened ----

@needs_flag("EXEC_GROUPS")
def test_out_of_memory_is_of_one_command(cove, small):
    other = cove("exec", "-d", small, "--", "sh", "-c", "read x <&1").ok().text.strip()
    hit = run(cove, small, "tail -n 1 /dev/zero")
    assert (hit["oom_killed"], hit["cause"]) == (True, "oom")
    after = run(cove, small, "exit 3")
    assert (after["oom_killed"], after["cause"], after["exit_code"]) == (False, "exit", 3)
    listed = {str(e["exec_id"]): e for e in cove.execs(small)}
    assert listed[other]["oom_killed"] is False


@needs_flag("EXEC_GROUPS")
def test_a_command_that_survived_it_succeeded(cove, small):
    done = run(cove, small, "tail -n 1 /dev/zero; exit 0")
    assert (done["oom_killed"], done["cause"], done["exit_code"]) == (True, "exit", 0)


@needs_flag("EXEC_GROUPS")
def test_a_shell_that_ran_out_of_memory(cove, small):
    cove.sh(small, "mark=1")
    child = cove.sh(small, "tail -n 1 /dev/zero")
    assert (child["shell"], child["oom_killed"], child["cause"]) == ("kept", True, "oom")
    assert cove.sh(small, "echo $mark")["stdout"] == "1\n"
    own = cove.sh(small, "a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; done")
    assert (own["shell"], own["oom_killed"], own["cause"]) == ("restarted", True, "oom")
    after = cove.sh(small, "echo \"<$mark>\"")
    assert (after["stdout"], after["shell"], after["oom_killed"]) == ("<>\n", "kept", False)


@needs_flag("EXEC_GROUPS")
def test_refused_forks_are_of_who_failed(cove, small):
    hit = run(cove, small, "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done")
    assert (hit["cause"], hit["oom_killed"]) == ("pids", False)
    # What it left has every place but its own.
    cove("exec", "-d", small, "--", "sleep", "1000").ok()
    cove.fails("limit", "exec", small, "--", "true")


@needs_flag("EXEC_GROUPS")
def test_timeout_wins_over_what_else_happened(cove, small):
    done = run(cove, small, "tail -n 1 /dev/zero; sleep 1000", "--timeout", "5s")
    assert (done["timed_out"], done["cause"], done["oom_killed"]) == (True, "timeout", True)


@pytest.mark.parametrize("storage", ["loop", "tmpfs"])
def test_a_full_disk_is_named(cove, tmp_path, storage):
    box = make(cove, "--disk", "64M", "--storage", storage)
    done = run(cove, box, "head -c 200M /dev/zero >big")
    assert done["exit_code"] != 0
    assert done["cause"] == "disk"
    assert cove.sh(box, "head -c 1M /dev/zero >more")["cause"] == "disk"
    big = tmp_path / "big"
    big.write_bytes(b"x" * 100 * MIB)  # a hole would need no room
    cove.fails("full", "cp", big, f"{box}:/home/user/up")
    assert run(cove, box, "rm big; exit 4")["cause"] == "exit"


# ---- groups ----

@needs_flag("EXEC_GROUPS")
def test_a_job_stays_where_it_is_and_the_shell_moves_on(cove, small):
    needs_groups(cove, small)
    where = "sed 's|.*/||' /proc/$$/cgroup | grep '^e' | sort -u"
    before = cove.sh(small, where)["stdout"].split()
    job = cove.sh(small, "setsid sleep 1000 >/dev/null 2>&1 & echo $!")["stdout"].strip()
    after = cove.sh(small, where)["stdout"].split()
    assert len(before) == len(after) == 1, "the same group in every hierarchy"
    assert before != after
    stayed = cove.sh(small, f"sed 's|.*/||' /proc/{job}/cgroup | grep '^e' | sort -u")
    assert stayed["stdout"].split() == before
    ended = cove.sh(small, "setsid sleep 1000 & sleep 1000", "--timeout", "300ms")
    assert (ended["cause"], ended["shell"]) == ("timeout", "kept")
    assert cove.sh(small, f"kill -0 {job} && echo lives")["stdout"] == "lives\n"
    cove.sh(small, f"kill -9 {job}")

    def is_gone():
        cove.sh(small, ":")
        return before[0] not in names(small)

    wait_until(is_gone, "the job's group to go")


@needs_flag("EXEC_GROUPS")
def test_no_group_outlives_its_command(cove, small):
    needs_groups(cove, small)

    def left_after(done):
        """All but the one that is made ahead for the command after this one."""
        return names(small) - {f"e{int(done['exec_id']) + 1}"}

    for _ in range(5):
        done = run(cove, small, "(setsid sleep 1000 &); exit 0", "--timeout", "10s")
    assert len(left_after(done)) == 5, "daemons that were left keep theirs"
    done = run(cove, small, "kill -9 -1; true")
    wait_until(lambda: not left_after(done), "all groups to go")
    done = run(cove, small, "true")
    wait_until(lambda: not left_after(done), "the last group to go")


@pytest.mark.parametrize("bomb", [
    "b() { b | b & b; }; b",
    "while :; do (setsid sh -c 'setsid sleep 1000 & exit' &); done",
    "(setsid sh -c 'kill -STOP $$' &); kill -STOP $$",
])
@needs_flag("EXEC_GROUPS")
def test_bombs_end_with_their_time(cove, small, bomb):
    forever = f"({bomb}) 2>/dev/null; while :; do :; done"
    done = run(cove, small, forever, "--timeout", "1s", "--grace", "300ms")
    assert (done["timed_out"], done["cause"]) == (True, "timeout")
    assert run(cove, small, "echo here")["stdout"] == "here\n"
    left = run(cove, small, "ls -d /proc/[0-9]*")["stdout"].split()
    assert len(left) <= 4, left
    line = cove.sh(small, forever, "--timeout", "1s", "--grace", "300ms")
    assert line["cause"] == "timeout"
    assert cove.sh(small, "echo here")["stdout"] == "here\n"


@pytest.mark.parametrize("bomb", [
    "i=0; while [ $i -lt 40 ]; do (setsid sh -c 'setsid sleep 1000 & exit' &); i=$((i+1)); done",
    "trap '' TERM HUP INT; (setsid sh -c 'kill -STOP $$' &); kill -STOP $$",
])
def test_small_bombs_end_also_without_groups(cove, box, bomb):
    forever = f"{bomb}; while :; do sleep 1; done"
    done = run(cove, box, forever, "--timeout", "2s", "--grace", "300ms")
    assert (done["timed_out"], done["cause"]) == (True, "timeout")
    left = run(cove, box, "ls -d /proc/[0-9]*")["stdout"].split()
    assert len(left) <= 4, left


# ---- no root in a strict box ----

def test_a_strict_box_refuses_root(cove):
    box = make(cove, "--strict")
    if cove.inspect(box)["isolation"]["ids"] == "single":
        pytest.skip("one id only: there is no root to refuse")
    for user in ("root", "0", "0:0"):
        cove.fails("denied", "exec", "-u", user, box, "--", "id")
    assert run(cove, box, "id -u")["stdout"] != "0\n"
    assert cove.sh(box, "id -u")["stdout"] != "0\n"


def test_init_is_not_among_its_commands(cove, small):
    needs_groups(cove, small)
    init = cove.inspect(small)["init_pid"]
    where = open(f"/proc/{init}/cgroup", encoding="ascii").read()
    assert f"-{small}" in where
    assert "/work" not in where
