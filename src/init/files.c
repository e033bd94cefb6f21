/*
 * File operations: put, get, stat, list, mkdir, move, remove, chmod, watch, all inside the box and
 * as its user; and read, edit, glob, grep, which are work for a process of their own (work.h).
 *
 * How it works
 *
 *	FILE ---> file_start: find the user, make the operation, kind->start
 *	frame --> file_frame: kind->frame   (ENTRY, EOF of a put)
 *	                      kind->data    (DATA of a put, CREDIT of a get)
 *	turn ---> on_turn:    kind->turn    (get, list, remove: one bounded piece per turn)
 *	                      kind->stream  (get, in the middle of a large file)
 *
 * Whatever a step returns, act_on() acts on it: wait, go on next turn, or answer and free. There
 * is no other place that answers, so each operation is answered exactly once.
 *
 * The user: init is the box's root. Around each step the filesystem ids of this process become
 * the user's (setfsuid, setfsgid, and the groups); leaving fsuid 0 drops the capabilities that
 * override permissions, and coming back raises them again. Where only one id is mapped nothing is
 * changed. File work is never done between turns as anybody else. The exception is moving the
 * bytes of a file that is open (data, stream): the kernel looked at the user's rights when it was
 * opened, and the change would cost as much as the copying.
 *
 * Limits: INIT_FILE_OPS_MAX operations at once; a transfer holds no data of its own, it reads
 * into the link's queue (as long as that is short) and writes straight from a frame.
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/size.h"
#include "base/str.h"
#include "init/env.h"
#include "init/fsids.h"
#include "init/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

struct file_table {
	struct init *in;
	struct file_op *first;
	unsigned count;
	gid_t groups[USER_GROUPS_MAX]; /* init's own, to come back to */
	int group_count;
};

int file_table_new(struct init *in, struct file_table **ret)
{
	autofree struct file_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->in = in;
	t->group_count = getgroups(USER_GROUPS_MAX, t->groups);
	if (t->group_count < 0)
		return -errno;
	*ret = take_ptr(t);
	return 0;
}

static bool has_same_groups(const struct file_table *t, const struct user *u)
{
	return (size_t)t->group_count == u->group_count &&
	       memcmp(t->groups, u->groups, u->group_count * sizeof(gid_t)) == 0;
}

static int enter_user(const struct file_op *op, struct err *e)
{
	const struct file_table *t = op->in->files;
	const struct user *u = &op->user;

	if (op->in->single)
		return 0;
	if (!has_same_groups(t, u) && syscall(SYS_setgroups, u->group_count, u->groups) < 0)
		return err_errno(e, errno, "cannot take the groups of user '%s'", u->name);
	if (!fs_ids_enter(u->uid, u->gid))
		return err_set(e, ERR_DENIED, EPERM,
			       "cannot work as uid %u: the id is not mapped here", u->uid);
	return 0;
}

static void leave_user(const struct file_op *op)
{
	const struct file_table *t = op->in->files;

	if (op->in->single)
		return;
	fs_ids_leave();
	if (!has_same_groups(t, &op->user))
		ASSERT(syscall(SYS_setgroups, t->group_count, t->groups) == 0);
}

static void op_free(struct file_op *op)
{
	struct file_table *t = op->in->files;
	struct file_op **at = &t->first;

	while (*at != op)
		at = &(*at)->next;
	*at = op->next;
	t->count--;
	ev_defer_cancel(op->in->ev, &op->turn);
	/* stop touches only what the operation itself made, so it runs even if the user is not to
	 * be had any more: nothing half made may stay. */
	if (op->started && op->kind->stop) {
		enter_user(op, NULL);
		op->kind->stop(op);
		leave_user(op);
	}
	free(op);
}

static void answer(struct init *in, uint32_t id, const struct err *e)
{
	if (e)
		init_fail_err(in, id, e);
	else if (wire_link_send(&in->link, WIRE_OK, 0, id, NULL, 0) < 0)
		init_broken(in, "no room for an answer");
}

