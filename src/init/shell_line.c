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

#define LINE_TIMEOUT_MS_MAX (1ull << 40)

/* What bash's prompt shows and runs, kept in a variable while the prompt is init's. */
#define SAVED                                                \
	"\"${PS1-}\" \"${PS2-}\" \"${PS0-}\" \"${TMOUT-}\" " \
	"${PROMPT_COMMAND+\"${PROMPT_COMMAND[@]}\"}"
#define RESTORE                                                                      \
	"PS1=${__cove[1]-} PS2=${__cove[2]-} PS0=${__cove[3]-} TMOUT=${__cove[4]-} " \
	"PROMPT_COMMAND=(${__cove[5]+\"${__cove[@]:5}\"}); "
#define CLEAR	 "PROMPT_COMMAND=() TMOUT= PS0= PS2="
#define SH_CLEAR "PS0= PS2= PROMPT_COMMAND= TMOUT="

enum { DRIVER_MAX = 5120, END_MAX = 512 };

/* --- the start --- */

/* The watch flushes it: most lines end before, and then STARTED and EXIT wake the keeper together.
 * */
static void queue_started(struct line *l)
{
	struct wire_started m = {.exec_id = l->id, .pid = (uint64_t)l->shell->child.pid};
	struct init *in = l->table->in;

	if (wire_started_encode(&in->link.out, l->id, 0, &m) < 0)
		init_broken(in, "no room for an answer");
}

/* What a running shell cannot be given any more. */
static int check_running(const struct shell *sh, const struct line *l, struct err *e)
{
	struct user user;
	int r;

	if (l->ask.cwd || l->ask.env_count > 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "shell '%s' is already running: its directory and environment are "
			       "those of its "
			       "first line; use cd and export in it",
			       sh->name);
	if (!l->ask.user)
		return 0;
	r = env_user(sh->table->in, l->ask.user, &user, e);
	if (r < 0 || user.uid == sh->user.uid)
		return r;
	return err_set(e, ERR_INVALID, EINVAL, "shell '%s' is already running as another user (%s)",
		       sh->name, sh->user.name);
}

static int open_input(struct line *l, struct err *e)
{
	int r;

	if (!l->ask.has_input || l->io->input)
		return 0;
	r = line_io_add_input(l->io, &l->shell->user);
	return r < 0 ? err_errno(e, -r, "open the input of a line") : 0;
}

