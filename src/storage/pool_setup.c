/*
 * Making, mounting and taking away the pool; see pool.h.
 *
 *	pool.new -> mkfs.btrfs -> pool.img -> mounted -> simple quotas on -> boxes/ and layers/
 *
 * boxes/ is the sign that the pool is whole: until then it is not used, and whoever sets it up
 * again goes on where the last one was. Setting up and taking away hold a lock on the state
 * directory, mounting one on pool.img.
 *
 * The mount is in the tree, not detached: it is made once and stays, and what is mounted there is
 * of no use to anybody but root (0700). It is named by its loop device's file, so that a second
 * mount, from another mount namespace, is one of the same filesystem.
 */
#include "storage/pool.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/size.h"
#include "storage/btrfs.h"
#include "storage/loopdev.h"
#include "storage/mount.h"
#include "storage/pool_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#define POOL_NEW "pool.new"

enum {
	DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	MOVE_EMPTY_PATH = 4, /* MOVE_MOUNT_F_EMPTY_PATH */
	LOCK_STEP_MS = 5,
	CLEAN_STEP_MS = 50,
};

/* ---- finding ---- */

/* -EROFS: it could not be written to, as where the host's disk was full, and is read-only since. */
int pool_open_mounted(int home_fd, const char *name, struct statfs *ret)
{
	char path[32];
	struct statfs fs;
	autoclose int fd = -1;

	snprintf(path, sizeof(path), POOL_DIR "/%s", name);
	fd = fd_openat2(home_fd, path, DIR_FLAGS, 0, FD_BENEATH | FD_NO_SYMLINKS);
	if (fd < 0)
		return take_fd(fd);
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	if ((uint32_t)fs.f_type != BTRFS_MAGIC)
		return -ENOENT;
	if (fs.f_flags & ST_RDONLY)
		return -EROFS;
	if (ret)
		*ret = fs;
	return take_fd(fd);
}

/* Once nothing has it mounted, the kernel forgets what went wrong. The mounts of a box that has
 * just ended may still be going: until then it answers EINVAL. */
static int mount_anew(int home_fd, struct err *e)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" POOL_DIR, home_fd);
	(void)umount2(path, 0);
	for (int waited = 0; (r = pool_mount(home_fd, e)) == -EINVAL && waited < DISK_LOCK_MS;
	     waited += LOCK_STEP_MS)
		poll(NULL, 0, LOCK_STEP_MS);
	return r == -EINVAL ? 0 : r; /* it is read-only for the caller, too */
}

int pool_open_dir(int home_fd, const char *name, struct statfs *ret, struct err *e)
{
	int fd = pool_open_mounted(home_fd, name, ret), r;

	if (fd == -ENOENT || fd == -EROFS) {
		bool was_there = fd == -EROFS;

		r = was_there && geteuid() == 0 ? mount_anew(home_fd, e) : pool_mount(home_fd, e);
		if (r < 0 && r != -ENOENT)
			return r;
		fd = r < 0 ? r : pool_open_mounted(home_fd, name, ret);
		if (fd == -ENOENT && was_there)
			fd = -EROFS; /* somebody has it mounted still, as it was */
	}
	if (fd == -ENOENT)
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "there is no pool: make one as root with 'cove doctor "
			       "--setup-storage'");
	if (fd == -EROFS)
		return err_set(e, ERR_CONFLICT, EROFS,
			       "the pool is read-only since a write to its file failed (was the "
			       "host's disk full?): make room, stop the boxes that use it, and try "
			       "again");
	return fd < 0 ? err_errno(e, -fd, "open the pool") : fd;
}

bool pool_is_ready(int home_fd)
{
	autoclose int fd = pool_open_dir(home_fd, POOL_BOXES, NULL, NULL);

	return fd >= 0;
}

static uint64_t count_names(int home_fd, const char *name)
{
	autoclose int at = pool_open_mounted(home_fd, name, NULL);
	DIR *dir = at < 0 ? NULL : fdopendir(at);
	uint64_t count = 0;
	struct dirent *d;

	if (!dir)
		return 0;
	at = -1;
	while ((d = readdir(dir)))
		count += d->d_name[0] != '.';
	closedir(dir);
	return count;
}

