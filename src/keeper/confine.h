/*
 * The keeper confines itself before it hears the first word of its box: no capability that it does
 * not use, no new privileges, not dumpable, files only beneath what is still its business
 * (Landlock), and a system-call allowlist of its own (src/filter/keeper.syscalls). What it still
 * has to do after that is known: serve its socket, write its logs, read its cgroups, end its box
 * and delete the box's tree.
 */
#pragma once

#include "base/err.h"
#include "cgroup/helper.h"
#include "storage/ids.h"

/* What it still needs. All borrowed; descriptors may be -1 where there is none. */
struct confine {
	const struct ids *ids;		       /* how the tree will be deleted */
	const struct cgroup *cgroup;	       /* its groups; NULL without */
	const struct cgroup_helper *own_group; /* the keeper's; NULL without */
	const char *name;		       /* of the box */
	int boxes_fd;			       /* where it is renamed before it goes */
	int box_fd;
	int run_fd;	  /* where its socket's directory is */
	int volume_fd;	  /* the root of a volume that is emptied at the end, or what holds it */
	int volumes_fd;	  /* where that is removed from */
	int workspace_fd; /* the root of a workspace that is asked how full it is */
};

/* 0, or 1 where the kernel truly has no Landlock of use: a note is in *e, and all else holds. What
 * fails otherwise is an error, and the box must not start. */
int confine_keeper(const struct confine *c, struct err *e);
