/*
 * Ending a line of a persistent shell that does not end by itself.
 *
 * How it works
 *
 * By force (a timeout, SIGKILL, or the whole tree asked for), in rounds STEP_MS apart:
 *
 *	round 1		the realtime signal, whose trap interrupts the shell between two commands; then
 *			everything the line started is killed, so that the shell gets there
 *	round 2...	SIGINT itself, for a shell that sits in a call which the trap does not leave
 *	FORCE_MS	SIGKILL to the shell: what was in it is lost, and the answer says so
 *
 * With a request (SIGINT, SIGTERM, SIGHUP, SIGQUIT) what the line started gets that signal and decides
 * for itself, as with Ctrl-C on a terminal; the shell is interrupted once it waits for nobody. The
 * shell may have been about to start one more command when it was asked: for some rounds newcomers
 * get the signal, too. Any other signal goes once to what the line started, and the line goes on.
 *
 * An interrupt throws the rest of the driver away, the end with it. So each round feeds an end of its
 * own with the number of the round, after its signals were sent. Only the end of the last round
 * counts: by then every signal has had its effect, and none is left to hit the next line. Each third
 * round sends no signal, in case it was the signal that threw the end away.
 */
#include "init/shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	SIGNAL_INTERRUPT = 50, /* trapped in shell_proc.c */
	STEP_MS = 20,
	FORCE_MS = 250,
	GIVE_UP_MS = 5000, /* a process in the kernel's hands does not even die by SIGKILL */
	SLOW_STEP_MS = 1000,
	QUICK_MS = 200,
	SEEN_MAX = 256, /* processes that get a requested signal */
};

static const char *cause_of(const struct line *l)
{
	if (l->result.timed_out)
		return "timeout";
	return l->stop_by_force ? "killed" : "signal";
}

static void finish(struct line *l, enum wire_shell_state state)
{
	struct shell *sh = l->shell;

	l->result.signal = (uint64_t)l->stop_signal;
	sh->status = 128u + (unsigned)l->stop_signal;
	line_end(l, state, cause_of(l));
	shell_next(sh);
}

void line_stopped(struct line *l)
{
	/* Killed ones may take a moment to go; the next step looks again. */
	if (l->stop_by_force && tree_kill(&l->shell->tree, l->shell->child.pid) > 0 &&
	    ev_now(l->table->in->ev) < l->stop_until_ms)
		return;
	finish(l, SHELL_KEPT);
}

void line_stopped_by_death(struct line *l)
{
	if (l->stop_by_force)
		tree_kill(&l->shell->tree, 0);
	shell_drop(l->shell);
	finish(l, SHELL_RESTARTED);
}

struct stop_seen {
	pid_t pid;
	bool waits; /* did not get it yet */
};

static struct stop_seen *find_seen(const struct line *l, pid_t pid)
{
	for (size_t i = 0; i < l->stop_seen_count; i++)
		if (l->stop_seen[i].pid == pid)
			return &l->stop_seen[i];
	return NULL;
}

/* A copy of the shell that has yet to become the command it is for: it would take the signal for the
 * shell and forget it. */
static bool is_unborn(const struct shell *sh, pid_t pid)
{
	struct stat a, b;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &a) == 0 && fstatat(sh->proc_fd, "exe", &b, 0) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void pass_on_to(struct line *l, pid_t pid)
{
	struct stop_seen *s = find_seen(l, pid);

	if (!s) {
		if (l->stop_seen_count == SEEN_MAX)
			return;
		s = &l->stop_seen[l->stop_seen_count++];
		*s = (struct stop_seen){.pid = pid, .waits = true};
		if (is_unborn(l->shell, pid))
			return; /* a subshell gets it in the next round */
	}
	if (s->waits)
		kill(pid, l->stop_signal);
	s->waits = false;
}

/* Passes the signal on to those who did not get it yet. */
static void pass_on(struct line *l)
{
	struct shell *sh = l->shell;
	pid_t now[SEEN_MAX];
	size_t n = tree_members(&sh->tree, sh->child.pid, now, SEEN_MAX);

	if (!l->stop_seen)
		l->stop_seen = calloc(SEEN_MAX, sizeof(*l->stop_seen));
	for (size_t i = 0; l->stop_seen && i < n; i++)
		pass_on_to(l, now[i]);
}

static void signal_round(struct line *l)
{
	struct shell *sh = l->shell;

	shell_signal(sh, SIGCONT);
	if (l->stop_round == l->stop_first)
		shell_signal(sh, SIGNAL_INTERRUPT);
	else if (l->stop_by_force && l->stop_round % 3 != 0)
		shell_signal(sh, SIGINT);
	if (l->stop_by_force)
		tree_kill(&sh->tree, sh->child.pid);
}

static void step_by_force(struct line *l)
{
	struct shell *sh = l->shell;
	struct ev *ev = l->table->in->ev;
	uint64_t now = ev_now(ev);

	if (now >= l->stop_until_ms + GIVE_UP_MS) {
		line_stopped_by_death(l);
		return;
	}
	ev_timer_set(ev, &l->step, STEP_MS);
	if (now >= l->stop_until_ms) {
		tree_kill(&sh->tree, sh->child.pid);
		shell_signal(sh, SIGKILL);
		return;
	}
	l->stop_round++;
	signal_round(l);
	line_ask_end(l, l->stop_round);
}

static void step_on_request(struct line *l)
{
	struct ev *ev = l->table->in->ev;
	bool quick = ev_now(ev) < l->stop_until_ms;

	ev_timer_set(ev, &l->step, quick ? STEP_MS : SLOW_STEP_MS);
	if (l->stop_round < l->stop_first || shell_unread(l->shell) == 0) {
		l->stop_round++;
		signal_round(l);
		line_ask_end(l, l->stop_round);
	}
	if (quick)
		pass_on(l);
}

static void step(struct line *l)
{
	if (l->stop_by_force)
		step_by_force(l);
	else
		step_on_request(l);
}

void line_on_step(struct ev_timer *t)
{
	step(container(t, struct line, step));
}

static void begin_stop(struct line *l, int sig, bool by_force)
{
	struct ev *ev = l->table->in->ev;

	l->state = LINE_STOPPING;
	l->stop_signal = sig;
	l->stop_by_force = by_force;
	l->stop_first = l->stop_round + 1;
	l->stop_until_ms = ev_now(ev) + (by_force ? FORCE_MS : QUICK_MS);
	ev_timer_stop(ev, &l->shell->watch);
	step(l);
}

void line_on_timeout(struct ev_timer *t)
{
	struct line *l = container(t, struct line, timeout);

	l->result.timed_out = 1;
	begin_stop(l, SIGKILL, true);
}

void line_stop(struct line *l, int sig, bool tree)
{
	bool by_force = tree || sig == SIGKILL;
	bool ends = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;

	if (l->state == LINE_STOPPING && (l->stop_by_force || !by_force))
		return;
	if (by_force || ends)
		begin_stop(l, by_force ? SIGKILL : sig, by_force);
	else
		tree_signal(&l->shell->tree, sig, l->shell->child.pid);
}
