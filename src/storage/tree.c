/*
 * Removing, measuring and giving away trees that a box could write to.
 *
 * How removal works
 *
 * The tree is flattened while it is removed, so that any depth costs two descriptors and no
 * stack. The root R is read; files in it are unlinked; a directory D in it is opened and read in
 * turn: its files are unlinked and its own subdirectories renamed up into R under a random name,
 * where a later pass over R finds them; then D is empty and goes. Every directory is moved at
 * most once. Passes are repeated until R itself can be removed. Whatever happens in between, what
 * is left is still below R, and the next call continues.
 *
 * Nothing is followed: names are only ever unlinked or renamed relative to an open directory, and
 * a directory is only opened by openat2 without links, without leaving its parent and without
 * entering another mount. A name that is swapped for a link between two calls is unlinked as a
 * link.
 *
 * A directory without permissions gets them first, through its own descriptor: never through a
 * name.
 *
 * Measuring and giving files away keep one descriptor and, per level, the directory's identity
 * and position; on the way up ".." is checked against that identity, so a tree that is being
 * moved is an error, not a journey.
 */
#include "storage/tree.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "storage/dirents.h"
#include "storage/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int open_below(int dir_fd, const char *name, int flags)
{
	return fd_openat2(dir_fd, name, flags | O_DIRECTORY | O_CLOEXEC, 0,
			  FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);
}

/* Gives the owner of a directory all permissions. An O_PATH descriptor cannot be changed itself,
 * but its entry in /proc is that very directory and nothing a name could be swapped for. */
static int unlock_dir(int dir_fd, const char *name)
{
	autoclose int fd = open_below(dir_fd, name, O_PATH);
	char path[64];

	if (fd < 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, 0700) < 0 ? -errno : 0;
}

/* Opens a directory to empty it. */
static int open_dir(int dir_fd, const char *name)
{
	autoclose int fd = open_below(dir_fd, name, O_RDONLY);
	struct stat st;

	if (fd == -EACCES && unlock_dir(dir_fd, name) == 0)
		fd = open_below(dir_fd, name, O_RDONLY);
	if (fd < 0)
		return take_fd(fd);
	if (fstat(fd, &st) < 0)
		return -errno;
	/* One that may be read but not written. */
	if ((st.st_mode & 0700) != 0700 && st.st_uid == geteuid() && fchmod(fd, 0700) < 0)
		return -errno;
	return take_fd(fd);
}

/* Moves the directory `name` of dir_fd up into root_fd. */
static int move_up(int dir_fd, const char *name, int root_fd)
{
	char token[17], up[32];
	int r;

	rand_hex(token, 8);
	snprintf(up, sizeof(up), ".cove-rm-%s", token);
	r = renameat(dir_fd, name, root_fd, up) < 0 ? -errno : 0;
	if (r == -EACCES && unlock_dir(dir_fd, name) == 0)
		r = renameat(dir_fd, name, root_fd, up) < 0 ? -errno : 0;
	return r == -ENOENT ? 0 : r;
}

/* Unlinks anything but a full directory. 0: gone; 1: a directory that is not empty. */
static int unlink_one(int dir_fd, const char *name)
{
	int first;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	/* Where Landlock lets only directories go it says so before the kernel looks what it is. */
	first = errno;
	if (first != EISDIR && first != EACCES)
		return -first;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR && first == EACCES)
		return -EACCES;
	return errno == ENOTEMPTY || errno == ENOTDIR ? 1 : -errno;
}

/* Empties one directory of the root by unlinking and moving up, then removes it. What cannot go
 * does not keep the rest; the first reason is returned. */
static int flatten(int root_fd, const char *name)
{
	autoclose int fd = open_dir(root_fd, name);
	struct dirents names;
	const char *child;
	int error = 0, r;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0; /* gone, or something else by now: the next pass sees it */
	if (fd < 0)
		return fd == -EXDEV ? -EBUSY : fd;
	dirents_init(&names, fd);
	while ((r = dirents_next(&names, &child)) > 0) {
		r = unlink_one(fd, child);
		if (r > 0)
			r = move_up(fd, child, root_fd);
		if (r < 0 && error == 0)
			error = r;
	}
	if (r < 0 || error)
		return error ? error : r;
	if (unlinkat(root_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTEMPTY &&
	    errno != ENOTDIR)
		return -errno;
	return 0;
}

/* One pass over the root. Returns how many names there were. What cannot be removed is passed over,
 * so that the rest goes; *error keeps the first reason. */
static int pass(int root_fd, int *error, unsigned *ret_failed)
{
	struct dirents names;
	const char *name;
	int seen = 0, r;

	*ret_failed = 0;
	if (lseek(root_fd, 0, SEEK_SET) < 0)
		return -errno;
	dirents_init(&names, root_fd);
	while ((r = dirents_next(&names, &name)) > 0) {
		if (seen < INT32_MAX)
			seen++;
		r = unlink_one(root_fd, name);
		if (r > 0)
			r = flatten(root_fd, name);
		if (r < 0 && *error == 0)
			*error = r;
		*ret_failed += r < 0;
	}
	return r < 0 ? r : seen;
}

static int remove_dir(int dir_fd, const char *name)
{
	autoclose int root = open_dir(dir_fd, name);
	unsigned failed;
	int error = 0, r;

	if (root < 0)
		return root == -EXDEV ? -EBUSY : root;
	for (unsigned passes = 0; passes < TREE_PASSES_MAX; passes++) {
		r = pass(root, &error, &failed);
		if (r < 0)
			return r;
		if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY)
			return error ? error : -errno;
		/* Only what failed is left: another pass would fail the same way. */
		if (failed > 0 && (unsigned)r == failed)
			return error;
	}
	return error ? error : -ENOTEMPTY;
}

