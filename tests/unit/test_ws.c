/* WebSocket frames, fed in every cut, and handshakes (attack E11). */
#include "tap.h"

#include "base/err.h"
#include "http/http.h"
#include "http/ws.h"
#include "http_script.h"

enum { CLIENT = 1, SERVER = 0, RANDOM_CUTS = 30 };

/* Returns 0 or the refusal; what passed is in out, which the reader empties now and then. */
static int relay(struct ws_relay *w, const uint8_t *p, size_t n, uint64_t cuts, struct buf *all)
{
	uint64_t state = cuts;
	struct err e = {0};
	struct buf out;
	size_t at = 0;
	int r = 0;

	buf_init(&out, cuts > SCRIPT_BYTES ? 16 : 1 << 20);
	while (at < n && r == 0) {
		size_t take = cuts == SCRIPT_WHOLE   ? n
			      : cuts == SCRIPT_BYTES ? 1
						     : 1 + http_script_random(&state) % 40;
		size_t used;

		take = take < n - at ? take : n - at;
		r = ws_relay_feed(w, p + at, take, &used, &out, &e);
		at += r == 0 ? used : 0;
		CHECK_EQ(buf_append(all, buf_data(&out), buf_len(&out)), 0);
		buf_clear(&out);
	}
	/* A header may wait for room although its bytes were eaten. */
	while (r == 0) {
		size_t used;

		r = ws_relay_feed(w, p, 0, &used, &out, &e);
		if (buf_len(&out) == 0)
			break;
		CHECK_EQ(buf_append(all, buf_data(&out), buf_len(&out)), 0);
		buf_clear(&out);
	}
	CHECK(r == 0 || (r == -EBADMSG && e.msg[0]));
	buf_done(&out);
	return r;
}

static int verdict(const void *p, size_t n, bool from_client, bool extended)
{
	struct buf first, again;
	struct ws_relay w;
	int r;

	buf_init(&first, 1 << 20);
	ws_relay_init(&w, from_client, extended);
	r = relay(&w, p, n, SCRIPT_WHOLE, &first);
	if (r == 0 && w.have == 0) {
		CHECK_EQ(buf_len(&first), n);
		CHECK(n == 0 || memcmp(buf_data(&first), p, n) == 0);
	}
	for (uint64_t cuts = SCRIPT_BYTES; cuts <= SCRIPT_BYTES + RANDOM_CUTS; cuts++) {
		buf_init(&again, 1 << 20);
		ws_relay_init(&w, from_client, extended);
		CHECK_EQ(relay(&w, p, n, cuts, &again), r);
		CHECK_EQ(buf_len(&again), buf_len(&first));
		CHECK(buf_len(&first) == 0 ||
		      memcmp(buf_data(&again), buf_data(&first), buf_len(&first)) == 0);
		buf_done(&again);
	}
	buf_done(&first);
	return r;
}

#define passes(s, client)  CHECK_EQ(verdict(s, sizeof(s) - 1, client, false), 0)
#define refused(s, client) CHECK_EQ(verdict(s, sizeof(s) - 1, client, false), -EBADMSG)

TEST(frames_pass)
{
	passes("\x81\x05hello\x89\x00\x82\x00", SERVER);
	passes("\x81\x85\x01\x02\x03\x04hello\x8a\x81xxxxp", CLIENT);
	passes("\x01\x01"
	       "a\x89\x01p\x00\x01"
	       "b\x80\x01"
	       "c\x81\x01"
	       "d",
	       SERVER);
	passes("\x88\x02\x03\xe8", SERVER);
	passes("\x88\x00", SERVER);
}

