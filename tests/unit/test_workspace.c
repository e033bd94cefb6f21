/* Workspaces: made whole, removed whole, and mount sources that cannot lead out. */
#include "store/workspace.h"

#include "small_disk.h"
#include "store/record.h"
#include "store_home.h"

#include <sys/stat.h>

static struct state s;
static struct ids ids;
static struct err why;

static void begin(void)
{
	home_open(&s);
	CHECK_EQ(ids_detect(&ids, NULL, 0, &why), 0);
}

#define STORE_TEST(name) TEST_IN(name, (void), begin(); body(); state_close(&s);)

static int make(const char *name)
{
	struct workspace_use u;

	CHECK_EQ(workspace_use(&s, name, &ids, 0, false, &u, &why), 0);
	return u.root_fd;
}

STORE_TEST(made_for_the_boxs_user)
{
	static const char *const bad[] = {"../boxes", ".new-x", "link"};
	struct stat st, again;
	int fd;

	fd = make("code");
	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_uid, geteuid() == 0 ? 1000 : geteuid());
	CHECK_EQ(st.st_gid, geteuid() == 0 ? 1000 : getegid());
	CHECK_EQ(st.st_mode & 07777, 0755);
	close(fd);
	fd = make("code");
	CHECK_EQ(fstat(fd, &again), 0);
	CHECK_EQ(st.st_ino, again.st_ino);
	close(fd);
	CHECK_EQ(count_names(s.workspaces_fd), 1);
	CHECK(symlinkat("/tmp", s.workspaces_fd, "link") == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct workspace_use u;

		CHECK(workspace_use(&s, bad[i], &ids, 0, false, &u, &why) < 0);
		workspace_use_done(&u);
	}
}

STORE_TEST(eight_makers_get_the_same_one)
{
	enum { MAKERS = 8 };
	pid_t pids[MAKERS];

	for (int i = 0; i < MAKERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char name[16];
			int fd = make("shared");

			snprintf(name, sizeof(name), "f%d", i);
			_exit(mkdirat(fd, name, 0700) < 0);
		}
	}
	for (int i = 0; i < MAKERS; i++) {
		int status;

		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
	}
	CHECK_EQ(count_names(s.workspaces_fd), 1);
	CHECK_EQ(count_names(make("shared")), MAKERS);
}

