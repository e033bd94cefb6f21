/* One line of a persistent shell from its start to its end; see shell.c. */
#include "init/shell.h"

#include "base/fd.h"
#include "init/env.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define LINE_TIMEOUT_MS_MAX (1ull << 40)
#define RESET		    "PS0= PS2= PROMPT_COMMAND= TMOUT="

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

static void feed_driver(struct line *l)
{
	const struct shell *sh = l->shell;
	const char *dir = l->table->dir, *token = l->io->token;
	char text[1024], input[SHELL_DIR_MAX + TOKEN_LEN + 4] = "/dev/null";

	if (l->io->input)
		snprintf(input, sizeof(input), "%s/%si", dir, token);
	snprintf(text, sizeof(text), "%s %s/%sc <%s >%s/%so 2>%s/%se%sPS1=%s:$?: " RESET "\n",
		 sh->bash ? "\\builtin source" : ".", dir, token, input, dir, token, dir, token,
		 sh->bash ? "; " : "\n", token);
	shell_feed(l->shell, text);
}

void line_ask_end(struct line *l, unsigned round)
{
	char text[128];

	if (round == 0)
		snprintf(text, sizeof(text), "PS1=%s:$?: " RESET "\n", l->io->token);
	else
		snprintf(text, sizeof(text), "PS1=%sx%u:$?: " RESET "\n", l->io->token, round);
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

/* Nothing of the line has run: it goes to a fresh shell, but only once. */
void line_run_again(struct line *l)
{
	struct shell *sh = l->shell;
	struct err e = {0};
	bool again = l->rerun;

	shell_drop(sh);
	l->rerun = l->restarted = true;
	if (!again && line_begin(l, &e) == 0)
		return;
	line_end(l, SHELL_RESTARTED, "interrupted");
	shell_next(sh);
}

/* The shell is at its prompt again, or dead. True if the line is to be reported, false if it has
 * gone to another shell. */
bool line_has_run(struct line *l)
{
	return line_io_take_start(l->io) || line_io_was_read(l->io);
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

static void end_normally(struct line *l, unsigned status)
{
	struct shell *sh = l->shell;

	l->result.has_exit = 1;
	l->result.exit_code = status & 0xff;
	sh->status = status & 0xff;
	sh->used = true;
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
