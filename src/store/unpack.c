/*
 * Unpacking; see unpack.h.
 *
 * How it works
 *
 * The tar reader calls us with entries whose paths are clean. An entry is made relative to its
 * parent directory, which is opened with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS: a path through a
 * link that an earlier entry planted is refused, wherever it leads. The parent of the last entry
 * stays open, as tars list a directory's files together. A later entry replaces an earlier one of
 * the same name, but never a directory that has something in it.
 *
 * Modes and times of directories are set at the end: making files changes times, and a directory
 * may be read-only. A directory that the stream only implies belongs to root and is of 1970, so
 * that the same stream always makes the same tree.
 *
 * A whiteout is made like a file; what its own layer has in its place stays, and a directory there
 * is marked opaque instead. So is one that comes after its whiteout.
 */
#include "store/unpack.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/sha.h"
#include "base/str.h"
#include "store/layer_tar.h"
#include "store/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

enum { READ_BYTES = 256 << 10 };

#define INSIDE (FD_BENEATH | FD_NO_SYMLINKS)

/* What is set once an entry's content is there. */
struct attrs {
	unsigned mode, uid, gid;
	struct timespec mtime;
};

struct dir_todo {
	struct dir_todo *next;
	struct attrs attrs;
	char path[];
};

struct unpack {
	int root_fd;   /* borrowed */
	int parent_fd; /* owned; of the directory named parent, -1 if none */
	char parent[TAR_NAME_MAX + 1];
	int file_fd; /* owned; the file being written */
	struct attrs file;
	struct dir_todo *dirs, **dirs_end; /* owned, in the order of the stream */
	size_t dirs_bytes;
	const struct unpack_how *how; /* borrowed */
	bool single;
	struct unpack_result *result;
};

/* A path for a sentence: escaped, and cut. */
static const char *show(char dst[120], const char *path)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	if (str_escape(&b, path, strlen(path)) < 0 || !buf_cstr(&b))
		str_copy(dst, 120, "?");
	else
		str_copy(dst, 120, buf_cstr(&b));
	buf_done(&b);
	return dst;
}

static int fail(struct err *e, int code, const char *path)
{
	char shown[120];

	if (code == ELOOP || code == EXDEV)
		return err_set(
			e, ERR_INVALID, EBADMSG,
			"the tar stream has an entry that goes through a symbolic link: '%s'",
			show(shown, path));
	if (code == ENOTDIR || code == ENOTEMPTY || code == EISDIR)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the tar stream has a file and a directory of the same name: '%s'",
			       show(shown, path));
	return err_errno(e, code, "unpack '%s'", show(shown, path));
}

/* ---- attributes ---- */

static struct attrs attrs_of(const struct tar_entry *entry, bool single)
{
	struct attrs a = {entry->mode,
			  entry->uid,
			  entry->gid,
			  {(time_t)entry->mtime_s, (long)entry->mtime_ns}};

	if (!single)
		return a;
	/* Without root inside no one could get past a directory that its owner may not use. */
	a.mode &= 01777;
	if (entry->type == TAR_DIR)
		a.mode |= 0700;
	return a;
}

