/*
 * The launcher: a small process beside a confined keeper, forked before it confines itself. It does
 * one thing for the keeper, which can start no program any more: it starts the door of this box.
 * What it starts, with which configuration and environment, it knows from its birth; the keeper
 * says when, and how many bytes earlier doors let through.
 *
 *	keeper  START(number, bytes used)  ->  a door with a new link, its other end comes with
 *	                                       STARTED(number), or FAILED(number, why)
 *	        KILL                       ->  SIGKILL to the door
 *	        END                        ->  as at the keeper's end, below
 *	                                   ->  ENDED(number, wait status), whenever a door ends
 *
 * It also does what the keeper must not: at the end it returns the box's authority to the premade
 * ones if there was no door, since no other process can have read it, and deletes it otherwise.
 *
 * One door at a time: one that still runs when the next is asked for has LAUNCHER_GRACE_MS to end.
 * End of file is the keeper's end: the door sees it on its link as well, has the same grace (it
 * writes its last audit rows), and then launcher and door are gone. So is what a command that
 * provides a secret left running: it has as long after the door, and is killed then. The launcher
 * is in the keeper's group, the door in one that the launcher makes for the first and that counts
 * all of them; the last one to go removes them.
 */
#pragma once

#include "base/err.h"
#include "cgroup/helper.h"
#include "door/config.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LAUNCHER_GRACE_MS = 2000, LAUNCHER_FDS = 4 };

enum launcher_msg_type {
	LAUNCHER_START,
	LAUNCHER_KILL,
	LAUNCHER_END,
	LAUNCHER_STARTED,
	LAUNCHER_FAILED,
	LAUNCHER_ENDED
};

/* One message, either way. */
struct launcher_msg {
	enum launcher_msg_type type;
	uint32_t number;	/* which start it is about */
	uint64_t bytes_used;	/* START */
	int status;		/* ENDED: as of waitpid; FAILED: errno */
	char why[200];		/* FAILED */
	bool has[LAUNCHER_FDS]; /* STARTED: which of a gift's descriptors come with it */
};

/* What it needs to know; everything is copied by the fork. */
struct launcher_config {
	const char *door_path;
	const struct door_config *door;
	const char *box_group;		/* the box's, beside which the helpers' are; NULL: none */
	struct cgroup_limits limits;	/* the box's */
	struct cgroup_helper own_group; /* the keeper's, which the launcher is born in */
};
int launcher_start(const struct launcher_config *c, int *ret_fd, struct err *e);

/* What comes with STARTED: the keeper's end of the link, and what the door's group counts. */
struct launcher_gift {
	int link; /* owned, -1 without */
	struct cgroup_meter meter;
};

void launcher_gift_done(struct launcher_gift *g);

/* The keeper's side. launcher_receive returns 1 and a message (with STARTED a gift), 0 if there is
 * none now, -errno when the launcher is gone. */
int launcher_send(int fd, const struct launcher_msg *n);
int launcher_receive(int fd, struct launcher_msg *ret, struct launcher_gift *ret_gift);
