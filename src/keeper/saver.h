/*
 * The saver: a small process beside a confined keeper, forked before it confines itself, for a box
 * that may ask for snapshots of itself. It does one thing for the keeper, which can start no
 * program any more: it runs cove-save, as the box's owner would, on this box.
 *
 *	keeper  the name that the box gave  ->  what came of it
 *
 * All but that name it knows from its birth. cove-save checks it again, and how many there are; how
 * soon the next may come is checked here, since a keeper that was taken over may ask as it likes.
 * One at a time: what is asked meanwhile is refused. End of file is the keeper's end: a cove-save
 * that still runs is killed, which leaves a whole snapshot or none.
 *
 * It is in the keeper's group, and so is cove-save: what it takes is the box's to pay for.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "cgroup/helper.h"

#include <stdint.h>

/* Everything is copied by the fork. */
struct saver_config {
	const char *program;	/* cove-save */
	const char *home, *run; /* the state directory, and where its sockets are */
	const char *box;
	uint64_t keep;			/* how many it may have */
	struct cgroup_helper own_group; /* the keeper's, which the saver is born in */
};
int saver_start(const struct saver_config *c, int *ret_fd, struct err *e);

/* Its arguments: HOME RUN BOX NAME KEEP. What it says on descriptor 1 are lines (base/lines.h):
 * `name`, `frozen_us`, `total_us` and `left`; or `error_kind`, `error_code` and `error`. */
struct saver_answer {
	struct err error; /* its kind is ERR_NONE: it was made */
	char name[BOX_NAME_MAX + 1];
	uint64_t frozen_us, total_us;
	uint64_t left; /* how many more it may have */
};

/* The keeper's side. saver_receive returns 1 and an answer, 0 if there is none now, -errno when the
 * saver is gone. */
int saver_ask(int fd, const char *name);
int saver_receive(int fd, struct saver_answer *ret);
