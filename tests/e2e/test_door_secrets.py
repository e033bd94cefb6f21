"""Credentials at the door: added outside the box, where they belong and nowhere else, and never seen inside.

That no decoy comes out of a command, is in a box's files or in its memory is checked for every test here
(door_kit.py); at the end everything that is left on disk is searched.
"""
import base64
import glob
import gzip
import json
import os
import signal

import pytest

from conftest import DEADLINE, IS_ROOT, wait_until
from door_kit import DIRECT
from door_rig import in_file, in_process, in_tree
from door_servers import header
from programs import descendants

pytestmark = pytest.mark.once("user")


def inject(**what):
    return {"name": "the api", "allow": "web.test", "inject": what}


FORMS = {
    "bearer": ("Authorization", inject(headers={"Authorization": "Bearer {{ secret.TOKEN }}"}), "Bearer {}"),
    "header": ("X-Api-Key", inject(headers={"X-Api-Key": "{{secret.TOKEN}}"}), "{}"),
    "words": ("Cookie", inject(headers={"Cookie": "a=1; session={{ secret.TOKEN }}; b=2"}), "a=1; session={}; b=2"),
    "basic": ("Authorization", inject(basic={"user": "me", "password": "{{ secret.TOKEN }}"}), None),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["direct", "proxy"])
def test_header(door, rig, form, way):
    name, rule, text = FORMS[form]
    value = door.secret("TOKEN")
    box = door.box([rule])
    mine = ["-H", f"{name.lower()}: mine", "-H", f"{name.upper()}: too"]
    door.curl(box, rig.url(f"/echo?{form}-{way}"), *mine, way=way).ok()
    expected = text.format(value) if text else "Basic " + base64.b64encode(f"me:{value}".encode()).decode()
    assert header(rig.web.last(f"{form}-{way}"), name) == [expected]
    row = door.row(box, kind="request", host="web.test")
    assert (row["verdict"], row["rule"], row["credential"], row["method"]) == ("allow", "the api", "TOKEN", "GET")


@pytest.mark.once("both")
def test_query_parameter(door, rig):
    value = door.secret("TOKEN")
    box = door.box([inject(query={"key": "{{ secret.TOKEN }}"})])
    door.curl(box, rig.url("/echo?asked=query&key=mine&b=2")).ok()
    target = rig.web.last("asked=query").target
    assert target.count("key=") == 1 and f"key={value}" in target and "b=2" in target and "mine" not in target
    assert value not in json.dumps(door.rows(box))


@pytest.mark.once("both")
def test_two_secrets_in_one_request(door, rig):
    one, two = door.secret("TOKEN"), door.secret("SECOND")
    box = door.box([inject(headers={"X-A": "{{ secret.TOKEN }}:{{ secret.SECOND }}"},
                           query={"s": "{{ secret.SECOND }}"})])
    door.curl(box, rig.url("/echo?both")).ok()
    last = rig.web.last("both")
    assert header(last, "X-A") == [f"{one}:{two}"] and f"s={two}" in last.target
    assert set(door.row(box, kind="request")["credential"].split(",")) == {"TOKEN", "SECOND"}


# ---- it does not come back ----

@pytest.mark.parametrize("form", ["bearer", "basic"])
@pytest.mark.parametrize("how", ["whole", "bytes", "threes", "big"])
def test_echo_is_redacted(door, rig, form, how):
    """In headers, in the body however it is cut, in trailers; plain, in base64, in JSON, percent-encoded."""
    door.secret("TOKEN")
    box = door.box([FORMS[form][1]])
    for kind in ("text/plain", "application/json") if how == "whole" else ("text/html; charset=utf-8",):
        got = door.curl(box, "-i", "--raw", rig.url(f"/reflect?how={how}&type={kind.replace(' ', '%20')}&{form}")).ok()
        assert "****" in got.text and "X-Seen-" in got.text
    assert rig.token in str(rig.web.last(f"&{form}").headers) or form == "basic"


def test_echo_of_a_request_with_a_body(door, rig):
    """What the box sends itself comes back as it was."""
    door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1]])
    door.put(box, "/tmp/b", "x" * 100000)
    got = door.do(box, DIRECT + "curl -sS --max-time 90 -T /tmp/b -H 'Content-Type: text/plain' "
                                f"{rig.url('/body')} | sha256sum; sha256sum </tmp/b")
    assert len(set(got.ok().text.split())) == 2, got


