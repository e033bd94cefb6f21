/*
 * A request to a port of a box, and its answer; see ports.h.
 *
 *	client -> on_body -> up -> core_port	as far as the box takes it; else the client waits
 *	core_port -> down -> answer -> sink	as far as the client takes it; else the box waits
 *
 * How it works: the head goes on as http/forward.h makes it, the body framed anew, both bounded by
 * UP_MAX. In the box every request has a connection of its own, which ends with it ("Connection:
 * close"): what a program says beside its answer reaches no other request. What it answers is
 * parsed by the parser of requests, as untrusted; a bad head is 502, and a body that breaks off
 * ends the client's connection, so that it is not taken for whole. From 101 on bytes pass as they
 * are, both ways.
 *
 * An answer may come before the request's end; then the rest of that is dropped.
 */
#include "api/ports.h"

#include "base/fd.h"
#include "core/port.h"
#include "http/cookie.h"
#include "http/forward.h"
#include "http/ws.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum {
	UP_MAX = 64 << 10,    /* of a request, that the box has not taken; its head comes on top */
	UP_FRAME = 32,	      /* around a chunk, and the last one */
	HEAD_MAX = 128 << 10, /* as it is written */
	ANSWER_HEAD_MAX = 64 << 10,
	ANSWER_FIELDS_MAX = 90,
	INTERIM_MAX = 8,	   /* answers of 1xx before the answer */
	QUIET_MS = 15 * 60 * 1000, /* without a byte either way: a stream or a socket has pings */
};

struct proxy {
	struct api_call *call;
	struct core_client_wait wait; /* for the keeper's HELLO */
	struct core_port *port;	      /* owned; NULL: not yet */
	struct buf up, down;
	enum http_framing framing; /* of the request */
	bool upgrades, switched;
	struct http_body body; /* of the answer */
	bool has_answer;
	bool box_ended, was_cut; /* it says nothing more; it did not come to an end */
	bool is_full;		 /* the client takes nothing more for now */
	unsigned interim;
	struct ev_timer quiet;
	uint64_t moved_ms;
};

static const char *const own_cookies[] = {PORT_COOKIE, PORT_COOKIE_TLS, NULL};

static void proxy_free(struct proxy *x)
{
	struct api_call *c = x->call;

	c->on_gone = NULL;
	c->on_room = NULL;
	c->wants_body = false;
	ev_timer_stop(c->api->ev, &x->quiet);
	core_client_await_cancel(&x->wait);
	core_port_cancel(x->port);
	buf_done(&x->up);
	buf_done(&x->down);
	http_body_done(&x->body);
	free(x);
}

/* ---- the end ---- */

static void proxy_fail(struct proxy *x, int r, const struct err *e)
{
	struct api_call *c = x->call;
	struct err why = *e;
	bool begun = c->state == API_STREAMS;

	proxy_free(x);
	if (begun)
		api_end(c, true);
	else
		api_reply(c, r, &why);
}

static void proxy_end(struct proxy *x)
{
	struct api_call *c = x->call;

	core_port_let_go(take_ptr(x->port));
	proxy_free(x);
	api_end(c, false);
}

/* What the program in the box said is no answer. */
static void bad_answer(struct proxy *x, const char *what)
{
	struct err e;

	proxy_fail(x,
		   err_set(&e, ERR_PROTOCOL, EBADMSG,
			   "port %u in the box gives no proper answer: %s", x->call->port->number,
			   what),
		   &e);
}

static void on_gone(struct api_call *c)
{
	struct proxy *x = c->arg;

	/* What a socket's client said last is still passed on. */
	if (x->switched && x->port) {
		core_port_write(x->port, buf_data(&x->up), buf_len(&x->up));
		core_port_let_go(take_ptr(x->port));
	}
	proxy_free(x);
}

static void on_quiet(struct ev_timer *t)
{
	struct proxy *x = container(t, struct proxy, quiet);
	uint64_t end = x->moved_ms + QUIET_MS, now = ev_now(x->call->api->ev);
	struct err e;

	if (now < end)
		ev_timer_set(x->call->api->ev, t, end - now);
	else
		proxy_fail(x,
			   err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "port %u in the box was silent",
				   x->call->port->number),
			   &e);
}

