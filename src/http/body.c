/*
 * Bodies: how they are framed, taking the framing off, putting it on again; see http.h.
 *
 * How it works
 *
 * feed() walks through framing until it meets content and returns that as a range of the caller's
 * own bytes; nothing but trailers is ever copied. A chunked body's states:
 *
 *	SIZE -> [EXT] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *	SIZE (0) -> SIZE_LF -> TRAILERS -> ended
 *
 * A size has at most 16 digits, an extension at most HTTP_EXT_MAX bytes, trailers together what the
 * caller's limits allow to a head.
 */
#include "http/text.h"

#include "base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE, EXT, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILERS };
enum { SIZE_DIGITS_MAX = 16, LENGTH_DIGITS_MAX = 19 };
#define LENGTH_MAX ((uint64_t)1 << 62)

/* Plain digits without a zero before them, which some would read as octal. */
static bool parse_length(const char *s, uint64_t *ret)
{
	uint64_t n = 0;
	size_t len;

	for (len = 0; s[len] >= '0' && s[len] <= '9' && len < LENGTH_DIGITS_MAX; len++)
		n = n * 10 + (uint64_t)(s[len] - '0');
	if (len == 0 || s[len] || (s[0] == '0' && len > 1) || n > LENGTH_MAX)
		return false;
	*ret = n;
	return true;
}

int http_framing_find(const struct http_head *h, struct http_framed *ret, struct err *e)
{
	static const char length[] = "content-length", coding[] = "transfer-encoding";
	struct http_framed f = {0};
	int bad = h->status ? 502 : 400;

	for (size_t i = 0; i < h->field_count; i++) {
		const char *name = h->fields[i].name, *value = h->fields[i].value;

		if (http_name_is(name, coding)) {
			if (f.chunked)
				return http_refuse(e, -EBADMSG, bad,
						   "more than one Transfer-Encoding");
			if (h->minor == 0)
				return http_refuse(e, -EBADMSG, bad,
						   "Transfer-Encoding in HTTP/1.0");
			if (!http_name_is(value, "chunked"))
				return http_refuse(e, -EBADMSG, h->status ? 502 : 501,
						   "a transfer coding that is not chunked");
			f.chunked = true;
		} else if (http_name_is(name, length)) {
			if (f.has_length)
				return http_refuse(e, -EBADMSG, bad,
						   "more than one Content-Length");
			if (!parse_length(value, &f.length))
				return http_refuse(e, -EBADMSG, bad,
						   "a Content-Length that is not a plain number");
			f.has_length = true;
		} else if (http_name_like(name, coding) || http_name_like(name, length)) {
			return http_refuse(e, -EBADMSG, bad, "a field that passes for another: %s",
					   name);
		}
	}
	if (f.chunked && f.has_length)
		return http_refuse(e, -EBADMSG, bad, "Content-Length and Transfer-Encoding");
	*ret = f;
	return 0;
}

static void set_framing(struct http_body *b, enum http_framing framing, uint64_t length,
			const struct http_limits *limits)
{
	*b = (struct http_body){.framing = framing,
				.left = length,
				.state = SIZE,
				.trailers_max = limits->fields_max};
	if (framing == HTTP_CHUNKED)
		b->left = 0;
	b->ended = framing == HTTP_NO_BODY || (framing == HTTP_LENGTH && length == 0);
	buf_init(&b->line, limits->head_max);
}

int http_body_init_request(struct http_body *b, const struct http_head *h,
			   const struct http_limits *limits, struct err *e)
{
	struct http_framed f;
	int r = http_framing_find(h, &f, e);

	if (r < 0)
		return r;
	set_framing(b,
		    f.chunked	   ? HTTP_CHUNKED
		    : f.has_length ? HTTP_LENGTH
				   : HTTP_NO_BODY,
		    f.length, limits);
	return 0;
}

