/*
 * Cove's own state is in no box. What the caller names is the caller's trust; but a box that holds
 * the state, with other boxes and the sockets of their keepers in it, is no box. Reading is enough:
 * a socket can be connected to through a read-only mount.
 */
#pragma once

#include "base/err.h"
#include "store/state.h"

/* ERR_DENIED if what is open lies in Cove's own state or holds it, by any name. path is what the
 * caller wrote. */
int own_refuse_fd(const struct state *st, const char *path, int fd, struct err *e);
