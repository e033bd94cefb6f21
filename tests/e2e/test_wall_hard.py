"""What holds a box beside its namespaces: the system-call filter against its own list, the same hold
in every way to run something, Landlock, masks, rlimits, and the keeper's own confinement.

The list is src/filter/box.syscalls. A small static program, put into a box, tries every number; what
it was answered is compared with what the list says, number by number.
"""
import ctypes
import errno
import json
import mmap
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from conftest import DEADLINE, IS_ROOT, alive, children, needs_base, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "src/filter/box.syscalls"
TRIED = 600
CALLS_MAX = 250
# uretprobe and uprobe of x86: kernels that have them let them pass every filter, because they are part
# of a breakpoint that a tracer outside has set. Called by anybody else they end the process or fail.
UNFILTERED = {335, 336} if os.uname().machine == "x86_64" else set()

PROBE = r"""
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints, for every number, what a child was answered: an errno, 0, "ended" (by itself or by a
 * signal), "stays" (it did not come back) or "killed" (SIGSYS). */
static void child(int fd, long nr, long arg)
{
	int code;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	errno = 0;
	code = syscall(nr, arg, arg, arg, arg, arg, arg) == -1 ? errno : 0;
	write(fd, &code, sizeof(code));
	_exit(0);
}

/* Or has it only not had its turn on a busy machine? */
static int sleeps(pid_t pid)
{
	char path[32], state = 'S';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f) {
		fscanf(f, "%*[^)]) %c", &state);
		fclose(f);
	}
	return state != 'R';
}

static void try(long nr, long arg)
{
	struct pollfd p;
	int fds[2], code = -1, status = 0, ready;
	pid_t pid;

	pipe(fds);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], 100);
		setpgid(0, 0);
		child(100, nr, arg);
	}
	close(fds[1]);
	p = (struct pollfd){.fd = fds[0], .events = POLLIN};
	while ((ready = poll(&p, 1, 1000)) == 0 && !sleeps(pid))
		;
	if (ready == 0) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		printf("%ld stays\n", nr);
	} else if (read(fds[0], &code, sizeof(code)) == sizeof(code)) {
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
		printf("%ld %d\n", nr, code);
	} else {
		waitpid(pid, &status, 0);
		printf("%ld %s\n", nr,
		       WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? "killed" : "ended");
	}
	close(fds[0]);
}

int main(int argc, char **argv)
{
	long first = strtol(argv[1], 0, 0), last = strtol(argv[2], 0, 0), arg = strtol(argv[3], 0, 0);

	setvbuf(stdout, 0, _IOLBF, 0);
	for (long nr = first; nr <= last; nr++)
		try(nr, arg);
	if (argc > 4) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			long r = 20;
#ifdef __x86_64__
			__asm__ volatile("int $0x80" : "+a"(r) : : "memory");
#endif
			_exit(0);
		}
		waitpid(pid, &status, 0);
		printf("int80 %s\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? "killed" : "lives");
	}
	return 0;
}
"""


def numbers():
    """Names and numbers of this processor's system calls, from the kernel's own header."""
    out = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
                         capture_output=True, text=True)
    if out.returncode != 0:
        pytest.skip("no C compiler or no <asm/unistd.h>")
    found = dict(re.findall(r"#define __NR_(\w+) (\d+)$", out.stdout, re.M))
    return {name: int(nr) for name, nr in found.items()}


