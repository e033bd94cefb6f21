/*
 * Persistent shells: the table of them and of their lines.
 *
 * How it works
 *
 * A shell is a long-lived `bash -i` (or sh) whose descriptor 0 is a pipe from init, the feed, and
 * whose 1 and 2 are a private pipe to init, the reply. Children of a line see neither: while a line
 * runs they are saved in the shell at CLOEXEC descriptors.
 *
 * One line is one file and two FIFOs with an unguessable name T in a private directory:
 *
 *	Tc	the text as it is; bash reads it as a script, command by command (shell_text.c)
 *	To, Te	its output
 *	Ti, Ts	with input: where it comes from, and a FIFO that is opened once Ti is
 *	Tf	after a text that may define some: the shell's functions (shell_text.c says why)
 *
 * and one sentence on the feed, the driver, which uses no name that a user can define but
 * `builtin`:
 *
 *	RESTORE; \builtin source Tc </dev/null >To 2>Te; __cove=("T:$?:" SAVE) PS1=$__cove ...
 *
 * An interactive shell prints PS1 when it is ready for the next sentence, so "T:STATUS:" on the
 * reply is the end of the line and its status. That needs no helper process and no inotify (of
 * which a user has 128 for all boxes together), and nothing of it is in the output. What PS1,
 * PROMPT_COMMAND and their like were is kept in a variable and put back for the next text. Only the
 * shell itself has the reply, and T is new for each line: a forged end can only harm the line that
 * forged it. Another shell than bash gives up the whole sentence when the text does not parse, so
 * there the end is a sentence of its own.
 *
 * In its messages bash names Tc; the stream of Te takes that out again.
 *
 * A line is a job (job.h). Of its states here:
 *
 * queued	its shell is busy. A timeout or a signal that is there to end something (INT, TERM,
 *		HUP, QUIT, KILL) ends it here, and then nothing of it ran.
 * starting	it is the first of its shell's queue, and a shell is being started for it.
 * running	the driver was fed. It ends by its end on the reply pipe, or by the death of the
 *		shell. An end although Tc was never read means that the driver does not work any
 *		more (`builtin` redefined, the directory closed): nothing has run. The shell is
 *		mended and the line tried once more; if that is in vain, in a fresh shell.
 *		A shell that became another program (`exec`) has closed both its pipes: the
 *		program's end is the line's.
 * stopping	shell_stop.c: its time is up, or somebody ended it.
 *
 * shell_watch.c looks after a running line, should its end be lost.
 *
 * A shell is made by the first line that names it. Lines to one shell wait for each other in order,
 * different shells run side by side. A shell that ended is forgotten once its line has said so; one
 * that died between two lines is kept as a name, so that the next line can say that its state is
 * lost.
 *
 * What can be done before a line comes is done after the one before: its files, and the cgroup it
 * will run in, where the shell sits already. So starting a line is two writes.
 */
#include "init/shell.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

/* --- lines --- */

static void line_free(struct init_job *j)
{
	struct line *l = line_of(j);

	if (l->shell && l->shell->starter == l)
		l->shell->starter = NULL;
	ev_timer_stop(j->in->ev, &l->step);
	free(l->stop_seen);
	line_io_free(l->io);
	free(l->ask.text);
	free(l->ask.cwd);
	free(l->ask.user);
	free(l->ask.env);
	free(l);
}

/* Its answer is on the way: the shell is free for the next one. */
static void line_ended(struct init_job *j)
{
	struct line *l = line_of(j);
	struct shell *sh = l->shell;

	l->shell = NULL;
	if (sh->current == l)
		sh->current = NULL;
	if (sh->starter == l)
		sh->starter = NULL;
	ev_defer(j->in->ev, &sh->prepare);
}

/* Names that are not needed any more. */
static void line_tidy(struct init_job *j)
{
	if (line_of(j)->io)
		line_io_forget(line_of(j)->io);
}

static const struct init_job_kind line_kind = {
	.number = JOB_LINE,
	.stop = line_stop,
	.on_ended = line_ended,
	.tidy = line_tidy,
	.free = line_free,
};

