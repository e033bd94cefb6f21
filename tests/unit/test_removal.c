/* The places of removals that go on behind. */
#include "base/fd.h"
#include "store/removal.h"
#include "tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char dir[64];

static int make_dir(void)
{
	int fd;

	snprintf(dir, sizeof(dir), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void remove_dir(int dir_fd)
{
	unlinkat(dir_fd, ".removals", 0);
	close(dir_fd);
	CHECK_EQ(rmdir(dir), 0);
}

TEST(a_place_is_had_once)
{
	int dir_fd = make_dir(), one = removal_open(dir), two = removal_open(dir);

	CHECK(one >= 0 && two >= 0);
	CHECK(removal_begin(one, "box"));
	CHECK(removal_begin(one, "box")); /* it is his already */
	CHECK(!removal_begin(two, "box"));
	CHECK(removal_begin(two, "another"));
	close(one);
	CHECK(removal_begin(two, "box"));
	close(two);
	CHECK(!removal_begin(-1, "box"));
	CHECK(!removal_begin(-EACCES, "box"));
	remove_dir(dir_fd);
}

TEST(there_are_never_more_than_the_maximum)
{
	int dir_fd = make_dir(), fds[4 * REMOVALS_MAX], had = 0;

	for (int i = 0; i < 4 * REMOVALS_MAX; i++) {
		char name[24];

		snprintf(name, sizeof(name), "box-%d", i);
		fds[i] = removal_open(dir);
		CHECK(fds[i] >= 0);
		had += removal_begin(fds[i], name);
	}
	CHECK(had <= REMOVALS_MAX);
	CHECK(had > REMOVALS_MAX / 2); /* names are spread */
	for (int i = 0; i < 4 * REMOVALS_MAX; i++)
		close(fds[i]);
	remove_dir(dir_fd);
}

/* Also after kill -9. */
TEST(a_place_goes_with_its_process)
{
	int dir_fd = make_dir(), fd = removal_open(dir), ready[2];
	pid_t pid;
	char byte;

	CHECK(pipe(ready) == 0);
	pid = fork();
	if (pid == 0) {
		int mine = removal_open(dir);

		CHECK(removal_begin(mine, "box"));
		CHECK_EQ(write(ready[1], "x", 1), 1);
		for (;;)
			pause();
	}
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	CHECK(!removal_begin(fd, "box"));
	CHECK(removal_is_behind(dir_fd, "box") && !removal_is_behind(dir_fd, "another"));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!removal_is_behind(dir_fd, "box")); /* and asking takes no place */
	CHECK(removal_begin(fd, "box"));
	close(fd);
	close(ready[0]);
	close(ready[1]);
	remove_dir(dir_fd);
}

TEST(where_there_is_no_file_there_is_no_place)
{
	char longer[1024];
	int dir_fd = make_dir();

	CHECK(!removal_is_behind(dir_fd, "box")); /* nobody ever removed one */
	CHECK(!removal_is_behind(-1, "box"));
	CHECK_EQ(symlinkat("/etc/passwd", dir_fd, ".removals"), 0);
	CHECK_EQ(removal_open(dir), -ELOOP);
	CHECK(!removal_is_behind(dir_fd, "box"));
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	CHECK_EQ(removal_open(longer), -ENAMETOOLONG);
	CHECK_EQ(removal_open("/no/such/directory"), -ENOENT);
	remove_dir(dir_fd);
}

TAP_MAIN
