/*
 * df: what takes how much. Result: groups of lines, each begun by `what`: count, bytes, and
 * reclaimable, the part that `cove system prune` would free.
 *
 * Sizes of layers come from the catalogue; one that does not know one measures it once. Boxes and
 * workspaces change, so they are measured each time.
 */
#include "base/fd.h"
#include "base/lines.h"
#include "db/db.h"
#include "helper/keep.h"
#include "store/blobs.h"
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct df {
	struct helper *h;
	struct db *db;
	struct buf out;
	struct err *e;
	uint64_t count, bytes, reclaimable, shared; /* of the group at hand */
	json_t *used, *cached;			    /* blobs; layers that the build cache knows */
};

static int put_group(struct df *d, const char *what, uint64_t count, uint64_t bytes,
		     uint64_t reclaimable)
{
	int r = lines_put(&d->out, "what", what);

	if (r == 0)
		r = lines_put_u64(&d->out, "count", count);
	if (r == 0)
		r = lines_put_u64(&d->out, "bytes", bytes);
	if (r == 0)
		r = lines_put_u64(&d->out, "reclaimable", reclaimable);
	return r < 0 ? err_errno(d->e, -r, "answer") : 0;
}

/* ---- layers, blobs and what stands on them ---- */

static int add_layer(void *arg, const struct db_layer *l)
{
	struct df *d = arg;

	d->count++;
	d->bytes += l->meta.bytes;
	d->shared += l->refs > 1 ? l->meta.bytes : 0;
	d->reclaimable += l->refs == 0 && !json_object_get(d->cached, l->id) ? l->meta.bytes : 0;
	return 0;
}

/* Those whose size is not known. Collected first: the table must not change under its reader. */
struct unmeasured {
	struct state_list list;
};

static int find_unmeasured(void *arg, const struct db_layer *l)
{
	struct unmeasured *u = arg;

	return l->meta.bytes ? 0 : state_list_add(&u->list, l->id, SIZE_MAX);
}

static int measure_layers(struct df *d)
{
	struct unmeasured u = {0};
	char **ids = NULL;
	size_t count = 0;
	int r = db_layer_each(d->db, find_unmeasured, &u, d->e);

	r = state_list_take(&u.list, r, &ids, &count);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct db_layer l;

		r = db_layer_find(d->db, ids[i], &l, d->e);
		if (r > 0)
			r = keep_usage(d->h, d->h->state.layers_fd, ids[i], &l.meta.bytes, d->e);
		/* A disk that is full keeps it from being remembered, and from nothing else. */
		if (r == 0)
			(void)db_layer_put(d->db, ids[i], &l.meta, NULL);
	}
	state_names_free(ids, count);
	return r;
}

static int count_owner(void *arg, const struct db_owner *o)
{
	((struct df *)arg)->count++;
	return 0;
}

/* given NULL: bytes of the layers that they stand on. */
static int put_owners(struct df *d, enum db_kind kind, const char *what, const uint64_t *given)
{
	uint64_t bytes = given ? *given : 0;
	int r;

	d->count = 0;
	r = db_owner_each(d->db, kind, count_owner, d, d->e);
	if (r == 0 && !given)
		r = db_owner_bytes(d->db, kind, &bytes, d->e);
	return r < 0 ? r : put_group(d, what, d->count, bytes, 0);
}

static int put_layers(struct df *d)
{
	int r;

	d->count = 0;
	r = keep_cached(d->db, &d->cached, d->e);
	if (r == 0)
		r = db_layer_each(d->db, add_layer, d, d->e);
	json_decref(d->cached);
	d->cached = NULL;
	if (r == 0)
		r = put_group(d, "layers", d->count, d->bytes, d->reclaimable);
	if (r == 0)
		r = lines_put_u64(&d->out, "shared", d->shared);
	return r < 0 ? err_errno(d->e, -r, "answer") : 0;
}

static int add_blob(void *arg, const char *digest, uint64_t bytes)
{
	struct df *d = arg;

	d->count++;
	d->bytes += bytes;
	d->reclaimable += json_object_get(d->used, digest) ? 0 : bytes;
	return 0;
}