int http_body_init_response(struct http_body *b, const struct http_head *h, const char *method,
			    const struct http_limits *limits, struct err *e)
{
	bool connected = strcmp(method, "CONNECT") == 0 && h->status / 100 == 2;
	struct http_framed f;
	int r = http_framing_find(h, &f, e);

	if (r < 0)
		return r;
	if (connected && (f.chunked || f.length > 0))
		return http_refuse(e, -EBADMSG, 502, "a body in the answer to a CONNECT");
	if (connected || h->status == 101)
		set_framing(b, HTTP_SWITCHED, 0, limits);
	else if (strcmp(method, "HEAD") == 0 || h->status < 200 || h->status == 204 ||
		 h->status == 304)
		set_framing(b, HTTP_NO_BODY, 0, limits);
	else
		set_framing(b,
			    f.chunked	   ? HTTP_CHUNKED
			    : f.has_length ? HTTP_LENGTH
					   : HTTP_UNTIL_CLOSE,
			    f.length, limits);
	return 0;
}

void http_body_done(struct http_body *b)
{
	if (b->line.data)
		explicit_bzero(b->line.data, b->line.cap);
	buf_done(&b->line);
	http_head_done(&b->trailers);
}

void http_body_set_secret(struct http_body *b)
{
	/* Both are empty yet, so that there is nothing to move. */
	(void)buf_set_secret(&b->line, true);
	b->trailers.is_secret = true;
}

/* Fields that decide about framing, routing or who asks have no place after a body: who merges them
 * into the head would read another message than was judged. */
static bool may_trail(const char *name)
{
	static const char *const refused[] = {
		/* framing */
		"transfer-encoding", "content-length", "connection", "keep-alive", "te", "trailer",
		"upgrade", "expect", "content-encoding", "content-type", "content-range", "range",
		/* routing, and who asks */
		"host", "max-forwards", "proxy", "proxy-connection", "location", "cache-control",
		"authorization", "proxy-authorization", "www-authenticate", "proxy-authenticate",
		"cookie", "set-cookie", NULL};

	return !http_name_among(name, refused);
}

/* b->line holds all lines of the trailers and the empty one. */
static int parse_trailers(struct http_body *b, struct err *e)
{
	size_t n = buf_len(&b->line) - 2;
	struct http_head *t = &b->trailers;
	int r = http_head_reserve(t, b->count, n + 1);

	if (r < 0)
		return http_refuse(e, r, 500, "no memory for trailers");
	memcpy(t->text, buf_data(&b->line), n);
	t->text_len = n;
	r = http_fields_parse(t, t->text, n, 400, e);
	for (size_t i = 0; i < t->field_count && r == 0; i++) {
		if (!may_trail(t->fields[i].name))
			r = http_refuse(e, -EBADMSG, 400, "%s in trailers", t->fields[i].name);
	}
	if (r < 0)
		return r;
	buf_clear(&b->line);
	b->ended = true;
	return 0;
}

/* Takes bytes up to the end of a line, or all. */
static int take_trailer(struct http_body *b, const uint8_t *p, size_t n, size_t *ret_used,
			struct err *e)
{
	const uint8_t *lf = memchr(p, '\n', n), *line;
	size_t take = lf ? (size_t)(lf - p) + 1 : n, len;

	if (buf_append(&b->line, p, take) < 0)
		return http_refuse(e, -EBADMSG, 431, "trailers of more than %zu bytes",
				   b->line.max);
	*ret_used = take;
	if (!lf)
		return 0;
	line = buf_data(&b->line);
	len = buf_len(&b->line);
	if (len < 2 || line[len - 2] != '\r')
		return http_refuse(e, -EBADMSG, 400, "a line that ends in a bare LF");
	if (len == 2 || line[len - 3] == '\n')
		return parse_trailers(b, e);
	if (++b->count > b->trailers_max)
		return http_refuse(e, -EBADMSG, 431, "more than %u trailers", b->trailers_max);
	return 0;
}

/* One byte of a chunk's size or of the extension behind it. */
static int take_size(struct http_body *b, uint8_t c, struct err *e)
{
	int digit = http_hex(c);

	if (b->state == EXT) {
		if (c == '\r') {
			b->state = SIZE_LF;
			return 0;
		}
		if (!http_value_ok((const char *)&c, 1) || ++b->count > HTTP_EXT_MAX)
			return http_refuse(e, -EBADMSG, 400, "a bad extension of a chunk");
		return 0;
	}
	if (digit >= 0) {
		b->left = b->left << 4 | (unsigned)digit;
		if (++b->count > SIZE_DIGITS_MAX || b->left > LENGTH_MAX)
			return http_refuse(e, -EBADMSG, 400, "a chunk that is too large");
		return 0;
	}
	if (b->count == 0 || (c != '\r' && c != ';'))
		return http_refuse(e, -EBADMSG, 400, "a chunk's size that is not a plain number");
	b->state = c == ';' ? EXT : SIZE_LF;
	b->count = 0;
	return 0;
}

