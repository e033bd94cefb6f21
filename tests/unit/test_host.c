/* Names and addresses: one form each, odd spellings refused, networks, and what is not dialled. */
#include "net/host.h"
#include "tap.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

static const char *form(const char *text)
{
	static struct host h;

	return host_parse(&h, text) == 0 ? h.text : NULL;
}

TEST(names_have_one_form)
{
	CHECK_STR(form("example.com"), "example.com");
	CHECK_STR(form("EXAMPLE.Com"), "example.com");
	CHECK_STR(form("example.com."), "example.com");
	CHECK_STR(form("localhost"), "localhost");
	CHECK_STR(form("_acme.a-b.xn--bcher-kva.example"), "_acme.a-b.xn--bcher-kva.example");
	CHECK_STR(form("1.2.3.4"), "1.2.3.4");
	CHECK_STR(form("2001:DB8:0::1"), "2001:db8::1");
	CHECK_STR(form("::ffff:127.0.0.1"), "127.0.0.1");
	CHECK_STR(form("::ffff:7f00:1"), "127.0.0.1");
	CHECK_STR(form("4.example"), "4.example");
}

static const char *const odd[] = {"",
				  ".",
				  "..",
				  ".a",
				  "a..b",
				  "a..",
				  "a b",
				  " a",
				  "a ",
				  "a\tb",
				  "a\r\nb",
				  "a%00b",
				  "a\\b",
				  "user@a",
				  "allowed@evil",
				  "evil#allowed",
				  "a/b",
				  "a?b",
				  "a:443",
				  "[::1]",
				  "::1%lo",
				  "fe80::1%eth0",
				  "127.1",
				  "0x7f.1",
				  "2130706433",
				  "0x7f000001",
				  "0177.0.0.1",
				  "0",
				  "0x",
				  "127.0.0.1.",
				  "1.2.3",
				  "1.2.3.4.5",
				  "1.2.3.256",
				  "01.2.3.4",
				  "a.1",
				  "a.0x1",
				  "a.0X",
				  "\xef\xbc\x8e",
				  "a\xe3\x80\x82"
				  "b",
				  "b\xc3\xbc"
				  "cher.example",
				  "-a.b",
				  "a-.b",
				  "a.-b",
				  "a,b",
				  "*",
				  "*.a",
				  "a*",
				  "::ffff:127.1",
				  "1:2",
				  ":",
				  ":::",
				  "12345::"};

TEST(odd_spellings_are_refused)
{
	char label[70], name[300];

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		if (form(odd[i]))
			FAIL(odd[i]);
	memset(label, 'a', sizeof(label));
	label[63] = '\0';
	CHECK(form(label));
	label[63] = 'a';
	label[64] = '\0';
	CHECK(!form(label));
	for (size_t i = 0; i < 255; i++)
		name[i] = i % 2 ? '.' : 'a';
	name[253] = '\0';
	CHECK(form(name));
	name[253] = '.';
	name[254] = '\0';
	CHECK(form(name));
	name[254] = 'a';
	name[255] = '\0';
	CHECK(!form(name));
}

/* A second opinion, written another way: what a name is, letter by letter. */
static int second_opinion(const char *text, char *ret)
{
	char copy[1300], *label, *save;
	struct in6_addr six;
	struct in_addr four;
	size_t n = strlen(text);
	int digits = 0;

	if (n == 0 || n > 254)
		return 0;
	if (inet_pton(AF_INET, text, &four) == 1)
		return inet_ntop(AF_INET, &four, ret, 256) != NULL;
	if (inet_pton(AF_INET6, text, &six) == 1) {
		if (IN6_IS_ADDR_V4MAPPED(&six))
			return inet_ntop(AF_INET, &six.s6_addr[12], ret, 256) != NULL;
		return inet_ntop(AF_INET6, &six, ret, 256) != NULL;
	}
	snprintf(copy, sizeof(copy), "%s", text);
	if (copy[n - 1] == '.')
		copy[--n] = '\0';
	if (n == 0 || n > 253 || copy[0] == '.' || copy[n - 1] == '.' || strstr(copy, ".."))
		return 0;
	for (size_t i = 0; i <= n; i++)
		ret[i] = (char)tolower((unsigned char)copy[i]);
	for (label = strtok_r(copy, ".", &save); label; label = strtok_r(NULL, ".", &save)) {
		size_t len = strlen(label), plain = 0, hex = 0;

		for (size_t i = 0; i < len; i++) {
			plain += label[i] >= '0' && label[i] <= '9';
			hex += i >= 2 && isxdigit((unsigned char)label[i]);
			if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_",
				    label[i]))
				return 0;
		}
		if (len > 63 || label[0] == '-' || label[len - 1] == '-')
			return 0;
		digits = plain == len ||
			 (len >= 2 && strncasecmp(label, "0x", 2) == 0 && hex == len - 2);
	}
	return !digits;
}

