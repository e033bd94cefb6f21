/*
 * Giving an image away; see export.h.
 *
 * How it works
 *
 * First everything that goes into the archive is known by digest and size: blobs that are there,
 * texts that are made here, and layers, which are packed once only to be hashed and a second time
 * to be written (a layer never changes, so both come out alike; that is checked). Then it is
 * written from its beginning, which may be a pipe.
 */
#include "oci/export.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/sha.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/manifest.h"
#include "store/image.h"
#include "store/layer.h"
#include "store/layer_tar.h"
#include "store/tar_write.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXPORT_BLOCK = 256 << 10 };

/* One blob of the archive: of three sources. */
struct export_part {
	char digest[BLOB_DIGEST];
	uint64_t size;
	char *text;	   /* owned; else NULL */
	const char *layer; /* else its id; NULL: it is in blobs/ */
};

struct export
{
	struct oci_ctx *c;
	struct image *im; /* owned */
	enum oci_format format;
	int out_fd;
	struct export_part *parts; /* owned */
	size_t count;
	char layer_digests[OCI_LAYERS_MAX][BLOB_DIGEST]; /* bottom first */
	size_t layer_count;
	char config[BLOB_DIGEST], manifest[BLOB_DIGEST];
	char manifest_type[OCI_TYPE_MAX + 1];
	uint64_t manifest_size, done, total;
	bool is_original;
};

/* ---- what goes into it ---- */

static struct export_part *add_part(struct export *x, const char *digest, uint64_t size,
				    struct err *e)
{
	struct export_part *p;

	for (size_t i = 0; i < x->count; i++)
		if (strcmp(x->parts[i].digest, digest) == 0)
			return &x->parts[i];
	p = reallocarray(x->parts, x->count + 1, sizeof(*p));
	if (!p) {
		err_errno(e, ENOMEM, "export an image");
		return NULL;
	}
	x->parts = p;
	p = &x->parts[x->count++];
	*p = (struct export_part){.size = size};
	str_copy(p->digest, sizeof(p->digest), digest);
	x->total += size;
	return p;
}

static int add_text(struct export *x, const char *text, char ret[BLOB_DIGEST], struct err *e)
{
	struct export_part *p;

	sha256_hex(text, strlen(text), ret);
	p = add_part(x, ret, strlen(text), e);
	if (p && !p->text)
		p->text = strdup(text);
	return p && p->text ? 0 : -ENOMEM;
}

/* 1: the blob is not there, so that all is packed anew. One that was found damaged is an error:
 * what is packed has another digest, and getting the image again brings the original. */
static int find_original(struct export *x, const char *digest, struct err *e)
{
	if (blobs_has(x->c->state, digest))
		return 0;
	return blobs_is_aside(x->c->state, digest) ? blobs_damaged(digest, e) : 1;
}

/* The manifest, config and layers it came as. 1: not all of them are there any more. */
static int plan_original(struct export *x, struct err *e)
{
	struct oci_manifest m = {0};
	autofree char *text = NULL;
	size_t n;
	int r;

	r = x->im->digest ? find_original(x, x->im->digest, e) : 1;
	if (r != 0)
		return r;
	r = blobs_read(x->c->state, x->im->digest, OCI_MANIFEST_MAX, &text, &n, e);
	if (r == 0)
		r = oci_manifest_parse(text, n, NULL, &m, e);
	if (r < 0)
		return r;
	r = find_original(x, m.config.digest, e);
	for (size_t i = 0; i < m.count && r == 0; i++)
		r = find_original(x, m.items[i].digest, e);
	if (r == 0 && !add_part(x, m.config.digest, m.config.size, e))
		r = -ENOMEM;
	for (size_t i = 0; i < m.count && r == 0; i++) {
		str_copy(x->layer_digests[i], BLOB_DIGEST, m.items[i].digest);
		r = add_part(x, m.items[i].digest, m.items[i].size, e) ? 0 : -ENOMEM;
	}
	if (r == 0 && !add_part(x, x->im->digest, n, e))
		r = -ENOMEM;
	x->layer_count = m.count;
	str_copy(x->config, sizeof(x->config), m.config.digest);
	str_copy(x->manifest, sizeof(x->manifest), x->im->digest);
	x->manifest_size = n;
	str_copy(x->manifest_type, sizeof(x->manifest_type),
		 strcmp(m.config.type, OCI_TYPE_DOCKER_CONFIG) == 0 ? OCI_TYPE_DOCKER
								    : OCI_TYPE_MANIFEST);
	x->is_original = r == 0;
	oci_manifest_done(&m);
	return r;
}

static int open_layer(struct export *x, const char *id, int *ret_fd, struct err *e)
{
	char path[1024];
	int fd, r = layer_root(x->c->state, id, path, sizeof(path));

	if (r < 0)
		return err_set(e, ERR_DAMAGED, ENOENT, "layer %.12s of the image is gone", id);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "open layer %.12s", id);
	*ret_fd = fd;
	return 0;
}

