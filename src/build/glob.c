/*
 * Patterns; see glob.h.
 *
 * A pattern is a row of parts, and matching keeps the set of those that the path read so far can
 * have come to. So nothing is ever tried twice. Two parts that match nothing never stand side by
 * side but for ** and *, so that the set grows by three with each byte, and most often it is empty
 * after the first.
 */
#include "build/glob.h"

#include "base/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum part_kind { LITERAL, ANY, STAR, CLASS, ALL, DIRS };

struct build_glob_part {
	enum part_kind kind;
	uint8_t literal;
	bool negated;
	uint8_t set[32]; /* CLASS */
};

bool build_glob_is_plain(const char *pattern)
{
	return !pattern[strcspn(pattern, "*?[\\")];
}

/* One character of a class, which may be escaped; 0 where there is none. */
static uint8_t class_char(const char **p)
{
	if (**p == '\\')
		++*p;
	else if (**p == '-' || **p == ']')
		return 0;
	return **p ? (uint8_t) * (*p)++ : 0;
}

/* Behind the bracket. */
static int take_class(const char **p, struct build_glob_part *part)
{
	bool any = false;

	part->kind = CLASS;
	part->negated = **p == '^';
	*p += part->negated;
	while (!any || **p != ']') {
		uint8_t low = class_char(p), high = low;

		if (low && **p == '-') {
			++*p;
			high = class_char(p);
		}
		if (!low || !high)
			return -EINVAL;
		for (unsigned c = low; c <= high; c++)
			part->set[c >> 3] |= (uint8_t)(1u << (c & 7));
		any = true;
	}
	++*p;
	return 0;
}

static int take_part(const char **p, bool double_star, struct build_glob_part *part)
{
	char c = *(*p)++;

	switch (c) {
	case '?':
		part->kind = ANY;
		return 0;
	case '[':
		return take_class(p, part);
	case '*':
		part->kind = STAR;
		if (!double_star || **p != '*')
			return 0;
		++*p;
		*p += **p == '/';
		part->kind = **p ? DIRS : ALL;
		return 0;
	case '\\':
		c = *(*p)++;
		if (!c)
			return -EINVAL;
		break;
	default:
		break;
	}
	part->kind = LITERAL;
	part->literal = (uint8_t)c;
	return 0;
}

/* The part behind the last one. What may match nothing anyway is not said twice: "**" and a star
 * in a row that ends with another "**" or star is that one alone. */
static void add_part(struct build_glob *g)
{
	struct build_glob_part *part = &g->parts[g->count], *last = part - 1;
	bool wide = part->kind == ALL || part->kind == DIRS;

	if (g->count > 0 &&
	    ((part->kind == STAR && last->kind == STAR) || (wide && last->kind == DIRS))) {
		*last = *part;
		*part = (struct build_glob_part){0};
	} else {
		g->count++;
	}
}

int build_glob_init(struct build_glob *g, const char *pattern, bool double_star)
{
	size_t n = strlen(pattern);
	int r = 0;

	*g = (struct build_glob){0};
	if (n > BOX_PATH_MAX)
		return -E2BIG;
	if (double_star && n > 2 && memcmp(pattern, "**", 2) == 0 && pattern[2] != '/' &&
	    build_glob_is_plain(pattern + 2)) {
		g->suffix = strdup(pattern + 2);
		return g->suffix ? 0 : -ENOMEM;
	}
	g->parts = calloc(n + 1, sizeof(*g->parts));
	if (!g->parts)
		return -ENOMEM;
	while (*pattern && r == 0) {
		r = take_part(&pattern, double_star, &g->parts[g->count]);
		if (r == 0)
			add_part(g);
	}
	if (r < 0)
		build_glob_done(g);
	return r;
}

void build_glob_done(struct build_glob *g)
{
	free(g->parts);
	free(g->suffix);
	*g = (struct build_glob){0};
}

/* at[i]: part i comes next. within[i]: part i is DIRS and has begun. Both only where low <= i <
 * high. */
struct reached {
	size_t low, high;
	bool at[BOX_PATH_MAX + 2], within[BOX_PATH_MAX + 2];
};

static void clear(struct reached *s)
{
	if (s->low < s->high) {
		memset(s->at + s->low, 0, s->high - s->low);
		memset(s->within + s->low, 0, s->high - s->low);
	}
	s->low = SIZE_MAX;
	s->high = 0;
}

static void include(struct reached *s, size_t i)
{
	s->low = i < s->low ? i : s->low;
	s->high = i >= s->high ? i + 1 : s->high;
}

/* Parts that may match nothing are passed, too. */
static void arrive(const struct build_glob *g, struct reached *s, size_t i)
{
	s->at[i] = true;
	include(s, i);
	while (i < g->count &&
	       (g->parts[i].kind == STAR || g->parts[i].kind == ALL || g->parts[i].kind == DIRS)) {
		i++;
		s->at[i] = true;
		include(s, i);
	}
}

static bool eats(const struct build_glob_part *part, uint8_t c)
{
	bool in_set;

	switch (part->kind) {
	case LITERAL:
		return part->literal == c;
	case ANY:
		return c != '/';
	case CLASS:
		in_set = part->set[c >> 3] & 1u << (c & 7);
		return c != '/' && in_set != part->negated;
	default:
		return false;
	}
}

static void step(const struct build_glob *g, const struct reached *from, struct reached *to,
		 uint8_t c)
{
	clear(to);
	for (size_t i = from->low; i < from->high && i < g->count; i++) {
		const struct build_glob_part *part = &g->parts[i];

		if (from->within[i] || (from->at[i] && part->kind == DIRS)) {
			to->within[i] = true;
			include(to, i);
			if (c == '/')
				arrive(g, to, i + 1);
		}
		if (!from->at[i])
			continue;
		if (part->kind == ALL || (part->kind == STAR && c != '/'))
			arrive(g, to, i);
		else if (eats(part, c))
			arrive(g, to, i + 1);
	}
}

static bool ends_with(const char *path, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n >= m && memcmp(path + n - m, end, m) == 0;
}

/* above: a directory above the path will do, which is the path up to a slash. */
static bool matches(const struct build_glob *g, const char *path, bool above, uint64_t *steps)
{
	struct reached sets[2];
	unsigned now = 0;

	if (g->suffix) {
		bool found = false;

		for (size_t n = 0; above && path[n] && !found; n++, ++*steps)
			found = path[n] == '/' && ends_with(path, n, g->suffix);
		return found || ends_with(path, strlen(path), g->suffix);
	}
	for (unsigned i = 0; i < 2; i++) {
		sets[i].low = 0;
		sets[i].high = g->count + 1;
		clear(&sets[i]);
	}
	arrive(g, &sets[0], 0);
	for (; *path && sets[now].low < sets[now].high; path++, now ^= 1) {
		if (above && *path == '/' && sets[now].at[g->count])
			return true;
		*steps += sets[now].high - sets[now].low;
		step(g, &sets[now], &sets[now ^ 1], (uint8_t)*path);
	}
	return !*path && sets[now].at[g->count];
}

bool build_glob_matches(const struct build_glob *g, const char *path)
{
	uint64_t steps = 0;

	return matches(g, path, false, &steps);
}

bool build_glob_covers(const struct build_glob *g, const char *path, uint64_t *steps)
{
	return matches(g, path, true, steps);
}
