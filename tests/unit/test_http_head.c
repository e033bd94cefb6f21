/* Heads: limits, finding, editing, stripping, writing; and bodies written again. */
#include "tap.h"

#include "base/err.h"
#include "base/limits.h"
#include "http/http.h"
#include "http_script.h"

static struct http_head h;
static struct buf out;

static void parse(const char *in)
{
	size_t used;

	CHECK_EQ(http_request_parse(&h, in, strlen(in), HTTP_TEST_LIMITS, &used, NULL), 1);
	CHECK_EQ(used, strlen(in));
}

static void check_written(const char *want)
{
	buf_init(&out, 1 << 20);
	CHECK_EQ(http_head_write(&h, &out), 0);
	CHECK_STR(buf_cstr(&out), want);
	buf_done(&out);
	http_head_done(&h);
}

/* A head of exactly n bytes whose last field is filled up, or whose target is. */
static char *head_of(size_t n, bool in_target)
{
	const char *before = in_target ? "GET /" : "GET / HTTP/1.1\r\nHost: a\r\nX: ";
	const char *after = in_target ? " HTTP/1.1\r\nHost: a\r\n\r\n" : "\r\n\r\n";
	char *p = malloc(n + 1);

	memset(p, 'x', n);
	memcpy(p, before, strlen(before));
	memcpy(p + n - strlen(after), after, strlen(after) + 1);
	return p;
}

static int verdict(const char *p, size_t n)
{
	struct err e = {0};
	size_t used;
	int r = http_request_parse(&h, p, n, HTTP_TEST_LIMITS, &used, &e);

	if (r > 0)
		http_head_done(&h);
	return r < 0 ? e.code : r;
}

TEST(size_limit)
{
	for (int in_target = 0; in_target < 2; in_target++) {
		char *fits = head_of(DOOR_HEAD_MAX, in_target);
		char *over = head_of(DOOR_HEAD_MAX + 1, in_target);

		CHECK_EQ(verdict(fits, DOOR_HEAD_MAX), 1);
		CHECK_EQ(verdict(fits, DOOR_HEAD_MAX - 1), 0);
		CHECK_EQ(verdict(over, DOOR_HEAD_MAX - 1), 0);
		CHECK_EQ(verdict(over, DOOR_HEAD_MAX), 431);
		CHECK_EQ(verdict(over, DOOR_HEAD_MAX + 1), 431);
		free(fits);
		free(over);
	}
}

/* Whoever reads says how much: at the limit it is taken, one byte or field less refuses it. */
TEST(limits_are_the_callers)
{
	static const char in[] =
		"\r\nPOST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const char body[] = "0\r\nA: b\r\nC: d\r\n\r\n";
	struct http_limits fits = {.head_max = sizeof(in) - 1, .fields_max = 2}, less = fits;
	struct http_body b;
	struct err e = {0};
	const uint8_t *data;
	size_t used, len;

	CHECK_EQ(http_request_parse(&h, in, sizeof(in) - 1, &fits, &used, &e), 1);
	CHECK_EQ(used, sizeof(in) - 1);
	less.fields_max = 1;
	for (int short_trailers = 0; short_trailers < 2; short_trailers++) {
		int want = short_trailers ? -EBADMSG : 1;

		CHECK_EQ(http_body_init_request(&b, &h, short_trailers ? &less : &fits, &e), 0);
		CHECK_EQ(http_body_feed(&b, body, sizeof(body) - 1, &used, &data, &len, &e), want);
		CHECK(want == 1 || e.code == 431);
		http_body_done(&b);
	}
	http_head_done(&h);
	CHECK_EQ(http_request_parse(&h, in, sizeof(in) - 1, &less, &used, &e), -EBADMSG);
	CHECK_EQ(e.code, 431);
	less = (struct http_limits){.head_max = fits.head_max - 1, .fields_max = 2};
	CHECK_EQ(http_request_parse(&h, in, less.head_max - 1, &less, &used, &e), 0);
	CHECK_EQ(http_request_parse(&h, in, less.head_max, &less, &used, &e), -EBADMSG);
	CHECK_EQ(e.code, 431);
	less = (struct http_limits){.head_max = HTTP_HEAD_LEAST, .fields_max = 0};
	CHECK_EQ(http_request_parse(&h, in, HTTP_HEAD_LEAST, &less, &used, &e), -EBADMSG);
	CHECK_EQ(e.code, 414);
	CHECK_EQ(http_request_parse(&h, "\r\n", 2, &less, &used, &e), 0);
}

