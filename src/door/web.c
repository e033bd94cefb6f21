/*
 * One connection's requests, one after another; see web.h.
 *
 *	HEAD --head--> judge --ask--> DECIDE: a person
 *	               |        `--> DECIDE: secrets, then the row
 *	               `-deny--> DECIDE: the row; an answer of our own, then HEAD or CLOSE
 *	DECIDE --> DIAL, unless an upstream is there --> MOVE --both ended--> HEAD or CLOSE
 *	                                                 `--101--> SWITCHED
 *
 * A request is sent once. Where its upstream breaks before an answer began, the box gets a 502 and
 * the row says so; after that it is cut, so that a half answer never looks like a whole one.
 *
 * A rule belongs to the policy of the moment. When that changes web_judge_again gives the request
 * under way its new rule, or ends it.
 */
#include "base/fd.h"
#include "base/str.h"
#include "door/web_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads of both sides before others have their turn. */
enum { ROUNDS_MAX = 16 };

struct audit_row web_row(const struct web *w, const char *kind, const char *verdict,
			 const char *reason)
{
	return (struct audit_row){.kind = kind,
				  .verdict = verdict,
				  .reason = reason,
				  .exec_id = w->config.exec_id,
				  .host = w->config.host.text,
				  .port = w->config.port};
}

void web_record_end(struct web *w, const char *verdict, const char *reason)
{
	struct audit_row row = web_row(w, "done", verdict, reason);

	row.about = w->req.seq;
	row.address = w->address[0] ? w->address : NULL;
	row.bytes_up = w->req.bytes_up;
	row.bytes_down = w->req.bytes_down;
	row.duration_ms = ev_now(w->config.door->ev) - w->req.started_ms;
	row.status = w->resp.head.status;
	if (w->req.seq)
		broker_record(w->config.door->broker, NULL, &row);
	w->req.seq = 0;
}

void web_limit(struct web *w, uint64_t ms)
{
	struct ev *ev = w->config.door->ev;

	w->limit_ms = ms;
	w->moved_ms = ev_now(ev);
	if (ms && (!w->timer.armed || w->timer.at_ms > w->moved_ms + ms))
		ev_timer_set(ev, &w->timer, ms);
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
	ask_cancel(&w->wait, ASK_GAVE_UP);
	if (w->box.channel)
		channel_want(w->box.channel, 0);
	if (w->up.side.channel)
		channel_want(w->up.side.channel, 0);
	ev_defer(w->config.door->ev, &w->done);
}

static void drop_up(struct web *w, bool abort);

/* Both sides see that it broke. */
void web_cut(struct web *w, const struct err *e)
{
	/* It never came to a request: mostly a client that does not trust the box's authority. */
	if (!w->had_request) {
		struct audit_row row = web_row(w, "connect", "failed", e->msg);

		broker_record(w->config.door->broker, NULL, &row);
	}
	web_record_end(w, e->kind == ERR_LIMIT ? "cut" : "failed", e->msg);
	channel_free(take_ptr(w->box.channel), true);
	drop_up(w, true);
	finish(w);
}

static void on_dialled(struct dial *d, struct channel *up, struct err *e);

/* Wiped where it may have had a credential. */
static void forget(struct buf *b)
{
	buf_done(b);
	b->is_secret = false;
}

static void drop_up(struct web *w, bool abort)
{
	struct web_upstream *u = &w->up;

	channel_free(u->side.channel, abort);
	dial_done(&u->dial);
	buf_done(&u->side.in);
	buf_done(&u->side.out);
	*u = (struct web_upstream){0};
	buf_init(&u->side.in, DOOR_BUFFER_MAX + 1);
	buf_init(&u->side.out, WEB_OUT_MAX);
	dial_init(&u->dial, w->config.door);
	u->dial.on_done = on_dialled;
}

