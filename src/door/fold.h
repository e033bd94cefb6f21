/*
 * Refusals that are the same, one after another, are few rows: the first is written at once, and
 * those that follow within FOLD_MS are one row with their count when that time is over. So a
 * program that tries again and again does not fill the record. Nothing is lost but the moments:
 * rows are the same only if they are in everything else.
 */
#pragma once

#include "base/limits.h"
#include "store/audit.h"

struct fold {
	char *text; /* owned: the row without its time, packed; NULL: free */
	uint64_t until_ms, count;
};

struct folds {
	struct fold list[FOLDS_MAX];
	/* Writes a row; the owner's. A failure is returned to whoever called. */
	int (*write)(void *arg, struct audit_row *row);
	void *arg;
};

/* 1: it was counted, and is not to be written. 0: it is to be. Negative: another, which made place
 * for this one, could not be written. */
int folds_take(struct folds *f, const struct audit_row *row, uint64_t now_ms);
/* Writes the counts whose time is over. *ret_next_ms: when to call again, 0 for never. */
int folds_due(struct folds *f, uint64_t now_ms, uint64_t *ret_next_ms);
/* Writes all that is left, and ends. */
int folds_done(struct folds *f);
