/*
 * What a connection's first bytes decide; see door.h.
 *
 * The head of a proxy's request is read and answered here. A connection that is to be intercepted
 * is TLS or HTTP. Of one that passes as it is a TLS hello is looked at, to see that it asks for the
 * name that was judged: a server that answers for many names would otherwise serve another. So is
 * every later one that is in clear text (hello_watch.h). It is looked at as well where PostgreSQL's
 * client asks for TLS first. For the same reason one that turns out to be HTTP does not pass as it
 * is: web takes it over, with the upstream that was dialled for it.
 */
#include "door/conn.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/hello.h"

#include <errno.h>
#include <string.h>

/* Reads into first as much as there is. 1: something is new; 0: nothing; negative: over. */
static int read_more(struct door_conn *c, bool *ret_end)
{
	size_t before = buf_len(&c->first);
	ssize_t n = 1;

	while (n > 0 && buf_len(&c->first) < DOOR_HEAD_MAX) {
		size_t room = DOOR_HEAD_MAX - buf_len(&c->first);
		const uint8_t *from = NULL;

		n = channel_wire_peek(c->box, &from);
		if (n <= 0)
			break;
		if ((size_t)n > room)
			n = (ssize_t)room;
		if (buf_append(&c->first, from, (size_t)n) < 0)
			return -ENOMEM;
		channel_wire_took(c->box, (size_t)n);
	}
	*ret_end = n == 0;
	if (n < 0 && n != -EAGAIN)
		return (int)n;
	return buf_len(&c->first) > before || *ret_end;
}

/* ---- a proxy's request ---- */

static int take_target(struct door_conn *c, const struct http_head *h, size_t used, struct err *e)
{
	struct http_target t;
	int r = http_target_parse(h, &t, e);

	if (r < 0)
		return r;
	c->said_connect = strcmp(h->method, "CONNECT") == 0;
	if (!c->said_connect && strcmp(t.scheme, "http") != 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       t.scheme[0] ? "a proxy takes http:// here, and CONNECT for the rest"
					   : "this is a proxy: the target must be a whole URL");
	if (t.port > UINT16_MAX || (c->said_connect && t.port == 0))
		return err_set(e, ERR_INVALID, EINVAL, "not a port");
	if (host_parse(&c->host, t.host) < 0) {
		c->host = (struct host){0};
		return err_set(e, ERR_INVALID, EINVAL, "not a host");
	}
	c->port = (uint16_t)(t.port ? t.port : 80);
	/* The head of a request in absolute form is web's; that of a CONNECT was for us. */
	if (c->said_connect)
		buf_consume(&c->first, used);
	return 0;
}

void door_conn_read_head(struct door_conn *c)
{
	struct http_head head = {0};
	struct err e = {0};
	bool is_end = false;
	size_t used = 0;
	int r = read_more(c, &is_end);

	if (r < 0 || (is_end && buf_len(&c->first) == 0)) {
		door_conn_end(c, "failed", NULL);
		return;
	}
	r = http_request_parse(&head, buf_data(&c->first), buf_len(&c->first), &door_http_limits,
			       &used, &e);
	if (r == 0 && !is_end && buf_len(&c->first) < DOOR_HEAD_MAX)
		return;
	if (r == 0)
		r = err_set(&e, ERR_INVALID, EBADMSG, "half a request");
	if (r > 0)
		r = take_target(c, &head, used, &e);
	http_head_done(&head);
	if (r < 0) {
		/* The parser says which status it is to be answered with. */
		e.kind = ERR_INVALID;
		door_conn_deny(c, DENIAL_FORM, &e);
		return;
	}
	door_conn_judge(c);
}

/* ---- the name in a hello ---- */

static int check_hello(struct door_conn *c, const struct hello *h, bool passes, struct err *e)
{
	/* Where any name would be allowed the hidden one is, whatever it is. */
	if (h->has_ech && passes && !c->verdict.any_name &&
	    !(c->verdict.rule && c->verdict.rule->ech))
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s: its TLS hello has an encrypted name (ECH), which cannot be "
			       "judged: say `tls: intercept` in its rule, or `ech: true` to let it "
			       "pass",
			       c->host.text);
	if ((c->host.is_address && !h->sni[0]) || strcmp(h->sni, c->host.text) == 0)
		return 0;
	if (!h->sni[0])
		return err_set(e, ERR_DENIED, EACCES, "%.120s: its TLS hello names no host (SNI)",
			       c->host.text);
	return err_set(e, ERR_DENIED, EACCES, "%.80s: its TLS hello names another host, %.80s",
		       c->host.text, h->sni);
}

/* 1: may go on (is_tls says how), 0: more is needed, negative: not. *ret_len: of its hello. */
static int judge_first(struct door_conn *c, const void *p, size_t n, bool passes, size_t *ret_len,
		       struct err *e)
{
	struct hello hello;
	int r = hello_parse(&hello, p, n);

