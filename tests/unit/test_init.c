/*
 * cove-init as a keeper sees it: the real program, started as an ordinary process with --single, in
 * this test's own environment. What needs to be PID 1 or root of a box is for the end-to-end tests.
 */
#include "exec_client.h"
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"

#include <fcntl.h>
#include <sys/stat.h>

static const char *const plain[] = {"--single", "--cwd", "/tmp", NULL};

static struct client *start(void)
{
	return client_start(false, plain);
}

static void stop(struct client *c)
{
	CHECK_EQ(client_stop(c), 0);
}

#define INIT_TEST(name) \
	TEST_IN(name, (struct client * c), struct client *made = start(); body(made); stop(made);)

/* argv as a list; the buffer must outlive the message. */
static struct wire_list list_of(struct buf *b, const char *const *items)
{
	buf_init(b, WIRE_CONTROL_MAX);
	for (; *items; items++)
		CHECK_EQ(wire_list_add(b, *items), 0);
	return wire_list_of(b);
}

static struct run *run_argv(struct client *c, const char *const *items)
{
	struct buf b;
	struct wire_exec m = {.argv = list_of(&b, items)};
	struct run *r = run_start(c, &m);

	buf_done(&b);
	return r;
}

static void codes_over(bool pipes)
{
	struct client *c = client_start(pipes, plain);
	struct run *r = run_argv(c, (const char *[]){"true", NULL});

	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK_STR(r->cwd, "/tmp");
	run_wait_eof(c, r);
	r = run_argv(c, (const char *[]){"/bin/false", NULL});
	run_wait(c, r);
	run_check_exit(r, 1);
	run_check_exit(run_finished(c, "exit 3"), 3);
	run_check_exit(run_finished(c, "exit 255"), 255);
	r = run_finished(c, "echo out; echo err >&2; pwd");
	run_check_exit(r, 0);
	CHECK_STR(run_out(r), "out\n/tmp\n");
	CHECK_STR(run_err(r), "err\n");
	CHECK_EQ(r->exit.stdout_bytes, 9);
	CHECK_EQ(r->exit.stderr_bytes, 4);
	stop(c);
}

TEST(codes_over_a_socket)
{
	codes_over(false);
}

TEST(codes_over_two_pipes)
{
	codes_over(true);
}

INIT_TEST(hello_says_what_is_missing)
{
	CHECK(strstr(c->notes, "walk") != NULL);
}

INIT_TEST(signals_are_told_from_codes)
{
	for (int sig = 1; sig <= 15; sig++) {
		char line[32];
		struct run *r;

		if (sig == SIGQUIT || sig == SIGILL || sig == SIGTRAP || sig == SIGABRT ||
		    sig == SIGBUS || sig == SIGFPE || sig == SIGSEGV)
			continue; /* no core files from a test */
		snprintf(line, sizeof(line), "kill -%d $$", sig);
		r = run_finished(c, line);
		CHECK(!r->exit.has_exit);
		CHECK_EQ(r->exit.signal, sig);
		CHECK_STR(r->cause, "signal");
	}
}

INIT_TEST(input_is_empty_unless_given)
{
	struct run *r = run_finished(c, "cat; read x; echo $?; readlink /proc/self/fd/0");

	run_check_exit(r, 0);
	CHECK_STR(run_out(r), "1\n/dev/null\n");
}

INIT_TEST(only_three_descriptors)
{
	struct run *r = run_argv(c, (const char *[]){"ls", "/proc/self/fd", NULL});

	run_wait(c, r);
	CHECK_STR(run_out(r), "0\n1\n2\n3\n"); /* 3 is ls reading the directory */
	r = run_finished(c,
			 "grep -E '^(SigBlk|SigIgn)' /proc/self/status; umask; ps -o sid= -p $$ | "
			 "grep -c $$");
	CHECK_STR(run_out(r), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0022\n1\n");
}

static void every_byte(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i + i / 256);
}

