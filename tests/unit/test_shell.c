/*
 * Persistent shells, through a real cove-init as an ordinary process: state that stays, what comes
 * in and goes out, every way to end, and that many lines and shells do not disturb each other.
 */
#include "shell_client.h"
#include "tap.h"

#include "base/limits.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>

TAP_MAIN

/* --- what stays --- */

SHELL_TEST(result_of_a_line)
{
	struct run *r = kept(c, "cd /; echo out; echo err >&2; (exit 4)", 4, "out\n");

	CHECK(r->started);
	CHECK_STR(run_err(r), "err\n");
	CHECK_EQ(r->exit.stderr_bytes, 4);
	CHECK_STR(r->cwd, "/");
	CHECK_EQ(r->exit.timed_out, 0);
	CHECK_EQ(r->exit.signal, 0);
	CHECK(r->eof[WIRE_STDOUT] && r->eof[WIRE_STDERR]);
}

SHELL_TEST(state_stays)
{
	CHECK_STR(line(c, "pwd; echo $BOX")->cwd, shell_work);
	kept(c, "cd /usr; export A=1; b=2; f() { echo f $1; }; alias g='echo g'; set -- p q", 0,
	     "");
	kept(c, "pwd; echo $A $b $2; f 3; g 4; sh -c 'echo $A'", 0, "/usr\n1 2 q\nf 3\ng 4\n1\n");
	kept(c, "umask 027; set -o pipefail; shopt -s nullglob", 0, "");
	kept(c, "umask; false | true; shopt nullglob >/dev/null && echo on", 0, "0027\non\n");
	kept(c, "set -o posix; exec 7>/dev/null; x=(a b)", 0, "");
	kept(c, "echo ${x[1]}; set +o posix; echo here >&7", 0, "b\n");
}

SHELL_TEST(last_status_stays)
{
	kept(c, "(exit 42)", 42, "");
	kept(c, "echo $?", 0, "42\n");
	kept(c, "echo $?", 0, "0\n");
	kept(c, "set -u; trap : ERR; (exit 3)", 3, "");
	kept(c, "echo $?; set +u", 0, "3\n");
}

SHELL_TEST(descriptors_stay)
{
	kept(c, "exec 3>kept; exec 4</etc/passwd", 0, "");
	kept(c, "echo three >&3; read -u 4 x; test -n \"$x\"", 0, "");
	kept(c, "cat kept; exec 3>&-", 0, "three\n");
}

SHELL_TEST(children_get_three_descriptors)
{
	struct run *r = line(c, "ls /proc/self/fd | wc -l; readlink /proc/self/fd/0");

	CHECK_STR(run_out(r), "4\n/dev/null\n"); /* 0, 1, 2 and the one ls opened */
}

/* --- input --- */

SHELL_TEST(no_input)
{
	kept(c, "cat", 0, "");
	kept(c, "read x", 1, "");
	kept(c, "head -c 1 | wc -c", 0, "0\n");
	if (line(c, "command -v python3")->exit.exit_code == 0)
		CHECK_EQ(line(c, "python3 -c 'input()'")->exit.exit_code, 1);
	kept(c, "echo ok", 0, "ok\n");
}

SHELL_TEST(input_that_is_given)
{
	struct run *r = ask_with_input(c, "cat; echo end");

	run_send(c, r, "one\0two", 7);
	run_send_eof(c, r);
	run_wait(c, r);
	CHECK_EQ(r->exit.stdout_bytes, 11);
	CHECK_MEM(run_out(r), "one\0twoend\n", 11);
	r = ask_with_input(c, "read x; echo got $x");
	run_send(c, r, "a\n", 2);
	run_wait(c, r);
	CHECK_STR(run_out(r), "got a\n");
	r = ask_with_input(c, "cat");
	run_send_eof(c, r);
	run_wait(c, r);
	CHECK_EQ(r->exit.exit_code, 0);
	r = ask_with_input(c, "echo \"open"); /* does not parse: nobody ever opens the input */
	run_send(c, r, "a\n", 2);
	run_send_eof(c, r);
	run_wait(c, r);
	CHECK_EQ(r->exit.exit_code, 2);
	kept(c, "cat", 0, "");
}

