/* The host's events on disk; see feed.h. */
#include "store/feed.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FEED_DIR  "events"
#define FEED_LOCK "lock"

enum {
	FEED_NAME_SIZE = 24,
	FEED_BLOCK = FEED_ROW_MAX + (48 << 10),
	FEED_TAIL = 2 * FEED_ROW_MAX, /* the last whole row, and one that is being written */
};

const char *const feed_types[] = {
	[FEED_BOX_CREATED] = "box.created",
	[FEED_BOX_STARTED] = "box.started",
	[FEED_BOX_PAUSED] = "box.paused",
	[FEED_BOX_WOKEN] = "box.woken",
	[FEED_BOX_STOPPED] = "box.stopped",
	[FEED_BOX_REMOVED] = "box.removed",
	[FEED_BOX_SNAPSHOT] = "box.snapshot",
	[FEED_EXEC_STARTED] = "exec.started",
	[FEED_EXEC_ENDED] = "exec.ended",
	[FEED_LIMIT_HIT] = "limit.hit",
	[FEED_DOOR_ENDED] = "door.ended",
	[FEED_DOOR_DENIED] = "door.denied",
	[FEED_ASK_OPENED] = "ask.opened",
	[FEED_ASK_ANSWERED] = "ask.answered",
	[FEED_MISSED] = "missed",
	[FEED_TYPES] = NULL,
};
_Static_assert(sizeof(feed_types) / sizeof(feed_types[0]) == FEED_TYPES + 1, "a word for each");

static void segment_name(uint64_t first, char ret[FEED_NAME_SIZE])
{
	snprintf(ret, FEED_NAME_SIZE, "%020" PRIu64, first);
}

static int dir_open(struct state *st, bool make)
{
	if (st->home_fd < 0)
		return -ENOENT;
	return fd_open_below(st->home_fd, FEED_DIR, make);
}

/* Numbers of first rows, in order. */
static int segments_list(int dir_fd, uint64_t ret[FEED_SEGMENTS_SEEN], size_t *ret_count)
{
	char **names;
	size_t count, n = 0;
	int r = state_all_names(dir_fd, &names, &count);

	if (r < 0)
		return r;
	/* Of more than there may be the last. */
	for (size_t i = count; i > 0 && n < FEED_SEGMENTS_SEEN; i--)
		if (strlen(names[i - 1]) == 20 && str_parse_u64(names[i - 1], INT64_MAX, &ret[n]))
			n++;
	state_names_free(names, count);
	for (size_t i = 0; i < n / 2; i++) {
		uint64_t other = ret[i];

		ret[i] = ret[n - 1 - i];
		ret[n - 1 - i] = other;
	}
	*ret_count = n;
	return 0;
}

