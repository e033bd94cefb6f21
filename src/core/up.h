/*
 * Getting a box to run, on an event loop: joins it, starts it, or waits for who is doing so.
 *
 *	connect --ok--> HELLO ---------------------------------> done
 *	   | no keeper	  | it was just ending: wait, try again
 *	operation lock (waits while somebody else makes, starts or removes the box)
 *	   |
 *	connect --ok--> HELLO		somebody else started it meanwhile
 *	   | no keeper
 *	box's lock held? --yes--> wait until it is free: the box is just ending
 *	   | no
 *	spawn a keeper; the operation lock is held until its HELLO
 *
 * All waiting is for events: inotify on the box's directory and on that of its socket, HELLO, and
 * one timer. What is done in place is work on local files, and clone.
 */
#pragma once

#include "core/async.h"

struct cove;

/* Waits for a change of one box. */
struct core_watch {
	/* Looks: -EINPROGRESS as long as it has to wait, anything else is the end. */
	int (*check)(struct core_watch *w);
	/* What check returned, or -ETIMEDOUT. Nothing comes after it. */
	void (*on_done)(struct core_watch *w, int r);

	struct cove *cove;
	const char *name;	/* borrowed */
	int box_fd;		/* borrowed; its directory */
	struct core_conn *conn; /* of a check that connects; the owner's */
	struct ev *ev;
	struct ev_io io; /* io.fd is owned */
	struct ev_timer timer;
	struct ev_defer first;
	int lock_fd, run_fd; /* owned */
};

/* Set check, on_done, cove, name and box_fd first. check is called from the loop. */
int core_watch_start(struct core_watch *w, struct ev *ev, int timeout_ms);
void core_watch_stop(struct core_watch *w); /* idempotent */

struct core_up {
	/* Once: a connection that has said HELLO and is the caller's, or why not. */
	void (*on_done)(struct core_up *u, struct core_conn *conn, int r, const struct err *e);

	struct cove *cove;
	struct ev *ev;
	char name[64];
	int box_fd; /* owned; with the operation lock, if it is locked */
	unsigned tries;
	struct core_watch watch;
	struct core_conn *conn; /* owned until HELLO came */
	struct ev_timer timer;
	struct ev_defer begin;
};

/* Set on_done first. It is called from the loop. */
void core_up_start(struct core_up *u, struct ev *ev, struct cove *cove, const char *name);
/* on_done does not come any more; a keeper that was started comes up all the same. */
void core_up_cancel(struct core_up *u);
