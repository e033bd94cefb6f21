/* A box's cgroup on the real hierarchy of this machine, where it may be written to. */
#include "cgroup/cgroup.h"

#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static char name[48];

static void make(struct cgroup *cg)
{
	struct cgroup_limits none = {0};
	struct err e = {0};

	snprintf(name, sizeof(name), "unit-test-%d", (int)getpid());
	CHECK_EQ(cgroup_make(name, &none, getuid(), getgid(), cg, &e), 0);
	if (cg->fd < 0)
		SKIP(cg->why[CGROUP_TREE]);
}

static pid_t fork_into(struct cgroup *cg, const char *below)
{
	char text[16];
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	snprintf(text, sizeof(text), "%d", (int)pid);
	autoclose int dir = openat(cg->fd, below, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int procs = openat(dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	CHECK(procs >= 0);
	CHECK_EQ(fd_write_full(procs, text, strlen(text)), 0);
	return pid;
}

TEST(making_twice_and_removing_twice_is_fine)
{
	struct cgroup one, two;
	struct err e = {0};

	make(&one);
	make(&two);
	cgroup_done(&one);
	cgroup_done(&two);
	CHECK_EQ(cgroup_remove(name, &e), 0);
	CHECK_EQ(cgroup_remove(name, &e), 0);
}

TEST(remove_kills_what_is_left)
{
	struct cgroup cg;
	struct err e = {0};
	pid_t pid;

	make(&cg);
	CHECK_EQ(mkdirat(cg.fd, "e2", 0755), 0);
	signal(SIGCHLD, SIG_IGN); /* so that the group empties although nobody waits */
	pid = fork_into(&cg, "e2");
	cgroup_done(&cg);
	CHECK_EQ(cgroup_remove(name, &e), 0);
	CHECK(kill(pid, 0) < 0);
}

static void look_for_name(const char *box, void *arg)
{
	*(int *)arg += strcmp(box, name) == 0;
}

TEST(each_names_the_group_while_it_is_there)
{
	struct cgroup cg;
	struct err e = {0};
	int seen = 0;

	make(&cg);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 1);
	cgroup_done(&cg);
	CHECK_EQ(cgroup_remove(name, &e), 0);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 1);
}

TAP_MAIN
