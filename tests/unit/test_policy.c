/* Policies: what is let out, budgets on a driven clock, grants, presets. */
#include "door/decision.h"
#include "door/grants.h"
#include "door/ledger.h"
#include "door/presets.h"
#include "tap.h"

static struct policy *parse(const char *text)
{
	struct policy *p = NULL;
	struct err e = {0};

	if (policy_parse(&p, "p", text, strlen(text), &e) < 0) {
		printf("# %s\n", e.msg);
		FAIL("policy_parse");
	}
	CHECK_EQ(addr_own_load(), 0);
	return p;
}

/* Some rule of it does. */
static bool intercepts(const struct policy *p)
{
	bool any = p->intercepts;

	for (size_t i = 0; i < p->entry_count; i++)
		any = any || entry_looks_inside(&p->entries[i]);
	return any;
}

static struct grants *granted; /* of the test that runs; NULL: none */

static struct host host(const char *text)
{
	struct host h = {0};

	CHECK_EQ(host_parse(&h, text), 0);
	return h;
}

/* "deny", "ask NAME", "allow NAME", "inspect": of a connection. */
static const char *connects(const struct policy *p, const char *name, uint16_t port, uint64_t now)
{
	static const char *const words[] = {"deny", "ask", "allow"};
	static char out[128];
	struct host h = host(name);
	struct verdict v;

	decision_make(p, granted, &(struct subject){SUBJECT_CONNECTION, &h, port, NULL}, now, &v);
	if (v.inspect) {
		CHECK_EQ(v.action, ACTION_ALLOW);
		return "inspect";
	}
	snprintf(out, sizeof(out), "%s%s%s", words[v.action], v.rule ? " " : "",
		 v.rule ? v.rule->name : "");
	return out;
}

static const char *requests(const struct policy *p, const char *name, const char *method,
			    const char *path, const char *query)
{
	static const char *const words[] = {"deny", "ask", "allow"};
	static char out[128];
	struct request r = {.method = method, .path = path, .query = query};
	struct host h = host(name);
	struct verdict v;

	decision_make(p, granted, &(struct subject){SUBJECT_REQUEST, &h, 443, &r}, 1, &v);
	snprintf(out, sizeof(out), "%s%s%s", words[v.action], v.rule ? " " : "",
		 v.rule ? v.rule->name : "");
	return out;
}

static const char *names(const struct policy *p, const char *name)
{
	static const char *const words[] = {"deny", "ask", "allow"};
	struct host h = host(name);
	struct verdict v;

	decision_make(p, granted, &(struct subject){SUBJECT_NAME, &h, 0, NULL}, 1, &v);
	return words[v.action];
}

TEST(the_most_specific_and_any_deny)
{
	struct policy *p = parse("version: 1\n"
				 "rules:\n"
				 "- {name: all, allow: '*'}\n"
				 "- {name: wide, ask: '*.example.com'}\n"
				 "- {name: narrow, allow: '*.b.example.com'}\n"
				 "- {name: exact, allow: x.b.example.com, ports: [443, 5432]}\n"
				 "- {name: tie1, allow: tie.org}\n"
				 "- {name: tie2, ask: tie.org}\n"
				 "- {name: no, deny: ['*.bad.org', bad.org]}\n"
				 "- {name: no22, deny: 'one.org', ports: [443]}\n");

	CHECK_STR(connects(p, "other.net", 443, 1), "allow all");
	CHECK_STR(connects(p, "other.net", 80, 1), "allow all");
	CHECK_STR(connects(p, "other.net", 22, 1), "deny");
	CHECK_STR(connects(p, "example.com", 443, 1), "allow all");
	CHECK_STR(connects(p, "a.example.com", 443, 1), "ask wide");
	CHECK_STR(connects(p, "notexample.com", 443, 1), "allow all");
	CHECK_STR(connects(p, "a.b.example.com", 443, 1), "allow narrow");
	CHECK_STR(connects(p, "x.b.example.com", 5432, 1), "allow exact");
	CHECK_STR(connects(p, "x.b.example.com", 80, 1), "allow narrow");
	CHECK_STR(connects(p, "tie.org", 443, 1), "ask tie2");
	CHECK_STR(connects(p, "bad.org", 8080, 1), "deny no");
	CHECK_STR(connects(p, "a.bad.org", 443, 1), "deny no");
	CHECK_STR(connects(p, "notbad.org", 443, 1), "allow all");
	CHECK_STR(connects(p, "one.org", 443, 1), "deny no22");
	CHECK_STR(connects(p, "one.org", 80, 1), "allow all");
	CHECK_STR(names(p, "one.org"), "allow");
	CHECK_STR(names(p, "bad.org"), "deny");
	CHECK_STR(names(p, "a.example.com"), "ask");
	CHECK(!intercepts(p));
	policy_free(p);
	p = parse("version: 1\nrules: [{allow: a.org, ports: 443}, {deny: a.org, ports: 443}]");
	CHECK_STR(names(p, "a.org"), "deny");
	CHECK_STR(names(p, "b.org"), "deny");
	policy_free(p);
}

