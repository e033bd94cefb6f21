/* URLs of http and https; see url.h. */
#include "base/url.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool take_host(struct url *u, const char *p, size_t n)
{
	bool is_v6 = n > 2 && p[0] == '[' && p[n - 1] == ']';

	p += is_v6;
	n -= is_v6 ? 2 : 0;
	if (n == 0 || n >= sizeof(u->host))
		return false;
	memcpy(u->host, p, n);
	u->host[n] = 0;
	return true;
}

int url_parse(struct url *ret, const char *text)
{
	const char *at, *end, *colon;
	size_t n;
	uint64_t port;
	char digits[8];

	*ret = (struct url){.is_tls = str_starts(text, "https://")};
	if (!ret->is_tls && !str_starts(text, "http://"))
		return -EINVAL;
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c >= 0x7f || strchr("#\\\"<>", *c))
			return -EINVAL;
	at = strstr(text, "://") + 3;
	n = strcspn(at, "/?");
	end = at + n;
	if (memchr(at, '@', n))
		return -EINVAL;
	colon = memrchr(at, ':', n);
	if (colon && memchr(colon, ']', (size_t)(end - colon)))
		colon = NULL;
	ret->port = ret->is_tls ? 443 : 80;
	if (colon) {
		if ((size_t)(end - colon - 1) >= sizeof(digits))
			return -EINVAL;
		snprintf(digits, sizeof(digits), "%.*s", (int)(end - colon - 1), colon + 1);
		if (!str_parse_u64(digits, UINT16_MAX, &port) || port == 0)
			return -EINVAL;
		ret->port = (uint16_t)port;
	}
	ret->path = end;
	return take_host(ret, at, (size_t)((colon ? colon : end) - at)) ? 0 : -EINVAL;
}
