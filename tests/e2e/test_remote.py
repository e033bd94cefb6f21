"""COVE_HOST: the same command line against a server. Tests of other files run here anew, with their own words, by a
cove that has no state directory at all; then what only a server's client meets."""
import os
import pathlib
import socket
import subprocess
import threading

import pytest

from conftest import DEADLINE, Cove, wait_until
from cut import Cut
from server import Server

import test_exec
import test_files
import test_pty
import test_run
import test_run_files
import test_sh
import test_tools
from test_pty import terminal  # noqa: F401  fixtures of theirs
from test_sh import usable  # noqa: F401
from test_tools import tree  # noqa: F401

pytestmark = pytest.mark.once("root")

SAME = {
    test_exec: ["streams_and_status", "stdin_stream", "stdin_goes_as_it_comes", "a_loop_keeps_its_stdin", "empty_stdin",
                "cwd_env_user", "distinct_errors", "timeout_ends_the_tree", "many_at_once", "json", "json_of_a_signal",
                "background_is_listed_and_ends", "background_signal", "kill_of_what_does_not_exist",
                "follow_until_the_end", "from_a_byte", "reattach_after_the_client_was_killed",
                "background_exec_is_fed_stdin", "attach_at_a_byte", "attach_that_leaves_keeps_the_command",
                "exec_in_a_stopped_box", "wait", "streams_by_their_names", "a_repeated_token_finds_its_command",
                "max_output_refused", "merge_in_the_background"],
    test_sh: ["state_stays", "stdin_when_given", "exit", "every_byte", "a_waiting_line_is_queued",
              "line_in_missing_box", "shells_ls", "shells_rm"],
    test_run: ["true_and_false", "streams_are_apart_and_exact", "stdin", "ended_by_signal",
               "arguments_arrive_as_they_are", "missing_program", "timeout", "nothing_is_left", "name_that_is_taken",
               "ctrl_c_ends_the_command", "json", "image_that_is_missing"],
    test_files: ["file_in_and_out", "stdin_and_stdout", "modes_and_links", "directory_onto_a_directory_goes_inside",
                 "directory_as_a_tar_stream", "a_hard_link_planted_before_is_not_written_through", "overwrite",
                 "odd_names", "missing_source", "link_in_the_box_stays_in_the_box", "unknown_box"],
    test_run_files: ["a_file_in_and_a_file_out", "destinations", "stdin_as_a_file", "stdout_is_the_file_alone",
                     "no_setuid_comes_out", "what_cannot_be_read_is_left_out_and_counts"],
    test_pty: ["run_has_a_terminal", "exit_status_through_a_terminal", "size_and_resize", "ctrl_c",
               "terminal_modes_are_restored"],
    test_tools: ["read", "edit", "unusual_names", "watch"],
}
for module, names in SAME.items():
    for name in names:
        globals()[f"test_{module.__name__[5:]}_{name}"] = getattr(module, f"test_{name}")


class Remote(Cove):
    """cove with COVE_HOST, and with nothing of this machine's to fall back on."""

    def __init__(self, cove, host, **env):
        super().__init__(cove.home, cove.image, {"COVE_HOST": host, "COVE_HOME": "/nonexistent/home", **env})


@pytest.fixture(scope="module")
def session_cove(session_cove):
    server = Server(session_cove)
    made = Remote(session_cove, f"unix:{server.path}")
    made.server = server
    yield made
    server.end()


# ---- what only a server's client meets ----

@pytest.mark.parametrize("host, kind", [
    ("localhost:80", "invalid"), ("unix:s", "invalid"), ("http://", "invalid"), ("http://u:secret@h", "invalid"),
    ("unix:/nonexistent/s", "internal"), ("http://127.0.0.1:1", "internal"), ("http://no.such.invalid", "not_found")])
def test_no_server_there(cove, host, kind):
    message = cove.fails(kind, "ls", rc=125, env={"COVE_HOST": host})
    assert "COVE_HOST" in message or host[7:] in message
    assert "secret" not in message


def test_nothing_is_done_here_instead(cove, tmp):
    for words in (["doctor"], ["serve"], ["image", "make"], ["wall", "add", "gvisor"], ["system", "backup", "/tmp/x"],
                  ["snapshot", "export", "x", "/tmp/x"]):
        got = cove(*words)
        assert got.rc == 125 and b"server's machine" in got.err and got.out == b"", got
    assert "server's" in cove.fails("unsupported", "system", "backup", "/tmp/x")
    for words, operation in ((["snapshot", "export", "x", "/tmp/x"], "exportSnapshot"),
                             (["image", "build", "-t", "x", str(tmp)], "buildImage")):
        assert operation in cove.fails("unsupported", *words)


