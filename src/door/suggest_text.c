/*
 * The text of a suggestion; see suggest.h.
 *
 * The policy's own text stays as it is, byte for byte. New rules go to the end of `rules`: as lines
 * of its list, or inside its brackets, or as a list of its own where the policy only uses others.
 * At the end, because a rule without a name is called by its place, and its budget with it.
 */
#include "base/limits.h"
#include "base/str.h"
#include "door/policy_form.h"
#include "door/suggest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where rules are put into the text, and in which form. */
struct rules_place {
	size_t at;
	bool flow;	/* inside brackets */
	bool has_comma; /* nothing stands before it that needs one */
	const char *before, *after;
	unsigned column;
};

/* ---- where ---- */

/* The byte at which a line (from 1) and column (from 0, in characters) is. */
static size_t offset_of(const char *text, size_t len, unsigned line, unsigned column)
{
	size_t at = 0;

	for (unsigned n = 1; n < line && at < len; n++) {
		const char *end = memchr(text + at, '\n', len - at);

		at = end ? (size_t)(end - text) + 1 : len;
	}
	for (; column && at < len; column--) {
		uint32_t rune;
		size_t n = str_utf8((const uint8_t *)text + at, len - at, &rune);

		at += n ? n : 1;
	}
	return at;
}

static void place_in_flow(struct rules_place *p, const struct policy_node *v, const char *text,
			  size_t len)
{
	size_t i = p->at = offset_of(text, len, v->end_line, v->end_column);

	while (i > 0 && strchr(" \t\r\n", text[i - 1]))
		i--;
	p->flow = true;
	p->has_comma = v->count == 0 || (i > 0 && text[i - 1] == ',');
	p->column = 2;
}

static int find_place(struct rules_place *ret, const char *text, size_t len, struct err *e)
{
	struct source src = {.name = "the policy", .err = e};
	const struct policy_node *root, *rules;
	struct arena tree = {0};
	int r = policy_tree_parse(&tree, &root, &src, text, len);

	*ret = (struct rules_place){.before = "", .after = "", .at = len, .column = 2};
	rules = r == 0 ? reading_find(root, "rules") : NULL;
	if (r == 0 && rules && rules->flow) {
		place_in_flow(ret, rules, text, len);
		ret->after = "\n";
	} else if (r == 0 && rules) {
		ret->column = rules->column;
		ret->at = offset_of(text, len, rules->end_line, 0);
	} else if (r == 0 && root->flow) {
		place_in_flow(ret, root, text, len);
		ret->before = ret->has_comma ? "\"rules\": [" : ", \"rules\": [";
		ret->has_comma = true;
		ret->after = "\n]";
	} else if (r == 0) {
		ret->before = "rules:\n";
	}
	arena_done(&tree);
	return r;
}

/* ---- one rule ---- */

static bool is_one_rule(const struct suggest_item *a, const struct suggest_item *b)
{
	if (b->fate != SUGGEST_RULE || b->is_written || strcmp(a->host, b->host) != 0 ||
	    a->private != b->private)
		return false;
	if (!a->method || !b->method)
		return !a->method && !b->method && a->port && b->port;
	return a->port == b->port && strcmp(a->method, b->method) == 0;
}

/* The same host and port is private by another denial: one rule for both. */
static void merge_private(struct suggest *s)
{
	for (size_t i = 0; i < s->count; i++)
		for (size_t k = 0; k < s->count; k++) {
			struct suggest_item *a = &s->items[i], *b = &s->items[k];

			if (a->fate == SUGGEST_RULE && b->fate == SUGGEST_RULE && b->private &&
			    !a->method && strcmp(a->host, b->host) == 0 &&
			    (a->port == b->port || !a->port))
				a->private = true;
		}
}

/* A name that was looked up, and then a port of it: the port is what was wanted. */
static bool has_ports(const struct suggest *s, const struct suggest_item *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].fate == SUGGEST_RULE && s->items[i].port &&
		    strcmp(s->items[i].host, name->host) == 0)
			return true;
	return false;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* The ports or the paths of all items that become this rule; each once. */