TEST(addresses_and_networks)
{
	struct policy *p = parse("version: 1\n"
				 "rules:\n"
				 "- {name: all, allow: '*', ports: any}\n"
				 "- {name: lan, allow: 10.0.0.0/8, private: true}\n"
				 "- {name: one, ask: 10.1.2.3, private: true}\n"
				 "- {name: net, allow: 0.0.0.0/1}\n"
				 "- {name: no, deny: 8.8.8.0/24}\n");
	struct host h = host("10.9.9.9");
	struct verdict v;

	CHECK_STR(connects(p, "1.1.1.1", 443, 1), "allow net");
	CHECK_STR(connects(p, "1.1.1.1", 22, 1), "allow all");
	CHECK_STR(connects(p, "193.0.0.1", 443, 1), "allow all");
	CHECK_STR(connects(p, "8.8.8.8", 443, 1), "deny no");
	CHECK_STR(connects(p, "10.0.0.1", 443, 1), "allow lan");
	CHECK_STR(connects(p, "::ffff:10.0.0.1", 443, 1), "allow lan");
	CHECK_STR(connects(p, "10.1.2.3", 443, 1), "ask one");
	CHECK_STR(connects(p, "127.0.0.1", 443, 1), "deny");
	CHECK_STR(connects(p, "169.254.169.254", 80, 1), "deny");
	CHECK_STR(connects(p, "::1", 80, 1), "deny");
	decision_make(p, granted, &(struct subject){SUBJECT_CONNECTION, &h, 443, NULL}, 1, &v);
	CHECK(v.rule->private);
	policy_free(p);
	/* A name rule says nothing about an address, even of the same text's look. */
	p = parse("version: 1\nrules: [{allow: '*.example.com'}]");
	CHECK_STR(connects(p, "1.1.1.1", 443, 1), "deny");
	policy_free(p);
}

/* This host's loopback is what a rule names it, and no star. */
TEST(the_hosts_loopback)
{
	static const char here[] = "host.cove.internal";
	struct policy *p = parse("version: 1\nrules:\n- name: wide\n  allow: ['*', '*.internal', "
				 "'*.cove.internal', 127.0.0.1]\n  ports: any\n  private: true\n"
				 "- name: asks\n  ask: '*'\n  ports: any\n");
	struct err e;

	CHECK_STR(connects(p, here, 8080, 0), "deny");
	CHECK_STR(connects(p, "x.host.cove.internal", 8080, 0), "allow wide");
	granted = grants_new(false);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "*", 0, false, &e), 0);
	CHECK_STR(connects(p, here, 80, 0), "deny");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, here, 0, false, &e), -EINVAL);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "host.cove.internal:8080", 0, false, &e), 0);
	CHECK_STR(connects(p, here, 8080, 0), "allow allow grant");
	CHECK_STR(connects(p, here, 80, 0), "deny");
	CHECK_EQ(grants_add(granted, ACTION_DENY, "*.internal", 0, false, &e), 0);
	CHECK_STR(connects(p, here, 8080, 0), "deny deny grant");
	grants_free(granted);
	granted = NULL;
	policy_free(p);
	p = parse("version: 1\nrules:\n- name: here\n  allow: HOST.cove.internal.\n  ports: "
		  "[8080]\n");
	CHECK_STR(connects(p, here, 8080, 0), "allow here");
	CHECK_STR(connects(p, here, 8081, 0), "deny");
	CHECK_STR(connects(p, "127.0.0.1", 8080, 0), "deny");
	policy_free(p);
}