/* 1 MiB of every byte value through cat, against a window of half of that. */
static void echo_over(bool pipes)
{
	static char bytes[1 << 20];
	struct client *c = client_start(pipes, plain);
	struct run *r =
		run_start(c, &(struct wire_exec){.line = "tee /dev/stderr", .has_stdin = 1});

	every_byte(bytes, sizeof(bytes));
	run_send(c, r, bytes, sizeof(bytes));
	run_send_eof(c, r);
	run_wait(c, r);
	run_check_exit(r, 0);
	for (int s = WIRE_STDOUT; s <= WIRE_STDERR; s++) {
		CHECK_EQ(buf_len(&r->out[s]), sizeof(bytes));
		CHECK_MEM(buf_data(&r->out[s]), bytes, sizeof(bytes));
		CHECK_EQ(r->out_at_exit[s], sizeof(bytes));
	}
	CHECK_EQ(r->exit.stdout_bytes, sizeof(bytes));
	CHECK_EQ(r->exit.stderr_bytes, sizeof(bytes));
	stop(c);
}

TEST(a_mebibyte_of_every_byte_over_a_socket)
{
	echo_over(false);
}

TEST(a_mebibyte_of_every_byte_over_pipes)
{
	echo_over(true);
}

INIT_TEST(input_that_is_not_read_is_no_error)
{
	static char bytes[4 << 20];
	struct run *r =
		run_start(c, &(struct wire_exec){.line = "exec <&-; sleep 0.2", .has_stdin = 1});

	run_send(c, r, bytes, sizeof(bytes)); /* would hang if credit did not come back */
	run_wait(c, r);
	run_check_exit(r, 0);
	r = run_start(c, &(struct wire_exec){.line = "sleep 0.1; echo ok", .has_stdin = 1});
	run_send(c, r, "x", 1);
	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK_STR(run_out(r), "ok\n");
}

INIT_TEST(output_waits_for_credit)
{
	struct run *r = run_line(c, "head -c 2000000 /dev/zero");
	struct run *other;

	r->hold_credit = true;
	run_wait_started(c, r);
	while (buf_len(&r->out[WIRE_STDOUT]) < WIRE_WINDOW)
		CHECK(client_pump(c, true));
	other = run_finished(c, "echo others go on");
	CHECK_STR(run_out(other), "others go on\n");
	CHECK_EQ(buf_len(&r->out[WIRE_STDOUT]), WIRE_WINDOW);
	CHECK(!r->over);
	r->hold_credit = false;
	run_credit(c, r, WIRE_STDOUT, WIRE_WINDOW);
	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK_EQ(r->exit.stdout_bytes, 2000000);
	CHECK_EQ(r->out_at_exit[WIRE_STDOUT], 2000000);
}

/* The command ends at once, its last bytes wait in the pipe for credit: EXIT comes after them. */
INIT_TEST(exit_waits_for_what_the_pipe_holds)
{
	struct run *r = run_line(c, "head -c 550000 /dev/zero");

	r->hold_credit = true;
	while (buf_len(&r->out[WIRE_STDOUT]) < WIRE_WINDOW)
		CHECK(client_pump(c, true));
	run_finished(c, "sleep 0.2");
	CHECK(!r->over);
	run_credit(c, r, WIRE_STDOUT, WIRE_WINDOW);
	run_wait(c, r);
	CHECK_EQ(r->exit.stdout_bytes, 550000);
	CHECK_EQ(r->out_at_exit[WIRE_STDOUT], 550000);
}

INIT_TEST(a_window_exactly_filled_is_no_reason_to_wait)
{
	struct run *r = run_line(c, "head -c 524288 /dev/zero");

	r->hold_credit = true;
	run_wait(c, r);
	CHECK_EQ(r->exit.stdout_bytes, WIRE_WINDOW);
}

