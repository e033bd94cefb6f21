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
 * timers; so no box waits for another. What is done in place is work on a box's own small files
 * (record, policy, socket, groups; the image's record is read), clone, and the check of a policy
 * file or of inline rules by a cove-door that reads nothing else. Sweeping is not part of it: that
 * looks at all boxes, and is for the blocking calls, or a process of its own.
 */
#pragma once

#include "core/watch.h"
#include "store/image.h"

/* Once: a connection that has said HELLO and is the caller's, or why not. */
typedef void core_on_up(void *arg, struct core_conn *conn, int r, const struct err *e);

struct core_up {
	core_on_up *on_done;
	void *arg;
	bool visit; /* one that we start is up for this connection alone */
	/* Called with the operation lock, before one that does not run is started: negative, with
	 * *e, and it is not. May be NULL. */
	int (*may_start)(struct core_up *u, const struct record *record, struct err *e);

	struct cove *cove;
	struct ev *ev;
	char name[64];
	int box_fd; /* owned; with the operation lock, if it is locked */
	unsigned tries;
	struct core_watch watch;
	struct core_conn *conn; /* owned until HELLO came */
	struct ev_timer timer;
	struct ev_defer begin;
	struct core_hold *hold; /* owned: of the host's room, until the end */
	/* No HELLO came in time. */
	void (*fail)(struct core_up *u, int r, const struct err *e);
};

/* Set on_done and arg first. It is called from the loop. */
void core_up_start(struct core_up *u, struct ev *ev, struct cove *cove, const char *name);
/* on_done does not come any more; a keeper that was started comes up all the same. */
void core_up_cancel(struct core_up *u);

/* For create.c: the end, waiting for a change of the box, and for HELLO. */
void core_up_end(struct core_up *u, int r, const struct err *e);
int core_up_watch(struct core_up *u, int (*check)(struct core_watch *w),
		  void (*on_done)(struct core_watch *w, int r), int timeout_ms);
void core_up_await_hello(struct core_up *u,
			 void (*on_lost)(struct core_conn *c, int r, const struct err *e));

/*
 * Making a box and starting it:
 *
 *	record, in the place of a box that was made ahead if one fits (warm.h)
 *		-> a fork's workspace -> no removal has the place of its name (a timer)
 *		-> policy, spawn -> HELLO -> done
 *		what fails after the record: its keeper is gone -> the box is trash -> why
 */
struct core_create {
	/* HELLO of a one-shot box is yet to come when it is done. Nothing is left of a box that
	 * failed. */
	struct core_up up;
	struct core_spec *spec;			/* borrowed */
	const struct cove_box_options *options; /* borrowed */
	uint64_t since_ms;
	bool made_workspace;
	bool is_warm, is_cold; /* it was made ahead (warm.h); that was tried, and is not again */
	int warm_fd;	       /* owned; its keeper's socket, -1 */
	int result;
	struct err why;
};

/* Set up.on_done and up.arg first. spec is of a box that is not there yet (-EEXIST), made from
 * options; both are borrowed until on_done. */
void core_create_start(struct core_create *c, struct ev *ev, struct cove *cove,
		       struct core_spec *spec, const struct cove_box_options *options);
/* on_done does not come any more. A keeper that was started comes up all the same, before that
 * nothing is left. */
void core_create_cancel(struct core_create *c);
