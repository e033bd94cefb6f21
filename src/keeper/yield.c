/* Whether a box has been busy; see yield.h. */
#include "keeper/yield.h"

enum {
	ONE_CPU_MILLI = 1000,
	BUSY_PERCENT = 25,	 /* of a processor, or of the limit if that is less */
	BUSY_ASKED_PERCENT = 75, /* the same while commands come */
};

void yield_skip(struct yield *y, uint64_t now_ms, uint64_t cpu_us)
{
	y->at_ms = now_ms;
	y->cpu_us = cpu_us;
	y->asked = false;
}

void yield_look(struct yield *y, uint64_t now_ms, uint64_t cpu_us, uint64_t cpu_milli)
{
	uint64_t busy = y->asked ? BUSY_ASKED_PERCENT : BUSY_PERCENT;
	uint64_t passed_ms = now_ms - y->at_ms, used_us = cpu_us - y->cpu_us, full_us;

	if (passed_ms < YIELD_LOOK_MS)
		return;
	if (cpu_milli == 0 || cpu_milli > ONE_CPU_MILLI)
		cpu_milli = ONE_CPU_MILLI;
	full_us = passed_ms * cpu_milli;
	/* Between that and half of it, it stays as it is. */
	if (used_us * 100 >= full_us * busy)
		y->on = true;
	else if (used_us * 200 < full_us * busy)
		y->on = false;
	yield_skip(y, now_ms, cpu_us);
}
