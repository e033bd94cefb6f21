"""[cove] lines, JSON events, and that no text of a user can forge one."""
import json
import os
import signal

import pytest

pytestmark = pytest.mark.once("root")


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_verbose_lines(cove, tmp):
    got = cove("run", "-v", "--workspace", "logged", "--", "sh", "-c", "echo out; exit 3")
    cove("workspace", "rm", "logged")
    lines = got.errors.splitlines()
    assert got.out == b"out\n" and got.rc == 3
    assert all(line.startswith("[cove] ") for line in lines)
    assert "open" in lines[0] and "image=" in lines[0] and "logged" in lines[0]
    assert any(line.startswith("[cove] $ ") for line in lines)
    assert any("exit 3" in line and "4 B" in line for line in lines)
    assert "close" in lines[-1]


def test_quiet_without_v(cove):
    assert cove("run", "--", "true").err == b""


def test_first_line_is_cut(cove, box):
    got = cove("sh", "-v", box, "echo " + "x" * 200 + "\necho second-line")
    shown = next(line for line in got.errors.splitlines() if line.startswith("[cove] $ "))
    assert len(shown) <= len("[cove] $ ") + 84 and "second-line" not in shown


def test_cwd_change_is_said(cove, box):
    cove.sh(box, "cd /")
    got = cove("sh", "-v", box, "cd /tmp")
    assert "/tmp" in got.errors
    assert "-> exit 0" in got.errors


def test_timeout_is_said(cove, box):
    assert "timeout" in cove("sh", "-v", "--timeout", "200ms", box, "sleep 1000").errors


def test_failure_is_said(cove):
    assert "[cove] fail" in cove("run", "-v", "--image", "nope", "--", "true").errors


FORGERIES = ["echo a\n[cove] -> exit 0", "echo \r[cove] close x", "echo \x1b[2J\x1b[H", "echo \x07\x08\x7f",
             "echo \u202e[cove]\u2028x", "echo \x9b31m", 'echo "}\n{"', "echo \\n"]


@pytest.mark.parametrize("line", FORGERIES)
def test_no_text_forges_a_line(cove, box, tmp, line):
    got = cove("sh", "-v", "--log-file", tmp / "log", box, line)
    for text in got.err.split(b"\n"):
        assert not any(byte < 32 or byte == 127 for byte in text), text
    command_lines = [t for t in got.errors.splitlines() if t.startswith("[cove] $ ")]
    result_lines = [t for t in got.errors.splitlines() if t.startswith("[cove] ->")]
    assert len(command_lines) == 1 and len(result_lines) == 1
    assert "\u202e" not in got.errors and "\u2028" not in got.errors and "\x9b" not in got.errors
    assert all(isinstance(e, dict) for e in events(tmp / "log"))


def test_box_output_is_not_in_the_log_lines(cove, box):
    got = cove("sh", "-v", box, "echo '[cove] -> exit 99'")
    assert got.out == b"[cove] -> exit 99\n" and "exit 99" not in "".join(
        t for t in got.errors.splitlines() if t.startswith("[cove] ->"))


def test_hostile_cwd_in_the_result_line(cove, box):
    got = cove("sh", "-v", box, "mkdir -p $'/tmp/a\\n[cove] close b'; cd $'/tmp/a\\n[cove] close b'")
    assert not any(t.startswith("[cove] close") for t in got.errors.splitlines())


def test_json_events_to_a_file(cove, tmp):
    log = tmp / "events"
    cove("run", "--log-file", log, "--", "sh", "-c", "echo x; exit 2")
    got = events(log)
    kinds = [e.get("event") or e.get("kind") for e in got]
    assert kinds[0] == "open" and kinds[-1] == "close" and "command" in kinds and "result" in kinds
    result = got[kinds.index("result")]
    assert result["exit_code"] == 2 and result["stdout_bytes"] == 2
    assert got[kinds.index("command")]["exec_id"] == result["exec_id"] == 1


def test_log_file_from_the_environment(cove, tmp):
    cove("run", "--", "true", env={"COVE_LOG": str(tmp / "l")})
    assert len(events(tmp / "l")) >= 3


def test_logs_of_a_box(cove, box):
    cove.sh(box, "echo one")
    cove("exec", box, "--", "echo", "two").ok()
    got = cove("logs", box).ok()
    text = got.text + got.errors
    assert "echo one" in text and "echo two" in text


def test_a_title_is_the_command_as_it_was_typed(cove, box):
    """But for what could fool a terminal."""
    cove.sh(box, 'printf "a\\tb\\n"')
    cove.sh(box, "true\t\x1b[31m")
    titles = [line for line in cove("logs", box).ok().text.splitlines() if line.startswith("==>")]
    assert titles == ['==> 1  printf "a\\tb\\n" <==', "==> 2  true\\t\\x1b[31m <=="]


def test_logs_json(cove, box):
    cove.sh(box, "echo one")
    lines = cove("logs", "--json", box).ok().text.splitlines()
    assert lines and all(isinstance(json.loads(line), dict) for line in lines)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_events_are_followed_to_the_end(cove, box, end):
    keeper = cove.inspect(box)["keeper_pid"]
    cove.sh(box, "echo before")
    followers = [cove.start("logs", "-f", "--json", box) for _ in range(2)]
    for follower in followers:
        assert json.loads(follower.stdout.readline())["seq"] == 1
    for i in range(20):
        cove.sh(box, f"echo {i}")
    if end == "stop":
        cove("stop", box).ok()
    else:
        os.kill(keeper, signal.SIGKILL)
    seen = [follower.stdout.read().splitlines() for follower in followers]
    assert [follower.wait() for follower in followers] == [0, 0]
    rows = [json.loads(line) for line in cove("logs", "--json", box).ok().text.splitlines()]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert all([json.loads(line) for line in lines] == rows[1:] for lines in seen)
    assert len(rows) > 40 and (rows[-1]["event"] == "close") == (end == "stop")


def test_environment_values_are_not_logged(cove, tmp):
    log = tmp / "l"
    got = cove("run", "-v", "--log-file", log, "-e", "TOKEN=decoy-9371", "--", "true")
    assert b"decoy-9371" not in got.err and "decoy-9371" not in log.read_text()
