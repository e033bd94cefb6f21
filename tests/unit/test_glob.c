/* Patterns for paths: what matches, what does not, and what is refused. */
#include "tap.h"

#include "init/glob.h"

#include "base/limits.h"

/* As a walk does it. 1: matches; -1: a directory on the way would not be entered. */
static int match(const char *pattern, const char *path, bool dots)
{
	uint8_t sets[2][INIT_GLOB_PARTS / 8 + 1];
	char text[BOX_PATH_MAX], *at = text, *slash;
	struct init_glob g;
	unsigned now = 0;
	bool more = true;
	struct err e;
	int r;

	CHECK_EQ(init_glob_init(&g, pattern, dots, &e), 0);
	init_glob_begin(&g, sets[0]);
	snprintf(text, sizeof(text), "%s", path);
	while ((slash = strchr(at, '/'))) {
		*slash = '\0';
		more = more && init_glob_step(&g, sets[now], at, sets[now ^ 1]);
		now ^= 1;
		at = slash + 1;
	}
	init_glob_step(&g, sets[now], at, sets[now ^ 1]);
	r = init_glob_is_match(&g, sets[now ^ 1]);
	/* What is not entered cannot match. */
	CHECK(more || !r);
	init_glob_done(&g);
	return more ? r : -1;
}

static bool matches(const char *pattern, const char *path)
{
	return match(pattern, path, false) == 1;
}

TEST(one_name)
{
	CHECK(init_glob_name("*.c", "a.c", false));
	CHECK(init_glob_name("*", "a", false));
	CHECK(init_glob_name("a*b*c", "aXbYbZc", false));
	CHECK(!init_glob_name("a*b*c", "aXbYbZ", false));
	CHECK(init_glob_name("?", "\xc3\xa4", false));
	CHECK(!init_glob_name("?", "ab", false));
	CHECK(init_glob_name("??", "\xff\xfe", false));
	CHECK(init_glob_name("[a-c]x", "bx", false));
	CHECK(!init_glob_name("[!a-c]x", "bx", false));
	CHECK(init_glob_name("[^a-c]x", "dx", false));
	CHECK(init_glob_name("[]]", "]", false));
	CHECK(init_glob_name("[\xc3\xa0-\xc3\xb6]", "\xc3\xa4", false));
	CHECK(init_glob_name("[a", "[a", false));
	CHECK(init_glob_name("\\*", "*", false));
	CHECK(!init_glob_name("\\*", "a", false));
	CHECK(init_glob_name("a\\", "a\\", false));
	CHECK(init_glob_name("a\nb*", "a\nbc", false));
	CHECK(init_glob_name("", "", false));
	CHECK(!init_glob_name("", "a", false));
}

TEST(dots)
{
	CHECK(!init_glob_name("*", ".a", false));
	CHECK(!init_glob_name("?a", ".a", false));
	CHECK(!init_glob_name("[.]a", ".a", false));
	CHECK(init_glob_name(".*", ".a", false));
	CHECK(init_glob_name("\\.a", ".a", false));
	CHECK(init_glob_name("*", ".a", true));
	CHECK(!matches("**/a", ".h/a"));
	CHECK(matches("**/.h/*", "x/.h/a"));
	CHECK(match("**/a", ".h/a", true) == 1);
	CHECK(matches(".h/**", ".h/x/y"));
	CHECK(!matches(".h/**", ".h/x/.y"));
}

TEST(paths)
{
	CHECK(matches("*.c", "a.c"));
	CHECK(matches("*.c", "deep/er/a.c"));
	CHECK(matches("/*.c", "a.c"));
	CHECK(!matches("/*.c", "deep/a.c"));
	CHECK(matches("src/*.c", "src/a.c"));
	CHECK(!matches("src/*.c", "x/src/a.c"));
	CHECK(!matches("src/*.c", "src/x/a.c"));
	CHECK(matches("src/**/*.c", "src/a.c"));
	CHECK(matches("src/**/*.c", "src/x/y/a.c"));
	CHECK(matches("src/**", "src/x/y/a.c"));
	CHECK(matches("**/x/**/y", "x/y"));
	CHECK(matches("**/x/**/y", "a/x/b/c/y"));
	CHECK(!matches("**/x/**/y", "a/b/c/y"));
	CHECK(matches("./a//b", "a/b"));
	CHECK(matches("a/", "x/a"));
	CHECK(matches("a**b", "axxb"));
	CHECK(!matches("a**b", "ax/xb"));
	/* What cannot match below is not entered. */
	CHECK_EQ(match("src/*.c", "lib/a.c", false), -1);
	CHECK_EQ(match("src/*.c", "src/a/b.c", false), -1);
	CHECK_EQ(match("*.c", "lib/a.h", false), 0);
}

TEST(braces)
{
	CHECK(matches("*.{c,h}", "x/a.c") && matches("*.{c,h}", "x/a.h"));
	CHECK(!matches("*.{c,h}", "a.o"));
	CHECK(matches("{a,b/{c,d}}/e", "a/e") && matches("{a,b/{c,d}}/e", "b/d/e"));
	CHECK(!matches("{a,b/{c,d}}/e", "b/e"));
	CHECK(matches("a{,b}", "a") && matches("a{,b}", "ab"));
	CHECK(matches("{a}", "{a}") && matches("a{b", "a{b") && matches("a}b", "a}b"));
	CHECK(matches("\\{a,b}", "{a,b}"));
	CHECK(!matches("\\{a,b}", "a"));
	CHECK(matches("{a,b}{c,d}", "bc"));
	/* One without a slash is for any depth, one with a slash is not. */
	CHECK(matches("{*.c,top/x}", "deep/a.c") && !matches("{*.c,top/x}", "deep/top/x"));
}

static int refused(const char *pattern)
{
	struct init_glob g;
	struct err e = {0};
	int r = init_glob_init(&g, pattern, false, &e);

	if (r == 0)
		init_glob_done(&g);
	else
		CHECK(e.kind == ERR_INVALID || e.kind == ERR_LIMIT);
	return r;
}

TEST(what_is_refused)
{
	char many[256] = "", longest[INIT_PATTERN_MAX + 2];

	CHECK_EQ(refused(""), -EINVAL);
	CHECK_EQ(refused(".."), -EINVAL);
	CHECK_EQ(refused("a/../b"), -EINVAL);
	CHECK_EQ(refused("{a,..}/b"), -EINVAL);
	CHECK_EQ(refused("/.."), -EINVAL);
	CHECK_EQ(refused("...."), 0);
	for (int i = 0; i < 10; i++)
		strcat(many, "{a,b}");
	CHECK_EQ(refused(many), -E2BIG); /* 1,024 */
	many[45] = '\0';
	CHECK_EQ(refused(many), 0); /* 512 */
	memset(longest, 'a', sizeof(longest));
	longest[INIT_PATTERN_MAX + 1] = '\0';
	CHECK_EQ(refused(longest), -EINVAL);
	longest[INIT_PATTERN_MAX] = '\0';
	CHECK_EQ(refused(longest), 0);
	for (size_t i = 1; i < INIT_PATTERN_MAX; i += 2)
		longest[i] = '/';
	CHECK_EQ(refused(longest), 0);
}

TEST(stars_are_not_exponential)
{
	char pattern[201], name[256];

	for (int i = 0; i < 200; i += 2)
		memcpy(pattern + i, "*a", 3);
	memset(name, 'a', 255);
	name[255] = '\0';
	CHECK(init_glob_name(pattern, name, false));
	name[254] = 'b';
	CHECK(!init_glob_name(pattern, name, false));
}

TAP_MAIN
