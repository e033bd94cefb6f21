/*
 * A small test harness that speaks TAP.
 *
 * How it works
 *
 * TEST(name) { ... } registers itself before main. TAP_MAIN, once per program, runs every test in a
 * child of its own: a crash, an exit or a leak is that test's failure and nobody else's. The child
 * leads a process group; when it ended, or did not within TAP_TIMEOUT_S seconds (default 120), the
 * whole group is killed, so nothing a test started outlives it. `./test NAME` runs one test in the
 * same way; `./test --list` prints the names.
 *
 * A failed CHECK prints where and what, and ends the test. SKIP ends it too, and says why in the
 * TAP line. In a process that the test itself forked a failed CHECK exits that process with 1: the
 * parent has to look.
 * The state is weak, so that helper files linked into the same test may use CHECK as well.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct tap_test {
	const char *name;
	void (*run)(void);
	struct tap_test *next;
};

struct tap {
	struct tap_test *first, *last;
	char *skip; /* shared between the runner and the test's process */
	int failed;
};

enum { TAP_SKIP_BYTES = 256, TAP_EXIT_SKIP = 77 };

extern struct tap tap_state;
__attribute__((weak)) struct tap tap_state;

static inline void tap_register(struct tap_test *t)
{
	if (tap_state.last)
		tap_state.last->next = t;
	else
		tap_state.first = t;
	tap_state.last = t;
}

/* After a failure the process may be in any state: flush what was printed, run nothing else. */
static inline void tap_leave(int status)
{
	fflush(NULL);
	_exit(status);
}

static inline void tap_check(int ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	printf("# %s:%d: failed: %s\n", file, line, what);
	tap_leave(1);
}

static inline void tap_check_eq(long long a, long long b, const char *what, const char *file,
				int line)
{
	if (a == b)
		return;
	printf("# %s:%d: failed: %s: %lld is not %lld\n", file, line, what, a, b);
	tap_leave(1);
}

static inline void tap_check_str(const char *a, const char *b, const char *what, const char *file,
				 int line)
{
	if (a == b || (a && b && strcmp(a, b) == 0))
		return;
	printf("# %s:%d: failed: %s: \"%s\" is not \"%s\"\n", file, line, what, a ? a : "(null)",
	       b ? b : "(null)");
	tap_leave(1);
}

static inline void tap_skip(const char *reason)
{
	if (tap_state.skip)
		snprintf(tap_state.skip, TAP_SKIP_BYTES, "%s", reason);
	tap_leave(TAP_EXIT_SKIP);
}

#define CHECK(cond) tap_check((cond) ? 1 : 0, #cond, __FILE__, __LINE__)
#define CHECK_EQ(a, b) \
	tap_check_eq((long long)(a), (long long)(b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_STR(a, b)	   tap_check_str((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_MEM(a, b, n) tap_check(memcmp((a), (b), (n)) == 0, #a " == " #b, __FILE__, __LINE__)
#define FAIL(reason)	   tap_check(0, (reason), __FILE__, __LINE__)
#define SKIP(reason)	   tap_skip(reason)

#define TEST(test_name)                                                                        \
	static void tap_run_##test_name(void);                                                 \
	static struct tap_test tap_test_##test_name = {#test_name, tap_run_##test_name, NULL}; \
	__attribute__((constructor)) static void tap_register_##test_name(void)                \
	{                                                                                      \
		tap_register(&tap_test_##test_name);                                           \
	}                                                                                      \
	static void tap_run_##test_name(void)

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
	/* What the test left goes before its own id can be used again. */
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return n == 0 ? SIGKILL : status;
}

static inline void tap_child(const struct tap_test *t)
{
	setpgid(0, 0);
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
	setpgid(pid, pid);
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
	if (tap_state.skip == MAP_FAILED)
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

#define TAP_MAIN                             \
	int main(int argc, char **argv)      \
	{                                    \
		return tap_main(argc, argv); \
	}
