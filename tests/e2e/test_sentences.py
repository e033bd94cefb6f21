"""What an error says to a person: what to type next. Everywhere else tests ask for the error's kind (Cove.fails)."""
import pytest
from conftest import needs_flag, not_root

pytestmark = pytest.mark.once("user")


def says(cove, kind, *args, words, **kw):
    message = cove.fails(kind, *args, **kw)
    assert all(word in message for word in words), message


def test_a_box_that_is_in_the_way(cove, box):
    remove = [f"cove rm -f {box}"]
    says(cove, "exists", "create", "--name", box, words=remove)
    says(cove, "conflict", "rm", box, words=remove)
    user = cove("create", "--workspace", "busy").ok().text.strip()
    says(cove, "conflict", "workspace", "rm", "busy", words=[f"cove rm -f {user}"])
    image = cove.inspect(box)["image"]
    if image != "host":
        says(cove, "conflict", "image", "rm", image, words=[image, "cove rm -f "])


def test_a_box_that_does_not_run(cove, box):
    cove("stop", box).ok()
    for words in (["exec", box, "--", "true"], ["asks", box]):
        says(cove, "conflict", *words, words=[box, f"cove start {box}"])


def test_a_paused_box(cove, box):
    if cove("pause", box).rc:
        pytest.skip("this host cannot pause")
    says(cove, "conflict", "sh", box, "true", words=[f"box '{box}' is paused: cove resume {box}"])


def test_what_is_not_there(cove, new_home, tmp):
    says(cove, "not_found", "inspect", "nope", words=["nope", "cove ls"])
    says(cove, "not_found", "run", "--image", "nope", "--", "true", words=["nope", "cove image"])
    says(cove, "not_found", "workspace", "chown", "no-such", words=["chown is for directories of the host"])
    says(new_home(), "not_found", "create", "--image", "base", words=["cove image make", "--image host"])
    says(new_home(COVE_LIBEXEC=str(tmp)), "unsupported", "run", "--", "true", words=["COVE_LIBEXEC", str(tmp)])
    says(cove, "invalid", "ls", env={"COVE_HOME": "here"}, rc=125, words=["'here'", "absolute path", "COVE_HOME"])


def test_a_session_with_another_network(cove):
    box = cove("open", "said", "--net", "balanced").ok().text.strip()
    for flag, value, way in (("--net", "open", f"cove policy apply {box} open"),
                             ("--allow", "example.net", f"cove allow {box} example.net"),
                             ("--deny", "example.com", f"cove deny {box} example.com")):
        says(cove, "conflict", "open", "said", flag, value, words=[way])
    cove("close", "said", "--delete").ok()


def test_a_session_with_other_limits(cove):
    cove("open", "said", "--best-effort", "--files", "256").ok()
    for flags, word in ((["--files", "512", "--best-effort"], "--files 256, not 512"),
                        (["--pids", "1024", "--best-effort"], "--pids unset, not 1024"),
                        (["--files", "256"], "--best-effort"), (["--strict"], "--strict")):
        says(cove, "conflict", "open", "said", *flags, words=[word])
    cove("close", "said", "--delete").ok()


def test_a_wrong_command_line(cove, box):
    says(cove, "invalid", "rnu", words=["cove run"])
    says(cove, "invalid", "sh", box, "sleep 5", "--timeout", "300ms", words=["quote", "--timeout"])
    # What is wrong whatever the box is, is said before it is looked for.
    for words in (["sh", "nope", "true", "more"], ["attach", "nope", "x"], ["port", "nope", "99999"]):
        cove(*words).refused(rc=2)
    says(cove, "invalid", "secret", "set", "TOKEN", "value", words=["argument", "stdin"])
    says(cove, "invalid", "run", "--net", "sometimes", "--", "true", words=["closed, balanced, open"])


def test_a_limit_that_cannot_be_kept(cove):
    says(cove, "unsupported", "create", "--storage", "plain", "--disk", "32M",
         words=["--disk", "cannot be kept here", "--storage loop"])


@pytest.mark.parametrize("flag, value", [("--mem", "64M"), ("--cpus", "0.5"), ("--pids", "50"), ("--disk", "64M"),
                                         ("--io", "10M")])
@pytest.mark.once("both")
def test_a_limit_that_is_refused(cove, flag, value):
    if cove("create", flag, value).rc == 0:
        pytest.skip("this host keeps it")
    for words in (["create", flag, value], ["run", flag, value, "--", "true"]):
        message = cove.fails("unsupported", *words)
        reason = message.split("cannot be kept here: ")[1]
        ways = ("--best-effort", "cove doctor", "root", "boot with")
        assert flag in message and any(way in reason for way in ways), message


@needs_flag("PIDS_EXACT")
@pytest.mark.once("both")
def test_as_many_processes_as_there_may_be(cove):
    made = cove("create", "--pids", "64")
    if made.rc:
        pytest.skip(made.errors.strip())
    box = made.text.strip()
    cove("exec", box, "--", "sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done")
    cove("exec", "-d", box, "--", "sleep", "1000").ok()  # what that left has every place but its own
    says(cove, "limit", "exec", box, "--", "true", words=["limit of 64 processes", "--pids"])
    said = cove("exec", box, "--", "true").refused(rc=125).errors
    assert all(way in said for way in (f"cove ps {box}", f"cove kill {box} ID", f"cove stop {box}")), said


@not_root
def test_a_limit_that_needs_root(cove):
    says(cove, "unsupported", "create", "--storage", "loop", words=["loop", "root"])


def test_a_directory_with_the_state(cove):
    for flag, end in (("--mount", ":/m:ro"), ("--workspace", "")):
        says(cove, "denied", "run", flag, f"{cove.home}/boxes{end}", "--", "true",
             words=[f"'{cove.home}/boxes' is inside Cove's own state", "a box cannot have it"])
        says(cove, "denied", "run", flag, f"/{end}", "--", "true",
             words=["'/' holds Cove's own state", "a directory below it", "COVE_HOME"])
