"""The persistent shell: state that stays, and the abuses it has to survive."""
import base64
import json
import signal
import subprocess

import pytest

from conftest import DEADLINE, wait_until

# Its trees are ended with a group or without one: those tests run as both.
pytestmark = pytest.mark.once("root")


def raw(value):
    """A stream of a result object as bytes: text, or base64 where it is not UTF-8."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


@pytest.fixture
def usable(cove, shared):
    """The shared box, and after the test the proof that its shell still answers."""
    yield shared
    assert cove.sh(shared, "cd; echo still here")["stdout"] == "still here\n"


@pytest.mark.once("both")
def test_result_object(cove, usable):
    got = cove.sh(usable, "cd /tmp; echo out; echo err >&2; (exit 4)")
    assert isinstance(got["exec_id"], int)
    assert got["exit_code"] == 4
    assert got["stdout"] == "out\n" and got["stderr"] == "err\n"
    assert got["stdout_bytes"] == 4 and got["stderr_bytes"] == 4
    assert got["cwd"] == "/tmp"
    assert isinstance(got["duration_ms"], int)
    assert got["timed_out"] is False and got["oom_killed"] is False and got["truncated"] is False
    assert got["shell"] == "kept" and got["cause"] == "exit"


def test_plain_output_and_exit_status(cove, usable):
    got = cove("sh", usable, "echo out; echo err >&2; (exit 7)")
    assert (got.rc, got.out, got.err) == (7, b"out\n", b"err\n")


def test_state_stays(cove, usable):
    cove.sh(usable, "cd /tmp; export A=1; b=2; f() { echo f $1; }; alias g='echo g'; exec 7>/tmp/fd7")
    got = cove.sh(usable, "pwd; echo $A $b; f 3; echo seven >&7; cat /tmp/fd7; exec 7>&-")
    assert got["stdout"] == "/tmp\n1 2\nf 3\nseven\n"
    assert cove.sh(usable, "python3 -c 'import os; print(os.environ[\"A\"])'")["stdout"] == "1\n"


def test_umask_options_and_last_status(cove, usable):
    cove.sh(usable, "umask 027; set -o pipefail; shopt -s nullglob")
    got = cove.sh(usable, "umask; shopt -o pipefail; shopt nullglob; umask 022; set +o pipefail")
    assert got["stdout"].split() == ["0027", "pipefail", "on", "nullglob", "on"]


def test_cwd_relative_write_lands_there(cove, usable):
    cove.sh(usable, "cd /tmp")
    cove.sh(usable, "echo text > summary.txt")
    assert cove.sh(usable, "cat /tmp/summary.txt")["stdout"] == "text\n"


def test_cwd_that_was_removed(cove, usable):
    got = cove.sh(usable, "mkdir -p /tmp/gone && cd /tmp/gone && rmdir /tmp/gone; echo yes")
    assert got["stdout"] == "yes\n" and got["shell"] == "kept"
    assert cove.sh(usable, "echo here")["stdout"] == "here\n"


@pytest.mark.parametrize("line, code", [
    ("cat", 0), ("read x", 1), ("python3 -c 'input()'", 1), ("head -c 1 | wc -c", 0),
])
def test_no_stdin(cove, usable, line, code):
    assert cove.sh(usable, line)["exit_code"] == code


def test_stdin_when_given(cove, usable):
    got = cove("sh", "-i", usable, "cat", input=b"one\ntwo\0three")
    assert got.rc == 0 and got.out == b"one\ntwo\0three"
    assert cove.sh(usable, "cat")["stdout"] == ""


def test_exit(cove, usable):
    got = cove.sh(usable, "x=1; exit 3")
    assert (got["exit_code"], got["shell"]) == (3, "exited")
    assert cove.sh(usable, "echo [$x]")["stdout"] == "[]\n"


def test_set_e(cove, usable):
    got = cove.sh(usable, "set -e; false; echo not here")
    assert got["exit_code"] == 1 and got["stdout"] == ""
    assert cove.sh(usable, "set +e; false; echo here")["stdout"] == "here\n"


def test_set_e_left_on(cove, usable):
    cove.sh(usable, "set -e")
    assert cove.sh(usable, "false")["exit_code"] == 1
    assert cove.sh(usable, "set +e; echo ok")["stdout"] == "ok\n"


def test_exec_redirect_of_own_streams(cove, usable):
    assert cove.sh(usable, "exec >/dev/null; echo lost")["stdout"] == ""
    assert cove.sh(usable, "echo back")["stdout"] == "back\n"
    cove.sh(usable, "exec 2>&- 1>&- 0<&-")
    assert cove.sh(usable, "echo back")["stdout"] == "back\n"


def test_exec_replaces_the_shell(cove, usable):
    got = cove.sh(usable, "exec bash")
    assert got["shell"] in ("exited", "restarted")
    assert cove.sh(usable, "exec true")["exit_code"] == 0
    assert cove.sh(usable, "echo here")["stdout"] == "here\n"


@pytest.mark.parametrize("line", ['echo "abc', "echo 'abc", "echo $(", "if true; then", "}", ")",
                                  "cat <<", "for x in", "done", "echo `"])
def test_what_does_not_parse(cove, usable, line):
    got = cove.sh(usable, line)
    assert got["exit_code"] not in (0, None) and got["stderr"] != ""
    assert cove.sh(usable, "echo ok")["stdout"] == "ok\n"


def test_heredoc(cove, usable):
    got = cove.sh(usable, "cat <<EOF\nline $((1 + 1))\nEOF\ncat <<'X'\n$x\nX")
    assert got["stdout"] == "line 2\n$x\n"


def test_heredoc_without_its_end(cove, usable):
    assert "text" in cove.sh(usable, "cat <<EOF\ntext")["stdout"]


@pytest.mark.parametrize("line, out", [
    ("echo a # comment", "a\n"), ("echo a \\", "a\n"), ("echo a;", "a\n"), ("# only", ""),
    ("", ""), ("\n\n", ""), ("echo a\necho b", "a\nb\n"), ("echo 'a\nb'", "a\nb\n"),
    ("echo \u00fc\u4e16", "\u00fc\u4e16\n"), ("echo ${X:-d}", "d\n"), ("echo \\$HOME", "$HOME\n"),
])
def test_text_is_taken_as_it_is(cove, usable, line, out):
    got = cove.sh(usable, line)
    assert got["stdout"] == out and got["exit_code"] == 0


def test_200_kb_command(cove, usable):
    line = "x='" + "y" * 100_000 + "'\n: " + "z" * 100_000 + "\necho ${#x}"
    got = cove.sh(usable, "-", input=line.encode())
    assert got["stdout"] == "100000\n"


def test_command_from_stdin_is_not_needed_for_500_lines(cove, usable):
    got = cove.sh(usable, "\n".join(f"echo {i}" for i in range(500)))
    assert got["stdout"] == "".join(f"{i}\n" for i in range(500))


def test_every_byte(cove, usable):
    every = bytes(range(256))
    line = "python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)))'"
    assert cove("sh", usable, line).out == every
    assert cove("sh", usable, line + " >&2").err == every
    got = cove.sh(usable, line)
    assert got["stdout_bytes"] == 256
    if isinstance(got["stdout"], dict):
        assert raw(got["stdout"]) == every


def test_100_mib_of_output(cove, usable):
    got = cove.sh(usable, "head -c 104857600 /dev/zero", timeout=240)
    assert got["exit_code"] == 0 and got["truncated"] is True
    assert got["stdout_bytes"] == 104857600
    assert len(raw(got["stdout"])) <= 1 << 20


def test_100_mib_passes_through(cove, usable):
    running = cove.start("sh", usable, "head -c 104857600 /dev/zero | tr '\\0' x", stdin=subprocess.DEVNULL)
    total, clean = 0, True
    while chunk := running.stdout.read(1 << 20):
        total += len(chunk)
        clean = clean and chunk.count(b"x") == len(chunk)
    assert running.wait(240) == 0
    assert total == 104857600 and clean


def test_one_line_of_64_mib(cove, usable):
    got = cove.sh(usable, "head -c 67108864 /dev/zero | tr '\\0' a; echo", timeout=240)
    assert got["exit_code"] == 0 and got["stdout_bytes"] == 67108865


def test_output_beyond_the_kept_log_is_said(cove, usable):
    got = cove.sh(usable, "head -c 2000000 /dev/zero | tr '\\0' b; echo err >&2")
    assert got["truncated"] is True and got["stdout_bytes"] == 2000000 and got["stderr"] == "err\n"


@pytest.mark.once("both")
@pytest.mark.parametrize("line", [
    "sleep 1000 &", "sleep 1000 & echo x", "setsid sleep 1000 &", "nohup sleep 1000 &",
    "(sleep 1000 &)", "setsid sh -c 'sleep 1000 & sleep 1000' &",
    "python3 -c 'import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(1000)'",
    "sleep 1000 | sleep 1000 &", "coproc sleep 1000",
])
def test_background_child_holds_the_pipes(cove, box, line):
    got = cove.sh(box, line)
    assert got["exit_code"] == 0 and got["shell"] == "kept"
    assert "x" not in cove.sh(box, "echo alive")["stdout"]
    assert cove.sh(box, "pgrep -c -x sleep || pgrep -c python3")["stdout"].strip() != "0"


def test_late_output_is_not_mixed_into_the_next_line(cove, usable):
    first = cove.sh(usable, "rm -f /tmp/go; mkfifo /tmp/go; (read x < /tmp/go; echo late) & echo now")
    assert first["stdout"] == "now\n"
    assert cove.sh(usable, "echo > /tmp/go; echo next")["stdout"] == "next\n"
    wait_until(lambda: b"late" in cove("logs", "--exec", first["exec_id"], usable).out, "late output")


def test_jobs_stay(cove, usable):
    cove.sh(usable, "sleep 1000 & job=$!")
    assert cove.sh(usable, "jobs -p | wc -l; kill -0 $job && echo runs")["stdout"] == "1\nruns\n"
    cove.sh(usable, "kill $job; wait $job")


@pytest.mark.once("root")
def test_a_lost_state_is_said(cove, usable):
    """One [cove] line on stderr where directory and variables are gone; none where they stay."""
    for line in ("exit 3", "set -e; false", "kill -9 $$"):
        assert cove("sh", usable, "cd /tmp; x=1").ok().err == b""
        got = cove("sh", usable, line)
        assert got.errors.startswith("[cove] the shell ") and got.errors.count("\n") == 1, repr(got)
        assert cove("sh", usable, "pwd; echo [$x]").text.split()[1] == "[]"
    pid = cove("sh", usable, "echo $$").ok().text.strip()
    cove("exec", usable, "--", "kill", "-9", pid).ok()
    got = cove("sh", usable, "echo new")
    assert got.out == b"new\n" and got.errors.startswith("[cove] the shell was restarted"), repr(got)


@pytest.mark.once("both")
def test_kill_9_of_the_shell_by_itself(cove, usable):
    got = cove.sh(usable, "echo before; kill -9 $$")
    assert got["signal"] == 9 or got["signal"] == "KILL"
    assert got["exit_code"] == 137 and got["shell"] in ("exited", "restarted")
    assert got["stdout"] == "before\n"


@pytest.mark.once("both")
@pytest.mark.parametrize("line", [
    "trap '' TERM; sleep 1000", "trap '' INT TERM HUP; while :; do sleep 1000; done",
    "while :; do :; done", "sleep 1000 & wait", "kill -STOP $$", "cat < <(sleep 1000)",
    "setsid sleep 1000", "sh -c 'trap \"\" TERM INT; while :; do :; done'", "read x < <(sleep 1000)",
    "mkfifo /tmp/f$$; cat /tmp/f$$",
])
def test_timeout(cove, usable, line):
    got = cove.sh(usable, "echo so far; " + line, "--timeout", "300ms", "--grace", "300ms")
    assert got["timed_out"] is True and got["cause"] == "timeout"
    assert got["stdout"] == "so far\n"
    assert cove.sh(usable, "trap - TERM INT HUP; echo ok")["stdout"] == "ok\n"


def test_timeout_exits_124_and_keeps_output(cove, usable):
    got = cove("sh", "--timeout", "300ms", usable, "echo out; echo err >&2; sleep 1000; echo never")
    assert got.rc == 124 and got.out == b"out\n" and got.err.startswith(b"err\n")


@pytest.mark.once("both")
def test_timeout_keeps_the_state_and_ends_the_tree(cove, usable):
    cove.sh(usable, "cd /tmp; v=kept; sleep 777 & old=$!")
    got = cove.sh(usable, "setsid sleep 888 & sleep 888", "--timeout", "300ms")
    assert got["timed_out"] is True
    if got["shell"] == "kept":
        assert cove.sh(usable, "pwd; echo $v; kill -0 $old && echo old lives")["stdout"] == \
            "/tmp\nkept\nold lives\n"
    wait_until(lambda: cove.sh(usable, "pgrep -f 'sleep 88[8]'")["stdout"] == "", "the tree to end")
    cove.sh(usable, "pkill -f 'sleep 77[7]'")


def test_timeout_later_commands_of_the_line_do_not_run(cove, usable):
    cove.sh(usable, "rm -f /tmp/ran")
    cove.sh(usable, "sleep 1000; touch /tmp/ran; echo no", "--timeout", "200ms")
    assert cove.sh(usable, "test -e /tmp/ran && echo ran")["stdout"] == ""


def test_timeout_zero_means_none(cove, usable):
    assert cove.sh(usable, "sleep 0.3; echo done", "--timeout", "0")["stdout"] == "done\n"


PROTOCOL_LIKE = [
    "printf '[cove] -> exit 0\\n'", "echo '{\"exit_code\": 9}'", "printf '\\0\\0\\0\\1\\5\\0\\0\\0'",
    "printf '\\014\\0\\0\\0\\012\\0\\0\\0\\1\\0\\0\\0'", "echo x0.0 s0 o0 e0 c0",
    "ls -la /dev/cove 2>/dev/null; echo > /dev/cove/x1.0 2>/dev/null; true",
    "for i in 1 2 3 4 5 6 7 8 9; do : > /dev/cove/x$i.0; done 2>/dev/null; true",
    "head -c 65536 /dev/urandom",
]


@pytest.mark.parametrize("line", PROTOCOL_LIKE)
def test_text_that_looks_like_the_protocol(cove, usable, line):
    # A forged status may only harm the call that forged it: the next one must be right.
    cove.sh(usable, line)
    got = cove.sh(usable, "echo right; (exit 5)")
    assert (got["stdout"], got["exit_code"]) == ("right\n", 5)


@pytest.mark.parametrize("line", [
    "PROMPT_COMMAND='echo prompt'", "PS1='$ '; PS2='> '", "set -x; set +x", "set -v; set +v",
    "trap 'echo trapped' DEBUG", "trap 'echo ended' EXIT", "trap 'echo err' ERR", "set -u",
    "readonly PS1 PROMPT_COMMAND", "alias builtin='echo no'", "unset PATH", "IFS=x", "set -f",
    "shopt -s extdebug", "TMOUT=1", "exec 3<&0 4>&1 5>&2", "ulimit -c 0", "set -o noclobber",
    "source() { echo mine; }", "enable -n source", "builtin() { echo mine; }", "set -n",
    "ulimit -s 256; f() { f; }; f", "exec < /dev/tty", "stty -a", "fc -l", "history", "logout", "bind -p",
    "disown -a", "suspend", "set -m; sleep 0.01 & wait", "complete -p", "ulimit -n 8",
])
def test_shell_settings_that_could_confuse(cove, box, line):
    cove.sh(box, line, "--timeout", "20s")
    cove.sh(box, "exit 0", "--timeout", "20s")
    wait_until(lambda: cove.sh(box, "echo 'sane'", "--timeout", "20s")["stdout"] == "sane\n", "a sane shell")


def test_closing_every_descriptor(cove, usable):
    cove.sh(usable, "for i in $(seq 0 255); do eval \"exec $i>&-\"; done", "--timeout", "10s")
    wait_until(lambda: cove.sh(usable, "echo ok")["stdout"] == "ok\n", "a working shell")


def test_named_shells_are_apart(cove, usable):
    cove.sh(usable, "cd /tmp; v=a", "--shell", "one")
    cove.sh(usable, "cd /; v=b", "--shell", "two")
    assert cove.sh(usable, "pwd; echo $v", "--shell", "one")["stdout"] == "/tmp\na\n"
    assert cove.sh(usable, "pwd; echo $v", "--shell", "two")["stdout"] == "/\nb\n"


def test_named_shells_do_not_wait_for_each_other(cove, box):
    slow = cove.start("sh", "--shell", "slow", box, "read x < <(sleep 1000)")
    assert cove.sh(box, "echo quick", "--shell", "quick")["stdout"] == "quick\n"
    assert slow.poll() is None
    slow.kill()
    slow.wait()


def test_ten_lines_at_once(cove, usable):
    cove.sh(usable, "cd /tmp; rm -f order; n=0")
    running = [cove.start("sh", usable, f"n=$((n + 1)); echo a{i} >> order; sleep 0.02; echo b{i} >> order; echo $n")
               for i in range(10)]
    turns = sorted(int(p.communicate(timeout=DEADLINE)[0]) for p in running)
    assert turns == list(range(1, 11))
    marks = cove.sh(usable, "cat order")["stdout"].split()
    assert [m[1:] for m in marks[0::2]] == [m[1:] for m in marks[1::2]]
    assert all(a[0] == "a" and b[0] == "b" for a, b in zip(marks[0::2], marks[1::2]))


def test_lines_queue_in_order(cove, box):
    cove.sh(box, "cd /tmp; mkfifo gate")
    first = cove.start("sh", box, "read x < gate")
    wait_until(lambda: len(cove.execs(box)) == 2, "the first line")
    queued = []
    for i in range(5):
        queued.append(cove.start("sh", box, f"echo {i} >> line"))
        wait_until(lambda: len(cove.execs(box)) == i + 3, "the line to be queued")
    cove("exec", box, "--", "sh", "-c", "echo > /tmp/gate").ok()
    for process in [first, *queued]:
        process.communicate(timeout=DEADLINE)
    assert cove.sh(box, "cat line")["stdout"].split() == list("01234")


def test_a_waiting_line_is_queued(cove, box):
    """-d returns at once, ps says queued, waiting counts into --timeout, Ctrl-C and TERM take a line out."""
    cove.sh(box, "cd /tmp; mkfifo gate")
    first = cove.start("sh", box, "read x < gate")
    wait_until(lambda: len(cove.execs(box)) == 2, "the first line")
    later = int(cove("sh", "-d", box, "echo later").ok().text)
    assert [x["state"] for x in cove.execs(box) if x["exec_id"] == later] == ["queued"]
    late = cove("sh", "--json", "--timeout", "50ms", box, "touch /tmp/ran")
    assert late.rc == 124 and late.json["never_started"] is True
    for sign in (signal.SIGINT, signal.SIGTERM):
        waiting = cove.start("sh", box, "touch /tmp/ran")
        wait_until(lambda: cove.execs(box)[-1]["state"] == "queued", "the line to be queued")
        waiting.send_signal(sign)
        waiting.communicate(timeout=DEADLINE)
        assert waiting.returncode == 128 + sign
    cove("exec", box, "--", "sh", "-c", "echo > /tmp/gate").ok()
    first.communicate(timeout=DEADLINE)
    assert cove.sh(box, "ls /tmp/ran")["exit_code"] != 0
    assert cove("logs", "--exec", str(later), box).ok().text == "later\n"


def test_a_shells_own_pipes_cannot_be_opened_anew(cove, box):
    """Init goes by what is said there: a process that an earlier line left could end a later one."""
    got = cove.sh(box, "for f in /proc/$$/fd/*; do [ ${f##*/} -gt 2 ] && [ -p $f ] && echo has && "
                       "(: > $f) 2>/dev/null && echo open; done; true")["stdout"].split()
    assert "has" in got and "open" not in got


def test_shells_of_several_boxes(cove):
    boxes = [cove("create").ok().text.strip() for _ in range(4)]
    for name in boxes:
        cove.sh(name, f"cd /tmp; me={name}")
    running = [cove.start("sh", name, "echo $me; pwd") for name in boxes]
    for name, process in zip(boxes, running):
        assert process.communicate(timeout=DEADLINE)[0].decode() == f"{name}\n/tmp\n"


def test_line_in_missing_box(cove):
    cove.fails("not_found", "sh", "no-such-box", "true")


def test_line_is_one_argument(cove, usable):
    cove.fails("invalid", "sh", usable, "echo", "a", "--json")


def test_line_from_stdin(cove, usable):
    assert cove("sh", usable, "-", input=b"cd /tmp\npwd\n").text == "/tmp\n"
    cove.fails("invalid", "sh", usable, "-", input=b"echo a\0b")


def test_line_in_the_background(cove, usable):
    number = int(cove("sh", "-d", usable, "sleep 0.1; echo later").ok().text)
    wait_until(lambda: cove("logs", "--exec", number, usable).out == b"later\n", "its output")


@pytest.mark.parametrize("name", ["", "A b", "x" * 65, "../x", "a/b"])
def test_bad_shell_names(cove, usable, name):
    cove.fails("invalid", "sh", "--shell", name, usable, "true")


def test_a_shell_has_what_its_first_line_asked_for(cove, box, inner_root):
    """Directory, environment and user are the shell's, for all its lines; another line cannot change them."""
    flags = ["--shell", "admin", "-u", "root", "-w", "/usr", "-e", "A=one two", "-e", "B="]
    assert cove("sh", *flags, box, "id -u; pwd; echo \"$A\" ${B-unset}").text == "0\n/usr\none two\n"
    assert cove("sh", "--shell", "admin", box, "cd /tmp; id -u; echo $A").text == "0\none two\n"
    for flag in (["-w", "/"], ["-e", "A=2"], ["-u", "1000"]):
        cove.fails("invalid", "sh", "--shell", "admin", *flag, box, "echo no")
    assert cove("sh", "--shell", "admin", "-u", "root", box, "pwd").text == "/tmp\n"
    assert cove("sh", box, "id -u").text != "0\n"
    cove("sh", "--shell", "admin", box, "exit")
    assert cove("sh", "--shell", "admin", "-w", "/", box, "pwd; echo $A").text == "/\n\n"


