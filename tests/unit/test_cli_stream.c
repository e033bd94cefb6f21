/*
 * The poll loop between a user and a command, against a command that is made of a script.
 *
 * The fake below stands where libcove would: cove_exec_next hands out the script's events while the
 * descriptor is readable, signals and input are recorded.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "cli/signals.h"
#include "cli/stream.h"
#include "tap.h"

#include <fcntl.h>
#include <stdbool.h>

struct cove_box {
	int unused;
};

struct cove_exec {
	int fds[2];
	const struct cove_event *script; /* ends with EXIT */
	size_t at, held; /* events from `held` on wait for a signal or for the end of input */
	int signals[8];
	size_t signal_count;
	char input[64];
	size_t input_len;
	bool input_closed;
	bool echo; /* the user presses Ctrl-C again when the first had no effect */
};

static struct cove_exec *current;
static struct cove_box box;

const char *cove_box_name(const struct cove_box *b)
{
	return "fake";
}

int cove_exec_fd(const struct cove_exec *x)
{
	return x->fds[0];
}

/* Readable for as long as the script may go on. */
static void update(struct cove_exec *x)
{
	char c;

	while (read(x->fds[0], &c, 1) == 1)
		;
	if (x->at < x->held)
		CHECK(write(x->fds[1], "x", 1) == 1);
}

static void release(struct cove_exec *x)
{
	x->held = SIZE_MAX;
	update(x);
}

int cove_exec_next(struct cove_exec *x, int timeout_ms, struct cove_event *ret,
		   struct cove_error *err)
{
	if (x->at >= x->held)
		return 0;
	*ret = x->script[x->at++];
	update(x);
	return 1;
}

size_t cove_exec_input_room(const struct cove_exec *x)
{
	return 3; /* small, so that input comes in pieces */
}

int cove_exec_write(struct cove_exec *x, const void *data, size_t len, struct cove_error *err)
{
	CHECK(len <= 3 && x->input_len + len <= sizeof(x->input));
	memcpy(x->input + x->input_len, data, len);
	x->input_len += len;
	return 0;
}

int cove_exec_close_input(struct cove_exec *x, struct cove_error *err)
{
	x->input_closed = true;
	release(x);
	return 0;
}

int cove_exec_resize(struct cove_exec *x, unsigned rows, unsigned cols, struct cove_error *err)
{
	return 0;
}

int cove_signal(struct cove_box *b, uint64_t exec_id, int sig, struct cove_error *err)
{
	CHECK(b == &box && exec_id == 7);
	CHECK(current->signal_count < 8);
	current->signals[current->signal_count++] = sig;
	if (sig == SIGKILL)
		release(current);
	else if (current->echo)
		raise(sig);
	return 0;
}

#define STARTED                                          \
	{                                                \
		.type = COVE_EVENT_STARTED, .exec_id = 7 \
	}
#define OUT(s)                                                          \
	{                                                               \
		.type = COVE_EVENT_OUT, .data = s, .len = sizeof(s) - 1 \
	}
#define ERR(s)                                                          \
	{                                                               \
		.type = COVE_EVENT_ERR, .data = s, .len = sizeof(s) - 1 \
	}
#define EXITED(n)                                    \
	{                                            \
		.type = COVE_EVENT_EXIT, .result = { \
			.exec_id = 7,                \
			.has_exit = true,            \
			.exit_code = n               \
		}                                    \
	}

static void setup(struct cove_exec *x, const struct cove_event *script, size_t held)
{
	*x = (struct cove_exec){.script = script, .held = held};
	CHECK(pipe2(x->fds, O_CLOEXEC | O_NONBLOCK) == 0);
	current = x;
	signals_at_start(); /* as main does */
	update(x);
}

/* Puts the write end of a pipe where fd was and returns the read end. */
static int catch_output(int fd)
{
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	CHECK(dup2(fds[1], fd) == fd);
	close(fds[1]);
	return fds[0];
}

static size_t read_all(int fd, char *p, size_t n)
{
	ssize_t got;

	CHECK(fd_set_nonblock(fd, true) == 0);
	got = read(fd, p, n);
	return got < 0 ? 0 : (size_t)got;
}

TEST(streams_are_kept_apart_and_exact)
{
	static const struct cove_event script[] = {STARTED, OUT("a\0b\xff"), ERR("warn"), OUT("c"),
						   EXITED(3)};
	int saved = dup(STDOUT_FILENO), out = catch_output(STDOUT_FILENO),
	    err_out = catch_output(STDERR_FILENO);
	struct stream_options options = {0};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;
	char got[64];
	size_t n;

	setup(&x, script, SIZE_MAX);
	n = (size_t)stream_drive(&box, &x, &options, &end, &err);
	CHECK(dup2(saved, STDOUT_FILENO) >= 0);
	CHECK_EQ(n, 0);
	CHECK(end.ended && end.result.has_exit);
	CHECK_EQ(end.result.exit_code, 3);
	CHECK_EQ(end.out_seen, 5);
	CHECK_EQ(end.err_seen, 4);
	CHECK_EQ(read_all(out, got, sizeof(got)), 5);
	CHECK_MEM(got,
		  "a\0b\xff"
		  "c",
		  5);
	CHECK_EQ(read_all(err_out, got, sizeof(got)), 4);
	CHECK_MEM(got, "warn", 4);
}

