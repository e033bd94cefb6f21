"""cove exec: commands without state, in the foreground and in the background."""
import json
import os
import shlex
import signal
import subprocess

import pytest

from conftest import DEADLINE, alive, wait_until


def find(cove, box, exec_id):
    return next(e for e in cove.execs(box) if e["exec_id"] == exec_id)


def background(cove, box, *command, flags=()):
    got = cove("exec", "--background", *flags, box, "--", *command).ok()
    return int(got.text.strip())


def test_streams_and_status(cove, shared):
    got = cove("exec", shared, "--", "sh", "-c", "echo o; echo e >&2; exit 5")
    assert (got.rc, got.out, got.err) == (5, b"o\n", b"e\n")


def test_no_state_between_commands(cove, shared):
    cove("exec", shared, "--", "sh", "-c", "cd /; export X=1").ok()
    assert cove("exec", shared, "--", "sh", "-c", "echo [$X]").text == "[]\n"


def test_stdin_stream(cove, shared):
    data = os.urandom(5 << 20)
    assert cove("exec", "-i", shared, "--", "cat", input=data).out == data


def test_stdin_goes_as_it_comes(cove, shared):
    process = cove.start("exec", "-i", shared, "--", "cat")
    for word in (b"one\n", b"two\n"):
        process.stdin.write(word)
        process.stdin.flush()
        assert process.stdout.readline() == word
    process.stdin.close()
    assert process.wait(DEADLINE) == 0


@pytest.mark.once("root")
def test_a_loop_keeps_its_stdin(cove, shared):
    """Without -i a command takes nothing of its caller's stdin, whatever it reads itself."""
    words = " ".join(shlex.quote(os.fsdecode(word)) for word in cove.argv(["exec", shared, "--"]))
    for command in ("echo $f", "sh -c \"cat; echo $f\""):
        done = subprocess.run(["bash", "-c", f"while read f; do {words} {command}; done"], input=b"a\nb\nc\n",
                              env=cove.env, capture_output=True, timeout=DEADLINE)
        assert (done.stdout, done.stderr) == (b"a\nb\nc\n", b"")
    assert cove("exec", shared, "--", "cat", input=b"lost").ok().out == b""
    assert cove("exec", "-i", shared, "--", "cat", input=b"kept").ok().out == b"kept"
    assert b"typed" in cove("exec", "-t", shared, "--", "head", "-n1", input=b"typed\n").ok().out


@pytest.mark.parametrize("command", [["cat"], ["python3", "-c", "input()"], ["sh", "-c", "read x"]])
def test_empty_stdin(cove, shared, command):
    process = cove.start("exec", shared, "--", *command, stdin=subprocess.DEVNULL)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == (0 if command == ["cat"] else 1)


def test_cwd_env_user(cove, shared):
    got = cove("exec", "-w", "/tmp", "-e", "A=b", shared, "--", "sh", "-c", "pwd; echo $A; id -u")
    assert got.text == "/tmp\nb\n1000\n"


def test_distinct_errors(cove, shared):
    cove("exec", shared, "--", "sh", "-c", "printf '#!/no/interp\\n' > /tmp/bad; chmod +x /tmp/bad").ok()
    cove("exec", shared, "--", "sh", "-c", "printf '\\177ELF nonsense' > /tmp/elf; chmod +x /tmp/elf").ok()
    missing = cove.fails("not_found", "exec", shared, "--", "/no/such", rc=127)
    denied = cove.fails("denied", "exec", shared, "--", "/etc/hostname", rc=126)
    interp = cove.fails("not_found", "exec", shared, "--", "/tmp/bad", rc=127)
    elf = cove.fails("invalid", "exec", shared, "--", "/tmp/elf", rc=126)
    where = cove.fails("not_found", "exec", "-w", "/no/dir", shared, "--", "true")
    assert len({missing, denied, interp, elf, where}) == 5


def test_timeout_ends_the_tree(cove, shared):
    got = cove("exec", "--timeout", "300ms", "--grace", "300ms", shared, "--", "sh", "-c",
               "echo x; setsid sleep 4321 & trap '' TERM; sleep 4321")
    assert got.rc == 124 and got.out == b"x\n"
    wait_until(lambda: cove("exec", shared, "--", "pgrep", "-f", "^sleep 4321").rc == 1, "the tree to end")


TIDY = "trap 'echo tidy; exit 0' TERM; echo up; while :; do sleep 0.05; done"


