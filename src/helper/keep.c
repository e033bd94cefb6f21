/* Sizes and references of what is kept; see keep.h. */
#include "helper/keep.h"

#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "storage/tree.h"
#include "store/blobs.h"
#include "store/inside.h"
#include "store/layer.h"
#include "store/refs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { INDEX_DEPTH = 3 };

struct keep_usage_job {
	struct inside_job job;
	int dir_fd;
	char name[80];
	uint64_t bytes, files;
};

static int usage_inside(struct inside_job *job)
{
	struct keep_usage_job *j = (struct keep_usage_job *)(void *)job;

	return tree_usage(j->dir_fd, j->name, &j->bytes, &j->files, &job->err);
}

int keep_usage(struct helper *h, int dir_fd, const char *name, uint64_t *ret_bytes, struct err *e)
{
	struct keep_usage_job j = {.job.run = usage_inside, .dir_fd = dir_fd};
	struct stat st;
	int r;

	*ret_bytes = 0;
	if (dir_fd < 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode)) {
		*ret_bytes = (uint64_t)st.st_blocks * 512;
		return 0;
	}
	str_copy(j.name, sizeof(j.name), name);
	/* An ordinary user may not read what belongs to the box's other ids, but box root may. */
	r = tree_usage(dir_fd, name, &j.bytes, &j.files, e);
	if (r == -EACCES && h->ids.kind == IDS_SUBORDINATE)
		r = inside_run(&h->ids, &j.job, sizeof(j), e);
	if (r == -ENOENT)
		return 0;
	*ret_bytes = j.bytes;
	return r;
}

int keep_layer_bytes(struct helper *h, const char *id, uint64_t *ret_bytes, struct err *e)
{
	struct layer_meta meta;

	if (layer_read(&h->state, id, &meta) == 0 && meta.bytes > 0) {
		*ret_bytes = meta.bytes;
		return 0;
	}
	return keep_usage(h, h->state.layers_fd, id, ret_bytes, e);
}

/* Every "digest" anywhere in it: more than is needed is harmless. */
static int add_digests(json_t *set, json_t *value)
{
	static const char prefix[] = "sha256:";
	const char *key, *text;
	json_t *v;
	size_t i;
	int r = 0;

	json_object_foreach(value, key, v)
	{
		text = strcmp(key, "digest") == 0 ? json_string_value(v) : NULL;
		if (text && str_starts(text, prefix))
			r = json_object_set_new(set, text + strlen(prefix), json_true());
		else
			r = add_digests(set, v);
		if (r < 0)
			return r;
	}
	json_array_foreach(value, i, v)
	{
		r = add_digests(set, v);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_manifest(struct helper *h, json_t *set, const char *digest, struct err *e)
{
	autofree char *text = NULL;
	json_t *manifest;
	size_t len;
	int r;

	/* An image can be used without its blobs: one that is gone names nothing. */
	if (!blobs_has(&h->state, digest))
		return 0;
	r = blobs_read(&h->state, digest, OCI_MANIFEST_MAX, &text, &len, e);
	if (r < 0)
		return r;
	manifest = json_loadb(text, len, 0, NULL);
	r = manifest ? add_digests(set, manifest) : 0;
	json_decref(manifest);
	return r < 0 ? err_errno(e, ENOMEM, "look through the blobs") : 0;
}

/* Manifests of an index are named by it and name more. */
static int add_indexed(struct helper *h, json_t *set, struct err *e)
{
	for (int depth = 0; depth < INDEX_DEPTH; depth++) {
		size_t before = json_object_size(set);
		json_t *known = json_copy(set), *v;
		const char *digest;
		struct stat st;
		int r = known ? 0 : err_errno(e, ENOMEM, "look through the blobs");
		char path[80];

		json_object_foreach(known, digest, v)
		{
			snprintf(path, sizeof(path), "blobs/%.64s", digest);
			if (r < 0 || fstatat(h->state.home_fd, path, &st, 0) < 0 ||
			    (uint64_t)st.st_size > OCI_MANIFEST_MAX)
				continue;
			r = add_manifest(h, set, digest, e);
		}
		json_decref(known);
		if (r < 0 || json_object_size(set) == before)
			return r;
	}
	return 0;
}

static bool is_among(json_t *names, const char *name)
{
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *other = json_string_value(json_array_get(names, i));

		if (other && strcmp(other, name) == 0)
			return true;
	}
	return false;
}

int keep_blob_refs(struct helper *h, json_t *without, json_t **ret, struct err *e)
{
	struct refs strict = {0};
	struct image *list = NULL;
	json_t *set = json_object();
	size_t count = 0;
	int r = set ? image_refs(&h->state, &strict, e) : -ENOMEM;

	/* A list leaves out images that cannot be read, which are an error here. */
	refs_done(&strict);
	if (r == 0)
		r = image_list(&h->state, &list, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		const char *digests[] = {list[i].digest, list[i].config_digest};

		for (size_t k = 0; r == 0 && k < 2; k++)
			if (digests[k] && !is_among(without, list[i].name) &&
			    json_object_set_new(set, digests[k], json_true()) < 0)
				r = -ENOMEM;
	}
	image_list_free(list, count);
	if (r == -ENOMEM)
		r = err_errno(e, ENOMEM, "look through the images");
	if (r == 0)
		r = add_indexed(h, set, e);
	if (r < 0) {
		json_decref(set);
		return r;
	}
	*ret = set;
	return 0;
}

static int add_cached(void *arg, const char *layer)
{
	return json_object_set_new(arg, layer, json_true()) < 0 ? -ENOMEM : 0;
}

int keep_cached(struct db *db, json_t **ret, struct err *e)
{
	json_t *set = json_object();
	int r = set ? db_cache_each(db, add_cached, set, e) : -ENOMEM;

	if (r < 0) {
		json_decref(set);
		return r == -ENOMEM ? err_errno(e, ENOMEM, "look through the build cache") : r;
	}
	*ret = set;
	return 0;
}

int keep_say(struct helper *h, const char *kind, const char *name, uint64_t bytes)
{
	struct buf b;
	int r;

	buf_init(&b, 4096);
	r = lines_put(&b, "kind", kind);
	if (r == 0)
		r = lines_put(&b, "name", name);
	if (r == 0)
		r = lines_put_u64(&b, "bytes", bytes);
	if (r == 0)
		r = helper_progress(h, &b);
	buf_done(&b);
	return r;
}
