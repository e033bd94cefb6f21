/* What may leave a box: policies, grants, questions to a person, secrets. */
#include "api/handlers.h"

#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"
#include "store/net.h"

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
int api_policy_file(struct cove *cove, const char *text, char path[600], struct err *e)
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
	if (r == 0 && in.net && net_names_file(in.net))
		r = err_set(e, ERR_DENIED, EACCES, "'net' is a preset here, no file");
	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0 && in.policy)
		r = api_may_reach(c, in.policy, true, e);
	if (r == 0 && in.policy)
		r = api_policy_file(cove, in.policy, path, e);
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
	if (r < 0)
		return api_failed(r, &err, e);
	json_object_begin(api_json(c, 200));
	json_kv_u64(&c->json, "cut", cut);
	json_object_end(&c->json);
	return 0;
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
	const char *value, *file, *command;
	uint64_t cache_ms;
};
static const struct api_in_field secret_fields[] = {API_IN(secret_in, value, STR),
						    API_IN(secret_in, file, STR),
						    API_IN(secret_in, command, STR),
						    API_IN_AS(secret_in, "cache", cache_ms, MS),
						    {NULL, 0, 0}};

/* Files and commands are of this machine. */
static int check_secret(struct api_call *c, const struct secret_in *in, struct err *e)
{
	if (!!in->value + !!in->file + !!in->command != 1)
		return err_set(e, ERR_INVALID, EINVAL, "'value' is missing");
	if (in->cache_ms && !in->command)
		return err_set(e, ERR_INVALID, EINVAL, "'cache' is of a 'command'");
	if (!in->value && !c->who.is_operator)
		return err_set(e, ERR_DENIED, EACCES,
			       "a key's secrets are values: files and commands are the server's");
	return 0;
}

static int keep_secret(struct cove *cove, const char *name, const struct secret_in *in,
		       struct cove_error *err)
{
	if (in->cache_ms)
		return cove_secret_set_command(cove, name, in->command, in->cache_ms, err);
	if (in->command)
		return cove_secret_set(cove, name, "command", in->command, strlen(in->command),
				       err);
	if (in->file)
		return cove_secret_set(cove, name, "file", in->file, strlen(in->file), err);
	return cove_secret_set(cove, name, "value", in->value, strlen(in->value), err);
}

static int secret_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct secret_in in = {0};
	const struct api_in_table tables[] = {{secret_fields, &in}, {NULL, NULL}};
	struct cove_error err;
	const char *name;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = check_secret(c, &in, e);
	if (r == 0)
		r = api_name(c, KEY_OF_SECRET, api_param(c, "secret"), &name, e);
	if (r == 0) {
		r = keep_secret(cove, name, &in, &err);
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
	 .work = secret_set, .secret = true},
	{"DELETE", "/v1/secrets/{secret}", "removeSecret", KEY_SECRETS, .work = secret_remove},
	{0}};
/* clang-format on */
