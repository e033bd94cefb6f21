/*
 * Persistent shells against lines that do not end, and lines that turn the shell against its
 * driver. After each of them the shell must answer the next line, and no text may run twice.
 */
#include "shell_client.h"
#include "tap.h"

TAP_MAIN

/* --- time --- */

SHELL_TEST(timeout_keeps_output_and_shell)
{
	static const char *const texts[] = {
		"sleep 1000",
		"trap '' TERM; sleep 1000",
		"while :; do :; done",
		"sleep 1000 & wait",
		"trap '' INT TERM HUP; while :; do sleep 1000; done",
		"kill -STOP $$; sleep 1000",
		"setsid sleep 1000",
		"sh -c 'trap \"\" TERM INT; while :; do :; done'",
		"cat < <(sleep 1000)",
		"read x < <(sleep 1000)",
		"trap 'echo int' INT; while :; do :; done",
		"sleep 1000 | cat | sleep 1000",
		"f() { while :; do sleep 1000; done; }; f",
		"mkfifo f$RANDOM$RANDOM; cat f[0-9]*",
		"mkfifo g$RANDOM$RANDOM; echo x >$(ls g[0-9]* | head -1)",
		"x=$(sleep 1000)",
		"eval 'while :; do :; done'",
	};

	mark(c);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char text[256];
		struct run *r;

		snprintf(text, sizeof(text), "echo so far; %s; echo no", texts[i]);
		r = timed(c, text, 100);
		if (strncmp(run_out(r), "so far\n", 7) != 0 || r->exit.shell_state != SHELL_KEPT)
			printf("# %s\n", texts[i]);
		CHECK(strncmp(run_out(r), "so far\n", 7) == 0);
		CHECK(strstr(run_out(r), "no\n") == NULL);
		CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
		kept(c, "trap - INT TERM HUP; rm -f [fg][0-9]*; echo ok", 0, "ok\n");
	}
	check_mark(c);
}

SHELL_TEST(timeout_ends_the_tree_and_nothing_else)
{
	struct run *r;

	kept(c, "mark=1; sleep 1000 & old=$!; (sh -c 'sleep 1000 & wait' &) 2>/dev/null", 0, "");
	r = timed(c, "setsid sleep 1001 & (sleep 1001 &); sh -c 'sleep 1001; echo no' & sleep 1001",
		  200);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	run_wait_eof(c, r); /* whoever held its output is gone */
	kept(c, "kill -0 $old && pgrep -P $$ -x sleep >/dev/null && echo lives", 0, "lives\n");
	kept(c, "pkill -s 0 -f 'sleep 100[01]'; wait 2>/dev/null", 0, "");
	check_mark(c);
}

SHELL_TEST(later_commands_of_a_timed_out_line_do_not_run)
{
	for (int i = 0; i < 20; i++)
		timed(c, "sleep 1000; touch ran; sleep 1000; touch ran", (uint64_t)(5 + 3 * i));
	kept(c, "test -e ran", 1, "");
}

SHELL_TEST(timeout_at_the_moment_of_the_end)
{
	/* Whoever wins: one answer, and the next line is not hit by what was meant for this one. */
	for (int i = 0; i < 60; i++) {
		struct run *r = ask(c, "sleep 0.02", (uint64_t)(18 + i % 6));

		run_wait(c, r);
		CHECK(r->exit.timed_out || r->exit.has_exit);
		kept(c, "echo next", 0, "next\n");
	}
}

SHELL_TEST(a_shell_that_cannot_be_interrupted_is_restarted)
{
	struct run *r;

	mark(c);
	r = timed(c, "echo a; exec sleep 1000", 50);
	CHECK_STR(run_out(r), "a\n");
	CHECK_EQ(r->exit.shell_state, SHELL_RESTARTED);
	kept(c, "echo [$mark]", 0, "[]\n");
	r = timed(c, "trap '' 50; while :; do trap '' INT; done", 50);
	CHECK_EQ(r->exit.shell_state, SHELL_RESTARTED);
	kept(c, "echo ok", 0, "ok\n");
}

/* --- signals from outside --- */