int tree_remove(int dir_fd, const char *name, struct err *e)
{
	int r;

	if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%s' is not one name to remove", name);
	r = unlink_one(dir_fd, name);
	if (r > 0)
		r = remove_dir(dir_fd, name);
	if (r == -ENOENT)
		return 0;
	if (r == -EBUSY)
		return err_set(
			e, ERR_CONFLICT, EBUSY,
			"cannot remove '%s': something is mounted in it; unmount it and try again",
			name);
	return r < 0 ? err_errno(e, -r, "cannot remove '%s'", name) : 0;
}

struct inside {
	int dir_fd;
	const char *name;
	struct err *e; /* in memory shared with the parent */
};

static int remove_inside(void *arg)
{
	struct inside *in = arg;

	return tree_remove(in->dir_fd, in->name, in->e) < 0;
}

int tree_remove_as(const struct ids *ids, int dir_fd, const char *name, struct err *e)
{
	struct inside in = {.dir_fd = dir_fd, .name = name};
	int r = tree_remove(dir_fd, name, e);

	/* Root may do anything, and where one id is all there is no other owns a file. */
	if (r == 0 || ids->kind != IDS_SUBORDINATE || (r != -EACCES && r != -EPERM))
		return r;
	in.e = mmap(NULL, sizeof(*in.e), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (in.e == MAP_FAILED)
		return err_errno(e, errno, "cannot remove '%s'", name);
	r = ids_run_inside(ids, remove_inside, &in, e);
	if (r > 0 && in.e->code > 0) {
		r = -in.e->code;
		if (e)
			*e = *in.e;
	} else if (r > 0) {
		r = err_set(e, ERR_INTERNAL, EIO, "cannot remove '%s': the helper ended early",
			    name);
	}
	munmap(in.e, sizeof(*in.e));
	return r;
}

/* What is needed to come back to a directory and go on reading it. */
struct tree_level {
	dev_t dev;
	ino_t ino;
	int64_t off;
};

/* One visit of every name in a tree, directories before what is in them. */
struct tree_walk {
	int fd; /* current directory, owned */
	struct dirents names;
	struct tree_level *up; /* owned */
	size_t depth, room;
	uint64_t seen;
	bool pass_closed; /* a directory that may not be read is no error */
	int (*visit)(struct tree_walk *w, const char *name, bool *ret_is_dir);
	void *arg;
};

static int walk_down(struct tree_walk *w, const char *name)
{
	int fd = open_below(w->fd, name, O_RDONLY);
	struct tree_level *grown;
	struct stat st;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
		return 0; /* gone meanwhile, or another mount: not part of this tree */
	if (fd == -EACCES && w->pass_closed)
		return 0;
	if (fd < 0)
		return fd;
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : 32;

		grown = room > TREE_DEPTH_MAX ? NULL : realloc(w->up, room * sizeof(*grown));
		if (!grown) {
			close(fd);
			return room > TREE_DEPTH_MAX ? -ELOOP : -ENOMEM;
		}
		w->up = grown;
		w->room = room;
	}
	if (fstat(w->fd, &st) < 0) {
		close(fd);
		return -errno;
	}
	w->up[w->depth++] =
		(struct tree_level){.dev = st.st_dev, .ino = st.st_ino, .off = w->names.off};
	close(w->fd);
	w->fd = fd;
	dirents_init(&w->names, fd);
	return 0;
}

static int walk_up(struct tree_walk *w)
{
	const struct tree_level *l = &w->up[--w->depth];
	int fd = openat(w->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	close(w->fd);
	w->fd = fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != l->dev || st.st_ino != l->ino)
		return -ESTALE;
	if (lseek(fd, l->off, SEEK_SET) < 0)
		return -errno;
	dirents_init(&w->names, fd);
	return 0;
}

/* Everything below w->fd, which is closed at the end. */
static int walk_all(struct tree_walk *w)
{
	const char *name;
	bool is_dir;
	int r;

	dirents_init(&w->names, w->fd);
	do {
		r = dirents_next(&w->names, &name);
		if (r == 0 && w->depth == 0)
			break;
		if (r == 0) {
			r = walk_up(w);
		} else if (r > 0 && ++w->seen > TREE_NAMES_MAX) {
			r = -E2BIG;
		} else if (r > 0) {
			is_dir = false;
			r = w->visit(w, name, &is_dir);
			if (r == 0 && is_dir)
				r = walk_down(w, name);
		}
	} while (r >= 0);
	fd_close(&w->fd);
	free(w->up);
	return r;
}

