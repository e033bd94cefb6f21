/* Upstream connections after a request: which are used again, and what a server that reads
 * bodies in another way than it should can make of what follows. */
#include "web_rig.h"

#include "base/limits.h"

#include <sys/socket.h>

TAP_MAIN

#define RULE                                                                              \
	"version: 1\nrules:\n  - {name: all, allow: up.test, methods: [GET, HEAD, POST, " \
	"WEBSOCKET]}\n"
#define REUSE "version: 1\nrules:\n  - {name: all, allow: up.test, reuse: true, tls: intercept}\n"
#define GET   "GET /a HTTP/1.1\r\nHost: up.test\r\n\r\n"
#define OK    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
#define EVIL  "GET /evil HTTP/1.1\r\nHost: up.test\r\nX: "
#define WS                                                             \
	"GET /ws HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade\r\n" \
	"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"          \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

_Static_assert(sizeof(EVIL) - 1 == 38, "the lengths below");

/* Sends one request, has it answered, then a GET: the number of the upstream that hears that. */
static unsigned next_goes_to(const char *policy, const char *request, const char *answer)
{
	unsigned last;

	wr_open(policy, request);
	wr_settle();
	CHECK_EQ(wr.dials, 1);
	up_says(0, answer);
	(void)box_hears();
	(void)up_hears(0);
	CHECK(wr.web);
	box_says(GET);
	wr_settle();
	last = wr.up_count - 1;
	CHECK_STR(up_hears(last), GET);
	CHECK(last == 0 || wr.ups[0].ended);
	up_says(last, OK);
	CHECK_STR(box_hears(), OK);
	wr_close();
	return last;
}

/* CL.0: a server that does not read bodies takes one for the next request. Nothing follows it, and
 * what was said to the server lets it close before it reads on. */
TEST(a_body_is_the_last_on_its_connection)
{
	static const char *const bodies[] = {
		"POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 38\r\n\r\n" EVIL,
		"POST /p HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		"26\r\n" EVIL "\r\n0\r\n\r\n",
		"POST /p HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n"
		"Expect: 100-continue\r\n\r\nhi",
	};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		CHECK_EQ(next_goes_to(RULE, bodies[i], OK), 1);
		CHECK_EQ(next_goes_to(REUSE, bodies[i], OK), 0);
		wr_open(RULE, bodies[i]);
		CHECK(strstr(up_hears(0), "Connection: close\r\n\r\n"));
		wr_close();
		wr_open(REUSE, bodies[i]);
		CHECK(!strstr(up_hears(0), "Connection: close\r\n"));
		wr_close();
	}
	CHECK_EQ(next_goes_to(RULE, GET, OK), 0);
	CHECK_EQ(next_goes_to(RULE,
			      "POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 0\r\n\r\n", OK),
		 0);
	/* Where no server need look for one, no rule makes it safe. */
	CHECK_EQ(next_goes_to(REUSE,
			      "GET /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n\r\nhi",
			      OK),
		 1);
}

/* A rule that only denies paths, or no rule about requests at all, has the same to lose: the Host
 * of what stands in the body is another. */
TEST(whatever_the_rule_looks_at)
{
	static const char plain[] = "version: 1\nrules:\n  - {allow: up.test}\n";
	static const char denies[] = "version: 1\nrules:\n  - {allow: up.test}\n"
				     "  - {deny: up.test, paths: [\"/evil\"]}\n";
	static const char post[] =
		"POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n\r\nhi";

	CHECK_EQ(next_goes_to(plain, post, OK), 1);
	CHECK_EQ(next_goes_to(denies, post, OK), 1);
}

/* 0.CL: a server that waits for content where no length is given would take the next request for
 * it. */
