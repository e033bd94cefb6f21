/* Fields of a head: cut out of its text, found, added, removed, written; see http.h. */
#include "http/text.h"

#include "base/locked.h"

#include <stdlib.h>
#include <string.h>

#define T HTTP_TOKEN
#define V HTTP_VISIBLE
#define P HTTP_PATH
#define Q HTTP_PLAIN

const uint8_t http_classes[256] = {
	['!'] = T | V | P,
	['"'] = V,
	['#'] = T | V,
	['$'] = T | V | P,
	['%'] = T | V,
	['&'] = T | V | P,
	['\''] = T | V | P,
	['('] = V | P,
	[')'] = V | P,
	['*'] = T | V | P,
	['+'] = T | V | P,
	[','] = V | P,
	['-'] = T | V | P | Q,
	['.'] = T | V | P | Q,
	['/'] = V,
	['0' ... '9'] = T | V | P | Q,
	[':'] = V | P,
	[';'] = V,
	['<'] = V,
	['='] = V | P,
	['>'] = V,
	['?'] = V,
	['@'] = V | P,
	['A' ... 'Z'] = T | V | P | Q,
	['['] = V,
	['\\'] = V,
	[']'] = V,
	['^'] = T | V,
	['_'] = T | V | P | Q,
	['`'] = T | V,
	['a' ... 'z'] = T | V | P | Q,
	['{'] = V,
	['|'] = T | V,
	['}'] = V,
	['~'] = T | V | P | Q,
};

bool http_name_is(const char *name, const char *other)
{
	while (*name && http_lower(*name) == http_lower(*other))
		name++, other++;
	return http_lower(*name) == http_lower(*other);
}

static char loose(char c)
{
	return c == '_' ? '-' : http_lower(c);
}

bool http_name_like(const char *name, const char *other)
{
	while (*name && loose(*name) == loose(*other))
		name++, other++;
	return loose(*name) == loose(*other);
}

bool http_name_among(const char *name, const char *const *list)
{
	while (*list && !http_name_like(name, *list))
		list++;
	return *list;
}

bool http_token_is(const char *p, size_t n, const char *token)
{
	size_t i = 0;

	while (i < n && token[i] && http_lower(p[i]) == http_lower(token[i]))
		i++;
	return i == n && !token[i];
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

bool http_list_next(const char **list, const char **ret, size_t *ret_len)
{
	const char *p = *list, *end;

	while (is_space(*p) || *p == ',')
		p++;
	if (!*p)
		return false;
	*ret = p;
	p += strcspn(p, ",");
	*list = p;
	for (end = p; is_space(end[-1]); end--)
		;
	*ret_len = (size_t)(end - *ret);
	return true;
}

/* Without a branch in the loop, so that it is done many bytes at a time. */
bool http_value_ok(const char *p, size_t n)
{
	unsigned char bad = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		bad |= (unsigned char)(((c < 0x20) & (c != '\t')) | (c == 0x7f));
	}
	return !bad;
}

int http_fields_parse(struct http_head *h, char *p, size_t n, int status, struct err *e)
{
	char *end = p + n;

	while (p < end) {
		char *eol = memchr(p, '\n', (size_t)(end - p)), *name = p, *value, *stop;

		ASSERT(eol && h->field_count < h->field_room);
		if (eol == p || eol[-1] != '\r')
			return http_refuse(e, -EBADMSG, status, "a line that ends in a bare LF");
		while (http_is((unsigned char)*p, HTTP_TOKEN))
			p++;
		if (p == name && is_space(*p))
			return http_refuse(e, -EBADMSG, status, "a folded line in the head");
		if (p == name || *p != ':')
			return http_refuse(e, -EBADMSG, status, "a field with a bad name");
		value = p + 1;
		stop = eol - 1;
		while (value < stop && is_space(*value))
			value++;
		while (stop > value && is_space(stop[-1]))
			stop--;
		if (!http_value_ok(value, (size_t)(stop - value)))
			return http_refuse(e, -EBADMSG, status, "a control byte in a field");
		*p = '\0';
		*stop = '\0';
		h->fields[h->field_count++] = (struct http_field){name, value};
		p = eol + 1;
	}
	return 0;
}

const char *http_head_find(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->field_count; i++) {
		if (http_name_is(h->fields[i].name, name))
			return h->fields[i].value;
	}
	return NULL;
}

size_t http_head_count(const struct http_head *h, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < h->field_count; i++)
		count += http_name_is(h->fields[i].name, name);
	return count;
}

bool http_head_has_token(const struct http_head *h, const char *name, const char *token)
{
	for (size_t i = 0; i < h->field_count; i++) {
		const char *list = h->fields[i].value, *p;
		size_t n;

		if (!http_name_is(h->fields[i].name, name))
			continue;
		while (http_list_next(&list, &p, &n)) {
			if (http_token_is(p, n, token))
				return true;
		}
	}
	return false;
}

/* Drops the fields that a test chooses and keeps the order of the others. */
static void drop_fields(struct http_head *h, bool (*test)(const char *name, const void *arg),
			const void *arg)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->field_count; i++) {
		if (!test(h->fields[i].name, arg))
			h->fields[kept++] = h->fields[i];
	}
	h->field_count = kept;
}

static bool is_like(const char *name, const void *arg)
{
	return http_name_like(name, arg);
}

void http_head_remove(struct http_head *h, const char *name)
{
	drop_fields(h, is_like, name);
}