SHELL_TEST(input_of_several_windows)
{
	struct run *r = ask_with_input(c, "cksum | cut -d' ' -f2");
	static char block[65536];

	for (int i = 0; i < 40; i++)
		run_send(c, r, block, sizeof(block));
	run_send_eof(c, r);
	run_wait(c, r);
	CHECK_STR(run_out(r), "2621440\n");
}

SHELL_TEST(input_of_a_waiting_line)
{
	struct run *first = ask(c, "mkfifo gate; read x <gate", 0), *r;

	run_wait_started(c, first);
	r = ask_with_input(c, "cat");
	run_send(c, r, "early", 5);
	run_send_eof(c, r);
	line_in(c, "other", "echo >gate");
	run_wait(c, r);
	CHECK_STR(run_out(r), "early");
}

/* --- the ends --- */

SHELL_TEST(exit_and_a_fresh_shell)
{
	struct run *r;

	mark(c);
	r = expect(c, "trap 'echo bye' EXIT; exit 3", 3, "bye\n");
	CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
	kept(c, "echo [$mark] $?", 0, "[] 0\n");
	r = expect(c, "set -e; false; echo no", 1, "");
	CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
	kept(c, "set -e", 0, "");
	r = expect(c, "false", 1, "");
	CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
	kept(c, "false; echo here", 0, "here\n");
}

SHELL_TEST(exec_replaces_the_shell)
{
	CHECK_EQ(expect(c, "exec bash", 0, "")->exit.shell_state, SHELL_EXITED);
	CHECK_EQ(expect(c, "exec echo replaced", 0, "replaced\n")->exit.shell_state, SHELL_EXITED);
	CHECK_EQ(line(c, "exec /nonexistent")->exit.exit_code, 127);
	kept(c, "echo ok", 0, "ok\n");
}

SHELL_TEST(an_executed_program_runs_to_its_end)
{
	struct run *r;

	/* Longer than the looks after a line that says nothing. */
	r = expect(c, "exec sh -c 'echo a; sleep 0.6; echo b; exit 7'", 7, "a\nb\n");
	CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
	r = expect(c, "(sleep 1000) & exec sleep 0.6", 0, "");
	CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
	kept(c, "exec 5>file; exec 6<&0 6<&-", 0, "");
	kept(c, "echo five >&5; cat file", 0, "five\n");
}

SHELL_TEST(killed_by_itself)
{
	struct run *r = line(c, "echo before; kill -9 $$");

	CHECK_STR(run_out(r), "before\n");
	CHECK_EQ(r->exit.has_exit, 0);
	CHECK_EQ(r->exit.signal, 9);
	CHECK_EQ(r->exit.shell_state, SHELL_EXITED);
	CHECK_STR(r->cause, "signal");
	kept(c, "echo after", 0, "after\n");
}

SHELL_TEST(death_between_lines_is_told)
{
	struct run *r = line(c, "echo $$");
	char kill_it[64];

	snprintf(kill_it, sizeof(kill_it), "kill -9 %d; while kill -0 %d 2>/dev/null; do :; done",
		 atoi(run_out(r)), atoi(run_out(r)));
	line_in(c, "other", kill_it);
	r = expect(c, "echo new", 0, "new\n");
	CHECK_EQ(r->exit.shell_state, SHELL_RESTARTED);
	kept(c, "echo new", 0, "new\n");
}

SHELL_TEST(what_does_not_parse)
{
	static const char *const texts[] = {
		"echo \"abc", "echo 'abc",    "echo $(",    "if true; then", "}",
		")",	      "cat <<",	      "for x in",   "done",	     "echo `",
		"{",	      "}; echo x; {", "echo a; if", "case x in",     "f() {",
	};

	mark(c);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct run *r = line(c, texts[i]);

		CHECK_STR(run_out(r), "");
		CHECK(r->exit.has_exit && r->exit.exit_code != 0);
		CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
		CHECK(r->exit.stderr_bytes > 0);
	}
	check_mark(c);
}

