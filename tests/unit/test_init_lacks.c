/*
 * A kernel that lacks the newer system calls, as one that a wall brings may: a filter answers
 * ENOSYS to them. init finds out, says what is weaker, and works.
 */
#include "exec_client.h"
#include "shell_client.h"
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "init/open.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LACKS(call)                                      \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)

/* For this process and all it starts, for good: each test has a process of its own. */
static void become_old(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		LACKS(SYS_openat2),
		LACKS(SYS_clone3),
		LACKS(SYS_close_range),
		LACKS(SYS_pidfd_open),
		LACKS(SYS_pidfd_send_signal),
		LACKS(SYS_landlock_create_ruleset),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	CHECK_EQ(fd_openat2(AT_FDCWD, "/", O_PATH, 0, 0), -ENOSYS);
}

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

struct answer {
	int code;
	ino_t ino;
	mode_t mode;
};

static struct answer look(int fd)
{
	struct answer a = {.code = fd < 0 ? fd : 0};
	struct stat st;

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
	static const char *const paths[] = {
		"a",
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
	};
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
	};
	enum { PATHS = sizeof(paths) / sizeof(*paths), WAYS = sizeof(ways) / sizeof(*ways) };
	static struct answer by_kernel[PATHS][WAYS];
	char dir[] = "/tmp/cove-open-XXXXXX", line[64];
	int fd;

	CHECK(mkdtemp(dir) != NULL);
	CHECK_EQ(chdir(dir), 0);
	CHECK_EQ(system("mkdir -p a/b closed; echo x > a/f; ln -s a to-a; ln -s a/f to-f; "
			"ln -s a/b/.. up; ln -s to-a/b/../../to-f chain; ln -s loop loop; "
			"ln -s gone dangling; ln -s $PWD/a/f absolute; ln -s /proc/self/mounts "
			"proc; "
			"ln -s /proc/self/root/tmp magic; mkfifo fifo; chmod 0 closed"),
		 0);
	fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int p = 0; p < PATHS; p++)
		for (int w = 0; w < WAYS; w++)
			by_kernel[p][w] =
				look(fd_openat2(fd, paths[p], ways[w].flags, 0, ways[w].resolve));
	become_old();
	for (int p = 0; p < PATHS; p++)
		for (int w = 0; w < WAYS; w++) {
			struct answer a =
				look(init_open_at(fd, paths[p], ways[w].flags, ways[w].resolve));
			const struct answer *k = &by_kernel[p][w];

			if (ways[w].resolve & FD_BENEATH && strstr(paths[p], "..")) {
				CHECK_EQ(a.code, -EXDEV); /* stricter, as it says */
				continue;
			}
			if (a.code != k->code || a.ino != k->ino || a.mode != k->mode)
				printf("# '%s' way %d: %d, the kernel says %d\n", paths[p], w,
				       a.code, k->code);
			CHECK_EQ(a.code, k->code);
			CHECK_EQ(a.ino, k->ino);
			CHECK_EQ(a.mode, k->mode);
		}
	close(fd);
	snprintf(line, sizeof(line), "chmod 700 closed; rm -r %s", dir);
	CHECK_EQ(system(line), 0);
}

TEST(everything_from_a_number_on_is_closed)
{
	become_old();
	for (int i = 0; i < 200; i++)
		CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
	CHECK(fcntl(0, F_DUPFD, 1000) >= 1000);
	CHECK_EQ(init_close_from(50), 0);
	for (int fd = 50; fd < 1100; fd++)
		CHECK(fcntl(fd, F_GETFD) < 0);
	CHECK(fcntl(49, F_GETFD) >= 0);
}

TAP_MAIN
