/* Making a box and starting it, on an event loop; see up.h. */
#include "base/fd.h"
#include "core/door.h"
#include "core/life.h"
#include "core/up.h"
#include "store/removal.h"

#include <errno.h>
#include <fcntl.h>

enum { PLACE_STEP_MS = 2 };

static void create_stop(struct core_create *c)
{
	core_watch_stop(&c->watch);
	ev_timer_stop(c->ev, &c->timer);
	ev_defer_cancel(c->ev, &c->begin);
	fd_close(&c->box_fd);
	core_conn_free(take_ptr(c->conn));
}

static void create_end(struct core_create *c, int r, const struct err *e)
{
	struct core_conn *conn = take_ptr(c->conn);
	struct err why = *e;

	create_stop(c);
	if (r < 0)
		core_conn_free(take_ptr(conn));
	else
		conn->on_ready = NULL, conn->on_lost = NULL;
	c->on_done(c->arg, conn, r, &why);
}

static void create_undone(struct core_create *c)
{
	const struct spec *spec = &c->spec->spec;

	if (life_trash(c->cove, spec->name, c->box_fd, !spec->one_shot, NULL) < 0)
		err_prefix(&c->why, "not all of box '%s' could be removed again", spec->name);
	create_end(c, c->result, &c->why);
}

static void on_keeper_gone(struct core_watch *w, int r)
{
	create_undone(container(w, struct core_create, watch));
}

/* Nothing is to be left of the box; its operation lock is held until then, so that no other cove
 * finds it half-made. */
static void create_fail(struct core_create *c, int r, const struct err *e)
{
	c->result = r;
	c->why = *e;
	ev_timer_stop(c->ev, &c->timer);
	c->watch = (struct core_watch){.check = core_watch_free,
				       .on_done = on_keeper_gone,
				       .cove = c->cove,
				       .name = c->spec->spec.name,
				       .box_fd = c->box_fd};
	if (c->conn)
		c->conn->on_ready = NULL, c->conn->on_lost = NULL;
	if (!c->conn || core_watch_start(&c->watch, c->ev, KILL_WAIT_MS) < 0)
		create_undone(c);
}

static void on_create_ready(struct core_conn *conn)
{
	create_end(conn->arg, 0, &(struct err){0});
}

static void on_create_lost(struct core_conn *conn, int r, const struct err *e)
{
	create_fail(conn->arg, r, e);
}

static void on_create_late(struct ev_timer *t)
{
	struct err e;
	int r = err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "the box did not come up in %d s",
			START_WAIT_MS / 1000);

	create_fail(container(t, struct core_create, timer), r, &e);
}

static void create_spawn(struct core_create *c)
{
	const struct spec *spec = &c->spec->spec;
	int lock_fd = fcntl(c->box_fd, F_DUPFD_CLOEXEC, 3);
	struct err e = {0};
	int r = lock_fd < 0 ? err_errno(&e, errno, "start box '%s'", spec->name) : 0;

	if (r == 0)
		r = network_write(c->cove, c->spec, c->box_fd, &e);
	if (r == 0)
		r = life_spawn(c->cove, c->ev, spec, &c->image, take_fd(lock_fd), &c->conn, &e);
	fd_close(&lock_fd);
	if (r < 0) {
		create_fail(c, r, &e);
	} else if (spec->one_shot) {
		create_end(c, 0, &e);
	} else {
		c->conn->arg = c;
		c->conn->on_ready = on_create_ready;
		c->conn->on_lost = on_create_lost;
		c->timer.on_timer = on_create_late;
		ev_timer_set(c->ev, &c->timer, START_WAIT_MS);
	}
}

/* The name may be of a box that is removed behind its caller, which took its place first; a fresh
 * one is not. */
static void await_place(struct core_create *c)
{
	const struct spec *spec = &c->spec->spec;

	if ((c->options->name || !spec->one_shot) &&
	    removal_is_behind(c->cove->state.run_fd, spec->name) &&
	    ev_now(c->ev) - c->since_ms < STOP_WAIT_MS)
		ev_timer_set(c->ev, &c->timer, PLACE_STEP_MS);
	else
		create_spawn(c);
}

static void on_place_timer(struct ev_timer *t)
{
	await_place(container(t, struct core_create, timer));
}

/* What can be known to fail is known before anything is made of the box. */
static void on_create_begin(struct ev_defer *d)
{
	struct core_create *c = container(d, struct core_create, begin);
	struct cove *cove = c->cove;
	struct err e = {0};
	int r = spawn_find_programs(cove, &e);

	if (r == 0)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = network_choose(cove, c->spec, c->options, &e);
	if (r == 0)
		r = life_image(cove, c->spec->spec.image, &c->image, &e);
	if (r == 0)
		r = record_create(&cove->state, &c->spec->spec, &c->box_fd, &e);
	c->since_ms = ev_now(c->ev);
	if (r < 0)
		create_end(c, r, &e);
	else
		await_place(c);
}

void core_create_start(struct core_create *c, struct ev *ev, struct cove *cove,
		       struct core_spec *spec, const struct cove_box_options *options)
{
	c->cove = cove;
	c->ev = ev;
	c->spec = spec;
	c->options = options;
	c->box_fd = -1;
	c->conn = NULL;
	c->watch = (struct core_watch){0};
	c->timer = (struct ev_timer){.on_timer = on_place_timer};
	c->begin = (struct ev_defer){.on_defer = on_create_begin};
	ev_defer(ev, &c->begin);
}

void core_create_cancel(struct core_create *c)
{
	if (c->box_fd >= 0 && !c->conn)
		(void)life_trash(c->cove, c->spec->spec.name, c->box_fd, false, NULL);
	create_stop(c);
}
