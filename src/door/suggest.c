/*
 * Which denials a rule would have let pass; see suggest.h.
 *
 * How it works: the policy of now judges each denial again. What it allows by now needs no rule.
 * What nothing matches gets one. The text that comes of it is read and judges them all once more:
 * where another rule still decides, the new one would be in vain, and a remark takes its place.
 */
#include "door/suggest.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "door/decision.h"
#include "door/policy_form.h"
#include "ev/ev.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void suggest_init(struct suggest *s)
{
	*s = (struct suggest){0};
}

void suggest_done(struct suggest *s)
{
	arena_done(&s->arena);
	*s = (struct suggest){0};
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static struct suggest_item *item_find(struct suggest *s, const struct suggest_item *like)
{
	for (size_t i = 0; i < s->count; i++) {
		struct suggest_item *t = &s->items[i];

		if (t->why == like->why && t->port == like->port &&
		    is_same_text(t->host, like->host) && is_same_text(t->method, like->method) &&
		    is_same_text(t->path, like->path) && is_same_text(t->rule, like->rule))
			return t;
	}
	return NULL;
}

int suggest_add(struct suggest *s, const struct audit_row *row)
{
	const uint64_t times = row->count ? row->count : 1;
	struct suggest_item fresh = {.port = row->port, .count = times}, *item;
	const char **const texts[] = {&fresh.host, &fresh.method, &fresh.path, &fresh.rule};

	if (!row->verdict || strcmp(row->verdict, "deny") != 0 ||
	    !denial_parse(row->why, &fresh.why) || !row->host)
		return 0;
	s->denied += times;
	/* Only a request is judged by these; elsewhere they would tell apart what is the same. */
	fresh.host = row->host;
	fresh.method = fresh.why == DENIAL_REQUEST ? row->method : NULL;
	fresh.path = fresh.why == DENIAL_REQUEST ? row->path : NULL;
	fresh.rule = row->rule;
	item = item_find(s, &fresh);
	if (item) {
		item->count += times;
		return 0;
	}
	if (!s->items)
		s->items = arena_array(&s->arena, SUGGEST_ITEMS_MAX, sizeof(*s->items));
	if (!s->items)
		return -ENOMEM;
	if (s->count == SUGGEST_ITEMS_MAX) {
		s->more += times;
		return 0;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!*texts[i])
			continue;
		*texts[i] = arena_strdup(&s->arena, *texts[i], strlen(*texts[i]));
		if (!*texts[i])
			return -ENOMEM;
	}
	s->items[s->count++] = fresh;
	return 0;
}

static void remark(struct suggest_item *t, const char *why)
{
	t->fate = SUGGEST_REMARK;
	t->remark = why;
}

/* What the policy says of it. False: it cannot be asked. */
static bool decide(const struct policy *p, const struct suggest_item *t, struct verdict *ret)
{
	struct request q = {.method = t->method, .path = t->path, .query = ""};
	bool is_request = t->why == DENIAL_REQUEST && t->method && t->path;
	struct host h;

	if (t->port > UINT16_MAX || host_parse(&h, t->host) < 0)
		return false;
	decision_make(p, NULL,
		      &(struct subject){is_request ? SUBJECT_REQUEST
					: t->port  ? SUBJECT_CONNECTION
						   : SUBJECT_NAME,
					&h, (uint16_t)t->port, is_request ? &q : NULL},
		      clock_wall_ms(), ret);
	return true;
}

/* A rule that has more to say than where to: one beside it would go around that. */
static bool has_more(const struct rule *r)
{
	return rule_injects(r) || r->rate_count || r->bytes_up || r->bytes_down;
}

static void judge_private(struct suggest_item *t, const struct verdict *v)
{
	t->private = true;
	if (v->action == ACTION_DENY)
		return;
	if (v->rule && v->rule->private && !v->inspect)
		t->fate = SUGGEST_ALLOWED;
	else if (v->inspect || v->action == ACTION_ASK || !v->rule || has_more(v->rule))
		remark(t, "it leads to an address that is not public: add 'private: true' to the "
			  "rule that lets it pass");
}

static void judge_request(const struct policy *p, struct suggest_item *t, const struct verdict *v)
{
	const struct entry *e = v->rule ? container(v->rule, struct entry, rule) : NULL;
	struct suggest_item way = {.why = DENIAL_UNMATCHED, .host = t->host, .port = t->port};
	struct verdict other = {0};

	/* The rules that are there for the host say where it may lead to. */
	t->private = decide(p, &way, &other) && other.rule && other.rule->private;

	if (v->action != ACTION_DENY && e && !e->queries.count)
		t->fate = SUGGEST_ALLOWED;
	else if (other.rule && has_more(other.rule))
		remark(t, "a rule with a credential or a budget is there for its host: widen that "
			  "one, since a rule beside it would go around both");
	else if (!t->method || policy_method_wrong(t->method))
		remark(t, "no rule can name its method");
	else if (!t->path || strchr(t->path, '*') || policy_path_wrong(t->path))
		remark(t, "no rule can name its path exactly");
}

