/* SHA-1 against the vectors of FIPS 180-4 and its neighbours. */
#include "tap.h"

#include "base/sha1.h"

static void check(const void *p, size_t n, const char *want)
{
	uint8_t sum[SHA1_BYTES];
	char hex[2 * SHA1_BYTES + 1];
	struct sha1 s;

	sha1_init(&s);
	sha1_add(&s, p, n);
	sha1_end(&s, sum);
	for (size_t i = 0; i < SHA1_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	CHECK_STR(hex, want);
}

TEST(vectors)
{
	check("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	check("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
	check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	      "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

TEST(a_million)
{
	char *a = malloc(1000000);

	memset(a, 'a', 1000000);
	check(a, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
	free(a);
}

/* How the bytes are cut does not change the sum; lengths around the block size. */
TEST(cuts)
{
	uint8_t bytes[300], want[SHA1_BYTES], got[SHA1_BYTES];
	struct sha1 s;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31);
	for (size_t n = 50; n < sizeof(bytes); n++) {
		sha1_init(&s);
		sha1_add(&s, bytes, n);
		sha1_end(&s, want);
		for (size_t cut = 1; cut < 130; cut += 9) {
			sha1_init(&s);
			for (size_t at = 0; at < n; at += cut)
				sha1_add(&s, bytes + at, n - at < cut ? n - at : cut);
			sha1_end(&s, got);
			CHECK_MEM(got, want, SHA1_BYTES);
		}
	}
}

TAP_MAIN
