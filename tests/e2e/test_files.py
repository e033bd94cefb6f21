"""cove cp: files and directories in and out, done inside the box as its user."""
import hashlib
import io
import os
import pathlib
import re
import subprocess
import tarfile

import pytest

from conftest import DEADLINE, IS_ROOT, needs_flag, wait_until


def digest(data):
    return hashlib.sha256(data).hexdigest()


def in_box(cove, box, line):
    return cove("exec", box, "--", "bash", "-c", line).ok().text


def test_file_in_and_out(cove, shared, tmp):
    data = os.urandom(1 << 20)
    (tmp / "a").write_bytes(data)
    cove("cp", tmp / "a", f"{shared}:/tmp/a").ok()
    assert in_box(cove, shared, "sha256sum < /tmp/a").split()[0] == digest(data)
    assert in_box(cove, shared, "stat -c %u:%g /tmp/a") == "1000:1000\n"
    cove("cp", f"{shared}:/tmp/a", tmp / "b").ok()
    assert (tmp / "b").read_bytes() == data
    assert (tmp / "b").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 524288, 524289])
def test_sizes(cove, shared, tmp, size):
    data = os.urandom(size)
    (tmp / "a").write_bytes(data)
    cove("cp", tmp / "a", f"{shared}:/tmp/sized").ok()
    cove("cp", f"{shared}:/tmp/sized", tmp / "b").ok()
    assert (tmp / "b").read_bytes() == data


def test_large_file(cove, shared, tmp):
    block = os.urandom(1 << 20)
    with open(tmp / "big", "wb") as f:
        for _ in range(200):
            f.write(block)
    cove("cp", tmp / "big", f"{shared}:/tmp/big", timeout=240).ok()
    cove("cp", f"{shared}:/tmp/big", tmp / "back", timeout=240).ok()
    assert subprocess.run(["cmp", tmp / "big", tmp / "back"]).returncode == 0
    in_box(cove, shared, "rm /tmp/big")


def test_stdin_and_stdout(cove, shared):
    data = os.urandom(300000)
    cove("cp", "-", f"{shared}:/tmp/from-stdin", input=data).ok()
    assert cove("cp", f"{shared}:/tmp/from-stdin", "-").ok().out == data


def test_modes_and_links(cove, shared, tmp):
    tree = tmp / "tree"
    (tree / "sub/deep").mkdir(parents=True)
    (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "run.sh").chmod(0o755)
    (tree / "sub/private").write_text("p")
    (tree / "sub/private").chmod(0o600)
    (tree / "sub/link").symlink_to("../run.sh")
    (tree / "sub/broken").symlink_to("/nowhere/at/all")
    (tree / "empty").mkdir()
    cove("cp", tree, f"{shared}:/tmp/tree").ok()
    assert in_box(cove, shared, "/tmp/tree/run.sh") == "ran\n"
    assert in_box(cove, shared, "cd /tmp/tree; stat -c %a run.sh sub/private; readlink sub/link sub/broken") == \
        "755\n600\n../run.sh\n/nowhere/at/all\n"
    cove("cp", f"{shared}:/tmp/tree", tmp / "back").ok()
    same = subprocess.run(["diff", "-r", "--no-dereference", tree, tmp / "back"], capture_output=True, text=True)
    assert same.returncode == 0, same.stdout
    assert (tmp / "back/sub/private").stat().st_mode & 0o777 == 0o600
    assert (tmp / "back/empty").is_dir()


def test_directory_onto_a_directory_goes_inside(cove, shared, tmp):
    (tmp / "src").mkdir()
    (tmp / "src/f").write_text("f")
    in_box(cove, shared, "mkdir -p /tmp/there")
    cove("cp", tmp / "src", f"{shared}:/tmp/there").ok()
    assert in_box(cove, shared, "cat /tmp/there/src/f") == "f"
    (tmp / "out").mkdir()
    cove("cp", f"{shared}:/tmp/there/src", tmp / "out").ok()
    assert (tmp / "out/src/f").read_text() == "f"


