/* Descriptors, whole files, and passing descriptors. */
#include "tap.h"

#include "base/child.h"
#include "base/fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

static char dir[64];
static int dir_fd;

static void setup(void)
{
	snprintf(dir, sizeof(dir), "/tmp/cove-fd-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0);
}

static void finish(void)
{
	static const char *const names[] = {"f", "link", "fifo", "big"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(dir_fd, names[i], 0);
	close(dir_fd);
	CHECK_EQ(rmdir(dir), 0); /* fails if a temporary stayed */
}

#define DIR_TEST(name) TEST_IN(name, (void), setup(); body(); finish();)

TEST(owned_descriptors_close_themselves)
{
	int copy;

	{
		autoclose int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		copy = fd;
		CHECK(fd >= 0);
	}
	CHECK(fcntl(copy, F_GETFD) < 0);
	{
		autoclose int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		copy = take_fd(fd);
		CHECK_EQ(fd, -1);
	}
	CHECK(fcntl(copy, F_GETFD) >= 0);
	fd_close(&copy);
	CHECK_EQ(copy, -1);
	fd_close(&copy);
}

TEST(all_are_closed_but_some)
{
	int fds[6], keep[] = {-1, 0, -1, 0};

	for (size_t i = 0; i < 6; i++) {
		fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 200 + 2 * (int)i);
		CHECK_EQ(fds[i], 200 + 2 * (int)i);
	}
	keep[0] = fds[4];
	keep[1] = fds[0]; /* below the first */
	keep[3] = fds[1];
	CHECK_EQ(child_close_but(202, keep, 4), 0);
	for (size_t i = 0; i < 6; i++)
		CHECK_EQ(fcntl(fds[i], F_GETFD) >= 0, i == 0 || i == 1 || i == 4);
	CHECK_EQ(child_close_but(200, NULL, 0), 0);
	CHECK(fcntl(fds[4], F_GETFD) < 0);
}

DIR_TEST(write_and_read_a_file)
{
	char *text = NULL;
	struct stat st;
	size_t n = 0;

	CHECK_EQ(fd_write_file(dir_fd, "f", "one", 3, 0600, false), 0);
	CHECK_EQ(fd_write_file(dir_fd, "f", "second", 6, 0640, true), 0);
	CHECK_EQ(fd_read_file(dir_fd, "f", 100, &text, &n), 0);
	CHECK_EQ(n, 6);
	CHECK_STR(text, "second");
	free(text);
	text = NULL;
	CHECK_EQ(fd_read_file(dir_fd, "f", 6, &text, NULL), 0);
	free(text);
	text = NULL;
	CHECK_EQ(fd_read_file(dir_fd, "f", 5, &text, &n), -EFBIG);
	CHECK_EQ(fd_read_file(dir_fd, "missing", 5, &text, &n), -ENOENT);
	CHECK(text == NULL);
	CHECK_EQ(fstatat(dir_fd, "f", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0640);
}

DIR_TEST(read_file_follows_no_link_and_never_blocks)
{
	char *text = NULL;

	CHECK_EQ(symlinkat("/etc/passwd", dir_fd, "link"), 0);
	CHECK_EQ(fd_read_file(dir_fd, "link", 1 << 20, &text, NULL), -ELOOP);
	CHECK_EQ(mkfifoat(dir_fd, "fifo", 0600), 0);
	CHECK_EQ(fd_read_file(dir_fd, "fifo", 100, &text, NULL), 0); /* empty: nobody writes */
	free(text);
}

DIR_TEST(large_files)
{
	enum { N = 1 << 20 };
	char *bytes = malloc(N), *text = NULL;
	size_t n;

	for (size_t i = 0; i < N; i++)
		bytes[i] = (char)(i * 7);
	CHECK_EQ(fd_write_file(dir_fd, "big", bytes, N, 0600, false), 0);
	CHECK_EQ(fd_read_file(dir_fd, "big", N, &text, &n), 0);
	CHECK_EQ(n, N);
	CHECK_MEM(text, bytes, N);
	free(text);
	CHECK_EQ(fd_read_file(dir_fd, "big", N - 1, &text, &n), -EFBIG);
	free(bytes);
}

DIR_TEST(openat2_stays_beneath)
{
	CHECK_EQ(symlinkat("/etc", dir_fd, "link"), 0);
	CHECK(fd_openat2(dir_fd, "link/passwd", O_RDONLY, 0, FD_BENEATH) < 0);
	CHECK_EQ(fd_openat2(dir_fd, "..", O_RDONLY, 0, FD_BENEATH), -EXDEV);
	CHECK_EQ(fd_openat2(dir_fd, "link", O_RDONLY, 0, FD_NO_SYMLINKS), -ELOOP);
	CHECK_EQ(fd_openat2(dir_fd, "missing", O_RDONLY, 0, 0), -ENOENT);
}

TEST(descriptors_are_closed_on_exec)
{
	int fds[2] = {sys_memfd_create("m", 1), sys_pidfd_open(getpid())};

	for (int i = 0; i < 2; i++) {
		CHECK(fds[i] >= 0);
		CHECK_EQ(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
	}
	CHECK_EQ(sys_pidfd_send_signal(fds[1], 0), 0);
	CHECK_EQ(sys_pidfd_open(-1), -EINVAL);
}

TAP_MAIN
