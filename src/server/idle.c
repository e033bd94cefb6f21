/*
 * Connections that are in use, and those that make room for new ones.
 *
 * One whose call is under way, or whose answer is not sent yet, counts in the account of who asked,
 * which bounds how many there are and what they hold (api/account.h). Every other one is idle: in
 * the order in which they became so they end where all connections are taken, or where all they
 * have sent so far is too much: first those over TCP that never brought a key, then those that did,
 * then those over the Unix socket. Each of these steps takes the same time, however many there are.
 */
#include "server/conn.h"

static struct server_idle *list_of(struct server_conn *c)
{
	struct server *s = c->server;

	return &s->idle[c->client.is_local ? SERVER_IDLE_LOCAL
			: c->is_known	   ? SERVER_IDLE_KEY
					   : SERVER_IDLE_STRANGER];
}

void conn_idle_leave(struct server_conn *c)
{
	struct server_idle *in = c->idle_in;

	if (!in)
		return;
	*(c->idle_before ? &c->idle_before->idle_next : &in->first) = c->idle_next;
	*(c->idle_next ? &c->idle_next->idle_before : &in->last) = c->idle_before;
	c->idle_in = NULL;
	c->server->idle_bytes -= c->idle_bytes;
	c->idle_bytes = 0;
}

static void enter(struct server_conn *c, struct server_idle *to)
{
	c->idle_in = to;
	c->idle_next = NULL;
	c->idle_before = to->last;
	*(to->last ? &to->last->idle_next : &to->first) = c;
	to->last = c;
	server_listen_again(c->server);
}

/* A small one is kept, and only what is in it is memory. */
static size_t memory_of(const struct buf *b)
{
	return b->cap > SERVER_KEEP_MAX ? b->cap : buf_len(b);
}

static void make_memory(struct server *s)
{
	struct server_conn *c = NULL;

	for (unsigned i = 0; i < SERVER_IDLE_LISTS && s->idle_bytes > SERVER_IDLE_BYTES; i++)
		while ((c = s->idle[i].first) && s->idle_bytes > SERVER_IDLE_BYTES)
			conn_kill(c);
}

void conn_idle_note(struct server_conn *c)
{
	struct server_idle *to = list_of(c);

	if (!c->call && buf_len(&c->out) == 0)
		api_charge_end(&c->charge);
	api_charge_set(&c->charge, memory_of(&c->in) + memory_of(&c->out) +
					   (c->ws ? memory_of(&c->ws->message) : 0));
	if (c->idle_in && (c->idle_in != to || c->charge.of))
		conn_idle_leave(c);
	if (c->charge.of || c->dead)
		return;
	if (!c->idle_in)
		enter(c, to);
	/* It may be long until it is used again. */
	if (buf_len(&c->in) == 0 && !c->call)
		buf_done(&c->in);
	c->server->idle_bytes -= c->idle_bytes;
	c->idle_bytes = buf_len(&c->in) + buf_len(&c->out);
	c->server->idle_bytes += c->idle_bytes;
	make_memory(c->server);
}

void conn_idle_call(struct server_conn *c)
{
	if (c->call->charge.of)
		api_charge_connection(&c->charge, c->call->charge.of);
}

size_t conn_out_high(const struct server_conn *c)
{
	return api_charge_has_room(&c->charge) ? SERVER_OUT_HIGH : SERVER_OUT_LOW;
}

/* A quarter of the descriptors is for all else that a request needs. */
static uint64_t connections_max(const struct server *s)
{
	uint64_t files = s->files_max - s->files_max / 4, wanted = s->config->connections;

	return wanted < files ? wanted : files;
}

unsigned server_tcp_max(const struct server *s)
{
	uint64_t max = connections_max(s);

	return (unsigned)(max > 1 ? max - max / SERVER_LOCAL_PART - 1 : max);
}

bool server_is_full(const struct server *s, bool is_local)
{
	return s->conn_count >= connections_max(s) ||
	       (!is_local && s->tcp_count >= server_tcp_max(s));
}

bool server_make_room(struct server *s, bool is_local)
{
	unsigned lists = is_local ? SERVER_IDLE_LISTS : SERVER_IDLE_LOCAL;

	for (unsigned i = 0; i < lists; i++)
		while (s->idle[i].first && server_is_full(s, is_local))
			conn_free(s->idle[i].first);
	return !server_is_full(s, is_local);
}
