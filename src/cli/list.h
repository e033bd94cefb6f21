/*
 * Lists in three forms: a table for people, names for scripts (-q), one JSON array (--json).
 *
 * The rule for JSON, of every verb: a list is one array, [] where it is empty; what goes on (-f,
 * --watch, events) is one object per line, as it comes. And for tables: the line of titles is there
 * where nothing is listed, too, and a note on stderr says so.
 */
#pragma once

#include "cli/cli.h"

#include "cli/table.h"
#include "core/view.h"

struct list_form {
	const char *titles[TABLE_COLUMNS_MAX + 1];
	unsigned right, whole, optional; /* see table.h */
	const char *empty;		 /* said on stderr where there is nothing */
	size_t size;			 /* of an item */
	/* The count of them, in *ret (a pointer to the first), which is freed with free(). */
	int (*get)(struct cli *c, void *ret, struct cove_error *err);
	void (*row)(struct table *t, const void *item);
	const struct wire_named_field *fields; /* of its JSON object */
	/* What else the object has that is no number, bool or text. NULL: nothing. */
	void (*more)(struct json *j, const void *item);
	/* Without newline. NULL: an item begins with its name. */
	void (*name)(struct buf *b, const void *item);
};

/* Gets the items and prints them. Returns the exit status. */
int list_run(struct cli *c, const struct list_form *form);

/* JSON objects that are printed as they are read: an array in parts, or one per line. */
struct list_rows {
	struct cli *c;
	bool as_lines; /* it goes on: no array */
	bool begun;
};

/* The next one, and the end after the last: also where a failure cut it short, so that what was
 * printed is whole. Return the exit status. */
int list_rows_add(struct list_rows *l, const char *json);
int list_rows_end(struct list_rows *l);

/* Prints items again and again, as a table. redraw: in the place of the last one; title: with the
 * line of titles. Returns the exit status. */
int list_print_table(struct cli *c, const struct list_form *form, const void *items, size_t count,
		     bool redraw, bool title);
