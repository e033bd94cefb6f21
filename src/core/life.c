/* Getting a box to run, or joining it while somebody else does; see life.h. */
#include "core/life.h"

#include "base/clock.h"
#include "base/fd.h"
#include "core/door.h"
#include "keeper/config.h"
#include "store/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

enum { UP_TRIES = 8 };

int life_image(struct cove *cove, const char *name, struct image *ret, struct err *e)
{
	int r = image_find(&cove->state, name, ret, e);

	if (r < 0 || !ret->is_host)
		return r;
	r = core_ids(cove, e);
	return r < 0 ? r : image_host_prepare(&cove->state, &cove->ids, ret, e);
}

int life_spawn(struct cove *cove, const struct spec *spec, const struct image *image,
	       int start_lock_fd, struct core_conn **ret, struct err *e)
{
	struct keeper_config config = {
		.home = cove->state.home,
		.run = cove->state.run,
		.init_path = cove->init_path,
		.door_path = cove->door_path[0] ? cove->door_path : NULL,
		.image_root = image->root,
		.image_user = image->user,
		.image_is_host = image->is_host,
		.spec = *spec,
	};
	autoclose int lock = start_lock_fd;
	int fd = -1;
	int r = net_is_closed(spec->net) ? 0 : spawn_find_door(cove, e);

	if (r == 0)
		r = spawn_keeper(cove, &config, &fd, e);
	if (r == 0)
		r = core_conn_new(NULL, fd, ret, e);
	if (r < 0)
		return r;
	(*ret)->first = true;
	(*ret)->start_lock_fd = take_fd(lock);
	return 0;
}

/* A watch on a directory we hold open, by its own short name. */
static int watch_dir(int inotify_fd, int dir_fd, uint32_t events)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
	return inotify_add_watch(inotify_fd, path, events) < 0 ? -errno : 0;
}

/* Watches of everything that changes when a keeper comes or goes. */
struct watch {
	int in_fd, lock_fd, run_fd; /* owned */
};

static void watch_done(struct watch *w)
{
	fd_close(&w->in_fd);
	fd_close(&w->lock_fd);
	fd_close(&w->run_fd);
}

