/* What a rule adds to a request: headers, query parameters, Basic, a client certificate. Only the
 * form is checked here; inject.c renders. See policy.h. */
#include "base/str.h"
#include "door/credential.h"
#include "door/policy_form.h"
#include "store/secret.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static const char token_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				  "!#$%&'*+-.^_`|~";
static const char param_chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				  "-._~";

/* Those that say how a message is framed or where it goes are the door's. */
static bool is_reserved(const char *name)
{
	static const char *const reserved[] = {
		"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",
		"TE",	"Trailer",	  "Upgrade",	       "Expect",     "Accept-Encoding",
		NULL};

	for (size_t i = 0; reserved[i]; i++)
		if (strcasecmp(name, reserved[i]) == 0)
			return true;
	return strncasecmp(name, "Proxy-", 6) == 0 || strncasecmp(name, "Content-", 8) == 0;
}

static int add_secret(struct policy_reading *x, const struct entry *r, unsigned line,
		      const char *name, size_t n)
{
	struct policy *p = x->policy;
	const char *copy;

	for (size_t i = 0; i < p->secret_count; i++)
		if (strlen(p->secrets[i].name) == n && memcmp(p->secrets[i].name, name, n) == 0)
			return 0;
	if (p->secret_count == DOOR_SECRETS_MAX)
		return source_error(&x->src, line, "more than %u secrets in one policy",
				    DOOR_SECRETS_MAX);
	copy = arena_strdup(&p->arena, name, n);
	if (!copy)
		return source_no_memory(&x->src);
	p->secrets[p->secret_count++] = (struct secret_use){copy, &r->rule};
	return 0;
}

