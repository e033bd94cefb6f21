/* TLS hellos after the first of a connection: which are seen, and until when. */
#include "hello_make.h"
#include "tap.h"

#include "base/limits.h"
#include "door/hello_watch.h"

#include <errno.h>

TAP_MAIN

#define CCS  "\x14\3\3\0\1\1"
#define DATA "\x17\3\3\0\5abcde"

static const uint8_t retry[] = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
			       "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";
static struct hello_watch w;
static struct hello h;

/* A ServerHello in records of so many bytes. */
static void server_hello(struct buf *b, const uint8_t *random, size_t record)
{
	uint8_t m[44] = {2, 0, 0, 40, 3, 3};

	memcpy(m + 6, random, 32);
	m[40] = 0x13;
	for (size_t i = 0; i < sizeof(m); i += record) {
		size_t n = sizeof(m) - i < record ? sizeof(m) - i : record;

		hello_put(b, 22, 1);
		hello_put(b, 0x0303, 2);
		hello_put(b, n, 2);
		CHECK_EQ(buf_append(b, m + i, n), 0);
	}
}

static void server_says(const struct buf *b, size_t step)
{
	for (size_t i = 0; i < buf_len(b); i += step)
		hello_watch_server(&w, buf_data(b) + i,
				   buf_len(b) - i < step ? buf_len(b) - i : step);
}

/* The verdict about all of it, cut in pieces of step bytes. */
static int client_says(const void *p, size_t n, size_t step)
{
	int r = 0, found = 0;

	for (size_t at = 0, used; at < n && r >= 0; at += used) {
		r = hello_watch_client(&w, (const uint8_t *)p + at, n - at < step ? n - at : step,
				       &used, &h);
		found |= r == 1;
	}
	return r < 0 ? r : found;
}

TEST(the_servers_choice_ends_it_and_a_retry_does_not)
{
	static const uint8_t chosen[32] = "anything else";

	for (size_t record = 1; record < 45; record += 6) {
		for (size_t step = 1; step < 60; step += 11) {
			struct buf b;

			buf_init(&b, 4096);
			hello_watch_start(&w);
			/* A warning may come first. */
			CHECK_EQ(buf_append(&b, "\x15\3\3\0\2\1\x70", 7), 0);
			server_hello(&b, retry, record);
			CHECK_EQ(buf_append(&b, CCS, 6), 0);
			server_says(&b, step);
			CHECK(w.is_on && !w.is_lost);
			buf_clear(&b);
			server_hello(&b, chosen, record);
			server_says(&b, step);
			CHECK(!w.is_on);
			hello_watch_done(&w);
			buf_done(&b);
		}
	}
}

TEST(every_hello_is_seen_however_it_is_cut)
{
	for (size_t record = 0; record < 80; record += 13) {
		for (size_t step = 1; step < 120; step += 17) {
			struct buf b = {0}, all;

			buf_init(&all, 4096);
			hello_make(&b, "other.test", 0, record);
			CHECK_EQ(buf_append(&all, CCS DATA, 16), 0);
			CHECK_EQ(buf_append(&all, buf_data(&b), buf_len(&b)), 0);
			hello_watch_start(&w);
			CHECK_EQ(client_says(buf_data(&all), buf_len(&all) - 1, step), 0);
			CHECK_EQ(client_says(buf_data(&all) + buf_len(&all) - 1, 1, 1), 1);
			CHECK_STR(h.sni, "other.test");
			/* There is no third. */
			CHECK_EQ(client_says(DATA "\x16", 11, step), -EBADMSG);
			hello_watch_done(&w);
			buf_done(&b);
			buf_done(&all);
		}
	}
}

TEST(what_no_client_sends_is_refused)
{
	static const struct {
		const char *text;
		size_t n;
	} tests[] = {
		{"GET / HTTP/1.1\r\n", 1},
		{"\x80\x2e\1", 1},	       /* as SSL 2 wrote it */
		{"\x18\3\3\0\1x", 1},	       /* a heartbeat */
		{"\x16\2", 2},		       /* another major version */
		{"\x16\3\3\0\0", 5},	       /* empty */
		{"\x16\3\3\0\4\x10\0\0\0", 9}, /* another message */
		{"\x16\3\3\0\2\1\0" CCS, 13},  /* something between its records */
		{"\x17\3\3\xff\xff", 5},       /* too long */
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		hello_watch_start(&w);
		CHECK_EQ(client_says(tests[i].text, tests[i].n, 1 + i % 3), -EBADMSG);
		hello_watch_done(&w);
	}
}

TEST(a_server_that_speaks_no_tls_never_ends_it)
{
	static const char *const said[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "S", DATA};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		struct buf b;

		buf_init(&b, 4096);
		hello_watch_start(&w);
		hello_watch_server(&w, (const uint8_t *)said[i], strlen(said[i]));
		CHECK(w.is_on);
		server_hello(&b, (const uint8_t *)"01234567890123456789012345678901", 44);
		server_says(&b, 44);
		CHECK(w.is_on);
		hello_watch_done(&w);
		buf_done(&b);
	}
}
