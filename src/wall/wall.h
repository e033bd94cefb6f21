/*
 * A wall: what separates a box from the host. It starts cove-init with a root filesystem behind it
 * and hands back a byte stream; everything else is the same for all walls. The core asks flags and
 * never names a wall.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdbool.h>
#include <stdint.h>
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

/* The way to the door. The wall makes the sockets that init listens on, in the box's own network,
 * and leads everything to them that does not go to its loopback: TCP by redirect; UDP and the rest
 * are refused at once. Each is an inherited descriptor of init's, in this order, after `given`:
 * --net-proxy, --net-dns, --net-dns-tcp, --net-diag, --net-redirect (IPv4, then IPv6). */
struct wall_net {
	bool on;
	const char
		*trust_pem; /* a certificate to be trusted inside, where programs look; or NULL */
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

/* All pointers are borrowed for the call. */
struct wall_config {
	const char *name;    /* hostname inside */
	const char *box_dir; /* boxes/<id>: holds upper/ and work/ (see storage.h) */
	int rw_fd;	     /* above 0: a detached mount that holds them instead, borrowed */
	/* Not NULL: called instead while the new process makes what needs no layer; it returns such
	 * a mount, borrowed until start returns, or -errno. For ids of a range only. */
	int (*open_rw)(void *arg, struct err *e);
	/* Not NULL: what else there is to do while the new process is busy. The result already has
	 * its pid and proc_fds. */
	int (*meanwhile)(void *arg, struct err *e);
	void *arg; /* of both */
	struct wall_limits limits;
	bool strict;		/* no_new_privs and no root inside */
	bool proc_files;	/* the box has its own of wall_proc_names in /proc; see wall_box */
	const char *image_root; /* directory that becomes /, read-only below upper/ */
	bool image_is_host;	/* the host's own /usr below a small skeleton at image_root */
	bool throw_away;	/* the writes are never used again: do not sync them */
	struct ids ids;		/* which host ids the box's ids are */
	const struct wall_mount *mounts;
	size_t mount_count;
	int init_fd;		/* sealed memfd with cove-init */
	char *const *init_argv; /* NULL-terminated */
	int cgroup_fd;		/* v2 group that init is born in, or -1 */
	const int *join_fds;	/* "0" is written to each by the new process, first of all */
	size_t join_count;
	struct wall_net net;
	const struct wall_given *given;
	size_t given_count; /* at most WALL_GIVEN_MAX */
};

/* Lines that say what stands between a box and the kernel, and in `missing` what this kernel could
 * not give it; for `inspect`. Filled by start. */
struct wall_report {
	char walls[512], missing[512];
};

/* Files of /proc that tell a box's truth instead of the host's. They are in the box's own memory,
 * so nothing in the box names a place on the host, and are written through descriptors. */
enum { WALL_PROC_FILES = 5 };
extern const char *const wall_proc_names[WALL_PROC_FILES];

struct wall_box {
	pid_t pid;    /* init as the host sees it */
	int pidfd;    /* owned */
	int rfd, wfd; /* owned; the wire, equal for a socket */
	int proc_fds
		[WALL_PROC_FILES]; /* owned; where asked for: empty files to be written, else -1 */
	struct wall_report report;
	const char *network; /* static: "redirect", "proxy" (variables only) or "none" */
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
