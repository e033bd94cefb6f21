/* A server's end of a WebSocket, fed in every cut: messages, control frames, closes, limits. */
#include "tap.h"

#include "base/err.h"
#include "base/limits.h"
#include "http/http.h"
#include "http/ws_end.h"
#include "ws_script.h"

enum { MAX = 1 << 20, RANDOM_CUTS = 40, LAST = 0x80 };

static struct buf in;

static void begin(void)
{
	buf_done(&in);
	buf_init(&in, 4 * MAX);
}

static void frame(uint8_t first, const char *payload)
{
	ws_script_frame(&in, first, payload, strlen(payload));
}

static void run(size_t message_max, uint64_t cuts, size_t out_max, size_t close_after,
		const char *want, const char *want_answers, size_t answers_len)
{
	struct ws_script s = {message_max, cuts, out_max, close_after};
	struct buf said, answers;

	buf_init(&said, 4 * MAX);
	buf_init(&answers, 4 * MAX);
	ws_script_run(&s, buf_data(&in), buf_len(&in), &said, &answers);
	CHECK_STR(buf_cstr(&said), want);
	if (want_answers) {
		CHECK_EQ(buf_len(&answers), answers_len);
		CHECK(answers_len == 0 ||
		      memcmp(buf_data(&answers), want_answers, answers_len) == 0);
	}
	buf_done(&said);
	buf_done(&answers);
}

static void check_max(size_t message_max, size_t close_after, const char *want, const char *answers,
		      size_t n)
{
	for (uint64_t cuts = 0; cuts <= SCRIPT_BYTES + RANDOM_CUTS; cuts++) {
		run(message_max, cuts, MAX, close_after, want, answers, n);
		run(message_max, cuts, WS_SCRIPT_OUT_LEAST, close_after, want, NULL, 0);
	}
}

/* Whole messages and pieces say the same. */
#define check(want, answers)                                                  \
	do {                                                                  \
		check_max(MAX, SIZE_MAX, want, answers, sizeof(answers) - 1); \
		check_max(0, SIZE_MAX, want, answers, sizeof(answers) - 1);   \
	} while (0)

TEST(messages)
{
	begin();
	frame(LAST | WS_OP_TEXT, "hello");
	frame(LAST | WS_OP_BINARY, "\xff\xfe");
	frame(LAST | WS_OP_TEXT, "");
	frame(WS_OP_TEXT, "a");
	frame(WS_OP_MORE, "");
	frame(WS_OP_MORE, "b");
	frame(LAST | WS_OP_MORE, "c");
	frame(WS_OP_BINARY, "");
	frame(LAST | WS_OP_MORE, "");
	check("text<hello>binary<\xff\xfe>text<>text<abc>binary<>.", "");
}

TEST(no_bytes_are_no_message)
{
	begin();
	check(".", "");
	CHECK_EQ(buf_append(&in, "\x81\x85\x01\x02\x03\x04hel", 9), 0);
	check(".", "");
}

/* Pings are answered with what they said, between the frames of a message as well. */
TEST(pings)
{
	begin();
	frame(LAST | WS_OP_PING, "");
	frame(WS_OP_TEXT, "a");
	frame(LAST | WS_OP_PING, "p");
	frame(LAST | WS_OP_PONG, "q");
	frame(LAST | WS_OP_MORE, "b");
	check("pong<q>text<ab>.", "\x8a\x00\x8a\x01p");
}

/* However many come, no more is answered than there is room for; the rest waits unread. */
TEST(a_flood_of_pings)
{
	struct ws_event event;
	struct ws_end w;
	struct buf out;
	size_t used;

	begin();
	for (int i = 0; i < 1000; i++)
		ws_script_frame(&in, LAST | WS_OP_PING, "0123456789", 10);
	frame(LAST | WS_OP_TEXT, "x");
	check_max(MAX, SIZE_MAX, "text<x>.", NULL, 0);
	ws_end_init(&w, MAX);
	buf_init(&out, 30);
	CHECK_EQ(ws_end_feed(&w, buf_data(&in), buf_len(&in), &used, &event, &out, NULL), 0);
	CHECK(w.is_waiting);
	CHECK_EQ(used, 3 * 16);
	CHECK_EQ(buf_len(&out), 2 * 12);
	CHECK_EQ(ws_end_feed(&w, NULL, 0, &used, &event, &out, NULL), 0);
	CHECK(w.is_waiting && buf_len(&out) == 2 * 12);
	buf_clear(&out);
	CHECK_EQ(ws_end_feed(&w, NULL, 0, &used, &event, &out, NULL), 0);
	CHECK(!w.is_waiting && buf_len(&out) == 12);
	ws_end_done(&w);
	buf_done(&out);
}

