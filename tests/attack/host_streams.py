"""G: commands that lie, hold on, print what they should not, or die at a bad moment."""
import itertools
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time

from rig import DEADLINE, Broke, NotApplicable, Weaker, alive, case, end, need, processes_with, wait_until

EVERY_BYTE = bytes(range(256))


def bash(rig, line, *flags, box=None, **kw):
    return rig.cove.run_json(box or rig.box(), "bash", "-c", line, flags=flags, **kw)


def lines_of(rig, line, *flags, **kw):
    """A line in a shell of its own; the result object."""
    return rig.cove.sh(rig.box(), line, *flags, **kw)


# ---- G1, G2, G3: holders ----

def holder_case(name, line_no, held, line):
    @case(name, line_no, held)
    def run(rig):
        got = bash(rig, line)
        need(got["exit_code"] == 0 and got["stdout"].startswith("done"), f"{got}")


holder_case("G1_background_child_holds_stdout", "G1", "the call returns when the leader ends",
            "sleep 300 & echo done")
holder_case("G2_setsid_holder", "G2", "a child in a session of its own does not hold the call",
            "setsid sleep 300 & echo done")
holder_case("G2_nohup_and_disown", "G2", "nohup and disown do not hold the call",
            "nohup sleep 300 >&1 & disown; echo done")
holder_case("G2_double_fork", "G2", "a twice forked daemon that holds the streams does not hold the call",
            "/attack/attack --hold 5 | head -n 0 & echo done; (/attack/attack --hold 2 &)")


@case("G3_late_output_stays_with_its_command", "G3", "what a holder prints later is never the next command's")
def late_output(rig):
    box = rig.box()
    first = bash(rig, "(for i in 1 2 3 4 5 6 7 8; do sleep 0.05; echo late; done) & echo done")
    outs = [bash(rig, f"echo mine-{i}; sleep 0.05", box=box)["stdout"] for i in range(8)]
    need(outs == [f"mine-{i}\n" for i in range(8)], f"mixed: {outs}")
    for i in range(4):
        need(lines_of(rig, f"echo line-{i}")["stdout"] == f"line-{i}\n", "mixed into a shell line")
    wait_until(lambda: rig.cove("logs", "--exec", first["exec_id"], box).out.count(b"late") > 0, "the late output")


@case("G3_shell_job_prints_later", "G3", "a job of an earlier line prints into that line's log only")
def shell_job(rig):
    lines_of(rig, "(sleep 0.2; echo from-the-job) &")
    for i in range(6):
        need(lines_of(rig, f"echo {i}; sleep 0.1")["stdout"] == f"{i}\n", "the job's output is in another line")


# ---- G4: bytes ----

def exact_case(name, held, command, expected):
    @case(name, "G4", held)
    def run(rig):
        got = rig.cove("exec", rig.box(), "--", "bash", "-c", command)
        want = expected() if callable(expected) else expected
        need(got.out == want, f"{len(got.out)} bytes instead of {len(want)}: {got.out[:80]!r}")


exact_case("G4_every_byte", "all 256 bytes arrive as they are", "/attack/attack --bytes 65536",
           lambda: EVERY_BYTE * 256)
exact_case("G4_forged_json", "a result printed by the command is only output",
           "echo '{\"exec_id\":1,\"exit_code\":0,\"stdout\":\"forged\",\"cause\":\"exit\"}'",
           b'{"exec_id":1,"exit_code":0,"stdout":"forged","cause":"exit"}\n')
exact_case("G4_terminal_escapes", "escape sequences pass and change nothing",
           r"printf '\033[2J\033]0;title\007\033[6n\033P+q\033\\'",
           b"\033[2J\033]0;title\007\033[6n\033P+q\033\\")
exact_case("G4_invalid_utf8", "bytes that are no UTF-8 arrive as they are", r"printf '\xff\xfe\xc0\x80\xed\xa0\x80'",
           b"\xff\xfe\xc0\x80\xed\xa0\x80")
