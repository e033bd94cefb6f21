/*
 * A layer's tree as a canonical tar stream; see layer_tar.h.
 *
 * How it works
 *
 * The walk holds one directory open and, for each level above it, that directory's identity and
 * the names in it that are still to come, sorted. On the way up ".." is checked against the
 * identity, so a tree of any depth costs one descriptor, and one that is moved meanwhile is an
 * error. Bytes are gathered in a block, hashed and written.
 */
#include "store/layer_tar.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/inodes.h"
#include "base/limits.h"
#include "base/sha.h"
#include "base/size.h"
#include "base/str.h"
#include "store/inside.h"
#include "store/tar_write.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

enum { BLOCK_BYTES = 256 << 10, HEADERS_ROOM = 64 << 10, UNKNOWN_ID = 65534, PACK_ID_MAX = 65535 };

struct pack_level {
	dev_t dev;
	ino_t ino;
	char *text;   /* owned: the names, each with its NUL */
	char **names; /* owned: into text, sorted */
	size_t count, next, bytes;
	size_t path_len; /* of the directory's own path */
};

struct pack {
	int out_fd; /* borrowed, -1: none */
	int dir_fd; /* owned: of the deepest level */
	struct layer_tar_how how;
	struct pack_level *levels;
	size_t depth, cap, held; /* held: bytes of names in memory */
	char path[TAR_NAME_MAX + 1];
	size_t path_len;
	struct buf out;
	struct sha sha;
	struct inodes links;
	uint64_t bytes, files;
	struct err *e;
};

static const char *show_path(struct pack *p, char dst[120])
{
	struct buf b;

	buf_init(&b, 1 << 16);
	if (str_escape(&b, p->path, p->path_len) < 0 || !buf_cstr(&b))
		str_copy(dst, 120, "?");
	else
		str_copy(dst, 120, buf_cstr(&b));
	buf_done(&b);
	return dst;
}

static int fail(struct pack *p, int code)
{
	char shown[120];

	return err_errno(p->e, code, "pack '/%s' of a layer", show_path(p, shown));
}

static int changed(struct pack *p)
{
	char shown[120];

	return err_set(p->e, ERR_CONFLICT, EAGAIN, "'/%s' of a layer changed while it was packed",
		       show_path(p, shown));
}

/* ---- the stream ---- */

static int flush(struct pack *p)
{
	int r = 0;

	if (fd_is_cancelled(p->how.cancel_fd))
		return err_set(p->e, ERR_INTERRUPTED, ECANCELED, "interrupted");
	sha_add(&p->sha, buf_data(&p->out), buf_len(&p->out));
	if (p->out_fd >= 0)
		r = fd_write_full(p->out_fd, buf_data(&p->out), buf_len(&p->out));
	buf_clear(&p->out);
	return r < 0 ? err_errno(p->e, -r, "write a layer as a tar") : 0;
}

static int put_entry(struct pack *p, const struct tar_entry *entry)
{
	int r = 0;

	/* A reader counts extended headers too. */
	if (p->files++ >= TAR_ENTRIES_MAX / 2)
		return err_set(p->e, ERR_LIMIT, E2BIG,
			       "a layer has more than %u files, directories and links",
			       TAR_ENTRIES_MAX / 2);
	if (buf_len(&p->out) > BLOCK_BYTES - HEADERS_ROOM)
		r = flush(p);
	if (r < 0)
		return r;
	return tar_write_entry(&p->out, entry) < 0 ? fail(p, ENOMEM) : 0;
}

static int put_data(struct pack *p, int fd, uint64_t size)
{
	for (uint64_t left = size; left > 0;) {
		size_t room, n;
		ssize_t got;
		uint8_t *at;
		int r = buf_len(&p->out) >= BLOCK_BYTES ? flush(p) : 0;

		if (r < 0)
			return r;
		room = BLOCK_BYTES - buf_len(&p->out);
		n = left < room ? (size_t)left : room;
		at = buf_reserve(&p->out, n);
		if (!at)
			return fail(p, ENOMEM);
		got = fd_read_full(fd, at, n);
		if (got < 0)
			return fail(p, (int)-got);
		if ((size_t)got < n)
			return changed(p);
		buf_commit(&p->out, n);
		left -= n;
	}
	return tar_write_pad(&p->out, size) < 0 ? fail(p, ENOMEM) : 0;
}

/* ---- entries ---- */

