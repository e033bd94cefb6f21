/* Which texts are put into braces, what stays before the braces, and where they are cut. */
#include "tap.h"

#include "init/shell_text.h"

#include <stdio.h>
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

TEST(a_part_ends_with_what_changes_the_parsing_of_the_rest)
{
	static const struct {
		const char *part, *rest;
	} cut[] = {
		{"cd /x\nshopt -s extglob", "\nls !(a)"},
		{"shopt -s extglob", "\nls"},
		{"a\nalias x='echo \"'", "\nx"},
		{". venv/bin/activate", "\nll"},
		{"source \"$HOME/it's\" || exit 1", "\nll"},
		{"if a; then\nshopt -s x\nfi\nset -x", "\nb"},
		{"cat <<E\nset -x\nif 'it\nE\nset -x", "\nb"},
		{"cat <<-'E F'; b\n\tset -x\n\tE F\nset -x", "\nb"},
		{"for x in a; do (b); done\nf() { c; }\nset -x", "\nb"},
		{"case a in a) b;; (c) d;; esac\nset -x", "\nb"},
		{"echo 'a\nset -x\n' # it's\nset -x", "\nb"},
		{"echo $'it\\'s'\nset -x", "\nb"},
		{"x=\"$(a \"b\")\"\nset -x", "\nb"},
		{"echo a\\'b\neval \"$(a)\"", "\nb"},
	};
	static const char *const whole[] = {
		"",
		"a\nb",
		"a\nset -x",
		"a\nset -x\n\n# c\n",
		"settle\nb",
		"if a; then\nset -x\nb; fi",
		"f() {\nset -x\n}",
		"echo 'a\nset -x\n'",
		"echo \"a\nset -x\n\"",
		"cat <<E\nset -x\nE\n",
		"cat <<E\nset -x\nb",
		"a \\\nset -x\nb",
		"a &&\nset -x\n",
		"a && # c\nset -x # d\nb",
		"set -x;\nb",
		"set -x &&\nb",
		"set 'a\nb'\n",
		"x=(a\nset -x\nb)",
		"echo if\nset -x\nb",
		"echo fi; if a; then\nset -x\nb\nfi",
		"x=\"$(echo \"it's\")\"\nset -x\nb",
		"x=$(a)#'\nset -x\n'\nb",
		"  set -x\nb",
	};

	for (size_t i = 0; i < sizeof(cut) / sizeof(*cut); i++) {
		char text[128];

		snprintf(text, sizeof(text), "%s%s", cut[i].part, cut[i].rest);
		if (text_part_len(text) != strlen(cut[i].part))
			printf("# %s\n", text);
		CHECK_EQ(text_part_len(text), strlen(cut[i].part));
	}
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		if (text_part_len(whole[i]) != 0)
			printf("# %s\n", whole[i]);
		CHECK_EQ(text_part_len(whole[i]), 0);
	}
}
