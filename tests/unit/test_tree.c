/* Ending a command's tree: by a walk, as anybody, and by a cgroup where one can be made. */
#include "init/tree.h"
#include "tap.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

struct leader {
	pid_t pid;
	int gate; /* its input: closing it lets a `read` in its line go on */
};

/* Starts a shell line as a leader that keeps its orphans, and waits until it wrote a byte. */
static struct leader start_leader(const char *line)
{
	struct leader l;
	int out[2], in[2];
	char byte;

	CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
	CHECK_EQ(pipe2(in, O_CLOEXEC), 0);
	l.pid = fork();
	CHECK(l.pid >= 0);
	if (l.pid == 0) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	close(out[1]);
	close(in[0]);
	CHECK_EQ(read(out[0], &byte, 1), 1);
	close(out[0]);
	l.gate = in[1];
	return l;
}

/* Waits a little; fails the test when that was too often. */
static void wait_a_bit(int *rounds)
{
	CHECK(++*rounds < 4000);
	poll(NULL, 0, 5);
}

static int end_tree(struct init_tree *t, pid_t except_pid)
{
	int seen, most = 0, rounds = 0;

	while ((seen = init_tree_kill(t, except_pid)) > 0) {
		if (seen > most)
			most = seen;
		wait_a_bit(&rounds);
	}
	return most;
}

static void check_killed(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGKILL);
}

TEST(a_walk_ends_everybody)
{
	struct init_tree t;
	pid_t pid = start_leader("trap '' TERM; setsid sleep 1000 & (setsid sleep 1000 &) ; "
				 "(sh -c 'sleep 1000 & sleep 1000' &); sleep 0.2; echo x; wait")
			    .pid;

	CHECK_EQ(init_tree_init(&t, NULL, 1), 0);
	t.root = pid;
	CHECK(init_tree_signal(&t, 0, 0) > 0);
	CHECK(end_tree(&t, 0) >= 5);
	CHECK_EQ(init_tree_signal(&t, 0, 0), 0);
	check_killed(pid);
	init_tree_done(&t);
}

TEST(a_walk_outruns_forks)
{
	struct init_tree t;
	pid_t pid =
		start_leader("echo x; while :; do sleep 0.05 & sleep 1000 & sleep 0.001; done").pid;

	CHECK_EQ(init_tree_init(&t, NULL, 1), 0);
	t.root = pid;
	end_tree(&t, 0);
	check_killed(pid);
	CHECK_EQ(init_tree_signal(&t, 0, 0), 0);
	init_tree_done(&t);
}

/* What an earlier line left, and what that starts later, is not the tree's. */
TEST(kept_processes_and_the_spared_one_stay)
{
	struct init_tree t;
	int rounds = 0, status;
	struct leader l =
		start_leader("(while :; do sleep 0.02; done) & echo x; read y; sleep 1000 & "
			     "sleep 1000 & while :; do sleep 0.02; done 2>/dev/null");
	pid_t pid = l.pid;

	CHECK_EQ(init_tree_init(&t, NULL, 1), 0);
	t.root = pid;
	init_tree_keep_current(&t, pid);
	CHECK(t.keep_count >= 1);
	close(l.gate);
	while (init_tree_signal(&t, 0, pid) < 2)
		wait_a_bit(&rounds);
	CHECK(init_tree_kill(&t, pid) >= 2);
	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	free(t.keep);
	t.keep = NULL;
	t.keep_count = 0;
	CHECK(end_tree(&t, 0) >= 2); /* the loop that was kept, and the leader */
	check_killed(pid);
	init_tree_done(&t);
}

TEST(without_a_root_there_is_no_tree)
{
	struct init_tree_groups none = TREE_GROUPS_NONE;
	struct init_tree t;

	CHECK_EQ(init_tree_init(&t, NULL, 1), 0);
	CHECK_EQ(init_tree_signal(&t, 0, 0), 0);
	CHECK_EQ(init_tree_kill(&t, 0), 0);
	CHECK_EQ(init_tree_enter(&t, getpid(), getuid()), 0);
	init_tree_done(&t);
	init_tree_sweep(&none);
}

/* A group for the test with an `init` below it, or the test is skipped. */
static int make_group(char *ret, size_t size)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[64];

	for (size_t i = 0; i < 2; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/cgroup.procs", mounts[i]);
		snprintf(ret, size, "%s/cove-tree-%d", mounts[i], (int)getpid());
		if (access(path, F_OK) < 0 || mkdir(ret, 0755) < 0)
			continue;
		fd = open(ret, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK_EQ(mkdirat(fd, "init", 0755), 0);
		return fd;
	}
	SKIP("no cgroup v2 that may be written to");
	return -1;
}

static void remove_group(int fd, const char *path)
{
	int rounds = 0;

	unlinkat(fd, "init", AT_REMOVEDIR);
	close(fd);
	while (rmdir(path) < 0)
		wait_a_bit(&rounds);
}

