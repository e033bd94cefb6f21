/*
 * The door's own verbs, and reading the policy; see door.h. Who asks comes from the keeper, whose
 * socket only the box's owner can reach.
 */
#include "door/ask.h"
#include "door/door.h"
#include "door/presets.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/locked.h"
#include "base/sha.h"
#include "base/str.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 8, REASON_MAX = 120, BY_MAX = 64 };

/* ---- reading the policy ---- */

struct reload {
	struct door *door;
	struct reload *next; /* the door's list */
	struct reload_part {
		struct broker_call call;
		struct reload *of;
	} policy, grants, used;
	unsigned left;
	struct err error;
	/* What is recorded about it; see struct policy_change. */
	char by[BY_MAX], verdict[8], pattern[DNS_NAME_MAX + 9];
	uint64_t for_ms;
	void (*on_done)(struct door *d, void *arg, struct err *e);
	void *arg;
};

static bool is_grant(const struct reload *l)
{
	return l->verdict[0];
}

/* The new one is the last of all; those for once are older than it, and it may stand against one of
 * them. */
static int parse_grants(struct reload *l, struct grants *all, struct err *e)
{
	bool carries = is_grant(l);
	char *line, *rest = l->grants.call.text, same[DNS_NAME_MAX + 16];
	struct net_grant g;
	int r = 0;

	snprintf(same, sizeof(same), " %s\n", l->pattern);
	while (r == 0 && (line = strsep(&rest, "\n"))) {
		if (!*line)
			continue;
		if (net_grant_parse(line, &g) < 0)
			return err_set(e, ERR_INVALID, EBADMSG, "the grants are damaged");
		if (carries && strcmp(g.pattern, l->pattern) == 0 &&
		    (!rest || !strstr(rest, same))) { /* no later line is about the same */
			carries = false;
			r = grants_carry_once(all, l->door->grants, e);
		}
		if (r == 0)
			r = grants_add(all, g.allow ? ACTION_ALLOW : ACTION_DENY, g.pattern,
				       g.until_ms, false, e);
	}
	return r == 0 && carries ? grants_carry_once(all, l->door->grants, e) : r;
}

static void record_grant(struct door *d, const char *verdict, const char *pattern,
			 const char *reason, const char *by)
{
	struct audit_row row = {
		.kind = "grant",
		.host = pattern,
		.verdict = verdict,
		.reason = reason,
		.by = by,
	};

	broker_record(d->broker, NULL, &row);
}

static void record_change(const struct reload *l)
{
	struct door *d = l->door;
	bool is_closed = d->trouble.kind != ERR_NONE;
	char reason[REASON_MAX];
	struct audit_row row = {
		.kind = "policy",
		.verdict = is_closed ? "deny" : "allow",
		.rule = d->policy_name,
		.reason = is_closed ? d->trouble.msg : reason,
		.by = l->by[0] ? l->by : NULL,
	};

	snprintf(reason, sizeof(reason), "for %llu s", (unsigned long long)(l->for_ms / 1000));
	if (is_grant(l))
		record_grant(d, l->verdict, l->pattern, l->for_ms ? reason : NULL, l->by);
	if (is_grant(l) && l->error.kind == ERR_NONE)
		return;
	str_copy(reason, sizeof(reason), "sha256:");
	if (!is_closed)
		sha256_hex(l->policy.call.text, l->policy.call.len, reason + strlen(reason));
	broker_record(d->broker, NULL, &row);
}

/* What the text is called: what is built in and says the same, or the name that came with it. A
 * grant changes nothing of it. */
static void name_policy(struct door *d, const struct reload *l)
{
	const char *known[] = {d->config.policy, "closed", "balanced", "open"};
	const char *name = l->pattern[0] && !is_grant(l)      ? l->pattern
			   : is_grant(l) && d->policy_name[0] ? d->policy_name
							      : "file";
	char copy[NET_NAME_MAX];

	for (size_t i = 0; l->policy.call.text && i < sizeof(known) / sizeof(known[0]); i++) {
		autofree char *text = NULL;

		if (preset_text(known[i], &text, NULL) == 0 &&
		    strcmp(l->policy.call.text, text) == 0)
			name = known[i];
	}
	str_copy(copy, sizeof(copy), name);
	str_copy(d->policy_name, sizeof(d->policy_name), copy);
}

