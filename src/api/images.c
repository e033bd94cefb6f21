/*
 * Images: what a key can use are its own and the operator's, its own first; what it makes is its
 * own. Archives come and go as streams.
 */
#include "api/handlers.h"
#include "api/quota.h"

#include "base/clock.h"
#include "core/core.h"
#include "core/view.h"

#include <errno.h>

/* ---- names ---- */

/* {image}, as it may be read. */
static int image_param(struct api_call *c, struct cove *cove, const char **ret, struct err *e)
{
	return api_image(c, cove, api_param(c, "image"), ret, e);
}

int api_own_image(struct api_call *c, const char *name, const char **ret, struct err *e)
{
	char clean[IMAGE_NAME_MAX + 1];
	int r;

	if (!name || !*name)
		return err_set(e, ERR_INVALID, EINVAL, "the image's 'name' is missing");
	r = image_name_clean(name, clean, e);
	if (r < 0)
		return r;
	if (strcmp(clean, IMAGE_HOST) == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'" IMAGE_HOST "' is no name for an image");
	return api_name(c, KEY_OF_IMAGE, name, ret, e);
}

const char *api_image_shown(const struct api_call *c, const char *name)
{
	const char *shown;

	return api_name_shown(c, KEY_OF_IMAGE, name, &shown) ? shown : name;
}

/* ---- looking ---- */

static bool image_cursor(const struct api_call *c, const void *row, char ret[API_CURSOR_SIZE])
{
	const struct cove_image_info *image = row;

	if (!image->name[0])
		return false;
	return str_copy(ret, API_CURSOR_SIZE, api_image_shown(c, image->name));
}

/* Whose is it: 1 the caller's, 0 of those that all share, -1 another key's. */
static int whose(const struct api_call *c, const char *name)
{
	if (api_name_shown(c, KEY_OF_IMAGE, name, NULL))
		return 1;
	return key_may_use_image(c->who.key->id, name) ? 0 : -1;
}

/* A name of the caller's own hides the same one of the operator's. */
static void leave_usable(const struct api_call *c, struct cove_image_info *rows, int count)
{
	for (int i = 0; i < count; i++) {
		int whose_row = whose(c, rows[i].name);

		for (int k = 0; k < count && whose_row == 0; k++) {
			const char *shown = NULL;

			if (api_name_shown(c, KEY_OF_IMAGE, rows[k].name, &shown) &&
			    strcmp(shown, rows[i].name) == 0)
				whose_row = -1;
		}
		if (whose_row < 0)
			rows[i].name[0] = 0;
	}
}

static int list_images(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_image_info *rows = NULL;
	struct cove_error err;
	int count = cove_images(cove, &rows, &err);

	if (!c->who.is_operator)
		leave_usable(c, rows, count);
	return api_put_rows(c,
			    &(struct api_rows){"images", view_image_fields, rows, sizeof(*rows),
					       count, image_cursor, NULL},
			    &err, e);
}

static int get_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	char *text = NULL;
	int r = image_param(c, cove, &name, e);

	if (r < 0)
		return r;
	r = cove_image_inspect(cove, name, &text, &err);
	return r < 0 ? api_failed(r, &err, e) : api_json_take(c, 200, text, e);
}

static int show_history(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_image_step *rows = NULL;
	struct cove_error err;
	const char *name;
	int r = image_param(c, cove, &name, e);

	if (r < 0)
		return r;
	r = cove_image_history(cove, name, &rows, &err);
	return api_put_rows(c,
			    &(struct api_rows){"steps", view_image_step_fields, rows, sizeof(*rows),
					       r, NULL, NULL},
			    &err, e);
}

/* ---- names of them ---- */

struct tag_in {
	const char *tag;
};
static const struct api_in_field tag_fields[] = {API_IN(tag_in, tag, STR), {NULL, 0, 0}};

int api_tag_take(struct api_call *c, const char **ret, struct err *e)
{
	struct tag_in in = {0};
	const struct api_in_table tables[] = {{tag_fields, &in}, {NULL, NULL}};
	int r = api_in_take(&c->memory, c->body, tables, e);

	*ret = in.tag;
	return r == 0 && !in.tag ? err_set(e, ERR_INVALID, EINVAL, "'tag' is missing") : r;
}

