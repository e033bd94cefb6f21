/*
 * A wall: what separates a box from the host. It starts cove-init with a root filesystem behind it
 * and hands back a byte stream; everything else is the same for all walls.
 *
 *	begin	starts what can be started: the box is half made
 *	finish	attaches the box's layer, and gives the rest that was missing: from here on the box
 *		comes up by itself (the keeper does its own work meanwhile)
 *	await	waits until init runs
 *
 * One that is made ahead (WALL_PREMADE) waits between: what is its owner's is not in it yet, and
 * nothing of the image has run.
 *
 *	park	after finish: waits until all is done that can be
 *	resume	says what the rest is: the name, the limits and init's arguments of that
 *		configuration, which differs in nothing else
 *
 * abort, at any point between, ends all of it and leaves nothing: no process, no mount. A failed
 * begin, finish or await needs it as well. An error names the step and, where there is one, the
 * remedy.
 *
 * The configuration says what the box is. What the keeper holds on this host for it is apart
 * (host.h): a wall whose boxes are no processes of this host does not look there.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "wall/info.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_stats;
struct volume;
struct wall_host;

/* Parts of the mounts that are mounted once more, read-only: keeper/pins.c. */
#define WALL_PINS_MAX	48u
#define WALL_MOUNTS_MAX (SPEC_MOUNT_MAX + 1 + WALL_PINS_MAX)

#define WALL_LOWERS_MAX 128u /* of all mounts together */

/* A directory below an overlay, which is never written to. */
struct wall_lower {
	const char *path; /* host path, not through a link */
	bool owned;	  /* as of a mount */
	uid_t uid;
	gid_t gid;
};

struct wall_mount {
	const char *src;	     /* host path */
	const struct volume *volume; /* not NULL: of that; src is only its name, for messages */
	const char *beneath; /* not NULL: resolve this below the source; links and ".." cannot leave
			      * it. Of a volume an earlier mount shows all. */
	const char *dst;     /* absolute path in the box, created if missing */
	bool read_only;
	bool owned; /* a named workspace: stored ids are the box's own 0..65535 */
	uid_t uid;  /* else whose what the box writes there is; files of others stay theirs */
	gid_t gid;
	/* Not NULL: an overlay of these, top first; src is only its name. What the box writes is in
	 * upper/ (beside work/) of the directory `upper`, which is made: of the volume, or where
	 * that is NULL of the box's own layer. */
	const struct wall_lower *lowers;
	size_t lower_count;
	const char *upper;
	bool upper_in_src; /* or of the directory src, stored with the box's own ids */
	bool beneath_dst;  /* beneath: not of src, but of what the first mount shows in the box */
};

/* What the wall itself bounds; the rest is the cgroup's. 0: not bounded. */
struct wall_limits {
	uint64_t files;	    /* RLIMIT_NOFILE, hard */
	uint64_t mem_bytes; /* tmpfs inside is sized by it */
	unsigned cpus;	    /* how many processors it sees and may run on */
};

/* The way to the door. The wall, or init (guest/setup.h), makes the sockets that init listens on,
 * in the box's own network, and leads everything to them that does not go to its loopback: TCP by
 * redirect; UDP and the rest are refused at once. */
struct wall_net {
	bool on;
	const char *trust_pem; /* certificates to be trusted inside; or NULL */
};

/* A file in memory of the box, read-only there, at a path that is made where it is missing: only
 * for as long as the box runs. */
struct wall_secret {
	const char *path; /* absolute */
	const void *data;
	size_t len;
	unsigned mode;
	uid_t uid; /* in the box */
	gid_t gid;
};

/* Borrowed, with all that it points to, until await or abort returns; host until the box ends. */
struct wall_config {
	const char *name; /* hostname inside */
	/* Directories that together become /, read-only below the layer; top first, at least one */
	const char *const *lowers;
	size_t lower_count;
	bool image_is_host;   /* the host's own /usr below a small skeleton, the one lower */
	struct volume *layer; /* holds upper/ and work/ (storage.h); opened, not yet attached */
	const char *box_dir;  /* boxes/<id>: holds them where the layer is a plain directory */
	bool throw_away;      /* the writes are never used again: do not sync them */
	bool strict;	      /* no_new_privs and no root inside */
	bool ptrace;	      /* its processes may trace each other */
	struct wall_limits limits;
	struct wall_net net;
	const struct wall_mount *mounts; /* WALL_HOST_MOUNTS */
	size_t mount_count;
	const struct wall_secret *secrets; /* WALL_HOST_MOUNTS */
	size_t secret_count;
	bool parks;  /* WALL_PREMADE: it waits for resume, which is to come */
	int init_fd; /* sealed memfd with cove-init */
	/* Above 0: cove-ctl's program, which the box gets a copy of, read-only, at GUEST_CTL_DIR.
	 * The descriptor itself stays outside. */
	int ctl_fd;
	char *const *init_argv; /* NULL-terminated: its user, directory, environment and limits */
	const char *program;	/* the wall's own (info.h), where it needs one */
	const char *state_dir;	/* walls/<name>/ below it is the wall's to keep things in */
	struct wall_host *host;
};

/* Lines that say what stands between a box and the kernel, and in `missing` what this kernel could
 * not give it; for `inspect`. */
struct wall_report {
	char walls[512], missing[2560];
};

struct wall_box {
	/* By begin or finish: a child of the caller's that ends with the box, init where that is
	 * a process of the host. */
	pid_t pid;
	int pidfd;		   /* owned */
	int rfd, wfd;		   /* owned; the wire, equal for a socket */
	const char *network;	   /* await: static: "redirect", "proxy" (variables only), "none" */
	struct wall_report report; /* await */
	struct wall_host *host;	   /* the configuration's */
	void *build;		   /* the wall's own, from begin to await or abort */
};

#define WALL_BOX_NONE ((struct wall_box){.pidfd = -1, .rfd = -1, .wfd = -1})

struct wall_ops {
	const struct wall_info *info;
	int (*begin)(const struct wall_config *c, struct wall_box *b, struct err *e);
	int (*finish)(struct wall_box *b, struct err *e);
	/* WALL_PREMADE; the new configuration is borrowed as the first is, which is so still. */
	int (*park)(struct wall_box *b, struct err *e);
	int (*resume)(struct wall_box *b, const struct wall_config *c, struct err *e);
	int (*await)(struct wall_box *b, struct err *e);
	/* Harmless for a box that was never begun, and twice. */
	void (*abort)(struct wall_box *b);
	/* Ends every process of a box that runs at once. Reaping pid is left to the caller. */
	void (*kill)(struct wall_box *b);
	/* WALL_FREEZE: returns when all of its processes are frozen, or go on. */
	int (*freeze)(struct wall_box *b, bool on, struct err *e);
	/* WALL_MEASURE: what the box uses; what is not known stays 0. brief: only what changes from
	 * moment to moment and costs little to ask. */
	void (*measure)(struct wall_box *b, bool brief, struct cgroup_stats *ret);
};

/* The wall with that name, or NULL. */
const struct wall_ops *wall_find(const char *name);

#define WALL_DECLARE(name) extern const struct wall_ops wall_##name;
WALLS(WALL_DECLARE)
