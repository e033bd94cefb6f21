/* The descriptor-based mount calls; see mount.h. */
#include "guest/mount.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TREE_CLONE	1u
#define TREE_RECURSIVE	0x8000u /* AT_RECURSIVE */
#define EMPTY_PATH	0x1000u /* AT_EMPTY_PATH */
#define ATTR_IDMAP	0x100000u
#define MOVE_FROM_EMPTY 0x4u
#define MOVE_TO_EMPTY	0x40u
#define FS_SET_FLAG	0u
#define FS_SET_STRING	1u
#define FS_CREATE	6u
#define FS_CLOEXEC	1u

int mount_clone(int dir_fd, const char *path, bool recursive)
{
	unsigned flags = TREE_CLONE | O_CLOEXEC | EMPTY_PATH | (recursive ? TREE_RECURSIVE : 0);
	long fd = syscall(SYS_open_tree, dir_fd, path, flags);

	return fd < 0 ? -errno : (int)fd;
}

int mount_set(int fd, uint64_t attrs, int idmap_ns)
{
	struct {
		uint64_t set, clear, propagation, userns_fd;
	} a = {.set = attrs, .propagation = MS_PRIVATE};

	if (idmap_ns >= 0) {
		a.set |= ATTR_IDMAP;
		a.userns_fd = (uint64_t)idmap_ns;
	}
	/* What came to a shared copy before this call is below it, and is held as well. */
	if (syscall(SYS_mount_setattr, fd, "", EMPTY_PATH | TREE_RECURSIVE, &a, sizeof(a)) < 0)
		return -errno;
	return 0;
}

int mount_new(const char *type, const char *const *options, uint64_t attrs)
{
	autoclose int fs = (int)syscall(SYS_fsopen, type, FS_CLOEXEC);
	long fd;

	if (fs < 0)
		return -errno;
	for (; options && options[0]; options += 2)
		if (syscall(SYS_fsconfig, fs, options[1] ? FS_SET_STRING : FS_SET_FLAG, options[0],
			    options[1], 0) < 0)
			return -errno;
	if (syscall(SYS_fsconfig, fs, FS_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = syscall(SYS_fsmount, fs, FS_CLOEXEC, attrs);
	return fd < 0 ? -errno : (int)fd;
}

int mount_here(const char *type, const char *place, unsigned long flags, const char *options)
{
	return mount(type, place, type, flags, options) < 0 ? -errno : 0;
}

int mount_read_only_here(const char *place)
{
	unsigned long hold = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

	if (mount(place, place, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | hold, NULL) < 0)
		return -errno;
	return 0;
}

int mount_attach(int fd, int dir_fd, const char *path)
{
	unsigned flags = MOVE_FROM_EMPTY | (path[0] ? 0 : MOVE_TO_EMPTY);

	return syscall(SYS_move_mount, fd, "", dir_fd, path, flags) < 0 ? -errno : 0;
}

int mount_pivot_here(void)
{
	struct stat here, above;

	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
	    chdir("/") < 0 || stat("/", &here) < 0 || stat("/..", &above) < 0)
		return -errno;
	/* Everything rests on this, so it is looked at: above the root there is only the root. */
	return here.st_dev == above.st_dev && here.st_ino == above.st_ino ? 0 : -EXDEV;
}
