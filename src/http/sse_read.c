/* Server-sent events as a client reads them; see sse_read.h. */
#include "http/sse_read.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

void sse_reader_init(struct sse_reader *s, size_t event_max)
{
	*s = (struct sse_reader){0};
	buf_init(&s->line, event_max + SSE_WORD_MAX);
	buf_init(&s->data, event_max);
}

void sse_reader_done(struct sse_reader *s)
{
	buf_done(&s->line);
	buf_done(&s->data);
}

static int refuse(int r, struct err *e)
{
	if (r == -ENOMEM)
		return err_errno(e, ENOMEM, "read the events of an answer");
	return err_set(e, ERR_PROTOCOL, EBADMSG, "an event of the answer is too long, or no text");
}

static bool is_field(const char *line, size_t len, const char *name)
{
	return len == strlen(name) && memcmp(line, name, len) == 0;
}

/* 1: an empty line, and there is an event. */
static int end_line(struct sse_reader *s)
{
	size_t n = buf_len(&s->line), name, skip;
	const char *line = buf_cstr(&s->line), *value;
	int r = 0;

	if (!line)
		return -ENOMEM;
	if (n == 0)
		return s->has_data;
	value = memchr(line, ':', n);
	name = value ? (size_t)(value - line) : n;
	skip = !value ? n : name + 1 + (name + 1 < n && line[name + 1] == ' ');
	value = line + skip;
	if (is_field(line, name, "data")) {
		if (s->has_data)
			r = buf_append(&s->data, "\n", 1);
		if (r == 0)
			r = buf_append(&s->data, value, n - skip);
		s->has_data = true;
	} else if (is_field(line, name, "event") || is_field(line, name, "id")) {
		if (strlen(value) != n - skip ||
		    !str_copy(*line == 'e' ? s->name : s->id, SSE_WORD_MAX, value))
			r = -EBADMSG;
	}
	return r;
}

static int report(struct sse_reader *s, struct sse_event *ret)
{
	const char *data = buf_cstr(&s->data);

	if (!data)
		return -ENOMEM;
	*ret = (struct sse_event){.name = s->name[0] ? s->name : NULL,
				  .id = s->id[0] ? s->id : NULL,
				  .data = data,
				  .len = buf_len(&s->data)};
	s->is_reported = true;
	return 1;
}

int sse_reader_feed(struct sse_reader *s, const void *p, size_t n, size_t *ret_used,
		    struct sse_event *ret, struct err *e)
{
	const char *bytes = p;
	size_t at = 0;
	int r = 0;

	if (s->is_reported) {
		buf_clear(&s->data);
		s->name[0] = 0;
		s->has_data = s->is_reported = false;
	}
	while (r == 0 && at < n) {
		size_t len = 0;

		if (s->after_cr && bytes[at] == '\n')
			at++;
		s->after_cr = false;
		while (at + len < n && bytes[at + len] != '\n' && bytes[at + len] != '\r')
			len++;
		r = buf_append(&s->line, bytes + at, len);
		at += len;
		if (r < 0 || at == n)
			break;
		s->after_cr = bytes[at++] == '\r';
		r = end_line(s);
		if (r == 0 && buf_len(&s->line) == 0)
			s->name[0] = 0;
		buf_clear(&s->line);
	}
	*ret_used = at;
	if (r > 0)
		r = report(s, ret);
	return r < 0 ? refuse(r, e) : r;
}