static uint64_t less_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int pool_look(int home_fd, struct pool_info *ret, struct err *e)
{
	struct statfs fs;
	autoclose int fd = pool_open_dir(home_fd, POOL_BOXES, &fs, e);
	struct stat st;

	if (fd < 0)
		return take_fd(fd);
	*ret = (struct pool_info){
		.bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize,
		.free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize,
		.volumes = count_names(home_fd, POOL_BOXES),
		.layers = count_names(home_fd, POOL_TREES),
	};
	if (fstatat(home_fd, POOL_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
		ret->is_file = true;
		ret->file_bytes = (uint64_t)st.st_blocks * 512;
	}
	return 0;
}

/* What must be free so that boxes that are there can go on for a while. */
static uint64_t least_room(uint64_t bytes)
{
	uint64_t part = bytes / POOL_ROOM_SHARE;

	part = part < POOL_ROOM_MIN ? POOL_ROOM_MIN : part;
	return less_of(part, POOL_ROOM_MAX);
}

static bool is_crowded(const struct statfs *fs)
{
	uint64_t block = (uint64_t)fs->f_bsize;

	return (uint64_t)fs->f_bavail * block < least_room((uint64_t)fs->f_blocks * block);
}

/* What was removed lately may not be free yet. */
static bool stays_crowded(int fd, struct statfs *fs)
{
	for (int waited = 0; is_crowded(fs); waited += CLEAN_STEP_MS) {
		if (waited >= POOL_CLEAN_MS || btrfs_clean(fd) < 0)
			return true;
		poll(NULL, 0, CLEAN_STEP_MS);
		if (fstatfs(fd, fs) < 0)
			return true;
	}
	return false;
}

int pool_check_room(int home_fd, struct err *e)
{
	struct statfs fs;
	autoclose int fd = pool_open_dir(home_fd, POOL_BOXES, &fs, e);
	char size[SIZE_TEXT];

	if (fd < 0)
		return take_fd(fd);
	if (stays_crowded(fd, &fs))
		return err_set(e, ERR_FULL, ENOSPC,
			       "the pool is nearly full (%s free): remove boxes, snapshots or "
			       "workspaces that are not needed, or use --storage loop",
			       size_format(size, (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize));
	/* A btrfs whose file cannot grow stops writing for everybody. */
	if (fstatfs(home_fd, &fs) == 0 && is_crowded(&fs))
		return err_set(e, ERR_FULL, ENOSPC,
			       "the disk that the pool's file is on is nearly full (%s free): make "
			       "room there",
			       size_format(size, (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize));
	return 0;
}

/* ---- mounting ---- */

static int lock_fd_for(int fd, int wait_ms)
{
	for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (waited >= wait_ms)
			return -EBUSY;
		poll(NULL, 0, LOCK_STEP_MS);
	}
	return 0;
}

static int open_file(int home_fd)
{
	autoclose int fd = openat(home_fd, POOL_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	return take_fd(fd);
}

static bool is_mounted(int home_fd)
{
	autoclose int fd = openat(home_fd, POOL_DIR, DIR_FLAGS);
	struct stat home, pool;

	return fd >= 0 && btrfs_is(fd) && fstat(home_fd, &home) == 0 && fstat(fd, &pool) == 0 &&
	       home.st_dev != pool.st_dev;
}

static int cannot_mount(int code, const char *why, struct err *e)
{
	if (code == ENODEV)
		return err_set(e, ERR_UNSUPPORTED, ENODEV,
			       "this kernel has no btrfs: run 'modprobe btrfs', or stay with "
			       "--storage loop");
	return err_set(e, ERR_INTERNAL, code,
		       "cannot mount the pool (%.60s: %s): run 'btrfs check' "
		       "on pool.img in the state directory",
		       *why ? why : "btrfs", strerror(code));
}

static int mount_file(int home_fd, int file_fd, struct err *e)
{
	const char *options[] = {"source", NULL, "discard", "async", "user_subvol_rm_allowed",
				 NULL,	   NULL};
	autoclose int fd = -1;
	struct loopdev dev;
	char why[80];
	int r = loopdev_open(file_fd, false, &dev, e);

	if (r < 0)
		return r;
	options[1] = dev.path;
	fd = mount_detached("btrfs", options, MOUNT_NODEV | MOUNT_NOSUID | MOUNT_NOATIME, why,
			    sizeof(why));
	fd_close(&dev.fd);
	if (fd < 0)
		return cannot_mount(-fd, why, e);
	if (mkdirat(home_fd, POOL_DIR, 0700) < 0 && errno != EEXIST)
		return err_errno(e, errno, "make the directory 'pool'");
	if (syscall(SYS_move_mount, fd, "", home_fd, POOL_DIR, MOVE_EMPTY_PATH) < 0)
		return err_errno(e, errno, "mount the pool");
	return 0;
}

int pool_mount(int home_fd, struct err *e)
{
	/* Not one descriptor: the device keeps its own, and would hold the lock with it. */
	autoclose int lock_fd = open_file(home_fd), file_fd = -1;
	int r = lock_fd < 0 ? lock_fd : lock_fd_for(lock_fd, DISK_LOCK_MS);

	if (lock_fd == -ENOENT)
		return -ENOENT;
	if (lock_fd == -EACCES || geteuid() != 0)
		return err_set(e, ERR_UNSUPPORTED, EPERM, "the pool is root's");
	if (r < 0)
		return err_errno(e, -r, "lock the pool's file");
	if (is_mounted(home_fd))
		return 0;
	file_fd = open_file(home_fd);
	return file_fd < 0 ? err_errno(e, -file_fd, "open the pool's file")
			   : mount_file(home_fd, file_fd, e);
}

/* ---- making ---- */

static const char *find_mkfs(void)
{
	static const char *const paths[] = {"/sbin/mkfs.btrfs", "/usr/sbin/mkfs.btrfs",
					    "/usr/local/sbin/mkfs.btrfs", "/bin/mkfs.btrfs"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

/* In a small one the first chunk of data would leave metadata with so little that a full pool could
 * not be emptied: there both share their chunks (-M). */
static int run_mkfs(int fd, bool small, struct err *e)
{
	char path[40], text[160];
	const char *program = find_mkfs();
	/* clang-format off */
	const char *argv[] = {"mkfs.btrfs", "-q", "-f", "-K", "-L", "cove", "-m", "single",
			      "-d", "single", path, small ? "-M" : NULL, NULL};
	/* clang-format on */
	autoclose int out = sys_memfd_create("mkfs", MFD_CLOEXEC);
	autoclose int nothing = fd_open("/dev/null", O_RDONLY);
	ssize_t said;
	pid_t pid;
	int r;

	if (!program)
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "mkfs.btrfs is missing: install the package 'btrfs-progs'");
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
	r = out < 0 ? out
		    : child_start(program, (char *const *)(uintptr_t)argv,
				  (int[]){nothing, out, out}, &pid);
	if (r == 0)
		r = child_wait(pid);
	if (r > 0) { /* its last words, on one line */
		off_t end = lseek(out, 0, SEEK_END),
		      from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;

		said = pread(out, text, sizeof(text) - 1, from);
		text[said < 0 ? 0 : said] = 0;
		for (char *p = text; *p; p++)
			if (*p < ' ' || *p > '~')
				*p = ' ';
		return err_set(e, ERR_INTERNAL, EIO, "mkfs.btrfs failed: %s", text);
	}
	return r < 0 ? err_errno(e, -r, "run %s", program) : 0;
}

/* 0: three quarters of what is free, in whole GiB. */
static int file_size(int home_fd, uint64_t asked, uint64_t *ret, struct err *e)
{
	char has[SIZE_TEXT], wants[SIZE_TEXT];
	uint64_t room, bytes;
	struct statfs fs;

	if (fstatfs(home_fd, &fs) < 0)
		return err_errno(e, errno, "look at the disk of the state directory");
	room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	bytes = asked ? asked : less_of(room / 4 * 3, POOL_BYTES_DEFAULT_MAX) >> 30 << 30;
	if (asked && asked < POOL_BYTES_MIN)
		return err_set(e, ERR_INVALID, EINVAL, "a pool has at least %s",
			       size_format(wants, POOL_BYTES_MIN));
	if (bytes < POOL_BYTES_MIN || bytes > room)
		return err_set(e, ERR_FULL, ENOSPC,
			       "there is no room for a pool of %s: %s are free where the state "
			       "directory is",
			       size_format(wants, bytes ? bytes : POOL_BYTES_MIN),
			       size_format(has, room));
	*ret = bytes & ~(uint64_t)4095;
	return 0;
}

static int make_file(int home_fd, uint64_t asked, struct err *e)
{
	autoclose int fd = -1;
	uint64_t bytes = 0;
	int r = file_size(home_fd, asked, &bytes, e);

	if (r < 0)
		return r;
	unlinkat(home_fd, POOL_NEW, 0); /* of one that was killed */
	fd = openat(home_fd, POOL_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		r = err_errno(e, errno, "make the pool's file");
	if (r == 0)
		r = run_mkfs(fd, bytes < POOL_MIXED_BELOW, e);
	if (r == 0 && (fsync(fd) < 0 || renameat(home_fd, POOL_NEW, home_fd, POOL_FILE) < 0 ||
		       fsync(home_fd) < 0))
		r = err_errno(e, errno, "make the pool's file");
	if (r < 0)
		unlinkat(home_fd, POOL_NEW, 0);
	return r;
}

/* Quotas and directories, boxes/ last. */
static int finish(int pool_fd, struct err *e)
{
	int r = btrfs_quota_on(pool_fd);

	if (r == -EOPNOTSUPP)
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "simple quotas of btrfs cannot be switched on (Linux 6.7 or later, "
			       "and no quotas of the older kind on that filesystem): boxes stay "
			       "with --storage loop");
	if (r < 0)
		return err_errno(e, -r, "switch on the pool's quotas");
	if (fchmod(pool_fd, 0700) < 0 ||
	    (mkdirat(pool_fd, POOL_TREES, 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(pool_fd, POOL_BOXES, 0700) < 0 && errno != EEXIST) || syncfs(pool_fd) < 0)
		return err_errno(e, errno, "make the pool's directories");
	return 0;
}

/* The descriptor is the lock. */
static int lock_home(int home_fd, struct err *e)
{
	autoclose int fd = openat(home_fd, ".", DIR_FLAGS);
	int r = fd < 0 ? -errno : lock_fd_for(fd, DISK_LOCK_MS);

	return r < 0 ? err_errno(e, -r, "lock the state directory") : take_fd(fd);
}

static void drop_file(int home_fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" POOL_DIR, home_fd);
	if (is_mounted(home_fd))
		umount2(path, MNT_DETACH);
	unlinkat(home_fd, POOL_FILE, 0);
	unlinkat(home_fd, POOL_DIR, AT_REMOVEDIR);
}

int pool_setup(int home_fd, uint64_t bytes, struct err *e)
{
	autoclose int lock = lock_home(home_fd, e), fd = -1;
	bool is_new = false;
	int r = lock < 0 ? lock : 0;

	if (r == 0 && geteuid() != 0)
		r = err_set(e, ERR_UNSUPPORTED, EPERM, "a pool is made by root");
	if (r == 0 && btrfs_is(home_fd)) {
		if (mkdirat(home_fd, POOL_DIR, 0700) < 0 && errno != EEXIST)
			r = err_errno(e, errno, "make the directory 'pool'");
	} else if (r == 0) {
		r = pool_mount(home_fd, e);
		is_new = r == -ENOENT;
		if (is_new)
			r = make_file(home_fd, bytes, e);
		if (r == 0 && is_new)
			r = pool_mount(home_fd, e);
	}
	if (r == 0) {
		fd = openat(home_fd, POOL_DIR, DIR_FLAGS);
		r = fd < 0 ? err_errno(e, errno, "open the pool") : finish(fd, e);
	}
	if (r < 0 && is_new)
		drop_file(home_fd);
	return r;
}

/* ---- taking away ---- */

int pool_teardown(int home_fd, struct err *e)
{
	autoclose int lock = lock_home(home_fd, e);
	struct pool_info info;
	char path[64];
	struct stat st;
	int r = lock < 0 ? lock : pool_look(home_fd, &info, NULL);

	if (lock < 0)
		return take_fd(lock);
	if (r == 0 && (info.volumes || info.layers))
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "the pool holds %llu volumes of boxes and workspaces and %llu "
			       "layers: remove those boxes, workspaces, snapshots and saved "
			       "images first",
			       (unsigned long long)info.volumes, (unsigned long long)info.layers);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/" POOL_DIR, home_fd);
	while (is_mounted(home_fd) && fstatat(home_fd, POOL_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0)
		if (umount2(path, 0) < 0)
			return err_errno(e, errno, "unmount the pool");
	if (btrfs_is(home_fd)) {
		unlinkat(home_fd, POOL_DIR "/" POOL_BOXES, AT_REMOVEDIR);
		unlinkat(home_fd, POOL_DIR "/" POOL_TREES, AT_REMOVEDIR);
	}
	if ((unlinkat(home_fd, POOL_FILE, 0) < 0 && errno != ENOENT) ||
	    (unlinkat(home_fd, POOL_DIR, AT_REMOVEDIR) < 0 && errno != ENOENT))
		return err_errno(e, errno, "remove the pool");
	return 0;
}
