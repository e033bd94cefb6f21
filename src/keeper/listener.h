/*
 * The socket that later clients find the keeper by: <run>/<name>/keeper.sock, for its owner and
 * root only. The directory is 0700, the socket 0600, and the peer's uid is checked on every
 * connection.
 */
#pragma once

#include "keeper/keeper.h"

struct listener {
	struct keeper *k;
	struct ev_io io;  /* io.fd is owned; -1 while closed */
	int run_fd;	  /* borrowed: the runtime directory */
	const char *name; /* of the box, borrowed */
};

/* Binds and listens. Connections are held by the kernel until listener_open. */
int listener_init(struct listener *l, struct keeper *k, int run_fd, const char *name,
		  struct err *e);
/* Begins to accept. */
int listener_open(struct listener *l);
/* A client left: accepts again if descriptors had run out. */
void listener_resume(struct listener *l);
/* Removes the socket and its directory. A zeroed one is fine. */
void listener_done(struct listener *l);