@pytest.mark.once("root")
@pytest.mark.parametrize("how", ["exec", "sh"])
def test_a_timeout_lets_a_command_tidy_up(cove, box, how):
    """SIGTERM first; what does not heed it, and all it started, is gone after the grace."""
    def ask(flags, text):
        words = [box, "--", "bash", "-c", text] if how == "exec" else [box, f"bash -c {shlex.quote(text)}"]
        return cove(how, "--json", "--timeout", "300ms", *flags, *words)

    if how == "exec" and b"no cgroup" in cove("inspect", box).ok().out:
        pytest.skip("commands have no cgroups here")
    got = ask(["--grace", "60s"], TIDY)
    assert (got.rc, got.json["exit_code"], got.json["timed_out"], got.json["cause"]) == (124, 124, True, "timeout")
    assert got.json["stdout"] == "up\ntidy\n"
    assert ask(["--grace", "0"], TIDY).json["stdout"] == "up\n"
    deaf = ask(["--grace", "200ms"], "trap '' TERM; setsid sleep 8765 & sleep 8765; sleep 8765")
    assert (deaf.rc, deaf.json["signal"], deaf.json["cause"]) == (124, 9, "timeout")
    assert deaf.json["shell"] == (None if how == "exec" else "kept")
    left = ask(["--grace", "200ms"], "(trap '' TERM; setsid sleep 8765 & sleep 8765) & sleep 8765")
    assert (left.rc, left.json["cause"]) == (124, "timeout")
    assert cove("exec", box, "--", "pgrep", "-f", "^sleep 8765").rc == 1
    for bad in ("-1", "x", "1e99", "99999999999999999999d", ""):
        cove.fails("invalid", "exec", "--grace", bad, box, "--", "true")


def test_returns_though_a_child_holds_the_pipes(cove, shared):
    assert cove("exec", shared, "--", "sh", "-c", "sleep 1000 & echo x").out == b"x\n"


def test_only_standard_descriptors(cove, shared):
    got = cove("exec", shared, "--", "sh", "-c", "ls /proc/self/fd")
    assert set(got.text.split()) <= {"0", "1", "2", "3"}  # 3 is the directory ls reads


def test_many_at_once(cove, shared):
    running = [cove.start("exec", "-i", shared, "--", "sh", "-c", f"echo {i}; cat", stdin=subprocess.PIPE)
               for i in range(24)]
    for i, process in enumerate(running):
        out, _ = process.communicate(f"in{i}".encode(), timeout=DEADLINE)
        assert out.decode() == f"{i}\nin{i}"


def test_json(cove, shared):
    got = cove("exec", "--json", shared, "--", "sh", "-c", "echo o; exit 2")
    assert got.rc == 2 and got.json["stdout"] == "o\n" and got.json["exit_code"] == 2
    assert got.json["cause"] == "exit"


def test_json_of_a_signal(cove, shared):
    got = cove("exec", "--json", shared, "--", "sh", "-c", "kill -KILL $$")
    assert got.json["exit_code"] == got.rc == 137 and got.json["signal"] == 9
    assert got.json["cause"] == "signal"


@pytest.mark.once("root")
@pytest.mark.parametrize("flags, command, rc, sig", [
    ([], "exit 3", 3, None), ([], "kill -TERM $$", 143, 15), (["--timeout", "100ms"], "sleep 1000", 124, ...)])
def test_the_json_has_the_exit_status(cove, shared, flags, command, rc, sig):
    """exit_code is what cove exits with, in the result, in ps and in the events."""
    got = cove("exec", "--json", *flags, shared, "--", "sh", "-c", command)
    info = find(cove, shared, got.json["exec_id"])
    rows = [json.loads(row) for row in cove("logs", "--json", shared).ok().text.splitlines()]
    row = [row for row in rows if row["event"] == "result" and row["exec_id"] == got.json["exec_id"]][-1]
    for what in (got.json, info, row):
        assert what["exit_code"] == rc == got.rc and (sig is ... or what["signal"] == sig), what
    number = int(cove("exec", "-d", shared, "--", "sleep", "1000").ok().text)
    assert (find(cove, shared, number)["exit_code"], find(cove, shared, number)["signal"]) == (None, None)
    cove("kill", "-s", "KILL", shared, number).ok()


