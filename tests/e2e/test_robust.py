"""What breaks around Cove: killed programs, races, full disks, missing things."""
import json
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess

import pytest

from conftest import (DEADLINE, IS_ROOT, PREFIX, Cove, alive, children, kill, needs_root, remove_tree, short_dir,
                      wait_until)


def mounts_below(path):
    return [line for line in open("/proc/self/mounts") if f" {path}/" in line or f" {path} " in line]


def groups_of(cove):
    """cgroups of this state directory."""
    found = []
    for root in ("/sys/fs/cgroup/unified/cove", "/sys/fs/cgroup/cove"):
        if os.path.isdir(root):
            found += [os.path.join(root, n) for n in os.listdir(root)]
    return found


def box_processes(cove, box):
    """Keeper, init and everything below, as the host numbers them."""
    keeper = cove.inspect(box)["keeper_pid"]
    found, queue = [], [keeper]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children(pid)
    return found


def assert_gone(cove, box, processes):
    wait_until(lambda: not any(map(alive, processes)), "processes to end")
    cove("ls").ok()
    assert not os.path.exists(f"{cove.home}/run/{box}/keeper.sock")
    assert not [g for g in groups_of(cove) if g.endswith(box)]
    assert mounts_below(cove.home) == []


def test_keeper_killed(cove, box):
    cove.sh(box, "echo kept > ~/kept; sleep 1000 & setsid sleep 1000 &")
    processes = box_processes(cove, box)
    assert len(processes) >= 4
    kill(processes[0])
    assert_gone(cove, box, processes)
    info = cove.inspect(box)
    assert info["state"] == "stopped" and "keeper lost" in info["cause"]
    cove("start", box).ok()
    assert cove.sh(box, "cat ~/kept")["stdout"] == "kept\n"


def test_keeper_killed_while_a_client_waits(cove, box):
    client = cove.start("exec", box, "--", "sh", "-c", "echo up; sleep 1000")
    assert client.stdout.readline() == b"up\n"
    kill(cove.inspect(box)["keeper_pid"])
    _, err = client.communicate(timeout=DEADLINE)
    assert client.returncode not in (0, None) and err
    entry = [e for e in cove.execs(box)][-1]
    assert entry["state"] == "interrupted" or entry["cause"] == "interrupted"


def test_init_killed(cove, box):
    processes = box_processes(cove, box)
    init = children(processes[0])[0]
    cove.sh(box, "sleep 1000 &")
    processes = box_processes(cove, box)
    kill(init)
    assert_gone(cove, box, processes)
    info = cove.inspect(box)
    assert info["state"] == "stopped" and info["cause"] not in ("", "stopped")
    cove("start", box).ok()
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def test_shell_killed_from_outside(cove, box):
    pid = int(cove.sh(box, "echo $$")["stdout"])
    cove("exec", box, "--", "kill", "-9", pid).ok()
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def test_shell_killed_while_a_line_runs(cove, box):
    pid = int(cove.sh(box, "echo $$")["stdout"])
    client = cove.start("sh", "--json", box, "echo up; sleep 1000")
    wait_until(lambda: cove("exec", box, "--", "pgrep", "-x", "sleep").rc == 0, "the line to run")
    cove("exec", box, "--", "kill", "-9", pid).ok()
    out, _ = client.communicate(timeout=DEADLINE)
    got = json.loads(out)
    assert got["exit_code"] == 137 and got["shell"] in ("exited", "restarted") and got["stdout"] == "up\n"
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def test_cli_killed_at_any_moment(cove):
    rng = random.Random(7)
    for round_number in range(25):
        client = cove.start("run", "--", "sh", "-c", "echo up; sleep 1000")
        if round_number % 3:
            # Some delay, different each time: this hits spawning, mounting and running.
            try:
                client.wait(rng.random() * 0.03)
            except subprocess.TimeoutExpired:
                pass
        client.kill()
        client.wait()
    def is_swept():
        """What a killed one left is swept by a later command, unless one did so within a minute."""
        pathlib.Path(cove.home, "run/.swept").unlink(missing_ok=True)
        return cove.names() == [] and os.listdir(cove.home + "/boxes") == []

    wait_until(is_swept, "all one-shot boxes and their directories to be gone")
    wait_until(lambda: not [n for n in os.listdir(cove.home + "/run") if os.path.isdir(f"{cove.home}/run/{n}/.")],
               "their runtime directories to be gone")
    assert mounts_below(cove.home) == []