def test_no_compression_where_a_credential_is(door, rig):
    door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1]])
    got = door.curl(box, "--compressed", rig.url("/gzip?narrow"))
    assert got.ok().out == b"compressed " * 1000
    assert header(rig.web.last("/gzip?narrow"), "Accept-Encoding") in ([], ["identity"])


@pytest.mark.parametrize("form", ["gzip", "deflate"])
def test_an_answer_that_is_compressed_anyway(door, rig, form):
    """curl gets it plain and searched, as any client that did not ask for it expects."""
    door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1]])
    got = door.curl(box, "-i", "--compressed", rig.url(f"/packed?as={form}")).ok()
    assert b"compressed compressed" in got.out and got.out.endswith(b"the end") and b"Bearer ****" in got.out
    assert b"ncoding: " + form.encode() not in got.out and b'W/"packed"' in got.out
    assert door.code(box, rig.url("/packed?as=br")) == 502
    assert "(br)" in door.row(box, verdict="failed")["reason"]


def test_a_download_goes_on_where_the_rule_has_ranges(door, rig):
    door.secret("TOKEN")
    url = rig.url("/part")
    line = f"cd /tmp && {DIRECT} curl -sS {url} >whole && head -c 40000 whole >half && " \
           f"{DIRECT} curl -sS -C - -o half {url} && cmp whole half && echo same"
    box = door.box([{**FORMS["bearer"][1], "ranges": True}])
    assert door.do(box, line).ok().text.strip() == "same"
    assert header(rig.web.last("/part"), "Range") == ["bytes=40000-"]
    box = door.box([FORMS["bearer"][1]])
    assert "same" not in door.do(box, line).text and not header(rig.web.last("/part"), "Range")


# ---- it goes nowhere else ----

def test_redirect_elsewhere_does_not_carry_it(door, rig):
    door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1], {"allow": "other.test", "tls": "intercept"}])
    there = rig.url("/echo?landed", "other.test")
    door.curl(box, "-L", "--location-trusted", rig.url("/redirect?from=here&to=" + there)).ok()
    assert header(rig.web.last("from=here"), "Authorization") and not header(rig.other.last("landed"), "Authorization")


def test_not_without_tls(door, rig):
    value = door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1]])
    code = door.code(box, rig.url("/echo?unproven", tls=False))
    assert code in (200, 403) and not any(header(r, "Authorization") for r in rig.web.seen("unproven"))
    box = door.box([{**FORMS["bearer"][1], "plain_http": True}])
    assert door.code(box, rig.url("/echo?agreed", tls=False)) == 200
    assert header(rig.web.last("agreed"), "Authorization") == [f"Bearer {value}"]


def test_not_where_the_name_is_not_proven(door, rig):
    """The name leads to another server, which has a certificate for itself only."""
    door.secret("TOKEN")
    rule = {**FORMS["bearer"][1], "allow": "impostor.test"}
    box = door.box([rule])
    assert door.code(box, rig.url("/echo?impostor", "impostor.test", web=rig.other), "-k") in (403, 502)
    assert not rig.other.seen("impostor")


NEAR = ["/v1x/echo", "/V1/echo", "/v1", "/v1/../echo", "/v1/%2e%2e/echo", "/v1/..%2fecho", "/v1/..;/echo", "//v1/echo",
        "/./v1/../echo", "/v1/%2E%2e/%2e/echo", "/v1%2fecho", "/v1\\\\echo"]


@pytest.mark.parametrize("path", NEAR)
def test_near_misses_of_a_path(door, rig, near_box, path):
    """Beside the path that has the credential there is a rule without one: nothing else gets it."""
    door.curl(near_box, "--path-as-is", rig.url(path + "?near"), "-o", "/dev/null")
    for request in rig.web.seen("?near"):
        if header(request, "X-Key"):
            assert request.target.startswith("/v1/") and ".." not in request.target and "%" not in request.target


