/* Where requests go: the forms of a target, and host spellings (attack D6). */
#include "tap.h"

#include "base/err.h"
#include "http/http.h"
#include "http_script.h"

enum { SPELLINGS = 10000 };

static struct http_head h;

/* host may be NULL: none. What cannot even be in a head is refused as well: -EBADMSG. */
static int parse(const char *method, const char *target, const char *host, struct http_target *t)
{
	struct err e = {0};
	char in[2048];
	size_t used;
	int n = snprintf(in, sizeof(in), "%s %s HTTP/1.%d\r\n%s%s\r\n\r\n", method, target,
			 host ? 1 : 0, host ? "Host: " : "X: y", host ? host : "");
	int r = http_request_parse(&h, in, (size_t)n, HTTP_TEST_LIMITS, &used, &e);

	if (r != 1)
		return -EBADMSG;
	r = http_target_parse(&h, t, &e);
	CHECK(r == 0 || (r == -EINVAL && e.code == 400));
	if (r < 0)
		http_head_done(&h);
	return r;
}

static void check(const char *method, const char *target, const char *host, const char *want)
{
	struct http_target t;
	char got[2048];

	CHECK_EQ(parse(method, target, host, &t), 0);
	snprintf(got, sizeof(got), "%s|%s|%u|%.*s|%s", t.scheme, t.host, t.port, (int)t.path_len,
		 t.path, t.query ? t.query : "-");
	CHECK_STR(got, want);
	http_head_done(&h);
}

static void refused(const char *method, const char *target, const char *host)
{
	struct http_target t;
	int r = parse(method, target, host, &t);

	if (r >= 0)
		printf("# accepted: %s %s Host: %s\n", method, target, host ? host : "none");
	CHECK(r < 0);
}

TEST(origin)
{
	check("GET", "/", "a.example", "|a.example|0|/|-");
	check("GET", "/x/y?z=1?2", "A.Example:8080", "|a.example|8080|/x/y|z=1?2");
	check("GET", "//evil.example/x", "a", "|a|0|//evil.example/x|-");
	check("GET", "/?", "a", "|a|0|/|");
	check("GET", "/http://evil/", "a", "|a|0|/http://evil/|-");
	check("GET", "/", "[::1]:80", "|::1|80|/|-");
	check("GET", "/", "[0:0:0:0:0:0:0:1]", "|::1|0|/|-");
	check("GET", "/", "127.0.0.1:1", "|127.0.0.1|1|/|-");
	check("CONNECTX", "/", "a", "|a|0|/|-");
}

TEST(absolute)
{
	check("GET", "http://a.example/x?y", "a.example", "http|a.example|0|/x|y");
	check("GET", "HTTP://A.example:80/", "a.EXAMPLE", "http|a.example|80|/|-");
	check("GET", "https://a.example", "a.example:443", "https|a.example|0|/|-");
	check("GET", "http://a?q", "a", "http|a|0|/|q");
	check("OPTIONS", "http://a", "a", "http|a|0|*|-");
	check("OPTIONS", "http://a/", "a", "http|a|0|/|-");
	check("GET", "http://[::1]:81/", "[::1]:81", "http|::1|81|/|-");
}

TEST(E1_absolute_form_and_host_differ)
{
	refused("GET", "http://a.example/", "b.example");
	refused("GET", "http://a.example/", "a.example.evil");
	refused("GET", "http://a.example:81/", "a.example");
	refused("GET", "http://a.example/", "a.example:81");
	refused("GET", "https://a.example/", "a.example:80");
	refused("GET", "http://a.example/", NULL);
}

TEST(connect)
{
	check("CONNECT", "a.example:443", "a.example:443", "|a.example|443||-");
	check("CONNECT", "a.example:443", "A.example", "|a.example|443||-");
	check("CONNECT", "a.example:443", NULL, "|a.example|443||-");
	check("CONNECT", "[2001:DB8::1]:443", "[2001:db8::1]:443", "|2001:db8::1|443||-");
	refused("CONNECT", "a.example", "a.example");
	refused("CONNECT", "/", "a.example");
	refused("CONNECT", "*", "a.example");
	refused("CONNECT", "http://a.example:443", "a.example");
	refused("CONNECT", "a.example:443/x", "a.example");
	refused("CONNECT", "a.example:443?x", "a.example");
	refused("CONNECT", "a.example:443#x", "a.example");
	refused("CONNECT", "a.example:443", "b.example:443");
	refused("CONNECT", "a.example:443", "a.example:444");
	refused("CONNECT", "u@a.example:443", "a.example:443");
}

