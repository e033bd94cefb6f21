"""The cove program as a test starts it, what it left, and processes of the host. Used end to end and by the attacks."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

DEADLINE = 120  # seconds until a program that should have answered counts as hung
KEPT = ("PATH", "HOME", "LANG", "TERM", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")


def runsc():
    """The path of a runsc that is not too old to be tested, or None; Debian's of 2022 is."""
    found = shutil.which("runsc", path=os.environ.get("PATH", "") + ":/usr/local/bin:/usr/bin")
    if not found:
        return None
    said = subprocess.run([found, "flags"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return found if "-allow-suid" in said.stdout else None


class Broke(AssertionError):
    """What has to be true is not."""


class NotApplicable(Exception):
    """It cannot be tried here."""


def need(condition, sentence):
    if not condition:
        raise Broke(sentence)


def wait_until(condition, what="the condition", seconds=DEADLINE):
    """Polls until condition() is true and returns its value. what may be a function that says it in the end."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= end:
            raise Broke(f"waited {seconds} s for {what() if callable(what) else what}")
        time.sleep(0.01)
    return value


class Result:
    """What a program left: rc, and out and err as bytes."""

    def __init__(self, args, rc, out, err):
        self.args, self.rc, self.out, self.err = args, rc, out, err

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.out)

    def ok(self):
        need(self.rc == 0, repr(self))
        return self

    def refused(self, rc=None):
        """A failure with a sentence, not a crash. For what Cove refuses itself there is Cove.fails."""
        need(0 < self.rc < 128 and self.err and rc in (None, self.rc), repr(self))
        return self

    def __repr__(self):
        words = " ".join(os.fsdecode(a) for a in self.args)
        return f"{words[:600]} -> rc {self.rc}\nout: {self.out[-2000:]!r}\nerr: {self.err[-2000:]!r}"


class Cove:
    """The cove program of an installed prefix, with a state directory."""

    def __init__(self, prefix, home, image=None, env=None):
        self.prefix, self.home, self.image = pathlib.Path(prefix), str(home), image
        self.program = str(self.prefix / "bin/cove")
        self.wall = os.environ.get("COVE_TEST_WALL")  # of every box that does not ask for one; None: the default
        self.env = {k: os.environ[k] for k in KEPT if k in os.environ}
        self.env.update({"COVE_HOME": self.home, "COVE_LIBEXEC": str(self.prefix / "libexec/cove")})
        library = next((str(p.parent) for p in self.prefix.glob("lib/**/libcove.so")), None)
        if library:
            self.env["LD_LIBRARY_PATH"] = library
        self.env.update(env or {})

    def argv(self, args):
        args = [a if isinstance(a, bytes) else os.fsencode(str(a)) for a in args]
        if args and args[0] in (b"run", b"create", b"open"):
            if self.image and b"--image" not in args:
                args[1:1] = [b"--image", self.image.encode()]
            if self.wall and b"--wall" not in args:
                args[1:1] = [b"--wall", self.wall.encode()]
        return [self.program.encode(), *args]

    def __call__(self, *args, input=b"", timeout=DEADLINE, env=None, cwd=None):
        argv = self.argv(args)
        done = subprocess.run(argv, input=input, capture_output=True, timeout=timeout, cwd=cwd,
                              env={**self.env, **(env or {})})
        return Result(argv, done.returncode, done.stdout, done.stderr)

    def fails(self, kind, *args, rc=None, **kw):
        """Runs what must fail with an error of this kind, and with the exit status that belongs to it; the sentence.
        Tests ask for the kind; what the sentence must say is in tests/e2e/test_sentences.py."""
        result = self(args[0], "--json", *args[1:], **kw)
        error = result.json["error"] if result.out.startswith(b'{"error"') else {}
        need(error.get("kind") == kind and result.rc == (rc or (2 if kind == "invalid" else 125)), repr(result))
        need("--json" not in error["message"], repr(result))
        return error["message"]

    def start(self, *args, env=None, **kw):
        """The program as a Popen, with pipes unless told otherwise."""
        for stream in ("stdin", "stdout", "stderr"):
            kw.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen(self.argv(args), env={**self.env, **(env or {})}, **kw)

    def env_of_traced(self):
        """One built with sanitizers looks for leaks at its end, and cannot where it is traced."""
        return {**self.env, "ASAN_OPTIONS": f"{self.env.get('ASAN_OPTIONS', '')}:detect_leaks=0"}

    def import_image(self, tar):
        """The base image from a tar's path."""
        with open(tar, "rb") as source:
            done = subprocess.run(self.argv(["image", "import", "base", "-"]), stdin=source, env=self.env,
                                  capture_output=True, timeout=5 * DEADLINE)
        need(done.returncode == 0, done.stderr.decode(errors="replace"))

    def sh(self, box, line, *flags, **kw):
        """A line in the box's shell; the result object."""
        return self.object("sh", "--json", *flags, box, line, **kw)

    def run_json(self, box, *argv, flags=(), **kw):
        """A command in the box; the result object."""
        return self.object("exec", "--json", *flags, box, "--", *argv, **kw)

    def object(self, *args, **kw):
        result = self(*args, **kw)
        need(result.out.startswith(b"{"), repr(result))
        return result.json

    def inspect(self, box):
        return self("inspect", box).ok().json

    def names(self):
        return self("ls", "-q").ok().text.split()

    def execs(self, box):
        return self("ps", "--json", box).ok().json


def state_of(pid):
    """The letter that /proc gives a process, X if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b")", 1)[1].split()[0].decode()
    except OSError:
        return "X"


def alive(pid):
    """A process that exists and is not a zombie."""
    return state_of(pid) not in "ZX"


def children(pid):
    """Direct children of a host process."""
    found = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has ended
        return found
    for task in tasks:
        try:
            found += [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
        except OSError:
            pass
    return found


def descendants(pid):
    """All processes below one, itself included."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def kill(pid, sig=signal.SIGKILL):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass
