/*
 * Heads, strictly; see http.h.
 *
 * How it works
 *
 * A caller gathers bytes and asks again with all of them, so what is done for a head that is not
 * whole yet is kept small: its first line is looked at, then lines are counted with memchr. Only a
 * whole head is copied, once, and cut up in that copy: NULs go where a colon or a CR was, so the
 * text, the array of fields and nothing else are allocated.
 *
 * The order of the checks is the same for every prefix (first line, then line ends, number and size
 * of lines, then fields, then what they mean together), and each looks only at bytes that are
 * before those the next one looks at, or waits for the whole head. That is why cuts do not matter,
 * not even to the status that is answered.
 */
#include "http/text.h"

#include <stdlib.h>
#include <string.h>

/* Room for what is usually added to a head before it is written. */
enum { EXTRA_FIELDS = 8, EXTRA_TEXT = 512 };

enum head_kind { REQUEST, RESPONSE, SECRET_RESPONSE };

/* The parts of a first line, as offsets from its beginning. */
struct first_line {
	unsigned status, minor;
	size_t method_len, target_len;
	size_t reason, end; /* end: behind its LF */
};

/* Where the lines are, before anything is copied. */
struct lines_found {
	size_t count, end; /* end: behind the empty line */
};

/* The method at p, of which n bytes are there: its length, or negative. */
static int check_method(const char *p, size_t n, struct err *e)
{
	size_t len = 0;

	while (len < n && len <= HTTP_METHOD_MAX && http_is((unsigned char)p[len], HTTP_TOKEN))
		len++;
	if (len > HTTP_METHOD_MAX)
		return http_refuse(e, -EBADMSG, 501, "a method of more than %d bytes",
				   HTTP_METHOD_MAX);
	if (len < n && (len == 0 || p[len] != ' '))
		return http_refuse(e, -EBADMSG, 400, "not an HTTP request");
	return (int)len;
}

/* n bytes without the line's end. */
static int check_request_line(const char *p, size_t n, struct first_line *ret, struct err *e)
{
	int len = check_method(p, n, e);
	size_t at;

	if (len < 0)
		return len;
	ret->method_len = (size_t)len;
	if (ret->method_len == n)
		return http_refuse(e, -EBADMSG, 400, "a request line without a target");
	if (http_token_is(p, ret->method_len, "TRACE") ||
	    http_token_is(p, ret->method_len, "TRACK"))
		return http_refuse(e, -EBADMSG, 501, "TRACE would echo what was added");
	at = ret->method_len + 1;
	while (at < n && http_is((unsigned char)p[at], HTTP_VISIBLE))
		at++;
	ret->target_len = at - ret->method_len - 1;
	if (ret->target_len == 0 || at == n || p[at] != ' ')
		return http_refuse(e, -EBADMSG, 400, "a bad byte or space in the request line");
	p += at + 1;
	n -= at + 1;
	if (n != 8 || memcmp(p, "HTTP/", 5) != 0 || p[5] < '0' || p[5] > '9' || p[6] != '.' ||
	    p[7] < '0' || p[7] > '9')
		return http_refuse(e, -EBADMSG, 400, "a request line without a version");
	if (p[5] != '1' || p[7] > '1')
		return http_refuse(e, -EBADMSG, 505, "only HTTP/1.0 and HTTP/1.1 are spoken");
	ret->minor = (unsigned)(p[7] - '0');
	return 0;
}

static int check_status_line(const char *p, size_t n, struct first_line *ret, struct err *e)
{
	size_t seen = n < 7 ? n : 7;

	if (memcmp(p, "HTTP/1.", seen) != 0)
		return http_refuse(e, -EBADMSG, 502, "not an HTTP/1 response");
	if (n < 12 || (p[7] != '0' && p[7] != '1') || p[8] != ' ')
		return http_refuse(e, -EBADMSG, 502, "a bad status line");
	for (int i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return http_refuse(e, -EBADMSG, 502, "a status that is not a number");
		ret->status = ret->status * 10 + (unsigned)(p[i] - '0');
	}
	if (ret->status < 100 || ret->status > 599 || (n > 12 && p[12] != ' '))
		return http_refuse(e, -EBADMSG, 502, "a bad status");
	ret->minor = (unsigned)(p[7] - '0');
	ret->reason = n > 12 ? 13 : 12;
	if (!http_value_ok(p + ret->reason, n - ret->reason))
		return http_refuse(e, -EBADMSG, 502, "a control byte in the status line");
	return 0;
}

