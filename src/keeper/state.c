/*
 * What a client asks of the box as a whole; see keeper.h.
 *
 * A paused box is frozen with init in it, so nothing that init would have to do can be asked of
 * it: a new command, a file operation or a signal is refused with the remedy. What was asked before
 * goes on when it is resumed, and a client of a running command may still type: its bytes wait, up
 * to their credit. Looking at it, following output, ending and deleting it work as ever.
 *
 * A box whose time is over may be frozen, too (--expire pause): it is asleep. It is paused in all
 * but one: a request that a paused box would refuse wakes it, and is served then. Looking at it
 * does not, nor does what belongs to a request that is under way: its bytes wait. Whoever pauses it
 * meanwhile makes it one that a person paused.
 *
 * A hold freezes the box for one connection, for the moment a copy of its files takes, and ends
 * with that connection however that ends, or after KEEPER_HOLD_MS. To everybody else the box is
 * running, and only slow: what is asked of it waits in init's socket. A box that a person paused
 * stays so when a hold is over, and one that is resumed meanwhile goes on when it is.
 */
#include "base/clock.h"
#include "base/limits_snapshot.h"
#include "keeper/door.h"
#include "keeper/exec.h"

#include <errno.h>
#include <string.h>

void keeper_on_status(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper *k = c->k;
	struct wire_status m = {
		.started_ms = k->started_ms,
		.execs_running = k->running_execs,
		.clients = k->client_count,
		.init_pid = (uint64_t)k->init_pid,
		.init_revision = k->init_revision,
		.notes = buf_cstr(&k->notes),
		.ids = k->ids,
		.paused = k->paused,
		.storage = k->storage,
		.network = k->network,
		.door = k->door && keeper_door_is_running(k->door),
		.walls = k->walls,
		.pinned = buf_cstr(&k->pinned),
	};

	keeper_client_sent(c, wire_status_encode(&c->link.out, f->id, 0, &m));
}

void keeper_stats_read(struct keeper *k, struct wire_stats *ret)
{
	struct wire_stats m = {
		.uptime_ms = k->started_ms ? clock_wall_since_ms(k->started_ms) : 0,
		.paused = k->paused,
		.execs_running = k->running_execs,
	};

	if (k->on_stats)
		k->on_stats(k, &m);
	if (k->door)
		keeper_door_stats(k->door, &m);
	/* A v1 group that is removed takes its count with it. */
	if (m.oom_kills < k->oom_execs)
		m.oom_kills = k->oom_execs;
	/* Before Linux 6.11 a refused fork counts in the group of the command only. */
	if (m.pids_hits < k->pids_execs)
		m.pids_hits = k->pids_execs;
	*ret = m;
}

void keeper_on_stats(struct keeper_client *c, const struct wire_frame *f)
{
	struct wire_stats m;

	keeper_stats_read(c->k, &m);
	keeper_client_sent(c, wire_stats_encode(&c->link.out, f->id, 0, &m));
}

bool keeper_is_frozen(const struct keeper *k)
{
	return k->paused || k->holds > 0;
}

static int freeze_box(struct keeper *k, bool on, struct err *e)
{
	uint64_t now = clock_mono_ms();
	struct wire_pause m = {.for_ms = now - k->frozen_ms};
	int r;

	/* It is in init's socket before init moves, so that no timeout of a command comes first.
	 * Should it not thaw, the rest comes the next time. */
	if (!on) {
		keeper_sent_init(k, wire_pause_encode(&k->init.out, 0, 0, &m));
		wire_link_push(&k->init);
		k->frozen_ms = now;
	}
	r = k->on_freeze
		    ? k->on_freeze(k, on, e)
		    : err_set(e, ERR_UNSUPPORTED, ENOTSUP, "box '%s' cannot be paused", k->name);
	if (r < 0)
		return r;
	if (on)
		k->frozen_ms = clock_mono_ms();
	keeper_execs_pause(k, on);
	return 0;
}

static void set_paused(struct keeper *k, bool on, const char *by)
{
	struct event ev = {.kind = on ? EVENT_PAUSE : EVENT_RESUME,
			   .at_ms = clock_wall_ms(),
			   .box = k->name,
			   .cause = on ? k->asleep : NULL,
			   .by = by[0] ? by : NULL};

	k->paused = on;
	if (!on)
		k->asleep = NULL;
	if (k->on_pause)
		k->on_pause(k);
	keeper_event(k, &ev);
}

static int pause_box(struct keeper *k, bool on, const char *by, struct err *e)
{
	int r;

	if (on == k->paused && !(on && k->asleep))
		return 0;
	r = k->holds > 0 || on == k->paused ? 0 : freeze_box(k, on, e);
	if (r < 0)
		return r;
	k->asleep = NULL;
	set_paused(k, on, by);
	return 0;
}

