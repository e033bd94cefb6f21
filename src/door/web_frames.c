/*
 * The bytes of a WebSocket, after the switch; see web.h. Frames are checked and passed on as they
 * come, and where nothing was injected that is all.
 *
 * How an upstream's messages are searched
 *
 * A message is one text, whatever frames it comes in. One that is a single frame keeps its header,
 * which goes on at once; the payload follows as it is searched, and at its end nothing of it waits.
 * One of several frames is cut anew: what is safe to go is a frame, and what waits stands at the
 * beginning of the next. So what comes between two of its frames, a ping, need not wait, and
 * what was cut into two frames is found. Control frames are texts of their own, and small.
 */
#include "door/web_parts.h"

#include <errno.h>

enum { STEP = DOOR_BUFFER_MAX };

static int put(struct web *w, const void *p, size_t n, struct err *e)
{
	if (n > 0 && buf_append(&w->box.out, p, n) < 0)
		return err_errno(e, ENOMEM, "pass on a frame");
	return web_count(w, 0, n, e);
}

static int put_head(struct web *w, const struct ws_frame *f, struct err *e)
{
	uint8_t head[WS_HEAD_MAX];

	return put(w, head, ws_frame_write(f, head), e);
}

/* What was searched goes on, as far as there is room. */
static int drain_frames(struct web *w, struct err *e)
{
	struct web_frames *s = &w->resp.frames;
	int moved = 0, r = 0;

	while (r == 0 && web_has_room(&w->box) &&
	       (w->resp.held_safe > 0 || (s->owes_last && buf_len(&w->resp.held) == 0))) {
		size_t n = w->resp.held_safe < STEP ? w->resp.held_safe : STEP;
		struct ws_frame piece = {.op = s->op,
					 .is_last = s->owes_last && n == buf_len(&w->resp.held),
					 .len = n};

		if (s->is_cut) {
			s->op = 0;
			if (piece.is_last)
				s->owes_last = s->is_cut = false;
			r = put_head(w, &piece, e);
		}
		if (r == 0)
			r = put(w, buf_data(&w->resp.held), n, e);
		buf_consume(&w->resp.held, n);
		w->resp.held_safe -= n;
		moved = 1;
	}
	return r < 0 ? r : moved;
}

/* A header of the upstream. */
static int begin_frame(struct web *w, size_t *ret_used, struct err *e)
{
	struct web_frames *s = &w->resp.frames;
	int r = ws_relay_head(&w->resp.from_up, buf_data(&w->up.side.in), buf_len(&w->up.side.in),
			      ret_used, &s->frame, e);

	if (r <= 0)
		return r;
	s->in_frame = true;
	if (s->frame.is_control)
		return 0;
	if (s->frame.op)
		s->op = s->frame.op;
	if (s->frame.is_last && !s->is_cut)
		return put_head(w, &s->frame, e);
	s->is_cut = true;
	return 0;
}

static int search_payload(struct web *w, struct err *e)
{
	struct web_frames *s = &w->resp.frames;
	bool is_frame_over = w->resp.from_up.left == 0;
	bool is_over = (is_frame_over && s->frame.is_last) ||
		       (w->up.side.ended && buf_len(&w->up.side.in) == 0);
	int r;

	if (is_frame_over)
		s->in_frame = false;
	if (s->frame.is_control && !is_frame_over)
		return 0;
	if (s->frame.is_control) {
		injection_redact_whole(w->req.injection, s->control.data + s->control.start,
				       buf_len(&s->control));
		r = put_head(w, &s->frame, e);
		if (r == 0)
			r = put(w, buf_data(&s->control), buf_len(&s->control), e);
		buf_clear(&s->control);
		return r;
	}
	if (is_frame_over && s->frame.is_last && s->is_cut)
		s->owes_last = true;
	w->resp.held_safe =
		injection_redact(w->req.injection, w->resp.held.data + w->resp.held.start,
				 buf_len(&w->resp.held), !is_over);
	return 0;
}

static int move_searched(struct web *w, struct err *e)
{
	struct web_frames *s = &w->resp.frames;
	bool has_ended = w->up.side.ended && buf_len(&w->up.side.in) == 0;
	int moved = drain_frames(w, e), r = moved < 0 ? moved : 0;
	size_t used = 0, n;

	if (r < 0 || w->resp.held_safe > 0 || !web_has_room(&w->box))
		return r < 0 ? r : moved;
	if (!s->in_frame)
		r = begin_frame(w, &used, e);
	/* Its payload goes to where it is searched. */
	if (r == 0 && s->in_frame) {
		n = buf_len(&w->up.side.in) - used;
		n = n < STEP ? n : STEP;
		n = w->resp.from_up.left < n ? (size_t)w->resp.from_up.left : n;
		if (n > 0 && buf_append(s->frame.is_control ? &s->control : &w->resp.held,
					buf_data(&w->up.side.in) + used, n) < 0)
			r = err_errno(e, ENOMEM, "look at a frame");
		w->resp.from_up.left -= n;
		used += n;
	}
	buf_consume(&w->up.side.in, used);
	if (r == 0 && s->in_frame && used > 0)
		r = search_payload(w, e);
	/* Half a message, and there will not be more of it. */
	if (r == 0 && has_ended && w->resp.held_safe == 0 && buf_len(&w->resp.held) > 0)
		w->resp.held_safe =
			injection_redact(w->req.injection, w->resp.held.data + w->resp.held.start,
					 buf_len(&w->resp.held), false);
	if (r == 0)
		r = drain_frames(w, e);
	return r < 0 ? r : moved || r > 0 || used > 0;
}

static int move_frames(struct web *w, struct web_side *from, struct web_side *to,
		       struct ws_relay *relay, struct err *e)
{
	size_t used = 0, before = buf_len(&to->out), n;
	int r = 0;

	if (from == &w->up.side && web_has_secret(w))
		return move_searched(w, e);
	/* Also without new bytes: a header may have waited for room. */
	if (web_has_room(to))
		r = ws_relay_feed(relay, buf_data(&from->in), buf_len(&from->in), &used, &to->out,
				  e);
	if (r < 0)
		return r;
	buf_consume(&from->in, used);
	n = buf_len(&to->out) - before;
	if (n > 0)
		r = web_count(w, to == &w->up.side ? n : 0, to == &w->box ? n : 0, e);
	return r < 0 ? r : used > 0 || n > 0;
}

/* What one side's end means for the other, when all that it said was passed on. */
static int pass_end(struct web *w, struct web_side *from, struct web_side *to,
		    const struct ws_relay *relay, struct err *e)
{
	if (!from->ended || buf_len(&from->in) > 0 ||
	    (from == &w->up.side && buf_len(&w->resp.held) > 0))
		return 0;
	if (from->is_broken && !relay->closed) {
		*e = from->error;
		return -EIO;
	}
	return web_finish_side(w, to, e);
}

int web_move_frames(struct web *w, struct err *e)
{
	int up = move_frames(w, &w->box, &w->up.side, &w->resp.from_box, e);
	int down = up < 0 ? up : move_frames(w, &w->up.side, &w->box, &w->resp.from_up, e);

	if (down < 0 || up || down)
		return down < 0 ? down : 1;
	up = pass_end(w, &w->box, &w->up.side, &w->resp.from_box, e);
	down = up < 0 ? up : pass_end(w, &w->up.side, &w->box, &w->resp.from_up, e);
	return down < 0 ? down : up | down;
}
