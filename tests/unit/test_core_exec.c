/* Commands as libcove drives them, against a scripted keeper; and the JSON of a result. */
#include "core_peer.h"
#include "tap.h"

#include "base/limits.h"

#include <fcntl.h>
#include <poll.h>

#define LINE(text)                                                                      \
	&(struct cove_command)                                                          \
	{                                                                               \
		.size = sizeof(struct cove_command), .line = (text), .shell = "default" \
	}

static void send_started(struct peer *p, uint32_t id, uint64_t exec_id)
{
	CHECK_EQ(wire_started_encode(&p->out, id, 0, &(struct wire_started){.exec_id = exec_id}),
		 0);
}

static void send_exit(struct peer *p, uint32_t id, int code, uint64_t out_bytes)
{
	struct exec_record m = {.exec_id = 7,
				.has_exit = 1,
				.exit_code = (uint64_t)code,
				.cwd = "/tmp",
				.shell_state = SHELL_KEPT,
				.cause = "exit",
				.stdout_bytes = out_bytes,
				.cpu_us = 1001,
				.mem_peak_bytes = 4096,
				.io_read_bytes = 1,
				.io_write_bytes = 2};

	CHECK_EQ(wire_exit_encode(&p->out, id, 0, &m), 0);
}

/* One line that prints, then another; output of the first trickles in late. */
static void two_lines(struct peer *p, void *arg)
{
	uint32_t first = peer_expect(p, WIRE_EXEC).id, second;

	send_started(p, first, 7);
	peer_data(p, first, WIRE_STDOUT, "hello\n", 6);
	peer_data(p, first, WIRE_STDERR, "oops", 4);
	send_exit(p, first, 3, 6);
	peer_flush(p);
	second = peer_expect(p, WIRE_EXEC).id;
	CHECK(second != first);
	CHECK(!p->cancelled); /* EXIT was the end of the first */
	peer_data(p, first, WIRE_STDOUT, "late", 4);
	send_started(p, second, 8);
	peer_data(p, first, WIRE_STDOUT, "later", 5);
	peer_data(p, second, WIRE_STDOUT, "own", 3);
	send_exit(p, second, 0, 3);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(late_output_is_never_mixed_in)
{
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(two_lines, NULL);

	CHECK_EQ(cove_run(box, LINE("echo hello"), &r, &err), 0);
	CHECK_EQ(r.exec_id, 7);
	CHECK(r.has_exit);
	CHECK_EQ(r.exit_code, 3);
	CHECK_STR(r.out, "hello\n");
	CHECK_STR(r.err_out, "oops");
	CHECK_STR(r.cwd, "/tmp");
	CHECK_STR(r.shell, "kept");
	CHECK(r.cpu_us == 1001 && r.mem_peak_bytes == 4096 && r.io_read_bytes == 1 &&
	      r.io_write_bytes == 2);
	cove_result_free(&r);
	CHECK_EQ(cove_run(box, LINE("echo own"), &r, &err), 0);
	CHECK_STR(r.out, "own");
	cove_result_free(&r);
	cove_box_free(box);
}

static void hello_and_a_line(struct peer *p, void *arg)
{
	uint32_t id;

	peer_expect(p, WIRE_HELLO);
	id = peer_expect(p, WIRE_EXEC).id;
	send_started(p, id, 7);
	send_exit(p, id, 0, 0);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

/* What waited on the connection before is sent all the same. */
TEST(a_command_with_too_much_stdin_takes_nothing_else_back)
{
	static char much[WIRE_WINDOW + 1];
	struct cove_command command = {
		.size = sizeof(command), .line = "cat", .input = much, .input_len = sizeof(much)};
	struct cove_exec *x = NULL;
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(hello_and_a_line, NULL);

	CHECK_EQ(cove_exec_start(box, &command, &x, &err), -E2BIG);
	CHECK(!x);
	CHECK_EQ(cove_run(box, LINE("true"), &r, &err), 0);
	cove_result_free(&r);
	cove_box_free(box);
}

/* Sends three windows of output, each only after its credit came. */
static void much_output(struct peer *p, void *arg)
{
	static char block[WIRE_DATA_MAX];
	uint32_t id = peer_expect(p, WIRE_EXEC).id;
	uint64_t left = WIRE_WINDOW, sent = 0;
	struct wire_credit m;
	struct wire_frame f;

	send_started(p, id, 7);
	while (sent < 3 * WIRE_WINDOW) {
		while (left < sizeof(block)) {
			f = peer_expect(p, WIRE_CREDIT);
			CHECK_EQ(wire_credit_decode(&f, &m), 0);
			left += m.bytes;
		}
		peer_data(p, id, WIRE_STDOUT, block, sizeof(block));
		peer_flush(p);
		left -= sizeof(block);
		sent += sizeof(block);
	}
	send_exit(p, id, 0, sent);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(output_beyond_the_cap_is_counted)
{
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(much_output, NULL);

	CHECK_EQ(cove_run(box, LINE("yes"), &r, &err), 0);
	CHECK_EQ(r.out_len, RESULT_INLINE_MAX);
	CHECK_EQ(r.out_bytes, 3 * WIRE_WINDOW);
	CHECK(r.truncated);
	cove_result_free(&r);
	cove_box_free(box);
}

/* Counts what comes on stdin, giving credit for it. */
static void count_input(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_EXEC).id;
	struct wire_credit credit;
	uint64_t total = 0;
	struct wire_frame f;
	char text[32];
	int n;

	send_started(p, id, 7);
	while (total < (uint64_t)(uintptr_t)arg) {
		f = peer_expect(p, WIRE_DATA);
		CHECK_EQ(f.stream, WIRE_STDIN);
		total += f.len;
		credit.bytes = f.len;
		CHECK_EQ(wire_credit_encode(&p->out, id, WIRE_STDIN, &credit), 0);
		peer_flush(p);
	}
	peer_expect(p, WIRE_EOF);
	n = snprintf(text, sizeof(text), "%llu", (unsigned long long)total);
	peer_data(p, id, WIRE_STDOUT, text, (size_t)n);
	send_exit(p, id, 0, (uint64_t)n);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(stdin_larger_than_the_window)
{
	static char input[3 * WIRE_WINDOW + 17];
	struct cove_command c = {
		.size = sizeof(c), .line = "wc -c", .input = input, .input_len = sizeof(input)};
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(count_input, (void *)sizeof(input));
	char want[32];

	CHECK_EQ(cove_run(box, &c, &r, &err), 0);
	snprintf(want, sizeof(want), "%zu", sizeof(input));
	CHECK_STR(r.out, want);
	cove_result_free(&r);
	cove_box_free(box);
}

TEST(streamed_stdin_respects_the_window)
{
	static char input[WIRE_WINDOW];
	struct cove_command c = {.size = sizeof(c), .line = "wc -c", .stream_input = true};
	struct cove_exec *x;
	struct cove_event ev;
	struct cove_error err;
	struct cove_box *box = peer_box(count_input, (void *)(sizeof(input) + 5));
	int r;

	CHECK_EQ(cove_exec_start(box, &c, &x, &err), 0);
	CHECK_EQ(cove_exec_input_room(x), WIRE_WINDOW);
	CHECK_EQ(cove_exec_write(x, input, sizeof(input), &err), 0);
	CHECK_EQ(cove_exec_input_room(x), 0);
	CHECK_EQ(cove_exec_write(x, input, 5, &err), -EAGAIN);
	CHECK_EQ(err.kind, COVE_LIMIT);
	while (cove_exec_input_room(x) < 5) {
		r = cove_exec_next(x, -1, &ev, &err);
		CHECK(r >= 0);
	}
	CHECK_EQ(cove_exec_write(x, input, 5, &err), 0);
	CHECK_EQ(cove_exec_close_input(x, &err), 0);
	do {
		CHECK(cove_exec_next(x, -1, &ev, &err) >= 0);
	} while (ev.type != COVE_EVENT_EXIT);
	CHECK_EQ(cove_exec_next(x, -1, &ev, &err), -EPIPE);
	/* The handle may go first. */
	cove_box_free(box);
	cove_exec_free(x);
}

/* Room for stdin, output and the end come in one piece. */
static void answer_at_once(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_EXEC).id;
	struct wire_credit credit = {.bytes = WIRE_WINDOW};
	uint64_t total = 0;

	while (total < WIRE_WINDOW)
		total += peer_expect(p, WIRE_DATA).len;
	send_started(p, id, 7);
	CHECK_EQ(wire_credit_encode(&p->out, id, WIRE_STDIN, &credit), 0);
	peer_data(p, id, WIRE_STDOUT, "out", 3);
	send_exit(p, id, 0, 3);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

/* Who waits at the descriptor after a 0 would wait for ever for what has been read already. */
TEST(nothing_is_left_inside_when_there_is_nothing)
{
	static char input[WIRE_WINDOW];
	struct cove_command c = {.size = sizeof(c), .line = "cat", .stream_input = true};
	struct cove_event ev = {0};
	struct cove_error err;
	struct cove_exec *x;
	struct cove_box *box = peer_box(answer_at_once, NULL);
	int r = 0;

	CHECK_EQ(cove_exec_start(box, &c, &x, &err), 0);
	CHECK_EQ(cove_exec_write(x, input, sizeof(input), &err), 0);
	while (r >= 0 && ev.type != COVE_EVENT_EXIT) {
		struct pollfd p = {.fd = cove_exec_fd(x), .events = POLLIN};

		CHECK_EQ(poll(&p, 1, 60000), 1);
		while ((r = cove_exec_next(x, 0, &ev, &err)) > 0 && ev.type != COVE_EVENT_EXIT)
			;
	}
	CHECK_EQ(r, 1);
	cove_box_free(box);
	cove_exec_free(x);
}

static void vanish(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_EXEC).id;

	send_started(p, id, 7);
	peer_data(p, id, WIRE_STDOUT, "half", 4);
	peer_flush(p);
}

TEST(a_lost_keeper_is_an_interrupted_command)
{
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(vanish, NULL);

	CHECK(cove_run(box, LINE("make"), &r, &err) < 0);
	CHECK_EQ(err.kind, COVE_INTERRUPTED);
	cove_box_free(box);
}

static void babble(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_EXEC).id;

	if (arg)
		peer_data(p, id, WIRE_STDIN, "x", 1);
	else
		CHECK_EQ(buf_append(&p->out, "\377\377\377\377garbage.....", 16), 0);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(nonsense_is_a_protocol_error)
{
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box;

	for (int i = 0; i < 2; i++) {
		box = peer_box(babble, i ? (void *)"" : NULL);
		CHECK(cove_run(box, LINE("true"), &r, &err) < 0);
		CHECK_EQ(err.kind, COVE_PROTOCOL);
		CHECK(!box->idle); /* nobody asks this one again */
		cove_box_free(box);
	}
}

TEST(bad_commands_are_refused_here)
{
	static const char *const argv[] = {"true", NULL}, *const none[] = {NULL};
	static const struct cove_command bad[] = {
		{.size = sizeof(struct cove_command)},
		{.size = sizeof(struct cove_command), .argv = none},
		{.size = sizeof(struct cove_command), .argv = argv, .line = "true"},
		{.size = sizeof(struct cove_command), .argv = argv, .shell = "default"},
		{.size = sizeof(struct cove_command), .line = "true", .shell = "../x"},
		{.size = sizeof(struct cove_command), .line = "true", .pty = true},
		{.line = "true"},
	};
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(vanish, NULL);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(cove_run(box, &bad[i], &r, &err) < 0);
		CHECK_EQ(err.kind, COVE_INVALID);
	}
	cove_box_free(box);
}

static void older_keeper(struct peer *p, void *arg)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MAX + 1};

	buf_clear(&p->out);
	CHECK_EQ(wire_hello_encode(&p->out, 0, 0, &hello), 0);
	peer_flush(p);
	peer_expect(p, WIRE_EXEC);
}

