/* Texts that hold a value in a chosen form, for what looks for them. */
#pragma once

#include "base/buf.h"
#include "door/redact.h"

/* A number below the given one. */
struct chooser {
	unsigned (*choose)(void *arg, unsigned below);
	void *arg;
};

enum redact_form { FORM_TEXT, FORM_BASE64, FORM_HEX, FORM_COUNT };

/* Appends the value: each byte escaped in a way of its own, or the whole of it within base64 or hex
 * that may be wrapped. ret_from and ret_to: the bytes of out of which nothing may be left. */
void redact_form_write(struct buf *out, const uint8_t *value, size_t n, enum redact_form form,
		       const struct chooser *c, size_t *ret_from, size_t *ret_to);
/* Passes a text through, whole or (with a chooser) in parts of any size. */
void redact_pass(const struct redact *r, const uint8_t *in, size_t n, const struct chooser *cuts,
		 struct buf *out);
