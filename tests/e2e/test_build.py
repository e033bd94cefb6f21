"""cove image build: Dockerfiles become images; and image make --add."""
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile

import pytest

from conftest import IS_ROOT, needs_base, needs_flag, wait_until

pytestmark = needs_base


class Builder:
    """A context, and builds of it, each under a name of its own."""

    def __init__(self, cove, tmp):
        self.cove, self.dir, self.made = cove, tmp / "ctx", []
        self.dockerfile = tmp / "Dockerfile.test"
        self.dir.mkdir()

    def file(self, name, text="", mode=0o644):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def run(self, text, *args, name=None):
        self.dockerfile.write_text(text.lstrip("\n"))
        self.made.append(name or f"built-{len(self.made)}")
        return self.cove("image", "build", "-t", self.made[-1], "-f", str(self.dockerfile), "--json", *args,
                         str(self.dir), timeout=300)

    def __call__(self, text, *args, **kw):
        return self.run(text, *args, **kw).ok().json

    def fails(self, kind, text, *args, **kw):
        done = self.run(text, *args, **kw)
        assert done.rc == (124 if kind == "timeout" else 125), done
        assert done.json["error"]["kind"] == kind, done
        self.made.pop()
        return done.json["error"]["message"]

    def start(self, text):
        self.dockerfile.write_text(text)
        child = self.cove.start("image", "build", "--progress", "plain", "-f", str(self.dockerfile), str(self.dir),
                                start_new_session=True)
        for line in child.stderr:
            if line.strip() == b"began":
                return child
        raise AssertionError(child.wait())

    def out(self, line, name=None):
        return self.cove("run", "--image", name or self.made[-1], "--entrypoint", "", "--net", "none", "-u", "root",
                         "-w", "/", "--", "/bin/sh", "-c", line).ok().text

    def config(self, name=None):
        return json.loads(self.cove("image", "inspect", name or self.made[-1]).ok().text)

    def layers(self, name=None):
        """Their trees, bottom first."""
        ids = [layer if isinstance(layer, str) else layer["id"] for layer in self.config(name)["layers"]]
        return [pathlib.Path(self.cove.home, "layers", i, "rootfs") for i in ids]


@pytest.fixture
def build(cove, tmp):
    made = Builder(cove, tmp)
    yield made
    for name in set(made.made):
        cove("image", "rm", name)


def boxes(cove):
    return [name for name in os.listdir(pathlib.Path(cove.home, "boxes")) if name.startswith("build-")]


def half_made(cove):
    return [name for name in os.listdir(pathlib.Path(cove.home, "layers")) if name.startswith(".new-")]


def test_everything_once(build, cove):
    build.file("a.txt", "hello\n")
    build.file("bin/tool", "#!/bin/sh\necho tool $1\n", 0o755)
    result = build("""
ARG BASE=base
FROM $BASE AS one
USER root
WORKDIR /app
COPY a.txt bin ./
RUN cat a.txt > copied && ./tool ran >> copied && id -u >> copied
FROM base
USER root
ENV GREETING="hi there" EMPTY=
LABEL "a b"=c
COPY --from=one --chown=1000:7 --chmod=0640 /app/copied /srv/data/
COPY <<-"X" <<Y /etc/test/
\t$GREETING
\tX
$GREETING
Y
RUN <<E
set -e
echo one > /made
echo "$GREETING" >> /made
E
EXPOSE 80 443/udp
VOLUME /data
STOPSIGNAL SIGINT
WORKDIR /srv/data
USER 1000:7
ENTRYPOINT ["/bin/echo", "from"]
CMD ["the entrypoint"]
""")
    assert result["name"] == build.made[-1] and result["steps"] == 19
    assert build.out("cat /srv/data/copied") == "hello\ntool ran\n0\n"
    assert build.out("stat -c '%a %u %g' /srv/data/copied") == "640 1000 7\n"
    assert build.out("cat /etc/test/X /etc/test/Y /made") == "$GREETING\nhi there\none\nhi there\n"
    assert build.out("ls -d /app 2>&1 || true").startswith("ls: cannot access")
    assert cove("run", "--image", build.made[-1], "--net", "none").ok().text == "from the entrypoint\n"
    text = json.dumps(build.config())
    for word in ("GREETING=hi there", "a b=c", "80/tcp", "443/udp", "/srv/data", "SIGINT"):
        assert word in text, word


