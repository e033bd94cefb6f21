/*
 * Grants; see grants.h. None is freed before the whole set is: a connection may still have its
 * rule.
 */
#include "door/grants.h"

#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct grants {
	struct arena arena; /* holds all of them */
	struct grant *newest;
	bool intercepts;
};

struct grants *grants_new(bool intercepts)
{
	struct grants *all = calloc(1, sizeof(*all));

	if (all)
		all->intercepts = intercepts;
	return all;
}

void grants_free(struct grants *all)
{
	if (!all)
		return;
	arena_done(&all->arena);
	free(all);
}

static bool lasts(const struct grant *g, uint64_t now_ms)
{
	return !g->is_spent && (g->until_ms == 0 || now_ms < g->until_ms);
}

const struct grant *grants_next(const struct grants *all, const struct grant *before,
				uint64_t now_ms)
{
	const struct grant *g = before ? before->older : all ? all->newest : NULL;

	while (g && !lasts(g, now_ms))
		g = g->older;
	return g;
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

bool grants_holds(const struct grants *all, const struct grant *g, uint64_t now_ms)
{
	if (!lasts(g, now_ms))
		return false;
	for (const struct grant *later = all->newest; later != g; later = later->older)
		if (lasts(later, now_ms) && same_aim(&later->entry, &g->entry))
			return false;
	return true;
}

static struct grant *grant_of(const struct grants *all, const struct rule *r)
{
	struct grant *g = all ? all->newest : NULL;

	while (g && &g->entry.rule != r)
		g = g->older;
	return g;
}

bool grants_spend(struct grants *all, const struct rule *r)
{
	struct grant *g = r->once ? grant_of(all, r) : NULL;

	if (!r->once)
		return true;
	if (!g || g->is_spent)
		return false;
	g->is_spent = true;
	return true;
}

void grants_give_back(struct grants *all, const struct rule *r)
{
	struct grant *g = r->once ? grant_of(all, r) : NULL;

	if (g)
		g->is_spent = false;
}

/* ---- making one ---- */

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
static int grant_aim(struct grants *all, struct entry *g, const char *pattern, struct err *e)
{
	char *text = arena_strdup(&all->arena, pattern, strlen(pattern)), *host;
	const char *wrong;
	uint16_t port;

	g->patterns = arena_array(&all->arena, 1, sizeof(*g->patterns));
	g->ports = arena_array(&all->arena, 2, sizeof(*g->ports));
	if (!text || !g->patterns || !g->ports)
		return err_set(e, ERR_FULL, ENOMEM, "no memory");
	if (split_port(text, &host, &port) < 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s': write HOST or HOST:PORT, the port from 1 to 65535",
			       pattern);
	wrong = pattern_parse(g->patterns, &all->arena, host);
	if (wrong)
		return err_set(e, ERR_INVALID, EINVAL, "'%.100s': %s", pattern, wrong);
	g->pattern_count = 1;
	if (!port && g->rule.action != ACTION_DENY && pattern_is_loopback(g->patterns))
		return err_set(e, ERR_INVALID, EINVAL,
			       HOST_LOOPBACK_NAME
			       " is this host's loopback: name the port, as in " HOST_LOOPBACK_NAME
			       ":8080");
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

int grants_add(struct grants *all, enum action action, const char *pattern, uint64_t until_ms,
	       bool once, struct err *e)
{
	bool replaces = until_ms == 0 && !once;
	struct grant *g, **at = &all->newest;
	size_t count = 0;
	int r;

	if (action == ACTION_ASK)
		return err_set(e, ERR_INVALID, EINVAL, "a grant allows or denies");
	g = arena_alloc(&all->arena, sizeof(*g));
	if (!g)
		return err_set(e, ERR_FULL, ENOMEM, "no memory");
	g->entry.rule = (struct rule){.name = action == ACTION_ALLOW ? "allow grant" : "deny grant",
				      .action = action,
				      .once = once,
				      .intercept = all->intercepts && action == ACTION_ALLOW,
				      .ask_timeout_ms = DOOR_ASK_MS};
	g->until_ms = until_ms;
	g->aim = arena_strdup(&all->arena, pattern, strlen(pattern));
	if (!g->aim)
		return err_set(e, ERR_FULL, ENOMEM, "no memory");
	r = grant_aim(all, &g->entry, pattern, e);
	if (r < 0)
		return r;
	/* What is used up goes out of the list, and what a newer one that lasts for ever stands
	 * before. Their memory stays. */
	while (*at) {
		if ((*at)->is_spent || (replaces && same_aim(&g->entry, &(*at)->entry))) {
			*at = (*at)->older;
		} else {
			at = &(*at)->older;
			count++;
		}
	}
	if (count >= DOOR_GRANTS_MAX)
		return err_set(e, ERR_LIMIT, ENOSPC,
			       "more than %u grants: put them into the policy, or clear them",
			       DOOR_GRANTS_MAX);
	g->older = all->newest;
	all->newest = g;
	return 0;
}

/* The older first, as they were made. */
static int carry_once(struct grants *to, const struct grant *g, struct err *e)
{
	int r = g ? carry_once(to, g->older, e) : 0;

	if (!g || r < 0 || !g->entry.rule.once || g->is_spent)
		return r;
	return grants_add(to, g->entry.rule.action, g->aim, 0, true, e);
}

int grants_carry_once(struct grants *to, const struct grants *from, struct err *e)
{
	return from ? carry_once(to, from->newest, e) : 0;
}

/* ---- which there are ---- */

const char *grants_once(const struct grants *all, size_t i, enum action *ret_action)
{
	for (const struct grant *g = all ? all->newest : NULL; g; g = g->older)
		if (g->entry.rule.once && !g->is_spent && i-- == 0) {
			*ret_action = g->entry.rule.action;
			return g->aim;
		}
	return NULL;
}

uint64_t grants_next_end(const struct grants *all, uint64_t after_ms)
{
	uint64_t next = 0;

	for (const struct grant *g = all ? all->newest : NULL; g; g = g->older)
		if (!g->is_spent && g->until_ms > after_ms && (!next || g->until_ms < next))
			next = g->until_ms;
	return next;
}
