/*
 * Channels over the keeper's link; see channel_wire.h.
 *
 * From the box: a DATA frame that comes while its reader waits and nothing is buffered is shown to
 * the reader where it lies, in the link's decoder (`fresh`); what the reader leaves is copied into
 * the buffer. Credit goes back as bytes are taken.
 *
 * To the box: bytes are put into a frame at the end of the link's queue directly.
 */
#include "door/channel_wire.h"

#include "base/limits.h"
#include "base/list.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEP_MS = 10000 };

struct wire_channel {
	struct channel channel;
	struct exchange *x;
	struct wire_channel *next; /* in its slot */
	void (*on_cancel)(void *arg);
	void *arg;
	struct ev_defer ready;
	struct wire_flow out, in;
	struct buf buf;	      /* from the box, not yet read */
	const uint8_t *fresh; /* or in the decoder, while on_ready runs */
	size_t fresh_len;
	uint64_t owed; /* bytes received that no credit was given for */
	int error;     /* negative: how it ended */
	uint32_t id;
	bool got_eof, sent_eof;
	bool is_cancelled; /* the box knows that it is over */
	bool was_read;	   /* when the box gave it up: its end, and all before it was taken */
	bool ended;	   /* freed; remembered for its id only */
	bool old;	   /* for a sweep already */
};

static struct wire_channel *wire_of(struct channel *c)
{
	return container(c, struct wire_channel, channel);
}

static struct wire_channel **slot_of(const struct exchange *x, uint32_t id)
{
	return (struct wire_channel **)&x->slots[id % EXCHANGE_SLOTS];
}

static struct wire_channel *find(const struct exchange *x, uint32_t id)
{
	struct wire_channel *w = *slot_of(x, id);

	while (w && w->id != id)
		w = w->next;
	return w;
}

static void forget(struct wire_channel *w)
{
	list_remove(slot_of(w->x, w->id), w);
	if (w->ended)
		w->x->ended--;
	ev_defer_cancel(w->x->ev, &w->ready);
	buf_done(&w->buf);
	free(w);
}

/* ---- what it is ready for ---- */

/* A whole frame, or nothing: the last bit of a window is not worth one of its own, and credit comes
 * in halves of a window as soon as the box took what is on its way. */
static size_t room(const struct wire_channel *w)
{
	_Static_assert(WIRE_DATA_MAX <= WIRE_NET_WINDOW / 2, "credit comes before it is needed");

	return w->out.left >= WIRE_DATA_MAX && wire_link_queued(w->x->link) < DOOR_LINK_QUEUE &&
			       !w->x->link->closed
		       ? WIRE_DATA_MAX
		       : 0;
}

static unsigned ready_for(const struct wire_channel *w)
{
	unsigned what = 0;

	if (w->error || buf_len(&w->buf) + w->fresh_len > 0 || w->got_eof)
		what |= CHANNEL_IN;
	if (w->error || room(w) > 0)
		what |= CHANNEL_OUT;
	if (w->error || w->got_eof)
		what |= CHANNEL_END;
	return what & w->channel.wanted;
}

static void look(struct wire_channel *w)
{
	if (!w->ended && ready_for(w))
		ev_defer(w->x->ev, &w->ready);
}

static void on_defer(struct ev_defer *d)
{
	struct wire_channel *w = container(d, struct wire_channel, ready);
	struct exchange *x = w->x;
	unsigned what = ready_for(w);
	uint32_t id = w->id;

	if (!what || !w->channel.on_ready)
		return;
	w->channel.on_ready(&w->channel, what);
	w = find(x, id);
	if (w)
		look(w);
}

static void wire_want(struct channel *c, unsigned what)
{
	look(wire_of(c));
}

/* ---- from the box ---- */

ssize_t channel_wire_peek(struct channel *c, const uint8_t **ret)
{
	struct wire_channel *w = wire_of(c);

	if (w->error)
		return w->error;
	if (buf_len(&w->buf) > 0) {
		*ret = buf_data(&w->buf);
		return (ssize_t)buf_len(&w->buf);
	}
	if (w->fresh_len > 0) {
		*ret = w->fresh;
		return (ssize_t)w->fresh_len;
	}
	return w->got_eof ? 0 : -EAGAIN;
}

void channel_wire_took(struct channel *c, size_t n)
{
	struct wire_channel *w = wire_of(c);
	struct wire_credit m;

	if (buf_len(&w->buf) > 0) {
		buf_consume(&w->buf, n);
		/* A connection that is quiet holds nothing. */
		if (buf_len(&w->buf) == 0)
			buf_done(&w->buf);
	} else {
		w->fresh += n;
		w->fresh_len -= n;
	}
	m.bytes = wire_flow_took(&w->in, n);
	/* After its EOF the box needs no more credit. */
	if (m.bytes == 0 || w->got_eof)
		return;
	w->owed -= m.bytes;
	if (wire_credit_encode(&w->x->link->out, w->id, WIRE_STDOUT, &m) == 0)
		wire_link_flush(w->x->link);
}

