/* Shows on the terminal that something is under way while whoever does it is busy: after a second,
 * and gone again at its end. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct watch {
	int fd;	   /* owned; closed when the reading is over */
	pid_t pid; /* 0: no child watches */
};

/* Does nothing where stderr is no terminal. fd's position is what is shown, as a share of its size;
 * of what has none (a pipe) only the beginning is said. */
void watch_start(struct watch *w, int fd, const char *name);
/* The same of what cannot be measured: its words. With json there is nothing to be seen. */
void watch_start_words(struct watch *w, const char *verb, const char *name, bool json);
void watch_stop(struct watch *w);