static void judge(const struct policy *p, struct suggest_item *t)
{
	struct verdict v;

	t->fate = SUGGEST_RULE;
	if (!decide(p, t, &v))
		remark(t, "no rule can name it");
	else if (t->why != DENIAL_UNMATCHED && t->why != DENIAL_REQUEST && t->why != DENIAL_RULE &&
		 t->why != DENIAL_PRIVATE)
		remark(t, NULL);
	else if (v.action == ACTION_DENY && v.rule)
		remark(t, "a rule denies it, and a deny wins over any rule");
	else if (t->why == DENIAL_PRIVATE)
		judge_private(t, &v);
	else if (t->why == DENIAL_REQUEST)
		judge_request(p, t, &v);
	else if (v.action != ACTION_DENY)
		t->fate = SUGGEST_ALLOWED;
	else if (!t->port && strcmp(t->host, HOST_LOOPBACK_NAME) == 0)
		remark(t, "only its name was asked for: a rule for this host's loopback says which "
			  "'ports'");
}

/* Does what was written let all of it pass? What it does not becomes a remark. */
static bool check(struct suggest *s, const struct policy *p)
{
	bool all = true;

	for (size_t i = 0; i < s->count; i++) {
		struct suggest_item *t = &s->items[i];
		struct verdict v;

		if (t->fate != SUGGEST_RULE)
			continue;
		if (decide(p, t, &v) && v.action == ACTION_ALLOW &&
		    (!t->private || (v.rule && v.rule->private)))
			continue;
		remark(t, "another rule for it decides: change that one");
		all = false;
	}
	return all;
}

int suggest_make(struct suggest *s, const char *box, const char *text, size_t len, struct buf *out,
		 struct err *e)
{
	struct policy *p = NULL;
	bool is_good = false;
	int r = policy_parse(&p, "the policy", text, len, e);

	if (r < 0)
		return r;
	if (addr_own_load() < 0)
		r = err_set(e, ERR_INTERNAL, EIO, "read the host's own addresses");
	for (size_t i = 0; i < s->count && r == 0; i++)
		judge(p, &s->items[i]);
	policy_free(p);
	/* Twice: without what was in vain the first time. */
	for (int pass = 0; pass < 2 && r == 0 && !is_good; pass++) {
		buf_clear(out);
		r = suggest_write(s, box, text, len, out, e);
		p = NULL;
		if (r == 0)
			r = policy_parse(&p, "the suggestion", buf_cstr(out), buf_len(out), e);
		is_good = r == 0 && check(s, p);
		policy_free(p);
	}
	return r;
}

/* Rows, up to the empty line; *ret is what comes after it. */
static int read_rows(struct suggest *s, char *text, char **ret)
{
	char *line;

	while ((line = strsep(&text, "\n")) && *line) {
		struct audit_row row;
		int r = audit_row_unpack(&row, line);

		if (r == 0)
			r = suggest_add(s, &row);
		if (r < 0)
			return r;
	}
	*ret = text;
	return text ? 0 : -EBADMSG;
}

static int read_input(struct buf *b)
{
	ssize_t n;

	do {
		uint8_t *p = buf_reserve(b, 65536);

		if (!p)
			return -ENOMEM;
		n = read(STDIN_FILENO, p, 65536);
		if (n > 0)
			buf_commit(b, (size_t)n);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

int suggest_main(const char *box)
{
	struct suggest s;
	struct buf in, out;
	struct err e = {0};
	char *policy = NULL;
	int r;

	suggest_init(&s);
	buf_init(&in, AUDIT_SEGMENTS * (size_t)AUDIT_SEGMENT_MAX + DOOR_POLICY_MAX);
	buf_init(&out, 2 * DOOR_POLICY_MAX);
	r = read_input(&in);
	if (r == 0)
		r = read_rows(&s, (char *)(uintptr_t)buf_cstr(&in), &policy);
	if (r < 0)
		err_errno(&e, -r, "read what was denied");
	else
		r = suggest_make(&s, box, policy, strlen(policy), &out, &e);
	if (r < 0)
		printf("%s\n", e.msg);
	else
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n%s", s.denied, s.rules, s.remarks,
		       buf_cstr(&out));
	suggest_done(&s);
	buf_done(&in);
	buf_done(&out);
	return fflush(stdout) != 0 || r < 0;
}