	*ret_len = hello.len;
	c->is_tls = r == 1;
	if (r == -EPROTO)
		return 1;
	if (r == -EBADMSG)
		return err_set(e, ERR_DENIED, EBADMSG,
			       "%.120s: its TLS hello is broken or too long to be judged",
			       c->host.text);
	if (r == 1 && check_hello(c, &hello, passes, e) < 0)
		return -EACCES;
	return r;
}

/* ---- intercepted ---- */

static void web_done(void *arg)
{
	door_conn_end(arg, "ok", NULL);
}

void door_conn_to_web(struct door_conn *c, bool is_tls, struct channel *up)
{
	struct web_config config = {
		.door = c->door,
		.host = c->host,
		.port = c->port,
		.tls = is_tls,
		.proxied = c->is_proxied && !c->said_connect,
		.asked = c->was_asked,
		.asked_until_ms = c->asked_until_ms,
		.exec_id = c->exec_id,
		.up = up,
		.up_address = c->dial.address,
		.up_private = c->dial.private,
		.on_done = web_done,
		.arg = c,
	};
	size_t n = is_tls ? 0 : buf_len(&c->first);
	struct err e = {0};
	int r = 0;

	ev_timer_stop(c->door->ev, &c->timer);
	c->state = CONN_WEB;
	c->is_answered = true;
	if (is_tls) {
		c->box = channel_tls_accept(c->door->tls, c->door->ev, c->box, c->host.text, &e);
		r = c->box ? channel_tls_feed(c->box, buf_data(&c->first), buf_len(&c->first))
			   : -EIO;
	}
	if (r == 0)
		r = web_new(&c->web, &config, take_ptr(c->box), buf_data(&c->first), n, &e);
	buf_done(&c->first);
	if (r < 0)
		door_conn_end(c, "failed", e.msg);
}

void door_conn_read_first(struct door_conn *c)
{
	struct err e = {0};
	bool is_end = false;
	size_t len;
	int r = read_more(c, &is_end);

	if (r < 0 || (is_end && buf_len(&c->first) == 0)) {
		door_conn_end(c, "failed", NULL);
		return;
	}
	r = judge_first(c, buf_data(&c->first), buf_len(&c->first), false, &len, &e);
	if (r == 0 && is_end)
		r = err_set(&e, ERR_DENIED, EBADMSG, "%.120s: half a TLS hello", c->host.text);
	if (r < 0)
		door_conn_deny(c, DENIAL_FORM, &e);
	else if (r == 0)
		channel_want(c->box, CHANNEL_IN);
	else
		door_conn_to_web(c, c->is_tls, NULL);
}

/* ---- passed as it is ---- */

/* A server of many names would serve another for its Host as it would for its SNI: a request must
 * be for the host that was judged, and that is web's to see to. Whatever the server said before it
 * was asked anything, it was not HTTP. */
static int judge_other(struct door_conn *c, const uint8_t *p, size_t n, bool is_end, struct err *e)
{
	struct sniff sniff = c->sniff;
	enum sniff_found found = sniff_feed(&sniff, p, n);

	if (found == SNIFF_OTHER || c->bytes_down > 0)
		return GATE_PASS;
	/* The end of the stream may be taken for the end of the line. */
	if (is_end && sniff.target == TARGET_FOUND && found != SNIFF_HTTP)
		return err_set(e, ERR_DENIED, EBADMSG, "%.120s: half an HTTP request",
			       c->host.text);
	if (is_end && found == SNIFF_LIKELY)
		return GATE_PASS;
	if (found == SNIFF_HTTP && !c->is_watched)
		return GATE_HAND;
	if (found == SNIFF_HTTP)
		return err_set(e, ERR_DENIED, EACCES,
			       "%.120s: an HTTP request whose first line comes in pieces",
			       c->host.text);
	if (found == SNIFF_LIKELY && !c->is_watched) {
		if (n < DOOR_BUFFER_MAX)
			return GATE_MORE;
		return err_set(e, ERR_DENIED, EACCES, "%.120s: its first line is too long",
			       c->host.text);
	}
	c->sniff = sniff;
	c->is_watched = true;
	return GATE_WATCH;
}

/* PostgreSQL's SSLRequest and GSSENCRequest: 8 bytes, after whose answer the client says its hello.
 * How many of n bytes are such requests; *ret_half: what follows them may become one. */
static size_t skip_requests(const uint8_t *p, size_t n, bool *ret_half)
{
	static const uint8_t request[] = {0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f};
	size_t at = 0;

	for (;;) {
		size_t left = n - at < sizeof(request) ? n - at : sizeof(request), same = 0;

		while (same < left && (p[at + same] == request[same] ||
				       (same == sizeof(request) - 1 && p[at + same] == 0x30)))
			same++;
		*ret_half = same == left && left > 0 && left < sizeof(request);
		if (same < sizeof(request))
			return at;
		at += sizeof(request);
	}
}

