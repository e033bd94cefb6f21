/* Trees as streams: packing; see tree_pack.h. */
#include "storage/tree_pack.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/inodes.h"
#include "base/limits.h"
#include "storage/dirents.h"
#include "storage/tree_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

struct tree_pack_level {
	dev_t dev;
	ino_t ino;
	int64_t off;	 /* where to go on with its names */
	size_t path_len; /* of its own path, in the stream */
};

struct tree_packing {
	const struct tree_sink *sink;
	struct err *e;
	int dir_fd;			/* owned: of the deepest level */
	struct tree_pack_level *levels; /* owned; TREE_STREAM_DEPTH of them */
	size_t depth;
	struct buf out;
	struct inodes links;
	uint64_t link_count, link_bytes;
	struct tree_packed sum;
};

/* ---- bytes ---- */

static int pack_flush(struct tree_packing *p)
{
	int r = p->sink->write(p->sink->arg, buf_data(&p->out), buf_len(&p->out), p->e);

	buf_clear(&p->out);
	return r;
}

static int put(struct tree_packing *p, const void *data, size_t n)
{
	int r = buf_len(&p->out) + n > TREE_STREAM_BUFFER ? pack_flush(p) : 0;

	if (r < 0)
		return r;
	r = buf_append(&p->out, data, n);
	return r < 0 ? err_errno(p->e, -r, "pack a tree") : 0;
}

static int put_number(struct tree_packing *p, uint64_t v, size_t bytes)
{
	uint8_t raw[8];

	for (size_t i = 0; i < bytes; i++)
		raw[i] = (uint8_t)(v >> 8 * i);
	return put(p, raw, bytes);
}

static int put_text(struct tree_packing *p, const char *text, size_t len)
{
	int r = put_number(p, len, 2);

	return r < 0 ? r : put(p, text, len);
}

static int pack_fail(struct tree_packing *p, const char *name, int code)
{
	return err_errno(p->e, code, "pack '%.80s'", name);
}

/* ---- what an entry begins with ---- */

static int put_meta(struct tree_packing *p, const struct stat *st)
{
	int r = put_number(p, st->st_mode & 07777, 4);

	if (r == 0)
		r = put_number(p, st->st_uid, 4);
	if (r == 0)
		r = put_number(p, st->st_gid, 4);
	if (r == 0)
		r = put_number(p, (uint64_t)st->st_mtim.tv_sec, 8);
	return r < 0 ? r : put_number(p, (uint64_t)st->st_mtim.tv_nsec, 4);
}

static int put_head(struct tree_packing *p, char type, const char *name, const struct stat *st)
{
	int r = put(p, &type, 1);

	if (r == 0 && name)
		r = put_text(p, name, strlen(name));
	if (r == 0 && p->sum.files++ >= TREE_NAMES_MAX)
		r = err_set(p->e, ERR_LIMIT, E2BIG, "a tree has more than %u names",
			    TREE_NAMES_MAX);
	return r < 0 || !st ? r : put_meta(p, st);
}

static int put_attr(struct tree_packing *p, const char *name, const char *value, size_t n)
{
	int r = put_text(p, name, strlen(name));

	if (r == 0)
		r = put_number(p, n, 4);
	return r < 0 ? r : put(p, value, n);
}

/* Those that mean something to a user, and overlay's own mark: that first, so that there is room
 * for it whatever the user's take. */
static int put_attrs(struct tree_packing *p, int fd)
{
	char names[TREE_STREAM_ATTRS_MAX], value[TREE_STREAM_VALUE_MAX];
	ssize_t len = flistxattr(fd, names, sizeof(names)),
		n = fgetxattr(fd, TREE_STREAM_OPAQUE, value, sizeof(value));
	bool opaque = n >= 0 && tree_stream_is_opaque(TREE_STREAM_OPAQUE, value, (size_t)n);
	uint64_t count = opaque;
	int r;

	if (len < 0)
		len = 0; /* a filesystem without any, or too many for a user to have meant them */
	for (ssize_t i = 0; i < len; i += (ssize_t)strlen(names + i) + 1)
		count += tree_stream_is_users(names + i) &&
			 fgetxattr(fd, names + i, value, sizeof(value)) >= 0;
	r = put_number(p, count, 2);
	if (r == 0 && opaque)
		r = put_attr(p, TREE_STREAM_OPAQUE, "y", 1);
	for (ssize_t i = 0; r == 0 && i < len; i += (ssize_t)strlen(names + i) + 1) {
		n = tree_stream_is_users(names + i) ? fgetxattr(fd, names + i, value, sizeof(value))
						    : -1;
		if (n >= 0)
			r = put_attr(p, names + i, value, (size_t)n);
	}
	return r;
}

