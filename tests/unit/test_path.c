/* Paths as text. */
#include "tap.h"

#include "base/limits.h"
#include "base/path.h"

static const char *joined(const char *a, const char *b)
{
	static char d[32];

	return path_join(d, sizeof(d), a, b) ? d : NULL;
}

TEST(join)
{
	CHECK_STR(joined("a", "b"), "a/b");
	CHECK_STR(joined("/", "b"), "/b");
	CHECK_STR(joined("/a/", "/b"), "/a/b");
	CHECK_STR(joined("/a//", "b/"), "/a/b/");
	CHECK_STR(joined("/a", ""), "/a/");
	CHECK(joined("0123456789abcdef", "0123456789abcdef") == NULL);
	CHECK_STR(joined("0123456789abcdef", "0123456789abcd"), "0123456789abcdef/0123456789abcd");
}

TEST(join_in_place)
{
	char d[16] = "/a";

	CHECK(path_join(d, sizeof(d), d, "b"));
	CHECK_STR(d, "/a/b");
}

TEST(safe_relative)
{
	static const char *const good[] = {"a", "a/b", "...", "a/..b", ".a", "a b/\n"};
	static const char *const bad[] = {"",	"/",   "/a",   "a/",   "a//b", ".",
					  "..", "a/.", "a/..", "../a", "./a",  "a/../b"};
	char longer[BOX_PATH_MAX + 1];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(path_is_safe_relative(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!path_is_safe_relative(bad[i]));
	memset(longer, 'a', sizeof(longer));
	longer[BOX_PATH_MAX] = '\0';
	CHECK(!path_is_safe_relative(longer));
	longer[BOX_PATH_MAX - 1] = '\0';
	CHECK(path_is_safe_relative(longer));
	CHECK(!path_is_absolute(longer));
	longer[0] = '/';
	CHECK(path_is_absolute(longer));
	CHECK(!path_is_absolute("a"));
	CHECK(!path_is_absolute(""));
}

TEST(base)
{
	CHECK_STR(path_base("/a/b"), "b");
	CHECK_STR(path_base("b"), "b");
	CHECK_STR(path_base("/"), "/");
	CHECK_STR(path_base("/a/"), "");
}

static const char *normal(const char *p)
{
	static char d[24];

	return path_normalize(d, sizeof(d), p) ? d : NULL;
}

TEST(normalize)
{
	CHECK_STR(normal("/"), "/");
	CHECK_STR(normal("//a///b/"), "/a/b");
	CHECK_STR(normal("/a/./b/."), "/a/b");
	CHECK_STR(normal("/a/../b"), "/b");
	CHECK_STR(normal("/.."), "/");
	CHECK_STR(normal("/../../a/b/../.."), "/");
	CHECK_STR(normal("/..."), "/...");
	CHECK(normal("a") == NULL);
	CHECK(normal("") == NULL);
	CHECK(normal("/0123456789/0123456789abc") == NULL);
	CHECK_STR(normal("/0123456789/0123456789a"), "/0123456789/0123456789a");
}

TAP_MAIN
