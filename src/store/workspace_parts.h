/* What the files of workspaces share; see workspace.c. */
#pragma once

#include "store/workspace.h"

struct storage_place workspace_place(const struct state *s, const char *name);
/* Everything that changes names below workspaces/ holds this. The descriptor is the lock. */
int workspace_lock(struct state *s, const char *name, int *ret_fd, struct err *e);

/* Under the lock: */
bool workspace_is_missing(const struct state *s, const char *name);
/* Deletes the disk and the list of layers that a missing one left. */
int workspace_drop_lone(struct state *s, const char *name, struct err *e);
/* A new one, above the list of layers that is there: with bytes as a disk, where this caller can
 * have one. */
int workspace_make(struct state *s, const char *name, const struct ids *ids, uint64_t bytes,
		   struct err *e);
/* Takes its names away, the directory's first. -ENOENT where there is none. */
int workspace_hide(struct state *s, const char *name, struct err *e);
