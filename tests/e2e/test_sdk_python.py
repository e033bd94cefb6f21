"""The Python package (sdk/python) with a real server: every method, lost connections, threads, asyncio, private
servers."""
import asyncio
import contextlib
import hashlib
import http.client
import io
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc

import pytest
from conftest import WALL, alive, needs_base, needs_flag, wait_until
from cut import Cut

SDK = pathlib.Path(__file__).resolve().parent.parent.parent / "sdk/python"
sys.path.insert(0, str(SDK))
import cove as sdk  # noqa: E402

pytestmark = pytest.mark.once("user")


class Server:
    """cove serve on a Unix socket, or where the flags say."""

    def __init__(self, cove, directory, *flags):
        self.cove, self.flags = cove, flags
        self.path = f"{directory}/s"
        self.start()

    def start(self):
        self.process = self.cove.start("serve", "--socket", self.path, *self.flags, stderr=subprocess.DEVNULL)
        self.urls = []
        for _ in range(1 + self.flags.count("--listen")):
            line = self.process.stdout.readline().decode()
            assert line.startswith("listening on "), line
            self.urls.append(line.split()[2])

    def client(self, **how):
        return sdk.Client(f"unix:{self.path}", **how)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.stdin.close()
        if self.process.poll() is None and "--private" not in self.flags:
            self.process.terminate()
        self.process.wait(60)


@pytest.fixture(scope="module")
def server(session_cove, tmp_path_factory):
    directory = subprocess.check_output(["mktemp", "-d", "/tmp/cvsdk.XXXXXX"], text=True).strip()
    server = Server(session_cove, directory, "--private")
    yield server
    server.stop()
    os.rmdir(directory)


@pytest.fixture
def serve(cove, tmp):
    """Makes further servers; they are killed at the end."""
    made = []

    def start(*flags):
        made.append(Server(cove, tmp, *flags))
        return made[-1]
    yield start
    for server in made:
        server.kill()
        server.process.stdin.close()
        server.process.stdout.close()


@pytest.fixture
def client(server, cove):
    """Boxes that a test leaves are removed by `cove`."""
    with server.client() as client:
        yield client


@pytest.fixture
def options(cove):
    """Of every box of this run."""
    chosen = {"image": cove.image, "wall": cove.wall}
    return {key: value for key, value in chosen.items() if value}


@pytest.fixture
def sb(client, options):
    with sdk.Sandbox(client=client, **options) as sandbox:
        yield sandbox


def names(client):
    return [box.name for box in sdk.Sandbox.list(client=client)]


# ---- commands ----

def test_run_keeps_its_state(sb):
    r = sb.run("echo hi; echo no >&2; cd /tmp; export WHO=agent")
    assert (r.exit_code, r.stdout, r.stderr, r.cwd, r.cause, r.shell, r.ok) == (0, "hi\n", "no\n", "/tmp", "exit",
                                                                                 "kept", True)
    assert not (r.timed_out or r.oom_killed or r.truncated or r.signal or r.denied) and r.exec_id > 0
    assert sb.run("echo $WHO $PWD").stdout == "agent /tmp\n"
    assert sb.run("cat", stdin="é\n").stdout == "é\n"
    # For one line alone, whatever is in it.
    line = "cd /; WHO=; printf '%s|' \"$A\" \"$B\" 'a)' <<E\n)\nE\n"
    assert sb.run(line, env={"A": "x 'y", "B": "$(false)"}, cwd="/etc").stdout == "x 'y|$(false)|a)|"
    assert sb.run("echo $WHO$A $PWD").stdout == "agent /tmp\n"
    assert sb.run("pwd", cwd="/nosuch").exit_code != 0
    assert sb.run("echo ${WHO-none}", shell="other").stdout == "none\n"
    assert sorted(shell["name"] for shell in sb.shells()) == ["default", "other"]
    sb.remove_shell("other")
    assert [shell["name"] for shell in sb.shells()] == ["default"]
    with pytest.raises(ValueError):
        sb.run("true", env={"A=B": "c"})


def test_how_a_command_ends(sb):
    assert sb.exec(["sh", "-c", "exit 3"]).exit_code == 3
    killed = sb.exec("kill -9 $$")
    assert (killed.exit_code, killed.signal, killed.cause) == (137, 9, "signal")
    late = sb.exec(["sleep", "60"], timeout=0.1)
    assert (late.exit_code, late.timed_out, late.cause) == (124, True, "timeout")
    with pytest.raises(sdk.CommandFailed) as failed:
        sb.run("echo why >&2; (exit 4)", check=True)
    assert failed.value.result.exit_code == 4 and failed.value.code == "command_failed"
    assert sb.run("true", check=True, timeout="10s").ok
    with pytest.raises(sdk.NotFound):
        sb.exec(["/no/such/program"])
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            sb.run("true", timeout=wrong)
    assert sb.run("true", timeout=float("inf")).ok


def test_exec_is_on_its_own(sb):
    data = bytes(range(256))
    r = sb.exec(["sh", "-c", "cat; printf '%s' \"$A$PWD\" >&2"], stdin=data, env={"A": "é"}, cwd="/tmp")
    assert (r.stdout_data, r.stderr) == (data, "é/tmp")
    assert "\ufffd" in r.stdout
    sb.exec("cd /; export A=1")
    assert sb.exec("echo $A").stdout == "\n"
    long = sb.exec("head -c 3000000 /dev/zero")
    assert long.truncated and len(long.stdout_data) == 1 << 20


