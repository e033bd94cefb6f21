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

/* Whose files of boxes become. RANGES: every id that share.h calls a box's, as root. MAPPED: every
 * id but uid and gid, inside a map of a box's ids (ids_run_inside), where what is not mapped is
 * left alone. */
enum tree_give_kind { TREE_GIVE_RANGES, TREE_GIVE_MAPPED };
enum { TREE_UNMAPPED = 65534 }; /* how an id outside a map looks */

struct tree_give {
	enum tree_give_kind kind;
	uid_t uid;
	gid_t gid;
};

struct tree_given {
	uint64_t changed, left; /* left: a box's file that could not be changed */
	int why;		/* errno of the first that was left */
};

/* Gives the directory dir_fd (O_PATH will do) and everything below it away. Other mounts are
 * not entered. What cannot be changed is counted and passed over. Idempotent. */
int tree_give(int dir_fd, const struct tree_give *to, struct tree_given *ret, struct err *e);
