/*
 * What changed in a box, or between two of boxes, snapshots and images.
 *
 * How it works: both are opened as stacks of layers (trees.h), a running box is frozen, and a
 * confined child (reader.h) compares them (storage/diff.h) and sends what it finds, with text diffs
 * where they are asked for. There are up to two parts: the box's tree and, where both sides have
 * one, what is at /workspace: their named workspaces, or their copies of a host directory.
 */
#include "storage/diff.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/textdiff.h"
#include "core/reader.h"
#include "core/trees.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { FRAME_CHANGE = 1, FRAME_TEXT = 2, PARTS_MAX = 2 };
enum { TEXT_STEP = 64 << 10 };

/* The head of FRAME_CHANGE; the path follows. Then text_len bytes come as FRAME_TEXT. */
struct change_head {
	uint8_t part, kind, what, deep, text_kind;
	uint32_t text_len;
	struct {
		uint32_t mode, uid, gid;
		uint64_t size;
	} side[2];
} __attribute__((packed));

struct diff_part {
	struct stack before, after;
	const char *prefix; /* where it is in the box: "" or "workspace" */
	const char **only;  /* owned; NULL: all */
	size_t only_count;
};

struct core_diff {
	const struct cove_diff_options *o;
	struct core_tree *trees; /* from, to */
	struct diff_part parts[PARTS_MAX];
	size_t part_count;
	/* In the child: */
	size_t part; /* the one that is compared */
	int out;
	/* In the caller: */
	struct cove_change change;
	bool has_change;
	char path[BOX_PATH_MAX + sizeof(WORKSPACE_DST) + 1];
	struct buf text;
	uint32_t text_due;
	int stopped; /* what on_change returned */
};

/* ---- in the child ---- */

/* What stands in a file, or where a link leads; owned. *ret_kind says why there is none. */
static int read_side(const struct stack *s, const struct stack_entry *e, const char *path,
		     char **ret, size_t *ret_len, enum cove_text_kind *ret_kind)
{
	autoclose int fd = -1;
	ssize_t n;

	*ret = NULL;
	*ret_len = 0;
	if (!e || (!S_ISREG(e->st.st_mode) && !S_ISLNK(e->st.st_mode)))
		return 0;
	if (S_ISREG(e->st.st_mode) && e->st.st_size > (off_t)TEXTDIFF_BYTES_MAX) {
		*ret_kind = COVE_TEXT_LARGE;
		return 0;
	}
	*ret = malloc(TEXTDIFF_BYTES_MAX + 1);
	if (!*ret)
		return -ENOMEM;
	if (S_ISLNK(e->st.st_mode)) {
		n = stack_read_link(s, e, path, *ret, TEXTDIFF_BYTES_MAX);
	} else {
		fd = stack_open_file(s, e, path);
		n = fd < 0 ? fd : fd_read_full(fd, *ret, TEXTDIFF_BYTES_MAX);
	}
	if (n < 0)
		return (int)n;
	*ret_len = (size_t)n;
	return 0;
}

/* The text diff of one change. */
static int make_text(const struct diff_part *p, const struct diff_change *c, struct buf *out,
		     enum cove_text_kind *ret_kind)
{
	autofree char *a = NULL, *b = NULL;
	struct textdiff_text x = {0}, y = {0};
	int r;

	*ret_kind = COVE_TEXT_NONE;
	if (c->kind == DIFF_CHANGED && !(c->what & (DIFF_CONTENT | DIFF_TYPE)))
		return 0;
	r = read_side(&p->before, c->before, c->path, &a, &x.len, ret_kind);
	if (r == 0)
		r = read_side(&p->after, c->after, c->path, &b, &y.len, ret_kind);
	if (r < 0 || *ret_kind != COVE_TEXT_NONE || (!a && !b))
		return r;
	x.data = a;
	y.data = b;
	if (!textdiff_is_text(&x) || !textdiff_is_text(&y)) {
		*ret_kind = COVE_TEXT_BINARY;
		return 0;
	}
	*ret_kind = COVE_TEXT_LINES;
	r = textdiff_unified(&x, &y, out);
	if (r == -ENOBUFS) {
		buf_clear(out);
		*ret_kind = COVE_TEXT_LARGE;
		r = 0;
	}
	return r;
}

