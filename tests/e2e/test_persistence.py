"""The life of a box: create, stop, start, rm, and what stays."""
import os

import pytest

from conftest import alive, children, needs_base, wait_until


def test_create_prints_the_name(cove):
    assert cove("create", "--name", "mine").ok().text == "mine\n"
    fresh = cove("create").ok().text.strip()
    assert fresh in cove.names() and "mine" in cove.names()


def test_name_taken(cove, box):
    cove.fails("exists", "create", "--name", box)
    assert cove("exec", box, "--", "true").rc == 0


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "..", "a/b", "x" * 64, "a b", "\u00fc"])
def test_bad_names(cove, name):
    before = cove.names()
    cove.fails("invalid", "create", "--name", name)
    assert cove.names() == before
    for verb in ("inspect", "stop", "start", "stats", "ps"):
        cove.fails("not_found", verb, "--", name)


def test_longest_name(cove):
    name = "x" * 63
    cove("create", "--name", name).ok()
    assert cove.sh(name, "echo ok")["stdout"] == "ok\n"


def test_stop_and_start(cove, box):
    cove.sh(box, "echo kept > ~/kept; mkdir -p ~/d; cd /tmp; v=1; sleep 1000 &")
    keeper = cove.inspect(box)["keeper_pid"]
    inside = children(keeper)
    cove("stop", box).ok()
    assert not alive(keeper)
    wait_until(lambda: not any(map(alive, inside)), "the box's processes to end")
    info = cove.inspect(box)
    assert info["state"] == "stopped" and "stop" in info["cause"]
    cove("start", box).ok()
    got = cove.sh(box, "cat ~/kept; ls -d ~/d; echo [$v]; pgrep -c sleep")
    assert got["stdout"].split("\n")[0] == "kept" and "[]\n0\n" in got["stdout"]
    assert cove.inspect(box)["state"] == "running"


def test_stop_twice_and_start_twice(cove, box):
    cove("stop", box).ok()
    cove("stop", box).ok()
    cove("start", box).ok()
    cove("start", box).ok()
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def test_changes_to_the_image_stay(cove, box):
    cove("exec", box, "--", "sh", "-c", "echo mine >> ~/.profile; rm -f ~/.bashrc; ln -s x ~/link").ok()
    cove("stop", box).ok()
    cove("start", box).ok()
    got = cove("exec", box, "--", "sh", "-c", "tail -n 1 ~/.profile; test -e ~/.bashrc || echo gone; readlink ~/link")
    assert got.text == "mine\ngone\nx\n"


@needs_base
def test_ids_survive_a_restart(cove, box, inner_root):
    cove("exec", "-u", "root", box, "--", "sh", "-c", "echo x > /root-file; install -o 1234 -g 5 /dev/null /other").ok()
    cove("stop", box).ok()
    cove("start", box).ok()
    assert cove("exec", box, "--", "stat", "-c", "%u:%g", "/root-file", "/other").text == "0:0\n1234:5\n"
    assert cove("exec", box, "--", "sudo", "id", "-u").text == "0\n"


def test_stop_lets_a_process_end_itself(cove, box):
    got = cove("exec", "-d", box, "--", "sh", "-c",
               "trap 'echo bye > ~/bye; exit' TERM; echo up; while :; do sleep 0.02; done").ok()
    wait_until(lambda: cove("logs", "--exec", got.text.strip(), box).out == b"up\n", "the trap to be set")
    cove("stop", "--grace", "20s", box).ok()
    cove("start", box).ok()
    assert cove("exec", box, "--", "sh", "-c", "cat ~/bye").text == "bye\n"


def test_stop_does_not_wait_for_ever(cove, box):
    cove.sh(box, "(trap '' TERM; while :; do sleep 1000; done) & echo up")
    cove("stop", "--grace", "200ms", box).ok()
    assert cove.inspect(box)["state"] == "stopped"


def test_remove_needs_force_while_it_runs(cove, box):
    cove.fails("conflict", "rm", box)
    cove("rm", "-f", box).ok()
    assert box not in cove.names()
    assert not os.path.exists(f"{cove.home}/boxes/{box}")
    assert not os.path.exists(f"{cove.home}/run/{box}")


def test_remove_of_a_stopped_box(cove, box):
    cove("stop", box).ok()
    cove("rm", box).ok()
    assert box not in cove.names()


def test_remove_twice(cove, box):
    cove("rm", "-f", box).ok()
    cove("rm", "-f", box).ok()
    cove.fails("not_found", "rm", box)


def test_remove_with_hostile_tree(cove, tmp):
    (tmp / "canary").write_text("x")
    box = cove("create").ok().text.strip()
    cove("exec", box, "--", "sh", "-c", f"""cd ~; mkdir -p a/b; chmod 000 a; ln -s {tmp} out; ln -s / root
        mkdir deep; cd deep; i=0; while [ $i -lt 200 ]; do mkdir d; cd d; i=$((i + 1)); done; mkfifo f""").ok()
    cove("rm", "-f", box).ok()
    assert (tmp / "canary").read_text() == "x"
    assert not os.path.exists(f"{cove.home}/boxes/{box}")
    assert [n for n in os.listdir(cove.home + "/boxes") if n.startswith(".gone")] == []


