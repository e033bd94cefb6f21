/*
 * Loop storage: an ext4 filesystem in a sparse file, disk.img of a box or <name>.img of a
 * workspace.
 *
 *	copy a template -> attach the one loop device of the file -> mount it, detached
 *
 * A box reaches the file only through ext4, never its bytes, so what is mounted was always written
 * by a kernel. The device detaches itself when its last mount is gone: when the box's namespace
 * dies, however it died. Two users of a workspace, or a box that is started again while its old
 * namespace is still dying, mount the same device and so share one filesystem.
 *
 * What is thrown away has no journal and no barriers: nothing of it is ever read again. Its file
 * has no name, and is still empty when the device is attached, because the kernel first writes to
 * the host's disk whatever it finds in it: the copy stays in memory, and goes with it. What is kept
 * has a journal, and space that its files leave goes back to the host (discard).
 */
#include "storage/loop.h"

#include "base/fd.h"
#include "base/limits.h"
#include "storage/ext4.h"
#include "storage/loopdev.h"
#include "storage/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define GIB_MASK ((1ull << 30) - 1)
#define TRIM_ALL 0xC0185879u /* FITRIM */
enum { LOCK_STEP_MS = 5, PATH_SIZE = 160, UNUSED_MAX = 8 << 20 };

void disk_name(const struct storage_place *p, char ret[DISK_NAME_SIZE])
{
	if (p->name)
		snprintf(ret, DISK_NAME_SIZE, "%.*s.img", (int)BOX_NAME_MAX, p->name);
	else
		snprintf(ret, DISK_NAME_SIZE, "disk.img");
}

static int loop_check(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	int r;

	if (ids->kind != IDS_RANGE)
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "a disk in a file needs root (loop devices): run as root, or use "
			       "--storage tmpfs");
	r = loopdev_check(e);
	return r < 0 ? r : ext4_check(e);
}

int disk_open(const struct storage_place *p)
{
	char name[DISK_NAME_SIZE];
	struct stat st;
	int fd;

	disk_name(p, name);
	fd = openat(p->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

/* Whoever mounts the same file waits for the other. Not the descriptor that the device gets: it
 * would hold the lock as long as it lives. */
static int disk_lock(const struct storage_place *p)
{
	autoclose int fd = disk_open(p);

	if (fd < 0)
		return take_fd(fd);
	for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (waited >= DISK_LOCK_MS)
			return -EBUSY;
		poll(NULL, 0, LOCK_STEP_MS);
	}
	return take_fd(fd);
}

static int cannot_mount(int code, const char *why, int file_fd, struct err *e)
{
	char link[32], path[PATH_SIZE];
	ssize_t n;

	if (code == ENODEV)
		return err_set(e, ERR_UNSUPPORTED, ENODEV,
			       "this kernel has no ext4: run 'modprobe ext4'");
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file_fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	return err_set(e, ERR_INTERNAL, code, "cannot mount '%s' (%.40s): run 'e2fsck -f' on it",
		       path, *why ? why : "ext4");
}

/* Mounted twice: the wall shows the first to the box with the box's ids. The second stays as it is
 * stored, for the host's own work and to see how full it is; what it is a mount of was configured
 * by the first. */
static int mount_device(const struct loopdev *dev, bool throw_away, int file_fd, struct volume *ret,
			struct err *e)
{
	static const char *const kept[] = {"noinit_itable", NULL,	 "discard", NULL,
					   "errors",	    "remount-ro"};
	static const char *const thrown[] = {"noinit_itable", NULL,	 "nobarrier", NULL,
					     "errors",	      "continue"};
	const char *options[10] = {"source", dev->path};
	char why[80];
	autoclose int mount_fd = -1, stat_fd = -1;

	memcpy(options + 2, throw_away ? thrown : kept, sizeof(kept));
	mount_fd = mount_detached("ext4", options, MOUNT_NODEV | MOUNT_NOATIME, why, sizeof(why));
	if (mount_fd < 0)
		return cannot_mount(-mount_fd, why, file_fd, e);
	options[2] = NULL;
	stat_fd = mount_detached("ext4", options,
				 MOUNT_NODEV | MOUNT_NOSUID | MOUNT_NOEXEC | MOUNT_NOATIME, why,
				 sizeof(why));
	if (stat_fd < 0)
		return cannot_mount(-stat_fd, why, file_fd, e);
	*ret = VOLUME_NONE;
	ret->ops = &storage_loop;
	ret->mount_fd = take_fd(mount_fd);
	ret->stat_fd = take_fd(stat_fd);
	ret->throw_away = throw_away;
	return 0;
}

static struct ext4_size disk_size(const struct storage_place *p, const struct storage_size *size,
				  int into_fd)
{
	struct ext4_size asked = {.bytes = size->bytes,
				  .inodes = size->inodes,
				  .journal = !size->throw_away,
				  .layer = !p->name};
	struct statfs host;

	/* Without a limit it is as large as the host's own disk. */
	if (asked.bytes == 0 && fstatfs(into_fd, &host) == 0)
		asked.bytes = ((uint64_t)host.f_blocks * (uint64_t)host.f_bsize | GIB_MASK) + 1;
	return asked;
}

int disk_make(const struct storage_place *p, const struct storage_size *size, int into_fd,
	      const char *file, struct err *e)
{
	struct ext4_size asked = disk_size(p, size, into_fd);

	return ext4_make(p->home_fd, into_fd, file, &asked, !size->throw_away, e);
}

/* Space of deleted files goes back to the host as they go, except of those that went just before
 * the disk was unmounted: that is noticed here, at the next start. Nothing is lost if it fails. */
static void give_back(int file_fd, const struct volume *v, const struct volume_usage *usage)
{
	struct {
		uint64_t start, len, min_len;
	} all = {.len = UINT64_MAX};
	autoclose int root_fd = -1;
	uint64_t taken, needed;
	struct stat st;

	if (fstat(file_fd, &st) < 0)
		return;
	taken = (uint64_t)st.st_blocks * 512;
	/* What is in files, and at most the whole of the bookkeeping. */
	needed = usage->bytes + (uint64_t)st.st_size - usage->bytes_limit;
	if (taken < needed + UNUSED_MAX)
		return;
	root_fd = openat(v->stat_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd >= 0)
		ioctl(root_fd, TRIM_ALL, &all);
}

/* Attaches a device to the file, fills it where it is still empty, and mounts it. */
static int attach(int file_fd, int from_fd, bool throw_away, struct volume *ret, struct err *e)
{
	struct volume_usage usage;
	struct loopdev dev;
	int r = loopdev_open(file_fd, throw_away, &dev, e);

	if (r < 0)
		return r;
	if (from_fd >= 0)
		r = ext4_copy(file_fd, from_fd, throw_away ? dev.fd : -1, e);
	if (r == 0)
		r = mount_device(&dev, throw_away, file_fd, ret, e);
	fd_close(&dev.fd);
	if (r < 0)
		return r;
	volume_usage(ret, &usage);
	if (!throw_away)
		give_back(file_fd, ret, &usage);
	ret->bytes = usage.bytes_limit;
	ret->inodes = usage.files_limit;
	return 0;
}

int disk_attach(struct volume *v, struct err *e)
{
	autoclose int file_fd = take_fd(v->file_fd), from_fd = take_fd(v->from_fd);

	return attach(file_fd, from_fd, v->throw_away, v, e);
}

/* A file without a name, as long as that one. A filesystem that has no such thing, or none as long,
 * says so here. */
static int open_nameless(int dir_fd, int like_fd)
{
	autoclose int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(like_fd, &st) < 0 || ftruncate(fd, st.st_size) < 0)
		return -errno;
	return take_fd(fd);
}

