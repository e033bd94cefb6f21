/*
 * A box's way between not running and running, seen from outside its keeper: the pieces. How
 * they become one operation is in up.h, how one waits for the box in watch.h.
 */
#pragma once

#include "core/core.h"
#include "store/image.h"

/* How long a box may take to come up, to end after it was asked to, and to die after SIGKILL. */
enum { START_WAIT_MS = 60000, STOP_WAIT_MS = 10000, KILL_WAIT_MS = 5000, ONE_SHOT_END_MS = 2000 };

/* An image that a box of that key (NULL: the operator's) may stand on by its name: whatever made a
 * record says so, ERR_DENIED for the host's own and for another key's. image_done as below. */
int life_find_image(struct cove *cove, const char *owner, const char *name, struct image *ret,
		    struct err *e);

/* What a new box stands on and how its commands run, from its image into its spec, which points
 * into *ret; image_done when the spec is not used any more. */
int life_image(struct cove *cove, struct spec *spec, struct image *ret, struct err *e);

struct life_start {
	const struct spec *spec;
	int lock_fd; /* the operation lock, held until HELLO came; taken */
	bool visit;  /* up for this connection alone; the lock is held until its end */
	/* A one-shot box whose files are taken when it has ended: its keeper leaves them, and
	 * whoever holds the operation lock removes them; where that one was killed, the sweep. */
	bool keep;
	bool soon; /* its first command comes at once */
	const struct wall_secret *secrets;
	size_t secret_count;
	const char
		*premade; /* made ahead, in that directory: store/premade.h; no record is there */
	/* A keeper that made one, and waits for what it is to be: its socket. -1: one starts. */
	int warm_fd; /* taken */
};

/* Starts a keeper for a box whose record exists; HELLO is not waited for. ev NULL: a loop of its
 * own. */
int life_spawn(struct cove *cove, struct ev *ev, const struct life_start *start,
	       struct core_conn **ret, struct err *e);

/* The same without a connection: its socket. */
int life_spawn_keeper(struct cove *cove, const struct life_start *start, int *ret_fd,
		      struct err *e);

/* Makes and starts a box from a checked spec, with the network of o. A one-shot box may still be
 * starting afterwards. The first: its connection, the second: a handle. */
int life_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
		struct core_conn **ret, struct err *e);
int box_create(struct cove *cove, struct core_spec *s, const struct cove_box_options *o,
	       struct cove_box **ret, struct err *e);

/* end.c. A fork's workspace, made after its record and before it runs; and removed again if it is
 * still what that fork made. */
int life_make_workspace(struct cove *cove, const struct core_spec *s, struct err *e);
void life_drop_workspace(struct cove *cove, const struct spec *spec);

void box_event_open(struct cove *cove, const struct spec *spec);

/* end.c. With the operation lock held through box_fd and the box not live: clears socket and
 * cgroup, frees the name, deletes the tree. Does nothing where the name is not that box's any more.
 * box_fd -1: whatever has the name is no box. */
int life_trash(struct cove *cove, const char *name, int box_fd, bool durable, struct err *e);
