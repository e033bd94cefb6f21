/* Connections and commands of a server; see client.h. */
#include "core/client.h"

#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_BUCKETS = 1024 };

struct client_entry {
	struct core_client *client;
	struct core_conn *conn; /* owned */
	struct core_client_wait *waits, *drains;
	struct ev_defer begin; /* tells those that wait, from the loop */
	struct client_entry *next;
};

struct core_client {
	struct cove *cove;
	struct ev *ev;
	unsigned count;
	struct client_entry *entries[CLIENT_BUCKETS];
};

static struct client_entry **bucket_of(struct core_client *c, const char *box)
{
	uint32_t hash = 2166136261u;

	for (const char *p = box; *p; p++)
		hash = (hash ^ (uint8_t)*p) * 16777619u;
	return &c->entries[hash % CLIENT_BUCKETS];
}

int core_client_new(struct cove *cove, struct ev *ev, struct core_client **ret)
{
	struct core_client *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->cove = cove;
	c->ev = ev;
	*ret = c;
	return 0;
}

/* Tells one after the other: what it does may end any of the others. */
static void entry_tell(struct client_entry *n, int r, const struct err *e)
{
	while (n->waits) {
		struct core_client_wait *w = n->waits;

		core_client_await_cancel(w);
		w->on_ready(w, n->conn, r, e);
	}
}

static void entry_free(struct client_entry *n)
{
	struct client_entry **at = bucket_of(n->client, n->conn->box);

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	n->client->count--;
	ev_defer_cancel(n->client->ev, &n->begin);
	while (n->drains)
		core_client_await_cancel(n->drains);
	core_conn_free(n->conn);
	free(n);
}

void core_client_free(struct core_client *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < CLIENT_BUCKETS; i++)
		while (c->entries[i])
			entry_free(c->entries[i]);
	free(c);
}

static void on_lost(struct core_conn *conn, int r, const struct err *e)
{
	struct err why = *e; /* which is the connection's */

	entry_tell(conn->arg, r, &why);
	entry_free(conn->arg);
}

static void on_waits(struct ev_defer *d)
{
	struct err none = {0};

	entry_tell(container(d, struct client_entry, begin), 0, &none);
}

static void on_client_ready(struct core_conn *conn)
{
	struct client_entry *n = conn->arg;

	on_waits(&n->begin);
}

/* Those that waited until now, each once: they may wait again, and may end others. */
static void on_client_drained(struct core_conn *conn)
{
	struct client_entry *n = conn->arg;
	struct core_client_wait *now = n->drains;
	struct err none = {0};

	n->drains = NULL;
	if (now)
		now->at = &now;
	while (now) {
		struct core_client_wait *w = now;

		core_client_await_cancel(w);
		w->on_ready(w, conn, 0, &none);
	}
}

int core_client_conn(struct core_client *c, const char *box, struct core_conn **ret, struct err *e)
{
	struct client_entry **at = bucket_of(c, box), *n;
	int r;

	for (n = *at; n; n = n->next) {
		if (!n->conn->lost && n->conn->count < KEEPER_REQUESTS_MAX &&
		    strcmp(n->conn->box, box) == 0) {
			*ret = n->conn;
			return 0;
		}
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return err_errno(e, ENOMEM, "connect to box '%s'", box);
	r = core_conn_connect(c->ev, c->cove->state.run_fd, box, &n->conn, e);
	if (r < 0) {
		free(n);
		return r;
	}
	n->client = c;
	n->conn->arg = n;
	n->conn->on_lost = on_lost;
	n->conn->on_ready = on_client_ready;
	n->conn->on_drained = on_client_drained;
	n->begin.on_defer = on_waits;
	n->next = *at;
	*at = n;
	c->count++;
	*ret = n->conn;
	return 0;
}

static void wait_in(struct core_client_wait **list, struct core_client_wait *w)
{
	w->next = *list;
	w->at = list;
	if (w->next)
		w->next->at = &w->next;
	*list = w;
}

int core_client_await(struct core_client *c, const char *box, struct core_client_wait *w,
		      struct err *e)
{
	struct core_conn *conn;
	struct client_entry *n;
	autoclose int box_fd = -1;
	int r = core_client_conn(c, box, &conn, e);

	if (r == -ENOENT || r == -ECONNREFUSED) {
		r = box_open_dir(c->cove, box, &box_fd, e);
		return r < 0 ? r
			     : err_set(e, ERR_CONFLICT, ENOTCONN,
				       "box '%s' is stopped; start it first (cove start %s)", box,
				       box);
	}
	if (r < 0)
		return r;
	n = conn->arg;
	wait_in(&n->waits, w);
	if (conn->ready)
		ev_defer(c->ev, &n->begin);
	return 0;
}

void core_client_await_drained(struct core_conn *conn, struct core_client_wait *w)
{
	struct client_entry *n = conn->arg;

	wait_in(&n->drains, w);
}

void core_client_await_cancel(struct core_client_wait *w)
{
	if (!w->at)
		return;
	*w->at = w->next;
	if (w->next)
		w->next->at = w->at;
	w->at = NULL;
}

unsigned core_client_count(const struct core_client *c)
{
	return c->count;
}

/* ---- commands ---- */

static int on_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct core_async_exec *a = container(q, struct core_async_exec, x.call.q);
	struct cove_event ev;
	int r = core_exec_frame(&a->x, f, &ev, e);
	bool begins, is_last;

	if (r == -EPIPE)
		return 1;
	if (r == 0 && a->on_room)
		a->on_room(a);
	if (r <= 0)
		return r;
	begins = ev.type == COVE_EVENT_STARTED || ev.type == COVE_EVENT_QUEUED;
	is_last = begins ? a->x.background : ev.type == COVE_EVENT_EXIT;
	a->on_event(a, &ev); /* which may cancel and free it */
	return is_last;
}

