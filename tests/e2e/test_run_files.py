"""--in and --out: files that go with a command, in before it starts and out however it ended."""
import json
import os
import pty
import resource
import signal
import subprocess

import pytest

from conftest import DEADLINE, IS_ROOT, PREFIX, alive, needs_root, wait_until

pytestmark = pytest.mark.once("user")


def one(cove, *words, **kw):
    """A one-shot box from a directory of the caller's."""
    return cove("run", *words, **kw)


def sh(line):
    return ["--", "sh", "-c", line]


def tree(path, count):
    path.mkdir()
    for i in range(count):
        (path / f"f{i}").write_text(str(i))


def halves(path):
    """What a copy that was given up would have left."""
    return [n for n in os.listdir(path) if n.startswith(".cove-")]


# ---- the forms ----

def test_a_file_in_and_a_file_out(cove, tmp):
    (tmp / "a").write_bytes(data := os.urandom(300_000))
    one(cove, "--in", tmp / "a", "--out", "b", *sh("cat a a > b; stat -c %u a > owner"), cwd=tmp).ok()
    assert (tmp / "b").read_bytes() == data * 2
    assert (tmp / "b").stat().st_uid == os.geteuid()


def test_destinations(cove, tmp):
    (tmp / "a").write_text("a")
    (tmp / "there").mkdir()
    words = ["--in", "a:/tmp/x", "--in", "a:/tmp/", "--in", "a:/tmp/new/deep/", "--in", "a:/tmp/made/y",
             "--in", "a:~/h", "--out", "/tmp/x:there", "--out", "/tmp/a:there/", "--out", "/tmp/new/deep:d",
             "--out", "/tmp/made/y:z", "--out", "h:./h2"]
    one(cove, *words, *sh("echo -n 1 >> /tmp/x; ls -l"), cwd=tmp).ok()
    assert (tmp / "there/x").read_text() == "a1" and (tmp / "there/a").read_text() == "a"
    assert (tmp / "d/a").read_text() == "a" and (tmp / "z").read_text() == "a" and (tmp / "h2").read_text() == "a"


def test_begins_where_the_command_begins(cove, box, tmp):
    (tmp / "f").write_text("f")
    one(cove, "-w", "/tmp", "--in", "f", "--out", "g", *sh("test $PWD = /tmp && mv f g"), cwd=tmp).ok()
    (tmp / "w").mkdir()
    one(cove, "--workspace", tmp / "w", "--in", "f:sub/f", "--out", "h", *sh("cp /workspace/sub/f h"), cwd=tmp).ok()
    assert (tmp / "h").read_text() == "f" and (tmp / "w/sub/f").read_text() == "f"
    cove("exec", "-w", "/var/tmp", "--in", "f", "--out", "e", box, *sh("test $PWD = /var/tmp && mv f e"), cwd=tmp).ok()
    assert (tmp / "e").read_text() == "f"


def test_as_the_commands_user(cove, box, tmp, inner_root):
    (tmp / "f").write_text("f")
    for words in (["run"], ["exec"]):
        name = [box] if words == ["exec"] else []
        cove(*words, "-u", "root", "--in", "f:/etc/cove-in", "--out", "/root/o", *name,
             *sh("stat -c %u:%g /etc/cove-in > /root/o"), cwd=tmp).ok()
        assert (tmp / "o").read_text() == "0:0\n"
    one(cove, "--in", "f", "--out", "o", *sh("stat -c %u f > o"), cwd=tmp).ok()
    assert (tmp / "o").read_text() == "1000\n"
    assert cove.fails("denied", "run", "--in", "f:/etc/cove-in", "--", "true", cwd=tmp)


