/*
 * One question to the keepers of many boxes at once, with one time limit for all: one that does not
 * answer delays no other, and is a failure of its own.
 */
#pragma once

#include "core/async.h"

struct cove;

struct core_round {
	/* Writes the question; negative errno. */
	int (*encode)(struct core_round *r, struct buf *out, uint32_t id);
	/* As core_request's: 0: more is to come, 1: it was the last, negative: with *e. */
	int (*on_frame)(struct core_round *r, size_t i, struct core_request *q,
			const struct wire_frame *f, struct err *e);
	/* Once for each box, as they end: 0, or why not. -ETIMEDOUT: the time was over. */
	void (*on_end)(struct core_round *r, size_t i, int result, const struct err *e);
	const char *const *boxes; /* core_round_run's: i above is the place in it */
	bool stopped; /* set in a callback: the rest is not wanted any more, and gets no on_end */
};

/* Asks them all, and returns when all have ended or timeout_ms has passed. Negative errno only
 * where none could be asked. */
int core_round_run(struct core_round *r, struct cove *cove, const char *const *boxes, size_t count,
		   int timeout_ms, struct err *e);
