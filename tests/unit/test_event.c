/* Events: the exact lines, and that no text can forge one. */
#include "base/str.h"
#include "store/event.h"
#include "tap.h"

static const char *line(const struct event *ev)
{
	static struct buf b;

	buf_done(&b);
	buf_init(&b, 1 << 20);
	CHECK_EQ(event_format(ev, &b), 0);
	return buf_cstr(&b);
}

static const char *json(const struct event *ev)
{
	static struct buf b;

	buf_done(&b);
	buf_init(&b, 1 << 20);
	CHECK_EQ(event_format_json(ev, &b), 0);
	return buf_cstr(&b);
}

TEST(lines_of_the_header)
{
	struct event ev = {.kind = EVENT_OPEN, .box = "dev", .image = "base", .workspace = "dev"};
	struct exec_record x;

	CHECK_STR(line(&ev), "[cove] open   dev  image=base workspace=dev\n");
	ev.workspace = NULL;
	CHECK_STR(line(&ev), "[cove] open   dev  image=base\n");
	ev = (struct event){.kind = EVENT_COMMAND, .command = "make -j4"};
	CHECK_STR(line(&ev), "[cove] $ make -j4\n");
	x = (struct exec_record){
		.has_exit = true, .stdout_bytes = 1204, .duration_ms = 1234, .cwd = "/tmp"};
	ev = (struct event){.kind = EVENT_RESULT, .exec = &x, .cwd_changed = true};
	CHECK_STR(line(&ev), "[cove] -> exit 0, 1204 B out, 0 B err, 1.2 s, cwd /tmp (changed)\n");
	ev.cwd_changed = false;
	CHECK_STR(line(&ev), "[cove] -> exit 0, 1204 B out, 0 B err, 1.2 s, cwd /tmp\n");
	x = (struct exec_record){.signal = SIGKILL};
	CHECK_STR(line(&ev), "[cove] -> signal KILL, 0 B out, 0 B err, 0.0 s\n");
	x = (struct exec_record){.cause = "interrupted"};
	CHECK_STR(line(&ev), "[cove] -> interrupted, 0 B out, 0 B err, 0.0 s\n");
	x = (struct exec_record){.duration_ms = 5000};
	ev.kind = EVENT_TIMEOUT;
	CHECK_STR(line(&ev), "[cove] timeout after 5.0 s\n");
	ev = (struct event){.kind = EVENT_FAIL, .cause = "no image 'x'"};
	CHECK_STR(line(&ev), "[cove] fail   no image 'x'\n");
	ev = (struct event){
		.kind = EVENT_CLOSE, .box = "dev", .cause = "stopped", .by = "cove stop"};
	CHECK_STR(line(&ev), "[cove] close  dev  stopped by cove stop\n");
	ev = (struct event){.kind = EVENT_PAUSE, .box = "dev", .by = "cove pause"};
	CHECK_STR(line(&ev), "[cove] pause  dev  by cove pause\n");
	ev = (struct event){.kind = EVENT_RESUME, .box = "dev"};
	CHECK_STR(line(&ev), "[cove] resume dev\n");
	CHECK(strstr(json(&ev), "\"event\":\"resume\"") != NULL);
	ev = (struct event){.kind = EVENT_DOOR, .box = "dev", .cause = "ended (signal 9)"};
	CHECK_STR(line(&ev), "[cove] door   dev  ended (signal 9)\n");
	CHECK(strstr(json(&ev), "\"event\":\"door\"") != NULL);
}

TEST(json_lines)
{
	struct exec_record x = {.exec_id = 3, .shell = "default"};
	struct event ev = {.kind = EVENT_COMMAND,
			   .at_ms = 7,
			   .box = "dev",
			   .exec = &x,
			   .command = "echo \"a\"\nb"};

	CHECK_STR(json(&ev), "{\"at_ms\":7,\"event\":\"command\",\"box\":\"dev\",\"exec_id\":3,"
			     "\"command\":\"echo \\\"a\\\"\\nb\",\"shell\":\"default\"}\n");
	x = (struct exec_record){.exec_id = 3, .signal = 9, .cwd = "/", .duration_ms = 5};
	ev = (struct event){.kind = EVENT_RESULT, .seq = 12, .at_ms = 8, .box = "dev", .exec = &x};
	CHECK_STR(json(&ev),
		  "{\"seq\":12,\"at_ms\":8,\"event\":\"result\",\"box\":\"dev\",\"exec_id\":3,"
		  "\"exit_code\":137,\"signal\":9,\"stdout_bytes\":0,\"stderr_bytes\":0,"
		  "\"cwd\":\"/\",\"cwd_changed\":false,\"duration_ms\":5}\n");
}

