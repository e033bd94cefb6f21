/* Removals that go on behind; see removal.h. */
#include "store/removal.h"

#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>

#define REMOVALS_FILE ".removals"
enum { OPEN_FLAGS = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC };

/* FNV-1a: spreads names well enough, and is the same in every version. */
static off_t place_of(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return (off_t)(h % REMOVALS_MAX);
}

static int lock_place(int fd, const char *name)
{
	struct flock l = {.l_type = F_WRLCK, .l_start = place_of(name), .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

int removal_open(const char *run_dir)
{
	char path[640];
	int n = snprintf(path, sizeof(path), "%s/" REMOVALS_FILE, run_dir);
	int fd = n < (int)sizeof(path) ? openat(AT_FDCWD, path, OPEN_FLAGS, 0600) : -1;

	if (fd < 0)
		return n < (int)sizeof(path) ? -errno : -ENAMETOOLONG;
	return fd;
}

bool removal_begin(int fd, const char *name)
{
	return fd >= 0 && lock_place(fd, name) == 0;
}

bool removal_is_behind(int run_fd, const char *name)
{
	autoclose int fd = openat(run_fd, REMOVALS_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? 0 : lock_place(fd, name);

	return r == -EAGAIN || r == -EACCES;
}