@pytest.mark.parametrize("flags", [["-w", "/no/such"], ["-u", "nobody-here"], ["-w", "/etc/passwd"]])
def test_a_shell_that_cannot_start_as_asked(cove, box, flags):
    assert cove("sh", "--json", *flags, box, "echo no").rc != 0
    assert cove("ps", box).text.count("echo no") == 1
    assert cove("sh", box, "echo yes").ok().text == "yes\n"


def test_no_letter_for_the_time(cove, box):
    """-t is a terminal for every verb that takes it, and a shell has none."""
    cove("sh", "-t", "5", box, "true").refused(rc=2)


PROFILE = """cat > ~/.profile <<'E'
echo profile
export FROM_PROFILE=1 ORDER=$ORDER.profile
. ~/.bashrc
E
cat > ~/.bashrc <<'E'
case $- in *i*) ;; *) return;; esac
export ORDER=$ORDER.rc
alias ll='echo aliased'
hello() { echo "hello $1"; }
PS1='mine> '
E
rm -f ~/.bash_profile ~/.bash_login
"""


def test_login(cove, box):
    """The profile and ~/.bashrc, each once, before the first line; what they print is its output."""
    cove("sh", box, PROFILE).ok()
    assert cove("sh", box, "echo [$FROM_PROFILE$ORDER]").text == "[]\n"
    cove.fails("invalid", "sh", "--login", box, "true")
    got = cove.sh(box, "echo $FROM_PROFILE $ORDER; hello you", "--shell", "in", "--login")
    assert (got["stdout"], got["stderr"], got["exit_code"]) == ("profile\n1 .profile.rc\nhello you\n", "", 0)
    again = cove.sh(box, "ll; echo $ORDER \"$PS1\"", "--shell", "in", "--login")
    assert again["stdout"] == "aliased\n.profile.rc mine> \n"
    assert cove("sh", "-i", "--shell", "fed", "--login", box, "cat", input=b"input").text == "profile\ninput"
    cove("sh", box, "sed -i /bashrc/d ~/.profile; echo 'echo first' > ~/.bash_profile")
    assert cove.sh(box, "echo $ORDER", "--shell", "other", "--login")["stdout"] == "first\n.rc\n"
    cove("sh", box, "rm ~/.profile ~/.bashrc ~/.bash_profile")
    assert cove.sh(box, "echo bare", "--shell", "bare", "--login")["stdout"] == "bare\n"


