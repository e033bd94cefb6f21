/* What may leave a box: policies, grants, questions to a person, secrets, the audit log. */
#include "api/handlers.h"

#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* ---- policy ---- */

static int policy_get(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *box;
	char *text = NULL;
	int r = api_box(c, &box, e);

	if (r < 0)
		return r;
	r = cove_policy_text(cove, box, NULL, &text, &err);
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "policy", text);
	json_object_end(&c->json);
	free(text);
	return 0;
}

/* An address, or a network; a name has a letter and no second colon. */
static bool is_address(const char *p)
{
	const char *colon = strchr(p, ':');

	return *p == '[' || strchr(p, '/') || (colon && strchr(colon + 1, ':')) ||
	       p[strspn(p, "0123456789.:")] == 0;
}

int api_may_reach(const struct api_call *c, const char *text, bool is_policy, struct err *e)
{
	bool names_us = strcasestr(text, "cove.internal");

	if (c->who.is_operator)
		return 0;
	/* A backslash could spell any of these words another way. */
	if (names_us ||
	    (is_policy ? strcasestr(text, "private") || strchr(text, '\\') : is_address(text)))
		return err_set(e, ERR_DENIED, EACCES,
			       is_policy ? "a key's policy names public hosts: no 'private', no "
					   "host.cove.internal, no backslash"
					 : "a key lets its boxes reach public hosts by name, not "
					   "'%.80s'",
			       text);
	return 0;
}

/* libcove reads policies from files: this one is there for the time of the call. */
static int policy_file(struct cove *cove, const char *text, char path[600], struct err *e)
{
	autoclose int fd = -1;
	int r;

	snprintf(path, 600, "%s/.policy-XXXXXX", cove->state.run);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_errno(e, errno, "keep the policy for a moment");
	r = fd_write_full(fd, text, strlen(text));
	if (r < 0)
		unlink(path);
	return r < 0 ? err_errno(e, -r, "keep the policy for a moment") : 0;
}

/* Whoever sent the text knows no file. */
static void hide_path(struct err *e, const char *path)
{
	static const char word[] = "policy";
	char *at = *path ? strstr(e->msg, path) : NULL;

	if (!at)
		return;
	memmove(at + sizeof(word) - 1, at + strlen(path), strlen(at + strlen(path)) + 1);
	memcpy(at, word, sizeof(word) - 1);
}

struct policy_in {
	const char *net, *policy;
};
static const struct api_in_field policy_fields[] = {
	API_IN(policy_in, net, STR), API_IN(policy_in, policy, STR), {NULL, 0, 0}};

static int policy_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct policy_in in = {0};
	const struct api_in_table tables[] = {{policy_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *box;
	char path[600] = "";
	uint64_t cut = 0;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.net == !in.policy)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "give 'net', a preset, or 'policy', the text of one");
	if (r == 0 && in.net && strchr(in.net, '/'))
		r = err_set(e, ERR_DENIED, EACCES, "'net' is a preset here, no file");
	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0 && in.policy)
		r = api_may_reach(c, in.policy, true, e);
	if (r == 0 && in.policy)
		r = policy_file(cove, in.policy, path, e);
	if (r < 0)
		return r;
	r = cove_policy_apply(cove, box, in.policy ? path : in.net, c->who.by, &cut, &err);
	if (path[0])
		unlink(path);
	if (r < 0) {
		r = api_failed(r, &err, e);
		hide_path(e, path);
		return r;
	}
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "cut", cut);
	json_object_end(&c->json);
	return 0;
}

struct grant_in {
	const char *allow, *deny;
	bool once;
	uint64_t for_ms;
};
static const struct api_in_field grant_fields[] = {API_IN(grant_in, allow, STR),
						   API_IN(grant_in, deny, STR),
						   API_IN(grant_in, once, BOOL),
						   API_IN_AS(grant_in, "for", for_ms, MS),
						   {NULL, 0, 0}};

static int grant_make(struct api_call *c, struct cove *cove, struct err *e)
{
	struct grant_in in = {0};
	const struct api_in_table tables[] = {{grant_fields, &in}, {NULL, NULL}};
	struct cove_grant grant = {.size = sizeof(grant), .by = c->who.by};
	struct cove_error err;
	const char *box;
	uint64_t cut = 0;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.allow == !in.deny)
		r = err_set(e, ERR_INVALID, EINVAL, "give 'allow' or 'deny': \"HOST[:PORT]\"");
	if (r == 0 && in.allow)
		r = api_may_reach(c, in.allow, false, e);
	if (r == 0)
		r = api_box(c, &box, e);
	if (r < 0)
		return r;
	grant.allow = in.allow;
	grant.pattern = in.allow ? in.allow : in.deny;
	grant.once = in.once;
	grant.for_ms = in.for_ms;
	r = cove_grant(cove, box, &grant, &cut, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- questions ---- */

static bool put_ask(void *arg, const struct cove_ask *ask)
{
	struct api_call *c = arg;
	char *text;

	if (!api_name_shown(c, KEY_OF_BOX, ask->box, NULL))
		return true;
	text = cove_ask_json(ask);
	if (text)
		json_raw(&c->json, text);
	free(text);
	return api_goes_on(c);
}

static int ask_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *box;
	int r = api_query(c, "box", &box, e);

	if (r == 0)
		r = api_name(c, KEY_OF_BOX, box, &box, e);
	if (r < 0)
		return r;
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "asks");
	json_array_begin(&c->json);
	r = cove_asks(cove, box, put_ask, c, &err);
	json_array_end(&c->json);
	json_object_end(&c->json);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

