/*
 * Whose groups are whose: what a hostile init can do with the directories it was given (nothing),
 * and what an ordinary user has in a group that was delegated to it.
 */
#include "cgroup_rig.h"

#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* What a hostile init has: the directories it was given, and its own uid. */

static void refused(int dir_fd, const char *path)
{
	autoclose int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		printf("# %s can be opened\n", path);
	CHECK(fd < 0 && (errno == EACCES || errno == ENOENT));
}

static void refused_group(int dir_fd, const char *path)
{
	CHECK(mkdirat(dir_fd, path, 0755) < 0);
	CHECK(errno == EACCES || errno == ENOENT);
	CHECK(unlinkat(dir_fd, path, AT_REMOVEDIR) < 0);
	CHECK(fchmodat(dir_fd, "..", 0777, 0) < 0);
}

static void attack(const struct cgroup *cg, const char *other)
{
	static const char *const files[] = {"memory.limit_in_bytes",
					    "memory.memsw.limit_in_bytes",
					    "memory.max",
					    "memory.swap.max",
					    "memory.swappiness",
					    "memory.oom_control",
					    "cgroup.subtree_control",
					    "cgroup.max.depth",
					    "cgroup.max.descendants",
					    "cgroup.kill",
					    "cgroup.freeze",
					    "notify_on_release"};
	static const char *const escapes[] = {
		"../tasks",	      "../../tasks",	       "../../../tasks",
		"../../cgroup.procs", "../../../cgroup.procs", "../../../release_agent"};
	const int dirs[] = {cg->work_fd, cg->v1_work_fd[CGROUP_MEMORY], cg->v1_work_fd[CGROUP_IO]};
	char path[128];

	for (size_t d = 0; d < sizeof(dirs) / sizeof(dirs[0]); d++) {
		if (dirs[d] < 0)
			continue;
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			refused(dirs[d], files[i]);
			snprintf(path, sizeof(path), "../%s", files[i]);
			refused(dirs[d], path);
			snprintf(path, sizeof(path), "../../%s/%s", other, files[i]);
			refused(dirs[d], path);
		}
		for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++)
			refused(dirs[d], escapes[i]);
		snprintf(path, sizeof(path), "../../%s/work/cgroup.procs", other);
		refused(dirs[d], path);
		snprintf(path, sizeof(path), "../../%s/work/tasks", other);
		refused(dirs[d], path);
		snprintf(path, sizeof(path), "../../%s/work/e1", other);
		refused_group(dirs[d], path);
		refused_group(dirs[d], "../e1");
		refused_group(dirs[d], "../../mine");
	}
	/* And what it may do. */
	join_work(cg);
}

TEST(a_hostile_init_cannot_raise_its_limits_or_reach_another_box)
{
	struct cgroup_limits lim = {.mem_bytes = 64 * MB, .pids = 20};
	struct cgroup cg, victim;
	char mine[sizeof(name)], other[sizeof(name)];
	pid_t pid;

	if (getuid() != 0)
		SKIP("needs root: init must have another uid");
	make_for(&cg, &lim, OWNER);
	snprintf(mine, sizeof(mine), "%s", name);
	snprintf(name, sizeof(name), "%.30s-other", mine);
	snprintf(other, sizeof(other), "%s", name);
	make_for(&victim, &lim, OWNER + 1);
	pid = fork();
	if (pid == 0) {
		join_box(&cg);
		CHECK_EQ(setgroups(0, NULL), 0);
		CHECK_EQ(setresgid(OWNER, OWNER, OWNER), 0);
		CHECK_EQ(setresuid(OWNER, OWNER, OWNER), 0);
		attack(&cg, other);
		tap_leave(0);
	}
	int status = end_of(pid);
	remove_all(&victim);
	snprintf(name, sizeof(name), "%s", mine);
	remove_all(&cg);
	CHECK_EQ(status, 0);
}

