/*
 * What init is given of the host: its groups, as detached copies of their mounts. `..` from the top
 * of one ends there, and so does every link of /proc that leads through it. Nothing else of the
 * host's is ever in init's hands.
 */
#pragma once

#include "base/err.h"
#include "cgroup/cgroup.h"

enum { INIT_FDS_MAX = 4, INIT_FD_PATH_MAX = 1024 };

/* One of them while the box is built. In their order they are init's descriptors 3, 4, ..., and the
 * options its last arguments. */
struct init_fd {
	const char *option; /* of init, for this descriptor */
	int dir_fd;	    /* borrowed; a group */
	const char *file;   /* not NULL: this file in it, for reading, and not the directory */
	bool take; /* the box's root is to own it, where the keeper could not see to that */
	int fd;	   /* owned; -1 until it was made */
	char path[INIT_FD_PATH_MAX]; /* not root only: where it is on the host */
};

/* What there is for init in a box's groups: those for its commands, and the count of refused forks.
 * Returns how many. *ret_untold: there is such a count, and it cannot be read. */
size_t init_fds_list(const struct cgroup *cg, struct init_fd ret[INIT_FDS_MAX], bool *ret_untold);
/* Notes where it is, for a process that has only a copy of the caller's mounts. */
int init_fd_find(struct init_fd *g, struct err *e);
/* Makes the detached copy: of the descriptor itself, or of what has the same path in this process's
 * own copy of the mounts, which must be the same directory. */
int init_fd_open(struct init_fd *g, struct err *e);
/* An ordinary user cannot give a group to its subordinate ids from outside; the box's root, whose
 * map covers the caller too, takes it. Where it cannot, init finds a group that it may not use, and
 * says so. */
void init_fd_take(const struct init_fd *g);
