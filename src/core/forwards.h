/*
 * Forwardings that live with their box: one file each in the box's directory, named after what it
 * forwards, locked by the process that does it. The lock is the only truth about whether it works;
 * a file without one is what ended with the box, and comes back when the box is started.
 */
#pragma once

#include "core/core.h"

enum { FORWARD_NAME_MAX = 96 };

struct forward_mark {
	int dir_fd, fd; /* owned; -1: none */
	char name[FORWARD_NAME_MAX];
	bool is_new; /* there was none before */
};

#define FORWARD_MARK_NONE ((struct forward_mark){.dir_fd = -1, .fd = -1})

/* Writes it down and locks it. ERR_CONFLICT where another process forwards that, unless wait is
 * set: then it waits for that one's end. */
int forward_mark_make(struct cove_box *box, const char *address, unsigned port, unsigned local_port,
		      bool wait, struct forward_mark *ret, struct err *e);
/* It listens: what listened at the same address and port before, and ended, is forgotten. */
void forward_mark_listens(const struct forward_mark *m);
/* The end of it; forget: the file goes if it is new. */
void forward_mark_done(struct forward_mark *m, bool forget);
