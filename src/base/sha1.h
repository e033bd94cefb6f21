/* SHA-1 (FIPS 180-4), only where a format of others asks for it: the answer to a WebSocket's key,
 * the seal of a Java key store. Nothing of ours rests on it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20 };

struct sha1 {
	uint32_t state[5];
	uint64_t bytes;
	uint8_t block[64];
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *p, size_t n);
void sha1_end(struct sha1 *s, uint8_t ret[SHA1_BYTES]);
