/*
 * Requests and their bodies. However the bytes are cut, the same is understood; what was understood
 * and written again is understood as the same, and is then written as the same bytes.
 */
#include "fuzz.h"

#include "../unit/http_script.h"
#include "http/http.h"

#include <errno.h>
#include <stdio.h>

enum { SAID_MAX = 8 << 20, BYTEWISE_MAX = 512 };

static void same_in_cuts(const uint8_t *p, size_t n, uint64_t seed)
{
	struct buf whole, cut;

	buf_init(&whole, SAID_MAX);
	http_script(p, n, NULL, SCRIPT_WHOLE, &whole);
	for (int i = 0; i < 3; i++) {
		buf_init(&cut, SAID_MAX);
		http_script(p, n, NULL, i == 0 && n <= BYTEWISE_MAX ? SCRIPT_BYTES : seed + 2 + i,
			    &cut);
		must_equal(&whole, &cut);
		buf_done(&cut);
	}
	buf_done(&whole);
}

static void must_be_same_head(const struct http_head *a, const struct http_head *b)
{
	MUST(strcmp(a->method, b->method) == 0 && strcmp(a->target, b->target) == 0);
	MUST(a->field_count == b->field_count && b->minor == 1);
	for (size_t i = 0; i < a->field_count; i++) {
		MUST(strcmp(a->fields[i].name, b->fields[i].name) == 0);
		MUST(strcmp(a->fields[i].value, b->fields[i].value) == 0);
	}
}

/* The target of both, if it has one, is the same and in its one form. */
static void check_target(const struct http_head *h)
{
	struct http_target t, again;
	struct http_head other = *h;
	struct http_field host = {"Host", NULL};
	char text[300];

	if (http_target_parse(h, &t, NULL) < 0 || t.port)
		return;
	snprintf(text, sizeof(text), strchr(t.host, ':') ? "[%s]" : "%s", t.host);
	host.value = text;
	other.method = "GET";
	other.target = "/";
	other.fields = &host;
	other.field_count = 1;
	MUST(http_target_parse(&other, &again, NULL) == 0 && strcmp(t.host, again.host) == 0);
}

/* A request's content with framing of our own; returns false if it does not end. */
static bool write_again(const struct http_head *h, const uint8_t *p, size_t n, struct buf *out)
{
	struct http_body b;
	const uint8_t *data;
	size_t at = 0, used, len;
	int r;

	MUST(http_head_write(h, out) == 0);
	MUST(http_body_init_request(&b, h, HTTP_TEST_LIMITS, NULL) == 0);
	do {
		r = http_body_feed(&b, p + at, n - at, &used, &data, &len, NULL);
		if (r >= 0)
			MUST(http_body_write(b.framing, out, data, len) == 0);
		at += r >= 0 ? used : 0;
	} while (r == 0 && at < n);
	if (r == 1)
		MUST(http_body_write_end(b.framing, &b.trailers, out) == 0);
	http_body_done(&b);
	return r == 1;
}

/* What was accepted is accepted by limits that just allow it, and by no tighter ones. */
static void check_limits(const struct http_head *h, const uint8_t *p, size_t n, size_t used)
{
	struct http_limits tight = {.head_max = used, .fields_max = (unsigned)h->field_count};
	struct http_head again;
	struct err e = {0};
	size_t ignored;

	if (used <= HTTP_HEAD_LEAST)
		return;
	MUST(http_request_parse(&again, p, n, &tight, &ignored, &e) == 1 && ignored == used);
	http_head_done(&again);
	tight.head_max--;
	MUST(http_request_parse(&again, p, n, &tight, &ignored, &e) == -EBADMSG);
	MUST(e.code == 431 || e.code == 414);
	tight.head_max++;
	if (tight.fields_max-- > 0) {
		MUST(http_request_parse(&again, p, n, &tight, &ignored, &e) == -EBADMSG);
		MUST(e.code == 431);
	}
}

/* What decides how a server answers. */
static void check_answers(const struct http_head *h)
{
	struct http_body b;

	MUST(http_body_init_request(&b, h, HTTP_TEST_LIMITS, NULL) == 0);
	if (http_expects_continue(h))
		MUST(h->minor == 1 && !b.ended);
	http_body_done(&b);
	if (http_keep_alive(h))
		MUST(h->minor == 1 || http_head_has_token(h, "connection", "keep-alive"));
	else
		MUST(h->minor == 0 || http_head_has_token(h, "connection", "close"));
}

static void same_when_written(const uint8_t *p, size_t n)
{
	struct http_head h, again;
	struct buf once, twice;
	size_t used;

	if (http_request_parse(&h, p, n, HTTP_TEST_LIMITS, &used, NULL) != 1)
		return;
	check_limits(&h, p, n, used);
	check_answers(&h);
	check_target(&h);
	buf_init(&once, SAID_MAX);
	buf_init(&twice, SAID_MAX);
	/* An old CONNECT without Host is the one head that is not one of HTTP/1.1. */
	if (http_head_find(&h, "host") && h.minor == 1 &&
	    write_again(&h, p + used, n - used, &once)) {
		MUST(http_request_parse(&again, buf_data(&once), buf_len(&once), HTTP_TEST_LIMITS,
					&used, NULL) == 1);
		must_be_same_head(&h, &again);
		MUST(write_again(&again, buf_data(&once) + used, buf_len(&once) - used, &twice));
		must_equal(&once, &twice);
		http_head_strip_hop(&again);
		MUST(http_head_find(&again, "host") && !http_head_find(&again, "connection"));
		http_head_done(&again);
	}
	buf_done(&once);
	buf_done(&twice);
	http_head_done(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint64_t seed = input_byte(&in);

	if (in.n == 0)
		return 0;
	same_in_cuts(in.p, in.n, seed);
	same_when_written(in.p, in.n);
	return 0;
}
