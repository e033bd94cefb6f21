/* Protocol scripts for a server's end of a WebSocket; see ws_script.h. */
#include "ws_script.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 16 << 20 };

struct run {
	struct ws_end end;
	struct buf message; /* the pieces so far */
	struct buf out, *answers, *said;
	size_t piece_max;
	bool is_refused;
};

static void drain(struct run *r)
{
	ASSERT(buf_append(r->answers, buf_data(&r->out), buf_len(&r->out)) == 0);
	buf_clear(&r->out);
}

static void say(struct run *r, const char *what, const void *p, size_t n)
{
	ASSERT(buf_append_str(r->said, what) == 0);
	ASSERT(buf_append_str(r->said, "<") == 0);
	ASSERT(buf_append(r->said, p, n) == 0);
	ASSERT(buf_append_str(r->said, ">") == 0);
}

static void say_event(struct run *r, const struct ws_event *e)
{
	char text[32];

	switch (e->kind) {
	case WS_TEXT:
	case WS_BINARY:
		ASSERT(e->len <= r->piece_max && (e->is_last || e->len > 0));
		ASSERT(buf_append(&r->message, e->data, e->len) == 0);
		if (!e->is_last)
			return;
		say(r, e->kind == WS_TEXT ? "text" : "binary", buf_data(&r->message),
		    buf_len(&r->message));
		buf_clear(&r->message);
		return;
	case WS_PONG:
		say(r, "pong", e->data, e->len);
		return;
	case WS_CLOSED:
		snprintf(text, sizeof(text), "closed %u", e->code);
		say(r, text, e->data, e->len);
	}
}

/* All of a piece, in a block of exactly its size, so that a sanitizer sees a step too far. */
static void feed(struct run *r, const uint8_t *p, size_t n)
{
	uint8_t *exact = malloc(n ? n : 1);
	struct ws_event event;
	struct err e = {0};
	size_t at = 0, used;
	int got;

	ASSERT(exact);
	memcpy(exact, p, n);
	do {
		got = ws_end_feed(&r->end, exact + at, n - at, &used, &event, &r->out, &e);
		ASSERT(got <= 1 && (got < 0 || used <= n - at));
		if (got == 1)
			say_event(r, &event);
		at += got >= 0 ? used : 0;
		ASSERT(got != 0 || at == n || r->end.is_waiting);
		if (r->end.is_waiting)
			drain(r);
	} while (got == 1 || (got == 0 && r->end.is_waiting));
	free(exact);
	if (got == 0)
		return;
	ASSERT(got == -EBADMSG && e.kind == ERR_PROTOCOL && e.code >= 1002 && e.msg[0]);
	ASSERT(buf_printf(r->said, "refused %d", e.code) == 0);
	ASSERT(ws_end_feed(&r->end, p, 0, &used, &event, &r->out, &e) == -EBADMSG);
	r->is_refused = true;
}

void ws_script_run(const struct ws_script *s, const void *p, size_t n, struct buf *said,
		   struct buf *answers)
{
	struct run r = {.said = said,
			.answers = answers,
			.piece_max = s->message_max ? s->message_max : WS_PIECE_MAX};
	size_t close_after = s->close_after;
	uint64_t state = s->cuts;

	ws_end_init(&r.end, s->message_max);
	buf_init(&r.message, MESSAGE_MAX);
	buf_init(&r.out, s->out_max);
	for (size_t at = 0, take; at < n && !r.is_refused; at += take) {
		take = s->cuts == SCRIPT_WHOLE	 ? n
		       : s->cuts == SCRIPT_BYTES ? 1
						 : 1 + http_script_random(&state) % (1 + n / 4);
		take = take < n - at ? take : n - at;
		if (at == close_after)
			ASSERT(ws_end_close(&r.end, 1001, "bye", &r.out) == 0 || r.end.closed);
		if (at < close_after && close_after - at < take)
			take = close_after - at;
		feed(&r, (const uint8_t *)p + at, take);
		if (s->out_max == WS_SCRIPT_OUT_LEAST)
			drain(&r);
	}
	drain(&r);
	if (!r.is_refused)
		ASSERT(buf_append_str(said, ".") == 0);
	ws_end_done(&r.end);
	buf_done(&r.message);
	buf_done(&r.out);
}

void ws_script_frame(struct buf *to, uint8_t first, const void *p, size_t n)
{
	static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
	struct ws_frame f = {.len = n};
	uint8_t head[WS_HEAD_MAX];
	size_t len = ws_frame_write(&f, head);

	head[0] = first;
	head[1] |= 0x80;
	ASSERT(buf_append(to, head, len) == 0 && buf_append(to, mask, sizeof(mask)) == 0);
	for (size_t i = 0; i < n; i++) {
		uint8_t c = ((const uint8_t *)p)[i] ^ mask[i & 3];

		ASSERT(buf_append(to, &c, 1) == 0);
	}
}
