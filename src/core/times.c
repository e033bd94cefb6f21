/*
 * How long a box may run, changed while it is there: by its keeper if it runs, which writes it down
 * (record.h); in its record otherwise, with the operation lock.
 */
#include "base/fd.h"
#include "core/core.h"
#include "core/life.h"
#include "core/watch.h"

#include <errno.h>

enum { TIMES_TRIES = 8 };

static int tell_keeper(struct core_conn *c, const struct wire_times *m, struct err *e)
{
	struct core_call call;
	int r = core_conn_wait_ready(c, START_WAIT_MS, e);

	if (r < 0)
		return r;
	if (!(c->peer.features & WIRE_FEATURE_TIMES))
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "box '%s' was started by a Cove that cannot change its time: cove "
			       "stop %s; cove start %s",
			       c->box, c->box, c->box);
	core_call_begin(&call, c);
	return core_call_finish(&call, wire_times_encode(core_out(c), call.q.id, 0, m),
				STOP_WAIT_MS, e);
}

static void set(struct spec *s, enum limit_id id, uint64_t ms)
{
	if (!ms)
		return;
	s->limits[id] = ms == WIRE_TIMES_NONE ? 0 : ms;
	s->limits_asked |= 1u << id;
}

/* -EAGAIN: it runs. */
static int write_record(struct cove *cove, const char *name, int box_fd, const struct wire_times *m,
			struct err *e)
{
	struct record record;
	int r = core_wait_lock(cove, name, box_fd, START_WAIT_MS, e);

	if (r == -ENOENT)
		return record_missing(name, e);
	if (r < 0)
		return r;
	if (record_is_live(box_fd))
		return -EAGAIN;
	r = record_load(&cove->state, name, &record, e);
	if (r < 0)
		return r;
	set(&record.spec, LIMIT_TTL, m->ttl_ms);
	set(&record.spec, LIMIT_IDLE, m->idle_ms);
	r = spec_check(&record.spec, e);
	if (r == 0)
		r = record_replace(box_fd, &record.spec, e);
	record_done(&record);
	return r;
}

/* The lock goes with the descriptor: a box that is coming up may want it next. */
static int set_once(struct cove *cove, const char *name, const struct wire_times *m, struct err *e)
{
	autoclose int box_fd = -1;
	struct core_conn *c = NULL;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r < 0)
		return r;
	r = core_conn_connect(NULL, cove->state.run_fd, name, &c, e);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		r = write_record(cove, name, box_fd, m, e);
		if (r != -EAGAIN)
			return r;
		r = core_wait_socket(cove, name, box_fd, START_WAIT_MS, &c);
		if (r < 0 && r != -EAGAIN)
			err_errno(e, -r, "connect to box '%s'", name);
	}
	if (r == 0)
		r = tell_keeper(c, m, e);
	core_conn_free(c);
	return r;
}

static int set_times(struct cove *cove, const char *name, uint64_t ttl_ms, uint64_t idle_ms,
		     struct err *e)
{
	const struct wire_times m = {.ttl_ms = ttl_ms, .idle_ms = idle_ms};
	int r = ttl_ms && ttl_ms != COVE_UNLIMITED ? limit_check(LIMIT_TTL, ttl_ms, e) : 0;

	if (r == 0 && idle_ms && idle_ms != COVE_UNLIMITED)
		r = limit_check(LIMIT_IDLE, idle_ms, e);
	if (r < 0)
		return r;
	if (!ttl_ms && !idle_ms)
		return err_set(e, ERR_INVALID, EINVAL, "give a new --ttl, a new --idle, or both");
	for (int i = 0; i < TIMES_TRIES; i++) {
		r = set_once(cove, name, &m, e);
		/* It was just ending, or starting: to say the same once more does no harm. */
		if (r != -EAGAIN && r != -ECONNRESET)
			return r;
	}
	return r == -EAGAIN ? err_set(e, ERR_CONFLICT, EBUSY,
				      "box '%s' starts and ends again and again", name)
			    : r;
}

int cove_set_ttl(struct cove *cove, const char *name, uint64_t ttl_ms, uint64_t idle_ms,
		 struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, name, set_times(cove, name, ttl_ms, idle_ms, &e), &e, err);
}