def test_another_user(sb, inner_root):
    assert sb.exec(["id", "-u"], user="root").stdout == "0\n"
    assert sb.run("id -u", user="root").stdout == "0\n"
    assert sb.run("id -u").stdout != "0\n"


def test_text_as_it_comes(sb):
    out, err, order = [], [], []
    r = sb.run("printf 'a\\303'; sleep 0.3; printf '\\251b'; echo no >&2; printf '\\377'; (exit 3)",
               on_stdout=lambda text: (out.append(text), order.append(time.monotonic())), on_stderr=err.append)
    assert ("".join(out), "".join(err), r.exit_code) == ("aéb\ufffd", "no\n", 3)
    assert out[0] == "a" and r.stdout_data == b"a\xc3\xa9b\xff" and r.stderr == "no\n"
    many = sb.exec("head -c 3000000 /dev/zero", on_stdout=lambda text: out.append(text))
    assert many.truncated and len(many.stdout_data) == 1 << 20 and sum(map(len, out)) == 3000000 + 4

    def broken(text):
        raise KeyError(text)
    with pytest.raises(KeyError):
        sb.exec("echo now; sleep 60", on_stdout=broken)
    with pytest.raises(sdk.NotFound):
        sb.exec(["/no/such/program"], on_stdout=out.append)


def test_a_command_beside(sb):
    sb.exec("mkfifo /tmp/go")
    p = sb.spawn("echo one; echo two >&2; read x < go; echo three", cwd="/tmp")
    wait_until(lambda: p.read() == (b"one\n", b"two\n"), "the first output")
    assert p.read(2, 4) == (b"e\n", b"")
    with pytest.raises(sdk.Timeout):
        p.wait(0.05)
    assert p.result is None
    p.kill()
    assert p.wait().signal == 9
    p = sb.spawn(["sh", "-c", "echo one; echo two >&2; read x < /tmp/go; echo three"])
    again = sb.process(p.exec_id)
    assert [e.state for e in sb.processes() if e.exec_id == p.exec_id] == ["running"]
    sb.exec("echo > /tmp/go")
    pieces = list(again)
    assert b"".join(o.data for o in pieces if o.stream == "stdout") == b"one\nthree\n"
    assert again.result.exit_code == 0 and again.wait().stdout == "one\nthree\n"
    assert b"".join(o.data for o in p.events(stdout_from=4, stderr_from=4)) == b"three\n"
    assert p.wait().stderr == "two\n"
    p.kill()  # one that has ended
    with pytest.raises(sdk.NotFound):
        sb.process(4000).wait()
    with pytest.raises(sdk.Conflict):
        p.write("no stdin")
    p = sb.spawn("trap 'exit 9' USR1; echo; while :; do sleep 0.1; done")
    next(iter(p))
    p.signal("USR1")
    assert p.wait(60).exit_code == 9
    with pytest.raises(sdk.Invalid):
        p.signal("NOSUCH")
    # Who stops listening leaves it running.
    p = sb.spawn("echo; sleep 60")
    for _ in p:
        break
    assert [e.state for e in sb.processes() if e.exec_id == p.exec_id] == ["running"]
    p.signal(9)


STDIN_BYTES = 60 << 10  # within one window of the keeper


def test_stdin_and_a_terminal(sb):
    data = os.urandom(STDIN_BYTES)
    p = sb.spawn("sha256sum; echo end >&2", stdin=True)
    p.write(data)
    with pytest.raises(sdk.Timeout):
        p.wait(0.05)
    p.close_stdin()
    assert p.wait().stdout == hashlib.sha256(data).hexdigest() + "  -\n"
    assert p.result.stderr == "end\n"
    p, got = sb.spawn(["cat"], stdin=True), []
    reader = threading.Thread(target=lambda: got.extend(o.data for o in p))
    reader.start()
    p.write(data)
    p.close_stdin()
    reader.join()
    assert b"".join(got) == data and p.result.exit_code == 0
    p = sb.spawn(["sh"], pty=True, rows=33, cols=99)
    p.write("stty size; read x; stty size; exit 7\n")
    seen, resized = b"", False
    for piece in p:
        seen += piece.data
        if b"33 99\r\n" in seen and not resized:
            resized = True
            p.resize(20, 50)
            p.write("\n")
    assert b"20 50" in seen and p.result.exit_code == 7
    p = sb.spawn("trap 'exit 9' INT; echo; while :; do sleep 0.1; done", stdin=True)
    next(iter(p))
    p.signal("INT")
    assert p.wait().exit_code == 9
    p = sb.spawn("read x; echo $x > /tmp/left", stdin=True)
    p.close()
    with pytest.raises(sdk.Conflict):
        p.write("gone")
    with pytest.raises(sdk.NotFound):
        sb.spawn(["/no/such/program"], pty=True)


# ---- files ----

