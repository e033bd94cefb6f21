/*
 * A box that keeps a processor busy lets the others go first.
 *
 * Among boxes of equal weight a process that has just been started, or was woken, may have to wait
 * for the end of a busy neighbour's turn, which the kernel looks for at its next tick only: 4 ms on
 * many, and that at each step of a command. So a box that uses a processor up is put behind those
 * that do not; and, sooner, one that is not being asked anything while it works: none waits for
 * the answer to its next command. This is among the boxes only: beside the host's own processes it
 * counts as before, and busy boxes share alike. One that gets too little to be called busy is busy
 * no more at the next look, so that none starves.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { YIELD_LOOK_MS = 20 }; /* the shortest time that says anything */

struct yield {
	uint64_t at_ms, cpu_us; /* of the last look */
	bool asked;		/* a command was started since */
	bool on;
};

/* What was used since the last look decides whether it yields from now on: y->on. cpu_us counts the
 * box's processor time, cpu_milli is its limit, 0 without. */
void yield_look(struct yield *y, uint64_t now_ms, uint64_t cpu_us, uint64_t cpu_milli);
/* The time up to now does not count: the box stood still. */
void yield_skip(struct yield *y, uint64_t now_ms, uint64_t cpu_us);
