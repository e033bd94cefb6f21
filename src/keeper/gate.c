/* Back-pressure; see gate.h. */
#include "keeper/gate.h"

#include "base/limits.h"
#include "keeper/keeper.h"

void keeper_gate_pause_link(struct keeper_gate *g)
{
	if (g->paused_by_init || !g->k->linked ||
	    wire_link_queued(&g->k->init) <= KEEPER_INIT_QUEUE)
		return;
	g->paused_by_init = true;
	wire_link_pause(g->link, true);
}

void keeper_gate_pause_for_sync(struct keeper_gate *g)
{
	g->paused_by_sync = true;
	wire_link_pause(g->link, true);
}

void keeper_gate_resume_link(struct keeper_gate *g)
{
	if (g->paused_by_init && !g->paused_by_sync)
		wire_link_pause(g->link, false);
	g->paused_by_init = false;
}

void keeper_gate_synced(struct keeper_gate *g)
{
	if (!g->paused_by_sync)
		return;
	g->paused_by_sync = false;
	keeper_gate_pause_link(g); /* what was held is queued for init now */
	if (!g->paused_by_init)
		wire_link_pause(g->link, false);
}

static void on_stall(struct ev_timer *t)
{
	struct keeper_gate *g = container(t, struct keeper_gate, stall);
	size_t queued = wire_link_queued(g->link);

	if (queued >= g->stall_mark) {
		g->on_stalled(g);
		return;
	}
	g->stall_mark = queued;
	ev_timer_set(g->k->ev, t, KEEPER_STALL_MS);
}

void keeper_gate_pause_init(struct keeper_gate *g, size_t queued, size_t max)
{
	struct keeper *k = g->k;

	if (g->pauses_init || !k->linked || queued <= max)
		return;
	g->pauses_init = true;
	g->stall_mark = queued;
	g->stall.on_timer = on_stall;
	ev_timer_set(k->ev, &g->stall, KEEPER_STALL_MS);
	if (k->blocking++ == 0)
		wire_link_pause(&k->init, true);
}

void keeper_gate_resume_init(struct keeper_gate *g)
{
	struct keeper *k = g->k;

	if (!g->pauses_init)
		return;
	g->pauses_init = false;
	ev_timer_stop(k->ev, &g->stall);
	if (--k->blocking == 0 && k->linked)
		wire_link_pause(&k->init, false);
}
