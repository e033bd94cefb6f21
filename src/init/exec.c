/*
 * Commands that are processes of their own.
 *
 * How it works
 *
 *	EXEC -> running -> ended -> reported -> gone
 *	            \-> killing ->/      \-> late -> gone
 *
 * running	the leader lives; its streams flow both ways.
 * killing	its time ran out, or somebody asked for its end: the tree is killed again and
 *		again until nobody is left, or KILL_MS_MAX passed (a process in the kernel's hands
 *		does not die).
 * ended	the leader's pidfd said so, which is the one and only completion. What its pipes
 *		hold at that moment is drained, bounded and as credit allows, so that it comes
 *		before EXIT.
 * reported	EXIT was sent with the bytes sent so far.
 * late		a background child still holds a stream: its bytes go on under the same id until
 *		it closes. Such a command takes no place from others; when there are late_max of
 *		them the oldest is let go, and what its child still writes is lost to it.
 *
 * A terminal does not linger: the kernel hangs it up when its session's leader ends, and init
 * closes its side after the drain. Daemons of a command that ended by itself are left alone.
 */
#include "init/init.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "init/env.h"
#include "init/files.h"
#include "init/input.h"
#include "init/pty.h"
#include "init/spawn.h"
#include "init/stream.h"
#include "init/tree.h"
#include "init/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
	KILL_RETRY_MS = 5,
	KILL_MS_MAX = 5000,
	OOM_SCORE = 200,
};

#define TIMEOUT_MS_MAX (1ull << 40)

struct exec {
	struct exec *next;
	struct init *in;
	uint32_t id;
	struct ev_child child;
	struct out_stream out, err; /* err is unused with a terminal */
	struct in_stream input;
	struct tree tree;
	struct ev_timer timer; /* the timeout, then the retries of a kill */
	uint64_t started_ms, kill_until_ms;
	uint64_t pids_hits_before; /* refused forks of the box when it began */
	int status;		   /* of the leader */
	bool pty, killing, ended, draining, reported;
	bool timed_out, killed;
	bool late;  /* counted in late_count */
	char cwd[]; /* where it was started */
};

struct exec_table {
	struct exec *first; /* oldest first */
	unsigned count;	    /* of them late_count have ended, and a child holds a stream */
	unsigned late_count;
};

/* The descriptors of a command to be: ours and the child's. All owned, but 0 as input. */
struct ends {
	int in, out, err;	      /* the child's; equal with a terminal */
	int our_in, our_out, our_err; /* -1: there is none */
};

