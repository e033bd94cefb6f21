/*
 * Reading, checking and deleting the record; see audit.h.
 *
 * Files are read through a small buffer, a row at a time. To put rows of many boxes in the order of
 * time, and what became of a decision beside it, a first pass notes where each row is (a few words
 * per row); a second reads them again in their order.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/audit.h"
#include "store/audit_row.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define KEEP_FILE "keep"

/* ---- rows of one file ---- */

struct reader {
	int fd; /* owned */
	struct buf in;
	uint64_t at; /* in the file, of the first byte in the buffer */
	size_t taken;
	char *line; /* the row handed out last: a copy, owned */
};

static int reader_open(struct reader *r, int dir_fd, const char *name, uint64_t from)
{
	*r = (struct reader){.at = from};
	buf_init(&r->in, AUDIT_ROW_MAX + (64 << 10));
	r->fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return r->fd < 0 ? -errno : 0;
}

static void reader_close(struct reader *r)
{
	fd_close(&r->fd);
	buf_done(&r->in);
	free(r->line);
	r->line = NULL;
}

/* 1 and a whole line (without its newline, valid until the next call), where it begins and its
 * length; 0 at the end or before a row that is being written; -EBADMSG for one that is too long. */
static int reader_next(struct reader *r, char **ret_line, size_t *ret_len, uint64_t *ret_at)
{
	const uint8_t *end;
	uint8_t *room;
	ssize_t n;

	buf_consume(&r->in, r->taken);
	r->at += r->taken;
	r->taken = 0;
	while (!(end = buf_len(&r->in) ? memchr(buf_data(&r->in), '\n', buf_len(&r->in)) : NULL)) {
		if (buf_len(&r->in) > AUDIT_ROW_MAX)
			return -EBADMSG;
		room = buf_reserve(&r->in, 32 << 10);
		if (!room)
			return -ENOMEM;
		n = pread(r->fd, room, 32 << 10, (off_t)(r->at + buf_len(&r->in)));
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_commit(&r->in, (size_t)n);
	}
	free(r->line);
	*ret_len = (size_t)(end - buf_data(&r->in));
	*ret_at = r->at;
	r->line = strndup((const char *)buf_data(&r->in), *ret_len);
	if (!r->line)
		return -ENOMEM;
	r->taken = *ret_len + 1;
	*ret_line = r->line;
	return 1;
}

/* ---- which files ---- */

/* "<box>.<created_ms>" -> box; false for anything else that is there. */
static bool box_of(const char *name, char ret[BOX_NAME_MAX + 1])
{
	const char *dot = strchr(name, '.');
	uint64_t created;

	if (!dot || (size_t)(dot - name) > BOX_NAME_MAX ||
	    !str_parse_u64(dot + 1, UINT64_MAX, &created))
		return false;
	memcpy(ret, name, (size_t)(dot - name));
	ret[dot - name] = 0;
	return str_is_name(ret, BOX_NAME_MAX);
}

static bool wanted(const char *name, const char *box)
{
	char own[BOX_NAME_MAX + 1];

	return box_of(name, own) && (!box || strcmp(box, own) == 0);
}