static void response_reset(struct web_response *r)
{
	http_head_done(&r->head);
	http_body_done(&r->body);
	inflater_free(r->inflater);
	buf_done(&r->packed);
	buf_done(&r->held);
	buf_done(&r->frames.control);
	*r = (struct web_response){0};
	buf_init(&r->packed, DOOR_BUFFER_MAX);
	buf_init(&r->held, REDACT_HELD_MAX);
	buf_init(&r->frames.control, WS_CONTROL_MAX);
}

static void reset_exchange(struct web *w)
{
	/* An upstream that is kept has sent all, and received all. */
	if (buf_len(&w->up.side.in) == 0)
		forget(&w->up.side.in);
	if (buf_len(&w->up.side.out) == 0)
		forget(&w->up.side.out);
	http_head_done(&w->req.head);
	http_body_done(&w->req.body);
	injection_free(w->req.injection);
	free(w->req.path);
	free(w->req.normal);
	free(w->req.query);
	w->req = (struct web_request){0};
	response_reset(&w->resp);
}

static void free_idle(struct buf *b)
{
	if (buf_len(b) == 0)
		buf_done(b);
}

/* Ready for the next request, or for the last bytes. */
void web_next(struct web *w)
{
	bool is_half = w->state == WEB_MOVE && !(w->req.is_sent && w->resp.is_sent);
	bool keep_up = w->up.keeps && !w->req.is_last && w->req.is_sent && !w->up.side.ended &&
		       !w->up.side.write_closed && buf_len(&w->up.side.in) == 0 &&
		       buf_len(&w->up.side.out) == 0 && !w->up.has_identity;

	reset_exchange(w);
	if (keep_up && w->keep_box)
		w->up.was_used = w->up.side.channel != NULL;
	else
		drop_up(w, is_half);
	w->state = w->keep_box ? WEB_HEAD : WEB_CLOSE;
	free_idle(&w->box.in);
	free_idle(&w->up.side.in);
	free_idle(&w->up.side.out);
	web_limit(w,
		  w->state == WEB_HEAD && buf_len(&w->box.in) == 0 ? DOOR_IDLE_MS : DOOR_HEAD_MS);
}

/* ---- the upstream ---- */

void web_send_request(struct web *w)
{
	const struct tls_identity *id =
		w->req.injection ? injection_identity(w->req.injection) : NULL;
	bool private = dial_may_be_private(w->req.verdict.rule, &w->config.host);
	const char *rule = w->req.verdict.rule ? w->req.verdict.rule->name : "";
	bool is_same_kind = w->up.private == private &&
			    w->up.injects == (w->req.injection != NULL) &&
			    (!w->req.injection || strcmp(w->up.rule, rule) == 0);
	/* A credential goes through these, and perhaps comes back. */
	struct buf *all[] = {&w->up.side.in, &w->up.side.out, &w->resp.packed, &w->resp.held,
			     &w->resp.frames.control};
	size_t before;
	struct err e;
	int r;

	/* One that closed meanwhile, or that was dialled under another rule's terms, is not used;
	 * nor one that a request of another kind went to, which a server might take for the
	 * beginning of one with a credential, or whose late answer would be searched for another
	 * credential than it may have. */
	if (w->up.side.channel && (id || !is_same_kind || !web_is_up_quiet(w)))
		drop_up(w, false);
	w->up.injects = w->req.injection != NULL;
	str_copy(w->up.rule, sizeof(w->up.rule), rule);
	before = buf_len(&w->up.side.out);
	r = web_choose_reuse(w, &e);
	for (size_t i = 0; r == 0 && web_has_secret(w) && i < sizeof(all) / sizeof(all[0]); i++)
		if (buf_set_secret(all[i], true) < 0)
			r = err_errno(&e, ENOMEM, "write a request");
	if (r == 0 && http_head_write(&w->req.head, &w->up.side.out) < 0)
		r = err_set(&e, ERR_LIMIT, EMSGSIZE, "the request's head is too long");
	if (r == 0) {
		w->up.head_left = buf_len(&w->up.side.out) - before;
		w->up.holds_secret = web_has_secret(w);
		r = web_count(w, w->up.head_left, 0, &e);
	}
	if (r < 0) {
		web_fail(w, &e);
		return;
	}
	if (w->up.side.channel) {
		w->state = WEB_MOVE;
		web_limit(w, DOOR_IDLE_MS);
		return;
	}
	/* Dialling has a limit of its own, and always comes to an end. */
	w->state = WEB_DIAL;
	web_limit(w, 0);
	w->up.private = private;
	w->up.has_identity = id != NULL;
	dial_start(&w->up.dial, &w->config.host, w->config.port, w->req.verdict.rule);
}

