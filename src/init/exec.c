/*
 * Commands that are processes of their own; job.h has their life.
 *
 * The leader's end is the one and only completion. Daemons of a command that ended by itself are
 * left alone. One whose time ran out, or that is to be killed, has its tree killed again and again
 * until it is empty, or KILL_MS_MAX passed (a process in the kernel's hands does not die).
 *
 * A grace is given only where the tree is a cgroup: a leader that heeds SIGTERM leaves children
 * behind, and without a group they could not be found any more.
 */
#include "init/job.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "init/env.h"
#include "init/files.h"
#include "init/pty.h"
#include "init/spawn.h"
#include "init/tree.h"

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

struct init_exec {
	struct init_job job;
	struct init_proc proc;	  /* the leader */
	struct out_stream out[2]; /* the second is unused with a terminal */
	struct init_tree tree;
	int ends[3];	       /* our ends of its 0-2 until it runs; owned, or -1 */
	struct ev_timer retry; /* of a kill */
	uint64_t kill_until_ms;
	uint64_t pids_hits_before; /* refused forks of the box when it began */
	uint64_t early;		   /* signals that came while it started, as bits */
	int status;		   /* of the leader */
	bool killing, ended, killed;
};

static struct init_exec *exec_of(struct init_job *j)
{
	return container(j, struct init_exec, job);
}

static void exec_free(struct init_job *j)
{
	struct init_exec *x = exec_of(j);

	ev_timer_stop(j->in->ev, &x->retry);
	init_proc_drop(&x->proc);
	for (int i = 0; i < 2; i++)
		out_stream_done(&x->out[i]);
	for (int i = 0; i < 3; i++)
		fd_close(&x->ends[i]);
	init_tree_done(&x->tree);
	free(x);
}

/* --- the end --- */

static void finish(struct init_exec *x)
{
	struct init_job *j = &x->job;
	bool exited = x->ended && WIFEXITED(x->status);
	bool failed = !exited || WEXITSTATUS(x->status) != 0;
	const char *cause;
	struct usage now;

	j->busy = x->killing || !x->ended;
	if (j->state >= JOB_ENDED) {
		if (!j->busy)
			init_job_release(j);
		return;
	}
	usage_read(&x->tree, &now);
	usage_add(&j->used, &(struct usage){.pids_hits = x->pids_hits_before}, &now);
	j->result.has_exit = exited;
	if (exited)
		j->result.exit_code = WEXITSTATUS(x->status);
	else
		j->result.signal = x->ended ? WTERMSIG(x->status) : SIGKILL;
	if (j->result.timed_out)
		cause = "timeout";
	else if (!exited && x->killed)
		cause = "killed";
	else
		cause = usage_cause(j->in, &j->used, failed, j->cwd, exited ? "exit" : "signal");
	init_job_end(j, cause);
}

/* One round of killing. Over when none is left and the leader was reaped, or time is up. */
static void kill_round(struct init_exec *x)
{
	struct ev *ev = x->job.in->ev;
	bool late = ev_now(ev) >= x->kill_until_ms;
	int seen = init_tree_kill(&x->tree, 0);

	if (!x->ended && (late || seen == 0))
		init_proc_signal(&x->proc, SIGKILL);
	if (!late && (seen > 0 || !x->ended)) {
		ev_timer_set(ev, &x->retry, KILL_RETRY_MS);
		return;
	}
	x->killing = false;
	finish(x);
}

/* The leader has heeded SIGTERM: what it started has the rest of the grace. */
static void wait_round(struct init_exec *x)
{
	if (init_tree_signal(&x->tree, 0, 0) > 0)
		ev_timer_set(x->job.in->ev, &x->retry, KILL_RETRY_MS);
	else
		finish(x);
}

static void on_retry(struct ev_timer *t)
{
	struct init_exec *x = container(t, struct init_exec, retry);

	if (x->killing)
		kill_round(x);
	else
		wait_round(x);
}

static void on_exit_proc(struct init_proc *p, int status)
{
	struct init_exec *x = container(p, struct init_exec, proc);

	x->ended = true;
	x->status = status;
	x->tree.root = 0; /* the pid may soon be another's */
	if (x->killing)
		kill_round(x);
	else if (x->job.result.timed_out && x->job.state < JOB_ENDED)
		wait_round(x);
	else
		finish(x);
}

