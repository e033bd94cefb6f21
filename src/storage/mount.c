/* Detached mounts; see mount.h. */
#include "storage/mount.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#define FS_CLOEXEC    1u
#define FS_SET_FLAG   0u
#define FS_SET_STRING 1u
#define FS_CREATE     6u

/* The first line that is an error: "e text". */
static void read_reason(int fs_fd, char *why, size_t size)
{
	if (size == 0)
		return;
	for (int i = 0; i < 8; i++) {
		ssize_t n = read(fs_fd, why, size - 1);

		if (n <= 0)
			break;
		why[n] = 0;
		if (why[0] != 'e' || n < 3)
			continue;
		n = (ssize_t)strcspn(why + 2, "\n");
		memmove(why, why + 2, (size_t)n);
		why[n] = 0;
		return;
	}
	why[0] = 0;
}

static int configure(int fs_fd, const char *const *options)
{
	for (; options && options[0]; options += 2)
		if (syscall(SYS_fsconfig, fs_fd, options[1] ? FS_SET_STRING : FS_SET_FLAG,
			    options[0], options[1], 0) < 0)
			return -errno;
	return syscall(SYS_fsconfig, fs_fd, FS_CREATE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int mount_detached(const char *type, const char *const *options, uint64_t attrs, char *why,
		   size_t why_size)
{
	autoclose int fs = (int)syscall(SYS_fsopen, type, FS_CLOEXEC);
	long fd;
	int r;

	if (why_size)
		why[0] = 0;
	if (fs < 0)
		return -errno;
	r = configure(fs, options);
	if (r < 0) {
		read_reason(fs, why, why_size);
		return r;
	}
	fd = syscall(SYS_fsmount, fs, FS_CLOEXEC, attrs);
	return fd < 0 ? -errno : (int)fd;
}
