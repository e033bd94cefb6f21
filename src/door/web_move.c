/*
 * The bytes of an exchange; see web.h. Each side has a buffer for what was read and one for what is
 * to be written, both bounded: a side is read only while there is room on the other, so a slow
 * reader holds back the writer and nothing else.
 */
#include "door/web_parts.h"

#include "base/limits.h"

#include <errno.h>
#include <string.h>

enum {
	STEP = DOOR_BUFFER_MAX / 2, /* content that is framed anew at a time */
	READ_FIRST = 4096,
};

static bool has_room(const struct buf *out)
{
	return buf_len(out) < DOOR_BUFFER_MAX / 2;
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
		return true;
	case WEB_MOVE:
		return !w->request_sent && has_room(&w->up.out);
	case WEB_SWITCHED:
		return has_room(&w->up.out);
	default:
		return false;
	}
}

static bool wants_up(const struct web *w)
{
	if (!may_read(&w->up))
		return false;
	/* Between requests only to see it close. */
	return w->state == WEB_HEAD || w->state == WEB_DECIDE ||
	       ((w->state == WEB_MOVE || w->state == WEB_SWITCHED) && has_room(&w->box.out));
}

void web_want(struct web *w)
{
	if (w->box.channel)
		channel_want(
			w->box.channel,
			(wants_box(w) ? CHANNEL_IN : 0) |
				(buf_len(&w->box.out) || w->state == WEB_CLOSE ? CHANNEL_OUT : 0));
	if (w->up.channel)
		channel_want(w->up.channel, (wants_up(w) ? CHANNEL_IN : 0) |
						    (buf_len(&w->up.out) ? CHANNEL_OUT : 0));
}

/* ---- channels ---- */

static int broken(const struct web_side *s, const char *who, int r, struct err *e)
{
	if (s->channel->error.kind != ERR_NONE)
		*e = s->channel->error;
	else
		err_errno(e, -r, "the connection to %s", who);
	return -EIO;
}

static int read_side(struct web_side *s, const char *who, struct err *e)
{
	size_t room = DOOR_BUFFER_MAX - buf_len(&s->in);
	uint8_t *to;
	ssize_t n;

	/* A quiet connection keeps a small buffer; one whose last read filled it gets a large one.
	 * */
	if (!s->is_busy && room > READ_FIRST)
		room = READ_FIRST;
	to = buf_reserve(&s->in, room);

	if (!to)
		return err_errno(e, ENOMEM, "read from %s", who);
	n = channel_read(s->channel, to, room);
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return broken(s, who, (int)n, e);
	buf_commit(&s->in, (size_t)n);
	s->ended = n == 0;
	s->is_busy = (size_t)n == room;
	return 1;
}

int web_read(struct web *w, struct err *e)
{
	int moved = 0, r = 0;

	if (wants_box(w))
		moved = r = read_side(&w->box, "the box", e);
	if (r >= 0 && wants_up(w)) {
		r = read_side(&w->up, w->config.host.text, e);
		moved |= r > 0;
	}
	return r < 0 ? r : moved;
}

static int write_side(struct web_side *s, const char *who, struct err *e, size_t *ret_n)
{
	ssize_t n;

	*ret_n = 0;
	if (!s->channel || buf_len(&s->out) == 0)
		return 0;
	n = channel_write(s->channel, buf_data(&s->out), buf_len(&s->out));
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return broken(s, who, (int)n, e);
	/* It may hold a credential. */
	explicit_bzero(s->out.data + s->out.start, (size_t)n);
	buf_consume(&s->out, (size_t)n);
	*ret_n = (size_t)n;
	return n > 0;
}

static int count(struct web *w, uint64_t up, uint64_t down, struct err *e)
{
	w->bytes_up += up;
	w->bytes_down += down;
	if ((up || down) && !door_count(w->config.door, w->verdict.rule, up, down))
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "%.120s: the bytes that it may move are used up",
			       w->config.host.text);
	return 0;
}

int web_write(struct web *w, struct err *e)
{
	size_t up, down;
	int moved = write_side(&w->up, w->config.host.text, e, &up), r;

	if (moved < 0) {
		/* An answer may be there already although it did not take the whole request. */
		if (w->state != WEB_MOVE || (!w->has_response && buf_len(&w->up.in) == 0))
			return moved;
		buf_clear(&w->up.out);
		w->keep_up = false;
		moved = 0;
	}
	r = write_side(&w->box, "the box", e, &down);
	if (r < 0)
		return r;
	moved |= r;
	r = count(w, up, down, e);
	return r < 0 ? r : moved;
}

/* Content on its way out. As it is, it need not wait in the buffer. */
static int emit(struct web *w, struct web_side *s, enum http_framing framing, const uint8_t *p,
		size_t n, struct err *e)
{
	ssize_t sent = 0;
	int r;

	if (framing != HTTP_CHUNKED && buf_len(&s->out) == 0) {
		sent = channel_write(s->channel, p, n);
		if (sent == -EAGAIN)
			sent = 0;
		if (sent < 0)
			return broken(s, s == &w->box ? "the box" : w->config.host.text, (int)sent,
				      e);
		r = count(w, s == &w->up ? (uint64_t)sent : 0, s == &w->box ? (uint64_t)sent : 0,
			  e);
		if (r < 0)
			return r;
	}
	r = http_body_write(framing, &s->out, p + sent, n - (size_t)sent);
	return r < 0 ? err_errno(e, -r, "frame a body") : 0;
}