TEST(endless_target)
{
	char *p = malloc(2 * DOOR_HEAD_MAX);

	memset(p, '/', 2 * DOOR_HEAD_MAX);
	memcpy(p, "GET ", 4);
	CHECK_EQ(verdict(p, DOOR_HEAD_MAX - 1), 0);
	CHECK_EQ(verdict(p, DOOR_HEAD_MAX), 414);
	CHECK_EQ(verdict(p, 2 * DOOR_HEAD_MAX), 414);
	free(p);
}

TEST(field_limit)
{
	struct buf in;

	buf_init(&in, 1 << 20);
	CHECK_EQ(buf_append_str(&in, "GET / HTTP/1.1\r\nHost: a\r\n"), 0);
	for (unsigned i = 1; i < DOOR_HEADERS_MAX; i++)
		CHECK_EQ(buf_append_str(&in, "a:b\r\n"), 0);
	CHECK_EQ(verdict((const char *)buf_data(&in), buf_len(&in)), 0);
	CHECK_EQ(buf_append_str(&in, "\r\n"), 0);
	CHECK_EQ(verdict((const char *)buf_data(&in), buf_len(&in)), 1);
	in.len -= 2;
	CHECK_EQ(buf_append_str(&in, "a:b\r\n"), 0);
	CHECK_EQ(verdict((const char *)buf_data(&in), buf_len(&in)), 431);
	CHECK_EQ(buf_append_str(&in, "\r\n"), 0);
	CHECK_EQ(verdict((const char *)buf_data(&in), buf_len(&in)), 431);
	buf_done(&in);
}

TEST(find_and_tokens)
{
	parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: close, Up\r\nCONNECTION: , x y ,Z\r\n\r\n");
	CHECK_STR(http_head_find(&h, "hOsT"), "a");
	CHECK(!http_head_find(&h, "hos"));
	CHECK(!http_head_find(&h, "hostx"));
	CHECK_STR(http_head_find(&h, "connection"), "close, Up");
	CHECK(http_head_has_token(&h, "Connection", "up"));
	CHECK(http_head_has_token(&h, "Connection", "z"));
	CHECK(http_head_has_token(&h, "Connection", "x y"));
	CHECK(!http_head_has_token(&h, "Connection", "clos"));
	CHECK(!http_head_has_token(&h, "Connection", "x"));
	CHECK(!http_head_has_token(&h, "Connection", ""));
	http_head_done(&h);
}

static void keeps(const char *version, const char *connection, bool want)
{
	char in[256];

	snprintf(in, sizeof(in), "GET / HTTP/1.%s\r\nHost: a\r\n%s\r\n", version, connection);
	parse(in);
	CHECK_EQ(http_keep_alive(&h), want);
	http_head_done(&h);
}

TEST(keep_alive)
{
	keeps("1", "", true);
	keeps("1", "Connection: keep-alive\r\n", true);
	keeps("1", "Connection: Close\r\n", false);
	keeps("1", "Connection: keep-alive, close\r\n", false);
	keeps("1", "Connection: keep-alive\r\nConnection: x, close\r\n", false);
	keeps("1", "Connection: closed\r\nProxy-Connection: close\r\n", true);
	keeps("0", "", false);
	keeps("0", "Connection: x, Keep-Alive\r\n", true);
	keeps("0", "Connection: keep-alive, close\r\n", false);
	keeps("0", "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n", false);
}

