/*
 * A box's cgroups on the real trees of this machine, where they may be written to: limits that
 * hold, numbers that count, a box that stands still, and what a hostile init can do with the
 * directories it was given (nothing). The same again with only the v1 trees, where they are.
 */
#include "cgroup/parts.h"

#include "base/fd.h"
#include "base/limits.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define MB (1ull << 20)

enum { OWNER = 1900000001, LOOK_MS = 10, LOOKS = 3000 };

static char name[48];
static struct layout host;

/* Runs below the host's whole layout, or below its v1 trees alone. */
static void find_layout(bool only_v1)
{
	snprintf(name, sizeof(name), "unit-test-%d", (int)getpid());
	layout_find(&host);
	if (!only_v1)
		return;
	host.dir[LAYOUT_V2].path[0] = 0;
	if (!layout_has(&host, LAYOUT_FREEZER))
		SKIP("there are no cgroup v1 trees");
}

static void make_for(struct cgroup *cg, const struct cgroup_limits *lim, uid_t owner)
{
	struct cgroup_want w = {name, lim, owner, owner};
	struct err e = {0};

	if (!name[0])
		find_layout(false);
	CHECK_EQ(cgroup_make_in(&host, &w, cg, &e), 0);
	if (!(cg->can & 1u << CGROUP_TREE))
		SKIP(cg->why[CGROUP_TREE]);
}

static void make(struct cgroup *cg)
{
	make_for(cg, &(struct cgroup_limits){0}, getuid());
}

/* With limits, or not at all. */
static void make_limited(struct cgroup *cg, const struct cgroup_limits *lim, enum cgroup_part part)
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

static void remove_all(struct cgroup *cg)
{
	struct err e = {0};

	cgroup_done(cg);
	CHECK_EQ(cgroup_remove_in(&host, name, &e), 0);
}

static void write_zero(int dir_fd, const char *file)
{
	autoclose int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, "0", 1), 0);
}

/* As the wall does it for the first process. */
static void join_box(const struct cgroup *cg)
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

/* As init does it for a command. */
static void join_work(const struct cgroup *cg)
{
	join_command(cg->work_fd, "cgroup.procs");
	join_command(cg->v1_work_fd[CGROUP_MEMORY], "tasks");
	join_command(cg->v1_work_fd[CGROUP_IO], "tasks");
}

/* Forks a process of the box that runs, and returns once it is in its groups. */
static pid_t run(const struct cgroup *cg, bool in_work, void (*body)(void *arg), void *arg)
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

static void wait_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

/* A process in that one group, and in no other of the box. */
static pid_t run_in_one(int dir_fd, const char *entry)
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

static int end_of(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
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

static void check_remove_kills(void)
{
	struct cgroup cg;
	pid_t in_box, in_work;

	make(&cg);
	in_box = run(&cg, false, wait_for_ever, NULL);
	in_work = run(&cg, true, wait_for_ever, NULL);
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(in_box)), SIGKILL);
	CHECK_EQ(WTERMSIG(end_of(in_work)), SIGKILL);
}

TEST(remove_kills_what_is_left)
{
	check_remove_kills();
}

TEST(remove_kills_what_is_left_on_v1)
{
	find_layout(true);
	check_remove_kills();
}

TEST(remove_clears_groups_of_the_older_layout)
{
	struct cgroup cg;
	pid_t pid;

	make(&cg);
	if (cg.fd < 0)
		SKIP("there is no cgroup v2 tree");
	CHECK_EQ(mkdirat(cg.fd, "e2", 0755), 0);
	pid = run_in_one(cg.fd, "e2/cgroup.procs");
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(pid)), SIGKILL);
}

/* A process that is in a v1 group only: the kill of the v2 group does not reach it. */
TEST(remove_ends_a_process_that_is_in_one_tree_only)
{
	struct cgroup cg;
	pid_t pid;

	make_limited(&cg, &(struct cgroup_limits){.pids = 20}, CGROUP_PIDS);
	if (cg.v1_fd[CGROUP_PIDS] < 0) {
		remove_all(&cg);
		SKIP("pids is on cgroup v2 here");
	}
	pid = run_in_one(cg.v1_fd[CGROUP_PIDS], "tasks");
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(pid)), SIGKILL);
}

static void look_for_name(const char *box, void *arg)
{
	*(int *)arg += strcmp(box, name) == 0;
}

