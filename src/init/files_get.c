/*
 * Get and list: a file or a tree on its way out.
 *
 * How it works
 *
 * Each turn of the loop sends at most TURN_BYTES or so: fair between operations, the link's queue
 * stays short, and the link writes it all at once. Data needs credit; when there is none, or when
 * the queue is long, the operation waits and is woken by CREDIT or by file_drained. A large file
 * has turns of its own (get_stream), in which nothing but its bytes is touched.
 *
 * A file is read up to the size it had when it was opened, so one that grows for ever still ends;
 * one that shrinks ends early. A file that says it has no size (most of /proc) is read to its
 * end, and is an error beyond INIT_UNSIZED_MAX. Only regular files are opened: the type is looked
 * at first, because opening a FIFO is an event for whoever waits at its other end, and again
 * afterwards.
 *
 * In a tree no link is followed. A child that vanished or changed its type between looking and
 * opening is left out, as if we had come a moment later; one that may not be read is an error, or
 * named as left out if the asker wants to go on: a copy never lacks files silently. Below the
 * operation's root the kernel's own filesystems (proc, sysfs, cgroups) are named but not entered.
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/inodes.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { ENTRIES_PER_TURN = 64, TURN_BYTES = 4 * WIRE_DATA_MAX };

struct init_get {
	struct file_op op;
	struct init_walk walk;
	struct wire_flow flow;
	int fd;			 /* the file being sent, owned; -1 between files */
	uint64_t left;		 /* of it, at most */
	bool unsized;		 /* it did not say how long it is */
	bool sparse;		 /* it has holes, and the asker knows them: */
	off_t at, data_end;	 /* where we are in it, and where the next hole is */
	bool skip, links, holes; /* what the asker understands, see wire/msg_file.h */
	struct inodes seen;
	dev_t dev; /* of the directory entered last */
};

static struct init_get *get_of(struct file_op *op)
{
	return (struct init_get *)op;
}

/* Takes fd. */
static int begin_file(struct init_get *g, int fd, const struct stat *st)
{
	const char *first;

	if (g->links && st->st_nlink > 1 && *g->walk.path) {
		first = inodes_find(&g->seen, st->st_dev, st->st_ino);
		if (first) {
			close(fd);
			return file_send_entry(&g->op, g->walk.path, st, first);
		}
		/* Each of its names as a file of its own would multiply it. */
		if (inodes_add(&g->seen, st->st_dev, st->st_ino, g->walk.path) < 0) {
			close(fd);
			return -E2BIG;
		}
	}
	g->fd = fd;
	g->sparse = g->holes && st->st_blocks < st->st_size / 512;
	g->at = g->data_end = 0;
	g->unsized = st->st_size <= 0;
	/* One frame beyond the maximum, so that reaching into it shows that there is more. */
	g->left = g->unsized ? INIT_UNSIZED_MAX + WIRE_DATA_MAX : (uint64_t)st->st_size;
	/* Not those of /proc: some of them look at who reads, not only at who opened. */
	g->op.streaming = st->st_size > (off_t)WIRE_DATA_MAX;
	if (g->op.streaming)
		posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return file_send_entry(&g->op, g->walk.path, st, NULL);
}

/* Takes fd. */
static int begin_dir(struct init_get *g, int fd, const struct stat *st)
{
	autoclose int dir_fd = fd;
	bool is_root = !g->walk.top;
	int r = file_send_entry(&g->op, g->walk.path, st, NULL);

	if (r < 0 || (!is_root && st->st_dev != g->dev && path_is_kernel_fs(dir_fd)))
		return r;
	g->dev = st->st_dev;
	return init_walk_down(&g->walk, take_fd(dir_fd));
}

/* Of the file that the operation is about, what the asker wants. */
static int take_part(struct init_get *g, const struct wire_file *m)
{
	uint64_t from = m->from < g->left ? m->from : g->left;

	if (g->unsized || (from == 0 && m->bytes == 0))
		return 0;
	if (lseek(g->fd, (off_t)from, SEEK_SET) < 0)
		return -errno;
	g->at = (off_t)from;
	g->left -= from;
	if (m->bytes > 0 && m->bytes < g->left)
		g->left = m->bytes;
	return 0;
}

static int get_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct init_get *g = get_of(op);
	autoclose int look = path_open(op->path, O_PATH);
	autoclose int fd = -1;
	struct stat st;
	int r;

	g->fd = -1;
	g->skip = m->skip;
	g->links = m->links;
	g->holes = m->holes;
	wire_flow_init(&g->flow);
	if (look < 0)
		return file_error(op, -look, "read", "", e);
	if (fstat(look, &st) < 0)
		return file_error(op, errno, "look at", "", e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return file_error_type(op, st.st_mode, "", e);
	fd = path_open(op->path, O_RDONLY);
	if (fd < 0)
		return file_error(op, -fd, "read", "", e);
	if (fstat(fd, &st) < 0)
		return file_error(op, errno, "look at", "", e);
	if (S_ISREG(st.st_mode))
		r = begin_file(g, take_fd(fd), &st);
	else if (S_ISDIR(st.st_mode))
		r = begin_dir(g, take_fd(fd), &st);
	else
		return file_error_type(op, st.st_mode, "", e);
	if (r >= 0 && g->fd >= 0)
		r = take_part(g, m);
	return r < 0 ? file_error(op, -r, "send", "", e) : FILE_AGAIN;
}

