/*
 * Asking a running box's keeper: how it is, what it uses; and telling it to pause or go on. Looking
 * is no use of the box: it does not count against its idle time.
 */
#include "core/stats.h"

#include "base/fd.h"
#include "core/life.h"
#include "core/round.h"
#include "core/view.h"

#include <errno.h>
#include <string.h>

/* One request without payload, one frame as its answer, which is valid until the call is ended. */
static int ask(struct core_call *call, struct core_conn *c, enum wire_type type, int timeout_ms,
	       struct wire_frame *ret, struct err *e)
{
	int r;

	core_call_begin(call, c);
	r = core_call_send(call, wire_encode(core_out(c), type, 0, call->q.id, NULL, 0), e);
	if (r == 0)
		r = core_call_next(call, timeout_ms, ret, e);
	if (r == 0)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the keeper does not answer");
	return r < 0 ? r : 0;
}

int stats_ask_status(struct core_call *call, struct core_conn *c, int timeout_ms,
		     struct wire_status *ret, struct err *e)
{
	struct wire_frame f;
	int r = ask(call, c, WIRE_STATUS, timeout_ms, &f, e);

	if (r == 0 && wire_status_decode(&f, ret) < 0)
		r = core_unexpected(&call->q, &f, e);
	return r;
}

bool status_is_outdated(const struct wire_status *s)
{
	return s->started_ms > 0 && s->init_revision < WIRE_INIT_REVISION;
}

int stats_ask(struct core_conn *c, struct cove_stats *ret, struct err *e)
{
	struct core_call call;
	struct wire_stats m;
	struct wire_frame f;
	int r = ask(&call, c, WIRE_STATS, STOP_WAIT_MS, &f, e);

	if (r == 0 && wire_stats_decode(&f, &m) < 0)
		r = core_unexpected(&call.q, &f, e);
	core_call_end(&call, r == 0);
	if (r < 0)
		return r;
	view_stats_fill(ret, &m);
	return 0;
}

/* A connection to a box that must be there and running. */
static int reach(struct cove *cove, const char *name, struct core_conn **ret, struct err *e)
{
	autoclose int box_fd = -1;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == 0)
		r = core_conn_connect(NULL, cove->state.run_fd, name, ret, e);
	if (box_fd >= 0 && (r == -ENOENT || r == -ECONNREFUSED)) {
		core_sweep_box(cove, name);
		r = -ENOTCONN;
	}
	return r;
}

/* Its journal is synced first, which a disk that is busy with what the box wrote may hold up. */
static int tell_pause(struct core_conn *c, const struct wire_pause *m, struct err *e)
{
	struct core_call call;

	core_call_begin(&call, c);
	return core_call_finish(&call, wire_pause_encode(core_out(c), call.q.id, 0, m),
				START_WAIT_MS, e);
}

int stats_tell_pause(struct core_conn *c, bool on, const char *by, struct err *e)
{
	return tell_pause(c, &(struct wire_pause){.on = on, .by = by}, e);
}

int stats_hold(struct core_conn *c, bool on, struct err *e)
{
	return tell_pause(c, &(struct wire_pause){.on = on, .hold = 1}, e);
}

struct stats_round {
	struct core_round round;
	struct cove *cove;
	struct cove_stats *stats;
	struct cove_error *errs;
};

static int encode_stats(struct core_round *round, struct buf *out, uint32_t id)
{
	return wire_encode(out, WIRE_STATS, 0, id, NULL, 0);
}

static int on_stats(struct core_round *round, size_t i, struct core_request *q,
		    const struct wire_frame *f, struct err *e)
{
	struct wire_stats m;

	if (wire_stats_decode(f, &m) < 0)
		return core_unexpected(q, f, e);
	view_stats_fill(&container(round, struct stats_round, round)->stats[i], &m);
	return 1;
}

static void on_stats_end(struct core_round *round, size_t i, int r, const struct err *e)
{
	struct stats_round *s = container(round, struct stats_round, round);
	const char *name = round->boxes[i];
	autoclose int box_fd = -1;
	struct err why = r < 0 ? *e : (struct err){0};

	if (r == -ENOENT || r == -ECONNREFUSED) {
		r = box_open_dir(s->cove, name, &box_fd, &why);
		if (r == 0) {
			core_sweep_box(s->cove, name);
			r = -ENOTCONN;
		}
	}
	(void)core_return(s->cove, name, r, &why, &s->errs[i]); /* is for the caller to read */
}

int cove_stats_of(struct cove *cove, const char *const *names, size_t count, struct cove_stats *ret,
		  struct cove_error *errs, struct cove_error *err)
{
	struct stats_round s = {
		.round = {.encode = encode_stats, .on_frame = on_stats, .on_end = on_stats_end},
		.cove = cove,
		.stats = ret,
		.errs = errs};
	struct err e = {0};
	int r;

	memset(errs, 0, count * sizeof(*errs));
	r = core_round_run(&s.round, cove, names, count, STOP_WAIT_MS, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_stats(struct cove *cove, const char *name, struct cove_stats *ret, struct cove_error *err)
{
	struct cove_error own = {0};
	int r = cove_stats_of(cove, &name, 1, ret, &own, err);

	if (r < 0 || own.kind == COVE_OK)
		return r;
	if (err)
		*err = own;
	return -own.code;
}

static int set_paused(struct cove *cove, const char *name, bool on, struct cove_error *err)
{
	const char *by = on ? "cove pause" : "cove resume";
	struct core_conn *c = NULL;
	struct err e = {0};
	int r = reach(cove, name, &c, &e);

	if (r == 0)
		r = stats_tell_pause(c, on, by, &e);
	core_conn_free(c);
	if (r == 0)
		core_event(cove, &(struct event){.kind = on ? EVENT_PAUSE : EVENT_RESUME,
						 .box = name,
						 .by = by});
	return core_return(cove, name, r, &e, err);
}

int cove_pause(struct cove *cove, const char *name, struct cove_error *err)
{
	return set_paused(cove, name, true, err);
}

int cove_resume(struct cove *cove, const char *name, struct cove_error *err)
{
	return set_paused(cove, name, false, err);
}
