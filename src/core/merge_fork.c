/*
 * What a fork changed since it was forked, brought to the box that it came from.
 *
 * How it works: there are up to two parts, the box's own tree and its named workspace. The base of
 * each is what the fork stood on when it was made: those of its layers that are not younger than
 * it. A confined child (reader.h) lists what the fork has different from that and looks each path
 * up in the box (storage/graft.h). That is done once while both are only frozen: it finds the
 * conflicts, and says what would be done. Then the box is stopped, and
 *
 *	what it wrote itself becomes a layer (commit.h) -> the child writes what is taken as another
 *	-> both get their names, and the box's directory says what the box is to become
 *	(store/rollback.h) -> its volume is emptied, its record stands on the two layers more; the
 *	same for its workspace, if something of that is taken
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

enum { FRAME_ITEM = 1, PARTS_MAX = 2 };

/* FRAME_ITEM: this, then the path and, after its NUL, why. */
struct fork_head {
	uint8_t state, kind;
} __attribute__((packed));

struct fork_part {
	const char *prefix;	   /* where it is in the box: "" or "workspace" */
	struct stack base, theirs; /* of the fork's tree */
	struct stack ours;	   /* of the box's */
	const char **only;	   /* owned; NULL: all */
	size_t only_count;
	uint64_t taken;
	/* What is taken, as a layer: */
	int layer_fd; /* its root, while it is written; -1: nothing is */
	struct layer_new layer;
	char id[LAYER_ID_SIZE]; /* once it is in place */
};

struct forked {
	struct merge *m;
	struct core_tree fork, box;
	struct fork_part parts[PARTS_MAX];
	size_t part_count;
	struct fork_part *at; /* the one that is compared */
	bool is_said;	      /* the caller has heard it all */
	int out;	      /* in the child */
};

struct merge_names {
	char fork[BOX_NAME_MAX + 1], box[BOX_NAME_MAX + 1];
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

/* Each layer that the fork has of its own was bounded by its disk. */
static uint64_t bytes_max(const struct forked *f, const struct fork_part *p)
{
	uint64_t disk = f->fork.record.spec.limits[LIMIT_DISK];
	uint64_t layers = p->theirs.count - p->base.count + 1;

	return disk == 0 || disk > UINT64_MAX / layers ? 0 : disk * layers;
}

static int run_graft(void *arg, int out, struct err *e)
{
	struct forked *f = arg;
	const struct graft_job job = {
		.base = &f->at->base,
		.theirs = &f->at->theirs,
		.ours = &f->at->ours,
		.only = f->at->only,
		.only_count = f->at->only_count,
		.prefer = f->m->theirs ? GRAFT_THEIRS
			  : f->m->ours ? GRAFT_OURS
				       : GRAFT_NEITHER,
		.layer_fd = f->at->layer_fd,
		.bytes_max = bytes_max(f, f->at),
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
	char shown[sizeof(WORKSPACE_DST) + STACK_PATH_MAX + 160];
	size_t top = (size_t)snprintf(shown, sizeof(shown), "/%s%s", f->at->prefix,
				      f->at->prefix[0] ? "/" : "");
	struct fork_head h;
	size_t path;

	if (type != FRAME_ITEM || len < sizeof(h) + 2 || len - sizeof(h) > sizeof(shown) - top - 1)
		return bad_frame(e);
	memcpy(&h, data, sizeof(h));
	len -= sizeof(h);
	memcpy(shown + top, data + sizeof(h), len);
	len += top;
	path = strnlen(shown, len) + 1;
	if (h.state > GRAFT_LEFT_OUT || h.kind > COVE_REMOVED || shown[len - 1] != 0 ||
	    path >= len || path + strlen(shown + path) + 1 != len)
		return bad_frame(e);
	if (f->is_said && h.state == GRAFT_CONFLICT)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "'%.100s' was changed meanwhile: nothing was merged", shown);
	if (f->is_said)
		return 0;
	f->at->taken += h.state == GRAFT_TAKEN;
	return merge_say(f->m, states[h.state], (enum cove_change_kind)h.kind, shown,
			 shown[path] ? shown + path : NULL);
}

/* What the fork stood on when it was made, of layers that are listed top first and named bottom
 * first. */
static int find_base(const struct forked *f, struct stack all, const char *const *ids, size_t count,
		     struct stack *ret, struct err *e)
{
	size_t skip = 0;