/* What was used goes on being so, also what an earlier door, or rules that come back, have used. */
static int load_used(struct reload *l, struct err *e)
{
	struct door *d = l->door;
	struct used_line box = {0};
	uint64_t bytes = d->bytes_up + d->bytes_down;

	if (l->used.call.text &&
	    ledger_load(&d->ledger, l->used.call.text, l->used.call.len, &box) < 0)
		return err_set(e, ERR_INVALID, EBADMSG, "what was used of budgets is damaged");
	/* This door's own bytes are in it if it said any. */
	if (box.up > bytes)
		d->bytes_up += box.up - bytes;
	if (box.up > d->said_bytes)
		d->said_bytes = box.up;
	return 0;
}

/* What a grant or an answer let in, and does not any more. */
static void on_end(struct ev_timer *t)
{
	struct door *d = container(t, struct door, ends);

	if (door_has_ended(d)) {
		(void)door_conns_judge(d, false);
		names_judge_again(d);
	}
	door_watch_ends(d);
}

/* What holds from now on. Where one part cannot be read nothing is let through: without the grants
 * a deny would be missing. */
static void use_policy(struct reload *l)
{
	struct door *d = l->door;
	struct policy *fresh = NULL, *old = d->policy;
	struct grants *granted = NULL, *old_grants = d->grants;

	if (l->error.kind == ERR_NONE && l->policy.call.text)
		policy_parse(&fresh, d->config.policy, l->policy.call.text, l->policy.call.len,
			     &l->error);
	else if (l->error.kind == ERR_NONE)
		err_set(&l->error, ERR_INTERNAL, EIO, "there is no policy");
	if (fresh) {
		granted = grants_new(policy_grants_intercept(fresh));
		if (!granted)
			err_errno(&l->error, ENOMEM, "read the grants");
		else if (!l->grants.call.text || parse_grants(l, granted, &l->error) == 0)
			(void)load_used(l, &l->error);
	}
	if (l->error.kind != ERR_NONE) {
		policy_free(fresh);
		grants_free(granted);
		fresh = policy_closed();
		granted = NULL;
	} else {
		ledger_retain(&d->ledger, fresh);
	}
	d->grants = granted;
	d->policy = fresh;
	resolver_use(d->resolver, &policy_limits(fresh)->resolver);
	d->trouble = l->error;
	name_policy(d, l);
	d->keeps_once = is_grant(l) && l->error.kind == ERR_NONE;
	d->cut = door_conns_judge(d, false);
	names_judge_again(d);
	d->keeps_once = true;
	policy_free(old);
	grants_free(old_grants);
	d->ends.on_timer = on_end;
	door_watch_ends(d);
	record_change(l);
}

static void part_done(struct reload_part *p)
{
	broker_cancel(p->of->door->broker, &p->call);
	free(p->call.text);
}

static void reload_free(struct reload *l)
{
	list_remove(&l->door->reloads, l);
	part_done(&l->policy);
	part_done(&l->grants);
	part_done(&l->used);
	free(l);
}

static void on_part(struct broker_call *call, int r, struct err *e)
{
	struct reload *l = container(call, struct reload_part, call)->of;

	if (r < 0 && l->error.kind == ERR_NONE)
		l->error = *e;
	if (--l->left > 0)
		return;
	use_policy(l);
	l->on_done(l->door, l->arg, &l->error);
	reload_free(l);
}