static int watch_init(struct watch *w, struct cove *cove, int box_fd)
{
	int r;

	*w = (struct watch){
		.in_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .lock_fd = -1, .run_fd = -1};
	if (w->in_fd < 0)
		return -errno;
	w->lock_fd = openat(box_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	r = watch_dir(w->in_fd, box_fd, IN_CLOSE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF);
	if (r == 0 && cove->state.run_fd >= 0)
		r = watch_dir(w->in_fd, cove->state.run_fd, IN_CREATE | IN_MOVED_TO);
	if (r < 0)
		watch_done(w);
	return r;
}

/* The directory of the box's socket may appear later than the watch. */
static void watch_run_dir(struct watch *w, struct cove *cove, const char *name)
{
	if (w->run_fd >= 0)
		return;
	w->run_fd =
		openat(cove->state.run_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->run_fd >= 0)
		watch_dir(w->in_fd, w->run_fd, IN_CREATE | IN_MOVED_TO | IN_ATTRIB);
}

/* 0 when something happened, -ETIMEDOUT. */
static int watch_wait(const struct watch *w, uint64_t end_ms)
{
	struct pollfd p = {.fd = w->in_fd, .events = POLLIN};
	uint64_t now = clock_mono_ms();
	char events[4096];
	int r = poll(&p, 1, now >= end_ms ? 0 : (int)(end_ms - now));

	if (r == 0)
		return -ETIMEDOUT;
	if (r > 0 && read(w->in_fd, events, sizeof(events)) < 0 && errno != EAGAIN &&
	    errno != EINTR)
		return -errno;
	return r > 0 || errno == EINTR ? 0 : -errno;
}

bool life_has_moved(struct cove *cove, const char *name, int box_fd)
{
	struct stat now, held;

	return fstatat(cove->state.boxes_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	       fstat(box_fd, &held) < 0 || now.st_ino != held.st_ino;
}

int life_connect(struct cove *cove, const char *name, int box_fd, int timeout_ms,
		 struct core_conn **ret)
{
	uint64_t end = clock_mono_ms() + (uint64_t)timeout_ms;
	struct watch w;
	int r = watch_init(&w, cove, box_fd);

	while (r == 0) {
		watch_run_dir(&w, cove, name);
		r = core_conn_connect(NULL, cove->state.run_fd, name, ret, NULL);
		if (r != -ENOENT && r != -ECONNREFUSED)
			break;
		r = -EAGAIN;
		if (!record_is_locked(w.lock_fd) || life_has_moved(cove, name, box_fd))
			break;
		r = watch_wait(&w, end);
	}
	watch_done(&w);
	return r;
}

int life_wait_free(struct cove *cove, const char *name, int box_fd, int timeout_ms)
{
	uint64_t end = clock_mono_ms() + (uint64_t)timeout_ms;
	struct watch w;
	int r = watch_init(&w, cove, box_fd);

	while (r == 0 && record_is_locked(w.lock_fd) && !life_has_moved(cove, name, box_fd))
		r = watch_wait(&w, end);
	watch_done(&w);
	return r;
}

int life_lock(struct cove *cove, const char *name, int box_fd, int timeout_ms, struct err *e)
{
	uint64_t end = clock_mono_ms() + (uint64_t)timeout_ms;
	int r = record_lock_operation(box_fd, false, e);
	struct watch w;

	if (r == -EBUSY) {
		/* The holder's closing of the directory is an event in it. */
		r = watch_init(&w, cove, box_fd);
		while (r == 0 && (r = record_lock_operation(box_fd, false, e)) == -EBUSY)
			r = watch_wait(&w, end);
		watch_done(&w);
		if (r == -ETIMEDOUT)
			return err_set(
				e, ERR_CONFLICT, EBUSY,
				"another cove has been starting or removing box '%s' for %d s",
				name, timeout_ms / 1000);
	}
	if (r == 0 && life_has_moved(cove, name, box_fd))
		return record_missing(name, e);
	return r;
}

/* Starts the box from its record and waits until it is up. Takes start_lock_fd. */
static int start_from_record(struct cove *cove, const char *name, int start_lock_fd,
			     struct core_conn **ret, struct err *e)
{
	autoclose int lock = start_lock_fd;
	struct record record;
	struct image image;
	int r = record_load(&cove->state, name, &record, e);

	if (r < 0)
		return r;
	r = spawn_find_programs(cove, e);
	if (r == 0)
		r = life_image(cove, record.spec.image, &image, e);
	if (r == 0)
		r = network_check(cove, name, lock, e);
	if (r == 0)
		r = life_spawn(cove, &record.spec, &image, take_fd(lock), ret, e);
	record_done(&record);
	return r;
}

/* The slow path: the box is not there to be joined. */
static int start_or_join(struct cove *cove, const char *name, struct core_conn **ret, struct err *e)
{
	autoclose int box_fd = -1;
	int r = box_open_dir(cove, name, &box_fd, e);

	/* The runtime directory does not survive a reboot. */
	if (r == 0)
		r = state_make(&cove->state, e);
	if (r == 0)
		r = life_lock(cove, name, box_fd, START_WAIT_MS, e);
	if (r < 0)
		return r;
	r = core_conn_connect(NULL, cove->state.run_fd, name, ret, e);
	if (r == 0)
		return 0;
	if (r != -ENOENT && r != -ECONNREFUSED)
		return r;
	if (record_is_live(box_fd) && life_wait_free(cove, name, box_fd, STOP_WAIT_MS) < 0)
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT,
			       "box '%s' is locked and does not answer; end it "
			       "with 'cove rm -f %s'",
			       name, name);
	return start_from_record(cove, name, take_fd(box_fd), ret, e);
}

/* One attempt. -EAGAIN: we met a keeper that was just ending. */
static int up_once(struct cove *cove, const char *name, struct core_conn **ret, struct err *e)
{
	struct core_conn *conn = NULL;
	int r = core_conn_connect(NULL, cove->state.run_fd, name, &conn, e);

	if (r == -ENOENT || r == -ECONNREFUSED)
		r = start_or_join(cove, name, &conn, e);
	if (r == 0)
		r = core_conn_wait_ready(conn, START_WAIT_MS, e);
	if (r == 0) {
		*ret = conn;
		return 0;
	}
	/* One that we started ourselves has failed for good. */
	if (r == -ECONNRESET && !conn->first)
		r = -EAGAIN;
	core_conn_free(conn);
	return r;
}

int box_up(struct cove *cove, const char *name, struct core_conn **ret, struct err *e)
{
	int r = -EAGAIN;

	for (int i = 0; i < UP_TRIES && r == -EAGAIN; i++) {
		autoclose int box_fd = -1;

		r = up_once(cove, name, ret, e);
		if (r == -EAGAIN && box_open_dir(cove, name, &box_fd, NULL) == 0)
			life_wait_free(cove, name, box_fd, STOP_WAIT_MS);
	}
	return r;
}