static void forget_texts(struct core_async_exec *a)
{
	free(take_ptr(a->x.cwd));
	free(take_ptr(a->x.denied));
}

static void on_done(struct core_request *q, int r, const struct err *e)
{
	struct core_async_exec *a = container(q, struct core_async_exec, x.call.q);

	a->x.done = true;
	forget_texts(a);
	a->on_done(a, r, e);
}

int core_async_exec_start(struct core_async_exec *a, struct core_conn *conn,
			  const struct cove_command *command, uint64_t inline_max, struct err *e)
{
	struct buf *out = core_out(conn);
	size_t before = buf_len(out);
	struct cove_command c;
	int r = core_copy_sized(&c, sizeof(c), command, e);

	memset(&a->x, 0, sizeof(a->x));
	if (r == 0) /* known once HELLO came */
		r = core_exec_check_peer(conn, &c, e);
	if (r == 0)
		r = core_exec_begin(&a->x, conn, &c, inline_max, e);
	if (r == 0)
		r = core_exec_feed_all(&a->x, &c, e);
	if (r < 0) {
		/* Nothing of it was sent, and nothing is. */
		out->len = before;
		core_request_forget(&a->x.call.q);
		return r;
	}
	a->x.quiet = true;
	a->x.call.q.on_frame = on_frame;
	a->x.call.q.on_done = on_done;
	core_send(conn);
	return 0;
}

int core_async_exec_join(struct core_async_exec *a, struct core_conn *conn,
			 const struct wire_attach *m, struct err *e)
{
	int r;

	memset(&a->x, 0, sizeof(a->x));
	r = core_exec_join(&a->x, conn, m);
	if (r < 0) {
		core_request_forget(&a->x.call.q);
		return err_errno(e, -r, "join a command");
	}
	a->x.call.q.on_frame = on_frame;
	a->x.call.q.on_done = on_done;
	core_send(conn);
	return 0;
}

int core_async_exec_took(struct core_async_exec *a, enum wire_stream stream, size_t n)
{
	int r;

	if (!a->x.call.q.conn)
		return 0;
	r = core_exec_took(&a->x, stream, n, NULL);
	core_send(a->x.conn);
	return r;
}

size_t core_async_exec_write(struct core_async_exec *a, const void *data, size_t len)
{
	size_t n = a->x.call.q.conn ? core_exec_feed(&a->x, data, len) : 0;

	if (n > 0)
		core_send(a->x.conn);
	return n;
}

int core_async_exec_close_input(struct core_async_exec *a)
{
	int r;

	if (!a->x.call.q.conn)
		return 0;
	r = wire_encode(core_out(a->x.conn), WIRE_EOF, WIRE_STDIN, a->x.call.q.id, NULL, 0);
	core_send(a->x.conn);
	return r;
}

int core_async_exec_resize(struct core_async_exec *a, unsigned rows, unsigned cols)
{
	struct wire_resize m = {.rows = rows, .cols = cols};
	int r;

	if (!a->x.call.q.conn)
		return 0;
	r = wire_resize_encode(core_out(a->x.conn), a->x.call.q.id, 0, &m);
	core_send(a->x.conn);
	return r;
}

static int on_signal_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	return 1;
}

static void on_signal_done(struct core_request *q, int r, const struct err *e)
{
	free(q);
}

int core_async_exec_signal(struct core_async_exec *a, int sig)
{
	struct wire_signal m = {
		.exec_id = a->x.exec_id, .signal = (uint64_t)sig, .tree = sig == SIGKILL};
	struct core_request *q;
	int r;

	if (!a->x.call.q.conn || a->x.exec_id == 0)
		return 0;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->on_frame = on_signal_frame;
	q->on_done = on_signal_done;
	core_request_begin(q, a->x.conn);
	r = wire_signal_encode(core_out(a->x.conn), q->id, 0, &m);
	core_send(a->x.conn);
	if (r < 0) {
		core_request_forget(q);
		free(q);
	}
	return r;
}

void core_async_exec_cancel(struct core_async_exec *a)
{
	core_request_cancel(&a->x.call.q);
	forget_texts(a);
}
