"""`cove serve` beside others that do the same work: Docker's own API, nginx, libcove without a server; and what many
streams and many boxes cost it. Parts of bench/run, each for itself."""
import concurrent.futures
import contextlib
import http.client
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import time

import engine
from serving import Connection, Server, p, timed

API = "/v1.40"  # of the engine: as old as Debian's
TIMES_NGINX = 3  # the goal: at least a third of its speed
BLOCK = 1 << 20
NGINX = """daemon off; master_process off; pid {top}/pid; error_log {top}/log;
events {{ }}
http {{
    access_log off; client_max_body_size 0; client_body_temp_path {top}/body; sendfile on;
    server {{ listen unix:{top}/sock; root {top}/files; location / {{ dav_methods PUT; }} }}
}}
"""


@contextlib.contextmanager
def serving(place, work):
    server = Server(place, f"{work}/s")
    try:
        yield server
    finally:
        server.kill()
        place.cove("rm", "-f", *place.cove("ls", "-q", check=False).stdout.split(), check=False)


# ---- Docker's API ----

class Engine:
    """A client of it, as `Connection` is one of ours."""

    def __init__(self, path):
        self.path, self.c = path, Connection(path)

    def ask(self, method, path, body=None):
        self.c.request(method, API + path, None if body is None else json.dumps(body),
                       {"Content-Type": "application/json"})
        response = self.c.getresponse()
        data = response.read()
        if response.status >= 300:
            raise engine.Absent(f"docker {method} {path}: {response.status} {data[:100]!r}")
        return json.loads(data) if data[:1] in (b"{", b"[") else data

    def make(self, name):
        made = self.ask("POST", f"/containers/create?name={name}",
                        {"Image": "bench", "Cmd": ["sleep", "7200"], "HostConfig": {"NetworkMode": "none"}})
        self.ask("POST", f"/containers/{made['Id']}/start")
        return made["Id"]

    def run(self, container, argv):
        """A command and what it printed. The engine keeps no connection after that."""
        made = self.ask("POST", f"/containers/{container}/exec",
                        {"Cmd": argv, "AttachStdout": True, "AttachStderr": True})
        c = Connection(self.path)
        c.request("POST", f"{API}/exec/{made['Id']}/start", json.dumps({"Detach": False, "Tty": False}),
                  {"Content-Type": "application/json"})
        c.getresponse().read()
        c.close()
        return self.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"]


def engine_times(path, rounds, many):
    docker, creates, commands = Engine(path), [], []

    def one(i, client):
        name = client.make(f"peer-{i}")
        if client.run(name, ["sh", "-c", ":"]):
            raise engine.Absent("a command fails in a container")
        return name
    for i in range(rounds):
        creates.append(timed(lambda: one(i, docker)))
    commands = [timed(lambda: docker.run("peer-0", ["/bin/true"])) for _ in range(rounds * 4)]
    at = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(many) as pool:
        list(pool.map(lambda i: one(f"many-{i}", Engine(path)), range(many)))
    return creates, commands, (time.perf_counter() - at) * 1000


def cove_times(server, image, rounds, many):
    c = server.connection()

    def one(name, client):
        done = client.ask("POST", "/v1/boxes", {"name": name, "image": image, "command": {"line": ":"}})
        if done["result"]["exit_code"]:
            raise AssertionError("a command fails in a box")
    creates = [timed(lambda: one(f"peer-{i}", c)) for i in range(rounds)]
    commands = [timed(lambda: c.ask("POST", "/v1/boxes/peer-0/exec", {"argv": ["/bin/true"]}))
                for _ in range(rounds * 4)]
    at = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(many) as pool:
        list(pool.map(lambda i: one(f"many-{i}", server.connection()), range(many)))
    return creates, commands, (time.perf_counter() - at) * 1000


def row(title, creates, commands, burst):
    return [title, f"{statistics.median(creates):.1f}", f"{p(creates, .99):.1f}", f"{statistics.median(commands):.2f}",
            f"{burst:.0f}"]