static int plan_layer(struct export *x, size_t at, struct err *e)
{
	const struct layer_tar_how how = {.form = LAYER_TAR_LAYER};
	struct layer_tar_result result;
	struct export_part *p;
	autoclose int fd = -1;
	int r;

	for (size_t i = 0; i < at; i++)
		if (strcmp(x->im->layers[i], x->im->layers[at]) == 0) {
			str_copy(x->layer_digests[at], BLOB_DIGEST, x->layer_digests[i]);
			return 0;
		}
	r = open_layer(x, x->im->layers[at], &fd, e);
	if (r == 0)
		r = layer_tar_pack_as(x->c->ids, &fd, 1, -1, &how, &result, e);
	if (r < 0)
		return r;
	str_copy(x->layer_digests[at], BLOB_DIGEST, result.diff);
	p = add_part(x, result.diff, result.stream_bytes, e);
	if (!p)
		return -ENOMEM;
	p->layer = x->im->layers[at];
	return 0;
}

static json_t *desc_of(const char *type, const char *digest, uint64_t size)
{
	char text[80];

	snprintf(text, sizeof(text), "sha256:%s", digest);
	return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", text, "size",
			 (json_int_t)size);
}

static uint64_t size_of(const struct export *x, const char *digest)
{
	for (size_t i = 0; i < x->count; i++)
		if (strcmp(x->parts[i].digest, digest) == 0)
			return x->parts[i].size;
	return 0;
}

static int make_manifest(struct export *x, struct err *e)
{
	json_t *list = json_array(), *root;
	autofree char *text = NULL;

	for (size_t i = 0; i < x->layer_count; i++)
		json_array_append_new(list, desc_of(OCI_TYPE_LAYER, x->layer_digests[i],
						    size_of(x, x->layer_digests[i])));
	root = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", OCI_TYPE_MANIFEST,
			 "config", desc_of(OCI_TYPE_CONFIG, x->config, size_of(x, x->config)),
			 "layers", list);
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	if (!text)
		return err_errno(e, ENOMEM, "export an image");
	x->manifest_size = strlen(text);
	str_copy(x->manifest_type, sizeof(x->manifest_type), OCI_TYPE_MANIFEST);
	return add_text(x, text, x->manifest, e);
}

static int plan_packed(struct export *x, struct err *e)
{
	struct buf config;
	int r = 0;

	x->layer_count = x->im->layer_count;
	if (x->layer_count > OCI_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the image has more than %u layers",
			       OCI_LAYERS_MAX);
	for (size_t i = 0; i < x->layer_count && r == 0; i++)
		r = plan_layer(x, i, e);
	if (r < 0)
		return r;
	buf_init(&config, OCI_CONFIG_MAX);
	r = oci_config_format(x->im, (const char(*)[65])x->layer_digests, x->layer_count, &config,
			      e);
	if (r == 0)
		r = buf_cstr(&config) ? add_text(x, buf_cstr(&config), x->config, e)
				      : err_errno(e, ENOMEM, "export an image");
	buf_done(&config);
	return r < 0 ? r : make_manifest(x, e);
}

/* ---- writing ---- */

static int say(struct export *x, uint64_t more, struct err *e)
{
	struct oci_progress p = {.what = "write", .total = x->total};
	int r;

	x->done += more;
	p.done = x->done;
	r = x->c->on_progress ? x->c->on_progress(x->c->arg, &p) : 0;
	return r < 0 ? err_set(e, ERR_INTERRUPTED, -r, "the export was stopped") : 0;
}

static int put_bytes(struct export *x, int fd, const void *p, size_t n, struct err *e)
{
	int r = fd_write_full(fd, p, n);

	return r < 0 ? err_errno(e, -r, "write the archive") : say(x, n, e);
}

static int put_blob(struct export *x, const struct export_part *p, int fd, struct err *e)
{
	autofree uint8_t *block = malloc(EXPORT_BLOCK);
	autoclose int from = -1;
	struct sha sha;
	uint8_t sum[SHA256_BYTES];
	char is[BLOB_DIGEST];
	ssize_t n = 0;
	int r = block ? blobs_open(x->c->state, p->digest, &from, NULL, e)
		      : err_errno(e, ENOMEM, "export an image");

	sha256_init(&sha);
	while (r == 0 && (n = fd_read_full(from, block, EXPORT_BLOCK)) > 0) {
		sha_add(&sha, block, (size_t)n);
		r = put_bytes(x, fd, block, (size_t)n, e);
	}
	if (r == 0 && n < 0)
		r = err_errno(e, (int)-n, "read a blob");
	sha_end(&sha, sum);
	str_hex(sum, sizeof(sum), is);
	/* Looked at once more, it is moved aside, so that getting the image again heals it. */
	if (r == 0 && strcmp(is, p->digest) != 0 && blobs_verify(x->c->state, p->digest, e) == 0)
		r = err_set(e, ERR_DAMAGED, EBADMSG, "blobs/%s changed while it was exported",
			    p->digest);
	else if (r == 0 && strcmp(is, p->digest) != 0)
		r = -EBADMSG;
	return r;
}