static int send_text(int out, struct buf *text)
{
	int r = 0;

	while (buf_len(text) > 0 && r == 0) {
		size_t n = buf_len(text) < TEXT_STEP ? buf_len(text) : TEXT_STEP;

		r = reader_send(out, FRAME_TEXT, buf_data(text), n, NULL, 0);
		buf_consume(text, n);
	}
	return r;
}

static int on_tree_change(void *arg, const struct diff_change *c)
{
	struct core_diff *d = arg;
	const struct stack_entry *sides[2] = {c->before, c->after};
	struct change_head h = {.part = (uint8_t)d->part,
				.kind = (uint8_t)c->kind,
				.what = (uint8_t)c->what,
				.deep = c->deep};
	enum cove_text_kind kind = COVE_TEXT_NONE;
	struct buf text;
	int r = 0;

	for (int i = 0; i < 2; i++)
		if (sides[i]) {
			h.side[i].mode = sides[i]->st.st_mode;
			h.side[i].uid = sides[i]->st.st_uid;
			h.side[i].gid = sides[i]->st.st_gid;
			h.side[i].size = (uint64_t)sides[i]->st.st_size;
		}
	buf_init(&text, DIFF_TEXT_MAX);
	if (d->o->text && !c->deep)
		r = make_text(&d->parts[d->part], c, &text, &kind);
	h.text_kind = (uint8_t)kind;
	h.text_len = (uint32_t)buf_len(&text);
	if (r == 0)
		r = reader_send(d->out, FRAME_CHANGE, &h, sizeof(h), c->path, strlen(c->path));
	if (r == 0)
		r = send_text(d->out, &text);
	buf_done(&text);
	return r;
}

static int run_diff(void *arg, int out, struct err *e)
{
	struct core_diff *d = arg;
	int r = 0;

	d->out = out;
	for (d->part = 0; d->part < d->part_count && r == 0; d->part++) {
		const struct diff_part *p = &d->parts[d->part];
		const struct diff_job job = {.before = &p->before,
					     .after = &p->after,
					     .only = p->only,
					     .only_count = p->only_count,
					     .on_change = on_tree_change,
					     .arg = d};

		r = diff_trees(&job, e);
	}
	return r;
}

/* ---- in the caller ---- */

/* A place that Cove made for something to be mounted there, or on the way to one: not the box's
 * doing. What is below /proc, /sys and /dev no box has ever seen. */
static bool is_place(const struct core_diff *d)
{
	static const char *const own[] = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"};
	static const char *const hidden[] = {"/proc", "/sys", "/dev"};
	const struct core_tree *t = &d->trees[1];
	const struct cove_change *c = &d->change;
	bool is_empty = S_ISDIR(c->after.mode) || (S_ISREG(c->after.mode) && c->after.size == 0);

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]) && t->has_record; i++)
		if (path_is_within(d->path, hidden[i]))
			return true;
	if (c->kind != COVE_ADDED || !is_empty || !t->has_record)
		return false;
	if (path_is_within(WORKSPACE_DST, d->path))
		return true;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (path_is_within(own[i], d->path))
			return true;
	for (size_t i = 0; i < t->record.spec.mount_count; i++)
		if (path_is_within(t->record.spec.mounts[i].dst, d->path))
			return true;
	return false;
}

/* The change that is whole now. */
static int hand_out(struct core_diff *d)
{
	if (!d->has_change || d->text_due > 0)
		return 0;
	d->has_change = false;
	d->change.text = d->change.text_kind == COVE_TEXT_LINES ? buf_cstr(&d->text) : NULL;
	d->change.text_len = buf_len(&d->text);
	if (is_place(d))
		return 0;
	d->stopped = d->o->on_change(d->o->arg, &d->change);
	return d->stopped ? -ECANCELED : 0;
}

static int bad_frame(struct err *e)
{
	return err_set(e, ERR_INTERNAL, EBADMSG, "the helper process broke off");
}

