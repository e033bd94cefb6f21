/*
 * Checking audit logs; see audit.h.
 *
 * A log is read once from its oldest segment to its newest, a row at a time. What is wrong up to
 * the row of the head, or in any segment but the last, was done by somebody; what is wrong after
 * that was not durable when the writer ended. Logs may be written, rotated and deleted meanwhile:
 * a complaint counts only if it comes again.
 */
#include "base/fd.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRIES = 3 };

struct check {
	const char *name;
	struct audit_head head;
	struct audit_segments segments;
	struct audit_chain at;
	uint64_t first; /* the row before the first that is kept */
	bool is_cut;
	audit_on_row *on_row; /* may be NULL */
	void *arg;
};

static int wrong(struct err *e, const char *name, uint64_t row, const char *what)
{
	return err_set(e, ERR_CONFLICT, EBADMSG, "audit log %s, row %" PRIu64 ": %s", name, row,
		       what);
}

static bool is_kind(const struct audit_row *row, const char *kind)
{
	return strcmp(row->kind, kind) == 0;
}

static int check_row(struct check *c, uint64_t segment, const struct audit_reader *at,
		     const struct audit_line *line, struct err *e)
{
	uint64_t row = c->at.rows + 1, end = at->line_at + at->line_len + 1;

	if (line->row.seq != row)
		return wrong(e, c->name, row, "is missing, or another stands in its place");
	if (!audit_chain_add(&c->at, line))
		return wrong(e, c->name, row, "does not follow the row before it");
	if (is_kind(&line->row, AUDIT_SEGMENT) != (at->line_at == 0 && segment > 1))
		return wrong(e, c->name, row, "is not where its segment begins");
	if (is_kind(&line->row, "damage"))
		return wrong(e, c->name, row,
			     line->row.reason ? line->row.reason : "rows before it were damaged");
	if (row == c->head.at.rows && (strcmp(c->at.last, c->head.at.last) != 0 ||
				       c->head.segment != segment || c->head.bytes != end))
		return wrong(e, c->name, row, "is another than when the log was last synced");
	return c->on_row ? c->on_row(c->arg, c->name, &line->row) : 0;
}

/* What is no row at the end of the rows: cut short, or was it done? */
static int check_rest(struct check *c, uint64_t segment, struct err *e)
{
	if (segment != c->segments.last || c->at.rows < c->head.at.rows)
		return wrong(e, c->name, c->at.rows + 1, "was changed: its hash is wrong");
	c->is_cut = true;
	return 0;
}

static int check_segment(struct check *c, int log_fd, uint64_t segment, struct err *e)
{
	struct audit_reader reader;
	struct audit_line line;
	bool ends = false;
	int r = audit_reader_open(&reader, log_fd, segment, 0);

	if (r == -ENOENT)
		r = err_set(e, ERR_CONFLICT, EBADMSG, "audit log %s: segment %" PRIu64 " is gone",
			    c->name, segment);
	else if (r < 0)
		r = err_errno(e, -r, "open a segment of the audit log %s", c->name);
	while (r == 0 && !ends) {
		r = audit_reader_next(&reader);
		if (r < 0 && r != -EBADMSG) {
			r = err_errno(e, -r, "read the audit log %s", c->name);
			break;
		}
		ends = r == 0;
		if (r > 0)
			r = audit_row_parse(&line, reader.line, reader.line_len);
		if (r < 0) { /* no row, or a line without an end */
			r = check_rest(c, segment, e);
			break;
		}
		if (!ends)
			r = check_row(c, segment, &reader, &line, e);
		else if (audit_reader_has_rest(&reader))
			r = check_rest(c, segment, e);
	}
	audit_reader_close(&reader);
	return r;
}

/* Where the chain begins: at the log's name, or at the place that the newest segment names. */
static int check_begin(struct check *c, int log_fd, uint64_t *ret_segment, struct err *e)
{
	int r = audit_dropped(log_fd, c->name, &c->segments, &c->at, ret_segment);

	c->first = c->at.rows;
	if (r == -EBADMSG)
		return err_set(e, ERR_CONFLICT, EBADMSG,
			       "audit log %s: the first row of its last segment was changed",
			       c->name);
	if (r == -ENOENT)
		return err_set(e, ERR_CONFLICT, EBADMSG, "audit log %s: segments are gone",
			       c->name);
	return r < 0 ? err_errno(e, -r, "read the audit log %s", c->name) : 0;
}

