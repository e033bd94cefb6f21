/*
 * A kernel that lacks the newer system calls, as one that a wall brings may: a filter answers
 * ENOSYS to them. init finds out, says what is weaker, and works.
 */
#include "exec_client.h"
#include "old_kernel.h"
#include "shell_client.h"
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "guest/open.h"

#include <fcntl.h>
#include <sys/stat.h>

TEST(commands_and_lines_run)
{
	struct client *c;
	struct run *r;

	become_old();
	c = shells_begin();
	CHECK(strstr(c->notes, "openat2") != NULL);
	r = run_finished(c, "ls /proc/self/fd; exit 3");
	run_check_exit(r, 3);
	CHECK_STR(run_out(r), "0\n1\n2\n3\n");
	expect(c, "cd /; x=5", 0, "");
	expect(c, "pwd; echo $x", 0, "/\n5\n");
	timed(c, "sleep 1000", 100);
	r = run_start(
		c, &(struct wire_exec){
			   .line = "tty >/dev/null; stty size", .pty = 1, .rows = 30, .cols = 70});
	run_wait(c, r);
	run_check_exit(r, 0);
	CHECK_STR(run_out(r), "30 70\r\n");
	r = run_start(c, &(struct wire_exec){.line = "sleep 1000", .timeout_ms = 100});
	run_wait(c, r);
	CHECK_STR(r->cause, "timeout");
	shells_end(c);
}

TEST(a_link_of_proc_is_no_working_directory)
{
	struct client *c;
	struct run *r;

	become_old();
	c = shells_begin();
	r = run_start(c, &(struct wire_exec){.line = "true", .cwd = "/proc/self/cwd"});
	run_wait(c, r);
	CHECK_EQ(r->code, ELOOP);
	r = run_start(c, &(struct wire_exec){.line = "true", .cwd = "/proc/1/root/tmp"});
	run_wait(c, r);
	CHECK_EQ(r->code, ELOOP);
	r = run_start(c, &(struct wire_exec){.line = "true", .cwd = "/no/such/place"});
	run_wait(c, r);
	CHECK_EQ(r->code, ENOTDIR);
	shells_end(c);
}

/* --- the walk gives what openat2 gives --- */

static const char *const paths[] = {"a",
				    "a/",
				    "a/f",
				    "a/f/",
				    "a//b/../f",
				    "./a/./f",
				    ".",
				    "..",
				    "",
				    "none",
				    "none/x",
				    "a/none",
				    "to-a",
				    "to-a/",
				    "to-a/f",
				    "to-f",
				    "to-f/",
				    "up/f",
				    "chain",
				    "loop",
				    "loop/x",
				    "dangling",
				    "absolute",
				    "proc",
				    "magic",
				    "fifo",
				    "/",
				    "//",
				    "/proc",
				    "a/f/x",
				    "closed",
				    "closed/x",
				    "/proc/self/fd/0",
				    "/proc/mounts",
				    "root"};

static const struct {
	int flags;
	uint64_t resolve;
} ways[] = {
	{O_PATH, FD_NO_MAGICLINKS},
	{O_PATH | O_DIRECTORY, FD_NO_MAGICLINKS},
	{O_PATH | O_NOFOLLOW, FD_NO_MAGICLINKS},
	{O_RDONLY | O_NONBLOCK | O_NOCTTY, FD_NO_MAGICLINKS},
	{O_RDONLY | O_NONBLOCK, FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS},
	{O_RDONLY | O_DIRECTORY, FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS},
	{O_PATH, FD_IN_ROOT | FD_NO_MAGICLINKS},
	{O_RDONLY | O_NONBLOCK, FD_IN_ROOT | FD_NO_MAGICLINKS},
	{O_PATH, FD_IN_ROOT | FD_NO_MAGICLINKS | FD_NO_SYMLINKS},
	{O_PATH | O_DIRECTORY, FD_IN_ROOT | FD_NO_XDEV | FD_NO_MAGICLINKS},
};
enum { PATHS = sizeof(paths) / sizeof(*paths), WAYS = sizeof(ways) / sizeof(*ways) };

struct answer {
	int code;
	ino_t ino;
	mode_t mode;
};

/* What stays in a root begins at this process's own. */
static struct answer answer_of(const char *dir, int p, int w)
{
	bool in_root = ways[w].resolve & FD_IN_ROOT;
	autoclose int from = open(in_root ? "/" : dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct answer a = {0};
	char path[96];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s%s%s", in_root ? dir : "", in_root ? "/" : "", paths[p]);
	fd = guest_open_at(from, path, ways[w].flags, ways[w].resolve);
	a.code = fd < 0 ? fd : 0;
	if (fd >= 0) {
		CHECK_EQ(fstat(fd, &st), 0);
		CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		a.ino = st.st_ino;
		a.mode = st.st_mode;
		close(fd);
	}
	return a;
}

TEST(a_walk_answers_as_the_kernel_does)
{
	static struct answer by_kernel[PATHS][WAYS];
	char dir[] = "/tmp/cove-open-XXXXXX", line[64];

	CHECK(mkdtemp(dir) != NULL);
	CHECK_EQ(chdir(dir), 0);
	CHECK_EQ(system("mkdir -p a/b closed; echo x > a/f; ln -s a to-a; ln -s a/f to-f; "
			"ln -s a/b/.. up; ln -s to-a/b/../../to-f chain; ln -s loop loop; "
			"ln -s gone dangling; ln -s $PWD/a/f absolute; ln -s /proc/self/mounts "
			"proc; ln -s /proc/self/root/tmp magic; mkfifo fifo; chmod 0 closed; "
			"ln -s / root"),
		 0);
	for (int i = 0; i < PATHS * WAYS; i++)
		by_kernel[i / WAYS][i % WAYS] = answer_of(dir, i / WAYS, i % WAYS);
	become_old();
	for (int i = 0; i < PATHS * WAYS; i++) {
		const struct answer a = answer_of(dir, i / WAYS, i % WAYS);
		const struct answer *k = &by_kernel[i / WAYS][i % WAYS];

		if (ways[i % WAYS].resolve & FD_BENEATH && strstr(paths[i / WAYS], "..")) {
			CHECK_EQ(a.code, -EXDEV); /* stricter, as it says */
			continue;
		}
		if (a.code != k->code || a.ino != k->ino || a.mode != k->mode)
			printf("# '%s' way %d: %d, the kernel says %d\n", paths[i / WAYS], i % WAYS,
			       a.code, k->code);
		CHECK(a.code == k->code && a.ino == k->ino && a.mode == k->mode);
	}
	snprintf(line, sizeof(line), "chmod 700 closed; rm -r %s", dir);
	CHECK_EQ(system(line), 0);
}

/* Only the own root keeps `..` in. */
TEST(another_root_is_not_walked)
{
	int fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	become_old();
	CHECK_EQ(guest_open_at(fd, "..", O_PATH, FD_IN_ROOT), -ENOSYS);
}

TEST(everything_from_a_number_on_is_closed)
{
	become_old();
	for (int i = 0; i < 200; i++)
		CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
	CHECK(fcntl(0, F_DUPFD, 1000) >= 1000);
	CHECK_EQ(guest_close_from(50), 0);
	for (int fd = 50; fd < 1100; fd++)
		CHECK(fcntl(fd, F_GETFD) < 0);
	CHECK(fcntl(49, F_GETFD) >= 0);
}

TAP_MAIN