def test_exec_and_sh(cove, box, tmp):
    (tmp / "f").write_text("3\n1\n2\n")
    cove("exec", "--in", "f", "--out", "g", box, *sh("sort f > g"), cwd=tmp).ok()
    assert (tmp / "g").read_text() == "1\n2\n3\n"
    cove("sh", box, "cd /tmp; n=7").ok()
    cove("sh", "--in", "f:/tmp/in", "--out", "/tmp/out:s", box, "echo $n > out; cat in >> out", cwd=tmp).ok()
    assert (tmp / "s").read_text() == "7\n3\n1\n2\n"
    # One that runs on has inputs, and no end at which outputs could come.
    exec_id = cove("exec", "-d", "--in", "f:/tmp/bg", box, *sh("cat /tmp/bg"), cwd=tmp).ok().text.strip()
    cove("wait", box, exec_id).ok()
    assert cove("logs", "--exec", exec_id, box).ok().text == "3\n1\n2\n"
    cove.fails("invalid", "exec", "-d", "--out", "x", box, "--", "true", cwd=tmp)


def test_a_directory_of_1000_files(cove, tmp):
    tree(tmp / "many", 1000)
    one(cove, "--in", "many", "--out", "many:back", *sh("echo more > many/more; rm many/f7"), cwd=tmp).ok()
    names = set(os.listdir(tmp / "back"))
    assert names == (set(os.listdir(tmp / "many")) | {"more"}) - {"f7"}
    assert all((tmp / "back" / f"f{i}").read_text() == str(i) for i in range(1000) if i != 7)


def test_a_directory_that_is_there(cove, tmp):
    """As cp: inside; a file that is there is replaced, whatever other names it has."""
    tree(tmp / "d", 2)
    (tmp / "old").write_text("old")
    os.link(tmp / "old", tmp / "precious")
    (tmp / "to").mkdir()
    one(cove, "--in", "d:/tmp/d", "--out", "/tmp/d:to", "--out", "/tmp/d/f0:old", "--out", "/tmp/d", *sh("true"),
        cwd=tmp).ok()
    assert sorted(os.listdir(tmp / "to/d")) == ["f0", "f1"] and (tmp / "old").read_text() == "0"
    assert (tmp / "precious").read_text() == "old"
    # The directory itself where it already is: filled, not nested.
    assert sorted(os.listdir(tmp / "d")) == ["f0", "f1"]


def test_stdin_as_a_file(cove, box, tmp):
    data = os.urandom(400_000)
    got = one(cove, "--in", "-:x", *sh("cat x; wc -c <&0 >&2"), input=data).ok()
    assert got.out == data and got.err.strip() == b"0"
    got = cove("exec", "--in", "-:/tmp/x", box, *sh("cat /tmp/x"), input=b"once").ok()
    assert got.out == b"once"
    # A directory takes a tar, as with cp.
    tree(tmp / "t", 3)
    tar = subprocess.run(["tar", "-C", tmp, "-cf", "-", "t"], capture_output=True, check=True).stdout
    assert one(cove, "--in", "-:/tmp", *sh("ls /tmp/t"), input=tar).ok().text.split() == ["f0", "f1", "f2"]


def test_stdout_is_the_file_alone(cove, tmp):
    got = one(cove, "--out", "x:-", *sh("echo said; echo warned >&2; printf 'o\\0\\377' > x; exit 3"))
    assert (got.rc, got.out) == (3, b"o\0\xff")
    assert sorted(got.err.split()) == [b"said", b"warned"]
    got = one(cove, "--max-output", "8", "--out", "x:-", *sh("printf 'a%.0s' $(seq 100); echo file > x"))
    assert got.out == b"file\n" and b"left out" in got.err
    # It may be slow to be read.
    p = cove.start("run", "--out", "big:-", *sh("head -c 3000000 /dev/zero > big"), stdin=subprocess.DEVNULL)
    assert len(p.stdout.read()) == 3_000_000 and p.wait(DEADLINE) == 0, p.stderr.read()


