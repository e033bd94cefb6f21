"""cove run: a one-shot box that passes everything through and leaves nothing."""
import os
import signal
import subprocess

import pytest

from conftest import DEADLINE, alive, children, needs_base, wait_until


def test_true_and_false(cove):
    assert cove("run", "--", "true").rc == 0
    assert cove("run", "--", "false").rc == 1


def test_without_the_two_dashes(cove):
    assert cove("run", "echo", "-n", "x").out == b"x"


def test_streams_are_apart_and_exact(cove):
    got = cove("run", "--", "sh", "-c", "printf 'o\\0\\377'; printf 'e\\0\\376' >&2; exit 9")
    assert (got.rc, got.out, got.err) == (9, b"o\0\xff", b"e\0\xfe")


def test_stdin(cove):
    data = os.urandom(3 << 20)
    assert cove("run", "--", "cat", input=data).out == data


def test_no_log_is_kept(cove):
    """What the caller reads as it comes is on no disk; all of it arrives, however slowly it reads."""
    size = 20 << 20
    running = cove.start("run", "--name", "unlogged", "--", "sh", "-c", f"echo begin; head -c {size} /dev/zero")
    assert running.stdout.readline() == b"begin\n"
    box = os.path.join(cove.env["COVE_HOME"], "boxes", "unlogged")
    assert os.path.exists(f"{box}/record") and not os.path.exists(f"{box}/logs")
    assert len(running.stdout.read()) == size and running.wait() == 0


def test_stdin_that_nobody_reads(cove):
    assert cove("run", "--", "true", input=b"x" * (4 << 20)).rc == 0


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 126, 127, 200, 255])
def test_exit_codes(cove, code):
    assert cove("run", "--", "sh", "-c", f"exit {code}").rc == code


@pytest.mark.parametrize("sig", ["KILL", "TERM", "SEGV", "INT", "PIPE"])
def test_ended_by_signal(cove, sig):
    expected = 128 + getattr(signal, "SIG" + sig)
    assert cove("run", "--", "sh", "-c", f"kill -{sig} $$").rc == expected


def test_arguments_arrive_as_they_are(cove):
    args = ["", " ", "a b", "'", '"', "$HOME", "*", "\\", "-n", "--", "\n", "\u00e9", "x" * 10000]
    got = cove("run", "--", "sh", "-c", 'for a; do printf "%s\\0" "$a"; done', "sh", *args)
    assert got.out.decode().split("\0")[:-1] == args


def test_missing_program(cove):
    got = cove("run", "--", "no-such-program")
    assert got.rc == 127 and b"no-such-program" in got.err


def test_program_that_may_not_run(cove):
    got = cove("run", "--", "/etc/passwd")
    assert got.rc == 126 and b"/etc/passwd" in got.err


def test_missing_directory(cove):
    cove.fails("not_found", "run", "-w", "/no/such/dir", "--", "true")


def test_env_and_workdir(cove):
    got = cove("run", "-e", "A=1", "-e", "B=x y", "-w", "/tmp", "--", "sh", "-c", 'echo "$A $B $PWD"')
    assert got.text == "1 x y /tmp\n"


def test_env_from_the_caller_only_by_name(cove):
    got = cove("run", "-e", "GIVEN", "--", "env", env={"GIVEN": "yes", "HIDDEN": "decoy"})
    assert b"GIVEN=yes" in got.out and b"decoy" not in got.out


def test_user_inside(cove):
    assert cove("run", "--", "id", "-u").text == "1000\n"


def test_other_user(cove, inner_root):
    assert cove("run", "-u", "root", "--", "id", "-u").text == "0\n"
    assert cove("run", "-u", "1234:5678", "--", "sh", "-c", "id -u; id -g").text == "1234\n5678\n"


def test_unknown_user(cove):
    cove.fails("not_found", "run", "-u", "nobody-knows", "--", "true")


def test_timeout(cove):
    got = cove("run", "--timeout", "300ms", "--", "sh", "-c", "echo so far; sleep 1000")
    assert got.rc == 124 and got.out == b"so far\n"


def test_starts_in_home_and_in_the_workspace(cove, tmp):
    assert cove("run", "--", "sh", "-c", 'test "$PWD" = "$HOME" && echo same').text == "same\n"
    (tmp / "w").mkdir()
    assert cove("run", "--workspace", tmp / "w", "--", "pwd").text == "/workspace\n"


def test_nothing_is_left(cove):
    before = cove.names()
    cove("run", "--", "sh", "-c", "sleep 1000 & touch /tmp/x").ok()
    assert cove.names() == before
    assert [n for n in os.listdir(cove.home + "/boxes") if not n.startswith(".")] == before


def test_name_is_free_afterwards(cove):
    for _ in range(2):
        assert cove("run", "--name", "again", "--", "hostname").text == "again\n"


