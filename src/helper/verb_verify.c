/*
 * verify: is everything that is kept as it was written?
 *
 *	{"deep": bool}
 *
 * Progress: kind, name, problem of each thing that is damaged. Result: lines checked, damaged,
 * not_compared.
 *
 *	images	    the record reads, its sum holds, each layer is there, and its blobs
 *	boxes	    the same of the spec and its layers
 *	snapshots   the same, with the layers of its workspace
 *	workspaces  the layers that one stands on are there
 *	keys	    the record reads, its sum holds
 *	layers	    the tree is there and its own file reads
 *	blobs	    their hash is their name; one that has another is moved aside (store/blobs.h)
 *	catalogue   the file is whole and counts the references that the records have
 *
 * deep also reads every file of every layer: the hash of its canonical tar (store/layer_tar.h) is
 * the one in layers/<id>/tree. It is there from the beginning where Cove made the layer (build,
 * save, import of a directory); of one that came as another program's tar, and of a snapshot, it is
 * what the first deep look found. A box may write what a tar cannot say (names that begin with
 * `.wh.`) or more and deeper than one may hold: a snapshot of it is whole, but not compared.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "db/db.h"
#include "helper/keep.h"
#include "store/blobs.h"
#include "store/key.h"
#include "store/layer.h"
#include "store/layer_tar.h"
#include "store/record.h"
#include "store/refs.h"
#include "store/rollback.h"
#include "store/snapshot.h"
#include "store/workspace_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify {
	struct helper *h;
	bool deep;
	uint64_t checked, damaged, not_compared;
};

static void put_problem(struct verify *v, const char *kind, const char *name, const char *problem)
{
	struct buf b;

	v->damaged++;
	buf_init(&b, 8192);
	if (lines_put(&b, "kind", kind) == 0 && lines_put(&b, "name", name) == 0 &&
	    lines_put(&b, "problem", problem) == 0)
		(void)helper_progress(v->h, &b);
	buf_done(&b);
}

/* A layer that something stands on. */
static void check_ref(struct verify *v, const char *kind, const char *name, const char *layer)
{
	char root[BOX_PATH_MAX], problem[160];

	if (layer_root(&v->h->state, layer, root, sizeof(root)) == 0)
		return;
	snprintf(problem, sizeof(problem), "its layer %.64s is not there", layer);
	put_problem(v, kind, name, problem);
}

/* ---- images ---- */

static void check_image(struct verify *v, const char *name)
{
	struct image im = {0};
	struct err e = {0};

	if (image_find(&v->h->state, name, &im, &e) < 0) {
		/* One that was removed since it was listed is fine. */
		if (e.kind != ERR_NOT_FOUND)
			put_problem(v, "image", name, e.msg);
		image_done(&im);
		return;
	}
	for (size_t i = 0; i < im.layer_count; i++)
		check_ref(v, "image", name, im.layers[i]);
	/* One that was moved aside is said among the blobs. */
	if (im.digest && !blobs_has(&v->h->state, im.digest) &&
	    !blobs_is_aside(&v->h->state, im.digest))
		put_problem(v, "image", name, "its manifest is not in blobs/");
	if (im.config_digest && !blobs_has(&v->h->state, im.config_digest) &&
	    !blobs_is_aside(&v->h->state, im.config_digest))
		put_problem(v, "image", name, "its configuration is not in blobs/");
	image_done(&im);
}

static int check_images(struct verify *v, struct err *e)
{
	char **files = NULL;
	size_t count = 0;
	int r = state_all_names(v->h->state.images_fd, &files, &count);

	for (size_t i = 0; r == 0 && i < count; i++) {
		for (char *p = files[i]; (p = strchr(p, '+'));)
			*p = '/';
		v->checked++;
		check_image(v, files[i]);
	}
	state_names_free(files, count);
	return r < 0 ? err_errno(e, -r, "list the images") : 0;
}

/* ---- boxes ---- */

static void check_box(struct verify *v, const char *name)
{
	struct record record = {0};
	struct image im = {0};
	struct err e = {0};
	int r = record_load(&v->h->state, name, &record, &e);

	if (r < 0 && e.kind != ERR_NOT_FOUND)
		put_problem(v, "box", name, e.msg);
	if (r == 0) {
		for (size_t i = 0; i < record.spec.layer_count; i++)
			check_ref(v, "box", name, record.spec.layers[i]);
		if (record.spec.layer_count == 0 &&
		    image_find(&v->h->state, record.spec.image, &im, &e) < 0)
			put_problem(v, "box", name, e.msg);
		image_done(&im);
	}
	record_done(&record);
}

