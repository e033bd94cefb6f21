/* Snapshots, rollback and forks; images and workspaces as they are listed. */
#include "api/handlers.h"

#include "core/view.h"

#include <errno.h>

/* ---- snapshots ---- */

struct snapshot_in {
	const char *name;
	uint64_t keep, max_age_ms;
};
static const struct api_in_field snapshot_fields[] = {
	API_IN(snapshot_in, name, STR),
	API_IN(snapshot_in, keep, U64),
	API_IN_AS(snapshot_in, "max_age", max_age_ms, MS),
	{NULL, 0, 0}};

static int snapshot_create(struct api_call *c, struct cove *cove, struct err *e)
{
	struct snapshot_in in = {0};
	const struct api_in_table tables[] = {{snapshot_fields, &in}, {NULL, NULL}};
	struct cove_snapshot_options o = {.size = sizeof(o)};
	struct cove_snapshot_info made;
	struct cove_error err;
	const char *box;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0)
		r = api_name(c, KEY_OF_SNAPSHOT, in.name, &o.name, e);
	if (r == 0)
		r = api_quota_room(c, cove, KEY_QUOTA_SNAPSHOTS, e);
	if (r < 0)
		return r;
	o.keep = in.keep;
	o.max_age_ms = in.max_age_ms;
	r = cove_snapshot_create(cove, box, &o, &made, &err);
	return r < 0 ? api_failed(r, &err, e)
		     : api_json_take(c, 201, view_row_json(view_snapshot_fields, &made), e);
}

static int snapshot_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_snapshot_info *rows = NULL;
	struct cove_error err;
	const char *box;
	int n = 0, count, r = api_query(c, "box", &box, e);

	if (r == 0)
		r = api_name(c, KEY_OF_BOX, box, &box, e);
	if (r < 0)
		return r;
	count = cove_snapshots(cove, box, &rows, &err);
	for (int i = 0; i < count; i++)
		if (api_name_shown(c, KEY_OF_SNAPSHOT, rows[i].name, NULL))
			rows[n++] = rows[i];
	return api_put_rows(c, "snapshots", view_snapshot_fields, rows, sizeof(*rows),
			    count < 0 ? count : n, &err, e);
}

static int snapshot_name(struct api_call *c, const char **ret, struct err *e)
{
	return api_name(c, KEY_OF_SNAPSHOT, api_param(c, "snapshot"), ret, e);
}

static int snapshot_get(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	char *text = NULL;
	int r = snapshot_name(c, &name, e);

	if (r < 0)
		return r;
	r = cove_snapshot_inspect(cove, name, &text, &err);
	return r < 0 ? api_failed(r, &err, e) : api_json_take(c, 200, text, e);
}

static int snapshot_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = snapshot_name(c, &name, e);

	if (r < 0)
		return r;
	r = cove_snapshot_remove(cove, name, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

struct rollback_in {
	const char *snapshot;
	bool keep_workspace;
	uint64_t admission_wait_ms;
};
static const struct api_in_field rollback_fields[] = {
	API_IN(rollback_in, snapshot, STR),
	API_IN(rollback_in, keep_workspace, BOOL),
	API_IN_AS(rollback_in, "admission_wait", admission_wait_ms, MS),
	{NULL, 0, 0}};

static int roll_back(struct api_call *c, struct cove *cove, struct err *e)
{
	struct rollback_in in = {.admission_wait_ms = API_WAIT_DEFAULT};
	const struct api_in_table tables[] = {{rollback_fields, &in}, {NULL, NULL}};
	struct cove_rollback_options o = {.size = sizeof(o)};
	struct cove_rollback done = {.size = sizeof(done)};
	struct cove_error err;
	const char *box, *name;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.snapshot)
		r = err_set(e, ERR_INVALID, EINVAL, "'snapshot' is missing");
	if (r == 0)
		r = api_patience(c, cove, in.admission_wait_ms, e);
	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0)
		r = api_name(c, KEY_OF_SNAPSHOT, in.snapshot, &name, e);
	if (r < 0)
		return r;
	o.keep_workspace = in.keep_workspace;
	r = cove_rollback(cove, box, name, &o, &done, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_bool(&c->json, "started", done.started);
	json_kv_u64(&c->json, "sent", done.sent);
	json_kv_str(&c->json, "hosts", done.hosts);
	json_kv_bool(&c->json, "sent_unknown", done.sent_unknown);
	json_kv_u64(&c->json, "host_dirs", done.host_dirs);
	json_object_end(&c->json);
	return 0;
}

/* ---- forks ---- */

struct fork_in {
	const char *box, *snapshot, *name, *prefix;
	uint64_t count, admission_wait_ms;
};
static const struct api_in_field fork_fields[] = {
	API_IN(fork_in, box, STR),
	API_IN(fork_in, snapshot, STR),
	API_IN(fork_in, name, STR),
	API_IN(fork_in, prefix, STR),
	API_IN(fork_in, count, U64),
	API_IN_AS(fork_in, "admission_wait", admission_wait_ms, MS),
	{NULL, 0, 0}};