TEST(no_body_is_said)
{
	wr_open(RULE, "POST /p HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK_STR(up_hears(0), "POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 0\r\n\r\n");
	wr_close();
	wr_open(RULE, "POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 0\r\n\r\n");
	CHECK_STR(up_hears(0), "POST /p HTTP/1.1\r\nContent-Length: 0\r\nHost: up.test\r\n\r\n");
	wr_close();
	wr_open(RULE, GET);
	CHECK_STR(up_hears(0), GET);
}

/* An answer before all of the body was sent: the rest goes nowhere. */
TEST(an_early_answer_ends_it)
{
	for (int reuse = 0; reuse < 2; reuse++) {
		wr_open(reuse ? REUSE : RULE,
			"POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 90\r\n\r\nabc");
		wr_settle();
		up_says(0, OK);
		CHECK(strstr(box_hears(), "Connection: close\r\n"));
		CHECK(wr.done && wr.ups[0].cut);
		wr_close();
	}
}

/* Interim answers: what was not asked for stays here, and there is an end to them. */
TEST(interim_answers)
{
	char many[(DOOR_INTERIM_MAX + 1) * 32] = "";

	wr_open(RULE, GET);
	wr_settle();
	up_says(0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" OK);
	CHECK_STR(box_hears(), "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" OK);
	box_says(GET);
	wr_settle();
	CHECK_EQ(wr.dials, 1);
	for (unsigned i = 0; i <= DOOR_INTERIM_MAX; i++)
		strcat(many, "HTTP/1.1 100 Continue\r\n\r\n");
	up_says(0, many);
	CHECK(strstr(box_hears(), "HTTP/1.1 502 "));
	CHECK(wr.ups[0].cut);
	wr_close();
	/* A switch that was not asked for, with and without a body under way. */
	wr_open(RULE, GET);
	wr_settle();
	up_says(0, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
	CHECK(strstr(box_hears(), "HTTP/1.1 502 ") && wr.ups[0].cut);
	wr_close();
	wr_open(RULE, "POST /p HTTP/1.1\r\nHost: up.test\r\nContent-Length: 9\r\n"
		      "Expect: 100-continue\r\n\r\n");
	wr_settle();
	up_says(0, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
	wr_settle();
	CHECK(strstr(box_hears(), "HTTP/1.1 502 ") && wr.ups[0].cut && wr.done);
}

/* What the box says after an Upgrade waits for the 101; where that does not come, it is the next
 * request, judged as such and sent elsewhere. */
TEST(a_refused_upgrade_is_the_last_on_its_connection)
{
	wr_open(RULE, WS GET);
	CHECK(!strstr(up_hears(0), "GET /a"));
	box_says("DELETE /x HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK_STR(up_hears(0), "");
	up_says(0, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
	wr_settle();
	CHECK_STR(up_hears(0), "");
	CHECK(wr.ups[0].ended);
	CHECK_STR(up_hears(1), GET);
	up_says(1, OK);
	CHECK(strstr(box_hears(), "HTTP/1.1 403 "));
	CHECK_STR(up_hears(1), "");
}

/* Bytes after an answer, and after one that has no body whatever its head says. */
TEST(bytes_after_an_answer)
{
	static const char evil[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
	static const struct {
		const char *request, *answer;
	} tests[] = {
		{GET, OK},
		{"HEAD /a HTTP/1.1\r\nHost: up.test\r\n\r\n",
		 "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"},
		{GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 40\r\n\r\n"},
		{GET, "HTTP/1.1 204 No Content\r\n\r\n"},
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		for (int late = 0; late < 2; late++) {
			char both[256];

			snprintf(both, sizeof(both), "%s%s", tests[i].answer, late ? "" : evil);
			wr_open(RULE, tests[i].request);
			wr_settle();
			up_says(0, both);
			CHECK_STR(box_hears(), tests[i].answer);
			if (late)
				up_says(0, evil);
			box_says(GET);
			CHECK_STR(up_hears(1), GET);
			up_says(1, OK);
			CHECK_STR(box_hears(), OK);
			wr_close();
		}
	}
}

/* Two rules with two credentials: a late answer to the first would be searched for the second. */
TEST(credentials_of_two_rules_go_two_ways)
{
	static const char policy[] = "version: 1\nrules:\n"
				     "  - name: one\n    allow: up.test\n    paths: [\"/a\"]\n"
				     "    inject: {headers: {X-Key: \"{{ secret.ONE }}\"}}\n"
				     "  - name: two\n    allow: up.test\n    paths: [\"/b\"]\n"
				     "    inject: {headers: {X-Key: \"{{ secret.TWO }}\"}}\n";

	wr.secrets[0] = (struct wr_secret){"ONE", "decoy-one", 0};
	wr.secrets[1] = (struct wr_secret){"TWO", "decoy-two", 0};
	wr_open(policy, GET);
	CHECK(strstr(up_hears(0), "decoy-one"));
	up_says(0, OK);
	box_says(GET);
	CHECK(strstr(up_hears(0), "decoy-one"));
	up_says(0, OK);
	box_says("GET /b HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(strstr(up_hears(1), "decoy-two") && wr.ups[0].ended);
}
