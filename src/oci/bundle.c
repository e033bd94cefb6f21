/*
 * Archives of images; see bundle.h.
 *
 * How it works
 *
 * A tar is read once, from its beginning, since it may be a pipe: every file in it becomes a blob
 * that is named after its hash, and a list keeps which name had which. Only then do its texts say
 * what the names mean. Names are looked up in that list and nowhere else. Of a directory only those
 * blobs are read that its index leads to.
 *
 * Every blob that was not there before is remembered, and goes again if in the end no image uses
 * it.
 */
#include "oci/bundle.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "oci/bundle_docker.h"
#include "store/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOBS_PREFIX "blobs/sha256/"

enum { ARCHIVE_BLOCK = 256 << 10 };

/* ---- is it one? ---- */

struct bundle_sniff {
	bool decided, is_archive;
};

static bool is_hex_name(const char *path, const char *suffix)
{
	return strspn(path, "0123456789abcdef") == 64 && strcmp(path + 64, suffix) == 0;
}

static bool is_archive_name(const char *path)
{
	return strcmp(path, "oci-layout") == 0 || strcmp(path, "index.json") == 0 ||
	       strcmp(path, "manifest.json") == 0 || strcmp(path, "repositories") == 0 ||
	       str_starts(path, BLOBS_PREFIX) || is_hex_name(path, ".json") ||
	       is_hex_name(path, ".tar") || is_hex_name(path, "/layer.tar") ||
	       is_hex_name(path, "/json") || is_hex_name(path, "/VERSION");
}

/* By the first thing that is no directory. */
static int sniff_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	struct bundle_sniff *s = arg;

	if (entry->type == TAR_DIR)
		return 0;
	s->decided = true;
	s->is_archive = is_archive_name(entry->path);
	return -ECANCELED;
}

static int sniff_data(void *arg, const void *p, size_t n, struct err *e)
{
	return 0;
}

int oci_bundle_is(struct expand *x, bool *ret, struct err *e)
{
	static const struct tar_ops ops = {sniff_entry, sniff_data, NULL};
	struct bundle_sniff s = {0};
	size_t fed = 0;
	struct tar t;
	int r = 0;

	tar_init(&t, &ops, &s);
	/* A pipe's writer may wait for us before it goes on: no more is read than is needed. */
	for (size_t want = 4096; r == 0 && !s.decided; want *= 2) {
		size_t n = want < EXPAND_PEEK_MAX ? want : EXPAND_PEEK_MAX;

		r = expand_peek(x, n, e);
		if (r < 0 || x->head_len == fed)
			break;
		if (tar_feed(&t, x->head + fed, x->head_len - fed, NULL) < 0)
			break;
		fed = x->head_len;
		if (fed < n || n == EXPAND_PEEK_MAX)
			break;
	}
	tar_done(&t);
	*ret = s.is_archive;
	return r;
}

/* ---- blobs ---- */

static int remember_made(struct oci_bundle *a, const char *digest, struct err *e)
{
	if (a->made_count == a->made_cap) {
		size_t cap = a->made_cap ? 2 * a->made_cap : 16;
		void *more = reallocarray(a->made, cap, sizeof(*a->made));

		if (!more)
			return err_errno(e, ENOMEM, "read an archive");
		a->made = more;
		a->made_cap = cap;
	}
	str_copy(a->made[a->made_count++], BLOB_DIGEST, digest);
	return 0;
}

/* Ends a blob; it is remembered before it has its name, so that it cannot be forgotten. */
static int end_blob(struct oci_bundle *a, struct blob_put *p, char ret[BLOB_DIGEST], struct err *e)
{
	static const char digits[] = "0123456789abcdef";
	struct sha sha = p->sha;
	uint8_t sum[SHA256_BYTES];
	int r = 0;

	sha_end(&sha, sum);
	for (size_t i = 0; i < sizeof(sum); i++) {
		ret[2 * i] = digits[sum[i] >> 4];
		ret[2 * i + 1] = digits[sum[i] & 15];
	}
	ret[64] = 0;
	/* One that is damaged is replaced; it is an image's already. */
	if (!blobs_has(a->c->state, ret))
		r = remember_made(a, ret, e);
	if (r == 0)
		return blobs_end(a->c->state, p, e);
	blobs_drop(p);
	return r;
}

