/*
 * The bytes of an exchange; see web.h. Each side has a buffer for what was read and one for what is
 * to be written, both bounded: a side is read only while there is room on the other, so a slow
 * reader holds back the writer and nothing else. Content that needs no chunks around it goes from
 * one side's first buffer straight to the other side.
 *
 * A side that breaks has only ended, with a reason: what it said before is still looked at, and may
 * be all that was needed.
 */
#include "base/fd.h"
#include "door/credential.h"
#include "door/web_parts.h"

#include <errno.h>
#include <string.h>

enum {
	STEP = DOOR_BUFFER_MAX, /* content that is framed anew at a time */
	READ_FIRST = 4096,
	/* With the records of TLS around it, it still goes to the box in one frame. */
	READ_MOST = WIRE_DATA_MAX - 4096,
};

bool web_has_room(const struct web_side *s)
{
	return buf_len(&s->out) < DOOR_BUFFER_MAX / 2;
}

bool web_has_secret(const struct web *w)
{
	return w->req.injection && injection_is_searched(w->req.injection);
}

static bool may_read(const struct web_side *s)
{
	return s->channel && !s->ended && buf_len(&s->in) < DOOR_BUFFER_MAX;
}

/* Only when somebody can take what is read. */
static bool wants_box(const struct web *w)
{
	if (!may_read(&w->box))
		return false;
	switch (w->state) {
	case WEB_HEAD:
		return web_has_room(&w->box);
	case WEB_DECIDE:
		return w->wait.ask; /* to see whether somebody still waits */
	case WEB_MOVE:
		return !w->req.is_sent && !w->up.side.write_closed && !w->up.holds_secret &&
		       web_has_room(&w->up.side);
	case WEB_SWITCHED:
		return web_has_room(&w->up.side);
	default:
		return false;
	}
}

static bool wants_up(const struct web *w)
{
	if (!may_read(&w->up.side))
		return false;
	/* Between requests only to see it close. */
	return w->state == WEB_HEAD || w->state == WEB_DECIDE ||
	       ((w->state == WEB_MOVE || w->state == WEB_SWITCHED) && web_has_room(&w->box));
}

static void want(struct web_side *s, bool in)
{
	bool out = buf_len(&s->out) > 0 || (s->finishing && !s->finished);

	if (s->channel)
		channel_want(s->channel, (in ? CHANNEL_IN : 0) | (out ? CHANNEL_OUT : 0));
}

void web_want(struct web *w)
{
	want(&w->box, wants_box(w));
	want(&w->up.side, wants_up(w));
}

int web_count(struct web *w, uint64_t up, uint64_t down, struct err *e)
{
	w->req.bytes_up += up;
	w->req.bytes_down += down;
	if (!door_count(w->config.door, w->req.verdict.rule, up, down))
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "%.120s: the bytes that it may move are used up",
			       w->config.host.text);
	return 0;
}

/* ---- channels ---- */

static void note_error(struct web *w, struct web_side *s, int r)
{
	if (s->error.kind != ERR_NONE)
		return;
	if (s->channel->error.kind != ERR_NONE)
		s->error = s->channel->error;
	else
		err_errno(&s->error, -r, "the connection to %.120s",
			  s == &w->box ? "the box" : w->config.host.text);
}

/* 1: there is something new, if only its end. */
static int read_side(struct web *w, struct web_side *s)
{
	size_t room = DOOR_BUFFER_MAX - buf_len(&s->in);
	uint8_t *to;
	ssize_t n;

	/* A quiet connection keeps a small buffer; one whose read filled it gets a large one, until
	 * little comes. */
	if (!s->is_busy && room > READ_FIRST)
		room = READ_FIRST;
	if (room > READ_MOST)
		room = READ_MOST;
	to = buf_reserve(&s->in, room);
	n = to ? channel_read(s->channel, to, room) : -ENOMEM;
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		note_error(w, s, (int)n);
	s->is_broken = n < 0;
	s->ended = n <= 0;
	if (n > 0)
		buf_commit(&s->in, (size_t)n);
	s->is_busy = n > 0 && ((size_t)n == room || (s->is_busy && n >= READ_FIRST));
	return 1;
}

