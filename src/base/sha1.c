/* SHA-1 as FIPS 180-4 describes it; see sha1.h. */
#include "base/sha1.h"

#include <string.h>

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

static void compress(uint32_t state[5], const uint8_t block[64])
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
