/* Protocol scripts for HTTP; see http_script.h. */
#include "http_script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SAID_MAX = 16 << 20 };

struct script {
	const char *method;
	struct buf in; /* of a head that is not whole */
	struct buf *said;
	struct http_body body;
	bool in_body, over;
};

uint64_t http_script_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void say(struct script *s, const char *text)
{
	ASSERT(buf_append_str(s->said, text) == 0);
}

static void refuse(struct script *s, int r, const struct err *e)
{
	ASSERT(r == -EBADMSG && e->kind == ERR_PROTOCOL && e->code >= 400 && e->msg[0]);
	ASSERT(buf_printf(s->said, "refused %d", e->code) == 0);
	s->over = true;
}

static void end_body(struct script *s)
{
	const struct http_head *t = &s->body.trailers;

	say(s, ">");
	for (size_t i = 0; i < t->field_count; i++) {
		say(s, "trailer<");
		say(s, t->fields[i].name);
		say(s, ": ");
		say(s, t->fields[i].value);
		say(s, ">");
	}
	say(s, ".");
	http_body_done(&s->body);
	s->in_body = false;
}

/* Takes what it can of n bytes that follow a head; returns how many. */
static size_t feed_body(struct script *s, const uint8_t *p, size_t n)
{
	const uint8_t *data;
	size_t at = 0, used, len;
	struct err e = {0};
	int r = 0;

	while (r == 0 && (at < n || s->body.ended)) {
		r = http_body_feed(&s->body, p + at, n - at, &used, &data, &len, &e);
		if (r < 0) {
			refuse(s, r, &e);
			return n;
		}
		ASSERT(used <= n - at && (len == 0 || (data >= p + at && data + len <= p + n)));
		ASSERT(r == 1 || used > 0);
		ASSERT(buf_append(s->said, data, len) == 0);
		at += used;
	}
	if (r == 1)
		end_body(s);
	return at;
}

/* The bytes of `in`, in a block of exactly their size, so that a sanitizer sees a step too far. */
static int parse(struct script *s, struct http_head *h, size_t *used, struct err *e)
{
	size_t n = buf_len(&s->in);
	uint8_t *exact = malloc(n ? n : 1);
	int r;

	ASSERT(exact);
	memcpy(exact, buf_data(&s->in), n);
	r = s->method ? http_response_parse(h, exact, n, HTTP_TEST_LIMITS, false, used, e)
		      : http_request_parse(h, exact, n, HTTP_TEST_LIMITS, used, e);
	free(exact);
	return r;
}

static bool feed_head(struct script *s)
{
	struct err e = {0};
	struct http_head h;
	size_t used;
	int r = parse(s, &h, &used, &e);

	if (r < 0)
		refuse(s, r, &e);
	if (r <= 0)
		return false;
	ASSERT(used <= buf_len(&s->in));
	buf_consume(&s->in, used);
	ASSERT(http_head_write(&h, s->said) == 0);
	r = s->method ? http_body_init_response(&s->body, &h, s->method, HTTP_TEST_LIMITS, &e)
		      : http_body_init_request(&s->body, &h, HTTP_TEST_LIMITS, &e);
	http_head_done(&h);
	if (r < 0) {
		refuse(s, r, &e);
		return false;
	}
	say(s, "body<");
	s->in_body = true;
	return true;
}

/* All that `in` and then the pieces hold. */
static void feed(struct script *s, const uint8_t *p, size_t n)
{
	ASSERT(buf_append(&s->in, p, n) == 0);
	while (!s->over) {
		if (s->in_body)
			buf_consume(&s->in, feed_body(s, buf_data(&s->in), buf_len(&s->in)));
		if (s->in_body || s->over)
			return;
		if (!feed_head(s))
			return;
	}
}

static void end(struct script *s)
{
	struct err e = {0};

	if (s->over)
		return;
	if (s->in_body && http_body_close(&s->body, &e) == 0)
		end_body(s);
	else if (s->in_body || buf_len(&s->in) > 0)
		say(s, "cut");
}

void http_script(const void *p, size_t n, const char *method, uint64_t cuts, struct buf *said)
{
	struct script s = {.method = method, .said = said};
	const uint8_t *bytes = p;
	uint64_t state = cuts;

	buf_init(&s.in, SAID_MAX);
	for (size_t at = 0, take; at < n && !s.over; at += take) {
		take = cuts == SCRIPT_WHOLE   ? n
		       : cuts == SCRIPT_BYTES ? 1
					      : 1 + http_script_random(&state) % (1 + n / 4);
		take = take < n - at ? take : n - at;
		feed(&s, bytes + at, take);
	}
	end(&s);
	if (s.in_body)
		http_body_done(&s.body);
	buf_done(&s.in);
}
