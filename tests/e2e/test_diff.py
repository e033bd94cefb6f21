"""cove diff: what changed in a box, and between boxes and images."""
import os
import subprocess

import pytest

from conftest import lacks, needs_base, remove_tree


def diff(cove, *args):
    return cove("diff", *args).ok().text.splitlines()


def make(cove, script, *options, user=None):
    name = cove("create", *options).ok().text.strip()
    cove("exec", *(["-u", user] if user else []), name, "--", "sh", "-c", script).ok()
    return name


@pytest.fixture
def work(tmp):
    top = tmp / "work"
    (top / "src").mkdir(parents=True)
    (top / "a.txt").write_text("one\ntwo\nthree\n")
    (top / "src/b.c").write_text("int b;\n")
    (top / "bin").write_bytes(b"\0\1\2" * 100)
    yield top
    remove_tree(top)


def test_nothing_changed(cove):
    name = make(cove, "cat /etc/passwd >/dev/null; touch /tmp/x; rm /tmp/x")
    assert diff(cove, name) == []
    cove("stop", name).ok()
    assert diff(cove, name) == []


@needs_base
def test_added_changed_removed_while_it_runs_and_when_it_does_not(cove, inner_root):
    name = make(cove, "echo x > /tmp/new; mkdir -p /srv/d/e; echo 1 > /srv/d/e/f; echo '#' >> /etc/fstab;"
                "rm /etc/issue; chmod 700 /srv; chown 1000 /opt; ln -s nowhere /tmp/l; touch /etc/motd; rm -rf /mnt;"
                "cp -a /bin/true /tmp/t;"
                "mv /etc/debian_version /etc/moved", user="root")
    want = ["A /etc/moved", "D /etc/debian_version", "D /etc/issue", "M /etc/fstab", "D /mnt", "M /opt", "M /srv",
            "A /srv/d", "A /srv/d/e", "A /srv/d/e/f", "A /tmp/l", "A /tmp/new", "A /tmp/t"]
    assert sorted(diff(cove, name)) == sorted(want)
    cove("stop", name).ok()
    assert sorted(diff(cove, name)) == sorted(want)
    assert diff(cove, name, "/tmp/new", "/srv/d/e") == ["A /srv/d/e", "A /srv/d/e/f", "A /tmp/new"]
    assert diff(cove, "image:base", f"box:{name}", "/etc/fstab") == ["M /etc/fstab"]
    assert diff(cove, name, "image:base", "/tmp/new") == ["D /tmp/new"]
    assert diff(cove, "base", "image:base") == []


def test_touched_and_copied_up_is_no_change(cove):
    name = make(cove, "cd /tmp; echo 1 > f; true")
    cove("exec", name, "--", "sh", "-c", "touch ~; rm /tmp/f; mkdir /tmp/d; rmdir /tmp/d").ok()
    assert diff(cove, name) == []


def test_two_boxes(cove):
    one = make(cove, "echo one > /tmp/f; echo only > /tmp/g")
    two = make(cove, "echo two > /tmp/f; echo more > /tmp/h")
    assert diff(cove, one, two) == ["M /tmp/f", "D /tmp/g", "A /tmp/h"]


def test_text_stat_and_json(cove, work):
    name = make(cove, "sed -i s/two/2/ a.txt; echo new > n; rm src/b.c; printf '\\0\\0' > bin; chmod 755 src",
                "--workspace", work, "--copy")
    text = cove("diff", "--text", name).ok().text
    assert text == ("M /workspace/a.txt\n--- a/workspace/a.txt\n+++ b/workspace/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n"
                    "+2\n three\nM /workspace/bin  (binary)\nA /workspace/n\n--- /dev/null\n+++ b/workspace/n\n"
                    "@@ -0,0 +1 @@\n+new\nD /workspace/src/b.c\n--- a/workspace/src/b.c\n+++ /dev/null\n"
                    "@@ -1 +0,0 @@\n-int b;\n")
    assert cove("diff", "--stat", name).ok().text == (
        "M /workspace/a.txt  +1 -1\nM /workspace/bin  binary 300 B -> 2 B\nA /workspace/n  +1 -0\n"
        "D /workspace/src/b.c  +0 -1\n1 added, 2 changed, 1 removed; lines: +2 -2\n")
    told = cove("diff", "--json", "--text", name).ok().json
    assert (told["added"], told["changed"], told["removed"]) == (1, 2, 1)
    first = told["changes"][0]
    assert first["kind"] == "changed" and first["what"] == ["content"] and first["after"]["size"] == 12
    assert first["text"].startswith("@@ -1,3 +1,3 @@\n")
    assert told["changes"][1]["binary"] is True and told["changes"][2]["before"] is None
    assert diff(cove, "--workspace", name, "/workspace/src") == ["D /workspace/src/b.c"]


