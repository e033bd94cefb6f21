/* What is said of a request at the door. */
#include "cli/request.h"
#include "tap.h"

static void shows(const struct cove_ask *ask, const char *text)
{
	char got[256];

	door_request(ask, got, sizeof(got));
	CHECK_STR(got, text);
}

TEST(a_request_as_one_text)
{
	shows(&(struct cove_ask){.host = "::1", .port = 22}, "[::1]:22");
	shows(&(struct cove_ask){.host = "a.test"}, "a.test");
	shows(&(struct cove_ask){.method = "GET", .host = "a.test", .port = 80, .path = "/"},
	      "GET a.test:80/");
	shows(&(struct cove_ask){0}, "");
}

static void says(uint64_t for_ms, const struct cove_ask *scope, const char *text)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	CHECK_EQ(door_answer_text(&b, "allowed", for_ms, scope), 0);
	CHECK_STR(buf_cstr(&b), text);
	buf_done(&b);
}

TEST(what_was_decided)
{
	static const struct cove_ask request = {
		.host = "a.test", .port = 443, .method = "GET", .path = "/x", .query = "q=1"};
	static const struct cove_ask conn = {.host = "a.test", .port = 22};

	says(0, &request, "allowed: GET a.test:443/x?q=1\n");
	says(600000, &request, "allowed for 10 min: GET a.test:443/x, any query\n");
	says(0, &conn, "allowed: connections to a.test:22\n");
	says(0, &(struct cove_ask){.host = "a\033[2J", .port = 1},
	     "allowed: connections to a\\x1b[2J:1\n");
	/* A door that does not say what it was about. */
	says(0, NULL, "allowed\n");
	says(600000, NULL, "allowed for 10 min\n");
}

TAP_MAIN
