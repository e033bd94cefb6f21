/*
 * Reaping.
 *
 * How it works
 *
 * init has two kinds of children: processes that it started (spawn.h), which are watched by pid,
 * and orphans that the kernel gave to it, whose status has no reader. SIGCHLD
 * says that some child ended. At the end of that turn, when the pipes were heard that ended with
 * it, init takes ended children one by one, REAP_BATCH in a turn. There is no other place that
 * takes one, so a watched pid means its process until its owner was called.
 *
 * An orphan's end may have emptied a group that a command left behind, and so may a later command
 * or line have done: those groups are swept a little later.
 */
#include "init/init.h"
#include "init/job.h"
#include "init/spawn.h"
#include "init/tree.h"
#include "init/usage.h"

#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { REAP_BATCH = 128, SWEEP_MS = 500, REAP_BUCKETS = 64, UNUSED_MS = 20000 };

struct reaper {
	struct init *in;
	struct ev_signals signals;
	struct ev_defer look;
	struct ev_timer sweep;
	struct ev_timer unused;			 /* groups were made ahead, and no command came */
	struct init_proc *buckets[REAP_BUCKETS]; /* by pid */
};

void reaper_sweep(struct init *in)
{
	if (in->groups.left && !in->reaper->sweep.armed)
		ev_timer_set(in->ev, &in->reaper->sweep, SWEEP_MS);
}

static void on_sweep(struct ev_timer *t)
{
	init_tree_sweep(&container(t, struct reaper, sweep)->in->groups);
}

void reaper_premake(struct init *in)
{
	struct init_tree_groups *g = &in->groups;
	uint32_t id = in->jobs->last_id + 1;

	if (g->once && in->jobs->last_id > 0)
		return;
	if (!g->premade || g->premade->id != id)
		init_tree_premake(g, id);
	if (!g->premade)
		return;
	usage_open(g->premade);
	ev_timer_set(in->ev, &in->reaper->unused, UNUSED_MS);
}

static void on_unused(struct ev_timer *t)
{
	init_tree_drop_premade(&container(t, struct reaper, unused)->in->groups);
}

void reaper_watch(struct init *in, struct init_proc *p)
{
	struct init_proc **bucket = &in->reaper->buckets[p->pid % REAP_BUCKETS];

	p->next = *bucket;
	*bucket = p;
}

/* Takes the process out of its bucket; NULL if it is not watched. */
static struct init_proc *take_proc(struct reaper *r, pid_t pid)
{
	struct init_proc **at = &r->buckets[pid % REAP_BUCKETS], *p;

	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	p = *at;
	if (p)
		*at = p->next;
	return p;
}

void reaper_forget(struct init *in, struct init_proc *p)
{
	if (p->pid > 0)
		take_proc(in->reaper, p->pid);
}

/* With --ptrace a program may ask its parent to trace it, and that is init, who does not: it goes
 * on with its signal. The stop after an execve is not one that anybody sent. */
static void let_go(pid_t pid, int sig)
{
	(void)ptrace(PTRACE_DETACH, pid, 0, sig == SIGTRAP ? 0 : sig);
}

static void on_look(struct ev_defer *d)
{
	struct reaper *r = container(d, struct reaper, look);
	struct init_proc *p;
	int status;
	pid_t pid;

	for (int i = 0; i < REAP_BATCH; i++) {
		pid = waitpid(-1, &status, WNOHANG | __WALL);
		if (pid <= 0)
			return;
		if ((status & 0xff) == 0x7f) { /* WIFSTOPPED, which in musl overflows an int */
			let_go(pid, WSTOPSIG(status));
			continue;
		}
		p = take_proc(r, pid);
		if (p)
			init_proc_ended(p, status);
		else
			reaper_sweep(r->in);
	}
	ev_defer(r->in->ev, d);
}

static void on_signal(struct ev_signals *s, int sig)
{
	struct reaper *r = container(s, struct reaper, signals);

	ev_defer(r->in->ev, &r->look);
}

int reaper_new(struct init *in, struct reaper **ret)
{
	autofree struct reaper *r = calloc(1, sizeof(*r));
	sigset_t set;
	int n;

	if (!r)
		return -ENOMEM;
	r->in = in;
	r->signals.on_signal = on_signal;
	r->look.on_defer = on_look;
	r->sweep.on_timer = on_sweep;
	r->unused.on_timer = on_unused;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	n = ev_signals_add(in->ev, &r->signals, &set);
	if (n < 0)
		return n;
	/* Whoever ended before the signal was watched. */
	ev_defer(in->ev, &r->look);
	*ret = take_ptr(r);
	return 0;
}
