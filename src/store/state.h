/*
 * The state directory: where everything Cove keeps lives, and where the sockets are.
 *
 *	$COVE_HOME	(root: /var/lib/cove, user: $XDG_DATA_HOME/cove or ~/.local/share/cove), 0700
 *	  boxes/<name>/	  record, live, end, lock, upper/, work/, logs/
 *	  images/<name>	  which layer, which user; lines
 *	  layers/<id>/	  rootfs/
 *	  workspaces/<name>/
 *	runtime		$COVE_HOME/run if COVE_HOME is set, else /run/cove or $XDG_RUNTIME_DIR/cove
 *	  <name>/	  keeper.sock
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct state {
	char home[512];
	char run[512];
	char tag[9]; /* 8 hex digits of the SHA-256 of home: keeps cgroups of two homes apart */
	int home_fd, boxes_fd, images_fd, layers_fd, workspaces_fd, run_fd; /* owned */
};

/* Finds and, with make, creates the directories. home may be NULL: from the environment. */
int state_open(struct state *s, const char *home, bool make, struct err *e);
void state_close(struct state *s); /* a zeroed or closed one is fine */

/* The directory that all state directories of this machine share as root: uid ranges live there. */
const char *state_machine_run_dir(void);
