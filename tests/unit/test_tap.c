/* The harness itself: what passes, fails and is skipped, and that nothing outlives a test. */
#include "tap.h"

#include "base/fd.h"

static void fail_check(void)
{
	CHECK_EQ(1, 2);
}

static void fail_crash(void)
{
	raise(SIGKILL);
}

static void skip_it(void)
{
	SKIP("because");
}

/* A child, and a daemon that has left session, group and parent. */
static void leave_children(void)
{
	if (fork() == 0)
		for (;;)
			pause();
	if (fork() == 0) {
		setsid();
		if (fork() == 0)
			for (;;)
				pause();
		_exit(0);
	}
}

static void nothing(void)
{
}

/* Runs one test function under the harness and gives back what it printed. */
static void run_quietly(void (*run)(void), char *ret, size_t size)
{
	struct tap_test t = {"inner", run, NULL};
	ssize_t n;
	int p[2], out;

	CHECK_EQ(pipe(p), 0);
	fflush(stdout);
	out = dup(1);
	dup2(p[1], 1);
	close(p[1]);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	tap_run_one(&t, 1);
	fflush(stdout);
	dup2(out, 1);
	close(out);
	/* End of file here also says that no process of the test is left. */
	n = fd_read_full(p[0], ret, size - 1);
	CHECK(n > 0);
	ret[n] = '\0';
	close(p[0]);
}

TEST(passes)
{
	char out[512];

	run_quietly(nothing, out, sizeof(out));
	CHECK_STR(out, "ok 1 - inner\n");
}

TEST(failed_check_is_reported)
{
	char out[512];

	run_quietly(fail_check, out, sizeof(out));
	CHECK(strstr(out, "1 is not 2"));
	CHECK(strstr(out, "not ok 1 - inner\n"));
}

TEST(crash_is_reported)
{
	char out[512];

	run_quietly(fail_crash, out, sizeof(out));
	CHECK(strstr(out, "# ended by signal 9\nnot ok 1 - inner\n"));
}

TEST(skip_says_why)
{
	char out[512];

	run_quietly(skip_it, out, sizeof(out));
	CHECK_STR(out, "ok 1 - inner # SKIP because\n");
}

TEST(children_do_not_outlive_their_test)
{
	char out[512];

	run_quietly(leave_children, out, sizeof(out));
	CHECK_STR(out, "ok 1 - inner\n");
}

TAP_MAIN
