/* One line of a persistent shell from its start to its end; see shell.c. */
#include "init/shell.h"

#include "base/fd.h"
#include "base/log.h"
#include "init/env.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What bash's prompt shows and runs, kept in a variable while the prompt is init's. */
#define SAVED                                                \
	"\"${PS1-}\" \"${PS2-}\" \"${PS0-}\" \"${TMOUT-}\" " \
	"${PROMPT_COMMAND+\"${PROMPT_COMMAND[@]}\"}"
#define RESTORE                                                                      \
	"PS1=${__cove[1]-} PS2=${__cove[2]-} PS0=${__cove[3]-} TMOUT=${__cove[4]-} " \
	"PROMPT_COMMAND=(${__cove[5]+\"${__cove[@]:5}\"}); "
#define CLEAR	 "PROMPT_COMMAND=() TMOUT= PS0= PS2="
#define SH_CLEAR "PS0= PS2= PROMPT_COMMAND= TMOUT="

enum { DRIVER_MAX = 8192, END_MAX = 512 };

/* --- the start --- */

/* What a running shell cannot be given any more. */
static int check_running(const struct shell *sh, const struct line *l, struct err *e)
{
	struct user user;
	int r;

	if (l->ask.cwd || l->ask.env_count > 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "shell '%s' is already running: its directory and environment are "
			       "those of its first line; use cd and export in the line, or another "
			       "shell (--shell)",
			       sh->name);
	if (l->ask.login && !sh->login)
		return err_set(e, ERR_INVALID, EINVAL,
			       "shell '%s' is already running and is no login shell: end it with "
			       "`exit`, or use another one (--shell)",
			       sh->name);
	if (!l->ask.user)
		return 0;
	r = env_user(sh->table->in, l->ask.user, &user, e);
	if (r < 0 || user.uid == sh->user.uid)
		return r;
	return err_set(e, ERR_INVALID, EINVAL,
		       "shell '%s' is already running as another user (%s): use another shell for "
		       "'%s' (--shell)",
		       sh->name, sh->user.name, l->ask.user);
}

static int take_io(struct line *l, struct err *e)
{
	struct shell *sh = l->shell;
	int r = 0;

	if (l->io)
		return 0; /* nothing came of it in the shell before */
	if (sh->premade)
		l->io = take_ptr(sh->premade);
	else
		r = line_io_new(sh->table, &sh->user, &l->io);
	if (r == 0) {
		l->io->line = l;
		for (int i = 0; i < 2; i++) {
			l->io->out[i].id = l->job.id;
			l->io->out[i].job = &l->job;
			l->job.out[i] = &l->io->out[i];
		}
		if (l->ask.merge) /* bash's messages come there */
			l->io->out[0].hide = l->io->shown;
		r = line_io_write(l->io, l->ask.text, sh);
	}
	return r < 0 ? err_errno(e, -r, "make the files of a line") : 0;
}

/* Before the text: what the prompt shows and runs is the user's again, and so is $?, without a
 * failure that `set -e` or an ERR trap would see; $_ is empty, as after an assignment. A DEBUG trap
 * is not to be seen in a sourced text without `set -T`, and could not be removed there. */
static void put_back(const struct shell *sh, char *ret, size_t size)
{
	const struct shell_table *t = sh->table;
	int n = 0;

	if (sh->bash && sh->used && !sh->plain)
		n = snprintf(ret, size, "%s", RESTORE);
	if (sh->bash && sh->traced)
		n += snprintf(ret + n, size - (size_t)n, "\\builtin set -T; ");
	if (sh->bash && (sh->status || !sh->used || sh->plain || sh->traced))
		snprintf(ret + n, size - (size_t)n, "\\builtin source %s/%s %u ''%s; ", t->dir,
			 t->status_file, sh->status, sh->status ? " && :" : "");
	else if (sh->status)
		snprintf(ret, size, "(exit %u) || ", sh->status);
}

/* What a lean shell put aside has low numbers, and `exec 4<file` in the text takes one: it must not
 * read that as its feed. */
#define STAY_OR_EXIT                                                                            \
	"[[ -p /dev/fd/0 && -p /dev/fd/1 && -p /dev/fd/2 ]] || { [[ $__cove =~ :([0-9]+): ]]; " \
	"\\builtin exit ${BASH_REMATCH[1]}; }; "

