"""The door while it runs: rules that change, persons who are asked, budgets, the record, and what breaks."""
import glob
import json
import os
import resource
import threading
import time

import pytest

from conftest import DEADLINE, IS_ROOT, alive, kill, lacks, wait_until
from door_kit import CURL, DIRECT

pytestmark = pytest.mark.once("user")

WEB = {"name": "web", "allow": "web.test", "tls": "intercept"}


class Transfer:
    """A client in the box that has half of an answer, and waits for the rest."""

    def __init__(self, door, box, url, web, gate):
        self.web, self.gate = web, gate
        before = len(web.seen(gate))
        line = DIRECT + f"curl -sSN --max-time 60 --cacert /tmp/both.pem '{url}'"
        door.do(box, "cat $SSL_CERT_FILE /tmp/rig.pem >/tmp/both.pem").ok()
        self.client = door.start("exec", box, "--", "sh", "-c", line)
        wait_until(lambda: len(web.seen(gate)) > before, "the request")
        assert os.read(self.client.stdout.fileno(), 100) == b"12345"

    def finish(self):
        """Lets the server send the rest: what more came, and the client's exit status."""
        self.web.gates[self.gate].set()
        return self.ended()

    def ended(self):
        out, _ = self.client.communicate(timeout=DEADLINE)
        return out, self.client.returncode


@pytest.fixture
def transfer(door, rig):
    made = []

    def start(box, host="web.test", **kw):
        gate = f"hang-{os.urandom(4).hex()}"
        web = rig.other if host == "other.test" else rig.web
        made.append(Transfer(door, box, rig.url(f"/hang?gate={gate}", host, **kw), web, gate))
        return made[-1]

    yield start
    for t in made:
        t.web.gates[t.gate].set()
        t.client.kill()
        t.client.communicate()


# ---- live changes ----

def test_apply_judges_open_connections_again(door, transfer):
    box = door.box([WEB, {"name": "other", "allow": "other.test"}])
    cut, kept = transfer(box, "web.test"), transfer(box, "other.test")
    got = door("policy", "apply", box, door.policy([{"name": "other", "allow": "other.test"}]))
    assert "1" in got.ok().text + got.errors
    assert cut.ended()[1] != 0
    assert kept.finish() == (b"67890", 0)
    assert door.row(box, kind="policy")


def test_deny_cuts_and_wins(door, rig, transfer):
    box = door.box([WEB])
    open_one = transfer(box)
    door("deny", box, "web.test").ok()
    assert open_one.ended()[1] != 0
    assert door.code(box, rig.url("/")) == 0
    door("allow", box, "web.test").ok()
    door("deny", box, "web.test").ok()
    assert door.code(box, rig.url("/")) == 0
    grants = door.rows(box, kind="grant")
    assert grants and all(r.get("by") for r in grants)


def judged(door, rig, box, name):
    """Was the name let through to be resolved? Grants do not open private addresses, so that is as far as it goes
    on loopback."""
    before = rig.dns.asked(name)
    got = door.curl(box, f"http://{name}:{rig.web.port}/granted", way="proxy")
    assert not rig.web.seen("granted")
    if "no rule says 'private: true'" in got.text:
        return True
    assert rig.dns.asked(name) == before, "a denied name is not asked for"
    assert f"cove allow {box} {name}:{rig.web.port}" in got.text, got
    return False


def test_allow_now(door, rig):
    box = door.box([WEB])
    assert not judged(door, rig, box, "later.test")
    door("allow", box, f"later.test:{rig.web.port}").ok()
    assert judged(door, rig, box, "later.test") and not judged(door, rig, box, "sooner.test")
    door("policy", "apply", box, door.policy([WEB])).ok()
    assert not judged(door, rig, box, "later.test")


def test_allow_once(door, rig):
    box = door.box([WEB])
    assert not judged(door, rig, box, "once.test")
    door("allow", "--once", box, f"once.test:{rig.web.port}").ok()
    assert judged(door, rig, box, "once.test")
    assert not judged(door, rig, box, "once.test")


def test_deny_once(door, rig):
    box = door.box([WEB])
    for way in ("proxy", "direct"):
        door("deny", "--once", box, "web.test").ok()
        assert "# live: deny web.test for the next connection\n" in door("policy", "show", box).ok().text
        assert door.code(box, rig.url("/"), way=way) in (0, 403)
        assert "# live" not in door("policy", "show", box).ok().text
        assert door.code(box, rig.url("/"), way=way) == 200


