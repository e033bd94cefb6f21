/* What a command prints: the first bytes of both streams, up to a maximum each, and how many there
 * were. Used by libcove and by the command line. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct collect {
	struct buf kept[2]; /* stdout, stderr */
	uint64_t seen[2];
};

void collect_init(struct collect *c, size_t max);
void collect_done(struct collect *c);

/* stream 0 is stdout, 1 is stderr. What is beyond the maximum is only counted. */
int collect_add(struct collect *c, unsigned stream, const void *data, size_t len);

/* Was there more than is kept? */
bool collect_is_cut(const struct collect *c);

/* One stream as a block of the caller's that ends with NUL; NULL without memory. */
char *collect_copy(const struct collect *c, unsigned stream, size_t *ret_len);
