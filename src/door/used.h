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
#include "door/policy.h"

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

/* The proxy's. Lines about rules with a budget of which more was used than was said: as many as
 * fit into out, the others with the next call. */
void used_say(struct policy *p, struct buf *out);
/* No rule has used less than is said here. ret is the line of the box. */
int used_hear(struct policy *p, const char *text, size_t len, struct used_line *ret);
