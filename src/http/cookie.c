/* Cookies; see cookie.h. */
#include "http/cookie.h"

#include "http/text.h"

#include <string.h>

/* The next part of a list between ';', without the space around it; false at the end. */
static bool part_next(const char **list, const char **ret, size_t *ret_len)
{
	const char *p = *list;
	size_t n;

	if (!p)
		return false;
	n = strcspn(p, ";");
	*list = p[n] ? p + n + 1 : NULL;
	while (n > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	*ret = p;
	*ret_len = n;
	return true;
}

/* How long the name of "name=value" is, without the space before '='. */
static size_t name_len(const char *p, size_t n)
{
	const char *equals = memchr(p, '=', n);
	size_t len = equals ? (size_t)(equals - p) : n;

	while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t'))
		len--;
	return len;
}

static bool is_named(const char *p, size_t n, const char *name)
{
	size_t len = name_len(p, n);

	return len == strlen(name) && memcmp(p, name, len) == 0;
}

const char *http_cookie_find(const struct http_head *h, const char *name, size_t nth,
			     size_t *ret_len)
{
	for (size_t i = 0; i < h->field_count; i++) {
		const char *list = h->fields[i].value, *p, *equals;
		size_t n;

		if (!http_name_is(h->fields[i].name, "cookie"))
			continue;
		while (part_next(&list, &p, &n)) {
			equals = memchr(p, '=', n);
			if (!equals || !is_named(p, n, name) || nth-- > 0)
				continue;
			*ret_len = n - (size_t)(equals + 1 - p);
			return equals + 1;
		}
	}
	return NULL;
}

int http_cookie_remove(const char *value, const char *name, struct buf *out)
{
	const char *p;
	bool first = true;
	size_t n;
	int r = 0;

	while (r == 0 && part_next(&value, &p, &n)) {
		if (n == 0 || is_named(p, n, name))
			continue;
		r = first ? 0 : buf_append(out, "; ", 2);
		if (r == 0)
			r = buf_append(out, p, n);
		first = false;
	}
	return r;
}

bool http_set_cookie_is(const char *value, const char *name)
{
	const char *p;
	size_t n;

	return part_next(&value, &p, &n) && is_named(p, n, name);
}

int http_set_cookie_host_only(const char *value, struct buf *out)
{
	const char *p;
	bool first = true;
	size_t n;
	int r = 0;

	while (r == 0 && part_next(&value, &p, &n)) {
		if (!first && (n == 0 || http_token_is(p, name_len(p, n), "domain")))
			continue;
		r = first ? 0 : buf_append(out, "; ", 2);
		if (r == 0)
			r = buf_append(out, p, n);
		first = false;
	}
	return r;
}
