/*
 * Patterns for paths: a line with the pattern, then the path. Holds: what is written literally, by
 * a backslash before each byte, is what it matches, and nothing else; a directory that is not
 * entered has nothing below it that matches; and with dots allowed no less matches.
 */
#include "fuzz.h"

#include "base/limits.h"
#include "init/glob.h"

struct walked {
	bool matches, more;
};

static struct walked walk(const struct init_glob *g, const char *path)
{
	uint8_t *now = malloc(init_glob_set_size(g)), *next = malloc(init_glob_set_size(g)), *swap;
	struct walked w = {.more = true};
	char *text = strdup(path), *at = text, *end;

	MUST(now && next && text);
	init_glob_begin(g, now);
	for (;; at = end + 1) {
		bool more;

		end = strchr(at, '/');
		if (end)
			*end = '\0';
		more = init_glob_step(g, now, at, next);
		swap = now;
		now = next;
		next = swap;
		if (!end)
			break;
		w.more = w.more && more;
	}
	w.matches = init_glob_is_match(g, now);
	MUST(w.more || !w.matches);
	free(now);
	free(next);
	free(text);
	return w;
}

/* Names alone: a name is never empty, "." or "..". */
static bool is_path(const char *path)
{
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > 255 || (n == 1 && *p == '.') ||
		    (n == 2 && memcmp(p, "..", 2) == 0))
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

static void try_literal(const char *path, const char *other)
{
	char literal[2 * 256 + 2] = "/", *to = literal + 1;
	struct init_glob g;

	if (strlen(path) > 256)
		return;
	for (const char *p = path; *p; p++) {
		/* A character of several bytes stays whole. */
		if (*p != '/' && ((uint8_t)*p & 0xc0) != 0x80)
			*to++ = '\\';
		*to++ = *p;
	}
	*to = '\0';
	MUST(init_glob_init(&g, literal, false, NULL) == 0);
	MUST(walk(&g, path).matches);
	MUST(strcmp(path, other) == 0 || !walk(&g, other).matches);
	init_glob_done(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {.p = p, .n = n};
	struct init_glob g, dots;
	char *text, *path;

	if (n > 1024)
		return 0;
	text = input_text(&in);
	path = strchr(text, '\n');
	if (path)
		*path++ = '\0';
	if (path && is_path(path)) {
		if (init_glob_init(&g, text, false, NULL) == 0) {
			MUST(init_glob_init(&dots, text, true, NULL) == 0);
			MUST(!walk(&g, path).matches || walk(&dots, path).matches);
			init_glob_done(&dots);
			init_glob_done(&g);
		}
		try_literal(path, is_path(text) ? text : path);
	}
	free(text);
	return 0;
}
