/* Fields of flat JSON; see fields.h. What is not such an object simply has no fields. */
#include "cli/fields.h"

#include <stdlib.h>
#include <string.h>

enum { REPLACEMENT = 0xfffd };

struct field_sink {
	char *at;
	size_t room; /* without the NUL */
};

/* A rune that does not fit ends the text: no half of one is left. */
static void put_rune(struct field_sink *s, uint32_t r)
{
	char bytes[4];
	size_t n = 0;

	if (r < 0x80) {
		bytes[n++] = (char)r;
	} else if (r < 0x800) {
		bytes[n++] = (char)(0xc0 | r >> 6);
	} else if (r < 0x10000) {
		bytes[n++] = (char)(0xe0 | r >> 12);
		bytes[n++] = (char)(0x80 | (r >> 6 & 0x3f));
	} else {
		bytes[n++] = (char)(0xf0 | r >> 18);
		bytes[n++] = (char)(0x80 | (r >> 12 & 0x3f));
		bytes[n++] = (char)(0x80 | (r >> 6 & 0x3f));
	}
	if (r >= 0x80)
		bytes[n++] = (char)(0x80 | (r & 0x3f));
	if (n > s->room) {
		s->room = 0;
		return;
	}
	memcpy(s->at, bytes, n);
	s->at += n;
	s->room -= n;
}

/* Four hex digits at p, or -1. */
static int32_t hex4(const char *p)
{
	int32_t v = 0;

	for (int i = 0; i < 4; i++) {
		char c = p[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			return -1;
		v = v << 4 | digit;
	}
	return v;
}

/* What stands after a backslash at p; returns what follows it. */
static const char *take_escape(const char *p, struct field_sink *s)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found = *p ? strchr(from, *p) : NULL;
	int32_t v, low;

	if (found) {
		put_rune(s, (uint32_t)to[found - from]);
		return p + 1;
	}
	v = *p == 'u' ? hex4(p + 1) : -1;
	if (v < 0)
		return NULL;
	p += 5;
	if (v >= 0xd800 && v < 0xdc00 && p[0] == '\\' && p[1] == 'u') {
		low = hex4(p + 2);
		if (low >= 0xdc00 && low < 0xe000) {
			v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
			p += 6;
		}
	}
	put_rune(s, v == 0 || (v >= 0xd800 && v < 0xe000) ? REPLACEMENT : (uint32_t)v);
	return p;
}

/* A string that begins at p, behind its quote; what follows it, or NULL if it has no end. */
static const char *take_string(const char *p, char *ret, size_t size)
{
	struct field_sink s = {.at = ret, .room = size - 1};

	while (p && *p && *p != '"') {
		if (*p == '\\') {
			p = take_escape(p + 1, &s);
			continue;
		}
		/* Bytes of one rune are kept together or not at all. */
		size_t n = 1;

		while ((p[n] & 0xc0) == 0x80)
			n++;
		if (n <= s.room) {
			memcpy(s.at, p, n);
			s.at += n;
			s.room -= n;
		} else {
			s.room = 0;
		}
		p += n;
	}
	*s.at = 0;
	return p && *p == '"' ? p + 1 : NULL;
}

bool field_text(const char *json, const char *key, char *ret, size_t size)
{
	const char *p = json;
	char name[64];
	bool is_null;

	ret[0] = 0;
	if (*p++ != '{')
		return false;
	while (*p == '"') {
		p = take_string(p + 1, name, sizeof(name));
		if (!p || *p++ != ':')
			break;
		is_null = *p == 'n';
		if (*p == '"') {
			p = take_string(p + 1, ret, size);
			if (!p)
				break;
		} else {
			size_t n = strcspn(p, ",}"), cut = n < size ? n : size - 1;

			memcpy(ret, p, cut);
			ret[cut] = 0;
			p += n;
		}
		if (strcmp(name, key) == 0 && !is_null)
			return true;
		ret[0] = 0;
		p += *p == ',';
	}
	ret[0] = 0;
	return false;
}

uint64_t field_u64(const char *json, const char *key)
{
	char text[24];

	return field_text(json, key, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}
