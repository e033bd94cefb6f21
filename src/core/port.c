/* Connections to ports of boxes; see port.h. */
#include "core/port.h"

#include "base/limits.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>

enum { LINGER_MS = 2000 };

static void port_free(struct core_port *p)
{
	ev_timer_stop(p->ev, &p->linger);
	core_client_await_cancel(&p->room);
	core_request_cancel(&p->q);
	free(p);
}

/* ---- from the box ---- */

static int take_data(struct core_port *p, const struct wire_frame *f, struct err *e)
{
	if (f->stream != WIRE_STDOUT || p->in_ended || p->owed + f->len > WIRE_NET_WINDOW)
		return core_unexpected(&p->q, f, e);
	p->owed += f->len;
	p->on_bytes(p, f->payload, f->len);
	return 0;
}

static int take_end(struct core_port *p, const struct wire_frame *f, struct err *e)
{
	if (f->stream != WIRE_STDOUT || p->in_ended)
		return core_unexpected(&p->q, f, e);
	p->in_ended = true;
	if (p->out_ended) /* the keeper has forgotten it */
		core_request_forget(&p->q);
	p->on_end(p);
	return 0;
}

static int take_credit(struct core_port *p, const struct wire_frame *f, struct err *e)
{
	struct wire_credit m;

	if (f->stream != WIRE_STDIN || wire_credit_decode(f, &m) < 0 ||
	    wire_flow_credit(&p->out, m.bytes) < 0)
		return core_unexpected(&p->q, f, e);
	p->on_room(p);
	return 0;
}

/* Each of these callbacks may free p, and with it the request. */
static int on_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct core_port *p = container(q, struct core_port, q);

	switch (f->type) {
	case WIRE_OK:
		p->is_open = true;
		p->on_room(p);
		return 0;
	case WIRE_DATA:
		return take_data(p, f, e);
	case WIRE_EOF:
		return take_end(p, f, e);
	case WIRE_CREDIT:
		return take_credit(p, f, e);
	case WIRE_CANCEL:
		p->was_cut = true;
		return 1;
	default:
		return core_unexpected(q, f, e);
	}
}

static void on_done(struct core_request *q, int r, const struct err *e)
{
	struct core_port *p = container(q, struct core_port, q);
	struct err why = *e; /* which may be the connection's */

	core_client_await_cancel(&p->room);
	if (p->was_cut)
		r = err_set(&why, ERR_PROTOCOL, ECONNRESET,
			    "the program in the box cut the connection");
	p->on_over(p, r, &why);
}

/* ---- to the box ---- */

static void on_queue_room(struct core_client_wait *w, struct core_conn *conn, int r,
			  const struct err *e)
{
	struct core_port *p = container(w, struct core_port, room);

	p->on_room(p);
}

int core_port_begin(struct core_conn *conn, unsigned port, const struct core_port *callbacks,
		    struct core_port **ret, struct err *e)
{
	struct core_port *p = malloc(sizeof(*p));
	struct wire_port m = {.port = port};

	if (!p)
		return err_errno(e, ENOMEM, "connect to port %u", port);
	*p = *callbacks;
	p->ev = conn->ev;
	p->q = (struct core_request){.on_frame = on_frame, .on_done = on_done};
	p->room.on_ready = on_queue_room;
	wire_flow_init_net(&p->out);
	wire_flow_init_net(&p->back);
	core_request_begin(&p->q, conn);
	if (wire_port_encode(core_out(conn), p->q.id, 0, &m) < 0) {
		core_request_forget(&p->q);
		free(p);
		return err_set(e, ERR_LIMIT, ENOBUFS, "the box's keeper takes nothing just now");
	}
	core_send(conn);
	*ret = p;
	return 0;
}

size_t core_port_write(struct core_port *p, const void *data, size_t n)
{
	struct core_conn *conn = p->q.conn;
	size_t done = 0;

	while (conn && !p->out_ended && done < n && p->out.left > 0) {
		size_t some = n - done < WIRE_DATA_MAX ? n - done : WIRE_DATA_MAX;

		if (some > p->out.left)
			some = (size_t)p->out.left;
		if (wire_link_queued(&conn->link) > FORWARD_QUEUE_MAX ||
		    wire_encode(core_out(conn), WIRE_DATA, WIRE_STDIN, p->q.id,
				(const uint8_t *)data + done, some) < 0) {
			if (!p->room.at)
				core_client_await_drained(conn, &p->room);
			break;
		}
		p->out.left -= some;
		done += some;
	}
	if (done > 0)
		core_send(conn);
	return done;
}

void core_port_took(struct core_port *p, size_t n)
{
	struct wire_credit m = {.bytes = wire_flow_took(&p->back, n)};

	p->owed -= n;
	if (m.bytes == 0 || !p->q.conn || p->in_ended)
		return;
	/* A queue without room belongs to a keeper that reads nothing: it ends by itself. */
	if (wire_credit_encode(core_out(p->q.conn), p->q.id, WIRE_STDOUT, &m) == 0)
		core_send(p->q.conn);
}

void core_port_cancel(struct core_port *p)
{
	if (p)
		port_free(p);
}

/* ---- one that was let go: what still comes is dropped, and not given back ---- */

static void on_late_bytes(struct core_port *p, const void *data, size_t n)
{
}

static void on_late_room(struct core_port *p)
{
}

static void on_late_end(struct core_port *p)
{
	port_free(p);
}

static void on_late_over(struct core_port *p, int r, const struct err *e)
{
	port_free(p);
}

static void on_linger(struct ev_timer *t)
{
	port_free(container(t, struct core_port, linger));
}

void core_port_let_go(struct core_port *p)
{
	struct core_conn *conn = p->q.conn;

	p->on_bytes = on_late_bytes;
	p->on_room = on_late_room;
	p->on_end = on_late_end;
	p->on_over = on_late_over;
	core_client_await_cancel(&p->room);
	if (!conn || wire_encode(core_out(conn), WIRE_EOF, WIRE_STDIN, p->q.id, NULL, 0) < 0) {
		port_free(p);
		return;
	}
	core_send(conn);
	p->out_ended = true;
	if (p->in_ended) {
		core_request_forget(&p->q);
		port_free(p);
		return;
	}
	p->linger.on_timer = on_linger;
	ev_timer_set(p->ev, &p->linger, LINGER_MS);
}
