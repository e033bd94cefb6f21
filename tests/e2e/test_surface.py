"""What every verb has in common for who reads it: one rule for JSON, the same units everywhere."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata

import pytest

from conftest import DEADLINE, PREFIX, wait_until

pytestmark = pytest.mark.once("both")

LISTS = [["ls"], ["stats"], ["asks"], ["audit"], ["image", "ls"], ["workspace", "ls"], ["secret", "ls"],
         ["key", "ls"], ["webhook", "ls"], ["policy", "groups"]]


# ---- JSON ----

@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_is_one_array_also_an_empty_one(new_home, words):
    got = new_home()(*words, "--json").ok()
    assert isinstance(json.loads(got.out), list), repr(got)


def test_lists_with_something_in_them(cove, shared):
    cove("exec", shared, "--", "true").ok()
    for words in (["ls"], ["stats"], ["stats", shared], ["ps", shared]):
        found = cove(*words, "--json").ok().json
        assert isinstance(found, list) and all(isinstance(x, dict) for x in found) and found, words
    cove("deny", shared, "nothing.example").ok()
    rows = wait_until(lambda: cove("audit", shared, "--json").ok().json, "a row")
    assert all(row["box"] == shared for row in rows)


def test_streams_are_one_object_per_line(cove, shared):
    cove("deny", shared, "stream.example").ok()
    cove("exec", shared, "--", "true").ok()
    for words in (["stats", "--watch"], ["audit", "-f"], ["logs", "-f"]):
        p = cove.start(*words, "--json", shared)
        assert isinstance(json.loads(p.stdout.readline()), dict), words
        p.terminate()
        p.communicate(timeout=DEADLINE)
    for line in cove("logs", "--json", shared).ok().text.splitlines():
        assert isinstance(json.loads(line), dict)
    two = cove("inspect", "--json", shared, shared).ok().text.splitlines()
    assert [json.loads(line)["name"] for line in two] == [shared, shared]


def test_an_error_is_an_object_on_a_line_of_its_own(cove, shared):
    lines = cove("stats", "--json", shared, "no-such-box").text.splitlines()
    kinds = [x["error"]["kind"] for x in map(json.loads, lines) if isinstance(x, dict)]
    assert kinds == ["not_found"]
    got = cove("audit", "--json", "no-such-box")
    assert json.loads(got.text.splitlines()[-1])["error"]["kind"] == "not_found"


@pytest.mark.parametrize("line, signal", [("true", None), ("exit 3", None), ("kill -9 $$", 9)])
def test_the_signal_is_always_there(cove, shared, tmp, line, signal):
    log = tmp / "events"
    got = cove("exec", "--json", "--log-file", log, shared, "--", "sh", "-c", line).json
    assert "signal" in got and got["signal"] == signal
    found = {x["exec_id"]: x for x in cove("ps", "--json", shared).ok().json}
    assert found[got["exec_id"]]["signal"] == signal
    events = [json.loads(row) for row in log.read_text().splitlines()]
    (end,) = [e for e in events if e["event"] == "result"]
    assert end["signal"] == signal and "exit_code" in end


def test_a_timeout_has_its_status_and_signal(cove, shared, tmp):
    log = tmp / "events"
    cove("exec", "--log-file", log, "--timeout", "200ms", "--grace", "0", shared, "--", "sleep", "1000")
    (end,) = [e for e in map(json.loads, log.read_text().splitlines()) if e["event"] == "timeout"]
    assert end["exit_code"] == 124 and end["signal"] == 9


def test_kinds_tell_failures_apart(cove, box, tmp):
    cove.fails("not_found", "ps", "no-such-box")
    cove.fails("exists", "create", "--name", box)
    cove.fails("invalid", "create", "--name", "Not A Name")
    cove.fails("limit", "sh", box, "-", input=b"x" * 983041)
    cove("stop", box).ok()
    cove.fails("conflict", "stats", box)
    cove.fails("conflict", "exec", box, "--", "true")


def test_what_is_not_known_is_null_and_not_0(cove, shared):
    (found,) = cove("stats", "--json", shared).ok().json
    usage = cove.inspect(shared)["usage"]
    counts = {"cpu_us": "throttled_us", "mem_bytes": "oom_kills", "pids": "pids_hits"}
    for shown in (found, usage):
        for known, counted in counts.items():
            assert shown[known] != 0, known
            assert shown[known] is not None or shown[counted] is None, (counted, shown)


# ---- units ----

def test_sizes_are_powers_of_1024_everywhere(cove, shared):
    cove("exec", shared, "--", "head", "-c", "3000000", "/dev/zero").ok()
    pages = [cove(*words).ok().text for words in
             (["ps", shared], ["image", "ls"], ["workspace", "ls"], ["stats"], ["audit"], ["doctor", "--no-test"])]
    assert re.search(r"\b2\.9 MiB\b", pages[0])
    for page in pages:
        assert not re.search(r"\d ?[kKMGT]B\b", page), page


def test_an_empty_list_has_its_titles(new_home):
    """The same in every verb: the titles on stdout, a note on stderr; [] and nothing with --json and -q."""
    home = new_home()
    for args, first in ((["ls"], "NAME"), (["workspace", "ls"], "NAME"), (["secret", "ls"], "NAME"),
                        (["key", "ls"], "NAME"),
                        (["stats"], "NAME"), (["asks"], "BOX"), (["audit"], "TIME")):
        got = home(*args).ok()
        assert got.text.startswith(first) and len(got.text.splitlines()) == 1, args
        assert got.errors.startswith("cove: no"), args
        quiet = home(*args, "--json").ok()
        assert quiet.json == [] and quiet.err == b"", args
    assert home("ls", "-q").ok().err == b""
    box = home("create", "--image", "host").ok().text.strip()
    for args in (["ps", box], ["shells", "ls", box]):
        assert len(home(*args).ok().text.splitlines()) == 1 and home(*args, "-q").ok().out == b""


# ---- tables ----

LONG = "n" * 63
CUT = "…"


def on_terminal(cove, *words, columns=80):
    """What a terminal of that width is given."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = cove.start(*words, stdin=side, stdout=side, stderr=subprocess.DEVNULL)
    os.close(side)
    text = b""
    with os.fdopen(main, "rb", buffering=0) as reader:
        while part := read_some(reader):
            text += part
    assert p.wait(DEADLINE) == 0, text
    return text.decode().replace("\r\n", "\n")


