/*
 * Deciding; see decision.h.
 *
 * How it works: every subject is held against every rule once, grants first. A rule that does not
 * match is passed over, a deny ends the matter, and of the others the one that ranks highest is
 * kept (struct rank). For a connection methods, paths and queries are left out: if a rule with such
 * conditions, or one that injects, could decide a request on it, the verdict says that the door
 * must intercept, and every request is then a subject by itself. A rule that intercepts cannot
 * decide anything where a rule without such needs names the host more exactly; then the connection
 * is passed through.
 *
 * A literal address is matched by addresses, networks and "*" only, a name by names, suffixes and
 * "*". A private address is matched by an allow or ask only where the rule says `private: true`,
 * and host.cove.internal, this host's loopback, only where the rule has that very name.
 */
#include "door/decision.h"

#include "door/grants.h"
#include "door/policy_form.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define REMEDY ". Remedy: "
enum { RANK_EXACT = 1000, PORTS = 65536 };

/* How specific a match is; compared from the top. */
struct rank {
	bool granted;
	int host; /* RANK_EXACT, or longer suffixes and prefixes before shorter ones */
	bool conditions;
	size_t path; /* length of the pattern */
	bool ask;
	bool private;
};

struct match {
	const struct entry *entry; /* NULL: none */
	struct rank rank;
};

struct judging {
	const struct subject *subject;
	const struct entry *denied;
	struct match best;	 /* of all */
	struct match best_plain; /* of those that need no interception */
	struct match best_look;	 /* of those that do */
	bool deny_looks;	 /* a deny with conditions is for this host and port */
};

/* Which positions of the pattern may be next, after each byte of the text. */
bool glob_matches(const char *pattern, const char *text, bool segments)
{
	bool at[POLICY_GLOB_MAX + 1] = {true}, next[POLICY_GLOB_MAX + 1];
	size_t n = strlen(pattern);

	if (n > POLICY_GLOB_MAX)
		return false;
	for (const char *t = text;; t++) {
		/* A star may also stand for nothing. */
		for (size_t i = 0; i < n; i++)
			if (at[i] && pattern[i] == '*')
				at[i + 1] = true;
		if (!*t)
			return at[n];
		memset(next, 0, n + 1);
		for (size_t i = 0; i < n; i++) {
			/* Either star of a pair may take a slash: then both together do. */
			bool pair = pattern[i + 1] == '*' || (i > 0 && pattern[i - 1] == '*');

			if (at[i] && pattern[i] != '*' && pattern[i] == *t)
				next[i + 1] = true;
			if (at[i] && pattern[i] == '*' && (*t != '/' || !segments || pair))
				next[i] = true;
		}
		memcpy(at, next, n + 1);
	}
}

/* How exactly a pattern names this host; negative: not at all. */
static int pattern_rank(const struct pattern *p, const struct host *h)
{
	size_t n = strlen(h->text);

	switch (p->kind) {
	case PATTERN_ANY:
		return 0;
	case PATTERN_NAME:
		return !h->is_address && strcmp(p->text, h->text) == 0 ? RANK_EXACT : -1;
	case PATTERN_SUFFIX:
		if (h->is_address || n <= p->len || strcmp(h->text + n - p->len, p->text) != 0)
			return -1;
		return 1 + (int)p->len;
	case PATTERN_CIDR:
		if (!h->is_address || !cidr_has(&p->cidr, h->family, h->addr))
			return -1;
		return p->cidr.bits == (p->cidr.family == AF_INET ? 32 : 128)
			       ? RANK_EXACT
			       : 1 + (int)p->cidr.bits;
	}
	return -1;
}

/* How exactly the rule names this host: the rank of its best pattern; negative: not at all. */
static int match_host(const struct entry *e, const struct host *h)
{
	bool is_loopback = e->rule.action != ACTION_DENY && host_is_loopback_name(h);
	int best = -1;

	if (h->is_address && e->rule.action != ACTION_DENY && !e->rule.private &&
	    addr_refused(h->family, h->addr))
		return -1;
	for (size_t i = 0; i < e->pattern_count; i++) {
		int rank = pattern_rank(&e->patterns[i], h);

		/* A star never stands for this host's loopback. */
		if (is_loopback && e->patterns[i].kind != PATTERN_NAME)
			continue;
		best = rank > best ? rank : best;
	}
	return best;
}

static bool match_port(const struct entry *e, uint16_t port)
{
	for (size_t i = 0; i < e->port_count; i++)
		if (e->ports[i] == port)
			return true;
	return e->port_count == 0 || port == 0;
}

static bool match_method(const struct entry *e, const struct request *r)
{
	bool by_name = !r->websocket || e->rule.action == ACTION_DENY;

	for (size_t i = 0; i < e->methods.count; i++)
		if ((by_name && strcmp(e->methods.items[i], r->method) == 0) ||
		    (r->websocket && strcmp(e->methods.items[i], "WEBSOCKET") == 0))
			return true;
	return e->methods.count == 0;
}

