/*
 * Paths of file operations.
 *
 * How it works
 *
 * The tree is the box's own and the work is done as the box's user, so a link on the way to an
 * operation's path is followed as any program inside would follow it, with one exception: the magic
 * links of /proc, which would lead through init's own descriptors. Where a new name has to appear
 * (put, move, remove) the parent directory is opened and the last name kept apart; a final link is
 * then resolved here, text by text, at most INIT_LINKS_MAX times.
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/str.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum { DIR_MODE = 0755 };

/* statfs types (linux/magic.h, which a libc of its own does not bring). */
#define PROC_MAGIC    0x9fa0
#define SYSFS_MAGIC   0x62656572
#define CGROUP_MAGIC  0x27e0eb
#define CGROUP2_MAGIC 0x63677270

int path_open(const char *path, int flags)
{
	/* openat2 refuses flags that mean nothing beside O_PATH. */
	if (!(flags & O_PATH))
		flags |= O_NONBLOCK | O_NOCTTY;
	return guest_open_at(AT_FDCWD, path, flags, FD_NO_MAGICLINKS);
}

bool path_is_program(const char *path)
{
	autoclose int fd = path_open(path, O_PATH);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

bool path_is_kernel_fs(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == PROC_MAGIC || fs.f_type == SYSFS_MAGIC || fs.f_type == CGROUP_MAGIC ||
	       fs.f_type == CGROUP2_MAGIC;
}

static int open_dir_at(int at_fd, const char *path)
{
	return guest_open_at(at_fd, path, O_PATH | O_DIRECTORY, FD_NO_MAGICLINKS);
}

/* Makes what is missing on the way. A link that leads nowhere stays an error. */
static int make_dir(int at_fd, const char *path)
{
	autoclose int fd = open_dir_at(at_fd, path[0] == '/' ? "/" : ".");
	char name[NAME_MAX + 1];

	while (fd >= 0) {
		size_t n;
		int next;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0)
			break;
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		path += n;
		next = open_dir_at(fd, name);
		if (next == -ENOENT)
			next = mkdirat(fd, name, DIR_MODE) < 0 && errno != EEXIST
				       ? -errno
				       : open_dir_at(fd, name);
		fd_close(&fd);
		fd = next;
	}
	return take_fd(fd);
}

int path_open_dir(int at_fd, const char *path, bool make)
{
	int fd = open_dir_at(at_fd, path);

	return fd == -ENOENT && make ? make_dir(at_fd, path) : fd;
}

void init_place_done(struct init_place *p)
{
	fd_close(&p->dir_fd);
}

/* Cuts text into the directory part (in place) and the last name. The name is "." where there is
 * none of its own. */
static int split(char *text, const char **ret_dir, char *ret_name)
{
	size_t len = strlen(text);
	char *slash, *name;

	while (len > 1 && text[len - 1] == '/')
		text[--len] = '\0';
	slash = strrchr(text, '/');
	name = slash ? slash + 1 : text;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		*ret_dir = text;
		str_copy(ret_name, NAME_MAX + 1, ".");
		return 0;
	}
	if (!str_copy(ret_name, NAME_MAX + 1, name))
		return -ENAMETOOLONG;
	if (slash == text)
		*ret_dir = "/";
	else
		*ret_dir = slash ? text : ".";
	if (slash && slash != text)
		*slash = '\0';
	return 0;
}

int init_place_find(const char *path, unsigned flags, struct init_place *ret)
{
	struct init_place p = PLACE_NONE;
	char text[BOX_PATH_MAX];
	const char *dir;
	ssize_t n;
	int r = 0;

	if (!*path)
		return -ENOENT;
	if (!str_copy(text, sizeof(text), path))
		return -ENAMETOOLONG;
	for (unsigned links = 0; links <= INIT_LINKS_MAX; links++) {
		int next;

		r = split(text, &dir, p.name);
		next = r < 0 ? r
			     : path_open_dir(p.dir_fd >= 0 ? p.dir_fd : AT_FDCWD, dir,
					     flags & PLACE_MAKE);
		init_place_done(&p);
		if (next < 0)
			return next;
		p.dir_fd = next;
		n = flags & PLACE_FOLLOW ? readlinkat(p.dir_fd, p.name, text, sizeof(text)) : 0;
		if (n == 0 || (n < 0 && (errno == EINVAL || errno == ENOENT))) {
			*ret = p; /* no link, or nothing yet */
			return 0;
		}
		r = n < 0 ? -errno : n == (ssize_t)sizeof(text) ? -ENAMETOOLONG : -ELOOP;
		if (n < 0 || n == (ssize_t)sizeof(text))
			break;
		text[n] = '\0';
	}
	init_place_done(&p);
	return r;
}

int init_place_beneath(int root_fd, const char *rel, struct init_place *ret)
{
	const uint64_t resolve = FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS;
	struct init_place p = PLACE_NONE;
	char text[BOX_PATH_MAX];
	const char *dir;
	int r;

	if (!str_copy(text, sizeof(text), rel))
		return -ENAMETOOLONG;
	r = split(text, &dir, p.name);
	if (r < 0)
		return r;
	p.dir_fd = guest_open_at(root_fd, dir, O_PATH | O_DIRECTORY, resolve);
	if (p.dir_fd < 0)
		return p.dir_fd;
	*ret = p;
	return 0;
}
