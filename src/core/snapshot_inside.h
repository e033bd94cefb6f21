/*
 * Snapshots that a box asks for itself (cove-ctl snapshot): for cove-save.
 *
 * The name is the box's name and the one that it gave, so that no other box's is meant; where there
 * is one it is refused, never replaced. A box may have so many; then one of them has to go first,
 * which is its owner's to do. Together they take no more than the box's own limit of disk: beyond
 * that the oldest of them go. (In a pool what they hold is charged to the box's own quota.) One
 * that has a tag is its owner's: it counts for neither and stays, as all snapshots do that were
 * made from outside. To the owner's key each counts as one that was made from outside: where that
 * may have no more, the box gets none (core/key_usage.h).
 */
#pragma once

#include "base/limits.h"
#include "core/core.h"

struct snapshot_inside {
	char name[BOX_NAME_MAX + 1];
	uint64_t frozen_us, total_us;
	uint64_t left; /* how many more */
};
int snapshot_inside_make(struct cove *cove, const char *box, const char *name, uint64_t keep,
			 struct snapshot_inside *ret, struct err *e);
/* The name that a box's snapshot gets; for tests. */
void snapshot_inside_name(const char *box, const char *name, char ret[BOX_NAME_MAX + 1]);