int oci_bundle_put(struct oci_bundle *a, const void *data, size_t n, char ret[BLOB_DIGEST],
		   struct err *e)
{
	struct blob_put p;
	int r = blobs_begin(a->c->state, NULL, n, &p, e);

	if (r < 0)
		return r;
	r = blobs_add(a->c->state, &p, data, n, e);
	if (r < 0) {
		blobs_drop(&p);
		return r;
	}
	return end_blob(a, &p, ret, e);
}

/* ---- a tar ---- */

struct bundle_reading {
	struct oci_bundle *a;
	struct blob_put blob;
	bool in_blob;
	struct buf *text; /* of the file being read, where it is a text; NULL */
	struct buf index, manifest;
};

static int bad(struct err *e, const char *what, const char *path)
{
	struct buf b;
	int r;

	buf_init(&b, 4 * TAR_NAME_MAX);
	str_escape(&b, path, strlen(path));
	r = err_set(e, ERR_INVALID, EBADMSG, "the archive has %s: '%.100s'", what,
		    buf_cstr(&b) ? buf_cstr(&b) : "?");
	buf_done(&b);
	return r;
}

const struct oci_bundle_file *oci_bundle_find(const struct oci_bundle *a, const char *name)
{
	for (size_t i = 0; i < a->file_count; i++)
		if (strcmp(a->files[i].name, name) == 0)
			return &a->files[i];
	return NULL;
}

static int add_file(struct oci_bundle *a, const struct tar_entry *entry, struct err *e)
{
	struct oci_bundle_file *f;

	if (oci_bundle_find(a, entry->path))
		return bad(e, "a name twice", entry->path);
	if (a->file_count == OCI_ARCHIVE_FILES_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the archive has more than %u files",
			       OCI_ARCHIVE_FILES_MAX);
	f = reallocarray(a->files, a->file_count + 1, sizeof(*f));
	if (!f)
		return err_errno(e, ENOMEM, "read an archive");
	a->files = f;
	f = &a->files[a->file_count];
	*f = (struct oci_bundle_file){.name = strdup(entry->path), .size = entry->size};
	if (!f->name)
		return err_errno(e, ENOMEM, "read an archive");
	a->file_count++;
	return 0;
}

/* Docker's old archives have one layer under several names; a link leads from one to another. */
static int add_link(struct oci_bundle *a, const struct tar_entry *entry, struct err *e)
{
	const char *slash = strrchr(entry->path, '/');
	char joined[2 * TAR_NAME_MAX + 4], clean[2 * TAR_NAME_MAX + 4];
	bool is_hard = entry->type == TAR_HARDLINK || entry->target[0] == '/';
	int r = add_file(a, entry, e);

	if (r < 0)
		return r;
	snprintf(joined, sizeof(joined), "/%.*s/%s",
		 slash && !is_hard ? (int)(slash - entry->path) : 0, entry->path, entry->target);
	if (!path_normalize(clean, sizeof(clean), joined) || !clean[1])
		return bad(e, "a link that leads nowhere", entry->path);
	a->files[a->file_count - 1].target = strdup(clean + 1);
	return a->files[a->file_count - 1].target ? 0 : err_errno(e, ENOMEM, "read an archive");
}

/* What no one reads any more: the form before Docker 1.10. */
static bool is_leftover(const char *path)
{
	const char *base = path_base(path);

	return strcmp(path, "repositories") == 0 || strcmp(path, "oci-layout") == 0 ||
	       (base != path && (strcmp(base, "json") == 0 || strcmp(base, "VERSION") == 0));
}

static int on_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	struct bundle_reading *rd = arg;
	int r;

	if (entry->type == TAR_DIR)
		return 0;
	if (entry->type == TAR_SYMLINK || entry->type == TAR_HARDLINK)
		return add_link(rd->a, entry, e);
	if (entry->type != TAR_FILE)
		return bad(e, "something that is no file", entry->path);
	r = add_file(rd->a, entry, e);
	if (r < 0 || is_leftover(entry->path))
		return r;
	if (strcmp(entry->path, "index.json") == 0)
		rd->text = &rd->index;
	else if (strcmp(entry->path, "manifest.json") == 0)
		rd->text = &rd->manifest;
	if (rd->text)
		return entry->size <= OCI_MANIFEST_MAX ? 0 : bad(e, "too long a text", entry->path);
	r = blobs_begin(rd->a->c->state, NULL, entry->size, &rd->blob, e);
	rd->in_blob = r == 0;
	return r;
}

