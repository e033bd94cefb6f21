/*
 * A tree of this host, read to go somewhere else: by descriptor, and without following a link below
 * what the caller named. Files and directories, links as links; what is none of these is counted.
 */
#pragma once

#include "base/err.h"
#include "base/inodes.h"
#include "base/limits.h"
#include "cove.h"

#include <sys/stat.h>

struct host_entry {
	char type;	    /* 'd', before what is in it; 'f'; 'l'; 'h': one more name of a file */
	int fd;		    /* of 'd' and 'f', borrowed: its content; else -1 */
	const char *target; /* of 'l'; of 'h', the path it had first */
	const struct stat *st;
};

struct host_walk {
	/* What is at `path`. */
	int (*on_entry)(void *arg, const struct host_entry *m, struct err *e);
	/* Whose it is that cannot be read, for the error to say; NULL: it does not matter. */
	void (*on_denied)(void *arg, uid_t owner, struct err *e);
	void *arg;
	const struct cove_copy *how; /* what cannot be read is its on_skipped's, or the end */
	bool has_hard_links;	     /* else each name of a file is a file */
	char path[BOX_PATH_MAX];     /* below what was named; "": that itself */
	size_t len;
	unsigned depth, left_out;
	struct inodes seen;
};

/* fd: a file or a directory that was opened. Nothing of it is left to be freed. */
int host_walk(struct host_walk *w, int fd, struct err *e);
