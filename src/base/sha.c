/*
 * SHA-1 and SHA-256 as FIPS 180-4 describes them; see sha.h. They differ in how a block is
 * compressed; blocks are gathered, and the last one is filled, in the same way.
 */
#include "base/sha.h"

#include "base/str.h"

#include <string.h>

/* ---- SHA-1 ---- */

static uint32_t rotl(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

/* One round; the variables take turns instead of being moved. */
#define ROUND(f, k, a, b, c, d, e, word)                         \
	do {                                                     \
		(e) += rotl((a), 5) + f(b, c, d) + (k) + (word); \
		(b) = rotl((b), 30);                             \
	} while (0)

#define CHOOSE(x, y, z)	  ((z) ^ ((x) & ((y) ^ (z))))
#define PARITY(x, y, z)	  ((x) ^ (y) ^ (z))
#define MAJORITY(x, y, z) (((x) & (y)) | ((z) & ((x) | (y))))

/* The next word of the schedule, of which sixteen are kept. */
#define NEXT(i)      \
	(w[(i)&15] = \
		 rotl(w[((i) + 13) & 15] ^ w[((i) + 8) & 15] ^ w[((i) + 2) & 15] ^ w[(i)&15], 1))

#define FIVE(f, k, word, i)                                \
	do {                                               \
		ROUND(f, k, a, b, c, d, e, word(i));       \
		ROUND(f, k, e, a, b, c, d, word((i) + 1)); \
		ROUND(f, k, d, e, a, b, c, word((i) + 2)); \
		ROUND(f, k, c, d, e, a, b, word((i) + 3)); \
		ROUND(f, k, b, c, d, e, a, word((i) + 4)); \
	} while (0)

#define TWENTY(f, k, i)                     \
	do {                                \
		FIVE(f, k, NEXT, i);        \
		FIVE(f, k, NEXT, (i) + 5);  \
		FIVE(f, k, NEXT, (i) + 10); \
		FIVE(f, k, NEXT, (i) + 15); \
	} while (0)

#define GIVEN(i) (w[i])

static void compress1_block(uint32_t state[8], const uint8_t block[64])
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
	uint32_t w[16];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	FIVE(CHOOSE, 0x5a827999, GIVEN, 0);
	FIVE(CHOOSE, 0x5a827999, GIVEN, 5);
	FIVE(CHOOSE, 0x5a827999, GIVEN, 10);
	ROUND(CHOOSE, 0x5a827999, a, b, c, d, e, GIVEN(15));
	ROUND(CHOOSE, 0x5a827999, e, a, b, c, d, NEXT(16));
	ROUND(CHOOSE, 0x5a827999, d, e, a, b, c, NEXT(17));
	ROUND(CHOOSE, 0x5a827999, c, d, e, a, b, NEXT(18));
	ROUND(CHOOSE, 0x5a827999, b, c, d, e, a, NEXT(19));
	TWENTY(PARITY, 0x6ed9eba1, 20);
	TWENTY(MAJORITY, 0x8f1bbcdc, 40);
	TWENTY(PARITY, 0xca62c1d6, 60);
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

/* ---- SHA-256 ---- */

const uint32_t sha256_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotr(uint32_t v, unsigned n)
{
	return v >> n | v << (32 - n);
}

static void compress256_block(uint32_t state[8], const uint8_t block[64])
{
	uint32_t w[64], v[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
		uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;

		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
	memcpy(v, state, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
		uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
		uint32_t t1 = v[7] + s1 + choose + sha256_constants[i] + w[i];
		uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
		uint32_t major = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

		/* Not memmove: musl's goes byte by byte here, and took nine tenths of the time. */
		v[7] = v[6], v[6] = v[5], v[5] = v[4], v[4] = v[3] + t1;
		v[3] = v[2], v[2] = v[1], v[1] = v[0], v[0] = t1 + s0 + major;
	}
	for (int i = 0; i < 8; i++)
		state[i] += v[i];
}

/* ---- both ---- */

enum { LARGE_BYTES = 16 << 10 }; /* at once: then it is worth asking the processor */

static void compress1(uint32_t state[8], const uint8_t *blocks, size_t count)
{
	for (; count > 0; count--, blocks += 64)
		compress1_block(state, blocks);
}

static void compress256(uint32_t state[8], const uint8_t *blocks, size_t count)
{
	for (; count > 0; count--, blocks += 64)
		compress256_block(state, blocks);
}

void sha1_init(struct sha *s)
{
	*s = (struct sha){
		.compress = compress1,
		.sum_bytes = SHA1_BYTES,
		.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0},
	};
}

void sha256_init(struct sha *s)
{
	*s = (struct sha){
		.compress = compress256,
		.sum_bytes = SHA256_BYTES,
		.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
			  0x1f83d9ab, 0x5be0cd19},
	};
}

void sha_add(struct sha *s, const void *p, size_t n)
{
	const uint8_t *bytes = p;

	if (n >= LARGE_BYTES && s->compress == compress256 && sha256_has_fast())
		s->compress = sha256_compress_fast;
	while (n > 0) {
		size_t at = s->bytes % 64, room = 64 - at, take = n < room ? n : room;

		if (at == 0 && n >= 64) {
			take = n - n % 64;
			s->compress(s->state, bytes, take / 64);
		} else {
			memcpy(s->block + at, bytes, take);
			if (at + take == 64)
				s->compress(s->state, s->block, 1);
		}
		s->bytes += take;
		bytes += take;
		n -= take;
	}
}

void sha_end(struct sha *s, uint8_t *ret)
{
	uint64_t bits = s->bytes * 8;
	uint8_t length[8];

	sha_add(s, "\x80", 1);
	while (s->bytes % 64 != 56)
		sha_add(s, "", 1);
	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha_add(s, length, 8);
	for (unsigned i = 0; i < s->sum_bytes; i++)
		ret[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_hex(const void *p, size_t n, char ret[SHA256_HEX_SIZE])
{
	struct sha s;
	uint8_t sum[SHA256_BYTES];

	sha256_init(&s);
	sha_add(&s, p, n);
	sha_end(&s, sum);
	str_hex(sum, sizeof(sum), ret);
}

void sha256_hmac_init(struct sha_hmac *m, const void *key, size_t key_len)
{
	uint8_t inner[64] = {0};

	sha256_init(&m->sha);
	if (key_len > sizeof(inner)) {
		sha_add(&m->sha, key, key_len);
		sha_end(&m->sha, inner);
		sha256_init(&m->sha);
	} else {
		memcpy(inner, key, key_len);
	}
	for (size_t i = 0; i < sizeof(inner); i++) {
		m->outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	sha_add(&m->sha, inner, sizeof(inner));
	explicit_bzero(inner, sizeof(inner));
}

void sha256_hmac_end(struct sha_hmac *m, uint8_t ret[SHA256_BYTES])
{
	sha_end(&m->sha, ret);
	sha256_init(&m->sha);
	sha_add(&m->sha, m->outer, sizeof(m->outer));
	sha_add(&m->sha, ret, SHA256_BYTES);
	sha_end(&m->sha, ret);
	explicit_bzero(m, sizeof(*m));
}

void sha256_hmac(const void *key, size_t key_len, const void *p, size_t n,
		 uint8_t ret[SHA256_BYTES])
{
	struct sha_hmac m;

	sha256_hmac_init(&m, key, key_len);
	sha_add(&m.sha, p, n);
	sha256_hmac_end(&m, ret);
}
