/* TLS hellos for tests, made from nothing. */
#pragma once

#include "tap.h"

#include "base/buf.h"

static inline void hello_put(struct buf *b, size_t v, unsigned bytes)
{
	for (unsigned i = bytes; i-- > 0;) {
		uint8_t byte = (uint8_t)(v >> (8 * i));

		CHECK_EQ(buf_append(b, &byte, 1), 0);
	}
}

/* name may be NULL. has_ech: an encrypted name beside it. record: bytes per record, 0 for one. */
static inline void hello_make(struct buf *out, const char *name, int has_ech, size_t record)
{
	size_t n = name ? strlen(name) : 0, ext = (name ? n + 9 : 0) + (has_ech ? 8 : 0);
	struct buf m;

	buf_init(&m, 1 << 16);
	hello_put(&m, 1, 1);
	hello_put(&m, 2 + 32 + 1 + 4 + 2 + 2 + ext, 3);
	hello_put(&m, 0x0303, 2);
	for (unsigned i = 0; i < 32; i++)
		hello_put(&m, i, 1);
	hello_put(&m, 0, 1);
	hello_put(&m, 2, 2);
	hello_put(&m, 0x1301, 2);
	hello_put(&m, 0x0100, 2);
	hello_put(&m, ext, 2);
	if (has_ech) {
		hello_put(&m, 0xfe0d, 2);
		hello_put(&m, 4, 2);
		hello_put(&m, 0, 4);
	}
	if (name) {
		hello_put(&m, 0, 2);
		hello_put(&m, n + 5, 2);
		hello_put(&m, n + 3, 2);
		hello_put(&m, 0, 1);
		hello_put(&m, n, 2);
		CHECK_EQ(buf_append(&m, name, n), 0);
	}
	buf_done(out);
	buf_init(out, 1 << 20);
	for (size_t i = 0, step = record ? record : buf_len(&m); i < buf_len(&m); i += step) {
		size_t left = buf_len(&m) - i, now = left < step ? left : step;

		hello_put(out, 22, 1);
		hello_put(out, 0x0301, 2);
		hello_put(out, now, 2);
		CHECK_EQ(buf_append(out, buf_data(&m) + i, now), 0);
	}
	buf_done(&m);
}
