"""What a user types for the door: every verb's happy path, and its wrong uses."""
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import termios
import threading
import time

import pytest
from conftest import DEADLINE, PREFIX, Cove, wait_until

pytestmark = pytest.mark.once("user")

DECOY = "decoy-4711-Zx9-never-shown"

# A fetch through the door's proxy port: the loopback of the host cannot be named in another way.
FETCH = """env -u NO_PROXY -u no_proxy python3 -c '
import os, sys, urllib.error, urllib.request as u
opener = u.build_opener(u.ProxyHandler({"http": os.environ["HTTP_PROXY"]}))
try:
    print(opener.open(sys.argv[1], timeout=90).status)
except urllib.error.HTTPError as e:
    print(e.code)
' http://127.0.0.1:%d/%s"""


class Quiet(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_GET(self):
        Quiet.seen.append((self.path, dict(self.headers)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def upstream():
    """A server on this host's loopback; its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def policy(tmp_path, rules, name="policy.yaml"):
    path = tmp_path / name
    path.write_text("version: 1\nrules:\n" + rules)
    return str(path)


def here(port, verb="allow", more=""):
    return f"  - name: here\n    {verb}: 127.0.0.1\n    ports: [{port}]\n    private: true\n{more}"


def fetch(cove, box, port, path="", want="200"):
    """A request that was answered with this status."""
    got = cove("exec", box, "--", "sh", "-c", FETCH % (port, path)).ok()
    assert got.text.strip() == want, repr(got)


def rows(cove, *args):
    return cove("audit", "--json", *args).ok().json


def wait_rows(cove, box, *ports):
    """What was asked of each of these ports is written: it may be a moment after the client has its answer."""
    wait_until(lambda: {r.get("port") for r in rows(cove, box) if r["kind"] in ("connect", "request")} >= set(ports),
               f"rows of the ports {ports}")


# ---- policy ----

def test_policy_check(cove, tmp_path):
    good = policy(tmp_path, "  - {allow: example.org, tls: intercept}\n")
    assert "valid" in cove("policy", "check", good).ok().text
    assert cove("policy", "check", "--json", good).ok().json == {"name": good, "result": "valid", "warnings": []}
    with open(good, "rb") as f:
        cove("policy", "check", "-", input=f.read()).ok()
    as_json = b'{"version": 1, "rules": [{"allow": "example.org"}]}'
    cove("policy", "check", "-", input=as_json).ok()


def test_policy_check_warns_of_fronting(cove, tmp_path):
    """A name that is judged outside, and another that may be asked for inside."""
    warned = policy(tmp_path, "  - name: one\n    allow: example.org\n  - {name: two, allow: '*.example.com'}\n")
    got = cove("policy", "check", warned).ok()
    assert "valid" in got.text and got.errors.count("warning:") == 2
    assert ":3: warning: 'one'" in got.errors and "domain fronting" in got.errors and "tls: intercept" in got.errors
    assert len(cove("policy", "check", "--json", warned).ok().json["warnings"]) == 2
    for text in ("version: 1\ntls: intercept\nrules: [{allow: example.org}]\n",
                 "version: 1\nrules: [{allow: example.org, tls: pass}]\n",
                 "version: 1\nrules: [{allow: example.org, methods: [GET]}]\n"):
        assert cove("policy", "check", "-", input=text.encode()).ok().errors == ""
    assert cove("policy", "check", "-", input=cove("policy", "show", "balanced").ok().out).ok().errors == ""


@pytest.mark.parametrize("text, line", [
    ("version: 1\ntls: pass\nrules: []\n", "2:"),
    ("version: 1\nrules:\n  - allow: example.org\n    pass: [Cookie]\n", "4:"),
    ("version: 1\nrules:\n  - allow: example.org\n    reuse: yes\n", "4:"),
    ("version: 1\nrules:\n  - allow: example.org\n    prots: [443]\n", "4:"),
    ("version: 1\nrules:\n  - allow: example.org\n  - allow: ex ample\n", "4:"),
    ("version: 1\nrules: [\n", ""),
    ("version: 2\nrules: []\n", "1:"),
    ("", ""),
])
def test_policy_check_names_the_line(cove, tmp_path, text, line):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert f"bad.yaml:{line}" in cove.fails("invalid", "policy", "check", path)
    # What is wrong makes no box.
    before = cove.names()
    cove.fails("invalid", "create", "--net", path)
    assert cove.names() == before


def test_policy_check_of_what_is_no_policy(cove, tmp_path):
    cove.fails("not_found", "policy", "check", tmp_path / "missing")
    cove.fails("invalid", "policy", "check", tmp_path)
    cove.fails("invalid", "policy", "check", "-", input=bytes(range(256)) * 16)
    cove.fails("limit", "policy", "check", "-", input=b"# x\n" * (1 << 19))
    cove.fails("invalid", "policy", "check")
    cove.fails("invalid", "policy", "frob")


def test_a_missing_secret_is_named_with_its_rule(cove, tmp_path):
    path = policy(tmp_path, "  - name: the api\n    allow: api.example.org\n    inject:\n"
                            "      headers: {Authorization: \"Bearer {{ secret.NOT_THERE }}\"}\n")
    for args in (("policy", "check", path), ("create", "--net", path), ("run", "--net", path, "--", "true")):
        said = cove.fails("invalid", *args)
        assert "NOT_THERE" in said and "the api" in said


def test_policy_show(cove, box):
    for preset in ("closed", "balanced", "open"):
        text = cove("policy", "show", preset).ok().text
        assert "version: 1" in text
        cove("policy", "check", "-", input=text.encode()).ok()
    assert cove("policy", "show", "none").ok().out == cove("policy", "show", "closed").ok().out
    assert cove("policy", "show", box).ok().out == cove("policy", "show", "balanced").ok().out
    assert cove("policy", "show", "--json", "open").ok().json["name"] == "open"
    cove.fails("not_found", "policy", "show", "no-such-box")


def test_a_bad_policy_is_wrong_use_everywhere(cove, box, tmp_path):
    bad = policy(tmp_path, "  - alow: example.org\n")
    for words in (("policy", "check", bad), ("run", "--net", bad, "--", "true"), ("create", "--net", bad),
                  ("policy", "apply", box, bad), ("policy", "set-default", bad)):
        cove.fails("invalid", *words)


def test_without_the_door_program(cove, tmp_path):
    """What is missing, where it was looked for and what to do."""
    for program in ("cove-keeper", "cove-init", "cove-probe"):
        (tmp_path / program).symlink_to(PREFIX / "libexec" / "cove" / program)
    env = {"COVE_LIBEXEC": str(tmp_path)}
    before = cove.names()
    for words in (("run", "--", "true"), ("create", "--net", "open"), ("policy", "show", "open")):
        cove.fails("unsupported", *words, env=env)
    assert cove.names() == before
    cove("run", "--net", "closed", "--", "true", env=env).ok()
    said = cove("doctor", "--no-test", env=env).text
    assert "Boxes work here" not in said and "--net closed" in said.splitlines()[-1]


def test_policy_default(new_home, tmp_path):
    cove = new_home()
    assert cove("policy", "show").ok().out == cove("policy", "show", "balanced").ok().out
    cove("policy", "set-default", "closed").ok()
    box = cove("create").ok().text.strip()
    assert cove.inspect(box)["network"]["policy"] == "closed"
    path = policy(tmp_path, "  - name: mine\n    allow: example.org\n")
    cove("policy", "set-default", path).ok()
    assert "name: mine" in cove("policy", "show").ok().text
    box = cove("create").ok().text.strip()
    assert "name: mine" in cove("policy", "show", box).ok().text
    assert os.stat(f"{cove.home}/boxes/{box}/policy").st_mode & 0o777 == 0o600
    cove.fails("invalid", "policy", "set-default", "nonsense")
    cove.fails("not_found", "policy", "set-default", tmp_path / "missing")
    assert "name: mine" in cove("policy", "show").ok().text


def test_a_preset_leaves_no_file(cove, box):
    assert not os.path.exists(f"{cove.home}/boxes/{box}/policy")
    assert not os.path.exists(f"{cove.home}/boxes/{box}/grants")


def test_policy_groups(cove):
    """What can be opened beside a preset: a table, names, JSON, and each as a policy."""
    found = cove("policy", "groups", "--json").ok().json
    by_name = {g["name"]: g for g in found}
    assert {"huggingface", "pytorch", "conda", "nuget", "packagist", "cran", "git-lfs", "registries",
            "browsers"} <= by_name.keys()
    assert "download.pytorch.org" in by_name["pytorch"]["hosts"] and "*.hf.co" in by_name["huggingface"]["hosts"]
    assert cove("policy", "groups", "-q").ok().text.split() == [g["name"] for g in found]
    table = cove("policy", "groups").ok().text
    assert all(g["name"] in table and g["summary"] in table for g in found)
    for name in by_name:
        cove("policy", "check", "-", input=cove("policy", "show", name).ok().out).ok()
    assert cove("policy", "check", "-", input=cove("policy", "show", "balanced,conda,cran").ok().out).ok().errors == ""


# ---- --net, --allow, --deny ----

def test_net_with_groups(new_home):
    cove = new_home()
    box = cove("create", "--net", "balanced,huggingface,conda,conda").ok().text.strip()
    assert cove.inspect(box)["network"]["policy"] == "balanced,huggingface,conda,conda"
    assert not os.path.exists(f"{cove.home}/boxes/{box}/policy")
    assert "use: [balanced, conda, huggingface]" in cove("policy", "show", box).ok().text
    cove("policy", "apply", box, "closed,pytorch").ok()
    assert cove.inspect(box)["network"]["policy"] == "closed,pytorch"
    assert "use: [closed, pytorch]" in cove("policy", "show", box).ok().text
    # The same groups are the same policy.
    assert cove("open", "groups", "--net", "balanced,conda,cran").ok().text == \
        cove("open", "groups", "--net", "balanced,cran,conda,cran").ok().text
    cove.fails("conflict", "open", "groups", "--net", "balanced,cran")
    cove.fails("conflict", "open", "groups", "--net", "balanced")
    cove("close", "groups", "--delete").ok()
    cove("policy", "set-default", "balanced,registries").ok()
    assert "use: [balanced, registries]" in cove("policy", "show").ok().text
    box = cove("create").ok().text.strip()
    assert cove.inspect(box)["network"]["policy"] == "balanced,registries"
    cove.fails("invalid", "policy", "set-default", "balanced,nothing")
    assert "registries" in cove("policy", "show").ok().text


def test_groups_that_there_are_not(cove):
    before = cove.names()
    for net, says in (("balanced,hugingface", "did you mean 'huggingface'?"), ("balanced,HuggingFace", "huggingface"),
                      ("balanced,zzzzzzzz", "There are apt"), (",", "empty"), ("balanced,,conda", "empty"),
                      ("balanced,", "empty"), ("," * 10000, "empty"), ("huggingface", "balanced,huggingface"),
                      ("huggingface,balanced", "begins with"), ("open,conda", "everything"),
                      ("balanced,closed", "has one"), ("balanced, conda", "did you mean 'conda'?")):
        assert says in cove.fails("invalid", "create", "--net", net), net
    cove.fails("limit", "create", "--net", "balanced" + ",conda" * 100)
    assert cove.names() == before


def test_net_modes(cove):
    for mode in ("closed", "none", "balanced", "open"):
        box = cove("create", "--net", mode).ok().text.strip()
        want = "closed" if mode == "none" else mode
        assert cove.inspect(box)["network"]["policy"] == want
    cove.fails("invalid", "run", "--net", "sometimes", "--", "true")
    cove.fails("not_found", "run", "--net", "./missing.yaml", "--", "true")
    cove.fails("invalid", "run", "--net", "", "--", "true")


def test_inline_rules_are_checked_first(cove):
    before = cove.names()
    cove.fails("invalid", "create", "--allow", "not a host")
    cove.fails("invalid", "create", "--deny", "example.org:99999")
    cove.fails("invalid", "create", "--allow", "10.0.0.1")
    cove.fails("invalid", "create", "--allow", "")
    assert cove.names() == before


def test_inline_rules_of_a_closed_box(cove):
    box = cove("create", "--net", "closed", "--allow", "example.org:443", "--deny", "10.0.0.0/8").ok().text.strip()
    shown = cove("policy", "show", box).ok().text
    assert "# live: allow example.org:443 for ever\n" in shown and "# live: deny 10.0.0.0/8 for ever\n" in shown
    assert "rules: []" in shown
    cove("allow", box, "example.com").ok()


def test_a_session_with_another_network_is_a_conflict(cove, tmp_path):
    path = policy(tmp_path, "  - allow: example.org\n")
    session = f"net-{os.getpid()}"
    box = cove("open", session, "--net", path, "--allow", "example.com").ok().text.strip()
    assert cove("open", session).ok().text.strip() == box
    assert cove("open", session, "--net", path, "--allow", "example.com").ok().text.strip() == box
    cove.fails("conflict", "open", session, "--net", "open")
    cove.fails("conflict", "open", session, "--allow", "example.net")
    cove.fails("conflict", "open", session, "--deny", "example.com")
    cove("policy", "apply", box, "open").ok()
    assert cove("open", session, "--net", "open").ok().text.strip() == box
    cove.fails("conflict", "open", session, "--net", path)
    cove("close", session, "--delete").ok()
    box = cove("open", session, "--net", "closed").ok().text.strip()
    assert cove("open", session, "--net", "none").ok().text.strip() == box
    cove.fails("conflict", "open", session, "--net", "open")
    cove("close", session, "--delete").ok()


# ---- allow, deny, apply: live ----

@pytest.mark.once("both")
def test_a_box_and_its_record(cove, tmp_path, upstream):
    box = cove("create", "--net", policy(tmp_path, here(upstream))).ok().text.strip()
    fetch(cove, box, upstream)
    cove("deny", box, f"127.0.0.1:{upstream}").ok()
    fetch(cove, box, upstream, want="403")
    found = wait_until(lambda: [r for r in rows(cove, box) if r["kind"] in ("connect", "request")][1:],
                       "two rows")
    assert found and found[-1]["verdict"] == "deny" and found[-1]["port"] == upstream
    denied = rows(cove, box, "--denied")
    assert denied and all(r["verdict"] == "deny" for r in denied)
    assert rows(cove, box, "--since", "1h") and not rows(cove, box, "--since", "0")
    text = cove("audit", box).ok().text
    assert text.startswith("TIME") and f"127.0.0.1:{upstream}" in text and "allow" in text and "deny" in text
    assert "rows verified" in cove("audit", "verify", box).ok().text
    cove("policy", "apply", box, policy(tmp_path, here(upstream), "again.yaml")).ok()
    assert "# live" not in cove("policy", "show", box).ok().text
    fetch(cove, box, upstream)
    (stats,) = cove("stats", "--json", box).ok().json
    assert stats["net_up_bytes"] > 0 and stats["net_down_bytes"] > 0
    assert "NET UP/DOWN" in cove("stats", box).ok().text
    # Rows of a box that is there are not deleted; afterwards they are, and that shows nothing wrong.
    cove.fails("conflict", "audit", "rm", box)
    cove("rm", "-f", box).ok()
    shown = len(rows(cove, box))
    assert shown and cove("audit", "rm", box).ok().text == f"{shown} row{'s' * (shown != 1)} deleted\n"
    for words in (("audit", box), ("audit", "-f", box), ("audit", "verify", box)):
        cove.fails("not_found", *words)
    cove("audit", "verify").ok()


def audit_log(cove, box):
    (path,) = pathlib.Path(cove.home, "audit", "boxes").glob(f"{box}.*")
    return path


def synced_rows(log):
    """How many rows the head has; none before it is there, and while it is written."""
    head = log / "head"
    return int((head.read_text().split() or [0])[0]) if head.exists() else 0


def write_segments(log, first, last, size):
    """Goes on with a log as its door would have: segments from first to last, and the last of this size."""
    rows, last_hash = log.joinpath("head").read_text().split()[:2]
    rows = int(rows)
    for number in range(first, last + 1):
        lines, length = [], 0
        while length < (size if number == last else 1):
            fields = "kind=connect\thost=a.test\treason=" + "x" * 2000 if lines else "kind=segment"
            rows += 1
            text = f"seq={rows}\ttime_ms={int(time.time() * 1000)}\t{fields}\tprev={last_hash}\t"
            last_hash = hashlib.sha256(text.encode()).hexdigest()
            lines.append(f"{text}hash={last_hash}\n")
            length += len(lines[-1])
        log.joinpath(str(number)).write_text("".join(lines))
    log.joinpath("head").write_text(f"{rows} {last_hash} {last} {length}\n")
    return rows


def test_a_full_audit_log_drops_its_oldest_rows_and_the_box_goes_on(new_home, tmp_path, upstream):
    """And the box is named as one of the verb's own words."""
    cove = new_home()
    cove("create", "--name", "verify", "--net", policy(tmp_path, here(upstream))).ok()
    fetch(cove, "verify", upstream)
    cove("stop", "verify").ok()
    assert any(r["kind"] == "request" for r in rows(cove, "--", "verify"))
    log = audit_log(cove, "verify")
    oldest = log.joinpath("1").read_bytes().count(b"\n")
    had = write_segments(log, 2, 16, 16 << 20)
    assert cove("audit", "verify", "verify").ok().text == f"{had} rows verified\n"
    cove("start", "verify").ok()
    fetch(cove, "verify", upstream)
    assert sorted(int(p.name) for p in log.iterdir() if p.name.isdigit()) == list(range(2, 18))
    got = cove("audit", "verify", "--json", "verify").ok().json
    assert got["dropped"] == oldest and got["rows"] > had - oldest and got["cut"] == 0
    assert f", {oldest} older dropped by rotation" in cove("audit", "verify").ok().text
    found = rows(cove, "--", "verify")
    assert (found[0]["kind"], found[0]["count"]) == ("dropped", oldest)
    assert [r["verdict"] for r in found if r["kind"] == "request"] == ["allow"]
    # An end that a crash tore is not somebody's work, and the next door goes on behind it.
    cove("stop", "verify").ok()
    newest = log / "17"
    newest.write_bytes(newest.read_bytes() + newest.read_bytes()[:100])
    assert "1 log cut short by a crash" in cove("audit", "verify").ok().text
    cove("start", "verify").ok()
    fetch(cove, "verify", upstream)
    assert "cut short" not in cove("audit", "verify").ok().text
    # A segment that somebody removed is.
    log.joinpath("9").unlink()
    assert "segment 9 is gone" in cove.fails("conflict", "audit", "verify", "verify")


@pytest.mark.parametrize("verb", [("stop",), ("rm", "-f")])
def test_rows_are_there_when_a_box_ends(cove, tmp_path, upstream, verb):
    """What a finished request left is in the log, and durable, when the box's end is reported."""
    rules = policy(tmp_path, here(upstream))
    for _ in range(5):
        box = cove("create", "--net", rules).ok().text.strip()
        fetch(cove, box, upstream)
        cove(*verb, box).ok()
        log = audit_log(cove, box)
        lines = (log / "1").read_bytes().splitlines()
        assert any(b"kind=done" in line for line in lines), lines
        assert int((log / "head").read_text().split()[0]) == len(lines)
        cove("rm", "-f", box).ok()


@pytest.mark.once("both")
def test_a_changed_row_shows(new_home, tmp_path, upstream):
    cove = new_home()
    box = cove("create", "--net", policy(tmp_path, here(upstream))).ok().text.strip()
    fetch(cove, box, upstream)
    log = audit_log(cove, box)
    # A box's end waits only so long for a disk that many write to.
    wait_until(lambda: synced_rows(log) >= 3)
    cove("rm", "-f", box).ok()
    with open(log / "1", "r+b") as f:
        text = f.read()
        assert b"here" in text, text
        f.seek(0)
        f.write(text.replace(b"here", b"hers"))
    cove.fails("conflict", "audit", "verify", box)
    cove.fails("conflict", "audit", "verify", "--json")


def test_rows_say_nothing_twice(cove, tmp_path, upstream):
    rules = here(upstream).replace("name: here\n    ", "") + "  - ask: 127.0.0.1\n    ports: [1]\n" \
        "    private: true\n    ask_timeout: 1s\n"
    box = cove("create", "--net", policy(tmp_path, rules)).ok().text.strip()
    fetch(cove, box, upstream)
    fetch(cove, box, 1, want="403")
    wait_rows(cove, box, upstream, 1)
    text = cove("audit", box).ok().text
    assert ", rule 1" in text and "rule rule" not in text
    assert re.search(r"ask +GET 127.0.0.1:1/", text) and not re.search(r"ask +ask", text), text


def test_rows_fit_a_narrow_terminal(cove, tmp_path, upstream):
    box = cove("create", "--net", policy(tmp_path, here(upstream))).ok().text.strip()
    fetch(cove, box, upstream)
    fetch(cove, box, 1, want="403")
    wait_rows(cove, box, upstream, 1)
    cove("policy", "apply", box, "closed").ok()
    wait_until(lambda: any(r["kind"] == "policy" and r.get("rule") == "closed" for r in rows(cove, box)),
               "the policy's row")
    title, *lines = cove("audit", box).ok().text.splitlines()
    assert title.split() == ["TIME", "VERDICT", "WHAT"] and not any(line.split()[1] == box for line in lines)
    assert any(f"GET 127.0.0.1:{upstream}/ -> 200" in line[:60] and ", rule here" in line for line in lines), lines
    (denied,) = [line for line in lines if line.split()[1] == "deny" and "127.0.0.1:1" in line[:60]]
    assert "127.0.0.1:1: no rule allows it" in denied and "port 1:" not in denied
    applied = [line for line in lines if "policy closed, by uid" in line[:60]]
    assert len(applied) == 1 and len(applied[0].rsplit("sha256:")[1]) == 12, lines
    title, *lines = cove("audit").ok().text.splitlines()
    assert title.split() == ["TIME", "BOX", "VERDICT", "WHAT"] and title.index("WHAT") < 50
    assert any(line.split()[1] == box for line in lines)


def test_an_audit_log_that_is_gone_shows(new_home, tmp_path, upstream):
    cove = new_home()
    box = cove("create", "--net", policy(tmp_path, here(upstream))).ok().text.strip()
    cove("audit", "verify", box).ok()
    fetch(cove, box, upstream)
    cove("stop", box).ok()
    audit_log(cove, box)
    os.rename(f"{cove.home}/audit", f"{cove.home}/away")
    assert f"box '{box}' had a door" in cove.fails("conflict", "audit", "verify")
    assert "is gone" in cove.fails("conflict", "audit", "verify", box)


@pytest.mark.once("both")
def test_allow_and_deny(cove, box):
    got = cove("allow", "--json", box, "example.org:443", "*.example.com").ok()
    assert [json.loads(line)["result"] for line in got.out.splitlines()] == ["allowed"] * 2
    cove("allow", box, "example.net", "--for", "10m").ok()
    cove("deny", box, "example.org").ok()
    shown = cove("policy", "show", box).ok().text
    assert "# live: allow example.org:443 for ever\n" in shown and "# live: deny example.org for ever\n" in shown
    assert re.search(r"^# live: allow example.net until ([0-9-]+ )?[0-9]{2}:[0-9]{2}:[0-9]{2}$", shown, re.M)
    cove("allow", box, "short.example.net", "--for", "1ms").ok()
    wait_until(lambda: "short.example.net" not in cove("policy", "show", box).ok().text, "its end")
    cove.fails("invalid", "allow", box, "http://x.org")
    cove("allow", box, "example.org", "--once").ok()
    cove.fails("invalid", "allow", box, "example.org", "--once", "--for", "1m")
    cove.fails("invalid", "allow", box, "example.org", "--for", "0")
    cove.fails("invalid", "allow", box, "example.org", "--for", "soon")
    cove.fails("invalid", "allow", box)
    cove.fails("invalid", "allow", box, "no host")
    cove.fails("invalid", "allow", box, "192.168.0.1")
    cove("deny", box, "192.168.0.0/16").ok()
    cove.fails("invalid", "deny", box, "x" * 300)
    for verb in ("allow", "deny"):
        cove.fails("not_found", verb, "no-such-box", "example.org")


def test_a_closed_box_has_no_door(cove):
    box = cove("create", "--net", "closed").ok().text.strip()
    cove.fails("conflict", "allow", box, "example.org")
    for words in (("policy", "apply", box, "open"), ("asks", box), ("answer", box, "1", "allow")):
        assert "make it anew with --net" in cove.fails("conflict", *words)
    assert "rules: []" in cove("policy", "show", box).ok().text


def test_a_stopped_box_remembers(cove, box):
    cove("stop", box).ok()
    cove("allow", box, "example.org").ok()
    cove("policy", "apply", box, "open").ok()
    cove("start", box).ok()
    assert cove("policy", "show", box).ok().out == cove("policy", "show", "open").ok().out
    cove("stop", box).ok()
    for words in (("asks", box), ("allow", box, "example.org", "--once"), ("answer", box, 1, "allow")):
        cove.fails("conflict", *words)


def changes(cove, box):
    return [(r["kind"], r.get("rule") or r.get("host"), r["verdict"], r.get("reason", ""), r.get("by", ""))
            for r in rows(cove, box) if r["kind"] in ("policy", "grant")]


def policy_of(cove, box):
    return cove("inspect", box).ok().json["network"]["policy"]


def test_changes_are_recorded_with_who_asked(cove, tmp_path):
    """Of a running box by its door, of a stopped one without."""
    file = policy(tmp_path, "  - allow: example.org\n", name="own.yaml")
    box = cove("create", "--net", "balanced").ok().text.strip()
    me = {"SUDO_UID": "4711", "USER": "somebody"}
    assert policy_of(cove, box) == "balanced"
    for stopped in (False, True):
        if stopped:
            cove("stop", box).ok()
        before = len(changes(cove, box))
        cove("policy", "apply", box, "open", env=me).ok()
        assert policy_of(cove, box) == "open"
        cove("policy", "apply", box, file, env=me).ok()
        assert policy_of(cove, box) == file
        cove("allow", box, "example.net", "--for", "1h", env=me).ok()
        cove("deny", box, "example.com", env=me).ok()
        new = [c for c in changes(cove, box)[before:] if c[4]]
        assert [c[:3] for c in new] == [
            ("policy", "open", "allow"), ("policy", file, "allow"),
            ("grant", "example.net", "allow"), ("grant", "example.com", "deny")], new
        assert new[0][3].startswith("sha256:") and new[2][3] == "for 3600 s"
        assert all("sudo by uid 4711" in c[4] and c[4].startswith(f"uid {os.getuid()}") for c in new)
    cove("start", box).ok()
    cove("policy", "apply", box, "closed", env=me).ok()
    assert changes(cove, box)[-1][1] == "closed"
    cove("audit", "verify", box).ok()
    cove("rm", "-f", box).ok()


# ---- asks ----

@pytest.mark.once("both")
def test_asks_and_answers(cove, tmp_path, upstream):
    box = cove("create", "--net", policy(tmp_path, here(upstream, "ask"))).ok().text.strip()
    assert cove("asks").ok().text.count("\n") == 1 and cove("asks", box, "--json").ok().json == []
    for word, code in (("allow", "200"), ("deny", "403")):
        p = cove.start("exec", box, "--", "sh", "-c", FETCH % (upstream, word))
        (ask,) = wait_until(lambda: cove("asks", "--json", box).ok().json, "an ask")
        assert ask["box"] == box and ask["port"] == upstream and ask["rule"] == "here" and ask["requests"] == 1
        shown = cove("asks").ok().text
        assert shown.startswith("BOX") and f"127.0.0.1:{upstream}" in shown
        cove.fails("invalid", "answer", box, ask["id"], "perhaps")
        cove.fails("invalid", "answer", box, "one", "allow")
        cove.fails("not_found", "answer", box, ask["id"] + 1000, "allow")
        cove("answer", box, ask["id"], word, env={"SUDO_UID": "12", "USER": "x\n\tverdict=" + "y" * 500}).ok()
        out, _ = p.communicate(timeout=DEADLINE)
        assert out.decode().strip() == code
        cove.fails("not_found", "answer", box, ask["id"], word)
    by = wait_until(lambda: [r for r in rows(cove, box) if r["kind"] == "answer"], "a row of an answer")
    assert by[0]["by"].startswith(f"uid {os.getuid()}, sudo by uid 12, user x??verdict?yyy")
    assert len(by[0]["by"]) < 100
    cove.fails("not_found", "answer", "no-such-box", 1, "allow")
    cove.fails("not_found", "asks", "no-such-box")


def test_asks_watch(cove, tmp_path, upstream):
    box = cove("create", "--net", policy(tmp_path, here(upstream, "ask"))).ok().text.strip()
    watch = cove.start("asks", "--watch", "--json")
    p = cove.start("exec", box, "--", "sh", "-c", FETCH % (upstream, ""))
    ask = json.loads(watch.stdout.readline())
    cove("answer", box, ask["id"], "allow", "--for", "10m").ok()
    assert p.communicate(timeout=DEADLINE)[0].decode().strip() == "200"
    fetch(cove, box, upstream)  # the answer still holds
    watch.send_signal(signal.SIGINT)
    assert watch.wait(DEADLINE) == 130
    assert watch.stdout.read() == b""  # each once


# ---- secrets ----

class Hiding(Cove):
    """cove that never shows the secret, whatever it is asked."""

    def __call__(self, *args, **kw):
        result = super().__call__(*args, **kw)
        assert DECOY.encode() not in result.out + result.err, "the secret was shown"
        return result


@pytest.fixture
def secrets(new_home):
    """In a home of its own: secrets of other tests stay, and are not listed."""
    cove = new_home()
    return Hiding(cove.home, cove.image)


def test_secret_set_ls_rm(secrets, tmp_path):
    cove = secrets
    cove("secret", "set", "TOKEN", input=DECOY.encode() + b"\n").ok()
    path = f"{cove.home}/secrets/TOKEN"
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path, "rb") as f:
        assert f.read() == b"value\n" + DECOY.encode()
    (tmp_path / "token").write_text(DECOY)
    cove("secret", "set", "--json", "FILED", "--file", "token", cwd=tmp_path).ok()
    cove("secret", "set", "RUN", "--command", "cat /dev/null").ok()
    listed = cove("secret", "ls", "--json").ok().json
    assert [(s["name"], s["source"], s["where"]) for s in listed] == [
        ("FILED", "file", str(tmp_path / "token")), ("RUN", "command", "cat /dev/null"), ("TOKEN", "value", None)]
    assert "TOKEN" in cove("secret", "ls").ok().text
    assert cove("secret", "ls", "-q").ok().text.split() == ["FILED", "RUN", "TOKEN"]
    assert cove("secret", "rm", "--json", "TOKEN").ok().json == {"name": "TOKEN", "result": "removed"}
    cove.fails("not_found", "secret", "rm", "TOKEN")
    assert not os.path.exists(path)


def test_a_secret_is_never_an_argument(secrets):
    cove = secrets
    for args in (("set", "TOKEN", DECOY), ("set", "--json", "TOKEN", DECOY), ("set", "TOKEN", DECOY, "--file", "/x")):
        cove.fails("invalid", "secret", *args)
    assert cove("secret", "ls", "-q").ok().out == b""


def test_wrong_secrets(secrets, tmp_path):
    cove = secrets
    cove.fails("invalid", "secret", "set", "EMPTY", input=b"")
    cove.fails("invalid", "secret", "set", "EMPTY", input=b"\n")
    cove("secret", "set", "EXACT", input=b"x" * 65536).ok()
    for size in (65537, 65538, 65539, 1 << 20):
        huge = (DECOY.encode() * (size // len(DECOY) + 1))[:size]
        cove.fails("limit", "secret", "set", "HUGE", input=huge)
    for name in ("", "a-b", "1A", "a/b", "../x", "x" * 65, "a b"):
        cove.fails("invalid", "secret", "set", name, input=DECOY.encode())
    cove.fails("not_found", "secret", "set", "A", "--file", tmp_path / "missing")
    cove.fails("invalid", "secret", "set", "A", "--file", "/x", "--command", "y")
    cove.fails("invalid", "secret", "set")
    cove.fails("invalid", "secret", "rm")
    cove.fails("invalid", "secret", "ls", "--file", "x")
    cove.fails("invalid", "secret", "frob")
    assert cove("secret", "ls", "-q").ok().text.split() == ["EXACT"]


@pytest.mark.parametrize("given_up", [False, True])
def test_a_secret_from_the_terminal_does_not_show(secrets, given_up):
    cove = secrets
    master, slave = pty.openpty()
    p = cove.start("secret", "set", "TOKEN", stdin=slave, stdout=slave, stderr=slave)
    shown = b""

    def read_on():
        nonlocal shown
        if select.select([master], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                shown += os.read(master, 4096)
        return b"value of" in shown

    wait_until(read_on, "the prompt")
    # Whoever answers at once is not shown, and one that gives up is heard before the terminal is read.
    assert not termios_echo(master)
    if given_up:
        p.send_signal(signal.SIGINT)
    else:
        os.write(master, DECOY.encode() + b"\n")
    wait_until(lambda: read_on() and p.poll() is not None, "the end")
    assert termios_echo(master) and DECOY.encode() not in shown
    os.close(slave)
    os.close(master)
    assert p.returncode == (125 if given_up else 0)
    if not given_up:
        with open(f"{cove.home}/secrets/TOKEN", "rb") as f:
            assert f.read() == b"value\n" + DECOY.encode()


def termios_echo(fd):
    return termios.tcgetattr(fd)[3] & termios.ECHO


@pytest.mark.once("both")
def test_a_secret_is_used_and_not_seen(secrets, tmp_path, upstream):
    cove = secrets
    cove("secret", "set", "TOKEN", input=DECOY.encode()).ok()
    more = "    plain_http: true\n    inject:\n      headers: {X-Token: \"{{ secret.TOKEN }}\"}\n"
    box = cove("create", "--net", policy(tmp_path, here(upstream, more=more))).ok().text.strip()
    fetch(cove, box, upstream, "with-token")
    assert any(path == "/with-token" and headers.get("X-Token") == DECOY for path, headers in Quiet.seen)
    wait_until(lambda: [r for r in rows(cove, box) if r.get("credential") == "TOKEN"], "the credential's name")
    for args in (("audit", box), ("audit", "--json", box), ("inspect", box), ("policy", "show", box),
                 ("logs", "--json", box), ("ps", "--json", box)):
        cove(*args).ok()
    # Without it the policy is not good any more.
    cove("secret", "rm", "TOKEN").ok()
    cove.fails("invalid", "policy", "apply", box, policy(tmp_path, here(upstream, more=more)))
    cove("stop", box).ok()
    cove.fails("invalid", "start", box)
    cove("secret", "set", "TOKEN", input=DECOY.encode()).ok()
    cove("start", box).ok()
    fetch(cove, box, upstream)


# ---- rollback: what left is not undone ----

def roll(cove, box):
    """Back to s1; what the result and what the sentence say."""
    said = cove("rollback", box, "s1", "--json").ok().json
    return said, cove("rollback", box, "s1").ok().errors


@pytest.mark.once("both")
def test_a_rollback_names_what_left_since(new_home, tmp_path, upstream):
    cove = new_home()
    box = cove("create", "--net", policy(tmp_path, here(upstream))).ok().text.strip()

    def answered():
        return [r for r in rows(cove, box) if r["kind"] == "request" and r["verdict"] == "allow"]

    fetch(cove, box, upstream, "before")
    wait_until(answered, "the row of what left before the snapshot")
    cove("snapshot", "create", box, "s1", "--no-freeze").ok()
    said, text = roll(cove, box)
    assert (said["sent"], said["hosts"], said["sent_unknown"]) == (0, "", False) and "not undone" not in text
    for path in ("one", "two"):
        fetch(cove, box, upstream, path)
    fetch(cove, box, 1, "denied", want="403")
    wait_until(lambda: len(answered()) == 3, "the rows of what left")
    said, text = roll(cove, box)
    assert (said["sent"], said["hosts"], said["sent_unknown"]) == (2, "127.0.0.1", False)
    assert f"not undone: 2 requests left the box since then, to 127.0.0.1 (cove audit {box})" in text
    # A log that cannot be read says nothing about what left.
    cove("stop", box).ok()
    log = audit_log(cove, box)
    log.rename(log.with_name("away"))
    log.write_text("no directory")
    said, text = roll(cove, box)
    assert said["sent_unknown"] is True and f"could not be read, and is not undone (cove audit {box})" in text


SEND = """env -u NO_PROXY -u no_proxy python3 -c '
import os, socket, urllib.parse as p
proxy = p.urlsplit(os.environ["HTTP_PROXY"])
s = socket.create_connection((proxy.hostname, proxy.port))
s.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n")
s.recv(4096)
s.sendall(b"sent")
s.recv(1)
'"""


def test_a_rollback_names_what_was_cut(cove, tmp_path):
    """A connection that was open when its box ended is cut; what it sent before has left."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        port = server.getsockname()[1]
        box = cove("create", "--net", policy(tmp_path, here(port))).ok().text.strip()
        cove("snapshot", "create", box, f"{box}-s", "--no-freeze").ok()
        cove("exec", "-d", box, "--", "sh", "-c", SEND % (port, port)).ok()
        peer, _ = server.accept()
        with peer:
            peer.settimeout(DEADLINE)
            assert peer.recv(4, socket.MSG_WAITALL) == b"sent"
            cove("stop", "--grace", "0", box).ok()
    wait_until(lambda: [r for r in rows(cove, box) if r["verdict"] == "cut"], "the row to say that it was cut")
    said = cove("rollback", box, f"{box}-s", "--json").ok().json
    assert (said["sent"], said["hosts"]) == (1, "127.0.0.1")
    cove("snapshot", "rm", f"{box}-s").ok()


# ---- audit ----

def test_audit_usage(cove):
    cove.fails("invalid", "audit", "verify", "--denied")
    cove.fails("invalid", "audit", "--before", "1h")
    cove.fails("invalid", "audit", "rm")
    cove.fails("invalid", "audit", "rm", "box", "--before", "1h")
    cove.fails("invalid", "audit", "a", "b")
    cove.fails("invalid", "audit", "keep", "soon")
    cove.fails("invalid", "audit", "keep", "0")


def test_audit_keep(new_home):
    cove = new_home()
    assert cove("audit", "keep").ok().text == "forever\n"
    assert cove("audit", "keep", "90d").ok().text == "90d\n"
    assert cove("audit", "keep", "--json").ok().json["keep_ms"] == 90 * 86400 * 1000
    assert cove("audit", "keep", "forever").ok().text == "forever\n"
    assert cove("audit", "rm", "--before", "30d").ok().text == "0 rows deleted\n"


@pytest.mark.once("both")
def test_audit_follow(cove, tmp_path, upstream):
    box = cove("create", "--net", policy(tmp_path, here(upstream))).ok().text.strip()
    p = cove.start("audit", "-f", "--json", box)
    # It follows from when it is there: rows are made until the first is seen.
    end = time.monotonic() + DEADLINE
    while not select.select([p.stdout], [], [], 0.2)[0]:
        assert time.monotonic() < end
        fetch(cove, box, upstream)
    assert json.loads(p.stdout.readline())["box"] == box
    p.send_signal(signal.SIGINT)
    assert p.wait(DEADLINE) == 130


# ---- port ----

@contextlib.contextmanager
def forwarded(cove, *args):
    p = cove.start("port", *args)
    try:
        yield p, p.stdout.readline().decode().strip()
    finally:
        p.kill()
        p.communicate()


@pytest.fixture(scope="module")
def echo_box(session_cove):
    """A box in which port 7000 sends back what it gets, also after a half-close."""
    box = session_cove("create", "--net", "closed").ok().text.strip()
    line = ("import socketserver as s\nclass H(s.StreamRequestHandler):\n  def handle(self):\n"
            "    while (d := self.request.recv(65536)): self.request.sendall(d)\n"
            "class T(s.ThreadingTCPServer): allow_reuse_address = daemon_threads = True; request_queue_size = 128\n"
            "T(('127.0.0.1', 7000), H).serve_forever()\n")
    session_cove("exec", "-d", box, "--", "python3", "-c", line).ok()
    probe = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 7000))\""
    wait_until(lambda: session_cove("exec", box, "--", "sh", "-c", probe).rc == 0, "the server in the box")
    yield box
    session_cove("rm", "-f", box).ok()


def echo(port, data, host="127.0.0.1"):
    """Sends while it receives, half-closes, and returns all that came."""
    with socket.create_connection((host, port), DEADLINE) as s:
        def send():
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        got = b""
        while chunk := s.recv(1 << 16):
            got += chunk
        sender.join()
        return got


def port_of(url):
    return int(url.rstrip("/").rsplit(":", 1)[1])


@pytest.mark.once("both")
def test_port(cove, echo_box):
    with forwarded(cove, echo_box, "7000:0") as (p, url):
        assert url.startswith("http://127.0.0.1:")
        port = port_of(url)
        assert echo(port, b"hello") == b"hello"
        data = os.urandom(5 << 20)
        assert echo(port, data) == data
        assert echo(port, b"") == b""
        results = []
        threads = [threading.Thread(target=lambda i=i: results.append(echo(port, b"%d" % i * 1000))) for i in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(DEADLINE)
        assert sorted(results) == sorted(b"%d" % i * 1000 for i in range(40))
        # Nobody else can reach it: it listens on the loopback only.
        with open("/proc/net/tcp") as f:
            listeners = [line.split()[1] for line in f.readlines()[1:] if line.split()[3] == "0A"]
        assert [a for a in listeners if int(a.split(":")[1], 16) == port] == [f"0100007F:{port:04X}"]
        p.send_signal(signal.SIGINT)
        assert p.wait(DEADLINE) == 130
    with pytest.raises(OSError):
        echo(port, b"x")


def test_port_in_json(cove, echo_box):
    with forwarded(cove, echo_box, "7000:0", "--json") as (p, line):
        told = json.loads(line)
        assert told["box"] == echo_box and told["port"] == 7000 and told["address"] == "127.0.0.1"
        assert told["url"] == f"http://127.0.0.1:{told['local_port']}/"
        assert echo(told["local_port"], b"x") == b"x"


def test_port_in_use(cove, echo_box):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cove.fails("conflict", "port", echo_box, f"7000:{port}")


def test_port_address(cove, echo_box):
    with forwarded(cove, echo_box, "7000:0", "--address", "::1") as (p, url):
        assert url.startswith("http://[::1]:")
        assert echo(port_of(url), b"six", "::1") == b"six"
    with forwarded(cove, echo_box, "7000:0", "--address", "0.0.0.0") as (p, url):
        assert echo(port_of(url), b"any") == b"any"
        p.send_signal(signal.SIGTERM)
        assert p.wait(DEADLINE) == 143
        assert b"WARNING" in p.stderr.read()
    cove.fails("invalid", "port", echo_box, "7000:0", "--address", "192.0.2.77")
    cove.fails("invalid", "port", echo_box, "7000:0", "--address", "localhost")


def test_port_where_nobody_listens(cove, echo_box):
    with forwarded(cove, echo_box, "7999:0") as (p, url):
        for _ in range(3):
            with pytest.raises(ConnectionResetError):
                with socket.create_connection(("127.0.0.1", port_of(url)), DEADLINE) as s:
                    assert s.recv(1) == b"never"
        assert p.poll() is None
        # Said, but not for each of a client's many attempts.
        p.terminate()
        said = p.stderr.read().decode()
        assert 1 <= said.count(f"a connection to port 7999 of box '{echo_box}' failed: ") <= 3, said


def test_port_ends_with_its_box(cove, box):
    with forwarded(cove, box, "7000:0") as (p, url):
        cove("rm", "-f", box).ok()
        assert p.wait(DEADLINE) == 125
        assert box.encode() in p.stderr.read()


def test_port_wrong_use(cove, echo_box):
    for port in ("0", "x", "70000", "", "80:x", "80:70000", ":80", "80:", "123456:1", "-1"):
        assert cove("port", echo_box, port).rc == 2, port
    cove.fails("invalid", "port")
    cove.fails("not_found", "port", "no-such-box", "80")
    stopped = cove("create").ok().text.strip()
    cove("stop", stopped).ok()
    cove.fails("conflict", "port", stopped, "80")


def test_help_of_every_verb(cove):
    listed = cove("help").ok().text
    for verb in ("policy", "allow", "deny", "asks", "answer", "secret", "audit", "port"):
        text = cove("help", verb).ok().text
        assert "Examples" in text and f"  {verb} " in listed
        assert all(len(line) <= 80 for line in text.splitlines()), verb


def test_subprocess_arguments_hold_no_secret(secrets, tmp_path):
    """While a value is read no process of ours has it in its arguments or environment."""
    cove = secrets
    p = cove.start("secret", "set", "TOKEN")
    p.stdin.write(DECOY.encode())
    p.stdin.flush()
    for what in ("cmdline", "environ"):
        with contextlib.suppress(PermissionError), open(f"/proc/{p.pid}/{what}", "rb") as f:
            assert DECOY.encode() not in f.read()
    assert p.communicate(timeout=DEADLINE) == (b"", b"")
    assert p.returncode == 0
    assert subprocess.run(["grep", "-rlF", DECOY, cove.home], capture_output=True).stdout.decode().split() == [
        f"{cove.home}/secrets/TOKEN"]
