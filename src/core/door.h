/* A box's policy as libcove keeps it; see door.c. */
#pragma once

#include "core/core.h"

/* What a caller's `net` stands for. */
struct net_choice {
	char policy[32]; /* a preset's name, or "file" */
	char *text;	 /* owned; the text where it is "file" */
	size_t len;
};

/* net NULL: the default. A file is read, and checked by the door's own reader. */
int net_choose(struct cove *cove, const char *net, struct net_choice *ret, struct err *e);
void net_choice_done(struct net_choice *c);

/* Checks "HOST[:PORT]". */
int net_check_pattern(struct cove *cove, const char *pattern, struct err *e);