def test_create_killed_at_any_moment(cove):
    rng = random.Random(11)
    for i in range(25):
        client = cove.start("create", "--name", f"k{i}")
        try:
            client.wait(rng.random() * 0.02)
        except subprocess.TimeoutExpired:
            pass
        client.kill()
        client.wait()
    for name in cove.names():
        cove("rm", "-f", name).ok()
    assert cove.names() == []
    cove("create", "--name", "k0").ok()
    assert cove.sh("k0", "echo ok")["stdout"] == "ok\n"


def test_keeper_killed_at_any_moment(cove):
    rng = random.Random(13)
    for i in range(10):
        box = cove("create").ok().text.strip()
        keeper = cove.inspect(box)["keeper_pid"]
        client = cove.start("sh", box, "for i in $(seq 100); do echo $i; sleep 0.001; done")
        try:
            client.wait(rng.random() * 0.05)
        except subprocess.TimeoutExpired:
            pass
        kill(keeper)
        client.communicate(timeout=DEADLINE)
        wait_until(lambda: cove.inspect(box)["state"] == "stopped", "the box to be stopped")
        cove("rm", box).ok()


def test_remove_always_works(cove):
    for damage in ("record", "upper", "all"):
        box = cove("create").ok().text.strip()
        cove("stop", box).ok()
        where = f"{cove.home}/boxes/{box}"
        for name in (os.listdir(where) if damage == "all" else [damage]):
            path = f"{where}/{name}"
            if os.path.isfile(path):
                pathlib.Path(path).write_bytes(b"\0garbage \xff\n" * 10)
        cove("rm", "-f", box).ok()
        assert not os.path.exists(where)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.once("root")
def test_a_flipped_bit_is_reported_by_name(cove):
    box = cove("create").ok().text.strip()
    where = pathlib.Path(cove.home) / "boxes" / box
    cove("exec", box, "--", "echo", "first").ok()
    cove("exec", box, "--", "echo", "second").ok()
    cove("stop", box).ok()

    # The list of commands: the other line is used, the damage is said.
    journal = where / "logs/execs"
    flip(journal, journal.read_bytes().index(b"second"))
    listed = cove("ps", "--json", box).ok()
    assert [x["command"] for x in listed.json] == ["echo first"]
    assert "damaged" in listed.errors and box in listed.errors
    cove("start", box).ok()
    assert any("damaged" in note for note in cove.inspect(box)["not_enforced"])
    cove.fails("damaged", "exec", "--token", "t", box, "--", "true")
    cove("stop", box).ok()
    cove("start", box).ok()
    cove("exec", "--token", "t", box, "--", "true").ok()
    cove("stop", box).ok()

    # How the last run went: `cove stop` writes it anew.
    record = where / "record"
    flip(record, record.read_bytes().index(b"started_ms"))
    assert {b["name"]: b["state"] for b in cove("ls", "--json").ok().json}[box] == "damaged"
    cove.fails("damaged", "start", box)
    cove("stop", box).ok()
    cove("start", box).ok()
    cove("stop", box).ok()

    # What the box is: it is named and can be removed.
    flip(where / "record", 40)
    assert "'record'" in cove.fails("damaged", "inspect", box)
    cove.fails("damaged", "start", box)
    cove("rm", "-f", box).ok()


def test_record_that_cannot_be_read_hides_no_other_box(cove, box):
    broken = cove("create").ok().text.strip()
    cove("stop", broken).ok()
    pathlib.Path(f"{cove.home}/boxes/{broken}/record").write_text("nonsense\n")
    assert box in cove.names()
    assert cove("exec", box, "--", "true").rc == 0
    cove("rm", "-f", broken).ok()


def test_racing_removes(cove, box):
    racing = [cove.start("rm", "-f", box) for _ in range(6)]
    for process in racing:
        _, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, err
    assert box not in cove.names()


def test_a_name_that_was_just_freed(cove):
    """The keeper of the old box still has to remove its groups, which are called like the new one's."""
    cove("create", "--name", "again").ok()
    for _ in range(8):
        removal = cove.start("rm", "-f", "again")
        wait_until(lambda: cove("create", "--name", "again").rc == 0, "the name to be free")
        removal.communicate(timeout=DEADLINE)
        assert cove("exec", "again", "--", "echo", "ready").ok().text == "ready\n"
        assert cove.inspect("again")["state"] == "running"


def test_racing_creates_of_one_name(cove):
    racing = [cove.start("create", "--name", "race") for _ in range(6)]
    codes = []
    for process in racing:
        process.communicate(timeout=DEADLINE)
        codes.append(process.returncode)
    assert codes.count(0) == 1
    assert cove.sh("race", "echo ok")["stdout"] == "ok\n"


