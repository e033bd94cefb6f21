/*
 * Server-sent events. What a client reads is what was meant: one event with that name, id and data,
 * the ends of its lines made one, between two that it cannot touch; comments are nothing.
 */
#include "fuzz.h"

#include "../unit/sse_reader.h"
#include "base/str.h"
#include "http/sse.h"

#include <errno.h>

enum { ROOM = 16 << 20 };

/* CR LF and CR as LF. */
static void append_lines(struct buf *to, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' && i > 0 && p[i - 1] == '\r')
			continue;
		MUST(buf_append(to, p[i] == '\r' ? "\n" : (const char *)p + i, 1) == 0);
	}
}

static bool is_line(const char *s)
{
	return !s || (!strchr(s, '\r') && !strchr(s, '\n') && str_is_utf8(s, strlen(s)));
}

/* name or id NULL: none. */
static void check_event(const char *name, const char *id, const uint8_t *p, size_t n)
{
	struct sse_event event = {name, id, (const char *)p, n}, mark = {"m", NULL, "!", 1};
	struct buf out, said, want;
	int r;

	buf_init(&out, ROOM);
	buf_init(&said, ROOM);
	buf_init(&want, ROOM);
	MUST(sse_event_write(&out, &mark) == 0);
	r = sse_event_write(&out, &event);
	MUST(r == (is_line(name) && is_line(id) && str_is_utf8(p, n) ? 0 : -EINVAL));
	MUST(sse_event_write(&out, &mark) == 0);
	MUST(buf_append_str(&want, "m||!;") == 0);
	if (r == 0) {
		MUST(buf_printf(&want, "%s|%s|", name ? name : "", id ? id : "") == 0);
		append_lines(&want, p, n);
		MUST(buf_append_str(&want, ";") == 0);
	}
	MUST(buf_printf(&want, "m|%s|!;", r == 0 && id ? id : "") == 0);
	sse_read(buf_data(&out), buf_len(&out), &said);
	must_equal(&want, &said);
	buf_done(&out);
	buf_done(&said);
	buf_done(&want);
}

static void check_comment(const char *text)
{
	struct buf out, said;

	buf_init(&out, ROOM);
	buf_init(&said, ROOM);
	MUST(sse_comment_write(&out, text) == (str_is_utf8(text, strlen(text)) ? 0 : -EINVAL));
	sse_read(buf_data(&out), buf_len(&out), &said);
	MUST(buf_len(&said) == 0);
	buf_done(&out);
	buf_done(&said);
}

/* "name NUL id NUL data"; the first byte says which are there. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t how = input_byte(&in);
	char *name = input_text(&in), *id;
	size_t len = strlen(name);

	in.p += len < in.n ? len + 1 : in.n;
	in.n -= len < in.n ? len + 1 : in.n;
	id = input_text(&in);
	len = strlen(id);
	in.p += len < in.n ? len + 1 : in.n;
	in.n -= len < in.n ? len + 1 : in.n;
	check_event(how & 1 ? name : NULL, how & 2 ? id : NULL, in.p, in.n);
	check_comment(name);
	free(name);
	free(id);
	return 0;
}
