"""libcove: the example against the installed header, and the shape of what is installed."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import PREFIX

pytestmark = pytest.mark.once("root")

HERE = pathlib.Path(__file__).resolve().parent


def example():
    for place in (HERE / "../../examples", PREFIX / "share/doc/cove/examples"):
        found = sorted(place.glob("*.c"))
        if found:
            return found[0]
    pytest.fail("no example found")


def flags():
    config = next(PREFIX.glob("lib/**/pkgconfig/cove.pc"), None)
    assert config, "no cove.pc installed"
    got = subprocess.run(["pkg-config", f"--define-variable=prefix={PREFIX}", "--cflags", "--libs", "cove"],
                         capture_output=True, text=True, env={**os.environ, "PKG_CONFIG_PATH": str(config.parent)})
    assert got.returncode == 0, got.stderr
    return got.stdout.split()


@pytest.fixture
def built(tmp):
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    made = subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", str(example()), "-o",
                           str(tmp / "example"), *flags()], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return tmp / "example"


def sanitizer_preload():
    """A plain program that loads a sanitized library needs the sanitizer first."""
    library = next(PREFIX.glob("lib/**/libcove.so"))
    if b"__asan_init" in library.read_bytes():
        return {"LD_PRELOAD": subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True,
                                             text=True).stdout.strip()}
    return {}


def test_example_runs(cove, built):
    before = cove.names()
    got = subprocess.run([built], env={**cove.env, **sanitizer_preload()}, capture_output=True, text=True,
                         timeout=60)
    if cove.image == "host" and got.returncode != 0:
        pytest.skip("no base image: the Debian mirror was not reached")
    assert got.returncode == 0, got.stderr
    assert got.stdout.strip()
    # A program that closed its own descriptors, as daemons do, and ignores what it can.
    argv = ["sh", "-c", "trap '' HUP INT PIPE TERM; exec \"$0\" <&- >&- 2>&-", built]
    assert subprocess.run(argv, env={**cove.env, **sanitizer_preload()}, timeout=60).returncode == 0
    assert cove.names() == before


def test_example_is_short():
    assert len(example().read_text().splitlines()) <= 40


def test_version_and_abi_agree(cove, tmp):
    (tmp / "v.c").write_text("""#include <cove.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
	printf("%s %d\\n", cove_version(), cove_abi());
	return strcmp(cove_version(), COVE_VERSION) != 0 || cove_abi() != COVE_ABI;
}
""")
    made = subprocess.run(["gcc", str(tmp / "v.c"), "-o", str(tmp / "v"), *flags()], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    got = subprocess.run([tmp / "v"], env={**cove.env, **sanitizer_preload()}, capture_output=True, text=True)
    assert got.returncode == 0, got.stdout + got.stderr
    assert got.stdout.split()[0] in cove("version").text


def test_header_is_cxx_too(tmp):
    if not shutil.which("g++"):
        pytest.skip("no g++")
    (tmp / "x.cc").write_text("#include <cove.h>\nint main() { return cove_abi() == COVE_ABI ? 0 : 1; }\n")
    made = subprocess.run(["g++", "-fsyntax-only", f"-I{PREFIX}/include", str(tmp / "x.cc")], capture_output=True,
                          text=True)
    assert made.returncode == 0, made.stderr


def test_only_the_public_names_are_exported():
    library = next(PREFIX.glob("lib/**/libcove.so"))
    got = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True)
    names = [line.split()[-1].split("@")[0] for line in got.stdout.splitlines()]
    ours = [n for n in names if not re.match(r"_|asan|ubsan", n)]
    assert ours and all(n.startswith("cove_") for n in ours), ours


def test_soname_has_the_abi():
    library = next(PREFIX.glob("lib/**/libcove.so"))
    got = subprocess.run(["objdump", "-p", str(library)], capture_output=True, text=True)
    assert re.search(r"SONAME\s+libcove\.so\.\d+", got.stdout)


def test_fast_path_links_libc_only(cove):
    for program in (PREFIX / "bin/cove", PREFIX / "libexec/cove/cove-keeper", PREFIX / "libexec/cove/cove-init"):
        got = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
        names = [line.split()[0] for line in got.stdout.splitlines() if "=>" in line]
        allowed = re.compile(r"(libc|libcove|linux-vdso|libasan|libubsan|libm|libgcc_s|libstdc\+\+)\.so.*")
        assert all(allowed.match(n) for n in names), (program, names)