	while (skip < count) {
		struct layer_meta meta;
		const char *id = ids[count - 1 - skip];
		int r = layer_read(&f->m->cove->state, id, &meta);

		if (r < 0)
			return err_errno(e, -r, "read layer '%.12s'", id);
		if (meta.created_ms <= f->fork.record.spec.created_ms)
			break;
		skip++;
	}
	*ret = (struct stack){.layers = all.layers + skip, .count = all.count - skip};
	return 0;
}

/* Two trees that have nothing in common are no fork and its box. */
static int check_related(const struct forked *f, struct stack base, struct err *e)
{
	struct stat a, b;

	if (base.count > 0 && f->box.count > 0 && fstat(base.layers[base.count - 1].fd, &a) == 0 &&
	    fstat(f->box.layers[f->box.count - 1].fd, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.60s' and '%.60s' do not come from the same image: nothing to merge",
		       f->fork.name, f->box.name);
}

static int add_part(struct forked *f, struct fork_part part, struct err *e)
{
	struct fork_part *p = &f->parts[f->part_count];
	bool none;
	int r;

	part.layer = p->layer;
	part.taken = p->taken;
	part.layer_fd = -1;
	*p = part;
	f->part_count++;
	r = core_tree_paths(f->m->o->paths, p->prefix, &p->only, &p->only_count, &none, e);
	if (r == 0 && none) /* an empty tree has nothing to merge */
		p->base = p->theirs = (struct stack){0};
	return r;
}

/* What of it cannot be merged, the caller hears once. */
static int leave_workspace(struct forked *f, const char *why)
{
	return f->is_said ? 0
			  : merge_say(f->m, COVE_MERGE_LEFT_OUT, COVE_CHANGED, WORKSPACE_DST, why);
}

static int add_workspace(struct forked *f, struct err *e)
{
	const struct core_tree_work *w = &f->fork.work;
	struct fork_part part = {.prefix = &WORKSPACE_DST[1]};
	int r;

	if (f->m->o->keep_workspace || !w->is_there ||
	    (f->box.work.is_there &&
	     strcmp(f->fork.record.spec.workspace, f->box.record.spec.workspace) == 0))
		return 0;
	if (!f->box.work.is_there)
		return leave_workspace(f, "the box has no named workspace");
	if (!w->has_base)
		return leave_workspace(f, "it is not known what it held when the fork was made");
	part.theirs = core_tree_work_whole(&f->fork);
	part.ours = core_tree_work_whole(&f->box);
	r = find_base(f, core_tree_work_base(&f->fork), (const char *const *)w->ids.layers,
		      w->ids.count, &part.base, e);
	return r < 0 ? r : add_part(f, part, e);
}

static int make_parts(struct forked *f, struct err *e)
{
	const struct spec *s = &f->fork.record.spec;
	struct fork_part part = {.prefix = "",
				 .theirs = core_tree_whole(&f->fork),
				 .ours = core_tree_whole(&f->box)};
	int r = find_base(f, core_tree_base(&f->fork), s->layers, s->layer_count, &part.base, e);

	f->part_count = 0;
	if (r == 0)
		r = check_related(f, part.base, e);
	if (r == 0)
		r = add_part(f, part, e);
	return r < 0 ? r : add_workspace(f, e);
}

static int open_both(struct forked *f, struct err *e)
{
	struct cove *cove = f->m->cove;
	int r = core_tree_open(cove, f->m->o->from, &f->fork, e);

	if (r == 0)
		r = core_tree_open(cove, f->m->o->to, &f->box, e);
	if (r == 0)
		r = core_tree_open_workspace(cove, &f->fork, e);
	if (r == 0)
		r = core_tree_open_workspace(cove, &f->box, e);
	if (r < 0)
		return r;
	if (f->fork.kind != TREE_BOX || f->box.kind != TREE_BOX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a fork is merged into a box: '%.60s' is none",
			       f->fork.kind != TREE_BOX ? f->fork.name : f->box.name);
	/* What it wrote to the copy is on the volume that becomes a layer, and in no layer. */
	if (f->box.record.spec.workspace_copy)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "box '%.60s' works on a copy of a host directory, which would be "
			       "lost: `cove merge %.60s` its changes and make the box anew",
			       f->box.name, f->box.name);
	if (strcmp(f->fork.name, f->box.name) == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%.60s' cannot be merged into itself",
			       f->box.name);
	return make_parts(f, e);
}

static void close_both(struct forked *f)
{
	for (size_t i = 0; i < PARTS_MAX; i++) {
		core_tree_paths_free(f->parts[i].only, f->parts[i].only_count);
		f->parts[i].only = NULL;
		f->parts[i].only_count = 0;
	}
	core_tree_done(&f->fork);
	core_tree_done(&f->box);
	f->fork = f->box = CORE_TREE_NONE;
}

static int compare_part(struct forked *f, struct fork_part *p, struct err *e)
{
	const struct stack *const stacks[] = {&p->theirs, &p->ours}; /* the base is of theirs */
	int dirs[2 * (SPEC_LAYER_MAX + 1)];
	struct tree_reader reader = {.dirs = dirs,
				     .layers = &p->layer_fd,
				     .layer_count = p->layer_fd >= 0,
				     .run = run_graft,
				     .on_frame = on_frame,
				     .arg = f};

	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < stacks[i]->count; k++)
			dirs[reader.dir_count++] = stacks[i]->layers[k].fd;
	f->at = p;
	return reader_run(&f->m->cove->ids, &reader, e);
}

