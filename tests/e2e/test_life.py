"""The life of a box over time: what it runs at its start, being paused as its time is over and woken, being started
again, and changing how long it may run. A reboot is another boot id in the record: that is all there is to see of one.
"""
import json
import os
import pathlib
import random
import re
import signal
import socket
import threading
import time

import pytest

from conftest import DEADLINE, IS_ROOT, alive, kill, needs_flag, wait_until

pytestmark = pytest.mark.once("root")


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def rewrite_run(cove, box, change):
    """Changes what a record says of a box's last run."""
    record = pathlib.Path(cove.home, "boxes", box, "record")
    run = change(record.read_bytes()[-1024:].rstrip(b"\n") + b"\n").split(b"\n", 1)[1]
    with open(record, "r+b") as file:
        file.seek(-1024, os.SEEK_END)
        file.write((b"sum crc32c:%08x\n" % crc32c(run) + run).ljust(1024, b"\n"))


def as_of_another_boot(run):
    assert b"\nboot " in run
    return re.sub(rb"\nboot .*\n", b"\nboot 00000000-0000-0000-0000-000000000000\n", run)


def lose_keeper(cove, box):
    pid = cove.inspect(box)["keeper_pid"]
    kill(pid)
    wait_until(lambda: not alive(pid), "the keeper's end")


def reboot(cove, box):
    lose_keeper(cove, box)
    rewrite_run(cove, box, as_of_another_boot)


def reap(cove, rc=0):
    done = cove("system", "reap", "--json")
    assert done.rc == rc, repr(done)
    return done.json


def done_to(reaped, box):
    return [(a["action"], a["cause"]) for a in reaped["actions"] if a["box"] == box]


def listed(cove, box):
    return next(b for b in cove("ls", "--json").ok().json if b["name"] == box)


def events(cove, box):
    return [json.loads(line) for line in cove("logs", "--json", box).ok().text.splitlines()]


def make(cove, *flags):
    return cove("create", *flags).ok().text.strip()


# ---- what it runs at its start ----

def test_on_start_runs_each_time(cove):
    box = make(cove, "--on-start", "echo up; id -un; exit 3", "-e", "X=1")
    ended = wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done" and cove.inspect(box)["on_start"],
                       "its end")
    assert (ended["exec_id"], ended["exit_code"], ended["cause"]) == (1, 3, "exit")
    assert cove("logs", "--exec", "1", box).ok().text.split()[0] == "up"
    assert cove("exec", box, "--", "id", "-un").ok().text == cove("logs", "--exec", "1", box).text.split()[1] + "\n"
    assert [(e["exec_id"], e["exit_code"]) for e in events(cove, box) if e["event"] == "result"][0] == (1, 3)
    assert listed(cove, box)["state"] == "running"
    cove("stop", box).ok()
    assert cove.inspect(box)["on_start"]["exit_code"] == 3  # also of one that does not run
    cove("start", box).ok()
    again = cove.inspect(box)["on_start"]["exec_id"]
    assert again > 1 and cove.execs(box)[again - 1]["background"] is True


def test_on_start_is_begun_before_the_first_command_which_does_not_wait(cove):
    box = make(cove, "--on-start", "echo $$ > /tmp/first; exec sleep 1000")
    got = cove("exec", box, "--", "sh", "-c", "until [ -s /tmp/first ]; do sleep 0.01; done; echo ready").ok()
    assert got.text == "ready\n"
    first = cove.execs(box)[0]
    assert first["exec_id"] == 1 and first["state"] == "running" and first["command"].startswith("echo $$")


def test_on_start_brings_daemons_back(cove):
    box = make(cove, "--on-start", "nohup sh -c 'while :; do sleep 1000; done' >/dev/null 2>&1 & echo $! > /tmp/pid")
    alive_inside = "kill -0 $(cat /tmp/pid) && echo there"
    wait_until(lambda: cove("exec", box, "--", "sh", "-c", alive_inside).text == "there\n", "the daemon")
    cove("exec", box, "--", "rm", "/tmp/pid").ok()
    reboot(cove, box)
    cove("start", box).ok()
    wait_until(lambda: cove("exec", box, "--", "sh", "-c", alive_inside).text == "there\n", "the daemon again")


