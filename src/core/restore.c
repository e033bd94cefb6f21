/*
 * Restoring a backup; see backup.h for what the file holds.
 *
 * The file is read to its end before anything is made: a cut or damaged one is refused as a whole,
 * and so is one that holds something which is here already (--force replaces images, snapshots,
 * policies, and boxes and workspaces that are not in use). Then layers and blobs; then boxes and
 * workspaces, aside; then the small files; and when all of it is there, the boxes and workspaces
 * get their names (restore_swap.c). Should there be no room, those that were to be replaced are
 * as they were. Saying it again with --force finishes what was interrupted.
 *
 * What takes long, reading the file and waiting for boxes, is done without the layers' lock, so
 * that others go on making and removing boxes: layers are pinned (store/pins.h) as they get their
 * names, and the lock is held for each small file and for the renames, as by all who publish some.
 */
#include "core/restore.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "storage/loop.h"
#include "storage/storage.h"
#include "storage/tree.h"
#include "store/blobs.h"
#include "store/image.h"
#include "store/layer.h"
#include "store/restart.h"
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

int restore_bad_member(struct restore *s, const char *what)
{
	return err_set(s->e, ERR_DAMAGED, EBADMSG, "the file has %s", what);
}

static void say(struct restore *s, const char *kind, const char *name)
{
	if (s->o.on_item)
		s->o.on_item(s->o.arg, kind, name);
}

int restore_member_read(char *head, size_t len, struct restore_member *ret, struct err *e)
{
	const struct {
		const char *key;
		const char **text;
		uint64_t *number;
	} fields[] = {{"what", &ret->what, NULL},
		      {"name", &ret->name, NULL},
		      {"id", &ret->name, NULL},
		      {"file", &ret->file, NULL},
		      {"dir", &ret->dir, NULL},
		      {"kind", &ret->kind, NULL},
		      {"diff", &ret->diff, NULL},
		      {BACKUP_DISK_KEY, NULL, &ret->disk_bytes},
		      {"created_ms", NULL, &ret->created_ms},
		      {"bytes", NULL, &ret->bytes},
		      {"files", NULL, &ret->files}};
	const char *key, *value;
	struct lines l;
	int r;

	*ret = (struct restore_member){
		.what = "", .name = "", .file = "", .dir = "", .kind = "", .diff = ""};
	lines_init(&l, head, len);
	while ((r = lines_next(&l, &key, &value)) > 0)
		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
			if (strcmp(fields[i].key, key) != 0)
				continue;
			if (fields[i].text)
				*fields[i].text = value;
			else if (!str_parse_u64(value, UINT64_MAX, fields[i].number))
				r = -EBADMSG;
		}
	return r < 0 ? err_set(e, ERR_DAMAGED, EBADMSG, "the file has a member that cannot be read")
		     : 0;
}

/* One component that is not hidden, as the directories have them. */
static bool is_file_name(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) <= 255;
}

/* ---- trees ---- */

static int source_read(void *arg, void *p, size_t n, struct err *e)
{
	uint8_t *to = p;

	while (n > 0) {
		size_t got;
		int r = parcel_read(arg, to, n, &got, e);

		if (r < 0)
			return r;
		if (got == 0)
			return err_set(e, ERR_PROTOCOL, EBADMSG, "a packed tree is cut short");
		to += got;
		n -= got;
	}
	return 0;
}

static int unpack_inside(struct inside_job *job)
{
	struct backup_unpack_job *j = (struct backup_unpack_job *)(void *)job;
	size_t more = 0;
	char byte;
	int r = tree_unpack(j->root_fd, &(struct tree_source){source_read, &j->r}, j->single,
			    &j->sum, &job->err);

	/* The end of the member, where its hash is checked. */
	if (r == 0)
		r = parcel_read(&j->r, &byte, 1, &more, &job->err);
	if (r == 0 && more)
		r = err_set(&job->err, ERR_PROTOCOL, EBADMSG,
			    "a packed tree goes on after its end");
	if (r == 0 && syncfs(j->root_fd) < 0)
		r = err_errno(&job->err, errno, "sync");
	return r;
}