/* also: sentences to say before it, or none. */
static void print_end(const struct shell *sh, const char *mark, const char *also, char *ret,
		      size_t size)
{
	if (!sh->bash)
		snprintf(ret, size, "PS1=%s:$?:$-: " SH_CLEAR "\n", mark);
	else if (sh->plain)
		snprintf(ret, size, "\\builtin printf %s:%%s:%%s: \"$?\" \"$-\"; " CLEAR " PS1=\n",
			 mark);
	else
		snprintf(ret, size, "__cove=(\"%s:$?:$-:\" " SAVED "); %s" CLEAR " PS1=$__cove\n",
			 mark, also);
}

/* What a login reads. A profile that speaks of ~/.bashrc reads it by itself. */
#define LOGIN                                                                                      \
	"{ [[ ! -f /etc/profile ]] || \\builtin source /etc/profile; for __cove in "               \
	"~/.bash_profile ~/.bash_login ~/.profile /dev/null; do [[ ! -r $__cove ]] || break; "     \
	"done; \\builtin source \"$__cove\"; [[ ! -f ~/.bashrc || $(<\"$__cove\") == *bashrc* ]] " \
	"|| "                                                                                      \
	"\\builtin source ~/.bashrc; }"
#define SH_LOGIN "{ [ ! -f /etc/profile ] || . /etc/profile; [ ! -f ~/.profile ] || . ~/.profile; }"

/* Where a line writes to. */
static void print_outputs(const struct line *l, char *ret, size_t size)
{
	const char *dir = l->shell->table->dir, *token = l->io->token;

	if (l->ask.merge)
		snprintf(ret, size, ">%s/%so 2>&1", dir, token);
	else
		snprintf(ret, size, ">%s/%so 2>%s/%se", dir, token, dir, token);
}

/* Before the first line, with its output. */
static void print_login(const struct line *l, const char *outputs, char *ret, size_t size)
{
	bool bash = l->shell->bash;

	ret[0] = '\0';
	if (l->shell->login_due)
		snprintf(ret, size, "%s </dev/null %s%s", bash ? LOGIN : SH_LOGIN, outputs,
			 bash ? "; " : "\n");
	l->shell->login_due = false;
}

/* The sentence that runs the text. With input, Ts is opened when Ti is. */
static void feed_driver(struct line *l)
{
	const struct shell *sh = l->shell;
	const char *dir = l->shell->table->dir, *token = l->io->token;
	const char *source = sh->bash ? "\\builtin source" : ".";
	char text[DRIVER_MAX], back[DRIVER_MAX / 4], end[2 * END_MAX];
	char also[END_MAX], check[2 * END_MAX], login[3 * END_MAX], outputs[END_MAX];

	back[0] = check[0] = '\0';
	print_outputs(l, outputs, sizeof(outputs));
	print_login(l, outputs, login, sizeof(login));
	/* A text that does not parse within braces loses its beginning, and bash may go on with
	 * what comes after the error: so another bash parses it first, and where that fails it goes
	 * without braces. */
	if (l->io->braced)
		snprintf(check, sizeof(check),
			 "\\builtin command %s -nO extglob %s/%sc </dev/null >/dev/null 2>&1 || "
			 "\\builtin printf '%%s\\n' \"$(<%s/%sp)\" >|%s/%sc; ",
			 sh->path, dir, token, dir, token, dir, token);
	snprintf(also, sizeof(also), "%s", sh->lean ? STAY_OR_EXIT : "");
	if (l->io->functions_fd >= 0)
		snprintf(also, sizeof(also), "\\builtin declare -f >|%s/%sf; ", dir, token);
	put_back(sh, back, sizeof(back));
	print_end(sh, token, also, end, sizeof(end));
	if (l->io->input)
		snprintf(text, sizeof(text), "%s%s{ >%s/%ss; %s%s %s/%sc %s; } <%s/%si%s%s", check,
			 login, dir, token, back, source, dir, token, outputs, dir, token,
			 sh->bash ? "; " : "\n", end);
	else
		snprintf(text, sizeof(text), "%s%s%s%s %s/%sc </dev/null %s%s%s", check, login,
			 back, source, dir, token, outputs, sh->bash ? "; " : "\n", end);
	shell_feed(l->shell, text);
	l->shell->traced = sh->traced || strstr(l->ask.text, "DEBUG");
}

