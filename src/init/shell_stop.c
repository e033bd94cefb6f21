/*
 * Ending a line of a persistent shell that does not end by itself.
 *
 * How it works
 *
 * First the shell is stopped (SIGSTOP), and everything else is done while it cannot move:
 *
 *	an end on the reply	the line ended by itself just now: that is its answer, unless its
 *				text was never read (then it would run once more, after its time)
 *	Tc is removed		whatever happens to the shell, the text cannot run a second time
 *	the driver unread	nothing ran, and nothing will without Tc: its own end is enough
 *	else			an end of round 1 is fed; the realtime signal is sent, whose trap
 *				interrupts the shell between two commands; what the line started is
 *				killed or gets the requested signal; and the shell continues
 *
 * The order matters. The trap is pending before a child can die, so no later command of the line
 * runs. And there is something to read on the feed: a bash whose read of the feed is interrupted
 * by a trap that throws reads its old buffer again.
 *
 * Then in rounds until the end that was fed last has been heard. They are STEP_MS apart at first
 * and ever longer: a shell that gets little of a processor has time to answer one of them.
 *
 *	by force	SIGINT itself, for a shell that sits in a call which the trap does not
 *			leave; after FORCE_MS SIGKILL: what was in the shell is lost, and the
 *			answer says so
 *	on request	(SIGINT, SIGTERM, SIGHUP, SIGQUIT) as with Ctrl-C on a terminal, what the
 *			line started decides for itself. The shell may have been about to start
 *			one more command: for QUICK_MS newcomers get the signal, too. SIGTERM
 *			because the line's time is up is such a request; the end waits for the
 *			line's background, too, and after the grace it is by force
 *
 * An interrupt throws the rest of the driver away, the end with it; so each round feeds an end of
 * its own, after its signals were sent. Only the last one counts: by then every signal has had its
 * effect, and none is left to hit the next line. Each third round sends no signal, in case it was
 * the signal that threw the end away. Any other signal goes once to what the line started, and the
 * line goes on.
 */
#include "init/shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
	SIGNAL_INTERRUPT = 50, /* trapped in shell_proc.c */
	HOLD_MS = 1,	       /* until the next look whether it has stopped */
	STEP_MS = 20,
	HOLD_MS_MAX = 2000, /* the kernel stops it as soon as it gets a processor */
	FORCE_MS = 4000,    /* a shell that waits for a processor is not lost */
	GIVE_UP_MS = 5000,  /* a process in the kernel's hands does not even die by SIGKILL */
	SLOW_STEP_MS = 1000,
	QUICK_MS = 200,
	SEEN_MAX = 256, /* processes that get a requested signal */
};

static void finish(struct line *l, enum wire_shell_state state)
{
	struct shell *sh = l->shell;

	if (l->stop_holding)
		shell_signal(sh, SIGCONT);
	l->job.result.signal = l->stop_signal;
	sh->status = 128u + (unsigned)l->stop_signal;
	line_measure(l);
	line_end(l, state,
		 l->job.result.timed_out ? "timeout"
		 : l->stop_by_force	 ? "killed"
					 : "signal");
}

void line_stopped_by_death(struct line *l)
{
	if (l->stop_by_force)
		init_tree_kill(&l->shell->tree, 0);
	shell_drop(l->shell);
	finish(l, SHELL_RESTARTED);
}

struct stop_seen {
	pid_t pid;
	bool waits; /* did not get it yet */
};

/* A copy of the shell that has yet to become the command it is for: it would take the signal for
 * the shell and forget it. */
static bool is_unborn(const struct shell *sh, pid_t pid)
{
	struct stat a, b;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &a) == 0 && fstatat(sh->proc_fd, "exe", &b, 0) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Passes the signal on to those who did not get it yet. */
static void pass_on(struct line *l)
{
	struct shell *sh = l->shell;
	pid_t now[SEEN_MAX];
	int n = init_tree_visit(&sh->tree, 0, sh->proc.pid, now, SEEN_MAX);

	if (!l->stop_seen)
		l->stop_seen = calloc(SEEN_MAX, sizeof(*l->stop_seen));
	for (int i = 0; l->stop_seen && i < n && i < SEEN_MAX; i++) {
		struct stop_seen *s = l->stop_seen, *end = s + l->stop_seen_count;

		while (s < end && s->pid != now[i])
			s++;
		if (s == end) {
			if (l->stop_seen_count == SEEN_MAX)
				continue;
			l->stop_seen_count++;
			*s = (struct stop_seen){.pid = now[i], .waits = true};
			if (is_unborn(sh, now[i]))
				continue; /* a subshell gets it in the next round */
		}
		if (s->waits)
			kill(now[i], l->stop_signal);
		s->waits = false;
	}
}

/* --- the shell is stopped --- */

/* It was quicker than the stop. */
static void end_by_itself(struct line *l, unsigned status)
{
	struct shell *sh = l->shell;

	shell_signal(sh, SIGCONT);
	init_job_resume(&l->job);
	shell_on_end(sh, 0, status);
}

