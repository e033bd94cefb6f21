/*
 * Policies: "HOST PORT METHOD PATH QUERY\n" and then the text of one. What parses is judged twice,
 * by policy.c and by the plain words of its header, one rule after another: they must agree. Where
 * a connection is not looked into, every request on it would have had the same verdict.
 */
#include "fuzz.h"

#include "door/decision.h"
#include "door/policy_form.h"

static bool glob_slow(const char *p, const char *t, bool segments)
{
	bool any = p[0] == '*' && (p[1] == '*' || !segments);

	if (!*p)
		return !*t;
	if (*p != '*')
		return *p == *t && glob_slow(p + 1, t + 1, segments);
	for (const char *rest = p + (p[1] == '*' ? 2 : 1);; t++) {
		if (glob_slow(rest, t, segments))
			return true;
		if (!*t || (*t == '/' && !any))
			return false;
	}
}

/* How exactly a rule's hosts name this one; -1: not at all. */
static int host_rank(const struct entry *e, const struct host *h)
{
	int best = -1;

	for (size_t i = 0; i < e->pattern_count; i++) {
		const struct pattern *p = &e->patterns[i];
		size_t n = strlen(h->text), m = p->text ? strlen(p->text) : 0;
		int rank = -1;

		if (p->kind == PATTERN_ANY)
			rank = 0;
		else if (p->kind == PATTERN_CIDR && h->is_address && p->cidr.family == h->family) {
			rank = (int)p->cidr.bits + 1;
			for (unsigned b = 0; b < p->cidr.bits; b++)
				if ((h->addr[b / 8] ^ p->cidr.addr[b / 8]) & (0x80u >> (b % 8)))
					rank = -1;
			if (rank == (h->family == AF_INET ? 33 : 129))
				rank = 1000;
		} else if (!h->is_address && p->kind == PATTERN_NAME && !strcmp(p->text, h->text))
			rank = 1000;
		else if (!h->is_address && p->kind == PATTERN_SUFFIX && n > m &&
			 !strcmp(h->text + (n - m), p->text))
			rank = (int)m + 1;
		if (!strcmp(h->text, "host.cove.internal") && e->rule.action != ACTION_DENY &&
		    p->kind != PATTERN_NAME)
			rank = -1;
		best = rank > best ? rank : best;
	}
	if (h->is_address && !e->rule.private && e->rule.action != ACTION_DENY &&
	    addr_refused(h->family, h->addr))
		return -1;
	return best;
}

/* One number per match, from host to ask; -1 for none. */
static long rank_of(const struct entry *e, const struct host *h, uint16_t port,
		    const struct request *r)
{
	bool ports = e->port_count == 0, methods = e->methods.count == 0;
	bool queries = e->queries.count == 0, paths = e->paths.count == 0;
	long host = host_rank(e, h), path = 0;

	for (size_t i = 0; i < e->port_count; i++)
		ports |= e->ports[i] == port;
	for (size_t i = 0; i < e->methods.count; i++)
		methods |= strcmp(e->methods.items[i], r->method) == 0;
	for (size_t i = 0; i < e->queries.count; i++) {
		const char *q = e->queries.items[i];

		queries |= q[0] == '!' ? !glob_slow(q + 1, r->query, false)
				       : glob_slow(q, r->query, false);
	}
	for (size_t i = 0; i < e->paths.count; i++)
		if (glob_slow(e->paths.items[i], r->path, true)) {
			paths = true;
			if ((long)strlen(e->paths.items[i]) > path)
				path = (long)strlen(e->paths.items[i]);
		}
	if (host < 0 || !ports || !methods || !queries || !paths)
		return -1;
	return ((host * 2 + entry_has_conditions(e)) * 1000 + path) * 2 +
	       (e->rule.action == ACTION_ASK);
}

static enum action judge_slow(const struct policy *p, const struct host *h, uint16_t port,
			      const struct request *r)
{
	enum action action = ACTION_DENY;
	long best = -1;

	for (size_t i = 0; i < p->entry_count; i++) {
		long rank = rank_of(&p->entries[i], h, port, r);

		if (rank >= 0 && p->entries[i].rule.action == ACTION_DENY)
			return ACTION_DENY;
		if (rank > best) {
			best = rank;
			action = p->entries[i].rule.action;
		}
	}
	return action;
}

static void check(const struct policy *p, const struct host *h, uint16_t port,
		  const struct request *r)
{
	struct verdict connect, request, name;

	decision_make(p, NULL, &(struct subject){SUBJECT_CONNECTION, h, port, NULL}, 1, &connect);
	decision_make(p, NULL, &(struct subject){SUBJECT_REQUEST, h, port, r}, 1, &request);
	decision_make(p, NULL, &(struct subject){SUBJECT_NAME, h, 0, NULL}, 1, &name);
	MUST(request.action == judge_slow(p, h, port, r));
	if (connect.action == ACTION_DENY)
		MUST(request.action == ACTION_DENY);
	else
		MUST(name.action != ACTION_DENY);
	if (!connect.inspect)
		MUST(connect.action == request.action && connect.rule == request.rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n}), *words[5] = {NULL}, *at = text, *policy;
	struct policy *parsed = NULL;
	struct err e = {0};
	struct host h;

	MUST(addr_own_load() == 0);
	policy = strchr(text, '\n');
	if (!policy || policy - text > 200) {
		free(text);
		return 0;
	}
	*policy++ = '\0';
	for (size_t i = 0; i < 5; i++)
		words[i] = at ? strsep(&at, " ") : NULL;
	if (policy_parse(&parsed, "fuzz", policy, n - (size_t)(policy - text), &e) < 0)
		MUST(e.kind != ERR_NONE && strncmp(e.msg, "fuzz:", 5) == 0);
	else if (words[3] && host_parse(&h, words[0]) == 0)
		check(parsed, &h, (uint16_t)atoi(words[1]),
		      &(struct request){.method = words[2],
					.path = words[3],
					.query = words[4] ? words[4] : ""});
	policy_free(parsed);
	free(text);
	return 0;
}
