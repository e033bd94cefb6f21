/* A list of strings that it owns, ended by a NULL so that it can be an argument list. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct build_words {
	char **list; /* owned; NULL while it is empty */
	size_t count, room;
};

/* A copy of n bytes, or of a string, is the last one from now on. -ENOMEM, or -E2BIG beyond
 * BUILD_WORDS_MAX. */
int build_words_addn(struct build_words *w, const char *s, size_t n);
int build_words_add(struct build_words *w, const char *s);
/* All of another list. */
int build_words_add_all(struct build_words *w, const struct build_words *from);
void build_words_done(struct build_words *w); /* empty afterwards */

/* Of a list of NAME=VALUE: the value, borrowed, or NULL; and one pair, in place of what had that
 * name. */
const char *build_words_value(const struct build_words *w, const char *name);
int build_words_set(struct build_words *w, const char *name, const char *value);
