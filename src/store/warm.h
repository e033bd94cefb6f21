/*
 * Warm pools: how many boxes of which image are to be there before they are asked for. (Not the
 * btrfs pool of storage/pool.h, which holds what boxes write.)
 *
 *	warm/<id>	a pool's record; lines under a sum. Its id is made of owner and image
 *	warm/filler	locked by the one server that keeps them full
 *	warm/state	what that server has; lines, written as it changes, and not durable
 *
 * The boxes themselves are the server's, and end with it: premade.h.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "store/key.h"
#include "store/state.h"

#include <stdbool.h>
#include <stdint.h>

enum { WARM_ID_SIZE = 17, WARM_WHY_MAX = 200 };

struct warm_pool {
	char id[WARM_ID_SIZE];
	char owner[KEY_ID_SIZE]; /* of the key whose it is; "": the operator's */
	char image[IMAGE_NAME_MAX + 1];
	uint64_t size;
	uint64_t disk_bytes; /* 0: the default */
	uint64_t created_ms;
	/* What its server has, for who lists them: */
	bool is_filled; /* a server is there that keeps it full */
	uint64_t ready;
	char why[WARM_WHY_MAX]; /* why it is not full */
};

/* Writes or replaces the one of that owner and image; id and created_ms are filled in. Durable. */
int warm_pool_set(struct state *st, struct warm_pool *p, struct err *e);
/* -ENOENT where there is none. */
int warm_pool_remove(struct state *st, const char *owner, const char *image, struct err *e);
/* Sorted by id; free with free(). A damaged record counts for nothing: `set` writes it anew. */
int warm_pool_list(struct state *st, struct warm_pool **ret, size_t *ret_count, struct err *e);

/* The directory, to be watched; made with `make`. -ENOENT */
int warm_dir(struct state *st, bool make);
/* Becomes the one that fills them, for as long as the descriptor is open. -EBUSY: another does. */
int warm_filler_lock(struct state *st, int *ret_fd);
/* What there is: id, created_ms, ready and why of each. */
int warm_state_write(struct state *st, const struct warm_pool *pools, size_t count);
