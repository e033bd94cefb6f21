/* Credentials that a box sends by itself; see credential.h. */
#include "door/credential.h"

#include "base/limits.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static const char protocol[] = "Sec-WebSocket-Protocol";

static const char *const headers[] = {
	/* of HTTP */
	"Authorization", "Proxy-Authorization", "Cookie", "Cookie2",
	/* by habit */
	"Authentication", "X-Authorization", "X-Forwarded-Authorization", "X-Api-Key", "X-ApiKey",
	"Api-Key", "ApiKey", "X-Api-Token", "X-Access-Token", "Access-Token", "X-Auth-Token",
	"X-Auth-Key", "X-Session-Token", "X-Subscription-Token", "X-User-Token", "X-Token",
	/* of one service each */
	"X-Goog-Api-Key", "X-Goog-Iam-Authorization-Token", "X-Amz-Security-Token",
	"X-Amz-Access-Token", "X-Ms-Authorization-Auxiliary", "Ocp-Apim-Subscription-Key",
	"X-Functions-Key", "X-Vault-Token", "X-Consul-Token", "X-Nomad-Token", "X-Registry-Auth",
	"Private-Token", "Job-Token", "Deploy-Token", "X-Gitlab-Token", "X-Github-Token",
	"X-Figma-Token", "X-Shopify-Access-Token", "X-Sentry-Auth", "X-Honeycomb-Team",
	"Dd-Api-Key", "Dd-Application-Key", "Xi-Api-Key", "Circle-Token", "Fastly-Key", NULL};
static const char *const parameters[] = {
	"access_token", "api_key", "api-key", "apikey", "auth_token", "oauth_token",
	"private_token", "subscription-key", "sig", "key", "AWSAccessKeyId",
	/* of signed requests */
	"X-Amz-Credential", "X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Credential",
	"X-Goog-Signature", NULL};
/* How an item of Sec-WebSocket-Protocol begins. */
static const char *const keys[] = {"openai-insecure-api-key.",
				   "base64url.bearer.authorization.k8s.io.", NULL};

static bool is_among(const char *const *list, const char *name)
{
	while (*list && strcasecmp(*list, name) != 0)
		list++;
	return *list;
}

bool credential_is_known(const char *name)
{
	return is_among(headers, name) || is_among(parameters, name) ||
	       strcasecmp(name, protocol) == 0;
}

static bool injects(const struct rule *rule, const char *header)
{
	for (size_t i = 0; rule && i < rule->inject_count; i++)
		if (rule->inject[i].header && strcasecmp(rule->inject[i].header, header) == 0)
			return true;
	return false;
}

static bool is_kept(const char *name, const struct rule *rule)
{
	for (size_t i = 0; rule && i < rule->kept_count; i++)
		if (strcasecmp(rule->kept[i], name) == 0)
			return true;
	return false;
}

/* The target without the parameters. The two texts take turns: each is the other without one. */
static int remove_parameters(struct http_head *h, const struct rule *rule)
{
	const char *mark = h->target ? strchr(h->target, '?') : NULL;
	struct buf bufs[2], *query = &bufs[0], *next = &bufs[1], *swap;
	size_t path = mark ? (size_t)(mark - h->target) : 0;
	int r = 0, removed = 0;

	if (!mark)
		return 0;
	buf_init(&bufs[0], DOOR_HEAD_MAX);
	buf_init(&bufs[1], DOOR_HEAD_MAX);
	r = buf_append_str(query, mark + 1);
	for (const char *const *p = parameters; *p && r >= 0; p++) {
		/* "key" is a word as any other but where Google's is injected. */
		if (is_kept(*p, rule) ||
		    (strcmp(*p, "key") == 0 && !injects(rule, "X-Goog-Api-Key")))
			continue;
		buf_clear(next);
		r = http_query_remove(buf_cstr(query), *p, next);
		if (r <= 0)
			continue;
		removed += r;
		swap = query;
		query = next;
		next = swap;
	}
	if (r >= 0 && removed > 0) {
		buf_clear(next);
		r = buf_append(next, h->target, path);
		if (r == 0 && buf_len(query) > 0)
			r = buf_append(next, "?", 1);
		if (r == 0)
			r = buf_append(next, buf_data(query), buf_len(query));
		if (r == 0)
			r = http_head_set_target(h, buf_cstr(next));
	}
	buf_done(&bufs[0]);
	buf_done(&bufs[1]);
	return r < 0 ? r : 0;
}

static bool is_key(const char *item, size_t n)
{
	for (const char *const *k = keys; *k; k++)
		if (n >= strlen(*k) && strncasecmp(item, *k, strlen(*k)) == 0)
			return true;
	return false;
}

/* A browser can set no header of a WebSocket but this list of names, so keys are put there. */
static int remove_protocols(struct http_head *h, const struct rule *rule)
{
	struct buf list;
	bool removed = false;
	int r = 0;

	if (!http_head_find(h, protocol) || is_kept(protocol, rule))
		return 0;
	buf_init(&list, DOOR_HEAD_MAX);
	for (size_t i = 0; i < h->field_count && r == 0; i++) {
		const char *p = h->fields[i].value;

		if (!http_name_is(h->fields[i].name, protocol))
			continue;
		for (size_t n; r == 0 && *p; p += n) {
			p += strspn(p, ", \t");
			n = strcspn(p, ", \t");
			if (n == 0)
				continue;
			if (is_key(p, n)) {
				removed = true;
				continue;
			}
			if (buf_len(&list) > 0)
				r = buf_append_str(&list, ", ");
			if (r == 0)
				r = buf_append(&list, p, n);
		}
	}
	if (r == 0 && removed) {
		http_head_remove(h, protocol);
		if (buf_len(&list) > 0)
			r = http_head_add(h, protocol, buf_cstr(&list));
	}
	buf_done(&list);
	return r;
}

int credentials_remove(struct http_head *h, const struct rule *rule)
{
	int r;

	for (const char *const *p = headers; *p; p++)
		if (!is_kept(*p, rule))
			http_head_remove(h, *p);
	r = remove_protocols(h, rule);
	return r < 0 ? r : remove_parameters(h, rule);
}
