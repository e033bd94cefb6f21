/*
 * Requests to keepers; see async.h.
 *
 * A link that ended may still have words in it: a keeper that cannot start its box says why and
 * goes, and what we wrote meanwhile fails first. So a closed link is read to its end before the
 * connection counts as lost. `gone` lives on the stack of whoever calls back, as in wire/link.c.
 */
#include "core/async.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/core.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CONNECT_RETRY_MS = 10 };

static struct core_request **find_request(struct core_conn *c, uint32_t id)
{
	struct core_request **at = &c->requests[id % CORE_BUCKETS];

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

/* ---- the end ---- */

static int err_gone(const struct core_conn *c, struct err *e)
{
	/* HELLO is the first thing a keeper writes: without it, it has begun nothing. */
	if (!c->ready && !c->first) {
		err_set(e, ERR_CONFLICT, ENOTCONN, "box '%s' is just ending", c->box);
		return -ECONNRESET;
	}
	if (!c->ready)
		return err_set(e, ERR_INTERRUPTED, ECONNRESET,
			       "the box's keeper ended before the box was up");
	return err_set(e, ERR_INTERRUPTED, ECONNRESET,
		       "the box ended before it answered; what was under way there is interrupted");
}

static int err_protocol(struct err *e)
{
	return err_set(e, ERR_PROTOCOL, EPROTO, "the box's keeper broke the protocol");
}

/* Tells every request why the connection was lost. False if that was freed on the way. */
static bool end_requests(struct core_conn *c)
{
	bool gone = false, *outer = c->gone;

	c->gone = &gone;
	for (unsigned i = 0; i < CORE_BUCKETS && !gone; i++) {
		struct core_request *q;

		while (!gone && (q = c->requests[i])) {
			core_request_forget(q);
			q->on_done(q, c->why_r, &c->why);
		}
	}
	if (gone && outer)
		*outer = true;
	if (!gone)
		c->gone = outer;
	return !gone;
}

static void on_late(struct ev_defer *d)
{
	(void)end_requests(container(d, struct core_conn, late));
}

/* Ends every request, then the connection. It may be freed on the way. */
static void lose(struct core_conn *c, int r, const struct err *e)
{
	if (c->lost)
		return;
	c->lost = true;
	c->why_r = r;
	c->why = *e;
	ev_timer_stop(c->ev, &c->retry);
	fd_close(&c->sock);
	fd_close(&c->start_lock_fd);
	wire_link_done(&c->link);
	if (c->owns_ev)
		ev_quit(c->ev);
	if (end_requests(c) && c->on_lost)
		c->on_lost(c, r, &c->why);
}

/* ---- frames ---- */

/* The sentence may have been written inside the box, so it is made safe to print. */
static int error_of(struct core_conn *c, const struct wire_frame *f, struct err *e)
{
	struct wire_error m;
	int code;

	c->violated = wire_error_decode(f, &m) < 0;
	if (c->violated)
		return err_protocol(e);
	code = m.code > 0 && m.code < 4096 ? (int)m.code : EIO;
	*e = (struct err){.code = code};
	e->kind =
		m.kind > ERR_NONE && m.kind < ERR_KIND_COUNT ? (enum err_kind)m.kind : ERR_INTERNAL;
	core_show(e->msg, sizeof(e->msg), m.msg ? m.msg : "no reason was given");
	return -code;
}

/* A frame for the connection itself. */
static int conn_frame(struct core_conn *c, const struct wire_frame *f, struct err *e)
{
	struct wire_hello hello;
	int r;

	if (f->type == WIRE_ERROR)
		return error_of(c, f, e);
	if (f->type != WIRE_HELLO || c->ready || wire_hello_decode(f, &hello) < 0)
		return err_protocol(e);
	r = wire_hello_agree(&hello, "the box's keeper",
			     "restart it (cove stop, cove start), or use the Cove that started it",
			     &c->peer, e);
	if (r < 0)
		return r;
	c->ready = true;
	if (!c->visit)
		fd_close(&c->start_lock_fd);
	if (c->owns_ev)
		ev_quit(c->ev);
	if (c->on_ready)
		c->on_ready(c);
	return 0;
}

/* Frames of earlier requests may still trickle in after those ended: they are dropped, and so is
 * what a newer keeper says beside the answers (hello.h). */
static void dispatch(struct core_conn *c, const struct wire_frame *f)
{
	struct core_request *q;
	struct err e = {0};
	int r;

	if (c->ready && !wire_type_is_known(f->type))
		return;
	if (f->id == 0 || !c->ready) {
		r = f->id == 0 ? conn_frame(c, f, &e) : err_protocol(&e);
		if (r < 0)
			lose(c, r, &e);
		return;
	}
	q = *find_request(c, f->id);
	if (!q)
		return;
	c->current = q;
	r = f->type == WIRE_ERROR ? error_of(c, f, &e) : q->on_frame(q, f, &e);
	if (r == 0 || !c->current)
		return;
	if (c->violated) {
		lose(c, r, &e);
		return;
	}
	if (r < 0 && f->type != WIRE_ERROR)
		core_request_cancel(q);
	else
		core_request_forget(q);
	q->on_done(q, r < 0 ? r : 0, &e);
}

static void on_link_frame(struct wire_link *l, const struct wire_frame *f)
{
	dispatch(container(l, struct core_conn, link), f);
}

/* Hands out what lies in the decoder. False if the connection was freed, lost or held by that;
 * otherwise *ret is negative where a rule was broken. */
static bool hand_out(struct core_conn *c, int *ret)
{
	bool gone = false, *outer = c->gone;
	struct wire_frame f;

	*ret = 0;
	c->gone = &gone;
	while (!gone && !c->lost && !c->link.held &&
	       (*ret = wire_decoder_next(&c->link.decoder, &f)) > 0)
		dispatch(c, &f);
	if (gone && outer)
		*outer = true;
	if (!gone)
		c->gone = outer;
	return !gone && !c->lost && !c->link.held;
}

void core_conn_drain(struct core_conn *c)
{
	struct err e = {0};
	ssize_t n;
	int r;

	do {
		size_t room = 0;
		uint8_t *space;

		if (!hand_out(c, &r))
			return;
		space = r < 0 ? NULL : wire_decoder_space(&c->link.decoder, &room);
		n = space ? recv(c->link.rfd, space, room, MSG_DONTWAIT) : -1;
		if (n > 0)
			wire_decoder_fill(&c->link.decoder, (size_t)n);
	} while (n > 0);
	r = r < 0 ? err_protocol(&e) : err_gone(c, &e);
	lose(c, r, &e);
}

static void on_link_close(struct wire_link *l, int error)
{
	struct core_conn *c = container(l, struct core_conn, link);

	c->closing = true;
	core_conn_drain(c);
}

static void on_link_drained(struct wire_link *l)
{
	struct core_conn *c = container(l, struct core_conn, link);

	if (c->on_drained)
		c->on_drained(c);
}

/* ---- connecting ---- */

static void on_retry(struct ev_timer *t);

static struct core_conn *conn_alloc(struct ev *ev, const char *box)
{
	struct core_conn *c = calloc(1, sizeof(*c));
	struct wire_hello hello = wire_hello_ours();

