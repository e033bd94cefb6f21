/*
 * Named workspaces: directories below workspaces/ that outlive boxes. Their files are stored with
 * the box's own ids (as root: uid 1000 for the box's user; otherwise that user is the caller), so a
 * workspace works in every later box.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workspace {
	char name[64];
	uint64_t bytes, files;
};

/* The directory of a workspace; with make it is created if missing, whole or not at all.
 * ERR_NOT_FOUND otherwise. */
int workspace_open(struct state *s, const char *name, bool make, int *ret_fd, struct err *e);

/* All of them with what they take on disk, sorted. Free with free(). */
int workspace_list(struct state *s, const struct ids *ids, struct workspace **ret,
		   size_t *ret_count, struct err *e);

/* ERR_NOT_FOUND if there is none, ERR_CONFLICT with the name of a box that uses it. */
int workspace_remove(struct state *s, const struct ids *ids, const char *name, struct err *e);

/* A relative mount source below a workspace, named or a host directory: opened (O_PATH), or made as
 * a directory if missing, owned like the directory above it. Links are followed as long as they
 * stay inside; one that leads out is ERR_INVALID, as is "..". */
int workspace_open_source(int workspace_fd, const char *src, int *ret_fd, struct err *e);
