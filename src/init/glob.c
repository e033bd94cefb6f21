/* Patterns for paths; see glob.h. */
#include "init/glob.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum glob_part_kind { PART_NAME, PART_ANY_DEPTH, PART_END };

struct init_glob_part {
	enum glob_part_kind kind;
	const char *name; /* borrowed from texts */
};

/* ---- one name ---- */

/* A character; a byte that is none in UTF-8 is one of its own, which no pattern's is but itself. */
static size_t take_rune(const char *s, uint32_t *ret)
{
	size_t n = str_utf8((const uint8_t *)s, strnlen(s, 4), ret);

	if (n > 0)
		return n;
	*ret = 0x110000u + (uint8_t)*s;
	return 1;
}

/* p stands behind the bracket. The end of the class, or NULL if it has none: then the bracket is a
 * character like any other. */
static const char *match_class(const char *p, uint32_t rune, bool *ret)
{
	bool negated = *p == '!' || *p == '^', found = false, first = true;
	uint32_t low, high;

	for (p += negated; *p && (*p != ']' || first); first = false) {
		p += *p == '\\' && p[1];
		p += take_rune(p, &low);
		high = low;
		if (p[0] == '-' && p[1] && p[1] != ']') {
			p++;
			p += *p == '\\' && p[1];
			p += take_rune(p, &high);
		}
		found = found || (rune >= low && rune <= high);
	}
	if (*p != ']')
		return NULL;
	*ret = found != negated;
	return p + 1;
}

/* One character of the name against one piece of the pattern that is no star. NULL: no match. */
static const char *match_one(const char *p, uint32_t rune)
{
	const char *end;
	uint32_t wanted;
	bool in_class;

	if (*p == '?')
		return p + 1;
	if (*p == '[') {
		end = match_class(p + 1, rune, &in_class);
		if (end)
			return in_class ? end : NULL;
	}
	p += *p == '\\' && p[1];
	p += take_rune(p, &wanted);
	return wanted == rune ? p : NULL;
}

bool init_glob_name(const char *p, const char *name, bool dots)
{
	const char *star = NULL, *retry = NULL, *next;
	uint32_t rune;

	if (*name == '.' && !dots && *p != '.' && !(p[0] == '\\' && p[1] == '.'))
		return false;
	while (*name) {
		size_t n = take_rune(name, &rune);

		if (*p == '*') {
			star = ++p;
			retry = name;
			continue;
		}
		next = *p ? match_one(p, rune) : NULL;
		if (next) {
			p = next;
			name += n;
		} else if (star) {
			/* The last star takes one character more. */
			p = star;
			retry += take_rune(retry, &rune);
			name = retry;
		} else {
			return false;
		}
	}
	while (*p == '*')
		p++;
	return !*p;
}

/* ---- braces ---- */

/* The first pair that has a comma of its own: where it opens, and where it closes. */
static const char *find_braces(const char *s, const char **ret_close)
{
	for (const char *open = s; *open; open++) {
		unsigned depth = 0;
		bool comma = false;

		if (*open == '\\' && open[1])
			open++;
		else if (*open == '{')
			for (const char *p = open; *p; p++) {
				if (*p == '\\' && p[1])
					p++;
				else if (*p == '{')
					depth++;
				else if (*p == ',' && depth == 1)
					comma = true;
				else if (*p == '}' && --depth == 0) {
					*ret_close = p;
					if (comma)
						return open;
					break;
				}
			}
	}
	return NULL;
}

/* The end of the alternative at p: a comma or the brace that closes. */
static const char *end_of_choice(const char *p, const char *close)
{
	unsigned depth = 0;

	for (; p < close; p++) {
		if (*p == '\\' && p + 1 < close)
			p++;
		else if (*p == '{')
			depth++;
		else if (*p == '}' && depth > 0)
			depth--;
		else if (*p == ',' && depth == 0)
			break;
	}
	return p;
}

static int add_text(struct init_glob *g, char *text)
{
	if (!text)
		return -ENOMEM;
	if (g->text_count == INIT_BRACES_MAX) {
		free(text);
		return -E2BIG;
	}
	g->texts[g->text_count++] = text;
	return 0;
}

/* What a text stands for with the choice from p to end between its braces. */
static char *choose(const char *text, const char *open, const char *close, const char *p,
		    const char *end)
{
	size_t before = (size_t)(open - text), n = (size_t)(end - p), after = strlen(close + 1);
	char *made = malloc(before + n + after + 1);

	if (!made)
		return NULL;
	memcpy(made, text, before);
	memcpy(made + before, p, n);
	memcpy(made + before + n, close + 1, after + 1);
	return made;
}

/* Replaces a text that has braces by those that it stands for: the first in its place, the others
 * at the end of the list, where they are looked at in their turn. Returns 0 once it has none. */
