/*
 * Values that must not come back, in every form in which an upstream might echo them: as they are,
 * within a JSON string, percent-encoded, and within base64 text at any of its three alignments, in
 * either alphabet. Found ones are overwritten with '*', so that lengths stay.
 */
#pragma once

#include "door/secret.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REDACT_FORMS = 12 };

/* The forms of one value. */
struct redact {
	struct secret forms[REDACT_FORMS];
	size_t count;
};

/* -ENOMEM. */
int redact_init(struct redact *r, const void *value, size_t n);
void redact_done(struct redact *r);

void redact_text(const struct redact *r, uint8_t *p, size_t n);
/* How many bytes at the end of p could be the beginning of one. */
size_t redact_tail(const struct redact *r, const uint8_t *p, size_t n);
bool redact_has(const struct redact *r, const uint8_t *p, size_t n);

/* Base64 without line breaks; url: the alphabet of URLs. Appends to out of at least 4 * (n + 2) / 3
 * bytes and returns the length, padding included. */
size_t base64_encode(const uint8_t *p, size_t n, bool url, uint8_t *out);
