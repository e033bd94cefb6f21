/* Rows of a journal; see row.h. */
#include "rails/row.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/limits_rails.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define ROW_MAGIC 0x31776f72u /* "row1" */

enum { AT_CRC = 4, AT_LENGTH = 8, AT_TYPE = 12, AT_NUMBER = 16, AT_TIME = 24, FIELD_HEAD = 4 };

enum row_field_kind { ROW_NUMBER, ROW_TEXT, ROW_DIGEST };

struct row_field {
	uint8_t tag, kind;
	uint16_t offset;
};

#define ROW_FIELD(tag, kind, name)                        \
	{                                                 \
		tag, kind, offsetof(struct run_row, name) \
	}

/* In the order of their tags, which stand in journals: only ever added to. */
static const struct row_field fields[] = {
	ROW_FIELD(1, ROW_NUMBER, fence),
	ROW_FIELD(2, ROW_NUMBER, ms),
	ROW_FIELD(3, ROW_NUMBER, attempt),
	ROW_FIELD(4, ROW_NUMBER, flags),
	ROW_FIELD(5, ROW_NUMBER, how),
	ROW_FIELD(6, ROW_NUMBER, until_ms),
	ROW_FIELD(7, ROW_NUMBER, about),
	ROW_FIELD(8, ROW_NUMBER, version),
	ROW_FIELD(9, ROW_NUMBER, tokens_in),
	ROW_FIELD(10, ROW_NUMBER, tokens_out),
	ROW_FIELD(11, ROW_NUMBER, cost_micros),
	ROW_FIELD(12, ROW_NUMBER, exec_id),
	ROW_FIELD(13, ROW_NUMBER, retries),
	ROW_FIELD(14, ROW_NUMBER, backoff_ms),
	ROW_FIELD(15, ROW_NUMBER, result.size),
	ROW_FIELD(20, ROW_TEXT, id),
	ROW_FIELD(21, ROW_TEXT, parent),
	ROW_FIELD(22, ROW_TEXT, name),
	ROW_FIELD(23, ROW_TEXT, kind),
	ROW_FIELD(24, ROW_TEXT, position),
	ROW_FIELD(25, ROW_TEXT, key),
	ROW_FIELD(26, ROW_TEXT, request),
	ROW_FIELD(27, ROW_TEXT, owner),
	ROW_FIELD(28, ROW_TEXT, holder),
	ROW_FIELD(29, ROW_TEXT, entry),
	ROW_FIELD(30, ROW_TEXT, by),
	ROW_FIELD(31, ROW_TEXT, from),
	ROW_FIELD(32, ROW_TEXT, text),
	ROW_FIELD(33, ROW_TEXT, reason),
	ROW_FIELD(34, ROW_TEXT, schema),
	ROW_FIELD(35, ROW_TEXT, who),
	ROW_FIELD(36, ROW_TEXT, metadata),
	ROW_FIELD(37, ROW_TEXT, origin),
	ROW_FIELD(38, ROW_TEXT, box),
	ROW_FIELD(39, ROW_TEXT, snapshot),
	ROW_FIELD(40, ROW_TEXT, profile),
	ROW_FIELD(41, ROW_TEXT, depends),
	ROW_FIELD(50, ROW_TEXT, result.bytes),
	ROW_FIELD(51, ROW_DIGEST, result.digest),
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static void put_u32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put_u64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint32_t padded(uint32_t n)
{
	return (n + 7) & ~7u;
}

/* The bytes of a field; a number's are put into `number`. */
static struct rails_bytes field_bytes(const struct row_field *f, const struct run_row *row,
				      uint8_t number[8])
{
	const char *at = (const char *)row + f->offset;
	struct rails_bytes b = {0};
	uint64_t v;

	switch ((enum row_field_kind)f->kind) {
	case ROW_NUMBER:
		memcpy(&v, at, sizeof(v));
		put_u64(number, v);
		b.p = number;
		for (; v; v >>= 8)
			b.len++;
		break;
	case ROW_TEXT:
		memcpy(&b, at, sizeof(b));
		break;
	case ROW_DIGEST:
		b = (struct rails_bytes){at, strlen(at)};
		break;
	}
	return b;
}

size_t run_row_room(const struct run_row *row)
{
	size_t n = ROW_HEAD + 7;
	uint8_t number[8];

	for (size_t i = 0; i < FIELDS; i++)
		n += FIELD_HEAD + field_bytes(&fields[i], row, number).len;
	return n;
}

int run_row_encode(const struct run_row *row, uint8_t *p, size_t max)
{
	uint32_t n = ROW_HEAD, whole;
	uint8_t number[8];

	if (max > RUN_ROW_MAX)
		max = RUN_ROW_MAX;
	if (max < ROW_HEAD)
		return -ENOBUFS;
	for (size_t i = 0; i < FIELDS; i++) {
		struct rails_bytes b = field_bytes(&fields[i], row, number);

		if (b.len == 0)
			continue;
		if (b.len > max - n || max - n - b.len < FIELD_HEAD)
			return -ENOBUFS;
		put_u32(p + n, fields[i].tag | (uint32_t)b.len << 8);
		memcpy(p + n + FIELD_HEAD, b.p, b.len);
		n += FIELD_HEAD + (uint32_t)b.len;
	}
	whole = padded(n);
	if (whole > max)
		return -ENOBUFS;
	memset(p + n, 0, whole - n);
	put_u32(p, ROW_MAGIC);
	put_u32(p + AT_LENGTH, n - ROW_HEAD);
	put_u32(p + AT_TYPE, row->type);
	put_u64(p + AT_NUMBER, row->number);
	put_u64(p + AT_TIME, row->time_ms);
	put_u32(p + AT_CRC, crc32c(p + AT_LENGTH, whole - AT_LENGTH));
	return (int)whole;
}

static bool field_take(struct run_row *row, const struct row_field *f, const uint8_t *p, size_t n)
{
	struct rails_bytes b = {p, n};
	char *at = (char *)row + f->offset;
	uint64_t v = 0;

	switch ((enum row_field_kind)f->kind) {
	case ROW_NUMBER:
		if (n > 8 || p[n - 1] == 0)
			return false;
		for (size_t i = n; i > 0; i--)
			v = v << 8 | p[i - 1];
		memcpy(at, &v, sizeof(v));
		return true;
	case ROW_TEXT:
		memcpy(at, &b, sizeof(b));
		return true;
	case ROW_DIGEST:
		if (n != sizeof(row->result.digest) - 1 || memchr(p, 0, n))
			return false;
		memcpy(at, p, n);
		return true;
	}
	return false;
}

/* In the order of their tags, each once, none empty: so a row has one form. */
static bool fields_take(struct run_row *row, const uint8_t *p, uint32_t n)
{
	unsigned last = 0, i = 0;

	while (n > 0) {
		uint32_t head, len;
		uint8_t tag;

		if (n < FIELD_HEAD)
			return false;
		head = get_u32(p);
		tag = (uint8_t)head;
		len = head >> 8;
		if (tag <= last || len == 0 || len > n - FIELD_HEAD)
			return false;
		while (i < FIELDS && fields[i].tag < tag)
			i++;
		if (i < FIELDS && fields[i].tag == tag &&
		    !field_take(row, &fields[i], p + FIELD_HEAD, len))
			return false;
		last = tag;
		p += FIELD_HEAD + len;
		n -= FIELD_HEAD + len;
	}
	return true;
}

int run_row_decode(struct run_row *ret, const uint8_t *p, size_t n)
{
	uint32_t length, whole, type;

	if (n < ROW_HEAD)
		return 0;
	length = get_u32(p + AT_LENGTH);
	type = get_u32(p + AT_TYPE);
	if (get_u32(p) != ROW_MAGIC || length > RUN_ROW_MAX - ROW_HEAD)
		return -EBADMSG;
	whole = padded(ROW_HEAD + length);
	if (whole > n)
		return 0;
	if (crc32c(p + AT_LENGTH, whole - AT_LENGTH) != get_u32(p + AT_CRC))
		return -EBADMSG;
	for (uint32_t i = ROW_HEAD + length; i < whole; i++)
		if (p[i] != 0)
			return -EBADMSG;
	*ret = (struct run_row){.type = (enum run_row_type)type,
				.number = get_u64(p + AT_NUMBER),
				.time_ms = get_u64(p + AT_TIME)};
	if (!fields_take(ret, p + ROW_HEAD, length))
		return -EBADMSG;
	return type == 0 || type >= RUN_ROW_TYPES ? -EPROTONOSUPPORT : (int)whole;
}
