/* What init is given of the host; see given.h. */
#include "wall/native/given.h"

#include "base/fd.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int given_find(struct given *g, const struct wall_given *from, struct err *e)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", from->fd);
	n = readlink(link, g->path, sizeof(g->path));
	if (n < 0 || n == sizeof(g->path))
		return err_errno(e, n < 0 ? errno : ENAMETOOLONG, "find the box's cgroup");
	g->path[n] = 0;
	return 0;
}

static int clone_same(const struct given *g, int dir_fd)
{
	autoclose int fd = mount_clone(AT_FDCWD, g->path, false);
	struct stat a, b;

	if (fd < 0)
		return fd;
	if (fstat(fd, &a) < 0 || fstat(dir_fd, &b) < 0)
		return -errno;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? take_fd(fd) : -ESTALE;
}

int given_open(struct given *g, const struct wall_given *from, struct err *e)
{
	autoclose int fd = -1;
	int r;

	fd = g->path[0] ? clone_same(g, from->fd) : mount_clone(from->fd, "", false);
	r = fd < 0 ? fd : mount_set(fd, MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);
	if (r < 0)
		return err_errno(e, -r, "detach the box's cgroup from the host's (open_tree)");
	if (!from->file) {
		g->fd = take_fd(fd);
		return 0;
	}
	g->fd = openat(fd, from->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return g->fd < 0 ? err_errno(e, errno, "open %s of the box's cgroup", from->file) : 0;
}

void given_take(const struct wall_given *from)
{
	if (!from->take || faccessat(from->fd, "cgroup.procs", W_OK, 0) == 0)
		return;
	/* Both, and the right to move processes in from the group above, or none is of use. */
	if (fchown(from->fd, 0, 0) == 0 && fchownat(from->fd, "cgroup.procs", 0, 0, 0) == 0 &&
	    fchownat(from->fd, "../cgroup.procs", 0, 0, 0) == 0)
		return;
}