/* What it is to become, where a rollback or a merge was killed. */
static void check_rollback(struct verify *v, const char *name)
{
	autoclose int box_fd = -1;
	struct rollback rb;
	struct err e = {0};
	int r = record_open(&v->h->state, name, &box_fd, &e);

	if (r < 0)
		return;
	r = rollback_read(box_fd, &rb, &e);
	if (r < 0)
		put_problem(v, "box", name, e.msg);
	for (size_t i = 0; r > 0 && i < rb.layer_count; i++)
		check_ref(v, "box", name, rb.layers[i]);
	for (size_t i = 0; r > 0 && i < rb.workspace_layer_count; i++)
		check_ref(v, "box", name, rb.workspace_layers[i]);
	rollback_done(&rb);
}

static int check_boxes(struct verify *v, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = record_names(&v->h->state, &names, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		v->checked++;
		check_box(v, names[i]);
		check_rollback(v, names[i]);
	}
	state_names_free(names, count);
	return r;
}

/* ---- snapshots ---- */

static void check_snapshot(struct verify *v, const char *name)
{
	struct snapshot sn;
	struct err e = {0};

	if (snapshot_find(&v->h->state, name, &sn, &e) < 0) {
		if (e.kind != ERR_NOT_FOUND)
			put_problem(v, "snapshot", name, e.msg);
	} else {
		for (size_t i = 0; i < sn.layer_count; i++)
			check_ref(v, "snapshot", name, sn.layers[i]);
		for (size_t i = 0; i < sn.workspace_layer_count; i++)
			check_ref(v, "snapshot", name, sn.workspace_layers[i]);
	}
	snapshot_done(&sn);
}

static int check_snapshots(struct verify *v, struct err *e)
{
	autoclose int dir_fd = v->h->state.home_fd < 0
				       ? -1
				       : fd_open_below(v->h->state.home_fd, "snapshots", false);
	char **names = NULL;
	size_t count = 0;
	int r = dir_fd < 0 ? 0 : state_names(dir_fd, &names, &count);

	for (size_t i = 0; r == 0 && i < count; i++) {
		v->checked++;
		check_snapshot(v, names[i]);
	}
	state_names_free(names, count);
	return r < 0 ? err_errno(e, -r, "list the snapshots") : 0;
}

/* ---- workspaces that stand on layers ---- */

static int check_workspaces(struct verify *v, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = state_names(v->h->state.workspaces_fd, &names, &count);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct workspace_stack stack = {0};
		int k = workspace_stack_read(&v->h->state, names[i], &stack);

		v->checked++;
		if (k < 0 && k != -ENOENT)
			put_problem(v, "workspace", names[i], "the list of its layers is damaged");
		for (size_t n = 0; k == 0 && n < stack.count; n++)
			check_ref(v, "workspace", names[i], stack.layers[n]);
		if (k == 0)
			workspace_stack_done(&stack);
	}
	state_names_free(names, count);
	return r < 0 ? err_errno(e, -r, "list the workspaces") : 0;
}

/* ---- API keys ---- */

static int check_keys(struct verify *v, struct err *e)
{
	struct key *list = NULL;
	size_t count = 0;
	int r = key_list(&v->h->state, &list, &count, e);

	for (size_t i = 0; i < count; i++) {
		v->checked++;
		if (list[i].is_damaged)
			put_problem(v, "key", list[i].id,
				    "its record is damaged: its token is refused");
	}
	key_list_free(list, count);
	return r;
}

/* ---- layers ---- */

static void check_tree(struct verify *v, const char *id, const char *root,
		       const struct layer_meta *meta)
{
	autoclose int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct layer_tar_result found = {0};
	char known[LAYER_ID_SIZE];
	struct state *s = &v->h->state;
	struct err e = {0};
	int r = 0, known_r;

	if (root_fd < 0)
		r = err_errno(&e, errno, "open its files");
	if (r == 0)
		r = layer_tar_pack_as(&v->h->ids, &root_fd, 1, -1, &(struct layer_tar_how){0},
				      &found, &e);
	if (r < 0 && meta->kind == LAYER_SNAPSHOT &&
	    (e.kind == ERR_INVALID || e.kind == ERR_LIMIT)) {
		v->not_compared++;
		return;
	}
	if (r < 0) {
		put_problem(v, "layer", id, e.msg);
		return;
	}
	known_r = layer_tree_read(s, id, known);
	/* Its files are right whatever an earlier look kept, and a later one is to know it. */
	if (strcmp(found.diff, meta->diff) == 0)
		r = known_r == 0 && strcmp(known, found.diff) == 0
			    ? 0
			    : layer_tree_write(s, id, found.diff);
	else if (known_r == -ENOENT)
		r = layer_tree_write(s, id, found.diff);
	else if (known_r < 0)
		put_problem(v, "layer", id, "the hash of its tree (tree) is damaged");
	else if (strcmp(known, found.diff) != 0)
		put_problem(v, "layer", id, "its files are not those that it had");
	if (r < 0 && r != -ENOENT) /* removed since it was listed */
		put_problem(v, "layer", id, "the hash of its tree could not be kept");
}

