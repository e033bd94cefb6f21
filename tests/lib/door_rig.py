"""A small internet on loopback, for the tests and attacks at the door: an authority, names, and servers.

    rig = DoorRig()             # a directory of its own below /tmp
    rig.web, rig.other          # Web (door_servers.py): web.test and other.test, plain and TLS
    rig.dns                     # what *.test resolves to, and what was asked
    rig.nginx(), rig.redis(), rig.sshd(), rig.websocket()   # real servers, started when first used
    rig.policy(rules, **top)    # a policy's text that uses this DNS server
    rig.secret("NAME")          # a decoy that belongs to this run alone
    rig.stop()

The test's authority is trusted by a door when `cove` runs with rig.env (SSL_CERT_FILE). Nothing listens on
other addresses than 127.0.0.1, and every process started here is ended by its pid. A server whose program is
missing raises Missing with what to install.

find_decoys() looks for the decoys of this run in places where they must never be.
"""
import asyncio
import base64
import errno
import hashlib
import io
import json
import os
import pathlib
import pwd
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time
import zipfile

import door_servers
from door_servers import LOOPBACK, Tcp, Web

START = 90  # seconds until a server that was started must listen
LARGE = 64 << 20


class Missing(Exception):
    """A program that Debian has and this machine has not."""


def program(name, package):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Missing(f"{name} is missing (Debian package {package})")
    return found


CLAIMS = []  # sockets whose names say which ports are this process's


def free_port():
    """A port that stays free until somebody here listens on it: below those that connections are given, and claimed
    among all test processes of this machine."""
    while True:
        port, claim = secrets.randbelow(12000) + 18000, socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0cove-test-port-{port}")
            with socket.create_server((LOOPBACK, port)):
                CLAIMS.append(claim)
                return port
        except OSError:
            claim.close()