def test_file_onto_a_directory_goes_inside(cove, shared, tmp):
    (tmp / "one").write_text("1")
    cove("cp", tmp / "one", f"{shared}:/tmp").ok()
    cove("cp", tmp / "one", f"{shared}:/tmp/").ok()
    assert in_box(cove, shared, "cat /tmp/one") == "1"


def test_relative_path_starts_where_commands_start(cove, shared, tmp):
    (tmp / "rel").write_text("r")
    cove("cp", tmp / "rel", f"{shared}:rel").ok()
    assert in_box(cove, shared, "cat rel") == "r"


def make_exact(tree):
    (tree / "sub").mkdir(parents=True)
    (tree / "one").write_text("one")
    (tree / "one").chmod(0o640)
    os.link(tree / "one", tree / "two")
    os.link(tree / "one", tree / "sub/three")
    with open(tree / "hole", "wb") as f:
        f.seek(2 << 30)
        f.write(b"x")
        f.truncate(3 << 30)
    (tree / "closed").mkdir()
    (tree / "closed/f").write_text("f")
    (tree / "closed").chmod(0o555)
    for name in ("one", "closed", "sub", "."):
        os.utime(tree / name, ns=(10**18, 10**18 + 7))


@needs_flag("HOLES")
def test_modes_times_holes_and_hard_links_both_ways(cove, shared, tmp):
    make_exact(tmp / "exact")
    cove("cp", tmp / "exact", f"{shared}:/tmp/exact").ok()
    assert in_box(cove, shared, "cd /tmp/exact; stat -c '%a %h %.9Y' one closed .; stat -c %s hole; "
                  "du -k hole | cut -f1; test one -ef sub/three && test one -ef two && echo linked").split() == \
        "640 3 1000000000.000000007 555 2 1000000000.000000007 755 4 1000000000.000000007".split() + \
        [str(3 << 30), in_box(cove, shared, "du -k /tmp/exact/hole | cut -f1").strip(), "linked"]
    assert int(in_box(cove, shared, "du -k /tmp/exact/hole | cut -f1")) < 1000
    cove("cp", f"{shared}:/tmp/exact", tmp / "back").ok()
    one, two = (tmp / "back/one").stat(), (tmp / "back/sub/three").stat()
    assert one.st_ino == two.st_ino and one.st_nlink == 3 and one.st_mode & 0o777 == 0o640
    for name in ("one", "closed", "sub", "."):
        assert (tmp / "back" / name).stat().st_mtime_ns == 10**18 + 7
    assert (tmp / "back/closed").stat().st_mode & 0o777 == 0o555
    hole = (tmp / "back/hole").stat()
    assert hole.st_size == 3 << 30 and hole.st_blocks < 2000
    with open(tmp / "back/hole", "rb") as f:
        f.seek(2 << 30)
        assert f.read(2) == b"x\0"


def test_directory_as_a_tar_stream(cove, shared, tmp):
    in_box(cove, shared, "mkdir -p /tmp/tarred/sub; cd /tmp/tarred; echo a > a; ln -f a sub/b; ln -sf ../a sub/l; "
           f"echo long > {'n' * 150}; chmod 600 a; truncate -s 100000 zeros; cp /proc/uptime unsized; mkfifo p || true")
    got = cove("cp", f"{shared}:/tmp/tarred", "-").ok()
    with tarfile.open(fileobj=io.BytesIO(got.out)) as tar:
        names = {m.name for m in tar.getmembers()}
        assert {"tarred", "tarred/a", "tarred/sub/b", "tarred/sub/l", "tarred/" + "n" * 150, "tarred/zeros"} <= names
        assert "tarred/p" not in names
        assert tar.extractfile("tarred/" + "n" * 150).read() == b"long\n"
        assert tar.extractfile("tarred/a").read() == tar.extractfile("tarred/sub/b").read() == b"a\n"
        assert tar.getmember("tarred/a").mode == 0o600
        assert tar.getmember("tarred/sub/l").linkname == "../a"
        assert tar.getmember("tarred/zeros").size == 100000
    assert subprocess.run(["tar", "-xf", "-", "-C", tmp], input=got.out).returncode == 0
    assert (tmp / "tarred/a").stat().st_ino == (tmp / "tarred/sub/b").stat().st_ino