/* The first half of a disk that is thrown away: what it will be, as its template says. */
static int prepare(const struct storage_place *p, const struct storage_size *size,
		   struct volume *ret, struct err *e)
{
	struct ext4_size asked = disk_size(p, size, p->dir_fd);
	autoclose int from_fd = ext4_template(p->home_fd, &asked, e), file_fd = -1;
	struct ext4_counts counts;
	int r;

	if (from_fd < 0)
		return take_fd(from_fd);
	r = ext4_read_counts(from_fd, &counts);
	if (r < 0)
		return err_errno(e, -r, "read the disk's size");
	file_fd = open_nameless(p->dir_fd, from_fd);
	if (file_fd < 0)
		return file_fd == -EOPNOTSUPP || file_fd == -EISDIR
			       ? -EOPNOTSUPP
			       : err_errno(e, -file_fd, "make the disk");
	*ret = VOLUME_NONE;
	ret->ops = &storage_loop;
	ret->file_fd = take_fd(file_fd);
	ret->from_fd = take_fd(from_fd);
	ret->bytes = counts.bytes_limit;
	ret->inodes = counts.files_limit;
	ret->throw_away = true;
	return 0;
}

static int loop_open(const struct storage_place *p, const struct ids *ids,
		     const struct storage_size *size, struct volume *ret, struct err *e)
{
	char name[DISK_NAME_SIZE];
	autoclose int file_fd = disk_open(p), lock_fd = -1;
	int r;

	disk_name(p, name);
	if (file_fd == -ENOENT && size->late && size->throw_away) {
		r = prepare(p, size, ret, e);
		if (r != -EOPNOTSUPP)
			return r;
	}
	if (file_fd == -ENOENT) {
		r = disk_make(p, size, p->dir_fd, name, e);
		if (r < 0)
			return r;
		file_fd = disk_open(p);
	}
	if (file_fd < 0)
		return err_errno(e, -file_fd, "open the disk '%s'", name);
	lock_fd = size->throw_away ? -1 : disk_lock(p);
	if (!size->throw_away && lock_fd < 0)
		return err_errno(e, -lock_fd, "lock the disk '%s'", name);
	return attach(file_fd, -1, size->throw_away, ret, e);
}

static int loop_remove(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	char name[DISK_NAME_SIZE];

	disk_name(p, name);
	if (unlinkat(p->dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_errno(e, errno, "remove the disk '%s'", name);
	return 0;
}

const struct storage_ops storage_loop = {
	.name = "loop",
	.flags = STORAGE_LIMIT,
	.check = loop_check,
	.open = loop_open,
	.remove = loop_remove,
};
