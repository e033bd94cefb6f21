/* Giving a tree's files away: only a box's, through no link, into no other mount. */
#include "tap.h"

#include "base/fd.h"
#include "storage/share.h"
#include "storage/tree.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char base[64];
static int base_fd, tree_fd;

static const struct tree_give to = {.kind = TREE_GIVE_RANGES, .uid = 500, .gid = 600};

static void give_to(const char *name, uid_t uid, gid_t gid)
{
	CHECK_EQ(fchownat(base_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW), 0);
}

static void touch(const char *name, uid_t uid, gid_t gid)
{
	int fd = openat(base_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	close(fd);
	give_to(name, uid, gid);
}

static void check_owner(const char *name, uid_t uid, gid_t gid)
{
	struct stat st;

	CHECK_EQ(fstatat(base_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_EQ(st.st_uid, uid);
	CHECK_EQ(st.st_gid, gid);
}

static void setup(void)
{
	if (getuid() != 0)
		SKIP("needs root: files of other users are made");
	snprintf(base, sizeof(base), "/tmp/cove-give-XXXXXX");
	CHECK(mkdtemp(base) != NULL);
	base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(base_fd >= 0);
	CHECK_EQ(mkdirat(base_fd, "tree", 0755), 0);
	CHECK_EQ(mkdirat(base_fd, "outside", 0755), 0);
	touch("outside/keep", SHARE_FIRST, SHARE_FIRST);
	tree_fd = openat(base_fd, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(tree_fd >= 0);
}

static void finish(void)
{
	check_owner("outside/keep", SHARE_FIRST, SHARE_FIRST);
	CHECK_EQ(tree_remove(base_fd, "outside", NULL), 0);
	CHECK_EQ(tree_remove(base_fd, "tree", NULL), 0);
	close(tree_fd);
	close(base_fd);
	CHECK_EQ(rmdir(base), 0);
}

#define TREE_TEST(name) TEST_IN(name, (void), setup(); body(); finish();)

TREE_TEST(only_ids_of_boxes_change)
{
	struct tree_given given;
	struct err e = {0};

	touch("tree/root-of-a-box", SHARE_FIRST, SHARE_FIRST);
	touch("tree/old-range", 0x70120000, 0x70120000 + 27);
	touch("tree/hosts", 0, 33);
	touch("tree/group-only", 500, SHARE_FIRST + 27);
	touch("tree/last", 0x7fffffff, 0x7fffffff);
	touch("tree/beyond", 0x80000000, 0x6fffffff);
	CHECK_EQ(mkdirat(base_fd, "tree/closed", 0), 0);
	give_to("tree/closed", SHARE_FIRST + 5, 0);
	touch("tree/closed/deep", SHARE_FIRST + 6, 0);
	CHECK_EQ(tree_give(tree_fd, &to, &given, &e), 0);
	CHECK_EQ(given.changed, 6);
	CHECK_EQ(given.left, 0);
	check_owner("tree", 0, 0);
	check_owner("tree/root-of-a-box", 500, 600);
	check_owner("tree/old-range", 500, 600);
	check_owner("tree/hosts", 0, 33);
	check_owner("tree/group-only", 500, 600);
	check_owner("tree/last", 500, 600);
	check_owner("tree/beyond", 0x80000000, 0x6fffffff);
	check_owner("tree/closed", 500, 0);
	check_owner("tree/closed/deep", 500, 0);
	CHECK_EQ(tree_give(tree_fd, &to, &given, &e), 0);
	CHECK_EQ(given.changed, 0);
}

TREE_TEST(links_and_mounts_lead_nowhere)
{
	struct tree_given given;
	struct err e = {0};
	char inside[96], outside[96];

	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(symlinkat("../outside", base_fd, "tree/link"), 0);
	CHECK_EQ(symlinkat("../outside/keep", base_fd, "tree/file-link"), 0);
	give_to("tree/link", SHARE_FIRST, SHARE_FIRST);
	give_to("tree/file-link", SHARE_FIRST, SHARE_FIRST);
	CHECK_EQ(mkdirat(base_fd, "tree/mounted", 0755), 0);
	snprintf(inside, sizeof(inside), "%s/tree/mounted", base);
	snprintf(outside, sizeof(outside), "%s/outside", base);
	CHECK_EQ(mount(outside, inside, NULL, MS_BIND, NULL), 0);
	CHECK_EQ(tree_give(tree_fd, &to, &given, &e), 0);
	CHECK_EQ(given.changed, 2);
	check_owner("tree/link", 500, 600);
	check_owner("tree/file-link", 500, 600);
	CHECK_EQ(umount(inside), 0);
}

TREE_TEST(a_file_that_cannot_be_changed_is_counted_and_the_rest_goes_on)
{
	struct tree_given given;
	struct err e = {0};
	char inside[96];

	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	touch("tree/a", SHARE_FIRST, 0);
	touch("tree/b", SHARE_FIRST, 0);
	snprintf(inside, sizeof(inside), "%s/tree", base);
	CHECK_EQ(mount(inside, inside, NULL, MS_BIND, NULL), 0);
	CHECK_EQ(mount(NULL, inside, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
	autoclose int fd = open(inside, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(tree_give(fd, &to, &given, &e), 0);
	CHECK_EQ(given.changed, 0);
	CHECK_EQ(given.left, 2);
	CHECK_EQ(given.why, EROFS);
	fd_close(&fd);
	CHECK_EQ(umount(inside), 0);
}

TAP_MAIN