static int segment_open(int dir_fd, uint64_t first, int flags)
{
	char name[FEED_NAME_SIZE];
	int fd;

	segment_name(first, name);
	fd = openat(dir_fd, name, O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return fd < 0 ? -errno : fd;
}

/* The number after the last whole row; first where there is none. */
static int segment_next(int fd, uint64_t first, uint64_t *ret)
{
	autofree char *tail = malloc(FEED_TAIL);
	struct stat st;
	ssize_t n;
	uint64_t from, seq = 0;

	if (!tail)
		return -ENOMEM;
	if (fstat(fd, &st) < 0)
		return -errno;
	from = (uint64_t)st.st_size > FEED_TAIL ? (uint64_t)st.st_size - FEED_TAIL : 0;
	n = pread(fd, tail, FEED_TAIL, (off_t)from);
	if (n < 0)
		return -errno;
	while (n > 0 && tail[n - 1] != '\n')
		n--;
	if (n > 0) {
		const char *row;

		tail[n - 1] = 0;
		row = memrchr(tail, '\n', (size_t)n - 1);
		seq = event_row_seq(row ? row + 1 : tail);
	}
	*ret = seq ? seq + 1 : first;
	return 0;
}

/* ---- writing ---- */

static int writer_find_end(struct feed_writer *w)
{
	uint64_t firsts[FEED_SEGMENTS_SEEN];
	size_t count;
	int r = segments_list(w->dir_fd, firsts, &count);

	w->next = 1;
	if (r < 0 || count == 0)
		return r;
	w->fd = segment_open(w->dir_fd, firsts[count - 1], O_RDWR | O_APPEND);
	r = w->fd < 0 ? w->fd : fd_cut_torn_line(w->fd, &w->bytes);
	return r < 0 ? r : segment_next(w->fd, firsts[count - 1], &w->next);
}

int feed_open(struct feed_writer *w, struct state *st, struct err *e)
{
	int r;

	*w = (struct feed_writer){.dir_fd = -1, .lock_fd = -1, .fd = -1};
	r = state_make(st, e);
	if (r < 0)
		return r;
	r = w->dir_fd = dir_open(st, true);
	if (r >= 0)
		r = w->lock_fd = openat(w->dir_fd, FEED_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (r == -1)
		r = -errno;
	if (r >= 0 && flock(w->lock_fd, LOCK_EX | LOCK_NB) < 0)
		r = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (r >= 0)
		r = writer_find_end(w);
	if (r < 0) {
		feed_close(w);
		return r == -EBUSY ? r : err_errno(e, -r, "open the host's events");
	}
	return 0;
}

void feed_close(struct feed_writer *w)
{
	fd_close(&w->fd);
	fd_close(&w->lock_fd);
	fd_close(&w->dir_fd);
}

static int segment_begin(struct feed_writer *w)
{
	uint64_t firsts[FEED_SEGMENTS_SEEN];
	size_t count;
	int r = feed_sync(w);

	if (r < 0)
		return r;
	r = segment_open(w->dir_fd, w->next, O_RDWR | O_APPEND | O_CREAT | O_TRUNC);
	if (r < 0)
		return r;
	fd_close(&w->fd);
	w->fd = r;
	w->bytes = 0;
	r = segments_list(w->dir_fd, firsts, &count);
	for (size_t i = 0; r == 0 && i + FEED_SEGMENTS < count; i++) {
		char name[FEED_NAME_SIZE];

		segment_name(firsts[i], name);
		if (unlinkat(w->dir_fd, name, 0) < 0 && errno != ENOENT)
			return -errno;
	}
	return r;
}

int feed_append(struct feed_writer *w, const void *rows, size_t n, uint64_t count)
{
	int r = w->fd < 0 || w->bytes >= FEED_SEGMENT_BYTES ? segment_begin(w) : 0;

	if (r == 0)
		r = fd_write_full(w->fd, rows, n);
	if (r < 0) {
		if (w->fd >= 0 && ftruncate(w->fd, (off_t)w->bytes) < 0)
			return -errno;
		return r;
	}
	w->bytes += n;
	w->next += count;
	w->dirty = true;
	return 0;
}

int feed_sync(struct feed_writer *w)
{
	if (!w->dirty || w->fd < 0)
		return 0;
	if (fdatasync(w->fd) < 0)
		return -errno;
	w->dirty = false;
	return 0;
}

void feed_skip(struct feed_writer *w, uint64_t next)
{
	if (next > w->next)
		w->next = next;
}

/* ---- reading ---- */

void feed_reader_init(struct feed_reader *r, struct state *st, uint64_t after)
{
	*r = (struct feed_reader){.st = st, .fd = -1, .next = after + 1};
}

void feed_reader_done(struct feed_reader *r)
{
	fd_close(&r->fd);
}

int feed_range(struct state *st, uint64_t *ret_oldest, uint64_t *ret_newest)
{
	autoclose int dir_fd = dir_open(st, false), fd = -1;
	uint64_t firsts[FEED_SEGMENTS_SEEN], next;
	size_t count;
	int r = dir_fd < 0 ? dir_fd : segments_list(dir_fd, firsts, &count);

	if (r < 0)
		return r;
	if (count == 0)
		return -ENOENT;
	fd = segment_open(dir_fd, firsts[count - 1], O_RDONLY);
	r = fd < 0 ? fd : segment_next(fd, firsts[count - 1], &next);
	if (r < 0)
		return r;
	*ret_oldest = firsts[0];
	*ret_newest = next - 1;
	return 0;
}

/* 1: another segment is open, with what is wanted or the next after it, or there is more in this
 * one than the first `seen` bytes; 0: neither. */
static int reader_move(struct feed_reader *r, uint64_t seen)
{
	autoclose int dir_fd = dir_open(r->st, false);
	uint64_t firsts[FEED_SEGMENTS_SEEN];
	size_t count = 0, i;
	int fd, got = dir_fd < 0 ? dir_fd : segments_list(dir_fd, firsts, &count);
	struct stat st;

	if (got < 0 || count == 0)
		return got == -ENOENT ? 0 : got;
	for (i = count - 1; i > 0 && firsts[i] > r->next; i--)
		;
	/* It was read to its end: what was written since is in the one after it. */
	while (i < count && r->fd >= 0 && firsts[i] <= r->first)
		i++;
	if (i == count)
		return 0;
	/* Since the next one is there nothing is added to this one; until then it may have been. */
	if (r->fd >= 0 && fstat(r->fd, &st) < 0)
		return -errno;
	if (r->fd >= 0 && (uint64_t)st.st_size > seen)
		return 1;
	fd = segment_open(dir_fd, firsts[i], O_RDONLY);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	fd_close(&r->fd);
	r->fd = fd;
	r->first = firsts[i];
	r->at = 0;
	return 1;
}

/* Bytes of whole lines that were read. */
static size_t take_block(struct feed_reader *r, char *block, size_t n, feed_on_row *on_row,
			 void *arg, int *ret_rows)
{
	size_t done = 0;
	bool goes_on = true;

	while (goes_on) {
		char *row = block + done, *end = memchr(row, '\n', n - done);
		uint64_t seq;

		if (!end)
			break;
		*end = 0;
		done = (size_t)(end + 1 - block);
		seq = event_row_seq(row);
		if (seq < r->next)
			continue;
		++*ret_rows;
		goes_on = on_row(arg, seq, row, (size_t)(end - row));
		r->next = seq + 1;
	}
	return done;
}

int feed_read(struct feed_reader *r, feed_on_row *on_row, void *arg)
{
	autofree char *block = malloc(FEED_BLOCK);
	int rows = 0, moved;

	if (!block)
		return -ENOMEM;
	do {
		ssize_t n = r->fd < 0 ? 0 : pread(r->fd, block, FEED_BLOCK, (off_t)r->at);
		uint64_t seen;
		size_t done;

		if (n < 0)
			return -errno;
		/* What fills a block and has no end is no row: nothing after it is waited for. */
		seen = n < FEED_BLOCK ? r->at + (uint64_t)n : UINT64_MAX;
		done = take_block(r, block, (size_t)n, on_row, arg, &rows);
		r->at += done;
		moved = done > 0 ? 1 : reader_move(r, seen);
	} while (rows == 0 && moved > 0);
	return rows ? rows : moved;
}