def test_name_that_is_taken(cove, box):
    cove.fails("exists", "run", "--name", box, "--", "true")


def test_boxes_do_not_share_writes(cove):
    cove("run", "--", "touch", "/tmp/mark").ok()
    assert cove("run", "--", "ls", "/tmp").out == b""


def test_many_at_once(cove):
    running = [cove.start("run", "--", "sh", "-c", f"echo {i}; hostname", stdin=subprocess.DEVNULL)
               for i in range(20)]
    names = set()
    for i, process in enumerate(running):
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, err
        number, name = out.decode().split()
        assert number == str(i)
        names.add(name)
    assert len(names) == 20


def test_killed_client_ends_the_box(cove):
    process = cove.start("run", "--name", "killed", "--", "sh", "-c", "echo up; sleep 1000")
    assert process.stdout.readline() == b"up\n"
    keeper = cove.inspect("killed")["keeper_pid"]
    inside = children(keeper)
    process.kill()
    process.wait()
    wait_until(lambda: not alive(keeper) and not any(map(alive, inside)), "the box to end")
    wait_until(lambda: "killed" not in cove.names(), "the box to be gone")


def test_ctrl_c_ends_the_command(cove):
    process = cove.start("run", "--name", "int", "--", "sh", "-c", "echo up; exec sleep 1000",
                         start_new_session=True)
    assert process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE) in (130, -signal.SIGINT)
    wait_until(lambda: "int" not in cove.names(), "the box to be gone")


def test_closed_stdout(cove):
    process = cove.start("run", "--name", "closed", "--", "sh", "-c", "while echo y; do :; done",
                         stdin=subprocess.DEVNULL)
    process.stdout.read(10)
    process.stdout.close()
    process.wait(DEADLINE)
    wait_until(lambda: "closed" not in cove.names(), "the box to be gone")


def test_json(cove):
    got = cove("run", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert got.rc == 3
    assert got.json["stdout"] == "out\n" and got.json["stderr"] == "err\n"
    assert got.json["exit_code"] == 3


def test_image_that_is_missing(cove):
    cove.fails("not_found", "run", "--image", "nope", "--", "true")


def test_host_image(cove):
    line = "ls /; find /root /home /var/log -type f 2>/dev/null; true"
    got = cove("run", "--image", "host", "--", "sh", "-c", line).ok()
    assert "usr" in got.text.split() and "/" not in got.text
    assert cove("run", "--image", "host", "--", "python3", "-c", "print(6 * 7)").text == "42\n"


def test_host_image_hides_the_hosts_homes(cove, tmp):
    secret = tmp / "secret"
    secret.write_text("decoy")
    got = cove("run", "--image", "host", "--", "cat", str(secret))
    assert got.rc != 0 and b"decoy" not in got.out
    assert b"$" not in cove("run", "--image", "host", "--", "sh", "-c", "cat /etc/shadow").out


@needs_base
@pytest.mark.parametrize("line, words", [
    ("bash --version", "GNU bash"), ("python3 --version", "Python 3"), ("python --version", "Python 3"),
    ("git --version", "git version"), ("curl --version", "curl"), ("node --version", "v"),
    ("npm --version", "."), ("gcc --version", "gcc"), ("make --version", "GNU Make"),
    ("ps --version", "procps"), ("pip --version", "pip"), ("id", "uid=1000(user)"), ("echo ~", "/home/user"),
    ("cat /etc/os-release", "Debian"), ("ls /etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
])
def test_base_image(cove, shared, line, words):
    assert words in cove("exec", shared, "--", "bash", "-c", line).ok().text


@pytest.mark.once("user")
@needs_base
def test_base_image_has_no_pep_668_wall(cove, shared):
    got = cove("exec", shared, "--", "pip", "install", "--no-index", "no-such-package")
    assert b"externally-managed" not in got.err
    cove("exec", shared, "--", "sh", "-c", "python -m venv /tmp/v && /tmp/v/bin/python -c 'import sys'").ok()


@pytest.mark.once("user")
@needs_base
def test_base_image_compiles(cove, shared):
    line = "cd /tmp; echo 'int main(void) { return 42; }' > a.c; gcc a.c -o a && ./a"
    assert cove("exec", shared, "--", "sh", "-c", line).rc == 42


@needs_base
def test_sudo(cove, shared, inner_root):
    assert cove("exec", shared, "--", "sudo", "id", "-u").text == "0\n"


@needs_base
def test_ruined_box_ruins_nothing_else(cove, inner_root):
    cove("run", "--", "sudo", "rm", "-rf", "--no-preserve-root", "/")
    assert cove("run", "--", "sh", "-c", "ls / | wc -l; python3 -c 'print(1)'").ok().text.split()[1] == "1"