TEST(another_version_is_said)
{
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(older_keeper, NULL);

	CHECK(cove_run(box, LINE("true"), &r, &err) < 0);
	CHECK_EQ(err.kind, COVE_UNSUPPORTED);
	cove_box_free(box);
}

static void fail_start(struct peer *p, void *arg)
{
	buf_clear(&p->out);
	peer_error(p, 0, ENOSPC, "no room for the box");
	peer_flush(p);
}

TEST(a_failed_start_says_why)
{
	struct cove_result r;
	struct cove_error err;
	struct cove_box *box = peer_box(fail_start, NULL);

	CHECK_EQ(cove_run(box, LINE("true"), &r, &err), -ENOSPC);
	CHECK_STR(err.message, "no room for the box");
	cove_box_free(box);
}

static void meet_limit(struct peer *p, void *arg)
{
	uint32_t id = peer_expect(p, WIRE_EXEC).id;

	send_started(p, id, 7);
	CHECK_EQ(wire_exit_encode(&p->out, id, 0, arg), 0);
	peer_flush(p);
	peer_expect(p, WIRE_SAY);
}

TEST(a_limit_has_a_value_and_a_remedy)
{
	static const struct {
		struct exec_record said;
		const char *limit, *remedy;
	} cases[] = {
		{{.cause = "oom", .limit_value = 64 << 20}, "mem", "--mem 128MiB"},
		{{.cause = "pids", .limit_value = 20}, "pids", "--pids 40"},
		{{.cause = "disk", .limit_value = 3ull << 29}, "disk", "--disk 3GiB;"},
		{{.cause = "ttl", .limit_value = 1000}, "ttl", "--ttl 2s"},
		{{.cause = "idle", .limit_value = 250}, "idle", "--idle 500ms"},
		{{.timed_out = true, .cause = "timeout", .limit_value = 750},
		 "timeout",
		 "--timeout 1500ms, or 0"},
		/* Not known, of an older keeper; and what has no double. */
		{{.cause = "oom"}, "mem", "--mem"},
		{{.cause = "pids", .limit_value = UINT64_MAX}, "pids", "--pids"},
		{{.cause = "exit", .limit_value = 5}, "", ""},
	};
	struct cove_result r;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cove_box *box = peer_box(meet_limit, (void *)(uintptr_t)&cases[i].said);

		CHECK_EQ(cove_run(box, LINE("x"), &r, NULL), 0);
		CHECK_STR(r.limit, cases[i].limit);
		CHECK(strstr(r.remedy, cases[i].remedy));
		CHECK_EQ(r.limit_value, *r.limit ? cases[i].said.limit_value : 0);
		CHECK(*r.limit || !*r.remedy);
		cove_result_free(&r);
		cove_box_free(box);
	}
}

