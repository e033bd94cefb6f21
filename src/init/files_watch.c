/*
 * Watch: what changes in a directory, or in a tree.
 *
 * How it works
 *
 *	scan    each directory of the tree is watched first and then read for directories in it;
 *	        CHANGE 'ready' when all are watched
 *	events  read from inotify only while there is room for what they become: an asker that is
 *	        slow makes the kernel's queue overflow, which is said (CHANGE 'lost'); then the
 *	        tree is scanned anew, since directories may have come that are not watched,
 *	        and 'ready' comes again
 *	new     a directory that is made is watched and read; what is in it already is said to be
 *	        created, and may be said so twice
 *	moved   both halves of a rename become one event; a half alone is a removal or a creation
 *
 * A directory is known by its parent and its name there, so a rename of one above it costs nothing.
 * It is watched through its open descriptor, so that no link is followed. One that may not be read,
 * or is one too many (INIT_WATCHED_MAX, INIT_WATCHED_BOX), is said to be unwatched.
 *
 * Each turn of the loop does a bounded piece of this, as the user.
 */
#include "init/files.h"

#include "base/fd.h"
#include "base/str.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

enum {
	STEPS_PER_TURN = 64,
	OUT_HIGH = 64 << 10, /* bytes that wait beyond which nothing is read */
	OUT_MAX = 256 << 10,
	EVENT_BYTES = 16 << 10,
	WATCH_BUCKETS = 256,
	MOVE_MS = 20,  /* for the second half of a rename */
	REST_MS = 200, /* after a loss, to the scan */
	SEEN = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
	       IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK,
};

struct watch_dir {
	struct watch_dir *next;	     /* of its bucket */
	struct watch_dir *scan_next; /* of those yet to be read */
	struct watch_dir *parent;    /* NULL: the root */
	unsigned children;
	int wd;
	bool waits, announce; /* it is yet to be read, and what is in it is news */
	bool leaves;
	char *name; /* owned */
};

struct init_watch {
	struct file_op op;
	struct wire_flow flow;
	struct buf out;	 /* frames to be sent */
	struct ev_io io; /* inotify; the descriptor is owned */
	struct ev_timer move_timer, rest_timer;
	dev_t dev; /* the directory: it is not held open, or its removal would not be said */
	ino_t ino;
	bool recursive, ready, gone, rests;
	struct watch_dir *buckets[WATCH_BUCKETS];
	unsigned count;
	struct watch_dir *scan_first, *scan_last;
	struct init_walk walk; /* of the directory that is being read; one level */
	struct watch_dir *at;
	/* The first half of a rename; cookie 0: none. */
	uint32_t cookie;
	bool moved_is_dir, moved_late;
	char moved[BOX_PATH_MAX];
	size_t pos, len; /* of events that were read */
	_Alignas(8) char events[EVENT_BYTES];
};

static struct init_watch *watch_of(struct file_op *op)
{
	return container(op, struct init_watch, op);
}

/* ---- saying ---- */

static int say(struct init_watch *w, enum wire_change_kind kind, const char *path, const char *to,
	       bool is_dir)
{
	struct wire_change m = {.kind = kind, .path = path, .to = to, .is_dir = is_dir};

	return wire_change_encode(&w->out, 0, 0, &m);
}

static void send_out(struct init_watch *w)
{
	struct init *in = w->op.in;

	while (buf_len(&w->out) > 0 && w->flow.left > 0 && init_has_room(in)) {
		size_t n = buf_len(&w->out) < WIRE_DATA_MAX ? buf_len(&w->out) : WIRE_DATA_MAX;

		n = n < w->flow.left ? n : (size_t)w->flow.left;
		if (wire_link_send(&in->link, WIRE_DATA, WIRE_STDOUT, w->op.id, buf_data(&w->out),
				   n) < 0) {
			init_broken(in, "no room for what changed");
			return;
		}
		buf_consume(&w->out, n);
		w->flow.left -= n;
	}
}

/* ---- directories ---- */

static struct watch_dir **bucket_of(struct init_watch *w, int wd)
{
	return &w->buckets[(unsigned)wd % WATCH_BUCKETS];
}

static struct watch_dir *find_dir(struct init_watch *w, int wd)
{
	struct watch_dir *d = *bucket_of(w, wd);

	while (d && d->wd != wd)
		d = d->next;
	return d;
}