/* Every byte in every field: one line each, no control byte, and the prefix only at its start. */
TEST(nothing_can_forge_a_line)
{
	char all[600], *at = all;
	struct exec_record x = {.cwd = all};
	struct event ev;

	at += sprintf(at, "x\n[cove] close dev\r\033[2K");
	for (int c = 1; c < 256; c++)
		*at++ = (char)c;
	strcpy(at, "\xe2\x80\xa8\xe2\x80\xae\xc2\x9b"
		   "end");
	str_copy(x.command, sizeof(x.command), all);
	str_copy(x.shell, sizeof(x.shell), all);
	str_copy(x.cause, sizeof(x.cause), all);
	for (int kind = EVENT_OPEN; kind <= EVENT_SNAPSHOT; kind++) {
		const char *text;

		ev = (struct event){.kind = (enum event_kind)kind,
				    .box = all,
				    .image = all,
				    .workspace = all,
				    .command = kind % 2 ? all : NULL,
				    .exec = &x,
				    .cause = all,
				    .by = all};
		text = line(&ev);
		CHECK(strchr(text, '\n') == text + strlen(text) - 1);
		for (const char *p = text; p[1]; p++)
			CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
		CHECK(strstr(text, "\xe2\x80\xa8") == NULL && strstr(text, "\xc2\x9b") == NULL);
		text = json(&ev);
		CHECK(strchr(text, '\n') == text + strlen(text) - 1);
		for (const char *p = text; p[1]; p++)
			CHECK((unsigned char)*p >= 0x20);
	}
}

TEST(a_command_is_cut_at_a_whole_character)
{
	struct event ev = {.kind = EVENT_COMMAND};
	char text[400], want[400];

	memset(text, 'a', sizeof(text));
	text[80] = 0;
	ev.command = text;
	snprintf(want, sizeof(want), "[cove] $ %.80s\n", text);
	CHECK_STR(line(&ev), want);
	text[80] = 'a';
	text[81] = 0;
	snprintf(want, sizeof(want), "[cove] $ %.80s…\n", text);
	CHECK_STR(line(&ev), want);
	/* A four-byte character from byte 78 to 81. */
	memcpy(text + 78,
	       "\xf0\x9f\x90\x9a"
	       "z",
	       6);
	snprintf(want, sizeof(want), "[cove] $ %.78s…\n", text);
	CHECK_STR(line(&ev), want);
	/* Only continuation bytes: no character to keep whole. */
	memset(text, 0x80, 200);
	text[200] = 0;
	CHECK(strstr(line(&ev), "\\x80…") != NULL);
	ev.command = "first\nsecond";
	CHECK_STR(line(&ev), "[cove] $ first…\n");
	ev.command = "first\n";
	CHECK_STR(line(&ev), "[cove] $ first\n");
}

TEST(a_long_command_in_json_is_cut_and_says_so)
{
	struct event ev = {.kind = EVENT_COMMAND, .box = "b"};
	char *big = malloc(200001);

	memset(big, 'q', 200000);
	big[200000] = 0;
	ev.command = big;
	CHECK(strlen(json(&ev)) < 4400);
	CHECK(strstr(json(&ev), "\"command_truncated\":true") != NULL);
	free(big);
}

TEST(a_line_that_does_not_fit_is_taken_back)
{
	struct event ev = {.kind = EVENT_FAIL, .cause = "a rather long cause"};
	struct buf b;

	buf_init(&b, 24);
	CHECK_EQ(buf_append_str(&b, "before"), 0);
	CHECK_EQ(event_format(&ev, &b), -ENOBUFS);
	CHECK_EQ(event_format_json(&ev, &b), -ENOBUFS);
	CHECK_EQ(buf_len(&b), 6);
	buf_done(&b);
}

TAP_MAIN
