/* A server's machine, as its operator sees it: disk, walls, keys; what listens in a box. */
#include "base/str.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define A(tag, name) FIELD_ALWAYS(cove_##tag, name)
static const struct wire_named_field usage_fields[] = {
	A(usage_info, what), A(usage_info, count), A(usage_info, bytes),
	A(usage_info, shared_bytes), A(usage_info, reclaimable_bytes), {0}};
static const struct wire_named_field listening_fields[] = {
	A(listening, address), FIELD_SHOWN(cove_listening, "program", program, ALWAYS), {0}};
static const struct wire_named_field wall_fields[] = {
	A(wall_info, name), A(wall_info, ready), A(wall_info, is_default), A(wall_info, is_min),
	A(wall_info, shared_kernel), A(wall_info, program), A(wall_info, is_old),
	A(wall_info, version), A(wall_info, start_us), A(wall_info, holds), A(wall_info, lacks),
	A(wall_info, remedy), {0}};
static const struct wire_named_field key_fields[] = {
	A(key_info, name), A(key_info, id), A(key_info, created_ms), A(key_info, revoked_ms),
	A(key_info, damaged), {0}};
static const struct wire_named_field quota_fields[] = {
	A(key_info, boxes), A(key_info, mem_bytes), A(key_info, cpu_milli),
	A(key_info, disk_bytes), A(key_info, snapshots), A(key_info, images), {0}};
/* clang-format on */

/* ---- disk ---- */

int cove_system_df(struct cove *cove, struct cove_usage_info **ret, struct cove_error *err)
{
	return remote_rows(cove, "/v1/system/df", "usage", NULL, usage_fields, sizeof(**ret),
			   (void **)ret, err);
}

static int prune(struct cove *cove, const char *path, const struct cove_prune_options *given,
		 struct cove_pruned *ret, struct cove_error *err)
{
	struct cove_prune_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	const json_t *list;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", path);
	remote_put_bool(remote_object(&q), "dry_run", o.dry_run);
	remote_put_bool(&q.json, "all", o.all);
	remote_put_bool(&q.json, "boxes", o.boxes);
	r = remote_call(&q, &answer, &e);
	list = json_object_get(answer, "removed");
	for (size_t i = 0; i < json_array_size(list) && o.on_removed; i++) {
		const json_t *one = json_array_get(list, i);

		if (remote_text(one, "kind") && remote_text(one, "name"))
			o.on_removed(o.arg, remote_text(one, "kind"), remote_text(one, "name"),
				     remote_number(one, "bytes"));
	}
	*ret = (struct cove_pruned){.layers = remote_number(answer, "layers"),
				    .blobs = remote_number(answer, "blobs"),
				    .boxes = remote_number(answer, "boxes"),
				    .images = remote_number(answer, "images"),
				    .bytes = remote_number(answer, "bytes"),
				    .blobs_held = remote_is(answer, "blobs_held")};
	json_decref(answer);
	return remote_return(r, &e, err);
}

int cove_image_gc(struct cove *cove, const struct cove_prune_options *options,
		  struct cove_pruned *ret, struct cove_error *err)
{
	return prune(cove, "/v1/images/gc", options, ret, err);
}

int cove_system_prune(struct cove *cove, const struct cove_prune_options *options,
		      struct cove_pruned *ret, struct cove_error *err)
{
	return prune(cove, "/v1/system/prune", options, ret, err);
}

int cove_reap(struct cove *cove, const struct cove_reap_options *options, struct cove_reaped *ret,
	      struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, "POST", "/v1/system/reap");
	r = remote_call(&q, &o, &e);
	*ret = (struct cove_reaped){.ended = remote_number(o, "ended"),
				    .removed = remote_number(o, "removed"),
				    .started = remote_number(o, "started"),
				    .failed = remote_number(o, "failed")};
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_system_verify(struct cove *cove, bool deep, cove_on_damage *on_damage, void *arg,
		       struct cove_verified *ret, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	const json_t *list;
	int r;

	remote_begin(&q, cove, "POST", "/v1/system/verify");
	q.repeats = true;
	remote_put_bool(remote_object(&q), "deep", deep);
	r = remote_call(&q, &o, &e);
	list = json_object_get(o, "problems");
	for (size_t i = 0; i < json_array_size(list) && on_damage; i++) {
		const json_t *one = json_array_get(list, i);

		if (remote_text(one, "kind") && remote_text(one, "name") &&
		    remote_text(one, "problem"))
			on_damage(arg, remote_text(one, "kind"), remote_text(one, "name"),
				  remote_text(one, "problem"));
	}
	*ret = (struct cove_verified){.checked = remote_number(o, "checked"),
				      .damaged = remote_number(o, "damaged"),
				      .not_compared = remote_number(o, "not_compared")};
	json_decref(o);
	return remote_return(r, &e, err);
}

