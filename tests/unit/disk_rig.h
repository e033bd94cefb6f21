/* A state directory with a box's place in it, and a look at the loop devices that belong to it. */
#pragma once

#include "storage/storage.h"
#include "store_home.h"

#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>

static struct state home;
static struct err why;
static const struct ids root_ids = {.kind = IDS_RANGE};

/* How many loop devices have a file below the test's directory. */
static inline int disk_devices(void)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *d;
	int count = 0;

	CHECK(dir != NULL);
	while ((d = readdir(dir))) {
		char path[400];
		autofree char *file = NULL;

		snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", d->d_name);
		if (fd_read_file(AT_FDCWD, path, 4096, &file, NULL) == 0)
			count += strstr(file, home_path) != NULL;
	}
	closedir(dir);
	return count;
}

/* A device detaches when its last user is really gone, which the kernel may finish a little later
 * than that user's last breath. */
static inline void disk_devices_become(int wanted)
{
	for (int i = 0; i < 3000 && disk_devices() != wanted; i++)
		poll(NULL, 0, 10);
	CHECK_EQ(disk_devices(), wanted);
}

static inline void disk_need(void)
{
	/* First of all: a skipped test ends at once and would leave its directory. */
	if (geteuid() != 0)
		SKIP("loop devices need root");
	if (storage_loop.check(&(struct storage_place){.dir_fd = -1}, &root_ids, &why) < 0)
		SKIP(why.msg);
	home_open(&home);
}

/* The place of a box. Each test is a process of its own: descriptors are left to its end. */
static inline struct storage_place disk_place(const char *box)
{
	int fd;

	CHECK(mkdirat(home.boxes_fd, box, 0700) == 0 || errno == EEXIST);
	fd = openat(home.boxes_fd, box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return (struct storage_place){.home_fd = home.home_fd, .dir_fd = fd};
}

static inline struct volume disk_open_at(const struct storage_place *p, struct storage_size size)
{
	struct volume v = VOLUME_NONE;

	if (storage_loop.open(p, &root_ids, &size, &v, &why) < 0)
		FAIL(why.msg);
	return v;
}

/* Writes until it is full or has so many bytes; how many were written. *ret_errno is 0 or why it
 * ended. */
static inline uint64_t disk_fill(int dir_fd, const char *name, uint64_t max, int *ret_errno)
{
	static char bytes[1 << 16];
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	uint64_t total = 0;

	*ret_errno = fd < 0 ? errno : 0;
	memset(bytes, 'x', sizeof(bytes));
	while (fd >= 0 && total < max) {
		ssize_t n = write(fd, bytes, sizeof(bytes));

		if (n < 0) {
			*ret_errno = errno;
			break;
		}
		total += (uint64_t)n;
	}
	if (fd >= 0 && fsync(fd) < 0 && *ret_errno == 0)
		*ret_errno = errno;
	if (fd >= 0)
		close(fd);
	return total;
}
