/*
 * Requests to ports by name: <port>-<box>.<domain>; see ports.h.
 *
 * A browser sends a cookie by itself, also where a page of another box made it ask. So a cookie
 * counts for what that very page asks for, and for going there, and for nothing else: an Origin is
 * that of the name, and what Sec-Fetch-Site tells from another one is the navigation of a tab.
 */
#include "api/call.h"
#include "api/ports.h"

#include "http/cookie.h"
#include "store/record.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

enum { COOKIES_MAX = 8, LABEL_MAX = 63 };

static int call_named(struct api_call *c, struct err *e);

static const struct api_route named = {
	"*", "", "callPort", KEY_RUN, API_BODY_STREAM, .now = call_named};

/* ---- names ---- */

bool api_port_name(const char *domain, const char *box, unsigned port, char ret[PORT_NAME_SIZE])
{
	const char *plain = key_name_plain(KEY_OF_BOX, box);
	char label[PORT_NAME_SIZE];
	int n;

	if (plain == box)
		n = snprintf(label, sizeof(label), "%u-%s", port, box);
	else
		n = snprintf(label, sizeof(label), "%u-%.*s--%s", port, (int)KEY_ID_SIZE - 1, box,
			     plain);
	if (n < 0 || n > LABEL_MAX)
		return false;
	n = snprintf(ret, PORT_NAME_SIZE, "%s.%s", label, domain);
	return n > 0 && n < PORT_NAME_SIZE;
}

static bool is_below(const char *domain, const char *host, size_t *ret_len)
{
	size_t n = strlen(host), m = domain ? strlen(domain) : 0;

	if (m == 0 || n < m + 2 || host[n - m - 1] != '.' || strcasecmp(host + n - m, domain) != 0)
		return false;
	*ret_len = n - m - 1;
	return true;
}

bool api_port_name_parse(const char *domain, const char *host, char ret_box[BOX_NAME_MAX + 1],
			 unsigned *ret_port)
{
	char label[LABEL_MAX + 1], id[KEY_ID_SIZE] = "", *name;
	uint64_t port;
	size_t n;

	if (!is_below(domain, host, &n) || n > LABEL_MAX)
		return false;
	snprintf(label, sizeof(label), "%.*s", (int)n, host);
	name = strchr(label, '-');
	if (!name || label[0] == '0')
		return false;
	*name++ = 0;
	if (!str_parse_u64(label, UINT16_MAX, &port) || port == 0)
		return false;
	snprintf(id, sizeof(id), "%.*s", (int)KEY_ID_SIZE - 1, name);
	n = strlen(id);
	if (str_is_key_id(id) && str_starts(name + n, "--")) {
		name += n + 2;
		if (key_name_in(id, KEY_OF_BOX, name, (char[KEY_NAME_SIZE]){0}, NULL) < 0)
			return false;
		snprintf(ret_box, BOX_NAME_MAX + 1, "%s_%s", id, name);
	} else if (!str_copy(ret_box, BOX_NAME_MAX + 1, name)) {
		return false;
	}
	*ret_port = (unsigned)port;
	return str_is_plain_name(name, BOX_NAME_MAX);
}

bool api_host_is_port(const struct api *a, const char *host)
{
	size_t n;

	return is_below(a->options.domain, host, &n) && !memchr(host, '.', n);
}

bool api_port_is_named(const struct api_call *c)
{
	struct http_target target;

	return c->api->options.domain && http_target_parse(&c->head, &target, NULL) == 0 &&
	       api_host_is_port(c->api, target.host);
}

bool api_port_is_tls(const struct api_call *c)
{
	return c->client.is_tls || (c->api->options.domain_scheme &&
				    strcmp(c->api->options.domain_scheme, "https") == 0);
}

/* ---- the query ---- */