TEST(requests_and_when_to_look_inside)
{
	struct policy *p = parse(
		"version: 1\n"
		"rules:\n"
		"- {name: get, allow: '*.api.org', methods: [GET, HEAD]}\n"
		"- {name: v1, allow: '*.api.org', methods: POST, paths: ['/v1/**', '/v1/x/*']}\n"
		"- {name: v1x, ask: '*.api.org', paths: '/v1/x/*'}\n"
		"- {name: raw, allow: raw.api.org, ports: any}\n"
		"- {name: key, allow: key.org, inject: {headers: {X-Key: '{{secret.K}}'}}}\n"
		"- {name: open, allow: d.org}\n"
		"- {name: nodel, deny: d.org, methods: DELETE}\n"
		"- {name: mtls, allow: m.org, client_cert: {cert: '{{ secret.C }}', "
		"key: '{{ secret.K }}'}}\n"
		"- {name: look, allow: l.org, tls: intercept}\n"
		"- {name: q, allow: q.org, query: ['a=*', '']}\n"
		"- {name: notq, allow: nq.org, query: ['!a=*']}\n");
	const struct rule *rule;
	const char *name;

	CHECK_STR(connects(p, "a.api.org", 443, 1), "inspect");
	CHECK_STR(connects(p, "raw.api.org", 443, 1), "allow raw");
	CHECK_STR(requests(p, "raw.api.org", "DELETE", "/", NULL), "allow raw");
	CHECK_STR(connects(p, "key.org", 443, 1), "inspect");
	CHECK_STR(connects(p, "d.org", 443, 1), "inspect");
	CHECK_STR(connects(p, "m.org", 443, 1), "inspect");
	CHECK_STR(connects(p, "l.org", 443, 1), "inspect");
	CHECK_STR(requests(p, "a.api.org", "GET", "/", NULL), "allow get");
	CHECK_STR(requests(p, "a.api.org", "get", "/", NULL), "deny");
	CHECK_STR(requests(p, "a.api.org", "POST", "/", NULL), "deny");
	CHECK_STR(requests(p, "a.api.org", "POST", "/v1", NULL), "deny");
	CHECK_STR(requests(p, "a.api.org", "POST", "/v1/", NULL), "allow v1");
	CHECK_STR(requests(p, "a.api.org", "POST", "/v1/a/b", NULL), "allow v1");
	CHECK_STR(requests(p, "a.api.org", "POST", "/v1/x/y", NULL), "ask v1x");
	CHECK_STR(requests(p, "a.api.org", "GET", "/v1/x/y", NULL), "ask v1x");
	CHECK_STR(requests(p, "a.api.org", "PUT", "/v1/x/y/z", NULL), "deny");
	CHECK_STR(requests(p, "d.org", "DELETE", "/", NULL), "deny nodel");
	CHECK_STR(requests(p, "d.org", "POST", "/", NULL), "allow open");
	CHECK_STR(requests(p, "q.org", "GET", "/", "a=1"), "allow q");
	CHECK_STR(requests(p, "q.org", "GET", "/", NULL), "allow q");
	CHECK_STR(requests(p, "q.org", "GET", "/", "b=1"), "deny");
	CHECK_STR(requests(p, "nq.org", "GET", "/", "a=1"), "deny");
	CHECK_STR(requests(p, "nq.org", "GET", "/", NULL), "allow notq");
	CHECK(intercepts(p));
	CHECK(policy_secret(p, 0, &name, &rule) && !strcmp(name, "K") &&
	      !strcmp(rule->name, "key"));
	CHECK(policy_secret(p, 1, &name, &rule) && !strcmp(name, "C"));
	CHECK(!policy_secret(p, 2, &name, &rule));
	policy_free(p);
}

static enum action judged(const struct policy *p, const char *host, bool websocket)
{
	struct request r = {.method = "GET", .path = "/", .websocket = websocket};
	struct verdict v;
	struct host h;

	CHECK_EQ(host_parse(&h, host), 0);
	decision_make(p, granted, &(struct subject){SUBJECT_REQUEST, &h, 443, &r}, 1, &v);
	return v.action;
}

