/* A client's end of a WebSocket, against a server's. */
#include "tap.h"

#include "http/ws_end.h"

#include <errno.h>
#include <string.h>

static struct buf up, down; /* to the server, to the client */

/* The next event of an end, fed what the other one wrote. */
static int next(struct ws_end *w, struct buf *in, struct buf *out, struct ws_event *ret)
{
	size_t used;
	int r = ws_end_feed(w, buf_data(in), buf_len(in), &used, ret, out, NULL);

	buf_consume(in, used);
	return r;
}

TEST(both_ends)
{
	struct ws_end client, server;
	struct ws_event event;

	buf_init(&up, 1 << 20);
	buf_init(&down, 1 << 20);
	ws_end_init_client(&client, 1 << 16);
	ws_end_init(&server, 1 << 16);
	CHECK_EQ(ws_end_send(&client, WS_TEXT, "hello", 5, &up), 0);
	CHECK(buf_data(&up)[1] == (0x80 | 5) && memcmp(buf_data(&up) + 6, "hello", 5) != 0);
	CHECK_EQ(next(&server, &up, &down, &event), 1);
	CHECK(event.kind == WS_TEXT && event.len == 5 && memcmp(event.data, "hello", 5) == 0);
	CHECK_EQ(ws_end_send(&server, WS_BINARY, "\1out", 4, &down), 0);
	CHECK_EQ(ws_end_ping(&server, "?", 1, &down), 0);
	CHECK_EQ(next(&client, &down, &up, &event), 1);
	CHECK(event.kind == WS_BINARY && event.len == 4 && memcmp(event.data, "\1out", 4) == 0);
	CHECK_EQ(next(&client, &down, &up, &event), 0);
	CHECK_EQ(next(&server, &up, &down, &event), 1);
	CHECK(event.kind == WS_PONG && event.len == 1);
	CHECK_EQ(ws_end_close(&server, WS_CODE_NORMAL, "bye", &down), 0);
	CHECK_EQ(next(&client, &down, &up, &event), 1);
	CHECK(event.kind == WS_CLOSED && event.code == WS_CODE_NORMAL);
	CHECK_EQ(next(&server, &up, &down, &event), 1);
	CHECK(event.kind == WS_CLOSED);
	ws_end_done(&client);
	ws_end_done(&server);
	buf_done(&up);
	buf_done(&down);
}

/* What a server must not send: masked, too long, out of turn, no text. */
TEST(what_is_refused)
{
	static const struct {
		const char *bytes;
		size_t n;
		unsigned code;
	} cases[] = {{"\x82\x81mask!", 7, WS_CODE_PROTOCOL},
		     {"\x82\x7f\0\0\0\0\1\0\0\0", 10, WS_CODE_TOO_BIG},
		     {"\x80\x01x", 3, WS_CODE_PROTOCOL},
		     {"\x81\x01\xff", 3, WS_CODE_NOT_UTF8},
		     {"\xc2\x01x", 3, WS_CODE_PROTOCOL}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ws_end client;
		struct ws_event event;
		struct err e = {0};
		struct buf out;
		size_t used;

		buf_init(&out, 1 << 10);
		ws_end_init_client(&client, 1 << 16);
		CHECK(ws_end_feed(&client, cases[i].bytes, cases[i].n, &used, &event, &out, &e) <
		      0);
		CHECK_EQ(e.code, cases[i].code);
		CHECK(buf_len(&out) > 0 && buf_data(&out)[1] & 0x80);
		ws_end_done(&client);
		buf_done(&out);
	}
}

TAP_MAIN
