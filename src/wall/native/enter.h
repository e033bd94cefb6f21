/* The new process's side: from the moment it exists to the moment it is cove-init. */
#pragma once

#include "wall/native/plan.h"

/* What the new process holds besides the plan. */
struct enter_fds {
	int wire;   /* its end of the wire */
	int status; /* a struct err is written here on failure; closed by exec on success */
	int go;	    /* one byte comes when the ids are mapped; end of file means give up */
};

void enter_box(struct plan *p, const struct enter_fds *fds) __attribute__((noreturn));

/* Why namespaces cannot be made, and the remedy. Returns -code. */
int enter_explain(int code, struct err *e);