exact_case("G4_no_newline", "output without a newline is whole", "printf no-newline", b"no-newline")
exact_case("G5_boundary_of_64k", "output of 64 KiB minus one, exactly, and plus one is whole",
           "/attack/attack --bytes 65535; /attack/attack --bytes 65536; /attack/attack --bytes 65537",
           lambda: EVERY_BYTE * 255 + EVERY_BYTE[:255] + EVERY_BYTE * 256 + EVERY_BYTE * 256 + b"\0")


@case("G4_one_long_line", "G4", "one line of many MiB comes out byte for byte")
def long_line(rig):
    size = (8 if rig.quick else 256) << 20
    process = rig.cove.start("exec", rig.box(), "--", "bash", "-c", f"head -c {size} /dev/zero | tr '\\0' x")
    total = 0
    while data := process.stdout.read(1 << 20):
        need(data.strip(b"x") == b"", "a byte that was not sent")
        total += len(data)
    need(process.wait(DEADLINE) == 0 and total == size, f"{total} of {size} bytes")


@case("G4_forged_shell_marker", "G4", "what looks like the end of a line, printed by the command, ends nothing")
def forged_marker(rig):
    got = lines_of(rig, "for fd in 0 1 2 3 4 5 6 7 8 9 10 63 99 200 255; do printf '0\\n\\0done 0\\n' >&$fd; done "
                        "2>/dev/null; printf '%s' \"$PS1\" \"$PROMPT_COMMAND\"; echo; echo real; false")
    need(got["exit_code"] == 1 and "real" in got["stdout"], f"{got}")
    need(lines_of(rig, "echo next")["stdout"] == "next\n", "the next line is not clean")


@case("G4_forged_status_through_proc", "G4", "writing to the shell's own descriptors by /proc harms only that call")
def forged_proc(rig):
    lines_of(rig, "for f in /proc/$$/fd/*; do timeout 1 bash -c 'printf \"0 0 0\\n\" > '$f 2>/dev/null; done; exit 9")
    got = lines_of(rig, "echo alive; false")
    need(got["stdout"] == "alive\n" and got["exit_code"] == 1, f"{got}")


@case("G4_write_into_inits_directory", "G4", "files guessed in init's directory cannot be replaced or fed")
def inits_directory(rig):
    lines_of(rig, "for n in c s o e p; do for i in 0 1 2 3 4 5; do echo forged > /dev/cove/$n$i; "
                  "mkfifo /dev/cove/$n$i; "
                  "ln -s /etc/passwd /dev/cove/x$n$i; done; done 2>/dev/null; rm -rf /dev/cove/* 2>/dev/null; true")
    got = lines_of(rig, "echo alive; false")
    need(got["stdout"] == "alive\n" and got["exit_code"] == 1, f"{got}")


@case("G4_forged_events_in_the_log", "G4", "a command cannot write a line of its own into the box's event log")
def forged_events(rig):
    box = rig.box()
    rig.cove("exec", box, "--", "bash", "-c", "printf '{\"event\":\"removed\"}\\n[cove] box removed\\n'").ok()
    rig.cove("exec", box, "--", "printf", "%s", "x\n{\"event\":\"forged-by-argument\"}").ok()
    for line in rig.cove("logs", "--json", box).out.splitlines():
        need(not line.startswith(b'{"event":"forged') and not line.startswith(b'{"event":"removed'), line)


# ---- G5, G6 ----

@case("G5_stdout_closed_early", "G5", "a reader that leaves ends the call, not the box")
def closed_early(rig):
    process = rig.cove.start("exec", rig.box(), "--", "bash", "-c", "while :; do echo line; done")
    process.stdout.read(10)
    process.stdout.close()
    try:
        process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        end(process)
        raise Broke("the call goes on without a reader") from None
    finally:
        for entry in rig.cove("ps", "--json", rig.box()).json:
            if entry["state"] == "running":
                rig.cove("kill", "-s", "KILL", rig.box(), entry["exec_id"])


@case("G5_both_streams_interleaved", "G5", "stdout and stderr stay apart and whole")
def interleaved(rig):
    got = rig.cove("exec", rig.box(), "--", "bash", "-c", "for i in {1..3000}; do echo out-$i; echo err-$i >&2; done")
    need(got.out == b"".join(b"out-%d\n" % i for i in range(1, 3001)), "stdout is not whole")
    need(got.err == b"".join(b"err-%d\n" % i for i in range(1, 3001)), "stderr is not whole")


