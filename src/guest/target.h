/* Where in the box's tree something is mounted. */
#pragma once

#include <stdbool.h>

/* Opens path, which is absolute, below the box's root for mounting on, making what is missing. A
 * link in the box's tree is followed and cannot lead out of it; one that lies on another mount, a
 * shared directory, is not (-ELOOP): others write there, too, and a link would say where in the box
 * something is mounted, and where directories are made. A descriptor or -errno. */
int guest_target_open(int root, const char *path, bool is_dir);
/* The same below something that is mounted in the box already, wherever that is: no link is
 * followed. path begins with '/'. */
int guest_target_below(int top, const char *path, bool is_dir);
