/* Finding the route of a request. */
#include "api/call.h"
#include "api/handlers.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

/* Stretches of the path, not decoded yet. */
struct route_match {
	struct {
		const char *name, *p;
		size_t name_len, n;
		bool is_rest; /* and stays as it is */
	} params[API_PARAMS_MAX];
	size_t count;
};

static void add_param(struct route_match *m, const char *name, size_t name_len, const char *p,
		      size_t n)
{
	ASSERT(m->count < API_PARAMS_MAX);
	m->params[m->count].name = name;
	m->params[m->count].name_len = name_len;
	m->params[m->count].p = p;
	m->params[m->count].is_rest = false;
	m->params[m->count++].n = n;
}

static bool route_matches(const char *pattern, const char *path, size_t len, struct route_match *m)
{
	const char *end = path + len;

	m->count = 0;
	while (*pattern) {
		const char *close;
		size_t n = 0;

		if (*pattern != '{') {
			if (path == end || *path++ != *pattern++)
				return false;
			continue;
		}
		close = strchr(pattern, '}');
		if (close[-1] == '*') {
			add_param(m, pattern + 1, (size_t)(close - pattern) - 2, path,
				  (size_t)(end - path));
			m->params[m->count - 1].is_rest = true;
			return true;
		}
		while (path + n < end && path[n] != '/')
			n++;
		if (n == 0)
			return false;
		add_param(m, pattern + 1, (size_t)(close - pattern) - 1, path, n);
		path += n;
		pattern = close + 1;
	}
	return path == end;
}

/* Into the call's memory. */
static int keep(struct api_call *c, const char *p, size_t n, const char **ret, struct err *e)
{
	*ret = api_memory_printf(&c->memory, "%.*s", (int)n, p);
	return *ret ? 0 : err_errno(e, ENOMEM, "read the path");
}

static int decode(struct api_call *c, const char *p, size_t n, const char **ret, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, API_PATH_MAX);
	r = http_segment_decode(p, n, &b);
	if (r == 0) {
		*ret = api_memory_printf(&c->memory, "%.*s", (int)buf_len(&b),
					 (const char *)buf_data(&b));
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&b);
	if (r == -EINVAL)
		return err_set(e, ERR_INVALID, EINVAL, "the path is not well escaped");
	return r < 0 ? err_errno(e, -r, "read the path") : 0;
}

static int take_params(struct api_call *c, const struct route_match *m, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < m->count && r == 0; i++) {
		c->params[i].name = m->params[i].name;
		c->params[i].name_len = m->params[i].name_len;
		r = (m->params[i].is_rest ? keep : decode)(c, m->params[i].p, m->params[i].n,
							   &c->params[i].value, e);
	}
	c->param_count = r == 0 ? m->count : 0;
	return r;
}

static int no_route(struct api_call *c, const char *allowed, struct err *e)
{
	if (!allowed)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no %.100s here; see %s", c->path,
			       "docs/api/openapi.yaml");
	return err_set(e, ERR_INVALID, EPROTONOSUPPORT, "%.100s takes no %.20s, but %s", c->path,
		       c->method, allowed);
}

static bool method_fits(const struct api_route *r, const char *method)
{
	return strcmp(r->method, "*") == 0 || strcmp(r->method, method) == 0 ||
	       (r->head && strcmp(method, "HEAD") == 0);
}

int api_route_find(struct api_call *c, struct err *e)
{
	const char *allowed = NULL;
	struct http_target target;
	struct route_match m;
	int r = http_target_parse(&c->head, &target, e);

	if (r < 0)
		return r;
	if (target.path_len > API_PATH_MAX)
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "the path is longer than %d bytes",
			       API_PATH_MAX);
	c->path = api_memory_printf(&c->memory, "%.*s", (int)target.path_len, target.path);
	if (target.query)
		c->query = api_memory_printf(&c->memory, "%s", target.query);
	if (!c->path || (target.query && !c->query))
		return err_errno(e, ENOMEM, "read the path");
	for (const struct api_route *const *t = api_routes; *t; t++) {
		for (const struct api_route *at = *t; at->method; at++) {
			if (!route_matches(at->pattern, c->path, target.path_len, &m))
				continue;
			if (!method_fits(at, c->method)) {
				allowed = at->method;
				continue;
			}
			r = take_params(c, &m, e);
			if (r == 0)
				c->route = at;
			return r;
		}
	}
	return no_route(c, allowed, e);
}

/* ---- the query ---- */

/* Which of its parameters it is, or else that this one came twice. */
static int query_is_bad(const struct api_call *c, const char *asked, struct err *e)
{
	const char *at = c->query;
	struct buf name, value;
	int r;

	buf_init(&name, API_PATH_MAX);
	buf_init(&value, API_PATH_MAX);
	do {
		r = http_query_next(&at, &name, &value);
	} while (r > 0);
	if (r == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "the query has more than one '%s'", asked);
	else if (r == -EINVAL && buf_len(&name) > 0)
		r = err_set(e, ERR_INVALID, EINVAL, "the query's '%.60s' is not well escaped",
			    buf_cstr(&name));
	else if (r == -EINVAL)
		r = err_set(e, ERR_INVALID, EINVAL, "the query is not well escaped");
	else
		r = err_errno(e, -r, "read the query");
	buf_done(&name);
	buf_done(&value);
	return r;
}

int api_query(struct api_call *c, const char *name, const char **ret, struct err *e)
{
	struct buf b;
	int r;

	*ret = NULL;
	if (!c->query)
		return 0;
	buf_init(&b, API_PATH_MAX);
	r = http_query_find(c->query, name, &b);
	if (r > 0) {
		*ret = api_memory_printf(&c->memory, "%.*s", (int)buf_len(&b),
					 (const char *)buf_data(&b));
		r = *ret ? 0 : -ENOMEM;
	}
	buf_done(&b);
	if (r == -EINVAL)
		return query_is_bad(c, name, e);
	return r < 0 ? err_errno(e, -r, "read the query") : 0;
}

int api_query_u64(struct api_call *c, const char *name, uint64_t otherwise, uint64_t *ret,
		  struct err *e)
{
	const char *text;
	int r = api_query(c, name, &text, e);

	*ret = otherwise;
	if (r < 0 || !text)
		return r;
	if (!str_parse_u64(text, INT64_MAX, ret))
		return err_set(e, ERR_INVALID, EINVAL, "the query's '%s' must be a whole number",
			       name);
	return 0;
}

int api_query_bool(struct api_call *c, const char *name, bool *ret, struct err *e)
{
	const char *text;
	int r = api_query(c, name, &text, e);

	*ret = false;
	if (r < 0 || !text)
		return r;
	*ret = text[0] == 0 || strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
	if (!*ret && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
		return err_set(e, ERR_INVALID, EINVAL, "the query's '%s' must be true or false",
			       name);
	return 0;
}
