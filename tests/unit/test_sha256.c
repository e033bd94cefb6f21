/* SHA-256 against the vectors of FIPS 180-4 and its neighbours. */
#include "tap.h"

#include "base/sha256.h"

static void check(const void *p, size_t n, const char *want)
{
	char hex[65];

	sha256_hex(p, n, hex);
	CHECK_STR(hex, want);
}

TEST(vectors)
{
	check("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	check("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(a_million)
{
	char *a = malloc(1000000);

	memset(a, 'a', 1000000);
	check(a, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(a);
}

/* How the bytes are cut does not change the sum; lengths around the block size. */
TEST(cuts)
{
	uint8_t bytes[300], want[32], got[32];
	struct sha256 s;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31);
	for (size_t n = 50; n < sizeof(bytes); n++) {
		sha256_init(&s);
		sha256_add(&s, bytes, n);
		sha256_end(&s, want);
		for (size_t cut = 1; cut < 130; cut += 9) {
			sha256_init(&s);
			for (size_t at = 0; at < n; at += cut)
				sha256_add(&s, bytes + at, n - at < cut ? n - at : cut);
			sha256_end(&s, got);
			CHECK_MEM(got, want, 32);
		}
	}
}

TAP_MAIN
