/* Names of ports: one name is one port of one box, and what is no such name is none. */
#include "tap.h"

#include "api/ports.h"

static void check_name(const char *box, unsigned port, const char *want)
{
	char name[PORT_NAME_SIZE] = "", got[BOX_NAME_MAX + 1];
	unsigned number = 0;

	CHECK_EQ(api_port_name("example.org", box, port, name), want != NULL);
	if (!want)
		return;
	CHECK_STR(name, want);
	CHECK(api_port_name_parse("Example.ORG", name, got, &number));
	CHECK_STR(got, box);
	CHECK_EQ(number, port);
}

TEST(both_ways)
{
	check_name("dev", 8000, "8000-dev.example.org");
	check_name("a--b", 1, "1-a--b.example.org");
	check_name("0123abcd_dev", 65535, "65535-0123abcd--dev.example.org");
	check_name("0123abcd_x-y--z", 80, "80-0123abcd--x-y--z.example.org");
	check_name("a123456789012345678901234567890123456789012345678901234567890", 8000, NULL);
}

/* An operator's box of such a name has none: the name is the key's. */
TEST(a_key_is_not_spelled_by_another)
{
	char got[BOX_NAME_MAX + 1];
	unsigned port;

	CHECK(api_port_name_parse("example.org", "80-0123abcd--dev.example.org", got, &port));
	CHECK_STR(got, "0123abcd_dev");
}

TEST(what_is_none)
{
	static const char *const none[] = {
		"example.org",
		".example.org",
		"8000.example.org",
		"8000-.example.org",
		"-dev.example.org",
		"0-dev.example.org",
		"08-dev.example.org",
		"65536-dev.example.org",
		"8000-dev-.example.org",
		"8000--dev.example.org",
		"8000-a.b.example.org",
		"8000-a_b.example.org",
		"8000-dev.example.com",
		"8000-devexample.org",
		"8000-0123abcd--.example.org",
		"8000-0123abcd---x.example.org",
		"+80-dev.example.org",
		" 80-dev.example.org",
		"8000-dev.example.org.",
		"",
		"1-a12345678901234567890123456789012345678901234567890123456789012.example.org"};
	char got[BOX_NAME_MAX + 1];
	unsigned port;

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CHECK(!api_port_name_parse("example.org", none[i], got, &port));
	CHECK(!api_port_name_parse("", "8000-dev.", got, &port));
	CHECK(!api_port_name_parse(NULL, "8000-dev.example.org", got, &port));
}

TAP_MAIN
