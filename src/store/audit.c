/*
 * The record's rows and its writer; see audit.h.
 *
 * A row is written with one write(2) at the end of the file, so a reader sees whole rows but for
 * the last. Values are escaped (\xHH for control bytes, backslash and what is not ASCII), so no
 * byte from a box can end a field or a line. The index has several writers; each holds flock(2) on
 * it and finds its end anew.
 */
#include "store/audit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/str.h"
#include "store/audit_row.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NUMBER(f)                                       \
	{                                               \
#f, offsetof(struct audit_row, f), true \
	}
#define TEXT(f)                                          \
	{                                                \
#f, offsetof(struct audit_row, f), false \
	}

static const struct {
	const char *key;
	size_t offset;
	bool is_number;
} fields[] = {
	NUMBER(seq),	     NUMBER(time_ms), TEXT(kind),    NUMBER(about),    NUMBER(exec_id),
	TEXT(host),	     NUMBER(port),    TEXT(method),  TEXT(path),       TEXT(rule),
	TEXT(verdict),	     TEXT(reason),    TEXT(address), NUMBER(bytes_up), NUMBER(bytes_down),
	NUMBER(duration_ms), NUMBER(status),  NUMBER(count), TEXT(credential), TEXT(by),
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static void *field_at(const struct audit_row *r, size_t i)
{
	return (void *)((uintptr_t)r + fields[i].offset);
}

/* ---- the form of a row ---- */

static int put_value(struct buf *out, const char *s)
{
	size_t n = strnlen(s, AUDIT_TEXT_MAX);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint8_t c = (uint8_t)s[i];

		if (c < 0x20 || c > 0x7e || c == '\\')
			r = buf_printf(out, "\\x%02x", c);
		else
			r = buf_append(out, &c, 1);
	}
	return r;
}

static int unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		char pair[3] = {0};
		char *end;
		long byte;

		if (*s != '\\') {
			*to++ = *s;
			continue;
		}
		if (s[1] != 'x' || !s[2] || !s[3])
			return -EBADMSG;
		memcpy(pair, s + 2, 2);
		byte = strtol(pair, &end, 16);
		if (*end || byte <= 0)
			return -EBADMSG;
		*to++ = (char)byte;
		s += 3;
	}
	*to = 0;
	return 0;
}

int audit_row_pack(struct buf *out, const struct audit_row *row)
{
	int r = 0;

	for (size_t i = 0; i < FIELD_COUNT && r == 0; i++) {
		const char *const *text = field_at(row, i);
		const uint64_t *number = field_at(row, i);

		if (fields[i].is_number && *number)
			r = buf_printf(out, "%s=%" PRIu64 "\t", fields[i].key, *number);
		if (fields[i].is_number || !*text)
			continue;
		r = buf_printf(out, "%s=", fields[i].key);
		if (r == 0)
			r = put_value(out, *text);
		if (r == 0)
			r = buf_append(out, "\t", 1);
	}
	return r;
}

int audit_row_format(struct buf *out, const struct audit_row *row, char last[AUDIT_HASH + 1])
{
	size_t at = buf_len(out);
	int r = audit_row_pack(out, row);

	if (r == 0)
		r = buf_printf(out, "prev=%s\t", last);
	if (r < 0)
		return r;
	sha256_hex(buf_data(out) + at, buf_len(out) - at, last);
	return buf_printf(out, "hash=%s\n", last);
}

static int take_field(struct audit_line *l, char *key, char *value)
{
	if (strcmp(key, "prev") == 0) {
		l->prev = value;
		return 0;
	}
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		if (fields[i].is_number)
			return str_parse_u64(value, UINT64_MAX, field_at(&l->row, i)) ? 0
										      : -EBADMSG;
		*(char **)field_at(&l->row, i) = value;
		return unescape(value);
	}
	return -EBADMSG;
}

/* Fields up to the end of the text, each with its tab. */
static int take_fields(struct audit_line *l, char *text)
{
	while (*text) {
		char *end = strchr(text, '\t'), *value = strchr(text, '=');

		if (!end || !value || value > end)
			return -EBADMSG;
		*value++ = *end++ = 0;
		if (take_field(l, text, value) < 0)
			return -EBADMSG;
		text = end;
	}
	return 0;
}