static void expects(const char *fields, bool want)
{
	char in[256];

	snprintf(in, sizeof(in), "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
	parse(in);
	CHECK_EQ(http_expects_continue(&h), want);
	http_head_done(&h);
}

TEST(expects_continue)
{
	expects("Content-Length: 1\r\nExpect: 100-continue\r\n", true);
	expects("Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", true);
	expects("Content-Length: 0\r\nExpect: 100-continue\r\n", false);
	expects("Content-Length: 1\r\n", false);
	expects("", false);
	buf_init(&out, 25);
	CHECK_EQ(http_continue_write(&out), 0);
	CHECK_EQ(http_continue_write(&out), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 25);
	CHECK_MEM(buf_data(&out), "HTTP/1.1 100 Continue\r\n\r\n", 25);
	buf_done(&out);
}

TEST(remove_takes_every_spelling)
{
	parse("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: 1\r\nx-API-key: 2\r\nY: z\r\nX_Api_Key: "
	      "3\r\n"
	      "X-Api-Keys: 4\r\n\r\n");
	http_head_remove(&h, "x-api-key");
	check_written("GET / HTTP/1.1\r\nHost: a\r\nY: z\r\nX-Api-Keys: 4\r\n\r\n");
}

TEST(add_grows_and_keeps_the_rest)
{
	char name[16], value[2000];

	memset(value, 'v', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	parse("GET /t HTTP/1.1\r\nHost: a\r\n\r\n");
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "X-%d", i);
		CHECK_EQ(http_head_add(&h, name, value), 0);
	}
	CHECK_EQ(http_head_set_target(&h, "/other?x=y"), 0);
	CHECK_EQ(http_head_add(&h, "Last", ""), 0);
	CHECK_STR(h.method, "GET");
	CHECK_STR(h.target, "/other?x=y");
	CHECK_STR(http_head_find(&h, "host"), "a");
	CHECK_STR(http_head_find(&h, "x-0"), value);
	CHECK_STR(http_head_find(&h, "x-299"), value);
	CHECK_EQ(h.field_count, 302);
	http_head_done(&h);
}

TEST(add_refuses_what_may_not_stand)
{
	static const char *const names[] = {"", "a b", "a:", "a\r\nb", "\xc3\xa9", "a\n", "a/"};
	static const char *const values[] = {"a\r\nX: y", "a\n", "\r", "a\x01",
					     " a",	  "a ",	 "\t", "\x7f"};

	h = (struct http_head){.status = 403, .reason = "Forbidden", .minor = 1};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_EQ(http_head_add(&h, names[i], "v"), -EINVAL);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		CHECK_EQ(http_head_add(&h, "X", values[i]), -EINVAL);
	CHECK_EQ(http_head_set_target(&h, ""), -EINVAL);
	CHECK_EQ(http_head_set_target(&h, "/a b"), -EINVAL);
	CHECK_EQ(http_head_set_target(&h, "/a\r\n"), -EINVAL);
	CHECK_EQ(http_head_add(&h, "X", "caf\xc3\xa9 \t b"), 0);
	check_written("HTTP/1.1 403 Forbidden\r\nX: caf\xc3\xa9 \t b\r\n\r\n");
}