static void check_layer(struct verify *v, const char *id)
{
	struct layer_meta meta;
	char root[BOX_PATH_MAX];
	int r = layer_read(&v->h->state, id, &meta);

	if (r == -ENOENT)
		return; /* removed since it was listed */
	if (r < 0) {
		put_problem(v, "layer", id, "its own file (layer) is damaged");
		return;
	}
	if (layer_root(&v->h->state, id, root, sizeof(root)) < 0)
		put_problem(v, "layer", id, "its files are not there");
	else if (v->deep)
		check_tree(v, id, root, &meta);
}

static int check_layers(struct verify *v, struct err *e)
{
	char **ids = NULL;
	size_t count = 0;
	int r = state_all_names(v->h->state.layers_fd, &ids, &count);

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (!layer_is_id(ids[i]))
			continue;
		v->checked++;
		check_layer(v, ids[i]);
	}
	state_names_free(ids, count);
	return r < 0 ? err_errno(e, -r, "list the layers") : 0;
}

/* ---- blobs ---- */

/* Those that this or another look found damaged, until they are back. */
static int check_aside(struct verify *v, struct err *e)
{
	char **digests = NULL;
	size_t count = 0;
	int r = blobs_list_aside(&v->h->state, &digests, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct err why = {0};

		if (!blobs_is_aside(&v->h->state, digests[i]))
			continue;
		v->checked++;
		blobs_damaged(digests[i], &why);
		put_problem(v, "blob", digests[i], why.msg);
	}
	state_names_free(digests, count);
	return r;
}

static int check_blobs(struct verify *v, struct err *e)
{
	char **digests = NULL;
	size_t count = 0;
	int r = blobs_list(&v->h->state, &digests, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct err why = {0};
		int k;

		v->checked++;
		k = blobs_verify(&v->h->state, digests[i], &why);
		if (k < 0 && why.kind != ERR_NOT_FOUND && !blobs_is_aside(&v->h->state, digests[i]))
			put_problem(v, "blob", digests[i], why.msg);
	}
	state_names_free(digests, count);
	if (r == 0)
		r = check_aside(v, e);
	return r;
}

/* ---- the catalogue ---- */

struct comparison {
	struct verify *v;
	const struct refs *refs;
};

static int compare_layer(void *arg, const struct db_layer *l)
{
	struct comparison *c = arg;
	char problem[120];

	/* A build that goes on refers to layers, too, which only the lock's holder can see. */
	if (l->refs <= refs_count(c->refs, l->id))
		return 0;
	snprintf(problem, sizeof(problem), "it counts %llu references to %.12s, the records %zu",
		 (unsigned long long)l->refs, l->id, refs_count(c->refs, l->id));
	put_problem(c->v, "catalogue", "cove.db", problem);
	return 0;
}

/* With the lock, so that both are of one moment. */
static int check_catalogue(struct verify *v, struct err *e)
{
	struct comparison c = {.v = v};
	autoclose int lock_fd = -1;
	struct refs refs = {0};
	struct db *db = NULL;
	struct err why = {0};
	int r = layers_lock(&v->h->state, &lock_fd, e);

	if (r == 0)
		r = db_open(&v->h->state, &db, e);
	if (r < 0)
		return r;
	v->checked++;
	if (db_check(db, &why) < 0) {
		put_problem(v, "catalogue", "cove.db", why.msg);
	} else if (refs_collect(&v->h->state, &refs, &why) < 0) {
		/* A record that cannot be read has been said. */
		refs = (struct refs){0};
	} else {
		c.refs = &refs;
		r = db_layer_each(db, compare_layer, &c, e);
	}
	refs_done(&refs);
	db_close(db);
	return r;
}

static int answer(struct verify *v, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, 256);
	r = lines_put_u64(&b, "checked", v->checked);
	if (r == 0)
		r = lines_put_u64(&b, "damaged", v->damaged);
	if (r == 0)
		r = lines_put_u64(&b, "not_compared", v->not_compared);
	r = r < 0 ? err_errno(e, -r, "answer") : helper_result(v->h, buf_cstr(&b), e);
	buf_done(&b);
	return r;
}

int verb_verify(struct helper *h, struct err *e)
{
	struct verify v = {.h = h, .deep = helper_bool(h, "deep")};
	int lock_fd = -1, r = h->state.layers_fd < 0 ? 0 : layers_lock(&h->state, &lock_fd, e);

	/* So that no layer goes between its name and a look at it. */
	if (r == 0)
		r = check_images(&v, e);
	if (r == 0)
		r = check_boxes(&v, e);
	if (r == 0)
		r = check_snapshots(&v, e);
	if (r == 0)
		r = check_workspaces(&v, e);
	fd_close(&lock_fd);
	if (r == 0)
		r = check_keys(&v, e);
	if (r == 0 && h->state.layers_fd >= 0)
		r = check_layers(&v, e);
	if (r == 0 && h->state.home_fd >= 0)
		r = check_blobs(&v, e);
	if (r == 0 && h->state.layers_fd >= 0)
		r = check_catalogue(&v, e);
	return r < 0 ? r : answer(&v, e);
}