int backup_unpack_tree(struct cove *cove, struct parcel_reader *r, int root_fd,
		       struct tree_packed *ret, struct err *e)
{
	struct backup_unpack_job *j = calloc(1, sizeof(*j));
	int k;

	if (!j)
		return err_errno(e, ENOMEM, "unpack a tree");
	j->job.run = unpack_inside;
	j->root_fd = root_fd;
	j->single = cove->ids.kind == IDS_SINGLE;
	j->r = *r;
	k = inside_run(&cove->ids, &j->job, sizeof(*j), e);
	*r = j->r;
	if (k == 0 && ret)
		*ret = j->sum;
	free(j);
	return k;
}

/* ---- what is made aside ---- */

static void making_done(struct restore_making *m)
{
	fd_close(&m->root_fd);
	volume_done(&m->volume);
	m->volume = VOLUME_NONE;
	fd_close(&m->fd);
}

static int making_begin(struct restore *s, struct restore_making *m, struct restore_stage *stage,
			int dir_fd, const struct restore_member *from)
{
	int r;

	*m = (struct restore_making){.fd = -1, .root_fd = -1, .volume = VOLUME_NONE};
	if (!str_is_name(from->name, BOX_NAME_MAX))
		return restore_bad_member(s, "a name that is none");
	str_copy(m->name, sizeof(m->name), s->as ? s->as : from->name);
	m->disk_bytes = from->disk_bytes;
	/* Without one of its own it would be bounded by nothing. */
	if (s->o.max_disk && (m->disk_bytes == 0 || m->disk_bytes > s->o.max_disk))
		m->disk_bytes = s->o.max_disk;
	r = restore_stage_open(s, stage, dir_fd);
	if (r < 0)
		return r;
	if (mkdirat(stage->fd, m->name, 0700) < 0)
		return errno == EEXIST ? restore_bad_member(s, "something twice")
				       : state_error(&s->cove->state, errno, "restore into", s->e);
	m->fd = openat(stage->fd, m->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return m->fd < 0 ? state_error(&s->cove->state, errno, "restore into", s->e) : 0;
}

/* A box's disk begins with upper/ and work/, a workspace's with nothing. */
static int make_empty_disk(struct restore *s, const struct restore_making *m)
{
	const struct storage_place place = {.home_fd = s->cove->state.home_fd,
					    .dir_fd = s->cove->state.workspaces_fd,
					    .name = m->name};

	return disk_make(&place, &(struct storage_size){.bytes = m->disk_bytes}, m->fd, "disk.img",
			 s->e);
}

/* Where its files go: a disk of its own where it had one and this caller can have some. */
static int making_open(struct restore *s, struct restore_making *m)
{
	struct storage_place place = {.home_fd = s->cove->state.home_fd, .dir_fd = m->fd};
	struct err no_disk = {0};
	int r;

	if (m->root_fd >= 0)
		return 0;
	if (m->disk_bytes >= DISK_BYTES_MIN && m->disk_bytes <= DISK_BYTES_MAX &&
	    storage_loop.check(&place, &s->cove->ids, &no_disk) == 0) {
		r = m->is_workspace ? make_empty_disk(s, m) : 0;
		if (r == 0)
			r = storage_loop.open(&place, &s->cove->ids,
					      &(struct storage_size){.bytes = m->disk_bytes},
					      &m->volume, s->e);
		if (r == 0)
			r = volume_attach(&m->volume, s->e);
		if (r < 0)
			return r;
		m->root_fd = openat(m->volume.stat_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		m->root_fd = openat(m->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return m->root_fd < 0 ? err_errno(s->e, errno, "restore '%s'", m->name) : 0;
}

/* ---- layers and blobs ---- */

/* 1: it is there, and is not removed any more; 0: it is not. */
static int hold_layer(struct restore *s, const char *id)
{
	struct state *st = &s->cove->state;
	autoclose int lock_fd = -1;
	struct layer_meta have;
	int r = layers_lock(st, &lock_fd, s->e);

	if (r < 0)
		return r;
	if (layer_read(st, id, &have) < 0)
		return 0;
	r = layer_pins_add(st, &s->pins, id, s->e);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

static int place_layer(struct restore *s, struct layer_new *l, const char *id,
		       const struct layer_meta *meta)
{
	struct state *st = &s->cove->state;
	autoclose int lock_fd = -1;
	int r = layers_lock(st, &lock_fd, s->e);

	if (r == 0)
		r = layers_place(st, &s->cove->ids, l, id, meta, s->e);
	if (r < 0)
		return r;
	r = layer_pins_add(st, &s->pins, id, s->e);
	return r == -ENOENT ? err_set(s->e, ERR_DAMAGED, ENOENT, "layer %.12s has no files", id)
			    : r;
}

static int restore_layer(struct restore *s, const struct restore_member *m)
{
	struct layer_meta meta = {.kind = strcmp(m->kind, "snapshot") == 0 ? LAYER_SNAPSHOT
									   : LAYER_IMAGE,
				  .created_ms = m->created_ms,
				  .bytes = m->bytes,
				  .files = m->files};
	struct state *st = &s->cove->state;
	struct layer_new l = LAYER_NEW_NONE;
	struct tree_packed sum = {0};
	char id[LAYER_ID_SIZE];
	autoclose int root_fd = -1;
	int r;

	if (!layer_is_id(m->name) || (m->diff[0] && !layer_is_id(m->diff)))
		return restore_bad_member(s, "a layer that is none");
	r = hold_layer(s, m->name);
	if (r != 0)
		return r < 0 ? r : 0;
	str_copy(meta.diff, sizeof(meta.diff), m->diff);
	say(s, "layer", m->name);
	r = layers_new(st, &l, s->e);
	if (r < 0)
		return r;
	if (mkdirat(l.fd, "rootfs", 0755) == 0)
		root_fd = openat(l.fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = root_fd < 0 ? err_errno(s->e, errno, "make a layer")
			: backup_unpack_tree(s->cove, s->r, root_fd, &sum, s->e);
	/* A quota counts what there is, not what a file says. */
	if (s->is_import) {
		meta.bytes = sum.bytes;
		meta.files = sum.files;
	}
	if (r == 0)
		r = restore_choose_id(s, m, root_fd, &meta, id);
	if (r == 0)
		r = place_layer(s, &l, id, &meta);
	layers_drop(st, &s->cove->ids, &l);
	s->done.layers += r == 0;
	return r;
}

static int restore_blob(struct restore *s, const struct restore_member *m)
{
	autofree char *block = malloc(PARCEL_PIECE_MAX);
	struct blob_put put;
	size_t got = 1;
	int r;

	if (!blobs_is_digest(m->name))
		return restore_bad_member(s, "a blob that is none");
	if (!block)
		return err_errno(s->e, ENOMEM, "restore a blob");
	r = blobs_begin(&s->cove->state, m->name, BLOB_SIZE_UNKNOWN, &put, s->e);
	if (r != 0)
		return r == 1 ? 0 : r;
	r = put.have ? blobs_restart(&s->cove->state, &put, s->e) : 0;
	while (r == 0 && got > 0) {
		r = parcel_read(s->r, block, PARCEL_PIECE_MAX, &got, s->e);
		if (r == 0 && got > 0)
			r = blobs_add(&s->cove->state, &put, block, got, s->e);
	}
	if (r < 0) {
		blobs_drop(&put);
		return r;
	}
	s->done.blobs++;
	return blobs_end(&s->cove->state, &put, s->e);
}

/* ---- files ---- */

static int restore_file(struct restore *s, const struct restore_member *m, const char *dir)
{
	autofree char *text = NULL;
	autoclose int fd = -1;
	size_t len;
	int r = parcel_read_all(s->r, PARCEL_HEAD_MAX, &text, &len, s->e);

	if (r < 0)
		return r;
	if (!is_file_name(m->name))
		return restore_bad_member(s, "a name that is none");
	fd = fd_open_below(s->cove->state.home_fd, dir, true);
	r = fd < 0 ? fd : fd_write_file(fd, m->name, text, len, 0600, true);
	return r < 0 ? state_error(&s->cove->state, -r, "restore into", s->e) : 0;
}

static int restore_image(struct restore *s, const struct restore_member *m)
{
	say(s, "image", m->name);
	s->done.images++;
	return restore_file(s, m, "images");
}

static int restore_snapshot(struct restore *s, const struct restore_member *m)
{
	char *text = NULL;
	size_t len;
	int r;

	say(s, "snapshot", m->name);
	s->done.snapshots++;
	if (!s->is_import)
		return restore_file(s, m, "snapshots");
	r = parcel_read_all(s->r, PARCEL_HEAD_MAX, &text, &len, s->e);
	return r < 0 ? r : restore_import_snapshot(s, m, text, len);
}

static int restore_policy(struct restore *s, const struct restore_member *m)
{
	return restore_file(s, m, "door");
}

static int restore_retention(struct restore *s, const struct restore_member *m)
{
	return restore_file(s, m, RETENTION_DIR);
}

static int restore_secret(struct restore *s, const struct restore_member *m)
{
	return s->o.with_secrets ? restore_file(s, m, "secrets") : 0;
}

/* ---- workspaces ---- */

/* Whole: its disk beside it, as it will be. */
static int finish_workspace(struct restore *s, struct restore_making *m)
{
	struct storage_place place = {.dir_fd = s->workspaces.fd, .name = m->name};
	bool has_disk = m->volume.ops == &storage_loop;
	char disk[DISK_NAME_SIZE];

	disk_name(&place, disk);
	fd_close(&m->root_fd);
	volume_done(&m->volume);
	m->volume = VOLUME_NONE;
	if ((has_disk && renameat(m->fd, "disk.img", s->workspaces.fd, disk) < 0) ||
	    fsync(m->fd) < 0 || fsync(s->workspaces.fd) < 0)
		return err_errno(s->e, errno, "make workspace '%s'", m->name);
	return 0;
}

static int restore_workspace(struct restore *s, const struct restore_member *from)
{
	struct restore_making m;
	int r = making_begin(s, &m, &s->workspaces, s->cove->state.workspaces_fd, from);

	if (r < 0)
		return r;
	m.is_workspace = true;
	say(s, "workspace", m.name);
	/* As the files of one that a box made. */
	if (fchmod(m.fd, 0755) < 0)
		r = err_errno(s->e, errno, "restore workspace '%s'", m.name);
	if (r == 0)
		r = making_open(s, &m);
	if (r == 0)
		r = backup_unpack_tree(s->cove, s->r, m.root_fd, NULL, s->e);
	if (r == 0)
		r = finish_workspace(s, &m);
	s->done.workspaces += r == 0;
	making_done(&m);
	return r;
}

/* The same with the names that its layers have here. */
static int write_stack(struct restore *s, const char *file, char *text, size_t len)
{
	size_t skip = lines_check_sum(text, len) > 0 ? LINES_SUM_BYTES : 0;
	const char *key, *value;
	struct lines lines;
	struct buf b;
	int r;

	buf_init(&b, PARCEL_HEAD_MAX);
	r = lines_begin_sum(&b);
	lines_init(&lines, text + skip, len - skip);
	while (r == 0 && (r = lines_next(&lines, &key, &value)) > 0) {
		bool is_layer = strcmp(key, "layer") == 0;

		value = is_layer ? restore_alias(s, value) : value;
		if (is_layer && s->is_import && restore_need_layer(s, value) < 0) {
			buf_done(&b);
			return -EBADMSG;
		}
		r = lines_put(&b, key, value);
	}
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(s->workspaces.fd, file, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r < 0 ? state_error(&s->cove->state, -r, "restore into", s->e) : 0;
}

static int restore_stack(struct restore *s, const struct restore_member *m)
{
	char file[BOX_NAME_MAX + sizeof(WORKSPACE_STACK_END)];
	autofree char *text = NULL;
	size_t len;
	int r = parcel_read_all(s->r, PARCEL_HEAD_MAX, &text, &len, s->e);

	if (r < 0)
		return r;
	if (!str_is_name(m->name, BOX_NAME_MAX))
		return restore_bad_member(s, "a name that is none");
	snprintf(file, sizeof(file), "%s" WORKSPACE_STACK_END, s->as ? s->as : m->name);
	r = restore_stage_open(s, &s->workspaces, s->cove->state.workspaces_fd);
	return r < 0 ? r : write_stack(s, file, text, len);
}

/* ---- boxes ---- */

static int restore_box(struct restore *s, const struct restore_member *m)
{
	making_done(&s->box);
	say(s, "box", m->name);
	return making_begin(s, &s->box, &s->boxes, s->cove->state.boxes_fd, m);
}

static int restore_box_file(struct restore *s, const struct restore_member *m)
{
	autofree char *text = NULL;
	size_t len;
	int r = parcel_read_all(s->r, PARCEL_HEAD_MAX, &text, &len, s->e);

	if (r < 0)
		return r;
	for (size_t i = 0; backup_box_files[i] && s->box.fd >= 0; i++) {
		if (strcmp(backup_box_files[i], m->file) != 0)
			continue;
		r = fd_write_file(s->box.fd, m->file, text, len, 0600, true);
		return r < 0 ? state_error(&s->cove->state, -r, "restore into", s->e) : 0;
	}
	return restore_bad_member(s, "a box's file that is none");
}

static int open_dirs(int root_fd, const char *const *names)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (; fd >= 0 && *names; names++) {
		int below = mkdirat(fd, *names, 0755) < 0 && errno != EEXIST
				    ? -1
				    : openat(fd, *names,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int code = errno;

		close(fd);
		errno = code;
		fd = below;
	}
	return fd < 0 ? -errno : fd;
}

static int restore_box_tree(struct restore *s, const struct restore_member *m)
{
	static const char *const upper[] = {"upper", NULL}, *const copy[] = {WORKSPACE_COPY,
									     "upper", NULL};
	bool is_copy = strcmp(m->dir, WORKSPACE_COPY "/upper") == 0;
	autoclose int fd = -1;
	int r;

	if (s->box.fd < 0 || (!is_copy && strcmp(m->dir, "upper") != 0))
		return restore_bad_member(s, "a box's directory that is none");
	r = making_open(s, &s->box);
	if (r < 0)
		return r;
	fd = open_dirs(s->box.root_fd, is_copy ? copy : upper);
	return fd < 0 ? err_errno(s->e, -fd, "restore box '%s'", s->box.name)
		      : backup_unpack_tree(s->cove, s->r, fd, NULL, s->e);
}

/* Whole, and looked at as everybody does. One that ran when it was packed ended so. */
static int restore_box_end(struct restore *s, const struct restore_member *m)
{
	struct restore_making *box = &s->box;
	struct state staged = s->cove->state;
	struct record record = {0};
	int r;

	(void)m;
	if (box->fd < 0)
		return restore_bad_member(s, "the end of no box");
	fd_close(&box->root_fd);
	volume_done(&box->volume);
	box->volume = VOLUME_NONE;
	staged.boxes_fd = s->boxes.fd;
	r = record_load(&staged, box->name, &record, s->e);
	if (r == 0 && strcmp(record.spec.name, box->name) != 0)
		r = restore_bad_member(s, "a box that has another name");
	if (r == 0 && record.state == BOX_STOPPED && !record.ended_ms)
		r = record_write_end(box->fd, "restored", "cove system restore", true, s->e);
	/* What it is from another day is no reason to start or to remove it today. */
	if (r == 0 && (record.spec.restart != RESTART_NO || record.spec.expiry == EXPIRE_REMOVE) &&
	    restart_hold(box->fd, &record) < 0)
		r = err_errno(s->e, EIO, "make box '%s'", box->name);
	record_done(&record);
	if (r == 0 && (fsync(box->fd) < 0 || fsync(s->boxes.fd) < 0))
		r = err_errno(s->e, errno, "make box '%s'", box->name);
	making_done(box);
	s->done.boxes += r == 0;
	return r;
}

/* ---- the file ---- */

static const struct {
	const char *what;
	int pass; /* what the others stand on; what is made aside; the small files */
	int (*run)(struct restore *s, const struct restore_member *m);
	const char *dir, *end; /* where something of that name would be in its way */
} kinds[] = {
	{"layer", 0, restore_layer, NULL, ""},
	{"blob", 0, restore_blob, NULL, ""},
	{"image", 2, restore_image, "images", ""},
	{"snapshot", 2, restore_snapshot, "snapshots", ""},
	{"policy", 2, restore_policy, "door", ""},
	{"retention", 2, restore_retention, RETENTION_DIR, ""},
	{"secret", 2, restore_secret, "secrets", ""},
	{"workspace", 1, restore_workspace, "workspaces", ""},
	{"workspace_stack", 1, restore_stack, "workspaces", WORKSPACE_STACK_END},
	{"box", 1, restore_box, "boxes", ""},
	{"box_file", 1, restore_box_file, NULL, ""},
	{"box_tree", 1, restore_box_tree, NULL, ""},
	{"box_end", 1, restore_box_end, NULL, ""},
};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]), SMALL_PASS = 2, PASS_COUNT = 3 };

static int find_kind(const char *what)
{
	for (int i = 0; i < KIND_COUNT; i++)
		if (strcmp(kinds[i].what, what) == 0)
			return i;
	return -1;
}

/* A file whose writer is not known brings one thing, whose parts have one name, and its layers: in
 * each reading of it, since it may have been changed between two. */
static int check_import(struct restore *s, const struct restore_member *m, int kind)
{
	if (!s->is_import || strcmp(m->what, "layer") == 0)
		return 0;
	if (!str_starts(m->what, s->kind) || s->seen & 1u << kind)
		return restore_bad_member(s, "more than it says");
	s->seen |= 1u << kind;
	if (!s->only[0] && !str_copy(s->only, sizeof(s->only), m->name))
		return restore_bad_member(s, "a name that is none");
	return strcmp(s->only, m->name) == 0 ? 0 : restore_bad_member(s, "more than it says");
}

/* Before anything is made. */
static int check_head(void *arg, char *head, size_t len, struct err *e)
{
	struct restore *s = arg;
	struct restore_member m;
	char path[600];
	int r = restore_member_read(head, len, &m, e), i;

	if (r < 0)
		return r;
	i = find_kind(m.what);
	if (i < 0)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "the file holds '%.40s', which this Cove does not know: it is a "
			       "newer one's",
			       m.what);
	r = check_import(s, &m, i);
	if (r < 0)
		return r;
	if (!kinds[i].dir)
		return 0;
	if (!is_file_name(m.name))
		return restore_bad_member(s, "a name that is none");
	snprintf(path, sizeof(path), "%s/%s%s", kinds[i].dir, s->as ? s->as : m.name, kinds[i].end);
	/* The layers below a workspace that is here are in its way, too. */
	if (s->is_import)
		path[strlen(path) - strlen(kinds[i].end)] = 0;
	if (s->o.force || s->cove->state.home_fd < 0 ||
	    faccessat(s->cove->state.home_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return err_set(e, ERR_EXISTS, EEXIST, "%s '%.80s' is here already; nothing was %s",
		       strcmp(m.what, "workspace_stack") == 0 ? "workspace" : m.what,
		       s->as ? s->as : m.name,
		       !s->is_import ? "restored: --force replaces what is here, or set COVE_HOME "
				       "to another directory"
		       : strcmp(s->kind, BACKUP_SNAPSHOT) == 0
			       ? "imported: give it another NAME"
			       : "imported: give it another NAME, or --force replaces that one");
}

static int restore_member(struct restore *s, const struct restore_member *m, int kind)
{
	autoclose int lock_fd = -1;
	int r = kinds[kind].pass == SMALL_PASS ? layers_lock(&s->cove->state, &lock_fd, s->e) : 0;

	return r < 0 ? r : kinds[kind].run(s, m);
}

static int restore_pass(struct restore *s, int fd, int pass)
{
	int r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(s->e, errno, "read the file")
					   : parcel_open(s->r, fd, s->kind, s->e);

	s->seen = 0;
	while (r == 0) {
		autofree char *head = NULL;
		struct restore_member m;
		size_t len;
		int i;

		r = parcel_next(s->r, &head, &len, s->e);
		if (r <= 0)
			break;
		r = restore_member_read(head, len, &m, s->e);
		i = r < 0 ? -1 : find_kind(m.what);
		if (i >= 0)
			r = check_import(s, &m, i);
		if (i >= 0 && r == 0 && kinds[i].pass == pass)
			r = restore_member(s, &m, i);
	}
	return r;
}

static int restore_all(struct restore *s, int fd)
{
	autoclose int blobs_fd = -1;
	int r = core_ids(s->cove, s->e);

	if (r == 0)
		r = parcel_check(fd, s->kind, check_head, s, s->e);
	if (r == 0 && s->is_import && !s->only[0])
		r = restore_bad_member(s, "nothing but layers");
	if (r == 0)
		r = state_make(&s->cove->state, s->e);
	/* What a killed one left. */
	if (r == 0)
		layers_sweep(&s->cove->state, &s->cove->ids);
	if (r == 0)
		core_sweep(s->cove);
	if (r == 0)
		r = blobs_hold(&s->cove->state, &blobs_fd, s->e);
	if (r == 0)
		r = layer_pins_open(&s->cove->state, &s->pins, s->e);
	for (int pass = 0; r == 0 && pass < PASS_COUNT; pass++)
		r = restore_pass(s, fd, pass);
	making_done(&s->box);
	if (r == 0)
		r = restore_swap(s);
	/* One that failed leaves no layer, and an import none that it did not need. */
	if (r < 0 || s->is_import)
		layer_pins_close_unused(&s->cove->state, &s->cove->ids, &s->pins);
	else
		layer_pins_close(&s->cove->state, &s->cove->ids, &s->pins);
	restore_stages_done(s);
	return r;
}

int restore_run(struct cove *cove, struct restore *s, const char *path,
		const struct cove_backup_options *options, struct cove_backed_up *ret,
		struct cove_error *err)
{
	struct err e = {0};
	bool is_read;
	int r = core_copy_sized(&s->o, sizeof(s->o), options, &e);
	autoclose int fd =
		s->o.fd > 0 ? fd_copy(s->o.fd, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int code = fd >= 0 || s->o.fd <= 0 ? errno : -fd;

	s->cove = cove;
	s->e = &e;
	s->r = calloc(1, sizeof(*s->r));
	s->box = (struct restore_making){.fd = -1, .root_fd = -1, .volume = VOLUME_NONE};
	s->boxes.fd = s->workspaces.fd = -1;
	s->pins = LAYER_PINS_NONE;
	if (r == 0 && s->as)
		r = state_check_name(s->kind, s->as, &e);
	if (r == 0 && fd < 0)
		r = err_errno(&e, code, "open '%.120s'", path);
	if (r == 0 && !s->r)
		r = err_errno(&e, ENOMEM, "restore");
	is_read = r == 0;
	if (is_read)
		r = restore_all(s, fd);
	if (r < 0 && (e.kind == ERR_DAMAGED || e.kind == ERR_PROTOCOL ||
		      e.kind == ERR_UNSUPPORTED || (e.kind == ERR_INVALID && is_read)))
		err_prefix(&e, "'%.120s'", path);
	free(s->r);
	free(s->aliases);
	if (r == 0 && ret)
		*ret = s->done;
	return core_return(cove, NULL, r, &e, err);
}

int cove_system_restore(struct cove *cove, const char *path,
			const struct cove_backup_options *options, struct cove_backed_up *ret,
			struct cove_error *err)
{
	return restore_run(cove, &(struct restore){.kind = BACKUP_KIND}, path, options, ret, err);
}