SHELL_TEST(text_is_taken_as_it_is)
{
	kept(c, "echo a # comment", 0, "a\n");
	kept(c, "# only a comment", 0, "");
	kept(c, "", 0, "");
	kept(c, " \n\t\n# x\n", 0, "");
	kept(c, "echo a \\", 0, "a\n");
	kept(c, "echo a;", 0, "a\n");
	kept(c, "echo a\r\necho b\r\n", 0, "a\r\nb\r\n");
	kept(c, "echo 'a\nb'", 0, "a\nb\n");
	kept(c, "echo 'hello!' !! \"$((1 << 3))\"", 0, "hello! !! 8\n");
	kept(c, "return 3; echo no", 3, "");
	kept(c, "break; echo b", 0, "b\n");
	kept(c, "echo a\n}\necho x >&2\n{ echo b", 2, "a\n");
}

SHELL_TEST(here_documents)
{
	kept(c, "cat <<EOF\nline $((1 + 1))\nEOF\ncat <<'X'\n$x\nX", 0, "line 2\n$x\n");
	kept(c, "cat <<-T\n\ttabs\n\tT\necho after", 0, "tabs\nafter\n");
	kept(c, "cat <<EOF\nwithout 'its' end", 0, "without 'its' end\n");
	kept(c, "cat <<'A' - <<B\na\nA\nb", 0, "b\n");
	kept(c, "cat <<<word", 0, "word\n");
}

SHELL_TEST(a_missing_variable_ends_the_text)
{
	mark(c);
	kept(c, "echo a; ${X:?gone}\necho later", 1, "a\n");
	kept(c, "set -u; echo $NOPE\necho later", 1, "");
	kept(c, "echo ${y-unset}; set +u", 0, "unset\n");
	check_mark(c);
}

/* --- much --- */

SHELL_TEST(a_long_command)
{
	char *text = malloc(300000);
	size_t n;

	CHECK(text != NULL);

	memcpy(text, "x='", 3);
	memset(text + 3, 'y', 200000);
	strcpy(text + 200003, "'; echo ${#x}");
	kept(c, text, 0, "200000\n");
	n = (size_t)sprintf(text, "echo z");
	for (int i = 0; i < 300; i++)
		n += (size_t)sprintf(text + n, " | cat");
	kept(c, text, 0, "z\n");
	free(text);
}

SHELL_TEST(every_byte)
{
	static const char text[] = "for i in {0..255}; do printf \"\\\\$(printf %03o $i)\"; done";
	struct run *r = line(c, text);

	CHECK_EQ(r->exit.stdout_bytes, 256);
	for (int i = 0; i < 256; i++)
		CHECK_EQ((uint8_t)run_out(r)[i], i);
	r = line(c, "printf 'a\\0b' >&2");
	CHECK_MEM(run_err(r), "a\0b", 3);
}

SHELL_TEST(a_hundred_mebibytes)
{
	struct run *r = line(c, "head -c 104857600 /dev/zero; echo done >&2");

	CHECK_EQ(r->exit.stdout_bytes, 104857600);
	CHECK_EQ(buf_len(&r->out[WIRE_STDOUT]), 104857600);
	CHECK_STR(run_err(r), "done\n");
	r = line(c, "head -c 67108864 /dev/zero | tr '\\0' a; echo");
	CHECK_EQ(r->exit.stdout_bytes, 67108865);
}

SHELL_TEST(output_waits_for_credit)
{
	struct wire_exec m = {.line = "head -c 560000 /dev/zero", .shell = "default"};
	struct run *r = run_start(c, &m);

	r->hold_credit = true;
	/* The shell is free for others meanwhile, the answer comes with the last byte. */
	while (buf_len(&r->out[WIRE_STDOUT]) < WIRE_WINDOW)
		client_pump(c, true);
	kept(c, "echo next", 0, "next\n");
	CHECK(!r->over);
	run_credit(c, r, WIRE_STDOUT, WIRE_WINDOW);
	run_wait(c, r);
	CHECK_EQ(r->exit.stdout_bytes, 560000);
	CHECK_EQ(r->out_at_exit[WIRE_STDOUT], 560000);
}

/* --- in the background --- */

SHELL_TEST(background_children_may_hold_the_output)
{
	static const char *const texts[] = {
		"sleep 1000 &",
		"setsid sleep 1000 &",
		"nohup sleep 1000 &",
		"(sleep 1000 &)",
		"setsid sh -c 'sleep 1000 & sleep 1000' &",
		"sleep 1000 | sleep 1000 &",
		"coproc sleep 1000",
		"sh -c 'setsid sh -c \"sleep 1000 & exit\" & exit'",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct run *r = kept(c, texts[i], 0, "");

		CHECK(r->exit.duration_ms < 5000);
		kept(c, "echo alive", 0, "alive\n");
	}
}

