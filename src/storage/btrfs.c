/* btrfs by ioctl; see btrfs.h. The kernel's structures stand here: musl brings no linux/btrfs.h. */
#include "storage/btrfs.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

enum {
	FIRST_OBJECT = 256,
	SNAP_READ_ONLY = 2,
	QUOTA_SIMPLE = 4, /* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA */
	LIMIT_REFERENCED = 1,
};

struct vol_args {
	int64_t fd;
	char name[4088];
};

struct vol_args_v2 {
	int64_t fd;
	uint64_t transid, flags, unused[4];
	char name[4040];
};

struct lookup_args {
	uint64_t treeid, objectid;
	char name[4080];
};

struct fs_info {
	uint64_t max_id, num_devices;
	uint8_t fsid[16];
	uint8_t rest[992];
};

struct quota_ctl {
	uint64_t cmd, status;
};

struct qgroup_make {
	uint64_t create, qgroupid;
};

struct qgroup_limit {
	uint64_t qgroupid; /* 0: of the subvolume that is asked */
	uint64_t flags, max_referenced, max_exclusive, reserved[2];
};

#define FS_SYNC	       _IO(0x94, 8)
#define SUBVOL_CREATE  _IOW(0x94, 14, struct vol_args)
#define SNAP_DESTROY   _IOW(0x94, 15, struct vol_args)
#define INO_LOOKUP     _IOWR(0x94, 18, struct lookup_args)
#define SNAP_CREATE_V2 _IOW(0x94, 23, struct vol_args_v2)
#define FS_INFO	       _IOR(0x94, 31, struct fs_info)
#define QUOTA_CTL      _IOWR(0x94, 40, struct quota_ctl)
#define QGROUP_CREATE  _IOW(0x94, 42, struct qgroup_make)
#define QGROUP_LIMIT   _IOR(0x94, 43, struct qgroup_limit)

_Static_assert(sizeof(struct vol_args) == 4096, "as the kernel has it");
_Static_assert(sizeof(struct vol_args_v2) == 4096, "as the kernel has it");
_Static_assert(sizeof(struct lookup_args) == 4096, "as the kernel has it");
_Static_assert(sizeof(struct fs_info) == 1024, "as the kernel has it");
_Static_assert(sizeof(struct qgroup_limit) == 48, "as the kernel has it");

bool btrfs_is(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type == BTRFS_MAGIC;
}

static int by_name(int dir_fd, const char *name, uint32_t command)
{
	struct vol_args a = {0};

	if (!str_copy(a.name, sizeof(a.name), name))
		return -ENAMETOOLONG;
	return ioctl(dir_fd, (int)command, &a) < 0 ? -errno : 0;
}

int btrfs_subvol_make(int dir_fd, const char *name)
{
	return by_name(dir_fd, name, SUBVOL_CREATE);
}

int btrfs_subvol_remove(int dir_fd, const char *name)
{
	return by_name(dir_fd, name, SNAP_DESTROY);
}

int btrfs_subvol_id(int subvol_fd, uint64_t *ret)
{
	struct lookup_args a = {.objectid = FIRST_OBJECT};

	if (ioctl(subvol_fd, INO_LOOKUP, &a) < 0)
		return -errno;
	*ret = a.treeid;
	return 0;
}

int btrfs_snapshot(int subvol_fd, int dir_fd, const char *name)
{
	struct vol_args_v2 a = {.fd = subvol_fd, .flags = SNAP_READ_ONLY};

	if (!str_copy(a.name, sizeof(a.name), name))
		return -ENAMETOOLONG;
	return ioctl(dir_fd, SNAP_CREATE_V2, &a) < 0 ? -errno : 0;
}

int btrfs_clean(int fd)
{
	return ioctl(fd, FS_SYNC, NULL) < 0 ? -errno : 0;
}

static bool is_simple(int fd)
{
	char path[BTRFS_SYS_PATH + 8], dir[BTRFS_SYS_PATH];
	autofree char *mode = NULL;

	if (btrfs_quota_path(fd, dir) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/mode", dir);
	return fd_read_file(AT_FDCWD, path, 64, &mode, NULL) == 0 && str_starts(mode, "squota");
}

/* An older kernel takes the number for no command of its own (EINVAL). */
int btrfs_quota_on(int fd)
{
	struct quota_ctl a = {.cmd = QUOTA_SIMPLE};
	int r = ioctl(fd, QUOTA_CTL, &a) < 0 ? -errno : 0;

	if (is_simple(fd))
		return 0;
	return r < 0 && r != -EINVAL && r != -ENOTTY ? r : -EOPNOTSUPP;
}

int btrfs_quota_limit(int subvol_fd, uint64_t bytes)
{
	struct qgroup_limit a = {
		.flags = LIMIT_REFERENCED,
		.max_referenced = bytes ? bytes : UINT64_MAX, /* which the kernel takes as none */
	};

	return ioctl(subvol_fd, QGROUP_LIMIT, &a) < 0 ? -errno : 0;
}

int btrfs_quota_forget(int fd, uint64_t subvol_id)
{
	struct qgroup_make a = {.qgroupid = subvol_id};

	return ioctl(fd, QGROUP_CREATE, &a) < 0 ? -errno : 0;
}

int btrfs_quota_path(int fd, char ret[BTRFS_SYS_PATH])
{
	struct fs_info info = {0};
	const uint8_t *u = info.fsid;

	if (ioctl(fd, FS_INFO, &info) < 0)
		return -errno;
	snprintf(ret, BTRFS_SYS_PATH,
		 "/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x"
		 "%02x/qgroups",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		 u[13], u[14], u[15]);
	return 0;
}
