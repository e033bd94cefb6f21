/*
 * Clients: the table of connections and what each of their frames asks for; see keeper.h.
 *
 * A client is freed only by the deferred call `reap`, so code that walks commands or clients may
 * close any of them on its way. Two kinds of back-pressure meet here. A client whose bytes for init
 * pile up is not read until init took them. Output has credit, but the ENTRY frames of a listing
 * have none: a client that lets them pile up stops init from being read, and is dropped when it
 * then reads nothing for KEEPER_STALL_MS, since everyone else is waiting.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "keeper/door.h"
#include "keeper/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void close_later(struct keeper_client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	ev_defer(c->k->ev, &c->k->reap);
}

/* ---- to a client ---- */

void keeper_client_sent(struct keeper_client *c, int r)
{
	if (r == 0)
		wire_link_flush(&c->link);
	else
		close_later(c);
}

void keeper_client_send(struct keeper_client *c, enum wire_type type, uint8_t stream, uint32_t id,
			const void *p, size_t n)
{
	if (!c->closing)
		keeper_client_sent(c, wire_encode(&c->link.out, type, stream, id, p, n));
}

void keeper_client_credit(struct keeper_client *c, uint32_t id, uint8_t stream, uint64_t bytes)
{
	struct wire_credit m = {.bytes = bytes};

	if (!c->closing)
		keeper_client_sent(c, wire_credit_encode(&c->link.out, id, stream, &m));
}

void keeper_client_fail(struct keeper_client *c, uint32_t id, const struct err *e)
{
	struct wire_error m = {.kind = e->kind, .code = (uint64_t)e->code, .msg = e->msg};

	if (!c->closing)
		keeper_client_sent(c, wire_error_encode(&c->link.out, id, 0, &m));
}

void keeper_client_fail_with(struct keeper_client *c, uint32_t id, enum err_kind kind,
			     const char *fmt, ...)
{
	struct err e = {.kind = kind};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
	va_end(ap);
	keeper_client_fail(c, id, &e);
}

void keeper_client_break(struct keeper_client *c, const char *what)
{
	keeper_client_fail_with(c, 0, ERR_PROTOCOL, "the client broke the protocol: %s", what);
	close_later(c);
}

static void on_stalled(struct keeper_gate *g)
{
	close_later(container(g, struct keeper_client, gate));
}

void keeper_client_check_queue(struct keeper_client *c)
{
	if (!c->closing)
		keeper_gate_pause_init(&c->gate, wire_link_queued(&c->link), CLIENT_QUEUE_MAX);
}

/* ---- from a client ---- */

/* May this frame begin a request? Answers if not. */
static bool may_begin(struct keeper_client *c, uint32_t id)
{
	if (id == 0 || keeper_follow_find(c, id) || keeper_relay_has(c, id) ||
	    keeper_subscription_has(c, id)) {
		keeper_client_break(c, "the id of a request is 0 or in use");
		return false;
	}
	if (c->k->ending || !c->k->linked) {
		keeper_client_fail_with(c, id, ERR_CONFLICT, "box '%s' is ending", c->k->name);
		return false;
	}
	if (c->request_count >= KEEPER_REQUESTS_MAX) {
		keeper_client_fail_with(c, id, ERR_LIMIT, "%u requests are open on one connection",
					c->request_count);
		return false;
	}
	return true;
}

static void on_hello(struct keeper_client *c, const struct wire_frame *f)
{
	struct wire_hello m;
	struct err e;

	if (wire_hello_decode(f, &m) < 0) {
		keeper_client_break(c, "a malformed HELLO");
	} else if (wire_hello_agree(&m, "the client",
				    "use the Cove that started the box, or restart it", &c->peer,
				    &e) < 0) {
		keeper_client_fail(c, 0, &e);
		close_later(c);
	}
}

