/*
 * Variables and quotes in the words of a Dockerfile, as Docker reads them: $X, ${X}, ${X:-word},
 * ${X-word}, ${X:+word}, ${X+word}, ${X:?words}, ${X?words}; '...', "..." and the escape character
 * are taken away. No I/O.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* The value of a variable, borrowed, or NULL where it is not set. */
typedef const char *build_lookup(void *arg, const char *name);

struct build_vars {
	build_lookup *lookup;
	void *arg;
	char escape; /* '\\' or '`' */
};

/* Appends what a word comes to. -EINVAL with a sentence, -E2BIG beyond what the buffer may hold. */
int build_expand(const struct build_vars *v, const char *word, struct buf *out, struct err *e);

/* The same of the lines of a heredoc, in which quotes are ordinary characters. */
int build_expand_text(const struct build_vars *v, const char *text, struct buf *out, struct err *e);
