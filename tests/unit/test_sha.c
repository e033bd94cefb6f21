/* SHA-1 and SHA-256 against the vectors of FIPS 180-4 and its neighbours. */
#include "tap.h"

#include "base/sha.h"

static void (*const inits[])(struct sha *s) = {sha1_init, sha256_init};

static void check(const void *p, size_t n, const char *want1, const char *want256)
{
	uint8_t sum[SHA1_BYTES];
	char hex[65];
	struct sha s;

	sha1_init(&s);
	sha_add(&s, p, n);
	sha_end(&s, sum);
	for (size_t i = 0; i < SHA1_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	CHECK_STR(hex, want1);
	sha256_hex(p, n, hex);
	CHECK_STR(hex, want256);
}

TEST(vectors)
{
	check("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709",
	      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	check("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d",
	      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	      "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
	      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(a_million)
{
	char *a = malloc(1000000);

	memset(a, 'a', 1000000);
	check(a, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f",
	      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(a);
}

/* How the bytes are cut does not change the sum; lengths around the block size. */
TEST(cuts)
{
	uint8_t bytes[300], want[SHA256_BYTES] = {0}, got[SHA256_BYTES] = {0};
	struct sha s;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31);
	for (size_t n = 50; n < 2 * sizeof(bytes); n++) {
		size_t len = n % sizeof(bytes);

		inits[n / sizeof(bytes)](&s);
		sha_add(&s, bytes, len);
		sha_end(&s, want);
		for (size_t cut = 1; cut < 130; cut += 9) {
			inits[n / sizeof(bytes)](&s);
			for (size_t at = 0; at < len; at += cut)
				sha_add(&s, bytes + at, len - at < cut ? len - at : cut);
			sha_end(&s, got);
			CHECK_MEM(got, want, SHA256_BYTES);
		}
	}
}

/* Much at once goes another way than a little at a time: by the processor's own instructions. */
TEST(much_at_once_is_the_same)
{
	enum { MOST = 200000 };
	static uint8_t data[MOST];
	uint8_t one[SHA256_BYTES], two[SHA256_BYTES];
	uint32_t x = 1;

	if (!sha256_has_fast())
		SKIP("this processor has no instructions for SHA-256");
	for (size_t i = 0; i < MOST; i++)
		data[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
	for (size_t n = 16 << 10; n < MOST; n += 4099) {
		struct sha a, b;
		size_t head = n % 67;

		sha256_init(&a);
		sha_add(&a, data, head); /* so that blocks begin elsewhere */
		sha_add(&a, data + head, n - head);
		sha_end(&a, one);
		sha256_init(&b);
		for (size_t at = 0; at < n; at += 1000)
			sha_add(&b, data + at, n - at < 1000 ? n - at : 1000);
		sha_end(&b, two);
		CHECK_MEM(one, two, sizeof(one));
	}
}

/* RFC 4231, cases 1, 2 and 6. */
TEST(hmac)
{
	static const uint8_t one[4] = {0xb0, 0x34, 0x4c, 0x61}, two[4] = {0x5b, 0xdc, 0xc1, 0x46};
	static const uint8_t six[4] = {0x60, 0xe4, 0x31, 0x59};
	uint8_t key[20], large[131], sum[SHA256_BYTES];

	memset(key, 0x0b, sizeof(key));
	sha256_hmac(key, sizeof(key), "Hi There", 8, sum);
	CHECK(memcmp(sum, one, 4) == 0);
	sha256_hmac("Jefe", 4, "what do ya want for nothing?", 28, sum);
	CHECK(memcmp(sum, two, 4) == 0);
	memset(large, 0xaa, sizeof(large));
	sha256_hmac(large, sizeof(large), "Test Using Larger Than Block-Size Key - Hash Key First",
		    54, sum);
	CHECK(memcmp(sum, six, 4) == 0);
}

TAP_MAIN
