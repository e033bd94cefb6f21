/* The machine itself, for its operator: disk, walls, keys. */
#include "api/handlers.h"

#include "core/core.h"
#include "core/view.h"

#include <errno.h>

/* ---- disk ---- */

static int system_df(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_usage_info *rows = NULL;
	struct cove_error err;
	int count = cove_system_df(cove, &rows, &err);

	return api_put_rows(c,
			    &(struct api_rows){"usage", view_usage_fields, rows, sizeof(*rows),
					       count, NULL, NULL},
			    &err, e);
}

static const struct api_in_field prune_fields[] = {API_IN(cove_prune_options, dry_run, BOOL),
						   API_IN(cove_prune_options, all, BOOL),
						   API_IN(cove_prune_options, boxes, BOOL),
						   {NULL, 0, 0}};

static void on_removed(void *arg, const char *kind, const char *name, uint64_t bytes)
{
	struct api_call *c = arg;

	json_object_begin(&c->json);
	json_kv_str(&c->json, "kind", kind);
	json_kv_str(&c->json, "name", name);
	json_kv_u64(&c->json, "bytes", bytes);
	json_object_end(&c->json);
}

static int prune_as(struct api_call *c, struct cove *cove,
		    int (*call)(struct cove *cove, const struct cove_prune_options *options,
				struct cove_pruned *ret, struct cove_error *err),
		    struct err *e)
{
	struct cove_prune_options o = {0};
	const struct api_in_table tables[] = {{prune_fields, &o}, {NULL, NULL}};
	struct cove_pruned p = {0};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r < 0)
		return r;
	o.size = sizeof(o);
	o.on_removed = on_removed;
	o.arg = c;
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "removed");
	json_array_begin(&c->json);
	r = call(cove, &o, &p, &err);
	json_array_end(&c->json);
	json_kv_u64(&c->json, "layers", p.layers);
	json_kv_u64(&c->json, "blobs", p.blobs);
	json_kv_u64(&c->json, "boxes", p.boxes);
	json_kv_u64(&c->json, "images", p.images);
	json_kv_u64(&c->json, "bytes", p.bytes);
	json_kv_bool(&c->json, "blobs_held", p.blobs_held);
	json_kv_bool(&c->json, "dry_run", o.dry_run);
	json_object_end(&c->json);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

static int system_prune(struct api_call *c, struct cove *cove, struct err *e)
{
	return prune_as(c, cove, cove_system_prune, e);
}

static int image_gc(struct api_call *c, struct cove *cove, struct err *e)
{
	return prune_as(c, cove, cove_image_gc, e);
}

static void on_damage(void *arg, const char *kind, const char *name, const char *problem)
{
	struct api_call *c = arg;

	json_object_begin(&c->json);
	json_kv_str(&c->json, "kind", kind);
	json_kv_str(&c->json, "name", name);
	json_kv_str(&c->json, "problem", problem);
	json_object_end(&c->json);
}

struct verify_in {
	bool deep;
};
static const struct api_in_field verify_fields[] = {API_IN(verify_in, deep, BOOL), {NULL, 0, 0}};

static int system_verify(struct api_call *c, struct cove *cove, struct err *e)
{
	struct verify_in in = {0};
	const struct api_in_table tables[] = {{verify_fields, &in}, {NULL, NULL}};
	struct cove_verified done = {0};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r < 0)
		return r;
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "problems");
	json_array_begin(&c->json);
	r = cove_system_verify(cove, in.deep, on_damage, c, &done, &err);
	json_array_end(&c->json);
	json_kv_u64(&c->json, "checked", done.checked);
	json_kv_u64(&c->json, "damaged", done.damaged);
	json_kv_u64(&c->json, "not_compared", done.not_compared);
	json_object_end(&c->json);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

static int system_reap(struct api_call *c, struct cove *cove, struct err *e)
{
	const struct cove_reap_options o = {.size = sizeof(o), .sweep = true};
	struct cove_reaped done = {0};
	struct cove_error err;
	int r = cove_reap(cove, &o, &done, &err);

	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "ended", done.ended);
	json_kv_u64(&c->json, "removed", done.removed);
	json_kv_u64(&c->json, "started", done.started);
	json_kv_u64(&c->json, "failed", done.failed);
	json_object_end(&c->json);
	return 0;
}

/* ---- walls ---- */

static int wall_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_wall_info *rows = NULL;
	struct cove_error err;
	int count = cove_walls(cove, &rows, &err);

	/* Where a program is on the server's machine is no key's business. */
	for (int i = 0; i < count && !c->who.is_operator; i++)
		rows[i].program[0] = rows[i].remedy[0] = 0;
	return api_put_rows(c,
			    &(struct api_rows){"walls", view_wall_fields, rows, sizeof(*rows),
					       count, NULL, NULL},
			    &err, e);
}

struct wall_in {
	const char *wall;
};
static const struct api_in_field wall_fields[] = {API_IN(wall_in, wall, STR), {NULL, 0, 0}};