static int check_log(struct check *c, int log_fd, struct err *e)
{
	uint64_t segment;
	int r = audit_segments_find(log_fd, &c->segments);

	if (r < 0)
		return err_errno(e, -r, "read the audit log %s", c->name);
	r = check_begin(c, log_fd, &segment, e);
	for (; r == 0 && segment <= c->segments.last; segment++)
		r = check_segment(c, log_fd, segment, e);
	if (r == 0 && c->at.rows < c->head.at.rows)
		r = wrong(e, c->name, c->head.at.rows,
			  "was the last one once and is not there any more");
	if (c->is_cut && audit_log_is_written(log_fd))
		c->is_cut = false; /* a row that is being written */
	return r;
}

/* ---- the list ---- */

/* A log as the list has it: the last that was said of it counts. */
struct listed {
	char *name; /* owned */
	uint64_t seq;
	bool is_deleted;
};

struct audit_listing {
	const char *box;
	struct listed *list; /* owned; sorted by name when it was read */
	size_t count, cap;
	bool is_whole; /* it goes back to the first log */
};

static int on_list_row(void *arg, const char *log, const struct audit_row *row)
{
	struct audit_listing *l = arg;
	size_t cap = l->cap ? 2 * l->cap : 64;
	char box[BOX_NAME_MAX + 1];
	struct listed *grown;

	if (!row->host || !audit_box_of(row->host, box) || (l->box && strcmp(l->box, box) != 0))
		return 0;
	if (l->count == l->cap) {
		grown = reallocarray(l->list, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->list = grown;
		l->cap = cap;
	}
	l->list[l->count] = (struct listed){
		.name = strdup(row->host), .seq = row->seq, .is_deleted = is_kind(row, "deleted")};
	return l->list[l->count].name ? (l->count++, 0) : -ENOMEM;
}

static int by_name_and_seq(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Of several rows about one log the last is left. */
static void listing_sort(struct audit_listing *l)
{
	size_t kept = 0;

	if (l->count > 1)
		qsort(l->list, l->count, sizeof(*l->list), by_name_and_seq);
	for (size_t i = 0; i < l->count; i++) {
		if (i + 1 < l->count && strcmp(l->list[i].name, l->list[i + 1].name) == 0)
			free(l->list[i].name);
		else
			l->list[kept++] = l->list[i];
	}
	l->count = kept;
}

static int compare_listed(const void *name, const void *one)
{
	return strcmp(name, ((const struct listed *)one)->name);
}

static int read_list(struct state *st, struct audit_listing *l, struct err *e)
{
	autoclose int dir = audit_dir_open(st, false, e);
	autoclose int fd = dir < 0 ? dir : audit_log_open(dir, AUDIT_LIST);
	struct check c = {.name = AUDIT_LIST, .on_row = on_list_row, .arg = l};
	int r = fd < 0 ? fd : audit_head_read(fd, &c.head);

	l->is_whole = true;
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_errno(e, -fd, "open the list of audit logs");
	if (r == -EBADMSG)
		return wrong(e, AUDIT_LIST, 0, "its head is damaged");
	r = check_log(&c, fd, e);
	l->is_whole = c.first == 0;
	listing_sort(l);
	return r == -ENOMEM ? err_errno(e, ENOMEM, "read the list of audit logs") : r;
}

/* ---- all of them ---- */

static int check_one(int logs_fd, const char *name, const struct audit_listing *l,
		     struct audit_report *report, struct err *e)
{
	autoclose int fd = audit_log_open(logs_fd, name);
	const struct listed *listed =
		l->count ? bsearch(name, l->list, l->count, sizeof(*l->list), compare_listed)
			 : NULL;
	struct check c = {.name = name};
	int h, r;

	/* Deleted since, or a crash came between the row and the deed. */
	if (fd == -ENOENT || (listed && listed->is_deleted))
		return 0;
	h = fd < 0 ? fd : audit_head_read(fd, &c.head);
	if (fd < 0 || (h < 0 && h != -ENOENT && h != -EBADMSG))
		return err_errno(e, -h, "open the audit log %s", name);
	r = check_log(&c, fd, e);
	report->rows += c.at.rows - c.first;
	report->dropped += c.first;
	report->cut += c.is_cut;
	if (r < 0)
		return r;
	/* A log is listed after its head was made, and so is its second segment. */
	if (h == -EBADMSG || (h == -ENOENT && (listed || c.segments.last > 1)))
		return wrong(e, name, c.at.rows,
			     h == -ENOENT ? "has no head: it was removed" : "its head is damaged");
	if (!listed && l->is_whole && c.head.at.rows > 0)
		return err_set(e, ERR_CONFLICT, EBADMSG,
			       "audit log %s was put there: the list of logs does not know it",
			       name);
	return 0;
}

/* A box that has a log has it still. */
static int check_mark(const struct state *st, int logs_fd, const char *box, struct err *e)
{
	char path[BOX_NAME_MAX + sizeof(AUDIT_MARK) + 1], own[BOX_NAME_MAX + 1];
	autofree char *name = NULL;
	struct stat s;

	snprintf(path, sizeof(path), "%.*s/" AUDIT_MARK, (int)BOX_NAME_MAX, box);
	if (fd_read_file(st->boxes_fd, path, AUDIT_NAME_MAX, &name, NULL) < 0 ||
	    !audit_box_of(name, own) || strcmp(own, box) != 0 ||
	    (logs_fd >= 0 && fstatat(logs_fd, name, &s, AT_SYMLINK_NOFOLLOW) == 0))
		return 0;
	return err_set(e, ERR_CONFLICT, EBADMSG,
		       "audit log %s is gone: box '%s' had a door, which wrote it", name, box);
}

static int check_marks(const struct state *st, int logs_fd, const char *box, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = st->boxes_fd < 0 ? 0 : state_names(st->boxes_fd, &names, &count);

	if (r < 0)
		return err_errno(e, -r, "list the boxes");
	for (size_t i = 0; i < count && r == 0; i++)
		if (!box || strcmp(box, names[i]) == 0)
			r = check_mark(st, logs_fd, names[i], e);
	state_names_free(names, count);
	return r;
}

static int verify_once(struct state *st, const char *box, struct audit_report *ret, struct err *e)
{
	autoclose int logs = audit_logs_open(st, false, e);
	struct audit_listing listing = {.box = box};
	struct stat s;
	char **names = NULL;
	size_t count = 0;
	int r = logs == -ENOENT ? 0 : logs;

	*ret = (struct audit_report){0};
	if (r == 0)
		r = check_marks(st, logs, box, e);
	if (logs < 0 || r < 0)
		return r < 0 ? r : audit_check_known(st, box, 0, e);
	r = audit_logs_list(logs, box, &names, &count);
	if (r < 0)
		err_errno(e, -r, "list the audit logs");
	if (r == 0)
		r = read_list(st, &listing, e);
	for (size_t i = 0; i < listing.count && r == 0; i++)
		if (!listing.list[i].is_deleted &&
		    fstatat(logs, listing.list[i].name, &s, AT_SYMLINK_NOFOLLOW) < 0)
			r = err_set(
				e, ERR_CONFLICT, EBADMSG,
				"audit log %s is gone, and nobody deleted it with `cove audit rm`",
				listing.list[i].name);
	for (size_t i = 0; i < count && r == 0; i++)
		r = check_one(logs, names[i], &listing, ret, e);
	state_names_free(names, count);
	for (size_t i = 0; i < listing.count; i++)
		free(listing.list[i].name);
	free(listing.list);
	return r < 0 ? r : audit_check_known(st, box, count, e);
}

int audit_verify(struct state *st, const char *box, struct audit_report *ret, struct err *e)
{
	int r = verify_once(st, box, ret, e);

	for (int i = 1; i < TRIES && r == -EBADMSG; i++)
		r = verify_once(st, box, ret, e);
	return r;
}