int exec_table_new(struct init *in, struct exec_table **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static struct exec *exec_find(struct init *in, uint32_t id)
{
	struct exec *x = in->execs->first;

	while (x && x->id != id)
		x = x->next;
	return x;
}

static void table_add(struct exec_table *t, struct exec *x)
{
	struct exec **at = &t->first;

	while (*at)
		at = &(*at)->next;
	*at = x;
	t->count++;
}

static void table_remove(struct exec_table *t, struct exec *x)
{
	struct exec **at = &t->first;

	while (*at && *at != x)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = x->next;
	t->count--;
	t->late_count -= x->late;
}

static void exec_free(struct exec *x)
{
	if (!x)
		return;
	table_remove(x->in->execs, x);
	ev_timer_stop(x->in->ev, &x->timer);
	ev_child_remove(x->in->ev, &x->child);
	out_stream_done(&x->out);
	out_stream_done(&x->err);
	in_stream_done(&x->input);
	tree_done(&x->tree);
	free(x);
}

/* A stream that was never started is ended, too. */
static bool is_silent(const struct exec *x)
{
	return (!x->out.ev || x->out.ended) && (!x->err.ev || x->err.ended);
}

static void add_late(struct exec *x)
{
	struct exec_table *t = x->in->execs;

	x->late = true;
	t->late_count++;
	if (t->late_count <= x->in->late_max)
		return;
	for (x = t->first; !x->late; x = x->next)
		continue;
	out_stream_end(&x->out);
	out_stream_end(&x->err);
	exec_free(x);
}

/* What is left of one that was reported: nothing, or streams that a child holds. */
static void free_if_over(struct exec *x)
{
	if (!x->reported || !x->ended || x->killing)
		return;
	if (is_silent(x))
		exec_free(x);
	else if (!x->late)
		add_late(x);
}

static const char *cause_of(const struct exec *x, const struct usage *u)
{
	bool signaled = !x->ended || WIFSIGNALED(x->status);

	if (x->timed_out)
		return "timeout";
	if (signaled && x->killed)
		return "killed";
	return usage_cause(x->in, u, signaled || WEXITSTATUS(x->status) != 0, x->cwd,
			   signaled ? "signal" : "exit");
}

static void report(struct exec *x)
{
	bool exited = x->ended && WIFEXITED(x->status);
	struct usage used = {0}, now;

	usage_read(&x->tree, &now);
	usage_add(&used, &(struct usage){.pids_hits = x->pids_hits_before}, &now);
	struct wire_exit m = {
		.exec_id = x->id,
		.has_exit = exited,
		.exit_code = exited ? (uint64_t)WEXITSTATUS(x->status) : 0,
		.timed_out = x->timed_out,
		.stdout_bytes = x->out.bytes,
		.stderr_bytes = x->err.bytes,
		.duration_ms = ev_now(x->in->ev) - x->started_ms,
		.cwd = x->cwd,
		.cause = cause_of(x, &used),
	};

	usage_put(&used, &m);
	if (used.oom_kills > 0)
		usage_settle(&x->in->groups);
	if (!exited)
		m.signal = x->ended ? (uint64_t)WTERMSIG(x->status) : SIGKILL;
	in_stream_done(&x->input);
	if (x->pty)
		out_stream_end(&x->out);
	if (wire_exit_encode(&x->in->link.out, x->id, 0, &m) < 0)
		init_broken(x->in, "no room for an exit");
	wire_link_flush(&x->in->link);
	reaper_sweep(x->in);
	x->reported = true;
}

/* Drains as far as credit and the link allow, then reports. Called again when they allow more. */
static void finish(struct exec *x)
{
	bool more;

	if (x->reported) {
		free_if_over(x);
		return;
	}
	more = out_stream_drain(&x->out);
	more = (x->err.ev && out_stream_drain(&x->err)) || more;
	x->draining = more;
	if (more)
		return;
	report(x);
	free_if_over(x);
}

/* One round of killing. Over when nobody is left and the leader was reaped, or time is up. */
static void kill_round(struct exec *x)
{
	struct ev *ev = x->in->ev;
	bool late = ev_now(ev) >= x->kill_until_ms;
	int seen = tree_kill(&x->tree, 0);

	if (!x->ended && (late || seen == 0))
		sys_pidfd_send_signal(x->child.io.fd, SIGKILL);
	if (!late && (seen > 0 || !x->ended)) {
		ev_timer_set(ev, &x->timer, KILL_RETRY_MS);
		return;
	}
	x->killing = false;
	finish(x);
}

static void start_killing(struct exec *x)
{
	if (x->killing)
		return;
	x->killing = true;
	x->kill_until_ms = ev_now(x->in->ev) + KILL_MS_MAX;
	kill_round(x);
}

static void on_timer(struct ev_timer *t)
{
	struct exec *x = container(t, struct exec, timer);

	if (x->killing) {
		kill_round(x);
		return;
	}
	x->timed_out = true;
	start_killing(x);
}

static void on_exit_child(struct ev_child *c, int status)
{
	struct exec *x = container(c, struct exec, child);

	x->ended = true;
	x->status = status;
	x->tree.root = 0; /* the pid may soon be another's */
	if (x->killing) {
		kill_round(x);
		return;
	}
	ev_timer_stop(x->in->ev, &x->timer);
	finish(x);
}

static void on_stream_end(struct out_stream *s)
{
	struct exec *x = s->stream == WIRE_STDERR ? container(s, struct exec, err)
						  : container(s, struct exec, out);

	if (x->draining)
		finish(x);
	else
		free_if_over(x);
}

static void on_stream_room(struct out_stream *s)
{
	struct exec *x = s->stream == WIRE_STDERR ? container(s, struct exec, err)
						  : container(s, struct exec, out);

	if (x->draining)
		finish(x);
}

static void ends_close(struct ends *n)
{
	bool pty = n->out == n->in;

	if (n->in != 0)
		fd_close(&n->in);
	if (!pty) {
		fd_close(&n->out);
		fd_close(&n->err);
	}
	fd_close(&n->our_in);
	fd_close(&n->our_out);
	fd_close(&n->our_err);
}

static int open_pty(const struct init *in, const struct user *u, const struct wire_exec *m,
		    struct ends *n, struct err *e)
{
	int r = pty_open(in->single ? (uid_t)-1 : u->uid, &n->our_out, &n->in, e);

	if (r < 0)
		return r;
	n->out = n->err = n->in;
	n->our_in = fcntl(n->our_out, F_DUPFD_CLOEXEC, 3);
	if (n->our_in < 0)
		return err_errno(e, errno, "open a terminal");
	pty_resize(n->our_out, m->rows, m->cols);
	return 0;
}

static int open_pipe(int *ret_read, int *ret_write, struct err *e)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(e, errno, "make a pipe");
	*ret_read = fds[0];
	*ret_write = fds[1];
	return 0;
}

