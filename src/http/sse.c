/* Server-sent events; see sse.h. */
#include "http/sse.h"

#include "base/str.h"
#include "http/text.h"

#include <stdio.h>
#include <string.h>

/* The length of the line at p, without its end; *ret_next is behind that, NULL: it was the last. */
static size_t cut_line(const char *p, size_t n, const char **ret_next)
{
	size_t len = 0, end;

	while (len < n && p[len] != '\r' && p[len] != '\n')
		len++;
	end = len < n && p[len] == '\r' && len + 1 < n && p[len + 1] == '\n' ? 2 : 1;
	*ret_next = len < n ? p + len + end : NULL;
	return len;
}

/* Writes n bytes as lines behind a prefix; to NULL: only counts. Returns how long that is. */
static size_t put_lines(uint8_t *to, const char *prefix, const char *p, size_t n)
{
	size_t prefix_len = strlen(prefix), all = 0;
	const char *end = p + n, *next;

	for (; p; p = next) {
		size_t len = cut_line(p, (size_t)(end - p), &next);

		if (to) {
			to = mempcpy(to, prefix, prefix_len);
			to = mempcpy(to, p, len);
			*to++ = '\n';
		}
		all += prefix_len + len + 1;
	}
	return all;
}

static bool is_line(const char *s)
{
	return !s || (!strpbrk(s, "\r\n") && str_is_utf8(s, strlen(s)));
}

int sse_event_write(struct buf *out, const struct sse_event *event)
{
	const char *data = event->len > 0 ? event->data : "";
	size_t name_len = event->name ? strlen(event->name) + strlen("event: \n") : 0;
	size_t id_len = event->id ? strlen(event->id) + strlen("id: \n") : 0, n;
	uint8_t *to;

	if (!is_line(event->name) || !is_line(event->id) || !str_is_utf8(data, event->len))
		return -EINVAL;
	if (event->len > out->max)
		return -ENOBUFS;
	n = name_len + id_len + put_lines(NULL, "data: ", data, event->len) + 1;
	to = buf_reserve(out, n);
	if (!to)
		return http_no_room(out, n);
	if (event->name)
		to += put_lines(to, "event: ", event->name, strlen(event->name));
	if (event->id)
		to += put_lines(to, "id: ", event->id, strlen(event->id));
	to += put_lines(to, "data: ", data, event->len);
	*to = '\n';
	buf_commit(out, n);
	return 0;
}

int sse_comment_write(struct buf *out, const char *text)
{
	size_t len = strlen(text), n;
	uint8_t *to;

	if (!str_is_utf8(text, len))
		return -EINVAL;
	n = put_lines(NULL, ": ", text, len) + 1;
	to = buf_reserve(out, n);
	if (!to)
		return http_no_room(out, n);
	to += put_lines(to, ": ", text, len);
	*to = '\n';
	buf_commit(out, n);
	return 0;
}

int sse_retry_write(struct buf *out, unsigned retry_ms)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "retry: %u\n\n", retry_ms);

	return buf_append(out, line, (size_t)n);
}