def test_files(sb, tmp):
    files = sb.files
    data = bytes(range(256)) * 1000
    files.write("/tmp/new/dir/a", data, mode=0o640)
    info = files.stat("/tmp/new/dir/a")
    assert (files.read("/tmp/new/dir/a"), info.size, info.mode, info.is_file) == (data, len(data), 0o640, True)
    files.write("/tmp/é ?&#%", "text é")
    assert files.read_text("/tmp/é ?&#%") == "text é"
    files.write("/tmp/empty", b"")
    assert files.read("/tmp/empty") == b"" and list(files.stream("/tmp/empty")) == []
    files.upload(io.StringIO("é\n" * 9), "/tmp/text")
    assert files.read_text("/tmp/text") == "é\n" * 9
    files.mkdir("/tmp/new/dir/x/y")
    files.mkdir("/tmp/new/dir/x", mode=0o700)
    sb.exec(["ln", "-s", "nowhere", "/tmp/new/dir/l"])
    assert [(f.name, f.type, f.target) for f in files.list("/tmp/new/dir")] == [
        ("a", "file", None), ("l", "link", "nowhere"), ("x", "directory", None)]
    assert files.exists("/tmp/new/dir/l") and not files.exists("/tmp/new/none")
    files.move("/tmp/new/dir/a", "/tmp/new/b")
    files.chmod("/tmp/new/b", 0o755)
    assert files.stat("/tmp/new/b").mode == 0o755
    assert abs(files.stat("/tmp/new/b").mtime - time.time()) < 3600
    with pytest.raises(sdk.CoveError):
        files.remove("/tmp/new")
    files.remove("/tmp/new", recursive=True)
    files.remove("/tmp/new")
    for missing in (lambda: files.read("/tmp/new/b"), lambda: files.stat("/tmp/new"), lambda: files.list("/tmp/new"),
                    lambda: files.download("/tmp/new", tmp / "none"), lambda: files.chmod("/tmp/new", 0o700),
                    lambda: files.move("/tmp/new", "/tmp/newer"), lambda: next(files.stream("/tmp/new"))):
        with pytest.raises(sdk.NotFound):
            missing()
    assert not list(tmp.iterdir())
    sb.stop()
    assert files.read_text("/tmp/é ?&#%") == "text é"  # up for that alone
    assert sb.info()["state"] == "stopped"


class Digested(io.RawIOBase):
    """A file object that is made as it is read, or forgotten as it is written, and cannot be wound back."""

    def __init__(self, size=0):
        self.left, self.digest, self.block = size, hashlib.sha256(), os.urandom(1 << 20)

    def readable(self):
        return True

    def writable(self):
        return True

    def read(self, size=-1):
        data = self.block[:min(size, self.left)]
        self.left -= len(data)
        self.digest.update(data)
        return data

    def write(self, data):
        self.left += len(data)
        self.digest.update(data)
        return len(data)


def test_big_files_take_little_memory(sb, tmp):
    size = 100_000_001
    source, sink = Digested(size), Digested()
    tracemalloc.start()
    sb.files.upload(source, "/tmp/big")
    assert sb.files.download("/tmp/big", sink) == size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert source.digest.digest() == sink.digest.digest() and peak < 8 << 20
    sb.files.download("/tmp/big", tmp / "big")
    with open(tmp / "big", "rb") as file:
        file.seek(50_000_000)
        sb.files.upload(file, "/tmp/half")  # from where it stands
    assert sb.files.stat("/tmp/half").size == size - 50_000_000
    # An answer before all is sent: not a broken pipe.
    with pytest.raises(sdk.CoveError) as refused:
        sb.files.upload(Digested(size), "/proc/version/x")
    assert not isinstance(refused.value, sdk.ConnectionLost), refused.value
    assert sb.run("true").ok


def test_an_upload_that_breaks_off_leaves_what_was_there(serve, options):
    class Broken(Digested):
        def read(self, size=-1):
            if self.left < 2_000_000:
                raise KeyError("broken")
            return super().read(size)

    class Short(Broken):
        """Says that it has more than it gives."""

        def seekable(self):
            return True

        def tell(self):
            return 0

        def seek(self, at, whence=0):
            return 9_000_000 if whence else at

        def read(self, size=-1):
            return super().read(size) if self.left > 2_000_000 else b""

    with serve().client() as client, sdk.Sandbox(client=client, **options) as sb:
        sb.files.write("/tmp/a", "whole")
        with pytest.raises(KeyError):
            sb.files.upload(Broken(8_000_000), "/tmp/a")
        with pytest.raises(ValueError):
            sb.files.upload(Short(8_000_000), "/tmp/a")
        assert sb.files.read("/tmp/a") == b"whole"


def test_directories(sb, tmp):
    tree = tmp / "tree"
    (tree / "sub/deep").mkdir(parents=True)
    (tree / "a").write_bytes(b"x" * 100_000)
    (tree / "sub/run").write_text("#!/bin/sh\n")
    (tree / "sub/run").chmod(0o755)
    (tree / "sub/link").symlink_to("../a")
    os.mkfifo(tree / "fifo")
    sb.files.put_dir(tree, "/tmp/in/here")
    assert [f.name for f in sb.files.list("/tmp/in/here")] == ["a", "sub"]
    assert sb.exec("cat /tmp/in/here/sub/link | wc -c; test -x /tmp/in/here/sub/run -a -O /tmp/in/here/a").ok
    sb.exec("cd /tmp/in/here; ln -s /etc/passwd out; ln -s ../../x up; mkfifo f; ln a hard")
    left_out = sb.files.get_dir("/tmp/in/here", tmp / "out/deep")
    assert sorted(name.rsplit("/", 1)[1] for name in left_out if not name.endswith("f")) == ["out", "up"]
    got = tmp / "out/deep"
    assert sorted(p.name for p in got.rglob("*")) == ["a", "deep", "hard", "link", "run", "sub"]
    assert (got / "sub/link").read_bytes() == b"x" * 100_000 and os.access(got / "sub/run", os.X_OK)
    sb.files.get_dir("/tmp/in/here", got)  # again, over what is there
    with pytest.raises(sdk.Invalid):
        sb.files.get_dir("/tmp/in/here/a", got)
    with pytest.raises(sdk.NotFound):
        sb.files.get_dir("/tmp/none", got)
    sb.exec("chmod 0 /tmp/in/here/a")
    assert "a" in sb.files.get_dir("/tmp/in/here", tmp / "less") and (tmp / "less/sub/run").exists()
    with pytest.raises(sdk.Denied):
        sb.files.download("/tmp/in/here", tmp / "less.tar")
    assert not (tmp / "less.tar").exists()


