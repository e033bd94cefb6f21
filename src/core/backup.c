/*
 * Backing up; see backup.h for what the file holds.
 *
 * The layers that a box, a workspace, an image or a snapshot stands on come right before it, once.
 * Nothing is locked for the whole time: a layer that went meanwhile with its image ends the backup,
 * and it can be said again. A box that does not run cannot be started while it is copied; one that
 * runs is frozen for that, and so are those that use a workspace while that is.
 *
 * What a box made of its files ends no backup: a box, workspace or snapshot with more than can be
 * packed (ERR_LIMIT) is left out and named, and what was written of it is taken back.
 *
 * The file is written without a name, and has one when it is whole and on disk.
 */
#include "core/backup.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/rollback.h"
#include "core/trees.h"
#include "store/blobs.h"
#include "store/image.h"
#include "store/layer.h"
#include "store/net.h"
#include "store/retention.h"
#include "store/snapshot.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELD_BOXES_MAX = 64 };

const char *const backup_box_files[] = {"record",	 NET_POLICY_FILE, NET_POLICY_NAME_FILE,
					NET_GRANTS_FILE, RETENTION_FILE,  NULL};

struct backup {
	struct cove *cove;
	const char *kind; /* of file */
	const char *only; /* the one thing that is exported */
	struct cove_backup_options o;
	struct cove_backed_up done;
	struct parcel_writer *w;  /* owned */
	struct state_list layers; /* that are in the file */
	struct err *e;
};

/* ---- trees ---- */

static int sink_write(void *arg, const void *p, size_t n, struct err *e)
{
	return parcel_add(arg, p, n, e);
}

static int pack_inside(struct inside_job *job)
{
	struct backup_pack_job *j = (struct backup_pack_job *)(void *)job;

	return tree_pack(j->root_fd, &(struct tree_sink){sink_write, &j->w, j->bytes_max}, &j->sum,
			 &job->err);
}

int backup_pack_tree(struct cove *cove, struct parcel_writer *w, int root_fd, uint64_t bytes_max,
		     struct tree_packed *ret, struct err *e)
{
	struct backup_pack_job *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return err_errno(e, ENOMEM, "pack a tree");
	j->job.run = pack_inside;
	j->root_fd = root_fd;
	j->bytes_max = bytes_max;
	j->w = *w;
	r = inside_run(&cove->ids, &j->job, sizeof(*j), e);
	*w = j->w;
	if (r == 0 && ret)
		*ret = j->sum;
	free(j);
	return r;
}

/* ---- members ---- */

static int begin(struct backup *b, struct buf *head)
{
	int r = parcel_member(b->w, buf_data(head), buf_len(head), b->e);

	buf_done(head);
	return r;
}

static int begin_named(struct backup *b, const char *what, const char *key, const char *name)
{
	struct buf head;
	int r;

	buf_init(&head, PARCEL_HEAD_MAX);
	r = lines_put(&head, "what", what);
	if (r == 0 && key)
		r = lines_put(&head, key, name);
	if (r < 0) {
		buf_done(&head);
		return err_errno(b->e, -r, "write the file");
	}
	return begin(b, &head);
}

static int put_bytes(struct backup *b, const char *what, const char *key, const char *name,
		     const char *text, size_t len)
{
	int r = begin_named(b, what, key, name);

	if (r == 0)
		r = parcel_add(b->w, text, len, b->e);
	return r < 0 ? r : parcel_member_end(b->w, b->e);
}

/* Missing is success: it went meanwhile. */
static int put_file(struct backup *b, const char *what, const char *key, const char *name,
		    int dir_fd, const char *file)
{
	autofree char *text = NULL;
	size_t len;
	int r = fd_read_file(dir_fd, file, PARCEL_HEAD_MAX, &text, &len);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? err_errno(b->e, -r, "read '%.80s'", file)
		     : put_bytes(b, what, key, name, text, len);
}

/* Where files can share their blocks, and would not in the file: what the disk holds. */
static uint64_t bytes_of(const struct volume *v)
{
	bool shares = v->ops && v->ops->flags & STORAGE_SNAPSHOTS && v->bytes;

	return shares ? v->bytes + POOL_EASE : 0;
}

static int put_tree(struct backup *b, int root_fd, uint64_t bytes_max)
{
	struct tree_packed sum = {0};
	int r = backup_pack_tree(b->cove, b->w, root_fd, bytes_max, &sum, b->e);

	if (r < 0)
		return r;
	b->done.left_out += sum.left_out;
	return parcel_member_end(b->w, b->e);
}

