/* The clocks: monotonic for durations and timers, wall time for records people read, and the
 * machine's own. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_mono_ns(void)
{
	return clock_ns_of(CLOCK_MONOTONIC);
}

static inline uint64_t clock_mono_ms(void)
{
	return clock_mono_ns() / 1000000u;
}

/* Since the machine was started, with the time that it slept. */
static inline uint64_t clock_boot_ms(void)
{
	return clock_ns_of(CLOCK_BOOTTIME) / 1000000u;
}

/* Milliseconds since 1970. */
static inline uint64_t clock_wall_ms(void)
{
	return clock_ns_of(CLOCK_REALTIME) / 1000000u;
}

/* How long ago, by wall time, which may have been set back meanwhile: 0 then. */
static inline uint64_t clock_wall_since_ms(uint64_t then_ms)
{
	uint64_t now = clock_wall_ms();

	return now > then_ms ? now - then_ms : 0;
}
