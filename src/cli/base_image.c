/*
 * Building an image; see base_image.h.
 *
 * The builder writes a tar to a pipe that libcove unpacks, so nothing is stored twice. Which of the
 * two failed is not always the one that noticed: a builder that ends early makes the tar too short,
 * an import that fails makes the builder's writes fail. So both are waited for before anything is
 * said.
 *
 * One that is ended closes the pipe, upon which the import fails and cleans up too.
 */
#include "cli/base_image.h"

#include "base/fd.h"
#include "cli/builder.h"
#include "core/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#define BUILDER "make-base-image"

/* Starts the builder with its stdout in the pipe. */
static int start(const char *path, const char **args, int *ret_fd, pid_t *ret_pid)
{
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	r = builder_start(path, args, fds[1], ret_pid);
	close(fds[1]);
	if (r < 0) {
		close(fds[0]);
		return r;
	}
	*ret_fd = fds[0];
	return 0;
}

static int judge(struct cli *c, const char *name, int code, int imported, struct cove_error *err)
{
	int ended_by = builder_ended_by();

	if (ended_by && (code != 0 || imported < 0)) {
		cli_note("ended before image '%s' was made; nothing is left of it", name);
		return EXIT_SIGNAL + ended_by;
	}
	if (code == BUILDER_UNREACHABLE)
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
	if (c->o.json)
		return cli_done(c, name, "made", c->events);
	cli_note("image '%s' is ready", name);
	return 0;
}

int base_image_make(struct cli *c, const char *name, const char **args)
{
	autoclose int tar_fd = -1;
	struct cove_error err = {0};
	struct err e = {0};
	char path[512];
	pid_t pid;
	int r;

	if (spawn_find_program(BUILDER, path, sizeof(path), &e) < 0)
		return cli_error(c, (enum cove_error_kind)e.kind, "%s", e.msg);
	r = start(path, args, &tar_fd, &pid);
	if (r < 0)
		return cli_error(c, COVE_INTERNAL, "start '%.120s': %s", path, strerror(-r));
	r = cove_image_import(c->cove, name, c->o.image_user, tar_fd, &err);
	fd_close(&tar_fd);
	/* A tar that is none says that the builder has ended; anything else, that it may. */
	if (r < 0 && err.kind != COVE_INVALID)
		kill(pid, SIGTERM);
	return judge(c, name, builder_wait(pid), r, &err);
}
