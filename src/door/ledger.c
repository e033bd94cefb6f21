/* What was used of budgets, as the proxy counts it; see ledger.h. */
#include "door/ledger.h"

#include "base/str.h"
#include "door/policy_form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void ledger_done(struct door_ledger *l)
{
	free(l->lines);
	*l = (struct door_ledger){0};
}

static struct ledger_line *find(const struct door_ledger *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->lines[i].now.name, name) == 0)
			return &l->lines[i];
	return NULL;
}

/* NULL without memory. */
static struct ledger_line *find_or_add(struct door_ledger *l, const char *name)
{
	struct ledger_line *line = find(l, name), *grown;

	if (line)
		return line;
	grown = reallocarray(l->lines, l->count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	l->lines = grown;
	line = &l->lines[l->count++];
	*line = (struct ledger_line){0};
	str_copy(line->now.name, sizeof(line->now.name), name);
	return line;
}

static bool is_limited(const struct rule *r)
{
	return r->rate_count || r->bytes_up || r->bytes_down;
}

/* The line that a rule is counted on. */
static struct ledger_line *line_of(struct door_ledger *l, const struct rule *r)
{
	struct ledger_line *line = find_or_add(l, r->name);

	if (line)
		line->is_limited = is_limited(r);
	return line;
}

void ledger_retain(struct door_ledger *l, const struct policy *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++) {
		const struct rule *r = NULL;

		for (size_t k = 0; k < p->entry_count && !r; k++)
			if (strcmp(p->entries[k].rule.name, l->lines[i].now.name) == 0)
				r = &p->entries[k].rule;
		if (!r)
			continue;
		/* What was used before there was a budget is reported from now on. */
		l->lines[i].is_limited = is_limited(r);
		l->lines[kept++] = l->lines[i];
	}
	l->count = kept;
}

/* A leaky bucket, in units of 1 / rate_count ms so that nothing is rounded: each one taken moves
 * the time when the bucket is empty by a window; it is full when that is rate_count windows off. */
bool ledger_take(struct door_ledger *l, const struct rule *r, uint64_t now_ms)
{
	uint64_t now = now_ms * r->rate_count, full = r->rate_window_ms * r->rate_count, *due;
	struct ledger_line *line;

	if (!r->rate_count)
		return true;
	line = line_of(l, r);
	if (!line)
		return false;
	if (line->prepaid) {
		line->prepaid--;
		return true;
	}
	due = &line->now.rate_due;
	if (*due < now)
		*due = now;
	/* The clock was set back: a full bucket, and no more than that. */
	if (*due > now + full)
		*due = now + full;
	if (*due + r->rate_window_ms > now + full)
		return false;
	*due += r->rate_window_ms;
	return true;
}

bool ledger_take_name(struct door_ledger *l, const struct rule *r, uint64_t now_ms)
{
	struct ledger_line *line;
	unsigned before;
	bool has_one;

	if (!r->rate_count)
		return true;
	line = line_of(l, r);
	if (!line)
		return false;
	before = line->prepaid;
	line->prepaid = 0;
	has_one = ledger_take(l, r, now_ms);
	line->prepaid = has_one && before < r->rate_count ? before + 1 : before;
	return has_one;
}

void ledger_give_back(struct door_ledger *l, const struct rule *r)
{
	struct ledger_line *line = r->rate_count ? line_of(l, r) : NULL;

	if (line && line->now.rate_due >= r->rate_window_ms)
		line->now.rate_due -= r->rate_window_ms;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

bool ledger_count(struct door_ledger *l, const struct rule *r, uint64_t up, uint64_t down)
{
	struct ledger_line *line;

	/* A grant has no budget. */
	if (r->line == 0)
		return true;
	line = line_of(l, r);
	if (!line)
		return false;
	line->now.up = add_capped(line->now.up, up);
	line->now.down = add_capped(line->now.down, down);
	return (r->bytes_up == 0 || line->now.up <= r->bytes_up) &&
	       (r->bytes_down == 0 || line->now.down <= r->bytes_down);
}

uint64_t ledger_room(const struct door_ledger *l, const struct rule *r, bool is_up)
{
	uint64_t max = is_up ? r->bytes_up : r->bytes_down, used;
	const struct ledger_line *line;

	if (max == 0)
		return UINT64_MAX;
	line = find(l, r->name);
	used = !line ? 0 : is_up ? line->now.up : line->now.down;
	return used < max ? max - used : 0;
}

void ledger_report(struct door_ledger *l, struct buf *out)
{
	for (size_t i = 0; i < l->count; i++) {
		struct ledger_line *line = &l->lines[i];
		const struct used_line *now = &line->now, *was = &line->reported;

		if (!line->is_limited || (now->rate_due <= was->rate_due && now->up <= was->up &&
					  now->down <= was->down))
			continue;
		if (used_line_write(out, now) < 0)
			return;
		line->reported = line->now;
	}
}

int ledger_load(struct door_ledger *l, const char *text, size_t len, struct used_line *ret)
{
	const char *at = text, *end = text + len;
	struct used_line line;
	int r;

	*ret = (struct used_line){0};
	while ((r = used_line_next(&at, end, &line)) > 0) {
		struct ledger_line *known;

		if (!line.name[0]) {
			*ret = line;
			continue;
		}
		known = find_or_add(l, line.name);
		if (!known)
			return -ENOMEM;
		(void)used_line_raise(&known->now, &line);
		(void)used_line_raise(&known->reported, &line);
	}
	return r;
}