@pytest.mark.parametrize("text", ["${NO:?}", "return 3", "false", "syntax (", "unset __cove; PS1=", "set -- x"])
def test_a_profile_with_faults(cove, box, text):
    cove("cp", "-", f"{box}:.profile", input=text.encode() + b"\n").ok()
    got = cove.sh(box, "echo ran; exit 4", "--login")
    assert "ran\n" in got["stdout"] and got["exit_code"] == 4


def test_a_profile_that_hangs_or_exits(cove, box):
    cove("cp", "-", f"{box}:.profile", input=b"sleep 1000\n").ok()
    late = cove("sh", "--json", "--login", "--timeout", "0.3", "--grace", "0", box, "echo no")
    assert (late.rc, late.json["stdout"], late.json["cause"]) == (124, "", "timeout")
    cove("cp", "-", f"{box}:.profile", input=b"exit 3\n").ok()
    gone = cove("sh", "--json", "--shell", "two", "--login", box, "echo no")
    assert gone.rc != 0 and gone.json["stdout"] == ""
    assert cove("sh", "--shell", "two", box, "echo yes").ok().text == "yes\n"


UUID = "3F2504E0-4f89-41d3-9a0c-0305e82c3301"


def shells(cove, box):
    return {s["name"]: s for s in cove("shells", "ls", "--json", box).ok().json}