TEST(closes)
{
	begin();
	frame(LAST | WS_OP_CLOSE, "");
	check("closed 1005<>.", "\x88\x00");
	begin();
	frame(LAST | WS_OP_CLOSE, "\x03\xe8");
	check("closed 1000<>.", "\x88\x02\x03\xe8");
	begin();
	frame(LAST | WS_OP_CLOSE, "\x0f\xa8"
				  "b\xc3\xa9");
	check("closed 4008<b\xc3\xa9>.", "\x88\x02\x0f\xa8");
	/* What comes after it, or was under way, is dropped. */
	begin();
	frame(WS_OP_BINARY, "half");
	frame(LAST | WS_OP_CLOSE, "\x03\xe9");
	frame(LAST | WS_OP_PING, "p");
	frame(LAST | WS_OP_CLOSE, "");
	CHECK_EQ(buf_append(&in, "\xff\xff\xff\xff", 4), 0);
	check("closed 1001<>.", "\x88\x02\x03\xe9");
}

TEST(closes_that_are_wrong)
{
	static const unsigned bad[] = {0,    1,	   999,	 1004, 1005, 1006,
				       1015, 1016, 2000, 2999, 5000, 65535};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char code[2] = {(char)(bad[i] >> 8), (char)bad[i]};

		begin();
		ws_script_frame(&in, LAST | WS_OP_CLOSE, code, 2);
		check("refused 1002", "\x88\x02\x03\xea");
	}
	begin();
	frame(LAST | WS_OP_CLOSE, "\x03\xe8\xff");
	check("refused 1007", "\x88\x02\x03\xef");
	begin();
	frame(LAST | WS_OP_CLOSE, "\x03\xe8"
				  "cut\xc3");
	check("refused 1007", "\x88\x02\x03\xef");
	begin();
	frame(LAST | WS_OP_CLOSE, "x");
	check("refused 1002", "\x88\x02\x03\xea");
}

TEST(broken_frames)
{
	static const uint8_t bad[] = {
		LAST | 3,
		LAST | 7,
		LAST | 11,
		LAST | 15,
		LAST | WS_OP_MORE,
		LAST | 0x40 | WS_OP_TEXT,
		LAST | 0x10 | WS_OP_PING,
		WS_OP_PING,
		WS_OP_CLOSE,
	};

	for (size_t i = 0; i < sizeof(bad); i++) {
		begin();
		frame(LAST | WS_OP_TEXT, "ok");
		frame(bad[i], "xx");
		check("text<ok>refused 1002", "\x88\x02\x03\xea");
	}
	begin();
	frame(WS_OP_TEXT, "a");
	frame(LAST | WS_OP_TEXT, "b");
	check("refused 1002", "\x88\x02\x03\xea");
	/* Not masked; and a length that is not in its shortest form. */
	begin();
	CHECK_EQ(buf_append(&in, "\x81\x01x", 3), 0);
	check("refused 1002", "\x88\x02\x03\xea");
	begin();
	CHECK_EQ(buf_append(&in, "\x81\xfe\x00\x01maskx", 9), 0);
	check("refused 1002", "\x88\x02\x03\xea");
	begin();
	CHECK_EQ(buf_append_str(&in, "GET / HTTP/1.1\r\n"), 0);
	check("refused 1002", "\x88\x02\x03\xea");
}

TEST(text_is_utf8)
{
	static const char *const good[] = {
		"\xc2\x80",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xef\xbf\xbf",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
		"a\xe2\x82\xac"
		"b",
	};
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc2",
		"\xc2"
		"a",
		"\xc2\xc2",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xe2\x82",
		"\xe2\x82"
		"a",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"\xfe",
		"\xf0\x90\x80",
		"a\xf8",
	};
	char want[64];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		begin();
		frame(LAST | WS_OP_TEXT, good[i]);
		snprintf(want, sizeof(want), "text<%s>.", good[i]);
		check(want, "");
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin();
		frame(LAST | WS_OP_TEXT, bad[i]);
		check("refused 1007", "\x88\x02\x03\xef");
		begin();
		frame(LAST | WS_OP_BINARY, bad[i]);
		snprintf(want, sizeof(want), "binary<%s>.", bad[i]);
		check(want, "");
	}
}

