/* Base64: the examples of its standard, both ways, and what is none. */
#include "tap.h"

#include "base/base64.h"

#include <errno.h>

TEST(encode)
{
	uint8_t out[16];

	CHECK_EQ(base64_encode((const uint8_t *)"", 0, false, out), 0);
	CHECK_EQ(base64_encode((const uint8_t *)"f", 1, false, out), 4);
	CHECK_MEM(out, "Zg==", 4);
	CHECK_EQ(base64_encode((const uint8_t *)"fo", 2, false, out), 4);
	CHECK_MEM(out, "Zm8=", 4);
	CHECK_EQ(base64_encode((const uint8_t *)"\xfb\xff\xfe", 3, false, out), 4);
	CHECK_MEM(out, "+//+", 4);
	CHECK_EQ(base64_encode((const uint8_t *)"\xfb\xff\xfe", 3, true, out), 4);
	CHECK_MEM(out, "-__-", 4);
}

static void decodes(const char *text, const char *want, size_t n)
{
	uint8_t out[64];

	CHECK_EQ(base64_decode(text, strlen(text), out), (ssize_t)n);
	CHECK_MEM(out, want, n);
}

TEST(decode)
{
	uint8_t out[64];

	decodes("", "", 0);
	decodes("Zg==", "f", 1);
	decodes("Zm8=", "fo", 2);
	decodes("Zm9v", "foo", 3);
	decodes("Z\r\nm 9\tv\n", "foo", 3);
	decodes("Zm9v====Zm9v", "foo", 3);
	decodes("Zg", "f", 1);
	decodes("+//+", "\xfb\xff\xfe", 3);
	CHECK_EQ(base64_decode("-__-", 4, out), -EBADMSG);
	CHECK_EQ(base64_decode("Zm9\0", 4, out), -EBADMSG);
	CHECK_EQ(base64_decode("Zm9\xff", 4, out), -EBADMSG);
}

/* Every length, and no byte more than there was said to be room for. */
TEST(back_and_forth)
{
	uint8_t bytes[100], text[4 * 102 / 3], out[104];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		size_t len = base64_encode(bytes, n, false, text);

		CHECK(len <= 4 * (n + 2) / 3);
		memset(out, 0xee, sizeof(out));
		CHECK_EQ(base64_decode((const char *)text, len, out), (ssize_t)n);
		CHECK_MEM(out, bytes, n);
		CHECK_EQ(out[n], 0xee);
	}
}

TAP_MAIN