def test_racing_starts_and_stops(cove, box):
    racing = [cove.start(verb, box) for verb in ("stop", "start", "stop", "start", "stop", "start")]
    for process in racing:
        process.communicate(timeout=DEADLINE)
    cove("start", box).ok()
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


@pytest.mark.parametrize("helper", ["cove-keeper", "cove-init"])
def test_missing_helper(new_home, tmp, helper):
    shutil.copytree(PREFIX / "libexec/cove", tmp / "libexec")
    (tmp / "libexec" / helper).unlink()
    cove = new_home(COVE_LIBEXEC=str(tmp / "libexec"))
    cove.fails("unsupported", "run", "--", "true")
    cove.fails("unsupported", "create", "--name", "x")
    assert cove.names() == []


def test_broken_helper(new_home, tmp):
    shutil.copytree(PREFIX / "libexec/cove", tmp / "libexec")
    (tmp / "libexec/cove-keeper").write_text("not a program")
    cove = new_home(COVE_LIBEXEC=str(tmp / "libexec"))
    cove.fails("internal", "create", "--name", "x")
    assert cove.names() == []


def test_broken_init(new_home, tmp):
    shutil.copytree(PREFIX / "libexec/cove", tmp / "libexec")
    (tmp / "libexec/cove-init").unlink()
    shutil.copy("/bin/false", tmp / "libexec/cove-init")
    cove = new_home(COVE_LIBEXEC=str(tmp / "libexec"))
    cove.fails("internal", "create", "--name", "x")
    assert cove.names() == []


def test_missing_image(new_home):
    cove = new_home()
    cove.fails("not_found", "create", "--image", "base", "--name", "x")
    assert cove.names() == []


@pytest.mark.skipif(IS_ROOT, reason="root may write anywhere")
def test_unwritable_home(new_home, tmp):
    cove = new_home()
    os.mkdir(cove.home)
    os.chmod(cove.home, 0o500)
    cove.fails("denied", "run", "--", "true")
    os.chmod(cove.home, 0o700)


def test_home_that_is_a_file(new_home):
    cove = new_home()
    pathlib.Path(cove.home).write_text("")
    cove.fails("invalid", "run", "--", "true", rc=125)
    os.unlink(cove.home)


def test_home_with_a_path_too_long_for_sockets(new_home):
    cove = new_home()
    long_home = cove.home + "/" + "x" * 120
    os.makedirs(long_home)
    cove.env["COVE_HOME"] = long_home
    got = cove("run", "--", "true")
    assert got.rc == 0 or "long" in got.errors


def test_home_is_private(new_home):
    cove = new_home()
    cove("run", "--", "true").ok()
    assert stat.S_IMODE(os.stat(cove.home).st_mode) == 0o700


@needs_root
def test_full_disk(new_home):
    cove = new_home()
    os.mkdir(cove.home)
    limits = "size=8m,nr_inodes=4000,mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "cove-test", cove.home], check=True)
    try:
        assert cove("run", "--", "true").rc == 0
        box = cove("create").ok().text.strip()
        got = cove("exec", box, "--", "sh", "-c", "dd if=/dev/zero of=$HOME/fill bs=64k count=320 conv=fsync")
        assert got.rc != 0 and (b"No space" in got.err or b"Input/output" in got.err), got
        cove.fails("full", "create", "--name", "second")
        assert "second" not in cove.names()
        assert cove("exec", box, "--", "sh", "-c", "rm ~/fill; echo ok").text == "ok\n"
        cove("rm", "-f", box).ok()
        assert cove("run", "--", "true").rc == 0
    finally:
        for name in cove("ls", "-q").text.split():
            cove("rm", "-f", name).ok()
        subprocess.run(["umount", "-l", cove.home], check=True)


@needs_root
def test_full_disk_says_what_to_do(new_home):
    cove = new_home()
    os.mkdir(cove.home)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "cove-test", cove.home], check=True)
    fill = pathlib.Path(cove.home, "fill")
    try:
        box, other = [cove("create", "--net", "closed").ok().text.strip() for _ in range(2)]
        cove("stop", other).ok()
        got = subprocess.run(["dd", "if=/dev/zero", f"of={fill}", "bs=4k"], stderr=subprocess.PIPE)
        assert b"No space" in got.stderr
        cove.fails("full", "create", "--net", "closed")
        cove("start", other).ok()  # its files are there already
        cove("exec", box, "--", "seq", "200000")
        fill.unlink()
        got = cove("logs", box).ok()
        assert "was kept" in got.errors and "per command" not in got.errors
    finally:
        for name in cove("ls", "-q").text.split():
            cove("rm", "-f", name).ok()
        subprocess.run(["umount", "-l", cove.home], check=True)


