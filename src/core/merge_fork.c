/*
 * What a fork changed since it was forked, brought to the box that it came from.
 *
 * How it works: the base is what the fork stood on when it was made: those of its layers that are
 * not younger than it. A confined child (reader.h) lists what the fork has different from that and
 * looks each path up in the box (storage/graft.h). That is done once while both are only frozen: it
 * finds the conflicts, and says what would be done. Then the box is stopped, and
 *
 *	what it wrote itself becomes a layer (commit.h) -> the child writes what is taken as another
 *	-> both get their names, and the box's directory says what the box is to become
 *	(store/rollback.h) -> its volume is emptied, its record stands on the two layers more
 *
 * From the third step on whoever finds that file does the rest, as after a rollback that was
 * killed; before it nothing has happened. A box that ran is started again.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/commit.h"
#include "core/life.h"
#include "core/merge.h"
#include "core/reader.h"
#include "core/rollback.h"
#include "core/watch.h"
#include "storage/graft.h"
#include "store/layer.h"
#include "store/rollback.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FRAME_ITEM = 1, TOKEN_BYTES = 16 };

/* FRAME_ITEM: this, then the path and, after its NUL, why. */
struct fork_head {
	uint8_t state, kind;
	uint64_t bytes;
} __attribute__((packed));

struct forked {
	struct merge *m;
	struct core_tree fork, box;
	struct stack base; /* of the fork's layers */
	const char **only; /* owned */
	size_t only_count;
	int layer_fd; /* what is written; -1: nothing */
	bool is_said; /* the caller has heard it all */
	int out;      /* in the child */
	uint64_t files, bytes;
	struct layer_new layer;
};

/* ---- in the child ---- */

static int on_item(void *arg, const struct graft_item *i)
{
	const struct forked *f = arg;
	struct fork_head h = {.state = (uint8_t)i->state, .kind = (uint8_t)i->kind};
	char text[STACK_PATH_MAX + 128];
	size_t path = strlen(i->path), why = i->why ? strlen(i->why) : 0;

	if (path + why + 2 > sizeof(text))
		return -ENAMETOOLONG;
	memcpy(text, i->path, path + 1);
	memcpy(text + path + 1, i->why ? i->why : "", why + 1);
	return reader_send(f->out, FRAME_ITEM, &h, sizeof(h), text, path + why + 2);
}

static int run_graft(void *arg, int out, struct err *e)
{
	struct forked *f = arg;
	const struct stack theirs = core_tree_whole(&f->fork), ours = core_tree_whole(&f->box);
	const struct graft_job job = {
		.base = &f->base,
		.theirs = &theirs,
		.ours = &ours,
		.only = f->only,
		.only_count = f->only_count,
		.prefer = f->m->theirs ? GRAFT_THEIRS
			  : f->m->ours ? GRAFT_OURS
				       : GRAFT_NEITHER,
		.layer_fd = f->layer_fd,
		.on_item = on_item,
		.arg = f,
	};

	f->out = out;
	return graft(&job, e);
}

/* ---- in the caller ---- */

static int bad_frame(struct err *e)
{
	return err_set(e, ERR_INTERNAL, EBADMSG, "the helper process broke off");
}

static int on_frame(void *arg, uint8_t type, const uint8_t *data, size_t len, struct err *e)
{
	static const enum cove_merge_state states[] = {[GRAFT_TAKEN] = COVE_MERGE_TAKEN,
						       [GRAFT_CONFLICT] = COVE_MERGE_CONFLICT,
						       [GRAFT_LEFT_OUT] = COVE_MERGE_LEFT_OUT};
	struct forked *f = arg;
	char shown[STACK_PATH_MAX + 160];
	struct fork_head h;
	size_t path;

	if (type != FRAME_ITEM || len < sizeof(h) + 2 || len - sizeof(h) > sizeof(shown) - 2)
		return bad_frame(e);
	memcpy(&h, data, sizeof(h));
	len -= sizeof(h);
	shown[0] = '/';
	memcpy(shown + 1, data + sizeof(h), len);
	path = strnlen(shown, len) + 1;
	if (h.state > GRAFT_LEFT_OUT || h.kind > COVE_REMOVED || shown[len] != 0 || path > len ||
	    path + strlen(shown + path) != len)
		return bad_frame(e);
	f->files++;
	if (f->is_said && h.state == GRAFT_CONFLICT)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "'%.100s' was changed meanwhile: nothing was merged", shown);
	if (f->is_said)
		return 0;
	return merge_say(f->m, states[h.state], (enum cove_change_kind)h.kind, shown,
			 shown[path] ? shown + path : NULL);
}

