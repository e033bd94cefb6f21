/* What a command used, from files as the kernel writes them: both layouts, and what is broken. */
#include "init/usage.h"
#include "tap.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

static char dir[64];

static int make_dir(const char *name)
{
	char path[128];

	if (!dir[0]) {
		strcpy(dir, "/tmp/cove-usage-XXXXXX");
		CHECK(mkdtemp(dir) != NULL);
	}
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK_EQ(mkdir(path, 0755), 0);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put(int fd, const char *name, const char *text)
{
	CHECK_EQ(fd_write_file(fd, name, text, strlen(text), 0644, false), 0);
}

static void remove_dir(void)
{
	char line[96];

	snprintf(line, sizeof(line), "rm -r %s", dir);
	CHECK_EQ(system(line), 0);
}

/* A group e1 of that kind, with the files of a real one put there by the test. */
static void make_tree(struct init_tree *t, struct init_tree_groups *g, unsigned kinds)
{
	static const char *const names[TREE_KINDS] = {"v2", "memory", "io"};

	*g = TREE_GROUPS_NONE;
	for (int i = 0; i < TREE_KINDS; i++)
		if (kinds & 1u << i)
			g->fd[i] = make_dir(names[i]);
	CHECK_EQ(init_tree_init(t, g, 1), 0);
}

TEST(a_v2_group_tells_everything)
{
	struct init_tree_groups g;
	struct init_tree t;
	struct usage u;

	make_tree(&t, &g, 1u << TREE_V2);
	put(t.fd[TREE_V2], "cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n");
	put(t.fd[TREE_V2], "memory.peak", "1048576\n");
	put(t.fd[TREE_V2], "memory.events",
	    "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
	put(t.fd[TREE_V2], "io.stat",
	    "8:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=0 dios=0\n"
	    "254:1 rbytes=11 wbytes=13 rios=1 wios=1 dbytes=999 dios=0\n");
	put(t.fd[TREE_V2], "pids.events", "max 4\n");
	usage_read(&t, &u);
	CHECK_EQ(u.cpu_us, 1500);
	CHECK_EQ(u.mem_peak_bytes, 1048576);
	CHECK_EQ(u.oom_kills, 2);
	CHECK_EQ(u.io_read_bytes, 111);
	CHECK_EQ(u.io_write_bytes, 20);
	CHECK_EQ(u.pids_hits, 4);
	init_tree_done(&t);
	remove_dir();
}

TEST(v1_groups_tell_everything)
{
	struct init_tree_groups g;
	struct init_tree t;
	struct usage u;

	make_tree(&t, &g, 7);
	put(t.fd[TREE_V2], "cpu.stat", "nice_usec 3\nusage_usec 77\n");
	put(t.fd[TREE_MEMORY], "memory.max_usage_in_bytes", "4096\n");
	put(t.fd[TREE_MEMORY], "memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 1\noom_kill 5\n");
	put(t.fd[TREE_IO], "blkio.throttle.io_service_bytes",
	    "8:0 Read 10\n8:0 Write 20\n8:0 Sync 30\n8:0 Async 0\n8:0 Discard 0\n8:0 Total 30\n"
	    "Total 30\n");
	autoclose int pids = make_dir("pids");
	put(pids, "pids.events", "max 9\n");
	g.pids_events_fd = openat(pids, "pids.events", O_RDONLY | O_CLOEXEC);
	usage_read(&t, &u);
	CHECK_EQ(u.cpu_us, 77);
	CHECK_EQ(u.mem_peak_bytes, 4096);
	CHECK_EQ(u.oom_kills, 5);
	CHECK_EQ(u.io_read_bytes, 10);
	CHECK_EQ(u.io_write_bytes, 20);
	CHECK_EQ(u.pids_hits, 9);
	CHECK_EQ(usage_pids_hits(&g, NULL), 9);
	init_tree_done(&t);
	remove_dir();
}

/* A loop device's own numbers and those of the disk below it are the same bytes. */
TEST(what_goes_through_a_loop_device_is_counted_once)
{
	struct init_tree_groups g;
	struct init_tree t;
	struct usage u;

	make_tree(&t, &g, 1u << TREE_V2);
	put(t.fd[TREE_V2], "io.stat",
	    "7:3 rbytes=50 wbytes=400 rios=1 wios=1\n8:0 rbytes=60 wbytes=300 rios=1 wios=1\n");
	usage_read(&t, &u);
	CHECK_EQ(u.io_read_bytes, 60);
	CHECK_EQ(u.io_write_bytes, 400);
	init_tree_done(&t);
	remove_dir();
}

TEST(what_is_missing_or_broken_is_nothing)
{
	struct init_tree_groups g;
	struct init_tree t;
	struct usage u;

	make_tree(&t, &g, 3);
	put(t.fd[TREE_V2], "cpu.stat", "");
	put(t.fd[TREE_V2], "memory.peak", "17\n"); /* the v1 file would come first */
	put(t.fd[TREE_V2], "io.stat", "8:0\nrbytes=5\n\n\nnonsense rbytes=\n");
	put(t.fd[TREE_MEMORY], "memory.oom_control", "oom_kill_disable 7\nxoom_kill 1\noom_kill");
	usage_read(&t, &u);
	CHECK_EQ(u.cpu_us, 0);
	CHECK_EQ(u.mem_peak_bytes, 17);
	CHECK_EQ(u.io_read_bytes, 0);
	CHECK_EQ(u.io_write_bytes, 0);
	CHECK_EQ(u.oom_kills, 0);
	CHECK_EQ(u.pids_hits, 0);
	init_tree_done(&t);
	t = TREE_NONE;
	usage_read(&t, &u);
	CHECK_EQ(u.cpu_us, 0);
	usage_reset_peak(&t);
	CHECK_EQ(usage_pids_hits(NULL, NULL), 0);
	remove_dir();
}

TEST(a_peak_is_reset_by_a_write)
{
	struct init_tree_groups g;
	struct init_tree t;
	struct usage u;
	char byte;

	make_tree(&t, &g, 2);
	put(t.fd[TREE_MEMORY], "memory.max_usage_in_bytes", "9");
	usage_read(&t, &u);
	CHECK_EQ(u.mem_peak_bytes, 9);
	usage_reset_peak(&t);
	CHECK_EQ(pread(t.stat_fd[1], &byte, 1, 0), 1);
	CHECK_EQ(byte, '0');
	init_tree_done(&t);
	remove_dir();
}

TEST(differences_add_up_and_never_wrap)
{
	struct usage sum = {0}, a = {.cpu_us = 10, .mem_peak_bytes = 5, .oom_kills = 1},
		     b = {.cpu_us = 30, .mem_peak_bytes = 4, .oom_kills = 1, .pids_hits = 2};

	usage_add(&sum, &(struct usage){0}, &a);
	usage_add(&sum, &a, &b);
	CHECK_EQ(sum.cpu_us, 30);
	CHECK_EQ(sum.mem_peak_bytes, 5);
	CHECK_EQ(sum.oom_kills, 1);
	CHECK_EQ(sum.pids_hits, 2);
	usage_add(&sum, &b, &(struct usage){0});
	CHECK_EQ(sum.cpu_us, 30);
}

TEST(causes_only_of_what_failed)
{
	struct init in = {.groups = TREE_GROUPS_NONE};
	struct usage all = {.oom_kills = 1, .pids_hits = 1}, pids = {.pids_hits = 1}, none = {0};

	CHECK_STR(usage_cause(&in, &all, false, "/", "exit"), "exit");
	CHECK_STR(usage_cause(&in, &all, true, "/", "exit"), "oom");
	CHECK_STR(usage_cause(&in, &pids, true, NULL, "signal"), "pids");
	CHECK_STR(usage_cause(&in, &none, true, NULL, "signal"), "signal");
	in.disk_limit = 1; /* no file system is so small */
	CHECK_STR(usage_cause(&in, &none, true, "/tmp", "exit"), "exit");
	CHECK(!disk_is_full(&in, "/nothing/there"));
}

/* Only what v1 has: members are told by its own list there. */
TEST(notes_name_what_does_not_work)
{
	struct init_tree_groups g = TREE_GROUPS_NONE;
	char notes[1024];

	init_tree_groups_check(&g, notes, sizeof(notes));
	CHECK(strncmp(notes, "no cgroup: ", 11) == 0);
	for (int i = 0; i < TREE_KINDS; i++)
		g.fd[i] = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	init_tree_groups_check(&g, notes, sizeof(notes));
	CHECK(strstr(notes, "the box's cgroup cannot be used") != NULL);
	CHECK(strstr(notes, "the box's memory cgroup cannot be used") != NULL);
	CHECK(strstr(notes, "the box's block I/O cgroup cannot be used") != NULL);
	for (int i = 0; i < TREE_KINDS; i++)
		CHECK_EQ(g.fd[i], -1);
}

TAP_MAIN