def test_allow_for_a_time(door, rig):
    box = door.box([WEB])
    door("allow", "--for", "1h", box, f"hour.test:{rig.web.port}").ok()
    door("allow", "--for", "1s", box, f"second.test:{rig.web.port}").ok()
    assert judged(door, rig, box, "hour.test")
    wait_until(lambda: not judged(door, rig, box, "second.test"), "the end of a second")
    assert judged(door, rig, box, "hour.test")


def test_a_stopped_box_keeps_its_policy(door, rig):
    box = door.box([WEB])
    assert door.code(box, rig.url("/")) == 200
    door("stop", box).ok()
    door("start", box).ok()
    assert door.code(box, rig.url("/")) == 200 and door.code(box, rig.url("/", "other.test")) == 0


# ---- a person is asked ----

ASK = {"name": "careful", "ask": "web.test", "methods": ["GET", "POST"]}


def start_get(door, box, url):
    return door.start("exec", box, "--", "sh", "-c", DIRECT + CURL + f"-o /dev/null -w '%{{http_code}}' '{url}'")


def the_ask(door, box):
    return wait_until(lambda: door("asks", "--json", box).ok().json, "an ask")[0]


@pytest.mark.parametrize("word,code", [("allow", b"200"), ("deny", b"403")])
def test_ask_and_answer(door, rig, word, code):
    box = door.box([ASK])
    client = start_get(door, box, rig.url(f"/echo?asked-{word}"))
    ask = the_ask(door, box)
    assert (ask["host"], ask["method"], ask["port"]) == ("web.test", "GET", rig.web.tls_port)
    assert ask["path"].startswith("/echo") and not rig.web.seen(f"asked-{word}")
    door("answer", box, ask["id"], word).ok()
    assert client.communicate(timeout=DEADLINE)[0] == code
    assert len(rig.web.seen(f"asked-{word}")) == (word == "allow")
    row = door.row(box, kind="answer")
    assert row["verdict"] == word and row["by"]
    door.fails("not_found", "answer", box, ask["id"], word)


def test_nobody_answers(door, rig):
    box = door.box([ASK], ask_timeout="1s")
    client = start_get(door, box, rig.url("/echo?silence"))
    assert client.communicate(timeout=DEADLINE)[0] == b"403" and not rig.web.seen("silence")
    assert door.row(box, kind="answer")["verdict"] == "deny"


def test_an_answer_that_holds(door, rig):
    box = door.box([ASK])
    client = start_get(door, box, rig.url("/echo?held-1"))
    said = door("answer", "--for", "1h", box, the_ask(door, box)["id"], "allow").ok().text
    assert said == f"allowed for 60 min: GET web.test:{rig.web.tls_port}/echo, any query\n"
    assert client.communicate(timeout=DEADLINE)[0] == b"200"
    assert door.code(box, rig.url("/echo?held-2")) == 200
    # Neither another path nor another method was shown to anybody.
    for args in ([rig.url("/other?held-3")], ["-d", "x=1", rig.url("/echo?held-4")]):
        words = " ".join(f"'{a}'" for a in args)
        client = door.start("exec", box, "--", "sh", "-c", DIRECT + CURL + "-o /dev/null -w '%{http_code}' " + words)
        ask = the_ask(door, box)
        got = door("answer", "--json", box, ask["id"], "deny").ok().json
        assert (got["result"], got["scope"]["method"], got["scope"]["path"]) == ("denied", ask["method"], ask["path"])
        assert client.communicate(timeout=DEADLINE)[0] == b"403"
    assert not rig.web.seen("held-3") and not rig.web.seen("held-4")


def test_what_was_allowed_for_a_time_is_cut_when_it_ends(door, rig, transfer):
    """With TLS that passes through, and with requests that are looked at. (`cove allow --for` does the same, in
    tests/unit/test_door_conn.c: a grant reaches no private address, so none of these servers.)"""
    box = door.box([{"name": "kept", "allow": "other.test"}, {"name": "whole", "ask": "whole.web.test"}, ASK])
    kept = transfer(box, "other.test")
    cut = []
    for host in ("whole.web.test", "web.test"):
        answered = threading.Thread(target=lambda: door("answer", "--for", "3s", box, the_ask(door, box)["id"],
                                                        "allow").ok())
        answered.start()
        cut.append(transfer(box, host))
        answered.join()
    for client in cut:
        out, rc = client.ended()
        assert out == b"" and rc != 0
    assert kept.finish() == (b"67890", 0)