TEST(each_names_the_group_while_it_is_there)
{
	struct cgroup cg;
	int seen = 0;

	make(&cg);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 1);
	remove_all(&cg);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 1);
}

static void eat(void *arg)
{
	size_t bytes = *(size_t *)arg;
	volatile char *p =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
}

static void check_memory(void)
{
	struct cgroup_limits lim = {.mem_bytes = 48 * MB, .pids = 50};
	size_t fits = 8 * MB, too_much = 512 * MB;
	struct cgroup_stats s;
	struct cgroup cg;
	pid_t first;
	int status;

	make_limited(&cg, &lim, CGROUP_MEMORY);
	first = run(&cg, false, wait_for_ever, NULL);
	CHECK_EQ(end_of(run(&cg, true, eat, &fits)), 0);
	status = end_of(run(&cg, true, eat, &too_much));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_EQ(waitpid(first, NULL, WNOHANG), 0);
	/* The next command works. */
	CHECK_EQ(end_of(run(&cg, true, eat, &fits)), 0);
	cgroup_stats(&cg, &s);
	CHECK(s.oom_kills >= 1);
	CHECK(s.mem_peak_bytes >= 40 * MB && s.mem_peak_bytes <= 48 * MB + CGROUP_RESERVE_BYTES);
	CHECK(s.mem_bytes <= s.mem_peak_bytes);
	CHECK(s.cpu_us > 0);
	CHECK_EQ(s.pids, 1);
	CHECK_EQ(s.pids_hits, 0);
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(first)), SIGKILL);
}

TEST(an_oom_takes_the_command_and_not_init)
{
	check_memory();
}

TEST(an_oom_takes_the_command_and_not_init_on_v1)
{
	find_layout(true);
	check_memory();
}

static void shared_memory(void *arg)
{
	size_t bytes = *(size_t *)arg;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, bytes);
}

TEST(shared_memory_is_counted_too)
{
	struct cgroup_limits lim = {.mem_bytes = 32 * MB};
	size_t too_much = 256 * MB;
	struct cgroup cg;

	make_limited(&cg, &lim, CGROUP_MEMORY);
	CHECK(WIFSIGNALED(end_of(run(&cg, true, shared_memory, &too_much))));
	remove_all(&cg);
}

static void fork_many(void *arg)
{
	int n = 0, ready[2];

	(void)arg;
	CHECK_EQ(pipe(ready), 0);
	for (; n < 100; n++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0) {
			/* Until the parent is gone. */
			char byte;

			close(ready[1]);
			_exit(read(ready[0], &byte, 1) == 0 ? 0 : 1);
		}
	}
	_exit(n == 100 ? 100 : errno == EAGAIN ? n : 101);
}

TEST(forks_beyond_the_limit_are_refused_and_counted)
{
	struct cgroup_limits lim = {.pids = 10};
	struct cgroup_stats s;
	struct cgroup cg;
	pid_t first;

	make_limited(&cg, &lim, CGROUP_PIDS);
	first = run(&cg, false, wait_for_ever, NULL);
	/* Ten for commands: the one that forks, and nine of its children. */
	CHECK_EQ(WEXITSTATUS(end_of(run(&cg, true, fork_many, NULL))), 9);
	cgroup_stats(&cg, &s);
	CHECK(s.pids >= 1);
	CHECK_EQ(s.pids_hits, 1);
	remove_all(&cg);
	end_of(first);
}

TEST(the_cpu_quota_stands_where_the_kernel_reads_it)
{
	struct cgroup_limits lim = {.cpu_milli = 250};
	struct cgroup cg;
	autofree char *text = NULL;

	make_limited(&cg, &lim, CGROUP_CPU);
	if (cg.v1_fd[CGROUP_CPU] >= 0) {
		CHECK_EQ(fd_read_file(cg.v1_fd[CGROUP_CPU], "cpu.cfs_quota_us", 64, &text, NULL),
			 0);
		CHECK_STR(text, "25000\n");
	} else {
		CHECK_EQ(fd_read_file(cg.fd, "cpu.max", 64, &text, NULL), 0);
		CHECK_STR(text, "25000 100000\n");
	}
	remove_all(&cg);
}

static void spin(void *arg)
{
	for (volatile unsigned *counter = arg;;)
		(*counter)++;
}

