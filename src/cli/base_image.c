/*
 * Building an image; see base_image.h.
 *
 * The builder writes a tar to a pipe that libcove unpacks, so nothing is stored twice. Which of the
 * two failed is not always the one that noticed: a builder that ends early makes the tar too short,
 * an import that fails makes the builder's writes fail. So both are waited for before anything is
 * said.
 *
 * The builder is in a process group of its own: a terminal's Ctrl-C and the signals of a supervisor
 * come to us alone, and we hand the builder one. It ends its build, deletes what it wrote and
 * closes the pipe, upon which the import fails and cleans up too: the usual way out, with the
 * signal's status.
 */
#include "cli/base_image.h"

#include "base/fd.h"
#include "core/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define BUILDER "make-base-image"

/* Exit statuses of the builder that have a remedy of their own. */
enum { BUILDER_NO_MIRROR = 3, BUILDER_NO_PROGRAM = 4, BUILDER_ARGS_MAX = 64 };

/* What a handler can reach. */
static volatile sig_atomic_t builder_pid, ended_by;

static void on_end(int sig)
{
	ended_by = sig;
	if (builder_pid > 0)
		kill((pid_t)builder_pid, SIGTERM);
}

/* What was ignored when we started (nohup) stays ignored. */
static void catch_ends(sigset_t *ret_old)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction old;

		sigaddset(&set, ends[i]);
		sigaction(ends[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaction(ends[i],
				  &(struct sigaction){.sa_handler = on_end, .sa_flags = SA_RESTART},
				  NULL);
	}
	sigprocmask(SIG_BLOCK, &set, ret_old);
}

/* With signals blocked, so that none comes between the start and our knowing its pid. */
static int spawn_grouped(const char *path, char **argv, posix_spawn_file_actions_t *actions,
			 pid_t *ret_pid)
{
	posix_spawnattr_t attr;
	sigset_t old;
	int r = posix_spawnattr_init(&attr);

	if (r)
		return r;
	catch_ends(&old);
	r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	if (r == 0)
		r = posix_spawnattr_setsigmask(&attr, &old);
	if (r == 0)
		r = posix_spawn(ret_pid, path, actions, &attr, argv, environ);
	if (r == 0)
		builder_pid = (sig_atomic_t)*ret_pid;
	sigprocmask(SIG_SETMASK, &old, NULL);
	posix_spawnattr_destroy(&attr);
	return r;
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
		r = spawn_grouped(path, argv, &actions, ret_pid);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r) {
		close(fds[0]);
		return -r;
	}
	*ret_fd = fds[0];
	return 0;
}

static int judge(struct cli *c, const char *name, int status, int imported, struct cove_error *err)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (ended_by && (code != 0 || imported < 0)) {
		cli_note("ended before image '%s' was made; nothing is left of it", name);
		return EXIT_SIGNAL + ended_by;
	}
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
	int r, status = -1;

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
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	builder_pid = 0;
	return judge(c, name, status, r, &err);
}
