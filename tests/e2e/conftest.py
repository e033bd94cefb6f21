"""Shared ground of the end-to-end tests: they start the real programs, as a user would.

tools/test-runner gives the place of the programs in the environment; by hand:

    COVE_TEST_PREFIX=/usr/local COVE_TEST_TAR=build-test/base.tar /usr/bin/python3 -m pytest tests/e2e

COVE_TEST_PREFIX is an installed prefix (bin/, libexec/cove/, lib/, include/). COVE_TEST_TAR is the
base image as a tar; without it boxes are made with --image host and what needs more is skipped.
Every run works in a state directory of its own below /tmp, with a short name: socket paths are.
COVE_TEST_WALL is the wall of every box that does not name one; what it lacks (LACKS below) is skipped by that name.
COVE_TEST_HOME names one that has the base image already and is kept; COVE_TEST_RUN begins the names below /tmp.

Several runs at once as one user share the tests out: with COVE_TEST_CLAIMS, a directory, each begins what no other
has begun, a part of a file at a time. With COVE_TEST_SPLIT there are runs as root and as another user, and
what a file or a test is marked with (`pytestmark = pytest.mark.once("root")`) runs as that one only; where that is
"single", for one more user, nothing that is marked so runs.
"""
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

LIB = pathlib.Path(__file__).resolve().parent.parent / "lib"
sys.path.insert(0, str(LIB))
import programs  # noqa: E402
from programs import DEADLINE, Result, alive, children, kill, wait_until  # noqa: E402,F401  for the tests

PREFIX = pathlib.Path(os.environ.get("COVE_TEST_PREFIX", "/usr/local"))
TAR = os.environ.get("COVE_TEST_TAR", "")
CLAIMS = os.environ.get("COVE_TEST_CLAIMS", "")
CLAIM_TESTS = 16  # of one file that are begun together
# The files that take longest, in that order; the others come after them.
LONGEST = ["test_door", "test_disk", "test_sh", "test_limits", "test_door_cli", "test_usage", "test_cli", "test_exec",
           "test_door_live", "test_door_secrets", "test_limits_cli", "test_wall_hard", "test_mounts", "test_doctor",
           "test_door_desync", "test_trust", "test_robust", "test_wall", "test_walls", "test_sh_script",
           "test_persistence", "test_run", "test_sessions", "test_image_archive"]
IS_ROOT = os.geteuid() == 0
WALL = os.environ.get("COVE_TEST_WALL") or "native"


def plain_signals():
    """What the caller ignores (nohup: SIGHUP and SIGINT) or blocks would stay so in every program that is started."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE}:
        if signal.getsignal(number) in (signal.SIG_IGN, None):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Ending:
    """SIGTERM: the test that runs is broken off, none is begun after it, and all fixtures are removed."""
    session, in_test = None, False


def on_terminate(_number, _frame):
    signal.signal(signal.SIGTERM, lambda *_: None)  # not ignored: programs would inherit that
    if Ending.session:
        Ending.session.shouldstop = "terminated"
    if Ending.in_test or not Ending.session:  # what is being set up or removed is finished first
        raise KeyboardInterrupt


def pytest_sessionstart(session):
    Ending.session = session


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    Ending.in_test = True
    if item.session.shouldstop:
        raise KeyboardInterrupt
    yield
    Ending.in_test = False


def pytest_configure(config):
    config.addinivalue_line("markers", "once(who): does not depend on privileges: runs as root or as a user")


def is_wanted(item):
    """Whether it runs in this one of the runs as root and as a user; what is about one of them says so itself."""
    once = item.get_closest_marker("once")
    about = [m.kwargs.get("reason") for m in item.iter_markers("skipif")]
    if os.environ["COVE_TEST_SPLIT"] == "single":
        return not once
    return not once or once.args[0] in ("both", "root" if IS_ROOT else "user") or ROOT_ONLY in about or \
        USER_ONLY in about


def pytest_collection_modifyitems(config, items):
    for item in items if WALL != "native" else ():
        if item.path.stem in NATIVE_FILES:
            item.add_marker(pytest.mark.skip(reason="is about the native wall"))
    if os.environ.get("COVE_TEST_SPLIT"):
        config.hook.pytest_deselected(items=[i for i in items if not is_wanted(i)])
        items[:] = [i for i in items if is_wanted(i)]


def claimed(items):
    """The tests that this run is the first to begin, longest files first."""
    parts = {}
    for item in items:
        file = parts.setdefault(item.path.stem, [[]])
        if len(file[-1]) == CLAIM_TESTS:
            file.append([])
        file[-1].append(item)
    for name in sorted(parts, key=lambda n: LONGEST.index(n) if n in LONGEST else len(LONGEST)):
        for number, part in enumerate(parts[name]):
            try:
                os.close(os.open(f"{CLAIMS}/{name}-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            yield from part


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if not CLAIMS or session.testsfailed or session.config.option.collectonly:
        return None
    queue = claimed(session.items)
    item = next(queue, None)
    while item:
        following = next(queue, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


plain_signals()
signal.signal(signal.SIGTERM, on_terminate)
os.umask(0o022)


class Cove(programs.Cove):
    """The cove program that is tested, with a state directory."""

    def __init__(self, home, image=None, env=None):
        super().__init__(PREFIX, home, image, env)


def short_dir():
    """A new directory with a short name that everyone may pass through."""
    return tempfile.mkdtemp(prefix=f"cv{os.environ.get('COVE_TEST_RUN', '')}", dir="/tmp")


def remove_tree(path):
    """Also what belongs to the caller's subordinate ids."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.exists(path):
        subprocess.run(["unshare", "--user", "--map-root-user", "--map-auto", "rm", "-rf", str(path)], check=True)