/* To fetch is not to send: a WebSocket is more than the GET that it begins with. */
TEST(websockets)
{
	struct policy *p = parse("version: 1\nrules:\n"
				 "- {allow: get.org, methods: [GET, HEAD]}\n"
				 "- {allow: ws.org, methods: WEBSOCKET}\n"
				 "- {allow: any.org, tls: intercept}\n"
				 "- {allow: [noget.org, nows.org]}\n"
				 "- {deny: noget.org, methods: GET}\n"
				 "- {deny: nows.org, methods: WEBSOCKET}\n");

	CHECK(judged(p, "get.org", false) == ACTION_ALLOW &&
	      judged(p, "get.org", true) == ACTION_DENY);
	CHECK(judged(p, "ws.org", false) == ACTION_DENY &&
	      judged(p, "ws.org", true) == ACTION_ALLOW);
	CHECK(judged(p, "any.org", false) == ACTION_ALLOW &&
	      judged(p, "any.org", true) == ACTION_ALLOW);
	CHECK(judged(p, "noget.org", false) == ACTION_DENY &&
	      judged(p, "noget.org", true) == ACTION_DENY);
	CHECK(judged(p, "nows.org", false) == ACTION_ALLOW &&
	      judged(p, "nows.org", true) == ACTION_DENY);
	policy_free(p);
}

TEST(globs)
{
	CHECK(glob_matches("/a/*", "/a/b", true) && !glob_matches("/a/*", "/a/b/c", true));
	CHECK(glob_matches("/a/*", "/a/", true) && !glob_matches("/a/*", "/a", true));
	CHECK(glob_matches("/**", "/", true) && glob_matches("/**", "/a/b", true));
	CHECK(glob_matches("/**/x", "/a/b/x", true) && !glob_matches("/**/x", "/x", true));
	CHECK(glob_matches("/*/x*z", "/a/xyz", true) && !glob_matches("/*/x*z", "/a/b/xz", true));
	CHECK(glob_matches("/**a*b", "/c/ab/ab", true) && !glob_matches("/**a*b", "/ab/", true));
	CHECK(glob_matches("a*", "a/b", false) && glob_matches("*", "", false));
	CHECK(!glob_matches("", "a", false) && glob_matches("", "", false));
}

TEST(budgets)
{
	struct policy *p =
		parse("version: 1\n"
		      "rules: [{allow: a.org, rate: 3/m, bytes_up: 10, bytes_down: 1K}]");
	struct policy *again = parse("version: 1\n"
				     "rules: [{name: new, allow: b.org},\n"
				     "{name: rule 1, allow: a.org, bytes_up: 20, rate: 3/m}]");
	const struct rule *r = &p->entries[0].rule;
	struct door_ledger l = {0};
	uint64_t t = 1700000000000;

	for (int i = 0; i < 3; i++)
		CHECK(ledger_take(&l, r, t));
	CHECK(!ledger_take(&l, r, t) && !ledger_take(&l, r, t + 19999));
	CHECK(ledger_take(&l, r, t + 20000));
	CHECK(!ledger_take(&l, r, t + 20000));
	CHECK(ledger_take(&l, r, t + 40000));
	/* Set back by a day: it waits a part of a window, not a day. */
	CHECK(!ledger_take(&l, r, t - 86400000));
	CHECK(ledger_take(&l, r, t - 86400000 + 20000));
	CHECK(ledger_count(&l, r, 10, 1024));
	CHECK(!ledger_count(&l, r, 0, 1));
	/* A policy that replaces another goes on where rules of the same name were. */
	ledger_retain(&l, again);
	CHECK(ledger_count(&l, &again->entries[1].rule, 10, 0));
	CHECK(!ledger_count(&l, &again->entries[1].rule, 1, 0));
	CHECK(ledger_count(&l, &again->entries[0].rule, UINT64_MAX, UINT64_MAX));
	CHECK(ledger_count(&l, &again->entries[0].rule, UINT64_MAX, UINT64_MAX));
	CHECK(!ledger_count(&l, r, UINT64_MAX, 0));
	ledger_done(&l);
	policy_free(p);
	policy_free(again);
}

