/* What a connection's first bytes decide: TLS names, proxies, and what is intercepted. */
#include "door_rig.h"

#include "base/clock.h"
#include "base/limits.h"
#include "hello_make.h"
#include "net/ca.h"

#include <openssl/ssl.h>

static char policy[1024];

static unsigned open_with(const char *hosts, const char *more)
{
	unsigned port = upstream_start(UP_ECHO);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - name: the-rule\n    allow: %s\n    ports: [%u]\n"
		 "    private: true\n%s",
		 hosts, port, more);
	rig_open(policy);
	return port;
}

static void send_in_pieces(unsigned n, const struct buf *b, size_t piece)
{
	for (size_t i = 0; i < buf_len(b); i += piece) {
		size_t left = buf_len(b) - i;

		box_send(n, buf_data(b) + i, left < piece ? left : piece);
		rig_step();
	}
}

static struct buf hello;

TEST(tls_passes_when_it_names_the_host_however_it_is_cut)
{
	static const size_t pieces[] = {1, 7, 100, 100000};
	unsigned port = open_with("up.test", "");

	hello_make(&hello, "Up.Test", 0, 0);
	for (unsigned i = 0; i < 4; i++) {
		box_connect(i + 1, "up.test", port);
		send_in_pieces(i + 1, &hello, pieces[i]);
		UNTIL(rig.ids[i + 1].bytes == buf_len(&hello));
		CHECK_MEM(buf_data(&rig.ids[i + 1].data), buf_data(&hello), buf_len(&hello));
	}
	hello_make(&hello, "up.test", 0, 9);
	box_connect(9, "up.test", port);
	box_send(9, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[9].bytes == buf_len(&hello));
	buf_done(&hello);
}

/* A server may ask for a second hello, and it may come at once: no byte that makes it whole
 * leaves where it is for another host. The server here never answers with TLS, so the watch does
 * not end. */
TEST(a_second_hello_names_the_same_host)
{
	static const char *const names[] = {"up.test", "evil.test", NULL};
	unsigned port = open_with("up.test", ""), n = 0;
	struct buf second = {0};

	for (unsigned i = 0; i < 3; i++) {
		for (size_t piece = 1; piece < 400; piece += 57) {
			hello_make(&hello, "up.test", 0, 0);
			hello_make(&second, names[i], 0, piece % 2 ? 0 : 9);
			CHECK_EQ(buf_append(&hello, "\x14\3\3\0\1\1", 6), 0);
			CHECK_EQ(buf_append(&hello, buf_data(&second), buf_len(&second)), 0);
			box_connect(++n, "up.test", port);
			send_in_pieces(n, &hello, piece);
			if (i == 0)
				UNTIL(rig.ids[n].bytes == buf_len(&hello));
			else
				UNTIL(rig.ids[n].cancelled);
			CHECK(i == 0 || rig.ids[n].bytes < buf_len(&hello));
		}
		CHECK(i == 0 || strstr(rig_row("connect", "deny")->reason,
				       names[i] ? "another host" : "no host"));
	}
	buf_done(&hello);
	buf_done(&second);
}

static void refused(unsigned n, unsigned port, const char *host, const char *why)
{
	box_connect(n, host, port);
	box_send(n, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[n].cancelled);
	CHECK_EQ(rig.ids[n].bytes, 0);
	CHECK(strstr(rig_row("connect", "deny")->reason, why));
	CHECK_EQ(rig_row("done", "failed")->up, 0);
}