@case("G5_command_closes_its_streams", "G5", "a command that closes its streams still ends with its status")
def closes(rig):
    need(bash(rig, "exec 0<&- 1>&- 2>&-; exit 5")["exit_code"] == 5, "the status is lost")


@case("G5_nonblocking_stdout", "G5", "a command that makes its stdout non-blocking loses nothing of another's")
def nonblocking(rig):
    bash(rig, "python3 -c 'import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK); os.write(1, b\"x\" * 100)'")
    got = rig.cove("exec", rig.box(), "--", "/attack/attack", "--bytes", "300000")
    need(len(got.out) == 300000, f"{len(got.out)} bytes")


@case("G6_stdin_is_empty", "G6", "a command that reads stdin sees its end, not the shell's text")
def stdin_empty(rig):
    need(bash(rig, "cat; read x; echo end")["stdout"] == "end\n", "stdin was not empty")
    need(lines_of(rig, "cat; read x; echo end")["stdout"] == "end\n", "a line read the shell's stdin")
    need(lines_of(rig, "echo still")["stdout"] == "still\n", "the shell lost its text")


# ---- G8, G9 ----

def start_case(name, held, setup, argv, rc):
    @case(name, "G8", held)
    def run(rig):
        box = rig.box()
        rig.cove("exec", box, "--", "bash", "-c", setup).ok()
        got = rig.cove("exec", box, "--", *argv)
        need(got.rc == rc and got.err, repr(got))
        return got.errors.strip()[:100]


start_case("G8_missing_program", "no such program is 127 with a sentence", "true", ["/nowhere/at/all"], 127)
start_case("G8_not_executable", "a file without the right to run is 126", "rm -f /tmp/ne; echo x > /tmp/ne",
           ["/tmp/ne"], 126)
start_case("G8_wrong_architecture", "a program of another machine is 126",
           "printf '\\x7fELF\\x02\\x01\\x01\\0\\0\\0\\0\\0\\0\\0\\0\\0\\x02\\0\\xb7\\0' > /tmp/wa; chmod 755 /tmp/wa",
           ["/tmp/wa"], 126)
start_case("G8_bad_interpreter", "a script without its interpreter is 127, and the sentence says which is missing",
           "printf '#!/no/interpreter\\n' > /tmp/bi; chmod 755 /tmp/bi", ["/tmp/bi"], 127)
start_case("G8_directory_as_program", "a directory is 126", "true", ["/tmp"], 126)


@case("G8_missing_directory", "G8", "a working directory that is not there is an error of its own")
def missing_cwd(rig):
    got = rig.cove("exec", "-w", "/no/such/dir", rig.box(), "--", "true")
    need(got.rc in (125, 126) and b"/no/such/dir" in got.err, repr(got))


@case("G9_exit_codes", "G9", "exit codes arrive as they are")
def exit_codes(rig):
    for code in range(256) if not rig.quick else (0, 1, 2, 42, 124, 125, 126, 127, 128, 137, 200, 255):
        got = bash(rig, f"exit {code}")
        need(got["exit_code"] == code and got["cause"] == "exit", f"{code}: {got}")


@case("G9_signals", "G9", "death by each signal is told as that signal, and a code of 128+N is not taken for it")
def signals(rig):
    for number in [n for n in range(1, 65) if n not in (17, 18, 19, 20, 21, 22, 23, 28, 32, 33)]:
        got = rig.cove.run_json(rig.box(), "/attack/attack", "--die", number)
        need(got.get("signal") == number and got["exit_code"] == 128 + number, f"signal {number}: {got}")
    need(bash(rig, "exit 137").get("signal") in (None, 0), "137 was taken for a signal")


@case("G9_exit_in_shell", "G9", "exit 7 in a shell returns 7, says exited, and the next line has a fresh shell")
def exit_in_shell(rig):
    got = lines_of(rig, "X=1; exit 7")
    need(got["exit_code"] == 7 and got["shell"] == "exited", f"{got}")
    need(lines_of(rig, "echo [$X]")["stdout"] == "[]\n", "the old shell is there")


