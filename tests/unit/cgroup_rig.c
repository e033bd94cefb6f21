/* Boxes made of groups and forked processes; see cgroup_rig.h. */
#include "cgroup_rig.h"

#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>

char name[48];
struct layout host;

/* A test that failed could not clear up. */
static void remove_stale(const char *box, void *arg)
{
	int pid;

	if (sscanf(box, "unit-test-%d", &pid) == 1 && kill(pid, 0) < 0 && errno == ESRCH)
		cgroup_remove_in(arg, box, NULL);
}

void find_layout(bool only_v1)
{
	snprintf(name, sizeof(name), "unit-test-%d", (int)getpid());
	layout_find(&host);
	cgroup_each_in(&host, remove_stale, &host);
	if (!only_v1)
		return;
	host.dir[LAYOUT_V2].path[0] = 0;
	if (!layout_has(&host, LAYOUT_FREEZER))
		SKIP("there are no cgroup v1 trees");
}

void make_for(struct cgroup *cg, const struct cgroup_limits *lim, uid_t owner)
{
	struct cgroup_want w = {name, lim, owner, owner};
	struct err e = {0};

	if (!name[0])
		find_layout(false);
	CHECK_EQ(cgroup_make_in(&host, &w, cg, &e), 0);
	if (!(cg->can & 1u << CGROUP_TREE))
		SKIP(cg->why[CGROUP_TREE]);
}

void make(struct cgroup *cg)
{
	make_for(cg, &(struct cgroup_limits){0}, getuid());
}

void make_limited(struct cgroup *cg, const struct cgroup_limits *lim, enum cgroup_part part)
{
	make_for(cg, lim, getuid());
	if (!(cg->limits & 1u << part)) {
		static char why[CGROUP_WHY_MAX];

		snprintf(why, sizeof(why), "%s", cg->why[part]);
		cgroup_done(cg);
		cgroup_remove_in(&host, name, NULL);
		SKIP(why);
	}
}

void remove_all(struct cgroup *cg)
{
	struct err e = {0};

	cgroup_done(cg);
	CHECK_EQ(cgroup_remove_in(&host, name, &e), 0);
}

void write_zero(int dir_fd, const char *file)
{
	autoclose int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, "0", 1), 0);
}

void join_box(const struct cgroup *cg)
{
	if (cg->init_fd >= 0)
		write_zero(cg->init_fd, "cgroup.procs");
	for (unsigned i = 0; i < cg->join_count; i++)
		CHECK_EQ(fd_write_full(cg->join_fd[i], "0", 1), 0);
}

static void join_command(int work_fd, const char *entry)
{
	char path[32];

	if (work_fd < 0)
		return;
	CHECK(mkdirat(work_fd, "e1", 0755) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "e1/%s", entry);
	write_zero(work_fd, path);
}

void join_work(const struct cgroup *cg)
{
	join_command(cg->work_fd, "cgroup.procs");
	join_command(cg->v1_work_fd[CGROUP_MEMORY], "tasks");
	join_command(cg->v1_work_fd[CGROUP_IO], "tasks");
}

pid_t run(const struct cgroup *cg, bool in_work, void (*body)(void *arg), void *arg)
{
	int ready[2];
	char byte;
	pid_t pid;

	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		join_box(cg);
		if (in_work)
			join_work(cg);
		CHECK_EQ(write(ready[1], "x", 1), 1);
		body(arg);
		_exit(0);
	}
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

void wait_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

pid_t run_in_one(int dir_fd, const char *entry)
{
	int ready[2];
	char byte;
	pid_t pid;

	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		write_zero(dir_fd, entry);
		CHECK_EQ(write(ready[1], "x", 1), 1);
		wait_for_ever(NULL);
	}
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

int end_of(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

void look_for_name(const char *box, void *arg)
{
	*(int *)arg += strcmp(box, name) == 0;
}
