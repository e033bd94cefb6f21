/* Which host ids a box's ids are: ranges never shared, maps right, work done inside the map. */
#include "storage/ids.h"

#include "base/child.h"
#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { HOLDERS = 64 };

static char run_dir[64];

static void make_run_dir(void)
{
	snprintf(run_dir, sizeof(run_dir), "/tmp/cove-ids-XXXXXX");
	CHECK(mkdtemp(run_dir) != NULL);
}

static void remove_run_dir(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/" IDS_RANGES_FILE, run_dir);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(rmdir(run_dir), 0);
}

TEST(ranges_held_at_once_never_overlap)
{
	struct ids ids[HOLDERS] = {0};
	int locks[HOLDERS];
	struct err e;

	make_run_dir();
	for (int i = 0; i < HOLDERS; i++) {
		CHECK_EQ(ids_range_take(&ids[i], run_dir, &locks[i], &e), 0);
		CHECK_EQ(ids[i].uid_base % IDS_COUNT, 0);
		for (int k = 0; k < i; k++)
			CHECK(ids[k].uid_base != ids[i].uid_base);
	}
	for (int i = 0; i < HOLDERS; i++)
		close(locks[i]);
	remove_run_dir();
}

TEST(a_killed_holder_gives_its_range_back)
{
	static int locks[IDS_SLOT_LAST - IDS_SLOT_FIRST + 1];
	const struct rlimit files = {8192, 8192};
	struct ids ids = {0};
	struct err e;
	int lock, status;
	pid_t pid;

	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		SKIP("cannot open enough files");

	make_run_dir();
	pid = fork();
	if (pid == 0) {
		CHECK_EQ(ids_range_take(&ids, run_dir, &lock, &e), 0);
		raise(SIGKILL);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	/* All of them can be taken, the one it had among them. */
	for (unsigned i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		CHECK_EQ(ids_range_take(&ids, run_dir, &locks[i], &e), 0);
	CHECK_EQ(ids_range_take(&ids, run_dir, &lock, &e), -EAGAIN);
	CHECK_EQ(e.kind, ERR_LIMIT);
	remove_run_dir();
}

TEST(a_range_that_a_box_of_an_older_cove_has_is_not_taken)
{
	const unsigned last = IDS_SLOT_LAST;
	char path[96];
	struct ids ids = {0};
	struct err e;
	int lock;

	make_run_dir();
	snprintf(path, sizeof(path), "%s/.ranges", run_dir);
	CHECK_EQ(mkdir(path, 0700), 0);
	for (unsigned slot = IDS_SLOT_FIRST; slot < last; slot++) {
		snprintf(path, sizeof(path), "%s/.ranges/%x", run_dir, slot);
		CHECK_EQ(mknod(path, S_IFREG | 0600, 0), 0);
	}
	CHECK_EQ(ids_range_take(&ids, run_dir, &lock, &e), 0);
	CHECK_EQ(ids.uid_base >> 16, last);
	CHECK_EQ(ids_range_take(&ids, run_dir, &lock, &e), -EAGAIN);
	for (unsigned slot = IDS_SLOT_FIRST; slot < last; slot++) {
		snprintf(path, sizeof(path), "%s/.ranges/%x", run_dir, slot);
		CHECK_EQ(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/.ranges", run_dir);
	CHECK_EQ(rmdir(path), 0);
	remove_run_dir();
}

TEST(an_unwritable_runtime_directory_is_an_error)
{
	struct ids ids = {0};
	struct err e = {0};
	int lock;

	CHECK(ids_range_take(&ids, "/proc/no/such", &lock, &e) < 0);
	CHECK(strstr(e.msg, "/proc/no/such") != NULL);
}

TEST(host_ids_follow_the_kind_of_map)
{
	struct ids range = {.kind = IDS_RANGE, .uid_base = 0x70000000};
	struct ids sub = {.kind = IDS_SUBORDINATE,
			  .sub_uid = 100000,
			  .sub_gid = 200000,
			  .caller_uid = 1234,
			  .caller_gid = 1235};
	struct ids single = {.kind = IDS_SINGLE, .caller_uid = 1234, .caller_gid = 1235};

	CHECK_EQ(ids_host_uid(&range, 0), 0x70000000);
	CHECK_EQ(ids_host_gid(&range, 1000), 0x70000000 + 1000);
	CHECK_EQ(ids_host_uid(&sub, 0), 100000);
	CHECK_EQ(ids_host_uid(&sub, 999), 100999);
	CHECK_EQ(ids_host_uid(&sub, 1000), 1234);
	CHECK_EQ(ids_host_gid(&sub, 1000), 1235);
	CHECK_EQ(ids_host_uid(&sub, 1001), 101000);
	CHECK_EQ(ids_host_gid(&sub, 65535), 265534);
	CHECK_EQ(ids_host_uid(&single, 1000), 1234);
}

static int return_seven(void *arg)
{
	*(int *)arg = 1; /* in the child: the caller must not see it */
	return 7;
}

TEST(work_inside_runs_in_a_process_of_its_own)
{
	struct ids ids;
	struct err e = {0};
	int touched = 0;

	CHECK_EQ(ids_detect(&ids, NULL, 0, &e), 0);
	CHECK_EQ(ids_run_inside(&ids, return_seven, &touched, &e), 7);
	CHECK_EQ(touched, 0);
}

static int who_am_i(void *arg)
{
	return getuid() == (uid_t)(uintptr_t)arg ? 0 : 1;
}

TEST(work_inside_is_box_root_or_the_single_user)
{
	struct ids ids;
	struct err e = {0};
	uid_t want;

	CHECK_EQ(ids_detect(&ids, NULL, 0, &e), 0);
	want = ids.kind == IDS_SINGLE ? IDS_USER : 0;
	CHECK_EQ(ids_run_inside(&ids, who_am_i, (void *)(uintptr_t)want, &e), 0);
}

static atomic_int children, signals;
static atomic_bool over;

static void on_child(int sig)
{
	(void)sig;
	signals++;
}

/* A program that has threads, and reaps whatever child there is. */
static void *reap_all(void *arg)
{
	while (!over) {
		children += waitpid(-1, NULL, WNOHANG) >= 0;
		free(malloc(4096));
	}
	return arg;
}

static int allocate(void *arg)
{
	for (size_t n = 1; n < 1 << 20; n *= 2)
		free(malloc(n));
	*(char *)arg = 1;
	return 5;
}

TEST(work_inside_makes_no_child_of_the_callers)
{
	sigset_t before = {0}, after = {0};
	struct err e = {0};
	pthread_t thread;
	struct ids ids;
	char done = 0;

	CHECK_EQ(ids_detect(&ids, NULL, 0, &e), 0);
	CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
	sigprocmask(SIG_SETMASK, NULL, &before);
	CHECK_EQ(pthread_create(&thread, NULL, reap_all, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(ids_run_inside(&ids, allocate, &done, &e), 5);
	over = true;
	pthread_join(thread, NULL);
	sigprocmask(SIG_SETMASK, NULL, &after);
	CHECK_EQ(memcmp(&before, &after, sizeof(before)), 0);
	CHECK_EQ(children, 0);
	CHECK_EQ(signals, 0);
	CHECK_EQ(done, 0);
	CHECK_EQ(waitpid(-1, NULL, __WALL), -1);
	/* Nor does it need SIGCHLD for itself. */
	CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	CHECK_EQ(ids_run_inside(&ids, allocate, &done, &e), 5);
}

/* Says that it runs, and goes on until it is ended. */
static int work_for_ever(void *arg)
{
	if (write(*(int *)arg, "w", 1) != 1)
		return 1;
	for (;;)
		pause();
}

/* The end that came over the pipe is that of the last process which had it open. */
static void ends_with_its_caller(int sig)
{
	struct err e = {0};
	struct ids ids;
	int pipes[2];
	char word;
	pid_t pid;

	CHECK_EQ(ids_detect(&ids, NULL, 0, &e), 0);
	CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		_exit(ids_run_inside(&ids, work_for_ever, &pipes[1], &e) == 0);
	close(pipes[1]);
	CHECK_EQ(read(pipes[0], &word, 1), 1);
	CHECK_EQ(kill(pid, sig), 0);
	CHECK_EQ(read(pipes[0], &word, 1), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	close(pipes[0]);
}

TEST(work_inside_ends_when_its_caller_is_ended)
{
	ends_with_its_caller(SIGINT);
	ends_with_its_caller(SIGTERM);
	ends_with_its_caller(SIGKILL);
}

static _Atomic(bool) begins;

static void *kill_all(void *arg)
{
	while (!begins)
		;
	for (volatile int i = *(int *)arg; i > 0; i--)
		;
	kill(getpid(), SIGKILL);
	return NULL;
}

/* Longer than the test waits for its end. */
static int work_long(void *arg)
{
	(void)arg;
	return (int)sleep(20);
}

/* The moments are some microseconds apart, from before there is a helper to after it runs. */
TEST(a_helper_ends_with_its_caller_whenever_that_is_killed)
{
	for (int turns = 0; turns < 120000; turns += 800) {
		struct pollfd end = {.events = POLLIN};
		struct child_forked child;
		pthread_t killer;
		int pipes[2];
		pid_t pid;

		CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0) {
			CHECK_EQ(pthread_create(&killer, NULL, kill_all, &turns), 0);
			begins = true;
			CHECK_EQ(child_fork(work_long, NULL, &child), 0);
			child_forked_wait(&child);
		}
		close(pipes[1]);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		end.fd = pipes[0];
		CHECK_EQ(poll(&end, 1, 10000), 1);
		close(pipes[0]);
	}
}

static int die(void *arg)
{
	(void)arg;
	return kill(getpid(), SIGKILL);
}

TEST(work_inside_that_is_killed_is_an_error)
{
	struct err e = {0};
	struct ids ids;

	CHECK_EQ(ids_detect(&ids, NULL, 0, &e), 0);
	CHECK_EQ(ids_run_inside(&ids, die, NULL, &e), -EINTR);
	CHECK_EQ(e.kind, ERR_INTERNAL);
}

TEST(a_mount_namespace_shows_the_owner_as_the_boxs_user)
{
	struct ids ids = {.kind = IDS_RANGE, .uid_base = 0x70000000};
	struct err e = {0};
	struct stat st;

	if (getuid() != 0)
		SKIP("id-mapped mounts are made by root only");
	autoclose int ns = ids_mount_ns(&ids, 0, 0, &e);
	CHECK(ns >= 0);
	CHECK_EQ(fstat(ns, &st), 0);
}

TAP_MAIN