TEST(tls_that_names_another_host_or_none_or_hides_it_is_cut)
{
	unsigned port = open_with("[up.test, 127.0.0.1]", "");

	hello_make(&hello, "evil.test", 0, 0);
	refused(1, port, "up.test", "another host");
	hello_make(&hello, NULL, 0, 0);
	refused(2, port, "up.test", "no host");
	hello_make(&hello, "up.test", 1, 0);
	refused(3, port, "up.test", "ECH");
	CHECK(strstr(rig_row("connect", "deny")->reason, "`tls: intercept`"));
	CHECK(strstr(rig_row("connect", "deny")->reason, "`ech: true`"));
	hello_make(&hello, "up.test", 0, 0);
	refused(4, port, "127.0.0.1", "another host");
	hello_make(&hello, NULL, 0, 0);
	box_connect(5, "127.0.0.1", port);
	box_send(5, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[5].bytes == buf_len(&hello));
	buf_done(&hello);
}

TEST(a_hello_that_is_too_long_or_half_is_cut)
{
	static uint8_t big[5] = {22, 3, 1, 0x40, 0};
	unsigned port = open_with("up.test", "");

	buf_init(&hello, 1 << 20);
	CHECK_EQ(buf_append(&hello, big, 5), 0);
	CHECK_EQ(buf_append(&hello, "\1\0\xff\xff", 4), 0);
	refused(1, port, "up.test", "too long");
	hello_make(&hello, "up.test", 0, 0);
	box_connect(2, "up.test", port);
	box_send(2, buf_data(&hello), buf_len(&hello) - 1);
	box_eof(2);
	UNTIL(rig.ids[2].cancelled);
	CHECK_EQ(rig.ids[2].bytes, 0);
	buf_done(&hello);
}

/* ---- proxy ---- */

static void proxy_says(unsigned n, const char *text)
{
	box_proxy(n);
	UNTIL(rig.ids[n].ok);
	for (size_t i = 0; i < strlen(text); i += 5) {
		size_t left = strlen(text) - i;

		box_send(n, text + i, left < 5 ? left : 5);
	}
}

static const char *answer(unsigned n)
{
	const char *s = buf_cstr(&rig.ids[n].data);

	return s ? s : "";
}

TEST(a_proxy_tunnel_is_judged_and_answered)
{
	unsigned port = open_with("up.test", "");
	char text[256];

	snprintf(text, sizeof(text), "CONNECT up.test:%u HTTP/1.1\r\nHost: up.test:%u\r\n\r\nping",
		 port, port);
	proxy_says(1, text);
	UNTIL(rig.ids[1].bytes == 39 + 4);
	CHECK(strncmp(answer(1), "HTTP/1.1 200 ", 13) == 0);
	CHECK_STR(answer(1) + 39, "ping");
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
}

TEST(a_proxy_says_why_not)
{
	unsigned port = open_with("up.test", "");
	char text[256];

	proxy_says(1, "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n");
	UNTIL(rig.ids[1].eof);
	CHECK(strncmp(answer(1), "HTTP/1.1 403 Denied by Cove policy\r\n", 36) == 0);
	CHECK(strstr(answer(1), "cove allow box evil.test, or --allow evil.test at its start"));
	snprintf(text, sizeof(text), "CONNECT up.test:%u HTTP/1.1\r\nHost: up.test\r\n\r\n",
		 port == 1 ? 2 : port - 1);
	proxy_says(2, text);
	UNTIL(rig.ids[2].eof);
	CHECK(strstr(answer(2), " 403 "));
	snprintf(text, sizeof(text),
		 "cove allow box up.test:%u, or --allow up.test:%u at its start", port - 1,
		 port - 1);
	CHECK(strstr(answer(2), text));
	proxy_says(3, "GET / HTTP/1.1\r\nHost: up.test\r\n\r\n");
	UNTIL(rig.ids[3].eof);
	CHECK(strncmp(answer(3), "HTTP/1.1 400 ", 13) == 0);
	proxy_says(4, "nonsense\r\n\r\n");
	UNTIL(rig.ids[4].eof);
	CHECK(strncmp(answer(4), "HTTP/1.1 400 ", 13) == 0);
	proxy_says(5, "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n");
	UNTIL(rig.ids[5].eof);
	CHECK(strncmp(answer(5), "HTTP/1.1 403 ", 13) == 0);
	box_proxy(6);
	box_send(6, "CONNECT up", 10);
	box_eof(6);
	UNTIL(rig.ids[6].eof);
	CHECK_EQ(rig.lookups, 0);
	UNTIL(rig.door.conn_count == 0);
	for (unsigned i = 1; i <= 6; i++)
		CHECK(!rig.ids[i].cancelled && !rig.ids[i].failed);
}