# ---- G10 ----

@case("G10_timeout_of_a_setsid_tree", "G10", "a timeout ends the whole tree, setsid or not, and keeps what it printed")
def timeout_tree(rig):
    tag = f"41{os.getpid() % 10000:04d}.25"
    got = bash(rig, f"echo partial; setsid sleep {tag} & (setsid bash -c 'sleep {tag}; true' &); sleep {tag}",
               "--timeout", "400ms")
    need(got["timed_out"] and got["stdout"] == "partial\n", f"{got}")
    left = rig.running(rig.box(), tag)
    for pid in processes_with(tag):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    if left and (rig.own_kernel or "cgroup" not in rig.promised):
        raise Weaker(f"no groups of commands here: a tree is found by walking descendants, and {len(left)} processes "
                     "in a session of their own outlived the timeout")
    need(not left, f"{len(left)} processes survived")


@case("G10_timeout_of_a_shell_line", "G10", "a line that times out is ended with its tree, and the next one works")
def timeout_line(rig):
    got = lines_of(rig, "trap '' TERM INT HUP; echo partial; while :; do sleep 1; done", "--timeout", "300ms")
    need(got["timed_out"] and got["stdout"] == "partial\n" and got["shell"] in ("kept", "restarted"), f"{got}")
    need(lines_of(rig, "echo next")["stdout"] == "next\n", "the next line does not work")


@case("G10_shortest_timeouts", "G10", "timeouts of 1 ms and at the very end give one clear answer each")
def short_timeouts(rig):
    need(bash(rig, "sleep 5", "--timeout", "1ms")["timed_out"], "1 ms did not time out")
    for _ in range(10):
        got = bash(rig, "sleep 0.02; exit 3", "--timeout", "20ms")
        # Ended by itself before the timer, or a timeout: whatever the first process made of that.
        need(got["timed_out"] == (got["cause"] == "timeout"), f"{got}")
        need(got["timed_out"] or got["exit_code"] == 3, f"{got}")
    need(bash(rig, "sleep 0.01; exit 4", "--timeout", "0")["exit_code"] == 4, "0 is not none")


@case("G10_ignores_every_signal", "G10", "a command that ignores what can be ignored is ended by its timeout")
def ignores(rig):
    got = bash(rig, "trap '' $(seq 1 64) 2>/dev/null; echo on; while :; do :; done", "--timeout", "300ms")
    need(got["timed_out"], f"{got}")


# ---- G11 ----

def shell_case(name, held, lines, then="echo next", want="next\n"):
    @case(name, "G11", held)
    def run(rig):
        for line in lines:
            lines_of(rig, line, "--timeout", "10s", timeout=40)
        got = lines_of(rig, then, "--timeout", "10s")
        need(got["stdout"] == want, f"{got}")


shell_case("G11_syntax_errors", "unclosed quotes, braces and here documents end their line only",
           ["echo 'unclosed", "{ echo", "cat <<X\nno end", "(((", "}", "fi", "case x in", "`", "$("])
shell_case("G11_exec_replaces_the_shell", "exec of another program ends that shell; the next line has one",
           ["exec sleep 0.1"])
shell_case("G11_options", "set -e, -u, -x, -n and pipefail cannot break the next line",
           ["set -e; false; true", "set -u; echo $nothing_here", "set -n", "set -x; true", "set +x; exit"])
shell_case("G11_traps", "traps on EXIT, DEBUG, ERR and RETURN cannot answer for the shell",
           ["trap 'echo trapped; exit 9' EXIT DEBUG ERR RETURN; true", "exit"])
shell_case("G11_prompt_variables", "PROMPT_COMMAND, PS0, PS1, PS4 and BASH_ENV change nothing for the next line",
           ["PROMPT_COMMAND='echo prompt; exit 3'; PS0=x; PS4='$(exit 4)'; export BASH_ENV=/tmp/none; true",
            "unset PROMPT_COMMAND PS0 PS4; exit"])
shell_case("G11_aliases_and_functions", "aliases and functions named like builtins do not change the next line's end",
           ["alias echo='false'; eval() { builtin echo fake; }; exec() { :; }; printf() { :; }; true", "exit"])