def test_names_with_colons_newlines_and_what_is_no_text(cove, tmp):
    for name in (b"a:b", b"new\nline", b"bad\xff", b"back\\slash", b"end\\", b"-", b"~", b"sp ace"):
        with open(os.fsencode(tmp) + b"/" + name, "wb") as f:
            f.write(name)
        escaped = name.replace(b"\\", b"\\\\").replace(b":", b"\\:")
        escaped = b"./" + escaped if name in (b"-", b"~") else escaped
        got = one(cove, "--json", "--in", escaped + b":/tmp/o/" + escaped, "--out", b"/tmp/o/" + escaped + b":back",
                  *sh("cat /tmp/o/*"), cwd=tmp)
        assert got.rc == 0, repr(got)
        assert (tmp / "back").read_bytes() == name
        (put,), (brought,) = got.json["inputs"], got.json["outputs"]
        if name == b"bad\xff":
            assert "path_base64" in put and "to_base64" in put and "path_base64" in brought
        else:
            assert put["path"].endswith(name.decode()) and brought["path"].endswith(name.decode())
            assert "path_base64" not in put
    # The first colon divides, and what follows is a name as any other.
    one(cove, "--in", "-:x:y", "--out", "x\\:y:z:w", *sh("test -e x:y"), cwd=tmp, input=b"1").ok()
    assert (tmp / "z:w").read_text() == "1"


# ---- JSON ----

def test_json(cove, box, tmp):
    tree(tmp / "d", 10)
    (tmp / "f").write_text("12345")
    words = ["--in", "d:/tmp/d", "--in", "f:/tmp/f", "--out", "/tmp/d:e", "--out", "/tmp/no", "--out", "/tmp/f:g"]
    os.mkfifo(tmp / "d/fifo")
    got = cove("exec", "--json", *words, box, *sh("mkfifo /tmp/d/p; true"), cwd=tmp)
    assert got.rc == 125 and b"'/tmp/no'" in got.err and b"1 of input 'd' left out" in got.err
    found = got.json
    assert found["exit_code"] == 0
    assert [(i["path"], i["to"], i["files"], i["bytes"], i["error"]) for i in found["inputs"]] == \
        [("d", "/tmp/d", 10, 10, None), ("f", "/tmp/f", 1, 5, None)]
    whole, missing, file = found["outputs"]
    assert (whole["to"], whole["files"], whole["left_out"], whole["error"]) == ("e", 10, 1, None)
    assert missing["error"]["kind"] == "not_found" and missing["files"] == missing["bytes"] == 0
    assert (file["path"], file["bytes"], file["error"]) == ("/tmp/f", 5, None)
    assert (tmp / "g").read_text() == "12345" and not (tmp / "no").exists()
    # Without files there is nothing of them.
    assert not {"inputs", "outputs"} & set(cove("exec", "--json", box, "--", "true").ok().json)


# ---- ends ----

@pytest.mark.parametrize("line, words, status", [
    ("echo r > r; exit 7", [], 7), ("echo r > r; kill -9 $$", [], 137),
    ("echo r > r; sleep 1000", ["--timeout", "300ms", "--grace", "0"], 124)])
def test_outputs_come_after_a_failure(cove, tmp, line, words, status):
    got = one(cove, *words, "--out", "r", "--out", "none", *sh(line), cwd=tmp)
    assert got.rc == status, repr(got)
    assert (tmp / "r").read_text() == "r\n"
    assert b"output 'none'" in got.err


def test_outputs_come_after_the_memory_ran_out(cove, tmp):
    line = "echo r > r; head -c 400M /dev/zero | tail"
    got = one(cove, "--json", "--mem", "64M", "--out", "r", *sh(line), cwd=tmp)
    if b'"unsupported"' in got.out:
        pytest.skip("no limit on memory here")
    assert got.json["cause"] == "oom" and (tmp / "r").read_text() == "r\n"


def test_a_missing_output_counts_where_the_command_succeeded(cove, tmp):
    got = one(cove, "--out", "none", "--out", "is", *sh("echo > is"), cwd=tmp)
    assert got.rc == 125 and b"'none'" in got.err and b"'is'" not in got.err and (tmp / "is").exists()
    assert one(cove, "--out", "none", *sh("exit 4"), cwd=tmp).rc == 4
    assert one(cove, "--out", "none", "--", "no-such-program", cwd=tmp).rc == 127