TEST(other_forms)
{
	check("OPTIONS", "*", "a", "|a|0|*|-");
	refused("GET", "*", "a");
	refused("options", "*", "a");
	refused("OPTIONS", "**", "a");
	refused("OPTIONS", "*?x", "a");
	refused("GET", "a.example", "a.example");
	refused("GET", "x/y", "a");
	refused("GET", "?x", "a");
	refused("GET", "ftp://a/", "a");
	refused("GET", "file:///etc/passwd", "a");
	refused("GET", "http:/a/", "a");
	refused("GET", "http:a", "a");
	refused("GET", "http:///", "a");
	refused("GET", "http://", "a");
	refused("GET", "xhttp://a/", "a");
	refused("GET", "h2c://a/", "a");
	refused("GET", "javascript:x://a", "a");
}

TEST(D6_user_information_and_fragments)
{
	refused("GET", "http://allowed@evil/", "evil");
	refused("GET", "http://allowed:x@evil/", "evil");
	refused("GET", "http://allowed:80@evil:80/", "allowed");
	refused("GET", "http://evil#allowed/", "evil");
	refused("GET", "http://evil/#allowed", "evil");
	refused("GET", "/x#y", "a");
	refused("GET", "http://evil\\allowed/", "evil");
	refused("GET", "http://evil%23allowed/", "evil");
	refused("GET", "/", "allowed@evil");
	refused("GET", "/", "evil#allowed");
	refused("GET", "/", "evil/allowed");
	refused("GET", "/", "evil?allowed");
}

TEST(D6_bytes_that_names_do_not_have)
{
	static const char *const hosts[] = {
		"",
		"a b",
		"a\tb",
		"a\\b",
		"a%00b",
		"a%2eb",
		"a%",
		"a,b",
		"a;b",
		"a\x01",
		"a\x7f",
		"a'b",
		"a\"b",
		"a|b",
		"a*b",
		"*",
		"a\xef\xbc\x8e"
		"b", /* a fullwidth dot */
		"a\xe3\x80\x82"
		"b", /* an ideographic one */
		"b\xc3\xbc"
		"cher",
		"\xff",
		"a\rb",
		"a\nb",
		"a\r\nHost: b",
		"a!b",
		"(a)",
		"<a>",
	};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		refused("GET", "/", hosts[i]);
	check("GET", "/", "a_b._x.example", "|a_b._x.example|0|/|-");
	check("GET", "/", "xn--bcher-kva.example", "|xn--bcher-kva.example|0|/|-");
}

TEST(D6_nul_in_a_host)
{
	static const char in[] = "GET / HTTP/1.1\r\nHost: a\0.evil\r\n\r\n";
	size_t used;

	CHECK_EQ(http_request_parse(&h, in, sizeof(in) - 1, HTTP_TEST_LIMITS, &used, NULL),
		 -EBADMSG);
}

TEST(D6_dots_and_case)
{
	check("GET", "/", "Allowed.EXAMPLE.", "|allowed.example|0|/|-");
	check("GET", "/", "allowed.example.:80", "|allowed.example|80|/|-");
	check("GET", "http://allowed.example./", "allowed.example", "http|allowed.example|0|/|-");
	refused("GET", "/", "allowed.example..");
	refused("GET", "/", ".allowed.example");
	refused("GET", "/", "allowed..example");
	refused("GET", "/", ".");
	refused("GET", "/", "..");
	check("GET", "/", "allowed.evil.com", "|allowed.evil.com|0|/|-");
	check("GET", "/", "notallowed.com", "|notallowed.com|0|/|-");
}

