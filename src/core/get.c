/*
 * Files out of a box.
 *
 * What comes is the word of a hostile machine, so this side decides where everything goes:
 *
 *	a path	must be relative, without "." and ".."
 *	a parent is opened below the destination with no link followed on the way (openat2): a link
 *		that the box sent first, or one that was there before, is never walked through
 *	a file	is written under a fresh name and renamed into place when it is whole; a link in
 *		its place is replaced, not written through
 *	a link	is made as it is, and never followed
 *	a hard link is made only to a file that came in the same copy
 *	modes	lose setuid, setgid and sticky bits, and are never writable for more than the
 *		caller's umask lets them; a directory gets its own when all in it has come
 *	an endless stream ends when the caller's disk is full, and what was half-written is removed
 *
 * The destination itself is the caller's word: its parent directories are followed as usual.
 */
#include "base/fd.h"
#include "base/inodes.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/tar_out.h"
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A directory that was made here and is being filled. */
struct get_dir {
	size_t path_len;
	unsigned mode;
	uint64_t mtime_ns;
};

struct get {
	struct transfer t;
	int parent_fd;		 /* owned; directory that the copy goes into */
	char name[NAME_MAX + 1]; /* of the copy there; empty: the directory itself is filled */
	bool must_be_dir;	 /* the caller wrote a slash at the end */
	bool in_place; /* a device or pipe that the caller named: written to, never replaced */
	bool began;    /* the first entry came */
	int root_fd;   /* owned; the copied directory, -1 while there is none */
	int dir_fd;    /* owned; the directory of the entry before, at dir_path below root_fd */
	char dir_path[BOX_PATH_MAX];
	int file_fd;	 /* owned; the file being written, -1 between files */
	int file_dir_fd; /* borrowed; where it is */
	char temp[32], file_name[NAME_MAX + 1];
	struct wire_entry file; /* it, without its strings */
	bool has_holes;
	struct inodes linked; /* files that came and have further names */
	struct get_dir dirs[INIT_DEPTH_MAX];
	unsigned dir_count;
	char made_path[BOX_PATH_MAX]; /* of the innermost of them */
	char shown[160];	      /* the entry's path, safe to show */
};

static int write_some(int fd, const void *p, size_t n)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	size_t done = 0;

	while (done < n) {
		ssize_t r = write(fd, (const char *)p + done, n - done);

		if (r >= 0)
			done += (size_t)r;
		else if (errno == EAGAIN)
			poll(&wait, 1, -1);
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int fail_write(int code, const char *what, uint64_t bytes, struct err *e)
{
	if (code == ENOSPC || code == EDQUOT)
		return err_set(e, ERR_FULL, code,
			       "the disk is full: '%.120s' was not copied (%llu bytes "
			       "had come); free some space or choose another place",
			       what, (unsigned long long)bytes);
	return err_errno(e, code, "write '%.150s'", what);
}

/* ---- the destination ---- */

static int open_dir(const char *path, int *ret_fd, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no directory '%.80s' to copy to; make it (mkdir -p), or "
			       "choose another place",
			       path);
	if (fd < 0)
		return err_errno(e, errno, "open the directory '%.150s'", path);
	*ret_fd = fd;
	return 0;
}

/* An existing directory: what comes goes inside it, under its own name. */
static int into_dir(struct get *g, const char *host_path, const char *box_path, struct err *e)
{
	char path[BOX_PATH_MAX];
	const char *base;

	if (!str_copy(path, sizeof(path), box_path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "a path is too long");
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	base = path_base(path);
	/* The home's own name is not known here: its content comes, as with ".". */
	if (strcmp(path, "~") != 0 && path_is_safe_relative(base) &&
	    !str_copy(g->name, sizeof(g->name), base))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "'%.100s' is too long a name", base);
	return open_dir(host_path, &g->parent_fd, e);
}

