/* Rows of the table in options.h: what becomes of a box over time. */
#pragma once

/* clang-format off */
#define OPTIONS_LIFE(X) \
	X(ON_START, "on-start", 0, TEXT, box.on_start, "LINE", \
		"a shell line that runs in the background whenever the box has started") \
	X(RESTART, "restart", 0, TEXT, box.restart, "no|on-reboot|always", \
		"start it again after a reboot, or whenever it died (`cove system reap`)") \
	X(SET_TTL, "ttl", 0, LIMIT_MS, box.ttl_ms, "TIME", \
		"from now to its end; none: it has no end") \
	X(SET_IDLE, "idle", 0, LIMIT_MS, box.idle_ms, "TIME", \
		"so long without a command; none: for ever")
/* clang-format on */