static int expand(struct init_glob *g, size_t at)
{
	const char *close = NULL, *end;
	autofree char *text = NULL;
	const char *open = find_braces(g->texts[at], &close);
	int r = 0;

	if (!open)
		return 0;
	text = g->texts[at];
	end = end_of_choice(open + 1, close);
	g->texts[at] = choose(text, open, close, open + 1, end);
	if (!g->texts[at])
		return -ENOMEM;
	while (end < close && r == 0) {
		const char *p = end + 1;

		end = end_of_choice(p, close);
		r = add_text(g, choose(text, open, close, p, end));
	}
	return r < 0 ? r : 1;
}

/* ---- parts ---- */

static int add_part(struct init_glob *g, enum glob_part_kind kind, const char *name)
{
	if (g->count == INIT_GLOB_PARTS)
		return -E2BIG;
	g->parts[g->count++] = (struct init_glob_part){.kind = kind, .name = name};
	return 0;
}

/* Cuts the text into its names, in place. */
static int add_parts(struct init_glob *g, char *text)
{
	size_t n = strlen(text);
	int r = 0;

	while (n > 0 && text[n - 1] == '/')
		text[--n] = '\0';
	if (!strchr(text, '/'))
		r = add_part(g, PART_ANY_DEPTH, NULL);
	for (char *p = text, *next; p && r == 0; p = next) {
		next = strchr(p, '/');
		if (next)
			*next++ = '\0';
		if (strcmp(p, "..") == 0)
			return -EINVAL;
		if (strcmp(p, "**") == 0)
			r = add_part(g, PART_ANY_DEPTH, NULL);
		else if (*p && strcmp(p, ".") != 0)
			r = add_part(g, PART_NAME, p);
	}
	return r < 0 ? r : add_part(g, PART_END, NULL);
}

int init_glob_init(struct init_glob *g, const char *pattern, bool dots, struct err *e)
{
	int r;

	*g = (struct init_glob){.dots = dots};
	if (!*pattern || strlen(pattern) > INIT_PATTERN_MAX)
		return err_set(e, ERR_INVALID, EINVAL, "a pattern has 1 to %u bytes",
			       INIT_PATTERN_MAX);
	g->texts = calloc(INIT_BRACES_MAX, sizeof(*g->texts));
	g->parts = calloc(INIT_GLOB_PARTS, sizeof(*g->parts));
	r = g->texts && g->parts ? add_text(g, strdup(pattern)) : -ENOMEM;
	for (size_t i = 0; i < g->text_count && r == 0; i++)
		while ((r = expand(g, i)) > 0)
			continue;
	for (size_t i = 0; i < g->text_count && r == 0; i++)
		r = add_parts(g, g->texts[i]);
	if (r == 0)
		return 0;
	init_glob_done(g);
	if (r == -EINVAL)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a pattern may not lead out of the directory: no '..'");
	if (r == -E2BIG)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "the braces of the pattern stand for more than %u patterns, or "
			       "these have more than %u names",
			       INIT_BRACES_MAX, INIT_GLOB_PARTS);
	return err_errno(e, -r, "read a pattern");
}

void init_glob_done(struct init_glob *g)
{
	for (size_t i = 0; i < g->text_count; i++)
		free(g->texts[i]);
	free(g->texts);
	free(g->parts);
	*g = (struct init_glob){0};
}

/* ---- sets ---- */

size_t init_glob_set_size(const struct init_glob *g)
{
	return g->count / 8 + 1;
}

static bool has(const uint8_t *set, size_t i)
{
	return set[i / 8] & 1u << i % 8;
}

/* What may match no name at all is passed, too. */
static void arrive(const struct init_glob *g, uint8_t *set, size_t i)
{
	set[i / 8] |= (uint8_t)(1u << i % 8);
	if (g->parts[i].kind == PART_ANY_DEPTH)
		arrive(g, set, i + 1);
}

void init_glob_begin(const struct init_glob *g, uint8_t *ret)
{
	memset(ret, 0, init_glob_set_size(g));
	for (size_t i = 0; i < g->count; i++)
		if (i == 0 || g->parts[i - 1].kind == PART_END)
			arrive(g, ret, i);
}

bool init_glob_step(const struct init_glob *g, const uint8_t *from, const char *name, uint8_t *ret)
{
	bool may_enter = *name != '.' || g->dots, more = false;

	memset(ret, 0, init_glob_set_size(g));
	for (size_t i = 0; i < g->count; i++) {
		const struct init_glob_part *part = &g->parts[i];

		if (!has(from, i))
			continue;
		if (part->kind == PART_ANY_DEPTH && may_enter)
			arrive(g, ret, i);
		else if (part->kind == PART_NAME && init_glob_name(part->name, name, g->dots))
			arrive(g, ret, i + 1);
	}
	for (size_t i = 0; i < g->count && !more; i++)
		more = has(ret, i) && g->parts[i].kind != PART_END;
	return more;
}

bool init_glob_is_match(const struct init_glob *g, const uint8_t *set)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->parts[i].kind == PART_END && has(set, i))
			return true;
	return false;
}