static int on_data(void *arg, const void *p, size_t n, struct err *e)
{
	struct bundle_reading *rd = arg;

	if (rd->text)
		return buf_append(rd->text, p, n) < 0 ? err_errno(e, ENOMEM, "read an archive") : 0;
	return rd->in_blob ? blobs_add(rd->a->c->state, &rd->blob, p, n, e) : 0;
}

static int on_entry_end(void *arg, struct err *e)
{
	struct bundle_reading *rd = arg;
	struct oci_bundle_file *f = rd->a->files ? &rd->a->files[rd->a->file_count - 1] : NULL;
	int r;

	rd->text = NULL;
	if (!rd->in_blob)
		return 0;
	rd->in_blob = false;
	r = end_blob(rd->a, &rd->blob, f->digest, e);
	if (r < 0)
		return r;
	if (str_starts(f->name, BLOBS_PREFIX) &&
	    strcmp(f->name + strlen(BLOBS_PREFIX), f->digest) != 0)
		return bad(e, "a blob that is not what its digest says", f->name);
	if (strspn(f->name, "0123456789abcdef") == 64 && strcmp(f->name + 64, ".json") == 0 &&
	    strncmp(f->name, f->digest, 64) != 0)
		return bad(e, "a config that is not what its name says", f->name);
	return 0;
}

static int feed_all(struct bundle_reading *rd, struct expand *x, struct err *e)
{
	static const struct tar_ops ops = {on_entry, on_data, on_entry_end};
	autofree uint8_t *block = malloc(ARCHIVE_BLOCK);
	struct tar t;
	ssize_t n = 0;
	int r = block ? 0 : err_errno(e, ENOMEM, "read an archive");

	tar_init(&t, &ops, rd);
	while (r == 0 && (n = expand_read(x, block, ARCHIVE_BLOCK)) > 0)
		r = tar_feed(&t, block, (size_t)n, e);
	if (r == 0 && n < 0)
		r = err_errno(e, (int)-n, "read an archive");
	if (r == 0)
		r = tar_finish(&t, e);
	tar_done(&t);
	if (rd->in_blob)
		blobs_drop(&rd->blob);
	return r;
}

/* ---- an index ---- */

static int add_found(struct oci_bundle *a, const char *digest, const char *name, struct err *e)
{
	struct oci_found *f;
	char clean[IMAGE_NAME_MAX + 1] = "";

	/* "latest" alone says nothing. One that cannot be a name here is none. */
	if (name && (strcmp(name, "latest") == 0 || image_name_clean(name, clean, NULL) < 0))
		clean[0] = 0;
	f = reallocarray(a->found, a->found_count + 1, sizeof(*f));
	if (!f)
		return err_errno(e, ENOMEM, "read an archive");
	a->found = f;
	f = &a->found[a->found_count++];
	str_copy(f->digest, sizeof(f->digest), digest);
	str_copy(f->name, sizeof(f->name), clean);
	return 0;
}

int oci_bundle_add(struct oci_bundle *a, const char *digest, const char *name, struct err *e)
{
	return add_found(a, digest, name, e);
}

/* From a directory. One that is in blobs/ already is written all the same: it shows whether the
 * layout's own is what its digest says, and replaces one that a disk damaged. */
static int copy_blob(struct oci_bundle *a, const struct oci_desc *d, int fd, struct err *e)
{
	char path[sizeof(BLOBS_PREFIX) + BLOB_DIGEST], digest[BLOB_DIGEST];
	autofree uint8_t *block = malloc(ARCHIVE_BLOCK);
	struct blob_put p;
	struct stat st;
	ssize_t n = 0;
	int r;

	snprintf(path, sizeof(path), BLOBS_PREFIX "%s", d->digest);
	if (!block)
		return err_errno(e, ENOMEM, "read a layout");
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "open '%s' of the layout", path);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != d->size)
		return bad(e, "a blob that is no file or of another size than was said", path);
	r = blobs_begin(a->c->state, NULL, d->size, &p, e);
	if (r < 0)
		return r;
	while (r == 0 && (n = fd_read_full(fd, block, ARCHIVE_BLOCK)) > 0)
		r = blobs_add(a->c->state, &p, block, (size_t)n, e);
	if (r == 0 && n < 0)
		r = err_errno(e, (int)-n, "read '%s' of the layout", path);
	if (r < 0) {
		blobs_drop(&p);
		return r;
	}
	r = end_blob(a, &p, digest, e);
	if (r == 0 && strcmp(digest, d->digest) != 0)
		r = bad(e, "a blob that is not what its digest says", path);
	return r;
}

