"""What `cove serve` costs, over its Unix socket, by a client of Python's standard library. Part of bench/run."""
import concurrent.futures
import http.client
import json
import os
import socket
import statistics
import subprocess
import time


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=600)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        self.request(method, path, None if body is None else json.dumps(body))
        response = self.getresponse()
        data = response.read()
        if response.status >= 300:
            raise AssertionError(f"{method} {path}: {response.status} {data[:300]!r}")
        return json.loads(data) if data else None


def timed(work):
    at = time.perf_counter()
    work()
    return (time.perf_counter() - at) * 1000


def p(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Server:
    def __init__(self, place, path):
        self.place, self.path = place, path
        self.start()

    def start(self):
        """Milliseconds until it listens."""
        at = time.perf_counter()
        self.process = subprocess.Popen(self.place.argv("serve", "--socket", self.path), env=self.place.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not self.process.stdout.readline().startswith(b"listening"):
            raise AssertionError("cove serve does not listen")
        return (time.perf_counter() - at) * 1000

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def memory(self):
        """MiB resident, shared libraries included."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024

    def connection(self):
        return Connection(self.path)


def creates(server, image, rounds):
    """Milliseconds of a create with its first command, one after the other."""
    c, times = server.connection(), []
    for i in range(rounds):
        body = {"name": f"srv-{i}", "image": image, "command": {"line": ":"}}
        times.append(timed(lambda: c.ask("POST", "/v1/boxes", body)))
        c.ask("DELETE", f"/v1/boxes/srv-{i}?force=1")
    return times


def from_pool(server, image, rounds, size=4):
    """The same where boxes were made ahead: each is asked for when the pool is full again, as its filler works then."""
    c, times = server.connection(), []

    def full():
        while c.ask("GET", "/v1/pools")["pools"][0]["ready"] < size:
            time.sleep(0.01)
    c.ask("PUT", "/v1/pools", {"image": image, "size": size})
    for i in range(rounds):
        full()
        body = {"name": f"warm-{i}", "image": image, "command": {"line": ":"}}
        times.append(timed(lambda: c.ask("POST", "/v1/boxes", body)))
        c.ask("DELETE", f"/v1/boxes/warm-{i}?force=1")
    c.ask("DELETE", f"/v1/pools?image={image}")
    return times


def burst(server, image, count):
    """Milliseconds of each of so many creates that come at once."""
    def one(i):
        body = {"name": f"many-{i}", "image": image, "command": {"line": ":"}}
        return timed(lambda: server.connection().ask("POST", "/v1/boxes", body))
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def streams(server, box, count):
    """MiB of the server with so many commands whose output is followed, and none."""
    before, held = server.memory(), []
    for _ in range(count):
        c = server.connection()
        c.request("POST", f"/v1/boxes/{box}/exec", json.dumps({"argv": ["sleep", "60"]}),
                  {"Accept": "text/event-stream"})
        c.getresponse().readline()
        held.append(c)
    after = server.memory()
    for c in held:
        c.close()
    return before, after


def idle(server, count):
    held, before = [], server.memory()
    for _ in range(count):
        s = socket.socket(socket.AF_UNIX)
        s.connect(server.path)
        held.append(s)
    server.connection().ask("GET", "/healthz")
    after = server.memory()
    for s in held:
        s.close()
    return before, after


def transfer(server, box, megabytes):
    """MB/s up and down."""
    data = os.urandom(1 << 20) * megabytes
    c = server.connection()
    up = timed(lambda: (c.request("PUT", f"/v1/boxes/{box}/files?path=/tmp/big", data), c.getresponse().read()))

    def get():
        c.request("GET", f"/v1/boxes/{box}/files?path=/tmp/big")
        response = c.getresponse()
        while response.read(1 << 20):
            pass
    down = timed(get)
    return len(data) / 1e3 / up, len(data) / 1e3 / down


def measure(report, place, scale, table, verdict, work):
    server, rows = Server(place, f"{work}/s"), []
    try:
        times = creates(server, place.image, scale(60))
        rows.append(["create and first command", f"{statistics.median(times):.2f}", f"{p(times, .99):.2f}"])
        report.goal("server: create and first command, p50", verdict(statistics.median(times), 12, " ms"))
        times = from_pool(server, place.image, scale(60))
        rows.append(["the same, from a pool", f"{statistics.median(times):.2f}", f"{p(times, .99):.2f}"])
        report.goal("server: create and first command from a pool, p50", verdict(statistics.median(times), 3, " ms"))
        c = server.connection()
        c.ask("POST", "/v1/boxes", {"name": "kept", "image": place.image})
        for title, body, goal in (("a line (`:`) in a shell", {"line": ":", "shell": "default"}, 0.6),
                                  ("`/bin/true`", {"argv": ["/bin/true"]}, None), ("`GET /healthz`", None, None)):
            times = [timed(lambda: c.ask("POST", "/v1/boxes/kept/exec", body) if body else c.ask("GET", "/healthz"))
                     for _ in range(scale(2000))]
            rows.append([title, f"{statistics.median(times):.3f}", f"{p(times, .99):.3f}"])
            if goal:
                report.goal("server: a builtin over a kept connection, p50",
                            verdict(statistics.median(times), goal, " ms"))
        count = scale(100)
        times = burst(server, place.image, count)
        rows.append([f"{count} creates at once, each", f"{statistics.median(times):.0f}",
                     f"{max(times):.0f} (the last)"])
        report.goal(f"server: the last of {count} creates at once", verdict(max(times), 600, " ms", 0))
        before, after = streams(server, "kept", scale(200))
        report.goal(f"server: resident memory with {scale(200)} streams", verdict(after, 20, " MiB", 1))
        idle_before, idle_after = idle(server, scale(10000))
        up, down = transfer(server, "kept", scale(1024))
        server.kill()
        again = server.start()
        report.section("`cove serve`, over its Unix socket, milliseconds", [
            f"Resident: {before:.1f} MiB, with {scale(200)} commands whose output is followed {after:.1f} MiB, with "
            f"{scale(10000):,} idle connections {idle_after - idle_before:.1f} MiB more. {scale(1024)} MiB up at "
            f"{up:.0f} MB/s, down at {down:.0f} MB/s. Killed and started again beside {count + 1} boxes: serving after "
            f"{again:.0f} ms."])
        report.lines += table(rows, "", "median", "p99")
    finally:
        server.kill()
        place.cove("rm", "-f", *place.cove("ls", "-q", check=False).stdout.split(), check=False)
