/*
 * A box's way between not running and running, seen from outside its keeper: the pieces. How
 * they become one operation is in up.h, how one waits for the box in watch.h.
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

/* end.c. With the operation lock held through box_fd and the box not live: clears socket and
 * cgroup, frees the name, deletes the tree. Does nothing where the name is not that box's any more.
 * box_fd -1: whatever has the name is no box. */
int life_trash(struct cove *cove, const char *name, int box_fd, bool durable, struct err *e);
