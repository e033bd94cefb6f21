/* Which texts are put into braces, and what of them stays before the braces. */
#include "tap.h"

#include "init/shell_text.h"

#include <string.h>

TAP_MAIN

TEST(what_can_make_an_unset_variable_an_error)
{
	static const char *const can[] = {
		"echo ${X:?}",	   "echo ${X?gone}", "f() { : ${1:?usage}; }",
		"echo ${a[1]:?}",  ". ./lib",	     "source lib",
		"true && . ./lib", "eval \"$x\"",    "if . ./lib; then :; fi",
		"x; . lib",	   "(. lib)",	     "${!x:?}",
	};
	static const char *const cannot[] = {
		"echo ${X:-?}",
		"ls .",
		"find . -name '*.c'",
		"cp a . && b",
		"echo $?",
		"echo ${X/a/?}",
		"cat source eval",
		"./run",
		"echo evaluate",
		"",
	};

	for (size_t i = 0; i < sizeof(can) / sizeof(*can); i++)
		CHECK(text_defines_abort(can[i]));
	for (size_t i = 0; i < sizeof(cannot) / sizeof(*cannot); i++)
		CHECK(!text_defines_abort(cannot[i]));
}

TEST(set_u_is_found)
{
	CHECK(text_sets_nounset("set -u"));
	CHECK(text_sets_nounset("cd /; set -euo pipefail\n"));
	CHECK(text_sets_nounset("set -o nounset"));
	CHECK(text_sets_nounset("set -x -u"));
	CHECK(!text_sets_nounset("set +u"));
	CHECK(!text_sets_nounset("reset -u; sort -u"));
	CHECK(!text_sets_nounset("set -e; sort -u"));
}

TEST(braces_only_where_they_are_of_use)
{
	CHECK(text_needs_braces("a\nb", false));
	CHECK(text_needs_braces("set -u\na\nb", false));
	CHECK(!text_needs_braces("a; b", false));
	CHECK(!text_needs_braces("a\n", false));
	CHECK(!text_needs_braces("set -e\na\nb", false));
	CHECK(!text_needs_braces("a\nb", true));
	CHECK(text_needs_braces("set +e\na\nb", true));
	CHECK(!text_needs_braces("a\ncat <<E\nb", false));
	CHECK(text_needs_braces("a\ncat <<E\nb\nE", false));
	CHECK(!text_needs_braces("set -u\n# nothing\n\n", false));
}

TEST(the_head_is_options_and_aliases)
{
	CHECK_EQ(text_head_len("set -u\nshopt -s extglob\n# c\n\nalias a='b c'\necho x\nset -x\n"),
		 strlen("set -u\nshopt -s extglob\n# c\n\nalias a='b c'\n"));
	CHECK_EQ(text_head_len("set -u"), 0); /* its end may be missing */
	CHECK_EQ(text_head_len("alias a='b\nc'\nd"), 0);
	CHECK_EQ(text_head_len("set -- $x\nb"), 0);
	CHECK_EQ(text_head_len("set a \\\nb"), 0);
	CHECK_EQ(text_head_len("settle\nb"), 0);
	CHECK_EQ(text_head_len(""), 0);
}
