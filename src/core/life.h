/*
 * A box's way between not running and running, seen from outside its keeper: the pieces, and the
 * blocking waits. How they become one operation is in up.h.
 */
#pragma once

#include "core/core.h"
#include "store/image.h"

/* How long a box may take to come up, to end after it was asked to, and to die after SIGKILL. */
enum { START_WAIT_MS = 60000, STOP_WAIT_MS = 10000, KILL_WAIT_MS = 5000, ONE_SHOT_END_MS = 2000 };

/* The image a name stands for, made ready for use. */
int life_image(struct cove *cove, const char *name, struct image *ret, struct err *e);

struct life_start {
	const struct spec *spec;
	const struct image *image;
	int lock_fd; /* the operation lock, held until HELLO came; taken */
	bool visit;  /* up for this connection alone; the lock is held until its end */
};

/* Starts a keeper for a box whose record exists; HELLO is not waited for. ev NULL: a loop of its
 * own. */
int life_spawn(struct cove *cove, struct ev *ev, const struct life_start *start,
	       struct core_conn **ret, struct err *e);

/* Makes and starts a box from a checked spec, with the network of o. A one-shot box may still be
 * starting afterwards. The first: its connection, the second: a handle. */
int life_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
		struct core_conn **ret, struct err *e);
int box_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
	       struct cove_box **ret, struct err *e);

void box_event_open(struct cove *cove, const struct spec *spec);

/* Takes the operation lock, waiting so long for whoever has it. -ENOENT if the box is gone by then.
 */
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

/* end.c. With the operation lock held through box_fd and the box not live: clears socket and
 * cgroup, frees the name, deletes the tree. Does nothing where the name is not that box's any more.
 * box_fd -1: whatever has the name is no box. */
int life_trash(struct cove *cove, const char *name, int box_fd, bool durable, struct err *e);
