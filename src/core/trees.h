/*
 * A box, a snapshot or an image as a stack of layers (storage/stack.h), to be compared.
 *
 * A name means a box, else a snapshot, else an image; "box:", "snapshot:" or "image:" before it
 * says which. A box is its own writes above its layers, and where it works on a copy of a host
 * directory, what it wrote there above that directory, besides. A named workspace is a stack of its
 * own, opened when it is asked for.
 */
#pragma once

#include "core/core.h"
#include "storage/stack.h"
#include "storage/storage.h"
#include "store/workspace_stack.h"

enum tree_kind { TREE_BOX, TREE_SNAPSHOT, TREE_IMAGE };

struct core_tree {
	enum tree_kind kind;
	char name[IMAGE_NAME_MAX + 1];
	struct stack_layer layers[SPEC_LAYER_MAX + 1]; /* top first; descriptors are owned */
	size_t count;
	bool has_own;		    /* the first is what the box itself wrote */
	struct stack_layer copy[2]; /* owned; what it wrote to the copy, and the directory */
	size_t copy_count;	    /* 0: it has none; 1: it wrote nothing there */
	struct core_tree_work {
		bool is_there; /* it has a named workspace */
		/* It is known what it held when the box was made: it stands on layers. */
		bool has_base;
		bool has_own; /* the first is what was written above them */
		struct stack_layer layers[SPEC_LAYER_MAX + 1]; /* top first; owned */
		size_t count;
		struct workspace_stack ids; /* owned; of a box's: what it stands on */
		struct volume volume;	    /* owned */
	} work;
	struct record record; /* of a box */
	bool has_record;
	int box_fd;		/* owned; -1: no box */
	struct volume volume;	/* owned; its disk, while it is open here */
	struct core_conn *held; /* owned; it runs, and is frozen for this connection */
};

#define CORE_TREE_NONE \
	((struct core_tree){.box_fd = -1, .volume = VOLUME_NONE, .work = {.volume = VOLUME_NONE}})

/* core_tree_done also after a failure. */
int core_tree_open(struct cove *cove, const char *name, struct core_tree *ret, struct err *e);
/* And its named workspace. An image, or a box without one: nothing to do. */
int core_tree_open_workspace(struct cove *cove, struct core_tree *t, struct err *e);
void core_tree_done(struct core_tree *t);

/* A running box is frozen until core_tree_release, which fails (ERR_TIMEOUT) where it was not all
 * the time. Others: nothing to do. 1: it runs, and cannot be frozen on this host. */
int core_tree_hold(struct cove *cove, struct core_tree *t, struct err *e);
int core_tree_release(struct core_tree *t, struct err *e);

/* All of it; and what is below what the box itself wrote. */
struct stack core_tree_whole(const struct core_tree *t);
struct stack core_tree_base(const struct core_tree *t);
struct stack core_tree_work_whole(const struct core_tree *t);
struct stack core_tree_work_base(const struct core_tree *t);

/* Those of a caller's paths that concern what is at prefix ("", "workspace"), as seen from there.
 * NULL and 0 where there are none at all, which means everything; *ret_none: there are some, and
 * nothing of it. Free with core_tree_paths_free, also after a failure. */
int core_tree_paths(const char *const *paths, const char *prefix, const char ***ret,
		    size_t *ret_count, bool *ret_none, struct err *e);
void core_tree_paths_free(const char **paths, size_t count);
