/*
 * Reaping.
 *
 * How it works
 *
 * init has two kinds of children. Those it started itself are watched by their owners through
 * ev_child, which reads their status by pid when the pidfd says that they ended. All others are
 * orphans that the kernel gave to init, and nobody wants to know how they ended.
 *
 * SIGCHLD says that some child ended. At the end of that turn init looks at ended children one by
 * one without taking them (WNOWAIT). An orphan is then taken by its pid. A watched child is left:
 * its pidfd is readable, so its owner takes it in the next turn at the latest. As the kernel shows
 * ended children in a fixed order, one left there hides the orphans behind it; so the look is
 * repeated in the next turn, until it finds nobody. Statuses are therefore never stolen, and no
 * orphan stays.
 *
 * An orphan's end may have emptied a group that a command left behind, and so may a later command
 * or line have done: those groups are swept a little later.
 */
#include "init/init.h"
#include "init/tree.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { REAP_BATCH = 128, SWEEP_MS = 500 };

struct reaper {
	struct init *in;
	struct ev_signals signals;
	struct ev_defer look;
	struct ev_timer sweep;
};

void reaper_sweep(struct init *in)
{
	if (in->groups.left && !in->reaper->sweep.armed)
		ev_timer_set(in->ev, &in->reaper->sweep, SWEEP_MS);
}

static void on_sweep(struct ev_timer *t)
{
	tree_sweep(&container(t, struct reaper, sweep)->in->groups);
}

/* The pid of an ended child, still there; 0 if there is none. */
static pid_t peek_ended(void)
{
	siginfo_t info = {0};

	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return 0;
	return info.si_pid;
}

static void on_look(struct ev_defer *d)
{
	struct reaper *r = container(d, struct reaper, look);
	struct ev *ev = r->in->ev;
	pid_t pid = 0;

	for (int i = 0; i < REAP_BATCH; i++) {
		pid = peek_ended();
		if (pid == 0 || ev_child_is_watched(ev, pid))
			break;
		waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOHANG | __WALL);
		reaper_sweep(r->in);
	}
	if (pid != 0)
		ev_defer(ev, d);
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
