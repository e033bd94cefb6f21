/* Starts the cove-init named by COVE_INIT for a test; without one the test is skipped. */
#pragma once

#include "tap.h"

#include <fcntl.h>

enum { INHERITED_MAX = 16, INIT_ARGS_MAX = 32 };

/* Descriptors for init from 3 on. */
struct inherited {
	int fd[INHERITED_MAX]; /* borrowed */
	unsigned count;
};

/* in and out become its first two, and are closed here; they may be one. args after the program's
 * name, NULL-terminated. */
static inline pid_t init_spawn(int in, int out, const struct inherited *inherited,
			       const char *const args[])
{
	const char *program = getenv("COVE_INIT");
	char *argv[INIT_ARGS_MAX + 2] = {(char[]){"cove-init"}};
	int away[INHERITED_MAX];
	pid_t pid;

	if (!program)
		SKIP("COVE_INIT is not set");
	for (int i = 0; args[i] && i < INIT_ARGS_MAX; i++)
		argv[i + 1] = (char *)(uintptr_t)args[i];
	signal(SIGPIPE, SIG_IGN);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		/* Out of each other's way first. */
		in = fcntl(in, F_DUPFD_CLOEXEC, 64);
		out = fcntl(out, F_DUPFD_CLOEXEC, 64);
		for (unsigned i = 0; i < inherited->count; i++)
			away[i] = fcntl(inherited->fd[i], F_DUPFD_CLOEXEC, 64);
		dup2(in, 0);
		dup2(out, 1);
		for (unsigned i = 0; i < inherited->count; i++)
			dup2(away[i], 3 + (int)i);
		execv(program, argv);
		_exit(127);
	}
	close(in);
	if (out != in)
		close(out);
	return pid;
}
