/* A disk that is soon full; see small_disk.h. */
#include "small_disk.h"

#include "tap.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void write_file(const char *path, const char *text)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

/* Its own ids, so that files can be made. */
static void map_ids(uid_t uid, gid_t gid)
{
	char map[32];

	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	write_file("/proc/self/gid_map", map);
}

void small_disk_mount(char ret[SMALL_DISK_PATH], unsigned mib)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char options[64];

	strcpy(ret, "/tmp/cove-small-XXXXXX");
	CHECK(mkdtemp(ret) != NULL);
	if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) < 0 && rmdir(ret) == 0)
		SKIP("no mount namespace of its own");
	if (uid != 0)
		map_ids(uid, gid);
	CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	snprintf(options, sizeof(options), "size=%um,nr_inodes=64,mode=0777", mib);
	CHECK_EQ(mount("small", ret, "tmpfs", 0, options), 0);
}

void small_disk_unmount(const char *path)
{
	CHECK_EQ(umount2(path, MNT_DETACH), 0);
	rmdir(path);
}