TEST(grants)
{
	struct policy *p = parse("version: 1\n"
				 "rules:\n"
				 "- {name: ask, ask: '*.org'}\n"
				 "- {name: get, allow: x.com, methods: GET}\n"
				 "- {name: no, deny: never.org}\n");
	struct host h = host("once.net");
	struct verdict v;
	struct err e;

	granted = grants_new(false);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "a.org", 1000, false, &e), 0);
	CHECK_STR(connects(p, "a.org", 443, 999), "allow allow grant");
	CHECK_STR(connects(p, "a.org", 22, 999), "deny");
	CHECK_STR(connects(p, "a.org", 443, 1000), "ask ask");
	CHECK_EQ(grants_add(granted, ACTION_DENY, "A.org.", 0, false, &e), 0);
	CHECK_STR(connects(p, "a.org", 443, 999), "deny deny grant");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "*.org", 0, false, &e), 0);
	CHECK_STR(connects(p, "b.org", 443, 1), "allow allow grant");
	CHECK_STR(connects(p, "a.org", 80, 1), "deny deny grant");
	CHECK_STR(connects(p, "never.org", 443, 1), "deny no");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "x.com", 500, false, &e), 0);
	CHECK_STR(connects(p, "x.com", 443, 1), "allow allow grant");
	CHECK_STR(connects(p, "x.com", 443, 500), "inspect");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "once.net:25", 0, true, &e), 0);
	decision_make(p, granted, &(struct subject){SUBJECT_CONNECTION, &h, 25, NULL}, 1, &v);
	CHECK(v.action == ACTION_ALLOW && v.rule->once && v.rule->line == 0);
	CHECK(grants_spend(granted, v.rule) && !grants_spend(granted, v.rule));
	grants_give_back(granted, v.rule);
	CHECK_STR(connects(p, "once.net", 25, 1), "allow allow grant");
	CHECK(grants_spend(granted, v.rule));
	CHECK_STR(connects(p, "once.net", 25, 1), "deny");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "10.0.0.0/8:5432", 0, false, &e), 0);
	CHECK_STR(connects(p, "10.1.1.1", 5432, 1), "allow allow grant");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "[fd00::1]:5432", 0, false, &e), 0);
	CHECK_STR(connects(p, "fd00::1", 5432, 1), "allow allow grant");
	CHECK_STR(connects(p, "fd00::1", 443, 1), "deny");
	CHECK(grants_add(granted, ACTION_ALLOW, "a.org:0", 0, false, &e) < 0);
	CHECK(grants_add(granted, ACTION_ALLOW, "", 0, false, &e) < 0);
	CHECK(grants_add(granted, ACTION_ALLOW, "http://a.org", 0, false, &e) < 0);
	CHECK(grants_add(granted, ACTION_ALLOW, "[::1", 0, false, &e) < 0);
	grants_free(granted);
	policy_free(p);
}

/* The later of two for the same holds as long as it lasts, then the former is back. */
TEST(later_grants_and_their_number)
{
	struct policy *p = policy_closed();
	char name[32];
	struct err e;
	int r = 0;

	granted = grants_new(false);
	CHECK_EQ(grants_add(granted, ACTION_DENY, "a.org:443", 0, false, &e), 0);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "a.org:443", 10, false, &e), 0);
	CHECK_STR(connects(p, "a.org", 443, 9), "allow allow grant");
	CHECK_STR(connects(p, "a.org", 443, 10), "deny deny grant");
	/* Without a port they are for different ports, and about the same all the same. */
	CHECK_EQ(grants_add(granted, ACTION_DENY, "b.org", 0, false, &e), 0);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "b.org", 10, false, &e), 0);
	CHECK_STR(connects(p, "b.org", 443, 9), "allow allow grant");
	CHECK_STR(connects(p, "b.org", 443, 10), "deny deny grant");
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "b.org:443", 20, false, &e), 0);
	CHECK_STR(connects(p, "b.org", 443, 10), "deny deny grant");
	for (unsigned i = 0; i < 3 * DOOR_GRANTS_MAX; i++)
		CHECK_EQ(grants_add(granted, ACTION_ALLOW, "same.org", 0, false, &e), 0);
	for (unsigned i = 0; i < DOOR_GRANTS_MAX && r == 0; i++) {
		snprintf(name, sizeof(name), "n%u.org", i);
		r = grants_add(granted, ACTION_ALLOW, name, 0, false, &e);
	}
	CHECK_EQ(r, -ENOSPC);
	grants_free(granted);
	policy_free(p);
}

