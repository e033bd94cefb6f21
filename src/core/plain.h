/* What libcove and a server's client (src/remote) have in common: no state, no box. */
#pragma once

#include "base/err.h"
#include "cove.h"

/* Our error as the caller's; returns r. err may be NULL. */
int core_error_fill(int r, const struct err *e, struct cove_error *err);

/* Copies a caller's struct that begins with its size; what it is too short for is 0. NULL: all of
 * it. */
int core_copy_sized(void *dst, size_t size, const void *src, struct err *e);

/* Text from a box, made safe to show in a sentence. */
const char *core_show(char *dst, size_t size, const char *text);
