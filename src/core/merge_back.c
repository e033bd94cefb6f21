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
 * What the box has left alone since an earlier merge of it, and the host has not, is neither: the
 * host's stays, and the box its own, whose view of the directory is not changed from here. That it
 * was left alone a file's inode and ctime tell, so a merge lets no change of a running box have
 * the ctime of what it read: it waits for the clock's next tick, and writes back what is mapped.
 *
 * A directory that comes to the host below a mounted overlay is none to the kernel there: it takes
 * the box's for one that has nothing below it, and of names that the box removes from it later no
 * whiteout would tell. A box that runs is stopped for such a merge, which begins anew then.
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
#include "core/merge_send.h"
#include "core/reader.h"
#include "storage/diff.h"
#include "storage/storage.h"
#include "store/own.h"
#include "store/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TICK_STEPS_MAX = 50 }; /* milliseconds; the slowest kernel's tick is 10 */

struct back {
	struct merge *m;
	struct core_tree tree;
	const char **only; /* owned */
	size_t only_count;
	struct inodes linked; /* files with several names, as what they are staged */
	int dir_fd;	      /* owned; the host directory */
	uint64_t begun_ns;    /* when the box's view of it was made */
	struct stage stage;
	bool has_stage;
	bool may_stop;	/* it runs, and can be started again */
	bool must_stop; /* a directory is to come: nothing more is staged */
	bool is_said;	/* the caller has heard it all, before the box was stopped */
	bool has_clash; /* since then */
	/* The change that is being received: */
	bool has_item, is_taken, has_file;
	struct merge_head head;
	char path[STACK_PATH_MAX + 1], shown[STACK_PATH_MAX + 16];
	char target[MERGE_LINK_MAX + 1];
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
	const struct merge_head *h = &b->head;
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

static int say(struct back *b, enum cove_merge_state state, const char *why)
{
	if (!b->is_said)
		return merge_say(b->m, state, (enum cove_change_kind)b->head.kind, b->shown, why);
	b->has_clash |= state == COVE_MERGE_CONFLICT;
	return 0;
}

static bool may_stage(const struct back *b)
{
	return merge_may_act(b->m) && !b->must_stop && !b->has_clash;
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
	struct merge_dir d;
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
	const struct merge_head *h = &b->head;
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
	if (why_left_out(b) || !may_stage(b))
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
	if (!b->has_item || !S_ISLNK(b->head.after_mode) || len == 0 || len > MERGE_LINK_MAX ||
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
	const struct merge_head *h = &b->head;
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

static struct stage_seen seen_in_box(const struct back *b)
{
	return (struct stage_seen){.ino = b->head.box_ino, .ctime_ns = b->head.box_ctime_ns};
}

/* What has to be done on the host for a change that is taken. */
static int list_ops(struct back *b, struct err *e)
{
	const struct stage_seen box = seen_in_box(b);
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
	r = comes ? put(b, e) : stage_add(&b->stage, STAGE_MODE, b->path, after, 0, NULL, e);
	if (r == 0)
		stage_add_box(&b->stage, &box);
	return r;
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

	/* What is said to be deep is something in the directory that is named. */
	if (!b->head.deep && !is_in_kept &&
	    S_ISDIR(b->head.after_mode) != S_ISDIR(b->head.before_mode))
		b->has_kept = str_copy(b->kept, sizeof(b->kept), b->path);
	return say(b, COVE_MERGE_LEFT_OUT, why);
}

/* The host's change alone. A directory that it removed may come back with what is new in it. */
static int leave_to_host(struct back *b)
{
	static const char why[] = "only the host changed it since it was merged";

	return S_ISDIR(b->head.after_mode) ? say(b, COVE_MERGE_LEFT_OUT, why) : leave_out(b, why);
}

/* A directory that comes where something else was: nothing is below it yet. */
static bool is_in_fresh(const struct back *b)
{
	return b->has_fresh && path_is_within(b->path, b->fresh);
}

/* One of the caller's paths comes with what is missing above it. */
static bool makes_dir(const struct back *b)
{
	const char *slash = strrchr(b->path, '/');
	char dir[STACK_PATH_MAX + 1];
	struct stage_seen seen;
	struct stat st;

	if (!b->head.after_mode)
		return false;
	if (S_ISDIR(b->head.after_mode) && !S_ISDIR(b->head.before_mode))
		return true;
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - b->path) : 0, b->path);
	return slash && stage_look(b->dir_fd, dir, &st, &seen) == -ENOENT;
}

static int judge(struct back *b, struct err *e)
{
	const char *why = why_left_out(b);
	const struct stage_seen box = seen_in_box(b);
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
		return say(b, COVE_MERGE_CONFLICT, "a link or another file system is in its way");
	if (stage_is_hosts(&b->stage, b->path, &b->was, b->head.after_mode, &box))
		return leave_to_host(b);
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
		return say(b, COVE_MERGE_CONFLICT, why);
	if (b->head.what & DIFF_TYPE && S_ISDIR(b->head.after_mode))
		b->has_fresh = str_copy(b->fresh, sizeof(b->fresh), b->path);
	r = say(b, COVE_MERGE_TAKEN, NULL);
	if (r < 0 || !may_stage(b))
		return r;
	b->must_stop = b->may_stop && makes_dir(b);
	return b->must_stop ? 0 : list_ops(b, e);
}

static int on_frame(void *arg, uint8_t type, const uint8_t *data, size_t len, struct err *e)
{
	struct back *b = arg;
	int r;

	switch (type) {
	case MERGE_DIR:
		return take_dir(b, data, len, e);
	case MERGE_CHANGE:
		return take_change(b, data, len, e);
	case MERGE_DATA:
		return take_data(b, data, len, e);
	case MERGE_LINK:
		return take_link(b, data, len, e);
	case MERGE_END:
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
	/* One that its keeper removes when it ends is not to be ended. */
	b->may_stop = record_is_live(b->tree.box_fd) && !s->one_shot;
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

/* What an earlier call had committed to comes first. 1: the box must be stopped for it. */
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
	if (b->may_stop)
		return 1;
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

static int run_send(void *arg, int out, struct err *e)
{
	const struct back *b = arg;
	const struct merge_send job = {.tree = &b->tree,
				       .only = b->only,
				       .only_count = b->only_count,
				       .trusted = b->m->o->trust_dir,
				       .wants_data = !b->m->o->dry_run};

	return merge_send(&job, out, e);
}

/* What the box changes after this has a ctime of its own: a tick of the clock later, and also where
 * it has the file mapped, since pages that were written back fault again. It is frozen. */
static int part_times(const struct back *b, struct err *e)
{
	int disk = b->tree.volume.stat_fd >= 0 ? b->tree.volume.stat_fd : b->tree.box_fd;
	struct timespec from, now;

	if (b->tree.held) {
		autoclose int fd = openat(disk, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || syncfs(fd) < 0)
			return err_errno(e, errno, "sync the box's files");
	}
	clock_gettime(CLOCK_REALTIME_COARSE, &from);
	for (int i = 0; i < TICK_STEPS_MAX; i++) {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if (now.tv_sec != from.tv_sec || now.tv_nsec != from.tv_nsec)
			break;
		(void)poll(NULL, 0, 1);
	}
	return 0;
}

static int compare(struct back *b, struct err *e)
{
	int dirs[2];
	struct tree_reader reader = {.dirs = dirs, .run = run_send, .on_frame = on_frame, .arg = b};
	int r = core_tree_hold(b->m->cove, &b->tree, e), let;

	if (r < 0)
		return r;
	if (r > 0 && !b->m->o->dry_run)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' runs and cannot be frozen on this host: stop it first "
			       "(cove stop %s)",
			       b->tree.name, b->tree.name);
	if (!b->m->o->dry_run)
		r = part_times(b, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->tree.copy_count; i++)
		dirs[reader.dir_count++] = b->tree.copy[i].fd;
	b->begun_ns = fd_birth_ns(b->tree.copy[0].fd);
	if (b->begun_ns == 0) /* this file system does not say */
		b->begun_ns = b->tree.record.spec.created_ms * 1000000u;
	b->bytes_max = bytes_of_disk(b);
	r = reader_run(&b->m->cove->ids, &reader, e);
	/* Before the host is touched: what was read is whole, or nothing is done. */
	let = core_tree_release(&b->tree, r == 0 ? e : NULL);
	return r < 0 ? r : let;
}

/* Commits to what is staged and does it. 1: the box must be stopped first. */
static int act(struct back *b, struct err *e)
{
	int r;

	if (b->has_clash)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "it was changed meanwhile, and is in conflict now: nothing was "
			       "merged");
	if (!merge_may_act(b->m) || b->must_stop || b->stage.count == 0)
		return merge_may_act(b->m) && b->must_stop;
	r = begin_stage(b, e);
	if (r == 0)
		r = merge_check_cancel(b->m);
	if (r == 0)
		r = stage_commit(&b->stage, e);
	if (r < 0)
		return r;
	b->has_stage = false; /* from here on it is not taken back */
	return stage_apply(&b->stage, b->m->theirs, e);
}

/* 1: nothing was done, the box must be stopped first. */
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
	if (r != 0)
		return r;
	if (b->tree.copy_count >= 2) { /* else it wrote nothing there */
		r = compare(b, e);
		if (r == 0)
			r = act(b, e);
		if (b->has_stage)
			stage_abort(&b->stage);
	}
	if (r == 0)
		b->m->result->done = merge_may_act(b->m);
	return r;
}

