/*
 * The raw relay; see tunnel.h.
 *
 * Up, from the box: what its channel shows is written to the socket, and taken as far as the socket
 * took it. Down: the socket is read into the frame that goes to the box. A side that cannot take
 * more stops the other's being read, so a slow reader holds back whoever writes to it: what is held
 * in between is the box's window, and the link's queue.
 *
 * The gate and what was read before the tunnel began share one buffer, `first`, which is gone once
 * it was written.
 *
 * Timers in the loop are a list, so the idle one is not set again with every byte: it looks, when
 * it is due, at when the last byte passed.
 */
#include "door/tunnel.h"

#include "base/fd.h"
#include "base/limits.h"
#include "door/channel_wire.h"

#include <errno.h>
#include <stdlib.h>

/* Reads of a socket in one turn: a fast one costs few turns, and does not starve the others. */
enum { READS_MAX = 4 };

struct tunnel {
	struct tunnel_config c;
	struct buf first;
	struct ev_timer idle;
	struct ev_defer start, ending;
	enum tunnel_end how;
	int error;
	uint64_t last_ms;
	bool up_ended, down_ended; /* that direction said its end, and it was passed on */
	bool box_ended;		   /* within first: the box said its end */
	bool up_full, down_full;   /* waits for room */
	bool may_go;		   /* the gate let pass what is in first */
	bool over;
};

static void end(struct tunnel *p, enum tunnel_end how, int error)
{
	if (p->over)
		return;
	p->over = true;
	p->how = how;
	p->error = error;
	channel_want(p->c.box, 0);
	channel_want(p->c.up, 0);
	ev_defer(p->c.door->ev, &p->ending);
}

/* A side is gone. Where one had said its end before, it is how the other ends: PostgreSQL's server
 * closes with a client's last bytes unread, which is a reset. What the box has said and was not
 * looked at yet may be its end. */
static void broken(struct tunnel *p, int error)
{
	const uint8_t *from;
	bool has_ended = p->up_ended || p->down_ended || p->box_ended ||
			 channel_wire_peek(p->c.box, &from) == 0;
	bool is_reset = error == -ECONNRESET || error == -EPIPE || error == -ENOTCONN;

	end(p, has_ended && is_reset ? TUNNEL_RESET : TUNNEL_FAILED, error);
}

static void on_ending(struct ev_defer *d)
{
	struct tunnel *p = container(d, struct tunnel, ending);

	p->c.on_end(p->c.arg, p->how, p->error);
}

/* ---- up: from the box ---- */

static bool count(struct tunnel *p, uint64_t up, uint64_t down)
{
	p->last_ms = ev_now(p->c.door->ev);
	if (p->c.count(p->c.arg, up, down))
		return true;
	end(p, TUNNEL_CUT, 0);
	return false;
}

/* How many of n bytes a budget has room for. */
static size_t fitting(const struct tunnel *p, size_t n, bool is_up)
{
	uint64_t room = p->c.room ? p->c.room(p->c.arg, is_up) : UINT64_MAX;

	return room < n ? (size_t)room : n;
}

/* All that was taken is written: the box's end may follow. False: over. */
static bool finish_up(struct tunnel *p)
{
	int r = channel_finish(p->c.up);

	p->up_ended = true;
	if (r < 0)
		broken(p, r);
	return r >= 0;
}

/* Writes n bytes: how many went, 0 when it is full, negative when it is over. */
static ssize_t write_up(struct tunnel *p, const uint8_t *from, size_t n)
{
	ssize_t r;

	n = fitting(p, n, true);
	if (n == 0) {
		end(p, TUNNEL_CUT, 0);
		return -ECANCELED;
	}
	r = channel_write(p->c.up, from, n);
	p->up_full = r == -EAGAIN || (r >= 0 && (size_t)r < n);
	if (r == -EAGAIN)
		return 0;
	if (r < 0) {
		broken(p, (int)r);
		return r;
	}
	return count(p, (uint64_t)r, 0) ? r : -ECANCELED;
}