def test_a_box_that_ended_has_no_outputs(cove, tmp):
    got = one(cove, "--ttl", "1", "--out", "r", *sh("echo r > r; sleep 1000"), cwd=tmp)
    assert got.rc in (137, 143) and b"output 'r'" in got.err and not (tmp / "r").exists()


@pytest.mark.parametrize("words", [["--in", "none"], ["--out", "x:no/such"], ["--out", "x:new/"], ["--in", "pipe"]])
def test_what_is_wrong_is_said_before_anything_is_done(cove, box, tmp, words):
    os.mkfifo(tmp / "pipe")
    (tmp / "f").write_text("f")
    got = cove("exec", "--in", "f:/tmp/before", *words, box, *sh("touch /tmp/ran"), cwd=tmp)
    assert got.rc == 125 and got.err, repr(got)
    assert cove("exec", box, *sh("ls -A /tmp")).ok().text == ""
    assert one(cove, *words, *sh("true"), cwd=tmp).rc == 125


def test_an_input_that_is_not_whole_starts_no_command(cove, tmp):
    if IS_ROOT:
        pytest.skip("root can read all")
    tree(tmp / "d", 3)
    (tmp / "d/f1").chmod(0)
    got = one(cove, "--in", "d", *sh("echo ran"), cwd=tmp)
    assert got.rc == 125 and got.out == b"" and b"f1" in got.err


def test_what_cannot_be_read_is_left_out_and_counts(cove, tmp):
    line = "mkdir d; echo a > d/a; echo b > d/b; chmod 0 d/b"
    got = one(cove, "--json", "--out", "d", *sh(line), cwd=tmp)
    (found,) = got.json["outputs"]
    assert got.rc == 125 and found["error"]["kind"] == "denied" and found["left_out"] == 1
    assert (tmp / "d/a").read_text() == "a\n" and not (tmp / "d/b").exists()


@pytest.mark.parametrize("words", [
    ["--in", "f:/tmp/x", "--in", "g:/tmp/x"], ["--in", "f:/tmp//x", "--in", "g:/tmp/./x"],
    ["--in", "f:/tmp", "--in", "sub/f:/tmp/"], ["--in", "f", "--in", "sub/f"],
    ["--out", "a:x", "--out", "b:x"], ["--out", "a:x", "--out", "b:./sub/../x"], ["--out", "a/n", "--out", "b/n"],
    ["--out", "a/n:sub", "--out", "b:sub/n"], ["--out", "a:-", "--out", "b:-"]])
def test_twice_the_same_destination(cove, box, tmp, words):
    (tmp / "sub").mkdir()
    for name in ("f", "g", "sub/f"):
        (tmp / name).write_text(name)
    got = cove("exec", *words, box, *sh("touch /tmp/ran"), cwd=tmp)
    assert got.rc == 2 and b"two of the files" in got.err, repr(got)
    assert cove("exec", box, *sh("ls -A /tmp")).ok().text == ""


@pytest.mark.parametrize("words", [
    ["--in", ""], ["--in", ":x"], ["--in", "-"], ["--in", "-:"], ["--out", ":x"], ["--in", "-:x", "-i"],
    ["--in", "-:x", "-t"], ["--out", "x:-", "-t"], ["--out", "x:-", "--json"]])
def test_wrong_words(cove, tmp, words):
    assert one(cove, *words, "--", "true", cwd=tmp).rc == 2


def test_no_more_than_256(cove, tmp):
    words = [w for i in range(257) for w in ("--out", f"o{i}")]
    cove.fails("limit", "run", *words, "--", "true", cwd=tmp)
    words = [w for i in range(256) for w in ("--out", f"o{i}")]
    one(cove, *words, *sh("touch $(seq -f o%g 0 255)"), cwd=tmp).ok()
    assert len(os.listdir(tmp)) == 256