struct tree_sum {
	uint64_t bytes, files;
};

static void usage_count(struct tree_sum *u, const struct stat *st)
{
	/* A file with several names is counted in shares, so that it counts once in all. */
	uint64_t shares = S_ISDIR(st->st_mode) || st->st_nlink < 1 ? 1 : st->st_nlink;

	u->bytes += (uint64_t)st->st_blocks * 512 / shares;
	u->files++;
}

static int usage_visit(struct tree_walk *w, const char *name, bool *ret_is_dir)
{
	struct stat st;

	if (fstatat(w->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		usage_count(w->arg, &st);
		*ret_is_dir = S_ISDIR(st.st_mode);
	}
	return 0;
}

int tree_usage(int dir_fd, const char *name, uint64_t *ret_bytes, uint64_t *ret_files,
	       struct err *e)
{
	struct tree_sum u = {0};
	struct tree_walk w = {
		.fd = open_below(dir_fd, name, O_RDONLY), .visit = usage_visit, .arg = &u};
	struct stat st;
	int r = w.fd;

	if (r >= 0) {
		if (fstat(w.fd, &st) == 0)
			usage_count(&u, &st);
		r = walk_all(&w);
	}
	if (r < 0)
		return err_errno(e, -r, "cannot measure '%s'", name);
	*ret_bytes = u.bytes;
	*ret_files = u.files;
	return 0;
}

/* ---- giving files to somebody else ---- */

struct tree_giving {
	const struct tree_give *to;
	struct tree_given *given;
};

/* A file of the box's whose group is the host's: no one has rights over both here, but its owner
 * may give it another group. */
static int change_as_owner(int fd, const struct stat *st, const struct tree_give *to)
{
	int r = 0;

	if (to->kind != TREE_GIVE_MAPPED)
		return -EPERM;
	setfsgid(to->gid);
	setfsuid(st->st_uid);
	if (fchownat(fd, "", (uid_t)-1, to->gid, AT_EMPTY_PATH) < 0)
		r = -errno;
	setfsuid(0);
	setfsgid(0);
	if (r == 0 && fchownat(fd, "", to->uid, to->gid, AT_EMPTY_PATH) < 0)
		r = -errno;
	return r;
}

static bool is_given(const struct tree_give *to, uint32_t id, uint32_t own)
{
	return to->kind == TREE_GIVE_MAPPED ? id != own : id != own && share_is_box_id(id);
}

/* fd is the very file (O_PATH): what was looked at is what is changed. */
static void give_file(const struct tree_giving *g, int fd, const struct stat *st)
{
	const struct tree_give *to = g->to;
	bool uid = is_given(to, st->st_uid, to->uid), gid = is_given(to, st->st_gid, to->gid);
	int r = 0;

	/* In a map, the caller's own file with another of the caller's groups looks like this. */
	if (to->kind == TREE_GIVE_MAPPED && !uid && st->st_gid == TREE_UNMAPPED)
		gid = false;
	if (!uid && !gid)
		return;
	if (fchownat(fd, "", uid ? to->uid : (uid_t)-1, gid ? to->gid : (gid_t)-1, AT_EMPTY_PATH) <
	    0)
		r = errno == EPERM ? change_as_owner(fd, st, to) : -errno;
	if (r == 0) {
		g->given->changed++;
	} else if (to->kind != TREE_GIVE_MAPPED || st->st_uid != TREE_UNMAPPED) {
		g->given->left++;
		if (!g->given->why)
			g->given->why = -r;
	}
}

static int give_visit(struct tree_walk *w, const char *name, bool *ret_is_dir)
{
	autoclose int fd = fd_openat2(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
				      FD_BENEATH | FD_NO_MAGICLINKS | FD_NO_XDEV);
	const struct tree_giving *g = w->arg;
	struct stat st;

	if (fd == -ENOENT || fd == -EXDEV)
		return 0; /* gone meanwhile, or another mount */
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	give_file(g, fd, &st);
	*ret_is_dir = S_ISDIR(st.st_mode);
	return 0;
}

int tree_give(int dir_fd, const struct tree_give *to, struct tree_given *ret, struct err *e)
{
	struct tree_giving g = {.to = to, .given = ret};
	/* Who may do everything with a box's files cannot read this one: it is no box's. */
	struct tree_walk w = {.visit = give_visit, .arg = &g, .pass_closed = true};
	struct stat st;
	int r;

	*ret = (struct tree_given){0};
	if (fstat(dir_fd, &st) < 0)
		return err_errno(e, errno, "look at the directory");
	give_file(&g, dir_fd, &st);
	w.fd = open_below(dir_fd, ".", O_RDONLY);
	r = w.fd < 0 ? w.fd : walk_all(&w);
	if (r == -ESTALE)
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "directories were moved meanwhile: stop what uses them and say it "
			       "again");
	return r < 0 ? err_errno(e, -r, "go through the directory") : 0;
}
