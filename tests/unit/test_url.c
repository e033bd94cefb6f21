/* URLs: their parts, and what is none. */
#include "tap.h"

#include "base/url.h"

static void is(const char *text, bool is_tls, const char *host, unsigned port, const char *path)
{
	struct url u;

	CHECK_EQ(url_parse(&u, text), 0);
	CHECK_EQ(u.is_tls, is_tls);
	CHECK_STR(u.host, host);
	CHECK_EQ(u.port, port);
	CHECK_STR(u.path, path);
}

TEST(parts_of_urls)
{
	is("http://a.test", false, "a.test", 80, "");
	is("https://a.test/", true, "a.test", 443, "/");
	is("https://a.test:8443/p?q=1", true, "a.test", 8443, "/p?q=1");
	is("http://a.test?q", false, "a.test", 80, "?q");
	is("http://[::1]:81/x@y:2", false, "::1", 81, "/x@y:2");
	is("http://[::1]", false, "::1", 80, "");
}

TEST(what_is_no_url)
{
	static const char *const bad[] = {"",
					  "a.test",
					  "ftp://a.test",
					  "http://",
					  "http:///x",
					  "http://u@a.test",
					  "http://a.test#x",
					  "http://a.test:0/",
					  "http://:80/",
					  "http://a.test:x/",
					  "http://a b/",
					  "http://a.test:65536",
					  "http://a.test/\"x",
					  "http://a.test\n",
					  "http://\xc3\xa4.test"};
	struct url u;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(url_parse(&u, bad[i]), -EINVAL);
}

TAP_MAIN