/* With both frozen, if they run. Where layers are written, of what is taken only. */
static int compare(struct forked *f, bool writes, struct err *e)
{
	struct core_tree *const both[] = {&f->fork, &f->box};
	int r = 0;

	for (int i = 0; i < 2 && r >= 0; i++) {
		r = core_tree_hold(f->m->cove, both[i], e);
		if (r > 0 && writes)
			r = err_set(e, ERR_CONFLICT, EBUSY,
				    "box '%s' runs and cannot be frozen on this host: stop it "
				    "first (cove stop %s)",
				    both[i]->name, both[i]->name);
	}
	for (size_t i = 0; i < f->part_count && r >= 0; i++)
		if (!writes || f->parts[i].taken > 0)
			r = compare_part(f, &f->parts[i], e);
	for (int i = 0; i < 2; i++) {
		int let = core_tree_release(both[i], r == 0 ? e : NULL);

		r = r == 0 ? let : r;
	}
	return r;
}

/* ---- doing it ---- */

static int begin_layer(struct forked *f, struct fork_part *p, struct err *e)
{
	struct state *s = &f->m->cove->state;
	int r = layers_new(s, &p->layer, e);

	if (r < 0)
		return r;
	if (mkdirat(p->layer.fd, "rootfs", 0755) == 0)
		p->layer_fd = openat(p->layer.fd, "rootfs",
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->layer_fd < 0 ? state_error(s, errno, "make a layer in", e) : 0;
}

/* The layers of what is taken, written and on disk, without names yet. */
static int write_layers(struct forked *f, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < f->part_count && r == 0; i++)
		if (f->parts[i].taken > 0)
			r = begin_layer(f, &f->parts[i], e);
	if (r == 0)
		r = compare(f, true, e);
	for (size_t i = 0; i < f->part_count; i++) {
		int fd = f->parts[i].layer_fd;

		if (r == 0 && fd >= 0 && syncfs(fd) < 0)
			r = state_error(&f->m->cove->state, errno, "sync a layer in", e);
		fd_close(&f->parts[i].layer_fd);
	}
	return r;
}

static int place_layer(struct forked *f, const struct commit *c, struct fork_part *p, struct err *e)
{
	/* bytes 0: whoever wants to know counts them. */
	const struct layer_meta meta = {
		.kind = LAYER_SNAPSHOT, .created_ms = commit_time_ms(c), .files = p->taken};
	struct cove *cove = f->m->cove;
	int r;

	if (p->taken == 0)
		return 0;
	layer_random_id(p->id);
	r = layers_place(&cove->state, &cove->ids, &p->layer, p->id, &meta, e);
	if (r < 0)
		p->id[0] = 0;
	return r;
}

/* What it stood on, what it wrote, and what is taken. */
static int list_layers(const char **to, size_t *count, const struct commit_tree *own,
		       const struct fork_part *p, const struct commit *c, struct err *e)
{
	if (*count + 2 > SPEC_LAYER_MAX)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "box '%.60s' would stand on more than %u layers: take a snapshot "
			       "(cove snapshot create) and roll back to it, which makes one of "
			       "them",
			       c->box, SPEC_LAYER_MAX);
	if (own->is_there)
		to[(*count)++] = own->id;
	if (p->id[0])
		to[(*count)++] = p->id;
	return 0;
}

static int fill_intent(const struct forked *f, const struct commit *c, struct rollback *rb,
		       struct err *e)
{
	const struct spec *s = &c->record.spec;
	const struct fork_part *work = &f->parts[1];
	int r;

	rb->from = s->from;
	memcpy(rb->layers, s->layers, s->layer_count * sizeof(s->layers[0]));
	rb->layer_count = s->layer_count;
	r = list_layers(rb->layers, &rb->layer_count, &c->root, &f->parts[0], c, e);
	if (r < 0 || !work->id[0])
		return r;
	rb->workspace = s->workspace;
	for (size_t i = 0; i < c->below.count; i++)
		rb->workspace_layers[rb->workspace_layer_count++] = c->below.layers[i];
	return list_layers(rb->workspace_layers, &rb->workspace_layer_count, &c->workspace, work, c,
			   e);
}

/* Under the layers' lock: all layers get their names, and the box's directory says what it is to
 * become. */