static int put_layer(struct export *x, const struct export_part *p, int fd, struct err *e)
{
	const struct layer_tar_how how = {.form = LAYER_TAR_LAYER};
	struct layer_tar_result result;
	autoclose int root_fd = -1;
	int r = open_layer(x, p->layer, &root_fd, e);

	if (r == 0)
		r = layer_tar_pack_as(x->c->ids, &root_fd, 1, fd, &how, &result, e);
	if (r == 0 && strcmp(result.diff, p->digest) != 0)
		r = err_set(e, ERR_DAMAGED, EBADMSG, "layer %.12s changed while it was exported",
			    p->layer);
	return r < 0 ? r : say(x, p->size, e);
}

static int put_part(struct export *x, const struct export_part *p, int fd, struct err *e)
{
	if (p->text)
		return put_bytes(x, fd, p->text, strlen(p->text), e);
	return p->layer ? put_layer(x, p, fd, e) : put_blob(x, p, fd, e);
}

/* A file or directory of the layout; in a tar always alike, whoever writes it and when. */
static int put_header(struct export *x, const char *path, uint64_t size, bool is_dir, struct err *e)
{
	const struct tar_entry entry = {.type = is_dir ? TAR_DIR : TAR_FILE,
					.path = path,
					.target = "",
					.mode = is_dir ? 0755 : 0644,
					.size = size};
	struct buf b;
	int r;

	buf_init(&b, 1 << 16);
	r = tar_write_entry(&b, &entry) < 0 ? err_errno(e, ENOMEM, "write the archive") : 0;
	if (r == 0) {
		r = fd_write_full(x->out_fd, buf_data(&b), buf_len(&b));
		r = r < 0 ? err_errno(e, -r, "write the archive") : 0;
	}
	buf_done(&b);
	return r;
}

static int put_padding(struct export *x, uint64_t size, struct err *e)
{
	static const char zeros[2 * TAR_BLOCK];
	int r = fd_write_full(x->out_fd, zeros, (size_t)(-size % TAR_BLOCK));

	return r < 0 ? err_errno(e, -r, "write the archive") : 0;
}

static int put_dir(struct export *x, const char *path, struct err *e)
{
	if (x->format != OCI_FORMAT_OCI_DIR)
		return put_header(x, path, 0, true, e);
	return mkdirat(x->out_fd, path, 0755) < 0 ? err_errno(e, errno, "make '%s'", path) : 0;
}

