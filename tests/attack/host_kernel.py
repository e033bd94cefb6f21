"""C: what the kernel counts or does for all of a host, seen from beside a box: programs it starts at a crash,
numbers that it counts per user."""
import fcntl
import os
import pathlib
import secrets
import select
import subprocess

from rig import DEADLINE, NotApplicable, case, end, need, wait_until

PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")
CRASH = 'cp /bin/sh "$1" && "$1" -c "ulimit -c 0; kill -SEGV \\$\\$"; :'


class CoreHandler:
    """The host's program for core dumps, for a moment: it writes down who crashed. A process of its own sets
    the old one again, when it is told to and also when whoever started it is killed."""

    def __init__(self, rig):
        self.seen, self.program = rig.tmp / "crashes", rig.tmp / "handler"
        self.lock = open("/run/cove-attack-core.lock", "w")

    def __enter__(self):
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.before = PATTERN.read_text().rstrip("\n")
        self.seen.write_text("")
        self.program.write_text(f"#!/bin/sh\ncat >/dev/null\necho \"$1\" >>{self.seen}\n")
        self.program.chmod(0o755)
        restore = ["/bin/sh", "-c", 'read -r _; printf "%s\\n" "$1" >"$2"', "sh", self.before, PATTERN]
        self.keeper = subprocess.Popen(restore, stdin=subprocess.PIPE, start_new_session=True,
                                       pass_fds=[self.lock.fileno()])
        PATTERN.write_text(f"|{self.program} %e")
        return self

    def __exit__(self, *_):
        self.keeper.stdin.close()
        self.keeper.wait()
        need(PATTERN.read_text().rstrip("\n") == self.before, "core_pattern was not set again")
        self.lock.close()

    def names(self):
        return self.seen.read_text().split()

    def crash_here(self, name, where):
        """A crash on the host: does the handler hear of it?"""
        subprocess.run(["/bin/sh", "-c", CRASH, "sh", where / name], capture_output=True, check=True)
        wait_until(lambda: name in self.names(), "the host's own crash to be seen")


@case("C4_crash_starts_no_host_program", "C4",
      "a crash in a box does not start the program of the host's core_pattern, whatever limit is asked for")
def crash(rig):
    if not rig.is_root or not os.access(PATTERN, os.W_OK):
        raise NotApplicable("core_pattern is the host's: only root sets it for a test")
    tag = "k" + secrets.token_hex(4)
    with CoreHandler(rig) as handler:
        handler.crash_here(tag + "a", rig.tmp)
        for user in ([], ["-u", "root"]) if rig.root_inside() else ([],):
            rig.cove("exec", *user, rig.box(), "--", "sh", "-c", CRASH, "sh", f"/tmp/{tag}-{len(user)}").ok()
        handler.crash_here(tag + "b", rig.tmp)
        told = handler.names()
    need(not [name for name in told if "-" in name], f"the host's program was started for {told}")
    return "the host's own crashes were seen, those of the box were not"


IDS = 120  # each may have 1,024 pending signals


def counter_case(what, means):
    @case(f"C4_{what}_of_a_neighbour", "C4", f"a box that takes {means} as many ids leaves some to a neighbour and "
          "to the caller on the host")
    def run(rig):
        def tries(where, argv):
            got = subprocess.run(argv, env=rig.cove.env, capture_output=True, timeout=DEADLINE,
                                 stdin=subprocess.DEVNULL)
            need(got.returncode == 0, f"{where}: {got.stdout.decode()} {got.stderr.decode()}")
        outside = [rig.program, "--try", what]
        tries("on the host, before", outside)
        greedy, neighbour = rig.make(), rig.box()
        user = ["-u", "root"] if rig.root_inside() else []
        taker = rig.cove.start("exec", *user, greedy, "--", "/attack/attack", "--take", what, IDS)
        try:
            # A kernel of its own may know no end but the box's memory: then it takes all the while.
            ready = select.select([taker.stdout], [], [], 10 if rig.own_kernel else DEADLINE)[0]
            line = taker.stdout.readline() if ready else b""
            need(rig.own_kernel or line.strip().isdigit() and int(line) > 0, f"{line!r} {taker.poll()}")
            tries("a neighbour", rig.cove.argv(["exec", neighbour, "--", "/attack/attack", "--try", what]))
            tries("the caller on the host", outside)
        finally:
            end(taker)
            rig.cove("rm", "-f", greedy).ok()
        return f"it took {int(line)}" if line.strip() else "it had not taken all yet, or its box ended"


counter_case("inotify", "all inotify instances that it can have")
counter_case("signals", "all pending signals that it can have")
counter_case("timers", "all timers that it can have")
counter_case("locked", "all locked memory that it can have")
