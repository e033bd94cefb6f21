/*
 * One pass over all boxes: what time, a crash or a reboot left to be done.
 *
 *	each box: runs			its keeper looks after it
 *		  was left by a crash	its end is written, or it is deleted (core_sweep_box)
 *		  its ttl is over	removed, where expire says so
 *		  restart says so	started, when it is due (store/restart.h)
 *	then: all that a crash left	core_sweep, once a minute or when it is asked for
 *
 * Nothing is remembered here between two passes, so whoever makes them may be killed at any time,
 * and several may make them at once: what is done to a box is decided once more with its operation
 * lock held. A box that somebody works on is left to the next pass. A pass starts and removes no
 * more than REAP_STARTS_MAX and REAP_REMOVALS_MAX boxes, all those starts at once.
 */
#pragma once

#include "core/core.h"

/* Between two passes: where nothing is due, and where a box runs that may have to be started again
 * at any time. */
enum { REAP_EVERY_MS = 60000, REAP_WATCH_MS = 5000 };

int reap_pass(struct cove *cove, const struct cove_reap_options *options, struct cove_reaped *ret,
	      struct err *e);