/* Reads straight into the link's queue: one DATA frame, or the end of the file. */
static int send_data(struct init_get *g, struct err *e)
{
	struct buf *out = &g->op.in->link.out;
	size_t want = WIRE_DATA_MAX, at;
	uint8_t *p;
	ssize_t n;

	if (want > g->left)
		want = (size_t)g->left;
	if (want > g->flow.left)
		want = (size_t)g->flow.left;
	if (g->sparse && (off_t)want > g->data_end - g->at)
		want = (size_t)(g->data_end - g->at);
	if (wire_encode_begin(out, &at) < 0)
		return file_error(&g->op, ENOBUFS, "send", g->walk.path, e);
	p = buf_reserve(out, want);
	do {
		n = p ? read(g->fd, p, want) : 0;
	} while (n < 0 && errno == EINTR);
	if (n <= 0) {
		out->len = at; /* takes the header back */
		if (!p)
			return file_error(&g->op, ENOBUFS, "send", g->walk.path, e);
		/* Some files of /proc never end but say when there is nothing now. */
		if (n < 0 && errno != EAGAIN)
			return file_error(&g->op, errno, "read", g->walk.path, e);
		g->left = 0;
		return FILE_AGAIN;
	}
	buf_commit(out, (size_t)n);
	wire_encode_end(out, at, WIRE_DATA, WIRE_STDOUT, g->op.id);
	wire_link_flush(&g->op.in->link);
	g->left -= (uint64_t)n;
	g->at += n;
	g->flow.left -= (uint64_t)n;
	if (g->unsized && g->left < WIRE_DATA_MAX)
		return err_set(e, ERR_LIMIT, EFBIG,
			       "'%.80s' says it has no size and goes on after %u MiB: copy it with "
			       "a command in the box",
			       *g->walk.path ? g->walk.path : g->op.path, INIT_UNSIZED_MAX >> 20);
	return FILE_AGAIN;
}

/* Passes over a hole and finds where the next one begins. */
static int pass_hole(struct init_get *g, struct err *e)
{
	off_t end = g->at + (off_t)g->left;
	off_t data = lseek(g->fd, g->at, SEEK_DATA), hole;

	if (data < 0 && errno != ENXIO)
		g->sparse = false;
	data = data < 0 ? (g->sparse ? end : g->at) : data < end ? data : end;
	hole = g->sparse && data < end ? lseek(g->fd, data, SEEK_HOLE) : -1;
	g->data_end = hole > data ? hole : end;
	if (lseek(g->fd, data, SEEK_SET) < 0)
		return file_error(&g->op, errno, "read", g->walk.path, e);
	if (data > g->at && file_send_mark(&g->op, 'z', "", NULL, (uint64_t)(data - g->at)) < 0)
		return file_error(&g->op, ENOBUFS, "send", g->walk.path, e);
	g->left -= (uint64_t)(data - g->at);
	g->at = data;
	return 0;
}

/* The next piece of the open file, or its end. */
static int step_file(struct init_get *g, struct err *e)
{
	if (g->left > 0 && g->sparse && g->at >= g->data_end) {
		int r = pass_hole(g, e);

		if (r < 0)
			return r;
	}
	if (g->left > 0)
		return g->flow.left == 0 ? FILE_WAIT : send_data(g, e);
	fd_close(&g->fd);
	g->op.streaming = false;
	if (wire_link_send(&g->op.in->link, WIRE_EOF, WIRE_STDOUT, g->op.id, NULL, 0) < 0)
		return file_error(&g->op, ENOBUFS, "send", g->walk.path, e);
	return g->walk.top ? FILE_AGAIN : FILE_DONE;
}

static int get_stream(struct file_op *op, struct err *e)
{
	struct init_get *g = get_of(op);
	int r = FILE_AGAIN;

	for (unsigned i = 0; i < TURN_BYTES / WIRE_DATA_MAX && r == FILE_AGAIN && op->streaming;
	     i++)
		r = init_has_room(op->in) ? step_file(g, e) : FILE_WAIT;
	return r;
}

/* What the walk stands on cannot be read: named as left out, or the end. */
static int leave_out(struct init_get *g, int code, const char *what, struct err *e)
{
	bool is_ours = code == EMFILE || code == ENFILE || code == ENOMEM;

	if (!g->skip || is_ours)
		return file_error(&g->op, code, what, g->walk.path, e);
	if (file_send_mark(&g->op, 'x', g->walk.path, strerror(code), 0) < 0)
		return file_error(&g->op, ENOBUFS, "send", g->walk.path, e);
	return 0;
}

