"""Limits: what is hit is reported, the box goes on, and what cannot be kept is refused or listed."""
import glob
import json
import os
import pathlib
import subprocess
import time

import pytest

from conftest import DEADLINE, WALL, alive, kill, lacks, needs_flag, needs_root, short_dir, wait_until

RESERVE = 32 << 20  # of the box's group, beyond what its commands may use


def make(cove, *flags, **kw):
    """A box with limits; a host that cannot keep them is a reason to skip."""
    done = cove("create", *flags, **kw)
    if done.rc != 0 and "cannot be kept here" in done.errors:
        pytest.skip(done.errors.strip())
    return done.ok().text.strip()


def run(cove, box, script, *flags, shell="sh"):
    """A script as a command of its own; its result object."""
    done = cove("exec", "--json", *flags, box, "--", shell, "-c", script)
    assert done.out.startswith(b"{"), repr(done)
    return done.json


def numbers(cove, box):
    """What `stats --json` says of one box."""
    return cove("stats", "--json", box).ok().json[0]


def still_works(cove, box, init_pid):
    assert run(cove, box, "echo still here")["stdout"] == "still here\n"
    info = cove.inspect(box)
    assert info["state"] == "running"
    assert info["init_pid"] == init_pid


# ---- neighbours ----

def yields(box):
    """Does it take its turn after others? None where no group says."""
    # Not pathlib's, which fails where a group of somebody else goes meanwhile.
    found = glob.glob(f"/sys/fs/cgroup/**/cove/*-{box}/cpu.idle", recursive=True)
    return pathlib.Path(found[0]).read_text().strip() == "1" if found else None


def spins(box):
    """It yields as soon as it has had a quarter of its limit, and is as before where the host does not give it that."""
    if os.getloadavg()[0] > 4 * os.cpu_count():
        pytest.skip("this host is too busy: no box gets what counts as busy")
    wait_until(lambda: yields(box), "it to yield")


def test_a_busy_box_lets_others_go_first(cove):
    box = make(cove, "--cpus", "1", "--best-effort")
    if yields(box) is None:
        pytest.skip("the box has no cpu group, or this kernel no cpu.idle")
    if WALL != "native":  # to start a kernel of its own is busy
        wait_until(lambda: run(cove, box, "true")["exit_code"] == 0 and not yields(box), "the start to be over")
    assert run(cove, box, "true")["exit_code"] == 0
    assert yields(box) is False
    spinner = cove("exec", "-d", box, "--", "sh", "-c", "while :; do :; done").ok().text.strip()
    spins(box)
    cove("pause", box).ok()
    cove("resume", box).ok()
    assert yields(box) is True
    cove("kill", box, spinner).ok()
    wait_until(lambda: run(cove, box, "true")["exit_code"] == 0 and not yields(box), "it to be as before")


def test_a_busy_job_in_the_background_too(cove):
    box = make(cove, "--cpus", "1", "--best-effort")
    if yields(box) is None:
        pytest.skip("the box has no cpu group, or this kernel no cpu.idle")
    cove.sh(box, "while :; do :; done &")
    spins(box)
    cove.sh(box, "kill %1")
    wait_until(lambda: not yields(box), "it to be as before")


def slice_ns(pid):
    text = pathlib.Path(f"/proc/{pid}/sched").read_text()
    return [int(line.split(":")[1]) for line in text.splitlines() if line.startswith("se.slice")]


def test_the_keeper_takes_short_turns_and_the_box_does_not(cove):
    info = cove.inspect(make(cove))
    try:
        keeper, init, mine = (slice_ns(pid) for pid in (info["keeper_pid"], info["init_pid"], os.getpid()))
    except OSError as e:
        pytest.skip(f"the kernel does not show it: {e}")
    if not keeper or tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 12):
        pytest.skip("turns have no length of their own before Linux 6.12")
    assert keeper == [100000]
    assert init == mine


# ---- memory ----

@pytest.fixture
def small(cove):
    return make(cove, "--mem", "64M", "--pids", "64", "--cpus", "1")


