/*
 * Trees as streams: unpacking; see tree_pack.h.
 *
 * One directory is open; of those above the modes and times to set when they are left are kept. The
 * tree is private while it is made, so ".." is the way back up. A file with several names is found
 * again by the path it was first made with, resolved without links below the root.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "storage/tree_pack.h"
#include "storage/tree_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

enum { ATTR_NAME_SIZE = 256 }; /* the kernel's bound, and a NUL */

struct tree_meta {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec mtime;
};

struct tree_place {
	struct tree_meta meta;
	size_t path_len; /* of the directory itself */
};

struct tree_unpacking {
	const struct tree_source *source;
	struct err *e;
	int root_fd; /* borrowed */
	int dir_fd;  /* owned */
	bool single;
	struct tree_place *places; /* owned; TREE_STREAM_DEPTH of them */
	size_t depth;
	char **linked; /* owned; paths */
	size_t linked_count, linked_cap, linked_bytes;
	char *path; /* owned; of the open directory */
	size_t path_len, path_cap;
	struct tree_packed sum;
};

static int bad(struct tree_unpacking *u, const char *what)
{
	return err_set(u->e, ERR_PROTOCOL, EBADMSG, "a packed tree has %s", what);
}

static int unpack_fail(struct tree_unpacking *u, const char *name, int code)
{
	return err_errno(u->e, code, "unpack '%.80s'", name);
}

/* ---- bytes ---- */

static int take(struct tree_unpacking *u, void *p, size_t n)
{
	return u->source->read(u->source->arg, p, n, u->e);
}

static int take_number(struct tree_unpacking *u, size_t bytes, uint64_t *ret)
{
	uint8_t raw[8] = {0};
	int r = take(u, raw, bytes);

	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret |= (uint64_t)raw[i] << 8 * i;
	return r;
}

/* NUL-terminated in ret; without a NUL of its own. */
static int take_text(struct tree_unpacking *u, char *ret, size_t size)
{
	uint64_t n;
	int r = take_number(u, 2, &n);

	if (r < 0)
		return r;
	if (n == 0 || n >= size)
		return bad(u, "a text that is too long, or empty");
	r = take(u, ret, (size_t)n);
	ret[n] = 0;
	if (r == 0 && strlen(ret) != n)
		return bad(u, "a NUL in a text");
	return r;
}

static int take_name(struct tree_unpacking *u, char ret[NAME_MAX + 1])
{
	int r = take_text(u, ret, NAME_MAX + 1);

	if (r == 0 && (strchr(ret, '/') || strcmp(ret, ".") == 0 || strcmp(ret, "..") == 0))
		return bad(u, "a name that is none");
	if (r == 0 && u->sum.files++ >= TREE_NAMES_MAX)
		return bad(u, "too many names");
	return r;
}

static int take_meta(struct tree_unpacking *u, struct tree_meta *ret)
{
	uint64_t v[5];
	static const size_t bytes[] = {4, 4, 4, 8, 4};
	int r = 0;

	for (size_t i = 0; i < 5 && r == 0; i++)
		r = take_number(u, bytes[i], &v[i]);
	if (r < 0)
		return r;
	if (v[0] > 07777 || v[4] >= 1000000000)
		return bad(u, "a mode or time that is none");
	*ret = (struct tree_meta){.mode = (mode_t)v[0],
				  .uid = (uid_t)v[1],
				  .gid = (gid_t)v[2],
				  .mtime = {.tv_sec = (time_t)v[3], .tv_nsec = (long)v[4]}};
	return 0;
}

/* ---- what an entry ends with ---- */

