"""cove doctor: its report for a person and as JSON, and that its test in a box leaves nothing."""
import glob
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import threading

import pytest

from conftest import DEADLINE, IS_ROOT, PREFIX, wait_until

GROUPS = {"host", "walls", "limits", "others"}
STATUSES = {"ok", "absent", "limited", "missing"}
CHECKS = {"kernel", "kernel_calls", "capabilities", "programs", "door", "state_directory", "base_image", "boxes",
          "user_namespaces", "namespaces", "ids", "overlay", "idmapped_mounts", "seccomp", "landlock", "nftables",
          "bpf_memory", "core_dumps",
          "cgroup", "memory", "cpus", "pids", "io", "disk", "tmpfs", "pool", "kvm", "gvisor", "docker"}


def leftovers():
    return set(glob.glob("/tmp/cove-canary-*") + glob.glob("/tmp/.cove-doctor-*"))


@pytest.fixture(scope="module")
def report(session_cove):
    """What it says with its test in a box, which takes seconds."""
    return session_cove("doctor", "--json").ok().json


def test_report(report):
    assert {c["name"] for c in report["checks"]} == CHECKS
    for check in report["checks"]:
        assert check["group"] in GROUPS and check["status"] in STATUSES and check["found"], check
        if check["status"] != "ok":
            assert check["consequence"] and check["remedy"], check
    assert report["can_run"] is True
    assert not set(report["enforced"]) & set(report["not_enforced"])


def test_where_a_crash_leads_is_told(cove):
    check = next(c for c in cove("doctor", "--no-test", "--json").json["checks"] if c["name"] == "core_dumps")
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read()
    assert (check["status"] == "limited") or pattern[0] != "@"
    assert {"|": "program", "@": "socket"}.get(pattern[0], "file") in check["found"]


def test_every_wall_and_limit_that_is_offered_holds(report):
    tests = {t["name"]: t for t in report["self_test"]["tests"]}
    assert report["self_test"]["skipped"] is None, report["self_test"]
    assert len(tests) == 10
    for name, test in tests.items():
        assert test["verdict"] in ("held", "skipped") and test["saw"], (name, test)
    offered = {c["name"]: c["status"] == "ok" for c in report["checks"]}
    for limit, name in (("memory", "the memory limit holds"), ("pids", "the process limit holds"),
                        ("disk", "the disk limit holds")):
        assert (tests[name]["verdict"] == "held") == offered[limit], (limit, tests[name])
    assert tests["a command runs in a box"]["verdict"] == "held"


def test_leaves_nothing(cove, tmp):
    before, boxes = leftovers(), cove.names()
    home = tmp / "none"
    cove("doctor", env={"COVE_HOME": str(home)}).ok()
    assert not home.exists() and not list(tmp.glob(".cove-doctor-*"))
    cove("doctor")
    wait_until(lambda: leftovers() <= before, "its files to be gone")
    wait_until(lambda: cove.names() == boxes, "the box of the test to be gone")


def test_no_test(cove):
    report = cove("doctor", "--no-test", "--json").ok().json
    assert report["self_test"] == {"skipped": "not asked for", "tests": []}
    assert "not asked for" in cove("doctor", "--no-test").ok().text


def test_no_box_can_run(cove, tmp):
    got = cove("doctor", env={"COVE_LIBEXEC": str(tmp)})
    assert got.rc == 125, repr(got)
    assert "cove-keeper" in got.text and "make install" in got.text and "do not work here" in got.text
    report = cove("doctor", "--json", env={"COVE_LIBEXEC": str(tmp)})
    assert report.rc == 125 and report.json["can_run"] is False and report.json["status"] == "missing"
    assert report.json["self_test"]["tests"] == []


def test_marks_follow_the_locale(cove):
    plain = cove("doctor", "--no-test", env={"LANG": "C", "LC_ALL": ""}).ok().out
    assert plain.isascii() and b"  ok kernel" in plain
    nice = cove("doctor", "--no-test", env={"LANG": "C.UTF-8", "LC_ALL": ""}).ok().text
    assert "✓ kernel" in nice
    assert b"\x1b" not in plain and "\x1b" not in nice


