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
	struct tap_test t = {"inner", __FILE__, run, NULL};
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

/* As a test finds itself when the runner was started by nohup in a tight corner. */
static void look_at_the_start(void)
{
	mode_t mask = umask(0);
	struct sigaction now;
	sigset_t blocked;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &now) == 0)
			CHECK(now.sa_handler == SIG_DFL);
	CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
	CHECK(sigismember(&blocked, SIGTERM) == 0);
	CHECK_EQ(mask, 022);
	for (int fd = 0; fd <= 2; fd++)
		CHECK(fcntl(fd, F_GETFD) >= 0);
}

TEST(a_test_starts_the_same_however_its_runner_was)
{
	char out[512];
	sigset_t all;

	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	umask(077);
	close(0);
	run_quietly(look_at_the_start, out, sizeof(out));
	CHECK_STR(out, "ok 1 - inner\n");
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
