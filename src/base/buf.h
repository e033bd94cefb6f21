/*
 * A growing byte buffer that cannot be made without its maximum.
 *
 * Bytes are appended at the end and consumed from the front. An append that would pass the maximum
 * fails with -ENOBUFS and leaves the buffer as it was. A large buffer that is emptied keeps its
 * memory only as long as it is used: after being filled a few times with much less it gives it
 * back. So a stream does not allocate again and again, and one big message does not stay resident.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* owned */
	size_t start;  /* first byte not yet consumed */
	size_t len;    /* bytes from start */
	size_t cap;
	size_t max;
	size_t peak;	/* the most it held since it was last empty */
	unsigned small; /* how often in a row that was little */
	bool is_secret; /* in locked memory, wiped as it is consumed, moved or freed */
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
/* From now on; what it holds is moved. -ENOMEM. An empty one can be an ordinary one again. */
int buf_set_secret(struct buf *b, bool is_secret);

static inline const uint8_t *buf_data(const struct buf *b)
{
	return b->data + b->start;
}

static inline size_t buf_len(const struct buf *b)
{
	return b->len;
}

int buf_append(struct buf *b, const void *p, size_t n);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Room for n more bytes at the end: returns where to write them, NULL at the maximum or without
 * memory. buf_commit then says how many were written. */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

/* Drops n bytes from the front. */
void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);

/* The content as a C string: a NUL stands after the last byte but is not counted. NULL at the
 * maximum or without memory. */
const char *buf_cstr(struct buf *b);