class Authority:
    """A certificate authority by the openssl program, in a directory."""

    def __init__(self, directory, name="Cove test authority"):
        self.dir = directory
        self.pem, self.key = directory / "ca.pem", directory / "ca.key"
        self._openssl("req", "-x509", *self._new_key(self.key), "-out", self.pem, "-days", "3", "-subj", f"/CN={name}")

    @staticmethod
    def _new_key(path):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path]

    @staticmethod
    def _openssl(*args):
        argv = [program("openssl", "openssl"), *map(str, args)]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 0, f"{argv}\n{done.stderr}"

    def issue(self, *names, days=2, client=False):
        """Certificate and key for these names: two paths."""
        stem = self.dir / (re.sub(r"\W", "_", names[0]) + ("" if days > 0 else "-expired"))
        cert, key, csr = (stem.with_suffix(s) for s in (".pem", ".key", ".csr"))
        usage = "clientAuth" if client else "serverAuth"
        self._openssl("req", *self._new_key(key), "-subj", f"/CN={names[0]}", "-out", csr, "-addext",
                      "subjectAltName=" + ",".join(("IP:" if n[0].isdigit() else "DNS:") + n for n in names),
                      "-addext", f"extendedKeyUsage={usage}")
        self._openssl("x509", "-req", "-in", csr, "-CA", self.pem, "-CAkey", self.key, "-days", days,
                      "-copy_extensions", "copy", "-out", cert)
        csr.unlink()
        return cert, key

    def context(self, *names, days=2, clients=False, versions=None):
        """For a server of these names; clients: they must show a certificate of this authority."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(*self.issue(*names, days=days))
        made.set_alpn_protocols(["http/1.1"])
        if clients:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(self.pem)
        if versions:
            made.minimum_version = made.maximum_version = versions
        return made

    def trust(self):
        """For a client on the host."""
        return ssl.create_default_context(cafile=str(self.pem))


class DoorRig:
    """See the top of the file."""

    def __init__(self, top="/tmp"):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cvrig", dir=top))
        self.dir.chmod(0o755)
        self.processes, self.services, self.started, self.made = [], [], {}, []
        self.token = secrets.token_hex(12)
        self.values = {}
        (self.dir / "ca").mkdir(mode=0o700)
        self.ca = Authority(self.dir / "ca")
        bundle = self.dir / "trusted.pem"
        bundle.write_bytes(self.ca.pem.read_bytes())
        bundle.chmod(0o644)
        self.env = {"SSL_CERT_FILE": str(bundle)}
        self.dns = door_servers.Dns()
        self.web = self.new_web("web.test", "*.web.test")
        self.other = self.new_web("other.test")
        self.echo = self.new_tcp(door_servers.echo)
        self.digest = self.new_tcp(door_servers.digest_at_end)
        self.early = self.new_tcp(door_servers.talk_then_listen)

    def new_web(self, *names, **kw):
        web = Web(self.ca.context(*names, **kw))
        self.services.append(web)
        return web

    def new_tcp(self, function, **kw):
        service = Tcp(function, **kw)
        self.services.append(service)
        return service

    def url(self, path="/", host="web.test", web=None, tls=True):
        web = web or {"other.test": self.other}.get(host, self.web)
        return f"http{'s' if tls else ''}://{host}:{web.tls_port if tls else web.port}{path}"

    # policies and secrets

    def policy(self, rules, **top):
        """YAML, of which JSON is a part. A rule that says nothing of ports gets any, and as its hosts are at
        127.0.0.1 it is private, unless it says so or denies."""
        full = []
        for rule in rules:
            rule = dict(rule)
            rule.setdefault("ports", "any")
            if "deny" not in rule:
                rule.setdefault("private", True)
            full.append(rule)
        return json.dumps({"version": 1, "resolver": f"{LOOPBACK}:{self.dns.port}", **top, "rules": full}, indent=1)

    def secret(self, name):
        """The decoy of this name: a word like a real token, with this run's mark in it."""
        return self.values.setdefault(name, f"sk-{name.lower()}-{self.token}-{secrets.token_hex(4)}")

    def needles(self):
        """This run's mark, and how it looks within base64 at each alignment."""
        found = [self.token.encode()]
        for lead in range(3):
            text = base64.b64encode(b"\0" * lead + self.token.encode())
            found.append(text[4 if lead else 0:len(text) // 4 * 4 - 4])
        return found

    # processes

    def spawn(self, argv, port, **kw):
        """A server that is there when its port answers."""
        log = open(self.dir / f"{pathlib.Path(argv[0]).name}.log", "ab")
        kw.setdefault("env", {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": str(self.dir)})
        # It does not outlive a test that is killed.
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *map(str, argv)], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True, **kw)
        log.close()
        self.processes.append(process)
        end = time.monotonic() + START
        while True:
            assert process.poll() is None, f"{argv[0]} ended: {pathlib.Path(log.name).read_text()}"
            try:
                socket.create_connection((LOOPBACK, port), 1).close()
                return process
            except OSError:
                assert time.monotonic() < end, f"{argv[0]} does not listen"
                time.sleep(0.01)

    def once(self, name, make):
        if name not in self.started:
            self.started[name] = make()
        return self.started[name]

    def nginx(self):
        return self.once("nginx", lambda: Nginx(self))

    def redis(self):
        """The port of a redis server."""
        def make():
            port, server = free_port(), self.dir / "redis-server"
            # One binary with several names, of which redis-tools has this: no service comes with it.
            server.symlink_to(program("redis-check-rdb", "redis-tools"))
            self.spawn([server, "--port", port, "--bind", LOOPBACK, "--save", "",
                        "--appendonly", "no", "--dir", self.dir, "--daemonize", "no"], port)
            return port
        return self.once("redis", make)

    def sshd(self):
        return self.once("sshd", lambda: Sshd(self))

    def websocket(self):
        """Ports (plain, TLS) of an echo server by python3-websockets."""
        return self.once("websocket", lambda: WebSockets(self).ports)

    def git(self):
        """Makes web.test/git/: project.git, with one commit."""
        def make():
            self.web.repositories = make_repository(self.dir / "git")
            return self.web.repositories
        return self.once("git", make)

    def index(self):
        """Makes index.test: a Python package index and an npm registry, with a package `covetest` each."""
        def make():
            web = self.new_web("index.test")
            web.files.update(python_index())
            web.files.update(npm_registry(f"https://index.test:{web.tls_port}"))
            return web
        return self.once("index", make)

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(START)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in ("websocket_server",):
            if name in self.started:
                self.started[name].stop()
        for service in self.services:
            service.stop()
        self.dns.stop()
        for path in self.made:
            os.rmdir(path)
        shutil.rmtree(self.dir, ignore_errors=True)


class Nginx:
    """nginx.test: files (also a large one), a redirect, and a page behind it, plain and TLS."""

    def __init__(self, rig):
        binary = program("nginx", "nginx-light")
        self.dir = rig.dir / "nginx"
        (self.dir / "root").mkdir(parents=True)
        (self.dir / "root/index.html").write_text("nginx says hello\n")
        (self.dir / "root/large").write_bytes(door_servers.pattern(LARGE))
        cert, key = rig.ca.issue("nginx.test")
        self.port, self.tls_port = free_port(), free_port()
        temp = "\n".join(f"{kind}_temp_path {self.dir}/{kind};"
                         for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = f"""
            daemon off; worker_processes 1; pid {self.dir}/pid; error_log {self.dir}/error.log;
            events {{ worker_connections 1024; }}
            http {{
                access_log off; {temp} client_max_body_size 0;
                types {{ text/html html; }} default_type application/octet-stream;
                server {{
                    listen {LOOPBACK}:{self.port}; listen {LOOPBACK}:{self.tls_port} ssl http2;
                    server_name nginx.test; ssl_certificate {cert}; ssl_certificate_key {key};
                    root {self.dir}/root;
                    location = /moved {{ return 301 /index.html; }}
                    location = /away {{ return 302 {rig.url("/echo", "other.test")}; }}
                    location /behind/ {{ proxy_pass http://{LOOPBACK}:{rig.web.port}/; proxy_http_version 1.1;
                                         proxy_request_buffering off; proxy_buffering off; }}
                }}
            }}"""
        if os.geteuid() == 0:
            config = "user root;" + config
        (self.dir / "nginx.conf").write_text(config)
        rig.spawn([binary, "-p", self.dir, "-e", self.dir / "error.log", "-c", self.dir / "nginx.conf"], self.tls_port)


class Sshd:
    """An ssh server for the user who runs the tests, with a key of its own."""

    def __init__(self, rig):
        binary = program("sshd", "openssh-server")
        keygen = program("ssh-keygen", "openssh-client")
        self.dir = rig.dir / "ssh"
        self.dir.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", self.dir / name], check=True)
        shutil.copy(self.dir / "user.pub", self.dir / "authorized_keys")
        self.port, self.user = free_port(), pwd.getpwuid(os.geteuid()).pw_name
        self.private = (self.dir / "user").read_text()
        self.known = f"[ssh.test]:{self.port} " + (self.dir / "host.pub").read_text()
        (self.dir / "config").write_text(f"""
            ListenAddress {LOOPBACK}:{self.port}
            HostKey {self.dir}/host
            AuthorizedKeysFile {self.dir}/authorized_keys
            PidFile none
            UsePAM no
            StrictModes no
            PermitRootLogin prohibit-password
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            """)
        if os.geteuid() == 0 and not os.path.exists("/run/sshd"):
            os.mkdir("/run/sshd", 0o755)  # where it locks itself in; the package's service makes it
            rig.made.append("/run/sshd")
        rig.spawn([binary, "-D", "-e", "-f", self.dir / "config"], self.port)


class WebSockets:
    """Echoes every message; in a thread with a loop of its own."""

    def __init__(self, rig):
        try:
            import websockets  # noqa: what is not there is a Missing, not an ImportError
        except ImportError:
            raise Missing("python3-websockets is missing (Debian package python3-websockets)") from None
        self.loop, ready = asyncio.new_event_loop(), threading.Event()
        context = rig.ca.context("ws.test")

        async def talk(conn, *_):
            async for message in conn:
                await conn.send(message)

        async def main():
            self.done = asyncio.Event()
            async with websockets.serve(talk, LOOPBACK, 0, max_size=1 << 25) as plain, \
                    websockets.serve(talk, LOOPBACK, 0, ssl=context, max_size=1 << 25) as secure:
                self.ports = [s.sockets[0].getsockname()[1] for s in (plain, secure)]
                ready.set()
                await self.done.wait()

        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(main()), daemon=True)
        self.thread.start()
        assert ready.wait(START), "the WebSocket server did not start"
        rig.started["websocket_server"] = self

    def stop(self):
        self.loop.call_soon_threadsafe(self.done.set)
        self.thread.join(START)


def make_repository(directory):
    """project.git below it, with one commit; pushes are taken."""
    git = program("git", "git")
    env = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        env.update({f"GIT_{who}_NAME": "A Tester", f"GIT_{who}_EMAIL": "tester@web.test"})
    work, bare = directory / "work", directory / "project.git"
    work.mkdir(parents=True)

    def run(*args):
        subprocess.run([git, *map(str, args)], env=env, check=True, capture_output=True)

    run("init", "-q", "-b", "main", work)
    (work / "hello.txt").write_text("hello from git\n")
    run("-C", work, "add", ".")
    run("-C", work, "commit", "-q", "-m", "first")
    run("clone", "-q", "--bare", work, bare)
    run("-C", bare, "config", "http.receivepack", "true")
    return directory


def python_index():
    """Pages of a simple index and a wheel made on the spot."""
    name = "covetest-1.0-py3-none-any.whl"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as wheel:
        info = "covetest-1.0.dist-info"
        wheel.writestr("covetest.py", "WORD = 'a wheel through the door'\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: covetest\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: rig\nRoot-Is-Purelib: true\n"
                       "Tag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"covetest.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    page = f"<!DOCTYPE html><html><body><a href=\"/files/{name}\">{name}</a></body></html>"
    return {"/simple/covetest/": ("text/html", page.encode()), f"/files/{name}": ("application/zip", data.getvalue())}


def npm_registry(base):
    """One package of an npm registry."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        about = json.dumps({"name": "covetest", "version": "1.0.0", "main": "i.js"})
        code = "module.exports = 'a package through the door'\n"
        for name, text in (("package/package.json", about), ("package/i.js", code)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    sha = base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
    version = {"name": "covetest", "version": "1.0.0", "main": "i.js",
               "dist": {"tarball": f"{base}/covetest/-/covetest-1.0.0.tgz", "integrity": f"sha512-{sha}"}}
    listing = {"name": "covetest", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    return {"/covetest": ("application/json", json.dumps(listing).encode()),
            "/covetest/-/covetest-1.0.0.tgz": ("application/octet-stream", data.getvalue())}


# ---- where decoys must not be ----

def data_of(f):
    """The pieces of an open file that hold data: a box's disk is a large file that is mostly holes."""
    at, size = 0, os.fstat(f.fileno()).st_size
    while at < size:
        try:
            at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # the rest is a hole
            raise
        os.lseek(f.fileno(), at, os.SEEK_SET)
        while at < end and (data := f.read(min(1 << 22, end - at))):
            at += len(data)
            yield data
    while size == 0 and (data := f.read(1 << 22)):  # a file of /proc has no size
        yield data


def in_file(path, needles):
    """Has the file one of the needles? Pieces overlap, so none is missed at a border."""
    overlap = max(map(len, needles)) - 1
    tail = b""
    try:
        with open(path, "rb", buffering=0) as f:
            for data in data_of(f):
                data = tail + data
                if any(n in data for n in needles):
                    return True
                tail = data[-overlap:]
    except OSError:
        pass
    return False


def in_tree(top, needles, leave_out=()):
    """Files below top, and names, that have a needle. leave_out: directories right below top."""
    found = []
    for path, dirs, files in os.walk(top):
        if path == str(top):
            dirs[:] = [d for d in dirs if d not in leave_out]
        for name in dirs + files:
            if any(n in os.fsencode(name) for n in needles):
                found.append(os.path.join(path, name))
        for name in files:
            full = os.path.join(path, name)
            if os.path.isfile(full) and not os.path.islink(full) and in_file(full, needles):
                found.append(full)
    return found


def in_process(pid, needles):
    """Where a process has a needle: its environment, arguments, or memory. What may not be read counts as
    nothing found; the caller asserts that something could be read."""
    found, read, shared = [], 0, set()
    for name in ("environ", "cmdline"):
        if in_file(f"/proc/{pid}/{name}", needles):
            found.append(f"/proc/{pid}/{name}")
    try:
        maps = open(f"/proc/{pid}/maps").read().splitlines()
        memory, pages = (open(f"/proc/{pid}/{name}", "rb", buffering=0) for name in ("mem", "pagemap"))
    except OSError:
        return found, read
    with memory, pages:
        for line in maps:
            span, mode, _, _, inode = line.split()[:5]
            start, end = (int(x, 16) for x in span.split("-"))
            if mode[0] != "r" or end - start > 1 << 30 or line.endswith(("[vvar]", "[vsyscall]", "[vdso]")):
                continue
            # Where gVisor keeps a box's memory: each file once, and through a mapping a read would fill its holes.
            if "/memfd:" in line and os.geteuid() == 0:
                if inode not in shared and in_file(f"/proc/{pid}/map_files/{start:x}-{end:x}", needles):
                    found.append(f"/proc/{pid}/mem {line}")
                shared.add(inode)
                continue
            try:
                whole = [(start, end - start)]
                for at, size in whole if int(inode) else spans_in_use(pages, start, end):
                    memory.seek(at)
                    data = memory.read(size)
                    read += len(data)
                    if any(n in data for n in needles):
                        found.append(f"/proc/{pid}/mem {line}")
            except (OSError, OverflowError, ValueError):
                continue
    return found, read


def spans_in_use(pages, start, end):
    """The parts of an anonymous mapping that have pages, in memory or in swap: address and size. A sanitizer's shadow
    has few, and reading the others would make them."""
    size = os.sysconf("SC_PAGE_SIZE")
    pages.seek(start // size * 8)
    flags = pages.read((end - start) // size * 8)[7::8]  # bits 63 and 62 of each entry
    for run in re.finditer(rb"[\x40-\xff]+", flags):
        yield start + run.start() * size, len(run[0]) * size
