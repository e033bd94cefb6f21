/* Parameters for a server's own routes, out of queries and segments of paths; see http.h. */
#include "http/text.h"

#include <string.h>

/* A parameter of a query as it is spelled; an empty value may have no place. */
struct param {
	const char *name, *value;
	size_t name_len, value_len;
};

/* The character or escape at p, of which there is at least a byte: its value, or -1 where it is
 * bad. A NUL is. */
static int decode_at(const char *p, size_t n, char plus, size_t *ret_used)
{
	int c = (unsigned char)p[0];

	*ret_used = c == '%' ? 3 : 1;
	if (c == '%')
		c = http_escape_at(p, n);
	else if (c == '+')
		c = (unsigned char)plus;
	return c > 0 ? c : -1;
}

/* To a place with room for n bytes, or NULL to look only. -EINVAL where it is bad. */
static int decode(const char *p, size_t n, char plus, uint8_t *to, size_t *ret_len)
{
	size_t len = 0;

	for (size_t i = 0, used; i < n; i += used) {
		int c = decode_at(p + i, n - i, plus, &used);

		if (c < 0)
			return -EINVAL;
		if (to)
			to[len] = (uint8_t)c;
		len++;
	}
	*ret_len = len;
	return 0;
}

int http_decode(const char *p, size_t n, char plus, struct buf *out)
{
	uint8_t *to;
	size_t len;
	int r;

	if (n == 0)
		return 0;
	to = buf_reserve(out, n);
	if (!to)
		return http_no_room(out, n);
	r = decode(p, n, plus, to, &len);
	if (r == 0)
		buf_commit(out, len);
	return r;
}

/* Does it come to this text? */
static bool spells(const char *p, size_t n, char plus, const char *text)
{
	for (size_t i = 0, used; i < n; i += used, text++) {
		int c = decode_at(p + i, n - i, plus, &used);

		if (c != (unsigned char)*text)
			return false;
	}
	return !*text;
}

/* The next parameter that is not empty; false at the end. */
static bool next_param(const char **query, struct param *ret)
{
	const char *p = *query, *equals;
	size_t n;

	if (!p)
		return false;
	p += strspn(p, "&");
	n = strcspn(p, "&");
	*query = p + n;
	if (n == 0)
		return false;
	equals = memchr(p, '=', n);
	*ret = (struct param){.name = p, .name_len = equals ? (size_t)(equals - p) : n};
	if (equals) {
		ret->value = equals + 1;
		ret->value_len = n - ret->name_len - 1;
	}
	return true;
}

int http_query_next(const char **query, struct buf *name, struct buf *value)
{
	struct param param;
	int r;

	buf_clear(name);
	buf_clear(value);
	if (!next_param(query, &param))
		return 0;
	r = http_decode(param.name, param.name_len, ' ', name);
	if (r == 0)
		r = http_decode(param.value, param.value_len, ' ', value);
	return r < 0 ? r : 1;
}

int http_query_find(const char *query, const char *name, struct buf *out)
{
	struct param param, found = {0};
	size_t len;
	int r;

	while (next_param(&query, &param)) {
		if (decode(param.name, param.name_len, ' ', NULL, &len) < 0 ||
		    decode(param.value, param.value_len, ' ', NULL, &len) < 0)
			return -EINVAL;
		if (!spells(param.name, param.name_len, ' ', name))
			continue;
		if (found.name)
			return -EINVAL;
		found = param;
	}
	if (!found.name)
		return 0;
	r = http_decode(found.value, found.value_len, ' ', out);
	return r < 0 ? r : 1;
}

int http_segment_decode(const char *p, size_t n, struct buf *out)
{
	if (spells(p, n, '+', ".") || spells(p, n, '+', ".."))
		return -EINVAL;
	return http_decode(p, n, '+', out);
}
