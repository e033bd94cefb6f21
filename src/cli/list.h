/* Lists in three forms: a table for people, names for scripts (-q), one JSON array (--json). */
#pragma once

#include "cli/cli.h"

#include "base/json.h"
#include "cli/table.h"

struct list_form {
	const char *const *titles;
	size_t columns;
	unsigned right;	   /* see table.h */
	const char *empty; /* said on stderr where there is nothing and somebody looks */
	void (*row)(struct table *t, const void *item);
	void (*object)(struct json *j, const void *item);
	void (*name)(struct buf *b, const void *item); /* without newline */
};

/* A number or a text that may be missing: null then. */
void list_kv_u64(struct json *j, const char *key, uint64_t v);
void list_kv_str(struct json *j, const char *key, const char *s);

/* Prints count items of the given size. Returns the exit status. */
int list_print(struct cli *c, const struct list_form *form, const void *items, size_t size,
	       size_t count);
