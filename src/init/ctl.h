/*
 * What something in the box asks of its keeper (wire/ctl.h): one socket, a line for each
 * connection, and the keeper's answer to it.
 *
 * Any user of the box may ask; the keeper hears which (SO_PEERCRED). None is trusted: a
 * connection has INIT_CTL_MS for its line and no memory but for that, there are INIT_CTL_CONNS_MAX
 * at once, and INIT_CTL_PER_S in a second: the others wait in the kernel's queue. Who goes away
 * before the answer is forgotten; the keeper goes on with what it was asked.
 */
#pragma once

#include "init/init.h"

/* Binds that name, which nothing in the box can have taken. */
int init_ctl_new(struct init *in, const char *name, struct init_ctl **ret);
/* CTL of the keeper's. */
void init_ctl_frame(struct init *in, const struct wire_frame *f);