def holds(condition, arg):
    """Does a line's condition hold where every argument is arg?"""
    for clause in condition.split(" and "):
        words = clause.split()
        if words == ["secret"]:
            return False
        low = arg & 0xffffffff
        words = words[1:]
        if words == ["is", "null"]:
            if arg != 0:
                return False
            continue
        if words[0] == "&":
            low, words = low & int(words[1], 0), words[2:]
        known = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "SOCK_STREAM": 1, "SOCK_DGRAM": 2,
                 "SOCK_SEQPACKET": 5, "NETLINK_ROUTE": 0, "TIOCSTI": 0x5412, "TIOCLINUX": 0x541c, "PR_SET_MM": 35,
                 "TIOCSETD": 0x5423, "PRIO_PROCESS": 0, "PRIO_PGRP": 1, "IOPRIO_WHO_PROCESS": 1,
                 "IOPRIO_WHO_PGRP": 2, "IOPRIO_CLASS_RT": 0x2000, "RWF_NOWAIT": 8, "RWF_DONTCACHE": 128,
                 "MAP_HUGETLB": 0x40000, "MFD_HUGETLB": 4, "SHM_HUGETLB": 0o4000,
                 "SOL_SOCKET": 1, "SO_ATTACH_FILTER": 26, "SO_ATTACH_BPF": 50,
                 "SO_ATTACH_REUSEPORT_CBPF": 51, "SO_ATTACH_REUSEPORT_EBPF": 52, "RLIMIT_CORE": 4,
                 "POSIX_FADV_DONTNEED": 4, "PR_SET_SECCOMP": 22,
                 "PR_SCHED_CORE": 62, "PR_SET_IO_FLUSHER": 57, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17,
                 "IPPROTO_ICMP": 1, "IPPROTO_ICMPV6": 58, "TCP_ULP": 31, "UDP_ENCAP": 100,
                 "FICLONE": 0x40049409, "FICLONERANGE": 0x4020940d, "FIDEDUPERANGE": 0xc0189436}
        bits = {"CLONE_NEWTIME": 0x80}  # of the others any one will do: arg is 0 or all ones
        values = [known[w] if w in known else bits.get(w, 1) if w.startswith(("CLONE_", "S_IS", "O_", "__O")) else
                  int(w, 0) for w in words if w not in ("is", "not", "has", "no")]
        if words[0] == "has":
            good = not any(low & v for v in values)
        else:
            good = (low in values) == (words[1] != "not")
        if not good:
            return False
    return True


def policy(arg):
    """{name: 0 or the errno}, for a call whose arguments are all arg."""
    answer, heading, lines, otherwise = {}, None, {}, {}
    for line in LIST.read_text().splitlines():
        line = line.split("#")[0].rstrip()
        if line.endswith(":"):
            heading = line[:-1].split()
        elif not line.strip() or heading[0] in ("shared", "ptrace", "engine"):
            continue
        elif " if " in line:
            name, condition = line.split(" if ", 1)
            condition, _, refusal = condition.partition(" else ")
            condition, _, then = condition.partition(" then ")
            lines.setdefault(name, []).append((condition, getattr(errno, then, 0)))
            if refusal:
                otherwise[name] = getattr(errno, refusal)
        else:
            code = 0 if heading[0] == "allow" else getattr(errno, heading[1], 0)
            for name in line.split():
                assert name not in answer, f"{name} stands twice"
                answer[name] = code
    for name, conditions in lines.items():
        answer[name] = next((then for condition, then in conditions if holds(condition, arg)),
                            otherwise.get(name, errno.EPERM))
    return answer


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """The program, static, or a reason to skip."""
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    where = tmp_path_factory.mktemp("probe")
    (where / "probe.c").write_text(PROBE)
    subprocess.run(["musl-gcc", "-static", "-O1", "-w", "-o", where / "probe", where / "probe.c"], check=True)
    return where / "probe"


def root_flags(cove, box):
    """As in-box root where there is one: the kernel itself then refuses less."""
    return ["-u", "root"] if cove("exec", "-u", "root", box, "--", "true").rc == 0 else []


def put_probe(cove, box, probe):
    cove("cp", str(probe), f"{box}:/tmp/probe").ok()
    cove("exec", box, "--", "chmod", "755", "/tmp/probe").ok()


def test_at_most_250_calls():
    text = LIST.read_text()
    allowed = [n for n, code in policy(0).items() if code == 0]
    named = re.findall(r"^(\w+) if ", text, re.M)
    assert len((set(allowed) | set(named)) & set(numbers()) - {"clone3"}) <= CALLS_MAX


