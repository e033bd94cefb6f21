/*
 * Secrets on disk: $COVE_HOME/secrets/<NAME>, 0600 below a 0700 directory. The first line says
 * where the value comes from, the rest is the value, or names the place:
 *
 *	value\n<the value>     stored here
 *	file\n<path>          read from this file whenever it is needed
 *	command\n<line>       run by `sh -c` whenever it is needed: its output without the last
 *	newline
 *	command <ms>\n<line>  the same, and the broker keeps the output for so long
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

/* [A-Za-z_][A-Za-z0-9_]*, and before one that is for the boxes of an API key its id and a dot
 * (key_name_in), which count. A policy has no way to say the dot. */
#define SECRET_NAME_MAX	    64u
#define SECRET_CACHE_MAX_MS 86400000u

enum secret_source { SECRET_VALUE, SECRET_FILE, SECRET_COMMAND };

struct secret_info {
	char name[SECRET_NAME_MAX + 1];
	enum secret_source source;
	char where[256];     /* the path or the command, cut; "" for a stored value */
	uint64_t changed_ms; /* wall clock */
	uint64_t cache_ms;   /* a command's output is kept for so long; 0: not */
};

/* Which writing of a file it is: another one for every secret_set, of the same text too. */
struct secret_stamp {
	uint64_t inode, changed_ns;
};

/* What a file holds. */
struct secret_text {
	enum secret_source source;
	uint64_t cache_ms;
	struct secret_stamp stamp;
	char *data; /* owned, locked (locked_free), with a NUL behind it */
	size_t len;
};

bool secret_is_name(const char *name);
int secret_set(struct state *st, const char *name, enum secret_source source, const void *p,
	       size_t n, struct err *e);
/* A command whose output the broker keeps for cache_ms, up to SECRET_CACHE_MAX_MS; 0: not. */
int secret_set_command(struct state *st, const char *name, const char *line, uint64_t cache_ms,
		       struct err *e);
int secret_remove(struct state *st, const char *name, struct err *e);
/* Names and sources, never values. Free with free(). */
int secret_list(struct state *st, struct secret_info **ret, size_t *ret_count, struct err *e);
/* For the broker. */
int secret_read(struct state *st, const char *name, struct secret_text *ret, struct err *e);
const char *secret_source_name(enum secret_source source);
/* -ENOENT without one of that name. */
int secret_find(struct state *st, const char *name, struct secret_info *ret, struct err *e);
