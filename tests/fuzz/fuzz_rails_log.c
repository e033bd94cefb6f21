/*
 * A log of the ledger. Whatever its bytes are: what is read of it are rows within bounds; a log
 * that was cut anywhere has the first batches of the whole one; what was encoded is read again, and
 * a changed bit of it is noticed. The input is a list of rows, or (first byte odd) the log itself.
 */
#include "fuzz.h"

#include "base/limits_rails.h"
#include "rails/log.h"

#include <errno.h>
#include <stdio.h>

static const struct rails_log_head head = {.number = 3, .first = 7, .salt = "0123456789abcde"};

enum { SEEN_MAX = 4096 };

struct seen {
	uint64_t rows, bytes, batches;
	uint64_t hash, hashes[SEEN_MAX]; /* after each batch */
};

static int on_batch(void *arg, struct rails_log_rows rows)
{
	struct seen *seen = arg;
	struct rails_log_row row;

	while (rails_log_next(&rows, &row) > 0) {
		MUST(row.name.space < RAILS_SPACES && rails_is_id(row.name.id));
		MUST(row.p + row.len <= rows.end);
		MUST(row.offset <= LEDGER_JOURNAL_MAX);
		seen->rows++;
		seen->bytes += row.len;
		seen->hash = (seen->hash ^ row.offset ^ row.is_removal) * 0x100000001b3u;
		for (uint32_t i = 0; i < row.len; i++)
			seen->hash = (seen->hash ^ row.p[i]) * 0x100000001b3u;
	}
	if (seen->batches < SEEN_MAX)
		seen->hashes[seen->batches] = seen->hash;
	seen->batches++;
	return 0;
}

/* The first batches of what is cut are those of the whole. */
static void cut_at(const uint8_t *p, size_t cut, const struct seen *whole)
{
	static struct seen part;
	uint8_t *copy = malloc(cut ? cut : 1);
	struct rails_log_end end;
	int r;

	MUST(copy);
	if (cut)
		memcpy(copy, p, cut);
	part = (struct seen){0};
	r = rails_log_scan(copy, cut, &head, head.first, on_batch, &part, &end);
	free(copy);
	MUST(part.batches <= whole->batches);
	if (part.batches && part.batches <= SEEN_MAX)
		MUST(part.hashes[part.batches - 1] == whole->hashes[part.batches - 1]);
	if (r == 0)
		MUST(end.bytes <= cut && end.next == head.first + part.batches &&
		     end.last <= end.bytes);
}

static void check(const uint8_t *p, size_t n)
{
	static struct seen whole;
	struct rails_log_end end;
	int r;

	whole = (struct seen){0};
	r = rails_log_scan(p, n, &head, head.first, on_batch, &whole, &end);
	MUST(r == 0 || r == -EBADMSG);
	for (size_t i = 0; i <= 16; i++)
		cut_at(p, n * i / 16, &whole);
}

/* A log of rows that the input says; then one byte is changed, or none. */
static void check_made(struct input *in)
{
	struct buf batch, log;
	uint64_t number = head.first, rows = 0;
	static struct seen seen;
	struct rails_log_end end;
	size_t change;
	int r;

	buf_init(&batch, LEDGER_BATCH_MAX);
	buf_init(&log, 4u << 20);
	change = input_byte(in) | (size_t)input_byte(in) << 8;
	while (in->n > 2) {
		unsigned count = input_byte(in) % 5;

		MUST(rails_log_begin(&batch) == 0);
		for (unsigned i = 0; i < count; i++) {
			struct rails_log_row row = {.offset = input_byte(in)};
			size_t len = input_byte(in);

			row.len = (uint32_t)(len < in->n ? len : in->n);
			row.p = in->p;
			row.is_removal = row.offset == 255;
			snprintf(row.name.id, sizeof(row.name.id), "%020x", (unsigned)len);
			MUST(rails_log_add(&batch, &row) == 0);
			in->p += row.len;
			in->n -= row.len;
		}
		MUST(rails_log_end(&batch, &head, number++, count) == 0);
		MUST(buf_append(&log, buf_data(&batch), buf_len(&batch)) == 0);
		rows += count;
	}
	seen = (struct seen){0};
	r = rails_log_scan(buf_data(&log), buf_len(&log), &head, head.first, on_batch, &seen, &end);
	MUST(r == 0 && end.next == number && end.bytes == buf_len(&log) && seen.rows == rows);
	check(buf_data(&log), buf_len(&log));
	if (buf_len(&log) > 0) {
		uint8_t *at = log.data + log.start + change % buf_len(&log);

		/* The change is noticed, and is damage but in the last batch. */
		*at ^= 1;
		seen = (struct seen){0};
		r = rails_log_scan(buf_data(&log), buf_len(&log), &head, head.first, on_batch,
				   &seen, &end);
		MUST(r == -EBADMSG || end.next == number - 1);
		check(buf_data(&log), buf_len(&log));
	}
	buf_done(&batch);
	buf_done(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	struct rails_log_head got;
	uint8_t raw[LOG_ALIGN], again[LOG_ALIGN];

	if (input_byte(&in) % 2) {
		check(in.p, in.n);
		if (rails_log_head_decode(&got, in.p, in.n) == 0) {
			rails_log_head_encode(&got, raw);
			MUST(rails_log_head_decode(&got, raw, sizeof(raw)) == 0);
			rails_log_head_encode(&got, again);
			MUST(memcmp(raw, again, sizeof(raw)) == 0);
		}
	} else {
		check_made(&in);
	}
	return 0;
}