/* Fills first and asks the gate. False: nothing more can be done now, or it is over. */
static bool pass_gate(struct tunnel *p)
{
	const uint8_t *from = NULL;
	ssize_t n = -EAGAIN;
	int r;

	while (!p->box_ended && buf_len(&p->first) < DOOR_BUFFER_MAX) {
		size_t left = DOOR_BUFFER_MAX - buf_len(&p->first);

		n = channel_wire_peek(p->c.box, &from);
		if (n <= 0)
			break;
		if ((size_t)n > left)
			n = (ssize_t)left;
		if (buf_append(&p->first, from, (size_t)n) < 0) {
			end(p, TUNNEL_FAILED, -ENOMEM);
			return false;
		}
		channel_wire_took(p->c.box, (size_t)n);
	}
	if (n < 0 && n != -EAGAIN) {
		end(p, TUNNEL_FAILED, (int)n);
		return false;
	}
	p->box_ended = p->box_ended || n == 0;
	if (buf_len(&p->first) == 0 && !p->box_ended)
		return false;
	r = p->c.gate(p->c.arg, buf_data(&p->first), buf_len(&p->first), p->box_ended);
	if (r < 0)
		end(p, TUNNEL_REFUSED, r);
	else if (r == GATE_HAND)
		end(p, TUNNEL_HANDED, 0);
	else if (r == GATE_PASS)
		p->c.gate = NULL;
	p->may_go = r == GATE_PASS || r == GATE_WATCH;
	return p->may_go;
}

static bool write_first(struct tunnel *p)
{
	ssize_t n;

	while (buf_len(&p->first) > 0) {
		n = write_up(p, buf_data(&p->first), buf_len(&p->first));
		if (n <= 0)
			return false;
		buf_consume(&p->first, (size_t)n);
	}
	buf_done(&p->first);
	buf_init(&p->first, DOOR_BUFFER_MAX);
	p->may_go = false;
	return !p->box_ended || p->up_ended || finish_up(p);
}

static void tunnel_up(struct tunnel *p)
{
	const uint8_t *from = NULL;
	ssize_t n;

	do {
		if (p->over || p->up_ended || (p->c.gate && !p->may_go && !pass_gate(p)) ||
		    !write_first(p))
			return;
	} while (p->c.gate);
	while (!p->up_ended && (n = channel_wire_peek(p->c.box, &from)) != -EAGAIN) {
		if (n < 0) {
			end(p, TUNNEL_FAILED, (int)n);
			return;
		}
		if (n == 0) {
			(void)finish_up(p);
			return;
		}
		n = write_up(p, from, (size_t)n);
		if (n <= 0)
			return;
		channel_wire_took(p->c.box, (size_t)n);
		if (p->up_full)
			return;
	}
}

/* ---- down: to the box ---- */

static void tunnel_down(struct tunnel *p)
{
	for (int i = 0; i < READS_MAX && !p->down_ended; i++) {
		size_t room = 0, fits;
		uint8_t *to = channel_wire_space(p->c.box, &room);
		ssize_t n;
		int r;

		p->down_full = !to;
		if (!to)
			return;
		/* Without room a byte is still read: it might be the end, which is no byte. */
		fits = fitting(p, room, false);
		n = channel_read(p->c.up, to, fits > 0 ? fits : 1);
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			broken(p, (int)n);
			return;
		}
		if (n == 0) {
			r = channel_finish(p->c.box);
			p->down_full = r == -EAGAIN;
			p->down_ended = r == 0;
			if (r != 0 && r != -EAGAIN)
				end(p, TUNNEL_FAILED, r);
			return;
		}
		if (fits == 0) {
			end(p, TUNNEL_CUT, 0);
			return;
		}
		if (p->c.watch && !p->c.watch(p->c.arg, to, (size_t)n))
			p->c.watch = NULL;
		channel_wire_put(p->c.box, (size_t)n);
		if (!count(p, 0, (uint64_t)n))
			return;
		/* A short read found the socket empty: asking again would only say so. */
		if ((size_t)n < fits)
			return;
	}
}

