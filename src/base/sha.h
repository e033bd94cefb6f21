/* SHA-256, for session names, image ids and the audit log without linking a library; and SHA-1,
 * only where a format of others asks for it: the answer to a WebSocket's key, the seal of a Java
 * key store. Nothing of ours rests on that. Both of FIPS 180-4. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20, SHA256_BYTES = 32, SHA256_HEX_SIZE = 2 * SHA256_BYTES + 1 };

struct sha {
	void (*compress)(uint32_t state[8], const uint8_t *blocks, size_t count);
	unsigned sum_bytes;
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[64];
};

/* SHA-256 of blocks by the processor's own instructions (sha_ni.c). False where it has none: that
 * is asked once, and only when there is much to hash, since asking a processor takes long on some
 * virtual machines. */
extern const uint32_t sha256_constants[64];
bool sha256_has_fast(void);
void sha256_compress_fast(uint32_t state[8], const uint8_t *blocks, size_t count);

void sha1_init(struct sha *s);
void sha256_init(struct sha *s);
void sha_add(struct sha *s, const void *p, size_t n);
void sha_end(struct sha *s, uint8_t *ret); /* SHA1_BYTES or SHA256_BYTES of it */

/* Writes 64 hex digits and a NUL. */
void sha256_hex(const void *p, size_t n, char ret[SHA256_HEX_SIZE]);
/* HMAC-SHA-256 (RFC 2104): what is signed is added to `sha` between the two. */
struct sha_hmac {
	struct sha sha;
	uint8_t outer[64];
};
void sha256_hmac_init(struct sha_hmac *m, const void *key, size_t key_len);
void sha256_hmac_end(struct sha_hmac *m, uint8_t ret[SHA256_BYTES]);
void sha256_hmac(const void *key, size_t key_len, const void *p, size_t n,
		 uint8_t ret[SHA256_BYTES]);