TEST(text_cut_within_a_sequence)
{
	begin();
	frame(WS_OP_TEXT, "\xf0");
	frame(LAST | WS_OP_PING, "");
	frame(WS_OP_MORE, "\x9f\x98");
	frame(LAST | WS_OP_MORE, "\x80");
	frame(LAST | WS_OP_TEXT, "z");
	check("text<\xf0\x9f\x98\x80>text<z>.", "\x8a\x00");
	begin();
	frame(WS_OP_TEXT, "\xf0");
	frame(LAST | WS_OP_MORE, "\x9f");
	check("refused 1007", "\x88\x02\x03\xef");
}

TEST(message_limit)
{
	begin();
	frame(LAST | WS_OP_TEXT, "12345");
	frame(WS_OP_TEXT, "123");
	frame(LAST | WS_OP_MORE, "45");
	check_max(5, SIZE_MAX, "text<12345>text<12345>.", "", 0);
	check_max(4, SIZE_MAX, "refused 1009", "\x88\x02\x03\xf1", 4);
	begin();
	frame(WS_OP_BINARY, "123");
	frame(LAST | WS_OP_PING, "0123456789");
	frame(LAST | WS_OP_MORE, "456");
	check_max(5, SIZE_MAX, "refused 1009",
		  "\x8a\x0a"
		  "0123456789\x88\x02\x03\xf1",
		  16);
	/* A length alone is enough to refuse, and costs nothing. */
	begin();
	CHECK_EQ(buf_append(&in, "\x82\xff\x3f\xff\xff\xff\xff\xff\xff\xffmask", 14), 0);
	check_max(MAX, SIZE_MAX, "refused 1009", "\x88\x02\x03\xf1", 4);
	check_max(0, SIZE_MAX, ".", "", 0);
}

/* A long message comes in pieces of which none is too long, and nothing of it is kept. */
TEST(pieces)
{
	enum { LENGTH = 100000 };
	char *p = malloc(LENGTH + 1), *want = malloc(LENGTH + 16);
	struct ws_end w;
	struct ws_event event;
	size_t used, at = 0;
	struct buf out;

	begin();
	for (int i = 0; i < LENGTH; i++)
		p[i] = (char)('a' + i % 23);
	p[LENGTH] = '\0';
	frame(LAST | WS_OP_TEXT, p);
	snprintf(want, LENGTH + 16, "text<%s>.", p);
	for (uint64_t cuts = 0; cuts < 5; cuts++) {
		run(0, cuts, MAX, SIZE_MAX, want, "", 0);
		run(LENGTH, cuts, MAX, SIZE_MAX, want, "", 0);
	}
	ws_end_init(&w, 0);
	buf_init(&out, 64);
	while (ws_end_feed(&w, buf_data(&in) + at, buf_len(&in) - at, &used, &event, &out, NULL) ==
	       1) {
		at += used;
		CHECK(event.len == WS_PIECE_MAX || event.is_last);
		CHECK(w.message.cap <= 2 * WS_PIECE_MAX);
	}
	CHECK_EQ(at + used, buf_len(&in));
	ws_end_done(&w);
	free(p);
	free(want);
}

TEST(we_close_first)
{
	begin();
	frame(LAST | WS_OP_TEXT, "a");
	size_t first = buf_len(&in);
	frame(LAST | WS_OP_TEXT, "b\xff");
	frame(LAST | WS_OP_PING, "p");
	frame(LAST | WS_OP_CLOSE, "\x03\xe9");
	check_max(1, first, "text<a>closed 1001<>.",
		  "\x88\x05\x03\xe9"
		  "bye",
		  7);
	check_max(0, first, "text<a>closed 1001<>.",
		  "\x88\x05\x03\xe9"
		  "bye",
		  7);
	begin();
	frame(WS_OP_TEXT, "a\xc3");
	first = buf_len(&in);
	frame(LAST | WS_OP_MORE, "a");
	frame(LAST | 5, "");
	check_max(MAX, first, "refused 1002",
		  "\x88\x05\x03\xe9"
		  "bye",
		  7);
}

static void check_out(struct buf *out, const char *want, size_t n)
{
	CHECK_EQ(buf_len(out), n);
	CHECK_MEM(buf_data(out), want, n);
	buf_clear(out);
}