def test_an_unreadable_file_does_not_end_the_copy(cove, shared, tmp):
    in_box(cove, shared, "mkdir -p /tmp/some/z; cd /tmp/some; echo a > a; echo z > z/z; echo no > no; chmod 0 no")
    result = cove("cp", f"{shared}:/tmp/some", tmp / "some")
    assert result.rc == 125 and result.err.count(b"'no' was left out") == 1
    assert (tmp / "some/a").read_text() == "a\n" and (tmp / "some/z/z").read_text() == "z\n"
    assert not (tmp / "some/no").exists()
    with tarfile.open(fileobj=io.BytesIO(cove("cp", f"{shared}:/tmp/some", "-").out)) as tar:
        assert "some/z/z" in tar.getnames() and "some/no" not in tar.getnames()
    # Very many are counted, and a few are named.
    in_box(cove, shared, "mkdir -p /tmp/most; cd /tmp/most; touch {1..50}; chmod 0 *")
    result = cove("cp", f"{shared}:/tmp/most", tmp / "most")
    assert result.rc == 125 and result.err.count(b"was left out") == 10 and b"50 entries" in result.err
    if IS_ROOT:
        return
    (tmp / "in").mkdir()
    (tmp / "in/a").write_text("a")
    (tmp / "in/no").write_text("no")
    (tmp / "in/no").chmod(0)
    result = cove("cp", tmp / "in", f"{shared}:/tmp/in")
    assert result.rc == 125 and b"'no' was left out" in result.err
    assert in_box(cove, shared, "ls /tmp/in") == "a\n"


def test_a_hard_link_planted_before_is_not_written_through(cove, shared, tmp):
    in_box(cove, shared, "mkdir -p /tmp/planted; echo new > /tmp/planted/f; ln -f /tmp/planted/f /tmp/planted/g")
    (tmp / "precious").write_text("old")
    (tmp / "to/planted").mkdir(parents=True)
    os.link(tmp / "precious", tmp / "to/planted/f")
    os.link(tmp / "precious", tmp / "to/planted/g")
    cove("cp", f"{shared}:/tmp/planted", tmp / "to").ok()
    assert (tmp / "precious").read_text() == "old"
    assert (tmp / "to/planted/g").read_text() == "new\n"
    assert sorted(os.listdir(tmp / "to/planted")) == ["f", "g"]


def test_tilde_is_the_home(cove, shared, tmp):
    (tmp / "f").write_text("at home")
    cove("cp", tmp / "f", f"{shared}:~").ok()
    cove("cp", tmp / "f", f"{shared}:~/sub/g").ok()
    assert in_box(cove, shared, "cat ~/f ~/sub/g") == "at homeat home"
    assert cove("cp", f"{shared}:~/sub/g", "-").ok().text == "at home"
    cove("cp", f"{shared}:~", tmp / "home").ok()
    assert (tmp / "home/sub/g").read_text() == "at home"
    # A name that only begins so is a name.
    cove("cp", tmp / "f", f"{shared}:~x").ok()
    assert in_box(cove, shared, "cat ./~x") == "at home"


def test_copy_as_another_user(cove, shared, tmp):
    (tmp / "f").write_text("f")
    cove("cp", "-u", "root", tmp / "f", f"{shared}:/etc/cove-u").ok()
    assert in_box(cove, shared, "stat -c %u:%g /etc/cove-u") == "0:0\n"
    in_box(cove, shared, "install -m 600 /dev/null /tmp/own; echo own > /tmp/own")
    cove.fails("denied", "cp", "-u", "nobody", f"{shared}:/tmp/own", tmp / "own")
    assert cove("cp", "-u", "root", f"{shared}:/tmp/own", "-").ok().text == "own\n"
    cove("cp", "-u", "root", "-", f"{shared}:~/by-root", input=b"r").ok()
    assert cove("exec", "-u", "root", shared, "--", "cat", "/root/by-root").ok().text == "r"
    assert cove("cp", "-u", "no-such-user", tmp / "f", f"{shared}:/tmp/f").rc == 125


