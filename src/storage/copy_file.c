/* One file of a copy: its bytes, and what else is kept of it; see copy_parts.h. */
#include "storage/copy_parts.h"

#include "base/fd.h"
#include "base/limits_snapshot.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define CLONE_FILE 0x40049409ul /* FICLONE */

/* ---- what is kept beside the bytes ---- */

/* Of overlay's own marks only those that mean something in a lower layer. Those of an overlay that
 * was mounted inside the box are escaped, and are the box's own. */
static bool keeps_attr(const char *name)
{
	static const char *const exact[] = {
		"user.overlay.opaque",	    "user.overlay.redirect", "user.overlay.whiteout",
		"user.overlay.whiteouts",   "security.capability",   "system.posix_acl_access",
		"system.posix_acl_default",
	};

	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++)
		if (strcmp(name, exact[i]) == 0)
			return true;
	if (str_starts(name, "user.overlay."))
		return str_starts(name, "user.overlay.overlay.");
	return str_starts(name, "user.");
}

/* Where the copy's file system has no such attribute, the box goes without, but for overlay's
 * marks: they say what is there. */
static int copy_attr(struct copy_run *c, int from_fd, int to_fd, const char *name)
{
	char *value = c->text + COPY_XATTR_MAX;
	ssize_t n = fgetxattr(from_fd, name, value, COPY_XATTR_MAX);

	if (n < 0)
		return errno == ENODATA || !str_starts(name, "user.overlay.") ? 0 : -errno;
	if (fsetxattr(to_fd, name, value, (size_t)n, 0) == 0)
		return 0;
	return errno == ENOSPC || errno == EDQUOT || str_starts(name, "user.overlay.") ? -errno : 0;
}

static int copy_attrs(struct copy_run *c, int from_fd, int to_fd)
{
	ssize_t n = flistxattr(from_fd, c->text, COPY_XATTR_MAX);
	int r = 0;

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *at = c->text; at < c->text + n && r == 0; at += strlen(at) + 1)
		if (keeps_attr(at))
			r = copy_attr(c, from_fd, to_fd, at);
	return r;
}

int copy_clear_attrs(struct copy_run *c, int to_fd)
{
	ssize_t n = flistxattr(to_fd, c->text, COPY_XATTR_MAX);

	if (n < 0)
		return errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *at = c->text; at < c->text + n; at += strlen(at) + 1)
		if (keeps_attr(at) && strcmp(at, "user.overlay.opaque") != 0 &&
		    fremovexattr(to_fd, at) < 0 && errno != ENODATA)
			return -errno;
	return 0;
}

/* The owner first: changing it takes set-user-ID bits away. The times last. */
static int copy_meta(struct copy_run *c, int from_fd, int to_fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	int r;

	/* An id that is not mapped, in a directory of the caller's own, cannot be given. */
	if (fchown(to_fd, st->st_uid, st->st_gid) < 0 && errno != EINVAL)
		return -errno;
	r = copy_attrs(c, from_fd, to_fd);
	if (r < 0)
		return r;
	if (fchmod(to_fd, st->st_mode & 07777) < 0 || futimens(to_fd, times) < 0)
		return -errno;
	return 0;
}

int copy_dir_meta(struct copy_run *c, int from_fd, int to_fd, const struct stat *st)
{
	return copy_meta(c, from_fd, to_fd, st);
}

/* ---- bytes ---- */

static bool is_no_such_call(int code)
{
	return code == EXDEV || code == EOPNOTSUPP || code == ENOTTY || code == EINVAL ||
	       code == ENOSYS || code == ETXTBSY;
}

static int count_written(struct copy_run *c, size_t n)
{
	uint64_t max = c->copy->bytes_max;

	c->written += n;
	return max && c->written > (c->kind == COPY_LIVE ? 2 * max : max) ? -EDQUOT : 0;
}

static int copy_bytes(struct copy_run *c, int from_fd, int to_fd, off_t at, off_t end)
{
	while (at < end) {
		size_t want = end - at < COPY_BUF ? (size_t)(end - at) : COPY_BUF;
		ssize_t n = pread(from_fd, c->buf, want, at);
		off_t done = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) /* cut meanwhile: the next pass sees it */
			return 0;
		if (count_written(c, (size_t)n) < 0)
			return -EDQUOT;
		while (done < n) {
			ssize_t put = pwrite(to_fd, c->buf + done, (size_t)(n - done), at + done);

			if (put < 0 && errno != EINTR)
				return -errno;
			done += put > 0 ? put : 0;
		}
		at += n;
		if (copy_tick(c) < 0)
			return -ETIMEDOUT;
	}
	return 0;
}

