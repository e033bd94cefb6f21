/* Credentials that a box sends by itself; see credential.h. */
#include "door/credential.h"

#include "base/limits.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum credential_place { IN_HEADER, IN_QUERY, IN_PROTOCOL };

struct credential {
	enum credential_place place;
	const char *name; /* IN_PROTOCOL: how an item of Sec-WebSocket-Protocol begins */
	const char *with; /* not NULL: only where the rule injects this header */
};

static const char protocol[] = "Sec-WebSocket-Protocol";

static const struct credential known[] = {
	/* of HTTP */
	{IN_HEADER, "Authorization", NULL},
	{IN_HEADER, "Proxy-Authorization", NULL},
	{IN_HEADER, "Cookie", NULL},
	{IN_HEADER, "Cookie2", NULL},
	/* by habit */
	{IN_HEADER, "Authentication", NULL},
	{IN_HEADER, "X-Authorization", NULL},
	{IN_HEADER, "X-Forwarded-Authorization", NULL},
	{IN_HEADER, "X-Api-Key", NULL},
	{IN_HEADER, "X-ApiKey", NULL},
	{IN_HEADER, "Api-Key", NULL},
	{IN_HEADER, "ApiKey", NULL},
	{IN_HEADER, "X-Api-Token", NULL},
	{IN_HEADER, "X-Access-Token", NULL},
	{IN_HEADER, "Access-Token", NULL},
	{IN_HEADER, "X-Auth-Token", NULL},
	{IN_HEADER, "X-Auth-Key", NULL},
	{IN_HEADER, "X-Session-Token", NULL},
	{IN_HEADER, "X-Subscription-Token", NULL},
	{IN_HEADER, "X-User-Token", NULL},
	{IN_HEADER, "X-Token", NULL},
	/* of one service each */
	{IN_HEADER, "X-Goog-Api-Key", NULL},
	{IN_HEADER, "X-Goog-Iam-Authorization-Token", NULL},
	{IN_HEADER, "X-Amz-Security-Token", NULL},
	{IN_HEADER, "X-Amz-Access-Token", NULL},
	{IN_HEADER, "X-Ms-Authorization-Auxiliary", NULL},
	{IN_HEADER, "Ocp-Apim-Subscription-Key", NULL},
	{IN_HEADER, "X-Functions-Key", NULL},
	{IN_HEADER, "X-Vault-Token", NULL},
	{IN_HEADER, "X-Consul-Token", NULL},
	{IN_HEADER, "X-Nomad-Token", NULL},
	{IN_HEADER, "X-Registry-Auth", NULL},
	{IN_HEADER, "Private-Token", NULL},
	{IN_HEADER, "Job-Token", NULL},
	{IN_HEADER, "Deploy-Token", NULL},
	{IN_HEADER, "X-Gitlab-Token", NULL},
	{IN_HEADER, "X-Github-Token", NULL},
	{IN_HEADER, "X-Figma-Token", NULL},
	{IN_HEADER, "X-Shopify-Access-Token", NULL},
	{IN_HEADER, "X-Sentry-Auth", NULL},
	{IN_HEADER, "X-Honeycomb-Team", NULL},
	{IN_HEADER, "Dd-Api-Key", NULL},
	{IN_HEADER, "Dd-Application-Key", NULL},
	{IN_HEADER, "Xi-Api-Key", NULL},
	{IN_HEADER, "Circle-Token", NULL},
	{IN_HEADER, "Fastly-Key", NULL},
	{IN_QUERY, "access_token", NULL},
	{IN_QUERY, "api_key", NULL},
	{IN_QUERY, "api-key", NULL},
	{IN_QUERY, "apikey", NULL},
	{IN_QUERY, "auth_token", NULL},
	{IN_QUERY, "oauth_token", NULL},
	{IN_QUERY, "private_token", NULL},
	{IN_QUERY, "subscription-key", NULL},
	{IN_QUERY, "X-Amz-Credential", NULL},
	{IN_QUERY, "X-Amz-Signature", NULL},
	{IN_QUERY, "X-Amz-Security-Token", NULL},
	{IN_QUERY, "AWSAccessKeyId", NULL},
	{IN_QUERY, "X-Goog-Credential", NULL},
	{IN_QUERY, "X-Goog-Signature", NULL},
	{IN_QUERY, "sig", NULL},
	/* Elsewhere it is a word as any other. */
	{IN_QUERY, "key", "X-Goog-Api-Key"},
	{IN_PROTOCOL, "openai-insecure-api-key.", NULL},
	{IN_PROTOCOL, "base64url.bearer.authorization.k8s.io.", NULL},
};
enum { KNOWN_COUNT = sizeof(known) / sizeof(known[0]) };

bool credential_is_known(const char *name)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		if (known[i].place != IN_PROTOCOL && strcasecmp(known[i].name, name) == 0)
			return true;
	return strcasecmp(name, protocol) == 0;
}

static bool injects(const struct rule *rule, const char *header)
{
	for (size_t i = 0; rule && i < rule->inject_count; i++)
		if (rule->inject[i].header && strcasecmp(rule->inject[i].header, header) == 0)
			return true;
	return false;
}

static bool is_kept(const struct credential *c, const struct rule *rule)
{
	const char *name = c->place == IN_PROTOCOL ? protocol : c->name;

	if (c->with && !injects(rule, c->with))
		return true;
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
	for (size_t i = 0; i < KNOWN_COUNT && r >= 0; i++) {
		if (known[i].place != IN_QUERY || is_kept(&known[i], rule))
			continue;
		buf_clear(next);
		r = http_query_remove(buf_cstr(query), known[i].name, next);
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

static bool is_key(const char *item, size_t n, const struct rule *rule)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		if (known[i].place == IN_PROTOCOL && n >= strlen(known[i].name) &&
		    strncasecmp(item, known[i].name, strlen(known[i].name)) == 0)
			return !is_kept(&known[i], rule);
	return false;
}

/* A browser can set no header of a WebSocket but this list of names, so keys are put there. */
static int remove_protocols(struct http_head *h, const struct rule *rule)
{
	struct buf list;
	bool removed = false;
	int r = 0;

	if (!http_head_find(h, protocol))
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
			removed |= is_key(p, n, rule);
			if (is_key(p, n, rule))
				continue;
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

	for (size_t i = 0; i < KNOWN_COUNT; i++)
		if (known[i].place == IN_HEADER && !is_kept(&known[i], rule))
			http_head_remove(h, known[i].name);
	r = remove_protocols(h, rule);
	return r < 0 ? r : remove_parameters(h, rule);
}