/* ---- files ---- */

static int put_data(struct tree_packing *p, int fd, uint64_t at, uint64_t end)
{
	char block[TREE_STREAM_BLOCK];
	int r = 0;

	while (r == 0 && at < end) {
		size_t n = end - at < sizeof(block) ? (size_t)(end - at) : sizeof(block);
		ssize_t got = pread(fd, block, n, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_set(p->e, ERR_CONFLICT, EAGAIN,
				       "a file changed while it was packed");
		r = put(p, "d", 1);
		if (r == 0)
			r = put_number(p, (uint64_t)got, 4);
		if (r == 0)
			r = put(p, block, (size_t)got);
		at += (uint64_t)got;
	}
	return r;
}

/* Files that share their blocks hold more than their disk does. */
static int check_bytes(struct tree_packing *p)
{
	uint64_t max = p->sink->bytes_max;

	if (max == 0 || p->sum.bytes <= max)
		return 0;
	return err_set(p->e, ERR_LIMIT, EDQUOT,
		       "its files hold more than the %llu MiB of its disk (--disk), which clones "
		       "of files share: copies of them would not",
		       (unsigned long long)max >> 20);
}

static int put_contents(struct tree_packing *p, int fd, uint64_t size)
{
	uint64_t at = 0;
	int r = 0;

	while (r == 0 && at < size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;
		uint64_t from = data < 0 ? (errno == ENXIO ? size : at) : (uint64_t)data;

		if (from > size)
			from = size;
		if (from > at) {
			r = put(p, "h", 1);
			if (r == 0)
				r = put_number(p, from - at, 8);
		}
		if (r < 0 || from == size)
			break;
		hole = lseek(fd, (off_t)from, SEEK_HOLE);
		at = hole < 0 || (uint64_t)hole > size ? size : (uint64_t)hole;
		p->sum.bytes += at - from;
		r = check_bytes(p);
		if (r == 0)
			r = put_data(p, fd, from, at);
	}
	return r < 0 ? r : put(p, "e", 1);
}

/* A file with several names, whose first this is: the others will refer to it. */
static int keep_first(struct tree_packing *p, const char *name, const struct stat *st)
{
	size_t path = p->depth > 1 ? p->levels[p->depth - 1].path_len + 1 : 0;
	char number[24];
	int r = 0;

	if (st->st_nlink > TREE_STREAM_NAMES_MAX)
		return err_set(p->e, ERR_LIMIT, EMLINK, "'%.80s' is one of more than %d names",
			       name, TREE_STREAM_NAMES_MAX);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)p->link_count++);
	p->link_bytes += path + strlen(name) + 1;
	if (p->link_bytes <= TREE_STREAM_PATHS_MAX)
		r = inodes_add(&p->links, st->st_dev, st->st_ino, number);
	if (r == -ENOMEM)
		return pack_fail(p, name, ENOMEM);
	if (r < 0 || p->link_bytes > TREE_STREAM_PATHS_MAX)
		return err_set(p->e, ERR_LIMIT, E2BIG,
			       "more than %d files have several names, or their paths %d MiB",
			       TREE_STREAM_LINKS_MAX, TREE_STREAM_PATHS_MAX >> 20);
	return 0;
}

