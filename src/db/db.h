/*
 * The catalogue: what there is across boxes, as tables. This header is operations on plain structs
 * and all that others see of it; behind it is SQLite (cove.db in the state directory), and could be
 * another database.
 *
 * The directories are the truth. Each opening compares them with the tables (db_reconcile), so that
 * what other processes made or removed meanwhile, or a crash between two steps left, is in order
 * before anything is asked. A catalogue that is missing or damaged is made anew from them: only the
 * build cache is lost. Where none can be written (a full or read-only disk, a newer Cove's) the
 * same tables are filled in memory for the one who asks.
 *
 * One process at a time writes, others wait for it; what is committed is on disk. Many changes that
 * belong together are one transaction (db_begin, db_end): whole or absent.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "store/layer.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;

/* Opens or makes it, at today's version, and reconciles it. s stays open while db is. */
int db_open(struct state *s, struct db **ret, struct err *e);
void db_close(struct db *db); /* NULL is fine */

/* Why it is only in memory; NULL where it is on disk. */
const char *db_in_memory(const struct db *db);
/* Looks through the whole file. ERR_DAMAGED; it is made anew by the next opening then. */
int db_check(struct db *db, struct err *e);

int db_begin(struct db *db, struct err *e);
/* Commits where r is 0, undoes all where it is not. Returns r, or why it could not be committed. */
int db_end(struct db *db, int r, struct err *e);

/* ---- layers ---- */

struct db_layer {
	char id[LAYER_ID_SIZE];
	struct layer_meta meta;
	uint64_t refs; /* how many things stand on it; not written by put */
};

/* find: 1 and the layer, or 0. */
int db_layer_put(struct db *db, const char *id, const struct layer_meta *meta, struct err *e);
int db_layer_find(struct db *db, const char *id, struct db_layer *ret, struct err *e);
int db_layer_remove(struct db *db, const char *id, struct err *e);
/* In the order of ids. What fn returns other than 0 ends it and is returned. */
int db_layer_each(struct db *db, int (*fn)(void *arg, const struct db_layer *layer), void *arg,
		  struct err *e);

/* ---- blobs ---- */

int db_blob_put(struct db *db, const char *digest, uint64_t bytes, struct err *e);
int db_blob_remove(struct db *db, const char *digest, struct err *e);
int db_blob_each(struct db *db, int (*fn)(void *arg, const char *digest, uint64_t bytes), void *arg,
		 struct err *e);

/* ---- what stands on layers ---- */

enum db_kind { DB_IMAGE, DB_SNAPSHOT, DB_BOX, DB_WORKSPACE, DB_KIND_COUNT };

struct db_owner {
	enum db_kind kind;
	const char *name;
	const char *of; /* an image's manifest, a box's image, a snapshot's box; or NULL */
	uint64_t created_ms;
	uint64_t stamp; /* of its record as it was read: another one means that it changed */
	const char *const *layers; /* bottom first */
	size_t layer_count;
};

/* put replaces one of that name. find: 1 and a copy whose texts live until the next call with this
 * db, or 0. each gives no layers. */
int db_owner_put(struct db *db, const struct db_owner *o, struct err *e);
int db_owner_find(struct db *db, enum db_kind kind, const char *name, struct db_owner *ret,
		  struct err *e);
int db_owner_remove(struct db *db, enum db_kind kind, const char *name, struct err *e);
int db_owner_each(struct db *db, enum db_kind kind,
		  int (*fn)(void *arg, const struct db_owner *owner), void *arg, struct err *e);

/* Bytes of all layers that things of this kind stand on, each layer once. */
int db_owner_bytes(struct db *db, enum db_kind kind, uint64_t *ret, struct err *e);

/* ---- the build cache: which layer a step made, by the hash of all it depends on ---- */

struct db_cached {
	char layer[LAYER_ID_SIZE]; /* "": the step made none */
	char *text;		   /* what else it made, in the caller's words; owned by find's */
};

/* find: 1, and it counts as used now; 0 where there is none or its layer has gone. A key is at most
 * DB_CACHE_KEY_MAX bytes, a text DB_CACHE_TEXT_MAX: ERR_LIMIT. */
int db_cache_put(struct db *db, const char *key, const struct db_cached *c, struct err *e);
int db_cache_find(struct db *db, const char *key, struct db_cached *ret, struct err *e);
/* The layers of all of them, which may have gone; one may come more than once. */
int db_cache_each(struct db *db, int (*fn)(void *arg, const char *layer), void *arg, struct err *e);
/* Forgets those that were not used since then, those whose layer has gone, and the oldest beyond
 * DB_CACHE_MAX. */
int db_cache_trim(struct db *db, uint64_t unused_since_ms, uint64_t *ret_count, struct err *e);
