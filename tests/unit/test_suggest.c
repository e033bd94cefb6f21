/* Suggested policies: what becomes a rule and what a remark, and where the rules stand. */
#include "base/limits.h"
#include "door/decision.h"
#include "door/suggest.h"
#include "tap.h"

struct denial_row {
	const char *why, *host;
	uint64_t port;
	const char *method, *path, *rule;
};

#define D(w, h, p, ...)                                     \
	{                                                   \
		.why = w, .host = h, .port = p, __VA_ARGS__ \
	}

static struct buf text;
static struct suggest s;

static const char *suggest(const char *policy, const struct denial_row *rows)
{
	struct err e = {0};

	suggest_init(&s);
	buf_init(&text, 2 * DOOR_POLICY_MAX);
	for (; rows->why; rows++)
		CHECK_EQ(suggest_add(&s, &(struct audit_row){.kind = "connect",
							     .verdict = "deny",
							     .why = rows->why,
							     .host = rows->host,
							     .port = rows->port,
							     .method = rows->method,
							     .path = rows->path,
							     .rule = rows->rule}),
			 0);
	if (suggest_make(&s, "dev", policy, strlen(policy), &text, &e) < 0) {
		printf("# %s\n", e.msg);
		FAIL("suggest_make");
	}
	return buf_cstr(&text);
}

static void done(void)
{
	suggest_done(&s);
	buf_done(&text);
}

/* By the text: may it connect, or send this? */
static bool allows(const char *host, uint16_t port, const char *method, const char *path)
{
	struct request q = {.method = method, .path = path, .query = "a=b"};
	struct policy *p = NULL;
	struct verdict v;
	struct host h;

	CHECK_EQ(policy_parse(&p, "p", buf_cstr(&text), buf_len(&text), NULL), 0);
	CHECK_EQ(host_parse(&h, host), 0);
	decision_make(p, NULL,
		      &(struct subject){method ? SUBJECT_REQUEST : SUBJECT_CONNECTION, &h, port,
					method ? &q : NULL},
		      1, &v);
	policy_free(p);
	return v.action == ACTION_ALLOW && (method || !v.inspect);
}

static const char closed[] = "version: 1\nrules: []\n";

TEST(nothing_denied_is_the_policy_as_it_is)
{
	CHECK(strstr(suggest(closed, (struct denial_row[]){{0}}), "Nothing was denied"));
	CHECK(strstr(buf_cstr(&text), closed));
	CHECK_EQ(s.rules, 0);
	done();
}

TEST(hosts_and_ports_are_exact)
{
	suggest(closed, (struct denial_row[]){D("unmatched", "a.test", 443, .method = NULL),
					      D("unmatched", "a.test", 0, .method = NULL),
					      D("unmatched", "a.test", 8443, .method = NULL),
					      D("unmatched", "a.test", 443, .method = NULL),
					      {0}});
	CHECK_EQ(s.rules, 1);
	CHECK_EQ(s.denied, 4);
	CHECK(allows("a.test", 443, NULL, NULL) && allows("a.test", 8443, NULL, NULL));
	CHECK(!allows("a.test", 80, NULL, NULL) && !allows("b.a.test", 443, NULL, NULL));
	CHECK(strstr(buf_cstr(&text), "[443, 8443]"));
	done();
}

TEST(a_name_that_was_only_looked_up_is_for_the_web)
{
	CHECK(strstr(
		suggest(closed,
			(struct denial_row[]){D("unmatched", "a.test", 0, .method = NULL), {0}}),
		"443 and 80"));
	CHECK(allows("a.test", 443, NULL, NULL) && !allows("a.test", 22, NULL, NULL));
	done();
}

TEST(requests_are_for_their_method_and_path)
{
	static const char read[] = "version: 1\nrules:\n  - allow: a.test\n    methods: [GET]\n";

	suggest(read,
		(struct denial_row[]){D("request", "a.test", 443, .method = "POST", .path = "/x"),
				      D("request", "a.test", 443, .method = "POST", .path = "/y"),
				      D("request", "a.test", 443, .method = "PUT", .path = "/x"),
				      {0}});
	CHECK_EQ(s.rules, 2);
	CHECK(allows("a.test", 443, "POST", "/y") && allows("a.test", 443, "PUT", "/x"));
	CHECK(allows("a.test", 443, "GET", "/z"));
	CHECK(!allows("a.test", 443, "POST", "/z") && !allows("a.test", 443, "PUT", "/y"));
	CHECK(!allows("a.test", 80, "POST", "/x"));
	done();
}

TEST(what_a_pattern_would_widen_is_a_remark)
{
	static const char read[] = "version: 1\nrules:\n  - allow: a.test\n    methods: [GET]\n";

	suggest(read,
		(struct denial_row[]){
			D("request", "a.test", 443, .method = "POST", .path = "/a*"),
			D("request", "a.test", 443, .method = "POST", .path = "/a\"\n- allow: x"),
			D("request", "a.test", 443, .method = "p\nost", .path = "/"),
			D("unmatched", "a b\n  - allow: '*'", 443, .method = NULL),
			D("unmatched", "a.test", 1 << 20, .method = NULL),
			{0}});
	CHECK_EQ(s.rules, 0);
	CHECK_EQ(s.remarks, 5);
	CHECK(!allows("x", 443, NULL, NULL) && !allows("a.test", 443, "POST", "/ab"));
	done();
}

