/*
 * What a command prints: up to a maximum of both streams each, and how many bytes there were. Used
 * by libcove and by the command line.
 *
 * Kept are the first bytes; or, of both ends, half of the maximum each, with a line in between that
 * says how many bytes are missing. There no character of UTF-8 is cut in two.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct collect {
	struct buf kept[2]; /* stdout, stderr: the first bytes */
	struct buf tail[2]; /* what came after them, at the end at least tail_max bytes */
	size_t tail_max;
	bool both_ends; /* otherwise only the first bytes are kept */
	uint64_t seen[2];
};

void collect_init(struct collect *c, size_t max);
void collect_init_ends(struct collect *c, size_t max);
void collect_done(struct collect *c);

/* stream 0 is stdout, 1 is stderr. What is beyond the maximum is only counted. */
int collect_add(struct collect *c, unsigned stream, const void *data, size_t len);

/* Nothing more is kept, and of both ends the first alone. */
void collect_close(struct collect *c);

/* How much memory it takes. */
size_t collect_memory(const struct collect *c);

/* How many bytes more are kept as the first ones. */
size_t collect_room(const struct collect *c, unsigned stream);

/* Was there more than is kept? */
bool collect_is_cut(const struct collect *c);

/* One stream as a block of the caller's that ends with NUL; NULL without memory. */
char *collect_copy(const struct collect *c, unsigned stream, size_t *ret_len);
/* The same of what comes after the first bytes: nothing, or the line and the end. */
char *collect_copy_rest(const struct collect *c, unsigned stream, size_t *ret_len);
