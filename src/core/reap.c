/* One pass over all boxes; see reap.h. */
#include "core/reap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "core/life.h"
#include "core/up.h"
#include "store/record_run.h"
#include "store/restart.h"

#include <errno.h>
#include <string.h>

struct reap;

struct reap_start {
	struct core_up up;
	struct reap *pass;
	bool ours; /* no other started it meanwhile */
	char cause[64];
};

struct reap {
	struct cove *cove;
	const struct cove_reap_options *o;
	struct cove_reaped *ret;
	char boot[RECORD_BOOT_LEN + 1];
	uint64_t now_ms;
	unsigned removals;
	struct ev *ev; /* owned; NULL before the first start */
	struct reap_start starts[REAP_STARTS_MAX];
	size_t start_count, done_count;
};

static void say(struct reap *p, uint64_t *count, const char *action, const char *box,
		const char *cause)
{
	(*count)++;
	if (p->o->on_action)
		p->o->on_action(p->o->arg, action, box, cause);
}

static void look_again(struct reap *p, uint64_t in_ms)
{
	if (in_ms < p->ret->next_ms)
		p->ret->next_ms = in_ms;
}

/* ---- its time is over ---- */

/* When a box goes that does not run; 0: it stays. */
static uint64_t goes_at_ms(const struct record *r)
{
	uint64_t ttl_ms = r->spec.limits[LIMIT_TTL];

	return r->spec.expiry == EXPIRE_REMOVE && ttl_ms && r->ttl_from_ms ? r->ttl_from_ms + ttl_ms
									   : 0;
}

/* 1: it is gone, 0: it is not to go, or somebody works on it. */
static int remove_expired(struct reap *p, const char *name, struct err *e)
{
	autoclose int box_fd = -1;
	struct restart_state state;
	struct record record;
	uint64_t at_ms;
	int r = box_open_dir(p->cove, name, &box_fd, e);

	if (r < 0 || record_lock_operation(box_fd, false, NULL) < 0 ||
	    restart_read(box_fd, &state) < 0 ||
	    record_load(&p->cove->state, name, &record, NULL) < 0)
		return 0;
	at_ms = record.state == BOX_STOPPED && !restart_is_held(&record, &state)
			? goes_at_ms(&record)
			: 0;
	record_done(&record);
	if (!at_ms || at_ms > p->now_ms)
		return 0;
	r = box_destroy_locked(p->cove, name, box_fd, "reap", e);
	return r < 0 ? r : 1;
}

static void look_at_removal(struct reap *p, const char *name, uint64_t at_ms)
{
	struct err e = {0};
	int r;

	if (at_ms > p->now_ms) {
		look_again(p, at_ms - p->now_ms);
		return;
	}
	if (p->removals == REAP_REMOVALS_MAX) {
		p->ret->next_ms = 0;
		return;
	}
	p->removals++;
	r = remove_expired(p, name, &e);
	if (r > 0)
		say(p, &p->ret->removed, "removed", name, "ttl");
	else if (r < 0)
		say(p, &p->ret->failed, "failed", name, e.msg);
}

/* ---- it ended by itself ---- */

/* With the operation lock. */
static int may_start(struct core_up *u, const struct record *record, struct err *e)
{
	struct reap_start *s = container(u, struct reap_start, up);
	struct restart_state state;
	uint64_t now_ms = clock_wall_ms();
	int r = restart_read(u->box_fd, &state);

	if (r == 0 && (!restart_wants(record, &state, s->pass->boot) ||
		       restart_at_ms(record, &state, now_ms) > now_ms))
		return err_set(e, ERR_CONFLICT, ECANCELED, "box '%s' is not to be started any more",
			       u->name);
	str_copy(s->cause, sizeof(s->cause), record->own_cause);
	/* Before it, so that it counts whatever becomes of us. */
	restart_count(&state, record, now_ms);
	if (r == 0)
		r = restart_write(u->box_fd, &state);
	s->ours = r == 0;
	return r < 0 ? err_errno(e, -r, "note the start of box '%s'", u->name) : 0;
}

static void note_success(struct reap *p, const char *name)
{
	autoclose int box_fd = -1;
	struct restart_state state;
	struct err e = {0};

	if (box_open_dir(p->cove, name, &box_fd, &e) < 0 || restart_read(box_fd, &state) < 0)
		return;
	state.fails = false;
	if (restart_write(box_fd, &state) < 0)
		log_debug("box %s: its start could not be noted", name);
}

