/*
 * One connection's requests, one after another; see web.h.
 *
 *	HEAD --head--> judge --ask--> DECIDE: a person
 *	               |        `--> DECIDE: secrets, then the row
 *	               `-deny--> an web_answer of our own, then HEAD or CLOSE
 *	DECIDE --> DIAL, unless an upstream is there --> MOVE --both ended--> HEAD or CLOSE
 *	                                                 `--101--> SWITCHED
 *
 * A request is sent once. Where its upstream breaks before an web_answer began, the box gets a 502
 * and the row says so; after that it is cut, so that a half web_answer never looks like a whole
 * one.
 *
 * A rule belongs to the policy of the moment. When that changes web_judge_again gives the request
 * under way its new rule, or ends it.
 */
#include "base/clock.h"
#include "base/control.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/web_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MAX = 4096, OUT_MAX = 2 * DOOR_BUFFER_MAX + DOOR_HEAD_MAX };

void web_record_end(struct web *w, const char *verdict, const char *reason)
{
	struct audit_row row = {.kind = "done",
				.about = w->seq,
				.verdict = verdict,
				.reason = reason,
				.address = w->address[0] ? w->address : NULL,
				.bytes_up = w->bytes_up,
				.bytes_down = w->bytes_down,
				.duration_ms = ev_now(w->config.door->ev) - w->started_ms,
				.status = w->response.status};

	if (w->seq)
		clerk_record(w->config.door->clerk, NULL, &row);
	w->seq = 0;
}

/* ---- the end ---- */

static void on_done(struct ev_defer *d)
{
	struct web *w = container(d, struct web, done);

	w->config.on_done(w->config.arg);
}

static void finish(struct web *w)
{
	if (w->state == WEB_OVER)
		return;
	w->state = WEB_OVER;
	ev_timer_stop(w->config.door->ev, &w->timer);
	if (w->box.channel)
		channel_want(w->box.channel, 0);
	if (w->up.channel)
		channel_want(w->up.channel, 0);
	ev_defer(w->config.door->ev, &w->done);
}

/* It never came to a request: mostly a client that does not trust the box's authority. */
static void record_broken(struct web *w, const struct err *e)
{
	struct audit_row row = {.kind = "connect",
				.verdict = "failed",
				.reason = e->msg,
				.exec_id = w->config.exec_id,
				.host = w->config.host.text,
				.port = w->config.port};

	clerk_record(w->config.door->clerk, NULL, &row);
}

/* Both sides see that it broke. */
void web_cut(struct web *w, const struct err *e)
{
	if (!w->has_request && w->box.channel && w->box.channel->error.kind != ERR_NONE)
		record_broken(w, e);
	web_record_end(w, e->kind == ERR_LIMIT ? "cut" : "failed", e->msg);
	channel_free(take_ptr(w->box.channel), true);
	channel_free(take_ptr(w->up.channel), true);
	finish(w);
}

static void drop_up(struct web *w)
{
	channel_free(take_ptr(w->up.channel), true);
	buf_clear(&w->up.in);
	buf_clear(&w->up.out);
	w->up.ended = false;
}

static void request_done(struct web *w)
{
	http_head_done(&w->request);
	http_body_done(&w->request_body);
	http_head_done(&w->response);
	http_body_done(&w->response_body);
	injection_free(take_ptr(w->injection));
	free(take_ptr(w->path));
	free(take_ptr(w->query));
	buf_done(&w->held);
	buf_init(&w->held, DOOR_BUFFER_MAX + 2 * DOOR_SECRET_MAX * 6);
	w->request = w->response = (struct http_head){0};
	w->request_body = w->response_body = (struct http_body){0};
	w->has_request = w->request_sent = w->has_response = w->response_sent = false;
	w->was_asked = w->redacts = w->up_once = false;
	w->verdict = (struct verdict){0};
	w->bytes_up = w->bytes_down = 0;
}

