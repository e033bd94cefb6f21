/*
 * Values that must not come back, in every form in which an upstream might echo them: byte by byte
 * plain or escaped in any of the ways that escape.h knows, in hex, and within base64 text at any of
 * its three alignments, in either alphabet; hex and base64 also wrapped into lines. Found ones are
 * overwritten with '*', so that lengths stay.
 *
 * All values are looked for before anything is overwritten: two that overlap are both gone, and one
 * within another does not save the rest of it. How the text was cut into parts makes no difference.
 */
#pragma once

#include "base/limits.h"
#include "door/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redact_value {
	const uint8_t *p; /* borrowed */
	size_t n;
};

/* What is looked for. A struct of zeros holds nothing. */
struct redact {
	struct redact_value values[REDACT_VALUES_MAX];
	size_t count;
	struct secret filter; /* which two bytes may begin one */
	size_t hold;
	bool has_lines; /* some value has more than one */
};

/* Where the line so far could be base64 or hex that goes on in the next. */
struct redact_run {
	uint8_t letters, digits, blanks;
};

/* A text that comes in parts. A struct of zeros is at its beginning. */
struct redact_stream {
	size_t forced; /* bytes of the next part that belong to one found before */
	size_t spent;  /* work beyond what its bytes have earned */
	struct redact_run before;
};

/* The value must stay where it is until redact_done. -ENOMEM, -E2BIG. An empty one is nothing. */
int redact_add(struct redact *r, const void *value, size_t n);
void redact_done(struct redact *r); /* idempotent */

/* How many bytes at the end of what came so far are to wait, since a value of n bytes could begin
 * among them. It is the same for all values of about this length: what waits must tell nothing of
 * the value to somebody who has guesses echoed. No form that is found is longer than this. */
size_t redact_hold(size_t n);

/* The next part: what waited of the last one, then what is new. Returns how many bytes may go now,
 * in which what was found is overwritten; those behind them are left as they are and wait, unless
 * no more comes. How many that is depends on lengths and on the text, never on what was found. */
size_t redact_part(const struct redact *r, struct redact_stream *s, uint8_t *p, size_t n,
		   bool more);
/* A text that is all there. */
void redact_whole(const struct redact *r, uint8_t *p, size_t n);
