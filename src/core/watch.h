/*
 * Waiting for a change of one box: its lock goes free, its operation lock is to be had, its socket
 * is there. All of them are events of its directories (inotify), on the caller's event loop; the
 * blocking forms run one of their own.
 */
#pragma once

#include "core/core.h"

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
/* For check: nobody holds the box's lock, or the box is gone. The operation lock is ours. */
int core_watch_free(struct core_watch *w);
int core_watch_lock(struct core_watch *w);

/* Is boxes/<name> no longer the directory we hold open? Its keeper may have deleted it, and the
 * name may already be another box's. */
bool core_has_moved(struct cove *cove, const char *name, int box_fd);

/* ---- blocking ---- */

/* Takes the operation lock, waiting so long for whoever has it. -ENOENT if the box is gone by then.
 */
int core_wait_lock(struct cove *cove, const char *name, int box_fd, int timeout_ms, struct err *e);
/* The error for what that, or a watch for the lock, ended with. */
int core_lock_failed(int r, const char *name, int timeout_ms, struct err *e);

/* Waits until nobody holds the box's lock, or the box is gone. */
int core_wait_free(struct cove *cove, const char *name, int box_fd, int timeout_ms);

/* Waits for the socket of a box whose lock is held. -EAGAIN when the lock went free or the box went
 * away instead, -ETIMEDOUT. */
int core_wait_socket(struct cove *cove, const char *name, int box_fd, int timeout_ms,
		     struct core_conn **ret);
/* The same, and -EAGAIN for a box that is up for one client alone: it never has one. */
int core_wait_answer(struct cove *cove, const char *name, int box_fd, int timeout_ms,
		     struct core_conn **ret);
