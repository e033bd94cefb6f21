/*
 * A port of this host that leads to one in the box: accept, PORT over one connection to the keeper,
 * bytes both ways.
 *
 *	accept -> PORT(id)
 *	socket -> DATA(id, 0)	as far as the box's credit and the room on the link go
 *	DATA(id, 1) -> socket	what it does not take waits, at most a window; then comes credit
 *	end of file <-> EOF	each way for itself; after both the connection is over
 *	reset <-> CANCEL	at once, from either side; where nobody listens, a reset too
 *
 * It runs in the caller's thread, in a loop of its own, until stop_fd is readable or the box ends.
 * At FORWARD_CONNS_MAX it stops accepting, and who comes then waits in the kernel's queue. A socket
 * with which nothing can be done is taken out of the loop: a reset one would wake it for nothing.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"
#include "core/life.h"
#include "wire/link.h"
#include "wire/msg.h"
#include "wire/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BUCKETS = 256, BACKLOG = 128, RETRY_MS = 100 };

struct forward {
	const char *box;
	unsigned port;
	struct ev *ev; /* owned */
	struct wire_link link;
	struct ev_io listener, stop; /* listener.fd is owned */
	struct ev_timer retry;	     /* after an accept that found no descriptor left */
	struct route *routes[BUCKETS];
	unsigned count;
	uint32_t last_id;
	bool full;   /* more is queued for the keeper than it should be: nobody reads */
	bool ending; /* nobody is let in any more */
	int result;
	struct err *e;
	void (*on_failed)(void *arg, const char *why); /* the caller's; may be NULL */
	void *arg;
};

/* One connection. */
struct route {
	struct forward *f;
	struct wire_socket s;
	struct route *next; /* of its bucket */
};

static void end(struct forward *f, int r)
{
	if (f->result == 0)
		f->result = r;
	ev_quit(f->ev);
}

static void lost(struct forward *f)
{
	end(f, err_set(f->e, ERR_INTERNAL, ENOBUFS, "the box's keeper takes nothing any more"));
}

/* ---- one connection ---- */

static struct route *find_route(struct forward *f, uint32_t id)
{
	struct route *t = f->routes[id % BUCKETS];

	while (t && t->s.id != id)
		t = t->next;
	return t;
}

static void listen_again(struct forward *f);

/* The peer sees a reset unless the connection came to its end. */
static void route_free(struct route *t)
{
	struct forward *f = t->f;
	struct route **at = &f->routes[t->s.id % BUCKETS];

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	f->count--;
	ev_io_remove(f->ev, &t->s.io);
	wire_socket_done(&t->s);
	free(t);
	listen_again(f);
}

static void cancel(struct route *t)
{
	if (wire_link_send(&t->f->link, WIRE_CANCEL, 0, t->s.id, NULL, 0) < 0)
		lost(t->f);
	route_free(t);
}

/* After a step: goes on, or ends what is over. */
static void settle(struct route *t, int r)
{
	if (r == 0 && wire_socket_is_over(&t->s)) {
		route_free(t);
		return;
	}
	if (r == 0)
		r = wire_socket_watch(&t->s, t->f->ev, !t->f->full);
	if (r < 0)
		cancel(t);
}

static void on_socket(struct ev_io *io, uint32_t events)
{
	struct route *t = container(io, struct route, s.io);
	int r = wire_socket_event(&t->s, events);

	if (wire_link_queued(&t->f->link) > FORWARD_QUEUE_MAX)
		t->f->full = true;
	settle(t, r);
}

/* ---- from the keeper ---- */

/* The sentence may come from inside the box. */
static void tell_failed(const struct forward *f, const struct wire_frame *frame)
{
	struct wire_error m;
	char shown[sizeof(f->e->msg)];

	if (!f->on_failed || wire_error_decode(frame, &m) < 0)
		return;
	f->on_failed(f->arg,
		     core_show(shown, sizeof(shown), m.msg ? m.msg : "no reason was given"));
}

static void route_frame(struct route *t, const struct wire_frame *f)
{
	int r = 0;

	switch (f->type) {
	case WIRE_OK: /* what was sent before it waited there */
		break;
	case WIRE_ERROR:
		tell_failed(t->f, f);
		route_free(t);
		return;
	case WIRE_CANCEL:
		route_free(t);
		return;
	default:
		r = wire_socket_frame(&t->s, f);
	}
	settle(t, r);
}

/* Why the keeper ends it all. The sentence may come from inside the box. */
static void take_reason(struct forward *f, const struct wire_frame *frame)
{
	struct wire_error m;
	char shown[sizeof(f->e->msg)];

	if (wire_error_decode(frame, &m) < 0)
		return;
	core_show(shown, sizeof(shown), m.msg ? m.msg : "no reason was given");
	end(f, err_set(f->e, ERR_INTERRUPTED, ECONNRESET, "%s", shown));
}