void door_reload(struct door *d, const struct policy_change *change,
		 void (*on_done)(struct door *d, void *arg, struct err *e), void *arg)
{
	struct reload *l = calloc(1, sizeof(*l));
	struct err e;

	if (!l) {
		err_set(&e, ERR_FULL, ENOMEM, "no memory to read the policy");
		on_done(d, arg, &e);
		return;
	}
	*l = (struct reload){.door = d,
			     .next = d->reloads,
			     .left = 3,
			     .for_ms = change->for_ms,
			     .on_done = on_done,
			     .arg = arg};
	l->policy = l->grants = l->used = (struct reload_part){.call.on_answer = on_part, .of = l};
	str_copy(l->by, sizeof(l->by), change->by ? change->by : "");
	str_copy(l->verdict, sizeof(l->verdict), change->verdict ? change->verdict : "");
	str_copy(l->pattern, sizeof(l->pattern), change->pattern ? change->pattern : "");
	d->reloads = l;
	broker_ask(d->broker, &l->policy.call, BROKER_POLICY);
	broker_ask(d->broker, &l->grants.call, BROKER_GRANTS);
	door_say_used(d);
	broker_ask(d->broker, &l->used.call, BROKER_USED);
}

void reloads_free(struct door *d)
{
	while (d->reloads)
		reload_free(d->reloads);
}

/* ---- verbs ---- */

struct control {
	struct door *door;
	uint32_t id;
	const char *by;
	const char *words[WORDS_MAX];
	size_t count;
};

/* An answer was encoded, or not. */
static int say(struct door *d, int r)
{
	if (r == 0)
		wire_link_flush(&d->keeper);
	return r;
}

static int say_cut(struct door *d, uint32_t id, unsigned cut)
{
	return say(d, wire_cut_encode(&d->keeper.out, id, 0, &(struct wire_cut){cut}));
}

static int verb_status(const struct control *c, struct err *e)
{
	struct door *d = c->door;
	const struct err *trouble =
		d->trouble.kind != ERR_NONE ? &d->trouble : broker_trouble(d->broker);
	const struct wire_door_status m = {
		.running = true,
		.policy = d->policy_name,
		.trouble = trouble->kind != ERR_NONE ? trouble->msg : NULL,
		.connections = d->conn_count,
		.connections_max = door_conns_max(d),
		.bytes_up = d->bytes_up,
		.bytes_down = d->bytes_down,
		.bytes_max = door_bytes_max(d),
		.asks = asks_count(d),
		.memory_locked = locked_always() && broker_memory_is_locked(d->broker),
	};
	int r = say(d, wire_door_status_encode(&d->keeper.out, c->id, 0, &m));

	return r < 0 ? err_errno(e, -r, "the door's status") : 0;
}

static void on_reloaded(struct door *d, void *arg, struct err *e)
{
	uint32_t id = (uint32_t)(uintptr_t)arg;

	if (e->kind == ERR_NONE)
		(void)say_cut(d, id, d->cut);
	else
		err_prefix(e, "nothing is let through any more");
	door_reply(d, id, e->kind == ERR_NONE ? 0 : -EIO, e);
}

/* "allow" or "deny"; NULL if it is neither. */
static const char *verdict_word(const struct control *c, size_t i)
{
	if (i >= c->count ||
	    (strcmp(c->words[i], "allow") != 0 && strcmp(c->words[i], "deny") != 0))
		return NULL;
	return c->words[i];
}

static int verb_reload(const struct control *c, struct err *e)
{
	struct policy_change change = {.by = c->by, .verdict = verdict_word(c, 1)};
	bool has_for = c->count == 5 && strcmp(c->words[3], "for") == 0 &&
		       str_parse_u64(c->words[4], UINT64_MAX, &change.for_ms);

	if (change.verdict ? c->count != 3 && !has_for
			   : c->count > 3 || (c->count >= 2 && strcmp(c->words[1], "policy") != 0))
		return err_set(e, ERR_INVALID, EINVAL,
			       "reload [policy [NAME] | allow|deny HOST[:PORT] [for MS]]");
	change.pattern = c->count > 2 ? c->words[2] : NULL;
	door_reload(c->door, &change, on_reloaded, (void *)(uintptr_t)c->id);
	return -EINPROGRESS;
}

