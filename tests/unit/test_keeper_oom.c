/* The out-of-memory score that a keeper begins with; a plain file takes every score, as the kernel
 * does from who may lower it. */
#include "base/fd.h"
#include "keeper/oom.h"
#include "tap.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

static int file_with(const char *text)
{
	char path[] = "/tmp/cove-oom.XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	unlink(path);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void lowers(const char *before, const char *all)
{
	int fd = file_with(before);
	char text[64] = "";
	bool lower = false;

	CHECK_EQ(oom_reset(fd, &lower), 0);
	CHECK(lower);
	CHECK(pread(fd, text, sizeof(text) - 1, 0) > 0);
	CHECK_STR(text, all); /* what was there, and what was written */
	close(fd);
}

TEST(who_may_lower_it_is_found_out)
{
	lowers("-1000\n", "-1000\n0-10");
	lowers("0\n", "0\n0-10");
	lowers("300\n", "300\n300-1300");
}

/* It has all capabilities, and they are nothing to the machine. */
TEST(root_in_a_container_is_found_out)
{
	if (unshare(CLONE_NEWUSER) < 0)
		SKIP("no user namespaces here");
	lowers("-500\n", "-500\n0-10");
}

TEST(the_kernel_refuses)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	bool lower = false;
	char text[16] = "";

	CHECK(fd >= 0);
	if (unshare(CLONE_NEWUSER) < 0)
		SKIP("no user namespaces here");
	if (fd_write_full(fd, "-1", 2) == 0)
		SKIP("this process may lower its score");
	CHECK_EQ(oom_reset(fd, &lower), 0);
	CHECK(!lower);
	CHECK(pread(fd, text, sizeof(text) - 1, 0) > 0);
	CHECK(atoi(text) >= 0);
}

TEST(no_score)
{
	bool lower = false;

	CHECK_EQ(oom_reset(file_with(""), &lower), -EIO);
	CHECK_EQ(oom_reset(-1, &lower), -EBADF);
}

TAP_MAIN