def test_background_is_listed_and_ends(cove, box):
    number = background(cove, box, "sh", "-c", "echo out; echo err >&2; exit 6")
    wait_until(lambda: find(cove, box, number)["state"] == "done", "the end")
    entry = find(cove, box, number)
    assert entry["exit_code"] == 6 and entry["stdout_bytes"] == 4 and entry["stderr_bytes"] == 4
    got = cove("logs", "--exec", number, box).ok()
    assert got.out == b"out\n" and got.err == b"err\n"


def test_background_signal(cove, box):
    number = background(cove, box, "sh", "-c", "trap 'echo usr; exit 3' USR1; echo up; while :; do sleep 0.05; done")
    wait_until(lambda: cove("logs", "--exec", number, box).out == b"up\n", "its first line")
    cove("kill", "--signal", "USR1", box, number).ok()
    wait_until(lambda: find(cove, box, number)["state"] == "done", "the end")
    assert find(cove, box, number)["exit_code"] == 3


def test_kill_ends_the_whole_tree(cove, box):
    number = background(cove, box, "sh", "-c", "setsid sleep 5432 & sh -c 'setsid sleep 5432 & sleep 5432' & wait")
    wait_until(lambda: cove("exec", box, "--", "pgrep", "-fc", "^sleep 5432").text == "3\n", "three sleeps")
    cove("kill", "--signal", "KILL", box, number).ok()
    wait_until(lambda: cove("exec", box, "--", "pgrep", "-f", "^sleep 5432").rc == 1, "none to be left")
    wait_until(lambda: find(cove, box, number)["state"] == "done", "its end on record")


def test_kill_of_what_does_not_exist(cove, box):
    cove.fails("not_found", "kill", box, 9999)


def test_follow_until_the_end(cove, box):
    number = background(cove, box, "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.05; done; exit 4")
    got = cove("logs", "-f", "--exec", number, box)
    assert got.out == b"1\n2\n3\n"


def test_from_a_byte(cove, box):
    number = background(cove, box, "sh", "-c", "printf 0123456789")
    wait_until(lambda: find(cove, box, number)["state"] == "done", "the end")
    assert cove("logs", "--exec", number, "--from", "4", box).out == b"456789"
    assert cove("logs", "--exec", number, "--from", "10", box).out == b""


def test_reattach_after_the_client_was_killed(cove, box):
    script = "i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); echo line $i; done; sleep 0.3; echo end"
    client = cove.start("exec", box, "--", "sh", "-c", script)
    seen = client.stdout.read(100)
    client.send_signal(signal.SIGKILL)
    client.wait()
    expected = "".join(f"line {i}\n" for i in range(1, 2001)) + "end\n"
    number = max(e["exec_id"] for e in cove.execs(box))
    rest = cove("logs", "-f", "--exec", number, "--from", len(seen), box).out
    assert seen + rest == expected.encode()


def test_killed_client_does_not_end_the_command(cove, box):
    client = cove.start("exec", box, "--", "sh", "-c", "echo up; sleep 0.4; echo later > /tmp/later")
    client.stdout.readline()
    client.kill()
    client.wait()
    wait_until(lambda: cove("exec", box, "--", "cat", "/tmp/later").out == b"later\n", "the command to go on")


def test_background_exec_is_fed_stdin(cove, box):
    number = background(cove, box, "cat", flags=("--interactive",))
    got = cove("attach", box, number, input=b"fed\n").ok()
    assert got.out == b"fed\n"
    assert find(cove, box, number)["exit_code"] == 0


def test_attach_at_a_byte(cove, box):
    number = background(cove, box, "sh", "-c", "printf 0123456789; sleep 0.2; printf abc; exit 7")
    got = cove("attach", "--from", "6", box, number)
    assert got.out == b"6789abc" and got.rc == 7


def test_attach_that_leaves_keeps_the_command(cove, box):
    number = background(cove, box, "sh", "-c", "echo up; exec sleep 1000")
    client = cove.start("attach", box, number)
    assert client.stdout.readline() == b"up\n"
    client.send_signal(signal.SIGINT)
    _, err = client.communicate(timeout=DEADLINE)
    assert b"cove attach" in err
    assert find(cove, box, number)["state"] == "running"


def test_exec_in_a_stopped_box(cove, box):
    cove("stop", box).ok()
    cove.fails("conflict", "exec", box, "--", "true")


