/*
 * The layouts that this machine may not have: a tree of plain files stands for the kernel's. The
 * groups of the box are there beforehand with the files that a kernel would put into them, and the
 * test looks which of them were written to, and with what.
 */
#include "cgroup/layout.h"
#include "cgroup/view.h"

#include "base/fd.h"
#include "base/path.h"
#include "tap.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MB (1ull << 20)

static const struct cgroup_limits all = {
	.mem_bytes = 64 * MB, .cpu_milli = 1500, .pids = 20, .io_bytes = 5 * MB};

static char root[64];

static void fake_root(void)
{
	snprintf(root, sizeof(root), "/tmp/cove-cgroup-XXXXXX");
	CHECK(mkdtemp(root));
}

static void remove_root(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", root, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

#define LAYOUT_TEST(name) TEST_IN(name, (void), fake_root(); body(); remove_root();)

/* Makes directories on the way. */
static void fake(const char *path, const char *text)
{
	char full[PATH_MAX];

	CHECK(path_join(full, sizeof(full), root, path));
	for (char *at = full + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		CHECK(mkdir(full, 0755) == 0 || errno == EEXIST);
		*at = '/';
	}
	autoclose int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

/* Empty ones, the names below dir. */
static void fake_files(const char *dir, const char *const *files)
{
	for (; *files; files++) {
		char path[PATH_MAX];

		CHECK(path_join(path, sizeof(path), dir, *files));
		fake(path, "");
	}
}

static const char *text_of(const char *path)
{
	static char *last;
	char full[PATH_MAX];

	CHECK(path_join(full, sizeof(full), root, path));
	free(last);
	last = NULL;
	CHECK_EQ(fd_read_file(AT_FDCWD, full, 65536, &last, NULL), 0);
	return last;
}

static void parse(const char *mountinfo, const char *self, bool is_root, struct layout *ret)
{
	autofree char *mounts = strdup(mountinfo), *own = strdup(self);

	layout_parse(mounts, own, root, is_root, ret);
}

static void make(const struct layout *l, const struct cgroup_limits *lim, struct cgroup *ret)
{
	struct cgroup_want w = {"box", lim, getuid(), getgid()};
	struct err e = {0};

	CHECK_EQ(cgroup_make_in(l, &w, ret, &e), 0);
}

#define ALL_LIMITS (1u << CGROUP_MEMORY | 1u << CGROUP_CPU | 1u << CGROUP_PIDS | 1u << CGROUP_IO)

/* A disk 8:0 with a partition 8:1. */
static void fake_disk(void)
{
	char link[PATH_MAX];

	fake("sys/devices/sda/dev", "8:0\n");
	fake("sys/devices/sda/sda1/partition", "1\n");
	fake("sys/dev/block/none", "");
	snprintf(link, sizeof(link), "%s/sys/dev/block/8:1", root);
	CHECK_EQ(symlink("../../devices/sda/sda1", link), 0);
	snprintf(link, sizeof(link), "%s/sys/dev/block/8:0", root);
	CHECK_EQ(symlink("../../devices/sda", link), 0);
}

static const char v2_mounts[] =
	"22 27 0:21 / /proc rw - proc proc rw\n"
	"31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

static void fake_v2(const char *parent)
{
	static const char *const tree[] = {"cgroup.procs", "cgroup.subtree_control", NULL};
	static const char *const box[] = {"cgroup.procs",
					  "cgroup.subtree_control",
					  "cgroup.max.depth",
					  "cgroup.max.descendants",
					  "memory.max",
					  "memory.swap.max",
					  "memory.oom.group",
					  "cpu.max",
					  "pids.max",
					  "io.max",
					  "cgroup.freeze",
					  "cgroup.events",
					  "init/cgroup.procs",
					  "work/cgroup.procs",
					  "work/memory.max",
					  "work/cpu.max",
					  "work/pids.max",
					  "work/cgroup.subtree_control",
					  NULL};
	char path[PATH_MAX];

	fake_files(parent, tree);
	snprintf(path, sizeof(path), "%s/cgroup.controllers", parent);
	fake(path, "cpuset cpu io memory pids\n");
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", parent);
	fake(path, "memory pids\n");
	snprintf(path, sizeof(path), "%s/cove", parent);
	fake_files(path, tree);
	snprintf(path, sizeof(path), "%s/cove/box", parent);
	fake_files(path, box);
}

LAYOUT_TEST(v2_gets_every_limit_where_it_belongs)
{
	struct cgroup_limits lim = all;
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup");
	fake_disk();
	lim.io_dev = makedev(8, 1);
	parse(v2_mounts, "", true, &l);
	CHECK_STR(layout_name(&l), "v2");
	make(&l, &lim, &cg);
	CHECK_EQ(cg.limits, ALL_LIMITS);
	CHECK_EQ(cg.can, ALL_LIMITS | 1u << CGROUP_TREE);
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		CHECK_STR(cg.why[i], "");
	CHECK_STR(text_of("sys/fs/cgroup/cgroup.subtree_control"), "+cpu +io");
	CHECK_STR(text_of("sys/fs/cgroup/cove/cgroup.subtree_control"), "+memory +cpu +pids +io");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/cgroup.subtree_control"),
		  "+memory +cpu +pids +io");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/work/cgroup.subtree_control"),
		  "+memory +cpu +pids +io");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/memory.max"), "100663296");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/work/memory.max"), "67108864");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/memory.swap.max"), "0");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/memory.oom.group"), "");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/cpu.max"), "150000 100000");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/pids.max"), "21");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/work/cpu.max"), "150000 100000");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/work/pids.max"), "20");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/io.max"), "8:0 rbps=5242880 wbps=5242880");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/cgroup.max.depth"), "2");
	CHECK_EQ(cg.join_count, 0);
	CHECK(cg.init_fd >= 0 && cg.work_fd >= 0 && cg.v1_fd[CGROUP_MEMORY] < 0);
	cgroup_done(&cg);
}

