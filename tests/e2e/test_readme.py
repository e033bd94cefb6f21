"""The README's lines work as they are written, in their order, for root and for an ordinary user."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import DEADLINE, needs_base

pytestmark = [pytest.mark.once("both"), needs_base]

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
# What needs more than this machine, by a part of the line.
ELSEWHERE = ["https://api.openai.com/v1/models"]


def blocks():
    """The shell blocks of what there is to try, each as lines."""
    part = README.read_text().split("## More to try")[1].split("\n## ")[0]
    found = [b.strip().splitlines() for b in re.findall(r"```sh\n(.*?)```", part, re.S)]
    return [[line for line in lines if not any(word in line for word in ELSEWHERE)] for lines in found]


def can_pause(cove):
    box = cove("create").ok().text.strip()
    got = cove("pause", box)
    cove("rm", "-f", box).ok()
    return got.rc == 0


def test_the_lines_as_written(cove, tmp):
    for program in ("jq", "curl", "bash"):
        if not shutil.which(program):
            pytest.skip(f"no {program}")
    lines = [line for block in blocks() for line in block]
    assert len(lines) > 25
    if not can_pause(cove):  # an ordinary user without a cgroup
        lines = [line.replace("cove pause $box && cove resume $box", "true") for line in lines]
        lines = [line.replace("cove snapshot create $box", "cove snapshot create --no-freeze $box") for line in lines]
        stopped = "cove stop try-2 $box && cove merge try-2 $box && cove start $box"
        lines = [line.replace("cove merge try-2 $box", stopped) for line in lines]
        lines = [line.replace("cove merge $loose", "cove stop $loose && cove merge $loose") for line in lines]
    (tmp / "home").mkdir()
    (tmp / "bin").mkdir()
    (tmp / "bin/cove").symlink_to(cove.program)
    env = {**cove.env, "HOME": str(tmp / "home"), "OPENAI_KEY": "sk-test", "PATH": f"{tmp}/bin:{os.environ['PATH']}"}
    env.pop("COVE_LOG", None)
    script = "set -eu; trap 'echo failed at line $LINENO >&2' ERR\n" + "\n".join(lines) + "\n"
    script += "echo box $box agent $agent\n"
    got = subprocess.run(["bash", "-c", script], cwd=tmp, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                         text=True, timeout=5 * DEADLINE)
    numbered = "\n".join(f"{n} {line}" for n, line in enumerate(script.splitlines(), 1))
    assert got.returncode == 0, f"{got.stdout[-2000:]}\n{got.stderr[-2000:]}\n{numbered}"
    assert got.stdout.count("agent was here\n") == 3  # by the shell, by cp, by the port
    assert (tmp / "project/lines").read_text().strip() == "3"
    assert '"host": "example.org"' in got.stdout
    assert (tmp / "repo/app.py").read_text() == 'print("hello")\nprint(42)\n'
    assert not (tmp / "repo/.git/hooks/post-checkout").exists() and "A /tmp/plan" in got.stdout
    cove("rm", "-f", *got.stdout.split("box ")[-1].replace("agent", "").split()).ok()
    cove("secret", "rm", "OPENAI").ok()
    subprocess.run([tmp / "bin/cove", "workspace", "rm", *cove("workspace", "ls", "-q").ok().text.split()],
                   env=env, capture_output=True)
