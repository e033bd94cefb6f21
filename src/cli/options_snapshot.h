/* Rows of the table in options.h: snapshots and forks. */
#pragma once

/* clang-format off */
#define OPTIONS_SNAPSHOT(X) \
	X(NO_FREEZE, "no-freeze", 0, FLAG, no_freeze, NULL, \
		"where the box cannot be frozen, copy it while it runs") \
	X(KEEP, "keep", 0, COUNT, keep, "N", \
		"from now on keep the last N snapshots of a box; those with a tag do not count") \
	X(MAX_AGE, "max-age", 0, MS, max_age_ms, "TIME", \
		"from now on remove those of a box that are older (12h, 30d); not those with a " \
		"tag") \
	X(NO_RULE, "none", 0, FLAG, no_rule, NULL, \
		"without a rule of its own; a box's is then its image's") \
	X(KEEP_WORKSPACE, "keep-workspace", 0, FLAG, keep_workspace, NULL, \
		"leave the box's workspace as it is") \
	X(FOREIGN, "foreign", 0, FLAG, foreign, NULL, \
		"also a snapshot of a box that this one does not come from") \
	X(FORK_NAME, "name", 0, TEXT, box.name, "NAME", \
		"name of the fork; default: a fresh one") \
	X(FORK_COUNT, "count", 0, COUNT, count, "N", "make N forks, PREFIX-1 to PREFIX-N") \
	X(FORK_PREFIX, "prefix", 0, TEXT, prefix, "PREFIX", \
		"first part of their names; default: the box's")
/* clang-format on */
