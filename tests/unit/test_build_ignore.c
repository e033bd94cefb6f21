/* .dockerignore, from tests/data/dockerfiles/ignore; and patterns by themselves. */
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "build/ignore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static bool has(const struct build_ignore *g, const char *path)
{
	uint64_t steps = 0;
	int r = build_ignore_has(g, path, UINT64_MAX, &steps);

	CHECK(r >= 0);
	return r;
}

static void check_paths(const struct build_ignore *g, char *line)
{
	for (char *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		CHECK(line[0] == '-' || line[0] == '+');
		if (has(g, line + 2) != (line[0] == '-')) {
			printf("# %s\n", line);
			FAIL("another verdict");
		}
	}
}

TEST(table)
{
	const char *dir = getenv("COVE_TEST_DATA");
	char path[512], *text, *at;
	unsigned count = 0;
	size_t len;

	if (!dir)
		SKIP("COVE_TEST_DATA does not say where tests/data is");
	snprintf(path, sizeof(path), "%s/dockerfiles/ignore", dir);
	CHECK_EQ(fd_read_file(AT_FDCWD, path, 1 << 20, &text, &len), 0);
	for (at = strstr(text, "\n===\n"); at; count++) {
		char *body = at + 5, *paths = strstr(body, "\n---\n");
		struct build_ignore g;
		struct err e = {0};

		CHECK(paths);
		at = strstr(paths, "\n===\n");
		if (at)
			*at = 0;
		CHECK_EQ(build_ignore_parse(&g, body, (size_t)(paths - body), &e), 0);
		check_paths(&g, paths + 5);
		build_ignore_done(&g);
	}
	CHECK(count >= 8);
	free(text);
}

TEST(errors)
{
	struct build_ignore g;
	struct err e = {0};

	CHECK_EQ(build_ignore_parse(&g, "a\n!\n", 4, &e), -EINVAL);
	CHECK_EQ(build_ignore_parse(&g, "[a\n", 3, &e), -EINVAL);
	CHECK_EQ(build_ignore_parse(&g, "[]\n", 3, &e), -EINVAL);
	CHECK_EQ(build_ignore_parse(&g, "a\\", 2, &e), -EINVAL);
	CHECK_EQ(build_ignore_parse(&g, "a\0b", 3, &e), -EINVAL);
	CHECK_EQ(build_ignore_parse(&g, "", 0, &e), 0);
	CHECK(!has(&g, "a"));
}

static void matches(const char *pattern, const char *path, bool want)
{
	struct build_glob g;

	CHECK_EQ(build_glob_init(&g, pattern, false), 0);
	if (build_glob_matches(&g, path) != want) {
		printf("# '%s' and '%s'\n", pattern, path);
		FAIL("another verdict");
	}
	build_glob_done(&g);
}

/* As the table in Go's own tests of filepath.Match has such cases. */
TEST(patterns_of_copy)
{
	matches("abc", "abc", true);
	matches("*", "abc", true);
	matches("*c", "abc", true);
	matches("a*", "a", true);
	matches("a*", "ab/c", false);
	matches("a*/b", "abc/b", true);
	matches("a*/b", "a/c/b", false);
	matches("a*b*c*d*e*/f", "axbxcxdxe/f", true);
	matches("a*b*c*d*e*/f", "axbxcxdxexxx/fff", false);
	matches("a*b?c*x", "abxbbxdbxebxczzx", true);
	matches("ab[c]", "abc", true);
	matches("ab[b-d]", "abc", true);
	matches("ab[e-g]", "abc", false);
	matches("ab[^e-g]", "abc", true);
	matches("a\\*b", "a*b", true);
	matches("a\\*b", "ab", false);
	matches("a[^a]b", "a/b", false);
	matches("a*b", "a/b", false);
	matches("[\\]a]", "]", true);
	matches("[\\-x]", "-", true);
	matches("**", "a/b", false);
	matches("a**", "abc", true);
}

TEST(no_pattern_takes_long)
{
	char pattern[2001], path[2001];
	struct build_glob g;

	for (unsigned i = 0; i < 2000; i++) {
		pattern[i] = i % 2 ? 'a' : '*';
		path[i] = 'a';
	}
	pattern[2000] = path[2000] = 0;
	path[1999] = 'b';
	CHECK_EQ(build_glob_init(&g, pattern, true), 0);
	CHECK(!build_glob_matches(&g, path));
	build_glob_done(&g);
}

/* A little of each pattern, as its words say. */
static bool naive(const char *p, const char *s)
{
	if (!*p)
		return !*s;
	if (p[0] == '*' && p[1] == '*') {
		p += p[2] == '/' ? 3 : 2;
		if (!*p || naive(p, s))
			return true;
		while ((s = strchr(s, '/')))
			if (naive(p, ++s))
				return true;
		return false;
	}
	if (*p == '*') {
		for (;; s++) {
			if (naive(p + 1, s))
				return true;
			if (!*s || *s == '/')
				return false;
		}
	}
	return *s && (*p == '?' ? *s != '/' : *p == *s) && naive(p + 1, s + 1);
}

static void compare(const char *pattern, const char *path)
{
	bool want = false, is_suffix = strncmp(pattern, "**", 2) == 0 && pattern[2] &&
				       pattern[2] != '/' && build_glob_is_plain(pattern + 2);
	struct build_glob g;
	uint64_t steps = 0;
	char above[16];

	CHECK_EQ(build_glob_init(&g, pattern, true), 0);
	for (size_t n = strlen(path); n > 0; n--) {
		if (path[n] && path[n] != '/')
			continue;
		snprintf(above, sizeof(above), "%.*s", (int)n, path);
		if (!is_suffix && build_glob_matches(&g, above) != naive(pattern, above)) {
			printf("# '%s' and '%s'\n", pattern, above);
			FAIL("another verdict");
		}
		want = want || build_glob_matches(&g, above);
	}
	CHECK_EQ(build_glob_covers(&g, path, &steps), want);
	build_glob_done(&g);
}

TEST(one_pass_is_as_many)
{
	static const char letters[] = "ab*/?";
	static const char *const paths[] = {"a", "b/a", "aab", "a/b/a", "ab/ba/b", "a/a/a/b"};
	char pattern[6] = "";

	for (unsigned n = 0; n < 5 * 5 * 5 * 5 * 5; n++) {
		for (unsigned i = 0, rest = n; i < 5; i++, rest /= 5)
			pattern[i] = letters[rest % 5];
		for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
			compare(pattern, paths[i]);
			compare(pattern + 2, paths[i]);
		}
	}
}

/* What is soon decided costs little, and what would cost too much is given up. */
TEST(steps)
{
	static char text[8001], path[4001];
	struct build_ignore g;
	struct err e = {0};
	uint64_t steps = 0;

	for (unsigned i = 0; i < 8000; i += 2)
		memcpy(text + i, i % 4000 == 3998 ? "b\n" : "*a", 2);
	for (unsigned i = 0; i < 4000; i++)
		path[i] = i % 200 == 199 ? '/' : 'a';
	CHECK_EQ(build_ignore_parse(&g, text, 8000, &e), 0);
	CHECK_EQ(g.count, 2);
	CHECK_EQ(build_ignore_has(&g, path, UINT64_MAX, &steps), 0);
	CHECK(steps < 200000);
	CHECK_EQ(build_ignore_has(&g, path, steps, &steps), -E2BIG);
	build_ignore_done(&g);
}

TAP_MAIN