TEST(a_tunnel_to_an_upstream_that_refuses_is_a_bad_gateway)
{
	unsigned port = open_with("up.test", "");
	char text[256];

	rig.addrs[0] = (struct resolved){AF_INET, {127, 9, 9, 9}};
	snprintf(text, sizeof(text), "CONNECT up.test:%u HTTP/1.1\r\nHost: up.test:%u\r\n\r\n",
		 port, port);
	proxy_says(1, text);
	UNTIL(rig.ids[1].eof);
	CHECK(strncmp(answer(1), "HTTP/1.1 502 ", 13) == 0);
}

TEST(the_name_in_a_tunnel_is_checked_too)
{
	unsigned port = open_with("up.test", "");
	char text[256];

	hello_make(&hello, "evil.test", 0, 0);
	snprintf(text, sizeof(text), "CONNECT up.test:%u HTTP/1.1\r\nHost: up.test:%u\r\n\r\n",
		 port, port);
	proxy_says(1, text);
	box_send(1, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[1].cancelled);
	CHECK_EQ(rig_row("done", "failed")->up, 0);
	buf_done(&hello);
}

/* ---- intercepted ---- */

TEST(http_that_is_intercepted_goes_to_web)
{
	unsigned port = open_with("up.test", "    methods: [GET]\n");

	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	box_send(1, "GET / HT", 8);
	UNTIL(rig.webs == 1);
	box_send(1, "TP/1.1\r\n", 8);
	UNTIL(strcmp(rig.web_first, "GET / HTTP/1.1\r\n") == 0);
	CHECK(!rig.web_tls && !rig.web_proxied);
	CHECK_STR(rig.web_host.text, "up.test");
	CHECK_EQ(rig.lookups, 0);
	rig.web_allows = true;
	rig_reload(policy);
	CHECK_EQ(rig.webs, 1);
	rig.web_allows = false;
	rig_reload(policy);
	CHECK_EQ(rig.webs, 0);
	UNTIL(rig.ids[1].cancelled);
}

/* Moves what the client has to say to the door, and what the door said to the client. */
static void shuttle(unsigned n, BIO *from_client, BIO *to_client)
{
	struct buf *data = &rig.ids[n].data;
	char p[16384];
	int len;

	while ((len = BIO_read(from_client, p, sizeof(p))) > 0)
		box_send(n, p, (size_t)len);
	rig_step();
	if (buf_len(data) > 0)
		CHECK_EQ(BIO_write(to_client, buf_data(data), (int)buf_len(data)),
			 (int)buf_len(data));
	rig.ids[n].bytes -= buf_len(data);
	buf_clear(data);
}

static void handshake(unsigned n, SSL *ssl)
{
	unsigned left = 2000;

	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	CHECK_EQ(SSL_set_tlsext_host_name(ssl, "up.test"), 1);
	while (SSL_connect(ssl) != 1 && --left > 0)
		shuttle(n, SSL_get_wbio(ssl), SSL_get_rbio(ssl));
	CHECK(left > 0);
}

TEST(tls_that_is_intercepted_is_opened_for_web)
{
	unsigned port = open_with("up.test", "    methods: [GET]\n");
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	struct err e;
	struct buf pem;

	buf_init(&pem, 1 << 16);
	CHECK_EQ(ca_make(&pem, &e), 0);
	CHECK_EQ(tls_new(&rig.door.tls, buf_cstr(&pem), &e), 0);
	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	handshake(1, ssl);
	CHECK_EQ(rig.webs, 1);
	CHECK(rig.web_tls);
	CHECK_EQ(SSL_write(ssl, "GET /secret", 11), 11);
	for (unsigned i = 0; i < 1000 && !rig.web_first[0]; i++)
		shuttle(1, SSL_get_wbio(ssl), SSL_get_rbio(ssl));
	CHECK_STR(rig.web_first, "GET /secret");
	CHECK_EQ(rig.lookups, 0);
	SSL_free(ssl);
	SSL_CTX_free(context);
	buf_done(&pem);
}