/* ---- the whole ---- */

static void set_wants(struct tunnel *p)
{
	unsigned box = 0, up = 0;

	if (p->over)
		return;
	if (p->up_ended && p->down_ended) {
		end(p, TUNNEL_OK, 0);
		return;
	}
	if (!p->up_ended && p->up_full)
		up |= CHANNEL_OUT;
	else if (!p->up_ended && !p->box_ended)
		box |= CHANNEL_IN;
	if (!p->down_ended && p->down_full)
		box |= CHANNEL_OUT;
	else if (!p->down_ended)
		up |= CHANNEL_IN;
	channel_want(p->c.box, box);
	channel_want(p->c.up, up);
}

static void on_box(struct channel *c, unsigned what)
{
	struct tunnel *p = c->owner;

	if (what & CHANNEL_IN)
		tunnel_up(p);
	if ((what & CHANNEL_OUT) && !p->over)
		tunnel_down(p);
	set_wants(p);
}

static void on_up(struct channel *c, unsigned what)
{
	struct tunnel *p = c->owner;

	if (what & CHANNEL_IN)
		tunnel_down(p);
	if ((what & CHANNEL_OUT) && !p->over)
		tunnel_up(p);
	set_wants(p);
}

static void on_start(struct ev_defer *d)
{
	struct tunnel *p = container(d, struct tunnel, start);

	tunnel_up(p);
	set_wants(p);
}

static void on_idle(struct ev_timer *t)
{
	struct tunnel *p = container(t, struct tunnel, idle);
	uint64_t quiet = ev_now(p->c.door->ev) - p->last_ms;

	if (quiet >= DOOR_IDLE_MS)
		end(p, TUNNEL_IDLE, 0);
	else
		ev_timer_set(p->c.door->ev, t, DOOR_IDLE_MS - quiet);
}

int tunnel_new(struct tunnel **ret, const struct tunnel_config *c, const void *first, size_t n)
{
	struct tunnel *p = calloc(1, sizeof(*p));

	if (p)
		buf_init(&p->first, DOOR_BUFFER_MAX);
	if (!p || buf_append(&p->first, first, n) < 0) {
		free(p);
		channel_free(c->box, true);
		channel_free(c->up, true);
		return -ENOMEM;
	}
	p->c = *c;
	p->last_ms = ev_now(c->door->ev);
	p->idle.on_timer = on_idle;
	p->start.on_defer = on_start;
	p->ending.on_defer = on_ending;
	c->box->owner = c->up->owner = p;
	c->box->on_ready = on_box;
	c->up->on_ready = on_up;
	ev_timer_set(c->door->ev, &p->idle, DOOR_IDLE_MS);
	ev_defer(c->door->ev, &p->start);
	*ret = p;
	return 0;
}

bool tunnel_is_reset(const struct tunnel *p)
{
	bool box_ended, is_given_up = channel_wire_is_given_up(p->c.box, &box_ended);
	/* What broke already broke by this very reset. */
	bool is_free = !p->over || p->how == TUNNEL_FAILED;

	return is_given_up && is_free &&
	       (p->up_ended || p->down_ended || (box_ended && buf_len(&p->first) == 0));
}

void tunnel_release(struct tunnel *p, struct channel **ret_box, struct channel **ret_up,
		    struct buf *first)
{
	*ret_box = take_ptr(p->c.box);
	*ret_up = take_ptr(p->c.up);
	*first = p->first;
	buf_init(&p->first, DOOR_BUFFER_MAX);
}

void tunnel_free(struct tunnel *p)
{
	bool cut;

	if (!p)
		return;
	cut = !p->up_ended || !p->down_ended;
	ev_timer_stop(p->c.door->ev, &p->idle);
	ev_defer_cancel(p->c.door->ev, &p->start);
	ev_defer_cancel(p->c.door->ev, &p->ending);
	channel_free(p->c.box, cut);
	channel_free(p->c.up, cut);
	buf_done(&p->first);
	free(p);
}
