/* A JSON object into a struct; see in.h. */
#include "api/in.h"

#include "base/limits_server.h"
#include "base/size.h"
#include "base/str.h"
#include "cove.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct api_block {
	struct api_block *next;
	max_align_t data[];
};

void *api_memory_get(struct api_memory *m, size_t size)
{
	struct api_block *b = calloc(1, sizeof(*b) + size);

	if (!b)
		return NULL;
	b->next = m->blocks;
	m->blocks = b;
	return b->data;
}

char *api_memory_printf(struct api_memory *m, const char *fmt, ...)
{
	va_list ap, again;
	char *text;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	text = n < 0 ? NULL : api_memory_get(m, (size_t)n + 1);
	if (text)
		vsnprintf(text, (size_t)n + 1, fmt, again);
	va_end(again);
	return text;
}

void api_memory_done(struct api_memory *m)
{
	struct api_block *next;

	for (; m->blocks; m->blocks = next) {
		next = m->blocks->next;
		free(m->blocks);
	}
}

static int wrong(struct err *e, const char *key, const char *what)
{
	return err_set(e, ERR_INVALID, EINVAL, "'%.60s' must be %s", key, what);
}

static bool is_unlimited(const json_t *v)
{
	return (json_is_integer(v) && json_integer_value(v) == -1) ||
	       (json_is_string(v) && strcmp(json_string_value(v), "unlimited") == 0);
}

/* A whole number as it is, a text as the command line reads it. */
static int take_amount(const struct api_in_field *f, const json_t *v, uint64_t *ret, struct err *e)
{
	const char *text = json_string_value(v);
	bool good = false;

	if (is_unlimited(v)) {
		*ret = COVE_UNLIMITED;
		return 0;
	}
	if (json_is_integer(v) && json_integer_value(v) >= 0) {
		*ret = (uint64_t)json_integer_value(v);
		good = f->kind != API_IN_MILLI || *ret <= UINT32_MAX;
		if (f->kind == API_IN_MILLI)
			*ret *= 1000;
	} else if (json_is_real(v) && f->kind == API_IN_MILLI) {
		good = json_real_value(v) >= 0.001 && json_real_value(v) < 1e6;
		*ret = good ? (uint64_t)(json_real_value(v) * 1000 + 0.5) : 0;
	} else if (text) {
		good = f->kind == API_IN_MS	? str_parse_ms(text, ret)
		       : f->kind == API_IN_SIZE ? size_parse(text, ret)
						: size_parse_milli(text, ret);
	}
	if (good)
		return 0;
	return wrong(e, f->key,
		     f->kind == API_IN_MS ? "milliseconds, or a time as \"90s\", \"10m\", \"2h\""
		     : f->kind == API_IN_SIZE ? "bytes, or a size as \"512m\", \"2g\""
					      : "a number of CPUs as 2, 0.5, \"1.5\"");
}

static int take_number(const struct api_in_field *f, const json_t *v, void *to, struct err *e)
{
	uint64_t max = f->kind == API_IN_UINT ? 65535 : INT64_MAX;

	if (f->kind == API_IN_U64 && is_unlimited(v)) {
		*(uint64_t *)to = COVE_UNLIMITED;
		return 0;
	}
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) > max)
		return wrong(e, f->key, "a whole number that is not negative");
	if (f->kind == API_IN_UINT)
		*(unsigned *)to = (unsigned)json_integer_value(v);
	else
		*(uint64_t *)to = (uint64_t)json_integer_value(v);
	return 0;
}