/* A timeout ends the whole tree, however it was set up, and keeps what was printed. */
INIT_TEST(timeout_ends_the_tree)
{
	struct run *r =
		run_start(c, &(struct wire_exec){
				     .line = "trap '' TERM INT HUP; setsid sleep 1000 & echo $!; "
					     "(trap '' TERM; sleep 1000 & echo $!; wait) & sleep "
					     "0.3; echo last; sleep 1000",
				     .timeout_ms = 800,
			     });
	int first = 0, second = 0;

	run_wait(c, r);
	CHECK_STR(r->cause, "timeout");
	CHECK(r->exit.timed_out);
	CHECK(!r->exit.has_exit);
	CHECK_EQ(r->exit.signal, SIGKILL);
	CHECK(strstr(run_out(r), "last\n") != NULL);
	CHECK_EQ(sscanf(run_out(r), "%d\n%d", &first, &second), 2);
	wait_until_dead(first);
	wait_until_dead(second);
	run_wait_eof(c, r);
}

INIT_TEST(timeout_of_a_spinning_loop_and_of_a_fork_storm)
{
	struct run *r =
		run_start(c, &(struct wire_exec){.line = "while :; do :; done", .timeout_ms = 50});

	run_wait(c, r);
	CHECK_STR(r->cause, "timeout");
	r = run_start(c, &(struct wire_exec){
				 .line = "f() { for i in 1 2 3 4 5 6; do (sleep 0.01; [ $1 -lt 3 ] "
					 "&& f $(($1 + 1)); "
					 "sleep 1000) & done; }; f 0; wait",
				 .timeout_ms = 150,
			 });
	run_wait(c, r);
	CHECK_STR(r->cause, "timeout");
	run_wait_eof(c, r); /* nobody is left to hold the pipes */
	run_check_exit(run_finished(c, "exit 0"), 0);
}

INIT_TEST(a_background_child_may_hold_the_pipes)
{
	struct run *r = run_finished(c, "(sleep 0.3; echo late; echo late2 >&2) & echo now");

	run_check_exit(r, 0);
	CHECK_EQ(r->exit.stdout_bytes, 4);
	CHECK_EQ(r->out_at_exit[WIRE_STDOUT], 4);
	CHECK(!r->eof[WIRE_STDOUT]);
	CHECK_STR(run_out(run_finished(c, "echo next")), "next\n");
	run_wait_eof(c, r);
	CHECK_STR(run_out(r), "now\nlate\n");
	CHECK_STR(run_err(r), "late2\n");
}

INIT_TEST(signals_reach_the_group_and_kill_the_tree)
{
	struct run *r = run_line(
		c, "trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done");

	run_wait_text(c, r, "ready");
	run_signal(c, r, SIGUSR1, false);
	run_wait(c, r);
	run_check_exit(r, 5);
	CHECK_STR(run_out(r), "ready\ngot\n");
	r = run_line(c, "trap '' TERM; setsid sleep 1000 & echo ready $!; sleep 1000");
	run_wait_text(c, r, "\n");
	run_signal(c, r, SIGTERM, true);
	run_wait(c, r);
	CHECK_STR(r->cause, "killed");
	CHECK_EQ(r->exit.signal, SIGKILL);
	wait_until_dead(atoi(run_out(r) + 6));
}

