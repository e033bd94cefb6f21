/*
 * Refusals and looked-up names that are the same, one after another, are few rows: the first is
 * written at once, and those that follow within FOLD_MS are one row with their count when that time
 * is over. So a program that tries again and again does not fill the audit log. Nothing is lost but
 * the moments: rows are the same only if they are in everything else.
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

/* How fast rows may be written: AUDIT_RATE bytes in a second, after a burst of AUDIT_BURST. */
struct row_rate {
	int64_t left;
	uint64_t at_ms;
};
void row_rate_init(struct row_rate *r, uint64_t now_ms);
/* Takes what was written. How many ms to rest before more is, 0: not at all. */
uint64_t row_rate_pay(struct row_rate *r, uint64_t bytes, uint64_t now_ms);
