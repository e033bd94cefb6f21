/*
 * Copying what a box wrote; see commit.h.
 *
 * How it works
 *
 * One snapshot of a box is made at a time: whoever makes one holds a lock on boxes/<name>/snapshot.
 * A box that does not run is kept from starting by its operation lock. One that runs is copied
 * live, in as many passes as it takes until little changes during one, then frozen for the last.
 * The freeze is bound to our connection to its keeper: should this process be killed, the box goes
 * on. A box that ends meanwhile is copied as one that does not run.
 */
#include "core/commit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits_snapshot.h"
#include "base/sha.h"
#include "base/str.h"
#include "core/life.h"
#include "core/rollback.h"
#include "core/stats.h"
#include "core/watch.h"
#include "storage/pool.h"
#include "storage/tree.h"
#include "store/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum {
	LIVE_PASSES = 4,
	LIVE_BYTES = 8 << 20, /* so much in one pass: another one, before the box is frozen */
	LIVE_NAMES = 1000,
	TRIES = 4,
	DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
	HOLD_MARGIN_MS = 5000, /* the copy ends before the keeper lets the box go on */
};

#define SNAPSHOT_LOCK "snapshot"

static const struct commit_tree no_tree = {
	.from_fd = -1, .to_fd = -1, .links_fd = -1, .layer = {.fd = -1}, .copy = {.table_fd = -1}};

/* ---- what is copied ---- */

static int open_root(struct commit *c, struct err *e)
{
	const struct storage_place place = {.home_fd = c->cove->state.home_fd, .dir_fd = c->box_fd};
	const struct storage_ops *ops = storage_detect(&place);
	struct commit_tree *t = &c->root;
	int dir_fd = c->box_fd, r;

	c->storage = ops->name;
	t->place = place;
	t->on_pool = t->is_there = ops->flags & STORAGE_SNAPSHOTS;
	if (t->on_pool)
		return 0;
	if (ops != &storage_plain) {
		r = ops->open(&place, &c->cove->ids, &(struct storage_size){0}, &t->volume, e);
		if (r < 0)
			return r;
		dir_fd = t->volume.stat_fd;
	}
	t->from_fd = openat(dir_fd, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (t->from_fd < 0 && errno != ENOENT)
		return err_errno(e, errno, "open what box '%s' wrote", c->box);
	t->is_there = t->from_fd >= 0;
	return 0;
}

/* Does another box that runs have the workspace? It goes on writing there. */
static bool is_shared(const struct commit *c, const char *workspace)
{
	struct state *s = &c->cove->state;
	bool found = false;
	char **names;
	size_t count;

	if (record_names(s, &names, &count, NULL) < 0)
		return true;
	for (size_t i = 0; i < count && !found; i++) {
		struct record other;

		if (strcmp(names[i], c->box) == 0 || record_load(s, names[i], &other, NULL) < 0)
			continue;
		found = other.state == BOX_RUNNING && other.spec.workspace &&
			strcmp(other.spec.workspace, workspace) == 0;
		record_done(&other);
	}
	state_names_free(names, count);
	return found;
}

static int open_workspace(struct commit *c, struct err *e)
{
	const char *name = c->record.spec.workspace;
	struct commit_tree *t = &c->workspace;
	struct workspace_tree w;
	int r = workspace_tree_open(&c->cove->state, name, &c->cove->ids, &w, e);

	if (r < 0)
		return r;
	t->volume = w.volume;
	t->from_fd = w.fd;
	t->is_there = w.fd >= 0;
	c->unfrozen = c->unfrozen || is_shared(c, name);
	c->below = w.stack;
	/* One above layers has upper/ and work/, as a box's own volume. */
	t->place = (struct storage_place){.home_fd = c->cove->state.home_fd,
					  .dir_fd = c->cove->state.workspaces_fd,
					  .name = name};
	t->on_pool = t->is_there && w.stack.count > 0 &&
		     storage_detect(&t->place)->flags & STORAGE_SNAPSHOTS;
	return 0;
}

/* What its disk holds, where its files can share their blocks. */
static uint64_t bytes_of(const struct commit *c, const struct commit_tree *t)
{
	const struct volume *v = &t->volume;
	uint64_t disk = t == &c->root ? c->record.spec.limits[LIMIT_DISK] : v->bytes;
	bool shares = t == &c->root ? strcmp(c->storage, storage_pool.name) == 0
				    : v->ops && v->ops->flags & STORAGE_SNAPSHOTS;

	return shares && disk ? disk + POOL_EASE : 0;
}

/* Beside its final place, with room for what hard links are made from. */
static int open_copy(struct commit *c, struct commit_tree *t, struct err *e)
{
	int r = layers_new(&c->cove->state, &t->layer, e);

	if (r < 0)
		return r;
	if (t->on_pool) {
		layer_random_id(t->id);
		return layers_new_in_pool(&c->cove->state, &t->layer, t->id, e);
	}
	if (mkdirat(t->layer.fd, "rootfs", 0755) < 0 || mkdirat(t->layer.fd, "links", 0700) < 0)
		return state_error(&c->cove->state, errno, "make a layer in", e);
	t->to_fd = openat(t->layer.fd, "rootfs", DIR_FLAGS);
	t->links_fd = openat(t->layer.fd, "links", DIR_FLAGS);
	if (t->to_fd < 0 || t->links_fd < 0)
		return err_errno(e, errno, "open a layer");
	r = copy_init(&t->copy, t->from_fd, t->to_fd, t->links_fd, e);
	t->copy.bytes_max = bytes_of(c, t);
	return r;
}

static int check_box(const struct commit *c, struct err *e)
{
	const struct spec *s = &c->record.spec;

	if (s->one_shot)
		return err_set(e, ERR_CONFLICT, EINVAL,
			       "box '%s' is there for one command only: use `cove create`", c->box);
	if (s->storage && strcmp(s->storage, storage_tmpfs.name) == 0)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "box '%s' keeps its files in memory (--storage tmpfs), which cannot "
			       "be kept: make it with another --storage",
			       c->box);
	return 0;
}