int web_read(struct web *w)
{
	int moved = 0;

	if (wants_box(w))
		moved |= read_side(w, &w->box);
	if (wants_up(w))
		moved |= read_side(w, &w->up.side);
	return moved;
}

bool web_is_up_quiet(struct web *w)
{
	if (buf_len(&w->up.side.in) == 0 && !w->up.side.ended)
		(void)read_side(w, &w->up.side);
	return buf_len(&w->up.side.in) == 0 && !w->up.side.ended;
}

/* As much as the side takes. One that takes no more is write_closed from then on, and what was
 * meant for it goes nowhere. */
static size_t write_some(struct web *w, struct web_side *s, const void *p, size_t n)
{
	ssize_t r = s->write_closed ? -EPIPE : channel_write(s->channel, p, n);

	if (r >= 0 || r == -EAGAIN)
		return r < 0 ? 0 : (size_t)r;
	if (!s->write_closed)
		note_error(w, s, (int)r);
	s->write_closed = true;
	return n;
}

static int write_side(struct web *w, struct web_side *s)
{
	size_t n = buf_len(&s->out);

	if (!s->channel || n == 0)
		return 0;
	n = write_some(w, s, buf_data(&s->out), n);
	if (s == &w->up.side)
		w->up.head_left -= n < w->up.head_left ? n : w->up.head_left;
	if (s == &w->up.side && w->up.holds_secret)
		w->up.holds_secret = n < buf_len(&s->out);
	buf_consume(&s->out, n);
	return n > 0;
}

int web_write(struct web *w, struct err *e)
{
	int moved = write_side(w, &w->up.side) | write_side(w, &w->box);

	/* An upstream that does not take the whole request may have answered already. */
	if (w->box.write_closed || (w->up.side.write_closed && w->state == WEB_SWITCHED)) {
		*e = w->box.write_closed ? w->box.error : w->up.side.error;
		return -EIO;
	}
	return moved;
}

int web_finish_side(struct web *w, struct web_side *s, struct err *e)
{
	int r;

	if (s->finished || buf_len(&s->out) > 0)
		return 0;
	s->finishing = true;
	r = channel_finish(s->channel);
	if (r == -EAGAIN)
		return 0;
	if (r < 0) {
		note_error(w, s, r);
		*e = s->error;
		return -EIO;
	}
	s->finished = true;
	return 1;
}

/* Content on its way out. As it is, it need not wait in the buffer. */
static int emit(struct web *w, struct web_side *s, const uint8_t *p, size_t n, struct err *e)
{
	bool is_up = s == &w->up.side;
	enum http_framing framing = is_up ? w->req.framing : w->resp.framing;
	size_t sent = 0;
	int r = web_count(w, is_up ? n : 0, is_up ? 0 : n, e);

	if (r < 0)
		return r;
	if (framing != HTTP_CHUNKED && buf_len(&s->out) == 0)
		sent = write_some(w, s, p, n);
	if (sent == n)
		return 0;
	r = http_body_write(framing, &s->out, p + sent, n - sent);
	return r < 0 ? err_errno(e, -r, "frame a body") : 0;
}

/* The last chunk and the trailers. */
static int emit_end(struct web *w, struct web_side *s, const struct http_body *b, struct err *e)
{
	bool is_up = s == &w->up.side;
	enum http_framing framing = is_up ? w->req.framing : w->resp.framing;
	size_t before = buf_len(&s->out), n;
	int r = http_body_write_end(framing, &b->trailers, &s->out);

	if (r < 0)
		return err_errno(e, -r, "frame a body");
	n = buf_len(&s->out) - before;
	return n ? web_count(w, is_up ? n : 0, is_up ? 0 : n, e) : 0;
}

