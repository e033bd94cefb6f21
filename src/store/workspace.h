/*
 * Named workspaces: directories below workspaces/ that outlive boxes. Their files are stored with
 * the box's own ids (as root: uid 1000 for the box's user; otherwise that user is the caller), so a
 * workspace works in every later box.
 *
 * As root a new one is a volume with a limit: workspaces/<name>/ stays empty and the files are in
 * workspaces/<name>.img (storage/loop.h). Which of the two it is stays as it was made.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "storage/storage.h"
#include "store/state.h"
#include "store/workspace_stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workspace {
	char name[64];
	uint64_t bytes, files;
};

/* A workspace as a box uses it: made if missing, whole or not at all, as a volume of so many bytes
 * where this caller can have one (0: a directory). volume.mount_fd is -1 where it is a
 * directory, and then `why` says, if that is not the caller's wish, why nothing bounds it. */
struct workspace_use {
	int root_fd; /* owned; its files with ids as stored; -1: it is due, and was not made */
	struct volume volume;
	char why[200];
	bool needs_root; /* which is why: no other workspace would do */
	struct workspace_stack
		stack; /* of a stacked one: what holds upper/ and work/ is above it */
};

/* due: one that cannot be bounded is not made, and `why` says why. */
int workspace_use(struct state *s, const char *name, const struct ids *ids, uint64_t bytes,
		  bool due, struct workspace_use *ret, struct err *e);
void workspace_use_done(struct workspace_use *u); /* also after a failure */

/* Deletes what a crash left between two steps: disks without their directory, half-made and
 * half-deleted ones. */
int workspace_sweep(struct state *s, const struct ids *ids, struct err *e);

/* All of them with what they take on disk, sorted. Free with free(). */
int workspace_list(struct state *s, const struct ids *ids, struct workspace **ret,
		   size_t *ret_count, struct err *e);

/* The most that one may take of the disk: its limit, or where nothing bounds it what it holds now.
 * What a stacked one has below it is not in it. -ENOENT. */
int workspace_bound(struct state *s, const struct ids *ids, const char *name, uint64_t *ret_bytes,
		    struct err *e);

/* ERR_NOT_FOUND if there is none, ERR_CONFLICT with the name of a box that uses it. */
int workspace_remove(struct state *s, const struct ids *ids, const char *name, struct err *e);

/* ERR_CONFLICT where it is here and a box uses it that is_replaced does not name. */
int workspace_check_users(struct state *s, const char *name,
			  bool (*is_replaced)(void *arg, const char *box), void *arg,
			  struct err *e);
/* Gives one that was made below from_fd, as it is to be below workspaces/, its names there. One
 * that is here goes with force, and is ERR_EXISTS without; its users were checked. */
int workspace_take_made(struct state *s, int from_fd, const char *name, bool force, struct err *e);

/* Gives the files that boxes wrote into a host directory back: as root to the directory's owner
 * (to root, where that is a box's id itself), otherwise to the caller. Follows no link and enters
 * no other mount; Cove's own state is refused. Idempotent. */
int workspace_chown(const struct state *s, const struct ids *ids, const char *dir,
		    uint64_t *ret_changed, struct err *e);

/* A relative mount source below a workspace, named or a host directory: opened (O_PATH), or made as
 * a directory if missing, owned like the directory above it. Links are followed as long as they
 * stay inside; one that leads out is ERR_INVALID, as is "..". */
int workspace_open_source(int workspace_fd, const char *src, int *ret_fd, struct err *e);