def test_a_stopped_box_is_up_for_the_copy_alone(cove, box, tmp):
    (tmp / "f").write_text("f")
    cove("sh", box, "echo kept > ~/kept").ok()
    cove("stop", box).ok()
    cove("cp", tmp / "f", f"{box}:~/f").ok()
    assert cove("cp", f"{box}:~/kept", "-").ok().text == "kept\n"
    assert cove.inspect(box)["state"] == "stopped"
    # Nobody joins while it lasts; who wants to start it waits and has a box of their own.
    copying = cove.start("cp", "-", f"{box}:~/slow")
    wait_until(lambda: cove.inspect(box)["state"] == "running")
    starting = cove.start("start", box)
    copying.stdin.write(b"slow")
    copying.stdin.close()
    assert copying.wait(DEADLINE) == 0
    assert starting.wait(DEADLINE) == 0
    assert in_box(cove, box, "cat ~/f ~/slow") == "fslow"


def test_missing_directories_have_a_remedy(cove, shared, tmp):
    (tmp / "f").write_text("f")
    assert "mkdir -p" in cove.fails("not_found", "cp", f"{shared}:/etc/passwd", tmp / "no/such")
    assert "mkdir -p" in cove.fails("invalid", "cp", tmp / "f", f"{shared}:/tmp/not-there/", rc=125)


def test_overwrite(cove, shared, tmp):
    for text in ("a longer first text", "short"):
        (tmp / "f").write_text(text)
        cove("cp", tmp / "f", f"{shared}:/tmp/over").ok()
    assert in_box(cove, shared, "cat /tmp/over") == "short"


