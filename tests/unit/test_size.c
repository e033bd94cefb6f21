/* Sizes there and back, and what is none. */
#include "base/size.h"
#include "tap.h"

TEST(sizes_as_people_write_them)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"4096", 4096},
		{"4096B", 4096},
		{"1k", 1024},
		{"64KB", 64 << 10},
		{"512M", 512 << 20},
		{"512MiB", 512 << 20},
		{"2G", 2ull << 30},
		{"1.5GiB", 3ull << 29},
		{"0.5m", 1 << 19},
		{"1.000000001K", 1024},
		{"3T", 3ull << 40},
		{"8388607T", 8388607ull << 40},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t bytes = 1;

		if (!size_parse(good[i].text, &bytes))
			FAIL(good[i].text);
		CHECK_EQ(bytes, good[i].bytes);
	}
}

TEST(what_is_no_size)
{
	static const char *const bad[] = {"",
					  " 1",
					  "1 ",
					  "-1",
					  "+1",
					  "M",
					  ".5M",
					  "1.M",
					  "1.5",
					  "1.5B",
					  "1X",
					  "1MM",
					  "1Mi",
					  "1iB",
					  "1.2.3M",
					  "1e9",
					  "0x10",
					  "1.0000000001M",
					  "8388608T",
					  "9223372036854775809",
					  "18446744073709551616",
					  "99999999999999999999999999"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t bytes = 7;

		if (size_parse(bad[i], &bytes))
			FAIL(bad[i]);
		CHECK_EQ(bytes, 7);
	}
}

TEST(sizes_are_shown)
{
	char text[SIZE_TEXT];

	CHECK_STR(size_format(text, 0), "0 B");
	CHECK_STR(size_format(text, 1023), "1023 B");
	CHECK_STR(size_format(text, 1024), "1 KiB");
	CHECK_STR(size_format(text, 1536), "1.5 KiB");
	CHECK_STR(size_format(text, 512 << 20), "512 MiB");
	CHECK_STR(size_format(text, (512 << 20) - 1), "512 MiB");
	CHECK_STR(size_format(text, 10724667392), "10 GiB");
	CHECK_STR(size_format(text, 2ull << 30), "2 GiB");
	CHECK_STR(size_format(text, UINT64_MAX), "16 EiB");
	CHECK_STR(size_format_exact(text, 0), "0 B");
	CHECK_STR(size_format_exact(text, 1), "1 B");
	CHECK_STR(size_format_exact(text, (16 << 20) - 1), "16777215 B");
	CHECK_STR(size_format_exact(text, 16 << 20), "16 MiB");
	CHECK_STR(size_format_exact(text, 3ull << 29), "1536 MiB");
	CHECK_STR(size_format_exact(text, 1ull << 63), "8 EiB");
}

TEST(thousandths)
{
	static const char *const bad[] = {"",	    "x",   "1.", ".5",	   "-1",
					  "1.2345", "1,5", "2 ", "1000001"};
	uint64_t milli = 0;

	CHECK(size_parse_milli("2", &milli) && milli == 2000);
	CHECK(size_parse_milli("0.5", &milli) && milli == 500);
	CHECK(size_parse_milli("1.25", &milli) && milli == 1250);
	CHECK(size_parse_milli("0.001", &milli) && milli == 1);
	CHECK(size_parse_milli("0", &milli) && milli == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (size_parse_milli(bad[i], &milli))
			FAIL(bad[i]);
}

TAP_MAIN
