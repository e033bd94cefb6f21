/*
 * Asking a running box's keeper: how it is, what it uses; and telling it to pause or go on. Looking
 * is no use of the box: it does not count against its idle time.
 */
#include "core/stats.h"

#include "base/fd.h"
#include "core/life.h"

#include <errno.h>

/* One request without payload, one frame as its answer, which is valid until the call is ended. */
static int ask(struct core_call *call, struct core_conn *c, enum wire_type type, int timeout_ms,
	       struct wire_frame *ret, struct err *e)
{
	int r = 0;

	core_call_begin(call, c);
	if (wire_encode(core_out(c), type, 0, call->q.id, NULL, 0) < 0)
		r = err_errno(e, ENOBUFS, "ask the keeper");
	if (r == 0)
		r = core_conn_flush(c, e);
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
	*ret = (struct cove_stats){
		.uptime_ms = m.uptime_ms,
		.paused = m.paused != 0,
		.cpu_us = m.cpu_us,
		.cpu_limit_milli = m.cpu_limit_milli,
		.throttled_us = m.throttled_us,
		.mem_bytes = m.mem_bytes,
		.mem_peak_bytes = m.mem_peak_bytes,
		.mem_limit_bytes = m.mem_limit_bytes,
		.oom_kills = m.oom_kills,
		.pids = m.pids,
		.pids_limit = m.pids_limit,
		.pids_hits = m.pids_hits,
		.disk_bytes = m.disk_bytes,
		.disk_limit_bytes = m.disk_limit_bytes,
		.disk_files = m.disk_files,
		.disk_files_limit = m.disk_files_limit,
		.io_read_bytes = m.io_read_bytes,
		.io_write_bytes = m.io_write_bytes,
		.execs_running = m.execs_running,
		.disk_own_limit_bytes = m.disk_own_limit_bytes,
		.net_up_bytes = m.net_up_bytes,
		.net_down_bytes = m.net_down_bytes,
		.net_conns = m.net_conns,
		.keeper_cpu_us = m.keeper_cpu_us,
		.keeper_cpu_limit_milli = m.keeper_cpu_limit_milli,
		.keeper_mem_bytes = m.keeper_mem_bytes,
		.keeper_mem_limit_bytes = m.keeper_mem_limit_bytes,
		.door_cpu_us = m.door_cpu_us,
		.door_cpu_limit_milli = m.door_cpu_limit_milli,
		.door_mem_bytes = m.door_mem_bytes,
		.door_mem_limit_bytes = m.door_mem_limit_bytes,
	};
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

int stats_tell_pause(struct core_conn *c, bool on, const char *by, struct err *e)
{
	struct wire_pause m = {.on = on, .by = by};
	struct core_call call;
	int r = 0;

	core_call_begin(&call, c);
	if (wire_pause_encode(core_out(c), call.q.id, 0, &m) < 0)
		r = err_errno(e, ENOBUFS, "ask the keeper");
	if (r == 0)
		r = core_conn_flush(c, e);
	if (r == 0)
		r = core_call_wait_ok(&call, STOP_WAIT_MS, e);
	core_call_end(&call, r == 0);
	return r;
}

int cove_stats(struct cove *cove, const char *name, struct cove_stats *ret, struct cove_error *err)
{
	struct core_conn *c = NULL;
	struct err e = {0};
	int r = reach(cove, name, &c, &e);

	if (r == 0)
		r = stats_ask(c, ret, &e);
	core_conn_free(c);
	return core_return(cove, name, r, &e, err);
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