/* ---- to the box ---- */

static void proxy_up(struct proxy *x)
{
	bool was_full = buf_len(&x->up) + UP_FRAME >= UP_MAX;
	size_t n = core_port_write(x->port, buf_data(&x->up), buf_len(&x->up));

	buf_consume(&x->up, n);
	if (n > 0)
		x->moved_ms = ev_now(x->call->api->ev);
	if (was_full && buf_len(&x->up) + UP_FRAME < UP_MAX)
		api_body_room(x->call);
}

static size_t on_body(struct api_call *c, const void *p, size_t n)
{
	struct proxy *x = c->arg;
	size_t used = buf_len(&x->up) + UP_FRAME;

	if (!x->port || used >= UP_MAX)
		return 0;
	n = n < UP_MAX - used ? n : UP_MAX - used;
	if (http_body_write(x->framing, &x->up, p, n) < 0)
		return 0;
	proxy_up(x);
	return n;
}

static void on_body_end(struct api_call *c)
{
	struct proxy *x = c->arg;

	/* There is always room for it. */
	(void)http_body_write_end(x->framing, NULL, &x->up);
	if (x->port)
		proxy_up(x);
}

/* ---- from the box ---- */

static int begin_answer(struct proxy *x, const struct http_head *head, struct err *e)
{
	struct api_call *c = x->call;
	const char *length = http_head_find(head, "Content-Length");
	bool is_head = strcmp(c->method, "HEAD") == 0;
	struct http_head answer;
	char port[8];
	int r = http_body_init_response(&x->body, head, c->method,
					&(struct http_limits){ANSWER_HEAD_MAX, ANSWER_FIELDS_MAX},
					e);

	if (r < 0)
		return r;
	r = http_forward_answer(head, c->port->by_name ? HTTP_SITE_OWN : HTTP_SITE_SHARED,
				own_cookies, &answer);
	snprintf(port, sizeof(port), "%u", c->port->number);
	if (r == 0)
		r = http_head_add(&answer, "Cove-Port", port);
	if (r == 0 && x->body.framing == HTTP_LENGTH)
		c->length = x->body.left;
	else if (r == 0 && is_head && length)
		(void)str_parse_u64(length, UINT64_MAX - 1, &c->length);
	if (r == 0) {
		x->switched = x->body.framing == HTTP_SWITCHED;
		x->framing = x->switched ? HTTP_SWITCHED : x->framing;
		x->has_answer = true;
		c->wants_body = !x->body.ended;
		c->answer = &answer;
		api_begin(c, answer.status, NULL);
		c->answer = NULL;
	}
	http_head_done(&answer);
	return r < 0 ? err_errno(e, -r, "pass the answer on") : 0;
}

/* 1: there was a head, or one of those before it; 0: more is to come; negative: refused. */
static int take_head(struct proxy *x, struct err *e)
{
	const struct http_limits limits = {ANSWER_HEAD_MAX, ANSWER_FIELDS_MAX};
	struct http_head head = {0};
	size_t used = 0;
	int r = http_response_parse(&head, buf_data(&x->down), buf_len(&x->down), &limits, false,
				    &used, e);

	if (r <= 0)
		return r;
	if (head.status == 101)
		r = x->upgrades ? ws_check_response(&x->call->head, &head, e)
				: err_set(e, ERR_PROTOCOL, EBADMSG, "it switches unasked");
	else if (head.status < 200 && ++x->interim > INTERIM_MAX)
		r = err_set(e, ERR_PROTOCOL, EBADMSG, "too many heads before the answer");
	if (r >= 0) {
		buf_consume(&x->down, used);
		core_port_took(x->port, used);
	}
	if (r >= 0 && (head.status == 101 || head.status >= 200))
		r = begin_answer(x, &head, e);
	http_head_done(&head);
	return r < 0 ? r : 1;
}