SHELL_TEST(late_output_stays_with_its_line)
{
	struct run *first = kept(c, "mkfifo go; (read x <go; echo late) & echo now", 0, "now\n");

	CHECK(!first->eof[WIRE_STDOUT]);
	kept(c, "echo >go; echo next", 0, "next\n");
	run_wait_text(c, first, "now\nlate\n");
	run_wait_eof(c, first);
	CHECK_EQ(first->exit.stdout_bytes, 4);
}

SHELL_TEST(jobs_stay)
{
	kept(c, "(exit 5) & a=$!; sleep 1000 & b=$!", 0, "");
	kept(c, "wait $a", 5, "");
	kept(c, "jobs -r | wc -l; kill $b; wait $b", 143, "1\n");
}

/* --- directories --- */

SHELL_TEST(directories_that_went_away)
{
	char path[256];
	struct run *r;

	snprintf(path, sizeof(path), "%s/gone", shell_work);
	r = kept(c, "mkdir gone; cd gone; rmdir ../gone", 0, "");
	CHECK_STR(r->cwd, path);
	kept(c, "echo here", 0, "here\n");
	kept(c, "cd /", 0, "");
	snprintf(path, sizeof(path), "mkdir '%s/x (deleted)'; cd '%s/x (deleted)'", shell_work,
		 shell_work);
	r = kept(c, path, 0, "");
	CHECK(strstr(r->cwd, "/x (deleted)") != NULL);
	kept(c, "rmdir \"$PWD\"", 0, "");
}

/* --- many --- */

SHELL_TEST(ten_lines_at_once_run_in_order)
{
	struct run *r[10];
	char text[64], out[16];

	for (int i = 0; i < 10; i++) {
		snprintf(text, sizeof(text), "n=$((n + 1)); sleep 0.0%d; echo $n", 9 - i);
		r[i] = ask(c, text, 0);
	}
	for (int i = 0; i < 10; i++) {
		run_wait(c, r[i]);
		snprintf(out, sizeof(out), "%d\n", i + 1);
		CHECK_STR(run_out(r[i]), out);
	}
}

SHELL_TEST(named_shells_are_apart_and_side_by_side)
{
	struct run *slow;

	line_in(c, "one", "cd /; v=a");
	line_in(c, "two", "cd /usr; v=b");
	CHECK_STR(run_out(line_in(c, "one", "pwd; echo $v")), "/\na\n");
	CHECK_STR(run_out(line_in(c, "two", "pwd; echo $v")), "/usr\nb\n");
	slow = ask(c, "mkfifo gate; echo up; read x <gate", 0);
	run_wait_text(c, slow, "up\n");
	CHECK_STR(run_out(line_in(c, "one", "echo quick")), "quick\n");
	CHECK(!slow->over);
	line_in(c, "two", "echo >$OLDPWD/gate; true");
	CHECK_EQ(line_in(c, "Bad Name", "true")->code, EINVAL);
}

SHELL_TEST(shells_and_queues_are_bounded)
{
	struct run *first, *queued = NULL, *last = NULL;
	char name[16];

	for (unsigned i = 0; i < INIT_SHELLS_MAX; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		CHECK_EQ(line_in(c, name, ":")->exit.has_exit, 1);
	}
	CHECK_EQ(line_in(c, "more", ":")->code, EAGAIN);
	line_in(c, "s0", "exit");
	CHECK_EQ(line_in(c, "more", ":")->exit.has_exit, 1);
	line_in(c, "more", "exit");
	first = ask(c, "mkfifo gate; echo up; read x <gate", 0);
	run_wait_text(c, first, "up\n");
	for (unsigned i = 0; i < INIT_SHELL_QUEUE; i++)
		queued = ask(c, "n=$((n + 1))", 0);
	last = ask(c, ":", 0);
	run_wait(c, last);
	CHECK_EQ(last->code, EAGAIN);
	line_in(c, "s1", "echo >gate");
	run_wait(c, queued);
	kept(c, "echo $n", 0, "256\n");
}