static unsigned id_of(const struct pack *p, uint32_t id)
{
	if (p->how.form != LAYER_TAR_USERS)
		return id <= PACK_ID_MAX ? id : UNKNOWN_ID;
	/* In a user's own namespaces for such work the caller is 0 and the first subordinate id 1;
	 * who is not mapped at all is root. */
	if (id == IDS_USER || id >= UNKNOWN_ID)
		return 0;
	return id < IDS_USER ? id + 1 : id;
}

static struct tar_entry entry_of(struct pack *p, enum tar_type type, const struct stat *st)
{
	struct tar_entry entry = {.type = type,
				  .path = p->path,
				  .target = "",
				  .mode = st->st_mode & 07777,
				  .uid = id_of(p, st->st_uid),
				  .gid = id_of(p, st->st_gid)};

	if (st->st_mtim.tv_sec >= 0) {
		entry.mtime_s = (uint64_t)st->st_mtim.tv_sec;
		entry.mtime_ns = (unsigned)st->st_mtim.tv_nsec;
	}
	return entry;
}

/* Says, in the directory that is open, what is not there or hides all below; always alike. */
static int put_mark(struct pack *p, size_t dir_len, const char *prefix, const char *name)
{
	struct tar_entry entry = {.type = TAR_FILE, .target = ""};
	char path[TAR_NAME_MAX + 1];
	int n = snprintf(path, sizeof(path), "%.*s%s%s%s", (int)dir_len, p->path,
			 dir_len ? "/" : "", prefix, name);

	if (p->how.form == LAYER_TAR_ROOT)
		return 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return fail(p, ENAMETOOLONG);
	entry.path = path;
	return put_entry(p, &entry);
}

static int too_large(struct pack *p)
{
	char shown[120], max[SIZE_TEXT];

	return err_set(p->e, ERR_LIMIT, EFBIG,
		       "the files of a layer hold more than %s, holes counted (at '/%s')",
		       size_format(max, p->how.bytes_max), show_path(p, shown));
}