/* Frames of connections that are over may still come: nobody misses them. */
static void on_frame(struct wire_link *l, const struct wire_frame *frame)
{
	struct forward *f = container(l, struct forward, link);
	struct route *t = find_route(f, frame->id);

	if (t)
		route_frame(t, frame);
	else if (frame->id == 0 && frame->type == WIRE_ERROR)
		take_reason(f, frame);
}

static void on_close(struct wire_link *l, int error)
{
	struct forward *f = container(l, struct forward, link);

	if (error == -EBADMSG)
		end(f, err_set(f->e, ERR_PROTOCOL, EPROTO, "the box's keeper broke the protocol"));
	else
		end(f, err_set(f->e, ERR_INTERRUPTED, ECONNRESET, "box '%s' ended", f->box));
}

static void on_drained(struct wire_link *l)
{
	struct forward *f = container(l, struct forward, link);

	if (!f->full)
		return;
	f->full = false;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct route *t = f->routes[i], *next; t; t = next) {
			next = t->next;
			settle(t, 0);
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

static uint32_t next_id(struct forward *f)
{
	do {
		f->last_id = f->last_id % (WIRE_NET_BIT - 1) + 1;
	} while (find_route(f, f->last_id));
	return f->last_id;
}

/* Takes fd. */
static void route_start(struct forward *f, int fd)
{
	struct wire_port m = {.port = f->port};
	struct route *t = calloc(1, sizeof(*t));

	if (t)
		t->s.io.on_event = on_socket;
	else
		close(fd);
	if (!t || wire_socket_init(&t->s, &f->link, fd, next_id(f), WIRE_STDIN) < 0) {
		free(t);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	t->f = f;
	t->next = f->routes[t->s.id % BUCKETS];
	f->routes[t->s.id % BUCKETS] = t;
	f->count++;
	if (wire_port_encode(&f->link.out, t->s.id, 0, &m) < 0) {
		lost(f);
		return;
	}
	wire_link_flush(&f->link);
	settle(t, 0);
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
static int open_link(struct cove_box *box, int *ret_fd, struct err *e)
{
	struct conn *c = NULL;
	int r = 0;

	if (box->idle && !box->idle->ready)
		r = conn_hello(box->idle, START_WAIT_MS, e);
	if (r == 0 && box->cove->state.run_fd >= 0)
		r = conn_connect(box->cove->state.run_fd, box->name, &c, e);
	else if (r == 0)
		r = box_conn_get(box, &c, e);
	if (r < 0)
		return r;
	r = conn_hello(c, START_WAIT_MS, e);
	if (r == 0)
		*ret_fd = take_fd(c->fd);
	conn_free(c);
	return r;
}

static int run(struct forward *f, const struct cove_forward *o, int link_fd, struct err *e)
{
	int r;

	f->link.on_frame = on_frame;
	f->link.on_close = on_close;
	f->link.on_drained = on_drained;
	f->listener.on_event = on_accept;
	f->stop = (struct ev_io){.on_event = on_stop, .fd = o->stop_fd};
	f->retry.on_timer = on_retry;
	r = wire_link_init(&f->link, f->ev, link_fd, link_fd);
	if (r < 0)
		return err_errno(e, -r, "forward a port");
	if (o->stop_fd >= 0)
		r = ev_io_add(f->ev, &f->stop, EPOLLIN);
	if (r == 0)
		r = ev_io_add(f->ev, &f->listener, EPOLLIN);
	if (r == 0)
		r = ev_run(f->ev);
	if (r < 0)
		err_errno(e, -r, "forward a port");
	ev_io_remove(f->ev, &f->listener);
	ev_timer_stop(f->ev, &f->retry);
	f->ending = true;
	for (size_t i = 0; i < BUCKETS; i++)
		while (f->routes[i])
			route_free(f->routes[i]);
	ev_io_remove(f->ev, &f->stop);
	wire_link_done(&f->link);
	return r < 0 ? r : f->result;
}

static int forward(struct cove_box *box, const struct cove_forward *o, struct err *e)
{
	const char *address = o->address ? o->address : "127.0.0.1";
	autoclose int listener = -1;
	struct forward *f;
	unsigned local_port = 0;
	int link_fd = -1, r;

	if (o->port == 0 || o->port > UINT16_MAX || o->local_port > UINT16_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "a port is 1 to 65535");
	r = open_listener(o, address, &listener, &local_port, e);
	if (r == 0)
		r = open_link(box, &link_fd, e);
	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f || ev_new(&f->ev) < 0) {
		free(f);
		close(link_fd);
		return err_errno(e, ENOMEM, "forward a port");
	}
	f->box = box->name;
	f->port = o->port;
	f->e = e;
	f->on_failed = o->on_failed;
	f->arg = o->arg;
	f->listener.fd = listener;
	if (o->on_ready)
		o->on_ready(o->arg, address, local_port);
	r = run(f, o, link_fd, e);
	ev_free(f->ev);
	free(f);
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
