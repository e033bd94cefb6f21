/*
 * Lines of a file, in a copy of init (work.h).
 *
 * The file is read once, a chunk at a time. A line that is wanted is gathered, cut at its bound,
 * and sent when its end has come, so that no line is ever sent in part for lack of room: but for
 * the first, which is cut. After the last one wanted the rest is read for the number of lines, as
 * far as INIT_COUNT_BYTES. A file is read up to the size it had when it was opened, so that one
 * that grows for ever still ends; one that says it has no size (/proc) as far as INIT_UNSIZED_MAX.
 */
#include "init/work.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, LINES = 2000, TEXT_BYTES = 512 << 10 };

struct lines_read {
	struct work *w;
	uint64_t from, last; /* lines wanted */
	size_t bytes;	     /* of text, still */
	size_t line_max;
	uint64_t line; /* at work, from 1 on */
	char *text;    /* owned; of it, as far as it is wanted, with its end */
	size_t len;
	bool begun;	 /* it has a byte */
	bool is_cut;	 /* not all of it is in text */
	bool full;	 /* no further one is sent */
	uint64_t beyond; /* bytes read since */
};

static int send_line(struct lines_read *r, struct err *e)
{
	struct wire_summary *s = &r->w->summary;
	int result;

	if (r->len > r->bytes) {
		r->full = true;
		if (s->last > 0)
			return 0;
		r->len = r->bytes;
		r->is_cut = true;
	}
	s->first = s->first ? s->first : r->line;
	s->last = r->line;
	s->cut_lines += r->is_cut;
	r->bytes -= r->len;
	result = work_send_text(r->w, r->text, r->len, e);
	return result;
}

static bool is_wanted(const struct lines_read *r)
{
	return !r->full && r->line >= r->from && r->line <= r->last;
}

static int end_line(struct lines_read *r, bool has_newline, struct err *e)
{
	int result = 0;

	if (is_wanted(r)) {
		if (has_newline)
			r->text[r->len++] = '\n';
		result = send_line(r, e);
	}
	r->line++;
	r->len = 0;
	r->begun = r->is_cut = false;
	return result;
}

static void gather(struct lines_read *r, const char *p, size_t n)
{
	size_t room = r->line_max - r->len;

	r->begun = r->begun || n > 0;
	if (!is_wanted(r))
		return;
	r->is_cut = r->is_cut || n > room;
	n = n < room ? n : room;
	memcpy(r->text + r->len, p, n);
	r->len += n;
}

static int take_chunk(struct lines_read *r, const char *p, size_t n, struct err *e)
{
	const char *end = p + n;
	int result = 0;

	while (p < end && result == 0) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));

		gather(r, p, (size_t)((newline ? newline : end) - p));
		if (!newline)
			break;
		result = end_line(r, true, e);
		p = newline + 1;
	}
	if (r->full || r->line > r->last)
		r->beyond += n;
	return result;
}

/* The first chunk holds at least what is looked at, or the whole file. */
static ssize_t read_chunk(int fd, char *p, size_t least, uint64_t left)
{
	size_t max = left < CHUNK ? (size_t)left : CHUNK, got = 0;

	while (got < max) {
		ssize_t n = read(fd, p + got, max - got);

		if (n < 0 && errno == EINTR)
			continue;
		/* Some files of /proc never end but say when there is nothing now. */
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n <= 0)
			break;
		got += (size_t)n;
		if (got >= least)
			break;
	}
	return (ssize_t)got;
}

/* Returns whether the end was reached, or a negative errno. */
static int read_all(struct lines_read *r, int fd, const struct stat *st, struct err *e)
{
	bool unsized = st->st_size <= 0, first = true;
	uint64_t left = unsized ? INIT_UNSIZED_MAX : (uint64_t)st->st_size;
	char chunk[CHUNK];
	int result = 0;

	while (result == 0 && left > 0) {
		ssize_t n = read_chunk(fd, chunk, first ? INIT_SNIFF_BYTES : 1, left);

		if (n < 0)
			return file_error(r->w->op, (int)-n, "read", "", e);
		if (n == 0)
			return 1;
		if (first) {
			size_t seen = n < (ssize_t)INIT_SNIFF_BYTES ? (size_t)n : INIT_SNIFF_BYTES;

			r->w->summary.is_binary =
				work_is_binary(chunk, seen, seen < INIT_SNIFF_BYTES);
			if (r->w->summary.is_binary && !r->w->m->binary)
				return 0;
		}
		first = false;
		left -= (uint64_t)n;
		result = take_chunk(r, chunk, (size_t)n, e);
		if (r->beyond > INIT_COUNT_BYTES)
			return 0;
		if (result == 0 && work_is_late(r->w))
			return r->beyond > 0 ? 0 : work_fail_late(r->w, e);
	}
	return result < 0 ? result : !unsized;
}

int tool_read(struct work *w, struct err *e)
{
	const struct wire_file *m = w->m;
	struct wire_summary *s = &w->summary;
	uint64_t lines = m->count ? m->count : LINES;
	struct lines_read r = {.w = w, .from = m->from ? m->from : 1, .line = 1};
	autoclose int fd = -1;
	struct stat st;
	int result = work_open_file(w, &fd, &st, e);

	if (result < 0)
		return result;
	r.last = lines > UINT64_MAX - r.from ? UINT64_MAX : r.from + lines - 1;
	r.bytes = m->bytes == 0		     ? TEXT_BYTES
		  : m->bytes > INIT_TEXT_MAX ? INIT_TEXT_MAX
					     : (size_t)m->bytes;
	r.line_max = m->line_bytes == 0 || m->line_bytes > INIT_LINE_MAX ? INIT_LINE_MAX
									 : (size_t)m->line_bytes;
	r.text = malloc(r.line_max + 1);
	if (!r.text)
		return err_errno(e, ENOMEM, "read lines");
	s->size = (uint64_t)st.st_size;
	s->mtime_ns = work_mtime_ns(&st);
	s->total = WIRE_UNKNOWN;
	result = read_all(&r, fd, &st, e);
	if (result == 1) {
		result = r.begun ? end_line(&r, false, e) : 0;
		s->total = r.line - 1;
		s->at_end = r.full ? s->last == s->total : r.last >= s->total;
	}
	free(r.text);
	return result < 0 ? result : 0;
}