/* ---- the request ---- */

int web_move_request(struct web *w, struct err *e)
{
	const uint8_t *data;
	size_t used, len;
	int moved = 0;

	while (!w->req.is_sent && !w->up.side.write_closed && !w->up.holds_secret &&
	       web_has_room(&w->up.side)) {
		size_t n = buf_len(&w->box.in) < STEP ? buf_len(&w->box.in) : STEP;
		int over = http_body_feed(&w->req.body, buf_data(&w->box.in), n, &used, &data, &len,
					  e);
		int r = over < 0 ? over : 0;

		if (r == 0 && len > 0)
			r = emit(w, &w->up.side, data, len, e);
		if (r == 0)
			buf_consume(&w->box.in, used);
		if (r == 0 && over > 0) {
			w->req.is_sent = true;
			/* What is injected cannot be said a second time at the end. */
			if (w->req.injection)
				injection_strip(w->req.injection, &w->req.body.trailers);
			if (w->req.is_stripped &&
			    credentials_remove(&w->req.body.trailers, w->req.verdict.rule) < 0)
				return err_errno(e, ENOMEM, "remove the box's own credentials");
			r = emit_end(w, &w->up.side, &w->req.body, e);
		}
		if (r < 0)
			return r;
		moved |= used > 0 || over > 0;
		if (used > 0 || over > 0)
			continue;
		if (!w->box.ended)
			break;
		if (w->box.is_broken)
			*e = w->box.error;
		return w->box.is_broken ? -EIO : http_body_close(&w->req.body, e);
	}
	return moved;
}

/* ---- the answer ---- */

/* What was searched goes on, as far as there is room. */
static int drain_held(struct web *w, struct err *e)
{
	int r = 0;

	while (r == 0 && w->resp.held_safe > 0 && web_has_room(&w->box)) {
		size_t n = w->resp.held_safe < STEP ? w->resp.held_safe : STEP;

		r = emit(w, &w->box, buf_data(&w->resp.held), n, e);
		buf_consume(&w->resp.held, n);
		w->resp.held_safe -= n;
	}
	return r;
}

/* What is held is searched, and goes on as far as it may. */
static int search_held(struct web *w, bool more, struct err *e)
{
	w->resp.held_safe =
		injection_redact(w->req.injection, w->resp.held.data + w->resp.held.start,
				 buf_len(&w->resp.held), more);
	return drain_held(w, e);
}

/* Some of what came compressed becomes plain. As much as one step at a time: a little may be a lot.
 */
static int inflate_part(struct web *w, struct err *e)
{
	uint8_t *to = buf_reserve(&w->resp.held, STEP);
	size_t used, len;
	int r = to ? inflater_feed(w->resp.inflater, buf_data(&w->resp.packed),
				   buf_len(&w->resp.packed), &used, to, STEP, &len, e)
		   : err_errno(e, ENOMEM, "look at an answer");

	if (r < 0)
		return r;
	w->resp.has_more = r > 0;
	buf_commit(&w->resp.held, len);
	buf_consume(&w->resp.packed, used);
	r = search_held(w, true, e);
	return r < 0 ? r : 1;
}

