/* Server-sent events: what is written, byte by byte, and what a client makes of it. */
#include "tap.h"

#include "http/sse.h"
#include "sse_reader.h"

static struct buf out;

static void check_block(int r, const char *want, const char *want_read)
{
	struct buf said;

	CHECK_EQ(r, 0);
	CHECK_STR(buf_cstr(&out), want);
	buf_init(&said, 1 << 16);
	sse_read(buf_data(&out), buf_len(&out), &said);
	CHECK_STR(buf_cstr(&said), want_read);
	buf_done(&said);
	buf_done(&out);
	buf_init(&out, 1 << 16);
}

static int event(const char *name, const char *id, const char *data)
{
	return sse_event_write(&out, &(struct sse_event){name, id, data, strlen(data)});
}

TEST(events)
{
	buf_init(&out, 1 << 16);
	check_block(event(NULL, NULL, "hi"), "data: hi\n\n", "||hi;");
	check_block(event("message", "7", "{\"a\":1}"),
		    "event: message\nid: 7\ndata: {\"a\":1}\n\n", "message|7|{\"a\":1};");
	check_block(event("end", NULL, ""), "event: end\ndata: \n\n", "end||;");
	check_block(event(NULL, "", " x"), "id: \ndata:  x\n\n", "|| x;");
	check_block(event(" a:b", ":", ":"), "event:  a:b\nid: :\ndata: :\n\n", " a:b|:|:;");
	check_block(sse_event_write(&out, &(struct sse_event){.data = NULL}), "data: \n\n", "||;");
}

TEST(data_in_lines)
{
	buf_init(&out, 1 << 16);
	check_block(event(NULL, NULL, "a\nb"), "data: a\ndata: b\n\n", "||a\nb;");
	check_block(event(NULL, NULL, "a\rb"), "data: a\ndata: b\n\n", "||a\nb;");
	check_block(event(NULL, NULL, "a\r\nb"), "data: a\ndata: b\n\n", "||a\nb;");
	check_block(event(NULL, NULL, "a\n\rb"), "data: a\ndata: \ndata: b\n\n", "||a\n\nb;");
	check_block(event(NULL, NULL, "a\n\nb\n"), "data: a\ndata: \ndata: b\ndata: \n\n",
		    "||a\n\nb\n;");
	check_block(event(NULL, NULL, "\n"), "data: \ndata: \n\n", "||\n;");
	check_block(event(NULL, NULL, "\r"), "data: \ndata: \n\n", "||\n;");
	/* The data cannot end the event and begin another. */
	check_block(event(NULL, NULL, "x\n\nevent: evil\ndata: y\n\n"),
		    "data: x\ndata: \ndata: event: evil\ndata: data: y\ndata: \ndata: \n\n",
		    "||x\n\nevent: evil\ndata: y\n\n;");
}

TEST(data_is_taken_by_its_length)
{
	buf_init(&out, 1 << 16);
	check_block(sse_event_write(&out, &(struct sse_event){.data = "ab\r\ncd", .len = 3}),
		    "data: ab\ndata: \n\n", "||ab\n;");
	CHECK_EQ(sse_event_write(&out, &(struct sse_event){.data = "a\0b", .len = 3}), 0);
	CHECK_EQ(buf_len(&out), 11);
	CHECK_MEM(buf_data(&out), "data: a\0b\n\n", 11);
	buf_done(&out);
}

TEST(comments_and_retry)
{
	buf_init(&out, 1 << 16);
	check_block(sse_comment_write(&out, ""), ": \n\n", "");
	check_block(sse_comment_write(&out, "ping"), ": ping\n\n", "");
	check_block(sse_comment_write(&out, "a\ndata: b\r\n\r\nid: c"),
		    ": a\n: data: b\n: \n: id: c\n\n", "");
	check_block(sse_retry_write(&out, 0), "retry: 0\n\n", "retry 0;");
	check_block(sse_retry_write(&out, 4294967295u), "retry: 4294967295\n\n",
		    "retry 4294967295;");
}

TEST(what_cannot_be)
{
	buf_init(&out, 1 << 16);
	CHECK_EQ(event("a\nb", NULL, ""), -EINVAL);
	CHECK_EQ(event("a\r", NULL, ""), -EINVAL);
	CHECK_EQ(event(NULL, "1\n", ""), -EINVAL);
	CHECK_EQ(event(NULL, "\r1", ""), -EINVAL);
	CHECK_EQ(event("\xff", NULL, ""), -EINVAL);
	CHECK_EQ(event(NULL, "\xc3", ""), -EINVAL);
	CHECK_EQ(event(NULL, NULL, "a\xc3"), -EINVAL);
	CHECK_EQ(event(NULL, NULL, "\xed\xa0\x80"), -EINVAL);
	CHECK_EQ(sse_comment_write(&out, "\xff"), -EINVAL);
	CHECK_EQ(buf_len(&out), 0);
}

TEST(no_room)
{
	static const char want[] = "event: e\nid: 1\ndata: a\ndata: b\n\n";

	for (size_t max = 0; max <= strlen(want); max++) {
		bool fits = max == strlen(want);

		buf_init(&out, max);
		CHECK_EQ(event("e", "1", "a\nb"), fits ? 0 : -ENOBUFS);
		CHECK_EQ(buf_len(&out), fits ? max : 0);
		buf_done(&out);
	}
	buf_init(&out, 3);
	CHECK_EQ(sse_comment_write(&out, ""), -ENOBUFS);
	CHECK_EQ(sse_retry_write(&out, 1), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 0);
}

TAP_MAIN