def test_on_start_as_the_boxs_user_in_its_directory(cove, inner_root):
    box = make(cove, "-u", "root", "-w", "/var", "--on-start", "id -u; pwd")
    wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done", "its end")
    assert cove("logs", "--exec", "1", box).text == "0\n/var\n"


def test_on_start_in_a_fork_and_after_a_rollback(cove):
    box = make(cove, "--on-start", "echo once >> /tmp/starts", "--restart", "on-reboot")
    wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done", "its end")
    cove("snapshot", "create", box, box + "-s").ok()
    try:
        fork = cove("fork", "--name", box[:40] + "-f", box + "-s").ok().text.strip()
        found = cove.inspect(fork)
        assert found["on_start"]["line"] == "echo once >> /tmp/starts" and found["on_start"]["exec_id"] == 1
        assert found["restart"]["policy"] == "on-reboot"
        wait_until(lambda: cove("exec", fork, "--", "cat", "/tmp/starts").text == "once\n" * 2, "the fork's")
        cove("exec", box, "--", "sh", "-c", "echo more >> /tmp/starts").ok()
        cove("rollback", box, box + "-s").ok()
        wait_until(lambda: cove("exec", box, "--", "cat", "/tmp/starts").text == "once\n" * 2, "the one after it")
        cove("rm", "-f", fork).ok()
    finally:
        cove("snapshot", "rm", box + "-s")


def test_on_start_not_for_a_visit(cove, tmp):
    box = make(cove, "--on-start", "true")
    wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done", "its end")
    cove("stop", box).ok()
    cove("cp", box + ":/etc/hostname", tmp).ok()
    assert [x["exec_id"] for x in cove.execs(box)] == [1]
    assert cove.inspect(box)["on_start"]["exec_id"] == 1


def test_on_start_of_a_one_shot(cove):
    got = cove("run", "--on-start", "echo up > /tmp/x", "--", "sh", "-c",
               "until [ -s /tmp/x ]; do sleep 0.01; done; cat /tmp/x")
    assert got.ok().text == "up\n"


def test_on_start_that_cannot_be(cove):
    before = cove.names()
    cove.fails("limit", "create", "--on-start", "x" * 5000)
    assert cove.names() == before
    box = make(cove, "--on-start", "no-such-program-anywhere")
    wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done", "its end")
    assert cove.inspect(box)["on_start"]["exit_code"] == 127
    assert cove("exec", box, "--", "true").rc == 0


def test_a_daemon_does_not_keep_a_box_from_being_idle(cove):
    box = make(cove, "--on-start", "sleep 1000", "--idle", "300ms")
    wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
    assert listed(cove, box)["cause"] == "idle"


def test_open_agrees_on_them(cove):
    cove("open", "life-1", "--on-start", "true", "--restart", "always").ok()
    try:
        cove("open", "life-1").ok()
        cove("open", "life-1", "--on-start", "true", "--restart", "always").ok()
        cove.fails("conflict", "open", "life-1", "--on-start", "false")
        cove.fails("conflict", "open", "life-1", "--restart", "no")
    finally:
        cove("close", "life-1", "--delete").ok()


# ---- asleep ----

@pytest.fixture
def sleeper(cove):
    """Makes boxes that fall asleep; skips where this host cannot freeze them, which create must say."""
    def create(*flags):
        done = cove("create", "--json", "--expire", "pause", *flags)
        if done.rc != 0:
            assert done.json["error"]["kind"] == "unsupported" and "--expire pause" in done.json["error"]["message"]
            assert not IS_ROOT, repr(done)
            pytest.skip("this host cannot pause a box of this user")
        return done.json["name"]

    return create


def is_asleep(cove, box, cause="idle"):
    found = listed(cove, box)
    return (found["state"], found["cause"], found["by"]) == ("paused", cause, "cove")


def falls_asleep(cove, box, cause="idle"):
    wait_until(lambda: is_asleep(cove, box, cause), lambda: f"its sleep, {listed(cove, box)}")


