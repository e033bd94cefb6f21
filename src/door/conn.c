/*
 * Connections of the box: from the first frame to the last row. See door.h for the way they go, and
 * conn_first.c for what their first bytes decide.
 *
 *	door_conn_start -> HEAD (proxy only) -> judge
 *	judge:  deny                   a row, an answer, the end
 *	        intercept             FIRST -> web, which judges, records and dials by request
 *	        ask                    ASK -> as allow, or as deny
 *	        allow                  RECORD -> DIAL -> tunnel
 *
 * Nothing is read from the box before it was judged, except the head that names the host. A rule
 * belongs to the policy of the moment: when that changes every connection is judged again, and gets
 * its rule anew or is cut.
 */
#include "door/conn.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MAX = 8192 };

/* ---- rows ---- */

static struct audit_row row_of(const struct door_conn *c, const char *kind, const char *verdict)
{
	return (struct audit_row){
		.kind = kind,
		.verdict = verdict,
		.exec_id = c->exec_id,
		.host = c->host.text[0] ? c->host.text : NULL,
		.port = c->port,
		.rule = c->verdict.rule ? c->verdict.rule->name : NULL,
	};
}

/* ---- the end ---- */

void door_conn_end(struct door_conn *c, const char *verdict, const char *reason)
{
	struct door *d = c->door;
	struct audit_row row = row_of(c, "done", verdict);

	if (c->seq) {
		row.about = c->seq;
		row.reason = reason;
		row.address = c->dial.address[0] ? c->dial.address : NULL;
		row.bytes_up = c->bytes_up;
		row.bytes_down = c->bytes_down;
		row.duration_ms = ev_now(d->ev) - c->started_ms;
		broker_record(d->broker, NULL, &row);
	}
	ask_cancel(&c->wait, d->ending ? "the door ends" : ASK_GAVE_UP);
	if (c->call.id)
		broker_cancel(d->broker, &c->call);
	dial_done(&c->dial);
	tunnel_free(c->tunnel);
	web_free(c->web);
	channel_free(c->box, true);
	ev_timer_stop(d->ev, &c->timer);
	ev_defer_cancel(d->ev, &c->later);
	buf_done(&c->first);
	hello_watch_done(&c->hellos);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	d->conn_count--;
	free(c);
}

static void answer(struct door_conn *c, const struct err *e)
{
	struct answer a = {.status = answer_status(e),
			   .host = c->host.text[0] ? c->host.text : NULL,
			   .port = c->port,
			   .rule = c->verdict.rule ? c->verdict.rule->name : NULL};
	struct buf text;

	if (!c->box)
		return;
	if (!c->is_proxied || c->is_answered) {
		channel_wire_refuse(c->box, e);
		return;
	}
	/* As a proxy answers. It fits into the first window, so there is nothing to wait for. */
	buf_init(&text, ANSWER_MAX);
	if (answer_write(&text, &a, e) == 0 &&
	    channel_write(c->box, buf_data(&text), buf_len(&text)) == (ssize_t)buf_len(&text))
		channel_free(take_ptr(c->box), false);
	buf_done(&text);
}

/* It was allowed, and did not work. */
static void conn_fail(struct door_conn *c, const struct err *e)
{
	answer(c, e);
	door_conn_end(c, "failed", e->msg);
}

void door_conn_deny(struct door_conn *c, enum denial why, const struct err *e)
{
	struct audit_row row = row_of(c, "connect", "deny");

	row.reason = e->msg;
	row.address = c->dial.address[0] ? c->dial.address : NULL;
	door_deny(c->door, NULL, &row, why);
	conn_fail(c, e);
}

/* ---- judged ---- */

static struct subject subject_of(const struct door_conn *c)
{
	return (struct subject){SUBJECT_CONNECTION, &c->host, c->port, NULL};
}

/* A row that allows it; what comes next waits until it is written. */
static void allowed(struct door_conn *c)
{
	struct audit_row row = row_of(c, "connect", "allow");
	struct err e;

	if (!door_take(c->door, c->verdict.rule)) {
		err_set(&e, ERR_LIMIT, EDQUOT, "%.120s port %u: the rate of '%.40s' is used up",
			c->host.text, c->port, c->verdict.rule->name);
		door_conn_deny(c, DENIAL_BUDGET, &e);
		return;
	}
	c->state = CONN_RECORD;
	c->was_once = c->verdict.rule && c->verdict.rule->once;
	row.reason = c->was_asked ? "a person allowed it" : NULL;
	broker_record(c->door->broker, &c->call, &row);
}

static void on_recorded(struct broker_call *call, int r, struct err *e)
{
	struct door_conn *c = container(call, struct door_conn, call);
	struct err said;

	/* Why not would name files of the host. */
	if (r < 0) {
		err_set(&said, e->kind, e->code,
			"%.100s could not be recorded, so it is not let through; see `cove "
			"inspect %s`",
			c->host.text, c->door->config.box);
		conn_fail(c, &said);
		return;
	}
	c->seq = call->seq;
	c->state = CONN_DIAL;
	dial_start(&c->dial, &c->host, c->port, c->verdict.rule);
}

