/* .dockerignore, from tests/data/dockerfiles/ignore; and patterns by themselves. */
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "build/ignore.h"

#include <fcntl.h>
#include <stdio.h>

static void check_paths(const struct build_ignore *g, char *line)
{
	for (char *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		CHECK(line[0] == '-' || line[0] == '+');
		if (build_ignore_has(g, line + 2) != (line[0] == '-')) {
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

TEST(whole_directories)
{
	struct build_ignore g;
	struct err e = {0};

	CHECK_EQ(build_ignore_parse(&g, "a\n", 2, &e), 0);
	CHECK(build_ignore_has_all(&g, "a"));
	CHECK(!build_ignore_has_all(&g, "b"));
	build_ignore_done(&g);
	CHECK_EQ(build_ignore_parse(&g, "a\n!a/b\n", 7, &e), 0);
	CHECK(!build_ignore_has_all(&g, "a"));
	build_ignore_done(&g);
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
	CHECK(!build_ignore_has(&g, "a"));
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

TAP_MAIN
