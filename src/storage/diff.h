/*
 * What differs between two stacks of layers (stack.h).
 *
 * Every path that one of the two trees has and the other has not, and every path that both have as
 * something else: another type, mode, owner, content, link target, device or attribute. Times are
 * not compared, and of directories only what they are themselves: a file that was merely copied up
 * is no change. Layers that both stacks end in (the same directory) are not read where both show
 * all of them: the cost is what lies above, and what that hides.
 */
#pragma once

#include "base/err.h"
#include "storage/stack.h"

enum diff_kind { DIFF_ADDED, DIFF_CHANGED, DIFF_REMOVED };

/* Of what changed: what about it. */
enum diff_what {
	DIFF_TYPE = 1 << 0,
	DIFF_MODE = 1 << 1,
	DIFF_OWNER = 1 << 2,
	DIFF_CONTENT = 1 << 3, /* of a file, a link's target, a device's number */
	DIFF_ATTRS = 1 << 4,   /* extended attributes, but for overlay's own */
};

struct diff_change {
	enum diff_kind kind;
	unsigned what;
	const char *path; /* "a/b"; valid during the call */
	/* What it was and what it is; NULL where there is none. */
	const struct stack_entry *before, *after;
	/* A directory some of whose names have paths too long for any program: these are not
	 * looked at, and the entries are of the first of them. */
	bool deep;
};

struct diff_job {
	const struct stack *before, *after;
	/* Only these paths and what is below them; "" is all. NULL: everything. */
	const char *const *only;
	size_t only_count;
	/* In order: a directory before what is in it, names by their bytes. -errno ends it. */
	int (*on_change)(void *arg, const struct diff_change *c);
	/* Now and then, with the names looked at so far; may be NULL. */
	int (*on_progress)(void *arg, uint64_t seen);
	void *arg;
};

int diff_trees(const struct diff_job *job, struct err *e);

/* What differs between two entries, of a stack each, that are at the same path; or -errno. */
int diff_entries(const struct stack *a, const struct stack_entry *x, const struct stack *b,
		 const struct stack_entry *y, const char *path);