static int write_intent(struct forked *f, struct commit *c, int box_fd, struct err *e)
{
	autofree struct rollback *rb = calloc(1, sizeof(*rb));
	const char *const made[] = {c->root.id, c->workspace.id, f->parts[0].id, f->parts[1].id};
	struct cove *cove = f->m->cove;
	char token[WORKSPACE_TOKEN];
	autoclose int lock_fd = -1;
	int r = rb ? layers_lock(&cove->state, &lock_fd, e) : err_errno(e, ENOMEM, "merge");

	if (r < 0)
		return r;
	rand_hex(token, sizeof(token) / 2);
	rb->token = token;
	r = commit_place(c, e);
	for (size_t i = 0; i < f->part_count && r == 0; i++)
		r = place_layer(f, c, &f->parts[i], e);
	if (r == 0)
		r = fill_intent(f, c, rb, e);
	if (r == 0)
		r = rollback_write(box_fd, rb, e);
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]) && r < 0; i++)
		if (made[i][0])
			layers_trash_unused(&cove->state, &made[i], 1);
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

/* It is not started, removed or rolled back while it is read. */
static int lock_fork(const struct forked *f, const char *fork, int *ret_fd, struct err *e)
{
	struct cove *cove = f->m->cove;
	int r = box_open_dir(cove, fork, ret_fd, e);

	if (r == 0)
		r = core_wait_lock(cove, fork, *ret_fd, START_WAIT_MS, e);
	return r < 0 || record_is_live(*ret_fd) ? r : rollback_finish(cove, fork, *ret_fd, e);
}

/* In the order of their names: two merges at once in both directions wait, and not for each other.
 */
static int lock_both(struct forked *f, const struct commit *c, const struct merge_names *n,
		     int box_fd, int *ret_fork_fd, struct err *e)
{
	bool fork_first = strcmp(n->fork, n->box) < 0;
	int r = fork_first ? lock_fork(f, n->fork, ret_fork_fd, e) : 0;

	if (r == 0)
		r = lock_box(f, c, n->box, box_fd, e);
	return r < 0 || fork_first ? r : lock_fork(f, n->fork, ret_fork_fd, e);
}

static int act(struct forked *f, const struct merge_names *n, struct err *e)
{
	struct cove *cove = f->m->cove;
	autoclose int box_fd = -1, snapshot_fd = -1, fork_fd = -1;
	const char *name = n->box;
	struct commit c = {0};
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == 0)
		r = commit_begin(&c, cove, name,
				 &(struct commit_options){.no_workspace = !f->parts[1].taken}, e);
	if (r == 0)
		r = commit_lock(cove, name, box_fd, &snapshot_fd, e);
	if (r == 0)
		r = lock_both(f, &c, n, box_fd, &fork_fd, e);
	if (r == 0)
		r = open_both(f, e);
	if (r == 0 && f->parts[1].taken > 0 && f->part_count < PARTS_MAX)
		r = err_set(e, ERR_CONFLICT, EBUSY,
			    "the workspace was removed or replaced meanwhile: nothing was merged");
	if (r == 0)
		r = write_layers(f, e);
	close_both(f);
	if (r == 0)
		r = write_intent(f, &c, box_fd, e);
	if (r == 0)
		r = rollback_finish(cove, name, box_fd, e);
	for (size_t i = 0; i < PARTS_MAX; i++)
		layers_drop(&cove->state, &cove->ids, &f->parts[i].layer);
	commit_done(&c);
	return r;
}

/* A box that ran does so again, whatever became of the merge. */
static int stop_and_act(struct forked *f, const struct merge_names *n, struct err *e)
{
	bool restarts;
	int r = merge_stop(f->m, n->box, &restarts, e), up;

	if (r < 0)
		return r;
	r = act(f, n, e);
	up = restarts ? merge_start(f->m, n->box, r == 0 ? e : NULL) : 0;
	return r < 0 ? r : up;
}

static int merge_with(struct forked *f, struct err *e)
{
	struct merge_names n;
	int r = open_both(f, e);

	if (r == 0)
		r = compare(f, false, e);
	if (r == 0 && f->parts[1].taken > 0 && merge_may_act(f->m))
		r = rollback_check_workspace(f->m->cove, &f->box.record.spec, e);
	str_copy(n.fork, sizeof(n.fork), f->fork.name);
	str_copy(n.box, sizeof(n.box), f->box.name);
	close_both(f);
	if (r < 0 || !merge_may_act(f->m))
		return r;
	f->is_said = true;
	if (f->m->result->taken > 0)
		r = stop_and_act(f, &n, e);
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
	for (size_t i = 0; i < PARTS_MAX; i++)
		f->parts[i].layer = LAYER_NEW_NONE;
	r = merge_with(f, e);
	free(f);
	return r;
}
