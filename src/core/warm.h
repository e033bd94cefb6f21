/*
 * Boxes that are made ahead of time, and held until they are asked for.
 *
 * The one who holds them is a server: each has a keeper that waits on a socket (store/premade.h),
 * so when that server ends, however it does, they end by themselves. core_create_start takes one
 * that fits what is asked for (premade_fits) in the place of one that it would have to make;
 * whatever no premade one fits is made as ever, and so is a box whose premade one turns out to be
 * broken. The record, the name, durability and the wait for HELLO are the same for both.
 *
 *	pass	reads the pools' records, lets go of what fits none any more, is too old, or has
 *		ended, and makes some of what is missing
 *	take	in any thread, at any time
 */
#pragma once

#include "core/core.h"
#include "store/warm.h"

struct core_warm;

int core_warm_new(struct core_warm **ret);
/* Readable when one was taken; reading it (eight bytes) says that this was seen. Borrowed. */
int core_warm_fd(const struct core_warm *w);
/* From any thread: a pass that runs gives up what it is making, and no other makes anything. */
void core_warm_stop(struct core_warm *w);
/* Ends them all, and leaves nothing. No thread has it any more. NULL is fine. */
void core_warm_free(struct core_warm *w, struct cove *cove);

/* One of them, taken out. */
struct core_premade {
	char dir[32]; /* below boxes/ */
	int dir_fd;   /* owned; it is locked through it */
	int sock;     /* owned; its keeper's */
	uint64_t made_ms;
	struct core_spec *spec;		  /* owned; as what it was made */
	struct cove_box_options *options; /* owned, with what it points to */
	char pool[WARM_ID_SIZE];
	struct core_premade *next;
};

/* One that the box can be; NULL: there is none. */
struct core_premade *core_warm_take(struct cove *cove, const struct core_spec *asked);
/* It was not used, and is as it was. */
void core_warm_give_back(struct cove *cove, struct core_premade *p);
/* Frees what is left of one that became a box, or that failed: then its keeper ends. */
void core_premade_free(struct core_premade *p);

struct core_warm_passed {
	uint64_t made, dropped, failed;
	uint64_t next_ms; /* a pass will have something to do in so long; UINT64_MAX: not known */
	char why[WARM_WHY_MAX]; /* the first that failed */
};
/* In one thread at a time, of one process: of several servers the first one fills. */
int core_warm_pass(struct cove *cove, struct core_warm_passed *ret, struct err *e);
