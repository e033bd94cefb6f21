/* Random bytes from the kernel, and names made of them. */
#pragma once

#include <stddef.h>

/* Fills p. Cannot fail: a kernel without randomness is a bug we stop at. */
void rand_bytes(void *p, size_t n);

/* Writes 2 * bytes lower-case hex digits and a NUL. */
void rand_hex(char *ret, size_t bytes);
