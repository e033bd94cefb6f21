/*
 * What a box has used of its rules' budgets and of its own. It outlives the door, so that neither a
 * door that died nor a box that was stopped begins anew: boxes/<name>/used, a line for each rule,
 *
 *	RATE_DUE UP DOWN NAME
 *
 * and one without a name for the box. The proxy says what has changed, and the broker keeps of each
 * number the highest that it heard: nothing that is said gives anything back.
 */
#pragma once

#include "base/buf.h"
#include "base/limits.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USED_FILE "used"
enum { USED_LINES_MAX = DOOR_RULES_MAX + 1, USED_TEXT_MAX = USED_LINES_MAX * 160 };

struct used_line {
	uint64_t rate_due, up, down;
	char name[POLICY_NAME_MAX + 1];
};

/* The broker's. A struct of zeros is empty. */
struct used {
	struct used_line *lines; /* owned; those heard of last are the last */
	size_t count;
	bool is_changed; /* since it was saved */
};

/* -EBADMSG where the text is not in the form above; then nothing of it counts. Beyond
 * USED_LINES_MAX the oldest go. */
int used_add(struct used *u, const char *text, size_t len);
int used_write(const struct used *u, struct buf *out);
int used_load(struct used *u, int box_fd);
int used_save(struct used *u,
	      int box_fd); /* where something changed; on the disk when it returns */
void used_done(struct used *u);

/* Lines, also for the proxy's side (ledger.h). 1: there was one, 0: it is all read, -EBADMSG. */
int used_line_next(const char **at, const char *end, struct used_line *ret);
int used_line_write(struct buf *out, const struct used_line *l);
/* Each number becomes the higher one; true if one did. */
bool used_line_raise(struct used_line *to, const struct used_line *from);
