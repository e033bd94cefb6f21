/* A state directory of its own for one test, deleted when the test's process ends. */
#pragma once

#include "base/fd.h"
#include "storage/tree.h"
#include "store/state.h"
#include "tap.h"

#include <fcntl.h>

static char home_path[64], home_name[64];
static const char *home_parent = "/tmp";
static pid_t home_owner;

/* For a test that makes very many files: in memory, where that is possible. */
static inline void home_in_memory(void)
{
	if (access("/dev/shm", W_OK | X_OK) == 0)
		home_parent = "/dev/shm";
}

static void home_remove(void)
{
	autoclose int tmp_fd = open(home_parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (getpid() == home_owner)
		tree_remove(tmp_fd, home_name, NULL);
}

/* Makes the directory and names it in COVE_HOME. */
static inline const char *home_make(void)
{
	snprintf(home_path, sizeof(home_path), "%s/cove-store-XXXXXX", home_parent);
	CHECK(mkdtemp(home_path) != NULL);
	snprintf(home_name, sizeof(home_name), "%s", strrchr(home_path, '/') + 1);
	home_owner = getpid();
	atexit(home_remove);
	setenv("COVE_HOME", home_path, 1);
	return home_path;
}

static inline void home_open(struct state *s)
{
	struct err e = {0};

	home_make();
	if (state_open(s, NULL, true, &e) < 0)
		FAIL(e.msg);
}

/* A test with a state directory. */
#define HOME_TEST(name)                                                                        \
	TEST_IN(name, (struct state * s), struct state state; home_open(&state); body(&state); \
		state_close(&state);)

/* How many names a directory has, hidden ones included. */
static inline int count_names(int dir_fd)
{
	char bytes[16384];
	int count = 0;
	long n;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	while ((n = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0)
		for (long at = 0; at < n;) {
			uint16_t len;

			memcpy(&len, bytes + at + 16, sizeof(len));
			count++;
			at += len;
		}
	close(fd);
	return count - 2;
}