	if (!c)
		return NULL;
	c->ev = ev;
	c->owns_ev = !ev;
	if (!ev && ev_new(&c->ev) < 0) {
		free(c);
		return NULL;
	}
	c->sock = c->run_fd = c->start_lock_fd = -1;
	c->late.on_defer = on_late;
	c->retry.on_timer = on_retry;
	str_copy(c->box, sizeof(c->box), box);
	buf_init(&c->early, WIRE_OUT_MAX);
	/* It travels with the first request. */
	if (wire_hello_encode(&c->early, 0, 0, &hello) < 0) {
		core_conn_free(c);
		return NULL;
	}
	return c;
}

/* Takes fd. What was queued before is sent. */
static int join_link(struct core_conn *c, int fd)
{
	struct buf early = c->early;
	int r;

	c->link.on_frame = on_link_frame;
	c->link.on_close = on_link_close;
	c->link.on_drained = on_link_drained;
	r = wire_link_init(&c->link, c->ev, fd, fd);
	c->link.out = early;
	buf_init(&c->early, WIRE_OUT_MAX);
	if (buf_len(&c->link.out) > 0)
		wire_link_flush(&c->link);
	return r;
}

int core_conn_new(struct ev *ev, int fd, struct core_conn **ret, struct err *e)
{
	struct core_conn *c = conn_alloc(ev, "");
	int r = c ? join_link(c, fd) : -ENOMEM;

	if (r < 0) {
		if (!c)
			close(fd);
		core_conn_free(c);
		return err_errno(e, -r, "make a connection");
	}
	*ret = c;
	return 0;
}

static int err_connect(int r, const char *box, struct err *e)
{
	if (r == -ENOENT || r == -ECONNREFUSED) {
		err_set(e, ERR_CONFLICT, ENOTCONN, "box '%s' is not running", box);
		return r;
	}
	return err_errno(e, -r, "connect to the keeper of box '%s'", box);
}

/* 0: connected, or the keeper's queue is full and it is tried again. A state directory may lie
 * deeper than the 107 bytes a socket address holds; a descriptor's own name is always short. */
static int try_connect(struct core_conn *c)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int n = snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s/keeper.sock",
			 c->run_fd, c->box);

	if (n < 0 || (size_t)n >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	while (connect(c->sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == EAGAIN) {
			ev_timer_set(c->ev, &c->retry, CONNECT_RETRY_MS);
			return 0;
		}
		if (errno != EINTR)
			return -errno;
	}
	return join_link(c, take_fd(c->sock));
}

