/*
 * Work on a tree that a box could write to: descriptor-relative, never following a link (laws 1 and
 * 10). The only module that does it.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdint.h>

/* Removes name in dir_fd, whatever it is; one component, a path with slashes is -EINVAL. Missing is
 * success. Mount points are not entered: -EBUSY. */
int tree_remove(int dir_fd, const char *name, struct err *e);

/* The same where files may belong to ids that the caller is not: through ids_run_inside. */
int tree_remove_as(const struct ids *ids, int dir_fd, const char *name, struct err *e);

/* Bytes allocated and number of names in the tree, its root included. */
int tree_usage(int dir_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_files,
	       struct err *e);