TEST(D6_lengths)
{
	char host[300];

	memset(host, 'a', sizeof(host));
	for (size_t i = 50; i < sizeof(host); i += 51)
		host[i] = '.';
	host[253] = '\0';
	check("GET", "/x", "a", "|a|0|/x|-");
	{
		struct http_target t;

		CHECK_EQ(parse("GET", "/", host, &t), 0);
		CHECK_STR(t.host, host);
		http_head_done(&h);
	}
	host[253] = 'a';
	host[254] = '\0';
	refused("GET", "/", host);
	memset(host, 'a', 64);
	host[63] = '\0';
	{
		struct http_target t;

		CHECK_EQ(parse("GET", "/", host, &t), 0);
		http_head_done(&h);
	}
	host[63] = 'a';
	host[64] = '\0';
	refused("GET", "/", host);
}

TEST(D6_ports)
{
	static const char *const ports[] = {
		":",	   ":0",	  ":00",  ":080",  ":65536", ":99999",
		":100000", ":4294967376", ":+80", ":-80",  ":8 0",   ":80:",
		":80:80",  ":0x50",	  ":80a", ":http", ":80@b",  ":%38",
	};
	char host[64];

	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		snprintf(host, sizeof(host), "a%s", ports[i]);
		refused("GET", "/", host);
		refused("CONNECT", host, NULL);
		snprintf(host, sizeof(host), "[::1]%s", ports[i]);
		refused("GET", "/", host);
	}
	check("GET", "/", "a:65535", "|a|65535|/|-");
	check("GET", "/", "a:1", "|a|1|/|-");
}

TEST(D6_odd_addresses)
{
	static const char *const hosts[] = {
		"127.1",       "2130706433",  "0x7f.1",	   "0x7f000001",  "127.0.0.01",
		"0177.0.0.1",  "127.0.0.256", "1.2.3.4.5", "a.1",	  "a.0x1",
		"a.0x",	       "[::1",	      "::1",	   "[]",	  "[1.2.3.4]",
		"[::1%25lo]",  "[::1%lo]",    "[::1]x",	   "[::g]",	  "[[::1]]",
		"1",	       "[::1]:",      "[:::1]",	   "0X7F.0.0.1.", "1.2.3",
		"127.0.0.0x1",
	};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		refused("GET", "/", hosts[i]);
	check("GET", "/", "[::FFFF:127.0.0.1]", "|::ffff:127.0.0.1|0|/|-");
	check("GET", "/", "1.example", "|1.example|0|/|-");
	check("GET", "/", "0x7f.0xg", "|0x7f.0xg|0|/|-");
}

/* Whatever is accepted is accepted again as what came out of it, and means the same. */
TEST(D6_ten_thousand_spellings)
{
	static const char *const parts[] = {
		"allowed",
		"ALLOWED",
		"evil",
		".",
		"..",
		"-",
		"_",
		"com",
		"xn--a",
		"%2e",
		"@",
		":",
		"443",
		"0",
		"[",
		"]",
		"::1",
		"127.0.0.1",
		"0x7f",
		"\\",
		"/",
		"#",
		"?",
		" ",
		"\t",
		"\xef\xbc\x8e",
		"\x01",
		"1",
		":80",
		"a",
		"\xc2\xad",
		",",
		"::ffff:1.2.3.4",
	};
	uint64_t state = 88172645463325252u;
	unsigned accepted = 0;

	for (int i = 0; i < SPELLINGS; i++) {
		size_t count = 1 + http_script_random(&state) % 5;
		char host[256] = "", again[320];
		struct http_target t, second;

		for (size_t k = 0; k < count; k++) {
			size_t at = strlen(host);
			size_t which =
				http_script_random(&state) % (sizeof(parts) / sizeof(parts[0]));

			snprintf(host + at, sizeof(host) - at, "%s", parts[which]);
		}
		if (parse("GET", "/", host, &t) < 0)
			continue;
		http_head_done(&h);
		accepted++;
		CHECK(!strpbrk(t.host, " \t\\/@#?%[],\x01") && t.port <= 65535);
		CHECK(t.host[0] && t.host[0] != '.' && t.host[strlen(t.host) - 1] != '.');
		snprintf(again, sizeof(again), strchr(t.host, ':') ? "[%s]" : "%s", t.host);
		CHECK_EQ(parse("GET", "/", again, &second), 0);
		http_head_done(&h);
		CHECK_STR(second.host, t.host);
	}
	printf("# %u of %d spellings accepted\n", accepted, SPELLINGS);
	CHECK(accepted > SPELLINGS / 50);
}

TAP_MAIN