/* A probe is fed only to a shell that has read the driver. */
static bool is_driver_unread(const struct shell *sh)
{
	return sh->probe == PROBE_NONE && shell_unread(sh) > 0;
}

/* Everything that has to happen before it moves again. */
static void act_while_stopped(struct line *l)
{
	struct shell *sh = l->shell;
	unsigned round = 0, status = 0;

	if (shell_listen(sh, &round, &status) && round == 0 && l->stop_round == 0 &&
	    line_has_run(l)) {
		end_by_itself(l, status);
		return;
	}
	line_io_remove_text(l->io);
	if (l->stop_round > 0 || !is_driver_unread(sh)) {
		line_ask_end(l, ++l->stop_round);
		shell_signal(sh, SIGNAL_INTERRUPT);
		if (l->stop_by_force)
			init_tree_kill(&sh->tree, sh->proc.pid);
		else
			pass_on(l);
	}
	shell_signal(sh, SIGCONT);
}

/* --- the rounds --- */

static uint64_t step_ms(const struct line *l)
{
	return STEP_MS + STEP_MS * l->stop_round / 3;
}

static void step(struct line *l)
{
	struct shell *sh = l->shell;
	struct ev *ev = l->job.in->ev;
	uint64_t now = ev_now(ev);
	bool in_time = now < l->stop_until_ms;

	ev_timer_set(ev, &l->step, l->stop_by_force || in_time ? step_ms(l) : SLOW_STEP_MS);
	if (l->stop_by_force && !in_time) {
		if (now >= l->stop_until_ms + GIVE_UP_MS) {
			line_stopped_by_death(l);
			return;
		}
		init_tree_kill(&sh->tree, sh->proc.pid);
		shell_signal(sh, SIGKILL);
		l->stop_killed = true;
	} else if (l->stop_holding && !shell_is_stopped(sh)) {
		ev_timer_set(ev, &l->step, in_time ? HOLD_MS : SLOW_STEP_MS);
	} else if (l->stop_holding) {
		l->stop_holding = false;
		l->stop_until_ms = now + (l->stop_by_force ? FORCE_MS : QUICK_MS);
		act_while_stopped(l);
	} else if (l->stop_round == 0 && is_driver_unread(sh)) {
		return; /* it has yet to find that there is no text */
	} else if (l->stop_by_force) {
		if (++l->stop_round % 3 != 0)
			shell_signal(sh, SIGINT);
		init_tree_kill(&sh->tree, sh->proc.pid);
		line_ask_end(l, l->stop_round);
	} else {
		if (shell_unread(sh) == 0)
			line_ask_end(l, ++l->stop_round);
		if (in_time)
			pass_on(l);
	}
}

void line_on_step(struct ev_timer *t)
{
	step(container(t, struct line, step));
}

void line_heard(struct line *l, unsigned round, unsigned status)
{
	if (round != l->stop_round)
		return;
	if (round == 0 && l->stop_holding) {
		if (line_has_run(l))
			end_by_itself(l, status);
		return;
	}
	/* Killed ones may take a moment to go; the next step looks again. Once SIGKILL was sent to
	 * the shell itself only its death counts. */
	if (l->stop_by_force &&
	    (init_tree_kill(&l->shell->tree, l->shell->proc.pid) > 0 || l->stop_killed))
		return;
	/* Its time is up, and what it left in the background has heard SIGTERM: the next step looks
	 * again, and the end of the grace is by force. */
	if (l->job.result.timed_out && !l->stop_by_force &&
	    init_tree_signal(&l->shell->tree, 0, l->shell->proc.pid) > 0)
		return;
	finish(l, SHELL_KEPT);
}

static void begin_stop(struct line *l, int sig, bool by_force)
{
	struct ev *ev = l->job.in->ev;

	init_job_stop(&l->job);
	l->stop_signal = sig;
	l->stop_by_force = by_force;
	l->stop_until_ms = ev_now(ev) + HOLD_MS_MAX;
	l->stop_holding = true;
	ev_timer_stop(ev, &l->shell->watch);
	shell_signal(l->shell, SIGSTOP);
	step(l);
}

/* A line that does not run yet has no processes: of what people send to end something it is ended,
 * and nothing else reaches it (WINCH, USR1, STOP). */
void line_stop(struct init_job *j, int sig, bool tree)
{
	bool ends = sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
	struct line *l = line_of(j);

	switch (j->state) {
	case JOB_QUEUED:
	case JOB_STARTING:
		if (tree || ends)
			line_end_waiting(l, sig);
		break;
	case JOB_STOPPING:
		if (tree && !l->stop_by_force)
			begin_stop(l, SIGKILL, true);
		break;
	case JOB_RUNNING:
		if (tree || ends)
			begin_stop(l, sig, tree);
		else
			init_tree_signal(&l->shell->tree, sig, l->shell->proc.pid);
		break;
	default:
		break;
	}
}