TEST(presets)
{
	struct policy *closed = parse(preset_find("none")->text);
	struct policy *open = parse(preset_find("open")->text);
	struct policy *p = parse(preset_find("balanced")->text);

	CHECK(!preset_find("other"));
	CHECK_STR(connects(closed, "pypi.org", 443, 1), "deny");
	CHECK_STR(connects(open, "any.example", 22, 1), "allow public internet");
	CHECK_STR(connects(open, "10.0.0.1", 22, 1), "deny");
	CHECK(!intercepts(open));
	CHECK_STR(connects(p, "pypi.org", 443, 1), "inspect");
	CHECK_STR(connects(p, "pypi.org", 80, 1), "deny");
	CHECK_STR(connects(p, "deb.debian.org", 80, 1), "inspect");
	CHECK_STR(connects(p, "api.openai.com", 443, 1), "deny");
	CHECK_STR(connects(p, "github.com", 22, 1), "deny");
	CHECK_STR(requests(p, "pypi.org", "GET", "/simple/", NULL), "allow python packages");
	CHECK_STR(requests(p, "pypi.org", "POST", "/legacy/", NULL), "deny");
	CHECK_STR(requests(p, "registry.npmjs.org", "PUT", "/x", NULL), "deny");
	/* What registries redirect to. A host of many customers is open for one path alone. */
	CHECK_STR(requests(p, "storage.googleapis.com", "GET",
			   "/proxy-golang-org-prod/8e29db-google.golang.org:api-v0.1.zip",
			   "Expires=1722887934&Signature=x"),
		  "allow go module archives");
	CHECK_STR(requests(p, "storage.googleapis.com", "GET", "/other/x", NULL), "deny");
	CHECK_STR(requests(p, "storage.googleapis.com", "GET", "/proxy-golang-org-prod-2/x", NULL),
		  "deny");
	CHECK_STR(requests(p, "storage.googleapis.com", "PUT", "/proxy-golang-org-prod/x", NULL),
		  "deny");
	CHECK_STR(requests(p, "production.cloudfront.docker.com", "GET", "/registry-v2/x", NULL),
		  "allow container images");
	CHECK_STR(requests(p, "docker-images-prod.s3.dualstack.us-east-1.amazonaws.com", "PUT",
			   "/x", NULL),
		  "deny");
	CHECK_STR(connects(p, "other.s3.dualstack.us-east-1.amazonaws.com", 443, 1), "deny");
	CHECK_STR(requests(p, "github.com", "GET", "/a/b", NULL), "allow code");
	CHECK_STR(requests(p, "github.com", "GET", "/a/b/info/refs", "service=git-upload-pack"),
		  "allow code");
	CHECK_STR(requests(p, "github.com", "GET", "/a/b/info/refs", "service=git-receive-pack"),
		  "deny git push");
	CHECK_STR(requests(p, "github.com", "GET", "/a/b/info/refs",
			   "service=git-upload-pack&service=git-receive-pack"),
		  "deny git push");
	CHECK_STR(requests(p, "github.com", "GET", "/a/b/info/refs", NULL), "deny git push");
	CHECK_STR(requests(p, "github.com", "POST", "/a/b/git-upload-pack", NULL),
		  "allow git fetch");
	CHECK_STR(requests(p, "github.com", "POST", "/a/b/git-receive-pack", NULL), "deny");
	CHECK_STR(requests(p, "github.com", "POST", "/a/b/issues", NULL), "deny");
	policy_free(closed);
	policy_free(open);
	policy_free(p);
}

TEST(limits_of_the_box)
{
	struct policy *p = parse("version: 1\nconnections: 64\nbytes: 1GiB\nask_timeout: 7s\n"
				 "resolver: 127.0.0.1\n"
				 "rules: [{ask: a.org}, {ask: b.org, ask_timeout: 1m}]");

	CHECK_EQ(policy_limits(p)->connections, 64);
	CHECK_EQ(policy_limits(p)->bytes, 1 << 30);
	CHECK_EQ(policy_limits(p)->resolver.ss_family, AF_INET);
	CHECK_EQ(p->entries[0].rule.ask_timeout_ms, 7000);
	CHECK_EQ(p->entries[1].rule.ask_timeout_ms, 60000);
	policy_free(p);
	policy_free(NULL);
}

