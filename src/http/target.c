/* Where a request goes: the four forms of a target, hosts and ports; see http.h. */
#include "http/text.h"

#include "base/limits.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_MAX = 63, PORT_MAX = 65535, PORT_DIGITS_MAX = 5 };

static int bad(struct err *e, const char *what)
{
	return http_refuse(e, -EINVAL, 400, "%s", what);
}

static bool copy_name(const char *p, size_t n, char ret[256])
{
	struct in_addr addr;
	const char *last;
	size_t label = 0;

	if (n > 0 && p[n - 1] == '.')
		n--;
	if (n == 0 || n > DNS_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = http_lower(p[i]);
		bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		ret[i] = c;
		if (c == '.' && label == 0)
			return false;
		if (c != '.' && ((!letter && c != '-' && c != '_') || label == LABEL_MAX))
			return false;
		label = c == '.' ? 0 : label + 1;
	}
	ret[n] = '\0';
	if (label == 0)
		return false;
	/* A last label that some would take for a number is only good in four plain ones. */
	last = strrchr(ret, '.') ? strrchr(ret, '.') + 1 : ret;
	if (last[0] == '0' && last[1] == 'x')
		return last[2 + strspn(last + 2, "0123456789abcdef")] != '\0';
	return last[strspn(last, "0123456789")] != '\0' || inet_pton(AF_INET, ret, &addr) == 1;
}

/* ":443" or nothing. */
static bool parse_port(const char *p, size_t n, unsigned *ret)
{
	unsigned port = 0;

	*ret = 0;
	if (n == 0)
		return true;
	if (n < 2 || n > 1 + PORT_DIGITS_MAX || p[0] != ':' || p[1] == '0')
		return false;
	for (size_t i = 1; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		port = port * 10 + (unsigned)(p[i] - '0');
	}
	*ret = port;
	return port <= PORT_MAX;
}

/* Host and port of n bytes. A host that was given with its user is refused like any other that has
 * a byte which names do not have. */
static int parse_authority(const char *p, size_t n, char host[256], unsigned *ret_port,
			   struct err *e)
{
	const char *end = n > 0 && p[0] == '[' ? memchr(p, ']', n) : memchr(p, ':', n);
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;
	size_t len;
	bool ok;

	if (n > 0 && p[0] == '[') {
		if (!end)
			return bad(e, "an address without its closing bracket");
		len = (size_t)(end - p) + 1;
		/* Without its brackets, in the one form that inet_ntop gives it. */
		ok = len > 2 && len - 2 < sizeof(text);
		snprintf(text, sizeof(text), "%.*s", ok ? (int)len - 2 : 0, p + 1);
		ok = ok && inet_pton(AF_INET6, text, &addr) == 1 &&
		     inet_ntop(AF_INET6, &addr, host, 256);
	} else {
		len = end ? (size_t)(end - p) : n;
		ok = copy_name(p, len, host);
	}
	if (!ok)
		return bad(e, "a host that is neither a plain name nor an address");
	if (!parse_port(p + len, n - len, ret_port))
		return bad(e, "a bad port");
	return 0;
}

static void set_path(struct http_target *t, const char *p)
{
	t->path = p;
	t->path_len = strcspn(p, "?");
	t->query = p[t->path_len] ? p + t->path_len + 1 : NULL;
}

/* Behind the scheme. Host must say the same, with the scheme's own port where none is given. */
static int parse_absolute(const struct http_head *h, const char *p, struct http_target *t,
			  struct err *e)
{
	unsigned usual = t->scheme[4] ? 443 : 80, port;
	size_t n = strcspn(p, "/?");
	char host[256];
	int r;

	memcpy(host, t->host, sizeof(host));
	port = t->port;
	r = parse_authority(p, n, t->host, &t->port, e);
	if (r < 0)
		return r;
	if (strcmp(host, t->host) != 0 || (port ? port : usual) != (t->port ? t->port : usual))
		return bad(e, "a target and a Host that differ");
	set_path(t, p + n);
	if (t->path_len == 0) {
		bool all = !t->query && strcmp(h->method, "OPTIONS") == 0;

		t->path = all ? "*" : "/";
		t->path_len = 1;
	}
	return 0;
}

/* Old clients send no Host with CONNECT, or one without the port. */
static int parse_connect(const struct http_head *h, const char *value, struct http_target *t,
			 struct err *e)
{
	unsigned port = t->port;
	char host[256];
	int r;

	memcpy(host, t->host, sizeof(host));
	r = parse_authority(h->target, strlen(h->target), t->host, &t->port, e);
	if (r < 0)
		return r;
	if (t->port == 0)
		return bad(e, "a CONNECT without a port");
	if (value && (strcmp(host, t->host) != 0 || (port && port != t->port)))
		return bad(e, "a target and a Host that differ");
	t->path = "";
	return 0;
}

int http_target_parse(const struct http_head *h, struct http_target *ret, struct err *e)
{
	const char *value = http_head_find(h, "host");
	bool connect = strcmp(h->method, "CONNECT") == 0;
	const char *colon = strstr(h->target, "://");
	size_t scheme = colon ? (size_t)(colon - h->target) : 0; /* its length */
	struct http_target t = {0};
	int r = 0;

	if (!value && !connect)
		return bad(e, "no Host");
	if (value)
		r = parse_authority(value, strlen(value), t.host, &t.port, e);
	if (r < 0)
		return r;
	if (strchr(h->target, '#'))
		return bad(e, "a fragment in a target");
	if (connect) {
		r = parse_connect(h, value, &t, e);
	} else if (h->target[0] == '/' ||
		   (strcmp(h->target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0)) {
		set_path(&t, h->target);
	} else if (http_token_is(h->target, scheme, "http") ||
		   http_token_is(h->target, scheme, "https")) {
		memcpy(t.scheme, "https", scheme);
		r = parse_absolute(h, colon + 3, &t, e);
	} else {
		r = bad(e, "a target that is neither a path nor an http address");
	}
	if (r == 0)
		*ret = t;
	return r;
}
