/*
 * Lines of "key value": the form of every small file Cove keeps (records, keeper configuration).
 *
 * A key is [a-z_]+; the value is the rest of the line with newline and backslash escaped as
 * \n and \\. Keys may repeat (lists). A person can read it with cat, and it needs no library.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

int lines_put(struct buf *b, const char *key, const char *value);
int lines_put_u64(struct buf *b, const char *key, uint64_t value);

struct lines {
	char *text; /* borrowed, written to while reading */
	char *next;
};

/* text is NUL-terminated, len bytes; a NUL inside ends reading with an error at that line. */
void lines_init(struct lines *l, char *text, size_t len);

/* 1 and the pair (unescaped in place), 0 at the end, -EBADMSG on a line that is not of the form. */
int lines_next(struct lines *l, const char **ret_key, const char **ret_value);