def test_a_text_diff_is_a_patch(cove, work, tmp):
    name = make(cove, "seq 1 200 > long; sed -i '/three/d' a.txt; echo x >> src/b.c", "--workspace", work, "--copy")
    patch = cove("diff", "--text", "--workspace", name).ok().out
    done = subprocess.run(["patch", "-p2", "-d", str(work)], input=patch, capture_output=True)
    assert done.returncode == 0, done
    assert (work / "a.txt").read_text() == "one\ntwo\n" and (work / "long").read_text().splitlines()[-1] == "200"


def test_hostile_names_and_files(cove, work, tmp):
    """Nothing that a box writes ends a line, moves the cursor, keeps it waiting or leads elsewhere."""
    (tmp / "secret").write_text("secret")
    name = make(cove, r"""set -e
mkfifo fifo; ln -s /proc/self/environ env; ln -s ../../../../../../etc/shadow shadow; rm src/b.c; rmdir src; ln -s / src
printf x > "$(printf 'a\nD etc')"; printf '\033]0;x\007\033[2J' > esc; printf x > "$(printf '\377\033[2J')"
truncate -s 1T holes; mkdir deep
""", "--workspace", work, "--copy")
    cove("exec", name, "--", "python3", "-c", "import os\nos.chdir('deep')\n"
         "for i in range(60):\n n = '%0100d' % i; os.mkdir(n); os.chdir(n)").ok()
    done = cove("diff", "--text", name).ok()
    lines = done.text.splitlines()
    assert 'A "/workspace/a\\nD etc"' in lines and "D etc" not in lines
    assert 'A "/workspace/\\xff\\x1b[2J"' in lines
    assert "A /workspace/fifo" in lines or lacks("SHARED_FIFOS")
    assert "A /workspace/holes  (too large to be shown)" in lines
    assert "M /workspace/src" in lines and not any("/workspace/src/" in line and "b.c" not in line for line in lines)
    assert any("too long a path" in line for line in lines)
    assert "+/proc/self/environ" in lines and "PATH=" not in done.text and "root:" not in done.text
    told = cove("diff", "--json", name).ok().json
    assert any(c.get("path_base64") for c in told["changes"])


def test_on_a_terminal_control_characters_are_shown(cove, work):
    name = make(cove, r"printf 'plain\t\033[31mred\n' > f", "--workspace", work, "--copy")
    line = " ".join(map(os.fsdecode, cove.argv(["diff", "--text", name])))
    done = subprocess.run(["script", "-qec", line, "/dev/null"], env=cove.env, capture_output=True, timeout=60)
    assert b"+plain\t\\x1b[31mred" in done.stdout and b"\x1b[31m" not in done.stdout


def test_what_cannot_be_compared(cove):
    cove.fails("not_found", "diff", "nonesuch")
    cove.fails("invalid", "diff", "host")
    cove.fails("invalid", "diff", "/etc")
    name = make(cove, "true")
    cove.fails("invalid", "diff", name, "relative", "path")
    cove.fails("invalid", "diff", "--workspace", name)


def test_in_memory(cove):
    name = cove("create", "--storage", "tmpfs").ok().text.strip()
    cove.fails("unsupported", "diff", name)


def test_a_box_is_not_frozen_afterwards(cove):
    name = make(cove, "echo x > /tmp/x")
    for _ in range(3):
        assert diff(cove, name) == ["A /tmp/x"]
        cove("exec", name, "--", "true").ok()


@needs_base
def test_of_a_large_image_only_what_changed_is_read(cove):
    """A file of a layer that both have is never opened: its access time says so."""
    name = make(cove, "echo x > /usr/local/x || echo x > /tmp/x")
    reader = subprocess.run(["strace", "-f", "-qq", "-e", "trace=getdents64,openat2", *cove.argv(["diff", name])],
                            env=cove.env_of_traced(), capture_output=True, timeout=60)
    if reader.returncode != 0:
        pytest.skip("strace does not work here")
    assert reader.stderr.count(b"getdents64(") < 60