TAP_MAIN

static void next_fronted(const char *text, const char *names)
{
	struct policy *fronted;
	const struct rule *rule = NULL;
	char found[256] = "";
	struct err err;

	CHECK_EQ(policy_parse(&fronted, "p", text, strlen(text), &err), 0);
	while ((rule = policy_next_fronted(fronted, rule)))
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s ", rule->name);
	CHECK_STR(found, names);
	policy_free(fronted);
}

/* By its name alone, and without having said so. */
TEST(rules_that_can_be_fronted)
{
	static const char rules[] = "- {name: a, allow: a.com}\n"
				    "- {name: b, ask: '*.b.com', ports: [8443]}\n"
				    "- {name: c, allow: c.com, tls: pass}\n"
				    "- {name: d, allow: d.com, tls: intercept}\n"
				    "- {name: e, allow: e.com, methods: GET}\n"
				    "- {name: f, allow: f.com, ports: [80, 22]}\n"
				    "- {name: g, allow: 9.9.9.9}\n"
				    "- {name: h, deny: h.com}\n";
	char text[1024];

	snprintf(text, sizeof(text), "version: 1\nrules:\n%s", rules);
	next_fronted(text, "a b ");
	snprintf(text, sizeof(text), "version: 1\ntls: intercept\nrules:\n%s", rules);
	next_fronted(text, "");
	next_fronted("version: 1\nrules: [{name: all, allow: '*'}]\n", "");
	next_fronted("version: 1\nrules: [{name: all, allow: '*'}, {deny: a.com}]\n", "all ");
	next_fronted("version: 1\nrules: []\n", "");
}

/* One line at the top, wherever it stands; a rule may say otherwise, and a grant may not. */
TEST(interception_by_default)
{
	static const char *const texts[] = {
		"version: 1\ntls: intercept\nrules:\n- allow: a.com\n- {allow: b.com, tls: pass}\n",
		"version: 1\nrules:\n- allow: a.com\n- {allow: b.com, tls: pass}\ntls: "
		"intercept\n"};
	struct verdict v;
	struct host h;
	struct err err;

	for (size_t i = 0; i < 2; i++) {
		struct policy *q;

		CHECK_EQ(policy_parse(&q, "p", texts[i], strlen(texts[i]), &err), 0);
		CHECK(intercepts(q));
		granted = grants_new(policy_grants_intercept(q));
		CHECK_EQ(grants_add(granted, ACTION_ALLOW, "c.com", 0, false, &err), 0);
		CHECK_EQ(host_parse(&h, "a.com"), 0);
		decision_make(q, granted, &(struct subject){SUBJECT_CONNECTION, &h, 443, NULL}, 1,
			      &v);
		CHECK(v.action == ACTION_ALLOW && v.inspect);
		CHECK_EQ(host_parse(&h, "b.com"), 0);
		decision_make(q, granted, &(struct subject){SUBJECT_CONNECTION, &h, 443, NULL}, 1,
			      &v);
		CHECK(v.action == ACTION_ALLOW && !v.inspect);
		CHECK_EQ(host_parse(&h, "c.com"), 0);
		decision_make(q, granted, &(struct subject){SUBJECT_CONNECTION, &h, 443, NULL}, 1,
			      &v);
		CHECK(v.action == ACTION_ALLOW && v.inspect);
		grants_free(granted);
		policy_free(q);
	}
}

TEST(the_next_end_of_a_grant)
{
	struct policy *q = policy_closed();
	struct err err;

	granted = grants_new(false);
	CHECK_EQ(grants_next_end(granted, 0), 0);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "a.com", 500, false, &err), 0);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "b.com", 0, false, &err), 0);
	CHECK_EQ(grants_add(granted, ACTION_ALLOW, "c.com", 300, false, &err), 0);
	CHECK_EQ(grants_next_end(granted, 0), 300);
	CHECK_EQ(grants_next_end(granted, 299), 300);
	CHECK_EQ(grants_next_end(granted, 300), 500);
	CHECK_EQ(grants_next_end(granted, 500), 0);
	grants_free(granted);
	policy_free(q);
}
