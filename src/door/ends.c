/*
 * Ends of grants and of answers that hold for a time: when one comes, what it let in is judged
 * again; see door.h. They are moments of the wall clock, which may be set, so a timer never sleeps
 * for longer than DOOR_END_CHECK_MS.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "door/ask.h"
#include "door/door.h"

/* The first end after that moment; 0: none. */
static uint64_t next_end(const struct door *d, uint64_t after_ms)
{
	uint64_t grant = grants_next_end(d->grants, after_ms);
	uint64_t answer = asks_next_end(d, after_ms);

	return !grant || (answer && answer < grant) ? answer : grant;
}

void door_watch_ends(struct door *d)
{
	uint64_t now = clock_wall_ms(), next, wait;

	if (d->ends_seen_ms > now) /* the clock was set back */
		d->ends_seen_ms = now;
	next = next_end(d, d->ends_seen_ms);
	if (!next || !d->ends.on_timer) {
		ev_timer_stop(d->ev, &d->ends);
		return;
	}
	wait = next > now ? next - now : 0;
	ev_timer_set(d->ev, &d->ends, wait < DOOR_END_CHECK_MS ? wait : DOOR_END_CHECK_MS);
}

bool door_has_ended(struct door *d)
{
	uint64_t now = clock_wall_ms(), next = next_end(d, d->ends_seen_ms);

	if (!next || next > now)
		return false;
	d->ends_seen_ms = now;
	return true;
}
