"""C: while one box uses up what it has, it is told so, and a neighbour goes on."""
import os
import threading
import time

import walls
from rig import (DEADLINE, SMALL_DISK, NotApplicable, Weaker, alive, case, command, end, memory_of, need,
                 processes_with, state_of, wait_until)

KEEPER_MAX = 64 << 20


def needs(rig, what):
    if reason := rig.lacks(what):
        raise NotApplicable(reason)


class Neighbour:
    """Asks another box all the time; every answer must be right."""

    def __init__(self, rig):
        self.rig, self.name = rig, rig.box("neighbour")
        self.answers, self.wrong, self.stop = 0, [], False
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        while not self.stop:
            try:
                if self.rig.answers(self.name):
                    self.answers += 1
                else:
                    self.wrong.append("a wrong answer")
            except Exception as reason:  # told by the case
                self.wrong.append(str(reason))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()
        need(self.answers > 0 and not self.wrong, f"neighbour: {self.answers} right, {self.wrong[:2]}")


def neighbour_case(name, line, held, limit, command, timeout="4s"):
    @case(name, line, held)
    def run(rig):
        needs(rig, limit)
        box = rig.box("small")
        with Neighbour(rig) as neighbour:
            got = rig.cove.run_json(box, "bash", "-c", command, flags=["--timeout", timeout])
        need(rig.answers(box), f"the box itself does not answer: {rig.cove.inspect(box)['cause']}")
        return f"{neighbour.answers} answers; oom {got.get('oom_killed')}, cause {got.get('cause')}"


neighbour_case("C1_neighbour_of_a_fork_bomb", "C1", "a neighbour answers while a fork bomb goes off", "pids",
               "f() { f | f & }; f; sleep 100", "2s")
neighbour_case("C2_neighbour_of_a_memory_bomb", "C2", "a neighbour answers while memory bombs go off", "memory",
               "for i in 1 2 3 4; do /attack/attack C2_heap_bomb; done")
neighbour_case("C3_neighbour_of_a_disk_filler", "C3", "a neighbour answers while a disk is filled", "disk",
               "for i in 1 2 3; do /attack/attack C3_disk_fill; done")
neighbour_case("C5_neighbour_of_a_spinner", "C5", "a neighbour answers while all processors are kept busy", "cpu",
               "for i in 1 2 3 4; do /attack/attack --spin 2 & done; wait")
neighbour_case("C6_neighbour_of_an_io_storm", "C6", "a neighbour answers during an I/O storm", "disk",
               "for i in 1 2 3; do /attack/attack C6_direct_io_and_sync; done")


@case("C5_throttled_at_its_share", "C5", "by the group's own numbers four spinners are held at a fifth of a processor")
def throttled(rig):
    needs(rig, "cpu")
    box = rig.make("--cpus", "0.2")

    def numbers():
        return rig.cove("stats", "--json", box).ok().json[0]
    before = numbers()
    need(before["cpu_limit_milli"] == 200, f"the limit is {before['cpu_limit_milli']}")
    for _ in range(5):
        rig.cove("exec", box, "--", "bash", "-c", "for i in 1 2 3 4; do /attack/attack --spin 2 & done; wait").ok()
        after = numbers()
        if after["throttled_us"] > before["throttled_us"]:
            break
    rig.cove("rm", "-f", box)
    held_us = after["throttled_us"] - before["throttled_us"]
    used_us, lived_us = (after[k] - before[k] for k in ("cpu_us", "uptime_ms"))
    lived_us *= 1000
    need(held_us > 0, f"never throttled; {used_us} us of processor time in {lived_us} us")
    # Every period begins with its share anew, so one period's more than the share is still the share.
    need(used_us <= lived_us * 0.2 + 100_000 * 0.2 + 20_000, f"{used_us} us of processor time in {lived_us} us")
    return f"{used_us // 1000} ms of processor time in {lived_us // 1000} ms, held back {held_us // 1000} ms"


@case("C2_out_of_memory_is_told", "C2", "a shell line and a command that run out of memory say oom_killed")
def oom_told(rig):
    needs(rig, "memory")
    box = rig.box("small")
    got = rig.cove.run_json(box, "/attack/attack", "--eat", "300")
    need(got.get("oom_killed"), f"exec: {got}")
    got = rig.cove.sh(box, "/attack/attack --eat 300")
    need(got.get("oom_killed"), f"sh: {got}")
    need(rig.cove.sh(box, "echo next")["stdout"] == "next\n", "the next line does not work")


@case("G16_out_of_memory_has_its_cause", "G16", "a command that the kernel ended for memory has the cause oom")
def oom_cause(rig):
    needs(rig, "memory")
    got = rig.cove.run_json(rig.box("small"), "/attack/attack", "--eat", "300")
    need(got.get("cause") == "oom", f"cause {got.get('cause')}")


