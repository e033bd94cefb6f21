/*
 * A port of this host that leads to one in the box: accept, PORT over one connection to the keeper,
 * bytes both ways.
 *
 *	accept -> PORT(id)
 *	socket -> DATA(id, 0)	as far as the box's credit and the room on the link go
 *	DATA(id, 1) -> socket	what it does not take waits, at most a window; then comes credit
 *	end of file <-> EOF	each way for itself; after both the connection is over
 *	reset <-> CANCEL	at once, from either side; where no program listens, a reset too
 *
 * It runs in the caller's thread, in a loop of its own, until stop_fd is readable or the box ends.
 * At FORWARD_CONNS_MAX it stops accepting, and who comes then waits in the kernel's queue. A socket
 * with which nothing can be done is taken out of the loop: a reset one would wake it for nothing.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"
#include "core/forwards.h"
#include "core/life.h"
#include "wire/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BACKLOG = 128, RETRY_MS = 100 };

struct forward {
	const char *box;
	unsigned port;
	struct core_conn *conn;	     /* owned */
	struct ev *ev;		     /* its own */
	struct ev_io listener, stop; /* listener.fd is owned */
	struct ev_timer retry;	     /* after an accept that found no descriptor left */
	struct route *routes;
	unsigned count;
	bool full;   /* more is queued for the keeper than it should be: no socket is read */
	bool ending; /* no connection is accepted any more */
	int result;
	struct err *e;
	void (*on_failed)(void *arg, const char *why); /* the caller's; may be NULL */
	void *arg;
};

/* One connection. */
struct route {
	struct core_request q;
	struct forward *f;
	struct wire_socket s;
	struct route *next, *before;
};

static void end(struct forward *f, int r)
{
	if (f->result == 0)
		f->result = r;
	ev_quit(f->ev);
}

/* ---- one connection ---- */

static void listen_again(struct forward *f);

/* The peer sees a reset unless the connection came to its end. */
static void route_free(struct route *t)
{
	struct forward *f = t->f;

	*(t->before ? &t->before->next : &f->routes) = t->next;
	if (t->next)
		t->next->before = t->before;
	f->count--;
	core_request_forget(&t->q);
	ev_io_remove(f->ev, &t->s.io);
	wire_socket_done(&t->s);
	free(t);
	listen_again(f);
}

/* After a step: 0 if it goes on, 1 if it is over, negative if it is to be cut. */
static int watch(struct route *t, int r)
{
	if (r < 0)
		return r;
	if (wire_socket_is_over(&t->s))
		return 1;
	return wire_socket_watch(&t->s, t->f->ev, !t->f->full);
}

/* The same, outside of a frame: ends what is over or cut. */
static void go_on(struct route *t, int r)
{
	r = watch(t, r);
	if (r < 0)
		core_request_cancel(&t->q);
	if (r != 0)
		route_free(t);
}

static void on_socket(struct ev_io *io, uint32_t events)
{
	struct route *t = container(io, struct route, s.io);
	int r = wire_socket_event(&t->s, events);

	if (wire_link_queued(&t->f->conn->link) > FORWARD_QUEUE_MAX)
		t->f->full = true;
	go_on(t, r);
}

/* ---- from the keeper ---- */

/* OK: what was sent before it waited there. CANCEL: the box has reset it. */
static int on_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct route *t = container(q, struct route, q);

	if (f->type == WIRE_CANCEL)
		return 1;
	return watch(t, f->type == WIRE_OK ? 0 : wire_socket_frame(&t->s, f));
}

/* A connection was refused or broken off there; all of them, where the box ended. */
static void on_done(struct core_request *q, int r, const struct err *e)
{
	struct route *t = container(q, struct route, q);
	struct forward *f = t->f;

	if (e->msg[0] && !f->conn->lost && f->on_failed)
		f->on_failed(f->arg, e->msg);
	route_free(t);
}

static void on_lost(struct core_conn *c, int r, const struct err *e)
{
	struct forward *f = c->arg;

	if (r == -ECONNRESET)
		end(f, err_set(f->e, ERR_INTERRUPTED, ECONNRESET, "box '%s' ended", f->box));
	else if (e->kind == ERR_PROTOCOL)
		end(f, err_set(f->e, ERR_PROTOCOL, EPROTO, "%s", e->msg));
	else
		end(f, err_set(f->e, ERR_INTERRUPTED, ECONNRESET, "%s", e->msg));
}

