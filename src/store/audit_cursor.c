/*
 * An audit log from a place on; see audit.h. Looking whether there is anything new costs one system
 * call, so that many logs can be looked at often.
 */
#include "base/fd.h"
#include "base/str.h"
#include "store/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int audit_logs_dir(struct state *st)
{
	return audit_logs_open(st, false, NULL);
}

bool audit_log_of(int box_fd, char ret[AUDIT_NAME_MAX])
{
	autofree char *known = NULL;

	return fd_read_file(box_fd, AUDIT_MARK, AUDIT_NAME_MAX - 1, &known, NULL) == 0 &&
	       str_copy(ret, AUDIT_NAME_MAX, known);
}

static bool has_more(int logs_fd, const char *log, const struct audit_cursor *p)
{
	char segment[24], path[AUDIT_NAME_MAX + 32];
	struct stat st;

	if (p->segment == 0)
		return true;
	audit_segment_name(p->segment, segment);
	snprintf(path, sizeof(path), "%s/%s", log, segment);
	return fstatat(logs_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	       (uint64_t)st.st_size > p->at || (uint64_t)st.st_size >= AUDIT_SEGMENT_MAX;
}

static int read_segment(int log_fd, const char *box, struct audit_cursor *p, audit_on_row *on_row,
			void *arg)
{
	struct audit_reader reader;
	struct audit_line row;
	int r = audit_reader_open(&reader, log_fd, p->segment, p->at);

	while (r == 0 && (r = audit_reader_next(&reader)) > 0) {
		p->at = reader.line_at + reader.line_len + 1;
		r = 0;
		if (audit_row_parse(&row, reader.line, reader.line_len) < 0)
			continue;
		if (row.row.seq <= p->seq)
			continue;
		p->seq = row.row.seq;
		if (strcmp(row.row.kind, AUDIT_SEGMENT) != 0)
			r = on_row(arg, box, &row.row);
	}
	audit_reader_close(&reader);
	return r == -ENOENT || r == -EBADMSG ? 0 : r;
}

int audit_read_on(int logs_fd, const char *log, struct audit_cursor *p, audit_on_row *on_row,
		  void *arg)
{
	struct audit_segments segments;
	char box[BOX_NAME_MAX + 1];
	autoclose int fd = -1;
	int r;

	if (!audit_box_of(log, box) || !has_more(logs_fd, log, p))
		return 0;
	fd = audit_log_open(logs_fd, log);
	r = fd < 0 ? fd : audit_segments_find(fd, &segments);
	if (r < 0 || segments.last == 0)
		return r == -ENOENT ? 0 : r;
	/* What was dropped shows as a gap in the numbers of its rows. */
	if (p->segment < segments.first) {
		p->segment = segments.first;
		p->at = 0;
	}
	while ((r = read_segment(fd, box, p, on_row, arg)) == 0 && p->segment < segments.last) {
		p->segment++;
		p->at = 0;
	}
	return r;
}

int audit_cursor_end(int logs_fd, const char *log, struct audit_cursor *p)
{
	autoclose int fd = audit_log_open(logs_fd, log);
	struct audit_segments segments;
	char name[24];
	struct stat st;
	int r = fd < 0 ? fd : audit_segments_find(fd, &segments);

	if (r < 0 || segments.last == 0)
		return r == -ENOENT ? 0 : r;
	audit_segment_name(segments.last, name);
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	p->segment = segments.last;
	p->at = (uint64_t)st.st_size;
	return 0;
}
