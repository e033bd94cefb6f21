"""Programs that people run in boxes: what the base image brings, and what the walls let them do."""
import os

import pytest

from conftest import needs_base

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


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="has numbers of x86-64")
def test_calls_that_ordinary_programs_make(cove, shared):
    assert cove("exec", shared, "--", "python3", "-c", CALLS).ok().text == ""