def test_snapshots_that_are_not_frozen_and_of_other_boxes(cove, box):
    fork, = cove("fork", "--no-freeze", box).ok().text.split()
    try:
        cove.sh(fork, "echo fork > /tmp/whose")
        made = cove("snapshot", "create", fork, "--no-freeze", "--json").ok().json["name"]
        assert "foreign" in cove.fails("conflict", "rollback", box, made)
        cove("rollback", "--foreign", box, made).ok()
        assert cove.sh(box, "cat /tmp/whose")["stdout"] == "fork\n"
        cove("snapshot", "rm", made).ok()
    finally:
        cove("rm", "-f", fork).ok()


def test_a_command_without_stdin_is_attached_to(cove, box):
    """Input that it cannot take is no reason not to show what it says."""
    number = cove("exec", "-d", box, "--", "sh", "-c", "echo said").ok().text.strip()
    cove("wait", box, number).ok()
    assert cove("attach", box, number, input=b"not for it\n").ok().text == "said\n"


def test_a_policy_file_of_this_machine(cove, tmp):
    """Is on the box before anything runs in it; one that is refused leaves no box."""
    (tmp / "p.yaml").write_text("version: 1\nrules: []\n# ours\n")
    name = cove("create", "--net", f"{tmp}/p.yaml", "--deny", "a.example").ok().text.strip()
    text = cove("policy", "show", name).ok().text
    assert "# ours" in text and "a.example" in text and "policy.invalid" not in text
    (tmp / "p.yaml").write_text("version: 1\nruels: []\n")
    before = cove.names()
    assert "ruels" in cove.fails("invalid", "create", "--net", f"{tmp}/p.yaml")
    assert cove.names() == before
    assert "--in" in cove.fails("unsupported", "create", "--workspace", "./here",
                                env={"COVE_HOST": f"http://127.0.0.1:{cove.server.port}"})


def test_keys(cove, box, tmp):
    key = Cove(cove.home)("key", "create", "mine").ok().text.strip()
    tcp = {"COVE_HOST": f"http://127.0.0.1:{cove.server.port}"}
    try:
        assert "COVE_API_KEY" in cove.fails("denied", "ls", env=tcp)
        assert "wrong" not in cove.fails("denied", "ls", env={**tcp, "COVE_API_KEY": "wrong"})
        cove.fails("invalid", "ls", rc=125, env={**tcp, "COVE_API_KEY": "a b"})
        (tmp / "key").write_text(key + "\n")
        for way in ({"COVE_API_KEY": key}, {"COVE_KEY_FILE": str(tmp / "key")}):
            assert box not in cove("ls", "-q", env={**tcp, **way}).ok().text
        mine = {**tcp, "COVE_API_KEY": key}
        name = cove("create", "--name", "of-mine", env=mine).ok().text.strip()
        assert cove("exec", name, "--", "echo", "x", env=mine).ok().text == "x\n"
        cove.fails("not_found", "exec", box, "--", "true", env=mine)
        cove("rm", "-f", name, env=mine).ok()
        cove.fails("not_found", "ls", env={**tcp, "COVE_KEY_FILE": "/nonexistent"})
    finally:
        Cove(cove.home)("key", "rm", "mine")


def test_tls(cove, tmp):
    from door_rig import Authority
    authority = Authority(tmp, "Ours")
    cert, key = authority.issue("localhost", "127.0.0.1")
    home = Cove(cove.home)
    cove.server.stop()
    server = Server(home, "--tls-cert", str(cert), "--tls-key", str(key))
    token = home("key", "create", "tls").ok().text.strip()
    try:
        env = {"COVE_HOST": f"https://localhost:{server.port}", "COVE_API_KEY": token}
        assert "certificate" in cove.fails("denied", "ls", env=env)
        env["COVE_CA"] = str(authority.pem)
        assert cove("ls", "-q", env=env).ok().out == b""
        name = cove("create", env=env).ok().text.strip()
        data = os.urandom(3 << 20)
        assert cove("exec", "-i", name, "--", "cat", input=data, env=env).ok().out == data
        cove("rm", "-f", name, env=env).ok()
        cove.fails("not_found", "ls", env={**env, "COVE_CA": "/nonexistent"})
    finally:
        home("key", "rm", "tls")
        server.end()
        cove.server.start()


