/* Getting a box to run, on an event loop; see up.h. */
#include "core/up.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/door.h"
#include "core/life.h"
#include "core/rollback.h"
#include "core/walls.h"

#include <errno.h>

enum { UP_TRIES = 8 };

void core_up_end(struct core_up *u, int r, const struct err *e)
{
	struct core_conn *conn = take_ptr(u->conn);
	struct err why = *e; /* which may be the connection's */

	core_up_cancel(u);
	if (r < 0)
		core_conn_free(take_ptr(conn));
	else
		conn->on_ready = NULL, conn->on_lost = NULL;
	u->on_done(u->arg, conn, r, &why);
}

int core_up_watch(struct core_up *u, int (*check)(struct core_watch *w),
		  void (*on_done)(struct core_watch *w, int r), int timeout_ms)
{
	u->watch = (struct core_watch){.check = check,
				       .on_done = on_done,
				       .cove = u->cove,
				       .name = u->name,
				       .box_fd = u->box_fd};
	return core_watch_start(&u->watch, u->ev, timeout_ms);
}

static void up_wait(struct core_up *u, int (*check)(struct core_watch *w),
		    void (*on_done)(struct core_watch *w, int r), int timeout_ms)
{
	int r = core_up_watch(u, check, on_done, timeout_ms);
	struct err e = {0};

	if (r < 0)
		core_up_end(u, err_errno(&e, -r, "watch box '%s'", u->name), &e);
}

static void up_try(struct core_up *u);

static void on_ended(struct core_watch *w, int r)
{
	up_try(container(w, struct core_up, watch));
}

static void on_up_ready(struct core_conn *c)
{
	struct err e = {0};

	core_up_end(c->arg, 0, &e);
}

/* One that we started ourselves has failed for good; another was just ending. */
static void on_up_lost(struct core_conn *c, int r, const struct err *e)
{
	struct core_up *u = c->arg;

	if (r != -ECONNRESET || c->first || u->tries == UP_TRIES) {
		core_up_end(u, r, e);
		return;
	}
	ev_timer_stop(u->ev, &u->timer);
	core_conn_free(take_ptr(u->conn));
	fd_close(&u->box_fd);
	if (box_open_dir(u->cove, u->name, &u->box_fd, NULL) == 0)
		up_wait(u, core_watch_free, on_ended, STOP_WAIT_MS);
	else
		ev_defer(u->ev, &u->begin);
}

static void on_up_late(struct ev_timer *t)
{
	struct core_up *u = container(t, struct core_up, timer);
	struct err e;
	int r = err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "the box did not come up in %d s",
			START_WAIT_MS / 1000);

	u->fail(u, r, &e);
}

void core_up_await_hello(struct core_up *u,
			 void (*on_lost)(struct core_conn *c, int r, const struct err *e))
{
	u->conn->arg = u;
	u->conn->on_ready = on_up_ready;
	u->conn->on_lost = on_lost;
	u->timer.on_timer = on_up_late;
	ev_timer_set(u->ev, &u->timer, START_WAIT_MS);
}

/* The box is ours to start: from its record, with the operation lock that box_fd holds. */
static void up_spawn(struct core_up *u)
{
	struct record record;
	struct err e = {0};
	int r = rollback_finish(u->cove, u->name, u->box_fd, &e);

	if (r == 0)
		r = record_load(&u->cove->state, u->name, &record, &e);
	if (r == 0 && u->may_start) {
		r = u->may_start(u, &record, &e);
		if (r < 0)
			record_done(&record);
	}
	if (r == 0) {
		r = core_admit(u->cove, &record.spec, &u->hold, &e);
		if (r < 0)
			record_done(&record);
	}
	if (r == 0) {
		/* One that cannot be written is as good as it was. */
		if (!record.has_sum && record_renew(u->box_fd, &record.spec, &e) < 0)
			log_debug("%s", e.msg);
		r = spawn_find_programs(u->cove, &e);
		if (r == 0)
			r = wall_check(u->cove, record.spec.wall, &e);
		if (r == 0)
			r = network_check(u->cove, &record.spec, u->box_fd, &e);
		if (r == 0)
			r = life_spawn(u->cove, u->ev,
				       &(struct life_start){.spec = &record.spec,
							    .lock_fd = take_fd(u->box_fd),
							    .visit = u->visit,
							    .warm_fd = -1},
				       &u->conn, &e);
		record_done(&record);
	}
	if (r < 0)
		core_up_end(u, r, &e);
	else
		core_up_await_hello(u, on_up_lost);
}

static void on_free(struct core_watch *w, int r)
{
	struct core_up *u = container(w, struct core_up, watch);
	struct err e;

	if (r == 0) {
		up_spawn(u);
		return;
	}
	r = err_set(&e, ERR_TIMEOUT, ETIMEDOUT,
		    "box '%s' is locked and does not answer; end it with 'cove rm -f %s'", u->name,
		    u->name);
	core_up_end(u, r, &e);
}