static void on_ready(struct channel *c, unsigned what)
{
	web_run(c->owner);
}

static void take_up(struct web *w, struct channel *up)
{
	up->owner = w;
	up->on_ready = on_ready;
	w->up.side.channel = up;
}

static void on_dialled(struct dial *d, struct channel *up, struct err *e)
{
	struct web *w = container(d, struct web, up.dial);
	struct door *door = w->config.door;
	const struct tls_upstream to = {
		.host = w->config.host.text,
		.port = w->config.port,
		.id = w->req.injection ? injection_identity(w->req.injection) : NULL,
		.is_secret = web_has_secret(w)};
	struct err why = *e; /* the dial goes with the upstream */

	str_copy(w->address, sizeof(w->address), d->address);
	/* No address of the host may be dialled. */
	if (!up && e->kind == ERR_DENIED) {
		struct audit_row row = web_row(w, "connect", "deny", why.msg);

		row.rule = w->req.verdict.rule ? w->req.verdict.rule->name : NULL;
		row.address = w->address[0] ? w->address : NULL;
		door_deny(door, NULL, &row, d->why);
	}
	if (up && w->config.tls)
		up = channel_tls_connect(door->tls, door->ev, up, &to, &why);
	if (up) {
		take_up(w, up);
		w->state = WEB_MOVE;
		/* For its TLS; with the first byte it is that of any exchange. */
		web_limit(w, DOOR_CONNECT_MS);
	} else {
		web_fail(w, &why);
	}
	web_run(w);
}

/* ---- the answer's head ---- */

static int write_response(struct web *w, struct err *e)
{
	size_t before = buf_len(&w->box.out);
	int r = http_head_write(&w->resp.head, &w->box.out);

	if (r < 0)
		return err_errno(e, -r, "write an answer");
	return web_count(w, 0, buf_len(&w->box.out) - before, e);
}

static int switch_protocols(struct web *w, struct err *e)
{
	bool extended = http_head_find(&w->resp.head, "Sec-WebSocket-Extensions") != NULL;
	int r = ws_check_response(&w->req.head, &w->resp.head, e);

	if (r < 0)
		return r;
	http_head_strip_hop(&w->resp.head);
	r = http_head_add(&w->resp.head, "Connection", "Upgrade");
	if (r == 0)
		r = http_head_add(&w->resp.head, "Upgrade", "websocket");
	if (r < 0)
		return err_errno(e, -r, "write an answer");
	ws_relay_init(&w->resp.from_box, true, extended);
	ws_relay_init(&w->resp.from_up, false, extended);
	w->resp.is_there = w->req.is_sent = true;
	w->state = WEB_SWITCHED;
	return write_response(w, e);
}

/* The coding of what is searched, which was not asked for: it is undone where that can be. The head
 * then speaks of the plain text: how long that is nobody knows yet, and what names or sums up the
 * bytes as they came is of other bytes. */
