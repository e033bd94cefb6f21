/* Base64 (RFC 4648). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Without line breaks; url: the alphabet of URLs. out has at least 4 * (n + 2) / 3 bytes; returns
 * the length, padding included. */
size_t base64_encode(const uint8_t *p, size_t n, bool url, uint8_t *out);

/* White space is passed over, and the first '=' is the end. out has at least n / 4 * 3 + 3 bytes.
 * The length, or -EBADMSG where it is no base64. */
ssize_t base64_decode(const char *p, size_t n, uint8_t *out);
