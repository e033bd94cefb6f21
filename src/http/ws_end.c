/*
 * An end of a WebSocket; see ws_end.h.
 *
 * How it works
 *
 *	header -> payload -> end of the frame -> header ...
 *
 * ws_relay_head reads a header and refuses what may not be. The payload of a control frame is
 * gathered in control[], that of a message in `message`, unmasked and, for text, checked byte by
 * byte, so that a sequence may be cut anywhere. What a frame means happens at its end: a ping or a
 * close that finds no room for its answer stays there (in_frame, nothing left of it) until the next
 * call, and no byte behind it is looked at meanwhile.
 *
 * Pieces never reach over the end of a frame: so all that came is reported before something that
 * follows can be refused.
 */
#include "http/ws_end.h"

#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"
#include "http/text.h"

#include <string.h>

enum { CODE_BYTES = 2, REASON_MAX = WS_CONTROL_MAX - CODE_BYTES };
enum { MASKED = 0x80, MASK_BYTES = 4 };

static void init(struct ws_end *w, size_t message_max, bool is_client)
{
	*w = (struct ws_end){.message_max = message_max, .is_client = is_client};
	ws_relay_init(&w->relay, !is_client, false);
	buf_init(&w->message, message_max ? message_max : WS_PIECE_MAX);
}

void ws_end_init(struct ws_end *w, size_t message_max)
{
	init(w, message_max, false);
}

void ws_end_init_client(struct ws_end *w, size_t message_max)
{
	init(w, message_max, true);
}

void ws_end_done(struct ws_end *w)
{
	buf_done(&w->message);
}

/* What a client writes is masked, with bytes that cannot be foreseen. */
static int write_frame(const struct ws_end *w, uint8_t op, const void *p, size_t n, struct buf *out)
{
	struct ws_frame f = {.op = op, .is_last = true, .len = n};
	uint8_t head[WS_HEAD_MAX], *to;
	size_t len = ws_frame_write(&f, head), at;

	if (w->is_client) {
		head[1] |= MASKED;
		rand_bytes(head + len, MASK_BYTES);
		len += MASK_BYTES;
	}
	if (n > SIZE_MAX - len)
		return -ENOBUFS;
	to = buf_reserve(out, len + n);
	if (!to)
		return http_no_room(out, len + n);
	to = mempcpy(to, head, len);
	if (n > 0)
		memcpy(to, p, n);
	for (at = 0; w->is_client && at < n; at++)
		to[at] ^= head[len - MASK_BYTES + (at & 3)];
	buf_commit(out, len + n);
	return 0;
}

static int write_close(const struct ws_end *w, unsigned code, const char *reason, size_t n,
		       struct buf *out)
{
	uint8_t payload[WS_CONTROL_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};

	memcpy(payload + CODE_BYTES, reason, n);
	return write_frame(w, WS_OP_CLOSE, payload, CODE_BYTES + n, out);
}