static void free_idle(struct buf *b, size_t max)
{
	if (buf_len(b) > 0)
		return;
	buf_done(b);
	buf_init(b, max);
}

/* Ready for the next request, or for the last bytes. */
void web_next(struct web *w)
{
	bool keep_up = w->keep_up && !w->up_once && w->request_sent && !w->up.ended &&
		       buf_len(&w->up.in) == 0 && !w->up_identity;

	request_done(w);
	if (!keep_up)
		drop_up(w);
	w->state = w->keep_box ? WEB_HEAD : WEB_CLOSE;
	free_idle(&w->box.in, DOOR_BUFFER_MAX + 1);
	free_idle(&w->up.in, DOOR_BUFFER_MAX + 1);
	free_idle(&w->up.out, OUT_MAX);
	ev_timer_set(w->config.door->ev, &w->timer,
		     buf_len(&w->box.in) ? DOOR_HEAD_MS : DOOR_IDLE_MS);
}

/* ---- the upstream ---- */

void web_send_request(struct web *w)
{
	const struct tls_identity *id = w->injection ? injection_identity(w->injection) : NULL;
	bool private = w->verdict.rule && w->verdict.rule->private;
	struct err e;

	/* One that closed meanwhile, or that was dialled under another rule's terms, is not used.
	 * */
	if (w->up.channel &&
	    (w->up.ended || buf_len(&w->up.in) > 0 || id || w->up_private != private))
		drop_up(w);
	if (http_head_write(&w->request, &w->up.out) < 0) {
		err_set(&e, ERR_LIMIT, EMSGSIZE, "the request's head is too long");
		web_fail(w, &e);
		return;
	}
	if (w->up.channel) {
		w->state = WEB_MOVE;
		return;
	}
	w->state = WEB_DIAL;
	w->up_private = private;
	w->up_identity = id != NULL;
	w->config.dial(w->config.arg, w->verdict.rule, id);
}

static void on_ready(struct channel *c, unsigned what)
{
	web_run(c->owner);
}

void web_dialled(struct web *w, struct channel *up, const char *address, struct err *e)
{
	str_copy(w->address, sizeof(w->address), address);
	if (!up) {
		if (e->kind == ERR_DENIED) {
			web_record_end(w, "failed", e->msg);
			w->keep_up = false;
			buf_clear(&w->up.out);
			web_answer(w, 403, e);
		} else {
			web_fail(w, e);
		}
		web_run(w);
		return;
	}
	up->owner = w;
	up->on_ready = on_ready;
	w->up.channel = up;
	w->up.ended = false;
	w->state = WEB_MOVE;
	web_run(w);
}

/* ---- the web_answer's head ---- */

static int switch_protocols(struct web *w, struct err *e)
{
	bool extended = http_head_find(&w->response, "Sec-WebSocket-Extensions") != NULL;
	int r = ws_check_response(&w->request, &w->response, e);

	if (r < 0)
		return r;
	http_head_strip_hop(&w->response);
	if (http_head_add(&w->response, "Connection", "Upgrade") < 0 ||
	    http_head_add(&w->response, "Upgrade", "websocket") < 0 ||
	    http_head_write(&w->response, &w->box.out) < 0)
		return err_errno(e, ENOBUFS, "write an web_answer");
	ws_relay_init(&w->from_box, true, extended);
	ws_relay_init(&w->from_up, false, extended);
	w->has_response = w->request_sent = true;
	w->state = WEB_SWITCHED;
	return 0;
}

static bool is_plain(const struct http_head *h)
{
	const char *coding = http_head_find(h, "Content-Encoding");

	return !coding || http_name_is(coding, "identity");
}

/* How its content goes on to the box. Without a length an older client can only be told by the end.
 * */