static int copy_range(struct copy_run *c, int from_fd, int to_fd, off_t at, off_t end)
{
	enum { STEP = 16 << 20 };

	while (at < end && !c->no_range) {
		off_t from = at, to = at;
		ssize_t n = copy_file_range(from_fd, &from, to_fd, &to,
					    end - at < STEP ? (size_t)(end - at) : STEP, 0);

		if (n < 0 && is_no_such_call(errno))
			c->no_range = true;
		else if (n < 0 && errno != EINTR)
			return -errno;
		else if (n == 0)
			return 0;
		at += n > 0 ? n : 0;
		if (n > 0 && count_written(c, (size_t)n) < 0)
			return -EDQUOT;
		if (copy_tick(c) < 0)
			return -ETIMEDOUT;
	}
	return copy_bytes(c, from_fd, to_fd, at, end);
}

/* Holes stay holes: a file may be said to be larger than any disk. */
static int copy_extents(struct copy_run *c, int from_fd, int to_fd, off_t size)
{
	off_t at = 0;
	int r = 0;

	if (ftruncate(to_fd, size) < 0)
		return -errno;
	while (at < size && r == 0) {
		off_t data = lseek(from_fd, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			return 0;
		if (data < 0)
			return errno == EINVAL ? copy_range(c, from_fd, to_fd, at, size) : -errno;
		hole = lseek(from_fd, data, SEEK_HOLE);
		if (hole < 0)
			return errno == ENXIO ? 0 : -errno;
		r = copy_range(c, from_fd, to_fd, data, hole < size ? hole : size);
		at = hole;
	}
	return r;
}

static int copy_data(struct copy_run *c, int from_fd, int to_fd, const struct stat *st)
{
	if (st->st_size == 0)
		return 0;
	if (!c->no_clone) {
		if (ioctl(to_fd, CLONE_FILE, from_fd) == 0)
			return 0;
		if (!is_no_such_call(errno))
			return -errno;
		c->no_clone = true;
	}
	c->counts.moved_bytes += (uint64_t)st->st_blocks * 512;
	if (st->st_size <= COPY_BUF && st->st_blocks > 0)
		return copy_bytes(c, from_fd, to_fd, 0, st->st_size);
	return copy_extents(c, from_fd, to_fd, st->st_size);
}

/* ---- one name ---- */

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* It is opened without waiting for anything, and looked at once more: what had the name before may
 * be something else by now. */
static int copy_regular(struct copy_run *c, const char *name, const struct stat *seen,
			struct stat *ret_st)
{
	autoclose int from_fd =
		openat(c->from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	autoclose int to_fd = -1;
	struct stat st;
	int r;

	if (from_fd < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : -errno;
	if (fstat(from_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_ino != seen->st_ino)
		return 0;
	to_fd = openat(c->to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to_fd < 0)
		return -errno;
	r = copy_data(c, from_fd, to_fd, &st);
	if (r == 0)
		r = copy_meta(c, from_fd, to_fd, &st);
	if (r < 0)
		return r;
	*ret_st = st;
	return 1;
}

static int copy_link(struct copy_run *c, const char *name)
{
	ssize_t n = readlinkat(c->from, name, c->buf, COPY_BUF - 1);

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : -errno;
	c->buf[n] = 0;
	return symlinkat(c->buf, c->to, name) < 0 ? -errno : 1;
}

/* What is made by its name alone. */
static int copy_node(struct copy_run *c, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	int r = 1;

	if (S_ISLNK(st->st_mode))
		r = copy_link(c, name);
	else if (S_ISFIFO(st->st_mode))
		r = mkfifoat(c->to, name, 0600) < 0 ? -errno : 1;
	else
		r = mknodat(c->to, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 1;
	if (r <= 0)
		return r;
	if (fchownat(c->to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno != EINVAL)
		return -errno;
	if (!S_ISLNK(st->st_mode) && fchmodat(c->to, name, st->st_mode & 07777, 0) < 0)
		return -errno;
	return utimensat(c->to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 1;
}

int copy_one(struct copy_run *c, const char *name, const struct stat *st, struct stat *ret_st)
{
	*ret_st = *st;
	if (S_ISREG(st->st_mode))
		return copy_regular(c, name, st, ret_st);
	if (S_ISLNK(st->st_mode) || S_ISFIFO(st->st_mode) || is_whiteout(st))
		return copy_node(c, name, st);
	c->counts.left_out++;
	/* Nothing shows through that it hid. */
	return c->kind == COPY_OVER ? copy_node(c, name, st) : 0;
}
