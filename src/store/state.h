/*
 * The state directory: where everything Cove keeps lives, and where the sockets are.
 *
 *	$COVE_HOME	root: /var/lib/cove, user: $XDG_DATA_HOME/cove or ~/.local/share/cove; 0700
 *	  boxes/<name>/	  record, lock, upper/, work/, logs/
 *	  images/<name>	  which layer, which user; lines
 *	  layers/<id>/	  rootfs/
 *	  blobs/<sha256>  see blobs.h
 *	  workspaces/<name>/
 *	  secrets/	  see secret.h
 *	  keys/		  see key.h
 *	  walls/	  see walls.h
 *	  cove.db	  the catalogue, derived from all these; see db/db.h
 *	runtime		$COVE_HOME/run if COVE_HOME is set, else /run/cove or $XDG_RUNTIME_DIR/cove
 *	  <name>/	  keeper.sock
 *
 * In boxes, layers and workspaces a name with a leading dot is not in use: .new-<random> is being
 * made (its maker holds flock(2) on the directory), .gone-<random> is to be deleted.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct state {
	char home[512];
	char run[512];
	char tag[9]; /* 8 hex digits of the SHA-256 of home: keeps cgroups of two homes apart */
	/* Owned; -1 where there is no such directory yet. */
	int home_fd, boxes_fd, images_fd, layers_fd, workspaces_fd, run_fd;
};

/* Finds the directories and, with make, creates those that are missing. Without make one that is
 * not there has the descriptor -1, and whoever only reads takes it for an empty one: looking
 * changes nothing on disk. home may be NULL: from the environment; it is absolute. */
int state_open(struct state *s, const char *home, bool make, struct err *e);
/* The same of a state directory that another process of ours found: both paths as it has them. */
int state_open_at(struct state *s, const char *home, const char *run, bool make, struct err *e);
/* Creates what was missing when it was opened; nothing to do is the usual case. */
int state_make(struct state *s, struct err *e);
void state_close(struct state *s); /* a zeroed or closed one is fine */

/* The directory that all state directories of this machine share as root: uid ranges live there. */
const char *state_machine_run_dir(void);

/* What to say when a write below the state directory failed: the errno's kind, and the remedy. */
int state_error(const struct state *s, int code, const char *what, struct err *e);

/* Is it a name of boxes, images, workspaces? what is for the sentence. */
int state_check_name(const char *what, const char *name, struct err *e);

/* A directory that others can tell from a dead one: makes .new-<random> below dir_fd and holds
 * flock(2) on it for as long as *ret_fd is open. A sweep leaves such a directory alone and deletes
 * it when its maker is gone. */
int state_new_dir(int dir_fd, char ret_name[32], int *ret_fd);

/* The leftovers below dir_fd, to be deleted: .gone- directories, and .new- ones whose maker is gone
 * (these are renamed to .gone- first). Free with state_names_free. */
int state_leftovers(int dir_fd, char ***ret_names, size_t *ret_count);

/* A fresh .gone- name. */
void state_gone_name(char ret_name[32]);

/* All names below dir_fd that do not begin with a dot, sorted: state_names those of things
 * (str_is_name), state_all_names any. -E2BIG beyond STATE_NAMES_MAX. Below -1 there are none. */
int state_names(int dir_fd, char ***ret_names, size_t *ret_count);
int state_all_names(int dir_fd, char ***ret_names, size_t *ret_count);
void state_names_free(char **names, size_t count);

/* Names that are collected: -E2BIG beyond max. Then taken out, sorted, or (r < 0) let go. */
struct state_list {
	char **names; /* owned */
	size_t count, cap;
};
int state_list_add(struct state_list *l, const char *name, size_t max);
int state_list_take(struct state_list *l, int r, char ***ret_names, size_t *ret_count);