def test_odd_names(cove, shared, tmp):
    names = ["a b", "-n", "'q'", "new\nline", "\u00fcn\u00efcode", "colon:name", "star*", "x" * 255]
    (tmp / "odd").mkdir()
    for name in names:
        (tmp / "odd" / name).write_text(name)
    os.close(os.open(os.fsencode(tmp / "odd") + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    cove("cp", tmp / "odd", f"{shared}:/tmp/odd").ok()
    cove("cp", f"{shared}:/tmp/odd", tmp / "odd-back").ok()
    assert sorted(os.listdir(os.fsencode(tmp / "odd"))) == sorted(os.listdir(os.fsencode(tmp / "odd-back")))
    assert all((tmp / "odd-back" / name).read_text() == name for name in names)


def test_many_files(cove, shared, tmp):
    (tmp / "many").mkdir()
    for i in range(500):
        (tmp / "many" / f"f{i}").write_text(str(i))
    cove("cp", tmp / "many", f"{shared}:/tmp/many").ok()
    assert in_box(cove, shared, "ls /tmp/many | wc -l; cat /tmp/many/f499") == "500\n499"
    cove("cp", f"{shared}:/tmp/many", tmp / "many2").ok()
    assert len(os.listdir(tmp / "many2")) == 500


def test_missing_source(cove, shared, tmp):
    cove.fails("not_found", "cp", tmp / "missing", f"{shared}:/tmp/x")
    cove.fails("not_found", "cp", f"{shared}:/no/such/file", tmp / "x")
    assert not (tmp / "x").exists()


def test_missing_target_directory(cove, shared, tmp):
    (tmp / "f").write_text("f")
    cove.fails("denied", "cp", tmp / "f", f"{shared}:/no/dir/f")


def test_done_as_the_boxes_user(cove, shared, tmp):
    (tmp / "f").write_text("f")
    cove.fails("denied", "cp", tmp / "f", f"{shared}:/etc/cove-test")


@pytest.mark.parametrize("make, name, error", [
    ("mkfifo /tmp/t-fifo", "t-fifo", {"kind": "invalid", "rc": 125}),
    ("mkdir -p /tmp/t-ro; chmod 555 /tmp/t-ro", "t-ro/x", {"kind": "denied"})])
def test_target_that_cannot_take_it_is_no_hang(cove, shared, tmp, make, name, error):
    in_box(cove, shared, make)
    (tmp / "f").write_text("f")
    cove.fails(error.pop("kind"), "cp", tmp / "f", f"{shared}:/tmp/{name}", **error)


def test_source_that_is_a_pipe_is_no_hang(cove, shared, tmp):
    in_box(cove, shared, "test -p /tmp/p || mkfifo /tmp/p")
    cove.fails("invalid", "cp", f"{shared}:/tmp/p", tmp / "p", rc=125)


def test_link_in_the_box_stays_in_the_box(cove, shared, tmp):
    canary = tmp / "canary"
    canary.write_text("host")
    in_box(cove, shared, f"mkdir -p /tmp/evil; ln -sfn {canary} /tmp/evil/link; ln -sfn / /tmp/evil/root")
    got = cove("cp", f"{shared}:/tmp/evil/link", "-")
    assert b"host" not in got.out
    (tmp / "new").write_text("new")
    cove("cp", tmp / "new", f"{shared}:/tmp/evil/link")
    assert canary.read_text() == "host"
    cove("cp", f"{shared}:/tmp/evil", tmp / "evil-out").ok()
    assert os.path.islink(tmp / "evil-out/link") and os.path.islink(tmp / "evil-out/root")


def test_a_link_that_a_box_sends_cannot_lead_a_later_file_out(cove, shared, tmp):
    # A directory swapped for a link between two files of one get must not lead writes elsewhere.
    (tmp / "outside").mkdir()
    (tmp / "dst").mkdir()
    (tmp / "dst/tree").mkdir()
    (tmp / "dst/tree/sub").symlink_to(tmp / "outside")
    in_box(cove, shared, "mkdir -p /tmp/tree2/tree/sub; echo x > /tmp/tree2/tree/sub/planted")
    cove("cp", f"{shared}:/tmp/tree2/tree", tmp / "dst")
    assert os.listdir(tmp / "outside") == []


def test_both_ends_in_a_box_or_none(cove, shared, tmp):
    cove.fails("invalid", "cp", "a", "b")
    cove.fails("invalid", "cp", f"{shared}:/a", f"{shared}:/b")


def test_unknown_box(cove, tmp):
    (tmp / "f").write_text("")
    cove.fails("not_found", "cp", tmp / "f", "no-such-box:/tmp/f")


def test_sparse_and_growing_file(cove, shared):
    in_box(cove, shared, "truncate -s 3M /tmp/sparse")
    assert cove("cp", f"{shared}:/tmp/sparse", "-").ok().out == bytes(3 << 20)


def test_an_empty_file_as_stdout_gets_holes(cove, shared, tmp):
    in_box(cove, shared, "printf x > /tmp/h; truncate -s 3M /tmp/h; printf y >> /tmp/h; truncate -s 8M /tmp/h")
    for head in (b"", b"before"):
        with open(tmp / "out", "w+b") as out:
            out.write(head)
            out.flush()
            argv = [cove.program, "cp", f"{shared}:/tmp/h", "-"]
            assert subprocess.run(argv, env=cove.env, stdout=out).returncode == 0
        expected = b"x" + bytes((3 << 20) - 1) + b"y" + bytes((5 << 20) - 1)
        assert (tmp / "out").read_bytes() == head + expected
        assert ((tmp / "out").stat().st_blocks < 4096) == (not head)


def test_interrupted_copy_leaves_the_box_usable(cove, shared, tmp):
    process = cove.start("cp", "-", f"{shared}:/tmp/half")
    process.stdin.write(b"x" * (4 << 20))
    process.stdin.flush()
    process.kill()
    process.wait()
    process.stdin.close()
    assert in_box(cove, shared, "echo ok") == "ok\n"


def test_broken_reader(cove, shared):
    in_box(cove, shared, "head -c 20000000 /dev/zero > /tmp/z")
    process = cove.start("cp", f"{shared}:/tmp/z", "-", stdin=subprocess.DEVNULL)
    process.stdout.read(1000)
    process.stdout.close()
    process.wait(DEADLINE)
    assert in_box(cove, shared, "rm /tmp/z; echo ok") == "ok\n"


def image_of(files):
    """A tar of a tiny root filesystem."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, data, mode in files:
            info = tarfile.TarInfo(name)
            info.mode = mode
            if kind == "d":
                info.type = tarfile.DIRTYPE
            elif kind == "l":
                info.type, info.linkname = tarfile.SYMTYPE, data
            elif kind == "h":
                info.type, info.linkname = tarfile.LNKTYPE, data
            else:
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data) if kind == "f" else None)
    return out.getvalue()


def tiny_image():
    """A root filesystem that holds dash and what it links, and nothing else."""
    linked = subprocess.run(["ldd", "/bin/dash"], capture_output=True, text=True, check=True).stdout
    names = {"bin/sh": "/bin/dash"}
    names.update({path.lstrip("/"): path for path in re.findall(r"(/\S+) \(0x", linked)})
    folders = {"etc"} | {str(p) for name in names for p in pathlib.PurePath(name).parents if str(p) != "."}
    files = [(name, "d", None, 0o755) for name in sorted(folders)]
    for name, path in names.items():
        with open(path, "rb") as f:
            files.append((name, "f", f.read(), 0o755))
    return image_of(files + [("etc/passwd", "f", b"root:x:0:0::/:/bin/sh\n", 0o644)])


def test_image_life(cove):
    data = tiny_image()
    cove("image", "import", "tiny", "-", input=data).ok()
    assert "tiny" in cove("image", "ls").ok().text
    got = cove("run", "--image", "tiny", "--", "/bin/sh", "-c", "echo $((6 * 7))")
    assert got.text == "42\n", repr(got)
    box = cove("create", "--image", "tiny").ok().text.strip()
    assert cove.sh(box, "cd /bin; x=1")["cwd"] == "/bin"
    assert cove.sh(box, "echo $x; pwd")["stdout"] == "1\n/bin\n"
    cove("rm", "-f", box).ok()
    cove("image", "rm", "tiny").ok()
    cove.fails("not_found", "run", "--image", "tiny", "--", "true")


@pytest.mark.parametrize("files", [
    [("../escape", "f", b"x", 0o644)], [("a", "l", "/tmp", 0o777), ("a/planted", "f", b"x", 0o644)],
    [("/etc/absolute-planted", "f", b"x", 0o644)],
])
def test_image_that_tries_to_escape(cove, files):
    # Refused, or unpacked inside its own tree: never a file outside.
    cove("image", "import", "evil", "-", input=image_of(files))
    cove("image", "rm", "evil")
    for path in ("/tmp/planted", "/etc/absolute-planted", cove.home + "/escape", cove.home + "/layers/escape"):
        assert not os.path.exists(path)


def test_image_that_is_not_a_tar(cove):
    cove.fails("invalid", "image", "import", "junk", "-", input=b"not a tar at all" * 1000, rc=125)
    assert "junk" not in cove("image", "ls").text
    cut = image_of([("f", "f", b"x" * 5000, 0o644)])[:1500]
    cove.fails("invalid", "image", "import", "cut", "-", input=cut, rc=125)
    assert [n for n in os.listdir(cove.home + "/layers") if n.startswith(".")] == [] or \
        wait_until(lambda: cove("ls").rc == 0)


def test_image_in_use_is_kept(cove, box):
    name = cove.inspect(box)["image"]
    if name == "host":
        pytest.skip("no base image: the Debian mirror was not reached")
    cove.fails("conflict", "image", "rm", name)
    assert cove("exec", box, "--", "true").rc == 0


def test_uid_of_copied_files_on_the_host(cove, shared, tmp):
    in_box(cove, shared, "echo x > /tmp/mine")
    cove("cp", f"{shared}:/tmp/mine", tmp / "mine").ok()
    assert (tmp / "mine").stat().st_uid == (0 if IS_ROOT else os.geteuid())
