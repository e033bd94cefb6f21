/* What init is given of the host; see init_fds.h. */
#include "wall/native/init_fds.h"

#include "base/fd.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

size_t init_fds_list(const struct cgroup *cg, struct init_fd ret[INIT_FDS_MAX], bool *ret_untold)
{
	/* On v2 the limit is the box's, so its own count is the one that tells; before Linux 6.11
	 * the one of the command's group does, which init reads itself. */
	const struct init_fd all[INIT_FDS_MAX] = {
		{.option = "--cgroup", .dir_fd = cg->work_fd, .take = true},
		{.option = "--memory-v1", .dir_fd = cg->v1_work_fd[CGROUP_MEMORY]},
		{.option = "--io-v1", .dir_fd = cg->v1_work_fd[CGROUP_IO]},
		{.option = "--pids-events",
		 .dir_fd = cg->group_fd[CGROUP_PIDS],
		 .file = "pids.events"},
	};
	size_t count = 0;

	*ret_untold = false;
	for (size_t i = 0; i < INIT_FDS_MAX; i++) {
		if (all[i].dir_fd < 0)
			continue;
		if (all[i].file && faccessat(all[i].dir_fd, all[i].file, R_OK, 0) < 0) {
			*ret_untold = true;
			continue;
		}
		ret[count] = all[i];
		ret[count++].fd = -1;
	}
	return count;
}

int init_fd_find(struct init_fd *g, struct err *e)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", g->dir_fd);
	n = readlink(link, g->path, sizeof(g->path));
	if (n < 0 || n == sizeof(g->path))
		return err_errno(e, n < 0 ? errno : ENAMETOOLONG, "find the box's cgroup");
	g->path[n] = 0;
	return 0;
}

static int clone_same(const struct init_fd *g)
{
	autoclose int fd = mount_clone(AT_FDCWD, g->path, false);
	struct stat a, b;

	if (fd < 0)
		return fd;
	if (fstat(fd, &a) < 0 || fstat(g->dir_fd, &b) < 0)
		return -errno;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? take_fd(fd) : -ESTALE;
}

int init_fd_open(struct init_fd *g, struct err *e)
{
	autoclose int fd = -1;
	int r;

	fd = g->path[0] ? clone_same(g) : mount_clone(g->dir_fd, "", false);
	r = fd < 0 ? fd : mount_set(fd, MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);
	if (r < 0)
		return err_errno(e, -r, "detach the box's cgroup from the host's (open_tree)");
	if (!g->file) {
		g->fd = take_fd(fd);
		return 0;
	}
	g->fd = openat(fd, g->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	/* It stays open until this process ends: to let go of a detached mount is to wait for all
	 * processors of the machine. */
	(void)take_fd(fd);
	return g->fd < 0 ? err_errno(e, errno, "open %s of the box's cgroup", g->file) : 0;
}

void init_fd_take(const struct init_fd *g)
{
	if (!g->take || faccessat(g->dir_fd, "cgroup.procs", W_OK, 0) == 0)
		return;
	/* Both, and the right to move processes in from the group above, or none is of use. */
	if (fchown(g->dir_fd, 0, 0) == 0 && fchownat(g->dir_fd, "cgroup.procs", 0, 0, 0) == 0 &&
	    fchownat(g->dir_fd, "../cgroup.procs", 0, 0, 0) == 0)
		return;
}
