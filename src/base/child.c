/* Helper programs; see child.h. */
#include "base/child.h"

#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ;

void child_env(const char *env[CHILD_ENV_MAX + 1], bool with_cove)
{
	static const char *const wanted[] = {
		"COVE_",	 "PATH=",	  "LANG=",	    "SSL_CERT_FILE=",
		"SSL_CERT_DIR=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
	size_t n = 0;

	for (char **v = environ; v && *v && n < CHILD_ENV_MAX; v++) {
		for (size_t i = with_cove ? 0 : 1; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (str_starts(*v, wanted[i])) {
				env[n++] = *v;
				break;
			}
		}
	}
	env[n] = NULL;
}

__attribute__((no_sanitize("address", "undefined"))) void child_reset_signals(uint64_t ignored)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		if (ignored >> (sig - 1) & 1)
			sigaction(sig, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int status_of(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* In the process between: nothing here allocates, another thread may have held the heap's lock. */
static void stand_between(const char *program, char *const argv[], char *const env[],
			  const int fds[3])
{
	posix_spawnattr_t attr;
	sigset_t all, none;
	int status = 0;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* First out of the way of each other. */
	int moved[3];
	for (int i = 0; i < 3; i++)
		moved[i] = fds[i] < 0 ? -1 : dup(fds[i]);
	for (int i = 0; i < 3; i++)
		if (moved[i] >= 0 && dup2(moved[i], i) < 0)
			_exit(127);
	syscall(SYS_close_range, 3u, ~0u, 0u);
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	if (posix_spawnp(&pid, program, NULL, &attr, argv, env) != 0)
		_exit(127);
	/* The program's end of a pipe is to be the last one. */
	syscall(SYS_close_range, 0u, ~0u, 0u);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(127);
	_exit(status_of(status));
}

int child_start(const char *program, char *const argv[], const int fds[3], pid_t *ret_pid)
{
	const char *env[CHILD_ENV_MAX + 1];
	sigset_t all, old;
	long pid;
	int code;

	child_env(env, true);
	/* No handler of the caller's may run in the process between. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	code = errno;
	if (pid == 0)
		stand_between(program, argv, (char *const *)(void *)env, fds);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return -code;
	*ret_pid = (pid_t)pid;
	return 0;
}

int child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return status_of(status);
}