static int frame_response(struct web *w, struct err *e)
{
	int r = 0;

	w->response_framing = w->response_body.framing;
	if (w->response_framing == HTTP_UNTIL_CLOSE || w->response_framing == HTTP_CHUNKED) {
		w->response_framing = w->request.minor > 0 ? HTTP_CHUNKED : HTTP_UNTIL_CLOSE;
		if (w->response_framing == HTTP_CHUNKED)
			r = http_head_add(&w->response, "Transfer-Encoding", "chunked");
		else
			w->keep_box = false;
	}
	/* An web_answer before the end of the request: the rest of it is not waited for. */
	if (!w->request_sent)
		w->keep_box = false;
	if (r == 0 && !w->keep_box)
		r = http_head_add(&w->response, "Connection", "close");
	if (r == 0)
		r = http_head_write(&w->response, &w->box.out);
	return r < 0 ? err_errno(e, -r, "write an web_answer") : 0;
}

int web_take_response(struct web *w, struct err *e)
{
	struct http_head *h = &w->response;
	bool asked_upgrade = http_head_find(&w->request, "Upgrade") != NULL;
	int r;

	if (w->injection)
		injection_redact_head(w->injection, h);
	if (h->status == 101)
		return asked_upgrade
			       ? switch_protocols(w, e)
			       : err_set(e, ERR_PROTOCOL, EBADMSG,
					 "%.120s switched protocols unasked", w->config.host.text);
	if (h->status < 200) {
		http_head_strip_hop(h);
		r = w->request.minor > 0 ? http_head_write(h, &w->box.out) : 0;
		http_head_done(h);
		*h = (struct http_head){0};
		return r < 0 ? err_errno(e, -r, "write an web_answer") : 0;
	}
	r = http_body_init_response(&w->response_body, h, w->request.method, e);
	if (r < 0)
		return r;
	w->keep_up = h->minor > 0 && !http_head_has_token(h, "Connection", "close") &&
		     w->response_body.framing != HTTP_UNTIL_CLOSE;
	w->redacts = w->injection && is_plain(h);
	w->has_response = true;
	http_head_strip_hop(h);
	return frame_response(w, e);
}

/* ---- the loop ---- */

/* One exchange is over when the web_answer is: an upstream need not wait for the request's end. */
static void end_exchange(struct web *w)
{
	web_record_end(w, "ok", NULL);
	web_next(w);
}

static int step_switched(struct web *w, struct err *e)
{
	int r = web_move_frames(w, e);

	if (r != 0)
		return r;
	/* Where one side ended, what it said still goes to the other; then all is over. */
	if ((w->box.ended && buf_len(&w->up.out) == 0) ||
	    (w->up.ended && buf_len(&w->box.out) == 0)) {
		web_record_end(w, "ok", NULL);
		finish(w);
	}
	return 0;
}

static int step_move(struct web *w, struct err *e)
{
	int up = w->response_sent ? 0 : web_move_request(w, e);
	int down = up < 0 ? up : web_move_response(w, e);

	if (down < 0)
		return down;
	if (w->response_sent) {
		end_exchange(w);
		return 1;
	}
	return up | down;
}

static int step(struct web *w, struct err *e)
{
	switch (w->state) {
	case WEB_HEAD:
		if (w->up.channel && (w->up.ended || buf_len(&w->up.in) > 0))
			drop_up(w);
		return web_read_request(w) > 0;
	case WEB_MOVE:
		return step_move(w, e);
	case WEB_SWITCHED:
		return step_switched(w, e);
	case WEB_CLOSE:
		if (buf_len(&w->box.out) == 0 &&
		    (!w->box.channel || channel_finish(w->box.channel) != -EAGAIN)) {
			channel_free(take_ptr(w->box.channel), false);
			finish(w);
		}
		return 0;
	default:
		return 0;
	}
}