static void say(struct backup *b, const char *kind, const char *name)
{
	if (b->o.on_item)
		b->o.on_item(b->o.arg, kind, name);
}

/* ---- what is left out ---- */

/* Where the file was before something was begun that may be left out. */
struct backup_mark {
	struct parcel_writer w;
	struct cove_backed_up done;
	size_t layers;
};

static void mark(const struct backup *b, struct backup_mark *ret)
{
	*ret = (struct backup_mark){.w = *b->w, .done = b->done, .layers = b->layers.count};
}

static int leave_out(struct backup *b, const struct backup_mark *m, const char *kind,
		     const char *name, const char *why)
{
	char text[BOX_NAME_MAX + sizeof(b->e->msg) + 16];

	while (b->layers.count > m->layers)
		free(b->layers.names[--b->layers.count]);
	b->done = m->done;
	snprintf(text, sizeof(text), "%s: left out, %s", name, why);
	say(b, kind, text);
	return parcel_rewind(b->w, &m->w, b->e);
}

/* Does an error cost only what it is of? Then it is *ret. An export has nothing else. */
static bool take_reason(struct backup *b, int r, struct err *ret)
{
	if (r >= 0 || b->only || b->e->kind != ERR_LIMIT)
		return false;
	*ret = *b->e;
	*b->e = (struct err){0};
	return true;
}

/* ---- layers ---- */

static int put_layer(struct backup *b, const char *id)
{
	static const char *const kinds[] = {[LAYER_IMAGE] = "image", [LAYER_SNAPSHOT] = "snapshot"};
	autoclose int root_fd = -1;
	char root[BOX_PATH_MAX];
	struct layer_meta meta;
	struct buf head;
	int r = layer_read(&b->cove->state, id, &meta);

	if (r == 0)
		r = layer_root(&b->cove->state, id, root, sizeof(root));
	if (r == 0) {
		root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		r = root_fd < 0 ? -errno : 0;
	}
	if (r < 0)
		return err_set(b->e, ERR_CONFLICT, -r,
			       "layer %.12s went while it was needed, or is damaged: say it again, "
			       "or look with `cove system verify`",
			       id);
	say(b, "layer", id);
	buf_init(&head, PARCEL_HEAD_MAX);
	r = lines_put(&head, "what", "layer");
	if (r == 0)
		r = lines_put(&head, "id", id);
	if (r == 0)
		r = lines_put(&head, "kind", kinds[meta.kind]);
	if (r == 0)
		r = lines_put_u64(&head, "created_ms", meta.created_ms);
	if (r == 0)
		r = lines_put_u64(&head, "bytes", meta.bytes);
	if (r == 0)
		r = lines_put_u64(&head, "files", meta.files);
	if (r == 0)
		r = lines_put(&head, "diff", meta.diff);
	r = r < 0 ? err_errno(b->e, -r, "write the file") : begin(b, &head);
	b->done.layers++;
	return r < 0 ? r : put_tree(b, root_fd, 0);
}

static bool has_layer(const struct backup *b, const char *id)
{
	for (size_t i = b->layers.count; i > 0; i--)
		if (strcmp(b->layers.names[i - 1], id) == 0)
			return true;
	return false;
}

static int put_layers(struct backup *b, const char *const *ids, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (has_layer(b, ids[i]))
			continue;
		r = put_layer(b, ids[i]);
		if (r == 0 && state_list_add(&b->layers, ids[i], REFS_MAX) < 0)
			r = err_errno(b->e, ENOMEM, "collect layers");
	}
	return r;
}

/* ---- images, snapshots, policies, secrets ---- */

static int put_images(struct backup *b)
{
	struct state *s = &b->cove->state;
	struct image *list = NULL;
	char file[IMAGE_NAME_MAX + 1];
	size_t count = 0;
	int r = image_list(s, &list, &count, b->e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (list[i].is_host)
			continue;
		say(b, "image", list[i].name);
		image_file_name(list[i].name, file);
		r = put_layers(b, list[i].layers, list[i].layer_count);
		if (r == 0)
			r = put_file(b, "image", "name", file, s->images_fd, file);
		b->done.images++;
	}
	image_list_free(list, count);
	return r;
}