@pytest.mark.parametrize("rule,tls", [(ASK, True), (ASK, False), ({"name": "all", "ask": "web.test"}, False)])
def test_who_gave_up_is_not_sent_for(door, rig, rule, tls):
    """Connect, send, close; what is allowed after that goes nowhere."""
    box = door.box([rule])
    url = rig.url("/echo?gone", tls=tls)
    client = door.start("exec", box, "--", "sh", "-c",
                        DIRECT + CURL + f"-d order=1 '{url}' & echo $! > /tmp/pid; wait")
    ask = the_ask(door, box)
    assert ask["requests"] == 1
    door.do(box, "kill $(cat /tmp/pid)").ok()
    client.communicate(timeout=DEADLINE)
    wait_until(lambda: not door("asks", "--json", box).ok().json, "an ask to end")
    door.fails("not_found", "answer", box, ask["id"], "allow")
    assert door.row(box, kind="answer")["reason"] == "the box gave it up"
    assert not rig.web.seen("?gone")


# ---- the record stays small, and the door says how it is ----

def test_a_loop_of_refusals_is_few_rows(door, rig):
    box = door.box([WEB])
    door.do(box, "getent hosts nope.test; getent hosts nope.test")
    door.row(box, kind="name", host="nope.test")
    assert len(door.rows(box, kind="name", host="nope.test")) < 4
    door.do(box, f"for i in $(seq 40); do {DIRECT} {CURL} http://10.9.8.7:81/; done")
    door.row(box, kind="connect", host="10.9.8.7")
    assert len(door.rows(box, kind="connect", host="10.9.8.7")) < 10


def test_inspect_shows_the_door(door, rig):
    box = door.box([WEB])
    assert door.inspect(box)["network"]["door"]["running"] is False
    assert door.code(box, rig.url("/")) == 200
    shown = door.inspect(box)["network"]["door"]
    assert shown["running"] is True and shown["bytes_down"] > 0 and shown["asks"] == 0
    assert any("locked memory" in x for x in door.inspect(box)["not_enforced"]) != shown["memory_locked"]


def test_inspect_says_when_a_secret_could_not_be_locked(door, rig):
    """A page can be, and that is not enough for all that holds a credential."""
    few = 32 << 10
    door.secret("TOKEN")
    box = door.box([{**WEB, "inject": {"headers": {"X-Key": "{{ secret.TOKEN }}"}}}])
    door("stop", box).ok()
    starts = door.start("start", box, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (few, few)))
    starts.communicate(timeout=DEADLINE)
    assert starts.returncode == 0 and door.code(box, rig.url("/")) == 200
    shown = door.inspect(box)
    assert shown["network"]["door"]["memory_locked"] is False
    assert sum("locked memory" in x for x in shown["not_enforced"]) == 1


# ---- budgets ----

def test_rate(door, rig):
    box = door.box([{**WEB, "rate": "3/h"}])
    codes = [door.code(box, rig.url("/echo?rate")) for _ in range(5)]
    assert codes[:3] == [200] * 3 and all(c in (403, 429) for c in codes[3:]), codes
    assert len(rig.web.seen("?rate")) == 3


@pytest.mark.parametrize("look", [True, False])
def test_byte_budget_down(door, rig, look):
    rule = {"name": "web", "allow": "web.test", "bytes_down": "1MiB", **({"tls": "intercept"} if look else {})}
    box = door.box([rule])
    trust = "$SSL_CERT_FILE" if look else "/tmp/rig.pem"
    line = DIRECT + CURL + f"--cacert {trust} '{rig.url('/bytes?n=8000000')}' | wc -c"
    assert int(door.do(box, line).text) <= 1 << 20
    assert int(door.do(box, line).text) <= 4096, "it is for the life of the box"
    wait_until(lambda: any("bytes" in r.get("reason", "") or "budget" in r.get("reason", "") for r in door.rows(box)),
               "the row of a budget")