/* Opens what the walk stands on, a file or a directory, and sends its entry. What is gone
 * or another thing meanwhile is passed over. */
static int enter_child(struct init_get *g, const char *name, mode_t type, struct err *e)
{
	int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | (S_ISDIR(type) ? O_DIRECTORY : 0);
	autoclose int fd = guest_open_at(init_walk_fd(&g->walk), name, flags,
					 FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
	struct stat st;
	int r;

	if (fd == -ENOENT || fd == -ELOOP || fd == -ENXIO || fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return leave_out(g, -fd, "read", e);
	if (fstat(fd, &st) < 0)
		return file_error(&g->op, errno, "look at", g->walk.path, e);
	if ((st.st_mode & S_IFMT) != type)
		return 0;
	r = S_ISDIR(type) ? begin_dir(g, take_fd(fd), &st) : begin_file(g, take_fd(fd), &st);
	if (r == -ELOOP)
		return err_set(e, ERR_LIMIT, ELOOP, "'%.120s' is more than %u directories deep",
			       g->op.path, INIT_DEPTH_MAX);
	if (r == -E2BIG)
		return err_set(e, ERR_LIMIT, E2BIG,
			       "more than %d files below '%.120s' have several names", INODES_MAX,
			       g->op.path);
	return r < 0 ? file_error(&g->op, -r, "send", g->walk.path, e) : 0;
}

/* One step of the walk. FILE_AGAIN, FILE_DONE at the end of the tree, or an error. */
static int next_entry(struct init_get *g, bool descend, struct err *e)
{
	char text[BOX_PATH_MAX] = ""; /* a link longer than a path cannot exist */
	const char *name;
	struct stat st;
	bool is_link;
	int r = init_walk_next(&g->walk, &name);

	if (r < 0)
		return file_error(&g->op, -r, "read the directory", g->walk.path, e);
	if (r == 0) {
		init_walk_up(&g->walk);
		return g->walk.top ? FILE_AGAIN : FILE_DONE;
	}
	if (fstatat(init_walk_fd(&g->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? 0 : leave_out(g, errno, "look at", e);
	else
		r = 1;
	if (r <= 0)
		return r < 0 ? r : FILE_AGAIN;
	if (descend && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))) {
		r = enter_child(g, name, st.st_mode & S_IFMT, e);
		return r < 0 ? r : FILE_AGAIN;
	}
	is_link = S_ISLNK(st.st_mode);
	if (is_link && readlinkat(init_walk_fd(&g->walk), name, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	r = file_send_entry(&g->op, g->walk.path, &st, is_link ? text : NULL);
	return r < 0 ? file_error(&g->op, -r, "send", g->walk.path, e) : FILE_AGAIN;
}

static int get_turn(struct file_op *op, struct err *e)
{
	struct init_get *g = get_of(op);
	uint64_t before = g->flow.left;
	int r = FILE_AGAIN;

	for (int i = 0; i < ENTRIES_PER_TURN && r == FILE_AGAIN && !op->streaming; i++) {
		if (!init_has_room(op->in))
			return FILE_WAIT;
		r = g->fd < 0 ? next_entry(g, true, e) : step_file(g, e);
		if (before - g->flow.left >= TURN_BYTES)
			break;
	}
	return r;
}

static int list_turn(struct file_op *op, struct err *e)
{
	int r = FILE_AGAIN;

	for (int i = 0; i < ENTRIES_PER_TURN && r == FILE_AGAIN; i++) {
		if (!init_has_room(op->in))
			return FILE_WAIT;
		r = next_entry(get_of(op), false, e);
	}
	return r;
}

static int list_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct init_get *g = get_of(op);
	int fd = path_open(op->path, O_RDONLY | O_DIRECTORY);
	int r;

	g->fd = -1;
	if (fd < 0)
		return file_error(op, -fd, "list", "", e);
	r = init_walk_down(&g->walk, fd);
	return r < 0 ? file_error(op, -r, "list", "", e) : FILE_AGAIN;
}

static int get_credit(struct file_op *op, const struct wire_frame *f, struct err *e)
{
	struct wire_credit m;

	if (f->type != WIRE_CREDIT || wire_credit_decode(f, &m) < 0 ||
	    wire_flow_credit(&get_of(op)->flow, m.bytes) < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO, "unexpected frame for a get");
	return FILE_AGAIN;
}

static void get_stop(struct file_op *op)
{
	fd_close(&get_of(op)->fd);
	init_walk_done(&get_of(op)->walk);
	inodes_done(&get_of(op)->seen);
}

const struct file_kind file_get = {
	.size = sizeof(struct init_get),
	.start = get_start,
	.turn = get_turn,
	.stop = get_stop,
	.data = get_credit,
	.stream = get_stream,
};

const struct file_kind file_list = {
	.size = sizeof(struct init_get),
	.start = list_start,
	.turn = list_turn,
	.stop = get_stop,
};
