/* Workspaces with a disk of their own: made whole, shared, listed, removed, swept. */
#include "base/limits.h"
#include "disk_rig.h"
#include "store/record.h"
#include "store/workspace.h"

enum { MIB = 1 << 20 };

static struct workspace_use use(const char *name, uint64_t bytes)
{
	struct workspace_use u;

	if (workspace_use(&home, name, &root_ids, bytes, false, &u, &why) < 0)
		FAIL(why.msg);
	return u;
}

static bool is_there(const char *name)
{
	return faccessat(home.workspaces_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(a_new_one_is_a_disk_for_the_boxs_user)
{
	struct workspace_use u;
	struct stat st;

	disk_need();
	u = use("code", 32 * MIB);
	CHECK(u.volume.ops == &storage_loop && u.volume.mount_fd >= 0 && !u.why[0]);
	CHECK(u.volume.bytes <= 32 * MIB && u.volume.bytes > 31 * MIB);
	CHECK_EQ(fstat(u.root_fd, &st), 0);
	CHECK(st.st_uid == 1000 && st.st_gid == 1000 && (st.st_mode & 07777) == 0755);
	CHECK_EQ(count_names(u.root_fd), 0); /* no lost+found */
	CHECK_EQ(mkdirat(u.root_fd, "d", 0700), 0);
	workspace_use_done(&u);
	workspace_use_done(&u);
	disk_devices_become(0);
	CHECK_EQ(count_names(home.workspaces_fd), 2); /* code/ and code.img */
	u = use("code", 64 * MIB);
	CHECK(u.volume.bytes <= 32 * MIB);
	CHECK_EQ(faccessat(u.root_fd, "d", F_OK, 0), 0);
	workspace_use_done(&u);
	/* A box without a disk limit still finds the files where they are. */
	u = use("code", 0);
	CHECK_EQ(faccessat(u.root_fd, "d", F_OK, 0), 0);
	workspace_use_done(&u);
}

TEST(a_plain_one_stays_plain_and_says_so)
{
	struct workspace_use u;

	disk_need();
	u = use("code", 0);
	CHECK(u.volume.mount_fd == -1 && !u.why[0]);
	CHECK_EQ(mkdirat(u.root_fd, "d", 0700), 0);
	workspace_use_done(&u);
	u = use("code", 32 * MIB);
	CHECK(u.volume.mount_fd == -1 && strstr(u.why, "plain"));
	CHECK_EQ(faccessat(u.root_fd, "d", F_OK, 0), 0);
	workspace_use_done(&u);
	CHECK_EQ(count_names(home.workspaces_fd), 1);
	/* What a box writes into a plain one is never taken for a disk. */
	CHECK(workspace_use(&home, "code.img", &root_ids, MIB, false, &u, &why) < 0);
	CHECK(workspace_use(&home, "../boxes", &root_ids, MIB, false, &u, &why) < 0);
	workspace_use_done(&u);
}

TEST(an_ordinary_user_gets_a_directory_and_the_reason)
{
	const struct ids user = {.kind = IDS_SINGLE};
	struct workspace_use u;

	home_open(&home);
	CHECK_EQ(workspace_use(&home, "due", &user, MIB, true, &u, &why), 0);
	CHECK(u.root_fd == -1 && u.needs_root && strstr(u.why, "root"));
	workspace_use_done(&u);
	CHECK_EQ(count_names(home.workspaces_fd), 0);
	CHECK_EQ(workspace_use(&home, "code", &user, MIB, false, &u, &why), 0);
	CHECK(u.volume.mount_fd == -1 && strstr(u.why, "root"));
	workspace_use_done(&u);
	CHECK_EQ(count_names(home.workspaces_fd), 1);
}

TEST(eight_boxes_at_once_get_the_same_one)
{
	enum { BOXES = 8, ROUNDS = 5 };
	struct workspace_use u;

	disk_need();
	for (int i = 0; i < BOXES; i++) {
		if (fork() != 0)
			continue;
		for (int k = 0; k < ROUNDS; k++) {
			char name[16];

			u = use("shared", 16 * MIB);
			snprintf(name, sizeof(name), "%d-%d", i, k);
			CHECK_EQ(mkdirat(u.root_fd, name, 0700), 0);
			CHECK(disk_devices() <= 1);
			workspace_use_done(&u);
		}
		_exit(0);
	}
	for (int i = 0, status; i < BOXES; i++)
		CHECK(wait(&status) > 0 && status == 0);
	u = use("shared", 16 * MIB);
	CHECK_EQ(count_names(u.root_fd), BOXES * ROUNDS);
	workspace_use_done(&u);
	CHECK_EQ(count_names(home.workspaces_fd), 2);
}

TEST(listed_with_what_they_take)
{
	struct workspace_use u;
	struct workspace *list;
	size_t count;
	int code;

	disk_need();
	u = use("code", 64 * MIB);
	CHECK_EQ(disk_fill(u.root_fd, "f", 16 * MIB, &code), 16 * MIB);
	CHECK_EQ(mkdirat(u.root_fd, "d", 0700), 0);
	for (int i = 0; i < 2; i++) {
		/* First while it is in use, then when nobody has it. */
		CHECK_EQ(workspace_list(&home, &root_ids, &list, &count, &why), 0);
		CHECK_EQ(count, 1);
		CHECK_STR(list[0].name, "code");
		CHECK(list[0].bytes >= 16 * MIB && list[0].bytes < 32 * MIB);
		CHECK_EQ(list[0].files, 3); /* its root, d and f */
		free(list);
		workspace_use_done(&u);
		disk_devices_become(0);
	}
}

TEST(removed_unless_a_box_uses_it)
{
	struct spec spec = {.name = "dev", .image = "base", .wall = "native", .workspace = "code"};
	struct workspace_use u;
	char trash[64];
	int fd;

	disk_need();
	u = use("code", 16 * MIB);
	workspace_use_done(&u);
	CHECK_EQ(record_create(&home, &spec, &fd, &why), 0);
	close(fd);
	CHECK_EQ(workspace_remove(&home, &root_ids, "code", &why), -EBUSY);
	CHECK(is_there("code.img"));
	CHECK_EQ(record_trash(&home, "dev", false, trash, NULL), 0);
	CHECK_EQ(workspace_remove(&home, &root_ids, "code", &why), 0);
	CHECK_EQ(count_names(home.workspaces_fd), 0);
	CHECK_EQ(workspace_remove(&home, &root_ids, "code", &why), -ENOENT);
	/* A new one of that name has nothing of the old one. */
	u = use("code", 16 * MIB);
	CHECK_EQ(count_names(u.root_fd), 0);
	workspace_use_done(&u);
}

/* Whoever made or removed it was killed between the two names. */
TEST(a_disk_without_its_directory_is_nobodys)
{
	struct workspace_use u;

	disk_need();
	u = use("a", 16 * MIB);
	CHECK_EQ(mkdirat(u.root_fd, "secret", 0700), 0);
	workspace_use_done(&u);
	CHECK_EQ(unlinkat(home.workspaces_fd, "a", AT_REMOVEDIR), 0);
	u = use("a", 16 * MIB);
	CHECK_EQ(count_names(u.root_fd), 0);
	workspace_use_done(&u);
	CHECK_EQ(unlinkat(home.workspaces_fd, "a", AT_REMOVEDIR), 0);
	u = use("a", 0);
	CHECK(u.volume.mount_fd == -1 && !is_there("a.img"));
	workspace_use_done(&u);
	u = use("b", 16 * MIB);
	workspace_use_done(&u);
	u = use("c", 16 * MIB);
	workspace_use_done(&u);
	CHECK_EQ(unlinkat(home.workspaces_fd, "b", AT_REMOVEDIR), 0);
	CHECK_EQ(mkdirat(home.workspaces_fd, ".new-dead", 0700), 0);
	CHECK_EQ(workspace_sweep(&home, &root_ids, &why), 0);
	CHECK(!is_there("b.img") && !is_there(".new-dead"));
	CHECK(is_there("c.img") && is_there("c") && is_there("a"));
}

/* Killed at a hundred moments of making and removing: whole or absent, every time. */
TEST(killed_while_making_and_removing)
{
	disk_need();
	for (int i = 0; i < 100; i++) {
		struct workspace_use u;
		int status;
		pid_t pid = fork();

		if (pid == 0)
			for (;;) {
				u = use("code", 8 * MIB);
				workspace_use_done(&u);
				CHECK_EQ(workspace_remove(&home, &root_ids, "code", &why), 0);
			}
		poll(NULL, 0, i % 20);
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		CHECK_EQ(workspace_sweep(&home, &root_ids, &why), 0);
		CHECK_EQ(is_there("code"), is_there("code.img"));
	}
	CHECK(count_names(home.workspaces_fd) <= 2);
	disk_devices_become(0);
}

TEST(mount_sources_below_a_disk)
{
	struct workspace_use u;
	struct stat st;
	int src;

	disk_need();
	u = use("code", 16 * MIB);
	CHECK_EQ(workspace_open_source(u.root_fd, "data/in", &src, &why), 0);
	CHECK_EQ(fstat(src, &st), 0);
	CHECK(S_ISDIR(st.st_mode) && st.st_uid == 1000);
	close(src);
	CHECK_EQ(symlinkat("../../..", u.root_fd, "up"), 0);
	CHECK_EQ(symlinkat("/etc", u.root_fd, "abs"), 0);
	CHECK(workspace_open_source(u.root_fd, "up/x", &src, &why) < 0);
	CHECK(workspace_open_source(u.root_fd, "abs", &src, &why) < 0);
	workspace_use_done(&u);
}

TAP_MAIN
