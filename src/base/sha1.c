/* SHA-1 as FIPS 180-4 describes it; see sha1.h. */
#include "base/sha1.h"

#include <string.h>

static uint32_t rotl(uint32_t v, unsigned n)
{
	return v << n | v >> (32 - n);
}

/* The function and the constant of round i. */
static uint32_t mix(unsigned i, uint32_t b, uint32_t c, uint32_t d)
{
	if (i < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (i < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (i < 60)
		return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

static void compress(uint32_t state[5], const uint8_t block[64])
{
	uint32_t w[80], v[5];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, state, sizeof(v));
	for (unsigned i = 0; i < 80; i++) {
		uint32_t t = rotl(v[0], 5) + mix(i, v[1], v[2], v[3]) + v[4] + w[i];

		memmove(v + 1, v, 4 * sizeof(v[0]));
		v[2] = rotl(v[2], 30);
		v[0] = t;
	}
	for (int i = 0; i < 5; i++)
		state[i] += v[i];
}

void sha1_init(struct sha1 *s)
{
	*s = (struct sha1){
		.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0},
	};
}

void sha1_add(struct sha1 *s, const void *p, size_t n)
{
	const uint8_t *bytes = p;

	while (n > 0) {
		size_t at = s->bytes % 64, room = 64 - at, take = n < room ? n : room;

		memcpy(s->block + at, bytes, take);
		s->bytes += take;
		bytes += take;
		n -= take;
		if (s->bytes % 64 == 0)
			compress(s->state, s->block);
	}
}

void sha1_end(struct sha1 *s, uint8_t ret[SHA1_BYTES])
{
	uint64_t bits = s->bytes * 8;
	uint8_t length[8];

	sha1_add(s, "\x80", 1);
	while (s->bytes % 64 != 56)
		sha1_add(s, "", 1);
	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha1_add(s, length, 8);
	for (int i = 0; i < SHA1_BYTES; i++)
		ret[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}
