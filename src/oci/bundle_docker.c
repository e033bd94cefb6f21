/*
 * The old form of `docker save`: manifest.json is a list of images, each with the name of a file
 * for its config and of one for every layer; see bundle.h.
 */
#include "oci/bundle_docker.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { LINKS_MAX = 16 };

static int broken(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, EBADMSG, "manifest.json of the archive is broken: %s", what);
}

/* The file behind a name, through links. */
static int find(const struct oci_bundle *a, const char *name, const struct oci_bundle_file **ret,
		struct err *e)
{
	for (unsigned i = 0; name && i < LINKS_MAX; i++) {
		const struct oci_bundle_file *f = oci_bundle_find(a, name);

		if (f && !f->target && f->digest[0]) {
			*ret = f;
			return 0;
		}
		name = f ? f->target : NULL;
	}
	return broken(e, "it names a file that the archive does not have");
}

static json_t *desc_of(const char *type, const struct oci_bundle_file *f)
{
	char digest[80];

	snprintf(digest, sizeof(digest), "sha256:%s", f->digest);
	return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size",
			 (json_int_t)f->size);
}

/* What a layer is, its first bytes say: Docker writes plain tars, others compressed ones. */
static const char *layer_type(struct oci_bundle *a, const struct oci_bundle_file *f)
{
	uint8_t head[4] = {0};
	autoclose int fd = -1;

	if (blobs_open(a->c->state, f->digest, &fd, NULL, NULL) < 0 ||
	    fd_read_full(fd, head, sizeof(head)) < 4)
		return OCI_TYPE_LAYER;
	if (head[0] == 0x1f && head[1] == 0x8b)
		return OCI_TYPE_LAYER "+gzip";
	return memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ? OCI_TYPE_LAYER "+zstd" : OCI_TYPE_LAYER;
}

static int make_manifest(struct oci_bundle *a, json_t *image, char ret[BLOB_DIGEST], struct err *e)
{
	const char *config = json_string_value(json_object_get(image, "Config"));
	json_t *layers = json_object_get(image, "Layers"), *list, *root, *v;
	const struct oci_bundle_file *f = NULL;
	autofree char *text = NULL;
	size_t i;
	int r;

	if (!json_is_object(image) || !config || !json_is_array(layers))
		return broken(e, "an image is none");
	if (json_array_size(layers) > OCI_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the image has %zu layers, the limit is %u",
			       json_array_size(layers), OCI_LAYERS_MAX);
	r = find(a, config, &f, e);
	if (r < 0)
		return r;
	list = json_array();
	root = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", OCI_TYPE_MANIFEST,
			 "config", desc_of(OCI_TYPE_CONFIG, f), "layers", list);
	json_array_foreach(layers, i, v)
	{
		r = find(a, json_string_value(v), &f, e);
		if (r < 0)
			break;
		json_array_append_new(list, desc_of(layer_type(a, f), f));
	}
	text = r == 0 ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	if (r < 0)
		return r;
	if (!text)
		return err_errno(e, ENOMEM, "write a manifest");
	return oci_bundle_put(a, text, strlen(text), ret, e);
}

/* Every tag is an image; one without any is one too. */
static int add_image(struct oci_bundle *a, json_t *image, struct err *e)
{
	json_t *tags = json_object_get(image, "RepoTags"), *v;
	char digest[BLOB_DIGEST];
	size_t i;
	int r = make_manifest(a, image, digest, e);

	if (r < 0 || json_array_size(tags) == 0)
		return r < 0 ? r : oci_bundle_add(a, digest, NULL, e);
	json_array_foreach(tags, i, v) if (r == 0) r =
		oci_bundle_add(a, digest, json_string_value(v), e);
	return r;
}

int oci_bundle_read_docker(struct oci_bundle *a, struct err *e)
{
	json_t *list = json_loadb(a->manifest, a->manifest_len, JSON_REJECT_DUPLICATES, NULL), *v;
	size_t i;
	int r = 0;

	if (!list)
		return broken(e, "it is no JSON");
	if (!json_is_array(list) || json_array_size(list) > OCI_INDEX_ITEMS_MAX)
		r = broken(e, "it is no list of images, or too long a one");
	for (i = 0; r == 0 && i < json_array_size(list); i++) {
		v = json_array_get(list, i);
		r = add_image(a, v, e);
	}
	json_decref(list);
	return r;
}