INIT_TEST(each_failure_to_start_has_its_own_words)
{
	struct wire_exec in_nowhere = {.line = "true", .cwd = "/does/not/exist"};
	struct wire_exec as_nobody = {.line = "true", .user = "nobody-at-all"};
	struct run *r = run_argv(c, (const char *[]){"no-such-program", NULL});
	char dir[] = "/tmp/cove-test-init-XXXXXX", path[64];
	const char *one[] = {path, NULL};

	run_wait(c, r);
	CHECK_EQ(r->code, ENOENT);
	r = run_argv(c, (const char *[]){"/no/such/program", NULL});
	run_wait(c, r);
	CHECK_EQ(r->code, ENOENT);
	r = run_start(c, &in_nowhere);
	run_wait(c, r);
	CHECK_EQ(r->code, ENOTDIR);
	r = run_start(c, &as_nobody);
	run_wait(c, r);
	CHECK_EQ(r->code, ESRCH);
	r = run_argv(c, (const char *[]){"/tmp", NULL});
	run_wait(c, r);
	CHECK_EQ(r->code, EISDIR);

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/program", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_EQ(fd_write_full(fd, "#!/no/such/interpreter\n", 23), 0);
	r = run_argv(c, one);
	run_wait(c, r);
	CHECK_EQ(r->code, EACCES);
	CHECK_EQ(fchmod(fd, 0755), 0);
	close(fd);
	r = run_argv(c, one);
	run_wait(c, r);
	CHECK_EQ(r->code, ENOENT);
	CHECK(strstr(r->msg, "interpreter") != NULL);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK_EQ(fd_write_full(fd, "echo no first line\n", 19), 0);
	close(fd);
	r = run_argv(c, one);
	run_wait(c, r);
	CHECK_EQ(r->code, ENOEXEC);
	unlink(path);
	rmdir(dir);
	r = run_start(c, &(struct wire_exec){0});
	run_wait(c, r);
	CHECK_EQ(r->code, EINVAL);
}

