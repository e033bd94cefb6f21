/* Making a box and starting it, on an event loop; see up.h. */
#include "base/fd.h"
#include "base/log.h"
#include "core/door.h"
#include "core/life.h"
#include "core/up.h"
#include "core/walls.h"
#include "core/warm.h"
#include "store/layer.h"
#include "store/removal.h"

#include <errno.h>
#include <fcntl.h>

enum { PLACE_STEP_MS = 2 };

/* The workspace first: without the record it would not be known whose it is. */
static int undo(struct core_create *c, bool durable)
{
	if (c->made_workspace)
		life_drop_workspace(c->up.cove, &c->spec->spec);
	return life_trash(c->up.cove, c->up.name, c->up.box_fd, durable, NULL);
}

/* What was made ahead did not become the box, so it is made. */
static void create_anew(struct core_create *c)
{
	struct core_up *u = &c->up;

	log_debug("box '%s': what was made ahead: %s", u->name, c->why.msg);
	core_watch_stop(&u->watch);
	core_conn_free(take_ptr(u->conn));
	core_hold_end(take_ptr(u->hold));
	fd_close(&u->box_fd);
	image_done(&c->spec->image);
	c->spec->image = (struct image){0};
	c->spec->spec.layer_count = 0;
	c->is_warm = false;
	c->is_cold = true;
	ev_defer(u->ev, &u->begin);
}

static void create_undone(struct core_create *c)
{
	const struct spec *spec = &c->spec->spec;
	int r = undo(c, !spec->one_shot);

	if (r < 0)
		err_prefix(&c->why, "not all of box '%s' could be removed again", spec->name);
	if (r >= 0 && c->is_warm)
		create_anew(c);
	else
		core_up_end(&c->up, c->result, &c->why);
}

static void on_keeper_gone(struct core_watch *w, int r)
{
	create_undone(container(w, struct core_create, up.watch));
}

/* Nothing is to be left of the box; its operation lock is held until then, so that no other cove
 * finds it half-made. */
static void create_fail(struct core_up *u, int r, const struct err *e)
{
	struct core_create *c = container(u, struct core_create, up);

	c->result = r;
	c->why = *e;
	ev_timer_stop(u->ev, &u->timer);
	if (u->conn)
		u->conn->on_ready = NULL, u->conn->on_lost = NULL;
	if (!u->conn || core_up_watch(u, core_watch_free, on_keeper_gone, KILL_WAIT_MS) < 0)
		create_undone(c);
}

static void on_create_lost(struct core_conn *conn, int r, const struct err *e)
{
	create_fail(conn->arg, r, e);
}

static void create_spawn(struct core_create *c)
{
	const struct spec *spec = &c->spec->spec;
	struct core_up *u = &c->up;
	int lock_fd = fd_copy(u->box_fd, 3);
	struct err e = {0};
	int r = lock_fd < 0 ? err_errno(&e, -lock_fd, "start box '%s'", spec->name) : 0;

	if (r == 0)
		r = network_write(u->cove, c->spec, u->box_fd, &e);
	if (r == 0)
		r = life_spawn(u->cove, u->ev,
			       &(struct life_start){.spec = spec,
						    .lock_fd = take_fd(lock_fd),
						    .keep = c->spec->keep,
						    .soon = c->spec->soon,
						    .secrets = c->spec->secrets,
						    .secret_count = c->spec->secret_count,
						    .warm_fd = take_fd(c->warm_fd)},
			       &u->conn, &e);
	/* While it starts. */
	if (r == 0 && c->is_warm && !spec->one_shot)
		r = record_sync_name(&u->cove->state, spec, &e);
	fd_close(&lock_fd);
	if (r < 0)
		create_fail(u, r, &e);
	else if (spec->one_shot && !c->spec->keep)
		core_up_end(u, 0, &e);
	else
		core_up_await_hello(u, on_create_lost);
}

/* The name may be of a box that is removed behind its caller, which took its place first; a fresh
 * one is not. */
static void await_place(struct ev_timer *t)
{
	struct core_create *c = container(t, struct core_create, up.timer);
	const struct spec *spec = &c->spec->spec;
	struct core_up *u = &c->up;

	if ((c->options->name || !spec->one_shot) &&
	    removal_is_behind(u->cove->state.run_fd, spec->name) &&
	    ev_now(u->ev) - c->since_ms < STOP_WAIT_MS)
		ev_timer_set(u->ev, &u->timer, PLACE_STEP_MS);
	else
		create_spawn(c);
}

/* True: the box has the place of one that was made ahead, or *ret says why it has none at all. */
static bool write_warm(struct core_create *c, int *ret, struct err *e)
{
	struct cove *cove = c->up.cove;
	struct core_premade *p = c->is_cold ? NULL : core_warm_take(cove, c->spec);

	if (!p)
		return false;
	*ret = record_create_in(&cove->state, &c->spec->spec, p->dir, p->dir_fd, e);
	if (*ret == -EEXIST) {
		core_warm_give_back(cove, p);
		return true;
	}
	if (*ret == 0) {
		c->is_warm = true;
		c->up.box_fd = take_fd(p->dir_fd);
		c->warm_fd = take_fd(p->sock);
	}
	core_premade_free(p);
	return c->is_warm;
}

/* From the look at the image until the record says so no layer is removed. */
static int write_record(struct core_create *c, struct err *e)
{
	struct cove *cove = c->up.cove;
	struct spec *spec = &c->spec->spec;
	int r = layers_hold(&cove->state);

	if (r < 0)
		return err_errno(e, -r, "lock the layers");
	if (spec->layer_count == 0)
		r = life_image(cove, spec, &c->spec->image, e);
	if (r == 0 && !write_warm(c, &r, e))
		r = record_create(&cove->state, spec, &c->up.box_fd, e);
	layers_release(&cove->state);
	return r;
}

/* What can be known to fail is known before anything is made of the box. */
static void on_create_begin(struct ev_defer *d)
{
	struct core_create *c = container(d, struct core_create, up.begin);
	struct cove *cove = c->up.cove;
	struct err e = {0};
	int r = spawn_find_programs(cove, &e);

	if (r == 0)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = wall_choose(cove, c->spec, &e);
	if (r == 0)
		r = network_choose(cove, c->spec, c->options, &e);
	if (r == 0)
		r = core_admit(cove, &c->spec->spec, &c->up.hold, &e);
	if (r == 0 && cove->on_making)
		cove->on_making(cove->making_arg, &c->spec->spec);
	if (r == 0)
		r = write_record(c, &e);
	c->since_ms = ev_now(c->up.ev);
	if (r < 0) {
		core_up_end(&c->up, r, &e);
		return;
	}
	if (c->spec->makes_workspace) {
		r = life_make_workspace(cove, c->spec, &e);
		c->made_workspace = r == 0;
	}
	if (r < 0)
		create_fail(&c->up, r, &e);
	else
		await_place(&c->up.timer);
}

void core_create_start(struct core_create *c, struct ev *ev, struct cove *cove,
		       struct core_spec *spec, const struct cove_box_options *options)
{
	core_up_start(&c->up, ev, cove, spec->spec.name);
	c->up.fail = create_fail;
	c->up.begin.on_defer = on_create_begin;
	c->up.timer.on_timer = await_place;
	c->spec = spec;
	c->options = options;
	c->warm_fd = -1;
}

void core_create_cancel(struct core_create *c)
{
	if (c->up.box_fd >= 0 && !c->up.conn)
		(void)undo(c, false);
	fd_close(&c->warm_fd);
	core_up_cancel(&c->up);
}
