/* Paths in their normal form, with near misses of rules (attack F6); and parameters of a query. */
#include "tap.h"

#include "http/http.h"

static void check(const char *path, const char *want)
{
	struct buf out, again;

	buf_init(&out, 4096);
	buf_init(&again, 4096);
	if (http_path_normalise(path, strlen(path), &out) != 0)
		printf("# %s\n", path);
	buf_clear(&out);
	CHECK_EQ(http_path_normalise(path, strlen(path), &out), 0);
	CHECK_STR(buf_cstr(&out), want);
	CHECK_EQ(http_path_normalise(want, strlen(want), &again), 0);
	CHECK_STR(buf_cstr(&again), want);
	buf_done(&out);
	buf_done(&again);
}

static void refused_bytes(const char *path, size_t n)
{
	struct buf out;

	buf_init(&out, 4096);
	CHECK_EQ(buf_append(&out, "x", 1), 0);
	if (http_path_normalise(path, n, &out) != -EINVAL)
		printf("# accepted: %s\n", path);
	buf_clear(&out);
	CHECK_EQ(buf_append(&out, "x", 1), 0);
	CHECK_EQ(http_path_normalise(path, n, &out), -EINVAL);
	CHECK_EQ(buf_len(&out), 1);
	buf_done(&out);
}

static void refused(const char *path)
{
	refused_bytes(path, strlen(path));
}

TEST(plain)
{
	check("/", "/");
	check("/v1/models", "/v1/models");
	check("/v1/models/", "/v1/models/");
	check("/a-b_c.d~e!$&'()*+,=:@", "/a-b_c.d~e!$&'()*+,=:@");
	check("/main...branch", "/main...branch");
	check("/.git/config", "/.git/config");
	check("/..a/.b/c..d", "/..a/.b/c..d");
	refused("");
	refused("*");
	refused("a");
	refused("http://a/");
}

TEST(F6_dot_segments)
{
	check("/v1/../admin", "/admin");
	check("/v1/./x", "/v1/x");
	check("/v1/x/..", "/v1/");
	check("/v1/x/../", "/v1/");
	check("/v1/.", "/v1/");
	check("/a/b/../../c", "/c");
	refused("/..");
	refused("/../admin");
	refused("/v1/../../admin");
	refused("/./..");
}

TEST(F6_escaped_dots)
{
	check("/v1/%2e%2e/admin", "/admin");
	check("/v1/%2E./admin", "/admin");
	check("/v1/.%2e/admin", "/admin");
	check("/v1/%2e/x", "/v1/x");
	refused("/%2e%2e/admin");
	refused("/v1/%252e%252e/admin");
	refused("/v1/%25%32%65%25%32%65/admin");
	refused("/v1/%25252e/admin");
	refused("/v1/%u002e%u002e/admin");
}

TEST(F6_doubled_slashes)
{
	check("//admin", "/admin");
	check("/v1//x///y", "/v1/x/y");
	check("/v1//", "/v1/");
	check("///", "/");
	refused("/a//../b");
	refused("/a//b/../../c");
	refused("//../a");
	check("/a/..//b", "/b");
}

TEST(F6_semicolons)
{
	refused("/v1/..;/admin");
	refused("/v1/..;x=y/admin");
	refused("/v1/.;/admin");
	refused("/;/admin");
	refused("/admin;x/secret");
	refused("/v1/x;jsessionid=1");
	refused("/v1/%3b/x");
	refused("/v1/..%3B/admin");
	refused("/v1/..%253b/admin");
}

TEST(F6_case_stays)
{
	check("/V1/Admin", "/V1/Admin");
	check("/%41dmin/%61", "/Admin/a");
	check("/%c3%a9", "/%C3%A9");
}

TEST(F6_escaped_slashes)
{
	refused("/v1/..%2fadmin");
	refused("/v1%2f..%2fadmin");
	refused("/v1%2Fx");
	refused("/v1/%252fadmin");
	refused("/v1/..%5cadmin");
	refused("/v1/..%5Cadmin");
	refused("/v1/..%255cadmin");
	refused("/v1/..\\admin");
	refused("/v1\\..\\admin");
}

TEST(F6_nul_and_control_bytes)
{
	refused("/v1/%00");
	refused("/v1/x%00.png");
	refused("/v1/%0d%0aX");
	refused("/v1/%09");
	refused("/v1/%7f");
	refused("/v1/%2500");
	refused("/v1/a b");
	refused("/v1/a\tb");
	refused("/v1/\xc3\xa9");
	refused("/v1/\x7f");
	refused_bytes("/v1/\0x", 6);
}

TEST(F6_overlong_and_folding_runes)
{
	refused("/v1/%c0%ae%c0%ae/admin");
	refused("/v1/..%c0%afadmin");
	refused("/v1/..%e0%80%afadmin");
	refused("/v1/..%f0%80%80%afadmin");
	refused("/v1/..%c1%9cadmin");
	refused("/v1/%c3");
	refused("/v1/%c3x");
	refused("/v1/%a9");
	refused("/v1/%ff");
	refused("/v1/%ed%a0%80");
	refused("/v1/%ef%bc%8e%ef%bc%8e/admin");
	refused("/v1/..%ef%bc%8fadmin");
	refused("/v1/%e2%80%ae");
	refused("/v1/%c2%85");
	check("/%e4%bd%a0%F0%9F%98%80x", "/%E4%BD%A0%F0%9F%98%80x");
}

