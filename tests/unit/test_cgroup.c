/*
 * A box's cgroups on the real trees of this machine, where they may be written to: limits that
 * hold, numbers that count, a box that stands still and one that ends. The same again with only the
 * v1 trees, where they are.
 */
#include "cgroup_rig.h"

#include "base/fd.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { LOOK_MS = 10, LOOKS = 6000 };

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
/* Deeper than any stack or table of descriptors of ours, with some that are wide, and somebody at
 * the bottom. */
static void nest(int top_fd, unsigned deep)
{
	autoclose int fd = group_open(top_fd, ".");

	CHECK(fd >= 0);
	for (unsigned i = 0; i < deep; i++) {
		int next = group_make(fd, "n");

		CHECK(next >= 0);
		if (i % 100 == 0)
			for (unsigned k = 0; k < 10; k++) {
				char side[16];

				snprintf(side, sizeof(side), "s%u", k);
				autoclose int one = group_make(fd, side);
				CHECK_EQ(mkdirat(one, "full", 0755), 0);
			}
		close(fd);
		fd = next;
	}
}

TEST(remove_clears_nested_groups_however_deep)
{
	struct cgroup cg;

	find_layout(true);
	make_limited(&cg, &(struct cgroup_limits){.mem_bytes = 64 * MB}, CGROUP_MEMORY);
	nest(cg.v1_work_fd[CGROUP_MEMORY], 1500);
	pid_t pid = run_in_one(cg.v1_work_fd[CGROUP_MEMORY], "tasks");

	CHECK_EQ(group_clear(cg.v1_work_fd[CGROUP_MEMORY]), 0);
	nest(cg.v1_work_fd[CGROUP_MEMORY], 1500);
	remove_all(&cg);
	CHECK_EQ(WTERMSIG(end_of(pid)), SIGKILL);
}

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

static void check_yield(void)
{
	struct cgroup cg;
	int fd;

	make_limited(&cg, &(struct cgroup_limits){.cpu_milli = 500}, CGROUP_CPU);
	fd = cg.v1_fd[CGROUP_CPU] >= 0 ? cg.v1_fd[CGROUP_CPU] : cg.fd;
	if (faccessat(fd, "cpu.idle", F_OK, 0) < 0) {
		CHECK_EQ(cgroup_yield(&cg, true), -ENOENT);
		remove_all(&cg);
		SKIP("this kernel has no cpu.idle");
	}
	CHECK_EQ(cgroup_yield(&cg, true), 0);
	CHECK_EQ(knob_get_u64(fd, "cpu.idle"), 1);
	CHECK_EQ(cgroup_yield(&cg, true), 0);
	CHECK_EQ(cgroup_yield(&cg, false), 0);
	CHECK_EQ(knob_get_u64(fd, "cpu.idle"), 0);
	remove_all(&cg);
	make(&cg);
	CHECK_EQ(cgroup_yield(&cg, true), -ENOTSUP);
	remove_all(&cg);
}

TEST(a_box_yields_and_yields_no_more)
{
	check_yield();
}

TEST(a_box_yields_and_yields_no_more_on_v1)
{
	find_layout(true);
	check_yield();
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

/* What is left for a v2 tree whose kernel has no cgroup.kill. */
TEST(a_tree_is_killed_one_by_one)
{
	struct cgroup_limits lim = {.pids = 60};
	autofree char *events = NULL;
	struct cgroup cg;

	make_limited(&cg, &lim, CGROUP_PIDS);
	if (cg.fd < 0) {
		remove_all(&cg);
		SKIP("there is no cgroup v2 tree");
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	run(&cg, true, bomb, NULL);
	CHECK_EQ(group_kill_members(cg.fd, &cgroup_v2), 0);
	CHECK_EQ(fd_read_file(cg.fd, "cgroup.events", 256, &events, NULL), 0);
	CHECK(strstr(events, "populated 0"));
	remove_all(&cg);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void rounds(const char *box, int n)
{
	struct cgroup_limits lim = {.mem_bytes = 64 * MB, .cpu_milli = 1000, .pids = 10};
	struct cgroup_want w = {box, &lim, getuid(), getgid()};

	for (int i = 0; i < n; i++) {
		struct err e = {0};
		struct cgroup cg;
		int r = cgroup_make_in(&host, &w, &cg, &e);

		if (r == 0)
			cgroup_done(&cg);
		if (cgroup_remove_in(&host, box, &e) < 0) {
			printf("# %s\n", e.msg);
			tap_leave(1);
		}
	}
	tap_leave(0);
}

/* Others come and go meanwhile, one pair of them even with the same name: whatever a make then
 * says, removing works, and nothing is left. */
TEST(at_the_same_time)
{
	struct cgroup cg;
	pid_t pids[6];
	int seen = 0;

	make(&cg);
	for (int i = 0; i < 6; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char box[64];

			snprintf(box, sizeof(box), "%.40s-%d", name, i / 2);
			rounds(box, 40);
		}
	}
	for (int i = 0; i < 6; i++)
		CHECK_EQ(end_of(pids[i]), 0);
	remove_all(&cg);
	for (int i = 0; i < 3; i++) {
		char own[sizeof(name)];

		snprintf(own, sizeof(own), "%s", name);
		snprintf(name, sizeof(name), "%.40s-%d", own, i);
		CHECK_EQ(cgroup_each(look_for_name, &seen), 0);
		snprintf(name, sizeof(name), "%s", own);
	}
	CHECK_EQ(seen, 0);
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

TAP_MAIN