def test_cache_is_exact(build):
    build.file("a", "1")
    build.file("b", "1")
    text = """
FROM base
USER root
WORKDIR /w
COPY a /w/a
RUN cat a > a2
COPY b /w/b
ARG V=1
RUN echo $V > v
LABEL x=y
"""
    first = build(text)
    assert first["cached"] == 0
    again = build(text)
    assert again["cached"] == 5 and again["id"] == first["id"]
    os.utime(build.dir / "a", (1, 1))  # a time is no content
    assert build(text)["cached"] == 5
    build.file("b", "2")
    assert build(text)["cached"] == 3
    build.file("b", "1")
    assert build(text)["cached"] == 5
    build.file("b", "1", 0o755)  # a mode is
    assert build(text)["cached"] == 3
    build.file("b", "1", 0o644)
    assert build(text, "--build-arg", "V=2")["cached"] == 4
    assert build.out("cat /w/v") == "2\n"
    assert build(text.replace("LABEL x=y", "LABEL x=z"))["cached"] == 5
    build.file("a", "2")
    assert build(text)["cached"] == 1
    assert build.out("cat /w/a2") == "2"
    assert build(text, "--no-cache")["cached"] == 0


def test_a_cached_layer_that_is_gone_is_made_again(build, cove):
    text = "FROM base\nUSER root\nRUN echo 1 > /one\nRUN echo 2 > /two\n"
    build(text, name="gone")
    trees = build.layers("gone")[1:]
    cove("image", "rm", "gone").ok()
    cove("image", "gc").ok()
    left = sum(tree.exists() for tree in trees)
    assert build(text, name="gone")["cached"] == left
    assert build.out("cat /one /two", "gone") == "1\n2\n"


def test_several_names(build, cove):
    """None of them is dropped without a word."""
    build.file("f", "x")
    build.dockerfile.write_text("FROM base\nCOPY f /several\n")
    args = ("image", "build", "-t", "several:a", "-t", "several:b", "-f", build.dockerfile, build.dir)
    assert cove(*args).ok().text.split() == ["several:a", "several:b"]
    assert json.loads(cove(*args, "--json").ok().text)["names"] == ["several:a", "several:b"]
    ids = {i["name"]: i["id"] for i in json.loads(cove("image", "ls", "--json").ok().text)}
    assert ids["several:a"] == ids["several:b"]
    cove("image", "rm", "several:a", "several:b").ok()


@pytest.mark.parametrize("verb", [("image", "gc"), ("system", "prune")])
def test_the_cache_outlives_housekeeping(build, cove, verb):
    """Also the layers of a stage that is in no image; only prune --all takes those."""
    text = "FROM base AS one\nUSER root\nRUN echo made > /made\nFROM base\nCOPY --from=one /made /copied\n"
    build(text)
    steps = build(text)["cached"]
    assert steps >= 2
    promised = json.loads(cove(*verb, "--dry-run", "--json").ok().text)
    done = json.loads(cove(*verb, "--json").ok().text)
    assert promised["layers"] == done["layers"]
    assert build(text)["cached"] == steps
    rows = {row["what"]: row for row in json.loads(cove("system", "df", "--json").ok().text)}
    assert rows["layers"]["reclaimable_bytes"] == 0


def test_a_step_that_was_made_again_is_what_later_ones_stand_on(build):
    text = "FROM base\nUSER root\nRUN head -c 16 /dev/urandom | od -An -tx1 > /random\nRUN cp /random /copy\n"
    build(text)
    build(text, "--no-cache")
    assert build.out("cmp /random /copy && echo same") == "same\n"
    assert build(text)["cached"] == 2
    assert build.out("cmp /random /copy && echo same") == "same\n"


def test_only_needed_stages_are_built(build):
    text = "FROM base AS bad\nUSER root\nRUN exit 7\nFROM base AS good\nUSER root\nRUN echo good > /made\nFROM bad\n"
    build(text, "--target", "good")
    assert build.out("cat /made") == "good\n"
    assert "line 3" in build.fails("conflict", text)
    build.fails("not_found", text, "--target", "none")