def test_byte_budget_up(door, rig):
    box = door.box([{**WEB, "bytes_up": "1MiB"}])
    door.do(box, "head -c 8000000 /dev/zero >/tmp/z").ok()
    got = door.curl(box, "-T", "/tmp/z", "-H", "Expect:", rig.url("/upload?budget"))
    assert "8000000" not in got.text
    assert sum(len(r.body) for r in rig.web.seen("budget")) <= 1 << 20


def test_bytes_of_the_box(door, rig):
    box = door.box([WEB], "--net-bytes", "2M")
    line = DIRECT + CURL + f"'{rig.url('/bytes?n=8000000')}' | wc -c"
    assert int(door.do(box, line).text) <= 2 << 20
    assert int(door.do(box, line).text) <= 8192
    found = json.loads(door("exec", "--json", box, "--", "bash", "-c", line).out)["denied"]
    assert [d["why"] for d in found] == ["limit"] and "--net-bytes" in found[0]["remedy"], found


def test_connections_of_the_box(door, rig, transfer):
    box = door.box([WEB], "--net-conns", "2")
    kept = [transfer(box), transfer(box)]
    assert door.code(box, rig.url("/echo?third")) in (0, 403, 429, 503)
    assert not rig.web.seen("third")
    assert kept[0].finish() == (b"67890", 0)
    wait_until(lambda: door.code(box, rig.url("/echo?third")) == 200, "room for another")


# ---- what breaks ----

@pytest.mark.parametrize("which", ["proxy", "broker"])
def test_door_is_killed(door, rig, transfer, which):
    """What is under way fails, and never looks whole; the next request has a new door."""
    box = door.box([WEB])
    looked, plain = transfer(box), transfer(box, tls=False)
    # A broker that writes to disk has a child for that moment.
    pids = wait_until(lambda: len(found := door.doors(box)) == 2 and found, "a proxy and a broker")
    broker = [p for p in pids if open(f"/proc/{p}/comm").read().strip() == "cove-broker"]
    assert len(broker) == 1
    kill(broker[0] if which == "broker" else next(p for p in pids if p not in broker))
    if which == "proxy":
        for t in (looked, plain):
            out, rc = t.finish()
            assert rc != 0 and out == b""
    wait_until(lambda: door.code(box, rig.url("/")) == 200, "a new door")
    wait_until(lambda: not any(alive(p) for p in pids if which == "proxy" or p in broker), "the end of the old one")
    door("audit", "verify", box).ok()
    assert alive(door.inspect(box)["keeper_pid"])


def test_keeper_is_killed(door, rig, transfer):
    box = door.box([WEB])
    open_one = transfer(box)
    pids = door.host_processes(box)
    kill(door.inspect(box)["keeper_pid"])
    assert open_one.finish()[1] != 0
    wait_until(lambda: not any(alive(p) for p in pids), "the end of box and door")
    door.row(box, host="web.test")
    door("audit", "verify", box).ok()


def test_paused_box(door, rig, transfer):
    box = door.box([WEB])
    open_one = transfer(box)
    if door("pause", box).rc:
        pytest.skip("this host cannot pause a box")
    door("resume", box).ok()
    assert open_one.finish() == (b"67890", 0)


def test_removal_ends_the_door(door, transfer):
    box = door.box([WEB])
    transfer(box)
    pids = door.doors(box)
    door("rm", "-f", box).ok()
    wait_until(lambda: not any(alive(p) for p in pids), "the end of the door")


@pytest.mark.parametrize("text", [b"", b"\n", b"version: 1\n", b"null", b"[]", b"version: 1\nrules: nothing\n",
                                  b"version: 1\nrules:\n  - alow: web.test\n", b"\xff\xfe\0", b"{" * 10000])
def test_a_policy_that_is_none(door, rig, text):
    path = rig.dir / "broken.yaml"
    path.write_bytes(text)
    door.fails("invalid", "create", "--net", path)
    door.fails("invalid", "run", "--net", path, "--", "true")


def test_a_policy_that_cannot_be_read(door, rig):
    door.fails("not_found", "create", "--net", rig.dir / "no-such-file.yaml")
    door.fails("invalid", "create", "--net", rig.dir)