static int open_trees(struct commit *c, const struct commit_options *o, struct err *e)
{
	int r = record_load(&c->cove->state, c->box, &c->record, e);

	if (r == 0)
		r = check_box(c, e);
	if (r == 0)
		r = open_root(c, e);
	if (r == 0 && c->record.spec.workspace && !o->no_workspace)
		r = open_workspace(c, e);
	if (r == 0 && c->root.is_there)
		r = open_copy(c, &c->root, e);
	if (r == 0 && c->workspace.is_there)
		r = open_copy(c, &c->workspace, e);
	return r;
}

/* ---- copying ---- */

/* In the pool: what is dirty is written first, so that little is left while the box is frozen. */
static int pool_pass(struct commit *c, struct commit_tree *t, enum copy_kind kind, struct err *e)
{
	int home_fd = c->cove->state.home_fd, r;

	t->copy.is_whole = true;
	if (kind == COPY_LIVE)
		return pool_sync(home_fd, e);
	r = pool_layer_remove(home_fd, t->id, e); /* of an earlier try */
	return r < 0 ? r : pool_snapshot(home_fd, &t->place, t->id, e);
}

static int pass(struct commit *c, enum copy_kind kind, uint64_t deadline_ms, struct err *e)
{
	struct commit_tree *const trees[] = {&c->root, &c->workspace};
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++) {
		if (trees[i]->on_pool)
			r = pool_pass(c, trees[i], kind, e);
		else if (trees[i]->is_there)
			r = copy_pass(&trees[i]->copy, &c->cove->ids, kind, deadline_ms, e);
	}
	return r;
}

static bool is_much(const struct commit_tree *t)
{
	const struct copy_counts *n = &t->copy.counts;

	return t->is_there &&
	       (n->moved_bytes > LIVE_BYTES || n->moved_names > LIVE_NAMES || !t->copy.is_whole);
}

static int copy_live(struct commit *c, struct err *e)
{
	int r = 0;

	for (int i = 0; i < LIVE_PASSES && r == 0; i++) {
		r = pass(c, COPY_LIVE, 0, e);
		if (!is_much(&c->root) && !is_much(&c->workspace))
			break;
	}
	return r;
}

static bool is_whole(const struct commit_tree *t)
{
	return !t->is_there || t->copy.is_whole;
}

/* Of a box that cannot be frozen, whose caller knows that. */
static int copy_unfrozen(struct commit *c, struct err *e)
{
	int r = 0;

	for (int i = 0; i < TRIES && r == 0; i++) {
		r = pass(c, COPY_LIVE, 0, e);
		if (r == 0 && is_whole(&c->root) && is_whole(&c->workspace)) {
			c->unfrozen = true;
			if (c->root.on_pool)
				r = pool_pass(c, &c->root, COPY_LAST, e);
			return r == 0 && c->workspace.on_pool
				       ? pool_pass(c, &c->workspace, COPY_LAST, e)
				       : r;
		}
	}
	return r < 0 ? r
		     : err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' changes its directories all the time: stop it first",
			       c->box);
}

static int cannot_freeze(const struct commit *c, struct err *e)
{
	char why[sizeof(e->msg)];

	str_copy(why, sizeof(why), e->msg);
	return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
		       "box '%s' runs: stop it first, or say --no-freeze (over HTTP 'no_freeze'), "
		       "which snapshot and fork take: %s",
		       c->box, why);
}

