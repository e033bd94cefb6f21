/*
 * Heads that a reverse proxy passes on. Whatever was accepted comes out as a head that reads back
 * strictly, framed once and as was meant, with one Host, and without what is the proxy's to say;
 * an answer sets no cookie for another name, and none that is the proxy's.
 */
#include "fuzz.h"

#include "../unit/http_script.h"
#include "http/cookie.h"
#include "http/forward.h"

static const struct http_limits more = {1 << 20, 300};

static bool has(const struct http_head *h, const char *name, size_t count)
{
	return http_head_count(h, name) == count;
}

static void check_request(const struct http_head *from)
{
	const struct http_hop hop = {.target = "/t",
				     .host = "localhost:1",
				     .client = "192.0.2.1",
				     .scheme = "https",
				     .asked = "a.example",
				     .framing = HTTP_LENGTH,
				     .length = 7};
	struct http_head to, back;
	struct http_body body;
	struct err e = {0};
	struct buf out;
	size_t used;

	buf_init(&out, 1 << 20);
	MUST(http_forward_request(from, &hop, &to) == 0);
	MUST(http_head_write(&to, &out) == 0);
	MUST(http_request_parse(&back, buf_data(&out), buf_len(&out), &more, &used, &e) == 1);
	MUST(used == buf_len(&out) && strcmp(back.method, from->method) == 0);
	MUST(has(&back, "host", 1) && has(&back, "content-length", 1) && has(&back, "expect", 0));
	MUST(has(&back, "transfer-encoding", 0) && has(&back, "x-forwarded-for", 1));
	MUST(has(&back, "forwarded", 1) && has(&back, "via", 0) && has(&back, "connection", 1));
	MUST(http_body_init_request(&body, &back, &more, &e) == 0 && body.left == 7);
	http_body_done(&body);
	http_head_done(&back);
	http_head_done(&to);
	buf_done(&out);
}

static void check_answer(const struct http_head *from, enum http_site site)
{
	static const char *const own[] = {"mine", NULL};
	struct http_head to;

	MUST(http_forward_answer(from, site, own, &to) == 0);
	MUST(has(&to, "content-length", 0) && has(&to, "transfer-encoding", 0));
	MUST(has(&to, "connection", 0) && has(&to, "clear-site-data", 0));
	MUST(site == HTTP_SITE_OWN || has(&to, "set-cookie", 0));
	for (size_t i = 0; i < to.field_count; i++) {
		if (!http_name_is(to.fields[i].name, "set-cookie"))
			continue;
		MUST(!http_set_cookie_is(to.fields[i].value, "mine"));
		for (const char *p = strchr(to.fields[i].value, ';'); p; p = strchr(p + 1, ';'))
			MUST(strncasecmp(p, "; domain", 8) != 0 ||
			     !strchr("=;", p[8] ? p[8] : ';'));
	}
	http_head_done(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct http_head h;
	struct err e;
	size_t used;

	if (n > 0 && http_request_parse(&h, p, n, HTTP_TEST_LIMITS, &used, &e) > 0) {
		check_request(&h);
		http_head_done(&h);
	}
	if (n > 0 && http_response_parse(&h, p, n, HTTP_TEST_LIMITS, false, &used, &e) > 0) {
		check_answer(&h, HTTP_SITE_OWN);
		check_answer(&h, HTTP_SITE_SHARED);
		http_head_done(&h);
	}
	return 0;
}