/* ---- the request ---- */

int web_move_request(struct web *w, struct err *e)
{
	const uint8_t *data;
	size_t used, len;
	int moved = 0;

	while (!w->request_sent && has_room(&w->up.out)) {
		size_t n = buf_len(&w->box.in) < STEP ? buf_len(&w->box.in) : STEP;
		int r = http_body_feed(&w->request_body, buf_data(&w->box.in), n, &used, &data,
				       &len, e);

		if (r < 0)
			return r;
		if (len > 0 && emit(w, &w->up, w->request_framing, data, len, e) < 0)
			return -EIO;
		buf_consume(&w->box.in, used);
		moved |= used > 0 || r > 0;
		if (r > 0) {
			w->request_sent = true;
			/* What is injected cannot be said a second time at the end. */
			if (w->injection && w->request_body.trailers.text)
				injection_strip(w->injection, &w->request_body.trailers);
			if (http_body_write_end(w->request_framing, &w->request_body.trailers,
						&w->up.out) < 0)
				return err_errno(e, ENOBUFS, "frame a body");
		} else if (used == 0) {
			if (w->box.ended)
				return http_body_close(&w->request_body, e);
			break;
		}
	}
	return moved;
}

/* ---- the answer ---- */

/* Through the search, where something was injected. */
static int pass_content(struct web *w, const uint8_t *p, size_t n, bool more, struct err *e)
{
	size_t safe;
	int r = 0;

	if (!w->redacts)
		return n > 0 ? emit(w, &w->box, w->response_framing, p, n, e) : 0;
	if (n > 0 && buf_append(&w->held, p, n) < 0)
		return err_errno(e, ENOMEM, "look at an answer");
	injection_redact(w->injection, w->held.data + w->held.start, buf_len(&w->held), more,
			 &safe);
	if (safe > 0)
		r = emit(w, &w->box, w->response_framing, buf_data(&w->held), safe, e);
	buf_consume(&w->held, safe);
	return r;
}

static int end_response(struct web *w, struct err *e)
{
	int r = pass_content(w, NULL, 0, false, e);

	if (r < 0)
		return r;
	if (w->injection && w->response_body.trailers.text)
		injection_redact_head(w->injection, &w->response_body.trailers);
	if (http_body_write_end(w->response_framing, &w->response_body.trailers, &w->box.out) < 0)
		return err_errno(e, ENOBUFS, "frame a body");
	w->response_sent = true;
	return 1;
}

static int move_body(struct web *w, struct err *e)
{
	const uint8_t *data;
	size_t used, len;
	int moved = 0;

	while (!w->response_sent && has_room(&w->box.out)) {
		size_t n = buf_len(&w->up.in) < STEP ? buf_len(&w->up.in) : STEP;
		int r = http_body_feed(&w->response_body, buf_data(&w->up.in), n, &used, &data,
				       &len, e);

		if (r >= 0 && len > 0 && pass_content(w, data, len, true, e) < 0)
			return -EIO;
		if (r < 0)
			return r;
		buf_consume(&w->up.in, used);
		moved |= used > 0;
		if (r > 0)
			return end_response(w, e);
		if (used > 0)
			continue;
		if (!w->up.ended)
			break;
		r = http_body_close(&w->response_body, e);
		return r < 0 ? r : end_response(w, e);
	}
	return moved;
}

int web_move_response(struct web *w, struct err *e)
{
	struct http_head head = {0};
	size_t used;
	int r;

	if (w->has_response)
		return move_body(w, e);
	r = http_response_parse(&head, buf_data(&w->up.in), buf_len(&w->up.in), &used, e);
	if (r < 0)
		return r;
	if (r == 0) {
		if (w->up.ended || buf_len(&w->up.in) >= DOOR_HEAD_MAX)
			return err_set(e, ERR_PROTOCOL, EBADMSG, "%.120s gave no answer",
				       w->config.host.text);
		return 0;
	}
	buf_consume(&w->up.in, used);
	w->response = head;
	r = web_take_response(w, e);
	return r < 0 ? r : 1;
}

/* ---- after a switch ---- */

static int move_frames(struct web_side *from, struct web_side *to, struct ws_relay *relay,
		       struct err *e)
{
	size_t used = 0;
	int r = 0;

	if (buf_len(&from->in) > 0 && has_room(&to->out)) {
		r = ws_relay_feed(relay, buf_data(&from->in), buf_len(&from->in), &used, &to->out,
				  e);
		buf_consume(&from->in, used);
	}
	return r < 0 ? r : used > 0;
}

int web_move_frames(struct web *w, struct err *e)
{
	int up = move_frames(&w->box, &w->up, &w->from_box, e);
	int down = up < 0 ? up : move_frames(&w->up, &w->box, &w->from_up, e);

	return down < 0 ? down : up | down;
}