TEST(tls_that_is_intercepted_must_name_the_host_too)
{
	unsigned port = open_with("up.test", "    methods: [GET]\n");

	hello_make(&hello, "evil.test", 0, 0);
	box_connect(1, "up.test", port);
	box_send(1, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[1].failed);
	CHECK_EQ(rig.webs, 0);
	CHECK_EQ(rig.ids[1].error.kind, ERR_DENIED);
	buf_done(&hello);
}

/* ---- HTTP that nobody asked to look into ---- */

static const char request[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";

TEST(http_for_a_named_host_is_webs_with_the_upstream_that_is_there)
{
	unsigned port = open_with("up.test", "    rate: 1/h\n");

	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	box_send(1, request, 12);
	box_send(1, request + 12, sizeof(request) - 13);
	UNTIL(strcmp(rig.web_first, request) == 0);
	CHECK_EQ(rig.web_ups, 1);
	CHECK(!rig.web_tls && !rig.web_proxied && !rig.web_asked);
	CHECK_STR(rig.web_host.text, "up.test");
	CHECK_EQ(rig.lookups, 1);
	CHECK_EQ(rig.ids[1].bytes, 0);
	/* What the connection took of the rule is there for its first request. */
	CHECK(door_take(&rig.door, rig.door.conns->verdict.rule));
	CHECK(!door_take(&rig.door, rig.door.conns->verdict.rule));
	rig.web_allows = true;
	rig_reload(policy);
	CHECK_EQ(rig.webs, 1);
}

TEST(http_within_a_tunnel_is_webs_too)
{
	unsigned port = open_with("up.test", "");
	char text[256];

	snprintf(text, sizeof(text), "CONNECT up.test:%u HTTP/1.1\r\nHost: up.test:%u\r\n\r\n%s",
		 port, port, request);
	proxy_says(1, text);
	UNTIL(strcmp(rig.web_first, request) == 0);
	CHECK(rig.webs == 1 && !rig.web_proxied);
}

TEST(a_connection_that_a_person_allowed_is_not_asked_about_again)
{
	unsigned port = upstream_start(UP_ECHO);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - ask: up.test\n    ports: [%u]\n    private: true\n",
		 port);
	rig_open(policy);
	box_connect(1, "up.test", port);
	UNTIL(rig_rows("ask", "ask") == 1);
	box_verb("answer", "1", "allow", NULL, NULL);
	UNTIL(rig.ids[1].ok);
	box_send(1, request, sizeof(request) - 1);
	UNTIL(rig.webs == 1);
	CHECK(rig.web_asked);
}

TEST(http_in_pieces_is_cut_before_its_host_is_said)
{
	unsigned port = open_with("up.test", "");
	size_t sent = 0;

	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	/* Each piece waits for the echo of the one before, so it was passed on. */
	for (; sent < 3; sent++) {
		box_send(1, request + sent, 1);
		UNTIL(rig.ids[1].bytes == sent + 1 || rig.ids[1].cancelled);
	}
	CHECK(!rig.ids[1].cancelled);
	rig.ids[1].hold = true;
	box_send(1, request + sent, sizeof(request) - 1 - sent);
	rig_settle();
	CHECK_EQ(rig.webs, 0);
	/* The server spoke first, as an echo does and no server of HTTP: it may go on. */
	CHECK(!rig.ids[1].cancelled);
}