def test_a_policy_that_is_gone_closes(door, rig):
    """Behind Cove's back, and with the door killed: the next one finds nothing to read."""
    box = door.box([WEB])
    assert door.code(box, rig.url("/")) == 200
    path = f"{door.home}/boxes/{box}/policy"
    text = open(path, "rb").read()
    for broken in (None, b"", b"rules: ["):
        os.unlink(path)
        if broken is not None:
            with open(path, "wb") as f:
                f.write(broken)
        for pid in door.doors(box):
            kill(pid)
        wait_until(lambda: not door.doors(box), "the end of the door")
        before = len(rig.web.requests)
        assert door.code(box, rig.url("/"), way="proxy") in (0, 403, 502)
        assert len(rig.web.requests) == before
        with open(path, "wb") as f:
            f.write(text)


# ---- the record ----

@pytest.mark.once("both")
def test_rows(door, rig):
    box = door.box([WEB, {"name": "no", "deny": "other.test"}])
    start = time.time() * 1000
    door.do(box, "head -c 100000 /dev/zero >/tmp/z").ok()
    door.curl(box, "-T", "/tmp/z", rig.url("/upload?row=1")).ok()
    assert door.code(box, rig.url("/", "other.test"), way="proxy") in (0, 403)
    row = door.row(box, kind="request", host="web.test", status=200)
    assert (row["box"], row["port"], row["method"], row["rule"], row["verdict"]) == (
        box, rig.web.tls_port, "PUT", "web", "allow")
    assert row["path"].startswith("/upload") and row["bytes_up"] >= 100000 and row["bytes_down"] > 0
    assert start - 5000 < row["time_ms"] < time.time() * 1000 + 5000
    # Which command it was; not known where commands have no groups.
    assert row.get("exec_id", 0) > 0 or not IS_ROOT or lacks("EXEC_GROUPS")
    row = door.row(box, host="other.test", verdict="deny")
    assert row["rule"] == "no"
    denied = door("audit", box, "--denied", "--json").ok().json
    assert denied and all(r["verdict"] == "deny" for r in denied)


def test_follow(door, rig):
    box = door.box([WEB])
    tail = door.start("audit", "-f", "--json", box)
    try:
        door.curl(box, rig.url("/echo?followed")).ok()
        while True:
            row = json.loads(tail.stdout.readline())
            if "followed" in row.get("path", "") or row.get("kind") == "request":
                break
        assert row["host"] == "web.test"
    finally:
        tail.terminate()
        tail.communicate(timeout=DEADLINE)


def test_kept_when_the_box_is_gone(door, rig):
    box = door.box([WEB])
    door.curl(box, rig.url("/echo")).ok()
    door.row(box, kind="request", status=200)
    door("rm", "-f", box).ok()
    assert door.rows(box, kind="request", host="web.test")
    door("audit", "verify", box).ok()


def test_tampering_shows(door, rig):
    box = door.box([WEB])
    for word in ("one", "two", "three"):
        door.curl(box, rig.url(f"/echo?{word}")).ok()
    wait_until(lambda: len(door.rows(box, kind="request", status=200)) == 3, "three rows")
    door("stop", box).ok()
    door("audit", "verify", box).ok()
    (path,) = glob.glob(f"{door.home}/audit/boxes/{box}.*/1")
    good = open(path, "rb").read()
    lines = good.splitlines(keepends=True)
    assert len(lines) >= 5
    faults = {"changed": good.replace(b"web.test", b"wob.test", 1), "removed": b"".join(lines[:2] + lines[3:]),
              "cut off": b"".join(lines[:-1]), "moved": b"".join(lines[:1] + lines[2:3] + lines[1:2] + lines[3:]),
              "twice": b"".join(lines[:2] + lines[1:]), "empty": b""}
    try:
        for fault, text in faults.items():
            with open(path, "wb") as f:
                f.write(text)
            assert door("audit", "verify", box).rc != 0, fault
    finally:
        with open(path, "wb") as f:
            f.write(good)
    door("audit", "verify", box).ok()


def test_no_row_holds_a_secret(door, rig):
    value = door.secret("TOKEN")
    box = door.box([{**WEB, "inject": {"query": {"key": "{{ secret.TOKEN }}"}}}])
    door.curl(box, rig.url("/echo?x=1")).ok()
    door.row(box, kind="request", credential="TOKEN")
    for path in glob.glob(f"{door.home}/audit/*/*/*") + glob.glob(f"{door.home}/audit/list/*"):
        assert value.encode() not in open(path, "rb").read()