def measure_docker(report, place, scale, table, work):
    rounds, many = scale(40), scale(20)
    with serving(place, work) as server:
        rows = [row("`cove serve`", *cove_times(server, place.image, rounds, many))]
    try:
        with engine.started(work / "engine") as (docker, _):
            tar = subprocess.Popen(["tar", "-C", str(place.rootfs), "-c", "."], stdout=subprocess.PIPE)
            docker("import", "-", "bench", stdin=tar.stdout)
            tar.wait()
            rows.append(row("Docker", *engine_times(f"{work}/engine/sock", rounds, many)))
    except engine.Absent as absent:
        rows.append(["Docker", str(absent), "", "", ""])
    report.section("The same work over HTTP, beside Docker's API, milliseconds", [
        f"Each over its Unix socket, with the same root file system and no network: make and start, then `sh -c :`; "
        f"{many} of them at once; `/bin/true` in one that runs. Docker takes four requests for the first and three for "
        "the last."])
    report.lines += table(rows, "", "create and command", "p99", "/bin/true", f"{many} at once, all")


# ---- nginx ----

def take(path, target, into):
    """Bytes of an answer's body, by the same few calls for everybody."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = s.recv(8192)
        while b"\r\n\r\n" not in got:
            got += s.recv(8192)
        if not got.startswith(b"HTTP/1.1 200"):
            raise AssertionError(got[:300])
        count = len(got) - got.index(b"\r\n\r\n") - 4
        while n := s.recv_into(into):
            count += n
        return count


def give(path, target, block, blocks):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(f"PUT {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  f"Content-Length: {len(block) * blocks}\r\n\r\n".encode())
        for _ in range(blocks):
            s.sendall(block)
        answer = s.recv(8192)
        if not answer.startswith(b"HTTP/1.1 20"):
            raise AssertionError(answer[:300])


@contextlib.contextmanager
def nginx(top):
    """Its socket. Absent where it does not run."""
    if not shutil.which("nginx"):
        raise engine.Absent("nginx is not installed")
    (top / "files").mkdir(parents=True)
    (top / "conf").write_text(("user root;\n" if os.geteuid() == 0 else "") + NGINX.format(top=top))
    process = subprocess.Popen(["nginx", "-p", str(top), "-c", str(top / "conf")], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 10
        while not (top / "sock").exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        if not (top / "sock").exists():
            raise engine.Absent("nginx does not start here")
        yield str(top / "sock")
    finally:
        process.terminate()
        process.wait()


def measure_transfer(report, place, scale, table, verdict, work):
    """Turn by turn, so that what else the machine does is the same for both."""
    blocks, data, into = scale(1024), os.urandom(BLOCK), bytearray(BLOCK)
    files = "/v1/boxes/big/files?path=/tmp/big"
    with contextlib.ExitStack() as undo:
        server = undo.enter_context(serving(place, work))
        server.connection().ask("POST", "/v1/boxes", {"name": "big", "image": place.image})
        who = {"cove serve": (server.path, files)}
        try:
            who["nginx"] = (undo.enter_context(nginx(work / "nginx")), "/big")
        except engine.Absent as absent:
            report.lines += [f"nginx: {absent}", ""]
        rates = {(name, way): [] for name in who for way in ("up", "down")}
        for _ in range(3):
            for name, (path, target) in who.items():
                took = timed(lambda: give(path, target, data, blocks))
                rates[name, "up"].append(blocks * BLOCK / 1e3 / took)
            for name, (path, target) in who.items():
                count = [0]

                def get():
                    count[0] = take(path, target, into)
                took = timed(get)
                if count[0] != blocks * BLOCK:
                    raise AssertionError(f"{name}: {count[0]} bytes came")
                rates[name, "down"].append(count[0] / 1e3 / took)
    best = {key: statistics.median(values) for key, values in rates.items()}
    report.section(f"{blocks} MiB over a Unix socket, MB/s", [
        "Medians of three, in turn, by one client. cove serve's file is in a box, nginx's on the host."])
    report.lines += table([[name, f"{best[name, 'up']:.0f}", f"{best[name, 'down']:.0f}"] for name in who], "", "up",
                          "down")
    if "nginx" in who:
        for way in ("up", "down"):
            report.goal(f"server: {way}load against nginx's time",
                        verdict(best["nginx", way] / best["cove serve", way], TIMES_NGINX, "x"))


# ---- streams ----

def asks(path, body, seconds, queue):
    c, count, end = Connection(path), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        if body:
            c.ask("POST", "/v1/boxes/kept/exec", body)
        else:
            c.ask("GET", "/healthz")
        count += 1
    queue.put(count)


def per_second(path, body, seconds, clients=4):
    queue = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=asks, args=(path, body, seconds, queue)) for _ in range(clients)]
    for w in workers:
        w.start()
    total = sum(queue.get() for _ in workers)
    for w in workers:
        w.join()
    return total / seconds


def streaming(server, count):
    """Commands that print four times a second, whose output is read as it comes."""
    held = []
    for _ in range(count):
        c = server.connection()
        c.request("POST", "/v1/boxes/kept/exec", json.dumps({"line": "while sleep 0.25; do echo tick; done"}),
                  {"Accept": "text/event-stream"})
        held.append(c.getresponse())
    return held


def reading(held, stop):
    import selectors
    with selectors.DefaultSelector() as ready:
        for r in held:
            ready.register(r.fp.raw, selectors.EVENT_READ)
        while not stop.is_set():
            for key, _ in ready.select(0.1):
                key.fileobj.readinto(bytearray(65536))


def measure_streams(report, place, scale, table, verdict, work, libcove):
    """libcove(line) measures it without a server, in milliseconds."""
    import threading
    count, seconds, rows = scale(200), 3 if scale(100) == 100 else 1, []
    with serving(place, work) as server:
        c = server.connection()
        c.ask("POST", "/v1/boxes", {"name": "kept", "image": place.image, "pids": 4000})
        for line in (":", "/bin/true"):
            ours = [timed(lambda: c.ask("POST", "/v1/boxes/kept/exec", {"line": line, "shell": "bench"}))
                    for _ in range(scale(1000))]
            plain = libcove("kept", line)
            more = statistics.median(ours) - statistics.median(plain)
            rows.append([f"`{line}`, over HTTP / through libcove, ms", f"{statistics.median(ours):.3f}",
                         f"{statistics.median(plain):.3f}"])
            report.goal(f"server: `{line}` over libcove's own time", verdict(more, 0.3, " ms"))
        bodies = {"`GET /healthz`": None, "`/bin/true`": {"argv": ["/bin/true"]}}
        alone = {name: per_second(server.path, body, seconds) for name, body in bodies.items()}
        held, stop = streaming(server, count), threading.Event()
        reader = threading.Thread(target=reading, args=(held, stop))
        reader.start()
        try:
            beside = {name: per_second(server.path, body, seconds) for name, body in bodies.items()}
            memory = server.memory()
        finally:
            stop.set()
            reader.join()
    rows += [[f"{name}, requests/s of four clients", f"{alone[name]:.0f}", f"{beside[name]:.0f}"] for name in bodies]
    report.section(f"`cove serve` beside {count} streams", [
        f"The second number of requests/s is with {count} commands open that print four times a second, each followed "
        f"by a client; the server then has {memory:.1f} MiB resident."])
    report.lines += table(rows, "", "alone / HTTP", "beside / libcove")
    report.goal(f"server: resident memory with {count} streams that print", verdict(memory, 20, " MiB", 1))


# ---- a restart beside many boxes ----

def measure_restart(report, place, scale, table, verdict, work, make_boxes):
    count = scale(1000)
    took, _ = make_boxes(place, count, "live")
    with serving(place, work) as server:
        def serves():
            """Until it has answered, which it cannot before it listens."""
            begun = time.perf_counter()
            server.start()
            while True:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    server.connection().ask("GET", "/healthz")
                    return (time.perf_counter() - begun) * 1000
        times = []
        for _ in range(5):
            server.kill()
            times.append(serves())
        c = server.connection()
        listed = timed(lambda: c.ask("GET", "/v1/boxes?limit=1000"))
        line = timed(lambda: c.ask("POST", f"/v1/boxes/live-{count - 1}/exec", {"line": ":"}))
        memory = server.memory()
    report.section(f"kill -9 of `cove serve` and its next start, beside {count:,} boxes that run", [
        f"The boxes were made in {took:.0f} ms. Then listing them takes {listed:.0f} ms and a command in one of them "
        f"{line:.1f} ms; the server has {memory:.1f} MiB resident."])
    report.lines += table([["until it answers, ms", f"{statistics.median(times):.0f}", f"{max(times):.0f}"]], "",
                          "median of five", "most")
    report.goal(f"server: serving again beside {count:,} boxes", verdict(max(times), 1000, " ms", 0))