/* Takes a link out of the query, which the box does not see. */
static int take_link(struct api_call *c, struct api_port_ask *ask, const struct http_target *t,
		     struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, API_OUT_MAX);
	c->query = t->query;
	r = api_query(c, PORT_LINK_QUERY, &ask->link, NULL);
	/* A query that is not well escaped is the box's to judge; it holds no link. */
	if (r == -EINVAL)
		r = 0;
	if (r == 0 && t->query)
		r = http_query_remove(t->query, PORT_LINK_QUERY, &b);
	if (r >= 0)
		ask->target = api_memory_printf(&c->memory, "%.*s%s%s", (int)t->path_len, t->path,
						buf_len(&b) > 0 ? "?" : "",
						buf_len(&b) > 0 ? buf_cstr(&b) : "");
	buf_done(&b);
	return r >= 0 && ask->target ? 0 : err_errno(e, ENOMEM, "read the request");
}

/* ---- who asks ---- */

bool api_port_is_key(const char *value)
{
	return strcasestr(value, "cove_") || strcasestr(value, "e2b_");
}

/* Fields may hold a key of ours, or what the program in the box asks for. */
static int take_key(struct api_call *c, const char **ret, struct err *e)
{
	static const char *const names[] = {"Authorization", "X-API-Key"};
	unsigned count = 0;

	for (size_t i = 0; i < c->head.field_count; i++) {
		const struct http_field *f = &c->head.fields[i];

		for (size_t k = 0; k < 2; k++) {
			const char *v = f->value;

			if (!http_name_is(f->name, names[k]) || !api_port_is_key(v))
				continue;
			if (k == 0 && strncasecmp(v, "Bearer ", 7) == 0)
				v += 7 + strspn(v + 7, " ");
			*ret = v;
			count++;
		}
	}
	if (count > 1)
		return err_set(e, ERR_DENIED, EKEYREJECTED, "the request has more than one key");
	return 0;
}

/* Is the page that asks the name's own, or does a person go there? */
static bool is_own_page(const struct api_call *c)
{
	const char *origin = http_head_find(&c->head, "Origin");
	const char *host = http_head_find(&c->head, "Host");
	const char *site = http_head_find(&c->head, "Sec-Fetch-Site");
	const char *mode = http_head_find(&c->head, "Sec-Fetch-Mode");
	const char *dest = http_head_find(&c->head, "Sec-Fetch-Dest");
	const char *at = origin ? strstr(origin, "://") : NULL;

	if (origin && (!at || !host || strcasecmp(at + 3, host) != 0))
		return false;
	if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
		return true;
	return strcmp(c->method, "GET") == 0 && mode && strcmp(mode, "navigate") == 0 && dest &&
	       strcmp(dest, "document") == 0;
}

static bool has_cookie(struct api_call *c, const struct api_port_ask *ask)
{
	const char *name = api_port_is_tls(c) ? PORT_COOKIE_TLS : PORT_COOKIE, *token;
	uint64_t left_ms;
	size_t len;

	for (size_t i = 0; i < COOKIES_MAX; i++) {
		token = http_cookie_find(&c->head, name, i, &len);
		if (!token)
			return false;
		if (api_port_link_take(c, ask, token, len, &left_ms))
			return true;
	}
	return false;
}

/* Does the box say that everybody may? */
static bool is_public(struct api_call *c, const struct api_port_ask *ask)
{
	size_t n = strlen(PORT_PUBLIC_LABEL "=");
	struct record record;
	bool is = false;

	if (record_load(&c->api->cove->state, ask->box, &record, NULL) < 0)
		return false;
	for (size_t i = 0; i < record.spec.label_count && !is; i++) {
		const char *v = record.spec.labels[i];
		char number[8];

		if (!str_starts(v, PORT_PUBLIC_LABEL "="))
			continue;
		is = strcmp(v + n, "all") == 0;
		snprintf(number, sizeof(number), "%u", ask->number);
		for (v += n; *v && !is; v += strcspn(v, ",") + (v[strcspn(v, ",")] == ','))
			is = strcspn(v, ",") == strlen(number) && str_starts(v, number);
	}
	record_done(&record);
	if (is)
		str_copy(c->who.by, sizeof(c->who.by), "anybody");
	return is;
}

