/* Heads of answers; see reply.h. */
#include "http/reply.h"

#include "http/text.h"

#include <stdio.h>
#include <string.h>

enum { OWN_FIELDS = 2, USUAL_TEXT = 512 };

const char *http_reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *reason;
	} known[] = {
		{100, "Continue"},
		{101, "Switching Protocols"},
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{206, "Partial Content"},
		{207, "Multi-Status"},
		{301, "Moved Permanently"},
		{302, "Found"},
		{303, "See Other"},
		{304, "Not Modified"},
		{307, "Temporary Redirect"},
		{308, "Permanent Redirect"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{402, "Payment Required"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{406, "Not Acceptable"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{411, "Length Required"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{417, "Expectation Failed"},
		{421, "Misdirected Request"},
		{422, "Unprocessable Content"},
		{423, "Locked"},
		{424, "Failed Dependency"},
		{425, "Too Early"},
		{426, "Upgrade Required"},
		{428, "Precondition Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{499, "Client Closed Request"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{502, "Bad Gateway"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
		{507, "Insufficient Storage"},
		{511, "Network Authentication Required"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].status == status)
			return known[i].reason;
	}
	return "";
}

static bool is_possible(const struct http_head *request, const struct http_response *r)
{
	bool connect = request && strcmp(request->method, "CONNECT") == 0;

	if (r->status == 101)
		return r->framing == HTTP_SWITCHED && request && request->minor > 0;
	if (r->status < 200 || r->status > 599 || (connect && r->status < 300))
		return false;
	return r->framing == HTTP_NO_BODY || r->framing == HTTP_LENGTH ||
	       r->framing == HTTP_CHUNKED;
}

static int add_fields(struct http_head *h, const struct http_response *r)
{
	static const char *const decided_here[] = {"connection", "content-length", "keep-alive",
						   "transfer-encoding", NULL};
	int e = http_head_reserve(h, r->field_count + OWN_FIELDS, USUAL_TEXT);

	for (size_t i = 0; i < r->field_count && e == 0; i++) {
		if (http_name_among(r->fields[i].name, decided_here))
			return -EINVAL;
		e = http_head_add(h, r->fields[i].name, r->fields[i].value);
	}
	return e;
}

/* `framing` is what a body would have; nothing is said of one where there cannot be any. */
static int add_framing(struct http_head *h, enum http_framing framing, uint64_t length)
{
	char number[24];

	if (h->status < 200 || h->status == 204 || h->status == 304 || framing == HTTP_UNTIL_CLOSE)
		return 0;
	if (framing == HTTP_CHUNKED)
		return http_head_add(h, "Transfer-Encoding", "chunked");
	snprintf(number, sizeof(number), "%llu", (unsigned long long)length);
	return http_head_add(h, "Content-Length", number);
}

int http_response_write(struct buf *out, const struct http_head *request,
			const struct http_response *r, struct http_sent *ret)
{
	const char *reason = r->reason ? r->reason : http_reason(r->status);
	bool is_old = request && request->minor == 0;
	bool is_head = request && strcmp(request->method, "HEAD") == 0;
	struct http_head h = {.status = r->status, .reason = reason};
	struct http_sent sent = {.framing = r->framing};
	const char *connection = NULL;
	int e;

	if (!is_possible(request, r) || !http_value_ok(reason, strlen(reason)))
		return -EINVAL;
	if (r->framing == HTTP_CHUNKED && is_old)
		sent.framing = HTTP_UNTIL_CLOSE;
	e = add_fields(&h, r);
	if (e == 0)
		e = add_framing(&h, sent.framing, r->framing == HTTP_LENGTH ? r->length : 0);
	if (r->status != 101 && (is_head || r->status == 204 || r->status == 304))
		sent.framing = HTTP_NO_BODY;
	sent.close = r->close || !request || !http_keep_alive(request) ||
		     sent.framing == HTTP_UNTIL_CLOSE;
	if (r->status == 101) {
		sent.close = false;
		connection = "Upgrade";
	} else if (sent.close) {
		connection = "close";
	} else if (is_old) {
		connection = "keep-alive";
	}
	if (e == 0 && connection)
		e = http_head_add(&h, "Connection", connection);
	if (e == 0)
		e = http_head_write(&h, out);
	http_head_done(&h);
	if (e == 0)
		*ret = sent;
	return e;
}
