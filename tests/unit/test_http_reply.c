/* Heads of answers: framing, what decides about the connection, and what is refused. */
#include "tap.h"

#include "base/err.h"
#include "http/reply.h"
#include "http_script.h"

#define GET	"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GET_OLD "GET / HTTP/1.0\r\nHost: a\r\n\r\n"

static struct http_head h;
static struct http_sent sent;

static void parse(const char *in)
{
	size_t used;

	CHECK_EQ(http_request_parse(&h, in, strlen(in), HTTP_TEST_LIMITS, &used, NULL), 1);
	CHECK_EQ(used, strlen(in));
}

/* in NULL: a request that could not be read. */
static void check(const char *in, const struct http_response *r, const char *want)
{
	struct buf out;

	if (in)
		parse(in);
	buf_init(&out, 4096);
	CHECK_EQ(http_response_write(&out, in ? &h : NULL, r, &sent), 0);
	CHECK_STR(buf_cstr(&out), want);
	buf_done(&out);
	if (in)
		http_head_done(&h);
}

static void refused(const char *in, const struct http_response *r)
{
	struct buf out;

	parse(in);
	buf_init(&out, 4096);
	sent = (struct http_sent){.framing = HTTP_UNTIL_CLOSE};
	CHECK_EQ(http_response_write(&out, &h, r, &sent), -EINVAL);
	CHECK_EQ(buf_len(&out), 0);
	CHECK_EQ(sent.framing, HTTP_UNTIL_CLOSE);
	buf_done(&out);
	http_head_done(&h);
}

#define R(...) (&(const struct http_response){__VA_ARGS__})

