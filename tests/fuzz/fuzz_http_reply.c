/*
 * Heads of answers. Whatever the fields say, what was written is one head with just those fields
 * and the framing that was meant, for who reads it strictly; or nothing was written.
 */
#include "fuzz.h"

#include "../unit/http_script.h"
#include "http/reply.h"

#include <errno.h>

enum { FIELDS_MAX = 8, OUT_MAX = 1 << 20 };

/* The fields that the writer adds are not among the caller's. */
static size_t own_fields(const struct http_head *h)
{
	size_t count = 0;

	for (size_t i = 0; i < h->field_count; i++)
		count += http_name_is(h->fields[i].name, "content-length") ||
			 http_name_is(h->fields[i].name, "transfer-encoding") ||
			 http_name_is(h->fields[i].name, "connection");
	return count;
}

static void check_written(const struct http_head *request, const struct http_response *r,
			  const struct http_sent *sent, const struct buf *out)
{
	struct http_head h;
	struct http_body body;
	struct err e = {0};
	size_t used;
	int got = http_response_parse(&h, buf_data(out), buf_len(out), HTTP_TEST_LIMITS, false,
				      &used, &e);

	MUST(got == 1 && used == buf_len(out) && h.status == r->status);
	MUST(own_fields(&h) + r->field_count == h.field_count);
	for (size_t i = 0; i < r->field_count; i++) {
		MUST(strcmp(h.fields[i].name, r->fields[i].name) == 0);
		MUST(strcmp(h.fields[i].value, r->fields[i].value) == 0);
	}
	MUST(http_body_init_response(&body, &h, request ? request->method : "GET", HTTP_TEST_LIMITS,
				     &e) == 0);
	if (r->framing != HTTP_NO_BODY)
		MUST(body.framing == sent->framing);
	else
		MUST(body.ended);
	MUST(body.framing != HTTP_LENGTH || r->framing == HTTP_NO_BODY || body.left == r->length);
	if (h.status != 101)
		MUST(http_keep_alive(&h) == !sent->close);
	http_body_done(&body);
	http_head_done(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const methods[] = {"GET", "HEAD", "POST", "CONNECT"};
	static const unsigned statuses[] = {200, 101, 204, 304, 404, 500, 100, 600};
	struct http_field fields[FIELDS_MAX];
	struct input in = {p, n};
	uint8_t how = input_byte(&in), what = input_byte(&in);
	struct http_head request = {
		.method = methods[how & 3], .target = "/", .minor = how >> 2 & 1};
	struct http_response r = {.status = statuses[what & 7],
				  .framing =
					  (enum http_framing)(how >> 4 & 7) % (HTTP_SWITCHED + 1),
				  .length = what,
				  .close = how >> 3 & 1,
				  .fields = fields};
	char *text = input_text(&in), *next = text, *line;
	struct http_sent sent;
	struct buf out;
	int e;

	/* "name=value" a line. */
	while ((line = strsep(&next, "\n")) && r.field_count < FIELDS_MAX) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value = '\0';
		fields[r.field_count++] = (struct http_field){line, value + 1};
	}
	buf_init(&out, OUT_MAX);
	e = http_response_write(&out, how & 0x80 ? NULL : &request, &r, &sent);
	MUST(e == 0 || (e == -EINVAL && buf_len(&out) == 0));
	if (e == 0)
		check_written(how & 0x80 ? NULL : &request, &r, &sent, &out);
	buf_done(&out);
	free(text);
	return 0;
}