def test_an_idle_box_sleeps_and_a_command_wakes_it(cove, sleeper):
    box = sleeper("--idle", "500ms")
    cove.sh(box, "v=kept; echo $$ > /tmp/shell")
    falls_asleep(cove, box)
    found = cove.inspect(box)
    assert found["paused"] is True and (found["cause"], found["by"]) == ("idle", "cove")
    # Looking at it is no use of it.
    for words in (["ls"], ["inspect", box], ["stats", box], ["logs", box], ["logs", "--json", box], ["ps", box]):
        cove(*words).ok()
    assert is_asleep(cove, box)
    got = cove.sh(box, 'echo $v $([ $$ = $(cat /tmp/shell) ] && echo same)')
    assert (got["stdout"], got["exit_code"]) == ("kept same\n", 0)  # memory and processes are as they were
    falls_asleep(cove, box)
    kinds = [(e["event"], e.get("cause"), e.get("by")) for e in events(cove, box)]
    assert ("pause", "idle", "cove") in kinds and ("resume", None, "request") in kinds


def test_a_file_and_a_port_wake_it(cove, sleeper, tmp):
    box = sleeper("--idle", "400ms", "--on-start", "echo in > /tmp/file")
    falls_asleep(cove, box)
    cove("cp", box + ":/tmp/file", tmp / "out").ok()
    assert (tmp / "out").read_text() == "in\n"
    falls_asleep(cove, box)
    (tmp / "in").write_text("back\n")
    cove("cp", tmp / "in", box + ":/tmp/back").ok()
    falls_asleep(cove, box)
    assert cove("ports", "--json", box).ok().json == []
    falls_asleep(cove, box)
    assert cove("exec", box, "--", "cat", "/tmp/back").ok().text == "back\n"
    assert listed(cove, box)["state"] == "running"


def test_a_forwarded_port_wakes_it(cove, sleeper):
    box = sleeper("--idle", "1s", "--on-start",
                  "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 8000));\n"
                  "while True: c, _ = s.accept(); c.sendall(b\"hello\"); c.close()'")
    if "python3" not in cove("exec", box, "--", "sh", "-c", "command -v python3").text:
        pytest.skip("no python3 in this image")
    wait_until(lambda: cove("exec", box, "--", "sh", "-c", "grep -q ':1F40 ' /proc/net/tcp").rc == 0, "the server")
    local = cove("port", "-d", "--json", box, "8000:0").ok().json["local_port"]
    falls_asleep(cove, box)
    with socket.create_connection(("127.0.0.1", local), timeout=DEADLINE) as s:
        assert s.recv(5) == b"hello"
    assert listed(cove, box)["state"] == "running"


def test_a_ttl_pauses_what_runs_and_begins_anew(cove, sleeper):
    box = sleeper("--ttl", "1s")
    exec_id = cove("exec", "-d", box, "--", "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /tmp/i; done").ok()
    falls_asleep(cove, box, "ttl")
    before = cove.inspect(box)["usage"]["cpu_us"]
    assert cove.inspect(box)["usage"]["cpu_us"] == before
    cove("exec", box, "--", "true").ok()
    assert cove.execs(box)[int(exec_id.text) - 1]["state"] == "running"
    falls_asleep(cove, box, "ttl")  # its time began anew, and was over again
    cove("resume", box).ok()
    assert listed(cove, box)["state"] == "running"
    falls_asleep(cove, box, "ttl")


def test_a_person_pauses_what_is_asleep(cove, sleeper):
    box = sleeper("--idle", "300ms")
    falls_asleep(cove, box)
    cove("pause", box).ok()
    found = listed(cove, box)
    assert (found["state"], found["cause"]) == ("paused", None)
    cove.fails("conflict", "exec", box, "--", "true")
    cove.fails("conflict", "cp", box + ":/etc/hostname", "/dev/null")
    cove("resume", box).ok()
    assert cove("exec", box, "--", "echo", "on").ok().text == "on\n"
    falls_asleep(cove, box)
    cove("resume", box).ok()
    assert listed(cove, box)["state"] == "running"
    falls_asleep(cove, box)  # the idle clock began again


def test_a_person_paused_it_when_its_time_is_over(cove, sleeper):
    box = sleeper("--ttl", "1s")
    cove("pause", box).ok()
    time.sleep(1.2)  # the thing itself: its time passes
    assert listed(cove, box)["state"] == "paused" and listed(cove, box)["cause"] is None
    cove.fails("conflict", "exec", box, "--", "true")
    cove("resume", box).ok()
    cove("exec", box, "--", "true").ok()
    falls_asleep(cove, box, "ttl")


