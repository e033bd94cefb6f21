/* Blocking calls; see call.h. */
#include "core/call.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

/* A limit to how long a loop is run. */
struct patience {
	struct ev_timer timer;
	struct ev *ev;
	bool over;
};

static void on_timer(struct ev_timer *t)
{
	struct patience *p = container(t, struct patience, timer);

	p->over = true;
	ev_quit(p->ev);
}

static void patience_start(struct patience *p, struct ev *ev, int timeout_ms)
{
	*p = (struct patience){.timer.on_timer = on_timer, .ev = ev};
	if (timeout_ms >= 0)
		ev_timer_set(ev, &p->timer, (uint64_t)timeout_ms);
}

static int call_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct core_call *c = container(q, struct core_call, q);

	c->frame = *f;
	c->has_frame = true;
	wire_link_hold(&q->conn->link, true);
	ev_quit(q->conn->ev);
	return 0;
}

static void call_done(struct core_request *q, int r, const struct err *e)
{
	struct core_call *c = container(q, struct core_call, q);

	c->done = true;
	c->result = r;
	c->why = *e;
	ev_quit(c->conn->ev);
}

void core_call_begin(struct core_call *c, struct core_conn *conn)
{
	*c = (struct core_call){.q = {.on_frame = call_frame, .on_done = call_done}, .conn = conn};
	core_request_begin(&c->q, conn);
}

static void let_go(struct core_call *c)
{
	if (!c->has_frame)
		return;
	c->has_frame = false;
	if (!c->conn->lost)
		wire_link_hold(&c->conn->link, false);
}

void core_call_end(struct core_call *c, bool over)
{
	if (!c->conn)
		return;
	let_go(c);
	if (over)
		core_request_forget(&c->q);
	else
		core_request_cancel(&c->q);
	c->conn = NULL;
}

int core_call_next(struct core_call *c, int timeout_ms, struct wire_frame *ret, struct err *e)
{
	struct core_conn *conn = c->conn;
	struct patience p;
	int r = 0;

	let_go(c);
	if (conn->closing && !conn->lost)
		core_conn_drain(conn);
	patience_start(&p, conn->ev, timeout_ms);
	while (r == 0 && !c->has_frame && !c->done && !p.over)
		r = ev_run(conn->ev);
	ev_timer_stop(conn->ev, &p.timer);
	if (c->has_frame) {
		*ret = c->frame;
		return 1;
	}
	if (c->done) {
		if (e)
			*e = c->why;
		return c->result;
	}
	return r < 0 ? err_errno(e, -r, "wait for the box's keeper") : 0;
}

int core_call_wait_ok(struct core_call *c, int timeout_ms, struct err *e)
{
	struct wire_frame f;
	int r = core_call_next(c, timeout_ms, &f, e);

	if (r == 0)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the box's keeper did not answer in %d s",
			       timeout_ms / 1000);
	if (r < 0)
		return r;
	return f.type == WIRE_OK ? 0 : core_unexpected(&c->q, &f, e);
}

int core_conn_flush(struct core_conn *c, struct err *e)
{
	int r = 0;

	/* Until the keeper has room for the connection itself. */
	while (r == 0 && !c->lost && !c->link.ev)
		r = ev_run(c->ev);
	if (r < 0)
		return err_errno(e, -r, "wait for the box's keeper");
	while (!c->lost && !c->closing && wire_link_queued(&c->link) > 0) {
		struct pollfd p = {.fd = c->link.wfd, .events = POLLOUT};

		wire_link_push(&c->link);
		if (wire_link_queued(&c->link) == 0)
			break;
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return err_errno(e, errno, "write to the box's keeper");
		if (p.revents & (POLLHUP | POLLERR))
			break;
	}
	return 0;
}

int core_call_send(struct core_call *c, int r, struct err *e)
{
	return r < 0 ? err_errno(e, ENOBUFS, "ask the box's keeper") : core_conn_flush(c->conn, e);
}

int core_call_finish(struct core_call *c, int r, int timeout_ms, struct err *e)
{
	r = core_call_send(c, r, e);
	if (r == 0)
		r = core_call_wait_ok(c, timeout_ms, e);
	core_call_end(c, r != -ETIMEDOUT);
	return r;
}

/* Runs until the connection is ready (or lost), or the time is over. */
static int wait_state(struct core_conn *c, bool until_lost, int timeout_ms)
{
	struct patience p;
	int r = 0;

	/* The end of a link whose last frame was still in use has been heard, and comes no more. */
	if (c->closing && !c->lost)
		core_conn_drain(c);
	patience_start(&p, c->ev, timeout_ms);
	while (r == 0 && !c->lost && !p.over && (until_lost || !c->ready))
		r = ev_run(c->ev);
	ev_timer_stop(c->ev, &p.timer);
	return r;
}

int core_conn_wait_ready(struct core_conn *c, int timeout_ms, struct err *e)
{
	int r = wait_state(c, false, timeout_ms);

	if (r < 0)
		return err_errno(e, -r, "wait for the box's keeper");
	if (c->lost) {
		if (e)
			*e = c->why;
		return c->why_r;
	}
	if (!c->ready)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the box did not come up in %d s",
			       timeout_ms / 1000);
	return 0;
}

void core_conn_wait_end(struct core_conn *c, int timeout_ms)
{
	if (c->lost || core_conn_flush(c, NULL) < 0 || shutdown(core_conn_fd(c), SHUT_WR) < 0)
		return;
	(void)wait_state(c, true, timeout_ms);
}