static bool concerns_hop(const char *name, const void *arg)
{
	static const char *const names[] = {
		"connection", "keep-alive",	"te",		"trailer", "transfer-encoding",
		"upgrade",    "http2-settings", "max-forwards", "proxy",   NULL,
	};
	static const char prefix[] = "proxy-";
	size_t i = 0;

	if (!strchr("cktuhmp", http_lower(name[0])))
		return false;
	while (prefix[i] && loose(name[i]) == prefix[i])
		i++;
	return !prefix[i] || http_name_among(name, names);
}

/* Fields that a Connection lists get a name that goes, so that the lists stay where they are until
 * all are read. Host and Content-Length stay whatever it says: without them the request would be
 * another one for who reads it next. */
static void rename_listed(struct http_head *h, const char *list)
{
	const char *p;
	size_t n;

	while (http_list_next(&list, &p, &n)) {
		if (http_token_is(p, n, "connection") || http_token_is(p, n, "host") ||
		    http_token_is(p, n, "content-length"))
			continue;
		for (size_t i = 0; i < h->field_count; i++) {
			if (http_token_is(p, n, h->fields[i].name))
				h->fields[i].name = "keep-alive";
		}
	}
}

void http_head_strip_hop(struct http_head *h)
{
	for (size_t i = 0; i < h->field_count; i++) {
		if (http_name_is(h->fields[i].name, "connection"))
			rename_listed(h, h->fields[i].value);
	}
	drop_fields(h, concerns_hop, NULL);
}

static bool overrides(const char *name, const void *arg)
{
	static const char *const names[] = {
		"x-http-method-override",
		"x-http-method",
		"x-method-override",
		"x-original-method",
		"x-original-url",
		"x-rewrite-url",
		"x-original-uri",
		"x-forwarded-uri",
		"x-forwarded-host",
		"x-original-host",
		"x-host",
		"forwarded",
		NULL,
	};

	return http_name_among(name, names);
}

void http_head_strip_overrides(struct http_head *h)
{
	drop_fields(h, overrides, NULL);
}

static const char *moved(const char *p, const char *from, size_t n, const char *to)
{
	uintptr_t at = (uintptr_t)p, start = (uintptr_t)from;

	return p && at >= start && at < start + n ? to + (at - start) : p;
}

void http_text_free(struct http_head *h)
{
	if (h->text)
		explicit_bzero(h->text, h->text_len);
	if (h->is_secret)
		locked_free(h->text);
	else
		free(h->text);
	h->text = NULL;
}

static int grow_text(struct http_head *h, size_t bytes, bool is_secret)
{
	size_t room = h->text_len + bytes + h->text_len / 2;
	char *text = is_secret ? locked_alloc(room) : malloc(room);

	if (!text)
		return -ENOMEM;
	if (h->text_len)
		memcpy(text, h->text, h->text_len);
	h->method = moved(h->method, h->text, h->text_len, text);
	h->target = moved(h->target, h->text, h->text_len, text);
	h->reason = moved(h->reason, h->text, h->text_len, text);
	for (size_t i = 0; i < h->field_count; i++) {
		struct http_field *f = &h->fields[i];

		f->name = moved(f->name, h->text, h->text_len, text);
		f->value = moved(f->value, h->text, h->text_len, text);
	}
	http_text_free(h);
	h->text = text;
	h->text_room = room;
	h->is_secret = is_secret;
	return 0;
}

int http_head_set_secret(struct http_head *h)
{
	return h->is_secret ? 0 : grow_text(h, 0, true);
}

int http_head_reserve(struct http_head *h, size_t fields, size_t bytes)
{
	if (h->field_room - h->field_count < fields) {
		size_t room = h->field_count + fields + 8;
		struct http_field *more = reallocarray(h->fields, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		h->fields = more;
		h->field_room = room;
	}
	return h->text_room - h->text_len < bytes ? grow_text(h, bytes, h->is_secret) : 0;
}

static const char *add_text(struct http_head *h, const char *s, size_t n)
{
	char *to = h->text + h->text_len;

	memcpy(to, s, n);
	to[n] = '\0';
	h->text_len += n + 1;
	return to;
}

int http_head_add(struct http_head *h, const char *name, const char *value)
{
	size_t name_len = 0, len = strlen(value);
	int r;

	while (http_is((unsigned char)name[name_len], HTTP_TOKEN))
		name_len++;
	if (name_len == 0 || name[name_len] || !http_value_ok(value, len))
		return -EINVAL;
	if (len > 0 && (is_space(value[0]) || is_space(value[len - 1])))
		return -EINVAL;
	r = http_head_reserve(h, 1, name_len + len + 2);
	if (r < 0)
		return r;
	name = add_text(h, name, name_len);
	value = add_text(h, value, len);
	h->fields[h->field_count++] = (struct http_field){name, value};
	return 0;
}

int http_head_set_target(struct http_head *h, const char *target)
{
	size_t n = 0;
	int r;

	while (http_is((unsigned char)target[n], HTTP_VISIBLE))
		n++;
	if (n == 0 || target[n])
		return -EINVAL;
	r = http_head_reserve(h, 0, n + 1);
	if (r < 0)
		return r;
	h->target = add_text(h, target, n);
	return 0;
}

size_t http_fields_size(const struct http_head *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->field_count; i++)
		n += strlen(h->fields[i].name) + strlen(h->fields[i].value) + 4;
	return n;
}

uint8_t *http_fields_write(const struct http_head *h, uint8_t *to)
{
	for (size_t i = 0; i < h->field_count; i++) {
		to = mempcpy(to, h->fields[i].name, strlen(h->fields[i].name));
		to = mempcpy(to, ": ", 2);
		to = mempcpy(to, h->fields[i].value, strlen(h->fields[i].value));
		to = mempcpy(to, "\r\n", 2);
	}
	return to;
}
