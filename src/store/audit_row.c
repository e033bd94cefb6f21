/*
 * The form of an audit row; see audit.h.
 *
 * Values are escaped (\xHH for control bytes, backslash and what is not ASCII), so no byte from a
 * box can end a field or a line.
 */
#include "store/audit_row.h"

#include "base/sha256.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER(f)                                       \
	{                                               \
#f, offsetof(struct audit_row, f), true \
	}
#define TEXT(f)                                          \
	{                                                \
#f, offsetof(struct audit_row, f), false \
	}

static const struct {
	const char *key;
	size_t offset;
	bool is_number;
} fields[] = {
	NUMBER(seq),	     NUMBER(time_ms), TEXT(kind),    NUMBER(about),    NUMBER(exec_id),
	TEXT(host),	     NUMBER(port),    TEXT(method),  TEXT(path),       TEXT(rule),
	TEXT(verdict),	     TEXT(reason),    TEXT(address), NUMBER(bytes_up), NUMBER(bytes_down),
	NUMBER(duration_ms), NUMBER(status),  NUMBER(count), TEXT(credential), TEXT(by),
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static void *field_at(const struct audit_row *r, size_t i)
{
	return (void *)((uintptr_t)r + fields[i].offset);
}

/* ---- the form of a row ---- */

static int put_value(struct buf *out, const char *s)
{
	size_t n = strnlen(s, AUDIT_TEXT_MAX);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint8_t c = (uint8_t)s[i];

		if (c < 0x20 || c > 0x7e || c == '\\')
			r = buf_printf(out, "\\x%02x", c);
		else
			r = buf_append(out, &c, 1);
	}
	return r;
}

static int unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		char pair[3] = {0};
		char *end;
		long byte;

		if (*s != '\\') {
			*to++ = *s;
			continue;
		}
		if (s[1] != 'x' || !s[2] || !s[3])
			return -EBADMSG;
		memcpy(pair, s + 2, 2);
		byte = strtol(pair, &end, 16);
		if (*end || byte <= 0)
			return -EBADMSG;
		*to++ = (char)byte;
		s += 3;
	}
	*to = 0;
	return 0;
}

int audit_row_pack(struct buf *out, const struct audit_row *row)
{
	int r = 0;

	for (size_t i = 0; i < FIELD_COUNT && r == 0; i++) {
		const char *const *text = field_at(row, i);
		const uint64_t *number = field_at(row, i);

		if (fields[i].is_number && *number)
			r = buf_printf(out, "%s=%" PRIu64 "\t", fields[i].key, *number);
		if (fields[i].is_number || !*text)
			continue;
		r = buf_printf(out, "%s=", fields[i].key);
		if (r == 0)
			r = put_value(out, *text);
		if (r == 0)
			r = buf_append(out, "\t", 1);
	}
	return r;
}

int audit_row_format(struct buf *out, const struct audit_row *row, char last[AUDIT_HASH + 1])
{
	size_t at = buf_len(out);
	int r = audit_row_pack(out, row);

	if (r == 0)
		r = buf_printf(out, "prev=%s\t", last);
	if (r < 0)
		return r;
	sha256_hex(buf_data(out) + at, buf_len(out) - at, last);
	return buf_printf(out, "hash=%s\n", last);
}

static int take_field(struct audit_line *l, char *key, char *value)
{
	if (strcmp(key, "prev") == 0) {
		l->prev = value;
		return 0;
	}
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		if (fields[i].is_number)
			return str_parse_u64(value, UINT64_MAX, field_at(&l->row, i)) ? 0
										      : -EBADMSG;
		*(char **)field_at(&l->row, i) = value;
		return unescape(value);
	}
	return -EBADMSG;
}

/* Fields up to the end of the text, each with its tab. */
static int take_fields(struct audit_line *l, char *text)
{
	while (*text) {
		char *end = strchr(text, '\t'), *value = strchr(text, '=');

		if (!end || !value || value > end)
			return -EBADMSG;
		*value++ = *end++ = 0;
		if (take_field(l, text, value) < 0)
			return -EBADMSG;
		text = end;
	}
	return 0;
}

int audit_row_unpack(struct audit_row *ret, char *text)
{
	struct audit_line l = {0};
	int r = take_fields(&l, text);

	if (r < 0 || l.prev || !l.row.kind)
		return -EBADMSG;
	*ret = l.row;
	return 0;
}

int audit_row_parse(struct audit_line *ret, char *line, size_t len)
{
	static const char mark[] = "\thash=";
	size_t tail = sizeof(mark) - 1 + AUDIT_HASH;
	char own[AUDIT_HASH + 1];

	*ret = (struct audit_line){0};
	if (len <= tail || memcmp(line + len - tail, mark, sizeof(mark) - 1) != 0 ||
	    strlen(line) != len)
		return -EBADMSG;
	sha256_hex(line, len - tail + 1, own);
	ret->hash = line + len - AUDIT_HASH;
	if (strcmp(own, ret->hash) != 0)
		return -EBADMSG;
	line[len - tail + 1] = 0;
	if (take_fields(ret, line) < 0)
		return -EBADMSG;
	return ret->prev && ret->row.seq && ret->row.kind ? 0 : -EBADMSG;
}

void audit_first_hash(const char *name, char ret[AUDIT_HASH + 1])
{
	sha256_hex(name, strlen(name), ret);
}

bool audit_chain_add(struct audit_chain *c, const struct audit_line *line)
{
	if (line->row.seq != c->rows + 1 || strcmp(line->prev, c->last) != 0)
		return false;
	c->rows++;
	memcpy(c->last, line->hash, sizeof(c->last));
	return true;
}
