/* Server-sent events as our own client reads them: whole, cut anywhere, too long, no text. */
#include "tap.h"

#include "http/sse_read.h"

#include <errno.h>
#include <string.h>

/* "name|id|data;" of each event, fed `step` bytes at a time; negative: refused. */
static int read_as(const char *text, size_t n, size_t step, size_t max, struct buf *said)
{
	struct sse_reader s;
	int r = 0;

	sse_reader_init(&s, max);
	for (size_t at = 0; at < n && r >= 0;) {
		size_t part = n - at < step ? n - at : step, used;
		struct sse_event event;

		r = sse_reader_feed(&s, text + at, part, &used, &event, NULL);
		at += used;
		if (r > 0)
			CHECK(buf_printf(said, "%s|%s|%.*s;", event.name ? event.name : "",
					 event.id ? event.id : "", (int)event.len,
					 event.data) == 0);
	}
	sse_reader_done(&s);
	return r < 0 ? r : 0;
}

static void check(const char *text, const char *want)
{
	for (size_t step = 1; step < 9; step++) {
		struct buf said;

		buf_init(&said, 1 << 16);
		CHECK_EQ(read_as(text, strlen(text), step == 8 ? 1000 : step, 1 << 12, &said), 0);
		CHECK_STR(buf_cstr(&said), want);
		buf_done(&said);
	}
}

TEST(events)
{
	check("data: hi\n\n", "||hi;");
	check("event: a\nid: 7\ndata: x\ndata: y\n\n", "a|7|x\ny;");
	check("event: a\r\ndata:x\r\n\r\ndata: z\r\r", "a||x;||z;");
	check(": comment\n\nretry: 5\nid: 1\n\ndata\n\n", "|1|;");
	check("event: lost\n\ndata: x\n\n", "||x;");
	check("data: cut", "");
}

TEST(too_much)
{
	char text[5000] = "data: ";
	struct buf said;

	buf_init(&said, 1 << 16);
	memset(text + 6, 'x', sizeof(text) - 6);
	CHECK_EQ(read_as(text, sizeof(text), 64, 1 << 10, &said), -EBADMSG);
	for (size_t i = 0; i + 8 < sizeof(text); i += 8)
		memcpy(text + i, "data: x\n", 8);
	CHECK_EQ(read_as(text, sizeof(text), 64, 64, &said), -EBADMSG);
	CHECK_EQ(read_as("event: a\0b\ndata: x\n\n", 20, 64, 64, &said), -EBADMSG);
	memset(text, 'n', 200);
	memcpy(text, "event: ", 7);
	text[199] = '\n';
	CHECK_EQ(read_as(text, 200, 64, 1 << 10, &said), -EBADMSG);
	CHECK_EQ(buf_len(&said), 0);
	buf_done(&said);
}

TAP_MAIN