# ---- what a box may send ----

def test_links_of_the_box_stay_links_or_are_the_boxs_own(cove, tmp):
    (tmp / "canary").write_text("host")
    (tmp / "to").mkdir()
    line = f"ln -s /etc/shadow s; ln -s {tmp}/canary c; mkdir d; ln -s /etc/shadow d/s; ln -s {tmp} d/up"
    got = one(cove, "--out", "s", "--out", "c", "--out", "d:to", *sh(line), cwd=tmp)
    assert got.rc == 125 and b"output 's'" in got.err and b"output 'c'" in got.err
    assert not (tmp / "s").exists() and not (tmp / "c").exists()
    assert os.readlink(tmp / "to/d/s") == "/etc/shadow" and os.path.islink(tmp / "to/d/up")
    # What is a link here is replaced, and a directory that is one below the destination not gone through.
    (tmp / "out").mkdir()
    (tmp / "to2/d").mkdir(parents=True)
    (tmp / "to2/d/sub").symlink_to(tmp / "out")
    (tmp / "link").symlink_to(tmp / "canary")
    one(cove, "--out", "f:link", "--out", "d:to2", *sh("echo box > f; mkdir -p d/sub; echo x > d/sub/planted"), cwd=tmp)
    assert (tmp / "canary").read_text() == "host" and (tmp / "link").read_text() == "box\n"
    assert os.listdir(tmp / "out") == []


@pytest.mark.parametrize("make", ["mkfifo o", "exec 3<>/dev/tcp/127.0.0.1/9; ln -s /dev/zero o"])
def test_what_is_no_file_is_no_hang(cove, tmp, make):
    got = one(cove, "--out", "o", "--", "bash", "-c", make + "; true", cwd=tmp)
    assert got.rc == 125 and b"output 'o'" in got.err and os.listdir(tmp) == []


def test_no_setuid_comes_out(cove, tmp):
    one(cove, "--out", "o", *sh("cp /bin/true o; chmod 6777 o"), cwd=tmp).ok()
    assert (tmp / "o").stat().st_mode & 0o7022 == 0


# ---- full disks ----

@needs_root
def test_the_hosts_disk_is_full(cove, tmp):
    """Whole or absent: the other outputs come, and the command's own status stays."""
    (tmp / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", tmp / "small"], check=True)
    try:
        (tmp / "small/big").write_text("before")
        words = ["--out", "big:small/big", "--out", "ok:small/ok", "--out", "big:whole"]
        got = one(cove, "--json", *words, *sh("head -c 4M /dev/zero > big; echo ok > ok; exit 5"), cwd=tmp)
        assert got.rc == 5
        kinds = [o["error"] and o["error"]["kind"] for o in got.json["outputs"]]
        assert kinds == ["full", None, None]
        assert (tmp / "small/big").read_text() == "before" and (tmp / "small/ok").read_text() == "ok\n"
        assert (tmp / "whole").stat().st_size == 4 << 20 and not halves(tmp / "small")
    finally:
        subprocess.run(["umount", tmp / "small"], check=True)


def test_a_file_may_be_no_longer_than_the_host_allows(cove, box, tmp):
    """The same for whom no disk can be mounted: the kernel ends a write, not us."""
    p = cove.start("exec", "--out", "big", box, *sh("head -c 4M /dev/zero > big"), cwd=tmp, stdin=subprocess.DEVNULL,
                   preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                       resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))))
    _, err = p.communicate(timeout=DEADLINE)
    assert p.returncode == 125 and b"output 'big'" in err and os.listdir(tmp) == []


def test_the_boxs_disk_is_full(cove, tmp):
    (tmp / "big").write_bytes(bytes(40 << 20))
    got = one(cove, "--json", "--disk", "16M", "--in", "big", *sh("echo ran"), cwd=tmp)
    if got.json.get("error", {}).get("kind") == "unsupported":
        pytest.skip("no limit on disk here")
    assert got.json["error"]["kind"] == "full" and got.rc == 125


