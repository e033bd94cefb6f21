"""C programs against the libcove that is installed, as somebody would build one."""
import os
import shutil
import subprocess

import pytest

from programs import DEADLINE


def flags(prefix):
    config = next(prefix.glob("lib/**/pkgconfig/cove.pc"), None)
    assert config, "no cove.pc installed"
    got = subprocess.run(["pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "cove"],
                         capture_output=True, text=True, env={**os.environ, "PKG_CONFIG_PATH": str(config.parent)})
    assert got.returncode == 0, got.stderr
    return got.stdout.split()


def sanitizer_preload(prefix):
    """A plain program that loads a sanitized library needs the sanitizer first."""
    library = next(prefix.glob("lib/**/libcove.so"))
    if b"__asan_init" in library.read_bytes():
        return {"LD_PRELOAD": subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True,
                                             text=True).stdout.strip()}
    return {}


def build(prefix, source, program):
    """A source file, or its text."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    if isinstance(source, str):
        text, source = source, program.with_suffix(".c")
        source.write_text(text)
    made = subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program),
                           *flags(prefix)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return program


# What a server does with keys and the command line does not: create, fork and check with an owner.
OWNED = r"""
#include <cove.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char **args;
static struct cove *cove;

static const char *arg(const char *name)
{
	for (char **a = args; *a; a++)
		if (strncmp(*a, name, strlen(name)) == 0 && (*a)[strlen(name)] == '=')
			return *a + strlen(name) + 1;
	return NULL;
}

static int fail(const struct cove_error *err)
{
	fprintf(stderr, "%s: %s\n", cove_error_name(err->kind), err->message);
	cove_free(cove);
	return 1;
}

int main(int argc, char **argv)
{
	struct cove_error err = {0};
	struct cove_box *box;
	char (*names)[64], text[65536] = "";
	const char *mounts[] = {NULL, NULL}, *roots[] = {NULL, NULL};
	int n;

	args = argv + (argc > 1 ? 2 : 1);
	if (argc < 2 || cove_new(&cove, NULL, &err) < 0)
		return fail(&err);
	if (strcmp(argv[1], "create") == 0) {
		struct cove_box_options o = {.size = sizeof(o), .name = arg("name"), .owner = arg("owner"),
					     .net = arg("net"), .image = arg("image"),
					     .workspace = arg("workspace"), .wall = arg("wall")};

		mounts[0] = arg("mount");
		roots[0] = arg("root");
		o.mounts = mounts[0] ? mounts : NULL;
		o.mount_roots = roots[0] ? roots : NULL;
		if (cove_create(cove, &o, &box, &err) < 0)
			return fail(&err);
		puts(cove_box_name(box));
		cove_box_free(box);
	} else if (strcmp(argv[1], "open") == 0) {
		struct cove_box_options o = {.size = sizeof(o), .owner = arg("owner"), .image = arg("image"),
					     .net = arg("net"), .wall = arg("wall")};

		if (cove_open(cove, "a session", arg("prefix"), &o, &box, &err) < 0)
			return fail(&err);
		puts(cove_box_name(box));
		cove_box_free(box);
	} else if (strcmp(argv[1], "fork") == 0) {
		struct cove_fork_options o = {.size = sizeof(o), .name = arg("name"), .prefix = arg("prefix"),
					      .count = arg("count") ? strtoul(arg("count"), NULL, 10) : 0,
					      .owner = arg("owner")};

		n = cove_fork(cove, arg("source"), &o, &names, &err);
		if (n < 0)
			return fail(&err);
		for (int i = 0; i < n; i++)
			puts(names[i]);
		free(names);
	} else if (strcmp(argv[1], "scopes") == 0) {
		const char *name, *summary;

		for (size_t i = 0; (name = cove_key_scope(i, &summary)); i++)
			printf("%s  %s\n", name, summary);
	} else if (strcmp(argv[1], "check") == 0) {
		size_t len = fread(text, 1, sizeof(text), stdin);

		if (cove_policy_check_of(cove, arg("owner"), "p", text, len, &err) < 0)
			return fail(&err);
	} else {
		return 2;
	}
	cove_free(cove);
	return 0;
}
"""


class Owned:
    """owned("create", name=..., owner=...): what it printed, by word; fails(kind, ...) for an error."""

    def __init__(self, cove, directory):
        self.cove, self.program = cove, build(cove.prefix, OWNED, directory / "owned")

    def run(self, verb, input=None, **args):
        if verb in ("create", "open"):
            args = {**{k: v for k in ("image", "wall") if (v := getattr(self.cove, k))}, **args}
        argv = [str(self.program), verb] + [f"{k}={v}" for k, v in args.items()]
        return subprocess.run(argv, env={**self.cove.env, **sanitizer_preload(self.cove.prefix)}, input=input,
                              capture_output=True, text=True, timeout=DEADLINE)

    def __call__(self, verb, **args):
        got = self.run(verb, **args)
        assert got.returncode == 0, got.stderr
        return got.stdout.split()

    def fails(self, kind, verb, **args):
        got = self.run(verb, **args)
        assert got.returncode == 1 and got.stderr.startswith(kind + ": "), got
        return got.stderr
