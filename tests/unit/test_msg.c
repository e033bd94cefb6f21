/* Control messages: what is encoded is decoded, and what nobody would encode is refused. */
#include "tap.h"

#include "wire/msg.h"

#include "base/json.h"
#include "base/limits.h"
#include "wire/field.h"

static struct buf wire;

static struct wire_frame frame(void)
{
	static struct wire_decoder d;
	struct wire_frame f;
	size_t room;
	uint8_t *p;

	wire_decoder_done(&d);
	wire_decoder_init(&d);
	for (size_t at = 0; at < buf_len(&wire);) {
		size_t now = buf_len(&wire) - at;

		p = wire_decoder_space(&d, &room);
		now = now < room ? now : room;
		memcpy(p, buf_data(&wire) + at, now);
		wire_decoder_fill(&d, now);
		at += now;
	}
	CHECK_EQ(wire_decoder_next(&d, &f), 1);
	return f;
}

TEST(exec_round_trip)
{
	struct buf argv, env;
	struct wire_exec m, got;
	struct wire_frame f;
	uint32_t pos = 0;

	buf_init(&wire, 4096);
	buf_init(&argv, 4096);
	buf_init(&env, 4096);
	CHECK_EQ(wire_list_add(&argv, "ls"), 0);
	CHECK_EQ(wire_list_add(&argv, ""), 0);
	CHECK_EQ(wire_list_add(&argv, "a b"), 0);
	m = (struct wire_exec){
		.argv = wire_list_of(&argv),
		.env = wire_list_of(&env),
		.cwd = "/tmp",
		.user = "",
		.timeout_ms = UINT64_MAX,
		.pty = 1,
		.rows = 24,
		.cols = 80,
		.grace_ms = UINT64_MAX,
	};
	CHECK_EQ(wire_exec_encode(&wire, 77, 2, &m), 0);
	f = frame();
	CHECK_EQ(f.id, 77);
	CHECK_EQ(f.stream, 2);
	CHECK_EQ(wire_exec_decode(&f, &got), 0);
	CHECK_EQ(got.argv.count, 3);
	CHECK_STR(wire_list_next(&got.argv, &pos), "ls");
	CHECK_STR(wire_list_next(&got.argv, &pos), "");
	CHECK_STR(wire_list_next(&got.argv, &pos), "a b");
	CHECK(wire_list_next(&got.argv, &pos) == NULL);
	CHECK_EQ(got.env.count, 0);
	CHECK_STR(got.cwd, "/tmp");
	CHECK_STR(got.user, "");
	CHECK(got.line == NULL);
	CHECK(got.shell == NULL);
	CHECK(got.timeout_ms == UINT64_MAX && got.grace_ms == UINT64_MAX);
	CHECK_EQ(got.cols, 80);
	CHECK_EQ(got.has_stdin, 0);
	buf_done(&wire);
	buf_done(&argv);
	buf_done(&env);
}

TEST(entry_round_trip)
{
	struct wire_entry m = {.type = 'l',
			       .path = "a/b",
			       .target = "../c",
			       .mode = 0777,
			       .size = 3,
			       .mtime_ns = 1,
			       .uid = 1000,
			       .gid = 1001},
			  got;
	struct wire_frame f;

	buf_init(&wire, 4096);
	CHECK_EQ(wire_entry_encode(&wire, 1, 0, &m), 0);
	f = frame();
	CHECK_EQ(wire_entry_decode(&f, &got), 0);
	CHECK_EQ(got.type, 'l');
	CHECK_STR(got.path, "a/b");
	CHECK_STR(got.target, "../c");
	CHECK_EQ(got.gid, 1001);
	buf_done(&wire);
}

static int decode_error(const void *p, size_t n)
{
	struct wire_frame f = {.type = WIRE_ERROR, .payload = p, .len = (uint32_t)n};
	struct wire_error m;

	return wire_error_decode(&f, &m);
}

TEST(broken_fields_are_refused)
{
	/* kind is tag 1, code 2, msg 3 */
	CHECK_EQ(decode_error("", 0), 0);
	CHECK_EQ(decode_error("\1\10\0\0\0\1\0\0\0\0\0\0\0", 13), 0);
	CHECK_EQ(decode_error("\1\10\0\0\0\1\0\0\0\0\0\0", 12), -EBADMSG); /* cut */
	CHECK_EQ(decode_error("\1\7\0\0\0\1\0\0\0\0\0\0", 12), -EBADMSG);  /* not 8 bytes */
	CHECK_EQ(decode_error("\1\10\0\0", 4), -EBADMSG);		   /* half a head */
	CHECK_EQ(decode_error("\0\0\0\0\0", 5), -EBADMSG);		   /* tag 0 */
	CHECK_EQ(decode_error("\3\2\0\0\0a\0", 7), 0);
	CHECK_EQ(decode_error("\3\2\0\0\0ab", 7), -EBADMSG);		    /* no NUL */
	CHECK_EQ(decode_error("\3\3\0\0\0a\0\0", 8), -EBADMSG);		    /* two */
	CHECK_EQ(decode_error("\3\0\0\0\0", 5), -EBADMSG);		    /* none at all */
	CHECK_EQ(decode_error("\3\2\0\0\0a\0\3\2\0\0\0b\0", 14), -EBADMSG); /* twice */
	CHECK_EQ(decode_error("\3\377\377\377\377a\0", 7), -EBADMSG);
	CHECK_EQ(decode_error("\100\1\0\0\0x\3\2\0\0\0a\0", 13), 0); /* unknown: skipped */
}

TEST(a_wrong_type_is_refused)
{
	struct wire_frame f = {.type = WIRE_OK};
	struct wire_hello m;

	CHECK_EQ(wire_hello_decode(&f, &m), -EBADMSG);
}