@pytest.fixture(scope="module")
def near_box(session_door):
    session_door.secret("TOKEN")
    box = session_door.box([{"name": "narrow", "allow": "web.test", "methods": ["GET"], "paths": ["/v1/**"],
                             "inject": {"headers": {"X-Key": "{{ secret.TOKEN }}"}}}, {"allow": "web.test"}])
    session_door.boxes.remove(box)
    yield box
    session_door.search(box)
    session_door("rm", "-f", box).ok()


def test_the_path_and_method_that_has_it(door, rig, near_box):
    door.curl(near_box, rig.url("/v1/echo?exact")).ok()
    assert header(rig.web.last("exact"), "X-Key") == [rig.secret("TOKEN")]
    door.curl(near_box, "-X", "POST", rig.url("/v1/echo?posted")).ok()
    assert not header(rig.web.last("posted"), "X-Key")


def test_another_box_has_nothing_of_it(door, rig):
    door.secret("TOKEN")
    one, two = door.box([FORMS["bearer"][1]]), door.box([{"allow": "web.test", "tls": "intercept"}])
    door.curl(one, rig.url("/echo?one")).ok()
    door.curl(two, rig.url("/echo?two")).ok()
    assert header(rig.web.last("?one"), "Authorization") and not header(rig.web.last("?two"), "Authorization")
    names = {os.path.basename(os.readlink(f)) for p in door.doors(two) for f in glob.glob(f"/proc/{p}/fd/*")
             if os.path.lexists(f)}
    assert "TOKEN" not in names


# ---- where it comes from ----

def test_missing_secret_is_an_error_at_start(door):
    rule = inject(headers={"Authorization": "Bearer {{ secret.NOT_THERE }}"})
    for verb in (["create"], ["run"]):
        door.fails("invalid", *verb, "--net", door.policy([rule]), *(["--", "true"] if verb == ["run"] else []))


def test_rotation(door, rig):
    first = door.secret("TURN", rig.secret("TURN_ONE"))
    box = door.box([inject(headers={"X-Key": "{{ secret.TURN }}"})])
    door.curl(box, rig.url("/echo?before")).ok()
    second = door.secret("TURN", rig.secret("TURN_TWO"))
    door.curl(box, rig.url("/echo?after")).ok()
    assert header(rig.web.last("before"), "X-Key") == [first] and header(rig.web.last("after"), "X-Key") == [second]


@pytest.mark.once("both")
def test_rotation_between_two_requests_of_a_connection(door, rig):
    door.secret("TURN", rig.secret("TURN_ONE"))
    box = door.box([inject(headers={"X-Key": "{{ secret.TURN }}"})])
    door.need(box, "python3")
    door.put(box, "/tmp/two.py", """
import http.client, sys
c = http.client.HTTPSConnection("web.test", int(sys.argv[1]), timeout=90)
for word in ("kept-one", "kept-two"):
    c.request("GET", "/echo?" + word)
    c.getresponse().read()
    print(word, flush=True)
    sys.stdin.readline()
""")
    client = door.start("exec", "-i", box, "--", "python3", "/tmp/two.py", str(rig.web.tls_port))
    assert client.stdout.readline() == b"kept-one\n"
    door.secret("TURN", rig.secret("TURN_TWO"))
    client.communicate(b"\n\n", timeout=DEADLINE)
    assert header(rig.web.last("kept-one"), "X-Key") == [rig.secret("TURN_ONE")]
    assert header(rig.web.last("kept-two"), "X-Key") == [rig.secret("TURN_TWO")]


@pytest.mark.once("both")
@pytest.mark.parametrize("source", ["file", "command"])
def test_from_a_file_or_a_command(door, rig, source):
    path = rig.dir / f"value-{source}"
    path.write_text(rig.secret("PLACED") + ("\n" if source == "command" else ""))
    path.chmod(0o600)
    flags = ["--file", path] if source == "file" else ["--command", f"cat {path}"]
    door("secret", "set", *flags, f"FROM_{source.upper()}").ok()
    box = door.box([inject(headers={"X-Key": f"{{{{ secret.FROM_{source.upper()} }}}}"})])
    door.curl(box, rig.url(f"/echo?{source}-1")).ok()
    assert header(rig.web.last(f"{source}-1"), "X-Key") == [rig.secret("PLACED")]
    path.write_text(rig.secret("REPLACED"))
    door.curl(box, rig.url(f"/echo?{source}-2")).ok()
    assert header(rig.web.last(f"{source}-2"), "X-Key") == [rig.secret("REPLACED")]
    path.unlink()
    assert door.code(box, rig.url(f"/echo?{source}-3")) in (403, 500, 502, 503)
    assert not rig.web.seen(f"{source}-3"), "an empty header is never sent"
    wait_until(lambda: any(f"FROM_{source.upper()}" in r.get("reason", "") for r in door.rows(box)),
               "the row that names it")


