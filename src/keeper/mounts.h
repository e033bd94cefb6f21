/*
 * Which host directories a box gets: its workspace and the mounts of its spec, as the wall wants
 * them. Named workspaces and relative sources are made when missing.
 */
#pragma once

#include "base/limits.h"
#include "keeper/config.h"
#include "storage/storage.h"
#include "store/state.h"
#include "wall/wall.h"

struct keeper_mounts {
	struct wall_mount list[WALL_MOUNTS_MAX];
	size_t count;
	char workspace[BOX_PATH_MAX]; /* host path, empty without one */
	int workspace_fd;	      /* owned, -1 without one; its files with ids as stored */
	struct volume volume;	      /* of a named workspace that has one */
	struct {
		char *dst, *below; /* owned; below: NULL where it is a name at the top */
		bool read_only;	   /* or a parent of such */
	} pins[WALL_PINS_MAX];
	size_t pin_count;
	struct wall_lower *stacked; /* owned, as their paths: below a stacked workspace */
	size_t stacked_count;
	int stack_fd;		  /* owned; holds it for this box; -1: it stands on nothing */
	struct wall_lower copied; /* the host directory below a copy of it */
	char note[320];		  /* "disk: ..." where its workspace is not bounded so, or empty */
};

/* None, so that keeper_mounts_done has nothing to do. */
void keeper_mounts_init(struct keeper_mounts *m);
/* st needs its home and run, and home_fd for a new workspace. A disk limit that is
 * due (keeper_config_is_due) and that the workspace cannot keep is refused. keeper_mounts_done
 * when the wall has taken them, also after a failure. */
int keeper_mounts_make(struct keeper_mounts *m, const struct keeper_config *c, struct state *st,
		       struct err *e);
void keeper_mounts_done(struct keeper_mounts *m);

/* pins.c: adds mounts that show read-only what, in a host directory, makes the host run something.
 * dir_fd is that directory, `of` its mount. */
int keeper_pins_add(struct keeper_mounts *m, int dir_fd, const struct wall_mount *of,
		    struct err *e);
void keeper_pins_done(struct keeper_mounts *m);
