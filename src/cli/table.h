/*
 * Columns for people: ls, ps, image ls, workspace ls.
 *
 * Cells are copied and escaped (str_escape, but quotes and backslashes stay as they are: a cell has
 * no quotes to leave), so nothing that a user or a box named can break the table. A column is as
 * wide as its widest cell. Where that is more than a terminal is wide, columns that may be are left
 * out, and texts are cut with an ellipsis, the last column first; numbers never. A pipe gets all.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TABLE_COLUMNS_MAX = 12 };

struct table {
	const char *const *titles; /* borrowed */
	size_t columns;
	unsigned right;	   /* bit i: column i is aligned to the right, and never cut */
	unsigned whole;	   /* these are never cut either */
	unsigned optional; /* these are left out where there is no room, the last first */
	struct buf text;   /* cells one after the other, each with its NUL */
	size_t cells;
	size_t width[TABLE_COLUMNS_MAX];
	int error; /* first failure, or 0 */
};

/* titles: as many as columns, then NULL. */
void table_init(struct table *t, const char *const *titles, unsigned right);
void table_done(struct table *t);

/* The next cell; an empty one shows as "-". */
void table_cell(struct table *t, const char *s);
void table_cellf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the lines. line_max: columns of the terminal, 0 for no cut. Negative errno if it does not
 * fit out. */
int table_print(struct table *t, size_t line_max, struct buf *out);

/* As str_escape, for text without quotes around it: quotes and backslashes stay as they are. */
int text_escape(struct buf *b, const char *s);

/* How many terminal columns the text takes. */
size_t text_width(const char *s, size_t n);
/* How many bytes of it make the next line of so many columns: up to a space, if there is one. At
 * least one byte; all of them with room 0. */
size_t text_wrap(const char *s, size_t n, size_t room);

/* "3 days", "12 s" into ret. Sizes: base/size.h. */
const char *text_duration(char ret[16], uint64_t ms);
