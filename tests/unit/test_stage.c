/*
 * Changes to a host directory: whole or not at all, wherever the process is killed; and nothing
 * through a link. The calls that change something on disk are counted here, and end the process
 * when its time has come.
 */
#include "store/stage.h"

#include "base/fd.h"
#include "storage/tree.h"
#include "store/guarded.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int left = -1; /* calls until the end; -1: none is near */

static void count(void)
{
	if (left > 0 && --left == 0)
		_exit(9);
}

int renameat(int from, const char *a, int to, const char *b)
{
	count();
	return (int)syscall(SYS_renameat2, from, a, to, b, 0);
}

int unlinkat(int dir, const char *name, int flags)
{
	count();
	return (int)syscall(SYS_unlinkat, dir, name, flags);
}

int mkdirat(int dir, const char *name, mode_t mode)
{
	count();
	return (int)syscall(SYS_mkdirat, dir, name, mode);
}

int fchmod(int fd, mode_t mode)
{
	count();
	return (int)syscall(SYS_fchmod, fd, mode);
}

static char top[64];
static int box_fd, dir_fd;

static void clean(void)
{
	struct err e = {0};

	left = -1;
	tree_remove(AT_FDCWD, top, &e);
}

static void rig(void)
{
	snprintf(top, sizeof(top), "cove-stage-%d", (int)getpid());
	CHECK_EQ(chdir("/tmp"), 0);
	CHECK_EQ(mkdir(top, 0700), 0);
	tap_state.at_end = clean;
	CHECK_EQ(chdir(top), 0);
	CHECK(mkdir("box", 0700) == 0 && mkdir("host", 0755) == 0);
	box_fd = open("box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir_fd = open("host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(chdir("/tmp"), 0);
}

static void write_at(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	close(fd);
}

static const char *read_at(const char *path)
{
	static char text[64];
	char *got = NULL;
	size_t len;

	if (fd_read_file(dir_fd, path, sizeof(text) - 1, &got, &len) < 0)
		return "none";
	snprintf(text, sizeof(text), "%s", got);
	free(got);
	return text;
}

static bool is_there(const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct stage_seen seen(const char *path)
{
	struct stage_seen s;
	struct stat st;

	stage_look(dir_fd, path, &st, &s);
	return s;
}

static void add(struct stage *s, enum stage_kind kind, const char *path, unsigned number)
{
	struct stage_seen was = seen(path);
	struct err e = {0};

	CHECK_EQ(stage_add(s, kind, path, 0755, number, &was, &e), 0);
}

static unsigned new_file(struct stage *s, const char *text)
{
	struct err e = {0};
	unsigned number;
	int fd;

	CHECK_EQ(stage_new_file(s, 04644, &fd, &number, &e), 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	close(fd);
	return number;
}

/* a changes, d/x and d go, as v/x and v do for a link, l (a link) becomes a directory with a file,
 * g becomes a link, n/m/f and z are new. */
static void make_host(void)
{
	write_at(dir_fd, "a", "old");
	CHECK_EQ(mkdirat(dir_fd, "d", 0755), 0);
	write_at(dir_fd, "d/x", "old");
	CHECK_EQ(mkdirat(dir_fd, "v", 0755), 0);
	write_at(dir_fd, "v/x", "old");
	CHECK_EQ(symlinkat("a", dir_fd, "l"), 0);
	write_at(dir_fd, "g", "old");
	write_at(dir_fd, "kept", "old");
}

static int do_all(struct err *e)
{
	struct stage_seen none = {0};
	struct stage s;
	unsigned link;
	int r = stage_init(&s, box_fd, dir_fd, getuid(), getgid(), e);

	if (r == 0)
		r = stage_begin(&s, e);
	CHECK_EQ(r, 0);
	add(&s, STAGE_PUT, "a", new_file(&s, "new"));
	add(&s, STAGE_REMOVE_DIR, "d", 0);
	add(&s, STAGE_REMOVE, "d/x", 0);
	CHECK_EQ(stage_new_link(&s, "a", &link, e), 0);
	add(&s, STAGE_PUT, "g", link);
	add(&s, STAGE_REMOVE, "l", 0);
	add(&s, STAGE_MAKE_DIR, "l", 0);
	CHECK_EQ(stage_add(&s, STAGE_PUT, "l/z", 0644, new_file(&s, "new"), &none, e), 0);
	add(&s, STAGE_PUT, "n/m/f", new_file(&s, "new"));
	CHECK_EQ(stage_new_link(&s, "n", &link, e), 0);
	add(&s, STAGE_REMOVE_DIR, "v", 0);
	add(&s, STAGE_PUT, "v", link);
	add(&s, STAGE_REMOVE, "v/x", 0);
	add(&s, STAGE_PUT, "z", new_file(&s, "new"));
	r = stage_commit(&s, e);
	if (r == 0)
		r = stage_apply(&s, false, e);
	stage_done(&s);
	return r;
}

static bool is_old(void)
{
	return strcmp(read_at("a"), "old") == 0 && strcmp(read_at("d/x"), "old") == 0 &&
	       strcmp(read_at("g"), "old") == 0 && !is_there("l/z") && !is_there("n") &&
	       strcmp(read_at("v/x"), "old") == 0 && !is_there("z");
}

static bool is_new(void)
{
	struct stat st;

	return strcmp(read_at("a"), "new") == 0 && !is_there("d") &&
	       fstatat(dir_fd, "g", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
	       strcmp(read_at("l/z"), "new") == 0 && strcmp(read_at("n/m/f"), "new") == 0 &&
	       fstatat(dir_fd, "v", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
	       strcmp(read_at("z"), "new") == 0;
}

static void check_clean(void)
{
	char command[128];

	CHECK_EQ(faccessat(box_fd, "merge", F_OK, 0), -1);
	snprintf(command, sizeof(command), "ls -A /tmp/%s/host | grep -q cove-merge", top);
	CHECK(system(command) != 0);
	CHECK_STR(read_at("kept"), "old");
}

TEST(all_at_once)
{
	struct err e = {0};
	struct stat st;

	rig();
	make_host();
	CHECK_EQ(do_all(&e), 0);
	CHECK(is_new());
	check_clean();
	CHECK_EQ(fstatat(dir_fd, "n/m/f", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0644); /* no set-user-ID */
}

/* A second call ends what a first had committed to; before that nothing has happened. */
TEST(killed_anywhere)
{
	int kills = 0, begun = 0;

	rig();
	for (int at = 1;; at++) {
		struct err e = {0};
		struct stage s;
		int status, r;
		pid_t pid;

		make_host();
		pid = fork();
		if (pid == 0) {
			left = at;
			_exit(do_all(&e) == 0 ? 0 : 1);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 1);
		kills += WEXITSTATUS(status) == 9;
		CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
		r = stage_resume(&s, &e);
		CHECK(r >= 0);
		if (r == 0 && WEXITSTATUS(status) == 9)
			CHECK(is_old() || is_new());
		if (r == 1) {
			begun++;
			CHECK_EQ(stage_apply(&s, false, &e), 0);
			CHECK(is_new());
		}
		stage_done(&s);
		check_clean();
		CHECK_EQ(tree_remove(AT_FDCWD, top, &e), 0);
		close(box_fd);
		close(dir_fd);
		if (WEXITSTATUS(status) == 0)
			break;
		rig();
	}
	CHECK(kills > 20 && begun > 8);
}

TEST(what_was_changed_meanwhile_is_a_conflict)
{
	struct stage_seen was;
	struct err e = {0};
	struct stage s;

	rig();
	write_at(dir_fd, "a", "old");
	write_at(dir_fd, "kept", "old");
	was = seen("a");
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	CHECK_EQ(stage_begin(&s, &e), 0);
	CHECK_EQ(stage_add(&s, STAGE_PUT, "a", 0644, new_file(&s, "new"), &was, &e), 0);
	usleep(20000); /* times are as coarse as the kernel's ticks */
	write_at(dir_fd, "a", "mine");
	CHECK_EQ(stage_commit(&s, &e), -ESTALE);
	stage_abort(&s);
	stage_done(&s);
	CHECK_STR(read_at("a"), "mine");
	check_clean();
}

/* A link that stands in the way, whenever it came there. */
TEST(nothing_goes_through_a_link)
{
	struct stage_seen none = {0};
	struct err e = {0};
	struct stage s;

	rig();
	CHECK_EQ(mkdirat(box_fd, "elsewhere", 0755), 0);
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	CHECK_EQ(stage_begin(&s, &e), 0);
	CHECK_EQ(stage_add(&s, STAGE_PUT, "sub/f", 0644, new_file(&s, "new"), &none, &e), 0);
	CHECK_EQ(stage_commit(&s, &e), 0);
	CHECK_EQ(symlinkat("../box/elsewhere", dir_fd, "sub"), 0);
	CHECK(stage_apply(&s, true, &e) < 0);
	CHECK_EQ(e.kind, ERR_CONFLICT);
	CHECK_EQ(faccessat(box_fd, "elsewhere/f", F_OK, 0), -1);
	stage_done(&s);
}

/* What came in the way after the commit stays; the rest is done, and nothing is left to be. */
TEST(what_is_in_the_way_is_no_end_without_an_end)
{
	for (int force = 0; force < 2; force++) {
		struct stage_seen none = {0};
		struct err e = {0};
		struct stage s;

		rig();
		write_at(dir_fd, "kept", "old");
		CHECK_EQ(mkdirat(dir_fd, "d", 0755), 0);
		CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
		CHECK_EQ(stage_begin(&s, &e), 0);
		add(&s, STAGE_REMOVE_DIR, "d", 0);
		add(&s, STAGE_PUT, "d", new_file(&s, "new"));
		CHECK_EQ(stage_add(&s, STAGE_MAKE_DIR, "m", 0755, 0, &none, &e), 0);
		add(&s, STAGE_PUT, "n/f", new_file(&s, "new"));
		add(&s, STAGE_PUT, "z", new_file(&s, "new"));
		CHECK_EQ(stage_commit(&s, &e), 0);
		stage_done(&s);
		write_at(dir_fd, "d/mine", "mine");
		write_at(dir_fd, "m", "mine");
		write_at(dir_fd, "n", "mine");
		CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
		CHECK_EQ(stage_resume(&s, &e), 1);
		CHECK_EQ(stage_apply(&s, force, &e), -ENOTDIR);
		CHECK_EQ(e.kind, ERR_CONFLICT);
		stage_done(&s);
		CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
		CHECK_EQ(stage_resume(&s, &e), 0);
		stage_done(&s);
		CHECK_STR(read_at("d/mine"), "mine");
		CHECK_STR(read_at("m"), "mine");
		CHECK_STR(read_at("n"), "mine");
		CHECK_STR(read_at("z"), "new");
		check_clean();
		CHECK_EQ(tree_remove(AT_FDCWD, top, &e), 0);
		close(box_fd);
		close(dir_fd);
	}
	rig();
}

/* A directory that a file takes the place of has to be empty by then. */
TEST(a_directory_of_which_something_stays)
{
	for (int whole = 0; whole < 2; whole++) {
		struct err e = {0};
		struct stage s;

		rig();
		CHECK(mkdirat(dir_fd, "d", 0755) == 0 && mkdirat(dir_fd, "d/e", 0755) == 0);
		write_at(dir_fd, "d/e/x", "old");
		write_at(dir_fd, "d/y", "old");
		CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
		CHECK_EQ(stage_begin(&s, &e), 0);
		add(&s, STAGE_REMOVE_DIR, "d", 0);
		add(&s, STAGE_PUT, "d", new_file(&s, "new"));
		add(&s, STAGE_REMOVE_DIR, "d/e", 0);
		add(&s, STAGE_NOTE, "d/e", 0);
		if (whole)
			add(&s, STAGE_REMOVE, "d/e/x", 0);
		add(&s, STAGE_NOTE, "d", 0);
		add(&s, STAGE_REMOVE, "d/y", 0);
		CHECK_EQ(stage_commit(&s, &e), whole ? 0 : -ENOTEMPTY);
		if (whole)
			CHECK_EQ(stage_apply(&s, false, &e), 0);
		else
			stage_abort(&s);
		stage_done(&s);
		CHECK_STR(read_at(whole ? "d" : "d/e/x"), whole ? "new" : "old");
		CHECK_EQ(tree_remove(AT_FDCWD, top, &e), 0);
		close(box_fd);
		close(dir_fd);
	}
	rig();
}

TEST(what_it_put_there_is_its_own)
{
	struct stage_seen now;
	struct err e = {0};
	struct stage s;

	rig();
	make_host();
	CHECK_EQ(do_all(&e), 0);
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	now = seen("a");
	CHECK(stage_is_own(&s, "a", &now));
	now = seen("kept");
	CHECK(!stage_is_own(&s, "kept", &now));
	usleep(20000);
	write_at(dir_fd, "a", "mine");
	now = seen("a");
	CHECK(!stage_is_own(&s, "a", &now));
	stage_done(&s);
}

/* One that somebody else changed before, or while it was staged, does not become its own. */
TEST(a_directory_is_its_own_where_only_it_changed_it)
{
	struct stage_seen now;
	struct err e = {0};
	struct stage s;

	rig();
	make_host();
	CHECK_EQ(mkdirat(dir_fd, "theirs", 0755), 0);
	CHECK_EQ(mkdirat(dir_fd, "late", 0755), 0);
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	CHECK_EQ(stage_begin(&s, &e), 0);
	add(&s, STAGE_NOTE, "d", 0);
	add(&s, STAGE_REMOVE, "d/x", 0);
	add(&s, STAGE_NOTE, "late", 0);
	add(&s, STAGE_PUT, "late/f", new_file(&s, "new"));
	add(&s, STAGE_MODE, "theirs", 0);
	usleep(20000); /* times are as coarse as the kernel's ticks */
	write_at(dir_fd, "late/mine", "mine");
	CHECK_EQ(stage_commit(&s, &e), 0);
	CHECK_EQ(stage_apply(&s, false, &e), 0);
	stage_done(&s);
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	now = seen("d");
	CHECK(stage_is_own(&s, "d", &now));
	now = seen("late");
	CHECK(!stage_is_own(&s, "late", &now));
	now = seen("late/f");
	CHECK(stage_is_own(&s, "late/f", &now));
	now = seen("theirs");
	CHECK(!stage_is_own(&s, "theirs", &now));
	stage_done(&s);
	check_clean();
}

/* Where the box has what it had then; and what came in the way of a merge. */
TEST(what_the_host_changed_since_is_the_hosts)
{
	const struct stage_seen box = {.ino = 7, .ctime_ns = 1};
	const struct stage_seen later = {.ino = 7, .ctime_ns = 2};
	struct stage_seen now, none = {0};
	struct err e = {0};
	struct stage s;

	rig();
	make_host();
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	CHECK_EQ(stage_begin(&s, &e), 0);
	add(&s, STAGE_PUT, "a", new_file(&s, "new"));
	stage_add_box(&s, &box);
	add(&s, STAGE_REMOVE, "g", 0);
	add(&s, STAGE_MAKE_DIR, "m", 0);
	add(&s, STAGE_MAKE_DIR, "way", 0);
	CHECK_EQ(stage_commit(&s, &e), 0);
	write_at(dir_fd, "way", "mine");
	CHECK(stage_apply(&s, false, &e) < 0 && e.code == ENOTDIR);
	stage_done(&s);
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	now = seen("way");
	CHECK(!stage_is_own(&s, "way", &now));
	now = seen("a");
	CHECK(stage_is_own(&s, "a", &now) && !stage_is_hosts(&s, "a", &now, S_IFREG, &box));
	usleep(20000);
	write_at(dir_fd, "a", "mine");
	write_at(dir_fd, "g", "mine");
	CHECK_EQ(unlinkat(dir_fd, "m", AT_REMOVEDIR), 0);
	now = seen("a");
	CHECK(stage_is_hosts(&s, "a", &now, S_IFREG, &box));
	CHECK(!stage_is_hosts(&s, "a", &now, S_IFREG, &later));
	CHECK(!stage_is_hosts(&s, "a", &now, 0, &none));
	now = seen("g");
	CHECK(stage_is_hosts(&s, "g", &now, 0, &none));
	CHECK(!stage_is_hosts(&s, "g", &now, S_IFREG, &box));
	CHECK(stage_is_hosts(&s, "m", &none, S_IFDIR, &box));
	CHECK(!stage_is_hosts(&s, "kept", &now, S_IFREG, &box));
	stage_done(&s);
	check_clean();
}

TEST(a_journal_that_is_not_as_it_was_written)
{
	struct err e = {0};
	struct stage s;

	rig();
	write_at(box_fd, "merge", "state apply\nop 3 644 0 0 0 0 ../../etc/passwd\n");
	CHECK_EQ(stage_init(&s, box_fd, dir_fd, getuid(), getgid(), &e), 0);
	CHECK(stage_resume(&s, &e) < 0);
	CHECK_EQ(e.kind, ERR_DAMAGED);
	stage_done(&s);
}

TEST(what_is_guarded)
{
	static const char *const yes[] = {".git/commondir",
					  "a/.git/worktrees/x/gitdir",
					  ".git/hooks",
					  ".git/hooks/pre-commit",
					  ".git/config",
					  "sub/.git/config",
					  ".git/modules/x/hooks/y",
					  ".GIT/Hooks/x",
					  ".vscode/tasks.json",
					  "a/b/.envrc",
					  ".ssh",
					  ".git/worktrees/w/config.worktree",
					  "HEAD",
					  "tools/head",
					  ".git/rebase-merge/git-rebase-todo",
					  "a/.gitconfig",
					  ".hg/hgrc",
					  "sub/.hg/sharedpath",
					  ".jj/repo/config.toml",
					  "opencode.json",
					  ".opencode/x",
					  ".roo/mcp.json",
					  ".continue/config.json",
					  ".kiro/x",
					  ".theia/tasks.json",
					  ".fleet/run.json",
					  ".github/hooks/x",
					  "a/.github/Hooks",
					  ".Rprofile",
					  ".irbrc",
					  ".pryrc",
					  ".pdbrc",
					  ".rvmrc",
					  ".bundle/config",
					  ".bazelrc",
					  ".lvimrc",
					  ".mise.toml",
					  "a/mise.toml",
					  ".pnpmfile.cjs",
					  ".devcontainer.json"};
	static const char *const no[] = {".git",       ".git/HEAD",   ".git/objects/ab/cd",
					 "hooks",      "src/config",  "Makefile",
					 ".gitignore", "x.git/hooks", ".vscodex/file",
					 ".hg",	       ".hg/store/x", ".github/workflows/x.yml",
					 ".github",    "hgrc",	      "opencode.jsonx"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		CHECK(guarded_is(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		CHECK(!guarded_is(no[i]));
	CHECK_EQ(guarded_in_repository("a/bare/hooks/x"), strlen("a/bare"));
	CHECK_EQ(guarded_in_repository("a/bare/objects"), 0);
	CHECK_EQ(guarded_in_repository("config"), 0);
	CHECK(guarded_is_in_git("a/.Git/."));
	CHECK(!guarded_is_in_git("a/.gitx/b.git"));
}

TAP_MAIN
