/*
 * Starting a box again that ended by itself (spec.restart): whether, and when.
 *
 *	no		never
 *	on-reboot	it ran when the host went down; also where the host's own shutdown ended
 *			its keeper in good order
 *	always		that; or its keeper was lost, its init died, it ran out of memory
 *
 * Never a box that somebody stopped, or whose time was over. A start of this kind that fails is
 * tried again. The first start is due at once, the next not before a second after that one, then
 * two, four and so on up to a minute; a run of ten minutes is a good one, and the count begins
 * anew. What is known of that is a file in the box's directory, so that whoever starts boxes may be
 * killed at any time. A damaged file is as none.
 */
#pragma once

#include "store/record.h"

/* In a box's directory. */
#define RESTART_FILE "restart"

struct restart_state {
	uint64_t count;	   /* starts in a row, without a good run between */
	uint64_t tried_ms; /* wall clock: when the last was begun; 0: none */
	bool fails;	   /* and it has not succeeded yet */
	/* When the run began (record.own_ms) after which somebody wanted the box to stay as it
	 * is: it is neither started nor removed by itself. */
	uint64_t held_run_ms;
};

int restart_read(int box_fd, struct restart_state *ret);
/* Durable. */
int restart_write(int box_fd, const struct restart_state *s);

/* After its last run the box stays as it is, until somebody starts it. Durable. */
int restart_hold(int box_fd, const struct record *r);
bool restart_is_held(const struct record *r, const struct restart_state *s);

/* Is a box that does not run to be started again? boot: the host's (record_run.h). */
bool restart_wants(const struct record *r, const struct restart_state *s, const char *boot);
/* By the wall clock, and not after now + a minute. */
uint64_t restart_at_ms(const struct record *r, const struct restart_state *s, uint64_t now_ms);
/* The state as the next start begins. */
void restart_count(struct restart_state *s, const struct record *r, uint64_t now_ms);