def on_terminal(cove, env):
    """What it writes to a terminal."""
    mine, theirs = pty.openpty()
    child = subprocess.Popen(cove.argv(["doctor", "--no-test"]), stdout=theirs, stdin=subprocess.DEVNULL,
                             env={**cove.env, "TERM": "xterm", **env})
    os.close(theirs)
    out = b""
    while select.select([mine], [], [], 30)[0]:
        try:
            data = os.read(mine, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    assert child.wait() == 0
    os.close(mine)
    return out


def test_colour_only_on_a_terminal_that_wants_it(cove):
    assert b"\x1b[32m" in on_terminal(cove, {})
    assert b"\x1b" not in on_terminal(cove, {"NO_COLOR": "1"})
    assert b"\x1b" not in on_terminal(cove, {"TERM": "dumb"})


def test_killed_in_the_middle(cove):
    """The box of the test goes with the program that asked for it."""
    boxes = set(cove.names())
    child = cove.start("doctor")
    wait_until(lambda: set(cove.names()) - boxes or child.poll() is not None, "its box")
    child.kill()
    child.communicate()
    wait_until(lambda: set(cove.names()) <= boxes, "its box to be gone")
    for path in leftovers():
        if os.stat(path).st_uid == os.geteuid():
            os.unlink(path)  # a killed program cannot remove it; nothing secret is in it


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(cove, tmp, number):
    """Ctrl-C reaches the whole group: the temporary state directory goes all the same."""
    child = cove.start("doctor", env={"COVE_HOME": str(tmp / "none")}, start_new_session=True)
    wait_until(lambda: list(tmp.glob(".cove-doctor-*/boxes/*")) or child.poll() is not None, "its box")
    if child.poll() is None:
        os.killpg(child.pid, number)
    child.communicate()
    assert child.returncode in (-number, 0), child.returncode
    wait_until(lambda: not list(tmp.glob(".cove-doctor-*")), "its directory to be gone")


def test_two_at_the_same_time(cove):
    children = [cove.start("doctor", "--json") for _ in range(3)]
    for child in children:
        out, err = child.communicate(timeout=DEADLINE)
        report = json.loads(out)
        assert report["can_run"], (report, err)


@pytest.mark.skipif(IS_ROOT, reason="root needs no subordinate ids and no delegation")
def test_an_ordinary_user_is_told_the_remedy(cove):
    for check in cove("doctor", "--no-test", "--json").json["checks"]:
        if check["name"] in ("memory", "cpus", "pids") and check["status"] == "limited":
            assert re.search(r"root|Delegate|systemd", check["remedy"]), check


def test_helper_programs_need_no_dynamic_linker():
    """They run on hosts and in images that have no musl."""
    for name in ("cove-keeper", "cove-init", "cove-probe"):
        data = (PREFIX / "libexec/cove" / name).read_bytes()
        assert data[:4] == b"\x7fELF"
        if b"__asan_init" not in data:  # the sanitized keeper is a program of the host's libc
            assert b"/lib/ld-" not in data and b"/lib64/ld-" not in data, name


# ---- boxes that run with an older init ----

STATUS, INIT_REVISION = 21, 12  # a frame's type and a field's tag, as src/wire has them


def read_frame(sock):
    """One frame: its header and its payload; None at the end."""
    data, need = b"", 12
    while len(data) < need:
        more = sock.recv(need - len(data))
        if not more:
            return None
        data += more
        if len(data) == 12:
            need += struct.unpack("<I", data[:4])[0]
    return data[:12], data[12:]


def without(payload, tag):
    """The fields of a message but that one."""
    kept, at = b"", 0
    while at < len(payload):
        end = at + 5 + struct.unpack("<I", payload[at + 1:at + 5])[0]
        kept += payload[at:end] if payload[at] != tag else b""
        at = end
    return kept


class OlderKeeper:
    """Stands before a box's keeper and says of its init what one from before there were revisions would."""

    def __init__(self, path):
        self.path, self.real, self.types = path, path + ".real", set()
        os.rename(path, self.real)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            keeper = socket.socket(socket.AF_UNIX)
            keeper.connect(self.real)
            for source, sink in ((client, keeper), (keeper, client)):
                threading.Thread(target=self.pass_on, args=(source, sink), daemon=True).start()

    def pass_on(self, source, sink):
        try:
            while frame := read_frame(source):
                head, payload = frame
                if head[4] == STATUS and payload:
                    payload = without(payload, INIT_REVISION)
                    head = struct.pack("<I", len(payload)) + head[4:]
                sink.sendall(head + payload)
        except OSError:
            pass
        sink.close()

    def close(self):
        os.unlink(self.path)
        os.rename(self.real, self.path)
        self.server.close()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def test_a_box_with_an_older_init_is_named(cove, box):
    assert cove.inspect(box)["init_revision"] >= 1 and cove.inspect(box)["outdated"] is False
    assert "outdated" not in cove("ls").ok().text
    fresh = next(b for b in cove("ls", "--json").ok().json if b["name"] == box)
    assert fresh["outdated"] is False
    record = pathlib.Path(cove.home) / "boxes" / box / "record"
    run = record.read_bytes()[-1024:].rstrip(b"\n") + b"\n"
    assert b"\ninit 1\n" in run
    # As a keeper of before wrote it. The file stays the same one, since it is locked.
    run = run.split(b"\n", 1)[1].replace(b"init 1\n", b"")
    with open(record, "r+b") as file:
        file.seek(-1024, os.SEEK_END)
        file.write((b"sum crc32c:%08x\n" % crc32c(run) + run).ljust(1024, b"\n"))
    older = OlderKeeper(f"{cove.home}/run/{box}/keeper.sock")
    try:
        listed = cove("ls").ok()
        assert "running (outdated)" in listed.text and f"cove stop {box} && cove start {box}" in listed.errors
        assert next(b for b in cove("ls", "--json").ok().json if b["name"] == box)["outdated"] is True
        check = next(c for c in cove("doctor", "--no-test", "--json").json["checks"] if c["name"] == "boxes")
        assert check["status"] == "limited" and box in check["found"] and "cove start" in check["remedy"]
        assert cove.inspect(box)["outdated"] is True
    finally:
        older.close()
