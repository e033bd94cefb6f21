/*
 * Judging; see policy.h.
 *
 * How it works: every question looks at every rule once, live grants first. A rule that does not
 * match is passed over, a deny ends the matter, and of the others the one that ranks highest is
 * kept (struct rank). A question about a connection leaves methods, paths and queries out: if a
 * rule with such conditions, or one that injects, could decide a request on it, the verdict says
 * that the door must intercept, and every request is then asked for by itself. A rule that
 * intercepts cannot decide anything where a rule without such needs names the host more exactly;
 * then the connection is passed as it is.
 *
 * A literal address is matched by addresses, networks and "*" only, a name by names, suffixes and
 * "*". A private address is matched by an allow or ask only where the rule says `private: true`.
 *
 * Grants: of two for the same host and port the later holds for as long as it lasts. They are never
 * freed before the policy is: a connection may still count its bytes on one. Only those that are
 * still good count towards DOOR_GRANTS_MAX.
 */
#include "door/policy.h"

#include "base/str.h"
#include "door/policy_form.h"
#include "door/presets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_EXACT = 1000, PORTS = 65536 };

/* How specific a match is; compared from the top. */
struct rank {
	bool live;
	unsigned host; /* RANK_EXACT, or longer suffixes and prefixes before shorter ones */
	bool conditions;
	size_t path; /* length of the pattern */
	bool ask;
};

struct question {
	const struct host *host;
	uint16_t port;	  /* 0: any */
	bool request;	  /* has the next */
	struct request r; /* query is never NULL */
	uint64_t now_ms;
};

struct match {
	const struct entry *entry; /* NULL: none */
	struct rank rank;
	bool address; /* by an address or a network */
};

