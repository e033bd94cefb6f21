/* The bounded buffer; see buf.h. */
#include "base/buf.h"

#include "base/err.h"
#include "base/locked.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST = 256, BUF_KEEP = 128 << 10, BUF_SMALL_MAX = 4 };

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

static void free_data(struct buf *b)
{
	if (b->is_secret)
		locked_free(b->data);
	else
		free(b->data);
	b->data = NULL;
}

void buf_done(struct buf *b)
{
	free_data(b);
	*b = (struct buf){.max = b->max, .is_secret = b->is_secret};
}

int buf_set_secret(struct buf *b, bool is_secret)
{
	uint8_t *data;

	if (b->is_secret == is_secret)
		return 0;
	ASSERT(is_secret || b->len == 0);
	data = b->len ? locked_alloc(b->cap) : NULL;
	if (b->len && !data)
		return -ENOMEM;
	if (b->len) {
		memcpy(data, b->data + b->start, b->len);
		explicit_bzero(b->data, b->cap);
	}
	free_data(b);
	b->is_secret = is_secret;
	b->data = data;
	b->cap = data ? b->cap : 0;
	b->start = 0;
	return 0;
}

/* Makes cap - start >= len + n, moving the content to the front or growing. */
static int make_room(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : BUF_FIRST;
	uint8_t *data;

	if (n > b->max || b->len > b->max - n)
		return -ENOBUFS;
	if (b->cap - b->start >= b->len + n)
		return 0;
	/* Moving pays when no more is moved than was consumed; else the buffer doubles, so that
	 * this is soon the case. */
	if (b->cap >= b->len + n && b->start >= b->len) {
		memcpy(b->data, b->data + b->start, b->len);
		if (b->is_secret)
			explicit_bzero(b->data + b->start, b->len);
		b->start = 0;
		return 0;
	}
	while (cap < b->len + n || cap == b->cap)
		cap *= 2;
	data = b->is_secret ? locked_alloc(cap) : malloc(cap);
	if (!data)
		return -ENOMEM;
	if (b->len)
		memcpy(data, b->data + b->start, b->len);
	free_data(b);
	b->data = data;
	b->cap = cap;
	b->start = 0;
	return 0;
}

static void grow(struct buf *b, size_t n)
{
	b->len += n;
	if (b->len > b->peak)
		b->peak = b->len;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
	if (make_room(b, n) < 0)
		return NULL;
	return b->data + b->start + b->len;
}

void buf_commit(struct buf *b, size_t n)
{
	ASSERT(b->cap - b->start - b->len >= n);
	grow(b, n);
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	int r = make_room(b, n);

	if (r < 0)
		return r;
	if (n)
		memcpy(b->data + b->start + b->len, p, n);
	grow(b, n);
	return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n, r;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	r = n < 0 ? -EINVAL : make_room(b, (size_t)n + 1);
	if (r == 0) {
		vsnprintf((char *)b->data + b->start + b->len, (size_t)n + 1, fmt, again);
		grow(b, (size_t)n);
	}
	va_end(again);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	ASSERT(n <= b->len);
	if (b->is_secret && n)
		explicit_bzero(b->data + b->start, n);
	b->start += n;
	b->len -= n;
	if (b->len > 0)
		return;
	b->start = 0;
	b->small = b->peak < b->cap / 16 ? b->small + 1 : 0;
	b->peak = 0;
	if (b->cap > BUF_KEEP && b->small >= BUF_SMALL_MAX) {
		free_data(b);
		b->cap = 0;
	}
}

void buf_clear(struct buf *b)
{
	buf_consume(b, b->len);
}

const char *buf_cstr(struct buf *b)
{
	uint8_t *end = buf_reserve(b, 1);

	if (!end)
		return NULL;
	*end = 0;
	return (const char *)buf_data(b);
}