/* A request that is decoded and passed on. */
#define REQUEST(name, word, ask)                                                   \
	static void on_##name(struct keeper_client *c, const struct wire_frame *f) \
	{                                                                          \
		struct wire_##name m;                                              \
                                                                                   \
		if (wire_##name##_decode(f, &m) < 0)                               \
			keeper_client_break(c, "a malformed " word);               \
		else                                                               \
			ask(c, f->id, &m);                                         \
	}
REQUEST(exec, "EXEC", keeper_exec_ask)
REQUEST(attach, "ATTACH", keeper_follow_attach)
REQUEST(subscribe, "SUBSCRIBE", keeper_subscribe)

static void on_door(struct keeper_client *c, const struct wire_frame *f)
{
	if (c->k->door)
		keeper_door_from_client(c->k->door, c, f);
	else
		keeper_client_fail_with(
			c, f->id, ERR_CONFLICT,
			"box '%s' was made without a network (--net closed): make it anew with "
			"--net to give it one",
			c->k->name);
}

static void on_data(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper_follow *follow = keeper_follow_find(c, f->id);

	if (f->stream != WIRE_STDIN)
		keeper_client_break(c, "data on an output stream");
	else if (follow && f->type == WIRE_DATA)
		keeper_input_data(follow, f);
	else if (follow)
		keeper_input_eof(follow);
	else
		keeper_relay_from_client(c, f);
}

static void on_credit(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper_follow *follow = keeper_follow_find(c, f->id);
	struct wire_credit m;

	if (wire_credit_decode(f, &m) < 0 || f->stream == WIRE_STDIN)
		keeper_client_break(c, "a malformed CREDIT");
	else if (follow)
		keeper_follow_credit(follow, f->stream - 1u, m.bytes);
	else
		keeper_relay_from_client(c, f);
}

static void on_cancel(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper_follow *follow = keeper_follow_find(c, f->id);

	if (follow)
		keeper_follow_free(follow);
	else if (!keeper_subscription_cancel(c, f->id))
		keeper_relay_from_client(c, f);
}

/* A signal to any command by its number is a request; one to the command of this very request is
 * not answered, since the request's own answer is its EXIT. */
static void on_signal(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper_follow *follow = keeper_follow_find(c, f->id);
	const struct keeper_exec *x;
	struct wire_signal m;
	struct err e;

	if (wire_signal_decode(f, &m) < 0) {
		keeper_client_break(c, "a malformed SIGNAL");
	} else if (m.exec_id == 0) {
		if (!follow)
			return;
		keeper_exec_signal(c->k, follow->exec->rec.exec_id, &m, NULL);
		keeper_exec_wait(follow->exec, &c->gate);
	} else if (may_begin(c, f->id) && !keeper_client_is_paused(c, f->id)) {
		if (keeper_exec_signal(c->k, m.exec_id <= INT32_MAX ? (uint32_t)m.exec_id : 0, &m,
				       &e) < 0)
			keeper_client_fail(c, f->id, &e);
		else
			keeper_client_send(c, WIRE_OK, 0, f->id, NULL, 0);
		x = keeper_exec_find(c->k, m.exec_id);
		if (x)
			keeper_exec_wait(x, &c->gate);
	}
}

static void on_resize(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper_follow *follow = keeper_follow_find(c, f->id);
	struct wire_resize m;

	if (wire_resize_decode(f, &m) < 0)
		keeper_client_break(c, "a malformed RESIZE");
	else if (follow && follow->exec->run)
		keeper_exec_send(follow->exec, WIRE_RESIZE, 0, f->payload, f->len);
	if (follow)
		keeper_exec_wait(follow->exec, &c->gate);
}

enum {
	BEGINS = 1, /* a request */
	RUNS = 2,   /* not in a paused box; wakes one that is asleep */
	LOOKS = 4,  /* looking at a box does not use it */
};

static const struct {
	void (*handle)(struct keeper_client *c, const struct wire_frame *f);
	unsigned flags;
} handlers[WIRE_TYPE_COUNT] = {
	[WIRE_HELLO] = {on_hello, LOOKS},
	[WIRE_CANCEL] = {on_cancel},
	[WIRE_DATA] = {on_data},
	[WIRE_EOF] = {on_data},
	[WIRE_CREDIT] = {on_credit},
	[WIRE_EXEC] = {on_exec, BEGINS | RUNS},
	[WIRE_SIGNAL] = {on_signal},
	[WIRE_RESIZE] = {on_resize},
	[WIRE_FILE] = {keeper_relay_ask, BEGINS | RUNS},
	[WIRE_ENTRY] = {keeper_relay_from_client},
	[WIRE_ATTACH] = {on_attach, BEGINS},
	[WIRE_EXECS] = {keeper_exec_list, BEGINS | LOOKS},
	[WIRE_STATUS] = {keeper_on_status, LOOKS},
	[WIRE_STATS] = {keeper_on_stats, LOOKS},
	[WIRE_PAUSE] = {keeper_on_pause},
	[WIRE_TIMES] = {keeper_on_times, BEGINS},
	[WIRE_SUBSCRIBE] = {on_subscribe, BEGINS | LOOKS},
	[WIRE_STOP] = {keeper_on_stop},
	[WIRE_PORT] = {keeper_relay_ask, BEGINS | RUNS},
	[WIRE_SHELL] = {keeper_relay_ask, BEGINS | RUNS},
	[WIRE_DOOR] = {on_door, BEGINS | LOOKS},
};

static void on_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct keeper_client *c = container(l, struct keeper_client, link);
	unsigned flags;

	if (c->closing)
		return;
	if (!wire_type_is_known(f->type)) {
		keeper_client_sent(c, wire_unknown_encode(&c->link.out, f));
		return;
	}
	flags = handlers[f->type].flags;
	if (!(flags & LOOKS))
		c->k->active_ms = ev_now(c->k->ev);
	if (!handlers[f->type].handle)
		keeper_client_break(c, "a frame that only a box sends");
	else if ((!(flags & BEGINS) || may_begin(c, f->id)) &&
		 (!(flags & RUNS) || !keeper_client_is_paused(c, f->id)))
		handlers[f->type].handle(c, f);
}

