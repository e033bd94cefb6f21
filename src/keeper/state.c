/*
 * What a client asks of the box as a whole; see keeper.h.
 *
 * A paused box is frozen with init in it, so nothing that init would have to do can be asked of
 * it: a new command, a file operation or a signal is refused with the remedy. What was asked before
 * goes on when it is resumed, and a client of a running command may still type: its bytes wait, up
 * to their credit. Looking at it, following output, ending and deleting it work as ever.
 */
#include "base/clock.h"
#include "base/limits.h"
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

void keeper_on_stats(struct keeper_client *c, const struct wire_frame *f)
{
	struct keeper *k = c->k;
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
	keeper_client_sent(c, wire_stats_encode(&c->link.out, f->id, 0, &m));
}

bool keeper_client_is_held_up(struct keeper_client *c, uint32_t id)
{
	if (c->k->paused)
		keeper_client_fail_with(c, id, ERR_CONFLICT, "box '%s' is paused: cove resume %s",
					c->k->name, c->k->name);
	return c->k->paused;
}

static int pause_box(struct keeper *k, bool on, const char *by, struct err *e)
{
	uint64_t now = clock_mono_ms();
	struct wire_pause m = {.for_ms = now - k->paused_ms};
	struct event ev = {.kind = on ? EVENT_PAUSE : EVENT_RESUME,
			   .at_ms = clock_wall_ms(),
			   .box = k->name,
			   .by = by[0] ? by : NULL};
	int r;

	if (k->ending || !k->linked)
		return err_set(e, ERR_CONFLICT, EBUSY, "box '%s' is ending", k->name);
	if (on == k->paused)
		return 0;
	/* It is in init's socket before init moves, so that no timeout of a command comes first.
	 * Should it not thaw, the rest comes the next time. */
	if (!on) {
		keeper_sent_init(k, wire_pause_encode(&k->init.out, 0, 0, &m));
		wire_link_push(&k->init);
		k->paused_ms = now;
	}
	r = k->on_pause
		    ? k->on_pause(k, on, e)
		    : err_set(e, ERR_UNSUPPORTED, ENOTSUP, "box '%s' cannot be paused", k->name);
	if (r < 0)
		return r;
	k->paused = on;
	if (on)
		k->paused_ms = clock_mono_ms();
	keeper_execs_pause(k, on);
	keeper_event(k, &ev);
	return 0;
}

void keeper_on_pause(struct keeper_client *c, const struct wire_frame *f)
{
	char by[64] = "";
	struct wire_pause m;
	struct err e;

	if (wire_pause_decode(f, &m) < 0 || f->id == 0) {
		keeper_client_break(c, "a malformed PAUSE");
		return;
	}
	if (m.by)
		keeper_safe_text(by, sizeof(by), m.by);
	if (pause_box(c->k, m.on != 0, by, &e) < 0)
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
	c->k->on_end(c->k, &(struct keeper_end){.cause = "stopped",
						.by = by,
						.is_ordered = true,
						.grace_ms = m.grace_ms,
						.remove = m.remove != 0});
}