/* 0: copied. -EAGAIN: the box ended meanwhile. */
static int copy_frozen(struct commit *c, struct core_conn *conn, const struct commit_options *o,
		       struct err *e)
{
	uint64_t began_ns = clock_mono_ns();
	int r = stats_hold(conn, true, e), held;
	struct err why;

	if (r < 0 && e->kind == ERR_UNSUPPORTED)
		return o->no_freeze ? copy_unfrozen(c, e) : cannot_freeze(c, e);
	if (r < 0)
		return conn->lost || e->kind == ERR_CONFLICT ? -EAGAIN : r;
	r = pass(c, COPY_LAST, clock_mono_ms() + KEEPER_HOLD_MS - HOLD_MARGIN_MS, e);
	held = stats_hold(conn, false, &why);
	c->frozen_us = (clock_mono_ns() - began_ns) / 1000;
	if (held == 0 || r < 0)
		return r;
	/* It was not frozen all the time: it is ending, or went on by itself. */
	if (why.kind != ERR_TIMEOUT)
		return -EAGAIN;
	*e = why;
	return held;
}

/* 0: copied. -EAGAIN: it runs again. */
static int copy_stopped(struct commit *c, struct err *e)
{
	autoclose int lock_fd = -1;
	int r = box_open_dir(c->cove, c->box, &lock_fd, e);

	if (r == 0)
		r = core_wait_lock(c->cove, c->box, lock_fd, START_WAIT_MS, e);
	if (r < 0)
		return r;
	if (record_is_live(lock_fd))
		return core_wait_free(c->cove, c->box, lock_fd, STOP_WAIT_MS) < 0
			       ? err_set(e, ERR_CONFLICT, EBUSY,
					 "box '%s' is up for another client alone: try again when "
					 "that is done",
					 c->box)
			       : -EAGAIN;
	return pass(c, COPY_LAST, 0, e);
}

static int copy_box(struct commit *c, const struct commit_options *o, struct err *e)
{
	struct core_conn *conn = NULL;
	int r = core_conn_connect(NULL, c->cove->state.run_fd, c->box, &conn, e);

	if (r == 0) {
		r = copy_live(c, e);
		if (r == 0)
			r = copy_frozen(c, conn, o, e);
		core_conn_free(conn);
	} else {
		r = copy_stopped(c, e);
	}
	if (r == -EAGAIN && core_has_moved(c->cove, c->box, c->box_fd))
		return record_missing(c->box, e);
	return r;
}

/* ---- all of it ---- */

uint64_t commit_time_ms(const struct commit *c)
{
	uint64_t now = clock_wall_ms(), made = c->record.spec.created_ms;

	return now > made ? now : made + 1;
}

static int finish_tree(struct commit *c, struct commit_tree *t, struct err *e)
{
	const struct copy_counts *n = &t->copy.counts;
	int r;

	if (!t->is_there)
		return 0;
	t->meta = (struct layer_meta){.kind = LAYER_SNAPSHOT, .created_ms = commit_time_ms(c)};
	if (t->on_pool)
		return 0;
	fd_close(&t->links_fd);
	r = tree_remove_as(&c->cove->ids, t->layer.fd, "links", e);
	if (r < 0)
		return r;
	t->meta.bytes = n->bytes;
	t->meta.files = n->names;
	c->left_out += n->left_out;
	return syncfs(t->to_fd) < 0 ? state_error(&c->cove->state, errno, "sync a layer in", e) : 0;
}