/* "{{ secret.NAME }}" at p: its length, or 0; the name is *ret_name. */
static size_t reference(const char *p, const char **ret_name, size_t *ret_len)
{
	const char *q = p + 2;

	q += strspn(q, " ");
	if (!str_starts(q, "secret."))
		return 0;
	q += strlen("secret.");
	*ret_name = q;
	*ret_len = strspn(q, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
	q += *ret_len;
	q += strspn(q, " ");
	if (*ret_len == 0 || *ret_len > SECRET_NAME_MAX ||
	    ((*ret_name)[0] >= '0' && (*ret_name)[0] <= '9') || !str_starts(q, "}}"))
		return 0;
	return (size_t)(q + 2 - p);
}

static int read_template(struct policy_reading *x, const struct entry *r,
			 const struct policy_node *v, struct value_template *ret)
{
	int rc = reading_text(x, v, &ret->text);

	if (rc < 0)
		return rc;
	for (const char *p = ret->text; *p; p++) {
		const char *name;
		size_t used, n;

		if ((unsigned char)*p > '~')
			return source_error(&x->src, v->line, "'%.40s' may hold ASCII only",
					    v->key);
		if (!str_starts(p, "{{") && !str_starts(p, "}}"))
			continue;
		used = *p == '{' ? reference(p, &name, &n) : 0;
		if (!used)
			return source_error(&x->src, v->line,
					    "'%.40s': a secret is written {{ secret.NAME }}",
					    v->key);
		rc = add_secret(x, r, v->line, name, n);
		if (rc < 0)
			return rc;
		p += used - 1;
	}
	if (ret->text[0] == ' ' || ret->text[strlen(ret->text) - 1] == ' ')
		return source_error(&x->src, v->line, "'%.40s' has a space at an end", v->key);
	return 0;
}

static int add(struct policy_reading *x, struct entry *r, const struct policy_node *v,
	       const struct rule_inject *one)
{
	struct rule_inject *all = (struct rule_inject *)(uintptr_t)r->rule.inject;

	for (size_t i = 0; i < r->rule.inject_count; i++)
		if (one->header && all[i].header && !strcasecmp(one->header, all[i].header))
			return source_error(&x->src, v->key_line,
					    "the header %.40s is injected twice; keep one",
					    one->header);
	all[r->rule.inject_count++] = *one;
	return 0;
}

static int read_field(struct policy_reading *x, struct entry *r, const struct policy_node *v,
		      bool header)
{
	const char *name = arena_strdup(&x->policy->arena, v->key, strlen(v->key));
	struct rule_inject one = {.header = header ? name : NULL, .query = header ? NULL : name};
	size_t n = strspn(v->key, header ? token_chars : param_chars);
	int rc;

	if (!name)
		return source_no_memory(&x->src);
	if (n == 0 || v->key[n])
		return source_error(&x->src, v->key_line, "'%.40s' is no name of a %s", v->key,
				    header ? "header" : "query parameter");
	if (header && is_reserved(v->key))
		return source_error(&x->src, v->key_line,
				    "the header %.40s is the door's own; it cannot be injected",
				    v->key);
	rc = read_template(x, r, v, &one.value);
	return rc < 0 ? rc : add(x, r, v, &one);
}

static int read_basic(struct policy_reading *x, struct entry *r, const struct policy_node *map)
{
	static const char *const names[] = {"user", "password", NULL};
	struct rule_inject one = {.header = "Authorization"};
	int rc = reading_map(x, map);

	for (const struct policy_node *v = map->first; rc == 0 && v; v = v->next) {
		if (strcmp(v->key, "password") == 0)
			rc = read_template(x, r, v, &one.value);
		else if (strcmp(v->key, "user") != 0)
			rc = reading_unknown(x, v, names);
		else
			rc = reading_text(x, v, &one.basic_user);
		if (rc == 0 && one.basic_user &&
		    (strchr(one.basic_user, ':') || strstr(one.basic_user, "{{")))
			rc = source_error(&x->src, v->line, "'user' is plain text without a colon");
	}
	if (rc == 0 && (!one.basic_user || !one.value.text))
		rc = source_error(&x->src, map->line, "'basic' needs 'user' and 'password'");
	return rc < 0 ? rc : add(x, r, map, &one);
}

int inject_parse(struct policy_reading *x, struct entry *r, const struct policy_node *map)
{
	static const char *const names[] = {"headers", "query", "basic", NULL};
	int rc = reading_map(x, map);

	if (rc < 0)
		return rc;
	r->rule.inject =
		arena_array(&x->policy->arena, 2 * POLICY_KEYS_MAX + 1, sizeof(*r->rule.inject));
	if (!r->rule.inject)
		return source_no_memory(&x->src);
	for (const struct policy_node *v = map->first; rc == 0 && v; v = v->next) {
		bool header = strcmp(v->key, "headers") == 0;

		if (strcmp(v->key, "basic") == 0) {
			rc = read_basic(x, r, v);
			continue;
		}
		if (!header && strcmp(v->key, "query") != 0)
			return reading_unknown(x, v, names);
		rc = reading_map(x, v);
		for (const struct policy_node *i = v->first; rc == 0 && i; i = i->next)
			rc = read_field(x, r, i, header);
	}
	return rc;
}

static const char *check_known(const char *text)
{
	return credential_is_known(text)
		       ? NULL
		       : "is none of the credentials that are removed; docs/policy.md lists them";
}

int pass_parse(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	struct texts kept = {0};
	int rc = reading_texts(x, v, &kept, check_known);

	r->rule.kept = kept.items;
	r->rule.kept_count = kept.count;
	return rc;
}

int client_cert_parse(struct policy_reading *x, struct entry *r, const struct policy_node *map)
{
	static const char *const names[] = {"cert", "key", NULL};
	int rc = reading_map(x, map);

	for (const struct policy_node *v = map->first; rc == 0 && v; v = v->next) {
		bool cert = strcmp(v->key, "cert") == 0;
		struct value_template *t = cert ? &r->rule.client_cert : &r->rule.client_key;
		const char *name;
		size_t n;

		if (!cert && strcmp(v->key, "key") != 0)
			return reading_unknown(x, v, names);
		rc = read_template(x, r, v, t);
		if (rc == 0 && (!str_starts(t->text, "{{") ||
				reference(t->text, &name, &n) != strlen(t->text)))
			rc = source_error(&x->src, v->line, "'%s' must be one {{ secret.NAME }}",
					  v->key);
	}
	if (rc == 0 && (!r->rule.client_cert.text || !r->rule.client_key.text))
		rc = source_error(&x->src, map->line, "'client_cert' needs 'cert' and 'key'");
	return rc;
}