@pytest.mark.parametrize("arg", ["0", "-1"])
def test_every_number_is_answered_as_the_list_says(cove, box, probe, arg):
    put_probe(cove, box, probe)
    got = cove("exec", "-i", *root_flags(cove, box), box, "--", "/tmp/probe", "0", str(TRIED), arg, timeout=200).ok()
    answers = dict(line.split() for line in got.text.splitlines())
    names = {nr: name for name, nr in numbers().items()}
    want = policy(int(arg))
    wrong = []
    for nr in range(TRIED + 1):
        name = names.get(nr, f"call {nr}")
        if nr in UNFILTERED:
            continue
        expected, found = want.get(name, errno.ENOSYS), answers[str(nr)]
        if expected == 0 and found in (str(errno.EPERM), str(errno.ENOSYS), "killed"):
            # Allowed, and yet refused: is it the kernel itself? It would say the same outside.
            # Its descriptors are pipes: what works there (fchmod) is done, as root.
            outside = subprocess.run([probe, str(nr), str(nr), arg], input="", capture_output=True, text=True)
            if found == "killed" or outside.stdout.split()[1:] != [found]:
                wrong.append((name, "allowed", found))
        elif expected != 0 and found != str(expected):
            wrong.append((name, errno.errorcode[expected], found))
    assert wrong == []


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="is about x86")
def test_calls_of_other_architectures_end_the_process(cove, box, probe):
    put_probe(cove, box, probe)
    got = cove("exec", box, "--", "/tmp/probe", str(0x40000000), str(0x40000000 + 20), "0", "x").ok()
    answers = dict(line.split() for line in got.text.splitlines())
    assert set(answers.values()) == {"killed"}


# ---- the same hold, however something is run ----

SHOW = ("grep -E '^(Seccomp|Seccomp_filters|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Uid|Groups):' "
        "/proc/self/status; for n in cgroup ipc mnt net pid user uts; do readlink /proc/self/ns/$n; done; "
        "sed 's,/e[0-9]*$,/e,' /proc/self/cgroup; ulimit -Hn; ulimit -Hc")


def hold(result):
    text = result.ok().text.replace("\r", "") if not isinstance(result, str) else result
    return text.strip().splitlines()


def start(cove, tmp, kind):
    """A box of that kind, and what its first command saw."""
    flags = {"plain": [], "host image": ["--image", "host"], "mounts": ["--mount", f"{tmp}:/data"],
             "no host writes": ["--mount", f"{tmp}:/data:ro"]}[kind]
    name = cove("create", *flags).ok().text.strip()
    return name, hold(cove("exec", name, "--", "sh", "-c", SHOW))


@pytest.mark.parametrize("kind", ["plain", "host image", "mounts", "no host writes"])
def test_every_way_to_run_something_is_held_the_same(cove, tmp, kind):
    name, first = start(cove, tmp, kind)
    assert "Seccomp:\t2" in first and "Seccomp_filters:\t1" in first
    for what in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert f"{what}:\t0000000000000000" in first
    assert "CapBnd:\t00000000000004fb" in first
    assert hold(cove("exec", name, "--", "sh", "-c", SHOW)) == first
    assert hold(cove("exec", "-t", name, "--", "sh", "-c", SHOW)) == first
    assert hold(cove.sh(name, SHOW)["stdout"]) == first
    assert hold(cove.sh(name, SHOW)["stdout"]) == first
    number = cove("exec", "-d", name, "--", "sh", "-c", SHOW).ok().text.strip()
    assert hold(cove("attach", name, number)) == first


def test_root_inside_is_held_the_same_but_for_its_few_capabilities(cove, shared, inner_root):
    first = hold(cove("exec", shared, "--", "sh", "-c", SHOW))
    root = hold(cove("exec", "-u", "root", shared, "--", "sh", "-c", SHOW))
    differ = {line.split(":")[0] for line in set(first) ^ set(root)}
    assert differ <= {"Uid", "Groups", "CapPrm", "CapEff"}
    assert "CapEff:\t00000000000004fb" in root and "CapPrm:\t00000000000004fb" in root


def test_one_shot_box_is_held_the_same(cove, box):
    mine = hold(cove("exec", box, "--", "sh", "-c", SHOW))
    once = hold(cove("run", "--", "sh", "-c", SHOW))
    # Namespaces differ by their nature. On cgroup v1 the I/O of a one-shot box is not counted, and its only command
    # has the memory group of the box.
    differs = re.compile(r"\w+:\[|\d+:(blkio|memory):")
    assert [x for x in once if not differs.match(x)] == [x for x in mine if not differs.match(x)]