TEST(result_as_json)
{
	struct cove_result r = {.exec_id = 4,
				.has_exit = true,
				.out = (char *)"a\"b",
				.out_len = 3,
				.err_out = (char *)"\377",
				.err_len = 1,
				.out_bytes = 3,
				.err_bytes = 1,
				.cwd = (char *)"/tmp",
				.duration_ms = 5,
				.shell = "kept",
				.cause = "exit"};
	char *json = cove_result_json(&r);

	CHECK_STR(json,
		  "{\"exec_id\":4,\"exit_code\":0,\"signal\":null,\"stdout\":\"a\\\"b\","
		  "\"stderr\":\"\xef\xbf\xbd\",\"stderr_base64\":\"/w==\",\"cwd\":\"/"
		  "tmp\",\"duration_ms\":5,\"timed_out\":false,"
		  "\"oom_killed\":false,\"truncated\":false,\"stdout_bytes\":3,\"stderr_bytes\":1,"
		  "\"shell\":\"kept\",\"cause\":\"exit\",\"limit\":null,\"limit_value\":null,"
		  "\"remedy\":null,\"cpu_ms\":null,\"mem_peak_bytes\":null,"
		  "\"io_read_bytes\":0,\"io_write_bytes\":0,\"denied\":[]}");
	free(json);
	r.has_exit = false;
	r.signal = 9;
	r.oom_killed = true;
	r.cpu_us = 1;
	r.mem_peak_bytes = 4096;
	r.io_read_bytes = 5;
	r.io_write_bytes = 6;
	json = cove_result_json(&r);
	CHECK(strstr(json, "\"exit_code\":null,\"signal\":9,"));
	CHECK(strstr(json, "\"oom_killed\":true,"));
	CHECK(strstr(json, "\"cpu_ms\":1,\"mem_peak_bytes\":4096,\"io_read_bytes\":5,"
			   "\"io_write_bytes\":6,"));
	free(json);
}

TAP_MAIN
