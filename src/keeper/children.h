/*
 * What a small process beside the keeper has below it, children and orphans alike: it is their
 * reaper, and none outlives it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum { CHILDREN_GRACE_MS = 2000 };

/* Whoever is orphaned below us is our child from here on. A descriptor that is readable when one
 * has ended, or -errno. */
int children_watch(void);
/* Reaps whatever has ended but `except`, whose status is somebody else's to read; 0: all. */
void children_reap(int watch_fd, pid_t except);
/* Until none is left, at most CHILDREN_GRACE_MS; kills: none is asked. False: there are still. */
bool children_await(int watch_fd, bool kills);