static void on_drained(struct core_conn *c)
{
	struct forward *f = c->arg;

	if (!f->full)
		return;
	f->full = false;
	for (struct route *t = f->routes, *next; t; t = next) {
		next = t->next;
		go_on(t, 0);
	}
}

/* ---- who comes ---- */

static void listen_again(struct forward *f)
{
	if (!f->listener.added && !f->retry.armed && !f->ending && f->count < FORWARD_CONNS_MAX &&
	    ev_io_add(f->ev, &f->listener, EPOLLIN) < 0)
		end(f, err_errno(f->e, ENOMEM, "listen"));
}

static void on_retry(struct ev_timer *timer)
{
	listen_again(container(timer, struct forward, retry));
}

/* Takes fd. */
static void route_start(struct forward *f, int fd)
{
	struct wire_port m = {.port = f->port};
	struct route *t = calloc(1, sizeof(*t));

	if (!t) {
		close(fd);
		return;
	}
	t->s.io.on_event = on_socket;
	t->q = (struct core_request){.on_frame = on_frame, .on_done = on_done};
	core_request_begin(&t->q, f->conn);
	if (wire_socket_init(&t->s, &f->conn->link, fd, t->q.id, WIRE_STDIN) < 0) {
		core_request_forget(&t->q);
		free(t);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	t->f = f;
	t->next = f->routes;
	if (t->next)
		t->next->before = t;
	f->routes = t;
	f->count++;
	if (wire_port_encode(core_out(f->conn), t->q.id, 0, &m) < 0) {
		end(f, err_set(f->e, ERR_INTERNAL, ENOBUFS,
			       "the box's keeper takes nothing any more"));
		return;
	}
	core_send(f->conn);
	go_on(t, 0);
}

static void on_accept(struct ev_io *io, uint32_t events)
{
	struct forward *f = container(io, struct forward, listener);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int code = fd < 0 ? errno : 0;

	if (fd >= 0)
		route_start(f, fd);
	if (f->count >= FORWARD_CONNS_MAX)
		ev_io_remove(f->ev, io);
	/* Anything else is about that one connection, which is gone already. */
	if (code != EMFILE && code != ENFILE && code != ENOBUFS && code != ENOMEM)
		return;
	ev_io_remove(f->ev, io);
	ev_timer_set(f->ev, &f->retry, RETRY_MS);
}

static void on_stop(struct ev_io *io, uint32_t events)
{
	end(container(io, struct forward, stop), 0);
}

/* ---- the whole ---- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int parse_address(const char *text, unsigned port, union address *ret, socklen_t *ret_len,
			 struct err *e)
{
	*ret = (union address){.any.sa_family = AF_INET};
	*ret_len = sizeof(ret->v4);
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_port = htons((uint16_t)port);
		return 0;
	}
	*ret = (union address){.any.sa_family = AF_INET6};
	*ret_len = sizeof(ret->v6);
	if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_port = htons((uint16_t)port);
		return 0;
	}
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.60s' is no address to listen on: write 127.0.0.1, ::1 or another of "
		       "this host's",
		       text);
}

static int fail_listen(const char *address, unsigned port, int code, struct err *e)
{
	if (code == EADDRINUSE)
		return err_set(e, ERR_CONFLICT, code,
			       "port %u of %.60s is in use here: choose another (0: a free one)",
			       port, address);
	if (code == EACCES)
		return err_set(e, ERR_DENIED, code,
			       "port %u of %.60s is for root: choose one from 1024 on", port,
			       address);
	if (code == EADDRNOTAVAIL)
		return err_set(e, ERR_INVALID, code, "%.60s is no address of this host", address);
	return err_errno(e, code, "listen on port %u of %.60s", port, address);
}

static int open_listener(const struct cove_forward *o, const char *address, int *ret_fd,
			 unsigned *ret_port, struct err *e)
{
	union address at;
	socklen_t len;
	autoclose int fd = -1;
	int r = parse_address(address, o->local_port, &at, &len, e);

	if (r < 0)
		return r;
	fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(e, errno, "make a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (at.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int));
	if (bind(fd, &at.any, len) < 0 || listen(fd, BACKLOG) < 0)
		return fail_listen(address, o->local_port, errno, e);
	if (getsockname(fd, &at.any, &len) < 0)
		return err_errno(e, errno, "ask for the port");
	*ret_port = ntohs(at.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
	*ret_fd = take_fd(fd);
	return 0;
}

/* A connection to the keeper for this alone. The handle's own is used only where there is no other
 * way to it. */
static int open_conn(struct cove_box *box, struct core_conn **ret, struct err *e)
{
	struct core_conn *c = NULL;
	int r = 0;

	if (box->idle && !box->idle->ready)
		r = core_conn_wait_ready(box->idle, START_WAIT_MS, e);
	if (r == 0 && box->cove->state.run_fd >= 0)
		r = core_conn_connect(NULL, box->cove->state.run_fd, box->name, &c, e);
	else if (r == 0)
		r = box_conn_get(box, &c, e);
	if (r < 0)
		return r;
	r = core_conn_wait_ready(c, START_WAIT_MS, e);
	if (r < 0)
		core_conn_free(c);
	else
		*ret = c;
	return r;
}

static int run(struct forward *f, const struct cove_forward *o, struct err *e)
{
	int r = 0;

	f->ev = f->conn->ev;
	f->conn->arg = f;
	f->conn->on_lost = on_lost;
	f->conn->on_drained = on_drained;
	f->listener.on_event = on_accept;
	f->stop = (struct ev_io){.on_event = on_stop, .fd = o->stop_fd};
	f->retry.on_timer = on_retry;
	if (o->stop_fd > 0)
		r = ev_io_add(f->ev, &f->stop, EPOLLIN);
	if (r == 0)
		r = ev_io_add(f->ev, &f->listener, EPOLLIN);
	if (r == 0 && f->conn->lost)
		on_lost(f->conn, f->conn->why_r, &f->conn->why);
	else if (r == 0)
		r = ev_run(f->ev);
	if (r < 0)
		err_errno(e, -r, "forward a port");
	ev_io_remove(f->ev, &f->listener);
	ev_timer_stop(f->ev, &f->retry);
	f->ending = true;
	while (f->routes)
		route_free(f->routes);
	ev_io_remove(f->ev, &f->stop);
	return r < 0 ? r : f->result;
}

static int forward(struct cove_box *box, const struct cove_forward *o, struct err *e)
{
	const char *address = o->address ? o->address : "127.0.0.1";
	autoclose int listener = -1;
	struct forward f = {.box = box->name,
			    .port = o->port,
			    .e = e,
			    .on_failed = o->on_failed,
			    .arg = o->arg};
	struct forward_mark mark = FORWARD_MARK_NONE;
	unsigned local_port = 0;
	int r = 0;

	if (o->port == 0 || o->port > UINT16_MAX || o->local_port > UINT16_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "a port is 1 to 65535");
	/* Whoever had that port last is waited for before it is asked for. */
	if (o->keep && o->local_port)
		r = forward_mark_make(box, address, o->port, o->local_port, o->wait, &mark, e);
	if (r == 0)
		r = open_listener(o, address, &listener, &local_port, e);
	if (r == 0 && o->keep && !o->local_port)
		r = forward_mark_make(box, address, o->port, local_port, false, &mark, e);
	if (r == 0)
		r = open_conn(box, &f.conn, e);
	if (r < 0) {
		forward_mark_done(&mark, true);
		return r;
	}
	f.listener.fd = listener;
	forward_mark_listens(&mark);
	if (o->on_ready)
		o->on_ready(o->arg, address, local_port);
	r = run(&f, o, e);
	core_conn_free(f.conn);
	forward_mark_done(&mark, false);
	return r;
}

int cove_forward(struct cove_box *box, const struct cove_forward *given, struct cove_error *err)
{
	struct cove_forward o;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r == 0)
		r = forward(box, &o, &e);
	return core_return(box->cove, box->name, r, &e, err);
}