TEST(http_in_pieces_to_a_server_that_waits_is_cut)
{
	unsigned port = upstream_start(UP_SINK);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - allow: up.test\n    ports: [%u]\n    private: true\n",
		 port);
	rig_open(policy);
	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	for (size_t i = 0; i < sizeof(request) - 1; i++) {
		box_send(1, request + i, 1);
		rig_settle();
		if (rig.ids[1].cancelled)
			break;
	}
	CHECK(rig.ids[1].cancelled);
	CHECK(strstr(rig_row("connect", "deny")->reason, "in pieces"));
	/* No more than the line without its version left. */
	CHECK(rig_row("done", "failed")->up < strlen("GET / HTTP/"));
}

TEST(what_is_no_http_passes_at_once)
{
	static const char *const texts[] = {"ping", "EHLO x\r\n", "*1\r\n", "GET key\n"};
	unsigned port = open_with("up.test", "");

	for (unsigned i = 0; i < 4; i++) {
		box_connect(i + 1, "up.test", port);
		box_send(i + 1, texts[i], strlen(texts[i]));
		UNTIL(rig.ids[i + 1].bytes == strlen(texts[i]));
	}
	/* Half a line and the end is no request either, unless it says what for. */
	box_connect(9, "up.test", port);
	box_send(9, "GET k ", 6);
	box_eof(9);
	UNTIL(rig.ids[9].bytes == 6);
	box_connect(10, "up.test", port);
	box_send(10, "GET / ", 6);
	box_eof(10);
	UNTIL(rig.ids[10].cancelled);
	CHECK_EQ(rig.webs, 0);
	CHECK(strstr(rig_row("connect", "deny")->reason, "half an HTTP request"));
	CHECK_EQ(rig_row("done", "failed")->up, 0);
}

TEST(a_request_without_a_version_is_webs)
{
	static const char *const texts[] = {"GET /x\r\n", "get http://evil.test/?x\n",
					    "\r\n \tOPTIONS *\r\n"};
	unsigned port = open_with("up.test", "");

	for (unsigned i = 0; i < 3; i++) {
		box_connect(i + 1, "up.test", port);
		box_send(i + 1, texts[i], strlen(texts[i]));
		UNTIL(rig.webs == i + 1);
		CHECK_EQ(rig.ids[i + 1].bytes, 0);
	}
}

TEST(tls_that_is_no_hello_does_not_pass)
{
	unsigned port = open_with("up.test", "");

	hello_make(&hello, "evil.test", 0, 0);
	hello.data[hello.start + 2] = 9; /* a version that no server looks at */
	refused(1, port, "up.test", "another host");
	buf_clear(&hello);
	CHECK_EQ(buf_append(&hello, "\x80\x2e\1\3\1", 5), 0);
	refused(2, port, "up.test", "broken");
	buf_clear(&hello);
	CHECK_EQ(buf_append(&hello, "\x17\3\3\0\1x", 6), 0);
	refused(3, port, "up.test", "broken");
	buf_done(&hello);
}

static const uint8_t ssl_request[] = {0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f};

