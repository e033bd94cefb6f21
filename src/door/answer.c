/*
 * Answers of the door's own; see answer.h. Many clients show the reason phrase and nothing of the
 * body, so a denial says in it who denied.
 */
#include "door/answer.h"

#include "base/json.h"
#include "http/reply.h"

enum { BODY_MAX = 4096 };

unsigned answer_status(const struct err *e)
{
	if (e->code >= 400 && e->code < 600)
		return (unsigned)e->code;
	switch (e->kind) {
	case ERR_INVALID:
		return 400;
	case ERR_DENIED:
		return 403;
	case ERR_LIMIT:
		return 429;
	case ERR_TIMEOUT:
		return 504;
	default:
		return 502;
	}
}

static const char *phrase_of(unsigned status)
{
	const char *usual = status == 403 ? "Denied by Cove policy" : http_reason(status);

	return *usual ? usual : "Refused";
}

int answer_write(struct buf *out, const struct answer *a, const struct err *e)
{
	struct buf body;
	struct json j;
	int r;

	buf_init(&body, BODY_MAX);
	json_init(&j, &body);
	json_object_begin(&j);
	json_kv_str(&j, "error", err_kind_name(e->kind));
	if (a->host)
		json_kv_str(&j, "host", a->host);
	if (a->port)
		json_kv_u64(&j, "port", a->port);
	if (a->rule)
		json_kv_str(&j, "rule", a->rule);
	json_kv_str(&j, "message", e->msg);
	json_object_end(&j);
	r = j.error ? j.error : buf_append_str(&body, "\n");
	if (r == 0)
		r = buf_printf(out,
			       "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n"
			       "Content-Length: %zu\r\n%s\r\n",
			       a->status, phrase_of(a->status), buf_len(&body),
			       a->keeps ? "" : "Connection: close\r\n");
	if (r == 0 && !a->is_head)
		r = buf_append(out, buf_data(&body), buf_len(&body));
	buf_done(&body);
	return r;
}