def test_no_user_namespaces(new_home):
    """In a user namespace of its own where no further one may be made."""
    cove = new_home()
    script = ('echo 0 > /proc/sys/user/max_user_namespaces || exit 99; '
              f'exec "{cove.program}" run --image host -- true')
    got = subprocess.run(["unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps",
                          "sh", "-c", script], env=cove.env, capture_output=True, text=True, timeout=DEADLINE)
    if got.returncode == 99 or "unshare:" in got.stderr:
        pytest.skip("cannot make a user namespace with a limit of its own here")
    assert got.returncode not in (0, 139) and "user namespace" in got.stderr, got.stderr
    assert "max_user_namespaces" in got.stderr or "sysctl" in got.stderr or "doctor" in got.stderr


def test_environment_without_home(tmp):
    cove = Cove(tmp / "unused")
    env = {k: v for k, v in cove.env.items() if k not in ("HOME", "COVE_HOME", "XDG_DATA_HOME")}
    got = subprocess.run([cove.program, "ls"], env=env, capture_output=True, text=True)
    if IS_ROOT:
        assert got.returncode == 0
    else:
        assert got.returncode == 0 or "HOME" in got.stderr


def test_stopped_keeper_does_not_hang_others(cove, box):
    other = cove("create").ok().text.strip()
    keeper = cove.inspect(box)["keeper_pid"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        assert box in cove.names()
        assert cove.sh(other, "echo ok")["stdout"] == "ok\n"
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def test_slow_reader_does_not_block_the_box(cove, box):
    reader = cove.start("exec", box, "--", "sh", "-c", "yes | head -c 50000000")
    reader.stdout.read(1)
    assert cove("exec", box, "--", "echo", "ok").text == "ok\n"
    reader.kill()
    reader.wait()
    assert cove("exec", box, "--", "echo", "ok").text == "ok\n"


def test_junk_on_the_keepers_socket(cove, box):
    import socket
    for junk in (b"", b"\0" * 12, b"\xff" * 4096, b"GET / HTTP/1.0\r\n\r\n", os.urandom(70000)):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(DEADLINE)
        s.connect(f"{cove.home}/run/{box}/keeper.sock")
        try:
            s.sendall(junk)
        except OSError:
            pass
        s.close()
    assert cove.sh(box, "echo ok")["stdout"] == "ok\n"


def test_many_connections(cove, box):
    import socket
    held = []
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(DEADLINE)
        try:
            s.connect(f"{cove.home}/run/{box}/keeper.sock")
        except OSError:
            break
        held.append(s)
    for s in held:
        s.close()
    wait_until(lambda: cove("exec", box, "--", "true").rc == 0, "the keeper to answer again")


def test_socket_is_the_owners_only(cove, box):
    directory = os.stat(f"{cove.home}/run")
    sock = os.stat(f"{cove.home}/run/{box}/keeper.sock")
    assert not (stat.S_IMODE(sock.st_mode) & 0o077 and stat.S_IMODE(directory.st_mode) & 0o077)


def test_two_homes_do_not_see_each_other(new_home):
    one, two = new_home(), new_home()
    one("create", "--name", "same").ok()
    two("create", "--name", "same").ok()
    one.sh("same", "echo one > /tmp/f")
    assert two.sh("same", "cat /tmp/f")["exit_code"] == 1
    two("rm", "-f", "same").ok()
    assert one.sh("same", "cat /tmp/f")["stdout"] == "one\n"


def test_leftovers_of_a_killed_import_are_swept(cove):
    client = cove.start("image", "import", "half", "-")
    client.stdin.write(b"f" + b"\0" * 99 + b"0000644\0" + b"0000000\0" * 2 + b"00000010000\0")
    client.stdin.flush()
    client.kill()
    client.wait()
    client.stdin.close()
    assert "half" not in cove("image", "ls").ok().text


def test_state_directory_moved_away_under_a_running_box():
    base = short_dir()
    cove = Cove(base + "/h", image="host")
    box = cove("create").ok().text.strip()
    keeper = cove.inspect(box)["keeper_pid"]
    cove("rm", "-f", box).ok()
    wait_until(lambda: not alive(keeper), "the keeper to end")
    remove_tree(base)
