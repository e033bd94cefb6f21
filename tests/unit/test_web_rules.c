/* Requests through a web that try to be judged as something else than they are. */
#include "web_rig.h"

TAP_MAIN

#define OPEN  "version: 1\nrules:\n  - {name: all, allow: up.test, tls: intercept}\n"
#define FETCH "version: 1\nrules:\n  - {name: fetch, allow: up.test, methods: [GET, HEAD]}\n"
#define GET   "GET /a HTTP/1.1\r\nHost: up.test\r\n\r\n"
#define OK    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
#define WEBSOCKET                                                      \
	"GET /ws HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade\r\n" \
	"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"          \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

/* What the box is told, and that nothing went up. */
static void check_refused(const char *policy, const char *request, const char *status)
{
	wr_open(policy, request);
	CHECK(strncmp(box_hears(), status, strlen(status)) == 0);
	CHECK_EQ(wr.dials, 0);
	CHECK_EQ(wr_rows("request", "deny"), 1);
	wr_close();
}

static void check_sent(const char *policy, const char *request)
{
	wr_open(policy, request);
	wr_settle();
	CHECK_EQ(wr.dials, 1);
	CHECK_EQ(wr_rows("request", "allow"), 1);
	wr_close();
}

/* A server that writes methods in upper case would do another than was judged. */
TEST(methods_in_upper_case)
{
	static const char *const wrong[] = {"get",  "Get", "pOST",     "G_T",
					    "GET1", "G!T", "WEBSOCKET"};
	char request[128];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(request, sizeof(request), "%s /a HTTP/1.1\r\nHost: up.test\r\n\r\n",
			 wrong[i]);
		check_refused(OPEN, request, "HTTP/1.1 400 ");
	}
	check_sent(OPEN, "M-SEARCH /a HTTP/1.1\r\nHost: up.test\r\n\r\n");
}

/* To fetch is not to send. */
TEST(fetching_is_not_sending)
{
	static const char *const bodies[] = {
		"GET /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n\r\nhi",
		"HEAD /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n\r\nhi",
		"GET /a HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		"2\r\nhi\r\n0\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		check_refused(FETCH, bodies[i], "HTTP/1.1 400 ");
		check_sent(OPEN, bodies[i]);
	}
	check_sent(FETCH, "GET /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 0\r\n\r\n");
	check_refused(FETCH, WEBSOCKET, "HTTP/1.1 403 ");
	check_sent(OPEN, WEBSOCKET);
	check_sent("version: 1\nrules:\n  - {allow: up.test, methods: [WEBSOCKET]}\n", WEBSOCKET);
	check_refused("version: 1\nrules:\n  - {allow: up.test, methods: [WEBSOCKET]}\n", GET,
		      "HTTP/1.1 403 ");
}

/* What is under way, with a policy that comes then: true if it goes on. */
static bool goes_on(const char *policy, const char *request, const char *then)
{
	bool is_on;

	wr_open(policy, request);
	wr_settle();
	CHECK_EQ(wr.dials, 1);
	wr_policy(then);
	is_on = wr.web != NULL;
	CHECK(is_on || (wr.ups[0].cut && wr_rows("done", "cut") == 1));
	wr_close();
	return is_on;
}

#define NO_ADMIN OPEN "  - {name: no, deny: up.test, paths: [\"/admin**\"]}\n"