# ---- interruptions ----

def test_ctrl_c_while_an_input_comes(cove, box, tmp):
    """stdin that says nothing more: neither the command nor a half of the file is there."""
    for words in (["run", "--name", "waits"], ["exec"]):
        name = [box] if words == ["exec"] else []
        p = cove.start(*words, "--in", "-:/tmp/half", *name, *sh("echo ran"), start_new_session=True, cwd=tmp)
        p.stdin.write(bytes(1 << 20))
        p.stdin.flush()
        if name:
            wait_until(lambda: "half" in cove("exec", box, *sh("ls -A /tmp; echo half")).ok().text)
        else:
            wait_until(lambda: "waits" in cove.names(), "the box")
        os.killpg(p.pid, signal.SIGINT)
        assert p.wait(DEADLINE) in (130, -signal.SIGINT)
        assert p.stdout.read() == b""
    wait_until(lambda: cove("exec", box, *sh("ls -A /tmp")).ok().text == "", "the half to go")
    wait_until(lambda: "waits" not in cove.names(), "the box to go")


def test_ctrl_c_while_an_output_goes(cove, tmp):
    """A reader that takes nothing: what came before it is whole, what comes after it is not there."""
    words = ["--out", "a", "--out", "big:-", "--out", "z"]
    p = cove.start("run", "--name", "waits", *words, *sh("echo a > a; echo z > z; head -c 9M /dev/zero > big"),
                   start_new_session=True, cwd=tmp, stdin=subprocess.DEVNULL)
    assert p.stdout.read(1000) == bytes(1000)  # it is on its way, and waits for us
    os.killpg(p.pid, signal.SIGINT)
    assert p.wait(DEADLINE) == 130
    assert (tmp / "a").read_text() == "a\n" and os.listdir(tmp) == ["a"]
    err = p.stderr.read()
    assert b"output 'big'" in err and b"output 'z'" in err
    wait_until(lambda: "waits" not in cove.names(), "the box to go")


def test_ctrl_c_leaves_no_half_of_a_file(cove, box, tmp):
    """It is stopped while the file grows, so that there is a half when the signal comes."""
    cove("exec", box, *sh("head -c 300M /dev/zero > /tmp/big")).ok()
    (tmp / "big").write_text("before")
    for _ in range(20):
        p = cove.start("exec", "--out", "/tmp/big", box, "--", "true", cwd=tmp, stdin=subprocess.DEVNULL)
        wait_until(lambda: halves(tmp) or p.poll() is not None, "a half")
        p.send_signal(signal.SIGSTOP)
        if halves(tmp):
            break
        p.send_signal(signal.SIGCONT)
        p.wait(DEADLINE)
        (tmp / "big").write_text("before")
    else:
        pytest.skip("too fast to be interrupted")
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGCONT)
    assert p.wait(DEADLINE) == 130, p.stderr.read()
    assert os.listdir(tmp) == ["big"] and (tmp / "big").read_text() == "before"


