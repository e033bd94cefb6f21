/* Back-pressure; see gate.h. */
#include "keeper/gate.h"

#include "base/limits.h"
#include "keeper/keeper.h"

void keeper_gate_wait(struct keeper_gate *g)
{
	if (g->waits_init || !g->k->linked || wire_link_queued(&g->k->init) <= KEEPER_INIT_QUEUE)
		return;
	g->waits_init = true;
	wire_link_pause(g->link, true);
}

void keeper_gate_wait_sync(struct keeper_gate *g)
{
	g->waits_sync = true;
	wire_link_pause(g->link, true);
}

void keeper_gate_go_on(struct keeper_gate *g)
{
	if (g->waits_init && !g->waits_sync)
		wire_link_pause(g->link, false);
	g->waits_init = false;
}

void keeper_gate_synced(struct keeper_gate *g)
{
	if (!g->waits_sync)
		return;
	g->waits_sync = false;
	keeper_gate_wait(g); /* what was held is queued for init now */
	if (!g->waits_init)
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

void keeper_gate_hold(struct keeper_gate *g, size_t queued, size_t max)
{
	struct keeper *k = g->k;

	if (g->holds_init || !k->linked || queued <= max)
		return;
	g->holds_init = true;
	g->stall_mark = queued;
	g->stall.on_timer = on_stall;
	ev_timer_set(k->ev, &g->stall, KEEPER_STALL_MS);
	if (k->blocking++ == 0)
		wire_link_pause(&k->init, true);
}

void keeper_gate_release(struct keeper_gate *g)
{
	struct keeper *k = g->k;

	if (!g->holds_init)
		return;
	g->holds_init = false;
	ev_timer_stop(k->ev, &g->stall);
	if (--k->blocking == 0 && k->linked)
		wire_link_pause(&k->init, false);
}