static int set_owner(struct tree_unpacking *u, const char *name, const struct tree_meta *m)
{
	if (u->single)
		return 0;
	return fchownat(u->dir_fd, name, m->uid, m->gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0
		       ? unpack_fail(u, name, errno)
		       : 0;
}

static mode_t mode_of(const struct tree_unpacking *u, const struct tree_meta *m)
{
	return u->single ? m->mode & 0777 : m->mode;
}

/* Of an open file or directory: after its owner, which would drop setuid bits. */
static int set_meta(struct tree_unpacking *u, int fd, const struct tree_meta *m)
{
	const struct timespec times[2] = {m->mtime, m->mtime};

	if ((!u->single && fchown(fd, m->uid, m->gid) < 0) || fchmod(fd, mode_of(u, m)) < 0 ||
	    futimens(fd, times) < 0)
		return unpack_fail(u, "its owner, mode and time", errno);
	return 0;
}

/* A filesystem without attributes, or with room for fewer or smaller ones than where they come
 * from, loses a user's, and nothing of ours. */
static bool cannot_hold(int code)
{
	return code == EOPNOTSUPP || code == ENOSPC || code == E2BIG || code == ERANGE;
}

static int take_attrs(struct tree_unpacking *u, int fd)
{
	char name[ATTR_NAME_SIZE], value[TREE_STREAM_VALUE_MAX];
	uint64_t count, n = 0;
	int r = take_number(u, 2, &count);

	while (r == 0 && count-- > 0) {
		r = take_text(u, name, sizeof(name));
		if (r == 0)
			r = take_number(u, 4, &n);
		if (r == 0 && n > sizeof(value))
			r = bad(u, "an attribute that is too large");
		if (r == 0)
			r = take(u, value, (size_t)n);
		if (r < 0)
			return r;
		if (!tree_stream_is_users(name) && !tree_stream_is_opaque(name, value, (size_t)n))
			return bad(u, "an attribute that no user sets");
		if (fsetxattr(fd, name, value, (size_t)n, 0) < 0 &&
		    !(tree_stream_is_users(name) && cannot_hold(errno)))
			return unpack_fail(u, name, errno);
	}
	return r;
}

/* ---- files with several names ---- */

/* is_there: false of one that was left out, and its other names will be. */
static int keep_link(struct tree_unpacking *u, const char *name, bool is_there)
{
	size_t size = u->path_len + strlen(name) + 2;
	char *path;

	u->linked_bytes += size - (u->path_len == 0);
	if (u->linked_count == TREE_STREAM_LINKS_MAX || u->linked_bytes > TREE_STREAM_PATHS_MAX)
		return bad(u, "too many files with several names");
	if (u->linked_count == u->linked_cap) {
		size_t cap = u->linked_cap ? 2 * u->linked_cap : 64;
		char **grown = reallocarray(u->linked, cap, sizeof(*grown));

		if (!grown)
			return unpack_fail(u, name, ENOMEM);
		u->linked = grown;
		u->linked_cap = cap;
	}
	path = is_there ? malloc(size) : NULL;
	if (is_there && !path)
		return unpack_fail(u, name, ENOMEM);
	if (is_there)
		snprintf(path, size, "%.*s%s%s", (int)u->path_len, u->path, u->path_len ? "/" : "",
			 name);
	u->linked[u->linked_count++] = path;
	return 0;
}

static int open_below(int dir_fd, const char *path, int flags)
{
	return fd_openat2(dir_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC | flags, 0,
			  FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);
}

/* In steps where the path is longer than the kernel takes one. */
static int open_linked(struct tree_unpacking *u, const char *path)
{
	autoclose int dir = -1;
	char part[PATH_MAX];

	while (strlen(path) >= sizeof(part)) {
		const char *slash = memrchr(path, '/', sizeof(part) - 1);
		int next;

		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		next = open_below(dir < 0 ? u->root_fd : dir, part, O_DIRECTORY);
		if (next < 0)
			return next;
		fd_close(&dir);
		dir = next;
		path = slash + 1;
	}
	return open_below(dir < 0 ? u->root_fd : dir, path, 0);
}

static int make_link(struct tree_unpacking *u, const char *name)
{
	char from[40];
	uint64_t number;
	int r = take_number(u, 8, &number), fd;

	if (r < 0)
		return r;
	if (number >= u->linked_count)
		return bad(u, "a second name of a file that is none");
	if (!u->linked[number]) {
		u->sum.left_out++;
		u->sum.files--;
		return 0;
	}
	fd = open_linked(u, u->linked[number]);
	if (fd < 0)
		return unpack_fail(u, name, -fd);
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	r = linkat(AT_FDCWD, from, u->dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
	close(fd);
	return r < 0 ? unpack_fail(u, name, -r) : 0;
}

/* ---- entries ---- */

/* Into fd, -1: only taken. */
static int take_data(struct tree_unpacking *u, int fd, const char *name, uint64_t *at,
		     uint64_t size)
{
	char block[TREE_STREAM_BLOCK];
	uint64_t n;
	int r = take_number(u, 4, &n);

	if (r == 0 && (n == 0 || n > sizeof(block) || n > size - *at))
		return bad(u, "a file with more than its size");
	if (r == 0)
		r = take(u, block, (size_t)n);
	if (r == 0 && fd >= 0)
		r = fd_write_full(fd, block, (size_t)n);
	if (r < 0)
		return u->e && u->e->kind ? r : unpack_fail(u, name, -r);
	*at += n;
	u->sum.bytes += n;
	return 0;
}

static int take_contents(struct tree_unpacking *u, int fd, const char *name, uint64_t size)
{
	uint64_t at = 0, n;
	char type = 0;
	int r = 0;

	while (r == 0 && (r = take(u, &type, 1)) == 0 && type != 'e') {
		if (type == 'd') {
			r = take_data(u, fd, name, &at, size);
		} else if (type == 'h') {
			r = take_number(u, 8, &n);
			if (r == 0 && n > size - at)
				r = bad(u, "a hole beyond its file");
			if (r == 0 && fd >= 0 && lseek(fd, (off_t)n, SEEK_CUR) < 0)
				r = unpack_fail(u, name, errno);
			at += r == 0 ? n : 0;
		} else {
			r = bad(u, "an unknown part of a file");
		}
	}
	return r == 0 && at != size ? bad(u, "a file with less than its size") : r;
}

/* Its size, holes and all, before its bytes: one that the file system cannot hold goes, and fd is
 * -1. */
static int begin_file(struct tree_unpacking *u, int *fd, const char *name, uint64_t size)
{
	if (size > TREE_FILE_MAX)
		return bad(u, "a file that is too large");
	if (ftruncate(*fd, (off_t)size) == 0)
		return 0;
	if (errno != EFBIG || unlinkat(u->dir_fd, name, 0) < 0)
		return unpack_fail(u, name, errno);
	fd_close(fd);
	u->sum.left_out++;
	u->sum.files--;
	return 0;
}

static int make_file(struct tree_unpacking *u, const char *name)
{
	autoclose int fd = -1;
	struct tree_meta meta;
	uint64_t linked = 0, size = 0;
	int r = take_meta(u, &meta);

	if (r < 0)
		return r;
	fd = openat(u->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return unpack_fail(u, name, errno);
	r = take_attrs(u, fd);
	if (r == 0)
		r = take_number(u, 1, &linked);
	if (r == 0)
		r = take_number(u, 8, &size);
	if (r == 0)
		r = begin_file(u, &fd, name, size);
	if (r == 0)
		r = take_contents(u, fd, name, size);
	if (r == 0 && linked)
		r = keep_link(u, name, fd >= 0);
	return r < 0 || fd < 0 ? r : set_meta(u, fd, &meta);
}

static int make_symlink(struct tree_unpacking *u, const char *name)
{
	char target[BOX_PATH_MAX];
	struct tree_meta meta;
	int r = take_meta(u, &meta);
	struct timespec times[2] = {meta.mtime, meta.mtime};

	if (r == 0)
		r = take_text(u, target, sizeof(target));
	if (r == 0 && symlinkat(target, u->dir_fd, name) < 0)
		r = unpack_fail(u, name, errno);
	if (r == 0)
		r = set_owner(u, name, &meta);
	if (r == 0 && utimensat(u->dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = unpack_fail(u, name, errno);
	return r;
}

static int make_node(struct tree_unpacking *u, const char *name, mode_t type)
{
	struct tree_meta meta;
	int r = take_meta(u, &meta);
	struct timespec times[2] = {meta.mtime, meta.mtime};

	if (r == 0 && mknodat(u->dir_fd, name, type | 0600, makedev(0, 0)) < 0)
		r = unpack_fail(u, name, errno);
	if (r == 0)
		r = set_owner(u, name, &meta);
	if (r == 0 && type == S_IFIFO &&
	    (fchmodat(u->dir_fd, name, mode_of(u, &meta), 0) < 0 ||
	     utimensat(u->dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0))
		r = unpack_fail(u, name, errno);
	return r;
}

/* ---- directories ---- */

static int grow_path(struct tree_unpacking *u, const char *name)
{
	size_t need = u->path_len + strlen(name) + 2;

	if (need > u->path_cap) {
		char *grown = realloc(u->path, 2 * need);

		if (!grown)
			return unpack_fail(u, name, ENOMEM);
		u->path = grown;
		u->path_cap = 2 * need;
	}
	u->path_len += (size_t)snprintf(u->path + u->path_len, u->path_cap - u->path_len, "%s%s",
					u->path_len ? "/" : "", name);
	return 0;
}

static int enter_dir(struct tree_unpacking *u, const char *name)
{
	struct tree_meta meta;
	size_t above = u->path_len;
	int r = take_meta(u, &meta), fd;

	if (r == 0 && u->depth == TREE_STREAM_DEPTH)
		return bad(u, "directories that are nested too deep");
	if (r == 0)
		r = grow_path(u, name);
	if (r == 0 && mkdirat(u->dir_fd, name, 0700) < 0)
		r = unpack_fail(u, name, errno);
	if (r < 0)
		return r;
	fd = openat(u->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return unpack_fail(u, name, errno);
	fd_close(&u->dir_fd);
	u->dir_fd = fd;
	u->places[u->depth++] = (struct tree_place){.meta = meta, .path_len = above};
	return take_attrs(u, fd);
}

/* ".." is opened first: afterwards it may not be allowed any more. */
static int leave_dir(struct tree_unpacking *u)
{
	autoclose int up = -1;
	int r;

	if (u->depth < 2)
		return bad(u, "a way up from its root");
	up = openat(u->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (up < 0)
		return unpack_fail(u, "..", errno);
	u->depth--;
	r = set_meta(u, u->dir_fd, &u->places[u->depth].meta);
	u->path_len = u->places[u->depth].path_len;
	fd_close(&u->dir_fd);
	u->dir_fd = take_fd(up);
	return r;
}

static int take_root(struct tree_unpacking *u)
{
	char type = 0;
	int r = take(u, &type, 1);

	if (r == 0 && type != 'R')
		r = bad(u, "no root");
	if (r == 0)
		r = take_meta(u, &u->places[0].meta);
	u->depth = 1;
	return r < 0 ? r : take_attrs(u, u->dir_fd);
}

static int take_entry(struct tree_unpacking *u, char type)
{
	char name[NAME_MAX + 1];
	int r = take_name(u, name);

	if (r < 0)
		return r;
	switch (type) {
	case 'D':
		return enter_dir(u, name);
	case 'F':
		return make_file(u, name);
	case 'H':
		return make_link(u, name);
	case 'L':
		return make_symlink(u, name);
	case 'P':
		return make_node(u, name, S_IFIFO);
	case 'W':
		return make_node(u, name, S_IFCHR);
	default:
		return bad(u, "an entry of an unknown type");
	}
}

static int unpack_all(struct tree_unpacking *u)
{
	char type = 0;
	int r = take_root(u);

	while (r == 0 && (r = take(u, &type, 1)) == 0 && type != 'Z')
		r = type == 'U' ? leave_dir(u) : take_entry(u, type);
	if (r == 0 && u->depth != 1)
		r = bad(u, "an end within a directory");
	return r < 0 ? r : set_meta(u, u->dir_fd, &u->places[0].meta);
}

int tree_unpack(int root_fd, const struct tree_source *source, bool single, struct tree_packed *ret,
		struct err *e)
{
	struct err own = {0};
	struct tree_unpacking u = {
		.source = source, .e = e ? e : &own, .root_fd = root_fd, .single = single};
	int r = 0;

	u.dir_fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	u.places = calloc(TREE_STREAM_DEPTH, sizeof(*u.places));
	if (u.dir_fd < 0 || !u.places)
		r = err_errno(u.e, u.dir_fd < 0 ? errno : ENOMEM, "unpack a tree");
	if (r == 0)
		r = unpack_all(&u);
	if (r == 0 && ret)
		*ret = u.sum;
	fd_close(&u.dir_fd);
	for (size_t i = 0; i < u.linked_count; i++)
		free(u.linked[i]);
	free(u.linked);
	free(u.places);
	free(u.path);
	return r;
}
