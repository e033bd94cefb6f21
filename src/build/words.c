/* Lists of strings; see words.h. */
#include "build/words.h"

#include "base/fd.h"
#include "base/limits_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int build_words_addn(struct build_words *w, const char *s, size_t n)
{
	char *copy;

	if (w->count >= BUILD_WORDS_MAX)
		return -E2BIG;
	if (w->count + 2 > w->room) {
		size_t room = w->room ? 2 * w->room : 8;
		char **list = realloc(w->list, room * sizeof(*list));

		if (!list)
			return -ENOMEM;
		w->list = list;
		w->room = room;
	}
	copy = malloc(n + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s, n);
	copy[n] = 0;
	w->list[w->count++] = copy;
	w->list[w->count] = NULL;
	return 0;
}

int build_words_add(struct build_words *w, const char *s)
{
	return build_words_addn(w, s, strlen(s));
}

int build_words_add_all(struct build_words *w, const struct build_words *from)
{
	int r = 0;

	for (size_t i = 0; i < from->count && r == 0; i++)
		r = build_words_add(w, from->list[i]);
	return r;
}

void build_words_done(struct build_words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->list[i]);
	free(w->list);
	*w = (struct build_words){0};
}

static size_t find_name(const struct build_words *w, const char *name)
{
	size_t i, n = strlen(name);

	for (i = 0; i < w->count; i++)
		if (strncmp(w->list[i], name, n) == 0 && w->list[i][n] == '=')
			break;
	return i;
}

const char *build_words_value(const struct build_words *w, const char *name)
{
	size_t i = find_name(w, name);

	return i < w->count ? w->list[i] + strlen(name) + 1 : NULL;
}

int build_words_set(struct build_words *w, const char *name, const char *value)
{
	autofree char *pair = NULL;
	size_t i = find_name(w, name);

	if (asprintf(&pair, "%s=%s", name, value) < 0) {
		pair = NULL;
		return -ENOMEM;
	}
	if (i == w->count)
		return build_words_add(w, pair);
	free(w->list[i]);
	w->list[i] = take_ptr(pair);
	return 0;
}