static int open_pipes(const struct wire_exec *m, struct ends *n, struct err *e)
{
	int r = open_pipe(&n->our_out, &n->out, e);

	if (r == 0)
		r = open_pipe(&n->our_err, &n->err, e);
	if (r < 0)
		return r;
	if (m->has_stdin)
		return open_pipe(&n->in, &n->our_in, e);
	/* init's own descriptor 0 is /dev/null, opened before anything of the box ran. */
	n->in = 0;
	return 0;
}

/* Gives our ends to the streams. */
static int start_streams(struct exec *x, struct ends *n)
{
	struct wire_link *link = &x->in->link;
	int r;

	x->out.on_end = x->err.on_end = on_stream_end;
	x->out.on_room = x->err.on_room = on_stream_room;
	r = out_stream_start(&x->out, x->in->ev, link, take_fd(n->our_out), x->id, WIRE_STDOUT);
	if (r == 0 && n->our_err >= 0)
		r = out_stream_start(&x->err, x->in->ev, link, take_fd(n->our_err), x->id,
				     WIRE_STDERR);
	if (r == 0)
		r = in_stream_start(&x->input, link, take_fd(n->our_in), x->id, x->pty);
	return r;
}

/* A shell by a path of its own: a command's PATH may lead anywhere. */
static const char *find_shell(const char **ret_name)
{
	static const char *const paths[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (path_is_program(paths[i])) {
			*ret_name = "bash";
			return paths[i];
		}
	*ret_name = "sh";
	return "/bin/sh";
}

/* argv of the request, one allocation. *ret_path is set where it is not to be searched. */
static int build_argv(const struct wire_exec *m, char ***ret, const char **ret_path, struct err *e)
{
	size_t slots = m->argv.count > 0 ? m->argv.count + 1 : 4;
	autofree char **argv = calloc(slots, sizeof(*argv));
	const char *item, *shell;
	uint32_t pos = 0;
	size_t n = 0;

	if (!argv)
		return err_errno(e, ENOMEM, "arguments");
	if (m->argv.count == 0 && !m->line)
		return err_set(e, ERR_INVALID, EINVAL, "there is no command");
	while ((item = wire_list_next(&m->argv, &pos)))
		argv[n++] = (char *)(uintptr_t)item;
	*ret_path = NULL;
	if (n == 0) {
		*ret_path = find_shell(&shell);
		argv[0] = (char *)(uintptr_t)shell;
		argv[1] = (char *)(uintptr_t) "-c";
		argv[2] = (char *)(uintptr_t)m->line;
	}
	*ret = take_ptr(argv);
	return 0;
}

static int spawn_leader(struct exec *x, const struct user *u, const struct wire_exec *m,
			const struct ends *n, struct err *e)
{
	autofree char **env = NULL, **argv = NULL;
	const char *path = NULL;
	int pidfd, r = build_argv(m, &argv, &path, e);
	pid_t pid;

	if (r == 0)
		r = env_build(x->in, u, &m->env, x->pty, &env, e);
	if (r < 0)
		return r;
	struct spawn s = {
		.path = path,
		.argv = argv,
		.env = env,
		.cwd = x->cwd,
		.user = u,
		.single = x->in->single,
		.subreaper = !tree_has_group(&x->tree),
		.in = n->in,
		.out = n->out,
		.err = n->err,
		.tty = x->pty ? n->in : -1,
		.tree = &x->tree,
		.oom_score_adj = OOM_SCORE,
		.pids_limit = x->in->pids_limit,
	};
	r = spawn_process(&s, &pid, &pidfd, e);
	if (r < 0)
		return r;
	x->tree.root = pid;
	x->child.on_exit = on_exit_child;
	r = ev_child_add(x->in->ev, &x->child, pid, pidfd);
	if (r < 0) {
		kill(-pid, SIGKILL); /* it leads a group; the reaper takes it */
		return err_errno(e, -r, "watch a process");
	}
	return 0;
}

/* Everything up to the running process. On failure x is to be freed. */
static int prepare(struct exec *x, const struct user *u, const struct wire_exec *m, struct err *e)
{
	struct ends n = {-1, -1, -1, -1, -1, -1};
	int r = tree_init(&x->tree, &x->in->groups, x->id);

	if (r < 0)
		return err_errno(e, -r, "make the command's cgroup");
	r = x->pty ? open_pty(x->in, u, m, &n, e) : open_pipes(m, &n, e);
	if (r == 0)
		r = spawn_leader(x, u, m, &n, e);
	if (r == 0) {
		r = start_streams(x, &n);
		if (r < 0) {
			kill(-x->child.pid, SIGKILL);
			err_errno(e, -r, "watch a command's streams");
		}
	}
	ends_close(&n);
	return r;
}

static int exec_new(struct init *in, uint32_t id, const struct wire_exec *m, const char *cwd,
		    struct exec **ret)
{
	size_t n = strlen(cwd) + 1;
	struct exec *x = calloc(1, sizeof(*x) + n);

	if (!x)
		return -ENOMEM;
	x->in = in;
	x->id = id;
	x->pty = m->pty != 0;
	x->tree = TREE_NONE;
	x->timer.on_timer = on_timer;
	x->started_ms = ev_now(in->ev);
	x->pids_hits_before = usage_pids_hits(&in->groups, NULL);
	memcpy(x->cwd, cwd, n);
	*ret = x;
	return 0;
}

static int start(struct init *in, uint32_t id, const struct wire_exec *m, struct err *e)
{
	char cwd[BOX_PATH_MAX];
	struct user user;
	struct exec *x;
	int r;

	if (in->execs->count - in->execs->late_count >= INIT_EXECS_MAX)
		return err_set(e, ERR_LIMIT, EAGAIN, "%u commands run in this box already",
			       INIT_EXECS_MAX);
	r = env_user(in, m->user, &user, e);
	if (r == 0)
		r = env_cwd(in, &user, m->cwd, cwd, sizeof(cwd), e);
	if (r < 0)
		return r;
	if (exec_new(in, id, m, cwd, &x) < 0)
		return err_errno(e, ENOMEM, "start a command");
	r = prepare(x, &user, m, e);
	if (r < 0) {
		exec_free(x);
		return r;
	}
	table_add(in->execs, x);
	if (m->timeout_ms > 0)
		ev_timer_set(in->ev, &x->timer,
			     m->timeout_ms < TIMEOUT_MS_MAX ? m->timeout_ms : TIMEOUT_MS_MAX);
	return x->child.pid;
}

void exec_start(struct init *in, uint32_t id, const struct wire_exec *m)
{
	struct wire_started started = {.exec_id = id};
	struct err e = {0};
	int r;

	if (exec_find(in, id)) {
		init_broken(in, "an id was used twice");
		return;
	}
	r = start(in, id, m, &e);
	if (r < 0) {
		init_fail_err(in, id, &e);
		return;
	}
	started.pid = (uint64_t)r;
	if (wire_started_encode(&in->link.out, id, 0, &started) < 0)
		init_broken(in, "no room for an answer");
	wire_link_flush(&in->link);
}

/* To the leader's group, and on a terminal to whoever is in the foreground. The leader is not
 * reaped before x->ended, so until then its pid is its own. */
static void send_signal(struct exec *x, int sig)
{
	pid_t front;

	if (x->ended)
		return;
	kill(-x->child.pid, sig);
	front = x->pty ? pty_foreground(x->out.io.fd) : 0;
	if (front > 0 && front != x->child.pid)
		kill(-front, sig);
}

static void on_signal_frame(struct exec *x, const struct wire_frame *f)
{
	struct wire_signal m;

	if (wire_signal_decode(f, &m) < 0) {
		init_broken(x->in, "a SIGNAL that cannot be read");
		return;
	}
	if (m.tree || m.signal == SIGKILL) {
		x->killed = true;
		start_killing(x);
	} else if (m.signal > 0 && m.signal <= (uint64_t)SIGRTMAX) {
		send_signal(x, (int)m.signal);
	}
}

static void on_credit_frame(struct exec *x, const struct wire_frame *f)
{
	struct wire_credit m;

	if (wire_credit_decode(f, &m) < 0 || f->stream == WIRE_STDIN) {
		init_broken(x->in, "a CREDIT that cannot be read");
		return;
	}
	out_stream_credit(f->stream == WIRE_STDERR ? &x->err : &x->out, m.bytes);
	if (x->draining)
		finish(x);
}

static void on_resize_frame(struct exec *x, const struct wire_frame *f)
{
	struct wire_resize m;

	if (wire_resize_decode(f, &m) < 0)
		init_broken(x->in, "a RESIZE that cannot be read");
	else if (x->pty && !x->out.ended)
		pty_resize(x->out.io.fd, m.rows, m.cols);
}

bool exec_frame(struct init *in, const struct wire_frame *f)
{
	struct exec *x = exec_find(in, f->id);

	if (!x)
		return false;
	switch (f->type) {
	case WIRE_DATA:
		in_stream_data(&x->input, f->payload, f->len);
		break;
	case WIRE_EOF:
		in_stream_eof(&x->input);
		break;
	case WIRE_CREDIT:
		on_credit_frame(x, f);
		break;
	case WIRE_SIGNAL:
		on_signal_frame(x, f);
		break;
	case WIRE_RESIZE:
		on_resize_frame(x, f);
		break;
	default: /* CANCEL: a running command goes on */
		break;
	}
	return true;
}