TEST(framing)
{
	static const struct http_field json = {"Content-Type", "application/json"};

	check(GET,
	      R(.status = 200, .framing = HTTP_LENGTH, .length = 2, .fields = &json,
		.field_count = 1),
	      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n");
	CHECK(sent.framing == HTTP_LENGTH && !sent.close);
	check(GET, R(.status = 200, .framing = HTTP_LENGTH, .length = UINT64_MAX),
	      "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
	check(GET, R(.status = 404, .length = 7),
	      "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
	CHECK(sent.framing == HTTP_NO_BODY && !sent.close);
	check(GET, R(.status = 200, .framing = HTTP_CHUNKED),
	      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	CHECK(sent.framing == HTTP_CHUNKED && !sent.close);
}

TEST(answers_without_a_body)
{
	static const char head[] = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";

	check(GET, R(.status = 204, .framing = HTTP_LENGTH, .length = 3),
	      "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK(sent.framing == HTTP_NO_BODY && !sent.close);
	check(GET, R(.status = 304, .framing = HTTP_CHUNKED), "HTTP/1.1 304 Not Modified\r\n\r\n");
	CHECK(sent.framing == HTTP_NO_BODY && !sent.close);
	check(head, R(.status = 200, .framing = HTTP_LENGTH, .length = 3),
	      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
	CHECK(sent.framing == HTTP_NO_BODY && !sent.close);
	check(head, R(.status = 200, .framing = HTTP_CHUNKED),
	      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	CHECK(sent.framing == HTTP_NO_BODY && !sent.close);
}

/* What does not know chunks gets a body that ends with the connection, unless it gets none. */
TEST(old_clients)
{
	static const char keep[] = "GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n";
	static const char head[] = "HEAD / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";

	check(GET_OLD, R(.status = 200, .framing = HTTP_LENGTH, .length = 1),
	      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n");
	check(keep, R(.status = 200, .framing = HTTP_LENGTH, .length = 1),
	      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n");
	CHECK(!sent.close);
	check(keep, R(.status = 200, .framing = HTTP_CHUNKED),
	      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	CHECK(sent.framing == HTTP_UNTIL_CLOSE && sent.close);
	check(head, R(.status = 200, .framing = HTTP_CHUNKED),
	      "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n");
	CHECK(sent.framing == HTTP_NO_BODY && !sent.close);
}

TEST(connections_that_end)
{
	static const char asked[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n";

	check(GET, R(.status = 500, .close = true),
	      "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: "
	      "close\r\n\r\n");
	CHECK(sent.close);
	check(asked, R(.status = 204), "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	CHECK(sent.close);
	check(NULL, R(.status = 431),
	      "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: "
	      "close\r\n\r\n");
	CHECK(sent.close);
}

TEST(a_switch)
{
	static const struct http_field upgrade = {"Upgrade", "websocket"};

	check(GET,
	      R(.status = 101, .framing = HTTP_SWITCHED, .fields = &upgrade, .field_count = 1,
		.close = true),
	      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
	      "Upgrade\r\n\r\n");
	CHECK(sent.framing == HTTP_SWITCHED && !sent.close);
	refused(GET_OLD, R(.status = 101, .framing = HTTP_SWITCHED));
	refused(GET, R(.status = 101));
	refused(GET, R(.status = 200, .framing = HTTP_SWITCHED));
}

TEST(reasons)
{
	check(GET, R(.status = 299), "HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n");
	check(GET, R(.status = 403, .reason = "Denied by policy"),
	      "HTTP/1.1 403 Denied by policy\r\nContent-Length: 0\r\n\r\n");
	refused(GET, R(.status = 403, .reason = "a\r\nSet-Cookie: b"));
	refused(GET, R(.status = 403, .reason = "a\x7f"));
	CHECK_STR(http_reason(502), "Bad Gateway");
	CHECK_STR(http_reason(0), "");
	CHECK_STR(http_reason(599), "");
}

TEST(what_cannot_be)
{
	static const char connect[] = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
	static const unsigned bad[] = {0, 1, 99, 100, 102, 103, 199, 600, 1000, 4294967295u};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(GET, R(.status = bad[i]));
	refused(GET, R(.status = 200, .framing = HTTP_UNTIL_CLOSE));
	refused(connect, R(.status = 200));
	refused(connect, R(.status = 204));
	check(connect, R(.status = 405),
	      "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
}

TEST(fields_that_cannot_be)
{
	static const struct http_field bad[] = {
		{"Connection", "close"},
		{"connection", "keep-alive"},
		{"Content-Length", "1"},
		{"content_length", "1"},
		{"Transfer-Encoding", "chunked"},
		{"Keep-Alive", "timeout=5"},
		{"X\r\nY", "z"},
		{"", "z"},
		{"X Y", "z"},
		{"X", "a\r\nSet-Cookie: b"},
		{"X", "a\nb"},
		{"X", " a"},
		{"X", "a\t"},
		{"X:", "a"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(GET, R(.status = 200, .fields = &bad[i], .field_count = 1));
}

/* All or nothing, also where the buffer has almost enough room. */
TEST(no_room)
{
	static const char want[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	struct buf out;

	parse(GET);
	for (size_t max = 0; max < strlen(want); max++) {
		buf_init(&out, max);
		CHECK_EQ(http_response_write(&out, &h, R(.status = 200), &sent), -ENOBUFS);
		CHECK_EQ(buf_len(&out), 0);
		buf_done(&out);
	}
	buf_init(&out, strlen(want));
	CHECK_EQ(http_response_write(&out, &h, R(.status = 200), &sent), 0);
	buf_done(&out);
	http_head_done(&h);
}

/* Whatever was written is one answer with that body for who reads it by the same rules. */
TEST(what_was_written_is_read)
{
	static const enum http_framing framings[] = {HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED};
	static const char *const methods[] = {"GET", "HEAD"};
	static const unsigned statuses[] = {200, 204, 304, 404};

	for (unsigned i = 0; i < 3 * 2 * 4 * 2; i++) {
		unsigned minor = i & 1, status = statuses[i / 2 % 4];
		const char *method = methods[i / 8 % 2];
		struct http_response r = {
			.status = status, .framing = framings[i / 16], .length = 5};
		struct buf out, said;
		char in[128];
		int got;

		snprintf(in, sizeof(in), "%s / HTTP/1.%u\r\nHost: a\r\n\r\n", method, minor);
		parse(in);
		buf_init(&out, 4096);
		buf_init(&said, 4096);
		CHECK_EQ(http_response_write(&out, &h, &r, &sent), 0);
		got = http_body_write(sent.framing, &out, "hello", 5);
		CHECK_EQ(got, sent.framing == HTTP_NO_BODY ? -EINVAL : 0);
		CHECK_EQ(http_body_write_end(sent.framing, NULL, &out), 0);
		http_script(buf_data(&out), buf_len(&out), method, SCRIPT_BYTES, &said);
		CHECK(strstr(buf_cstr(&said),
			     sent.framing == HTTP_NO_BODY ? "body<>." : "body<hello>."));
		CHECK_EQ(sent.close, minor == 0);
		buf_done(&out);
		buf_done(&said);
		http_head_done(&h);
	}
}

TAP_MAIN
