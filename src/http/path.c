/*
 * Paths in their one normal form, and parameters of a query; see http.h.
 *
 * How it works
 *
 * The output always ends in a slash when a segment begins. The segment is decoded behind it, looked
 * at as a whole, and then kept, dropped, or taken back together with the one before it. Decoding
 * happens first, so that "%2e%2e" is "..". What a server could make of the path in another way (by
 * decoding twice, cutting at ';', dropping dots or spaces at the end, or merging slashes in another
 * order) is refused here: a rule could not be sure of it.
 */
#include "http/text.h"

#include "base/str.h"

#include <string.h>

struct out {
	char *p;
	size_t len;
};

static void put_escape(struct out *o, unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";

	o->p[o->len++] = '%';
	o->p[o->len++] = digits[c >> 4];
	o->p[o->len++] = digits[c & 15];
}

/* Characters that become a dot, a slash or a backslash where a server folds Unicode. */
static bool folds(uint32_t rune)
{
	return rune == 0xff0e || rune == 0xff0f || rune == 0xff3c || rune == 0x2024 ||
	       rune == 0x2025 || rune == 0xfe52 || rune == 0xfe68;
}

/* Escapes of bytes beyond ASCII: one UTF-8 sequence. Returns how much was eaten, 0 if refused. */
static size_t take_utf8(struct out *o, const char *p, size_t n)
{
	uint8_t bytes[4];
	uint32_t rune;
	size_t have = 0, len;

	while (have < sizeof(bytes)) {
		int c = http_escape_at(p + 3 * have, n - 3 * have);

		if (c < 0x80)
			break;
		bytes[have++] = (uint8_t)c;
	}
	len = str_utf8(bytes, have, &rune);
	if (len == 0 || str_is_tricky(rune) || folds(rune))
		return 0;
	for (size_t i = 0; i < len; i++)
		put_escape(o, bytes[i]);
	return 3 * len;
}

/* One character or escape. Returns how much was eaten, 0 if refused. */
static size_t take_char(struct out *o, const char *p, size_t n)
{
	int c = (unsigned char)p[0];
	size_t used = 1;

	if (c == '?' || c == '#')
		return 0;
	if (c == '%') {
		c = http_escape_at(p, n);
		used = 3;
		if (c >= 0x80)
			return take_utf8(o, p, n);
	} else if (!http_is((unsigned char)c, HTTP_VISIBLE)) {
		return 0;
	}
	if (c < 0x20 || c == 0x7f || c == '/' || c == '\\' || c == ';')
		return 0;
	if (http_is((unsigned char)c, HTTP_PATH))
		o->p[o->len++] = (char)c;
	else
		put_escape(o, (unsigned char)c);
	return used;
}

/* Would decoding it twice give something else that matters? */
static bool twice_escaped(const char *p, size_t n)
{
	for (size_t i = 0; i + 5 <= n; i++) {
		char again[3] = {'%', p[i + 3], p[i + 4]};
		int c = memcmp(p + i, "%25", 3) == 0 ? http_escape_at(again, 3) : -1;

		if (c >= 0 && (c < 0x20 || c >= 0x7f || strchr("./\\;%", c)))
			return true;
	}
	return false;
}

/* What decoding put behind `start`, which is behind a slash. */
static bool end_segment(struct out *o, size_t start, bool last, bool *doubled)
{
	const char *p = o->p + start;
	size_t n = o->len - start;

	if (n == 0) {
		*doubled |= !last;
		return true;
	}
	if (n == 1 && p[0] == '.') {
		o->len = start;
		return true;
	}
	if (n == 2 && p[0] == '.' && p[1] == '.') {
		if (start == 1 || *doubled)
			return false;
		for (o->len = start - 1; o->p[o->len - 1] != '/'; o->len--)
			;
		return true;
	}
	if (p[n - 1] == '.' || (n >= 3 && memcmp(p + n - 3, "%20", 3) == 0) || twice_escaped(p, n))
		return false;
	if (!last)
		o->p[o->len++] = '/';
	return true;
}

static bool normalise(struct out *o, const char *path, size_t n)
{
	size_t at = 1;
	bool doubled = false;

	o->p[o->len++] = '/';
	for (;;) {
		size_t start = o->len;

		while (at < n && path[at] != '/') {
			size_t used = take_char(o, path + at, n - at);

			if (used == 0)
				return false;
			at += used;
		}
		if (!end_segment(o, start, at == n, &doubled))
			return false;
		if (at == n)
			return true;
		at++;
	}
}

int http_path_normalise(const char *path, size_t n, struct buf *out)
{
	size_t most = n;
	struct out o = {0};

	if (n == 0 || path[0] != '/')
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		most += http_is((unsigned char)path[i], HTTP_PATH) || strchr("/%", path[i]) ? 0 : 2;
	o.p = (char *)buf_reserve(out, most);
	if (!o.p)
		return http_no_room(out, most);
	if (!normalise(&o, path, n))
		return -EINVAL;
	buf_commit(out, o.len);
	return 0;
}

bool http_path_spells(const char *path, size_t n, const char *normal)
{
	for (size_t i = 0; i < n; normal++) {
		int c = http_escape_at(path + i, n - i);

		if (path[i] == *normal)
			i++;
		else if (c > 0 && c == *normal && strchr("!$&'()*+,=:@", c))
			i += 3;
		else
			return false;
	}
	return !*normal;
}

/* Is the name of this parameter, decoded, the one? The case of letters does not matter, since it
 * does not to some servers. */
static bool param_is(const char *p, size_t n, const char *name)
{
	for (size_t i = 0; i < n && p[i] != '='; name++) {
		int c = http_escape_at(p + i, n - i);

		i += c < 0 ? 1 : 3;
		if (c < 0)
			c = p[i - 1] == '+' ? ' ' : p[i - 1];
		if (!*name || http_lower((char)c) != http_lower(*name))
			return false;
	}
	return !*name;
}

int http_query_remove(const char *query, const char *name, struct buf *out)
{
	bool first = true;
	int removed = 0, r = 0;

	for (const char *p = query, *next; p; p = next) {
		size_t n = strcspn(p, "&;");

		next = p[n] ? p + n + 1 : NULL;
		if (param_is(p, n, name)) {
			removed++;
			continue;
		}
		/* Each parameter keeps the separator that stood before it. */
		r = first ? buf_append(out, p, n) : buf_append(out, p - 1, n + 1);
		if (r < 0)
			return r;
		first = false;
	}
	return removed;
}

static int add_plain(struct buf *out, const char *s)
{
	int r = 0;

	for (; *s && r == 0; s++) {
		char escape[3];
		struct out o = {escape, 0};

		if (http_is((unsigned char)*s, HTTP_PLAIN)) {
			r = buf_append(out, s, 1);
			continue;
		}
		put_escape(&o, (unsigned char)*s);
		r = buf_append(out, escape, sizeof(escape));
	}
	return r;
}

int http_query_add(struct buf *out, const char *name, const char *value)
{
	int r = buf_len(out) ? buf_append(out, "&", 1) : 0;

	if (r == 0)
		r = add_plain(out, name);
	if (r == 0)
		r = buf_append(out, "=", 1);
	return r < 0 ? r : add_plain(out, value);
}
