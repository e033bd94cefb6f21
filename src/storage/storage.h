/*
 * Where a box's writes live: a volume. The same for a box's own layer and for a named workspace.
 *
 *	plain	a directory; nothing bounds it
 *	loop	an ext4 image in a sparse file, mounted through a loop device; root only
 *	tmpfs	memory; made by the wall inside the box, gone when it stops; anybody
 *	pool	a subvolume of a btrfs that many boxes share (pool.h); root only
 *
 * A volume is opened for as long as its box runs. What is opened is a detached mount: nothing is
 * ever visible in the host's tree, and nothing is left when everybody who held it is gone, kill -9
 * included (the loop device detaches itself).
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdbool.h>
#include <stdint.h>

enum storage_flags {
	STORAGE_LIMIT = 1 << 0,	    /* bounds bytes */
	STORAGE_MEMORY = 1 << 1,    /* counts as memory and does not survive a stop */
	STORAGE_SNAPSHOTS = 1 << 2, /* one costs the same whatever was written */
	STORAGE_QUOTA = 1 << 3,	    /* statfs tells of more than the box has: no number of files is
				     * bounded, and a write at the limit says EDQUOT */
};

/* Where a volume is. All borrowed. */
struct storage_place {
	int home_fd;	  /* the state directory, for what volumes share */
	int dir_fd;	  /* boxes/<id>, or workspaces/ */
	const char *name; /* a directory in dir_fd; NULL: dir_fd itself */
};

struct storage_size {
	uint64_t bytes, inodes; /* 0: no limit; inodes 0: what fits the bytes */
	bool throw_away;	/* never used again after this run: no journal, no sync */
	bool late;		/* volume_attach comes later: what takes long may wait for it */
};

enum { POOL_ID_LEN = 16 };

/* Of one in the pool, so that a confined keeper can measure and remove it. Owned, -1 without. */
struct volume_pool {
	int dir_fd; /* what holds it */
	int all_fd; /* what holds that, by the name id */
	int used_fd, reserved_fd;
	struct storage_place place; /* borrowed until volume_attach, and only with late */
	bool late;		    /* nothing of it is there yet */
	bool eased; /* it was full: it has a little more than its limit, until volume_tighten */
	char id[POOL_ID_LEN + 1];
};

struct volume {
	const struct storage_ops *ops;
	int mount_fd; /* owned; -1: the directory itself (plain), or made by the wall (tmpfs) */
	int stat_fd;  /* owned; its root with ids as stored (O_PATH); -1: no volume of its own */
	int file_fd;  /* owned; its disk until volume_attach; -1: there is nothing to attach */
	int from_fd;  /* owned; what that disk, still empty, is to be a copy of; else -1 */
	uint64_t bytes, inodes; /* the limit that holds, 0 none; may be that of an older make */
	bool throw_away;	/* as it was opened */
	struct volume_pool pool;
};

struct storage_ops {
	const char *name;
	unsigned flags;
	/* Can this caller have it here? 0, or ERR_UNSUPPORTED with the remedy. */
	int (*check)(const struct storage_place *p, const struct ids *ids, struct err *e);
	/* Makes the volume if it is missing and opens it. */
	int (*open)(const struct storage_place *p, const struct ids *ids,
		    const struct storage_size *size, struct volume *ret, struct err *e);
	/* Removes it; no process has it open. Missing is success. */
	int (*remove)(const struct storage_place *p, const struct ids *ids, struct err *e);
};

extern const struct storage_ops storage_plain, storage_loop, storage_tmpfs, storage_pool;

const struct storage_ops *storage_find(const char *name); /* or NULL */
/* What a volume that is there was made with; storage_plain where there is none yet. */
const struct storage_ops *storage_detect(const struct storage_place *p);

/* Is volume_attach due? */
bool volume_is_late(const struct volume *v);
/* Second half of a late open: mount_fd and stat_fd are there after it. Idempotent. */
int volume_attach(struct volume *v, struct err *e);

/* The box has ended; idempotent. What was to be thrown away is deleted first where there is much
 * of it, so that it is not written to disk on the way out. A zeroed volume is not valid: use
 * VOLUME_NONE. */
void volume_done(struct volume *v);
#define VOLUME_NONE                      \
	((struct volume){.mount_fd = -1, \
			 .stat_fd = -1,  \
			 .file_fd = -1,  \
			 .from_fd = -1,  \
			 .pool = {.dir_fd = -1, .all_fd = -1, .used_fd = -1, .reserved_fd = -1}})

/* What is needed to measure it, out of one whose mount has gone to a box. */
struct volume volume_take_measure(struct volume *v);

/* The box is up, and not running anything: its limit holds from here on. Nothing to do is usual. */
int volume_tighten(struct volume *v, struct err *e);

/* The box has ended and is deleted: what of it is not in its directory goes, whoever has it
 * mounted. Idempotent. */
int volume_drop(struct volume *v, const struct ids *ids, struct err *e);

struct volume_usage {
	uint64_t bytes, bytes_limit, files, files_limit;
};
/* All 0 where it cannot be found out cheaply. */
void volume_usage(const struct volume *v, struct volume_usage *ret);
/* Is one that a quota bounds full, or what it lies in? Of others false: a box sees that itself. */
bool volume_is_full(const struct volume *v);

/* Deletes the directory `name` of a box or workspace below dir_fd, and its volume with it, wherever
 * that is. Missing is success. */
int storage_delete(int home_fd, int dir_fd, const char *name, const struct ids *ids, struct err *e);
