#!/usr/bin/python3
"""tools/plainstart.py: a test run is the same however it was started. Speaks TAP."""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parent.parent.parent / "tools"
REPORT = """
import json, os, signal, sys
sys.path.insert(0, sys.argv[1])
import plainstart
def main():
    mode = sys.argv[3] if len(sys.argv) > 3 else ""
    plainstart.SAME_SECONDS = {"next": 0, "same": 1 << 30}.get(mode, plainstart.SAME_SECONDS)
    try:
        tell()
        if mode:
            signal.pause()
    finally:
        if mode in ("next", "same"):
            r, w = os.pipe2(os.O_NONBLOCK)
            os.set_blocking(r, True)
            signal.set_wakeup_fd(w)
            os.write(int(sys.argv[2]), b"cleaning up\\n")
            os.read(r, 1)
        if mode:
            os.write(int(sys.argv[2]), b"cleaned up\\n")
    return 3
def tell():
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    print("warm", flush=True)
    os.write(int(sys.argv[2]), json.dumps({
        "ignored": int(status["SigIgn"], 16), "blocked": int(status["SigBlk"], 16), "umask": int(status["Umask"], 8),
        "open": [os.path.exists(f"/proc/self/fd/{fd}") for fd in range(3)], "env": dict(os.environ),
        "leads": os.getsid(0) == os.getpid(), "pid": os.getpid()}).encode() + b"\\n")
plainstart.run(main)
"""
# Python's own, which it gives no child, and libc's (32 and 33), which make hands down and nobody can reset.
ALLOWED = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1) | 3 << 31
failed = count = 0
sys.path.insert(0, str(TOOLS))
import plainstart  # noqa: E402
plainstart.plain_signals()


def start(prelude, env, *more):
    """The report under a shell's prelude; the process waits if there is more."""
    r, w = os.pipe()
    argv = ["/bin/sh", "-c", prelude + '\nexec "$@"' + ("" if ">" in prelude else " >/dev/null"), "sh", sys.executable,
            "-B", "-c", REPORT, str(TOOLS), str(w), *more]
    process = subprocess.Popen(argv, env=env, pass_fds=(w,), stderr=subprocess.DEVNULL)
    os.close(w)
    process.told = open(r, "rb")
    line = process.told.readline()
    return process, json.loads(line) if line else None


def check(name, ok, why=""):
    global failed, count
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}" if ok else f"# {why}\nnot ok {count} - {name}")


def is_plain(told):
    return (told and told["ignored"] & ~ALLOWED == 0 and told["blocked"] == 0 and told["umask"] == 0o022 and
            all(told["open"]) and told["leads"] and told["env"]["HOME"] and told["env"]["LANG"] == "C.UTF-8" and
            not [n for n in told["env"] if n.startswith(("COVE_", "LC_"))])


HOSTILE = {"COVE_HOME": "/nonexistent", "COVE_LIBEXEC": "/nonexistent", "LC_ALL": "de_DE", "LANG": "tr_TR"}
STARTS = {
    "an ordinary start": ("", {**os.environ}),
    "what nohup and cron leave": ("trap '' HUP INT QUIT TERM CHLD PIPE USR1; umask 077", HOSTILE),
    "no standard descriptors": ("exec <&- >&- 2>&-", HOSTILE),
    "stdout closed": ("exec >&-", {}),
}
for title, (prelude, env) in STARTS.items():
    process, told = start(prelude, env)
    check(f"{title}_is_made_plain".replace(" ", "_"), process.wait(60) == 3 and is_plain(told), f"{told}")

process, told = start("trap '' HUP", {}, "wait")
process.send_signal(signal.SIGHUP)
process.send_signal(signal.SIGTERM)
check("what_was_ignored_stays_so_and_the_rest_is_passed_on", process.wait(60) == 128 + signal.SIGTERM)

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):
    process, told = start("", {}, "wait")
    process.send_signal(number)
    said = process.told.read()
    check(f"{number.name}_cleans_up", (process.wait(60), said) == (128 + number, b"cleaned up\n"), f"{said}")
for kind, left in (("next", b""), ("same", b"cleaned up\n")):
    process, told = start("", {}, kind)
    process.send_signal(signal.SIGTERM)
    process.told.readline()
    process.send_signal(signal.SIGTERM)
    said = process.told.read()
    check(f"a_second_one_that_is_the_{kind}", (process.wait(60), said) == (128 + signal.SIGTERM, left), f"{said}")

process, told = start("", {}, "wait")
process.kill()
process.wait()
try:
    pidfd = os.pidfd_open(told["pid"])
    ended = bool(select.select([pidfd], [], [], 60)[0])
except ProcessLookupError:
    ended = True
check("it_does_not_outlive_the_one_that_was_started", ended)
print(f"1..{count}")
sys.exit(failed > 0)