static void on_close(struct wire_link *l, int error)
{
	close_later(container(l, struct keeper_client, link));
}

static void on_drained(struct wire_link *l)
{
	struct keeper_client *c = container(l, struct keeper_client, link);
	struct keeper_follow *next;

	keeper_gate_resume_init(&c->gate);
	for (struct keeper_follow *f = c->follows; f && !c->closing; f = next) {
		next = f->next_of_client;
		keeper_follow_serve(f);
	}
	keeper_subscriptions_serve(c);
}

/* ---- the table ---- */

static void client_free(struct keeper_client *c)
{
	struct keeper *k = c->k;
	struct keeper_client **at = &k->clients;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	k->client_count--;
	keeper_gate_resume_init(&c->gate);
	while (c->follows)
		keeper_follow_free(c->follows);
	keeper_relay_client_gone(c);
	keeper_subscriptions_free(c);
	keeper_hold_end(c);
	/* Whoever waits for the end of its box sees it when all is gone, not now. */
	if (c->first && k->ends_with_first && k->held_fd < 0)
		k->held_fd = fd_copy(c->link.rfd, 0);
	wire_link_done(&c->link);
	free(c);
}

static void on_reap(struct ev_defer *d)
{
	struct keeper *k = container(d, struct keeper, reap);
	struct keeper_client *c = k->clients;

	while (c) {
		bool first = c->first;

		if (!c->closing) {
			c = c->next;
			continue;
		}
		client_free(c);
		if (first && k->on_first_gone)
			k->on_first_gone(k);
		if (k->on_room)
			k->on_room(k);
		c = k->clients; /* the callbacks may have changed the list */
	}
}

int keeper_add_client(struct keeper *k, int fd, bool first)
{
	struct keeper_client *c = calloc(1, sizeof(*c));
	struct wire_hello hello = wire_hello_ours();
	int r;

	hello.pid = (uint64_t)getpid();
	hello.name = k->name;
	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	k->reap.on_defer = on_reap;
	c->k = k;
	c->first = first;
	c->gate = (struct keeper_gate){.k = k, .link = &c->link, .on_stalled = on_stalled};
	c->link.on_frame = on_frame;
	c->link.on_close = on_close;
	c->link.on_drained = on_drained;
	r = wire_link_init(&c->link, k->ev, fd, fd);
	if (r < 0) {
		wire_link_done(&c->link);
		free(c);
		return r;
	}
	c->next = k->clients;
	k->clients = c;
	k->client_count++;
	keeper_client_sent(c, wire_hello_encode(&c->link.out, 0, 0, &hello));
	return 0;
}

void keeper_clients_free(struct keeper *k)
{
	while (k->clients)
		client_free(k->clients);
	ev_defer_cancel(k->ev, &k->reap);
}

void keeper_answer_stops(struct keeper *k, const struct err *e)
{
	for (struct keeper_client *c = k->clients; c; c = c->next) {
		if (!c->stopping)
			continue;
		c->stopping = false;
		if (e)
			keeper_client_fail(c, c->stop_id, e);
		else
			keeper_client_send(c, WIRE_OK, 0, c->stop_id, NULL, 0);
	}
}

/* Writes what a client takes now. True if there is more. */
static bool write_some(struct keeper_client *c)
{
	struct buf *out = &c->link.out;

	while (buf_len(out) > 0) {
		ssize_t n =
			send(c->link.wfd, buf_data(out), buf_len(out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0) {
			buf_clear(out);
			break;
		}
		buf_consume(out, (size_t)n);
	}
	return false;
}

void keeper_flush(struct keeper *k, unsigned timeout_ms)
{
	uint64_t end = clock_mono_ms() + timeout_ms, now;
	struct pollfd *fds = NULL;
	nfds_t count;

	do {
		count = 0;
		for (struct keeper_client *c = k->clients; c; c = c->next) {
			if (!write_some(c))
				continue;
			if (!fds)
				fds = calloc(k->client_count, sizeof(*fds));
			if (!fds)
				return;
			fds[count++] = (struct pollfd){.fd = c->link.wfd, .events = POLLOUT};
		}
		now = clock_mono_ms();
	} while (count > 0 && now < end && poll(fds, count, (int)(end - now)) >= 0);
	free(fds);
}
