/* Variables and quotes in the words of a Dockerfile. */
#include "tap.h"

#include "base/limits_build.h"
#include "build/expand.h"

static const char *lookup(void *arg, const char *name)
{
	static const char *const vars[][2] = {{"A", "1"},   {"EMPTY", ""}, {"SPACE", "a b"},
					      {"Q", "'\""}, {"D", "$A"},   {"1", "one"}};

	(void)arg;
	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
		if (strcmp(vars[i][0], name) == 0)
			return vars[i][1];
	return NULL;
}

static const struct build_vars vars = {lookup, NULL, '\\'};

static void is(const char *word, const char *want)
{
	struct err e = {0};
	struct buf b;

	buf_init(&b, 4096);
	if (build_expand(&vars, word, &b, &e) < 0)
		printf("# %s: %s\n", word, e.msg);
	CHECK_STR(buf_cstr(&b), want);
	buf_done(&b);
}

static void is_text(const char *text, const char *want)
{
	struct err e = {0};
	struct buf b;

	buf_init(&b, 4096);
	CHECK_EQ(build_expand_text(&vars, text, &b, &e), 0);
	CHECK_STR(buf_cstr(&b), want);
	buf_done(&b);
}

static void fails(const char *word)
{
	struct err e = {0};
	struct buf b;

	buf_init(&b, 4096);
	CHECK_EQ(build_expand(&vars, word, &b, &e), -EINVAL);
	CHECK_EQ(e.kind, ERR_INVALID);
	buf_done(&b);
}

TEST(plain)
{
	is("", "");
	is("a b  c", "a b  c");
	is("'a b'c\"d e\"", "a bcd e");
	is("a\\ b\\\\c\\", "a b\\c");
	is("'\\'", "\\");
	is("\"\\a\\\"\\$A\\\\\"", "\\a\"$A\\");
}

TEST(names)
{
	is("$A", "1");
	is("x$A.y", "x1.y");
	is("${A}b", "1b");
	is("$AB", "");
	is("$NONE-$EMPTY", "-");
	is("\\$A", "$A");
	is("'$A'", "$A");
	is("\"$A\"", "1");
	is("$", "$");
	is("a$ b", "a$ b");
	is("$%", "$%");
	is("$1x", "onex");
	is("$SPACE", "a b");
	is("$D$Q", "$A'\"");
}

TEST(defaults)
{
	is("${A:-x}", "1");
	is("${A-x}", "1");
	is("${EMPTY:-x}", "x");
	is("${EMPTY-x}", "");
	is("${NONE:-x}", "x");
	is("${NONE-x}", "x");
	is("${A:+x}", "x");
	is("${EMPTY:+x}", "");
	is("${EMPTY+x}", "x");
	is("${NONE:+x}", "");
	is("${NONE+x}", "");
	is("${A:?no}", "1");
	is("${EMPTY?no}", "");
	is("${NONE:-${EMPTY:-$A}}", "1");
	is("${NONE:-'a}b'}c", "a}bc");
	is("${NONE:-\"$SPACE\"}", "a b");
	is("${NONE:-a\\}b}", "a}b");
	is("\"${NONE:-x y}\"", "x y");
}

TEST(errors)
{
	fails("'a");
	fails("\"a");
	fails("${A");
	fails("${");
	fails("${}");
	fails("${:-a}");
	fails("${A:-x");
	fails("${A:x}");
	fails("${A/x/y}");
	fails("${NONE:?say why}");
	fails("${EMPTY:?}");
	fails("${NONE?}");
}

TEST(text_keeps_quotes)
{
	is_text("it's \"$A\" '${NONE:-$A}'\n", "it's \"1\" '1'\n");
	is_text("\\$A \\\\", "$A \\");
}

TEST(bounds)
{
	char deep[8 * BUILD_EXPAND_DEPTH_MAX + 8] = "";
	struct err e = {0};
	struct buf b;

	for (unsigned i = 0; i <= BUILD_EXPAND_DEPTH_MAX; i++)
		memcpy(deep + strlen(deep), "${N:-", 6);
	buf_init(&b, 8);
	CHECK_EQ(build_expand(&vars, deep, &b, &e), -EINVAL);
	buf_clear(&b);
	CHECK_EQ(build_expand(&vars, "123456789", &b, &e), -E2BIG);
	CHECK_EQ(e.kind, ERR_LIMIT);
	buf_done(&b);
}

TAP_MAIN
