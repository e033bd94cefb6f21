/*
 * Connections without a request under way, in the order in which they became such, so that one of
 * them makes room for a new one where all are taken: first those over TCP that never brought a key,
 * also while they send a head or do not read their answer, then those that did, then those over the
 * Unix socket. Each of these steps takes the same time, however many there are.
 */
#include "server/conn.h"

static struct server_idle *list_of(struct server_conn *c)
{
	struct server *s = c->server;

	return &s->idle[c->client.is_local ? SERVER_IDLE_LOCAL
			: c->is_known	   ? SERVER_IDLE_KEY
					   : SERVER_IDLE_STRANGER];
}

static bool is_idle(const struct server_conn *c)
{
	if (!c->is_known && !c->client.is_local)
		return c->state == REQUEST_HEAD || c->state == REQUEST_LINGER;
	return c->state == REQUEST_HEAD && buf_len(&c->in) == 0 && buf_len(&c->out) == 0;
}

void conn_idle_leave(struct server_conn *c)
{
	struct server_idle *in = c->idle_in;

	if (!in)
		return;
	*(c->idle_before ? &c->idle_before->idle_next : &in->first) = c->idle_next;
	*(c->idle_next ? &c->idle_next->idle_before : &in->last) = c->idle_before;
	c->idle_in = NULL;
}

void conn_idle_note(struct server_conn *c)
{
	struct server_idle *to = list_of(c);

	if (c->idle_in && (c->idle_in != to || !is_idle(c)))
		conn_idle_leave(c);
	if (c->idle_in || !is_idle(c))
		return;
	c->idle_in = to;
	c->idle_next = NULL;
	c->idle_before = to->last;
	*(to->last ? &to->last->idle_next : &to->first) = c;
	to->last = c;
	server_listen_again(c->server);
}

/* A quarter of the descriptors is for all else that a request needs. */
bool server_is_full(const struct server *s, bool is_local)
{
	uint64_t files = s->files_max - s->files_max / 4, wanted = s->config->connections;
	uint64_t max = wanted < files ? wanted : files;
	uint64_t kept = max > 1 ? max / SERVER_LOCAL_PART + 1 : 0;

	return s->conn_count >= max || (!is_local && s->tcp_count >= max - kept);
}

bool server_make_room(struct server *s, bool is_local)
{
	unsigned lists = is_local ? SERVER_IDLE_LISTS : SERVER_IDLE_LOCAL;

	for (unsigned i = 0; i < lists; i++)
		while (s->idle[i].first && server_is_full(s, is_local))
			conn_free(s->idle[i].first);
	return !server_is_full(s, is_local);
}