TEST(environment_is_merged)
{
	static const char *const args[] = {"--single", "--env", "A=box", "--env", "B=box", NULL};
	struct client *c = client_start(false, args);
	struct buf b;
	struct wire_exec m = {
		.line = "echo $A $B $C $LANG $PATH; env | grep -c ^TERM=; [ \"$HOME\" = \"$PWD\" "
			"-o ! -d \"$HOME\" ] "
			"&& echo home",
		.env = list_of(&b, (const char *[]){"B=request", "C=x=y", "LANG=C", NULL}),
	};
	struct run *r = run_start(c, &m);

	buf_done(&b);
	run_wait(c, r);
	CHECK_STR(run_out(r),
		  "box request x=y C "
		  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n0\nhome\n");
	m = (struct wire_exec){.line = "true",
			       .env = list_of(&b, (const char *[]){"novalue", NULL})};
	r = run_start(c, &m);
	buf_done(&b);
	run_wait(c, r);
	CHECK_EQ(r->code, EINVAL);
	m = (struct wire_exec){.line = "pwd", .cwd = "/usr/bin/.."};
	r = run_start(c, &m);
	run_wait(c, r);
	CHECK_STR(run_out(r), "/usr\n");
	stop(c);
}

TEST(commands_run_as_the_user)
{
	static const char *const args[] = {"--user", "65534:65533", "--cwd", "/", NULL};
	struct client *c;
	struct run *r;

	if (geteuid() != 0)
		SKIP("only root can become another user");
	c = client_start(false, args);
	r = run_finished(c, "id -u; id -g; id -G; grep ^CapEff /proc/self/status");
	CHECK_STR(run_out(r), "65534\n65533\n65533\nCapEff:\t0000000000000000\n");
	r = run_start(c, &(struct wire_exec){.line = "id -u; id -G; echo $HOME", .user = "0:7"});
	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK(strncmp(run_out(r), "0\n7\n/", 5) == 0);
	r = run_start(c, &(struct wire_exec){.line = "stat -c %u $(tty)", .pty = 1});
	run_wait(c, r);
	CHECK_STR(run_out(r), "65534\r\n");
	r = run_start(c, &(struct wire_exec){.line = "pwd", .cwd = "/root/no"});
	run_wait(c, r);
	CHECK(r->code == EACCES || r->code == ENOTDIR);
	stop(c);
}

INIT_TEST(with_one_id_nobody_else_can_be_asked_for)
{
	char other[16];
	struct run *r;

	snprintf(other, sizeof(other), "%u", (unsigned)geteuid() + 1);
	r = run_start(c, &(struct wire_exec){.line = "true", .user = other});
	run_wait(c, r);
	CHECK_EQ(r->code, EPERM);
	snprintf(other, sizeof(other), "%u", (unsigned)geteuid());
	r = run_start(c, &(struct wire_exec){.line = "true", .user = other});
	run_wait(c, r);
	run_check_exit(r, 0);
}

static void resize(struct client *c, struct run *r, uint64_t rows, uint64_t cols)
{
	struct wire_resize m = {.rows = rows, .cols = cols};

	CHECK_EQ(wire_resize_encode(&c->out, r->id, 0, &m), 0);
	client_flush(c);
}

INIT_TEST(terminal_echo_size_and_end)
{
	struct run *r = run_start(c, &(struct wire_exec){
					     .line = "tty >/dev/null && echo tty $TERM; stty size; "
						     "trap 'stty size' WINCH; "
						     "while read x; do echo got $x; done; echo end",
					     .pty = 1,
					     .rows = 30,
					     .cols = 100,
					     .has_stdin = 1,
				     });

	run_wait_text(c, r, "30 100");
	CHECK(strstr(run_out(r), "tty xterm-256color\r\n") != NULL);
	run_send(c, r, "hello\n", 6);
	run_wait_text(c, r, "got hello");
	CHECK(strstr(run_out(r), "hello\r\ngot") != NULL); /* the echo */
	resize(c, r, 50, 120);
	run_send(c, r, "again\n", 6);
	run_wait_text(c, r, "50 120");
	run_send_eof(c, r);
	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK(strstr(run_out(r), "end\r\n") != NULL);
	CHECK(r->eof[WIRE_STDOUT]);
	CHECK_EQ(r->exit.stdout_bytes, buf_len(&r->out[WIRE_STDOUT]));
}

INIT_TEST(terminal_keys_and_hangup)
{
	struct wire_exec m = {
		.line = "trap 'stop=1' INT; echo ready; while [ -z \"$stop\" ]; do sleep 0.02; "
			"done; echo woke; "
			"read x; cat",
		.pty = 1,
		.has_stdin = 1,
	};
	struct run *r = run_start(c, &m);

	run_wait_text(c, r, "ready");
	run_send(c, r, "\x03", 1);
	run_wait_text(c, r, "woke");
	run_send(c, r, "line\npart", 9);
	run_send_eof(c, r); /* after a part of a line: cat gets the part, then the end */
	run_wait(c, r);
	run_check_exit(r, 0);
	m = (struct wire_exec){.line = "sleep 1000 & echo $!", .pty = 1};
	r = run_start(c, &m);
	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK(r->eof[WIRE_STDOUT]);
}

INIT_TEST(orphans_are_reaped_and_no_status_is_stolen)
{
	char path[64], text[4096];
	struct run *r = NULL;

	for (int i = 0; i < 20; i++) {
		for (int j = 0; j < 10; j++)
			r = run_line(c, "(sleep 0.02 & sleep 0.01 &) ; (exit 1) & exit 7");
		run_wait(c, r);
		run_check_exit(r, 7);
	}
	for (uint32_t i = 0; i < c->count; i++) {
		run_wait(c, c->runs[i]);
		run_check_exit(c->runs[i], 7);
		run_wait_eof(c, c->runs[i]);
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)c->pid, (int)c->pid);
	for (;;) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n;

		if (fd < 0)
			SKIP("this kernel does not list children");
		n = read(fd, text, sizeof(text));
		close(fd);
		if (n == 0)
			break;
		poll(NULL, 0, 5);
	}
}

INIT_TEST(three_hundred_at_once)
{
	struct run *all[300];

	for (int i = 0; i < 300; i++)
		all[i] = run_start(
			c, &(struct wire_exec){.line = "read x; echo $x; exit $x", .has_stdin = 1});
	for (int i = 0; i < 300; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%d\n", i % 250);
		run_send(c, all[i], text, strlen(text));
	}
	for (int i = 0; i < 300; i++) {
		run_wait(c, all[i]);
		run_check_exit(all[i], i % 250);
		CHECK_EQ(atoi(run_out(all[i])), i % 250);
	}
}

