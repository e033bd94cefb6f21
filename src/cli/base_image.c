/*
 * Building an image; see base_image.h.
 *
 * The builder writes a tar to a pipe that libcove unpacks, so nothing is stored twice. Which of the
 * two failed is not always the one that noticed: a builder that ends early makes the tar too short,
 * an import that fails makes the builder's writes fail. So both are waited for before anything is
 * said.
 */
#include "cli/base_image.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#ifndef COVE_LIBEXEC_DIR
#define COVE_LIBEXEC_DIR "/usr/local/libexec/cove"
#endif

#define BUILDER "make-base-image"

/* Exit statuses of the builder that have a remedy of their own. */
enum { BUILDER_NO_MIRROR = 3, BUILDER_NO_PROGRAM = 4, BUILDER_ARGS_MAX = 64 };

static bool try(char *ret, size_t size, const char *dir, const char *sub)
{
	snprintf(ret, size, "%s%s/" BUILDER, dir, sub);
	return access(ret, X_OK) == 0;
}

/* $COVE_LIBEXEC, beside this program as built, as installed, where it was configured to be. */
static bool find_builder(char *ret, size_t size)
{
	const char *dir = getenv("COVE_LIBEXEC");
	char self[400], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (dir && *dir && try(ret, size, dir, ""))
		return true;
	if (n > 0) {
		self[n] = 0;
		slash = strrchr(self, '/');
		if (slash)
			*slash = 0;
		if (try(ret, size, self, "") || try(ret, size, self, "/../libexec/cove"))
			return true;
	}
	return try(ret, size, COVE_LIBEXEC_DIR, "");
}

/* Starts the builder with its stdout in the pipe. */
static int start(const char *path, const char **args, int *ret_fd, pid_t *ret_pid)
{
	char *argv[BUILDER_ARGS_MAX + 2] = {(char *)path};
	posix_spawn_file_actions_t actions;
	int fds[2], r;

	for (size_t i = 0; args[i]; i++) {
		if (i == BUILDER_ARGS_MAX)
			return -E2BIG;
		argv[i + 1] = (char *)args[i];
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY,
						     0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(ret_pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r) {
		close(fds[0]);
		return -r;
	}
	*ret_fd = fds[0];
	return 0;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

static int judge(struct cli *c, const char *name, int status, int imported, struct cove_error *err)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (code == BUILDER_NO_MIRROR)
		return cli_error(
			c, COVE_UNSUPPORTED,
			"the Debian mirror cannot be reached; use `--image host` until it can");
	if (code == BUILDER_NO_PROGRAM)
		return cli_error(c, COVE_UNSUPPORTED,
				 "the image cannot be built here (see above); `--image host` works "
				 "meanwhile");
	if (code == EXIT_USAGE)
		return cli_usage(c, "the image builder did not understand its arguments");
	/* A builder whose tar is no tar, or ends too early, is the one that failed. */
	if (imported < 0 && (code == 0 || err->kind != COVE_INVALID))
		return cli_fail(c, err);
	if (code != 0) {
		/* A whole tar and then a failure: what was imported is not what was asked for. */
		if (imported >= 0)
			(void)cove_image_remove(c->cove, name, NULL);
		return cli_error(c, COVE_INTERNAL, "the image builder failed (see above)");
	}
	cli_note("image '%s' is ready", name);
	return 0;
}

int base_image_make(struct cli *c, const char *name, const char **args)
{
	autoclose int tar_fd = -1;
	struct cove_error err = {0};
	char path[512];
	pid_t pid;
	int r;

	if (!find_builder(path, sizeof(path)))
		return cli_error(c, COVE_UNSUPPORTED,
				 "the helper program '" BUILDER "' is missing; install "
				 "Cove again (make install) or set COVE_LIBEXEC");
	r = cli_open(c);
	if (r)
		return r;
	r = start(path, args, &tar_fd, &pid);
	if (r < 0)
		return cli_error(c, COVE_INTERNAL, "start '%.120s': %s", path, strerror(-r));
	r = cove_image_import(c->cove, name, c->o.image_user, tar_fd, &err);
	fd_close(&tar_fd);
	return judge(c, name, wait_for(pid), r, &err);
}
