/*
 * One connection; see conn.h. It is read only where there is room on the link: whoever waits for
 * that is called in turn.
 */
#include "init/conn.h"

struct init_conn *init_conn_find(const struct init_conn_table *t, uint32_t id)
{
	struct init_conn *c = t->buckets[id % CONN_BUCKETS];

	while (c && c->s.id != id)
		c = c->next;
	return c;
}

void init_conn_add(struct init_conn_table *t, struct init_conn *c)
{
	struct init_conn **at = &t->buckets[c->s.id % CONN_BUCKETS];

	c->next = *at;
	*at = c;
	t->count++;
}

void init_conn_remove(struct init_conn_table *t, struct init_conn *c)
{
	struct init_conn **at = &t->buckets[c->s.id % CONN_BUCKETS];

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	t->count--;
}

/* After a step: goes on, or ends it. */
static void proceed(struct init_conn *c, int r)
{
	bool has_room = init_has_room(c->in);

	if (r == 0 && c->s.held)
		return;
	if (r == 0 && !wire_socket_is_over(&c->s)) {
		if (!has_room && wire_socket_may_read(&c->s))
			init_wait_room(c->in, &c->room);
		r = wire_socket_watch(&c->s, c->in->ev, has_room);
		if (r == 0)
			return;
	}
	/* A reset for the peer. */
	if (r < 0 && wire_link_send(&c->in->link, WIRE_CANCEL, 0, c->s.id, NULL, 0) < 0)
		init_broken(c->in, "no room for the end of a connection");
	init_conn_done(c);
	c->on_over(c);
}

static void on_event(struct ev_io *io, uint32_t events)
{
	struct init_conn *c = container(io, struct init_conn, s.io);

	proceed(c, wire_socket_event(&c->s, events));
}

static void on_room(struct room_wait *w)
{
	proceed(container(w, struct init_conn, room), 0);
}

int init_conn_init(struct init_conn *c, struct init *in, int fd, uint32_t id, bool held)
{
	int r;

	c->in = in;
	c->room = (struct room_wait){.on_room = on_room};
	c->s.io = (struct ev_io){.on_event = on_event};
	r = wire_socket_init(&c->s, &in->link, fd, id, WIRE_STDOUT);
	c->s.held = held;
	if (r == 0 && !held)
		r = wire_socket_watch(&c->s, in->ev, true);
	if (r < 0)
		init_conn_done(c);
	return r;
}

void init_conn_go(struct init_conn *c)
{
	c->s.held = false;
	proceed(c, wire_socket_write(&c->s));
}

void init_conn_done(struct init_conn *c)
{
	ev_io_remove(c->in->ev, &c->s.io);
	init_wait_room_cancel(c->in, &c->room);
	wire_socket_done(&c->s);
}

void init_conn_frame(struct init_conn *c, const struct wire_frame *f)
{
	switch (f->type) {
	case WIRE_DATA:
	case WIRE_EOF:
	case WIRE_CREDIT:
		proceed(c, wire_socket_frame(&c->s, f));
		return;
	case WIRE_CANCEL:
		init_conn_done(c);
		c->on_over(c);
		return;
	default:
		return;
	}
}
