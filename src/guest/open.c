/*
 * Opening paths of the box where the kernel lacks openat2; see open.h.
 *
 * How it works
 *
 * The path is walked one name at a time, each opened relative to the directory before it and
 * without following a link; links are read and their text walked in their place, INIT_LINKS_MAX of
 * them at most. A link of /proc is ordinary only in the root of /proc (self, mounts): any other
 * stands for an open descriptor or a process's place, and is refused. What stays in a root is
 * walked only where that is this process's own, which no `..` leaves, whoever renames what.
 */
#include "guest/open.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { PROC_MAGIC = 0x9fa0, PROC_ROOT_INO = 1 };

struct walk_state {
	char rest[2 * BOX_PATH_MAX]; /* of the path */
	uint64_t resolve;
	unsigned links;
	uint64_t mount; /* that it began on: mount_of */
	int fd;		/* owned; where it stands */
};

/* Its number, or where /proc tells none that of the device, which is another for most mounts. */
static uint64_t mount_of(int fd)
{
	char path[40], text[256], *at = NULL;
	autoclose int info = -1;
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (n > 0) {
		text[n] = '\0';
		at = strstr(text, "mnt_id:");
	}
	if (at)
		return strtoull(at + strlen("mnt_id:"), NULL, 10);
	return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_dev;
}

/* Stands where a path begins: at the root, or where it stood. */
static int stand(struct walk_state *w)
{
	if (w->rest[0] == '/') {
		if (w->resolve & FD_BENEATH)
			return -EXDEV;
		fd_close(&w->fd);
		w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (w->fd < 0)
		return -errno;
	if (!(w->resolve & FD_NO_XDEV))
		return 0;
	if (w->links == 0)
		w->mount = mount_of(w->fd);
	return mount_of(w->fd) == w->mount ? 0 : -EXDEV;
}

/* Puts the text of the link `name` before the rest of the path. */
static int follow(struct walk_state *w, const char *name)
{
	char text[2 * BOX_PATH_MAX];
	struct statfs fs;
	struct stat st;
	ssize_t n;

	if (w->resolve & FD_NO_SYMLINKS || w->links++ >= INIT_LINKS_MAX)
		return -ELOOP;
	if (fstatfs(w->fd, &fs) < 0 || fstat(w->fd, &st) < 0)
		return -errno;
	if (fs.f_type == PROC_MAGIC && st.st_ino != PROC_ROOT_INO)
		return -ELOOP;
	n = readlinkat(w->fd, name, text, BOX_PATH_MAX);
	if (n < 0)
		return -errno;
	if (n == 0 || n >= (ssize_t)BOX_PATH_MAX)
		return n == 0 ? -ENOENT : -ENAMETOOLONG;
	text[n] = '\0';
	if (!str_copy(text + n, sizeof(text) - (size_t)n, w->rest) ||
	    !str_copy(w->rest, sizeof(w->rest), text))
		return -ENAMETOOLONG;
	return stand(w);
}

/* Cuts the next name off. False if there is none. */
static bool next_name(struct walk_state *w, char name[NAME_MAX + 1], int *ret_error)
{
	size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

	*ret_error = n > NAME_MAX ? -ENAMETOOLONG : 0;
	if (n == 0 || n > NAME_MAX)
		return false;
	memcpy(name, w->rest + skip, n);
	name[n] = '\0';
	memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
	return true;
}

static int walk_open(struct walk_state *w, int flags)
{
	char name[NAME_MAX + 1];
	struct stat st;
	int r = stand(w), fd;

	while (r == 0 && next_name(w, name, &r)) {
		bool last = w->rest[strspn(w->rest, "/")] == '\0';
		bool is_dir = !last || w->rest[0] == '/';

		if (w->resolve & FD_BENEATH && strcmp(name, "..") == 0)
			return -EXDEV;
		if (fstatat(w->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISLNK(st.st_mode) && (is_dir || !(flags & O_NOFOLLOW))) {
			r = follow(w, name);
			continue;
		}
		fd = openat(w->fd, name,
			    (last ? flags : O_PATH) | (is_dir ? O_DIRECTORY : 0) | O_NOFOLLOW |
				    O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (w->resolve & FD_NO_XDEV && mount_of(fd) != w->mount) {
			close(fd);
			return -EXDEV;
		}
		if (last)
			return fd;
		fd_close(&w->fd);
		w->fd = fd;
	}
	if (r < 0)
		return r;
	/* It is the directory where the walk stands: "/", or a link to it. */
	fd = openat(w->fd, ".", flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int guest_open_at(int dir_fd, const char *path, int flags, uint64_t resolve)
{
	int r = fd_openat2(dir_fd, path, flags, 0, resolve);
	struct walk_state w = {.resolve = resolve, .fd = -1};
	struct stat own, asked;

	if (r != -ENOSYS)
		return r;
	if (!path[0])
		return -ENOENT;
	if (!str_copy(w.rest, sizeof(w.rest), path))
		return -ENAMETOOLONG;
	w.fd = dir_fd == AT_FDCWD ? open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)
				  : fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	if (w.fd < 0)
		return -errno;
	if (resolve & FD_IN_ROOT && (stat("/", &own) < 0 || fstat(dir_fd, &asked) < 0 ||
				     own.st_dev != asked.st_dev || own.st_ino != asked.st_ino))
		r = -ENOSYS;
	else
		r = walk_open(&w, flags);
	fd_close(&w.fd);
	return r;
}

/* True if one was closed. Those that /proc lists after a close may be skipped: look again. */
static bool close_listed(DIR *dir, unsigned first)
{
	bool closed = false;
	struct dirent *d;
	uint64_t fd;

	rewinddir(dir);
	while ((d = readdir(dir)))
		if (str_parse_u64(d->d_name, INT_MAX, &fd) && fd >= first && (int)fd != dirfd(dir))
			closed = close((int)fd) == 0 || closed;
	return closed;
}

int guest_close_from(unsigned first)
{
	struct rlimit files;
	int r = sys_close_range(first, ~0u, 0);
	DIR *dir;

	if (r != -ENOSYS && r != -EINVAL) /* an old gVisor's takes no last one that large */
		return r;
	dir = opendir("/proc/self/fd");
	if (dir) {
		while (close_listed(dir, first))
			continue;
		closedir(dir);
		return 0;
	}
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	for (unsigned fd = first; fd < files.rlim_max && fd < INT_MAX; fd++)
		close((int)fd);
	return 0;
}

void guest_open_check(char *notes, size_t size)
{
	size_t at = strlen(notes);

	/* There is no such name, and a kernel that has the call says that. */
	if (fd_openat2(AT_FDCWD, "", O_PATH, 0, 0) == -ENOSYS)
		snprintf(notes + at, size - at,
			 "no openat2: paths are resolved step by step, and where /proc does not "
			 "tell mounts apart their devices do\n");
}