TEST(F6_trailing_dots_and_spaces)
{
	refused("/v1/admin.");
	refused("/v1/admin./x");
	refused("/v1/...");
	refused("/v1/.../x");
	refused("/v1/admin%2e");
	refused("/v1/admin%20");
	refused("/v1/admin%20/x");
	refused("/v1/..%20/admin");
	refused("/v1/%20");
	check("/v1/a%20b", "/v1/a%20b");
}

TEST(F6_bad_escapes)
{
	refused("/v1/%");
	refused("/v1/%2");
	refused("/v1/%zz");
	refused("/v1/%2/x");
	refused("/v1/%-1");
	refused("/v1/%%32e");
	refused("/v1/% 2e");
}

TEST(F6_query_and_fragment_are_no_path)
{
	refused("/v1?x");
	refused("/v1#x");
	check("/v1/%3fx", "/v1/%3Fx");
	check("/v1/%23x", "/v1/%23x");
}

TEST(F6_two_spellings_one_form)
{
	check("/%40scope/name", "/@scope/name");
	check("/%7euser", "/~user");
	check("/a%2bb%2Cc%3a", "/a+b,c:");
	check("/{x}|^`\"<>[]", "/%7Bx%7D%7C%5E%60%22%3C%3E%5B%5D");
	check("/%7bx%7D", "/%7Bx%7D");
	check("/100%25", "/100%25");
	check("/100%25x", "/100%25x");
}

/* Is a path sent as it was written, or in its normal form? */
static bool spells(const char *path)
{
	struct buf b;
	bool is;

	buf_init(&b, 4096);
	CHECK_EQ(http_path_normalise(path, strlen(path), &b), 0);
	is = http_path_spells(path, strlen(path), buf_cstr(&b));
	buf_done(&b);
	return is;
}

TEST(F6_escapes_that_change_nothing)
{
	CHECK(spells("/"));
	CHECK(spells("/a/b:c@d!e"));
	CHECK(spells("/b/%21burnt%21sushi%3Atoml%40v1%2B%2C%3D%28%29.zip"));
	CHECK(spells("/b/%21%C3%A9%20x"));
	CHECK(!spells("/b/%61"));
	CHECK(!spells("/b/%21/%2e%2e/c"));
	CHECK(!spells("/b/%21/../c"));
	CHECK(!spells("/b//%21"));
	CHECK(!spells("/b/%21%7e"));
	CHECK(!spells("/b/%c3%a9"));
	CHECK(!http_path_spells("/b/%21", 6, "/b/!x"));
	CHECK(!http_path_spells("/b/%21x", 7, "/b/!"));
	CHECK(!http_path_spells("/b/%2", 5, "/b/!"));
	CHECK(!http_path_spells("/b/%00", 6, "/b/"));
}

TEST(no_room)
{
	struct buf out;

	for (size_t max = 0; max < 9; max++) {
		buf_init(&out, max);
		CHECK_EQ(http_path_normalise("/a/{b}/c", 8, &out), -ENOBUFS);
		CHECK_EQ(buf_len(&out), 0);
		buf_done(&out);
	}
}

static void check_query(const char *query, const char *name, int count, const char *want)
{
	struct buf out;

	buf_init(&out, 4096);
	CHECK_EQ(http_query_remove(query, name, &out), count);
	CHECK_STR(buf_cstr(&out), want);
	buf_done(&out);
}

TEST(query_remove)
{
	check_query(NULL, "key", 0, "");
	check_query("", "key", 0, "");
	check_query("key=1", "key", 1, "");
	check_query("key", "key", 1, "");
	check_query("key=1&a=2", "key", 1, "a=2");
	check_query("a=2&key=1", "key", 1, "a=2");
	check_query("a=2&key=1&b=3&key=", "key", 2, "a=2&b=3");
	check_query("a=2;key=1;b=3", "key", 1, "a=2;b=3");
	check_query("%6bey=1&k%65%79=2&KEY=3&a=key", "key", 3, "a=key");
	check_query("keys=1&ke=2&=key&&x", "key", 0, "keys=1&ke=2&=key&&x");
	check_query("a+b=1&a%20b=2&a%2Bb=3", "a b", 2, "a%2Bb=3");
	check_query("key%00=1&key%=2&%key=3", "key", 0, "key%00=1&key%=2&%key=3");
	check_query("%25=1&x=%", "%", 1, "x=%");
	check_query("&key=1", "key", 1, "");
	check_query(";v&key", "key", 1, ";v");
	check_query("&&;", "key", 0, "&&;");
}

TEST(query_add)
{
	struct buf out;

	buf_init(&out, 64);
	CHECK_EQ(http_query_add(&out, "key", "a&b=c d%\xc3\xa9"), 0);
	CHECK_STR(buf_cstr(&out), "key=a%26b%3Dc%20d%25%C3%A9");
	CHECK_EQ(http_query_add(&out, "x", "y"), 0);
	CHECK_STR(buf_cstr(&out), "key=a%26b%3Dc%20d%25%C3%A9&x=y");
	buf_done(&out);
}

TAP_MAIN