int commit_lock(struct cove *cove, const char *box, int box_fd, int *ret_fd, struct err *e)
{
	autoclose int fd =
		openat(box_fd, SNAPSHOT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return state_error(&cove->state, errno, "lock a box in", e);
	do {
		r = flock(fd, LOCK_EX);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(e, errno, "lock box '%s'", box);
	if (core_has_moved(cove, box, box_fd))
		return record_missing(box, e);
	*ret_fd = take_fd(fd);
	return 0;
}

int commit_begin(struct commit *c, struct cove *cove, const char *box,
		 const struct commit_options *o, struct err *e)
{
	uint64_t began_ns = clock_mono_ns();
	autoclose int lock_fd = -1;
	int r;

	*c = (struct commit){.cove = cove, .box_fd = -1, .root = no_tree, .workspace = no_tree};
	c->root.volume = c->workspace.volume = VOLUME_NONE;
	str_copy(c->box, sizeof(c->box), box);
	r = core_ids(cove, e);
	if (r == 0)
		r = state_make(&cove->state, e);
	if (r == 0)
		r = box_open_dir(cove, box, &c->box_fd, e);
	if (r == 0)
		r = commit_lock(cove, box, c->box_fd, &lock_fd, e);
	if (r == 0)
		r = rollback_resume(cove, box, e);
	if (r == 0)
		r = open_trees(c, o, e);
	for (int i = 0; i < TRIES && r == 0; i++) {
		r = copy_box(c, o, e);
		if (r != -EAGAIN)
			break;
		r = i + 1 < TRIES ? 0
				  : err_set(e, ERR_CONFLICT, EBUSY,
					    "box '%s' is started and stopped all the time", box);
	}
	if (r == 0)
		r = finish_tree(c, &c->root, e);
	if (r == 0)
		r = finish_tree(c, &c->workspace, e);
	/* What holds nothing is no layer. */
	c->root.is_there &= c->root.on_pool || c->root.meta.files > 0;
	c->workspace.is_there &= c->workspace.on_pool || c->workspace.meta.files > 0;
	c->total_us = (clock_mono_ns() - began_ns) / 1000;
	return r;
}

static int place_tree(struct commit *c, struct commit_tree *t, struct err *e)
{
	if (!t->is_there)
		return 0;
	if (!t->id[0])
		layer_random_id(t->id);
	fd_close(&t->to_fd);
	return layers_place(&c->cove->state, &c->cove->ids, &t->layer, t->id, &t->meta, e);
}

int commit_place(struct commit *c, struct err *e)
{
	int r = place_tree(c, &c->root, e);

	return r < 0 ? r : place_tree(c, &c->workspace, e);
}

static void tree_done(struct commit *c, struct commit_tree *t)
{
	copy_done(&t->copy);
	fd_close(&t->to_fd);
	fd_close(&t->links_fd);
	fd_close(&t->from_fd);
	layers_drop(&c->cove->state, &c->cove->ids, &t->layer);
	volume_done(&t->volume);
}

void commit_done(struct commit *c)
{
	if (!c->cove)
		return;
	tree_done(c, &c->root);
	tree_done(c, &c->workspace);
	workspace_stack_done(&c->below);
	fd_close(&c->box_fd);
	record_done(&c->record);
	c->cove = NULL;
}

/* A layer of an image is no snapshot of the pool's, which would keep all of the box's volume. */
static int copy_from_pool(struct commit *c, struct commit_tree *t, struct err *e)
{
	struct commit_tree from = *t;
	char path[BOX_PATH_MAX];
	int r = layer_root(&c->cove->state, t->id, path, sizeof(path));

	*t = no_tree;
	t->volume = VOLUME_NONE;
	t->is_there = true;
	if (r < 0)
		r = err_errno(e, -r, "open what box '%s' wrote", c->box);
	if (r == 0) {
		t->from_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		r = t->from_fd < 0 ? err_errno(e, errno, "open what box '%s' wrote", c->box)
				   : open_copy(c, t, e);
	}
	if (r == 0)
		r = copy_pass(&t->copy, &c->cove->ids, COPY_LAST, 0, e);
	if (r == 0)
		r = finish_tree(c, t, e);
	layers_drop(&c->cove->state, &c->cove->ids, &from.layer);
	return r;
}

/* What the box had to have room for: holes, which it had for nothing, are hashed like all else. */
static uint64_t hashed_max(const struct commit *c)
{
	uint64_t disk = c->record.spec.limits[LIMIT_DISK], real = c->root.meta.bytes;

	return disk && disk < real ? real : disk;
}

int commit_name_by_content(struct commit *c, struct err *e)
{
	struct commit_tree *t = &c->root;
	struct layer_meta *m = &t->meta;
	struct layer_tar_how how = {.cancel_fd = c->cove->patience.cancel_fd};
	struct layer_tar_result result;
	int r = t->on_pool ? copy_from_pool(c, t, e) : 0;

	if (r == 0 && t->to_fd < 0) {
		r = open_copy(c, t, e);
		if (r == 0)
			r = tree_remove_as(&c->cove->ids, t->layer.fd, "links", e);
	}
	how.bytes_max = hashed_max(c);
	if (r == 0)
		r = layer_tar_pack_as(&c->cove->ids, &t->to_fd, 1, -1, &how, &result, e);
	if (r < 0)
		return r;
	memcpy(m->diff, result.diff, sizeof(m->diff));
	m->bytes = result.bytes;
	m->files = result.files;
	m->kind = LAYER_IMAGE;
	m->diff_is_tree = true;
	t->is_there = true;
	if (c->cove->ids.kind == IDS_SINGLE)
		sha256_hex(m->diff, strlen(m->diff), t->id);
	else
		str_copy(t->id, sizeof(t->id), m->diff);
	return 0;
}