static bool is_plain_string(const json_t *v)
{
	return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

static int take_pairs(struct api_memory *m, const char *key, json_t *v, const char **list,
		      struct err *e)
{
	const char *name;
	json_t *item;
	size_t i = 0;

	json_object_foreach(v, name, item)
	{
		if (!is_plain_string(item) || strchr(name, '='))
			return wrong(e, key, "an object of names and texts");
		list[i] = api_memory_printf(m, "%s=%s", name, json_string_value(item));
		if (!list[i++])
			return err_errno(e, ENOMEM, "read the request");
	}
	return 0;
}

static int take_list(struct api_memory *m, const struct api_in_field *f, json_t *v, void *to,
		     struct err *e)
{
	bool is_object = f->kind == API_IN_PAIRS && json_is_object(v);
	size_t count = is_object ? json_object_size(v) : json_array_size(v);
	const char **list;

	if (!is_object && !json_is_array(v))
		return wrong(e, f->key,
			     f->kind == API_IN_PAIRS ? "an object of names and texts, or a list of "
						       "\"NAME=VALUE\""
						     : "a list of texts");
	list = api_memory_get(m, (count + 1) * sizeof(*list));
	if (!list)
		return err_errno(e, ENOMEM, "read the request");
	*(const char *const **)to = list;
	if (is_object)
		return take_pairs(m, f->key, v, list, e);
	for (size_t i = 0; i < count; i++) {
		json_t *item = json_array_get(v, i);

		if (!is_plain_string(item))
			return wrong(e, f->key, "a list of texts");
		list[i] = json_string_value(item);
	}
	return 0;
}

static int take_value(struct api_memory *m, const struct api_in_field *f, json_t *v, char *base,
		      struct err *e)
{
	void *to = base + f->offset;

	switch (f->kind) {
	case API_IN_STR:
		if (!is_plain_string(v))
			return wrong(e, f->key, "a text");
		*(const char **)to = json_string_value(v);
		return 0;
	case API_IN_BOOL:
		if (!json_is_boolean(v))
			return wrong(e, f->key, "true or false");
		*(bool *)to = json_is_true(v);
		return 0;
	case API_IN_U64:
	case API_IN_UINT:
		return take_number(f, v, to, e);
	case API_IN_MS:
	case API_IN_SIZE:
	case API_IN_MILLI:
		return take_amount(f, v, to, e);
	case API_IN_LIST:
	case API_IN_PAIRS:
		return take_list(m, f, v, to, e);
	case API_IN_JSON:
		*(json_t **)to = v;
		return 0;
	}
	return 0;
}

enum { KNOWN_KEYS_MAX = 64 };

/* With the key that was meant, where one is close. */
static int unknown(const char *key, const struct api_in_table *tables, struct err *e)
{
	const char *known[KNOWN_KEYS_MAX + 1] = {NULL}, *meant;
	size_t n = 0;

	for (; tables->fields; tables++)
		for (const struct api_in_field *f = tables->fields; f->key; f++)
			if (n < KNOWN_KEYS_MAX)
				known[n++] = f->key;
	meant = str_closest(key, known);
	return err_set(e, ERR_INVALID, EINVAL, "there is no '%.60s' here%s%s%s", key,
		       meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
}

int api_in_take(struct api_memory *m, json_t *object, const struct api_in_table *tables,
		struct err *e)
{
	const char *key;
	json_t *v;

	if (object && !json_is_object(object))
		return err_set(e, ERR_INVALID, EINVAL, "the request's JSON must be an object");
	json_object_foreach(object, key, v)
	{
		const struct api_in_field *found = NULL;
		void *to = NULL;
		int r;

		for (const struct api_in_table *t = tables; t->fields && !found; t++)
			for (const struct api_in_field *f = t->fields; f->key && !found; f++)
				if (strcmp(f->key, key) == 0)
					found = f, to = t->to;
		if (!found)
			return unknown(key, tables, e);
		if (json_is_null(v))
			continue; /* as if it were not there */
		r = take_value(m, found, v, to, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Depth first, with a bound: what is parsed was bounded in bytes, not in depth. */
static bool is_deep(json_t *v, unsigned left)
{
	const char *key;
	json_t *item;
	size_t i;

	if (left == 0)
		return true;
	if (json_is_object(v)) {
		json_object_foreach(v, key, item) if (is_deep(item, left - 1)) return true;
	} else if (json_is_array(v)) {
		json_array_foreach(v, i, item) if (is_deep(item, left - 1)) return true;
	}
	return false;
}

/* As many as there are signs between values: before any of them takes memory. */
static bool has_many(const char *text, size_t len)
{
	bool in_string = false;
	size_t count = 0;

	for (size_t i = 0; i < len && count < API_JSON_VALUES_MAX; i++) {
		char c = text[i];

		if (c == '"')
			in_string = !in_string;
		else if (in_string)
			i += c == '\\';
		else
			count += c == ',' || c == ':' || c == '[' || c == '{';
	}
	return count == API_JSON_VALUES_MAX;
}

int api_in_parse(const char *text, size_t len, json_t **ret, struct err *e)
{
	json_error_t why;
	json_t *v;

	if (has_many(text, len))
		return err_set(e, ERR_LIMIT, EMSGSIZE, "the request's JSON has more than %u values",
			       API_JSON_VALUES_MAX);
	v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!v)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the request is not JSON: %.120s, in line %d, column %d", why.text,
			       why.line, why.column);
	if (is_deep(v, API_JSON_DEPTH_MAX)) {
		json_decref(v);
		return err_set(e, ERR_INVALID, E2BIG, "the request's JSON is nested deeper than %d",
			       API_JSON_DEPTH_MAX);
	}
	*ret = v;
	return 0;
}