LAYOUT_TEST(v2_without_limits_is_left_alone)
{
	struct cgroup_limits none = {0};
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup");
	parse(v2_mounts, "", true, &l);
	make(&l, &none, &cg);
	CHECK_EQ(cg.can, 1u << CGROUP_TREE);
	CHECK_EQ(cg.limits, 0);
	CHECK_STR(text_of("sys/fs/cgroup/cgroup.subtree_control"), "memory pids\n");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/memory.max"), "");
	cgroup_done(&cg);
}

LAYOUT_TEST(v2_without_a_cpu_limit_leaves_the_scheduler_alone)
{
	struct cgroup_limits lim = {.mem_bytes = 64 * MB};
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup");
	parse(v2_mounts, "", true, &l);
	make(&l, &lim, &cg);
	CHECK_EQ(cg.limits, 1u << CGROUP_MEMORY);
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/cgroup.subtree_control"), "+memory +pids +io");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/pids.max"), "");
	cgroup_done(&cg);
}

LAYOUT_TEST(v2_says_what_is_missing)
{
	struct cgroup_limits lim = all;
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup");
	fake("sys/fs/cgroup/cgroup.controllers", "cpu pids io\n");
	fake("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t1\t0\n");
	parse(v2_mounts, "", true, &l);
	make(&l, &lim, &cg);
	CHECK_EQ(cg.limits, 1u << CGROUP_CPU | 1u << CGROUP_PIDS);
	CHECK_EQ(cg.can & 1u << CGROUP_MEMORY, 0);
	CHECK_STR(cg.why[CGROUP_MEMORY], "the kernel's memory controller is switched off; boot "
					 "without cgroup_disable=memory");
	/* No device was named. */
	CHECK_STR(cg.why[CGROUP_IO],
		  "the box's storage is on no disk of its own that I/O can be limited on; keep "
		  "Cove's state on a disk's file system");
	CHECK_STR(cg.why[CGROUP_PIDS], "");
	cgroup_done(&cg);
}