TEST(long_frames_pass)
{
	char in[70000];

	memset(in, 'x', sizeof(in));
	memcpy(in, "\x82\x7e\x00\x7e", 4);
	CHECK_EQ(verdict(in, 4 + 126, SERVER, false), 0);
	memcpy(in, "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 10);
	CHECK_EQ(verdict(in, 10 + 65536, SERVER, false), 0);
	memcpy(in, "\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00mask", 14);
	CHECK_EQ(verdict(in, 14 + 65536, CLIENT, false), 0);
}

TEST(E11_masks)
{
	refused("\x81\x05hello", CLIENT);
	refused("\x81\x85\x01\x02\x03\x04hello", SERVER);
	refused("\x89\x00", CLIENT);
	refused("\x88\x80mask", SERVER);
}

TEST(E11_lengths)
{
	refused("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", SERVER);
	refused("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", SERVER);
	refused("\x82\x7f\x40\x00\x00\x00\x00\x00\x00\x01", SERVER);
	passes("\x82\x7f\x40\x00\x00\x00\x00\x00\x00\x00more", SERVER);
	refused("\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00mask", CLIENT);
	refused("\x82\x7e\x00\x7d", SERVER);
	refused("\x82\x7e\x00\x00", SERVER);
	refused("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", SERVER);
	refused("\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x05hello", SERVER);
}

TEST(E11_control_frames)
{
	refused("\x89\x7e\x00\x7e", SERVER);
	refused("\x09\x00", SERVER);
	refused("\x08\x00", SERVER);
	refused("\x88\x01x", SERVER);
	refused("\x88\x02\x03\xe8\x81", SERVER);
	refused("\x88\x00\x88\x00", SERVER);
	refused("\x88\x80maskx", CLIENT);
}

TEST(E11_opcodes_and_order)
{
	refused("\x83\x00", SERVER);
	refused("\x87\x00", SERVER);
	refused("\x8b\x00", SERVER);
	refused("\x8f\x00", SERVER);
	refused("\x80\x00", SERVER);
	refused("\x01\x00\x81\x00", SERVER);
	refused("\x01\x00\x01\x00", SERVER);
	refused("\x01\x00\x80\x00\x80\x00", SERVER);
}

TEST(E11_reserved_bits)
{
	refused("\xc1\x00", SERVER);
	refused("\xa1\x00", SERVER);
	refused("\x91\x00", SERVER);
	CHECK_EQ(verdict("\xc1\x00", 2, SERVER, true), 0);
	CHECK_EQ(verdict("\xc9\x00", 2, SERVER, true), -EBADMSG);
}

TEST(not_HTTP)
{
	refused("GET / HTTP/1.1\r\n", CLIENT);
	refused("HTTP/1.1 400 Bad", SERVER);
}

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define ASK                                                                               \
	"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: keep-alive, " \
	"Upgrade\r\n"
#define V13    "Sec-WebSocket-Version: 13\r\n"
#define AGREE  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

static int ask(const char *in, struct http_head *h)
{
	size_t used;

	CHECK_EQ(http_request_parse(h, in, strlen(in), HTTP_TEST_LIMITS, &used, NULL), 1);
	return ws_check_request(h, NULL);
}

static void check_ask(const char *in, int want)
{
	struct http_head h;

	CHECK_EQ(ask(in, &h), want);
	http_head_done(&h);
}

static void check_answer(const char *request, const char *response, int want)
{
	struct http_head a, b;
	struct err e = {0};
	size_t used;

	CHECK_EQ(ask(request, &a), 0);
	CHECK_EQ(http_response_parse(&b, response, strlen(response), HTTP_TEST_LIMITS, false, &used,
				     NULL),
		 1);
	CHECK_EQ(ws_check_response(&a, &b, &e), want);
	CHECK(want == 0 || e.code == 502);
	http_head_done(&a);
	http_head_done(&b);
}

TEST(E11_handshake_requests)
{
	check_ask(ASK KEY V13 "\r\n", 0);
	check_ask(ASK KEY V13 "Content-Length: 0\r\n\r\n", 0);
	check_ask(ASK KEY V13 "Content-Length: 5\r\n\r\n", -EINVAL);
	check_ask(ASK KEY V13 "Transfer-Encoding: chunked\r\n\r\n", -EINVAL);
	check_ask(ASK KEY "\r\n", -EINVAL);
	check_ask(ASK V13 "\r\n", -EINVAL);
	check_ask(ASK KEY KEY V13 "\r\n", -EINVAL);
	check_ask(ASK KEY V13 V13 "\r\n", -EINVAL);
	check_ask(ASK KEY "Sec-WebSocket-Version: 8\r\n\r\n", -EINVAL);
	check_ask(ASK KEY V13 "Upgrade: h2c\r\n\r\n", -EINVAL);
	check_ask(ASK V13 "Sec-WebSocket-Key: short==\r\n\r\n", -EINVAL);
	check_ask(ASK V13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=!\r\n\r\n", -EINVAL);
	check_ask("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket, h2c\r\nConnection: "
		  "upgrade\r\n" KEY V13 "\r\n",
		  -EINVAL);
	check_ask("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n" KEY V13 "\r\n", -EINVAL);
	check_ask("POST / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n" KEY
			  V13 "\r\n",
		  -EINVAL);
	check_ask(
		"GET / HTTP/1.0\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n" KEY V13
		"\r\n",
		-EINVAL);
}

/* n of the protocol's bytes are asked for; want NULL: refused, and nothing is written. */
static void check_accept(const char *request, const char *protocol, size_t n, const char *want)
{
	struct http_head a, b;
	struct buf out;
	size_t used;

	CHECK_EQ(ask(request, &a), 0);
	buf_init(&out, 4096);
	CHECK_EQ(ws_accept_write(&a, protocol, n, &out), want ? 0 : -EINVAL);
	CHECK_STR(buf_cstr(&out), want ? want : "");
	if (want) {
		CHECK_EQ(http_response_parse(&b, buf_data(&out), buf_len(&out), HTTP_TEST_LIMITS,
					     false, &used, NULL),
			 1);
		CHECK_EQ(used, buf_len(&out));
		CHECK_EQ(ws_check_response(&a, &b, NULL), 0);
		http_head_done(&b);
	}
	http_head_done(&a);
	buf_done(&out);
}

#define AGREED "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" ACCEPT

TEST(handshake_is_agreed_to)
{
	static const char end[] = "Connection: Upgrade\r\n\r\n";
	static const char offers[] =
		ASK KEY V13 "Sec-WebSocket-Extensions: permessage-deflate\r\n"
			    "Sec-WebSocket-Protocol: chat, X-Envs~eyJhIjoiYiJ9==\r\n"
			    "sec-websocket-protocol: ,Exit ,\r\n\r\n";
	struct http_head h;
	char want[256];
	const char *p;
	size_t n;

	snprintf(want, sizeof(want), "%s%s", AGREED, end);
	check_accept(ASK KEY V13 "\r\n", NULL, 0, want);
	check_accept(offers, NULL, 0, want);
	snprintf(want, sizeof(want), "%sSec-WebSocket-Protocol: Exit\r\n%s", AGREED, end);
	check_accept(offers, "Exit, more", 4, want);
	snprintf(want, sizeof(want), "%sSec-WebSocket-Protocol: X-Envs~eyJhIjoiYiJ9==\r\n%s",
		 AGREED, end);
	check_accept(offers, "X-Envs~eyJhIjoiYiJ9==", 21, want);
	check_accept(offers, "chat", 3, NULL);
	check_accept(offers, "Chat", 4, NULL);
	check_accept(offers, "chat, X-Envs~eyJhIjoiYiJ9==", 27, NULL);
	check_accept(offers, "", 0, NULL);
	check_accept(offers, "chat\r\nA: b", 10, NULL);
	check_accept(ASK KEY V13 "\r\n", "chat", 4, NULL);
	CHECK_EQ(ask(offers, &h), 0);
	p = ws_offer_find(&h, "X-Envs~", &n);
	CHECK(p && n == 21 && strncmp(p, "X-Envs~eyJhIjoiYiJ9==", n) == 0);
	p = ws_offer_find(&h, "", &n);
	CHECK(p && n == 4 && strncmp(p, "chat", n) == 0);
	p = ws_offer_find(&h, "Ex", &n);
	CHECK(p && n == 4 && strncmp(p, "Exit", n) == 0);
	CHECK(!ws_offer_find(&h, "x-envs", &n));
	CHECK(!ws_offer_find(&h, "chat, X", &n));
	CHECK(!ws_offer_find(&h, "Exit ,", &n));
	http_head_done(&h);
}

TEST(E11_handshake_answers)
{
	static const char asked[] = ASK KEY V13
		"Sec-WebSocket-Protocol: chat, super\r\n"
		"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, x\r\n\r\n";

	check_answer(asked, AGREE ACCEPT "\r\n", 0);
	check_answer(asked, AGREE ACCEPT "Sec-WebSocket-Protocol: super\r\n\r\n", 0);
	check_answer(asked, AGREE ACCEPT "Sec-WebSocket-Protocol: other\r\n\r\n", -EINVAL);
	check_answer(asked, AGREE ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 0);
	check_answer(asked, AGREE ACCEPT "Sec-WebSocket-Extensions: permessage-x;y=z\r\n\r\n",
		     -EINVAL);
	check_answer(asked, AGREE "\r\n", -EINVAL);
	check_answer(asked, AGREE ACCEPT ACCEPT "\r\n", -EINVAL);
	check_answer(asked, AGREE "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO=\r\n\r\n",
		     -EINVAL);
	check_answer(asked, "HTTP/1.1 200 OK\r\n\r\n", -EINVAL);
	check_answer(asked,
		     "HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n" ACCEPT "\r\n",
		     -EINVAL);
	check_answer(ASK KEY V13 "\r\n", AGREE ACCEPT "Sec-WebSocket-Protocol: chat\r\n\r\n",
		     -EINVAL);
	check_answer(ASK KEY V13 "\r\n", AGREE ACCEPT "Sec-WebSocket-Extensions: x\r\n\r\n",
		     -EINVAL);
}

TAP_MAIN
