"""libcove: the example against the installed header, and the shape of what is installed."""
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

from conftest import DEADLINE, PREFIX
from embed import build, sanitizer_preload

pytestmark = pytest.mark.once("root")

HERE = pathlib.Path(__file__).resolve().parent


def example():
    for place in (HERE / "../../examples", PREFIX / "share/doc/cove/examples"):
        found = sorted(place.glob("*.c"))
        if found:
            return found[0]
    pytest.fail("no example found")


@pytest.fixture
def built(tmp):
    return build(PREFIX, example(), tmp / "example")


def test_example_runs(cove, built):
    before = cove.names()
    got = subprocess.run([built], env={**cove.env, **sanitizer_preload(PREFIX)}, capture_output=True, text=True,
                         timeout=DEADLINE)
    if cove.image == "host" and got.returncode != 0:
        pytest.skip("no base image: the Debian mirror was not reached")
    assert got.returncode == 0, got.stderr
    assert got.stdout.strip()
    # A program that closed its own descriptors, as daemons do, and ignores what it can.
    argv = ["sh", "-c", "trap '' HUP INT PIPE TERM; exec \"$0\" <&- >&- 2>&-", built]
    assert subprocess.run(argv, env={**cove.env, **sanitizer_preload(PREFIX)}, timeout=DEADLINE).returncode == 0
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
    build(PREFIX, tmp / "v.c", tmp / "v")
    got = subprocess.run([tmp / "v"], env={**cove.env, **sanitizer_preload(PREFIX)}, capture_output=True, text=True)
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


EMBEDDER = r"""#define _GNU_SOURCE
#include <cove.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t heard;
static atomic_bool over;
static atomic_int reaped;

/* A careless host: it reaps whatever there is, in a thread and in its handler. */
static void *reap(void *arg)
{
	for (; !over; usleep(200))
		reaped += waitpid(-1, NULL, WNOHANG) >= 0;
	return arg;
}

static void on_child(int sig)
{
	(void)sig;
	heard++;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* How many of Cove's processes have the secret. */
static int leaks(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	int found = 0, seen = 0;

	while ((d = readdir(dir))) {
		char path[300], name[64] = "", env[65536];
		size_t n = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/comm", d->d_name);
		f = fopen(path, "r");
		if (f) {
			(void)!fgets(name, sizeof(name), f);
			fclose(f);
		}
		if (strncmp(name, "cove-", 5) != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%s/environ", d->d_name);
		f = fopen(path, "r");
		if (f) {
			n = fread(env, 1, sizeof(env), f);
			fclose(f);
		}
		seen++;
		found += memmem(env, n, "EMBEDDER_SECRET", 15) != NULL;
	}
	closedir(dir);
	printf("%d processes looked at\n", seen);
	return seen ? found : 100;
}

#define MUST(what) do { if (!(what)) { printf("%s: %s\n", #what, err.message); return 1; } } while (0)

int main(int argc, char **argv)
{
	struct sigaction set = {.sa_handler = on_child}, now;
	struct cove_error err = {0};
	struct cove *cove;
	struct cove_box *box;
	struct cove_result result;
	struct cove_box_options options = {.size = sizeof(options), .image = argc > 1 ? argv[1] : NULL};
	/* Its connection is the door's first. */
	struct cove_command command = {.size = sizeof(command), .line = "exec 3<>/dev/tcp/192.0.2.1/9; true"};
	/* Files of other ids in directories of theirs: an ordinary user removes them as the box's root. */
	struct cove_command others = {.size = sizeof(others), .user = "root",
				      .line = "mkdir -m 700 /opt/d && touch /opt/d/f"};
	pthread_t thread;
	char *text;

	if (argc > 4)
		set.sa_handler = SIG_IGN;
	sigaction(SIGCHLD, &set, NULL);
	pthread_create(&thread, NULL, reap, NULL);
	MUST(cove_new(&cove, NULL, &err) == 0);
	MUST(cove_image_import(cove, "embedded", NULL, open(argv[2], O_RDONLY), &err) == 0);
	MUST(cove_image_remove(cove, "embedded", &err) == 0);
	MUST(cove_create(cove, &options, &box, &err) == 0);
	MUST(cove_run(box, &command, &result, &err) == 0);
	cove_result_free(&result);
	/* Where there is no root in the box there is no such file. */
	if (cove_run(box, &others, &result, &err) == 0)
		cove_result_free(&result);
	MUST(cove_put(box, argv[2], "/tmp/in", NULL, &err) == 0);
	MUST(cove_get(box, "/tmp/in", argv[3], NULL, &err) == 0);
	MUST(leaks() == 0);
	/* Runs the door's own reader, and hears how it ended. */
	MUST(cove_policy_text(cove, NULL, "balanced", &text, &err) == 0);
	MUST(cove_policy_check(cove, "p", text, strlen(text), &err) == 0);
	free(text);
	MUST(cove_policy_check(cove, "p", "nonsense: [", 11, &err) < 0 && err.kind == COVE_INVALID);
	MUST(cove_stop(cove, cove_box_name(box), "test", 0, &err) == 0);
	MUST(cove_remove(cove, cove_box_name(box), true, &err) == 0);
	cove_box_free(box);
	cove_free(cove);
	over = true;
	pthread_join(thread, NULL);
	MUST(heard == 0);
	MUST(reaped == 0);
	MUST(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	MUST(waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD);
	sigaction(SIGCHLD, NULL, &now);
	MUST(now.sa_handler == set.sa_handler);
	return 0;
}
"""


@pytest.mark.once("both")
@pytest.mark.parametrize("ignored", [False, True])
def test_an_embedding_program_notices_nothing(cove, tmp, ignored):
    """No child, no SIGCHLD, no variable of its own in a helper; nor does it matter what it does with SIGCHLD."""
    build(PREFIX, EMBEDDER, tmp / "e")
    with tarfile.open(tmp / "image.tar", "w") as tar:
        for name, uid in (("bin", 0), ("home", 1000), ("var", 33)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid = tarfile.DIRTYPE, 0o700, uid
            tar.addfile(entry)
    got = subprocess.run([tmp / "e", cove.image or "base", tmp / "image.tar", tmp / "out"] + ["ignore"] * ignored,
                         env={**cove.env, **sanitizer_preload(PREFIX), "EMBEDDER_SECRET": "hunter2"},
                         capture_output=True, text=True, timeout=DEADLINE)
    assert got.returncode == 0, got.stdout + got.stderr