static void on_answer(struct ask_wait *w, bool is_allowed, const char *by)
{
	struct door_conn *c = container(w, struct door_conn, wait);
	struct err e;

	channel_want(c->box, 0);
	if (is_allowed) {
		c->was_asked = true;
		c->asked_until_ms = w->until_ms;
		allowed(c);
		return;
	}
	err_set(&e, ERR_DENIED, EACCES,
		by ? "%.120s port %u was denied by %.40s"
		   : "%.120s port %u: it was not allowed in time",
		c->host.text, c->port, by);
	door_conn_deny(c, DENIAL_PERSON, &e);
}

static void ask(struct door_conn *c)
{
	struct ask_what what = {
		.host = c->host.text,
		.port = c->port,
		.rule = c->verdict.rule,
		.exec_id = c->exec_id,
		.timeout_ms = c->verdict.rule ? c->verdict.rule->ask_timeout_ms : 0,
	};
	struct err e;
	int r = ask_start(c->door, &c->wait, &what);

	c->state = CONN_ASK;
	/* A program that closed looks like one that only has no more to say. While a person is
	 * waited for it is taken for gone, so that nothing is sent for nobody: few end their side
	 * and then wait for that long. */
	channel_want(c->box, r == 0 ? CHANNEL_END : 0);
	if (r == 0)
		return;
	err_set(&e, ERR_LIMIT, -r, "%.120s port %u: too many requests wait for an answer",
		c->host.text, c->port);
	door_conn_deny(c, DENIAL_LIMIT, &e);
}

/* The box may send: a direct connection gets OK, a CONNECT its 200. */
static int say_ok(struct door_conn *c)
{
	static const char text[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	ssize_t n = (ssize_t)sizeof(text) - 1;
	int r = 0;

	if (!c->has_ok)
		r = wire_link_send(&c->door->keeper, WIRE_OK, 0, c->id, NULL, 0);
	c->has_ok = true;
	if (r == 0 && c->said_connect && !c->is_answered) {
		c->is_answered = true;
		r = channel_write(c->box, text, (size_t)n) == n ? 0 : -EIO;
	}
	return r;
}

static void on_dialled(struct dial *d, struct channel *up, struct err *e)
{
	struct door_conn *c = container(d, struct door_conn, dial);

	if (!up && e->kind == ERR_DENIED) {
		door_conn_deny(c, d->why, e);
	} else if (!up) {
		conn_fail(c, e);
	} else if (say_ok(c) < 0) {
		channel_free(up, true);
		door_conn_end(c, "failed", "the keeper does not listen");
	} else {
		door_conn_to_tunnel(c, up);
	}
}

void door_conn_judge(struct door_conn *c)
{
	const struct subject about = subject_of(c);
	struct verdict *v = &c->verdict;
	enum denial why;
	struct err e;

	ev_timer_stop(c->door->ev, &c->timer);
	channel_want(c->box, 0);
	door_decide(c->door, &about, v);
	if (v->action == ACTION_DENY) {
		if (v->rule && v->rule->once)
			(void)door_take(c->door, v->rule);
		why = door_explain(c->door, v, &about, &e);
		door_conn_deny(c, why, &e);
	} else if (c->is_proxied && !c->said_connect) {
		door_conn_to_web(c, false, NULL);
	} else if (v->inspect && say_ok(c) < 0) {
		door_conn_end(c, "failed", NULL);
	} else if (v->inspect) { /* each request of it will be judged by itself */
		c->state = CONN_FIRST;
		ev_timer_set(c->door->ev, &c->timer, DOOR_HEAD_MS);
		door_conn_read_first(c);
	} else if (v->action == ACTION_ASK) {
		ask(c);
	} else {
		allowed(c);
	}
}

/* ---- the beginning ---- */

static void on_ready(struct channel *channel, unsigned what)
{
	struct door_conn *c = channel->owner;
	struct err e;

	if (c->state == CONN_HEAD) {
		door_conn_read_head(c);
	} else if (c->state == CONN_FIRST) {
		door_conn_read_first(c);
	} else if (c->state == CONN_ASK && what & CHANNEL_END) {
		err_set(&e, ERR_DENIED, ECONNRESET, ASK_ENDED);
		conn_fail(c, &e);
	}
}

static void on_later(struct ev_defer *l)
{
	struct door_conn *c = container(l, struct door_conn, later);

	if (c->tunnel && tunnel_is_reset(c->tunnel))
		door_conn_end(c, "ok", CONN_RESET);
	else
		door_conn_end(c, "cut", ASK_GAVE_UP);
}

/* The channel says so from anywhere, also while this connection's own code runs. */
static void on_cancel(void *arg)
{
	struct door_conn *c = arg;

	ev_defer(c->door->ev, &c->later);
}

static void on_timer(struct ev_timer *t)
{
	struct door_conn *c = container(t, struct door_conn, timer);
	struct err e;

	err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "nothing to look at came in %u s", DOOR_HEAD_MS / 1000);
	conn_fail(c, &e);
}

