/*
 * The insides of a box, made by init itself: for a wall that only starts init, as root and alone,
 * in a kernel or namespaces of its own with the box's tree at /. What comes out is the box that
 * the native wall builds from outside: /dev, /proc with its masks, small files in /etc, loopback
 * and the way to the door, the trust store, and the few capabilities that in-box root has.
 *
 * Sysctls are left to the wall, which knows whose they are (user.max_user_namespaces of a kernel of
 * its own belongs on that kernel's command line). Nothing of the box runs before this is done.
 */
#pragma once

#include "base/err.h"
#include "guest/redirect.h"

#include <stdbool.h>
#include <stdint.h>

struct guest_setup {
	const char *name;      /* hostname; NULL: nothing is made, the wall has done it */
	uint64_t mem_bytes;    /* of the box; 0: not bounded */
	uint64_t files;	       /* RLIMIT_NOFILE, hard; 0: the usual */
	bool net;	       /* its network leads to the door */
	const char *trust_pem; /* the door's certificate; or NULL */
	bool single, strict;   /* init's own options */
};

/* Makes all of it. *ret_net has the sockets for init, none without net. What this kernel cannot
 * give is added to notes, a sentence a line. */
int guest_setup_run(const struct guest_setup *c, struct guest_redirect *ret_net, char *notes,
		    size_t size, struct err *e);