def test_init_is_not_dumpable_and_keeps_its_secret(cove, shared, inner_root):
    got = cove("exec", "-u", "root", shared, "--", "sh", "-c",
               "cat /proc/1/environ /proc/1/mem; ls /proc/1/root/; readlink /proc/1/exe /proc/1/fd/*; "
               "tr '\\0' '\\n' < /proc/1/cmdline | grep -i secret; env | grep -i secret")
    assert got.out == b""


# ---- a host directory ----

def test_no_set_user_id_file_reaches_the_host(cove, tmp):
    (tmp / "d").mkdir(mode=0o777)
    (tmp / "d").chmod(0o777)
    name = cove("create", "--mount", f"{tmp}/d:/data").ok().text.strip()
    got = cove("exec", name, "--", "sh", "-c", "cd /data && cp /bin/true t; chmod 4755 t; chmod u+s,g+s t; "
               "install -m 6755 /bin/true u; perl -e 'umask 0; sysopen(F, \"v\", 0101, 04755)'; chmod 755 t && ls t")
    assert got.text.split()[-1] == "t"
    modes = {p.name: p.stat().st_mode for p in (tmp / "d").iterdir()}
    assert "t" in modes and not any(mode & 0o6000 for mode in modes.values())
    # cp uses init's own openat2, which the box's programs do not have.
    (tmp / "f").write_text("x")
    cove("cp", str(tmp / "f"), f"{name}:/data/g").ok()
    assert (tmp / "d/g").read_text() == "x"


# ---- Landlock, masks, limits ----

def test_walls_are_told(cove, shared):
    told = json.dumps(cove.inspect(shared))
    assert re.search(r"seccomp: \d+ system calls allowed", told)
    assert "landlock" in told


@pytest.mark.parametrize("name", ["diskstats", "partitions", "swaps", "softirqs", "schedstat", "zoneinfo", "buddyinfo",
                                  "pagetypeinfo", "modules", "locks", "consoles", "iomem", "ioports", "crypto", "misc",
                                  "kpagecount", "vmallocinfo", "config.gz"])
def test_nothing_of_the_host_in(cove, shared, name):
    got = cove("exec", shared, "--", "sh", "-c", f"test ! -e /proc/{name} || cat /proc/{name}")
    assert got.rc == 0 and got.out == b""


@pytest.mark.parametrize("name", ["fs", "bus", "irq", "driver", "acpi", "pressure"])
def test_no_directory_of_the_host_in(cove, shared, name):
    assert cove("exec", shared, "--", "sh", "-c", f"test ! -e /proc/{name} || ls -A /proc/{name}").ok().out == b""


def test_tools_that_read_proc_work(cove, shared):
    line = "set -e; ps aux >/dev/null; top -bn1 >/dev/null; free >/dev/null; df / >/dev/null; uptime >/dev/null"
    if cove("exec", shared, "--", "sh", "-c", "command -v top free uptime").rc != 0:
        pytest.skip("the image has no procps")
    assert cove("exec", shared, "--", "sh", "-c", line).ok().err == b""


def test_no_path_of_the_host_is_shown(cove, shared):
    got = cove("exec", shared, "--", "cat", "/proc/self/mountinfo").ok().text
    assert cove.home not in got and "keeper" not in got


@pytest.mark.parametrize("name,most", [("core file size", 1), ("locked memory", 8 << 20), ("msgqueue size", 819200),
                                       ("pending signals", 1024), ("realtime priority", 0), ("nice priority", 0),
                                       ("open files", 65536)])
def test_rlimits(cove, shared, name, most):
    text = cove("exec", shared, "--", "cat", "/proc/self/limits").ok().text
    hard = re.search(rf"^Max {name}\s+\S+\s+(\S+)", text, re.M).group(1)
    assert hard != "unlimited" and int(hard) <= most


def test_small_boxes_are_spread_over_the_processors(cove):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    seen = []
    for _ in range(16):
        got = cove("run", "--cpus", "1", "--best-effort", "--", "grep", "Cpus_allowed_list", "/proc/self/status").ok()
        seen.append(int(got.text.split()[1]))
    assert set(seen) <= os.sched_getaffinity(0) and len(set(seen)) > 1


