/*
 * Rows of a journal: bytes in, rows out, and back; no I/O.
 *
 * A row is a head of ROW_HEAD bytes and its fields; numbers are little-endian.
 *
 *	head    u32 magic, u32 CRC-32C of what follows with the padding, u32 bytes of the fields,
 *	        u32 type, u64 number, u64 ms since 1970
 *	field   u8 tag, u24 length, bytes: of a number as few as it needs
 *	padding zeros, to a multiple of 8
 *
 * Rows are numbered from 1. A field that is 0 or empty is not written, one with an unknown tag is
 * skipped; a row of an unknown type is of a newer Cove.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROW_HEAD = 32 };

/* The numbers stand in journals: only ever added to. */
enum run_row_type {
	RUN_ROW_CREATED = 1,
	RUN_ROW_LEASE,	  /* fence, holder, ms */
	RUN_ROW_RELEASED, /* fence: its holder is done with it, the run is not over */
	/* fence, position, key, kind, name, attempt, flags, retries, depends: hashes, one after the
	 * other; result: the arguments */
	RUN_ROW_STEP_START,
	RUN_ROW_STEP_DONE, /* fence, position, attempt, result, tokens and so on */
	RUN_ROW_STEP_FAILED,
	RUN_ROW_STEP_RESOLVED, /* position, how, by, reason, result */
	RUN_ROW_WAIT_OPENED,   /* fence, position, key, kind, name, text, schema, until, who */
	RUN_ROW_WAIT_ANSWERED, /* position, how, by, from, reason, result */
	RUN_ROW_SIGNAL,	       /* name, by, result */
	RUN_ROW_SIGNAL_TAKEN,  /* fence, position, key, name, about: the number of the signal */
	RUN_ROW_LOG,	       /* fence, level in how, text, result: fields as JSON */
	RUN_ROW_STATUS,	       /* how: enum run_status; fence or by, text, result, origin */
	RUN_ROW_VALUE,	       /* in a journal of values: name, version, by, result */
	RUN_ROW_TYPES
};

/* Borrowed bytes. */
struct rails_bytes {
	const void *p;
	size_t len;
};

/* One result, input or answer: in line, or as a blob. */
struct run_payload {
	struct rails_bytes bytes; /* in line */
	char digest[65];	  /* of the blob; "" for in line */
	uint64_t size;
};

/* All that a row may say. Texts have no NUL in them; whoever reads copies them out. */
struct run_row {
	enum run_row_type type;
	uint64_t number, time_ms;
	uint64_t fence, ms, attempt, flags, how, until_ms, about, version;
	uint64_t tokens_in, tokens_out, cost_micros, exec_id, retries, backoff_ms;
	struct rails_bytes id, parent, name, kind, position, key, request, owner, holder, entry;
	struct rails_bytes by, from, text, reason, schema, who, metadata, origin, box, snapshot;
	struct rails_bytes profile, depends;
	struct run_payload result; /* also an input, an answer, a value */
};

/* Appends it to p, which has max bytes of room. How many, or -ENOBUFS. */
int run_row_encode(const struct run_row *row, uint8_t *p, size_t max);
/* The bytes that it takes at most. */
size_t run_row_room(const struct run_row *row);

/* The row at p. Bytes that it takes; 0: there is no whole row (what is there may be being written);
 * -EBADMSG: what is there is no row; -EPROTONOSUPPORT: of a newer Cove. Texts point into p. */
int run_row_decode(struct run_row *ret, const uint8_t *p, size_t n);

/* Where in a journal a row lies. */
struct run_place {
	uint64_t offset;
	uint32_t bytes;
};
