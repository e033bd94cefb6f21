/*
 * Logs of the ledger as bytes: batches in, rows out, and back; no I/O. What they are for is in
 * rails/ledger.h.
 *
 *	head    u8[8] "coverail", u32 version, u32 CRC-32C of the rest, u64 number, u64 the first
 *	        batch's, u8[16] salt; zeros, to LOG_ALIGN
 *	batch   u32 magic, u32 CRC-32C of what follows, u32 bytes of all, u32 rows, u64 number,
 *	        u8[16] the log's salt, u64 0; rows; zeros, to LOG_ALIGN
 *	row     u64 offset, u32 bytes, u8 space, u8 what, u16 0, u8[20] id, u8[4] 0; bytes;
 *	        zeros, to 8
 *
 * The salt is random, so that neither what an earlier log left in the file nor what a row holds is
 * a batch of this one.
 */
#pragma once

#include "base/buf.h"
#include "rails/ledger.h"

enum { LOG_ALIGN = 64, LOG_SALT = 16, LOG_BATCH_HEAD = 48, LOG_ROW_HEAD = 40 };

struct rails_log_head {
	uint64_t number, first;
	uint8_t salt[LOG_SALT];
};
void rails_log_head_encode(const struct rails_log_head *h, uint8_t ret[LOG_ALIGN]);
/* -EBADMSG; -EPROTONOSUPPORT of a newer Cove. */
int rails_log_head_decode(struct rails_log_head *ret, const uint8_t *p, size_t n);

struct rails_log_row {
	struct rails_name name;
	bool is_removal;
	uint64_t offset;
	const uint8_t *p; /* borrowed */
	uint32_t len;
};

/* Batches are made in a buffer: begin, rows, end. */
int rails_log_begin(struct buf *b);
int rails_log_add(struct buf *b, const struct rails_log_row *row);
int rails_log_end(struct buf *b, const struct rails_log_head *h, uint64_t number, uint32_t rows);

/* The rows of one batch. */
struct rails_log_rows {
	const uint8_t *p, *end;
};
/* 1 and a row, 0 at the end. */
int rails_log_next(struct rails_log_rows *rows, struct rails_log_row *ret);

/* The batch at p with that number. Its bytes with padding, or 0: there is none. */
uint32_t rails_log_batch(const uint8_t *p, size_t n, const struct rails_log_head *h,
			 uint64_t number, struct rails_log_rows *ret);

/* By its head alone: is there one, whole or torn? */
bool rails_log_may_begin(const uint8_t *p, size_t n, const struct rails_log_head *h,
			 uint64_t number);

struct rails_log_end {
	uint64_t next;	/* the number of the batch that comes next */
	uint32_t bytes; /* where it goes, counted from the p that was given */
	uint32_t last;	/* where the last one begins; bytes where there is none */
};
/* All batches at p, the first of which has that number. -EBADMSG: one is bad, and a later one is
 * good. on_batch may be NULL; an error of it ends the scan. */
typedef int rails_on_batch(void *arg, struct rails_log_rows rows);
int rails_log_scan(const uint8_t *p, size_t n, const struct rails_log_head *h, uint64_t next,
		   rails_on_batch *on_batch, void *arg, struct rails_log_end *ret);