static int undo_coding(struct web *w, struct err *e)
{
	static const char *const of_packed[] = {
		"Content-Encoding", "Content-Length", "Accept-Ranges", "Content-MD5",
		"Digest",	    "Content-Digest", "Repr-Digest"};
	struct http_head *h = &w->resp.head;
	const char *coding = http_head_find(h, "Content-Encoding"),
		   *tag = http_head_find(h, "ETag");
	unsigned count = 0;
	char weak[256];
	int r;

	for (size_t i = 0; i < h->field_count; i++)
		count += http_name_is(h->fields[i].name, "Content-Encoding");
	if (count == 0 || (count == 1 && http_name_is(coding, "identity")) ||
	    w->resp.body.framing == HTTP_NO_BODY)
		return 0;
	/* A part of what was packed cannot be unpacked by itself. */
	r = count == 1 && h->status != 206 ? inflater_new(&w->resp.inflater, coding) : -EOPNOTSUPP;
	if (r == -EOPNOTSUPP)
		return err_set(e, ERR_PROTOCOL, EBADMSG,
			       "%.120s answered a request with a credential in a coding that was "
			       "not asked for (%.20s), so it cannot be searched",
			       w->config.host.text, count == 1 ? coding : "several");
	if (r == 0 && tag && tag[0] == '"' && strlen(tag) < sizeof(weak) - 2) {
		snprintf(weak, sizeof(weak), "W/%s", tag);
		http_head_remove(h, "ETag");
		r = http_head_add(h, "ETag", weak);
	}
	for (size_t i = 0; i < sizeof(of_packed) / sizeof(of_packed[0]); i++)
		http_head_remove(h, of_packed[i]);
	return r < 0 ? err_errno(e, -r, "inflate an answer") : 0;
}

int web_take_response(struct web *w, struct err *e)
{
	struct http_head *h = &w->resp.head;
	bool is_wanted;
	int r;

	if (w->req.injection)
		injection_redact_head(w->req.injection, h);
	if (h->status == 101)
		return http_head_find(&w->req.head, "Upgrade")
			       ? switch_protocols(w, e)
			       : err_set(e, ERR_PROTOCOL, EBADMSG,
					 "%.120s switched protocols unasked", w->config.host.text);
	if (h->status < 200) { /* more is to come */
		if (++w->req.interims > DOOR_INTERIM_MAX)
			return err_set(e, ERR_PROTOCOL, EBADMSG,
				       "%.120s gave more than %u interim answers to one request",
				       w->config.host.text, DOOR_INTERIM_MAX);
		http_head_strip_hop(h);
		/* A 100 that the box did not ask for is of no use to it, and some clients take it
		 * for the answer. */
		is_wanted = h->status != 100 || http_head_find(&w->req.head, "Expect");
		r = w->req.head.minor > 0 && is_wanted ? write_response(w, e) : 0;
		http_head_done(h);
		return r;
	}
	r = http_body_init_response(&w->resp.body, h, w->req.head.method, &door_http_limits, e);
	if (r < 0)
		return r;
	r = web_has_secret(w) ? undo_coding(w, e) : 0;
	if (r < 0)
		return r;
	w->up.keeps = h->minor > 0 && !http_head_has_token(h, "Connection", "close") &&
		      w->resp.body.framing != HTTP_UNTIL_CLOSE;
	w->resp.redacts = web_has_secret(w);
	if (w->resp.redacts)
		http_body_set_secret(&w->resp.body);
	w->resp.is_there = true;
	http_head_strip_hop(h);
	/* Without a length an older client learns the content's end only from the connection's. */
	w->resp.framing = w->resp.body.framing;
	if (w->resp.inflater || w->resp.framing == HTTP_UNTIL_CLOSE ||
	    w->resp.framing == HTTP_CHUNKED) {
		w->resp.framing = w->req.head.minor > 0 ? HTTP_CHUNKED : HTTP_UNTIL_CLOSE;
		if (w->resp.framing == HTTP_CHUNKED)
			r = http_head_add(h, "Transfer-Encoding", "chunked");
		else
			w->keep_box = false;
	}
	/* An answer before the end of the request: the rest of it is not waited for. */
	if (!w->req.is_sent)
		w->keep_box = false;
	if (r == 0 && !w->keep_box)
		r = http_head_add(h, "Connection", "close");
	return r < 0 ? err_errno(e, -r, "write an answer") : write_response(w, e);
}

/* ---- the loop ---- */

