/*
 * Which host directories a box gets: its workspace and the mounts of its spec, as the wall wants
 * them. Named workspaces and relative sources are made when missing, for the box's user.
 */
#pragma once

#include "base/limits.h"
#include "keeper/config.h"
#include "wall/wall.h"

struct mounts {
	struct wall_mount list[SPEC_MOUNT_MAX + 1];
	size_t count;
	char workspace[BOX_PATH_MAX]; /* host path, empty without one */
};

#define WORKSPACE_DST "/workspace"

int mounts_make(struct mounts *m, const struct keeper_config *c, const struct ids *ids,
		struct err *e);
