/*
 * COPY, ADD and WORKDIR in a tree; see build_copy.h.
 *
 * A directory's own content is copied, not the directory. A file goes to the destination, or into
 * it where that is a directory or ends with a slash. What is there is replaced, but a directory is
 * never replaced by something else, nor something else by a directory.
 */
#include "core/build_copy.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/path.h"
#include "base/str.h"
#include "core/build_add.h"
#include "store/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSIDE (FD_IN_ROOT | FD_NO_MAGICLINKS)
#define BELOW  (FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS)

static int fail(struct err *e, int code, const char *path)
{
	char shown[120];
	struct buf b;

	buf_init(&b, 1 << 16);
	str_copy(shown, sizeof(shown),
		 str_escape(&b, path, strlen(path)) == 0 && buf_cstr(&b) ? buf_cstr(&b) : "?");
	buf_done(&b);
	if (code == EFBIG)
		return err_set(e, ERR_LIMIT, code,
			       "'%s': there is no room for it in what the build's layers may hold "
			       "together: give it more with --disk",
			       shown);
	if (code == ENOTDIR || code == EISDIR || code == ENOTEMPTY || code == EEXIST)
		return err_set(e, ERR_INVALID, code,
			       "'%s': a directory and something that is none cannot take each "
			       "other's place",
			       shown);
	if (code == ECANCELED)
		return err_set(e, ERR_INTERRUPTED, ECANCELED, "interrupted");
	return err_errno(e, code, "copy to '%s'", shown);
}

/* ---- where it goes ---- */

/* Whose something new is. */
static int own(const struct build_copy *c, int fd, const struct stat *st)
{
	uid_t uid = c->has_owner ? c->uid : c->keeps_owners && st ? st->st_uid : 0;
	gid_t gid = c->has_owner ? c->gid : c->keeps_owners && st ? st->st_gid : 0;

	return c->single || fchownat(fd, "", uid, gid, AT_EMPTY_PATH) == 0 ? 0 : -errno;
}

int build_copy_dirs(const struct build_copy *c, const char *path)
{
	autoclose int fd = fd_openat2(c->root_fd, ".", O_RDONLY | O_DIRECTORY, 0, INSIDE);
	char at[BOX_PATH_MAX];
	size_t len = 0;

	while (fd >= 0 && *(path += strspn(path, "/"))) {
		size_t n = strcspn(path, "/");
		int next;

		if (len + n + 2 > sizeof(at))
			return -ENAMETOOLONG;
		at[len++] = '/';
		memcpy(at + len, path, n);
		len += n;
		at[len] = 0;
		path += n;
		next = fd_openat2(c->root_fd, at, O_RDONLY | O_DIRECTORY, 0, INSIDE);
		if (next == -ENOENT) {
			const char *name = strrchr(at, '/') + 1;
			int r;

			if (mkdirat(fd, name, 0755) < 0)
				return -errno;
			next = fd_openat2(c->root_fd, at, O_RDONLY | O_DIRECTORY, 0, INSIDE);
			r = next < 0 ? next : own(c, next, NULL);
			if (r < 0) {
				fd_close(&next);
				return r;
			}
		}
		fd_close(&fd);
		fd = next;
	}
	return take_fd(fd);
}

/* ---- what is made there ---- */

static int copy_range(struct build_copy *c, int from, int to, off_t at, off_t end)
{
	enum { BLOCK = 1 << 18, STEP = 64 << 20 };
	bool by_kernel = true;
	autofree char *block = NULL;

	while (at < end) {
		size_t want = end - at < STEP ? (size_t)(end - at) : STEP;
		off_t there = at, here = at;
		ssize_t n = -1;

		if (fd_is_cancelled(c->source.cancel_fd))
			return -ECANCELED;
		if (c->bytes + want > c->bytes_max)
			return -EFBIG;
		if (by_kernel) {
			n = copy_file_range(from, &there, to, &here, want, 0);
			by_kernel = n > 0;
		}
		if (!by_kernel) {
			if (!block && !(block = malloc(BLOCK)))
				return -ENOMEM;
			n = pread(from, block, want < BLOCK ? want : BLOCK, at);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return -errno;
			if (n > 0 && (lseek(to, at, SEEK_SET) < 0 ||
				      fd_write_full(to, block, (size_t)n) < 0))
				return -errno;
		}
		if (n == 0)
			return 0;
		at += n;
		c->bytes += (uint64_t)n;
	}
	return 0;
}

/* Holes stay holes: who made them paid for none of their bytes. */
static int copy_bytes(struct build_copy *c, int from, int to)
{
	off_t at = lseek(from, 0, SEEK_DATA), end;
	struct stat st;
	int r = 0;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	if (at < 0 && errno == EINVAL) /* no holes are known here */
		return copy_range(c, from, to, 0, st.st_size);
	while (r == 0 && at >= 0 && at < st.st_size) {
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = copy_range(c, from, to, at, end < st.st_size ? end : st.st_size);
		at = lseek(from, end, SEEK_DATA);
	}
	return r < 0 || at >= 0 || errno == ENXIO ? r : -errno;
}

