/*
 * What the keys of a rule say together, and what a policy that is in order should make its author
 * think about; see policy.h.
 */
#include "door/policy_form.h"

#include <string.h>
#include <strings.h>

/* What passes must be what would be removed. */
static int check_pass(struct policy_reading *x, const struct entry *r, const struct policy_node *v)
{
	if (!r->rule.inject_count)
		return source_error(
			&x->src, v->key_line,
			"'pass' is about 'inject': without it nothing is removed; leave "
			"it out");
	for (size_t i = 0; i < r->rule.kept_count; i++)
		for (size_t k = 0; k < r->rule.inject_count; k++) {
			const struct rule_inject *in = &r->rule.inject[k];

			if (!strcasecmp(r->rule.kept[i], in->header ? in->header : in->query))
				return source_error(&x->src, v->key_line,
						    "'pass': %.40s is injected, so the box's own "
						    "never passes; leave it out",
						    r->rule.kept[i]);
		}
	return 0;
}

/* What keys say together. */
int policy_check_rule(struct policy_reading *x, const struct entry *r, const struct policy_node *v)
{
	static const char *const for_deny[] = {
		"private", "plain_http",  "reuse", "rate",   "bytes_up", "bytes_down", "tls",
		"inject",  "client_cert", "pass",  "ranges", "ech",	 NULL};
	const struct policy_node *tls = reading_find(v, "tls"), *n;
	if (!r->patterns)
		return source_error(&x->src, v->line,
				    "a rule needs one of allow, ask and deny, with its hosts");
	for (size_t i = 0; r->rule.action == ACTION_DENY && for_deny[i]; i++)
		if ((n = reading_find(v, for_deny[i])))
			return source_error(&x->src, n->key_line,
					    "'%s' means nothing in a deny; leave it out", n->key);
	for (size_t i = 0; i < r->pattern_count; i++)
		if (!r->rule.private && r->rule.action != ACTION_DENY &&
		    pattern_is_private(&r->patterns[i]))
			return source_error(
				&x->src, v->line,
				"the rule names private addresses; add 'private: true'");
	for (size_t i = 0; i < r->pattern_count; i++)
		if (r->rule.action != ACTION_DENY && pattern_is_loopback(&r->patterns[i]) &&
		    !r->port_count)
			return source_error(&x->src, v->line,
					    HOST_LOOPBACK_NAME
					    " is this host's loopback, where much listens: name "
					    "the ports, as in 'ports: [8080]'");
	if (r->rule.action != ACTION_ASK && (n = reading_find(v, "ask_timeout")))
		return source_error(&x->src, n->key_line,
				    "'ask_timeout' is for a rule with 'ask'; leave it out");
	if (r->rule.plain_http && !r->rule.inject_count)
		return source_error(&x->src, reading_find(v, "plain_http")->key_line,
				    "'plain_http' is about 'inject'; 'ports: [80]' is what lets "
				    "plain HTTP out");
	if (r->rule.ranges && !r->rule.inject_count)
		return source_error(&x->src, reading_find(v, "ranges")->key_line,
				    "'ranges' is about 'inject': without it they pass; leave it "
				    "out");
	if (r->rule.ech && entry_looks_inside(r))
		return source_error(&x->src, reading_find(v, "ech")->key_line,
				    "'ech' is for what passes through, and the rule intercepts, "
				    "where encrypted names do no harm; leave it out");
	for (size_t i = 0; rule_injects(&r->rule) && i < r->pattern_count; i++) {
		const struct pattern *p = &r->patterns[i];

		if (p->kind == PATTERN_ANY ||
		    (p->kind == PATTERN_SUFFIX && !strchr(p->text + 1, '.')) ||
		    (p->kind == PATTERN_CIDR &&
		     p->cidr.bits != (p->cidr.family == AF_INET ? 32 : 128)))
			return source_error(
				&x->src, v->line,
				"a credential needs hosts that are named: not '*', a network or "
				"a top-level domain");
	}
	if (tls && !r->rule.intercept && entry_looks_inside(r))
		return source_error(
			&x->src, tls->key_line,
			"'tls: pass' cannot be: the rule's other keys need interception");
	return r->rule.kept_count ? check_pass(x, r, reading_find(v, "pass")) : 0;
}

/* ---- warnings ---- */

/* Plain HTTP is read whatever the rule says, and SSH is no TLS. */
static bool may_carry_tls(const struct entry *e)
{
	for (size_t i = 0; i < e->port_count; i++)
		if (e->ports[i] != 80 && e->ports[i] != 22)
			return true;
	return e->port_count == 0;
}

/* Some rule has more to say about a name than that it is let through. */
static bool judges_names(const struct policy *p)
{
	for (size_t i = 0; i < p->entry_count; i++) {
		const struct entry *e = &p->entries[i];

		if (e->rule.action == ACTION_ALLOW && !entry_looks_inside(e))
			continue;
		for (size_t k = 0; k < e->pattern_count; k++)
			if (e->patterns[k].kind != PATTERN_CIDR)
				return true;
	}
	return false;
}

const struct rule *policy_next_fronted(const struct policy *p, const struct rule *after)
{
	const struct entry *e = after ? (const struct entry *)(const void *)after + 1 : p->entries;

	for (; p->entries && e < p->entries + p->entry_count; e++) {
		if (e->rule.action == ACTION_DENY || e->rule.pass || entry_looks_inside(e) ||
		    !may_carry_tls(e))
			continue;
		/* A name is judged, and what is asked for inside may be another. Where every name
		 * is allowed there is nothing to gain by it. */
		for (size_t i = 0; i < e->pattern_count; i++)
			if (e->patterns[i].kind == PATTERN_NAME ||
			    e->patterns[i].kind == PATTERN_SUFFIX ||
			    (e->patterns[i].kind == PATTERN_ANY && judges_names(p)))
				return &e->rule;
	}
	return NULL;
}