static bool match_query(const struct entry *e, const char *query)
{
	for (size_t i = 0; i < e->queries.count; i++) {
		const char *pattern = e->queries.items[i];
		bool not = pattern[0] == '!';

		if (glob_matches(pattern + not, query, false) != not )
			return true;
	}
	return e->queries.count == 0;
}

/* *ret is the length of the longest pattern that matches. */
static bool match_path(const struct entry *e, const char *path, size_t *ret)
{
	bool found = e->paths.count == 0;

	*ret = 0;
	for (size_t i = 0; i < e->paths.count; i++) {
		size_t n = strlen(e->paths.items[i]);

		if (n > *ret && glob_matches(e->paths.items[i], path, true)) {
			*ret = n;
			found = true;
		}
	}
	return found;
}

static void keep_higher(struct match *best, const struct match *m)
{
	const struct rank *a = &m->rank, *b = &best->rank;
	bool is_higher = a->granted != b->granted	  ? a->granted
			 : a->host != b->host		  ? a->host > b->host
			 : a->conditions != b->conditions ? a->conditions
			 : a->path != b->path		  ? a->path > b->path
			 : a->ask != b->ask		  ? a->ask
							  : a->private && !b->private;

	if (!best->entry || is_higher)
		*best = *m;
}

static void consider(struct judging *j, const struct entry *e, bool granted)
{
	const struct request *r = j->subject->request;
	struct match m = {.entry = e,
			  .rank = {.granted = granted, .host = match_host(e, j->subject->host)}};

	if (m.rank.host < 0 || !match_port(e, j->subject->port))
		return;
	if (r && (!match_method(e, r) || !match_query(e, r->query ? r->query : "") ||
		  !match_path(e, r->path, &m.rank.path)))
		return;
	if (e->rule.action == ACTION_DENY) {
		if (!r && entry_has_conditions(e))
			j->deny_looks = true;
		else
			j->denied = e;
		return;
	}
	m.rank.conditions = entry_has_conditions(e);
	m.rank.ask = e->rule.action == ACTION_ASK;
	m.rank.private = e->rule.private;
	keep_higher(&j->best, &m);
	keep_higher(entry_looks_inside(e) ? &j->best_look : &j->best_plain, &m);
}

static void verdict_set(struct verdict *ret, enum action action, const struct entry *e)
{
	*ret = (struct verdict){.action = action, .rule = e ? &e->rule : NULL};
}

/* Would a name that is not known, because it is hidden or another than was said, be allowed
 * without interception? *ret_any: by a rule for all of them. False: not some name. */
static bool lets_any_name(const struct entry *e, uint16_t port, bool *ret_any)
{
	bool names = false;

	if (!match_port(e, port))
		return true;
	for (size_t i = 0; i < e->pattern_count; i++)
		names = names || e->patterns[i].kind != PATTERN_CIDR;
	if (e->rule.action != ACTION_ALLOW || entry_looks_inside(e))
		return !names;
	for (size_t i = 0; i < e->pattern_count; i++)
		*ret_any = *ret_any || e->patterns[i].kind == PATTERN_ANY;
	return true;
}

static bool allows_any_name(const struct policy *p, const struct grants *granted, uint16_t port,
			    uint64_t now_ms)
{
	bool any = false;

	for (const struct grant *g = NULL; (g = grants_next(granted, g, now_ms));)
		if (!lets_any_name(&g->entry, port, &any))
			return false;
	for (size_t i = 0; i < p->entry_count; i++)
		if (!lets_any_name(&p->entries[i], port, &any))
			return false;
	return any;
}

/* Ports that are denied to a host, whatever is asked there. */
struct shut {
	uint8_t ports[PORTS / 8];
	const struct entry *all; /* a deny for any port */
};

static void shut_add(struct shut *s, const struct entry *e, const struct host *h)
{
	if (e->rule.action != ACTION_DENY || entry_has_conditions(e) || match_host(e, h) < 0)
		return;
	if (e->port_count == 0)
		s->all = e;
	for (size_t i = 0; i < e->port_count; i++)
		s->ports[e->ports[i] / 8] |= (uint8_t)(1u << (e->ports[i] % 8));
}

static bool shut_leaves(const struct shut *s, const struct entry *e)
{
	for (size_t i = 0; i < e->port_count; i++)
		if (!(s->ports[e->ports[i] / 8] & (1u << (e->ports[i] % 8))))
			return true;
	return e->port_count == 0;
}

