/*
 * Secrets on disk: $COVE_HOME/secrets/<NAME>, 0600 below a 0700 directory. The first line says
 * where the value comes from, the rest is the value, or names the place:
 *
 *	value\n<the value>     stored here
 *	file\n<path>          read from this file whenever it is needed
 *	command\n<line>       run by `sh -c` whenever it is needed: its output without the last
 *	newline
 *
 * Only `cove secret` writes them, whole or not at all, durable before the answer. Only the broker
 * of a door reads a value (door/broker.h), and only those that the box's policy names.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET_NAME_MAX 64u /* [A-Za-z_][A-Za-z0-9_]* */

enum secret_source { SECRET_VALUE, SECRET_FILE, SECRET_COMMAND };

struct secret_info {
	char name[SECRET_NAME_MAX + 1];
	enum secret_source source;
	char where[256];     /* the path or the command, cut; "" for a stored value */
	uint64_t changed_ms; /* wall clock */
};

bool secret_is_name(const char *name);
int secret_set(struct state *st, const char *name, enum secret_source source, const void *p,
	       size_t n, struct err *e);
int secret_remove(struct state *st, const char *name, struct err *e);
/* Names and sources, never values. Free with free(). */
int secret_list(struct state *st, struct secret_info **ret, size_t *ret_count, struct err *e);
/* What the file holds after its first line, in locked memory (locked_free). For the broker. */
int secret_read(struct state *st, const char *name, enum secret_source *ret_source, char **ret,
		size_t *ret_len, struct err *e);
const char *secret_source_name(enum secret_source source);
/* -ENOENT without one of that name. */
int secret_find(struct state *st, const char *name, struct secret_info *ret, struct err *e);