TEST(writing)
{
	struct ws_end w;
	struct buf out;
	char *p = calloc(1, 70000);

	ws_end_init(&w, MAX);
	buf_init(&out, 1 << 17);
	CHECK_EQ(ws_end_send(&w, WS_TEXT, "hi", 2, &out), 0);
	check_out(&out, "\x81\x02hi", 4);
	CHECK_EQ(ws_end_send(&w, WS_BINARY, "\xff", 1, &out), 0);
	check_out(&out, "\x82\x01\xff", 3);
	CHECK_EQ(ws_end_send(&w, WS_BINARY, NULL, 0, &out), 0);
	check_out(&out, "\x82\x00", 2);
	CHECK_EQ(ws_end_send(&w, WS_TEXT, "\xff", 1, &out), -EINVAL);
	CHECK_EQ(ws_end_ping(&w, "p", 1, &out), 0);
	check_out(&out, "\x89\x01p", 3);
	CHECK_EQ(ws_end_ping(&w, p, WS_CONTROL_MAX, &out), 0);
	CHECK_EQ(buf_len(&out), 2 + WS_CONTROL_MAX);
	buf_clear(&out);
	CHECK_EQ(ws_end_ping(&w, p, WS_CONTROL_MAX + 1, &out), -EINVAL);
	CHECK_EQ(ws_end_send(&w, WS_BINARY, p, 126, &out), 0);
	CHECK_MEM(buf_data(&out), "\x82\x7e\x00\x7e", 4);
	buf_clear(&out);
	CHECK_EQ(ws_end_send(&w, WS_BINARY, p, 70000, &out), 0);
	CHECK_MEM(buf_data(&out), "\x82\x7f\x00\x00\x00\x00\x00\x01\x11\x70", 10);
	/* There is no room for another: nothing is written. */
	CHECK_EQ(ws_end_send(&w, WS_BINARY, p, 70000, &out), -ENOBUFS);
	CHECK_EQ(ws_end_send(&w, WS_BINARY, p, SIZE_MAX - 5, &out), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 10 + 70000);
	buf_done(&out);
	ws_end_done(&w);
	free(p);
}

TEST(closing)
{
	static const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 70000};
	char reason[201];
	struct ws_end w;
	struct buf out;

	ws_end_init(&w, MAX);
	buf_init(&out, 1024);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(ws_end_close(&w, bad[i], "", &out), -EINVAL);
	CHECK_EQ(ws_end_close(&w, 1000, "\xff", &out), -EINVAL);
	CHECK_EQ(buf_len(&out), 0);
	CHECK_EQ(ws_end_close(&w, 1000, "{\"exitCode\":0}", &out), 0);
	check_out(&out, "\x88\x10\x03\xe8{\"exitCode\":0}", 18);
	CHECK_EQ(ws_end_close(&w, 1000, "", &out), -EPIPE);
	CHECK_EQ(ws_end_send(&w, WS_TEXT, "x", 1, &out), -EPIPE);
	CHECK_EQ(ws_end_ping(&w, "x", 1, &out), -EPIPE);
	CHECK_EQ(buf_len(&out), 0);
	ws_end_done(&w);
	/* A long reason is cut between two characters. */
	for (size_t i = 0; i < 200; i += 2)
		memcpy(reason + i, "\xc3\xa9", 2);
	reason[200] = '\0';
	ws_end_init(&w, MAX);
	CHECK_EQ(ws_end_close(&w, 4000, reason, &out), 0);
	CHECK_EQ(buf_len(&out), 2 + 2 + 122);
	CHECK_EQ(buf_data(&out)[1], 2 + 122);
	ws_end_done(&w);
	/* Without room nothing is written, and it can be tried again. */
	ws_end_init(&w, MAX);
	buf_done(&out);
	buf_init(&out, 3);
	CHECK_EQ(ws_end_close(&w, 1000, "", &out), -ENOBUFS);
	CHECK(!w.close_sent && buf_len(&out) == 0);
	ws_end_done(&w);
	buf_done(&out);
}

/* A client's close that finds no room is answered later, and only then said. */
TEST(a_close_that_waits)
{
	struct ws_event event;
	struct ws_end w;
	struct buf out;
	size_t used;

	begin();
	frame(LAST | WS_OP_CLOSE, "\x03\xe8");
	ws_end_init(&w, MAX);
	buf_init(&out, 4);
	CHECK_EQ(buf_append(&out, "x", 1), 0);
	CHECK_EQ(ws_end_feed(&w, buf_data(&in), buf_len(&in), &used, &event, &out, NULL), 0);
	CHECK(used == buf_len(&in) && w.is_waiting && !w.closed);
	buf_clear(&out);
	CHECK_EQ(ws_end_feed(&w, NULL, 0, &used, &event, &out, NULL), 1);
	CHECK(event.kind == WS_CLOSED && event.code == 1000 && w.closed && !w.is_waiting);
	CHECK_EQ(ws_end_feed(&w, "anything", 8, &used, &event, &out, NULL), 0);
	CHECK_EQ(used, 8);
	ws_end_done(&w);
	buf_done(&out);
}

TAP_MAIN