/* Goes on until nothing moves; then waits for either side. */
void web_run(struct web *w)
{
	struct err e = {0};
	int moved = 1;

	if (w->is_running || w->state == WEB_OVER)
		return;
	w->is_running = true;
	while (moved > 0 && w->state != WEB_OVER) {
		moved = web_read(w, &e);
		for (int r = moved; r >= 0 && w->state != WEB_OVER;) {
			r = step(w, &e);
			moved = r < 0 ? r : moved | r;
			if (r <= 0)
				break;
		}
		if (moved >= 0 && w->state != WEB_OVER) {
			int r = web_write(w, &e);

			moved = r < 0 ? r : moved | r;
		}
		if (moved > 0 && (w->state == WEB_MOVE || w->state == WEB_SWITCHED))
			ev_timer_set(w->config.door->ev, &w->timer, DOOR_IDLE_MS);
	}
	if (moved < 0 && w->state != WEB_OVER)
		web_fail(w, &e);
	w->is_running = false;
	if (w->state != WEB_OVER)
		web_want(w);
}

static void on_run(struct ev_defer *d)
{
	web_run(container(d, struct web, run));
}

static void on_timer(struct ev_timer *t)
{
	struct web *w = container(t, struct web, timer);
	struct err e;

	err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "nothing moved for too long");
	if (w->state == WEB_HEAD && buf_len(&w->box.in) == 0) {
		w->keep_box = false;
		web_next(w);
	} else if (w->state == WEB_HEAD || w->state == WEB_CLOSE) {
		web_cut(w, &e);
	} else {
		web_fail(w, &e);
	}
	web_run(w);
}

/* ---- its life ---- */

int web_new(struct web **ret, const struct web_config *c, struct channel *box, const void *first,
	    size_t n, struct err *e)
{
	struct web *w = calloc(1, sizeof(*w));

	if (!w) {
		channel_free(box, true);
		return err_errno(e, ENOMEM, "look into a connection");
	}
	w->config = *c;
	w->box.channel = box;
	box->owner = w;
	box->on_ready = on_ready;
	buf_init(&w->box.in, DOOR_BUFFER_MAX + 1);
	buf_init(&w->up.in, DOOR_BUFFER_MAX + 1);
	buf_init(&w->box.out, OUT_MAX);
	buf_init(&w->up.out, OUT_MAX);
	w->timer.on_timer = on_timer;
	w->run.on_defer = on_run;
	w->done.on_defer = on_done;
	w->wait.on_answer = web_on_answer;
	w->call.on_answer = web_on_recorded;
	request_done(w);
	w->keep_box = true;
	if (n > 0 && buf_append(&w->box.in, first, n) < 0) {
		web_free(w);
		return err_errno(e, ENOMEM, "look into a connection");
	}
	ev_timer_set(c->door->ev, &w->timer, DOOR_HEAD_MS);
	/* Never from within: the owner does not have it yet. */
	ev_defer(c->door->ev, &w->run);
	*ret = w;
	return 0;
}

bool web_judge_again(struct web *w)
{
	if (!w->has_request || w->state == WEB_OVER)
		return true;
	if (web_judge(w, w->query) == ACTION_ALLOW ||
	    (w->verdict.action == ACTION_ASK && w->was_asked))
		return true;
	if (w->verdict.action == ACTION_ASK && w->wait.ask)
		return true;
	ask_cancel(&w->wait);
	web_record_end(w, "cut", "the policy does not allow it any more");
	return false;
}

void web_free(struct web *w)
{
	if (!w)
		return;
	if (w->call.id)
		clerk_cancel(w->config.door->clerk, &w->call);
	ask_cancel(&w->wait);
	web_record_end(w, "cut", "it was cut");
	ev_timer_stop(w->config.door->ev, &w->timer);
	ev_defer_cancel(w->config.door->ev, &w->run);
	ev_defer_cancel(w->config.door->ev, &w->done);
	channel_free(w->box.channel, true);
	channel_free(w->up.channel, true);
	request_done(w);
	buf_done(&w->held);
	for (struct web_side *s = &w->box; s; s = s == &w->box ? &w->up : NULL) {
		if (s->out.data)
			explicit_bzero(s->out.data, s->out.cap);
		buf_done(&s->in);
		buf_done(&s->out);
	}
	free(w);
}
