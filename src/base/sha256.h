/* SHA-256 (FIPS 180-4), for session names and image ids without linking a library. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, uint8_t ret[32]);

/* Writes 64 hex digits and a NUL. */
void sha256_hex(const void *p, size_t n, char ret[65]);