/* What the box says after its first hello, while the server has not chosen yet. */
static int judge_later(struct door_conn *c, const uint8_t *p, size_t n, struct err *e)
{
	struct hello hello;
	size_t used = 0;
	int r = 1;

	while (r > 0 && c->hellos.is_on && n > 0) {
		r = hello_watch_client(&c->hellos, p, n, &used, &hello);
		if (r < 0)
			return err_set(e, ERR_DENIED, EBADMSG,
				       "%.120s: before the server answered its TLS hello came what "
				       "no client sends there",
				       c->host.text);
		p += used;
		n -= used;
		if (r > 0)
			r = check_hello(c, &hello, true, e) < 0 ? -EACCES : 1;
	}
	if (r < 0)
		return r;
	return c->hellos.is_on ? GATE_WATCH : GATE_PASS;
}

/* The upstream's side of it. */
static bool watch(void *arg, const uint8_t *p, size_t n)
{
	struct door_conn *c = arg;

	if (c->hellos.is_on)
		hello_watch_server(&c->hellos, p, n);
	return !c->is_tls || c->hellos.is_on;
}

/* The box's first bytes, and those after a request for TLS. */
static int judge_hello(struct door_conn *c, const uint8_t *p, size_t n, bool is_end, struct err *e)
{
	bool is_half;
	size_t skip = skip_requests(p, n, &is_half), len;
	int r;

	if (is_half && !is_end)
		return GATE_MORE;
	if (skip == n) {
		c->is_asking = c->is_watched = true;
		return GATE_WATCH;
	}
	r = judge_first(c, p + skip, n - skip, true, &len, e);
	c->is_asking = c->is_asking && r == GATE_MORE;
	if (r != GATE_PASS || !c->is_tls)
		return r;
	hello_watch_start(&c->hellos);
	return judge_later(c, p + skip + len, n - skip - len, e);
}

static int gate(void *arg, const uint8_t *p, size_t n, bool is_end)
{
	struct door_conn *c = arg;
	const struct rule *rule = c->verdict.rule;
	bool any_host = c->verdict.any_name || (rule && rule->pass);
	bool is_first = !c->is_watched || c->is_asking;
	struct err e;
	int r = c->is_tls	    ? judge_later(c, p, n, &e)
		: n > 0 && is_first ? judge_hello(c, p, n, is_end, &e)
				    : GATE_PASS;

	if (r == GATE_PASS && n > 0 && !c->is_tls && !any_host)
		r = judge_other(c, p, n, is_end, &e);
	/* Half a hello says less than was to be known. */
	if (r == GATE_MORE && is_end)
		r = err_set(&e, ERR_DENIED, EBADMSG, "%.120s: half a TLS hello", c->host.text);
	if (r < 0)
		c->dial.error = e;
	return r;
}

static bool count(void *arg, uint64_t up, uint64_t down)
{
	struct door_conn *c = arg;

	c->bytes_up += up;
	c->bytes_down += down;
	return door_count(c->door, c->verdict.rule, up, down);
}

static uint64_t room(void *arg, bool is_up)
{
	struct door_conn *c = arg;

	return door_room(c->door, c->verdict.rule, is_up);
}

static void tunnel_ended(void *arg, enum tunnel_end end, int error)
{
	struct door_conn *c = arg;
	struct channel *up;
	struct err e;

	switch (end) {
	case TUNNEL_OK:
		door_conn_end(c, "ok", NULL);
		break;
	case TUNNEL_CUT:
		door_conn_end(c, "cut", "a byte budget is used up");
		break;
	case TUNNEL_IDLE:
		door_conn_end(c, "cut", "nothing passed for too long");
		break;
	case TUNNEL_HANDED:
		/* From here on every request is judged, so this one's share of the rule is given
		 * back. */
		tunnel_release(c->tunnel, &c->box, &up, &c->first);
		tunnel_free(take_ptr(c->tunnel));
		if (c->verdict.rule)
			door_give_back(c->door, c->verdict.rule);
		door_conn_to_web(c, false, up);
		break;
	case TUNNEL_REFUSED:
		door_conn_deny(c, DENIAL_FORM, &c->dial.error);
		break;
	case TUNNEL_RESET:
		door_conn_end(c, "ok", CONN_RESET);
		break;
	case TUNNEL_FAILED:
		err_errno(&e, -error, "the connection broke");
		door_conn_end(c, "failed", e.msg);
		break;
	}
}

void door_conn_to_tunnel(struct door_conn *c, struct channel *up)
{
	struct tunnel_config config = {
		.door = c->door,
		.box = take_ptr(c->box),
		.up = up,
		.gate = gate,
		.watch = watch,
		.count = count,
		.room = room,
		.on_end = tunnel_ended,
		.arg = c,
	};
	int r;

	c->state = CONN_TUNNEL;
	r = tunnel_new(&c->tunnel, &config, buf_data(&c->first), buf_len(&c->first));
	buf_done(&c->first);
	if (r < 0)
		door_conn_end(c, "failed", "no memory");
}