def test_what_a_command_printed_is_kept(door, rig):
    """For all requests of the box, several at once too, until it is set again."""
    runs, value = rig.dir / "runs", rig.dir / "value-kept"
    runs.write_text("")
    value.write_text(rig.secret("KEPT"))
    value.chmod(0o600)
    runs.chmod(0o600)
    flags = ["KEPT", "--command", f"echo x >> {runs}; cat {value}"]
    door("secret", "set", *flags, "--cache", "15m").ok()
    (listed,) = [s for s in json.loads(door("secret", "ls", "--json").ok().out) if s["name"] == "KEPT"]
    assert listed["cache_ms"] == 15 * 60 * 1000
    box = door.box([inject(headers={"X-Key": "{{ secret.KEPT }}"})])
    urls = [rig.url(f"/echo?kept-{i}") for i in range(8)]
    door.curl(box, "--parallel", "--no-keepalive", *urls).ok()
    for i in range(8):
        assert header(rig.web.last(f"kept-{i}"), "X-Key") == [rig.secret("KEPT")]
    door.curl(box, rig.url("/echo?kept-9")).ok()
    assert runs.read_text() == "x\n"
    value.write_text(rig.secret("KEPT_NEW"))
    door("secret", "set", *flags, "--cache", "15m").ok()
    door.curl(box, rig.url("/echo?kept-10")).ok()
    assert header(rig.web.last("kept-10"), "X-Key") == [rig.secret("KEPT_NEW")] and runs.read_text() == "x\nx\n"
    door("secret", "rm", "KEPT").ok()
    assert door.code(box, rig.url("/echo?kept-11")) in (403, 500, 502, 503)
    assert not rig.web.seen("kept-11")
    for wrong in (["A", "--cache", "15m"], ["A", "--file", "/x", "--cache", "15m"],
                  ["A", "--command", "x", "--cache", "0"]):
        door("secret", "set", *wrong, input=b"x").refused(rc=2)
    door.fails("limit", "secret", "set", "A", "--command", "x", "--cache", "25h")


def running(line):
    """Processes of the host with this command line."""
    want, found = line.replace(" ", "\0").encode() + b"\0", []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                found += [path] if f.read() == want else []
        except OSError:
            pass
    return found


@pytest.mark.parametrize("how", ["rm", "kill"])
def test_what_a_command_leaves_running_ends_with_the_box(door, rig, how):
    """And holds up nothing: the launcher goes, and so do the groups."""
    left = f"sleep 1{os.getpid()}{len(how)}"
    door("secret", "set", "--command", f"setsid {left} & echo v", "LEAVES").ok()
    box = door.box([inject(headers={"X-Key": "{{ secret.LEAVES }}"})])
    door.curl(box, rig.url(f"/echo?leaves-{how}")).ok()
    assert header(rig.web.last(f"leaves-{how}"), "X-Key") == ["v"]
    keeper = door.inspect(box)["keeper_pid"]
    launchers = [p for p in descendants(keeper) if open(f"/proc/{p}/comm").read().strip() == "cove-launcher"]
    assert len(launchers) == 1 and running(left)
    if how == "kill":
        os.kill(keeper, signal.SIGKILL)
    else:
        door("rm", "-f", box).ok()
    wait_until(lambda: not os.path.exists(f"/proc/{launchers[0]}"), "the launcher's end")
    assert not running(left)
    groups = f"/sys/fs/cgroup/**/cove/*-{box}+*"
    assert not glob.glob(groups, recursive=True)
    door("rm", "-f", box).ok()


