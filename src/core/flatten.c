/* Making one layer of many; see flatten.h. Each is laid over those below it (storage/copy.h). */
#include "core/flatten.h"

#include "base/fd.h"
#include "base/limits_snapshot.h"
#include "base/log.h"
#include "base/sha.h"
#include "storage/copy.h"
#include "storage/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The layers of snapshots at the end of a list, in two parts: a merge finds what a fork was made
 * above by the time of its layers, so later ones are not mixed with those. The longer part. */
static void choose(struct cove *cove, const char *const *layers, size_t count, uint64_t born_ms,
		   struct flatten *f)
{
	size_t n = 0, later = 0;
	uint64_t last_ms[2] = {0};
	struct layer_meta m;

	for (; n < count; n++) {
		if (layer_read(&cove->state, layers[count - 1 - n], &m) < 0 ||
		    m.kind != LAYER_SNAPSHOT)
			break;
		if (m.created_ms > born_ms && later == n)
			later++;
		if (m.created_ms > last_ms[later == n + 1])
			last_ms[later == n + 1] = m.created_ms;
	}
	if (n < SNAPSHOT_CHAIN_MAX)
		return;
	f->count = later > n - later ? later : n - later;
	f->first = later > n - later ? count - later : count - n;
	f->meta = (struct layer_meta){.kind = LAYER_SNAPSHOT,
				      .created_ms = last_ms[later > n - later]};
}

static int name_it(const char *const *layers, struct flatten *f, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, (SPEC_LAYER_MAX + 1) * LAYER_ID_SIZE);
	r = buf_append_str(&b, "flat\n");
	for (size_t i = 0; i < f->count && r == 0; i++)
		r = buf_printf(&b, "%s\n", layers[f->first + i]);
	if (r == 0)
		sha256_hex(buf_data(&b), buf_len(&b), f->id);
	buf_done(&b);
	return r < 0 ? err_errno(e, -r, "name a layer") : 0;
}

static int lay_over(struct cove *cove, const char *id, int layer_fd, int to_fd,
		    struct layer_meta *meta, struct err *e)
{
	autoclose int from_fd = -1, links_fd = -1;
	char path[BOX_PATH_MAX];
	struct copy copy;
	int r = layer_root(&cove->state, id, path, sizeof(path));

	if (r < 0)
		return err_errno(e, -r, "find layer '%.12s'", id);
	from_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (mkdirat(layer_fd, "links", 0700) == 0)
		links_fd = openat(layer_fd, "links", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from_fd < 0 || links_fd < 0)
		return err_errno(e, errno, "open layer '%.12s'", id);
	r = copy_init(&copy, from_fd, to_fd, links_fd, e);
	if (r == 0)
		r = copy_pass(&copy, &cove->ids, COPY_OVER, 0, e);
	meta->bytes += copy.counts.bytes;
	meta->files += copy.counts.names;
	copy_done(&copy);
	return r < 0 ? r : tree_remove_as(&cove->ids, layer_fd, "links", e);
}

static int make(struct cove *cove, const char *const *layers, struct flatten *f, struct err *e)
{
	autoclose int to_fd = -1;
	struct layer_meta have;
	int r = name_it(layers, f, e);

	if (r < 0 || layer_read(&cove->state, f->id, &have) == 0)
		return r;
	r = layers_new(&cove->state, &f->layer, e);
	if (r < 0)
		return r;
	if (mkdirat(f->layer.fd, "rootfs", 0755) == 0)
		to_fd = openat(f->layer.fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to_fd < 0)
		return state_error(&cove->state, errno, "make a layer in", e);
	for (size_t i = 0; i < f->count && r == 0; i++)
		r = lay_over(cove, layers[f->first + i], f->layer.fd, to_fd, &f->meta, e);
	if (r == 0 && syncfs(to_fd) < 0)
		r = state_error(&cove->state, errno, "sync a layer in", e);
	return r;
}

void flatten_make(struct cove *cove, const char *const *layers, size_t count, uint64_t born_ms,
		  struct flatten *ret)
{
	struct err e = {0};

	*ret = FLATTEN_NONE;
	choose(cove, layers, count, born_ms, ret);
	if (ret->count == 0 || make(cove, layers, ret, &e) == 0)
		return;
	log_debug("layers of snapshots stay many: %s", e.msg);
	flatten_done(cove, ret);
}

int flatten_place(struct cove *cove, const char *const *layers, struct flatten *f, struct err *e)
{
	struct layer_meta have;
	/* A layer that was removed while it was read may have been read in part. */
	int r = layers_check(&cove->state, layers + f->first, f->count, e);

	if (r < 0 || f->count == 0)
		return r;
	if (f->layer.fd >= 0)
		return layers_place(&cove->state, &cove->ids, &f->layer, f->id, &f->meta, e);
	/* It was there; it may have gone meanwhile. Then the many stay. Who placed it may have been
	 * killed before the sync. */
	if (layer_read(&cove->state, f->id, &have) < 0)
		f->count = 0;
	return fsync(cove->state.layers_fd) < 0 ? state_error(&cove->state, errno, "sync", e) : 0;
}

void flatten_done(struct cove *cove, struct flatten *f)
{
	layers_drop(&cove->state, &cove->ids, &f->layer);
	*f = FLATTEN_NONE;
}