static void act_on(struct file_op *op, int next, const struct err *e)
{
	if (next == FILE_WAIT)
		return;
	if (next == FILE_AGAIN) {
		ev_defer(op->in->ev, &op->turn);
		return;
	}
	answer(op->in, op->id, next < 0 ? e : NULL);
	op_free(op);
}

static void on_turn(struct ev_defer *d)
{
	struct file_op *op = container(d, struct file_op, turn);
	struct err e = {0};
	int r;

	if (op->streaming) {
		r = op->kind->stream(op, &e);
	} else {
		r = enter_user(op, &e);
		if (r == 0)
			r = op->kind->turn(op, &e);
		leave_user(op);
	}
	act_on(op, r, &e);
}

int file_encode_entry(struct buf *out, uint32_t id, const char *path, const struct stat *st,
		      const char *target)
{
	mode_t mode = st->st_mode;
	struct wire_entry m = {
		.type = S_ISREG(mode)	? (target ? 'h' : 'f')
			: S_ISDIR(mode) ? 'd'
			: S_ISLNK(mode) ? 'l'
					: 'o',
		.path = path,
		.target = target,
		.mode = mode & 07777,
		.size = S_ISREG(mode) ? (uint64_t)st->st_size : 0,
		.mtime_ns = st->st_mtim.tv_sec > 0 ? (uint64_t)st->st_mtim.tv_sec * 1000000000u +
							     (uint64_t)st->st_mtim.tv_nsec
						   : 0,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = S_ISREG(mode) ? st->st_nlink : 0,
	};

	return wire_entry_encode(out, id, 0, &m);
}

int file_send_entry(struct file_op *op, const char *path, const struct stat *st, const char *target)
{
	wire_link_flush(&op->in->link);
	return file_encode_entry(&op->in->link.out, op->id, path, st, target);
}

int file_send_mark(struct file_op *op, char type, const char *path, const char *target,
		   uint64_t size)
{
	struct wire_entry m = {
		.type = (uint64_t)type, .path = path, .target = target, .size = size};

	wire_link_flush(&op->in->link);
	return wire_entry_encode(&op->in->link.out, op->id, 0, &m);
}

/* The end of a path tells more than its beginning. */
static void shown_path(const struct file_op *op, const char *rel, char *ret, size_t size)
{
	char full[2 * BOX_PATH_MAX];
	size_t len;

	if (!*rel || !path_join(full, sizeof(full), op->path, rel))
		str_copy(full, sizeof(full), op->path);
	len = strlen(full);
	if (!str_copy(ret, size, full)) {
		str_copy(ret, size, "...");
		str_copy(ret + 3, size - 3, full + len - (size - 4));
	}
}

int file_error(const struct file_op *op, int code, const char *what, const char *rel, struct err *e)
{
	char path[128], size[SIZE_TEXT];

	shown_path(op, rel, path, sizeof(path));
	if ((code == ENOSPC || code == EDQUOT) && disk_is_bounded(op->in, op->path))
		return err_set(e, ERR_FULL, code,
			       "cannot %s '%s': no space left: the box's own disk limit of %s is "
			       "reached; make it with more (--disk)",
			       what, path, size_format(size, op->in->disk_limit));
	return err_errno(e, code, "cannot %s '%s'", what, path);
}

int file_error_type(const struct file_op *op, mode_t mode, const char *rel, struct err *e)
{
	const char *word = S_ISFIFO(mode)   ? "a FIFO"
			   : S_ISSOCK(mode) ? "a socket"
			   : S_ISDIR(mode)  ? "a directory"
			   : S_ISLNK(mode)  ? "a link"
					    : "a device";
	char path[128];

	shown_path(op, rel, path, sizeof(path));
	return err_set(e, ERR_INVALID, S_ISDIR(mode) ? EISDIR : EINVAL,
		       "'%s' is %s, not a regular file", path, word);
}

