/*
 * Following a command's output at byte offsets; see exec.h.
 *
 * Each stream has a position. Bytes that come while the position is at the end go out directly
 * (keeper_follow_live); a client that is behind is served from the log (keeper_follow_serve) when
 * it gives credit or its queue has drained. Both move the same position, so nothing is sent twice
 * and nothing is left out, except what the log did not keep: that is skipped, and `lost` says so.
 */
#include "base/limits.h"
#include "keeper/exec.h"

#include <errno.h>
#include <stdlib.h>

enum { SERVE_QUEUE = 256 << 10 };

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How far this stream of this client will ever go. */
static uint64_t goal(const struct keeper_follow_stream *st)
{
	return min_u64(st->end, st->stop);
}

struct keeper_follow *keeper_follow_new(struct keeper_client *c, uint32_t id, struct keeper_exec *x,
					uint64_t inline_max)
{
	struct keeper_follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->client = c;
	f->exec = x;
	f->id = id;
	for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
		f->s[s].end = UINT64_MAX;
		f->s[s].stop = inline_max ? inline_max : UINT64_MAX;
		wire_flow_init(&f->s[s].flow);
	}
	f->next_of_client = c->follows;
	c->follows = f;
	c->request_count++;
	f->next_of_exec = x->followers;
	x->followers = f;
	return f;
}

void keeper_follow_free(struct keeper_follow *f)
{
	struct keeper_follow **at = &f->client->follows;
	struct keeper_exec *x = f->exec;

	while (*at != f)
		at = &(*at)->next_of_client;
	*at = f->next_of_client;
	f->client->request_count--;
	for (at = &x->followers; *at != f; at = &(*at)->next_of_exec)
		;
	*at = f->next_of_exec;
	if (x->run && x->run->input.feeder == f)
		x->run->input.feeder = NULL;
	free(f);
	if (x->run)
		keeper_exec_grant(x);
	else if (!x->followers)
		keeper_outputs_close(&x->k->logs, x->out);
}

struct keeper_follow *keeper_follow_find(struct keeper_client *c, uint32_t id)
{
	for (struct keeper_follow *f = c->follows; f; f = f->next_of_client)
		if (f->id == id)
			return f;
	return NULL;
}

bool keeper_follow_gets(const struct keeper_follow *list, unsigned s, uint64_t at, size_t n)
{
	for (const struct keeper_follow *f = list; f; f = f->next_of_exec) {
		const struct keeper_follow_stream *st = &f->s[s];

		if (f->paces_init && !f->mute && st->pos == at && st->flow.left >= n &&
		    goal(st) - at >= n)
			return true;
	}
	return false;
}

uint64_t keeper_follow_allows(const struct keeper_follow *f, unsigned s)
{
	const struct keeper_follow_stream *st = &f->s[s];

	if (!f->paces_init || f->mute || st->pos >= st->stop)
		return UINT64_MAX;
	return st->pos + st->flow.left;
}

static void advance(struct keeper_follow_stream *st, uint64_t n)
{
	st->pos += n;
	st->flow.left -= n;
}

void keeper_follow_live(struct keeper_follow *f, unsigned s, uint64_t at, const uint8_t *p,
			size_t n)
{
	struct keeper_follow_stream *st = &f->s[s];
	const struct keeper_output *o = &f->exec->out[s];
	uint64_t skip, can;

	if (f->mute || st->pos < at || st->pos >= at + n)
		return;
	/* A full queue is no reason to drop what cannot be had again from the log. */
	if (wire_link_queued(&f->client->link) > CLIENT_QUEUE_MAX && o->kept >= at + n)
		return;
	skip = st->pos - at;
	can = min_u64(n - skip, min_u64(st->flow.left, goal(st) - st->pos));
	if (goal(st) <= st->pos || can == 0)
		return;
	keeper_client_send(f->client, WIRE_DATA, (uint8_t)(s + 1), f->id, p + skip, (size_t)can);
	advance(st, can);
}

