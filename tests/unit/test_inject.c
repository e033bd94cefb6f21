/* What a rule injects, by itself: with the broker's double of web_rig.h. */
#include "web_rig.h"

#include "http_script.h"

#include "door/redact.h"

#include "door/inject.h"

TAP_MAIN

static struct injection *it;
static int result;
static unsigned answers;
static struct err why;

static void on_done(void *arg, int r, struct err *e)
{
	answers++;
	result = r;
	if (r < 0)
		why = *e;
}

static const struct rule *rule_of(const char *method)
{
	struct request r = {.method = method, .path = "/a"};
	struct verdict v;
	struct host h;

	CHECK_EQ(host_parse(&h, "up.test"), 0);
	decision_make(wr.door.policy, NULL, &(struct subject){SUBJECT_REQUEST, &h, 443, &r}, 1, &v);
	CHECK(v.rule);
	return v.rule;
}

static void start(const char *inject)
{
	char text[1024];

	answers = 0;
	snprintf(text, sizeof(text), "version: 1\nrules:\n  - name: cred\n    allow: up.test\n%s",
		 inject);
	wr_open(text, NULL);
	CHECK_EQ(injection_start(&it, wr.door.broker, rule_of("GET"), on_done, NULL), 0);
	CHECK_EQ(answers, 0);
	wr_settle();
}

static void end(void)
{
	injection_free(it);
	wr_close();
}

static void request(struct http_head *h, const char *text)
{
	size_t used;

	*h = (struct http_head){0};
	CHECK_EQ(http_request_parse(h, text, strlen(text), HTTP_TEST_LIMITS, &used, NULL), 1);
}

static const char *written(const struct http_head *h)
{
	static struct buf out;

	buf_done(&out);
	buf_init(&out, 1 << 20);
	CHECK_EQ(http_head_write(h, &out), 0);
	return buf_cstr(&out);
}

TEST(several_secrets)
{
	struct http_head h;

	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	wr.secrets[1] = (struct wr_secret){"B", "two", 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}-{{secret.B}}-{{ secret.A }}\", "
	      "X-Plain: here}, query: {k: \"{{ secret.B }}\"}}\n");
	CHECK(answers == 1 && result == 0);
	CHECK_STR(injection_names(it), "A,B");
	CHECK(!injection_identity(it));
	request(&h,
		"GET /p HTTP/1.1\r\nHost: h\r\nx-a: mine\r\nX_A: mine\r\nX-Plain: mine\r\n\r\n");
	CHECK_EQ(injection_apply(it, &h, NULL), 0);
	CHECK_STR(written(&h), "GET /p?k=two HTTP/1.1\r\nHost: h\r\nX-A: one-two-one\r\n"
			       "X-Plain: here\r\nAccept-Encoding: identity\r\n\r\n");
	http_head_done(&h);
	end();
}

/* Whatever would make the answer a part, a delta or another charset: it could not be searched. */
TEST(answers_come_whole_and_plain)
{
	struct http_head h;

	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n");
	CHECK(answers == 1 && result == 0);
	request(&h, "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\nIf-Range: x\r\n"
		    "Request-Range: bytes=1-\r\nA-IM: vcdiff\r\nAccept-Charset: utf-16\r\n"
		    "Accept-Encoding: gzip\r\n\r\n");
	CHECK_EQ(injection_apply(it, &h, NULL), 0);
	CHECK_STR(written(&h), "GET / HTTP/1.1\r\nHost: h\r\nX-A: one\r\n"
			       "Accept-Encoding: identity\r\n\r\n");
	http_head_done(&h);
	end();
}

/* The rule gives up that halves of a credential are found. */
TEST(ranges_where_the_rule_says_so)
{
	struct http_head h;

	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n    ranges: true\n");
	CHECK(answers == 1 && result == 0);
	request(&h, "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\nIf-Range: x\r\n\r\n");
	CHECK_EQ(injection_apply(it, &h, NULL), 0);
	CHECK_STR(written(&h), "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\nIf-Range: x\r\n"
			       "X-A: one\r\nAccept-Encoding: identity\r\n\r\n");
	http_head_done(&h);
	end();
}

/* Nothing secret in it: nothing is searched for, and nothing narrowed. */
TEST(without_a_secret)
{
	struct http_head h;

	start("    inject: {headers: {X-Team: blue}}\n");
	CHECK(answers == 1 && result == 0);
	request(&h,
		"GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nRange: bytes=1-\r\n\r\n");
	CHECK_EQ(injection_apply(it, &h, NULL), 0);
	CHECK_STR(written(&h), "GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n"
			       "Range: bytes=1-\r\nX-Team: blue\r\n\r\n");
	http_head_done(&h);
	end();
}

/* Its key stays here, and its certificate is no secret: requests pass as they are. */
TEST(a_certificate_alone)
{
	struct http_head h;
	uint8_t text[] = "one two";

	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	wr.secrets[1] = (struct wr_secret){"B", "two", 0};
	start("    client_cert: {cert: \"{{ secret.A }}\", key: \"{{ secret.B }}\"}\n");
	CHECK(answers == 1 && result == 0);
	CHECK(injection_identity(it) && !injection_is_searched(it));
	CHECK_STR(injection_names(it), "A,B");
	request(&h, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: mine\r\nAccept-Encoding: gzip\r\n"
		    "Range: bytes=1-\r\n\r\n");
	CHECK_EQ(injection_apply(it, &h, NULL), 0);
	CHECK_STR(written(&h), "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: mine\r\n"
			       "Accept-Encoding: gzip\r\nRange: bytes=1-\r\n\r\n");
	http_head_done(&h);
	CHECK_EQ(injection_redact(it, text, 7, true), 7);
	CHECK_STR((char *)text, "one two");
	end();
}

