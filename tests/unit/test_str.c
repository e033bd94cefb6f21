/* String checks, escapes and parsing. */
#include "tap.h"

#include "base/str.h"

TEST(copy)
{
	char d[4];

	CHECK(str_copy(d, sizeof(d), "abc"));
	CHECK_STR(d, "abc");
	CHECK(!str_copy(d, sizeof(d), "abcd"));
	CHECK_STR(d, "abc");
	CHECK(str_copy(d, 1, ""));
	CHECK(!str_copy(d, 1, "x"));
	CHECK_STR(d, "");
}

TEST(names)
{
	static const char *const good[] = {"a", "0", "a-b", "support-prod-acme", "x1"};
	static const char *const bad[] = {"",	 "-a",	"a-",  "-", "A",
					  "a_b", "a.b", "a/b", "ä", "a b"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(str_is_name(good[i], 63));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!str_is_name(bad[i], 63));
	CHECK(str_is_name("abc", 3));
	CHECK(!str_is_name("abcd", 3));
}

TEST(names_in_a_namespace)
{
	static const char *const good[] = {"0a1b2c3d_x", "00000000_0", "deadbeef_a-b"};
	static const char *const bad[] = {
		"deadbeef_",  "deadbeef_-a", "deadbee_a", "deadbeef0_a", "DEADBEEF_a",
		"deadbeef.a", "deadbeeg_a",  "_a",	  "deadbeef__a", "deadbeef_deadbeef_a"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK(str_is_name(good[i], 63) && !str_is_plain_name(good[i], 63));
		CHECK_STR(str_plain_name(good[i]), good[i] + 9);
		CHECK(str_is_plain_name(good[i] + 9, 63));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!str_is_name(bad[i], 63));
	CHECK_STR(str_plain_name("deadbeef"), "deadbeef");
	CHECK_STR(str_plain_name("deadbeef-a"), "deadbeef-a");
	CHECK(str_is_name("deadbeef_abc", 12) && !str_is_name("deadbeef_abc", 11));
	CHECK(!str_is_name("deadbeef_a", 9) && !str_is_name("deadbeef_a", 3));
	CHECK(str_is_key_id("deadbeef") && str_is_key_id("01234567"));
	CHECK(!str_is_key_id("") && !str_is_key_id("deadbee") && !str_is_key_id("deadbeef0") &&
	      !str_is_key_id("DEADBEEF"));
}

