/*
 * What one stack of layers (theirs) changed since another (base), as a layer to be laid above a
 * third (ours), which began at the same base: a merge of three trees, path by path.
 *
 * A path that only theirs changed is taken; one that both changed the same way needs nothing; one
 * that both changed differently is a conflict. So is what theirs changed in a directory that ours
 * removed or has something else in place of, and what ours added or changed in one that theirs
 * removed.
 */
#pragma once

#include "base/err.h"
#include "storage/diff.h"
#include "storage/stack.h"

enum graft_state { GRAFT_TAKEN, GRAFT_CONFLICT, GRAFT_LEFT_OUT };
enum graft_prefer { GRAFT_NEITHER, GRAFT_THEIRS, GRAFT_OURS };

struct graft_item {
	enum graft_state state;
	enum diff_kind kind;
	const char *path; /* valid during the call */
	const char *why;  /* of a conflict, or of what is left out */
};

struct graft_job {
	const struct stack *base, *theirs, *ours;
	const char *const *only; /* as diff_job.only */
	size_t only_count;
	enum graft_prefer prefer; /* what becomes of conflicts */
	/* The layer's root, empty; -1: nothing is written. After a conflict nothing is, either, and
	 * what is there is of no use. */
	int layer_fd;
	/* That its files may hold in all; a file that has several names is written once, up to a
	 * number of such files. 0: no bound. */
	uint64_t bytes_max;
	/* In order. -errno ends it. */
	int (*on_item)(void *arg, const struct graft_item *item);
	void *arg;
};

int graft(const struct graft_job *job, struct err *e);
