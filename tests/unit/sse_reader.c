/* A client of server-sent events; see sse_reader.h. Written for the letter of the rules, not for
 * speed. */
#include "sse_reader.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>

enum { READ_MAX = 16 << 20 };

struct reader {
	struct buf name, id, data;
	struct buf *said;
};

static void set(struct buf *b, const uint8_t *p, size_t n)
{
	buf_clear(b);
	ASSERT(buf_append(b, p, n) == 0);
}

static void add(struct buf *b, const struct buf *what, size_t n)
{
	ASSERT(buf_append(b, buf_data(what), n) == 0);
}

static bool is(const uint8_t *p, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(p, name, n) == 0;
}

static void dispatch(struct reader *r)
{
	if (buf_len(&r->data) > 0) {
		add(r->said, &r->name, buf_len(&r->name));
		ASSERT(buf_append_str(r->said, "|") == 0);
		add(r->said, &r->id, buf_len(&r->id));
		ASSERT(buf_append_str(r->said, "|") == 0);
		/* Without the line feed behind the last line. */
		add(r->said, &r->data, buf_len(&r->data) - 1);
		ASSERT(buf_append_str(r->said, ";") == 0);
	}
	buf_clear(&r->data);
	buf_clear(&r->name);
}

static void take_line(struct reader *r, const uint8_t *p, size_t n)
{
	const uint8_t *colon = memchr(p, ':', n), *value = colon ? colon + 1 : p + n;
	size_t name_len = colon ? (size_t)(colon - p) : n;
	size_t len = n - (size_t)(value - p);

	if (n == 0) {
		dispatch(r);
		return;
	}
	if (len > 0 && *value == ' ')
		value++, len--;
	if (is(p, name_len, "event")) {
		set(&r->name, value, len);
	} else if (is(p, name_len, "id") && !memchr(value, 0, len)) {
		set(&r->id, value, len);
	} else if (is(p, name_len, "data")) {
		ASSERT(buf_append(&r->data, value, len) == 0);
		ASSERT(buf_append_str(&r->data, "\n") == 0);
	} else if (is(p, name_len, "retry")) {
		ASSERT(buf_printf(r->said, "retry %.*s;", (int)len, (const char *)value) == 0);
	}
}

void sse_read(const uint8_t *p, size_t n, struct buf *said)
{
	struct reader r = {.said = said};

	buf_init(&r.name, READ_MAX);
	buf_init(&r.id, READ_MAX);
	buf_init(&r.data, READ_MAX);
	for (size_t at = 0; at < n;) {
		size_t end = at;

		while (end < n && p[end] != '\r' && p[end] != '\n')
			end++;
		if (end == n)
			break;
		take_line(&r, p + at, end - at);
		at = end + (p[end] == '\r' && end + 1 < n && p[end + 1] == '\n' ? 2 : 1);
	}
	buf_done(&r.name);
	buf_done(&r.id);
	buf_done(&r.data);
}
