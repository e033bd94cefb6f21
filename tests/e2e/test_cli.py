"""The command line itself: help, wrong arguments, JSON, completion."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import DEADLINE, PREFIX, needs_base, wait_until

pytestmark = pytest.mark.once("root")

VERBS = ["run", "create", "open", "close", "exec", "sh", "shell", "ls", "inspect", "logs", "cp", "ps", "kill", "stop",
         "start", "rm", "stats", "pause", "resume", "set", "workspace", "image", "doctor", "version", "attach", "wait",
         "shells",
         "policy", "allow", "deny", "asks", "answer", "secret", "audit", "port", "ports", "wall", "sbx", "diff",
         "system", "merge", "key", "webhook", "read", "edit", "glob", "grep", "watch"]


def test_help_has_a_line_for_each_verb(cove):
    lines = cove("help").ok().text.splitlines()
    for verb in VERBS:
        assert any(re.match(rf"\s*(cove )?{verb}\b", line) for line in lines), verb
    assert cove("--help").text == cove("help").text == cove("-h").text


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(cove, verb):
    text = cove("help", verb).ok().text
    assert f"cove {verb}" in text and len(text.splitlines()) >= 3
    assert cove(verb, "--help").ok().text == text


def test_help_fits_a_terminal(cove):
    pages = [cove("help").ok().text]
    verbs = [line.split()[0] for line in pages[0].splitlines() if re.match(r"  [a-z]", line)]
    pages += [cove("help", verb).ok().text for verb in verbs if verb != "cove"]
    for verb in ("image", "snapshot", "system", "key", "webhook", "pool"):  # verbs with pages of their own
        words = re.findall(r"^([a-z]+)  ", cove("help", verb).ok().text, re.M)
        pages += [cove("help", verb, word).ok().text for word in words]
    assert [line for page in pages for line in page.splitlines() if len(line) > 80] == []
    assert "...directories" not in pages[0]
    cove("help", "run", "extra").refused(rc=2)


def test_help_of_a_verb_of_a_verb(cove):
    assert cove("help", "policy", "suggest").ok().text == cove("help", "policy").text
    assert cove("help", "sbx", "create").ok().text != cove("help", "sbx").text
    for word in ("sugges", "suggests", "", "[", "..."):
        cove("help", "policy", word).refused(rc=2)
    cove("help", "frobnicate", "make").refused(rc=2)


def test_a_name_that_is_a_directory_too(cove, tmp):
    (tmp / "project").mkdir()
    got = cove("run", "--workspace", "project", "--", "true", cwd=tmp)
    assert "--workspace ./project" in got.ok().errors
    assert "./project" not in cove("run", "--workspace", "./project", "--", "true", cwd=tmp).ok().errors
    cove("workspace", "rm", "project").ok()


def test_the_image_host_is_always_there(new_home):
    home = new_home()
    assert "always there" in home("image", "rm", "host").ok().errors
    assert "host" in home("image", "ls", "-q").ok().text.split()


def test_the_longest_line(cove, box):
    assert cove("sh", box, "-", input=b"echo ok".ljust(983040)).ok().text == "ok\n"
    cove.fails("limit", "sh", box, "-", input=b"echo ok".ljust(983041))


def test_a_missing_helper_is_looked_for_in_two_places(cove, tmp):
    installed = pathlib.Path("/usr/local/libexec/cove")
    if installed.exists():
        pytest.skip("a Cove is installed below /usr/local")
    (tmp / "bin").mkdir()
    shutil.copy(cove.program, tmp / "bin/cove")
    env = {k: v for k, v in cove.env.items() if k != "COVE_LIBEXEC"}
    got = subprocess.run([tmp / "bin/cove", "run", "--image", "host", "--", "true"], env=env, capture_output=True,
                         text=True)
    assert got.returncode == 125 and f"no cove-keeper below '{tmp}'" in got.stderr and "(make)" in got.stderr
    got = subprocess.run([tmp / "bin/cove", "doctor"], env=env, capture_output=True, text=True)
    assert got.stdout.count("cove-keeper") == 1 and "(make install)\n" in got.stdout


def test_help_of_nothing(cove):
    cove("help", "frobnicate").refused(rc=2)


def test_no_arguments(cove):
    got = cove()
    assert "cove help" in got.text + got.errors or "run" in got.text + got.errors


def test_unknown_verb_suggests(cove):
    assert "cove run" in cove.fails("invalid", "rnu")


@pytest.mark.parametrize("said, meant", [("pull", "image pull"), ("rmi", "image rm"), ("build", "image build"),
                                         ("save", "image save"), ("images", "image ls"), ("df", "system df"),
                                         ("import", "image import"), ("tag", "image tag")])
def test_a_second_word_alone_is_suggested_with_its_first(cove, said, meant):
    assert f"'cove {meant}'" in cove.fails("invalid", said, "busybox")


@pytest.mark.parametrize("verb", VERBS)
def test_unknown_option(cove, verb):
    cove(verb, "--frobnicate").refused(rc=2)


@pytest.mark.parametrize("args", [
    ["run"], ["exec"], ["exec", "b"], ["sh"], ["sh", "b"], ["shell", "a", "b"], ["inspect"], ["logs"], ["cp"],
    ["cp", "a"],
    ["ps"], ["kill"], ["kill", "b"], ["stop"], ["start"], ["rm"], ["open"], ["close"], ["workspace"], ["image"],
    ["pause"], ["resume"], ["set"], ["set", "--ttl", "1h"], ["set", "b", "--ttl"], ["system", "reap", "x"],
    ["workspace", "rm"], ["image", "import"], ["image", "rm"], ["image", "frob"], ["workspace", "frob"],
    ["run", "--timeout", "soon", "--", "true"], ["run", "--timeout"], ["run", "-e", "1X=y", "--", "true"],
    ["run", "-e", "", "--", "true"], ["create", "--label", "no-equals"], ["logs", "--from", "x", "b"],
    ["kill", "--signal", "NOPE", "b", "1"], ["kill", "b", "x"],
    ["shells"], ["shells", "ls"], ["shells", "rm", "b"], ["shells", "frob", "b"],
    ["read"], ["read", "no-box"], ["read", "b:x", "--lines", "9:3"], ["edit", "b:x", "a"], ["glob", "b:"],
    ["grep", "x", "y"], ["watch", "b"], ["grep", "b:x", "y", "-C", "z"],
    ["wait", "b"], ["wait", "b", "x"], ["wait", "b", "1", "2"], ["run", "-w", "relative", "--", "true"],
])
def test_wrong_arguments(cove, args):
    before = cove.names()
    assert cove(*args).refused().out == b""
    assert cove.names() == before


def test_every_verb_on_a_missing_box(cove):
    for args in (["exec", "nope", "--", "true"], ["sh", "nope", "true"], ["inspect", "nope"],
                 ["logs", "nope"], ["ps", "nope"], ["wait", "nope", "1"], ["shells", "ls", "nope"],
                 ["shells", "rm", "nope", "x"], ["kill", "nope", "1"], ["stop", "nope"], ["start", "nope"],
                 ["rm", "nope"], ["stats", "nope"], ["pause", "nope"], ["resume", "nope"],
                 ["set", "nope", "--ttl", "1h"], ["read", "nope:x"],
                 ["edit", "nope:x", "a", "b"], ["glob", "nope:", "x"], ["grep", "nope:", "x"], ["watch", "nope:"]):
        cove.fails("not_found", *args)
    cove("shell", "nope").refused(rc=125)


def test_json_of_lists(cove, box):
    for args in (["ls"], ["ps", box], ["image", "ls"], ["workspace", "ls"]):
        assert isinstance(cove(*args, "--json").ok().json, (list, dict)), args
    assert isinstance(cove("doctor", "--no-test", "--json").json["checks"], list)
    assert cove("version", "--json").ok().json["version"]
    assert isinstance(cove("create", "--json").ok().json, dict)


def test_json_errors(cove):
    got = cove("inspect", "--json", "nope")
    assert got.rc != 0
    found = json.loads(got.out or got.err)
    assert "nope" in json.dumps(found)


def test_version(cove):
    assert re.search(r"\d+\.\d+\.\d+", cove("version").ok().text)
    assert cove("--version").text == cove("version").text


def test_looking_makes_no_state_directory(cove, tmp):
    home = {"COVE_HOME": str(tmp / "none")}
    for args in (["ls"], ["image", "ls"], ["workspace", "ls"], ["doctor", "--no-test"]):
        cove(*args, env=home)
    for args in (["inspect", "a"], ["ps", "a"], ["logs", "a"], ["stop", "a"]):
        cove.fails("not_found", *args, env=home)
    assert cove("ls", "-q", env=home).ok().out == b""
    assert not (tmp / "none").exists()


def test_relative_home_is_refused(cove, tmp):
    cove.fails("invalid", "ls", env={"COVE_HOME": "here"}, cwd=tmp, rc=125)
    assert not (tmp / "here").exists()


def test_doctor(cove):
    got = cove("doctor")
    assert got.rc == 0, repr(got)
    assert "user" in got.text


CLOSED = ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-")


def closed(cove, streams, *args):
    """cove with some of 0, 1 and 2 closed."""
    argv = ["sh", "-c", f'exec "$@" {streams}', "sh", *cove.argv(args)]
    return subprocess.run(argv, env=cove.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE)


@pytest.mark.parametrize("streams", CLOSED)
def test_closed_standard_descriptors(cove, streams):
    """A box is made and its name printed, or nothing was done; a file never takes a stream's place."""
    assert closed(cove, streams, "run", "--image", "host", "--", "true").returncode == 0
    before = set(cove.names())
    got = closed(cove, streams, "create", "--image", "host")
    made = set(cove.names()) - before
    if " >&-" in f" {streams}":
        assert got.returncode == 125 and not made and (b"stdout" in got.stderr) == ("2>&-" not in streams), got
        return
    assert got.returncode == 0 and got.stdout.decode().split() == list(made), got
    name = made.pop()
    assert closed(cove, streams, "exec", name, "--", "sh", "-c", "ls -l /proc/self/fd | wc -l").returncode == 0
    assert closed(cove, streams, "rm", "-f", name).returncode == 0