/* Some of the body. 1: there may be more to do; 0: not now; negative: refused. */
static int take_body(struct proxy *x, struct err *e)
{
	const uint8_t *data;
	size_t used, len;
	int r = http_body_feed(&x->body, buf_data(&x->down), buf_len(&x->down), &used, &data, &len,
			       e);

	if (r >= 0 && len > 0)
		x->is_full = !api_bytes(x->call, data, len);
	if (r >= 0 && used > 0) {
		buf_consume(&x->down, used);
		core_port_took(x->port, used);
	}
	return r < 0 ? r : used > 0;
}

/* As far as it goes. It may end the call and free x. */
static void proxy_down(struct proxy *x)
{
	struct err e = {0};
	int r = 1;

	while (r > 0 && !x->is_full && !(x->has_answer && x->body.ended))
		r = x->has_answer ? take_body(x, &e) : take_head(x, &e);
	if (r >= 0 && x->has_answer && !x->body.ended && x->box_ended && buf_len(&x->down) == 0)
		r = x->was_cut ? err_set(&e, ERR_PROTOCOL, ECONNRESET, "it broke off")
			       : http_body_close(&x->body, &e);
	if (r < 0)
		bad_answer(x, e.msg);
	else if (x->has_answer && x->body.ended)
		proxy_end(x);
	else if (x->box_ended && !x->has_answer)
		bad_answer(x, "it closed the connection before");
}

static void on_room(struct api_call *c)
{
	struct proxy *x = c->arg;

	x->is_full = false;
	proxy_down(x);
}

static void on_port_bytes(struct core_port *p, const void *data, size_t n)
{
	struct proxy *x = p->arg;

	x->moved_ms = ev_now(x->call->api->ev);
	if (buf_append(&x->down, data, n) < 0)
		bad_answer(x, "there is no memory for it");
	else
		proxy_down(x);
}

static void on_port_end(struct core_port *p)
{
	struct proxy *x = p->arg;

	x->box_ended = true;
	proxy_down(x);
}

static void on_port_room(struct core_port *p)
{
	struct proxy *x = p->arg;
	bool was_wanted = x->call->wants_body;

	x->call->wants_body = true;
	proxy_up(x);
	if (!was_wanted)
		api_body_room(x->call);
}

static void on_port_over(struct core_port *p, int r, const struct err *e)
{
	struct proxy *x = p->arg;
	struct err why = *e;

	if (r == -ECONNREFUSED)
		r = err_set(&why, ERR_PROTOCOL, ECONNREFUSED,
			    "nothing listens on port %u in the box", x->call->port->number);
	/* What came before is still passed on, and may be all of it. */
	if (x->has_answer) {
		x->box_ended = x->was_cut = true;
		proxy_down(x);
	} else {
		proxy_fail(x, r, &why);
	}
}

/* ---- the beginning ---- */

static void on_ready(struct core_client_wait *w, struct core_conn *conn, int r, const struct err *e)
{
	struct proxy *x = container(w, struct proxy, wait);
	const struct core_port callbacks = {.on_bytes = on_port_bytes,
					    .on_end = on_port_end,
					    .on_room = on_port_room,
					    .on_over = on_port_over,
					    .arg = x};
	struct err why = {0};

	if (r == 0)
		r = core_port_begin(conn, x->call->port->number, &callbacks, &x->port, &why);
	else
		why = *e;
	if (r < 0) {
		proxy_fail(x, r, &why);
		return;
	}
	proxy_up(x);
	api_body_room(x->call);
}

/* Credentials of ours are never the box's to see. By path that is every one, as is each cookie: a
 * browser would send it for the name that the API has. By name the program's own pass. */