# ---- boxes ----

def test_a_box_by_its_life(client, options, server):
    made = sdk.Sandbox.create(client=client, command=["sh", "-c", "echo first; exit 2"], env={"A": "b c"},
                              labels={"who": "sdk"}, mem="256m", best_effort=True, timeout=60, ttl="1h", **options)
    assert (made.result.stdout, made.result.exit_code) == ("first\n", 2)
    made.close()
    sb = sdk.Sandbox.connect(made.name, client=client)
    assert sb.run("echo $A").stdout == "b c\n"
    assert [box.name for box in sdk.Sandbox.list(label="who=sdk", client=client)] == [made.name]
    assert sdk.Sandbox.list(label="who=else", client=client) == []
    listed = sdk.Sandbox.list(state="running", host=f"unix:{server.path}")
    assert [(b.state, b.image) for b in listed if b.name == made.name] == [("running", options.get("image", "base"))]
    assert sb.info()["limits"]["mem_bytes"]["value"] == 256 << 20 and sb.info()["timeout_ms"] == 60000
    assert sb.stats()["uptime_ms"] >= 0
    sb.stop(grace=0)
    assert sb.info()["state"] == "stopped"
    with pytest.raises(sdk.Conflict):
        sb.run("true")
    sb.start()
    sb.start()
    assert sb.run("echo $A").stdout == "b c\n"
    events = list(sb.history())
    assert [e["event"] for e in events][:2] == ["open", "command"]
    later = list(sb.history(after=events[0]["seq"]))
    assert later[0] == events[1] and len(later) == len(events) - 1
    with sb:
        pass
    assert sb.name in names(client)  # it stays
    sb.remove()
    sb.delete()
    assert sb.name not in names(client)
    with pytest.raises(sdk.NotFound):
        sdk.Sandbox.connect(sb.name, client=client)
    with pytest.raises(TypeError):
        sdk.Sandbox(client=client, imge="base")
    with pytest.raises(sdk.Invalid):
        sdk.Sandbox(client=client, name="No Name", **options)
    assert client.version()["api"] >= 1
    assert all("name" in row for row in client.images() + client.workspaces())


@needs_flag("EXEC_GROUPS")
def test_pause(sb):
    try:
        sb.pause()
    except sdk.Unsupported:
        pytest.skip("boxes cannot be paused by this user")
    assert sb.info()["paused"]
    with pytest.raises(sdk.Conflict):
        sb.run("true")
    sb.resume()
    assert sb.run("true").ok


def test_with_removes_only_its_own(client, options):
    with pytest.raises(KeyError):
        with sdk.Sandbox(client=client, name="sdk-mine", **options) as sb:
            assert "sdk-mine" in names(client)
            with pytest.raises(sdk.Exists):
                sdk.Sandbox(client=client, name="sdk-mine", **options)
            raise KeyError
    assert "sdk-mine" not in names(client)
    sb.close()
    made = sdk.Sandbox(client=client, **options)
    made.remove()
    made.close()


def test_pages_of_a_list(client, options, monkeypatch):
    """The server gives at most so many at once; here two."""
    boxes = [sdk.Sandbox(client=client, name=f"sdk-page-{i}", **options) for i in range(3)]
    asked, plain = [], client._core.json

    async def two(method, path, **how):
        if path == "/v1/boxes" or path.endswith("/execs"):
            how["query"] = {**how["query"], "limit": 2}
            asked.append(how["query"]["after"])
        return await plain(method, path, **how)
    monkeypatch.setattr(client._core, "json", two)
    listed = [b.name for b in sdk.Sandbox.list(client=client) if b.name.startswith("sdk-page-")]
    assert listed == ["sdk-page-0", "sdk-page-1", "sdk-page-2"] and len(asked) > 1
    for _ in range(3):
        boxes[0].exec("true")
    assert [p.exec_id for p in boxes[0].processes()] == [1, 2, 3] and len(asked) > 3
    for box in boxes:
        box.close()


def test_sessions(client, cove, options):
    with sdk.Sandbox.open("ticket/4711 é", prefix="sdk", client=client, **options) as sb:
        assert sb.name == "sdk-" + hashlib.sha256("ticket/4711 é".encode()).hexdigest()[:16]
        sb.run("echo kept > /workspace/a; echo gone > /tmp/b; cd /workspace")
        other = sdk.Sandbox.open("ticket/4711 é", prefix="sdk", client=client)
        assert other.name == sb.name and other.run("pwd").stdout == "/workspace\n"  # joined
        sb.stop()
        assert sdk.Sandbox.open("ticket/4711 é", prefix="sdk", client=client).exec("cat /tmp/b").ok  # started
    assert sb.name not in names(client)
    sb.close()
    name = cove("open", "ticket/4711 é", "--prefix", "sdk").ok().text.strip()  # the same one to the command line
    assert name == sb.name
    with sdk.Sandbox.open("ticket/4711 é", prefix="sdk", client=client) as sb:
        assert sb.exec("cat /workspace/a; test ! -e /tmp/b").stdout == "kept\n"
    assert sb.name in [row["name"] for row in client.workspaces()]
    client.remove_workspace(sb.name)
    assert sb.name not in [row["name"] for row in client.workspaces()]

    with sdk.Sandbox.open("a", persistence="box", client=client, **options) as sb:
        assert sb.name == sdk.session_name("a") == "session-" + hashlib.sha256(b"a").hexdigest()[:16]
        sb.run("echo kept > /tmp/b")
    assert sb.info()["state"] == "stopped"
    with sdk.Sandbox.open("a", client=client) as sb:
        assert sb.exec("cat /tmp/b").stdout == "kept\n"
    assert sb.info()["state"] == "stopped"
    sb.delete()
    client.remove_workspace(sb.name)
    # Many open one session at once.
    opened, errors = [], []

    def open_it():
        try:
            opened.append(sdk.Sandbox.open("at once", client=client, **options))
        except sdk.CoveError as error:
            errors.append(error)
    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len({box.name for box in opened}) == 1
    for box in opened:
        assert box.exec("true").ok
    for box in opened:
        box.close()
    client.remove_workspace(opened[0].name)
    for wrong in ("", "x" * 1025, "a\0"):
        with pytest.raises(ValueError):
            sdk.Sandbox.open(wrong, client=client)


