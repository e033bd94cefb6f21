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
 * What is thrown away has no journal and no barriers: nothing of it is ever read again. What is
 * kept has a journal, and space that its files leave goes back to the host (discard).
 */
#include "storage/storage.h"

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
#include <sys/stat.h>
#include <sys/statfs.h>

#define BOX_DISK "disk.img"
enum { LOCK_STEP_MS = 5, DISK_NAME_SIZE = BOX_NAME_MAX + 8 };

static void disk_name(const struct storage_place *p, char ret[DISK_NAME_SIZE])
{
	if (p->name)
		snprintf(ret, DISK_NAME_SIZE, "%.*s.img", (int)BOX_NAME_MAX, p->name);
	else
		snprintf(ret, DISK_NAME_SIZE, BOX_DISK);
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

static int open_file(const struct storage_place *p, const char *name)
{
	int fd = openat(p->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

/* Whoever mounts the same file waits for the other. Not the descriptor that the device gets: it
 * would hold the lock as long as it lives. */
static int lock_file(const struct storage_place *p, const char *name)
{
	autoclose int fd = open_file(p, name);

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

static int mount_device(const struct loopdev *dev, bool throw_away, const char *name, struct err *e)
{
	static const char *const kept[] = {"noinit_itable", NULL,	 "discard", NULL,
					   "errors",	    "remount-ro"};
	static const char *const thrown[] = {"noinit_itable", NULL,	 "nobarrier", NULL,
					     "errors",	      "continue"};
	const char *options[10] = {"source", dev->path};
	char why[120];
	int fd;

	memcpy(options + 2, throw_away ? thrown : kept, sizeof(kept));
	fd = mount_detached("ext4", options, MOUNT_NODEV | MOUNT_NOATIME, why, sizeof(why));
	if (fd >= 0)
		return fd;
	if (fd == -ENODEV)
		return err_set(e, ERR_UNSUPPORTED, ENODEV,
			       "this kernel has no ext4: run 'modprobe ext4'");
	return err_set(e, ERR_INTERNAL, -fd,
		       "cannot mount the disk '%s' (%.80s): look at it with 'e2fsck -f', or remove "
		       "it",
		       name, why);
}

static int open_mounted(int file_fd, const char *name, bool throw_away, struct volume *ret,
			struct err *e)
{
	autoclose int mount_fd = -1, root_fd = -1;
	struct loopdev dev;
	int r = loopdev_open(file_fd, throw_away, &dev, e);

	if (r < 0)
		return r;
	mount_fd = mount_device(&dev, throw_away, name, e);
	fd_close(&dev.fd);
	if (mount_fd < 0)
		return mount_fd;
	root_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return err_errno(e, errno, "open the disk '%s'", name);
	*ret = VOLUME_NONE;
	ret->ops = &storage_loop;
	ret->throw_away = throw_away;
	ret->mount_fd = take_fd(mount_fd);
	ret->stat_fd = take_fd(root_fd);
	return 0;
}

static int loop_open(const struct storage_place *p, const struct ids *ids,
		     const struct storage_size *size, struct volume *ret, struct err *e)
{
	char name[DISK_NAME_SIZE];
	autoclose int file_fd = -1, lock_fd = -1;
	struct volume_usage usage;
	int r;

	disk_name(p, name);
	file_fd = open_file(p, name);
	if (file_fd == -ENOENT) {
		r = ext4_make(p->home_fd, p->dir_fd, name,
			      &(struct ext4_size){.bytes = size->bytes,
						  .inodes = size->inodes,
						  .journal = !size->throw_away,
						  .layer = !p->name},
			      !size->throw_away, e);
		if (r < 0 && r != -EEXIST)
			return r;
		file_fd = open_file(p, name);
	}
	if (file_fd < 0)
		return err_errno(e, -file_fd, "open the disk '%s'", name);
	lock_fd = size->throw_away ? -1 : lock_file(p, name);
	if (!size->throw_away && lock_fd < 0)
		return err_errno(e, -lock_fd, "lock the disk '%s'", name);
	r = open_mounted(file_fd, name, size->throw_away, ret, e);
	if (r < 0)
		return r;
	volume_usage(ret, &usage);
	ret->bytes = usage.bytes_limit;
	ret->inodes = usage.files_limit;
	return 0;
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