LAYOUT_TEST(a_limit_that_does_not_read_back_does_not_hold)
{
	struct cgroup_limits lim = {.mem_bytes = 64 * MB, .pids = 3};
	char path[PATH_MAX];
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup");
	snprintf(path, sizeof(path), "%s/sys/fs/cgroup/cove/box/memory.max", root);
	CHECK_EQ(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/sys/fs/cgroup/cove/box/pids.max", root);
	CHECK_EQ(unlink(path), 0);
	(void)mknod(path, S_IFCHR | 0666, makedev(1, 3)); /* not everybody may */
	parse(v2_mounts, "", true, &l);
	make(&l, &lim, &cg);
	CHECK_EQ(cg.limits, 0);
	CHECK_STR(cg.why[CGROUP_MEMORY], "this kernel's memory controller has no such limit");
	/* /dev/null takes everything and keeps nothing. */
	autoclose int null = open(path, O_RDWR | O_CLOEXEC);
	if (null >= 0)
		CHECK_STR(cg.why[CGROUP_PIDS], "the kernel did not take the pids limit as given");
	cgroup_done(&cg);
}

LAYOUT_TEST(a_read_only_mount_is_told_as_such)
{
	struct cgroup cg;
	struct layout l;
	struct cgroup_offer offer;

	fake_v2("sys/fs/cgroup");
	parse("31 23 0:28 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw\n", "", true, &l);
	make(&l, &all, &cg);
	CHECK_EQ(cg.can, 0);
	CHECK_EQ(cg.fd, -1);
	CHECK_STR(cg.why[CGROUP_TREE],
		  "cgroups are mounted read-only here (a container?); mount them writable");
	CHECK_STR(text_of("sys/fs/cgroup/cove/box/memory.max"), "");
	cgroup_done(&cg);
	cgroup_probe_in(&l, &offer);
	CHECK_STR(offer.layout, "v2");
	CHECK_EQ(offer.can, 0);
	CHECK_STR(offer.why[CGROUP_TREE], cg.why[CGROUP_TREE]);
}

LAYOUT_TEST(a_user_has_its_own_group_only)
{
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup/user.slice/x.scope");
	parse(v2_mounts, "0::/user.slice/x.scope\n", false, &l);
	make(&l, &(struct cgroup_limits){.pids = 7}, &cg);
	CHECK_EQ(cg.limits, 1u << CGROUP_PIDS);
	CHECK_STR(text_of("sys/fs/cgroup/user.slice/x.scope/cove/box/pids.max"), "8");
	cgroup_done(&cg);
	/* After an earlier box made room for controllers it is one level deeper. */
	parse(v2_mounts, "1:name=systemd:/x\n0::/user.slice/x.scope/cove-callers\n", false, &l);
	make(&l, &(struct cgroup_limits){.pids = 9}, &cg);
	CHECK_STR(text_of("sys/fs/cgroup/user.slice/x.scope/cove/box/pids.max"), "10");
	cgroup_done(&cg);
	/* A keeper that was born in its own group finds the same. */
	parse(v2_mounts, "0::/user.slice/x.scope/cove/01234567-box+keeper\n", false, &l);
	CHECK_STR(strstr(l.dir[LAYOUT_V2].path, "/user.slice"), "/user.slice/x.scope");
	parse(v2_mounts, "0::/user.slice/x.scope/box+keeper\n", false, &l);
	CHECK_STR(strstr(l.dir[LAYOUT_V2].path, "/user.slice"), "/user.slice/x.scope/box+keeper");
}

LAYOUT_TEST(a_user_without_delegation_is_told_the_remedy)
{
	struct cgroup cg;
	struct layout l;

	parse(v2_mounts, "0::/user.slice/none.scope\n", false, &l);
	make(&l, &all, &cg);
	CHECK_EQ(cg.can, 0);
	CHECK_STR(cg.why[CGROUP_TREE], "no cgroup is delegated to this user; run as root, or under "
				       "systemd-run --user --scope -p Delegate=yes");
	CHECK_STR(cg.why[CGROUP_MEMORY],
		  "no memory controller is delegated to this user; run as root, or under "
		  "systemd-run --user --scope -p Delegate=yes");
	cgroup_done(&cg);
}

static const char v1_mounts[] =
	"32 31 0:29 / /cg/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
	"35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n"
	"37 31 0:34 / /cg/freezer rw,relatime - cgroup cgroup rw,freezer\n"
	"38 31 0:35 / /cg/block\\040io rw,relatime - cgroup cgroup rw,blkio\n"
	"39 31 0:36 / /cg/pids rw,relatime - cgroup cgroup rw,pids\n"
	"40 31 0:37 / /cg/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n";

static void fake_v1(void)
{
	static const char *const files[] = {"memory/cove/box/memory.limit_in_bytes",
					    "memory/cove/box/memory.memsw.limit_in_bytes",
					    "memory/cove/box/memory.swappiness",
					    "memory/cove/box/tasks",
					    "memory/cove/box/release_agent",
					    "memory/cove/box/notify_on_release",
					    "memory/cove/box/work/memory.limit_in_bytes",
					    "memory/cove/box/work/memory.memsw.limit_in_bytes",
					    "memory/cove/box/work/tasks",
					    "freezer/cove/box/freezer.state",
					    "freezer/cove/box/tasks",
					    "cpu,cpuacct/cove/box/cpu.cfs_period_us",
					    "cpu,cpuacct/cove/box/cpu.cfs_quota_us",
					    "cpu,cpuacct/cove/box/cpuacct.usage",
					    "cpu,cpuacct/cove/box/tasks",
					    "pids/cove/box/pids.max",
					    "pids/cove/box/tasks",
					    "block io/cove/box/blkio.throttle.read_bps_device",
					    "block io/cove/box/blkio.throttle.write_bps_device",
					    "block io/cove/box/tasks",
					    "block io/cove/box/work/tasks",
					    NULL};

	fake_files("cg", files);
}

LAYOUT_TEST(v1_gets_every_limit_where_it_belongs)
{
	struct cgroup_limits lim = all;
	struct cgroup cg;
	struct layout l;

	fake_v1();
	fake_disk();
	lim.io_dev = makedev(8, 0);
	parse(v1_mounts, "", true, &l);
	CHECK_STR(layout_name(&l), "v1");
	make(&l, &lim, &cg);
	CHECK_EQ(cg.can, ALL_LIMITS | 1u << CGROUP_TREE);
	CHECK_EQ(cg.limits, ALL_LIMITS & ~(1u << CGROUP_IO));
	CHECK_STR(
		cg.why[CGROUP_IO],
		"cgroup v1 limits reads and direct writes, not those through the page cache; boot "
		"with systemd.unified_cgroup_hierarchy=1");
	CHECK_STR(text_of("cg/memory/cove/box/memory.limit_in_bytes"), "100663296");
	CHECK_STR(text_of("cg/memory/cove/box/memory.memsw.limit_in_bytes"), "100663296");
	CHECK_STR(text_of("cg/memory/cove/box/memory.swappiness"), "0");
	CHECK_STR(text_of("cg/memory/cove/box/work/memory.limit_in_bytes"), "67108864");
	CHECK_STR(text_of("cg/memory/cove/box/work/memory.memsw.limit_in_bytes"), "67108864");
	CHECK_STR(text_of("cg/memory/cove/box/release_agent"), "");
	CHECK_STR(text_of("cg/memory/cove/box/notify_on_release"), "");
	CHECK_STR(text_of("cg/cpu,cpuacct/cove/box/cpu.cfs_period_us"), "100000");
	CHECK_STR(text_of("cg/cpu,cpuacct/cove/box/cpu.cfs_quota_us"), "150000");
	CHECK_STR(text_of("cg/pids/cove/box/pids.max"), "21");
	CHECK_STR(text_of("cg/block io/cove/box/blkio.throttle.read_bps_device"), "8:0 5242880");
	CHECK_STR(text_of("cg/block io/cove/box/blkio.throttle.write_bps_device"), "8:0 5242880");
	/* freezer, cpuacct (with cpu), memory, pids, blkio: the shared mount is joined once. */
	CHECK_EQ(cg.join_count, 5);
	CHECK(cg.v1_work_fd[CGROUP_MEMORY] >= 0);
	/* Throttling does not reach below: nobody may leave the group that has it. */
	CHECK_EQ(cg.v1_work_fd[CGROUP_IO], -1);
	CHECK_EQ(cg.fd, -1);
	cgroup_done(&cg);
}

/* The n-th place that a box is shown, as "name path" without the root of the test. */
static const char *shown(const struct cgroup *cg, unsigned n)
{
	static char text[CGROUP_VIEW_PATH_MAX + 16];

	snprintf(text, sizeof(text), "%s %s", cg->view->at[n].name,
		 cg->view->at[n].path + strlen(root));
	return text;
}

LAYOUT_TEST(a_box_is_shown_its_own_groups)
{
	struct cgroup_limits lim = all, one = {.pids = 7};
	struct cgroup_said said;
	struct cgroup cg;
	struct layout l;
	struct err e;

	fake_v2("sys/fs/cgroup");
	parse(v2_mounts, "", true, &l);
	make(&l, &lim, &cg);
	CHECK_EQ(cgroup_view_make(&l, "box", &cg, &e), 0);
	CHECK_EQ(cg.view->count, 1);
	CHECK_STR(shown(&cg, 0), " /sys/fs/cgroup/cove/box/work");
	cgroup_view_say(&cg, &lim, &said);
	CHECK_STR(said.memory, "67108864");
	CHECK_STR(said.cpu, "150000 100000");
	cgroup_done(&cg);
	CHECK(!cg.view);

	fake_v1();
	parse(v1_mounts, "", true, &l);
	make(&l, &lim, &cg);
	CHECK_EQ(cgroup_view_make(&l, "box", &cg, &e), 0);
	CHECK_EQ(cg.view->count, 3);
	CHECK_STR(shown(&cg, 0), "memory /cg/memory/cove/box/work");
	CHECK_STR(shown(&cg, 1), "cpu /cg/cpu,cpuacct/cove/box");
	CHECK_STR(shown(&cg, 2), "pids /cg/pids/cove/box");
	/* Where the group of a command is not found, the top is read. */
	cgroup_view_say(&cg, &lim, &said);
	CHECK_STR(said.memory, "");
	CHECK_STR(said.cpu, "");
	cgroup_done(&cg);

	/* Without a limit on processors it is in no group of its own there: none is shown. */
	make(&l, &one, &cg);
	CHECK_EQ(cgroup_view_make(&l, "box", &cg, &e), 0);
	CHECK_EQ(cg.view->count, 2);
	CHECK_STR(shown(&cg, 1), "pids /cg/pids/cove/box");
	cgroup_done(&cg);
}

LAYOUT_TEST(a_box_without_groups_is_shown_none)
{
	struct cgroup_limits none = {.mem_bytes = 0};
	struct cgroup_said said;
	struct cgroup cg;
	struct layout l;
	struct err e;

	parse("", "", true, &l);
	make(&l, &all, &cg);
	CHECK_EQ(cgroup_view_make(&l, "box", &cg, &e), 0);
	CHECK(!cg.view);
	cgroup_view_say(&cg, &all, &said);
	CHECK_STR(said.memory, "");
	cgroup_done(&cg);

	/* The tree alone, which ends and freezes it, tells of no limit. */
	fake_v2("sys/fs/cgroup");
	parse(v2_mounts, "", true, &l);
	make(&l, &none, &cg);
	CHECK_EQ(cgroup_view_make(&l, "box", &cg, &e), 0);
	CHECK(!cg.view);
	cgroup_done(&cg);
}

LAYOUT_TEST(v1_counts_io_per_command_where_it_is_not_limited)
{
	struct cgroup cg;
	struct layout l;

	fake_v1();
	parse(v1_mounts, "", true, &l);
	make(&l, &(struct cgroup_limits){.mem_bytes = 64 * MB, .cpu_milli = 5}, &cg);
	CHECK(cg.v1_work_fd[CGROUP_IO] >= 0);
	CHECK_STR(cg.why[CGROUP_IO], "");
	/* Half a percent of a cpu is too little for the usual period. */
	CHECK_STR(text_of("cg/cpu,cpuacct/cove/box/cpu.cfs_period_us"), "1000000");
	CHECK_STR(text_of("cg/cpu,cpuacct/cove/box/cpu.cfs_quota_us"), "5000");
	cgroup_done(&cg);
}

LAYOUT_TEST(v1_without_swap_accounting_still_limits_memory)
{
	char path[PATH_MAX];
	struct cgroup cg;
	struct layout l;

	fake_v1();
	snprintf(path, sizeof(path), "%s/cg/memory/cove/box/memory.memsw.limit_in_bytes", root);
	CHECK_EQ(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/cg/memory/cove/box/work/memory.memsw.limit_in_bytes",
		 root);
	CHECK_EQ(unlink(path), 0);
	parse(v1_mounts, "", true, &l);
	make(&l, &(struct cgroup_limits){.mem_bytes = 64 * MB}, &cg);
	CHECK_EQ(cg.limits, 1u << CGROUP_MEMORY);
	cgroup_done(&cg);
}

LAYOUT_TEST(a_controller_that_is_not_mounted_is_told)
{
	struct cgroup cg;
	struct layout l;

	fake_v1();
	fake("proc/cgroups", "memory\t4\t52\t1\npids\t0\t1\t1\n");
	parse("35 31 0:32 / /cg/pids rw - cgroup cgroup rw,pids\n"
	      "37 31 0:34 / /cg/freezer rw - cgroup cgroup rw,freezer\n",
	      "", true, &l);
	make(&l, &(struct cgroup_limits){.mem_bytes = 64 * MB, .pids = 4}, &cg);
	CHECK_EQ(cg.limits, 1u << CGROUP_PIDS);
	CHECK_STR(cg.why[CGROUP_MEMORY], "the memory controller is not mounted; boot with "
					 "systemd.unified_cgroup_hierarchy=1");
	cgroup_done(&cg);
}

LAYOUT_TEST(nothing_mounted_is_none)
{
	struct err e = {0};
	struct cgroup cg;
	struct layout l;
	int seen = 0;

	parse("22 27 0:21 / /proc rw - proc proc rw\n", "", true, &l);
	CHECK_STR(layout_name(&l), "none");
	make(&l, &all, &cg);
	CHECK_EQ(cg.can, 0);
	CHECK_STR(cg.why[CGROUP_TREE], "there is no cgroup mount; mount cgroup2 at /sys/fs/cgroup");
	CHECK(cgroup_freeze(&cg, true, &e) < 0);
	CHECK_EQ(e.kind, ERR_UNSUPPORTED);
	cgroup_done(&cg);
	CHECK_EQ(cgroup_remove_in(&l, "box", &e), 0);
	CHECK_EQ(cgroup_each_in(&l, NULL, &seen), 0);
}

static void count_box(const char *box, void *arg)
{
	*(int *)arg += strcmp(box, "box") == 0;
}

LAYOUT_TEST(each_looks_into_every_tree_once)
{
	struct layout l;
	int seen = 0;

	fake_v1();
	parse(v1_mounts, "", true, &l);
	CHECK_EQ(cgroup_each_in(&l, count_box, &seen), 0);
	CHECK_EQ(seen, 5);
}

LAYOUT_TEST(statistics_of_v2_and_v1_files)
{
	struct cgroup_stats s;
	struct cgroup cg;
	struct layout l;

	fake_v2("sys/fs/cgroup");
	parse(v2_mounts, "", true, &l);
	make(&l, &(struct cgroup_limits){.mem_bytes = 64 * MB}, &cg);
	fake("sys/fs/cgroup/cove/box/cpu.stat",
	     "usage_usec 7000\nuser_usec 1\nthrottled_usec 55\n");
	fake("sys/fs/cgroup/cove/box/memory.current", "4096\n");
	fake("sys/fs/cgroup/cove/box/memory.peak", "8192\n");
	fake("sys/fs/cgroup/cove/box/memory.events", "oom 5\noom_kill 3\noom_group_kill 0\n");
	fake("sys/fs/cgroup/cove/box/pids.current", "12\n");
	fake("sys/fs/cgroup/cove/box/pids.events", "max 4\n");
	fake("sys/fs/cgroup/cove/box/io.stat",
	     "8:0 rbytes=10 wbytes=20 rios=1\n7:1 rbytes=5 wbytes=26 dbytes=9\n");
	cgroup_stats(&cg, &s);
	CHECK_EQ(s.cpu_us, 7000);
	CHECK_EQ(s.throttled_us, 55);
	CHECK_EQ(s.mem_bytes, 4096);
	CHECK_EQ(s.mem_peak_bytes, 8192);
	CHECK_EQ(s.oom_kills, 3);
	CHECK_EQ(s.pids, 12);
	CHECK_EQ(s.pids_hits, 4);
	CHECK_EQ(s.io_read_bytes, 10); /* a loop device and its file's disk: the same bytes */
	CHECK_EQ(s.io_write_bytes, 26);
	cgroup_done(&cg);
	fake_v1();
	parse(v1_mounts, "", true, &l);
	make(&l, &(struct cgroup_limits){.mem_bytes = 64 * MB, .cpu_milli = 100}, &cg);
	fake("cg/cpu,cpuacct/cove/box/cpuacct.usage", "9000000\n");
	fake("cg/cpu,cpuacct/cove/box/cpu.stat", "nr_periods 1\nthrottled_time 2000\n");
	fake("cg/memory/cove/box/memory.oom_control", "oom_kill_disable 0\noom_kill 1\n");
	fake("cg/memory/cove/box/work/e1/memory.oom_control", "under_oom 0\noom_kill 2\n");
	fake("cg/block io/cove/box/blkio.throttle.io_service_bytes",
	     "8:0 Read 60\n8:0 Write 10\n8:0 Total 70\nTotal 70\n");
	fake("cg/block io/cove/box/e1/blkio.throttle.io_service_bytes",
	     "8:0 Read 40\n8:0 Write 5\n7:0 Write 20\n8:0 Total 45\nTotal 65\n");
	cgroup_stats(&cg, &s);
	CHECK_EQ(s.cpu_us, 9000);
	CHECK_EQ(s.throttled_us, 2);
	CHECK_EQ(s.oom_kills, 3);
	CHECK_EQ(s.io_read_bytes, 100);
	CHECK_EQ(s.io_write_bytes, 30);
	cgroup_done(&cg);
}

/* What a parser is given by nobody in particular. */

TEST(mount_lines_that_are_not_are_skipped)
{
	struct layout l;

	parse("- cgroup2 a rw\n - cgroup2\n1 2 3 4 5 6 - cgroup2 cgroup2 rw\n"
	      "1 2 0:3 / /x rw - cgroup2\n1 2 0:3 / x rw - cgroup2 none rw\n"
	      "1 2 0:3 / /y rw -cgroup2 none rw\n    - cgroup  \n"
	      "1 2 0:3 / /z rw shared:1 master:2 - cgroup2 none rw",
	      "", true, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "/z");
	parse("1 2 0:3 / /a rw - cgroup2 none ro\n1 2 0:3 / /b rw - cgroup2 none rw\n"
	      "1 2 0:3 / /c rw - cgroup2 none rw\n",
	      "", true, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "/b");
}

TEST(escapes_in_mount_points)
{
	struct layout l;

	parse("1 2 0:3 / /a\\040b\\011\\134\\012c\\0 rw - cgroup2 none rw\n", "", true, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "/a b\t\\\nc\\0");
	parse("1 2 0:3 / /a\\000b rw - cgroup2 none rw\n", "", true, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "/a");
	parse("1 2 0:3 / /a\\777\\4\\ rw - cgroup2 none rw\n", "", true, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "/a\\777\\4\\");
}

TEST(words_in_options_are_whole_words)
{
	struct layout l;

	parse("1 2 0:3 / /a rw - cgroup none rw,cpuset\n1 2 0:3 / /b rw - cgroup none rw,memoryx\n"
	      "1 2 0:3 / /c rw - cgroup none rw,name=memory\n",
	      "", true, &l);
	CHECK_STR(layout_name(&l), "none");
}

TEST(a_part_of_a_tree_that_is_mounted)
{
	struct layout l;

	parse("1 2 0:3 /docker/x /cg rw - cgroup2 none rw\n", "0::/docker/x/a\n", false, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "/cg/a");
	parse("1 2 0:3 /docker/x /cg rw - cgroup2 none rw\n", "0::/docker/xy\n", false, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "");
	parse("1 2 0:3 / /cg rw - cgroup2 none rw\n", "0::/../elsewhere\n", false, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "");
	parse("1 2 0:3 / /cg rw - cgroup2 none rw\n", "garbage\n::\n0:\n0::\n", false, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "");
}

TEST(paths_that_do_not_fit_are_not_cut)
{
	autofree char *line = malloc(200000);
	autofree char *own = malloc(100000);
	struct layout l;
	int n = snprintf(line, 100, "1 2 0:3 / /");

	memset(line + n, 'a', 150000);
	snprintf(line + n + 150000, 100, " rw - cgroup2 none rw\n");
	parse(line, "", true, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "");
	n = snprintf(own, 100, "0::/");
	memset(own + n, 'b', 90000);
	own[n + 90000] = 0;
	parse(v2_mounts, own, false, &l);
	CHECK_STR(l.dir[LAYOUT_V2].path, "");
	memset(own, ',', 90000);
	memcpy(own, "1:", 2);
	memcpy(own + 90000, ":/x", 4);
	parse(v1_mounts, own, false, &l);
	CHECK_STR(layout_name(&l), "none");
}

/* Any bytes: nothing is read or written beyond them (the sanitizers look), every path that comes
 * out is one of a mount, and the same bytes give the same answer. */
TEST(any_bytes)
{
	static const char alphabet[] = "/ -\\04\n,:cgroup2 rw memory - cgroup ";
	struct layout one, two;
	char text[400], self[100];
	unsigned seed = 1;

	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)i % (sizeof(text) - 1), m = (size_t)i % (sizeof(self) - 1);

		for (size_t k = 0; k < n; k++) {
			seed = seed * 1103515245 + 12345;
			text[k] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
		}
		if (n > 60)
			memcpy(text + n / 2, " - cgroup2 none rw\n", 19);
		text[n] = 0;
		memcpy(self, text, m);
		self[m] = 0;
		parse(text, self, i % 2, &one);
		parse(text, self, i % 2, &two);
		CHECK_MEM(&one, &two, sizeof(one));
		for (int t = 0; t < LAYOUT_COUNT; t++)
			CHECK(!one.dir[t].path[0] || one.dir[t].path[0] == '/');
	}
}

TAP_MAIN