def test_who_could_not_be_told_finds_nothing_made(cove, box):
    before = cove.names()
    for args in (["create"], ["open", "lost"], ["exec", "-d", box, "--", "sleep", "9"], ["rm", "--json", box],
                 ["create", "--json"], ["run", "--json", "--", "true"], ["port", box, "80:0"]):
        for streams in (">&-", "1</dev/null"):
            got = closed(cove, streams, *args)
            assert got.returncode == 125 and b"nothing was done" in got.stderr, got
    assert cove.names() == before and cove.execs(box) == []
    with open("/dev/full", "w") as full:
        got = subprocess.run(cove.argv(["create"]), env=cove.env, stdout=full, stderr=subprocess.PIPE)
    assert got.returncode == 125 and cove.names() == before
    gone, end = os.pipe()
    os.close(gone)
    got = subprocess.run(cove.argv(["create"]), env=cove.env, stdout=end, stderr=subprocess.PIPE)
    os.close(end)
    assert got.returncode == 141 and cove.names() == before, got


def test_helpers_with_closed_descriptors(cove):
    for args in ("cove-door preset balanced", "cove-door", "cove-keeper", "cove-store"):
        got = subprocess.run(["sh", "-c", f'exec "$COVE_LIBEXEC"/{args} <&- >&- 2>&-'], env=cove.env, timeout=DEADLINE)
        assert got.returncode in (0, 1, 2), args


