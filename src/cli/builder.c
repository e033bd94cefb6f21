/* Helper programs that build something; see builder.h. */
#include "cli/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUILDER_ARGS_MAX = 64 };

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

int builder_start(const char *path, const char *const *args, int out_fd, pid_t *ret_pid)
{
	char *argv[BUILDER_ARGS_MAX + 2] = {(char *)(uintptr_t)path};
	posix_spawn_file_actions_t actions;
	int r;

	for (size_t i = 0; args[i]; i++) {
		if (i == BUILDER_ARGS_MAX)
			return -E2BIG;
		argv[i + 1] = (char *)(uintptr_t)args[i];
	}
	r = posix_spawn_file_actions_init(&actions);
	if (r)
		return -r;
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (r == 0 && out_fd >= 0)
		r = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	if (r == 0)
		r = spawn_grouped(path, argv, &actions, ret_pid);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int builder_wait(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	builder_pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int builder_ended_by(void)
{
	return ended_by;
}
