/* The form of an audit row on disk. */
#pragma once

#include "store/audit.h"

enum { AUDIT_HASH = 64, AUDIT_ROW_MAX = 64 * AUDIT_TEXT_MAX };

/* Appends the line of a row, its newline included; *last is the hash before and then its own. */
int audit_row_format(struct buf *out, const struct audit_row *row, char last[AUDIT_HASH + 1]);

/* One line without its newline; cut in place, the row points into it. -EBADMSG where it is no row
 * or its own hash is wrong. prev and hash are what it says. */
struct audit_line {
	struct audit_row row;
	const char *prev, *hash;
};
int audit_row_parse(struct audit_line *ret, char *line, size_t len);

/* The hash that the first row of a log follows. */
void audit_first_hash(const char *name, char ret[AUDIT_HASH + 1]);

/* True, and the place after it, if the row is the next one. */
bool audit_chain_add(struct audit_chain *c, const struct audit_line *line);