static bool moves(const volatile unsigned *counter, int looks)
{
	unsigned start = *counter;

	for (int i = 0; i < looks; i++) {
		if (*counter != start)
			return true;
		(void)poll(NULL, 0, LOOK_MS);
	}
	return false;
}

static void check_freeze(void)
{
	volatile unsigned *counter =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cgroup cg;
	struct err e = {0};
	pid_t pid;

	make(&cg);
	pid = run(&cg, true, spin, (void *)counter);
	CHECK(moves(counter, LOOKS));
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(cgroup_freeze(&cg, true, &e), 0);
		CHECK(!moves(counter, 10));
		CHECK_EQ(cgroup_freeze(&cg, true, &e), 0);
		CHECK_EQ(cgroup_freeze(&cg, false, &e), 0);
		CHECK(moves(counter, LOOKS));
		CHECK_EQ(cgroup_freeze(&cg, false, &e), 0);
	}
	/* A frozen box can be removed. */
	CHECK_EQ(cgroup_freeze(&cg, true, &e), 0);
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(pid)), SIGKILL);
}

TEST(a_frozen_box_stands_still_and_goes_on)
{
	check_freeze();
}

TEST(a_frozen_box_stands_still_and_goes_on_on_v1)
{
	find_layout(true);
	check_freeze();
}

/* Forks as fast as it can, and so do its children. */
static void bomb(void *arg)
{
	(void)arg;
	setsid();
	for (;;)
		(void)fork();
}

static void check_bomb(void)
{
	struct cgroup_limits lim = {.pids = 60};
	struct cgroup cg;
	int seen = 0;

	make_limited(&cg, &lim, CGROUP_PIDS);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	run(&cg, true, bomb, NULL);
	remove_all(&cg);
	CHECK_EQ(cgroup_each_in(&host, look_for_name, &seen), 0);
	CHECK_EQ(seen, 0);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

TEST(remove_ends_a_fork_bomb)
{
	check_bomb();
}

TEST(remove_ends_a_fork_bomb_on_v1)
{
	find_layout(true);
	check_bomb();
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

TEST(two_hundred_rounds_leave_nothing)
{
	struct cgroup_limits lim = {
		.mem_bytes = 64 * MB, .cpu_milli = 1000, .pids = 10, .io_bytes = MB};
	struct cgroup cg;
	struct stat st;
	int fds = count_fds(), seen = 0;

	CHECK_EQ(stat("/", &st), 0);
	lim.io_dev = st.st_dev;
	for (int i = 0; i < 200; i++) {
		make_for(&cg, &lim, getuid());
		remove_all(&cg);
	}
	CHECK_EQ(count_fds(), fds);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 0);
}

TEST(a_probe_leaves_nothing)
{
	struct cgroup_offer offer;
	char probe[32];
	int seen = 0;

	cgroup_probe(&offer);
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		CHECK((offer.can & 1u << i) || offer.why[i][0]);
	snprintf(probe, sizeof(probe), "probe-%d", (int)getpid());
	snprintf(name, sizeof(name), "%s", probe);
	CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
	CHECK_EQ(seen, 0);
}

/* As in a container: the same trees, but nothing may be written. */
TEST(read_only_trees_are_told_and_missing_groups_are_gone)
{
	struct cgroup_offer offer;
	struct err e = {0};
	struct cgroup cg;

	find_layout(false);
	if (getuid() != 0 || unshare(CLONE_NEWNS) < 0)
		SKIP("needs root");
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	for (int t = 0; t < LAYOUT_COUNT; t++) {
		const char *path = host.dir[t].path;

		if (!path[0] || layout_is_repeat(&host, (enum layout_tree)t))
			continue;
		CHECK_EQ(mount(path, path, NULL, MS_BIND, NULL), 0);
		CHECK_EQ(mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
	}
	CHECK_EQ(cgroup_make(name, &(struct cgroup_limits){.pids = 5}, 0, 0, &cg, &e), 0);
	CHECK_EQ(cg.can, 0);
	CHECK(cg.why[CGROUP_TREE][0] && cg.why[CGROUP_PIDS][0]);
	cgroup_done(&cg);
	CHECK_EQ(cgroup_remove(name, &e), 0);
	cgroup_probe(&offer);
	CHECK_EQ(offer.can, 0);
}

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
