/*
 * The files of a box that stage.c keeps: what a merge is about to do ("merge"), and what is known
 * of earlier ones ("merged"). Lines, with a sum over them:
 *
 *	stage NAME	the directory of what is staged
 *	state WORD	"stage", or from the commit on "apply"
 *	op KIND MODE NUMBER INO CTIME MTIME PATH
 *	box INO CTIME	of the op before it, where that is known: what the box has there
 */
#pragma once

#include "store/stage.h"

#define STAGE_NAME ".cove-merge-"

struct stage_journal {
	char stage[STAGE_NAME_SIZE];
	bool apply;
	struct stage_op *ops; /* owned */
	size_t count, cap;
};

/* Room for one more: -E2BIG, -ENOMEM. */
int stage_ops_grow(struct stage_op **list, size_t count, size_t *cap);
void stage_ops_free(struct stage_op *ops, size_t count);

/* stage, state: NULL: without. Whole or not at all; -ENOBUFS: it is too much. */
int stage_ops_write(int box_fd, const char *file, const char *stage, const char *state,
		    const struct stage_op *ops, size_t count);
/* 1, or 0 where there is no such file. -EBADMSG: it is damaged. */
int stage_ops_read(int box_fd, const char *file, struct stage_journal *ret);