# ---- the rest of the verbs, each once ----

API = (pathlib.Path(__file__).resolve().parents[2] / "docs/api/openapi.yaml").read_text()
needs_routes = pytest.mark.skipif("/v1/diff:" not in API, reason="the API has no routes for these yet")


@needs_routes
def test_what_changed_and_back(cove, box):
    fork = cove("fork", box, "--name", f"{box[:40]}-f").ok().text.strip()
    cove("exec", fork, "--", "sh", "-c", "echo ours > /tmp/ours").ok()
    assert "A /tmp/ours" in cove("diff", fork).ok().text
    assert [c["path"] for c in cove("diff", "--json", fork).ok().json["changes"]] == ["/tmp/ours"]
    cove("merge", fork, box).ok()
    assert cove("exec", box, "--", "cat", "/tmp/ours").ok().text == "ours\n"
    for name, text in ((box, "one"), (fork, "two")):
        cove("exec", name, "--", "sh", "-c", f"echo {text} > /tmp/both").ok()
    conflict = cove("merge", fork, box)
    assert conflict.rc == 1 and "/tmp/both" in conflict.text + conflict.errors, conflict
    cove("rm", "-f", fork).ok()


@needs_routes
def test_images_keys_and_the_machine(cove, box, tmp):
    (tmp / "one").write_text("1\n")
    subprocess.run(["tar", "cf", tmp / "i.tar", "-C", tmp, "one"], check=True)
    cove("image", "import", "empty", tmp / "i.tar").ok()
    cove("image", "tag", "empty", "second").ok()
    assert {"empty", "second"} <= set(cove("image", "ls", "-q").ok().text.split())
    assert cove("image", "inspect", "second").ok().json["name"]
    assert len(cove("image", "history", "--json", "empty").ok().text) > 2
    cove("image", "export", "empty", tmp / "o.tar").ok()
    assert (tmp / "o.tar").stat().st_size > 0
    cove("image", "rm", "empty", "second").ok()
    cove.fails("not_found", "image", "inspect", "empty")
    token = cove("key", "create", "remote-made", "--scope", "read", "--quota", "boxes=3").ok().text.strip()
    row = next(k for k in cove("key", "ls", "--json").ok().json if k["name"] == "remote-made")
    assert row["scopes"] == ["read"] and row["quotas"]["boxes"] == 3 and row["id"] in token
    cove("key", "rm", "remote-made").ok()
    for words in (["system", "df"], ["system", "verify"], ["system", "prune", "--dry-run"], ["wall", "ls"],
                  ["image", "gc", "--dry-run"], ["policy", "groups"], ["ports", box], ["system", "reap"]):
        cove(*words).ok()
    session = cove("open", "a session").ok().text.strip()
    assert cove("open", "a session").ok().text.strip() == session
    cove("close", "--delete", "a session").ok()


# ---- a server that goes ----

LINES = 400


