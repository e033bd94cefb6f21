/* The Range of a request (RFC 9110, 14): one stretch of bytes of what has a known size. */
#pragma once

#include <stdint.h>

/* "bytes=a-b", "bytes=a-", "bytes=-n" of size bytes: 1, with the first byte and how many there are,
 * at least one; -ERANGE: none of it is there. 0: the whole is to be answered, as for NULL, another
 * unit, several ranges, or what cannot be read. */
int http_range_parse(const char *value, uint64_t size, uint64_t *ret_from, uint64_t *ret_count);
