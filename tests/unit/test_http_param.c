/* Parameters of a server's own routes: queries and segments of paths, decoded. */
#include "tap.h"

#include "http/http.h"

static struct buf out, name, value;

static void open_all(size_t max)
{
	buf_init(&out, max);
	buf_init(&name, max);
	buf_init(&value, max);
}

static void close_all(void)
{
	buf_done(&out);
	buf_done(&name);
	buf_done(&value);
}

/* want NULL: there is none. What stood in the buffer before stays in any case. */
static void found(const char *query, const char *key, const char *want)
{
	char all[256];

	open_all(256);
	CHECK_EQ(buf_append_str(&out, "x"), 0);
	CHECK_EQ(http_query_find(query, key, &out), want ? 1 : 0);
	snprintf(all, sizeof(all), "x%s", want ? want : "");
	CHECK_STR(buf_cstr(&out), all);
	close_all();
}

static void refused(const char *query, const char *key)
{
	open_all(256);
	CHECK_EQ(buf_append_str(&out, "x"), 0);
	CHECK_EQ(http_query_find(query, key, &out), -EINVAL);
	CHECK_STR(buf_cstr(&out), "x");
	close_all();
}

TEST(query_values)
{
	found("path=hello.txt", "path", "hello.txt");
	found("a=1&path=%2Ftmp%2fa+b%20c&z", "path", "/tmp/a b c");
	found("username=&path=/a?b=c", "path", "/a?b=c");
	found("path", "path", "");
	found("path=", "path", "");
	found("p%61th=1", "path", "1");
	found("a+b=1", "a b", "1");
	found("a=1;b=2", "a", "1;b=2");
	found("a==", "a", "=");
	found("a=%3D%26%2B", "a", "=&+");
	found("&&a=1&", "a", "1");
	found("state=running,paused", "state", "running,paused");
	found("a=%c3%a9%ff", "a", "\xc3\xa9\xff");
}

TEST(query_without_it)
{
	found(NULL, "a", NULL);
	found("", "a", NULL);
	found("&", "a", NULL);
	found("b=a", "a", NULL);
	found("A=1", "a", NULL);
	found("ab=1&=a", "a", NULL);
	found("aa", "a", NULL);
	found("=1", "", "1");
}

/* A bad spelling is refused wherever it is, and so is a name that is there twice. */
TEST(query_refused)
{
	refused("a=%", "a");
	refused("a=%4", "a");
	refused("a=%4g", "a");
	refused("a=%g4", "a");
	refused("a=%%41", "a");
	refused("a=%00", "a");
	refused("a=1&b=%", "a");
	refused("%=1&a=1", "a");
	refused("b=%00&a=1", "a");
	refused("b%00=1&a=1", "a");
	refused("a=1&a=1", "a");
	refused("a=1&%61=2", "a");
	refused("a&b&a", "a");
	refused("b=%zz", "a");
}

TEST(query_in_a_small_buffer)
{
	open_all(4);
	CHECK_EQ(http_query_find("a=12345", "a", &out), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 0);
	CHECK_EQ(http_query_find("a=1234", "a", &out), 1);
	CHECK_EQ(http_query_find("a=1", "a", &out), -ENOBUFS);
	CHECK_EQ(http_query_find("a=", "a", &out), 1);
	CHECK_STR("1234", (buf_data(&out)[4 - 1] == '4') ? "1234" : "");
	CHECK_EQ(buf_len(&out), 4);
	close_all();
}

/* E2B sends a query in a parameter of the query: it is read with the same call. */
TEST(query_one_by_one)
{
	const char *query = "a=1&&b&c=x%3Dy%26z%3D%2525&=v", *inner;

	open_all(256);
	CHECK_EQ(http_query_next(&query, &name, &value), 1);
	CHECK_STR(buf_cstr(&name), "a");
	CHECK_STR(buf_cstr(&value), "1");
	CHECK_EQ(http_query_next(&query, &name, &value), 1);
	CHECK_STR(buf_cstr(&name), "b");
	CHECK_STR(buf_cstr(&value), "");
	CHECK_EQ(http_query_next(&query, &name, &value), 1);
	CHECK_STR(buf_cstr(&name), "c");
	CHECK_EQ(buf_append(&out, buf_data(&value), buf_len(&value)), 0);
	CHECK_EQ(http_query_next(&query, &name, &value), 1);
	CHECK_STR(buf_cstr(&name), "");
	CHECK_STR(buf_cstr(&value), "v");
	CHECK_EQ(http_query_next(&query, &name, &value), 0);
	CHECK_EQ(http_query_next(&query, &name, &value), 0);
	inner = buf_cstr(&out);
	CHECK_EQ(http_query_next(&inner, &name, &value), 1);
	CHECK_STR(buf_cstr(&name), "x");
	CHECK_STR(buf_cstr(&value), "y");
	CHECK_EQ(http_query_next(&inner, &name, &value), 1);
	CHECK_STR(buf_cstr(&name), "z");
	CHECK_STR(buf_cstr(&value), "%");
	CHECK_EQ(http_query_next(&inner, &name, &value), 0);
	inner = "a=1&b=%&c=2";
	CHECK_EQ(http_query_next(&inner, &name, &value), 1);
	CHECK_EQ(http_query_next(&inner, &name, &value), -EINVAL);
	close_all();
}

static void segment(const char *p, const char *want)
{
	open_all(256);
	CHECK_EQ(http_segment_decode(p, strlen(p), &out), 0);
	CHECK_STR(buf_cstr(&out), want);
	close_all();
}

static void segment_refused(const char *p, size_t n)
{
	open_all(256);
	CHECK_EQ(buf_append_str(&out, "x"), 0);
	CHECK_EQ(http_segment_decode(p, n, &out), -EINVAL);
	CHECK_EQ(buf_len(&out), 1);
	close_all();
}

TEST(segments)
{
	segment("", "");
	segment("my-box", "my-box");
	segment("a%2Fb%2f", "a/b/");
	segment("a+b%2Bc%20d", "a+b+c d");
	segment("...", "...");
	segment(".a", ".a");
	segment("%2E%2e.", "...");
	segment("..%2F..", "../..");
	segment("%25%32%35", "%25");
	segment("%E2%82%ac", "\xe2\x82\xac");
}

TEST(segments_refused)
{
	segment_refused(".", 1);
	segment_refused("..", 2);
	segment_refused("%2e", 3);
	segment_refused("%2E.", 4);
	segment_refused(".%2e", 4);
	segment_refused("%2e%2E", 6);
	segment_refused("a\0b", 3);
	segment_refused("\0", 1);
	segment_refused("a%00", 4);
	segment_refused("a%", 2);
	segment_refused("a%2", 3);
	segment_refused("%2x", 3);
	segment_refused("%-1", 3);
	segment_refused("% 1", 3);
}

/* What is behind the segment is not looked at. */
TEST(segments_end_where_they_end)
{
	open_all(3);
	CHECK_EQ(http_segment_decode("%2Ftmp", 2, &out), -EINVAL);
	CHECK_EQ(http_segment_decode("../x", 3, &out), 0);
	CHECK_EQ(http_segment_decode("", 0, &out), 0);
	CHECK_EQ(http_segment_decode("x", 1, &out), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 3);
	close_all();
}

TAP_MAIN
