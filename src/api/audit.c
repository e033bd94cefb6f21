/* The audit log: rows as a list or as they come, and the operator's care of them. */
#include "api/handlers.h"

#include "base/clock.h"
#include "core/core.h"

#include <errno.h>

enum { AUDIT_ROWS_MAX = 10000, ROW_MAX = 1 << 20 };

struct audit_rows {
	struct api_call *call;
	uint64_t after, count, limit;
	int fd; /* of events; -1: an array is written */
};

static bool send_row(struct audit_rows *a, const char *text)
{
	struct buf b;
	bool sent;

	buf_init(&b, ROW_MAX);
	sent = buf_append_str(&b, text) == 0;
	if (sent)
		api_caller_hide(a->call, &b);
	sent = sent && buf_cstr(&b) && api_send_event(a->fd, "row", NULL, buf_cstr(&b)) == 0;
	buf_done(&b);
	return sent && api_goes_on(a->call);
}

static bool put_row(void *arg, const struct cove_audit_row *row)
{
	struct audit_rows *a = arg;
	char *text;

	if (!row)
		return api_goes_on(a->call);
	if (!api_name_shown(a->call, KEY_OF_BOX, row->box, NULL) || row->seq <= a->after)
		return true;
	text = cove_audit_row_json(row);
	if (a->fd >= 0) {
		bool sent = text && send_row(a, text);

		free(text);
		return sent;
	}
	if (text)
		json_raw(&a->call->json, text);
	free(text);
	return ++a->count < a->limit && api_goes_on(a->call);
}

static int audit_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_audit_options o = {.size = sizeof(o)};
	struct audit_rows rows = {.call = c, .fd = -1};
	struct cove_error err;
	int r = api_query(c, "box", &o.box, e);

	if (r == 0)
		r = api_query_bool(c, "denied", &o.denied_only, e);
	if (r == 0)
		r = api_query_bool(c, "follow", &o.follow, e);
	if (r == 0)
		r = api_query_u64(c, "since_ms", 0, &o.since_ms, e);
	if (r == 0)
		r = api_query_u64(c, "after", 0, &rows.after, e);
	if (r == 0)
		r = api_query_u64(c, "limit", 1000, &rows.limit, e);
	if (r == 0 && (rows.limit == 0 || rows.limit > AUDIT_ROWS_MAX))
		r = err_set(e, ERR_INVALID, EINVAL, "'limit' is 1 to %d", AUDIT_ROWS_MAX);
	if (r == 0 && rows.after && !o.box)
		r = err_set(e, ERR_INVALID, EINVAL, "'after' is of one 'box'");
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, o.box, &o.box, e);
	if (r < 0)
		return r;
	if (o.follow) {
		c->type = "text/event-stream";
		r = api_stream_open(c, &rows.fd, e);
		if (r == 0 && (r = cove_audit(cove, &o, put_row, &rows, &err)) < 0)
			api_failed(r, &err, e);
		return r;
	}
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "rows");
	json_array_begin(&c->json);
	r = cove_audit(cove, &o, put_row, &rows, &err);
	json_array_end(&c->json);
	json_object_end(&c->json);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

/* ---- is it as it was written? ---- */

struct audit_verify_in {
	const char *box;
};
static const struct api_in_field verify_fields[] = {API_IN(audit_verify_in, box, STR),
						    {NULL, 0, 0}};

/* Of a key: one of its boxes; all of them together are the operator's. */
static int audit_verify(struct api_call *c, struct cove *cove, struct err *e)
{
	struct audit_verify_in in = {0};
	const struct api_in_table tables[] = {{verify_fields, &in}, {NULL, NULL}};
	struct cove_audit_report report = {.size = sizeof(report)};
	struct cove_error err;
	const char *box;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.box && !c->who.is_operator)
		r = err_set(e, ERR_INVALID, EINVAL, "'box' is missing");
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.box, &box, e);
	if (r < 0)
		return r;
	r = cove_audit_verify(cove, box, &report, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "name", in.box);
	json_kv_str(&c->json, "result", "verified");
	json_kv_u64(&c->json, "rows", report.rows);
	json_kv_u64(&c->json, "dropped", report.dropped);
	json_kv_u64(&c->json, "cut", report.cut);
	json_object_end(&c->json);
	return 0;
}

/* ---- how long it is kept ---- */

static int audit_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	uint64_t before_ms, rows = 0;
	const char *box;
	int r = api_query(c, "box", &box, e);

	if (r == 0)
		r = api_query_u64(c, "before_ms", 0, &before_ms, e);
	if (r == 0 && !box == !before_ms)
		r = err_set(e, ERR_INVALID, EINVAL, "give 'box' or 'before_ms'");
	if (r < 0)
		return r;
	r = cove_audit_delete(cove, box, before_ms, c->who.by, &rows, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "rows", rows);
	json_object_end(&c->json);
	return 0;
}

static int put_keep(struct api_call *c, struct cove *cove, const uint64_t *set, struct err *e)
{
	struct cove_error err;
	uint64_t keep_ms = 0;
	int r = cove_audit_keep(cove, set, &keep_ms, &err);

	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "keep_ms", keep_ms);
	json_object_end(&c->json);
	return 0;
}

static int keep_get(struct api_call *c, struct cove *cove, struct err *e)
{
	return put_keep(c, cove, NULL, e);
}

struct keep_in {
	uint64_t keep_ms;
};
static const struct api_in_field keep_fields[] = {API_IN_AS(keep_in, "keep", keep_ms, MS),
						  {NULL, 0, 0}};

static int keep_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct keep_in in = {UINT64_MAX};
	const struct api_in_table tables[] = {{keep_fields, &in}, {NULL, NULL}};
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && in.keep_ms == UINT64_MAX)
		r = err_set(e, ERR_INVALID, EINVAL, "'keep' is a time; 0 is for ever");
	return r < 0 ? r : put_keep(c, cove, &in.keep_ms, e);
}

/* clang-format off */
const struct api_route api_audit_routes[] = {
	{"GET", "/v1/audit", "listAudit", KEY_AUDIT, .work = audit_list, .streams = true},
	{"POST", "/v1/audit/verify", "verifyAudit", KEY_AUDIT, API_BODY_JSON,
	 .work = audit_verify},
	{"DELETE", "/v1/audit", "removeAudit", KEY_ADMIN, .work = audit_remove},
	{"GET", "/v1/audit/keep", "getAuditKeep", KEY_ADMIN, .work = keep_get},
	{"PUT", "/v1/audit/keep", "setAuditKeep", KEY_ADMIN, API_BODY_JSON, .work = keep_set},
	{0}};
/* clang-format on */