def test_a_stage_on_a_stage(build):
    build("FROM base AS a\nUSER root\nENV X=1\nRUN echo a > /a\nFROM a AS b\nRUN echo $X > /b\n"
          "FROM b\nRUN cat /a /b > /c\n")
    assert build.out("cat /c") == "a\n1\n"
    assert len(build.layers()) == 4


def test_what_two_stages_begin_with_is_made_once(build):
    start = "USER root\nRUN head -c 16 /dev/urandom | od -An -tx1 > /random\n"
    text = f"FROM base AS a\n{start}RUN echo a > /a\nFROM base\n{start}COPY --from=a /random /other\n"
    assert build(text)["cached"] == 1
    assert build.out("cmp /random /other && echo same") == "same\n"
    assert build(text)["cached"] == 4


def test_from_scratch(build):
    build.file("x", "y")
    build("FROM scratch\nCOPY x /d/x\n")
    assert [p.name for p in build.layers()[0].rglob("*")] == ["d", "x"]
    assert "line 2" in build.fails("invalid", "FROM scratch\nRUN true\n")


@pytest.mark.parametrize("text, kind, line", [
    ("FROM base\nRUM x\n", "invalid", 2),
    ("FROM base\n\n# c\nONBUILD RUN true\n", "unsupported", 4),
    ("FROM base\nADD https://example.com/x /x\n", "unsupported", 2),
    ("FROM base\nCOPY nothing /x\n", "not_found", 2),
    ("FROM base\nCOPY no*thing /x\n", "not_found", 2),
    ("FROM base\nCOPY ../x /x\n", "invalid", 2),
    ("FROM base\nCOPY --from=nowhere x /x\n", "not_found", 2),
    ("FROM base\nCOPY --chown=nobody-knows a /x\n", "not_found", 2),
    ("FROM base\nUSER root\nRUN exit 3\n", "conflict", 3),
    ("FROM base\nUSER root\nRUN \\\n echo a &&\\\n exit 3\n", "conflict", 3),
    ("FROM base\nUSER nobody-knows\nRUN true\n", "not_found", 3),
    ("FROM base\nRUN --mount=type=secret,id=x,required true\n", "not_found", 2),
    ("FROM base\nENV A=${B\n", "invalid", 2),
    ("FROM none-of-that-name:1\n", "not_found", 1),
    ("FROM host\nRUN true\n", "unsupported", 1),
    ("FROM --platform=linux/s390x base\n", "unsupported", 1),
])
def test_errors_name_the_line(build, cove, text, kind, line):
    build.file("a", "1")
    assert f"line {line}" in build.fails(kind, text)
    assert not boxes(cove) and not half_made(cove)


def test_a_workdir_that_is_not_there_is_made(build, cove):
    build("FROM base\nUSER root\nWORKDIR /srv/deep/er\nRUN rm -r /srv/deep\nUSER 1000\n")
    args = ("run", "--image", build.made[-1], "--entrypoint", "", "--net", "none")
    script = "pwd; stat -c '%a %u' . ..; touch here"
    assert cove(*args, "--", "sh", "-c", script).ok().text == "/srv/deep/er\n755 1000\n755 1000\n"
    missing = cove(*args, "-w", "/srv/other", "--", "true").refused(125)
    assert "'/srv/other' does not exist" in missing.errors, missing


def test_a_health_check_is_left_out(build, cove):
    build.file("a", "1")
    build.dockerfile.write_text("FROM base\nHEALTHCHECK --interval=5s CMD true\nCOPY a /a\nHEALTHCHECK NONE\n")
    build.made.append("built-h")
    done = cove("image", "build", "-t", "built-h", "-f", str(build.dockerfile), str(build.dir)).ok()
    for line in (2, 4):
        assert f"line {line}: HEALTHCHECK is not used by Cove" in done.errors, done


def test_an_image_that_is_not_there_names_pull(build):
    assert "cove image pull none-of-that-name" in build.fails("not_found", "FROM none-of-that-name\n")


def test_a_stage_that_is_not_there_names_stages(build, cove):
    assert "no stage and no image 'y'" in build.fails("not_found", "FROM base\nCOPY --from=y x /x\n")
    for args in (["rm", "nosuch"], ["tag", "nosuch", "other"]):
        done = cove("image", *args).refused(125)
        assert "cove image ls" in done.errors and "pull" not in done.errors, done