int audit_row_unpack(struct audit_row *ret, char *text)
{
	struct audit_line l = {0};
	int r = take_fields(&l, text);

	if (r < 0 || l.prev || !l.row.kind)
		return -EBADMSG;
	*ret = l.row;
	return 0;
}

int audit_row_parse(struct audit_line *ret, char *line, size_t len)
{
	static const char mark[] = "\thash=";
	size_t tail = sizeof(mark) - 1 + AUDIT_HASH;
	char own[AUDIT_HASH + 1];

	*ret = (struct audit_line){0};
	if (len <= tail || memcmp(line + len - tail, mark, sizeof(mark) - 1) != 0 ||
	    strlen(line) != len)
		return -EBADMSG;
	sha256_hex(line, len - tail + 1, own);
	ret->hash = line + len - AUDIT_HASH;
	if (strcmp(own, ret->hash) != 0)
		return -EBADMSG;
	line[len - tail + 1] = 0;
	if (take_fields(ret, line) < 0)
		return -EBADMSG;
	return ret->prev && ret->row.seq && ret->row.kind ? 0 : -EBADMSG;
}

void audit_first_hash(const char *name, char ret[AUDIT_HASH + 1])
{
	sha256_hex(name, strlen(name), ret);
}

/* ---- files ---- */

