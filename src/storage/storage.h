/*
 * Where a box's writes live. One way so far: a plain directory below boxes/<id>/. Ops and flags so
 * that loop images and btrfs pools can stand beside it.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

enum storage_flags {
	STORAGE_LIMIT = 1 << 0, /* can bound bytes */
	STORAGE_SNAPSHOT = 1 << 1,
	STORAGE_CLONE = 1 << 2,
};

struct storage_ops {
	const char *name;
	unsigned flags;
	/* Makes upper/ and work/ below box_fd, owned so that box root can use them. */
	int (*make)(int box_fd, const struct ids *ids, struct err *e);
	/* Removes them. Missing is success. */
	int (*remove)(int box_fd, const struct ids *ids, struct err *e);
};

extern const struct storage_ops storage_plain;