@needs_flag("EXEC_GROUPS")
def test_memory_bomb(cove, small):
    init_pid = cove.inspect(small)["init_pid"]
    for how in (run(cove, small, "head -c 400M /dev/zero | tail"),
                cove.sh(small, "head -c 400M /dev/zero | tail")):
        assert how["oom_killed"] is True
        assert how["cause"] == "oom"
        assert how["mem_peak_bytes"] <= 64 << 20
    still_works(cove, small, init_pid)
    assert numbers(cove, small)["oom_kills"] >= 2
    assert [e for e in cove.execs(small) if e["cause"] == "oom"]


@needs_flag("EXEC_GROUPS")
def test_out_of_memory_takes_the_command_and_not_its_neighbour(cove, small):
    wait = cove("exec", "-d", small, "--", "sleep", "1000").ok().text.strip()
    assert run(cove, small, "head -c 400M /dev/zero | tail")["oom_killed"]
    neighbour = [e for e in cove.execs(small) if str(e["exec_id"]) == wait][0]
    assert neighbour["state"] == "running"


def test_shared_memory_bomb(cove, small):
    """tmpfs is memory: filling it ends at the limit, and the box can be cleaned up from inside."""
    init_pid = cove.inspect(small)["init_pid"]
    done = run(cove, small, "head -c 400M /dev/zero > /dev/shm/x")
    assert done["exit_code"] != 0
    assert numbers(cove, small)["mem_bytes"] <= (64 << 20) + RESERVE
    still_works(cove, small, init_pid)
    run(cove, small, "rm -f /dev/shm/x")
    assert run(cove, small, "head -c 20M /dev/zero > /dev/shm/x && rm /dev/shm/x")["exit_code"] == 0


@needs_flag("EXEC_GROUPS")
def test_memory_peak_of_each_command(cove, small):
    large = run(cove, small, "head -c 20M /dev/zero | tail -c 20M >/dev/null")
    little = run(cove, small, "true")
    assert large["exit_code"] == little["exit_code"] == 0
    if large["mem_peak_bytes"] == 0:
        pytest.skip("this host does not tell a command's memory")
    assert large["mem_peak_bytes"] > 20 << 20
    assert little["mem_peak_bytes"] < 10 << 20


# ---- processes ----

FORKS = "i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; wait"


@needs_flag("EXEC_GROUPS")
def test_fork_bomb(cove, small):
    init_pid = cove.inspect(small)["init_pid"]
    done = run(cove, small, FORKS)
    assert done["exit_code"] != 0
    assert done["cause"] == "pids"
    cove("exec", small, "--", "sh", "-c", "kill -9 -1")
    still_works(cove, small, init_pid)
    assert numbers(cove, small)["pids_hits"] > 0
    assert numbers(cove, small)["pids_limit"] == 64


# ---- processors ----

@needs_flag("EXEC_GROUPS")
def test_cpu_quota(cove):
    box = make(cove, "--cpus", "0.2")
    busy = "for n in 1 2 3 4; do (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) & done; wait"
    done = run(cove, box, busy)
    assert done["exit_code"] == 0
    # On a loaded machine it may not get as much as it could have.
    wait_until(lambda: numbers(cove, box)["throttled_us"] > 0 or run(cove, box, busy) is None, "it to be held back")
    assert numbers(cove, box)["cpu_limit_milli"] == 200
    assert numbers(cove, box)["cpu_us"] > 0
    assert done["cpu_ms"] > 0


def test_one_processor(cove):
    box = make(cove, "--cpus", "1", "--best-effort")
    assert run(cove, box, "nproc")["stdout"] == "1\n"
    if not lacks("CPU_LIST"):
        allowed = run(cove, box, "grep Cpus_allowed_list /proc/self/status")["stdout"].split()[1]
        assert allowed.isdigit()
    assert run(cove, box, "grep -c ^processor /proc/cpuinfo")["stdout"] == "1\n"
    assert run(cove, box, "grep -c ^cpu[0-9] /proc/stat")["stdout"] == "1\n"


# ---- the box's own /proc ----

def test_meminfo_is_the_limit_and_moves(cove, small):
    text = run(cove, small, "cat /proc/meminfo")["stdout"]
    rows = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}
    assert rows["MemTotal"] == 64 << 10
    assert rows["MemFree"] <= rows["MemTotal"]
    assert rows["SwapTotal"] == 0
    # Within one command: it sees what it took, after a while.
    done = run(cove, small, """
        free() { grep MemFree /proc/meminfo | tr -dc 0-9; }
        before=$(free); head -c 20M /dev/zero > /dev/shm/x; i=0
        while [ $(free) -gt $((before - 15000)) ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done
        [ $(free) -le $((before - 15000)) ]; status=$?; rm /dev/shm/x; exit $status""")
    assert done["exit_code"] == 0, done


