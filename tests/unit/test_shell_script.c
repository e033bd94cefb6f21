/* A shell's text is read as bash reads a script, and nothing of the driver is seen. */
#include "shell_client.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

TAP_MAIN

SHELL_TEST(a_command_is_parsed_when_the_one_before_has_run)
{
	struct run *r;

	kept(c, "shopt -s extglob\ncase xx in @(x|xx)) echo ext;; esac", 0, "ext\n");
	kept(c, "alias hi='echo hi'\nhi there", 0, "hi there\n");
	kept(c, "set -u\nalias ho='echo ho'\nho there\necho $#", 0, "ho there\n0\n");
	kept(c, "set +u; shopt -u extglob", 0, "");
	r = kept(c, "echo 1\necho 2\nif ) then\necho 4", 2, "1\n2\n");
	CHECK_STR(run_err(r), "bash: line 3: syntax error near unexpected token `)'\n"
			      "bash: line 3: `if ) then'\n");
	r = kept(c, "echo a\necho 'b", 2, "a\n");
	CHECK(strstr(run_err(r), "bash: line 2: unexpected EOF") == run_err(r));
	kept(c, "f() {\n  cat <<E\n$1\nE\n}\nf x\necho $LINENO", 0, "x\n7\n");
}

/* Where an unset variable may end the text: it is parsed in parts, and ends all the same. */
SHELL_TEST(a_part_is_parsed_when_the_one_before_has_run)
{
	struct run *r;

	kept(c, "echo 'x=1; alias ll=\"echo aliased\"' >lib; echo 'f() { : ${1:?}; }' >lib2", 0,
	     "");
	kept(c, ". ./lib", 0, "");
	kept(c, "cd /\nshopt -s extglob\ncase xx in @(x|xx)) echo ext;; esac\ncd - >/dev/null", 0,
	     "ext\n");
	kept(c, "shopt -u extglob; unalias ll", 0, "");
	kept(c, ". ./lib\nll\nshopt -s extglob\necho ab@(c|d) $LINENO\nfalse", 1,
	     "aliased\nab@(c|d) 4\n");
	kept(c, "shopt -u extglob; unalias ll", 0, "");
	kept(c, ": ${x:?}\nshopt -s extglob\nalias hi='echo hi'\nhi @(c|d)\n", 0, "hi @(c|d)\n");
	kept(c, "shopt -u extglob; unalias hi", 0, "");
	r = kept(c, "echo 1\n: ${NOPE:?}\nalias hi='echo hi'\necho later", 1, "1\n");
	CHECK_STR(run_err(r), "bash: NOPE: parameter null or not set\n");
	kept(c, ": ${x:?}\nalias hi='echo hi'\n: ${NOPE:?}\nhi later", 1, "");
	kept(c, "alias hi", 0, "alias hi='echo hi'\n");
	kept(c, "echo ${NOPE:?}\nshopt -s extglob\nrm -rf !(keep)", 2, "");
	/* $? goes over the cut, and nothing of it is traced */
	kept(c, ": ${x:?}\neval '(exit 7)'\necho $? $LINENO", 0, "7 3\n");
	r = kept(c, ": ${x:?}; set -x\nset -- a\necho $1", 0, "a\n");
	CHECK_STR(run_err(r), "++ set -- a\n++ echo a\n");
	kept(c, "set +x", 0, "");
	/* what a sourced function does in a later text is known, and forgotten with it */
	kept(c, ". ./lib2", 0, "");
	kept(c, "f 1\nf\necho later", 1, "");
	kept(c, "unset -f f", 0, "");
	kept(c, "shopt -s extglob && true\necho ab@(c)", 0, "ab@(c)\n");
}

SHELL_TEST(a_script_may_be_long)
{
	char *text = many_lines("n=0\n", "n=$((n+1))\n", 20000);

	mark(c);
	kept(c, text, 0, "20000\n");
	free(text);
	text = many_lines("set -u\nn=0\n", "n=$((n+1))\n", 4000);
	kept(c, text, 0, "4000\n");
	free(text);
	text = many_lines("n=0; : ", "word ", 180000);
	kept(c, text, 0, "");
	free(text);
	check_mark(c);
}