/* One part of the body. 1: something moved, 0: not. */
static int move_part(struct web *w, struct err *e)
{
	bool was_over = w->resp.body.ended;
	size_t n = buf_len(&w->up.side.in) < STEP ? buf_len(&w->up.side.in) : STEP, used, len;
	const uint8_t *data;
	int over =
		http_body_feed(&w->resp.body, buf_data(&w->up.side.in), n, &used, &data, &len, e);
	int r = over < 0 ? over : 0;

	if (over == 0 && used == 0 && w->up.side.ended) {
		if (w->up.side.is_broken)
			*e = w->up.side.error;
		r = w->up.side.is_broken ? -EIO : http_body_close(&w->resp.body, e);
		over = r == 0;
	}
	/* A search for what may still begin at its end is over with the body. */
	if (r == 0 && !was_over && w->resp.redacts && (len > 0 || over > 0)) {
		struct buf *to = w->resp.inflater ? &w->resp.packed : &w->resp.held;

		if (len > 0 && buf_append(to, data, len) < 0)
			return err_errno(e, ENOMEM, "look at an answer");
		if (!w->resp.inflater)
			r = search_held(w, !over, e);
	} else if (r == 0 && !was_over && len > 0) {
		r = emit(w, &w->box, data, len, e);
	}
	if (r < 0)
		return r;
	buf_consume(&w->up.side.in, used);
	if (over > 0 && w->resp.inflater && buf_len(&w->resp.packed) == 0) {
		r = inflater_close(w->resp.inflater, e);
		inflater_free(take_ptr(w->resp.inflater));
		if (r == 0)
			r = search_held(w, false, e);
	}
	if (r == 0 && over > 0 && !w->resp.inflater && w->resp.held_safe == 0) {
		if (w->req.injection)
			injection_redact_head(w->req.injection, &w->resp.body.trailers);
		w->resp.is_sent = true;
		r = emit_end(w, &w->box, &w->resp.body, e);
	}
	return r < 0 ? r : used > 0 || over > 0;
}

/* A server of HTTP/2 begins with its SETTINGS, whatever it is asked: a length in three bytes, the
 * type, flags, and 0 for the stream. */
static bool is_http2(const uint8_t *p, size_t n)
{
	static const uint8_t stream[4] = {0};

	return n >= 9 && p[0] == 0 && p[3] == 4 && memcmp(p + 5, stream, 4) == 0;
}

int web_move_response(struct web *w, struct err *e)
{
	struct http_head head = {0};
	size_t used;
	int r = 1, moved = 0;

	while (w->resp.is_there && r > 0 && !w->resp.is_sent && web_has_room(&w->box)) {
		if (w->resp.held_safe > 0)
			r = drain_held(w, e) < 0 ? -EIO : 1;
		else if (buf_len(&w->resp.packed) > 0 || w->resp.has_more)
			r = inflate_part(w, e);
		else
			r = move_part(w, e);
		moved |= r > 0;
	}
	if (w->resp.is_there)
		return r < 0 ? r : moved;
	if (!web_has_room(&w->box))
		return 0;
	/* What a kept connection says before it has the request is not the answer to it. */
	if (w->up.was_used && w->up.head_left > 0 && buf_len(&w->up.side.in) > 0)
		return err_set(e, ERR_PROTOCOL, EBADMSG, "%.120s answered before it was asked",
			       w->config.host.text);
	r = http_response_parse(&head, buf_data(&w->up.side.in), buf_len(&w->up.side.in),
				&door_http_limits, web_has_secret(w), &used, e);
	if (r < 0 && is_http2(buf_data(&w->up.side.in), buf_len(&w->up.side.in)))
		return err_set(e, ERR_PROTOCOL, EBADMSG,
			       "%.100s speaks HTTP/2 only (as gRPC does), and the door HTTP/1.1 "
			       "where it intercepts: give it a rule with tls: pass",
			       w->config.host.text);
	if (r < 0)
		return r;
	if (r == 0 && !w->up.side.ended)
		return 0;
	if (r == 0) {
		/* Where a kept connection had run out the box sees the same: its program knows
		 * whether the request may be sent again. */
		w->req.is_stale = w->up.was_used && buf_len(&w->up.side.in) == 0;
		if (w->up.side.error.kind == ERR_NONE)
			return err_set(e, ERR_PROTOCOL, EBADMSG, "%.120s gave no answer",
				       w->config.host.text);
		*e = w->up.side.error;
		return -EIO;
	}
	buf_consume(&w->up.side.in, used);
	w->resp.head = head;
	r = web_take_response(w, e);
	return r < 0 ? r : 1;
}
