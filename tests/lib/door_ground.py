"""The ground of the cases at the door: names and servers on loopback (door_rig.py), policies, boxes
that have a door, and what came out of it.

    g = ground(rig)                    # made once for a run
    g.run(code, box=..., name=value)   # Python inside a box, with what inbox.py has; what it said
    g.raw                              # raw.test: keeps every byte it is sent, and answers as it is told
    g.rows(box)                        # the record

The decoy is in every credential here, so whatever the suite searches for it, is searched for these too.
"""
import json
import os
import pathlib
import ssl
import threading

from door_rig import DoorRig, in_process
from programs import NotApplicable, descendants, need

PYTHON = "/usr/bin/python3"
HEAD = "import sys; sys.path.insert(0, '/attack'); from inbox import *; globals().update(json.loads(sys.argv[1]))\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"


class Raw:
    """A server that keeps what it gets as it came, on a plain port and with TLS. answer is sent for each head
    that ends; a function gets the bytes so far and the connection."""

    def __init__(self, net, context):
        self.lock, self.got, self.answer, self.names = threading.Lock(), [], OK, []
        context.sni_callback = lambda sock, name, _: self.names.append(name)
        self.plain, self.secure = net.new_tcp(self._serve), net.new_tcp(self._serve, tls=context)
        self.port, self.tls_port = self.plain.port, self.secure.port

    def _serve(self, conn):
        data, answered = bytearray(), 0
        with self.lock:
            self.got.append(data)
        try:
            while part := conn.recv(65536):
                with self.lock:
                    data += part
                while data.count(b"\r\n\r\n") > answered:
                    answered += 1
                    answer = self.answer
                    if callable(answer):
                        answer(conn, bytes(data))
                    else:
                        conn.sendall(answer)
        except (OSError, ssl.SSLError):
            pass

    def clear(self, answer=OK):
        with self.lock:
            self.got.clear()
            self.names.clear()
        self.answer = answer

    def all(self):
        with self.lock:
            return b"\n--\n".join(bytes(d) for d in self.got)