/* 1 when the first line is whole and good, 0 when more is needed. max is not 0: there cannot be
 * more, since that many bytes are the limit. */
static int find_first_line(const char *p, size_t n, bool request, size_t max,
			   struct first_line *ret, struct err *e)
{
	const char *eol = memchr(p, '\n', n);
	size_t len;
	int r = 0;

	if (!eol) { /* what has come of a line that is not whole */
		if (request)
			r = check_method(p, n, e);
		else if (memcmp(p, "HTTP/1.", n < 7 ? n : 7) != 0)
			r = http_refuse(e, -EBADMSG, 502, "not an HTTP/1 response");
		if (r < 0 || max == 0)
			return r < 0 ? r : 0;
		return http_refuse(e, -EBADMSG, request ? 414 : 502,
				   "a first line of more than %zu bytes", max);
	}
	len = (size_t)(eol - p);
	ret->end = len + 1;
	/* A bare LF must be seen as late as a first line that is wrong before it. */
	if (len > 0 && eol[-1] == '\r')
		len--;
	r = request ? check_request_line(p, len, ret, e) : check_status_line(p, len, ret, e);
	if (r < 0)
		return r;
	if (len == ret->end - 1)
		return http_refuse(e, -EBADMSG, request ? 400 : 502,
				   "a line that ends in a bare LF");
	return 1;
}

/* 1 when the empty line was found, 0 when more is needed. ret->end is behind the first line. */
static int find_lines(const char *p, size_t n, unsigned fields_max, int status,
		      struct lines_found *ret, struct err *e)
{
	size_t at = ret->end;

	for (;;) {
		const char *eol = memchr(p + at, '\n', n - at);
		size_t len;

		if (!eol)
			return 0;
		len = (size_t)(eol - p) - at;
		if (len == 0 || eol[-1] != '\r')
			return http_refuse(e, -EBADMSG, status == 431 ? 400 : status,
					   "a line that ends in a bare LF");
		at += len + 1;
		if (len == 1) {
			ret->end = at;
			return 1;
		}
		if (++ret->count > fields_max)
			return http_refuse(e, -EBADMSG, status, "more than %u fields", fields_max);
	}
}

/* What the fields mean together. */
static int check_request(const struct http_head *h, struct err *e)
{
	size_t hosts = http_head_count(h, "host");
	const char *expect = http_head_find(h, "expect");
	bool connect = strcmp(h->method, "CONNECT") == 0;
	struct http_framed framed;
	int r;

	if (hosts > 1)
		return http_refuse(e, -EBADMSG, 400, "more than one Host");
	if (hosts == 0 && !(connect && h->minor == 0))
		return http_refuse(e, -EBADMSG, 400, "no Host");
	r = http_framing_find(h, &framed, e);
	if (r < 0)
		return r;
	if (connect && (framed.chunked || framed.length > 0))
		return http_refuse(e, -EBADMSG, 400, "a CONNECT with a body");
	if (expect && (!http_name_is(expect, "100-continue") || http_head_count(h, "expect") > 1))
		return http_refuse(e, -EBADMSG, 417, "an expectation that is not 100-continue");
	if (expect && (h->minor == 0 || (!framed.chunked && !framed.has_length)))
		return http_refuse(e, -EBADMSG, 417, "100-continue without a body");
	return 0;
}

/* Copies the head at p, without its empty line, and cuts it up. */
static int cut_up(struct http_head *h, const char *p, const struct first_line *first,
		  const struct lines_found *lines, struct err *e)
{
	size_t n = lines->end - 2;
	struct http_framed framed;
	char *text;
	int r = http_head_reserve(h, lines->count + EXTRA_FIELDS, n + EXTRA_TEXT);

	if (r < 0)
		return http_refuse(e, r, 500, "no memory for a head");
	text = h->text;
	memcpy(text, p, n);
	h->text_len = n;
	h->minor = first->minor;
	h->status = first->status;
	text[first->end - 2] = '\0';
	if (first->status) {
		h->reason = text + first->reason;
	} else {
		h->method = text;
		text[first->method_len] = '\0';
		h->target = text + first->method_len + 1;
		text[first->method_len + 1 + first->target_len] = '\0';
	}
	r = http_fields_parse(h, text + first->end, n - first->end, first->status ? 502 : 400, e);
	if (r < 0)
		return r;
	if (!first->status)
		return check_request(h, e);
	r = http_framing_find(h, &framed, e);
	if (r < 0)
		return r;
	if ((h->status < 200 || h->status == 204) && (framed.chunked || framed.length > 0))
		return http_refuse(e, -EBADMSG, 502, "a body in a response that has none");
	return 0;
}

