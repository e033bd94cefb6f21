/* Logs of the ledger as bytes; see log.h. */
#include "rails/log.h"

#include "base/crc.h"
#include "base/limits_rails.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { LOG_VERSION = 1, WHAT_ROW = 1, WHAT_REMOVAL = 2 };

#define LOG_MAGIC   "coverail"
#define BATCH_MAGIC 0x68637462u /* "btch" */

/* As they lie in the file. */
struct log_head {
	uint8_t magic[8];
	uint32_t version, crc;
	uint64_t number, first;
	uint8_t salt[LOG_SALT], zeros[16];
};

struct log_batch {
	uint32_t magic, crc, bytes, rows;
	uint64_t number;
	uint8_t salt[LOG_SALT];
	uint64_t zeros;
};

struct log_row {
	uint64_t offset;
	uint32_t len;
	uint8_t space, what;
	uint16_t zeros;
	char id[RAILS_ID], more[4];
};

_Static_assert(sizeof(struct log_head) == LOG_ALIGN, "heads are not padded");
_Static_assert(sizeof(struct log_batch) == LOG_BATCH_HEAD, "heads are not padded");
_Static_assert(sizeof(struct log_row) == LOG_ROW_HEAD, "heads are not padded");
_Static_assert((int)LOG_ROW_HEAD + 8 <= (int)RAILS_ROW_COST, "callers reckon with that");

static size_t to_8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static size_t to_align(size_t n)
{
	return (n + LOG_ALIGN - 1) & ~(size_t)(LOG_ALIGN - 1);
}

bool rails_is_id(const char *id)
{
	return id && strlen(id) == RAILS_ID && strspn(id, "0123456789abcdef") == RAILS_ID;
}

/* ---- heads ---- */

static uint32_t head_crc(const struct log_head *h)
{
	const size_t from = offsetof(struct log_head, number);

	return crc32c((const uint8_t *)h + from, sizeof(*h) - from);
}

void rails_log_head_encode(const struct rails_log_head *h, uint8_t ret[LOG_ALIGN])
{
	struct log_head raw = {.version = htole32(LOG_VERSION),
			       .number = htole64(h->number),
			       .first = htole64(h->first)};

	memcpy(raw.magic, LOG_MAGIC, sizeof(raw.magic));
	memcpy(raw.salt, h->salt, LOG_SALT);
	raw.crc = htole32(head_crc(&raw));
	memcpy(ret, &raw, sizeof(raw));
}

int rails_log_head_decode(struct rails_log_head *ret, const uint8_t *p, size_t n)
{
	struct log_head raw;

	if (n < sizeof(raw))
		return -EBADMSG;
	memcpy(&raw, p, sizeof(raw));
	if (memcmp(raw.magic, LOG_MAGIC, sizeof(raw.magic)) != 0 ||
	    le32toh(raw.crc) != head_crc(&raw))
		return -EBADMSG;
	if (le32toh(raw.version) != LOG_VERSION)
		return -EPROTONOSUPPORT;
	ret->number = le64toh(raw.number);
	ret->first = le64toh(raw.first);
	memcpy(ret->salt, raw.salt, LOG_SALT);
	return 0;
}

/* ---- batches out ---- */

static int add_zeros(struct buf *b, size_t n)
{
	static const uint8_t zeros[LOG_ALIGN];

	return n ? buf_append(b, zeros, n) : 0;
}

int rails_log_begin(struct buf *b)
{
	buf_clear(b);
	return add_zeros(b, LOG_BATCH_HEAD);
}

int rails_log_add(struct buf *b, const struct rails_log_row *row)
{
	struct log_row raw = {.offset = htole64(row->offset),
			      .len = htole32(row->len),
			      .space = (uint8_t)row->name.space,
			      .what = row->is_removal ? WHAT_REMOVAL : WHAT_ROW};
	int r;

	memcpy(raw.id, row->name.id, RAILS_ID);
	r = buf_append(b, &raw, sizeof(raw));
	if (r == 0 && row->len)
		r = buf_append(b, row->p, row->len);
	return r < 0 ? r : add_zeros(b, to_8(row->len) - row->len);
}

int rails_log_end(struct buf *b, const struct rails_log_head *h, uint64_t number, uint32_t rows)
{
	const size_t from = offsetof(struct log_batch, bytes);
	struct log_batch raw = {
		.magic = htole32(BATCH_MAGIC), .rows = htole32(rows), .number = htole64(number)};
	uint8_t *p;

	if (add_zeros(b, to_align(buf_len(b)) - buf_len(b)) < 0)
		return -ENOMEM;
	p = b->data + b->start;
	raw.bytes = htole32((uint32_t)buf_len(b));
	memcpy(raw.salt, h->salt, LOG_SALT);
	memcpy(p, &raw, sizeof(raw));
	raw.crc = htole32(crc32c(p + from, buf_len(b) - from));
	memcpy(p + offsetof(struct log_batch, crc), &raw.crc, sizeof(raw.crc));
	return 0;
}