class Ground:
    def __init__(self, rig):
        self.rig = rig
        self.net = DoorRig(top=str(rig.base))
        self.net.token = rig.secret
        rig.cove.env.update(self.net.env)
        self.dir = rig.base / "door"
        self.dir.mkdir()
        self.raw = Raw(self.net, self.net.ca.context("raw.test", "api.test", "basic.test", "query.test", "plain.test",
                                                     "paths.test", "pass.test", "budget.test", "*.wild.test"))
        self.evil = Raw(self.net, self.net.ca.context("evil.test"))
        self.dns, self.count, self.made = self.net.dns, 0, {}
        self.secrets("API", "BASIC", "QUERY", "PLAIN", "PATHS")
        rig.makers["door"] = lambda: self.make(self.rules())
        rig.closers.append(self.close)

    def close(self):
        self.net.stop()

    # ---- credentials and policies ----

    def secrets(self, *names):
        for name in names:
            self.rig.cove("secret", "set", name, input=self.net.secret(name).encode()).ok()

    def rules(self):
        """What the shared box may do."""
        def bearer(name, **more):
            return {"inject": {"headers": {"Authorization": "Bearer {{ secret.%s }}" % name}}, **more}
        return [
            {"name": "raw", "allow": "raw.test", "tls": "intercept"},
            {"name": "evil", "allow": "evil.test", "tls": "intercept"},
            {"name": "pass", "allow": ["pass.test", "web.test", "*.web.test", "other.test"]},
            {"name": "api", "allow": "api.test", **bearer("API")},
            {"name": "basic", "allow": "basic.test",
             "inject": {"basic": {"user": "agent", "password": "{{ secret.BASIC }}"}}},
            {"name": "query", "allow": "query.test", "inject": {"query": {"key": "{{ secret.QUERY }}"}}},
            {"name": "plain", "allow": "plain.test", **bearer("PLAIN", plain_http=True)},
            {"name": "paths", "allow": "paths.test", "methods": ["GET"], "paths": ["/v1/models", "/v1/chat/**"],
             **bearer("PATHS")},
            {"name": "certificates", "allow": "*.cert.test", **bearer("API")},
            {"name": "public only", "allow": ["rebind.test", "*.rebind.test"], "private": False},
            {"name": "no", "deny": "denied.test"},
        ]

    def policy(self, rules, **top):
        """A policy file."""
        self.count += 1
        path = self.dir / f"policy{self.count}.yaml"
        path.write_text(self.net.policy(rules, **top))
        return path

    # ---- boxes ----

    def make(self, rules=None, *flags, **top):
        return self.rig.make("--net", self.policy(self.rules() if rules is None else rules, **top), *flags)

    @property
    def box(self):
        return self.rig.box("door")

    def own_box(self, rules, *flags, **top):
        """A box for one case: use it with `with`."""
        return OwnBox(self, rules, flags, top)

    def run(self, code, box=None, timeout=90, flags=(), **args):
        """Runs Python inside and returns what it said."""
        result = self.rig.cove.run_json(box or self.box, PYTHON, "-B", "-c", HEAD + code, json.dumps(args),
                                        flags=["--timeout", f"{timeout}s", *flags], timeout=timeout + 30)
        if result.get("exit_code") == 127 or "No such file" in result.get("stderr", "") and not result["stdout"]:
            raise NotApplicable("this image has no python3")
        need(result.get("exit_code") == 0 and result["stdout"].strip(),
             f"the client in the box failed: {result.get('cause')} {result['stdout'][-300:]} {result['stderr'][-600:]}")
        return json.loads(result["stdout"].strip().splitlines()[-1])

    def start(self, code, box=None, **args):
        """The same in the background: a Popen whose standard input is a pipe."""
        return self.rig.cove.start("exec", "-i", box or self.box, "--", PYTHON, "-B", "-u", "-c", HEAD + code,
                                   json.dumps(args))

    def works(self, box=None, why="afterwards"):
        """The door of the box still lets through what is allowed."""
        self.evil.clear()
        got = self.run("say(status(https('evil.test', port, get('/still', 'evil.test:%d' % port))))", box,
                       port=self.evil.tls_port)
        need(got == 200, f"{why} nothing passes any more: {got}")

    # ---- what is outside ----

    def rows(self, box=None, *flags):
        """The record, as objects."""
        return self.rig.cove("audit", *([box] if box else []), "--json", *flags).ok().json

    def doors(self, box):
        """Process numbers of the door of a box: the proxy first, then the broker. [] where none runs."""
        found = []
        for pid in descendants(self.rig.keeper(box)):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"cove-door":
                found.append(pid)
        parents = {pid: parent_of(pid) for pid in found}
        return sorted(found, key=lambda pid: (parents[pid] in found, pid))

    def inside(self, box):
        """Host process numbers of everything in the box."""
        keeper = self.rig.keeper(box)
        outside = os.readlink("/proc/self/ns/pid")
        found = []
        for pid in descendants(keeper):
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") != outside:
                    found.append(pid)
            except OSError:
                pass
        return found

    def search_memory(self, box):
        """Reads the memory of all that runs inside; how many bytes."""
        read = 0
        for pid in self.inside(box):
            found, size = in_process(pid, self.rig.needles)
            need(not found, f"the credential is in {found[:3]}")
            read += size
        need(read > 0, "no memory of the box could be read, so nothing was searched")
        return read


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


class OwnBox:
    def __init__(self, ground, rules, flags, top):
        self.ground, self.rules, self.flags, self.top = ground, rules, flags, top

    def __enter__(self):
        self.name = self.ground.make(self.rules, *self.flags, **self.top)
        return self.name

    def __exit__(self, *_):
        self.ground.rig.cove("rm", "-f", self.name)


def ground(rig):
    if not hasattr(rig, "door"):
        if not os.path.exists("/usr/bin/openssl"):
            raise NotApplicable("openssl is missing (Debian package openssl)")
        rig.door = Ground(rig)
    return rig.door
