/*
 * Put: files and trees on their way in.
 *
 * How it works
 *
 *	ENTRY 'f' --> begin_file: a temporary name beside the target
 *	DATA      --> written straight from the frame, credit goes back
 *	EOF       --> end_file: mode, time, rename over the target
 *	ENTRY 'd' --> put_dir;  ENTRY 'l' --> put_link;  ENTRY 'h' --> put_hard_link
 *	ENTRY 'z' --> a hole in the file at work;  ENTRY 'E' --> end
 *
 * A half upload is never seen under its own name: the data goes to ".cove-put-<random>" in the
 * same directory until it is complete. An error, CANCEL or the loss of the keeper removes that
 * name. Two puts to one path at once each have their own; the later rename wins.
 *
 * The operation's own path may lead through links, as for any program of the user; missing
 * parents are made. What lies below the path is reached through no link at all, so a link that
 * the box plants while a tree is coming in cannot send it elsewhere. An existing link below the
 * path is replaced.
 *
 * A directory that comes with a mode which would lock us out gets it when the entries have moved
 * on to something outside of it: directories being filled are a stack, each one's path the
 * beginning of the next one's. A directory that was there before keeps its mode and time.
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct put_dir {
	size_t path_len;
	mode_t mode;
	uint64_t mtime_ns;
};

struct put {
	struct file_op op;
	struct wire_flow flow;
	int root_fd; /* the operation's path once it is a directory, owned, O_PATH; else -1 */
	int fd;	     /* the file being written, owned; -1 between files */
	struct init_place place; /* where it will appear */
	char tmp[32];
	mode_t mode;
	uint64_t mtime_ns;
	bool has_holes;
	char rel[BOX_PATH_MAX];		     /* of the entry at work, for sentences */
	struct put_dir dirs[INIT_DEPTH_MAX]; /* made here and not finished */
	unsigned dir_count;
	char dir_path[BOX_PATH_MAX]; /* of the innermost of them */
};

static struct put *put_of(struct file_op *op)
{
	return (struct put *)op;
}

static void make_tmp_name(struct put *p)
{
	char token[17];

	rand_hex(token, 8);
	snprintf(p->tmp, sizeof(p->tmp), ".cove-put-%s", token);
}

static int set_mtime(int dir_fd, const char *name, uint64_t mtime_ns)
{
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(mtime_ns / 1000000000u),
		 .tv_nsec = (long)(mtime_ns % 1000000000u)},
	};

	if (mtime_ns == 0)
		return 0;
	return utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* The directory that entries below the path go into, opened at the first of them. */
static int open_root(struct put *p, struct err *e)
{
	if (p->root_fd >= 0)
		return 0;
	p->root_fd = path_open_dir(AT_FDCWD, p->op.path, true);
	if (p->root_fd < 0)
		return file_error(&p->op, -p->root_fd, "write below", "", e);
	return 0;
}

static int find_place(struct put *p, const struct wire_entry *m, struct init_place *ret,
		      struct err *e)
{
	unsigned flags = PLACE_MAKE | (m->type == 'f' ? PLACE_FOLLOW : 0);
	int r;

	if (!*p->rel) {
		r = init_place_find(p->op.path, flags, ret);
		return r < 0 ? file_error(&p->op, -r, "write", "", e) : 0;
	}
	r = open_root(p, e);
	if (r < 0)
		return r;
	r = init_place_beneath(p->root_fd, p->rel, ret);
	if (r == -ELOOP)
		return err_set(e, ERR_INVALID, ELOOP,
			       "'%.80s': a symbolic link stands in the way of '%.80s'", p->op.path,
			       p->rel);
	return r < 0 ? file_error(&p->op, -r, "write", p->rel, e) : 0;
}

