/* What may leave a server's boxes: policies, grants, questions to a person, secrets. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "core/view.h"
#include "remote/remote.h"
#include "store/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of a policy file of this machine; "-" is stdin. */
static int read_policy(const char *path, char **ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0;
	ssize_t n;
	int r = 0;

	if (strcmp(path, "-") == 0) {
		text = calloc(1, DOOR_POLICY_MAX + 2);
		n = text ? fd_read_full(STDIN_FILENO, text, DOOR_POLICY_MAX + 1) : -ENOMEM;
		len = n < 0 ? 0 : (size_t)n;
		r = n < 0 ? (int)n : len > DOOR_POLICY_MAX ? -EFBIG : 0;
	} else {
		r = fd_read_file(AT_FDCWD, path, DOOR_POLICY_MAX, &text, &len);
	}
	if (r < 0)
		return err_errno(e, -r, "read policy '%.120s'", path);
	if (strlen(text) != len || !str_is_utf8(text, len))
		return err_set(e, ERR_INVALID, EINVAL, "'%.120s' is no text", path);
	*ret = take_ptr(text);
	return 0;
}

/* ---- policies ---- */

bool cove_policy_is_preset(const char *name)
{
	return net_is_preset(name);
}

int cove_policy_check_file(struct cove *cove, const char *path, cove_on_warning *on_warning,
			   void *arg, struct cove_error *err)
{
	autofree char *text = NULL;
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	const json_t *warnings;
	int r = read_policy(path, &text, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/policies/check");
	q.repeats = true;
	json_kv_str(remote_object(&q), "policy", text);
	r = remote_call(&q, &o, &e);
	warnings = json_object_get(o, "warnings");
	for (size_t i = 0; i < json_array_size(warnings) && on_warning; i++)
		if (json_is_string(json_array_get(warnings, i)))
			on_warning(arg, json_string_value(json_array_get(warnings, i)));
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_policy_text(struct cove *cove, const char *box, const char *preset, char **ret_text,
		     struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	const char *text;
	int r;

	if (box)
		remote_begin(&q, cove, "GET", "/v1/boxes/{}/policy", box);
	else
		remote_begin(&q, cove, "GET", "/v1/policies/{}", preset ? preset : "default");
	r = remote_call(&q, &o, &e);
	text = remote_text(o, box ? "policy" : "text");
	if (r == 0 && !text)
		r = err_set(&e, ERR_PROTOCOL, EPROTO, "the server's answer holds no policy");
	if (r == 0 && !(*ret_text = strdup(text)))
		r = err_errno(&e, ENOMEM, "keep a policy");
	json_decref(o);
	return remote_return(r, &e, err);
}

static void on_group(const json_t *o, void *row)
{
	struct cove_policy_group *group = row;

	remote_take_joined(json_object_get(o, "hosts"), ' ', group->hosts, sizeof(group->hosts));
}

int cove_policy_groups(struct cove *cove, struct cove_policy_group **ret, struct cove_error *err)
{
	static const struct wire_named_field fields[] = {FIELD_ALWAYS(cove_policy_group, name),
							 FIELD_ALWAYS(cove_policy_group, summary),
							 {0}};
	const struct remote_list list = {.path = "/v1/policy-groups",
					 .key = "groups",
					 .fields = fields,
					 .size = sizeof(**ret),
					 .on_row = on_group};

	return remote_list_all(cove, &list, (void **)ret, err);
}

int cove_policy_apply(struct cove *cove, const char *box, const char *net, const char *by,
		      uint64_t *ret_cut, struct cove_error *err)
{
	autofree char *text = NULL;
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	bool is_file = strchr(net, '/') || strcmp(net, "-") == 0;
	int r = is_file ? read_policy(net, &text, &e) : 0;

	if (r == 0) {
		remote_begin(&q, cove, "PUT", "/v1/boxes/{}/policy", box);
		q.repeats = true;
		json_kv_str(remote_object(&q), is_file ? "policy" : "net", is_file ? text : net);
		r = remote_call(&q, &o, &e);
	}
	if (r == 0 && ret_cut)
		*ret_cut = remote_number(o, "cut");
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_policy_suggest(struct cove *cove, const char *box, struct cove_suggestion *ret,
			struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, "GET", "/v1/boxes/{}/policy/suggestion", box);
	r = remote_call(&q, &o, &e);
	if (r == 0 && !remote_text(o, "text"))
		r = err_set(&e, ERR_PROTOCOL, EPROTO, "the server's answer holds no policy");
	if (r == 0) {
		ret->denied = remote_number(o, "denied");
		ret->rules = remote_number(o, "rules");
		ret->remarks = remote_number(o, "remarks");
		ret->text = strdup(remote_text(o, "text"));
		r = ret->text ? 0 : err_errno(&e, ENOMEM, "keep a policy");
	}
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_policy_set_default(struct cove *cove, const char *net, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	if (strchr(net, '/'))
		return remote_return(remote_absent(&e, "a file as what boxes have without --net"),
				     &e, err);
	remote_begin(&q, cove, "PUT", "/v1/policies/default");
	q.repeats = true;
	json_kv_str(remote_object(&q), "net", net);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

/* ---- grants ---- */

int cove_grant(struct cove *cove, const char *box, const struct cove_grant *given,
	       uint64_t *ret_cut, struct cove_error *err)
{
	struct cove_grant g;
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r = core_copy_sized(&g, sizeof(g), given, &e);

	if (r == 0) {
		remote_begin(&q, cove, "POST", "/v1/boxes/{}/grants", box);
		q.repeats = !g.once;
		json_kv_str(remote_object(&q), g.allow ? "allow" : "deny", g.pattern);
		remote_put_bool(&q.json, "once", g.once);
		remote_put_amount(&q.json, "for", g.for_ms);
		r = remote_call(&q, &o, &e);
	}
	if (r == 0 && ret_cut)
		*ret_cut = remote_number(o, "cut");
	json_decref(o);
	return remote_return(r, &e, err);
}

/* ---- questions ---- */

int cove_asks(struct cove *cove, const char *box, cove_on_ask *on_ask, void *arg,
	      struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	const json_t *list;
	bool more = true;
	int r;

	remote_begin(&q, cove, "GET", "/v1/asks");
	remote_query(&q, "box", box);
	r = remote_call(&q, &o, &e);
	list = json_object_get(o, "asks");
	for (size_t i = 0; i < json_array_size(list) && more; i++) {
		struct cove_ask ask = {0};

		remote_take(json_array_get(list, i), view_ask_fields, &ask);
		if (ask.host && on_ask)
			more = on_ask(arg, &ask);
	}
	json_decref(o);
	return remote_return(r, &e, err);
}

struct ask_search {
	uint64_t id;
	cove_on_ask *on_scope;
	void *arg;
};

/* What was asked, for who answers. */
static bool on_candidate(void *arg, const struct cove_ask *ask)
{
	struct ask_search *s = arg;
	struct cove_ask shown = *ask;

	if (ask->id != s->id)
		return true;
	shown.box = NULL;
	s->on_scope(s->arg, &shown);
	return false;
}

int cove_answer(struct cove *cove, const char *box, const struct cove_answer *given,
		cove_on_ask *on_scope, void *arg, struct cove_error *err)
{
	struct cove_answer a;
	struct remote_request q;
	struct err e = {0};
	char id[24];
	int r = core_copy_sized(&a, sizeof(a), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	/* Before it is answered: then it is no question any more. */
	if (on_scope) {
		struct ask_search s = {a.id, on_scope, arg};

		r = cove_asks(cove, box, on_candidate, &s, err);
		if (r < 0)
			return r;
	}
	snprintf(id, sizeof(id), "%llu", (unsigned long long)a.id);
	remote_begin(&q, cove, "POST", "/v1/boxes/{}/asks/{}", box, id);
	json_kv_bool(remote_object(&q), "allow", a.allow);
	remote_put_amount(&q.json, "for", a.for_ms);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

/* ---- secrets ---- */

static int set_secret(struct cove *cove, const char *name, const char *source, const char *text,
		      size_t len, uint64_t cache_ms, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	if (strlen(text) != len || !str_is_utf8(text, len))
		return remote_return(err_set(&e, ERR_UNSUPPORTED, EILSEQ,
					     "a secret that is no text cannot be set through a "
					     "server"),
				     &e, err);
	remote_begin(&q, cove, "PUT", "/v1/secrets/{}", name);
	q.repeats = true;
	q.is_secret = true;
	remote_note(&q, buf_set_secret(&q.body, true));
	json_kv_str(remote_object(&q), source, text);
	remote_put_amount(&q.json, "cache", cache_ms);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_secret_set(struct cove *cove, const char *name, const char *source, const void *data,
		    size_t len, struct cove_error *err)
{
	autofree char *text = strndup(data, len);
	struct err e = {0};
	int r;

	if (!text)
		return remote_return(err_errno(&e, ENOMEM, "keep a secret"), &e, err);
	r = set_secret(cove, name, source, text, len, 0, err);
	explicit_bzero(text, strlen(text));
	return r;
}

int cove_secret_set_command(struct cove *cove, const char *name, const char *line,
			    uint64_t cache_ms, struct cove_error *err)
{
	return set_secret(cove, name, "command", line, strlen(line), cache_ms, err);
}

int cove_secret_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/secrets/{}", name);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_secrets(struct cove *cove, struct cove_secret_info **ret, struct cove_error *err)
{
	static const struct wire_named_field fields[] = {
		FIELD_ALWAYS(cove_secret_info, name),	    FIELD_ALWAYS(cove_secret_info, source),
		FIELD_ALWAYS(cove_secret_info, changed_ms), FIELD_ALWAYS(cove_secret_info, where),
		FIELD_ALWAYS(cove_secret_info, cache_ms),   {0}};

	return remote_rows(cove, "/v1/secrets", "secrets", NULL, fields, sizeof(**ret),
			   (void **)ret, err);
}

/* ---- the audit log ---- */

enum { AUDIT_PAGE = 10000 };

struct rows_seen {
	cove_on_row *on_row;
	void *arg;
};

static bool give_row(const struct rows_seen *s, const json_t *o)
{
	struct cove_audit_row row = {0};

	remote_take(o, view_audit_fields, &row);
	return !row.box || s->on_row(s->arg, &row);
}

static bool on_audit_event(void *arg, const char *name, const char *data, size_t len)
{
	json_t *o = strcmp(name, "row") == 0 ? json_loadb(data, len, 0, NULL) : NULL;
	bool more = !o || give_row(arg, o);

	json_decref(o);
	return more;
}

int cove_audit(struct cove *cove, const struct cove_audit_options *given, cove_on_row *on_row,
	       void *arg, struct cove_error *err)
{
	struct rows_seen s = {on_row, arg};
	struct cove_audit_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	const json_t *list;
	bool more = true;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "GET", "/v1/audit");
	remote_query(&q, "box", o.box);
	remote_query_bool(&q, "denied", o.denied_only);
	remote_query_bool(&q, "follow", o.follow);
	remote_query_u64(&q, "since_ms", o.since_ms);
	if (o.follow)
		return remote_return(remote_call_events(&q, on_audit_event, &s, &e), &e, err);
	remote_query_u64(&q, "limit", AUDIT_PAGE);
	r = remote_call(&q, &answer, &e);
	list = json_object_get(answer, "rows");
	for (size_t i = 0; i < json_array_size(list) && more; i++)
		more = give_row(&s, json_array_get(list, i));
	if (r == 0 && more && json_array_size(list) == AUDIT_PAGE)
		r = err_set(&e, ERR_LIMIT, E2BIG,
			    "there is more than a server tells at once: name a box, or --since");
	json_decref(answer);
	return remote_return(r, &e, err);
}

int cove_audit_verify(struct cove *cove, const char *box, struct cove_audit_report *ret,
		      struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, "POST", "/v1/audit/verify");
	q.repeats = true;
	remote_put_str(remote_object(&q), "box", box);
	r = remote_call(&q, &o, &e);
	ret->rows = remote_number(o, "rows");
	ret->dropped = remote_number(o, "dropped");
	ret->cut = remote_number(o, "cut");
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_audit_delete(struct cove *cove, const char *box, uint64_t before_ms, const char *by,
		      uint64_t *ret_rows, struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, "DELETE", "/v1/audit");
	remote_query(&q, "box", box);
	remote_query_u64(&q, "before_ms", before_ms);
	r = remote_call(&q, &o, &e);
	if (r == 0 && ret_rows)
		*ret_rows = remote_number(o, "rows");
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_audit_keep(struct cove *cove, const uint64_t *set_ms, uint64_t *ret_ms,
		    struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};
	json_t *o = NULL;
	int r;

	remote_begin(&q, cove, set_ms ? "PUT" : "GET", "/v1/audit/keep");
	q.repeats = true;
	if (set_ms)
		json_kv_u64(remote_object(&q), "keep", *set_ms);
	r = remote_call(&q, &o, &e);
	if (r == 0 && ret_ms)
		*ret_ms = remote_number(o, "keep_ms");
	json_decref(o);
	return remote_return(r, &e, err);
}