TEST(a_hello_after_a_request_for_tls_is_looked_at)
{
	unsigned port = open_with("up.test", "");
	uint8_t both[2 * sizeof(ssl_request)];
	size_t len;

	memcpy(both, ssl_request, sizeof(ssl_request));
	memcpy(both + 8, ssl_request, sizeof(ssl_request));
	both[7] = 0x30; /* the one for GSSAPI comes first */
	hello_make(&hello, "up.test", 0, 0);
	len = buf_len(&hello);
	box_connect(1, "up.test", port);
	for (size_t i = 0; i < sizeof(both); i++) {
		box_send(1, both + i, 1);
		rig_step();
	}
	UNTIL(rig.ids[1].bytes == sizeof(both));
	send_in_pieces(1, &hello, 7);
	UNTIL(rig.ids[1].bytes == sizeof(both) + len);
	/* Without TLS, as it goes on where the server has none. */
	box_connect(2, "up.test", port);
	box_send(2, ssl_request, sizeof(ssl_request));
	UNTIL(rig.ids[2].bytes == sizeof(ssl_request));
	box_send(2, "\0\0\0\x9\0\3\0\0\0", 9);
	UNTIL(rig.ids[2].bytes == sizeof(ssl_request) + 9);
	/* Another name: after the answer, and at once. */
	hello_make(&hello, "evil.test", 0, 0);
	box_connect(3, "up.test", port);
	box_send(3, ssl_request, sizeof(ssl_request));
	UNTIL(rig.ids[3].bytes == sizeof(ssl_request));
	box_send(3, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[3].cancelled);
	CHECK(strstr(rig_row("connect", "deny")->reason, "another host"));
	CHECK_EQ(rig_row("done", "failed")->up, sizeof(ssl_request));
	box_connect(4, "up.test", port);
	UNTIL(rig.ids[4].ok);
	box_send(4, ssl_request, sizeof(ssl_request));
	send_in_pieces(4, &hello, 50);
	UNTIL(rig.ids[4].cancelled);
	CHECK(rig_row("done", "failed")->up <= sizeof(ssl_request));
	/* Half of one and the end is no harm. */
	box_connect(5, "up.test", port);
	box_send(5, ssl_request, 5);
	box_eof(5);
	UNTIL(rig.ids[5].bytes == 5);
	buf_done(&hello);
}

TEST(http_passes_where_any_name_may_or_the_rule_says_so)
{
	static const char *const hosts[] = {"\"*\"", "up.test"};
	static const char *const more[] = {"", "    tls: pass\n"};

	for (unsigned i = 0; i < 2; i++) {
		unsigned port = open_with(hosts[i], more[i]);

		box_connect(1, "up.test", port);
		box_send(1, request, sizeof(request) - 1);
		UNTIL(rig.ids[1].bytes == sizeof(request) - 1);
		CHECK_EQ(rig.webs, 0);
		rig_close();
	}
}

/* A name is hidden: where every one is allowed it does not matter which it is. */
/* The name beside it must still be the judged one. */
TEST(a_hidden_name_passes_where_the_rule_says_so)
{
	unsigned port = open_with("up.test", "    ech: true\n");

	hello_make(&hello, "up.test", 1, 0);
	box_connect(1, "up.test", port);
	box_send(1, buf_data(&hello), buf_len(&hello));
	UNTIL(rig.ids[1].bytes == buf_len(&hello));
	hello_make(&hello, "evil.test", 1, 0);
	refused(2, port, "up.test", "another host");
	buf_done(&hello);
}

TEST(a_hidden_name_passes_only_where_any_name_may)
{
	static const char *const more[] = {"", "  - deny: evil.test\n",
					   "  - allow: api.test\n    methods: [GET]\n"
					   "    ports: any\n",
					   "  - ask: evil.test\n    ports: any\n",
					   "  - deny: 9.9.9.9\n"};
	static const bool passes[] = {true, false, false, false, true};

	for (unsigned i = 0; i < 5; i++) {
		unsigned port = open_with("\"*\"", more[i]);

		hello_make(&hello, "up.test", 1, 0);
		if (passes[i]) {
			box_connect(1, "up.test", port);
			box_send(1, buf_data(&hello), buf_len(&hello));
			UNTIL(rig.ids[1].bytes == buf_len(&hello));
		} else {
			refused(1, port, "up.test", "ECH");
		}
		buf_done(&hello);
		rig_close();
	}
}

TEST(a_request_in_absolute_form_goes_to_web_whole)
{
	unsigned port = open_with("up.test", "");
	char text[256];

	snprintf(text, sizeof(text), "GET http://up.test:%u/x HTTP/1.1\r\nHost: up.test:%u\r\n\r\n",
		 port, port);
	proxy_says(1, text);
	UNTIL(strcmp(rig.web_first, text) == 0);
	CHECK(rig.webs == 1 && rig.web_proxied && !rig.web_tls);
}

TAP_MAIN