def test_what_a_command_left_sees_it_move(cove, box):
    """No command runs any more, but a job that one left behind does."""
    cove("exec", box, "--", "sh", "-c", """
        (setsid sh -c 'first=$(cat /proc/uptime); i=0
            while [ "$(cat /proc/uptime)" = "$first" ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done
            second=$(cat /proc/uptime)
            while [ "$(cat /proc/uptime)" = "$second" ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done
            [ $i -lt 300 ] && echo moved > /tmp/end || echo stood > /tmp/end' >/dev/null 2>&1 </dev/null &)""").ok()
    got = wait_until(lambda: file_text(cove, box, "/tmp/end"), "the job's end")
    assert got == "moved\n"


def file_text(cove, box, path):
    """Read without a command: that would make the files anew."""
    done = cove("cp", f"{box}:{path}", "-")
    return done.text if done.rc == 0 else ""


def test_processes_ever_made_are_not_invented(cove, shared):
    """How many there are now is not how many there were since the start."""
    assert not [x for x in run(cove, shared, "cat /proc/stat")["stdout"].splitlines() if x.startswith("processes")]


def test_free_and_uptime_agree_with_it(cove, shared):
    free = run(cove, shared, "command -v free >/dev/null || exit 9; free -k")
    if free["exit_code"] == 9:
        pytest.skip("the image has no procps")
    total = int(free["stdout"].splitlines()[1].split()[1])
    assert total == int(run(cove, shared, "grep MemTotal /proc/meminfo | tr -dc 0-9")["stdout"])
    assert run(cove, shared, "uptime")["exit_code"] == 0


def test_uptime_is_the_kernels_and_grows(cove, box):
    host = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    if not cove.inspect(box)["isolation"]["shared_kernel"]:
        host = 1  # of a kernel of its own, which came with the box
    first = float(run(cove, box, "cat /proc/uptime")["stdout"].split()[0])
    assert host - 1 < first < host + 60
    done = run(cove, box, """
        first=$(cat /proc/uptime); i=0
        while [ "$(cat /proc/uptime)" = "$first" ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done
        [ "$(cat /proc/uptime)" != "$first" ]""")
    assert done["exit_code"] == 0
    assert float(run(cove, box, "cat /proc/uptime")["stdout"].split()[0]) > first


def test_own_proc_files_cannot_be_written(cove, shared):
    for name in ("meminfo", "cpuinfo", "loadavg", "uptime", "stat"):
        assert run(cove, shared, f"echo x > /proc/{name}")["exit_code"] != 0
        assert run(cove, shared, f"test -s /proc/{name}")["exit_code"] == 0


def test_nothing_of_it_is_left(cove):
    box = cove("create").ok().text.strip()
    place = pathlib.Path(cove.home, "run", box)
    assert place.exists()
    cove("stop", box).ok()
    assert not place.exists()
    cove("start", box).ok()
    kill(cove("ls", "--json").ok().json and cove.inspect(box)["keeper_pid"])
    wait_until(lambda: cove.inspect(box)["state"] == "stopped", "the end of a lost keeper's box")
    cove("rm", "-f", box).ok()
    assert not place.exists()


# ---- open files ----

def test_open_files(cove):
    box = make(cove, "--files", "256")
    assert run(cove, box, "ulimit -Hn")["stdout"] == "256\n"
    assert run(cove, box, "ulimit -n 257")["exit_code"] != 0
    done = run(cove, box, "for i in $(seq 300); do exec {fd}</dev/null || exit 5; done", shell="bash")
    assert done["exit_code"] != 0
    assert "Too many open files" in done["stderr"]


# ---- disk ----

def fill(cove, box, path):
    return run(cove, box, f"head -c 100M /dev/zero > {path}")


def test_disk_limit(cove):
    box = make(cove, "--disk", "32M")
    init_pid = cove.inspect(box)["init_pid"]
    assert cove.inspect(box)["storage"] == "loop"
    done = fill(cove, box, "/var/tmp/x")
    assert done["exit_code"] != 0
    assert "No space left" in done["stderr"]
    assert done["cause"] == "disk"
    got = numbers(cove, box)
    assert 0 < got["disk_bytes"] <= got["disk_limit_bytes"] == 32 << 20  # as it was asked for
    still_works(cove, box, init_pid)
    assert run(cove, box, "rm /var/tmp/x; head -c 1M /dev/zero > /var/tmp/x")["exit_code"] == 0


