/* What is built in: presets, groups, lists of them, and `use`. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/decision.h"
#include "door/policy_form.h"
#include "door/presets.h"
#include "tap.h"

#include <stdlib.h>

static struct policy *parse(const char *text)
{
	struct policy *p = NULL;
	struct err e = {0};

	if (policy_parse(&p, "p", text, strlen(text), &e) < 0) {
		printf("# %s\n", e.msg);
		FAIL("policy_parse");
	}
	return p;
}

/* The text of a list. */
static char *text_of(const char *names)
{
	struct err e = {0};
	char *text = NULL;

	if (preset_text(names, &text, &e) < 0)
		printf("# %s\n", e.msg);
	CHECK(text);
	return text;
}

static struct policy *policy_of(const char *names)
{
	autofree char *text = text_of(names);

	return parse(text);
}

static bool lets(const struct policy *p, const char *name, const char *method, const char *path)
{
	struct request r = {.method = method, .path = path};
	struct host h = {0};
	struct verdict v;

	CHECK_EQ(host_parse(&h, name), 0);
	decision_make(p, NULL, &(struct subject){SUBJECT_REQUEST, &h, 443, &r}, 1, &v);
	return v.action == ACTION_ALLOW;
}

/* ---- what the files say ---- */

static bool is_fetch(const struct entry *e)
{
	for (size_t i = 0; i < e->methods.count; i++)
		if (strcmp(e->methods.items[i], "GET") != 0 &&
		    strcmp(e->methods.items[i], "HEAD") != 0)
			return false;
	return e->methods.count > 0;
}

/* Hosts where anybody has a place: a part of such a name, or all of it. */
static bool is_shared(const struct pattern *h)
{
	static const char *const shared[] = {"storage.googleapis.com",
					     ".pkg.dev",
					     "gcr.io",
					     "github.io",
					     ".amazonaws.com",
					     ".cloudfront.net",
					     ".windows.net",
					     ".cloudflarestorage.com",
					     NULL};

	for (size_t i = 0; shared[i]; i++)
		if (strcmp(h->text, shared[i]) == 0 ||
		    (strcmp(shared[i], "github.io") == 0 && strstr(h->text, ".github.io")))
			return true;
	return h->kind == PATTERN_ANY || h->kind == PATTERN_CIDR;
}

static void check_rule(const struct preset *g, const struct entry *e)
{
	printf("# %s: %s\n", g->name, e->rule.name);
	CHECK_EQ(e->rule.action, ACTION_ALLOW);
	CHECK(str_starts(e->rule.name, g->name) || strcmp(e->rule.name, "dotnet") == 0);
	/* Fetching; or one kind of request, named by its path. */
	CHECK(is_fetch(e) || e->paths.count > 0);
	CHECK(e->rule.bytes_up > 0 && e->rule.bytes_up <= 16 << 20);
	CHECK(!e->rule.private && !e->rule.pass && !e->rule.inject_count);
	CHECK(e->port_count > 0);
	for (size_t i = 0; i < e->port_count; i++)
		CHECK(e->ports[i] == 443 || e->ports[i] == 80);
	for (size_t i = 0; i < e->pattern_count; i++)
		CHECK(!is_shared(&e->patterns[i]) || e->paths.count > 0);
}

TEST(groups_open_no_more_than_they_say)
{
	size_t count = 0;

	for (const struct preset *g = presets; g->name; g++, count++) {
		struct policy *p = parse(g->text);
		size_t name = strlen(g->name), hosts = 0;

		/* Its first line is what it is for. */
		CHECK(str_starts(g->text, "# ") && strncmp(g->text + 2, g->name, name) == 0);
		CHECK(str_starts(g->text + 2 + name, ": "));
		CHECK(strspn(g->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == name &&
		      name < 32);
		CHECK(policy_limits(p)->connections == 0 && !strstr(g->text, "\nuse:"));
		for (size_t i = 0; g->is_group && i < p->entry_count; i++) {
			check_rule(g, &p->entries[i]);
			for (size_t k = 0; k < p->entries[i].pattern_count; k++)
				hosts += p->entries[i].patterns[k].len + 2;
		}
		CHECK(!g->is_group || strcspn(g->text + 2 + name, "\n") < 40);
		CHECK(hosts < 4096); /* struct cove_policy_group */
		policy_free(p);
	}
	CHECK(count > 10 && count <= POLICY_USE_MAX);
}

/* No two rules of the same name, and short enough for a record. */
TEST(all_together)
{
	char list[4096] = "balanced";
	struct policy *p, *balanced = policy_of("balanced");

	for (const struct preset *g = presets; g->name; g++)
		if (g->is_group)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), ",%s", g->name);
	CHECK(strlen(list) < 120); /* NET_NAME_MAX */
	p = policy_of(list);
	CHECK(p->entry_count > balanced->entry_count + 10);
	policy_free(p);
	policy_free(balanced);
}

