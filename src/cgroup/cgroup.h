/*
 * A box's cgroup. For now only the unified (v2) hierarchy, wherever it is mounted and with or
 * without controllers: it is enough to freeze and to kill exactly one tree. Where there is none
 * that we may write to, a box has none, and init walks descendants instead.
 *
 *	<mount>/cove/<box>		killed as a whole when the box ends
 *	<mount>/cove/<box>/init		init itself, from birth
 *	<mount>/cove/<box>/e<ID>	one command; made and removed by init
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct cgroup {
	int fd; /* owned; directory of the box's group, -1 without cgroups */
};

/* Makes the group of a box, and `init` below it, and gives both to that owner, so that init (box
 * root) may make groups below. Success with fd -1 where cgroups cannot be used; `why` then says
 * so. */
int cgroup_make(const char *box, uid_t owner_uid, gid_t owner_gid, struct cgroup *ret, char *why,
		size_t why_size, struct err *e);

/* Removes the group of a box and all below, killing what is left. Missing is success. */
int cgroup_remove(const char *box, struct err *e);

void cgroup_done(struct cgroup *cg);

/* Calls on_box for every group below cove/, for sweeping up after a crash. */
int cgroup_each(void (*on_box)(const char *box, void *arg), void *arg);