/* Beside a header only what goes into that is looked for: the key's length holds nothing back. */
TEST(a_certificate_and_a_header)
{
	uint8_t text[] = "cert and token";

	wr.secrets[0] = (struct wr_secret){"A", "cert", 0};
	wr.secrets[1] = (struct wr_secret){"T", "token", 0};
	start("    inject: {headers: {X-A: \"{{ secret.T }}\"}}\n"
	      "    client_cert: {cert: \"{{ secret.A }}\", key: \"{{ secret.A }}\"}\n");
	CHECK(answers == 1 && result == 0 && injection_is_searched(it));
	injection_redact_whole(it, text, 14);
	CHECK_STR((char *)text, "cert and *****");
	end();
}

TEST(missing)
{
	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}\", X-B: \"{{ secret.B }}\"}}\n");
	CHECK(answers == 1 && result < 0);
	CHECK(strstr(why.msg, "rule 'cred'") && !strstr(why.msg, "one"));
	end();
}

TEST(freed_under_way)
{
	struct wr_secret a = {"A", "one", 0};

	wr.secrets[0] = a;
	wr.hold_secrets = true;
	start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n");
	CHECK_EQ(answers, 0);
	end();
	CHECK_EQ(answers, 0);
	/* And before the loop turned. */
	answers = 0;
	wr_open("version: 1\nrules:\n  - name: cred\n    allow: up.test\n"
		"    inject: {headers: {X-A: b}}\n",
		NULL);
	CHECK_EQ(injection_start(&it, wr.door.broker, rule_of("GET"), on_done, NULL), 0);
	injection_free(it);
	it = NULL;
	wr_settle();
	CHECK_EQ(answers, 0);
	end();
}

TEST(trailers_lose_the_same_fields)
{
	struct http_head h;

	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n");
	request(&h, "GET / HTTP/1.1\r\nHost: h\r\nX-a: 1\r\nx_A: 2\r\nX-B: 3\r\n\r\n");
	injection_strip(it, &h);
	CHECK_STR(written(&h), "GET / HTTP/1.1\r\nHost: h\r\nX-B: 3\r\n\r\n");
	http_head_done(&h);
	end();
}

TEST(is_of_its_rule)
{
	wr.secrets[0] = (struct wr_secret){"A", "one", 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n    methods: [GET]\n"
	      "  - name: other\n    allow: up.test\n    methods: [PUT]\n"
	      "    inject: {headers: {X-B: \"{{ secret.A }}\"}}\n"
	      "  - name: none\n    allow: up.test\n    methods: [POST]\n");
	CHECK(injection_is_of(it, rule_of("GET")));
	CHECK(!injection_is_of(it, rule_of("PUT")));
	CHECK(!injection_is_of(it, rule_of("POST")));
	end();
}

/* The largest there may be, in all its forms. */
TEST(a_large_secret)
{
	size_t n = 64 << 10, safe;
	char *value = malloc(n + 1);
	uint8_t *text = malloc(2 * n);

	CHECK(value && text);
	memset(value, '"', n);
	value[n] = 0;
	wr.secrets[0] = (struct wr_secret){"A", value, 0};
	start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n");
	CHECK(answers == 1 && result == 0);
	memset(text, '"', 2 * n);
	CHECK_EQ(injection_redact(it, text, n - 1, true), 0);
	safe = injection_redact(it, text, n - 1, false);
	CHECK(safe == n - 1 && text[0] == '"');
	memset(text, '"', 2 * n);
	safe = injection_redact(it, text, n, false);
	CHECK(safe == n && text[0] == '*' && text[n - 1] == '*');
	free(value);
	free(text);
	end();
}

/* As web does it: parts of any size, and what is not safe stands before the next. */
static size_t pass(const char *text, size_t n, unsigned *seed, char *out)
{
	uint8_t held[4096];
	size_t have = 0, at = 0, len = 0, safe;

	while (at < n || have > 0) {
		size_t part = n - at;

		*seed = *seed * 1103515245 + 12345;
		if (part > 0)
			part = 1 + (*seed >> 8) % (part < 50 ? part : 50);
		memcpy(held + have, text + at, part);
		at += part;
		have += part;
		safe = injection_redact(it, held, have, at < n);
		/* Only so much waits. */
		if (at < n && safe < have)
			CHECK(have - safe <= redact_hold(1));
		memcpy(out + len, held, safe);
		len += safe;
		memmove(held, held + safe, have - safe);
		have -= safe;
	}
	return len;
}

TEST(cuts_of_an_answer_do_not_matter)
{
	static const char *const values[] = {"abab", "one\ntwo", "a/b\"c"};
	static const char text[] = "abababab\nab\nab one\ntwoone\none\ntwo a/b\"c a\\/b\\\"c\n"
				   "ababa\n\nYWJhYg==\na%2Fb%22c one\\ntwo b25lCnR3bw==\nab";
	unsigned seed = 1;

	for (size_t v = 0; v < 3; v++) {
		char whole[sizeof(text)], out[sizeof(text)];
		size_t n = sizeof(text) - 1, safe;

		wr.secrets[0] = (struct wr_secret){"A", values[v], 0};
		start("    inject: {headers: {X-A: \"{{ secret.A }}\"}}\n");
		memcpy(whole, text, sizeof(text));
		safe = injection_redact(it, (uint8_t *)whole, n, false);
		CHECK(safe == n && !strstr(whole, values[v]) && strchr(whole, '*'));
		for (unsigned round = 0; round < 300; round++) {
			CHECK_EQ(pass(text, n, &seed, out), n);
			CHECK_MEM(out, whole, n);
		}
		end();
	}
}
