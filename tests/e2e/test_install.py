"""`make install`: PREFIX and DESTDIR in either form, and what is installed works from where it is."""
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import DEADLINE, PREFIX
from test_lib import example, sanitizer_preload

pytestmark = pytest.mark.once("root")

TREE = pathlib.Path(__file__).resolve().parents[2]
FAKE = """#!/bin/sh
echo "$(basename "$0") $* DESTDIR=$DESTDIR" >> "$LOG"
case "$1" in setup) mkdir -p "$2/meson-private"; touch "$2/build.ninja"; prefix=;
	for a; do case "$a" in --prefix=*) prefix=${a#--prefix=};; esac; done
	printf 'prefix=%s\\nlibdir=${prefix}/lib\\nName: cove\\nDescription: x\\nVersion: 1\\n' "$prefix" \\
		> "$2/meson-private/cove.pc";; esac
"""


@pytest.fixture
def tree(tmp):
    """The Makefile with programs that only say how they were called."""
    if not shutil.which("make") or not shutil.which("pkg-config"):
        pytest.skip("no make or no pkg-config")
    (tmp / "t/tools").mkdir(parents=True)
    shutil.copy(TREE / "Makefile", tmp / "t/Makefile")
    for place in ("bin/meson", "bin/ninja", "bin/ldconfig", "t/tools/packages"):
        (tmp / place).parent.mkdir(exist_ok=True)
        (tmp / place).write_text(FAKE)
        (tmp / place).chmod(0o755)

    def make(*words, **env):
        shutil.rmtree(tmp / "t/build", ignore_errors=True)
        (tmp / "log").unlink(missing_ok=True)
        got = subprocess.run(["make", *words], cwd=tmp / "t", capture_output=True, text=True, timeout=DEADLINE,
                             env={"PATH": f"{tmp}/bin:{os.environ['PATH']}", "HOME": "/home/me",
                                  "LOG": str(tmp / "log"), **env})
        assert got.returncode == 0, got.stderr
        lines = (tmp / "log").read_text().splitlines()
        setup = next(line for line in lines if line.startswith("meson setup"))
        install = next((line for line in lines if line.startswith("meson install")), "")
        return setup.split("--prefix=")[1].split(" DESTDIR=")[0], install.partition("DESTDIR=")[2], got.stdout
    make.place = tmp / "t"
    return make


def test_prefix_and_destdir_mean_the_same_in_either_form(tree):
    assert tree("install")[:2] == ("/usr/local", "")
    assert tree("install", "PREFIX=/opt/x", "DESTDIR=/stage")[:2] == ("/opt/x", "/stage")
    assert tree("install", PREFIX="/opt/x", DESTDIR="/stage")[:2] == ("/opt/x", "/stage")
    # What is said on the command line wins, a slash more is nothing, a relative place is below the tree.
    assert tree("install", "PREFIX=/opt/y/", PREFIX="/opt/x")[:2] == ("/opt/y", "")
    assert tree("install", "PREFIX=/", "DESTDIR=/s")[:2] == ("/", "/s")
    assert tree("install", "PREFIX=./x", "DESTDIR=stage")[:2] == (f"{tree.place}/./x", f"{tree.place}/stage")
    assert tree("install", "PREFIX=~/x")[0] == "/home/me/x"


def test_install_says_what_the_shell_does_not_find(tree):
    text = tree("install", "PREFIX=/opt/x")[2]
    assert "export PATH=/opt/x/bin:$PATH" in text and "PKG_CONFIG_PATH=/opt/x/lib/pkgconfig" in text
    assert "export" not in tree("install", "PREFIX=/opt/x", "DESTDIR=/stage")[2]


def test_install_without_rights_is_one_line(tree, tmp):
    tree("install", f"PREFIX={tmp}/theirs")
    (tmp / "theirs").mkdir(mode=0o555)
    (tmp / "log").unlink()
    # Root without its capabilities, so that modes hold for it.
    got = subprocess.run(["setpriv", "--inh-caps=-all", "--bounding-set=-all", "make", "install"], cwd=tree.place,
                         capture_output=True, text=True, timeout=DEADLINE,
                         env={"PATH": f"{tmp}/bin:{os.environ['PATH']}", "HOME": "/home/me", "LOG": str(tmp / "log")})
    assert got.returncode and "needs root, or PREFIX=$HOME/.local" in got.stderr.splitlines()[0], got
    assert "meson install" not in (tmp / "log").read_text()


@pytest.mark.once("both")
def test_the_example_runs_from_any_prefix(cove, tmp):
    """Built as its first lines say and started with no variable at all, after the prefix was moved."""
    if not shutil.which("cc") or not shutil.which("pkg-config"):
        pytest.skip("no C compiler or no pkg-config")
    place = tmp / "else where/cove"
    place.parent.mkdir()
    shutil.copytree(PREFIX, place, symlinks=True)
    config = next(place.glob("lib/**/pkgconfig/cove.pc"))
    where = f"--define-variable=prefix={place}".replace(" ", "\\ ")
    flags = subprocess.run(["pkg-config", where, "--cflags", "--libs", "cove"], capture_output=True, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": config.parent})
    assert flags.returncode == 0, flags.stderr
    made = subprocess.run(["sh", "-c", f"cc {example()} {flags.stdout.strip()} -o '{tmp}/hello'"], capture_output=True,
                          text=True)
    assert made.returncode == 0, made.stderr
    env = {k: v for k, v in cove.env.items() if k not in ("COVE_LIBEXEC", "LD_LIBRARY_PATH")}
    got = subprocess.run([tmp / "hello", cove.image or "base"], env={**env, **sanitizer_preload(PREFIX)},
                         capture_output=True,
                         text=True, timeout=DEADLINE)
    assert got.returncode == 0, got.stderr
    assert got.stdout.endswith("bee\nheron\notter\n")
    # So does the program itself.
    assert subprocess.run([place / "bin/cove", "ls", "-q"], env=env, capture_output=True).returncode == 0
