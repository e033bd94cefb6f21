/*
 * What a keeper tells a new door, in a sealed memfd on descriptor 3 (form: base/lines.h);
 * descriptor 4 is the link to the keeper. The door says HELLO when it is ready, or ERROR (id 0)
 * with the reason.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>

enum { DOOR_CONFIG_FD = 3, DOOR_LINK_FD = 4 };

struct door_config {
	const char *home;	       /* state directory */
	const char *box;	       /* name */
	uint64_t created_ms;	       /* of the box: which record */
	const char *owner;	       /* id of the API key whose it is; NULL: the operator's */
	const char *policy;	       /* a preset, a list, or "file": boxes/<box>/policy */
	const char *ca;		       /* its authority, below NET_USED_DIR; NULL: none */
	uint64_t bytes_max, conns_max; /* 0: the policy's own */
	uint64_t bytes_used;	       /* by doors before this one */
	char *text;		       /* owned when read; everything points into it */
};

int door_config_write(const struct door_config *c, int *ret_fd, struct err *e);
int door_config_read(struct door_config *ret, int fd, struct err *e);
void door_config_done(struct door_config *c);