static int stat_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	autoclose int fd = path_open(op->path, O_PATH | (m->follow ? 0 : O_NOFOLLOW));
	char target[BOX_PATH_MAX];
	struct stat st;
	ssize_t n = 0;

	if (fd < 0)
		return file_error(op, -fd, "find", "", e);
	if (fstat(fd, &st) < 0)
		return file_error(op, errno, "look at", "", e);
	if (S_ISLNK(st.st_mode))
		n = readlinkat(fd, "", target, sizeof(target) - 1);
	if (n < 0)
		return file_error(op, errno, "read the link", "", e);
	target[n] = '\0';
	if (file_send_entry(op, "", &st, S_ISLNK(st.st_mode) ? target : NULL) < 0)
		return file_error(op, ENOBUFS, "answer for", "", e);
	return FILE_DONE;
}

static int mkdir_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct init_place p = PLACE_NONE;
	int r = path_open_dir(AT_FDCWD, op->path, false), fd = r;

	fd_close(&fd);
	if (r >= 0)
		return FILE_DONE;
	r = init_place_find(op->path, PLACE_MAKE, &p);
	if (r == 0 && mkdirat(p.dir_fd, p.name, 0700) < 0)
		r = -errno;
	if (r == 0 && fchmodat(p.dir_fd, p.name, m->mode ? m->mode & 07777 : 0755, 0) < 0)
		r = -errno;
	init_place_done(&p);
	return r < 0 ? file_error(op, -r, "make the directory", "", e) : FILE_DONE;
}

/* A path of the request as an absolute one: relative ones start where commands start, and those
 * that begin with ~ at the user's home. */
static int box_path(const struct file_op *op, const char *path, char *ret, struct err *e)
{
	const char *base = op->in->cwd ? op->in->cwd : op->user.home;
	bool is_home = path && path[0] == '~' && (!path[1] || path[1] == '/');

	if (!path || !*path)
		return err_set(e, ERR_INVALID, EINVAL, "the file operation names no path");
	if (is_home) {
		base = op->user.home;
		path += 1 + strspn(path + 1, "/");
		path = *path ? path : ".";
	}
	if (path[0] == '/' ? !str_copy(ret, BOX_PATH_MAX, path)
			   : !path_join(ret, BOX_PATH_MAX, base, path))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the path is longer than %u bytes",
			       BOX_PATH_MAX - 1);
	return 0;
}

static int move_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct init_place from = PLACE_NONE, to = PLACE_NONE;
	char text[BOX_PATH_MAX];
	int r = box_path(op, m->to, text, e);

	if (r < 0)
		return r;
	r = init_place_find(op->path, 0, &from);
	if (r == 0)
		r = init_place_find(text, 0, &to);
	if (r == 0 && renameat(from.dir_fd, from.name, to.dir_fd, to.name) < 0)
		r = -errno;
	init_place_done(&from);
	init_place_done(&to);
	if (r == -EXDEV)
		return err_set(
			e, ERR_INVALID, EXDEV,
			"'%.80s' and '%.80s' are on different filesystems: copy, then remove",
			op->path, text);
	return r < 0 ? file_error(op, -r, "move", "", e) : FILE_DONE;
}

static int chmod_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct init_place p = PLACE_NONE;
	int r = init_place_find(op->path, PLACE_FOLLOW, &p);

	if (r == 0 && fchmodat(p.dir_fd, p.name, m->mode & 07777, 0) < 0)
		r = -errno;
	init_place_done(&p);
	return r < 0 ? file_error(op, -r, "change the mode of", "", e) : FILE_DONE;
}

static const struct file_kind file_stat = {.size = sizeof(struct file_op), .start = stat_start};
static const struct file_kind file_mkdir = {.size = sizeof(struct file_op), .start = mkdir_start};
static const struct file_kind file_move = {.size = sizeof(struct file_op), .start = move_start};
static const struct file_kind file_chmod = {.size = sizeof(struct file_op), .start = chmod_start};