def test_output_to_a_full_device(cove, box):
    with open("/dev/full", "w") as full:
        got = subprocess.run(cove.argv(["ls"]), env=cove.env, stdout=full, stderr=subprocess.PIPE)
    assert got.returncode != 0


def test_lost_output_is_a_failure(cove, box):
    for args in ("ls", f"exec {box} -- echo hi"):
        got = subprocess.run(["sh", "-c", f'exec "{cove.program}" {args} >&-'], env=cove.env, stderr=subprocess.PIPE)
        assert got.returncode == 125 and got.stderr, args


def test_json_of_what_only_does_something(cove, box, tmp):
    (tmp / "f").write_text("x")
    copied = cove("cp", "--json", str(tmp / "f"), f"{box}:/tmp/f").ok().json
    assert copied == {"from": str(tmp / "f"), "to": f"{box}:/tmp/f", "left_out": 0}
    for verb, result in (("stop", "stopped"), ("start", "started"), ("stop", "stopped"), ("rm", "removed")):
        assert cove(verb, "--json", box).ok().json == {"name": box, "result": result}


def test_verbose_always_says_something(cove, box):
    cove("stop", box).ok()
    assert "[cove]" in cove("start", "-v", box).ok().errors


def test_status_2_is_only_for_a_wrong_command_line(cove, box, tmp):
    (tmp / "file").write_text("no tar")
    assert cove("ls", env={"COVE_HOME": str(tmp / "file")}).rc == 125
    assert cove("image", "import", "x", str(tmp / "file")).rc == 125
    assert cove("cp", f"{box}:/no/such", "-").rc == 125
    assert cove("cp", "a", "b").rc == 2


