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
 * box's view of the directory was made; unless an earlier merge put it there. A file that is older
 * may have been moved there with its directory, and the box never saw it: then that directory is
 * not the one that the box's is a copy of, where that is known, or was moved since; one that the
 * box removed or replaced must not have changed at all.
 * Directories that go are not judged: what is in them is.
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
#include "store/own.h"
#include "store/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { FRAME_CHANGE = 1, FRAME_DATA = 2, FRAME_LINK = 3, FRAME_END = 4, FRAME_DIR = 5 };
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

/* FRAME_DIR, before what changed in it: this, then the path. */
struct back_dir {
	uint8_t hides;	    /* nothing of the host's directory shows through it, or it is gone */
	uint8_t origin_len; /* 0: it is not known */
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
	char way[STACK_PATH_MAX + 1]; /* the directory that was sent last, with those above */
	size_t hides_from; /* its length up to the first that hides the host's; 0: none */
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
	/* Where one was to come or go and does not: what is in it does not, either. */
	char kept[STACK_PATH_MAX + 1];
	bool has_kept;
	/* Another directory than the box had was moved there. */
	char moved[STACK_PATH_MAX + 1];
	bool has_moved;
	char noted[STACK_PATH_MAX + 1]; /* the last one that only this merge changes */
	int file_fd;			/* owned */
	unsigned number;
	uint64_t data_end;
	uint64_t written, bytes_max; /* of all files; 0: no bound */
};

static const char *why_left_out(const struct back *b);

/* ---- in the child ---- */

/* What has this attribute overlayfs copied from the directory, from the file that it names; else
 * the box made it. */
static uint8_t find_origin(int fd, uint8_t ret[ORIGIN_MAX])
{
	ssize_t n = fgetxattr(fd, "user.overlay.origin", ret, ORIGIN_MAX);

	return n > ORIGIN_HANDLE ? (uint8_t)n : 0;
}

