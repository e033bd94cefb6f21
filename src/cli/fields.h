/* Reading one field of a flat JSON object, as libcove's rows are: {"key":"text","key":123,...}. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The text or number under key, cut to size; "" and false if there is none. Escapes are undone; a
 * NUL, and half of a surrogate pair, becomes U+FFFD. */
bool field_text(const char *json, const char *key, char *ret, size_t size);
/* The number under key, or 0. */
uint64_t field_u64(const char *json, const char *key);
