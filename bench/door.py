"""The door beside what people put in front of an agent today: mitmproxy, squid, and nothing at all.

One nginx on loopback answers everybody. The client is curl: on the host for a direct connection and for the
others' proxies, in a box for Cove, so that Cove's figures hold everything between a program in the box and the
server: redirect, wire, keeper, door. Contenders take turns; medians are told.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))
import door_rig  # noqa: E402

HOST = "bench.test"
LARGE_MIB = 256


class Server:
    """nginx with one small and one large file, plain and TLS."""

    def __init__(self, rig):
        directory = rig.dir / "bench"
        (directory / "root").mkdir(parents=True)
        (directory / "root/small").write_bytes(b"x" * 1024)
        with open(directory / "root/large", "wb") as out:
            out.write(os.urandom(1 << 20) * LARGE_MIB)
        cert, key = rig.ca.issue(HOST)
        self.port, self.tls_port = door_rig.free_port(), door_rig.free_port()
        temp = "\n".join(f"{kind}_temp_path {directory}/{kind};"
                         for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = f"""
            {"user root;" if os.geteuid() == 0 else ""}
            daemon off; worker_processes 1; worker_rlimit_nofile 8192;
            pid {directory}/pid; error_log {directory}/error.log crit;
            events {{ worker_connections 4096; }}
            http {{
                access_log off; {temp} sendfile on; keepalive_requests 1000000; default_type application/octet-stream;
                server {{
                    listen {door_rig.LOOPBACK}:{self.port}; listen {door_rig.LOOPBACK}:{self.tls_port} ssl;
                    server_name {HOST}; ssl_certificate {cert}; ssl_certificate_key {key};
                    root {directory}/root;
                }}
            }}"""
        (directory / "nginx.conf").write_text(config)
        rig.spawn([door_rig.program("nginx", "nginx-light"), "-p", directory, "-e", directory / "error.log", "-c",
                   directory / "nginx.conf"], self.tls_port)

    def url(self, tls, path):
        return f"http{'s' if tls else ''}://{HOST}:{self.tls_port if tls else self.port}/{path}"


class Direct:
    name = "direct"
    intercepts = None

    def __init__(self, rig, server):
        self.rig, self.server = rig, server
        self.extra = ["--noproxy", "*", "--resolve", f"{HOST}:{server.port}:{door_rig.LOOPBACK}",
                      "--resolve", f"{HOST}:{server.tls_port}:{door_rig.LOOPBACK}"]
        self.ca = rig.ca.pem

    def argv(self, *args):
        return ["curl", "-sS", "--http1.1", "--cacert", self.ca, *self.extra, *args]

    def env(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.rig.dir)}

    def memory_kib(self):
        return None


def rss_kib(pid):
    found = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) if found else 0


class Mitm(Direct):
    name = "mitmproxy"

    def __init__(self, rig, server):
        super().__init__(rig, server)
        binary = door_rig.program("mitmdump", "mitmproxy")
        port, home = door_rig.free_port(), rig.dir / "mitm"
        home.mkdir()
        self.process = rig.spawn([binary, "-q", "--set", f"confdir={home}", "--listen-host", door_rig.LOOPBACK, "-p",
                                  port, "--set", "ssl_verify_upstream_trusted_ca=" + str(rig.ca.pem), "--set",
                                  "stream_large_bodies=1m", "--set", "connection_strategy=lazy", "--map-remote",
                                  f"|//{HOST}:|//{door_rig.LOOPBACK}:", "--set", "ssl_insecure=true"], port)
        self.extra = ["--proxy", f"http://{door_rig.LOOPBACK}:{port}"]
        self.ca = home / "mitmproxy-ca-cert.pem"

    def memory_kib(self):
        return rss_kib(self.process.pid)


class Squid(Direct):
    name = "squid"

    def __init__(self, rig, server):
        super().__init__(rig, server)
        binary = door_rig.program("squid", "squid")
        port, home = door_rig.free_port(), rig.dir / "squid"
        home.mkdir(mode=0o777)
        home.chmod(0o777)
        (home / "hosts").write_text(f"{door_rig.LOOPBACK} {HOST}\n")
        (home / "squid.conf").write_text(f"""
            http_port {door_rig.LOOPBACK}:{port}
            http_access allow all
            cache deny all
            cache_mem 8 MB
            access_log none
            cache_log {home}/cache.log
            pid_filename none
            hosts_file {home}/hosts
            coredump_dir {home}
            netdb_filename none
            shutdown_lifetime 1 seconds
            """)
        self.process = rig.spawn([binary, "-N", "-f", home / "squid.conf"], port)
        self.extra = ["--proxy", f"http://{door_rig.LOOPBACK}:{port}"]

    def memory_kib(self):
        return rss_kib(self.process.pid)


class Cove(Direct):
    """A box of the host's own programs, so that its curl is the one that the others are measured with."""

    def __init__(self, rig, server, place, name, rule):
        super().__init__(rig, server)
        self.name, self.place, self.box = name, place, "bench-" + re.sub(r"\W+", "-", name)
        self.intercepts = "tls" in rule or "methods" in rule
        policy = rig.dir / (self.box + ".yaml")
        policy.write_text(rig.policy([{"allow": HOST, **rule}]))
        place.env["SSL_CERT_FILE"] = rig.env["SSL_CERT_FILE"]
        place.cove("create", "--name", self.box, "--image", "host", "--net", policy, "--files", "8192", "--pids",
                   "4096")
        # Reading a whole bundle takes curl longer than all else together: everybody has one certificate to read.
        if self.intercepts:
            self.trust = ["--cacert", "/dev/cove-trust/box.pem"]
        else:
            place.cove("cp", rig.ca.pem, f"{self.box}:/tmp/ca.pem")
            self.trust = ["--cacert", "/tmp/ca.pem"]

    def argv(self, *args):
        return self.place.argv("exec", self.box, "--", "curl", "-sS", "--http1.1", "--noproxy", "*", *self.trust, *args)

    def env(self):
        return self.place.env

    def doors(self):
        """The door's two processes: what the keeper's launcher started."""
        keeper = None
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"boxes/{self.box}" in " ".join(os.readlink(p) for p in (entry / "fd").iterdir()):
                    keeper = int(entry.name) if (entry / "comm").read_text().strip() == "cove-keeper" else keeper
            except OSError:
                continue
        found = {keeper}
        while True:
            more = {int(e.name) for e in pathlib.Path("/proc").glob("[0-9]*") if parent(e) in found} - found
            if not more:
                break
            found |= more
        return [pid for pid in found if pid and comm(pid) in ("cove-door", "cove-broker")]

    def memory_kib(self):
        return sum(pss_kib(pid) for pid in self.doors())