/* ---- walls ---- */

int cove_walls(struct cove *cove, struct cove_wall_info **ret, struct cove_error *err)
{
	return remote_rows(cove, "/v1/walls", "walls", NULL, wall_fields, sizeof(**ret),
			   (void **)ret, err);
}

int cove_wall_set_min(struct cove *cove, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "PUT", "/v1/walls/min");
	q.repeats = true;
	json_kv_str(remote_object(&q), "wall", name ? name : "any");
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_wall_min(struct cove *cove, char ret[64], struct cove_error *err)
{
	struct cove_wall_info *rows = NULL;
	int count = cove_walls(cove, &rows, err);

	ret[0] = 0;
	for (int i = 0; i < count; i++)
		if (rows[i].is_min)
			str_copy(ret, 64, rows[i].name);
	free(rows);
	return count < 0 ? count : 0;
}

/* ---- keys ---- */

static void on_key(const json_t *o, void *row)
{
	struct cove_key_info *key = row;

	remote_take(json_object_get(o, "quotas"), quota_fields, key);
	remote_take_joined(json_object_get(o, "scopes"), ',', key->scopes, sizeof(key->scopes));
	remote_take_joined(json_object_get(o, "mounts"), '\n', key->mounts, sizeof(key->mounts));
}

int cove_keys(struct cove *cove, struct cove_key_info **ret, struct cove_error *err)
{
	const struct remote_list list = {.path = "/v1/keys",
					 .key = "keys",
					 .query = "all",
					 .value = "true",
					 .fields = key_fields,
					 .size = sizeof(**ret),
					 .on_row = on_key};

	return remote_list_all(cove, &list, (void **)ret, err);
}

/* "boxes=20,mem=8g" as a list of pairs. */
static void put_quotas(struct json *j, const char *text)
{
	char pair[128];

	json_key(j, "quotas");
	json_array_begin(j);
	while (*text) {
		size_t n = strcspn(text, ",");

		snprintf(pair, sizeof(pair), "%.*s", (int)(n < 120 ? n : 120), text);
		json_str(j, pair);
		text += n + (text[n] == ',');
	}
	json_array_end(j);
}

int cove_key_create(struct cove *cove, const struct cove_key_options *given,
		    struct cove_key_made *ret, struct cove_error *err)
{
	struct cove_key_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	const char *token, *id;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/keys");
	json_kv_str(remote_object(&q), "name", o.name);
	remote_put_list(&q.json, "scopes", o.scopes);
	if (o.quotas && *o.quotas)
		put_quotas(&q.json, o.quotas);
	remote_put_list(&q.json, "mounts", o.mounts);
	r = remote_call(&q, &answer, &e);
	token = remote_text(answer, "token");
	id = remote_text(answer, "id");
	if (r == 0 && (!token || !id || !str_copy(ret->token, sizeof(ret->token), token) ||
		       !str_copy(ret->id, sizeof(ret->id), id)))
		r = err_set(&e, ERR_PROTOCOL, EPROTO, "the server's answer holds no key");
	if (token)
		explicit_bzero((char *)(uintptr_t)token, strlen(token));
	json_decref(answer);
	return remote_return(r, &e, err);
}

int cove_key_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/keys/{}", name);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

/* ---- what listens in a box ---- */

static void on_listening(const json_t *o, void *row)
{
	struct cove_listening *one = row;

	one->port = (unsigned)remote_number(o, "port");
	one->pid = (unsigned)remote_number(o, "pid");
}

int cove_listening(struct cove_box *box, struct cove_listening **ret, struct cove_error *err)
{
	const struct remote_list list = {.path = "/v1/boxes/{}/ports",
					 .key = "ports",
					 .name = box->name,
					 .fields = listening_fields,
					 .size = sizeof(**ret),
					 .on_row = on_listening};

	return remote_list_all(box->cove, &list, (void **)ret, err);
}