static void on_up(void *arg, struct core_conn *conn, int r, const struct err *e)
{
	struct reap_start *s = arg;
	struct reap *p = s->pass;

	core_conn_free(conn);
	if (r == 0 && s->ours) {
		note_success(p, s->up.name);
		say(p, &p->ret->started, "started", s->up.name, s->cause);
	} else if (r < 0 && (s->ours || (r != -ECANCELED && e->kind != ERR_NOT_FOUND))) {
		say(p, &p->ret->failed, "failed", s->up.name, e->msg);
	}
	if (++p->done_count == p->start_count)
		ev_quit(p->ev);
}

static int look_at_restart(struct reap *p, const char *name, const struct record *record,
			   struct err *e)
{
	autoclose int box_fd = -1;
	struct restart_state state;
	struct reap_start *s;
	uint64_t at_ms;
	int r;

	if (record->spec.restart == RESTART_NO || box_open_dir(p->cove, name, &box_fd, NULL) < 0 ||
	    restart_read(box_fd, &state) < 0 || !restart_wants(record, &state, p->boot))
		return 0;
	at_ms = restart_at_ms(record, &state, p->now_ms);
	if (at_ms > p->now_ms) {
		look_again(p, at_ms - p->now_ms);
		return 0;
	}
	if (p->start_count == REAP_STARTS_MAX) {
		p->ret->next_ms = 0;
		return 0;
	}
	r = p->ev ? 0 : ev_new(&p->ev);
	if (r < 0)
		return err_errno(e, -r, "start boxes again");
	s = &p->starts[p->start_count++];
	*s = (struct reap_start){.pass = p,
				 .up = {.on_done = on_up, .arg = s, .may_start = may_start}};
	core_up_start(&s->up, p->ev, p->cove, name);
	look_again(p, REAP_WATCH_MS);
	return 0;
}

static int start_all(struct reap *p, struct err *e)
{
	int r = p->start_count ? ev_run(p->ev) : 0;

	if (p->done_count < p->start_count)
		for (size_t i = 0; i < p->start_count; i++)
			core_up_cancel(&p->starts[i].up);
	ev_free(p->ev);
	return r < 0 ? err_errno(e, -r, "start boxes again") : 0;
}

/* ---- each box ---- */

/* False if there is nothing more to look at. */
static bool load(struct reap *p, const char *name, struct record *ret)
{
	bool ended;

	if (record_load(&p->cove->state, name, ret, NULL) < 0)
		return false;
	if (!core_was_left(ret))
		return true;
	ended = ret->state == BOX_STOPPED && ret->ended_ms == 0;
	record_done(ret);
	core_sweep_box(p->cove, name);
	if (record_load(&p->cove->state, name, ret, NULL) < 0)
		return false;
	if (ended && ret->state == BOX_STOPPED && ret->ended_ms)
		say(p, &p->ret->ended, "ended", name, ret->cause);
	return true;
}

static int look_at(struct reap *p, const char *name, struct err *e)
{
	struct record record;
	uint64_t at_ms;
	int r = 0;

	if (!load(p, name, &record))
		return 0;
	at_ms = record.state == BOX_STOPPED ? goes_at_ms(&record) : 0;
	if (record.state == BOX_RUNNING && record.spec.restart == RESTART_ALWAYS)
		look_again(p, REAP_WATCH_MS);
	if (at_ms)
		look_at_removal(p, name, at_ms);
	if (record.state == BOX_STOPPED && (!at_ms || at_ms > p->now_ms))
		r = look_at_restart(p, name, &record, e);
	record_done(&record);
	return r;
}

int reap_pass(struct cove *cove, const struct cove_reap_options *options, struct cove_reaped *ret,
	      struct err *e)
{
	autofree struct reap *p = calloc(1, sizeof(*p));
	char **names;
	size_t count;
	int r;

	*ret = (struct cove_reaped){.next_ms = REAP_EVERY_MS};
	if (!p)
		return err_errno(e, ENOMEM, "look after the boxes");
	if (cove->state.boxes_fd < 0)
		return 0;
	p->cove = cove;
	p->o = options;
	p->ret = ret;
	p->now_ms = clock_wall_ms();
	record_boot_id(p->boot);
	r = record_names(&cove->state, &names, &count, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++)
		r = look_at(p, names[i], e);
	state_names_free(names, count);
	if (start_all(p, r == 0 ? e : NULL) < 0 && r == 0)
		r = -e->code;
	cove->swept = false; /* by an earlier pass */
	if (options->sweep)
		core_sweep(cove);
	else
		core_sweep_seldom(cove);
	return r;
}

static int reap(struct cove *cove, const struct cove_reap_options *options, struct cove_reaped *ret,
		struct err *e)
{
	struct cove_reap_options o;
	int r = core_copy_sized(&o, sizeof(o), options, e);

	return r < 0 ? r : reap_pass(cove, &o, ret, e);
}

int cove_reap(struct cove *cove, const struct cove_reap_options *options, struct cove_reaped *ret,
	      struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, reap(cove, options, ret, &e), &e, err);
}
