/* Exchanges through a web: what each side says and hears, byte for byte. */
#include "web_rig.h"

#include "base/str.h"

#include "base/limits.h"

#include <errno.h>
#include <sys/socket.h>

TAP_MAIN

#define ALLOW                  \
	"version: 1\n"         \
	"rules:\n"             \
	"  - name: all\n"      \
	"    allow: up.test\n" \
	"    tls: intercept\n" \
	"  - name: no admin\n" \
	"    deny: up.test\n"  \
	"    paths: [\"/admin**\"]\n"

#define GET	 "GET /a HTTP/1.1\r\nHost: up.test\r\n\r\n"
#define GET_SENT "GET /a HTTP/1.1\r\nHost: up.test\r\n\r\n"
#define OK	 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
#define CLOSED	 "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"

static bool begins(const char *text, const char *with)
{
	if (strncmp(text, with, strlen(with)) == 0)
		return true;
	printf("# begins with: %.200s\n", text);
	return false;
}

TEST(one_request)
{
	wr_open(ALLOW, NULL);
	box_says("GET /a?x=1 HTTP/1.1\r\nHost: UP.test:443\r\nUser-Agent: t\r\n"
		 "Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Foo: "
		 "1\r\n\r\n");
	CHECK_STR(up_hears(0), "GET /a?x=1 HTTP/1.1\r\nUser-Agent: t\r\nHost: up.test\r\n\r\n");
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: 3\r\nX: y\r\n\r\nhi");
	CHECK_STR(box_hears(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nhi");
	CHECK_EQ(wr_rows("request", "allow"), 1);
	CHECK_STR(wr_row("request", "allow")->path, "/a");
	CHECK_EQ(wr_row("done", "ok")->about, 1);
	CHECK_EQ(wr_row("done", "ok")->status, 200);
	CHECK_EQ(wr_row("done", "ok")->up, strlen("GET /a?x=1 HTTP/1.1\r\nUser-Agent: t\r\n"
						  "Host: up.test\r\n\r\n"));
	CHECK_EQ(wr_row("done", "ok")->down,
		 strlen("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nhi"));
	box_ends();
	wr_settle();
	CHECK(wr.done && wr.box.freed && !wr.box.cut && wr.ups[0].freed);
}

TEST(kept_and_pipelined)
{
	wr_open(ALLOW, GET);
	box_says(GET GET);
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0, OK);
	CHECK_STR(up_hears(0), GET_SENT);
	CHECK_STR(box_hears(), OK);
	up_says(0, OK);
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0, OK);
	CHECK_STR(box_hears(), OK OK);
	CHECK_EQ(wr.dials, 1);
	CHECK_EQ(wr_rows("done", "ok"), 3);
	/* Nothing is asked of anybody while nothing happens. */
	wr.box.turns = wr.ups[0].turns = 0;
	wr_settle();
	CHECK_EQ(wr.box.turns + wr.ups[0].turns, 0);
}