/* May stand in a close frame. */
static bool is_code(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

/* The end: says so to the client if there is room, which the owner's closing says as well. */
static int fail(struct ws_end *w, enum ws_code code, struct buf *out)
{
	if (!w->close_sent)
		(void)write_close(w, code, "", 0, out);
	w->failed = w->close_sent = true;
	return -EBADMSG;
}

static int refuse(struct ws_end *w, enum ws_code code, const char *what, struct buf *out,
		  struct err *e)
{
	(void)http_refuse(e, -EBADMSG, (int)code, "%s", what);
	return fail(w, code, out);
}

static int no_memory(struct ws_end *w, struct buf *out, struct err *e)
{
	(void)refuse(w, WS_CODE_INTERNAL, "no memory for a WebSocket", out, e);
	return -ENOMEM;
}

/* The next byte of a text, after `need` more of a sequence whose next is from least to most. */
static bool take_utf8(struct ws_end *w, uint8_t c)
{
	if (w->need > 0) {
		bool ok = c >= w->least && c <= w->most;

		w->need--;
		w->least = 0x80;
		w->most = 0xbf;
		return ok;
	}
	if (c < 0x80)
		return true;
	w->need = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	/* Neither longer than it must be, nor a surrogate, nor beyond 10FFFF. */
	w->least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	w->most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	return c >= 0xc2 && c <= 0xf4;
}

static bool is_dropped(const struct ws_end *w)
{
	return !w->frame.is_control && w->close_sent;
}

/* A header was read. */
static int begin_frame(struct ws_end *w, struct buf *out, struct err *e)
{
	w->in_frame = true;
	w->at = 0;
	if (w->frame.op == WS_OP_TEXT || w->frame.op == WS_OP_BINARY)
		w->op = w->frame.op;
	if (!w->frame.is_control && !is_dropped(w) && w->message_max > 0 &&
	    w->frame.len > w->message_max - buf_len(&w->message))
		return refuse(w, WS_CODE_TOO_BIG, "a WebSocket message that is too large", out, e);
	return 0;
}

/* Takes what it can of the payload. */
static int take_payload(struct ws_end *w, const uint8_t *p, size_t n, size_t *ret_used,
			struct buf *out, struct err *e)
{
	bool is_text = !w->frame.is_control && w->op == WS_OP_TEXT;
	size_t take = n < w->relay.left ? n : (size_t)w->relay.left;
	uint8_t *to = w->control + w->at;

	*ret_used = 0;
	if (!w->frame.is_control && !is_dropped(w)) {
		if (take > w->message.max - buf_len(&w->message))
			take = w->message.max - buf_len(&w->message);
		to = take > 0 ? buf_reserve(&w->message, take) : NULL;
		if (take > 0 && !to)
			return no_memory(w, out, e);
	}
	for (size_t i = 0; i < take && !is_dropped(w); i++) {
		to[i] = p[i] ^ w->frame.mask[(w->at + i) & 3];
		if (is_text && !take_utf8(w, to[i]))
			return refuse(w, WS_CODE_NOT_UTF8, "a WebSocket text that is not UTF-8",
				      out, e);
	}
	if (!w->frame.is_control && !is_dropped(w) && take > 0)
		buf_commit(&w->message, take);
	w->at += take;
	w->relay.left -= take;
	*ret_used = take;
	return 0;
}

/* What message holds. */
static int report(struct ws_end *w, bool is_last, struct ws_event *ret)
{
	*ret = (struct ws_event){.kind = w->op == WS_OP_TEXT ? WS_TEXT : WS_BINARY,
				 .data = buf_data(&w->message),
				 .len = buf_len(&w->message),
				 .is_last = is_last,
				 .code = WS_CODE_NONE};
	w->is_reported = true;
	return 1;
}

static int end_close(struct ws_end *w, struct ws_event *ret, struct buf *out, struct err *e)
{
	size_t n = (size_t)w->frame.len, reason = n > CODE_BYTES ? n - CODE_BYTES : 0;
	unsigned code = n > 0 ? (unsigned)w->control[0] << 8 | w->control[1] : WS_CODE_NONE;
	int r = 0;

	if (n > 0 && !is_code(code))
		return refuse(w, WS_CODE_PROTOCOL, "a WebSocket close with a bad code", out, e);
	if (!str_is_utf8(w->control + CODE_BYTES, reason))
		return refuse(w, WS_CODE_NOT_UTF8, "a WebSocket close that is not UTF-8", out, e);
	if (!w->close_sent)
		r = write_frame(w, WS_OP_CLOSE, w->control, n > 0 ? CODE_BYTES : 0, out);
	if (r < 0)
		return r;
	w->close_sent = w->closed = true;
	*ret = (struct ws_event){.kind = WS_CLOSED,
				 .data = w->control + CODE_BYTES,
				 .len = reason,
				 .is_last = true,
				 .code = code};
	return 1;
}

/* All of the payload is there. 1: *ret is; 0: go on; -ENOBUFS: no room for the answer. */
static int end_frame(struct ws_end *w, struct ws_event *ret, struct buf *out, struct err *e)
{
	int r = 0;

	if (w->frame.op == WS_OP_CLOSE) {
		r = end_close(w, ret, out, e);
	} else if (w->frame.op == WS_OP_PING) {
		if (!w->close_sent)
			r = write_frame(w, WS_OP_PONG, w->control, (size_t)w->frame.len, out);
	} else if (w->frame.op == WS_OP_PONG) {
		*ret = (struct ws_event){.kind = WS_PONG,
					 .data = w->control,
					 .len = (size_t)w->frame.len,
					 .is_last = true,
					 .code = WS_CODE_NONE};
		r = 1;
	} else if (!is_dropped(w)) {
		if (w->frame.is_last && w->need > 0)
			return refuse(w, WS_CODE_NOT_UTF8, "a WebSocket text that is not UTF-8",
				      out, e);
		if (w->frame.is_last || (w->message_max == 0 && buf_len(&w->message) > 0))
			r = report(w, w->frame.is_last, ret);
	}
	if (r == -ENOMEM)
		return no_memory(w, out, e);
	if (r >= 0)
		w->in_frame = false;
	return r;
}

/* One step. 1: *ret is there; 0: go on, if *ret_used or in_frame say that something moved. */
static int step(struct ws_end *w, const uint8_t *p, size_t n, size_t *ret_used,
		struct ws_event *ret, struct buf *out, struct err *e)
{
	int r;

	if (!w->in_frame) {
		r = ws_relay_head(&w->relay, p, n, ret_used, &w->frame, e);
		if (r < 0 && e)
			e->code = WS_CODE_PROTOCOL;
		if (r < 0)
			return fail(w, WS_CODE_PROTOCOL, out);
		return r > 0 ? begin_frame(w, out, e) : 0;
	}
	r = take_payload(w, p, n, ret_used, out, e);
	if (r < 0)
		return r;
	if (w->relay.left == 0)
		return end_frame(w, ret, out, e);
	if (w->message_max == 0 && !w->frame.is_control && !is_dropped(w) &&
	    buf_len(&w->message) > 0 && (*ret_used == n || buf_len(&w->message) == WS_PIECE_MAX))
		return report(w, false, ret);
	return 0;
}

int ws_end_feed(struct ws_end *w, const void *p, size_t n, size_t *ret_used, struct ws_event *ret,
		struct buf *out, struct err *e)
{
	const uint8_t *bytes = p;
	size_t used = 0;
	int r = 0;

	*ret_used = 0;
	if (w->failed)
		return http_refuse(e, -EBADMSG, WS_CODE_PROTOCOL, "a WebSocket that is over");
	if (w->is_reported)
		buf_clear(&w->message);
	w->is_reported = false;
	while (r == 0 && !w->closed) {
		bool was_in_frame = w->in_frame;
		size_t took = 0;

		r = step(w, bytes + used, n - used, &took, ret, out, e);
		used += took;
		if (r == 0 && took == 0 && w->in_frame == was_in_frame)
			break;
	}
	w->is_waiting = r == -ENOBUFS;
	if (w->is_waiting)
		r = 0;
	if (w->closed && r == 0)
		used = n;
	*ret_used = used;
	return r;
}

int ws_end_send(struct ws_end *w, enum ws_event_kind kind, const void *p, size_t n, struct buf *out)
{
	ASSERT(kind == WS_TEXT || kind == WS_BINARY);
	if (w->close_sent)
		return -EPIPE;
	if (kind == WS_TEXT && !str_is_utf8(p, n))
		return -EINVAL;
	return write_frame(w, kind == WS_TEXT ? WS_OP_TEXT : WS_OP_BINARY, p, n, out);
}

int ws_end_ping(struct ws_end *w, const void *p, size_t n, struct buf *out)
{
	if (w->close_sent)
		return -EPIPE;
	return n > WS_CONTROL_MAX ? -EINVAL : write_frame(w, WS_OP_PING, p, n, out);
}

int ws_end_close(struct ws_end *w, unsigned code, const char *reason, struct buf *out)
{
	size_t n = strlen(reason);
	int r;

	if (w->close_sent)
		return -EPIPE;
	if (!is_code(code) || !str_is_utf8(reason, n))
		return -EINVAL;
	for (n = n < REASON_MAX ? n : REASON_MAX; n > 0 && ((uint8_t)reason[n] & 0xc0) == 0x80; n--)
		;
	r = write_close(w, code, reason, n, out);
	if (r == 0)
		w->close_sent = true;
	return r;
}
