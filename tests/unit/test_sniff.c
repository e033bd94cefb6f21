/* Whether first bytes are an HTTP request: however they are cut, and whatever a server forgives. */
#include "door/sniff.h"
#include "tap.h"

#include <string.h>

static enum sniff_found found(const char *text, size_t piece)
{
	enum sniff_found f = SNIFF_OPEN;
	struct sniff s = {0};
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i += piece)
		f = sniff_feed(&s, (const uint8_t *)text + i, n - i < piece ? n - i : piece);
	return f;
}

static const struct {
	const char *text;
	enum sniff_found found;
} cases[] = {
	{"", SNIFF_OPEN},
	{"ping", SNIFF_OPEN},
	{"\r\n\r\n GE", SNIFF_OPEN},
	{"GET /", SNIFF_LIKELY},
	{"GET / HTTP", SNIFF_LIKELY},
	{"GET / HTTP/", SNIFF_HTTP},
	{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", SNIFF_HTTP},
	{"get\t/\thttp/1.0\n", SNIFF_HTTP},
	{"\n\r\n \tX-Y!~ * HtTp/9", SNIFF_HTTP},
	{"GET\v/\fHTTP/1.1\r\n", SNIFF_HTTP},
	{"GET /hthttp/ \n", SNIFF_HTTP},
	{"GET /HTTHTTP/1.1", SNIFF_HTTP},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SNIFF_HTTP},
	{"GET / \x01\x02HTTP/1.1", SNIFF_HTTP},
	{"GET / \x01\x02", SNIFF_OPEN},
	{"GET /\r\nHost: a\r\n\r\n", SNIFF_HTTP},
	{"GET /x\n", SNIFF_HTTP},
	{"GET http://evil.test/?x\r\n", SNIFF_HTTP},
	{"get hTTp+2-x.y://a\n", SNIFF_HTTP},
	{"\r\n\n \tget \t /\r\n", SNIFF_HTTP},
	{"OPTIONS *\r\n", SNIFF_HTTP},
	{"GET\v/\n", SNIFF_HTTP},
	{"GET / \x01\n", SNIFF_HTTP},
	{"GET /x", SNIFF_LIKELY},
	{"GET http://evil.test", SNIFF_LIKELY},
	{"GET http:/a\n", SNIFF_OTHER},
	{"GET http:a//\n", SNIFF_OTHER},
	{"GET a b://c\n", SNIFF_OTHER},
	{"GET ://c\n", SNIFF_OTHER},
	{"GET key\r\n", SNIFF_OTHER},
	{"/x\r\n", SNIFF_OTHER},
	{"GET\n/x\n", SNIFF_OTHER},
	{"EHLO there\r\nGET / HTTP/1.1\r\n", SNIFF_OTHER},
	{"SSH-2.0-x\r\n", SNIFF_OTHER},
	{"*1\r\n$4\r\nPING\r\n", SNIFF_OTHER},
	{"\x16\x03\x01", SNIFF_OTHER},
	{"(x) HTTP/1.1", SNIFF_OTHER},
	{"GET / HTTP\x0f", SNIFF_OPEN},
};

TEST(what_is_http)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t piece = 1; piece < 9; piece++) {
			if (found(cases[i].text, piece) != cases[i].found)
				printf("# %s\n", cases[i].text);
			CHECK_EQ(found(cases[i].text, piece), cases[i].found);
		}
}

TEST(a_zero_byte_is_no_method)
{
	struct sniff s = {0};

	CHECK_EQ(sniff_feed(&s, (const uint8_t *)"A\0 HTTP/1.1", 11), SNIFF_OTHER);
}

TAP_MAIN