/* 1: the layout has no such file. */
static int take_from_dir(struct oci_bundle *a, const struct oci_desc *d, struct err *e)
{
	char path[sizeof(BLOBS_PREFIX) + BLOB_DIGEST];

	snprintf(path, sizeof(path), BLOBS_PREFIX "%s", d->digest);
	autoclose int fd = fd_openat2(a->dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
				      FD_BENEATH | FD_NO_SYMLINKS);
	if (fd == -ENOENT)
		return 1;
	if (fd < 0)
		return err_errno(e, -fd, "open '%s' of the layout", path);
	return copy_blob(a, d, fd, e);
}

/* Sees to it that a blob is in blobs/, and is as long as was said. */
static int need_blob(struct oci_bundle *a, const struct oci_desc *d, struct err *e)
{
	uint64_t size;
	int r = a->dir_fd >= 0 ? take_from_dir(a, d, e) : 1;

	if (r <= 0)
		return r;
	autoclose int fd = -1;
	r = blobs_open(a->c->state, d->digest, &fd, &size, e);
	if (r < 0)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the archive has no blob sha256:%.12s..., which it names",
			       d->digest);
	return size == d->size ? 0
			       : err_set(e, ERR_INVALID, EBADMSG,
					 "blob sha256:%.12s... of the archive has another size "
					 "than was said",
					 d->digest);
}

/* The manifest that a descriptor leads to, through an index of platforms if need be, with all that
 * it names. */
static int follow(struct oci_bundle *a, const struct oci_desc *d, const char *name, unsigned depth,
		  struct err *e)
{
	struct oci_manifest m = {0};
	const struct oci_desc *next;
	autofree char *text = NULL;
	size_t n;
	int r = need_blob(a, d, e);

	if (r == 0)
		r = blobs_read(a->c->state, d->digest, OCI_MANIFEST_MAX, &text, &n, e);
	if (r == 0)
		r = oci_manifest_parse(text, n, d->type[0] ? d->type : NULL, &m, e);
	if (r < 0)
		return r;
	if (m.is_index) {
		r = depth < 4 ? oci_index_find(&m, a->platform, &next, e)
			      : err_set(e, ERR_LIMIT, ELOOP, "an index in an index in an index");
		if (r == 0)
			r = follow(a, next, name, depth + 1, e);
	} else {
		r = need_blob(a, &m.config, e);
		for (size_t i = 0; i < m.count && r == 0; i++)
			r = need_blob(a, &m.items[i], e);
		if (r == 0)
			r = add_found(a, d->digest, name, e);
	}
	oci_manifest_done(&m);
	return r;
}

/* What an entry of index.json is called. */
static const char *name_of(json_t *entry)
{
	json_t *notes = json_object_get(entry, "annotations");
	const char *name = json_string_value(json_object_get(notes, "io.containerd.image.name"));

	if (name)
		return name;
	return json_string_value(json_object_get(notes, "org.opencontainers.image.ref.name"));
}

/* Those of one image for several platforms have one name, or none: then it is a choice. */
static bool is_choice(const struct oci_manifest *m, json_t *list)
{
	const char *first = name_of(json_array_get(list, 0));

	for (size_t i = 0; i < m->count; i++) {
		const char *name = name_of(json_array_get(list, i));

		if (!m->items[i].platform.os[0] || !name != !first ||
		    (name && strcmp(name, first) != 0))
			return false;
	}
	return m->count > 1;
}

static int read_index(struct oci_bundle *a, struct err *e)
{
	json_t *root = NULL, *list;
	const struct oci_desc *d;
	struct oci_manifest m = {0};
	int r = oci_manifest_parse(a->index, a->index_len, NULL, &m, e);

	if (r == 0 && !m.is_index)
		r = err_set(e, ERR_INVALID, EBADMSG, "index.json of the archive is no index");
	if (r == 0)
		root = json_loadb(a->index, a->index_len, JSON_REJECT_DUPLICATES, NULL);
	list = json_object_get(root, "manifests");
	if (r == 0 && is_choice(&m, list)) {
		r = oci_index_find(&m, a->platform, &d, e);
		if (r == 0)
			r = follow(a, d, name_of(json_array_get(list, (size_t)(d - m.items))), 0,
				   e);
	} else {
		for (size_t i = 0; i < m.count && r == 0; i++)
			r = follow(a, &m.items[i], name_of(json_array_get(list, i)), 0, e);
	}
	json_decref(root);
	oci_manifest_done(&m);
	return r;
}