@case("C1_pids_are_told", "C1", "a command that met the process limit has the cause pids")
def pids_told(rig):
    needs(rig, "pids")
    box = rig.make_small()
    got = rig.cove.run_json(box, "/attack/attack", "--forks", "200", flags=["--timeout", "20s"])
    rig.cove("rm", "-f", box)
    need(got.get("cause") == "pids", f"cause {got.get('cause')}, exit code {got.get('exit_code')}")


@case("C3_disk_limit_is_told", "C3", "a full disk is the box's own: uploads say so, the box goes on")
def disk_told(rig):
    needs(rig, "disk")
    box = rig.box("small")
    got = rig.cove("cp", "-", f"{box}:/tmp/big", input=b"x" * ((SMALL_DISK + 32) << 20))
    need(got.rc != 0 and b"space" in got.err.lower() or b"quota" in got.err.lower() or b"limit" in got.err.lower(),
         repr(got))
    rig.cove("exec", box, "--", "rm", "-f", "/tmp/big")
    need(rig.answers(box), "the box does not answer")
    return got.errors.strip()[:100]


@case("C3_directory_of_many_entries", "C3", "listing and deleting a directory of very many entries works")
def many_entries(rig):
    count = 10_000 if rig.quick else 100_000
    box = rig.make()
    rig.cove("exec", box, "--", "bash", "-c",
             f"mkdir /tmp/many && cd /tmp/many && seq {count} | xargs touch", timeout=300).ok()
    rig.cove("rm", "-f", box, timeout=300).ok()
    need(not [n for n in os.listdir(rig.cove.home + "/boxes") if n.startswith(box)], "left behind")


def flood_case(name, held, command, flags=()):
    @case(name, "C8", held)
    def run(rig):
        box = rig.make()
        size = (72 << 20) if rig.quick else (1 << 30)
        keeper, most, total = rig.keeper(box), 0, 0
        process = rig.cove.start("exec", *flags, box, "--", "bash", "-c", command.format(size=size))
        if "-d" in flags:
            job = process.communicate(timeout=DEADLINE)[0].decode().strip()
            while not [e for e in rig.cove("ps", "--json", box).json
                       if str(e["exec_id"]) == job and e["state"] != "running"]:
                most = max(most, memory_of(keeper))
                time.sleep(0.05)
            total = size
        else:
            while data := process.stdout.read(1 << 20):
                total += len(data)
                most = max(most, memory_of(keeper))
            process.communicate()
        kept = sum(os.path.getsize(os.path.join(top, f)) for top, _, files in os.walk(rig.cove.home + "/boxes")
                   for f in files if "/logs" in top)
        rig.cove("rm", "-f", box).ok()
        need(total == size, f"{total} of {size} bytes came")
        need(most < KEEPER_MAX, f"the keeper grew to {most >> 20} MiB")
        need(kept < 200 << 20, f"{kept >> 20} MiB of logs")
        return f"{size >> 20} MiB, keeper at most {most >> 10} KiB, {kept >> 20} MiB kept"


flood_case("C8_stdout_flood", "a flood of output reaches its reader whole; what is kept and held is bounded",
           "head -c {size} /dev/zero")
flood_case("C8_flood_without_reader", "a flood that nobody reads is kept up to a bound and does not stop the command",
           "head -c {size} /dev/zero", ("-d",))


@case("C8_flood_of_commands", "C8", "a thousand commands leave a bounded record")
def many_commands(rig):
    box = rig.make()
    line = "for i in $(seq 200); do echo $i; done"
    for _ in range(40 if rig.quick else 400):
        rig.cove("exec", box, "--", "bash", "-c", line).ok()
    need(memory_of(rig.keeper(box)) < KEEPER_MAX, "the keeper grew")
    rig.cove("rm", "-f", box).ok()


@case("C10_ignores_sigterm", "C10", "stop returns and ends a command that ignores SIGTERM")
def ignores_term(rig):
    box = rig.make()
    rig.cove("exec", "-d", box, "--", "bash", "-c", "trap '' TERM; while :; do sleep 1; done").ok()
    rig.cove("stop", "--grace", "200ms", box).ok()
    need(rig.cove.inspect(box)["state"] == "stopped", "not stopped")
    rig.cove("rm", "-f", box).ok()


@case("C10_stopped_processes", "C10", "processes in SIGSTOP are ended by kill, stop and rm")
def stopped(rig):
    box = rig.make()
    job = rig.cove("exec", "-d", box, "--", "bash", "-c", "kill -STOP $$; sleep 100").ok().text.strip()
    rig.cove("kill", "-s", "KILL", box, job).ok()
    rig.cove("exec", "-d", box, "--", "bash", "-c", "(kill -STOP $BASHPID) & kill -STOP $$").ok()
    rig.cove("rm", "-f", box).ok()