static int copy_string(char **ret, const char *s)
{
	*ret = s ? strdup(s) : NULL;
	return s && !*ret ? -ENOMEM : 0;
}

static int copy_request(struct line_request *ask, const struct wire_exec *m)
{
	int r = copy_string(&ask->text, m->line);

	ask->login = m->login != 0;
	ask->merge = m->merge != 0;
	if (r == 0)
		r = copy_string(&ask->cwd, m->cwd);
	if (r == 0)
		r = copy_string(&ask->user, m->user);
	if (r == 0 && m->env.bytes > 0) {
		ask->env = malloc(m->env.bytes);
		if (!ask->env)
			return -ENOMEM;
		memcpy(ask->env, m->env.data, m->env.bytes);
		ask->env_bytes = m->env.bytes;
		ask->env_count = m->env.count;
	}
	return r;
}

/* --- shells --- */

static void shell_free(struct shell *sh)
{
	struct shell **at = &sh->table->shells;

	while (*at != sh)
		at = &(*at)->next;
	*at = sh->next;
	sh->table->shell_count--;
	shell_drop(sh);
	free(sh);
}

/* After the answer to a line: the next line, or what it will need. Failures are found again
 * then. */
static void on_prepare(struct ev_defer *d)
{
	struct shell *sh = container(d, struct shell, prepare);

	if (sh->first || !sh->alive || sh->remove_id) {
		shell_next(sh); /* which may free it */
		return;
	}
	if (sh->current)
		return;
	if (!sh->ready)
		shell_refresh(sh, NULL);
	if (sh->alive && !sh->premade)
		line_io_new(sh->table, &sh->user, &sh->premade);
}

static int shell_new(struct shell_table *t, const char *name, struct shell **ret, struct err *e)
{
	struct shell *sh = t->shells;

	/* At the limit one is forgotten that is not alive and has no lines. */
	while (sh && (sh->alive || sh->current || sh->first))
		sh = sh->next;
	if (t->shell_count >= INIT_SHELLS_MAX && sh)
		shell_free(sh);
	else if (t->shell_count >= INIT_SHELLS_MAX)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "this box has %u shells already, the most it can have: end one "
			       "(cove shells ls, cove shells rm)",
			       INIT_SHELLS_MAX);
	sh = calloc(1, sizeof(*sh));
	if (!sh)
		return err_errno(e, ENOMEM, "make a shell");
	str_copy(sh->name, sizeof(sh->name), name);
	sh->table = t;
	sh->feed_fd = sh->proc_fd = sh->reply.fd = -1;
	sh->tree = TREE_NONE;
	sh->prepare.on_defer = on_prepare;
	sh->watch.on_timer = shell_on_watch;
	sh->next = t->shells;
	t->shells = sh;
	t->shell_count++;
	*ret = sh;
	return 0;
}

static struct line *queue_pop(struct shell *sh)
{
	struct line *l = sh->first;

	sh->first = l->next;
	if (!sh->first)
		sh->last = NULL;
	l->next = NULL;
	sh->queued--;
	return l;
}

void shell_queue_first(struct shell *sh, struct line *l)
{
	l->next = sh->first;
	sh->first = l;
	if (!sh->last)
		sh->last = l;
	sh->queued++;
}

/* A line that cannot run is refused; one that has begun in an earlier shell has an end instead. */
static void fail_line(struct line *l, const struct err *e)
{
	if (l->job.begun) {
		line_end(l, SHELL_RESTARTED, "interrupted");
		return;
	}
	l->shell = NULL;
	init_job_refuse(&l->job, e);
}

void shell_on_started(struct shell *sh, const struct err *e)
{
	struct line *l = sh->starter;

	sh->starter = NULL;
	if (l && !e) {
		l->restarted = l->restarted || sh->lost;
		sh->lost = false;
	} else {
		/* Started as a line wanted it that is gone: the next one may want another. */
		shell_drop(sh);
	}
	if (l && e)
		fail_line(queue_pop(sh), e);
	shell_next(sh);
}