static int take_io(struct line *l, struct err *e)
{
	struct shell *sh = l->shell;
	int r = 0;

	if (l->io)
		return 0; /* nothing came of it in the shell before */
	if (sh->spare)
		l->io = take_ptr(sh->spare);
	else
		r = line_io_new(l->table, &sh->user, &l->io);
	if (r == 0) {
		l->io->line = l;
		l->io->out[0].id = l->io->out[1].id = l->id;
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

/* A text that does not parse within braces loses its beginning, and bash may go on with what comes
 * after the error: so another bash parses it first, and where that fails it goes without braces. */
static void put_check(const struct line *l, char *ret, size_t size)
{
	const char *dir = l->table->dir, *token = l->io->token;

	ret[0] = '\0';
	if (l->io->braced)
		snprintf(ret, size,
			 "\\builtin command %s -nO extglob %s/%sc </dev/null >/dev/null 2>&1 || "
			 "\\builtin printf '%%s\\n' \"$(<%s/%sp)\" >|%s/%sc; ",
			 l->shell->path, dir, token, dir, token, dir, token);
}

/* The sentence that runs the text. With input, Ts is opened when Ti is. */
static void feed_driver(struct line *l)
{
	const struct shell *sh = l->shell;
	const char *dir = l->table->dir, *token = l->io->token;
	const char *source = sh->bash ? "\\builtin source" : ".";
	char text[DRIVER_MAX], back[DRIVER_MAX / 4], end[2 * END_MAX];
	char also[END_MAX], check[2 * END_MAX];

	back[0] = '\0';
	put_check(l, check, sizeof(check));
	snprintf(also, sizeof(also), "%s", sh->lean ? STAY_OR_EXIT : "");
	if (l->io->functions_fd >= 0)
		snprintf(also, sizeof(also), "\\builtin declare -f >|%s/%sf; ", dir, token);
	put_back(sh, back, sizeof(back));
	print_end(sh, token, also, end, sizeof(end));
	if (l->io->input)
		snprintf(text, sizeof(text),
			 "%s{ >%s/%ss; %s%s %s/%sc >%s/%so 2>%s/%se; } <%s/%si%s%s", check, dir,
			 token, back, source, dir, token, dir, token, dir, token, dir, token,
			 sh->bash ? "; " : "\n", end);
	else
		snprintf(text, sizeof(text), "%s%s%s %s/%sc </dev/null >%s/%so 2>%s/%se%s%s", check,
			 back, source, dir, token, dir, token, dir, token, sh->bash ? "; " : "\n",
			 end);
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

void line_set_timeout(struct line *l)
{
	uint64_t ms = l->ask.timeout_ms;

	if (ms > 0)
		ev_timer_set(l->table->in->ev, &l->timeout,
			     ms < LINE_TIMEOUT_MS_MAX ? ms : LINE_TIMEOUT_MS_MAX);
}

int line_begin(struct line *l, struct err *e)
{
	struct shell *sh = l->shell;
	struct ev *ev = l->table->in->ev;
	int r = 0;

	if (sh->alive && !sh->ready)
		r = shell_refresh(sh, e);
	if (sh->alive && r == 0)
		r = check_running(sh, l, e);
	if (!sh->alive) {
		r = shell_start(sh, l, e);
		l->restarted = l->restarted || sh->lost;
		sh->lost = false;
	}
	if (r == 0)
		r = take_io(l, e);
	if (r == 0)
		r = open_input(l, e);
	if (r < 0)
		return r;
	sh->current = l;
	sh->ready = false;
	sh->seen.pids_hits = usage_pids_hits(&l->table->in->groups, &sh->tree);
	l->state = LINE_RUNNING;
	feed_driver(l);
	shell_watch(sh);
	if (l->begun)
		return 0;
	l->begun = true;
	l->started_ms = ev_now(ev);
	if (!l->timeout.armed) /* it runs since it waits */
		line_set_timeout(l);
	queue_started(l);
	return 0;
}

/* Ts was opened, so the shell has opened Ti before. */
void line_on_started(struct ev_io *io, uint32_t events)
{
	struct line_io *lio = container(io, struct line_io, start);

	ev_io_remove(lio->table->in->ev, io);
	/* If it fails the input is closed: an end of file for the line. */
	if (lio->line)
		in_stream_adopt(&lio->line->input, take_fd(lio->input_fd));
}

/* --- the end --- */

static void send_exit(struct line *l)
{
	struct init *in = l->table->in;
	struct wire_exit *m = &l->result;

	m->exec_id = l->id;
	m->stdout_bytes = l->io->out[0].bytes;
	m->stderr_bytes = l->io->out[1].bytes;
	m->cwd = l->result_cwd;
	if (wire_exit_encode(&in->link.out, l->id, 0, m) < 0)
		init_broken(in, "no room for an exit");
	wire_link_flush(&in->link);
	reaper_sweep(in);
	l->state = LINE_LATE;
	l->tidying = true;
	l->next = l->table->untidy;
	l->table->untidy = l;
	ev_defer(in->ev, &l->table->tidy);
}

void line_flush(struct line *l)
{
	bool more = out_stream_drain(&l->io->out[0]);

	more = out_stream_drain(&l->io->out[1]) || more;
	l->draining = more;
	if (!more)
		send_exit(l);
}

static void stream_moved(struct line *l)
{
	if (!l)
		return;
	if (l->draining)
		line_flush(l);
	else if (l->state == LINE_LATE && !l->tidying && l->io->out[0].ended && l->io->out[1].ended)
		line_free(l);
}

static struct line *line_of(struct out_stream *s)
{
	/* stream is 1 or 2 */
	return container(s - (s->stream - WIRE_STDOUT), struct line_io, out[0])->line;
}

void line_on_stream_end(struct out_stream *s)
{
	stream_moved(line_of(s));
}

void line_on_stream_room(struct out_stream *s)
{
	struct line *l = line_of(s);

	if (l && l->draining)
		line_flush(l);
}

void line_measure(struct line *l)
{
	struct shell *sh = l->shell;
	struct usage now;

	if (!tree_has_group(&sh->tree))
		return;
	usage_read(&sh->tree, &now);
	usage_add(&l->used, &sh->seen, &now);
	sh->seen = now;
}

void line_end(struct line *l, enum wire_shell_state state, const char *cause)
{
	struct shell *sh = l->shell;
	struct ev *ev = l->table->in->ev;

	l->result.shell_state = l->restarted && state == SHELL_KEPT ? SHELL_RESTARTED : state;
	l->result.cause = cause;
	l->result.duration_ms = ev_now(ev) - l->started_ms;
	if (sh->alive && !l->result_cwd)
		l->result_cwd = shell_cwd(sh);
	usage_put(&l->used, &l->result);
	if (l->used.oom_kills > 0)
		usage_settle(&l->table->in->groups);
	l->state = LINE_ENDED;
	l->shell = NULL;
	sh->current = NULL;
	ev_timer_stop(ev, &sh->watch);
	ev_timer_stop(ev, &l->timeout);
	ev_timer_stop(ev, &l->step);
	in_stream_done(&l->input);
	fd_close(&l->io->hold_fd[0]);
	fd_close(&l->io->hold_fd[1]);
	line_flush(l);
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
	if (l->mended || shell_unread(sh) > 0 || (l->ask.has_input && l->io->input_fd < 0))
		return false;
	l->mended = true;
	shell_dir_mend(l->table);
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
	struct err e = {0};
	bool again = l->rerun;

	if (sh->alive && mend(l))
		return;
	shell_drop(sh);
	l->rerun = l->restarted = true;
	if (!again && line_begin(l, &e) == 0)
		return;
	line_end(l, SHELL_RESTARTED, "interrupted");
	shell_next(sh);
}

bool line_has_run(const struct line *l)
{
	return line_io_was_read(l->io);
}

/* Nobody stopped it; if it failed, it may have been at a limit of the box. A shell that was killed
 * for lack of memory did not choose to exit. */
static void end_unasked(struct line *l, enum wire_shell_state state)
{
	struct wire_exit *m = &l->result;
	bool failed = !m->has_exit || m->exit_code != 0;

	line_measure(l);
	if (failed && l->shell->alive)
		l->result_cwd = shell_cwd(l->shell);
	if (state == SHELL_EXITED && m->signal == SIGKILL && l->used.oom_kills > 0)
		state = SHELL_RESTARTED;
	line_end(l, state,
		 usage_cause(l->table->in, &l->used, failed, l->result_cwd,
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
	if (text && write(l->io->hold_fd[1], text, strlen(text)) < 0)
		log_debug("line %u: %s", l->id, strerror(errno));
}

static void end_normally(struct line *l, unsigned status)
{
	struct shell *sh = l->shell;

	tell_signal(l, status & 0xff);

	l->result.has_exit = 1;
	l->result.exit_code = status & 0xff;
	sh->status = status & 0xff;
	sh->used = true;
	if (l->io->functions_fd >= 0 && !sh->plain)
		sh->may_abort = line_io_may_abort(l->io);
	end_unasked(l, SHELL_KEPT);
}

void shell_on_end(struct shell *sh, unsigned round, unsigned status)
{
	struct line *l = sh->current;

	if (!l)
		return;
	if (l->state == LINE_STOPPING) {
		line_heard(l, round, status);
		return;
	}
	if (round != 0)
		return;
	if (!line_has_run(l)) {
		line_run_again(l);
		return;
	}
	end_normally(l, status);
	shell_next(sh);
}

static void end_with_shell(struct line *l, int wait_status)
{
	bool exited = WIFEXITED(wait_status);

	l->result.has_exit = exited;
	if (exited)
		l->result.exit_code = (uint64_t)WEXITSTATUS(wait_status);
	else
		l->result.signal = (uint64_t)WTERMSIG(wait_status);
	end_unasked(l, SHELL_EXITED);
}

void shell_on_death(struct shell *sh, int wait_status)
{
	struct line *l = sh->current;
	unsigned round = 0, status = 0;
	bool heard = shell_listen(sh, &round, &status) && round == 0;

	sh->tree.root = 0; /* the pid may soon be another's */
	if (l && l->state == LINE_STOPPING) {
		line_stopped_by_death(l);
		return;
	}
	shell_drop(sh);
	sh->lost = true;
	if (!l) {
		return;
	} else if (!line_has_run(l)) {
		line_run_again(l);
		return;
	} else if (heard) {
		end_normally(l, status);
	} else {
		sh->lost = false; /* this line says it */
		end_with_shell(l, wait_status);
	}
	shell_next(sh);
}