static int merge_once(struct merge *m, bool again, char ret_name[BOX_NAME_MAX + 1], struct err *e)
{
	struct back *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_errno(e, ENOMEM, "merge");
	b->m = m;
	b->is_said = again && m->result->taken > 0; /* else it ended before it compared */
	b->tree = CORE_TREE_NONE;
	b->dir_fd = b->file_fd = b->stage.fd = -1;
	r = merge_with(b, e);
	str_copy(ret_name, BOX_NAME_MAX + 1, b->tree.name);
	stage_done(&b->stage);
	inodes_done(&b->linked);
	fd_close(&b->file_fd);
	fd_close(&b->dir_fd);
	core_tree_done(&b->tree);
	core_tree_paths_free(b->only, b->only_count);
	free(b);
	return r;
}

int merge_back(struct merge *m, struct err *e)
{
	char name[BOX_NAME_MAX + 1];
	bool restarts;
	int r = merge_once(m, false, name, e), up;

	if (r <= 0)
		return r;
	r = merge_stop(m, name, &restarts, e);
	if (r < 0)
		return r;
	r = merge_once(m, true, name, e);
	if (r > 0)
		r = err_set(e, ERR_CONFLICT, EBUSY,
			    "box '%s' was started meanwhile: nothing was merged, say it again",
			    name);
	up = restarts ? merge_start(m, name, r == 0 ? e : NULL) : 0;
	return r < 0 ? r : up;
}
