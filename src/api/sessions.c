/* Sessions: a caller's own id, always the same box. */
#include "api/handlers.h"
#include "api/quota.h"

#include "core/core.h"

#include <errno.h>

/* A key's sessions have its namespace in the prefix: the same id of another key is another box. */
static int take_prefix(struct api_call *c, const char **ret, struct err *e)
{
	int r = api_query(c, "prefix", ret, e);

	if (r < 0 || c->who.is_operator)
		return r;
	return api_name(c, KEY_OF_BOX, *ret ? *ret : "session", ret, e);
}

/* Where the box is there already nothing more is held: what is asked for must be what it has. */
static int hold_new(struct api_call *c, struct cove *cove, const struct cove_box_options *o,
		    const char *prefix, const char *session, struct err *e)
{
	struct cove_box_options with = *o;
	char name[BOX_NAME_MAX + 1];
	struct record record;
	int r = spec_session_name(prefix, session, name, e);

	if (r < 0)
		return r;
	if (record_load(&cove->state, name, &record, NULL) == 0) {
		record_done(&record);
		return 0;
	}
	/* Its own workspace is there when it is opened again. */
	if (!with.workspace)
		with.workspace = name;
	return api_quota_hold(c, cove, &with, e);
}

static int session_open(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_box_options o = {.size = sizeof(o)};
	const struct api_in_table tables[] = {{api_box_fields, &o}, {NULL, NULL}};
	const char *prefix, *session = api_param(c, "session");
	struct cove_box *box = NULL;
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && o.name)
		r = err_set(e, ERR_INVALID, EINVAL, "a session's box has its own name");
	if (r == 0)
		r = take_prefix(c, &prefix, e);
	if (r == 0)
		r = api_box_options_check(c, cove, &o, e);
	if (r == 0)
		r = hold_new(c, cove, &o, prefix, session, e);
	if (r < 0)
		return r;
	r = cove_open(cove, session, prefix, &o, &box, &err);
	api_quota_release(c);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	r = api_put_box(c, cove, cove_box_name(box), e);
	json_object_end(&c->json);
	cove_box_free(box);
	return r;
}

static int session_close(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *prefix;
	bool remove;
	int r = take_prefix(c, &prefix, e);

	if (r == 0)
		r = api_query_bool(c, "delete", &remove, e);
	if (r < 0)
		return r;
	r = cove_close(cove, api_param(c, "session"), prefix, remove, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* clang-format off */
const struct api_route api_session_routes[] = {
	{"PUT", "/v1/sessions/{session}", "openSession", KEY_RUN, API_BODY_JSON,
	 .work = session_open, .lasts = true},
	{"DELETE", "/v1/sessions/{session}", "closeSession", KEY_RUN, .work = session_close,
	 .lasts = true},
	{0}};
/* clang-format on */
