/*
 * The socket that later clients find the keeper by: <run>/<name>/keeper.sock, for its owner and
 * root only. The directory is 0700, the socket 0600, and the peer's uid is checked on every
 * connection.
 */
#pragma once

#include "keeper/keeper.h"

struct keeper_listener {
	struct keeper *k;
	struct ev_io io;  /* io.fd is owned; -1 while closed */
	int run_fd;	  /* borrowed: the runtime directory */
	const char *name; /* of the box, borrowed */
};

/* Binds and listens. Connections are held by the kernel until keeper_listener_open. */
int keeper_listener_init(struct keeper_listener *l, struct keeper *k, int run_fd, const char *name,
			 struct err *e);
/* Begins to accept. */
int keeper_listener_open(struct keeper_listener *l);
/* A client left: accepts again if descriptors had run out. */
void keeper_listener_resume(struct keeper_listener *l);
/* Removes the socket and its directory. A zeroed one is fine. */
void keeper_listener_done(struct keeper_listener *l);
