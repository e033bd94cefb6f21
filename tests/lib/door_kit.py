"""What the tests of the door share: boxes with a policy, clients in them, rows of the record.

Every output of every command is searched for this run's decoys, and every box is searched before it is
removed: its files, its logs, and the memory of its processes.
"""
import json
import os

import pytest
from door_rig import Missing, in_process, in_tree
from programs import Cove, descendants, wait_until

DIRECT = "env -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u http_proxy -u https_proxy -u all_proxy "
PROXY = "env "
WAYS = {"direct": DIRECT, "proxy": PROXY}
CURL = "curl -sS --max-time 90 "


class Door(Cove):
    """cove, with the rig's authority trusted by its doors."""

    def __init__(self, session, rig):
        super().__init__(session.prefix, session.home, image=session.image, env=rig.env)
        self.rig, self.boxes, self.needles = rig, [], rig.needles()

    def __call__(self, *args, **kw):
        result = super().__call__(*args, **kw)
        for stream in (result.out, result.err):
            assert not any(n in stream for n in self.needles), f"a secret came out of {args}"
        return result

    def policy(self, rules, **top):
        """A policy's file."""
        path = self.rig.dir / f"policy-{len(os.listdir(self.rig.dir))}-{os.urandom(3).hex()}.yaml"
        path.write_text(self.rig.policy(rules, **top))
        return path

    def box(self, rules, *flags, image=None, **top):
        """A running box with this policy; it has the rig's authority in /tmp/rig.pem, for TLS that passes."""
        where = ["--image", image] if image else []
        name = self("create", *where, "--net", self.policy(rules, **top), *flags).ok().text.strip()
        self.boxes.append(name)
        self.put(name, "/tmp/rig.pem", self.rig.ca.pem.read_text())
        return name

    def put(self, box, path, text):
        self("exec", "-i", box, "--", "sh", "-c", f"cat >{path}", input=text.encode()).ok()

    def do(self, box, line, **kw):
        """A shell line in the box, by itself."""
        return self("exec", box, "--", "sh", "-c", line, **kw)

    def curl(self, box, *args, way="direct", **kw):
        words = " ".join(f"'{a}'" if any(c in str(a) for c in " ?&*{}\"$;") else str(a) for a in args)
        return self.do(box, WAYS[way] + CURL + words, **kw)

    def code(self, box, url, *args, way="direct"):
        """The status of an answer, 0 for none."""
        got = self.curl(box, "-o", "/dev/null", "-w", "%{http_code}", *args, url, way=way)
        return int(got.text or 0)

    def echoed(self, box, url, *args, **kw):
        """What web.test says it was asked."""
        return json.loads(self.curl(box, *args, url, **kw).ok().out)

    def need(self, box, *programs):
        for name in programs:
            if self.do(box, f"command -v {name}").rc != 0:
                pytest.skip(f"{name} is neither in the base image nor on the host")

    def rows(self, box, **fields):
        """Rows of the record with these values."""
        rows = self("audit", box, "--json").ok().json
        return [r for r in rows if all(r.get(k) == v for k, v in fields.items())]

    def row(self, box, **fields):
        """The last such row; it may come a moment after the client has its answer."""
        return wait_until(lambda: self.rows(box, **fields), f"a row with {fields}")[-1]

    def secret(self, name, value=None):
        value = value or self.rig.secret(name)
        self("secret", "set", name, input=value.encode()).ok()
        return value

    def doors(self, box):
        """The processes of the box's door: proxy and broker."""
        return [p for p in self.host_processes(box) if is_door(p)]

    def host_processes(self, box):
        return descendants(self.inspect(box)["keeper_pid"])

    def search(self, box):
        """No decoy in the box's files and logs, nor in a process of the box or its keeper."""
        found = in_tree(f"{self.home}/boxes/{box}", self.needles)
        pids = self.host_processes(box) if self.inspect(box)["state"] == "running" else []
        for pid in pids:
            if not is_door(pid):
                found += in_process(pid, self.needles)[0]
        assert not found, found

    def forget(self):
        for name in self.boxes:
            if name in self.names():
                self.search(name)
                self("rm", "-f", name).ok()
        self.boxes = []


def is_door(pid):
    """By what it calls itself: who is not dumpable does not show its program."""
    try:
        return open(f"/proc/{pid}/comm", errors="replace").read().strip() in ("cove-door", "cove-broker")
    except OSError:
        return False


def needs(start):
    """A server of the rig, or a skip that says what is missing."""
    try:
        return start()
    except Missing as missing:
        pytest.skip(str(missing))