static int put_snapshot(struct backup *b, const struct snapshot *sn)
{
	autoclose int dir_fd = fd_open_below(b->cove->state.home_fd, "snapshots", false);
	struct backup_mark m;
	struct err why;
	int r;

	mark(b, &m);
	say(b, "snapshot", sn->name);
	r = put_layers(b, sn->layers, sn->layer_count);
	if (r == 0)
		r = put_layers(b, sn->workspace_layers, sn->workspace_layer_count);
	if (r == 0)
		r = put_file(b, "snapshot", "name", sn->name, dir_fd, sn->name);
	b->done.snapshots++;
	return take_reason(b, r, &why) ? leave_out(b, &m, "snapshot", sn->name, why.msg) : r;
}

static int put_snapshots(struct backup *b)
{
	struct snapshot *list = NULL;
	size_t count = 0;
	int r = snapshot_list(&b->cove->state, &list, &count, b->e);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = list[i].transient ? 0 : put_snapshot(b, &list[i]);
	snapshot_list_free(list, count);
	return r;
}

static int put_one_snapshot(struct backup *b)
{
	struct snapshot sn;
	int r = snapshot_find(&b->cove->state, b->only, &sn, b->e);

	if (r == 0)
		r = put_snapshot(b, &sn);
	snapshot_done(&sn);
	return r;
}

/* Every file of a directory; one that is missing has none. */
static int put_dir(struct backup *b, const char *what, const char *dir)
{
	autoclose int fd = fd_open_below(b->cove->state.home_fd, dir, false);
	char **names = NULL;
	size_t count = 0;
	struct stat st;
	int r = fd < 0 ? 0 : state_all_names(fd, &names, &count);

	for (size_t i = 0; r == 0 && i < count; i++)
		if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
			r = put_file(b, what, "name", names[i], fd, names[i]);
	state_names_free(names, count);
	return r;
}

/* ---- boxes ---- */

static int put_box_parts(struct backup *b, const char *name, const struct core_tree *t)
{
	const uint64_t disk = t->volume.ops ? t->volume.bytes : 0;
	struct buf head;
	int r;

	buf_init(&head, PARCEL_HEAD_MAX);
	r = lines_put(&head, "what", "box");
	if (r == 0)
		r = lines_put(&head, "name", name);
	if (r == 0)
		r = lines_put_u64(&head, BACKUP_DISK_KEY,
				  disk ? t->record.spec.limits[LIMIT_DISK] : 0);
	r = r < 0 ? err_errno(b->e, -r, "write the file") : begin(b, &head);
	if (r == 0)
		r = parcel_member_end(b->w, b->e);
	for (size_t i = 0; r == 0 && backup_box_files[i]; i++)
		r = put_file(b, "box_file", "file", backup_box_files[i], t->box_fd,
			     backup_box_files[i]);
	if (r == 0 && t->has_own) {
		r = begin_named(b, "box_tree", "dir", "upper");
		if (r == 0)
			r = put_tree(b, t->layers[0].fd, bytes_of(&t->volume));
	}
	if (r == 0 && t->copy_count == 2) {
		r = begin_named(b, "box_tree", "dir", WORKSPACE_COPY "/upper");
		if (r == 0)
			r = put_tree(b, t->copy[0].fd, bytes_of(&t->volume));
	}
	if (r == 0)
		r = begin_named(b, "box_end", NULL, NULL);
	if (r == 0)
		r = parcel_member_end(b->w, b->e);
	return r;
}

/* Its layers before it is frozen. *ret_why is set if it is left out. */
static int put_whole_box(struct backup *b, const char *name, struct core_tree *t,
			 struct err *ret_why)
{
	const struct spec *s = &t->record.spec;
	int r = put_layers(b, s->layers, s->layer_count);

	if (r == 0)
		r = core_tree_hold(b->cove, t, b->e);
	if (r == 1)
		return err_set(ret_why, ERR_CONFLICT, EBUSY,
			       "it runs and cannot be frozen here: stop it first");
	say(b, "box", name);
	if (r == 0)
		r = put_box_parts(b, name, t);
	if (r == 0)
		r = core_tree_release(t, b->e);
	b->done.boxes += r == 0;
	take_reason(b, r, ret_why);
	return r;
}

/* Kept from being started or removed. 1: there is nothing to put. */
static int open_box(struct backup *b, const char *name, int *box_fd, struct core_tree *t,
		    struct err *ret_why)
{
	char which[BOX_NAME_MAX + 8];
	int r = record_open(&b->cove->state, name, box_fd, ret_why);