TEST(denied_then_allowed)
{
	wr_open(ALLOW, NULL);
	box_says("GET /admin/x HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(begins(box_hears(), "HTTP/1.1 403 Denied by Cove policy\r\n"));
	CHECK_EQ(wr.dials, 0);
	CHECK_STR(wr_row("request", "deny")->rule, "no admin");
	/* Spellings of the same path. */
	box_says("GET /x/..//%61dmin HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(begins(box_hears(), "HTTP/1.1 403 Denied by Cove policy\r\n"));
	box_says(GET);
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0, OK);
	CHECK_STR(box_hears(), OK);
	/* A denied one does not cost the upstream that is kept; one with a body costs the box's. */
	box_says("POST /admin HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n\r\nabc" GET);
	CHECK(begins(box_hears(), "HTTP/1.1 403 Denied by Cove policy\r\n"));
	CHECK(wr.done && wr.box.ended && wr.dials == 1);
	CHECK_STR(up_hears(0), "");
}

TEST(refused)
{
	static const struct {
		const char *says, *hears;
	} tests[] = {
		{"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
		 "HTTP/1.1 421 Misdirected Request\r\n"},
		{"GET / HTTP/1.1\r\nHost: up.test:8443\r\n\r\n", "HTTP/1.1 421 "},
		{"GET https://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n", "HTTP/1.1 421 "},
		{"GET http://up.test/ HTTP/1.1\r\nHost: up.test\r\n\r\n", "HTTP/1.1 400 "},
		{"CONNECT up.test:443 HTTP/1.1\r\nHost: up.test:443\r\n\r\n", "HTTP/1.1 400 "},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 HTTP Version Not Supported\r\n"},
		{"TRACE / HTTP/1.1\r\nHost: up.test\r\n\r\n", "HTTP/1.1 501 "},
		{"GET /a%2fb HTTP/1.1\r\nHost: up.test\r\n\r\n", "HTTP/1.1 400 "},
		{"GET /a;b HTTP/1.1\r\nHost: up.test\r\n\r\n", "HTTP/1.1 400 "},
		{"POST / HTTP/1.1\r\nHost: up.test\r\nContent-Length: 1\r\n"
		 "Transfer-Encoding: chunked\r\n\r\n",
		 "HTTP/1.1 400 "},
		{"\x16\x03\x01", "HTTP/1.1 400 "},
		{"POST / HTTP/1.1\r\nHost: up.test\r\nContent-Length: 1\r\nExpect: 200-ok\r\n\r\n",
		 "HTTP/1.1 417 Expectation Failed\r\n"},
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		const char *text;

		wr_open(ALLOW, NULL);
		box_says(tests[i].says);
		text = box_hears();
		CHECK(begins(text, tests[i].hears));
		CHECK(strstr(text, "Connection: close\r\n") && strstr(text, "\"message\":"));
		CHECK(wr.done && wr.box.ended && wr.dials == 0);
		CHECK_EQ(wr_rows("request", "deny"), 1);
		wr_close();
	}
}

TEST(h2c_is_not_asked_for)
{
	wr_open(ALLOW, NULL);
	box_says("GET /a HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
		 "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n\r\n");
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
	CHECK(begins(box_hears(), "HTTP/1.1 502 "));
	CHECK(wr.ups[0].cut);
}

/* Any cut of the bytes gives the same. */
TEST(bodies_in_any_cut)
{
	for (wr.chunk = 0; wr.chunk < 9;) {
		size_t chunk = wr.chunk;

		wr_open(ALLOW, NULL);
		box_says("POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 5\r\n\r\nhello"
			 "PUT /q HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: chunked\r\n\r\n"
			 "5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\n\r\n");
		CHECK_STR(up_hears(0), "POST /p HTTP/1.1\r\nContent-Length: 5\r\nHost: up.test\r\n"
				       "Connection: close\r\n\r\nhello");
		up_says(0, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
			   "3\r\nabc\r\n0\r\nX-End: 2\r\n\r\n");
		CHECK(begins(up_hears(1), "PUT /q HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: "
					  "chunked\r\nConnection: close\r\n\r\n"));
		up_says(1, "HTTP/1.1 204 No Content\r\n\r\n");
		if (chunk == 0)
			CHECK_STR(box_hears(), "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked"
					       "\r\n\r\n3\r\nabc\r\n0\r\nX-End: 2\r\n\r\n"
					       "HTTP/1.1 204 No Content\r\n\r\n");
		wr_settle();
		CHECK_EQ(wr_rows("done", "ok"), 2);
		CHECK_EQ(wr.dials, 2);
		wr_close();
		wr.chunk = chunk + 1;
	}
}

TEST(expect_continue)
{
	wr_open(ALLOW, NULL);
	box_says("POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n"
		 "Expect: 100-continue\r\n\r\n");
	CHECK(strstr(up_hears(0), "Expect: 100-continue\r\n"));
	up_says(0, "HTTP/1.1 100 Continue\r\n\r\n");
	CHECK_STR(box_hears(), "HTTP/1.1 100 Continue\r\n\r\n");
	box_says("abc");
	CHECK_STR(up_hears(0), "abc");
	up_says(0, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK);
	CHECK_STR(box_hears(), "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK);
	CHECK(!wr.done);
}

TEST(early_answer)
{
	wr_open(ALLOW, NULL);
	box_says("POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 1000000\r\n\r\nabc");
	up_hears(0);
	up_says(0, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
	CHECK_STR(box_hears(), "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n"
			       "Connection: close\r\n\r\nno");
	CHECK(wr.done && wr.box.freed && !wr.box.cut && wr.ups[0].cut);
	CHECK_EQ(wr_rows("done", "ok"), 1);
}

/* It answers, reads no more and closes: the answer still comes. */
TEST(early_answer_of_a_deaf_upstream)
{
	char *body = calloc(1, 4 << 20);

	CHECK(body);
	wr_open(ALLOW, NULL);
	box_says("POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 4194304\r\n\r\nabc");
	wr_settle();
	wr.ups[0].deaf = true;
	up_says(0, "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");
	shutdown(wr.ups[0].fd, SHUT_RD);
	box_says_bytes(body, 1 << 20);
	CHECK_STR(box_hears(),
		  "HTTP/1.1 401 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
	free(body);
}

TEST(answers_without_a_body)
{
	wr_open(ALLOW, NULL);
	box_says("HEAD /a HTTP/1.1\r\nHost: up.test\r\n\r\n");
	wr_settle();
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n");
	CHECK_STR(box_hears(), "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n");
	box_says(GET);
	wr_settle();
	up_says(0, "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n");
	CHECK_STR(box_hears(), "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n");
	box_says(GET);
	wr_settle();
	up_says(0, "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK_STR(box_hears(), "HTTP/1.1 204 No Content\r\n\r\n");
	CHECK_EQ(wr.dials, 1);
	/* Bytes that nobody asked for are not the next answer. */
	up_says(0, OK);
	wr_settle();
	CHECK(wr.ups[0].ended);
	box_says(GET);
	wr_settle();
	CHECK_EQ(wr.dials, 2);
}

TEST(old_client)
{
	wr_open(ALLOW, NULL);
	box_says("GET /a HTTP/1.0\r\nHost: up.test\r\nConnection: keep-alive\r\n\r\n");
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
		   "\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n");
	CHECK_STR(box_hears(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi");
	CHECK(wr.done && wr.box.freed && !wr.box.cut);
}

TEST(until_close)
{
	for (int broken = 0; broken < 2; broken++) {
		wr_open(ALLOW, GET);
		wr_settle();
		up_says(0, "HTTP/1.0 200 OK\r\n\r\nhalf");
		CHECK_STR(box_hears(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
				       "4\r\nhalf\r\n");
		wr.ups[0].break_end = broken;
		up_ends(0);
		CHECK_STR(box_hears(), broken ? "" : "0\r\n\r\n");
		CHECK_EQ(wr.box.cut, broken);
		CHECK_EQ(wr_rows("done", "ok"), !broken);
		CHECK_EQ(wr_rows("done", "failed"), broken);
		wr_close();
	}
}

TEST(cut_within_a_body)
{
	for (int chunked = 0; chunked < 2; chunked++) {
		wr_open(ALLOW, GET);
		wr_settle();
		up_says(0, chunked ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
				   : "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
		up_ends(0);
		wr_settle();
		CHECK(wr.done && wr.box.cut && wr_rows("done", "failed") == 1);
		wr_close();
	}
}

/* All of it was there when the connection broke. */
TEST(whole_answer_then_reset)
{
	wr_open(ALLOW, GET);
	wr_settle();
	wr.ups[0].break_end = true;
	up_says(0, OK);
	up_ends(0);
	CHECK_STR(box_hears(), OK);
	CHECK(!wr.done && wr_rows("done", "ok") == 1);
	box_says(GET);
	CHECK_STR(up_hears(1), GET_SENT);
	up_says(1, OK);
	CHECK_STR(box_hears(), OK);
}

TEST(kept_upstream_closes)
{
	wr_open(ALLOW, GET);
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0, OK);
	CHECK_STR(box_hears(), OK);
	box_says(GET);
	CHECK_STR(up_hears(0), GET_SENT);
	/* It was sent, so it is not sent again: the box's program decides. */
	up_ends(0);
	CHECK_STR(box_hears(), "");
	CHECK(wr.done && wr.box.cut && wr.dials == 1 && wr_rows("done", "failed") == 1);
	wr_close();
	/* A fresh one that says nothing is a bad gateway. */
	wr_open(ALLOW, GET);
	wr_settle();
	up_ends(0);
	CHECK(begins(box_hears(), "HTTP/1.1 502 Bad Gateway\r\n"));
	CHECK(!wr.done && wr.dials == 1);
}

/* An answer that was there before its request was is none. */
TEST(answer_before_its_request)
{
	wr_open(ALLOW, GET GET);
	CHECK_STR(up_hears(0), GET_SENT);
	up_says(0, OK "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	CHECK_STR(up_hears(1), GET_SENT);
	up_says(1, OK);
	CHECK_STR(box_hears(), OK OK);
	/* Also where it comes while the row is written. */
	box_says(GET);
	CHECK_EQ(send(wr.ups[1].fd, OK, strlen(OK), 0), (ssize_t)strlen(OK));
	wr_settle();
	CHECK_STR(box_hears(), "");
	CHECK_STR(up_hears(2), GET_SENT);
}

TEST(dial_fails)
{
	memcpy(wr.address, (uint8_t[]){127, 0, 0, 1}, 4);
	wr_open(ALLOW, GET);
	CHECK(begins(box_hears(), "HTTP/1.1 403 Denied by Cove policy\r\n"));
	CHECK_EQ(wr_rows("done", "failed"), 1);
	CHECK(strstr(wr_row("connect", "deny")->reason, "loopback"));
	memset(wr.address, 0, 4);
	wr.connect_error = ENETUNREACH;
	box_says("POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n\r\nabc");
	CHECK(begins(box_hears(), "HTTP/1.1 502 Bad Gateway\r\n"));
	CHECK(wr.done && wr.up_count == 0);
}

TEST(a_rule_may_allow_a_private_address)
{
	memcpy(wr.address, (uint8_t[]){127, 0, 0, 1}, 4);
	wr_open("version: 1\nrules:\n  - {allow: up.test, tls: intercept, private: true}\n", GET);
	CHECK_STR(up_hears(0), GET_SENT);
}

/* Nothing went there yet, so it serves as if it had been dialled for the request. */
TEST(an_upstream_that_is_there_already_is_used)
{
	wr.plain = wr.has_up = true;
	wr_open(ALLOW, GET);
	CHECK(begins(up_hears(0), "GET /a"));
	CHECK_EQ(wr.dials, 0);
}

TEST(an_upstream_of_an_older_policy_is_not_used)
{
	wr.plain = wr.has_up = true;
	wr_open(ALLOW, NULL);
	wr_settle();
	wr_policy(ALLOW);
	box_says(GET);
	CHECK(begins(up_hears(1), "GET /a"));
	CHECK(wr.ups[0].freed && wr.dials == 1);
}

TEST(no_row_no_request)
{
	wr.record_fails = true;
	wr_open(ALLOW, GET);
	CHECK(begins(box_hears(), "HTTP/1.1 502 "));
	CHECK_EQ(wr.dials, 0);
}

#define ASK                   \
	"version: 1\n"        \
	"rules:\n"            \
	"  - name: careful\n" \
	"    ask: up.test\n"  \
	"    tls: intercept\n"

TEST(what_is_allowed_after_its_client_left_is_not_sent)
{
	static const char post[] = "POST /p HTTP/1.1\r\nHost: up.test\r\n"
				   "Content-Length: 3\r\n\r\nabc";
	struct err e;

	for (unsigned broken = 0; broken < 2; broken++) {
		wr_open(ASK, post);
		wr.box.break_end = broken;
		wr_settle();
		CHECK_EQ(asks_count(&wr.door), 1);
		box_ends();
		wr_settle();
		CHECK_EQ(asks_count(&wr.door), 0);
		CHECK_STR(wr_row("answer", "cut")->reason, "the box gave it up");
		CHECK_EQ(ask_answer(&wr.door, 1, true, 0, "t", &e), -ENOENT);
		wr_settle();
		CHECK(wr.done && wr.dials == 0);
		CHECK_EQ(wr_rows("request", "allow"), 0);
		wr_close();
	}
	/* Who still waits is sent for, with all that it said meanwhile. */
	wr_open(ASK, "POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n\r\n");
	wr_settle();
	box_says("abc");
	wr_settle();
	CHECK_EQ(ask_answer(&wr.door, 1, true, 0, "t", &e), 0);
	CHECK_STR(up_hears(0), "POST /p HTTP/1.1\r\nContent-Length: 3\r\nHost: up.test\r\n"
			       "Connection: close\r\n\r\nabc");
}

TEST(half_a_request)
{
	wr_open(ALLOW, "GET / HTT");
	box_ends();
	wr_settle();
	CHECK(wr.done && wr.box.cut);
	wr_close();
	wr_open(ALLOW, "POST / HTTP/1.1\r\nHost: up.test\r\nContent-Length: 9\r\n\r\nabc");
	wr_settle();
	box_ends();
	CHECK(begins(box_hears(), "HTTP/1.1 400 "));
	CHECK(wr.ups[0].cut && wr_rows("done", "failed") == 1);
	wr_close();
	/* One whole request and then the end: the answer still comes. */
	wr_open(ALLOW, GET);
	box_ends();
	wr_settle();
	up_says(0, OK);
	CHECK_STR(box_hears(), OK);
	CHECK(wr.done && !wr.box.cut);
}

TEST(slow_readers_hold_back)
{
	size_t n = 0;
	uint8_t block[65536] = {0};
	ssize_t r = 1;

	wr_open(ALLOW, GET);
	wr_settle();
	wr.box.deaf = true;
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
	for (unsigned quiet = 0; quiet<3; quiet = r> 0 ? 0 : quiet + 1) {
		r = send(wr.ups[0].fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);
		n += r > 0 ? (size_t)r : 0;
		wr_settle();
		CHECK(n < 4 << 20);
	}
	wr.box.turns = wr.ups[0].turns = 0;
	wr_settle();
	CHECK_EQ(wr.box.turns + wr.ups[0].turns, 0);
	wr_close();
	wr_open(ALLOW, "POST / HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		       "1000000\r\n");
	wr_settle();
	wr.ups[0].deaf = true;
	n = 0;
	for (unsigned quiet = 0; quiet<3; quiet = r> 0 ? 0 : quiet + 1) {
		r = send(wr.box.fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);
		n += r > 0 ? (size_t)r : 0;
		wr_settle();
		CHECK(n < 4 << 20);
	}
}

/* So many of them at once make no more rows than one for each connection. */
TEST(a_denial_is_told_when_its_row_is_written)
{
	wr_open(ALLOW, NULL);
	wr.record_fails = true;
	box_says("GET /admin HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(begins(box_hears(), "HTTP/1.1 502 "));
}

/* Denied ones are answered no faster than they are read. */
TEST(pipelined_denials_are_bounded)
{
	static const char one[] = "GET /admin HTTP/1.1\r\nHost: up.test\r\n\r\n";
	unsigned n = 0, heard = 0;

	wr_open(ALLOW, NULL);
	wr.box.deaf = true;
	for (unsigned quiet = 0; quiet < 3 && n < 3000; wr_settle()) {
		ssize_t r = send(wr.box.fd, one, sizeof(one) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);

		CHECK(r < 0 || r == (ssize_t)sizeof(one) - 1);
		n += r > 0;
		quiet = r > 0 ? 0 : quiet + 1;
	}
	wr.box.deaf = false;
	for (const char *at = box_hears(); (at = strstr(at, "HTTP/1.1 403 ")); at++)
		heard++;
	CHECK_EQ(heard, n);
	CHECK(!wr.done);
}

TEST(events_come_at_once)
{
	wr_open(ALLOW, GET);
	wr_settle();
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
		   "Transfer-Encoding: chunked\r\n\r\n");
	CHECK(strstr(box_hears(), "text/event-stream"));
	for (int i = 0; i < 3; i++) {
		up_says(0, "8\r\ndata: x\n\r\n");
		CHECK_STR(box_hears(), "8\r\ndata: x\n\r\n");
	}
}

#define WS                                                             \
	"GET /ws HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade\r\n" \
	"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"          \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define WS_OK                                                                               \
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

TEST(websocket)
{
	for (int who = 0; who < 2; who++) {
		wr_open(ALLOW, WS);
		CHECK(strstr(up_hears(0), "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
		up_says(0, WS_OK "\x81\x05hello");
		CHECK(strstr(box_hears(), "\r\n\r\n\x81\x05hello"));
		box_says("\x81\x82\x01\x02\x03\x04pq");
		CHECK_STR(up_hears(0), "\x81\x82\x01\x02\x03\x04pq");
		box_says_bytes("\x88\x80\x01\x02\x03\x04", 6);
		up_says_bytes(0, "\x88\x00", 2);
		wr_settle();
		CHECK(!wr.done);
		wr.ups[0].break_end = true; /* after a close that is as good as a clean end */
		if (who)
			up_ends(0);
		else
			box_ends();
		wr_settle();
		CHECK(who ? wr.box.ended : wr.ups[0].ended);
		CHECK(!wr.done);
		if (who)
			box_ends();
		else
			up_ends(0);
		wr_settle();
		CHECK(wr.done && !wr.box.cut && !wr.ups[0].cut && wr_rows("done", "ok") == 1);
		wr_close();
	}
}

TEST(websocket_refused)
{
	wr_open(ALLOW, WS);
	wr_settle();
	up_says(0, WS_OK "\x81\x85hello");
	wr_settle();
	CHECK(wr.done && wr.box.cut && wr.ups[0].cut);
	wr_close();
	wr_open(ALLOW, WS);
	wr_settle();
	up_says(0, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		   "Connection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n");
	CHECK(begins(box_hears(), "HTTP/1.1 502 "));
	wr_close();
	wr_open(ALLOW, WS);
	wr_settle();
	up_says(0, OK);
	CHECK_STR(box_hears(), OK);
	CHECK(!wr.done);
}

TEST(times)
{
	wr_open(ALLOW, "GET");
	wr_settle();
	wr.now += DOOR_HEAD_MS / 2;
	box_says(" /");
	wr_settle();
	CHECK(!wr.done);
	wr.now += DOOR_HEAD_MS / 2 + 1;
	wr_settle();
	CHECK(wr.done && wr.box.cut);
	wr_close();
	wr_open(ALLOW, GET);
	wr_settle();
	wr.now += DOOR_CONNECT_MS + 1;
	wr_settle();
	CHECK(!wr.done); /* the head went out: now it is the answer's turn */
	wr.now += DOOR_IDLE_MS;
	CHECK(begins(box_hears(), "HTTP/1.1 504 "));
	wr.now += DOOR_IDLE_MS + 1;
	wr_settle();
	CHECK(wr.done && !wr.box.cut);
}

TEST(proxied_is_one_request)
{
	wr.plain = wr.proxied = true;
	wr_open(ALLOW, "GET http://up.test:443/a HTTP/1.1\r\nHost: up.test:443\r\n"
		       "Proxy-Connection: keep-alive\r\n\r\n");
	CHECK_STR(up_hears(0), "GET /a HTTP/1.1\r\nHost: up.test:443\r\n\r\n");
	up_says(0, OK);
	CHECK_STR(box_hears(), CLOSED);
	CHECK(wr.done);
}

TEST(odd_body)
{
	wr_open(ALLOW, "GET /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n\r\nabc");
	CHECK(strstr(up_hears(0), "Connection: close\r\n\r\nabc"));
	up_says(0, OK);
	CHECK_STR(box_hears(), OK);
	box_says(GET);
	wr_settle();
	CHECK_EQ(wr.dials, 2);
}

static void mutate(char *text, size_t n, unsigned count)
{
	static unsigned state = 7;

	for (unsigned k = 0; k < count; k++) {
		state = state * 1103515245 + 12345;
		text[(state >> 8) % n] = (char)(state >> 16);
	}
}

/* What the upstream hears, and what it heard that it answered. */
static char *run_cut(const char *text, size_t n, size_t chunk)
{
	char *heard;
	const char *box;

	wr.chunk = chunk;
	wr_open(ALLOW, NULL);
	box_says_bytes(text, n);
	wr_settle();
	for (size_t answered = 0; wr.up_count && buf_len(&wr.ups[0].got) > answered; wr_settle()) {
		answered = buf_len(&wr.ups[0].got);
		up_says(0, OK);
	}
	box_ends();
	wr_settle();
	heard = strdup(wr.up_count ? up_hears(0) : "");
	box = box_hears();
	CHECK(heard && (*heard == 0 || strncmp(heard, "POST ", 5) == 0 || strstr(heard, "\r\n")));
	heard = realloc(heard, strlen(heard) + strlen(box) + 1);
	CHECK(heard);
	strcat(heard, box);
	wr_close();
	return heard;
}

/* However hostile, how the bytes are cut does not change what either side hears. */
TEST(mutations)
{
	static const char seed[] = "POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 3\r\n"
				   "Connection: keep-alive\r\n\r\nabc" GET;

	for (unsigned n = 0; n < 600; n++) {
		char text[sizeof(seed)], *whole, *cut;

		memcpy(text, seed, sizeof(seed));
		mutate(text, sizeof(seed) - 1, 1 + n % 3);
		whole = run_cut(text, sizeof(seed) - 1, 0);
		cut = run_cut(text, sizeof(seed) - 1, 1 + n % 7);
		CHECK_STR(cut, whole);
		free(whole);
		free(cut);
	}
}

/* The same with chunks, and an upstream that is as bad. */
TEST(mutations_of_both_sides)
{
	static const char request[] = "POST /p HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: "
				      "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" GET;
	static const char answer[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc"
				     "\r\n0\r\nX: y\r\n\r\n" OK;

	for (unsigned n = 0; n < 600; n++) {
		char text[sizeof(request)], said[sizeof(answer)];

		memcpy(text, request, sizeof(request));
		memcpy(said, answer, sizeof(answer));
		if (n % 2)
			mutate(text, sizeof(request) - 1, 1 + n % 3);
		mutate(said, sizeof(answer) - 1, n % 4);
		wr.chunk = n % 5;
		wr_open(ALLOW, NULL);
		box_says_bytes(text, sizeof(request) - 1);
		wr_settle();
		for (unsigned i = 0; i < wr.up_count; i++)
			up_says_bytes(i, said, sizeof(answer) - 1);
		box_ends();
		wr_settle();
		/* What was pipelined may be tried with another. */
		for (unsigned i = 0; i < wr.up_count; i++) {
			up_ends(i);
			wr_settle();
		}
		CHECK(wr.done);
		wr_close();
	}
}

/* HTTP/2 from either side: the sentence says what it is, and what to do. */
TEST(http2_is_named)
{
	static const char settings[] = "\0\0\6\4\0\0\0\0\0\0\3\0\0\0\x64";
	const char *heard;

	wr_open(ALLOW, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	heard = box_hears();
	CHECK(str_starts(heard, "HTTP/1.1 505 ") && strstr(heard, "tls: pass"));
	CHECK(strstr(wr_row("request", "deny")->reason, "HTTP/2"));
	wr_close();
	wr_open(ALLOW, "GET / HTTP/1.1\r\nHost: up.test\r\n\r\n");
	wr_settle();
	up_says_bytes(0, settings, sizeof(settings) - 1);
	heard = box_hears();
	CHECK(str_starts(heard, "HTTP/1.1 502 ") && strstr(heard, "tls: pass"));
	CHECK(strstr(wr_row("done", "failed")->reason, "HTTP/2"));
}
