/*
 * A server's end of a WebSocket. However the bytes are cut and however little room answers have,
 * the same messages come, whole ones as in pieces. What is masked as a client does comes out as it
 * was, and what is written to a client is good for one.
 */
#include "fuzz.h"

#include "../unit/ws_script.h"

#include <errno.h>

enum { ROOM = 4 << 20 };

static void check_cuts(struct input in, uint8_t how)
{
	static const size_t maxima[] = {0, 1, 8, 1 << 20};
	struct ws_script s = {maxima[how & 3], SCRIPT_WHOLE, ROOM, how & 4 ? how >> 3 : SIZE_MAX};
	struct buf said, answers, cut, cut_answers;

	buf_init(&said, ROOM);
	buf_init(&answers, ROOM);
	ws_script_run(&s, in.p, in.n, &said, &answers);
	for (uint64_t seed = 1; seed < 5; seed++) {
		s.cuts = seed == 1 ? SCRIPT_BYTES : seed + how;
		s.out_max = seed & 1 ? ROOM : WS_SCRIPT_OUT_LEAST;
		buf_init(&cut, ROOM);
		buf_init(&cut_answers, ROOM);
		ws_script_run(&s, in.p, in.n, &cut, &cut_answers);
		must_equal(&said, &cut);
		/* A close that says what was wrong is only written where there is room. */
		if (s.out_max == ROOM)
			must_equal(&answers, &cut_answers);
		buf_done(&cut);
		buf_done(&cut_answers);
	}
	buf_done(&said);
	buf_done(&answers);
}

/* As a message of one frame or of several, with a ping between them. */
static void check_message(struct input in, uint8_t how)
{
	struct ws_script s = {how & 8 ? ROOM : 0, how + 2u, ROOM, SIZE_MAX};
	size_t half = in.n * (how & 7) / 7;
	struct buf bytes, said, answers, want;

	buf_init(&bytes, ROOM);
	buf_init(&said, ROOM);
	buf_init(&answers, ROOM);
	buf_init(&want, ROOM);
	ws_script_frame(&bytes, WS_OP_BINARY, in.p, half);
	ws_script_frame(&bytes, 0x80 | WS_OP_PING, "?", 1);
	ws_script_frame(&bytes, 0x80 | WS_OP_MORE, in.p + half, in.n - half);
	ws_script_run(&s, buf_data(&bytes), buf_len(&bytes), &said, &answers);
	MUST(buf_append_str(&want, "binary<") == 0 && buf_append(&want, in.p, in.n) == 0 &&
	     buf_append_str(&want, ">.") == 0);
	must_equal(&said, &want);
	MUST(buf_len(&answers) == 3 && memcmp(buf_data(&answers), "\x8a\x01?", 3) == 0);
	buf_done(&bytes);
	buf_done(&said);
	buf_done(&answers);
	buf_done(&want);
}

static void check_written(struct input in)
{
	struct ws_relay client;
	struct ws_frame f;
	struct ws_end w;
	struct buf out;
	size_t used;

	ws_end_init(&w, 0);
	ws_relay_init(&client, false, false);
	buf_init(&out, ROOM);
	MUST(ws_end_send(&w, WS_BINARY, in.p, in.n, &out) == 0);
	MUST(ws_relay_head(&client, buf_data(&out), buf_len(&out), &used, &f, NULL) == 1);
	MUST(f.op == WS_OP_BINARY && f.is_last && f.len == in.n && used + in.n == buf_len(&out));
	MUST(in.n == 0 || memcmp(buf_data(&out) + used, in.p, in.n) == 0);
	buf_done(&out);
	ws_end_done(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t how = input_byte(&in);

	if (in.n == 0)
		return 0;
	check_cuts(in, how);
	check_message(in, how);
	check_written(in);
	return 0;
}
