/*
 * Reading audit logs in order of time; see audit.h.
 *
 * To put rows of many boxes in their order, and what became of a decision beside it, a first pass
 * notes where each row is (a few words per row); a second reads them again in their order.
 */
#include "base/fd.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- where rows are ---- */

struct audit_place {
	uint64_t time_ms, seq, at, done_at;
	uint32_t part, len, done_part, done_len;
	bool keep, is_dropped; /* is_dropped: stands for rows that are not there any more */
};

/* One segment of one log. */
struct part {
	size_t log;
	uint64_t segment;
};

struct places {
	struct audit_place *list; /* owned */
	size_t count, cap;
	struct part *parts; /* owned */
	size_t part_count;
	int logs_fd;	    /* borrowed */
	char *const *names; /* borrowed */
};

static int places_add(struct places *p, const struct audit_place *one)
{
	struct audit_place *grown;
	size_t cap = p->cap ? 2 * p->cap : 256;

	if (p->count == p->cap) {
		grown = reallocarray(p->list, cap, sizeof(*grown));
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

bool audit_row_passes(const struct audit_filter *f, const struct audit_row *row)
{
	if (row->time_ms < f->since_ms)
		return false;
	if (!f->denied_only)
		return true;
	/* What a person forbade is no refusal; what it led to is. */
	return (is_verdict(row, "deny") || is_verdict(row, "cut")) &&
	       strcmp(row->kind, "grant") != 0;
}

/* What became of one: found by its number, since every row of the log has a place. */
static void note_end(struct places *p, size_t first, const struct audit_place *done,
		     const struct audit_row *row, const struct audit_filter *f)
{
	struct audit_place *about;
	uint64_t step;

	if (first == p->count || row->about < p->list[first].seq)
		return;
	step = row->about - p->list[first].seq;
	if (step >= p->count - first)
		return;
	about = &p->list[first + step];
	if (about->seq != row->about)
		return;
	about->done_part = done->part;
	about->done_at = done->at;
	about->done_len = done->len;
	if (is_verdict(row, "cut"))
		about->keep = about->time_ms >= f->since_ms;
}

static int note_segment(struct places *p, int log_fd, size_t first, const struct audit_filter *f)
{
	const struct part *part = &p->parts[p->part_count - 1];
	struct audit_reader reader;
	struct audit_line row;
	int r = audit_reader_open(&reader, log_fd, part->segment, 0);

	while (r == 0 && (r = audit_reader_next(&reader)) > 0) {
		struct audit_place place = {.part = (uint32_t)(p->part_count - 1),
					    .at = reader.line_at,
					    .len = (uint32_t)reader.line_len};

		if (audit_row_parse(&row, reader.line, reader.line_len) == 0) {
			bool is_end = strcmp(row.row.kind, "done") == 0;

			place.seq = row.row.seq;
			place.time_ms = row.row.time_ms;
			place.keep = !is_end && strcmp(row.row.kind, AUDIT_SEGMENT) != 0 &&
				     audit_row_passes(f, &row.row);
			if (is_end)
				note_end(p, first, &place, &row.row, f);
		}
		r = places_add(p, &place);
	}
	audit_reader_close(&reader);
	return r == -ENOENT || r == -EBADMSG ? 0 : r;
}

/* Rows that were dropped are shown as the row that says so, where the others begin. */
static int note_dropped(struct places *p, size_t first, uint64_t rows, const struct audit_filter *f)
{
	struct audit_place place = {.seq = rows, .is_dropped = true, .keep = true};

	if (rows == 0 || first == p->count || f->denied_only)
		return 0;
	place.part = p->list[first].part;
	place.time_ms = p->list[first].time_ms;
	return place.time_ms < f->since_ms ? 0 : places_add(p, &place);
}

static int note_log(struct places *p, size_t log, const struct audit_filter *f)
{
	autoclose int fd = audit_log_open(p->logs_fd, p->names[log]);
	struct audit_segments segments;
	struct audit_chain dropped;
	size_t first = p->count;
	uint64_t from;
	int r = fd < 0 ? fd : audit_segments_find(fd, &segments);

	if (r < 0 || segments.last == 0)
		return r == -ENOENT ? 0 : r;
	/* Of a damaged log all that is there. */
	if (audit_dropped(fd, p->names[log], &segments, &dropped, &from) < 0 ||
	    from < segments.first) {
		from = segments.first;
		dropped.rows = 0;
	}
	for (unsigned i = 0; i < 2 * AUDIT_SEGMENTS && from <= segments.last && r == 0; i++) {
		struct part *grown = reallocarray(p->parts, p->part_count + 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		p->parts = grown;
		p->parts[p->part_count++] = (struct part){log, from++};
		r = note_segment(p, fd, first, f);
	}
	return r < 0 ? r : note_dropped(p, first, dropped.rows, f);
}

static int by_time(const void *a, const void *b)
{
	const struct audit_place *x = a, *y = b;

	if (x->time_ms != y->time_ms)
		return x->time_ms < y->time_ms ? -1 : 1;
	if (x->is_dropped != y->is_dropped)
		return x->is_dropped ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* ---- giving them ---- */

/* A segment that is open; rows that follow each other are mostly of one. */
struct cursor {
	int fd; /* owned, -1 */
	uint32_t part;
};

static int cursor_move(struct cursor *c, const struct places *p, uint32_t part)
{
	autoclose int log = -1;
	char name[24];

	if (c->fd >= 0 && c->part == part)
		return 0;
	fd_close(&c->fd);
	log = audit_log_open(p->logs_fd, p->names[p->parts[part].log]);
	if (log < 0)
		return log;
	audit_segment_name(p->parts[part].segment, name);
	c->fd = openat(log, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	c->part = part;
	return c->fd < 0 ? -errno : 0;
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

/* What became of one; that it did not end well, and why, where it was let through. */
static void take_end(struct audit_row *row, const struct audit_row *done)
{
	bool is_bad = is_verdict(done, "cut") || is_verdict(done, "failed");

	row->bytes_up = done->bytes_up;
	row->bytes_down = done->bytes_down;
	row->duration_ms = done->duration_ms;
	row->status = done->status;
	if (done->address)
		row->address = done->address;
	if (is_bad && is_verdict(row, "allow"))
		row->verdict = done->verdict;
	if (done->reason && (is_bad || !row->reason))
		row->reason = done->reason;
}

struct giving {
	const struct places *places;
	struct cursor row, done;
	audit_on_row *on_row;
	void *arg;
};

static int give_one(struct giving *g, const struct audit_place *p)
{
	const struct places *all = g->places;
	autofree char *line = NULL, *done_line = NULL;
	char box[BOX_NAME_MAX + 1];
	struct audit_line row, done;
	int r;

	if (!audit_box_of(all->names[all->parts[p->part].log], box))
		return 0;
	if (p->is_dropped)
		return g->on_row(
			g->arg, box,
			&(struct audit_row){.kind = "dropped",
					    .time_ms = p->time_ms,
					    .count = p->seq,
					    .reason = "older rows were dropped by rotation"});
	r = cursor_move(&g->row, all, p->part);
	if (r == 0)
		r = read_line(g->row.fd, p->at, p->len, &line, &row);
	if (r == 0 && p->done_len) {
		r = cursor_move(&g->done, all, p->done_part);
		if (r == 0)
			r = read_line(g->done.fd, p->done_at, p->done_len, &done_line, &done);
		if (r == 0)
			take_end(&row.row, &done.row);
	}
	/* Deleted, dropped or changed since the first pass: not there. */
	if (r == -ENOENT || r == -EBADMSG || r == -EIO)
		return 0;
	return r < 0 ? r : g->on_row(g->arg, box, &row.row);
}

static int give_all(struct places *p, audit_on_row *on_row, void *arg)
{
	struct giving g = {.places = p, .row.fd = -1, .done.fd = -1, .on_row = on_row, .arg = arg};
	int r = 0;

	if (p->count > 1)
		qsort(p->list, p->count, sizeof(*p->list), by_time);
	for (size_t i = 0; i < p->count && r == 0; i++)
		if (p->list[i].keep)
			r = give_one(&g, &p->list[i]);
	fd_close(&g.row.fd);
	fd_close(&g.done.fd);
	return r;
}

int audit_read(struct state *st, const struct audit_filter *f, audit_on_row *on_row, void *arg,
	       struct err *e)
{
	autoclose int logs = audit_logs_open(st, false, e);
	struct places places = {.logs_fd = logs};
	char **names = NULL;
	size_t count = 0;
	int r = logs == -ENOENT ? 0 : logs;

	if (r < 0)
		return r;
	if (logs >= 0)
		r = audit_logs_list(logs, f->box, &names, &count);
	places.names = names;
	for (size_t i = 0; i < count && r == 0; i++)
		r = note_log(&places, i, f);
	if (r < 0)
		err_errno(e, -r, "read the audit log");
	else
		r = audit_check_known(st, f->box, count, e);
	if (r == 0)
		r = give_all(&places, on_row, arg);
	free(places.list);
	free(places.parts);
	state_names_free(names, count);
	return r;
}