shell_case("G11_closed_descriptors", "a shell that closes all its descriptors is replaced or goes on",
           ["exec >&- 2>&- <&-", "for i in {3..255}; do eval \"exec $i>&-\"; done"])
shell_case("G11_shell_kills_itself", "kill -9 $$ is reported and the next line has a fresh shell",
           ["kill -9 $$", "kill -STOP $$ & sleep 0.1"])
shell_case("G11_readonly_and_ifs", "readonly names and an odd IFS or PATH do not confuse the next shell line",
           ["IFS=e; PATH=/nowhere; true", "exit"])


# ---- G12, G13 ----

def terminal(rig, argv, script, seconds=120):
    """Runs cove on a terminal of ours; script is a list of (wait for, send). Every step waits for what is
    printed, however long that takes; the seconds only tell a hang. How many were sent, what was seen last,
    and whether the program ended by itself."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(rig.cove.program, [os.fsdecode(a) for a in rig.cove.argv(argv)], rig.cove.env)
    seen, sent, deadline = b"", 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        if sent < len(script) and script[sent][0] in seen:
            seen = seen.split(script[sent][0], 1)[1]
            os.write(fd, script[sent][1])
            sent += 1
        if not select.select([fd], [], [], 0.1)[0]:
            if os.waitpid(pid, os.WNOHANG)[0]:
                os.close(fd)
                return sent, seen, True
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        if not data:
            break
        seen += data
    hangs = time.monotonic() >= deadline
    if hangs:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)
    return sent, seen, not hangs


@case("G12_keys_of_a_terminal", "G12", "^C, ^Z and ^D reach the command inside and not Cove")
def keys(rig):
    sent, seen, ended = terminal(rig, ["exec", "-t", "-i", rig.box(), "--", "bash", "--norc", "-i"], [
        (b"$ ", b"bash -c \"echo on''e; sleep 100\"\r"), (b"one\r\n", b"\x03"),
        (b"$ ", b"bash -c \"echo tw''o; cat\"\r"), (b"two\r\n", b"\x04"),
        (b"$ ", b"bash -c \"echo thre''e; sleep 200\"\r"), (b"three\r\n", b"\x1a"),
        # A shell with a stopped job does not leave at the first exit, so the job is waited for.
        (b"$ ", b"kill -9 %1; wait %1; echo al''ive\r"), (b"alive\r\n", b""), (b"$ ", b"exit\r")])
    need(sent == 9 and ended, f"{sent} of 9 answers came; last: {seen[-200:]!r}")


@case("G12_terminal_flood_and_hangup", "G12", "a flooded terminal that nobody reads can be left")
def flood_terminal(rig):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(rig.cove.program, [os.fsdecode(a) for a in rig.cove.argv(
            ["exec", "-t", "-i", rig.box(), "--", "bash", "-c", "yes flood"])], rig.cove.env)
    seen = b""
    while b"flood" not in seen:
        need(select.select([fd], [], [], 60)[0], "the flood does not come")
        seen += os.read(fd, 4096)
    os.close(fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for entry in rig.cove("ps", "--json", rig.box()).json:
        if entry["state"] == "running":
            rig.cove("kill", "-s", "KILL", rig.box(), entry["exec_id"])


@case("G13_orphans_are_reaped", "G13", "a thousand orphans leave no zombie")
def orphans(rig):
    bash(rig, "for i in {1..300}; do (true & true &) ; done; sleep 0.2")

    def zombies():
        got = bash(rig, "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l")
        return int(got["stdout"]) == 0
    wait_until(zombies, "the orphans to be reaped")


@case("G13_signals_to_pid_1_as_root", "G13", "root inside can neither end, stop nor reload init")
def signals_to_init(rig):
    if not rig.root_inside():
        raise NotApplicable("there is no root inside for this caller")
    bash(rig, "for s in $(seq 1 64); do kill -$s 1; done 2>/dev/null; true", "-u", "root")
    need(bash(rig, "echo ok")["stdout"] == "ok\n", "init does not answer")


@case("G13_kill_everything_as_root", "G13", "kill -9 -1 by root inside ends commands and not the box")
def kill_all(rig):
    if not rig.root_inside():
        raise NotApplicable("there is no root inside for this caller")
    got = rig.cove("exec", "-u", "root", rig.box(), "--", "bash", "-c", "kill -9 -1; sleep 0.1; echo here")
    need(rig.cove.sh(rig.box(), "echo ok")["stdout"] == "ok\n", repr(got))


# ---- G14 ----

@case("G14_many_commands_at_once", "G14", "200 commands at once each get their own output and status")
def many_at_once(rig):
    box, wrong = rig.box(), []

    def one(i):
        got = rig.cove("exec", box, "--", "bash", "-c", f"echo out-{i}; exit {i % 200}")
        if got.out != b"out-%d\n" % i or got.rc != i % 200:
            wrong.append(repr(got))
    for start in range(0, 60 if rig.quick else 200, 50):
        threads = [threading.Thread(target=one, args=(i,)) for i in range(start, start + 50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    need(not wrong, f"{len(wrong)} wrong: {wrong[:2]}")


ACTIONS = {
    "stop": lambda rig, box: rig.cove("stop", "--grace", "0", box),
    "kill": lambda rig, box: rig.cove("kill", "-s", "KILL", box, "1"),
    "rm": lambda rig, box: rig.cove("rm", "-f", box),
    "exec": lambda rig, box: rig.cove("exec", box, "--", "/attack/attack", "--bytes", "10"),
    "upload": lambda rig, box: rig.cove("cp", "-", f"{box}:/tmp/up", input=b"x" * 100000),
    "start": lambda rig, box: rig.cove("start", box),
}


PAIRS, PAIR_SECONDS, LANES = 10_000, 120, 4


class Pairs:
    """Two actions at once on one box, again and again; a few boxes side by side."""

    def __init__(self, rig, total, seconds):
        self.rig, self.bad, self.done, self.lock = rig, [], 0, threading.Lock()
        names = sorted(ACTIONS)
        pairs = [(one, two) for i, one in enumerate(names) for two in names[i:]]
        self.left, self.end = itertools.islice(itertools.cycle(pairs), total), time.monotonic() + seconds

    def act(self, name, box):
        try:
            got = ACTIONS[name](self.rig, box)
            if got.rc < 0 or got.rc in (134, 139) or (got.rc and not got.err):
                self.bad.append(repr(got))
        except Broke as reason:
            self.bad.append(str(reason))

    def next(self):
        with self.lock:
            return next(self.left, None) if time.monotonic() < self.end and len(self.bad) < 10 else None

    def lane(self):
        box = None
        while pair := self.next():
            if not box:
                box = self.rig.make()
                self.rig.cove("exec", "-d", box, "--", "sleep", "30")
            threads = [threading.Thread(target=self.act, args=(n, box)) for n in pair]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with self.lock:
                self.done += 1
            if {"rm", "stop"} & set(pair):  # the others leave a box that the next pair can have
                self.rig.cove("rm", "-f", box).ok()
                box = None
        if box:
            need(self.rig.answers(box), "a box that pairs raced on does not answer")
            self.rig.cove("rm", "-f", box).ok()

    def guarded(self):
        try:
            self.lane()
        except Broke as reason:
            self.bad.append(str(reason))


@case("G14_racing_pairs", "G14", "stop, kill, rm, exec, upload, start racing in all pairs: each answers, none crashes")
def pairs(rig):
    race = Pairs(rig, len(ACTIONS) * (len(ACTIONS) + 1) // 2 if rig.quick else PAIRS, PAIR_SECONDS)
    lanes = [threading.Thread(target=race.guarded) for _ in range(LANES)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    need(not race.bad, f"{len(race.bad)} of {race.done} pairs: {race.bad[:2]}")
    need(race.done >= 20, f"only {race.done} pairs")
    return f"{race.done} pairs"


# ---- G15, G16, G18, G20 ----

@case("G15_resume_at_an_offset", "G15", "a reader that comes back at a byte gets every later byte once")
def resume(rig):
    box = rig.box()
    size = 4 << 20
    job = rig.cove("exec", "-d", box, "--", "/attack/attack", "--bytes", size).ok().text.strip()
    follow = rig.cove.start("attach", box, job)
    first = follow.stdout.read(100_000)
    end(follow)
    wait_until(lambda: [e for e in rig.cove("ps", "--json", box).json if str(e["exec_id"]) == job and
                        e["state"] != "running"], "the command")
    rest = rig.cove("logs", "--exec", job, "--from", len(first), box).out
    need(first + rest == EVERY_BYTE * (size // 256), f"{len(first)} + {len(rest)} bytes of {size}")


@case("G15_client_killed_mid_stream", "G15", "a killed client loses nothing of the command's log")
def killed_client(rig):
    box = rig.box()
    process = rig.cove.start("exec", box, "--", "bash", "-c", "echo one; sleep 0.3; echo two")
    process.stdout.read(4)
    end(process)
    last = max(rig.cove("ps", "--json", box).json, key=lambda e: e["exec_id"])
    wait_until(lambda: [e for e in rig.cove("ps", "--json", box).json if e["exec_id"] == last["exec_id"] and
                        e["state"] != "running"], "the command to end")
    out = rig.cove("logs", "--exec", last["exec_id"], box).out
    need(out in (b"one\ntwo\n", b"one\n"), f"{out!r}")


@case("G18_box_dies_during_upload", "G18", "an upload into a box that dies ends with a sentence, and nothing is left")
def dies_during_upload(rig):
    box = rig.make()
    process = rig.cove.start("cp", "-", f"{box}:/tmp/big")
    process.stdin.write(b"x" * 300_000)
    process.stdin.flush()
    rig.cove("stop", "--grace", "0", box).ok()
    try:
        process.stdin.write(b"x" * 300_000)
        process.stdin.close()
    except OSError:
        pass
    try:
        rc = process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        end(process)
        raise Broke("the upload hangs") from None
    process.stdin = None
    err = process.stderr.read()
    rig.cove("rm", "-f", box).ok()
    need(0 < rc < 128 and err, f"rc {rc}, {err!r}")
    return err.decode(errors="replace").strip()[:100]


@case("G18_keeper_killed_during_upload", "G18", "kill -9 of the keeper ends the upload with a sentence; rm works")
def keeper_dies(rig):
    box = rig.make()
    keeper = rig.keeper(box)
    process = rig.cove.start("cp", "-", f"{box}:/tmp/big")
    process.stdin.write(b"x" * 300_000)
    process.stdin.flush()
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not alive(keeper), "the keeper's end")
    end(process, signal.SIGCONT) if process.poll() is None and closing(process) else None
    state = wait_until(lambda: (s := rig.cove.inspect(box)) and s["state"] != "running" and s, "the box's end")
    need(state.get("cause"), f"no cause: {state}")
    rig.cove("rm", "-f", box).ok()
    return f"cause: {state['cause']}"


def closing(process):
    try:
        process.stdin.close()
    except OSError:
        pass
    process.stdin = None
    return True


@case("G20_pause_during_output", "G20", "a pause in the middle of output loses no byte; kill and rm work while paused")
def pause(rig):
    if not re.search(r"^\s+pause\b", rig.cove("help").text, re.M):
        raise NotApplicable("this build cannot pause")
    box = rig.make()
    size = 16 << 20
    process = rig.cove.start("exec", box, "--", "/attack/attack", "--bytes", size)
    data = process.stdout.read(65536)
    paused = rig.cove("pause", box)
    if paused.rc != 0:
        end(process)
        rig.cove("rm", "-f", box)
        paused.refused()
        raise NotApplicable(paused.errors.strip()[:100])
    rig.cove("resume", box).ok()
    data += process.communicate(timeout=DEADLINE)[0]
    need(data == EVERY_BYTE * (size // 256), f"{len(data)} bytes of {size}")
    rig.cove("exec", "-d", box, "--", "sleep", "100").ok()
    rig.cove("pause", box).ok()
    refused = rig.cove("exec", box, "--", "true")
    need(refused.rc == 125 and refused.err, repr(refused))
    rig.cove("rm", "-f", box).ok()