def test_snapshots_and_forks(sb, client):
    sb.run("echo one > /tmp/a")
    snapshot = sb.snapshot("sdk-snap")
    assert (snapshot.name, snapshot.box) == ("sdk-snap", sb.name)
    sb.run("echo two > /tmp/a")
    assert [s.name for s in sb.snapshots()] == ["sdk-snap"]
    forks = sb.fork(2)
    assert [f.exec("cat /tmp/a").stdout for f in forks] == ["two\n"] * 2
    old = sb.fork(snapshot=snapshot, name="sdk-old", no_freeze=True)[0]
    assert (old.name, old.exec("cat /tmp/a").stdout) == ("sdk-old", "one\n")
    back = sb.rollback(snapshot)
    assert back.started and back.sent == 0 and back.hosts == []
    assert sb.exec("cat /tmp/a").stdout == "one\n"
    # What a server that cannot freeze takes as it runs; and a snapshot of a box that this one does not come from.
    other = forks[0].snapshot(no_freeze=True)
    assert other.unfrozen == other.raw["unfrozen"]
    with pytest.raises(sdk.Conflict):
        sb.rollback(other)
    assert sb.rollback(other, foreign=True).started and sb.exec("cat /tmp/a").stdout == "two\n"
    client.remove_snapshot(other)
    for fork in [*forks, old]:
        fork.close()
    assert not {fork.name for fork in [*forks, old]} & set(names(client))
    client.remove_snapshot(snapshot)
    assert snapshot.name not in [s.name for s in client.snapshots()]
    with pytest.raises(sdk.NotFound):
        client.remove_snapshot("sdk-snap")
    with pytest.raises(sdk.NotFound):
        sb.rollback("sdk-snap")


# ---- errors ----

def test_errors(client, sb, tmp, monkeypatch):
    with pytest.raises(sdk.NotFound) as missing:
        sdk.Sandbox.connect("no-such-box", client=client)
    error = missing.value
    assert (error.code, error.status) == ("not_found", 404) and error.request_id and "no-such-box" in str(error)
    with pytest.raises(sdk.NotFound):
        sdk.Sandbox.connect("../../healthz", client=client)
    with pytest.raises(ValueError):
        sdk.Sandbox.connect("..", client=client)
    with pytest.raises(sdk.TooLarge):
        sb.exec("cat", stdin=b"x" * (20 << 20))
    assert sb.run("true").ok
    with pytest.raises(sdk.ConnectionFailed):
        sdk.Client(f"unix:{tmp}/none").version()
    with pytest.raises(sdk.ConnectionFailed):
        sdk.Client("http://127.0.0.1:1").version()
    for wrong in ("127.0.0.1:80", "ftp://x", "unix:x", "http://", "http://a@b"):
        with pytest.raises(ValueError):
            sdk.Client(wrong)
    monkeypatch.delenv("COVE_HOST", raising=False)
    with pytest.raises(sdk.ConnectionFailed):
        sdk.Client(cove="/no/such/cove")
    with pytest.raises(sdk.ConnectionFailed) as failed:
        sdk.Client(cove="/bin/false").version()
    assert "cove serve" in str(failed.value)
    monkeypatch.setenv("COVE_HOST", client._core._endpoint.__str__())
    assert sb.name in [box.name for box in sdk.Sandbox.list()]