/* To the leader's group, and on a terminal to whoever is in the foreground. */
static void send_signal(struct init_exec *x, int sig)
{
	pid_t foreground;

	if (x->proc.pid <= 0)
		return;
	kill(-x->proc.pid, sig);
	foreground = x->job.pty ? pty_foreground(x->out[0].io.fd) : 0;
	if (foreground > 0 && foreground != x->proc.pid)
		kill(-foreground, sig);
}

static void exec_stop(struct init_job *j, int sig, bool tree)
{
	struct init_exec *x = exec_of(j);

	if (!tree && j->state == JOB_STARTING)
		x->early |= 1ull << (sig - 1);
	else if (!tree)
		send_signal(x, sig);
	if (!tree || x->killing)
		return;
	x->killed = !j->result.timed_out;
	x->killing = j->busy = true;
	x->kill_until_ms = ev_now(j->in->ev) + KILL_MS_MAX;
	if (j->state < JOB_ENDED)
		init_job_stop(j);
	kill_round(x);
}

static void exec_tidy(struct init_job *j)
{
	reaper_premake(j->in);
}

static const struct init_job_kind exec_kind = {
	.number = JOB_EXEC,
	.stop = exec_stop,
	.tidy = exec_tidy,
	.free = exec_free,
};

/* --- the start --- */

/* Its descriptors: the child's in `child`, ours in x->ends. All owned, but 0 as input. */
static int open_ends(struct init_exec *x, const struct user *u, const struct wire_exec *m,
		     int child[3], struct err *e)
{
	int fds[2];

	if (x->job.pty) {
		int r = pty_open(x->job.in->single ? (uid_t)-1 : u->uid, &x->ends[1], &child[0], e);

		if (r < 0)
			return r;
		child[1] = child[2] = child[0];
		x->ends[0] = fd_copy(x->ends[1], 3);
		if (x->ends[0] < 0)
			return err_errno(e, -x->ends[0], "open a terminal");
		x->job.pty_fd = x->ends[1];
		pty_resize(x->ends[1], m->rows, m->cols);
		return 0;
	}
	/* init's own descriptor 0 is /dev/null, opened before anything of the box ran. */
	child[0] = 0;
	for (int i = m->has_stdin ? 0 : 1; i < 3; i++) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_errno(e, errno, "make a pipe");
		x->ends[i] = fds[i == 0];
		child[i] = fds[i != 0];
		if (fcntl(x->ends[i], F_SETFL, O_NONBLOCK) < 0)
			return err_errno(e, errno, "make a pipe");
		if (i == 1 && m->merge) {
			child[2] = fd_copy(child[1], 3);
			return child[2] < 0 ? err_errno(e, -child[2], "make a pipe") : 0;
		}
	}
	return 0;
}

/* The program runs: gives our ends to the streams. */
static void on_started(struct init_proc *p, const struct err *why)
{
	struct init_exec *x = container(p, struct init_exec, proc);
	struct init_job *j = &x->job;
	struct err e;
	int r = 0;

	if (j->state >= JOB_ENDED) { /* it was given up while it started */
		x->ended = x->ended || why;
		if (why)
			finish(x);
		return;
	}
	if (why) {
		init_job_refuse(j, why);
		return;
	}
	for (int i = 0; i < 2 && r == 0; i++) {
		if (x->ends[1 + i] < 0)
			continue;
		x->out[i].job = j;
		j->out[i] = &x->out[i];
		r = out_stream_start(&x->out[i], j->in->ev, &j->in->link, take_fd(x->ends[1 + i]),
				     j->id, (uint8_t)(WIRE_STDOUT + i));
	}
	if (r < 0) {
		send_signal(x, SIGKILL); /* the reaper takes it */
		err_errno(&e, -r, "watch a command's streams");
		init_job_refuse(j, &e);
		return;
	}
	init_job_run(j, x->tree.root);
	if (x->ends[0] >= 0)
		in_stream_adopt(&j->input, take_fd(x->ends[0]));
	for (int sig = 1; x->early; sig++) {
		if (x->early & 1)
			send_signal(x, sig);
		x->early >>= 1;
	}
}

