/*
 * The events of a box, read from the files its keeper appends to: events.1.jsonl, the older half,
 * and events.jsonl. Following waits for changes with inotify, and ends when the box's lock is free:
 * the keeper writes its last event before it lets go.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define EVENTS_OLD "logs/events.1.jsonl"
#define EVENTS_NOW "logs/events.jsonl"

enum { HISTORY_BYTES = 256 << 10 };

struct history {
	int box_fd;
	int fd;		 /* owned; the file being read, -1 before it exists */
	struct buf text; /* read and not yet a whole line */
	cove_on_line *on_line;
	void *arg;
	bool stopped; /* the caller has had enough */
};

/* Hands out whole lines. A line longer than the buffer is none of the keeper's: it is dropped. */
static void hand_out(struct history *h)
{
	while (!h->stopped && buf_len(&h->text) > 0) {
		uint8_t *start = h->text.data + h->text.start;
		uint8_t *end = memchr(start, '\n', buf_len(&h->text));

		if (!end) {
			if (buf_len(&h->text) >= HISTORY_BYTES / 2)
				buf_clear(&h->text);
			return;
		}
		*end = 0;
		h->stopped = !h->on_line(h->arg, (const char *)start);
		buf_consume(&h->text, (size_t)(end + 1 - start));
	}
}

static int read_to_end(struct history *h)
{
	while (h->fd >= 0 && !h->stopped) {
		uint8_t *space = buf_reserve(&h->text, HISTORY_BYTES / 4);
		ssize_t n;

		if (!space)
			return -ENOMEM;
		n = read(h->fd, space, HISTORY_BYTES / 4);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_commit(&h->text, (size_t)n);
		hand_out(h);
	}
	return 0;
}

static int open_file(struct history *h, const char *path)
{
	return fd_openat2(h->box_fd, path, O_RDONLY, 0, FD_BENEATH | FD_NO_SYMLINKS);
}

/* The keeper began a new file: the old one was read to its end, so this one comes next. */
static bool has_turned(struct history *h)
{
	struct stat held, now;

	return h->fd < 0 || (fstatat(h->box_fd, EVENTS_NOW, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
			     fstat(h->fd, &held) == 0 && held.st_ino != now.st_ino);
}

static int read_all(struct history *h)
{
	int r = read_to_end(h);

	if (r == 0 && has_turned(h)) {
		/* What came between the last read and the turn. */
		r = read_to_end(h);
		fd_close(&h->fd);
		h->fd = open_file(h, EVENTS_NOW);
		if (h->fd >= 0 && r == 0)
			r = read_to_end(h);
	}
	return r;
}

static int watch(int in_fd, int box_fd, const char *below, uint32_t events)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d%s", box_fd, below);
	return inotify_add_watch(in_fd, path, events) < 0 ? -errno : 0;
}

static int follow_file(struct history *h)
{
	autoclose int in_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	autoclose int lock_fd = openat(h->box_fd, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct pollfd p = {.fd = in_fd, .events = POLLIN};
	char events[4096];
	bool live;
	int r;

	if (in_fd < 0)
		return -errno;
	watch(in_fd, h->box_fd, "", IN_CLOSE_WRITE | IN_CREATE);
	do {
		watch(in_fd, h->box_fd, "/logs", IN_MODIFY | IN_CREATE | IN_MOVED_TO);
		live = record_is_locked(lock_fd);
		r = read_all(h);
		if (r < 0 || !live || h->stopped)
			break;
		if (poll(&p, 1, -1) > 0 && read(in_fd, events, sizeof(events)) < 0 &&
		    errno != EAGAIN)
			r = -errno;
	} while (r == 0);
	return r;
}

static int events(struct cove *cove, const char *box, bool follow, struct history *h, struct err *e)
{
	autoclose int box_fd = -1;
	int r;

	core_sweep_box(cove, box);
	r = box_open_dir(cove, box, &box_fd, e);
	if (r < 0)
		return r;
	h->box_fd = box_fd;
	buf_init(&h->text, HISTORY_BYTES);
	h->fd = open_file(h, EVENTS_OLD);
	r = follow ? follow_file(h) : read_all(h);
	fd_close(&h->fd);
	buf_done(&h->text);
	return r < 0 ? err_errno(e, -r, "read the events of box '%s'", box) : 0;
}

int cove_events(struct cove *cove, const char *box, bool follow, cove_on_line *on_line, void *arg,
		struct cove_error *err)
{
	struct history h = {.fd = -1, .on_line = on_line, .arg = arg};
	struct err e = {0};

	return core_return(cove, box, events(cove, box, follow, &h, &e), &e, err);
}