static int read_texts(struct oci_bundle *a, struct err *e)
{
	int r;

	if (a->index)
		r = read_index(a, e);
	else if (a->manifest)
		r = oci_bundle_read_docker(a, e);
	else
		r = err_set(e, ERR_INVALID, EBADMSG,
			    "the archive has neither index.json nor manifest.json, so no image");
	if (r == 0 && a->found_count == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "the archive holds no image");
	return r;
}

static char *copy_text(struct buf *b, size_t *ret_len)
{
	*ret_len = buf_len(b);
	return buf_len(b) && buf_cstr(b) ? strdup(buf_cstr(b)) : NULL;
}

int oci_bundle_read_tar(struct oci_bundle *a, struct expand *x, struct err *e)
{
	struct bundle_reading rd = {.a = a};
	int r = blobs_hold(a->c->state, &a->hold_fd, e);

	if (r < 0)
		return r;
	buf_init(&rd.index, OCI_MANIFEST_MAX + 1);
	buf_init(&rd.manifest, OCI_MANIFEST_MAX + 1);
	r = feed_all(&rd, x, e);
	a->index = copy_text(&rd.index, &a->index_len);
	a->manifest = copy_text(&rd.manifest, &a->manifest_len);
	buf_done(&rd.index);
	buf_done(&rd.manifest);
	r = expand_close(x, r, e);
	return r < 0 ? r : read_texts(a, e);
}

int oci_bundle_read_dir(struct oci_bundle *a, int dir_fd, struct err *e)
{
	int r = blobs_hold(a->c->state, &a->hold_fd, e);

	if (r < 0)
		return r;
	a->dir_fd = dir_fd;
	r = fd_read_file(dir_fd, "index.json", OCI_MANIFEST_MAX, &a->index, &a->index_len);
	if (r < 0)
		return err_errno(e, -r, "read index.json of the layout");
	return read_texts(a, e);
}

/* ---- what stays ---- */

/* Does an image use the blob? Where one cannot be read it is taken for used. */
static bool is_used(struct oci_bundle *a, const struct image *list, size_t count,
		    const char *digest)
{
	bool used = false;

	for (size_t i = 0; i < count && !used; i++) {
		struct oci_manifest m = {0};
		autofree char *text = NULL;
		size_t n;

		if (!list[i].digest)
			continue;
		if (blobs_read(a->c->state, list[i].digest, OCI_MANIFEST_MAX, &text, &n, NULL) <
			    0 ||
		    oci_manifest_parse(text, n, NULL, &m, NULL) < 0)
			return true;
		used = strcmp(list[i].digest, digest) == 0 || strcmp(m.config.digest, digest) == 0;
		for (size_t k = 0; k < m.count && !used; k++)
			used = strcmp(m.items[k].digest, digest) == 0;
		oci_manifest_done(&m);
	}
	return used;
}

static void remove_unused(struct oci_bundle *a)
{
	autoclose int lock_fd = -1;
	struct image *list = NULL;
	size_t count = 0;

	/* Others may be about to use them; then `cove image gc` finds them later. */
	if (a->made_count == 0 || blobs_lock(a->c->state, &lock_fd, NULL) < 0 ||
	    image_list(a->c->state, &list, &count, NULL) < 0)
		return;
	for (size_t i = 0; i < a->made_count; i++)
		if (!is_used(a, list, count, a->made[i]))
			blobs_remove(a->c->state, a->made[i], NULL);
	image_list_free(list, count);
}

void oci_bundle_done(struct oci_bundle *a)
{
	fd_close(&a->hold_fd);
	remove_unused(a);
	for (size_t i = 0; i < a->file_count; i++) {
		free(a->files[i].name);
		free(a->files[i].target);
	}
	free(a->files);
	free(a->made);
	free(a->index);
	free(a->manifest);
	free(a->found);
}
