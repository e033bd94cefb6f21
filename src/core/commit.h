/*
 * What a box wrote, as layers that are not in place yet.
 *
 *	commit_begin	copies: while the box runs most of it live, then, with the box frozen, what
 *			changed since; all of it is on disk afterwards, and the box goes on
 *	commit_place	under the layers' lock: the layers get their names; then the caller
 *			writes what refers to them, and lets go of the lock
 *	commit_done	in every case; deletes what was not placed
 */
#pragma once

#include "core/core.h"
#include "storage/copy.h"
#include "storage/storage.h"
#include "store/layer.h"
#include "store/workspace_stack.h"

struct commit_options {
	bool no_freeze;	   /* a box that cannot be frozen is copied as it runs */
	bool no_workspace; /* only the box's own files */
};

/* One tree, and the layer it becomes. */
struct commit_tree {
	bool is_there;		    /* it is to become a layer: it holds something */
	bool on_pool;		    /* it becomes a snapshot of the pool's: nothing is copied */
	struct storage_place place; /* then */
	int from_fd;		    /* owned */
	struct volume volume;	    /* that from_fd is in, where it had to be mounted */
	struct layer_new layer;
	int to_fd, links_fd; /* owned; in that */
	struct copy copy;
	char id[LAYER_ID_SIZE];
	struct layer_meta meta;
};

struct commit {
	struct cove *cove;
	char box[BOX_NAME_MAX + 1];
	int box_fd;	      /* owned */
	struct record record; /* owned; of the box as it was copied */
	struct commit_tree root, workspace;
	struct workspace_stack below; /* owned: what its workspace stands on */
	const char *storage;
	/* It was written to while it was copied: it could not be frozen, or another box that runs
	 * has its workspace too. */
	bool unfrozen;
	uint64_t frozen_us, total_us;
	uint64_t left_out;
};

/* Of a box: who takes a snapshot of it, or rolls it back, holds this. Others wait. */
int commit_lock(struct cove *cove, const char *box, int box_fd, int *ret_fd, struct err *e);

int commit_begin(struct commit *c, struct cove *cove, const char *box,
		 const struct commit_options *o, struct err *e);
int commit_place(struct commit *c, struct err *e);
/* When a layer above what the box was made on is made: later than the box, whatever the clock says.
 * By that a fork's own layers differ from those that it began with. */
uint64_t commit_time_ms(const struct commit *c);
void commit_done(struct commit *c);

/* Before commit_place: the box's own layer, also where it is empty, is one of an image and named
 * after its content. */
int commit_name_by_content(struct commit *c, struct err *e);
