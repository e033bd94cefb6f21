/* Heads that a reverse proxy passes on; see forward.h. */
#include "http/forward.h"

#include "http/cookie.h"
#include "http/text.h"

#include <stdio.h>
#include <string.h>

enum { VALUE_MAX = 64 << 10 };

/* Has the name this prefix, for those as well who read '_' as '-'? */
static bool begins_like(const char *name, const char *prefix)
{
	for (; *prefix; name++, prefix++)
		if ((*name == '_' ? '-' : http_lower(*name)) != *prefix)
			return false;
	return true;
}

/* What the client would say of itself, of the way it came, or of what it asked for. */
static bool is_ours_to_say(const char *name)
{
	static const char *const names[] = {
		"host",
		"content-length",
		"expect",
		"forwarded",
		"via",
		"x-real-ip",
		"x-client-ip",
		"true-client-ip",
		"x-host",
		"x-rewrite-url",
		"x-original-url",
		"x-original-uri",
		"x-original-host",
		"cdn-loop",
		"x-cluster-client-ip",
		NULL,
	};

	return http_name_among(name, names) || begins_like(name, "x-forwarded-");
}

static int add_number(struct http_head *h, const char *name, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return http_head_add(h, name, text);
}

/* Forwarded (RFC 7239). */
static int add_forwarded(struct http_head *h, const struct http_hop *hop)
{
	bool is_v6 = hop->client && strchr(hop->client, ':');
	struct buf b;
	int r = 0;

	buf_init(&b, VALUE_MAX);
	if (hop->client)
		r = buf_printf(&b, is_v6 ? "for=\"[%s]\";" : "for=%s;", hop->client);
	if (r == 0)
		r = buf_printf(&b, "host=\"%s\";proto=%s", hop->asked, hop->scheme);
	if (r == 0)
		r = http_head_add(h, "Forwarded", buf_cstr(&b));
	buf_done(&b);
	return r;
}

static int add_hop(struct http_head *h, const struct http_hop *hop)
{
	int r = http_head_add(h, "Host", hop->host);

	if (r == 0 && hop->client)
		r = http_head_add(h, "X-Forwarded-For", hop->client);
	if (r == 0)
		r = http_head_add(h, "X-Forwarded-Proto", hop->scheme);
	if (r == 0)
		r = http_head_add(h, "X-Forwarded-Host", hop->asked);
	if (r == 0 && hop->prefix)
		r = http_head_add(h, "X-Forwarded-Prefix", hop->prefix);
	if (r == 0)
		r = add_forwarded(h, hop);
	if (r == 0 && hop->framing == HTTP_LENGTH)
		r = add_number(h, "Content-Length", hop->length);
	if (r == 0 && hop->framing == HTTP_CHUNKED)
		r = http_head_add(h, "Transfer-Encoding", "chunked");
	if (r == 0 && hop->upgrades)
		r = http_head_add(h, "Upgrade", "websocket");
	if (r == 0)
		r = http_head_add(h, "Connection", hop->upgrades ? "Upgrade" : "close");
	return r;
}

int http_forward_request(const struct http_head *from, const struct http_hop *hop,
			 struct http_head *ret)
{
	int r = 0;

	*ret = (struct http_head){.method = from->method, .minor = 1};
	for (size_t i = 0; i < from->field_count && r == 0; i++)
		r = http_head_add(ret, from->fields[i].name, from->fields[i].value);
	http_head_strip_hop(ret);
	for (size_t i = 0; i < ret->field_count;) {
		if (is_ours_to_say(ret->fields[i].name))
			http_head_remove(ret, ret->fields[i].name);
		else
			i++;
	}
	if (r == 0)
		r = http_head_set_target(ret, hop->target);
	return r < 0 ? r : add_hop(ret, hop);
}

/* Never the server's to say, whatever name it answers under: how its bytes are framed, what the
 * browser does with other servers of that domain, where else they are to be had. */
static bool never_passes(const char *name)
{
	static const char *const names[] = {"content-length",
					    "alt-svc",
					    "clear-site-data",
					    "public-key-pins",
					    "x-request-id",
					    "cove-port",
					    "set-cookie2",
					    "proxy-authenticate",
					    NULL};

	return http_name_among(name, names);
}

/* What a browser keeps for, or applies to, the whole of a name. */
static bool is_for_site(const char *name)
{
	static const char *const names[] = {"set-cookie",
					    "strict-transport-security",
					    "service-worker-allowed",
					    "nel",
					    "report-to",
					    "reporting-endpoints",
					    "expect-ct",
					    "origin-agent-cluster",
					    "accept-ch",
					    "critical-ch",
					    NULL};

	return http_name_among(name, names) || begins_like(name, "access-control-");
}

static int add_cookie(struct http_head *h, const char *value, const char *const *own)
{
	struct buf b;
	int r;

	for (; *own; own++)
		if (http_set_cookie_is(value, *own))
			return 0;
	buf_init(&b, VALUE_MAX);
	r = http_set_cookie_host_only(value, &b);
	if (r == 0)
		r = http_head_add(h, "Set-Cookie", buf_cstr(&b));
	buf_done(&b);
	return r;
}

int http_forward_answer(const struct http_head *from, enum http_site site, const char *const *own,
			struct http_head *ret)
{
	static const struct http_field shared[] = {{"Content-Security-Policy", "sandbox"},
						   {"X-Content-Type-Options", "nosniff"},
						   {"Cross-Origin-Resource-Policy", "same-origin"}};
	int r = 0;

	*ret = (struct http_head){.status = from->status, .reason = "", .minor = 1};
	for (size_t i = 0; i < from->field_count && r == 0; i++) {
		const char *name = from->fields[i].name, *value = from->fields[i].value;

		if (never_passes(name) || (site == HTTP_SITE_SHARED && is_for_site(name)))
			continue;
		r = http_name_is(name, "set-cookie") ? add_cookie(ret, value, own)
						     : http_head_add(ret, name, value);
	}
	http_head_strip_hop(ret);
	if (r == 0 && from->status == 101)
		r = http_head_add(ret, "Upgrade", "websocket");
	for (size_t i = 0; site == HTTP_SITE_SHARED && from->status != 101 && i < 3 && r == 0; i++)
		r = http_head_add(ret, shared[i].name, shared[i].value);
	return r;
}
