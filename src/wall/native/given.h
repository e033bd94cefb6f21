/*
 * What init is given of the host: its groups, as detached copies of their mounts. `..` from the top
 * of one ends there, and so does every link of /proc that leads through it. Nothing else of the
 * host's is ever in init's hands.
 */
#pragma once

#include "base/err.h"
#include "wall/wall.h"

enum { GIVEN_PATH_MAX = 1024 };

/* One of them while the box is built. */
struct given {
	int fd;			   /* owned; -1 until it was made */
	char path[GIVEN_PATH_MAX]; /* not root only: where it is on the host */
};

/* Notes where they are, for a process that has only a copy of the caller's mounts. */
int given_find(struct given *g, const struct wall_given *from, struct err *e);
/* Makes the detached copy: of the descriptor itself, or of what has the same path in this process's
 * own copy of the mounts, which must be the same directory. */
int given_open(struct given *g, const struct wall_given *from, struct err *e);
/* An ordinary user cannot give a group to its subordinate ids from outside; the box's root, whose
 * map covers the caller too, takes it. Where it cannot, init finds a group that it may not use, and
 * says so. */
void given_take(const struct wall_given *from);
