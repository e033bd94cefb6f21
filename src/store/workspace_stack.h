/*
 * Stacked workspaces: what a box writes at /workspace lies above layers, those of a snapshot. A
 * fork's workspace is one, and so is one that was rolled back.
 *
 *	workspaces/<name>.stack		the layers, bottom first; lines under a sum
 *	workspaces/<name>, <name>.img	as ever, but holding upper/ and work/
 *
 * The list is there before the directory is, and goes after it: without its directory it means
 * nothing. Its token says who made it, for whoever has to finish that or to undo it.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "storage/storage.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>

struct refs;

#define WORKSPACE_STACK_END ".stack"
enum { WORKSPACE_TOKEN = 33 };

struct workspace_stack {
	char **layers; /* owned, bottom first; free with workspace_stack_done */
	size_t count;
	char token[WORKSPACE_TOKEN]; /* of the rollback or fork that made it, or empty */
};

/* -ENOENT where it stands on none; -EBADMSG where the list is damaged. */
int workspace_stack_read(const struct state *s, const char *name, struct workspace_stack *ret);
void workspace_stack_done(struct workspace_stack *w);

/* For a box that is to run with it: two overlays must not write above the same layers, so one box
 * runs with it at a time. ERR_CONFLICT. Held by this process alone, for as long as *ret_fd is open
 * and no other descriptor of the list is closed here. */
int workspace_stack_hold(const struct state *s, const char *name, int *ret_fd, struct err *e);

/* Makes a new workspace above these layers, which are in place: ERR_EXISTS. bytes as with
 * workspace_use. */
int workspace_stack_make(struct state *s, const char *name, const struct ids *ids,
			 const struct workspace_stack *of, uint64_t bytes, struct err *e);

/* Removes it again if its list has this token and no box but that one uses it. */
int workspace_stack_undo(struct state *s, const struct ids *ids, const char *name,
			 const char *token, const char *box, struct err *e);

/* Puts an empty volume above these layers in the place of what the workspace holds. It is done when
 * its list has the token: idempotent, whenever it was interrupted. No box uses it. */
int workspace_stack_replace(struct state *s, const char *name, const struct ids *ids,
			    const struct workspace_stack *with, uint64_t bytes, struct err *e);

/* The files of a workspace with ids as stored; of a stacked one what is above the layers. */
struct workspace_tree {
	int fd; /* owned, O_PATH; -1: there is nothing */
	struct volume volume;
	struct workspace_stack stack;
	bool has_list; /* it was made above that stack, which may be empty */
};
int workspace_tree_open(struct state *s, const char *name, const struct ids *ids,
			struct workspace_tree *ret, struct err *e);

/* For refs_collect. */
int workspace_refs(struct state *s, struct refs *r, struct err *e);
