/*
 * From a copy of a host directory back to that directory.
 *
 * How it works: a confined child (reader.h) compares the directory with what the box made of it and
 * sends each change, with the bytes of new files. This process never opens the box's tree: it
 * judges the change, and stages the bytes beside their place on the host (store/stage.h). When all
 * is there and nothing is in conflict, the stage is committed and applied.
 *
 * A conflict is a file that was changed on the host since the box had it: its ctime is not before
 * the moment that the box's copy of it was made (the birth of that copy, where overlayfs says that
 * it is one of this very file: a copy of another that was renamed says nothing), or else that the
 * box's view of the directory was made; unless an earlier merge put it there. Directories are not
 * judged: what is in them is.
 *
 * A file with several names comes once and has them here, too. All of it together is no more than
 * the box's disk holds: files there may share their blocks, and would not here.
 *
 * Left out, and named: what makes the host run something (store/guarded.h) and links that lead out
 * of the directory, unless --trust-dir; devices, FIFOs and sockets. Modes come back without
 * set-user-ID and such, and nothing else does: no owner, no attribute, no time.
 */
#include "base/fd.h"
#include "base/inodes.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "core/merge.h"
#include "core/reader.h"
#include "storage/diff.h"
#include "storage/storage.h"
#include "store/guarded.h"
#include "store/own.h"
#include "store/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { FRAME_CHANGE = 1, FRAME_DATA = 2, FRAME_LINK = 3, FRAME_END = 4 };
/* An origin of overlayfs: 4 bytes, the kind of the handle, the file system's id, the handle. */
enum { ORIGIN_KIND = 4, ORIGIN_HANDLE = 21, ORIGIN_MAX = ORIGIN_HANDLE + MAX_HANDLE_SZ };
enum { DATA_STEP = 64 << 10, LINK_MAX_BYTES = 4095 };

/* FRAME_CHANGE: this, then the path. */
struct back_head {
	uint8_t kind, what, deep, origin_len; /* 0: it is no copy, or none knows of what */
	uint32_t before_mode, after_mode;
	uint64_t size, birth_ns;
	uint64_t dev, ino; /* of a file with several names; else 0 */
	uint8_t origin[ORIGIN_MAX];
} __attribute__((packed));

struct back {
	struct merge *m;
	struct core_tree tree;
	const char **only; /* owned */
	size_t only_count;
	/* In the child: */
	bool wants_data;
	int out;
	/* Files with several names: in the child those that were sent, in the caller as what they
	 * are staged. */
	struct inodes linked;
	/* In the caller: */
	int dir_fd;	   /* owned; the host directory */
	uint64_t begun_ns; /* when the box's view of it was made */
	struct stage stage;
	bool has_stage;
	/* The change that is being received: */
	bool has_item, is_taken, has_file;
	struct back_head head;
	char path[STACK_PATH_MAX + 1], shown[STACK_PATH_MAX + 16];
	char target[LINK_MAX_BYTES + 1];
	bool has_target;
	struct stage_seen was;
	/* A directory that comes in place of something else: there is nothing below it yet. */
	char fresh[STACK_PATH_MAX + 1];
	bool has_fresh;
	int file_fd; /* owned */
	unsigned number;
	uint64_t data_end;
	uint64_t written, bytes_max; /* of all files; 0: no bound */
};

static const char *why_left_out(const struct back *b);

/* ---- in the child ---- */

/* What has this attribute overlayfs copied from the directory, from the file that it names; else
 * the box made it. */
static void find_origin(int fd, struct back_head *h)
{
	ssize_t n = fgetxattr(fd, "user.overlay.origin", h->origin, sizeof(h->origin));

	h->origin_len = n > ORIGIN_HANDLE ? (uint8_t)n : 0;
	h->birth_ns = fd_birth_ns(fd);
}