TEST(lists_end_with_nul)
{
	struct wire_frame f = {
		.type = WIRE_EXEC, .payload = (const uint8_t *)"\1\2\0\0\0ab", .len = 7};
	struct wire_exec m;

	CHECK_EQ(wire_exec_decode(&f, &m), -EBADMSG);
	f.payload = (const uint8_t *)"\1\2\0\0\0a\0";
	CHECK_EQ(wire_exec_decode(&f, &m), 0);
	CHECK_EQ(m.argv.count, 1);
}

TEST(a_table_prints_itself_as_json)
{
	/* clang-format off */
	static const struct wire_named_field fields[] = {
		FIELD_ALWAYS(wire_door_status, running), FIELD_NAMED(wire_door_status, policy),
		FIELD_ALWAYS(wire_door_status, trouble), FIELD_NAMED(wire_door_status, asks),
		FIELD_ALWAYS(wire_door_status, bytes_up), {0}};
	/* clang-format on */
	struct json j;

	buf_init(&wire, 1 << 16);
	json_init(&j, &wire);
	json_object_begin(&j);
	wire_fields_json(&j, fields,
			 &(struct wire_door_status){.policy = "a\"}", .bytes_up = UINT64_MAX});
	json_object_end(&j);
	CHECK_STR(buf_cstr(&wire), "{\"running\":false,\"policy\":\"a\\\"}\",\"trouble\":null,"
				   "\"bytes_up\":18446744073709551615}");
	buf_done(&wire);
}

/* What is not known is null, whatever says so; an empty text that is always there is "". */
TEST(a_table_tells_what_is_not_known)
{
	/* clang-format off */
	static const struct wire_named_field fields[] = {
		FIELD_ALWAYS(exec_record, command), FIELD_KNOWN(exec_record, shell),
		FIELD_KNOWN(exec_record, pid), FIELD_COUNTED(exec_record, io_read_bytes),
		FIELD_IF(exec_record, exit_code, has_exit),
		FIELD_SHOWN(exec_record, "cpu_ms", cpu_us, US_AS_MS), {0}};
	/* clang-format on */
	static const struct {
		struct exec_record of;
		const char *json;
	} cases[] = {
		{{.io_read_bytes = WIRE_UNKNOWN, .exit_code = 7},
		 "{\"command\":\"\",\"shell\":null,\"pid\":null,\"io_read_bytes\":null,"
		 "\"exit_code\":null,\"cpu_ms\":null}"},
		{{.has_exit = true, .cpu_us = 1, .pid = 5, .shell = "a", .command = "b"},
		 "{\"command\":\"b\",\"shell\":\"a\",\"pid\":5,\"io_read_bytes\":0,"
		 "\"exit_code\":0,\"cpu_ms\":1}"},
	};

	for (size_t i = 0; i < 2; i++) {
		struct json j;

		buf_init(&wire, 1 << 16);
		json_init(&j, &wire);
		json_object_begin(&j);
		wire_fields_json(&j, fields, &cases[i].of);
		json_object_end(&j);
		CHECK_STR(buf_cstr(&wire), cases[i].json);
		buf_done(&wire);
	}
}

TEST(too_large_or_no_room_changes_nothing)
{
	char *line = malloc(WIRE_CONTROL_MAX + 1);
	struct wire_exec m = {.line = line};

	memset(line, 'x', WIRE_CONTROL_MAX);
	line[WIRE_CONTROL_MAX] = '\0';
	buf_init(&wire, 4 << 20);
	CHECK_EQ(wire_exec_encode(&wire, 1, 0, &m), -EMSGSIZE);
	CHECK_EQ(buf_len(&wire), 0);
	line[200 << 10] = '\0';
	CHECK_EQ(wire_exec_encode(&wire, 1, 0, &m), 0);
	buf_done(&wire);
	buf_init(&wire, 100 << 10);
	CHECK_EQ(wire_exec_encode(&wire, 1, 0, &m), -ENOBUFS);
	CHECK_EQ(buf_len(&wire), 0);
	buf_done(&wire);
	free(line);
}

TEST(the_status_of_a_command)
{
	static const struct {
		struct exec_record r;
		int status;
	} cases[] = {
		{{0}, -1}, /* it runs, or was interrupted */
		{{.has_exit = true}, 0},
		{{.has_exit = true, .exit_code = 255}, 255},
		{{.has_exit = true, .exit_code = 256 + 3}, 3},
		{{.has_exit = true, .exit_code = -1}, 255},
		{{.signal = 9}, 137},
		{{.signal = 64}, 192},
		{{.signal = 128}, -1},
		{{.signal = -9}, -1},
		{{.timed_out = true}, 124},
		{{.timed_out = true, .signal = 9}, 124},
		{{.timed_out = true, .has_exit = true}, 124}, /* it heeded the TERM */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_EQ(exec_status(&cases[i].r), cases[i].status);
}

TEST(the_limit_that_a_command_met)
{
	static const struct {
		struct exec_record r;
		const char *limit;
	} cases[] = {
		{{.cause = "exit"}, ""},
		{{.cause = ""}, ""},
		{{.cause = "mem"}, ""},
		{{.cause = "oom"}, "mem"},
		{{.cause = "pids"}, "pids"},
		{{.cause = "disk"}, "disk"},
		{{.cause = "ttl"}, "ttl"},
		{{.cause = "idle"}, "idle"},
		{{.cause = "signal", .oom_killed = true}, "mem"},
		{{.cause = "timeout", .timed_out = true, .oom_killed = true}, "timeout"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *limit = exec_limit(&cases[i].r);

		CHECK_STR(limit ? limit : "", cases[i].limit);
	}
}

TAP_MAIN
