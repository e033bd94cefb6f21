/*
 * What changed between two texts, line by line, in the unified form that patch(1) takes.
 *
 * The shortest way from one to the other (Myers), as long as that has at most TEXTDIFF_EDITS_MAX
 * lines; beyond it, all between the first and the last difference is one change. Nothing here
 * interprets the bytes: a line ends with a newline, and a last one without is marked as usual.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct textdiff_text {
	const char *data;
	size_t len;
};

/* No NUL byte, and at most TEXTDIFF_BYTES_MAX long. */
bool textdiff_is_text(const struct textdiff_text *t);

/* Appends the hunks ("@@ -1,3 +1,4 @@" and so on); nothing where they are the same. 0, -ENOMEM, or
 * -ENOBUFS where out is full. */
int textdiff_unified(const struct textdiff_text *a, const struct textdiff_text *b, struct buf *out);