@pytest.mark.parametrize("stdin", [[], ["-i"]], ids=["no-stdin", "stdin-that-ended"])
def test_kill_9_of_the_server_loses_no_byte(cove, box, stdin):
    """Twice in the middle of a command: every byte comes, once, and its status."""
    line = f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); sleep 0.002; done; exit 7"
    process = cove.start("exec", *stdin, box, "--", "sh", "-c", line, stdin=subprocess.DEVNULL)
    got = b""
    for part in (LINES // 4, LINES // 2):
        while got.count(b"\n") < part:
            got += os.read(process.stdout.fileno(), 4096)
        cove.server.kill()
        cove.server.start()
    out, err = process.communicate(timeout=DEADLINE)
    assert (got + out).decode().splitlines() == [f"line {i}" for i in range(LINES)]
    assert process.returncode == 7 and err == b""


def test_stdin_after_kill_9_of_the_server(cove, box):
    """Nothing of it was sent before: what comes then, and its end, reach the command."""
    process = cove.start("exec", "-i", box, "--", "sh", "-c", "echo a; cat; exit 5")
    assert process.stdout.readline() == b"a\n"
    cove.server.kill()
    cove.server.start()
    assert process.communicate(b"late\n", timeout=DEADLINE) == (b"late\n", b"") and process.returncode == 5


def test_the_end_of_stdin_while_the_server_is_away(cove, box):
    process = cove.start("exec", "-i", box, "--", "sh", "-c", "echo a; cat; exit 5")
    assert process.stdout.readline() == b"a\n"
    cove.server.kill()
    process.stdin.close()
    process.stdin = None
    cove.server.start()
    assert process.communicate(timeout=DEADLINE) == (b"", b"") and process.returncode == 5


def test_a_lost_answer_is_no_second_box(cove, tmp):
    """The box that was made is the one that is told; also where nobody named it."""
    before = set(cove.names())
    cut = Cut(cove.server.path, f"{tmp}/cut")
    try:
        name = cove("create", env={"COVE_HOST": f"unix:{cut.path}"}).ok().text.strip()
        assert cut.cuts == [b"/v1/boxes"] and set(cove.names()) - before == {name}
        cove("rm", "-f", name).ok()
    finally:
        cut.end()


def test_what_only_an_answer_says(cove, box, tmp):
    """That what was written to a copy is not in a fork, and how many connections a deny ends."""
    (tmp / "work").mkdir()
    name = cove("create", "--workspace", str(tmp / "work"), "--copy").ok().text.strip()
    cove("exec", name, "--", "sh", "-c", "echo x > /workspace/x").ok()
    got = cove("fork", name).ok()
    assert "copy of a host directory" in got.errors
    assert [row["copy_left_out"] for row in cove("fork", "--json", name).ok().json] == [True]
    assert [row["copy_left_out"] for row in cove("fork", "--json", box).ok().json] == [False]


def test_a_server_that_does_not_come_back_is_said(cove, box):
    """After a bounded time; the command goes on, and can be joined where it was."""
    process = cove.start("exec", "-i", box, "--", "sh", "-c", "echo a; read x; echo b; exit 3")
    assert process.stdout.readline() == b"a\n"
    process.stdin.write(b"half")  # what was sent, and may not have come, cannot be known
    process.stdin.flush()
    wait_until(lambda: not fd_is_unread(process), "the client to send")
    cove.server.kill()
    err = process.communicate(timeout=DEADLINE)[1].decode()
    assert process.returncode == 125 and "stdin" in err and "--from 2:0" in err
    cove.server.start()
    number = cove.execs(box)[-1]["exec_id"]
    again = cove("attach", "--from", "2:0", box, number, input=b"\n")
    assert (again.rc, again.out) == (3, b"b\n")


def fd_is_unread(process):
    import fcntl
    import struct
    import termios
    return struct.unpack("i", fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, b"\0\0\0\0"))[0]


# ---- a server that is none ----

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def with_body(body, head=HEAD):
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


ANSWERS = {
    "nothing": b"", "noise": bytes(range(256)) * 16, "ssh": b"SSH-2.0-x\r\n", "cut head": b"HTTP/1.1 200 O",
    "endless head": HEAD + b"X: " + b"y" * (1 << 20), "cut body": HEAD + b"Content-Length: 100\r\n\r\n{}",
    "no object": with_body(b"[]"), "no list": with_body(b"{}"), "no JSON": with_body(b"<htm>"),
    "two lengths": HEAD + b"Content-Length: 2\r\n" * 2 + b"\r\n{}", "deep": with_body(b"[" * 100000),
    "bad chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "websocket": b"HTTP/1.1 101 x\r\n\r\n",
    "elsewhere": with_body(b"", b"HTTP/1.1 302 Found\r\nLocation: /x\r\n"),
    "a proxy": with_body(b"<html>", b"HTTP/1.1 502 Bad Gateway\r\n"),
    "an error of no kind": with_body(b'{"error":{"code":5,"message":"\\u001b"}}', b"HTTP/1.1 500 x\r\n"),
    "an error with an escape": with_body(b'{"error":{"code":"odd","message":"\\u001b[2J"}}', b"HTTP/1.1 500 x\r\n"),
    "huge": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 90,
}


class Impostor:
    """Answers each connection with the same bytes, and closes it."""

    def __init__(self, path, answer):
        self.answer = answer
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen(16)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            with one:
                try:
                    one.recv(65536)
                    one.sendall(self.answer)
                except OSError:
                    pass

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


@pytest.mark.parametrize("what", ANSWERS)
def test_a_server_that_is_none(cove, tmp, what):
    impostor = Impostor(tmp / "s", ANSWERS[what])
    env = {"COVE_HOST": f"unix:{tmp}/s"}
    try:
        for words in (["ls"], ["exec", "b", "--", "true"], ["cp", "b:x", f"{tmp}/x"]):
            got = cove(*words, env=env)
            assert got.rc == 125 and got.err.startswith(b"cove: ") and got.err.count(b"\n") == 1, (words, got)
            assert b"\x1b" not in got.err
    finally:
        impostor.end()