int audit_dir_open(struct state *st, bool make, struct err *e)
{
	int fd, r = make ? state_make(st, e) : 0;

	if (r < 0)
		return r;
	if (st->home_fd < 0)
		return -ENOENT;
	if (make && mkdirat(st->home_fd, AUDIT_DIR, 0700) == 0)
		r = fsync(st->home_fd) < 0 ? -errno : 0;
	else if (make && errno != EEXIST)
		r = -errno;
	fd = r < 0 ? r
		   : openat(st->home_fd, AUDIT_DIR,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = -errno;
	if (r == -ENOENT && !make)
		return r;
	return r < 0 ? state_error(st, -r, "open the directory of the record", e) : fd;
}

static int head_name(const char *name, char ret[AUDIT_NAME_MAX + 8])
{
	return snprintf(ret, AUDIT_NAME_MAX + 8, "%s.head", name) < AUDIT_NAME_MAX + 8
		       ? 0
		       : -ENAMETOOLONG;
}

int audit_head_read(int dir_fd, const char *name, uint64_t *ret_rows, char ret_hash[AUDIT_HASH + 1])
{
	char path[AUDIT_NAME_MAX + 8], *end;
	autofree char *text = NULL;
	size_t len;
	int r = head_name(name, path);

	if (r == 0)
		r = fd_read_file(dir_fd, path, 256, &text, &len);
	if (r < 0)
		return r;
	end = strchr(text, ' ');
	if (!end || strlen(end + 1) != AUDIT_HASH + 1 || end[AUDIT_HASH + 1] != '\n')
		return -EBADMSG;
	*end = 0;
	end[AUDIT_HASH + 1] = 0;
	memcpy(ret_hash, end + 1, AUDIT_HASH + 1);
	return str_parse_u64(text, UINT64_MAX, ret_rows) ? 0 : -EBADMSG;
}

static int head_write(const struct audit_writer *w)
{
	char path[AUDIT_NAME_MAX + 8], text[128];
	int n = snprintf(text, sizeof(text), "%" PRIu64 " %s\n", w->rows, w->last);
	int r = head_name(w->name, path);

	return r < 0 ? r : fd_write_file(w->dir_fd, path, text, (size_t)n, 0600, false);
}

/* Finds the last whole row, from the end backwards; what follows it was torn. */
static int find_end(struct audit_writer *w, bool *ret_torn)
{
	autofree char *tail = NULL;
	struct audit_line last;
	struct stat st;
	size_t len, want;
	char *end, *begin;
	ssize_t n;

	if (fstat(w->fd, &st) < 0)
		return -errno;
	want = st.st_size < AUDIT_ROW_MAX * 2 ? (size_t)st.st_size : AUDIT_ROW_MAX * 2;
	tail = malloc(want + 1);
	if (!tail)
		return -ENOMEM;
	n = pread(w->fd, tail, want, st.st_size - (off_t)want);
	if (n != (ssize_t)want)
		return n < 0 ? -errno : -EIO;
	tail[want] = 0;
	end = memrchr(tail, '\n', want);
	len = end ? (size_t)(end - tail) + 1 : 0;
	*ret_torn = len < want;
	w->bytes = (uint64_t)st.st_size - (want - len);
	if (!end)
		return w->bytes == 0 ? 0 : -EBADMSG;
	*end = 0;
	begin = memrchr(tail, '\n', (size_t)(end - tail));
	begin = begin ? begin + 1 : tail;
	if (audit_row_parse(&last, begin, (size_t)(end - begin)) < 0)
		return -EBADMSG;
	w->rows = last.row.seq;
	memcpy(w->last, last.hash, sizeof(w->last));
	return 0;
}

/* What was let through has an end, and that is still written. */
static bool is_full(const struct audit_writer *w, const struct audit_row *row, size_t len)
{
	return w->bytes_max && w->bytes + len > w->bytes_max + (row->about ? AUDIT_BYTES_SPARE : 0);
}

static int note_damage(struct audit_writer *w, const char *reason, struct err *e)
{
	struct audit_row row = {.kind = "damage", .reason = reason};

	return audit_append(w, &row, e);
}

/* Rows that the head knows must be there still. */
static int check_head(struct audit_writer *w, struct err *e)
{
	char hash[AUDIT_HASH + 1], reason[128];
	uint64_t rows;
	int r = audit_head_read(w->dir_fd, w->name, &rows, hash);

	if (r == -ENOENT && w->rows == 0) { /* new: from now on a missing head was removed */
		r = head_write(w);
		return r < 0 ? err_errno(e, -r, "begin the record '%s'", w->name) : 0;
	}
	if (r == 0 && (rows < w->rows || (rows == w->rows && strcmp(hash, w->last) == 0)))
		return 0;
	if (r < 0)
		snprintf(reason, sizeof(reason), "its head was removed or damaged");
	else
		snprintf(reason, sizeof(reason), "%" PRIu64 " rows were here, %" PRIu64 " are left",
			 rows, w->rows);
	return note_damage(w, reason, e);
}

int audit_file_open(struct audit_writer *w, int dir_fd, const char *name, struct err *e)
{
	bool torn = false;
	int r;

	*w = (struct audit_writer){.fd = -1, .dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3)};
	str_copy(w->name, sizeof(w->name), name);
	audit_first_hash(name, w->last);
	w->bytes_max = strcmp(name, AUDIT_INDEX) == 0 ? 0 : AUDIT_BYTES_MAX;
	w->fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->fd < 0 || w->dir_fd < 0 || flock(w->fd, LOCK_EX) < 0) {
		r = -errno;
		audit_close(w);
		return err_errno(e, -r, "open the record '%s'", name);
	}
	r = find_end(w, &torn);
	if (r == -EBADMSG) {
		audit_close(w);
		return err_set(
			e, ERR_INTERNAL, EBADMSG,
			"the end of the record '%s' was changed: nothing can be added to it; "
			"see `cove audit verify`",
			name);
	}
	if (r == 0 && torn && ftruncate(w->fd, (off_t)w->bytes) < 0)
		r = -errno;
	if (r < 0) {
		audit_close(w);
		return err_errno(e, -r, "open the record '%s'", name);
	}
	r = check_head(w, e);
	if (r == 0 && torn) {
		struct audit_row row = {.kind = "door",
					.reason = "a row that was cut short was removed"};

		r = audit_append(w, &row, e);
	}
	if (r < 0)
		audit_close(w);
	return r;
}