static int parse(struct http_head *ret, const char *p, size_t n, const struct http_limits *limits,
		 enum head_kind kind, size_t *ret_used, struct err *e)
{
	struct http_head h = {.is_secret = kind == SECRET_RESPONSE};
	bool request = kind == REQUEST;
	size_t max = limits->head_max, all = n < max ? n : max, skip = 0;
	bool full = n >= max;
	int status = request ? 431 : 502, r;
	struct lines_found lines = {0};
	struct first_line first = {0};

	ASSERT(max >= HTTP_HEAD_LEAST);
	if (request && all >= 1 && p[0] == '\r') {
		if (all == 1)
			return 0;
		skip = p[1] == '\n' ? 2 : 0;
	}
	if (all == skip)
		return 0;
	r = find_first_line(p + skip, all - skip, request, full ? max : 0, &first, e);
	if (r <= 0)
		return r;
	lines.end = first.end;
	r = find_lines(p + skip, all - skip, limits->fields_max, status, &lines, e);
	if (r == 0 && full)
		return http_refuse(e, -EBADMSG, status, "a head of more than %zu bytes", max);
	if (r <= 0)
		return r;
	r = cut_up(&h, p + skip, &first, &lines, e);
	if (r < 0) {
		http_head_done(&h);
		return r;
	}
	*ret = h;
	*ret_used = skip + lines.end;
	return 1;
}

int http_request_parse(struct http_head *ret, const void *p, size_t n,
		       const struct http_limits *limits, size_t *ret_used, struct err *e)
{
	return parse(ret, p, n, limits, REQUEST, ret_used, e);
}

int http_response_parse(struct http_head *ret, const void *p, size_t n,
			const struct http_limits *limits, bool is_secret, size_t *ret_used,
			struct err *e)
{
	return parse(ret, p, n, limits, is_secret ? SECRET_RESPONSE : RESPONSE, ret_used, e);
}

bool http_keep_alive(const struct http_head *h)
{
	if (http_head_has_token(h, "connection", "close"))
		return false;
	return h->minor > 0 || http_head_has_token(h, "connection", "keep-alive");
}

bool http_expects_continue(const struct http_head *h)
{
	const char *expect = http_head_find(h, "expect");
	struct http_framed framed;

	return h->minor > 0 && expect && http_name_is(expect, "100-continue") &&
	       http_framing_find(h, &framed, NULL) == 0 && (framed.chunked || framed.length > 0);
}

int http_continue_write(struct buf *out)
{
	return buf_append_str(out, "HTTP/1.1 100 Continue\r\n\r\n");
}

void http_head_done(struct http_head *h)
{
	http_text_free(h);
	free(h->fields);
	*h = (struct http_head){0};
}

int http_head_write(const struct http_head *h, struct buf *out)
{
	const char *reason = h->reason ? h->reason : "";
	size_t n = http_fields_size(h) + 2;
	uint8_t *start, *to;

	if (h->status)
		n += strlen("HTTP/1.1 200 \r\n") + strlen(reason);
	else
		n += strlen(h->method) + strlen(h->target) + strlen("  HTTP/1.1\r\n");
	start = buf_reserve(out, n);
	if (!start)
		return http_no_room(out, n);
	to = start;
	if (h->status) {
		to = mempcpy(to, "HTTP/1.1 ", 9);
		*to++ = (uint8_t)('0' + h->status / 100 % 10);
		*to++ = (uint8_t)('0' + h->status / 10 % 10);
		*to++ = (uint8_t)('0' + h->status % 10);
		*to++ = ' ';
		to = mempcpy(to, reason, strlen(reason));
	} else {
		to = mempcpy(to, h->method, strlen(h->method));
		*to++ = ' ';
		to = mempcpy(to, h->target, strlen(h->target));
		to = mempcpy(to, " HTTP/1.1", 9);
	}
	to = mempcpy(to, "\r\n", 2);
	to = http_fields_write(h, to);
	to = mempcpy(to, "\r\n", 2);
	ASSERT((size_t)(to - start) == n);
	buf_commit(out, n);
	return 0;
}