def test_remove_of_a_very_deep_tree(cove):
    box = cove("create").ok().text.strip()
    cove("exec", box, "--", "python3", "-c",
         "import os\nos.chdir('/tmp')\nfor i in range(3000):\n os.mkdir('d' * 100); os.chdir('d' * 100)").ok()
    cove("rm", "-f", box).ok()
    assert not os.path.exists(f"{cove.home}/boxes/{box}")


def test_ls(cove, box):
    text = cove("ls").ok().text
    assert box in text and "running" in text
    listed = cove("ls", "--json").ok().json
    entry = next(b for b in listed if b["name"] == box)
    assert entry["state"] == "running"
    assert cove("ls", "-q").text.split() == sorted(cove.names())


def test_inspect(cove):
    box = cove("create", "--label", "team=a", "-e", "A=1").ok().text.strip()
    info = cove.inspect(box)
    assert info["name"] == box and info["state"] == "running"
    assert info["labels"] == {"team": "a"}
    assert alive(info["keeper_pid"])
    assert info["isolation"]["ids"] in ("range", "subordinate", "single")
    cove("stop", box).ok()
    stopped = cove.inspect(box)
    assert stopped["isolation"] is None
    assert isinstance(info["not_enforced"], list) and stopped["not_enforced"] is None


def test_inspect_of_nothing(cove):
    cove.fails("not_found", "inspect", "no-such")


def test_default_timeout_of_a_box(cove):
    box = cove("create", "--timeout", "300ms").ok().text.strip()
    assert cove("exec", box, "--", "sleep", "1000").rc == 124
    assert cove.sh(box, "sleep 1000")["timed_out"] is True
    assert cove("exec", "--timeout", "0", box, "--", "sh", "-c", "sleep 0.5; echo x").text == "x\n"


def test_default_env_user_and_cwd_of_a_box(cove):
    box = cove("create", "-e", "A=box", "-w", "/tmp").ok().text.strip()
    assert cove("exec", box, "--", "sh", "-c", "echo $A; pwd").text == "box\n/tmp\n"
    assert cove("exec", "-e", "A=call", box, "--", "sh", "-c", "echo $A").text == "call\n"
    assert cove.sh(box, "echo $A; pwd")["stdout"] == "box\n/tmp\n"


def test_logs_stay_after_stop(cove, box):
    number = cove.sh(box, "echo remembered")["exec_id"]
    cove("stop", box).ok()
    assert cove("logs", "--exec", number, box).out == b"remembered\n"
    assert any(e["exec_id"] == number for e in cove.execs(box))


def test_exec_ids_are_not_used_again(cove, box):
    first = cove.sh(box, "true")["exec_id"]
    cove("stop", box).ok()
    cove("start", box).ok()
    assert cove.sh(box, "true")["exec_id"] > first


def test_running_commands_at_stop_are_recorded(cove, box):
    number = int(cove("exec", "-d", box, "--", "sleep", "1000").ok().text)
    cove("stop", "--grace", "0", box).ok()
    entry = next(e for e in cove.execs(box) if e["exec_id"] == number)
    assert entry["state"] != "running"


@pytest.mark.parametrize("flags,word", [
    (["-w", "/no/such"], "/no/such"), (["-w", "/etc/passwd"], "/etc/passwd"), (["-u", "nobody-here"], "nobody-here"),
    (["-u", "nobody-here", "-w", "/tmp"], "nobody-here"), (["--workspace", "unmade", "-w", "/nope"], "/nope")])
@pytest.mark.parametrize("verb", [["create"], ["create", "--name", "unmade"], ["open", "unmade-session"]])
def test_a_directory_or_user_that_is_not_there(cove, verb, flags, word):
    """Is found when the box is made, and then none is."""
    before = set(cove.names()), cove("workspace", "ls", "-q").text
    assert word in cove.fails("not_found", *verb, *flags)
    assert (set(cove.names()), cove("workspace", "ls", "-q").text) == before


def test_a_directory_and_user_that_are_there(cove, tmp):
    box = cove("create", "-w", "/tmp", "-u", "1000:1000").ok().text.strip()
    assert cove("exec", box, "--", "sh", "-c", "pwd; id -u").text == "/tmp\n1000\n"
    for flags in (["--workspace", str(tmp) + "/", "-w", "/workspace"], ["-w", "/var/run"]):
        cove("create", *flags).ok()


def test_limits_are_named(cove, box):
    """What was met, how much it is, and what to do about it."""
    assert "4096" in cove.fails("limit", "exec", box, "--", "true", *["x"] * 4097)
    assert "1024" in cove.fails("limit", "exec", *[f"-eA{i}=1" for i in range(1025)], box, "--", "true")
    assert "1048576" in cove.fails("limit", "exec", box, "--", "true", *["x" * 100000] * 12)