/* 1: it may go on at once; 0: not; negative: broken. */
static int step(struct web *w, struct err *e)
{
	int r, down;

	/* A kept one that closes, or says something unasked, is of no more use. */
	if ((w->state == WEB_HEAD || w->state == WEB_DECIDE) && w->up.side.channel &&
	    (w->up.side.ended || buf_len(&w->up.side.in) > 0))
		drop_up(w, false);
	switch (w->state) {
	case WEB_HEAD:
		return web_has_room(&w->box) && web_read_request(w) > 0;
	case WEB_DECIDE:
		/* As in conn.c: who ended its side while a person is waited for is gone. */
		if (!w->wait.ask || !w->box.ended)
			return 0;
		ask_cancel(&w->wait, ASK_GAVE_UP);
		return err_set(e, ERR_DENIED, ECONNRESET, ASK_ENDED);
	case WEB_MOVE:
		r = web_move_request(w, e);
		down = r < 0 ? r : web_move_response(w, e);
		/* It is over when the answer is: an upstream need not wait for the request's end.
		 */
		if (down < 0 || !w->resp.is_sent)
			return down < 0 ? down : r | down;
		web_record_end(w, "ok", NULL);
		web_next(w);
		return 1;
	case WEB_SWITCHED:
		r = web_move_frames(w, e);
		if (r != 0 || !w->box.finished || !w->up.side.finished)
			return r;
		web_record_end(w, "ok", NULL);
		channel_free(take_ptr(w->box.channel), false);
		drop_up(w, false);
		finish(w);
		return 0;
	case WEB_CLOSE:
		/* One that takes nothing more has gone by itself. */
		r = w->box.ended && w->box.is_broken ? -EIO : web_finish_side(w, &w->box, e);
		if (r != 0) {
			channel_free(take_ptr(w->box.channel), r < 0);
			finish(w);
		}
		return 0;
	default:
		return 0;
	}
}

/* Reads, goes on until nothing more comes of what was read, writes; and so on until nothing moves.
 * Then waits for either side. */
void web_run(struct web *w)
{
	struct err e = {0};
	int moved = 1, r = 0;

	if (w->is_running || w->state == WEB_OVER)
		return;
	w->is_running = true;
	for (unsigned rounds = 0; r >= 0 && moved && w->state != WEB_OVER; rounds++) {
		if (rounds == ROUNDS_MAX) {
			ev_defer(w->config.door->ev, &w->run);
			break;
		}
		moved = web_read(w);
		do {
			r = step(w, &e);
			moved |= r > 0;
		} while (r > 0 && w->state != WEB_OVER);
		if (r == 0 && w->state != WEB_OVER) {
			r = web_write(w, &e);
			moved |= r > 0;
		}
		if (r >= 0 && moved && (w->state == WEB_MOVE || w->state == WEB_SWITCHED)) {
			w->moved_ms = ev_now(w->config.door->ev);
			w->limit_ms = DOOR_IDLE_MS;
		}
	}
	if (r < 0 && w->state != WEB_OVER)
		web_fail(w, &e);
	w->is_running = false;
	if (w->state == WEB_OVER)
		return;
	if (w->state == WEB_HEAD)
		free_idle(&w->box.out);
	web_want(w);
}

static void on_run(struct ev_defer *d)
{
	web_run(container(d, struct web, run));
}

static void on_timer(struct ev_timer *t)
{
	struct web *w = container(t, struct web, timer);
	uint64_t now = ev_now(w->config.door->ev), due = w->moved_ms + w->limit_ms;
	struct err e;

	if (w->limit_ms == 0)
		return;
	if (now < due) {
		ev_timer_set(w->config.door->ev, &w->timer, due - now);
		return;
	}
	err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "nothing moved for too long");
	if (w->state == WEB_HEAD && buf_len(&w->box.in) == 0 && w->had_request) {
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
		channel_free(c->up, true);
		return err_errno(e, ENOMEM, "intercept a connection");
	}
	*w = (struct web){.config = *c,
			  .box.channel = box,
			  .timer.on_timer = on_timer,
			  .run.on_defer = on_run,
			  .done.on_defer = on_done,
			  .wait.on_answer = web_on_answer,
			  .call.on_answer = web_on_recorded,
			  .keep_box = true};
	box->owner = w;
	box->on_ready = on_ready;
	buf_init(&w->box.in, DOOR_BUFFER_MAX + 1);
	buf_init(&w->box.out, WEB_OUT_MAX);
	drop_up(w, false);
	response_reset(&w->resp);
	if (c->up) {
		take_up(w, c->up);
		w->up.private = c->up_private;
		w->up.keeps = true;
		str_copy(w->address, sizeof(w->address), c->up_address);
	}
	if (n > 0 && buf_append(&w->box.in, first, n) < 0) {
		web_free(w);
		return err_errno(e, ENOMEM, "intercept a connection");
	}
	web_limit(w, DOOR_HEAD_MS);
	/* Never from within: the owner does not have it yet. */
	ev_defer(c->door->ev, &w->run);
	*ret = w;
	return 0;
}