void shell_next(struct shell *sh)
{
	struct ev *ev = sh->table->in->ev;

	shell_remove_if_asked(sh);
	while (!sh->current && sh->first && !shell_is_starting(sh)) {
		struct line *l = sh->first;
		struct err e = {0};
		int r = sh->alive && !sh->ready ? shell_refresh(sh, &e) : 0;

		if (r == 0 && !sh->alive) {
			r = shell_start(sh, l, &e);
			if (r == 0) {
				sh->starter = l;
				init_job_start(&l->job);
				return;
			}
		}
		queue_pop(sh);
		if (r == 0)
			r = line_begin(l, &e);
		if (r < 0)
			fail_line(l, &e);
	}
	if (sh->current || shell_is_starting(sh))
		return;
	if (sh->alive)
		ev_defer(ev, &sh->prepare);
	else if (!sh->lost)
		shell_free(sh);
}

void line_end_waiting(struct line *l, int sig)
{
	struct shell *sh = l->shell;
	struct line **at = &sh->first;

	sh->last = NULL;
	while (*at) {
		if (*at == l)
			*at = l->next;
		else {
			sh->last = *at;
			at = &(*at)->next;
		}
	}
	sh->queued--;
	l->job.result.signal = sig;
	line_end(l, SHELL_KEPT, l->job.result.timed_out ? "timeout" : "killed");
}

/* --- what the keeper asks --- */

int shell_table_new(struct init *in, struct shell_table **ret)
{
	struct shell_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->in = in;
	t->dir_fd = -1;
	*ret = t;
	return 0;
}

static int line_new(struct shell *sh, uint32_t id, const struct wire_exec *m, struct line **ret)
{
	struct line *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->job = (struct init_job){
		.kind = &line_kind,
		.in = sh->table->in,
		.id = id,
		.timeout_ms = m->timeout_ms,
		.grace_ms = m->grace_ms,
		.has_input = m->has_stdin != 0,
	};
	l->step.on_timer = line_on_step;
	if (copy_request(&l->ask, m) < 0) {
		line_free(&l->job);
		return -ENOMEM;
	}
	l->shell = sh;
	init_job_add(&l->job);
	*ret = l;
	return 0;
}

static int add_line(struct shell_table *t, uint32_t id, const struct wire_exec *m, struct err *e)
{
	const char *name = m->shell;
	struct shell *sh = t->shells;
	struct line *l;
	int r;

	if (!m->line || m->argv.count > 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a persistent shell runs a line, not arguments");
	if (m->pty)
		return err_set(e, ERR_INVALID, EINVAL, "a persistent shell has no terminal");
	if (!str_is_shell_name(name))
		return err_set(e, ERR_INVALID, EINVAL, SHELL_NAME_RULE, SHELL_NAME_MAX);
	r = shell_dir_open(t, e);
	if (r < 0)
		return r;
	while (sh && strcmp(sh->name, name) != 0)
		sh = sh->next;
	if (init_job_count(t->in, JOB_LINE) >= INIT_LINES_MAX ||
	    (sh && sh->queued >= INIT_SHELL_QUEUE))
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "too many lines wait: %u for shell '%s' (at most %u), %u in all (at "
			       "most %u)",
			       sh ? sh->queued : 0, name, INIT_SHELL_QUEUE,
			       init_job_count(t->in, JOB_LINE), INIT_LINES_MAX);
	if (!sh)
		r = shell_new(t, name, &sh, e);
	if (r < 0)
		return r;
	if (line_new(sh, id, m, &l) < 0) {
		shell_next(sh); /* a new one goes again */
		return err_errno(e, ENOMEM, "run a line");
	}
	*(sh->last ? &sh->last->next : &sh->first) = l;
	sh->last = l;
	sh->queued++;
	shell_next(sh);
	return 0;
}

void shell_line(struct init *in, uint32_t id, const struct wire_exec *m)
{
	struct err e = {0};
	struct init_job *j;

	if (add_line(in->shells, id, m, &e) < 0) {
		init_fail_err(in, id, &e);
		return;
	}
	j = init_job_find(in, id); /* one that could not begin is gone */
	if (j && j->state == JOB_ASKED)
		init_job_queue(j);
}
