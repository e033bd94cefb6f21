/* Webhooks: where events go. They are sent by the server (server/hooks.h). */
#include "api/handlers.h"
#include "core/view.h"

#include <errno.h>

struct webhook_in {
	const char *url, *label, *box;
	const char *const *types;
};
static const struct api_in_field webhook_fields[] = {API_IN(webhook_in, url, STR),
						     API_IN(webhook_in, label, STR),
						     API_IN(webhook_in, box, STR),
						     API_IN(webhook_in, types, LIST),
						     {NULL, 0, 0}};

static int webhook_create(struct api_call *c, struct cove *cove, struct err *e)
{
	struct webhook_in in = {0};
	const struct api_in_table tables[] = {{webhook_fields, &in}, {NULL, NULL}};
	struct cove_webhook_options o = {.size = sizeof(o), .owner = api_owner(c)};
	struct cove_webhook_made made = {.size = sizeof(made)};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.url)
		r = err_set(e, ERR_INVALID, EINVAL, "'url' is missing");
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.box, &o.box, e);
	for (size_t i = 0; r == 0 && in.types && in.types[i]; i++) {
		o.types = api_memory_printf(&c->memory, "%s%s%s", o.types ? o.types : "",
					    o.types ? "," : "", in.types[i]);
		r = o.types ? 0 : err_errno(e, ENOMEM, "read the request");
	}
	if (r < 0)
		return r;
	o.url = in.url;
	o.label = in.label;
	r = cove_webhook_create(cove, &o, &made, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 201));
	json_kv_str(&c->json, "id", made.id);
	json_kv_str(&c->json, "secret", made.secret);
	json_object_end(&c->json);
	explicit_bzero(&made, sizeof(made));
	return 0;
}

static int list_hooks(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_webhook_info *rows = NULL;
	struct cove_error err;
	int count = cove_webhooks(cove, api_owner(c), &rows, &err);

	return api_put_rows(c,
			    &(struct api_rows){"webhooks", view_webhook_fields, rows, sizeof(*rows),
					       count, NULL, NULL},
			    &err, e);
}

static int webhook_inspect(struct api_call *c, struct cove *cove, struct err *e)
{
	const char *id = api_param(c, "webhook");
	struct cove_webhook_info *rows = NULL;
	struct cove_error err;
	char *log = NULL, *rest;
	int count, r = cove_webhook_log(cove, id, api_owner(c), &log, &err);

	if (r < 0)
		return api_failed(r, &err, e);
	count = cove_webhooks(cove, api_owner(c), &rows, &err);
	if (count < 0) {
		free(log);
		return api_failed(count, &err, e);
	}
	json_object_begin(api_json(c, 200));
	for (int i = 0; i < count; i++)
		if (strcmp(rows[i].id, id) == 0)
			wire_fields_json(&c->json, view_webhook_fields, &rows[i]);
	json_key(&c->json, "deliveries");
	json_array_begin(&c->json);
	for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		json_raw(&c->json, line);
	json_array_end(&c->json);
	json_object_end(&c->json);
	free(rows);
	free(log);
	return 0;
}

static int remove_hook(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	int r = cove_webhook_remove(cove, api_param(c, "webhook"), api_owner(c), &err);

	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

static int webhook_enable(struct api_call *c, struct cove *cove, struct err *e)
{
	static const struct api_in_field none[] = {{NULL, 0, 0}};
	const struct api_in_table tables[] = {{none, c}, {NULL, NULL}};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r < 0)
		return r;
	r = cove_webhook_enable(cove, api_param(c, "webhook"), api_owner(c), &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* clang-format off */
const struct api_route api_webhook_routes[] = {
	{"POST", "/v1/webhooks", "createWebhook", KEY_NETWORK, API_BODY_JSON,
	 .work = webhook_create, .secret = true},
	{"GET", "/v1/webhooks", "listWebhooks", KEY_READ, .work = list_hooks},
	{"GET", "/v1/webhooks/{webhook}", "getWebhook", KEY_READ, .work = webhook_inspect},
	{"POST", "/v1/webhooks/{webhook}/enable", "enableWebhook", KEY_NETWORK, API_BODY_JSON,
	 .work = webhook_enable},
	{"DELETE", "/v1/webhooks/{webhook}", "removeWebhook", KEY_NETWORK, .work = remove_hook},
	{0}};
/* clang-format on */
