/* A mount of the box that is an overlay of its own: wall_mount.lowers. */
#pragma once

#include "wall/native/plan.h"

/* Mounts it on the scratch, which is the current directory, at a new directory `place`. sources are
 * the plan's for it: its volume where it has one, then the directories below, top first. Where it
 * has no volume its writes are below rw/, where the box's own layer is attached. Nothing but the
 * overlay itself stays mounted. A descriptor of it, to be moved (mount_attach), or -errno. */
int lowers_mount(const struct wall_mount *m, const struct plan_source *sources, const char *place,
		 bool throw_away);
