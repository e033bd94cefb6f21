/*
 * Persistent shells: the table of them and of their lines.
 *
 * How it works
 *
 * A shell is a long-lived `bash -i` (or sh) whose descriptor 0 is a pipe from init, the feed, and
 * whose 1 and 2 are a private pipe to init, the talk. Children of a line see neither: while a line
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
 * talk is the end of the line and its status. That needs no helper process and no inotify (of
 * which a user has 128 for all boxes together), and nothing of it is in the output. What PS1,
 * PROMPT_COMMAND and their like were is kept in a variable and put back for the next text. Only the
 * shell itself has the talk, and T is new for each line: a forged end can only harm the line that
 * forged it. Another shell than bash gives up the whole sentence when the text does not parse, so
 * there the end is a sentence of its own.
 *
 * In its messages bash names Tc; the stream of Te takes that out again.
 *
 *	queued -> running ---------------> ended -> late -> gone
 *	     \        \-> stopping ------>/
 *	      \-> gone
 *
 * queued	its shell is busy. QUEUED was sent, and its time runs; a timeout or a signal that is
 *		there to end something (INT, TERM, HUP, QUIT, KILL) ends it here, and then nothing
 *		of it ran.
 * running	the driver was fed. It ends by its end on the talk, or by the death of the shell. An
 *		end although Tc was never read means that the driver does not work any more
 *		(`builtin` redefined, the directory closed): nothing has run. The shell is mended
 *		and the line tried once more; if that is in vain, in a fresh shell.
 *		A shell that became another program (`exec`) has closed both its pipes: the
 *		program's end is the line's.
 * stopping	shell_stop.c: its time is up, or somebody ended it.
 * ended	the answer is known, output that is still in the FIFOs goes first.
 * late		EXIT was sent; a background child still holds a FIFO, and what it writes goes out
 *		under the line's id.
 *
 * shell_watch.c looks after a running line, should its end be lost.
 *
 * A shell is made by the first line that names it. Lines to one shell wait for each other in order,
 * different shells run side by side. A shell that ended is forgotten once its line has said so; one
 * that died while nobody looked is kept as a name, so that the next line can say that its state is
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

#define SHELL_DEFAULT "default"

/* --- lines --- */

static struct line **bucket_of(struct shell_table *t, uint32_t id)
{
	return &t->buckets[id % LINE_BUCKETS];
}

static struct line *line_find(struct shell_table *t, uint32_t id)
{
	struct line *l = *bucket_of(t, id);

	while (l && l->id != id)
		l = l->bucket_next;
	return l;
}

static void table_add(struct shell_table *t, struct line *l)
{
	struct line **bucket = bucket_of(t, l->id);

	l->bucket_next = *bucket;
	*bucket = l;
	l->older = t->newest;
	if (t->newest)
		t->newest->newer = l;
	else
		t->oldest = l;
	t->newest = l;
	t->line_count++;
}

static void table_remove(struct shell_table *t, struct line *l)
{
	struct line **at = bucket_of(t, l->id);

	while (*at != l)
		at = &(*at)->bucket_next;
	*at = l->bucket_next;
	*(l->older ? &l->older->newer : &t->oldest) = l->newer;
	*(l->newer ? &l->newer->older : &t->newest) = l->older;
	t->line_count--;
	t->late_count -= l->late;
}

void line_free(struct line *l)
{
	struct ev *ev = l->table->in->ev;

	table_remove(l->table, l);
	ev_timer_stop(ev, &l->timeout);
	ev_timer_stop(ev, &l->step);
	in_stream_done(&l->input);
	free(l->stop_seen);
	line_io_free(l->io);
	free(l->ask.text);
	free(l->ask.cwd);
	free(l->ask.user);
	free(l->ask.env);
	free(l->result_cwd);
	free(l);
}

static int copy_string(char **ret, const char *s)
{
	*ret = s ? strdup(s) : NULL;
	return s && !*ret ? -ENOMEM : 0;
}

static int copy_request(struct line_request *ask, const struct wire_exec *m)
{
	int r = copy_string(&ask->text, m->line);

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
	ask->timeout_ms = m->timeout_ms;
	ask->has_input = m->has_stdin != 0;
	return r;
}