def test_programs_that_try_huge_pages_go_on_without(cove, shared):
    """As databases and run times do: first huge pages, then others."""
    line = ("import ctypes, mmap; huge = 0x40000\n"
            "try:\n mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | huge)\n"
            "except OSError as e: print(e.errno)\n"
            "print(len(mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))")
    assert cove("exec", shared, "--", "python3", "-c", line).ok().text.split() == [str(errno.ENOMEM), str(2 << 20)]
    tuned = cove("exec", "-e", "GLIBC_TUNABLES=glibc.malloc.hugetlb=2", shared, "--", "python3", "-c",
                 "print(len(bytearray(64 << 20)))")
    assert tuned.ok().text == f"{64 << 20}\n"


def test_a_nicer_shell_is_still_possible(cove, shared):
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    got = cove("exec", shared, "--", "sh", "-c", f"nice -n 5 nice; renice -n {mine + 7} -p $$ >/dev/null && nice; "
               "command -v taskset >/dev/null || exit 0; taskset -c $(taskset -pc $$ | sed 's/.*: //') echo set")
    assert got.ok().text.split()[:2] == [str(min(mine + 5, 19)), str(min(mine + 7, 19))]


TAKE_INOTIFY = ("import ctypes, sys; libc = ctypes.CDLL(None); n = 0\n"
                "while n < int(sys.argv[1]) and libc.inotify_init1(0) >= 0: n += 1\n"
                "print(n, flush=True); sys.stdin.read()")