TEST(collect_keeps_output_and_says_truncated)
{
	static char big[RESULT_INLINE_MAX + 10];
	const struct cove_event script[] = {
		STARTED,
		{.type = COVE_EVENT_OUT, .data = big, .len = sizeof(big)},
		{.type = COVE_EVENT_EXIT, .result = {.exec_id = 7, .out_bytes = sizeof(big)}}};
	struct stream_options options = {.collect = true};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;

	setup(&x, script, SIZE_MAX);
	CHECK_EQ(stream_drive(&box, &x, &options, &end, &err), 0);
	CHECK_EQ(end.result.out_len, RESULT_INLINE_MAX);
	CHECK_EQ(end.result.err_len, 0);
	CHECK(end.result.truncated);
	CHECK_STR(end.result.err_out, "");
	free(end.result.out);
	free(end.result.err_out);
}

TEST(stdin_is_passed_in_pieces_and_closed)
{
	static const struct cove_event script[] = {STARTED, EXITED(0)};
	struct stream_options options = {.input = true};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;
	int in[2];

	CHECK(pipe2(in, O_CLOEXEC) == 0);
	CHECK(write(in[1], "hello world", 11) == 11);
	close(in[1]);
	CHECK(dup2(in[0], STDIN_FILENO) == 0);
	setup(&x, script, 1);
	CHECK_EQ(stream_drive(&box, &x, &options, &end, &err), 0);
	CHECK(x.input_closed);
	CHECK_EQ(x.input_len, 11);
	CHECK_MEM(x.input, "hello world", 11);
}

TEST(a_reader_that_left_ends_the_command_quietly)
{
	static const struct cove_event script[] = {STARTED, OUT("x"), OUT("y"), EXITED(0)};
	int saved = dup(STDOUT_FILENO), out = catch_output(STDOUT_FILENO);
	struct stream_options options = {0};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;
	int r;

	close(out);
	setup(&x, script, 2);
	r = stream_drive(&box, &x, &options, &end, &err);
	CHECK(dup2(saved, STDOUT_FILENO) >= 0);
	CHECK_EQ(r, 0);
	CHECK(end.reader_gone && end.ended);
	CHECK_EQ(x.signal_count, 1);
	CHECK_EQ(x.signals[0], SIGKILL);
}

TEST(a_reader_that_left_a_log_only_ends_the_reading)
{
	static const struct cove_event script[] = {STARTED, OUT("x"), EXITED(0)};
	int saved = dup(STDOUT_FILENO), out = catch_output(STDOUT_FILENO);
	struct stream_options options = {.leave = true};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;
	int r;

	close(out);
	setup(&x, script, 2);
	r = stream_drive(NULL, &x, &options, &end, &err);
	CHECK(dup2(saved, STDOUT_FILENO) >= 0);
	CHECK_EQ(r, 0);
	CHECK(end.reader_gone && !end.ended);
	CHECK_EQ(x.signal_count, 0);
}

/* Handlers are there from the first drive on; a signal raised then waits for the next. */
static void install_handlers(void)
{
	static const struct cove_event script[] = {STARTED, EXITED(0)};
	struct stream_options options = {0};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;

	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	setup(&x, script, SIZE_MAX);
	CHECK_EQ(stream_drive(&box, &x, &options, &end, &err), 0);
}

TEST(the_first_signal_is_passed_on_the_second_kills)
{
	static const struct cove_event script[] = {STARTED, EXITED(0)};
	struct stream_options options = {0};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;

	install_handlers();
	setup(&x, script, 1);
	x.echo = true;
	raise(SIGINT);
	CHECK_EQ(stream_drive(&box, &x, &options, &end, &err), 0);
	CHECK_EQ(x.signal_count, 2);
	CHECK_EQ(x.signals[0], SIGINT);
	CHECK_EQ(x.signals[1], SIGKILL);
	CHECK(end.ended);
}

TEST(before_the_start_a_one_shot_is_left_at_once)
{
	static const struct cove_event script[] = {STARTED, EXITED(0)};
	struct stream_options options = {.one_shot = true};
	struct stream_end end;
	struct cove_exec x;
	struct cove_error err;

	install_handlers();
	setup(&x, script, 0);
	raise(SIGTERM);
	CHECK_EQ(stream_drive(&box, &x, &options, &end, &err), 0);
	CHECK(!end.ended);
	CHECK_EQ(end.left_by, SIGTERM);
	CHECK_EQ(x.signal_count, 0);
}

TAP_MAIN