bool web_judge_again(struct web *w)
{
	bool was_once =
		w->config.door->keeps_once && w->req.verdict.rule && w->req.verdict.rule->once;
	const struct rule *rule;
	bool is_allowed, is_unfit;
	struct host address;

	/* An idle upstream goes: the next request dials under the new terms. What was denied
	 * gets its answer soon. The rule that said so goes with its policy. */
	if (w->state == WEB_OVER || !w->req.is_there || w->req.denied) {
		drop_up(w, false);
		w->req.verdict.rule = NULL;
		return true;
	}
	web_judge(w, w->req.query);
	rule = w->req.verdict.rule;
	is_unfit = web_is_unfit(w);
	is_allowed = !is_unfit && (w->req.verdict.action == ACTION_ALLOW ||
				   (w->req.verdict.action == ACTION_ASK &&
				    ask_holds(w->req.was_asked, w->req.asked_until_ms)) ||
				   (was_once && !rule));
	if (w->wait.ask && w->req.verdict.action == ACTION_ASK && !is_unfit)
		return true;
	if (is_allowed && w->wait.ask) {
		ask_cancel(&w->wait, ASK_DECIDED);
		web_allowed(w);
		ev_defer(w->config.door->ev, &w->run);
		return true;
	}
	/* The request is not on its way yet: what was prepared must still be what the rule says. */
	if (is_allowed && !was_once && (w->state == WEB_DECIDE || w->state == WEB_DIAL)) {
		bool injects = rule && rule_injects(rule);

		if (injects && w->req.injection)
			is_allowed = (w->config.tls || rule->plain_http) &&
				     injection_is_of(w->req.injection, rule) &&
				     (w->req.kept_count == rule->kept_count || !w->req.is_stripped);
		else
			is_allowed = !injects && !w->req.injection;
	}
	/* It went, or is going, where the new rule does not let it. */
	if (is_allowed && w->state != WEB_DECIDE && w->up.private)
		is_allowed = dial_may_be_private(rule, &w->config.host);
	/* A rule may deny the address that the host led to. */
	if (is_allowed && w->up.side.channel &&
	    (host_parse(&address, w->address) < 0 ||
	     dial_refused(w->config.door, &address, w->config.port, w->up.private))) {
		is_allowed = w->state == WEB_DECIDE;
		drop_up(w, true);
	}
	if (is_allowed)
		return true;
	ask_cancel(&w->wait, ASK_DECIDED);
	web_record_end(w, "cut", "the policy does not allow it any more");
	return false;
}

void web_free(struct web *w)
{
	if (!w)
		return;
	if (w->call.id)
		broker_cancel(w->config.door->broker, &w->call);
	ask_cancel(&w->wait, w->config.door->ending ? "the door ends" : ASK_GAVE_UP);
	web_record_end(w, "cut", "it was cut");
	ev_timer_stop(w->config.door->ev, &w->timer);
	ev_defer_cancel(w->config.door->ev, &w->run);
	ev_defer_cancel(w->config.door->ev, &w->done);
	channel_free(w->box.channel, true);
	drop_up(w, true);
	reset_exchange(w);
	buf_done(&w->box.in);
	buf_done(&w->box.out);
	free(w);
}
