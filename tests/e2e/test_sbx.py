"""Docker's sbx verbs, as programs that call sbx use them.

DockerSandbox makes the calls of harness-kernel's class of that name (packages/sandbox-docker), word for word: what it
runs, what of the answers it looks at, and how it ends what takes too long. tests/conformance has the same in Node.
"""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from conftest import DEADLINE, TAR, needs_root, wait_until

WALL = "namespaces on this host's kernel, not a virtual machine"


@pytest.fixture
def sbx(cove, tmp):
    """The program under the name sbx."""
    (tmp / "bin").mkdir()
    (tmp / "bin/sbx").symlink_to(cove.program)
    return Sbx(cove, str(tmp / "bin/sbx"))


class Sbx:
    def __init__(self, cove, program):
        self.cove, self.program = cove, program
        self.template = [] if TAR else ["--template", "host"]

    def __call__(self, *args, stdin=b"", **kw):
        done = subprocess.run([self.program, *args], input=stdin, capture_output=True, env=self.cove.env,
                              timeout=DEADLINE, **kw)
        done.text, done.errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return done

    def ok(self, *args, **kw):
        done = self(*args, **kw)
        assert done.returncode == 0, done
        return done

    def create(self, *args, **kw):
        return self("create", "shell", *self.template, *args, **kw)

    def refuses(self, *args, words=(), rc=(2, 125), **kw):
        """A sentence of one line, and no box."""
        done = self(*args, **kw)
        assert done.returncode in rc and not done.stdout and len(done.errors.splitlines()) == 1, done
        assert all(w in done.errors for w in ([words] if isinstance(words, str) else words)), done.errors
        return done.errors


class ControlFailed(Exception):
    pass