@pytest.mark.parametrize("how", [("stop",), ("stop", "--grace", "0"), ("rm", "-f")])
def test_what_is_asleep_can_be_ended(cove, sleeper, how):
    box = sleeper("--idle", "200ms", "--on-start", "sleep 1000")
    falls_asleep(cove, box)
    pid = cove.inspect(box)["init_pid"]
    cove(*how, box).ok()
    assert not alive(pid)
    if how[0] == "stop":
        assert (listed(cove, box)["state"], listed(cove, box)["cause"]) == ("stopped", "stopped")
        cove("start", box).ok()
        assert cove("exec", box, "--", "echo", "again").ok().text == "again\n"
    else:
        assert box not in cove.names()


def test_a_lost_keeper_of_one_that_is_asleep(cove, sleeper):
    box = sleeper("--idle", "300ms", "--restart", "always")
    falls_asleep(cove, box)
    pid = cove.inspect(box)["init_pid"]
    lose_keeper(cove, box)
    wait_until(lambda: (listed(cove, box)["state"], listed(cove, box)["cause"]) == ("stopped", "keeper lost"), "it")
    wait_until(lambda: not alive(pid), "init's end")
    assert done_to(reap(cove), box) == [("started", "keeper lost")]
    assert cove("exec", box, "--", "echo", "again").ok().text == "again\n"


def test_snapshots_do_not_wake_it(cove, sleeper):
    box = sleeper("--idle", "300ms", "--on-start", "echo kept > /tmp/kept")
    wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done", "its start")
    falls_asleep(cove, box)
    cove("snapshot", "create", box, box + "-z").ok()
    assert is_asleep(cove, box)
    try:
        fork = cove("fork", "--name", box[:40] + "-g", box + "-z").ok().text.strip()
        assert cove("exec", fork, "--", "cat", "/tmp/kept").ok().text == "kept\n"
        assert cove.inspect(fork)["expire"] == "pause"
        cove("rm", "-f", fork).ok()
    finally:
        cove("snapshot", "rm", box + "-z")
    assert cove("exec", box, "--", "cat", "/tmp/kept").ok().text == "kept\n"