static int send_file(struct back *b, int fd, off_t size)
{
	uint8_t bytes[sizeof(uint64_t) + DATA_STEP];
	int r = 0;

	for (off_t at = lseek(fd, 0, SEEK_DATA); at >= 0 && at < size && r == 0;) {
		off_t stop = lseek(fd, at, SEEK_HOLE);

		stop = stop < 0 || stop > size ? size : stop;
		while (at < stop && r == 0) {
			size_t want = stop - at < DATA_STEP ? (size_t)(stop - at) : DATA_STEP;
			ssize_t n = pread(fd, bytes + sizeof(uint64_t), want, at);
			uint64_t offset = (uint64_t)at;

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n < 0 ? -errno : -ESTALE;
			memcpy(bytes, &offset, sizeof(offset));
			r = reader_send(b->out, FRAME_DATA, bytes, sizeof(offset) + (size_t)n, NULL,
					0);
			at += n;
		}
		at = lseek(fd, at, SEEK_DATA);
	}
	return r;
}

/* Did its bytes come under another name? What is left out by its name brings none. */
static int is_sent(struct back *b, const struct back_head *h, const char *path)
{
	int r;

	if (!h->ino || inodes_find(&b->linked, h->dev, h->ino))
		return h->ino != 0;
	b->head = *h;
	if (!str_copy(b->path, sizeof(b->path), path))
		return -ENAMETOOLONG;
	r = why_left_out(b) ? 0 : inodes_add(&b->linked, h->dev, h->ino, "");
	return r == -ENOSPC ? -E2BIG : r;
}

static int on_tree_change(void *arg, const struct diff_change *c)
{
	struct back *b = arg;
	const struct stack after = {.layers = b->tree.copy, .count = b->tree.copy_count};
	struct back_head h = {.kind = (uint8_t)c->kind,
			      .what = (uint8_t)c->what,
			      .deep = c->deep,
			      .before_mode = c->before ? c->before->st.st_mode : 0,
			      .after_mode = c->after ? c->after->st.st_mode : 0,
			      .size = c->after ? (uint64_t)c->after->st.st_size : 0};
	bool is_new = c->kind == DIFF_ADDED || c->what & (DIFF_TYPE | DIFF_CONTENT);
	autoclose int fd = -1;
	char target[LINK_MAX_BYTES + 1];
	ssize_t n;
	int r;

	if (c->after && !c->deep && S_ISREG(c->after->st.st_mode)) {
		fd = stack_open_file(&after, c->after, c->path);
		if (fd < 0)
			return fd;
		find_origin(fd, &h);
	}
	if (fd >= 0 && is_new && c->after->st.st_nlink > 1) {
		h.dev = c->after->st.st_dev;
		h.ino = c->after->st.st_ino;
	}
	r = reader_send(b->out, FRAME_CHANGE, &h, sizeof(h), c->path, strlen(c->path));
	if (r == 0 && c->after && S_ISLNK(c->after->st.st_mode) && !c->deep) {
		n = stack_read_link(&after, c->after, c->path, target, sizeof(target));
		r = n < 0 ? (int)n : reader_send(b->out, FRAME_LINK, target, (size_t)n, NULL, 0);
	}
	if (r == 0 && fd >= 0 && is_new && b->wants_data) {
		r = is_sent(b, &h, c->path);
		if (r == 0)
			r = send_file(b, fd, c->after->st.st_size);
	}
	return r < 0 ? r : reader_send(b->out, FRAME_END, NULL, 0, NULL, 0);
}

static int run_compare(void *arg, int out, struct err *e)
{
	struct back *b = arg;
	size_t count = b->tree.copy_count;
	const struct stack before = {.layers = b->tree.copy + count - 1, .count = 1};
	const struct stack after = {.layers = b->tree.copy, .count = count};
	const struct diff_job job = {.before = &before,
				     .after = &after,
				     .only = b->only,
				     .only_count = b->only_count,
				     .on_change = on_tree_change,
				     .arg = b};

	b->out = out;
	return diff_trees(&job, e);
}

/* ---- judging ---- */

/* "../" at its beginning only, and no more of them than the link is deep: then it stays within,
 * whatever else is a link. */
static bool leads_out(const char *path, const char *target)
{
	size_t depth = 0;

	for (const char *p = path; *p; p++)
		depth += *p == '/';
	while (strncmp(target, "../", 3) == 0 || strcmp(target, "..") == 0) {
		if (depth-- == 0)
			return true;
		target += strlen(target) > 2 ? 3 : 2;
	}
	if (target[0] == '/')
		return true;
	for (const char *p = target; (p = strstr(p, "..")); p += 2)
		if ((p == target || p[-1] == '/') && (p[2] == 0 || p[2] == '/'))
			return true;
	return false;
}

