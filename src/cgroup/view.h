/*
 * What a box is shown of its own groups, read-only, at /sys/fs/cgroup. Runtimes size their heaps
 * and thread pools by it: they look for a mount of a cgroup file system, join its place and the
 * path that /proc/self/cgroup names, and read limits and usage there.
 *
 *	v2	work/ itself, whose limits are the box's as it was given them
 *	v1	a directory for each controller that limits the box: of memory work/, of cpu and
 *		pids the box's group (with init in it, so one process more)
 *
 * Only groups of the box's own are shown, never one that it shares with others.
 */
#pragma once

#include "cgroup/layout.h"

enum { CGROUP_VIEWS_MAX = 3, CGROUP_VIEW_PATH_MAX = LAYOUT_PATH_MAX + 288 };

struct cgroup_view {
	unsigned count;
	struct {
		const char *name;		 /* below /sys/fs/cgroup; "": that itself */
		char path[CGROUP_VIEW_PATH_MAX]; /* on the host */
	} at[CGROUP_VIEWS_MAX];
};

/* What the group of each command is to say in memory.max and cpu.max: a runtime reads the limits of
 * the group that it is in, and mostly of none above. "" where there is nothing to say: without the
 * limit, and on v1, where that group is not found and the top is read. */
struct cgroup_said {
	char memory[24], cpu[48];
};
void cgroup_view_say(const struct cgroup *cg, const struct cgroup_limits *limits,
		     struct cgroup_said *ret);

/* Finds it for a box whose groups were made: cg->view, or NULL where no controller counts it. */
int cgroup_view_make(const struct layout *l, const char *box, struct cgroup *cg, struct err *e);
