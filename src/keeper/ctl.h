/*
 * What a box asks for itself (wire/ctl.h), as its keeper answers: CTL of init's, from which
 * something in the box asked. info is what the box was made as, budget what it may still use.
 * Nothing of the host is in either: no path, no reason why the host cannot keep a limit, no other
 * box's name. snapshot goes to the saver (saver.h), one at a time, and is an event of the box.
 *
 * Every byte is the box's. What an honest init cannot send ends the box (keeper.h); what it may not
 * ask is an ERROR to whoever asked. Asking is no activity: it does not keep an idle box alive.
 */
#pragma once

#include "keeper/keeper.h"
#include "store/spec.h"
#include "wire/ctl.h"

struct keeper_disk {
	bool is_there;
	uint64_t bytes, limit_bytes; /* WIRE_UNKNOWN; 0: none */
};

/* What only the owner knows. UINT64_MAX: it has no such end. */
struct keeper_budget {
	uint64_t ttl_left_ms, idle_left_ms;
	struct keeper_disk own, workspace;
};

struct keeper_ctl {
	const struct spec *spec; /* borrowed */
	struct wire_ctl_set may;
	void (*on_budget)(struct keeper *k, struct keeper_budget *ret);
	uint64_t second_ms; /* since when second_count is counted */
	unsigned second_count;
	struct keeper *k;    /* while there is a saver */
	int saver_fd;	     /* owned, -1: none */
	struct ev_io saver;  /* of that */
	uint32_t pending_id; /* the request that the saver works for; 0: none */
	bool pending_json;
	uint64_t pending_uid;
};

/* The box may ask for snapshots: takes the descriptor of a saver. */
int keeper_ctl_take_saver(struct keeper *k, int fd);
/* Ends it. Twice, and without one, is fine. */
void keeper_ctl_done(struct keeper_ctl *c);

/* k->ctl is not NULL, or an honest init would not ask. */
void keeper_ctl_frame(struct keeper *k, const struct wire_frame *f);