def test_a_failing_command_shows_what_it_printed(build, cove):
    build.dockerfile.write_text("FROM base\nUSER root\nRUN echo before; echo loud >&2; exit 3\n")
    done = cove("image", "build", "-f", str(build.dockerfile), str(build.dir)).refused(125)
    for word in ("[3/3] RUN", "before", "loud", "line 3", "status 3"):
        assert word in done.errors, done


def test_progress_plain_and_quiet(build, cove):
    build.dockerfile.write_text("FROM base\nUSER root\nRUN echo printed\n")
    args = ("image", "build", "-t", "built-p", "-f", str(build.dockerfile), str(build.dir))
    build.made.append("built-p")
    plain = cove(*args, "--progress", "plain", "--no-cache").ok()
    assert "  printed\n" in plain.errors and plain.text == "built-p\n"
    assert "[3/3] CACHED RUN echo printed" in cove(*args).ok().errors
    quiet = cove(*args, "-q").ok()
    assert quiet.err == b"" and quiet.text == "built-p\n"


def test_dockerfile_from_stdin(build, cove):
    done = cove("image", "build", "-", input=b"FROM base\nUSER root\nRUN echo x > /x\n").ok()
    build.made.append(done.text.strip())
    assert build.out("cat /x") == "x\n"


# ---- what is copied ----

def test_dockerignore(build):
    for name in ("keep", "drop.log", "sub/keep", "sub/drop.log", "node_modules/x", "docs/a.txt", "docs/readme.md"):
        build.file(name, name)
    build.file(".dockerignore", "**/*.log\nnode_modules\ndocs\n!docs/*.md\n")
    build("FROM base\nUSER root\nCOPY . /w/\n")
    assert build.out("cd /w && find . -type f | LC_ALL=C sort").split() == [
        "./.dockerignore", "./docs/readme.md", "./keep", "./sub/keep"]
    build.file("../Dockerfile.test.dockerignore", "keep\n")
    build("FROM base\nUSER root\nCOPY . /w/\n")
    assert build.out("cd /w; ls -d drop.log keep 2>&1 | grep -c cannot; ls sub") == "1\ndrop.log\nkeep\n"
    assert "line 2" in build.fails("not_found", "FROM base\nCOPY keep /x\n")


def test_what_is_read_of_a_context_is_a_file_of_it(build, cove):
    """Its writer may be another: nothing outside of it is shown, and nothing is waited for."""
    def told(*args):
        done = cove("image", "build", "--json", *args, str(build.dir), timeout=60)
        assert done.rc == 125, done
        return done.json["error"]["message"]
    secret = build.dir.parent / "secret"
    secret.write_text("SECRET-LINE\n")
    path = build.dir / "Dockerfile"
    for args in (), ("-f", str(path)):
        path.symlink_to(secret)
        assert "SECRET" not in told(*args)
        path.unlink()
        os.mkfifo(path)
        assert "is no file" in told(*args)
        path.unlink()
    build.file("real", "FROM scratch\nCOPY real /real\n")
    path.symlink_to("real")
    cove("image", "build", "-t", "built-link", str(build.dir)).ok()
    cove("image", "rm", "built-link").ok()
    os.mkfifo(build.dir / ".dockerignore")
    assert "is no file" in told()
    # A file that the caller names elsewhere is the caller's.
    (build.dir / ".dockerignore").unlink()
    build.dockerfile.unlink(missing_ok=True)
    build.dockerfile.symlink_to(build.dir / "real")
    cove("image", "build", "-t", "built-link", "-f", str(build.dockerfile), str(build.dir)).ok()
    cove("image", "rm", "built-link").ok()


def test_links_of_the_context_stay_links(build):
    outside = build.dir.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("outside")
    build.file("d/real", "real")
    for name, target in (("d/abs", "/etc/passwd"), ("d/up", "../../outside/secret"), ("d/dir", "../../outside"),
                         ("d/loop", "loop"), ("top", "d/real"), ("toabs", "/d/real"), ("out", "../outside/secret"),
                         ("outdir", str(outside))):
        (build.dir / name).symlink_to(target)
    build("FROM base\nUSER root\nCOPY d /d\nCOPY top /top\nCOPY toabs /toabs\n")
    assert build.out("for i in abs up dir loop; do readlink /d/$i; done") == \
        "/etc/passwd\n../../outside/secret\n../../outside\nloop\n"
    assert build.out("test ! -L /top && cat /top /toabs") == "realreal"
    for source in ("out", "outdir/secret", "outdir"):
        build.fails("not_found", f"FROM base\nCOPY {source} /x\n")


