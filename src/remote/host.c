/* Where a server is; see host.h. */
#include "remote/host.h"

#include "base/str.h"
#include "net/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES_MAX = 256 };

static int refuse(struct err *e, const char *text, const char *why)
{
	return err_set(e, ERR_INVALID, EINVAL,
		       "COVE_HOST='%.80s' %s: say unix:/PATH, http://HOST:PORT or https://HOST",
		       text, why);
}

/* "///run/x" is what a program makes of a path in a URL. */
static int parse_unix(struct remote_host *h, const char *path, const char *text, struct err *e)
{
	if (str_starts(path, "///"))
		path += 2;
	if (path[0] != '/' || !path[1])
		return refuse(e, text, "names no absolute path");
	if (!str_copy(h->path, sizeof(h->path), path))
		return refuse(e, text, "is too long a path for a socket");
	str_copy(h->authority, sizeof(h->authority), "localhost");
	return 0;
}

static bool is_prefix(const char *p)
{
	for (; *p; p++)
		if (*p <= ' ' || *p >= 0x7f || strchr("?#%\\\"<>", *p))
			return false;
	return true;
}

int remote_host_parse(struct remote_host *ret, const char *text, struct err *e)
{
	char authority[264];
	struct host host;
	const char *p;
	uint16_t port = 0;
	size_t n;

	*ret = (struct remote_host){0};
	if (str_starts(text, "unix:"))
		return parse_unix(ret, text + strlen("unix:"), text, e);
	ret->is_tls = str_starts(text, "https://");
	if (!ret->is_tls && !str_starts(text, "http://"))
		return refuse(e, text, "is no server");
	p = text + (ret->is_tls ? strlen("https://") : strlen("http://"));
	n = strcspn(p, "/");
	if (n == 0 || n >= sizeof(authority))
		return refuse(e, text, "names no host");
	memcpy(authority, p, n);
	authority[n] = 0;
	if (host_parse_authority(&host, authority, &port) < 0)
		return refuse(e, strchr(authority, '@') ? "..." : text, "names no host");
	p += n;
	n = strlen(p);
	while (n > 0 && p[n - 1] == '/')
		n--;
	if (n >= sizeof(ret->prefix) || !is_prefix(p))
		return refuse(e, text, "has a path that is none");
	memcpy(ret->prefix, p, n);
	ret->prefix[n] = 0;
	str_copy(ret->name, sizeof(ret->name), host.text);
	ret->is_v6 = host.is_address && strchr(host.text, ':');
	ret->port = port ? port : ret->is_tls ? 443 : 80;
	snprintf(ret->authority, sizeof(ret->authority), "%s%s%s:%u", ret->is_v6 ? "[" : "",
		 ret->name, ret->is_v6 ? "]" : "", ret->port);
	return 0;
}

int remote_key_check(char *key, const char *from, struct err *e)
{
	size_t n = strlen(key), start = strspn(key, " \t\r\n");

	while (n > start && strchr(" \t\r\n", key[n - 1]))
		n--;
	memmove(key, key + start, n - start);
	key[n - start] = 0;
	for (const char *p = key; *p; p++)
		if (*p <= ' ' || *p >= 0x7f)
			n = 0;
	if (key[0] && n > 0 && strlen(key) <= KEY_BYTES_MAX)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "%s holds no API key", from);
}
