/* A disk that is soon full; see small_disk.h. */
#include "small_disk.h"

#include "tap.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

void small_disk_mount(char ret[SMALL_DISK_PATH], unsigned mib)
{
	bool root = geteuid() == 0;
	uid_t uid = geteuid();
	char map[32], options[64];
	int fd;

	strcpy(ret, "/tmp/cove-small-XXXXXX");
	CHECK(mkdtemp(ret) != NULL);
	if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) < 0 && rmdir(ret) == 0)
		SKIP("no mount namespace of its own");
	fd = root ? -1 : open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	if (!root)
		CHECK_EQ(fd_write_full(fd, map, strlen(map)), 0);
	fd_close(&fd);
	CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	snprintf(options, sizeof(options), "size=%um,nr_inodes=64,mode=0777", mib);
	CHECK_EQ(mount("small", ret, "tmpfs", 0, options), 0);
}

void small_disk_unmount(const char *path)
{
	CHECK_EQ(umount2(path, MNT_DETACH), 0);
	rmdir(path);
}