TEST(what_groups_open)
{
	struct policy *p = policy_of("balanced,huggingface,browsers,git-lfs,registries");

	CHECK(lets(p, "pypi.org", "GET", "/simple/"));
	CHECK(lets(p, "huggingface.co", "GET", "/gpt2/resolve/main/config.json"));
	CHECK(!lets(p, "huggingface.co", "POST", "/api/repos/create"));
	CHECK(lets(p, "us.aws.cdn.hf.co", "GET", "/x"));
	CHECK(lets(p, "cas-server.xethub.hf.co", "GET", "/v1/reconstructions/x"));
	CHECK(!lets(p, "cas-server.xethub.hf.co", "POST", "/v1/xorbs/default/x"));
	CHECK(!lets(p, "x.hf.space", "GET", "/"));
	CHECK(lets(p, "storage.googleapis.com", "GET", "/chrome-for-testing-public/1/x.zip"));
	CHECK(lets(p, "storage.googleapis.com", "GET", "/proxy-golang-org-prod/x.zip"));
	CHECK(!lets(p, "storage.googleapis.com", "GET", "/chrome-for-testing/x.zip"));
	CHECK(!lets(p, "storage.googleapis.com", "POST", "/chrome-for-testing-public/x"));
	CHECK(!lets(p, "other.github.io", "GET", "/chrome-for-testing/x"));
	CHECK(lets(p, "github.com", "POST", "/a/b.git/info/lfs/objects/batch"));
	CHECK(!lets(p, "github.com", "POST", "/a/b.git/info/lfs/locks"));
	CHECK(!lets(p, "github-cloud.s3.amazonaws.com", "PUT", "/alambic/media/1"));
	CHECK(lets(p, "cdn03.quay.io", "GET", "/x"));
	CHECK(lets(p, "us-west1-docker.pkg.dev", "GET", "/v2/k8s-artifacts-prod/images/p/m/1"));
	CHECK(!lets(p, "us-west1-docker.pkg.dev", "GET", "/v2/mine/images/p/m/1"));
	CHECK(!lets(p, "download.pytorch.org", "GET", "/whl/"));
	policy_free(p);
	p = policy_of("closed,pytorch");
	CHECK(lets(p, "download.pytorch.org", "GET", "/whl/"));
	CHECK(!lets(p, "pypi.org", "GET", "/simple/"));
	policy_free(p);
}

/* ---- lists ---- */

TEST(the_same_set_is_the_same_text)
{
	autofree char *text = text_of("balanced,conda,cran"), *other = NULL;
	static const char *const same[] = {"balanced,cran,conda", "balanced,conda,cran,conda",
					   "balanced,balanced,cran,conda,balanced"};

	CHECK(strstr(text, "\nuse: [balanced, conda, cran]\n"));
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		other = text_of(same[i]);
		CHECK_STR(other, text);
		free(take_ptr(other));
	}
	other = text_of("none,conda");
	CHECK(strstr(other, "[closed, conda]"));
	free(take_ptr(other));
	other = text_of("conda");
	CHECK_STR(other, preset_find("conda")->text);
	CHECK(preset_find("none") == preset_find("closed"));
}

static void check_refused(const char *list, int r, const char *says)
{
	struct err e = {0};
	char *text = NULL;

	CHECK_EQ(preset_text(list, &text, &e), r);
	CHECK(!text);
	printf("# %.100s -> %s\n", list, e.msg);
	CHECK(strstr(e.msg, says));
	CHECK_EQ(preset_text(list, &text, NULL), r);
}