struct answer_in {
	bool allow;
	uint64_t for_ms;
};
static const struct api_in_field answer_fields[] = {
	API_IN(answer_in, allow, BOOL), API_IN_AS(answer_in, "for", for_ms, MS), {NULL, 0, 0}};

static int ask_answer(struct api_call *c, struct cove *cove, struct err *e)
{
	struct answer_in in = {0};
	const struct api_in_table tables[] = {{answer_fields, &in}, {NULL, NULL}};
	struct cove_answer answer = {.size = sizeof(answer), .by = c->who.by};
	struct cove_error err;
	const char *box;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !json_is_boolean(json_object_get(c->body, "allow")))
		r = err_set(e, ERR_INVALID, EINVAL, "'allow' is true or false");
	if (r == 0 && !str_parse_u64(api_param(c, "ask"), INT64_MAX, &answer.id))
		r = err_set(e, ERR_INVALID, EINVAL, "an ask is a number");
	if (r == 0)
		r = api_box(c, &box, e);
	if (r < 0)
		return r;
	answer.allow = in.allow;
	answer.for_ms = in.for_ms;
	r = cove_answer(cove, box, &answer, NULL, NULL, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- secrets: values come, and are never shown again ---- */

static int secret_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_secret_info *rows = NULL;
	struct cove_error err;
	const char *shown;
	int count = cove_secrets(cove, &rows, &err);

	if (count < 0)
		return api_failed(count, &err, e);
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "secrets");
	json_array_begin(&c->json);
	for (int i = 0; i < count; i++) {
		if (!api_name_shown(c, KEY_OF_SECRET, rows[i].name, &shown))
			continue;
		json_object_begin(&c->json);
		json_kv_str(&c->json, "name", shown);
		json_kv_str(&c->json, "source", rows[i].source);
		json_kv_u64(&c->json, "changed_ms", rows[i].changed_ms);
		json_object_end(&c->json);
	}
	json_array_end(&c->json);
	json_object_end(&c->json);
	free(rows);
	return 0;
}

struct secret_in {
	const char *value;
};
static const struct api_in_field secret_fields[] = {API_IN(secret_in, value, STR), {NULL, 0, 0}};

static int secret_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct secret_in in = {0};
	const struct api_in_table tables[] = {{secret_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *name;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.value)
		r = err_set(e, ERR_INVALID, EINVAL, "'value' is missing");
	if (r == 0)
		r = api_name(c, KEY_OF_SECRET, api_param(c, "secret"), &name, e);
	if (r == 0) {
		r = cove_secret_set(cove, name, "value", in.value, strlen(in.value), &err);
		if (r < 0)
			api_failed(r, &err, e);
	}
	if (in.value)
		explicit_bzero((char *)(uintptr_t)in.value, strlen(in.value));
	return r < 0 ? r : api_no_content(c);
}

static int secret_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_error err;
	const char *name;
	int r = api_name(c, KEY_OF_SECRET, api_param(c, "secret"), &name, e);

	if (r < 0)
		return r;
	r = cove_secret_remove(cove, name, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* ---- the audit log ---- */

enum { AUDIT_ROWS_MAX = 10000 };

struct audit_rows {
	struct api_call *call;
	uint64_t after, count, limit;
};

static bool put_row(void *arg, const struct cove_audit_row *row)
{
	struct audit_rows *a = arg;
	char *text;

	if (!row)
		return api_goes_on(a->call);
	if (!api_name_shown(a->call, KEY_OF_BOX, row->box, NULL) || row->seq <= a->after)
		return true;
	text = cove_audit_row_json(row);
	if (text)
		json_raw(&a->call->json, text);
	free(text);
	return ++a->count < a->limit && api_goes_on(a->call);
}

static int audit_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_audit_options o = {.size = sizeof(o)};
	struct audit_rows rows = {.call = c};
	struct cove_error err;
	int r = api_query(c, "box", &o.box, e);

	if (r == 0)
		r = api_query_bool(c, "denied", &o.denied_only, e);
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
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "rows");
	json_array_begin(&c->json);
	r = cove_audit(cove, &o, put_row, &rows, &err);
	json_array_end(&c->json);
	json_object_end(&c->json);
	return r < 0 ? api_failed(r, &err, e) : 0;
}

/* clang-format off */
const struct api_route api_network_routes[] = {
	{"GET", "/v1/boxes/{box}/policy", "getPolicy", KEY_READ, .work = policy_get},
	{"PUT", "/v1/boxes/{box}/policy", "setPolicy", KEY_NETWORK, API_BODY_JSON,
	 .work = policy_set},
	{"POST", "/v1/boxes/{box}/grants", "grant", KEY_NETWORK, API_BODY_JSON,
	 .work = grant_make},
	{"GET", "/v1/asks", "listAsks", KEY_READ, .work = ask_list},
	{"POST", "/v1/boxes/{box}/asks/{ask}", "answerAsk", KEY_NETWORK, API_BODY_JSON,
	 .work = ask_answer},
	{"GET", "/v1/secrets", "listSecrets", KEY_SECRETS, .work = secret_list},
	{"PUT", "/v1/secrets/{secret}", "setSecret", KEY_SECRETS, API_BODY_JSON,
	 .work = secret_set},
	{"DELETE", "/v1/secrets/{secret}", "removeSecret", KEY_SECRETS, .work = secret_remove},
	{"GET", "/v1/audit", "listAudit", KEY_AUDIT, .work = audit_list},
	{0}};
/* clang-format on */