/* ---- batches in ---- */

int rails_log_next(struct rails_log_rows *rows, struct rails_log_row *ret)
{
	struct log_row raw;

	if (rows->p == rows->end)
		return 0;
	memcpy(&raw, rows->p, sizeof(raw));
	*ret = (struct rails_log_row){.name = {.space = (enum rails_space)raw.space},
				      .is_removal = raw.what == WHAT_REMOVAL,
				      .offset = le64toh(raw.offset),
				      .p = rows->p + LOG_ROW_HEAD,
				      .len = le32toh(raw.len)};
	memcpy(ret->name.id, raw.id, RAILS_ID);
	rows->p += LOG_ROW_HEAD + to_8(ret->len);
	return 1;
}

/* Are they rows, exactly so many, and zeros behind them? Sets where they end. */
static bool rows_are_good(struct rails_log_rows *rows, const uint8_t *end, uint32_t count)
{
	const uint8_t *p = rows->p;
	struct log_row raw;
	char id[RAILS_ID + 1] = "";

	for (uint32_t i = 0; i < count; i++) {
		uint32_t len;

		if ((size_t)(end - p) < LOG_ROW_HEAD)
			return false;
		memcpy(&raw, p, sizeof(raw));
		len = le32toh(raw.len);
		memcpy(id, raw.id, RAILS_ID);
		if (raw.space >= RAILS_SPACES || !rails_is_id(id) ||
		    (raw.what != WHAT_ROW && raw.what != WHAT_REMOVAL) ||
		    le64toh(raw.offset) > LEDGER_JOURNAL_MAX || len > LEDGER_BATCH_MAX ||
		    to_8(len) > (size_t)(end - p) - LOG_ROW_HEAD)
			return false;
		p += LOG_ROW_HEAD + to_8(len);
	}
	rows->end = p;
	if ((size_t)(end - p) >= LOG_ALIGN)
		return false;
	while (p < end)
		if (*p++ != 0)
			return false;
	return true;
}

static uint32_t find_batch(const uint8_t *p, size_t n, const struct rails_log_head *h,
			   uint64_t *ret_number, struct rails_log_rows *ret)
{
	const size_t from = offsetof(struct log_batch, bytes);
	struct log_batch raw;
	uint32_t bytes;

	if (n < sizeof(raw))
		return 0;
	memcpy(&raw, p, sizeof(raw));
	bytes = le32toh(raw.bytes);
	if (le32toh(raw.magic) != BATCH_MAGIC || memcmp(raw.salt, h->salt, LOG_SALT) != 0 ||
	    bytes < LOG_ALIGN || bytes > n || bytes % LOG_ALIGN != 0 ||
	    crc32c(p + from, bytes - from) != le32toh(raw.crc))
		return 0;
	*ret = (struct rails_log_rows){.p = p + sizeof(raw)};
	*ret_number = le64toh(raw.number);
	return rows_are_good(ret, p + bytes, le32toh(raw.rows)) ? bytes : 0;
}

uint32_t rails_log_batch(const uint8_t *p, size_t n, const struct rails_log_head *h,
			 uint64_t number, struct rails_log_rows *ret)
{
	uint64_t got;
	uint32_t bytes = find_batch(p, n, h, &got, ret);

	return bytes && got == number ? bytes : 0;
}

bool rails_log_may_begin(const uint8_t *p, size_t n, const struct rails_log_head *h,
			 uint64_t number)
{
	struct log_batch raw;

	if (n < sizeof(raw))
		return false;
	memcpy(&raw, p, sizeof(raw));
	return le32toh(raw.magic) == BATCH_MAGIC && le64toh(raw.number) == number &&
	       memcmp(raw.salt, h->salt, LOG_SALT) == 0;
}

/* Is there a good one with a greater number anywhere behind? */
static bool has_later(const uint8_t *p, size_t n, const struct rails_log_head *h, uint64_t number)
{
	struct rails_log_rows rows;
	uint64_t got;

	for (size_t at = 0; at < n; at += LOG_ALIGN)
		if (find_batch(p + at, n - at, h, &got, &rows) && got >= number)
			return true;
	return false;
}

int rails_log_scan(const uint8_t *p, size_t n, const struct rails_log_head *h, uint64_t next,
		   rails_on_batch *on_batch, void *arg, struct rails_log_end *ret)
{
	struct rails_log_rows rows;
	size_t at = 0, last = 0;
	bool has_any = false;
	uint32_t bytes;

	while ((bytes = rails_log_batch(p + at, n - at, h, next, &rows)) != 0) {
		int r = on_batch ? on_batch(arg, rows) : 0;

		if (r < 0)
			return r;
		last = at;
		at += bytes;
		next++;
		has_any = true;
	}
	if (has_later(p + at, n - at, h, next))
		return -EBADMSG;
	*ret = (struct rails_log_end){
		.next = next, .bytes = (uint32_t)at, .last = (uint32_t)(has_any ? last : at)};
	return 0;
}