int keeper_sleep(struct keeper *k, const char *cause, struct err *e)
{
	int r = k->paused || k->holds > 0 ? 0 : freeze_box(k, true, e);

	if (r < 0 || k->paused)
		return r;
	k->asleep = cause;
	set_paused(k, true, "cove");
	return 0;
}

bool keeper_client_is_paused(struct keeper_client *c, uint32_t id)
{
	struct keeper *k = c->k;
	struct err e;

	if (k->asleep && pause_box(k, false, "request", &e) < 0)
		keeper_client_fail(c, id, &e);
	else if (k->paused)
		keeper_client_fail_with(c, id, ERR_CONFLICT, "box '%s' is paused: cove resume %s",
					k->name, k->name);
	return k->paused;
}

void keeper_hold_end(struct keeper_client *c)
{
	struct keeper *k = c->k;
	struct err e;

	ev_timer_stop(k->ev, &c->hold.end);
	if (!c->hold.on)
		return;
	c->hold.on = false;
	if (k->holds == 0) /* it was thawed, to end */
		return;
	if (--k->holds > 0 || k->paused || !k->linked || freeze_box(k, false, &e) == 0)
		return;
	keeper_note(k, "stayed paused after a snapshot: %s", e.msg);
	set_paused(k, true, "cove-keeper");
}

static void on_hold_over(struct ev_timer *t)
{
	struct keeper_client *c = container(t, struct keeper_client, hold.end);

	keeper_hold_end(c);
	c->hold.is_over = true;
}

static int hold_box(struct keeper_client *c, struct err *e)
{
	struct keeper *k = c->k;
	int r;

	if (c->hold.on)
		return err_set(e, ERR_CONFLICT, EBUSY, "box '%s' is frozen for this already",
			       k->name);
	r = keeper_is_frozen(k) ? 0 : freeze_box(k, true, e);
	if (r < 0)
		return r;
	k->holds++;
	c->hold.on = true;
	c->hold.is_over = false;
	c->hold.end.on_timer = on_hold_over;
	ev_timer_set(k->ev, &c->hold.end, KEEPER_HOLD_MS);
	return 0;
}

/* Who hears OK knows that the box was frozen all the time. */
static int let_go(struct keeper_client *c, struct err *e)
{
	bool held = c->hold.on, is_over = c->hold.is_over;

	c->hold.is_over = false;
	keeper_hold_end(c);
	if (held)
		return 0;
	if (is_over)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "box '%s' was frozen for %u s, and went on then: stop it first",
			       c->k->name, KEEPER_HOLD_MS / 1000);
	return err_set(e, ERR_CONFLICT, EINVAL, "box '%s' is not frozen for this", c->k->name);
}

void keeper_on_pause(struct keeper_client *c, const struct wire_frame *f)
{
	char by[64] = "";
	struct wire_pause m;
	struct err e;
	int r;

	if (wire_pause_decode(f, &m) < 0 || f->id == 0) {
		keeper_client_break(c, "a malformed PAUSE");
		return;
	}
	if (m.by)
		keeper_safe_text(by, sizeof(by), m.by);
	if (c->k->ending || !c->k->linked)
		r = err_set(&e, ERR_CONFLICT, EBUSY, "box '%s' is ending", c->k->name);
	else if (m.hold)
		r = m.on ? hold_box(c, &e) : let_go(c, &e);
	else
		r = pause_box(c->k, m.on != 0, by, &e);
	if (r < 0)
		keeper_client_fail(c, f->id, &e);
	else
		keeper_client_send(c, WIRE_OK, 0, f->id, NULL, 0);
}

void keeper_on_times(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper *k = c->k;
	struct wire_times m;
	struct err e;
	int r;

	if (wire_times_decode(f, &m) < 0)
		keeper_client_break(c, "a malformed TIMES");
	else if ((r = k->on_times ? k->on_times(k, &m, &e)
				  : err_set(&e, ERR_UNSUPPORTED, ENOTSUP, "box '%s' has no clocks",
					    k->name)) < 0)
		keeper_client_fail(c, f->id, &e);
	else
		keeper_client_send(c, WIRE_OK, 0, f->id, NULL, 0);
}

void keeper_on_stop(struct keeper_client *c, const struct wire_frame *f)
{
	char by[64] = "";
	struct wire_stop m;

	if (wire_stop_decode(f, &m) < 0 || c->stopping) {
		keeper_client_break(c, "a malformed or second STOP");
		return;
	}
	c->stopping = true;
	c->stop_id = f->id;
	if (m.by)
		keeper_safe_text(by, sizeof(by), m.by);
	c->k->on_end(c->k, &(struct keeper_end){.cause = m.rollback == 2 ? "merge"
							 : m.rollback	 ? "rollback"
									 : "stopped",
						.by = by,
						.is_ordered = true,
						.grace_ms = m.grace_ms,
						.remove = m.remove != 0});
}