static void take_side(const struct change_head *h, int i, struct cove_change_side *ret)
{
	*ret = (struct cove_change_side){.mode = h->side[i].mode,
					 .uid = h->side[i].uid,
					 .gid = h->side[i].gid,
					 .size = h->side[i].size};
}

static int take_change(struct core_diff *d, const uint8_t *data, size_t len, struct err *e)
{
	struct change_head h;
	char rest[STACK_PATH_MAX + 1];
	const char *prefix;

	if (len < sizeof(h) || len - sizeof(h) > STACK_PATH_MAX || d->has_change)
		return bad_frame(e);
	memcpy(&h, data, sizeof(h));
	len -= sizeof(h);
	memcpy(rest, data + sizeof(h), len);
	rest[len] = 0;
	if (h.part >= d->part_count || h.kind > COVE_REMOVED || h.text_kind > COVE_TEXT_LARGE ||
	    h.text_len > DIFF_TEXT_MAX || strlen(rest) != len)
		return bad_frame(e);
	prefix = d->parts[h.part].prefix;
	snprintf(d->path, sizeof(d->path), "/%s%s%s", prefix, *prefix && *rest ? "/" : "", rest);
	d->change = (struct cove_change){.kind = (enum cove_change_kind)h.kind,
					 .what = h.what,
					 .path = d->path,
					 .deep = h.deep,
					 .text_kind = (enum cove_text_kind)h.text_kind};
	take_side(&h, 0, &d->change.before);
	take_side(&h, 1, &d->change.after);
	d->has_change = true;
	d->text_due = h.text_len;
	buf_clear(&d->text);
	return hand_out(d);
}

static int on_frame(void *arg, uint8_t type, const uint8_t *data, size_t len, struct err *e)
{
	struct core_diff *d = arg;
	int r;

	if (type == FRAME_CHANGE)
		return take_change(d, data, len, e);
	if (type != FRAME_TEXT || !d->has_change || len > d->text_due || len == 0)
		return bad_frame(e);
	r = buf_append(&d->text, data, len);
	if (r < 0)
		return err_errno(e, -r, "keep a text");
	d->text_due -= (uint32_t)len;
	return hand_out(d);
}

/* ---- the parts ---- */

static void free_paths(struct diff_part *p)
{
	core_tree_paths_free(p->only, p->only_count);
	p->only = NULL;
	p->only_count = 0;
}

static int add_part(struct core_diff *d, struct stack before, struct stack after,
		    const char *prefix, struct err *e)
{
	struct diff_part *p = &d->parts[d->part_count];
	bool none;
	int r;

	*p = (struct diff_part){.before = before, .after = after, .prefix = prefix};
	r = core_tree_paths(d->o->paths, prefix, &p->only, &p->only_count, &none, e);
	if (r < 0 || none)
		free_paths(p);
	else
		d->part_count++;
	return r;
}

static struct stack copy_of(const struct core_tree *t, bool base)
{
	size_t skip = base ? t->copy_count - 1 : 0;

	return (struct stack){.layers = t->copy + skip, .count = t->copy_count - skip};
}

/* A named workspace, where it is known what to compare it with. */
static bool has_named(const struct core_diff *d)
{
	const struct core_tree_work *from = &d->trees[0].work, *to = &d->trees[1].work;
	bool has = to->is_there && (d->o->to ? from->is_there : to->has_base);

	if (to->is_there && !has && !d->o->to && d->o->ret_no_workspace)
		*d->o->ret_no_workspace = true;
	return has;
}