static int verb_once(const struct control *c, struct err *e)
{
	bool is_allow;
	unsigned cut;
	int r;

	if (c->count != 3 || !verdict_word(c, 1))
		return err_set(e, ERR_INVALID, EINVAL, "once allow|deny HOST[:PORT]");
	is_allow = c->words[1][0] == 'a';
	if (!c->door->grants)
		c->door->grants = grants_new(policy_grants_intercept(c->door->policy));
	if (!c->door->grants)
		return err_errno(e, ENOMEM, "make a grant");
	r = grants_add(c->door->grants, is_allow ? ACTION_ALLOW : ACTION_DENY, c->words[2], 0, true,
		       e);
	if (r < 0)
		return r;
	record_grant(c->door, c->words[1], c->words[2], "once", c->by);
	/* One more allow cuts no connection; and what was let through once would not be a second
	 * time. */
	cut = door_conns_judge(c->door, is_allow);
	r = say_cut(c->door, c->id, cut);
	return r < 0 ? err_errno(e, -r, "answer") : 0;
}

/* Those that are kept are in the box's directory; these only the door has. */
static int verb_grants(const struct control *c, struct err *e)
{
	char text[DNS_NAME_MAX + 32];
	enum action action;
	const char *pattern;
	int r = 0;

	for (size_t i = 0; r == 0 && (pattern = grants_once(c->door->grants, i, &action)); i++) {
		snprintf(text, sizeof(text), "%s %s", action == ACTION_ALLOW ? "allow" : "deny",
			 pattern);
		r = say(c->door,
			wire_say_encode(&c->door->keeper.out, c->id, 0, &(struct wire_say){text}));
	}
	return r < 0 ? err_errno(e, -r, "list the grants") : 0;
}

static int say_ask(void *arg, const struct wire_ask *ask)
{
	const struct control *c = arg;

	return say(c->door, wire_ask_encode(&c->door->keeper.out, c->id, 0, ask));
}

static int verb_asks(const struct control *c, struct err *e)
{
	int r = asks_list(c->door, say_ask, (void *)(uintptr_t)c);

	return r < 0 ? err_errno(e, -r, "list what is asked") : 0;
}

static int verb_answer(const struct control *c, struct err *e)
{
	uint64_t id, for_ms = 0;
	bool is_allow = c->count > 2 && strcmp(c->words[2], "allow") == 0;
	bool has_for = c->count == 5 && strcmp(c->words[3], "for") == 0 &&
		       str_parse_u64(c->words[4], UINT64_MAX / 2, &for_ms);
	bool has_once = c->count == 4 && strcmp(c->words[3], "once") == 0;
	int r;

	if (c->count < 3 || !str_parse_u64(c->words[1], UINT64_MAX, &id) ||
	    (!is_allow && strcmp(c->words[2], "deny") != 0) ||
	    (c->count > 3 && !has_for && !has_once))
		return err_set(e, ERR_INVALID, EINVAL, "answer ID allow|deny [for MS|once]");
	/* What it is for is said first: when it was answered it may be gone. */
	r = ask_show(c->door, id, say_ask, (void *)(uintptr_t)c);
	if (r < 0 && r != -ENOENT)
		return err_errno(e, -r, "say what is answered");
	return ask_answer(c->door, id, is_allow, for_ms, c->by, e);
}

static const struct {
	const char *name;
	int (*run)(const struct control *c, struct err *e);
} verbs[] = {
	{"status", verb_status}, {"reload", verb_reload}, {"once", verb_once},
	{"asks", verb_asks},	 {"answer", verb_answer}, {"grants", verb_grants},
};

void control_start(struct door *d, uint32_t id, const struct wire_door *m)
{
	struct control c = {.door = d, .id = id, .by = m->by ? m->by : "somebody"};
	struct err e = {0};
	uint32_t at = 0;
	int r;

	for (const char *word; c.count < WORDS_MAX && (word = wire_list_next(&m->argv, &at));)
		c.words[c.count++] = word;
	r = err_set(&e, ERR_INVALID, EINVAL, "no such verb of the door");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (c.count > 0 && strcmp(c.words[0], verbs[i].name) == 0) {
			e = (struct err){0};
			r = verbs[i].run(&c, &e);
			break;
		}
	if (r != -EINPROGRESS)
		door_reply(d, id, r, &e);
}