def test_over_tcp_a_key_is_needed(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = serve("--listen", f"127.0.0.1:{port}", "--private")
    url = next(url for url in server.urls if url.startswith("http://"))
    for key in (None, "wrong", "cove_0_" + "0" * 43):
        with pytest.raises(sdk.Unauthorized) as refused:
            sdk.Client(url, key).version()
        assert refused.value.status == 401
    with pytest.raises(ValueError):
        sdk.Client(url, "a\r\nX: b").version()


def test_tls(serve, tmp):
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x",
                           "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp / "key", "-out", tmp / "cert"],
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    serve("--listen", f"127.0.0.1:{port}", "--private", "--tls-cert", f"{tmp}/cert", "--tls-key", f"{tmp}/key")
    url = f"https://127.0.0.1:{port}"
    with pytest.raises(sdk.ConnectionFailed):  # not trusted
        sdk.Client(url).version()
    trusted = ssl.create_default_context(cafile=tmp / "cert")
    with sdk.Client(url, "wrong", ssl_context=trusted) as client:
        assert client.json("GET", "/healthz") == {"status": "ok"}
        for _ in range(3):
            with pytest.raises(sdk.Unauthorized):
                client.version()

    async def work():
        async with sdk.AsyncClient(url, "wrong", ssl_context=trusted) as client:
            assert await client.json("GET", "/healthz") == {"status": "ok"}
            with pytest.raises(sdk.Unauthorized):
                await client.version()
    asyncio.run(work())


# ---- a server that is killed ----

def test_killed_server_every_byte_once(serve, options):
    """kill -9 under streams of every kind, twice; what reconnects has each byte once, and no command runs twice."""
    server = serve()
    client = server.client(reconnect_timeout=60)
    sb = sdk.Sandbox(client=client, **options)
    line = "echo x >> /tmp/runs; i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); sleep 0.01; done"
    want = "".join(f"line {i}\n" for i in range(200))
    got, errors = {}, []

    def streamed():
        pieces = []
        r = sb.exec(line, on_stdout=pieces.append)
        got["streamed"] = ("".join(pieces), r.stdout, r.exit_code)

    def waited():
        r = sb.exec(line)
        got["waited"] = (r.stdout, r.stdout, r.exit_code)

    def beside():
        p = sb.spawn(line)
        text = b"".join(o.data for o in p).decode()
        got["beside"] = (text, p.wait().stdout, p.result.exit_code)

    def with_stdin():
        p = sb.spawn(line, stdin=True)
        text = b"".join(o.data for o in p).decode()
        got["stdin"] = (text, want, p.result.exit_code)

    def asynchronous():
        async def work():
            other = await sdk.AsyncSandbox.connect(sb.name, client=sdk.AsyncClient(f"unix:{server.path}"))
            pieces = []
            r = await other.exec(line, on_stdout=pieces.append)
            got["async"] = ("".join(pieces), r.stdout, r.exit_code)
        asyncio.run(work())

    def noting(work):
        try:
            work()
        except BaseException as error:
            errors.append((work.__name__, error))
    threads = [threading.Thread(target=noting, args=(w,)) for w in (streamed, waited, beside, with_stdin, asynchronous)]
    for thread in threads:
        thread.start()
    wait_until(lambda: sb.files.exists("/tmp/runs") and sb.files.stat("/tmp/runs").size == 10, "all to have begun")
    for _ in range(2):
        server.kill()
        server.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert {name: value == (want, want, 0) for name, value in got.items()} == dict.fromkeys(
        ("streamed", "waited", "beside", "stdin", "async"), True)
    assert sb.files.read("/tmp/runs") == b"x\n" * 5
    # Between two requests, too: the connection that was kept is dead.
    server.kill()
    server.start()
    assert sb.run("echo again").stdout == "again\n"
    sb.close()


def test_a_lost_connection_is_no_second_box(serve, cove, tmp, options):
    """The server dies when the request is there and the answer is not."""
    server = serve("--private")
    before = set(cove.names())

    cut = Cut(server.path, f"{tmp}/cut")
    with sdk.Client(f"unix:{cut.path}") as client:
        sb = sdk.Sandbox(client=client, **options)
        made = set(cove.names()) - before
        assert cut.cuts == [b"/v1/boxes"] and made == {sb.name}
        assert sb.exec("echo ran | tee -a /tmp/runs").stdout == "ran\n"
        assert sb.files.read("/tmp/runs") == b"ran\n"
        with pytest.raises(sdk.ConnectionLost):  # whether it was done is not known
            sb.files.move("/tmp/runs", "/tmp/old")
        assert not sb.files.exists("/tmp/runs")
        sb.close()
        assert len(cut.cuts) == 6 and set(cove.names()) == before
    cut.end()


# ---- threads, processes, loops ----

def test_threads(sb):
    failed, lock = [], threading.Lock()

    def work(n):
        for i in range(10):
            said = f"{n} {i}\n" * (1 + n * 1000)
            if sb.exec(["cat"], stdin=said).stdout != said or not sb.run("true").ok:
                with lock:
                    failed.append((n, i))
            sb.files.write(f"/tmp/t{n}", said)
            if sb.files.read_text(f"/tmp/t{n}") != said:
                failed.append((n, i))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


PORT_PROGRAM = """
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(404 if "missing" in self.path else 200)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(f'["{self.command}", "{self.path}", "{self.headers.get("X-A")}", {len(data)}]'.encode())
    do_POST = do_PUT = do_HEAD = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
"""


def test_ports(sb):
    sb.spawn(["python3", "-c", PORT_PROGRAM])
    wait_until(sb.ports, "the program")
    assert [(p.port, p.address, p.program) for p in sb.ports()] == [(8000, "127.0.0.1", "python3")]
    got = sb.fetch(8000, "/a b?c=é&d=1%20#e", headers={"X-A": "b"})
    assert got.ok and got.json() == ["GET", "/a%20b?c=%C3%A9&d=1%20%23e", "b", 0]
    assert sb.fetch(8000, method="PUT", body=b"x" * 3_000_000).json()[3] == 3_000_000
    assert sb.fetch(8000, json={"a": 1}).json() == ["POST", "/", "None", 8]
    missing = sb.fetch(8000, "/missing")
    assert (missing.status, missing.ok, missing.headers["cove-port"]) == (404, False, "8000") and missing.text
    assert sb.fetch(8000, method="HEAD").body == b""
    with pytest.raises(sdk.CoveError) as unreachable:  # the server's own answer to HEAD has no body either
        sb.fetch(8001, method="HEAD")
    assert unreachable.value.status == 502
    with pytest.raises(sdk.ProtocolError):
        sb.fetch(8001)
    with pytest.raises(sdk.Unsupported):  # of a server without names for ports
        sb.url(8000)
    for wrong in ({"path": "x"}, {"headers": {"authorization": "x"}}, {"headers": {"X-A": "a\r\nB: c"}}):
        with pytest.raises(ValueError):
            sb.fetch(8000, **wrong)


def test_links_to_ports(serve, options):
    server = serve("--domain", "boxes.example.org", "--listen", "127.0.0.1:0")
    with server.client() as client, sdk.Sandbox(client=client, **options) as sb:
        sb.spawn(["python3", "-c", PORT_PROGRAM])
        wait_until(sb.ports, "the program")
        port = int(server.urls[0].rsplit(":", 1)[1])
        host = f"8000-{sb.name}.boxes.example.org:{port}"
        link = sb.link(8000, expires=60)
        assert sb.get_host(8000) == link.host == host and 0 < link.expires - time.time() <= 60
        assert link.token in link.link and link.token not in repr(link)
        address = sb.url(8000)
        for path, status in ((address.split(host, 1)[1], 200), ("/", 401)):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            c.request("GET", path, headers={"Host": host})
            assert c.getresponse().status == status
            c.close()


def test_asyncio(server, cove, options, tmp):
    async def work():
        host = f"unix:{server.path}"
        async with sdk.AsyncSandbox(host=host, **options) as sb:
            assert sb.name in [box.name for box in await sdk.AsyncSandbox.list(host=host)]
            assert (await sb.run("cd /tmp; echo hi")).stdout == "hi\n"
            results = await asyncio.gather(*(sb.exec(f"sleep 0.1; echo {i}") for i in range(20)))
            assert [r.stdout for r in results] == [f"{i}\n" for i in range(20)]
            said = []

            async def on_text(text):
                await asyncio.sleep(0)
                said.append(text)
            assert (await sb.run("echo a; pwd", on_stdout=on_text)).ok and "".join(said) == "a\n/tmp\n"
            source, sink = Digested(20_000_001), Digested()
            await sb.files.upload(source, "/tmp/big")
            assert await sb.files.download("/tmp/big", sink) == 20_000_001
            assert source.digest.digest() == sink.digest.digest()
            await sb.spawn(["python3", "-c", PORT_PROGRAM])
            while not (ports := await sb.ports()):
                await asyncio.sleep(0.05)
            assert [p.port for p in ports] == [8000] and (await sb.fetch(8000, "/x")).json()[1] == "/x"
            (tmp / "d").mkdir(exist_ok=True)
            (tmp / "d/f").write_text("f")
            await sb.files.put_dir(tmp / "d", "/tmp/d")
            assert await sb.files.get_dir("/tmp/d", tmp / "e") == [] and (tmp / "e/f").read_text() == "f"
            p = await sb.spawn(["cat"], stdin=True)
            data = os.urandom(STDIN_BYTES)

            async def feed():
                await p.write(data)
                await p.close_stdin()
            feeding = asyncio.ensure_future(feed())
            assert b"".join([o.data async for o in p]) == data and (await p.wait()).ok
            await feeding
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sb.exec("sleep 60", timeout=60), 0.2)
            with pytest.raises(sdk.Timeout):
                await (await sb.spawn("sleep 60")).wait(0.1)
            with pytest.raises(sdk.NotFound):
                await sb.files.read("/nosuch")
            snapshot = await sb.snapshot()
            assert (await sb.rollback(snapshot)).started
            fork, = await sb.fork()
            await fork.close()
            await sb.client.remove_snapshot(snapshot)
            assert [e["event"] async for e in sb.history()][0] == "open"
            with pytest.raises(sdk.Conflict):
                sdk.AsyncSandbox(host=host).name
        waited = await sdk.AsyncSandbox(host=host, **options)
        await waited.close()
        async with await sdk.AsyncSandbox.open("async", host=host, **options) as session:
            assert (await session.run("true")).ok
        await session.client.remove_workspace(session.name)
        return sb.name, session.name
    gone = asyncio.run(work(), debug=True)
    gone += asyncio.run(work())  # another loop, the same client
    assert not set(gone) & set(cove.names())