SHELL_TEST(ended_lines_take_no_place)
{
	struct run *oldest = line(c, "sleep 1000 &");

	for (unsigned i = 0; i < INIT_LINES_MAX; i++)
		CHECK_EQ(line(c, "sleep 1000 &")->exit.has_exit, 1);
	run_wait_eof(c, oldest); /* of more than INIT_LATE_MAX the oldest is let go */
	kept(c, "jobs -p | wc -l", 0, "513\n");
}

SHELL_TEST(a_line_that_waits_is_queued)
{
	static const int others[] = {SIGWINCH, SIGUSR1, SIGUSR2, SIGCONT,
				     SIGSTOP,  SIGTSTP, SIGCHLD};
	static const int ends[] = {SIGTERM, SIGHUP, SIGQUIT, SIGKILL};
	struct run *busy, *late, *ended, *next, *other;

	kept(c, "mkfifo gate", 0, "");
	busy = ask(c, "echo up; read x <gate", 0);
	run_wait_text(c, busy, "up\n");
	CHECK(!busy->queued);
	late = ask(c, "echo never >>ran", 20);
	ended = ask(c, "echo never >>ran", 0);
	next = ask(c, "echo next; cat ran", 0);
	run_wait_queued(c, next);
	CHECK(late->queued && ended->queued && !next->started);

	/* Its time runs while it waits. */
	run_wait(c, late);
	CHECK(!late->started);
	CHECK_EQ(late->exit.timed_out, 1);
	CHECK_EQ(late->exit.has_exit, 0);
	CHECK_EQ(late->exit.signal, SIGKILL);
	CHECK_STR(late->cause, "timeout");

	/* What is not there to end something finds nobody: the first word that does is INT. */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		run_signal(c, ended, others[i], false);
		run_signal(c, next, others[i], false);
	}
	run_signal(c, ended, SIGINT, false);
	run_wait(c, ended);
	CHECK(!ended->started);
	CHECK_EQ(ended->exit.signal, SIGINT);
	CHECK_STR(ended->cause, "killed");

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		ended = ask(c, "echo never >>ran", 0);
		run_wait_queued(c, ended);
		run_signal(c, ended, ends[i], false);
		run_wait(c, ended);
		CHECK_EQ(ended->exit.signal, ends[i]);
	}

	other = line_in(c, "other", "echo >gate");
	CHECK(!other->queued);
	run_wait(c, busy);
	run_wait(c, next);
	CHECK_STR(run_out(next), "next\n"); /* nothing of the others ran */
}

SHELL_TEST(only_the_first_line_chooses_directory_environment_and_user)
{
	struct wire_exec m = {.line = "pwd; echo $V", .shell = "default", .cwd = "/usr"};
	struct buf env;
	struct run *r;

	buf_init(&env, 1024);
	wire_list_add(&env, "V=value");
	m.env = wire_list_of(&env);
	r = run_start(c, &m);
	run_wait(c, r);
	CHECK_STR(run_out(r), "/usr\nvalue\n");
	r = run_start(c, &m);
	run_wait(c, r);
	CHECK_EQ(r->code, EINVAL);
	kept(c, "pwd", 0, "/usr\n");
	expect(c, "exit", 0, "");
	m.login = 1; /* of one that lives: too late; of a new one: it stays */
	m.cwd = NULL;
	m.env = (struct wire_list){0};
	kept(c, "echo plain", 0, "plain\n");
	r = run_start(c, &m);
	run_wait(c, r);
	CHECK_EQ(r->code, EINVAL);
	m.shell = "in";
	for (int i = 0; i < 2; i++) {
		r = run_start(c, &m);
		run_wait(c, r);
		CHECK_EQ(r->code, 0);
	}
	expect(c, "exit", 0, "");
	m.shell = "default";
	m.login = 0;
	m.cwd = "/nonexistent";
	r = run_start(c, &m);
	run_wait(c, r);
	CHECK_EQ(r->code, ENOTDIR);
	buf_done(&env);
	kept(c, "echo ok", 0, "ok\n");
}

