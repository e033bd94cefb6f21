"""A server of another build takes over a state directory with boxes that run: they, their commands and every byte stay.

COVE_TEST_OLD is the prefix of the other one. `make test` gives the release build of this tree beside the sanitized one;
an install of an older commit there shows the real thing (CONTRIBUTING.md, "Other proofs")."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import DEADLINE, wait_until
from programs import Cove as Installed
from server import Server

SDK = pathlib.Path(__file__).resolve().parent.parent.parent / "sdk/python"
OLD = os.environ.get("COVE_TEST_OLD", "")
pytestmark = [pytest.mark.once("root"), pytest.mark.skipif(not OLD, reason="no other build (COVE_TEST_OLD)")]

COUNT, LINES = 12, 60
LINE = (f"for i in $(seq {LINES}); do echo line $i; sleep 0.05; done; "
        "while ! test -e /tmp/go; do sleep 0.05; done; echo end")
WHOLE = "".join(f"line {i}\n" for i in range(1, LINES + 1)) + "end\n"

PROGRAM = """
import json
from cove import Sandbox
with Sandbox(image="host") as sb:
    r = sb.run("cd /tmp; echo hi; echo no >&2; (exit 3)")
    sb.files.write("/tmp/f", b"bytes")
    names = [f.name for f in sb.files.list("/tmp")]
    print(json.dumps([r.exit_code, r.stdout, r.stderr, r.cwd, sb.files.read("/tmp/f").decode(), "f" in names]))
"""


@pytest.fixture
def pair(new_home):
    """(old, new): two programs of one state directory."""
    new = new_home()
    old = Installed(pathlib.Path(OLD), new.home, image="host")
    yield old, new


def follow(server, box, n, begun, seen):
    """Reads until the server is gone; what came is in seen."""
    try:
        for name, data in server.events("POST", f"/v1/boxes/{box}/exec", {"line": LINE, "token": f"run-{n}"}):
            if name == "started":
                begun[n], seen[n] = data["exec_id"], ""
            elif name == "stdout":
                seen[n] += data["text"]
    except (OSError, http.client.HTTPException, ValueError):
        pass


def test_a_new_server_has_the_boxes_of_the_old_one(pair):
    old, new = pair
    token = old("key", "create", "team").ok().text.strip()
    first = Server(old)
    try:
        box = "web"
        first.ask("POST", "/v1/boxes", {"image": "host", "name": box, "labels": {"a": "b"}}).ok(201)
        first.ask("POST", f"/v1/boxes/{box}/exec", {"line": "cd /tmp; export KEPT=yes", "shell": "default"}).ok()
        first.ask("POST", f"/v1/boxes/{box}/exec", {"line": "echo data > ~/file"}).ok()
        first.ask("POST", "/v1/boxes", {"image": "host", "name": "cold"}).ok(201)
        first.ask("POST", "/v1/boxes/cold/stop", {"grace": 0}).ok()
        first.ask("POST", "/v1/boxes", {"image": "host", "name": "ice"}).ok(201)
        first.ask("POST", "/v1/boxes/ice/pause", {}).ok()
        begun, seen = {}, {}
        with concurrent.futures.ThreadPoolExecutor(COUNT) as pool:
            running = [pool.submit(follow, first, box, n, begun, seen) for n in range(COUNT)]
            wait_until(lambda: len(seen) == COUNT and all("line 2\n" in s for s in seen.values()), "output of all")
            first.kill()
            for r in running:
                r.result(DEADLINE)
    finally:
        first.end()
    second = Server(new)
    try:
        look = second.ask("GET", f"/v1/boxes/{box}").ok().json
        assert look["state"] == "running" and look["labels"] == {"a": "b"}
        second.ask("POST", f"/v1/boxes/{box}/exec", {"line": "touch /tmp/go"}).ok()
        for n, exec_id in begun.items():
            # The token finds the same command, and starts none.
            repeat = {"line": LINE, "token": f"run-{n}", "background": True}
            again = second.ask("POST", f"/v1/boxes/{box}/exec", repeat)
            assert again.ok().json["exec_id"] == exec_id
            path = f"/v1/boxes/{box}/execs/{exec_id}/output?follow=1&stdout_from={len(seen[n])}"
            rest = "".join(d["text"] for name, d in second.events("GET", path) if name == "stdout")
            assert seen[n] + rest == WHOLE, n
        said = second.ask("POST", f"/v1/boxes/{box}/exec", {"line": "echo $KEPT $PWD", "shell": "default"}).ok().json
        assert said["stdout"] == "yes /tmp\n"
        # What it does not know of an old box is no error.
        for path in ("stats", "execs", "shells", "events", "files/list?path=/tmp", "policy"):
            second.ask("GET", f"/v1/boxes/{box}/{path}").ok()
        for name in ("cold", "ice"):
            second.ask("POST", f"/v1/boxes/{name}/{'start' if name == 'cold' else 'resume'}", {}).ok()
            assert second.ask("POST", f"/v1/boxes/{name}/exec", {"line": "echo up"}).ok().json["stdout"] == "up\n"
        second.ask("POST", f"/v1/boxes/{box}/snapshots", {"name": "kept"}).ok(201)
        fork = second.ask("POST", "/v1/forks", {"snapshot": "kept"}).ok(201).json["boxes"][0]
        assert second.ask("POST", f"/v1/boxes/{fork}/exec", {"line": "cat ~/file"}).ok().json["stdout"] == "data\n"
        second.ask("POST", f"/v1/boxes/{box}/stop", {"grace": 0}).ok()
        second.ask("POST", f"/v1/boxes/{box}/start", {}).ok()
        assert second.ask("POST", f"/v1/boxes/{box}/exec", {"line": "cat ~/file"}).ok().json["stdout"] == "data\n"
        assert second.ask("GET", "/v1/boxes", token=token).ok().json["boxes"] == []
        for name in (box, fork, "cold", "ice"):
            second.ask("DELETE", f"/v1/boxes/{name}?force=1").ok()
        second.ask("DELETE", "/v1/snapshots/kept").ok()
    finally:
        second.end()


def test_the_python_package_with_an_older_server(pair):
    """Boxes, commands, files and their end, over the API of the other build."""
    old, _ = pair
    server = Server(old)
    try:
        env = {**os.environ, "COVE_HOST": f"unix:{server.path}", "PYTHONPATH": str(SDK)}
        env.pop("COVE_API_KEY", None)
        argv = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [3, "hi\n", "no\n", "/tmp", "bytes", True]
        assert server.ask("GET", "/v1/boxes").ok().json["boxes"] == []
    finally:
        server.end()