int audit_append(struct audit_writer *w, struct audit_row *row, struct err *e)
{
	char last[AUDIT_HASH + 1];
	struct buf line;
	int r;

	memcpy(last, w->last, sizeof(last));
	row->seq = w->rows + 1;
	if (!row->time_ms)
		row->time_ms = clock_wall_ms();
	buf_init(&line, AUDIT_ROW_MAX);
	r = audit_row_format(&line, row, last);
	if (r == 0 && is_full(w, row, buf_len(&line))) {
		buf_done(&line);
		return err_set(e, ERR_LIMIT, EDQUOT,
			       "the record of this box is full (%u MiB), and nothing passes "
			       "unrecorded: go on in another box",
			       AUDIT_BYTES_MAX >> 20);
	}
	if (r == 0)
		r = fd_write_full(w->fd, buf_data(&line), buf_len(&line));
	if (r < 0) {
		buf_done(&line);
		/* A part of a row is taken back. Where even that fails the next open does it. */
		if (ftruncate(w->fd, (off_t)w->bytes) < 0)
			r = -errno;
		return err_errno(e, -r, "write to the record '%s'", w->name);
	}
	w->rows++;
	w->bytes += buf_len(&line);
	w->dirty = true;
	memcpy(w->last, last, sizeof(last));
	buf_done(&line);
	return 0;
}

int audit_sync(struct audit_writer *w, struct err *e)
{
	int r = 0;

	if (!w->dirty)
		return 0;
	if (fdatasync(w->fd) < 0)
		r = -errno;
	if (r == 0)
		r = head_write(w);
	if (r < 0)
		return err_errno(e, -r, "sync the record '%s'", w->name);
	w->dirty = false;
	return 0;
}

void audit_close(struct audit_writer *w)
{
	fd_close(&w->fd);
	fd_close(&w->dir_fd);
}

int audit_index_note(int dir_fd, const struct audit_row *row, struct err *e)
{
	struct audit_writer w;
	struct audit_row copy = *row;
	int r = audit_file_open(&w, dir_fd, AUDIT_INDEX, e);

	if (r < 0)
		return r;
	r = audit_append(&w, &copy, e);
	if (r == 0)
		r = audit_sync(&w, e);
	audit_close(&w);
	return r;
}

/* Rows of boxes that are gone and too old. */
static int expire(struct state *st, struct err *e)
{
	uint64_t keep_ms, now = clock_wall_ms(), rows;
	int r = audit_keep(st, &keep_ms, e);

	if (r < 0 || keep_ms == 0 || keep_ms >= now)
		return r;
	return audit_delete(st, NULL, now - keep_ms, "its age", &rows, e);
}

/* The box itself knows that it has a record: file, index and all may be removed, and not it. */
static int mark_box(struct audit_writer *w, const struct state *st, const char *box, struct err *e)
{
	autoclose int fd = -1;
	autofree char *known = NULL;
	int r;

	if (st->boxes_fd >= 0)
		fd = openat(st->boxes_fd, box, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (fd_read_file(fd, AUDIT_MARK, AUDIT_NAME_MAX, &known, NULL) == 0 &&
	    strcmp(known, w->name) == 0)
		return note_damage(w, "the rows of before were removed", e);
	r = fd_write_file(fd, AUDIT_MARK, w->name, strlen(w->name), 0600, false);
	return r < 0 ? state_error(st, -r, "begin the record of the box", e) : 0;
}

int audit_open(struct audit_writer *w, struct state *st, const char *box, uint64_t created_ms,
	       struct err *e)
{
	char name[AUDIT_NAME_MAX];
	struct stat known;
	bool is_new;
	autoclose int dir = audit_dir_open(st, true, e);
	int r = dir < 0 ? dir : expire(st, e);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "%s.%" PRIu64, box, created_ms);
	/* In the index first: a file that it does not know would look put in. */
	is_new = fstatat(dir, name, &known, AT_SYMLINK_NOFOLLOW) < 0;
	if (is_new)
		r = audit_index_note(dir, &(struct audit_row){.kind = "file", .host = name}, e);
	if (r == 0)
		r = audit_file_open(w, dir, name, e);
	if (r < 0 || !is_new)
		return r;
	r = mark_box(w, st, box, e);
	if (r < 0)
		audit_close(w);
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
