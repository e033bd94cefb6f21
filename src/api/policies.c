/* Policies that are no box's: presets, groups, the default; checks and suggestions. */
#include "api/handlers.h"

#include "core/core.h"
#include "core/view.h"
#include "store/net.h"

#include <errno.h>
#include <unistd.h>

static void group_more(struct json *j, const void *row)
{
	const struct cove_policy_group *g = row;

	view_words_json(j, "hosts", g->hosts, ' ');
}

static int group_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_policy_group *rows = NULL;
	struct cove_error err;
	int count = cove_policy_groups(cove, &rows, &err);

	return api_put_rows(c,
			    &(struct api_rows){"groups", view_policy_group_fields, rows,
					       sizeof(*rows), count, NULL, group_more},
			    &err, e);
}

/* A preset, a group, or a preset with groups; "default" is what boxes have without one. A key gets
 * the rules of that, and not what the operator noted beside them. */
static int named_get(struct api_call *c, struct cove *cove, struct err *e)
{
	const char *name = api_param(c, "policy");
	bool is_default = strcmp(name, "default") == 0;
	struct cove_error err;
	char *text = NULL;
	int r;

	r = cove_policy_text(cove, NULL, is_default ? NULL : name, &text, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	if (is_default && !c->who.is_operator)
		net_drop_comments(text);
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "name", name);
	json_kv_str(&c->json, "text", text);
	json_object_end(&c->json);
	free(text);
	return 0;
}

struct default_in {
	const char *net;
};
static const struct api_in_field default_fields[] = {API_IN(default_in, net, STR), {NULL, 0, 0}};

static int default_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct default_in in = {0};
	const struct api_in_table tables[] = {{default_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.net)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "'net' is missing: a preset, or a file of the server's machine");
	if (r < 0)
		return r;
	r = cove_policy_set_default(cove, in.net, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- check ---- */

struct check_in {
	const char *policy;
};
static const struct api_in_field check_fields[] = {API_IN(check_in, policy, STR), {NULL, 0, 0}};

static void on_warning(void *arg, const char *text)
{
	struct api_call *c = arg;

	json_str(&c->json, text);
}

/* With the operator's secrets, and what is worth a thought. */
static int check_as_operator(struct api_call *c, struct cove *cove, const char *text, struct err *e)
{
	struct cove_error err;
	char path[600] = "";
	int r = api_policy_file(cove, text, path, e);

	if (r < 0)
		return r;
	r = cove_policy_check_file(cove, path, on_warning, c, &err);
	unlink(path);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

static int policy_check(struct api_call *c, struct cove *cove, struct err *e)
{
	struct check_in in = {0};
	const struct api_in_table tables[] = {{check_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.policy)
		r = err_set(e, ERR_INVALID, EINVAL, "'policy', its text, is missing");
	if (r == 0)
		r = api_may_reach(c, in.policy, true, e);
	if (r < 0)
		return r;
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "result", "valid");
	json_key(&c->json, "warnings");
	json_array_begin(&c->json);
	if (c->who.is_operator) {
		r = check_as_operator(c, cove, in.policy, e);
	} else {
		r = cove_policy_check_of(cove, api_owner(c), "policy", in.policy, strlen(in.policy),
					 &err);
		if (r < 0)
			api_failed(r, &err, e);
	}
	json_array_end(&c->json);
	json_object_end(&c->json);
	return r;
}

/* ---- suggest ---- */

static int policy_suggest(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_suggestion got = {.size = sizeof(got)};
	struct cove_error err;
	const char *box;
	int r = api_box(c, &box, e);

	if (r < 0)
		return r;
	r = cove_policy_suggest(cove, box, &got, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "name", box);
	json_kv_u64(&c->json, "denied", got.denied);
	json_kv_u64(&c->json, "rules", got.rules);
	json_kv_u64(&c->json, "remarks", got.remarks);
	json_kv_str(&c->json, "text", got.text);
	json_object_end(&c->json);
	free(got.text);
	return 0;
}

/* clang-format off */
const struct api_route api_policy_routes[] = {
	{"GET", "/v1/policy-groups", "listPolicyGroups", KEY_READ, .work = group_list},
	{"GET", "/v1/policies/{policy}", "getNamedPolicy", KEY_READ, .work = named_get},
	{"PUT", "/v1/policies/default", "setDefaultPolicy", KEY_ADMIN, API_BODY_JSON,
	 .work = default_set},
	{"POST", "/v1/policies/check", "checkPolicy", KEY_READ, API_BODY_JSON,
	 .work = policy_check},
	{"GET", "/v1/boxes/{box}/policy/suggestion", "suggestPolicy", KEY_READ,
	 .work = policy_suggest},
	{0}};
/* clang-format on */