/* The files of a box or of all, sorted by name. */
static int list_files(int dir_fd, const char *box, char ***ret, size_t *ret_count)
{
	size_t kept = 0, count;
	char **names;
	int r = state_all_names(dir_fd, &names, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		if (wanted(names[i], box))
			names[kept++] = names[i];
		else
			free(names[i]);
	*ret = names;
	*ret_count = kept;
	return 0;
}

static bool box_is_there(const struct state *st, const char *name)
{
	char box[BOX_NAME_MAX + 1];
	struct stat s;

	return !box_of(name, box) || st->boxes_fd < 0 ||
	       fstatat(st->boxes_fd, box, &s, AT_SYMLINK_NOFOLLOW) == 0;
}

/* No file of this box, and no box that could have one. */
static int no_record(const struct state *st, const char *box, size_t count, struct err *e)
{
	struct stat s;

	if (!box || count > 0 ||
	    (st->boxes_fd >= 0 && str_is_name(box, BOX_NAME_MAX) &&
	     fstatat(st->boxes_fd, box, &s, AT_SYMLINK_NOFOLLOW) == 0))
		return 0;
	return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no record of a box '%.80s'", box);
}

/* ---- all rows, in order of time ---- */

struct place {
	uint64_t time_ms, at, done_at;
	uint32_t file, len, done_len;
	bool keep;
};

struct places {
	struct place *list; /* owned */
	size_t count, cap;
};

static int places_add(struct places *p, const struct place *one)
{
	struct place *grown;
	size_t cap = p->cap ? 2 * p->cap : 256;

	if (p->count == p->cap) {
		grown = realloc(p->list, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		p->list = grown;
		p->cap = cap;
	}
	p->list[p->count++] = *one;
	return 0;
}

static bool is_verdict(const struct audit_row *row, const char *verdict)
{
	return row->verdict && strcmp(row->verdict, verdict) == 0;
}

static bool passes(const struct audit_filter *f, const struct audit_row *row)
{
	if (row->time_ms < f->since_ms)
		return false;
	if (!f->denied_only)
		return true;
	/* What a person forbade is no refusal; what it led to is. */
	return (is_verdict(row, "deny") || is_verdict(row, "cut")) &&
	       strcmp(row->kind, "grant") != 0;
}

/* What became of one: found by its number, since every row of the file has a place. */
static void note_end(struct place *about, const struct place *done, const struct audit_row *row,
		     const struct audit_filter *f)
{
	about->done_at = done->at;
	about->done_len = done->len;
	if (is_verdict(row, "cut"))
		about->keep = about->time_ms >= f->since_ms;
}

/* Every row has a place, so that a `done` row finds the one it is about: rows are numbered from 1.
 * */
static int note_file(struct places *p, int dir_fd, const char *name, uint32_t file,
		     const struct audit_filter *f)
{
	size_t first = p->count, len;
	struct audit_line row;
	struct reader reader;
	uint64_t at;
	char *line;
	int r = reader_open(&reader, dir_fd, name, 0);

	while (r == 0 && (r = reader_next(&reader, &line, &len, &at)) > 0) {
		struct place place = {.file = file, .at = at, .len = (uint32_t)len};

		if (audit_row_parse(&row, line, len) == 0) {
			bool is_end = strcmp(row.row.kind, "done") == 0;

			place.time_ms = row.row.time_ms;
			place.keep = !is_end && passes(f, &row.row);
			if (is_end && row.row.about - 1 < p->count - first)
				note_end(&p->list[first + row.row.about - 1], &place, &row.row, f);
		}
		r = places_add(p, &place);
	}
	reader_close(&reader);
	return r == -ENOENT ? 0 : r;
}

static int by_time(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->time_ms != y->time_ms)
		return x->time_ms < y->time_ms ? -1 : 1;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int read_line(int fd, uint64_t at, size_t len, char **ret, struct audit_line *row)
{
	*ret = malloc(len + 1);
	if (!*ret)
		return -ENOMEM;
	if (pread(fd, *ret, len, (off_t)at) != (ssize_t)len)
		return -EIO;
	(*ret)[len] = 0;
	return audit_row_parse(row, *ret, len);
}

/* One that was let through and did not end well is shown as what became of it, and why. */
static void take_end(struct audit_row *row, const struct audit_row *done)
{
	bool is_bad = is_verdict(done, "cut") || is_verdict(done, "failed");

	if (is_bad && is_verdict(row, "allow"))
		row->verdict = done->verdict;
	if (done->reason && (is_bad || !row->reason))
		row->reason = done->reason;
}

static int give_one(int dir_fd, const char *name, const struct place *p, audit_on_row *on_row,
		    void *arg)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	autofree char *line = NULL, *done_line = NULL;
	char box[BOX_NAME_MAX + 1];
	struct audit_line row, done;
	int r = fd < 0 ? -errno : read_line(fd, p->at, p->len, &line, &row);

	if (r == 0 && p->done_len) {
		r = read_line(fd, p->done_at, p->done_len, &done_line, &done);
		if (r == 0) {
			row.row.bytes_up = done.row.bytes_up;
			row.row.bytes_down = done.row.bytes_down;
			row.row.duration_ms = done.row.duration_ms;
			row.row.status = done.row.status;
			if (done.row.address)
				row.row.address = done.row.address;
			take_end(&row.row, &done.row);
		}
	}
	/* Deleted or changed since the first pass: not there. */
	if (r == -ENOENT || r == -EBADMSG || r == -EIO || !box_of(name, box))
		return 0;
	return r < 0 ? r : on_row(arg, box, &row.row);
}

int audit_read(struct state *st, const struct audit_filter *f, audit_on_row *on_row, void *arg,
	       struct err *e)
{
	struct places places = {0};
	autoclose int dir = audit_dir_open(st, false, e);
	char **names = NULL;
	size_t count = 0;
	int r = dir == -ENOENT ? 0 : dir < 0 ? dir : list_files(dir, f->box, &names, &count);

	if (r == 0)
		r = no_record(st, f->box, count, e);
	if (r == -ENOENT) {
		state_names_free(names, count);
		return r;
	}
	for (size_t i = 0; i < count && r == 0; i++)
		r = note_file(&places, dir, names[i], (uint32_t)i, f);
	if (r == 0 && places.count > 0)
		qsort(places.list, places.count, sizeof(*places.list), by_time);
	if (r < 0)
		r = err_errno(e, -r, "read the record");
	for (size_t i = 0; i < places.count && r == 0; i++)
		if (places.list[i].keep)
			r = give_one(dir, names[places.list[i].file], &places.list[i], on_row, arg);
	free(places.list);
	state_names_free(names, count);
	return r;
}

/* ---- following ---- */

struct tail_file {
	char name[AUDIT_NAME_MAX];
	uint64_t at;
};

struct audit_tail {
	int dir_fd, watch_fd; /* owned */
	char box[BOX_NAME_MAX + 1];
	struct audit_filter filter;
	struct tail_file *files; /* owned */
	size_t count;
};

/* Who follows a box that never was would wait for ever. */
static int tail_known(const struct audit_tail *t, const struct state *st, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = list_files(t->dir_fd, t->filter.box, &names, &count);

	state_names_free(names, count);
	return r < 0 ? err_errno(e, -r, "read the record") : no_record(st, t->filter.box, count, e);
}

int audit_tail_new(struct audit_tail **ret, struct state *st, const struct audit_filter *f,
		   struct err *e)
{
	struct audit_tail *t = calloc(1, sizeof(*t));
	char path[64];
	int r = 0;

	if (!t)
		return err_errno(e, ENOMEM, "follow the record");
	t->filter = *f;
	if (f->box) {
		str_copy(t->box, sizeof(t->box), f->box);
		t->filter.box = t->box;
	}
	t->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	t->dir_fd = audit_dir_open(st, true, e);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->dir_fd);
	if (t->dir_fd < 0)
		r = t->dir_fd;
	else if (t->watch_fd < 0 ||
		 inotify_add_watch(t->watch_fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		r = err_errno(e, errno, "watch the record");
	if (r == 0)
		r = tail_known(t, st, e);
	if (r < 0) {
		audit_tail_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

int audit_tail_fd(const struct audit_tail *t)
{
	return t->watch_fd;
}

void audit_tail_free(struct audit_tail *t)
{
	if (!t)
		return;
	fd_close(&t->watch_fd);
	fd_close(&t->dir_fd);
	free(t->files);
	free(t);
}

static struct tail_file *tail_find(struct audit_tail *t, const char *name)
{
	struct tail_file *grown;

	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->files[i].name, name) == 0)
			return &t->files[i];
	grown = realloc(t->files, (t->count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	t->files = grown;
	t->files[t->count] = (struct tail_file){0};
	str_copy(t->files[t->count].name, sizeof(t->files[0].name), name);
	return &t->files[t->count++];
}

static int tail_one(struct audit_tail *t, struct tail_file *file, audit_on_row *on_row, void *arg)
{
	char box[BOX_NAME_MAX + 1], *line;
	struct audit_line row;
	struct reader reader;
	uint64_t at;
	size_t len;
	int r = reader_open(&reader, t->dir_fd, file->name, file->at);

	while (r == 0 && (r = reader_next(&reader, &line, &len, &at)) > 0) {
		file->at = at + len + 1;
		r = 0;
		if (audit_row_parse(&row, line, len) == 0 && box_of(file->name, box) &&
		    passes(&t->filter, &row.row))
			r = on_row(arg, box, &row.row);
	}
	reader_close(&reader);
	return r == -ENOENT ? 0 : r;
}

int audit_tail_read(struct audit_tail *t, audit_on_row *on_row, void *arg, struct err *e)
{
	char events[4096], **names = NULL;
	size_t count = 0;
	int r;

	while (read(t->watch_fd, events, sizeof(events)) > 0)
		;
	r = list_files(t->dir_fd, t->filter.box, &names, &count);
	if (r < 0)
		return err_errno(e, -r, "read the record");
	for (size_t i = 0; i < count && r == 0; i++) {
		struct tail_file *file = tail_find(t, names[i]);

		r = file ? tail_one(t, file, on_row, arg) : -ENOMEM;
		if (r < 0)
			err_errno(e, -r, "read the record");
	}
	state_names_free(names, count);
	return r;
}

/* ---- checking ---- */

static int wrong(struct err *e, const char *name, uint64_t row, const char *what)
{
	return err_set(e, ERR_CONFLICT, EBADMSG, "audit/%s, row %" PRIu64 ": %s", name, row, what);
}

static int check_row(const char *name, uint64_t rows, const char *last,
		     const struct audit_line *row, struct err *e)
{
	if (row->row.seq != rows)
		return wrong(e, name, rows, "is missing, or another stands in its place");
	if (strcmp(row->prev, last) != 0)
		return wrong(e, name, rows, "does not follow the row before it");
	if (strcmp(row->row.kind, "damage") == 0)
		return wrong(e, name, rows,
			     row->row.reason ? row->row.reason : "rows before it were damaged");
	return 0;
}

/* One file against itself and its head. on_row may be NULL. */
static int verify_file(int dir_fd, const char *name, uint64_t *ret_rows, audit_on_row *on_row,
		       void *arg, struct err *e)
{
	char last[AUDIT_HASH + 1], head[AUDIT_HASH + 1] = "", *line;
	uint64_t rows = 0, head_rows = 0, at;
	struct audit_line row;
	struct reader reader;
	bool head_seen = false;
	size_t len;
	int h = audit_head_read(dir_fd, name, &head_rows, head);
	int r = reader_open(&reader, dir_fd, name, 0);

	if (r < 0) {
		reader_close(&reader);
		return err_errno(e, -r, "open audit/%s", name);
	}
	audit_first_hash(name, last);
	while (r == 0 && (r = reader_next(&reader, &line, &len, &at)) > 0) {
		rows++;
		r = audit_row_parse(&row, line, len) < 0
			    ? wrong(e, name, rows, "was changed: its hash is wrong")
			    : check_row(name, rows, last, &row, e);
		if (r < 0)
			break;
		memcpy(last, row.hash, sizeof(last));
		if (rows == head_rows)
			head_seen = strcmp(last, head) == 0;
		if (on_row)
			r = on_row(arg, name, &row.row);
	}
	reader_close(&reader);
	*ret_rows += rows;
	if (r < 0)
		return r;
	if (h == 0 && head_rows > 0 && !head_seen)
		return wrong(e, name, head_rows, "was the last one once and is not there any more");
	return h == -ENOENT && rows > 0 ? wrong(e, name, rows, "has no head: it was removed")
	       : h < 0 && h != -ENOENT	? wrong(e, name, rows, "its head is damaged")
					: 0;
}

/* What the index says that there is: names, each once, minus those that were deleted. */
struct indexed {
	char **names; /* owned */
	size_t count;
};

static int on_index_row(void *arg, const char *index, const struct audit_row *row)
{
	struct indexed *in = arg;
	char **grown;

	if (!row->host)
		return 0;
	if (strcmp(row->kind, "deleted") == 0) {
		for (size_t i = 0; i < in->count; i++)
			if (strcmp(in->names[i], row->host) == 0) {
				free(in->names[i]);
				in->names[i--] = in->names[--in->count];
			}
		return 0;
	}
	if (strcmp(row->kind, "file") != 0)
		return 0;
	grown = realloc(in->names, (in->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	in->names = grown;
	in->names[in->count] = strdup(row->host);
	return in->names[in->count] ? (in->count++, 0) : -ENOMEM;
}

static bool has_name(char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* A box that was made and has not written yet has no file: its index row is one moment older. */
static int check_index(int dir_fd, const char *box, char *const *names, size_t count,
		       const struct indexed *in, struct err *e)
{
	for (size_t i = 0; i < in->count; i++) {
		struct stat st;

		if (wanted(in->names[i], box) && !has_name(names, count, in->names[i]) &&
		    fstatat(dir_fd, in->names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(
				e, ERR_CONFLICT, EBADMSG,
				"audit/%s is gone, and nobody deleted it with `cove audit rm`",
				in->names[i]);
	}
	for (size_t i = 0; i < count; i++)
		if (!has_name(in->names, in->count, names[i]))
			return err_set(e, ERR_CONFLICT, EBADMSG,
				       "audit/%s was put there: the index does not know it",
				       names[i]);
	return 0;
}

/* A box that has written rows has them still. */
static int check_mark(const struct state *st, int dir_fd, const char *box, struct err *e)
{
	char path[BOX_NAME_MAX + sizeof(AUDIT_MARK) + 1];
	autofree char *name = NULL;
	struct stat s;

	snprintf(path, sizeof(path), "%.*s/" AUDIT_MARK, (int)BOX_NAME_MAX, box);
	if (fd_read_file(st->boxes_fd, path, AUDIT_NAME_MAX, &name, NULL) < 0 ||
	    !wanted(name, box) ||
	    (dir_fd >= 0 && fstatat(dir_fd, name, &s, AT_SYMLINK_NOFOLLOW) == 0))
		return 0;
	return err_set(e, ERR_CONFLICT, EBADMSG,
		       "audit/%s is gone: box '%s' had a door, which wrote it", name, box);
}

static int check_marks(const struct state *st, int dir_fd, const char *box, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = st->boxes_fd < 0 ? 0 : state_names(st->boxes_fd, &names, &count);

	if (r < 0)
		return err_errno(e, -r, "list the boxes");
	for (size_t i = 0; i < count && r == 0; i++)
		if (!box || strcmp(box, names[i]) == 0)
			r = check_mark(st, dir_fd, names[i], e);
	state_names_free(names, count);
	return r;
}

int audit_verify(struct state *st, const char *box, uint64_t *ret_rows, struct err *e)
{
	autoclose int dir = audit_dir_open(st, false, e);
	struct indexed in = {0};
	uint64_t rows = 0, index_rows = 0;
	char **names = NULL;
	size_t count = 0;
	int r = dir == -ENOENT ? 0 : dir;

	*ret_rows = 0;
	if (r == 0)
		r = check_marks(st, dir, box, e);
	if (dir < 0 || r < 0)
		return r < 0 ? r : no_record(st, box, 0, e);
	/* Names first: whatever appears after this is in the index by then. */
	r = list_files(dir, box, &names, &count);
	if (r < 0)
		err_errno(e, -r, "list the record");
	else if (faccessat(dir, AUDIT_INDEX, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = verify_file(dir, AUDIT_INDEX, &index_rows, on_index_row, &in, e);
	if (r == 0)
		r = check_index(dir, box, names, count, &in, e);
	for (size_t i = 0; i < count && r == 0; i++)
		r = verify_file(dir, names[i], &rows, NULL, NULL, e);
	state_names_free(names, count);
	state_names_free(in.names, in.count);
	*ret_rows = rows;
	return r < 0 ? r : no_record(st, box, count, e);
}

/* ---- deleting ---- */

/* Written to by a door now? Its clerk holds the lock. */
static int lock_file(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return -EBUSY;
}

/* As audit_read gives them; what cannot be read counts for nothing. */
static uint64_t count_shown(int dir_fd, const char *name)
{
	struct audit_line row;
	struct reader reader;
	uint64_t at, count = 0;
	size_t len;
	char *line;
	int r = reader_open(&reader, dir_fd, name, 0);

	while (r == 0 && reader_next(&reader, &line, &len, &at) > 0)
		if (audit_row_parse(&row, line, len) == 0 && strcmp(row.row.kind, "done") != 0)
			count++;
	reader_close(&reader);
	return count;
}

static int delete_file(int dir_fd, const char *name, const char *by, uint64_t *ret_rows,
		       struct err *e)
{
	struct audit_row row = {.kind = "deleted", .host = name, .by = by};
	char head[AUDIT_NAME_MAX + 8], hash[AUDIT_HASH + 1] = "";
	uint64_t rows = 0, shown = count_shown(dir_fd, name);
	int r = audit_head_read(dir_fd, name, &rows, hash);

	row.reason = r == 0 ? hash : NULL;
	row.about = rows;
	r = audit_index_note(dir_fd, &row, e);
	if (r < 0)
		return r;
	snprintf(head, sizeof(head), "%s.head", name);
	if (unlinkat(dir_fd, name, 0) < 0 || (unlinkat(dir_fd, head, 0) < 0 && errno != ENOENT) ||
	    fsync(dir_fd) < 0)
		return err_errno(e, errno, "delete audit/%s", name);
	*ret_rows += shown;
	return 0;
}

int audit_delete(struct state *st, const char *box, uint64_t before_ms, const char *by,
		 uint64_t *ret_rows, struct err *e)
{
	autoclose int dir = audit_dir_open(st, false, e);
	char **names = NULL;
	size_t count = 0;
	int r = dir == -ENOENT ? 0 : dir < 0 ? dir : list_files(dir, box, &names, &count);

	*ret_rows = 0;
	if (r < 0 && dir >= 0)
		err_errno(e, -r, "list the record");
	if (r == 0)
		r = no_record(st, box, count, e);
	for (size_t i = 0; i < count && r == 0; i++) {
		struct stat s;
		autoclose int fd = -1;

		if (box_is_there(st, names[i])) {
			if (box)
				r = err_set(e, ERR_CONFLICT, EBUSY,
					    "box '%s' is there: its record goes when it is gone",
					    box);
			continue;
		}
		fd = lock_file(dir, names[i]);
		if (fd < 0 || fstat(fd, &s) < 0)
			continue;
		if (box || (uint64_t)s.st_mtim.tv_sec * 1000 < before_ms)
			r = delete_file(dir, names[i], by, ret_rows, e);
	}
	state_names_free(names, count);
	return r;
}

int audit_keep(struct state *st, uint64_t *ret_ms, struct err *e)
{
	autoclose int dir = audit_dir_open(st, false, e);
	autofree char *text = NULL;
	size_t len;
	int r = dir < 0 ? dir : fd_read_file(dir, KEEP_FILE, 64, &text, &len);

	*ret_ms = 0;
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_errno(e, -r, "read how long the record is kept");
	text[strcspn(text, "\n")] = 0;
	if (!str_parse_u64(text, UINT64_MAX, ret_ms))
		return err_set(e, ERR_INTERNAL, EBADMSG,
			       "audit/" KEEP_FILE
			       " is damaged: say again how long with `cove audit "
			       "keep`");
	return 0;
}

int audit_set_keep(struct state *st, uint64_t ms, struct err *e)
{
	autoclose int dir = audit_dir_open(st, true, e);
	char text[32];
	int n = snprintf(text, sizeof(text), "%" PRIu64 "\n", ms);
	int r = dir < 0 ? dir : fd_write_file(dir, KEEP_FILE, text, (size_t)n, 0600, true);

	return r < 0 && dir >= 0 ? err_errno(e, -r, "keep the record so long") : r;
}