def test_disk_in_memory(cove):
    done = cove("create", "--storage", "tmpfs", "--disk", "16M")
    if done.rc != 0 and "tmpfs" in done.errors:
        pytest.skip(done.errors.strip())
    box = done.ok().text.strip()
    assert cove.inspect(box)["storage"] == "tmpfs"
    before = numbers(cove, box)
    run(cove, box, "head -c 4M /dev/zero > /var/tmp/four")
    after = numbers(cove, box)
    assert 4 << 20 <= after["disk_bytes"] - before["disk_bytes"] < 5 << 20
    assert after["disk_files"] > before["disk_files"] > 0
    assert after["disk_limit_bytes"] == 16 << 20
    run(cove, box, "rm /var/tmp/four")
    assert fill(cove, box, "/var/tmp/x")["exit_code"] != 0
    assert run(cove, box, "rm /var/tmp/x; echo ok > /var/tmp/x; cat /var/tmp/x")["stdout"] == "ok\n"


def test_memory_does_not_survive_so_it_is_refused_for_what_should(cove):
    cove.fails("invalid", "open", "keepme", "--persistence", "box", "--storage", "tmpfs")


def test_plain_storage_is_said_to_be_unbounded(cove):
    cove.fails("unsupported", "create", "--storage", "plain", "--disk", "32M")
    box = cove("create", "--storage", "plain", "--disk", "32M", "--best-effort").ok().text.strip()
    info = cove.inspect(box)
    assert info["storage"] == "plain"
    assert [line for line in info["not_enforced"] if line.startswith("disk:")]
    assert info["limits"]["disk_bytes"]["enforced"] is False
    assert info["usage"]["disk_bytes"] is None  # nobody counts it


def test_storage_stays_what_it_was(cove):
    box = make(cove, "--disk", "32M")
    run(cove, box, "echo kept > /var/tmp/x")
    cove("stop", box).ok()
    cove("start", box).ok()
    assert cove.inspect(box)["storage"] == "loop"
    assert run(cove, box, "cat /var/tmp/x")["stdout"] == "kept\n"


def test_host_directory_is_said_not_to_be_counted(cove, tmp):
    box = cove("create", "--mount", f"{tmp}:/data").ok().text.strip()
    notes = cove.inspect(box)["not_enforced"]
    assert [line for line in notes if "host directory" in line and str(tmp) in line]
    box = cove("create", "--mount", f"{tmp}:/data:ro").ok().text.strip()
    assert not [line for line in cove.inspect(box)["not_enforced"] if "host directory" in line]


# ---- kept, refused or listed: never silently weaker ----

LIMITS = [("--mem", "256M", "mem_bytes", "memory"), ("--cpus", "1", "cpu_milli", "cpu"),
          ("--pids", "100", "pids", "pids"), ("--disk", "64M", "disk_bytes", "disk"),
          ("--files", "512", "files", "files"), ("--io", "10M", "io_bytes", "io")]


@pytest.mark.parametrize("flag,value,key,word", LIMITS)
def test_kept_or_refused(cove, flag, value, key, word):
    done = cove("create", flag, value)
    if done.rc == 0:
        info = cove.inspect(done.text.strip())
        assert info["limits"][key]["asked"] is True
        assert info["limits"][key]["enforced"] is True
        assert not [line for line in info["not_enforced"] if line.startswith(word + ":")]
        return
    cove.fails("unsupported", "create", flag, value)
    box = cove("create", flag, value, "--best-effort").ok().text.strip()
    info = cove.inspect(box)
    assert info["limits"][key]["enforced"] is False
    assert [line for line in info["not_enforced"] if line.startswith(word + ":") and len(line) > 15]


def test_a_refused_box_leaves_nothing(cove):
    before = cove.names()
    cove.fails("unsupported", "create", "--storage", "plain", "--disk", "32M", "--name", "refused-one")
    assert cove.names() == before
    left = [path for part in ("boxes", "run") for path in pathlib.Path(cove.home, part).rglob("*refused-one*")]
    left += glob.glob("/sys/fs/cgroup/**/cove/*-refused-one", recursive=True)
    assert not left
    assert not [path for path in pathlib.Path(cove.home, "boxes").iterdir() if path.name.startswith(".")]