static int put_list(struct buf *b, struct suggest *s, struct suggest_item *first, bool paths)
{
	size_t from = (size_t)(first - s->items);
	int r = buf_append_str(b, "[");

	for (size_t i = from; i < s->count && r == 0; i++) {
		struct suggest_item *t = &s->items[i];
		bool is_new = t == first || is_one_rule(first, t);

		for (size_t k = from; k < i && is_new && !paths; k++)
			is_new = s->items[k].port != t->port ||
				 (&s->items[k] != first && !is_one_rule(first, &s->items[k]));
		if (is_new && paths)
			r = buf_printf(b, "%s\"%s\"", t == first ? "" : ", ", t->path);
		else if (is_new)
			r = buf_printf(b, "%s%" PRIu64, t == first ? "" : ", ", t->port);
	}
	return r == 0 ? buf_append_str(b, "]") : r;
}

static int put_why(struct buf *b, const struct suggest *s, const struct suggest_item *t,
		   unsigned column)
{
	uint64_t count = t->count;
	int r;

	for (size_t i = (size_t)(t - s->items) + 1; i < s->count; i++)
		count += is_one_rule(t, &s->items[i]) ? s->items[i].count : 0;
	r = buf_printf(b, "%*s# denied %" PRIu64 " time%s: %s\n", (int)column, "", count,
		       plural(count), denial_reason(t->why));
	if (r == 0 && t->method)
		r = buf_printf(b, "%*s# with any query: the audit log has none\n", (int)column, "");
	else if (r == 0 && !t->port)
		r = buf_printf(b, "%*s# only its name was asked for, so this is for 443 and 80\n",
			       (int)column, "");
	return r;
}

static int put_rule(struct buf *b, struct suggest *s, struct suggest_item *t,
		    const struct rules_place *at)
{
	const char *end = at->flow ? ", " : "\n", *q = at->flow ? "\"" : "";
	int indent = at->flow ? 0 : (int)at->column + 2;
	int r = put_why(b, s, t, at->column);

	if (r == 0)
		r = buf_printf(b, "%*s%s%sallow%s: \"%s\"", (int)at->column, "",
			       at->flow ? "{" : "- ", q, q, t->host);
	if (r == 0 && t->port) {
		r = buf_printf(b, "%s%*s%sports%s: ", end, indent, "", q, q);
		if (r == 0)
			r = t->method ? buf_printf(b, "[%" PRIu64 "]", t->port)
				      : put_list(b, s, t, false);
	}
	if (r == 0 && t->method) {
		r = buf_printf(b, "%s%*s%smethods%s: [\"%s\"]%s%*s%spaths%s: ", end, indent, "", q,
			       q, t->method, end, indent, "", q, q);
		if (r == 0)
			r = put_list(b, s, t, true);
	}
	if (r == 0 && t->private)
		r = buf_printf(b, "%s%*s%sprivate%s: true", end, indent, "", q, q);
	return r == 0 ? buf_append_str(b, at->flow ? "}" : "\n") : r;
}

static int put_rules(struct buf *b, struct suggest *s, const struct rules_place *at)
{
	bool needs_comma = !at->has_comma;
	int r = buf_append_str(b, at->before);

	for (size_t i = 0; i < s->count && r == 0; i++) {
		struct suggest_item *t = &s->items[i];

		if (t->fate != SUGGEST_RULE || t->is_written || (!t->port && has_ports(s, t)))
			continue;
		if (at->flow)
			r = buf_append_str(b, needs_comma ? ",\n" : "\n");
		if (r == 0)
			r = put_rule(b, s, t, at);
		needs_comma = true;
		s->rules++;
		for (size_t k = i + 1; k < s->count; k++)
			if (is_one_rule(t, &s->items[k]))
				s->items[k].is_written = true;
		t->is_written = true;
	}
	return r == 0 ? buf_append_str(b, at->after) : r;
}

