/*
 * A wall: what separates a box from the host. It starts cove-init with a root filesystem behind it
 * and hands back a byte stream; everything else is the same for all walls.
 *
 *	begin	starts what can be started: the box is half made
 *		(the keeper brings the box's layer, while the wall is busy)
 *	finish	gets what was missing: from here on the box comes up by itself
 *		(the keeper does the rest of its own work)
 *	await	waits until init runs
 *
 * abort, at any point between, ends all of it and leaves nothing: no process, no mount. A failed
 * begin, finish or await needs it as well. An error names the step and, where there is one, the
 * remedy.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "wall/info.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct wall_mount {
	const char *src;     /* host path */
	const char *beneath; /* not NULL: resolve this below src; links and ".." cannot leave it */
	const char *dst;     /* absolute path in the box, created if missing */
	bool read_only;
	bool owned; /* a named workspace: stored ids are the box's own 0..65535 */
	/* Above 0: the detached mount of a volume, borrowed, instead of src (which is then only a
	 * name for messages). With beneath set it is a place within the box's own tree instead:
	 * src is the destination of an earlier mount, and beneath is resolved below that. */
	int src_fd;
	bool in_box;
};

/* What the wall itself bounds; the rest is the cgroup's. 0: not bounded. */
struct wall_limits {
	uint64_t files;			    /* RLIMIT_NOFILE, hard */
	uint64_t mem_bytes;		    /* tmpfs inside is sized by it */
	unsigned cpus;			    /* how many processors it sees and may run on */
	uint64_t tmpfs_bytes, tmpfs_inodes; /* not 0: its writes live on a tmpfs of this size */
};

/* The way to the door. The wall, or init (guest/setup.h), makes the sockets that init listens on,
 * in the box's own network, and leads everything to them that does not go to its loopback: TCP by
 * redirect; UDP and the rest are refused at once. */
struct wall_net {
	bool on;
	const char *trust_pem; /* a certificate to be trusted inside; or NULL */
};

/* Something of the host's cgroups that init gets: the wall sees to it that nothing leads from there
 * to the rest. In their order these are init's descriptors 3, 4, ..., and the options its last
 * arguments. */
struct wall_given {
	const char *option; /* of init, for this descriptor */
	int fd;		    /* borrowed; a directory */
	const char *file;   /* not NULL: this file in it, for reading, and not the directory */
	bool take; /* the box's root is to own it, where the caller could not see to that */
};

enum { WALL_GIVEN_MAX = 4 };

/* What the keeper holds on this host for a box, for walls that are made of the host's own
 * processes. */
struct wall_host {
	struct ids ids;	     /* which host ids the box's ids are */
	int cgroup_fd;	     /* v2 group that the box is born in, or -1 */
	const int *join_fds; /* "0" is written to each by the new process, first of all */
	size_t join_count;
	const struct wall_given *given; /* WALL_EXEC_GROUPS */
	size_t given_count;		/* at most WALL_GIVEN_MAX */
};

/* Borrowed, with all that it points to, until await or abort returns. */
struct wall_config {
	const char *name;	/* hostname inside */
	const char *box_dir;	/* boxes/<id>: holds upper/ and work/ (see storage.h) */
	int rw_fd;		/* above 0: a detached mount that holds them instead */
	bool rw_late;		/* it comes with finish */
	const char *image_root; /* directory that becomes /, read-only below upper/ */
	bool image_is_host;	/* the host's own /usr below a small skeleton at image_root */
	bool throw_away;	/* the writes are never used again: do not sync them */
	bool strict;		/* no_new_privs and no root inside */
	struct wall_limits limits;
	struct wall_net net;
	const struct wall_mount *mounts; /* WALL_HOST_MOUNTS */
	size_t mount_count;
	int init_fd;		/* sealed memfd with cove-init */
	char *const *init_argv; /* NULL-terminated */
	struct wall_host host;
};

/* Lines that say what stands between a box and the kernel, and in `missing` what this kernel could
 * not give it; for `inspect`. */
struct wall_report {
	char walls[512], missing[512];
};

/* Files of /proc that tell a box's truth instead of the host's. They are in the box's own memory,
 * so nothing in the box names a place on the host, and are written through descriptors. */
enum { WALL_PROC_FILE_COUNT = 5 };
extern const char *const wall_proc_names[WALL_PROC_FILE_COUNT];

struct wall_box {
	/* By begin or finish: a child of the caller's that ends with the box, init where that is
	 * a process of the host. */
	pid_t pid;
	int pidfd;			    /* owned */
	int rfd, wfd;			    /* owned; the wire, equal for a socket */
	int proc_fds[WALL_PROC_FILE_COUNT]; /* finish: owned, empty files to be written; or -1 */
	const char *network; /* await: static: "redirect", "proxy" (variables only) or "none" */
	struct wall_report report; /* await */
	void *build;		   /* the wall's own, from begin to await or abort */
};

#define WALL_BOX_NONE \
	((struct wall_box){.pidfd = -1, .rfd = -1, .wfd = -1, .proc_fds = {-1, -1, -1, -1, -1}})

struct wall_ops {
	const struct wall_info *info;
	int (*begin)(const struct wall_config *c, struct wall_box *b, struct err *e);
	/* rw_fd: the layer that was to come late, borrowed; -1 where there is none. */
	int (*finish)(struct wall_box *b, int rw_fd, struct err *e);
	int (*await)(struct wall_box *b, struct err *e);
	/* Harmless for a box that was never begun, and twice. */
	void (*abort)(struct wall_box *b);
	/* Ends every process of a box that runs at once. Reaping pid is left to the caller. */
	void (*kill)(struct wall_box *b);
};

/* The wall with that name, or NULL. */
const struct wall_ops *wall_find(const char *name);

extern const struct wall_ops wall_native;
#ifdef COVE_TEST_WALLS
extern const struct wall_ops wall_plain;
#endif
