/*
 * Back-pressure between init and another link, a client's or the door's: which of both waits for
 * the other. Bytes with credit are bounded anyway; this is for what has none, and for many streams
 * at once.
 */
#pragma once

#include "ev/ev.h"
#include "wire/link.h"

#include <stdbool.h>

struct keeper;

struct keeper_gate {
	struct keeper *k;
	struct wire_link *link;
	void (*on_stalled)(struct keeper_gate *g); /* it pauses init and takes nothing */
	struct ev_timer stall;			   /* armed while it pauses init */
	size_t stall_mark;			   /* its queue when last looked at */
	bool paused_by_init; /* not read until init took what is queued for it */
	bool paused_by_sync; /* not read until a sync has ended: sync.c */
	bool pauses_init;    /* init is not read until this one took what is queued for it */
};

/* After something was queued for init on the link's behalf: the link is not read if init is
 * behind. */
void keeper_gate_pause_link(struct keeper_gate *g);
/* The link is not read until keeper_gate_synced. */
void keeper_gate_pause_for_sync(struct keeper_gate *g);
/* After so much is queued for the link: init is not read if that is over max. A link that then
 * takes nothing for KEEPER_STALL_MS is stalled, since everyone else waits. */
void keeper_gate_pause_init(struct keeper_gate *g, size_t queued, size_t max);
/* The link took all, or is gone. */
void keeper_gate_resume_init(struct keeper_gate *g);
/* Init took all. */
void keeper_gate_resume_link(struct keeper_gate *g);
void keeper_gate_synced(struct keeper_gate *g);