/* chown first: it drops setuid bits. */
static int set_attrs(int fd, const struct attrs *a, bool single)
{
	struct timespec times[2] = {a->mtime, a->mtime};

	if (!single && fchown(fd, a->uid, a->gid) < 0)
		return -errno;
	if (fchmod(fd, a->mode) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int remember_dir(struct unpack *u, const char *path, const struct attrs *attrs)
{
	size_t n = strlen(path) + 1;
	struct dir_todo *d;

	if (u->dirs_bytes + sizeof(*d) + n > UNPACK_DIRS_MAX)
		return -E2BIG;
	d = malloc(sizeof(*d) + n);
	if (!d)
		return -ENOMEM;
	d->next = NULL;
	d->attrs = *attrs;
	memcpy(d->path, path, n);
	*u->dirs_end = d;
	u->dirs_end = &d->next;
	u->dirs_bytes += sizeof(*d) + n;
	return 0;
}

/* ---- whiteouts ---- */

static bool is_whiteout(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(0, 0);
}

/* Hides what layers below have in the directory. */
static int mark_opaque(int dir_fd, const char *name)
{
	autoclose int fd = fd_openat2(dir_fd, name, O_RDONLY | O_DIRECTORY, 0, INSIDE);

	if (fd < 0)
		return fd;
	return fsetxattr(fd, LAYER_OPAQUE_XATTR, "y", 1, 0) < 0 ? -errno : 0;
}

/* A directory where the same layer has a whiteout. 1: there was none. */
static int replace_whiteout(int dir_fd, const char *name)
{
	if (!is_whiteout(dir_fd, name))
		return 1;
	if (unlinkat(dir_fd, name, 0) < 0 || mkdirat(dir_fd, name, 0755) < 0)
		return -errno;
	return mark_opaque(dir_fd, name);
}

/* ---- parents ---- */

/* A directory that no entry has named yet. */
static int make_implied(struct unpack *u, int dir_fd, const char *name, const char *path)
{
	static const struct attrs implied = {.mode = 0755};
	int r = 0;

	if (mkdirat(dir_fd, name, 0755) < 0) {
		if (errno != EEXIST)
			return -errno;
		r = replace_whiteout(dir_fd, name);
	}
	return r == 0 ? remember_dir(u, path, &implied) : r;
}

/* Opens the directory path, part by part, making what is missing. */
static int make_dirs(struct unpack *u, char *path)
{
	autoclose int fd = -1;

	for (char *name = path, *next; name; name = next) {
		int at = fd >= 0 ? fd : u->root_fd, child;

		next = strchr(name, '/');
		if (next)
			*next = 0;
		child = make_implied(u, at, name, path);
		if (child >= 0)
			child = fd_openat2(at, name, O_PATH | O_DIRECTORY, 0, INSIDE);
		if (next)
			*next++ = '/';
		if (child < 0)
			return child;
		fd_close(&fd);
		fd = child;
	}
	return take_fd(fd);
}

/* The descriptor of the directory that an entry is in, borrowed, and the entry's own name. */
static int find_parent(struct unpack *u, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	int fd;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return u->root_fd;
	if (u->parent_fd >= 0 && strlen(u->parent) == n && memcmp(u->parent, path, n) == 0)
		return u->parent_fd;
	fd_close(&u->parent_fd);
	memcpy(u->parent, path, n);
	u->parent[n] = 0;
	fd = fd_openat2(u->root_fd, u->parent, O_PATH | O_DIRECTORY, 0, INSIDE);
	if (fd == -ENOENT || fd == -ENOTDIR)
		fd = make_dirs(u, u->parent);
	if (fd < 0)
		return fd;
	u->parent_fd = fd;
	return fd;
}

/* Makes room for an entry that comes a second time. */
static int clear_name(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int finish_dirs(struct unpack *u, struct err *e)
{
	for (struct dir_todo *d = u->dirs; d; d = d->next) {
		const char *path = *d->path ? d->path : ".";
		autoclose int fd = fd_openat2(u->root_fd, path, O_RDONLY | O_DIRECTORY, 0, INSIDE);
		int r;

		/* A later entry may have replaced it. */
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			continue;
		r = fd < 0 ? fd : set_attrs(fd, &d->attrs, u->single);
		if (r < 0)
			return fail(e, -r, d->path);
	}
	return 0;
}

/* ---- entries ---- */

static int make_file(struct unpack *u, int dir_fd, const char *name, const struct tar_entry *entry)
{
	enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
	int fd = openat(dir_fd, name, FLAGS, 0600), r;

	if (fd < 0 && errno == EEXIST) {
		r = clear_name(dir_fd, name);
		if (r < 0)
			return r;
		fd = openat(dir_fd, name, FLAGS, 0600);
	}
	if (fd < 0)
		return -errno;
	u->file_fd = fd;
	u->file = attrs_of(entry, u->single);
	return 0;
}

static int make_dir(struct unpack *u, int dir_fd, const char *name, const struct tar_entry *entry)
{
	struct attrs a = attrs_of(entry, u->single);
	struct stat st;
	int r;

	if (mkdirat(dir_fd, name, 0700) < 0) {
		if (errno != EEXIST)
			return -errno;
		r = replace_whiteout(dir_fd, name);
		if (r < 0)
			return r;
		if (r > 0 && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (r > 0 && !S_ISDIR(st.st_mode)) {
			r = clear_name(dir_fd, name);
			if (r < 0)
				return r;
			if (mkdirat(dir_fd, name, 0700) < 0)
				return -errno;
		}
	}
	return remember_dir(u, entry->path, &a);
}

static int make_symlink(struct unpack *u, int dir_fd, const char *name,
			const struct tar_entry *entry)
{
	struct attrs a = attrs_of(entry, u->single);
	struct timespec times[2] = {a.mtime, a.mtime};
	int r = clear_name(dir_fd, name);

	if (r < 0)
		return r;
	if (symlinkat(entry->target, dir_fd, name) < 0)
		return -errno;
	if (!u->single && fchownat(dir_fd, name, a.uid, a.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Only to a file or a link (itself, not where it leads) that this stream made: the tree was empty
 * before. */
static int make_hardlink(struct unpack *u, int dir_fd, const char *name,
			 const struct tar_entry *entry, struct err *e)
{
	char shown[120], parent[TAR_NAME_MAX + 1];
	const char *slash = strrchr(entry->target, '/');
	struct stat st;
	int r;

	str_copy(parent, sizeof(parent), slash ? entry->target : ".");
	if (slash)
		parent[slash - entry->target] = 0;
	autoclose int fd = fd_openat2(u->root_fd, parent, O_PATH | O_DIRECTORY, 0, INSIDE);
	slash = slash ? slash + 1 : entry->target;
	if (fd < 0 || fstatat(fd, slash, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
		return err_set(
			e, ERR_INVALID, EBADMSG,
			"the tar stream has a hard link to something that is no file in it: '%s'",
			show(shown, entry->target));
	if (strcmp(entry->target, entry->path) == 0)
		return 0;
	r = clear_name(dir_fd, name);
	if (r == 0 && linkat(fd, slash, dir_fd, name, 0) < 0)
		r = -errno;
	return r < 0 ? fail(e, -r, entry->path) : 0;
}

static int make_fifo(struct unpack *u, int dir_fd, const char *name, const struct tar_entry *entry)
{
	struct attrs a = attrs_of(entry, u->single);
	struct timespec times[2] = {a.mtime, a.mtime};
	int r = clear_name(dir_fd, name);

	if (r < 0)
		return r;
	if (mknodat(dir_fd, name, S_IFIFO | 0600, 0) < 0)
		return -errno;
	if (!u->single && fchownat(dir_fd, name, a.uid, a.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	/* It is a FIFO and no link: the tree is ours alone. */
	if (fchmodat(dir_fd, name, a.mode, 0) < 0)
		return -errno;
	return utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int bad_mark(struct err *e, const char *what, const char *path)
{
	char shown[120];

	return err_set(e, ERR_INVALID, EBADMSG, "the tar stream has %s: '%s'", what,
		       show(shown, path));
}

/* `.wh.NAME` or `.wh..wh..opq` in dir_fd. */
static int make_whiteout(struct unpack *u, int dir_fd, const char *name,
			 const struct tar_entry *entry, struct err *e)
{
	const char *hidden = name + strlen(LAYER_WHITEOUT);
	struct stat st;
	int r;

	if (entry->type != TAR_FILE || entry->size > 0)
		return bad_mark(e, "a whiteout that is no empty file", entry->path);
	if (strcmp(name, LAYER_OPAQUE) == 0) {
		if (name == entry->path)
			return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
				       "the layer hides all that is below it ('" LAYER_OPAQUE
				       "' in its root): overlay cannot do that");
		r = mark_opaque(dir_fd, ".");
		return r < 0 ? fail(e, -r, entry->path) : 0;
	}
	if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0 ||
	    str_starts(hidden, LAYER_WHITEOUT))
		return bad_mark(e, "a whiteout of something that is no name", entry->path);
	if (fstatat(dir_fd, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = S_ISDIR(st.st_mode) ? mark_opaque(dir_fd, hidden) : 0;
	else
		r = mknodat(dir_fd, hidden, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
	return r < 0 ? fail(e, -r, entry->path) : 0;
}

/* 1: the entry is a whiteout. */
static int check_marks(const struct unpack *u, const struct tar_entry *entry, struct err *e)
{
	for (const char *part = entry->path; part;) {
		const char *slash = strchr(part, '/');

		if (str_starts(part, LAYER_WHITEOUT)) {
			if (u->how->kind == UNPACK_LAYER && !slash)
				return 1;
			return bad_mark(e,
					slash ? "a directory that is named like a whiteout"
					      : "a whiteout, which only layers have",
					entry->path);
		}
		part = slash ? slash + 1 : NULL;
	}
	return 0;
}

static int count_entry(struct unpack *u, const struct tar_entry *entry, struct err *e)
{
	uint64_t max = u->how->bytes_max ? u->how->bytes_max : LAYER_BYTES_MAX;

	u->result->files++;
	u->result->bytes += entry->size;
	if (entry->size <= max && u->result->bytes <= max)
		return 0;
	return err_set(e, ERR_LIMIT, EFBIG,
		       "its files hold more than %llu MiB; --max-size allows more",
		       (unsigned long long)max >> 20);
}

static int on_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	struct unpack *u = arg;
	const char *name;
	int dir_fd, mark, r = 0;

	if (!*entry->path) {
		struct attrs a = attrs_of(entry, u->single);

		r = remember_dir(u, "", &a);
		return r < 0 ? fail(e, -r, "/") : 0;
	}
	mark = check_marks(u, entry, e);
	if (mark < 0)
		return mark;
	if (entry->type == TAR_OTHER) {
		u->result->skipped++;
		return 0;
	}
	dir_fd = find_parent(u, entry->path, &name);
	if (dir_fd < 0)
		return fail(e, -dir_fd, entry->path);
	if (mark)
		return make_whiteout(u, dir_fd, name, entry, e);
	r = count_entry(u, entry, e);
	if (r < 0)
		return r;
	switch (entry->type) {
	case TAR_FILE:
		r = make_file(u, dir_fd, name, entry);
		break;
	case TAR_DIR:
		r = make_dir(u, dir_fd, name, entry);
		break;
	case TAR_SYMLINK:
		r = make_symlink(u, dir_fd, name, entry);
		break;
	case TAR_HARDLINK:
		return make_hardlink(u, dir_fd, name, entry, e);
	case TAR_FIFO:
		r = make_fifo(u, dir_fd, name, entry);
		break;
	case TAR_OTHER:
		break;
	}
	return r < 0 ? fail(e, -r, entry->path) : 0;
}

static int on_data(void *arg, const void *p, size_t n, struct err *e)
{
	struct unpack *u = arg;
	int r = fd_write_full(u->file_fd, p, n);

	return r < 0 ? err_errno(e, -r, "write a file of the image") : 0;
}

static int on_entry_end(void *arg, struct err *e)
{
	struct unpack *u = arg;
	int r = 0;

	if (u->file_fd >= 0)
		r = set_attrs(u->file_fd, &u->file, u->single);
	fd_close(&u->file_fd);
	return r < 0 ? err_errno(e, -r, "set owner and mode of a file of the image") : 0;
}

static const struct tar_ops unpack_ops = {on_entry, on_data, on_entry_end};

/* ---- the stream ---- */

static int read_stream(int tar_fd, struct tar *t, const struct unpack_how *how,
		       struct unpack_result *result, struct err *e)
{
	static const char digits[] = "0123456789abcdef";
	autofree uint8_t *block = malloc(READ_BYTES);
	struct sha hash;
	uint8_t sum[32];
	ssize_t n;
	int r = 0;

	if (!block)
		return err_errno(e, ENOMEM, "read the tar stream");
	sha256_init(&hash);
	if (how->head_len > 0) {
		sha_add(&hash, how->head, how->head_len);
		r = tar_feed(t, how->head, how->head_len, e);
	}
	while (r == 0 && (n = fd_read_full(tar_fd, block, READ_BYTES)) != 0) {
		if (n < 0)
			return err_errno(e, (int)-n, "read the tar stream");
		sha_add(&hash, block, (size_t)n);
		r = tar_feed(t, block, (size_t)n, e);
	}
	if (r == 0)
		r = tar_finish(t, e);
	sha_end(&hash, sum);
	for (size_t i = 0; i < sizeof(sum); i++) {
		result->id[2 * i] = digits[sum[i] >> 4];
		result->id[2 * i + 1] = digits[sum[i] & 15];
	}
	result->id[64] = 0;
	return r;
}

static void unpack_done(struct unpack *u)
{
	fd_close(&u->parent_fd);
	fd_close(&u->file_fd);
	while (u->dirs) {
		struct dir_todo *d = u->dirs;

		u->dirs = d->next;
		free(d);
	}
}

int unpack_stream(int tar_fd, int root_fd, const struct unpack_how *how, struct unpack_result *ret,
		  struct err *e)
{
	static const struct attrs implied = {.mode = 0755};
	struct unpack u = {.root_fd = root_fd,
			   .parent_fd = -1,
			   .file_fd = -1,
			   .how = how,
			   .single = how->single,
			   .result = ret};
	struct tar t;
	int r;

	u.dirs_end = &u.dirs;
	memset(ret, 0, sizeof(*ret));
	tar_init(&t, &unpack_ops, &u);
	t.guarded = how->guarded;
	r = remember_dir(&u, "", &implied);
	r = r < 0 ? fail(e, -r, "/") : read_stream(tar_fd, &t, how, ret, e);
	if (r == 0)
		r = finish_dirs(&u, e);
	tar_done(&t);
	unpack_done(&u);
	return r;
}