static int put_file(struct pack *p, const char *name, const struct stat *seen)
{
	autoclose int fd =
		openat(p->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct tar_entry entry;
	const char *first;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fail(p, errno);
	if (!S_ISREG(st.st_mode) || st.st_ino != seen->st_ino || st.st_dev != seen->st_dev)
		return changed(p);
	entry = entry_of(p, TAR_FILE, &st);
	first = st.st_nlink > 1 ? inodes_find(&p->links, st.st_dev, st.st_ino) : NULL;
	if (first) {
		entry.type = TAR_HARDLINK;
		entry.target = first;
		return put_entry(p, &entry);
	}
	/* Packed again under each of its names it would multiply. */
	if (st.st_nlink > 1 && inodes_add(&p->links, st.st_dev, st.st_ino, p->path) < 0)
		return err_set(p->e, ERR_LIMIT, E2BIG,
			       "more than %d files of a layer have several names, or their paths "
			       "%d MiB",
			       INODES_MAX, INODES_TEXT_MAX >> 20);
	entry.size = (uint64_t)st.st_size;
	if (entry.size > p->how.bytes_max - p->bytes)
		return too_large(p);
	p->bytes += entry.size;
	r = put_entry(p, &entry);
	return r < 0 ? r : put_data(p, fd, entry.size);
}

static int put_link(struct pack *p, const char *name, const struct stat *st)
{
	struct tar_entry entry = entry_of(p, TAR_SYMLINK, st);
	char target[TAR_NAME_MAX + 1];
	ssize_t n = readlinkat(p->dir_fd, name, target, sizeof(target));

	if (n < 0)
		return fail(p, errno);
	if (n == 0 || (size_t)n >= sizeof(target))
		return fail(p, ENAMETOOLONG);
	target[n] = 0;
	entry.target = target;
	entry.mode = 0777;
	return put_entry(p, &entry);
}

static int put_fifo(struct pack *p, const struct stat *st)
{
	struct tar_entry entry = entry_of(p, TAR_FIFO, st);

	return put_entry(p, &entry);
}

/* ---- directories ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int gather(struct pack *p, struct pack_level *l, struct buf *text)
{
	_Alignas(8) char bytes[16384];
	long n;

	while ((n = syscall(SYS_getdents64, p->dir_fd, bytes, sizeof(bytes))) > 0)
		for (long at = 0; at < n;) {
			const struct fd_dirent *d = (const void *)(bytes + at);

			at += d->reclen;
			if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
				continue;
			if (buf_append(text, d->name, strlen(d->name) + 1) < 0)
				return err_set(p->e, ERR_LIMIT, E2BIG,
					       "a directory of a layer has too many names");
			l->count++;
		}
	return n < 0 ? fail(p, errno) : 0;
}

static int read_names(struct pack *p, struct pack_level *l)
{
	struct buf text;
	size_t at = 0;
	int r;

	buf_init(&text, LAYER_NAMES_MAX - p->held);
	r = gather(p, l, &text);
	if (r == 0 && l->count > 0) {
		l->bytes = buf_len(&text);
		l->text = malloc(l->bytes);
		l->names = calloc(l->count, sizeof(*l->names));
		if (!l->text || !l->names)
			r = fail(p, ENOMEM);
		else
			memcpy(l->text, buf_data(&text), l->bytes);
	}
	buf_done(&text);
	for (size_t i = 0; r == 0 && i < l->count; i++) {
		l->names[i] = l->text + at;
		at += strlen(l->names[i]) + 1;
	}
	if (r == 0 && l->count > 0)
		qsort(l->names, l->count, sizeof(*l->names), by_name);
	p->held += l->bytes;
	return r;
}

/* The directory that fd, taken, is: its own entry, its mark, and its names to come. */
static int enter(struct pack *p, int fd)
{
	bool is_root = p->depth == 0;
	struct tar_entry entry;
	struct pack_level *l;
	struct stat st;
	char mark[4];
	int r;

	fd_close(&p->dir_fd);
	p->dir_fd = fd;
	if (fstat(fd, &st) < 0)
		return fail(p, errno);
	if (p->depth == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 32;

		l = reallocarray(p->levels, cap, sizeof(*l));
		if (!l)
			return fail(p, ENOMEM);
		p->levels = l;
		p->cap = cap;
	}
	l = &p->levels[p->depth++];
	*l = (struct pack_level){.dev = st.st_dev, .ino = st.st_ino, .path_len = p->path_len};
	if (p->depth > TAR_DEPTH_MAX)
		return err_set(p->e, ERR_LIMIT, ELOOP,
			       "a layer has directories nested more than %u deep", TAR_DEPTH_MAX);
	entry = entry_of(p, TAR_DIR, &st);
	r = put_entry(p, &entry);
	/* Overlay does not look for a mark on the root. */
	if (r == 0 && !is_root && fgetxattr(fd, LAYER_OPAQUE_XATTR, mark, sizeof(mark)) == 1 &&
	    mark[0] == 'y')
		r = put_mark(p, p->path_len, LAYER_OPAQUE, "");
	return r < 0 ? r : read_names(p, l);
}

static int enter_name(struct pack *p, const char *name)
{
	int fd = fd_openat2(p->dir_fd, name, O_RDONLY | O_DIRECTORY, 0,
			    FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);

	return fd < 0 ? fail(p, -fd) : enter(p, fd);
}

static void drop_level(struct pack *p)
{
	struct pack_level *l = &p->levels[--p->depth];

	p->held -= l->bytes;
	free(l->text);
	free(l->names);
}

static int leave(struct pack *p)
{
	struct pack_level *up;
	struct stat st;
	int fd;

	drop_level(p);
	if (p->depth == 0)
		return 0;
	up = &p->levels[p->depth - 1];
	fd = openat(p->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail(p, errno);
	fd_close(&p->dir_fd);
	p->dir_fd = fd;
	if (fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino)
		return changed(p);
	return 0;
}

static int put_name(struct pack *p, const char *name)
{
	size_t dir_len = p->levels[p->depth - 1].path_len;
	char shown[120];
	struct stat st;
	int n = snprintf(p->path + dir_len, sizeof(p->path) - dir_len, "%s%s", dir_len ? "/" : "",
			 name);

	p->path_len = dir_len + (size_t)n;
	if (p->path_len >= sizeof(p->path) - 1) {
		p->path_len = dir_len;
		return err_set(p->e, ERR_LIMIT, ENAMETOOLONG,
			       "a layer has a path longer than %u bytes, below '/%s'",
			       TAR_NAME_MAX - 1, show_path(p, shown));
	}
	if (str_starts(name, LAYER_WHITEOUT))
		return err_set(p->e, ERR_INVALID, EINVAL,
			       "'/%s': in an image names that begin with '" LAYER_WHITEOUT
			       "' stand for deleted files; remove or rename it",
			       show_path(p, shown));
	if (fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(p, errno);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return put_file(p, name, &st);
	case S_IFDIR:
		return enter_name(p, name);
	case S_IFLNK:
		return put_link(p, name, &st);
	case S_IFIFO:
		return put_fifo(p, &st);
	case S_IFCHR:
		return st.st_rdev == makedev(0, 0) ? put_mark(p, dir_len, LAYER_WHITEOUT, name) : 0;
	default:
		return 0;
	}
}

static int walk(struct pack *p, int root_fd)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0)
		return fail(p, errno);
	r = enter(p, fd);
	while (r == 0 && p->depth > 0) {
		struct pack_level *l = &p->levels[p->depth - 1];

		r = l->next < l->count ? put_name(p, l->names[l->next++]) : leave(p);
	}
	if (r == 0 && tar_write_end(&p->out) < 0)
		r = fail(p, ENOMEM);
	return r < 0 ? r : flush(p);
}