def test_a_box_takes_nobody_elses_share(cove, shared, box):
    """What the kernel counts per user, here inotify instances: a neighbour and the caller have some left."""
    python = ["python3", "-c", TAKE_INOTIFY]
    taker = subprocess.Popen(cove.argv(["exec", "-i", box, "--", *python, "100000"]), env=cove.env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert 0 < int(taker.stdout.readline()) < 100000
        assert cove("exec", shared, "--", *python, "8").ok().text == "8\n"
        assert subprocess.run([*python, "8"], stdin=subprocess.DEVNULL, capture_output=True).stdout == b"8\n"
    finally:
        taker.kill()
        taker.wait()


def test_programs_go_on_without_filters_and_core_limits(cove, shared):
    """As on a kernel without seccomp; `ulimit -c` is told that it is done, and says the truth when asked."""
    line = "set -e; ulimit -c 0; ulimit -c; file -b /etc/passwd; prlimit --core --noheadings -o HARD"
    got = cove("exec", shared, "--", "bash", "-c", line + "; runuser --version >/dev/null").ok().text.splitlines()
    assert got[-1].strip() == "1" and got[0] == "0" and "ASCII" in got[1]


def pages_in_memory(path, size):
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), size) as m:
        there, first = (ctypes.c_ubyte * (size // mmap.PAGESIZE))(), ctypes.c_char.from_buffer(m)
        at = ctypes.c_void_p(ctypes.addressof(first))
        assert ctypes.CDLL(None).mincore(at, ctypes.c_size_t(size), there) == 0
        del first
    return sum(page & 1 for page in there)


def test_a_box_cannot_empty_the_hosts_page_cache(cove, tmp):
    """Files of an image are in a cache that all boxes share. The call is answered with 0, the pages stay."""
    pages, script = tmp / "pages", "import os; fd = os.open('/srv/pages', os.O_RDONLY)\n" \
        "print(os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED))"
    pages.write_bytes(bytes(1 << 20))
    fd = os.open(pages, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    assert pages_in_memory(pages, 1 << 20) < 256  # outside it does that
    pages.read_bytes()
    got = cove("run", "--mount", f"{pages}:/srv/pages:ro", "--", "python3", "-c", script)
    assert got.ok().text == "None\n" and pages_in_memory(pages, 1 << 20) == 256


@pytest.mark.skipif(IS_ROOT, reason="a box of root's has ids, and so processes, of its own")
def test_a_users_box_leaves_the_caller_processes(cove):
    """Half of RLIMIT_NPROC is the most that all processes of one box can be."""
    script = ("import os, signal\nmade = []\ntry:\n    while len(made) < 900:\n        pid = os.fork()\n"
              "        if pid == 0:\n            signal.pause()\n        made.append(pid)\n"
              "except BlockingIOError: pass\nprint(len(made))\n"
              "for pid in made: os.kill(pid, 9)")
    argv = ["prlimit", "--nproc=800:", *cove.argv(["run", "--", "python3", "-c", script])]
    done = subprocess.run(argv, env=cove.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert done.returncode == 0, done
    assert 100 < int(done.stdout) < 400


# ---- the keeper ----

def test_keeper_confines_itself(cove, box):
    cove("exec", box, "--", "true").ok()
    pid = cove.inspect(box)["keeper_pid"]
    with open(f"/proc/{pid}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    kept = 1 << 1 | 1 << 3 | 1 << 5  # dac_override fowner kill
    for which in ("CapPrm", "CapEff"):
        assert int(status[which], 16) & ~kept == 0
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    if not IS_ROOT:
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0  # not dumpable


def test_a_confined_keeper_ends_and_deletes_its_box(cove, inner_root):
    name = cove("create").ok().text.strip()
    line = ("mkdir -p /home/a/b /srv/c && touch /home/a/b/f && chown -R 33:33 /srv/c /home/a && chmod 1700 /srv/c && "
            "chmod 0 /home/a/b && setsid sleep 1000 & sleep 1000 & exit 0")
    cove("exec", "-u", "root", name, "--", "sh", "-c", line).ok()
    pid = cove.inspect(name)["keeper_pid"]
    inner = children(pid)
    cove("rm", "-f", name).ok()
    wait_until(lambda: not alive(pid) and not any(alive(p) for p in inner), "the box to end")
    left = os.listdir(os.path.join(cove.home, "boxes"))
    assert not [n for n in left if name in n]


# ---- nothing fails open ----

def refusing(nr, code, arg0=None):
    """For preexec_fn: that call (with that first argument) is refused from here on, as by an outer sandbox."""
    allow = (0x06, 0, 0, 0x7fff0000)
    ops = [(0x20, 0, 0, 0), (0x15, 1, 0, nr), allow]
    ops += [] if arg0 is None else [(0x20, 0, 0, 16), (0x15, 1, 0, arg0), allow]
    ops += [(0x06, 0, 0, 0x50000 | code)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *op) for op in ops))
    libc = ctypes.CDLL(None)

    def install():
        program = struct.pack("HxxxxxxQ", len(ops), ctypes.addressof(filters))
        if libc.prctl(38, 1, 0, 0, 0) < 0 or libc.prctl(22, 2, program, 0, 0) < 0:
            os._exit(99)
    return install


@pytest.mark.parametrize("call,code,arg0,word", [
    ("landlock_create_ruleset", errno.EPERM, None, "Landlock"),
    ("landlock_create_ruleset", errno.EACCES, None, "Landlock"),
    ("landlock_restrict_self", errno.EPERM, None, "Landlock"),
    ("prctl", errno.EPERM, 38, "confine the keeper"), ("capset", errno.EPERM, None, "not permitted")])
def test_what_cannot_be_confined_does_not_start(cove, call, code, arg0, word):
    """Landlock's version cannot be asked for, or the keeper cannot give up what it must: no box, and a sentence."""
    if not IS_ROOT and call != "landlock_create_ruleset":
        pytest.skip("with no_new_privs newuidmap fails before")
    before = cove("ls", "--json").ok().json
    got = subprocess.run(cove.argv(["run", "--", "true"]), env=cove.env, capture_output=True, text=True,
                         timeout=DEADLINE,
                         stdin=subprocess.DEVNULL, preexec_fn=refusing(numbers()[call], code, arg0))
    assert got.returncode == 125 and word in got.stderr, got
    assert [b["name"] for b in cove("ls", "--json").ok().json] == [b["name"] for b in before]


# ---- strict ----

@pytest.fixture
def strict(cove):
    made = cove("create", "--strict")
    if made.rc != 0:
        pytest.skip(f"--strict: {made.errors.strip()[:100]}")
    return made.text.strip()


def test_strict_has_no_privileges_to_gain(cove, strict):
    lines = hold(cove("exec", strict, "--", "sh", "-c", SHOW))
    assert "NoNewPrivs:\t1" in lines
    for what in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{what}:\t0000000000000000" in lines


def test_strict_has_no_root(cove, strict):
    cove.fails("denied", "exec", "-u", "root", strict, "--", "id")


@needs_base
def test_strict_sudo_gives_nothing(cove, strict):
    assert b"uid=0" not in cove("exec", strict, "--", "sudo", "-n", "id").out