/* The path of what is called name in the directory; NULL: the directory itself. */
static bool path_in(const struct watch_dir *d, const char *name, char ret[BOX_PATH_MAX])
{
	size_t at = BOX_PATH_MAX - 1, n;

	ret[at] = '\0';
	while (name && *name) {
		n = strlen(name);
		if (n + 1 > at)
			return false;
		if (ret[at])
			ret[--at] = '/';
		at -= n;
		memcpy(ret + at, name, n);
		name = d ? d->name : NULL;
		d = d ? d->parent : NULL;
	}
	memmove(ret, ret + at, BOX_PATH_MAX - at);
	return true;
}

static bool dir_path(const struct watch_dir *d, char ret[BOX_PATH_MAX])
{
	return path_in(d->parent, d->name, ret);
}

static void queue_scan(struct init_watch *w, struct watch_dir *d, bool announce)
{
	d->announce = announce;
	if (d->waits)
		return;
	d->waits = true;
	d->scan_next = NULL;
	if (w->scan_last)
		w->scan_last->scan_next = d;
	else
		w->scan_first = d;
	w->scan_last = d;
}

static void unqueue_scan(struct init_watch *w, struct watch_dir *d)
{
	struct watch_dir **at = &w->scan_first, *before = NULL;

	if (w->at == d) {
		init_walk_done(&w->walk);
		w->at = NULL;
	}
	if (!d->waits)
		return;
	for (; *at != d; at = &(*at)->scan_next)
		before = *at;
	*at = d->scan_next;
	if (w->scan_last == d)
		w->scan_last = before;
}

static void free_dir(struct init_watch *w, struct watch_dir *d)
{
	struct watch_dir **at = bucket_of(w, d->wd);

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	unqueue_scan(w, d);
	if (d->parent)
		d->parent->children--;
	w->count--;
	w->op.in->watched--;
	free(d->name);
	free(d);
}

static void free_leaving(struct init_watch *w)
{
	for (unsigned i = 0; i < WATCH_BUCKETS; i++)
		for (struct watch_dir *d = w->buckets[i], *next; d; d = next) {
			next = d->next;
			if (!d->leaves)
				continue;
			(void)inotify_rm_watch(w->io.fd, d->wd); /* it may be gone already */
			d->parent = NULL;
			free_dir(w, d);
		}
}

/* With all below it. */
static void drop_dir(struct init_watch *w, struct watch_dir *top)
{
	if (top->children == 0) {
		(void)inotify_rm_watch(w->io.fd, top->wd);
		free_dir(w, top);
		return;
	}
	for (unsigned i = 0; i < WATCH_BUCKETS; i++)
		for (struct watch_dir *d = w->buckets[i]; d; d = d->next)
			for (struct watch_dir *up = d; up && !d->leaves; up = up->parent)
				d->leaves = up == top;
	if (top->parent)
		top->parent->children--;
	free_leaving(w);
}

static int move_dir(struct watch_dir *d, struct watch_dir *parent, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	if (d->parent)
		d->parent->children--;
	if (parent)
		parent->children++;
	free(d->name);
	d->name = copy;
	d->parent = parent;
	return 0;
}

/* Watches the directory fd. The same one under another name is moved there. */
static int add_dir(struct init_watch *w, struct watch_dir *parent, const char *name, int fd,
		   struct watch_dir **ret)
{
	char link[40];
	struct watch_dir *d;
	int wd;

	if (w->count >= INIT_WATCHED_MAX || w->op.in->watched >= INIT_WATCHED_BOX)
		return -ENOSPC;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	wd = inotify_add_watch(w->io.fd, link, SEEN);
	if (wd < 0)
		return -errno;
	d = find_dir(w, wd);
	if (d) {
		*ret = d;
		return d->parent ? move_dir(d, parent, name) : 0;
	}
	d = calloc(1, sizeof(*d));
	if (!d || !(d->name = strdup(name))) {
		free(d);
		(void)inotify_rm_watch(w->io.fd, wd);
		return -ENOMEM;
	}
	d->wd = wd;
	d->parent = parent;
	if (parent)
		parent->children++;
	d->next = *bucket_of(w, wd);
	*bucket_of(w, wd) = d;
	w->count++;
	w->op.in->watched++;
	*ret = d;
	return 0;
}

/* The watched directory, if it is the same still. */
static int open_root(const struct init_watch *w)
{
	autoclose int fd = path_open(w->op.path, O_RDONLY | O_DIRECTORY);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == w->dev && st.st_ino == w->ino ? take_fd(fd) : -ENOENT;
}