def test_defaults_never_refuse(cove):
    info = cove.inspect(cove("create").ok().text.strip())
    for key in ("mem_bytes", "cpu_milli", "pids", "disk_bytes", "files"):
        assert info["limits"][key]["value"] > 0
        assert info["limits"][key]["asked"] is False


# ---- time ----

def test_ttl_stops(cove):
    box = cove("create", "--ttl", "300ms").ok().text.strip()
    wait_until(lambda: cove.inspect(box)["state"] == "stopped", "the end of its time")
    info = cove.inspect(box)
    assert (info["cause"], info["by"]) == ("ttl", "cove")
    cove("start", box).ok()  # and has its time again
    wait_until(lambda: cove.inspect(box)["cause"] == "ttl", "the end of its second time")


def test_ttl_removes(cove):
    box = cove("create", "--ttl", "300ms", "--expire", "remove").ok().text.strip()
    wait_until(lambda: box not in cove.names(), "its removal")


def test_ttl_ends_a_command_that_goes_on(cove):
    before = set(cove.names())
    done = cove("run", "--ttl", "300ms", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    assert done.rc == 137 and "--ttl" in done.errors and "unknown" not in done.errors, repr(done)
    assert cove("run", "--ttl", "300ms", "--", "sleep", "1000").rc == 143
    box = cove("create", "--ttl", "1s").ok().text.strip()
    cove("exec", "-d", box, "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done").ok()
    wait_until(lambda: cove.inspect(box)["state"] == "stopped", "the end of its time")
    ended = cove.execs(box)[0]
    assert (ended["state"], ended["signal"], ended["cause"]) == ("done", 9, "ttl")
    cove("rm", box).ok()
    wait_until(lambda: set(cove.names()) <= before, "the removal of a one-shot box")


def test_idle_stops(cove):
    box = cove("create", "--idle", "300ms").ok().text.strip()
    wait_until(lambda: cove.inspect(box)["state"] == "stopped", "its end")  # looking is no use
    assert (cove.inspect(box)["cause"], cove.inspect(box)["by"]) == ("idle", "cove")


def test_a_command_is_not_idle(cove):
    box = cove("create", "--idle", "300ms").ok().text.strip()
    done = run(cove, box, "sleep 1.2; echo done")
    assert done["stdout"] == "done\n"
    wait_until(lambda: cove.inspect(box)["state"] == "stopped", "its end after that")


# ---- pausing ----

@pytest.fixture
def counting(cove, box):
    """A box with a command that prints numbers for ever, and how much it printed so far."""
    done = cove("pause", box)
    if done.rc != 0:
        pytest.skip(done.errors.strip())
    cove("resume", box).ok()
    exec_id = cove("exec", "-d", box, "--", "sh", "-c",
                   "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done").ok().text.strip()

    def printed():
        return cove.execs(box)[int(exec_id) - 1]["stdout_bytes"]

    wait_until(lambda: printed() > 0, "the first number")
    return box, printed


def state_of(cove, box):
    return [b["state"] for b in cove("ls", "--json").ok().json if b["name"] == box][0]


def test_pause_stands_still(cove, counting):
    box, printed = counting
    cove("pause", box).ok()
    cove("pause", box).ok()  # twice is fine
    assert state_of(cove, box) == "paused"
    assert cove.inspect(box)["paused"] is True
    cpu = numbers(cove, box)["cpu_us"]
    at = printed()
    for _ in range(30):  # as long as thirty programs take
        assert numbers(cove, box)["paused"] is True
    assert printed() == at
    assert numbers(cove, box)["cpu_us"] == cpu
    cove.fails("conflict", "exec", box, "--", "true")
    cove.fails("conflict", "sh", box, "true")
    cove("resume", box).ok()
    cove("resume", box).ok()
    wait_until(lambda: printed() > at, "the next number")
    assert cove("exec", box, "--", "echo", "on").ok().text == "on\n"
    assert state_of(cove, box) == "running"


def test_events_of_a_pause(cove, counting):
    box, _ = counting
    cove("pause", box).ok()
    cove("resume", box).ok()
    text = pathlib.Path(cove.home, "boxes", box, "logs", "events.jsonl").read_text()
    assert text.count('"event":"pause"') == 2  # the fixture tried it once
    assert text.count('"event":"resume"') == 2


@pytest.mark.parametrize("how", [("stop",), ("stop", "--grace", "0"), ("rm", "-f")])
def test_a_paused_box_can_be_ended(cove, counting, how):
    box, _ = counting
    init_pid = cove.inspect(box)["init_pid"]
    cove("pause", box).ok()
    cove(*how, box).ok()
    assert not alive(init_pid)
    assert box not in cove.names() or cove.inspect(box)["state"] == "stopped"


def test_ttl_goes_on_while_paused(cove):
    box = cove("create", "--ttl", "2s").ok().text.strip()
    if cove("pause", box).rc != 0:
        pytest.skip("this host cannot pause")
    wait_until(lambda: cove.inspect(box)["state"] == "stopped", "the end of its time")
    assert cove.inspect(box)["cause"] == "ttl"


def test_a_pause_does_not_count_against_a_timeout(cove, counting):
    box, _ = counting
    running = cove.start("exec", "--json", "--timeout", "4s", box, "--", "sh", "-c",
                         "mkfifo /tmp/gate; read x < /tmp/gate; echo in time")
    wait_until(lambda: len(cove.execs(box)) >= 2, "the command's start")
    cove("pause", box).ok()
    time.sleep(4.5)  # the thing itself: longer than the timeout
    cove("resume", box).ok()
    cove("exec", box, "--", "sh", "-c", "until echo > /tmp/gate; do :; done").ok()
    out, _ = running.communicate(timeout=DEADLINE)
    got = json.loads(out)
    assert (got["stdout"], got["timed_out"]) == ("in time\n", False)


def test_a_lost_keeper_of_a_paused_box(cove, counting):
    box, _ = counting
    info = cove.inspect(box)
    cove("pause", box).ok()
    kill(info["keeper_pid"])
    wait_until(lambda: not alive(info["keeper_pid"]), "the keeper's death")
    assert cove.inspect(box)["state"] == "stopped"
    assert cove.inspect(box)["cause"] == "keeper lost"
    wait_until(lambda: not alive(info["init_pid"]), "init's death")
    cove("start", box).ok()
    assert cove("exec", box, "--", "echo", "again").ok().text == "again\n"


# ---- a disk of the host's that is full ----

FULL = """
set -e
mount -t tmpfs -o size=64M,mode=0700 none {home}
export COVE_HOME={home}
box=$({cove} create --image host --storage plain)
head -c 100M /dev/zero > {home}/filler || true
{cove} stop $box
{cove} inspect $box
rm {home}/filler
{cove} start $box
{cove} exec $box -- echo works
{cove} rm -f $box
"""


@needs_root
def test_the_cause_is_kept_on_a_full_disk(cove):
    home = short_dir()
    script = FULL.format(home=home, cove=cove.program)
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=cove.env,
                          capture_output=True, timeout=DEADLINE)
    os.rmdir(home)
    assert done.returncode == 0, done
    assert b'"cause":"stopped"' in done.stdout.replace(b" ", b""), done
    assert b"works" in done.stdout


