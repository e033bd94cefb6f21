/*
 * The one shape of an error: {"error": {"code", "message", "request_id"}}, and where there
 * is more to say "details". The code is the kind of
 * libcove's error, a stable word; the status follows from it by one table.
 */
#include "api/call.h"
#include "api/handlers.h"

#include <errno.h>

static unsigned status_of(const struct err *e)
{
	static const unsigned statuses[ERR_KIND_COUNT] = {
		[ERR_NONE] = 500,     [ERR_INVALID] = 400,     [ERR_NOT_FOUND] = 404,
		[ERR_EXISTS] = 409,   [ERR_CONFLICT] = 409,    [ERR_DENIED] = 403,
		[ERR_LIMIT] = 429,    [ERR_FULL] = 507,	       [ERR_UNSUPPORTED] = 501,
		[ERR_TIMEOUT] = 504,  [ERR_INTERRUPTED] = 503, [ERR_PROTOCOL] = 502,
		[ERR_INTERNAL] = 500, [ERR_DAMAGED] = 500,
	};

	switch (e->code) {
	case EKEYREJECTED:
		return 401;
	case EPROTONOSUPPORT:
		return e->kind == ERR_INVALID ? 405 : statuses[e->kind];
	case EMSGSIZE:
		return 413;
	default:
		return statuses[e->kind];
	}
}

static const char *code_of(const struct err *e)
{
	switch (status_of(e)) {
	case 401:
		return "unauthorized";
	case 405:
		return "method_not_allowed";
	case 413:
		return "too_large";
	default:
		return err_kind_name(e->kind);
	}
}

static void put_error(struct json *j, const struct api_call *c, const struct err *e,
		      const char *details)
{
	char code[ERR_CODE_NAME];

	json_object_begin(j);
	json_key(j, "error");
	json_object_begin(j);
	json_kv_str(j, "code", code_of(e));
	if (err_code_name(e->code, code))
		json_kv_str(j, "errno", code);
	json_kv_str(j, "message", e->msg);
	json_kv_str(j, "request_id", c->id);
	if (details) {
		json_key(j, "details");
		json_raw(j, details);
	}
	json_object_end(j);
	json_object_end(j);
}

int api_error_json(const struct api_call *c, const struct err *e, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	put_error(&j, c, e, NULL);
	return j.error;
}

int api_error_with(struct api_call *c, const struct err *e, const char *details)
{
	buf_clear(&c->out);
	json_init(&c->json, &c->out);
	c->status = status_of(e);
	put_error(&c->json, c, e, details);
	return 0;
}

static const char *refusal_code(unsigned status)
{
	switch (status) {
	case 403:
	case 421:
		return "denied";
	case 405:
		return "method_not_allowed";
	case 413:
	case 414:
	case 431:
		return "too_large";
	case 500:
		return "internal";
	default:
		return status >= 500 ? "unsupported" : "invalid";
	}
}

int api_refusal(struct buf *out, unsigned status, const char *message, const char *id)
{
	struct json j;

	json_init(&j, out);
	json_object_begin(&j);
	json_key(&j, "error");
	json_object_begin(&j);
	json_kv_str(&j, "code", refusal_code(status));
	json_kv_str(&j, "message", message);
	json_kv_str(&j, "request_id", id);
	json_object_end(&j);
	json_object_end(&j);
	return j.error;
}

void api_error(struct api_call *c, const struct err *e)
{
	struct json *j = &c->json;

	buf_clear(&c->out);
	json_init(j, &c->out);
	c->type = NULL;
	c->field_count = 0;
	c->is_exact = false;
	c->status = status_of(e);
	if (c->status == 401)
		api_field(c, "WWW-Authenticate", "Bearer");
	if (c->status == 429)
		api_field(c, "Retry-After", "1");
	put_error(j, c, e, NULL);
	/* Also of one that is an event of a stream, or a message. */
	api_caller_hide(c, &c->out);
}