def test_ctrl_c_ends_the_command_and_its_outputs_come(cove, tmp):
    line = "echo got > got; echo up; trap 'echo end > end; exit 9' INT; while :; do sleep 0.1; done"
    p = cove.start("run", "--out", "got", "--out", "end", *sh(line), start_new_session=True, cwd=tmp,
                   stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"up\n"
    os.killpg(p.pid, signal.SIGINT)
    assert p.wait(DEADLINE) == 9, p.stderr.read()
    assert (tmp / "got").read_text() == "got\n" and (tmp / "end").read_text() == "end\n"


def test_killed_client_leaves_no_box(cove, tmp):
    p = cove.start("run", "--name", "killed", "--in", "-:/tmp/half", *sh("echo ran"), cwd=tmp)
    p.stdin.write(bytes(1 << 20))
    p.stdin.flush()
    keeper = wait_until(lambda: "killed" in cove.names() and cove.inspect("killed")["keeper_pid"], "the box")
    p.kill()
    p.communicate(timeout=DEADLINE)
    wait_until(lambda: not alive(keeper) and "killed" not in cove.names(), "the box to go")


def test_a_reader_that_left(cove, tmp):
    p = cove.start("run", "--out", "o", *sh("echo o > o; while echo y; do :; done"), cwd=tmp, stdin=subprocess.DEVNULL)
    p.stdout.read(10)
    p.stdout.close()
    p.wait(DEADLINE)
    assert (tmp / "o").read_text() == "o\n"


def test_on_a_terminal(cove, tmp):
    (tmp / "f").write_text("f")
    main, side = pty.openpty()
    p = cove.start("run", "--in", "f", "--out", "o", *sh("test -t 1 && cp f o"), stdin=side, stdout=side, stderr=side,
                   cwd=tmp, start_new_session=True)
    os.close(side)
    p.wait(DEADLINE)
    os.close(main)
    assert p.returncode in (0, 1)
    main, side = pty.openpty()
    p = cove.start("run", "-t", "--in", "f", "--out", "o", *sh("test -t 1 && cp f o"), stdin=side, stdout=side,
                   stderr=side, cwd=tmp)
    os.close(side)
    p.wait(DEADLINE)
    os.close(main)
    assert p.returncode == 0 and (tmp / "o").read_text() == "f"


# ---- from C ----

PROGRAM = r"""#include <cove.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct cove *cove;
	struct cove_box *box;
	struct cove_box_options options = {.size = sizeof(options), .image = argv[1], .one_shot = true};
	struct cove_command command = {.size = sizeof(command), .line = argv[2], .cwd = "/tmp"};
	struct cove_transfer in = {.size = sizeof(in), .from = argv[3], .to = "in"};
	struct cove_transfer outs[2] = {{.size = sizeof(in), .from = "out", .to = argv[4]},
					{.size = sizeof(in), .from = "none", .to = "."}};
	struct cove_files files = {.size = sizeof(files), .inputs = &in, .input_count = 1,
				   .outputs = outs, .output_count = 2};
	struct cove_result result;
	struct cove_error err;
	char *json;

	(void)argc;
	if (cove_new(&cove, NULL, &err) < 0 || cove_create(cove, &options, &box, &err) < 0)
		return 1;
	if (cove_run_with(box, &command, &files, &result, &err) < 0) {
		printf("{\"failed\": \"%s\", \"in\": %d, \"out\": %d}\n", cove_error_name(err.kind),
		       in.error.kind, outs[0].error.kind);
	} else {
		json = cove_result_json(&result);
		puts(json);
		free(json);
		cove_result_free(&result);
	}
	cove_box_free(box);
	cove_free(cove);
	return 0;
}
"""


@pytest.mark.once("both")
def test_from_c(cove, tmp):
    from embed import flags, sanitizer_preload
    (tmp / "c.c").write_text(PROGRAM)
    made = subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", str(tmp / "c.c"), "-o",
                           str(tmp / "c"), *flags(PREFIX)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (tmp / "in").write_text("in")

    def run(line, source):
        got = subprocess.run([tmp / "c", cove.image or "base", line, source, tmp / "out"], cwd=tmp, text=True,
                             env={**cove.env, **sanitizer_preload(PREFIX)}, capture_output=True, timeout=DEADLINE)
        assert got.returncode == 0, got.stdout + got.stderr
        return json.loads(got.stdout)

    found = run("cat in in > out; exit 6", tmp / "in")
    assert found["exit_code"] == 6 and found["inputs"][0]["bytes"] == 2 and found["outputs"][0]["bytes"] == 4
    assert found["outputs"][1]["error"]["kind"] == "not_found" and (tmp / "out").read_text() == "inin"
    found = run("echo ran", tmp / "missing")
    assert found["failed"] == "not_found" and found["in"] and found["out"]
