/*
 * Patterns for paths below a directory, as glob and grep take them.
 *
 *	*  ?  [a-z] [!a-z]   in one name, never a slash; ? and classes take one character
 *	**                   between slashes: any number of directories, none too
 *	{a,b}                either; may be nested; at most INIT_BRACES_MAX patterns in all
 *	\                    takes the next one literally
 *
 * Without a slash it is for the last name, at any depth; a slash at the beginning only says that it
 * is not. What begins with a dot is found only where the pattern says the dot, or with `dots`.
 *
 * A pattern is a row of parts, one per name, and the state is the set of those that may come next.
 * So a walk tries nothing twice, and knows when nothing below a directory can match.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct init_glob_part;

struct init_glob {
	struct init_glob_part *parts; /* owned; all patterns that the braces stand for */
	size_t count;
	char **texts; /* owned; what the parts point into */
	size_t text_count;
	bool dots;
};

/* ERR_INVALID for "..", ERR_LIMIT for too many braces. */
int init_glob_init(struct init_glob *g, const char *pattern, bool dots, struct err *e);
void init_glob_done(struct init_glob *g);

/* Bytes of a set. */
size_t init_glob_set_size(const struct init_glob *g);
/* The set of the directory that paths are relative to. */
void init_glob_begin(const struct init_glob *g, uint8_t *ret);
/* The set of the name in a directory with the set `from`. False if nothing below it can match. */
bool init_glob_step(const struct init_glob *g, const uint8_t *from, const char *name, uint8_t *ret);
/* Does a path with this set match? */
bool init_glob_is_match(const struct init_glob *g, const uint8_t *set);

/* One name against one part. */
bool init_glob_name(const char *pattern, const char *name, bool dots);