SHELL_TEST(signals_end_a_line)
{
	struct run *r;

	mark(c);
	r = ask(c, "echo a; sleep 1000; echo no", 0);
	run_wait_text(c, r, "a\n");
	run_signal(c, r, SIGINT, false);
	run_wait(c, r);
	CHECK_STR(run_out(r), "a\n");
	CHECK_EQ(r->exit.signal, SIGINT);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	r = ask(c, "echo a; while :; do :; done", 0);
	run_wait_text(c, r, "a\n");
	run_signal(c, r, SIGTERM, false);
	run_wait(c, r);
	CHECK_EQ(r->exit.signal, SIGTERM);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	r = ask(c, "trap '' INT; echo a; sh -c 'trap \"\" INT; sleep 1000; sleep 1000'; echo no",
		0);
	run_wait_text(c, r, "a\n");
	run_signal(c, r, SIGINT, false);
	run_signal(c, r, 0, true);
	run_wait(c, r);
	CHECK_EQ(r->exit.signal, SIGKILL);
	CHECK_STR(r->cause, "killed");
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	CHECK_EQ(r->exit.timed_out, 0);
	r = ask(c,
		"trap 'echo usr; exit' USR1; echo a; bash -c 'trap \"echo got; exit 6\" USR1; echo "
		"b; while :; "
		"do sleep 0.01; done'",
		0);
	run_wait_text(c, r, "a\nb\n");
	run_signal(c, r, SIGUSR1, false);
	run_wait(c, r);
	CHECK_STR(run_out(r), "a\nb\ngot\n");
	CHECK_EQ(r->exit.exit_code, 6);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	check_mark(c);
}

/* --- a shell turned against its driver --- */

SHELL_TEST(redirections_of_the_shell_itself)
{
	static const char *const texts[] = {
		"exec >/dev/null",     "exec 2>&1",	  "exec >&-",
		"exec 2>&-",	       "exec 0<&-",	  "exec 2>&- 1>&- 0<&-",
		"exec 3<&0 4>&1 5>&2", "exec </dev/zero", "exec >/dev/full; echo x; true",
		"exec 1>file 2>&1",
	};

	mark(c);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct run *r = line(c, texts[i]);

		CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
		r = kept(c, "echo out; echo err >&2; cat", 0, "out\n");
		CHECK_STR(run_err(r), "err\n");
	}
	check_mark(c);
}

static const char *const confusing[] = {
	"PROMPT_COMMAND='echo prompt'",
	"PS1='$(sleep 1000)'",
	"PS0='$(sleep 1000)'",
	"set -x",
	"set +x",
	"set -v",
	"set +v",
	"trap 'echo trapped' DEBUG",
	"trap - DEBUG",
	"set -T; trap : DEBUG RETURN",
	"trap - DEBUG RETURN; set +T",
	"trap 'echo err' ERR",
	"trap - ERR",
	"alias builtin='echo no'",
	"alias source='echo no' eval='echo no'",
	"unalias -a",
	"IFS=0123456789:x",
	"unset IFS",
	"set -f",
	"set +f",
	"set -o noclobber",
	"set +C",
	"shopt -s extglob nullglob failglob dotglob",
	"shopt -u failglob",
	"source() { echo mine; }",
	"echo() { printf '%s\\n' mine; }; unset -f echo",
	"true() { false; }; test() { false; }; kill() { :; }; trap() { :; }; exec() { :; "
	"}; eval() { :; }",
	"unset -f true test kill trap exec eval source",
	"set -k",
	"set +k",
	"umask 777",
	"umask 022",
	"set -m; sleep 0.01 & wait; set +m",
	"suspend; true",
	"fc -l; history; bind -p; true",
	"logout; true",
	"HISTFILE=/tmp/x; set -o history; set +o history",
	"TMOUT=1",
	"LANG=xx; LC_ALL=yy",
	"unset PATH",
	"PATH=/usr/bin:/bin",
	"cd /; PWD=/x; OLDPWD=/y",
	"enable -n echo; enable echo",
	"set -n",
	"set -o vi",
	"set -o emacs",
	"set -b",
	"exec < /dev/tty; true",
	"ulimit -c 0; ulimit -f 100",
	"complete -p; true",
	"disown -a; true",
};