/* One byte of framing, but for trailers. */
static int take_framing(struct http_body *b, uint8_t c, struct err *e)
{
	switch (b->state) {
	case SIZE:
	case EXT:
		return take_size(b, c, e);
	case SIZE_LF:
		b->state = b->left ? DATA : TRAILERS;
		b->count = 0;
		break;
	case DATA_CR:
		if (c != '\r')
			return http_refuse(e, -EBADMSG, 400, "a chunk longer than its size");
		b->state = DATA_LF;
		return 0;
	case DATA_LF:
		b->state = SIZE;
		b->count = 0;
		break;
	}
	if (c != '\n')
		return http_refuse(e, -EBADMSG, 400, "a bare CR between chunks");
	return 0;
}

int http_body_feed(struct http_body *b, const void *p, size_t n, size_t *ret_used,
		   const uint8_t **ret_data, size_t *ret_len, struct err *e)
{
	size_t used = 0, take = 0;
	int r;

	*ret_used = 0;
	*ret_data = NULL;
	*ret_len = 0;
	if (b->ended)
		return 1;
	/* Framing is eaten until content is next, the body has ended, or there is no more. */
	for (; b->framing == HTTP_CHUNKED && used < n && b->state != DATA && !b->ended;
	     used += take) {
		take = 1;
		if (b->state == TRAILERS)
			r = take_trailer(b, (const uint8_t *)p + used, n - used, &take, e);
		else
			r = take_framing(b, ((const uint8_t *)p)[used], e);
		if (r < 0)
			return r;
	}
	take = b->ended ? 0 : n - used;
	if ((b->framing == HTTP_CHUNKED || b->framing == HTTP_LENGTH) && take > b->left)
		take = (size_t)b->left;
	if (b->framing == HTTP_CHUNKED || b->framing == HTTP_LENGTH)
		b->left -= take;
	if (take > 0) {
		*ret_data = (const uint8_t *)p + used;
		*ret_len = take;
		if (b->framing == HTTP_CHUNKED && b->left == 0)
			b->state = DATA_CR;
		b->ended = b->framing == HTTP_LENGTH && b->left == 0;
	}
	*ret_used = used + take;
	return b->ended;
}

int http_body_close(struct http_body *b, struct err *e)
{
	if (b->framing == HTTP_UNTIL_CLOSE || b->framing == HTTP_SWITCHED)
		b->ended = true;
	if (!b->ended)
		return http_refuse(e, -EBADMSG, 400, "the connection ended within a body");
	return 0;
}

int http_body_write(enum http_framing framing, struct buf *out, const void *p, size_t n)
{
	char size[24];
	size_t len;
	uint8_t *to;

	if (n == 0)
		return 0;
	if (framing == HTTP_NO_BODY)
		return -EINVAL;
	if (framing != HTTP_CHUNKED)
		return buf_append(out, p, n);
	len = (size_t)snprintf(size, sizeof(size), "%zx\r\n", n);
	to = buf_reserve(out, n + len + 2);
	if (!to)
		return http_no_room(out, n + len + 2);
	to = mempcpy(to, size, len);
	to = mempcpy(to, p, n);
	memcpy(to, "\r\n", 2);
	buf_commit(out, n + len + 2);
	return 0;
}

int http_body_write_end(enum http_framing framing, const struct http_head *trailers,
			struct buf *out)
{
	size_t n = 5 + (trailers ? http_fields_size(trailers) : 0);
	uint8_t *to;

	if (framing != HTTP_CHUNKED)
		return 0;
	to = buf_reserve(out, n);
	if (!to)
		return http_no_room(out, n);
	to = mempcpy(to, "0\r\n", 3);
	if (trailers)
		to = http_fields_write(trailers, to);
	memcpy(to, "\r\n", 2);
	buf_commit(out, n);
	return 0;
}
