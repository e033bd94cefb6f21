/* Waiting for a change of a box; see watch.h. */
#include "core/watch.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

bool core_has_moved(struct cove *cove, const char *name, int box_fd)
{
	struct stat now, held;

	return fstatat(cove->state.boxes_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	       fstat(box_fd, &held) < 0 || now.st_ino != held.st_ino;
}

/* A watch on a directory we hold open, by its own short name. */
static int watch_dir(int inotify_fd, int dir_fd, uint32_t events)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
	return inotify_add_watch(inotify_fd, path, events) < 0 ? -errno : 0;
}

void core_watch_stop(struct core_watch *w)
{
	if (!w->ev)
		return;
	ev_io_remove(w->ev, &w->io);
	ev_timer_stop(w->ev, &w->timer);
	ev_defer_cancel(w->ev, &w->first);
	fd_close(&w->io.fd);
	fd_close(&w->lock_fd);
	fd_close(&w->run_fd);
	w->ev = NULL;
}

static void watch_end(struct core_watch *w, int r)
{
	core_watch_stop(w);
	w->on_done(w, r);
}

static void watch_look(struct core_watch *w)
{
	int r = w->check(w);

	if (r != -EINPROGRESS)
		watch_end(w, r);
}

static void on_first(struct ev_defer *d)
{
	watch_look(container(d, struct core_watch, first));
}

static void on_change(struct ev_io *io, uint32_t events)
{
	char changes[4096];

	if (read(io->fd, changes, sizeof(changes)) < 0 && errno != EAGAIN && errno != EINTR)
		watch_end(container(io, struct core_watch, io), -errno);
	else
		watch_look(container(io, struct core_watch, io));
}

static void on_late(struct ev_timer *t)
{
	watch_end(container(t, struct core_watch, timer), -ETIMEDOUT);
}

int core_watch_start(struct core_watch *w, struct ev *ev, int timeout_ms)
{
	int run_fd = w->cove->state.run_fd;
	int r = 0;

	w->ev = ev;
	w->io = (struct ev_io){.on_event = on_change,
			       .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
	w->timer = (struct ev_timer){.on_timer = on_late};
	w->first = (struct ev_defer){.on_defer = on_first};
	w->lock_fd = record_open_lock(w->box_fd);
	w->run_fd = -1;
	if (w->io.fd < 0)
		r = -errno;
	/* The closing of a directory that somebody has locked is an event in it. */
	if (r == 0)
		r = watch_dir(w->io.fd, w->box_fd,
			      IN_MODIFY | IN_CLOSE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF);
	if (r == 0 && run_fd >= 0)
		r = watch_dir(w->io.fd, run_fd, IN_CREATE | IN_MOVED_TO);
	if (r == 0)
		r = ev_io_add(ev, &w->io, EPOLLIN);
	if (r < 0) {
		core_watch_stop(w);
		return r;
	}
	ev_timer_set(ev, &w->timer, (uint64_t)timeout_ms);
	ev_defer(ev, &w->first);
	return 0;
}

int core_watch_lock(struct core_watch *w)
{
	int r = record_lock_operation(w->box_fd, false, NULL);

	return r == -EBUSY ? -EINPROGRESS : r;
}

static bool is_running(const struct core_watch *w)
{
	return record_is_locked(w->lock_fd) && !core_has_moved(w->cove, w->name, w->box_fd);
}

int core_watch_free(struct core_watch *w)
{
	return is_running(w) ? -EINPROGRESS : 0;
}

/* -EAGAIN when the box ended instead. */
static int check_socket(struct core_watch *w)
{
	int run_fd = w->cove->state.run_fd, r;

	/* The directory of the box's socket may appear later than the watch. */
	if (w->run_fd < 0)
		w->run_fd =
			openat(run_fd, w->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->run_fd >= 0)
		watch_dir(w->io.fd, w->run_fd, IN_CREATE | IN_MOVED_TO | IN_ATTRIB);
	r = core_conn_connect(NULL, run_fd, w->name, &w->conn, NULL);
	if (r != -ENOENT && r != -ECONNREFUSED)
		return r;
	return is_running(w) ? -EINPROGRESS : -EAGAIN;
}

/* What a box is up for is written into its lock a moment after that is held. */
static int check_answer(struct core_watch *w)
{
	int r = check_socket(w);

	return r == -EINPROGRESS && record_says_visit(w->lock_fd) ? -EAGAIN : r;
}

int core_lock_failed(int r, const char *name, int timeout_ms, struct err *e)
{
	if (r == -ETIMEDOUT)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "another cove has been starting or removing box '%s' for %d s", name,
			       timeout_ms / 1000);
	return err_errno(e, -r, "lock box '%s'", name);
}

/* ---- blocking ---- */

struct watch_call {
	struct core_watch watch;
	struct ev *ev;
	int result;
};

static void watch_done(struct core_watch *w, int r)
{
	struct watch_call *c = container(w, struct watch_call, watch);

	c->result = r;
	ev_quit(c->ev);
}

static int wait_for(struct cove *cove, const char *name, int box_fd,
		    int (*check)(struct core_watch *w), int timeout_ms, struct core_conn **ret)
{
	struct watch_call c = {.watch = {.check = check,
					 .on_done = watch_done,
					 .cove = cove,
					 .name = name,
					 .box_fd = box_fd}};
	int r = ev_new(&c.ev);

	if (r < 0)
		return r;
	r = core_watch_start(&c.watch, c.ev, timeout_ms);
	if (r == 0)
		r = ev_run(c.ev);
	core_watch_stop(&c.watch);
	ev_free(c.ev);
	if (r == 0 && c.result == 0 && ret)
		*ret = c.watch.conn;
	return r < 0 ? r : c.result;
}

int core_wait_socket(struct cove *cove, const char *name, int box_fd, int timeout_ms,
		     struct core_conn **ret)
{
	return wait_for(cove, name, box_fd, check_socket, timeout_ms, ret);
}

int core_wait_answer(struct cove *cove, const char *name, int box_fd, int timeout_ms,
		     struct core_conn **ret)
{
	return wait_for(cove, name, box_fd, check_answer, timeout_ms, ret);
}

int core_wait_free(struct cove *cove, const char *name, int box_fd, int timeout_ms)
{
	return wait_for(cove, name, box_fd, core_watch_free, timeout_ms, NULL);
}

int core_wait_lock(struct cove *cove, const char *name, int box_fd, int timeout_ms, struct err *e)
{
	int r = record_lock_operation(box_fd, false, e);

	if (r == -EBUSY)
		r = wait_for(cove, name, box_fd, core_watch_lock, timeout_ms, NULL);
	if (r < 0)
		return core_lock_failed(r, name, timeout_ms, e);
	return core_has_moved(cove, name, box_fd) ? record_missing(name, e) : 0;
}
