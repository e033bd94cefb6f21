/* A state directory with a pool in a file, in a mount namespace of the test's own: whatever
 * happens, nothing of it is left mounted. */
#pragma once

#include "disk_rig.h"
#include "storage/pool.h"

#include <sched.h>
#include <sys/mount.h>

enum { POOL_MIB = 1 << 20 };

static inline void pool_unmount(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/pool", home_path);
	umount2(path, MNT_DETACH);
}

static void pool_end(void)
{
	if (getpid() == home_owner)
		pool_unmount();
}

/* Skips, and says why, where there is no root, no btrfs or no simple quotas. */
static inline void pool_need(uint64_t bytes)
{
	if (geteuid() != 0)
		SKIP("a pool needs root");
	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	home_open(&home);
	atexit(pool_end);
	if (pool_setup(home.home_fd, bytes, &why) == 0)
		return;
	if (why.kind != ERR_UNSUPPORTED)
		FAIL(why.msg);
	home_remove();
	SKIP(why.msg);
}

static inline struct volume pool_volume(const struct storage_place *p, uint64_t bytes)
{
	struct volume v = VOLUME_NONE;

	if (storage_pool.open(p, &root_ids, &(struct storage_size){.bytes = bytes}, &v, &why) < 0)
		FAIL(why.msg);
	return v;
}

static inline uint64_t pool_volumes(void)
{
	struct pool_info info;

	CHECK_EQ(pool_look(home.home_fd, &info, &why), 0);
	return info.volumes;
}