static int fork_source(struct api_call *c, const struct fork_in *in, const char **ret,
		       struct err *e)
{
	const char *name;
	int r;

	if (!in->box == !in->snapshot)
		return err_set(e, ERR_INVALID, EINVAL, "give 'box' or 'snapshot'");
	r = in->box ? api_name(c, KEY_OF_BOX, in->box, &name, e)
		    : api_name(c, KEY_OF_SNAPSHOT, in->snapshot, &name, e);
	if (r < 0)
		return r;
	*ret = api_memory_printf(&c->memory, "%s:%s", in->box ? "box" : "snapshot", name);
	return *ret ? 0 : err_errno(e, ENOMEM, "read the request");
}

static int fork_boxes(struct api_call *c, struct cove *cove, struct err *e)
{
	struct fork_in in = {.count = 1, .admission_wait_ms = API_WAIT_DEFAULT};
	const struct api_in_table tables[] = {{fork_fields, &in}, {NULL, NULL}};
	struct cove_fork_options o = {.size = sizeof(o), .owner = api_owner(c)};
	char(*names)[64] = NULL;
	struct cove_error err;
	const char *source = NULL, *shown;
	int count, r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_patience(c, cove, in.admission_wait_ms, e);
	if (r == 0)
		r = fork_source(c, &in, &source, e);
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.name, &o.name, e);
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.prefix, &o.prefix, e);
	if (r == 0)
		r = api_quota_hold_like(c, cove, source, in.count, e);
	if (r < 0)
		return r;
	o.count = in.count;
	count = cove_fork(cove, source, &o, &names, &err);
	api_quota_release(c);
	if (count < 0)
		return api_failed(count, &err, e);
	json_object_begin(api_json(c, 201));
	json_key(&c->json, "boxes");
	json_array_begin(&c->json);
	for (int i = 0; i < count; i++)
		if (api_name_shown(c, KEY_OF_BOX, names[i], &shown))
			json_str(&c->json, shown);
	json_array_end(&c->json);
	json_object_end(&c->json);
	free(names);
	return 0;
}

/* ---- images and workspaces ---- */

static int list_images(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_image_info *rows = NULL;
	struct cove_error err;
	int n = 0, count = cove_images(cove, &rows, &err);

	for (int i = 0; i < count; i++)
		if (api_name_shown(c, KEY_OF_IMAGE, rows[i].name, NULL) ||
		    key_name_plain(KEY_OF_IMAGE, rows[i].name) == rows[i].name)
			rows[n++] = rows[i];
	return api_put_rows(c, "images", view_image_fields, rows, sizeof(*rows),
			    count < 0 ? count : n, &err, e);
}

static int list_workspaces(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_workspace_info *rows = NULL;
	struct cove_error err;
	int n = 0, count = cove_workspaces(cove, &rows, &err);

	for (int i = 0; i < count; i++)
		if (api_name_shown(c, KEY_OF_WORKSPACE, rows[i].name, NULL))
			rows[n++] = rows[i];
	return api_put_rows(c, "workspaces", view_workspace_fields, rows, sizeof(*rows),
			    count < 0 ? count : n, &err, e);
}

static int workspace_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_name(c, KEY_OF_WORKSPACE, api_param(c, "workspace"), &name, e);

	if (r < 0)
		return r;
	r = cove_workspace_remove(cove, name, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* clang-format off */
const struct api_route api_snapshot_routes[] = {
	{"POST", "/v1/boxes/{box}/snapshots", "createSnapshot", KEY_RUN, API_BODY_JSON,
	 .work = snapshot_create},
	{"POST", "/v1/boxes/{box}/rollback", "rollBack", KEY_RUN, API_BODY_JSON,
	 .work = roll_back},
	{"GET", "/v1/snapshots", "listSnapshots", KEY_READ, .work = snapshot_list},
	{"GET", "/v1/snapshots/{snapshot}", "getSnapshot", KEY_READ, .work = snapshot_get},
	{"DELETE", "/v1/snapshots/{snapshot}", "removeSnapshot", KEY_RUN,
	 .work = snapshot_remove},
	{"POST", "/v1/forks", "fork", KEY_RUN, API_BODY_JSON, .work = fork_boxes},
	{"GET", "/v1/images", "listImages", KEY_READ, .work = list_images},
	{"GET", "/v1/workspaces", "listWorkspaces", KEY_READ, .work = list_workspaces},
	{"DELETE", "/v1/workspaces/{workspace}", "removeWorkspace", KEY_RUN,
	 .work = workspace_remove},
	{0}};
/* clang-format on */
