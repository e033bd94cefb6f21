/*
 * A small test harness that speaks TAP.
 *
 * How it works
 *
 * TEST(name) { ... } registers itself before main. TAP_MAIN, once per file, runs every test in a
 * child of its own: a crash, an exit or a leak is that test's failure and no other's. When the
 * child ended, or did not within TAP_TIMEOUT_S seconds (default 120), everything below the runner
 * is killed; the runner is a subreaper, so not even a daemon outlives its test.
 *
 * The files of one module are one program, in which main is weak: `./unit_base --file buf` runs the
 * tests of test_buf.c, `./unit_base NAME` those of that name; `--list` prints the names.
 *
 * A failed CHECK prints where and what, and ends the test. SKIP ends it too, and says why in the
 * TAP line. In a process that the test itself forked a failed CHECK exits that process with 1: the
 * parent has to look.
 * The state is weak, so that helper files linked into the same test may use CHECK as well.
 */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct tap_test {
	const char *name, *file;
	void (*run)(void);
	struct tap_test *next;
};

struct tap {
	struct tap_test *first, *last;
	char *skip; /* shared between the runner and the test's process */
	int failed;
	void (*at_end)(void); /* a rig says how it is taken down when the test returns */
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

#define TEST(test_name)                                                                           \
	static void tap_run_##test_name(void);                                                    \
	static struct tap_test tap_test_##test_name = {#test_name, __FILE__, tap_run_##test_name, \
						       NULL};                                     \
	__attribute__((constructor)) static void tap_register_##test_name(void)                   \
	{                                                                                         \
		tap_register(&tap_test_##test_name);                                              \
	}                                                                                         \
	static void tap_run_##test_name(void)

/* A test in surroundings that its file or rig makes: the statements call body with what they made.
 * Rigs define their own from it: #define KEEPER_TEST(name) TEST_IN(name, (struct rig *r), ...) */
#define TEST_IN(test_name, params, ...)                    \
	static void tap_body_##test_name params;           \
	TEST(test_name)                                    \
	{                                                  \
		void(*body) params = tap_body_##test_name; \
		__VA_ARGS__                                \
	}                                                  \
	static void tap_body_##test_name params

#include "tap_run.h"

#define TAP_MAIN                                              \
	__attribute__((weak)) int main(int argc, char **argv) \
	{                                                     \
		return tap_main(argc, argv);                  \
	}
