/* Boxes, snapshots and images as stacks of layers; see trees.h. */
#include "core/trees.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "core/rollback.h"
#include "core/snapshot.h"
#include "core/stats.h"
#include "store/layer.h"
#include "store/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_DIR = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* A list of SPEC_LAYER_MAX + 1, and how many it has. */
struct layer_list {
	struct stack_layer *layers;
	size_t *count;
	const char *name; /* of what they are */
};

static struct layer_list own_list(struct core_tree *t)
{
	return (struct layer_list){t->layers, &t->count, t->name};
}

static void add_layer(struct layer_list to, int fd)
{
	to.layers[(*to.count)++] = (struct stack_layer){.fd = fd};
}

/* ids: bottom first. */
static int add_layers(struct cove *cove, struct layer_list to, const char *const *ids, size_t count,
		      struct err *e)
{
	char path[BOX_PATH_MAX];

	if (*to.count + count > SPEC_LAYER_MAX + 1)
		return err_set(e, ERR_LIMIT, E2BIG, "'%s' has more than %u layers", to.name,
			       SPEC_LAYER_MAX);
	for (size_t i = count; i > 0; i--) {
		int r = layer_root(&cove->state, ids[i - 1], path, sizeof(path));
		int fd = r < 0 ? r : open(path, OPEN_DIR);

		if (r == -ENOENT)
			return err_set(
				e, ERR_DAMAGED, ENOENT,
				"a layer of '%s' is gone (%.12s): 'cove system verify' tells "
				"what else is",
				to.name, ids[i - 1]);
		if (fd < 0)
			return err_errno(e, r < 0 ? -r : errno, "open layer '%.12s'", ids[i - 1]);
		add_layer(to, fd);
	}
	return 0;
}

/* ---- images ---- */

static int open_image(struct cove *cove, const char *name, struct core_tree *t, struct err *e)
{
	struct image im = {0};
	char clean[IMAGE_NAME_MAX + 1];
	int r = image_name_clean(name, clean, e);

	t->kind = TREE_IMAGE;
	if (r == 0)
		r = image_find(&cove->state, clean, &im, e);
	if (r == 0 && im.is_host)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "image 'host' is this machine itself: there is nothing to compare");
	if (r == 0)
		r = add_layers(cove, own_list(t), im.layers, im.layer_count, e);
	image_done(&im);
	return r;
}

/* What a snapshot of a box of the host's image holds is above the image's skeleton, which is in no
 * record. */
static bool is_of_host(const char *image)
{
	return image && strcmp(image, IMAGE_HOST) == 0;
}

static int add_image(struct cove *cove, const char *name, struct core_tree *t, struct err *e)
{
	struct image im = {0};
	int r = image_find(&cove->state, name, &im, e);

	if (r == 0 && im.is_host)
		r = image_host_prepare(&cove->state, &cove->ids, &im, e);
	if (r == 0)
		r = add_layers(cove, own_list(t), im.layers, im.layer_count, e);
	image_done(&im);
	return r;
}

/* ---- snapshots ---- */

static int add_skeleton(struct cove *cove, const struct snapshot *sn, struct core_tree *t,
			struct err *e)
{
	autofree char *text = NULL;
	struct spec spec;
	int r = snapshot_spec(sn, &spec, &text, e);

	return r == 0 && is_of_host(spec.image) ? add_image(cove, IMAGE_HOST, t, e) : r;
}

static int open_snapshot(struct cove *cove, const char *name, struct core_tree *t, struct err *e)
{
	struct snapshot sn = {0};
	int r = snapshot_find(&cove->state, name, &sn, e);

	t->kind = TREE_SNAPSHOT;
	if (r == 0)
		r = add_layers(cove, own_list(t), sn.layers, sn.layer_count, e);
	if (r == 0)
		r = add_skeleton(cove, &sn, t, e);
	snapshot_done(&sn);
	return r;
}

/* ---- boxes ---- */

/* Where its writes are, as stored; -1: it has none yet. The disk is open as long as the tree. */
static int open_own(struct cove *cove, struct core_tree *t, int *ret_fd, struct err *e)
{
	const struct spec *s = &t->record.spec;
	struct storage_place place = {.home_fd = cove->state.home_fd, .dir_fd = t->box_fd};
	const struct storage_ops *ops = storage_detect(&place);
	struct storage_size size = {.bytes = s->limits[LIMIT_DISK]};
	int r = 0;

	*ret_fd = -1;
	if (s->storage && strcmp(s->storage, storage_tmpfs.name) == 0) {
		if (t->record.state != BOX_RUNNING)
			return 0;
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "the writes of box '%s' are in memory (--storage tmpfs), where "
			       "they cannot be compared",
			       t->name);
	}
	if (ops == &storage_plain) {
		*ret_fd = fd_copy(t->box_fd, 3);
		return *ret_fd < 0 ? err_errno(e, -*ret_fd, "open box '%s'", t->name) : 0;
	}
	r = ops->open(&place, &cove->ids, &size, &t->volume, e);
	if (r == 0)
		r = volume_attach(&t->volume, e);
	if (r < 0)
		return r;
	*ret_fd = fd_copy(t->volume.stat_fd, 3);
	return *ret_fd < 0 ? err_errno(e, -*ret_fd, "open box '%s'", t->name) : 0;
}