static int wall_set_min(struct api_call *c, struct cove *cove, struct err *e)
{
	struct wall_in in = {0};
	const struct api_in_table tables[] = {{wall_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.wall)
		r = err_set(e, ERR_INVALID, EINVAL, "'wall' is missing; \"any\" lifts it");
	if (r < 0)
		return r;
	r = cove_wall_set_min(cove, strcmp(in.wall, "any") == 0 ? NULL : in.wall, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- keys ---- */

static bool key_cursor(const struct api_call *c, const void *row, char ret[API_CURSOR_SIZE])
{
	const struct cove_key_info *k = row;

	snprintf(ret, API_CURSOR_SIZE, "%020llu.%s", (unsigned long long)k->created_ms, k->id);
	return true;
}

static void key_more(struct json *j, const void *row)
{
	view_key_more_json(j, row);
}

static int list_keys(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_key_info *rows = NULL;
	struct cove_error err;
	bool all;
	int n = 0, count, r = api_query_bool(c, "all", &all, e);

	if (r < 0)
		return r;
	count = cove_keys(cove, &rows, &err);
	for (int i = 0; i < count; i++)
		if (all || !rows[i].revoked_ms)
			rows[n++] = rows[i];
	return api_put_rows(c,
			    &(struct api_rows){"keys", view_key_fields, rows, sizeof(*rows),
					       count < 0 ? count : n, key_cursor, key_more},
			    &err, e);
}

static int get_key(struct api_call *c, struct cove *cove, struct err *e)
{
	const char *name = api_param(c, "key");
	struct cove_key_info *rows = NULL;
	const struct cove_key_info *found = NULL;
	struct cove_error err;
	int count = cove_keys(cove, &rows, &err);

	if (count < 0)
		return api_failed(count, &err, e);
	for (int i = 0; i < count && !found; i++)
		if (strcmp(rows[i].id, name) == 0 ||
		    (!rows[i].revoked_ms && strcmp(rows[i].name, name) == 0))
			found = &rows[i];
	if (found) {
		json_object_begin(api_json(c, 200));
		wire_fields_json(&c->json, view_key_fields, found);
		view_key_more_json(&c->json, found);
		json_object_end(&c->json);
	}
	free(rows);
	return found ? 0 : err_set(e, ERR_NOT_FOUND, ENOENT, "no key '%.80s'", name);
}

struct key_in {
	const char *name;
	const char *const *scopes, *const *quotas, *const *mounts;
};
static const struct api_in_field key_fields[] = {API_IN(key_in, name, STR),
						 API_IN(key_in, scopes, LIST),
						 API_IN(key_in, quotas, PAIRS),
						 API_IN(key_in, mounts, LIST),
						 {NULL, 0, 0}};

/* As one text, as the command line takes them. */
static int join_quotas(struct api_call *c, const char *const *list, const char **ret, struct err *e)
{
	const char *text = "";

	*ret = NULL;
	for (; list && *list; list++) {
		text = api_memory_printf(&c->memory, "%s%s%s", text, *text ? "," : "", *list);
		if (!text)
			return err_errno(e, ENOMEM, "read the request");
		*ret = text;
	}
	return 0;
}

static int create_key(struct api_call *c, struct cove *cove, struct err *e)
{
	struct key_in in = {0};
	const struct api_in_table tables[] = {{key_fields, &in}, {NULL, NULL}};
	struct cove_key_options o = {.size = sizeof(o)};
	struct cove_key_made made = {.size = sizeof(made)};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.name)
		r = err_set(e, ERR_INVALID, EINVAL, "'name' is missing");
	if (r == 0)
		r = join_quotas(c, in.quotas, &o.quotas, e);
	if (r < 0)
		return r;
	o.name = in.name;
	o.scopes = in.scopes;
	o.mounts = in.mounts;
	r = cove_key_create(cove, &o, &made, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 201));
	json_kv_str(&c->json, "name", in.name);
	json_kv_str(&c->json, "id", made.id);
	json_kv_str(&c->json, "token", made.token);
	json_object_end(&c->json);
	explicit_bzero(&made, sizeof(made));
	return 0;
}

static int remove_key(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	int r = cove_key_remove(cove, api_param(c, "key"), &err);

	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* clang-format off */
const struct api_route api_machine_routes[] = {
	{"GET", "/v1/system/df", "getDiskUsage", KEY_ADMIN, .work = system_df},
	{"POST", "/v1/system/prune", "pruneSystem", KEY_ADMIN, API_BODY_JSON,
	 .work = system_prune},
	{"POST", "/v1/system/verify", "verifySystem", KEY_ADMIN, API_BODY_JSON,
	 .work = system_verify},
	{"POST", "/v1/system/reap", "reapSystem", KEY_ADMIN, .work = system_reap},
	{"POST", "/v1/images/gc", "collectImages", KEY_ADMIN, API_BODY_JSON, .work = image_gc},
	{"GET", "/v1/walls", "listWalls", KEY_READ, .work = wall_list},
	{"PUT", "/v1/walls/min", "setLeastWall", KEY_ADMIN, API_BODY_JSON, .work = wall_set_min},
	{"GET", "/v1/keys", "listKeys", KEY_ADMIN, .work = list_keys},
	{"POST", "/v1/keys", "createKey", KEY_ADMIN, API_BODY_JSON, .work = create_key,
	 .secret = true},
	{"GET", "/v1/keys/{key}", "getKey", KEY_ADMIN, .work = get_key},
	{"DELETE", "/v1/keys/{key}", "removeKey", KEY_ADMIN, .work = remove_key},
	{0}};
/* clang-format on */
