"""C: what a box makes its keeper and its door use is counted, bounded, and no neighbour's to pay for."""
import pathlib
import selectors
import socket
import threading

from door_ground import ground
from host_limits import needs
from rig import DEADLINE, Broke, NotApplicable, case, need

NARROW, WIDE = 128 << 10, 128 << 20  # what src/base/limits.h says, as the kernel doubles it
LIMIT_MILLI = 200


class Flood:
    """A server that sends to everybody who says something, for as long as it is taken. Its own buffers are
    small: what is on the way is in the client's."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 << 10)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1024)
        self.port, self.stop = self.listener.getsockname()[1], False
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        block, poll = bytes(256 << 10), selectors.DefaultSelector()
        poll.register(self.listener, selectors.EVENT_READ)
        while not self.stop:
            for key, _ in poll.select(0.2):
                if key.fileobj is self.listener:
                    conn = self.listener.accept()[0]
                    conn.setblocking(False)
                    poll.register(conn, selectors.EVENT_WRITE)
                    continue
                try:
                    key.fileobj.send(block)
                except BlockingIOError:
                    pass
                except OSError:
                    poll.unregister(key.fileobj)
                    key.fileobj.close()
        for key in list(poll.get_map().values()):
            key.fileobj.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()


def held_for(port):
    """What the kernel holds unread, for each connection of this machine to that port."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(r[4].split(":")[1], 16) for r in rows if int(r[2].split(":")[1], 16) == port and r[3] == "01"]


def wide_max():
    """How many sockets the kernel may tune, as src/net/channel_tcp.c reckons it."""
    most = [int(pathlib.Path(f"/proc/sys/net/ipv4/tcp_{k}mem").read_text().split()[2]) for k in "rw"]
    return max(1, WIDE // sum(most))


HOLD = """
held, address = [], socket.gethostbyname('budget.test')
for i in range(count):
    s = dial(address, port, 60)
    s.sendall(b'x')
    got = 0
    while i < eager and got < (4 << 20):  # a fast reader: the kernel gives it larger and larger buffers
        part = s.recv(1 << 20)
        if not part:
            break
        got += len(part)
    held.append(s)
print('held', len(held), flush=True)
sys.stdin.read()
"""


@case("C7_unread_connections", "C7", "1,000 connections that a box does not read hold little outside it, and a "
      "neighbour's download is whole")
def unread(rig):
    g, count, eager = ground(rig), 1000, 24
    with Flood() as flood, g.own_box([{"allow": "budget.test"}]) as box, g.own_box([{"allow": "budget.test"}]) as other:
        holder = g.start(HOLD, box, port=flood.port, count=count, eager=eager)
        said = holder.stdout.readline()
        if b"held" not in said:
            problem = holder.communicate(timeout=DEADLINE)[1].decode(errors="replace")
            if "No such file" in problem:
                raise NotApplicable("this image has no python3")
            raise Broke(f"the box could not open its connections: {problem[-300:]}")
        size = g.run("""
s = dial('budget.test', port)
s.sendall(b'x')
got = 0
while got < (16 << 20):
    got += len(s.recv(1 << 20)) or 1 << 62
say(got)""", other, port=flood.port)
        held = held_for(flood.port)
        numbers = rig.cove("stats", "--json", box).ok().json[0]
        holder.communicate(b"", timeout=DEADLINE)
    need(16 << 20 <= size < 32 << 20, f"the neighbour got {size} bytes")
    large = [n for n in held if n > 2 * NARROW]
    # The neighbour's own door has its own.
    need(len(held) >= count // 2 and len(large) <= wide_max() + 1,
         f"of {len(held)} connections {len(large)} hold more than {2 * NARROW >> 10} KiB: {sorted(large)[-5:]}")
    door = numbers["door_mem_bytes"]
    return (f"{sum(held) >> 20} MiB unread in {len(held)} connections; its door has "
            f"{'memory nobody counts' if door is None else f'{door >> 20} MiB'}")


# A hello that was made once costs the box next to nothing, and the door a signature each time.
BUSY = """
out = ssl.MemoryBIO()
context = ssl.create_default_context()
tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname='raw.test')
try:
    tls.do_handshake()
except ssl.SSLWantReadError:
    pass
hello, address, n = out.read(), socket.gethostbyname('raw.test'), 0
for i in range(count):
    try:
        socks = [dial(address, port, 20) for i in range(8)]
        for s in socks:
            s.sendall(hello)
        for s in socks:
            n += len(s.recv(65536))
            s.close()
    except OSError:
        pass
say(n)
"""


@case("C5_helpers_have_its_share", "C5", "keeper and both processes of the door are in groups of the box's, and the "
      "door of a box with a fifth of a processor uses no more")
def share(rig):
    needs(rig, "cpu")
    g = ground(rig)
    with g.own_box([{"allow": "raw.test", "tls": "intercept"}], "--cpus", "0.2") as box:
        def numbers():
            return rig.cove("stats", "--json", box).ok().json[0]
        g.run(BUSY, box, port=g.raw.tls_port, count=1)
        before = numbers()
        need(g.run(BUSY, box, port=g.raw.tls_port, count=60) > 0, "the door answered no hello")
        after, doors = numbers(), g.doors(box)
        need(len(doors) == 2, f"{len(doors)} processes of the door")
        for pid, word in [(rig.keeper(box), "+keeper")] + [(pid, "+door") for pid in doors]:
            groups = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
            need(f"-{box}{word}" in groups, f"{word[1:]} {pid} is in {groups!r}")
    need(after["door_cpu_limit_milli"] == LIMIT_MILLI, f"the door's limit is {after['door_cpu_limit_milli']}")
    used, lived = after["door_cpu_us"] - before["door_cpu_us"], (after["uptime_ms"] - before["uptime_ms"]) * 1000
    need(after["door_cpu_us"] > 0 and after["door_mem_bytes"] > 0 and after["keeper_mem_bytes"] > 0, f"{after}")
    # Every period begins with its share anew.
    need(used <= lived * 0.2 + 100_000, f"the door used {used} us in {lived} us")
    return f"the door used {used // 1000} ms in {lived // 1000} ms"
