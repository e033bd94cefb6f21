/* How changes are printed: by `cove diff`, and what `cove merge` did or would do. */
#pragma once

#include "base/buf.h"
#include "cove.h"

/* Of what is printed at once: the largest text, escaped. */
enum { CHANGE_TEXT_MAX = 96 << 20 };

/* A, M or D. */
char change_letter(const struct cove_change *ch);

/* "prefix/path"; in quotes and escaped where it holds anything that could break a line or fool the
 * eye. */
int change_put_path(struct buf *out, const char *prefix, const char *path);

/* Any bytes, for a terminal: what is not text is escaped, tabs are not. */
int change_put_shown(struct buf *out, const char *bytes, size_t len);

struct change_lines {
	uint64_t plus, minus;
};
/* How many lines its text adds and takes away. */
struct change_lines change_count_lines(const struct cove_change *ch);