	if (r == 0)
		r = record_lock_operation(*box_fd, true, ret_why);
	if (r == 0 && !record_is_live(*box_fd))
		r = rollback_finish(b->cove, name, *box_fd, ret_why);
	snprintf(which, sizeof(which), "box:%s", name);
	if (r == 0)
		r = core_tree_open(b->cove, which, t, ret_why);
	if (r == 0)
		return t->record.spec.one_shot;
	if (ret_why->kind != ERR_NOT_FOUND)
		return r;
	*ret_why = (struct err){0};
	return 1;
}

static int put_box(struct backup *b, const char *name)
{
	struct core_tree t = CORE_TREE_NONE;
	autoclose int box_fd = -1;
	struct backup_mark m;
	struct err why = {0};
	int r;

	mark(b, &m);
	r = open_box(b, name, &box_fd, &t, &why);
	if (r == 0)
		r = put_whole_box(b, name, &t, &why);
	core_tree_done(&t);
	if (why.kind != ERR_NONE) {
		r = leave_out(b, &m, "box", name, why.msg);
		b->done.boxes_left_out++;
	}
	return r < 0 ? r : 0;
}

static int put_boxes(struct backup *b)
{
	char **names = NULL;
	size_t count = 0;
	int r = record_names(&b->cove->state, &names, &count, b->e);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_box(b, names[i]);
	state_names_free(names, count);
	return r;
}

/* ---- workspaces ---- */

struct held_boxes {
	struct core_tree *trees; /* owned; HELD_BOXES_MAX */
	size_t count;
};

/* Freezes the boxes that run with it. 1: one cannot be. */
static int hold_users(struct backup *b, const char *workspace, struct held_boxes *h)
{
	char **names = NULL, which[BOX_NAME_MAX + 8];
	size_t count = 0;
	int r = record_names(&b->cove->state, &names, &count, b->e);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct core_tree *t = &h->trees[h->count];
		struct record record = {0};
		bool uses = record_load(&b->cove->state, names[i], &record, NULL) == 0 &&
			    record.spec.workspace &&
			    strcmp(record.spec.workspace, workspace) == 0 &&
			    record.state == BOX_RUNNING;

		record_done(&record);
		if (!uses)
			continue;
		if (h->count == HELD_BOXES_MAX) {
			r = err_set(b->e, ERR_LIMIT, E2BIG,
				    "more than %d boxes run with workspace '%s': stop some",
				    HELD_BOXES_MAX, workspace);
			break;
		}
		snprintf(which, sizeof(which), "box:%s", names[i]);
		r = core_tree_open(b->cove, which, t, b->e);
		h->count++;
		if (r == 0 || b->e->kind == ERR_NOT_FOUND) /* one that was removed is no user */
			r = r < 0 ? 0 : core_tree_hold(b->cove, t, b->e);
	}
	state_names_free(names, count);
	return r;
}

static int release_users(struct held_boxes *h, int r, struct err *e)
{
	for (size_t i = 0; i < h->count; i++) {
		if (r == 0)
			r = core_tree_release(&h->trees[i], e);
		core_tree_done(&h->trees[i]);
	}
	free(h->trees);
	return r;
}

/* The layers of one that stands on some, and their list, unless only they are put. */
static int put_stack(struct backup *b, const char *name, bool only_layers)
{
	char file[BOX_NAME_MAX + sizeof(WORKSPACE_STACK_END)];
	struct state *st = &b->cove->state;
	struct workspace_stack stack;
	int r = workspace_stack_read(st, name, &stack);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_errno(b->e, -r, "read the layers of workspace '%s'", name);
	r = put_layers(b, (const char *const *)stack.layers, stack.count);
	workspace_stack_done(&stack);
	snprintf(file, sizeof(file), "%s" WORKSPACE_STACK_END, name);
	return r < 0 || only_layers
		       ? r
		       : put_file(b, "workspace_stack", "name", name, st->workspaces_fd, file);
}

static int put_workspace_tree(struct backup *b, const char *name)
{
	struct workspace_use u;
	struct buf head;
	int r = workspace_use(&b->cove->state, name, &b->cove->ids, 0, false, &u, b->e);

	buf_init(&head, PARCEL_HEAD_MAX);
	if (r == 0) {
		r = lines_put(&head, "what", "workspace");
		if (r == 0)
			r = lines_put(&head, "name", name);
		if (r == 0)
			r = lines_put_u64(&head, BACKUP_DISK_KEY,
					  u.volume.ops ? u.volume.bytes : 0);
		r = r < 0 ? err_errno(b->e, -r, "write the file") : begin(b, &head);
	}
	if (r == 0)
		r = put_tree(b, u.root_fd, bytes_of(&u.volume));
	buf_done(&head);
	workspace_use_done(&u);
	return r;
}