@pytest.mark.once("both")
def test_client_certificate(door, rig):
    cert, key = rig.ca.issue("the box's operator", client=True)
    for name, path in (("CERT", cert), ("KEY", key)):
        door("secret", "set", name, input=path.read_bytes()).ok()
    web = rig.new_web("mtls.test", clients=True)
    box = door.box([{"allow": "mtls.test", "client_cert": {"cert": "{{ secret.CERT }}", "key": "{{ secret.KEY }}"}}])
    got = door.echoed(box, f"https://mtls.test:{web.tls_port}/echo")
    assert got["peer"] == "the box's operator"
    # Nothing is in the request that could come back: what the box asks for is asked for, and nothing waits.
    there = f"https://mtls.test:{web.tls_port}"
    got = door.curl(box, "-i", "-H", "Accept-Encoding: gzip", "-H", "Authorization: mine", there + "/gzip?own").ok()
    assert b"Content-Encoding: gzip" in got.out and gzip.compress(b"compressed " * 1000)[10:20] in got.out
    assert header(web.last("/gzip?own"), "Authorization") == ["mine"]
    bare = door.box([{"allow": "mtls.test", "tls": "intercept"}])
    assert door.code(bare, f"https://mtls.test:{web.tls_port}/echo") in (403, 502)


# ---- the process that holds it ----

@pytest.mark.once("both")
def test_the_door_keeps_it_to_itself(door, rig):
    door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1]])
    door.curl(box, rig.url("/echo")).ok()
    # The broker's child that syncs the audit log comes and goes.
    pids = wait_until(lambda: len(found := door.doors(box)) == 2 and found, "proxy and broker alone")
    for pid in pids:
        assert not in_file(f"/proc/{pid}/environ", door.needles) and not in_file(f"/proc/{pid}/cmdline", door.needles)
        limits = open(f"/proc/{pid}/limits").read()
        core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
        assert core.split()[4:6] == ["1", "1"]  # 0 would still start a core_pattern's program
        status = open(f"/proc/{pid}/status").read()
        if "Name:\tcove-broker" in status:
            continue  # it reads files and runs the operator's commands
        assert "CapEff:\t0000000000000000" in status and "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
        if not IS_ROOT:
            with pytest.raises(PermissionError):
                open(f"/proc/{pid}/mem", "rb")


def test_key_log_is_not_written(door, rig, tmp):
    """SSLKEYLOGFILE of whoever starts the box opens nothing."""
    door.secret("TOKEN")
    log = tmp / "keys"
    path = door.policy([FORMS["bearer"][1]])
    got = door("run", "--net", path, "--", "curl", "-sS", "--max-time", "90", rig.url("/echo?logged"),
               env={"SSLKEYLOGFILE": str(log)})
    assert got.ok().json["tls"] and not log.exists()


# ---- the end: everywhere ----

def test_no_decoy_is_left_anywhere(door, rig):
    """Runs last in this file: a live box with clients at work, and all that earlier tests left behind."""
    door.secret("TOKEN")
    box = door.box([FORMS["bearer"][1], FORMS["basic"][1] | {"allow": "other.test", "name": "two"}])
    line = f"curl -sS --max-time 60 '{rig.url('/sse?gate=decoy')}'"
    clients = [door.start("exec", box, "--", "sh", "-c", line) for _ in range(2)]
    try:
        wait_until(lambda: len(rig.web.seen("gate=decoy")) == 2, "two clients at work")
        door.curl(box, rig.url("/reflect?how=threes")).ok()
        inside = [p for p in door.host_processes(box) if p not in door.doors(box)]
        results = [in_process(p, door.needles) for p in inside]
        assert not [f for found, _ in results for f in found]
        assert sum(size for _, size in results) > 1 << 20, "the memory of the box could be read"
    finally:
        rig.web.gates["decoy"].set()
        for client in clients:
            client.communicate(timeout=DEADLINE)
    assert in_tree(f"{door.home}/secrets", door.needles), "the search finds what is there"
    # Layers of images are read-only and were there before any secret.
    assert not in_tree(door.home, door.needles, leave_out=("secrets", "layers"))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            assert not in_file(f"/proc/{pid}/{name}", door.needles), f"{pid} {name}"
    for core in glob.glob("/tmp/core*") + glob.glob("core*") + glob.glob("/var/lib/systemd/coredump/*"):
        assert not in_file(core, door.needles), core