class DockerSandbox:
    def __init__(self, sbx, prefix="harness", persistence="workspace", env=None):
        self.sbx, self.prefix, self.persistence, self.env = sbx, prefix, persistence, env or {}

    def name(self, session):
        return f"{self.prefix}-{hashlib.sha256(session.encode()).hexdigest()[:16]}"

    def process(self, *args, stdin=None, timeout_ms=None):
        """stdin is always a pipe that is closed; TERM at the time-out, KILL a second later."""
        child = subprocess.Popen([self.sbx.program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env=self.sbx.cove.env)
        timers = []
        if timeout_ms is not None:
            timers = [threading.Timer(timeout_ms / 1000, child.terminate),
                      threading.Timer(timeout_ms / 1000 + 1, child.kill)]
            [t.start() for t in timers]
        out, err = child.communicate(stdin.encode() if stdin is not None else b"")
        [t.cancel() for t in timers]
        return child.returncode, out.decode(), err.decode()

    def control(self, *args):
        rc, out, err = self.process(*args)
        if rc != 0:
            raise ControlFailed(f"{self.sbx.program} {' '.join(args)} failed: {err or out}")
        return out

    def open(self, session, work, extra=()):
        """extra: (path, read-only)"""
        if self.name(session) not in [line.strip() for line in self.control("ls", "-q").split("\n")]:
            try:
                self.control("create", "shell", "--name", self.name(session), *self.sbx.template,
                             str(work), *(f"{p}:ro" if ro else str(p) for p, ro in extra))
            except ControlFailed as failed:
                assert "already exists" in str(failed).lower(), failed
        return Session(self, self.name(session), work)

    def destroy(self, session):
        try:
            self.control("rm", "--force", self.name(session))
        except ControlFailed as failed:
            assert "not found" in str(failed).lower(), failed


class Session:
    def __init__(self, sandbox, name, work):
        self.sandbox, self.name, self.work = sandbox, name, pathlib.Path(work)

    def exec(self, command, cwd=None, env=None, stdin=None, timeout_ms=30000):
        where = self.work / cwd if cwd else self.work
        where.mkdir(parents=True, exist_ok=True)
        pairs = [w for k, v in {**self.sandbox.env, **(env or {})}.items() for w in ("-e", f"{k}={v}")]
        return self.sandbox.process("exec", "-i", "-w", str(where), *pairs, self.name, "bash", "-lc", command,
                                    stdin=stdin, timeout_ms=timeout_ms)

    def close(self, reason="close"):
        if reason == "delete" or self.sandbox.persistence == "workspace":
            self.sandbox.control("rm", "--force", self.name)
        else:
            self.sandbox.control("stop", self.name)


# ---- the caller's story ----

def test_a_session_of_harness_kernel(sbx, tmp):
    work, docs = tmp / "project", tmp / "project/docs"
    docs.mkdir(parents=True)
    (docs / "page").write_text("read me")
    sandbox = DockerSandbox(sbx, env={"CI": "1"})
    session = sandbox.open("s 1", work, [(docs, True)])
    again = sandbox.open("s 1", work)  # the list has it
    assert again.name == session.name == sbx.ok("ls", "-q").text.strip()
    # The same path inside as outside, both ways, and streams apart.
    assert session.exec("pwd; echo $CI$X >&2", env={"X": "a b"}) == (0, f"{work}\n", "1a b\n")
    assert session.exec("cat > in; wc -c < in", cwd="src/deep", stdin="ab\0c\n") == (0, "5\n", "")
    assert (work / "src/deep/in").read_bytes() == b"ab\0c\n"
    (work / "here").write_text("from outside")
    assert session.exec(f"cat here {docs}/page") == (0, "from outsideread me", "")
    rc, _, err = session.exec(f"echo x > {docs}/page")
    assert rc != 0 and "Read-only" in err and (docs / "page").read_text() == "read me"
    assert session.exec("cat; echo end; exit 7") == (7, "end\n", "")  # stdin has ended
    assert session.exec("no-such-command")[0] == 127
    session.close()
    with pytest.raises(ControlFailed, match="not found"):
        session.close()
    sandbox.destroy("s 1")  # what is gone is fine
    assert (work / "src/deep/in").exists() and sbx.ok("ls", "-q").text == ""


def test_a_session_that_keeps_its_box(sbx, tmp):
    sandbox = DockerSandbox(sbx, prefix="kept", persistence="sandbox")
    (tmp / "w").mkdir()
    session = sandbox.open("id", tmp / "w")
    assert session.exec("echo 1 > /tmp/own; echo 2 > ~/mine")[0] == 0
    session.close()
    assert json.loads(sbx.ok("ls", "--json").text)["sandboxes"] == [
        {"name": session.name, "id": session.name, "agent": "shell", "status": "stopped",
         "workspaces": [str(tmp / "w")]}]
    # Opened again it is in the list, and the first command starts it.
    assert sandbox.open("id", tmp / "w").exec("cat ~/mine") == (0, "2\n", "")
    session.close("delete")
    assert sbx.ok("ls", "-q").text == ""


def test_two_callers_that_both_create(sbx, tmp):
    """Neither saw the other's box in the list: one of them is told that it exists, and goes on."""
    (tmp / "w").mkdir()
    results = []
    create = ["--name", "twice", str(tmp / "w")]
    both = [threading.Thread(target=lambda: results.append(sbx.create(*create))) for _ in range(2)]
    [t.start() for t in both]
    [t.join() for t in both]
    assert sorted(r.returncode for r in results) == [0, 125], results
    assert "already exists" in max(results, key=lambda r: r.returncode).errors
    assert sbx.ok("exec", "twice", "pwd").text == f"{tmp}/w\n"


@pytest.mark.once("user")
def test_what_takes_too_long_is_gone_in_the_box_too(sbx, tmp):
    """The caller sends TERM, and KILL after a second: by then even what ignores TERM has ended."""
    (tmp / "w").mkdir()
    session = DockerSandbox(sbx).open("slow", tmp / "w")
    began = time.monotonic()
    rc, out, _ = session.exec("trap '' TERM; echo began; sleep 300 & sleep 300", timeout_ms=1000)
    assert out == "began\n" and rc in (137, -signal.SIGKILL), rc
    assert time.monotonic() - began < 60
    wait_until(lambda: session.exec("ps -e -o args | grep -c '[s]leep 300'")[1] == "0\n", "the processes' end", 20)


@needs_root
def test_a_workspace_below_the_home_of_root(sbx):
    """Closed to the box's user in every image; the host's own stays as it is."""
    work = pathlib.Path("/root", f".cove-sbx-{os.getpid()}")
    mode = os.stat("/root").st_mode
    work.mkdir()
    try:
        session = DockerSandbox(sbx).open("root", work)
        assert session.exec("pwd; echo x > made; id -u") == (0, f"{work}\n1000\n", "")
        assert (work / "made").read_text() == "x\n"
        assert session.exec("ls /root")[0] != 0 and os.stat("/root").st_mode == mode
        session.close()
    finally:
        for left in work.iterdir():
            left.unlink()
        work.rmdir()


# ---- the other verbs ----

@pytest.mark.once("user")
def test_nobody_takes_it_for_a_virtual_machine(sbx):
    version = sbx.ok("version").text
    assert version.startswith("sbx version: v") and WALL in version
    said = json.loads(sbx.ok("version", "--json").text)
    assert said["program"] == "cove" and said["wall"] == "native" and said["virtual_machine"] is False
    for flags in (["--output", "json"], ["--json"]):
        checks = json.loads(sbx.ok("diagnose", "--no-test", *flags).text)["checks"]
        machine = [c for c in checks if c["name"] == "Virtualization"]
        assert len(machine) == 1 and machine[0]["status"] == "warn" and WALL in machine[0]["detail"]
        assert {c["status"] for c in checks} <= {"pass", "warn", "skip", "fail"} and len(checks) > 5
    assert WALL in sbx.ok("diagnose", "--no-test").text
    sbx.refuses("diagnose", "--output", "xml", words="text or json")


@pytest.mark.once("user")
def test_what_needs_nothing(sbx):
    assert "no login is needed" in sbx.ok("login").text
    assert "no daemon is needed" in sbx.ok("daemon", "start").text
    assert "no daemon is needed" in sbx.ok("daemon", "start", "--detach").text
    sbx.refuses("daemon", "restart", words="sbx daemon start")


@pytest.mark.once("user")
def test_default_policies(new_home, tmp):
    cove = new_home()
    for word, preset in (("allow-all", "open"), ("deny-all", "closed"), ("balanced", "balanced")):
        cove("sbx", "policy", "set-default", word).ok()
        assert cove("policy", "show").ok().text == cove("policy", "show", preset).ok().text
    for wrong in ("open", "", "../x", "deny-all,"):
        got = cove("sbx", "policy", "set-default", wrong).refused(rc=2)
        assert "allow-all, balanced or deny-all" in got.errors


@pytest.mark.once("user")
def test_the_same_verbs_as_a_verb(cove, sbx, tmp):
    (tmp / "w").mkdir()
    assert cove("sbx", "create", "shell", *sbx.template, "--name", "one", tmp / "w").ok().text == "one\n"
    assert cove("sbx", "ls").ok().text.split()[:5] == ["SANDBOX", "AGENT", "STATUS", "PORTS", "WORKSPACE"]
    assert "one" in cove.names() and cove("sbx", "exec", "one", "pwd").ok().text == f"{tmp}/w\n"
    assert "is running" in cove("sbx", "rm", "one").refused(rc=125).errors
    cove("sbx", "stop", "one").ok()
    cove("sbx", "stop", "one").ok()
    cove("sbx", "rm", "one").ok()
    assert sbx("--help").text == sbx().text == cove("help", "sbx").text == cove("sbx").text
    assert sbx("exec", "--help").text == cove("help", "sbx", "exec").text == cove("sbx", "exec", "-h").text
    for verb in ("version", "diagnose", "login", "daemon", "policy", "ls", "create", "exec", "stop", "rm"):
        assert max(map(len, cove("help", "sbx", verb).ok().text.splitlines())) <= 80, verb
    for words in (["help", "sbx", "nope"], ["help", "ls", "exec"], ["sbx", "nope"], ["sbx", "--name", "x"]):
        cove(*words).refused(rc=2)
    sbx.refuses("run", "--", "true", words="no verb 'run'")  # Cove's own are not there under this name


@pytest.mark.once("user")
def test_names_that_nobody_gave(sbx, tmp):
    odd = tmp / "My Project.v2"
    odd.mkdir()
    assert sbx.create(str(odd)).text == "shell-my-project-v2\n"
    assert "already exists" in sbx.create(str(odd)).errors
    assert sbx.create("--name", "two", ".", "..:ro", cwd=odd).returncode == 0
    listed = json.loads(sbx.ok("ls", "--json").text)["sandboxes"]
    assert {b["name"]: sorted(b["workspaces"]) for b in listed} == {
        "shell-my-project-v2": [str(odd)], "two": sorted([str(odd), f"{tmp}:ro"])}
    # The one that can be written stands within the one that cannot, also when it was named first.
    assert sbx.ok("exec", "two", "sh", "-c", "touch made; touch ../made || pwd").text == f"{odd}\n"
    assert (odd / "made").exists() and not (tmp / "made").exists()


@pytest.mark.once("root")
@pytest.mark.parametrize("size,kib", [("512m", 512 << 10), ("0.5g", 512 << 10), ("1gb", 1 << 20),
                                      ("1048576k", 1 << 20)])
def test_sizes_as_docker_writes_them(sbx, tmp, size, kib):
    made = sbx.create("--name", "sized", "--memory", size, "--cpus", "1.5", str(tmp))
    if made.returncode and ("cannot be kept here" in made.errors or "needs root" in made.errors):
        pytest.skip(made.errors.strip())
    assert made.returncode == 0, made
    assert sbx.ok("exec", "sized", "sh", "-c", "sed -n 's/^MemTotal: *//p' /proc/meminfo").text == f"{kib} kB\n"


# ---- hostile input ----

@pytest.mark.once("user")
def test_create_refuses(sbx, tmp):
    (tmp / "w").mkdir()
    (tmp / "a:b").mkdir()
    (tmp / "file").write_text("")
    work = str(tmp / "w")
    for words, said in (
            (["--name", "Bad_Name", work], "not a name"), (["--name", "../x", work], "not a name"),
            (["--name", "x" * 64, work], "at most 63"), (["--name", "", work], "--name"),
            (["--name", "n", str(tmp / "gone")], "No such file"), (["--name", "n", ""], "empty"),
            (["--name", "n", str(tmp / "a:b")], "neither ':'"), (["--name", "n", ":ro"], "neither ':'"),
            (["--name", "n", work + ":rw"], "':ro'"), (["--name", "n", work + ",env=X"], "','"),
            (["--name", "n", str(tmp / "file")], "not a directory"), (["--name", "n", "/"], "mount target"),
            (["--name", "n", "/proc"], "mount target"), (["--name", "n", work, work], "two mounts"),
            (["--name", "n", "/" + "d/" * 3000], "too long"), (["--name", "n", work, "w/../nope"], "No such file"),
            (["--name", "n", "--memory", "8x", work], "--memory"), (["--name", "n", "--memory", "", work], "--memory"),
            (["--name", "n", "--memory", "-1g", work], "--memory"), (["--name", "n", "--cpus", "many", work], "--cpus"),
            (["--name", "n", "--memory", "9" * 30 + "g", work], "--memory"),
            (["--name", "n", "--kit", "k", work], "--kit"), (["--name", "n", "--branch", "auto", work], "--branch"),
            (["--name", "n"], "too few"), (["--name", "n", *[work] * 40], "mounts")):
        error = sbx.refuses("create", "shell", *sbx.template, *words, words=said)
        # harness-kernel reads a failed create with this word in it as success.
        assert "exists" not in error, error
    sbx.refuses("create", "shell", "--template", "no-such", "--name", "n", work, words="no-such")
    sbx.refuses("create", "claude", "--name", "n", work, words="sbx create shell")
    assert sbx.ok("ls", "-q").text == ""


@pytest.mark.once("user")
def test_what_is_not_there(sbx):
    for words in (["exec", "-i", "nope", "true"], ["stop", "nope"], ["rm", "--force", "nope"], ["rm", "nope"],
                  ["exec", "../nope", "true"], ["rm", "--force", "x" * 300]):
        sbx.refuses(*words, words="not found", rc=(125,))
    sbx.refuses("exec", "nope", words="too few")
    sbx.refuses("rm", "--force", words="too few")


@pytest.mark.once("user")
def test_exec_of_hostile_callers(sbx, tmp):
    (tmp / "w").mkdir()
    assert sbx.create("--name", "e", str(tmp / "w")).returncode == 0
    big = "x" * 100000
    assert sbx.ok("exec", "-e", f"BIG={big}", "e", "sh", "-c", "echo ${#BIG}").text == "100000\n"
    sbx.refuses("exec", *[w for i in range(12) for w in ("-e", f"B{i}={big}")], "e", "true", words="variables")
    sbx.refuses("exec", "-e", "NOT_SET_HERE", "e", "true", words="NOT_SET_HERE")
    sbx.refuses("exec", "-w", "/no/such", "e", "true", words="/no/such", rc=(125, 127))
    sbx.refuses("exec", "--privileged", "e", "true", words="--privileged")
    # Flags of the command are its own; stdin goes in with -i only.
    assert sbx.ok("exec", "e", "echo", "-i", "-e", "--", "-h").text == "-i -e -- -h\n"
    sbx.refuses("exec", "e", "-u", "root", "id", words="-u", rc=(127,))
    assert sbx.ok("exec", "e", "--", "echo", "-u").text == "-u\n"
    assert sbx.ok("exec", "e", "cat", stdin=b"lost").text == ""
    blob = bytes(range(256)) * 4000
    assert sbx.ok("exec", "-i", "e", "cat", stdin=blob).stdout == blob
    # The reader of a large stdin goes first, and so does the writer of a small one.
    assert sbx("exec", "-i", "e", "sh", "-c", "head -c 2; exit 3", stdin=b"y\n" * 500000).returncode == 3
    child = subprocess.Popen([sbx.program, "exec", "-i", "e", "sh", "-c", "cat; echo after; cat"], env=sbx.cove.env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(b"half")
    child.stdin.close()
    assert child.stdout.read() == b"halfafter\n" and child.wait(60) == 0
    # With -d it runs on; Cove's own verbs know it.
    assert sbx.ok("exec", "-d", "e", "sleep", "50").text.strip() in sbx.cove("ps", "-q", "e").text.split()
