/*
 * Work on a tree that a box could write to: descriptor-relative, never following a link (laws 1 and
 * 10). The only module that does it.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stdint.h>

/* Removes name below dir_fd, whatever it is. Missing is success. Mount points are not descended. */
int tree_remove(int dir_fd, const char *name, struct err *e);

/* The same where files may belong to ids that the caller is not: through ids_run_inside. */
int tree_remove_as(const struct ids *ids, int dir_fd, const char *name, struct err *e);

/* Bytes allocated and number of files below name. */
int tree_usage(int dir_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_files,
	       struct err *e);