SHELL_TEST(settings_that_could_confuse)
{
	mark(c);
	for (size_t i = 0; i < sizeof(confusing) / sizeof(*confusing); i++) {
		struct run *r = line(c, confusing[i]);

		if (r->exit.shell_state != SHELL_KEPT)
			printf("# %s\n", confusing[i]);
		CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
		CHECK(r->exit.duration_ms < 5000);
		r = line(c, "printf '%s\\n' right; (exit 5)");
		if (r->exit.exit_code != 5)
			printf("# after %s: %s\n", confusing[i], run_err(r));
		CHECK(strstr(run_out(r), "right\n") != NULL);
		CHECK_EQ(r->exit.exit_code, 5);
	}
	check_mark(c);
}

/* The driver does not work any more. It is mended, or a fresh shell takes the line, which must run
 * exactly once. */
static void check_after(struct client *c, const char *text, bool keeps)
{
	struct run *r = ask(c, text, 10000);
	bool told;

	run_wait(c, r);
	told = r->exit.shell_state != SHELL_KEPT;
	r = line(c, "echo right $mark; echo >>count; (exit 5)");
	if (r->exit.exit_code != 5 || (keeps && (told || r->exit.shell_state != SHELL_KEPT)))
		printf("# after %s: %s\n", text, run_err(r));
	CHECK(strstr(run_out(r), keeps ? "right 1\n" : "right") != NULL);
	CHECK_EQ(r->exit.exit_code, 5);
	CHECK(keeps ? !told && r->exit.shell_state == SHELL_KEPT
		    : told || r->exit.shell_state == SHELL_RESTARTED);
	kept(c, "wc -l <count; rm count", 0, "1\n");
}

SHELL_TEST(a_shell_is_mended_and_keeps_its_state)
{
	static const char *const texts[] = {
		"builtin() { echo mine; }",
		"builtin() { :; }",
		"builtin() { :; }; unset() { :; }; enable() { :; }; set() { :; }; printf() { :; }",
		"set -o posix; builtin() { :; }",
		"set +o posix; enable -n source",
		"enable -n builtin",
		"source() { :; }; command() { :; }; trap() { :; }; kill() { :; }; eval() { :; }",
		"kill -INT $$",
		"trap '' INT",
		"trap - INT; kill -INT $$; echo no",
		"exec 1>&-",
		"PROMPT_COMMAND='while :; do :; done'",
		"PROMPT_COMMAND=(: 'sleep 1000')",
		"unset PROMPT_COMMAND __cove",
		"ulimit -n 13",
		"readonly PS1",
		"readonly TMOUT PS2 PROMPT_COMMAND",
		"readonly __cove",
	};
	char text[192];

	mark(c);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		check_after(c, texts[i], true);
	snprintf(text, sizeof(text), "chmod 000 %s", shell_dir);
	check_after(c, text, true);
	snprintf(text, sizeof(text), "chmod 700 %s; rm -f %s/*", shell_dir, shell_dir);
	check_after(c, text, true);
	check_mark(c);
}

/* bash puts descriptors aside at 10 and above; where it may not have those, at lower ones. */
SHELL_TEST(few_files_keep_the_shell)
{
	static const unsigned limits[] = {12, 10, 8};
	struct run *r;
	char text[64];

	kept(c, "echo 'echo >hazard' >data", 0, "");
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		mark(c);
		snprintf(text, sizeof(text), "ulimit -n %u; (exit 3)", limits[i]);
		kept(c, text, 3, "");
		snprintf(text, sizeof(text), "%u\n3\n", limits[i]);
		kept(c, "s=$?; ulimit -n; echo $s; (exit 4)", 4, text);
		kept(c, "echo $?; echo x | cat\nalias hi='echo hi'\nhi", 0, "4\nx\nhi\n");
		r = ask(c, "sleep 1000", 100);
		run_wait(c, r);
		CHECK(r->exit.timed_out && r->exit.shell_state == SHELL_KEPT);
		check_mark(c);
		/* What it put aside is taken: nothing else is read as commands. */
		r = line(c, "exec 4<data; (exit 6)");
		CHECK(r->exit.has_exit && r->exit.exit_code == 6);
		CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
		kept(c, "echo ${mark-none}; [ -e hazard ] || echo ok", 0, "none\nok\n");
	}
}

