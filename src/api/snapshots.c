/* Snapshots and the rules that keep them, rollback and forks; workspaces. */
#include "api/handlers.h"
#include "api/quota.h"

#include "core/view.h"

#include <errno.h>

/* ---- snapshots ---- */

struct snapshot_in {
	const char *name;
	uint64_t keep, max_age_ms;
	bool no_freeze;
};
static const struct api_in_field snapshot_fields[] = {
	API_IN(snapshot_in, name, STR),
	API_IN(snapshot_in, no_freeze, BOOL),
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
		r = api_quota_hold_one(c, cove, KEY_QUOTA_SNAPSHOTS, e);
	if (r < 0)
		return r;
	o.keep = in.keep;
	o.max_age_ms = in.max_age_ms;
	o.no_freeze = in.no_freeze;
	r = cove_snapshot_create(cove, box, &o, &made, &err);
	api_quota_release(c);
	return r < 0 ? api_failed(r, &err, e)
		     : api_json_take(c, 201, view_row_json(view_snapshot_fields, &made), e);
}

/* Oldest first. */
static bool snapshot_cursor(const struct api_call *c, const void *row, char ret[API_CURSOR_SIZE])
{
	const struct cove_snapshot_info *s = row;
	const char *shown;

	if (!api_name_shown(c, KEY_OF_SNAPSHOT, s->name, &shown))
		return false;
	snprintf(ret, API_CURSOR_SIZE, "%020llu.%s", (unsigned long long)s->created_ms, shown);
	return true;
}

static int snapshot_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_snapshot_info *rows = NULL;
	struct cove_error err;
	const char *box;
	int r = api_query(c, "box", &box, e);

	if (r == 0)
		r = api_name(c, KEY_OF_BOX, box, &box, e);
	if (r < 0)
		return r;
	r = cove_snapshots(cove, box, &rows, &err);
	return api_put_rows(c,
			    &(struct api_rows){"snapshots", view_snapshot_fields, rows,
					       sizeof(*rows), r, snapshot_cursor, NULL},
			    &err, e);
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

static int snapshot_tag(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name, *tag;
	int r = api_tag_take(c, &tag, e);

	if (r == 0)
		r = snapshot_name(c, &name, e);
	if (r == 0)
		r = api_name(c, KEY_OF_SNAPSHOT, tag, &tag, e);
	if (r < 0)
		return r;
	r = cove_snapshot_tag(cove, name, tag, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- how many are kept ---- */

/* Of a box, or of an image: whose own. */
static int rule_of(struct api_call *c, const char **ret, struct err *e)
{
	const char *name;
	int r;

	if (!strstr(c->route->pattern, "{image}"))
		return api_box(c, ret, e);
	r = api_own_image(c, api_param(c, "image"), &name, e);
	if (r < 0)
		return r;
	*ret = api_memory_printf(&c->memory, "image:%s", name);
	return *ret ? 0 : err_errno(e, ENOMEM, "read the request");
}

static int put_rule(struct api_call *c, const char *of, const struct cove_snapshot_rule *rule)
{
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "of", of);
	json_kv_u64(&c->json, "keep", rule->keep);
	json_kv_u64(&c->json, "max_age_ms", rule->max_age_ms);
	json_kv_bool(&c->json, "of_image", rule->of_image);
	json_object_end(&c->json);
	return 0;
}

static int rule_get(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_snapshot_rule rule;
	struct cove_error err;
	const char *of;
	int r = rule_of(c, &of, e);

	if (r < 0)
		return r;
	r = cove_snapshot_rule(cove, of, NULL, &rule, &err);
	return r < 0 ? api_failed(r, &err, e) : put_rule(c, of, &rule);
}

static const struct api_in_field rule_fields[] = {
	API_IN(cove_snapshot_rule, keep, U64),
	API_IN_AS(cove_snapshot_rule, "max_age", max_age_ms, MS),
	{NULL, 0, 0}};

static int rule_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_snapshot_rule rule = {0};
	const struct api_in_table tables[] = {{rule_fields, &rule}, {NULL, NULL}};
	struct cove_error err;
	const char *of;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = rule_of(c, &of, e);
	if (r < 0)
		return r;
	r = cove_snapshot_rule(cove, of, &rule, &rule, &err);
	return r < 0 ? api_failed(r, &err, e) : put_rule(c, of, &rule);
}

struct prune_in {
	const char *box;
};
static const struct api_in_field snapshot_prune_fields[] = {API_IN(prune_in, box, STR),
							    {NULL, 0, 0}};