int layer_tar_pack(int root_fd, int out_fd, const struct layer_tar_how *how,
		   struct layer_tar_result *ret, struct err *e)
{
	struct err own = {0};
	struct pack p = {.out_fd = out_fd, .dir_fd = -1, .how = *how, .e = e ? e : &own};
	uint8_t sum[SHA256_BYTES];
	int r;

	if (how->bytes_max == 0 || how->bytes_max > LAYER_BYTES_MAX)
		p.how.bytes_max = LAYER_BYTES_MAX;

	buf_init(&p.out, BLOCK_BYTES + HEADERS_ROOM);
	sha256_init(&p.sha);
	r = walk(&p, root_fd);
	while (p.depth > 0)
		drop_level(&p);
	free(p.levels);
	fd_close(&p.dir_fd);
	inodes_done(&p.links);
	buf_done(&p.out);
	if (r < 0)
		return r;
	*ret = (struct layer_tar_result){
		.bytes = p.bytes, .files = p.files, .stream_bytes = p.sha.bytes};
	sha_end(&p.sha, sum);
	str_hex(sum, sizeof(sum), ret->diff);
	return 0;
}

/* ---- inside the box's ids ---- */

struct pack_job {
	struct inside_job job;
	int root_fds[IMAGE_LAYERS_MAX], out_fd;
	size_t count;
	struct layer_tar_how how;
	struct layer_tar_result result;
};

/* The same directory as this process's own mounts show it: an overlay takes no others. */
static int open_again(int fd)
{
	char link[32], path[4096];
	struct stat was, is;
	ssize_t n;
	int again;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return -errno;
	path[n] = 0;
	again = fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	if (again < 0)
		return again;
	if (fstat(fd, &was) == 0 && fstat(again, &is) == 0 && was.st_dev == is.st_dev &&
	    was.st_ino == is.st_ino)
		return again;
	fd_close(&again);
	return -ESTALE;
}

static int mount_merged(const struct pack_job *j, struct buf *options)
{
	int r = buf_append_str(options, "userxattr,lowerdir=");

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	/* They stay open until this process ends. */
	for (size_t i = 0; i < j->count && r == 0; i++) {
		int fd = open_again(j->root_fds[i]);

		r = fd < 0 ? fd : buf_printf(options, "%s/proc/self/fd/%d", i ? ":" : "", fd);
	}
	if (r < 0 || !buf_cstr(options))
		return r < 0 ? r : -E2BIG;
	return mount("overlay", "/dev", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
		     buf_cstr(options)) < 0
		       ? -errno
		       : 0;
}

/* The tree that an overlay of them shows, as a descriptor. It is mounted over /dev, which this
 * process does not need, in a mount namespace that ends with it. */
static int open_merged(const struct pack_job *j, struct err *e)
{
	struct buf options;
	int r, fd;

	buf_init(&options, 4096);
	r = mount_merged(j, &options);
	buf_done(&options);
	if (r < 0)
		return err_errno(e, -r, "mount the image's layers");
	fd = fd_open("/dev", O_RDONLY | O_DIRECTORY);
	return fd < 0 ? err_errno(e, -fd, "open the image's layers") : fd;
}

static int pack_inside(struct inside_job *job)
{
	struct pack_job *j = (struct pack_job *)(void *)job;
	autoclose int merged_fd = j->count > 1 ? open_merged(j, &job->err) : -1;

	if (j->count > 1 && merged_fd < 0)
		return merged_fd;
	return layer_tar_pack(j->count > 1 ? merged_fd : j->root_fds[0], j->out_fd, &j->how,
			      &j->result, &job->err);
}

int layer_tar_pack_as(const struct ids *ids, const int *root_fds, size_t count, int out_fd,
		      const struct layer_tar_how *how, struct layer_tar_result *ret, struct err *e)
{
	struct pack_job j = {.job.run = pack_inside, .count = count, .out_fd = out_fd, .how = *how};
	int r;

	ASSERT(count > 0 && count <= IMAGE_LAYERS_MAX);
	memcpy(j.root_fds, root_fds, count * sizeof(*root_fds));
	r = inside_run(ids, &j.job, sizeof(j), e);
	if (r == 0)
		*ret = j.result;
	return r;
}
