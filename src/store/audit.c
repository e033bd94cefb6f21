/* The writer of audit logs; see audit.h for what is done in which order, and why. */
#include "store/audit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- rows and segments ---- */

static int segment_open(const struct audit_writer *w, uint64_t number, int flags)
{
	char name[24];
	int fd;

	audit_segment_name(number, name);
	fd = openat(w->dir_fd, name, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	return fd < 0 ? -errno : fd;
}

/* One row at the end of a segment that has so many bytes. */
static int put_row(struct audit_writer *w, int fd, uint64_t *bytes, struct audit_row *row)
{
	struct audit_chain next = {.rows = w->at.rows + 1};
	struct buf line;
	int r;

	memcpy(next.last, w->at.last, sizeof(next.last));
	row->seq = next.rows;
	if (!row->time_ms)
		row->time_ms = clock_wall_ms();
	buf_init(&line, AUDIT_ROW_MAX);
	r = audit_row_format(&line, row, next.last);
	if (r == 0) {
		r = fd_write_full(fd, buf_data(&line), buf_len(&line));
		/* A part of a row is taken back. Where even that fails the next open does it. */
		if (r < 0 && ftruncate(fd, (off_t)*bytes) < 0)
			r = -errno;
	}
	if (r == 0) {
		*bytes += buf_len(&line);
		w->at = next;
		w->dirty = true;
	}
	buf_done(&line);
	return r;
}

/* The directory and its first segment. */
static int log_make(struct audit_writer *w)
{
	if (w->dir_fd < 0 && mkdirat(w->logs_fd, w->name, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (w->dir_fd < 0)
		w->dir_fd = audit_log_open(w->logs_fd, w->name);
	if (w->dir_fd < 0)
		return w->dir_fd;
	if (flock(w->dir_fd, LOCK_EX) < 0)
		return -errno;
	w->fd = segment_open(w, 1, O_CREAT | O_EXCL);
	if (w->fd < 0)
		return w->fd;
	w->first_segment = w->segment = 1;
	w->bytes = 0;
	return 0;
}

/* What stays is found by the next writer: the log says that it was dropped. */
static void drop_before(struct audit_writer *w, uint64_t keep_from)
{
	struct audit_segments there;
	char name[24];

	while (audit_segments_find(w->dir_fd, &there) == 0 && there.first &&
	       there.first < keep_from) {
		audit_segment_name(there.first, name);
		if (unlinkat(w->dir_fd, name, 0) < 0)
			break;
	}
	w->first_segment = keep_from;
}

/* The first row of a segment, which says what is kept from now on. */
static int put_first(struct audit_writer *w, int fd, uint64_t *bytes, uint64_t keep_from)
{
	struct audit_row row = {.kind = AUDIT_SEGMENT};
	autofree char *line = NULL;
	struct audit_line kept;
	int r;

	if (keep_from > 1) {
		row.status = keep_from;
		if (audit_segment_first(w->dir_fd, keep_from, &kept, &line) == 0) {
			row.about = kept.row.seq - 1;
			row.reason = kept.prev;
		}
	}
	r = put_row(w, fd, bytes, &row);
	if (r == 0 && (fdatasync(fd) < 0 || fsync(w->dir_fd) < 0))
		r = -errno;
	return r;
}

/* All rows before it are durable; so is their head, or it could be of a segment before the last. */
static int begin_segment(struct audit_writer *w, uint64_t number)
{
	const struct audit_chain before = w->at;
	uint64_t bytes = 0, keep_from = w->first_segment;
	autoclose int fd = -1;
	char name[24];
	int r = fsync(w->dir_fd) < 0 ? -errno : 0;

	if (r == 0)
		fd = r = segment_open(w, number, O_CREAT | O_TRUNC);
	if (r < 0)
		return r;
	if (number - keep_from >= w->segments_max)
		keep_from = number - w->segments_max + 1;
	r = put_first(w, fd, &bytes, keep_from);
	if (r < 0) {
		w->at = before;
		audit_segment_name(number, name);
		(void)unlinkat(w->dir_fd, name, 0); /* half a segment is as good as none */
		return r;
	}
	fd_close(&w->fd);
	w->fd = take_fd(fd);
	w->segment = number;
	w->bytes = bytes;
	if (w->first_segment < keep_from)
		drop_before(w, keep_from);
	return 0;
}

int audit_append(struct audit_writer *w, struct audit_row *row, struct err *e)
{
	int r = 0;

	if (w->segment == 0) {
		r = log_make(w);
	} else if (w->bytes >= w->segment_bytes_max) {
		r = audit_sync(w, e);
		if (r < 0)
			return r;
		r = begin_segment(w, w->segment + 1);
	}
	if (r == 0)
		r = put_row(w, w->fd, &w->bytes, row);
	return r < 0 ? err_errno(e, -r, "write to the audit log '%s'", w->name) : 0;
}

/* ---- what is durable ---- */

static int head_write(const struct audit_writer *w)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "%" PRIu64 " %s %" PRIu64 " %" PRIu64 "\n", w->at.rows,
			 w->at.last, w->segment, w->bytes);
	autoclose int fd = openat(w->dir_fd, AUDIT_HEAD_NEW,
				  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_full(fd, text, (size_t)n);

	/* The old or the new one after a crash: both are true. */
	if (r == 0 &&
	    (fdatasync(fd) < 0 || renameat(w->dir_fd, AUDIT_HEAD_NEW, w->dir_fd, AUDIT_HEAD) < 0))
		r = -errno;
	return r;
}

static int box_dir_open(const struct audit_writer *w)
{
	char box[BOX_NAME_MAX + 1];

	if (!w->st || w->st->boxes_fd < 0 || !audit_box_of(w->name, box))
		return -1;
	return openat(w->st->boxes_fd, box, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The box itself knows that it has a log: log, list and all may be removed, and not it. */
static bool box_is_marked(const struct audit_writer *w)
{
	autoclose int fd = box_dir_open(w);
	autofree char *known = NULL;

	return fd >= 0 && fd_read_file(fd, AUDIT_MARK, AUDIT_NAME_MAX, &known, NULL) == 0 &&
	       strcmp(known, w->name) == 0;
}

/* The log has its rows: from now on it, or its head, cannot go unseen. */
static int enlist(struct audit_writer *w, struct err *e)
{
	autoclose int head =
		openat(w->dir_fd, AUDIT_HEAD, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct audit_row row = {.kind = "file", .host = w->name};
	int r = head < 0 || fsync(w->dir_fd) < 0 || fsync(w->logs_fd) < 0 ? -errno : 0;

	if (r == 0 && w->st) {
		autoclose int box = box_dir_open(w);

		r = audit_list_add(w->st, &row, e);
		if (r < 0)
			return r;
		if (box >= 0)
			r = fd_write_file(box, AUDIT_MARK, w->name, strlen(w->name), 0600, false);
	}
	w->is_listed = r == 0;
	return r < 0 ? err_errno(e, -r, "sync the audit log '%s'", w->name) : 0;
}

int audit_sync(struct audit_writer *w, struct err *e)
{
	int r;

	if (!w->dirty)
		return 0;
	r = fdatasync(w->fd) < 0 ? -errno : 0;
	if (r == 0 && !w->is_listed) {
		r = enlist(w, e);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = head_write(w);
	if (r < 0)
		return err_errno(e, -r, "sync the audit log '%s'", w->name);
	w->dirty = false;
	return 0;
}

void audit_close(struct audit_writer *w)
{
	fd_close(&w->fd);
	fd_close(&w->dir_fd);
	fd_close(&w->logs_fd);
}

/* ---- finding the end ---- */

/* Goes on from a place in a segment as far as there are rows, and says where that is and how much
 * there is. -ENODATA if there is not even so much, or if a whole row is not the next one: no crash
 * does that. */
static int follow_chain(struct audit_writer *w, uint64_t segment, uint64_t from, uint64_t *ret_end,
			uint64_t *ret_size)
{
	struct audit_reader reader;
	struct audit_line line;
	struct stat st = {0};
	int r = audit_reader_open(&reader, w->dir_fd, segment, from);

	*ret_end = from;
	if (r == 0 && fstat(reader.fd, &st) < 0)
		r = -errno;
	if (r == -ENOENT || (r == 0 && (uint64_t)st.st_size < from))
		r = -ENODATA;
	*ret_size = (uint64_t)st.st_size;
	while (r == 0 && (r = audit_reader_next(&reader)) > 0) {
		r = audit_row_parse(&line, reader.line, reader.line_len);
		if (r == 0 && !audit_chain_add(&w->at, &line))
			r = -ENODATA;
		if (r < 0)
			break;
		*ret_end = reader.line_at + reader.line_len + 1;
	}
	audit_reader_close(&reader);
	return r == -EBADMSG ? 0 : r;
}

/* The end of the last segment; what follows the last row is cut off. */
static int find_end(struct audit_writer *w, uint64_t segment, uint64_t from, bool *ret_cut)
{
	uint64_t end, size;
	int r = follow_chain(w, segment, from, &end, &size);

	if (r < 0)
		return r;
	w->fd = segment_open(w, segment, 0);
	if (w->fd < 0)
		return w->fd;
	*ret_cut = size > end;
	if (*ret_cut && ftruncate(w->fd, (off_t)end) < 0)
		return -errno;
	w->segment = segment;
	w->bytes = end;
	return 0;
}

/* The last row of the last segment that has one, whatever it follows. */
static int find_any_end(struct audit_writer *w, const struct audit_segments *segments)
{
	uint64_t n = segments->last;

	for (unsigned i = 0; i < AUDIT_SEGMENTS && n > 0; i++, n--) {
		struct audit_reader reader;
		struct audit_line line;
		bool found = false;
		int r = audit_reader_open(&reader, w->dir_fd, n, 0);

		while (r == 0 && (r = audit_reader_next(&reader)) > 0) {
			r = 0;
			if (audit_row_parse(&line, reader.line, reader.line_len) < 0)
				continue;
			found = true;
			w->at.rows = line.row.seq;
			memcpy(w->at.last, line.hash, sizeof(w->at.last));
		}
		audit_reader_close(&reader);
		if (r < 0 && r != -ENOENT && r != -EBADMSG)
			return r;
		if (found)
			return 0;
	}
	return 0;
}

/* Rows that were durable are not there. All that is there stays as it is, and a new segment says
 * so: it never verifies again. */
static int note_damage(struct audit_writer *w, const struct audit_segments *segments,
		       const char *reason)
{
	struct audit_row row = {.kind = "damage", .reason = reason};
	struct audit_head head;
	int r = 0;

	if (audit_head_read(w->dir_fd, &head) == 0 && head.at.rows)
		w->at = head.at;
	else
		r = find_any_end(w, segments);
	fd_close(&w->fd);
	if (r == 0)
		r = begin_segment(w, segments->last + 1);
	return r < 0 ? r : put_row(w, w->fd, &w->bytes, &row);
}

/* What is wrong before anything of the last segment is read; NULL: nothing. */
static const char *find_damage(const struct audit_writer *w, int head_r,
			       const struct audit_head *head, const struct audit_segments *segments)
{
	if (head_r == -EBADMSG)
		return "its head was damaged";
	if (head->at.rows == 0 && (head_r < 0 || segments->last == 0) && box_is_marked(w))
		return head_r < 0 ? "its head was removed" : "its rows were removed";
	if (head_r < 0)
		return segments->last > 1 ? "its head was removed" : NULL;
	if (head->at.rows == 0 && segments->last == 0)
		return NULL;
	return segments->last != head->segment && segments->last != head->segment + 1
		       ? "segments of it were removed or put in"
		       : NULL;
}

/* A drop that a crash has cut short. */
static int finish_drop(struct audit_writer *w, const struct audit_segments *segments)
{
	struct audit_chain at;
	uint64_t first;
	int r = audit_dropped(w->dir_fd, w->name, segments, &at, &first);

	w->first_segment = segments->first ? segments->first : 1;
	if (r == 0 && w->first_segment < first && first <= segments->last)
		drop_before(w, first);
	return r == -EBADMSG ? 0 : r;
}

/* From the head on. The last segment may have been begun after it. */
static int log_continue(struct audit_writer *w, const struct audit_head *head, uint64_t last)
{
	struct audit_row cut = {.kind = "door", .reason = "a crash cut the audit log short here"};
	uint64_t end, size, from = head->bytes;
	bool is_cut = false;
	int r = 0;

	if (head->at.rows > 0)
		w->at = head->at;
	if (last > head->segment) {
		r = follow_chain(w, head->segment, from, &end, &size);
		from = 0;
	}
	if (r == 0)
		r = find_end(w, last, from, &is_cut);
	if (r == 0 && w->bytes == 0 && w->segment > 1)
		r = begin_segment(w, w->segment);
	return r == 0 && is_cut ? put_row(w, w->fd, &w->bytes, &cut) : r;
}

static int log_recover(struct audit_writer *w)
{
	struct audit_segments segments;
	struct audit_head head;
	const char *damage;
	int h = audit_head_read(w->dir_fd, &head);
	int r = audit_segments_find(w->dir_fd, &segments);

	if (r == 0 && h < 0 && h != -ENOENT && h != -EBADMSG)
		r = h;
	if (r == 0)
		r = finish_drop(w, &segments);
	if (r < 0)
		return r;
	w->is_listed = head.at.rows > 0;
	damage = find_damage(w, h, &head, &segments);
	if (damage)
		return note_damage(w, &segments, damage);
	if (segments.last == 0)
		return 0;
	r = log_continue(w, &head, segments.last);
	return r == -ENODATA ? note_damage(w, &segments, "rows of it were changed or cut off") : r;
}

/* make: now, and not with the first row, because others may do so too. */
static int log_open(struct audit_writer *w, const char *name, bool make)
{
	int r = 0;

	str_copy(w->name, sizeof(w->name), name);
	audit_first_hash(name, w->at.last);
	w->first_segment = 1;
	w->segment_bytes_max = AUDIT_SEGMENT_MAX;
	w->segments_max = AUDIT_SEGMENTS;
	if (make && mkdirat(w->logs_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	w->dir_fd = audit_log_open(w->logs_fd, name);
	if (w->dir_fd == -ENOENT && box_is_marked(w)) {
		struct audit_row row = {.kind = "damage",
					.reason = "the rows of before were removed"};

		r = log_make(w);
		return r < 0 ? r : put_row(w, w->fd, &w->bytes, &row);
	}
	if (w->dir_fd < 0)
		return w->dir_fd == -ENOENT ? 0 : w->dir_fd;
	if (flock(w->dir_fd, LOCK_EX) < 0)
		return -errno;
	return log_recover(w);
}

int audit_open(struct audit_writer *w, struct state *st, const char *box, uint64_t created_ms,
	       struct err *e)
{
	struct err old = {0};
	char name[AUDIT_NAME_MAX];
	int r, swept = audit_sweep(st, &old);

	*w = (struct audit_writer){.st = st, .dir_fd = -1, .fd = -1};
	w->logs_fd = audit_logs_open(st, true, e);
	if (w->logs_fd < 0)
		return w->logs_fd;
	snprintf(name, sizeof(name), "%s.%" PRIu64, box, created_ms);
	r = log_open(w, name, false);
	if (r < 0) {
		err_errno(e, -r, "open the audit log '%s'", name);
	} else if (swept < 0) {
		struct audit_row row = {.kind = "door", .reason = old.msg};

		r = audit_append(w, &row, e);
	}
	if (r < 0)
		audit_close(w);
	return r;
}

int audit_list_add(struct state *st, const struct audit_row *row, struct err *e)
{
	struct audit_writer w = {.dir_fd = -1, .fd = -1, .logs_fd = audit_dir_open(st, true, e)};
	struct audit_row copy = *row;
	int r = w.logs_fd;

	if (r < 0)
		return r;
	r = log_open(&w, AUDIT_LIST, true);
	if (r < 0)
		err_errno(e, -r, "open the list of audit logs");
	if (r == 0)
		r = audit_append(&w, &copy, e);
	if (r == 0)
		r = audit_sync(&w, e);
	audit_close(&w);
	return r;
}

int audit_note(struct state *st, const char *box, uint64_t created_ms, struct audit_row *row,
	       struct err *e)
{
	struct audit_writer w;
	int r = audit_open(&w, st, box, created_ms, e);

	if (r < 0)
		return r;
	r = audit_append(&w, row, e);
	if (r == 0)
		r = audit_sync(&w, e);
	audit_close(&w);
	return r;
}
