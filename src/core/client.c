/* Connections and commands of a server; see client.h. */
#include "core/client.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_BUCKETS = 1024 };

struct client_entry {
	struct core_client *client;
	struct core_conn *conn; /* owned */
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

static void entry_free(struct client_entry *n)
{
	struct client_entry **at = bucket_of(n->client, n->conn->box);

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	n->client->count--;
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
	entry_free(conn->arg);
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
	n->next = *at;
	*at = n;
	c->count++;
	*ret = n->conn;
	return 0;
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

void core_async_exec_cancel(struct core_async_exec *a)
{
	core_request_cancel(&a->x.call.q);
	forget_texts(a);
}