SHELL_TEST(settings_that_need_a_fresh_shell)
{
	static const char *const texts[] = {
		"ulimit -n 7",
		"set -r",
		"builtin() { exit 9; }",
		"builtin() { kill -9 $$; }",
		"shopt -s extdebug; trap 'false' DEBUG",
		"set -t",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		check_after(c, texts[i], false);
}

SHELL_TEST(an_end_that_is_lost_is_found_out)
{
	static const char *const texts[] = {
		"exec 12>&-",
		"exec 10>&- 11>&- 12>&-",
		"for i in {0..255}; do eval \"exec $i>&-\"; done",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct run *r = ask(c, texts[i], 10000);

		run_wait(c, r);
		r = ask(c, "echo >>count; echo right", 10000);
		run_wait(c, r);
		line(c, "exit");
		kept(c, "wc -l <count; rm count", 0, "1\n");
	}
}

SHELL_TEST(a_timed_out_fg_keeps_the_shell)
{
	struct run *r;

	mark(c);
	r = timed(c, "set -m; sleep 1000 & fg >/dev/null; echo no", 100);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	check_mark(c);
}

SHELL_TEST(a_stopped_shell_goes_on)
{
	mark(c);
	kept(c, "kill -STOP $$; echo on", 0, "on\n");
	check_mark(c);
}

SHELL_TEST(text_that_looks_like_the_protocol)
{
	static const char *const texts[] = {
		"echo $PS1; echo $PS1 >&2",
		"for f in /proc/$$/fd/*; do echo ${__cove}0:i: >$f; done 2>/dev/null",
		"printf '\\014\\0\\0\\0\\012\\0\\0\\0\\1\\0\\0\\0'",
		"head -c 65536 /dev/urandom >&2",
		"echo \"${BASH_SOURCE%c}:0:i:\"; echo \"${BASH_SOURCE%c}:7:i:\" >&2",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct run *r = ask(c, texts[i], 10000);

		run_wait(c, r);
		kept(c, "echo right; (exit 5)", 5, "right\n");
	}
	/* Only the shell has the channel: what a child says on its own descriptors is output. */
	kept(c, "n=${BASH_SOURCE##*/}; n=${n%c}; sh -c \"echo $n:9:i: >&2; sleep 0.05; echo on\"",
	     0, "on\n");
}

SHELL_TEST(a_forged_end_harms_only_its_own_line)
{
	struct run *r;

	mark(c);
	line(c, "n=${BASH_SOURCE##*/}; echo ${n%c}:7:i: >&11; sleep 1000; echo >>count");
	r = expect(c, "echo >>count; echo right", 0, "right\n");
	CHECK_EQ(r->exit.shell_state, SHELL_RESTARTED);
	kept(c, "wc -l <count", 0, "1\n");
}

/* One that is said while init stops the shell, of a text that was never read: the line's time is
 * up, so it must not be tried once more. */
SHELL_TEST(a_forged_end_starts_no_line_after_its_timeout)
{
	const char *forger = "builtin() { local n=${2##*/} s; n=${n%c};"
			     " (while read -r s </proc/$$/stat; do case $s in *') T '*)"
			     " echo $n:0:i: >&11;; esac; done) & sleep 1000; }";

	line(c, forger);
	for (int i = 0; i < 10; i++) {
		struct run *r = timed(c, "echo no", 100);

		CHECK_STR(run_out(r), "");
		if (r->exit.shell_state == SHELL_RESTARTED) /* it was slow to end: a new shell */
			line(c, forger);
	}
}

/* --- with a cgroup --- */

TEST(groups_tell_the_trees_of_lines_apart)
{
	char path[64];
	int group = group_make(path, sizeof(path));
	struct client *c = shells_begin_in(group);
	struct run *r;

	kept(c, "mark=1; grep -c '/e[0-9]*$' /proc/self/cgroup", 0, "1\n");
	kept(c, "setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 & old=$!", 0, "");
	kept(c, "sleep 1000 >/dev/null 2>&1 & job=$!", 0, "");
	for (int i = 0; i < 5; i++) {
		r = timed(c,
			  "setsid sleep 1001 & (sleep 1001 &); (setsid sh -c 'sleep 1001 & sleep "
			  "1001' &); sleep 1001",
			  100);
		CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
		run_wait_eof(c, r);
		kept(c, "kill -0 $old && kill -0 $job && echo live", 0, "live\n");
	}
	check_mark(c);
	shells_end(c);
	group_remove(group, path);
}