def read_some(reader):
    try:
        return reader.read(65536)
    except OSError:  # the terminal's other side is closed
        return b""


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.fixture
def crowded(cove):
    """A box whose every name is as long as it may be."""
    cove("create", "--name", LONG, "--workspace", "w" * 63, "--label", "x=" + "y" * 60).ok()
    cove("sh", "--shell", "s" * 32, LONG, "echo " + "c" * 300).ok()
    cove("exec", "--timeout", "100ms", "--grace", "0", LONG, "--", "sleep", "1000")
    for i in range(3):
        cove("deny", LONG, f"host-{i}." + "d" * 50 + ".example").ok()
    cove("secret", "set", "S" * 60, input=b"x").ok()
    cove("secret", "set", "T" * 60, "--command", "echo " + "z" * 200).ok()
    yield LONG
    cove("secret", "rm", "S" * 60, "T" * 60).ok()
    cove("rm", "-f", LONG).ok()
    cove("workspace", "rm", "w" * 63).ok()


def test_tables_fit_80_columns(cove, crowded):
    stopped = cove("create", "--name", "m" * 63).ok().text.strip()
    cove("stop", stopped).ok()
    for words in (["ls"], ["ps", crowded], ["stats"], ["stats", crowded], ["audit"], ["audit", crowded],
                  ["image", "ls"], ["workspace", "ls"], ["secret", "ls"], ["policy", "groups"], ["asks"], ["sbx", "ls"],
                  ["doctor", "--no-test"]):
        for columns in (80, 100, 200):
            page = on_terminal(cove, *words, columns=columns)
            wide = [line for line in page.splitlines() if width(line) > columns and "→" not in line]
            assert not wide, (words, columns, wide)
    cove("rm", stopped).ok()
    page = on_terminal(cove, "ls")
    assert CUT in page and "running" in page
    # Numbers are whole, and a pipe gets everything.
    assert "UPTIME" in on_terminal(cove, "stats") and "HELPERS" in on_terminal(cove, "stats", columns=250)
    assert LONG in cove("ls").ok().text and "HELPERS" in cove("stats").ok().text
    whole = cove("audit", crowded).ok().text
    folded = on_terminal(cove, "audit", crowded)
    assert "".join(whole.split()) == "".join(folded.split())


# ---- words ----

def test_doctor_says_the_same_of_its_status_everywhere(cove):
    page = " ".join(cove("help", "doctor").ok().text.split())
    words = "0 if boxes work, also with less; 1 if something that was tried in a box did not hold; 125 if no box can"
    assert words in page
    manual = next(PREFIX.glob("share/man/man1/cove.1*"), None)
    assert manual, "no manual page installed"
    shown = re.sub(r"\\\\f[BIR]|\\\\&", "", manual.read_text())
    assert words in " ".join(shown.split())


def test_the_detach_key_is_named(cove):
    for verb in ("attach", "shell"):
        assert "Ctrl-] twice" in " ".join(cove("help", verb).ok().text.split()), verb


def test_the_detach_key_leaves_and_the_command_runs_on(cove, box):
    line = "echo up; read line; echo got:$line; sleep 1000"
    exec_id = cove("exec", "-d", "-t", box, "--", "sh", "-c", line).ok().text.strip()
    main, side = pty.openpty()
    p = cove.start("attach", "-t", box, exec_id, stdin=side, stdout=side, stderr=subprocess.PIPE,
                   start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(side)
    seen = b""
    while b"up" not in seen:
        seen += os.read(main, 4096)
    os.write(main, b"one\n")  # what is typed before it arrives
    os.write(main, b"\x1d\x1d")
    _, err = p.communicate(timeout=DEADLINE)
    os.close(main)
    assert p.returncode == 0 and b"left it running" in err
    (found,) = [x for x in cove("ps", "--json", box).ok().json if x["exec_id"] == int(exec_id)]
    assert found["state"] == "running"
    wait_until(lambda: b"got:one" in cove("logs", "--exec", exec_id, box).ok().out, "its line")


@pytest.mark.parametrize("text", ["*.example.org", "*example.org"])
def test_a_star_without_quotes_is_told_to_be_quoted(cove, tmp, text):
    (tmp / "p.yaml").write_text(f"version: 1\nrules:\n  - allow: {text}\n")
    said = cove.fails("invalid", "policy", "check", tmp / "p.yaml")
    assert "quoted" in said and "3" in said
    (tmp / "p.yaml").write_text('version: 1\nrules:\n  - allow: "*.example.org"\n')
    cove("policy", "check", tmp / "p.yaml").ok()