/* What interrupted transfers left, which prune frees, too. */
static int add_parts(struct df *d)
{
	struct state *s = &d->h->state;
	autoclose int lock_fd = -1;
	uint64_t bytes = 0;
	struct stat st;
	int r;

	if (s->home_fd < 0 || fstatat(s->home_fd, "blobs", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = blobs_lock(s, &lock_fd, d->e);
	if (r == -EBUSY) /* some are in use, and prune would leave all */
		return 0;
	if (r == 0)
		r = blobs_count_parts(s, &bytes, d->e);
	d->bytes += bytes;
	d->reclaimable += bytes;
	return r;
}

static int put_blobs(struct df *d)
{
	int r = keep_blob_refs(d->h, NULL, &d->used, d->e);

	d->count = d->bytes = d->reclaimable = 0;
	if (r == 0)
		r = db_blob_each(d->db, add_blob, d, d->e);
	json_decref(d->used);
	d->used = NULL;
	if (r == 0)
		r = add_parts(d);
	return r < 0 ? r : put_group(d, "blobs", d->count, d->bytes, d->reclaimable);
}

/* ---- boxes ---- */

static int add_box(struct df *d, const char *name, uint64_t *logs)
{
	autoclose int box_fd = -1;
	uint64_t bytes = 0, own = 0;
	int r = keep_usage(d->h, d->h->state.boxes_fd, name, &bytes, d->e);

	if (r < 0 || record_open(&d->h->state, name, &box_fd, NULL) < 0)
		return r;
	r = keep_usage(d->h, box_fd, "logs", &own, d->e);
	bytes -= own < bytes ? own : bytes;
	*logs += own;
	d->count++;
	d->bytes += bytes;
	d->reclaimable += record_is_live(box_fd) ? 0 : bytes;
	return r;
}

static int put_boxes(struct df *d)
{
	struct helper *h = d->h;
	uint64_t logs = 0, audit = 0;
	char **names = NULL;
	size_t count = 0;
	int r = record_names(&h->state, &names, &count, d->e);

	d->count = d->bytes = d->reclaimable = 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = add_box(d, names[i], &logs);
	state_names_free(names, count);
	if (r == 0)
		r = put_group(d, "boxes", d->count, d->bytes, d->reclaimable);
	if (r == 0)
		r = put_group(d, "logs", count, logs, 0);
	if (r == 0)
		r = keep_usage(h, h->state.home_fd, "audit", &audit, d->e);
	return r < 0 ? r : put_group(d, "audit", audit > 0, audit, 0);
}

/* ---- files and directories as a whole ---- */

static int put_tree(struct df *d, const char *what, const char *path, bool unused)
{
	uint64_t bytes = 0;
	int r = keep_usage(d->h, d->h->state.home_fd, path, &bytes, d->e);

	return r < 0 ? r : put_group(d, what, bytes > 0, bytes, unused ? bytes : 0);
}

static int put_rest(struct df *d)
{
	uint64_t bytes = 0;
	int r = keep_usage(d->h, d->h->state.home_fd, "workspaces", &bytes, d->e);

	if (r == 0)
		r = put_owners(d, DB_WORKSPACE, "workspaces", &bytes);
	if (r == 0)
		r = put_tree(d, "pool", "pool.img", false);
	if (r == 0)
		r = put_tree(d, "templates", "templates", true);
	return r < 0 ? r : put_tree(d, "catalogue", "cove.db", false);
}

int verb_df(struct helper *h, struct err *e)
{
	struct df d = {.h = h, .e = e};
	int r = db_open(&h->state, &d.db, e);

	buf_init(&d.out, 1 << 16);
	if (r == 0)
		r = measure_layers(&d);
	if (r == 0)
		r = put_owners(&d, DB_IMAGE, "images", NULL);
	if (r == 0)
		r = put_owners(&d, DB_SNAPSHOT, "snapshots", NULL);
	if (r == 0)
		r = put_layers(&d);
	if (r == 0)
		r = put_blobs(&d);
	if (r == 0)
		r = put_boxes(&d);
	if (r == 0)
		r = put_rest(&d);
	if (r == 0)
		r = helper_result(h, buf_cstr(&d.out), e);
	buf_done(&d.out);
	db_close(d.db);
	return r;
}
