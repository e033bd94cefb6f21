/*
 * The groups of a box as the keeper makes them, for tests of cove-init: whichever layout this
 * machine has, or the test is skipped with the reason. The test's own process moves in beside
 * init.
 */
#pragma once

#include "exec_client.h"

enum rig_part { RIG_TREE, RIG_MEMORY, RIG_IO, RIG_PIDS, RIG_PARTS };

struct rig {
	char path[RIG_PARTS][96]; /* of the box's group; "" where that hierarchy has none */
	struct inherited inherited;
	const char *args[RIG_PARTS + 5]; /* for cove-init, NULL-terminated */
	char limit[24];
};

/* mem_bytes bounds commands; pids counts the test and init, too. 0: no limit. */
void rig_make(struct rig *r, uint64_t mem_bytes, unsigned pids);
/* Everybody in it has ended, or is about to. */
void rig_remove(struct rig *r);
/* Is there a group of that name for commands, in any hierarchy? And in all of them? */
bool rig_has(const struct rig *r, const char *name);
bool rig_has_everywhere(const struct rig *r, const char *name);
/* How many groups of commands there are, all hierarchies together, but those that are made ahead
 * for the command after last_id. */
unsigned rig_count(const struct rig *r, uint32_t last_id);