def test_shells_ls(cove, box):
    assert cove("shells", "ls", "--json", box).json == []
    cove("sh", "-w", "/tmp", box, "true").ok()
    cove("sh", "--shell", UUID, "-w", "/", box, "true").ok()
    cove("sh", "--shell", "dead", box, "(sleep 0.05; kill -9 $$) &").ok()
    number = int(cove("sh", "-d", "--shell", "busy", "--login", box, "sleep 1000").ok().text)
    cove("sh", "-d", "--shell", "busy", box, "echo waits").ok()
    wait_until(lambda: shells(cove, box)["dead"]["state"] == "lost", "its death")
    wait_until(lambda: shells(cove, box)["busy"]["state"] == "busy", "the line")
    now = shells(cove, box)
    assert set(now) == {"default", UUID, "dead", "busy"}
    assert (now["default"]["state"], now["default"]["cwd"], now["default"]["queued"]) == ("idle", "/tmp", 0)
    assert now["default"]["pid"] > 1 and now[UUID]["cwd"] == "/"
    assert (now["busy"]["exec_id"], now["busy"]["queued"], now["busy"]["login"]) == (number, 1, True)
    assert cove("shells", "ls", "-q", box).text.split() != []
    table = cove("shells", "ls", box).text
    assert table.startswith("NAME") and UUID in table
    assert next(x for x in cove.execs(box) if x["shell"] == UUID)["state"] == "done"
    cove("stop", box).ok()
    cove.fails("conflict", "shells", "ls", box)


