"""A30: walls that answer by a program of their own (gVisor). What its processes hold on the host, and what a box can
have them open: they, and not the box's programs, are what reaches the host's kernel."""
import os
import pathlib
import socket
import stat
import threading

from host_descriptors import look_at
from programs import descendants
from rig import NotApplicable, case, need

SPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
# What they may have at most, in the box's own user namespace: chown to fsetid, net_bind_service, sys_chroot and
# sys_ptrace. runsc itself, which waits and reads nothing of the box's, also kill, setgid, setuid, setpcap, sys_admin.
MOST, MOST_OF_RUNSC = 0x0c041f, 0x2c05ff


def engine(rig, *flags):
    """A box and the host's processes that it is."""
    if not rig.own_kernel:
        raise NotApplicable("the native wall has no program between the box and the host's kernel")
    box = rig.make(*flags)
    rig.cove("exec", box, "--", "true").ok()
    return box, descendants(rig.cove.inspect(box)["init_pid"])


def status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                if ":\t" in line)


def name_of(pid):
    """runsc, runsc-sandbox or runsc-gofer; what runs the box's code has the sandbox's."""
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode().rsplit("/", 1)[-1]


def shared(rig, name):
    path = rig.shared / name
    path.mkdir()
    path.chmod(0o777)
    return path


@case("A30_engine_is_confined", "A30", "each process of the wall's program is in namespaces of the box's, has none of "
      "the host's ids, no_new_privs, and no right that changes the network, devices or the kernel")
def confined(rig):
    box, pids = engine(rig)
    try:
        rights = []
        for pid in pids:
            told, name = status(pid), name_of(pid)
            for space in SPACES:
                need(os.readlink(f"/proc/{pid}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}"),
                     f"{name} is in the host's {space} namespace")
            need(told["NoNewPrivs"].strip() == "1", f"{name} may gain rights")
            need(os.geteuid() not in map(int, told["Uid"].split()) or not rig.is_root, f"{name} is root of the host")
            have = int(told["CapEff"], 16) | int(told["CapPrm"], 16)
            more = (have | int(told["CapBnd"], 16)) & ~(MOST_OF_RUNSC if name == "runsc" else MOST)
            need(not more, f"{name} has the rights {more:x} besides")
            need(name == "runsc" or told["Seccomp"].strip() == "2", f"{name} has no filter")
            rights.append(f"{name} {have:x}")
        need(len(pids) >= 3, f"only {pids}")
        return ", ".join(sorted(set(rights)))
    finally:
        rig.cove("rm", "-f", box).ok()


@case("A30_engine_holds_the_wire_only", "A30", "no descriptor, directory, program or mapping of the wall's program is "
      "on a mount of the host, and of the host's network it has the wire to the keeper only")
def wire_only(rig):
    if not rig.is_root:
        raise NotApplicable("only root may look at all that they hold")
    given = shared(rig, "wire")
    box, pids = engine(rig, "--mount", f"{given}:/given")
    try:
        seen = look_at(pids[0], pids, is_apart=True)
        need(not seen["found"], "; ".join(seen["found"][:5]))
        need(seen["looked"] > 10, f"only {seen['looked']} were looked at")
        held = {}
        for pid in pids:
            for n in os.listdir(f"/proc/{pid}/fd"):
                text = os.readlink(f"/proc/{pid}/fd/{n}")
                if text.startswith("socket:["):
                    held.setdefault(text[8:-1], []).append(f"{name_of(pid)}:{n}")
        ours = {}
        for table in ("unix", "tcp", "tcp6", "udp", "udp6", "raw", "packet", "netlink"):
            path = pathlib.Path("/proc/self/net", table)
            for line in path.read_text().splitlines()[1:] if path.exists() else ():
                for word in line.split():
                    if word in held and len(word) > 3:
                        ours[word] = table
        need(set(ours.values()) == {"unix"} and len(ours) == 1,
             f"sockets of the host's network: {[(table, held[n]) for n, table in ours.items()]}")
        return f"{seen['looked']} looked at, {len(held)} sockets, of the host's network {len(ours)}"
    finally:
        rig.cove("rm", "-f", box).ok()