def parent(entry):
    try:
        return int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return None


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def pss_kib(pid):
    found = re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(found.group(1))


def curl(who, *args):
    done = subprocess.run([str(a) for a in who.argv(*args)], env=who.env(), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != 0:
        raise door_rig.Missing(f"{who.name}: curl said {done.stderr.strip()[-200:]}")
    return done.stdout


def latency_ms(who, server, tls, count):
    """Of requests that follow each other on one connection; the first, which opens it, is left out."""
    out = curl(who, "-o", "/dev/null", "-w", "%{time_total}\\n", f"{server.url(tls, 'small')}?[1-{count}]")
    return [float(line) * 1000 for line in out.split()][1:]


def fresh_ms(who, server, tls, count):
    """Of a request with a connection of its own."""
    return [float(curl(who, "-o", "/dev/null", "-w", "%{time_total}", server.url(tls, "small"))) * 1000
            for _ in range(count)]


def speed_mib(who, server, tls):
    return float(curl(who, "-o", "/dev/null", "-w", "%{speed_download}", server.url(tls, "large"))) / (1 << 20)


def contenders(rig, server, place):
    """Who can run here; and why the others cannot."""
    rules = {"cove, passed through": {}, "cove, intercepted": {"tls": "intercept"}}
    found, missing = [Direct(rig, server)], []
    for make in (lambda: Squid(rig, server), lambda: Mitm(rig, server),
                 *(lambda n=n, r=r: Cove(rig, server, place, n, r) for n, r in rules.items())):
        try:
            found.append(make())
        except (door_rig.Missing, AssertionError) as why:
            missing.append(str(why))
    return found, missing


def measure(who, server, scale):
    rows = {}
    for tls in (False, True):
        rows["keep", tls] = [m for _ in range(scale(5)) for m in latency_ms(who, server, tls, 200)]
        rows["fresh", tls] = fresh_ms(who, server, tls, scale(20))
        rows["speed", tls] = [speed_mib(who, server, tls) for _ in range(scale(5))]
    return {key: statistics.median(values) for key, values in rows.items()}


def crowd(who, server, count):
    """So many connections at once, by one curl: how many were answered, the most memory, the time it took."""
    args = ["-Z", "--parallel-max", count, "--parallel-immediate", "-o", "/dev/null", "-w", "%{http_code}\\n",
            f"{server.url(True, 'small')}?[1-{count}]"]
    begin = time.monotonic()
    process = subprocess.Popen([str(a) for a in who.argv(*args)], env=who.env(), stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
    most = 0
    while process.poll() is None:
        most = max(most, who.memory_kib() or 0)
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
    return process.stdout.read().split().count("200"), most, time.monotonic() - begin


def bench(report, place, scale, table):
    rig = door_rig.DoorRig()
    try:
        server = Server(rig)
        found, missing = contenders(rig, server, place)
        results = {who.name: measure(who, server, scale) for who in found}
        rows = []
        for who in found:
            r = results[who.name]
            memory = who.memory_kib()
            rows.append([who.name, *(f"{r[k, t]:.2f}" for k in ("keep", "fresh") for t in (False, True)),
                         *(f"{r['speed', t]:.0f}" for t in (False, True)), f"{memory / 1024:.1f}" if memory else ""])
        report.section("The door", [
            "One server (nginx) on loopback, one client (curl): on the host for the first three, in a box for Cove. "
            "Milliseconds for 1 KiB on a kept connection and on a fresh one, MiB/s for one download of "
            f"{LARGE_MIB} MiB, MiB of memory afterwards. squid only passes TLS on, mitmproxy and `intercepted` "
            "open it.", *missing])
        report.lines += table(rows, "", "kept, plain", "kept, TLS", "fresh, plain", "fresh, TLS", "plain MiB/s",
                              "TLS MiB/s", "MiB")
        goals(report, results, found)
        crowds(report, server, found)
    finally:
        rig.stop()
        shutil.rmtree(rig.dir, ignore_errors=True)


def crowds(report, server, found):
    took = {}
    for who in found:
        answered, kib, seconds = crowd(who, server, 1000)
        took[who.name] = seconds
        report.goal(f"1,000 connections at once with TLS, {who.name}",
                    f"{answered} answered in {seconds:.2f} s" + (f", {kib / 1024:.0f} MiB" if kib else ""))
    if "mitmproxy" in took and "cove, intercepted" in took:
        ratio = took["mitmproxy"] / took["cove, intercepted"]
        report.goal("of those a second, intercepted / mitmproxy", f"{ratio:.1f}x")


def goals(report, results, found):
    mine, direct = results.get("cove, intercepted"), results["direct"]
    if not mine:
        return
    added = mine["keep", True] - direct["keep", True]
    report.goal("added latency, intercepted, p50", f"{added:.2f} ms (goal at most 1 ms: "
                f"{'met' if added <= 1 else 'not met'})")
    if "mitmproxy" in results:
        ratio = mine["speed", True] / results["mitmproxy"]["speed", True]
        report.goal("throughput intercepted / mitmproxy", f"{ratio:.1f}x (goal at least 5x: "
                    f"{'met' if ratio >= 5 else 'not met'})")
    cove_door = next(w for w in found if w.name == "cove, intercepted")
    memory = cove_door.memory_kib() / 1024
    report.goal("a door's memory after that, both processes, PSS", f"{memory:.1f} MiB (goal at most 8 MiB: "
                f"{'met' if memory <= 8 else 'not met'})")
    proxy = [rss_kib(pid) for pid in cove_door.doors() if comm(pid) == "cove-door"]
    report.goal("and its proxy's resident memory, shared libraries included", f"{sum(proxy) / 1024:.1f} MiB")
