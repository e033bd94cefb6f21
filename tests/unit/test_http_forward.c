/* Heads and cookies that a reverse proxy passes on: bytes in, the head that goes on out. */
#include "tap.h"

#include "http/cookie.h"
#include "http/forward.h"
#include "http_script.h"

static const char *const own[] = {"mine", NULL};

static void check_request(const char *in, struct http_hop hop, const char *want)
{
	struct http_head from, to;
	struct buf out;
	size_t used;

	hop.target = "/t?q";
	hop.host = "localhost:80";
	hop.scheme = "http";
	hop.asked = "a.example";
	buf_init(&out, 1 << 16);
	CHECK_EQ(http_request_parse(&from, in, strlen(in), HTTP_TEST_LIMITS, &used, NULL), 1);
	CHECK_EQ(http_forward_request(&from, &hop, &to), 0);
	CHECK_EQ(http_head_write(&to, &out), 0);
	CHECK_STR(buf_cstr(&out), want);
	http_head_done(&to);
	http_head_done(&from);
	buf_done(&out);
}

static void check_answer(const char *in, enum http_site site, const char *want)
{
	struct http_head from, to;
	struct buf out;
	size_t used;

	buf_init(&out, 1 << 16);
	CHECK_EQ(http_response_parse(&from, in, strlen(in), HTTP_TEST_LIMITS, false, &used, NULL),
		 1);
	CHECK_EQ(http_forward_answer(&from, site, own, &to), 0);
	CHECK_EQ(http_head_write(&to, &out), 0);
	CHECK_STR(buf_cstr(&out), want);
	http_head_done(&to);
	http_head_done(&from);
	buf_done(&out);
}

#define ASKED                                               \
	"Host: localhost:80\r\nX-Forwarded-Proto: http\r\n" \
	"X-Forwarded-Host: a.example\r\nForwarded: host=\"a.example\";proto=http\r\n"

TEST(what_frames_and_routes_is_ours)
{
	check_request("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\nA: b\r\n"
		      "Expect: 100-continue\r\nX-Original-URL: /admin\r\nX_Forwarded_Host: c\r\n"
		      "Connection: close, B\r\nB: c\r\nKeep-Alive: x\r\nTE: trailers\r\n\r\n",
		      (struct http_hop){.framing = HTTP_LENGTH, .length = 3},
		      "POST /t?q HTTP/1.1\r\nA: b\r\n" ASKED
		      "Content-Length: 3\r\nConnection: close\r\n\r\n");
	check_request("PUT /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
		      (struct http_hop){.framing = HTTP_CHUNKED},
		      "PUT /t?q HTTP/1.1\r\n" ASKED
		      "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	/* What a client lists as its hop's own cannot take a field of ours away. */
	check_request(
		"GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: X-Forwarded-Proto, host\r\n"
		"Sec-WebSocket-Key: k\r\nUpgrade: websocket\r\n\r\n",
		(struct http_hop){.upgrades = true},
		"GET /t?q HTTP/1.1\r\nSec-WebSocket-Key: k\r\n" ASKED
		"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
}

TEST(who_asks_is_ours_to_say)
{
	check_request("GET /x HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 6.6.6.6\r\n"
		      "X-Forwarded-Anything: 1\r\nForwarded: for=6.6.6.6\r\nVia: x\r\n\r\n",
		      (struct http_hop){.client = "::1", .prefix = "/p"},
		      "GET /t?q HTTP/1.1\r\nHost: localhost:80\r\nX-Forwarded-For: ::1\r\n"
		      "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a.example\r\n"
		      "X-Forwarded-Prefix: /p\r\n"
		      "Forwarded: for=\"[::1]\";host=\"a.example\";proto=http\r\n"
		      "Connection: close\r\n\r\n");
}

#define ANSWER                                                                           \
	"HTTP/1.0 200 Fine\r\nContent-Length: 3\r\nA: b\r\nSet-Cookie: c=d; DOMAIN =x ;" \
	" Path=/;\r\nSet-Cookie: mine=1\r\nClear-Site-Data: \"*\"\r\nAlt-Svc: h2\r\n"    \
	"Service-Worker-Allowed: /\r\nAccess_Control-Allow-Origin: *\r\n"                \
	"X-Request-Id: 1\r\nConnection: D\r\nD: e\r\n\r\n"

TEST(an_answer_speaks_for_its_own_name)
{
	check_answer(ANSWER, HTTP_SITE_OWN,
		     "HTTP/1.1 200 \r\nA: b\r\nSet-Cookie: c=d; Path=/\r\n"
		     "Service-Worker-Allowed: /\r\nAccess_Control-Allow-Origin: *\r\n\r\n");
	check_answer(ANSWER, HTTP_SITE_SHARED,
		     "HTTP/1.1 200 \r\nA: b\r\nContent-Security-Policy: sandbox\r\n"
		     "X-Content-Type-Options: nosniff\r\n"
		     "Cross-Origin-Resource-Policy: same-origin\r\n\r\n");
	check_answer("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
		     "Sec-WebSocket-Accept: x\r\nSet-Cookie: a=b\r\n\r\n",
		     HTTP_SITE_SHARED,
		     "HTTP/1.1 101 \r\nSec-WebSocket-Accept: x\r\nUpgrade: websocket\r\n\r\n");
}

static void check_find(const char *value, size_t nth, const char *want)
{
	struct http_field field = {"COOKIE", value};
	struct http_head h = {.fields = &field, .field_count = 1};
	size_t len = 0;
	const char *got = http_cookie_find(&h, "a", nth, &len);

	CHECK(!got == !want);
	if (want)
		CHECK(len == strlen(want) && memcmp(got, want, len) == 0);
}

static void check_remove(const char *value, const char *want)
{
	struct buf out;

	buf_init(&out, 4096);
	CHECK_EQ(http_cookie_remove(value, "a", &out), 0);
	CHECK_STR(buf_cstr(&out), want);
	buf_done(&out);
}

TEST(cookies)
{
	check_find("a=1", 0, "1");
	check_find("b=2;a=1; a =3", 1, "3");
	check_find("b=2;a=1; a=3", 2, NULL);
	check_find("A=1; aa=2; a", 0, NULL);
	check_find("", 0, NULL);
	check_find("a=", 0, "");
	check_find(";;a==;", 0, "=");
	check_remove("a=1", "");
	check_remove("b=2;a=1;  c=\"x;a=y\"", "b=2; c=\"x");
	check_remove("a; aa=1;A=2;", "aa=1; A=2");
	CHECK(http_set_cookie_is("a=1; b=2", "a"));
	CHECK(!http_set_cookie_is("b=1; a=2", "a"));
	CHECK(!http_set_cookie_is("", "a"));
}

TAP_MAIN