static uint32_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

static const char *const parts[] = {
	"allowed.com",
	"ALLOWED.com",
	"evil",
	"allowed",
	".",
	"..",
	"com",
	"@",
	"#",
	"%00",
	"%2e",
	"\r",
	"\n",
	"\t",
	" ",
	"\\",
	"/",
	":",
	":443",
	"_",
	"-",
	"xn--",
	"\xef\xbc\x8e",
	"\xc3\xa9",
	"127",
	"0x7f",
	"0177",
	"1",
	"256",
	"::",
	"ffff",
	"[",
	"]",
	"%lo",
	"*",
	"a",
	"Z",
	"\x01",
	"\x7f",
	"2130706433",
	"10.0.0.1",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

TEST(d6_ten_thousand_spellings)
{
	uint64_t seed = 20260101;
	unsigned taken = 0;

	for (unsigned i = 0; i < 10000; i++) {
		char text[1200] = "", want[600] = "";
		unsigned n = 1 + next_random(&seed) % 6;
		struct host h, again;
		int r;

		for (unsigned k = 0; k < n; k++) {
			size_t at = strlen(text);

			snprintf(text + at, sizeof(text) - at, "%s",
				 parts[next_random(&seed) % (sizeof(parts) / sizeof(parts[0]))]);
		}
		if (next_random(&seed) % 4 == 0 && text[0])
			text[next_random(&seed) % strlen(text)] =
				(char)(1 + next_random(&seed) % 255);
		r = host_parse(&h, text);
		if ((r == 0) != second_opinion(text, want)) {
			printf("# '%s'\n", text);
			FAIL("two opinions");
		}
		if (r < 0)
			continue;
		taken++;
		CHECK_STR(h.text, want);
		/* The form is its own form, and says the same. */
		CHECK_EQ(host_parse(&again, h.text), 0);
		CHECK_STR(again.text, h.text);
		CHECK_EQ(again.is_address, h.is_address);
		CHECK_MEM(again.addr, h.addr, sizeof(h.addr));
		if (!h.is_address)
			CHECK_EQ(strcasecmp(h.text, text) == 0 ||
					 (strncasecmp(h.text, text, strlen(h.text)) == 0 &&
					  strcmp(text + strlen(h.text), ".") == 0),
				 1);
	}
	CHECK(taken > 500 && taken < 9500);
}

TEST(authorities)
{
	static const char *const bad[] = {"",	     ":80",    "a:",	  "a:0",       "a:080",
					  "a:65536", "a:+1",   "a: 1",	  "a:1x",      "[::1",
					  "[::1]x",  "[::1]:", "[::1]:0", "[a]:80",    "[1.2.3.4]",
					  "[]",	     "a:b:c",  "u@a:80",  "[::1]]:80", "::1]:80"};
	struct host h;
	uint16_t port = 1;

	CHECK_EQ(host_parse_authority(&h, "Name", &port), 0);
	CHECK_STR(h.text, "name");
	CHECK_EQ(port, 0);
	CHECK_EQ(host_parse_authority(&h, "name.:443", &port), 0);
	CHECK_STR(h.text, "name");
	CHECK_EQ(port, 443);
	CHECK_EQ(host_parse_authority(&h, "1.2.3.4:65535", &port), 0);
	CHECK_EQ(port, 65535);
	CHECK_EQ(host_parse_authority(&h, "[::1]:8443", &port), 0);
	CHECK_STR(h.text, "::1");
	CHECK_EQ(port, 8443);
	CHECK_EQ(host_parse_authority(&h, "::1", &port), 0);
	CHECK_EQ(port, 0);
	CHECK_EQ(host_parse_authority(&h, "[::FFFF:1.2.3.4]", &port), 0);
	CHECK_STR(h.text, "1.2.3.4");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (host_parse_authority(&h, bad[i], &port) == 0)
			FAIL(bad[i]);
}

static int has(const char *net, const char *address)
{
	struct cidr c;
	struct host h;

	CHECK_EQ(cidr_parse(&c, net), 0);
	CHECK_EQ(host_parse(&h, address), 0);
	return cidr_has(&c, h.family, h.addr);
}

TEST(networks)
{
	static const char *const bad[] = {
		"",	      "/",	    "10.0.0.0/",	  "10.0.0.0/33", "10.0.0.1/8",
		"10/8",	      "a/8",	    "10.0.0.0/08",	  "10.0.0.0/-1", "10.0.0.0/8/8",
		"fd00::/129", "fd00::1/64", "::ffff:10.0.0.1/104"};
	struct cidr c;
	uint8_t mapped[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

	CHECK(has("10.0.0.0/8", "10.255.255.255") && !has("10.0.0.0/8", "11.0.0.0"));
	CHECK(has("10.0.0.0/9", "10.127.0.0") && !has("10.0.0.0/9", "10.128.0.0"));
	CHECK(has("0.0.0.0/0", "255.1.2.3") && !has("0.0.0.0/0", "::1"));
	CHECK(has("::/0", "fe80::1") && !has("::/0", "1.2.3.4"));
	CHECK(has("1.2.3.4", "1.2.3.4") && !has("1.2.3.4", "1.2.3.5"));
	CHECK(has("1.2.3.4/31", "1.2.3.5") && !has("1.2.3.4/31", "1.2.3.6"));
	CHECK(has("fd00::/127", "fd00::1") && !has("fd00::/127", "fd00::2"));
	CHECK(has("::ffff:10.0.0.0/104", "10.9.9.9"));
	CHECK_EQ(cidr_parse(&c, "10.0.0.0/8"), 0);
	CHECK(cidr_has(&c, AF_INET6, mapped));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (cidr_parse(&c, bad[i]) == 0)
			FAIL(bad[i]);
}

static const char *refused(const char *address)
{
	uint8_t a[16] = {0};
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;

	CHECK_EQ(inet_pton(family, address, a), 1);
	return addr_refused(family, a);
}

static const char *const not_dialled[] = {"0.0.0.0",
					  "0.1.2.3",
					  "127.0.0.1",
					  "127.255.255.255",
					  "10.0.0.1",
					  "172.16.0.1",
					  "172.31.255.255",
					  "192.168.1.1",
					  "100.64.0.1",
					  "100.127.255.255",
					  "169.254.0.1",
					  "169.254.169.254",
					  "100.100.100.200",
					  "168.63.129.16",
					  "198.18.0.1",
					  "198.19.255.255",
					  "192.0.2.1",
					  "198.51.100.1",
					  "203.0.113.1",
					  "224.0.0.1",
					  "239.1.1.1",
					  "240.0.0.1",
					  "255.255.255.255",
					  "192.0.0.1",
					  "192.88.99.1",
					  "::",
					  "::1",
					  "fe80::1",
					  "febf::1",
					  "fec0::1",
					  "fc00::1",
					  "fd00:ec2::254",
					  "ff02::1",
					  "2001:db8::1",
					  "3fff::1",
					  "2001::1",
					  "2001:2::1",
					  "::ffff:127.0.0.1",
					  "::ffff:10.0.0.1",
					  "::127.0.0.1",
					  "::8.8.8.8",
					  "64:ff9b::7f00:1",
					  "64:ff9b::a9fe:a9fe",
					  "64:ff9b:1::1",
					  "2002:7f00:1::",
					  "2002:c0a8:101::1",
					  "100::1",
					  "4000::1"};

TEST(d3_addresses_that_are_not_dialled)
{
	static const char *const yes[] = {"1.1.1.1",	    "9.255.255.255",	"11.0.0.0",
					  "172.15.255.255", "172.32.0.0",	"100.63.255.255",
					  "100.128.0.0",    "169.253.0.0",	"198.17.0.0",
					  "198.20.0.0",	    "223.255.255.255",	"2606:4700::1111",
					  "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"};

	/* Before the host's own are known nothing passes. */
	CHECK(refused("1.1.1.1"));
	CHECK_EQ(addr_own_load(), 0);
	for (size_t i = 0; i < sizeof(not_dialled) / sizeof(not_dialled[0]); i++)
		if (!refused(not_dialled[i]))
			FAIL(not_dialled[i]);
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (refused(yes[i]))
			FAIL(yes[i]);
	CHECK_STR(refused("127.0.0.1"), "a loopback address");
	CHECK_STR(refused("64:ff9b::a9fe:a9fe"), "a cloud's metadata service");
	CHECK_EQ(addr_own_load(), 0);
}

TAP_MAIN
