/*
 * Layers on disk: directories below layers/ that are whole from the moment they have a name; see
 * layer.h.
 */
#include "store/layer.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "storage/pool.h"
#include "storage/tree.h"
#include "store/refs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define META_FILE "layer"
#define POOL_FILE "pool"
#define TREE_FILE "tree"

static const char *const kinds[] = {[LAYER_IMAGE] = "image", [LAYER_SNAPSHOT] = "snapshot"};

bool layer_is_id(const char *id)
{
	return strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

void layer_random_id(char ret[LAYER_ID_SIZE])
{
	rand_hex(ret, 32);
}

int layer_root(const struct state *s, const char *id, char *ret, size_t size)
{
	static const struct {
		const char *above, *below;
	} places[] = {{"layers/", "/rootfs"}, {"pool/layers/", "/upper"}};
	enum { COUNT = sizeof(places) / sizeof(places[0]) };
	char path[LAYER_ID_SIZE + 24];

	if (strchr(id, '/') || strlen(id) >= LAYER_ID_SIZE)
		return -EINVAL;
	for (size_t i = 0; i < 2 * COUNT; i++) {
		/* Of a pool that has not been used since the machine came up. */
		if (i == COUNT && (s->home_fd < 0 || !pool_is_ready(s->home_fd)))
			break;
		snprintf(path, sizeof(path), "%s%s%s", places[i % COUNT].above, id,
			 places[i % COUNT].below);
		if (s->home_fd < 0 || faccessat(s->home_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		return (size_t)snprintf(ret, size, "%s/%s", s->home, path) < size ? 0
										  : -ENAMETOOLONG;
	}
	return -ENOENT;
}

/* ---- what it is ---- */

static int write_meta(int layer_fd, const struct layer_meta *m)
{
	struct buf b;
	int r;

	buf_init(&b, RECORD_FILE_MAX);
	r = lines_begin_sum(&b);
	if (r == 0)
		r = lines_put(&b, "kind", kinds[m->kind]);
	if (r == 0)
		r = lines_put_u64(&b, "created_ms", m->created_ms);
	if (r == 0)
		r = lines_put_u64(&b, "bytes", m->bytes);
	if (r == 0)
		r = lines_put_u64(&b, "files", m->files);
	if (r == 0 && m->diff[0])
		r = lines_put(&b, "diff", m->diff);
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(layer_fd, META_FILE, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r;
}

static bool take_meta(struct layer_meta *m, const char *key, const char *value)
{
	if (strcmp(key, "kind") == 0) {
		m->kind = strcmp(value, kinds[LAYER_SNAPSHOT]) == 0 ? LAYER_SNAPSHOT : LAYER_IMAGE;
		return strcmp(value, kinds[m->kind]) == 0;
	}
	if (strcmp(key, "created_ms") == 0)
		return str_parse_u64(value, UINT64_MAX, &m->created_ms);
	if (strcmp(key, "bytes") == 0)
		return str_parse_u64(value, UINT64_MAX, &m->bytes);
	if (strcmp(key, "files") == 0)
		return str_parse_u64(value, UINT64_MAX, &m->files);
	return strcmp(key, "diff") == 0 && layer_is_id(value) &&
	       str_copy(m->diff, sizeof(m->diff), value);
}

int layer_read(const struct state *s, const char *id, struct layer_meta *ret)
{
	char path[LAYER_ID_SIZE + 8];
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r;

	*ret = (struct layer_meta){0};
	if (strchr(id, '/') || strlen(id) >= LAYER_ID_SIZE)
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/" META_FILE, id);
	r = s->layers_fd < 0 ? -ENOENT
			     : fd_read_file(s->layers_fd, path, RECORD_FILE_MAX, &text, &len);
	if (r == -ENOENT && s->layers_fd >= 0 &&
	    faccessat(s->layers_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (r < 0)
		return r;
	if (lines_check_sum(text, len) <= 0)
		return -EBADMSG;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (!take_meta(ret, key, value))
			return -EBADMSG;
	return r;
}

int layer_tree_read(const struct state *s, const char *id, char ret[LAYER_ID_SIZE])
{
	char path[LAYER_ID_SIZE + 8];
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	bool found = false;
	size_t len;
	int r;

	if (!layer_is_id(id))
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/" TREE_FILE, id);
	r = fd_read_file(s->layers_fd, path, RECORD_FILE_MAX, &text, &len);
	if (r < 0)
		return r;
	if (lines_check_sum(text, len) != 1)
		return -EBADMSG;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (strcmp(key, "tree") == 0 && layer_is_id(value))
			found = str_copy(ret, LAYER_ID_SIZE, value);
	return r < 0 || !found ? -EBADMSG : 0;
}

static int write_tree(int layer_fd, const char *hash)
{
	struct buf b;
	int r;

	buf_init(&b, RECORD_FILE_MAX);
	r = lines_begin_sum(&b);
	if (r == 0)
		r = lines_put(&b, "tree", hash);
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(layer_fd, TREE_FILE, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r;
}

int layer_tree_write(const struct state *s, const char *id, const char *hash)
{
	autoclose int fd =
		openat(s->layers_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : write_tree(fd, hash);
}

int layers_check(const struct state *s, const char *const *ids, size_t count, struct err *e)
{
	struct layer_meta meta;

	for (size_t i = 0; i < count; i++) {
		int r = layer_read(s, ids[i], &meta);

		if (r == -ENOENT)
			return err_set(e, ERR_CONFLICT, EBUSY,
				       "layer %.12s is gone: the box was removed or rolled back "
				       "meanwhile",
				       ids[i]);
		if (r < 0)
			return err_errno(e, -r, "read layer %.12s", ids[i]);
	}
	return 0;
}

/* ---- making and removing ---- */

static int lock_dir(int fd, int how)
{
	int r;

	do {
		r = flock(fd, how);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int layers_lock(struct state *s, int *ret_fd, struct err *e)
{
	autoclose int fd = openat(s->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return state_error(s, errno, "open the layers in", e);
	r = lock_dir(fd, LOCK_EX);
	if (r < 0)
		return err_errno(e, -r, "lock the layers");
	*ret_fd = take_fd(fd);
	return 0;
}

int layers_hold(const struct state *s)
{
	return lock_dir(s->layers_fd, LOCK_SH);
}

void layers_release(const struct state *s)
{
	(void)lock_dir(s->layers_fd, LOCK_UN);
}

/* Before the directory of a layer goes: its tree in the pool. */
static int drop_pool_tree(const struct state *s, const char *name, struct err *e)
{
	char path[LAYER_ID_SIZE + 8];
	autofree char *id = NULL;
	int r;

	snprintf(path, sizeof(path), "%.*s/" POOL_FILE, (int)LAYER_ID_SIZE, name);
	r = fd_read_file(s->layers_fd, path, LAYER_ID_SIZE, &id, NULL);
	if (r < 0 || !layer_is_id(id))
		return r == -ENOENT || r >= 0 ? 0 : err_errno(e, -r, "read '%s'", path);
	return pool_layer_remove(s->home_fd, id, e);
}

void layers_sweep(struct state *s, const struct ids *ids)
{
	char **names;
	size_t count;

	/* No one waits for this: what cannot be deleted now is tried again by the next sweep. */
	if (state_leftovers(s->layers_fd, &names, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct err e = {0};

		if (drop_pool_tree(s, names[i], &e) < 0 ||
		    tree_remove_as(ids, s->layers_fd, names[i], &e) < 0)
			log_debug("layers/%s stays: %s", names[i], e.msg);
	}
	state_names_free(names, count);
}

int layers_trash(struct state *s, const char *name, char ret_gone[32])
{
	state_gone_name(ret_gone);
	if (renameat(s->layers_fd, name, s->layers_fd, ret_gone) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

void layers_trash_unused(struct state *s, const char *const *ids, size_t count)
{
	struct refs refs;
	struct err e = {0};
	char gone[32];

	if (refs_collect(s, &refs, &e) < 0) {
		log_debug("layers stay: %s", e.msg);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (!refs_has(&refs, ids[i]) && layers_trash(s, ids[i], gone) < 0)
			log_debug("layers/%s stays", ids[i]);
	refs_done(&refs);
}

int layers_new(struct state *s, struct layer_new *ret, struct err *e)
{
	int r = state_new_dir(s->layers_fd, ret->name, &ret->fd);

	return r < 0 ? state_error(s, -r, "make a layer in", e) : 0;
}

int layers_new_in_pool(struct state *s, struct layer_new *l, const char *id, struct err *e)
{
	int r = fd_write_file(l->fd, POOL_FILE, id, strlen(id), 0600, true);

	return r < 0 ? state_error(s, -r, "make a layer in", e) : 0;
}

int layers_place(struct state *s, const struct ids *ids, struct layer_new *l, const char *id,
		 const struct layer_meta *meta, struct err *e)
{
	int r = meta ? write_meta(l->fd, meta) : 0;

	if (r == 0 && meta && meta->diff_is_tree)
		r = write_tree(l->fd, meta->diff);
	if (r == 0 && renameat(s->layers_fd, l->name, s->layers_fd, id) < 0)
		r = -errno;
	if (r < 0)
		layers_drop(s, ids, l);
	/* Who named it first may not have come to the sync yet. */
	if (r < 0 && r != -EEXIST && r != -ENOTEMPTY)
		return state_error(s, -r, "name the layer in", e);
	fd_close(&l->fd);
	return fsync(s->layers_fd) < 0 ? state_error(s, errno, "sync", e) : 0;
}

void layers_drop(struct state *s, const struct ids *ids, struct layer_new *l)
{
	struct err e = {0};

	if (l->fd >= 0 && (drop_pool_tree(s, l->name, &e) < 0 ||
			   tree_remove_as(ids, s->layers_fd, l->name, &e) < 0))
		log_debug("layers/%s stays: %s", l->name, e.msg);
	fd_close(&l->fd);
}