SHELL_TEST(what_ends_a_script_ends_the_text)
{
	mark(c);
	kept(c, "need() { echo ${1:?}; }", 0, "");
	kept(c, "need 1\nneed\necho later", 1, "1\n");
	kept(c, "echo 'set -u' >opts; . ./opts\necho $NOPE\necho later", 1, "");
	check_mark(c);
	CHECK_EQ(expect(c, "exit", 0, "")->exit.shell_state, SHELL_EXITED);
	kept(c, "set -u; :", 0, "");
	kept(c, "echo $NOPE\necho later", 1, "");
	kept(c, "set +u", 0, "");
	kept(c, "echo $((1/0)); echo same\necho next", 0, "next\n");
	CHECK_EQ(expect(c, "set -eu\nshopt -s extglob\necho @(x)\necho $NOPE\necho no", 1, "@(x)\n")
			 ->exit.shell_state,
		 SHELL_EXITED);
	CHECK_EQ(expect(c, "f() { exit 4; }\nf\necho no", 4, "")->exit.shell_state, SHELL_EXITED);
}

SHELL_TEST(nothing_of_the_driver_is_seen)
{
	struct run *r;

	r = kept(c, "set -v\necho a", 0, "a\n");
	CHECK_STR(run_err(r), "echo a\n");
	r = kept(c, "echo b", 0, "b\n");
	CHECK_STR(run_err(r), "echo b\n");
	kept(c, "set +v -x", 0, "");
	r = kept(c, "echo c", 0, "c\n");
	CHECK_STR(run_err(r), "++ echo c\n");
	kept(c, "set +x; history; fc -l 2>/dev/null", 0, "");
	kept(c, "trap 'echo debug' DEBUG; :", 0, "debug\n");
	kept(c, "echo a; trap - DEBUG; echo b", 0, "debug\na\ndebug\nb\n");
	kept(c, "trap 'echo err $?' ERR; PS1='mine$ ' PROMPT_COMMAND='sleep 1000'", 0, "");
	kept(c, "echo \"$PS1 $PROMPT_COMMAND\"; (exit 3)", 3, "mine$  sleep 1000\nerr 3\n");
	kept(c, "echo \"$? $PS1 $_\"; trap - ERR", 0, "3 mine$  \n");
	kept(c, "set -e; PROMPT_COMMAND=(:  'sleep 1000'); TMOUT=1", 0, "");
	kept(c, "echo ${#PROMPT_COMMAND[@]} $TMOUT; set +e", 0, "2 1\n");
}

/* Reads of init cut it in two; what only begins like it stays. */
SHELL_TEST(the_name_of_the_text_is_cut_out_wherever_it_is)
{
	struct run *r;

	r = line(c, "n=\"$BASH_SOURCE: \"; p=\n"
		    "while ((${#p} + ${#n} < 4000)); do p+=$n; done\n"
		    "for i in {1..200}; do printf %s \"$p\" >&2; done; printf %s \"${n%??}\" >&2; "
		    "printf %s \"${n%??}\"");
	CHECK_STR(run_err(r), run_out(r));
}

SHELL_TEST(what_a_last_argument_is_at_first)
{
	kept(c, "echo \"[$_]\"", 0, "[]\n");
	kept(c, "echo \"[$_]\"; trap : DEBUG; trap - DEBUG", 0, "[]\n");
	kept(c, "echo \"[$_]\"; readonly PS1", 0, "[]\n");
	kept(c, "echo \"[$_]\"; false", 1, "[]\n");
	kept(c, "echo \"[$_]\"", 0, "[]\n");
}

SHELL_TEST(a_crash_is_told)
{
	CHECK_STR(run_err(kept(c, "sh -c 'kill -SEGV $$'", 139, "")), "Segmentation fault\n");
	CHECK_STR(run_err(kept(c, "sh -c 'kill -KILL $$'", 137, "")), "Killed\n");
	CHECK_STR(run_err(kept(c, "(exit 129)", 129, "")), "");
	CHECK_STR(run_err(kept(c, "(exit 139)", 139, "")), "");
	CHECK_STR(run_err(kept(c, "f() { return 137; }; f", 137, "")), "");
	kept(c, "echo $?", 0, "137\n");
}
