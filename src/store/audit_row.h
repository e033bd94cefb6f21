/* The form of a row on disk, and the places of files; shared by audit.c and audit_read.c. */
#pragma once

#include "store/audit.h"

#define AUDIT_DIR   "audit"
#define AUDIT_INDEX "index"
#define AUDIT_MARK  "recorded"

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

/* The hash that the first row of a file follows. */
void audit_first_hash(const char *name, char ret[AUDIT_HASH + 1]);

/* What the head of a file says; -ENOENT without one. */
int audit_head_read(int dir_fd, const char *name, uint64_t *ret_rows,
		    char ret_hash[AUDIT_HASH + 1]);

/* audit/, made if asked for; or -errno. */
int audit_dir_open(struct state *st, bool make, struct err *e);

/* Any file, the index too, by its name; index: rows are written under a lock. */
int audit_file_open(struct audit_writer *w, int dir_fd, const char *name, struct err *e);

/* Adds to the index that a file was made, or deleted. */
int audit_index_note(int dir_fd, const struct audit_row *row, struct err *e);