TEST(a_group_ends_as_a_whole_or_but_one)
{
	char path[64];
	struct init_tree_groups g = TREE_GROUPS_NONE;
	struct init_tree t;
	int fd = g.fd[TREE_V2] = make_group(path, sizeof(path)), rounds = 0, status;
	struct leader l = start_leader("echo x; read y; setsid sleep 1000 & sleep 1000 & wait");
	pid_t pid = l.pid;

	CHECK_EQ(init_tree_init(&t, &g, 7), 0);
	CHECK_EQ(init_tree_signal(&t, 0, 0), 0);
	CHECK_EQ(init_tree_enter(&t, pid, getuid()), 0);
	CHECK(init_tree_signal(&t, 0, 0) > 0);
	close(l.gate);
	while (init_tree_signal(&t, 0, pid) < 2)
		wait_a_bit(&rounds);
	CHECK(end_tree(&t, pid) >= 2);
	waitpid(pid, &status, 0); /* its `wait` is over */
	CHECK(WIFEXITED(status));
	CHECK_EQ(init_tree_signal(&t, 0, 0), 0);
	pid = start_leader("echo x; sleep 1000").pid;
	CHECK_EQ(init_tree_enter(&t, pid, getuid()), 0);
	end_tree(&t, 0);
	check_killed(pid);
	init_tree_done(&t);
	CHECK(faccessat(fd, "e7", F_OK, 0) < 0);
	remove_group(fd, path);
}

/* A hierarchy of cgroup v1 can neither freeze nor kill, but nobody leaves its groups. */
TEST(a_v1_group_alone_ends_everybody)
{
	char path[64];
	struct init_tree_groups g = TREE_GROUPS_NONE;
	struct init_tree t;
	struct leader l;
	int fd, rounds = 0;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/memory/cove-tree-%d", (int)getpid());
	if (access("/sys/fs/cgroup/memory/tasks", F_OK) < 0 || mkdir(path, 0755) < 0)
		SKIP("no cgroup v1 that may be written to");
	fd = g.fd[TREE_MEMORY] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	l = start_leader(
		"echo x; read y; while [ $((i=i+1)) -lt 500 ]; do "
		"(setsid sh -c 'setsid sleep 1000 & sleep 1000' &); done; exec sleep 1000");
	CHECK_EQ(init_tree_init(&t, &g, 7), 0);
	CHECK_EQ(init_tree_enter(&t, l.pid, getuid()), 0);
	close(l.gate);
	while (init_tree_signal(&t, 0, l.pid) < 50)
		wait_a_bit(&rounds);
	CHECK(end_tree(&t, l.pid) >= 50); /* the one that is spared goes on making more */
	CHECK(kill(l.pid, 0) == 0);
	end_tree(&t, 0);
	check_killed(l.pid);
	init_tree_done(&t);
	CHECK(faccessat(fd, "e7", F_OK, 0) < 0);
	close(fd);
	while (rmdir(path) < 0)
		wait_a_bit(&rounds);
}

/* A long line of parents, each the only child of another. */
TEST(a_deep_tree_is_found_to_its_end)
{
	enum { DEPTH = 300 };
	struct init_tree t;
	int rounds = 0;
	pid_t pid = start_leader("echo x; f() { [ $1 -eq 0 ] || (f $(($1 - 1)); :); sleep 1000; }; "
				 "f 300")
			    .pid;

	CHECK_EQ(init_tree_init(&t, NULL, 1), 0);
	t.root = pid;
	while (init_tree_signal(&t, 0, 0) < DEPTH)
		wait_a_bit(&rounds);
	CHECK(end_tree(&t, 0) >= DEPTH);
	check_killed(pid);
	init_tree_done(&t);
}

TEST(a_left_group_is_swept_when_empty)
{
	char path[64];
	struct init_tree_groups g = TREE_GROUPS_NONE;
	struct init_tree left, fresh;
	int fd = g.fd[TREE_V2] = make_group(path, sizeof(path));
	pid_t pid = start_leader("echo x; exec sleep 1000").pid;
	int rounds = 0;

	CHECK_EQ(init_tree_init(&left, &g, 1), 0);
	CHECK_EQ(init_tree_init(&fresh, &g, 2), 0);
	CHECK_EQ(init_tree_enter(&left, pid, getuid()), 0);
	init_tree_done(&left);
	init_tree_sweep(&g);
	CHECK_EQ(faccessat(fd, "e1", F_OK, 0), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (faccessat(fd, "e1", F_OK, 0) == 0) {
		init_tree_sweep(&g);
		wait_a_bit(&rounds);
	}
	CHECK_EQ(faccessat(fd, "e2", F_OK, 0), 0); /* empty, but nobody left it */
	init_tree_done(&fresh);
	remove_group(fd, path);
}

TAP_MAIN