void line_ask_end(struct line *l, unsigned round)
{
	char mark[TOKEN_LEN + 16], text[END_MAX];

	snprintf(mark, sizeof(mark), round ? "%sx%u" : "%s", l->io->token, round);
	print_end(l->shell, mark, "", text, sizeof(text));
	shell_feed(l->shell, text);
}

void line_find_end(struct line *l)
{
	const char *token = l->io->token;
	char text[DRIVER_MAX];

	l->shell->plain = true;
	snprintf(text, sizeof(text),
		 "case ${__cove-} in %s:*) ;; *) __cove=(\"%s:$?:$-:\" " SAVED ");; esac; "
		 "\\builtin set +o emacs +o vi; \\builtin printf %%s \"$__cove\"; " CLEAR " PS1=\n",
		 token, token);
	shell_feed(l->shell, text);
}

int line_begin(struct line *l, struct err *e)
{
	struct shell *sh = l->shell;
	int r = l->job.state > JOB_QUEUED ? 0 : check_running(sh, l, e);

	if (r == 0)
		r = take_io(l, e);
	if (r < 0)
		return r;
	if (l->job.has_input && !l->io->input)
		r = line_io_add_input(l->io, &sh->user);
	if (r < 0)
		return err_errno(e, -r, "open the input of a line");
	sh->current = l;
	sh->ready = false;
	sh->seen.pids_hits = usage_pids_hits(&sh->table->in->groups, &sh->tree);
	feed_driver(l);
	shell_watch(sh);
	if (l->job.state != JOB_RUNNING) /* it may be its second try */
		init_job_run(&l->job, sh->proc.pid);
	return 0;
}

/* Ts was opened, so the shell has opened Ti before. */
void line_on_started(struct ev_io *io, uint32_t events)
{
	struct line_io *lio = container(io, struct line_io, start);

	ev_io_remove(lio->table->in->ev, io);
	/* If it fails the input is closed: an end of file for the line. */
	if (lio->line)
		in_stream_adopt(&lio->line->job.input, take_fd(lio->input_fd));
}

/* --- the end --- */

void line_measure(struct line *l)
{
	struct shell *sh = l->shell;
	struct usage now;

	if (!init_tree_has_group(&sh->tree))
		return;
	usage_read(&sh->tree, &now);
	usage_add(&l->job.used, &sh->seen, &now);
	sh->seen = now;
}

void line_end(struct line *l, enum wire_shell_state state, const char *cause)
{
	struct shell *sh = l->shell;
	struct ev *ev = l->job.in->ev;

	l->job.result.shell_state = l->restarted && state == SHELL_KEPT ? SHELL_RESTARTED : state;
	if (sh->current == l && sh->alive && !l->job.cwd)
		l->job.cwd = shell_cwd(sh);
	ev_timer_stop(ev, &l->step);
	if (sh->current == l)
		ev_timer_stop(ev, &sh->watch);
	if (l->io) {
		fd_close(&l->io->hold_fd[0]);
		fd_close(&l->io->hold_fd[1]);
	}
	init_job_end(&l->job, cause);
}

/* The driver did not work, and the shell is at its prompt. What users do to it by name, or to its
 * directory, is undone, and the text tried once more, with new files. In posix mode no function can
 * stand before unset. */
static bool mend(struct line *l)
{
	static const char functions[] = "\\unset -f builtin enable";
	struct line_io *old = l->io;
	struct shell *sh = l->shell;
	char text[DRIVER_MAX];
	struct err e = {0};

	/* One that does not read is not at its prompt: a line before still runs. */
	if (l->mended || shell_unread(sh) > 0 || (l->job.has_input && l->io->input_fd < 0))
		return false;
	l->mended = true;
	shell_dir_mend(sh->table);
	snprintf(text, sizeof(text),
		 "if [[ -o posix ]]; then %s; else POSIXLY_CORRECT=y; %s; \\unset POSIXLY_CORRECT; "
		 "fi; "
		 "\\enable builtin; \\builtin enable source set printf return :\n",
		 functions, functions);
	if (sh->bash)
		shell_feed(sh, text);
	l->io = NULL;
	if (line_begin(l, &e) == 0) {
		line_io_free(old);
		return true;
	}
	line_io_free(l->io);
	l->io = old;
	return false;
}