TEST(env_names)
{
	CHECK(str_is_shell_name("default") && str_is_shell_name("A.b_c-1"));
	CHECK(str_is_shell_name("550e8400-e29b-41d4-a716-446655440000"));
	CHECK(str_is_shell_name(
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
	CHECK(!str_is_shell_name(
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
	CHECK(!str_is_shell_name("") && !str_is_shell_name("-a") && !str_is_shell_name(".."));
	CHECK(!str_is_shell_name("a b") && !str_is_shell_name("a/b") &&
	      !str_is_shell_name("\xc3\xa4"));
	CHECK(str_is_env_name("PATH"));
	CHECK(str_is_env_name("_a1"));
	CHECK(!str_is_env_name(""));
	CHECK(!str_is_env_name("1a"));
	CHECK(!str_is_env_name("a-b"));
	CHECK(!str_is_env_name("a=b"));
}

TEST(numbers)
{
	uint64_t v = 7;

	CHECK(str_parse_u64("0", 10, &v) && v == 0);
	CHECK(str_parse_u64("10", 10, &v) && v == 10);
	CHECK(str_parse_u64("18446744073709551615", UINT64_MAX, &v) && v == UINT64_MAX);
	v = 7;
	CHECK(!str_parse_u64("18446744073709551616", UINT64_MAX, &v));
	CHECK(!str_parse_u64("11", 10, &v));
	CHECK(!str_parse_u64("9", 3, &v));
	CHECK(!str_parse_u64("", 10, &v));
	CHECK(!str_parse_u64("+1", 10, &v));
	CHECK(!str_parse_u64("-1", 10, &v));
	CHECK(!str_parse_u64(" 1", 10, &v));
	CHECK(!str_parse_u64("1 ", 10, &v));
	CHECK(!str_parse_u64("0x1", 100, &v));
	CHECK_EQ(v, 7);
}

TEST(octal_numbers)
{
	static const char *const bad[] = {"",	"8",  "644junk", "0x7",	  "+7",
					  "-1", " 7", "7 ",	 "10000", "777777777777"};
	unsigned v = 7;

	CHECK(str_parse_octal("0", 07777, &v) && v == 0);
	CHECK(str_parse_octal("644", 07777, &v) && v == 0644);
	CHECK(str_parse_octal("07777", 07777, &v) && v == 07777);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (str_parse_octal(bad[i], 07777, &v))
			FAIL(bad[i]);
	CHECK(!str_parse_octal("7", 6, &v) && v == 07777);
}

TEST(durations)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {{"0", 0},
		    {"90", 90000},
		    {"90s", 90000},
		    {"1.5s", 1500},
		    {"250ms", 250},
		    {"10m", 600000},
		    {"2h", 7200000},
		    {"1d", 86400000},
		    {"0.001s", 1},
		    {"1.5", 1500},
		    {"0.0005s", 0},
		    {"1.1234567890s", 1123},
		    {"1000000000", 1000000000000u}};
	static const char *const bad[] = {"",
					  "s",
					  ".5s",
					  "1.s",
					  "1x",
					  "-1",
					  "1 s",
					  "1e3",
					  "1ss",
					  "1M",
					  "99999999999999999999"};
	uint64_t ms;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK(str_parse_ms(good[i].text, &ms));
		CHECK_EQ(ms, good[i].ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!str_parse_ms(bad[i], &ms));
}

static void check_escape(const char *in, size_t n, const char *want)
{
	struct buf b;

	buf_init(&b, 4096);
	CHECK_EQ(str_escape(&b, in, n), 0);
	CHECK_STR(buf_cstr(&b), want);
	buf_done(&b);
}

TEST(escape)
{
	check_escape("plain \xc3\xa4", 8, "plain \xc3\xa4");
	check_escape("a\nb\tc\rd", 7, "a\\nb\\tc\\rd");
	check_escape("\"\\", 2, "\\\"\\\\");
	check_escape("\x1b[31m", 5, "\\x1b[31m");
	check_escape("\0\x7f", 2, "\\x00\\x7f");
	check_escape("\xff\xc3", 2, "\\xff\\xc3");
	check_escape("\xc2\x9b", 2, "\\xc2\\x9b");	    /* C1 control: CSI */
	check_escape("\xe2\x80\xa8", 3, "\\xe2\\x80\\xa8"); /* line separator */
	check_escape("\xe2\x80\xae", 3, "\\xe2\\x80\\xae"); /* right-to-left override */
	check_escape("\xc0\x8a", 2, "\\xc0\\x8a");	    /* overlong newline */
	check_escape("\xed\xa0\x80", 3, "\\xed\\xa0\\x80"); /* surrogate */
}

/* No byte sequence of any two bytes may leave a control byte or an unescaped quote. */
TEST(escape_every_pair)
{
	for (unsigned i = 0; i < 65536; i++) {
		char in[2] = {(char)(i >> 8), (char)(i & 255)};
		struct buf b;

		buf_init(&b, 64);
		CHECK_EQ(str_escape(&b, in, 2), 0);
		for (size_t k = 0; k < buf_len(&b); k++) {
			uint8_t c = buf_data(&b)[k];

			CHECK(c >= 0x20 && c != 0x7f);
			if (c == '"')
				CHECK(k > 0 && buf_data(&b)[k - 1] == '\\');
		}
		buf_done(&b);
	}
}

TEST(utf8)
{
	uint32_t rune;

	CHECK_EQ(str_utf8((const uint8_t *)"a", 1, &rune), 1);
	CHECK_EQ(rune, 'a');
	CHECK_EQ(str_utf8((const uint8_t *)"\xe2\x82\xac", 3, &rune), 3);
	CHECK_EQ(rune, 0x20ac);
	CHECK_EQ(str_utf8((const uint8_t *)"\xf4\x8f\xbf\xbf", 4, &rune), 4);
	CHECK_EQ(rune, 0x10ffff);
	CHECK_EQ(str_utf8((const uint8_t *)"\xf4\x90\x80\x80", 4, &rune), 0);
	CHECK_EQ(str_utf8((const uint8_t *)"\xe2\x82", 2, &rune), 0);
	CHECK_EQ(str_utf8((const uint8_t *)"\x80", 1, &rune), 0);
	CHECK_EQ(str_utf8((const uint8_t *)"\xe0\x80\x80", 3, &rune), 0);
	CHECK_EQ(str_utf8((const uint8_t *)"", 0, &rune), 0);
}

TEST(signals)
{
	CHECK_EQ(str_parse_signal("TERM"), SIGTERM);
	CHECK_EQ(str_parse_signal("SIGKILL"), SIGKILL);
	CHECK_EQ(str_parse_signal("15"), 15);
	CHECK_EQ(str_parse_signal("65"), 0);
	CHECK_EQ(str_parse_signal("0"), 0);
	CHECK_EQ(str_parse_signal("term"), 0);
	CHECK_EQ(str_parse_signal(""), 0);
	CHECK_STR(str_signal_name(SIGWINCH), "WINCH");
	CHECK(str_signal_name(63) == NULL);
	for (int s = 1; s < 32; s++)
		if (str_signal_name(s))
			CHECK_EQ(str_parse_signal(str_signal_name(s)), s);
}

TAP_MAIN
