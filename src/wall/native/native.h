/*
 * The native wall's own calls, for a wall that uses the same namespaces, ids and groups and puts
 * something else into them than init: an engine with a kernel of its own.
 */
#pragma once

#include "wall/native/plan.h"
#include "wall/wall.h"

struct native_use {
	int (*plan)(struct plan *p, const struct wall_config *c, struct err *e);
	void *own; /* plan.own after that; borrowed until await or abort */
};

int native_begin_with(const struct wall_config *c, const struct native_use *use, struct wall_box *b,
		      struct err *e);
void *native_own(const struct wall_box *b); /* NULL once await or abort is over */

int native_finish(struct wall_box *b, struct err *e);
int native_await(struct wall_box *b, struct err *e);
void native_abort(struct wall_box *b);
void native_kill(struct wall_box *b);
int native_freeze(struct wall_box *b, bool on, struct err *e);
void native_measure(struct wall_box *b, bool brief, struct cgroup_stats *ret);
