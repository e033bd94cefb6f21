"""Programs that people run in boxes: what the base image brings, and what the walls let them do."""
import os

import pytest

from conftest import needs_base, needs_flag

pytestmark = pytest.mark.once("root")

# Calls of ordinary programs, by their numbers on x86-64 where Python has no name for them; prints what is not as
# on any machine.
CALLS = """
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)

def want(what, got, *errors):
    code = 0 if got >= 0 else ctypes.get_errno()
    if code not in (errors or (0,)):
        print(what, errno.errorcode.get(code, code))

def call(*args):
    ctypes.set_errno(0)
    return libc.syscall(*args)

want("memfd_create, as Chromium asks", libc.memfd_create(b"x", -1), errno.EINVAL)
signal.setitimer(signal.ITIMER_REAL, 60)
assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
want("sigqueue", libc.sigqueue(os.getpid(), signal.SIGUSR1, 7))
assert signal.SIGUSR1 in signal.sigpending()
with open("/tmp/calls", "wb+") as f:
    assert os.pwritev(f.fileno(), [b"some text"], 0, os.RWF_DSYNC) == 9
    assert os.preadv(f.fileno(), [bytearray(9)], 0, 0) == 9
    want("sync_file_range", libc.sync_file_range(f.fileno(), ctypes.c_long(0), ctypes.c_long(0), 2))
    want("readahead", libc.readahead(f.fileno(), ctypes.c_long(0), 4096))
    want("syncfs", libc.syncfs(f.fileno()))
timer = libc.timerfd_create(1, 0)
want("timerfd_gettime", libc.timerfd_gettime(timer, ctypes.create_string_buffer(32)))
want("sched_getattr", call(315, 0, ctypes.create_string_buffer(64), 56, 0))
want("sched_setparam", libc.sched_setparam(0, ctypes.byref(ctypes.c_int(0))))
want("sched_setparam, real time", libc.sched_setparam(0, ctypes.byref(ctypes.c_int(9))), errno.EINVAL, errno.EPERM)
want("ioprio_set", call(251, 1, 0, 2 << 13 | 4))
want("ioprio_set, real time", call(251, 1, 0, 1 << 13 | 4), errno.EPERM)
assert call(252, 1, 0) == 2 << 13 | 4
want("mlockall", libc.mlockall(1), 0, errno.ENOMEM)
want("munlockall", libc.munlockall())
"""


@needs_base
def test_the_base_image_has_what_one_reaches_for(cove, shared):
    names = "bzip2 cmake gcc git nano node npm python3 rg rsync scp sqlite3 ssh vi wget xz zip"
    got = cove("exec", shared, "--", "sh", "-c", f"for p in {names}; do command -v $p >/dev/null || echo $p; done")
    assert got.ok().text == ""
    assert cove("exec", shared, "--", "sqlite3", ":memory:", "select 6 * 7").ok().text == "42\n"


@needs_base
def test_a_package_links_its_manual_pages_as_a_jdk_does(cove, box, inner_root):
    link = "update-alternatives --install /usr/bin/tryme tryme /bin/true 1 " \
        "--slave /usr/share/man/man1/tryme.1.gz tryme.1.gz /etc/hostname"
    cove("exec", "-u", "root", box, "--", "sh", "-c", f"{link} && readlink /usr/share/man/man1/tryme.1.gz").ok()


@needs_flag("ALL_CALLS")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="has numbers of x86-64")
def test_calls_that_ordinary_programs_make(cove, shared):
    assert cove("exec", shared, "--", "python3", "-c", CALLS).ok().text == ""


LEAK = """
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) { char *p = malloc(1234); memset(p, c, 1234); p = malloc(1); return p == NULL; }
"""
# Reads a child's memory as a debugger does, then tries the same with init.
TRACER = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4

def peek(pid):
    local, remote = ctypes.create_string_buffer(8), ctypes.c_char_p(b"secret!")
    where = ctypes.cast(remote, ctypes.c_void_p).value
    iov = lambda at: (ctypes.c_size_t * 2)(at, 8)
    got = libc.process_vm_readv(pid, iov(ctypes.addressof(local)), ctypes.c_ulong(1), iov(where), ctypes.c_ulong(1),
                                ctypes.c_ulong(0))
    return local.value if got == 8 else os.strerror(ctypes.get_errno())

child = os.fork()
if child == 0:
    signal.pause()
print("attach", libc.ptrace(16, child, 0, 0), "init", libc.ptrace(16, 1, 0, 0), libc.ptrace(0x4206, 1, 0, 0))
print("read", peek(child), "init", peek(1))
os.kill(child, signal.SIGKILL)
"""


@needs_flag("TRACING")
@needs_base
def test_a_program_with_address_sanitizer_runs_and_finds_leaks_with_ptrace(cove, box):
    build = f"cd /tmp && cat > a.c <<'E'\n{LEAK}E\ngcc -fsanitize=address -o a a.c"
    cove("exec", box, "--", "sh", "-c", build).ok()
    assert cove("exec", box, "--", "/tmp/a").ok().errors == ""
    assert cove("exec", "-e", "LSAN_OPTIONS=detect_leaks=1", box, "--", "/tmp/a").rc != 0
    with_it = cove("create", "--ptrace").ok().text.strip()
    cove("exec", with_it, "--", "sh", "-c", build).ok()
    got = cove("exec", with_it, "--", "/tmp/a")
    assert got.rc != 0 and "detected memory leaks" in got.errors and "1234 byte" in got.errors


@needs_flag("TRACING")
def test_a_program_that_asks_init_to_trace_it_goes_on(cove):
    """As programs do that look for a debugger."""
    box = cove("create", "--ptrace").ok().text.strip()
    line = "import ctypes, os, signal; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True); {}"
    got = cove("exec", box, "--", "python3", "-c", line.format("os.execvp('echo', ['echo', 'done'])")).ok()
    assert got.text == "0\ndone\n"
    got = cove("exec", box, "--", "python3", "-c", line.format("os.kill(os.getpid(), signal.SIGUSR1)"))
    assert got.rc == 128 + 10
    assert cove("exec", box, "--", "echo", "lives").ok().text == "lives\n"


@needs_flag("TRACING")
def test_ptrace_is_for_the_boxs_own_processes(cove, box, inner_root):
    refused = "attach -1 init -1 -1\nread Operation not permitted init Operation not permitted\n"
    assert cove("exec", "-u", "root", box, "--", "python3", "-c", TRACER).ok().text == refused
    assert cove.inspect(box)["ptrace"] is False
    with_it = cove("create", "--ptrace").ok().text.strip()
    assert cove.inspect(with_it)["ptrace"] is True
    got = cove("exec", "-u", "root", with_it, "--", "python3", "-c", TRACER).ok().text
    assert got == "attach 0 init -1 -1\nread b'secret!' init Operation not permitted\n"


@needs_base
def test_ps_says_when_and_how_long(cove, box):
    got = cove.sh(box, "sleep 2; date +%s; date -d \"$(ps -o lstart= -p $$)\" +%s; ps -o etimes= -p $$; "
                       "sh -c 'ps -o etimes= -p $$'")["stdout"].split()
    now, began, age, fresh = (int(word) for word in got)
    assert 1 <= now - began < 60 and 1 <= age < 60 and 0 <= fresh < 60