/* argv of the request, one allocation. *ret_path is set where it is not to be searched. */
static int build_argv(const struct wire_exec *m, char ***ret, const char **ret_path, struct err *e)
{
	static const char *const shells[] = {"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"};
	size_t slots = m->argv.count > 0 ? m->argv.count + 1 : 4;
	autofree char **argv = calloc(slots, sizeof(*argv));
	const char *item;
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
		/* By a path of its own: a command's PATH may lead anywhere. */
		*ret_path = "/bin/sh";
		argv[0] = (char *)(uintptr_t) "sh";
		for (size_t i = 0; i < sizeof(shells) / sizeof(*shells) && !argv[0][2]; i++)
			if (path_is_program(shells[i])) {
				*ret_path = shells[i];
				argv[0] = (char *)(uintptr_t) "bash";
			}
		argv[1] = (char *)(uintptr_t) "-c";
		argv[2] = (char *)(uintptr_t)m->line;
	}
	*ret = take_ptr(argv);
	return 0;
}

static int spawn_leader(struct init_exec *x, const struct user *u, const struct wire_exec *m,
			struct err *e)
{
	autofree char **env = NULL, **argv = NULL;
	int child[3] = {-1, -1, -1}, r;
	const char *path = NULL;

	r = init_tree_init(&x->tree, &x->job.in->groups, x->job.id);
	if (r < 0)
		return err_errno(e, -r, "make the command's cgroup");
	r = build_argv(m, &argv, &path, e);
	if (r == 0)
		r = env_build(x->job.in, u, &m->env, x->job.pty, &env, e);
	if (r == 0)
		r = open_ends(x, u, m, child, e);
	struct spawn s = {
		.path = path,
		.argv = argv,
		.env = env,
		.cwd = x->job.cwd,
		.user = u,
		.subreaper = !init_tree_has_group(&x->tree),
		.in = child[0],
		.out = child[1],
		.err = child[2],
		.tty = x->job.pty ? child[0] : -1,
		.tree = &x->tree,
		.oom_score_adj = OOM_SCORE,
	};
	x->proc.on_started = on_started;
	x->proc.on_exit = on_exit_proc;
	if (r == 0)
		r = init_proc_start(&x->proc, x->job.in, &s, e);
	x->tree.root = r < 0 ? 0 : x->proc.pid;
	if (child[0] != 0)
		fd_close(&child[0]);
	for (int i = 1; i < 3 && !x->job.pty; i++)
		fd_close(&child[i]);
	return r;
}

void init_exec_start(struct init *in, uint32_t id, const struct wire_exec *m)
{
	struct init_exec *x = calloc(1, sizeof(*x));
	char cwd[BOX_PATH_MAX];
	struct err e = {0};
	struct user user;
	int r;

	if (!x) {
		init_fail(in, id, ENOMEM, "start a command");
		return;
	}
	x->job = (struct init_job){
		.kind = &exec_kind,
		.in = in,
		.id = id,
		.timeout_ms = m->timeout_ms,
		.grace_ms = m->grace_ms,
		.has_input = m->has_stdin != 0,
		.pty = m->pty != 0,
	};
	x->tree = TREE_NONE;
	x->ends[0] = x->ends[1] = x->ends[2] = -1;
	x->retry.on_timer = on_retry;
	x->pids_hits_before = usage_pids_hits(&in->groups, NULL);
	init_job_add(&x->job);
	if (init_job_count(in, JOB_EXEC) > INIT_EXECS_MAX)
		r = err_set(&e, ERR_LIMIT, EAGAIN, "%u commands run in this box already",
			    INIT_EXECS_MAX);
	else
		r = env_user(in, m->user, &user, &e);
	if (r == 0)
		r = env_cwd(in, &user, m->cwd, cwd, sizeof(cwd), &e);
	if (r == 0 && !(x->job.cwd = strdup(cwd)))
		r = err_errno(&e, ENOMEM, "start a command");
	if (r == 0)
		r = spawn_leader(x, &user, m, &e);
	if (!init_tree_has_group(&x->tree))
		x->job.grace_ms = 0;
	if (r < 0)
		init_job_refuse(&x->job, &e);
	else
		init_job_start(&x->job);
}