static int none(struct err *e)
{
	return err_set(e, ERR_DENIED, EKEYREJECTED,
		       "this port needs a key, or a link to it: POST /v1/boxes/{box}/port-links");
}

static int admit(struct api_call *c, struct api_port_ask *ask, struct err *e)
{
	const char *token = NULL;
	int r = take_key(c, &token, e);

	if (r < 0)
		return r;
	if (token) {
		r = api_caller_take(c, token, e);
		if (r == 0)
			r = api_caller_may(&c->who, KEY_RUN, e);
		if (r == 0 && !api_name_shown(c, KEY_OF_BOX, ask->box, NULL))
			r = err_set(e, ERR_NOT_FOUND, ENOENT, "there is no such box");
		return r;
	}
	ask->is_visitor = true;
	if (ask->link && api_port_link_take(c, ask, ask->link, strlen(ask->link), &ask->link_ms))
		return 0;
	ask->link = NULL;
	if (api_caller_is_local(c, &c->client)) {
		ask->is_visitor = false;
		return 0;
	}
	if (has_cookie(c, ask)) {
		if (is_own_page(c))
			return 0;
		return err_set(e, ERR_DENIED, EACCES,
			       "a page of another name may not use this one's cookie");
	}
	return is_public(c, ask) ? 0 : none(e);
}

/* ---- a link becomes a cookie ---- */

/* Does a person open it? Without TLS browsers do not say so themselves. */
static bool is_visit(const struct api_call *c)
{
	const char *mode = http_head_find(&c->head, "Sec-Fetch-Mode");
	const char *accept = http_head_find(&c->head, "Accept");

	if (strcmp(c->method, "GET") != 0)
		return false;
	return mode ? strcmp(mode, "navigate") == 0 : accept && strstr(accept, "text/html");
}

static int call_named(struct api_call *c, struct err *e)
{
	const struct api_port_ask *ask = c->port;
	/* "//" would be another server's name. */
	bool is_double = ask->target[1] == '/' || ask->target[1] == '\\';
	const char *cookie, *location;

	if (!ask->link || !is_visit(c))
		return api_proxy(c, e);
	location = api_memory_printf(&c->memory, "%s%s", is_double ? "/." : "", ask->target);
	cookie = api_memory_printf(
		&c->memory, "%s=%s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%llu%s",
		api_port_is_tls(c) ? PORT_COOKIE_TLS : PORT_COOKIE, ask->link,
		(unsigned long long)(ask->link_ms / 1000), api_port_is_tls(c) ? "; Secure" : "");
	if (!location || !cookie)
		return err_errno(e, ENOMEM, "write the answer");
	api_field(c, "Location", location);
	api_field(c, "Set-Cookie", cookie);
	api_field(c, "Cache-Control", "no-store");
	api_field(c, "Referrer-Policy", "no-referrer");
	c->status = 303;
	return 0;
}

int api_port_admit(struct api_call *c, struct err *e)
{
	struct api_port_ask *ask = api_memory_get(&c->memory, sizeof(*ask));
	struct http_target t;
	int r = http_target_parse(&c->head, &t, e);

	str_copy(c->who.by, sizeof(c->who.by), "no key");
	if (r < 0)
		return r;
	c->path = api_memory_printf(&c->memory, "%.*s", (int)t.path_len, t.path);
	if (!ask || !c->path)
		return err_errno(e, ENOMEM, "read the request");
	ask->by_name = true;
	if (t.path[0] != '/')
		return err_set(e, ERR_INVALID, EINVAL, "a port takes no such request");
	if (t.path_len > API_PATH_MAX)
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the path is longer than %d bytes",
			       API_PATH_MAX);
	if (!api_port_name_parse(c->api->options.domain, t.host, ask->box, &ask->number))
		return none(e);
	r = take_link(c, ask, &t, e);
	if (r == 0)
		r = admit(c, ask, e);
	if (r < 0)
		return r;
	c->route = &named;
	c->port = ask;
	return 0;
}
