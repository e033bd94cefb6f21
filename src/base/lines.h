/*
 * Lines of "key value": the form of every small file Cove keeps (records, keeper configuration).
 *
 * A key is [a-z_]+; the value is the rest of the line with newline and backslash escaped as
 * \n and \\. Keys may repeat (lists). A person can read it with cat, and it needs no library.
 *
 * A file that is kept says first what it must sum up to (CRC-32C of all that follows), so that one
 * whose bytes changed, or that was cut, is not read: `sum crc32c:9f3a01bc`.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

int lines_put(struct buf *b, const char *key, const char *value);
int lines_put_u64(struct buf *b, const char *key, uint64_t value);

/* Begins a text with the line of its sum, which lines_end_sum fills in once all is appended. Both
 * are of the whole buffer. */
enum { LINES_SUM_BYTES = 20 };
int lines_begin_sum(struct buf *b);
void lines_end_sum(struct buf *b);
/* 1: the sum is right, the lines begin after LINES_SUM_BYTES; 0: the text has none, being of an
 * older Cove; -EBADMSG: it is damaged. */
int lines_check_sum(const char *text, size_t len);

struct lines {
	char *text; /* borrowed, written to while reading */
	char *next;
};

/* text is NUL-terminated, len bytes; a NUL inside ends reading with an error at that line. */
void lines_init(struct lines *l, char *text, size_t len);

/* 1 and the pair (unescaped in place), 0 at the end, -EBADMSG on a line that is not of the form. */
int lines_next(struct lines *l, const char **ret_key, const char **ret_value);
