/*
 * What a policy is once it was read: made by policy_parse.c and policy_inject.c, and not changed
 * after that; decision.c and grants.c use it. Only check.c and suggest.c include this besides, for
 * the line of an error and for where a text can be added to, and the fuzz target and the tests,
 * which judge a second time in their own way.
 */
#pragma once

#include "door/arena.h"
#include "door/policy.h"
#include "door/policy_tree.h"

#include <string.h>

enum { POLICY_USE_MAX = 32 }; /* presets and groups there are, at most */

enum pattern_kind { PATTERN_ANY, PATTERN_NAME, PATTERN_SUFFIX, PATTERN_CIDR };

/* A host as a rule writes it. */
struct pattern {
	enum pattern_kind kind;
	const char *text; /* the name, or the suffix with its dot: ".example.com" */
	size_t len;
	struct cidr cidr;
};

struct texts {
	const char **items;
	size_t count;
};

/* A rule, and what it is for. */
struct entry {
	struct rule rule;
	struct pattern *patterns;
	size_t pattern_count;
	uint16_t *ports;
	size_t port_count; /* 0: any */
	struct texts methods, paths, queries;
};

struct secret_use {
	const char *name;
	const struct rule *rule;
};

struct policy {
	struct arena arena; /* holds everything below */
	struct policy_limits limits;
	struct entry *entries;
	size_t entry_count;
	bool intercepts; /* `tls: intercept` at the top: so do grants */
	struct secret_use *secrets;
	size_t secret_count;
};

/* Does it ask for something that only a request has? */
static inline bool entry_has_conditions(const struct entry *e)
{
	return e->methods.count || e->paths.count || e->queries.count;
}

/* Must the door intercept for it? */
static inline bool entry_looks_inside(const struct entry *e)
{
	return entry_has_conditions(e) || rule_injects(&e->rule) || e->rule.intercept;
}

/* Texts against patterns: any byte run is '**'; '*' is one without a slash where segments is set,
 * and any otherwise. Time is bounded by the product of both lengths. A pattern has at most
 * POLICY_GLOB_MAX bytes. */
bool glob_matches(const char *pattern, const char *text, bool segments);

/* A host as a rule writes it, checked: NULL, or what is wrong and how to write it. */
const char *pattern_parse(struct pattern *ret, struct arena *a, const char *text);
/* One of `methods` or `paths`, likewise. */
const char *policy_method_wrong(const char *text);
const char *policy_path_wrong(const char *text);
/* Is it this host's loopback by its name? */
static inline bool pattern_is_loopback(const struct pattern *p)
{
	return p->kind == PATTERN_NAME && strcmp(p->text, HOST_LOOPBACK_NAME) == 0;
}
/* Is every address that it has one that needs `private: true`? */
bool pattern_is_private(const struct pattern *p);

/* policy_inject.c: the values of `inject` and `client_cert`. */
struct policy_reading {
	struct source src;
	struct policy *policy;
	struct arena *tree; /* of all texts that are read */
	/* What it uses: only their rules count. */
	const struct policy_node *used[POLICY_USE_MAX];
	size_t used_count;
	unsigned use_line;
};
int inject_parse(struct policy_reading *x, struct entry *r, const struct policy_node *v);
int client_cert_parse(struct policy_reading *x, struct entry *r, const struct policy_node *v);
int pass_parse(struct policy_reading *x, struct entry *r, const struct policy_node *v);

/* policy_use.c: `use`. */
int use_parse(struct policy_reading *x, struct entry *r, const struct policy_node *v);

/* policy_check.c */
int policy_check_rule(struct policy_reading *x, const struct entry *r, const struct policy_node *v);
/* The next rule after that one (NULL: the first) that lets TLS through by its name alone, without
 * having said that it means to; NULL after the last. */
const struct rule *policy_next_fronted(const struct policy *p, const struct rule *after);

/* policy_parse.c, for the others. */
/* Text that is not empty. */
int reading_text(struct policy_reading *x, const struct policy_node *v, const char **ret);
int reading_map(struct policy_reading *x, const struct policy_node *v);
/* A list of texts, or one; check returns NULL, or what is wrong with one of them. */
int reading_texts(struct policy_reading *x, const struct policy_node *v, struct texts *ret,
		  const char *(*check)(const char *text));
const struct policy_node *reading_find(const struct policy_node *map, const char *key);
/* "no key 'x' here; did you mean 'y'?" Names ends with NULL. */
int reading_unknown(struct policy_reading *x, const struct policy_node *v,
		    const char *const *names);

/* policy_parse, and the line of the error. */
int policy_parse_at(struct policy **ret, struct source *src, const char *text, size_t len);