/* What the box wrote has this directory as; where it wrote nothing, the host's shows. */
static int send_dir(struct back *b, size_t len)
{
	autoclose int fd =
		fd_openat2(b->tree.copy[0].fd, b->way, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
			   FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	struct back_dir d = {0};
	char opaque = 0;

	if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
		return fd;
	if (fd >= 0) {
		d.origin_len = find_origin(fd, d.origin);
		(void)fgetxattr(fd, "user.overlay.opaque", &opaque, 1);
	}
	if (!b->hides_from && (fd == -ENOTDIR || fd == -ELOOP || opaque == 'y'))
		b->hides_from = len;
	d.hides = b->hides_from != 0;
	return reader_send(b->out, FRAME_DIR, &d, sizeof(d), b->way, len);
}

/* The directories on the way to a path, each once. */
static int send_way(struct back *b, const char *path)
{
	int r = 0;

	for (size_t len = 0; path[len] && r == 0; len++) {
		if (path[len] != '/' ||
		    (strncmp(b->way, path, len) == 0 && (b->way[len] == '/' || b->way[len] == 0)))
			continue;
		if (b->hides_from >= len || strncmp(b->way, path, b->hides_from) != 0 ||
		    path[b->hides_from] != '/')
			b->hides_from = 0;
		memcpy(b->way, path, len);
		b->way[len] = 0;
		r = send_dir(b, len);
	}
	return r;
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
	int r = c->before && !c->deep ? send_way(b, c->path) : 0;

	if (r < 0)
		return r;
	if (c->after && !c->deep && S_ISREG(c->after->st.st_mode)) {
		fd = stack_open_file(&after, c->after, c->path);
		if (fd < 0)
			return fd;
		h.origin_len = find_origin(fd, h.origin);
		h.birth_ns = fd_birth_ns(fd);
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

static const char *why_left_out(const struct back *b)
{
	if (b->head.deep)
		return "its path is too long";
	return merge_why_left_out(b->dir_fd, b->path, b->head.after_mode,
				  b->has_target ? b->target : NULL, b->m->o->trust_dir);
}

/* Is that what a copy was made of, by the origin that overlayfs noted? */
static bool is_origin(const struct back *b, const char *path, const uint8_t *origin, size_t len)
{
	autoclose int fd = fd_openat2(b->dir_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
				      FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	union {
		struct file_handle head;
		uint8_t room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = {.head.handle_bytes = MAX_HANDLE_SZ};
	int mount_id;

	if (fd < 0 || len <= ORIGIN_HANDLE ||
	    name_to_handle_at(fd, "", &h.head, &mount_id, AT_EMPTY_PATH) < 0)
		return false;
	len -= ORIGIN_HANDLE;
	return h.head.handle_type == origin[ORIGIN_KIND] && h.head.handle_bytes == len &&
	       memcmp(h.head.f_handle, origin + ORIGIN_HANDLE, len) == 0;
}

/* Was it changed on the host, and not by a merge, since the box has a view of the directory? */
static bool is_since(const struct back *b, const char *path, const struct stage_seen *seen)
{
	return seen->ctime_ns >= b->begun_ns && !stage_is_own(&b->stage, path, seen);
}

/* Why what is on the host may not be what the box had; NULL: it is. */
static const char *find_conflict(const struct back *b, const struct stat *st)
{
	const struct back_head *h = &b->head;
	bool is_moved = b->has_moved && path_is_within(b->path, b->moved), is_copy;

	if (S_ISDIR(st->st_mode) && (!h->after_mode || S_ISDIR(h->after_mode)))
		return NULL;
	if (stage_is_own(&b->stage, b->path, &b->was))
		return NULL;
	is_copy = is_origin(b, b->path, h->origin, h->origin_len);
	if (b->was.ctime_ns >= (is_copy && h->birth_ns ? h->birth_ns : b->begun_ns))
		return "it was changed on the host since the box had it";
	return is_moved && !is_copy ? "its directory was changed on the host since the box had it"
				    : NULL;
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

/* The files in a directory that was moved there are as old as ever. */
static int take_dir(struct back *b, const uint8_t *data, size_t len, struct err *e)
{
	char path[STACK_PATH_MAX + 1];
	struct stage_seen seen;
	struct back_dir d;
	struct stat st;
	bool is_moved;

	if (len <= sizeof(d) || len - sizeof(d) > STACK_PATH_MAX || b->has_item)
		return bad_frame(e);
	memcpy(&d, data, sizeof(d));
	len -= sizeof(d);
	memcpy(path, data + sizeof(d), len);
	path[len] = 0;
	if (strlen(path) != len || !path_is_safe_relative(path) || d.origin_len > ORIGIN_MAX)
		return bad_frame(e);
	if ((b->has_moved && path_is_within(path, b->moved)) ||
	    stage_look(b->dir_fd, path, &st, &seen) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	/* Without an origin: what comes or goes in a directory changes both of its times alike, a
	 * move only the one. */
	is_moved = !d.hides && d.origin_len
			   ? !is_origin(b, path, d.origin, d.origin_len)
			   : is_since(b, path, &seen) && (d.hides || seen.mtime_ns < seen.ctime_ns);
	if (is_moved)
		b->has_moved = str_copy(b->moved, sizeof(b->moved), path);
	return 0;
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

/* A directory that the host left alone is as the box had it after this merge, too. */
static int note_dir(struct back *b, const char *path, struct err *e)
{
	struct stage_seen seen;
	struct stat st;

	if (strcmp(b->noted, path) == 0 || stage_look(b->dir_fd, path, &st, &seen) < 0 ||
	    !S_ISDIR(st.st_mode) || is_since(b, path, &seen))
		return 0;
	str_copy(b->noted, sizeof(b->noted), path);
	return stage_add(&b->stage, STAGE_NOTE, path, 0, 0, &seen, e);
}

static int note_way(struct back *b, struct err *e)
{
	const char *slash = strrchr(b->path, '/');
	char dir[STACK_PATH_MAX + 1];

	if (!slash)
		return 0;
	memcpy(dir, b->path, (size_t)(slash - b->path));
	dir[slash - b->path] = 0;
	return note_dir(b, dir, e);
}

/* What has to be done on the host for a change that is taken. */
static int list_ops(struct back *b, struct err *e)
{
	unsigned before = b->head.before_mode, after = b->head.after_mode;
	bool is_type = before && after && (before & S_IFMT) != (after & S_IFMT);
	bool goes = before && (!after || (is_type && (S_ISDIR(before) || S_ISDIR(after))));
	bool comes = !before || is_type || b->head.what & DIFF_CONTENT;
	int r = note_way(b, e);

	if (r == 0 && !comes && S_ISDIR(after))
		r = note_dir(b, b->path, e);
	if (r == 0 && goes)
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

static int leave_out(struct back *b, const char *why)
{
	bool is_in_kept = b->has_kept && path_is_within(b->path, b->kept);

	if (S_ISDIR(b->head.after_mode) != S_ISDIR(b->head.before_mode) && !is_in_kept)
		b->has_kept = str_copy(b->kept, sizeof(b->kept), b->path);
	return merge_say(b->m, COVE_MERGE_LEFT_OUT, (enum cove_change_kind)b->head.kind, b->shown,
			 why);
}

/* A directory that comes where something else was: nothing is below it yet. */
static bool is_in_fresh(const struct back *b)
{
	return b->has_fresh && path_is_within(b->path, b->fresh);
}

static int judge(struct back *b, struct err *e)
{
	enum cove_change_kind kind = (enum cove_change_kind)b->head.kind;
	const char *why = why_left_out(b);
	bool is_blocked;
	struct stat st;
	int r;

	if (!is_seen(b))
		return 0;
	if (!why && b->has_kept && path_is_within(b->path, b->kept))
		why = "its directory is left out";
	if (why)
		return leave_out(b, why);
	r = stage_look(b->dir_fd, b->path, &st, &b->was);
	if (r == -ELOOP && is_in_fresh(b))
		r = -ENOENT;
	if (r < 0 && r != -ENOENT)
		return merge_say(b->m, COVE_MERGE_CONFLICT, kind, b->shown,
				 "a link or another file system is in its way");
	/* A path of the caller's may be all that is taken. */
	is_blocked = r == -ENOENT && b->head.after_mode && !is_in_fresh(b) &&
		     stage_is_blocked(b->dir_fd, b->path);
	if (is_blocked)
		why = "something else is where its directory was to be";
	else if (r == 0 && !b->m->theirs)
		why = find_conflict(b, &st);
	if (why && b->m->ours)
		return leave_out(b, why);
	if (why)
		return merge_say(b->m, COVE_MERGE_CONFLICT, kind, b->shown, why);
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
	case FRAME_DIR:
		return take_dir(b, data, len, e);
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
