/*
 * Bringing what a box changed back to where it came from.
 *
 *	merge_back.c	from a copy of a host directory (--workspace DIR --copy) to that directory
 *	merge_send.c	the child that reads the box's tree for that
 *	merge_guard.c	what does not come to a host directory, because of what it is
 *	merge_fork.c	from a fork to the box that it was forked from
 */
#pragma once

#include "core/core.h"
#include "core/trees.h"

#include <stdbool.h>

struct merge {
	struct cove *cove;
	const struct cove_merge_options *o;
	struct cove_merge_result *result;
	bool theirs, ours; /* what becomes of conflicts */
	int stopped;	   /* what on_item returned */
};

/* Counts it, and tells the caller. -ECANCELED where the caller wants no more. */
int merge_say(struct merge *m, enum cove_merge_state state, enum cove_change_kind kind,
	      const char *path, const char *why);
/* -ECANCELED where the caller wants no more. */
int merge_check_cancel(struct merge *m);
/* May it go on to do something? */
bool merge_may_act(const struct merge *m);

/* Why what a box has at a path does not come to the host directory; NULL: it may. mode 0: it has
 * nothing there. target: of a link, shorter than PATH_MAX; or NULL. */
const char *merge_why_left_out(int dir_fd, const char *path, unsigned mode, const char *target,
			       bool trusted);

/* Stops a box that runs, with the cause "merge"; *ret: it ran, and is to be started again, also
 * after a failure. merge_start: without e its own failure is not said. */
int merge_stop(struct merge *m, const char *box, bool *ret, struct err *e);
int merge_start(struct merge *m, const char *box, struct err *e);

int merge_back(struct merge *m, struct err *e);
int merge_fork(struct merge *m, struct err *e);
