/*
 * Looking after a running line of a persistent shell.
 *
 * How it works
 *
 * A line says its end itself. This finds out when it cannot, at some moments after its start:
 *
 *	50 ms, 250 ms	and then every second:
 *
 * A shell that was stopped for a second is continued. A shell that has read the driver reads on
 * only when it is done with it: an empty sentence is fed, and once that was read without an end
 * having been heard, the end was lost: to `kill -INT $$`, to a readonly PS1, to `set -o vi`. A bash
 * is then asked to print it. If it cannot (its descriptor was closed) the shell is given up. A sh
 * throws away what it has read when it meets an error, the end with it; what it is fed is that end
 * again.
 *
 * A shell that ran lines before and does not even read the driver is not at its prompt: the line
 * before forged its own end and still runs. It must not harm this one, which goes to a fresh shell.
 */
#include "init/shell.h"

#include <signal.h>

enum {
	NOISE_MS = 20, /* the shell said something else than an end: look soon */
	UNREAD_MS = 3000,
};

/* Quick ones first, then the slow one for ever. */
enum { LOOKS = 2 };
static const unsigned look_ms[LOOKS + 1] = {50, 200, 1000};

static void set_timer(struct shell *sh)
{
	ev_timer_set(sh->table->in->ev, &sh->watch, look_ms[sh->looks < LOOKS ? sh->looks : LOOKS]);
}

void shell_watch(struct shell *sh)
{
	sh->looks = 0;
	sh->probe = PROBE_NONE;
	sh->watch_since_ms = ev_now(sh->table->in->ev);
	set_timer(sh);
}

static void feed_probe(struct shell *sh)
{
	sh->probe = PROBE_FED;
	if (sh->bash)
		shell_feed(sh, "\n");
	else
		line_ask_end(sh->current, 0);
}

void shell_on_noise(struct shell *sh)
{
	if (!sh->current || sh->current->job.state != JOB_RUNNING)
		return;
	if (!sh->bash && sh->probe == PROBE_NONE && shell_unread(sh) == 0)
		feed_probe(sh);
	else if (sh->looks > 0)
		ev_timer_set(sh->table->in->ev, &sh->watch, NOISE_MS);
}

/* All of the feed was read, and still there is no end. */
static void miss_end(struct shell *sh)
{
	struct line *l = sh->current;
	unsigned round, status;

	if (shell_listen(sh, &round, &status)) {
		shell_on_end(sh, round, status);
	} else if (sh->bash && sh->probe == PROBE_FED) {
		sh->probe = PROBE_MENDED;
		line_find_end(l);
		ev_timer_set(sh->table->in->ev, &sh->watch, NOISE_MS);
	} else if (!line_has_run(l)) {
		line_run_again(l);
	} else {
		shell_drop(sh); /* which measures the line */
		line_end(l, SHELL_RESTARTED,
			 usage_cause(sh->table->in, &l->job.used, true, NULL, "interrupted"));
	}
}

void shell_on_watch(struct ev_timer *t)
{
	struct shell *sh = container(t, struct shell, watch);
	struct line *l = sh->current;

	if (!l || l->job.state != JOB_RUNNING)
		return;
	sh->looks++;
	set_timer(sh);
	if (sh->looks > LOOKS && shell_is_stopped(sh))
		shell_signal(sh, SIGCONT);
	if (shell_is_replaced(sh)) {
		return; /* its death is the end */
	} else if (shell_unread(sh) > 0) {
		if (sh->used && !line_has_run(l) &&
		    ev_now(sh->table->in->ev) >= sh->watch_since_ms + UNREAD_MS)
			line_run_again(l);
	} else if (sh->probe == PROBE_NONE) {
		feed_probe(sh);
	} else {
		miss_end(sh);
	}
}