static void on_retry(struct ev_timer *t)
{
	struct core_conn *c = container(t, struct core_conn, retry);
	struct err e = {0};
	int r = try_connect(c);

	if (r < 0)
		lose(c, err_connect(r, c->box, &e), &e);
	else if (c->owns_ev)
		ev_quit(c->ev);
}

int core_conn_connect(struct ev *ev, int run_fd, const char *box, struct core_conn **ret,
		      struct err *e)
{
	autoclose int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct core_conn *c;
	int r;

	if (sock < 0)
		return err_errno(e, errno, "make a socket");
	c = conn_alloc(ev, box);
	if (!c)
		return err_errno(e, ENOMEM, "make a connection");
	c->sock = take_fd(sock);
	c->run_fd = run_fd;
	r = try_connect(c);
	if (r < 0) {
		core_conn_free(c);
		return err_connect(r, box, e);
	}
	*ret = c;
	return 0;
}

void core_conn_free(struct core_conn *c)
{
	struct err e = {0};

	if (!c)
		return;
	c->on_lost = NULL;
	if (!c->lost)
		lose(c, err_set(&e, ERR_INTERRUPTED, ECANCELED, "the request was given up"), &e);
	else
		(void)end_requests(c);
	if (c->gone)
		*c->gone = true;
	ev_defer_cancel(c->ev, &c->late);
	buf_done(&c->early);
	if (c->owns_ev)
		ev_free(c->ev);
	free(c);
}

int core_conn_fd(const struct core_conn *c)
{
	return c->link.ev ? c->link.rfd : c->sock;
}

bool core_conn_is_dead(const struct core_conn *c)
{
	struct pollfd p = {.fd = core_conn_fd(c), .events = POLLRDHUP};

	if (c->lost || c->closing)
		return true;
	return c->link.ev && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- requests ---- */

void core_request_begin(struct core_request *q, struct core_conn *c)
{
	/* 0 means the connection itself; the upper half is init's and the door's. */
	do {
		c->last_id = c->last_id % (WIRE_NET_BIT - 1) + 1;
	} while (*find_request(c, c->last_id));
	q->conn = c;
	q->id = c->last_id;
	q->next = c->requests[q->id % CORE_BUCKETS];
	c->requests[q->id % CORE_BUCKETS] = q;
	c->count++;
	if (c->lost)
		ev_defer(c->ev, &c->late);
}

struct buf *core_out(struct core_conn *c)
{
	return c->link.ev ? &c->link.out : &c->early;
}

void core_send(struct core_conn *c)
{
	if (c->link.ev)
		wire_link_flush(&c->link);
}

void core_request_forget(struct core_request *q)
{
	struct core_request **at;

	if (!q->conn)
		return;
	at = find_request(q->conn, q->id);
	*at = q->next;
	if (q->conn->current == q)
		q->conn->current = NULL;
	q->conn->count--;
	q->conn = NULL;
	q->next = NULL;
}

void core_request_cancel(struct core_request *q)
{
	struct core_conn *c = q->conn;

	core_request_forget(q);
	/* A queue without room belongs to a keeper that reads nothing: it learns by the end. */
	if (c && !c->lost && wire_encode(core_out(c), WIRE_CANCEL, 0, q->id, NULL, 0) == 0)
		core_send(c);
}

int core_unexpected(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	if (q->conn)
		q->conn->violated = true;
	return err_set(e, ERR_PROTOCOL, EPROTO,
		       "the box's keeper sent a frame of type %d out of turn", (int)f->type);
}