def remove_boxes(cove):
    """All of a home, and what a killed keeper left: waits for the removals behind, then sweeps."""
    cove("rm", "-f", *cove("ls", "-q").text.split(), timeout=300)
    run = pathlib.Path(cove.home, "run")
    if (run / ".removals").exists():
        with open(run / ".removals", "r+b") as places:
            fcntl.lockf(places, fcntl.LOCK_EX)
    (run / ".swept").unlink(missing_ok=True)
    cove("ls", timeout=300)


def forget_home(cove):
    remove_boxes(cove)
    remove_tree(cove.home)


@pytest.fixture(scope="session")
def session_cove():
    kept = os.environ.get("COVE_TEST_HOME")
    if kept:
        yield (cove := Cove(kept))
        remove_boxes(cove)
        return
    home = short_dir() + "/h"
    cove = Cove(home)
    if TAR:
        cove.import_image(TAR)
    else:
        cove.image = "host"
    yield cove
    forget_home(cove)
    remove_tree(os.path.dirname(home))


@pytest.fixture
def cove(session_cove):
    """The session's state directory; boxes a test makes are removed after it."""
    before = set(session_cove.names())
    yield session_cove
    for name in set(session_cove.names()) - before:
        session_cove("rm", "-f", name).ok()


@pytest.fixture
def box(cove):
    """A fresh running box."""
    return cove("create").ok().text.strip()


@pytest.fixture(scope="module")
def shared(session_cove):
    """A box shared by the tests of one file, for what leaves no trace."""
    name = session_cove("create").ok().text.strip()
    yield name
    session_cove("rm", "-f", name).ok()


@pytest.fixture
def new_home():
    """Makes further state directories, with the host image only."""
    made = []

    def make(**env):
        base = short_dir()
        cove = Cove(base + "/h", image="host", env=env)
        made.append((base, cove))
        return cove

    yield make
    for base, cove in made:
        if os.path.isdir(cove.home):
            forget_home(cove)
        remove_tree(base)


@pytest.fixture
def tmp():
    """A directory with a short name, readable by all."""
    path = pathlib.Path(short_dir())
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+rwX", str(path)], stderr=subprocess.DEVNULL)
    remove_tree(path)


@pytest.fixture
def inner_root(cove, shared):
    """Skips where a box has no root inside."""
    if cove("exec", "-u", "root", shared, "--", "id", "-u").rc != 0:
        pytest.skip("only one uid can be mapped for this user: no root inside")


# What a wall lacks, as `inspect` says it under not_enforced (test_gvisor.py looks that it does).
LACKS = {
    "gvisor": {
        "EXEC_GROUPS": "commands: not in groups of their own",
        "PIDS_EXACT": "--pids is kept a little late",
        "GROUP_VIEW": "limits are not shown at /sys/fs/cgroup",
        "CPU_LIST": "/proc/self/status does not list processors",
        "SHARED_FIFOS": "FIFOs and sockets made there stay in the box",
        "SHARED_GROUPS": "of a group that the box does not have",
        "ALL_CALLS": "a few flags of system calls are unknown",
        "TRACING": "--ptrace: a tracer can make calls past",
        "HOLES": "holes in files are not seen",
        "IPV6_LISTENERS": "programs that listen on IPv6 are not found",
    },
}
# Files that are about how the native wall is made, or about no box at all.
NATIVE_FILES = {"test_wall", "test_wall_hard", "test_walls", "test_keeper_confined", "test_doctor", "test_readme",
                "test_controls", "test_install", "test_conformance"}


def lacks(flag):
    """Whether the wall of this run does, for a part of a test."""
    return flag in LACKS.get(WALL, {})


def needs_flag(*flags):
    """Skips behind a wall that lacks one of them, with its name."""
    missing = [flag for flag in flags if lacks(flag)]
    return pytest.mark.skipif(bool(missing), reason=f"wall {WALL} lacks {', '.join(missing)}")


needs_base = pytest.mark.skipif(not TAR, reason="no base image: the Debian mirror was not reached")
ROOT_ONLY, USER_ONLY = "needs root", "is about ordinary users"
needs_root = pytest.mark.skipif(not IS_ROOT, reason=ROOT_ONLY)
not_root = pytest.mark.skipif(IS_ROOT, reason=USER_ONLY)


# ---- the door ----

@pytest.fixture(scope="session")
def rig():
    """Servers, names and an authority on loopback."""
    from door_rig import DoorRig
    made = DoorRig()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def session_door(session_cove, rig):
    from door_kit import Door
    return Door(session_cove, rig)


@pytest.fixture
def door(session_door):
    """cove with doors that trust the rig. Boxes a test makes are searched for secrets and removed after it."""
    yield session_door
    session_door.forget()