static int begin_file(struct put *p, const struct wire_entry *m, struct err *e)
{
	struct stat st;
	int r;

	if (!*p->rel && p->op.path[strlen(p->op.path) - 1] == '/')
		return err_set(
			e, ERR_INVALID, EISDIR,
			"there is no directory '%.120s' in the box; make it (cove exec BOX -- "
			"mkdir -p DIR), or leave out the last slash",
			p->op.path);
	r = find_place(p, m, &p->place, e);
	if (r < 0)
		return r;
	if (fstatat(p->place.dir_fd, p->place.name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
			return file_error_type(&p->op, st.st_mode, p->rel, e);
	} else if (errno != ENOENT) {
		return file_error(&p->op, errno, "write", p->rel, e);
	}
	make_tmp_name(p);
	p->fd = openat(p->place.dir_fd, p->tmp,
		       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	if (p->fd < 0)
		return file_error(&p->op, errno, "write", p->rel, e);
	p->mode = m->mode ? m->mode & 07777 : 0644;
	p->mtime_ns = m->mtime_ns;
	p->has_holes = false;
	return FILE_WAIT;
}

/* Forgets the file at work; with `keep` it is complete and has its name. */
static void close_file(struct put *p, bool keep)
{
	if (p->fd >= 0 && !keep)
		unlinkat(p->place.dir_fd, p->tmp, 0);
	fd_close(&p->fd);
	init_place_done(&p->place);
}

static int end_file(struct put *p, struct err *e)
{
	int r = 0;

	/* The last hole may be its end. */
	if (p->has_holes && ftruncate(p->fd, lseek(p->fd, 0, SEEK_CUR)) < 0)
		r = -errno;
	if (r == 0 && fchmod(p->fd, p->mode) < 0)
		r = -errno;
	if (r == 0)
		r = set_mtime(p->place.dir_fd, p->tmp, p->mtime_ns);
	if (r == 0 && renameat(p->place.dir_fd, p->tmp, p->place.dir_fd, p->place.name) < 0)
		r = -errno;
	close_file(p, r == 0);
	return r < 0 ? file_error(&p->op, -r, "write", p->rel, e) : FILE_WAIT;
}

static int bad_frame(struct err *e)
{
	return err_set(e, ERR_PROTOCOL, EPROTO, "unexpected frame for a put");
}

static int put_data(struct file_op *op, const struct wire_frame *f, struct err *e)
{
	struct put *p = put_of(op);
	struct wire_credit m;
	int r;

	if (f->type != WIRE_DATA || p->fd < 0 || f->stream != WIRE_STDIN)
		return bad_frame(e);
	r = fd_write_full(p->fd, f->payload, f->len);
	if (r < 0)
		return file_error(&p->op, -r, "write", p->rel, e);
	m.bytes = wire_flow_took(&p->flow, f->len);
	if (m.bytes == 0)
		return FILE_WAIT;
	if (wire_credit_encode(&p->op.in->link.out, p->op.id, WIRE_STDIN, &m) < 0)
		return file_error(&p->op, ENOBUFS, "answer for", p->rel, e);
	wire_link_flush(&p->op.in->link);
	return FILE_WAIT;
}

static int finish_dir(struct put *p, struct err *e)
{
	struct put_dir *d = &p->dirs[p->dir_count - 1];
	const char *rel = p->dir_path;
	int r = 0;

	p->dir_path[d->path_len] = '\0';
	autoclose int fd = guest_open_at(p->root_fd, *rel ? rel : ".", O_RDONLY | O_DIRECTORY,
					 FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	p->dir_count--;
	if (fd == -ENOENT)
		return 0; /* the box removed it again: its business */
	if (fd < 0)
		return file_error(&p->op, -fd, "finish the directory", rel, e);
	if (fchmod(fd, d->mode) < 0)
		r = -errno;
	if (r == 0)
		r = set_mtime(fd, ".", d->mtime_ns);
	return r < 0 ? file_error(&p->op, -r, "finish the directory", rel, e) : 0;
}

/* Finishes the directories that an entry at path is not below. */
static int leave_dirs(struct put *p, const char *path, struct err *e)
{
	int r = 0;

	while (p->dir_count > 0 && r == 0) {
		size_t n = p->dirs[p->dir_count - 1].path_len;

		if (path && (n == 0 || (strncmp(path, p->dir_path, n) == 0 && path[n] == '/')))
			break;
		r = finish_dir(p, e);
	}
	return r;
}

static int make_dir(struct put *p, const struct wire_entry *m, struct err *e)
{
	struct init_place at = PLACE_NONE;
	struct stat st;
	int r = find_place(p, m, &at, e), code = 0;

	if (r < 0)
		return r;
	if (mkdirat(at.dir_fd, at.name, 0700) < 0)
		code = errno;
	if (code == EEXIST && fstatat(at.dir_fd, at.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISDIR(st.st_mode))
		code = ENOTDIR;
	init_place_done(&at);
	if (code == EEXIST)
		return FILE_WAIT;
	if (code)
		return file_error(&p->op, code, "make the directory", p->rel, e);
	if (p->dir_count >= INIT_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, ELOOP, "'%.120s' is more than %u directories deep",
			       p->op.path, INIT_DEPTH_MAX);
	str_copy(p->dir_path, sizeof(p->dir_path), p->rel);
	p->dirs[p->dir_count++] = (struct put_dir){
		.path_len = strlen(p->rel),
		.mode = m->mode ? m->mode & 07777 : 0755,
		.mtime_ns = m->mtime_ns,
	};
	return FILE_WAIT;
}

static int put_dir(struct put *p, const struct wire_entry *m, struct err *e)
{
	int r;

	if (*p->rel)
		return make_dir(p, m, e);
	p->root_fd = path_open_dir(AT_FDCWD, p->op.path, false);
	if (p->root_fd >= 0)
		return FILE_WAIT;
	if (p->root_fd != -ENOENT)
		return file_error(&p->op, -p->root_fd, "write below", "", e);
	r = make_dir(p, m, e);
	return r < 0 ? r : open_root(p, e);
}

static int put_link(struct put *p, const struct wire_entry *m, struct err *e)
{
	struct init_place at = PLACE_NONE;
	int r = find_place(p, m, &at, e);

	if (r < 0)
		return r;
	make_tmp_name(p);
	if (symlinkat(m->target ? m->target : "", at.dir_fd, p->tmp) < 0)
		r = -errno;
	if (r == 0) {
		r = set_mtime(at.dir_fd, p->tmp, m->mtime_ns);
		if (r == 0 && renameat(at.dir_fd, p->tmp, at.dir_fd, at.name) < 0)
			r = -errno;
		if (r < 0)
			unlinkat(at.dir_fd, p->tmp, 0);
	}
	init_place_done(&at);
	return r < 0 ? file_error(&p->op, -r, "make the link", p->rel, e) : FILE_WAIT;
}

static int put_hole(struct put *p, const struct wire_entry *m, struct err *e)
{
	if (p->fd < 0)
		return bad_frame(e);
	if (m->size > INT64_MAX || lseek(p->fd, (off_t)m->size, SEEK_CUR) < 0)
		return file_error(&p->op, EFBIG, "write", p->rel, e);
	p->has_holes = true;
	return FILE_WAIT;
}

/* Another name of a file that was put: both are found below the path, through no link. */
static int put_hard_link(struct put *p, const struct wire_entry *m, struct err *e)
{
	struct init_place at = PLACE_NONE, from = PLACE_NONE;
	int r;

	if (!*p->rel || !m->target || !path_is_safe_relative(m->target))
		return bad_frame(e);
	r = find_place(p, m, &at, e);
	if (r < 0)
		return r;
	r = init_place_beneath(p->root_fd, m->target, &from);
	make_tmp_name(p);
	if (r == 0 && linkat(from.dir_fd, from.name, at.dir_fd, p->tmp, 0) < 0)
		r = -errno;
	if (r == 0) {
		if (renameat(at.dir_fd, p->tmp, at.dir_fd, at.name) < 0)
			r = -errno;
		/* It is still there also where both were names of one file before. */
		unlinkat(at.dir_fd, p->tmp, 0);
	}
	init_place_done(&from);
	init_place_done(&at);
	return r < 0 ? file_error(&p->op, -r, "link", p->rel, e) : FILE_WAIT;
}

static int put_entry(struct put *p, const struct wire_entry *m, struct err *e)
{
	const char *path = m->path ? m->path : "";
	int r;

	if (m->type == 'z')
		return put_hole(p, m, e);
	if (p->fd >= 0)
		return bad_frame(e);
	if (m->type == 'E') {
		r = leave_dirs(p, NULL, e);
		return r < 0 ? r : FILE_DONE;
	}
	if (*path && !path_is_safe_relative(path))
		return err_set(e, ERR_INVALID, EINVAL,
			       "a put entry's path must stay below '%.120s'", p->op.path);
	if (!*path && p->root_fd >= 0)
		return bad_frame(e);
	str_copy(p->rel, sizeof(p->rel), path);
	r = leave_dirs(p, path, e);
	if (r < 0)
		return r;
	switch (m->type) {
	case 'f':
		return begin_file(p, m, e);
	case 'd':
		return put_dir(p, m, e);
	case 'l':
		return put_link(p, m, e);
	case 'h':
		return put_hard_link(p, m, e);
	default:
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.150s': only files, directories and links can be put", path);
	}
}

static int put_frame(struct file_op *op, const struct wire_frame *f, struct err *e)
{
	struct put *p = put_of(op);
	struct wire_entry m;

	switch (f->type) {
	case WIRE_ENTRY:
		return wire_entry_decode(f, &m) < 0 ? bad_frame(e) : put_entry(p, &m, e);
	case WIRE_EOF:
		return p->fd < 0 || f->stream != WIRE_STDIN ? bad_frame(e) : end_file(p, e);
	default:
		return bad_frame(e);
	}
}

static int put_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct put *p = put_of(op);

	p->root_fd = p->fd = -1;
	p->place = PLACE_NONE;
	wire_flow_init(&p->flow);
	return FILE_WAIT;
}

static void put_stop(struct file_op *op)
{
	struct put *p = put_of(op);

	close_file(p, false);
	fd_close(&p->root_fd);
}

const struct file_kind file_put = {
	.size = sizeof(struct put),
	.start = put_start,
	.frame = put_frame,
	.data = put_data,
	.stop = put_stop,
};