static int tag_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name, *tag;
	int r = api_tag_take(c, &tag, e);

	if (r == 0)
		r = image_param(c, cove, &name, e);
	if (r == 0)
		r = api_own_image(c, tag, &tag, e);
	if (r == 0)
		r = api_quota_hold_image(c, cove, tag, e);
	if (r < 0)
		return r;
	r = cove_image_tag(cove, name, tag, &err);
	api_quota_release(c);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* Of one that is none of the key's: it may use some that it may not remove. */
static bool is_shared(struct api_call *c, struct cove *cove, const char *own)
{
	const char *name;
	struct image image = {0};
	bool found = api_image(c, cove, api_param(c, "image"), &name, NULL) == 0 &&
		     strcmp(name, own) != 0 && image_find(&cove->state, name, &image, NULL) == 0;

	image_done(&image);
	return found;
}

static int remove_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_own_image(c, api_param(c, "image"), &name, e);

	if (r < 0)
		return r;
	r = cove_image_remove(cove, name, &err);
	if (r == -ENOENT && is_shared(c, cove, name))
		return err_set(e, ERR_DENIED, EACCES,
			       "image '%.80s' is shared by all keys, and the operator's to remove",
			       api_param(c, "image"));
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* What has just been made. In the place of another it stays, and nothing more is until it fits. */
static int check_fits(struct api_call *c, struct cove *cove, const char *image, struct err *e)
{
	struct cove_error err;
	uint64_t rest;
	int r = api_quota_rest(c, cove, &rest, e);

	if (r == 0 || !api_quota_holds_new(c))
		return 0;
	return cove_image_remove(cove, image, &err) < 0 ? api_failed(-err.code, &err, e) : r;
}

struct save_in {
	const char *image;
};
static const struct api_in_field save_fields[] = {API_IN(save_in, image, STR), {NULL, 0, 0}};

static int save_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct save_in in = {0};
	const struct api_in_table tables[] = {{save_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *box, *image;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_own_image(c, in.image, &image, e);
	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0)
		r = api_quota_hold_kept(c, cove, KEY_QUOTA_IMAGES, image, e);
	if (r < 0)
		return r;
	r = cove_image_save(cove, box, image, &err);
	r = r < 0 ? api_failed(r, &err, e) : check_fits(c, cove, image, e);
	api_quota_release(c);
	if (r < 0)
		return r;
	json_object_begin(api_json(c, 201));
	json_kv_str(&c->json, "name", image);
	json_kv_str(&c->json, "result", "saved");
	json_object_end(&c->json);
	return 0;
}

/* ---- archives ---- */

enum { PROGRESS_MS = 200 };

struct moving {
	struct api_progress p;
	uint64_t sent_ms;
};

static bool is_due(struct moving *m)
{
	uint64_t now = clock_mono_ms();

	if (m->p.fd < 0 || (m->sent_ms && now - m->sent_ms < PROGRESS_MS))
		return false;
	m->sent_ms = now;
	return true;
}

static bool on_archive(void *arg, const struct cove_image_progress *p)
{
	struct moving *m = arg;
	struct json *j;

	if (!is_due(m))
		return api_goes_on(m->p.c);
	j = api_progress_json(&m->p);
	json_object_begin(j);
	json_kv_str(j, "what", p->what);
	json_kv_u64(j, "done", p->done);
	json_kv_u64(j, "total", p->total);
	json_object_end(j);
	return api_progress_tell(&m->p, "progress");
}

