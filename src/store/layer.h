/*
 * Layers: read-only trees that boxes stand on, shared by images, boxes and snapshots.
 *
 *	layers/<id>/rootfs	the tree; on a pool it lies at pool/layers/<id>/upper instead
 *	layers/<id>/pool	which one of the pool's, where it does
 *	layers/<id>/layer	what it is; lines
 *	layers/<id>/tree	the hash of its tree, where it is known; lines
 *
 * An id is 64 hex digits. A layer of an image is named after its content: the SHA-256 of the tar
 * that it came as (its diff id). One that keeps a box's state has a random id.
 *
 * A layer is made in layers/.new-<random> and has a name when it is whole and synced. It goes when
 * nothing refers to it any more (refs.h). Who places layers and then writes what refers to them
 * holds the layers' lock from the first to the last step, and so does who removes some.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

enum { LAYER_ID_SIZE = 65 };

enum layer_kind { LAYER_IMAGE, LAYER_SNAPSHOT };

struct layer_meta {
	enum layer_kind kind;
	uint64_t created_ms;
	uint64_t bytes, files;
	char diff[LAYER_ID_SIZE]; /* SHA-256 of its tar; empty: not known */
	/* For layers_place: that tar is the canonical one of the tree as it lies there, so that
	 * what becomes of the tree later is found out. */
	bool diff_is_tree;
};

bool layer_is_id(const char *id);
/* A fresh one for a layer that is not named after its content. */
void layer_random_id(char ret[LAYER_ID_SIZE]);

/* The absolute path of its tree. -ENOENT if there is no such layer. */
int layer_root(const struct state *s, const char *id, char *ret, size_t size);

/* -ENOENT if there is no such layer. One of an older Cove says nothing: all is 0. */
int layer_read(const struct state *s, const char *id, struct layer_meta *ret);

/* The hash of its tree (layer_tar.h). -ENOENT where none is kept, -EBADMSG where it is damaged. */
int layer_tree_read(const struct state *s, const char *id, char ret[LAYER_ID_SIZE]);
int layer_tree_write(const struct state *s, const char *id, const char *hash);

/* Under the layers' lock, before something is written that refers to them: ERR_CONFLICT where the
 * box that stood on one was removed or rolled back meanwhile. */
int layers_check(const struct state *s, const char *const *ids, size_t count, struct err *e);

/* Held for as long as *ret_fd is open. */
int layers_lock(struct state *s, int *ret_fd, struct err *e);
/* For who looks a layer up and then writes a box that stands on it: none is removed between. The
 * lock is the open directory's: one at a time in a process. Costs a system call each. */
int layers_hold(const struct state *s);
void layers_release(const struct state *s);

/* A private layers/.new-<random>; the caller makes rootfs/ inside, then layers_place gives it its
 * name, or layers_drop deletes it. */
struct layer_new {
	char name[32];
	int fd; /* owned; keeps it locked */
};
#define LAYER_NEW_NONE ((struct layer_new){.fd = -1})
int layers_new(struct state *s, struct layer_new *ret, struct err *e);
/* Its tree is the pool's with this id, which is made next: what deletes one deletes the other. */
int layers_new_in_pool(struct state *s, struct layer_new *l, const char *id, struct err *e);
/* Its tree is synced. Existing is success: the new one is dropped. meta NULL: nothing is said. */
int layers_place(struct state *s, const struct ids *ids, struct layer_new *l, const char *id,
		 const struct layer_meta *meta, struct err *e);
void layers_drop(struct state *s, const struct ids *ids, struct layer_new *l);

/* Under the lock: moves layers/<name> to the trash, to be deleted by layers_sweep; ret_gone is what
 * it is called there. Missing is success. */
int layers_trash(struct state *s, const char *name, char ret_gone[32]);
/* Under the lock: trashes those of the given layers that nothing refers to. Where a reference
 * cannot be read none is: that costs disk space and nothing else. */
void layers_trash_unused(struct state *s, const char *const *ids, size_t count);

/* Deletes what killed imports and removed layers left below layers/. */
void layers_sweep(struct state *s, const struct ids *ids);