def test_shells_rm(cove, box):
    cove("sh", box, "export A=1; sleep 1000 & echo $! > /tmp/job").ok()
    cove("shells", "rm", box, "default").ok()
    assert shells(cove, box) == {}
    got = cove.sh(box, "echo [$A]; kill -0 $(cat /tmp/job) && echo job lives")
    assert (got["stdout"], got["shell"]) == ("[]\njob lives\n", "kept")
    cove.fails("not_found", "shells", "rm", box, "other")
    cove("shells", "rm", "-f", box, "other").ok()
    for bad in ("", "-x", "a b", "x" * 65, "a/b", "ä"):
        cove("shells", "rm", box, "--", bad).refused()
        cove("sh", "--shell", bad, box, "true").refused()
    assert cove("shells", "rm", "--json", box, "default").json == {"name": "default", "result": "removed"}


def test_shells_rm_with_lines(cove, box):
    """Only with -f; what ran is killed, what waited never starts, and a new line has a new shell."""
    runs = cove.start("sh", "--json", box, "echo up >&2; trap '' TERM INT; sleep 1000")
    wait_until(lambda: shells(cove, box).get("default", {}).get("state") == "busy", "the line")
    waits = cove.start("sh", "--json", box, "echo no")
    wait_until(lambda: shells(cove, box)["default"]["queued"] == 1, "the queue")
    cove.fails("conflict", "shells", "rm", box, "default")
    enders = [cove.start("shells", "rm", "-f", box, "default") for _ in range(3)]
    assert [p.wait(DEADLINE) for p in enders] == [0, 0, 0]
    first, second = (subprocess_json(p) for p in (runs, waits))
    assert (first["cause"], first["signal"], first["exit_code"]) == ("killed", 9, 137)
    assert (second["cause"], second["never_started"], second["stdout"]) == ("killed", True, "")
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def subprocess_json(process):
    return json.loads(process.communicate(timeout=DEADLINE)[0])


def test_as_many_shells_as_there_may_be(cove, box):
    for i in range(32):
        cove("sh", "--shell", f"s{i}", box, ":").ok()
    got = cove.fails("limit", "sh", "--shell", "one-more", box, ":")
    assert "32" in got and "cove shells" in got
    cove("shells", "rm", box, "s7").ok()
    cove("sh", "--shell", "x" * 64, box, ":").ok()
    assert len(shells(cove, box)) == 32
