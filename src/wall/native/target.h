/* Where in the box's tree something is mounted. */
#pragma once

#include "wall/wall.h"

/* Opens path, which is absolute, below the box's root for mounting on, making what is missing. A
 * link in the box's tree is followed and cannot lead out of it; below the place of another mount
 * none is (-ELOOP): others write there, too, and a link would say where in the box something is
 * mounted, and where directories are made. A descriptor or -errno. */
int target_open(const struct wall_config *c, int root, const char *path, bool is_dir);