static int line_new(struct shell *sh, uint32_t id, const struct wire_exec *m, struct line **ret)
{
	struct line *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->table = sh->table;
	l->shell = sh;
	l->id = id;
	l->timeout.on_timer = line_on_timeout;
	l->step.on_timer = line_on_step;
	if (m->has_stdin)
		in_stream_start_held(&l->input, &sh->table->in->link, id);
	table_add(sh->table, l);
	if (copy_request(&l->ask, m) < 0) {
		line_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

/* It is over but for its streams, which a child holds. That takes no place from others: beyond
 * late_max the oldest is let go, and what its child still writes is lost to it. */
static void line_add_late(struct shell_table *t, struct line *l)
{
	l->late = true;
	t->late_count++;
	if (t->late_count <= t->in->late_max)
		return;
	for (l = t->oldest; !l->late; l = l->newer)
		continue;
	out_stream_end(&l->io->out[0]);
	out_stream_end(&l->io->out[1]);
	line_free(l);
}

/* After the answers went out: names that nobody needs any more, and lines that are over. */
static void on_tidy(struct ev_defer *d)
{
	struct shell_table *t = container(d, struct shell_table, tidy);
	struct line *l;

	while ((l = t->untidy)) {
		t->untidy = l->next;
		l->tidying = false;
		line_io_forget(l->io);
		if (l->io->out[0].ended && l->io->out[1].ended)
			line_free(l);
		else
			line_add_late(t, l);
	}
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

/* While nothing else is to do: what the next line will need. Failures are found again then. */
static void on_prepare(struct ev_defer *d)
{
	struct shell *sh = container(d, struct shell, prepare);

	if (sh->current || !sh->alive)
		return;
	if (!sh->ready)
		shell_refresh(sh, NULL);
	if (sh->alive && !sh->spare)
		line_io_new(sh->table, &sh->user, &sh->spare);
}

static struct shell *shell_find(struct shell_table *t, const char *name)
{
	struct shell *sh = t->shells;

	while (sh && strcmp(sh->name, name) != 0)
		sh = sh->next;
	return sh;
}

/* Forgets a shell that is not alive and has no lines. False if there is none. */
static bool forget_one(struct shell_table *t)
{
	struct shell *sh = t->shells;

	while (sh && (sh->alive || sh->current || sh->first))
		sh = sh->next;
	if (sh)
		shell_free(sh);
	return sh != NULL;
}

static int shell_new(struct shell_table *t, const char *name, struct shell **ret, struct err *e)
{
	struct shell *sh;

	if (t->shell_count >= INIT_SHELLS_MAX && !forget_one(t))
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "this box has %u shells already: end one with `exit`",
			       INIT_SHELLS_MAX);
	sh = calloc(1, sizeof(*sh));
	if (!sh)
		return err_errno(e, ENOMEM, "make a shell");
	str_copy(sh->name, sizeof(sh->name), name);
	sh->table = t;
	sh->feed_fd = sh->proc_fd = sh->talk.fd = -1;
	sh->tree = TREE_NONE;
	sh->prepare.on_defer = on_prepare;
	sh->watch.on_timer = shell_on_watch;
	sh->next = t->shells;
	t->shells = sh;
	t->shell_count++;
	*ret = sh;
	return 0;
}

static struct line *queue_take(struct shell *sh)
{
	struct line *l = sh->first;

	sh->first = l->next;
	if (!sh->first)
		sh->last = NULL;
	l->next = NULL;
	sh->queued--;
	return l;
}

static void queue_put(struct shell *sh, struct line *l)
{
	if (sh->last)
		sh->last->next = l;
	else
		sh->first = l;
	sh->last = l;
	sh->queued++;
}

static void queue_remove(struct shell *sh, struct line *l)
{
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
}

void shell_next(struct shell *sh)
{
	struct init *in = sh->table->in;

	while (!sh->current && sh->first) {
		struct line *l = queue_take(sh);
		struct err e = {0};

		if (line_begin(l, &e) < 0) {
			init_fail_err(in, l->id, &e);
			line_free(l);
		}
	}
	if (sh->current)
		return;
	if (sh->alive)
		ev_defer(in->ev, &sh->prepare);
	else if (!sh->lost)
		shell_free(sh);
}

void line_end_queued(struct line *l, int sig, const char *cause)
{
	struct init *in = l->table->in;
	struct wire_exit m = {
		.exec_id = l->id,
		.signal = (uint64_t)sig,
		.timed_out = l->result.timed_out,
		.duration_ms = ev_now(in->ev) - l->started_ms,
		.shell_state = SHELL_KEPT,
		.cause = cause,
	};

	ASSERT(l->state == LINE_QUEUED);
	queue_remove(l->shell, l);
	line_free(l);
	if (wire_exit_encode(&in->link.out, (uint32_t)m.exec_id, 0, &m) < 0)
		init_broken(in, "no room for an exit");
	wire_link_flush(&in->link);
}

/* --- what the keeper asks --- */

int shell_table_new(struct init *in, struct shell_table **ret)
{
	struct shell_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->in = in;
	t->dir_fd = -1;
	t->tidy.on_defer = on_tidy;
	*ret = t;
	return 0;
}

static int check_request(const struct wire_exec *m, const char *name, struct err *e)
{
	if (!m->line || m->argv.count > 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a persistent shell runs a line, not arguments");
	if (m->pty)
		return err_set(e, ERR_INVALID, EINVAL, "a persistent shell has no terminal");
	if (!str_is_name(name, SHELL_NAME_MAX))
		return err_set(
			e, ERR_INVALID, EINVAL,
			"a shell's name is lower-case letters, digits and inner dashes, at most %u",
			SHELL_NAME_MAX);
	return 0;
}

static int add_line(struct shell_table *t, uint32_t id, const struct wire_exec *m, struct err *e)
{
	const char *name = m->shell[0] ? m->shell : SHELL_DEFAULT;
	struct shell *sh = shell_find(t, name);
	struct line *l;
	int r = check_request(m, name, e);

	if (r == 0)
		r = shell_dir_open(t, e);
	if (r < 0)
		return r;
	if (t->line_count - t->late_count >= INIT_LINES_MAX ||
	    (sh && sh->queued >= INIT_SHELL_QUEUE))
		return err_set(e, ERR_LIMIT, EAGAIN, "too many lines wait in shell '%s'", name);
	if (!sh)
		r = shell_new(t, name, &sh, e);
	if (r < 0)
		return r;
	if (line_new(sh, id, m, &l) < 0) {
		r = err_errno(e, ENOMEM, "run a line");
	} else {
		queue_put(sh, l);
	}
	shell_next(sh);
	return r;
}

/* Its time runs from here on, and whoever asked learns at once that it waits. */
static void tell_queued(struct init *in, struct line *l)
{
	struct wire_queued m = {.exec_id = l->id};

	l->started_ms = ev_now(in->ev);
	line_set_timeout(l);
	if (wire_queued_encode(&in->link.out, l->id, 0, &m) < 0)
		init_broken(in, "no room for an answer");
	wire_link_flush(&in->link);
}

void shell_line(struct init *in, uint32_t id, const struct wire_exec *m)
{
	struct err e = {0};
	struct line *l;

	if (line_find(in->shells, id)) {
		init_broken(in, "an id was used twice");
		return;
	}
	if (add_line(in->shells, id, m, &e) < 0) {
		init_fail_err(in, id, &e);
		return;
	}
	l = line_find(in->shells, id); /* one that could not begin is gone */
	if (l && l->state == LINE_QUEUED)
		tell_queued(in, l);
}

static void on_credit(struct line *l, const struct wire_frame *f)
{
	struct wire_credit m;

	if (wire_credit_decode(f, &m) < 0 || f->stream == WIRE_STDIN ||
	    f->stream >= WIRE_STREAM_COUNT) {
		init_broken(l->table->in, "a CREDIT that cannot be read");
		return;
	}
	if (!l->io)
		return;
	out_stream_credit(&l->io->out[f->stream - WIRE_STDOUT], m.bytes);
	if (l->draining)
		line_flush(l);
}

/* A line that does not run yet has no processes: of what people send to end something it is ended,
 * and nothing else reaches it (WINCH, USR1, STOP). */
static bool cancels_queued(const struct wire_signal *m)
{
	return m->tree || m->signal == SIGINT || m->signal == SIGTERM || m->signal == SIGHUP ||
	       m->signal == SIGQUIT || m->signal == SIGKILL;
}

static void on_signal(struct line *l, const struct wire_frame *f)
{
	struct init *in = l->table->in;
	struct wire_signal m;

	if (wire_signal_decode(f, &m) < 0) {
		init_broken(in, "a SIGNAL that cannot be read");
		return;
	}
	if (l->state >= LINE_ENDED || (!m.tree && (m.signal == 0 || m.signal > (uint64_t)SIGRTMAX)))
		return;
	if (l->state != LINE_QUEUED)
		line_stop(l, (int)m.signal, m.tree != 0);
	else if (cancels_queued(&m))
		line_end_queued(l, m.tree ? SIGKILL : (int)m.signal, "killed");
}

bool shell_frame(struct init *in, const struct wire_frame *f)
{
	struct line *l = line_find(in->shells, f->id);

	if (!l)
		return false;
	switch (f->type) {
	case WIRE_DATA:
		if (l->ask.has_input && l->state < LINE_ENDED)
			in_stream_data(&l->input, f->payload, f->len);
		break;
	case WIRE_EOF:
		if (l->ask.has_input && l->state < LINE_ENDED)
			in_stream_eof(&l->input);
		break;
	case WIRE_CREDIT:
		on_credit(l, f);
		break;
	case WIRE_SIGNAL:
		on_signal(l, f);
		break;
	default: /* CANCEL: the line goes on; RESIZE: there is no terminal */
		break;
	}
	return true;
}