/* True if there is room for one more. */
static bool check_caps(struct door_conn *c)
{
	struct door *d = c->door;
	uint64_t conns = door_conns_max(d), bytes = door_bytes_max(d);
	struct err e;

	if (conns == 0 || conns > DOOR_CONNS_MAX)
		conns = DOOR_CONNS_MAX;
	if (d->conn_count > conns)
		err_set(&e, ERR_LIMIT, EUSERS, "this box has %u connections, and may have %llu",
			d->conn_count - 1, (unsigned long long)conns);
	else if (bytes && d->bytes_up + d->bytes_down >= bytes)
		err_set(&e, ERR_LIMIT, EDQUOT, "this box has used up its %llu bytes",
			(unsigned long long)bytes);
	else
		return true;
	door_conn_deny(c, DENIAL_LIMIT, &e);
	return false;
}

void door_conn_start(struct door *d, uint32_t id, const struct wire_connect *m)
{
	struct door_conn *c = calloc(1, sizeof(*c));
	struct err e;
	int r = c ? channel_wire_new(&c->box, &d->exchange, id, on_cancel, c) : -ENOMEM;

	if (r < 0) {
		free(c);
		err_errno(&e, -r, "a connection");
		door_reply(d, id, r, &e);
		return;
	}
	*c = (struct door_conn){.door = d,
				.id = id,
				.exec_id = m->exec_id,
				.box = c->box,
				.is_proxied = m->proxy,
				.started_ms = ev_now(d->ev),
				.timer.on_timer = on_timer,
				.later.on_defer = on_later,
				.wait.on_answer = on_answer,
				.call.on_answer = on_recorded,
				.next = d->conns,
				.at = &d->conns};
	c->box->owner = c;
	c->box->on_ready = on_ready;
	buf_init(&c->first, DOOR_HEAD_MAX);
	dial_init(&c->dial, d);
	c->dial.on_done = on_dialled;
	if (c->next)
		c->next->at = &c->next;
	d->conns = c;
	d->conn_count++;
	if (m->proxy) {
		if (!check_caps(c))
			return;
		c->state = CONN_HEAD;
		c->has_ok = wire_link_send(&d->keeper, WIRE_OK, 0, id, NULL, 0) == 0;
		ev_timer_set(d->ev, &c->timer, DOOR_HEAD_MS);
		channel_want(c->box, CHANNEL_IN);
		return;
	}
	c->port = (uint16_t)m->port;
	if (!m->host || m->port == 0 || m->port > UINT16_MAX || host_parse(&c->host, m->host) < 0) {
		err_set(&e, ERR_INVALID, EINVAL, "not a host and a port");
		door_conn_deny(c, DENIAL_FORM, &e);
		return;
	}
	if (check_caps(c))
		door_conn_judge(c);
}

/* ---- a new policy ---- */

/* False: it is to be cut. */
static bool judge_again(struct door_conn *c)
{
	const struct subject about = subject_of(c);
	struct verdict v;
	bool is_private;

	if (c->state == CONN_HEAD)
		return true;
	door_decide(c->door, &about, &v);
	c->verdict.rule = v.rule;
	c->verdict.any_name = v.any_name;
	switch (c->state) {
	case CONN_ASK: /* the policy may have decided meanwhile */
		if (v.action == ACTION_ASK && !v.inspect)
			return true;
		ask_cancel(&c->wait, ASK_DECIDED);
		if (v.action == ACTION_DENY)
			return false;
		door_conn_judge(c);
		return true;
	case CONN_FIRST:
		c->verdict = v;
		return v.action != ACTION_DENY && v.inspect;
	case CONN_WEB:
		c->verdict.action = v.action;
		return web_judge_again(c->web);
	default:
		break;
	}
	/* What let it in is used up, and nothing speaks against it. */
	if (c->was_once && c->door->keeps_once && !v.rule)
		return true;
	if (v.action == ACTION_DENY || v.inspect ||
	    (v.action == ACTION_ASK && !ask_holds(c->was_asked, c->asked_until_ms)))
		return false;
	/* It was dialled, or is being dialled, at an address that the new rule does not give. */
	is_private = dial_may_be_private(v.rule, &c->host);
	if (c->dial.next > 0 && c->dial.next <= c->dial.count)
		return !dial_refused(c->door, &c->dial.addrs[c->dial.next - 1], c->port,
				     is_private);
	return is_private || !c->dial.private;
}

unsigned door_conns_judge(struct door *d, bool only_asked)
{
	struct err e;
	unsigned cut = 0;

	for (struct door_conn *c = d->conns, *next; c; c = next) {
		next = c->next;
		if ((only_asked && c->state != CONN_ASK) || judge_again(c))
			continue;
		err_set(&e, ERR_DENIED, EACCES, "the policy does not allow %.120s port %u any more",
			c->host.text, c->port);
		answer(c, &e);
		door_conn_end(c, "cut", e.msg);
		cut++;
	}
	return cut;
}

void door_conns_free(struct door *d)
{
	while (d->conns)
		door_conn_end(d->conns, "cut", "the door ends");
}
