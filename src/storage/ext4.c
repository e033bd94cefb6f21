/*
 * Empty ext4 filesystems; see ext4.h.
 *
 * How a template comes to be: mke2fs writes into a file with a temporary name; its superblock says
 * how much can be written; the size is corrected by the difference and mke2fs called again, until
 * it fits (twice, as a rule). Then it is renamed. Several makers at once do the same work and the
 * last one wins; all the results are equal. A crash leaves a temporary name, which is never taken
 * for a template and is removed with the oldest templates when there are too many files.
 *
 * What the filesystem is like, and why: all the bookkeeping lies in one place (packed_meta_blocks)
 * and has no copies (num_backup_sb=0), so that an empty 10 GiB disk is thirty blocks in six pieces;
 * four groups are a flexible one (-G), because the kernel makes the maps of all groups in that one
 * before it gives out the first block, which for a whole disk takes a millisecond; inode tables are
 * not written before they are used, and no kernel thread does it later (noinit_itable when
 * mounting); nothing is reserved for root (-m 0), since root of the box has no privilege here.
 * Every feature is named, so that the host's mke2fs.conf decides nothing.
 */
#include "storage/ext4.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"
#include "storage/ids.h"
#include "storage/loopdev.h"
#include "storage/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TEMPLATES "templates"
#define SEED	  ".seed"
#define NEW_DISK  ".disk-new"
#define FEATURES                                                                              \
	"none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super2,large_file,huge_file," \
	"dir_nlink,extra_isize"
#define CLONE_FILE	 0x40049409 /* FICLONE */
#define RENAME_KEEP	 1u	    /* RENAME_NOREPLACE */
#define SUPERBLOCK_AT	 1024
#define SUPERBLOCK_MAGIC 0xEF53

enum {
	BLOCK = 4096,
	INODE_BYTES = 256,
	BYTES_PER_INODE = 8192,
	FIRST_INODES = 10, /* the filesystem's own */
	SLACK = 64,	   /* blocks that a small disk may be short of */
	FIRST_BLOCKS = 8,  /* of its first directories, at most */
	NAME_SIZE = 80,
	FD_PATH_SIZE = 40,
	COPY_BYTES = 32768,
	/* The kernel keeps a fiftieth, at most this many blocks, for its own needs (ext4's
	 * s_resv_clusters): no file can have them. */
	KEPT_BLOCKS_MAX = 4096,
};

/* ---- superblock ---- */

struct superblock {
	uint64_t blocks, blocks_free, overhead;
	uint32_t inodes, inodes_free;
};

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int superblock_read(int fd, struct superblock *ret)
{
	uint8_t b[1024];

	if (pread(fd, b, sizeof(b), SUPERBLOCK_AT) != (ssize_t)sizeof(b))
		return -EIO;
	/* Only what we made: blocks of 4096 bytes, counts of 32 bits. */
	if ((b[0x38] | b[0x39] << 8) != SUPERBLOCK_MAGIC || le32(b + 0x18) != 2)
		return -EBADMSG;
	*ret = (struct superblock){
		.inodes = le32(b),
		.blocks = le32(b + 4),
		.blocks_free = le32(b + 12),
		.inodes_free = le32(b + 16),
		.overhead = le32(b + 0x248),
	};
	return 0;
}