static const struct file_kind *const kinds[FILE_OP_COUNT] = {
	[FILE_PUT] = &file_put,	      [FILE_GET] = &file_get,	  [FILE_STAT] = &file_stat,
	[FILE_LIST] = &file_list,     [FILE_MKDIR] = &file_mkdir, [FILE_MOVE] = &file_move,
	[FILE_REMOVE] = &file_remove, [FILE_CHMOD] = &file_chmod, [FILE_LISTEN] = &file_listen,
	[FILE_READ] = &file_read,     [FILE_EDIT] = &file_edit,	  [FILE_GLOB] = &file_glob,
	[FILE_GREP] = &file_grep,     [FILE_WATCH] = &file_watch,
};

static struct file_op *op_find(const struct file_table *t, uint32_t id)
{
	for (struct file_op *op = t->first; op; op = op->next)
		if (op->id == id)
			return op;
	return NULL;
}

static int op_new(struct init *in, uint32_t id, const struct wire_file *m, struct file_op **ret,
		  struct err *e)
{
	const struct file_kind *kind = m->op < FILE_OP_COUNT ? kinds[m->op] : NULL;
	struct file_table *t = in->files;
	autofree struct file_op *op = NULL;
	int r;

	if (!kind)
		return err_set(e, ERR_UNSUPPORTED, ENOSYS, "unknown file operation %llu",
			       (unsigned long long)m->op);
	if (op_find(t, id))
		return err_set(e, ERR_PROTOCOL, EPROTO, "file operation %u is running already", id);
	if (t->count >= INIT_FILE_OPS_MAX)
		return err_set(e, ERR_LIMIT, EAGAIN, "%u file operations are running: wait for one",
			       INIT_FILE_OPS_MAX);
	op = calloc(1, kind->size);
	if (!op)
		return err_set(e, ERR_FULL, ENOMEM, "no memory for a file operation");
	*op = (struct file_op){.in = in, .kind = kind, .id = id, .turn = {.on_defer = on_turn}};
	str_copy(op->user.home, sizeof(op->user.home), "/");
	r = env_find_user(in, m->user, &op->user, e);
	if (r < 0 && !(in->single && !m->user))
		return r;
	if (in->single && m->user && op->user.uid != geteuid())
		return err_set(
			e, ERR_UNSUPPORTED, EPERM,
			"only one user exists in this box: file work as '%s' is not possible",
			m->user);
	r = box_path(op, m->path, op->path, e);
	if (r < 0)
		return r;
	op->next = t->first;
	t->first = op;
	t->count++;
	*ret = take_ptr(op);
	return 0;
}

void file_start(struct init *in, uint32_t id, const struct wire_file *m)
{
	struct file_op *op = NULL;
	struct err e = {0};
	int r = op_new(in, id, m, &op, &e);

	if (r < 0) {
		answer(in, id, &e);
		return;
	}
	r = enter_user(op, &e);
	if (r == 0) {
		op->started = true;
		r = op->kind->start(op, m, &e);
	}
	leave_user(op);
	act_on(op, r, &e);
}

bool file_frame(struct init *in, const struct wire_frame *f)
{
	struct file_op *op = op_find(in->files, f->id);
	struct err e = {0};
	int r;

	if (!op)
		return false;
	if (f->type == WIRE_CANCEL) {
		r = err_set(&e, ERR_INTERRUPTED, ECANCELED, "cancelled");
	} else if ((f->type == WIRE_DATA || f->type == WIRE_CREDIT) && op->kind->data) {
		r = op->kind->data(op, f, &e);
	} else if (!op->kind->frame) {
		r = err_set(&e, ERR_PROTOCOL, EPROTO, "unexpected frame for a file operation");
	} else {
		r = enter_user(op, &e);
		if (r == 0)
			r = op->kind->frame(op, f, &e);
		leave_user(op);
	}
	act_on(op, r, &e);
	return true;
}

void file_drained(struct init *in)
{
	if (!in->files)
		return;
	/* One that waits for credit instead finds none and waits on. */
	for (struct file_op *op = in->files->first; op; op = op->next)
		if (op->kind->turn)
			ev_defer(in->ev, &op->turn);
}

void file_table_free(struct file_table *t)
{
	if (!t)
		return;
	while (t->first)
		op_free(t->first);
	free(t);
}
