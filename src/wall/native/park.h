/*
 * A box that was made ahead of time waits in its new process: namespaces, mounts and network are
 * there, and what is its owner's is not. From here on it is as in a box that was never
 * parked, with that configuration.
 *
 *	child   tells how its network came out, as every box does, and that it waits
 *	keeper  sends a number of bytes, and so many: limits, name, init's arguments
 *	        closes its end: the box is not wanted
 */
#pragma once

#include "wall/native/enter.h"

/* The child's side. Everything that comes is the keeper's word. */
int park_wait(struct enter *n);
/* The keeper's: it waits until the child does. Reads how the network came out, where there is one.
 * -EPIPE: the child has ended. */
int park_await(int go, bool has_net, uint8_t *ret_net_missing);
int park_send(int go, const struct wall_config *c);