/* Makes room for a name. */
static int clear(int dir_fd, const char *name)
{
	return unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Owner first: a change of it drops setuid bits. */
static int finish(struct build_copy *c, int fd, const struct stat *st)
{
	struct timespec times[2] = {st->st_mtim, st->st_mtim};
	mode_t mode = c->step->mode >= 0 ? (mode_t)c->step->mode : st->st_mode & 07777;
	int r = own(c, fd, st);

	if (c->single)
		mode = (mode & 01777) | (S_ISDIR(st->st_mode) ? 0700 : 0);
	if (r == 0 && (fchmod(fd, mode) < 0 || futimens(fd, times) < 0))
		r = -errno;
	return r;
}

static int put_file(struct build_copy *c, int dir_fd, const char *name,
		    const struct build_found *found)
{
	autoclose int from = build_source_open(found), to = -1;
	int r = from < 0 ? from : clear(dir_fd, name);

	if (r < 0)
		return r;
	to = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_bytes(c, from, to);
	return r < 0 ? r : finish(c, to, found->st);
}

static int put_link(struct build_copy *c, int dir_fd, const char *name,
		    const struct build_found *found)
{
	struct timespec times[2] = {found->st->st_mtim, found->st->st_mtim};
	char target[BOX_PATH_MAX];
	ssize_t n = readlinkat(found->dir_fd, found->name, target, sizeof(target) - 1);
	autoclose int fd = -1;
	int r = n < 0 ? -errno : clear(dir_fd, name);

	if (r < 0)
		return r;
	target[n] = 0;
	if (symlinkat(target, dir_fd, name) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : own(c, fd, found->st);
	if (r == 0 && utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static int put_fifo(struct build_copy *c, int dir_fd, const char *name, const struct stat *st)
{
	autoclose int fd = -1;
	mode_t mode = c->step->mode >= 0 ? (mode_t)c->step->mode : st->st_mode & 07777;
	int r = clear(dir_fd, name);

	if (r < 0)
		return r;
	if (mkfifoat(dir_fd, name, mode) < 0)
		return -errno;
	fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : own(c, fd, st);
}

/* One that is there keeps what it is, as Docker has it; a new one is as its source. */
static int put_dir(struct build_copy *c, int dir_fd, const char *name, const struct stat *st)
{
	autoclose int fd = -1;

	if (mkdirat(dir_fd, name, 0700) < 0)
		return errno == EEXIST ? 1 : -errno;
	fd = fd_openat2(dir_fd, name, O_RDONLY | O_DIRECTORY, 0, BELOW);
	return fd < 0 ? fd : finish(c, fd, st);
}

static int put_one(struct build_copy *c, int dir_fd, const char *name,
		   const struct build_found *found, struct err *e)
{
	mode_t kind = found->st->st_mode & S_IFMT;
	struct stat have;
	int r;

	if (str_starts(name, LAYER_WHITEOUT))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s': a name that begins with '" LAYER_WHITEOUT
			       "' means in layers that a file was removed; rename it",
			       name);
	if (kind == S_IFREG)
		r = put_file(c, dir_fd, name, found);
	else if (kind == S_IFLNK)
		r = put_link(c, dir_fd, name, found);
	else if (kind == S_IFIFO)
		r = put_fifo(c, dir_fd, name, found->st);
	else if (kind == S_IFDIR)
		r = put_dir(c, dir_fd, name, found->st);
	else
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "'%.100s' is a device or a socket, which no layer holds; leave it "
			       "out (.dockerignore)",
			       *found->path ? found->path : name);
	if (r > 0) {
		if (fstatat(dir_fd, name, &have, AT_SYMLINK_NOFOLLOW) < 0)
			r = -errno;
		else
			r = S_ISDIR(have.st_mode) ? 0 : -ENOTDIR;
	}
	return r < 0 ? fail(e, -r, *found->path ? found->path : name) : 0;
}

/* ---- one source ---- */

struct copy_target {
	struct build_copy *c;
	int dir_fd;		  /* of the destination */
	const char *name;	  /* of the source itself there; NULL: it is the directory */
	char above[BOX_PATH_MAX]; /* below dir_fd: the directory that is open */
	int above_fd;		  /* owned; -1: none is */
};

/* The directory that a thing below the source is in, borrowed. */
static int find_above(struct copy_target *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (n == 0)
		return t->dir_fd;
	if (n >= sizeof(t->above))
		return -ENAMETOOLONG;
	if (t->above_fd >= 0 && strlen(t->above) == n && memcmp(t->above, path, n) == 0)
		return t->above_fd;
	fd_close(&t->above_fd);
	memcpy(t->above, path, n);
	t->above[n] = 0;
	t->above_fd = fd_openat2(t->dir_fd, t->above, O_RDONLY | O_DIRECTORY, 0, BELOW);
	return t->above_fd;
}

static int on_found(void *arg, const struct build_found *found, struct err *e)
{
	struct copy_target *t = arg;
	int fd;

	if (!*found->path) {
		/* A directory is its content; the destination may be there already. */
		if (S_ISDIR(found->st->st_mode))
			return 0;
		return put_one(t->c, t->dir_fd, t->name, found, e);
	}
	fd = find_above(t, found->path);
	if (fd < 0)
		return fail(e, -fd, found->path);
	return put_one(t->c, fd, path_base(found->path), found, e);
}

/* The destination of one file: a directory, and the name in it. */
static int open_place(struct build_copy *c, const char *source, char ret_name[NAME_MAX + 1],
		      int *ret_fd)
{
	const char *dest = c->step->dest;
	char path[BOX_PATH_MAX], *slash;
	struct stat st;
	autoclose int have = -1;

	str_copy(path, sizeof(path), dest);
	have = fd_openat2(c->root_fd, path, O_PATH, 0, INSIDE);
	if (path[strlen(path) - 1] == '/' ||
	    (have >= 0 && fstat(have, &st) == 0 && S_ISDIR(st.st_mode))) {
		if (!str_copy(ret_name, NAME_MAX + 1, path_base(source)))
			return -ENAMETOOLONG;
	} else {
		slash = strrchr(path, '/');
		if (!str_copy(ret_name, NAME_MAX + 1, slash + 1))
			return -ENAMETOOLONG;
		slash[slash == path] = 0;
	}
	*ret_fd = build_copy_dirs(c, path);
	return *ret_fd < 0 ? *ret_fd : 0;
}

/* A new directory for the content of one is as that is. */
static int open_dir_place(struct build_copy *c, const struct stat *st)
{
	autoclose int have = fd_openat2(c->root_fd, c->step->dest, O_PATH, 0, INSIDE), fd = -1;
	int r;

	fd = build_copy_dirs(c, c->step->dest);
	if (fd < 0 || have >= 0)
		return take_fd(fd);
	r = finish(c, fd, st);
	return r < 0 ? r : take_fd(fd);
}

static int copy_one(struct build_copy *c, const char *source, struct err *e)
{
	autoclose int fd = fd_openat2(c->source.root_fd, source, O_PATH, 0, INSIDE), dir = -1;
	struct copy_target t = {.c = c, .above_fd = -1};
	char name[NAME_MAX + 1];
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "'%.120s' is not there", source);
	if (c->step->unpack && S_ISREG(st.st_mode)) {
		r = build_add_archive(c, source, e);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (S_ISDIR(st.st_mode))
		r = dir = open_dir_place(c, &st);
	else
		r = open_place(c, source, name, &dir);
	if (r < 0)
		return fail(e, -r, c->step->dest);
	t.dir_fd = dir;
	t.name = name;
	r = build_source_walk(&c->source, source, on_found, &t, e);
	fd_close(&t.above_fd);
	return r;
}

/* ---- heredocs ---- */

static int put_text(struct build_copy *c, const char *name, const char *text, struct err *e)
{
	autoclose int dir = -1, to = -1;
	char place[NAME_MAX + 1];
	mode_t mode = c->step->mode >= 0 ? (mode_t)c->step->mode : 0644;
	int r = open_place(c, name, place, &dir);

	if (r == 0)
		r = clear(dir, place);
	if (r < 0)
		return fail(e, -r, c->step->dest);
	to = openat(dir, place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = to < 0 ? -errno : fd_write_full(to, text, strlen(text));
	if (r == 0)
		r = own(c, to, NULL);
	if (r == 0 && fchmod(to, c->single ? mode & 01777 : mode) < 0)
		r = -errno;
	return r < 0 ? fail(e, -r, place) : 0;
}

/* ---- the steps ---- */

int build_copy_run(struct build_copy *c, struct err *e)
{
	const struct build_step *s = c->step;
	int r = 0;

	if (s->chown) {
		r = build_owner_find(c->root_fd, s->chown, &c->uid, &c->gid, e);
		c->has_owner = true;
	}
	for (size_t i = 0; i < s->file_names.count && r == 0; i++)
		r = put_text(c, s->file_names.list[i], s->file_texts.list[i], e);
	for (size_t i = 0; i < s->sources.count && r == 0; i++) {
		struct build_words found = {0};

		r = build_source_find(&c->source, s->sources.list[i], &found, e);
		if (r == 0 && found.count > 1 && s->dest[strlen(s->dest) - 1] != '/')
			r = err_set(e, ERR_INVALID, EINVAL,
				    "'%.80s' is more than one file: write '%.80s/'",
				    s->sources.list[i], s->dest);
		for (size_t k = 0; k < found.count && r == 0; k++)
			r = copy_one(c, found.list[k], e);
		build_words_done(&found);
	}
	return r;
}

int build_copy_workdir(struct build_copy *c, const char *user, struct err *e)
{
	autoclose int fd = fd_openat2(c->root_fd, c->step->dest, O_PATH | O_DIRECTORY, 0, INSIDE);
	int r = 0;

	if (fd >= 0)
		return 0;
	if (user) {
		r = build_owner_find(c->root_fd, user, &c->uid, &c->gid, e);
		c->has_owner = r == 0;
	}
	if (r < 0)
		return r;
	fd = build_copy_dirs(c, c->step->dest);
	return fd < 0 ? fail(e, -fd, c->step->dest) : 0;
}
