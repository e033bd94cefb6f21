/*
 * The walk of glob and grep, in a copy of init (work.h): a tree in the order of its paths, as
 * bytes, a directory's own name before what is in it. No link is followed, and of the kernel's own
 * file systems (proc, sysfs, cgroups) none is entered but where the walk begins in it.
 *
 * A level costs a descriptor and the names of its directory. What cannot be read, or lies deeper
 * than INIT_DEPTH_MAX or has too long a path, is counted and left out.
 */
#pragma once

#include "init/glob.h"
#include "init/work.h"

struct tool_level;

struct tool_walk {
	struct work *w;
	const struct init_glob *glob; /* NULL: everything matches */
	struct tool_level *top;	      /* owned */
	unsigned depth;
	char path[BOX_PATH_MAX]; /* of the entry given last */
	uint8_t *set;		 /* owned; its state of glob */
};

struct tool_entry {
	const char *name;
	int dir_fd;
	char type; /* 'f', 'd', 'l', 'o' */
};

/* Begins in the directory fd, which it takes, on failure too. */
int tool_walk_begin(struct tool_walk *t, struct work *w, const struct init_glob *glob, int fd);
/* Called for each entry that matches. Not 0 ends the walk and is returned: above 0 is no error. A
 * walk whose time is over ends too; the summary says so. */
int tool_walk_run(struct tool_walk *t, void *arg,
		  int (*on_entry)(void *arg, const struct tool_entry *entry, struct err *e),
		  struct err *e);
void tool_walk_done(struct tool_walk *t);
