/* Changes to a directory of the host; see stage.h. */
#include "store/stage.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "storage/tree.h"
#include "store/stage_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL	 "merge"
#define OWN_FILE "merged"
#define STAY	 (FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV)
enum { OP_BYTES = 128 }; /* of a line of the journal, about, beside its path */
enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* ---- the host's side ---- */

static uint64_t nanoseconds(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static struct stage_seen seen_of(const struct stat *st)
{
	return (struct stage_seen){.ino = st->st_ino,
				   .ctime_ns = nanoseconds(&st->st_ctim),
				   .mtime_ns = nanoseconds(&st->st_mtim)};
}

/* Its ctime changes with its other names, too, which the same merge may remove. */
static bool is_content_same(const struct stage_seen *a, const struct stage_seen *b)
{
	return a->ino == b->ino && a->mtime_ns == b->mtime_ns;
}

static bool is_same(const struct stage_seen *a, const struct stage_seen *b)
{
	return a->ino == b->ino && a->ctime_ns == b->ctime_ns;
}

static bool is_removal(const struct stage_op *op)
{
	return op->kind == STAGE_REMOVE || op->kind == STAGE_REMOVE_DIR;
}

int stage_look(int dir_fd, const char *path, struct stat *ret, struct stage_seen *ret_seen)
{
	autoclose int fd = fd_openat2(dir_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, STAY);

	*ret_seen = (struct stage_seen){0};
	if (fd < 0)
		return fd == -ENOTDIR ? -ENOENT : fd;
	if (fstat(fd, ret) < 0)
		return -errno;
	*ret_seen = seen_of(ret);
	return 0;
}

bool stage_is_blocked(int dir_fd, const char *path)
{
	autoclose int fd = fd_openat2(dir_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, STAY);

	return fd == -ENOTDIR;
}

/* New things are the owner's of the directory. By descriptor: the owner may have put something else
 * under its name. */
static int own(const struct stage *s, int fd)
{
	if (geteuid() != 0)
		return 0;
	return fchownat(fd, "", s->uid, s->gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* A new directory, open. */
static int make_dir(const struct stage *s, int parent_fd, const char *name, mode_t mode)
{
	autoclose int fd = -1;
	struct stat st;
	int r;

	if (mkdirat(parent_fd, name, mode) < 0)
		return -errno;
	fd = fd_openat2(parent_fd, name, DIR_FLAGS, 0, STAY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* What is another's, or has directories in it, is not the one that was made. */
	r = geteuid() == 0 && (st.st_uid != 0 || st.st_nlink > 2) ? -ESTALE : own(s, fd);
	return r < 0 ? r : take_fd(fd);
}

/* The directory that path lies in; make: with what is missing on the way. */
static int open_parent(const struct stage *s, const char *path, bool make, const char **ret_name)
{
	char part[STACK_PATH_MAX + 1];
	autoclose int fd = fd_openat2(s->dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, STAY);

	while (fd >= 0) {
		size_t len = strcspn(path, "/");
		int next;

		if (path[len] == 0)
			break;
		if (len >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, len);
		part[len] = 0;
		next = fd_openat2(fd, part, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, STAY);
		if (next == -ENOENT && make)
			next = make_dir(s, fd, part, 0755);
		close(fd);
		fd = next;
		path += len + 1;
	}
	*ret_name = path;
	return take_fd(fd);
}

/* ---- beginning ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct stage_op *)a)->path, ((const struct stage_op *)b)->path);
}

int stage_init(struct stage *s, int box_fd, int dir_fd, uid_t uid, gid_t gid, struct err *e)
{
	struct stage_journal own_puts;
	int r;

	*s = (struct stage){.box_fd = box_fd, .dir_fd = dir_fd, .uid = uid, .gid = gid, .fd = -1};
	r = stage_ops_read(box_fd, OWN_FILE, &own_puts);
	if (r < 0)
		return err_set(e, ERR_DAMAGED, -r,
			       "what earlier merges of the box brought back cannot be read: remove "
			       "the box, or its file '" OWN_FILE "'");
	s->own = own_puts.ops;
	s->own_count = own_puts.count;
	if (s->own_count)
		qsort(s->own, s->own_count, sizeof(*s->own), by_path);
	return 0;
}

void stage_done(struct stage *s)
{
	fd_close(&s->fd);
	stage_ops_free(s->ops, s->count);
	stage_ops_free(s->own, s->own_count);
	s->ops = s->own = NULL;
	s->in_way = NULL;
	s->count = s->own_count = 0;
}

static const struct stage_op *find_own(const struct stage *s, const char *path)
{
	const struct stage_op key = {.path = (char *)(uintptr_t)path};

	return s->own_count ? bsearch(&key, s->own, s->own_count, sizeof(key), by_path) : NULL;
}

bool stage_is_own(const struct stage *s, const char *path, const struct stage_seen *seen)
{
	const struct stage_op *found = find_own(s, path);

	return found && is_same(&found->was, seen);
}

bool stage_is_hosts(const struct stage *s, const char *path, const struct stage_seen *seen,
		    unsigned box_mode, const struct stage_seen *box)
{
	const struct stage_op *found = find_own(s, path);

	if (!found || is_same(&found->was, seen))
		return false;
	if (is_removal(found))
		return box_mode == 0;
	/* Where the host has something else in its place the box may have changed what is in it. */
	if (S_ISDIR(box_mode))
		return found->kind == STAGE_MAKE_DIR && seen->ino == 0;
	return found->box.ino && is_same(&found->box, box);
}

/* What is left of a call that is over or did not get to its commit. */
static int clear(struct stage *s, struct err *e)
{
	int r = s->name[0] ? tree_remove(s->dir_fd, s->name, e) : 0;

	fd_close(&s->fd);
	s->name[0] = 0;
	if (r == 0 && unlinkat(s->box_fd, JOURNAL, 0) < 0 && errno != ENOENT)
		r = err_errno(e, errno, "remove the journal of the merge");
	/* One that came back after a power cut would be applied once more. */
	if (r == 0 && fsync(s->box_fd) < 0)
		r = err_errno(e, errno, "sync the end of the merge");
	return r;
}

int stage_resume(struct stage *s, struct err *e)
{
	struct stage_journal j;
	int r = stage_ops_read(s->box_fd, JOURNAL, &j);

	if (r == 0)
		return 0;
	if (r < 0)
		return err_set(e, ERR_DAMAGED, -r,
			       "the journal of an earlier merge cannot be read: remove the box's "
			       "file '" JOURNAL "', and the directory '" STAGE_NAME
			       "...' in the workspace");
	str_copy(s->name, sizeof(s->name), j.stage);
	s->ops = j.ops;
	s->count = j.count;
	s->cap = j.cap;
	if (!j.apply)
		return clear(s, e);
	s->fd = fd_openat2(s->dir_fd, s->name, DIR_FLAGS, 0, STAY);
	if (s->fd < 0 && s->fd != -ENOENT)
		return err_errno(e, -s->fd, "open '%s'", s->name);
	return 1;
}

int stage_begin(struct stage *s, struct err *e)
{
	char token[17];
	struct stat st;
	int r;

	rand_hex(token, 8);
	snprintf(s->name, sizeof(s->name), STAGE_NAME "%s", token);
	r = stage_ops_write(s->box_fd, JOURNAL, s->name, "stage", NULL, 0);
	if (r < 0)
		return err_errno(e, -r, "write the journal of the merge");
	if (mkdirat(s->dir_fd, s->name, 0700) < 0)
		return err_errno(e, errno, "write to the directory");
	s->fd = fd_openat2(s->dir_fd, s->name, DIR_FLAGS, 0, STAY);
	if (s->fd < 0)
		return err_errno(e, -s->fd, "open '%s'", s->name);
	/* If it is the one that was made, only this process changes what is in it. */
	if (geteuid() == 0 && (fstat(s->fd, &st) < 0 || st.st_uid != 0 || (st.st_mode & 0077) != 0))
		return err_set(e, ERR_CONFLICT, ESTALE, "somebody put another '%s' there", s->name);
	return 0;
}

void stage_abort(struct stage *s)
{
	(void)clear(s, NULL); /* what stays the next call removes */
}

int stage_drop(int box_fd, const char *dir, char ret_name[STAGE_NAME_SIZE], struct err *e)
{
	autoclose int dir_fd = -1;
	struct stage_journal j;
	int r = stage_ops_read(box_fd, JOURNAL, &j);

	if (r == 0)
		return 0;
	if (r < 0)
		return err_set(e, ERR_DAMAGED, -r, "the journal of a merge cannot be read");
	str_copy(ret_name, STAGE_NAME_SIZE, j.stage);
	stage_ops_free(j.ops, j.count);
	dir_fd = fd_openat2(AT_FDCWD, dir, DIR_FLAGS, 0, FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	if (dir_fd < 0)
		return dir_fd == -ENOENT ? 0 : err_errno(e, -dir_fd, "open '%.140s'", dir);
	if (j.apply)
		return faccessat(dir_fd, ret_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	return ret_name[0] ? tree_remove(dir_fd, ret_name, e) : 0;
}

int stage_new_file(struct stage *s, unsigned mode, int *ret_fd, unsigned *ret_number, struct err *e)
{
	char name[16];
	int fd, r;

	snprintf(name, sizeof(name), "%u", s->files);
	fd = openat(s->fd, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : own(s, fd);
	if (r == 0 && fchmod(fd, mode & 0777) < 0)
		r = -errno;
	if (r < 0) {
		fd_close(&fd);
		return err_errno(e, -r, "write to the directory");
	}
	*ret_fd = fd;
	*ret_number = s->files++;
	return 0;
}

int stage_new_link(struct stage *s, const char *target, unsigned *ret_number, struct err *e)
{
	autoclose int fd = -1;
	char name[16];
	int r;

	snprintf(name, sizeof(name), "%u", s->files);
	if (symlinkat(target, s->fd, name) == 0)
		fd = openat(s->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : own(s, fd);
	if (r < 0)
		return err_errno(e, -r, "write to the directory");
	*ret_number = s->files++;
	return 0;
}

int stage_new_name(struct stage *s, unsigned of, unsigned *ret_number, struct err *e)
{
	char first[16], name[16];

	snprintf(first, sizeof(first), "%u", of);
	snprintf(name, sizeof(name), "%u", s->files);
	if (linkat(s->fd, first, s->fd, name, 0) < 0)
		return err_errno(e, errno, "write to the directory");
	*ret_number = s->files++;
	return 0;
}

int stage_add(struct stage *s, enum stage_kind kind, const char *path, unsigned mode,
	      unsigned number, const struct stage_seen *was, struct err *e)
{
	int r = stage_ops_grow(&s->ops, s->count, &s->cap);
	struct stage_op *op;

	s->bytes += strlen(path) + OP_BYTES;
	if (r == -E2BIG || s->bytes > STAGE_JOURNAL_MAX / 2)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "more than %u changes at once: name some of the paths",
			       STAGE_OPS_MAX);
	if (r < 0)
		return err_errno(e, -r, "list the changes");
	op = &s->ops[s->count];
	*op = (struct stage_op){.kind = kind,
				.path = strdup(path),
				.mode = mode & 0777,
				.number = number,
				.was = was ? *was : (struct stage_seen){0}};
	if (!op->path)
		return err_errno(e, ENOMEM, "list the changes");
	s->count++;
	return 0;
}

void stage_add_box(struct stage *s, const struct stage_seen *box)
{
	s->ops[s->count - 1].box = *box;
}

/* ---- applying ---- */

static int changed(const char *path, struct err *e)
{
	return err_set(e, ERR_CONFLICT, ESTALE,
		       "'%.140s' was changed on the host while it was being merged", path);
}

/* Directories change with what is in them; what they were does not matter. */
static bool is_judged(const struct stage_op *op)
{
	return op->kind == STAGE_REMOVE || op->kind == STAGE_PUT;
}

/* How many names a directory has; of one that is not there none. */
static int count_names(const struct stage *s, const char *path, size_t *ret)
{
	autoclose int fd = fd_openat2(s->dir_fd, path, DIR_FLAGS, 0, STAY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;

	*ret = 0;
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	if (!d)
		return -errno;
	(void)take_fd(fd);
	errno = 0;
	for (const struct dirent *at; (at = readdir(d));)
		*ret += strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0;
	r = -errno;
	closedir(d);
	return r;
}

/* Where a file comes in place of a directory, all that is in that is removed: 1, or 0. */
static int is_emptied(const struct stage *s, size_t at)
{
	const struct stage_op *top = &s->ops[at];
	size_t end = at, names, gone;
	struct stage_seen now;
	struct stat st;
	int r;

	while (end < s->count && path_is_within(s->ops[end].path, top->path))
		end++;
	for (size_t i = at; i < end; i++) {
		const char *dir = s->ops[i].path;
		size_t len = strlen(dir);

		if (s->ops[i].kind != STAGE_REMOVE_DIR)
			continue;
		gone = 0;
		for (size_t k = i + 1; k < end && path_is_within(s->ops[k].path, dir); k++)
			gone += is_removal(&s->ops[k]) && strlen(s->ops[k].path) > len &&
				!strchr(s->ops[k].path + len + 1, '/') &&
				stage_look(s->dir_fd, s->ops[k].path, &st, &now) == 0;
		r = count_names(s, dir, &names);
		if (r < 0 || names > gone)
			return r;
	}
	return 1;
}

int stage_commit(struct stage *s, struct err *e)
{
	struct stage_seen now;
	struct stat st;
	int r;

	for (size_t i = 0; i < s->count; i++) {
		struct stage_op *op = &s->ops[i];

		r = stage_look(s->dir_fd, op->path, &st, &now);
		if (op->kind == STAGE_NOTE) { /* else it is not noted */
			op->was.ino = r == 0 && is_same(&now, &op->was) ? now.ino : 0;
			continue;
		}
		/* Behind a link that a directory takes the place of there is nothing yet; applying
		 * follows none. */
		if (r < 0 && r != -ENOENT && !(r == -ELOOP && op->was.ino == 0))
			return err_errno(e, -r, "reach '%.140s'", op->path);
		/* A directory that a file takes the place of is gone by then. */
		if (is_judged(op) && !is_same(&now, &op->was) && !(r == 0 && S_ISDIR(st.st_mode)))
			return changed(op->path, e);
		if (op->kind != STAGE_PUT || i == 0 || s->ops[i - 1].kind != STAGE_REMOVE_DIR ||
		    strcmp(s->ops[i - 1].path, op->path) != 0)
			continue;
		r = is_emptied(s, i - 1);
		if (r < 0)
			return err_errno(e, -r, "list '%.140s'", op->path);
		if (r == 0)
			return err_set(e, ERR_CONFLICT, ENOTEMPTY,
				       "'%.140s' is a directory on the host, of which something "
				       "stays, and none in the box: name other paths",
				       op->path);
	}
	if (syncfs(s->fd) < 0)
		return err_errno(e, errno, "sync the directory");
	r = stage_ops_write(s->box_fd, JOURNAL, s->name, "apply", s->ops, s->count);
	return r < 0 ? err_errno(e, -r, "write the journal of the merge") : 0;
}

static int apply_remove(struct stage *s, const struct stage_op *op)
{
	const char *name;
	autoclose int parent = open_parent(s, op->path, false, &name);
	bool is_dir = op->kind == STAGE_REMOVE_DIR;

	if (parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP)
		return 0;
	if (parent < 0)
		return parent;
	if (unlinkat(parent, name, is_dir ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
		return 0;
	if (is_dir && (errno == ENOTEMPTY || errno == ENOTDIR)) /* somebody put something there */
		return 0;
	return -errno;
}

static int apply_dir(struct stage *s, const struct stage_op *op)
{
	const char *name;
	autoclose int parent = open_parent(s, op->path, true, &name);
	autoclose int fd = -1;

	if (parent < 0)
		return parent;
	fd = make_dir(s, parent, name, 0700);
	if (fd == -EEXIST)
		fd = fd_openat2(parent, name, DIR_FLAGS, 0, STAY);
	if (fd < 0)
		return fd;
	return fchmod(fd, op->mode) < 0 ? -errno : 0;
}

/* An O_PATH descriptor cannot be changed itself; its entry in /proc is that very file. */
static int apply_mode(struct stage *s, const struct stage_op *op)
{
	autoclose int fd =
		fd_openat2(s->dir_fd, op->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, STAY);
	char path[64];
	struct stat st;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, op->mode) < 0 ? -errno : 0;
}

static int apply_put(struct stage *s, const struct stage_op *op)
{
	const char *name;
	autoclose int parent = open_parent(s, op->path, true, &name);
	char number[16];

	if (parent < 0)
		return parent;
	snprintf(number, sizeof(number), "%u", op->number);
	return renameat(s->fd, number, parent, name) < 0 ? -errno : 0;
}

/* Is it done already, by the call that was killed? Where nothing is staged any more, it is if
 * something new is there. */
static bool is_done(const struct stage *s, const struct stage_op *op)
{
	struct stage_seen now;
	char number[16];
	struct stat st;

	if (op->kind != STAGE_PUT)
		return false;
	if (s->fd < 0)
		return stage_look(s->dir_fd, op->path, &st, &now) == 0 &&
		       !is_content_same(&now, &op->was);
	snprintf(number, sizeof(number), "%u", op->number);
	return fstatat(s->fd, number, &st, AT_SYMLINK_NOFOLLOW) < 0;
}

/* The directory of what is staged goes when all is done. One that somebody deleted before that is
 * not made up for by this journal, but the next merge compares everything anew. */
static int check_staged(struct stage *s, struct err *e)
{
	int r;

	for (size_t i = 0; i < s->count && s->fd < 0; i++) {
		if (s->ops[i].kind != STAGE_PUT || is_done(s, &s->ops[i]))
			continue;
		r = err_set(e, ERR_CONFLICT, ENOENT,
			    "an interrupted merge was done in part: its directory '" STAGE_NAME
			    "...' was deleted, so '%.100s' is not merged; merge again",
			    s->ops[i].path);
		return clear(s, NULL) < 0 ? -EIO : r;
	}
	return 0;
}

/* That does not go away by saying it again. */
static bool is_in_way(int r)
{
	return r == -ENOTDIR || r == -EISDIR || r == -ENOTEMPTY || r == -EEXIST || r == -ELOOP ||
	       r == -EXDEV || r == -EBUSY;
}

/* Once more right before it: nearly all of the time that a merge takes is before the commit. */
static int apply_one(struct stage *s, const struct stage_op *op, bool force, struct err *e)
{
	static int (*const apply[STAGE_KIND_COUNT])(struct stage *, const struct stage_op *) = {
		[STAGE_REMOVE] = apply_remove, [STAGE_REMOVE_DIR] = apply_remove,
		[STAGE_MAKE_DIR] = apply_dir,  [STAGE_PUT] = apply_put,
		[STAGE_MODE] = apply_mode,
	};
	struct stage_seen now;
	struct stat st;
	int r;

	if (op->kind == STAGE_NOTE || is_done(s, op))
		return 0;
	r = stage_look(s->dir_fd, op->path, &st, &now);
	/* Gone, or what takes its place, or that of what it was in, is there already. */
	if (is_removal(op) && (r == -ENOENT || r == -ELOOP))
		return 0;
	if (op->kind == STAGE_REMOVE && r == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (r < 0 && r != -ENOENT && !is_in_way(r))
		return err_errno(e, -r, "reach '%.140s'", op->path);
	/* A directory is not judged: no file takes its place by force, either. */
	if (is_judged(op) && !force && now.ino && !S_ISDIR(st.st_mode) &&
	    !is_content_same(&now, &op->was)) {
		r = changed(op->path, e);
		err_prefix(e, "done in part; `cove merge --theirs` finishes it with what the box "
			      "has");
		return r;
	}
	r = apply[op->kind](s, op);
	if (is_in_way(r)) {
		s->in_way = s->in_way ? s->in_way : op->path;
		return 0;
	}
	return r < 0 ? err_errno(e, -r, "merge '%.140s' (say it again to go on)", op->path) : 0;
}

/* What is known from now on of where that was done; false: nothing. */
static bool note_of(const struct stage *s, const struct stage_op *op, struct stage_op *ret)
{
	const struct stage_op *before = find_own(s, op->path);
	struct stage_seen now;
	struct stat st;
	int r = stage_look(s->dir_fd, op->path, &st, &now);
	bool is_dir = r == 0 && S_ISDIR(st.st_mode);

	*ret = (struct stage_op){.kind = is_removal(op) ? op->kind : STAGE_PUT,
				 .path = op->path,
				 .was = now,
				 .box = op->box};
	if (is_removal(op) || r < 0)
		return is_removal(op) && r == -ENOENT;
	/* What came in its way is somebody else's. */
	if ((op->kind == STAGE_MAKE_DIR && !is_dir) || (op->kind == STAGE_PUT && is_dir))
		return false;
	if (is_dir && (op->kind == STAGE_MAKE_DIR || (before && before->kind == STAGE_MAKE_DIR)))
		ret->kind = STAGE_MAKE_DIR;
	/* Others may have changed a directory before: only its note says not. */
	return op->kind == STAGE_NOTE ? op->was.ino == now.ino : op->kind != STAGE_MODE || !is_dir;
}

/* What an earlier call noted, and still tells something. */
static bool is_kept(const struct stage *s, const struct stage_op *own)
{
	struct stage_seen now;
	struct stat st;

	return own->kind != STAGE_PUT || own->box.ino ||
	       (stage_look(s->dir_fd, own->path, &st, &now) == 0 && is_same(&now, &own->was));
}

/* What was done, and what earlier calls did, as much of it as there is room for: of what is not
 * noted the next merge says rather that it is a conflict. */
static int note_own(struct stage *s, struct err *e)
{
	size_t max = s->count + s->own_count, n = 0, bytes = 0;
	autofree struct stage_op *list = calloc(max + 1, sizeof(*list));
	autofree bool *is_replaced = calloc(s->own_count + 1, sizeof(*is_replaced));
	const struct stage_op *before;
	int r;

	if (!list || !is_replaced)
		return err_errno(e, ENOMEM, "note what was merged");
	for (size_t i = 0; i < s->count; i++) {
		if (!note_of(s, &s->ops[i], &list[n]))
			continue;
		before = find_own(s, list[n].path);
		if (before)
			is_replaced[before - s->own] = true;
		bytes += strlen(list[n++].path) + OP_BYTES;
	}
	for (size_t i = 0; i < s->own_count && n < STAGE_OPS_MAX; i++) {
		bytes += strlen(s->own[i].path) + OP_BYTES;
		if (bytes > STAGE_JOURNAL_MAX / 2)
			break;
		if (!is_replaced[i] && is_kept(s, &s->own[i]))
			list[n++] = s->own[i];
	}
	r = stage_ops_write(s->box_fd, OWN_FILE, NULL, NULL, list, n);
	return r < 0 ? err_errno(e, -r, "note what was merged") : 0;
}

int stage_apply(struct stage *s, bool force, struct err *e)
{
	int r = check_staged(s, e);

	for (size_t i = s->count; i > 0 && r == 0; i--)
		if (is_removal(&s->ops[i - 1]))
			r = apply_one(s, &s->ops[i - 1], force, e);
	for (size_t i = 0; i < s->count && r == 0; i++)
		if (!is_removal(&s->ops[i]))
			r = apply_one(s, &s->ops[i], force, e);
	if (r == 0 && syncfs(s->dir_fd) < 0)
		r = err_errno(e, errno, "sync the directory");
	if (r == 0)
		r = note_own(s, e);
	if (r == 0)
		r = clear(s, e);
	if (r == 0 && s->in_way)
		r = err_set(e, ERR_CONFLICT, ENOTDIR,
			    "done in part: on the host something else is in the way of '%.140s', "
			    "and stays; merge again to see what is left",
			    s->in_way);
	return r;
}
