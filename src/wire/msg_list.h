/* Lists of strings in a message; see msg.h. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

/* Strings one after the other, each with its NUL. */
struct wire_list {
	const char *data; /* borrowed */
	uint32_t bytes;
	uint32_t count;
};

/* Appends one item to a buffer that a list can then be made of. */
int wire_list_add(struct buf *b, const char *item);
struct wire_list wire_list_of(const struct buf *b);
/* The next item, NULL after the last. Start with *pos = 0. */
const char *wire_list_next(const struct wire_list *l, uint32_t *pos);
