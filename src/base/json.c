/* The JSON writer; see json.h. */
#include "base/json.h"

#include "base/base64.h"
#include "base/err.h"
#include "base/str.h"

#include <string.h>

enum { BASE64_PIECE = 256 };

void json_init(struct json *j, struct buf *out)
{
	*j = (struct json){.out = out};
}

static void put(struct json *j, const void *p, size_t n)
{
	int r = j->error ? 0 : buf_append(j->out, p, n);

	if (r < 0)
		j->error = r;
}

static void put_str(struct json *j, const char *s)
{
	put(j, s, strlen(s));
}

/* A comma where one is due. */
static void before_value(struct json *j)
{
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (j->has_item[j->depth])
		put_str(j, ",");
	j->has_item[j->depth] = true;
}

static void open_level(struct json *j, const char *bracket)
{
	before_value(j);
	put_str(j, bracket);
	ASSERT(j->depth + 1 < JSON_DEPTH_MAX);
	j->has_item[++j->depth] = false;
}

static void close_level(struct json *j, const char *bracket)
{
	ASSERT(j->depth > 0 && !j->after_key);
	j->depth--;
	put_str(j, bracket);
}

void json_object_begin(struct json *j)
{
	open_level(j, "{");
}

void json_object_end(struct json *j)
{
	close_level(j, "}");
}

void json_array_begin(struct json *j)
{
	open_level(j, "[");
}

void json_array_end(struct json *j)
{
	close_level(j, "]");
}

static void put_escaped(struct json *j, uint32_t rune)
{
	static const char hex[] = "0123456789abcdef";
	char text[] = "\\u0000";

	for (int i = 0; i < 4; i++)
		text[5 - i] = hex[rune >> 4 * i & 15];
	switch (rune) {
	case '"':
		put_str(j, "\\\"");
		return;
	case '\\':
		put_str(j, "\\\\");
		return;
	case '\n':
		put_str(j, "\\n");
		return;
	case '\t':
		put_str(j, "\\t");
		return;
	case '\r':
		put_str(j, "\\r");
		return;
	default:
		put(j, text, 6);
	}
}

/* Runs of plain bytes are copied at once; only what needs care is looked at singly. */
static void put_quoted(struct json *j, const uint8_t *p, size_t n)
{
	size_t from = 0;

	put_str(j, "\"");
	for (size_t i = 0; i < n;) {
		uint32_t rune = 0;
		size_t len = str_utf8(p + i, n - i, &rune);
		bool plain = len > 0 && rune != '"' && rune != '\\' && !str_is_tricky(rune);

		if (!plain) {
			put(j, p + from, i - from);
			if (len == 0)
				put_str(j, "\xef\xbf\xbd");
			else
				put_escaped(j, rune);
			from = i + (len ? len : 1);
		}
		i += len ? len : 1;
	}
	put(j, p + from, n - from);
	put_str(j, "\"");
}

void json_key(struct json *j, const char *key)
{
	ASSERT(!j->after_key);
	before_value(j);
	put_quoted(j, (const uint8_t *)key, strlen(key));
	put_str(j, ":");
	j->after_key = true;
}

void json_strn(struct json *j, const char *s, size_t n)
{
	before_value(j);
	put_quoted(j, (const uint8_t *)s, n);
}

void json_str(struct json *j, const char *s)
{
	if (s)
		json_strn(j, s, strlen(s));
	else
		json_nil(j);
}

void json_base64(struct json *j, const void *p, size_t n)
{
	const uint8_t *from = p;
	uint8_t text[4 * BASE64_PIECE];

	before_value(j);
	put_str(j, "\"");
	for (size_t i = 0; i < n; i += 3 * BASE64_PIECE) {
		size_t piece = n - i < 3 * BASE64_PIECE ? n - i : 3 * BASE64_PIECE;

		put(j, (const char *)text, base64_encode(from + i, piece, false, text));
	}
	put_str(j, "\"");
}

void json_u64(struct json *j, uint64_t v)
{
	int r;

	before_value(j);
	r = j->error ? 0 : buf_printf(j->out, "%llu", (unsigned long long)v);
	if (r < 0)
		j->error = r;
}

void json_i64(struct json *j, int64_t v)
{
	int r;

	before_value(j);
	r = j->error ? 0 : buf_printf(j->out, "%lld", (long long)v);
	if (r < 0)
		j->error = r;
}

void json_bool(struct json *j, bool v)
{
	before_value(j);
	put_str(j, v ? "true" : "false");
}

void json_nil(struct json *j)
{
	before_value(j);
	put_str(j, "null");
}

void json_raw(struct json *j, const char *text)
{
	before_value(j);
	put_str(j, text);
}

void json_kv_str(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_str(j, s);
}

void json_kv_bytes(struct json *j, const char *key, const char *key64, const char *p, size_t n)
{
	json_key(j, key);
	json_strn(j, p ? p : "", n);
	if (str_is_utf8(p, n))
		return;
	json_key(j, key64);
	json_base64(j, p, n);
}

void json_kv_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

void json_kv_i64(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_i64(j, v);
}

void json_kv_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}