struct judging {
	const struct question *q;
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

static bool pattern_matches(const struct pattern *p, const struct host *h)
{
	size_t n = strlen(h->text);

	switch (p->kind) {
	case PATTERN_ANY:
		return true;
	case PATTERN_NAME:
		return !h->is_address && strcmp(p->text, h->text) == 0;
	case PATTERN_SUFFIX:
		return !h->is_address && n > p->len && strcmp(h->text + n - p->len, p->text) == 0;
	case PATTERN_CIDR:
		return h->is_address && cidr_has(&p->cidr, h->family, h->addr);
	}
	return false;
}

static unsigned pattern_rank(const struct pattern *p)
{
	switch (p->kind) {
	case PATTERN_ANY:
		return 0;
	case PATTERN_NAME:
		return RANK_EXACT;
	case PATTERN_SUFFIX:
		return 1 + (unsigned)p->len;
	case PATTERN_CIDR:
		return p->cidr.bits == (p->cidr.family == AF_INET ? 32 : 128) ? RANK_EXACT
									      : 1 + p->cidr.bits;
	}
	return 0;
}

/* The most specific of a rule's hosts that matches. */
static const struct pattern *match_host(const struct entry *e, const struct host *h)
{
	const struct pattern *best = NULL;

	if (h->is_address && e->rule.action != ACTION_DENY && !e->rule.private &&
	    addr_refused(h->family, h->addr))
		return NULL;
	for (size_t i = 0; i < e->pattern_count; i++) {
		const struct pattern *p = &e->patterns[i];

		if (pattern_matches(p, h) && (!best || pattern_rank(p) > pattern_rank(best)))
			best = p;
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

static bool rank_is_higher(const struct rank *a, const struct rank *b)
{
	if (a->live != b->live)
		return a->live;
	if (a->host != b->host)
		return a->host > b->host;
	if (a->conditions != b->conditions)
		return a->conditions;
	if (a->path != b->path)
		return a->path > b->path;
	return a->ask && !b->ask;
}

static void keep_higher(struct match *best, const struct match *m)
{
	if (!best->entry || rank_is_higher(&m->rank, &best->rank))
		*best = *m;
}

static void consider(struct judging *j, const struct entry *e, bool live)
{
	const struct question *q = j->q;
	const struct pattern *p = match_host(e, q->host);
	struct match m = {.entry = e, .rank.live = live};

	if (!p || !match_port(e, q->port))
		return;
	if (q->request && (!match_method(e, &q->r) || !match_query(e, q->r.query) ||
			   !match_path(e, q->r.path, &m.rank.path)))
		return;
	if (e->rule.action == ACTION_DENY) {
		if (!q->request && entry_has_conditions(e))
			j->deny_looks = true;
		else
			j->denied = e;
		return;
	}
	m.rank.host = pattern_rank(p);
	m.rank.conditions = entry_has_conditions(e);
	m.rank.ask = e->rule.action == ACTION_ASK;
	m.address = p->kind == PATTERN_CIDR;
	keep_higher(&j->best, &m);
	keep_higher(entry_looks_inside(e) ? &j->best_look : &j->best_plain, &m);
}

static bool grant_lasts(const struct entry *g, uint64_t now_ms)
{
	return !g->use.spent && (g->until_ms == 0 || now_ms < g->until_ms);
}

/* The same was typed: HOST:PORT has one port; HOST has those of its action, which differ. */
static bool same_aim(const struct entry *a, const struct entry *b)
{
	const struct pattern *p = a->patterns, *q = b->patterns;
	bool has_port = a->port_count == 1;

	if (p->kind != q->kind || has_port != (b->port_count == 1) ||
	    (has_port && a->ports[0] != b->ports[0]))
		return false;
	if (p->kind == PATTERN_CIDR)
		return p->cidr.family == q->cidr.family && p->cidr.bits == q->cidr.bits &&
		       memcmp(p->cidr.addr, q->cidr.addr, sizeof(p->cidr.addr)) == 0;
	return p->kind == PATTERN_ANY || strcmp(p->text, q->text) == 0;
}

/* It lasts, and no later one for the same does. */
static bool grant_holds(const struct policy *p, const struct entry *g, uint64_t now_ms)
{
	if (!grant_lasts(g, now_ms))
		return false;
	for (const struct entry *later = p->grants; later != g; later = later->older)
		if (grant_lasts(later, now_ms) && same_aim(later, g))
			return false;
	return true;
}

static void judge(const struct policy *p, const struct question *q, struct judging *j)
{
	*j = (struct judging){.q = q};
	for (const struct entry *g = p->grants; g && !j->denied; g = g->older)
		if (match_host(g, q->host) && grant_holds(p, g, q->now_ms))
			consider(j, g, true);
	for (size_t i = 0; i < p->entry_count && !j->denied; i++)
		consider(j, &p->entries[i], false);
}

static void verdict_set(struct verdict *ret, enum action action, const struct match *m)
{
	/* Judging changes nothing in a policy; who takes of a rule's budget does, through this. */
	*ret = (struct verdict){.action = action,
				.rule = (struct rule *)(uintptr_t)&m->entry->rule,
				.addresses = m->address};
}

static void verdict_none(struct verdict *ret)
{
	*ret = (struct verdict){.action = ACTION_DENY};
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

static bool allows_any_name(const struct policy *p, uint16_t port, uint64_t now_ms)
{
	bool any = false;

	for (const struct entry *g = p->grants; g; g = g->older)
		if (grant_lasts(g, now_ms) && !lets_any_name(g, port, &any))
			return false;
	for (size_t i = 0; i < p->entry_count; i++)
		if (!lets_any_name(&p->entries[i], port, &any))
			return false;
	return any;
}

void policy_judge_connect(const struct policy *p, const struct host *h, uint16_t port,
			  uint64_t now_ms, struct verdict *ret)
{
	const struct question q = {.host = h, .port = port, .now_ms = now_ms};
	struct judging j;

	judge(p, &q, &j);
	if (j.denied) {
		verdict_set(ret, ACTION_DENY, &(struct match){.entry = j.denied});
		return;
	}
	if (!j.best.entry) {
		verdict_none(ret);
		return;
	}
	/* Conditions and paths rank below the host, so whatever a request is, a rule that needs no
	 * look and names the host more exactly decides it. */
	if (j.deny_looks ||
	    (j.best_look.entry &&
	     !(j.best_plain.entry && (j.best_plain.rank.live > j.best_look.rank.live ||
				      j.best_plain.rank.host > j.best_look.rank.host)))) {
		verdict_set(ret, ACTION_ALLOW, &j.best);
		ret->inspect = true;
		return;
	}
	verdict_set(ret, j.best_plain.entry->rule.action, &j.best_plain);
	ret->any_name = allows_any_name(p, port, now_ms);
}

void policy_judge_request(const struct policy *p, const struct host *h, uint16_t port,
			  const struct request *r, uint64_t now_ms, struct verdict *ret)
{
	struct question q = {.host = h, .port = port, .request = true, .r = *r, .now_ms = now_ms};
	struct judging j;

	if (!q.r.query)
		q.r.query = "";
	judge(p, &q, &j);
	if (j.denied)
		verdict_set(ret, ACTION_DENY, &(struct match){.entry = j.denied});
	else if (j.best.entry)
		verdict_set(ret, j.best.entry->rule.action, &j.best);
	else
		verdict_none(ret);
}

bool policy_has_paths(const struct policy *p, const struct host *h, uint16_t port)
{
	for (size_t i = 0; i < p->entry_count; i++) {
		const struct entry *e = &p->entries[i];

		if (e->paths.count && match_host(e, h) && match_port(e, port))
			return true;
	}
	return false;
}

/* Ports that are denied to a host, whatever is asked there. */
struct shut {
	uint8_t ports[PORTS / 8];
	const struct entry *all; /* a deny for any port */
};

static void shut_add(struct shut *s, const struct entry *e, const struct host *h)
{
	if (e->rule.action != ACTION_DENY || entry_has_conditions(e) || !match_host(e, h))
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

void policy_judge_name(const struct policy *p, const struct host *h, uint64_t now_ms,
		       struct verdict *ret)
{
	const struct question q = {.host = h, .now_ms = now_ms};
	struct judging j = {.q = &q};
	struct shut shut = {0};

	/* A deny for once is for a connection: a name that is not found leads to none. */
	for (const struct entry *g = p->grants; g; g = g->older)
		if (!g->rule.once && match_host(g, h) && grant_holds(p, g, now_ms))
			shut_add(&shut, g, h);
	for (size_t i = 0; i < p->entry_count; i++)
		shut_add(&shut, &p->entries[i], h);
	if (shut.all) {
		verdict_set(ret, ACTION_DENY, &(struct match){.entry = shut.all});
		return;
	}
	for (const struct entry *g = p->grants; g; g = g->older)
		if (g->rule.action != ACTION_DENY && match_host(g, h) &&
		    grant_holds(p, g, now_ms) && shut_leaves(&shut, g))
			consider(&j, g, true);
	for (size_t i = 0; i < p->entry_count; i++)
		if (p->entries[i].rule.action != ACTION_DENY && shut_leaves(&shut, &p->entries[i]))
			consider(&j, &p->entries[i], false);
	if (j.best.entry)
		verdict_set(ret, j.best.entry->rule.action, &j.best);
	else
		verdict_none(ret);
}

/* A leaky bucket, in units of 1 / rate_count ms so that nothing is rounded: each one taken moves
 * the time when the bucket is empty by a window; it is full when that is rate_count windows off. */
bool rule_take(struct rule *r, uint64_t now_ms)
{
	uint64_t now = now_ms * r->rate_count, full = r->rate_window_ms * r->rate_count;
	uint64_t due = r->use->rate_due;

	if (r->once && r->use->spent)
		return false;
	if (r->rate_count && r->use->prepaid) {
		r->use->prepaid--;
	} else if (r->rate_count) {
		if (due < now)
			due = now;
		/* The clock was set back: a full bucket, and no more than that. */
		if (due > now + full)
			due = now + full;
		r->use->rate_due = due;
		if (due + r->rate_window_ms > now + full)
			return false;
		r->use->rate_due = due + r->rate_window_ms;
	}
	r->use->spent = r->once;
	return true;
}

bool rule_take_name(struct rule *r, uint64_t now_ms)
{
	unsigned before = r->use->prepaid;
	bool has_one;

	if (!r->rate_count)
		return true;
	r->use->prepaid = 0;
	has_one = rule_take(r, now_ms);
	r->use->prepaid = has_one && before < r->rate_count ? before + 1 : before;
	return has_one;
}

void rule_give_back(struct rule *r)
{
	if (r->rate_count && r->use->rate_due >= r->rate_window_ms)
		r->use->rate_due -= r->rate_window_ms;
	r->use->spent = false;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

bool rule_count(struct rule *r, uint64_t up, uint64_t down)
{
	struct rule_use *u = r->use;

	u->up = add_capped(u->up, up);
	u->down = add_capped(u->down, down);
	return (r->bytes_up == 0 || u->up <= r->bytes_up) &&
	       (r->bytes_down == 0 || u->down <= r->bytes_down);
}

uint64_t rule_room(const struct rule *r, bool is_up)
{
	uint64_t max = is_up ? r->bytes_up : r->bytes_down;
	uint64_t used = is_up ? r->use->up : r->use->down;

	if (max == 0)
		return UINT64_MAX;
	return used < max ? max - used : 0;
}

void policy_carry_over(struct policy *to, const struct policy *from)
{
	for (size_t i = 0; i < to->entry_count; i++) {
		struct entry *e = &to->entries[i];
		const struct entry *old = NULL;

		/* Mostly the rules are where they were. */
		if (i < from->entry_count && !strcmp(from->entries[i].rule.name, e->rule.name))
			old = &from->entries[i];
		for (size_t k = 0; !old && k < from->entry_count; k++)
			if (strcmp(from->entries[k].rule.name, e->rule.name) == 0)
				old = &from->entries[k];
		if (old)
			e->use = old->use;
	}
}

const char *policy_preset(const char *name)
{
	if (strcmp(name, "none") == 0)
		name = "closed";
	for (const struct preset *p = presets; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return p->text;
	return NULL;
}

struct policy *policy_closed(void)
{
	return calloc(1, sizeof(struct policy));
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	arena_done(&p->arena);
	free(p);
}

const struct policy_limits *policy_limits(const struct policy *p)
{
	return &p->limits;
}

bool policy_secret(const struct policy *p, size_t i, const char **ret_name,
		   const struct rule **ret_rule)
{
	if (i >= p->secret_count)
		return false;
	*ret_name = p->secrets[i].name;
	*ret_rule = p->secrets[i].rule;
	return true;
}

bool policy_intercepts(const struct policy *p)
{
	for (size_t i = 0; i < p->entry_count; i++)
		if (entry_looks_inside(&p->entries[i]))
			return true;
	return p->intercepts;
}

/* "host", "host:port", "[address]:port", "network:port": the host into ret, the port cut off. */
static int split_port(char *text, char **ret_host, uint16_t *ret_port)
{
	char *colon = strchr(text, ':'), *end;
	uint64_t port;

	*ret_host = text;
	*ret_port = 0;
	if (text[0] == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		*ret_host = text + 1;
		colon = end[1] ? end + 1 : NULL;
		*end = '\0';
	} else if (colon && strchr(colon + 1, ':')) {
		colon = NULL;
	}
	if (!colon)
		return 0;
	*colon = '\0';
	if (colon[1] == '0' || !str_parse_u64(colon + 1, UINT16_MAX, &port))
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

/* Without a port: all of them for a deny, those of the web otherwise, as in a rule. */
static int grant_aim(struct policy *p, struct entry *g, const char *pattern, struct err *e)
{
	char *text = arena_strdup(&p->arena, pattern, strlen(pattern)), *host;
	const char *wrong;
	uint16_t port;

	g->patterns = arena_array(&p->arena, 1, sizeof(*g->patterns));
	g->ports = arena_array(&p->arena, 2, sizeof(*g->ports));
	if (!text || !g->patterns || !g->ports)
		return err_set(e, ERR_FULL, ENOMEM, "no memory");
	if (split_port(text, &host, &port) < 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s': write HOST or HOST:PORT, the port from 1 to 65535",
			       pattern);
	wrong = pattern_parse(g->patterns, &p->arena, host);
	if (wrong)
		return err_set(e, ERR_INVALID, EINVAL, "'%.100s': %s", pattern, wrong);
	g->pattern_count = 1;
	if (port) {
		g->ports[g->port_count++] = port;
	} else if (g->rule.action != ACTION_DENY) {
		g->ports[g->port_count++] = 443;
		g->ports[g->port_count++] = 80;
	}
	/* Who types a private address means it. */
	g->rule.private = pattern_is_private(g->patterns);
	return 0;
}

/* Takes out of the list what is used up, and what a newer one that lasts for ever stands before.
 * Their memory stays. Returns how many are left. */
static size_t grants_prune(struct policy *p, const struct entry *newer)
{
	bool replaces = newer->until_ms == 0 && !newer->rule.once;
	struct entry **at = &p->grants;
	size_t count = 0;

	while (*at) {
		if ((*at)->use.spent || (replaces && same_aim(newer, *at))) {
			*at = (*at)->older;
		} else {
			at = &(*at)->older;
			count++;
		}
	}
	return count;
}

int policy_grant(struct policy *p, enum action action, const char *pattern, uint64_t until_ms,
		 bool once, struct err *e)
{
	struct entry *g;
	int r;

	if (action == ACTION_ASK)
		return err_set(e, ERR_INVALID, EINVAL, "a grant allows or denies");
	g = arena_alloc(&p->arena, sizeof(*g));
	if (!g)
		return err_set(e, ERR_FULL, ENOMEM, "no memory");
	g->rule = (struct rule){.name = action == ACTION_ALLOW ? "allow grant" : "deny grant",
				.action = action,
				.once = once,
				.intercept = p->intercepts && action == ACTION_ALLOW,
				.ask_timeout_ms = DOOR_ASK_MS,
				.use = &g->use};
	g->until_ms = until_ms;
	g->aim = arena_strdup(&p->arena, pattern, strlen(pattern));
	if (!g->aim)
		return err_set(e, ERR_FULL, ENOMEM, "no memory");
	r = grant_aim(p, g, pattern, e);
	if (r < 0)
		return r;
	if (grants_prune(p, g) >= DOOR_GRANTS_MAX)
		return err_set(e, ERR_LIMIT, ENOSPC,
			       "more than %u live grants: put them into the policy, or clear them",
			       DOOR_GRANTS_MAX);
	g->older = p->grants;
	p->grants = g;
	return 0;
}

const char *policy_once(const struct policy *p, size_t i, enum action *ret_action)
{
	for (const struct entry *g = p->grants; g; g = g->older)
		if (g->rule.once && !g->use.spent && i-- == 0) {
			*ret_action = g->rule.action;
			return g->aim;
		}
	return NULL;
}

uint64_t policy_next_end(const struct policy *p, uint64_t after_ms)
{
	uint64_t next = 0;

	for (const struct entry *g = p->grants; g; g = g->older)
		if (!g->use.spent && g->until_ms > after_ms && (!next || g->until_ms < next))
			next = g->until_ms;
	return next;
}

/* The older first, as they were made. */
static int carry_once(struct policy *to, const struct entry *g, struct err *e)
{
	int r = g ? carry_once(to, g->older, e) : 0;

	if (!g || r < 0 || !g->rule.once || g->use.spent)
		return r;
	return policy_grant(to, g->rule.action, g->aim, 0, true, e);
}

int policy_carry_once(struct policy *to, const struct policy *from, struct err *e)
{
	return carry_once(to, from->grants, e);
}
