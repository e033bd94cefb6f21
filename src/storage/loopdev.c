/* Loop devices; see loopdev.h. The kernel's structures stand here: musl brings no linux/loop.h. */
#include "storage/loopdev.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define CONTROL_PATH "/dev/loop-control"
/* Only root of the host can set it: no box can lie about it. */
#define NUMBER_ATTR "trusted.cove.loop"

enum {
	WAIT_STEP_MS = 2,
	OFD_SETLK = 37, /* F_OFD_SETLK */
	LOOP_MAJOR = 7,
	LOOP_STATUS = 0x4C05,	 /* LOOP_GET_STATUS64 */
	LOOP_CONFIGURE = 0x4C0A, /* one call from Linux 5.8 on */
	LOOP_GET_FREE = 0x4C82,
	LOOP_AUTOCLEAR = 4,
	LOOP_DIRECT = 16,
};

struct loop_status {
	uint64_t device, inode, rdevice, offset, size_limit;
	uint32_t number, encrypt_type, encrypt_key_size, flags;
	uint8_t file_name[64], crypt_name[64], encrypt_key[32];
	uint64_t init[2];
};

struct loop_config {
	uint32_t fd, block_size;
	struct loop_status info;
	uint64_t reserved[8];
};

_Static_assert(sizeof(struct loop_status) == 232, "as the kernel has it");
_Static_assert(sizeof(struct loop_config) == 304, "as the kernel has it");

static int no_loop(int code, struct err *e)
{
	if (code == ENOENT || code == ENXIO || code == ENODEV)
		return err_set(e, ERR_UNSUPPORTED, code,
			       "no loop devices (" CONTROL_PATH "): run 'modprobe loop'; in a "
			       "container, start it with its devices");
	return err_set(e, ERR_UNSUPPORTED, code,
		       "loop devices are not allowed here (" CONTROL_PATH ": %s): run as root, "
		       "outside a container that hides them",
		       strerror(code));
}

int loopdev_check(struct err *e)
{
	return access(CONTROL_PATH, R_OK | W_OK) < 0 ? no_loop(errno, e) : 0;
}

/* Opens the device with that number, only if the node is what its name says. */
static int open_number(int number, struct loopdev *ret)
{
	autoclose int fd = -1;
	struct stat st;

	snprintf(ret->path, sizeof(ret->path), "/dev/loop%d", number);
	fd = fd_open(ret->path, O_RDWR | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISBLK(st.st_mode) || major(st.st_rdev) != LOOP_MAJOR)
		return -ENOTBLK;
	ret->fd = take_fd(fd);
	return 0;
}

/* The live device that has the file. An open device cannot be taken from under us, so what it
 * answers stays true. */
static int find_live(int file_fd, struct loopdev *ret)
{
	struct loop_status status = {0};
	struct stat st;
	char text[16];
	uint64_t number;
	ssize_t n = fgetxattr(file_fd, NUMBER_ATTR, text, sizeof(text) - 1);

	if (n < 0)
		return errno == ENODATA ? -ENXIO : -errno;
	text[n] = 0;
	if (!str_parse_u64(text, LOOP_NUMBER_MAX, &number) || fstat(file_fd, &st) < 0)
		return -ENXIO;
	if (open_number((int)number, ret) < 0)
		return -ENXIO;
	if (ioctl(ret->fd, LOOP_STATUS, &status) == 0 && status.inode == st.st_ino &&
	    status.device == st.st_dev && status.offset == 0)
		return 0;
	fd_close(&ret->fd);
	return -ENXIO;
}

bool loopdev_has(int file_fd)
{
	struct loopdev dev = {.fd = -1};
	bool has = find_live(file_fd, &dev) == 0;

	fd_close(&dev.fd);
	return has;
}

/* A kernel that cannot do direct I/O on this file goes on without by itself, or says EINVAL. */
static int configure(int dev_fd, int file_fd, unsigned flags)
{
	struct loop_config c = {
		.fd = (uint32_t)file_fd,
		.block_size = 4096,
		.info.flags = LOOP_AUTOCLEAR | flags,
	};

	if (ioctl(dev_fd, LOOP_CONFIGURE, &c) == 0)
		return 0;
	if (errno != EINVAL || !(flags & LOOP_DIRECT))
		return -errno;
	c.info.flags = LOOP_AUTOCLEAR;
	return ioctl(dev_fd, LOOP_CONFIGURE, &c) < 0 ? -errno : 0;
}

/* Others look for a free device at the same moment: the loser of a race tries the next one. */
static int attach(int control_fd, int file_fd, unsigned flags, struct loopdev *ret)
{
	int r = -EBUSY;

	for (unsigned i = 0; i < LOOP_TRIES_MAX && r == -EBUSY; i++) {
		int number = ioctl(control_fd, LOOP_GET_FREE);

		if (number < 0)
			return -errno;
		r = open_number(number, ret);
		if (r == -ENXIO) /* between two lives of the device */
			r = -EBUSY;
		if (r < 0)
			continue;
		r = configure(ret->fd, file_fd, flags);
		if (r < 0)
			fd_close(&ret->fd);
	}
	return r;
}

/* 1: the live device is in *ret; 0: there is none, and the open file carries a lock from here on.
 * The device keeps the open file, and so the lock, until it lets go of it: whoever does not find
 * the device but finds the lock must not make a second one. Not flock(2), which callers use for a
 * shorter time. A device that is on its way out is waited for. */
static int find_or_lock(int file_fd, struct loopdev *ret)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	for (int waited = 0; waited < DISK_LOCK_MS; waited += WAIT_STEP_MS) {
		if (find_live(file_fd, ret) == 0)
			return 1;
		if (fcntl(file_fd, OFD_SETLK, &whole) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return -errno;
		poll(NULL, 0, WAIT_STEP_MS);
	}
	return -EBUSY;
}

int loopdev_open(int file_fd, bool alone, struct loopdev *ret, struct err *e)
{
	const char *number = ret->path + strlen("/dev/loop");
	autoclose int control = -1;
	int r;

	*ret = (struct loopdev){.fd = -1};
	r = alone ? 0 : find_or_lock(file_fd, ret);
	if (r == -EBUSY)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "the disk is in use by a loop device that cannot be found: see "
			       "'losetup --list'");
	if (r < 0)
		return err_errno(e, -r, "lock the disk");
	if (r > 0)
		return 0;
	control = fd_open(CONTROL_PATH, O_RDWR);
	if (control < 0)
		return no_loop(errno, e);
	/* What is kept goes to disk once, not through a second cache. What is thrown away had
	 * better not go there at all. */
	r = attach(control, file_fd, alone ? 0 : LOOP_DIRECT, ret);
	if (r == -ENOENT)
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "there is no %s: this /dev does not follow the kernel; mount a "
			       "devtmpfs there or make more loop nodes",
			       ret->path);
	if (r == -EBUSY)
		return err_set(e, ERR_LIMIT, EBUSY, "no loop device became free: try again");
	if (r < 0)
		return err_errno(e, -r, "attach a loop device");
	/* Before anybody mounts it: if we die here, the device goes with us. */
	if (alone || fsetxattr(file_fd, NUMBER_ATTR, number, strlen(number), 0) == 0)
		return 0;
	r = err_errno(e, errno, "remember the disk's loop device");
	fd_close(&ret->fd);
	return r;
}