# ---- what a box reads of its own cgroup ----

# As runtimes do it: the mounts say which kind it is and where, /proc/self/cgroup where the process is in it; where
# that is not to be found, the top counts.
READ_OWN_LIMITS = """
import json, os
mounts = [line.split() for line in open("/proc/self/mountinfo") if " - cgroup" in line]
groups = dict(line.strip().split(":", 2)[1:] for line in open("/proc/self/cgroup"))
def first(controller, name):
    for words in mounts:
        after = words[words.index("-") + 1:]
        if after[0] == "cgroup2" or controller in after[2].split(","):
            own = groups["" if after[0] == "cgroup2" else controller]
            for directory in (words[4] + own, words[4]):
                if os.path.exists(f"{directory}/{name}"):
                    return open(f"{directory}/{name}").read().split()
v2 = any(" - cgroup2 " in " ".join(words) for words in mounts)
quota, period = first("cpu", "cpu.max") if v2 else first("cpu", "cpu.cfs_quota_us") + first("cpu", "cpu.cfs_period_us")
print(json.dumps({
    "memory": int(first("memory", "memory.max" if v2 else "memory.limit_in_bytes")[0]),
    "used": int(first("memory", "memory.current" if v2 else "memory.usage_in_bytes")[0]),
    "processors": int(quota) / int(period),
    "pids": int(open("/sys/fs/cgroup/" + ("pids.max" if v2 else "pids/pids.max")).read()) - (0 if v2 else 1)}))
"""