/* A path that no rule looked at is still judged in its one form when one comes. */
TEST(paths_under_a_new_policy)
{
	CHECK(goes_on(OPEN, "GET /a//b HTTP/1.1\r\nHost: up.test\r\n\r\n", NO_ADMIN));
	CHECK(!goes_on(OPEN, "GET /admin HTTP/1.1\r\nHost: up.test\r\n\r\n", NO_ADMIN));
	CHECK(!goes_on(OPEN, "GET /a/../admin HTTP/1.1\r\nHost: up.test\r\n\r\n", NO_ADMIN));
	CHECK(!goes_on(OPEN, "GET /%61dmin HTTP/1.1\r\nHost: up.test\r\n\r\n", NO_ADMIN));
	/* It has none. */
	CHECK(!goes_on(OPEN, "GET /x%2f..%2fadmin HTTP/1.1\r\nHost: up.test\r\n\r\n", NO_ADMIN));
	CHECK(goes_on(OPEN, "GET /@a%2fb HTTP/1.1\r\nHost: up.test\r\n\r\n", OPEN));
	/* And is sent as it came where no rule looks. */
	wr_open(OPEN, "GET /@a%2fb//c HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(strstr(up_hears(0), "GET /@a%2fb//c HTTP/1.1\r\n"));
}

/* The proxy of Go modules signs an address with "%21" in it: "!" there would be another one. */
TEST(signed_paths_stay_as_they_are)
{
	wr_open(NO_ADMIN, "GET /p/a-%21b%3Ac.zip?Signature=x HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(strstr(up_hears(0), "GET /p/a-%21b%3Ac.zip?Signature=x HTTP/1.1\r\n"));
	wr_close();
	wr_open(NO_ADMIN, "GET /p/%61/./%21 HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK(strstr(up_hears(0), "GET /p/a/! HTTP/1.1\r\n"));
	wr_close();
}

TEST(methods_under_a_new_policy)
{
	CHECK(!goes_on(OPEN, "GET /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 5\r\n\r\nh",
		       FETCH));
	CHECK(!goes_on(OPEN, WEBSOCKET, FETCH));
	CHECK(goes_on(OPEN, GET, FETCH));
}

/* The address that the host led to may be denied by itself. */
TEST(a_denied_address_is_cut)
{
	CHECK(!goes_on(OPEN, GET, OPEN "  - {deny: 93.184.216.34, ports: any}\n"));
	CHECK(!goes_on(OPEN, GET, OPEN "  - {deny: 93.184.0.0/16}\n"));
	CHECK(goes_on(OPEN, GET, OPEN "  - {deny: 93.185.0.0/16}\n"));
	CHECK(goes_on(OPEN, GET, OPEN "  - {deny: 93.184.216.34, ports: [80]}\n"));
}

/* A request with a credential never follows one without on a connection, nor the other way. */
TEST(credentials_go_their_own_way)
{
	static const char policy[] = "version: 1\nrules:\n"
				     "  - {name: put, allow: up.test, methods: [PUT]}\n"
				     "  - name: cred\n    allow: up.test\n    methods: [GET]\n"
				     "    inject: {headers: {X-Key: \"{{ secret.TOK }}\"}}\n";

	wr.secrets[0] = (struct wr_secret){"TOK", "decoy-4711", 0};
	wr_open(policy, "PUT /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n\r\nhi");
	wr_settle();
	up_says(0, OK);
	box_says(GET);
	CHECK(strstr(up_hears(1), "decoy-4711") && wr.ups[0].freed);
	up_says(1, OK);
	box_says(GET);
	CHECK(strstr(up_hears(1), "decoy-4711"));
	up_says(1, OK);
	box_says("PUT /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2\r\n\r\nhi");
	CHECK(strstr(up_hears(2), "PUT /a"));
	CHECK_EQ(wr.dials, 3);
}

/* Where a secret is kept is no business of the box: only the audit log says why there is none. */
TEST(why_there_is_no_credential)
{
	const char *heard;

	wr_open("version: 1\nrules:\n  - name: cred\n    allow: up.test\n"
		"    inject: {headers: {X-Key: \"{{ secret.TOK }}\"}}\n",
		GET);
	heard = box_hears();
	CHECK(strstr(heard, "HTTP/1.1 502 ") && strstr(heard, "rule 'cred'"));
	CHECK(strstr(heard, "the audit log says why") && !strstr(heard, "there is no secret"));
	CHECK(strstr(wr_row("request", "deny")->reason, "there is no secret"));
	wr_close();
	wr.record_fails = true;
	wr_open(OPEN, GET);
	heard = box_hears();
	CHECK(strstr(heard, "could not be recorded") && !strstr(heard, "disk full"));
}