TEST(what_init_makes_is_bounded)
{
	struct cgroup cg;
	int made = 0;

	make(&cg);
	if (cg.work_fd < 0)
		SKIP("there is no cgroup v2 tree");
	CHECK_EQ(mkdirat(cg.work_fd, "e1", 0755), 0);
	CHECK(mkdirat(cg.work_fd, "e1/deeper", 0755) < 0);
	for (char path[16]; made < 5000; made++) {
		snprintf(path, sizeof(path), "x%d", made);
		if (mkdirat(cg.work_fd, path, 0755) < 0)
			break;
	}
	CHECK(made < 5000);
	remove_all(&cg);
}

/* Where an ordinary user's own group was delegated to it: one is made here for that. */

static int make_scope(char *path, size_t size)
{
	find_layout(false);
	if (getuid() != 0 || !layout_has(&host, LAYOUT_V2))
		SKIP("needs root and a cgroup v2 tree");
	snprintf(path, size, "%s/cove-unit-test-%d", host.dir[LAYOUT_V2].path, (int)getpid());
	CHECK_EQ(mkdir(path, 0755), 0);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

TEST(a_scope_is_cleared_for_limits_only_if_it_is_marked)
{
	char path[LAYOUT_PATH_MAX + 64];
	autofree char *left = NULL, *moved = NULL;
	autoclose int scope = make_scope(path, sizeof(path));
	pid_t pid = run_in_one(scope, "cgroup.procs");
	int unmarked = v2_make_room(scope), marked, r;

	r = fsetxattr(scope, "user.delegate", "1", 1, 0);
	marked = v2_make_room(scope);
	(void)fd_read_file(scope, "cgroup.procs", 64, &left, NULL);
	(void)fd_read_file(scope, CALLERS_DIR "/cgroup.procs", 64, &moved, NULL);
	kill(pid, SIGKILL);
	end_of(pid);
	unlinkat(scope, CALLERS_DIR, AT_REMOVEDIR);
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(unmarked, -EBUSY);
	if (r < 0)
		SKIP("the cgroup tree keeps no extended attributes");
	CHECK_EQ(marked, 0);
	CHECK_STR(left, "");
	CHECK_EQ(atoi(moved), pid);
}

/* An owner that only root may give to: the group is made all the same, for init to take. */
static void make_for_subordinate(void)
{
	struct cgroup cg;

	name[0] = 0;
	make_for(&cg, &(struct cgroup_limits){0}, OWNER + 1);
	CHECK(cg.can & 1u << CGROUP_TREE);
	remove_all(&cg);
}

static void use_as_user(void)
{
	struct cgroup cg;
	struct err e = {0};
	int seen = 0;
	pid_t pid;

	name[0] = 0;
	make(&cg);
	CHECK(cg.fd >= 0);
	pid = run(&cg, true, wait_for_ever, NULL);
	CHECK_EQ(cgroup_freeze(&cg, true, &e), 0);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 1);
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(pid)), SIGKILL);
	tap_leave(0);
}

TEST(a_user_with_a_delegated_group_can_kill_and_freeze)
{
	char path[LAYOUT_PATH_MAX + 64];
	autoclose int scope = make_scope(path, sizeof(path));
	pid_t pid;
	int status;

	CHECK_EQ(fchown(scope, OWNER, OWNER), 0);
	CHECK_EQ(fchownat(scope, "cgroup.procs", OWNER, OWNER, 0), 0);
	pid = fork();
	if (pid == 0) {
		write_zero(scope, "cgroup.procs");
		CHECK_EQ(setgroups(0, NULL), 0);
		CHECK_EQ(setresgid(OWNER, OWNER, OWNER), 0);
		CHECK_EQ(setresuid(OWNER, OWNER, OWNER), 0);
		make_for_subordinate();
		use_as_user();
	}
	status = end_of(pid);
	unlinkat(scope, "cove", AT_REMOVEDIR);
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(status, 0);
}

TAP_MAIN