static int open_below(const struct init_watch *w, const char *path)
{
	autoclose int root = open_root(w);

	return root < 0 ? root
			: guest_open_at(root, *path ? path : ".",
					O_RDONLY | O_DIRECTORY | O_NONBLOCK,
					FD_BENEATH | FD_NO_SYMLINKS | FD_NO_MAGICLINKS);
}

/* A directory below the root, to be watched and read. One that is gone, or another thing meanwhile,
 * is none. */
static int add_below(struct init_watch *w, struct watch_dir *parent, const char *name,
		     bool announce)
{
	char path[BOX_PATH_MAX];
	autoclose int fd = -1;
	struct watch_dir *d = NULL;
	int r;

	if (!path_in(parent, name, path))
		return say(w, CHANGE_UNWATCHED, "", NULL, true);
	fd = open_below(w, path);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || (fd >= 0 && path_is_kernel_fs(fd)))
		return 0;
	r = fd < 0 ? fd : add_dir(w, parent, name, fd, &d);
	if (r < 0)
		return say(w, CHANGE_UNWATCHED, path, NULL, true);
	queue_scan(w, d, announce);
	return 0;
}

/* ---- reading directories ---- */

static void begin_scan(struct init_watch *w)
{
	struct watch_dir *d = w->scan_first;
	int fd;

	w->scan_first = d->scan_next;
	if (!w->scan_first)
		w->scan_last = NULL;
	d->waits = false;
	w->walk.path_len = 0;
	if (!dir_path(d, w->walk.path))
		return;
	w->walk.path_len = strlen(w->walk.path);
	fd = open_below(w, w->walk.path);
	if (fd >= 0 && init_walk_down(&w->walk, fd) == 0)
		w->at = d;
}