/* The sum of all windows is many times the link's queue: nobody may fill it. */
INIT_TEST(a_hundred_floods_at_once)
{
	struct run *all[100];

	for (int i = 0; i < 100; i++)
		all[i] = run_line(c, "head -c 600000 /dev/zero; exit 9");
	poll(NULL, 0, 500); /* nobody reads for a while */
	for (int i = 0; i < 100; i++) {
		run_wait(c, all[i]);
		run_check_exit(all[i], 9);
		CHECK_EQ(all[i]->exit.stdout_bytes, 600000);
		CHECK_EQ(all[i]->out_at_exit[WIRE_STDOUT], 600000);
	}
}

INIT_TEST(what_runs_is_bounded_and_what_ended_takes_no_place)
{
	struct run *ended = run_finished(c, "sleep 1000 & exit 1");
	struct run *r = NULL;

	for (unsigned i = 0; i < INIT_EXECS_MAX; i++)
		r = run_argv(c, (const char *[]){"sleep", "1000", NULL});
	run_wait_started(c, r);
	CHECK(r->started);
	CHECK(!ended->eof[WIRE_STDOUT]);
	r = run_argv(c, (const char *[]){"true", NULL});
	run_wait(c, r);
	CHECK_EQ(r->code, EAGAIN);
}

INIT_TEST(late_streams_are_bounded_and_the_oldest_goes_first)
{
	struct run *oldest = run_finished(c, "sleep 1000 &"), *r = NULL;

	for (unsigned i = 0; i < INIT_LATE_MAX; i++) {
		r = run_finished(c, "sleep 1000 &");
		run_check_exit(r, 0);
		if (i + 1 < INIT_LATE_MAX)
			CHECK(!oldest->eof[WIRE_STDOUT]);
	}
	run_wait_eof(c, oldest);
	CHECK(!r->eof[WIRE_STDOUT] && !r->eof[WIRE_STDERR]);
}

TEST(garbage_ends_the_link)
{
	static const char *const garbage[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	};

	for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
		struct client *c = client_start(i % 2, plain);
		struct run *r = run_line(c, "sleep 1000");
		pid_t pid;

		run_wait_started(c, r);
		pid = r->pid;
		client_send(c, garbage[i], strlen(garbage[i]));
		while (client_pump(c, true))
			continue;
		CHECK(client_stop(c) != 0);
		wait_until_dead(pid);
	}
}

/* Frames that are whole but say nonsense: a message that does not decode, a type not for init. */
TEST(nonsense_ends_the_link)
{
	for (int i = 0; i < 3; i++) {
		struct client *c = start();

		CHECK_EQ(wire_encode(&c->out,
				     i == 0   ? WIRE_EXEC
				     : i == 1 ? WIRE_STATUS
					      : WIRE_FILE,
				     0, 7, "\1\2", 2),
			 0);
		client_flush(c);
		while (client_pump(c, true))
			continue;
		CHECK(client_stop(c) != 0);
	}
}

TEST(the_end_of_the_link_ends_everything)
{
	struct client *c = client_start(true, plain);
	struct run *r = run_line(c, "setsid sleep 1000 & echo $!; sleep 1000");
	pid_t pid, daemon;

	run_wait_text(c, r, "\n");
	pid = r->pid;
	daemon = atoi(run_out(r));
	stop(c);
	wait_until_dead(pid);
	wait_until_dead(daemon);
}

INIT_TEST(late_frames_for_nobody_are_dropped)
{
	struct run *r = run_finished(c, "true");

	run_wait_eof(c, r);
	run_send(c, r, "x", 1);
	run_send_eof(c, r);
	run_signal(c, r, SIGKILL, true);
	run_credit(c, r, WIRE_STDOUT, 10);
	run_check_exit(run_finished(c, "true"), 0);
}

TAP_MAIN