static ssize_t wire_read(struct channel *c, void *p, size_t n)
{
	const uint8_t *from = NULL;
	ssize_t r = channel_wire_peek(c, &from);

	if (r <= 0)
		return r;
	if ((size_t)r < n)
		n = (size_t)r;
	memcpy(p, from, n);
	channel_wire_took(c, n);
	return (ssize_t)n;
}

static void cancelled(struct wire_channel *w, int error)
{
	if (w->error)
		return;
	w->error = error;
	buf_done(&w->buf);
	look(w);
	w->on_cancel(w->arg);
}

static void say_cancel(struct wire_channel *w)
{
	if (!w->is_cancelled)
		wire_link_send(w->x->link, WIRE_CANCEL, 0, w->id, NULL, 0);
	w->is_cancelled = true;
}

/* A box that does not keep to its window has an init that is not ours. */
static void broke_rules(struct wire_channel *w)
{
	say_cancel(w);
	cancelled(w, -EPROTO);
}

static void take_data(struct wire_channel *w, const struct wire_frame *f)
{
	struct exchange *x = w->x;

	w->owed += f->len;
	if (w->got_eof || w->owed > WIRE_NET_WINDOW) {
		broke_rules(w);
		return;
	}
	if (f->len == 0)
		return;
	if (buf_len(&w->buf) == 0 && (w->channel.wanted & CHANNEL_IN) && w->channel.on_ready) {
		w->fresh = f->payload;
		w->fresh_len = f->len;
		w->channel.on_ready(&w->channel, CHANNEL_IN);
		w = find(x, f->id);
		if (!w || w->ended || w->error)
			return;
		if (w->fresh_len > 0 && buf_append(&w->buf, w->fresh, w->fresh_len) < 0)
			broke_rules(w);
		else
			w->fresh_len = 0;
	} else if (buf_append(&w->buf, f->payload, f->len) < 0) {
		broke_rules(w);
		return;
	}
	w = find(x, f->id);
	if (w)
		look(w);
}

/* ---- to the box ---- */

uint8_t *channel_wire_space(struct channel *c, size_t *ret_room)
{
	struct wire_channel *w = wire_of(c);
	size_t n = w->error || w->sent_eof ? 0 : room(w);
	uint8_t *p = n > 0 ? buf_reserve(&w->x->link->out, WIRE_HEADER + n) : NULL;

	if (!p)
		return NULL;
	*ret_room = n;
	return p + WIRE_HEADER;
}

void channel_wire_put(struct channel *c, size_t n)
{
	struct wire_channel *w = wire_of(c);
	struct buf *out = &w->x->link->out;
	size_t at;

	/* The room was made by channel_wire_space, so none of this can fail or move. */
	ASSERT(wire_encode_begin(out, &at) == 0);
	buf_commit(out, n);
	ASSERT(wire_encode_end(out, at, WIRE_DATA, WIRE_STDIN, w->id) == 0);
	w->out.left -= n;
	wire_link_flush(w->x->link);
}

static ssize_t wire_write(struct channel *c, const void *p, size_t n)
{
	struct wire_channel *w = wire_of(c);
	size_t space;
	uint8_t *to;

	if (w->error)
		return w->error;
	if (w->sent_eof)
		return -EPIPE;
	to = channel_wire_space(c, &space);
	if (!to)
		return -EAGAIN;
	if (n > space)
		n = space;
	memcpy(to, p, n);
	channel_wire_put(c, n);
	return (ssize_t)n;
}

static int wire_finish(struct channel *c)
{
	struct wire_channel *w = wire_of(c);
	int r;

	if (w->error)
		return w->error;
	if (w->sent_eof)
		return 0;
	r = wire_link_send(w->x->link, WIRE_EOF, WIRE_STDIN, w->id, NULL, 0);
	if (r == 0)
		w->sent_eof = true;
	return r == -ENOBUFS ? -EAGAIN : r;
}

bool channel_wire_is_given_up(const struct channel *c, bool *ret_has_ended)
{
	const struct wire_channel *w = container(c, const struct wire_channel, channel);

	*ret_has_ended = w->was_read;
	return w->error == -ECONNRESET;
}

void channel_wire_refuse(struct channel *c, const struct err *e)
{
	struct wire_channel *w = wire_of(c);
	struct wire_error m = {.kind = e->kind, .code = (uint64_t)e->code, .msg = e->msg};

	if (w->is_cancelled)
		return;
	if (wire_error_encode(&w->x->link->out, w->id, 0, &m) == 0)
		wire_link_flush(w->x->link);
	w->is_cancelled = true;
	if (!w->error)
		w->error = -ECONNABORTED;
}

