/*
 * Values that must not come back, in every form in which an upstream might echo them: as they are,
 * within a JSON string, percent-encoded, and within base64 text at any of its three alignments, in
 * either alphabet. Found ones are overwritten with '*', so that lengths stay.
 *
 * First all values are looked for, then what was found is overwritten: two that overlap are both
 * gone, and one within another does not save the rest of it.
 */
#pragma once

#include "door/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REDACT_FORMS = 16 };

/* The forms of one value. */
struct redact {
	struct secret forms[REDACT_FORMS];
	size_t count;
};

/* -ENOMEM. */
int redact_init(struct redact *r, const void *value, size_t n);
void redact_done(struct redact *r);

/* How many bytes at the end of what came so far are to wait, since one could begin among them, for
 * a value of n bytes. It is the same for all values of about this length: what waits must tell
 * nothing of the value to somebody who has guesses echoed. No form is longer than this. */
size_t redact_hold(size_t n);

/* What was found in n bytes, of which the first `safe` go on now. */
struct redact_marks {
	size_t n, safe;
	uint8_t *found; /* owned; one byte for each, NULL: nothing was found */
	size_t reach;	/* end of the last that begins before safe */
	bool failed;	/* no memory: all of it counts as found */
};

/* forced: so many bytes at the front belong to one that began before. */
void redact_marks_init(struct redact_marks *m, size_t n, size_t safe, size_t forced);
void redact_mark(const struct redact *r, const uint8_t *p, struct redact_marks *m);
/* Overwrites what was found among the safe bytes, and returns how many of those after them belong
 * to one that began there: forced, the next time. */
size_t redact_marks_apply(struct redact_marks *m, uint8_t *p);