static void put_imported(struct json *j, const struct cove_imported *list, int count)
{
	json_object_begin(j);
	json_key(j, "images");
	json_array_begin(j);
	for (int i = 0; i < count; i++) {
		json_object_begin(j);
		json_kv_str(j, "name", list[i].name);
		json_kv_str(j, "result", "imported");
		json_kv_str(j, "id", list[i].id);
		json_kv_str(j, "digest", list[i].digest[0] ? list[i].digest : NULL);
		json_kv_str(j, "config", list[i].config[0] ? list[i].config : NULL);
		json_kv_u64(j, "layers", list[i].layers);
		json_kv_u64(j, "bytes", list[i].bytes);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

/* What it may hold: what the caller says, and for a key no more than is left of its quota. */
static int take_max_size(struct api_call *c, struct cove *cove, uint64_t *ret, struct err *e)
{
	uint64_t rest = 0;
	int r = api_query_u64(c, "max_size", 0, ret, e);

	if (r == 0)
		r = api_quota_rest(c, cove, &rest, e);
	if (r == 0 && rest && (*ret == 0 || *ret > rest))
		*ret = rest;
	return r;
}

static int import_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct moving m = {0};
	struct cove_image_source from = {
		.size = sizeof(from), .fd = c->body_fd, .on_progress = on_archive, .arg = &m};
	struct cove_imported *list = NULL;
	struct cove_error err;
	int count, r = api_query(c, "name", &from.name, e);

	/* What an archive says itself would be a name of the operator's. */
	if (r == 0 && (from.name || !c->who.is_operator))
		r = api_own_image(c, from.name, &from.name, e);
	if (r == 0)
		r = api_query(c, "user", &from.user, e);
	if (r == 0)
		r = api_query(c, "platform", &from.platform, e);
	if (r == 0)
		r = api_quota_hold_kept(c, cove, KEY_QUOTA_IMAGES, from.name, e);
	if (r < 0)
		return r;
	r = take_max_size(c, cove, &from.max_size, e);
	if (r < 0) {
		api_quota_release(c);
		return r;
	}
	r = api_progress_begin(c, &m.p, e);
	if (r == 0) {
		from.cancel_fd = m.p.cancel_fd;
		count = r = cove_image_import_any(cove, &from, &list, &err);
		r = r < 0 ? api_failed(r, &err, e) : check_fits(c, cove, from.name, e);
		if (r == 0)
			put_imported(api_progress_json(&m.p), list, count);
		r = api_progress_end(&m.p, 201, r, e);
	}
	api_quota_release(c);
	free(list);
	return r;
}

static bool on_export(void *arg, const struct cove_image_progress *p)
{
	return api_goes_on(arg);
}

static int export_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_exported got = {.size = sizeof(got)};
	struct cove_image_target to = {.size = sizeof(to), .on_progress = on_export, .arg = c};
	struct cove_error err;
	struct image image;
	const char *name;
	int r = image_param(c, cove, &name, e);

	if (r == 0)
		r = api_query(c, "format", &to.format, e);
	if (r == 0 && to.format && strcmp(to.format, "oci") != 0 &&
	    strcmp(to.format, "docker") != 0 && strcmp(to.format, "tar") != 0)
		r = err_set(e, ERR_INVALID, EINVAL, "'format' is oci, docker or tar");
	if (r == 0) {
		/* Before the answer begins. */
		r = image_find(&cove->state, name, &image, e);
		image_done(&image);
	}
	if (r == 0)
		r = api_cancel_fd(c, &to.cancel_fd, e);
	c->type = "application/x-tar";
	if (r == 0)
		r = api_stream_open(c, &to.fd, e);
	if (r < 0)
		return r;
	r = cove_image_export(cove, name, &to, &got, &err);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

/* ---- registries ---- */

static bool on_pull(void *arg, const struct cove_pull_progress *p)
{
	struct moving *m = arg;
	struct json *j;

	if (!(p->layer && p->is_done) && !is_due(m))
		return api_goes_on(m->p.c);
	j = api_progress_json(&m->p);
	json_object_begin(j);
	json_kv_bool(j, "unpacking", p->is_unpacking);
	json_kv_str(j, "layer", p->layer);
	json_kv_u64(j, "have", p->have);
	json_kv_u64(j, "size", p->size);
	json_kv_bool(j, "done", p->is_done);
	json_kv_bool(j, "there", p->was_there);
	json_kv_u64(j, "layers", p->layers);
	json_kv_u64(j, "layers_done", p->layers_done);
	json_kv_u64(j, "all_have", p->all_have);
	json_kv_u64(j, "all_size", p->all_size);
	json_kv_u64(j, "fetched", p->fetched);
	json_object_end(j);
	return api_progress_tell(&m->p, "progress");
}

struct pull_in {
	const char *ref, *name, *platform;
	bool insecure;
	uint64_t stall_ms;
};
static const struct api_in_field pull_fields[] = {API_IN(pull_in, ref, STR),
						  API_IN(pull_in, name, STR),
						  API_IN(pull_in, platform, STR),
						  API_IN(pull_in, insecure, BOOL),
						  API_IN_AS(pull_in, "stall", stall_ms, MS),
						  {NULL, 0, 0}};

/* The operator's logins, proxies and networks are not a key's to use. */
static int tame_pull(struct api_call *c, const struct pull_in *in, struct cove_pull *how,
		     struct err *e)
{
	const char *ca = getenv("SSL_CERT_FILE");
	const char **env;

	if (c->who.is_operator)
		return 0;
	if (in->insecure)
		return err_set(e, ERR_DENIED, EACCES, "a key's images come over verified TLS");
	env = api_memory_get(&c->memory, 2 * sizeof(*env));
	if (!env)
		return err_errno(e, ENOMEM, "read the request");
	if (ca)
		env[0] = api_memory_printf(&c->memory, "SSL_CERT_FILE=%s", ca);
	how->env = env;
	how->public_only = true;
	return 0;
}

static void put_pulled(struct json *j, const struct cove_pulled *got, uint64_t spent_ms)
{
	json_object_begin(j);
	json_kv_str(j, "name", got->image);
	json_kv_str(j, "result", "pulled");
	json_kv_str(j, "digest", got->digest);
	json_kv_u64(j, "layers", got->layers);
	json_kv_u64(j, "layers_there", got->layers_there);
	json_kv_u64(j, "bytes", got->bytes);
	json_kv_u64(j, "fetched", got->fetched);
	json_kv_u64(j, "duration_ms", spent_ms);
	json_object_end(j);
}

static int pull_image(struct api_call *c, struct cove *cove, struct err *e)
{
	struct pull_in in = {0};
	const struct api_in_table tables[] = {{pull_fields, &in}, {NULL, NULL}};
	struct moving m = {0};
	struct cove_pulled got = {.size = sizeof(got)};
	struct cove_pull how = {.size = sizeof(how), .on_progress = on_pull, .arg = &m};
	uint64_t began_ms = clock_mono_ms();
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.ref)
		r = err_set(e, ERR_INVALID, EINVAL, "'ref' is missing: [HOST/]PATH[:TAG]");
	if (r == 0 && (in.name || !c->who.is_operator))
		r = api_own_image(c, in.name ? in.name : in.ref, &how.name, e);
	if (r == 0)
		r = tame_pull(c, &in, &how, e);
	if (r == 0)
		r = api_quota_hold_kept(c, cove, KEY_QUOTA_IMAGES, how.name, e);
	if (r < 0)
		return r;
	how.platform = in.platform;
	how.insecure = in.insecure;
	how.stall_ms = in.stall_ms;
	r = api_progress_begin(c, &m.p, e);
	if (r == 0) {
		how.cancel_fd = m.p.cancel_fd;
		r = cove_image_pull(cove, in.ref, &how, &got, &err);
		r = r < 0 ? api_failed(r, &err, e) : check_fits(c, cove, how.name, e);
		if (r == 0)
			put_pulled(api_progress_json(&m.p), &got, clock_mono_ms() - began_ms);
		r = api_progress_end(&m.p, 201, r, e);
	}
	api_quota_release(c);
	return r;
}

/* clang-format off */
const struct api_route api_image_routes[] = {
	{"GET", "/v1/images", "listImages", KEY_READ, .work = list_images},
	{"GET", "/v1/images/{image}", "getImage", KEY_READ, .work = get_image},
	{"GET", "/v1/images/{image}/history", "getImageHistory", KEY_READ, .work = show_history},
	{"GET", "/v1/images/{image}/export", "exportImage", KEY_READ, .work = export_image,
	 .streams = true},
	{"POST", "/v1/images/{image}/tags", "tagImage", KEY_IMAGES, API_BODY_JSON,
	 .work = tag_image},
	{"DELETE", "/v1/images/{image}", "removeImage", KEY_IMAGES, .work = remove_image},
	{"POST", "/v1/images/import", "importImage", KEY_IMAGES, API_BODY_BYTES,
	 .work = import_image, .streams = true},
	{"POST", "/v1/images/pull", "pullImage", KEY_IMAGES, API_BODY_JSON, .work = pull_image,
	 .streams = true},
	{"POST", "/v1/boxes/{box}/image", "saveImage", KEY_IMAGES, API_BODY_JSON,
	 .work = save_image, .streams = true, .lasts = true},
	{0}};
/* clang-format on */