/* Its layers before boxes are frozen, and their list before it is there. 1: a box that runs with it
 * cannot be frozen. */
static int put_held_workspace(struct backup *b, const char *name)
{
	struct held_boxes held = {.trees = calloc(HELD_BOXES_MAX, sizeof(*held.trees))};
	int r = held.trees ? put_stack(b, name, true)
			   : err_errno(b->e, ENOMEM, "back up workspace '%s'", name);

	if (r == 0)
		r = hold_users(b, name, &held);
	if (r == 0)
		say(b, "workspace", name);
	if (r == 0)
		r = put_stack(b, name, false);
	if (r == 0)
		r = put_workspace_tree(b, name);
	return release_users(&held, r, b->e);
}

static int put_workspace(struct backup *b, const char *name)
{
	struct backup_mark m;
	struct err why = {0};
	int r;

	mark(b, &m);
	r = put_held_workspace(b, name);
	b->done.workspaces += r == 0;
	if (r == 1)
		err_set(&why, ERR_CONFLICT, EBUSY, "a box that cannot be frozen here runs with it");
	else if (!take_reason(b, r, &why))
		return r;
	r = leave_out(b, &m, "workspace", name, why.msg);
	b->done.workspaces_left_out++;
	return r;
}

static int put_workspaces(struct backup *b)
{
	char **names = NULL;
	size_t count = 0;
	int r = state_names(b->cove->state.workspaces_fd, &names, &count);

	if (r < 0)
		err_errno(b->e, -r, "list the workspaces");
	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_workspace(b, names[i]);
	state_names_free(names, count);
	return r;
}