static void on_sweep(struct ev_timer *t)
{
	struct exchange *x = container(t, struct exchange, sweep);

	for (size_t i = 0; i < EXCHANGE_SLOTS; i++)
		for (struct wire_channel *w = x->slots[i], *next; w; w = next) {
			next = w->next;
			if (w->ended && w->old) {
				say_cancel(w);
				forget(w);
			} else if (w->ended) {
				w->old = true;
			}
		}
	if (x->ended > 0)
		ev_timer_set(x->ev, t, SWEEP_MS);
}

static void wire_free(struct channel *c, bool abort)
{
	struct wire_channel *w = wire_of(c);
	struct exchange *x = w->x;
	bool is_over = w->is_cancelled || w->error;

	if (!is_over && !abort)
		abort = wire_finish(c) < 0 || x->ended >= DOOR_CONNS_MAX;
	if (!is_over && abort)
		say_cancel(w);
	if (w->error == -EPROTO)
		say_cancel(w);
	if (is_over || abort || (w->sent_eof && w->got_eof)) {
		forget(w);
		return;
	}
	w->ended = true;
	x->ended++;
	ev_defer_cancel(x->ev, &w->ready);
	buf_done(&w->buf);
	w->fresh_len = 0;
	if (!x->sweep.armed)
		ev_timer_set(x->ev, &x->sweep, SWEEP_MS);
}

static const struct channel_ops wire_ops = {
	.read = wire_read,
	.write = wire_write,
	.finish = wire_finish,
	.want = wire_want,
	.free = wire_free,
	.space = channel_wire_space,
	.put = channel_wire_put,
};

int channel_wire_new(struct channel **ret, struct exchange *x, uint32_t id,
		     void (*on_cancel)(void *arg), void *arg)
{
	struct wire_channel *w = calloc(1, sizeof(*w));
	struct wire_channel **slot = slot_of(x, id);

	if (!w)
		return -ENOMEM;
	w->channel.ops = &wire_ops;
	w->x = x;
	w->id = id;
	w->on_cancel = on_cancel;
	w->arg = arg;
	w->ready.on_defer = on_defer;
	wire_flow_init_net(&w->out);
	wire_flow_init_net(&w->in);
	buf_init(&w->buf, WIRE_NET_WINDOW);
	w->next = *slot;
	*slot = w;
	*ret = &w->channel;
	return 0;
}

/* ---- the exchange ---- */

void exchange_init(struct exchange *x, struct ev *ev, struct wire_link *link)
{
	*x = (struct exchange){.ev = ev, .link = link, .sweep = {.on_timer = on_sweep}};
}

void exchange_done(struct exchange *x)
{
	if (!x->ev)
		return;
	for (size_t i = 0; i < EXCHANGE_SLOTS; i++)
		while (x->slots[i]) {
			ASSERT(x->slots[i]->ended);
			forget(x->slots[i]);
		}
	ev_timer_stop(x->ev, &x->sweep);
}

bool exchange_has(const struct exchange *x, uint32_t id)
{
	return find(x, id);
}

bool exchange_frame(struct exchange *x, const struct wire_frame *f)
{
	struct wire_channel *w = find(x, f->id);
	struct wire_credit m;
	/* Credit is for the stream to the box, the rest is on the one from it. */
	uint8_t stream = f->type == WIRE_CREDIT ? WIRE_STDIN : WIRE_STDOUT;

	if (!w)
		return false;
	/* Of one that was freed, what was on its way is dropped: cutting it off at the first byte
	 * could cost the box the answer that it has not read yet. */
	if (w->ended) {
		w->owed += f->type == WIRE_DATA ? f->len : 0;
		if (w->owed > WIRE_NET_WINDOW)
			say_cancel(w);
		if (w->is_cancelled || f->type == WIRE_EOF || f->type == WIRE_CANCEL)
			forget(w);
		return true;
	}
	if (w->error)
		return true;
	if (f->type == WIRE_CANCEL) {
		w->is_cancelled = true;
		w->was_read = w->got_eof && buf_len(&w->buf) == 0;
		cancelled(w, -ECONNRESET);
	} else if (f->stream != stream || (f->type == WIRE_EOF && w->got_eof) ||
		   (f->type == WIRE_CREDIT &&
		    (wire_credit_decode(f, &m) < 0 || wire_flow_credit(&w->out, m.bytes) < 0))) {
		broke_rules(w);
	} else if (f->type == WIRE_DATA) {
		take_data(w, f);
	} else {
		w->got_eof = w->got_eof || f->type == WIRE_EOF;
		look(w);
	}
	return true;
}

void exchange_drained(struct exchange *x)
{
	for (size_t i = 0; i < EXCHANGE_SLOTS; i++)
		for (struct wire_channel *w = x->slots[i]; w; w = w->next)
			if (w->channel.wanted & CHANNEL_OUT)
				look(w);
}
