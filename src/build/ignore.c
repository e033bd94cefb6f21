/* .dockerignore; see ignore.h. */
#include "build/ignore.h"

#include "base/limits_build.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As Go's filepath.Clean of an absolute path, without the slash before it: empty and "." parts go,
 * and ".." takes back the one before. In place; "" where nothing stays. */
static void clean(char *path)
{
	char *out = path;

	for (char *part = path, *next; part; part = next) {
		size_t n;

		next = strchr(part, '/');
		n = next ? (size_t)(next++ - part) : strlen(part);
		if (n == 0 || (n == 1 && part[0] == '.'))
			continue;
		if (n == 2 && part[0] == '.' && part[1] == '.') {
			while (out > path && *--out != '/')
				;
			continue;
		}
		if (out > path)
			*out++ = '/';
		memmove(out, part, n);
		out += n;
	}
	*out = 0;
}

static char *trim(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	n = strlen(s);
	while (n > 0 && isspace((unsigned char)s[n - 1]))
		s[--n] = 0;
	return s;
}

static int take_rule(struct build_ignore *g, char *line, unsigned number, struct err *e)
{
	struct build_rule *rule, *rules;
	bool is_exception;
	int r;

	if (line[0] == '#')
		return 0;
	line = trim(line);
	if (!*line)
		return 0;
	is_exception = *line == '!';
	if (is_exception)
		line = trim(line + 1);
	if (!*line)
		return err_set(e, ERR_INVALID, EINVAL, "line %u: no pattern stands behind the '!'",
			       number);
	clean(line);
	if (!*line)
		return 0;
	if (g->count == BUILD_RULES_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "line %u: there are more than %u patterns",
			       number, BUILD_RULES_MAX);
	rules = realloc(g->rules, (g->count + 1) * sizeof(*rules));
	if (!rules)
		return err_errno(e, ENOMEM, "read the patterns");
	g->rules = rules;
	rule = &rules[g->count];
	rule->is_exception = is_exception;
	r = build_glob_init(&rule->glob, line, true);
	if (r < 0)
		return err_set(e, ERR_INVALID, EINVAL, "line %u: '%.80s' is no pattern", number,
			       line);
	g->count++;
	g->has_exceptions = g->has_exceptions || is_exception;
	return 0;
}

int build_ignore_parse(struct build_ignore *ret, const char *text, size_t len, struct err *e)
{
	char *copy, *rest, *line;
	unsigned number = 0;
	int r = 0;

	*ret = (struct build_ignore){0};
	if (len > BUILD_IGNORE_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "it is larger than %u bytes", BUILD_IGNORE_MAX);
	if (memchr(text, 0, len))
		return err_set(e, ERR_INVALID, EINVAL, "line 1: the file is no text");
	copy = malloc(len + 1);
	if (!copy)
		return err_errno(e, ENOMEM, "read the patterns");
	memcpy(copy, text, len);
	copy[len] = 0;
	rest = str_starts(copy, "\xef\xbb\xbf") ? copy + 3 : copy;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = take_rule(ret, line, ++number, e);
	free(copy);
	if (r < 0)
		build_ignore_done(ret);
	return r;
}

void build_ignore_done(struct build_ignore *g)
{
	for (size_t i = 0; i < g->count; i++)
		build_glob_done(&g->rules[i].glob);
	free(g->rules);
	*g = (struct build_ignore){0};
}

int build_ignore_has(const struct build_ignore *g, const char *path, uint64_t steps_max,
		     uint64_t *steps)
{
	bool out = false;

	for (size_t i = 0; i < g->count; i++) {
		if (*steps > steps_max)
			return -E2BIG;
		++*steps;
		if (g->rules[i].is_exception == out &&
		    build_glob_covers(&g->rules[i].glob, path, steps))
			out = !out;
	}
	return out;
}
