/* What a confined keeper reaches of the files around it, tried in a process that is confined so. */
#include "keeper/confine.h"

#include "base/caps.h"
#include "base/fd.h"
#include "filter/landlock.h"
#include "storage/tree.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* boxes/{mine,other}, run/{mine,other}/keeper.sock, file */
struct ground {
	char dir[64];
	int fd, boxes, box, run, ca;
};

static void make_file(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
}

static void ground_init(struct ground *g)
{
	static const char *const dirs[] = {
		"boxes",       "boxes/mine", "boxes/mine/deep", "boxes/mine/deep/er",
		"boxes/other", "run",	     "run/mine",	"run/other",
		"ca",
	};
	static const char *const files[] = {
		"boxes/mine/record",
		"boxes/mine/deep/er/file",
		"boxes/other/record",
		"run/mine/keeper.sock",
		"run/other/keeper.sock",
		"ca/spare.pem",
		"file",
	};

	strcpy(g->dir, "/tmp/cove-confine.XXXXXX");
	CHECK(mkdtemp(g->dir));
	g->fd = open(g->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		CHECK_EQ(mkdirat(g->fd, dirs[i], 0700), 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		make_file(g->fd, files[i]);
	g->boxes = openat(g->fd, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g->box = openat(g->fd, "boxes/mine", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g->ca = openat(g->fd, "ca", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g->run = openat(g->fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void ground_done(struct ground *g)
{
	struct err e;

	fd_close(&g->box);
	fd_close(&g->boxes);
	fd_close(&g->run);
	fd_close(&g->ca);
	autoclose int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(tree_remove(tmp, g->dir + strlen("/tmp/"), &e), 0);
	fd_close(&g->fd);
}

static int confine(struct ground *g, struct err *e)
{
	const struct ids ids = {.kind = geteuid() == 0 ? IDS_RANGE : IDS_SINGLE};
	const struct confine c = {
		.ids = &ids,
		.name = "mine",
		.boxes_fd = g->boxes,
		.box_fd = g->box,
		.run_fd = g->run,
		.volume_fd = -1,
		.volumes_fd = -1,
		.workspace_fd = -1,
	};

	return confine_keeper(&c, e);
}

/* Runs fn in a process that is confined like a keeper. */
static void confined(struct ground *g, void (*fn)(struct ground *g))
{
	pid_t pid = fork();
	struct err e;
	int status;

	if (pid == 0) {
		CHECK_EQ(confine(g, &e), 0);
		fn(g);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void run_test(void (*fn)(struct ground *g))
{
	struct ground g;

	if (landlock_abi() < 2)
		SKIP("this kernel has no Landlock of version 2");
	ground_init(&g);
	confined(&g, fn);
	ground_done(&g);
}

static int try_open(int dir_fd, const char *path, int flags)
{
	int fd = openat(dir_fd, path, flags | O_CLOEXEC, 0600), r = fd < 0 ? -errno : 0;

	fd_close(&fd);
	return r;
}

static void live_and_end(struct ground *g)
{
	struct err e;

	CHECK_EQ(try_open(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY), 0);
	CHECK_EQ(try_open(AT_FDCWD, "/proc/meminfo", O_RDONLY), 0);
	CHECK_EQ(try_open(g->box, "record", O_RDWR | O_TRUNC), 0);
	CHECK_EQ(try_open(g->box, "new", O_CREAT | O_WRONLY), 0);
	CHECK_EQ(renameat(g->box, "new", g->box, "record"), 0);
	CHECK_EQ(mkdirat(g->box, "dir", 0700), 0);
	CHECK_EQ(renameat(g->box, "deep/er", g->box, "up"), 0);
	CHECK_EQ(unlinkat(g->run, "mine/keeper.sock", 0), 0);
	CHECK_EQ(unlinkat(g->run, "mine", AT_REMOVEDIR), 0);
	CHECK_EQ(renameat(g->boxes, "mine", g->boxes, ".gone-mine"), 0);
	CHECK_EQ(tree_remove(g->boxes, ".gone-mine", &e), 0);
	CHECK_EQ(tree_remove(g->boxes, ".gone-mine", &e), 0);
}

TEST(it_can_do_what_it_has_to)
{
	run_test(live_and_end);
}

static void look_around(struct ground *g)
{
	CHECK_EQ(try_open(AT_FDCWD, "/etc/passwd", O_RDONLY), -EACCES);
	CHECK_EQ(try_open(AT_FDCWD, "/etc", O_RDONLY | O_DIRECTORY), -EACCES);
	CHECK_EQ(try_open(g->fd, "file", O_RDONLY), -EACCES);
	CHECK_EQ(try_open(g->fd, "file", O_WRONLY), -EACCES);
	CHECK_EQ(try_open(g->fd, "new", O_CREAT | O_WRONLY), -EACCES);
	CHECK_EQ(try_open(g->boxes, "new", O_CREAT | O_WRONLY), -EACCES);
	CHECK_EQ(try_open(g->boxes, "other/record", O_RDONLY), -EACCES);
	CHECK_EQ(try_open(g->boxes, "other", O_RDONLY | O_DIRECTORY), -EACCES);
	CHECK(unlinkat(g->boxes, "other/record", 0) < 0 && errno == EACCES);
	CHECK(unlinkat(g->run, "other/keeper.sock", 0) < 0 && errno == EACCES);
	CHECK(unlinkat(g->fd, "file", 0) < 0 && errno == EACCES);
	CHECK(renameat(g->box, "record", g->boxes, "other/record") < 0);
	CHECK(renameat(g->box, "record", g->fd, "file") < 0);
	CHECK(renameat(g->boxes, "other/record", g->box, "record") < 0);
	CHECK(mkdirat(g->fd, "new", 0700) < 0 && errno == EACCES);
	/* Neither does it look at authorities, nor take or remove one, nor put one among them. */
	CHECK(renameat(g->box, "record", g->ca, "mine.pem") < 0);
	CHECK_EQ(try_open(g->ca, "new.pem", O_CREAT | O_WRONLY), -EACCES);
	CHECK_EQ(try_open(g->ca, "spare.pem", O_RDONLY), -EACCES);
	CHECK_EQ(try_open(g->ca, "spare.pem", O_WRONLY), -EACCES);
	CHECK(renameat(g->ca, "spare.pem", g->box, "ca.pem") < 0);
	CHECK(unlinkat(g->ca, "spare.pem", 0) < 0 && errno == EACCES);
}

TEST(it_reaches_nothing_else)
{
	run_test(look_around);
}

/* The child that deletes is confined as well. */
static void look_from_a_child(struct ground *g)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		look_around(g);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

TEST(nor_does_its_child)
{
	run_test(look_from_a_child);
}

static void set_modes(struct ground *g)
{
	struct stat st;
	int fd = openat(g->box, "record", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(fchmod(fd, 04755) < 0 && errno == EPERM);
	CHECK(fchmod(fd, 0777) < 0 && errno == EPERM);
	CHECK(openat(g->box, "set", O_CREAT | O_WRONLY | O_CLOEXEC, 04755) < 0 && errno == EPERM);
	CHECK(fchmodat(g->fd, "file", 04755, 0) < 0 && errno == EPERM);
	if (geteuid() == 0)
		CHECK(fchmodat(g->fd, "file", 0700, 0) < 0 && errno == EPERM);
	CHECK(fstatat(g->fd, "file", &st, 0) == 0 && (st.st_mode & 07777) == 0600);
	close(fd);
}

TEST(it_sets_no_modes)
{
	run_test(set_modes);
}

/* As an outer sandbox would: that call is answered with that errno from here on. */
static void refuse_call(unsigned nr, unsigned code)
{
	struct sock_filter ops[] = {
		{0x20, 0, 0, 0}, /* the number */
		{0x15, 0, 1, nr},
		{0x06, 0, 0, SECCOMP_RET_ERRNO | code},
		{0x06, 0, 0, SECCOMP_RET_ALLOW},
	};
	struct sock_fprog program = {.len = 4, .filter = ops};

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* What confine_keeper says where a call is refused so. */
static int confine_without(unsigned nr, unsigned code)
{
	struct ground g;
	int status;
	pid_t pid;

	ground_init(&g);
	pid = fork();
	if (pid == 0) {
		struct err e = {0};
		int r;

		refuse_call(nr, code);
		r = confine(&g, &e);
		CHECK(r == 0 || e.msg[0]);
		_exit(r < 0 ? -r : r == 1 ? 200 : 0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	ground_done(&g);
	return WEXITSTATUS(status) == 200 ? 1 : -WEXITSTATUS(status);
}

TEST(a_kernel_without_landlock_is_a_note_and_a_refusal_an_error)
{
	enum { CREATE = 444, ADD = 445, RESTRICT = 446 };

	if (landlock_abi() < 2)
		SKIP("this kernel has no Landlock of version 2");
	CHECK_EQ(confine_without(CREATE, ENOSYS), 1);
	CHECK_EQ(confine_without(CREATE, EOPNOTSUPP), 1);
	CHECK_EQ(confine_without(CREATE, EPERM), -EPERM);
	CHECK_EQ(confine_without(CREATE, EACCES), -EACCES);
	CHECK_EQ(confine_without(ADD, EPERM), -EPERM);
	CHECK_EQ(confine_without(RESTRICT, EPERM), -EPERM);
	CHECK_EQ(confine_without(RESTRICT, ENOMEM), -ENOMEM);
}

TEST(nothing_else_of_it_may_fail)
{
	CHECK_EQ(confine_without(SYS_seccomp, ENOSYS), -ENOSYS);
	CHECK_EQ(confine_without(SYS_seccomp, ENOMEM), -ENOMEM);
	CHECK_EQ(confine_without(SYS_capset, EPERM), -EPERM);
	CHECK_EQ(confine_without(SYS_prctl, EINVAL), -EINVAL);
}

/* The capabilities of a program that root runs behind one of the two locks, with no filter. */
static unsigned long long caps_behind(bool no_new_privs)
{
	char text[64] = "";
	int out[2], status;
	pid_t pid;

	CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		CHECK_EQ(no_new_privs ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) : caps_lock(), 0);
		CHECK_EQ(caps_keep(CAP_BIT(CAP_KILL), 0, NULL), 0);
		CHECK(dup2(out[1], 1) == 1);
		execl("/bin/sh", "sh", "-c", "grep ^CapPrm: /proc/self/status", NULL);
		_exit(127);
	}
	close(out[1]);
	CHECK(fd_read_full(out[0], text, sizeof(text) - 1) > 0);
	close(out[0]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	return strtoull(strchr(text, '\t'), NULL, 16);
}

TEST(a_program_would_gain_nothing_behind_either_lock)
{
	if (geteuid() != 0)
		SKIP("an ordinary user's programs have no capabilities to begin with");
	CHECK_EQ(caps_behind(true) & ~(unsigned long long)CAP_BIT(CAP_KILL), 0);
	CHECK_EQ(caps_behind(false), 0);
}

TAP_MAIN