static int put_one_workspace(struct backup *b)
{
	struct stat st;
	int r = state_check_name("workspace", b->only, b->e);

	if (r == 0 && fstatat(b->cove->state.workspaces_fd, b->only, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = err_set(b->e, ERR_NOT_FOUND, ENOENT,
			    "no workspace '%s': 'cove workspace ls' shows all", b->only);
	if (r == 0)
		r = put_workspace(b, b->only);
	if (r == 0 && b->done.workspaces_left_out)
		r = err_set(b->e, ERR_CONFLICT, EBUSY,
			    "a box that cannot be frozen here runs with workspace '%s': stop it "
			    "first",
			    b->only);
	return r;
}

/* ---- blobs ---- */

static int put_blob(struct backup *b, const char *digest)
{
	autofree char *block = malloc(PARCEL_PIECE_MAX);
	autoclose int fd = -1;
	ssize_t n = 1;
	int r = blobs_open(&b->cove->state, digest, &fd, NULL, b->e);

	if (r == -ENOENT || !block)
		return block ? 0 : err_errno(b->e, ENOMEM, "back up a blob");
	if (r == 0)
		r = begin_named(b, "blob", "name", digest);
	while (r == 0 && (n = fd_read_full(fd, block, PARCEL_PIECE_MAX)) > 0)
		r = parcel_add(b->w, block, (size_t)n, b->e);
	if (r == 0 && n < 0)
		r = err_errno(b->e, (int)-n, "read blob %.12s", digest);
	b->done.blobs++;
	return r < 0 ? r : parcel_member_end(b->w, b->e);
}

static int put_blobs(struct backup *b)
{
	char **digests = NULL;
	size_t count = 0;
	int r = blobs_list(&b->cove->state, &digests, &count, b->e);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_blob(b, digests[i]);
	state_names_free(digests, count);
	return r;
}

/* ---- the file ---- */

static int put_all(struct backup *b)
{
	static int (*const parts[])(struct backup * b) = {put_boxes, put_workspaces, put_images,
							  put_snapshots, put_blobs};
	int r = 0;

	if (b->only) {
		return strcmp(b->kind, BACKUP_SNAPSHOT) == 0 ? put_one_snapshot(b)
							     : put_one_workspace(b);
	}
	for (size_t i = 0; r == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		r = parts[i](b);
	if (r == 0)
		r = put_dir(b, "policy", "door");
	if (r == 0)
		r = put_dir(b, "retention", RETENTION_DIR);
	if (r == 0 && b->o.with_secrets)
		r = put_dir(b, "secret", "secrets");
	return r;
}

/* A file without a name where the filesystem has such: a killed backup leaves nothing. */
static int open_unnamed(int dir_fd, const char *tmp, bool *ret_named)
{
	int fd = openat(dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	*ret_named = fd < 0;
	if (fd < 0)
		fd = openat(dir_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

static int name_file(int dir_fd, int fd, bool named, const char *tmp, const char *name)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fsync(fd) < 0 ||
	    (!named && linkat(AT_FDCWD, path, dir_fd, tmp, AT_SYMLINK_FOLLOW) < 0) ||
	    renameat(dir_fd, tmp, dir_fd, name) < 0 || fsync(dir_fd) < 0)
		return -errno;
	return 0;
}

static int write_all(struct backup *b, int fd, struct err *e)
{
	int r = parcel_begin(b->w, fd, b->kind, e);

	parcel_bound(b->w, b->o.max_bytes, b->o.disk_reserve);
	if (r == 0 && (b->only || b->cove->state.home_fd >= 0))
		r = put_all(b);
	r = r == 0 ? parcel_end(b->w, e) : r;
	b->done.bytes = b->w->bytes;
	return r;
}

/* Whole and on disk before it has its name. */
static int write_file(struct backup *b, int dir_fd, const char *name, struct err *e)
{
	char tmp[48], token[17];
	autoclose int fd = -1;
	bool named;
	int r;

	rand_hex(token, 8);
	snprintf(tmp, sizeof(tmp), ".cove-%s", token);
	fd = open_unnamed(dir_fd, tmp, &named);
	if (fd < 0)
		return err_errno(e, -fd, "write '%.120s'", name);
	r = write_all(b, fd, e);
	if (r == 0 && (r = name_file(dir_fd, fd, named, tmp, name)) < 0)
		err_errno(e, -r, "write '%.120s'", name);
	if (r < 0)
		unlinkat(dir_fd, tmp, 0);
	return r;
}

static int back_up(struct backup *b, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/'), *name = path_base(path);
	autofree char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	autoclose int dir_fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int r = core_ids(b->cove, e);

	if (r < 0 || b->o.fd > 0)
		return r < 0 ? r : write_all(b, b->o.fd, e);
	if (dir_fd < 0)
		return err_errno(e, dir ? errno : ENOMEM, "open '%.120s'", dir ? dir : path);
	if (strcmp(path, "-") == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'-' is no file: it is written where it can be whole or absent, "
			       "which stdout is not; name a file");
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(e, ERR_INVALID, EISDIR, "'%.120s' is no name for a file", path);
	if (!b->o.force && faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_EXISTS, EEXIST,
			       "'%.120s' is there already; --force replaces it", path);
	return write_file(b, dir_fd, name, e);
}

static int run_backup(struct cove *cove, const char *kind, const char *only, const char *path,
		      const struct cove_backup_options *options, struct cove_backed_up *ret,
		      struct cove_error *err)
{
	struct err e = {0};
	struct backup b = {
		.cove = cove, .kind = kind, .only = only, .e = &e, .w = calloc(1, sizeof(*b.w))};
	int r = core_copy_sized(&b.o, sizeof(b.o), options, &e);

	if (r == 0 && !b.w)
		r = err_errno(&e, ENOMEM, "back up");
	if (r == 0)
		r = back_up(&b, path, &e);
	state_list_take(&b.layers, -ECANCELED, &(char **){NULL}, &(size_t){0});
	free(b.w);
	if (r == 0 && ret)
		*ret = b.done;
	return core_return(cove, NULL, r, &e, err);
}

int cove_system_backup(struct cove *cove, const char *path,
		       const struct cove_backup_options *options, struct cove_backed_up *ret,
		       struct cove_error *err)
{
	return run_backup(cove, BACKUP_KIND, NULL, path, options, ret, err);
}

int cove_workspace_export(struct cove *cove, const char *name, const char *path,
			  const struct cove_backup_options *options, struct cove_error *err)
{
	return run_backup(cove, BACKUP_WORKSPACE, name, path, options, NULL, err);
}

int cove_snapshot_export(struct cove *cove, const char *name, const char *path,
			 const struct cove_backup_options *options, struct cove_error *err)
{
	return run_backup(cove, BACKUP_SNAPSHOT, name, path, options, NULL, err);
}