@needs_flag("GROUP_VIEW")
def test_a_box_reads_its_own_limits_as_runtimes_do(cove):
    box = make(cove, "--mem", "300m", "--cpus", "1.5", "--pids", "70")
    for _ in range(2):
        got = json.loads(cove("exec", box, "--", "python3", "-c", READ_OWN_LIMITS).ok().text)
        assert 0 < got.pop("used") < 300 << 20
        assert got == {"memory": 300 << 20, "processors": 1.5, "pids": 70}
    in_shell = cove("sh", box, f"python3 -c '{READ_OWN_LIMITS}'").ok().text
    assert json.loads(in_shell)["memory"] == 300 << 20
    # Again after a stop, and with another's limits beside it.
    other = make(cove, "--mem", "200m", "--cpus", "1", "--pids", "50")
    cove("stop", box).ok()
    cove("start", box).ok()
    for name, mem in ((box, 300), (other, 200)):
        got = json.loads(cove("exec", name, "--", "python3", "-c", READ_OWN_LIMITS).ok().text)
        assert got["memory"] == mem << 20
    once = cove("run", "--mem", "100m", "--cpus", "1", "--pids", "40", "--", "python3", "-c", READ_OWN_LIMITS).ok().text
    assert json.loads(once)["memory"] == 100 << 20


@needs_flag("GROUP_VIEW")
def test_node_finds_the_limit_of_its_box(cove):
    box = make(cove, "--mem", "300m")
    if run(cove, box, "node -e 'process.constrainedMemory()'")["exit_code"] != 0:
        pytest.skip("this image has no node that tells")
    script = "console.log(process.constrainedMemory())"
    assert cove("exec", box, "--", "node", "-e", script).ok().text.strip() == str(300 << 20)


WRITE_ALL = """
import errno, os
tried = {}
for top, dirs, files in os.walk("/sys"):
    for what, call in [(f, lambda p: os.close(os.open(p, os.O_WRONLY))) for f in files] + [
            ("new", os.mkdir), ("file", lambda p: os.close(os.open(p, os.O_CREAT | os.O_WRONLY)))] + [
            (d, os.rmdir) for d in dirs]:
        try:
            call(os.path.join(top, what))
            tried[os.path.join(top, what)] = 0
        except OSError as e:
            tried[os.path.join(top, what)] = e.errno
assert any("memory" in path for path in tried), tried
print({path: n for path, n in tried.items() if n not in (errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY)})
"""


@needs_flag("GROUP_VIEW")
@pytest.mark.parametrize("user", ["root", "user"])
def test_what_a_box_is_shown_of_its_cgroup_cannot_be_written(cove, user):
    box = make(cove, "--mem", "300m", "--cpus", "1", "--pids", "70")
    assert cove("exec", "--user", user, box, "--", "python3", "-c", WRITE_ALL).ok().text.strip() == "{}"
    shown = cove("exec", box, "--", "cat", "/proc/self/cgroup", "/proc/self/mountinfo").ok().text
    lines = [line for line in shown.splitlines() if " - cgroup" in line or " " not in line]
    assert not [line for line in lines if "cove" in line or ".slice" in line or box in line], lines
    # A mount, an unmount and a remount are refused.
    for script in ("umount /sys/fs/cgroup", "umount -l /sys", "mount -o remount,rw /sys", "mount -t cgroup2 x /mnt",
                   "mount -t cgroup -o memory x /mnt"):
        assert run(cove, box, script, "--user", user)["exit_code"] != 0


@needs_flag("GROUP_VIEW")
def test_a_box_without_groups_is_shown_none(cove):
    box = cove("create", "--best-effort", "--mem", "300m", "--pids", "70").ok().text.strip()
    groups = [note for note in cove.inspect(box)["not_enforced"] if note.startswith(("memory:", "pids:"))]
    got = run(cove, box, "grep -c ' - cgroup' /proc/self/mountinfo")["stdout"].strip()
    assert (got == "0") == (len(groups) == 2), (got, groups)
