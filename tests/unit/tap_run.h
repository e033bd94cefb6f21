/* The runner's half of tap.h, which includes it. */
#pragma once

#include "tap.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Kills and reaps whatever the test left. Orphans become our children as their parents go, so this
 * is repeated until there is none. */
static inline void tap_sweep(void)
{
	char pid[16];

	for (;;) {
		FILE *f = fopen("/proc/thread-self/children", "re");
		int n = f ? fscanf(f, "%15s", pid) : 0;

		if (f)
			fclose(f);
		if (n != 1)
			return;
		kill(atoi(pid), SIGKILL);
		waitpid(atoi(pid), NULL, 0);
	}
}

/* Waits through a pidfd, so that no signal of ours can disturb what the test does. */
static inline int tap_wait(pid_t pid, int timeout_s)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	int status = 0, n;

	do {
		n = poll(&p, 1, timeout_s * 1000);
	} while (n < 0 && errno == EINTR);
	if (p.fd >= 0)
		close(p.fd);
	if (n == 0)
		printf("# no end after %d s, killed\n", timeout_s);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	tap_sweep();
	return n == 0 ? SIGKILL : status;
}

static inline void tap_child(const struct tap_test *t)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t->run();
	exit(0); /* not _exit: this is when a leak checker looks */
}

static inline void tap_run_one(const struct tap_test *t, int number)
{
	const char *limit = getenv("TAP_TIMEOUT_S");
	int status;
	pid_t pid;

	tap_state.skip[0] = '\0';
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		tap_child(t);
	if (pid < 0) {
		printf("not ok %d - %s # fork: %s\n", number, t->name, strerror(errno));
		tap_state.failed++;
		return;
	}
	status = tap_wait(pid, limit ? atoi(limit) : 120);
	if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_EXIT_SKIP) {
		printf("ok %d - %s # SKIP %s\n", number, t->name, tap_state.skip);
		return;
	}
	if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	else if (status != 0)
		printf("# exit status %d\n", WEXITSTATUS(status));
	printf("%s %d - %s\n", status == 0 ? "ok" : "not ok", number, t->name);
	tap_state.failed += status != 0;
}

static inline int tap_main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	int count = 0;

	tap_state.skip = mmap(NULL, TAP_SKIP_BYTES, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap_state.skip == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return 1;
	for (const struct tap_test *t = tap_state.first; t; t = t->next) {
		if (only && strcmp(only, "--list") == 0)
			puts(t->name);
		else if (!only || strcmp(only, t->name) == 0)
			tap_run_one(t, ++count);
	}
	if (only && strcmp(only, "--list") == 0)
		return 0;
	printf("1..%d\n", count);
	if (count == 0)
		fprintf(stderr, "no test named '%s'\n", only ? only : "");
	return tap_state.failed > 0 || count == 0;
}
