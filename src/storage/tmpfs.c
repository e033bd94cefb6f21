/*
 * Storage in memory: the wall makes the tmpfs inside the box, where it counts as the box's memory
 * and is gone when the box stops. Here it is only found out whether the kernel can do it.
 *
 * A box's overlay is mounted in its user namespace, root's too, so its upper layer needs extended
 * attributes that an ordinary user may set ("user."); tmpfs has them from Linux 6.6 on. Without
 * them a directory of the image that was removed cannot be made again (EIO). The version is not
 * asked, the thing itself is tried.
 */
#include "storage/storage.h"

#include "base/fd.h"
#include "base/limits.h"
#include "storage/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>

enum { BYTES_PER_INODE = 8192 };

static int try_xattr(void *arg)
{
	const char *const options[] = {"size", "65536", NULL};
	autoclose int fd = mount_detached("tmpfs", options, MOUNT_NODEV | MOUNT_NOSUID, NULL, 0);
	autoclose int root = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return 2;
	return root < 0 || fsetxattr(root, "user.cove", "1", 1, 0) < 0;
}

static int tmpfs_check(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	/* One id is enough to find out, and needs no other program to be mapped. */
	const struct ids single = {
		.kind = IDS_SINGLE, .caller_uid = getuid(), .caller_gid = getgid()};
	int r;

	r = ids_run_inside(&single, try_xattr, NULL, e);
	if (r == 1)
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "this kernel's tmpfs cannot hold a box's writes: use Linux 6.6 or "
			       "later (with CONFIG_TMPFS_XATTR), or another --storage");
	if (r > 1)
		return err_set(e, ERR_UNSUPPORTED, EPERM,
			       "a tmpfs cannot be mounted in a user namespace here: see `cove "
			       "doctor`");
	return r;
}

static int tmpfs_open(const struct storage_place *p, const struct ids *ids,
		      const struct storage_size *size, struct volume *ret, struct err *e)
{
	*ret = VOLUME_NONE;
	ret->ops = &storage_tmpfs;
	ret->bytes = size->bytes;
	ret->inodes = size->inodes;
	/* What an empty file takes of the kernel's memory is not among a tmpfs's bytes: the number
	 * of files is bounded as it is on a disk of that size. */
	if (!size->inodes && size->bytes)
		ret->inodes = size->bytes / BYTES_PER_INODE < DISK_INODES_MIN
				      ? DISK_INODES_MIN
				      : size->bytes / BYTES_PER_INODE;
	return 0;
}

/* Nothing of it is on disk. */
static int tmpfs_remove(const struct storage_place *p, const struct ids *ids, struct err *e)
{
	return 0;
}

const struct storage_ops storage_tmpfs = {
	.name = "tmpfs",
	.flags = STORAGE_LIMIT | STORAGE_MEMORY,
	.check = tmpfs_check,
	.open = tmpfs_open,
	.remove = tmpfs_remove,
};
