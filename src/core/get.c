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
 *	modes	lose setuid, setgid and sticky bits and obey the caller's umask
 *	an endless stream ends when the caller's disk is full, and what was half-written is removed
 *
 * The destination itself is the caller's word: its parent directories are followed as usual.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	char shown[160]; /* the entry's path, safe to show */
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

static int find_destination(struct get *g, const char *host_path, const char *box_path,
			    struct err *e)
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
	if (!g->in_place)
		return as_name(g, host_path, e);
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
	return 0;
}

static int end_file(struct get *g, struct err *e)
{
	int r = close(take_fd(g->file_fd)) < 0 ? errno : 0;

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

static int make_link(struct get *g, int dir_fd, const char *name, const char *target, struct err *e)
{
	int r = 0;

	if (!*name || !target || !*target || strlen(target) >= BOX_PATH_MAX)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a link without a target");
	set_temp(g);
	if (symlinkat(target, dir_fd, g->temp) < 0)
		r = errno;
	else if (renameat(dir_fd, g->temp, dir_fd, name) < 0) {
		r = errno;
		unlinkat(dir_fd, g->temp, 0);
	}
	g->temp[0] = 0;
	return r != 0 ? fail_write(r, g->shown, g->t.bytes, e) : 0;
}

/* Its owner can always work in it, so that what belongs inside can be put there. */
static int make_dir(struct get *g, int dir_fd, const char *name, unsigned mode, bool is_root,
		    struct err *e)
{
	autoclose int fd = -1;

	if (*name && mkdirat(dir_fd, name, (mode & 0777) | 0700) < 0 && errno != EEXIST)
		return fail_write(errno, g->shown, g->t.bytes, e);
	fd = openat(dir_fd, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return err_set(e, ERR_EXISTS, ENOTDIR, "'%.150s' exists and is not a directory",
			       g->shown);
	if (fd < 0)
		return err_errno(e, errno, "open the directory '%.150s'", g->shown);
	if (is_root)
		g->root_fd = take_fd(fd);
	return 0;
}

static int take_entry(struct get *g, const struct wire_frame *f, struct err *e)
{
	struct wire_entry m;
	const char *name;
	struct stat st;
	int dir_fd, r;

	if (wire_entry_decode(f, &m) < 0 || !m.path || (g->file_fd >= 0 && !g->in_place) ||
	    g->began != (*m.path != 0))
		return core_unexpected(&g->t.call.q, f, e);
	g->began = true;
	core_show(g->shown, sizeof(g->shown), *m.path ? m.path : g->name);
	if (g->in_place)
		return m.type == 'f' ? 0
				     : err_set(e, ERR_INVALID, EISDIR, "only a file can go there");
	if (m.type != 'f' && m.type != 'd' && m.type != 'l') {
		g->t.left_out++;
		return 0;
	}
	r = locate(g, m.path, &dir_fd, &name, e);
	if (r < 0)
		return r;
	if (m.type == 'f')
		r = begin_file(g, dir_fd, name, &m, e);
	else if (m.type == 'l')
		r = make_link(g, dir_fd, name, m.target, e);
	else
		r = make_dir(g, dir_fd, name, (unsigned)m.mode, !*m.path, e);
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
		return g->file_fd < 0 && g->began ? 1 : core_unexpected(&g->t.call.q, f, e);
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

int cove_get(struct cove_box *box, const char *box_path, const char *host_path,
	     const struct cove_copy *how, struct cove_error *err)
{
	struct get *g = calloc(1, sizeof(*g));
	struct err e = {0};
	int r;

	if (!g)
		return core_return(box->cove, box->name, err_errno(&e, ENOMEM, "copy"), &e, err);
	g->parent_fd = g->root_fd = g->dir_fd = g->file_fd = -1;
	r = transfer_init(&g->t, how, &e);
	if (r == 0)
		r = get(g, box, box_path, host_path, &e);
	fd_close(&g->file_fd);
	fd_close(&g->dir_fd);
	fd_close(&g->root_fd);
	fd_close(&g->parent_fd);
	free(g);
	return core_return(box->cove, box->name, r, &e, err);
}

/* ---- one file, to a descriptor or to memory ---- */

struct sink {
	const char *path; /* borrowed; in the box */
	int fd;
	struct buf bytes; /* when fd is -1 */
};

/* ENTRY of a file, DATA, EOF, OK, and nothing else. 1 at the end. */
static int sink_frame(struct transfer *t, struct sink *s, int *step, const struct wire_frame *f,
		      struct err *e)
{
	struct wire_entry m;
	int r;

	if (f->type == WIRE_ENTRY && *step == 0) {
		if (wire_entry_decode(f, &m) < 0)
			return core_unexpected(&t->call.q, f, e);
		if (m.type != 'f')
			return err_set(e, ERR_INVALID, m.type == 'd' ? EISDIR : EINVAL,
				       "'%.150s' is %s", s->path,
				       m.type == 'd' ? "a directory" : "not a regular file");
		*step = 1;
		return 0;
	}
	if (f->type == WIRE_DATA && *step == 1) {
		r = s->fd >= 0 ? write_some(s->fd, f->payload, f->len)
			       : buf_append(&s->bytes, f->payload, f->len);
		if (r == -ENOBUFS)
			return err_set(e, ERR_LIMIT, EFBIG, "the file is larger than %zu bytes",
				       s->bytes.max);
		return r < 0 ? err_errno(e, -r, "write the file's bytes")
			     : transfer_took(t, f->len, e);
	}
	if (f->type == WIRE_EOF && *step == 1) {
		*step = 2;
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
	if (r == 0)
		r = transfer_begin(&t, box, &m, e);
	if (r < 0)
		return r;
	do {
		r = transfer_next(&t, &f, e);
		if (r > 0)
			r = sink_frame(&t, s, &step, &f, e);
	} while (r == 0);
	return transfer_end(&t, r < 0 ? r : 0);
}

int cove_get_fd(struct cove_box *box, const char *box_path, int fd, const struct cove_copy *how,
		struct cove_error *err)
{
	struct sink s = {.fd = fd};
	struct err e = {0};
	int r = get_one(box, box_path, &s, how, &e);

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
