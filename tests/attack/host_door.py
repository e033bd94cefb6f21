"""F11, F12: the door's own processes, which hold the credentials: who can read them, and what they can do when taken
over."""
import errno
import os
import pathlib
import re
import resource
import signal
import subprocess

from door_ground import ground
from host_credentials import reach
from host_keeper import REFUSED, inject, name_of
from rig import NotApplicable, case, need, wait_until


def doors(g):
    reach(g, "api.test")
    pids = g.doors(g.box)
    need(len(pids) >= 2, f"proxy and broker were not found: {pids}")
    return pids


def field(pid, name):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(name + ":"):
            return line.split(None, 1)[1].strip()
    return None


@case("F11_not_dumpable", "F11", "the door's processes cannot be read or traced by their own user")
def not_dumpable(rig):
    g = ground(rig)
    if rig.is_root:
        raise NotApplicable("root may read every process")
    for pid in doors(g):
        for name in ("mem", "environ", "maps", "auxv"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    f.read(1)
                need(False, f"/proc/{pid}/{name} can be read")
            except OSError:
                pass
        done = subprocess.run([rig.program, "--inject", str(pid)], input="39 0 0 0 0 0 0\n", capture_output=True,
                              text=True,
                              timeout=60)
        need(done.returncode != 0, "it can be traced")


@case("F11_confined", "F11", "the proxy has no capability, no new privileges, a system-call filter; neither leaves a "
                             "core")
def confined(rig):
    g = ground(rig)
    proxy, broker = doors(g)[:2]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        value = int(field(proxy, name), 16)
        need(value == 0 or name == "CapBnd" and not rig.is_root, f"{name} of the proxy is {value:x}")
    need(field(proxy, "NoNewPrivs") == "1" and field(proxy, "Seccomp") == "2", "no filter")
    for pid in (proxy, broker):
        try:
            text = open(f"/proc/{pid}/limits").read()
        except PermissionError:
            continue
        need(re.search(r"Max core file size\s+1\s+1\s", text), f"cores of {pid}: {text.splitlines()[5]}")


def proxy_refuses(rig, lines):
    """The calls, made by the real front of a running door (see inject.c), are all refused."""
    g = ground(rig)
    if not rig.is_root:
        raise NotApplicable("only root can make the door do something")
    proxy = doors(g)[0]
    first = inject(rig, proxy, [("getpid",)])
    need(first[0] == proxy, f"it says that it is {first[0]}")
    values = inject(rig, proxy, lines)
    let = [(line, name_of(v)) for line, v in zip(lines, values) if v not in REFUSED and v != -errno.EAFNOSUPPORT]
    rig.forget("door")
    need(not let, f"it can: {let}")
    return f"{len(lines)} calls refused"


@case("F11_proxy_files", "F11", "a proxy that was taken over opens no file: not a credential, not the audit log, "
                                "nothing")
def proxy_files(rig):
    paths = [f"{rig.cove.home}/secrets", f"{rig.cove.home}/secrets/API", f"{rig.cove.home}/boxes", "/etc/passwd", "/",
             rig.canary.file]
    return proxy_refuses(rig, [("openat", -100, f"={path}", 0) for path in paths] +
                         [("openat", -100, f"={rig.canary.file}", 1), ("openat", -100, f"={rig.cove.home}/new", 0o101,
                             0o600)])


@case("F11_proxy_calls", "F11", "a proxy that was taken over starts no program, makes no Unix socket, traces and "
                                "signals nobody")
def proxy_calls(rig):
    other = rig.canary.process.pid
    return proxy_refuses(rig, [
        ("execve", "=/bin/true", 0, 0), ("socket", 1, 1, 0), ("socket", 16, 3, 12), ("socket", 17, 3, 0),
        ("ptrace", 16, other, 0, 0), ("kill", other, 0), ("mount", 0, 0, 0, 0, 0), ("unshare", 0x10000000),
        ("chroot", "=/"), ("unlink", "=/nowhere"), ("mkdir", "=/nowhere/x", 0), ("pidfd_open", other, 0),
        ("process_vm_readv", other, 0, 0, 0, 0, 0)])


@case("F11_memory_is_locked", "F11", "memory with credentials is locked, or status says that it cannot be")
def locked(rig):
    g = ground(rig)
    proxy = doors(g)[0]
    text = field(proxy, "VmLck")
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == 0:
        raise NotApplicable("this caller may lock no memory")
    need(text and int(text.split()[0]) > 0, f"VmLck {text}")
    return text


@case("F11_no_core_file", "F11", "a door that crashes leaves no core with a credential in it")
def no_core(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        reach(g, "api.test", box=box)
        for pid in g.doors(box):
            try:
                os.kill(pid, signal.SIGSEGV)
            except OSError:
                pass
        wait_until(lambda: rig.answers(box), "the box to answer")
        found = [str(p) for top in (rig.cove.home, str(rig.base)) for p in pathlib.Path(top).rglob("core*")
                 if p.is_file() and "/layers/" not in str(p)]  # an image has files of that name
        need(not found, f"{found}")
        g.works(box)


@case("F12_key_log", "F12", "a TLS key log that the environment asks for is not written")
def key_log(rig):
    g = ground(rig)
    log = rig.base / "keys.log"
    rig.cove.env.update({"SSLKEYLOGFILE": str(log), "OPENSSL_CONF": str(rig.base / "no.cnf")})
    try:
        with g.own_box(g.rules()) as box:
            need(" 200 " in reach(g, "api.test", box=box)[:20], "nothing passed")
    finally:
        for name in ("SSLKEYLOGFILE", "OPENSSL_CONF"):
            rig.cove.env.pop(name)
    need(not log.exists(), "the keys were written")