static int pack_file(struct tree_packing *p, const char *name)
{
	autoclose int fd =
		openat(p->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *first;
	struct stat st;
	bool linked;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return pack_fail(p, name, errno);
	if (!S_ISREG(st.st_mode))
		return pack_fail(p, name, EAGAIN);
	first = st.st_nlink > 1 ? inodes_find(&p->links, st.st_dev, st.st_ino) : NULL;
	if (first) {
		r = put_head(p, 'H', name, NULL);
		return r < 0 ? r : put_number(p, strtoull(first, NULL, 10), 8);
	}
	/* Nothing but holes makes one so large, which few file systems would take again. */
	if ((uint64_t)st.st_size > TREE_FILE_MAX) {
		p->sum.left_out++;
		return 0;
	}
	linked = st.st_nlink > 1;
	r = linked ? keep_first(p, name, &st) : 0;
	if (r == 0)
		r = put_head(p, 'F', name, &st);
	if (r == 0)
		r = put_attrs(p, fd);
	if (r == 0)
		r = put_number(p, linked, 1);
	if (r == 0)
		r = put_number(p, (uint64_t)st.st_size, 8);
	return r < 0 ? r : put_contents(p, fd, (uint64_t)st.st_size);
}

static int pack_link(struct tree_packing *p, const char *name, const struct stat *st)
{
	char target[BOX_PATH_MAX];
	ssize_t n = readlinkat(p->dir_fd, name, target, sizeof(target));
	int r;

	if (n < 0 || (size_t)n >= sizeof(target))
		return pack_fail(p, name, n < 0 ? errno : ENAMETOOLONG);
	r = put_head(p, 'L', name, st);
	return r < 0 ? r : put_text(p, target, (size_t)n);
}

/* ---- directories ---- */

/* fd is taken: it is the deepest now. */
static int pack_enter(struct tree_packing *p, int fd, const char *name)
{
	struct stat st;
	int r;

	fd_close(&p->dir_fd);
	p->dir_fd = fd;
	if (fstat(fd, &st) < 0)
		return pack_fail(p, name ? name : "/", errno);
	if (p->depth == TREE_STREAM_DEPTH)
		return err_set(p->e, ERR_LIMIT, ELOOP, "directories are nested more than %u deep",
			       (unsigned)TREE_STREAM_DEPTH);
	p->levels[p->depth] = (struct tree_pack_level){.dev = st.st_dev, .ino = st.st_ino};
	if (p->depth > 0)
		p->levels[p->depth].path_len =
			p->levels[p->depth - 1].path_len + strlen(name) + (p->depth > 1);
	p->depth++;
	r = put_head(p, name ? 'D' : 'R', name, &st);
	return r < 0 ? r : put_attrs(p, fd);
}

static int pack_leave(struct tree_packing *p)
{
	struct tree_pack_level *up;
	struct stat st;
	int fd;

	if (--p->depth == 0)
		return put(p, "Z", 1);
	up = &p->levels[p->depth - 1];
	fd = openat(p->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return pack_fail(p, "..", errno);
	fd_close(&p->dir_fd);
	p->dir_fd = fd;
	if (fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino ||
	    lseek(fd, up->off, SEEK_SET) < 0)
		return pack_fail(p, "..", EAGAIN);
	return put(p, "U", 1);
}

static int pack_name(struct tree_packing *p, const char *name, bool *ret_entered)
{
	struct stat st;
	int fd;

	*ret_entered = false;
	if (fstatat(p->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return pack_fail(p, name, errno);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return pack_file(p, name);
	case S_IFLNK:
		return pack_link(p, name, &st);
	case S_IFIFO:
		return put_head(p, 'P', name, &st);
	case S_IFDIR:
		fd = fd_openat2(p->dir_fd, name, O_RDONLY | O_DIRECTORY, 0,
				FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS | FD_NO_XDEV);
		if (fd < 0)
			return pack_fail(p, name, -fd);
		*ret_entered = true;
		return pack_enter(p, fd, name);
	case S_IFCHR:
		if (st.st_rdev == makedev(0, 0))
			return put_head(p, 'W', name, &st);
	}
	p->sum.left_out++;
	return 0;
}

/* The names of the deepest directory from where it was left. */
static int pack_level(struct tree_packing *p)
{
	struct dirents d;
	const char *name;
	bool entered = false;
	int r;

	dirents_init(&d, p->dir_fd);
	while ((r = dirents_next(&d, &name)) > 0) {
		p->levels[p->depth - 1].off = d.off;
		r = pack_name(p, name, &entered);
		if (r < 0 || entered)
			return r;
	}
	return r < 0 ? pack_fail(p, "a directory", -r) : pack_leave(p);
}

int tree_pack(int root_fd, const struct tree_sink *sink, struct tree_packed *ret, struct err *e)
{
	struct tree_packing p = {.sink = sink, .e = e, .dir_fd = -1};
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	p.levels = calloc(TREE_STREAM_DEPTH, sizeof(*p.levels));
	buf_init(&p.out, TREE_STREAM_BUFFER + TREE_STREAM_VALUE_MAX);
	if (fd < 0 || !p.levels) {
		r = err_errno(e, fd < 0 ? errno : ENOMEM, "pack a tree");
		fd_close(&fd);
	} else {
		r = pack_enter(&p, fd, NULL);
	}
	while (r == 0 && p.depth > 0)
		r = pack_level(&p);
	if (r == 0)
		r = pack_flush(&p);
	if (r == 0 && ret)
		*ret = p.sum;
	fd_close(&p.dir_fd);
	inodes_done(&p.links);
	buf_done(&p.out);
	free(p.levels);
	return r;
}
