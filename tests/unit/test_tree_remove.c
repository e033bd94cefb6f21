/* Removing trees: nothing outside is touched, every shape goes, twice is fine. */
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "storage/storage.h"
#include "storage/tree.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char base[64];
static int base_fd;

static void setup(void)
{
	snprintf(base, sizeof(base), "/tmp/cove-tree-XXXXXX");
	CHECK(mkdtemp(base) != NULL);
	base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(base_fd >= 0);
	CHECK_EQ(mkdirat(base_fd, "tree", 0755), 0);
	CHECK_EQ(mkdirat(base_fd, "outside", 0755), 0);
	CHECK(close(openat(base_fd, "outside/keep", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
}

static void touch(const char *name)
{
	int fd = openat(base_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	close(fd);
}

static bool exists(const char *name)
{
	struct stat st;

	return fstatat(base_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int count_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void finish(void)
{
	CHECK(exists("outside/keep"));
	CHECK_EQ(tree_remove(base_fd, "outside", NULL), 0);
	CHECK(!exists("tree"));
	close(base_fd);
	CHECK_EQ(rmdir(base), 0);
}

#define TREE_TEST(name) TEST_IN(name, (void), setup(); body(); finish();)

TREE_TEST(links_are_not_followed)
{
	struct err e = {0};

	CHECK_EQ(mkdirat(base_fd, "tree/sub", 0755), 0);
	CHECK_EQ(symlinkat("../outside", base_fd, "tree/link"), 0);
	CHECK_EQ(symlinkat("../../outside", base_fd, "tree/sub/link"), 0);
	CHECK_EQ(symlinkat("/", base_fd, "tree/root"), 0);
	CHECK_EQ(symlinkat("loop", base_fd, "tree/loop"), 0);
	CHECK_EQ(mkfifoat(base_fd, "tree/sub/fifo", 0644), 0);
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
	/* A tree that is a link is a link. */
	CHECK_EQ(symlinkat("outside", base_fd, "tree"), 0);
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
}

TREE_TEST(missing_and_twice)
{
	struct err e = {0};

	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
	CHECK_EQ(tree_remove(base_fd, "never", NULL), 0);
	touch("tree");
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
}

TREE_TEST(only_one_name)
{
	static const char *const bad[] = {"", ".", "..", "tree/x", "/", "../outside"};
	struct err e = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(tree_remove(base_fd, bad[i], &e), -EINVAL);
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
}

TEST(ten_thousand_files)
{
	setup();
	for (int i = 0; i < 10000; i++) {
		char name[64];

		if (i % 100 == 0) {
			snprintf(name, sizeof(name), "tree/d%d", i / 100);
			CHECK_EQ(mkdirat(base_fd, name, 0755), 0);
		}
		snprintf(name, sizeof(name), "tree/d%d/f%d", i / 100, i);
		touch(name);
	}
	{
		uint64_t bytes, files;

		CHECK_EQ(tree_usage(base_fd, "tree", &bytes, &files, NULL), 0);
		CHECK_EQ(files, 10101);
	}
	CHECK_EQ(tree_remove(base_fd, "tree", NULL), 0);
	finish();
}

/* A chain of directories whose path is many times PATH_MAX long, with a file at each level. */
static void make_chain(int levels)
{
	char name[201];
	int fd = openat(base_fd, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < levels; i++) {
		int next, file;

		CHECK_EQ(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		file = openat(fd, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		CHECK(next >= 0 && file >= 0);
		close(file);
		close(fd);
		fd = next;
	}
	close(fd);
}

TREE_TEST(deeper_than_any_path_with_few_descriptors)
{
	struct rlimit few = {.rlim_cur = 64, .rlim_max = 64};
	uint64_t bytes, files;
	struct err e = {0};
	int before;

	make_chain(3000);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	before = count_open();
	CHECK_EQ(tree_usage(base_fd, "tree", &bytes, &files, &e), 0);
	CHECK_EQ(files, 6001);
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
	CHECK_EQ(count_open(), before);
}

static void make_locked(void)
{
	setup();
	CHECK_EQ(mkdirat(base_fd, "tree/a", 0755), 0);
	CHECK_EQ(mkdirat(base_fd, "tree/a/b", 0755), 0);
	CHECK_EQ(mkdirat(base_fd, "tree/a/b/c", 0755), 0);
	touch("tree/a/b/c/f");
	touch("tree/a/b/f");
	CHECK_EQ(fchmodat(base_fd, "tree/a/b/c", 0, 0), 0);
	CHECK_EQ(fchmodat(base_fd, "tree/a/b", 0555, 0), 0);
	CHECK_EQ(fchmodat(base_fd, "tree/a", 0, 0), 0);
	CHECK_EQ(fchmodat(base_fd, "tree", 0111, 0), 0);
}

TEST(unreadable_directories)
{
	/* As nobody, if we are root: root would not notice. */
	if (geteuid() == 0)
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	make_locked();
	CHECK_EQ(tree_remove(base_fd, "tree", NULL), 0);
	finish();
}

TEST(what_may_not_go_is_named_and_the_rest_goes)
{
	struct err e = {0};
	int status;
	pid_t pid;

	if (geteuid() != 0)
		SKIP("needs root to make a file of somebody else");
	setup();
	CHECK_EQ(mkdirat(base_fd, "tree/roots", 0755), 0);
	touch("tree/roots/f");
	touch("tree/mine");
	CHECK_EQ(fchownat(base_fd, "tree", 65534, 65534, 0), 0);
	CHECK_EQ(fchown(base_fd, 65534, 65534), 0);
	pid = fork();
	if (pid == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		CHECK_EQ(tree_remove(base_fd, "tree", &e), -EACCES);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK(exists("tree/roots/f"));
	CHECK(!exists("tree/mine"));
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
	finish();
}

TEST(mounts_are_not_entered)
{
	struct err e = {0};
	char path[96];

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
		SKIP("needs root to mount");
	setup();
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mkdirat(base_fd, "tree/a", 0755), 0);
	CHECK_EQ(mkdirat(base_fd, "tree/a/m", 0755), 0);
	touch("tree/f");
	{
		char from[96];

		snprintf(from, sizeof(from), "%s/outside", base);
		snprintf(path, sizeof(path), "%s/tree/a/m", base);
		CHECK_EQ(mount(from, path, NULL, MS_BIND, NULL), 0);
	}
	CHECK_EQ(tree_remove(base_fd, "tree", &e), -EBUSY);
	CHECK(exists("outside/keep"));
	CHECK(!exists("tree/f"));
	CHECK_EQ(umount2(path, MNT_DETACH), 0);
	CHECK_EQ(tree_remove(base_fd, "tree", &e), 0);
	finish();
}

/* Swaps a directory and a link to outside as fast as it can, until it is killed. */
static pid_t start_swapper(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	for (;;) {
		if (mkdirat(base_fd, "tree/d", 0755) == 0)
			close(openat(base_fd, "tree/d/f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
		renameat(base_fd, "tree/d", base_fd, "tree/old");
		if (symlinkat("../outside", base_fd, "tree/d") < 0 && errno == ENOSPC)
			_exit(1);
		renameat(base_fd, "tree/d", base_fd, "tree/x/d");
		unlinkat(base_fd, "tree/d", 0);
		mkdirat(base_fd, "tree", 0755);
		mkdirat(base_fd, "tree/x", 0755);
	}
}

TREE_TEST(a_swapped_link_is_not_followed)
{
	pid_t pid;

	pid = start_swapper();
	for (int i = 0; i < 300; i++) {
		struct err e = {0};
		int r = tree_remove(base_fd, "tree", &e);

		CHECK(r == 0 || r == -ENOTEMPTY);
		CHECK(exists("outside/keep"));
	}
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(tree_remove(base_fd, "tree", NULL), 0);
}

TREE_TEST(usage_counts_links_once)
{
	static char bytes[65536];
	uint64_t one, two, files;
	int fd;

	fd = openat(base_fd, "tree/a", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	CHECK_EQ(fd_write_full(fd, bytes, sizeof(bytes)), 0);
	CHECK_EQ(fsync(fd), 0);
	close(fd);
	CHECK_EQ(tree_usage(base_fd, "tree", &one, &files, NULL), 0);
	CHECK_EQ(files, 2);
	CHECK(one >= sizeof(bytes));
	CHECK_EQ(linkat(base_fd, "tree/a", base_fd, "tree/b", 0), 0);
	CHECK_EQ(tree_usage(base_fd, "tree", &two, &files, NULL), 0);
	CHECK_EQ(files, 3);
	CHECK_EQ(one, two);
	CHECK_EQ(tree_usage(base_fd, "missing", &two, &files, NULL), -ENOENT);
	CHECK_EQ(tree_remove(base_fd, "tree", NULL), 0);
}

TREE_TEST(plain_storage)
{
	struct ids ids = {.kind = IDS_SINGLE, .caller_uid = getuid(), .caller_gid = getgid()};
	struct err e = {0};
	struct storage_place place;
	struct storage_size size = {0};
	struct volume volume;
	struct stat st;

	place = (struct storage_place){.home_fd = -1, .dir_fd = base_fd};
	CHECK_EQ(tree_remove(base_fd, "tree", NULL), 0);
	CHECK_EQ(storage_plain.open(&place, &ids, &size, &volume, &e), 0);
	CHECK_EQ(storage_plain.open(&place, &ids, &size, &volume, &e), 0);
	CHECK_EQ(fstatat(base_fd, "upper", &st, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_EQ(st.st_mode & 07777, 0755);
	CHECK(exists("work"));
	touch("upper/x");
	CHECK_EQ(storage_plain.remove(&place, &ids, &e), 0);
	CHECK_EQ(storage_plain.remove(&place, &ids, &e), 0);
	CHECK(!exists("upper") && !exists("work"));
}

TAP_MAIN