/* Is there an allow or ask for any port, and no deny for all of them? */
static const struct entry *judge_name(const struct policy *p, const struct grants *granted,
				      uint64_t now_ms, struct judging *j)
{
	const struct host *h = j->subject->host;
	struct shut shut = {0};

	/* A deny for once is for a connection: a name that is not found leads to none. */
	for (const struct grant *g = NULL; (g = grants_next(granted, g, now_ms));)
		if (!g->entry.rule.once && match_host(&g->entry, h) >= 0 &&
		    grants_holds(granted, g, now_ms))
			shut_add(&shut, &g->entry, h);
	for (size_t i = 0; i < p->entry_count; i++)
		shut_add(&shut, &p->entries[i], h);
	if (shut.all)
		return shut.all;
	for (const struct grant *g = NULL; (g = grants_next(granted, g, now_ms));)
		if (g->entry.rule.action != ACTION_DENY && match_host(&g->entry, h) >= 0 &&
		    grants_holds(granted, g, now_ms) && shut_leaves(&shut, &g->entry))
			consider(j, &g->entry, true);
	for (size_t i = 0; i < p->entry_count; i++)
		if (p->entries[i].rule.action != ACTION_DENY && shut_leaves(&shut, &p->entries[i]))
			consider(j, &p->entries[i], false);
	return j->best.entry;
}

void decision_make(const struct policy *p, const struct grants *granted, const struct subject *s,
		   uint64_t now_ms, struct verdict *ret)
{
	struct judging j = {.subject = s};
	const struct match *look = &j.best_look, *plain = &j.best_plain;
	const struct entry *e;

	ASSERT(s->kind != SUBJECT_REQUEST || s->request);
	if (s->kind == SUBJECT_NAME) {
		e = judge_name(p, granted, now_ms, &j);
		verdict_set(ret, e ? e->rule.action : ACTION_DENY, e);
		return;
	}
	for (const struct grant *g = NULL; !j.denied && (g = grants_next(granted, g, now_ms));)
		if (match_host(&g->entry, s->host) >= 0 && grants_holds(granted, g, now_ms))
			consider(&j, &g->entry, true);
	for (size_t i = 0; i < p->entry_count && !j.denied; i++)
		consider(&j, &p->entries[i], false);
	e = j.denied ? j.denied : j.best.entry;
	verdict_set(ret, e ? e->rule.action : ACTION_DENY, e);
	if (s->kind == SUBJECT_REQUEST || j.denied || !e)
		return;
	/* Conditions and paths rank below the host, so whatever a request is, a rule that needs no
	 * interception and names the host more exactly decides it. */
	if (j.deny_looks ||
	    (look->entry && !(plain->entry && (plain->rank.granted > look->rank.granted ||
					       plain->rank.host > look->rank.host)))) {
		ret->action = ACTION_ALLOW;
		ret->inspect = true;
		return;
	}
	verdict_set(ret, plain->entry->rule.action, plain->entry);
	ret->any_name = allows_any_name(p, granted, s->port, now_ms);
}

bool policy_has_paths(const struct policy *p, const struct host *h, uint16_t port)
{
	for (size_t i = 0; i < p->entry_count; i++) {
		const struct entry *e = &p->entries[i];

		if (e->paths.count && match_host(e, h) >= 0 && match_port(e, port))
			return true;
	}
	return false;
}

enum denial denial_of_address(const char *refused)
{
	return refused == addr_metadata ? DENIAL_METADATA : DENIAL_PRIVATE;
}

enum denial decision_explain(const struct verdict *v, const struct subject *s, const char *box,
			     struct err *e)
{
	const struct request *r = s->request;
	const struct host *h = s->host;
	/* No grant is given for such a one. */
	const char *special =
		h->is_address && !r && !v->rule ? addr_refused(h->family, h->addr) : NULL;
	const struct denied d = {.why = v->rule	  ? DENIAL_RULE
					: r	  ? DENIAL_REQUEST
					: special ? denial_of_address(special)
						  : DENIAL_UNMATCHED,
				 .box = box,
				 .host = h->text,
				 .port = s->port,
				 .method = r ? r->method : NULL,
				 .rule = v->rule ? v->rule->name : NULL};
	char remedy[DENIAL_REMEDY_MAX] = "", port[16] = "";
	size_t used;

	if (s->port)
		snprintf(port, sizeof(port), " port %u", s->port);
	if (r)
		err_set(e, ERR_DENIED, EACCES, "%.20s %.60s on %.60s: %s", r->method, r->path,
			d.host, denial_reason(d.why));
	else
		err_set(e, ERR_DENIED, EACCES, "%.70s%s: %s%s", d.host, port,
			special ? "no rule allows it. It is " : denial_reason(d.why),
			special ? special : "");
	/* What is cut off would be another name: it fits, or is not said. */
	used = strlen(e->msg);
	denial_remedy(&d, remedy, sizeof(remedy));
	if (remedy[0] && used + strlen(REMEDY) + strlen(remedy) >= sizeof(e->msg))
		denial_remedy(&d, remedy, sizeof(e->msg) - used - strlen(REMEDY));
	if (remedy[0])
		snprintf(e->msg + used, sizeof(e->msg) - used, REMEDY "%s", remedy);
	return d.why;
}