/* One name of the directory that is being read. */
static int scan_name(struct init_watch *w)
{
	const char *name;
	struct stat st;
	int r = init_walk_next(&w->walk, &name);

	if (r == -ENAMETOOLONG)
		return 0;
	if (r <= 0) {
		init_walk_done(&w->walk);
		w->at = NULL;
		return 0;
	}
	if (fstatat(init_walk_fd(&w->walk), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = w->at->announce ? say(w, CHANGE_CREATED, w->walk.path, NULL, S_ISDIR(st.st_mode)) : 0;
	if (r == 0 && S_ISDIR(st.st_mode))
		r = add_below(w, w->at, name, w->at->announce);
	return r;
}

static int open_notify(struct init_watch *w, struct err *e)
{
	struct watch_dir *root;
	autoclose int fd = -1;
	int r;

	w->io.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->io.fd < 0 && errno == EMFILE)
		return err_set(e, ERR_LIMIT, EMFILE,
			       "this host has no room for another watch "
			       "(fs.inotify.max_user_instances): end one");
	if (w->io.fd < 0)
		return err_errno(e, errno, "watch");
	fd = open_root(w);
	r = fd < 0 ? fd : add_dir(w, NULL, "", fd, &root);
	if (r == -ENOSPC)
		return err_set(e, ERR_LIMIT, ENOSPC,
			       "too many directories are watched (in the box %u, or "
			       "fs.inotify.max_user_watches on the host)",
			       INIT_WATCHED_BOX);
	if (r < 0)
		return file_error(&w->op, -r, "watch", "", e);
	if (w->recursive)
		queue_scan(w, root, false);
	return 0;
}

static void close_notify(struct init_watch *w)
{
	init_walk_done(&w->walk);
	w->at = NULL;
	ev_io_remove(w->op.in->ev, &w->io);
	for (unsigned i = 0; i < WATCH_BUCKETS; i++)
		while (w->buckets[i]) {
			w->buckets[i]->parent = NULL;
			free_dir(w, w->buckets[i]);
		}
	fd_close(&w->io.fd);
	w->pos = w->len = 0;
	w->cookie = 0;
	w->moved_late = false;
}

/* ---- events ---- */

/* The directory that the first half of a rename was of, or NULL. */
static struct watch_dir *find_moved(struct init_watch *w)
{
	char path[BOX_PATH_MAX];

	for (unsigned i = 0; i < WATCH_BUCKETS; i++)
		for (struct watch_dir *d = w->buckets[i]; d; d = d->next)
			if (d->parent && dir_path(d, path) && strcmp(path, w->moved) == 0)
				return d;
	return NULL;
}

/* The other half of a rename did not come: it is not in the tree any more. */
static int give_up_move(struct init_watch *w)
{
	struct watch_dir *d;

	w->moved_late = false;
	if (!w->cookie)
		return 0;
	w->cookie = 0;
	ev_timer_stop(w->op.in->ev, &w->move_timer);
	d = w->moved_is_dir ? find_moved(w) : NULL;
	if (d)
		drop_dir(w, d);
	return say(w, CHANGE_REMOVED, w->moved, NULL, w->moved_is_dir);
}

static void moved_from(struct init_watch *w, const struct inotify_event *ev, const char *path)
{
	w->cookie = ev->cookie ? ev->cookie : 1;
	w->moved_is_dir = ev->mask & IN_ISDIR;
	str_copy(w->moved, sizeof(w->moved), path);
	ev_timer_set(w->op.in->ev, &w->move_timer, MOVE_MS);
}

/* What was watched there, and below it, moves with it. */
static int move_watched(struct init_watch *w, struct watch_dir *to, const char *name)
{
	struct watch_dir *d = find_moved(w);

	return d ? move_dir(d, to, name) : add_below(w, to, name, false);
}

static int moved_to(struct init_watch *w, struct watch_dir *d, const struct inotify_event *ev,
		    const char *path)
{
	bool is_dir = ev->mask & IN_ISDIR;
	int r;

	if (!w->cookie) {
		r = say(w, CHANGE_CREATED, path, NULL, is_dir);
		return r == 0 && is_dir && w->recursive ? add_below(w, d, ev->name, false) : r;
	}
	ev_timer_stop(w->op.in->ev, &w->move_timer);
	w->cookie = 0;
	r = say(w, CHANGE_RENAMED, w->moved, path, is_dir);
	return r == 0 && is_dir && w->recursive ? move_watched(w, d, ev->name) : r;
}

/* Of a directory itself. */
static int on_self(struct init_watch *w, struct watch_dir *d, uint32_t mask)
{
	if (!d->parent && mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
		w->gone = true;
	else if (mask & IN_IGNORED)
		drop_dir(w, d);
	else if (!d->parent && mask & IN_ATTRIB)
		return say(w, CHANGE_CHMOD, "", NULL, true);
	return 0;
}

static int on_lost(struct init_watch *w)
{
	int r = say(w, CHANGE_LOST, "", NULL, true);

	w->ready = false;
	if (w->recursive) {
		close_notify(w);
		w->rests = true;
		ev_timer_set(w->op.in->ev, &w->rest_timer, REST_MS);
	}
	return r;
}

static int take_event(struct init_watch *w, const struct inotify_event *ev)
{
	bool is_dir = ev->mask & IN_ISDIR;
	char path[BOX_PATH_MAX];
	struct watch_dir *d;
	int r = 0;

	if (ev->mask & IN_Q_OVERFLOW)
		return on_lost(w);
	/* The second half comes at once, or what comes now is later than the removal. */
	if (w->cookie && (!(ev->mask & IN_MOVED_TO) || ev->cookie != w->cookie))
		r = give_up_move(w);
	d = find_dir(w, ev->wd);
	if (!d || r < 0)
		return r;
	if (ev->len == 0 || !ev->name[0])
		return on_self(w, d, ev->mask);
	if (!path_in(d, ev->name, path))
		return say(w, CHANGE_LOST, "", NULL, true);
	if (ev->mask & IN_MOVED_FROM)
		moved_from(w, ev, path);
	else if (ev->mask & IN_MOVED_TO)
		return moved_to(w, d, ev, path);
	if (ev->mask & IN_CREATE) {
		r = say(w, CHANGE_CREATED, path, NULL, is_dir);
		return r == 0 && is_dir && w->recursive ? add_below(w, d, ev->name, true) : r;
	}
	if (ev->mask & IN_DELETE)
		return say(w, CHANGE_REMOVED, path, NULL, is_dir);
	if (ev->mask & IN_MODIFY)
		return say(w, CHANGE_WRITTEN, path, NULL, is_dir);
	return ev->mask & IN_ATTRIB ? say(w, CHANGE_CHMOD, path, NULL, is_dir) : 0;
}

/* FILE_AGAIN, or FILE_WAIT where there are none now. */
static int take_events(struct init_watch *w, struct err *e)
{
	int r = 0;

	if (w->pos == w->len) {
		ssize_t n = read(w->io.fd, w->events, sizeof(w->events));

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return file_error(&w->op, errno, "watch", "", e);
		if (n <= 0)
			return FILE_WAIT;
		w->pos = 0;
		w->len = (size_t)n;
	}
	for (int i = 0;
	     i < STEPS_PER_TURN && r == 0 && w->pos < w->len && buf_len(&w->out) < OUT_HIGH; i++) {
		const struct inotify_event *ev = (const void *)(w->events + w->pos);

		w->pos += sizeof(*ev) + ev->len;
		r = take_event(w, ev);
	}
	return r < 0 ? file_error(&w->op, -r, "watch", "", e) : FILE_AGAIN;
}

/* ---- turns ---- */

static int scan_some(struct init_watch *w, struct err *e)
{
	int r = 0;

	for (int i = 0; i < STEPS_PER_TURN && r == 0 && buf_len(&w->out) < OUT_HIGH; i++) {
		if (w->at)
			r = scan_name(w);
		else if (w->scan_first)
			begin_scan(w);
	}
	return r < 0 ? file_error(&w->op, -r, "watch", "", e) : FILE_AGAIN;
}

static int watch_turn(struct file_op *op, struct err *e)
{
	struct init_watch *w = watch_of(op);
	int r = 0;

	send_out(w);
	if (w->gone && buf_len(&w->out) == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "'%.120s' is not there any more",
			       op->path);
	if (w->rests || w->gone || buf_len(&w->out) >= OUT_HIGH)
		return FILE_WAIT;
	if (w->io.fd < 0)
		r = open_notify(w, e);
	if (r == 0 && w->moved_late && give_up_move(w) < 0)
		r = file_error(op, ENOBUFS, "watch", "", e);
	if (r < 0)
		return r;
	if (w->at || w->scan_first)
		return scan_some(w, e);
	if (!w->ready) {
		w->ready = true;
		(void)say(w, CHANGE_READY, "", NULL, true); /* there is room: OUT_HIGH */
	}
	r = take_events(w, e);
	send_out(w);
	if (r == FILE_WAIT && !w->io.added && ev_io_add(op->in->ev, &w->io, EPOLLIN) < 0)
		return file_error(op, ENOMEM, "watch", "", e);
	return r;
}

static void on_notify(struct ev_io *io, uint32_t events)
{
	struct init_watch *w = container(io, struct init_watch, io);

	ev_io_remove(w->op.in->ev, io);
	ev_defer(w->op.in->ev, &w->op.turn);
}

static void on_move_late(struct ev_timer *t)
{
	struct init_watch *w = container(t, struct init_watch, move_timer);

	w->moved_late = true;
	ev_defer(w->op.in->ev, &w->op.turn);
}

static void on_rested(struct ev_timer *t)
{
	struct init_watch *w = container(t, struct init_watch, rest_timer);

	w->rests = false;
	ev_defer(w->op.in->ev, &w->op.turn);
}

static int watch_start(struct file_op *op, const struct wire_file *m, struct err *e)
{
	struct init_watch *w = watch_of(op);
	autoclose int fd = -1;
	struct stat st;

	buf_init(&w->out, OUT_MAX);
	wire_flow_init(&w->flow);
	w->io = (struct ev_io){.on_event = on_notify, .fd = -1};
	w->move_timer.on_timer = on_move_late;
	w->rest_timer.on_timer = on_rested;
	w->recursive = m->recursive;
	fd = path_open(op->path, O_PATH | O_DIRECTORY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return file_error(op, fd < 0 ? -fd : errno, "watch", "", e);
	w->dev = st.st_dev;
	w->ino = st.st_ino;
	return FILE_AGAIN;
}

static int watch_credit(struct file_op *op, const struct wire_frame *f, struct err *e)
{
	struct wire_credit m;

	if (f->type != WIRE_CREDIT || wire_credit_decode(f, &m) < 0 ||
	    wire_flow_credit(&watch_of(op)->flow, m.bytes) < 0)
		return err_set(e, ERR_PROTOCOL, EPROTO, "unexpected frame for a watch");
	return FILE_AGAIN;
}

static void watch_stop(struct file_op *op)
{
	struct init_watch *w = watch_of(op);

	ev_timer_stop(op->in->ev, &w->move_timer);
	ev_timer_stop(op->in->ev, &w->rest_timer);
	if (w->io.fd >= 0)
		close_notify(w);
	buf_done(&w->out);
}

const struct file_kind file_watch = {
	.size = sizeof(struct init_watch),
	.start = watch_start,
	.turn = watch_turn,
	.data = watch_credit,
	.stop = watch_stop,
};
