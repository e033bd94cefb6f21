/*
 * The form of an audit row; see audit.h.
 *
 * Values are escaped (\xHH for control bytes, backslash and what is not ASCII), so no byte from a
 * box can end a field or a line.
 */
#include "store/audit_row.h"

#include "base/sha.h"
#include "base/str.h"
#include "wire/field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define R(name) FIELD_NAMED(audit_row, name)
static const struct wire_named_field fields[] = {
	R(seq), R(time_ms), R(kind), R(about), R(exec_id), R(host), R(port), R(method), R(path),
	R(rule), R(verdict), R(reason), R(address), R(bytes_up), R(bytes_down), R(duration_ms),
	R(status), R(count), R(credential), R(by), R(why), {0}};
/* clang-format on */

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

	for (const struct wire_named_field *f = fields; f->key && r == 0; f++) {
		bool is_number = f->field.kind == FIELD_U64;
		uint64_t number = is_number ? wire_field_number(&f->field, row) : 0;
		const char *text = is_number ? NULL : wire_field_text(&f->field, row);

		if (number)
			r = buf_printf(out, "%s=%" PRIu64 "\t", f->key, number);
		if (!text)
			continue;
		r = buf_printf(out, "%s=", f->key);
		if (r == 0)
			r = put_value(out, text);
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
	for (const struct wire_named_field *f = fields; f->key; f++) {
		uint64_t number;

		if (strcmp(key, f->key) != 0)
			continue;
		if (f->field.kind == FIELD_U64)
			return str_parse_u64(value, UINT64_MAX, &number) &&
					       wire_field_put_number(&f->field, &l->row, number)
				       ? 0
				       : -EBADMSG;
		(void)wire_field_put_text(&f->field, &l->row, value);
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