def test_requests_in_the_moment_of_freezing(cove, sleeper):
    """From several sides, around the moment at which it falls asleep: each is served."""
    box = sleeper("--idle", "100ms")
    rng, wrong = random.Random(box), []

    def ask(seed):
        for i in range(12):
            time.sleep(rng.uniform(0.08, 0.13))
            got = cove("exec", box, "--", "echo", f"{seed}-{i}")
            if (got.rc, got.text) != (0, f"{seed}-{i}\n"):
                wrong.append(repr(got))

    threads = [threading.Thread(target=ask, args=(s,)) for s in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    falls_asleep(cove, box)


def test_a_killed_keeper_at_any_moment_of_falling_asleep_and_waking(cove, sleeper):
    """kill -9 around these moments: its end is known, nothing of it is left, and it can be started again."""
    box = sleeper("--idle", "100ms")
    rng = random.Random(7)
    for i in range(8):
        found = cove.inspect(box)
        asking = cove.start("exec", box, "--", "true") if i % 2 else None
        time.sleep(rng.uniform(0, 0.15))
        kill(found["keeper_pid"])
        if asking:
            asking.communicate(timeout=DEADLINE)
            assert asking.returncode in (0, 125)
        wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
        assert listed(cove, box)["cause"] == "keeper lost"
        wait_until(lambda: not alive(found["init_pid"]), "init's end")
        cove("start", box).ok()
        assert cove("exec", box, "--", "echo", "again").ok().text == "again\n"


def test_expire_pause_is_for_boxes_that_stay(cove):
    assert "cove create" in cove.fails("invalid", "run", "--ttl", "1m", "--expire", "pause", "--", "true")
    cove.fails("invalid", "create", "--expire", "pause")
    cove.fails("invalid", "create", "--ttl", "1m", "--expire", "freeze")


# ---- changing how long it may run ----

def times(cove, box):
    limits = cove.inspect(box)["limits"]
    return limits["ttl_ms"]["value"], limits["idle_ms"]["value"]


def test_set_of_a_running_box(cove):
    box = make(cove, "--ttl", "1h")
    cove("set", box, "--idle", "2h").ok()
    assert times(cove, box) == (3600000, 7200000)
    assert cove("set", "--json", box, "--ttl", "500ms").ok().json == {"name": box, "result": "set"}
    wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
    assert listed(cove, box)["cause"] == "ttl"
    assert times(cove, box) == (500, 7200000)  # it stays with the box


def test_set_lifts(cove):
    box = make(cove, "--ttl", "2s", "--idle", "1s")
    cove("set", box, "--ttl", "none", "--idle", "none").ok()
    time.sleep(2.2)  # the thing itself: longer than both
    assert listed(cove, box)["state"] == "running" and times(cove, box) == (None, None)
    cove("stop", box).ok()
    cove("start", box).ok()
    assert times(cove, box) == (None, None)


def test_set_of_a_stopped_box(cove):
    box = make(cove)
    cove("stop", box).ok()
    cove("set", box, "--ttl", "700ms").ok()
    found = cove.inspect(box)
    assert found["limits"]["ttl_ms"]["value"] == 700 and (found["state"], found["cause"]) == ("stopped", "stopped")
    cove("start", box).ok()
    wait_until(lambda: listed(cove, box)["cause"] == "ttl", "its end")
    cove("set", box, "--ttl", "none").ok()
    assert times(cove, box) == (None, None)


def test_set_survives_a_lost_keeper(cove):
    box = make(cove, "--ttl", "1h")
    cove("set", box, "--ttl", "3h", "--idle", "4h").ok()
    lose_keeper(cove, box)
    assert times(cove, box) == (3 * 3600000, 4 * 3600000)
    cove("start", box).ok()
    assert times(cove, box) == (3 * 3600000, 4 * 3600000)


def test_set_does_not_wake(cove, sleeper):
    box = sleeper("--idle", "300ms")
    falls_asleep(cove, box)
    cove("set", box, "--idle", "1h").ok()
    assert is_asleep(cove, box)
    cove("exec", box, "--", "true").ok()
    assert listed(cove, box)["state"] == "running"


@pytest.mark.parametrize("flags", [[], ["--ttl", "soon"], ["--ttl", "1ms"], ["--idle", "99999d"], ["--mem", "1G"]])
def test_set_what_cannot_be(cove, flags):
    box = make(cove, "--ttl", "1h")
    cove.fails("invalid", "set", box, *flags)
    assert times(cove, box) == (3600000, None)
    cove.fails("not_found", "set", "no-such-box", "--ttl", "1h")


def test_set_from_many_sides(cove):
    box = make(cove)
    asked = [cove.start("set", box, "--ttl", f"{i}h", "--idle", f"{i}h") for i in range(1, 9)]
    for p in asked:
        p.communicate(timeout=DEADLINE)
        assert p.returncode == 0
    ttl, idle = times(cove, box)
    assert ttl == idle and ttl % 3600000 == 0


# ---- started again ----

def test_restart_is_for_boxes_that_stay(cove):
    assert "cove create" in cove.fails("invalid", "run", "--restart", "always", "--", "true")
    cove.fails("invalid", "create", "--restart", "on-failure")


def test_no_policy_no_start(cove, box):
    reboot(cove, box)
    got = reap(cove)
    assert done_to(got, box) == [("ended", "host reboot")] and got["started"] == 0
    assert listed(cove, box)["state"] == "stopped"


def test_on_reboot(cove):
    box = make(cove, "--restart", "on-reboot", "--on-start", "echo up")
    lose_keeper(cove, box)
    assert done_to(reap(cove), box) == [("ended", "keeper lost")]  # that is no reboot
    cove("start", box).ok()
    reboot(cove, box)
    assert done_to(reap(cove), box) == [("ended", "host reboot"), ("started", "host reboot")]
    assert listed(cove, box)["state"] == "running"
    wait_until(lambda: cove.inspect(box)["on_start"]["state"] == "done", "what it runs at its start")
    assert done_to(reap(cove), box) == []


def test_a_shutdown_in_good_order(cove):
    box, stopped = (make(cove, "--restart", "on-reboot") for _ in range(2))
    os.kill(cove.inspect(box)["keeper_pid"], signal.SIGTERM)  # as the host's own init does
    wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
    assert (listed(cove, box)["cause"], listed(cove, box)["by"]) == ("stopped", "signal")
    cove("stop", stopped).ok()
    assert done_to(reap(cove), box) == []  # the same boot
    for name in (box, stopped):
        rewrite_run(cove, name, as_of_another_boot)
    got = reap(cove)
    assert done_to(got, box) == [("started", "stopped")] and done_to(got, stopped) == []


def test_always(cove):
    box = make(cove, "--restart", "always")
    lose_keeper(cove, box)
    assert done_to(reap(cove), box) == [("ended", "keeper lost"), ("started", "keeper lost")]
    # And its init.
    cove("stop", box).ok()
    assert done_to(reap(cove), box) == []  # somebody stopped it
    cove("start", box).ok()
    kill(cove.inspect(box)["init_pid"])
    wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
    assert cove.inspect(box)["restart"]["at_ms"] is not None
    wait_until(lambda: ("started", listed(cove, box)["cause"]) and done_to(reap(cove), box), "its start")
    assert listed(cove, box)["state"] == "running"


@pytest.mark.parametrize("flags,cause", [(["--ttl", "300ms"], "ttl"), (["--idle", "300ms"], "idle")])
def test_always_is_not_when_its_time_is_over(cove, flags, cause):
    box = make(cove, "--restart", "always", *flags)
    wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
    assert done_to(reap(cove), box) == [] and listed(cove, box)["cause"] == cause


def test_back_off_outlives_whoever_starts(cove):
    box = make(cove, "--restart", "always")
    seen = []
    for i in range(3):
        lose_keeper(cove, box)
        wait_until(lambda: listed(cove, box)["state"] == "stopped", "its end")
        before = cove.inspect(box)["restart"]
        seen.append((before["count"], round((before["at_ms"] - time.time() * 1000) / 1000)))
        got = reap(cove)
        if i > 0:  # not yet; and the next pass is to be when it is
            assert ("started", "keeper lost") not in done_to(got, box) and got["next_ms"] <= 4000
        wait_until(lambda: listed(cove, box)["state"] == "running" or reap(cove)["started"], "its start")
    assert [count for count, _ in seen] == [0, 1, 2] and cove.inspect(box)["restart"]["count"] == 3
    assert seen[0][1] == 0 and seen[1][1] <= 1 and seen[2][1] <= 2


def test_stop_ends_the_waiting(cove):
    box = make(cove, "--restart", "always")
    for _ in range(2):
        lose_keeper(cove, box)
        reap(cove)
    assert listed(cove, box)["state"] == "stopped" and cove.inspect(box)["restart"]["at_ms"]
    cove("stop", box).ok()
    assert cove.inspect(box)["restart"]["at_ms"] is None
    time.sleep(1.1)  # until it would have been due
    assert done_to(reap(cove), box) == [] and listed(cove, box)["state"] == "stopped"
    cove("start", box).ok()  # which ends that
    lose_keeper(cove, box)
    wait_until(lambda: ("started", "keeper lost") in done_to(reap(cove), box), "its start")


def test_a_visit_is_no_run(cove, tmp):
    """A box that is up for `cp` alone is not one that runs; nor is it forgotten that it is to be started."""
    waits, stopped = (make(cove, "--restart", "always") for _ in range(2))
    cove("stop", stopped).ok()
    lose_keeper(cove, waits)
    for box in (waits, stopped):
        cove("cp", box + ":/etc/hostname", tmp / box).ok()
    got = reap(cove)
    assert done_to(got, waits) == [("started", "keeper lost")] and done_to(got, stopped) == []


def test_many_at_once_start_it_once(cove):
    boxes = [make(cove, "--restart", "on-reboot") for _ in range(3)]
    for box in boxes:
        reboot(cove, box)
    running = [cove.start("system", "reap", "--json") for _ in range(5)]
    started = []
    for p in running:
        out, err = p.communicate(timeout=DEADLINE)
        assert p.returncode == 0, err
        started += [a["box"] for a in json.loads(out)["actions"] if a["action"] == "started"]
    assert sorted(set(started) & set(boxes)) == sorted(b for b in started if b in boxes) == sorted(boxes)
    for box in boxes:
        assert cove.inspect(box)["restart"]["count"] == 1
        assert cove("exec", box, "--", "true").rc == 0


def test_a_start_that_fails_is_tried_again(cove, tmp):
    (tmp / "shared").mkdir()
    box = make(cove, "--restart", "on-reboot", "--mount", f"{tmp}/shared:/shared")
    reboot(cove, box)
    (tmp / "shared").rmdir()
    got = reap(cove, rc=125)
    assert [a for a, _ in done_to(got, box)] == ["ended", "failed"] and got["failed"] == 1
    assert listed(cove, box)["state"] == "stopped" and cove.inspect(box)["restart"]["at_ms"]
    (tmp / "shared").mkdir()
    os.chown(tmp / "shared", os.getuid(), os.getgid())
    wait_until(lambda: "started" in [a for a, _ in done_to(reap(cove), box)], "its start")
    assert cove("exec", box, "--", "true").rc == 0


def test_a_killed_reaper(cove):
    """At any moment: the box is started once, by that one or by the next."""
    for i in range(6):
        box = make(cove, "--restart", "on-reboot")
        reboot(cove, box)
        p = cove.start("system", "reap")
        time.sleep(0.012 * i)
        p.kill()
        p.communicate(timeout=DEADLINE)
        wait_until(lambda: listed(cove, box)["state"] == "running" or reap(cove), "its start")
        wait_until(lambda: listed(cove, box)["state"] == "running" or reap(cove)["started"], "its start")
        assert cove("exec", box, "--", "true").rc == 0
        cove("rm", "-f", box).ok()


# ---- what is due to go ----

def test_what_does_not_run_goes_when_its_time_is_over(cove):
    lost, stopped, kept = (make(cove, "--ttl", "2s", "--expire", e) for e in ("remove", "remove", "stop"))
    lose_keeper(cove, lost)
    cove("stop", stopped).ok()
    lose_keeper(cove, kept)
    got = reap(cove)
    assert done_to(got, lost) in ([("ended", "keeper lost")], [])
    assert not got["removed"] and got["next_ms"] <= 2000
    wait_until(lambda: reap(cove) and not {lost, stopped} & set(cove.names()), "their removal")
    assert kept in cove.names()


def test_what_was_extended_does_not_go(cove):
    box = make(cove, "--ttl", "1s", "--expire", "remove")
    cove("set", box, "--ttl", "1h").ok()
    lose_keeper(cove, box)
    time.sleep(1.1)  # its first ttl is over
    got = reap(cove)
    assert done_to(got, box) == [("ended", "keeper lost")] and box in cove.names()


def test_restored_is_left_alone(new_home, tmp):
    cove = new_home()
    box = make(cove, "--image", "host", "--ttl", "1s", "--expire", "remove", "--restart", "always")
    name = box
    lose_keeper(cove, box)
    listed(cove, box)
    cove("system", "backup", tmp / "all").ok()
    cove("rm", "-f", box).ok()
    there = new_home()
    there("system", "restore", tmp / "all").ok()
    time.sleep(1.1)  # its ttl is over
    got = reap(there)
    assert done_to(got, name) == [] and listed(there, name)["state"] == "stopped"


def test_reap_of_nothing(new_home):
    cove = new_home()
    got = reap(cove)
    assert got["actions"] == [] and got["next_ms"] == 60000
    assert not os.path.exists(cove.home)


def test_reap_sweeps(cove):
    """What crashes leave is put in order: a one-shot whose keeper and caller were killed, a half-made box."""
    p = cove.start("run", "--", "sleep", "1000")
    name = wait_until(lambda: next((b["name"] for b in cove("ls", "--json").json if b["keeper_pid"] and
                                    cove.inspect(b["name"])["one_shot"]), None), "the one-shot")
    pid = cove.inspect(name)["keeper_pid"]
    p.kill()
    kill(pid)
    p.communicate(timeout=DEADLINE)
    wait_until(lambda: not alive(pid), "the keeper's end")
    left = pathlib.Path(cove.home, "boxes", ".new-0123456789abcdef")
    left.mkdir()
    reap(cove)
    assert not left.exists() and name not in os.listdir(pathlib.Path(cove.home, "boxes"))


def test_reap_as_lines(cove):
    box = make(cove, "--restart", "always")
    lose_keeper(cove, box)
    got = cove("system", "reap").ok()
    assert got.out == b"" and f"box '{box}' started: keeper lost" in got.errors
    assert cove("system", "reap", "-q").ok().errors == ""