/* What the fork stood on when it was made. */
static int find_base(struct forked *f, struct err *e)
{
	const struct spec *s = &f->fork.record.spec;
	struct stack all = core_tree_base(&f->fork);
	size_t skip = 0;

	/* Its record lists them bottom first. */
	while (skip < s->layer_count) {
		struct layer_meta meta;
		const char *id = s->layers[s->layer_count - 1 - skip];
		int r = layer_read(&f->m->cove->state, id, &meta);

		if (r < 0)
			return err_errno(e, -r, "read layer '%.12s'", id);
		if (meta.created_ms <= s->created_ms)
			break;
		skip++;
	}
	f->base = (struct stack){.layers = all.layers + skip, .count = all.count - skip};
	return 0;
}

/* Two trees that have nothing in common are no fork and its box. */
static int check_related(const struct forked *f, struct err *e)
{
	struct stat a, b;

	if (f->base.count > 0 && f->box.count > 0 &&
	    fstat(f->base.layers[f->base.count - 1].fd, &a) == 0 &&
	    fstat(f->box.layers[f->box.count - 1].fd, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.60s' and '%.60s' do not come from the same image: nothing to merge",
		       f->fork.name, f->box.name);
}

static int open_both(struct forked *f, struct err *e)
{
	struct cove *cove = f->m->cove;
	int r = core_tree_open(cove, f->m->o->from, &f->fork, e);

	if (r == 0)
		r = core_tree_open(cove, f->m->o->to, &f->box, e);
	if (r < 0)
		return r;
	if (f->fork.kind != TREE_BOX || f->box.kind != TREE_BOX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a fork is merged into a box: '%.60s' is none",
			       f->fork.kind != TREE_BOX ? f->fork.name : f->box.name);
	if (strcmp(f->fork.name, f->box.name) == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%.60s' cannot be merged into itself",
			       f->box.name);
	r = find_base(f, e);
	return r < 0 ? r : check_related(f, e);
}

static void close_both(struct forked *f)
{
	core_tree_done(&f->fork);
	core_tree_done(&f->box);
	f->fork = f->box = CORE_TREE_NONE;
}

/* With both frozen, if they run. */
static int compare(struct forked *f, struct err *e)
{
	struct core_tree *const both[] = {&f->fork, &f->box};
	int dirs[2 * (SPEC_LAYER_MAX + 1)], r = 0;
	struct tree_reader reader = {.dirs = dirs,
				     .layers = &f->layer_fd,
				     .layer_count = f->layer_fd >= 0,
				     .run = run_graft,
				     .on_frame = on_frame,
				     .arg = f};

	for (int i = 0; i < 2 && r >= 0; i++) {
		r = core_tree_hold(f->m->cove, both[i], e);
		if (r > 0 && f->layer_fd >= 0)
			return err_set(e, ERR_CONFLICT, EBUSY,
				       "box '%s' runs and cannot be frozen on this host: stop it "
				       "first (cove stop %s)",
				       both[i]->name, both[i]->name);
		for (size_t k = 0; k < both[i]->count; k++)
			dirs[reader.dir_count++] = both[i]->layers[k].fd;
	}
	if (r >= 0)
		r = reader_run(&f->m->cove->ids, &reader, e);
	for (int i = 0; i < 2; i++) {
		int let = core_tree_release(both[i], r == 0 ? e : NULL);

		r = r == 0 ? let : r;
	}
	return r;
}

/* ---- doing it ---- */

/* The layer of what is taken, written and on disk, without a name yet. */
static int write_layer(struct forked *f, struct err *e)
{
	struct cove *cove = f->m->cove;
	autoclose int root = -1;
	int r = layers_new(&cove->state, &f->layer, e);

	if (r < 0)
		return r;
	/* As the box's root is: its own writes are above it from now on. */
	if (mkdirat(f->layer.fd, "rootfs", 0755) < 0)
		return state_error(&cove->state, errno, "make a layer in", e);
	root = openat(f->layer.fd, "rootfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return state_error(&cove->state, errno, "make a layer in", e);
	f->layer_fd = root;
	f->files = 0;
	r = compare(f, e);
	f->layer_fd = -1;
	if (r == 0 && syncfs(root) < 0)
		r = state_error(&cove->state, errno, "sync a layer in", e);
	return r;
}

/* Under the layers' lock: both layers get their names, and the box's directory says what it is to
 * become. */
static int write_intent(struct forked *f, struct commit *c, int box_fd, struct err *e)
{
	autofree struct rollback *rb = calloc(1, sizeof(*rb));
	const struct spec *s = &c->record.spec;
	const struct layer_meta meta = {.kind = LAYER_SNAPSHOT,
					.created_ms = clock_wall_ms(),
					.bytes = f->bytes,
					.files = f->files};
	struct cove *cove = f->m->cove;
	char token[2 * TOKEN_BYTES + 1], id[LAYER_ID_SIZE];
	autoclose int lock_fd = -1;
	int r = rb ? layers_lock(&cove->state, &lock_fd, e) : err_errno(e, ENOMEM, "merge");

	if (r == 0 && s->layer_count + 2 > SPEC_LAYER_MAX)
		r = err_set(e, ERR_LIMIT, E2BIG,
			    "box '%s' would stand on more than %u layers: save it as an image "
			    "(cove image save) and make a box of that",
			    c->box, SPEC_LAYER_MAX);
	if (r == 0)
		r = commit_place(c, e);
	if (r < 0)
		return r;
	layer_random_id(id);
	r = layers_place(&cove->state, &cove->ids, &f->layer, id, &meta, e);
	if (r < 0) {
		layers_trash_unused(&cove->state, (const char *const[]){c->root.id}, 1);
		return r;
	}
	rand_hex(token, TOKEN_BYTES);
	rb->token = token;
	rb->from = s->from ? s->from : id;
	memcpy(rb->layers, s->layers, s->layer_count * sizeof(s->layers[0]));
	rb->layer_count = s->layer_count;
	if (c->root.is_there)
		rb->layers[rb->layer_count++] = c->root.id;
	rb->layers[rb->layer_count++] = id;
	r = rollback_write(box_fd, rb, e);
	if (r < 0)
		layers_trash_unused(&cove->state, (const char *const[]){c->root.id, id}, 2);
	return r;
}

static bool stands_on_the_same(const struct spec *a, const struct spec *b)
{
	bool is = a->layer_count == b->layer_count;

	for (size_t i = 0; i < a->layer_count && is; i++)
		is = strcmp(a->layers[i], b->layers[i]) == 0;
	return is && strcmp(a->from ? a->from : "", b->from ? b->from : "") == 0;
}

/* It did not run since it was copied, nor did it become anything else, and does not until this is
 * done. */
static int lock_box(struct forked *f, const struct commit *c, const char *name, int box_fd,
		    struct err *e)
{
	struct record now;
	int r = core_wait_lock(f->m->cove, name, box_fd, START_WAIT_MS, e);
	bool is_same;

	if (r == 0)
		r = record_load(&f->m->cove->state, name, &now, e);
	if (r < 0)
		return r;
	is_same = !record_is_live(box_fd) && now.started_ms == c->record.started_ms &&
		  stands_on_the_same(&now.spec, &c->record.spec);
	record_done(&now);
	return is_same ? 0
		       : err_set(e, ERR_CONFLICT, EBUSY,
				 "box '%s' was started, rolled back or merged meanwhile: nothing "
				 "was merged, say it again",
				 name);
}

static int act(struct forked *f, const char *name, struct err *e)
{
	struct cove *cove = f->m->cove;
	autoclose int box_fd = -1, snapshot_fd = -1;
	struct commit c = {0};
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == 0)
		r = commit_begin(&c, cove, name, &(struct commit_options){.no_workspace = true}, e);
	if (r == 0)
		r = commit_lock(cove, name, box_fd, &snapshot_fd, e);
	if (r == 0)
		r = lock_box(f, &c, name, box_fd, e);
	if (r == 0)
		r = open_both(f, e);
	if (r == 0)
		r = write_layer(f, e);
	close_both(f);
	if (r == 0)
		r = write_intent(f, &c, box_fd, e);
	if (r == 0)
		r = rollback_finish(cove, name, box_fd, e);
	layers_drop(&cove->state, &cove->ids, &f->layer);
	commit_done(&c);
	return r;
}

/* A box that ran does so again, whatever became of the merge. */
static int stop_and_act(struct forked *f, const char *name, struct err *e)
{
	struct core_conn *conn = NULL;
	struct err why = {0};
	int ran = box_halt_to_merge(f->m->cove, name, e), r, up;

	if (ran < 0)
		return ran;
	r = act(f, name, e);
	if (ran == 0)
		return r;
	up = box_up(f->m->cove, name, false, &conn, &why);
	core_conn_free(conn);
	f->m->result->restarted = up == 0;
	if (r == 0 && up < 0) {
		*e = why;
		err_prefix(e, "it is merged, but does not start");
		return up;
	}
	return r;
}

static int merge_with(struct forked *f, struct err *e)
{
	char name[BOX_NAME_MAX + 1];
	int r = merge_paths(f->m->o->paths, "", &f->only, &f->only_count, e);

	if (r == 0)
		r = open_both(f, e);
	if (r == 0)
		r = compare(f, e);
	str_copy(name, sizeof(name), f->box.name);
	close_both(f);
	if (r < 0 || !merge_may_act(f->m))
		return r;
	f->is_said = true;
	if (f->m->result->taken > 0)
		r = stop_and_act(f, name, e);
	f->m->result->done = r == 0;
	return r;
}

int merge_fork(struct merge *m, struct err *e)
{
	struct forked *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_errno(e, ENOMEM, "merge");
	f->m = m;
	f->fork = f->box = CORE_TREE_NONE;
	f->layer_fd = -1;
	f->layer = LAYER_NEW_NONE;
	r = merge_with(f, e);
	merge_paths_free(f->only, f->only_count);
	free(f);
	return r;
}