static int put_file(struct export *x, const char *path, const struct export_part *p, struct err *e)
{
	autoclose int fd = -1;
	int r;

	if (x->format != OCI_FORMAT_OCI_DIR) {
		r = put_header(x, path, p->size, false, e);
		if (r == 0)
			r = put_part(x, p, x->out_fd, e);
		return r < 0 ? r : put_padding(x, p->size, e);
	}
	fd = openat(x->out_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_errno(e, errno, "make '%s'", path);
	r = put_part(x, p, fd, e);
	if (r == 0 && fsync(fd) < 0)
		r = err_errno(e, errno, "sync '%s'", path);
	return r;
}

static int put_json(struct export *x, const char *path, json_t *root, struct err *e)
{
	struct export_part p = {.text = root ? json_dumps(root, JSON_COMPACT) : NULL};
	int r = -ENOMEM;

	json_decref(root);
	if (p.text) {
		p.size = strlen(p.text);
		x->total += p.size;
		r = put_file(x, path, &p, e);
	} else {
		err_errno(e, ENOMEM, "export an image");
	}
	free(p.text);
	return r;
}

static json_t *index_of(const struct export *x)
{
	json_t *d = desc_of(x->manifest_type, x->manifest, x->manifest_size);
	struct oci_platform p;

	if (x->im->platform && oci_platform_parse(x->im->platform, &p, NULL) == 0) {
		json_t *platform = json_pack("{s:s, s:s}", "architecture", p.arch, "os", p.os);

		if (p.variant[0])
			json_object_set_new(platform, "variant", json_string(p.variant));
		json_object_set_new(d, "platform", platform);
	}
	json_object_set_new(d, "annotations",
			    json_pack("{s:s}", "org.opencontainers.image.ref.name", x->im->name));
	return json_pack("{s:i, s:s, s:[o]}", "schemaVersion", 2, "mediaType", OCI_TYPE_INDEX,
			 "manifests", d);
}

/* What `docker load` reads. A name with a digest in it is no tag. */
static json_t *docker_of(const struct export *x)
{
	json_t *layers = json_array(), *tags = json_array();
	const char *slash = strrchr(x->im->name, '/');
	char text[IMAGE_NAME_MAX + 16];

	for (size_t i = 0; i < x->layer_count; i++) {
		snprintf(text, sizeof(text), "blobs/sha256/%s", x->layer_digests[i]);
		json_array_append_new(layers, json_string(text));
	}
	snprintf(text, sizeof(text), "%s%s", x->im->name,
		 strchr(slash ? slash : x->im->name, ':') ? "" : ":latest");
	if (!strchr(text, '@'))
		json_array_append_new(tags, json_string(text));
	snprintf(text, sizeof(text), "blobs/sha256/%s", x->config);
	return json_pack("[{s:s, s:o, s:o}]", "Config", text, "RepoTags", tags, "Layers", layers);
}

static int write_layout(struct export *x, struct err *e)
{
	char path[BLOB_DIGEST + 16];
	int r = put_json(x, "oci-layout", json_pack("{s:s}", "imageLayoutVersion", "1.0.0"), e);

	if (r == 0)
		r = put_json(x, "index.json", index_of(x), e);
	if (r == 0 && x->format == OCI_FORMAT_DOCKER)
		r = put_json(x, "manifest.json", docker_of(x), e);
	if (r == 0)
		r = put_dir(x, "blobs", e);
	if (r == 0)
		r = put_dir(x, "blobs/sha256", e);
	for (size_t i = 0; i < x->count && r == 0; i++) {
		snprintf(path, sizeof(path), "blobs/sha256/%s", x->parts[i].digest);
		r = put_file(x, path, &x->parts[i], e);
	}
	if (r == 0 && x->format != OCI_FORMAT_OCI_DIR) {
		static const char zeros[2 * TAR_BLOCK];

		r = fd_write_full(x->out_fd, zeros, sizeof(zeros));
		r = r < 0 ? err_errno(e, -r, "write the archive") : 0;
	}
	return r;
}

/* ---- a root filesystem ---- */

static int write_root(struct export *x, struct err *e)
{
	int fds[IMAGE_LAYERS_MAX];
	const struct layer_tar_how how = {.form = LAYER_TAR_ROOT};
	struct layer_tar_result result = {0};
	size_t n = 0;
	int r = 0;

	/* Top first; a layer that is there twice need not be looked at a second time. */
	for (size_t i = x->im->layer_count; i-- > 0 && r == 0;) {
		bool again = false;

		for (size_t k = i + 1; k < x->im->layer_count && !again; k++)
			again = strcmp(x->im->layers[k], x->im->layers[i]) == 0;
		if (!again) {
			r = open_layer(x, x->im->layers[i], &fds[n], e);
			n += r == 0;
		}
	}
	if (r == 0)
		r = layer_tar_pack_as(x->c->ids, fds, n, x->out_fd, &how, &result, e);
	for (size_t i = 0; i < n; i++)
		fd_close(&fds[i]);
	x->done = result.stream_bytes;
	return r;
}

int oci_export(struct oci_ctx *c, const char *image, enum oci_format format, int out_fd,
	       struct oci_exported *ret, struct err *e)
{
	struct export *x = calloc(1, sizeof(*x));
	autoclose int hold_fd = -1;
	int r = -ENOMEM;

	if (x)
		*x = (struct export){.c = c, .format = format, .out_fd = out_fd};
	if (!x || !(x->im = calloc(1, sizeof(*x->im))))
		goto out;
	r = image_find(c->state, image, x->im, e);
	if (r == 0 && x->im->is_host)
		r = err_set(e, ERR_UNSUPPORTED, EINVAL,
			    "'" IMAGE_HOST "' is this machine itself and cannot be exported");
	if (r == 0)
		r = blobs_hold(c->state, &hold_fd, e);
	if (r == 0 && format != OCI_FORMAT_TAR) {
		r = plan_original(x, e);
		if (r > 0)
			r = plan_packed(x, e);
	}
	if (r == 0)
		r = format == OCI_FORMAT_TAR ? write_root(x, e) : write_layout(x, e);
	if (r == 0) {
		*ret = (struct oci_exported){.bytes = x->done, .is_original = x->is_original};
		str_copy(ret->digest, sizeof(ret->digest), x->manifest);
		str_copy(ret->config, sizeof(ret->config), x->config);
	}
	image_done(x->im);
	for (size_t i = 0; i < x->count; i++)
		free(x->parts[i].text);
	free(x->parts);
out:
	if (x)
		free(x->im);
	free(x);
	return r == -ENOMEM ? err_errno(e, ENOMEM, "export an image") : r;
}