/* ---- what stands above ---- */

static int put_remark(struct buf *b, const struct suggest_item *t, const char *box)
{
	const struct denied what = {.why = t->why,
				    .box = box,
				    .host = t->host,
				    .port = t->port,
				    .method = t->method,
				    .rule = t->rule};
	char remedy[DENIAL_REMEDY_MAX] = "";
	int r = buf_append_str(b, "#   ");

	if (r == 0 && t->method)
		r = str_escape(b, t->method, strlen(t->method));
	if (r == 0 && t->method)
		r = buf_append_str(b, " ");
	if (r == 0)
		r = str_escape(b, t->host, strlen(t->host));
	if (r == 0 && t->port)
		r = buf_printf(b, ":%" PRIu64, t->port);
	if (r == 0 && t->path)
		r = str_escape(b, t->path, strlen(t->path));
	if (r == 0)
		r = buf_printf(b, ", %" PRIu64 " time%s: %s", t->count, plural(t->count),
			       t->remark ? t->remark : denial_reason(t->why));
	if (r == 0 && t->rule) {
		r = buf_append_str(b, " (rule '");
		if (r == 0)
			r = str_escape(b, t->rule, strlen(t->rule));
		if (r == 0)
			r = buf_append_str(b, "')");
	}
	if (!t->remark)
		denial_remedy(&what, remedy, sizeof(remedy));
	if (r == 0 && remedy[0]) {
		r = buf_append_str(b, "; ");
		if (r == 0)
			r = str_escape(b, remedy, strlen(remedy));
	}
	return r == 0 ? buf_append_str(b, "\n") : r;
}

static int put_top(struct buf *b, struct suggest *s, const char *box, bool has_rules)
{
	int r;

	if (!has_rules)
		r = buf_printf(
			b,
			"# Nothing was denied to '%s' that a rule would let pass: this is its "
			"policy as it is.\n",
			box);
	else
		r = buf_printf(b,
			       "# The policy of '%s', and at the end of its rules what was denied "
			       "to it. Keep what\n# is wanted, then: cove policy apply %s FILE\n",
			       box, box);
	for (size_t i = 0; i < s->count && r == 0; i++) {
		if (s->items[i].fate != SUGGEST_REMARK)
			continue;
		if (s->remarks++ == 0)
			r = buf_append_str(b, "# Denied, and no rule here lets it pass:\n");
		if (r == 0)
			r = put_remark(b, &s->items[i], box);
	}
	if (r == 0 && s->more)
		r = buf_printf(b,
			       "# %" PRIu64 " more denial%s found no room here: apply this and "
			       "look again\n",
			       s->more, plural(s->more));
	return r;
}

int suggest_write(struct suggest *s, const char *box, const char *policy, size_t len,
		  struct buf *out, struct err *e)
{
	bool has_rules = false, has_end;
	struct rules_place at;
	int r = find_place(&at, policy, len, e);

	if (r < 0)
		return r;
	s->rules = s->remarks = 0;
	merge_private(s);
	for (size_t i = 0; i < s->count; i++) {
		s->items[i].is_written = false;
		has_rules = has_rules || s->items[i].fate == SUGGEST_RULE;
	}
	/* Lines are put after a line. */
	has_end = at.flow || at.at == 0 || policy[at.at - 1] == '\n';
	r = put_top(out, s, box, has_rules);
	if (r == 0)
		r = buf_append(out, policy, has_rules ? at.at : len);
	if (r == 0 && has_rules && !has_end)
		r = buf_append_str(out, "\n");
	if (r == 0 && has_rules)
		r = put_rules(out, s, &at);
	if (r == 0 && has_rules)
		r = buf_append(out, policy + at.at, len - at.at);
	return r < 0 ? err_errno(e, -r, "write a suggestion for '%s'", box) : 0;
}
