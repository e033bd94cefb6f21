/* The parts that a line of a Dockerfile is made of; used by dockerfile.c only. No I/O. */
#pragma once

#include "base/buf.h"
#include "build/words.h"

#include <stdbool.h>
#include <stddef.h>

#define DF_SPACES " \t\v\f\r"

/* The word of a flag at p, without quotes and escapes. Returns what comes behind it; *ret is 0 or
 * -errno. */
const char *df_flag_word(const char *p, struct buf *word, int *ret);

/* Words between spaces, whatever they are. */
int df_split_spaces(const char *text, struct build_words *ret);
/* Words between spaces that are not in quotes or behind an escape; those stay as they are. */
int df_split_words(const char *text, char escape, struct build_words *ret);

/* "# name=value"; the name in lower case. */
bool df_directive(const char *p, size_t n, char ret_name[16], char ret_value[256]);

/* <<NAME, <<-NAME, <<"NAME" among the words of a command. */
struct df_mark {
	char *name; /* owned */
	bool expand, chomp;
};
/* How many there are, at most DOCKERFILE_HEREDOCS_MAX; -E2BIG, -ENOMEM, or -EINVAL where a quote is
 * not closed: nothing is owned then. */
int df_find_marks(const char *text, struct df_mark *ret);
void df_marks_done(struct df_mark *marks, size_t count);
/* Is the whole text one such mark? */
bool df_is_mark(const char *text);