static uint64_t kept_blocks(uint64_t blocks)
{
	return blocks / 50 < KEPT_BLOCKS_MAX ? blocks / 50 : KEPT_BLOCKS_MAX;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

int ext4_read_counts(int file_fd, struct ext4_counts *ret)
{
	struct superblock sb;
	int r = superblock_read(file_fd, &sb);
	uint64_t usable;

	if (r < 0)
		return r;
	usable = less(sb.blocks, sb.overhead);
	*ret = (struct ext4_counts){
		.bytes_used = less(usable, sb.blocks_free) * BLOCK,
		.files = less(less(sb.inodes, sb.inodes_free), FIRST_INODES),
		.bytes_limit = less(usable, kept_blocks(sb.blocks)) * BLOCK,
		.files_limit = less(sb.inodes, FIRST_INODES),
	};
	return 0;
}

/* ---- mke2fs ---- */

static const char *find_mke2fs(void)
{
	static const char *const paths[] = {"/sbin/mke2fs", "/usr/sbin/mke2fs",
					    "/usr/local/sbin/mke2fs", "/bin/mke2fs"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

int ext4_check(struct err *e)
{
	if (find_mke2fs())
		return 0;
	return err_set(e, ERR_UNSUPPORTED, ENOENT,
		       "mke2fs is missing: install the package 'e2fsprogs'");
}

static unsigned journal_mib(uint64_t bytes)
{
	return bytes < (256ull << 20) ? 4 : bytes < (4ull << 30) ? 16 : 32;
}

static int run_mke2fs(const char *path, const char *seed, const struct ext4_size *size,
		      struct err *e)
{
	char inodes[24], journal[24], features[192], text[160];
	const char *program = find_mke2fs();
	/* clang-format off */
	const char *argv[26] = {
		"mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0",
		"-G", "4", "-N", inodes, "-O", features, "-E",
		"packed_meta_blocks=1,lazy_itable_init=1,lazy_journal_init=1,nodiscard,"
		"num_backup_sb=0"};
	/* clang-format on */
	int n = 19;
	autoclose int out = sys_memfd_create("mke2fs", MFD_CLOEXEC);
	autoclose int nothing = fd_open("/dev/null", O_RDONLY);
	ssize_t said;
	pid_t pid;
	int r;

	if (!program)
		return ext4_check(e);
	if (out < 0)
		return err_errno(e, -out, "run mke2fs");
	snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)size->inodes);
	snprintf(journal, sizeof(journal), "size=%u", journal_mib(size->bytes));
	snprintf(features, sizeof(features), FEATURES ",%s",
		 size->journal ? "has_journal,metadata_csum" : "uninit_bg");
	if (size->journal) {
		argv[n++] = "-J";
		argv[n++] = journal;
	}
	if (size->layer) {
		argv[n++] = "-d";
		argv[n++] = seed;
	}
	argv[n++] = path;
	r = child_start(program, (char *const *)(uintptr_t)argv, (int[]){nothing, out, out}, &pid);
	if (r == 0)
		r = child_wait(pid);
	if (r > 0) { /* its last words, on one line */
		said = pread(out, text, sizeof(text) - 1, 0);
		text[said < 0 ? 0 : said] = 0;
		for (char *p = text; *p; p++)
			if (*p < ' ' || *p > '~')
				*p = ' ';
		return err_set(e, ERR_INTERNAL, EIO, "mke2fs failed: %s", text);
	}
	return r < 0 ? err_errno(e, -r, "run %s", program) : 0;
}

/* ---- templates ---- */

/* A descriptor as a path for another program: no name that could be another file by then. */
static void fd_path(int fd, char ret[FD_PATH_SIZE])
{
	snprintf(ret, FD_PATH_SIZE, "/proc/%d/fd/%d", (int)getpid(), fd);
}

/* The tree that a box's disk begins with: the two halves of its layer. Made beforehand they lie
 * beside each other; the kernel would put each into a corner of its own. */
static int open_seed(int dir_fd, struct err *e)
{
	static const char *const dirs[] = {SEED "/upper", SEED "/work"};
	static const mode_t modes[] = {0755, 0700};
	int fd;

	if (mkdirat(dir_fd, SEED, 0700) < 0 && errno != EEXIST)
		return err_errno(e, errno, "make " TEMPLATES "/" SEED);
	for (int i = 0; i < 2; i++)
		if ((mkdirat(dir_fd, dirs[i], 0700) < 0 && errno != EEXIST) ||
		    fchmodat(dir_fd, dirs[i], modes[i], 0) < 0)
			return err_errno(e, errno, "make " TEMPLATES "/%s", dirs[i]);
	fd = openat(dir_fd, SEED, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(e, errno, "open " TEMPLATES "/" SEED) : fd;
}

/* Makes the filesystem in fd, so large that what can be written fits. */
static int fill_template(int fd, int seed_fd, const struct ext4_size *size, struct err *e)
{
	char path[FD_PATH_SIZE], seed[FD_PATH_SIZE];
	/* The directories that are in it from the start count as written. */
	const int64_t wanted = (int64_t)(size->bytes / BLOCK) - FIRST_BLOCKS;
	/* The bookkeeping as far as it can be foreseen. */
	uint64_t guess = size->bytes + size->inodes * INODE_BYTES + (2ull << 20) +
			 size->bytes / 4096 +
			 (size->journal ? (uint64_t)journal_mib(size->bytes) << 20 : 0);
	int64_t blocks = (int64_t)(guess / BLOCK);

	fd_path(fd, path);
	fd_path(seed_fd, seed);
	for (unsigned i = 0; i < DISK_SIZING_MAX; i++) {
		struct superblock sb;
		int64_t can_write;
		int r;

		if (ftruncate(fd, 0) < 0 || ftruncate(fd, blocks * BLOCK) < 0)
			return err_errno(e, errno, "make a disk of %lld bytes",
					 (long long)(blocks * BLOCK));
		r = run_mke2fs(path, seed, size, e);
		if (r < 0)
			return r;
		r = superblock_read(fd, &sb);
		if (r < 0)
			return err_errno(e, -r, "read what mke2fs made");
		can_write = (int64_t)sb.blocks_free - (int64_t)kept_blocks(sb.blocks);
		if (can_write <= wanted && (wanted - can_write) * 100 <= wanted + 100 * SLACK)
			return 0;
		/* Rounding may swing about the number asked for: each time a little lower. */
		blocks += wanted - can_write - (int64_t)i * (SLACK / 8);
	}
	return err_set(e, ERR_INTERNAL, EIO, "mke2fs made a filesystem of another size than asked");
}

/* A workspace shows the filesystem's own root: it is to belong to the box's user and to be empty.
 * Done here once, so that a copy is right from its first moment. */
static int tidy_root(int fd, struct err *e)
{
	const char *options[] = {"source", NULL, "noinit_itable", NULL, NULL};
	autoclose int mount_fd = -1, root_fd = -1;
	struct loopdev dev;
	int r = loopdev_open(fd, true, &dev, e);

	if (r < 0)
		return r;
	options[1] = dev.path;
	mount_fd = mount_detached("ext4", options, MOUNT_NODEV, NULL, 0);
	fd_close(&dev.fd);
	if (mount_fd < 0)
		return err_errno(e, -mount_fd, "mount a new ext4");
	root_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 || unlinkat(root_fd, "lost+found", AT_REMOVEDIR) < 0 ||
	    fchown(root_fd, IDS_USER, IDS_USER) < 0 || fchmod(root_fd, 0755) < 0 ||
	    syncfs(root_fd) < 0)
		return err_errno(e, errno, "prepare a new ext4");
	return 0;
}

/* Removes the oldest file beyond so many. Whoever is copying it has it open. */
static void prune(int dir_fd, unsigned keep)
{
	for (unsigned round = 0; round < 2 * DISK_TEMPLATES_MAX; round++) {
		int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		char oldest[NAME_MAX + 1] = "";
		struct timespec when = {0};
		unsigned count = 0;
		struct dirent *d;

		if (!dir) {
			fd_close(&fd);
			return;
		}
		while ((d = readdir(dir))) {
			struct stat st;

			if (fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			    !S_ISREG(st.st_mode))
				continue;
			count++;
			if (!oldest[0] || st.st_mtim.tv_sec < when.tv_sec ||
			    (st.st_mtim.tv_sec == when.tv_sec &&
			     st.st_mtim.tv_nsec < when.tv_nsec)) {
				when = st.st_mtim;
				str_copy(oldest, sizeof(oldest), d->d_name);
			}
		}
		closedir(dir);
		if (count <= keep || !oldest[0] || unlinkat(dir_fd, oldest, 0) < 0)
			return;
	}
}

static int make_template(int dir_fd, const char *name, const struct ext4_size *size, struct err *e)
{
	char token[17], tmp[NAME_SIZE];
	autoclose int fd = -1, seed_fd = open_seed(dir_fd, e);
	int r;

	if (seed_fd < 0)
		return seed_fd;
	prune(dir_fd, DISK_TEMPLATES_MAX - 1);
	rand_hex(token, 8);
	snprintf(tmp, sizeof(tmp), ".new-%s", token);
	fd = openat(dir_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(e, errno, "make a template in " TEMPLATES "/");
	r = fill_template(fd, seed_fd, size, e);
	if (r == 0 && !size->layer)
		r = tidy_root(fd, e);
	if (r == 0 && fsync(fd) < 0)
		r = err_errno(e, errno, "write a template in " TEMPLATES "/");
	if (r == 0 && renameat(dir_fd, tmp, dir_fd, name) < 0)
		r = err_errno(e, errno, "name a template in " TEMPLATES "/");
	if (r < 0)
		unlinkat(dir_fd, tmp, 0);
	return r < 0 ? r : take_fd(fd);
}

static int open_template(int home_fd, const struct ext4_size *size, struct err *e)
{
	char name[NAME_SIZE];
	autoclose int dir_fd = -1;
	int fd;

	snprintf(name, sizeof(name), "ext4-2-%llu-%llu%s%s", (unsigned long long)size->bytes,
		 (unsigned long long)size->inodes, size->journal ? "-journal" : "",
		 size->layer ? "-layer" : "");
	dir_fd = openat(home_fd, TEMPLATES, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd < 0 && errno == ENOENT) {
		if (mkdirat(home_fd, TEMPLATES, 0700) < 0 && errno != EEXIST)
			return err_errno(e, errno, "make " TEMPLATES "/ in the state directory");
		dir_fd =
			openat(home_fd, TEMPLATES, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
	if (dir_fd < 0)
		return err_errno(e, errno, "open " TEMPLATES "/ in the state directory");
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		/* One is made at a time: many boxes in a new home make it once, and what has no
		 * name yet was left by a maker that was killed. */
		while (flock(dir_fd, LOCK_EX) < 0)
			if (errno != EINTR)
				return err_errno(e, errno, "lock " TEMPLATES "/");
		fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 && errno == ENOENT)
			return make_template(dir_fd, name, size, e);
	}
	return fd < 0 ? err_errno(e, errno, "open the template '%s'", name) : fd;
}

/* ---- copies ---- */

static int copy_bytes(int to, int from, off_t at, off_t end)
{
	char block[COPY_BYTES];

	while (at < end) {
		size_t want = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
		ssize_t n = pread(from, block, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (pwrite(to, block, (size_t)n, at) != n)
			return errno ? -errno : -EIO;
		at += n;
	}
	return 0;
}

/* The file with its holes. A clone where the filesystem has such a thing. See ext4_copy for dev. */
static int copy_sparse(int to, int from, int dev)
{
	bool is_cloned = ioctl(to, CLONE_FILE, from) == 0;
	off_t at = 0, end;
	struct stat st;
	int r = 0;

	if (is_cloned && dev < 0)
		return 0;
	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	while (r == 0 && at < st.st_size) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno;
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		if (!is_cloned)
			r = copy_bytes(to, from, at, end);
		if (r == 0 && dev >= 0)
			readahead(dev, at, (size_t)(end - at));
		at = end;
	}
	return r;
}

int ext4_template(int home_fd, const struct ext4_size *asked, struct err *e)
{
	struct ext4_size size = *asked;

	if (size.bytes < DISK_BYTES_MIN || size.bytes > DISK_BYTES_MAX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a disk limit is from %llu MiB to %llu TiB, not %llu bytes",
			       DISK_BYTES_MIN >> 20, DISK_BYTES_MAX >> 40,
			       (unsigned long long)size.bytes);
	size.bytes -= size.bytes % BLOCK;
	if (size.inodes == 0)
		size.inodes = size.bytes / BYTES_PER_INODE;
	if (size.inodes < DISK_INODES_MIN)
		size.inodes = DISK_INODES_MIN;
	if (size.inodes > DISK_INODES_MAX)
		size.inodes = DISK_INODES_MAX;
	return open_template(home_fd, &size, e);
}

int ext4_copy(int to_fd, int template_fd, int dev_fd, struct err *e)
{
	int r = copy_sparse(to_fd, template_fd, dev_fd);

	return r < 0 ? err_errno(e, -r, "make the disk") : 0;
}

int ext4_make(int home_fd, int dir_fd, const char *name, const struct ext4_size *asked,
	      bool durable, struct err *e)
{
	autoclose int from = ext4_template(home_fd, asked, e), to = -1;
	int r;

	if (from < 0)
		return take_fd(from);
	unlinkat(dir_fd, NEW_DISK, 0); /* of somebody who was killed */
	to = openat(dir_fd, NEW_DISK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return err_errno(e, errno, "make the disk '%s'", name);
	r = copy_sparse(to, from, -1);
	if (r == 0 && durable && fsync(to) < 0)
		r = -errno;
	if (r == 0 && syscall(SYS_renameat2, dir_fd, NEW_DISK, dir_fd, name, RENAME_KEEP) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dir_fd, NEW_DISK, 0);
		return err_errno(e, -r, "make the disk '%s'", name);
	}
	if (durable && fsync(dir_fd) < 0)
		return err_errno(e, errno, "make the disk '%s'", name);
	return 0;
}
