/*
 * Worker threads for calls that block: the blocking face of libcove, in the main.
 *
 *	loop: ev_work_push -> queue -> a thread: on_run -> back to the loop: on_done
 *
 * A job is embedded in its owner, who leaves it alone from the push until on_done: between those
 * only the thread may touch what the job works on. Threads are made when jobs wait and none is
 * free, up to their maximum, and end after they had nothing to do for a while; each has a state of
 * its own that the pool's owner makes and frees, so that jobs share no handle.
 */
#pragma once

#include "ev/ev.h"

#include <stdbool.h>

struct ev_work;

struct ev_job {
	/* In a thread; `state` is that of the thread. */
	void (*on_run)(struct ev_job *j, void *state);
	/* In the loop, once, after on_run. It may free the job. */
	void (*on_done)(struct ev_job *j);
	bool urgent; /* before all that are not, and threads are kept for it */
	struct ev_job *next;
};

struct ev_work_options {
	unsigned threads_max;
	unsigned threads_kept; /* of those, for urgent jobs alone; fewer than threads_max */
	unsigned queue_max;    /* jobs that wait for a thread */
	unsigned idle_ms;      /* a thread ends after so long without a job */
	/* In the thread. state_new may return NULL, which is then what on_run gets. */
	void *(*state_new)(void *arg);
	void (*state_free)(void *state);
	void *arg;
};

int ev_work_new(struct ev *ev, const struct ev_work_options *options, struct ev_work **ret);
/* Waits for the jobs that run. Those that wait do not run, and no on_done comes any more: their
 * owners are freed by those who know them. NULL is fine. */
void ev_work_free(struct ev_work *w);

/* -EAGAIN where the queue is full or no thread could be made: the job was not taken. */
int ev_work_push(struct ev_work *w, struct ev_job *j);
/* Jobs that were pushed and have not had their on_done. */
unsigned ev_work_count(const struct ev_work *w);