TEST(private_addresses_say_so)
{
	suggest(closed, (struct denial_row[]){D("private", "10.1.2.3", 81, .method = NULL),
					      D("unmatched", "db.test", 5432, .method = NULL),
					      D("private", "db.test", 5432, .method = NULL),
					      {0}});
	CHECK_EQ(s.rules, 2);
	CHECK(allows("10.1.2.3", 81, NULL, NULL) && !allows("10.1.2.4", 81, NULL, NULL));
	CHECK(strstr(strstr(buf_cstr(&text), "db.test"), "\"private\": true"));
	done();
}

/* First its name is allowed, then it turns out where that leads to. */
TEST(a_rule_that_is_there_gets_a_private_one_beside_it)
{
	suggest("version: 1\nrules:\n- allow: db.test\n  ports: [5432]\n",
		(struct denial_row[]){D("private", "db.test", 5432, .rule = "rule 1"), {0}});
	CHECK_EQ(s.rules, 1);
	done();
	suggest("version: 1\nrules:\n- allow: db.test\n  ports: [5432]\n  rate: 1/s\n",
		(struct denial_row[]){D("private", "db.test", 5432, .rule = "rule 1"), {0}});
	CHECK_EQ(s.rules, 0);
	CHECK_EQ(s.remarks, 1);
	done();
}

TEST(what_no_rule_should_let_pass_is_a_remark)
{
	suggest("version: 1\nrules:\n- deny: no.test\n- ask: ask.test\n",
		(struct denial_row[]){D("metadata", "169.254.169.254", 80, .method = NULL),
				      D("budget", "a.test", 443, .rule = "r"),
				      D("limit", "a.test", 443, .method = NULL),
				      D("person", "ask.test", 443, .method = NULL),
				      D("credential", "a.test", 443, .method = NULL),
				      D("form", "a.test", 443, .method = NULL),
				      D("rule", "no.test", 443, .method = NULL),
				      D("unmatched", "no.test", 80, .method = NULL),
				      {0}});
	CHECK_EQ(s.rules, 0);
	CHECK_EQ(s.remarks, 8);
	done();
}

TEST(what_is_allowed_by_now_is_left_out)
{
	suggest("version: 1\nrules:\n- allow: a.test\n",
		(struct denial_row[]){D("unmatched", "a.test", 443, .method = NULL),
				      D("unmatched", "a.test", 0, .method = NULL),
				      {0}});
	CHECK_EQ(s.rules + s.remarks, 0);
	done();
}

/* The policy's own text stays, however it is written. */
TEST(rules_are_added_to_every_form)
{
	static const char *const forms[] = {
		closed,
		"version: 1\nrules:\n- allow: old.test",
		"version: 1\nrules:\n    - allow: old.test\n      ports: [443]\n\nconnections: 3\n",
		"version: 1\nuse: [closed]\n",
		"{\"version\": 1, \"rules\": [{\"allow\": \"old.test\"}]}",
		"{\"version\": 1, \"rules\": [{\"allow\": \"old.test\"},\n ] }",
		"{\"version\": 1, \"rules\": []}",
		"{\"version\": 1, \"use\": [closed]}",
		"version: 1\nrules:\n- name: \xc3\xa4\xe2\x82\xac\n  allow: old.test\nbytes: "
		"1GiB\n",
		"{version: 1, rules: [{name: \xc3\xa4\xe2\x82\xac, allow: old.test}]}",
		"version: 1\r\nrules:\r\n- allow: old.test\r\n",
		"version: 1\nrules: [] # none\nbytes: 1GiB\n",
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		suggest(forms[i],
			(struct denial_row[]){D("unmatched", "a.test", 443, .method = NULL),
					      D("unmatched", "b.test", 22, .method = NULL),
					      {0}});
		CHECK_EQ(s.rules, 2);
		CHECK(allows("a.test", 443, NULL, NULL) && allows("b.test", 22, NULL, NULL));
		CHECK_EQ(allows("old.test", 443, NULL, NULL), strstr(forms[i], "old.test") != NULL);
		done();
	}
}

TEST(no_more_than_there_is_room_for)
{
	char host[32];

	suggest_init(&s);
	buf_init(&text, 2 * DOOR_POLICY_MAX);
	for (unsigned i = 0; i < SUGGEST_ITEMS_MAX + 3; i++) {
		snprintf(host, sizeof(host), "h%u.test", i);
		CHECK_EQ(suggest_add(&s, &(struct audit_row){.kind = "name",
							     .verdict = "deny",
							     .why = "unmatched",
							     .host = host}),
			 0);
	}
	CHECK_EQ(suggest_add(&s, &(struct audit_row){.kind = "name", .verdict = "allow"}), 0);
	CHECK_EQ(s.more, 3);
	CHECK_EQ(suggest_make(&s, "dev", closed, strlen(closed), &text, NULL), 0);
	CHECK_EQ(s.rules, SUGGEST_ITEMS_MAX);
	done();
}

TEST(a_row_that_stands_for_more_counts_as_they)
{
	struct audit_row row = {
		.kind = "name", .verdict = "deny", .why = "unmatched", .host = "h.test"};

	suggest_init(&s);
	buf_init(&text, 2 * DOOR_POLICY_MAX);
	CHECK_EQ(suggest_add(&s, &row), 0);
	row.count = 2;
	CHECK_EQ(suggest_add(&s, &row), 0);
	CHECK_EQ(s.denied, 3);
	CHECK_EQ(suggest_make(&s, "dev", closed, strlen(closed), &text, NULL), 0);
	CHECK(strstr(buf_cstr(&text), "denied 3 times") != NULL);
	done();
}