/* A name of its own, new or to be replaced. */
static int as_name(struct get *g, const char *host_path, struct err *e)
{
	char path[BOX_PATH_MAX], *slash;
	size_t n = strlen(host_path);

	if (!str_copy(path, sizeof(path), host_path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "a path is too long");
	g->must_be_dir = n > 0 && host_path[n - 1] == '/';
	for (; n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = 0;
	if (!path_is_safe_relative(path_base(path)) ||
	    !str_copy(g->name, sizeof(g->name), path_base(path)))
		return err_set(e, ERR_INVALID, EINVAL, "'%.150s' is no name for a file", host_path);
	slash = strrchr(path, '/');
	if (!slash)
		return open_dir(".", &g->parent_fd, e);
	slash[slash == path ? 1 : 0] = 0;
	return open_dir(path, &g->parent_fd, e);
}

static int find_parent(struct get *g, const char *host_path, const char *box_path, struct err *e)
{
	struct stat st, link;

	if (!*host_path)
		return err_set(e, ERR_INVALID, EINVAL, "the destination is empty");
	if (stat(host_path, &st) < 0)
		return errno == ENOENT ? as_name(g, host_path, e)
				       : err_errno(e, errno, "look at '%.150s'", host_path);
	if (S_ISDIR(st.st_mode))
		return into_dir(g, host_path, box_path, e);
	/* A pipe or device that was named is a place to write to, and so is what /dev/stdout and
	 * its like lead to. Any other link is replaced: an earlier copy may have brought it from a
	 * box. */
	if (lstat(host_path, &link) < 0)
		return err_errno(e, errno, "look at '%.150s'", host_path);
	if (S_ISLNK(link.st_mode))
		g->in_place = str_starts(host_path, "/dev/") || str_starts(host_path, "/proc/");
	else
		g->in_place = !S_ISREG(st.st_mode);
	return g->in_place ? 0 : as_name(g, host_path, e);
}

static int find_destination(struct get *g, const char *host_path, const char *box_path,
			    struct err *e)
{
	int r = find_parent(g, host_path, box_path, e);

	if (r < 0 || !g->in_place)
		return r;
	g->file_fd = open(host_path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
	return g->file_fd < 0 ? err_errno(e, errno, "open '%.150s'", host_path) : 0;
}

/* ---- entries ---- */

/* The directory an entry lies in (borrowed) and its name there. */
static int locate(struct get *g, const char *path, int *ret_dir, const char **ret_name,
		  struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	char dir[BOX_PATH_MAX];

	if (!*path) {
		*ret_dir = g->parent_fd;
		*ret_name = g->name;
		return 0;
	}
	if (!path_is_safe_relative(path) || len >= sizeof(dir))
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the box sent a path that is not allowed: '%.150s'", g->shown);
	if (g->root_fd < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the box sent '%.150s' without its directory", g->shown);
	memcpy(dir, path, len);
	dir[len] = 0;
	*ret_name = slash ? slash + 1 : path;
	*ret_dir = g->root_fd;
	if (len == 0)
		return 0;
	if (g->dir_fd < 0 || strcmp(dir, g->dir_path) != 0) {
		fd_close(&g->dir_fd);
		g->dir_fd = fd_openat2(g->root_fd, dir, O_PATH | O_DIRECTORY, 0,
				       FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
		if (g->dir_fd == -ELOOP || g->dir_fd == -EXDEV || g->dir_fd == -ENOTDIR)
			return err_set(e, ERR_DENIED, EPERM,
				       "'%.150s' would go through a link or a file; it "
				       "was not copied",
				       g->shown);
		if (g->dir_fd < 0)
			return err_errno(e, -g->dir_fd, "open the directory of '%.150s'", g->shown);
		memcpy(g->dir_path, dir, len + 1);
	}
	*ret_dir = g->dir_fd;
	return 0;
}

/* Its permissions as they came; for group and others to write only where the umask let them when it
 * was made. */
static int finish_mode(int fd, unsigned mode, uint64_t mtime_ns)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(mtime_ns / 1000000000u),
		 .tv_nsec = (long)(mtime_ns % 1000000000u)},
	};
	struct stat st;

	if (fstat(fd, &st) < 0 || fchmod(fd, (st.st_mode & mode & 0022) | (mode & 0755)) < 0)
		return -errno;
	return mtime_ns && futimens(fd, times) < 0 ? -errno : 0;
}

/* Finishes the directories that an entry at path is not below; all of them for NULL. */
static int leave_dirs(struct get *g, const char *path, struct err *e)
{
	while (g->dir_count > 0) {
		const struct get_dir *d = &g->dirs[g->dir_count - 1];
		size_t n = d->path_len;
		int fd, r;

		if (path && (n == 0 || (strncmp(path, g->made_path, n) == 0 && path[n] == '/')))
			break;
		g->made_path[n] = 0;
		fd = fd_openat2(g->root_fd, n ? g->made_path : ".", O_RDONLY | O_DIRECTORY, 0,
				FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
		r = fd < 0 ? fd : finish_mode(fd, d->mode, d->mtime_ns);
		fd_close(&fd);
		g->dir_count--;
		if (r < 0)
			return err_errno(e, -r, "finish the directory '%.150s'", g->made_path);
	}
	return 0;
}

static void set_temp(struct get *g)
{
	char token[17];

	rand_hex(token, 8);
	snprintf(g->temp, sizeof(g->temp), ".cove-%s", token);
}

static int begin_file(struct get *g, int dir_fd, const char *name, const struct wire_entry *m,
		      struct err *e)
{
	if (!*name || g->must_be_dir)
		return err_set(e, ERR_INVALID, ENOTDIR,
			       "the destination is a directory, '%.150s' a file", g->shown);
	set_temp(g);
	if (!str_copy(g->file_name, sizeof(g->file_name), name))
		return err_errno(e, ENAMETOOLONG, "write '%.150s'", g->shown);
	g->file_fd = openat(dir_fd, g->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    (mode_t)(m->mode & 0777));
	if (g->file_fd < 0)
		return fail_write(errno, g->shown, g->t.bytes, e);
	/* The entry's directory stays what it is until the next entry. */
	g->file_dir_fd = dir_fd;
	g->file = *m;
	g->has_holes = false;
	return 0;
}

static int end_file(struct get *g, struct err *e)
{
	struct stat st = {0};
	int r = 0;

	/* The last hole may be its end. */
	if (g->has_holes && ftruncate(g->file_fd, lseek(g->file_fd, 0, SEEK_CUR)) < 0)
		r = errno;
	if (r == 0 && !g->in_place)
		r = -finish_mode(g->file_fd, (unsigned)g->file.mode, g->file.mtime_ns);
	if (r == 0 && g->file.links > 1 && fstat(g->file_fd, &st) == 0)
		(void)inodes_add(&g->linked, st.st_dev, st.st_ino, "");
	if (close(take_fd(g->file_fd)) < 0 && r == 0)
		r = errno;
	g->t.files++;
	if (r == 0 && g->temp[0] &&
	    renameat(g->file_dir_fd, g->temp, g->file_dir_fd, g->file_name) < 0)
		r = errno;
	if (r != 0 && g->temp[0])
		unlinkat(g->file_dir_fd, g->temp, 0);
	g->temp[0] = 0;
	if (r == EISDIR)
		return err_set(e, ERR_EXISTS, EISDIR, "'%.150s' exists and is a directory",
			       g->shown);
	return r != 0 ? fail_write(r, g->shown, g->t.bytes, e) : 0;
}

static int make_link(struct get *g, int dir_fd, const char *name, const struct wire_entry *m,
		     struct err *e)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(m->mtime_ns / 1000000000u),
		 .tv_nsec = (long)(m->mtime_ns % 1000000000u)},
	};
	const char *target = m->target;
	int r = 0;

	if (!*name || !target || !*target || strlen(target) >= BOX_PATH_MAX)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a link without a target");
	set_temp(g);
	if (symlinkat(target, dir_fd, g->temp) < 0)
		r = errno;
	else if (m->mtime_ns && utimensat(dir_fd, g->temp, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno;
	else if (renameat(dir_fd, g->temp, dir_fd, name) < 0)
		r = errno;
	if (r != 0)
		unlinkat(dir_fd, g->temp, 0);
	g->temp[0] = 0;
	return r != 0 ? fail_write(r, g->shown, g->t.bytes, e) : 0;
}

/* Another name of a file that came before: of no other, whatever is there already. */
static int make_hard_link(struct get *g, int dir_fd, const char *name, const char *target,
			  struct err *e)
{
	autoclose int fd = -1;
	char path[32];
	struct stat st;
	int r = 0;

	if (!*name || !target || !path_is_safe_relative(target) || g->root_fd < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a link without a target");
	fd = fd_openat2(g->root_fd, target, O_PATH, 0,
			FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	if (fd < 0 || fstat(fd, &st) < 0 || !inodes_find(&g->linked, st.st_dev, st.st_ino))
		return err_set(e, ERR_PROTOCOL, EPROTO,
			       "the box sent '%.150s' as a name of a file that did not come",
			       g->shown);
	set_temp(g);
	/* The file that was looked at, by its descriptor. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, dir_fd, g->temp, AT_SYMLINK_FOLLOW) < 0)
		r = errno;
	else if (renameat(dir_fd, g->temp, dir_fd, name) < 0)
		r = errno;
	/* It is still there also where both were names of one file before. */
	unlinkat(dir_fd, g->temp, 0);
	g->temp[0] = 0;
	return r != 0 ? fail_write(r, g->shown, g->t.bytes, e) : 0;
}

/* While it is filled its owner can always work in it. One that was there stays as it is. */
static int make_dir(struct get *g, int dir_fd, const char *name, const struct wire_entry *m,
		    struct err *e)
{
	bool is_root = !*m->path, made = false;
	autoclose int fd = -1;

	if (*name) {
		made = mkdirat(dir_fd, name, (m->mode & 0777) | 0700) == 0;
		if (!made && errno != EEXIST)
			return fail_write(errno, g->shown, g->t.bytes, e);
	}
	fd = openat(dir_fd, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(e, ERR_EXISTS, ENOTDIR, "'%.150s' exists and is not a directory",
			       g->shown);
	if (fd < 0)
		return err_errno(e, errno, "open the directory '%.150s'", g->shown);
	if (is_root)
		g->root_fd = take_fd(fd);
	if (made && g->dir_count == INIT_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, ELOOP, "'%.150s' is deeper than %u directories",
			       g->shown, INIT_DEPTH_MAX);
	if (made) {
		str_copy(g->made_path, sizeof(g->made_path), m->path);
		g->dirs[g->dir_count++] = (struct get_dir){.path_len = strlen(m->path),
							   .mode = (unsigned)m->mode,
							   .mtime_ns = m->mtime_ns};
	}
	return 0;
}

static int take_hole(struct get *g, const struct wire_entry *m, struct err *e)
{
	if (m->size > INT64_MAX || lseek(g->file_fd, (off_t)m->size, SEEK_CUR) < 0)
		return fail_write(EFBIG, g->shown, g->t.bytes, e);
	g->has_holes = true;
	return 0;
}

/* Both texts are the box's word. */
static void take_skipped(const struct transfer *t, const struct wire_entry *m)
{
	char path[160], why[80];

	core_show(path, sizeof(path), m->path);
	core_show(why, sizeof(why), m->target ? m->target : "it cannot be read");
	t->how.on_skipped(t->how.arg, path, why);
}

static int take_entry(struct get *g, const struct wire_frame *f, struct err *e)
{
	struct wire_entry m;
	const char *name;
	struct stat st;
	int dir_fd, r;

	if (wire_entry_decode(f, &m) < 0 || !m.path)
		return core_unexpected(&g->t.call.q, f, e);
	if (m.type == 'z' && g->file_fd >= 0 && !g->in_place)
		return take_hole(g, &m, e);
	if ((g->file_fd >= 0 && !g->in_place) || g->began != (*m.path != 0))
		return core_unexpected(&g->t.call.q, f, e);
	g->began = true;
	core_show(g->shown, sizeof(g->shown), *m.path ? m.path : g->name);
	if (g->in_place)
		return m.type == 'f' ? 0
				     : err_set(e, ERR_INVALID, EISDIR, "only a file can go there");
	if (m.type == 'x' && g->t.how.on_skipped) {
		take_skipped(&g->t, &m);
		return 0;
	}
	if (m.type != 'f' && m.type != 'd' && m.type != 'l' && m.type != 'h') {
		g->t.left_out++;
		return 0;
	}
	r = leave_dirs(g, m.path, e);
	if (r == 0)
		r = locate(g, m.path, &dir_fd, &name, e);
	if (r < 0)
		return r;
	if (m.type == 'f')
		r = begin_file(g, dir_fd, name, &m, e);
	else if (m.type == 'l')
		r = make_link(g, dir_fd, name, &m, e);
	else if (m.type == 'h')
		r = make_hard_link(g, dir_fd, name, m.target, e);
	else
		r = make_dir(g, dir_fd, name, &m, e);
	if (r < 0 && fstat(dir_fd, &st) == 0)
		core_hint_owner(g->t.box->cove, st.st_uid, e);
	return r;
}

static int take_frame(struct get *g, const struct wire_frame *f, struct err *e)
{
	int r;

	switch (f->type) {
	case WIRE_ENTRY:
		return take_entry(g, f, e);
	case WIRE_DATA:
		if (g->file_fd < 0 || f->stream != WIRE_STDOUT)
			return core_unexpected(&g->t.call.q, f, e);
		r = write_some(g->file_fd, f->payload, f->len);
		return r < 0 ? fail_write(-r, g->shown, g->t.bytes, e)
			     : transfer_took(&g->t, f->len, e);
	case WIRE_EOF:
		return g->file_fd >= 0 ? end_file(g, e) : core_unexpected(&g->t.call.q, f, e);
	case WIRE_OK:
		if (g->file_fd >= 0 || !g->began)
			return core_unexpected(&g->t.call.q, f, e);
		r = leave_dirs(g, NULL, e);
		return r < 0 ? r : 1;
	default:
		return core_unexpected(&g->t.call.q, f, e);
	}
}

static int get(struct get *g, struct cove_box *box, const char *box_path, const char *host_path,
	       struct err *e)
{
	struct wire_file m = {.op = FILE_GET, .path = box_path, .user = g->t.how.user};
	struct wire_frame f;
	int r = find_destination(g, host_path, box_path, e);

	m.skip = g->t.how.on_skipped != NULL;
	m.links = m.holes = !g->in_place;

	if (r == 0)
		r = transfer_begin(&g->t, box, &m, e);
	if (r < 0)
		return r;
	do {
		r = transfer_next(&g->t, &f, e);
		if (r > 0)
			r = take_frame(g, &f, e);
	} while (r == 0);
	/* What did not come whole. */
	if (g->file_fd >= 0 && g->temp[0])
		unlinkat(g->file_dir_fd, g->temp, 0);
	if (r > 0)
		transfer_report(&g->t, NULL); /* too late to give it up */
	return transfer_end(&g->t, r < 0 ? r : (int)g->t.left_out);
}

static struct get *get_new(void)
{
	struct get *g = calloc(1, sizeof(*g));

	if (g)
		g->parent_fd = g->root_fd = g->dir_fd = g->file_fd = -1;
	return g;
}

static void get_free(struct get *g)
{
	fd_close(&g->file_fd);
	fd_close(&g->dir_fd);
	fd_close(&g->root_fd);
	fd_close(&g->parent_fd);
	inodes_done(&g->linked);
	free(g);
}

int cove_get(struct cove_box *box, const char *box_path, const char *host_path,
	     const struct cove_copy *how, struct cove_error *err)
{
	struct get *g = get_new();
	struct err e = {0};
	int r;

	if (!g)
		return core_return(box->cove, box->name, err_errno(&e, ENOMEM, "copy"), &e, err);
	r = transfer_init(&g->t, how, &e);
	if (r == 0)
		r = get(g, box, box_path, host_path, &e);
	get_free(g);
	return core_return(box->cove, box->name, r, &e, err);
}

int get_find_place(const char *host_path, const char *box_path, struct get_place *ret,
		   struct err *e)
{
	struct get *g = get_new();
	struct stat st;
	int r = g ? find_parent(g, host_path, box_path, e) : err_errno(e, ENOMEM, "copy");

	if (r == 0 && g->must_be_dir)
		r = err_set(e, ERR_NOT_FOUND, ENOENT,
			    "there is no directory '%.150s'; make it (mkdir -p)", host_path);
	if (r == 0 &&
	    (g->in_place ? stat(host_path, &st)
			 : fstat(g->parent_fd, &st) | faccessat(g->parent_fd, ".", W_OK, 0)) < 0)
		r = err_errno(e, errno, "write '%.150s'", host_path);
	if (r == 0) {
		*ret = (struct get_place){.dev = st.st_dev, .ino = st.st_ino};
		memcpy(ret->name, g->name, sizeof(ret->name));
	}
	if (g)
		get_free(g);
	return r;
}

/* ---- one file, to a descriptor or to memory ---- */

struct sink {
	const char *path; /* borrowed; in the box */
	int fd;
	bool waits;	    /* a write to it may wait: no file */
	struct buf bytes;   /* when fd is -1; otherwise what is to be written, of a tar */
	bool is_tar;	    /* it is a directory */
	struct tar_out tar; /* then */
};

/* What a pipe takes at once when it is ready. */
enum { SINK_PIECE = 4096 };

/* -ECANCELED: the caller gave up while there was no room. */
static int sink_write(struct transfer *t, const struct sink *s, const uint8_t *p, size_t n)
{
	struct pollfd wait = {.fd = s->fd, .events = POLLOUT};
	int r = 0;

	if (!s->waits || !t->how.progress)
		return write_some(s->fd, p, n);
	while (r == 0 && n > 0) {
		size_t piece = n < SINK_PIECE ? n : SINK_PIECE;

		if (poll(&wait, 1, TRANSFER_REPORT_MS) <= 0) {
			r = transfer_report(t, NULL) < 0 ? -ECANCELED : 0;
			continue;
		}
		r = write_some(s->fd, p, piece);
		p += piece;
		n -= piece;
	}
	return r;
}

static int sink_failed(int r, const char *what, struct err *e)
{
	return r == -ECANCELED ? transfer_given_up(e) : err_errno(e, -r, "write %s", what);
}

static int sink_flush(struct transfer *t, struct sink *s, int r, struct err *e)
{
	int written = r < 0 ? 0 : sink_write(t, s, buf_data(&s->bytes), buf_len(&s->bytes));

	buf_clear(&s->bytes);
	return written < 0 ? sink_failed(written, "the tar", e) : r;
}

/* The same for a directory: all of its entries. */
static int sink_tar_frame(struct transfer *t, struct sink *s, const struct wire_frame *f,
			  struct err *e)
{
	struct wire_entry m;
	int r = 0;

	if (f->type == WIRE_ENTRY && !s->tar.in_file) {
		if (wire_entry_decode(f, &m) < 0 || !m.path)
			return core_unexpected(&t->call.q, f, e);
		if (m.type == 'x' && t->how.on_skipped)
			take_skipped(t, &m);
		else
			r = tar_out_entry(&s->tar, &m, e);
		t->left_out += r > 0;
		return sink_flush(t, s, r < 0 ? r : 0, e);
	}
	if (f->type == WIRE_DATA && s->tar.in_file) {
		r = sink_flush(t, s, tar_out_data(&s->tar, f->payload, f->len, e), e);
		return r < 0 ? r : transfer_took(t, f->len, e);
	}
	if (f->type == WIRE_EOF && s->tar.in_file) {
		do
			r = sink_flush(t, s, tar_out_pad(&s->tar, e), e);
		while (r > 0);
		t->files++;
		return r < 0 ? r : sink_flush(t, s, tar_out_file_end(&s->tar, e), e);
	}
	if (f->type != WIRE_OK || s->tar.in_file)
		return core_unexpected(&t->call.q, f, e);
	r = sink_flush(t, s, tar_out_end(&s->tar, e), e);
	return r < 0 ? r : 1;
}

/* ENTRY of a file, DATA, EOF, OK, and nothing else. 1 at the end. */
static int sink_frame(struct transfer *t, struct sink *s, int *step, const struct wire_frame *f,
		      struct err *e)
{
	struct wire_entry m;
	int r;

	if (s->is_tar)
		return sink_tar_frame(t, s, f, e);
	if (f->type == WIRE_ENTRY && *step == 0) {
		if (wire_entry_decode(f, &m) < 0 || !m.path)
			return core_unexpected(&t->call.q, f, e);
		s->is_tar = m.type == 'd' && s->fd >= 0;
		if (s->is_tar)
			return sink_tar_frame(t, s, f, e);
		if (m.type != 'f')
			return err_set(e, ERR_INVALID, m.type == 'd' ? EISDIR : EINVAL,
				       "'%.150s' is %s", s->path,
				       m.type == 'd' ? "a directory" : "not a regular file");
		*step = 1;
		return 0;
	}
	if (f->type == WIRE_DATA && *step == 1) {
		r = s->fd >= 0 ? sink_write(t, s, f->payload, f->len)
			       : buf_append(&s->bytes, f->payload, f->len);
		if (r == -ENOBUFS)
			return err_set(e, ERR_LIMIT, EFBIG, "the file is larger than %zu bytes",
				       s->bytes.max);
		return r < 0 ? sink_failed(r, "the file's bytes", e) : transfer_took(t, f->len, e);
	}
	if (f->type == WIRE_EOF && *step == 1) {
		*step = 2;
		t->files++;
		return 0;
	}
	return f->type == WIRE_OK && *step == 2 ? 1 : core_unexpected(&t->call.q, f, e);
}

static int get_one(struct cove_box *box, const char *path, struct sink *s,
		   const struct cove_copy *how, struct err *e)
{
	struct wire_file m = {.op = FILE_GET, .path = path};
	struct transfer t;
	struct wire_frame f;
	int step = 0, r = transfer_init(&t, how, e);

	s->path = path;
	m.user = t.how.user;
	m.links = s->fd >= 0;
	m.skip = t.how.on_skipped != NULL;
	if (r == 0)
		r = transfer_begin(&t, box, &m, e);
	if (r < 0)
		return r;
	do {
		r = transfer_next(&t, &f, e);
		if (r > 0)
			r = sink_frame(&t, s, &step, &f, e);
	} while (r == 0);
	if (r > 0)
		transfer_report(&t, NULL); /* too late to give it up */
	return transfer_end(&t, r < 0 ? r : (int)t.left_out);
}

int cove_get_fd(struct cove_box *box, const char *box_path, int fd, const struct cove_copy *how,
		struct cove_error *err)
{
	struct sink *s = calloc(1, sizeof(*s));
	struct err e = {0};
	struct stat st;
	int r = s ? 0 : err_errno(&e, ENOMEM, "copy");

	if (r == 0) {
		s->fd = fd;
		s->waits = fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
		buf_init(&s->bytes, INIT_UNSIZED_MAX + (1u << 20));
		tar_out_init(&s->tar, &s->bytes, box_path);
		r = get_one(box, box_path, s, how, &e);
		tar_out_done(&s->tar);
		buf_done(&s->bytes);
	}
	free(s);
	return core_return(box->cove, box->name, r, &e, err);
}

int cove_get_data(struct cove_box *box, const char *box_path, size_t max, void **ret,
		  size_t *ret_len, struct cove_error *err)
{
	struct sink s = {.fd = -1};
	struct err e = {0};
	char *copy = NULL;
	size_t len;
	int r;

	buf_init(&s.bytes, max);
	r = get_one(box, box_path, &s, NULL, &e);
	len = buf_len(&s.bytes);
	if (r == 0 && !(copy = calloc(1, len + 1)))
		r = err_errno(&e, ENOMEM, "keep the file's bytes");
	if (r == 0) {
		if (len > 0)
			memcpy(copy, buf_data(&s.bytes), len);
		*ret_len = len;
		*ret = copy;
	}
	buf_done(&s.bytes);
	return core_return(box->cove, box->name, r, &e, err);
}