static void on_locked(struct core_watch *w, int r)
{
	struct core_up *u = container(w, struct core_up, watch);
	struct err e = {0};

	if (r < 0)
		r = core_lock_failed(r, u->name, START_WAIT_MS, &e);
	else if (core_has_moved(u->cove, u->name, u->box_fd))
		r = record_missing(u->name, &e);
	if (r == 0)
		r = core_conn_connect(u->ev, u->cove->state.run_fd, u->name, &u->conn, &e);
	if (r == 0)
		core_up_await_hello(u, on_up_lost);
	else if ((r != -ENOENT && r != -ECONNREFUSED) || e.kind == ERR_NOT_FOUND)
		core_up_end(u, r, &e);
	else if (record_is_live(u->box_fd))
		up_wait(u, core_watch_free, on_free, STOP_WAIT_MS);
	else
		up_spawn(u);
}

static void up_try(struct core_up *u)
{
	struct err e = {0};
	int r;

	fd_close(&u->box_fd);
	u->tries++;
	r = core_conn_connect(u->ev, u->cove->state.run_fd, u->name, &u->conn, &e);
	if (r == 0) {
		core_up_await_hello(u, on_up_lost);
		return;
	}
	if (r != -ENOENT && r != -ECONNREFUSED) {
		core_up_end(u, r, &e);
		return;
	}
	r = box_open_dir(u->cove, u->name, &u->box_fd, &e);
	/* The runtime directory does not survive a reboot. */
	if (r == 0)
		r = state_make(&u->cove->state, &e);
	if (r < 0)
		core_up_end(u, r, &e);
	else
		up_wait(u, core_watch_lock, on_locked, START_WAIT_MS);
}

static void on_begin(struct ev_defer *d)
{
	up_try(container(d, struct core_up, begin));
}

void core_up_start(struct core_up *u, struct ev *ev, struct cove *cove, const char *name)
{
	u->cove = cove;
	u->ev = ev;
	str_copy(u->name, sizeof(u->name), name);
	u->box_fd = -1;
	u->tries = 0;
	u->conn = NULL;
	u->hold = NULL;
	u->watch = (struct core_watch){0};
	u->timer = (struct ev_timer){0};
	u->fail = core_up_end;
	u->begin = (struct ev_defer){.on_defer = on_begin};
	ev_defer(ev, &u->begin);
}

void core_up_cancel(struct core_up *u)
{
	core_watch_stop(&u->watch);
	ev_timer_stop(u->ev, &u->timer);
	ev_defer_cancel(u->ev, &u->begin);
	fd_close(&u->box_fd);
	core_hold_end(take_ptr(u->hold));
	core_conn_free(take_ptr(u->conn));
}

/* ---- blocking ---- */

struct up_call {
	struct ev *ev;
	struct core_conn *conn;
	int result;
	struct err e;
};

static void call_done(void *arg, struct core_conn *conn, int r, const struct err *e)
{
	struct up_call *c = arg;

	c->conn = conn;
	c->result = r;
	c->e = *e;
	ev_quit(c->ev);
}

/* Runs the loop to the end of what was started on it, which is then the connection's. */
static int call_run(struct up_call *c, struct core_conn **ret, struct err *e)
{
	int r = ev_run(c->ev);

	if (r < 0) {
		err_errno(e, -r, "start a box");
		return r;
	}
	if (c->result < 0 && e)
		*e = c->e;
	if (c->result < 0)
		return c->result;
	c->conn->owns_ev = true;
	*ret = c->conn;
	return 0;
}

int box_up(struct cove *cove, const char *name, bool visit, struct core_conn **ret, struct err *e)
{
	struct up_call c = {0};
	struct core_up up = {.on_done = call_done, .arg = &c, .visit = visit};
	int r = ev_new(&c.ev);

	if (r < 0)
		return err_errno(e, -r, "start box '%s'", name);
	core_up_start(&up, c.ev, cove, name);
	r = call_run(&c, ret, e);
	if (r < 0) {
		core_up_cancel(&up);
		ev_free(c.ev);
	}
	return r;
}

int life_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
		struct core_conn **ret, struct err *e)
{
	struct up_call c = {0};
	struct core_create create = {.up = {.on_done = call_done, .arg = &c}};
	int r = ev_new(&c.ev);

	if (r < 0)
		return err_errno(e, -r, "make box '%s'", s->name);
	core_create_start(&create, c.ev, cove, s, o);
	r = call_run(&c, ret, e);
	if (r < 0) {
		core_create_cancel(&create);
		ev_free(c.ev);
	}
	return r;
}