/* One frame from the log, read straight into the client's queue. False if nothing could be sent. */
static bool send_kept(struct keeper_follow *f, unsigned s, uint64_t want)
{
	struct buf *out = &f->client->link.out;
	struct keeper_follow_stream *st = &f->s[s];
	struct keeper_exec *x = f->exec;
	size_t at, n = (size_t)min_u64(want, WIRE_DATA_MAX);
	uint8_t *p;
	ssize_t r;

	if (wire_encode_begin(out, &at) < 0)
		return false;
	p = buf_reserve(out, n);
	r = p ? keeper_output_read(&x->k->logs, x->rec.exec_id, &x->out[s], s, st->pos, p, n)
	      : -ENOMEM;
	if (r <= 0) {
		out->len = at;
		/* The log cannot be read back: the rest of what it kept is lost to this client. */
		f->lost = true;
		st->pos = min_u64(x->out[s].kept, goal(st));
		return false;
	}
	buf_commit(out, (size_t)r);
	keeper_client_sent(f->client, wire_encode_end(out, at, WIRE_DATA, (uint8_t)(s + 1), f->id));
	advance(st, (uint64_t)r);
	return true;
}

static void serve_stream(struct keeper_follow *f, unsigned s)
{
	const struct keeper_output *o = &f->exec->out[s];
	struct keeper_follow_stream *st = &f->s[s];
	uint64_t upto = min_u64(o->kept, goal(st));

	while (st->pos < upto && st->flow.left > 0 && !f->client->closing) {
		if (wire_link_queued(&f->client->link) >= SERVE_QUEUE)
			return;
		if (!send_kept(f, s, min_u64(upto - st->pos, st->flow.left)))
			break;
	}
	if (st->pos >= o->kept && st->pos < min_u64(o->bytes, goal(st))) {
		st->pos = min_u64(o->bytes, goal(st));
		f->lost = true;
	}
}

void keeper_follow_serve(struct keeper_follow *f)
{
	struct exec_record m;

	if (f->mute || f->client->closing)
		return;
	for (unsigned s = 0; s < OUTPUT_COUNT; s++)
		serve_stream(f, s);
	if (f->client->closing)
		return;
	for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
		if (f->s[s].pos < goal(&f->s[s]))
			return;
		if (f->s[s].end == UINT64_MAX)
			return; /* enough was sent, but the end is still to come */
	}
	if (f->stays) {
		m = f->exec->rec;
		m.truncated = m.truncated || f->lost || f->s[0].stop < f->s[0].end ||
			      f->s[1].stop < f->s[1].end;
		keeper_client_sent(f->client, wire_exit_encode(&f->client->link.out, f->id, 0, &m));
	} else {
		keeper_client_send(f->client, WIRE_OK, 0, f->id, NULL, 0);
	}
	keeper_follow_free(f);
}

void keeper_follow_ended(struct keeper_follow *f)
{
	if (f->mute) {
		keeper_follow_free(f);
		return;
	}
	for (unsigned s = 0; s < OUTPUT_COUNT; s++)
		f->s[s].end = min_u64(f->s[s].end, f->exec->out[s].bytes);
	keeper_follow_serve(f);
}

void keeper_follow_credit(struct keeper_follow *f, unsigned s, uint64_t bytes)
{
	struct keeper_exec *x = f->exec;

	if (wire_flow_credit(&f->s[s].flow, bytes) < 0) {
		keeper_client_break(f->client, "more credit than it can have");
		return;
	}
	keeper_follow_serve(f); /* f may be gone */
	keeper_exec_grant(x);
}

void keeper_follow_attach(struct keeper_client *c, uint32_t id, const struct wire_attach *m)
{
	const uint64_t from[OUTPUT_COUNT] = {m->stdout_from, m->stderr_from};
	struct keeper_exec *x = keeper_exec_find(c->k, m->exec_id);
	struct keeper_follow *f;
	struct err e;

	if (!x) {
		keeper_client_fail_with(c, id, ERR_NOT_FOUND, "box '%s' has no command %llu",
					c->k->name, (unsigned long long)m->exec_id);
		return;
	}
	f = keeper_follow_new(c, id, x, 0);
	if (!f) {
		keeper_client_fail_with(c, id, ERR_FULL, "no memory");
		return;
	}
	if (m->input && keeper_input_attach(f, &e) < 0) {
		keeper_follow_free(f);
		keeper_client_fail(c, id, &e);
		return;
	}
	f->stays = m->follow != 0;
	f->paces_init = m->input != 0;
	for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
		struct keeper_follow_stream *st = &f->s[s];

		st->pos = from[s];
		if (m->inline_max)
			st->stop = from[s] > UINT64_MAX - m->inline_max ? UINT64_MAX
									: from[s] + m->inline_max;
		if (!f->stays || !x->run || x->run->state == RUN_EXITED)
			st->end = x->out[s].bytes;
	}
	keeper_follow_serve(f);
}