SHELL_TEST(nothing_is_left_in_the_directory)
{
	int names = 0;
	DIR *d;

	for (int i = 0; i < 20; i++)
		line(c, i % 2 ? "echo a" : "sleep 0.01 &");
	timed(c, "sleep 1000", 20);
	line(c, "exit");
	kept(c, "sleep 0.1", 0, "");
	d = opendir(shell_dir);
	while (readdir(d))
		names++;
	closedir(d);
	/* ".", "..", what puts $? back, and three for the next line. */
	CHECK(names <= 6);
}

/* --- another shell than bash --- */

static void hide_bash(void)
{
	static const char *const paths[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"};

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("mounts need root");
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (access(paths[i], F_OK) == 0 &&
		    mount("/dev/null", paths[i], NULL, MS_BIND, NULL) < 0)
			SKIP("bash cannot be hidden");
}

TEST(a_plain_sh_where_bash_is_missing)
{
	struct client *c;
	struct run *r;
	char *text;

	hide_bash();
	c = shells_begin();
	kept(c, "cd /usr; v=1; f() { echo f; }", 0, "");
	kept(c, "pwd; echo $v; f; cat", 0, "/usr\n1\nf\n");
	kept(c, "(exit 7)", 7, "");
	kept(c, "echo $?", 0, "7\n");
	kept(c, "echo 'open", 2, "");
	kept(c, "cat <<E\ntext", 0, "text");
	kept(c, "${X:?gone}; echo later", 2, "");
	kept(c, "${X:?gone}\necho later", 2, "");
	kept(c, "alias hi='echo hi'\nhi there", 0, "hi there\n");
	r = kept(c, "echo 1\nif ) then", 2, "1\n");
	CHECK(strstr(run_err(r), "2: Syntax error") != NULL && !strstr(run_err(r), shell_dir));
	text = many_lines("n=0\n", "n=$((n+1))\n", 20000);
	kept(c, text, 0, "20000\n");
	free(text);
	kept(c, "echo out; nosuchcommand", 127, "out\n");
	kept(c, "sleep 1000 & echo $v", 0, "1\n");
	r = timed(c, "echo a; while :; do :; done", 50);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	r = timed(c, "trap '' INT; sleep 1000; echo no", 50);
	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	kept(c, "echo $v", 0, "1\n");
	CHECK_EQ(expect(c, "exec sleep 0.6", 0, "")->exit.shell_state, SHELL_EXITED);
	CHECK_EQ(expect(c, "exit 3", 3, "")->exit.shell_state, SHELL_EXITED);
	kept(c, "echo [$v]", 0, "[]\n");
	shells_end(c);
}

/* SIGTERM first, for the line and its background; what does not heed it has its grace. */
SHELL_TEST(a_timeout_asks_first)
{
	static const struct {
		const char *line;
		uint64_t grace_ms;
		int signal;
		const char *out;
	} cases[] = {
		{"bash -c 'trap \"echo tidy; exit 3\" TERM; while :; do sleep 0.02; done'", 60000,
		 SIGTERM, "tidy\n"},
		{"while :; do :; done", UINT64_MAX, SIGTERM, ""},
		{"bash -c 'trap \"echo tidy\" TERM; while :; do sleep 0.02; done'", 0, SIGKILL, ""},
		{"bash -c 'trap \"\" TERM; while :; do sleep 0.02; done'", 50, SIGKILL, ""},
		{"(trap '' TERM; setsid sleep 99171 & sleep 99171) & wait", 50, SIGKILL, ""},
	};

	kept(c, "x=1", 0, "");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run *r = run_start(c, &(struct wire_exec){.line = cases[i].line,
								 .shell = "default",
								 .timeout_ms = 400,
								 .grace_ms = cases[i].grace_ms});

		run_wait(c, r);
		CHECK_STR(r->cause, "timeout");
		CHECK(r->exit.timed_out && !r->exit.has_exit);
		CHECK_EQ(r->exit.signal, cases[i].signal);
		CHECK_STR(run_out(r), cases[i].out);
		/* One that does not answer in time, as on a host with much to do, is another; then
		 * the result says so, and nothing is left of the first either way. */
		if (r->exit.shell_state == SHELL_RESTARTED)
			kept(c, "x=1", 0, "");
		else
			CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
		kept(c, "echo $x; pgrep -f '^sleep 99171' | wc -l", 0, "1\n0\n");
	}
}
