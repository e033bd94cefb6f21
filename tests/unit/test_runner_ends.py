#!/usr/bin/python3
"""tools/test-runner: what is left of an end-to-end run that is terminated or killed. Speaks TAP.

The run is the real one, as root and as users made for it, with one test that waits; no program of Cove's is installed.
"""
import os
import pathlib
import pwd
import select
import signal
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
RUN = """
import importlib.util, pathlib, sys
from importlib.machinery import SourceFileLoader
sys.path.insert(0, sys.argv[1])
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", SourceFileLoader(
    "runner", sys.argv[1] + "/test-runner")))
runner.__loader__.exec_module(runner)
whole_tree = runner.stage_tree
def stage_tree(stage):
    whole_tree(stage)
    for test in (stage / "tree/tests/e2e").glob("test_*.py"):  # reading them takes longer than the rest of a run
        test.unlink()
    (stage / "tree/tests/e2e/test_run.py").write_text(sys.argv[2])
runner.stage_tree, runner.install = stage_tree, lambda directory, stage: stage
runner.SINGLE_TESTS = ["test_run.py"]
def main():
    runner.side_by_side(runner.Tally(), lambda: runner.end_to_end(runner.Tally(), "test_waits", None))
runner.plainstart.run(main)
"""
WAITS = """
import os, pathlib, signal
def test_waits(tmp):
    pathlib.Path(os.environ["HOME"], "told").write_text("")
    fd = os.open({fifo!r}, os.O_WRONLY)
    os.write(fd, f"{{os.getpid()}} {{os.getppid()}} {{tmp}} {{os.getcwd()}}\\n".encode())
    signal.pause()
"""


def is_running(pid):
    """One that has ended but was not yet waited for is the concern of whoever adopted it."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "XZ"


def left(pid, runner, tmp, tree):
    """What is still there of the run that told this."""
    found = [p for p in (tmp, tree) if os.path.exists(p)]
    found += [f"process {p}" for p in (pid, runner) if is_running(p)]
    found += [user.pw_name for user in pwd.getpwall() if user.pw_name.startswith(f"cove-t{runner}")]
    # Others' groups come and go meanwhile.
    return found + [f"{at}/{name}" for at, names, _ in os.walk("/sys/fs/cgroup") for name in names
                    if name.startswith(f"cove-t{runner}")]


def try_one(number, base):
    fifo = f"{base}/fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([sys.executable, "-B", "-c", RUN, str(TREE / "tools"), WAITS.format(fifo=fifo)],
                               stdout=sys.stderr)
    with open(fifo) as told:
        line = told.readline().split()
    os.unlink(fifo)
    if number == signal.SIGKILL:  # its pytest ends by itself, the next run removes the rest
        pytest = os.pidfd_open(int(line[0]))
        os.kill(int(line[1]), number)
        select.select([pytest], [], [], 200)
        os.close(pytest)
    else:
        process.send_signal(number)
    status = process.wait(200)
    if number == signal.SIGKILL:
        attackstage.sweep()
    return [f"exit status {status}"] * (status != 128 + number) + left(*line)


if os.geteuid() != 0:
    print("1..0 # skip needs root: users are made")
    sys.exit(0)
sys.path.insert(0, str(TREE / "tools"))
import attackstage  # noqa: E402
import plainstart  # noqa: E402
plainstart.plain_signals()
failed = 0
for count, number in enumerate((signal.SIGTERM, signal.SIGHUP, signal.SIGKILL), 1):
    with tempfile.TemporaryDirectory() as base:
        found = try_one(number, base)
    failed += bool(found)
    print("".join(f"# left: {one}\n" for one in found) + f"{'not ok' if found else 'ok'} {count} - "
          f"nothing_is_left_of_a_run_ended_by_{number.name}")
print("1..3")
sys.exit(failed > 0)