# ---- private servers ----

def run_script(cove, text, *args, **kw):
    env = {**cove.env, "COVE_BIN": cove.program, "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen([sys.executable, "-X", "dev", "-c", textwrap.dedent(text), *args], env=env, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)


def box_words(options):
    return ",".join(f"{key}={value}" for key, value in options.items())


PRELUDE = """
import os, sys, cove, threading
options = dict(word.split("=") for word in sys.argv[1].split(",") if word)
def server(sb):
    return sb.client._core.server
"""


def finish(child, rc=0):
    out, err = child.communicate(timeout=120)
    assert child.returncode == rc and not err, (out, err)
    return out.split()


def test_private_server(cove, options):
    script = textwrap.dedent(PRELUDE) + textwrap.dedent("""
        with cove.Sandbox(**options) as sb:
            made = []
            threads = [threading.Thread(target=lambda: made.append(cove.Sandbox(**options))) for _ in range(3)]
            [t.start() for t in threads]; [t.join() for t in threads]
            pids = {server(one).pid for one in [sb, *made]}
            assert len(pids) == 1
            stays = cove.Sandbox.create(**options)
            os.kill(server(sb).pid, 9)       # another one is started
            assert sb.run("echo on").stdout == "on\\n"
            forked = os.fork()
            if forked == 0:                  # has a server of its own, and leaves the boxes alone
                assert sb.run("echo child").stdout == "child\\n" and server(sb).pid not in pids
                theirs = cove.Sandbox(**options)
                print("theirs", theirs.name, "pid", server(theirs).pid, flush=True)
                sys.exit(0)
            assert os.waitpid(forked, 0)[1] == 0
            assert sb.run("echo parent").stdout == "parent\\n"
            print("pid", server(sb).pid, "dir", server(sb)._directory, "stays", stays.name)
    """)
    before = set(cove.names())
    said = finish(run_script(cove, script, box_words(options)))
    words = dict(zip(said[::2], said[1::2]))
    assert set(cove.names()) - before == {words["stays"]}  # the others went with the processes
    assert not alive(int(words["pid"])) and not os.path.exists(words["dir"])


def test_private_server_of_a_killed_process(cove, options):
    script = textwrap.dedent(PRELUDE) + textwrap.dedent("""
        sb = cove.Sandbox(**options)
        if os.fork() == 0:                   # outlives its parent, and with it no server
            sys.stdin.read(1)
            os._exit(0)
        print(server(sb).pid, server(sb)._directory, flush=True)
        sys.stdin.read(1)
    """)
    child = run_script(cove, script, box_words(options), start_new_session=True)
    words = child.stdout.readline().split()
    pid = int(words[0])
    assert alive(pid)
    child.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive(pid), "the private server to end")
    # All that is left is an empty directory, which the next private server removes a minute later.
    os.utime(words[1], (0, 0))
    done = run_script(cove, PRELUDE + "cove.Client().version()", box_words(options))
    finish(done)
    assert not os.path.exists(words[1])
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()
    child.stdout.close()
    child.stderr.close()
    child.wait()