/* A file or link of this name is, in git's eyes, the way to a repository elsewhere; and where the
 * HEAD of one is no file, git looks for a repository further up. */
static bool names_repository(const struct back *b)
{
	const char *base = path_base(b->path);

	if (strcasecmp(base, "HEAD") == 0)
		return !S_ISREG(b->head.after_mode);
	return strcasecmp(base, ".git") == 0 && b->head.after_mode != 0 &&
	       !S_ISDIR(b->head.after_mode);
}

/* A repository's directory needs no name: this one was one on the host before. */
static bool is_in_repository(const struct back *b)
{
	char dir[STACK_PATH_MAX + 1];
	size_t len = guarded_in_repository(b->path);
	autoclose int fd = -1;

	if (len == 0)
		return false;
	memcpy(dir, b->path, len);
	dir[len] = 0;
	fd = fd_openat2(b->dir_fd, dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
			FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	return fd >= 0 && faccessat(fd, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Through such a link a program of the host would write what does not come back itself. One that
 * does not lead out has its dots at the beginning only. */
static bool leads_to_guarded(const char *path, const char *target)
{
	char full[STACK_PATH_MAX + LINK_MAX_BYTES + 2];
	size_t n = strlen(path);

	memcpy(full, path, n + 1);
	for (;;) {
		while (n > 0 && full[n - 1] != '/')
			n--;
		if (strncmp(target, "../", 3) != 0)
			break;
		target += 3;
		n -= n > 0;
	}
	snprintf(full + n, sizeof(full) - n, "%s", target);
	return guarded_is(full) || guarded_is_in_git(full);
}

static const char *why_left_out(const struct back *b)
{
	unsigned mode = b->head.after_mode;
	bool trusted = b->m->o->trust_dir;

	if (b->head.deep)
		return "its path is too long";
	if (mode && !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
		return "neither a file nor a directory nor a link";
	if (!trusted && (guarded_is(b->path) || names_repository(b) || is_in_repository(b) ||
			 (b->has_target && leads_to_guarded(b->path, b->target))))
		return "it makes this machine run something: --trust-dir takes it";
	if (!trusted && b->has_target && leads_out(b->path, b->target))
		return "a link that leads out of the directory: --trust-dir takes it";
	return NULL;
}

/* Is what the box has a copy of the file that is at this path? */
static bool is_copy_of_it(const struct back *b)
{
	autoclose int fd = fd_openat2(b->dir_fd, b->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
				      FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	size_t len = b->head.origin_len - (size_t)ORIGIN_HANDLE;
	union {
		struct file_handle head;
		uint8_t room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = {.head.handle_bytes = MAX_HANDLE_SZ};
	int mount_id;

	if (fd < 0 || b->head.origin_len <= ORIGIN_HANDLE ||
	    name_to_handle_at(fd, "", &h.head, &mount_id, AT_EMPTY_PATH) < 0)
		return false;
	return h.head.handle_type == b->head.origin[ORIGIN_KIND] && h.head.handle_bytes == len &&
	       memcmp(h.head.f_handle, b->head.origin + ORIGIN_HANDLE, len) == 0;
}

/* Was it changed on the host since the box had it? */
static bool is_conflict(const struct back *b, const struct stat *st)
{
	uint64_t since = b->head.birth_ns && is_copy_of_it(b) ? b->head.birth_ns : b->begun_ns;

	return !S_ISDIR(st->st_mode) && b->was.ctime_ns >= since &&
	       !stage_is_own(&b->stage, b->path, &b->was);
}

/* ---- receiving ---- */

static int bad_frame(struct err *e)
{
	return err_set(e, ERR_INTERNAL, EBADMSG, "the helper process broke off");
}

static int begin_stage(struct back *b, struct err *e)
{
	int r = b->has_stage ? 0 : stage_begin(&b->stage, e);

	b->has_stage = true;
	return r;
}

static int take_change(struct back *b, const uint8_t *data, size_t len, struct err *e)
{
	if (len <= sizeof(b->head) || len - sizeof(b->head) > STACK_PATH_MAX || b->has_item)
		return bad_frame(e);
	memcpy(&b->head, data, sizeof(b->head));
	len -= sizeof(b->head);
	memcpy(b->path, data + sizeof(b->head), len);
	b->path[len] = 0;
	if (b->head.kind > COVE_REMOVED || strlen(b->path) != len ||
	    !path_is_safe_relative(b->path) || b->head.size > INT64_MAX ||
	    b->head.origin_len > ORIGIN_MAX)
		return bad_frame(e);
	snprintf(b->shown, sizeof(b->shown), WORKSPACE_DST "/%s", b->path);
	b->has_item = true;
	b->has_file = b->has_target = false;
	b->data_end = 0;
	return 0;
}

/* Its place, which its other names will be names of. */
static int stage_file(struct back *b, struct err *e)
{
	const struct back_head *h = &b->head;
	char number[16];
	int r = begin_stage(b, e);

	if (r == 0)
		r = stage_new_file(&b->stage, h->after_mode, &b->file_fd, &b->number, e);
	if (r < 0)
		return r;
	b->has_file = true;
	if (ftruncate(b->file_fd, (off_t)h->size) < 0)
		return err_errno(e, errno, "write to the directory");
	snprintf(number, sizeof(number), "%u", b->number);
	if (h->ino && inodes_add(&b->linked, h->dev, h->ino, number) < 0)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "more than %d files have several names: name some of the paths",
			       INODES_MAX);
	return 0;
}

/* The first bytes of a file that is to come back make its place. */
static int take_data(struct back *b, const uint8_t *data, size_t len, struct err *e)
{
	uint64_t offset;
	size_t done = 0;
	int r;

	if (!b->has_item || len <= sizeof(offset) || !S_ISREG(b->head.after_mode))
		return bad_frame(e);
	memcpy(&offset, data, sizeof(offset));
	data += sizeof(offset);
	len -= sizeof(offset);
	if (offset < b->data_end || offset > b->head.size || len > b->head.size - offset)
		return bad_frame(e);
	b->data_end = offset + len;
	r = merge_check_cancel(b->m);
	if (r < 0)
		return r;
	if (why_left_out(b) || !merge_may_act(b->m))
		return 0;
	if (!b->has_file) {
		r = stage_file(b, e);
		if (r < 0)
			return r;
	}
	b->written += len;
	if (b->bytes_max && b->written > b->bytes_max)
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "what is to be merged holds more than the box's disk does (--disk): "
			       "its files share their blocks, and would not here; name some paths");
	while (done < len) {
		ssize_t n = pwrite(b->file_fd, data + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return err_errno(e, errno, "write to the directory");
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int take_link(struct back *b, const uint8_t *data, size_t len, struct err *e)
{
	if (!b->has_item || !S_ISLNK(b->head.after_mode) || len == 0 || len > LINK_MAX_BYTES ||
	    memchr(data, 0, len))
		return bad_frame(e);
	memcpy(b->target, data, len);
	b->target[len] = 0;
	b->has_target = true;
	return 0;
}

/* The new file or link, staged and listed. */
static int put(struct back *b, struct err *e)
{
	const struct back_head *h = &b->head;
	const char *first = h->ino ? inodes_find(&b->linked, h->dev, h->ino) : NULL;
	int r = begin_stage(b, e);

	if (r == 0 && b->has_target)
		r = stage_new_link(&b->stage, b->target, &b->number, e);
	else if (r == 0 && first && !b->has_file)
		r = stage_new_name(&b->stage, (unsigned)strtoul(first, NULL, 10), &b->number, e);
	else if (r == 0)
		r = b->has_file ? 0 : stage_file(b, e);
	if (r == 0)
		r = stage_add(&b->stage, STAGE_PUT, b->path, b->head.after_mode, b->number, &b->was,
			      e);
	return r;
}

/* What has to be done on the host for a change that is taken. */
static int list_ops(struct back *b, struct err *e)
{
	unsigned before = b->head.before_mode, after = b->head.after_mode;
	bool is_type = before && after && (before & S_IFMT) != (after & S_IFMT);
	bool goes = before && (!after || (is_type && (S_ISDIR(before) || S_ISDIR(after))));
	bool comes = !before || is_type || b->head.what & DIFF_CONTENT;
	int r = 0;

	if (goes)
		r = stage_add(&b->stage, S_ISDIR(before) ? STAGE_REMOVE_DIR : STAGE_REMOVE, b->path,
			      0, 0, &b->was, e);
	if (r < 0 || !after)
		return r;
	if (comes && S_ISDIR(after))
		return stage_add(&b->stage, STAGE_MAKE_DIR, b->path, after, 0, NULL, e);
	if (comes)
		return put(b, e);
	return stage_add(&b->stage, STAGE_MODE, b->path, after, 0, NULL, e);
}

/* Would the host see a difference? Owners and attributes do not come back. */
static bool is_seen(const struct back *b)
{
	const unsigned seen = DIFF_TYPE | DIFF_CONTENT;

	return b->head.kind != COVE_CHANGED || b->head.deep || b->head.what & seen ||
	       (b->head.what & DIFF_MODE &&
		(b->head.before_mode & 0777) != (b->head.after_mode & 0777));
}

static int judge(struct back *b, struct err *e)
{
	enum cove_change_kind kind = (enum cove_change_kind)b->head.kind;
	const char *why = why_left_out(b);
	struct stat st;
	int r;

	if (!is_seen(b))
		return 0;
	if (why)
		return merge_say(b->m, COVE_MERGE_LEFT_OUT, kind, b->shown, why);
	r = stage_look(b->dir_fd, b->path, &st, &b->was);
	if (r == -ELOOP && b->has_fresh && path_is_within(b->path, b->fresh))
		r = -ENOENT;
	if (r < 0 && r != -ENOENT)
		return merge_say(b->m, COVE_MERGE_CONFLICT, kind, b->shown,
				 "a link or another file system is in its way");
	if (r == 0 && is_conflict(b, &st) && !b->m->theirs)
		return merge_say(b->m, b->m->ours ? COVE_MERGE_LEFT_OUT : COVE_MERGE_CONFLICT, kind,
				 b->shown, "it was changed on the host since the box had it");
	if (b->head.what & DIFF_TYPE && S_ISDIR(b->head.after_mode))
		b->has_fresh = str_copy(b->fresh, sizeof(b->fresh), b->path);
	r = merge_say(b->m, COVE_MERGE_TAKEN, kind, b->shown, NULL);
	return r < 0 || !merge_may_act(b->m) ? r : list_ops(b, e);
}

static int on_frame(void *arg, uint8_t type, const uint8_t *data, size_t len, struct err *e)
{
	struct back *b = arg;
	int r;

	switch (type) {
	case FRAME_CHANGE:
		return take_change(b, data, len, e);
	case FRAME_DATA:
		return take_data(b, data, len, e);
	case FRAME_LINK:
		return take_link(b, data, len, e);
	case FRAME_END:
		if (!b->has_item ||
		    (S_ISLNK(b->head.after_mode) && !b->has_target && !b->head.deep))
			return bad_frame(e);
		r = judge(b, e);
		fd_close(&b->file_fd);
		b->has_item = false;
		return r;
	default:
		return bad_frame(e);
	}
}

/* ---- the whole ---- */

static int open_box(struct back *b, struct err *e)
{
	const struct spec *s;
	int r = core_tree_open(b->m->cove, b->m->o->from, &b->tree, e);

	if (r < 0)
		return r;
	s = &b->tree.record.spec;
	if (b->tree.kind != TREE_BOX || !s->workspace_copy)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s' is not a box that works on a copy of a directory "
			       "(--workspace DIR --copy)",
			       b->tree.name);
	return record_lock_operation(b->tree.box_fd, false, e);
}

/* The directory is still the one that was given, and its owner's. */
static int open_dir(struct back *b, struct err *e)
{
	const struct spec *s = &b->tree.record.spec;
	char now[32];
	struct stat st;
	int r;

	b->dir_fd = fd_openat2(AT_FDCWD, s->workspace_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			       FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	if (b->dir_fd < 0)
		return err_errno(e, -b->dir_fd, "open '%.140s'", s->workspace_dir);
	r = own_refuse_fd(&b->m->cove->state, s->workspace_dir, b->dir_fd, e);
	if (r < 0)
		return r;
	if (fstat(b->dir_fd, &st) < 0)
		return err_errno(e, errno, "look at '%.140s'", s->workspace_dir);
	snprintf(now, sizeof(now), "%u:%u", st.st_uid, st.st_gid);
	if (geteuid() == 0 && s->workspace_owner && strcmp(now, s->workspace_owner) != 0)
		return err_set(e, ERR_DENIED, EPERM,
			       "'%.100s' belongs to %s, and to %s when the box was made",
			       s->workspace_dir, now, s->workspace_owner);
	return stage_init(&b->stage, b->tree.box_fd, b->dir_fd, st.st_uid, st.st_gid, e);
}

/* What an earlier call had committed to comes first. */
static int finish_earlier(struct back *b, struct err *e)
{
	struct stage *s = &b->stage;
	uid_t uid = s->uid;
	gid_t gid = s->gid;
	int r = stage_resume(s, e);

	if (r <= 0)
		return r;
	if (b->m->o->dry_run)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "an earlier merge was interrupted: merge once without --dry-run to "
			       "finish it");
	r = stage_apply(s, b->m->theirs, e);
	if (r < 0)
		return r;
	b->m->result->finished = true;
	stage_done(s);
	return stage_init(s, b->tree.box_fd, b->dir_fd, uid, gid, e);
}

/* 0: nothing bounds it. */
static uint64_t bytes_of_disk(const struct back *b)
{
	const struct storage_place place = {.home_fd = b->m->cove->state.home_fd,
					    .dir_fd = b->tree.box_fd};
	const struct storage_ops *ops = storage_detect(&place);
	uint64_t disk = b->tree.record.spec.limits[LIMIT_DISK];

	return ops->flags & STORAGE_LIMIT && disk ? disk + POOL_EASE : 0;
}

static int compare(struct back *b, struct err *e)
{
	int dirs[2];
	struct tree_reader reader = {
		.dirs = dirs, .run = run_compare, .on_frame = on_frame, .arg = b};
	int r = core_tree_hold(b->m->cove, &b->tree, e), let;

	if (r < 0)
		return r;
	if (r > 0 && !b->m->o->dry_run)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' runs and cannot be frozen on this host: stop it first "
			       "(cove stop %s)",
			       b->tree.name, b->tree.name);
	for (size_t i = 0; i < b->tree.copy_count; i++)
		dirs[reader.dir_count++] = b->tree.copy[i].fd;
	b->begun_ns = fd_birth_ns(b->tree.copy[0].fd);
	if (b->begun_ns == 0) /* this file system does not say */
		b->begun_ns = b->tree.record.spec.created_ms * 1000000u;
	b->wants_data = !b->m->o->dry_run;
	b->bytes_max = bytes_of_disk(b);
	r = reader_run(&b->m->cove->ids, &reader, e);
	/* Before the host is touched: what was read is whole, or nothing is done. */
	let = core_tree_release(&b->tree, r == 0 ? e : NULL);
	return r < 0 ? r : let;
}

static int merge_with(struct back *b, struct err *e)
{
	bool none = false;
	int r = open_box(b, e);

	if (r == 0)
		r = open_dir(b, e);
	if (r == 0)
		r = finish_earlier(b, e);
	if (r == 0)
		r = core_tree_paths(b->m->o->paths, &WORKSPACE_DST[1], &b->only, &b->only_count,
				    &none, e);
	if (r == 0 && none)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "'%.100s' is not in what is merged: " WORKSPACE_DST "/...",
			    b->m->o->paths[0]);
	if (r < 0 || b->tree.copy_count < 2) /* it wrote nothing there */
		return r;
	r = compare(b, e);
	if (r == 0 && merge_may_act(b->m) && b->stage.count > 0) {
		r = begin_stage(b, e);
		if (r == 0)
			r = merge_check_cancel(b->m);
		if (r == 0)
			r = stage_commit(&b->stage, e);
		if (r == 0) {
			b->has_stage = false; /* from here on it is not taken back */
			r = stage_apply(&b->stage, b->m->theirs, e);
		}
	}
	if (b->has_stage)
		stage_abort(&b->stage);
	if (r == 0)
		b->m->result->done = merge_may_act(b->m);
	return r;
}

int merge_back(struct merge *m, struct err *e)
{
	struct back *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_errno(e, ENOMEM, "merge");
	b->m = m;
	b->tree = CORE_TREE_NONE;
	b->dir_fd = b->file_fd = b->stage.fd = -1;
	r = merge_with(b, e);
	stage_done(&b->stage);
	inodes_done(&b->linked);
	fd_close(&b->file_fd);
	fd_close(&b->dir_fd);
	core_tree_done(&b->tree);
	core_tree_paths_free(b->only, b->only_count);
	free(b);
	return r;
}