static void remove_secrets(const struct api_call *c, struct http_head *h)
{
	bool by_name = c->port->by_name;

	for (size_t i = 0; i < h->field_count;) {
		const struct http_field f = h->fields[i];
		bool is_auth =
			http_name_is(f.name, "authorization") || http_name_is(f.name, "x-api-key");
		bool goes = !by_name && (is_auth || http_name_is(f.name, "cookie"));

		/* What has '_' in its name is taken for another field by many programs. */
		goes = goes || strchr(f.name, '_') || (is_auth && api_port_is_key(f.value)) ||
		       (http_name_is(f.name, "referer") && strstr(f.value, PORT_LINK_QUERY));
		if (goes)
			http_head_remove(h, f.name); /* and those that are like it */
		i = goes ? 0 : i + 1;
	}
}

/* Of Cookie fields, without ours. */
static int pass_cookies(const struct api_call *c, struct http_head *h)
{
	struct buf b;
	int r = 0;

	http_head_remove(h, "Cookie");
	for (size_t i = 0; i < c->head.field_count && c->port->by_name && r == 0; i++) {
		const struct http_field *f = &c->head.fields[i];
		struct buf first;

		if (!http_name_is(f->name, "cookie"))
			continue;
		buf_init(&b, HEAD_MAX);
		buf_init(&first, HEAD_MAX);
		r = http_cookie_remove(f->value, PORT_COOKIE, &first);
		if (r == 0)
			r = buf_cstr(&first)
				    ? http_cookie_remove(buf_cstr(&first), PORT_COOKIE_TLS, &b)
				    : -ENOMEM;
		if (r == 0 && buf_len(&b) > 0)
			r = http_head_add(h, "Cookie", buf_cstr(&b));
		buf_done(&first);
		buf_done(&b);
	}
	return r;
}

static int write_request(struct proxy *x, struct err *e)
{
	struct api_call *c = x->call;
	const char *asked = http_head_find(&c->head, "Host");
	struct http_body body = {0};
	struct http_head head = {0};
	struct http_hop hop = {.target = c->port->target,
			       .client = c->client.is_local ? NULL : c->client.address,
			       .scheme = api_port_is_tls(c) ? "https" : "http",
			       .asked = asked ? asked : "localhost",
			       .prefix = c->port->prefix,
			       .upgrades = x->upgrades};
	char local[24];
	int r = http_body_init_request(&body, &c->head,
				       &(struct http_limits){HEAD_MAX, ANSWER_FIELDS_MAX}, e);

	if (r < 0)
		return r;
	snprintf(local, sizeof(local), "localhost:%u", c->port->number);
	hop.host = c->port->by_name && asked ? asked : local;
	hop.framing = x->framing = body.framing;
	hop.length = body.left;
	http_body_done(&body);
	r = http_forward_request(&c->head, &hop, &head);
	if (r == 0) {
		remove_secrets(c, &head);
		r = pass_cookies(c, &head);
	}
	if (r == 0)
		r = http_head_write(&head, &x->up);
	http_head_done(&head);
	return r < 0 ? err_errno(e, -r, "pass the request on") : 0;
}

int api_proxy(struct api_call *c, struct err *e)
{
	struct proxy *x = calloc(1, sizeof(*x));
	int r = 0;

	if (!x)
		return err_errno(e, ENOMEM, "connect to a port");
	x->call = c;
	c->arg = x;
	c->on_gone = on_gone;
	c->on_room = on_room;
	c->on_body = on_body;
	c->on_body_end = on_body_end;
	x->wait.on_ready = on_ready;
	x->quiet.on_timer = on_quiet;
	x->moved_ms = ev_now(c->api->ev);
	buf_init(&x->up, HEAD_MAX + UP_MAX);
	buf_init(&x->down, WIRE_NET_WINDOW);
	if (api_wants_socket(c)) {
		x->upgrades = true;
		r = ws_check_request(&c->head, e);
		if (r < 0)
			e->kind = ERR_INVALID;
	}
	if (r == 0)
		r = write_request(x, e);
	if (r == 0)
		r = core_client_await(c->api->client, c->port->box, &x->wait, e);
	if (r < 0) {
		proxy_free(x);
		return r;
	}
	ev_timer_set(c->api->ev, &x->quiet, QUIET_MS);
	return API_LATER;
}
