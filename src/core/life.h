/*
 * A box's way between not running and running, seen from outside its keeper.
 *
 *	box_up	connect --ok--> HELLO
 *		   | nobody there
 *		operation lock of the box (waits while somebody else makes, starts or removes it)
 *		   |
 *		connect --ok--> HELLO		somebody else started it meanwhile
 *		   | nobody there
 *		lock held? --yes--> wait until it is free: the box is just ending
 *		   | no
 *		spawn a keeper; the lock is held until its HELLO
 *
 * All waiting is for events: flock, and inotify on the box's directory and that of its socket.
 */
#pragma once

#include "core/core.h"
#include "store/image.h"

/* How long a box may take to come up, to end after it was asked to, and to die after SIGKILL. */
enum { START_WAIT_MS = 60000, STOP_WAIT_MS = 10000, KILL_WAIT_MS = 5000, ONE_SHOT_END_MS = 2000 };

/* The image a name stands for, made ready for use. */
int life_image(struct cove *cove, const char *name, struct image *ret, struct err *e);

/* Starts a keeper for a box whose record exists; HELLO is not waited for. Takes start_lock_fd,
 * which is held until HELLO came. */
int life_spawn(struct cove *cove, const struct spec *spec, const struct image *image,
	       int start_lock_fd, struct core_conn **ret, struct err *e);

/* Makes and starts a box from a checked spec, with the network of o. A one-shot box may still be
 * starting afterwards. */
int box_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
	       struct cove_box **ret, struct err *e);

/* Locks the box for an operation, waiting so long for whoever has it. -ENOENT if the box is gone by
 * then. */
int life_lock(struct cove *cove, const char *name, int box_fd, int timeout_ms, struct err *e);

/* Waits until nobody holds the box's lock, or the box is gone. */
int life_wait_free(struct cove *cove, const char *name, int box_fd, int timeout_ms);

/* Waits for the socket of a box whose lock is held. -EAGAIN when the lock went free or the box went
 * away instead, -ETIMEDOUT. */
int life_connect(struct cove *cove, const char *name, int box_fd, int timeout_ms,
		 struct core_conn **ret);

/* Is boxes/<name> no longer the directory we hold open? Its keeper may have deleted it, and the
 * name may already be another box's. */
bool life_has_moved(struct cove *cove, const char *name, int box_fd);

/* With the operation lock held through box_fd and the box not live: clears socket and cgroup, frees
 * the name, deletes the tree. Does nothing where the name is not that box's any more. box_fd -1:
 * whatever has the name is no box. */
int life_trash(struct cove *cove, const char *name, int box_fd, bool durable, struct err *e);
