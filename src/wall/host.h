/*
 * What the keeper holds on this host for a box, for walls that are made of the host's own processes
 * and mounts.
 */
#pragma once

#include "cgroup/cgroup.h"
#include "storage/ids.h"

/* Files of /proc with a box's own numbers instead of the host's. They are in the box's own memory,
 * so nothing in the box names a place on the host, and are written through descriptors. */
enum { WALL_PROC_FILE_COUNT = 5 };
extern const char *const wall_proc_names[WALL_PROC_FILE_COUNT];

struct wall_host {
	struct ids *ids;       /* which host ids the box's ids are; await may add ns_fd */
	struct cgroup *cgroup; /* WALL_GROUPED: of all its processes, from birth */
	int proc_fds[WALL_PROC_FILE_COUNT]; /* finish: owned, empty files to be written; or -1 */
	/* begin: owned; holds the mounts of a box that is thrown away, so that taking them down is
	 * not part of its last process's end; or -1 */
	int mounts_fd;
};

#define WALL_HOST_NONE ((struct wall_host){.proc_fds = {-1, -1, -1, -1, -1}, .mounts_fd = -1})