def test_what_no_layer_holds_is_refused(build):
    os.mkfifo(build.dir / "fifo", 0o640)
    os.chmod(build.dir / "fifo", 0o640)
    build("FROM base\nUSER root\nCOPY . /w/\n")
    assert build.out("stat -c '%F %a' /w/fifo") == "fifo 640\n"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(build.dir / "sock"))
    server.close()
    assert "line 2" in build.fails("unsupported", "FROM base\nCOPY . /w/\n")
    (build.dir / "sock").unlink()
    build.file(".wh.x", "")
    assert "line 2" in build.fails("invalid", "FROM base\nCOPY . /w/\n")


def test_odd_names_and_depth(build):
    for name in ("a b", "-n", "new\nline", "\udcff", "\u00fc", "x" * 255, "back\\slash", "*"):
        (build.dir / name).write_text("x")
    deep = build.dir / "deep" / "/".join(["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "end").write_text("end")
    build('FROM base\nUSER root\nCOPY . /w/\nCOPY ["a b", "/x y"]\nCOPY [ab]*c*h /back\n')
    assert build.out("cd /w && find . -maxdepth 1 -printf x | wc -c") == "10\n"
    assert build.out("cat /w/deep" + "/d" * 60 + "/end '/x y' /back") == "endxx"
    for _ in range(300):
        deep = deep / "d"
        deep.mkdir()
    assert "line 2" in build.fails("limit", "FROM base\nCOPY . /w/\n")
    shutil.rmtree(build.dir / "deep")


def test_destinations_lead_where_they_lead_in_a_box(build):
    build.file("f", "f")
    build.file("d/x", "x")
    build("""
FROM base
USER root
RUN mkdir /real && ln -s /real /link && mkdir -m 0700 /private && echo old > /real/x
COPY f /link/
COPY d /link
COPY f /private/
COPY f /new/deep/
COPY f /to
WORKDIR /link/sub
""")
    assert build.out("test -L /link && ls /real && cat /real/f /real/x /new/deep/f /to") == "f\nsub\nx\nfxff"
    assert build.out("stat -c '%a %u' /private /new /new/deep") == "700 0\n755 0\n755 0\n"
    build.fails("invalid", "FROM base\nUSER root\nRUN mkdir -p /x/f\nCOPY f d /x/\n")
    build.fails("invalid", "FROM base\nUSER root\nRUN touch /x\nCOPY d /x/\n")


def test_links_of_an_image_end_at_its_root(build):
    build.file("f", "f")
    name = f"cove-up-{os.getpid()}"
    build(f"FROM base\nUSER root\nRUN ln -s ../../../../../../../../tmp/{name} /up && mkdir -p /tmp/{name}\n"
          f"COPY f /up/f\nFROM base\nUSER root\nCOPY --from=0 /up/f /got\n")
    assert build.out("cat /got") == "f"
    assert not os.path.exists(f"/tmp/{name}")


def make_tar(path, mode, members):
    with tarfile.open(path, mode) as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid, info.gid = len(text), 0o750, 5, 6
            tar.addfile(info, io.BytesIO(text))


def test_add_unpacks_archives(build):
    for suffix, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz"), ("tar.bz2", "w:bz2")):
        make_tar(build.dir / f"a.{suffix}", mode, {f"sub/{suffix}": b"inner"})
    build.file("plain.tar", "no tar at all")
    build("FROM base\nUSER root\nADD a.tar a.tar.gz a.tar.xz a.tar.bz2 plain.tar /w/\nCOPY a.tar /w/as-is.tar\n")
    assert build.out("cd /w/sub && stat -c '%n %a %u %g' *").splitlines() == [
        f"{s} 750 5 6" for s in ("tar", "tar.bz2", "tar.gz", "tar.xz")]
    assert build.out("cat /w/plain.tar; test -f /w/as-is.tar && echo yes") == "no tar at allyes\n"


def test_an_image_of_one_static_program(build, cove):
    """No /etc/passwd, no PATH: root is uid 0 all the same, and $PATH is what a command has."""
    shutil.copy(cove.prefix / "libexec/cove/cove-probe", build.dir / "probe")
    build('FROM scratch\nCOPY probe /p\nENV PATH=/mine:$PATH\nENTRYPOINT ["/p"]\n')
    assert "PATH=/mine:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in build.config()["config"]["env"]
    done = cove("run", "--image", build.made[-1], "--net", "none", "--", "nonsense")
    assert b"no user" not in done.err and done.rc != 125


def test_a_name_that_moves_keeps_the_cache(build):
    build.file("a", "a")
    first, second = "FROM scratch\nCOPY a /one\n", "FROM scratch\nCOPY a /two\n"
    for text in (first, second):
        assert build(text, name="moved")["cached"] == 0
    assert build(first, name="moved")["cached"] == 1


def test_hostile_archive(build):
    with tarfile.open(build.dir / "bad.tar", "w") as tar:
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("l/evil"))
    assert "line 3" in build.fails("invalid", "FROM base\nUSER root\nADD bad.tar /w/\n")


# ---- RUN ----

def test_run_has_user_directory_and_environment(build):
    build("""
FROM base
USER root
RUN useradd -u 4242 -m app
USER app
WORKDIR /home/app
ARG A=arg
ENV E=env
RUN echo "$(id -un) $(pwd) $A $E $HOME" > out
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN [[ -n $BASH_VERSION ]] && echo bash >> out
RUN ["/bin/sh", "-c", "echo $0 json >> out", "zero"]
RUN <<P
#!/usr/bin/env python3
import os
open("out", "a").write("python %d\\n" % os.getuid())
P
USER app:staff
RUN id -gn >> out
""")
    assert build.out("cat /home/app/out").splitlines() == [
        "app /home/app arg env /home/app", "bash", "zero json", "python 4242", "staff"]
    assert build.out("stat -c %U /home/app/out") == "app\n"


def test_removed_files_are_gone(build):
    build("FROM base\nUSER root\nRUN mkdir /d && touch /d/a /d/b\n"
          "RUN rm /d/a && rm -r /usr/share/doc && mkdir /usr/share/doc\n")
    assert build.out("ls /d /usr/share/doc") == "/d:\nb\n\n/usr/share/doc:\n"


def test_nothing_of_coves_own_reaches_a_layer(build):
    build("FROM base\nUSER root\nRUN update-ca-certificates --fresh >/dev/null 2>&1; echo x > /x\n")
    tree = build.layers()[-1]
    listed = subprocess.run(["find", str(tree), "-printf", "%P %l\n"], capture_output=True, text=True).stdout
    assert "\nx \n" in listed
    for word in ("cove", "resolv.conf", "etc/hosts", "etc/hostname", "\nproc", "\ndev", "\nsys"):
        assert word not in listed, (word, listed)
    assert subprocess.run(["grep", "-rlis", "cove", str(tree)], capture_output=True, text=True).stdout == ""
    assert build.out("grep -c BEGIN /etc/ssl/certs/ca-certificates.crt") == \
        build.out("grep -c BEGIN /etc/ssl/certs/ca-certificates.crt", "base")


def test_empty_run_makes_no_layer(build):
    build("FROM base\nUSER root\nRUN true\nRUN echo x > /x\n")
    assert len(build.layers()) == 2


def test_secrets_are_in_no_layer(build, cove):
    value = "s3cr3t" + os.urandom(12).hex()
    secret = build.file("../token", value)
    env = build.cove.env
    env["COVE_TEST_BUILD_SECRET"] = value + "env"
    try:
        build("""
FROM base
USER root
RUN --mount=type=secret,id=tok test -s /run/secrets/tok && ! touch /run/secrets/tok 2>/dev/null && \\
    stat -c '%a %u' /run/secrets/tok > /mode
RUN --mount=type=secret,id=env,target=/root/.netrc,mode=0444 wc -c < /root/.netrc > /len
RUN --mount=type=secret,id=none test ! -e /run/secrets/none
RUN test ! -e /run/secrets && test ! -e /root/.netrc
""", "--secret", f"id=tok,src={secret}", "--secret", "id=env,env=COVE_TEST_BUILD_SECRET")
    finally:
        del env["COVE_TEST_BUILD_SECRET"]
    assert build.out("cat /mode /len").split() == ["400", "0", str(len(value) + 3)]
    assert build.out("ls -d /run/secrets /root/.netrc 2>&1 | grep -c cannot") == "2\n"
    base = build.layers("base")[0]
    found = subprocess.run(["grep", "-rlas", f"--exclude-dir={base.parent.name}", "--exclude-dir=templates", value,
                            cove.home], capture_output=True, text=True)
    assert found.stdout == ""


def test_mounts_are_not_kept(build):
    build.file("req.txt", "six\n")
    build("""
FROM base AS other
USER root
RUN echo other > /o
FROM base
USER root
WORKDIR /w
RUN --mount=type=cache,target=/root/.cache --mount=type=tmpfs,target=/scratch \\
    --mount=type=bind,source=req.txt,target=req.txt --mount=from=other,source=/o,target=/from/o \\
    cat req.txt /from/o > got; touch /root/.cache/x /scratch/y; echo changed > req.txt
""")
    assert build.out("cat /w/got; ls -A /w; ls -d /root/.cache /scratch /from 2>&1 | grep -c cannot") == \
        "six\nother\ngot\n3\n"


def test_network_policy_of_a_build(build):
    text = "FROM base\nUSER root\nRUN --network=none env | grep -c ^HTTP_PROXY > /n; :\n" \
           "RUN env | grep -c ^HTTP_PROXY > /m; :\n"
    build(text)
    assert build.out("cat /n /m") == "0\n1\n"
    build(text, "--net", "closed", "--no-cache")
    assert build.out("cat /n /m") == "0\n0\n"


def test_time_limit_of_a_build(build, cove):
    assert "line 2" in build.fails("timeout", "FROM base\nRUN sleep 1000\n", "--timeout", "200ms")
    assert not boxes(cove)


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_disk_limit_of_a_build(build):
    build.fails("full", "FROM base\nUSER root\nRUN dd if=/dev/zero of=/big bs=1M count=64 status=none\n",
                "--disk", "16M")
    build("FROM base\nUSER root\nRUN echo small > /small && ln /small /hard && rm -r /usr/share/doc\n", "--disk", "64M")
    assert build.out("cat /hard; stat -c %h /hard; ls -d /usr/share/doc 2>&1 | grep -c cannot") == "small\n2\n1\n"


def test_what_a_builds_layers_hold_together_is_bounded(build):
    build.file("big", "x" * (5 << 20))
    two = "FROM scratch\nCOPY big /a\nCOPY big /b\n"
    build.fails("limit", two + "COPY big /c\n", "--disk", "12M")
    build(two, "--disk", "12M")
    # Those of an earlier build count as well, and so do other stages.
    assert "line 4" in build.fails("limit", two + "COPY big /c\n", "--disk", "12M")
    build.fails("limit", two + "FROM scratch\nCOPY --from=0 /a /d\n", "--disk", "12M")
    build.fails("limit", two, "--disk", "9M")


def test_an_archive_is_bounded_before_it_is_unpacked(build):
    for mode in ("w", "w:gz"):
        with tarfile.open(build.dir / "a.tar", mode) as t:
            member = tarfile.TarInfo("zeros")
            member.size = 20 << 20
            t.addfile(member, io.BytesIO(bytes(member.size)))
        build.fails("limit", "FROM scratch\nADD a.tar /\n", "--disk", "12M")


@needs_flag("HOLES")
def test_holes_stay_holes(build):
    with build.file("holes").open("r+") as file:
        file.truncate(48 << 20)
        file.seek(24 << 20)
        file.write("in the middle")
    build("FROM scratch AS one\nCOPY holes /a\nFROM scratch\nCOPY --from=one /a /b\n")
    copied = build.layers()[-1] / "b"
    assert copied.stat().st_blocks * 512 < 1 << 20 and copied.read_bytes() == (build.dir / "holes").read_bytes()


def test_background_processes_end_with_their_step(build):
    build("FROM base\nUSER root\nRUN (while :; do date > /tick; sleep 0.01; done) & sleep 0.1; echo x > /x\n"
          "RUN pgrep sleep > /left; :\n")
    assert build.out("cat /left /x") == "x\n"


# ---- ends ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(build, cove, number):
    child = build.start("FROM base\nUSER root\nRUN echo began; sleep 1000\n")
    child.send_signal(number)
    assert child.wait(60) == 128 + number
    assert not boxes(cove) and not half_made(cove)


def is_open(path):
    """By any process that can be looked at."""
    for link in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(path):
                return True
        except OSError:
            continue
    return False


def test_a_file_of_holes_is_refused_or_interrupted(build, cove):
    """It costs who made it nothing to say that it is large."""
    big = build.file("big")
    os.truncate(big, 4 << 40)
    assert "'big'" in build.fails("limit", "FROM scratch\nCOPY big /a\n")
    os.truncate(big, 200 << 30)
    child = cove.start("image", "build", "-f", str(build.dockerfile), str(build.dir), start_new_session=True)
    wait_until(lambda: is_open(big.resolve()), "the file to be read")
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 128 + signal.SIGTERM
    assert not boxes(cove) and not half_made(cove)
    assert not is_open(big.resolve())


def test_killed(build, cove):
    child = build.start("FROM base\nUSER root\nRUN echo began; sleep 1000\n")
    child.kill()
    child.wait()

    def swept():
        pathlib.Path(cove.home, "run", ".swept").unlink(missing_ok=True)
        cove("ls").ok()
        return not boxes(cove)
    wait_until(swept, "the sweep to remove its box")
    build("FROM base\nUSER root\nRUN echo x > /x\n", "--no-cache")
    cove("image", "gc").ok()
    assert not half_made(cove)


def test_gc_leaves_a_build_alone(build, cove):
    child = build.start("FROM base\nUSER root\nRUN echo one > /one; date +%N > /n\nRUN echo began; sleep 1000\n")
    before = set(os.listdir(pathlib.Path(cove.home, "layers")))
    cove("image", "gc").ok()
    (box,) = boxes(cove)
    mine = [line.split()[1] for line in pathlib.Path(cove.home, "boxes", box, "record").read_text(errors="replace")
            .splitlines() if line.startswith("layer ")]
    assert len(mine) == 2 and set(mine) <= before & set(os.listdir(pathlib.Path(cove.home, "layers")))
    child.send_signal(signal.SIGINT)
    assert child.wait(60) == 130


# ---- image make --add ----

def test_packages_need_a_list(cove):
    assert cove("image", "make", "x", "--from", "base").rc == 2
    assert cove("image", "make", "x", "--add", "a;b").rc == 2
    assert cove("image", "make", "x", "--add=-o").rc == 2


REPOSITORY = """
FROM base
USER root
WORKDIR /repo
RUN mkdir -p p/DEBIAN p/opt && echo tiny > p/opt/tiny && printf '%s\\n' 'Package: tiny' 'Version: 1' \\
    'Architecture: all' 'Maintainer: x <x@example.org>' 'Description: x' > p/DEBIAN/control && \\
    dpkg-deb -b p tiny.deb && \\
    (cat p/DEBIAN/control; echo Filename: ./tiny.deb; echo Size: $(stat -c %s tiny.deb); \\
     echo SHA256: $(sha256sum tiny.deb | cut -d' ' -f1)) > Packages && \\
    rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* && \\
    echo 'deb [trusted=yes] file:/repo ./' > /etc/apt/sources.list
USER user
"""


def test_packages_are_one_more_layer(build, cove):
    build(REPOSITORY, name="with-repo")
    below = build.layers("with-repo")
    build.made.append("with-tiny")
    cove("image", "make", "with-tiny", "--from", "with-repo", "--add", "tiny", "--net", "none").ok()
    assert build.layers("with-tiny")[:-1] == below
    assert build.out("cat /opt/tiny; ls /var/lib/apt/lists", "with-tiny") == "tiny\n"
    assert build.config("with-tiny")["config"]["user"] == "user"
    done = cove("image", "make", "with-none", "--from", "with-repo", "--add", "no-such-package", "--net", "none")
    assert done.rc == 125 and "no-such-package" in done.errors
    assert "with-none" not in cove("image", "ls", "-q").text.split()