def test_private_server_and_asyncio(cove, options):
    script = textwrap.dedent(PRELUDE) + textwrap.dedent("""
        import asyncio
        async def work():
            async with cove.AsyncSandbox(**options) as sb:
                assert (await sb.run("echo hi")).stdout == "hi\\n"
            left = await cove.AsyncSandbox(**options)   # not closed: goes at the end
            print(left.name, left.client.server.pid)
            await left.client.close()
        asyncio.run(work())
    """)
    name, pid = finish(run_script(cove, script, box_words(options)))
    assert name not in cove.names() and not alive(int(pid))


@needs_base
def test_three_lines(cove):
    readme = (SDK / "README.md").read_text()
    first = readme.split("```python\n")[1].split("```")[0]
    assert len(first.strip().splitlines()) == 3
    if WALL == "native":
        assert finish(run_script(cove, first)) == ["hi"]


def test_it_can_be_installed_without_a_network(tmp):
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode != 0:
        pytest.skip("no pip for this Python")
    subprocess.run(["cp", "-r", str(SDK), tmp / "python"], check=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp), "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", tmp / "out", tmp / "python"],
                          env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = subprocess.run([sys.executable, "-c", "import cove; print(cove.__file__, cove.__version__)"], text=True,
                          env={"PYTHONPATH": str(tmp / "out")}, capture_output=True).stdout
    version = subprocess.check_output(["sed", "-n", 's/^version = "\\(.*\\)"/\\1/p', SDK / "pyproject.toml"], text=True)
    assert said.split() == [f"{tmp}/out/cove/__init__.py", version.strip()]
    assert (tmp / "out/cove/py.typed").exists()


def test_images_builds_runs_and_merges(server, tmp_path):
    client = server.client()
    (tmp_path / "Dockerfile").write_text("FROM base\nUSER root\nCOPY x /x\nRUN --mount=type=secret,id=t "
                                         "wc -c < /run/secrets/t\n")
    (tmp_path / "x").write_text("from here\n")
    name, seen = "sdk-" + os.urandom(3).hex(), []
    try:
        assert client.build_image(name, tmp_path, secrets={"t": "abc"}, on_event=seen.append)["name"] == name
        assert "3\n" in [e.text for e in seen if e.kind == "stdout"]
        with pytest.raises(sdk.Conflict):
            client.build_image(f"{name}-bad", text=f"FROM {name}\nRUN exit 3\n")
        got = client.run("tr a-z A-Z < i > o; cat /x; exit 2", image=name, cwd="/tmp", files={"/tmp/i": "abc"},
                         outputs=["o", "none"])
        assert (got.result.exit_code, got.result.stdout, got.files) == (2, "from here\n", {"o": b"ABC"})
        assert list(got.errors) == ["none"] and client.image(name)["name"] == name
        assert name in [i["name"] for i in client.images()]
        (tmp_path / "image.tar").write_text("older")
        with pytest.raises(sdk.NotFound):
            client.export_image(f"{name}-none", tmp_path / "image.tar")
        assert (tmp_path / "image.tar").read_text() == "older"
        assert client.export_image(name, tmp_path / "image.tar") == (tmp_path / "image.tar").stat().st_size > 5
        with sdk.Sandbox(client=client) as sb:
            sb.run("echo 1 > /tmp/f")
            fork, = sb.fork()
            fork.run("echo 2 > /tmp/f")
            sb.run("echo 3 > /tmp/f")
            assert [c.path for c in fork.diff(sb.name, text=True)] == ["/tmp/f"]
            with pytest.raises(sdk.Conflict) as conflict:
                sb.merge(fork)
            assert conflict.value.details["conflicts"] == 1
            assert sb.merge(fork, prefer="theirs")["done"] and sb.run("cat /tmp/f").stdout == "2\n"
            fork.close()
    finally:
        client.remove_image(name)
