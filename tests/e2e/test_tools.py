"""cove read, edit, glob, grep and watch: what tools of agents do with files, inside the box as its user."""
import ctypes
import hashlib
import json
import os
import signal
import threading
import types

import pytest

import libcove
from conftest import DEADLINE, IS_ROOT, WALL, wait_until

pytestmark = pytest.mark.once("user")

# Very many states for each of very many bytes: no expression library is quick with it.
SLOW = "((a{1,60}){1,60}b)"


def in_box(cove, box, line):
    return cove("exec", box, "--", "bash", "-c", line).ok().text


@pytest.fixture
def tree(cove, shared):
    """A fresh directory in the box."""
    path = in_box(cove, shared, "mktemp -d").strip()
    yield path
    in_box(cove, shared, f"chmod -R u+rwx {path} 2>/dev/null; rm -rf {path}")


def rows(result):
    return [json.loads(line) for line in result.ok().text.splitlines()]


def helpers(cove, box):
    """Processes in the box that are copies of init, beside init itself."""
    lines = in_box(cove, box, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done")
    return sum(line.startswith("cove-init") for line in lines.splitlines()) - 1


def test_read(cove, shared, tree):
    in_box(cove, shared, f"seq 1 5000 > {tree}/f; printf 'a\\0b' > {tree}/bin; : > {tree}/empty")
    assert cove("read", f"{shared}:{tree}/f", "--lines", "10:12").ok().text == "10\n11\n12\n"
    assert cove("read", f"{shared}:{tree}/f").ok().text.endswith("\n5000\n")
    got = cove("read", f"{shared}:{tree}/f", "--lines", "4999:9999", "--json").ok().json
    assert got["text"] == "4999\n5000\n" and got["at_end"] and got["total_lines"] == 5000 and got["last_line"] == 5000
    assert cove("read", f"{shared}:{tree}/f", "--lines", "6000", "--json").ok().json["first_line"] == 0
    assert cove("read", f"{shared}:{tree}/empty").ok().out == b""
    assert cove("read", f"{shared}:{tree}/bin").refused(rc=125).out == b""
    got = cove("read", f"{shared}:{tree}/bin", "--json").ok().json
    assert got["binary"] and got["text"] == "" and got["size"] == 3
    assert cove("read", "--binary", f"{shared}:{tree}/bin").ok().out == b"a\0b"
    cove.fails("not_found", "read", f"{shared}:{tree}/none")
    assert cove("read", f"{shared}:/proc/self/status", "--lines", "1:1").ok().text.startswith("Name:")


def test_nothing_waits_for_a_fifo_or_a_device(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; mkfifo p; ln -s p link; ln -s /dev/zero zero; echo x > f")
    for name in ("p", "link", "zero", "."):
        for args in (["read", f"{shared}:{tree}/{name}"], ["edit", f"{shared}:{tree}/{name}", "a", "b"]):
            cove.fails("invalid", *args, rc=125)
    cove.fails("invalid", "grep", f"{shared}:{tree}/p", "x", rc=125)
    assert [r["path"] for r in rows(cove("grep", f"{shared}:{tree}", "x", "--json"))] == ["f"]
    assert cove("glob", f"{shared}:{tree}", "*", "--any").ok().text.count("\n") == 4


def test_a_file_that_grows_meanwhile(cove, shared, tree):
    writer = cove("exec", "-d", shared, "--", "bash", "-c",
                  f"while :; do seq 1 1000; done > {tree}/f").ok().text.strip()
    try:
        wait_until(lambda: int(in_box(cove, shared, f"stat -c %s {tree}/f")) > 1 << 20)
        cove("read", f"{shared}:{tree}/f", "--lines", "1:5").ok()
        cove("grep", f"{shared}:{tree}/f", "no such text").ok()
    finally:
        cove("kill", "-s", "KILL", shared, writer).ok()


def test_edit(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; printf 'one\\ntwo\\ntwo\\n' > f; chmod 640 f")
    place = f"{shared}:{tree}/f"
    got = cove("edit", place, "one\ntwo", "1\n2", "--json").ok().json
    text = b"1\n2\ntwo\n"
    assert got["occurrences"] == 1 and got["sha256"] == hashlib.sha256(text).hexdigest() and got["size"] == len(text)
    cove.fails("not_found", "edit", place, "three", "3")
    cove("edit", place, "two", "one\none").ok()
    cove.fails("conflict", "edit", place, "one", "x")
    cove("edit", place, "one", "x", "--all").ok()
    assert in_box(cove, shared, f"cat {tree}/f; stat -c %a {tree}/f; ls -A {tree}") == "1\n2\nx\nx\n640\nf\n"
    in_box(cove, shared, f"printf 'a\\r\\nb\\r\\n' > {tree}/f")
    cove("edit", place, "a\nb", "p\nq").ok()
    assert cove("read", place).ok().out == b"p\r\nq\r\n"


def test_rights_are_those_of_the_user(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; echo secret > f; chmod 000 f; mkdir d; echo secret > d/f; chmod 000 d; "
           "echo x > g")
    cove.fails("denied", "read", f"{shared}:{tree}/f")
    cove.fails("denied", "edit", f"{shared}:{tree}/f", "secret", "x")
    cove.fails("denied", "read", f"{shared}:/etc/shadow")
    got = cove("grep", f"{shared}:{tree}", "e", "--json").ok()
    assert got.out == b"" and b"left out" in got.err
    assert cove("glob", f"{shared}:{tree}", "**/f").ok().text == f"{tree}/f\n"
    in_box(cove, shared, f"chmod 444 {tree}/g")
    cove.fails("denied", "edit", f"{shared}:{tree}/g", "x", "y")


@pytest.mark.skipif(not IS_ROOT, reason="one user is all there is in a box of some users")
def test_as_another_user(cove, shared, tree):
    in_box(cove, shared, f"echo mine > {tree}/f; chmod 600 {tree}/f")
    cove("edit", "-u", "root", f"{shared}:{tree}/f", "mine", "theirs").ok()
    assert in_box(cove, shared, f"stat -c %U:%a {tree}/f; cat {tree}/f") == "user:600\ntheirs\n"
    assert cove("read", "-u", "root", f"{shared}:/etc/shadow", "--lines", "1:1").ok().text.startswith("root:")


def test_unusual_names(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; for n in $'new\\nline' $'\\xff\\xfe' 'a b' -x '[q]' '\"'; do "
           "echo needle > \"$n\"; done")
    found = rows(cove("glob", f"{shared}:{tree}", "*", "--json"))
    assert [f["path"] for f in found] == ['"', "-x", "[q]", "a b", "new\nline", "\ufffd\ufffd"]
    lines = cove("grep", f"{shared}:{tree}", "needle").ok().text.splitlines()
    assert len(lines) == 6 and any(line == f'"{tree}/new\\nline":1:needle' for line in lines)
    assert cove("read", f"{shared}:{tree}/new\nline").ok().text == "needle\n"
    cove("edit", os.fsencode(f"{shared}:{tree}/") + b"\xff\xfe", "needle", "found").ok()
    assert [f["text"] for f in rows(cove("grep", f"{shared}:{tree}", "found", "--json"))] == ["found"]


def test_links_lead_nowhere(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; mkdir in; echo needle > in/f; ln -s /etc etc; ln -s in same; ln -s . loop; "
           "ln -s in/f file; ln -s /etc/passwd out")
    assert [f["path"] for f in rows(cove("grep", f"{shared}:{tree}", "needle", "--json"))] == ["in/f"]
    assert rows(cove("grep", f"{shared}:{tree}", "root:", "--json")) == []
    assert [f["path"] for f in rows(cove("glob", f"{shared}:{tree}", "**/f*", "--json"))] == ["file", "in/f"]
    assert rows(cove("glob", f"{shared}:{tree}", "etc/passwd", "--json")) == []
    cove.fails("invalid", "glob", f"{shared}:{tree}", "../*", rc=125)
    cove.fails("invalid", "read", f"{shared}:/proc/self/root/etc/passwd", rc=125)


def test_a_deep_tree(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; for i in $(seq 1 200); do mkdir d; cd d; echo needle > f; done")
    got = cove("grep", f"{shared}:{tree}", "needle", "--json").ok()
    assert len(rows(got)) == 127 and b"left out" in got.err


def test_many_files(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; for d in $(seq 1 20); do mkdir $d; (cd $d; seq 1 1000 | xargs touch); done; "
           "echo needle > 5/500")
    assert cove("glob", f"{shared}:{tree}", "*", "--max", "1000000").ok().text.count("\n") == 20000
    got = cove("glob", f"{shared}:{tree}", "*", "--max", "10").ok()
    assert got.text.count("\n") == 10 and b"--max" in got.err
    assert cove("grep", f"{shared}:{tree}", "needle").ok().text == f"{tree}/5/500:1:needle\n"
    assert cove("glob", f"{shared}:{tree}", "[56]/{500,501}").ok().text.count("\n") == 4


def slow_file(cove, box, tree):
    in_box(cove, box, f"head -c 4000000 /dev/zero | tr '\\0' a > {tree}/slow")
    return f"{box}:{tree}/slow"


def test_an_expression_that_takes_for_ever_is_ended(cove, shared, tree):
    place = slow_file(cove, shared, tree)
    search = cove.start("grep", place, "-E", SLOW, "--timeout", "1s")
    # Others are served meanwhile.
    assert cove("read", f"{shared}:/etc/hostname").ok().out
    out, err = search.communicate(timeout=DEADLINE)
    assert search.returncode == 0 and out == b"" and b"--timeout" in err
    assert helpers(cove, shared) == 0
    cove.fails("limit", "grep", place, "-E", "(((((a{1,200}){1,200}){1,200}){1,200}){1,200})")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_gives_up_leaves_no_process(cove, shared, tree, number):
    place = slow_file(cove, shared, tree)
    search = cove.start("grep", place, "-E", SLOW)
    wait_until(lambda: helpers(cove, shared) == 1)
    search.send_signal(number)
    search.communicate(timeout=DEADLINE)
    wait_until(lambda: helpers(cove, shared) == 0)


def test_what_the_box_kills_is_an_error(cove, shared, tree):
    place = slow_file(cove, shared, tree)
    search = cove.start("grep", place, "-E", SLOW, "--json")
    kill = "for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n != 1 ] && grep -qa ^cove-init $p/cmdline && kill -9 $n; done"
    wait_until(lambda: helpers(cove, shared) == 1)
    in_box(cove, shared, kill + "; true")
    out, _err = search.communicate(timeout=DEADLINE)
    assert search.returncode == 125 and json.loads(out)["error"]["kind"] == "interrupted"
    # One that is stopped is ended by its time.
    search = cove.start("grep", place, "-E", SLOW, "--timeout", "1s")
    wait_until(lambda: helpers(cove, shared) == 1)
    in_box(cove, shared, kill.replace("kill -9", "kill -STOP") + "; true")
    _out, err = search.communicate(timeout=DEADLINE)
    assert search.returncode == 0 and b"--timeout" in err


def test_many_at_once(cove, shared, tree):
    in_box(cove, shared, f"cd {tree}; for i in $(seq 1 200); do seq 1 200 > $i; done")
    searches = [cove.start("grep", f"{shared}:{tree}", "^199$", "-E", "--max", "1000") for _ in range(12)]
    outs = [s.communicate(timeout=DEADLINE)[0] for s in searches]
    assert all(s.returncode == 0 for s in searches) and all(out.count(b"\n") == 200 for out in outs)


class Watch:
    """cove watch --json, and the rows that it printed."""

    def __init__(self, cove, *args):
        self.program = cove.start("watch", "--json", *args)
        self.rows = []
        self.thread = threading.Thread(target=self.read, daemon=True)  # a test that fails must not wait for it
        self.thread.start()

    def read(self):
        for line in self.program.stdout:
            self.rows.append(json.loads(line))

    def has(self, change, path, to=None):
        return any(r.get("change") == change and r["path"] == path and r.get("to") == to for r in self.rows)

    def until(self, change, path, to=None):
        wait_until(lambda: self.has(change, path, to), lambda: f"{change} {path}; there are {self.rows[-20:]}")

    def end(self):
        self.program.send_signal(signal.SIGINT)
        self.thread.join(DEADLINE)
        return self.program.wait(DEADLINE)


def test_watch(cove, shared, tree):
    in_box(cove, shared, f"mkdir {tree}/a")
    flat, deep = Watch(cove, f"{shared}:{tree}"), Watch(cove, "-r", f"{shared}:{tree}")
    for watch in (flat, deep):
        watch.until("ready", "")
    in_box(cove, shared, f"cd {tree}; echo x > f; mv f g; chmod 600 g; rm g; mkdir -p n/e; echo y > n/e/w; "
           "echo z > a/b")
    for watch in (flat, deep):
        watch.until("created", "f")
        watch.until("renamed", "f", "g")
        watch.until("chmod", "g")
        watch.until("removed", "g")
        watch.until("created", "n")
    deep.until("created", "a/b")
    deep.until("created", "n/e")
    deep.until("created", "n/e/w")
    assert not flat.has("created", "a/b")
    in_box(cove, shared, f"cd {tree}; mv n a/m; echo more >> a/m/e/w")
    deep.until("renamed", "n", "a/m")
    deep.until("written", "a/m/e/w")
    assert flat.end() == 130 and deep.end() == 130


@pytest.mark.skipif(WALL != "native", reason="a kernel of the wall's own keeps as many events as there are")
def test_a_watch_that_is_not_read(cove, shared, tree):
    watch = Watch(cove, "-r", f"{shared}:{tree}")
    watch.until("ready", "")
    os.kill(watch.program.pid, signal.SIGSTOP)
    try:
        in_box(cove, shared, f"cd {tree}; for i in $(seq 1 15); do seq 1 1000 | xargs touch; "
               "seq 1 1000 | xargs rm; done; mkdir d")
    finally:
        os.kill(watch.program.pid, signal.SIGCONT)
    watch.until("lost", "")
    wait_until(lambda: [r["change"] for r in watch.rows].count("ready") == 2)
    in_box(cove, shared, f"touch {tree}/d/after")
    watch.until("created", "d/after")
    watch.end()


def test_a_watch_ends_with_its_directory_and_box(cove, box):
    in_box(cove, box, "mkdir /tmp/w")
    watch = Watch(cove, f"{box}:/tmp/w")
    watch.until("ready", "")
    in_box(cove, box, "rmdir /tmp/w")
    watch.thread.join(DEADLINE)
    assert watch.program.wait(DEADLINE) == 125 and watch.rows[-1]["error"]["kind"] == "not_found"
    watch = Watch(cove, f"{box}:/tmp")
    watch.until("ready", "")
    cove("stop", box).ok()
    watch.thread.join(DEADLINE)
    assert watch.program.wait(DEADLINE) == 125
    # Files of a box that is stopped are there all the same.
    assert "root" in cove("read", f"{box}:/etc/passwd").ok().text
    cove.fails("conflict", "watch", f"{box}:/tmp")


class EditOptions(ctypes.Structure):
    class Edit(ctypes.Structure):
        _fields_ = [("old", ctypes.c_char_p), ("new", ctypes.c_char_p), ("all", ctypes.c_bool)]

    _fields_ = [("size", ctypes.c_size_t), ("user", ctypes.c_char_p), ("edits", ctypes.POINTER(Edit)),
                ("count", ctypes.c_size_t), ("if_sha256", ctypes.c_char_p), ("if_mtime_ns", ctypes.c_uint64),
                ("if_size", ctypes.c_uint64), ("time_ms", ctypes.c_uint64), ("cancel_fd", ctypes.c_int)]


class Edited(ctypes.Structure):
    _fields_ = [("occurrences", ctypes.c_uint64), ("first_line", ctypes.c_uint64), ("size", ctypes.c_uint64),
                ("mtime_ns", ctypes.c_uint64), ("sha256", ctypes.c_char * 65)]


def test_several_edits_and_conditions_by_the_library(cove, shared, tree):
    library = next(cove.prefix.glob("lib/**/libcove.so"))
    if b"__asan_init" in library.read_bytes():
        pytest.skip("Python cannot load a library with a sanitizer")
    box = libcove.Box(types.SimpleNamespace(cove=cove), shared)
    path = f"{tree}/f".encode()
    box.put(path.decode(), b"a b c\n")

    def edit(*pairs, **conditions):
        edits = (EditOptions.Edit * len(pairs))(*(EditOptions.Edit(old, new, False) for old, new in pairs))
        options = EditOptions(size=ctypes.sizeof(EditOptions), edits=edits, count=len(pairs), **conditions)
        edited = Edited()
        box.call("cove_edit", box.box, path, ctypes.byref(options), ctypes.byref(edited))
        return edited

    done = edit((b"a", b"x"), (b"x b", b"y"))
    assert box.get(path.decode()) == b"y c\n" and done.occurrences == 2
    for wrong in ({"if_sha256": b"0" * 64}, {"if_mtime_ns": done.mtime_ns + 1, "if_size": done.size},
                  {"if_mtime_ns": done.mtime_ns, "if_size": done.size + 1}):
        with pytest.raises(libcove.Refused) as refused:
            edit((b"y", b"z"), **wrong)
        assert refused.value.code == 116  # ESTALE
    with pytest.raises(libcove.Refused) as refused:
        edit((b"y", b"z"), (b"nothing", b"z"))
    assert refused.value.code == 61 and box.get(path.decode()) == b"y c\n"  # ENODATA
    edit((b"y", b"z"), if_sha256=done.sha256, if_mtime_ns=done.mtime_ns, if_size=done.size)
    assert box.get(path.decode()) == b"z c\n"
    box.close()
