/*
 * Layers of snapshots that have become many, as one: what is above an image when a box was kept,
 * forked and kept again. A snapshot of such a box stands on one layer in their place; the box
 * itself, and whatever else stands on them, stays as it is.
 */
#pragma once

#include "core/core.h"
#include "store/layer.h"

struct flatten {
	size_t first, count; /* which of the layers become one; count 0: none does */
	char id[LAYER_ID_SIZE];
	struct layer_new layer; /* to be placed; no descriptor: it is there already */
	struct layer_meta meta;
};
#define FLATTEN_NONE ((struct flatten){.layer = LAYER_NEW_NONE})

/* Of a list of layers, bottom first, of a box that was made at born_ms: makes one of those of
 * snapshots at its end where they are SNAPSHOT_CHAIN_MAX or more. Named after what it was made of,
 * so that it is made once, and as old as the newest of them. What fails leaves them many. */
void flatten_make(struct cove *cove, const char *const *layers, size_t count, uint64_t born_ms,
		  struct flatten *ret);
/* Under the layers' lock. */
int flatten_place(struct cove *cove, const char *const *layers, struct flatten *f, struct err *e);
void flatten_done(struct cove *cove, struct flatten *f);
