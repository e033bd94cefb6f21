/*
 * What fuzz targets share. A target is one function, libFuzzer's; it asserts properties and
 * returns. The same object is linked with replay.c where there is no libFuzzer.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* A property: prints itself and aborts when it does not hold. */
#define MUST(cond) ASSERT(cond)

/* Takes bytes from the front of the input; 0 when there are none left. */
struct input {
	const uint8_t *p;
	size_t n;
};

static inline uint8_t input_byte(struct input *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

/* The rest as an owned C string that ends at the first NUL, if there is one. */
static inline char *input_text(const struct input *in)
{
	char *text = malloc(in->n + 1);

	MUST(text);
	if (in->n)
		memcpy(text, in->p, in->n);
	text[in->n] = '\0';
	return text;
}

static inline void must_equal(const struct buf *a, const struct buf *b)
{
	MUST(buf_len(a) == buf_len(b));
	MUST(buf_len(a) == 0 || memcmp(buf_data(a), buf_data(b), buf_len(a)) == 0);
}