@case("C10_vfork_parent", "C10", "a parent held in vfork (not interruptible) is ended by kill")
def vfork_parent(rig):
    if rig.own_kernel:
        raise NotApplicable(f"OWN_TASKS: {walls.KINDS[rig.wall]['OWN_TASKS']}")
    box, tag = rig.make(), f"vfork-{os.getpid()}"
    job = rig.cove("exec", "-d", box, "--", "/attack/attack", "--vfork", "100", tag).ok().text.strip()
    wait_until(lambda: sorted(map(state_of, inside(rig, box, tag))) == ["D", "S"], "the parent to wait in vfork")
    rig.cove("kill", "-s", "KILL", box, job).ok()
    wait_until(lambda: not inside(rig, box, tag), "both processes to end")
    # They are gone a moment before init has told the keeper.
    wait_until(lambda: [e for e in rig.cove("ps", "--json", box).json
                        if str(e["exec_id"]) == job and e["state"] != "running"], "ps to say that it ended")
    rig.cove("rm", "-f", box).ok()


def inside(rig, box, tag):
    """Processes with that word that run in a box: not the program that asked for them."""
    return [pid for pid in processes_with(tag) if rig.cove.program not in command(pid)]


@case("C10_frozen_box", "C10", "a paused box can be stopped and removed")
def frozen(rig):
    box = rig.make()
    got = rig.cove("pause", box)
    if got.rc != 0:
        rig.cove("rm", "-f", box)
        raise NotApplicable(got.errors.strip()[:100] or "no pause")
    rig.cove("stop", "--grace", "100ms", box).ok()
    need(rig.cove.inspect(box)["state"] == "stopped", "not stopped")
    rig.cove("rm", "-f", box).ok()


@case("C11_daemon_outlives_its_command_only", "C11", "a twice forked daemon may outlive its command, never the box")
def daemon(rig):
    box, tag = rig.make(), f"hold-{os.getpid()}"
    rig.cove("exec", box, "--", "/attack/attack", "--hold", "300", tag).ok()
    wait_until(lambda: rig.running(box, tag), "the daemon")
    rig.cove("stop", "--grace", "0", box).ok()
    need(not rig.running(box, tag), "the daemon survived the stop")
    rig.cove("start", box).ok()
    rig.cove("exec", box, "--", "/attack/attack", "--hold", "300", tag).ok()
    wait_until(lambda: rig.running(box, tag), "the daemon")
    rig.cove("rm", "-f", box).ok()
    need(not rig.running(box, tag), "the daemon survived the removal")


@case("C11_kill_ends_exactly_one_tree", "C11", "kill of one command leaves other commands alone")
def one_tree(rig):
    box, one, two = rig.make(), f"one-{os.getpid()}", f"two-{os.getpid()}"
    hold = "/attack/attack --hold 300 {}; sleep 300"
    first = rig.cove("exec", "-d", box, "--", "bash", "-c", hold.format(one)).ok().text.strip()
    rig.cove("exec", "-d", box, "--", "bash", "-c", hold.format(two)).ok()
    wait_until(lambda: [line for line in rig.running(box, one) if "--hold" in line] and
               [line for line in rig.running(box, two) if "--hold" in line], "both daemons")
    rig.cove("kill", "-s", "KILL", box, first).ok()
    until = time.monotonic() + 10  # kill is answered once init was told
    while (left := rig.running(box, one)) and time.monotonic() < until:
        time.sleep(0.01)
    others = rig.running(box, two)
    rig.cove("rm", "-f", box).ok()
    if left and (rig.own_kernel or "cgroup" not in rig.promised):
        raise Weaker(f"no groups of commands here: a tree is found by walking descendants, and {len(left)} processes "
                     "in a session of their own outlived the kill; rm ended them")
    need(not left, f"{len(left)} processes of the killed command survive")
    need(others, "the other command was ended too")


@case("C12_nothing_is_left", "C12", "boxes made and removed leave no mount, process, cgroup or descriptor behind")
def churn(rig):
    def traces():
        mounts = sum(1 for _ in open("/proc/self/mountinfo"))
        return mounts, len(os.listdir(rig.cove.home + "/boxes"))
    rig.box()
    before = traces()
    for _ in range(20 if rig.quick else 300):
        rig.cove("run", *rig.flags(), "--", "/attack/attack", "--bytes", "1").ok()
    wait_until(lambda: traces() == before, f"{before}, now {traces()}")
    need(alive(rig.keeper(rig.box())), "another box's keeper ended")


@case("C4_locks_do_not_reach_the_keeper", "C4", "locks and leases on everything that a box can open do not block Cove")
def locks(rig):
    process = rig.cove.start("exec", rig.box(), "--", "bash", "-c",
                             "exec 9< /attack/attack; flock -x 9; exec 8>/tmp/l; flock -x 8; sleep 30")
    try:
        for _ in range(5):
            need(rig.answers(rig.box()), "the box does not answer")
    finally:
        end(process)