STORE_TEST(listed_with_what_they_take)
{
	struct workspace *list;
	size_t count;
	char block[8192] = {1};
	int fd, file;

	close(make("b"));
	fd = make("a");
	file = openat(fd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(fd_write_full(file, block, sizeof(block)), 0);
	fsync(file);
	close(file);
	close(fd);
	CHECK_EQ(workspace_list(&s, &ids, &list, &count, &why), 0);
	CHECK_EQ(count, 2);
	CHECK_STR(list[0].name, "a");
	CHECK(list[0].bytes >= 8192 && list[0].files >= 1);
	CHECK_STR(list[1].name, "b");
	free(list);
}

STORE_TEST(removed_unless_a_box_uses_it)
{
	struct spec spec = {.name = "dev", .image = "base", .wall = "native", .workspace = "code"};
	char trash[64];
	int fd;

	fd = make("code");
	CHECK(mkdirat(fd, "deep", 0700) == 0);
	CHECK(symlinkat(home_path, fd, "link") == 0);
	close(fd);
	CHECK_EQ(record_create(&s, &spec, &fd, &why), 0);
	close(fd);
	CHECK_EQ(workspace_remove(&s, &ids, "code", &why), -EBUSY);
	CHECK_EQ(record_trash(&s, "dev", false, trash, NULL), 0);
	CHECK_EQ(workspace_remove(&s, &ids, "code", &why), 0);
	CHECK_EQ(count_names(s.workspaces_fd), 0);
	CHECK(access(home_path, F_OK) == 0);
	CHECK_EQ(workspace_remove(&s, &ids, "code", &why), -ENOENT);
	CHECK_EQ(workspace_remove(&s, &ids, "..", &why), -EINVAL);
}

STORE_TEST(a_removal_clears_what_a_crash_left)
{
	CHECK(mkdirat(s.workspaces_fd, ".gone-dead", 0700) == 0);
	CHECK(mkdirat(s.workspaces_fd, ".new-dead", 0700) == 0);
	close(make("x"));
	CHECK_EQ(workspace_remove(&s, &ids, "x", &why), 0);
	CHECK_EQ(count_names(s.workspaces_fd), 0);
}

static char layer[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static char *layers[] = {layer};
static const struct workspace_stack one = {.layers = layers, .count = 1, .token = "one"};

/* What a killed removal left of a stack: the list. */
static void leave_list(const char *name)
{
	CHECK_EQ(workspace_stack_make(&s, name, &ids, &one, 0, &why), 0);
	CHECK_EQ(unlinkat(s.workspaces_fd, name, AT_REMOVEDIR), 0);
}

STORE_TEST(a_list_without_its_directory_is_of_nothing)
{
	struct workspace_use u;
	int made;

	leave_list("code");
	close(make("code"));
	for (int again = 0; again < 2; again++) {
		CHECK_EQ(workspace_use(&s, "code", &ids, 0, false, &u, &why), 0);
		CHECK_EQ(u.stack.count, 0);
		workspace_use_done(&u);
	}
	CHECK_EQ(count_names(s.workspaces_fd), 1);
	/* Nor does one that a restore made take it over. */
	leave_list("other");
	CHECK_EQ(mkdirat(s.home_fd, "made", 0700), 0);
	made = openat(s.home_fd, "made", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(mkdirat(made, "other", 0755), 0);
	CHECK_EQ(workspace_take_made(&s, made, "other", false, &why), 0);
	close(made);
	CHECK_EQ(count_names(s.workspaces_fd), 2);
}

/* One that failed leaves no list; the directory that counts files is full. */
STORE_TEST(a_stack_that_cannot_be_made_leaves_nothing)
{
	char path[SMALL_DISK_PATH], name[16];
	int made = 0;

	small_disk_mount(path, 1);
	fd_close(&s.workspaces_fd);
	s.workspaces_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(s.workspaces_fd >= 0);
	/* Room for the list, and none for the directory. */
	for (;; made++) {
		snprintf(name, sizeof(name), "f%d", made);
		if (mkdirat(s.workspaces_fd, name, 0700) < 0)
			break;
	}
	snprintf(name, sizeof(name), "f%d", --made);
	CHECK_EQ(unlinkat(s.workspaces_fd, name, AT_REMOVEDIR), 0);
	CHECK_EQ(workspace_stack_make(&s, "code", &ids, &one, 0, &why), -ENOSPC);
	CHECK_EQ(count_names(s.workspaces_fd), made);
	small_disk_unmount(path);
}

STORE_TEST(what_a_fork_made_is_undone_by_its_token)
{
	struct spec spec = {.name = "dev", .image = "base", .wall = "native", .workspace = "code"};
	int fd;

	CHECK_EQ(workspace_stack_undo(&s, &ids, "code", "one", "dev", &why), 0);
	CHECK_EQ(workspace_stack_make(&s, "code", &ids, &one, 0, &why), 0);
	CHECK_EQ(workspace_stack_undo(&s, &ids, "code", "two", "dev", &why), 0);
	CHECK_EQ(count_names(s.workspaces_fd), 2);
	CHECK_EQ(record_create(&s, &spec, &fd, &why), 0);
	close(fd);
	CHECK_EQ(workspace_stack_undo(&s, &ids, "code", "one", "other", &why), -EBUSY);
	CHECK_EQ(workspace_stack_undo(&s, &ids, "code", "one", "dev", &why), 0);
	CHECK_EQ(count_names(s.workspaces_fd), 0);
	leave_list("code");
	CHECK_EQ(workspace_stack_undo(&s, &ids, "code", "one", "dev", &why), 0);
	CHECK_EQ(count_names(s.workspaces_fd), 0);
	/* Of a list that is another's nothing is undone. */
	close(make("code"));
	CHECK_EQ(workspace_stack_undo(&s, &ids, "code", "one", "dev", &why), 0);
	CHECK_EQ(count_names(s.workspaces_fd), 1);
}

STORE_TEST(a_source_is_made_inside)
{
	struct stat st;
	int fd, src;

	fd = make("code");
	CHECK_EQ(workspace_open_source(fd, "data/in/deep", &src, &why), 0);
	CHECK_EQ(fstat(src, &st), 0);
	CHECK(S_ISDIR(st.st_mode));
	CHECK_EQ(st.st_uid, geteuid() == 0 ? 1000 : geteuid());
	close(src);
	CHECK_EQ(workspace_open_source(fd, "data/in/deep", &src, &why), 0);
	close(src);
	CHECK(close(openat(fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0);
	CHECK_EQ(workspace_open_source(fd, "file", &src, &why), 0);
	close(src);
	CHECK(workspace_open_source(fd, "file/below", &src, &why) < 0);
	CHECK(symlinkat("data", fd, "alias") == 0);
	CHECK_EQ(workspace_open_source(fd, "alias/new", &src, &why), 0);
	close(src);
	CHECK(faccessat(fd, "data/new", F_OK, 0) == 0);
	close(fd);
}

STORE_TEST(a_source_never_leads_out)
{
	static const char *const bad[] = {"../x",    "a/../../x",   "/etc",	  "",
					  ".",	     "abs",	    "abs/passwd", "up/x",
					  "up/../x", "abs/new/dir", "dangling/x", "dangling"};
	int fd, src;

	fd = make("code");
	CHECK(symlinkat("/etc", fd, "abs") == 0);
	CHECK(symlinkat("../..", fd, "up") == 0);
	CHECK(symlinkat("../nowhere", fd, "dangling") == 0);
	CHECK(symlinkat("loop", fd, "loop") == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = (struct err){0};
		if (workspace_open_source(fd, bad[i], &src, &why) >= 0)
			FAIL(bad[i]);
		CHECK(why.msg[0]);
	}
	CHECK(workspace_open_source(fd, "loop", &src, &why) < 0);
	CHECK(faccessat(s.workspaces_fd, "nowhere", F_OK, 0) < 0);
	CHECK(access("/etc/new", F_OK) < 0);
	close(fd);
}

/* A box swaps a directory for a link in a loop while we open and make below it. */
STORE_TEST(a_swap_while_opening_never_leads_out)
{
	char outside[96];
	int fd, src, opened = 0, refused = 0;
	pid_t pid;

	fd = make("code");
	snprintf(outside, sizeof(outside), "%s/outside", home_path);
	CHECK(mkdir(outside, 0777) == 0);
	CHECK(mkdirat(fd, "d", 0755) == 0);
	CHECK(symlinkat(outside, fd, "l") == 0);
	pid = fork();
	if (pid == 0)
		for (;;)
			renameat2(fd, "d", fd, "l", 2 /* RENAME_EXCHANGE */);
	for (int i = 0; i < 20000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d/n%d", i);
		if (workspace_open_source(fd, name, &src, NULL) < 0) {
			refused++;
			continue;
		}
		opened++;
		close(src);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(opened > 0 && refused > 0);
	src = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(count_names(src), 0);
	close(src);
	close(fd);
}

TAP_MAIN