@case("A30_engine_makes_no_set_user_id_file", "A30", "with a writable host directory the wall's program has one more "
      "filter of the host's kernel, and neither root inside nor a user can set such a bit there")
def modes(rig):
    given = shared(rig, "modes")
    plain, before = engine(rig)
    box, pids = engine(rig, "--mount", f"{given}:/given")
    try:
        def filters(found):
            return {name_of(p): int(status(p).get("Seccomp_filters", "0")) for p in found}
        few, more = filters(before), filters(pids)
        need(all(more[name] == few[name] + 1 for name in few), f"{few}, with a directory {more}")
        for user in ((), ("-u", "root")) if rig.root_inside() else ((),):
            rig.cove("exec", *user, box, "--", "python3", "-c",
                     "import os\n"
                     "for name, make in (('a', lambda p: os.close(os.open(p, os.O_CREAT | os.O_WRONLY, 0o6755))),\n"
                     "                   ('b', lambda p: (open(p, 'w').close(), os.chmod(p, 0o4755))),\n"
                     "                   ('c', lambda p: os.mknod(p, 0o106755)),\n"
                     "                   ('d', lambda p: (os.mkdir(p), os.chmod(p, 0o2777)))):\n"
                     "    try: make(f'/given/{os.getuid()}{name}')\n"
                     "    except OSError as e: print(name, e)\n").ok()
        bad = [p.name for p in given.iterdir() if p.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
        need(not bad, f"set-user-ID: {bad}")
        return f"{more}"
    finally:
        rig.cove("rm", "-f", plain, box).ok()


@case("A30_links_in_a_shared_directory", "A30", "links that the host or the box puts into a shared directory lead the "
      "wall's program to no file of the host: absolute, by .., through /proc, as hard links")
def links(rig):
    given, tree = shared(rig, "links"), rig.canary.dir
    up = "../" * 24
    for name, to in (("abs", tree), ("up", up + str(tree)[1:]), ("root", "/proc/self/root" + str(tree)),
                     ("one", f"/proc/1/root{tree}"), ("cwd", f"/proc/self/cwd/{up}{tree}")):
        (given / name).symlink_to(to)
    box, _ = engine(rig, "--mount", f"{given}:/given")
    try:
        for user in ((), ("-u", "root")) if rig.root_inside() else ((),):
            got = rig.cove("exec", *user, box, "--", "sh", "-c", f"""
cd /given; ln -sfn {tree} mine; ln -sfn {up}{tree} mine2; mkdir -p d/e
for l in abs up root one cwd mine mine2; do cat $l/secret $l/canary-file $l/sub/file; echo x > $l/new; done
cat ../../../../../../..{tree}/secret /given/..{tree}/secret d/e/{up}{tree}/secret
for f in abs/secret {tree}/secret /proc/1/exe /proc/self/exe /attack/attack; do ln $f hard; ln -L $f hard2; done
mv abs/secret taken; true""")
            need(rig.canary.mark.encode() not in got.out, f"read: {got.out[:200]!r}")
        made = [p.name for p in given.rglob("*") if not p.is_symlink() and not p.is_dir()]
        need(not made, f"files of elsewhere are in it: {made}")
        return f"{len(list(given.iterdir()))} entries"
    finally:
        rig.cove("rm", "-f", box).ok()


@case("A30_renamed_while_open", "A30", "a directory of a shared one that is swapped with a link to the host's files "
      "while it is walked gives none of them")
def renamed(rig):
    given, tree = shared(rig, "renamed"), rig.canary.dir
    (given / "real/sub").mkdir(parents=True)
    for path in (given / "real/secret", given / "real/sub/file"):
        path.write_text("harmless")
    (given / "link").symlink_to(tree)
    (given / "real").rename(given / "swap")
    box, _ = engine(rig, "--mount", f"{given}:/given")
    stop, swaps = threading.Event(), [0]

    def swap():
        while not stop.is_set():
            os.rename(given / "swap", given / "aside")
            os.rename(given / "link", given / "swap")
            os.rename(given / "swap", given / "link")
            os.rename(given / "aside", given / "swap")
            swaps[0] += 1
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        code = ("import os,time\nmet, end = {}, time.monotonic() + 4\n"
                "while time.monotonic() < end:\n"
                "  for p in ('swap/secret', 'swap/sub/file', 'link/secret', 'aside/sub/../secret'):\n"
                "    try: got = open('/given/' + p).read()\n"
                "    except OSError as e: got = str(e.errno)\n"
                "    except UnicodeDecodeError: got = 'CANARY'\n"
                "    met[got] = met.get(got, 0) + 1\n"
                "    try: open('/given/swap/new', 'w').close()\n"
                "    except OSError: pass\n"
                "print(met)")
        got = rig.cove("exec", box, "--", "python3", "-c", code).ok()
    finally:
        stop.set()
        thread.join()
        rig.cove("rm", "-f", box).ok()
    need("CANARY" not in got.text and rig.canary.mark not in got.text, got.text[:300])
    need("harmless" in got.text, f"never met: {got.text[:300]}")
    return f"{swaps[0]} swaps outside; {got.text.strip()[:200]}"


@case("A30_host_sockets_and_pipes", "A30", "a Unix socket and a FIFO that the host has in a shared directory cannot be "
      "connected to or opened from inside, by any name")
def sockets(rig):
    given = shared(rig, "ends")
    os.mkfifo(given / "fifo", 0o666)
    (given / "fifo").chmod(0o666)
    server, datagrams = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    here = os.open(given, os.O_RDONLY | os.O_DIRECTORY)
    server.bind(f"/proc/self/fd/{here}/sock")
    datagrams.bind(f"/proc/self/fd/{here}/gram")
    for name in ("sock", "gram"):
        (given / name).chmod(0o777)
    server.listen()
    for one in (server, datagrams):
        one.setblocking(False)
    (given / "link").symlink_to("sock")
    reader = os.open(given / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    box, _ = engine(rig, "--mount", f"{given}:/given")
    code = ("import os,socket\n"
            "for kind, names in ((socket.SOCK_STREAM, ('sock', 'link')), (socket.SOCK_DGRAM, ('gram',))):\n"
            "  for name in names:\n"
            "    for path in (f'/given/{name}', f'/proc/self/root/given/{name}'):\n"
            "      s = socket.socket(socket.AF_UNIX, kind)\n"
            "      try: s.connect(path); s.send(b'x'); print('REACHED', path)\n"
            "      except OSError as e: print(name, e.errno)\n"
            "for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY, os.O_WRONLY | os.O_NONBLOCK):\n"
            "  for name in ('fifo', 'sock'):\n"
            "    try: fd = os.open('/given/' + name, flags | os.O_NONBLOCK); os.write(fd, b'x'); print('WROTE', name)\n"
            "    except OSError as e: print(name, e.errno)\n")
    try:
        for user in ((), ("-u", "root")) if rig.root_inside() else ((),):
            got = rig.cove("exec", *user, "--timeout", "20s", box, "--", "python3", "-c", code)
            need(got.rc == 0 and "REACHED" not in got.text, repr(got))
            for what, receive in (("stream", server.accept), ("datagram", lambda: datagrams.recv(8))):
                try:
                    receive()
                    need(False, f"the box reached the host's {what} socket")
                except BlockingIOError:
                    pass
            try:
                need(os.read(reader, 8) == b"", "bytes of the box came out of the host's FIFO")
            except BlockingIOError:
                need(False, "the box holds the host's FIFO open")
        return " ".join(got.text.split())[:200]
    finally:
        rig.cove("rm", "-f", box).ok()
        for fd in (reader, here):
            os.close(fd)
        server.close()
        datagrams.close()
