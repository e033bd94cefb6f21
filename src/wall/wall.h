/*
 * A wall: what separates a box from the host. It starts cove-init with a root filesystem behind it
 * and hands back a byte stream; everything else is the same for all walls. The core asks flags and
 * never names a wall.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdbool.h>
#include <sys/types.h>

enum wall_flags {
	WALL_ROOT_INSIDE = 1 << 0, /* in-box root is possible with these ids */
	WALL_SHARED_KERNEL = 1 << 1,
};

struct wall_mount {
	const char *src;     /* host path */
	const char *beneath; /* not NULL: resolve this below src; links and ".." cannot leave it */
	const char *dst;     /* absolute path in the box, created if missing */
	bool read_only;
	bool owned; /* a named workspace: stored ids are the box's own 0..65535 */
};

/* All pointers are borrowed for the call. */
struct wall_config {
	const char *name;	/* hostname inside */
	const char *box_dir;	/* boxes/<id>: holds upper/ and work/ (see storage.h) */
	const char *image_root; /* directory that becomes /, read-only below upper/ */
	bool image_is_host;	/* the host's own /usr below a small skeleton at image_root */
	bool throw_away;	/* the writes are never used again: do not sync them */
	struct ids ids;		/* which host ids the box's ids are */
	const struct wall_mount *mounts;
	size_t mount_count;
	int init_fd;		/* sealed memfd with cove-init */
	char *const *init_argv; /* NULL-terminated */
	int cgroup_fd;		/* the box's own cgroup (v2) with `init` in it, or -1 */
};

struct wall_box {
	pid_t pid;    /* init as the host sees it */
	int pidfd;    /* owned */
	int rfd, wfd; /* owned; the wire, equal for a socket */
};

struct wall_ops {
	const char *name;
	unsigned flags;
	/* Starts init. On failure nothing is left: no process, no mount. The error names the step
	 * and, where there is one, the remedy. */
	int (*start)(const struct wall_config *c, struct wall_box *ret, struct err *e);
	/* Ends every process of the box at once. Reaping init (a child) is left to the caller. */
	void (*kill)(struct wall_box *b);
};

/* The wall with that name, or NULL. */
const struct wall_ops *wall_find(const char *name);

extern const struct wall_ops wall_native;