/* Nothing of the line has run: it goes to a fresh shell, but only once. */
void line_run_again(struct line *l)
{
	struct shell *sh = l->shell;

	if (sh->alive && mend(l))
		return;
	shell_drop(sh);
	l->restarted = true;
	if (l->rerun) {
		line_end(l, SHELL_RESTARTED, "interrupted");
		return;
	}
	l->rerun = true;
	sh->current = NULL;
	shell_queue_first(sh, l);
	shell_next(sh);
}

bool line_has_run(const struct line *l)
{
	return line_io_was_read(l->io);
}

/* It was not stopped; if it failed, it may have been at a limit of the box. A shell that was killed
 * for lack of memory did not choose to exit. */
static void end_unasked(struct line *l, enum wire_shell_state state)
{
	struct exec_record *m = &l->job.result;
	bool failed = !m->has_exit || m->exit_code != 0;

	line_measure(l);
	if (failed && l->shell->alive)
		l->job.cwd = shell_cwd(l->shell);
	if (state == SHELL_EXITED && m->signal == SIGKILL && l->job.used.oom_kills > 0)
		state = SHELL_RESTARTED;
	line_end(l, state,
		 usage_cause(l->job.in, &l->job.used, failed, l->job.cwd,
			     m->has_exit ? "exit" : "signal"));
}

/* A bash that is interactive and has no job control does not say what became of a command, as it
 * does in a script; and only the last one's status is known here. Signals whose numbers other
 * programs exit with on their own account (129, 130, 143) are left out, and so is a status that
 * the text names itself, as `exit 139`. */
static void tell_signal(const struct line *l, unsigned status)
{
	static const char *const texts[] = {
		[SIGILL] = "Illegal instruction\n",
		[SIGTRAP] = "Trace/breakpoint trap\n",
		[SIGABRT] = "Aborted\n",
		[SIGBUS] = "Bus error\n",
		[SIGFPE] = "Floating point exception\n",
		[SIGKILL] = "Killed\n",
		[SIGSEGV] = "Segmentation fault\n",
		[SIGSYS] = "Bad system call\n",
	};
	const char *text = NULL;
	char number[16];

	snprintf(number, sizeof(number), "%u", status);
	if (status > 128 && status - 128 < sizeof(texts) / sizeof(*texts) &&
	    !strstr(l->ask.text, number))
		text = texts[status - 128];
	/* The line's own errors may fill the pipe: then they have to do. */
	if (text && write(l->io->hold_fd[!l->ask.merge], text, strlen(text)) < 0)
		log_debug("line %u: %s", l->job.id, strerror(errno));
}

static void end_normally(struct line *l, unsigned status)
{
	struct shell *sh = l->shell;

	tell_signal(l, status & 0xff);

	l->job.result.has_exit = 1;
	l->job.result.exit_code = status & 0xff;
	sh->status = status & 0xff;
	sh->used = true;
	if (l->io->functions_fd >= 0 && !sh->plain)
		sh->may_abort = line_io_may_abort(l->io);
	end_unasked(l, SHELL_KEPT);
}

void shell_on_end(struct shell *sh, unsigned round, unsigned status)
{
	struct line *l = sh->current;

	if (!l || l->job.state >= JOB_ENDED)
		return;
	if (l->job.state == JOB_STOPPING)
		line_heard(l, round, status);
	else if (round == 0 && line_has_run(l))
		end_normally(l, status);
	else if (round == 0)
		line_run_again(l);
}

void shell_on_death(struct shell *sh, int wait_status)
{
	struct line *l = sh->current;
	unsigned round = 0, status = 0;
	bool heard = shell_listen(sh, &round, &status) && round == 0;

	sh->tree.root = 0; /* the pid may soon be another's */
	if (l && l->job.state == JOB_STOPPING) {
		line_stopped_by_death(l);
		return;
	}
	shell_drop(sh);
	sh->lost = true;
	if (!l || l->job.state >= JOB_ENDED) {
		shell_next(sh); /* a line may wait for it */
		return;
	}
	if (!line_has_run(l)) {
		line_run_again(l);
	} else if (heard) {
		end_normally(l, status);
	} else {
		sh->lost = false; /* this line says it */
		l->job.result.has_exit = WIFEXITED(wait_status);
		if (WIFEXITED(wait_status))
			l->job.result.exit_code = WEXITSTATUS(wait_status);
		else
			l->job.result.signal = WTERMSIG(wait_status);
		end_unasked(l, SHELL_EXITED);
	}
}
