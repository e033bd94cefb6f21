/* SHA-256, for session names, image ids and the audit log without linking a library; and SHA-1,
 * only where a format of others asks for it: the answer to a WebSocket's key, the seal of a Java
 * key store. Nothing of ours rests on that. Both of FIPS 180-4. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20, SHA256_BYTES = 32 };

struct sha {
	void (*compress)(uint32_t state[8], const uint8_t block[64]);
	unsigned sum_bytes;
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[64];
};

void sha1_init(struct sha *s);
void sha256_init(struct sha *s);
void sha_add(struct sha *s, const void *p, size_t n);
void sha_end(struct sha *s, uint8_t *ret); /* SHA1_BYTES or SHA256_BYTES of it */

/* Writes 64 hex digits and a NUL. */
void sha256_hex(const void *p, size_t n, char ret[65]);
