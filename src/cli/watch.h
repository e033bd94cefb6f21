/* Shows on the terminal how far a file has been read while its reader is busy. */
#pragma once

#include <sys/types.h>

struct watch {
	int fd;	   /* owned; closed when the reading is over */
	pid_t pid; /* 0: no child watches */
};

/* Does nothing where stderr is no terminal. fd's position is what is shown, as a share of its size;
 * of what has none (a pipe) only the beginning is said. */
void watch_start(struct watch *w, int fd, const char *name);
void watch_stop(struct watch *w);