TEST(bad_lists)
{
	static char many[10002];
	autofree char *text = NULL;
	struct err e;

	check_refused("", -ENOENT, "There are");
	check_refused("hugging", -ENOENT, "There are apt");
	check_refused("Balanced", -ENOENT, "did you mean 'balanced'?");
	check_refused(",", -EINVAL, "empty");
	check_refused(",conda", -EINVAL, "empty");
	check_refused("balanced,", -EINVAL, "empty");
	check_refused("balanced,,conda", -EINVAL, "empty");
	check_refused("balanced, conda", -EINVAL, "did you mean 'conda'?");
	check_refused("balanced,hugingface", -EINVAL, "did you mean 'huggingface'?");
	check_refused("balanced,HuggingFace", -EINVAL, "did you mean 'huggingface'?");
	check_refused("balanced,zzzzzzzzzz", -EINVAL, "There are apt");
	check_refused("balanced,x", -EINVAL, "no group 'x'; There are apt");
	check_refused("conda,balanced", -EINVAL, "begins with");
	check_refused("conda,cran", -EINVAL, "begins with");
	check_refused("balanced,closed", -EINVAL, "has one");
	check_refused("open,conda", -EINVAL, "everything");
	check_refused("balanced,open", -EINVAL, "has one");
	check_refused("balanced,file", -EINVAL, "no group");
	check_refused("balanced,../../etc/passwd", -EINVAL, "no group");
	check_refused("balanced,condaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		      -EINVAL, "no group");
	check_refused("balanced,\x1b[31m", -EINVAL, "no group");
	memset(many, ',', sizeof(many) - 1);
	check_refused(many, -EINVAL, "empty");
	memset(many, 'a', sizeof(many) - 1);
	check_refused(many, -ENOENT, "There are");
	/* Long, but not wrong. */
	snprintf(many, sizeof(many), "balanced");
	while (strlen(many) < 10000 - 6)
		memcpy(many + strlen(many), ",conda", 7);
	CHECK_EQ(preset_text(many, &text, &e), 0);
	CHECK(strstr(text, "[balanced, conda]"));
}

/* ---- use ---- */

TEST(used_rules_stand_beside_the_own)
{
	struct policy *p =
		parse("version: 1\nrules:\n- {name: mine, allow: a.org, methods: [POST]}\n"
		      "- {name: no, deny: pypi.org}\nuse: [balanced, pytorch]\n");

	CHECK_STR(p->entries[0].rule.name, "mine");
	CHECK_EQ(p->entries[p->entry_count - 1].rule.line, 5);
	CHECK(lets(p, "a.org", "POST", "/"));
	CHECK(lets(p, "download.pytorch.org", "GET", "/"));
	CHECK(lets(p, "registry.npmjs.org", "GET", "/"));
	CHECK(!lets(p, "pypi.org", "GET", "/simple/"));
	policy_free(p);
	/* One is a list of one, and the own rules may be none. */
	p = parse("version: 1\nuse: conda\n");
	CHECK(lets(p, "conda.anaconda.org", "GET", "/"));
	CHECK(!lets(p, "pypi.org", "GET", "/"));
	policy_free(p);
	p = parse("{\"version\": 1, \"use\": [\"open\", \"open\"], \"rules\": []}");
	policy_free(p);
}

static void check_wrong(const char *text, const char *says)
{
	struct policy *p = NULL;
	struct err e = {0};

	CHECK_EQ(policy_parse(&p, "p", text, strlen(text), &e), -EINVAL);
	printf("# %s\n", e.msg);
	CHECK(!p && strstr(e.msg, says));
}

TEST(wrong_uses)
{
	check_wrong("version: 1\nuse: []\n", "p:2: 'use' is empty");
	check_wrong("version: 1\nuse:\n", "p:2: 'use' is empty");
	check_wrong("version: 1\nuse: {a: b}\n", "p:2: 'use'");
	check_wrong("version: 1\nuse: [[conda]]\n", "p:2: 'use'");
	check_wrong("version: 1\nuse: ['']\n", "p:2:");
	check_wrong("version: 1\nrules: []\nuse: [conada]\n", "p:3: use: no group 'conada'");
	check_wrong("version: 1\nuse: [open, conda]\n", "p:2: use: 'open'");
	check_wrong("version: 1\nuse: [conda]\nuse: [cran]\n", "p:3:");
	check_wrong("version: 1\nuse: ['balanced,conda']\n", "p:2: use: no group");
	check_wrong("version: 1\nuse: [balanced]\nrules: [{name: code, allow: a.org}]\n",
		    "two rules are named 'code'; the other is in line");
	check_wrong("version: 1\nrules: [{allow: a.org, use: conda}]\n", "no key 'use'");
	check_wrong("version: 1\n", "'rules' is missing");
}

TAP_MAIN
