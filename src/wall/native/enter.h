/* The new process's side: from the moment it exists to the moment it is cove-init. */
#pragma once

#include "guest/redirect.h"
#include "wall/native/plan.h"

/* What the new process holds besides the plan. */
struct enter_fds {
	int wire;   /* its end of the wire */
	int status; /* a struct err is written here on failure; closed by exec on success */
	int go;	    /* one byte comes when the ids are mapped; end of file means give up */
};

/* The new process while it takes the steps. */
struct enter {
	struct plan *plan;
	struct guest guest;	   /* closed with all others before exec */
	int self, sys;		   /* of proc, before parts are read-only: STEP_NEST */
	int go;			   /* to the keeper; borrowed */
	struct guest_redirect net; /* sockets for init */
	struct {
		const char *dst;
		int fd;
	} given[WALL_MOUNTS_MAX + PLAN_HOST_DIRS]; /* of the host, that have their place */
	size_t given_count;
};

void enter_box(struct plan *p, const struct enter_fds *fds) __attribute__((noreturn));

/* Why namespaces cannot be made, and the remedy. Returns -code. */
int enter_explain(int code, struct err *e);

/* Where the i-th of the box's lower layers is attached on the scratch. */
enum { ENTER_LOWER_NAME = 32 };
const char *enter_lower_name(size_t i, char ret[ENTER_LOWER_NAME]);

/* Makes the box's own files of /proc and gives them to the keeper. cover: over the kernel's, in the
 * /proc that is there. */
int enter_own_proc(struct enter *n, bool cover);

/* The keeper hears n->net.missing: the end of a step that makes the way to the door. */
int enter_tell_net(struct enter *n);