def test_wait(cove, box):
    """Its status and its result, whenever it ends, and again when it has ended; also of a stopped box."""
    number = background(cove, box, "sh", "-c", "echo out; read x; echo err >&2; exit 5", flags=["-i"])
    late = cove("wait", "--timeout", "0.1", "--json", box, number)
    assert (late.rc, late.json["error"]["kind"]) == (124, "timeout") and find(cove, box, number)["state"] == "running"
    waiter = cove.start("wait", "--json", box, number)
    cove("attach", box, number, input=b"\n")
    got = json.loads(waiter.communicate(timeout=DEADLINE)[0])
    assert waiter.returncode == got["exit_code"] == 5
    assert (got["exec_id"], got["stdout"], got["stderr"], got["cause"]) == (number, "out\n", "err\n", "exit")
    again = cove("wait", box, number)
    assert (again.rc, again.out, again.err) == (5, b"", b"")
    cove("sh", box, "cd /tmp; kill -9 $$")
    assert cove("wait", box, number + 1).rc == 137
    cove.fails("not_found", "wait", box, 99)
    cove.fails("not_found", "wait", box, 2 ** 64 - 1)
    cove("stop", box).ok()
    assert cove("wait", "--json", box, number).json["stdout"] == "out\n"
    assert cove("wait", box, number).rc == 5
    cove.fails("not_found", "wait", box, 99)


def test_wait_through_the_end_of_the_box(cove, box):
    """Stopped or lost, the box's end is the end of the waiting too."""
    number = background(cove, box, "sleep", "1000")
    waiters = [cove.start("wait", "--json", box, number) for _ in range(3)]
    cove("stop", "--grace", "0", box).ok()
    ends = [json.loads(w.communicate(timeout=DEADLINE)[0]) for w in waiters]
    assert [(x["cause"], x["exit_code"]) for x in ends] == [("stopped", 137)] * 3
    cove("start", box).ok()
    number = background(cove, box, "sleep", "1000")
    waiter = cove.start("wait", "--json", box, number)
    os.kill(cove.inspect(box)["keeper_pid"], signal.SIGKILL)
    end = json.loads(waiter.communicate(timeout=DEADLINE)[0])
    assert (waiter.returncode, end["cause"], end["exit_code"]) == (125, "interrupted", None)