/* Of a key: each of its boxes. */
static int prune_own(struct api_call *c, struct cove *cove, uint64_t *removed, struct err *e)
{
	struct cove_box_info *rows = NULL;
	struct cove_error err;
	int count = cove_list(cove, &rows, &err), r = count;

	for (int i = 0; i < count && r >= 0; i++) {
		uint64_t n = 0;

		if (!api_name_shown(c, KEY_OF_BOX, rows[i].name, NULL))
			continue;
		r = cove_snapshot_prune(cove, rows[i].name, &n, &err);
		*removed += n;
	}
	free(rows);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

static int snapshot_prune(struct api_call *c, struct cove *cove, struct err *e)
{
	struct prune_in in = {0};
	const struct api_in_table tables[] = {{snapshot_prune_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *box;
	uint64_t removed = 0;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.box, &box, e);
	if (r == 0 && !box && !c->who.is_operator) {
		r = prune_own(c, cove, &removed, e);
	} else if (r == 0) {
		r = cove_snapshot_prune(cove, box, &removed, &err);
		if (r < 0)
			api_failed(r, &err, e);
	}
	if (r < 0)
		return r;
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "removed", removed);
	json_object_end(&c->json);
	return 0;
}

/* ---- rollback ---- */

struct rollback_in {
	const char *snapshot;
	bool keep_workspace, foreign;
	uint64_t admission_wait_ms;
};
static const struct api_in_field rollback_fields[] = {
	API_IN(rollback_in, snapshot, STR),
	API_IN(rollback_in, keep_workspace, BOOL),
	API_IN(rollback_in, foreign, BOOL),
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
	o.foreign = in.foreign;
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
	bool no_freeze;
};
static const struct api_in_field fork_fields[] = {
	API_IN(fork_in, box, STR),
	API_IN(fork_in, snapshot, STR),
	API_IN(fork_in, name, STR),
	API_IN(fork_in, prefix, STR),
	API_IN(fork_in, count, U64),
	API_IN(fork_in, no_freeze, BOOL),
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
	bool copy_left_out = false;
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
	o.ret_copy_left_out = &copy_left_out;
	o.no_freeze = in.no_freeze;
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
	json_kv_bool(&c->json, "copy_left_out", copy_left_out);
	json_object_end(&c->json);
	free(names);
	return 0;
}

/* ---- workspaces ---- */

static bool workspace_cursor(const struct api_call *c, const void *row, char ret[API_CURSOR_SIZE])
{
	const struct cove_workspace_info *w = row;
	const char *shown;

	return api_name_shown(c, KEY_OF_WORKSPACE, w->name, &shown) &&
	       str_copy(ret, API_CURSOR_SIZE, shown);
}

static int list_workspaces(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_workspace_info *rows = NULL;
	struct cove_error err;
	int count = cove_workspaces(cove, &rows, &err);

	return api_put_rows(c,
			    &(struct api_rows){"workspaces", view_workspace_fields, rows,
					       sizeof(*rows), count, workspace_cursor, NULL},
			    &err, e);
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
	 .work = snapshot_create, .lasts = true},
	{"POST", "/v1/boxes/{box}/rollback", "rollBack", KEY_RUN, API_BODY_JSON,
	 .work = roll_back, .lasts = true},
	{"GET", "/v1/snapshots", "listSnapshots", KEY_READ, .work = snapshot_list},
	{"GET", "/v1/snapshots/{snapshot}", "getSnapshot", KEY_READ, .work = snapshot_get},
	{"DELETE", "/v1/snapshots/{snapshot}", "removeSnapshot", KEY_RUN,
	 .work = snapshot_remove},
	{"POST", "/v1/snapshots/{snapshot}/tags", "tagSnapshot", KEY_RUN, API_BODY_JSON,
	 .work = snapshot_tag},
	{"POST", "/v1/snapshots/prune", "pruneSnapshots", KEY_RUN, API_BODY_JSON,
	 .work = snapshot_prune},
	{"GET", "/v1/boxes/{box}/snapshot-rule", "getSnapshotRule", KEY_READ, .work = rule_get},
	{"PUT", "/v1/boxes/{box}/snapshot-rule", "setSnapshotRule", KEY_RUN, API_BODY_JSON,
	 .work = rule_set},
	{"GET", "/v1/images/{image}/snapshot-rule", "getImageSnapshotRule", KEY_READ,
	 .work = rule_get},
	{"PUT", "/v1/images/{image}/snapshot-rule", "setImageSnapshotRule", KEY_IMAGES,
	 API_BODY_JSON, .work = rule_set},
	{"POST", "/v1/forks", "fork", KEY_RUN, API_BODY_JSON, .work = fork_boxes, .lasts = true},
	{"GET", "/v1/workspaces", "listWorkspaces", KEY_READ, .work = list_workspaces},
	{"DELETE", "/v1/workspaces/{workspace}", "removeWorkspace", KEY_RUN,
	 .work = workspace_remove},
	{0}};
/* clang-format on */