/* 0 and -1 where there is no such directory. */
static int open_below(int dir_fd, const char *name, int *ret, struct err *e)
{
	*ret = dir_fd < 0 ? -1
			  : fd_openat2(dir_fd, name, OPEN_DIR, 0,
				       FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	if (*ret >= 0 || dir_fd < 0)
		return 0;
	if (*ret != -ENOENT)
		return err_errno(e, -*ret, "open '%s' of the box", name);
	*ret = -1;
	return 0;
}

/* What the box wrote there lies above the directory as it is now. */
static int open_copy(struct core_tree *t, int own_fd, struct err *e)
{
	const char *dir = t->record.spec.workspace_dir;
	int fd, r = open_below(own_fd, WORKSPACE_COPY "/upper", &fd, e);

	if (r < 0)
		return r;
	if (fd >= 0)
		t->copy[t->copy_count++] = (struct stack_layer){.fd = fd};
	fd = fd_openat2(AT_FDCWD, dir, OPEN_DIR, 0, FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	if (fd < 0)
		return err_errno(e, -fd, "open '%.140s'", dir);
	t->copy[t->copy_count++] = (struct stack_layer){.fd = fd, .foreign = true};
	return 0;
}

static int open_box(struct cove *cove, const char *name, struct core_tree *t, struct err *e)
{
	autoclose int own = -1;
	int r = rollback_resume(cove, name, e), fd = -1;

	t->kind = TREE_BOX;
	if (r == 0)
		r = record_load(&cove->state, name, &t->record, e);
	if (r < 0)
		return r;
	t->has_record = true;
	r = box_open_dir(cove, name, &t->box_fd, e);
	if (r == 0)
		r = open_own(cove, t, &own, e);
	if (r == 0)
		r = open_below(own, "upper", &fd, e);
	if (r < 0)
		return r;
	if (fd >= 0)
		add_layer(own_list(t), fd);
	t->has_own = fd >= 0;
	r = add_layers(cove, own_list(t), t->record.spec.layers, t->record.spec.layer_count, e);
	/* A box of an older Cove has no layers in its record, one of the host's not the last. */
	if (r == 0 && (t->record.spec.layer_count == 0 || is_of_host(t->record.spec.image)))
		r = add_image(cove, t->record.spec.image, t, e);
	if (r == 0 && t->record.spec.workspace_copy)
		r = open_copy(t, own, e);
	return r;
}

/* ---- named workspaces ---- */

static struct layer_list work_list(struct core_tree *t)
{
	return (struct layer_list){t->work.layers, &t->work.count, t->name};
}

static int open_kept_workspace(struct cove *cove, struct core_tree *t, struct err *e)
{
	struct snapshot sn = {0};
	int r = snapshot_find(&cove->state, t->name, &sn, e);

	if (r == 0)
		r = add_layers(cove, work_list(t), sn.workspace_layers, sn.workspace_layer_count,
			       e);
	t->work.is_there = r == 0 && sn.workspace;
	snapshot_done(&sn);
	return r;
}

int core_tree_open_workspace(struct cove *cove, struct core_tree *t, struct err *e)
{
	struct core_tree_work *w = &t->work;
	struct workspace_tree tree;
	int r;

	if (t->kind == TREE_SNAPSHOT)
		return open_kept_workspace(cove, t, e);
	if (t->kind != TREE_BOX || !t->record.spec.workspace)
		return 0;
	r = workspace_tree_open(&cove->state, t->record.spec.workspace, &cove->ids, &tree, e);
	if (r < 0)
		return r;
	w->is_there = true;
	w->has_base = tree.has_list;
	w->has_own = tree.fd >= 0;
	w->volume = tree.volume;
	w->ids = tree.stack;
	if (tree.fd >= 0)
		add_layer(work_list(t), tree.fd);
	return add_layers(cove, work_list(t), (const char *const *)w->ids.layers, w->ids.count, e);
}

/* ---- by name ---- */

/* What a name can mean, in this order. */
static const struct {
	const char *prefix;
	int (*open)(struct cove *cove, const char *name, struct core_tree *t, struct err *e);
} kinds[] = {{"box:", open_box}, {"snapshot:", open_snapshot}, {"image:", open_image}};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

int core_tree_open(struct cove *cove, const char *name, struct core_tree *ret, struct err *e)
{
	int r = core_ids(cove, e);

	*ret = CORE_TREE_NONE;
	str_copy(ret->name, sizeof(ret->name), name);
	if (r < 0)
		return r;
	for (size_t i = 0; i < KINDS; i++) {
		size_t n = strlen(kinds[i].prefix);

		if (!str_starts(name, kinds[i].prefix))
			continue;
		str_copy(ret->name, sizeof(ret->name), name + n);
		return kinds[i].open(cove, name + n, ret, e);
	}
	for (size_t i = 0; i < KINDS; i++) {
		/* What is not a name of boxes is none of snapshots, either. */
		if (i + 1 < KINDS && !str_is_name(name, BOX_NAME_MAX))
			continue;
		r = kinds[i].open(cove, name, ret, e);
		if (r != -ENOENT || e->kind != ERR_NOT_FOUND || ret->has_record)
			return r;
	}
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "there is no box, snapshot or image '%.100s': `cove ls`, `cove snapshot "
		       "ls` and `cove image ls` show all",
		       name);
}

void core_tree_done(struct core_tree *t)
{
	core_conn_free(t->held);
	t->held = NULL;
	for (size_t i = 0; i < t->count; i++)
		fd_close(&t->layers[i].fd);
	for (size_t i = 0; i < t->copy_count; i++)
		fd_close(&t->copy[i].fd);
	for (size_t i = 0; i < t->work.count; i++)
		fd_close(&t->work.layers[i].fd);
	t->count = t->copy_count = t->work.count = 0;
	workspace_stack_done(&t->work.ids);
	volume_done(&t->work.volume);
	volume_done(&t->volume);
	fd_close(&t->box_fd);
	if (t->has_record)
		record_done(&t->record);
	t->has_record = false;
}

/* ---- running boxes ---- */

int core_tree_hold(struct cove *cove, struct core_tree *t, struct err *e)
{
	int r;

	if (t->kind != TREE_BOX || !record_is_live(t->box_fd))
		return 0;
	r = core_conn_connect(NULL, cove->state.run_fd, t->name, &t->held, e);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return record_is_live(t->box_fd)
			       ? err_set(e, ERR_CONFLICT, EBUSY,
					 "box '%s' is just being started, or up for one client "
					 "alone: say it again",
					 t->name)
			       : 0;
	if (r < 0)
		return r;
	r = stats_hold(t->held, true, e);
	if (r == 0)
		return 0;
	core_conn_free(t->held);
	t->held = NULL;
	return e->kind == ERR_UNSUPPORTED ? 1 : r;
}

int core_tree_release(struct core_tree *t, struct err *e)
{
	int r = t->held ? stats_hold(t->held, false, e) : 0;

	core_conn_free(t->held);
	t->held = NULL;
	return r;
}

struct stack core_tree_whole(const struct core_tree *t)
{
	return (struct stack){.layers = t->layers, .count = t->count};
}

struct stack core_tree_base(const struct core_tree *t)
{
	return (struct stack){.layers = t->layers + t->has_own, .count = t->count - t->has_own};
}

struct stack core_tree_work_whole(const struct core_tree *t)
{
	return (struct stack){.layers = t->work.layers, .count = t->work.count};
}

struct stack core_tree_work_base(const struct core_tree *t)
{
	return (struct stack){.layers = t->work.layers + t->work.has_own,
			      .count = t->work.count - t->work.has_own};
}

/* ---- paths in it ---- */

/* What of the path is at top ("/", "/workspace"): "" is all of it, NULL nothing. */
static const char *rest_of(const char *path, const char *top)
{
	if (path_is_within(top, path))
		return "";
	return path_is_within(path, top) ? path + strlen(top) + (top[1] != 0) : NULL;
}

int core_tree_paths(const char *const *paths, const char *prefix, const char ***ret,
		    size_t *ret_count, bool *ret_none, struct err *e)
{
	char top[sizeof(WORKSPACE_DST) + 1], normal[BOX_PATH_MAX];
	const char **list;

	*ret = NULL;
	*ret_count = 0;
	*ret_none = paths && paths[0];
	if (!*ret_none)
		return 0;
	snprintf(top, sizeof(top), "/%s", prefix);
	*ret = list = calloc(DIFF_PATHS_MAX, sizeof(*list));
	if (!list)
		return err_errno(e, ENOMEM, "keep the paths");
	for (size_t i = 0; paths[i]; i++) {
		const char *rest;

		if (i == DIFF_PATHS_MAX)
			return err_set(e, ERR_LIMIT, E2BIG, "more than %u paths", DIFF_PATHS_MAX);
		if (paths[i][0] != '/' || !path_normalize(normal, sizeof(normal), paths[i]))
			return err_set(e, ERR_INVALID, EINVAL,
				       "'%.100s' is not an absolute path of the box", paths[i]);
		rest = rest_of(normal, top);
		if (!rest)
			continue;
		*ret_none = false;
		list[*ret_count] = strdup(rest);
		if (!list[(*ret_count)++])
			return err_errno(e, ENOMEM, "keep the paths");
	}
	return 0;
}

void core_tree_paths_free(const char **paths, size_t count)
{
	for (size_t i = 0; paths && i < count; i++)
		free((void *)(uintptr_t)paths[i]);
	free(paths);
}