def test_wait_for_much_output(cove, box):
    number = background(cove, box, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
    got = cove("wait", "--json", box, number, timeout=120).json
    assert (got["truncated"], got["stdout_bytes"], len(got["stdout"])) == (True, 3000000, 1 << 20)


@pytest.mark.parametrize("end", [("stop",), ("stop", "--grace", "0"), ("rm", "-f")])
def test_the_end_of_the_box_is_the_cause(cove, box, end):
    """What a stop ends says so: to who waits for it, in ps and in the events."""
    deaf = cove.start("exec", "--json", box, "--", "bash", "-c", "trap '' TERM; echo up >&2; sleep 1000")
    polite = cove.start("exec", "--json", box, "--", "bash", "-c",
                        "trap 'exit 7' TERM; echo up >&2; while :; do sleep 0.02; done")
    line = cove.start("sh", box, "echo up; sleep 1000", text=True)
    assert line.stdout.readline() == "up\n"
    # Running is said of a command when it is asked for; its first words mean that it began.
    wait_until(lambda: [find(cove, box, x["exec_id"])["stderr_bytes"] for x in cove.execs(box)
                        if "up >&2" in x["command"]] == [3, 3], "the traps")
    cove(*end, box, timeout=60).ok()
    got = [json.loads(p.communicate(timeout=DEADLINE)[0]) for p in (deaf, polite)]
    err = line.communicate(timeout=DEADLINE)[1]
    assert [x["cause"] for x in got] == ["stopped", "stopped"] and got[0]["exit_code"] == 137
    assert "stopped" in err and line.returncode in (137, 143)
    if end == ("stop",):
        assert (got[1]["exit_code"], got[1]["signal"]) == (7, None)
        assert {x["cause"] for x in cove.execs(box)} == {"stopped"}
        assert cove("ps", box).text.count("stopped (") == 3
        rows = [json.loads(row) for row in cove("logs", "--json", box).text.splitlines()]
        assert {row["cause"] for row in rows if row["event"] == "result"} == {"stopped"}


def test_what_could_not_start_is_listed(cove, box):
    cove.fails("not_found", "exec", box, "--", "/no/such", rc=127)
    running = cove.execs(box)
    assert [(x["exec_id"], x["cause"], x["exit_code"]) for x in running] == [(1, "failed to start", 127)]
    cove("stop", box).ok()
    assert cove.execs(box) == running


def test_output_cap(cove, box):
    got = cove("exec", "--json", box, "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x", timeout=120)
    assert got.json["truncated"] is True and got.json["stdout_bytes"] == 3000000


def test_log_on_disk_is_capped(cove, box):
    number = background(cove, box, "sh", "-c", "head -c 80000000 /dev/zero")
    wait_until(lambda: find(cove, box, number)["state"] == "done", "the end")
    assert find(cove, box, number)["stdout_bytes"] == 80000000
    kept = subprocess.run(["du", "-sb", f"{cove.home}/boxes/{box}/logs"], capture_output=True, text=True)
    assert int(kept.stdout.split()[0]) <= (64 << 20) + (1 << 20)


def test_orphans_are_reaped(cove, box):
    cove("exec", box, "--", "sh", "-c", "for i in $(seq 50); do (setsid true &); done").ok()
    wait_until(lambda: b" Z " not in cove("exec", box, "--", "ps", "-eo", "pid,stat,comm").out.replace(b"Z", b" Z "),
               "zombies to be reaped")


def test_keeper_survives_its_clients(cove, box):
    keeper = cove.inspect(box)["keeper_pid"]
    clients = [cove.start("exec", box, "--", "sleep", "1000") for _ in range(5)]
    wait_until(lambda: len([e for e in cove.execs(box) if e["state"] == "running"]) == 5, "five commands")
    for client in clients:
        client.kill()
        client.wait()
    assert cove("exec", box, "--", "true").rc == 0 and alive(keeper)


def test_streams_by_their_names(cove, shared):
    """Scripts write to /dev/stderr and read /dev/stdin: the user may open its own streams anew."""
    line = "echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin"
    result = cove("exec", "-i", shared, "--", "sh", "-c", line, input=b"in\n").ok()
    assert result.out == b"out\nin\n" and result.err == b"err\n", repr(result)
    result = cove("sh", shared, "echo out >/dev/stdout; echo err >/dev/stderr; echo in | cat /dev/stdin").ok()
    assert result.out == b"out\nin\n" and result.err == b"err\n", repr(result)


def test_a_repeated_token_finds_its_command(cove, shared):
    """kill -9 of the client, and the same request again: one command, all of its output."""
    line = ("echo x >>/tmp/token-effect; echo started; until [ -e /tmp/token-go ]; do sleep 0.05; done; "
            "echo done; exit 7")
    request = ("exec", "--token", "repeat-1", shared, "--", "sh", "-c", line)
    first = cove.start(*request)
    assert first.stdout.readline() == b"started\n"
    first.kill()
    first.wait(DEADLINE)
    cove("exec", shared, "--", "touch", "/tmp/token-go").ok()
    for _ in range(2):
        got = cove(*request, input=b"")
        assert (got.rc, got.out) == (7, b"started\ndone\n")
    assert cove("exec", shared, "--", "cat", "/tmp/token-effect").out == b"x\n"
    other = cove("exec", "--token", "repeat-1", shared, "--", "true")
    assert other.rc == 125 and other.out == b""
    assert cove("exec", "--token", "a b", shared, "--", "true").rc == 2


def test_a_token_outlives_its_keeper(cove, box):
    """A line of sh; the box is stopped and started, which is another keeper: nothing runs twice."""
    assert cove("sh", "--token", "line", box, "echo $$ >>kept; cat kept | wc -l").out == b"1\n"
    cove("stop", box).ok()
    cove("start", box).ok()
    got = cove("sh", "--token", "line", box, "echo $$ >>kept; cat kept | wc -l")
    assert (got.rc, got.out) == (0, b"1\n")
    assert cove("sh", box, "cat kept | wc -l").out == b"1\n"


COUNT = "seq 1 100000; seq 1 5 >&2; exit 3"  # 588,895 bytes


@pytest.mark.parametrize("verb", [("run", "--"), ("exec", None), ("sh", None)])
def test_max_output(cove, shared, verb):
    """Beginning and end, and between them how much was left out; in JSON how much there was."""
    where = [shared] if verb[1] is None else []
    command = [COUNT] if verb[0] == "sh" else ["--", "bash", "-c", COUNT]
    got = cove(verb[0], "--max-output", "1K", *where, *command, timeout=60)
    out = got.text
    assert got.rc == 3 and got.errors.startswith("1\n2\n3\n4\n5\n")
    head, rest = out.split("[cove] ")
    mark, tail = rest.split("\n", 1)
    assert head.startswith("1\n2\n") and len(head.encode()) <= 513 and tail.endswith("99999\n100000\n")
    assert mark == f"{588895 - 1024} bytes were left out here" and len(tail) == 512
    result = cove(verb[0], "--json", "--max-output", "1K", *where, *command, timeout=60).json
    assert result["stdout"] == out and result["truncated"] is True
    assert (result["stdout_bytes"], result["stderr_bytes"], result["stderr"]) == (588895, 10, "1\n2\n3\n4\n5\n")


def test_max_output_that_is_enough(cove, shared):
    for size in ("588895", "1M", "none", "0"):
        got = cove("exec", "--max-output", size, shared, "--", "bash", "-c", COUNT)
        assert len(got.out) == 588895 and b"[cove]" not in got.out
    result = cove("exec", "--json", "--max-output", "600K", shared, "--", "bash", "-c", COUNT).json
    assert (result["truncated"], len(result["stdout"])) == (False, 588895)


def test_max_output_refused(cove, shared):
    for flags in (["--max-output", "2M", "--json"], ["--max-output", "1G"], ["--max-output", "1K", "-t"],
                  ["--max-output", "-1"], ["--max-output", "x"], ["--max-output", "1K", "-d"]):
        cove("exec", *flags, shared, "--", "true").refused(rc=2)


def test_max_output_and_a_reader_that_leaves(cove, shared):
    words = " ".join(shlex.quote(os.fsdecode(w)) for w in cove.argv(["exec", "--max-output", "1M", shared, "--"]))
    done = subprocess.run(["bash", "-c", f"{words} seq 1 1000000 | head -n1"], env=cove.env, capture_output=True,
                          timeout=DEADLINE)
    assert (done.stdout, done.stderr) == (b"1\n", b"")


MIXED = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done; (exit 6)"
ORDER = "".join(f"o{i}\ne{i}\n" for i in range(1, 6))


@pytest.mark.parametrize("verb", ["run", "exec", "sh"])
def test_merge(cove, shared, verb):
    """One stream, in the order in which it was written, wherever it is looked at."""
    where = [] if verb == "run" else [shared]
    command = [MIXED] if verb == "sh" else ["--", "bash", "-c", MIXED]
    got = cove(verb, "--merge", *where, *command)
    assert (got.rc, got.text, got.errors) == (6, ORDER, "")
    result = cove(verb, "--merge", "--json", *where, *command).json
    assert (result["stdout"], result["stderr"], result["exit_code"]) == (ORDER, "", 6)
    assert (result["stdout_bytes"], result["stderr_bytes"]) == (len(ORDER), 0)


def test_merge_in_the_background(cove, box):
    number = background(cove, box, "bash", "-c", MIXED, flags=["--merge"])
    assert cove("wait", box, number).rc == 6
    assert cove("logs", "--exec", number, box).text == ORDER
    late = background(cove, box, "bash", "-c", "(sleep 0.3; echo late >&2) & echo early", flags=["--merge"])
    wait_until(lambda: cove("logs", "--exec", late, box).text == "early\nlate\n", "what a child writes later")


def test_merge_of_a_line(cove, box):
    """Also bash's own messages, the report of a signal, stdin, a login, and a line that times out."""
    assert cove("sh", "--merge", box, "echo a; no-such-command; echo b").text == \
        "a\nbash: no-such-command: command not found\nb\n"
    assert cove("sh", "--merge", box, "echo a; (kill -SEGV $BASHPID)").text == "a\nSegmentation fault\n"
    assert cove("sh", "--merge", "-i", box, "cat; echo e >&2; echo o", input=b"in\n").text == "in\ne\no\n"
    got = cove("sh", "--merge", "--json", "--timeout", "0.3", box, "echo o; echo e >&2; sleep 1000").json
    assert (got["stdout"], got["cause"], got["shell"]) == ("o\ne\n", "timeout", "kept")
    assert cove("sh", "--merge", "--max-output", "8", box, MIXED).text.startswith("o1\ne\n[cove] 22 bytes")
    split = cove("sh", box, "echo o; echo e >&2")
    assert (split.text, split.errors) == ("o\n", "e\n")