def test_sh_takes_one_line(cove, box):
    cove.fails("invalid", "sh", box, "sleep 5", "--timeout", "300ms")


def test_inspect_goes_on(cove, box):
    got = cove("inspect", "--json", "nope", box)
    assert got.rc == 125 and got.text.splitlines()[-1].startswith('{"name":"' + box)


def test_kill_of_what_has_ended(cove, box):
    cove("exec", box, "--", "true").ok()
    ids = cove("ps", "-q", box).ok().text.split()
    cove("kill", "-s", "KILL", box, *ids).ok()
    cove.fails("conflict", "kill", box, *ids)


def test_none_is_null_in_lists(cove, box):
    cove("exec", box, "--", "true").ok()
    assert next(b for b in cove("ls", "--json").json if b["name"] == box)["ended_ms"] is None
    assert cove.execs(box)[0]["signal"] is None
    cove("stop", box).ok()
    assert next(b for b in cove("ls", "--json").json if b["name"] == box)["keeper_pid"] is None


def completion(words):
    script = PREFIX / "share/bash-completion/completions/cove"
    line = " ".join(words)
    program = f"""source {script}
COMP_WORDS=({line!s} {"''" if words[-1].endswith(" ") else ""}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
spec=$(complete -p cove); fn=${{spec##*-F }}; fn=${{fn%% *}}
$fn cove "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return program


def complete(cove, *words):
    got = subprocess.run(["bash", "--norc", "-c", completion(list(words))], capture_output=True, text=True,
                         env={**cove.env, "PATH": f"{PREFIX}/bin:{os.environ['PATH']}"})
    return got.stdout.split()


def test_completion_of_verbs(cove):
    assert set(VERBS) <= set(complete(cove, "cove", "''"))
    assert complete(cove, "cove", "ins") == ["inspect"]


def test_completion_of_options(cove):
    assert "--image" in complete(cove, "cove", "run", "--im")
    assert "--mem" in complete(cove, "cove", "create", "--m")
    assert complete(cove, "cove", "run", "--storage", "l") == ["loop"]
    assert set(complete(cove, "cove", "run", "--expire", "''")) == {"stop", "remove", "pause"}
    assert set(complete(cove, "cove", "create", "--restart", "''")) == {"no", "on-reboot", "always"}
    assert "--idle" in complete(cove, "cove", "set", "--i")
    assert "--min-wall" in complete(cove, "cove", "serve", "--min")
    assert complete(cove, "cove", "serve", "--min-wall", "nat") == ["native"]


def test_completion_of_boxes(cove, box):
    wait_until(lambda: box in cove.names())
    for verb in ("stop", "stats", "pause", "resume"):
        assert box in complete(cove, "cove", verb, "''")


def test_completion_skips_values_of_flags(cove, box):
    assert box in complete(cove, "cove", "exec", "-u", "root", "''")
    assert box in complete(cove, "cove", "logs", "--exec", "1", "''")
    assert "host" not in complete(cove, "cove", "image", "rm", "''")


def test_completion_of_the_network(cove, box):
    assert {"check", "show", "apply", "set-default", "groups", "suggest"} <= set(complete(cove, "cove", "policy", "''"))
    assert {"closed", "balanced", "open", box} <= set(complete(cove, "cove", "policy", "show", "''"))
    assert complete(cove, "cove", "run", "--net", "bal") == ["balanced"]
    for verb in ("allow", "deny", "asks", "answer", "port", "audit"):
        assert box in complete(cove, "cove", verb, "''"), verb
    assert complete(cove, "cove", "answer", box, "1", "''") == ["allow", "deny"]
    assert set(complete(cove, "cove", "secret", "''")) == {"set", "ls", "rm"}
    assert complete(cove, "cove", "audit", "keep", "f") == ["forever"]


def test_manual_page(cove):
    page = PREFIX / "share/man/man1/cove.1"
    text = page.read_text() if page.exists() else subprocess.run(
        ["zcat", str(page) + ".gz"], capture_output=True, text=True).stdout
    for verb in VERBS:
        assert verb in text, verb


def test_flags_before_and_after(cove, box):
    assert cove("sh", "--shell", "x", box, "echo 1").text == cove("sh", "--shell=x", box, "echo 1").text == "1\n"


def test_flags_of_the_command_are_the_commands(cove, box):
    assert cove("exec", box, "echo", "--json", "-v").text == "--json -v\n"
    assert cove("exec", box, "--", "echo", "--", "x").text == "-- x\n"


def test_image_make_that_is_ended_leaves_nothing(new_home, tmp):
    """A stand-in that, as the real maker, answers TERM; the signal comes to cove alone."""
    (tmp / "libexec").mkdir()
    maker = tmp / "libexec/make-base-image"
    maker.write_text(f"#!/bin/sh\ntrap 'kill $!; rm {tmp}/busy; exit 143' TERM\ntouch {tmp}/busy\nsleep 100 & wait\n")
    maker.chmod(0o755)
    program = new_home(COVE_LIBEXEC=str(tmp / "libexec")).start("image", "make")
    wait_until((tmp / "busy").exists)
    program.terminate()
    out, err = program.communicate(timeout=DEADLINE)
    assert program.returncode == 128 + 15, (out, err)
    assert not (tmp / "busy").exists() and b"nothing is left" in err


def test_image_make_looks_only_in_libexec_when_told(new_home, tmp):
    new_home(COVE_LIBEXEC=str(tmp)).fails("unsupported", "image", "make")


@needs_base
def test_image_make_uses_the_maker_beside_the_programs(new_home, tmp):
    """The real maker needs minutes and a mirror; a stand-in shows that its tar is taken."""
    import shutil
    shutil.copytree(PREFIX / "libexec/cove", tmp / "libexec")
    maker = tmp / "libexec/make-base-image"
    if not maker.exists():
        pytest.fail("libexec has no make-base-image")
    maker.write_text(f"#!/bin/sh\nexec tar -C {tmp}/root -c --owner=0 --group=0 .\n")
    for name in ("etc", "bin"):
        (tmp / "root" / name).mkdir(parents=True)
    (tmp / "root/etc/passwd").write_text("user:x:1000:1000::/home/user:/bin/sh\n")
    cove = new_home(COVE_LIBEXEC=str(tmp / "libexec"))
    cove("image", "make").ok()
    assert "base" in cove("image", "ls").ok().text


def test_json_of_the_background(cove, box):
    assert cove("exec", "-d", "--json", box, "--", "sleep", "1000").ok().json == \
        {"exec_id": 1, "box": box, "state": "running"}
    assert cove("sh", "-d", "--json", box, "sleep 1000").ok().json == \
        {"exec_id": 2, "box": box, "state": "running", "shell": "default"}
    assert cove("sh", "-d", "--json", box, "true").ok().json["state"] == "queued"