TEST(strip_hop)
{
	parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop, Host, content-length\r\n"
	      "Keep-Alive: 5\r\nX-Hop: 1\r\nProxy-Authorization: p\r\nproxy-connection: q\r\n"
	      "Proxy: r\r\nTE: trailers\r\nTrailer: t\r\nUpgrade: h2c\r\nHTTP2-Settings: s\r\n"
	      "Keep: me\r\nContent-Length: 0\r\nconnection: Last\r\nLast: 1\r\nProxy_X: 1\r\n\r\n");
	http_head_strip_hop(&h);
	check_written("GET / HTTP/1.1\r\nHost: a\r\nKeep: me\r\nContent-Length: 0\r\n\r\n");
	parse("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: "
	      "connection\r\n"
	      "\r\n");
	http_head_strip_hop(&h);
	check_written("POST / HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST(strip_overrides)
{
	parse("GET / HTTP/1.1\r\nHost: a\r\nX-HTTP-Method-Override: DELETE\r\nX_Original_URL: "
	      "/admin\r\n"
	      "x-rewrite-url: /admin\r\nX-Forwarded-Host: evil\r\nForwarded: host=evil\r\n"
	      "X-Forwarded-For: 1\r\n\r\n");
	http_head_strip_overrides(&h);
	check_written("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1\r\n\r\n");
}

TEST(write_is_all_or_nothing)
{
	parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	for (size_t max = 0; max < 27; max++) {
		buf_init(&out, max);
		CHECK_EQ(http_head_write(&h, &out), -ENOBUFS);
		CHECK_EQ(buf_len(&out), 0);
		buf_done(&out);
	}
	check_written("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST(done_accepts_what_was_never_made)
{
	struct http_body b = {0};

	h = (struct http_head){0};
	http_head_done(&h);
	http_head_done(&h);
	http_body_done(&b);
}

TEST(bodies_written)
{
	struct http_head trailers = {0};

	buf_init(&out, 64);
	CHECK_EQ(http_body_write(HTTP_CHUNKED, &out, "hello world!!!!!", 16), 0);
	CHECK_EQ(http_body_write(HTTP_CHUNKED, &out, "", 0), 0);
	CHECK_EQ(http_head_add(&trailers, "X", "y"), 0);
	CHECK_EQ(http_body_write_end(HTTP_CHUNKED, &trailers, &out), 0);
	CHECK_STR(buf_cstr(&out), "10\r\nhello world!!!!!\r\n0\r\nX: y\r\n\r\n");
	CHECK_EQ(http_body_write(HTTP_CHUNKED, &out, "0123456789012345678901234567", 28), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 33);
	buf_clear(&out);
	CHECK_EQ(http_body_write_end(HTTP_CHUNKED, NULL, &out), 0);
	CHECK_STR(buf_cstr(&out), "0\r\n\r\n");
	buf_clear(&out);
	CHECK_EQ(http_body_write(HTTP_LENGTH, &out, "ab", 2), 0);
	CHECK_EQ(http_body_write(HTTP_UNTIL_CLOSE, &out, "cd", 2), 0);
	CHECK_EQ(http_body_write(HTTP_SWITCHED, &out, "ef", 2), 0);
	CHECK_EQ(http_body_write(HTTP_NO_BODY, &out, "x", 1), -EINVAL);
	CHECK_EQ(http_body_write_end(HTTP_LENGTH, &trailers, &out), 0);
	CHECK_STR(buf_cstr(&out), "abcdef");
	http_head_done(&trailers);
	buf_done(&out);
}

/* Content is a range of the caller's bytes, not a copy. */
TEST(content_is_borrowed)
{
	static const uint8_t in[] = "5\r\nhello\r\n0\r\n\r\nrest";
	const uint8_t *data;
	struct http_body b;
	size_t used, len;

	parse("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	CHECK_EQ(http_body_init_request(&b, &h, HTTP_TEST_LIMITS, NULL), 0);
	CHECK_EQ(http_body_feed(&b, in, sizeof(in) - 1, &used, &data, &len, NULL), 0);
	CHECK(data == in + 3 && len == 5 && used == 8);
	CHECK_EQ(http_body_feed(&b, in + 8, sizeof(in) - 9, &used, &data, &len, NULL), 1);
	CHECK(len == 0 && used == 7 && b.ended);
	CHECK_EQ(http_body_feed(&b, in + 15, 4, &used, &data, &len, NULL), 1);
	CHECK(len == 0 && used == 0);
	http_body_done(&b);
	http_head_done(&h);
}

TEST(trailers_are_bounded)
{
	uint8_t *in = malloc(DOOR_HEAD_MAX + 1);
	const uint8_t *data;
	struct http_body b;
	size_t used, len;
	struct err e = {0};

	memset(in, 'x', DOOR_HEAD_MAX + 1);
	parse("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
	CHECK_EQ(http_body_init_request(&b, &h, HTTP_TEST_LIMITS, NULL), 0);
	CHECK_EQ(http_body_feed(&b, "0\r\n", 3, &used, &data, &len, &e), 0);
	CHECK_EQ(http_body_feed(&b, in, DOOR_HEAD_MAX, &used, &data, &len, &e), 0);
	CHECK_EQ(http_body_feed(&b, in, 1, &used, &data, &len, &e), -EBADMSG);
	CHECK_EQ(e.code, 431);
	http_body_done(&b);
	CHECK_EQ(http_body_init_request(&b, &h, HTTP_TEST_LIMITS, NULL), 0);
	CHECK_EQ(http_body_feed(&b, "0\r\n", 3, &used, &data, &len, &e), 0);
	for (unsigned i = 0; i < DOOR_HEADERS_MAX; i++)
		CHECK_EQ(http_body_feed(&b, "a:b\r\n", 5, &used, &data, &len, &e), 0);
	CHECK_EQ(http_body_feed(&b, "a:b\r\n", 5, &used, &data, &len, &e), -EBADMSG);
	http_body_done(&b);
	http_head_done(&h);
	free(in);
}

TAP_MAIN