/* from is opened twice where it is compared with itself: the second is the box as it is. */
static int choose_parts(struct core_diff *d, struct err *e)
{
	const struct core_tree *from = &d->trees[0], *to = &d->trees[1];
	bool alone = !d->o->to;
	bool has_copy = to->copy_count > 0 && (alone || from->copy_count > 0);
	bool has_work = has_named(d);
	int r = 0;

	if (alone && to->kind != TREE_BOX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s' is not a box: say what to compare it with", to->name);
	if (d->o->workspace && !has_copy && !has_work)
		return err_set(e, ERR_INVALID, EINVAL,
			       to->work.is_there && alone
				       ? "it is not known what the workspace of '%.60s' held when "
					 "the box was made: compare it with a snapshot"
				       : "'%.60s' has no workspace that can be compared: a named "
					 "one, or a copy of a host directory (--workspace DIR "
					 "--copy)",
			       to->name);
	if (!d->o->workspace)
		r = add_part(d, alone ? core_tree_base(to) : core_tree_whole(from),
			     core_tree_whole(to), "", e);
	if (r == 0 && has_copy)
		r = add_part(d, copy_of(alone ? to : from, alone), copy_of(to, false),
			     &WORKSPACE_DST[1], e);
	else if (r == 0 && has_work)
		r = add_part(d, alone ? core_tree_work_base(to) : core_tree_work_whole(from),
			     core_tree_work_whole(to), &WORKSPACE_DST[1], e);
	return r;
}

/* ---- the whole ---- */

static int compare(struct cove *cove, struct core_diff *d, struct err *e)
{
	int dirs[4 * (SPEC_LAYER_MAX + 3)];
	struct tree_reader reader = {.dirs = dirs, .run = run_diff, .on_frame = on_frame, .arg = d};

	for (size_t i = 0; i < d->part_count; i++) {
		const struct stack *both[2] = {&d->parts[i].before, &d->parts[i].after};

		for (int k = 0; k < 2; k++)
			for (size_t n = 0; n < both[k]->count; n++)
				dirs[reader.dir_count++] = both[k]->layers[n].fd;
	}
	return reader_run(&cove->ids, &reader, e);
}

static int open_trees(struct cove *cove, struct core_diff *d, struct err *e)
{
	int r = d->o->to ? core_tree_open(cove, d->o->from, &d->trees[0], e) : 0;

	if (r == 0)
		r = core_tree_open(cove, d->o->to ? d->o->to : d->o->from, &d->trees[1], e);
	for (int i = 0; i < 2 && r == 0; i++)
		r = core_tree_open_workspace(cove, &d->trees[i], e);
	for (int i = 0; i < 2 && r >= 0; i++) {
		r = core_tree_hold(cove, &d->trees[i], e);
		if (r > 0 && d->o->ret_live)
			*d->o->ret_live = true;
	}
	return r < 0 ? r : choose_parts(d, e);
}

static int check_options(const struct cove_diff_options *o, struct err *e)
{
	if (!o->from || !o->on_change)
		return err_set(e, ERR_INVALID, EINVAL, "from and on_change must be given");
	return 0;
}

static int diff(struct cove *cove, const struct cove_diff_options *o, struct err *e)
{
	struct core_diff *d = calloc(1, sizeof(*d));
	struct core_tree *trees = calloc(2, sizeof(*trees));
	int r = d && trees ? check_options(o, e) : err_errno(e, ENOMEM, "compare");

	if (r == 0) {
		d->o = o;
		d->trees = trees;
		trees[0] = trees[1] = CORE_TREE_NONE;
		buf_init(&d->text, DIFF_TEXT_MAX + 1);
		r = open_trees(cove, d, e);
		if (r == 0)
			r = compare(cove, d, e);
		if (r < 0 && d->stopped)
			r = err_set(e, ERR_INTERRUPTED, ECANCELED, "the caller wants no more");
		for (int i = 0; i < 2; i++) {
			int let = core_tree_release(&trees[i], r == 0 ? e : NULL);

			r = r == 0 ? let : r;
			core_tree_done(&trees[i]);
		}
		for (size_t i = 0; i < PARTS_MAX; i++)
			free_paths(&d->parts[i]);
		buf_done(&d->text);
	}
	free(trees);
	free(d);
	return r;
}

int cove_diff(struct cove *cove, const struct cove_diff_options *options, struct cove_error *err)
{
	struct cove_diff_options o = {.size = sizeof(o)};
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	if (r == 0) {
		core_sweep_seldom(cove);
		r = diff(cove, &o, &e);
	}
	return core_return(cove, NULL, r, &e, err);
}
