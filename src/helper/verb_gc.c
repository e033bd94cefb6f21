/*
 * gc: removes layers and blobs that nothing refers to.
 *
 *	{"dry_run": bool, "parts": bool, "cache": bool, "without": [IMAGE...]}
 *
 * parts: also blobs that were fetched in part. cache: also layers that only the build cache knows,
 * which stay otherwise. without: as if these images were gone; only with dry_run.
 *
 * Progress: kind (layer, blob), name, bytes of each. Result: lines layers, blobs, bytes, and
 * `blobs_held 1` where blobs were left alone because another process fetches some.
 *
 * What is unused is read from the records, never from the catalogue (but for the build cache, which
 * nothing else knows, and only ever to keep more), with the lock held that all
 * who publish a layer hold until what refers to it is written. Under it layers only lose their
 * names: what one takes, where it does not say so itself, is measured in the trash, as no box can
 * be made meanwhile. A killed one leaves trash that the next sweep deletes.
 */
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "helper/keep.h"
#include "store/blobs.h"
#include "store/layer.h"
#include "store/refs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct gc {
	struct helper *h;
	bool dry_run, parts, cache, blobs_held;
	uint64_t layers, blobs, bytes;
};

/* A layer that nothing refers to. */
struct gc_layer {
	char id[LAYER_ID_SIZE], at[LAYER_ID_SIZE]; /* at: its name now */
};

static int take_layer(struct gc *g, const char *id, struct gc_layer *ret, struct err *e)
{
	int r = 0;

	str_copy(ret->id, sizeof(ret->id), id);
	str_copy(ret->at, sizeof(ret->at), id);
	if (!g->dry_run)
		r = layers_trash(&g->h->state, id, ret->at);
	return r < 0 ? err_errno(e, -r, "remove layer %.12s", id) : 0;
}

/* What later builds stand on, if it is to stay: a set. */
static int find_cached(struct gc *g, json_t **ret, struct err *e)
{
	struct db *db = NULL;
	int r;

	*ret = NULL;
	if (g->cache)
		return 0;
	r = db_open(&g->h->state, &db, e);
	if (r == 0)
		r = keep_cached(db, ret, e);
	db_close(db);
	return r;
}

static int take_layers(struct gc *g, struct gc_layer **ret, size_t *ret_count, struct err *e)
{
	struct state *s = &g->h->state;
	autoclose int lock_fd = -1;
	struct refs refs = {0};
	json_t *cached = NULL;
	char **names = NULL;
	size_t count = 0;
	int r = layers_lock(s, &lock_fd, e);

	if (r == 0)
		r = refs_collect(s, &refs, e);
	if (r < 0)
		return r;
	r = find_cached(g, &cached, e);
	if (r < 0) {
		refs_done(&refs);
		return r;
	}
	r = state_all_names(s->layers_fd, &names, &count);
	if (r < 0)
		r = err_errno(e, -r, "list the layers in '%.140s'", s->home);
	*ret = calloc(count + 1, sizeof(**ret));
	if (r == 0 && !*ret)
		r = err_errno(e, ENOMEM, "look through the layers");
	for (size_t i = 0; r == 0 && i < count; i++)
		if (layer_is_id(names[i]) && !refs_has(&refs, names[i]) &&
		    !json_object_get(cached, names[i]))
			r = take_layer(g, names[i], &(*ret)[(*ret_count)++], e);
	if (r == 0 && *ret_count && !g->dry_run && fsync(s->layers_fd) < 0)
		r = state_error(s, errno, "sync", e);
	state_names_free(names, count);
	json_decref(cached);
	refs_done(&refs);
	return r;
}

static int gc_layers(struct gc *g, struct err *e)
{
	struct gc_layer *list = NULL;
	size_t count = 0;
	int r = take_layers(g, &list, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		uint64_t bytes = 0;

		r = keep_layer_bytes(g->h, list[i].at, &bytes, e);
		if (r == -ENOENT) /* another's sweep was faster */
			r = 0;
		if (r < 0)
			break;
		g->layers++;
		g->bytes += bytes;
		keep_say(g->h, "layer", list[i].id, bytes);
	}
	free(list);
	return r;
}

static int gc_blob(struct gc *g, const char *digest, struct err *e)
{
	char path[BLOB_DIGEST + 8];
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "blobs/%s", digest);
	if (fstatat(g->h->state.home_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = g->dry_run ? 0 : blobs_remove(&g->h->state, digest, e);
	if (r == 0) {
		g->blobs++;
		g->bytes += (uint64_t)st.st_size;
		keep_say(g->h, "blob", digest, (uint64_t)st.st_size);
	}
	return r;
}

/* What was moved aside stays only while an image misses it. */
static int gc_aside(struct gc *g, json_t *used, struct err *e)
{
	struct state *s = &g->h->state;
	char **digests = NULL;
	size_t count = 0;
	int r = blobs_list_aside(s, &digests, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++)
		if (!json_object_get(used, digests[i]) && !blobs_has(s, digests[i]))
			r = blobs_remove(s, digests[i], e);
	state_names_free(digests, count);
	return r;
}

static int gc_blobs(struct gc *g, struct err *e)
{
	struct state *s = &g->h->state;
	autoclose int lock_fd = -1;
	json_t *used = NULL;
	char **digests = NULL;
	uint64_t bytes = 0;
	size_t count = 0;
	struct stat st;
	int r;

	if (fstatat(s->home_fd, "blobs", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = blobs_lock(s, &lock_fd, e);
	if (r == -EBUSY) {
		g->blobs_held = true;
		return 0;
	}
	if (r == 0)
		r = keep_blob_refs(g->h, g->dry_run ? json_object_get(g->h->args, "without") : NULL,
				   &used, e);
	if (r == 0)
		r = blobs_list(s, &digests, &count, e);
	for (size_t i = 0; r == 0 && i < count; i++)
		if (!json_object_get(used, digests[i]))
			r = gc_blob(g, digests[i], e);
	if (r == 0 && !g->dry_run)
		r = gc_aside(g, used, e);
	if (r == 0 && g->parts) {
		r = g->dry_run ? blobs_count_parts(s, &bytes, e) : blobs_drop_parts(s, &bytes, e);
		g->bytes += bytes;
	}
	state_names_free(digests, count);
	json_decref(used);
	return r;
}

static int answer(struct gc *g, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, 1024);
	r = lines_put_u64(&b, "layers", g->layers);
	if (r == 0)
		r = lines_put_u64(&b, "blobs", g->blobs);
	if (r == 0)
		r = lines_put_u64(&b, "bytes", g->bytes);
	if (r == 0)
		r = lines_put_u64(&b, "blobs_held", g->blobs_held);
	r = r < 0 ? err_errno(e, -r, "answer") : helper_result(g->h, buf_cstr(&b), e);
	buf_done(&b);
	return r;
}

int verb_gc(struct helper *h, struct err *e)
{
	struct gc g = {.h = h,
		       .dry_run = helper_bool(h, "dry_run"),
		       .parts = helper_bool(h, "parts"),
		       .cache = helper_bool(h, "cache")};
	int r = 0;

	if (h->state.layers_fd >= 0)
		r = gc_layers(&g, e);
	/* What a crash left goes, too, and what was just trashed if this failed halfway. */
	if (h->state.layers_fd >= 0 && !g.dry_run)
		layers_sweep(&h->state, &h->ids);
	if (r == 0 && h->state.home_fd >= 0)
		r = gc_blobs(&g, e);
	return r < 0 ? r : answer(&g, e);
}
